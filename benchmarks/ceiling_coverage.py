"""How often the intervals of `nnd ceiling` hold the true rate, in simulated studies with known noise of raters.

A text has a quality, normal in its prompt. A rater sees it with normal noise of his own, and writes a mark from 1 to 5. The true
rate of raters who stay the same is that of one study with very many prompts; that of persons like these, who are drawn anew for
each study, the mean over many such studies. A model of known noise gives the share of the ceiling.

    python benchmarks/ceiling_coverage.py [--studies 200]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.ceiling.ceiling import Panel, rate_tests, two_way
from nnd_tasks.ceiling.shares import share_of
from nnd_tasks.sets.recipe import Recipe, ScoreRule
from nnd_tasks.statistics import summarize_rate

PROMPTS, TEXTS, MODEL_NOISE = 80, 5, 1.0
MEAN = {"min_gap": 1.0}
MAJORITY = {"majority": True, "best": 5.0}
#: name -> noise of the raters (None: drawn from 0.4 to 1.2 for each study), share of missing marks, rule.
STUDIES: dict[str, tuple[list[float | None], float, dict[str, Any]]] = {
    "three raters, mean": ([0.6, 0.8, 1.0], 0.0, MEAN),
    "three raters, majority at 5": ([0.6, 0.8, 1.0], 0.0, MAJORITY),
    "five raters, mean": ([0.5, 0.6, 0.8, 0.9, 1.0], 0.0, MEAN),
    "five raters, a third missing": ([0.5, 0.6, 0.8, 0.9, 1.0], 1 / 3, MEAN),
    "five raters, one bad": ([0.5, 0.6, 0.7, 0.8, 50.0], 0.0, MEAN),
    "five persons drawn anew": ([None] * 5, 0.0, MEAN),
    "twelve persons drawn anew, half missing": ([None] * 12, 1 / 2, MEAN),
}


def simulate(rng: np.random.Generator, name: str, prompts: int) -> tuple[Panel, pd.DataFrame]:
    """Make the panel of a study, and the tests of raters who were left out, with what the model and a second panel pass."""
    noises, missing, keys = STUDIES[name]
    quality = rng.normal(size=(prompts, TEXTS))
    noise = np.array([rng.uniform(0.4, 1.2) if one is None else one for one in noises])
    seen = quality[..., None] + noise * rng.normal(size=(prompts, TEXTS, len(noises)))
    marks = np.clip(np.round(3 + 1.2 * seen), 1, 5)
    prompt, text, rater = np.nonzero(rng.random(marks.shape) >= missing)
    context = prompt.astype(str).astype(object)
    judged = pd.DataFrame({"context_id": context, "cluster_id": context, "attribute": "", "category": "", "place": 0})
    judged = judged.assign(candidate=text.astype(str).astype(object), rater=rater.astype(str).astype(object))
    rule = ScoreRule("", float(keys.get("min_gap", 1)) * (1 - 1e-9))
    panel = Panel("simulated", judged.assign(score=marks[prompt, text, rater]), Recipe(**keys), rule)
    tests, _ = panel.leave_one_out()
    again = np.clip(np.round(3 + 1.2 * (quality[..., None] + noise * rng.normal(size=seen.shape))), 1, 5).mean(axis=-1)
    for judge, said in {"model": quality + MODEL_NOISE * rng.normal(size=quality.shape), "second": again}.items():
        high, low = (said[tests["cluster_id"].astype(int), tests[side].astype(int)] for side in ("high", "low"))
        tests[judge] = np.heaviside(high - low, 0.5)
    return panel, tests


def study(rng: np.random.Generator, name: str) -> dict[str, float]:
    """Compute the rate of one study, its intervals, and the share of the model."""
    panel, tests = simulate(rng, name, PROMPTS)
    sums = tests.assign(tests=1.0).groupby("cluster_id")[["passed", "model", "tests"]].sum().to_numpy().T
    rate, wide = summarize_rate(sums[0], sums[2]), two_way(tests, panel.leave_persons_out())
    share = share_of(sums[1] - sums[2] / 2, sums[0] - sums[2] / 2)
    return {"rate": rate.mean, "low": rate.low, "high": rate.high, "wide_low": wide[0], "wide_high": wide[1],
            "share": share[0], "share_low": share[1], "share_high": share[2]}  # fmt: skip


def main() -> None:
    """Print a row per kind of study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--only", default="", help="those whose name has this word")
    number, only = parser.parse_args().studies, parser.parse_args().only
    heads = ["study", "true ceiling", "mean", "by prompt", "by person too", "true share", "mean", "its interval"]
    print("| " + " | ".join([*heads, "second panel", "Spearman-Brown"]) + " |")
    print(f"|---|{'---:|' * 9}", flush=True)
    for seed, name in enumerate(STUDIES):
        if only not in name:
            continue
        rng = np.random.default_rng(seed)
        drawn = None in STUDIES[name][0]
        studies = [simulate(rng, name, 200 if drawn else 20_000) for _ in range(100 if drawn else 1)]
        large = [tests for _, tests in studies]
        second = np.mean([tests["second"].mean() for tests in large])
        estimate = np.mean([rate_tests(tests, panel)["of_panel"].iat[0] for panel, tests in studies])
        truth = np.mean([tests["passed"].mean() for tests in large])
        of_model = np.mean([tests["model"].mean() for tests in large])
        true_share = (of_model - 0.5) / (truth - 0.5)
        found = pd.DataFrame(study(rng, name) for _ in range(number))
        holds = [
            f"{((found[low] <= true) & (true <= found[high])).mean():.3f}"
            for low, high, true in (
                ("low", "high", truth),
                ("wide_low", "wide_high", truth),
                ("share_low", "share_high", true_share),
            )
        ]
        print(f"| {name} | {truth:.3f} | {found['rate'].mean():.3f} | {holds[0]} | {holds[1]} | {true_share:.3f} | "
              f"{found['share'].mean():.3f} | {holds[2]} | {second:.3f} | {estimate:.3f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
