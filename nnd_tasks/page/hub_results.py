"""The rates of one model in the form of the hub's ``.eval_results``."""

from __future__ import annotations

from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.results.compare import category_rates
from nnd_tasks.results.paired import pair
from nnd_tasks.results.runs import METRIC, WRITER, Runs


def list_hub_results(runs: Runs) -> list[dict[str, Any]]:
    """Make the entries of a file in ``.eval_results`` of a model's repository, one per run.

    The form is that of https://huggingface.co/docs/hub/eval-results. ``task_id`` is not that of the ``eval.yaml`` which
    `nnd publish` writes, because a choice of a generated letter is another measurement than a likelihood.

    Raises:
        NNDError: there are several models, or a run is of a part of its set, or of a task that is not NND's.
    """
    models = sorted({str(run.model_info["name"]) for run in runs})
    if len(models) > 1:
        raise NNDError(
            f"--hub: the file is for one model, and these are of {', '.join(models)}; name the results of one"
        )
    entries = []
    for run in runs:
        if run.reader == METRIC:
            raise NNDError(
                f"--hub: {run.task} is no NND task, and names no dataset of the hub; add --select reader={WRITER}"
            )
        if run.protocol["selection"] != "all":
            raise NNDError(f"--hub: the run of {run.task} is of a part of its set; run it without --limit and --sample")
        [paired] = pair(Runs([run]))
        whole = category_rates(paired).iloc[0]
        kind = "likelihood" if run.reader == WRITER else run.reader
        entries.append(
            {
                "dataset": {"id": run.protocol["set"], "task_id": f"{run.protocol['config']}_{kind}"},
                "value": round(float(whole["rate"]), 4),
                "date": run.date[:10],
                "notes": f"pass rate of {whole['tests']} tests, 95% interval {whole['low']:.3f} to {whole['high']:.3f}, "
                f"by {kind}; {run.short_line}",
            }
        )
    return entries
