"""Write dataset folders: each is replaced as a whole, so that a reader sees the earlier build or the new one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, expand, only_writer, read_text, rewriting, write_texts
from nnd_tasks.schema import SCHEMA_VERSION, ConfigSummary, check_table, summarize
from nnd_tasks.sets.card import CardFacts, make_card
from nnd_tasks.store import (
    CARD,
    NAME,
    PREFERENCE,
    REPORT,
    SPLIT,
    config_names,
    read_header,
    read_report,
    read_table,
)

_ELSEWHERE = "choose another place with --out"


@contextmanager
def making(folder: Path, timeout: float = 600.0) -> Iterator[None]:
    """Let one process at a time make the set in ``folder``, as its data, its task and its recipe belong together.

    Args:
        folder: the dataset folder.
        timeout: seconds to wait for another process.

    Raises:
        NNDError: another process makes it for longer than that, or the place takes no files.
    """
    busy = f"{folder}: another command is making this set; run this one again when that is done, or take another name"
    with changing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(folder.with_name(f"{folder.name}.making"), timeout, busy):
        yield


def write_dataset(
    folder: Path,
    tables: Mapping[str, pa.Table],
    *,
    card_facts: CardFacts,
    report: Mapping[str, Any],
    default: str,
    obsolete: Collection[str] = (),
    known_summaries: Mapping[str, ConfigSummary] | None = None,
    replace: bool = False,
    timeout: float = 600.0,
) -> list[ConfigSummary]:
    """Write tables as configs of the dataset in a folder, beside those that it already has.

    Args:
        folder: the dataset folder; it is replaced as a whole, or not at all.
        tables: config -> tests.
        card_facts: what the card says besides counts.
        report: config -> what is stored in ``build_report.json``.
        default: the config that `datasets.load_dataset` picks when none is named.
        obsolete: configs that are removed if the folder has them.
        known_summaries: config -> its summary, where there is one already.
        replace: forget what people wrote on the card.
        timeout: seconds to wait for another process that writes the folder.

    Returns:
        Summaries of all configs that the folder holds now.

    Raises:
        NNDError: the folder holds something else, cannot be written, or another process keeps it locked.
    """
    if wrong := [name for name in tables if not NAME.fullmatch(name)]:
        raise NNDError(f"config {wrong[0]!r}: a config is named by letters, digits, _, - and .")
    with changing(folder, hint=_ELSEWHERE), ExitStack() as stack:
        folder = expand(folder).resolve()
        if not folder.name:
            raise NNDError(f"{folder}: no folder that a dataset can be written to; {_ELSEWHERE}")
        new = stack.enter_context(rewriting(folder, timeout))
        earlier_tables = {
            name: table for name, table in _read_existing(folder, card_facts.name).items() if name not in obsolete
        }
        _keep_the_rest(folder, new)
        merged = earlier_tables | {name: check_table(table, f"config {name}") for name, table in tables.items()}
        reports = {name: details for name, details in read_report(folder).items() if name in earlier_tables} | dict(
            report
        )
        for name, table in merged.items():
            write_parquet(table, new / name / f"{SPLIT}-00000-of-00001.parquet")
        summaries = [(known_summaries or {}).get(name) or summarize(name, table) for name, table in merged.items()]
        columns = list(dict.fromkeys(column for table in merged.values() for column in table.column_names))
        earlier = read_text(folder / CARD) if (folder / CARD).is_file() and not replace else ""
        card = make_card(card_facts, summaries, columns, reports, default=default, earlier=earlier)
        write_texts({new / CARD: card, new / REPORT: json.dumps(reports, indent=2, ensure_ascii=False) + "\n"})
    return summaries


def _read_existing(folder: Path, name: str) -> dict[str, pa.Table]:
    """Return the readable configs of a folder that is to be written.

    Raises:
        NNDError: it holds something else than this set, or was written by a later release.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return {}
    try:
        header = read_header(folder, any_version=True)
    except NNDError as error:
        raise NNDError(f"{error}; what is there is left alone, {_ELSEWHERE}") from error
    version = header["nnd_schema_version"]
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise NNDError(f"{folder}: written by a later release (schema version {version}); {_ELSEWHERE}")
    if header.get("nnd_set", name) != name:
        raise NNDError(f"{folder}: holds the set {header['nnd_set']}; {_ELSEWHERE}")
    tables = {}
    for config in config_names(header) if version == SCHEMA_VERSION else ():
        try:
            tables[config] = read_table(folder, config)
        except NNDError:
            continue  # a damaged config is built again, or left out
    return tables


def _keep_the_rest(folder: Path, new: Path) -> None:
    """Copy what others put into a folder, such as the .git of a clone of the hub's repository."""
    ours = {CARD, REPORT, PREFERENCE, *(path.parent.name for path in folder.glob(f"*/{SPLIT}-*.parquet"))}
    if folder.is_dir():
        shutil.copytree(
            folder, new, symlinks=True, dirs_exist_ok=True, ignore=lambda path, _: ours if path == str(folder) else ()
        )


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with the features that `datasets` reads."""
    import datasets  # slow to import

    # The metadata of `features.arrow_schema` is how a parquet file declares its features to `datasets`.
    features = datasets.Features.from_arrow_schema(table.schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(features.arrow_schema.metadata), path, compression="zstd")
