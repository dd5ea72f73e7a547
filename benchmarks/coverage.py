"""How often intervals miss the true value, and how often p values raise a false alarm, on made-up outcomes.

    python benchmarks/coverage.py                       # all tables, about twenty minutes on one core
    python benchmarks/coverage.py --runs 200 rates      # fewer runs of each cell, one table

A nominal 95% interval should miss in 5% of the runs. Prompts have 6 tests each (`equal`), or 1 to 60 with a heavy tail (`heavy`,
log-normal, standard deviation 1 of the logarithm). Tests of a prompt are alike: with a standard normal variable per
prompt and model (variance 0.2) and one per prompt (0.3), a test passes where their sum and noise of its own (0.5) stay below a
threshold. In the table `assumptions` the correlation within a prompt is given instead (beta-binomial). All seeds are fixed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nnd_tasks.results.compare import compare  # noqa: E402
from nnd_tasks.results.comparison_report import give_verdicts  # noqa: E402
from nnd_tasks.significance import LEVEL, detectable, holm, paired_difference, permutation_p  # noqa: E402
from nnd_tasks.statistics import summarize_rate  # noqa: E402
from tests.results.runs import make_paired  # noqa: E402

PROMPTS = (4, 7, 10, 20, 30, 100, 300)
SIZES = ("equal", "heavy")
PAIRS = ((0.5, 0.5), (0.75, 0.75), (0.9, 0.9), (0.95, 0.95), (0.7, 0.8), (0.85, 0.95))
RATES = (0.5, 0.75, 0.9, 0.95, 0.98)
#: Of the percentile bootstrap that is shown for comparison.
DRAWS = 1000

Counts = NDArray[np.int64]


def outcomes(
    rng: np.random.Generator, runs: int, prompts: int, rates: Sequence[float], sizes: str
) -> tuple[Counts, Counts]:
    """Return tests, shape (runs, prompts), and tests passed, shape (runs, prompts, models)."""
    tests = np.full((runs, prompts), 6)
    if sizes == "heavy":
        tests = np.clip(np.ceil(np.exp(rng.normal(1.2, 1.0, size=tests.shape))), 1, 60).astype(np.int64)
    shared = rng.normal(size=(runs, prompts, 1)) * np.sqrt(0.3)
    own = rng.normal(size=(runs, prompts, len(rates))) * np.sqrt(0.2)
    return tests, rng.binomial(tests[..., None], ndtr((ndtri(np.array(rates)) + shared + own) / np.sqrt(0.5)))


def missed(low: float, high: float, truth: float) -> bool:
    """Tell whether an interval leaves the truth out; one that does not exist claims nothing."""
    return not (np.isnan(low) or low <= truth <= high)


def percentiles(difference: Counts, tests: Counts, rng: np.random.Generator) -> tuple[float, float]:
    """Return the interval of the percentile bootstrap over prompts, which is often taken."""
    k = tests.size
    weights = rng.multinomial(k, np.full(k, 1 / k), size=DRAWS)
    low, high = np.quantile((weights @ difference) / (weights @ tests), [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def plain_t(passed: Counts, tests: Counts) -> tuple[float, float]:
    """Return rate ± t(k - 1) x error within 0 and 1, which is often taken."""
    rate = passed.sum() / tests.sum()
    half = stdtrit(tests.size - 1, 1 - LEVEL / 2) * summarize_rate(passed, tests).standard_error
    return max(0.0, rate - half), min(1.0, rate + half)


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def differences(runs: int) -> Iterator[str]:
    """Yield the table of intervals of differences."""
    yield "Misses: percentile bootstrap / t with k - 1 degrees of freedom / ours. Then (p < 0.05; no interval; ≠).\n"
    yield row("sizes", "rates", *(f"k = {k}" for k in PROMPTS))
    yield row(*["---"] * (2 + len(PROMPTS)))
    for sizes in SIZES:
        for pair in PAIRS:
            yield row(sizes, f"{pair[0]}, {pair[1]}", *(difference_cell(sizes, pair, k, runs) for k in PROMPTS))


def difference_cell(sizes: str, pair: tuple[float, float], k: int, runs: int) -> str:
    first, second = pair
    rng = np.random.default_rng([k, int(100 * first), int(100 * second), SIZES.index(sizes)])
    tests, passed = outcomes(rng, runs, k, pair, sizes)
    truth, counts = second - first, np.zeros(5)
    p = permutation_p((passed[..., 1] - passed[..., 0]).T, resamples=1000)
    for i in range(runs):
        n, (a, b) = tests[i], passed[i].T
        found = paired_difference(a, b, n)
        half = stdtrit(k - 1, 1 - LEVEL / 2) * found.standard_error
        excludes = found.low > 0 or found.high < 0
        plain = (found.mean - half, found.mean + half) if half else (np.nan, np.nan)
        counts += (
            missed(*percentiles(b - a, n, rng), truth),
            missed(*plain, truth),
            missed(found.low, found.high, truth),
            np.isnan(found.low),
            not np.isnan(found.low) and excludes != (p[i] < LEVEL),
        )
    shown = [f"{100 * count / runs:.1f}" for count in counts]
    return f"{' / '.join(shown[:3])} ({100 * float((p < LEVEL).mean()):.1f}; {shown[3]}; {shown[4]})"


def rates(runs: int) -> Iterator[str]:
    """Yield the table of intervals of rates."""
    yield "Misses: rate ± t(k - 1) x error / ours. Then the mean width of ours.\n"
    yield row("sizes", "rate", *(f"k = {k}" for k in PROMPTS))
    yield row(*["---"] * (2 + len(PROMPTS)))
    for sizes in SIZES:
        for rate in RATES:
            yield row(sizes, rate, *(rate_cell(sizes, rate, k, runs) for k in PROMPTS))


def rate_cell(sizes: str, rate: float, k: int, runs: int) -> str:
    rng = np.random.default_rng([k, int(100 * rate), SIZES.index(sizes)])
    tests, passed = outcomes(rng, runs, k, (rate,), sizes)
    plain = [missed(*plain_t(x, n), rate) for x, n in zip(passed[..., 0], tests, strict=True)]
    ends = [summarize_rate(x, n)[2:] for x, n in zip(passed[..., 0], tests, strict=True)]
    ours = [missed(low, high, rate) for low, high in ends]
    width = np.mean([high - low for low, high in ends])
    return f"{100 * np.mean(plain):.1f} / {100 * np.mean(ours):.1f} ({width:.2f})"


def alarms(runs: int) -> Iterator[str]:
    """Yield how many tables of equal models have any p (Holm) below 0.05 on a category."""
    models, categories = 6, 5
    yield row("prompts of each category", "Holm over the categories of a pair", "over pairs and categories (ours)")
    yield row(*["---"] * 3)
    pairs = [(a, b) for a in range(models) for b in range(a)]
    for k in (12, 30, 100):
        rng = np.random.default_rng(k)
        before = ours = 0
        for _ in range(runs):
            _, passed = outcomes(rng, categories, k, (0.7,) * models, "heavy")
            found = np.stack([passed[..., a] - passed[..., b] for a, b in pairs], axis=-1)  # categories, prompts, pairs
            p = np.stack([permutation_p(found[c], resamples=4000) for c in range(categories)])
            before += any(min(holm(p[:, j].tolist())) < LEVEL for j in range(len(pairs)))
            ours += min(holm(p.ravel().tolist())) < LEVEL
        yield row(k, f"{100 * before / runs:.1f}", f"{100 * ours / runs:.1f}")


def assumptions(runs: int) -> Iterator[str]:
    """Yield misses of our intervals where tests of a prompt are more alike than `WITHIN` assumes, near 1."""
    prompts = (10, 20, 30, 100)
    yield row("sizes", "correlation", "rates", *(f"k = {k}" for k in prompts))
    yield row(*["---"] * (3 + len(prompts)))
    for sizes in SIZES:
        for correlation in (0.15, 0.4):
            for chances in ((0.9,), (0.95,), (0.98,), (0.9, 0.97)):
                cells = (assumption_cell(sizes, correlation, chances, k, runs) for k in prompts)
                yield row(sizes, correlation, ", ".join(map(str, chances)), *cells)


def assumption_cell(sizes: str, correlation: float, chances: tuple[float, ...], k: int, runs: int) -> str:
    rng = np.random.default_rng([k, SIZES.index(sizes), int(100 * correlation), *(int(100 * p) for p in chances)])
    tests, _ = outcomes(rng, runs, k, chances, sizes)
    weight, means = 1 / correlation - 1, np.array(chances)
    of_prompt = rng.beta(weight * means, weight * (1 - means), size=(runs, k, means.size))
    passed = rng.binomial(tests[..., None], of_prompt)
    wrong = 0
    for n, counts in zip(tests, passed, strict=True):
        if means.size == 1:
            wrong += missed(*summarize_rate(counts[:, 0], n)[2:], chances[0])
        else:
            difference = paired_difference(counts[:, 0], counts[:, 1], n)
            wrong += missed(difference.low, difference.high, chances[1] - chances[0])
    return f"{100 * wrong / runs:.1f}"


def power(runs: int) -> Iterator[str]:
    """Yield how often a true difference as large as the MDE is found; it should be 80%."""
    prompts = (5, 6, 7, 8, 10, 12, 20, 50)
    yield "Found by p x hypotheses < 0.05. Normal: differences of prompts are drawn from a normal distribution. Others: tests\n"
    yield "as above, first rate 0.4; in brackets the MDE in points, by the true standard error.\n"
    yield row("sizes", "hypotheses", *(f"k = {k}" for k in prompts))
    yield row(*["---"] * (2 + len(prompts)))
    for sizes in ("normal", *SIZES):
        for hypotheses in (1, 15):
            yield row(sizes, hypotheses, *(power_cell(sizes, hypotheses, k, runs) for k in prompts))


def power_cell(sizes: str, hypotheses: int, k: int, runs: int) -> str:
    """Return how often the difference is found that equals its own MDE, and this difference."""
    if sizes == "normal":
        mde = detectable(1 / np.sqrt(k), k, hypotheses)
        draws = np.random.default_rng(k).normal(mde, size=(k, runs)) if np.isfinite(mde) else np.zeros((k, 1))
        found = permutation_p(draws) * hypotheses < LEVEL
        return f"{100 * float(found.mean()):.0f}" if np.isfinite(mde) else "none"
    for difference in np.arange(0.04, 0.6, 0.02):
        rng = np.random.default_rng([k, SIZES.index(sizes)])
        tests, passed = outcomes(rng, runs, k, (0.4, 0.4 + difference), sizes)
        gained = passed[..., 1] - passed[..., 0]
        true_error = float(np.std(gained.sum(axis=1) / tests.sum(axis=1)))
        mde = detectable(true_error, k, hypotheses)
        if np.isinf(mde):
            return "none"
        if difference >= mde:
            found = permutation_p(gained.T) * hypotheses < LEVEL
            return f"{100 * float(found.mean()):.0f} ({100 * difference:.0f})"
    return "- (>60)"


def consistency(runs: int) -> Iterator[str]:
    """Yield how many tables of four models contradict themselves."""
    yield row(
        "prompts (heavy)", "p (Holm) < 0.05 and an interval with 0, or the reverse", "ranks and sentences contradict"
    )
    yield row(*["---"] * 3)
    for k in (8, 12, 30, 100):
        rng = np.random.default_rng(k)
        tests, passed = outcomes(rng, runs, k, (0.6, 0.65, 0.8, 0.85), "heavy")
        apart = contradicting = 0
        for n, counts in zip(tests, passed, strict=True):
            rows = [
                [test < count for count in of_prompt]
                for size, of_prompt in zip(n, counts, strict=True)
                for test in range(size)
            ]
            found = compare(make_paired(rows, np.repeat([f"p{i}" for i in range(k)], n).tolist()))
            overall = found.differences[found.differences["category"] == "all"]
            groups = found.ranks.set_index("model")["group"]
            sentences = give_verdicts(found.rates, found.differences)
            apart += bool(overall["disagrees"].any())
            contradicting += any(
                ("passes more tests" in sentence) != pair.significant
                or (groups[pair.first] != groups[pair.second] and not pair.significant)
                for pair, sentence in zip(overall.itertuples(), sentences, strict=True)
            )
        yield row(k, f"{100 * apart / runs:.1f}", f"{100 * contradicting / runs:.1f}")


TABLES: dict[str, Callable[[int], Iterator[str]]] = {
    "differences": differences,
    "rates": rates,
    "alarms": alarms,
    "assumptions": assumptions,
    "power": power,
    "consistency": consistency,
}
#: Tables that have fewer runs.
SHARES = {"alarms": 5, "consistency": 10}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="default: all")
    parser.add_argument(
        "--runs", type=int, default=2000, help="of each cell; alarms has a fifth of them, consistency a tenth"
    )
    options = parser.parse_args()
    for name in options.tables or TABLES:
        runs = options.runs // SHARES.get(name, 1)
        print(f"\n{name}, % of {runs:,} runs\n")
        for line in TABLES[name](runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
