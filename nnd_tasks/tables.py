"""Tests as tables: one row per test, in the columns and types of the schema."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import pyarrow as pa

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.schema import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    SCHEMA_VERSION,
    SPANS_COLUMN,
    category_slugs,
    severity_slugs,
)

#: Type of `nnd_tasks.schema.SPANS_COLUMN`.
SPANS = pa.list_(
    pa.struct([("start", pa.int64()), ("end", pa.int64()), ("category", pa.string()), ("severity", pa.string())])
)
_SPANS = "list of start, end, category and severity"
#: Type as `nnd_tasks.schema` names it -> as a table has it.
TYPES = {"string": pa.string(), "bool": pa.bool_(), "float64": pa.float64(), "int64": pa.int64(), _SPANS: SPANS}
#: Rows that `fingerprint` takes at a time.
_PIECE = 10_000


def check_table(table: pa.Table, where: str) -> pa.Table:
    """Return ``table`` with every column of the schema in its declared type.

    Args:
        table: one row per test.
        where: what the table is called in an error.

    Raises:
        NNDError: the table has no rows, a required column is missing or has an empty cell, a column has a wrong type, two tests
            have one id, or two categories or severities give one name of a metric.
    """
    try:
        table.validate(full=True)  # parquet from elsewhere can hold text that is not UTF-8
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise NNDError(f"{where}: cannot be read ({reason_of(error)}); build the set again") from error
    for name, kind in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS, SPANS_COLUMN: _SPANS}.items():
        if name not in table.column_names:
            if name in REQUIRED_COLUMNS:
                raise NNDError(
                    f"{where}: column {name!r} is missing; this is not an NND dataset of schema {SCHEMA_VERSION}"
                )
            continue
        wanted = TYPES[kind]
        index = table.column_names.index(name)
        if table.schema.field(name).type != wanted:
            try:
                table = table.set_column(index, name, table.column(name).cast(wanted))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise NNDError(f"{where}: column {name!r} is not of type {kind}: {reason_of(error)}") from error
        if name in REQUIRED_COLUMNS and table.column(name).null_count:
            raise NNDError(f"{where}: column {name!r} has empty cells")
    if table.num_rows == 0:
        raise NNDError(f"{where}: it holds no test")
    if len(set(table.column("test_id").to_pylist())) != table.num_rows:
        raise NNDError(f"{where}: two tests have the same test_id")
    try:
        category_slugs(table.column("category").to_pylist())
        if "severity" in table.column_names:
            severity_slugs(table.column("severity").to_pylist())
    except NNDError as error:
        raise NNDError(f"{where}: {error}") from error
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
    columns = table.select(["cluster_id", "high", "low", "category"]).to_pydict()
    categories: dict[str, int] = {}
    for category in columns["category"]:
        categories[category] = categories.get(category, 0) + 1
    candidates = set(zip(columns["cluster_id"], columns["high"], strict=True))
    candidates |= set(zip(columns["cluster_id"], columns["low"], strict=True))
    return ConfigSummary(
        name=name,
        tests=table.num_rows,
        clusters=len(set(columns["cluster_id"])),
        candidates=len(candidates),
        categories=dict(sorted(categories.items())),
        fingerprint=fingerprint(table),
    )


def pick_examples(table: pa.Table, count: int) -> list[dict[str, str]]:
    """Return up to ``count`` tests for a preview: the first of each category, then the second of each, and so on."""
    rows = table.select(["context", "high", "low", "category"]).to_pandas()
    turn = rows.groupby("category", sort=False).cumcount()
    picked: list[dict[str, str]] = rows.iloc[turn.argsort(kind="stable")[:count]].to_dict("records")
    return picked
