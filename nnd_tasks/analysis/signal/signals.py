"""Signal and noise of each category, by pass rate, margin and bits per byte; which are worth running, and on how many prompts.

After Heineman et al., "Signal and Noise" (2025, arXiv 2508.13144): signal is the spread of a family's models, noise what moves a
value though nothing is better. docs/signal.md says where our definitions differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from nnd_tasks.analysis.compare import holm, permutation_p
from nnd_tasks.analysis.power import LEVEL, RESAMPLES
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired, pair_several
from nnd_tasks.analysis.signal.measures import (
    CONTRASTS,
    MARGIN,
    MEASURES,
    PASS_RATE,
    PromptSums,
    prompt_sums,
    sample_places,
    values_of,
)
from nnd_tasks.analysis.signal.moments import Floats, Moments, ratio, step_variance
from nnd_tasks.analysis.signal.orders import Family, families_of
from nnd_tasks.analysis.tags import Tags
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.statistics import FEW

Verdict = Literal["better", "worse", "mixed", "not confirmed", "noise", "too few prompts"]
#: Share of the pairs of models told apart that a sample must keep.
KEPT = 0.9
#: Sizes of samples that are tried.
_SIZES = 60


@dataclass(frozen=True, slots=True)
class Signal:
    """What one measure shows on one category.

    Attributes:
        category: a category, or ``all``.
        measure: one of `MEASURES`.
        tests: number of tests.
        prompts: number of prompts that have such tests.
        values: model -> mean over tests: share passed, margin in nats per token, or bits per byte of the better text.
        signal: value of the best model less that of the worst.
        noise_prompts: standard deviation that other prompts would give a value (`Moments.noise`).
        noise_steps: that from one checkpoint to the next, beyond what prompts give; nan without three checkpoints.
        snr: signal over the root of the sum of both, squared.
        in_order: pairs of models with a known order whose values have this order.
        ordered: pairs of models with a known order.
        apart: pairs of models told apart, each at level 0.05.
        pairs: all pairs.
        p_chosen: p of the order on half of the prompts; where the verdict is ``mixed``, of the two models.
        p_confirmed: p of the same on the other half, in the same direction, after Holm's correction; nan where the first half
            shows nothing.
        verdict: ``better``: models that should be better are, on both halves. ``worse``: they are worse. ``mixed``: two
            models differ, and the order as a whole is not shown. ``not confirmed``: the first half, or all prompts
            together, show something, and the two halves do not. ``noise``: nothing is shown.
        sample: least N of ``--sample`` that keeps `KEPT` of the pairs told apart; None where nothing is worth sampling.
    """

    category: str
    measure: str
    tests: int
    prompts: int
    values: dict[str, float]
    signal: float
    noise_prompts: float
    noise_steps: float
    snr: float
    in_order: int
    ordered: int
    apart: int
    pairs: int
    p_chosen: float = math.nan
    p_confirmed: float = math.nan
    verdict: Verdict = "noise"
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class Advantage:
    """How much better the margin tells models apart than the pass rate, on one category.

    Attributes:
        category: a category, or ``all``.
        ratio: signal over noise of prompts by margin, over that by pass rate. The pass rate would need ratio² as many prompts.
        low: lower end of its 95% interval.
        high: its upper end.
        better: the measure that is better, where the interval says so; empty where it does not, or where neither measure
            tells the models apart.
    """

    category: str
    ratio: float
    low: float
    high: float
    better: str


@dataclass(frozen=True)
class SetSignals:
    """A family on one set.

    Attributes:
        paired: the runs.
        family: which of them, and their order.
        signals: by category, ``all`` first, and measure.
        advantages: one per category.
        prompts: number of prompts of the set, with or without tests that all models could score.
        notes: for the reader.
    """

    paired: Paired = field(repr=False)
    family: Family = field(repr=False)
    signals: list[Signal]
    advantages: list[Advantage]
    prompts: int
    notes: list[str]

    def worth_running(self) -> dict[str, list[Signal]]:
        """Return the categories on which better models are better, each with what shows it; ``all`` is none of them."""
        found: dict[str, list[Signal]] = {}
        for one in self.signals:
            if one.verdict == "better" and one.measure in CONTRASTS and one.category != ALL:
                found.setdefault(one.category, []).append(one)
        return found

    def sample(self) -> int | None:
        """Return the least N of ``--sample`` that keeps `KEPT` on each category worth running, by its better measure."""
        least = [[one.sample for one in shown if one.sample] for shown in self.worth_running().values()]
        return max(map(min, least)) if least and all(least) else None


def find_signals(
    runs: Sequence[Run], tags: Tags | None = None, allow: Sequence[str] = (), resamples: int = RESAMPLES, seed: int = 0
) -> list[SetSignals]:
    """Return signal and noise of every set and family.

    Args:
        runs: of two models of a family or more, such as checkpoints.
        tags: what the user says of the models; see `families_of`.
        allow: parts of the protocol that may differ.
        resamples: sign flips of the permutation tests.
        seed: of the sign flips.

    Raises:
        NNDError: there are no two models that should differ, or the runs cannot be compared.
    """
    groups, notes = pair_several(runs, allow, "signal")
    found = []
    for paired in groups:
        families, left_out = families_of(paired, tags)
        found += [_set_signals(paired, family, [*notes, *left_out], resamples, seed) for family in families]
    return found


def _set_signals(paired: Paired, family: Family, notes: list[str], resamples: int, seed: int) -> SetSignals:
    values = values_of(paired, family)
    scored = np.isfinite(np.stack(list(values.values()))).all(axis=(0, 2))
    if not scored.any():
        raise NNDError(f"{paired.title}: no test was scored by all of {', '.join(family.models)}")
    tests = paired.tests[scored]
    notes = [*notes, *replace(paired, left_out=paired.left_out + int((~scored).sum())).notes]
    run = paired.runs[0]
    places = sample_places(run)
    names = [ALL, *sorted(set(tests["category"]))]
    tables, signals = [], []
    for category in names:
        chosen = tests["category"].eq(category).to_numpy(dtype=bool) | (category == ALL)
        tables.append(prompt_sums(tests[chosen]["cluster_id"].tolist(), values, np.flatnonzero(scored)[chosen], places))
    # Two questions, as in `nnd compare`: do these models differ, and on which categories?
    for question in (slice(0, 1), slice(1, None)):
        rows = [
            (name, table) for name, several in zip(names[question], tables[question], strict=True) for table in several
        ]
        signals += _decided(rows, family, resamples, seed)
    if run.protocol.get("selection", ALL) == ALL:
        flat = [table for several in tables for table in several]
        signals = [_with_sample(one, table, len(places)) for one, table in zip(signals, flat, strict=True)]
    else:
        notes = [*notes, "No smallest sample: the runs scored a part of the set (--limit, --samples or --sample)."]
    if all(math.isnan(one.noise_steps) for one in signals):
        notes = [
            *notes,
            "Noise of steps is not known: it needs three checkpoints of one training. SNR is of prompts alone.",
        ]
    advantages = [_advantage(name, several, signals) for name, several in zip(names, tables, strict=True)]
    return SetSignals(paired, family, signals, advantages, len(places), notes)


# ---------------------------------------------------------------- is there a signal?


@dataclass(frozen=True, slots=True)
class _Finding:
    """What the two halves of the prompts say on one question.

    Attributes:
        sign: of the weighted sum of the models' values, on the first half.
        p: of the first half, two-sided.
        confirmed: of the second half, one-sided in this direction; nan where the first half shows nothing.
    """

    sign: float
    p: float
    confirmed: float


def _decided(rows: Sequence[tuple[str, PromptSums]], family: Family, resamples: int, seed: int) -> list[Signal]:
    """Return the signals of categories and measures that are corrected together, with their verdicts."""
    orders: list[_Finding | None] = []
    pairs: list[_Finding | None] = []
    for _, table in rows:
        enough = min(table.first.sum(), (~table.first).sum()) >= FEW
        orders.append(_order(table, family, resamples, seed) if enough else None)
        pairs.append(_farthest_pair(table, resamples, seed) if enough else None)
    p_orders, p_pairs = _corrected(orders), _corrected(pairs)
    decided = []
    for (category, table), order, pair_, p_order, p_pair in zip(rows, orders, pairs, p_orders, p_pairs, strict=True):
        one = _measured(category, table, family)
        if order is None or pair_ is None:
            decided.append(replace(one, verdict="too few prompts"))
        elif p_order < LEVEL:
            verdict: Verdict = "better" if order.sign > 0 else "worse"
            decided.append(replace(one, p_chosen=order.p, p_confirmed=p_order, verdict=verdict))
        elif p_pair < LEVEL:
            decided.append(replace(one, p_chosen=pair_.p, p_confirmed=p_pair, verdict="mixed"))
        else:
            whole = _p(table.sums @ family.contrast, resamples, seed), _smallest_p(table.moments())[0]
            verdict = "not confirmed" if min(order.p, pair_.p, *whole) < LEVEL else "noise"
            decided.append(replace(one, p_chosen=order.p, p_confirmed=p_order, verdict=verdict))
    return decided


def _order(table: PromptSums, family: Family, resamples: int, seed: int) -> _Finding:
    """Return whether models that should be better are."""
    return _finding(
        table, family.contrast, _p(table.sums[table.first] @ family.contrast, resamples, seed), resamples, seed
    )


def _farthest_pair(table: PromptSums, resamples: int, seed: int) -> _Finding:
    """Return whether those two models differ that differ most clearly on the first half; p is Bonferroni's there."""
    p, models = _smallest_p(table.moments(table.first))
    weights = np.zeros(table.sums.shape[1])
    weights[models] = -1, 1
    return _finding(table, weights, p, resamples, seed)


def _smallest_p(moments: Moments) -> tuple[float, list[int]]:
    """Return the smallest p value of a pair of models, after Bonferroni's correction over the pairs, and the two models."""
    p_values = moments.p
    models = [int(place) for place in np.unravel_index(np.argmin(p_values), p_values.shape)]
    pairs = len(p_values) * (len(p_values) - 1) // 2
    return min(1.0, float(p_values.min()) * pairs), models


def _finding(table: PromptSums, weights: Floats, p: float, resamples: int, seed: int) -> _Finding:
    """Ask the second half what the first half shows.

    Args:
        table: a measure on a category.
        weights: of the models, with the sum 0.
        p: of the first half.
        resamples: sign flips.
        seed: of the sign flips.
    """
    sums = table.sums @ weights
    sign = float(np.sign(sums[table.first].sum()))
    if p >= LEVEL:
        return _Finding(sign, p, math.nan)
    second = sums[~table.first]
    half = _p(second, resamples, seed) / 2
    return _Finding(sign, p, half if second.sum() * sign > 0 else 1 - half)


def _p(differences: Floats, resamples: int, seed: int) -> float:
    """Return the two-sided p value of the sum of one number per prompt, by sign flips."""
    return float(permutation_p(differences[:, None], resamples, seed)[0])


def _corrected(findings: Sequence[_Finding | None]) -> list[float]:
    """Return the p values of the second half after Holm's correction; nan where there is none."""
    raw = [math.nan if one is None else one.confirmed for one in findings]
    corrected = iter(holm([p for p in raw if not math.isnan(p)]))
    return [math.nan if math.isnan(p) else next(corrected) for p in raw]


def _measured(category: str, table: PromptSums, family: Family) -> Signal:
    """Return signal and noise, without a verdict."""
    moments = table.moments()
    values, noise = moments.values, moments.noise
    steps = step_variance(values, family.trainings)
    # The checkpoints have the same prompts, so their noise of prompts is in what is seen from step to step.
    beyond = max(steps - noise**2, 0.0) if not math.isnan(steps) else math.nan
    both = math.sqrt(noise**2 + (0.0 if math.isnan(beyond) else beyond))
    totals = table.sums.sum(axis=0)
    means = MEASURES[table.measure] * totals / table.tests.sum()
    pairs = len(values) * (len(values) - 1) // 2
    return Signal(
        category=category,
        measure=table.measure,
        tests=int(table.tests.sum()),
        prompts=len(table.tests),
        values=dict(zip(family.models, map(float, means), strict=True)),
        signal=moments.signal,
        noise_prompts=noise,
        noise_steps=math.sqrt(beyond),
        snr=moments.signal / both if both > 0 else math.nan,
        in_order=int((family.better & (totals[None, :] > totals[:, None])).sum()),
        ordered=int(family.better.sum()),
        apart=int((moments.apart > 0).sum()),
        pairs=pairs,
    )


# ---------------------------------------------------------------- by which measure, on how many prompts?


def _advantage(category: str, tables: Sequence[PromptSums], signals: Sequence[Signal]) -> Advantage:
    """Return how the margin does beside the pass rate."""
    of = {table.measure: table for table in tables}
    found = ratio(of[MARGIN].sums, of[MARGIN].tests, of[PASS_RATE].sums)
    shown = {one.measure for one in signals if one.category == category and one.verdict in ("better", "worse", "mixed")}
    better = MARGIN if found[1] > 1 else PASS_RATE if found[2] < 1 else ""
    return Advantage(category, *found, better if shown & set(CONTRASTS) else "")


def _with_sample(one: Signal, table: PromptSums, prompts: int) -> Signal:
    """Return a signal with the smallest sample that keeps it, if it is worth running.

    That is the least N such that this and every larger sample tell apart `KEPT` of the pairs of models, in the same direction,
    that all prompts tell apart.

    Args:
        one: the signal.
        table: its measure and category.
        prompts: of the whole set.
    """
    if one.verdict != "better":
        return one
    order = np.argsort(table.places)
    sums, tests, places = table.sums[order], table.tests[order], table.places[order]
    whole = table.moments().apart
    if not whole.any():  # the order is shown by all models together, and by no two of them
        return one
    least = prompts
    for size in np.unique(np.geomspace(FEW, max(FEW, prompts - 1), _SIZES).astype(int))[::-1]:
        inside = np.searchsorted(places, size)
        if (
            inside < 2
            or ((Moments.of(sums[:inside], tests[:inside]).apart == whole) & (whole != 0)).sum()
            < KEPT * (whole != 0).sum()
        ):
            break
        least = min(int(size), prompts)
    return replace(one, sample=least)
