"""Signal and noise of each category, by pass rate, margin and bits per byte; which are worth running, and on how many prompts.

After Heineman et al., "Signal and Noise" (2025, arXiv 2508.13144): signal is the spread of a family's models, noise what moves a
value though nothing is better. docs/results.md says where our definitions differ.

Known limits: that a later checkpoint, or a larger model, is better is taken for granted. The smallest sample is found on the
models and prompts of the runs, so other models may need more. Bits per byte are of the better texts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import Paired, pair_several
from nnd_tasks.results.runs import Run, check_writers
from nnd_tasks.schema import short_hash
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.significance import LEVEL, RESAMPLES, holm, permutation_p
from nnd_tasks.statistics import FEW
from nnd_tasks.task.settings import sample_order
from nnd_tasks.training.model_tags import PARAMETERS, STEP, Tags, find_family, guess_training, known_number

Floats = NDArray[np.float64]
PASS_RATE, MARGIN, BITS = "pass rate", "margin", "bits per byte"
WEIGHT = "weight"
#: Measure -> 1 where more is better, -1 where less is.
MEASURES = {PASS_RATE: 1, MARGIN: 1, BITS: -1}
#: The measures that hold a better text against a worse one. Bits per byte do not: they fall when a model knows such texts better,
#: whether or not it sees the error. So they never make a category worth running.
CONTRASTS = (PASS_RATE, MARGIN)
#: Share of the pairs of models told apart that a sample must keep, and how many sizes of samples are tried.
KEPT, SIZES = 0.9, 60


class Family(NamedTuple):
    """Models of one family, and the order that their quality should have.

    Attributes:
        name: of the family.
        models: ``model``, ``training``, ``step`` (nan: the end) and ``parameters`` (nan: not known); the index is the place
            among the runs.
        better: shape (models, models); [a, b] tells whether b should be better than a.
    """

    name: str
    models: pd.DataFrame
    better: NDArray[np.bool_]


def step_variance(values: Floats, models: pd.DataFrame) -> float:
    """Compute the variance of values from one checkpoint to the next, around a smooth curve; nan without three checkpoints.

    For three checkpoints in a row, the middle value is held against the straight line between the other two, over the logarithm
    of the step (Gasser, Sroka and Jennen-Steinmetz, 1986). What the curve itself bends there is in it too, so far apart
    checkpoints give too much rather than too little.

    Args:
        values: of each model, shape (models,).
        models: their ``training`` and ``step``; the end of a training, nan, has no place.
    """
    points = (
        models.assign(value=values, position=np.log1p(models["step"]))
        .groupby(["training", "step"], as_index=False)
        .last()
    )
    curves = points.groupby("training")[["position", "value"]]
    before, after = curves.shift(1), curves.shift(-1)
    b = (points["position"] - before["position"]) / (after["position"] - before["position"])
    squares = ((1 - b) * before["value"] + b * after["value"] - points["value"]) ** 2 / (1 + b**2 + (1 - b) ** 2)
    return float(squares.mean())


def compare_pairs(sums: Floats, tests: Floats) -> pd.DataFrame:
    """Compare every two models on some prompts.

    Args:
        sums: of each prompt, the values of its tests added up, more is better, shape (prompts, models).
        tests: of each prompt, or the weights of its tests added up, shape (prompts,).

    Returns:
        A row per pair of models, named by their two places. ``difference``: mean per test of the second less that of the first;
        its ``variance``, of whole prompts drawn, as in `nnd_tasks.statistics.clustered_mean`, nan for one prompt; ``p``,
        two-sided, with prompts - 1 degrees of freedom; ``apart``: 1 where the second is better at level 0.05, -1 where the
        first is, 0 where they are not told apart.
    """
    pairs, prompts = np.triu_indices(sums.shape[1], k=1), len(tests)
    of_prompt = sums[:, pairs[1]] - sums[:, pairs[0]]
    difference = of_prompt.sum(axis=0) / tests.sum()
    squares = ((of_prompt - tests[:, None] * difference) ** 2).sum(axis=0)
    variance = squares * (prompts / (prompts - 1) if prompts > 1 else math.nan) / tests.sum() ** 2
    t = difference / np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    p = 2 * stdtr(max(prompts - 1, 1), -np.abs(t))
    numbers = {"difference": difference, "variance": variance, "p": p, "apart": np.sign(difference) * (p < LEVEL)}
    return pd.DataFrame(numbers, pd.MultiIndex.from_arrays(pairs))


def find_families(paired: Paired, tags: Tags | None = None) -> tuple[list[Family], list[str]]:
    """Return the families whose models have an order, and a note on each model or family that is left out.

    Args:
        paired: runs of two models or more.
        tags: may have ``family``, ``training``, ``step`` and ``parameters`` of a model, in place of what its name says.

    Raises:
        NNDError: no family is left.
    """
    descriptions = pd.DataFrame(
        {
            "model": run.model,
            "family": find_family(run, tags),
            "training": (tags and tags.text(run, "training")) or guess_training(run),
            **{number: known_number(run, number, tags) for number in (STEP, PARAMETERS)},
        }
        for run in paired.runs
    )
    families, notes = [], []
    for name, models in descriptions.astype({STEP: float, PARAMETERS: float}).groupby("family", sort=False):
        family = Family(str(name), models, _find_order(models))
        if family.better.any():
            families.append(family)
        else:
            notes.append(
                f"neither steps nor sizes put models of the family {name} in order ({', '.join(models['model'])})"
            )
    if not families:
        raise NNDError(
            f"{paired.title}: no models that should differ: {'; '.join(notes)}. Run checkpoints of one training or sizes of one "
            "family, or say what they are with --tags FILE, a CSV file with the columns model, family, training, step, parameters"
        )
    return families, [f"Left out: {note}." for note in notes]


def _find_order(models: pd.DataFrame) -> NDArray[np.bool_]:
    """Of two checkpoints of one training, the later one should be better; of the last ones of two trainings, the larger."""
    models = models.assign(step=models["step"].fillna(math.inf))
    models["last"] = models["step"] == models.groupby("training")["step"].transform("max")
    pairs = models.merge(models, how="cross").eval(
        "(training_x == training_y and step_x < step_y)"
        "or (training_x != training_y and last_x and last_y and parameters_x < parameters_y)",
        engine="python",
    )
    better: NDArray[np.bool_] = pairs.to_numpy().reshape(len(models), -1)
    return better


def first_half(prompts: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which prompts are in the half that chooses the categories; a hash of the id decides."""
    return np.array([int(short_hash("signal", prompt), 16) % 2 == 0 for prompt in prompts], dtype=bool)


def smallest_sample(sums: Floats, tests: Floats, ranks: NDArray[np.int64], prompts: int) -> float:
    """Return the least N of ``--sample`` that keeps what tells the models apart; nan where nothing does.

    This and every larger sample tell apart `KEPT` of the pairs of models, in the same direction, that all prompts tell apart.

    Args:
        sums: shape (prompts with such tests, models).
        tests: of each prompt.
        ranks: of the prompts in the order of ``--sample``.
        prompts: of the whole set.
    """
    differing = compare_pairs(sums, tests)["apart"]
    if not differing.any():  # the order may be shown by all models together, and by no two of them
        return math.nan
    least = prompts
    for size in np.unique(np.geomspace(FEW, max(FEW, prompts - 1), SIZES).astype(int))[::-1]:
        inside = ranks < size
        if inside.sum() < 2:
            break
        kept = compare_pairs(sums[inside], tests[inside])["apart"] == differing
        if kept[differing != 0].mean() < KEPT:
            break
        least = min(int(size), prompts)
    return least


def report_signals(
    runs: Sequence[Run], tags: Tags | None = None, resamples: int = RESAMPLES, *, allow: Sequence[str] = ()
) -> list[Report]:
    """Return signal and noise of every set and family: what is worth running, by which measure, and on how few prompts.

    Args:
        runs: of two models of a family or more, such as checkpoints.
        tags: what the user says of the models; see `find_families`.
        resamples: sign flips of the permutation tests.
        allow: parts of the protocol that may differ, such as ``window``.

    Returns:
        A report per set and family; docs/results.md has its tables.

    Raises:
        NNDError: there are no two models that should differ, or the runs cannot be compared.
    """
    groups, notes = pair_several(runs, allow, "signal")
    reports = []
    for paired in groups:
        check_writers(paired.runs, "signal")
        families, left_out = find_families(paired, tags)
        reports += [_report(paired, family, [*notes, *left_out], resamples) for family in families]
    return reports


def _report(paired: Paired, family: Family, notes: list[str], resamples: int) -> Report:
    first_run, every = paired.runs[0], _values_of_tests(paired, family).dropna()
    if every.empty:
        raise NNDError(f"{paired.title}: no test was scored by all of {', '.join(family.models['model'])}")
    ranks = _rank_prompts(first_run)
    rows, means = [], {}
    for category in (ALL, *sorted(every.index.unique("category"))):
        category_tests = every if category == ALL else every.xs(category)
        by_prompt = category_tests.groupby("cluster_id", sort=False)
        sums = by_prompt.sum()
        total = sums.sum()
        means[category] = pd.concat({measure: total[measure] / total[WEIGHT, measure] for measure in MEASURES})
        for measure in MEASURES:
            values_by_prompt, counts = sums[measure].to_numpy(), sums[WEIGHT, measure].to_numpy()
            row = {"category": category, "measure": measure, "tests": len(category_tests), "prompts": len(counts)}
            row |= _measure(values_by_prompt, counts, first_half(sums.index), family, resamples)
            if first_run.protocol.get("selection", ALL) == ALL:
                row["sample"] = smallest_sample(values_by_prompt, counts, ranks[sums.index].to_numpy(), len(ranks))
            rows.append(row)
    table = _decide(pd.DataFrame(rows))
    values = pd.concat(means, names=["category", "measure", "model"]).mul(pd.Series(MEASURES), level="measure")
    contrasts = table["measure"].isin(CONTRASTS) & (table["category"] != ALL)
    worth = table[contrasts & (table["verdict"] == "better")].groupby("category")
    by = [f"{name} (by {' and '.join(measures)})" for name, measures in worth["measure"]]
    findings = [f"Worth running: {', '.join(by) or 'no category'}."]
    sample = worth["sample"].min().max(skipna=False)
    if pd.notna(sample):
        findings.append(
            f"Keeps {KEPT:.0%} of the pairs told apart on each of them, by its better measure: "
            f"nnd run ... --tasks {first_run.task} --sample {sample} (of {len(ranks):,})."
        )
    return Report(
        name=f"signal_{paired.title}_{family.name}",
        title=f"{paired.title}: signal and noise of {family.name}",
        findings=findings,
        tables=[
            make_table("models", family.models),
            make_table("values", values.rename("value").reset_index()),
            make_table("signals", table.loc[:, :"snr"]),
            make_table("verdicts", table.drop(columns=table.loc[:, "tests":"snr"]), kept=KEPT, few=FEW),
        ],
        notes=[*notes, *replace(paired, left_out=paired.left_out + len(paired.tests) - len(every)).notes],
        brief=[make_table("brief", table[contrasts].assign(task=paired.title, family=family.name))],
        facts={
            "set": paired.set,
            "task": paired.title,
            "family": family.name,
            "prompts": len(ranks),
            "worth_running": list(worth.groups),
            "sample": None if pd.isna(sample) else int(sample),
            "signatures": {run.model: run.line for run in paired.runs},
        },
    )


def _values_of_tests(paired: Paired, family: Family) -> pd.DataFrame:
    """A row per test, named by category and prompt, and a column per (measure, model), more is better; nan if not finite.

    The value of several tests is their sum divided by that of the columns (`WEIGHT`, measure): tests, or bytes for bits.
    """
    lengths = paired.tests_of[paired.models[family.models.index[0]]]["high_bytes"]
    columns = {(WEIGHT, PASS_RATE): 1.0, (WEIGHT, MARGIN): 1.0, (WEIGHT, BITS): lengths}
    for run_index, model in family.models["model"].items():
        tests = paired.tests_of[paired.models[run_index]]
        columns[PASS_RATE, model] = tests["passed"]
        columns[MARGIN, model] = tests["margin"]
        columns[BITS, model] = (tests["high_sum"] / math.log(2)).where(lengths != 0, 0.0)
    names = pd.MultiIndex.from_frame(paired.tests[["category", "cluster_id"]])
    return (
        pd.DataFrame(columns, lengths.index).astype(np.float64).set_axis(names).replace([math.inf, -math.inf], math.nan)
    )


def _rank_prompts(run: Run) -> pd.Series[int]:
    """The place of each prompt in the order in which ``--sample`` takes prompts of the whole set."""
    categories = run.tests.groupby("cluster_id")["category"].agg(set)
    order = [*sample_order([*categories.index], [*categories])]
    return pd.Series(range(len(order)), categories.index[order])


def _measure(sums: Floats, tests: Floats, first: NDArray[np.bool_], family: Family, resamples: int) -> dict[str, float]:
    """How much models differ; whether they do is asked of the first half of the prompts, and confirmed on the second.

    ``p_order`` and ``p_pair`` are of the order, and of the two models that differ most, on the first half, two-sided; nan where
    a half has too few prompts. ``order`` and ``pair`` are of the same on the second half, one-sided in the same direction; nan
    where the first half shows nothing. ``p_all`` is the smaller of both on all prompts, ``sign`` that of the order.
    """

    def flip(differences: Floats) -> float:
        return float(permutation_p(differences[:, None], resamples)[0])

    def confirm(differences: Floats, p: float) -> float:
        half = flip(differences[~first]) / 2 if p < LEVEL else math.nan
        return half if differences[first].sum() * differences[~first].sum() > 0 else 1 - half

    total, pairs = sums.sum(axis=0), compare_pairs(sums, tests)
    signal, noise = pairs["difference"].abs().max(), math.sqrt(pairs["variance"].mean() / 2)
    # The checkpoints have the same prompts, so their noise of prompts is in what is seen from step to step.
    steps = float(np.sqrt(np.maximum(step_variance(total / tests.sum(), family.models) - noise**2, 0)))
    both = math.hypot(noise, np.nan_to_num(steps))
    numbers = {
        "signal": signal,
        "noise_prompts": noise,
        "noise_steps": steps,
        "snr": signal / both if both > 0 else math.nan,
        "in_order": (family.better & (total[:, None] < total)).sum(),
        "ordered": family.better.sum(),
        "apart": (pairs["apart"] != 0).sum(),
        "pairs": len(pairs),
        **dict.fromkeys(("p_order", "order", "p_pair", "pair", "p_all", "sign", "sample"), math.nan),
    }
    if min(first.sum(), (~first).sum()) >= FEW:
        # How many models each should be better than, less how many should be better.
        ordered = sums @ (family.better.sum(axis=0) - family.better.sum(axis=1))
        half = compare_pairs(sums[first], tests[first])["p"]
        worse, better = half.idxmin()
        numbers["p_order"], numbers["sign"] = flip(ordered[first]), np.sign(ordered[first].sum())
        numbers["p_pair"] = min(1.0, half.min() * len(half))  # Bonferroni
        numbers["order"] = confirm(ordered, numbers["p_order"])
        numbers["pair"] = confirm(sums[:, better] - sums[:, worse], numbers["p_pair"])
        numbers["p_all"] = min(flip(ordered), pairs["p"].min() * len(pairs))
    return numbers


def _decide(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their verdicts, and samples only where better models are better."""
    # Two questions, as in `nnd compare`: do these models differ, and on which categories?
    questions = table.groupby(table["category"] == ALL)
    order, pair = (questions[name].transform(holm) for name in ("order", "pair"))
    verdicts = {
        "too few prompts": table["p_order"].isna(),
        "better": (order < LEVEL) & (table["sign"] > 0),
        "worse": order < LEVEL,
        "mixed": pair < LEVEL,
        "not confirmed": table[["p_order", "p_pair", "p_all"]].min(axis=1) < LEVEL,
    }
    verdict = pd.Series(np.select(list(verdicts.values()), list(verdicts), "noise"), table.index)
    return table.assign(
        p_chosen=table["p_pair"].where(verdict == "mixed", table["p_order"]),
        p_confirmed=pair.where(verdict == "mixed", order),
        verdict=verdict,
        sample=table["sample"].where(verdict == "better").astype("Int64"),
    ).drop(columns=["p_order", "order", "p_pair", "pair", "p_all", "sign"])
