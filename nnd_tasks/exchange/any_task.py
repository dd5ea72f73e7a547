"""Results of any task of lm-eval as runs: one per task, metric and filter, whose tests are the documents.

lm-eval 0.4.13 and 0.5 write a line per document and filter into ``samples_TASK_TIME.jsonl``: the value of each metric, and the
hashes of document, prompt and target. A group whose mean lm-eval reports becomes a run with the documents of all of its tasks.

Known limits: a metric that is no mean over documents, such as a corpus BLEU or a perplexity, is left out. Whether two tasks of
one name compute a metric of one name in the same way is not known.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.categories import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.files import noting
from nnd_tasks.redact import without_secrets
from nnd_tasks.results.read_runs import read_header
from nnd_tasks.results.runs import COLUMNS, METRIC, Run, Words
from nnd_tasks.results.samples import HOW_TO_WRITE, read_lines
from nnd_tasks.show.console import warn
from nnd_tasks.task.signature import INDIFFERENT, digest
from nnd_tasks.task.signature import line as compose_line
from nnd_tasks.text import some_of

#: How far a mean of documents may be from the one that lm-eval reports, relative to it above 1.
_CLOSE = 1e-9
#: Differences to plan for: 5000, 2000, 1000, 500, and so on to 0.0001.
_AIMS = tuple(float(f"{digit}e{power}") for power in range(3, -5, -1) for digit in (5, 2, 1))


# ---------------------------------------------------------------- what a results file says


def read_headers(
    file: Path, content: Mapping[str, Any], samples: Mapping[str, Path], skipped: list[str] | None
) -> list[Run]:
    """Read the runs of a results file on tasks that are not NND's, still without their documents.

    Args:
        file: the results.
        content: what the file holds.
        samples: task -> its samples, which need not be there.
        skipped: takes a line on what is left out; None raises an error instead.

    Raises:
        NNDError: samples are missing or damaged, or a group has another mean, and ``skipped`` is None.
        KeyError, TypeError, AttributeError, ValueError: the file is damaged.
    """
    lost = [task for task, path in samples.items() if not path.is_file()]
    with noting(skipped):
        if lost:
            raise NNDError(f"{file}: the samples of {some_of(lost, 3, str)} are missing; {HOW_TO_WRITE}")
    if len(lost) == len(samples):
        return []
    release, arguments = content["lm_eval_version"], content["config"]["model_args"] or {}
    if isinstance(arguments, str):
        arguments = dict(part.partition("=")[::2] for part in arguments.split(","))
    arguments = {key: str(value) for key, value in without_secrets(arguments).items() if key not in INDIFFERENT}
    model = {"type": content["config"]["model"], "name": content["model_name"], "arguments": arguments}
    runs: dict[tuple[str, str], Run] = {}

    def add(task: str, key: str, tasks: Sequence[str], asked: Mapping[str, Any], **command: Any) -> None:
        scored, whole = (sum(content["n-samples"][name][size] for name in tasks) for size in ("effective", "original"))
        metric, _, choice = key.partition(",")
        name = task.rpartition("::")[2]  # lm-eval 0.5 writes GROUP::TASK
        protocol = {
            **{"set": name, "config": metric if choice == "none" else f"{metric}, {choice}", "reader": METRIC},
            **{"metric": metric, "filter": choice, "shots": content["n-shot"].get(task), **asked},
            "lower": content["higher_is_better"].get(task, {}).get(metric) is False,
            "selection": "all" if scored == whole else f"{scored} of {whole}",
            "lm_eval": ".".join(release.split(".")[:2]),
        }
        signature: dict[str, Any] = {"protocol": protocol, "model": model, "environment": {"lm_eval": release}}
        signature["line"] = compose_line(*signature.values())
        answers = content.get("task_hashes", {}).get(task)
        run = read_header(file, content, task, {"signature": signature, "answers": answers})
        runs[task, key] = replace(run, task=name, prompts=scored, command={**run.command, **command})

    for task in [task for task in samples if task not in lost]:
        with noting(skipped):
            first = _read_sample(*next(read_lines(samples[task]), (str(samples[task]), None)))
            for key in filter(_is_metric, content["results"][task]):
                add(task, key, [task], {"data": first["doc_hash"][:12], "prompt": first["asked"]})
    for group, results in (content.get("groups") or {}).items():
        tasks = _tasks_of(group, content["group_subtasks"])
        for key in filter(_is_metric, results):
            with noting(skipped):
                parts = [runs[task, key] for task in tasks if (task, key) in runs]
                sizes = [run.prompts or 0 for run in parts]
                means = [run.reported[key] for run in parts]
                weights = [
                    name
                    for name, counts in {"documents": sizes, "equal": [1] * len(parts)}.items()
                    if len(parts) == len(tasks) and _is_close(np.average(means, weights=counts), results[key])
                ]
                if not weights:
                    raise NNDError(
                        f"{file}: {key} of {group} is no mean of its {len(tasks)} tasks, or one is left out; it is left out"
                    )
                asked = {name: digest([run.protocol[name] for run in parts]) for name in ("data", "prompt")}
                add(group, key, tasks, {**asked, "weights": weights[0]}, parts=parts)
                for task, part in zip(tasks, parts, strict=True):
                    runs[task, key] = replace(part, command={**part.command, "group": group})
    return list(runs.values())


def _is_close(mean: float, reported: Any) -> bool:
    return isinstance(reported, (int, float)) and math.isclose(mean, reported, rel_tol=_CLOSE, abs_tol=_CLOSE)


def _is_metric(key: str) -> bool:
    """Tell whether a key of results is ``METRIC,FILTER``, and no error."""
    metric, comma, _ = key.partition(",")
    return bool(comma) and not metric.endswith("_stderr")


def _tasks_of(group: str, children: Mapping[str, Sequence[str]]) -> list[str]:
    """The tasks of a group and of the groups in it."""
    return [task for child in children.get(group) or () for task in _tasks_of(child, children)] or [group]


# ---------------------------------------------------------------- documents


def _read_sample(place: str, sample: Any) -> dict[str, Any]:
    """Add to a line of a samples file what its document was asked, as a digest; raise NNDError where it is none."""
    try:
        hashes = [sample[name] + "" for name in ("filter", "doc_hash", "prompt_hash", "target_hash")]
        prompt = str(next(iter(sample["arguments"].values()))["arg_0"])
        more = {"asked": digest([hashes[2:], sample["arguments"]]), "context": prompt, "hashes": "".join(hashes[1:])}
        return {**sample, **more, "doc_id": int(sample["doc_id"]), "no_context": None, "scores": [None]}
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise NNDError(
            f"{place}: is not a sample of lm-eval 0.4.13 or 0.5 ({error!s:.80}); run the task again"
        ) from error


@lru_cache(maxsize=100)
def _read_file(path: Path, changed: int) -> tuple[list[dict[str, Any]], str]:
    """Read a samples file once for all metrics and filters: its samples, by document; and the digest of all hashes."""
    samples = [_read_sample(*line) for line in read_lines(path)]
    hashes = "".join(sample["hashes"] for sample in samples)
    return sorted(samples, key=lambda sample: sample["doc_id"]), hashlib.sha256(hashes.encode()).hexdigest()


def _read_part(run: Run) -> Iterator[dict[str, Any]]:
    """Yield what became of each document of a task, in the order of its data."""
    every, hashes = _read_file(run.path, run.path.stat().st_mtime_ns)
    metric, choice = run.protocol["metric"], run.protocol["filter"]
    samples = [sample for sample in every if sample["filter"] == choice]
    not_of_it = f"they are of another run than {run.file.name}, or one is damaged; run the task again"
    ids = {sample["doc_id"] for sample in samples}
    if not len(samples) == len(ids) == run.prompts:
        twice = (
            ", some twice: are they of two runs?"
            if len(ids) < len(samples)
            else ": the file is cut off; run the task again"
        )
        raise NNDError(f"{run.path}: {len(samples)} of {run.prompts} documents{twice}")
    if run.answers not in ("", hashes):
        raise NNDError(f"{run.path}: its documents have other hashes: {not_of_it}")
    samples = [sample for sample in samples if metric in sample]
    for kind in {type(sample[metric]) for sample in samples} - {bool, int, float}:
        raise NNDError(
            f"{run.path}: {metric} of a document is a {'text' if kind is str else 'list'}, which lm-eval pools in "
            "its own way; it cannot be compared document by document; --select metric=NAME takes another metric"
        )
    mean = np.mean([sample[metric] for sample in samples])
    if not _is_close(mean, reported := run.reported[f"{metric},{choice}"]):
        raise NNDError(
            f"{run.path}: the mean of {metric} is {mean:.6g}, {run.file.name} says {reported!r:.40}: lm-eval pools it in another "
            f"way, so that it cannot be compared document by document; or {not_of_it}"
        )
    for sample in samples:
        name = f"{run.task}/{sample['doc_id']}/{sample['doc_hash'][:12]}"
        about = {"cluster_id": name, "value": float(sample[metric]), "stratum": run.task}
        yield {**sample, **about, "candidates": [sample["asked"]]}


def read_documents(run: Run) -> Run:
    """Add the documents to a run of which only the results file was read.

    Raises:
        NNDError: samples are missing, cut off, damaged or of several runs; or the metric is no number of each document, or not
            their mean.
    """
    documents = [document for part in run.command.get("parts", [run]) for document in _read_part(part)]
    names = {"cluster_id": "test_id", "doc_hash": "cluster_id", "value": "passed", "stratum": "stratum"}
    tests = pd.DataFrame(documents, columns=[*names]).rename(columns=names)
    fixed = {"category": "", "subcategory": "", "severity": "", "high": 0, "low": 0, "tie": False}
    equal = ["stratum"] if run.protocol.get("weights") == "equal" else []
    tests = tests.assign(**fixed, document=range(len(tests))).reindex(columns=[*COLUMNS, *equal])
    more = f"has a {'lower' if run.protocol['lower'] else 'higher'} {run.protocol['config']}"
    drawn = "document" if tests["cluster_id"].is_unique else "distinct document"
    document = ("document", drawn, f"{more} than", f"{more} on", "{value:.4f}", "{value:.4f}", "")
    words = Words(*document, aims=_AIMS, lower=run.protocol["lower"])
    return replace(run, documents=documents, tests=tests, words=words)


def label_documents(runs: Sequence[Run], cluster: str | None, category: str | None) -> list[Run]:
    """Take clusters and categories of documents from fields that they have; a task without the field stays as it is.

    Args:
        runs: of tasks that are not NND's.
        cluster: a field, such as that of a passage; None leaves each document alone.
        category: a field; None gives no categories.

    Raises:
        NNDError: a run is of an NND task; no task has a field, or only some documents; or a value is a list, or ``all``.
    """
    for option, field, column in (("--cluster", cluster, "cluster_id"), ("--category", category, "category")):
        if not field:
            continue
        labelled, lacking = list[Run](), dict[str, str]()
        for run in runs:
            if run.reader != METRIC:
                raise NNDError(
                    f"{option}: {run.task} is an NND task, whose tests have their own; add --select reader={METRIC}"
                )
            docs = [document["doc"] if isinstance(document["doc"], dict) else {} for document in run.documents]
            values = [doc.get(field) for doc in docs]
            if not any(value is not None for value in values):
                lacking[run.task] = (
                    f"{option}: documents of {run.task} have no {field}; they have {some_of([*docs[0]], show=str)}"
                )
            elif any(value in (None, "", ALL) or isinstance(value, (list, dict)) for value in values):
                raise NNDError(
                    f"{option}: {field} of each document of {run.task} must be a text or a number, and not {ALL!r}"
                )
            else:
                words = run.words._replace(prompt="cluster") if column == "cluster_id" else run.words
                run = replace(run, tests=run.tests.assign(**{column: [*map(str, values)]}), words=words)
            labelled.append(run)
        if len(lacking) == len({run.task for run in runs}):
            raise NNDError("; ".join(lacking.values()))
        for line in lacking.values():
            warn(f"{line}; it stays as it is")
        runs = labelled
    return list(runs)
