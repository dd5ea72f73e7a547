"""Does the demo tell a trained model from an untrained one, whatever the seed?

Runs the demo for several seeds and prints, for each, the differences that `nnd compare` gives, and for each category the
ranges over the seeds. Ends with status 1 where the 95% interval of `disfluent` does not lie above 0 for one of them.

    python benchmarks/demo_seeds.py --seeds 10
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nnd_tasks.demo import COMPARISON, run_demo

#: What training teaches whatever the seed; the other categories, and so all tests together, need the prompt.
TAUGHT = "disfluent"


def by_category(comparison: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return category -> the rates of both models, and their difference with its interval."""
    return {
        row["category"]: {model: rate["rate"] for model, rate in row["rates"].items()} | row["differences"][0]
        for row in comparison["categories"]
    }


def ranges(runs: list[dict[str, dict[str, float]]]) -> str:
    """Return a table: the ranges of rates and differences over the seeds, and how many intervals lie above 0."""
    lines = ["| category | untrained | trained | difference | intervals above 0 |", "|---|---:|---:|---:|---:|"]
    for category in runs[0]:
        rows = [run[category] for run in runs]
        cells = [f"{min(r[k] for r in rows):.2f} to {max(r[k] for r in rows):.2f}" for k in ("untrained", "trained")]
        differences = [row["difference"] for row in rows]
        above = sum(row["low"] > 0 for row in rows)
        cells += [f"{min(differences):+.2f} to {max(differences):+.2f}", f"{above} of {len(rows)}"]
        lines.append(f"| {category} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the demo for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0 on")
    arguments = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seeds):
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                run_demo(Path(folder) / str(seed), seed)
            seconds = time.perf_counter() - start
            rows = by_category(json.loads((Path(folder) / str(seed) / COMPARISON).read_text("utf-8")))
            if not seed:
                print(f"| seed | {' | '.join(rows)} | seconds |\n|---|{'---|' * len(rows)}---:|")
            cells = (f"{row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})" for row in rows.values())
            print(f"| {seed} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)
            runs.append(rows)
    print(f"\n{ranges(runs)}")
    failed = [seed for seed, rows in enumerate(runs) if not rows[TAUGHT]["low"] > 0]
    if failed:
        sys.exit(f"the interval of {TAUGHT} does not lie above 0 for seeds {failed}")


if __name__ == "__main__":
    main()
