"""How much two runs of one task differ: outcomes that change, and the mean change of a log-likelihood per token.

    python benchmarks/changed_outcomes.py results/float32 results/bfloat16

Each folder holds one run of each task, with samples. Both runs must have the same tests; their protocols may differ, for
example by the chat template.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nnd_tasks.results.read_runs import read_results


def main() -> None:
    """Print a row for each task and category."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    options = parser.parse_args()
    columns = ["task", "test_id", "category", "passed", "tie", "high_mean", "low_mean"]
    first, second = (read_results(folder).tests[columns] for folder in (options.first, options.second))
    both = first.merge(second, on=["task", "test_id", "category"], validate="one_to_one")
    both["nats"] = sum((both[f"{text}_mean_x"] - both[f"{text}_mean_y"]).abs() for text in ("high", "low")) / 2
    both["changed"] = both["passed_x"] != both["passed_y"]
    everything = both.assign(category="all")
    print("| task | category | tests | changed | share | ties of the second | nats per token |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (task, category), rows in [*everything.groupby(["task", "category"]), *both.groupby(["task", "category"])]:
        changed, ties = rows["changed"], rows["tie_y"].sum()
        print(f"| {task} | {category} | {len(rows):,} | {changed.sum()} | {changed.mean():.1%} | {ties} |", end="")
        print(f" {rows['nats'].mean():.3f} |")


if __name__ == "__main__":
    main()
