"""Make a set from a table of judged texts: draft it, look at it, write it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks.card import KNOWN_BY_PEOPLE
from nnd_tasks.card_sections import FULLER
from nnd_tasks.dataset_writing import making
from nnd_tasks.datasets import dataset_folder, list_configs, read_report, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.user_tasks import UserTask, remove_user_task, shipped_task, user_task, write_task
from nnd_tasks.judgements import Dropped
from nnd_tasks.new.own_task import (
    check_checkout,
    check_prompt,
    differs,
    in_checkout,
    task_fields,
    task_readme,
    write_contribution,
    write_recipe,
)
from nnd_tasks.new.propose import Choice, complete
from nnd_tasks.recipes.configs import CONFIG, Formed, origin_of, write_formed
from nnd_tasks.recipes.make import as_one, config_of
from nnd_tasks.recipes.parse import make_recipe, read_recipe
from nnd_tasks.recipes.places import named_files
from nnd_tasks.recipes.readers import open_table
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.shelf import RECIPE, check_set_name
from nnd_tasks.schema import short_hash
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted, some_of
from nnd_tasks.yaml_json import dump_yaml


@dataclass(frozen=True)
class Draft:
    """A set that is not written yet.

    Attributes:
        name: of the set.
        recipe: how it is made.
        choices: columns that were proposed.
        formed: its tests and report.
        notes: one line each for what the user should know.
        unit: what one row of the table is called.
    """

    name: str
    recipe: Recipe
    choices: list[Choice]
    formed: Formed
    notes: list[str]
    unit: str = "row"

    @property
    def config(self) -> str:
        """Name of its config."""
        return next(iter(self.formed.tables))

    @property
    def table(self) -> pa.Table:
        """Its tests."""
        return self.formed.tables[self.config]

    @property
    def dropped(self) -> Dropped:
        """What was left out."""
        return self.formed.dropped[self.config]

    @property
    def report(self) -> dict[str, Any]:
        """What ``build_report.json`` will hold for its config."""
        report: dict[str, Any] = self.formed.report[self.config]
        return report

    @property
    def categories(self) -> dict[str, int]:
        """Category -> number of tests."""
        return self.formed.summaries[self.config].categories


@dataclass(frozen=True)
class Written:
    """What `write_set` wrote.

    Attributes:
        folder: the dataset folder.
        summary: counts of its tests.
        task: the task that scores the set.
        files: files that were written into a checkout.
    """

    folder: Path
    summary: ConfigSummary
    task: UserTask
    files: list[Path]


def draft_set(
    name: str,
    source: str,
    options: Mapping[str, Any] | None = None,
    recipe: Path | None = None,
    *,
    into: Path | None = None,
    replace: bool = False,
) -> Draft:
    """Make the tests of a set from a table, without writing anything.

    Args:
        name: of the set; letters, digits and ``_``.
        source: a file (CSV, TSV, JSON Lines, JSON, parquet, Excel), a folder or archive of such, a pattern, or a path for
            `datasets`; see `nnd_tasks.recipes.places.named_files`.
        options: keys as in `Recipe`; they replace those of the recipe.
        recipe: a recipe's YAML; None takes the package's recipe for this name, if there is one.
        into: the checkout that it will be written into; a set of this checkout may be made in another way.
        replace: the name may be that of a task of the package, and facts of an earlier set of this name (its licence and so on)
            are forgotten.

    Raises:
        NNDError: a name that is taken; a wrong option, column or cell; or no test comes out.
    """
    given = {key: value for key, value in (options or {}).items() if value is not None}
    recipe = _check_name(name, given, recipe, replace, into)
    values: dict[str, Any] = {**read_recipe(recipe), **given} if recipe else given
    earlier = user_tasks_dir() / name / RECIPE
    if not replace and earlier.is_file():
        values = {key: value for key, value in read_recipe(earlier).items() if key in _ON_THE_CARD} | values
    where = str(recipe or "options")
    asked = make_recipe(values, where)
    if asked.step:
        raise NNDError(f"{where}: step: only sets that come with the package can name one")
    formed = Formed()
    with ExitStack() as stack:
        files = named_files(source, stack)
        paths = [source] if files is None else [str(path) for path in files.values()]
        table = as_one([open_table(path, asked) for path in paths])
        try:
            made, choices = complete(values, table, where)
        except NNDError as error:
            raise NNDError("; ".join([str(error), *table.notes])) from error
        check_prompt(made)
        origin = origin_of(made, files or {}, {}, shipped=False)
        formed.add(_config(name, made, files or {}), table, made, origin)
    draft = Draft(name, made, choices, formed, [], table.unit)
    if files is not None and len(files) > 1:
        draft.notes.append(f"{len(files):,} files are read, one after another: {some_of(list(files))}")
    draft.notes.extend(formed.notes)
    draft.notes.extend(note for choice in choices if (note := choice.note()))
    if not made.context and not any(draft.table.column("context").unique().to_pylist()):
        draft.notes.append(_NO_CONTEXT)
    if fuller := draft.report.get("contexts_from_messages"):
        draft.notes.append(f"in {counted(fuller, 'row')} {FULLER.format(repr(made.context))}")
    draft.notes.extend(formed.differences(made))
    return draft


def _config(name: str, recipe: Recipe, files: Mapping[str, Path]) -> str:
    """Return the name of the config; raise NNDError where the recipe makes a config of each of several files."""
    configs = {config_of(name, recipe, file, path) for file, path in files.items()} or {recipe.config or CONFIG}
    if len(configs) > 1:
        raise NNDError(
            f"config: {recipe.config} makes one of each file; build it with `nnd build PATH/_recipe --source FOLDER`"
        )
    return configs.pop()


#: Keys of a recipe that change only the card.
_ON_THE_CARD = {*KNOWN_BY_PEOPLE, "title", "kind", "license_note", "task_category", "field_notes"}
_NO_CONTEXT = (
    "the tests have no context, so they are all of one prompt, and no standard error can be given; "
    "name a column with --context"
)


def _check_name(
    name: str, given: Mapping[str, Any], recipe: Path | None, replace: bool, into: Path | None
) -> Path | None:
    """Return the recipe to take; raise NNDError for a name that no set can have, or that is taken."""
    check_set_name(name)
    shipped = shipped_task(f"nnd_{name}")
    if shipped is None:
        return recipe
    own = shipped.parent / RECIPE
    if not own.is_file() or (made := read_recipe(own)).get("files") or made.get("step"):
        raise NNDError(f"{name} is a set or task that comes with the package (`nnd list`); take another name")
    if replace or in_checkout(shipped, into):
        return recipe or own
    if recipe is not None and read_recipe(recipe) != read_recipe(own):
        raise NNDError(f"{name} has a recipe of its own ({own}); {_OWN_RECIPE.format('--recipe')}")
    if given:
        raise NNDError(f"{name} has a recipe of its own ({own}); {_OWN_RECIPE.format('the options')}")
    return own


_OWN_RECIPE = "take another name, leave {} out, or --replace what it says"


# ---------------------------------------------------------------- writing


def write_set(draft: Draft, *, into: Path | None = None, replace: bool = False) -> Written:
    """Write a draft: the dataset folder with its card, the task, and what goes into a checkout.

    Args:
        draft: the set.
        into: a checkout into which the recipe, the task and its README are written, but not the texts.
        replace: overwrite a set or task of this name that was made in another way.

    Raises:
        NNDError: there is another set of this name, another command is making one, or something cannot be written.
    """
    if into is not None:
        check_checkout(into, draft.name)
    folder = dataset_folder(draft.name).absolute()
    with making(folder):
        return _write(draft, folder, into, replace)


def _write(draft: Draft, folder: Path, into: Path | None, replace: bool) -> Written:
    report = draft.report
    key = short_hash(dump_yaml(report["recipe"]), *report["source_sha256"].values())
    obsolete = _check_free(folder, draft.config, report, key, replace)
    report["recipe_key"] = key
    name, recipe = draft.name, draft.recipe
    summaries = write_formed(name, recipe, draft.formed, folder, shipped=False, obsolete=obsolete, replace=replace)
    summary = next(one for one in summaries if one.name == draft.config)
    fields = task_fields(name, recipe, draft.table)
    complete_recipe = {**report["recipe"], "sources": report["source_sha256"], "expected": summary.categories}
    files: list[Path] = []
    if into is not None:
        files = write_contribution(into, name, fields, complete_recipe, task_readme(name, recipe, summary, report))
    task = _write_task(name, fields, replace)
    if shipped_task(f"nnd_{name}") is None:
        write_recipe(name, complete_recipe)
    return Written(folder, summary, task, files)


def _write_task(name: str, fields: Mapping[str, Any], replace: bool) -> UserTask:
    """Write the task of a set, unless the package has the same task.

    A YAML in $NND_HOME takes precedence over the package's, so an old one there must not stay unnoticed.
    """
    task = f"nnd_{name}"
    own, shipped = user_task(task), shipped_task(task)
    if replace or (shipped and own.is_file() and not differs(own, fields)):
        remove_user_task(task)
    over = shipped is not None and (own.is_file() or (replace and differs(shipped, fields)))
    return write_task(task, fields, over_shipped=over)


def _judging(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the recipe in a build report, without the keys that only change the card."""
    recipe = report.get("recipe")
    if not isinstance(recipe, dict):
        return None
    return {key: value for key, value in recipe.items() if key not in _ON_THE_CARD}


def _check_free(folder: Path, config: str, report: Mapping[str, Any], key: str, replace: bool) -> set[str]:
    """Return the configs besides ours of a set that is replaced.

    Args:
        folder: the dataset folder.
        config: our config.
        report: what its build report will say.
        key: hash of recipe and files.
        replace: whether a set that was made in another way may be replaced; if only the card changes, it always may.

    Raises:
        NNDError: ``folder`` holds a set that was made in another way, and must not be replaced.
    """
    if not folder.exists():
        return set()
    before = read_report(folder).get(config, {})
    same = before.get("recipe_key") == key or (
        before.get("source_sha256") == report["source_sha256"] and _judging(before) == _judging(report)
    )
    if not same and not replace:
        raise NNDError(
            f"{folder}: holds a set that was made of another table or recipe; take another name, or --replace it"
        )
    try:
        return set(list_configs(folder)[0]) - {config}
    except NNDError:
        return set()  # `write_dataset` says what is there
