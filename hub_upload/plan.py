"""What `nnd publish` uploads: the files of a set and its version, or what speaks against publishing it."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_text
from nnd_tasks.markdown import fenced
from nnd_tasks.run.training_pairs import without_section
from nnd_tasks.schema import OPTIONAL_COLUMNS, RESERVED_COLUMNS, SCHEMA_VERSION, SPANS_COLUMN
from nnd_tasks.sets.build import make_set
from nnd_tasks.sets.card import find_todos
from nnd_tasks.sets.catalogue import SetRecipe, list_recipes
from nnd_tasks.sets.licences import check_licences, licence_names, terms_of, texts_may_go
from nnd_tasks.sets.recipe import PREPARE, RECIPE
from nnd_tasks.store import (
    CARD,
    REPORT,
    SPLIT,
    config_names,
    find_set,
    how_to_build,
    list_configs,
    parse_card,
    read_report,
    read_table,
)
from nnd_tasks.tables import fingerprint
from nnd_tasks.task.task_yaml import dump_task_yaml, read_task_yaml
from nnd_tasks.yaml_json import dump_yaml

_QUOTED = 40  # first characters of a text that do not occur elsewhere by coincidence
#: Columns that are published with the ids: labels, but no texts and no names of people.
_LABELS = ("category", "high_first", *(name for name in OPTIONAL_COLUMNS if name != "rater"), SPANS_COLUMN)
_INSTALL = "from a clone of its repository, `pip install .` there; it is on no package index yet"


@dataclass(frozen=True)
class UploadPlan:
    """What `nnd publish` would upload.

    Attributes:
        name: of the set.
        repo: of the hub, with its namespace.
        files: path -> content; the card comes first.
        version: the tag; it changes with the data, not with the card.
        ids_only: whether ids are published, and no texts.
        notes: lines that the user should read.
    """

    name: str
    repo: str
    files: Mapping[str, bytes]
    version: str
    ids_only: bool
    notes: tuple[str, ...] = ()

    def list_files(self) -> str:
        """Return a line per file: size in bytes, SHA-256, path."""
        return "\n".join(
            f"{len(data):>12,}  {hashlib.sha256(data).hexdigest()}  {path}" for path, data in self.files.items()
        )


def make_plan(
    name: str, repo: str, *, source: str | None = None, ids_only: bool = False, dry_run: bool = False
) -> UploadPlan:
    """Check a set that is built here, and return what would be uploaded.

    Args:
        name: of the set, or its dataset folder.
        repo: of the hub, with its namespace.
        source: the publisher's files, to build the set again from; None downloads them.
        ids_only: publish ids and a recipe although the texts might be published.
        dry_run: without a source, a set that cannot be built again gives a note instead of an error.

    Raises:
        NNDError: there is no such set, its card lacks something, its licence forbids it, or a new build gives other data.
    """
    folder = find_set(name)
    header, body = _read_complete_card(folder)
    # Preference data are not uploaded; whoever has the tests builds them.
    header["configs"] = [entry for entry in header["configs"] if entry["config_name"] in config_names(header)]
    body = without_section(body)
    name = header.setdefault("nnd_set", folder.resolve().name)
    reports = read_report(folder)
    tables = {config: read_table(folder, config) for config in list_configs(folder)[0]}
    for config, table in tables.items():
        if reports.get(config, {}).get("fingerprint") != fingerprint(table):
            raise NNDError(f"{folder}: the data of config {config} is not what its build wrote; build the set again")
    terms = terms_of(name, reports)
    may_go = texts_may_go(terms)
    ids_only = ids_only or not may_go
    licences = [one for one in licence_names(header["license"]) if one != "other" or not terms]
    if ids_only:
        licences = licences or ["apache-2.0"]  # labels of synthetic errors are ours
    else:
        licences = list(dict.fromkeys([*licences, *(one for term in terms for one in term.licences)]))
        check_licences(licences, str(folder / CARD))
    header["license"] = licences[0] if len(licences) == 1 else licences
    recipe_file = list_recipes().get(name)
    recipe = recipe_file.read() if recipe_file else None
    notes = _build_again(name, recipe, tables, reports, source, dry_run=dry_run)
    use = rf'from datasets import load_dataset\n\ntests = load_dataset("{repo}", \1, split="test")'
    body = re.sub(r'import nnd_tasks\n\ntests = nnd_tasks\.load\("[^"]*", ("[^"]*")\)', use, body)
    own = _read_own_files(name, repo, recipe, ids_only) if recipe and not recipe.shipped else {}
    if ids_only:
        header["nnd_published"] = "ids"
        header.pop("nnd_schema_version")  # a clone of the repository must not be taken for a set to score models on
        body = body.replace("\n## ", f"\n{_say_ids(may_go, _commands(name, repo, recipe, reports))}\n\n## ", 1)
    elif f"nnd_{name}.yaml" in own:
        body += _SCORE.format(name=name, repo=repo)
    card, report = f"---\n{dump_yaml(header)}---\n{body}", json.dumps(reports, indent=2, ensure_ascii=False) + "\n"
    texts = {CARD: card, REPORT: report, **own}
    if ids_only:
        _check_no_texts(tables.values(), texts)
    files = {path: content.encode("utf-8") for path, content in texts.items()}
    for config, table in tables.items():
        buffer = pa.BufferOutputStream()
        pq.write_table(make_ids(table) if ids_only else table, buffer, compression="zstd")
        files[f"{config}/{SPLIT}-00000-of-00001.parquet"] = buffer.getvalue().to_pybytes()
    return UploadPlan(name, repo, files, _version(tables, ids_only), ids_only, tuple(notes))


def _read_complete_card(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the header and the Markdown of a card; raise NNDError where a person has to add something.

    A link in a stranger's folder may lead to any file of the user, so files outside of the folder are refused, too.
    """
    for path in (folder / CARD, folder / REPORT, *folder.glob(f"*/{SPLIT}-*.parquet")):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise NNDError(f"{path}: is a link to a place outside of the folder; put the file itself there")
    header, body = parse_card(read_text(folder / CARD), str(folder / CARD))
    missing = [key for key in ("license", "language") if not header.get(key)]
    missing += find_todos(header, body)
    if missing:
        raise NNDError(
            f"{folder / CARD}: it lacks {' and '.join(missing)}; write that under `facts` in the recipe, and build the set again"
        )
    return header, body


def _version(tables: Mapping[str, pa.Table], ids_only: bool) -> str:
    """Return the tag: it changes with the data of any config, and with whether only ids are published."""
    parts = [f"{config} {fingerprint(table)}" for config, table in sorted(tables.items())]
    digest = hashlib.sha256("\n".join([f"ids {ids_only}", *parts]).encode("utf-8")).hexdigest()
    return f"v{SCHEMA_VERSION}-{digest[:8]}"


def _read_own_files(name: str, repo: str, recipe: SetRecipe, ids_only: bool) -> dict[str, str]:
    """Return path -> text of the recipe of a user's own set and, where texts are published, of a task that reads them."""
    folder = recipe.path.parent
    texts = {f"{name}/{file}": read_text(folder / file) for file in (RECIPE, PREPARE) if (folder / file).is_file()}
    task = folder / f"nnd_{name}.yaml"
    if task.is_file() and not ids_only:
        settings, foreign = read_task_yaml(task)
        if foreign:
            raise NNDError(f"{task}: it names {', '.join(foreign)}, which cannot be published with a set; take it out")
        texts[task.name] = f"# Needs the package nnd-tasks.\n{dump_task_yaml({**settings, 'dataset_path': repo})}"
    return texts


def _build_again(
    name: str,
    recipe: SetRecipe | None,
    tables: Mapping[str, pa.Table],
    reports: Mapping[str, Any],
    source: str | None,
    *,
    dry_run: bool,
) -> list[str]:
    """Build a set again, and return notes; raise NNDError where that cannot be done, or something else comes out."""
    if recipe is None:
        return [f"there is no recipe of {name} here: it was not built again"]
    try:
        made = make_set(recipe, source)
    except NNDError as error:
        if dry_run and source is None:
            return [f"{name} was not built again: {error}"]
        raise NNDError(
            f"{name} cannot be built again, so it is not published: {error}; name its files with --source"
        ) from error
    for config, table in tables.items():
        again = made.tables.get(config)
        if again is not None and fingerprint(again) == fingerprint(table):
            continue
        before, now = (part.get(config, {}).get("source_sha256", {}) for part in (reports, made.report))
        other = [file for file in now if now[file] != before.get(file)]
        why = f"{' and '.join(other)} is another file than it was built from; " if other else ""
        raise NNDError(
            f"{name}: a new build gives {'other tests' if again is not None else 'no tests'} for config {config} than the folder "
            f"holds; {why}build the set again, then publish"
        )
    return []


# ---------------------------------------------------------------- ids


def make_ids(table: pa.Table) -> pa.Table:
    """Return the ids and labels of tests and the SHA-256 of each text, one row per test in the same order.

    Columns that the schema does not know are prompt fields, texts like the context.
    """
    columns: dict[str, Any] = {name: table.column(name) for name in ("test_id", "cluster_id")}
    fields = [name for name in table.column_names if name not in RESERVED_COLUMNS]
    for name in ("context", "high", "low", *fields):
        texts = table.column(name).to_pylist()
        columns[f"{name}_sha256"] = [hashlib.sha256(str(text).encode("utf-8")).hexdigest() for text in texts]
    columns |= {name: table.column(name) for name in _LABELS if name in table.column_names}
    return pa.table(columns)


def _commands(name: str, repo: str, recipe: SetRecipe | None, reports: Mapping[str, Any]) -> list[str]:
    """Return the commands that build a set of which only ids are published."""
    part = next(iter(reports.values()))
    if recipe is None:
        if "levels" not in part:
            return []
        given = f"--texts {part['texts']} --seeds {part['seeds']} --errors {shlex.quote(','.join(part['levels']))}"
        return [f"nnd stress build {name} --corpus {shlex.quote(part['corpus'])} --source FOLDER {given}"]
    known = recipe.recipe.files
    lacking = [file for file in part.get("source_sha256", {}) if not ((one := known.get(file)) and one.url)]
    lacking = [file for file in lacking if not (recipe.shipped and recipe.path.with_name(file).is_file())]
    given = f" --source {shlex.quote(lacking[0]) if len(lacking) == 1 else 'FOLDER'}" if lacking else ""
    if recipe.shipped:
        return [f"{how_to_build(name)}{given}"]
    return [
        f"hf download {repo} --repo-type dataset --include '{name}/*' --local-dir .",
        f"nnd build ./{name}{given}{' --trust' if recipe.prepare else ''}",
    ]


def _check_no_texts(tables: Iterable[pa.Table], files: Mapping[str, str]) -> None:
    """Raise NNDError for a file that quotes the beginning of a text."""
    texts: set[str] = set()
    for table in tables:
        for column in ("context", "high", "low"):
            texts.update(text[:_QUOTED] for text in table.column(column).to_pylist() if len(text) >= _QUOTED)
    for name, content in files.items():
        if quoted := next((text for text in texts if text in content), None):
            raise NNDError(f"{name}: it quotes a text that may not be published ({quoted[:20]}…); take it out")


# ---------------------------------------------------------------- what the card says besides

_IDS = f"""## Ids and a recipe, no texts

{{why}} This repository holds the identifiers and labels of the tests; column `NAME_sha256` has the SHA-256 of the UTF-8 bytes \
of column `NAME`. A model cannot be scored on these. To have the set itself, build it from the publisher's files with \
nnd-tasks ({_INSTALL}). It is the same where its fingerprints are those on this card."""

_SCORE = f"""
## Score a model

With nnd-tasks ({_INSTALL}):

```sh
hf download {{repo}} nnd_{{name}}.yaml --repo-type dataset --local-dir tasks
nnd run --include_path tasks --model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks nnd_{{name}}
```

lm-eval runs whatever code a task YAML names after `!function`, as soon as it reads the file: look into it first. All that it \
should name there begins with `nnd_tasks.`
"""


def _say_ids(may_go: bool, commands: list[str]) -> str:
    why = "The texts of this set are not published." if may_go else "The terms of the texts do not let us publish them."
    return "\n".join([_IDS.format(why=why), *(["", *fenced("sh", *commands)] if commands else [])])
