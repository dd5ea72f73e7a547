"""Make a set out of a table of judged texts: draft it, look at it, write it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.analysis.reading import trivial_rates
from nnd_tasks.contribute import card
from nnd_tasks.contribute.assemble import judged_table, preferred_table
from nnd_tasks.contribute.judgements import Dropped, read_judgements
from nnd_tasks.contribute.preferences import read_preferences
from nnd_tasks.contribute.propose import Choice, complete
from nnd_tasks.contribute.recipe import Recipe, read_recipe
from nnd_tasks.contribute.rules import gather, pair
from nnd_tasks.contribute.tables import Table, open_table
from nnd_tasks.contribute.tasks import (
    check_checkout,
    check_prompt,
    differs,
    in_checkout,
    recipe_of,
    task_fields,
    write_contribution,
)
from nnd_tasks.datasets import dataset_folder, list_configs, making, read_report, write_dataset
from nnd_tasks.errors import NNDError, first_line
from nnd_tasks.harness.user_tasks import UserTask, shipped_task, user_task, write_task
from nnd_tasks.schema import category_slugs, short_hash
from nnd_tasks.sources import SOURCES
from nnd_tasks.sources.download import sha256_of
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted

#: Tests that the rates of trivial rules are taken on; of more, so many are drawn at random.
_RATED = 20_000


@dataclass(frozen=True)
class Draft:
    """A set that is not written yet.

    Attributes:
        name: of the set.
        recipe: how it is made.
        choices: columns that were proposed.
        table: its tests.
        dropped: what was left out.
        report: what ``build_report.json`` will hold.
        notes: one line each for what the user should know.
        unit: what the table calls its rows.
    """

    name: str
    recipe: Recipe
    choices: list[Choice]
    table: pa.Table
    dropped: Dropped
    report: dict[str, Any]
    notes: list[str]
    unit: str = "row"

    @property
    def categories(self) -> dict[str, int]:
        """Category -> number of tests."""
        counts = self.table.column("category").value_counts().to_pylist()
        return dict(sorted((item["values"], item["counts"]) for item in counts))


@dataclass(frozen=True)
class Written:
    """What `write_set` wrote.

    Attributes:
        folder: the dataset folder.
        summary: of its tests.
        task: that scores the set.
        files: what went into a checkout.
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
    """Make the tests of a set out of a table, without writing anything.

    Args:
        name: of the set; letters, digits and ``_``.
        source: a file (CSV, TSV, JSON Lines, JSON, parquet), or a path for `datasets`.
        options: keys as in `Recipe`; they go before those of the recipe. None where the recipe says it all.
        recipe: a recipe's YAML; None takes that which comes with the package for this name, if there is one.
        into: the checkout that it will be written into; a set that this checkout ships may be made in another way.
        replace: the set may be that of a task which comes with the package.

    Raises:
        NNDError: a name that is taken, an option, a column or a cell that is wrong, or no test comes out.
    """
    given = {key: value for key, value in (options or {}).items() if value is not None}
    recipe = _check_name(name, given, recipe, replace, into)
    values: dict[str, Any] = {**read_recipe(recipe), **given} if recipe else given
    table = open_table(source)
    made, choices = complete(values, table, str(recipe or "options"))
    check_prompt(made)
    tests, dropped, counts = _tests(table, made)
    if tests is None:
        raise NNDError(f"{table.name}: {_why_nothing(dropped, merged=_merged(dropped, counts))}")
    try:
        category_slugs(tests.column("category").unique().to_pylist())
    except NNDError as error:
        raise NNDError(f"{table.name}: {error}") from error
    notes = [] if made.context or any(tests.column("context").unique().to_pylist()) else [_NO_CONTEXT]
    notes += [note for choice in choices if (note := choice.note())]
    hashes = {table.path.name: sha256_of(table.path)} if table.path else {}
    if fuller := counts.get("contexts_from_messages"):
        notes.append(f"in {counted(fuller, 'row')} {card.FULLER.format(repr(made.context))}")
    draft = Draft(name, made, choices, tests, dropped, {}, notes, table.unit)
    notes += _differences(made, draft.categories, hashes)
    kept = made.dump()
    for key in ("sources", "expected"):
        kept.pop(key, None)
    draft.report.update(
        {
            **counts,
            "dropped": dropped.counts,
            "dropped_rows": dropped.rows,
            **({"unranked_labels": dropped.labels} if dropped.labels else {}),
            "recipe": kept,
            "trivial_rules": _trivial(tests),
            **({"trivial_rules_sample": _RATED} if tests.num_rows > _RATED else {}),
            "source_sha256": hashes,
            "nnd_tasks": __version__,
        }
    )
    return draft


_NO_CONTEXT = (
    "the tests have no context, so they are all of one prompt, and no standard error can be given; "
    "name a column with --context"
)


def _check_name(
    name: str, given: Mapping[str, Any], recipe: Path | None, replace: bool, into: Path | None
) -> Path | None:
    """Return the recipe to take.

    Raises:
        NNDError: the name is none, or taken.
    """
    if not (name.isidentifier() and name.isascii()) or name.startswith("nnd_"):
        raise NNDError(f"a set is named by letters, digits and _, without nnd_ before them, not {name!r}")
    if name in SOURCES:
        raise NNDError(f"{name} is the name of a set of `nnd build`; take another")
    shipped = shipped_task(f"nnd_{name}")
    if shipped is None:
        return recipe
    own = recipe_of(shipped)
    if own is None:
        raise NNDError(f"{name} is the set of the task nnd_{name}, which comes with the package; take another name")
    if replace or in_checkout(shipped, into):
        return recipe or own
    if recipe is not None and read_recipe(recipe) != read_recipe(own):
        raise NNDError(f"{name} has a recipe of its own ({own}); {_OWN_RECIPE.format('--recipe')}")
    if given:
        raise NNDError(f"{name} has a recipe of its own ({own}); {_OWN_RECIPE.format('the options')}")
    return own


_OWN_RECIPE = "take another name, leave {} out, or --replace what it says"


def _tests(table: Table, recipe: Recipe) -> tuple[pa.Table | None, Dropped, dict[str, int]]:
    """Return the tests, what was left out, and counts; None for no test."""
    if recipe.pairs:
        preferences = read_preferences(table, recipe)
        counts = {
            "rows": preferences.rows,
            **({"contexts_from_messages": preferences.fuller} if preferences.fuller else {}),
        }
        return (preferred_table(preferences) if len(preferences.row) else None), preferences.dropped, counts
    found = read_judgements(table, recipe)
    if not len(found.mark):
        return None, found.dropped, {}
    candidates = gather(found, recipe)
    pairs = pair(candidates, found.dropped, table.name)
    counts = {
        "rows": found.rows,
        "judgements": len(found.mark),
        "candidates_judged": len(candidates.text),
        "groups": len(set(candidates.prompt.tolist())),
    }
    return (judged_table(found, candidates, pairs, recipe) if len(pairs.high) else None), found.dropped, counts


def _merged(dropped: Dropped, counts: Mapping[str, int]) -> bool:
    """Tell whether nothing was compared, and equal texts were put together."""
    return counts.get("judgements", 0) > counts.get("candidates_judged", 0) and "no_order" not in dropped.counts


def _why_nothing(dropped: Dropped, *, merged: bool) -> str:
    """Say why no test came out, by what was left out, and whether equal texts are part of it."""
    shown = card.left_out(dropped.counts, dropped.labels).values()
    alike = "; equal texts of a context count as one candidate" if merged else ""
    if not shown:
        return f"no test comes out: no context has two candidates; is --context the column of what candidates share?{alike}"
    return f"no test comes out; left out are {', '.join(shown)}{alike}"


def _differences(recipe: Recipe, categories: Mapping[str, int], hashes: Mapping[str, str]) -> list[str]:
    """Return notes on what differs from what the recipe was made with."""
    if not recipe.expected or dict(recipe.expected) == dict(categories):
        return []
    other = [file for file, digest in hashes.items() if digest not in recipe.sources.values()]
    total, expected = sum(categories.values()), sum(recipe.expected.values())
    why = f"{other[0]} is another file than the recipe's" if other and recipe.sources else "the options are others"
    return [f"{counted(total, 'test')}, the recipe expects {expected:,}, or others per category: {why}"]


def _trivial(tests: pa.Table) -> dict[str, dict[str, float]]:
    """Return how often rules that understand nothing pass; see `trivial_rates`."""
    part = tests.select(["context", "high", "low", "category"])
    if part.num_rows > _RATED:
        part = part.take(sorted(random.Random(0).sample(range(part.num_rows), _RATED)))  # noqa: S311
    columns = part.to_pydict()
    triples = list(zip(columns["context"], columns["high"], columns["low"], strict=True))
    return trivial_rates(triples, columns["category"])


# ---------------------------------------------------------------- writing


def write_set(draft: Draft, *, into: Path | None = None, replace: bool = False) -> Written:
    """Write a draft: the dataset folder with its card, the task, and what goes into a checkout.

    Args:
        draft: of the set.
        into: a checkout that the recipe, the task and its README are written into, but not the texts.
        replace: give up a set or task of this name that was made in another way.

    Raises:
        NNDError: there is another set of this name, another command is making one, or something cannot be written.
    """
    if into is not None:
        check_checkout(into, draft.name)
    folder = dataset_folder(draft.name).absolute()
    with making(folder):
        return _write(draft, folder, into, replace)


def _write(draft: Draft, folder: Path, into: Path | None, replace: bool) -> Written:
    key = short_hash(card.recipe_yaml(draft.report["recipe"]), *draft.report["source_sha256"].values())
    obsolete = _check_free(folder, key, replace)
    report = {**draft.report, "recipe_key": key}
    columns = draft.table.column_names
    name, recipe = draft.name, draft.recipe
    [summary] = write_dataset(
        folder,
        {card.CONFIG: draft.table},
        header=card.header(name, recipe),
        body=lambda summaries, reports: card.body(name, recipe, summaries[0], columns, reports[card.CONFIG]),
        default=card.CONFIG,
        report={card.CONFIG: report},
        obsolete=obsolete,
    )
    fields = task_fields(name, recipe, draft.table)
    files: list[Path] = []
    if into is not None:
        complete_recipe = {**report["recipe"], "sources": report["source_sha256"], "expected": summary.categories}
        readme = card.task_readme(name, recipe, summary, report)
        files = write_contribution(into, name, fields, card.recipe_yaml(complete_recipe), readme)
    task = _write_task(name, fields, replace)
    return Written(folder, summary, task, files)


def _write_task(name: str, fields: Mapping[str, Any], replace: bool) -> UserTask:
    """Write the task of a set, or leave that which comes with the package where it says the same.

    A YAML in $NND_HOME goes before one that comes with the package; so one of an earlier time must not stay unseen.
    """
    task = f"nnd_{name}"
    own, shipped = user_task(task), shipped_task(task)
    if replace or (shipped and own.is_file() and not differs(own, fields)):
        try:
            own.unlink(missing_ok=True)
        except OSError as error:
            raise NNDError(f"{own}: cannot be replaced ({first_line(error)})") from error
    over = shipped is not None and (own.is_file() or (replace and differs(shipped, fields)))
    return write_task(task, fields, over_shipped=over)


def _check_free(folder: Path, key: str, replace: bool) -> set[str]:
    """Return the configs that a set which is replaced has besides ours.

    Raises:
        NNDError: ``folder`` holds a set that was made in another way, and must not be replaced.
    """
    if not folder.exists():
        return set()
    before = read_report(folder).get(card.CONFIG, {}).get("recipe_key")
    if before != key and not replace:
        raise NNDError(
            f"{folder}: holds a set that was made of another table or recipe; take another name, or --replace it"
        )
    try:
        return set(list_configs(folder)[0]) - {card.CONFIG}
    except NNDError:
        return set()  # `write_dataset` says what is there
