"""Seconds of a multiple-choice task of lm-eval's own kind with ``hf`` and with ``hf-shared-prefix``, in turn.

    python engine/benchmarks/multiple_choice.py MODEL

Documents are random words, of the lengths of common tasks. Both models are loaded once, and a ratio is taken within a round. It
fails where a metric differs. It needs nothing but this package and a model.
"""

from __future__ import annotations

import json
import logging
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lm_eval
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager

import shared_prefix.hf_shared_prefix  # noqa: F401 - registers the model

#: Words of a context and of a choice, and exemplars: about those of ARC, HellaSwag, RACE, and MMLU with five exemplars.
SHAPES = {"short": (20, 5, 0), "endings": (60, 20, 0), "passage": (300, 8, 0), "five exemplars": (40, 5, 5)}
BATCHES = (1, 8, 16)
DOCUMENTS, ROUNDS = 20, 3
#: Each is one token of most models.
WORDS = """
the of and to in is that for it was on are as with his they at be this from have or by one had not but what all were when we there
can an your which their said if do will each about how up out them then she many some so these would other into has more her two
like him see time could no make than first been its who now people my made over did down only way find use may water long little
very after words called just where most know
"""
TASK = """
task: made_up
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/table.jsonl}}, cache_dir: {folder}/cache}}
test_split: test
fewshot_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
num_fewshot: {exemplars}
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""


def write_task(folder: Path, context: int, choice: int, exemplars: int) -> TaskManager:
    """Write a task of documents with four choices."""
    draw, words = random.Random(0), WORDS.split()
    lengths = (context, choice, choice, choice, choice)
    texts = [[" ".join(draw.choices(words, k=length)) for length in lengths] for _ in range(DOCUMENTS)]
    rows = [{"text": text, "choices": choices, "label": draw.randrange(4)} for text, *choices in texts]
    (folder / "table.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "made_up.yaml").write_text(TASK.format(folder=folder, exemplars=exemplars), encoding="utf-8")
    return TaskManager(include_path=str(folder), include_defaults=False)


def evaluate(lm: Any, manager: TaskManager, batch: int = 1) -> tuple[float, Any]:
    """Return the seconds that a model takes to answer the requests of a run, tokenizing included, and the metrics."""
    lm.batch_size_per_gpu, answer, moments = batch, lm.loglikelihood, []

    def timed(*args: Any, **kwargs: Any) -> Any:
        moments.append(time.perf_counter())
        answers = answer(*args, **kwargs)
        moments.append(time.perf_counter())
        return answers

    with patch.object(lm, "loglikelihood", timed):
        results = lm_eval.simple_evaluate(lm, tasks=["made_up"], task_manager=manager, bootstrap_iters=0)["results"]
    return moments[1] - moments[0], results["made_up"]


def main() -> None:
    """Measure every shape, and print a table."""
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    plain, ours = (get_model(name)(pretrained=sys.argv[1], dtype="float32") for name in ("hf", "hf-shared-prefix"))
    assert ours.why_not() is None, ours.why_not()
    print("| documents | hf, s (best batch) | hf-shared-prefix, s | ratio | spread |\n|---|---|---|---|---|")
    for shape, sizes in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            manager = write_task(Path(folder), *sizes)
            best = min(BATCHES, key=lambda batch, manager=manager: evaluate(plain, manager, batch)[0])
            evaluate(ours, manager)
            seconds = []
            for _ in range(ROUNDS):
                (one, rates), (two, same) = evaluate(plain, manager, best), evaluate(ours, manager)
                assert rates == same, (rates, same)
                seconds.append((one, two, one / two))
        slow, fast, ratio = (statistics.median(numbers) for numbers in zip(*seconds, strict=True))
        ratios = sorted(ratio for *_, ratio in seconds)
        print(
            f"| {shape} | {slow:.2f} ({best}) | {fast:.2f} | {ratio:.1f} | {ratios[0]:.1f} to {ratios[-1]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
