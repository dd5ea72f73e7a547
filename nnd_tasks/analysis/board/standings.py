"""Runs of many people in groups that were asked the same, so that one odd or hostile run changes no number of the others."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from nnd_tasks.analysis import selecting
from nnd_tasks.analysis.compare.adjusted import Adjusted, adjust
from nnd_tasks.analysis.compare.diagnostics import Diagnostics, diagnostics_of
from nnd_tasks.analysis.compare.paired import (
    CategoryResult,
    Comparison,
    Difference,
    Rank,
    category_rates,
    compare,
    rank,
)
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired, asked_texts, pair
from nnd_tasks.analysis.signal.signals import SetSignals, find_signals
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError, noting, visible
from nnd_tasks.harness.signature import digest
from nnd_tasks.languages import LANGUAGES, language_pair
from nnd_tasks.sets.licences import Terms, terms_of, texts_may_go
from nnd_tasks.sets.shelf import list_recipes
from nnd_tasks.wording import counted, some_of

#: A run that scored a smaller share of its tests stands alone: only tests that all models of a group scored are counted.
LEAST_SCORED = 0.9
#: Characters that a name may have, categories that a run may have, and characters of its signature.
_LONGEST, _MOST, _LONGEST_LINE = 300, 200, 20_000
#: Sets of synthetic errors have no recipe; their names begin so, and end with that of the corpus.
_BLINDSPOT = "blindspot_"


@dataclass(frozen=True, eq=False)
class Standing:
    """Models that were asked the same, on one set.

    Attributes:
        paired: the runs, on the tests that all of them have scored.
        differs: what was asked otherwise than of the main group of the set; empty for the main group itself.
        older: model -> (date, results file) of its equal runs before the one that counts.
        comparison: of the models; None where there is only one.
        kinds: what models are asked to do, such as ``summarization``; empty where we have no recipe of the set.
        languages: names of the languages of the set, likewise.
        terms: of the texts of the set.
        free: whether these terms are known, and let anyone publish the texts.
        adjusted: model -> its rates with length and word frequency taken out.
        signals: of each family among the models: which categories tell them apart.
    """

    paired: Paired
    differs: str
    older: dict[str, list[tuple[str, Path]]]
    comparison: Comparison | None
    kinds: list[str]
    languages: list[str]
    terms: tuple[Terms, ...]
    free: bool
    adjusted: dict[str, Adjusted] = field(default_factory=dict, repr=False)
    signals: list[SetSignals] = field(default_factory=list, repr=False)
    _diagnostics: dict[str, dict[str, Diagnostics]] = field(default_factory=dict, repr=False)

    @cached_property
    def categories(self) -> list[CategoryResult]:
        """Results on all tests, then on each category."""
        return self.comparison.categories if self.comparison else category_rates(self.paired)

    @cached_property
    def ranks(self) -> dict[str, Rank]:
        """Model -> its place, the best first; rank groups are those of `nnd compare`. Empty for one model."""
        return {one.model: one for one in rank(self.categories[0])} if self.comparison else {}

    @property
    def runs(self) -> list[Run]:
        """The runs, the best first."""
        rates = self.categories[0].rates
        return sorted(self.paired.runs, key=lambda run: (-rates[run.model].rate, run.model))

    @property
    def part(self) -> str:
        """Which prompts of the set were scored, such as ``20 of 60``; empty for all."""
        part = _part(self.paired.runs[0])
        return "" if part == ALL else selecting.texts_apart([part])[0]

    def behind(self, run: Run) -> Difference | None:
        """Return the difference between a run and the best one on all tests; None for the best itself."""
        best = self.runs[0].model
        differences = self.categories[0].differences
        return next((one for one in differences if {one.first, one.second} == {best, run.model}), None)

    @property
    def mde(self) -> float | None:
        """The MDE of the median pair of models on all tests; None where there is no pair whose outcomes differ."""
        known = [one.detectable for one in self.categories[0].differences if not math.isnan(one.detectable)]
        return median(known) if known else None

    def diagnostics(self, run: Run) -> dict[str, Diagnostics]:
        """Return category, or ``all``, -> diagnostics of a run."""
        if run.model not in self._diagnostics:
            self._diagnostics[run.model] = diagnostics_of(run)
        return self._diagnostics[run.model]


def standings_of(runs: Sequence[Run], skipped: list[str]) -> list[Standing]:
    """Return the groups of all sets, the main group of each set first.

    The main group of a set is one that compares models, then one of the whole set, then that with the most models.

    Args:
        runs: of any sets, as `nnd_tasks.analysis.results.read_results` returns them.
        skipped: takes a line for each run that cannot be shown.
    """
    by_set: dict[str, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(runs, key=lambda run: (run.set, run.task, run.model, run.date)):
        with noting(skipped):
            _check(run)
            by_set[run.set][json.dumps([run.task, _asked(run)], sort_keys=True)].append(run)
    standings = []
    for groups in by_set.values():
        parts = []
        for equal in groups.values():
            newest, older = _newest(equal)
            parts += [(part, older) for part in _alike(newest)]
        parts.sort(key=lambda part: (len(part[0]) == 1, _part(part[0][0]) != ALL, -len(part[0])))
        for part, older in parts:
            with noting(skipped):
                standings.append(_standing(part, parts[0][0], older, skipped))
    return standings


def _part(run: Run) -> str:
    """Return ``all``, or which prompts of its set a run has, such as ``20 of 60 (0123456789ab)``."""
    return str(run.protocol.get("selection", ALL))


def _asked(run: Run) -> dict[str, Any]:
    """Return what must be equal for runs of one task to be compared: the protocol, and the N of a version N-X."""
    return {**run.protocol, "version": str(run.version).partition("-")[0]}


def _check(run: Run) -> None:
    """Raise NNDError for a run that cannot be shown: nothing was scored, it has no date, or its names would spoil a page."""
    if not re.match(r"\d{4}-\d\d-\d\dT", run.date):
        raise NNDError(f"{run.path}: its name has no date such as 2026-01-31T; lm-eval writes it there")
    if run.tests["passed"].isna().all():
        raise NNDError(f"{run.path}: no test was scored")
    names = {"model": [run.model], "task": [run.task], "set": [run.set], "category": set(run.tests["category"])}
    for what, values in names.items():
        if (longest := max(map(len, values))) > _LONGEST:
            raise NNDError(f"{run.path}: the name of a {what} has {longest:,} characters; at most {_LONGEST} are shown")
    if len(names["category"]) > _MOST:
        raise NNDError(f"{run.path}: has {len(names['category']):,} categories; at most {_MOST} are shown")
    if len(run.line) + len(json.dumps(dict(run.protocol))) > _LONGEST_LINE:
        raise NNDError(f"{run.path}: its signature has more than {_LONGEST_LINE:,} characters")


def _newest(runs: Sequence[Run]) -> tuple[list[Run], dict[str, list[tuple[str, Path]]]]:
    """Return the newest run of each model, and the results files of its earlier ones.

    Weights in two local folders are one model where their digests are equal.
    """
    several: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        info = dict(run.model_info)
        if info.get("weights"):
            info |= {"name": "", "tokenizer": ""}
        several[json.dumps(info, sort_keys=True)].append(run)
    newest, older = [], {}
    for same in several.values():
        *others, last = sorted(same, key=lambda run: (run.date, run.model))
        files = [(path.stem.removeprefix("results_"), path) for run in same for path in run.earlier]
        older[last.model] = sorted([*files, *((run.date, run.path) for run in others)], reverse=True)
        newest.append(last)
    return newest, {model: files for model, files in older.items() if files}


def _alike(runs: Sequence[Run]) -> list[list[Run]]:
    """Return the runs in groups with the same tests, of which each run has scored most.

    Where prompts were shortened to fit, runs of different windows read different prompts, and are apart too.
    """
    shortened = any(run.truncated for run in runs)
    groups: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        kept = asked_texts(run).reset_index().assign(severity=run.tests["severity"])
        alone = run.model if run.tests["passed"].notna().mean() < LEAST_SCORED else ""
        window = json.dumps(run.model_info.get("window")) if shortened else ""
        groups[digest(sorted(kept.to_numpy().tolist())), window, alone].append(run)
    return list(groups.values())


def _standing(
    runs: list[Run], main: list[Run], older: dict[str, list[tuple[str, Path]]], skipped: list[str]
) -> Standing:
    """Return a group with its numbers; ``skipped`` takes a line for each run whose token scores cannot be used.

    Raises:
        NNDError: no test was scored by every model.
    """
    [paired] = pair(runs)
    if paired.tests.empty:
        raise NNDError(f"{runs[0].path}: no test was scored by all of {some_of(paired.models, show=str)}")
    comparison = compare(paired) if len(runs) > 1 else None
    name, config = (str(runs[0].protocol.get(key, "")) for key in ("set", "config"))
    name = name.removeprefix("nnd/")
    terms = terms_of(name, {"corpus": name.removeprefix(_BLINDSPOT)} if name.startswith(_BLINDSPOT) else {})
    adjusted: dict[str, Adjusted] = {}
    for run in paired.runs:
        with noting(skipped):
            adjusted[run.model] = adjust(run, set(paired.tests["test_id"]))
    signals: list[SetSignals] = []
    with suppress(NNDError):  # no two of the models are of one family
        signals = find_signals(runs)
    mine = {model: older[model] for model in paired.models if model in older}
    differs = "" if runs is main else _differs(runs, main)
    free = bool(terms) and texts_may_go(terms)
    return Standing(paired, differs, mine, comparison, *_about(name, config), terms, free, adjusted, signals)


def _differs(runs: Sequence[Run], main: Sequence[Run]) -> str:
    """Return what was asked otherwise than of the main group, as text for people."""
    mine, theirs = _asked(runs[0]), _asked(main[0])
    said = [] if runs[0].task == main[0].task else [f"task {runs[0].task} in place of {main[0].task}"]
    for key in {**mine, **theirs}:
        if mine.get(key) != theirs.get(key):
            own, other = selecting.texts_apart([mine.get(key), theirs.get(key)])
            said.append(f"{key} {own:.60} in place of {other:.60}")
    if said:
        return visible("; ".join(said))
    tests = runs[0].tests
    scored = int(tests["passed"].notna().sum())
    if scored < LEAST_SCORED * len(tests):
        return f"only {scored:,} of {counted(len(tests), 'test')} could be scored"
    if set(tests["test_id"]) != set(main[0].tests["test_id"]):
        return "other tests, though the protocol is the same: a file is damaged"
    windows = [run.model_info.get("window") for run in (runs[0], main[0])]
    if windows[0] != windows[1]:
        return visible(
            f"window {windows[0]!s:.60} in place of {windows[1]!s:.60}, with prompts that were shortened to fit"
        )
    return "tests have other prompts, texts or categories, though the protocol is the same: a file is damaged"


def _about(name: str, config: str) -> tuple[list[str], list[str]]:
    """Return what models are asked to do in a set, and the names of its languages; empty without a recipe of it here."""
    if name.startswith(_BLINDSPOT):
        return ["synthetic errors"], []
    try:
        facts = list_recipes()[name].recipe.facts
    except KeyError:
        return [], []
    except NNDError:  # `nnd list` says what is wrong with it
        return [], []
    codes = dict.fromkeys([*(language_pair(config) or facts.language)])
    kinds = [kind.strip() for kind in (facts.kind or "").split(",") if kind.strip()]
    return kinds, [LANGUAGES.get(code, code) for code in codes]
