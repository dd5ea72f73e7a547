"""Build a set: its files → rows → tests of each config and its clean variant → dataset folder, with a report."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.baselines import baseline_rates, favourite, writers_of
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, dump_yaml, expand, write_text
from nnd_tasks.packages import has_package
from nnd_tasks.publishers.download import Source, open_source
from nnd_tasks.schema import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    SPANS,
    SPANS_COLUMN,
    TYPES,
    ConfigSummary,
    check_table,
    clean_name,
    summarize,
)
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.pair import make_tests, take_judgements
from nnd_tasks.sets.recipe import PREPARE, RECIPE, Recipe, SetRecipe, load_recipe
from nnd_tasks.sets.rows import config_of, read_rows
from nnd_tasks.sets.write import CardFacts, write_dataset
from nnd_tasks.store import dataset_folder, read_report, user_tasks_dir
from nnd_tasks.tables.cells import FILE
from nnd_tasks.text import counted, some_of


@dataclass
class BuiltSet:
    """The tests of a set.

    Attributes:
        tables: config -> its tests; each config is followed by its clean variant.
        judgements: config -> its single judgements, where several people judged one text.
        report: config -> what ``build_report.json`` holds.
        summaries: config -> counts and fingerprint.
        notes: one line each for what the user should know.
        folder: the dataset folder, where it is written.
        other_configs: names of those that the folder had and still has.
        rule: what makes a candidate better, in a sentence.
    """

    tables: dict[str, pa.Table] = field(default_factory=dict)
    judgements: dict[str, pa.Table] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    summaries: dict[str, ConfigSummary] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    folder: Path = Path()
    other_configs: list[str] = field(default_factory=list)
    rule: str = ""

    @property
    def categories(self) -> dict[str, dict[str, int]]:
        """Config -> category -> tests."""
        return {config: summary.categories for config, summary in self.summaries.items()}

    def add(self, config: str, tests: pd.DataFrame, details: Mapping[str, Any]) -> None:
        """Add the tests of a config, and empty ``tests``, as both take much memory.

        Raises:
            NNDError: another config has its name, or they are not as the schema says.
        """
        if config in self.tables:
            raise NNDError(f"two configs would be called {config!r}; rename one of the files")
        table = check_table(_to_arrow(tests), f"config {config}")
        self.tables[config] = table
        self.summaries[config] = summarize(config, table)
        report = {**details, **asdict(self.summaries[config]), "trivial_rules": baseline_rates(table)}
        del report["name"]
        if best_system := favourite(writers_of(table)):
            report["trivial_system"] = best_system
        self.report[config] = report


#: What an error span says where the source says nothing.
_NO_SPAN = {"start": 0, "end": 0, "category": "", "severity": ""}


def _to_arrow(tests: pd.DataFrame) -> pa.Table:
    """Convert tests to an Arrow table with the types of the schema; each column is taken out, so that its texts can go."""
    types = {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}
    arrays = {}
    for name in [*tests]:
        column = tests.pop(name)
        if name == SPANS_COLUMN:
            cells = [[{**_NO_SPAN, **span} for span in spans] for spans in column]
            arrays[name] = pa.array(cells, SPANS)
        else:
            arrays[name] = pa.array(column.to_numpy(), TYPES[types.get(name, "string")])
    return pa.table(arrays)


def build_set(
    name: str | SetRecipe,
    source: str | Path | None = None,
    out: str | Path | None = None,
    *,
    trust: bool = False,
    replace: bool = False,
    progress: bool = True,
) -> BuiltSet:
    """Build a set into a dataset folder.

    A recipe from elsewhere is copied to ``$NND_HOME/task_yamls/NAME``, unless ``out`` is given.

    Example:
        ``build_set("quiz_design").tables["authors"].num_rows``

    Args:
        name: of a set that `nnd list` shows, the path of a recipe, or what `find_recipe` returns for one of these.
        source: the publisher's file, an archive, a pattern, or a folder that holds it; None downloads it.
        out: the dataset folder to write; None takes ``$NND_HOME/nnd/NAME``.
        trust: run the ``prepare.py`` of a recipe from elsewhere.
        replace: overwrite a set of this name that another recipe made.
        progress: show the progress of downloads.

    Returns:
        The folder, the table of each config, and notes on what is doubtful.

    Raises:
        NNDError: unknown set, a source that cannot be read, a ``prepare.py`` that is not trusted, or a folder that cannot be
            written or holds the set of another recipe.
    """
    set_recipe = name if isinstance(name, SetRecipe) else find_recipe(name)
    folder = expand(out) if out is not None else dataset_folder(set_recipe.name)
    if set_recipe.origin == "elsewhere" and not replace:
        check_same_recipe(set_recipe, folder)
    built = make_set(set_recipe, source, trust=trust, progress=progress)
    write_built(set_recipe, built, folder, replace=replace)
    if set_recipe.origin == "elsewhere" and out is None:
        keep_recipe(set_recipe)
    return built


def make_set(
    set_recipe: SetRecipe, source: str | Path | None = None, *, trust: bool = False, progress: bool = True
) -> BuiltSet:
    """Make the tests of a set, without writing anything; arguments and errors as of `build_set`."""
    if set_recipe.prepare and set_recipe.origin == "elsewhere" and not trust:
        raise NNDError(
            f"{set_recipe.prepare}: this set comes with code, which runs with your rights; read it (`nnd check "
            f"{set_recipe.path.parent.absolute()}` names what stands out), then add --trust"
        )
    with open_source(set_recipe.wanted, source, progress=progress) as files:
        return make_of_files(set_recipe, files)


def make_of_files(set_recipe: SetRecipe, files: Source) -> BuiltSet:
    """Make the tests of a set of files that are open, without writing anything; raises as `build_set`."""
    built = _make_configs(set_recipe, files)
    built.notes = [*files.notes, *built.notes, *compare_counts(set_recipe.recipe, built.categories)]
    return built


def _make_configs(set_recipe: SetRecipe, source: Source) -> BuiltSet:
    recipe = set_recipe.recipe
    rule = set_recipe.rule
    built = BuiltSet(rule=rule.sentence)
    origin = {
        **({} if set_recipe.origin == "package" else {"recipe": recipe.dump()}),
        "source_sha256": source.hashes,
        "errors": recipe.facts.errors,
        "nnd_tasks": __version__,
    }
    own = set_recipe.origin != "package"
    rows = read_rows(set_recipe, source)
    if rows.unmatched and own:
        built.notes.append(f"`leave_out` names {some_of(rows.unmatched, show=str)}, which no row has")
    if rows.doubtful and own:
        origin["doubtful"] = rows.doubtful
        built.notes += [
            f"{counted(number, 'row')} with {value!r} in the column {column!r} count; if they are no judgements: --leave-out "
            f"'{column}={value}' (`leave_out` in the recipe)"
            for column, values in rows.doubtful.items()
            for value, number in values.items()
        ]
    for config in [*rows.configs]:
        rows_of_config = rows.configs.pop(config)
        judged = take_judgements(rows_of_config, recipe, rule)
        tests, accounts, contradictory = make_tests(rows_of_config, judged, recipe, rule)
        details: dict[str, Any] = {"accounts": accounts, **origin}
        if has_package("ceiling"):
            from nnd_tasks.ceiling.judgements import add_judgements

            if config in rows.judgements:
                rows_of_config = rows.judgements[config]
                judged = take_judgements(rows_of_config, recipe, rule)
            add_judgements(built, config, details, rows_of_config, judged, set_recipe)
        del rows_of_config, judged  # tests as a table of Arrow need the memory
        if recipe.candidates != "rows":
            built.add(config, tests, details)
            continue
        mended, mended_accounts = tests, accounts
        if config in rows.mended:
            other = rows.mended[config]
            mended, mended_accounts, contradictory = make_tests(
                other, take_judgements(other, recipe, rule), recipe, rule
            )
        clean, cleaning = _clean_tests(mended, contradictory)
        if not mended.equals(tests):
            counted_as = "judgements" if "judgements" in accounts else "rows"  # a ready pair is one judgement
            fewer = accounts[counted_as]["used"] - mended_accounts[counted_as]["used"]
            cleaning["mended"] = {"left_out": fewer, "tests": len(mended), "reasons": cleaning["reasons"]}
        built.add(config, tests, {**details, "cleaning": cleaning})
        if len(clean):
            built.add(clean_name(config), clean, {"cleaned_from": config, **origin})
        else:
            built.notes.append(f"{config}: no test is left for {clean_name(config)}, so there is none")
    return built


def _clean_tests(tests: pd.DataFrame, contradictory: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Take the tests that no reason leaves out (of repeated ones the first stays), and report on the others.

    The full configs keep all tests that the publishers kept. Some say nothing about a model: the two texts are equal, the same
    test occurs again, or people disagreed about a candidate.

    Args:
        tests: in the order of the source.
        contradictory: whether a candidate of each test was judged both good and bad, shape (tests,).
    """
    high, low = tests["high"], tests["low"]
    left_out = {
        "equal_texts": (high == low).to_numpy(bool),
        "repeated": tests.duplicated(["cluster_id", "high", "low", "category"]).to_numpy(bool),
        "contradictory": contradictory,
        "empty": ((high.str.strip() == "") | (low.str.strip() == "")).to_numpy(bool),
    }
    clean = tests[~np.logical_or.reduce(list(left_out.values()))].reset_index(drop=True)
    reasons = {reason: {"tests": int(wrong.sum())} for reason, wrong in left_out.items()}
    return clean, {"kept": len(clean), "reasons": reasons}


def count_categories(configs: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """Count category -> tests of all configs but the clean ones; ``configs`` has config -> category -> tests."""
    cleaned = {clean_name(config) for config in configs}
    return sum((Counter(counts) for config, counts in configs.items() if config not in cleaned), Counter())


def compare_counts(recipe: Recipe, configs: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a note on each number of tests that is not the published or expected one; ``configs`` as above."""
    for config, counts in configs.items():
        tests = sum(counts.values())
        published = recipe.published.get(config)
        if published not in (None, tests):
            yield f"{config}: {tests:,} tests, published are {published:,}: another version of the file, or a part?"
    categories = count_categories(configs)
    expected = Counter(recipe.expected)
    if expected not in (Counter(), categories):
        number = f"{expected.total():,}, or others per category"
        yield (
            f"{counted(categories.total(), 'test')}, the recipe expects {number}: other files, or another rule? If this is "
            "right, correct or delete `expected` in the recipe"
        )


def write_built(set_recipe: SetRecipe, built: BuiltSet, folder: Path, *, replace: bool = False) -> None:
    """Write the tests of a set as configs of its dataset folder, beside those that it has."""
    recipe = set_recipe.recipe
    card_facts = CardFacts(
        name=set_recipe.name,
        facts=recipe.facts,
        rule=built.rule,
        recipe="" if set_recipe.origin == "package" else dump_yaml(recipe.dump()),
        pairs=not any("judgements" in report.get("accounts", {}) for report in built.report.values()),
    )
    first = next(iter(recipe.files), "")
    default = config_of(set_recipe, first, Path(first)) if recipe.config == FILE and first else recipe.config
    obsolete = {clean_name(config) for config in built.tables} - set(built.tables)
    summaries = write_dataset(
        folder, built.tables, built.judgements, card_facts=card_facts, report=built.report,
        default=default or next(iter(built.tables)), obsolete=obsolete, known_summaries=built.summaries, replace=replace,
    )  # fmt: skip
    built.folder = folder
    built.other_configs = [summary.name for summary in summaries if summary.name not in built.tables]


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
    now = set_recipe.recipe.dump()
    earlier = [report.get("recipe") or {} for report in read_report(folder).values() if isinstance(report, dict)]
    path = user_tasks_dir() / set_recipe.name / RECIPE
    if path.is_file() and folder == dataset_folder(set_recipe.name):
        earlier = [load_recipe(path).dump()]
    changes = [
        {key for key in {**before, **now} if before.get(key) != now.get(key)} - {"facts", "expected"}
        for before in earlier
    ]
    if changes and all(changes):
        raise NNDError(
            f"{folder}: holds a set that another recipe made ({', '.join(sorted(changes[0]))}); take another name, or "
            "--replace, which forgets it"
        )
