"""Read a dataset folder with all its faults: where `nnd_tasks.store.read_table` raises an error, this adds a finding."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks import schema
from nnd_tasks.contribute.check.rules import Finding, Severity, Tests, finding
from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_text
from nnd_tasks.schema import clean_name, find_faults, fingerprint
from nnd_tasks.sets.licences import header_values
from nnd_tasks.store import CARD, SPLIT, config_names, default_config, read_config, read_header, read_report


@dataclass
class Folder:
    """A dataset folder.

    Attributes:
        path: where it is.
        header: YAML header of the card; empty where it cannot be read.
        card: the whole card.
        report: config -> its part of ``build_report.json``.
        names: of all configs: those of the card in its order, then others that have data.
        configs: those that are checked and have data in the columns of the schema.
        findings: faults that came up in reading it.
    """

    path: Path
    header: dict[str, Any]
    card: str
    report: dict[str, Any]
    names: list[str]
    configs: dict[str, Tests] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the set: what its card says, else the folder's."""
        return self.header.get("nnd_set") or self.path.resolve().name

    @property
    def default(self) -> str:
        """The config that is taken where none is named."""
        return default_config(self.header) or self.names[0]


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
        version = header["nnd_schema_version"]
        if version != schema.SCHEMA_VERSION:
            findings.append(finding("schema_version", f"{version}; this release reads {schema.SCHEMA_VERSION}"))
        listed = config_names(header)
        findings += [finding("data_missing", "", name) for name in listed if name not in stored]
        findings += [finding("config_unlisted", "", name) for name in stored if name not in listed]
    names = list(dict.fromkeys([*config_names(header), *stored]))
    unknown = [name for name in only if name not in names]
    if unknown:
        raise NNDError(f"{path}: it has no config {unknown[0]!r}, only {', '.join(names)}")
    folder = Folder(path, header, read_text(path / CARD), read_report(path), names, findings=findings)
    for name in only or names:
        if name in stored:
            folder.findings += _read_config(folder, name)
    return folder


def _read_config(folder: Folder, name: str) -> Iterator[Finding]:
    try:
        table, faults = find_faults(read_config(folder.path, name))
    except NNDError as error:
        yield finding("data_unreadable", str(error), name)
        return
    for code, note, rows in faults:
        yield finding(code, note, name, count=rows)
    for column in {*table.column_names} - schema.RESERVED_COLUMNS:
        if column in schema.DOCUMENT_COLUMNS:
            yield finding("column_name", f"{column!r} is in use for documents", name, severity=Severity.ERROR)
        elif not column.isidentifier():
            yield finding("column_name", repr(column), name)
    if faults:
        return
    facts = folder.report.get(name)
    if isinstance(facts, dict) and facts.get("fingerprint") not in (None, fingerprint(table)):
        yield finding("report_mismatch", "", name)
    languages = header_values(folder.header.get("language"))
    frame = pd.DataFrame(table.to_pydict(), dtype=object)
    folder.configs[name] = Tests(name, frame, languages, clean_name(name) in folder.names)
