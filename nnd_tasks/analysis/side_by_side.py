"""Runs side by side: which of them were asked the same, and their outcomes on the tests that all have scored."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.analysis import selecting
from nnd_tasks.analysis.results import Run
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.wording import counted

#: What ``--allow`` may name besides parts of the protocol.
_ALLOWED = ("task", "version", "window")
#: Parts of the protocol whose values are digests, which say nothing to people.
_DIGESTS = {"data", "prompt", "system"}


@dataclass(frozen=True, eq=False)
class Paired:
    """Several models on the same tests.

    Attributes:
        task: name of the task, or of the tasks.
        set: name of the set and its config.
        runs: one per model; with the prompts that all of them have.
        tests: one row per test that all models have scored: ``test_id``, ``cluster_id``, ``category``, ``subcategory``,
            ``severity``, ``document`` (of the first run).
        passed: shape (tests, models).
        left_out: number of tests that some model could not score.
        apart: what tells these runs from others of the same set and task, such as ``shots 2``; empty where there are none.
        beyond: number of tests that only some of the runs have, as the others ran on a sample.
    """

    task: str
    set: str
    runs: list[Run]
    tests: pd.DataFrame = field(repr=False)
    passed: np.ndarray[Any, np.dtype[np.bool_]] = field(repr=False)
    left_out: int
    apart: str = ""
    beyond: int = 0

    @property
    def notes(self) -> list[str]:
        """Say which tests are left out, and why."""
        notes = []
        if self.beyond:
            count = self.tests["cluster_id"].nunique()
            notes.append(
                f"Some runs are of a sample: compared on the {counted(len(self.tests), 'test')} of {counted(count, 'prompt')} "
                f"that all of them have; left out: {counted(self.beyond, 'test')} of other prompts."
            )
        if self.left_out:
            notes.append(f"Left out: {counted(self.left_out, 'test')} that some model could not score.")
        return notes

    @property
    def title(self) -> str:
        """Name of the task, with what tells these runs from others of it."""
        return f"{self.task} ({self.apart})" if self.apart else self.task

    def task_of(self, run: Run) -> str:
        """Return the name of a run's task, as `title` has it."""
        return f"{run.task} ({self.apart})" if self.apart else run.task

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return [run.model for run in self.runs]


def pair(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Paired]:
    """Put the runs on each set side by side; runs of different protocols are in different groups.

    Runs of which one has a sample of the other's prompts are side by side on the prompts that both have.

    Args:
        runs: of any tasks; those on one set and config belong together.
        allow: parts of the protocol that may differ, such as ``prompt`` for models that each have their own format.

    Raises:
        NNDError: a model has two runs in one group, prompts were shortened to different windows, or two runs have
            different tests.
    """
    by_set: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_set[run.set].append(run)
    pairs = []
    known = {*_ALLOWED, *(key for run in runs for key in run.protocol)}
    if unknown := [name for name in allow if name not in known]:
        raise NNDError(f"--allow {unknown[0]}: no part of the protocol; they are {', '.join(sorted(known))}")
    for of_set in by_set.values():
        task_per_model = len({run.task for run in of_set}) == len({run.model for run in of_set}) == len(of_set)
        by_task = not allow and not task_per_model
        groups = _groups(of_set, allow, by_task=by_task)
        whole = [_with_larger(group, of_set, allow, by_task=by_task) for group in groups]
        used = {id(run) for group, more in zip(groups, whole, strict=True) for run in more[len(group) :]}
        # A run that stands beside samples already needs no group of its own.
        kept = [i for i, more in enumerate(whole) if len(more) > 1 or id(more[0]) not in used]
        for i, apart in zip(kept, _apart([groups[i] for i in kept]), strict=True):
            ordered = sorted(whole[i], key=lambda run: next(j for j, one in enumerate(of_set) if one is run))
            pairs.append(replace(_pair(ordered, allow), apart=apart))
    return pairs


def pair_several(runs: Sequence[Run], allow: Sequence[str], what: str) -> tuple[list[Paired], list[str]]:
    """Return the runs side by side, and a note on each task that only one model ran.

    Args:
        runs: of any tasks.
        allow: parts of the protocol that may differ.
        what: needs several models, for an error.

    Raises:
        NNDError: as `pair`, or no two models ran on one task.
    """
    paired = pair(runs, allow)
    groups = [group for group in paired if len(group.runs) > 1]
    alone = [f"{group.runs[0].model} on {group.title}" for group in paired if len(group.runs) == 1]
    if not groups:
        if any(one.set == other.set and one.model != other.model for one, other in combinations(runs, 2)):
            raise NNDError(not_compared(runs, paired)[0])  # on one set, but not asked the same
        raise NNDError(f"one run only ({'; '.join(alone)}): {what} needs two models or checkpoints on one task")
    return groups, [f"Left out, the only run of its task and protocol: {one}." for one in alone]


def _prompts(run: Run) -> set[str]:
    return {document["cluster_id"] for document in run.documents}


def _with_larger(group: list[Run], runs: Sequence[Run], allow: Sequence[str], *, by_task: bool) -> list[Run]:
    """Return a group with the runs of other models whose prompts hold its own and more; of each model the smallest."""
    first, mine = group[0], _prompts(group[0])
    others = [run for run in runs if run.protocol.get("selection") != first.protocol.get("selection")]
    found = list(group)
    for run in sorted(others, key=lambda run: len(run.documents)):
        known = run.model in {one.model for one in found} or (by_task and run.task != first.task)
        if not known and mine < _prompts(run):
            with suppress(NNDError):
                check_comparable(first, run, allow)
                found.append(run)
    return found


def _asked(run: Run, allow: Sequence[str] = ()) -> dict[str, Any]:
    """Return what must be equal for runs to be compared: the protocol, and the N of a version N-X (CONTRIBUTING.md)."""
    asked = {key: value for key, value in run.protocol.items() if key not in allow}
    return asked if "version" in allow else {**asked, "version": str(run.version).partition("-")[0]}


def _groups(runs: Sequence[Run], allow: Sequence[str], *, by_task: bool) -> list[list[Run]]:
    """Return the groups of runs that were asked the same; with ``by_task``, runs of different tasks are never together."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        without = (*allow, *(() if by_task else ("version",)))  # the versions of two tasks have nothing in common
        groups[run.task if by_task else "", json.dumps(_asked(run, without), sort_keys=True)].append(run)
    return list(groups.values())


def _apart(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Return what tells each group from the others of its tasks; empty where there are none.

    Digests say nothing to people: they are named only where nothing else differs.
    """
    texts = []
    for group in groups:
        tasks = {run.task for run in group}
        rivals = [other for other in groups if tasks & {run.task for run in other}]
        parts = [_asked(rival[0]) for rival in rivals]
        keys = [
            key
            for key in dict.fromkeys(key for part in parts for key in part)
            if len({str(part.get(key)) for part in parts}) > 1
        ]
        if "shots" in keys:  # the number of exemplars tells the groups apart; their seed need not be named
            keys = [key for key in keys if key not in ("shots_seed", "exemplars")]
        plain = [key for key in keys if key not in _DIGESTS]
        distinct = {tuple(str(part.get(key)) for key in plain) for part in parts}
        shown = plain if len(distinct) == len(parts) else keys
        mine = next(place for place, rival in enumerate(rivals) if rival is group)
        named = (f"{key} {selecting.texts_apart([part.get(key) for part in parts])[mine]}" for key in shown)
        texts.append(visible(", ".join(named)))
    return texts


def not_compared(runs: Sequence[Run], pairs: Sequence[Paired]) -> list[str]:
    """Return a line for each run that is in no comparison, and why."""
    lines = []
    for alone in (paired for paired in pairs if len(paired.runs) == 1):
        [lone] = alone.runs
        line = f"the run of {lone.model} on {alone.title} is in no comparison"
        others = [run for run in runs if run.set == lone.set and run.model != lone.model]
        others.sort(key=lambda run: (run.task != lone.task, -_shared(run, lone)))
        if not others:
            lines.append(f"{line}: no other model ran on {lone.set}")
            continue
        try:
            first, second = sorted(
                (others[0], lone), key=lambda run: next(i for i, one in enumerate(runs) if one is run)
            )
            check_comparable(first, second)
            same = [run for run in runs if run.set == lone.set and run.model == lone.model and run is not lone]
            lines.append(
                f"{line}: another run of {lone.model} is compared"
                if same and others[0].task == lone.task
                else f"{line}: the others ran {others[0].task}; --allow task compares all tasks on {lone.set}"
            )
        except NNDError as error:
            lines.append(f"{line}: {error}")
    return lines


def _shared(run: Run, other: Run) -> int:
    """Return how many parts of two protocols are equal."""
    return sum(run.protocol.get(key) == value for key, value in other.protocol.items())


def _pair(runs: list[Run], allow: Sequence[str]) -> Paired:
    """Join the runs of one group by test.

    Raises:
        NNDError: two of them cannot be compared, or are of one model; or their tests differ.
    """
    first = runs[0]
    for one, other in combinations(runs, 2):  # every two of them, as each may have a window of its own
        check_comparable(one, other, allow)
    counts = Counter(run.model for run in runs)
    repeated = [model for model, count in counts.items() if count > 1]
    if repeated:
        raise NNDError(_choose_one([run for run in runs if run.model == repeated[0]]))
    every = set[str]().union(*(run.tests["test_id"] for run in runs))
    if len({run.protocol.get("selection") for run in runs}) > 1:
        runs = _on_common_prompts(runs)
    first = runs[0]
    for run in runs:
        double = run.tests["test_id"].duplicated()
        if double.any():
            raise NNDError(f"{run.path}: test {run.tests['test_id'][double].iloc[0]} is there twice")
    asked = [asked_texts(run) for run in runs]
    for other, of_other in zip(runs[1:], asked[1:], strict=True):
        differ = set(asked[0].index) ^ set(of_other.index)
        if differ:
            raise NNDError(
                f"{first.path} and {other.path}: {counted(len(differ), 'test')} in one of them only, e.g. {min(differ)}"
            )
        unequal = (asked[0] != of_other.reindex(asked[0].index)).any(axis=1)
        if unequal.any():
            raise NNDError(
                f"{first.path} and {other.path}: test {unequal.idxmax()} has another prompt, category or text; they are of "
                "different data, or one is damaged: run both again"
            )
    order = first.tests["test_id"]
    passed = [run.tests.set_index("test_id")["passed"].reindex(order) for run in runs]
    scored = np.all([column.notna().to_numpy() for column in passed], axis=0)
    table = np.stack([column.to_numpy(dtype=bool, na_value=False)[scored] for column in passed], axis=1)
    kept = ["test_id", "cluster_id", "category", "subcategory", "severity", "document"]
    tests = first.tests.loc[scored, kept].reset_index(drop=True)
    names = " / ".join(dict.fromkeys(run.task for run in runs))
    return Paired(names, first.set, runs, tests, table, int((~scored).sum()), beyond=len(every) - len(first.tests))


def _choose_one(runs: Sequence[Run]) -> str:
    """Return an error about several runs of one model, with a ``--select`` of what differs, if any."""
    for key in selecting.PARTS:
        values = [selecting.value_of(key, run.task, run.version, run.protocol) for run in runs]
        if len(set(values)) > 1:
            hint = f", or choose by what differs, such as --select {key}={values[0]}"
            break
    else:
        hint = ""
    tasks = ", ".join(dict.fromkeys(run.task for run in runs))
    return visible(
        f"{runs[0].model}: {len(runs)} runs of it on {runs[0].set}, {tasks}; name the results file of one{hint}"
    )


def _on_common_prompts(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with the prompts that all of them have; raise NNDError where there are none."""
    common = set.intersection(*map(_prompts, runs))
    if not common:
        raise NNDError(f"{' and '.join(run.model for run in runs)} ({runs[0].task}): no prompt is in all of their runs")
    parts = []
    for run in runs:
        places = [i for i, document in enumerate(run.documents) if document["cluster_id"] in common]
        tests = run.tests[run.tests["document"].isin(places)]
        tests = tests.assign(document=np.searchsorted(places, tests["document"])).reset_index(drop=True)
        parts.append(replace(run, documents=[run.documents[i] for i in places], tests=tests))
    return parts


def asked_texts(run: Run) -> pd.DataFrame:
    """Return what each test of a run asks: its prompt, category and two texts; ``test_id`` is the index."""
    tests = run.tests.set_index("test_id")
    asked = tests[["cluster_id", "category"]].copy()
    for side in ("high", "low"):
        places = zip(tests["document"], tests[side], strict=True)
        asked[side] = [run.documents[document]["candidates"][candidate] for document, candidate in places]
    return asked


def _nested(first: Run, other: Run) -> bool:
    """Tell whether one of two runs has prompts that are a part of those of the other."""
    one, two = _prompts(first), _prompts(other)
    return one < two or two < one


def check_comparable(first: Run, other: Run, allow: Sequence[str] = ()) -> None:
    """Raise NNDError, which names what differs, when two runs were not asked the same.

    Args:
        first: a run.
        other: another run.
        allow: what may differ. Windows must be equal only where a prompt was shortened, and of two selections one must be a part
            of the other.
    """
    keys = [key for key in {**first.protocol, **other.protocol} if key not in allow]
    differ = [
        f"{key} {first.protocol.get(key)!r} and {other.protocol.get(key)!r}"
        for key in keys
        if first.protocol.get(key) != other.protocol.get(key) and not (key == "selection" and _nested(first, other))
    ]
    # Of a version N-X only N says whether numbers compare (CONTRIBUTING.md).
    same_version = str(first.version).partition("-")[0] == str(other.version).partition("-")[0]
    if not same_version and "version" not in allow and first.task == other.task:
        differ.append(f"version of the task {first.version!r} and {other.version!r}")
    windows = first.model_info.get("window"), other.model_info.get("window")
    if "window" not in allow and (first.truncated or other.truncated) and windows[0] != windows[1]:
        differ.append(f"window {windows[0]!r} and {windows[1]!r}, with prompts that were shortened to fit")
    if differ:
        hint = "rerun both with equal settings"
        if any(entry.startswith("selection ") for entry in differ):
            hint += " (selection: what --sample, --limit or --samples took)"
        apart = not _prompts(first) & _prompts(other)
        if not apart and not any(entry.startswith("data ") for entry in differ):
            hint += f", or compare anyway with --allow {','.join(entry.split(' ')[0] for entry in differ)}"
        raise NNDError(
            f"{first.model} ({first.task}) and {other.model} ({other.task}) cannot be compared: {'; '.join(differ)}; {hint}"
        )
