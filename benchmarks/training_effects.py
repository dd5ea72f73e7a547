"""What training on one category of errors changes: pass rates before and after, mean over seeds (small_model.md).

    for seed in 0 1 2; do
      python examples/train_dpo.py --set demo --category disfluent --category off_target --pairs 64 --seed $seed --tasks TASKS
    done
    python benchmarks/training_effects.py trained/results

A row for each set that was trained on and category; a column for each category of the tested set: the difference to the
untrained model in percentage points, mean over the seeds, with a 95% interval that is clustered by prompt. The interval says
nothing about other seeds; the range of several seeds follows it. The second table has the change of the mean log-likelihood per
token of the better and of the worse texts, in nats.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from nnd_tasks import cli
from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import Paired, pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import WRITER
from nnd_tasks.statistics import clustered_mean, summarize_rate


def group(paired: Paired) -> tuple[int, dict[str, list[int]]]:
    """Return the place of the untrained model, and those of the trained ones: what they were trained on -> places by seed."""
    trained: dict[str, list[int]] = defaultdict(list)
    for place, run in enumerate(paired.runs):
        if run.trained_on:
            trained[re.sub(r"-\d+( #\d+)?$", "", run.model)].append(place)
    base = [place for place, run in enumerate(paired.runs) if not run.trained_on]
    if len(base) != 1:
        raise NNDError(f"{paired.task}: there are {len(base)} runs of untrained models; one is needed")
    return base[0], trained


def print_rates(paired: Paired) -> None:
    """Print the untrained model's rates, then the differences to them."""
    base, trained = group(paired)
    print(f"\n{paired.task}: {len(paired.tests):,} tests of {paired.tests['cluster_id'].nunique():,} prompts\n")
    print("| trained on |", " | ".join(paired.categories), "|")
    print("|---|", "---|" * len(paired.categories), sep="")
    by_category = paired.passed_by_prompt
    rates = [f"{summarize_rate(passed[:, base], tests).mean:.3f}" for passed, tests in by_category.values()]
    print("| nothing |", " | ".join(rates), "|")
    for name, places in trained.items():
        cells = []
        for passed, tests in by_category.values():
            changes = passed[:, places] - passed[:, [base]]
            found = clustered_mean(changes.mean(axis=1), tests)
            low, mean, high = 100 * np.array([found.low, found.mean, found.high])
            seeds = 100 * changes.sum(axis=0) / tests.sum()
            interval = f" [{low:+.1f}, {high:+.1f}]" if low < high else ""
            between = f" ({seeds.min():+.0f} to {seeds.max():+.0f})" if len(places) > 1 else ""
            cells.append(f"{mean:+.1f}{interval}{between}")
        print(f"| {name} |", " | ".join(cells), "|")
    print("", *paired.notes, sep="\n")


def print_likelihoods(paired: Paired) -> None:
    """Print how much the mean log-likelihoods per token of better and worse texts changed."""
    base, trained = group(paired)
    means = [paired.tests_of[run.model][["high_mean", "low_mean"]].mean() for run in paired.runs]
    for name, places in trained.items():
        change = np.mean([means[place] - means[base] for place in places], axis=0)
        print(f"| {paired.task} | {name} | {change[0]:+.2f} | {change[1]:+.2f} |")


def main() -> None:
    """Read the results and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    allow = ["trained_on"]  # notes say which tests hold what a model was trained on
    pairs = [paired for paired in pair(read_results(parser.parse_args().results), allow) if len(paired.runs) > 1]
    for paired in pairs:
        print_rates(paired)
    print("\n| task | trained on | better texts | worse texts |\n|---|---|---:|---:|")
    for paired in pairs:
        if paired.runs[0].reader == WRITER:
            print_likelihoods(paired)


if __name__ == "__main__":
    cli.main(main)
