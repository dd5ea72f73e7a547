"""Read a dataset folder with all its faults: where `nnd_tasks.datasets.read_table` raises an error, this adds a finding."""

from __future__ import annotations

import stat
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.check.findings import EXAMPLES, Finding, Row, differing, finding
from nnd_tasks.datasets import CARD, SPLIT, split_card
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_text
from nnd_tasks.schema import RESERVED_COLUMNS, SCHEMA_VERSION
from nnd_tasks.yaml_json import parse_yaml

_AGAIN = "build the set again"
#: Bytes (packed and unpacked) and rows that a parquet file may have; our largest config has 50,000 tests and 40 MB.
_MAX_BYTES, _MAX_ROWS = 2_000_000_000, 5_000_000


@dataclass
class Config:
    """The tests of one config.

    Attributes:
        name: of the config.
        table: as stored, shape (tests, columns).
    """

    name: str
    table: pa.Table

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """Column -> cells."""
        return {name: self.table.column(name).to_pylist() for name in self.table.column_names}

    @property
    def extra(self) -> list[str]:
        """Columns that the schema does not know."""
        return [name for name in self.table.column_names if name not in RESERVED_COLUMNS]

    def rows(self, indices: Iterable[int], details: Mapping[int, str] | None = None) -> list[Row]:
        """Return the tests at ``indices`` as a finding lists them."""
        ids = self.columns.get("test_id", [])
        return [Row(i, str(ids[i] or "") if i < len(ids) else "", (details or {}).get(i, "")) for i in indices]

    def pairs_of(self, indices: Sequence[int]) -> list[Row]:
        """Return the tests at ``indices`` with their two candidates as details, one of each pair before repeated ones."""
        high, low = self.columns["high"], self.columns["low"]
        order = distinct_first(indices, [(high[i], low[i]) for i in indices])
        return self.rows(order, {i: differing(high[i], low[i]) for i in order[:EXAMPLES]})


def distinct_first(indices: Sequence[int], keys: Sequence[Hashable]) -> list[int]:
    """Return ``indices`` with the first of each key before the rest, so that examples differ."""
    first: dict[Hashable, int] = {}
    for i, key in zip(indices, keys, strict=True):
        first.setdefault(key, i)
    chosen = set(first.values())
    return [*first.values(), *(i for i in indices if i not in chosen)]


@dataclass
class Loaded:
    """A dataset folder.

    Attributes:
        folder: where it is.
        name: of the set: what its card says, else the folder's name.
        header: YAML header of the card; empty where it cannot be read.
        card: the whole card.
        body: Markdown of the card, without its header.
        known: names of all configs: those of the card in its order, then others that have data.
        configs: those that are checked and have data.
        default: the config that is taken where none is named.
        findings: faults that came up in reading it.
    """

    folder: Path
    name: str
    header: dict[str, Any]
    card: str
    body: str
    known: list[str]
    configs: dict[str, Config]
    default: str
    findings: list[Finding] = field(default_factory=list)


def load(folder: Path, only: Collection[str] = ()) -> Loaded:
    """Read the card and the data.

    Args:
        folder: a folder with a card.
        only: configs to read; if empty, all.

    Raises:
        NNDError: ``folder`` is not a dataset of tests at all, or has no such config.
    """
    text = read_text(folder / CARD).replace("\r\n", "\n")
    header, body, findings = _split(text)
    stored = sorted({path.parent.name for path in folder.glob(f"*/{SPLIT}-*.parquet")})
    if not stored and "nnd_schema_version" not in header:
        raise NNDError(
            f"{folder}: no NND dataset is there (no CONFIG/{SPLIT}-*.parquet, no nnd_schema_version in {CARD})"
        )
    entries = [e for e in _list(header.get("configs")) if isinstance(e, dict) and "config_name" in e]
    listed = [str(entry["config_name"]) for entry in entries]
    names = list(dict.fromkeys([*listed, *stored]))
    for name in only:
        if name not in names:
            raise NNDError(f"{folder}: it has no config {name!r}, only {', '.join(names)}")
    if header:
        findings += _check_listing(header, listed, stored)
    configs: dict[str, Config] = {}
    for name in only or names:
        if name not in stored:  # reported above; a name such as ../../x would lead out of the folder
            continue
        config = _read(folder, name, findings)
        if config is not None:
            configs[name] = config
    marked = [str(entry["config_name"]) for entry in entries if entry.get("default")]
    own = str(header.get("nnd_set") or folder.resolve().name)
    return Loaded(folder, own, header, text, body, names, configs, next(iter([*marked, *names]), ""), findings)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _split(text: str) -> tuple[dict[str, Any], str, list[Finding]]:
    """Return the card's header, its body, and what is wrong with the header."""
    parts = split_card(text)
    body = parts[1] if parts else text
    where = f"the YAML header of {CARD}"
    problem = f"{where} {'is not a mapping' if parts else 'is missing: it stands between two lines ---'}"
    try:
        header = parse_yaml(parts[0], where) if parts else None
    except NNDError as error:
        header, problem = None, str(error)
    if isinstance(header, dict):
        return header, body, []
    return {}, body, [finding("card_header", problem, f"correct it, or {_AGAIN}")]


def _check_listing(header: Mapping[str, Any], listed: Sequence[str], stored: Sequence[str]) -> list[Finding]:
    findings = []
    if header.get("nnd_schema_version") != SCHEMA_VERSION:
        message = (
            f"{CARD} names schema version {header.get('nnd_schema_version')!r}; this release reads {SCHEMA_VERSION}"
        )
        findings.append(finding("schema_version", message, f"{_AGAIN} with this release"))
    for name in listed:
        if name not in stored:
            message = f"{CARD} lists the config {name!r}, but there is no {name}/{SPLIT}-*.parquet"
            findings.append(
                finding("data_missing", message, f"{_AGAIN}, or take the config out of the header", config=name)
            )
    for name in stored:
        if name not in listed:
            message = f"there are data of a config {name!r} that {CARD} does not list"
            findings.append(
                finding("config_unlisted", message, "list it under configs in the header, or remove it", config=name)
            )
    return findings


def _read(folder: Path, name: str, findings: list[Finding]) -> Config | None:
    """Return a config, or None where it has no readable data."""
    files = sorted((folder / name).glob(f"{SPLIT}-*.parquet"))
    tables = []
    for file in files:
        try:
            _check_parquet(file)
            table = pq.read_table(file)
            table.validate(full=True)  # otherwise invalid UTF-8 would come up only where a text is used
            tables.append(table)
        except NNDError as error:
            findings.append(finding("data_unreadable", str(error), _AGAIN, config=name))
            return None
        except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: names that are no UTF-8
            message = f"{name}/{file.name} cannot be read as parquet ({reason_of(error)})"
            findings.append(finding("data_unreadable", message, _AGAIN, config=name))
            return None
    if not tables:
        return None
    try:
        return Config(name, pa.concat_tables(tables))
    except pa.ArrowException as error:
        message = f"the files of {name} have different columns ({reason_of(error)})"
        findings.append(finding("data_unreadable", message, _AGAIN, config=name))
        return None


def _check_parquet(path: Path) -> None:
    """Check that a parquet file can be read in bounded time and memory.

    Raises:
        NNDError: it is a FIFO or a device, too large, or unfolds to too much.
        OSError: it cannot be read; `pyarrow.ArrowException` likewise.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise NNDError(f"{path.parent.name}/{path.name} is not a regular file")
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if max(status.st_size, size) > _MAX_BYTES or metadata.num_rows > _MAX_ROWS:
        raise NNDError(
            f"{path.parent.name}/{path.name} has {metadata.num_rows:,} rows and {max(status.st_size, size) / 1e9:.1f} GB; "
            f"a set may have {_MAX_ROWS:,} and {_MAX_BYTES / 1e9:.0f} GB"
        )
