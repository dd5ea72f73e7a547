"""Build a set: its files → rows → tests of each config and its clean variant → dataset folder, with a report."""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.baselines import SAMPLE, favourite, table_rates, writers_of
from nnd_tasks.datasets import dataset_folder, read_report, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, expand, write_text
from nnd_tasks.schema import clean_name, slug
from nnd_tasks.sets.card import About, left_out
from nnd_tasks.sets.clean import clean_tests, find_contradicted
from nnd_tasks.sets.fetch import Source, open_source, sha256_of
from nnd_tasks.sets.judge import rate_candidates, read_judgements
from nnd_tasks.sets.pair import pair_candidates, pair_tests, to_arrow
from nnd_tasks.sets.preferences import preference_tests, take_pairs
from nnd_tasks.sets.prepare import run_prepare
from nnd_tasks.sets.read import read_table
from nnd_tasks.sets.recipe import CONFIG, FILE, PREPARE, RECIPE, Recipe, make_recipe, read_recipe
from nnd_tasks.sets.rows import FIELD, Dropped, leave_out, take_roles
from nnd_tasks.sets.shelf import SetRecipe, find_recipe
from nnd_tasks.sets.write import write_dataset
from nnd_tasks.tables import ConfigSummary, check_table, summarize
from nnd_tasks.wording import counted, some_of
from nnd_tasks.yaml_json import dump_yaml


@dataclass
class Made:
    """The tests of a set.

    Attributes:
        tables: config -> its tests; each config is followed by its clean variant.
        report: config -> what ``build_report.json`` holds.
        summaries: config -> counts and fingerprint.
        notes: one line each for what the user should know.
        folder: the dataset folder, where it is written.
        kept: names of other configs that the folder had and still has.
    """

    tables: dict[str, pa.Table] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    summaries: dict[str, ConfigSummary] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    folder: Path = Path()
    kept: list[str] = field(default_factory=list)

    @property
    def categories(self) -> dict[str, dict[str, int]]:
        """Config -> category -> tests."""
        return {config: summary.categories for config, summary in self.summaries.items()}

    def add(self, config: str, tests: pd.DataFrame, details: Mapping[str, Any]) -> None:
        """Add the tests of a config; raise NNDError where another has its name, or they are not as the schema says."""
        if config in self.tables:
            raise NNDError(f"two configs would be called {config!r}; rename one of the files")
        table = self.tables[config] = check_table(to_arrow(tests), f"config {config}")
        summary = self.summaries[config] = summarize(config, table)
        sampled = {"trivial_rules_sample": SAMPLE} if table.num_rows > SAMPLE else {}
        best = {"trivial_system": name} if (name := favourite(writers_of(table))) else {}
        counts = {key: value for key, value in asdict(summary).items() if key != "name"}
        rates = table_rates(table, SAMPLE)
        self.report[config] = {**details, **counts, "trivial_rules": rates, **sampled, **best}


def build_set(
    name: str | SetRecipe,
    source: str | Path | None = None,
    out: str | Path | None = None,
    *,
    trust: bool = False,
    replace: bool = False,
    progress: bool = True,
) -> Made:
    """Build a set into a dataset folder.

    A recipe from elsewhere is copied to ``$NND_HOME/task_yamls/NAME``, unless ``out`` is given.

    Args:
        name: of a set that `nnd list` shows, the path of a recipe, or what `find_recipe` returns for one of these.
        source: the publisher's file, an archive, a pattern, or a folder that holds it; None downloads it.
        out: the dataset folder to write; None takes ``$NND_HOME/nnd/NAME``.
        trust: run the ``prepare.py`` of a recipe from elsewhere.
        replace: overwrite a set of this name that another recipe made.
        progress: show the progress of downloads.

    Raises:
        NNDError: unknown set, a source that cannot be read, a ``prepare.py`` that is not trusted, or a folder that cannot be
            written or holds the set of another recipe.
    """
    set_recipe = name if isinstance(name, SetRecipe) else find_recipe(name)
    folder = expand(out) if out is not None else dataset_folder(set_recipe.name)
    if set_recipe.origin == "elsewhere" and not replace:
        check_same_recipe(set_recipe, folder)
    made = make_set(set_recipe, source, trust=trust, progress=progress)
    write_made(set_recipe, made, folder, replace=replace)
    if set_recipe.origin == "elsewhere" and out is None:
        keep_recipe(set_recipe)
    return made


def make_set(
    set_recipe: SetRecipe, source: str | Path | None = None, *, trust: bool = False, progress: bool = True
) -> Made:
    """Make the tests of a set, without writing anything; arguments and errors as of `build_set`."""
    if set_recipe.prepare and set_recipe.origin == "elsewhere" and not trust:
        raise NNDError(
            f"{set_recipe.prepare}: this set comes with code, which runs with your rights; read it (`nnd check "
            f"{set_recipe.path.parent.absolute()}` names what stands out), then add --trust"
        )
    with open_source(set_recipe, source, progress=progress) as files:
        made = _make(set_recipe, files)
    made.notes = [*files.notes, *made.notes, *compare_counts(set_recipe.recipe, made.categories)]
    return made


def _make(set_recipe: SetRecipe, source: Source) -> Made:
    recipe, made = set_recipe.recipe, Made()
    origin = {
        **({} if set_recipe.shipped else {"recipe": recipe.dump()}),
        "source_sha256": {name: sha256_of(path) for name, path in sorted(source.files.items())},
        "errors": recipe.facts.errors,
        "nnd_tasks": __version__,
    }
    for config, (rows, mended, dropped) in _read_configs(set_recipe, source).items():
        tests, counts, contradictory = make_tests(rows, recipe, dropped)
        details = {**counts, "dropped": dropped.counts, "dropped_rows": dropped.rows}
        if dropped.labels:
            details["unranked_labels"] = dropped.labels
        if dropped.unmatched and not set_recipe.shipped:
            made.notes.append(f"{config}: `leave_out` names {some_of(dropped.unmatched, show=str)}, which no row has")
        if dropped.lost_spans:
            spans = counted(dropped.lost_spans, "error span")
            made.notes.append(f"{config}: {spans} left out, as they do not lie in their candidate")
        if not recipe.as_published:
            made.add(config, tests, {**details, **origin})
            continue
        again, counts_again = tests, counts
        if mended is not None:
            again, counts_again, contradictory = make_tests(mended, recipe, Dropped())
        kept, cleaning = clean_tests(again, contradictory)
        if not again.equals(tests):
            lacking = counts["judgements"] - counts_again["judgements"]
            cleaning["mended"] = {"left_out": lacking, "tests": len(again), "reasons": cleaning["reasons"]}
        made.add(config, tests, {**details, "cleaning": cleaning, **origin})
        if len(kept):
            made.add(clean_name(config), kept, {"cleaned_from": config, **origin})
        else:
            made.notes.append(f"{config}: no test is left for {clean_name(config)}, so there is none")
    return made


def _read_configs(
    set_recipe: SetRecipe, source: Source
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame | None, Dropped]]:
    """Return config -> its rows by role, those of its clean config if they are others, and what was left out so far."""
    recipe, dropped = set_recipe.recipe, defaultdict[str, Dropped](Dropped)
    if set_recipe.prepare:
        rows, mended = run_prepare(set_recipe.prepare, source.folder, recipe)
        again = _split_configs(mended, recipe, defaultdict(Dropped))
        return {
            name: (part, again.get(name), dropped[name]) for name, part in _split_configs(rows, recipe, dropped).items()
        }
    parts: dict[str, list[pd.DataFrame]] = {}
    start = 0
    for name, path in source.files.items():
        config = config_of(set_recipe, name, path)
        table = leave_out(read_table(path, recipe), recipe, dropped[config])
        part = take_pairs(table, recipe) if recipe.pairs else take_roles(table, recipe)
        parts.setdefault(config, []).append(part.set_index(part.index + start))
        start += len(table)
    return {config: (pd.concat(several), None, dropped[config]) for config, several in parts.items()}


def _split_configs(
    rows: pd.DataFrame | None, recipe: Recipe, dropped: Mapping[str, Dropped]
) -> dict[str, pd.DataFrame]:
    if rows is None:
        return {}
    rows = rows.rename(columns={name: FIELD + name for name in recipe.field})
    configs = rows.pop("config") if "config" in rows else pd.Series(recipe.config or CONFIG, rows.index)
    parts = {str(config): part.reset_index(drop=True) for config, part in rows.groupby(configs, sort=False)}
    return {config: leave_out(part, recipe, dropped[config]) for config, part in parts.items()}


def config_of(set_recipe: SetRecipe, name: str, path: Path) -> str:
    """Return the config that a file belongs to: ``mqm_newstest2021_ende.tsv`` of mqm -> ``newstest2021_ende``.

    Raises:
        NNDError: no config can be named after the file.
    """
    recipe, file = set_recipe.recipe, set_recipe.recipe.files.get(name)
    if file is not None and file.config:
        return file.config
    if recipe.config != FILE:
        return recipe.config or CONFIG
    config = slug(re.sub(rf"^{re.escape(set_recipe.name)}[-_]", "", Path(name).name.split(".")[0], flags=re.IGNORECASE))
    if not config:
        raise NNDError(f"{path}: cannot name a config after this file; rename it")
    return config


def make_tests(rows: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> tuple[pd.DataFrame, dict[str, int], Any]:
    """Return the tests of rows, counts for the report, and which tests have a candidate that was judged both good and bad.

    Raises:
        NNDError: the rows are not as the recipe says, or no test comes out.
    """
    if "chosen" in rows:
        count = len(rows) + sum(dropped.counts.values())
        tests = preference_tests(rows, recipe, dropped)
        if tests is None:
            raise NNDError(_why_nothing(dropped))
        return tests, {"rows": count}, np.zeros(len(tests), dtype=bool)
    if not recipe.rules:
        raise NNDError("the recipe names no rule: better, order, min_gap or majority")
    count = rows.index.nunique() + sum(dropped.counts.values())
    judgements, prompts = read_judgements(rows, recipe, dropped)
    if not len(judgements):
        raise NNDError(_why_nothing(dropped))
    candidates, gap = rate_candidates(judgements, recipe, dropped)
    high, low, high_first = pair_candidates(candidates, gap, dropped, "the table")
    counts = {
        "rows": count,
        "judgements": len(judgements),
        "candidates_judged": len(candidates),
        "groups": candidates["group"].nunique(),
        "groups_with_tests": candidates["group"].iloc[high].nunique(),
    }
    if not len(high):
        raise NNDError(_why_nothing(dropped, merged=len(judgements) > len(candidates)))
    tests = pair_tests(candidates, prompts, high, low, high_first, by_label=recipe.by_label)
    wrong = find_contradicted(candidates, gap)
    return tests, counts, wrong[high] | wrong[low]


def _why_nothing(dropped: Dropped, *, merged: bool = False) -> str:
    alone = "no_pair" in dropped.counts and "no_order" not in dropped.counts
    why = ": no context has two candidates; is --context the column of what candidates share?" if alone else ""
    shown = left_out({name: n for name, n in dropped.counts.items() if name != "no_pair"}, dropped.labels).values()
    lacking = f"; left out are {', '.join(shown)}" if shown else ""
    return f"no test comes out{why}{lacking}{'; equal texts of a context count as one candidate' if merged else ''}"


def count_categories(configs: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Return category -> tests of all configs but the clean ones; ``configs`` has config -> category -> tests."""
    cleaned = {clean_name(config) for config in configs}
    return sum((Counter(counts) for config, counts in configs.items() if config not in cleaned), Counter())


def compare_counts(recipe: Recipe, configs: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a note on each number of tests that is not the published or expected one; ``configs`` as above."""
    for config, counts in configs.items():
        tests, published = sum(counts.values()), recipe.published.get(config)
        if published not in (None, tests):
            yield f"{config}: {tests:,} tests, published are {published:,}: another version of the file, or a part?"
    made, expected = count_categories(configs), Counter(recipe.expected)
    if expected not in (Counter(), made):
        number = f"{expected.total():,}, or others per category"
        yield f"{counted(made.total(), 'test')}, the recipe expects {number}: other files?"


def write_made(set_recipe: SetRecipe, made: Made, folder: Path, *, replace: bool = False) -> None:
    """Write the tests of a set as configs of its dataset folder, beside those that it has."""
    recipe = set_recipe.recipe
    about = About(
        name=set_recipe.name,
        facts=recipe.facts,
        rule=recipe.rule_text(),
        recipe="" if set_recipe.shipped else dump_yaml(recipe.dump()),
        pairs=not any("judgements" in part for part in made.report.values()),
    )
    first = next(iter(recipe.files), "")
    default = config_of(set_recipe, first, Path(first)) if recipe.config == FILE and first else recipe.config
    obsolete = {clean_name(config) for config in made.tables} - set(made.tables)
    summaries = write_dataset(
        folder, made.tables, about=about, report=made.report, default=default or next(iter(made.tables)), obsolete=obsolete,
        known=made.summaries, replace=replace,
    )  # fmt: skip
    made.folder, made.kept = folder, [one.name for one in summaries if one.name not in made.tables]


def keep_recipe(set_recipe: SetRecipe) -> None:
    """Copy a recipe and its ``prepare.py`` to the user's own, where `nnd build` and `nnd list` find them by name."""
    folder = user_tasks_dir() / set_recipe.name
    write_text(folder / RECIPE, set_recipe.path.read_text("utf-8"))
    with changing(folder):
        if set_recipe.prepare:
            shutil.copyfile(set_recipe.prepare, folder / PREPARE)
        else:
            (folder / PREPARE).unlink(missing_ok=True)


def check_same_recipe(set_recipe: SetRecipe, folder: Path) -> None:
    """Raise NNDError if the user's recipe of this name, or the one that made the folder, differs in more than its facts."""
    own = user_tasks_dir() / set_recipe.name / RECIPE
    before = [part.get("recipe") or {} for part in read_report(folder).values() if isinstance(part, dict)]
    if own.is_file() and folder == dataset_folder(set_recipe.name):
        before = [make_recipe(read_recipe(own), str(own)).dump()]
    now = set_recipe.recipe.dump()
    changes = [
        {key for key in {**one, **now} if one.get(key) != now.get(key)} - {"facts", "expected"} for one in before
    ]
    if before and all(changes):
        raise NNDError(
            f"{folder}: holds a set that another recipe made ({', '.join(sorted(changes[0]))}); take another name, or "
            "--replace, which forgets it"
        )
