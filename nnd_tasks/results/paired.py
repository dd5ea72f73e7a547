"""Runs side by side: which of them have one protocol, and their outcomes on the tests that all have scored."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nnd_tasks.categories import ALL, is_of_category
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.results.runs import METRIC, Run
from nnd_tasks.text import counted

#: Parts of the protocol that say little to people: digests, and what goes with the number of exemplars.
_DIGESTS = {"data", "prompt", "system"}
_OF_SHOTS = {"shots_seed", "exemplars"}


class CountsByPrompt(NamedTuple):
    """What rates and their clustered errors are made of (`nnd_tasks.statistics.summarize_rate`).

    Attributes:
        totals: of the tests of each prompt, shape (prompts,), or (prompts, n) for n numbers of each test.
        tests: how many there are, shape (prompts,).
    """

    totals: np.ndarray[Any, Any]
    tests: np.ndarray[Any, np.dtype[np.int64]]


def sum_by_prompt(outcomes: pd.DataFrame | pd.Series[Any], prompts: pd.Series[str]) -> CountsByPrompt:
    """Sum outcomes, or other numbers of tests, by prompt, in order of appearance.

    Args:
        outcomes: of each test, shape (tests,) or (tests, n).
        prompts: of each test, its ``cluster_id``.
    """
    groups = outcomes.groupby(prompts.to_numpy(), sort=False)
    return CountsByPrompt(groups.sum().to_numpy(), groups.size().to_numpy())


@dataclass(eq=False)
class Paired:
    """Several models on the same tests.

    Attributes:
        task: name of the task, or of the tasks.
        runs: one per model; with the prompts that all of them have.
        tests: one row per test that all models have scored: ``test_id``, ``cluster_id``, ``category``, ``subcategory``,
            ``severity``, ``document`` (of the first run); and ``stratum``, where parts of a test set count equally, whatever
            their sizes.
        passed: shape (tests, models). Of documents of another task it is their metric, a number.
        left_out: number of tests that some model could not score.
        distinguished_by: what tells these runs from others of the same set and task, such as ``shots 2``; empty where there are
            none.
        unshared_tests: number of tests that only some of the runs have, as the others ran on a sample.
        prompts_in_set: where not all prompts of the set are here, how many it has.
        conflict: why a run of the same protocol as others cannot be compared with them.
        credit: what each test counts, from 0 to 1, shape (tests, models), where a tie of some models counts as half passed;
            None where `passed` says it.
        set: name of the set and its config.
        words: how reports speak of the outcomes.
        of_documents: they are of a task that is not NND's.
        is_part: the task is part of a group of tasks that has a mean.
        numbers: the outcomes are other numbers than 0 and 1.
        span: how far apart outcomes can be: 1, and of numbers beyond 0 and 1 the largest less the smallest.
        models: names of the models.
        tests_of: model -> the rows that its run has of `tests`, in the same order; ``test_id`` is the index.
        categories: ``all``, then the categories of the tests, if they have any.
        name: of the task, with what tells these runs from others of it.
        title: the same, and whether they are of some prompts only.
        notes: which tests are left out, and why; and what the models were trained on.
        passed_by_prompt: category -> tests of it that each model passes of each prompt, or their credit, shape (prompts,
            models), and how many tests each prompt has, shape (prompts,).
    """

    task: str
    runs: list[Run]
    tests: pd.DataFrame = field(repr=False)
    passed: np.ndarray[Any, Any] = field(repr=False)
    left_out: int
    distinguished_by: str = ""
    unshared_tests: int = 0
    prompts_in_set: int | None = None
    conflict: str = ""
    credit: np.ndarray[Any, np.dtype[np.float64]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Compute what reports say of all of it."""
        self.set, self.words = self.runs[0].set, self.runs[0].words
        self.of_documents = self.runs[0].reader == METRIC
        self.is_part = "group" in self.runs[0].command
        self.numbers = not np.isin(self.passed, (0, 1)).all()
        self.span = 1.0
        if self.numbers and (self.passed.min() < 0 or self.passed.max() > 1):
            self.span = float(np.ptp(self.passed))
        self.models = [run.model for run in self.runs]
        self.tests_of = {run.model: run.tests.set_index("test_id").loc[self.tests["test_id"]] for run in self.runs}
        self.categories = [ALL, *sorted(set(self.tests["category"]) - {""})]
        test, prompt = self.words[:2]
        self.name = f"{self.task} ({self.distinguished_by})" if self.distinguished_by else self.task
        self.title = self.name
        self.notes = list(dict.fromkeys(run.training_note for run in self.runs if run.trained_on))
        if self.prompts_in_set is not None:
            whole = counted(self.prompts_in_set, test if self.of_documents else prompt)
            sample = f"{len(self.runs[0].documents):,} of {whole}"
            self.title += "" if "selection" in self.distinguished_by else f" ({sample})"
            self.notes.append(
                f"A sample: {sample}. Its rates over all {test}s can be far from "
                "those of the whole set: --sample takes categories evenly, --limit the first prompts, --split some sources."
            )
        if self.unshared_tests:
            self.notes.append(
                f"Some runs are of a sample: compared on the {counted(len(self.tests), test)} of "
                f"{counted(self.tests['cluster_id'].nunique(), prompt)} that all of them have; left out: "
                f"{counted(self.unshared_tests, test)} of other {prompt}s."
            )
        if self.left_out:
            self.notes.append(f"Left out: {counted(self.left_out, test)} that some model could not score.")
        counted_as = self.passed if self.credit is None else self.credit
        self.passed_by_prompt = {name: self.sum_by_prompt(counted_as, name) for name in self.categories}

    def of_category(self, category: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Tell which tests are of a category; of ``all`` every test is. Shape (tests,)."""
        return is_of_category(self.tests, category)

    def sum_by_prompt(self, outcomes: np.ndarray[Any, Any], category: str) -> CountsByPrompt:
        """Sum outcomes, such as `passed`, of the tests of a category by prompt; see the function of this name.

        Where strata count equally, a test counts as many times as makes them equal; the numbers of tests, too, are weighted.
        """
        chosen = self.of_category(category)
        prompts = self.tests.loc[chosen, "cluster_id"]
        if "stratum" not in self.tests:
            return sum_by_prompt(pd.DataFrame(outcomes[chosen]), prompts)
        strata = self.tests["stratum"]
        weights = (len(strata) / strata.nunique() / strata.map(strata.value_counts())).to_numpy()[chosen, None]
        totals, _ = sum_by_prompt(pd.DataFrame(np.hstack([outcomes[chosen] * weights, weights])), prompts)
        return CountsByPrompt(totals[:, :-1], totals[:, -1])


def pair(runs: Sequence[Run], allow: Sequence[str] = (), *, split_conflicts: bool = False) -> list[Paired]:
    """Put the runs on each set side by side; runs of different protocols are in different groups.

    Args:
        runs: of any tasks; those on one set and config belong together.
        allow: parts of the protocol that may differ, such as ``prompt`` for models that each have their own format. With
            ``selection``, runs are compared on the prompts that all of them have.
        split_conflicts: put runs that cannot be compared into groups of their own, with the reason, and raise no error.

    Raises:
        NNDError: a model has two runs in one group, one of two models was trained on these tests, or two runs have
            different tests.
    """
    keys = {"window", "trained_on", *(key for run in runs for key in run.full_protocol)}
    unknown = [name for name in allow if name not in keys]
    if unknown:
        raise NNDError(f"--allow {unknown[0]}: no part of the protocol; they are {', '.join(sorted(keys))}")
    pairs = []
    for name in dict.fromkeys(run.set for run in runs):
        for distinguished_by, group in _group_runs([run for run in runs if run.set == name], allow):
            try:
                paired = _join(group, allow, distinguished_by)
                if split_conflicts and len(group) > 1 and paired.tests.empty:
                    raise NNDError(f"no test was scored by all of {', '.join(paired.models)}")
                pairs.append(paired)
            except NNDError as error:
                if not split_conflicts:
                    raise
                several_of_a_model = len({run.model for run in group}) < len(group)
                for run in group:
                    label = f"{run.model}, {run.date}" if several_of_a_model else run.model
                    label = f"{distinguished_by}, {label}" if distinguished_by else label
                    pairs.append(replace(_join([run], allow, label), conflict=str(error)))
    return pairs


def pair_several(
    runs: Sequence[Run], allow: Sequence[str], purpose: str, hint: str = ""
) -> tuple[list[Paired], list[str]]:
    """Put runs of several models side by side, and say which are in no comparison (`not_compared`).

    Args:
        runs: of any tasks.
        allow: parts of the protocol that may differ.
        purpose: what needs several models, for an error.
        hint: what to do with one model, for an error.

    Raises:
        NNDError: as `pair`; no two models ran on one task, or have scored the same test.
    """
    paired = pair(runs, allow)
    groups = [group for group in paired if len(group.runs) > 1]
    single = not_compared(runs, paired)
    if not groups:
        raise NNDError(
            f"{purpose} needs two models or checkpoints on one task: {single[0] if single else 'no run is there'}{hint}"
        )
    for group in groups:
        if group.tests.empty:
            raise NNDError(f"{group.title}: no test was scored by all of {', '.join(group.models)}")
    return groups, single


# ---------------------------------------------------------------- which runs belong together


def _group_runs(runs: Sequence[Run], allow: Sequence[str]) -> list[tuple[str, list[Run]]]:
    """Divide the runs on a set into groups of one protocol, each with what distinguishes it from the others."""
    task_per_model = len({run.task for run in runs}) == len({run.model for run in runs}) == len(runs)
    by_task = not (allow or task_per_model)
    skip = set() if by_task else {*allow, "task", "version"}  # the versions of two tasks have nothing in common
    groups = []
    for same in _group_equal(runs, {*skip, "overlong"}):
        for group in _group_fitting(same, {*allow, "trained_on"}):
            # One model twice: then runs are also separated by what would have been done with texts that are too long.
            once = len({run.model for run in group}) == len(group)
            groups += [group] if once else _group_equal(group, skip)
    return [*zip(_distinguish(groups), groups, strict=True)]


def _group_equal(runs: Sequence[Run], skip: Container[str]) -> list[list[Run]]:
    """Put runs of one protocol together, parts to ``skip`` aside."""
    equal: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        settings = sorted((key, str(value)) for key, value in run.full_protocol.items() if key not in skip)
        equal[str(settings)].append(run)
    return list(equal.values())


def _group_fitting(runs: Sequence[Run], allow: Collection[str]) -> Iterable[list[Run]]:
    """Put runs together that can be compared; those without a long prompt join such as were cut at the same window."""
    groups: dict[Run, list[Run]] = defaultdict(list)
    # The key of a run that was cut has most parts, and all those of others: what fits it fits together.
    strictest = sorted(runs, key=lambda run: -len(run.comparison_key))
    for run in runs:
        groups[next(one for one in strictest if not find_conflict(run, one, allow))].append(run)
    return groups.values()


def _distinguish(groups: Sequence[Sequence[Run]]) -> list[str]:
    """What tells each group from the others of its tasks, in words if they do; empty where there are none."""
    labels = []
    for group in groups:
        tasks = {run.task for run in group}
        rivals = [members[0].settings for members in groups if tasks & {run.task for run in members}]
        keys = [key for key in dict.fromkeys(chain(*rivals)) if key != "task"]
        table = pd.DataFrame({key: _shorten_digests([rival.get(key, "no") for rival in rivals]) for key in keys})
        table = table.loc[:, table.nunique() > 1]
        for hidden in (_DIGESTS | _OF_SHOTS, _DIGESTS, set()):
            columns = table.drop(columns=list(hidden), errors="ignore")
            if len(columns.columns) and not columns.duplicated().any():
                break
        row = columns.loc[rivals.index(group[0].settings)]
        labels.append(visible(", ".join(f"{key} {value}" for key, value in row.items())))
    return labels


def _shorten_digests(texts: Sequence[str]) -> list[str]:
    """Drop the digests of selections if the texts stay distinct: ``10 of 60 (3f2a)`` becomes ``10 of 60``."""
    short = [re.sub(r"( of \d+) \([0-9a-f]+\)$", r"\1", text) for text in texts]
    return short if len(set(short)) == len(set(texts)) else list(texts)


def not_compared(runs: Sequence[Run], pairs: Sequence[Paired]) -> list[str]:
    """A line for each run that is in no comparison, and why; those first with a run of another model on their set."""
    lines: list[str] = []
    alone: list[str] = []
    for paired in pairs:
        if len(paired.runs) > 1:
            continue
        single = paired.runs[0]
        why = f"no run of another model on {single.set} is at hand for it"
        others = [run for run in runs if run.set == single.set and run.model != single.model]
        if others:
            nearest = max(
                others,
                key=lambda run: (
                    run.task == single.task,
                    len(run.comparison_key.items() & single.comparison_key.items()),
                    bool(find_conflict(single, run)),
                ),
            )
            why = "no run of another model has its settings; name the results files of two runs to compare them"
            if nearest.task != single.task:
                why = f"the others ran {nearest.task}; --allow task compares all tasks on {single.set}"
            why = find_conflict(single, nearest) or why
        line = f"the run of {single.model} on {paired.title} is in no comparison: {paired.conflict or why}"
        (lines if others else alone).append(line)
    return lines + alone


# ---------------------------------------------------------------- the runs of one group, test by test


def _join(runs: Sequence[Run], allow: Sequence[str], distinguished_by: str) -> Paired:
    """Join the runs of one group by test.

    Raises:
        NNDError: two of them cannot be compared, or are of one model; or their tests differ.
    """
    for two in combinations(runs, 2):
        if conflict := find_conflict(*two, allow):
            raise NNDError(conflict)
    of_model = dict[str, Run]()
    for run in runs:
        other = of_model.setdefault(run.model, run)
        if other is not run:
            raise NNDError(
                f"{run.model}: several runs of it on {run.set}, {other.path} and {run.path}; name the results file of "
                "one, or choose by what differs, such as --select shots=0"
            )
    test_ids = set[str]().union(*(run.tests["test_id"] for run in runs))
    prompts_in_set = max(run.prompts_in_set for run in runs)
    if len({(run.protocol.get("selection"), run.protocol.get("split")) for run in runs}) > 1:
        runs = _take_common_prompts(runs)
    first, *others = runs
    prompts = ["high", "low"] if "prompt" in allow and first.reader == METRIC else []
    texts = test_texts(first).drop(columns=prompts)
    for run in others:
        of_run = test_texts(run).drop(columns=prompts)
        differing = set[Any]()
        if not of_run.equals(texts):  # they may be in another order
            differing = set(texts.itertuples(name=None)) ^ set(of_run.itertuples(name=None))
        if differing:
            raise NNDError(
                f"{first.path} and {run.path}: {run.words.test} {min(differing)[0]} is in one of them only, or has another "
                "prompt, category or text; they are of different data, or one is damaged: run both again"
            )
    outcomes = pd.concat([run.tests.set_index("test_id")["passed"] for run in runs], axis=1).loc[first.tests["test_id"]]
    scored = outcomes.notna().all(axis=1).to_numpy()
    columns = ["test_id", "cluster_id", "category", "subcategory", "severity", "document", "stratum"]
    return Paired(
        task=" / ".join(dict.fromkeys(run.set if run.reader == METRIC else run.task for run in runs)),
        runs=list(runs),
        tests=first.tests.loc[scored, first.tests.columns.intersection(columns)].reset_index(drop=True),
        passed=outcomes[scored].to_numpy(dtype=float if first.reader == METRIC else bool),
        left_out=int((~scored).sum()),
        distinguished_by=distinguished_by,
        unshared_tests=len(test_ids) - len(first.tests),
        prompts_in_set=prompts_in_set if prompts_in_set > len(first.documents) else None,
    )


def _take_common_prompts(runs: Sequence[Run]) -> list[Run]:
    """The runs with the prompts that all of them have; raise NNDError where there are none."""
    common = frozenset.intersection(*(run.prompt_ids for run in runs))
    if not common:
        raise NNDError(f"{' and '.join(run.model for run in runs)} ({runs[0].task}): no prompt is in all of their runs")
    reduced = []
    for run in runs:
        documents = [document for document in run.documents if document["cluster_id"] in common]
        index_of = {document["cluster_id"]: i for i, document in enumerate(documents)}
        places = (
            run.tests["document"].map([document["cluster_id"] for document in run.documents].__getitem__).map(index_of)
        )
        tests = run.tests[places.notna()].assign(document=places.dropna().astype(int)).reset_index(drop=True)
        reduced.append(replace(run, documents=documents, tests=tests))
    return reduced


def test_texts(run: Run) -> pd.DataFrame:
    """What each test of a run asks: its prompt, category and two texts; ``test_id`` is the index."""
    return run.tests.assign(**run.texts).set_index("test_id")[["cluster_id", "category", "high", "low"]]


def find_conflict(first: Run, second: Run, allow: Collection[str] = ()) -> str | None:
    """Why two runs cannot be compared, as the text of an error; None where they can.

    Windows must be equal only where a prompt was shortened. Of models that were trained on some of these tests, all must have
    been trained on the same.
    """
    if first.training_overlap != second.training_overlap and "trained_on" not in allow:
        trained = first if first.training_overlap else second
        return (
            f"{first.model} and {second.model} cannot be compared: {trained.model} was trained on "
            f"{', '.join(trained.training_overlap)}, which is in these tests; run both with --split test, or compare anyway with "
            "--allow trained_on"
        )
    settings = [{**run.full_protocol, "window": run.model_info.get("window")} for run in (first, second)]
    keys = dict.fromkeys((*first.comparison_key, *second.comparison_key))
    ignored = {"task", *allow}
    if first.task != second.task:
        ignored.add("version")
    differing = [key for key in keys if key not in ignored and settings[0].get(key) != settings[1].get(key)]
    if not differing:
        return None
    values = "; ".join(f"{key} {settings[0].get(key)!r} and {settings[1].get(key)!r}" for key in differing)
    remedy = "equal settings"
    if differing == ["window"]:
        cut = first if first.truncated else second
        prompts = counted(cut.truncated, "prompt was", "prompts were")
        values = f"{prompts} cut to {cut.model_info.get('window') or 'fewer'} tokens for {cut.model}"
        remedy = f"max_length={min(one['window'] or math.inf for one in settings)} in --model_args and compare only these runs"
    can_be_allowed = first.prompt_ids & second.prompt_ids and "data" not in differing
    hint = f", or compare anyway with --allow {','.join(differing)}" if can_be_allowed else ""
    models = " and ".join(f"{run.model} ({run.task})" for run in (first, second))
    return f"{models} cannot be compared: {values}; rerun both with {remedy}{hint}"
