"""The table of small models on the group `nnd_today` in docs/sets.md, from the results of runs.

    for model in MODEL...; do
      nnd run --model hf-shared-prefix --model_args pretrained=$model,dtype=float32,softmax_dtype=float32 --device cpu \
        --tasks nnd_today --output_path results
    done
    python benchmarks/sets_today.py results    # with the NND_HOME of the runs

The models stand in the order of their numbers of parameters. Of a task that was run with several numbers of prompts
(`--sample`), the largest run that all models have is shown, with the best baseline on the same prompts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from nnd_tasks.baselines import table_rates
from nnd_tasks.datasets import dataset_folder, read_table
from nnd_tasks.harness.documents import cluster_documents, sample_of

Run = dict[str, Any]


def baselines(about: dict[str, Any], prompts: int) -> dict[str, float]:
    """Return baseline -> its pass rate on as many prompts of a task as a run took.

    Args:
        about: the task's config in the results.
        prompts: number of prompts, all of them or those of ``--sample``.
    """
    tests = read_table(dataset_folder(about["dataset_path"].removeprefix("nnd/")), about.get("dataset_name"))
    documents = cluster_documents(Dataset(tests), about["task"])
    taken = documents[sample_of(documents, prompts)]["cluster_id"]
    return table_rates(tests.filter(pc.is_in(tests["cluster_id"], value_set=pa.array(taken))))["all"]


def main(folder: Path) -> None:
    """Print the table of the runs whose results are in a folder."""
    runs: dict[str, dict[int, dict[int, Run]]] = {}  # task -> number of prompts of the run -> parameters -> its results
    for path in sorted(folder.rglob("results_*.json")):
        said = json.loads(path.read_text("utf-8"))
        for task, found in said["results"].items():
            if "pass_rate,none" in found:
                prompts = runs.setdefault(task, {}).setdefault(said["n-samples"][task]["effective"], {})
                whole = said["n-samples"][task]["original"]
                prompts[said["config"]["model_num_parameters"]] = {**found, "of": whole, "about": said["configs"][task]}
    sizes = sorted({size for found in runs.values() for models in found.values() for size in models})
    rows = []
    for task, found in runs.items():
        shared = [count for count, models in found.items() if len(models) == len(sizes)]
        if not shared:
            print(f"{task}: not run with every model", file=sys.stderr)
            continue
        prompts = max(shared)
        largest = found[prompts][sizes[-1]]
        rates = baselines(largest["about"], prompts)
        best = max(rates, key=rates.__getitem__)
        cells = [
            f"{found[prompts][size]['pass_rate,none']:.3f} ± {found[prompts][size]['pass_rate_stderr,none']:.3f}"
            for size in sizes
        ]
        counts = [f"{prompts:,}" if prompts == largest["of"] else f"{prompts:,} of {largest['of']:,}"]
        counts += [f"{largest[f'{name},none']:,.0f}" for name in ("tests", "unscored")]
        rows.append(
            [f"`{task}`", *counts, *cells, f"{largest['pass_rate_sum,none']:.3f}", f"{rates[best]:.3f} (`{best}`)"]
        )
    head = ["task", "prompts", "tests", "`unscored`", *(f"{size / 1e6:.1f}M parameters" for size in sizes)]
    columns = [*head, "largest: `pass_rate_sum`", "best baseline"]
    for row in (columns, ["---", *["---:"] * (len(head) - 1), "---", "---"], *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
