"""Read a dataset folder with all its faults: where `nnd_tasks.datasets.read_table` raises an error, this adds a finding."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.check.card import read_names
from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.check.rules import Tests, finding
from nnd_tasks.cleaning import clean_name
from nnd_tasks.datasets import CARD, SPLIT, config_names, read_report, split_card
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_text
from nnd_tasks.schema import (
    DOCUMENT_COLUMNS,
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    RESERVED_COLUMNS,
    SCHEMA_VERSION,
    SPANS_COLUMN,
    category_slugs,
    severity_slugs,
)
from nnd_tasks.tables import SPANS, TYPES, fingerprint
from nnd_tasks.yaml_json import parse_yaml

#: Bytes (unpacked) and rows that a parquet file may have; our largest config has 50,000 tests and 40 MB.
_MAX_BYTES, _MAX_ROWS = 2_000_000_000, 5_000_000
_FAULTS = (pa.ArrowException, OSError, ValueError)  # ValueError: names that are no UTF-8


@dataclass
class Folder:
    """A dataset folder.

    Attributes:
        path: where it is.
        name: of the set: what its card says, else the folder's name.
        header: YAML header of the card; empty where it cannot be read.
        card: the whole card.
        report: config -> its part of ``build_report.json``.
        known: names of all configs: those of the card in its order, then others that have data.
        default: the config that is taken where none is named.
        configs: those that are checked and have data in the columns of the schema.
        findings: faults that came up in reading it.
    """

    path: Path
    name: str
    header: dict[str, Any]
    card: str
    report: dict[str, Any]
    known: list[str]
    default: str
    configs: dict[str, Tests] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def read_folder(path: Path, only: Collection[str] = ()) -> Folder:
    """Read the card and the data of a folder; with ``only``, of these configs.

    Raises:
        NNDError: it is not a dataset of tests at all, or has no such config.
    """
    card = read_text(path / CARD)
    parts, header, findings = split_card(card), None, []
    try:
        header = parse_yaml(parts[0], CARD) if parts else None
    except NNDError as error:
        findings.append(finding("card_header", str(error)))
    if not isinstance(header, dict):
        findings = findings or [finding("card_header", "it is no mapping between two lines ---")]
        header = {}
    stored = sorted({file.parent.name for file in path.glob(f"*/{SPLIT}-*.parquet")})
    if not stored and "nnd_schema_version" not in header:
        raise NNDError(f"{path}: no NND dataset is there (no CONFIG/{SPLIT}-*.parquet, no nnd_schema_version in {CARD})")
    listed = config_names(header)
    known = list(dict.fromkeys([*listed, *stored]))
    if unknown := [name for name in only if name not in known]:
        raise NNDError(f"{path}: it has no config {unknown[0]!r}, only {', '.join(known)}")
    if header:
        if (version := header.get("nnd_schema_version")) != SCHEMA_VERSION:
            findings.append(finding("schema_version", f"{version!r}; this release reads {SCHEMA_VERSION}"))
        findings += [finding("data_missing", name, name) for name in listed if name not in stored]
        findings += [finding("config_unlisted", name, name) for name in stored if name not in listed]
    marked = [str(entry["config_name"]) for entry in header.get("configs") or [] if isinstance(entry, dict) and entry.get("default")]
    folder = Folder(
        path,
        str(header.get("nnd_set") or path.resolve().name),
        header,
        card,
        read_report(path),
        known,
        [*marked, *known][0],
        findings=findings,
    )
    for name in only or known:
        if name in stored:  # a name such as ../../x would lead out of the folder
            folder.findings += _read_config(folder, name)
    return folder


def _read_config(folder: Folder, name: str) -> Iterator[Finding]:
    try:
        table = pa.concat_tables(_read_parquet(file) for file in sorted((folder.path / name).glob(f"{SPLIT}-*.parquet")))
    except (NNDError, *_FAULTS) as error:
        yield finding("data_unreadable", reason_of(error), name)
        return
    faults = list(_check_columns(table, name))
    yield from faults
    if {one.code for one in faults} - {"column_name"}:
        return
    for column, kind in _TYPES.items():
        if column in table.column_names:
            table = table.set_column(table.column_names.index(column), column, table[column].cast(kind))
    for column, check in (("category", category_slugs), ("severity", severity_slugs)):
        try:
            check(table[column].to_pylist() if column in table.column_names else [])
        except NNDError as error:
            yield finding("category_name", str(error), name)
    part = folder.report.get(name)
    if isinstance(part, dict) and part.get("fingerprint", found := fingerprint(table)) != found:
        yield finding("report_mismatch", f"fingerprint {found}, build_report.json says {part['fingerprint']}", name)
    frame = pd.DataFrame(table.to_pydict(), dtype=object)
    languages = read_names(folder.header.get("language"))
    folder.configs[name] = Tests(name, frame, languages, clean_name(name) in folder.known)


def _read_parquet(path: Path) -> pa.Table:
    """Return a parquet file in which all texts are UTF-8; raise NNDError where it is no regular file or too large."""
    if not path.is_file():
        raise NNDError(f"{path.name} is not a regular file")
    metadata = pq.read_metadata(path)
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if size > _MAX_BYTES or metadata.num_rows > _MAX_ROWS:
        raise NNDError(f"{path.name} has {metadata.num_rows:,} rows in {size:,} bytes; a set may have {_MAX_ROWS:,} in {_MAX_BYTES:,}")
    table = pq.read_table(path)
    table.validate(full=True)
    return table


_TYPES = {name: TYPES[kind] for name, kind in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}.items()} | {SPANS_COLUMN: SPANS}


def _check_columns(table: pa.Table, config: str) -> Iterator[Finding]:
    for name in table.column_names:
        if name in DOCUMENT_COLUMNS:
            yield finding("column_name", f"{name!r} is in use for documents", config, severity=Severity.ERROR)
        elif name not in RESERVED_COLUMNS and not name.isidentifier():
            yield finding("column_name", repr(name), config)
    if not table.num_rows:
        yield finding("no_tests", "", config)
    for name, kind in _TYPES.items():
        if name not in table.column_names:
            if name in REQUIRED_COLUMNS:
                yield finding("column_missing", repr(name), config)
            continue
        try:
            column = table[name].cast(kind)
        except _FAULTS as error:
            yield finding("column_type", f"{name!r} is {table[name].type}, not {kind} ({reason_of(error)})", config)
            continue
        if name in REQUIRED_COLUMNS and column.null_count:
            rows = [i for i, cell in enumerate(column.to_pylist()) if cell is None]
            yield finding("cell_empty", f"{name!r} in row {rows[0]}", config, count=len(rows))
