"""The table of small models on the group `nnd_today` in docs/sets.md, from the results of runs.

    for model in MODEL...; do
      nnd run --model hf-shared-prefix --model_args pretrained=$model,dtype=float32,softmax_dtype=float32 --device cpu \
        --tasks nnd_today --output_path results
    done
    python benchmarks/sets_today.py results    # with the NND_HOME of the runs, whose sets have the baselines

The models stand in the order of their numbers of parameters. Standard errors are clustered by prompt.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import dataset_folder, read_report
from nnd_tasks.markdown import table

Run = dict[str, Any]


def main(folder: Path) -> None:
    """Print the table of the runs whose results are in a folder."""
    runs: dict[int, dict[str, Run]] = {}  # number of parameters -> task -> its results
    seconds: dict[int, float] = {}
    for path in sorted(folder.rglob("results_*.json")):
        said = json.loads(path.read_text("utf-8"))
        size = said["config"]["model_num_parameters"]
        seconds[size] = seconds.get(size, 0) + float(said["total_evaluation_time_seconds"])
        for task, found in said["results"].items():
            if "pass_rate,none" in found:
                runs.setdefault(size, {})[task] = {**found, "about": said["configs"][task]}
    sizes = sorted(runs)
    rows = []
    for task, largest in runs[sizes[-1]].items():
        about = largest["about"]
        part = read_report(dataset_folder(about["dataset_path"].removeprefix("nnd/")))
        rates = part[about.get("dataset_name") or next(iter(part))]["trivial_rules"]["all"]
        best = max(rates, key=rates.__getitem__)
        cells = [
            f"{one['pass_rate,none']:.3f} ± {one['pass_rate_stderr,none']:.3f}"
            for one in (runs[size][task] for size in sizes)
        ]
        counts = [f"{largest[f'{name},none']:,.0f}" for name in ("tests", "unscored", "clusters")]
        rows.append(
            [f"`{task}`", *counts, *cells, f"{largest['pass_rate_sum,none']:.3f}", f"{rates[best]:.3f} (`{best}`)"]
        )
    head = ["task", "tests", "`unscored`", "prompts", *(f"{size / 1e6:.1f}M parameters" for size in sizes)]
    print("\n".join(table([*head, "largest: `pass_rate_sum`", "best baseline"], rows, right=head[1:])))
    print(*(f"{size:,} parameters: {seconds[size]:,.0f} s" for size in sizes), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
