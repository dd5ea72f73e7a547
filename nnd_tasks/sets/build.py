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
from nnd_tasks.baselines import SAMPLE, favourite, table_rates, writers_of
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, expand, write_text
from nnd_tasks.schema import clean_name
from nnd_tasks.sets.account import check_sum, describe_accounts, look_at_texts, tally_counts, tally_table
from nnd_tasks.sets.card import About
from nnd_tasks.sets.catalogue import SetRecipe, find_recipe
from nnd_tasks.sets.download import Source, open_source, sha256_of
from nnd_tasks.sets.judge import Judged, judge_rows
from nnd_tasks.sets.pair import (
    Index,
    clean_tests,
    find_contradicted,
    pair_candidates,
    pair_tests,
    preference_tests,
    repeat_for_errors,
)
from nnd_tasks.sets.recipe import (
    FILE,
    PREPARE,
    RECIPE,
    LabelRule,
    PairRule,
    Recipe,
    Rule,
    ScoreRule,
    make_recipe,
    make_rule,
    read_recipe,
)
from nnd_tasks.sets.rows import config_of, exclude, read_rows
from nnd_tasks.sets.write import write_dataset
from nnd_tasks.store import dataset_folder, read_report, user_tasks_dir
from nnd_tasks.tables import ConfigSummary, check_table, summarize, to_arrow
from nnd_tasks.wording import counted, some_of
from nnd_tasks.yaml_json import dump_yaml


@dataclass
class BuiltSet:
    """The tests of a set.

    Attributes:
        tables: config -> its tests; each config is followed by its clean variant.
        report: config -> what ``build_report.json`` holds.
        summaries: config -> counts and fingerprint.
        notes: one line each for what the user should know.
        folder: the dataset folder, where it is written.
        kept: names of other configs that the folder had and still has.
        rule: what makes a candidate better, in a sentence.
    """

    tables: dict[str, pa.Table] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    summaries: dict[str, ConfigSummary] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    folder: Path = Path()
    kept: list[str] = field(default_factory=list)
    rule: str = ""

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
) -> BuiltSet:
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
    with open_source(set_recipe, source, progress=progress) as files:
        built = _make_configs(set_recipe, files)
    built.notes = [*files.notes, *built.notes, *compare_counts(set_recipe.recipe, built.categories)]
    return built


def _make_configs(set_recipe: SetRecipe, source: Source) -> BuiltSet:
    recipe = set_recipe.recipe
    rule = make_rule(recipe)
    built = BuiltSet(rule=rule.sentence)
    origin = {
        **({} if set_recipe.origin == "package" else {"recipe": recipe.dump()}),
        "source_sha256": {name: sha256_of(path) for name, path in sorted(source.files.items())},
        "errors": recipe.facts.errors,
        "nnd_tasks": __version__,
    }
    given = read_rows(set_recipe, source, rule)
    if given.unmatched and set_recipe.origin != "package":
        built.notes.append(f"`leave_out` names {some_of(given.unmatched, show=str)}, which no row has")
    for config, rows in given.configs.items():
        tests, accounts, contradictory = make_tests(rows, recipe, rule)
        if recipe.candidates == "texts":
            built.add(config, tests, {"accounts": accounts, **origin})
            continue
        tests_again, accounts_again = tests, accounts
        if config in given.mended:
            tests_again, accounts_again, contradictory = make_tests(given.mended[config], recipe, rule)
        clean, cleaning = clean_tests(tests_again, contradictory)
        if not tests_again.equals(tests):
            fewer = accounts["judgements"]["used"] - accounts_again["judgements"]["used"]
            cleaning["mended"] = {"left_out": fewer, "tests": len(tests_again), "reasons": cleaning["reasons"]}
        built.add(config, tests, {"accounts": accounts, "cleaning": cleaning, **origin})
        if len(clean):
            built.add(clean_name(config), clean, {"cleaned_from": config, **origin})
        else:
            built.notes.append(f"{config}: no test is left for {clean_name(config)}, so there is none")
    return built


def make_tests(rows: pd.DataFrame, recipe: Recipe, rule: Rule) -> tuple[pd.DataFrame, dict[str, Any], Any]:
    """Make the tests of the rows of a config.

    Returns:
        The tests; what was used and left out, for the report; and which tests have a candidate that was judged both good and
        bad, shape (tests,).

    Raises:
        NNDError: the rows are not as the recipe says, or no test comes out.
    """
    read = rows.index.nunique()
    given = rows
    if "chosen" in rows:
        tests, rows = preference_tests(rows, recipe)
        accounts = _count_rows(rows, rows, read)
        if tests is None:
            raise NNDError(_say_why_nothing(accounts))
        accounts |= look_at_texts(given, tests, tests[["context", *recipe.field]].drop_duplicates(), recipe)
        return tests, accounts, np.zeros(len(tests), dtype=bool)
    if isinstance(rule, PairRule):
        raise NNDError("the recipe names no rule: better, order, min_gap or majority")
    judged = judge_rows(rows, recipe, rule)
    rated = judged.candidates[judged.candidates["exclusion"] == ""]
    high, low, high_first, compared = pair_candidates(rated, rule.min_gap, "the table")
    if not len(high):
        accounts = _count_all(judged, rule, read, high, low, compared)
        merged = accounts["judgements"]["used"] > len(judged.candidates)
        raise NNDError(_say_why_nothing(accounts, merged=merged))
    pair, error = repeat_for_errors(rated, judged.errors, low)
    high_of_test = high[pair]
    low_of_test = low[pair]
    tests = pair_tests(rated, judged.errors.iloc[error], judged.prompts, high_of_test, low_of_test, high_first[pair])
    contradicted = find_contradicted(rated, rule.min_gap)
    contradictory = contradicted[high_of_test] | contradicted[low_of_test]
    accounts = _count_all(judged, rule, read, high, low, compared)
    accounts |= look_at_texts(given, tests, judged.prompts.drop(columns="cluster_id"), recipe)
    return tests, accounts, contradictory


def _count_all(
    judged: Judged, rule: LabelRule | ScoreRule, read: int, high: Index, low: Index, compared: int
) -> dict[str, Any]:
    """Count rows, judgements, candidates and pairs by why they are left out."""
    rated = judged.candidates[judged.candidates["exclusion"] == ""]
    in_test = np.zeros(len(rated), dtype=bool)
    in_test[high] = in_test[low] = True
    candidates = exclude(judged.candidates, judged.candidates.index.isin(rated.index[~in_test]), "no_pair")
    judgements = judged.judgements
    used_rows = judged.rows.index[judged.rows["exclusion"] == ""]
    accounts = {
        **_count_rows(judged.rows, judgements, read),
        "judgements": tally_table(judgements[judgements["row_id"].isin(used_rows)], "judgement"),
        "candidates": tally_table(candidates, "candidate"),
        "pairs": tally_counts(compared, {"no_order": compared - len(high)}),
        "groups": rated["group"].nunique(),
        "groups_with_tests": rated["group"].iloc[high].nunique(),
    }
    if differently := int(candidates["differently"].sum()):
        what = "the most frequent label counts" if isinstance(rule, LabelRule) else "the mean of their scores counts"
        accounts |= {"judged_differently": differently, "what_counts": what}
    unranked = judgements[judgements["exclusion"] == "unranked"]
    if len(unranked):
        accounts["unranked_labels"] = unranked["value"].unique().tolist()
    return accounts


def _count_rows(rows: pd.DataFrame, spans: pd.DataFrame, read: int) -> dict[str, Any]:
    """Count rows, and error spans in the rows of ``spans``; raise RuntimeError where the sum is not what was read."""
    accounts = {"rows": tally_table(rows, "row")}
    check_sum(accounts["rows"], rows, read)
    if "spans_nowhere" in spans:
        spans = spans[spans["exclusion"] == ""]
        spans = spans[~spans.get("row_id", spans.index.to_series()).duplicated()]
        nowhere = int(spans["spans_nowhere"].sum())
        accounts["error_spans"] = tally_counts(int(spans["spans_placed"].sum()) + nowhere, {"nowhere": nowhere})
    return accounts


def _say_why_nothing(accounts: Mapping[str, Any], *, merged: bool = False) -> str:
    candidates = accounts.get("candidates", {}).get("left_out", {})
    why = ""
    if "no_pair" in candidates and not accounts["pairs"]["total"]:
        why = ": no context has two candidates; is --context the column of what candidates share?"
        if "tie" in candidates or accounts["rows"]["left_out"]:
            why = ": no context has two candidates whose judgements count"
    if "tie" in candidates and candidates["tie"] == accounts["candidates"]["total"]:
        why = ": of every candidate people said both equally often"
    hint = "; equal texts of a context count as one candidate" if merged else ""
    return f"no test comes out{why}; {'; '.join(describe_accounts(accounts))}{hint}"


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
        yield (
            f"{counted(made.total(), 'test')}, the recipe expects {number}: other files, or another rule? If this is right, "
            "correct or delete `expected` in the recipe"
        )


def write_built(set_recipe: SetRecipe, built: BuiltSet, folder: Path, *, replace: bool = False) -> None:
    """Write the tests of a set as configs of its dataset folder, beside those that it has."""
    recipe = set_recipe.recipe
    about = About(
        name=set_recipe.name,
        facts=recipe.facts,
        rule=built.rule,
        recipe="" if set_recipe.origin == "package" else dump_yaml(recipe.dump()),
        pairs=not any("judgements" in part.get("accounts", {}) for part in built.report.values()),
    )
    first = next(iter(recipe.files), "")
    default = config_of(set_recipe, first, Path(first)) if recipe.config == FILE and first else recipe.config
    obsolete = {clean_name(config) for config in built.tables} - set(built.tables)
    summaries = write_dataset(
        folder, built.tables, about=about, report=built.report, default=default or next(iter(built.tables)),
        obsolete=obsolete, known=built.summaries, replace=replace,
    )  # fmt: skip
    built.folder, built.kept = folder, [one.name for one in summaries if one.name not in built.tables]


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
