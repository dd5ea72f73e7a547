"""Does the demo tell a trained model from an untrained one, whatever the seed?

Runs the demo for several seeds and prints, for each, the differences that `nnd compare` gives. Ends with status 1 where
the 95% interval of all tests does not lie above 0 for one of them.

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


def differences(comparison: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return category -> the difference trained - untrained, with its interval."""
    return {row["category"]: row["differences"][0] for row in comparison["categories"]}


def main() -> None:
    """Run the demo for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0 on")
    arguments = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seeds):
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                run_demo(Path(folder) / str(seed), seed)
            seconds = time.perf_counter() - start
            rows = differences(json.loads((Path(folder) / str(seed) / COMPARISON).read_text("utf-8")))
            if not seed:
                print(f"| seed | {' | '.join(rows)} | seconds |\n|---|{'---|' * len(rows)}---:|")
            cells = (f"{row['difference']:+.3f} ({row['low']:+.3f} to {row['high']:+.3f})" for row in rows.values())
            print(f"| {seed} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)
            if not rows["all"]["low"] > 0:
                failed.append(seed)
    if failed:
        sys.exit(f"the interval of all tests does not lie above 0 for seeds {failed}")


if __name__ == "__main__":
    main()
