"""Signal and noise of each category, by pass rate, margin and bits per byte; which are worth running, and on how many prompts.

After Heineman et al., "Signal and Noise" (2025, arXiv 2508.13144): signal is the spread of a family's models, noise what other
prompts would change. docs/signal.md says where our definitions differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from nnd_tasks.analysis.compare import holm, permutation_p
from nnd_tasks.analysis.power import LEVEL, RESAMPLES
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired, pair_several
from nnd_tasks.analysis.tags import PARAMETERS, STEP, Tags, find_family, guess_training, known_number
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.sample_order import sample_order
from nnd_tasks.schema import short_hash
from nnd_tasks.show.report import Report, Table
from nnd_tasks.statistics import FEW

Floats = NDArray[np.float64]
PASS_RATE, MARGIN, BITS = "pass rate", "margin", "bits per byte"
#: Measure -> 1 where more is better, -1 where less is.
MEASURES = {PASS_RATE: 1, MARGIN: 1, BITS: -1}
#: The measures that hold a better text against a worse one. Bits per byte do not: they fall when a model knows such texts better,
#: whether or not it sees the error. So they never make a category worth running.
CONTRASTS = (PASS_RATE, MARGIN)
#: Share of the pairs of models told apart that a sample must keep, and how many sizes of samples are tried.
KEPT, SIZES = 0.9, 60

#: Headings of the tables, and what one has to know to read them.
_MODELS = {"model": "{model}", "training": "{training}", "step": "{step:,.10g}", "parameters": "{parameters:,.10g}"}
_VALUES = {"category": "{category}", "measure": "{measure}", "{model}": "{value:.3f}"}
_ORDER = "Of one training, the later step should be better (-: its end); of two ends, the larger model."
_SIGNALS = {
    "category": "{category}",
    "measure": "{measure}",
    "prompts": "{prompts:,}",
    "signal": "{signal:.3f}",
    "noise": "{noise:.4f}",
    "SNR": "{snr:.1f}",
    "apart": "{apart}/{pairs}",
    "p": "{p_confirmed:p}",
    "verdict": "{verdict}",
    "sample": "{sample:,}",
}
_READING = (
    "Signal: the best model less the worst. Noise: what other prompts would change. SNR: signal over noise. Apart: pairs of "
    "models told apart at 0.05, of all pairs; one in twenty is by chance. p: of the order of the models, chosen on half of the "
    f"prompts and tested on the other (one-sided, Holm). Sample: prompts that keep {KEPT:.0%} of the pairs told apart, where "
    "the whole set was scored. Verdict: better - models that should be better are; worse - they are worse; not confirmed - half "
    "of the prompts or all together show something, not both halves; noise - nothing is shown; too few prompts - fewer than "
    f"{FEW} in a half."
)
_BRIEF = {
    "task": "{task}",
    "family": "{family}",
    "category": "{category}",
    "{measure}": "{verdict}",
    "--sample by {measure}": "{sample:,}",
}


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


class Spread:
    """How much models differ on some prompts.

    The mean of the models is subtracted in each prompt: what makes a prompt easier or harder for all is no noise.

    Args:
        sums: of each prompt, the values of its tests added up, more is better, shape (prompts, models).
        tests: of each prompt, shape (prompts,).

    Attributes:
        signal: value of the best model less that of the worst.
        noise: standard deviation that other prompts of the same kind would give the value of a model, beside the others: the
            root of half the mean variance of a difference of two models. Variances are those of whole prompts drawn (Cochran,
            Sampling Techniques, 3rd ed., section 6.3), as in `nnd_tasks.statistics.clustered_standard_error`.
        apart: [a, b] is 1 where b is better at level 0.05, two-sided with prompts - 1 degrees of freedom; -1 where a is; 0 where
            they are not told apart.
    """

    def __init__(self, sums: Floats, tests: Floats) -> None:
        centred, k = sums - sums.mean(axis=1, keepdims=True), len(tests)
        values = centred.sum(axis=0) / tests.sum()
        rest = centred - tests[:, None] * values
        covariance = rest.T @ rest * (k / (k - 1) if k > 1 else math.nan) / tests.sum() ** 2
        variances = np.diag(covariance)
        squares = variances[:, None] + variances - 2 * covariance
        differences = values - values[:, None]
        t = differences / np.sqrt(np.maximum(squares, np.finfo(float).tiny))
        self.signal = float(differences.max())
        self.noise = math.sqrt(variances.sum() / (len(variances) - 1))
        self.apart: Floats = np.sign(differences) * (2 * stdtr(max(k - 1, 1), -np.abs(t)) < LEVEL)


def find_families(paired: Paired, tags: Tags | None = None) -> tuple[list[Family], list[str]]:
    """Return the families whose models have an order, and a note on each model or family that is left out.

    Args:
        paired: runs of two models or more.
        tags: may have ``family``, ``training``, ``step`` and ``parameters`` of a model, in place of what its name says.

    Raises:
        NNDError: no family is left.
    """
    about = [
        {
            "model": run.model,
            "family": find_family(run, tags),
            "training": (tags and tags.text(run, "training")) or guess_training(run),
            "step": known_number(run, STEP, tags),
            "parameters": known_number(run, PARAMETERS, tags),
        }
        for run in paired.runs
    ]
    families, notes = [], []
    for name, models in pd.DataFrame(about).astype({"step": float, "parameters": float}).groupby("family", sort=False):
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
    """Tell of each prompt whether it is of the half on which categories are chosen; that depends on its id alone."""
    return np.array([int(short_hash("signal", prompt), 16) % 2 == 0 for prompt in prompts], dtype=bool)


def smallest_sample(sums: Floats, tests: Floats, places: NDArray[np.int64], prompts: int) -> float:
    """Return the least N of ``--sample`` that keeps what tells the models apart; nan where nothing does.

    This and every larger sample tell apart `KEPT` of the pairs of models, in the same direction, that all prompts tell apart.

    Args:
        sums: shape (prompts with such tests, models).
        tests: of each prompt.
        places: of the prompts in the order of ``--sample``.
        prompts: of the whole set.
    """
    whole = Spread(sums, tests).apart
    if not whole.any():  # the order may be shown by all models together, and by no two of them
        return math.nan
    least = prompts
    for size in np.unique(np.geomspace(FEW, max(FEW, prompts - 1), SIZES).astype(int))[::-1]:
        inside = places < size
        if inside.sum() < 2 or (Spread(sums[inside], tests[inside]).apart == whole)[whole != 0].mean() < KEPT:
            break
        least = min(int(size), prompts)
    return least


def report_signals(runs: Sequence[Run], tags: Tags | None = None, resamples: int = RESAMPLES) -> list[Report]:
    """Return signal and noise of every set and family: what is worth running, by which measure, and on how few prompts.

    Args:
        runs: of two models of a family or more, such as checkpoints.
        tags: what the user says of the models; see `find_families`.
        resamples: sign flips of the permutation tests.

    Returns:
        A report per set and family; docs/signal.md has its tables.

    Raises:
        NNDError: there are no two models that should differ, or the runs cannot be compared.
    """
    groups, notes = pair_several(runs, (), "signal")
    reports = []
    for paired in groups:
        families, left_out = find_families(paired, tags)
        reports += [_report(paired, family, [*notes, *left_out], resamples) for family in families]
    return reports


def _report(paired: Paired, family: Family, notes: list[str], resamples: int) -> Report:
    every = _values_of_tests(paired, family)
    every = every[np.isfinite(every).all(axis=1)]
    if every.empty:
        raise NNDError(f"{paired.title}: no test was scored by all of {', '.join(family.models['model'])}")
    places, whole = _sample_places(paired.runs[0]), paired.runs[0].protocol.get("selection", ALL) == ALL
    rows: list[dict[str, Any]] = []
    means = {}
    for category in (ALL, *sorted(every.index.unique("category"))):
        part = every if category == ALL else every.xs(category)
        by_prompt = part.groupby("cluster_id", sort=False)
        sums, counts = by_prompt.sum(), by_prompt.size().to_numpy(dtype=np.float64)
        means[category] = part.mean()
        for measure in MEASURES:
            own = sums[measure].to_numpy()
            row = {"category": category, "measure": measure, "tests": len(part), "prompts": len(counts)}
            row |= _measure(own, counts, first_half(sums.index), family.better, resamples)
            if whole:
                row["sample"] = smallest_sample(own, counts, sums.index.map(places).to_numpy(), len(places))
            rows.append(row)
    table = _decide(pd.DataFrame(rows))
    values = pd.concat(means, names=["category", "measure", "model"]).mul(pd.Series(MEASURES), level="measure")
    shown = table["measure"].isin(CONTRASTS) & (table["category"] != ALL)
    worth = table[shown & (table["verdict"] == "better")].groupby("category")["measure"].agg(" and ".join)
    return Report(
        name=f"signal_{paired.title}_{family.name}",
        title=f"{paired.title}: signal and noise of {family.name}",
        findings=[f"Worth running: {', '.join(f'{name} (by {by})' for name, by in worth.items()) or 'no category'}."],
        tables=[
            Table("models", family.models, _MODELS, _ORDER),
            Table("values", values.rename("value").reset_index(), _VALUES),
            Table("signals", table, _SIGNALS, _READING),
        ],
        notes=[*notes, *replace(paired, left_out=paired.left_out + len(paired.tests) - len(every)).notes],
        brief=Table("brief", table[shown].assign(task=paired.title, family=family.name), _BRIEF),
        facts={
            "set": paired.set,
            "task": paired.title,
            "family": family.name,
            "prompts": len(places),
            "worth_running": [*worth.index],
            "signatures": {run.model: run.line for run in paired.runs},
        },
    )


def _values_of_tests(paired: Paired, family: Family) -> pd.DataFrame:
    """Return a row per test, named by category and prompt, and a column per (measure, model), more is better."""
    columns: dict[tuple[str, str], Any] = {}
    for place, model in family.models["model"].items():
        tests = paired.runs[place].tests.set_index("test_id").loc[paired.tests["test_id"]]
        columns[PASS_RATE, model] = tests["passed"]
        columns[MARGIN, model] = tests["margin"]
        columns[BITS, model] = tests["high_sum"] / math.log(2) / tests["high_bytes"].clip(lower=1)
    names = pd.MultiIndex.from_frame(paired.tests[["category", "cluster_id"]])
    return pd.DataFrame(columns).astype(np.float64).set_axis(names)


def _sample_places(run: Run) -> dict[str, int]:
    """Return prompt -> its place in the order in which ``--sample`` takes prompts of the whole set."""
    categories = run.tests.groupby("cluster_id")["category"].agg(set)
    order = sample_order([*categories.index], [*categories])
    return {categories.index[place]: i for i, place in enumerate(order)}


def _measure(
    sums: Floats, tests: Floats, first: NDArray[np.bool_], better: NDArray[np.bool_], resamples: int
) -> dict[str, float]:
    """Return what models differ by; and ask the first half of the prompts for their order, the second whether that is so.

    ``p_chosen`` is of the order on the first half, two-sided, and ``sign`` its direction; ``p_all`` that on all prompts; nan
    where a half has too few prompts. ``p_confirmed`` is of the second half, one-sided in the same direction; nan where the first
    half shows nothing.
    """

    def flip(differences: Floats) -> float:
        return float(permutation_p(differences[:, None], resamples)[0])

    spread = Spread(sums, tests)
    found = {
        "signal": spread.signal,
        "noise": spread.noise,
        "snr": spread.signal / spread.noise if spread.noise > 0 else math.nan,
        "apart": int((spread.apart > 0).sum()),
        "pairs": math.comb(len(better), 2),
        **dict.fromkeys(("p_chosen", "p_confirmed", "p_all", "sign", "sample"), math.nan),
    }
    # How many models each should be better than, less how many should be better.
    ordered = sums @ (better.sum(axis=0) - better.sum(axis=1))
    seen, again = ordered[first], ordered[~first]
    if min(len(seen), len(again)) >= FEW:
        found |= {"p_chosen": flip(seen), "p_all": flip(ordered), "sign": np.sign(seen.sum())}
        if found["p_chosen"] < LEVEL:
            half = flip(again) / 2
            found["p_confirmed"] = half if seen.sum() * again.sum() > 0 else 1 - half
    return found


def _decide(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their verdicts, and samples only where better models are better."""
    # Two questions, as in `nnd compare`: do these models differ, and on which categories?
    confirmed = table.groupby(table["category"] == ALL)["p_confirmed"].transform(holm)
    verdicts = {
        "too few prompts": table["p_chosen"].isna(),
        "better": (confirmed < LEVEL) & (table["sign"] > 0),
        "worse": confirmed < LEVEL,
        "not confirmed": table[["p_chosen", "p_all"]].min(axis=1) < LEVEL,
    }
    verdict = np.select(list(verdicts.values()), list(verdicts), "noise")
    sample = table["sample"].where(verdict == "better").astype("Int64")
    return table.assign(p_confirmed=confirmed, verdict=verdict, sample=sample).drop(columns=["p_all", "sign"])
