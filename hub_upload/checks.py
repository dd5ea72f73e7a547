"""Checks before a set is published: its data must be what a build gives, and no text may go out where only ids may."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks.build import build_set
from nnd_tasks.datasets import CARD
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.recipes.configs import Formed, form_own
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.shelf import RECIPE, SetRecipe, find_recipe, recipe_paths
from nnd_tasks.tables import fingerprint
from nnd_tasks.yaml_json import dump_yaml

_QUOTED = 40  # first characters of a text that do not occur elsewhere by coincidence


def check_data(folder: Path, tables: Mapping[str, pa.Table], reports: Mapping[str, Any]) -> None:
    """Check that the data of a folder is what its build wrote.

    Args:
        folder: the dataset folder.
        tables: config -> its tests.
        reports: config -> its part of ``build_report.json``.

    Raises:
        NNDError: a config has another fingerprint than its report says; where that says none, than the card says.
    """
    card = (folder / CARD).read_text(encoding="utf-8")
    for config, table in tables.items():
        if not isinstance(reports.get(config), Mapping):
            raise NNDError(f"{folder}: build_report.json says nothing of config {config}; build the set again")
        own, written = fingerprint(table), reports[config].get("fingerprint")
        if written != own if written else f"`{own}`" not in card:
            raise NNDError(
                f"{folder}: the data of config {config} is not what its build wrote (fingerprint {own}"
                f"{f', recorded {written}' if written else ''}); build the set again"
            )


def check_rebuild(
    name: str,
    tables: Mapping[str, pa.Table],
    reports: Mapping[str, Any],
    source: str | Path | None,
    *,
    must: bool = True,
) -> list[str]:
    """Build a set of `nnd build` or `nnd new` again, and check that the same comes out.

    Args:
        name: of the set.
        tables: config -> its tests.
        reports: config -> its part of ``build_report.json``.
        source: the publisher's file, or a folder that holds it; None downloads it, which `nnd new` cannot.
        must: for a set of `nnd new` without a source, raise an error instead of returning a note.

    Returns:
        A note where the set was not built again.

    Raises:
        NNDError: the source cannot be read, or something else comes out.
    """
    if name in recipe_paths() and "recipe" not in next(iter(reports.values()), {}):
        _rebuild(name, tables, reports, source)
        return []
    made = {config: part["recipe"] for config, part in reports.items() if isinstance(part.get("recipe"), Mapping)}
    if not made:
        return [f"{name} was not made by nnd build or nnd new: not built again"]
    if source is None:
        if must:
            raise NNDError(
                f"{name}: name the table that it was made from with --source; it is built again before it is published"
            )
        return [f"{name} is not built again, because no --source names the table that it was made from"]
    for recipe in {dump_yaml(one): one for one in made.values()}.values():
        configs = [config for config, one in made.items() if one == recipe]
        hashes = {file: one for config in configs for file, one in reports[config].get("source_sha256", {}).items()}
        formed = _form_again(name, {**recipe, **({"sources": hashes} if hashes else {})}, source)
        for config in configs:
            built = {"source_sha256": formed.report.get(config, {}).get("source_sha256", {})}
            if config in formed.tables:
                built["fingerprint"] = fingerprint(formed.tables[config])
            _compare(name, config, fingerprint(tables[config]), built, reports[config])
    return []


def _form_again(name: str, recipe: Mapping[str, Any], source: str | Path) -> Formed:
    """Build a set of the user's own again, without writing it."""
    own = SetRecipe(name, Path(name) / RECIPE, make_recipe(recipe, f"the recipe of {name}"), shipped=False)
    try:
        with ExitStack() as stack:
            return form_own(own, source, stack)
    except NNDError as error:
        raise NNDError(f"{name} cannot be built again, so it is not published: {error}") from error


def _rebuild(name: str, tables: Mapping[str, pa.Table], reports: Mapping[str, Any], source: str | Path | None) -> None:
    """Build all configs of a set of `nnd build` again, in one build where files and options are the same."""
    groups: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], list[str]] = {}
    for config in tables:
        part = reports[config]
        key = tuple(part.get("source_sha256", {})), tuple(sorted(part.get("options", {}).items()))
        groups.setdefault(key, []).append(config)
    with tempfile.TemporaryDirectory(prefix="nnd-rebuild-") as scratch:
        for i, ((files, options), configs) in enumerate(groups.items()):
            out = Path(scratch) / str(i) / name
            try:
                built = build_set(name, _place(name, source, files), out, dict(options), progress=False).report
            except NNDError as error:
                hint = f"name the publisher's files: nnd publish {name} --source FILE_OR_FOLDER"
                raise NNDError(f"{name} cannot be built again, so it is not published: {error}; {hint}") from error
            for config in configs:
                _compare(name, config, fingerprint(tables[config]), built.get(config, {}), reports[config])


def _place(name: str, source: str | Path | None, files: Iterable[str]) -> Path | None:
    """Return what to build from: ``source``, or the file in that folder that the set was built from if its name is the user's."""
    if source is None or name == "demo":
        return None
    place, known = expand(source), set(find_recipe(name).recipe.files)
    own = [file for file in files if file not in known]
    return place / own[0] if own and (place / own[0]).is_file() else place


def _compare(name: str, config: str, own: str, built: Mapping[str, Any], report: Mapping[str, Any]) -> None:
    """Raise NNDError where a new build of a config gives another fingerprint than the folder's ``own``."""
    again = built.get("fingerprint")
    if again == own:
        return
    other = [
        file
        for file, digest in built.get("source_sha256", {}).items()
        if report.get("source_sha256", {}).get(file) != digest
    ]
    why = f"{' and '.join(other)} is another file than it was built from" if other else "built by another release"
    raise NNDError(
        f"{name}, config {config}: a new build gives fingerprint {again or 'of nothing'}, the folder holds {own} "
        f"({why if built else 'the source has no such config'}); build it again, then publish"
    )


def check_no_texts(tables: Iterable[pa.Table], files: Mapping[str, str]) -> None:
    """Check that files quote no text of a set whose texts may not be published.

    Args:
        tables: with the texts.
        files: name -> content.

    Raises:
        NNDError: one quotes the beginning of a text.
    """
    texts: set[str] = set()
    for table in tables:
        for column in ("context", "high", "low"):
            texts.update(text[:_QUOTED] for text in table.column(column).to_pylist() if len(text) >= _QUOTED)
    for name, content in files.items():
        quoted = next((text for text in texts if text in content), None)
        if quoted is not None:
            raise NNDError(
                f"{name}: it quotes a text that may not be published ({quoted[:20]}…); take it out of the card"
            )
