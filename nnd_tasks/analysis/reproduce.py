"""The authors' published runs again, on the models that the user has: published beside measured rates."""

from __future__ import annotations

import gc
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks import __version__
from nnd_tasks.analysis.experiments import (
    PATH,
    Experiment,
    PublishedRun,
    find_weights,
    load_experiments,
    pick,
)
from nnd_tasks.analysis.marks import FEW_PROMPTS, is_few
from nnd_tasks.baselines import ALL
from nnd_tasks.datasets import find_set, read_table
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import changing, expand, write_text
from nnd_tasks.show.report import Report, Table, file_stem
from nnd_tasks.statistics import clustered_standard_error, pool, pooled_rate
from nnd_tasks.tables import fingerprint
from nnd_tasks.yaml_json import read_json, read_yaml

DISCLAIMER = (
    "These experiments have not been run on the authors' weights: their numbers are checked against the published ones, and "
    "only small stand-in models were run with them."
)


def list_experiments() -> Report:
    """Return every experiment with its models."""
    rows = [
        {"experiment": experiment.name, "set": experiment.set, **vars(run), "published": run.rates[ALL]}
        for experiment in load_experiments().values()
        for run in experiment.models
    ]
    names = ("experiment", "set", "name", "published", "task", "model", "released")
    columns = {**{name: f"{{{name}}}" for name in names}, "published": "{published:.3f}", "released": "{released:yes}"}
    table = Table("models", pd.DataFrame(rows)[[*names]], columns)
    notes = ["What was not released, the authors fine-tuned from the model that is named."]
    return Report("experiments", "Published experiments", [DISCLAIMER], [table], notes, brief=table)


def reproduce(
    name: str,
    weights: Sequence[str] = (),
    *,
    out: Path,
    limit: int | None = None,
    say: Callable[[str], None] = print,
    **settings: Any,
) -> Report:
    """Run the models of an experiment that the user has, and show published beside measured rates.

    Args:
        name: of the experiment.
        weights: models to run, ``NAME`` or ``NAME=FOLDER``; none takes all that were released.
        out: folder for ``NAME/MODEL-KEY.json``, written after each model. A model whose result is there, made with the same
            weights, data and limit, is not run again.
        limit: number of prompts; None takes all.
        say: is called with a line before each model.
        **settings: ``device`` and ``batch_size``, as for lm_eval.

    Returns:
        The report; its fact ``failed`` has a line for each model that failed (the others are run nevertheless).

    Raises:
        NNDError: there is no such experiment, model or folder, the set is not built, ``out`` cannot be written, or all models
            failed.
    """
    from nnd_tasks.harness.signature import weights_digest

    experiment = pick(name, load_experiments(), "experiment")
    known = {run.name: run for run in experiment.models}
    released = [run.name for run in experiment.models if run.released]
    asked = dict(text.partition("=")[::2] for text in weights or released)
    if len(asked) < len(weights):
        raise NNDError(f"--weights: a model is named twice in {', '.join(weights)}")
    jobs = [(run := pick(one, known, f"model of {name}"), find_weights(run, folder)) for one, folder in asked.items()]
    tables = {config: read_table(find_set(experiment.set), config) for config in {run.config for run, _ in jobs}}
    place = expand(out) / name
    with changing(place):
        place.mkdir(parents=True, exist_ok=True)
    cells, notes, failed = [], [], []
    for run, found in jobs:
        tests = tables[run.config].num_rows
        key = {"task": run.task, "rates": run.rates, "metadata": run.metadata, "limit": limit}
        key |= {"weights": weights_digest(found) or found, "data": fingerprint(tables[run.config])}
        path = place / f"{file_stem(run.name)}-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:8]}.json"
        say(f"{run.name}: {found}{', kept from an earlier run' if path.exists() else ''}")
        try:
            if not path.exists():
                result = _run(run, found, path.with_suffix(".tokenizer"), limit, settings)
                result["cells"] = measure(result.pop("samples"), experiment, run, tests)
                write_text(path, json.dumps({"nnd_tasks": __version__, "key": key, **result}, indent=2) + "\n")
            result = read_json(path)
        except Exception as error:  # lm-eval, torch and transformers raise many kinds; the other models can still run
            failed.append(f"{run.name}: failed ({typed_reason_of(error)})")
            continue
        finally:
            gc.collect()  # lm-eval's objects refer to each other; the next model needs the memory
        cells += [{"model": run.name, **cell} for cell in result["cells"]]
        counts = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in result["counts"].items())
        notes += [f"{run.name}: {found}, task {run.task}; {counts}", *(f"{run.name}: {note}" for note in run.notes)]
        if tests not in (run.tests, _tests_left(experiment, run)):
            notes.append(
                f"{run.name}: the authors have {run.tests:,} tests, the set that is built here {tests:,}: other data."
            )
    if not cells:
        raise NNDError("; ".join(failed))
    if limit is not None:
        notes.append(f"--limit {limit}: the published rates are over all prompts, the measured ones are not.")
    return _report(experiment, pd.DataFrame(cells), notes, failed)


# ---------------------------------------------------------------- one run


def _run(
    run: PublishedRun, weights: str, scratch: Path, limit: int | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Evaluate one model as the authors did; return its samples, and what is stored of the result.

    A tokenizer that gets special tokens is saved in ``scratch``.
    """
    from transformers import AutoConfig, AutoTokenizer

    from nnd_tasks.runner.run import evaluate

    protocol = read_yaml(PATH)["protocol"]
    metadata = {**protocol["metadata"], **run.metadata}
    arguments = {"pretrained": weights, **protocol["model_args"]}
    # A start token and special tokens are for the run's own architecture; a model of another keeps its own.
    kind = AutoConfig.from_pretrained(weights)
    if run.start_at_bos and kind.model_type == "bart":
        arguments["decoder_start_token_id"] = kind.bos_token_id
    if run.special_tokens and (tokenizer := AutoTokenizer.from_pretrained(weights)).eos_token is None:
        tokenizer.add_special_tokens(dict(run.special_tokens))
        tokenizer.save_pretrained(scratch)
        arguments["tokenizer"] = str(scratch)
    model: dict[str, Any] = {"model_args": arguments, **settings}
    if kind.model_type == "fsmt":
        model = {"model": _explicit_decoder(**arguments, **settings)}
    results = evaluate(run.task, metadata=metadata, limit=limit, bootstrap_iters=0, **model)
    metrics = results["results"][run.task]
    counts = ("tests", "clusters", "ties", "unscored", "truncated_contexts")
    return {
        "samples": results["samples"][run.task],
        "model_args": arguments,
        "metadata": metadata,
        "counts": {name: metrics[f"{name},none"] for name in counts},
        "signature": results["configs"][run.task]["metadata"]["nnd"]["signature"]["line"],
    }


def _explicit_decoder(**arguments: Any) -> Any:
    """Return an lm-eval model that makes the decoder's input itself, for FSMT.

    Given labels alone, FSMT lets its decoder read the shifted source (`_prepare_fsmt_decoder_inputs`, transformers 5).
    """
    import torch
    from lm_eval.models.huggingface import HFLM

    class ExplicitDecoderLM(HFLM):  # type: ignore[misc]
        def _model_call(self, inps: Any, attn_mask: Any = None, labels: Any = None) -> Any:
            start = torch.full_like(labels[:, :1], self.model.config.decoder_start_token_id)
            shifted = torch.cat([start, labels[:, :-1]], dim=1)
            with torch.no_grad():
                # With a cache FSMT would read the last token only.
                output = self.model(inps, attention_mask=attn_mask, decoder_input_ids=shifted, use_cache=False)
            return output.logits

    return ExplicitDecoderLM(**arguments)


# ---------------------------------------------------------------- published beside measured


def measure(
    samples: Sequence[Mapping[str, Any]], experiment: Experiment, run: PublishedRun, tests: int
) -> list[dict[str, Any]]:
    """Return the published rates beside those of lm-eval's samples, pooled over tests.

    Where our set leaves out published tests of some labels, there is a second row, for the tests without these labels. Its
    published rate follows from the printed rates and numbers of tests. Our rate stands in the row of the tests that are
    built here.

    Args:
        samples: of lm-eval.
        experiment: has the run.
        run: the published run.
        tests: number of tests of the set as it is built here.

    Returns:
        label, published, measured and its stderr, clustered by prompt (None where they are undefined), and the numbers of
        tests and of clusters (prompts) that the measured rate is over.
    """

    def cell(label: str, rate: float, chosen: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
        per_prompt = [
            [test["passed"] for test in sample["tests"] if test["passed"] is not None and chosen(test)]
            for sample in samples
        ]
        passed, scored = pool([(sum(one), len(one)) for one in per_prompt if one])
        numbers = {"measured": pooled_rate(passed, scored), "stderr": clustered_standard_error(passed, scored)}
        defined = {name: None if math.isnan(number) else number for name, number in numbers.items()}
        return {"label": label, "published": rate, **defined, "tests": sum(scored), "clusters": len(scored)}

    overall, others = run.rates[ALL], _tests_left(experiment, run)
    part = bool(experiment.left_out) and tests == others
    cells = [cell(ALL, overall, lambda test: not part)]
    if experiment.left_out:
        passed = overall * run.tests
        passed -= sum(run.rates[label] * experiment.counts[label] for label in experiment.left_out)
        # The printed rates have six digits, which give whole numbers of passes.
        name = f"{ALL} but {', '.join(experiment.left_out)}"
        cells.append(cell(name, round(passed) / others, lambda test: part))

    def has(label: str) -> Callable[[Mapping[str, Any]], bool]:
        return lambda test: label in map(test.get, experiment.columns)

    return cells + [cell(label, rate, has(label)) for label, rate in run.rates.items() if label != ALL]


def _tests_left(experiment: Experiment, run: PublishedRun) -> int:
    """Return the number of published tests without the labels that our set leaves out."""
    return run.tests - sum(experiment.counts[label] for label in experiment.left_out)


def _report(experiment: Experiment, cells: pd.DataFrame, notes: Sequence[str], failed: Sequence[str]) -> Report:
    few = [is_few(*one) for one in zip(cells["clusters"], cells["stderr"], strict=True)]
    cells = cells.assign(difference=cells["measured"].astype(float) - cells["published"], few=few)
    columns = {
        "model": "{model}",
        "tests": "{label}",
        "published": "{published:.4f}",
        "measured": "{measured:.4f}",
        "difference": "{difference:+.4f}",
        "stderr": "{stderr:.4f}",
        "number": "{tests:,}",
        "prompts": "{clusters:,}{few:†}",
    }
    reading = (
        "stderr is that of the measured rate, clustered by prompt. It does not say how near a reproduction must be: over all "
        "prompts of the same data, the same weights should come much nearer."
    )
    return Report(
        experiment.name,
        experiment.title,
        [DISCLAIMER, *failed],
        [Table("rates", cells, columns)],
        [reading, *experiment.notes, *notes],
        FEW_PROMPTS,
        Table("overall", cells[cells["label"] == ALL], columns),
        facts={"failed": failed},
    )
