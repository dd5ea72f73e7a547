"""Read a dataset folder with all its faults: where `nnd_tasks.datasets.read_table` raises an error, this adds a finding."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks import schema
from nnd_tasks.check.rules import Finding, Severity, Tests, finding
from nnd_tasks.datasets import CARD, SPLIT, config_names, default_config, read_header, read_report
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_bytes, read_text
from nnd_tasks.schema import clean_name
from nnd_tasks.sets.licences import licence_names
from nnd_tasks.tables import SPANS, TYPES, fingerprint

#: Bytes and rows that a parquet file may have; our largest config has 50,000 tests and 40 MB.
_MAX_BYTES, _MAX_ROWS = 2_000_000_000, 5_000_000
_FAULTS = (NNDError, pa.ArrowException, OSError, ValueError)  # ValueError: names that are no UTF-8
_COLUMNS = {name: TYPES[kind] for name, kind in {**schema.REQUIRED_COLUMNS, **schema.OPTIONAL_COLUMNS}.items()}
_COLUMNS[schema.SPANS_COLUMN] = SPANS


@dataclass
class Folder:
    """A dataset folder.

    Attributes:
        path: where it is.
        header: YAML header of the card; empty where it cannot be read.
        card: the whole card.
        report: config -> its part of ``build_report.json``.
        known: names of all configs: those of the card in its order, then others that have data.
        configs: those that are checked and have data in the columns of the schema.
        findings: faults that came up in reading it.
    """

    path: Path
    header: dict[str, Any]
    card: str
    report: dict[str, Any]
    known: list[str]
    configs: dict[str, Tests] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the set: what its card says, else the folder's."""
        return self.header.get("nnd_set") or self.path.resolve().name

    @property
    def default(self) -> str:
        """The config that is taken where none is named."""
        return default_config(self.header) or self.known[0]


def read_folder(path: Path, only: Collection[str] = ()) -> Folder:
    """Read the card and the data of a folder; with ``only``, of these configs.

    Raises:
        NNDError: it is not a dataset of tests at all, or has no such config.
    """
    header, findings = {}, []
    stored = sorted({file.parent.name for file in path.glob(f"*/{SPLIT}-*.parquet")})
    try:
        header = read_header(path, any_version=True)
    except NNDError as error:
        if not stored:
            raise
        findings.append(finding("card_header", str(error)))
    else:
        if (version := header["nnd_schema_version"]) != schema.SCHEMA_VERSION:
            findings.append(finding("schema_version", f"{version}; this release reads {schema.SCHEMA_VERSION}"))
        listed = config_names(header)
        findings += [finding("data_missing", "", name) for name in listed if name not in stored]
        findings += [finding("config_unlisted", "", name) for name in stored if name not in listed]
    known = list(dict.fromkeys([*config_names(header), *stored]))
    if unknown := [name for name in only if name not in known]:
        raise NNDError(f"{path}: it has no config {unknown[0]!r}, only {', '.join(known)}")
    folder = Folder(path, header, read_text(path / CARD), read_report(path), known, findings=findings)
    for name in only or known:
        if name in stored:
            folder.findings += _read_config(folder, name)
    return folder


def _read_config(folder: Folder, name: str) -> Iterator[Finding]:
    try:
        files = sorted((folder.path / name).glob(f"{SPLIT}-*.parquet"))
        table = pa.concat_tables([_read_parquet(file) for file in files])
    except _FAULTS as error:
        yield finding("data_unreadable", reason_of(error), name)
        return
    faults = []
    for column, kind in _COLUMNS.items():
        required = column in schema.REQUIRED_COLUMNS
        if column in table.column_names:
            try:
                cells = table[column].cast(kind)
            except _FAULTS as error:
                faults.append(finding("column_type", f"{column!r} ({reason_of(error)})", name))
                continue
            table = table.set_column(table.column_names.index(column), column, cells)
            if required and (empty := cells.null_count):
                faults.append(finding("cell_empty", f"{empty:,} of {column!r}", name, count=empty))
        elif required:
            faults.append(finding("column_missing", repr(column), name))
    if not table.num_rows:
        faults.append(finding("no_tests", "", name))
    yield from faults
    for column in {*table.column_names} - schema.RESERVED_COLUMNS:
        if column in schema.DOCUMENT_COLUMNS:
            yield finding("column_name", f"{column!r} is in use for documents", name, severity=Severity.ERROR)
        elif not column.isidentifier():
            yield finding("column_name", repr(column), name)
    if faults:
        return
    frame = pd.DataFrame(table.to_pydict(), dtype=object)
    for column, name_metrics in (("category", schema.category_slugs), ("severity", schema.severity_slugs)):
        try:
            name_metrics(frame.get(column, []))
        except NNDError as error:
            yield finding("category_name", str(error), name)
    part = folder.report.get(name)
    if isinstance(part, dict) and part.get("fingerprint") not in (None, fingerprint(table)):
        yield finding("report_mismatch", "", name)
    languages = licence_names(folder.header.get("language"))
    folder.configs[name] = Tests(name, frame, languages, clean_name(name) in folder.known)


def _read_parquet(path: Path) -> pa.Table:
    """Return a parquet file in which all texts are UTF-8; raise NNDError where it is no regular file or too large."""
    file = pq.ParquetFile(pa.BufferReader(read_bytes(path, limit=_MAX_BYTES)))
    if file.metadata.num_rows > _MAX_ROWS:
        raise NNDError(f"{path}: has more than {_MAX_ROWS:,} rows")
    table = file.read()
    table.validate(full=True)
    return table
