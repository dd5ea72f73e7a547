"""Tests as tables: one row per test, in the columns and types of the schema."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.schema import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    SPANS_COLUMN,
    category_slugs,
    severity_slugs,
)

if TYPE_CHECKING:
    import pandas as pd

#: Type of `nnd_tasks.schema.SPANS_COLUMN`.
SPANS = pa.list_(
    pa.struct([("start", pa.int64()), ("end", pa.int64()), ("category", pa.string()), ("severity", pa.string())])
)
#: Type as `nnd_tasks.schema` names it -> as a table has it.
TYPES = {"string": pa.string(), "bool": pa.bool_(), "float64": pa.float64(), "int64": pa.int64()}
_COLUMNS = {name: TYPES[kind] for name, kind in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}.items()} | {
    SPANS_COLUMN: SPANS
}
#: Rows that `fingerprint` takes at a time.
_PIECE = 10_000


_NO_SPAN = {"start": 0, "end": 0, "category": "", "severity": ""}


def to_arrow(tests: pd.DataFrame) -> pa.Table:
    """Convert tests, whose spans are JSON, to an Arrow table with the types of the schema."""
    kinds = {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}
    arrays = {}
    for name in tests:
        if name == SPANS_COLUMN:
            cells = [[{**_NO_SPAN, **span} for span in json.loads(cell)] if cell else [] for cell in tests[name]]
            arrays[name] = pa.array(cells, SPANS)
        else:
            arrays[name] = pa.array(tests[name].to_numpy(), TYPES[kinds.get(name, "string")])
    return pa.table(arrays)


class Fault(NamedTuple):
    """What is wrong with a table.

    Attributes:
        code: as in `nnd check`.
        note: where.
        rows: how many have it.
    """

    code: str
    note: str = ""
    rows: int = 0


def find_faults(table: pa.Table) -> tuple[pa.Table, list[Fault]]:
    """Return ``table`` with the columns of the schema in their declared types, and all that is against the schema.

    Args:
        table: one row per test.
    """
    try:
        table.validate(full=True)  # parquet from elsewhere can hold text that is not UTF-8
    except (pa.ArrowException, ValueError) as error:
        return table, [Fault("data_unreadable", reason_of(error))]
    faults = [] if table.num_rows else [Fault("no_tests")]
    for name, kind in _COLUMNS.items():
        required = name in REQUIRED_COLUMNS
        if name not in table.column_names:
            if required:
                faults.append(Fault("column_missing", repr(name)))
            continue
        try:
            cells = table[name].cast(kind)
        except (pa.ArrowException, ValueError) as error:
            faults.append(Fault("column_type", f"{name!r} is no {kind} ({reason_of(error)})"))
            continue
        table = table.set_column(table.column_names.index(name), name, cells)
        if required and cells.null_count:
            faults.append(Fault("cell_empty", f"{cells.null_count:,} of {name!r}", cells.null_count))
    if faults:
        return table, faults
    ids = pc.value_counts(table["test_id"])
    if repeated := ids.filter(pc.greater(ids.field("counts"), 1)).to_pylist():
        faults.append(Fault("test_id_repeated", repr(repeated[0]["values"]), len(repeated)))
    try:
        category_slugs(table["category"].unique().to_pylist())
        if "severity" in table.column_names:
            severity_slugs(table["severity"].unique().to_pylist())
    except NNDError as error:
        faults.append(Fault("category_name", str(error)))
    return table, faults


def check_table(table: pa.Table, where: str) -> pa.Table:
    """Return ``table`` with every column of the schema in its declared type.

    Args:
        table: one row per test.
        where: what the table is called in an error.

    Raises:
        NNDError: the first of what `find_faults` finds.
    """
    table, faults = find_faults(table)
    if faults:
        raise NNDError(f"{where}: {faults[0].code.replace('_', ' ')} {faults[0].note}")
    return table


def fingerprint(table: pa.Table) -> str:
    """Return 16 hex digits that change with any cell, column name or row order of ``table``, apart from error spans.

    Spans do not affect pass rates, so a set keeps its fingerprint when they are added to it.
    """
    digest = hashlib.sha256()
    for name in table.column_names:
        if name == SPANS_COLUMN:
            continue
        column = table.column(name)
        digest.update(f"[{json.dumps(name, ensure_ascii=False)}, [".encode())
        for start in range(0, table.num_rows, _PIECE):  # a million texts as Python objects would take gigabytes
            # Extra columns may hold values that JSON lacks, such as dates.
            cells = json.dumps(column.slice(start, _PIECE).to_pylist(), ensure_ascii=False, default=repr)
            digest.update((", " if start else "").encode() + cells[1:-1].encode("utf-8"))
        digest.update(b"]]")
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class ConfigSummary:
    """Counts of one config, for the card and the listing; ``clusters`` is the number of prompts."""

    name: str
    tests: int
    clusters: int
    candidates: int
    categories: dict[str, int]
    fingerprint: str


def summarize(name: str, table: pa.Table) -> ConfigSummary:
    """Return the counts of a config.

    Args:
        name: of the config.
        table: its tests.
    """
    import pandas as pd  # slow to import

    rows = table.select(["cluster_id", "high", "low", "category"]).to_pandas()
    texts = [rows[["cluster_id", side]].set_axis(["cluster_id", "text"], axis=1) for side in ("high", "low")]
    return ConfigSummary(
        name=name,
        tests=table.num_rows,
        clusters=rows["cluster_id"].nunique(),
        candidates=len(pd.concat(texts).drop_duplicates()),
        categories=rows["category"].value_counts().sort_index().to_dict(),
        fingerprint=fingerprint(table),
    )


def pick_examples(table: pa.Table, count: int) -> list[dict[str, Any]]:
    """Return up to ``count`` tests for a preview: the first of each category, then the second of each, and so on."""
    category = table.column("category").to_pandas()
    turn = category.groupby(category, sort=False).cumcount()
    picked: list[dict[str, Any]] = table.take(turn.to_numpy().argsort(kind="stable")[:count]).to_pylist()
    return picked
