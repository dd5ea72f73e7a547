"""What is published of a set whose texts may not be: ids, labels, hashes of the texts, and how to build the set."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.card import Card
from nnd_tasks.card_sections import COLUMN_NOTES
from nnd_tasks.datasets import how_to_build
from nnd_tasks.errors import visible
from nnd_tasks.sets.user_tasks import shipped_task
from nnd_tasks.markdown import cell, code, fenced, table
from nnd_tasks.recipes.recipe import File
from nnd_tasks.recipes.shelf import find_recipe, recipe_paths
from nnd_tasks.schema import OPTIONAL_COLUMNS, RESERVED_COLUMNS, SPANS_COLUMN
from nnd_tasks.tables import fingerprint
from nnd_tasks.yaml_json import dump_yaml

_OWN_RECIPE = "recipe.yaml"
#: Columns that are published with the ids: labels, but no texts and no names of people.
_LABELS = ("category", "high_first", *(name for name in OPTIONAL_COLUMNS if name != "rater"), SPANS_COLUMN)


def ids_table(table: pa.Table) -> pa.Table:
    """Return the ids and labels of tests and the SHA-256 of each text, one row per test in the same order.

    Columns that the schema does not know are prompt fields, texts like the context.
    """
    columns: dict[str, Any] = {name: table.column(name) for name in ("test_id", "cluster_id")}
    fields = [name for name in table.column_names if name not in RESERVED_COLUMNS]
    for name in ("context", "high", "low", *fields):
        columns[f"{name}_sha256"] = pa.array([_text_hash(text) for text in table.column(name).to_pylist()], pa.string())
    columns |= {name: table.column(name) for name in _LABELS if name in table.column_names}
    return pa.table(columns)


def _text_hash(value: object) -> str:
    return hashlib.sha256(str(value).encode("utf-8")).hexdigest()


def recipe(name: str, tables: Mapping[str, pa.Table], reports: Mapping[str, Any]) -> dict[str, Any]:
    """Return how to build a set: commands, hashes of the source files, and the fingerprints that must come out.

    Args:
        name: of the set.
        tables: config -> its tests.
        reports: config -> its part of ``build_report.json``.
    """
    made = {
        key: part[key]
        for part in reports.values()
        for key in ("corpus", "texts", "seeds", "levels", "pipeline", "masked_model")
        if part.get(key) is not None
    }
    return {
        "set": name,
        "commands": commands(name, reports),
        "nnd_tasks": __version__,
        "sources": {
            file: {"sha256": sha256, "url": _url(name, file)}
            for part in reports.values()
            for file, sha256 in part.get("source_sha256", {}).items()
        },
        **({"synthetic": made} if "corpus" in made else {}),
        "fingerprints": {config: fingerprint(table) for config, table in tables.items()},
    }


def _url(name: str, file: str) -> str:
    known = _files(name)
    return known[file].url if file in known else ""


def _files(name: str) -> Mapping[str, File]:
    """Return the files that the recipe of a set names; ``{}`` for a set without a recipe."""
    return find_recipe(name).recipe.files if name in recipe_paths() else {}


def commands(name: str, reports: Mapping[str, Any]) -> list[str]:
    """Return the commands that build all configs of a set; `reports` as for `recipe`."""
    lines = []
    known = _files(name)
    for config, part in reports.items():
        if "corpus" in part:
            texts, seeds, errors = (_word(str(x)) for x in (part["texts"], part["seeds"], ",".join(part["levels"])))
            lines.append(
                f"nnd stress build {name} --corpus {_word(str(part['corpus']))} --source FOLDER --texts {texts} "
                f"--seeds {seeds} --errors {errors}"
            )
            continue
        if "recipe" in part:
            table = next(iter(part.get("source_sha256", {})), "TABLE")
            given = "".join(f" --recipe {path}" for path in own_recipes(name, {config: part}))
            lines.append(f"nnd new {name} --from {_word(table)}{given}")
            continue
        own = [file for file in part.get("source_sha256", {}) if file not in known or not known[file].url]
        embedded = name in recipe_paths() and all((recipe_paths()[name][0].parent / file).is_file() for file in own)
        lines.append(how_to_build(name, config) + ("" if embedded else f" --source {_word(own[0])}"))
    return list(dict.fromkeys(lines))


def _word(text: str) -> str:
    """Return a file name quoted as one word of a command."""
    return visible(shlex.quote(text))


def own_recipes(name: str, reports: Mapping[str, Any]) -> dict[str, str]:
    """Return path -> YAML of the recipe of a set of `nnd new`, unless the package comes with it; `reports` as for `recipe`."""
    made = [part["recipe"] for part in reports.values() if "recipe" in part]
    return {_OWN_RECIPE: dump_yaml(made[0])} if made and shipped_task(f"nnd_{name}") is None else {}


def without_quotes(value: Any) -> Any:
    """Return a build report without the examples that it quotes."""
    if isinstance(value, dict):
        return {key: without_quotes(part) for key, part in value.items() if not key.endswith("examples")}
    return [without_quotes(part) for part in value] if isinstance(value, list) else value


def ids_card(card: Card, name: str, repo: str, ids: pa.Table, reports: Mapping[str, Any], *, must: bool) -> None:
    """Change a card to that of a set of which only ids are published.

    Args:
        card: of the build.
        name: of the set.
        repo: of the hub.
        ids: what `ids_table` returned for one of its configs.
        reports: config -> its part of ``build_report.json``.
        must: whether the terms of the texts forbid to publish more.
    """
    card.header["nnd_published"] = "ids"
    card.header.pop(
        "nnd_schema_version", None
    )  # a clone of the repository must not be taken for a set that a model can be scored on
    why = "The terms of the texts do not let us publish them." if must else "The texts of this set are not published."
    lines = [
        f"{why} This repository holds the identifiers and labels of the tests and SHA-256 hashes of their texts. To have the "
        "set itself, install nnd-tasks from a clone of its repository (`pip install .` there; it is on no package index yet) "
        "and build the set from the publisher's files:",
        "",
        *fenced("sh", *commands(name, reports)),
        "",
        "The build is the same where its fingerprints are those on this card; `recipe.json` has them, and the hashes of the "
        "files. A model cannot be scored on the ids: `nnd run` asks for the build.",
    ]
    card.put("Ids and a recipe, no texts", lines, first=True)
    rows = [[code(column), _meaning(column)] for column in ids.column_names]
    card.put("Columns", table(["column", "what it holds"], rows))
    card.put("Use", fenced("python", "from datasets import load_dataset", "", f'ids = load_dataset("{repo}")'))


def _meaning(column: str) -> str:
    hashed = column.removesuffix("_sha256")
    if hashed != column:
        return f"SHA-256 of the UTF-8 bytes of {code(hashed)}"
    return COLUMN_NOTES.get(column, f"{cell(column.replace('_', ' '))}, as in the build")
