"""Dataset folders: find, load and fingerprint them (`nnd_tasks.sets.write` writes them).

A folder is what the Hugging Face hub calls a dataset repository: ``README.md`` (the card, whose YAML header lists the
configs) and one parquet file per config. ``datasets.load_dataset(folder)`` reads it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import expand, parse_json, parse_yaml, read_text
from nnd_tasks.schema import SCHEMA_VERSION, check_table, fingerprint
from nnd_tasks.splits import SHARES
from nnd_tasks.text import did_you_mean

CARD = "README.md"
REPORT = "build_report.json"
SPLIT = "test"
#: Folder of preference data in a dataset folder, and its config for the default config of the tests.
PREFERENCE_CONFIG = "preference"
#: Folder of single judgements in a dataset folder, and their config for the config `authors` of the tests.
JUDGEMENTS = "judgements"
#: What a card says of preference data begins so.
PREFERENCE_SECTION = "## Preference data"
#: Where a header ends, as `huggingface_hub.repocard.REGEX_YAML_BLOCK` has it: importing that takes a tenth of a second.
_HEADER = re.compile(r"\s*---\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_MAX_REPORT_BYTES = 100_000_000
_MAX_ROWS = 10_000_000


def nnd_home() -> Path:
    """Find the folder for everything that users build: ``$NND_HOME``, else the platform's user data directory.

    Raises:
        NNDError: ``$NND_HOME`` names a file, an unknown user's home, a name that is no UTF-8, or a loop of symbolic links.
    """
    configured = os.environ.get("NND_HOME")
    try:
        home = expand(configured or _default_home())
    except NNDError as error:
        raise NNDError(f"NND_HOME={error}" if configured else f"{error}, with NND_HOME") from error
    if home.exists() and not home.is_dir():
        raise NNDError(f"NND_HOME={configured}: is a file; name a folder, or unset it for {_default_home()}")
    return home


def _default_home() -> Path:
    return Path(platformdirs.user_data_dir("nnd-tasks", False))


def dataset_folder(name: str) -> Path:
    """Name the folder where the dataset ``name`` is built by default; it need not exist."""
    return nnd_home() / "nnd" / name


def tasks_dir() -> Path:
    """Find the folder of our task YAMLs and recipes, in a wheel as well as in an editable install.

    Raises:
        NNDError: the installation lacks it.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "task_yamls", package.parent / "task_yamls"):
        if (folder / "_base").is_file():
            return folder
    raise NNDError(f"{package}: its task_yamls folder is missing; install nnd-tasks again")


def user_tasks_dir() -> Path:
    """Name the folder of the task YAMLs and recipes of sets that the user made."""
    return nnd_home() / "task_yamls"


def results_dir() -> Path:
    """Name the folder where runs are saved, and looked for, where the user names no other."""
    return nnd_home() / "results"


def sources_folder() -> Path:
    """Name the folder where a publisher's file can be put by hand."""
    return nnd_home() / "sources"


def list_source_folders() -> list[Path]:
    """List the folders that are searched for publishers' files: that of ``$NND_SOURCES``, then `sources_folder`.

    Raises:
        NNDError: ``$NND_SOURCES`` names no folder.
    """
    configured = os.environ.get("NND_SOURCES")
    if not configured:
        return [sources_folder()]
    if not expand(configured).is_dir():
        raise NNDError(f"NND_SOURCES={configured}: there is no such folder; name another, or unset it")
    return [expand(configured), sources_folder()]


def find_dataset(path: str) -> Path | None:
    """Find the local folder of a dataset, or None when there is none.

    ``nnd/NAME`` is looked for under `nnd_home`, then, as `datasets.load_dataset` does, relative to the current
    directory; any other path is taken as it is.
    """
    candidates = [expand(path)]
    namespace, _, name = path.partition("/")
    if namespace == "nnd" and name:
        candidates.insert(0, dataset_folder(name))
    for folder in candidates:
        if (folder / CARD).is_file():
            return folder
    return None


def look_up_set(name: str) -> Path | None:
    """Find the folder of a set that is built here, or None; ``name`` is a set, or the path of a dataset folder."""
    # A bare name is a set, even where a folder of that name lies around.
    return (None if "/" in name else find_dataset(f"nnd/{name}")) or find_dataset(name)


def built_sets() -> list[str]:
    """List the names of the folders of built sets."""
    parent = dataset_folder("")
    try:
        names = [path.name for path in parent.iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted(name for name in names if not name.startswith("."))


# ---------------------------------------------------------------- reading


def parse_card(text: str, source: str) -> tuple[dict[str, Any], str]:
    """Parse the header of a card, which may come from a stranger, and the Markdown below it.

    The header ends where `huggingface_hub.RepoCard` ends it, which itself reads YAML without limits.

    Raises:
        NNDError: the header is not a YAML mapping, or exceeds the limits of `parse_yaml`; begins with ``source``.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # The pattern takes quadratic time over empty lines; no header needs many.
    match = None if re.search(r"\n{1000}", text) else _HEADER.match(text)
    header = parse_yaml(match[1], f"{source}: its header cannot be read") if match else None
    if match is None or not isinstance(header, dict):
        raise NNDError(f"{source}: it has no YAML header between two lines of ---; build the set again")
    return header, text[match.end() :]


def read_card(folder: Path) -> tuple[dict[str, Any], str]:
    """Read the header and the Markdown of the card of a folder; raises as `read_text` and `parse_card` do."""
    path = folder / CARD
    return parse_card(read_text(path), str(path))


def read_header(folder: Path, *, any_version: bool = False) -> dict[str, Any]:
    """Read the card's YAML header; raise NNDError when ``folder`` is not an NND dataset (of our schema version)."""
    path = folder / CARD
    if not path.is_file():
        raise NNDError(f"{folder}: no NND dataset is there (it has no {CARD})")
    header, _ = read_card(folder)
    if "nnd_schema_version" not in header:
        raise NNDError(f"{folder}: no NND dataset is there (its {CARD} names no nnd_schema_version)")
    version = header["nnd_schema_version"]
    if version != SCHEMA_VERSION and not any_version:
        later = isinstance(version, int) and version > SCHEMA_VERSION
        advice = "it is of a later release: upgrade nnd-tasks" if later else "build the set again"
        raise NNDError(f"{folder}: schema version {version}, this release reads {SCHEMA_VERSION}; {advice}")
    _check_names(path, header)
    return header


def _check_names(path: Path, header: Mapping[str, Any]) -> None:
    """Raise NNDError for a name or path in a card that could lead out of its folder: a card may come from a stranger."""
    name = header.get("nnd_set")
    if name is not None and not is_name(name):
        raise NNDError(f"{path}: nnd_set {name!r}: a set is named by letters, digits, _, - and .")
    for entry in _entries(header):
        config = str(entry.get("config_name", ""))
        if not is_name(config):
            raise NNDError(f"{path}: config {config!r}: a config is named by letters, digits, _, - and .")
        ours = entry.get("data_files") in (list_files(config), list_files(f"{JUDGEMENTS}/{config}"))
        if not (ours or _kind_of(entry) == PREFERENCE_CONFIG) or "data_dir" in entry:
            raise NNDError(f"{path}: config {config!r} takes data from elsewhere than its folder; build the set again")


def list_files(config: str) -> list[dict[str, str]]:
    """Write what a card says of the files of a config."""
    return [{"split": SPLIT, "path": f"{config}/{SPLIT}-*.parquet"}]


def version_of(digest: str) -> str:
    """Write the version of a config with this fingerprint; `datasets` keeps what it loads of a folder by names and versions."""
    return f"0.0.{int(digest[:8], 16)}"


def judgements_name(config: str) -> str:
    """Name the config of the single judgements behind a config: ``authors`` -> ``judgements``, ``cnn`` -> ``cnn_judgements``."""
    return JUDGEMENTS if config == "authors" else f"{config}_{JUDGEMENTS}"


def read_judgements(folder: Path, config: str) -> pa.Table | None:
    """Read the single judgements behind a config (`nnd_tasks.ceiling.judgements`); None where the set has none.

    Raises:
        NNDError: their file cannot be read.
    """
    name = judgements_name(config)
    return read_config(folder / JUDGEMENTS, name) if (folder / JUDGEMENTS / name).is_dir() else None


def preference_files(config: str) -> list[dict[str, str]]:
    """Write what a card says of the files of a config of preference data (`nnd_tasks.training.training_pairs`)."""
    return [{"split": split, "path": f"{PREFERENCE_CONFIG}/{config}/{split}-*.parquet"} for split in SHARES]


def without_preferences(body: str) -> str:
    """Take out of the Markdown of a card what it says of preference data."""
    return re.sub(rf"^{PREFERENCE_SECTION}\n.*?(?=^## )", "", body, flags=re.MULTILINE | re.DOTALL)


def is_name(name: Any) -> bool:
    """Tell whether a set or a config can be called ``name``: letters with their marks and digits of any script, _, - and ."""
    return (
        isinstance(name, str)
        and name[:1] not in ("", "-", ".")
        and all(character in "_-." or unicodedata.category(character)[0] in "LMN" for character in name)
    )


def _entries(header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List what a header says of configs, of tests and of preference data."""
    entries = header.get("configs")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _kind_of(entry: Mapping[str, Any]) -> str:
    files, name = entry.get("data_files"), str(entry.get("config_name"))
    if files == list_files(f"{JUDGEMENTS}/{name}"):
        return JUDGEMENTS
    of_preferences = isinstance(files, list) and files and all(file in preference_files(name) for file in files)
    return PREFERENCE_CONFIG if of_preferences else ""


def config_names(header: Mapping[str, Any], *kinds: str) -> list[str]:
    """List the names of the configs that a card's header lists: those of tests, or of `JUDGEMENTS` or `PREFERENCE_CONFIG`."""
    return [str(entry["config_name"]) for entry in _entries(header) if _kind_of(entry) in (kinds or ("",))]


def default_config(header: Mapping[str, Any]) -> str:
    """Name the config that is taken where none is named; ``""`` where a card lists none."""
    of_tests = [entry for entry in _entries(header) if not _kind_of(entry)]
    return str(min(of_tests, key=lambda entry: not entry.get("default"))["config_name"]) if of_tests else ""


def read_report(folder: Path) -> dict[str, Any]:
    """Read config -> its entry of ``build_report.json``; ``{}`` where that file is missing or damaged."""
    path = folder / REPORT
    try:
        report = parse_json(read_text(path, limit=_MAX_REPORT_BYTES), str(path))
    except NNDError:
        return {}
    return report if isinstance(report, dict) else {}


def list_configs(folder: Path) -> tuple[list[str], str]:
    """List the config names of a dataset folder, and the default one.

    Raises:
        NNDError: ``folder`` is not an NND dataset.
    """
    header = read_header(folder)
    names = config_names(header)
    if not names:
        raise NNDError(f"{folder}: its card lists no config; build the set again")
    return names, default_config(header)


def how_to_build(name: str) -> str:
    """Write the command that builds a set."""
    corpus = name.removeprefix("blindspot_")
    if corpus != name:
        return f"nnd stress build {name} --corpus {corpus} --source FOLDER"
    return f"nnd build {name}"


def task_yamls(folder: Path) -> list[Path]:
    """List the YAMLs in which lm-eval may find tasks, in a folder and those below it.

    Hidden files, and those in hidden folders, are left out: an editor or a killed process left them.
    """
    paths = (path for path in folder.rglob("*.yaml") if path.is_file())
    return sorted(path for path in paths if not any(name.startswith(".") for name in path.relative_to(folder).parts))


def read_table(folder: Path, config: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the tests of one config of a dataset folder, checked against the schema.

    Args:
        folder: the dataset folder.
        config: the config; None takes the default one.
        columns: those to read, which are not checked then; None takes all.

    Raises:
        NNDError: no dataset, no such config, another schema version, or an unreadable file.
    """
    names, default = list_configs(folder)
    config = config or default
    if config not in names:
        names += config_names(read_header(folder), PREFERENCE_CONFIG, JUDGEMENTS)
        hint = did_you_mean(config, names) or "name one of these"
        if config.endswith(PREFERENCE_CONFIG):
            hint = f"build it: {how_to_build(folder.name)} --{PREFERENCE_CONFIG}"
        raise NNDError(f"{folder}: it has no config {config!r}; it has {', '.join(names)}; {hint}")
    table = read_config(folder, config, columns)
    return table if columns else check_table(table, f"{folder} (config {config})")


def find_table(name: str, config: str, data: str) -> pa.Table | None:
    """Read the tests of a set that a signature names; None where it is not built here, or built from other data.

    Args:
        name: of the set, as a stranger may have written it.
        config: of the set; the default one if it is empty.
        data: fingerprint of the tests.
    """
    try:
        folder = find_dataset(name)
        table = None if folder is None else read_table(folder, config or None)
    except (NNDError, OSError, ValueError):  # the name may be no path at all
        return None
    return table if table is not None and fingerprint(table) == data else None


def read_config(folder: Path, config: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the tests of one config as its files hold them, or some of their columns.

    Raises:
        NNDError: there is no file, or one cannot be read, or has more rows than any set.
    """
    files = [path for path in sorted((folder / config).glob(f"{SPLIT}-*.parquet")) if path.is_file()]
    if not files:
        raise NNDError(f"{folder}: the data of config {config!r} is missing; build the set again")
    tables = []
    try:
        for path in files:
            with pq.ParquetFile(path) as file:  # `pyarrow.parquet.read_table` would import pandas
                if file.metadata.num_rows > _MAX_ROWS:  # a small file can hold any number of equal rows
                    raise ValueError(f"more than {_MAX_ROWS:,} rows")
                tables.append(file.read(columns).select(columns or file.schema_arrow.names))
        return pa.concat_tables(tables)
    except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: names of columns that are no UTF-8
        raise NNDError(f"{files[0]}: cannot be read as parquet ({reason_of(error)}); build the set again") from error
