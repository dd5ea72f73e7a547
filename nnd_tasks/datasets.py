"""Dataset folders: write, find, load and fingerprint them.

A folder is what the Hugging Face hub calls a dataset repository: ``README.md`` (the card, whose YAML header lists the
configs) and one parquet file per config. ``datasets.load_dataset(folder)`` reads it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.card import CARD, card_text, split_card
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import changing, expand, parse_yaml, read_json, read_text, write_texts
from nnd_tasks.folders import clear, only_writer, recover, replacing
from nnd_tasks.schema import SCHEMA_VERSION
from nnd_tasks.tables import ConfigSummary, check_table, summarize
from nnd_tasks.wording import did_you_mean

if TYPE_CHECKING:
    import datasets

REPORT = "build_report.json"
SPLIT = "test"
logger = logging.getLogger(__name__)
_VERSION_KEY = b"nnd_schema_version"
_MAX_REPORT_BYTES = 100_000_000
_TRIES = 3  # to read a set that other processes replace


def nnd_home() -> Path:
    """Return the folder for everything that users build: ``$NND_HOME``, else the platform's user data directory.

    Raises:
        NNDError: ``$NND_HOME`` names no place.
    """
    configured = os.environ.get("NND_HOME")
    try:
        return expand(configured) if configured else Path(platformdirs.user_data_dir("nnd-tasks", False))
    except NNDError as error:
        raise NNDError(f"NND_HOME={error}") from error


def dataset_folder(name: str) -> Path:
    """Return where the dataset ``name`` is built by default; it need not exist."""
    return nnd_home() / "nnd" / name


def tasks_dir() -> Path:
    """Return the folder of our task YAMLs and recipes, in a wheel as well as in an editable install.

    Raises:
        NNDError: the installation lacks it.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "task_yamls", package.parent / "task_yamls"):
        if (folder / "_base").is_file():
            return folder
    raise NNDError(f"{package}: its task_yamls folder is missing; install nnd-tasks again")


def user_tasks_dir() -> Path:
    """Return the folder of the task YAMLs and recipes of sets that the user made."""
    return nnd_home() / "task_yamls"


def find_dataset(path: str) -> Path | None:
    """Return the local folder of a dataset, or None when there is none.

    ``nnd/NAME`` is looked for under `nnd_home`, then, as `datasets.load_dataset` does, relative to the current
    directory; any other path is taken as it is.
    """
    candidates = [expand(path)]
    namespace, _, name = path.partition("/")
    if namespace == "nnd" and name:
        candidates.insert(0, dataset_folder(name))
    for folder in candidates:
        if not folder.exists():
            recover(folder)
        if (folder / CARD).is_file():
            return folder
    return None


def look_up_set(name: str) -> Path | None:
    """Return the folder of a set that is built here, or None; ``name`` is a set, or the path of a dataset folder."""
    # A bare name is a set, even where a folder of that name lies around.
    return (None if "/" in name else find_dataset(f"nnd/{name}")) or find_dataset(name)


def find_set(name: str) -> Path:
    """Return the folder of a set that is built here; ``name`` is a set, or the path of a dataset folder.

    Raises:
        NNDError: there is no such set.
    """
    if (folder := look_up_set(name)) is not None:
        return folder
    path = expand(name)
    if path.is_dir():
        raise NNDError(f"{path}: no NND dataset is there (it has no {CARD})")
    if "/" in name or path.exists():
        raise NNDError(f"{path}: there is no such folder; name a dataset folder, or a set that is built here")
    raise NNDError(no_set(name))


def built_sets() -> list[str]:
    """Return the names of the folders in which sets are built, also of one that a build is just replacing."""
    parent = dataset_folder("")
    try:
        found = [path.name for path in parent.iterdir() if path.is_dir()]
    except OSError:
        return []
    moving = [match[1] for name in found if (match := re.fullmatch(r"\.(.+)\.old-[^.]*", name))]
    return sorted({*moving, *(name for name in found if not name.startswith("."))})


# ---------------------------------------------------------------- writing


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
    """Return the readable configs of a folder that is to be written; one that cannot be read is given up.

    Raises:
        NNDError: the folder holds something else than this NND dataset, or that of a later release.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return {}
    try:
        header = _read_header(folder, any_version=True)
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
        for config in _configs(header):
            try:
                tables[config] = read_table(folder, config)
            except NNDError as error:
                logger.warning("config %s is given up: %s", config, error)
    return tables


def _keep_the_rest(folder: Path, new: Path) -> None:
    """Copy into ``new`` what others put into ``folder``, such as the .git of a clone of the hub's repository."""
    if not folder.is_dir():
        return
    ours = {CARD, REPORT, *(path.parent.name for path in folder.glob(f"*/{SPLIT}-*.parquet"))}
    with suppress(NNDError):
        ours |= set(_configs(_read_header(folder, any_version=True)))
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
    timeout: float = 600.0,
) -> list[ConfigSummary]:
    """Write ``tables`` as configs of the dataset in ``folder``, beside those that it already has.

    Configs of another schema version, and those that cannot be read, are given up.

    Args:
        folder: the dataset folder; it is replaced as a whole, or not at all.
        tables: config name -> table of tests.
        header: metadata of the card (licence, languages and so on), or a function that returns it from the summaries
            of all configs. Its ``nnd_set`` names the set; a folder of another set is left alone.
        body: returns the card's Markdown from the summaries of all configs, and the reports that are known of them.
        default: the config that `datasets.load_dataset` picks when none is named (if the folder has it).
        report: what is stored per config in ``build_report.json``.
        obsolete: configs that the folder may have from before and that it must not keep.
        known: config -> summary of its table in ``tables``, where it is known already: a large table takes a while.
        timeout: seconds to wait for another process that writes the same folder.

    Returns:
        Summaries of all configs that the folder holds now.

    Raises:
        NNDError: the folder exists and is no NND dataset, cannot be written, or another process keeps it locked.
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
        write_texts({new / CARD: card, new / REPORT: json.dumps(reports, indent=2, ensure_ascii=False) + "\n"})
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


def _card(summaries: Sequence[ConfigSummary], header: Mapping[str, Any], body: str, default: str) -> str:
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
    return card_text(meta, body)


# ---------------------------------------------------------------- reading


def _read_header(folder: Path, *, any_version: bool = False) -> dict[str, Any]:
    """Return the card's YAML header; raise NNDError when ``folder`` is no NND dataset (of our schema version)."""
    path = folder / CARD
    if not folder.exists():
        recover(folder)
    try:
        parts = split_card(read_text(path))
    except NNDError as error:
        raise NNDError(f"{folder}: no NND dataset is there (its {CARD} cannot be read)") from error
    header = parse_yaml(parts[0], f"{path}: its header cannot be read") if parts else None
    if not isinstance(header, dict) or "nnd_schema_version" not in header:
        raise NNDError(f"{folder}: no NND dataset is there (its {CARD} names no nnd_schema_version)")
    found = header["nnd_schema_version"]
    if isinstance(found, int) and found > SCHEMA_VERSION and not any_version:
        raise NNDError(f"{folder}: written by a later release (schema version {found}); upgrade nnd-tasks to read it")
    if found != SCHEMA_VERSION and not any_version:
        raise NNDError(f"{folder}: schema version {found}, this release reads {SCHEMA_VERSION}; build the set again")
    _check_names(path, header)
    return header


def _check_names(path: Path, header: Mapping[str, Any]) -> None:
    """Check that names and paths in a card stay in its folder: a card may come from a stranger.

    Raises:
        NNDError: one does not.
    """
    name = header.get("nnd_set")
    if name is not None and not is_name(name):
        raise NNDError(f"{path}: nnd_set {name!r}: a set is named by letters, digits, _, - and .")
    entries = header.get("configs")
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        config = entry.get("config_name")
        if config is not None and not is_name(str(config)):
            raise NNDError(f"{path}: config {config!r}: a config is named by letters, digits, _, - and .")
        for place in _places([entry.get("data_files"), entry.get("data_dir")]):
            if PurePosixPath(place).is_absolute() or ".." in PurePosixPath(place).parts or re.search(r"[:\\]", place):
                raise NNDError(f"{path}: config {config!r} takes data from outside its folder ({place!r})")


def _places(value: Any) -> Iterator[str]:
    """Yield the paths in what a card says of data files: a path, a list of them, or by split."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _places(item)
    elif isinstance(value, dict):
        for item in [value["path"]] if "path" in value else value.values():
            yield from _places(item)


def is_name(name: Any) -> bool:
    """Tell whether a set or a config can be called ``name``; it becomes the name of a folder."""
    return isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name) is not None


def _entries(header: Mapping[str, Any]) -> list[dict[str, Any]]:
    entries = header.get("configs")
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict) and "config_name" in entry]


def _configs(header: Mapping[str, Any]) -> list[str]:
    return [str(entry["config_name"]) for entry in _entries(header)]


def read_report(folder: Path) -> dict[str, Any]:
    """Return config -> what its build stored of itself; ``{}`` where nothing is known."""
    try:
        report = read_json(folder / REPORT, limit=_MAX_REPORT_BYTES)
    except NNDError:
        return {}
    return report if isinstance(report, dict) else {}


def list_configs(folder: Path) -> tuple[list[str], str]:
    """Return the config names of a dataset folder and the default one.

    Raises:
        NNDError: ``folder`` is no NND dataset.
    """
    header = _read_header(folder)
    names = _configs(header)
    if not names:
        raise NNDError(f"{folder}: its card lists no config; build the set again")
    marked = [str(entry["config_name"]) for entry in _entries(header) if entry.get("default")]
    return names, marked[0] if marked else names[0]


def how_to_build(name: str, config: str = "") -> str:
    """Return the command that builds a set, or one config of it."""
    corpus = name.removeprefix("blindspot_")
    if corpus != name:
        return f"nnd stress build {name} --corpus {corpus} --source FOLDER"
    return f"nnd build {name}{' --rows all' if config.startswith('all_rows') else ''}"


def no_set(name: str) -> str:
    """Say that a set is not built here: how to build it, or, where there is none of this name, which may be meant."""
    package = Path(__file__).parent
    ours = {
        name
        for folder in (package / "task_yamls", package.parent / "task_yamls")
        for name in (
            *(path.name for path in folder.glob("[!_.]*") if path.is_dir() and path.name != "blindspot"),
            *(path.stem.removeprefix("nnd_") for path in folder.glob("blindspot/nnd_blindspot_*.yaml")),
        )
    }
    if name in ours:
        return f"set {name!r} is not built here; run: {how_to_build(name)}"
    own = {path.parent.name for path in dataset_folder("").glob(f"[!.]*/{CARD}")}
    plain = name.lower().replace("-", "_").removeprefix("nnd_")
    meant = did_you_mean(plain, sorted(ours | own), end=" ")
    return f"there is no set {name!r}; {meant}nnd list shows those there are"


def read_table(folder: Path, config: str | None = None) -> pa.Table:
    """Return the tests of one config of a dataset folder, checked against the schema.

    Args:
        folder: the dataset folder.
        config: the config; None takes the default one.

    Raises:
        NNDError: no dataset, no such config, another schema version, or an unreadable file.
    """
    for _ in range(_TRIES - 1):
        before = _identity(folder)
        try:
            return _read_table(folder, config)
        except NNDError:
            if _identity(folder) == before:
                raise
    return _read_table(folder, config)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return what changes when a build replaces a folder."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _read_table(folder: Path, config: str | None) -> pa.Table:
    names, default = list_configs(folder)
    config = config or default
    if config not in names:
        raise NNDError(
            f"{folder}: it has no config {config!r}, only {', '.join(names)}; build it: {how_to_build(folder.name, config)}"
        )
    files = sorted((folder / config).glob(f"{SPLIT}-*.parquet"))
    if not files:
        raise NNDError(f"{folder}: the data of config {config!r} is missing; build the set again")
    try:
        table = pa.concat_tables([pq.read_table(file) for file in files])
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: names of columns that are no UTF-8
        reason = reason_of(error)
        raise NNDError(f"{files[0]}: cannot be read as parquet ({reason}); build the set again") from error
    return check_table(table, f"{folder} (config {config})")


def load(name: str, config: str | None = None) -> datasets.Dataset:
    """Load the tests of a set that was built here, e.g. ``load("quiz_design")``.

    Args:
        name: a set, or the path of a dataset folder.
        config: the config; None takes the default one.

    Raises:
        NNDError: the set is not built, or there is none of this name.
    """
    import datasets

    return datasets.Dataset(read_table(find_set(name), config))
