"""How often the intervals of `nnd ceiling` and of the share of the ceiling hold the truth, in simulated studies of raters.

A text has a quality, normal in its prompt. A rater sees it with normal noise of his own, and writes a mark from 1 to 5. The true
rate of raters who stay the same is that of all studies together, which have very many prompts; that of persons like these, who
are drawn anew for each study, the mean over many further studies. A model of known noise gives the share of the ceiling.

    python benchmarks/ceiling_coverage.py [--studies 500]
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.ceiling.ceiling import Panel, rate_tests, ratio_interval
from nnd_tasks.sets.recipe import Recipe, ScoreRule
from nnd_tasks.statistics import summarize_rate

PROMPTS, TEXTS, MODEL_NOISE, AT_ONCE = 80, 5, 1.0, 100
MEAN = {"min_gap": 1.0}
MAJORITY = {"majority": True, "best": 5.0}
#: name -> noise of the raters (a number: so many persons, whose noise is drawn from 0.4 to 1.2 for each study), share of missing
#: marks, rule, prompts of a study.
STUDIES: dict[str, tuple[list[float] | int, float, dict[str, Any], int]] = {
    "three raters, mean": ([0.6, 0.8, 1.0], 0.0, MEAN, PROMPTS),
    "three raters, majority at 5": ([0.6, 0.8, 1.0], 0.0, MAJORITY, PROMPTS),
    "five raters, mean": ([0.5, 0.6, 0.8, 0.9, 1.0], 0.0, MEAN, PROMPTS),
    "five raters, a third missing": ([0.5, 0.6, 0.8, 0.9, 1.0], 1 / 3, MEAN, PROMPTS),
    "five raters, one bad": ([0.5, 0.6, 0.7, 0.8, 50.0], 0.0, MEAN, PROMPTS),
    "five raters, 20 prompts": ([0.5, 0.6, 0.8, 0.9, 1.0], 0.0, MEAN, 20),
    "three persons drawn anew": (3, 0.0, MEAN, PROMPTS),
    "five persons drawn anew": (5, 0.0, MEAN, PROMPTS),
    "twelve persons drawn anew, half missing": (12, 1 / 2, MEAN, PROMPTS),
}


class Studies:
    """Many studies of one kind, in one panel: the first prompts are those of the first study."""

    def __init__(self, rng: np.random.Generator, name: str, number: int) -> None:
        """Draw texts, marks, a model, and marks of the same raters in a second round."""
        noises, missing, keys, self.prompts = STUDIES[name]
        shape = (number, self.prompts, TEXTS)
        quality = rng.normal(size=shape)
        noise = rng.uniform(0.4, 1.2, (number, noises)) if isinstance(noises, int) else np.tile(noises, (number, 1))

        def mark() -> np.ndarray[Any, Any]:
            seen = quality[..., None] + noise[:, None, None] * rng.normal(size=(*shape, noise.shape[1]))
            return np.clip(np.round(3 + 1.2 * seen), 1, 5).reshape(-1, TEXTS, noise.shape[1])

        marks = mark()
        prompt, text, rater = np.nonzero(rng.random(marks.shape) >= missing)
        context = prompt.astype(str).astype(object)
        judged = pd.DataFrame(
            {"context_id": context, "cluster_id": context, "attribute": "", "category": "", "place": 0}
        )
        judged = judged.assign(candidate=text.astype(str).astype(object), rater=rater.astype(str).astype(object))
        rule = ScoreRule("", float(keys.get("min_gap", 1)) * (1 - 1e-9))
        self.panel = Panel("simulated", judged.assign(score=marks[prompt, text, rater]), Recipe(**keys), rule)
        model = (quality + MODEL_NOISE * rng.normal(size=shape)).reshape(-1, TEXTS)
        self.said = {"model": model, "second": mark().mean(axis=-1)}
        self.tests = self.ask(self.panel.tests)

    def ask(self, tests: pd.DataFrame) -> pd.DataFrame:
        """Add the study of each test, and what the model and the second round pass."""
        prompt = tests["cluster_id"].astype(int)
        for judge, said in self.said.items():
            high, low = (said[prompt, tests[side].astype(int)] for side in ("high", "low"))
            tests[judge] = np.heaviside(high - low, 0.5)
        return tests.assign(study=prompt // self.prompts)

    def each(self, persons: bool) -> pd.DataFrame:
        """Compute the rate of each study, its intervals, and the share of the model."""
        parts = [self.tests, *(map(self.ask, self.panel.leave_persons_out()) if persons else ())]
        frames = {
            "rate": [part.assign(value=part["passed"], weight=1.0) for part in parts],
            "share": [part.assign(value=part["model"] - 0.5, weight=part["passed"] - 0.5) for part in parts],
        }
        rows: dict[int, dict[str, float]] = {study: {} for study in self.tests["study"].unique()}
        for name, frame in frames.items():
            first, *rest = (dict(iter(one.groupby("study"))) for one in frame)
            for study, tests in first.items():
                row = rows[study]
                row[name], row[f"{name}_low"], row[f"{name}_high"], *wide = ratio_interval(
                    tests, [part[study] for part in rest]
                )
                if name == "rate":
                    passed = tests["passed"].groupby(tests["cluster_id"])
                    rate = summarize_rate(passed.sum(), passed.size())
                    row[f"{name}_low"], row[f"{name}_high"] = rate.low, rate.high
                if persons:
                    row[f"wide_{name}_low"], row[f"wide_{name}_high"] = wide
        return pd.DataFrame(rows.values())


def main() -> None:
    """Print a row per kind of study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--only", default="", help="those whose name has this word")
    number, only = parser.parse_args().studies, parser.parse_args().only
    heads = [
        "study",
        "true ceiling",
        "mean",
        "by prompt",
        "over persons",
        "true share",
        "mean",
        "by prompt",
        "over persons",
    ]
    print("| " + " | ".join([*heads, "second panel", "Spearman-Brown"]) + " |")
    print(f"|---|{'---:|' * 10}", flush=True)
    for seed, name in enumerate(STUDIES):
        if only not in name:
            continue
        rng = np.random.default_rng(seed)
        persons = isinstance(STUDIES[name][0], int)
        studies = [Studies(rng, name, min(AT_ONCE, number - start)) for start in range(0, number, AT_ONCE)]
        found = pd.concat([one.each(persons) for one in studies])
        large = [Studies(rng, name, AT_ONCE) for _ in range(4)]
        means = pd.concat(
            [one.tests.groupby("study")[["passed", "model", "second"]].mean() for one in [*studies, *large]]
        )
        if not persons:
            means = pd.concat([one.tests[["passed", "model", "second"]] for one in [*studies, *large]])
        truth, of_model, second = means.mean()
        true = {"rate": truth, "share": (of_model - 0.5) / (truth - 0.5)}
        estimate = rate_tests(studies[0].tests)["of_panel"].iat[0]
        cells = [name]
        for what, value in true.items():
            cells += [f"{value:.3f}", f"{found[what].mean():.3f}"]
            for before in ("", "wide_"):
                low, high = (found.get(f"{before}{what}_{end}", math.nan) for end in ("low", "high"))
                cells.append(f"{((low <= value) & (value <= high)).mean():.3f}" if before == "" or persons else "")
        print("| " + " | ".join([*cells, f"{second:.3f}", f"{estimate:.3f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
