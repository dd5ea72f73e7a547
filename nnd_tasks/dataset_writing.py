"""Write dataset folders: each is replaced as a whole, so that a reader sees the earlier build or the new one."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.card import COMPOSED, Card, keep_written, sections_of
from nnd_tasks.datasets import CARD, REPORT, SPLIT, config_names, is_name, read_header, read_report, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, expand, write_texts
from nnd_tasks.folders import clear, only_writer, replacing
from nnd_tasks.schema import SCHEMA_VERSION
from nnd_tasks.tables import ConfigSummary, check_table, summarize

logger = logging.getLogger(__name__)
_VERSION_KEY = b"nnd_schema_version"


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
    with ExitStack() as stack:
        with changing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(only_writer(folder.with_name(f"{folder.name}.making"), timeout, busy))
        yield


def _existing(folder: Path, wanted: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Return the readable configs of a folder that is to be written; an unreadable one is dropped with a warning.

    Raises:
        NNDError: the folder holds something else than this NND dataset, or was written by a later release.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return {}
    try:
        header = read_header(folder, any_version=True)
    except NNDError as error:
        raise NNDError(f"{error}; what is there is left alone, choose another place with --out") from error
    version, name = header["nnd_schema_version"], header.get("nnd_set")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise NNDError(
            f"{folder}: written by a later release (schema version {version}); choose another place with --out"
        )
    if name != wanted.get("nnd_set", name):
        raise NNDError(f"{folder}: holds the set {name}; choose another place with --out")
    tables: dict[str, pa.Table] = {}
    if version == SCHEMA_VERSION:
        for config in config_names(header):
            try:
                tables[config] = read_table(folder, config)
            except NNDError as error:
                logger.warning("config %s is not kept: %s", config, error)
    return tables


def _keep_the_rest(folder: Path, new: Path) -> None:
    """Copy into ``new`` what others put into ``folder``, such as the .git of a clone of the hub's repository."""
    if not folder.is_dir():
        return
    ours = {CARD, COMPOSED, REPORT, *(path.parent.name for path in folder.glob(f"*/{SPLIT}-*.parquet"))}
    with suppress(NNDError):
        ours |= set(config_names(read_header(folder, any_version=True)))
    for entry in folder.iterdir():
        if entry.name in ours or (new / entry.name).exists():
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, new / entry.name, follow_symlinks=False)


def _write_parquet(table: pa.Table, path: Path) -> None:
    import datasets  # slow to import

    # The metadata of `features.arrow_schema` is how a parquet file declares its features to `datasets`.
    features = datasets.Features.from_arrow_schema(table.schema)
    metadata = {**(features.arrow_schema.metadata or {}), _VERSION_KEY: str(SCHEMA_VERSION).encode()}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")


def write_dataset(
    folder: Path,
    tables: Mapping[str, pa.Table],
    *,
    header: Callable[[list[ConfigSummary]], Mapping[str, Any]] | Mapping[str, Any],
    body: Callable[[list[ConfigSummary], Mapping[str, Any]], str],
    default: str,
    report: Mapping[str, Any] | None = None,
    obsolete: Collection[str] = (),
    known: Mapping[str, ConfigSummary] | None = None,
    replace: bool = False,
    timeout: float = 600.0,
) -> list[ConfigSummary]:
    """Write ``tables`` as configs of the dataset in ``folder``, beside those that it already has.

    Configs of another schema version, and those that cannot be read, are not kept.

    Args:
        folder: the dataset folder; it is replaced as a whole, or not at all.
        tables: config name -> table of tests.
        header: metadata of the card (licence, languages and so on), or a function that returns it from the summaries
            of all configs. Its ``nnd_set`` names the set; a folder of another set is left alone.
        body: returns the card's Markdown from the summaries of all configs and what is reported of them.
        default: the config that `datasets.load_dataset` picks when none is named (if the folder has it).
        report: what is stored per config in ``build_report.json``.
        obsolete: configs that are removed if the folder has them from before.
        known: config -> summary of its table in ``tables``, where there is one already: a large table takes a while.
        replace: write the card anew; otherwise what people wrote on it stays.
        timeout: seconds to wait for another process that writes the same folder.

    Returns:
        Summaries of all configs that the folder holds now.

    Raises:
        NNDError: the folder exists and is not an NND dataset, cannot be written, or another process keeps it locked.
    """
    if not tables:
        raise ValueError("write_dataset needs at least one table")
    for name in tables:
        if not is_name(name):
            raise NNDError(f"config {name!r}: a config is named by letters, digits, _, - and .")
    with changing(folder, hint="choose another place with --out"), ExitStack() as stack:
        folder = expand(folder).resolve()
        if not folder.name or not _is_text(str(folder)):
            raise NNDError(f"{folder}: no folder that a dataset can be written to; choose another place with --out")
        busy = f"{folder}: another build of this set is still running; try again when it is done"
        folder.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(only_writer(folder, timeout, busy))
        clear(folder)
        new = stack.enter_context(replacing(folder))
        merged = _existing(folder, header([]) if callable(header) else header)
        merged = {name: table for name, table in merged.items() if name not in obsolete}
        reports = {name: value for name, value in read_report(folder).items() if name in merged}
        merged |= {name: check_table(table, f"config {name}") for name, table in tables.items()}
        reports |= dict(report or {})
        for name, table in merged.items():
            _write_parquet(table, new / name / f"{SPLIT}-00000-of-00001.parquet")
        summaries = [(known or {}).get(name) or summarize(name, table) for name, table in merged.items()]
        _keep_the_rest(folder, new)
        meta = header(summaries) if callable(header) else header
        card = _card(summaries, meta, body(summaries, reports), default)
        texts = {COMPOSED: card.text(), REPORT: json.dumps(reports, indent=2, ensure_ascii=False) + "\n"}
        if not replace and (folder / CARD).is_file():
            card, clashing = keep_written(card, folder)
            for heading in clashing:
                part = f"section {heading!r}" if heading else "its beginning"
                logger.warning(
                    "%s: %s has lines that were changed by hand, and stay; --replace writes all anew", CARD, part
                )
        write_texts({new / file: text for file, text in {CARD: card.text(), **texts}.items()})
    return summaries


def _is_text(name: str) -> bool:
    """Tell whether a path can be written as UTF-8, which parquet asks for."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


#: The hub's size categories.
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
)


def _card(summaries: Sequence[ConfigSummary], header: Mapping[str, Any], body: str, default: str) -> Card:
    names = [summary.name for summary in summaries]
    chosen = default if default in names else names[0]
    tests = sum(summary.tests for summary in summaries)
    size = next((label for limit, label in _SIZES if tests < limit), "100M<n<1B")
    meta = {
        **header,
        "size_categories": [size],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": SPLIT, "path": f"{name}/{SPLIT}-*.parquet"}],
                **({"default": True} if name == chosen else {}),
            }
            for name in names
        ],
        "nnd_schema_version": SCHEMA_VERSION,
    }
    return Card(meta, sections_of(body))
