"""Stored results of made-up models: two sets with several categories, kept tokens, marked errors and scores without context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.results import fake_runs, token_runs
from tests.results.fake_runs import make_sample, score

#: Model -> number of its parameters; of one family.
MODELS = {"org/pin-70m": 70_000_000, "org/pin-160m": 160_000_000, "org/pin-410m": 410_000_000}
#: Checkpoints of one training.
STEPS = (0, 100, 400, 1600)
#: Category -> what the next better model adds to a margin, in nats per token.
CATEGORIES = {"added": 0.0, "dropped": 0.1, "swapped": 0.3}
_WORDS = "the a river city over under stone quickly walked green house found 17 small letters Anna Paris of and"


def samples(skill: float, seed: int, *, prompts: int = 70, gaps: bool = True) -> list[dict[str, Any]]:
    """Return the lines of a samples file; texts and tests are the same for all models.

    Args:
        skill: how many times a model is better on each of `CATEGORIES`.
        seed: of the scores.
        prompts: how many.
        gaps: with a tie, a shortened prompt and, for each model another, a test that was not scored.
    """
    rng, noise = np.random.default_rng(7), np.random.default_rng([8, seed])
    words, lines = _WORDS.split(), []
    for i in range(prompts):
        good = rng.choice(words, int(rng.integers(8, 16))).tolist()
        texts = [" ".join(good)]
        tests: list[dict[str, Any]] = []
        for j in range(int(rng.integers(2, 6))):
            category = list(CATEGORIES)[int(rng.integers(3))]
            at = int(rng.integers(1, len(good) - 1))
            added = rng.choice(words, int(rng.integers(1, 4))).tolist()
            bad = {
                "added": [*good[:at], *added, *good[at:]],
                "dropped": [*good[:at], *good[at + 1 :]],
                "swapped": [*good[:at], f"x{j}", *good[at + 1 :]],
            }[category]
            texts.append(" ".join(bad))
            about = {"test_id": f"{i:05x}-{j}", "category": category, "subcategory": f"{category}/{j % 2}"}
            tests.append({**about, "severity": ("minor", "major")[j % 2], "high": 0, "low": j + 1})
        base, easy = -3 + noise.normal() / 2 - skill / 10, rng.normal() / 2
        gain = [0.0, *(0.1 + easy + CATEGORIES[test["category"]] * skill for test in tests)]
        means = [float(base - more + (noise.normal() * 0.7 if more else 0)) for more in gain]
        blind = [float(mean + noise.normal() / 2) for mean in means]
        if gaps and i == 3:
            means[1] = means[0]
        scores, alone = (
            [score(mean, len(text.split()) + 1, len(text.encode())) for text, mean in zip(texts, several, strict=True)]
            for several in (means, blind)
        )
        if gaps and i == 10 + seed:
            scores[-1] = None
        context = " ".join(rng.choice(words, 30).tolist())
        document = {"cluster_id": f"c{i:05x}", "context": f"Source {i}: {context}", "candidates": texts, "tests": tests}
        shortened = int(gaps and i == 5)
        lines.append(make_sample(document, scores, no_context=alone, truncated_contexts=shortened))
    return lines


def write_models(folder: Path) -> Path:
    """Write `MODELS` on both sets: ``nnd_made_up``, and ``nnd_marked`` with tokens and marked errors."""
    marked = token_runs.documents(40)
    for i, (name, size) in enumerate(MODELS.items()):
        about = {"type": "hf", "weights": f"{i:012x}", "window": 1024}
        fake_runs.write_run(folder / "made_up", name, samples=samples(i, i), parameters=size, about=about)
        place = folder / "marked" / str(i)
        token_runs.write_run(place, name, marked, seed=i, without_context=True, parameters=size, about=about)
    return folder


def write_training(folder: Path) -> Path:
    """Write the checkpoints of a training at `STEPS` on ``nnd_made_up``."""
    for i, step in enumerate(STEPS):
        lines = samples(1.5 * i, i, prompts=40, gaps=False)
        fake_runs.write_run(folder, f"out/tiny/step-{step:05}", samples=lines, parameters=1_000_000)
    return folder
