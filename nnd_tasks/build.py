"""Build a set: recipe -> files -> tests -> dataset folder, with a build report."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import dataset_folder, read_report, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.harness.user_tasks import shipped_task
from nnd_tasks.languages import language_pair, read_pair
from nnd_tasks.recipes.configs import Formed, form, form_own, judging_part, write_formed
from nnd_tasks.recipes.download import Fetched, fetch
from nnd_tasks.recipes.places import locate
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.shelf import RECIPE, SetRecipe, check_set_name, find_recipe, recipe_paths
from nnd_tasks.schema import short_hash
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted, some_of


@dataclass(frozen=True)
class BuildResult:
    """What `build_set` made.

    Attributes:
        folder: the dataset folder.
        built: summaries of the configs of this build.
        kept: names of other configs that the folder had and still has.
        notes: one line each for what the user should know.
        report: per config, what is stored in ``build_report.json``.
    """

    folder: Path
    built: list[ConfigSummary]
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


def build_set(
    name: str | SetRecipe,
    source: str | Path | None = None,
    out: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    *,
    languages: str | None = None,
    progress: bool = True,
    replace: bool = False,
) -> BuildResult:
    """Build a set into a dataset folder.

    Args:
        name: of a set that `nnd list` shows, the path of a recipe, or what `find_recipe` returns for one of these.
        source: the publisher's file, an archive or a folder that holds it; None downloads it.
        out: the dataset folder to write; None takes ``$NND_HOME/nnd/NAME``.
        options: options of the recipe, such as ``{"rows": "all"}`` for SummEval.
        languages: languages of translations whose file does not name them, such as ``zh-en``.
        progress: show the progress of downloads.
        replace: overwrite a set of this name that another recipe made, and what people wrote on its card.

    Raises:
        NNDError: unknown set, option or language, a source that cannot be read, a folder that cannot be written, or one that
            holds the set of another recipe.
    """
    set_recipe = name if isinstance(name, SetRecipe) else find_recipe(name)
    recipe = set_recipe.recipe
    pair = _languages(set_recipe, languages)
    folder = expand(out) if out is not None else dataset_folder(set_recipe.name)
    if not set_recipe.shipped:
        _check_name(set_recipe)
        if not replace:
            _check_same_recipe(set_recipe, folder)
    chosen = _options(set_recipe, options or {})
    fetched: Fetched | None = None
    with ExitStack() as stack:
        if source is not None and not set_recipe.shipped:
            formed = form_own(set_recipe, str(source), stack)
        else:
            files = _embedded(set_recipe) if source is None else locate(set_recipe, expand(source), stack)
            if files is None:
                fetched = _fetch(set_recipe, progress)
                files = fetched.files
            try:
                formed = form(set_recipe.name, recipe, files, chosen, shipped=set_recipe.shipped)
            except NNDError:
                if fetched is not None:
                    fetched.discard()
                raise
    notes = [
        f"unverified: {file} has no published hash; its content at the first download is recorded"
        for file in (fetched.unverified if fetched is not None else [])
    ]
    notes += formed.notes + _notes(recipe, formed)
    if fetched is not None and fetched.unsure and formed.unlike_published(recipe):
        notes.append(
            f"{' and '.join(fetched.unsure)}: not kept, as it may be cut off; the next build downloads it again"
        )
        fetched.discard(fetched.unsure)
    for config, part in formed.report.items():
        if pair is not None:
            part["languages"] = list(_agreed(config, pair))
    summaries = write_formed(set_recipe.name, recipe, formed, folder, shipped=set_recipe.shipped, replace=replace)
    return BuildResult(
        folder=folder,
        built=[summary for summary in summaries if summary.name in formed.tables],
        kept=[summary.name for summary in summaries if summary.name not in formed.tables],
        notes=notes,
        report=formed.report,
    )


def _languages(set_recipe: SetRecipe, languages: str | None) -> tuple[str, str] | None:
    """Return the codes of ``--languages``; raise NNDError for a set whose prompts it could not change."""
    if languages is None:
        return None
    if not set_recipe.has_translations:
        raise NNDError(
            f"set {set_recipe.name}: --languages is for sets of translations that come with the package, such as mqm"
        )
    return read_pair(languages)


def _agreed(config: str, pair: tuple[str, str]) -> tuple[str, str]:
    """Return the languages of a config; raise NNDError where its name has others than the user says."""
    if (named := language_pair(config)) not in (None, pair):
        raise NNDError(
            f"--languages {'-'.join(pair)}: config {config} is named for {'-'.join(named or ())}; leave the option out, or "
            "rename the file"
        )
    return pair


def _notes(recipe: Recipe, formed: Formed) -> list[str]:
    """Return notes on absent files, rows that were left out, and numbers of tests that are not the expected ones."""
    absent = [] if recipe.pattern else [file for file in recipe.files.values() if file.name not in formed.files]
    notes = [
        f"{file.name} is not there, so config {file.config} is not built from it"
        for file in absent
        if file.config and file.config not in formed.tables
    ]
    values = ", ".join(f"{column} {some_of(left)}" for column, left in recipe.leave_out.items())
    why = {
        "by_recipe": f"no judgements by the recipe ({values})",
        "not_same": f"as {' and '.join(recipe.same)} differ",
    }
    notes += [
        f"{config}: {counted(count, 'row')} left out, {text}"
        for config, dropped in formed.dropped.items()
        for reason, text in why.items()
        if (count := dropped.counts.get(reason, 0))
    ]
    if lacking := [file.name for file in absent if not (file.optional or file.config)]:
        parts = f"{len(recipe.files) - len(lacking)} of {counted(len(recipe.files), 'file')}"
        return [*notes, f"this is a part of the set, from {parts}: without {some_of(lacking, show=str)}"]
    for config in formed.unlike_published(recipe):
        tests, published = formed.tables[config].num_rows, recipe.published[config]
        notes.append(f"{config}: {tests:,} tests, published are {published:,}: another version of the file?")
    return notes + formed.differences(recipe)


def _fetch(set_recipe: SetRecipe, progress: bool) -> Fetched:
    """Download the files of a set; an error about a recipe that somebody sent names its path."""
    try:
        return fetch(set_recipe.name, set_recipe.recipe, place=_place(set_recipe), progress=progress)
    except NNDError as error:
        if not set_recipe.sent:
            raise
        command = f"nnd build {set_recipe.name} ", f"nnd build {set_recipe.path} "
        raise NNDError(str(error).replace(*command)) from error


def _place(set_recipe: SetRecipe) -> str:
    """Return the name of the download folder of a recipe that somebody sent, ``""`` of another one.

    It contains a hash of the addresses and an ``@``, which no name of a set has, so it is not the folder of another set.
    """
    if not set_recipe.sent:
        return ""
    return f"{set_recipe.name}@{short_hash(*(file.url for file in set_recipe.recipe.files.values()))}"


def _embedded(set_recipe: SetRecipe) -> dict[str, Path] | None:
    """Return the files that lie beside a recipe, or None; a link out of its folder counts as absent."""
    folder = set_recipe.path.parent.resolve()
    files = {name: folder / name for name in set_recipe.recipe.files}
    inside = all(path.is_file() and path.resolve().is_relative_to(folder) for path in files.values())
    return files if files and inside else None


def _check_name(set_recipe: SetRecipe) -> None:
    """Raise NNDError for a recipe from elsewhere whose name no set can have, or is that of a set of the package."""
    name, path = set_recipe.name, set_recipe.path
    check_set_name(name, path)
    if recipe_paths().get(name, (None, False))[1] or shipped_task(f"nnd_{name}") is not None:
        raise NNDError(f"{path}: {name} is a set of this package; rename the folder of the recipe")


def _check_same_recipe(set_recipe: SetRecipe, folder: Path) -> None:
    """Raise NNDError if a dataset folder holds a set that another recipe made; the user's own recipe may have changed."""
    own = user_tasks_dir() / set_recipe.name / RECIPE
    if not folder.exists() or set_recipe.path.absolute() == own.absolute():
        return
    before = [part.get("recipe") for part in read_report(folder).values() if isinstance(part, dict)]
    if before and judging_part(set_recipe.recipe) not in before:
        raise NNDError(
            f"{folder}: holds a set that another recipe made; rename the folder of yours, or --replace what is there"
        )


def _options(set_recipe: SetRecipe, given: Mapping[str, str]) -> dict[str, str]:
    """Return every option of a recipe with its value.

    Raises:
        NNDError: an option that the recipe does not have, or a value that the option does not have.
    """
    known = set_recipe.recipe.options
    for key, value in given.items():
        if key not in known:
            raise NNDError(f"set {set_recipe.name} has no option --{key}")
        if len(known[key]) > 1 and value not in known[key]:
            raise NNDError(f"--{key}: expected {' or '.join(known[key])}, found {value!r}")
    return {key: given.get(key, values[0]) for key, values in known.items()}
