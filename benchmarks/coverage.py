"""How often intervals miss the true value, and how often p values raise a false alarm, on made-up outcomes.

    python benchmarks/coverage.py                       # all three tables, about a quarter of an hour on one core
    python benchmarks/coverage.py --runs 200 rates      # fewer runs of each cell, one table

A nominal 95% interval should miss in 5% of the runs. Prompts have 6 tests each (`equal`), or 1 to 60 with a heavy tail (`heavy`,
log-normal, standard deviation 1 of the logarithm). Tests of a prompt are alike: with a standard normal variable per
prompt and model (variance 0.2) and one per prompt (0.3), a test passes where their sum and noise of its own (0.5) stay below a
threshold. All seeds are fixed.
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

from nnd_tasks.analysis.compare import holm, permutation_p  # noqa: E402
from nnd_tasks.analysis.power import LEVEL  # noqa: E402
from nnd_tasks.statistics import clustered_standard_error, confidence_interval, paired_difference  # noqa: E402

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
    half = stdtrit(tests.size - 1, 1 - LEVEL / 2) * clustered_standard_error(passed, tests)
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
    p = permutation_p((passed[..., 1] - passed[..., 0]).T, 1000)
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
    ends = [confidence_interval(x, n) for x, n in zip(passed[..., 0], tests, strict=True)]
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
            p = np.stack([permutation_p(found[c], 4000) for c in range(categories)])
            before += any(min(holm(p[:, j].tolist())) < LEVEL for j in range(len(pairs)))
            ours += min(holm(p.ravel().tolist())) < LEVEL
        yield row(k, f"{100 * before / runs:.1f}", f"{100 * ours / runs:.1f}")


TABLES: dict[str, Callable[[int], Iterator[str]]] = {"differences": differences, "rates": rates, "alarms": alarms}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="default: all")
    parser.add_argument(
        "--runs", type=int, default=2000, help="of each cell of the first two tables; the third has a fifth"
    )
    options = parser.parse_args()
    for name in options.tables or TABLES:
        print(f"\n{name}, % of {options.runs if name != 'alarms' else options.runs // 5:,} runs\n")
        for line in TABLES[name](options.runs if name != "alarms" else options.runs // 5):
            print(line, flush=True)


if __name__ == "__main__":
    main()
