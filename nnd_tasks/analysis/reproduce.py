"""The authors' published runs again, on the models that the user has: published beside measured rates."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.analysis.experiments import (
    PATH,
    Experiment,
    PublishedRun,
    find_weights,
    load_experiments,
    pick,
)
from nnd_tasks.analysis.marks import FEW_PROMPTS, is_few
from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.baselines import ALL
from nnd_tasks.datasets import find_set, read_table
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand
from nnd_tasks.show.report import Report, Table, file_stem
from nnd_tasks.statistics import clustered_mean
from nnd_tasks.tables import fingerprint
from nnd_tasks.yaml_json import read_yaml

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
    return Report("experiments", "Published experiments", [DISCLAIMER], [table], notes)


def reproduce(
    name: str,
    weights: Sequence[str] = (),
    *,
    out: Path,
    limit: int | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run the models of an experiment that the user has, and show published beside measured rates.

    Args:
        name: of the experiment.
        weights: models to run, ``NAME`` or ``NAME=FOLDER``; none takes all that were released.
        out: folder for ``NAME/MODEL-KEY``, lm-eval's results of each model. A model whose results are there, made with the
            same weights, data and limit, is not run again.
        limit: number of prompts; None takes all.
        say: is called with a line before each model.

    Returns:
        The report; its fact ``failed`` has a line for each model that failed (the others are run nevertheless).

    Raises:
        NNDError: there is no such experiment, model or folder, the set is not built, or all models failed.
    """
    experiment = pick(name, load_experiments(), "experiment")
    known = {run.name: run for run in experiment.models}
    asked = weights or [run.name for run in experiment.models if run.released]
    pairs = [text.partition("=")[::2] for text in asked]
    jobs = [(run := pick(one, known, f"model of {name}"), find_weights(run, folder)) for one, folder in pairs]
    built = find_set(experiment.set)
    cells, notes, failed = [], [], []
    for run, found in jobs:
        table = read_table(built, run.config)
        say(f"{run.name}: {found}")
        try:
            result = _run(run, found, fingerprint(table), expand(out) / name, limit)
        except Exception as error:  # torch and transformers raise many kinds; the other models can still run
            failed.append(f"{run.name}: failed ({typed_reason_of(error)})")
            continue
        cells.append(measure(result.tests, experiment, run, table.num_rows).assign(model=run.name))
        notes += [f"{run.name}: {found}: {result.line}", *(f"{run.name}: {note}" for note in run.notes)]
        if table.num_rows not in (run.tests, _tests_left(experiment, run)):
            notes.append(
                f"{run.name}: the authors have {run.tests:,} tests, the set that is built here {table.num_rows:,}: other data."
            )
    if not cells:
        raise NNDError("; ".join(failed))
    if limit is not None:
        notes.append(f"--limit {limit}: the published rates are over all prompts, the measured ones are not.")
    rates = pd.concat(cells, ignore_index=True)
    rates["difference"] = rates["measured"] - rates["published"]
    rates["few"] = rates["clusters"].map(is_few) | (rates["stderr"] == 0)
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
        name,
        experiment.title,
        [DISCLAIMER, *failed],
        [Table("rates", rates, columns)],
        [reading, *experiment.notes, *notes],
        FEW_PROMPTS,
        facts={"failed": failed},
    )


# ---------------------------------------------------------------- one run


def _run(run: PublishedRun, weights: str, data: str, place: Path, limit: int | None) -> Run:
    """Return the run of one model, evaluated as the authors did, or of an earlier time with the same model and data."""
    from transformers import AutoConfig, AutoTokenizer

    from nnd_tasks.harness.signature import digest, weights_digest
    from nnd_tasks.runner.run import run_lm_eval

    protocol = read_yaml(PATH)["protocol"]
    asked = [run.task, run.metadata, limit, weights_digest(weights) or weights, data]
    folder = place / f"{file_stem(run.name)}-{digest(asked)}"
    if not any(folder.rglob("results_*.json")):
        arguments = {"pretrained": weights, **protocol["model_args"]}
        # A start token and special tokens are for the run's own architecture; a model of another keeps its own.
        kind = AutoConfig.from_pretrained(weights)
        if run.start_at_bos and kind.model_type == "bart":
            arguments["decoder_start_token_id"] = kind.bos_token_id
        if run.special_tokens and (tokenizer := AutoTokenizer.from_pretrained(weights)).eos_token is None:
            tokenizer.add_special_tokens(dict(run.special_tokens))
            arguments["tokenizer"] = str(folder / "tokenizer")
            tokenizer.save_pretrained(arguments["tokenizer"])
        options = {
            "model": _explicit_decoder() if kind.model_type == "fsmt" else "hf",
            "model_args": json.dumps(arguments),
            "tasks": run.task,
            "metadata": json.dumps({**protocol["metadata"], **run.metadata}),
            "output_path": folder,
            **({"limit": limit} if limit else {}),
        }
        with redirect_stdout(sys.stderr):
            run_lm_eval(["--log_samples", *(str(word) for name in options for word in (f"--{name}", options[name]))])
        gc.collect()  # lm-eval's objects refer to each other; the next model needs the memory
    [result] = read_results(folder)
    return result


@cache
def _explicit_decoder() -> str:
    """Return the name of an lm-eval model that makes the decoder's input itself, for FSMT.

    Given labels alone, FSMT lets its decoder read the shifted source (`_prepare_fsmt_decoder_inputs`, transformers 5).
    """
    import torch
    from lm_eval.api.registry import register_model
    from lm_eval.models.huggingface import HFLM

    @register_model(name := "hf-explicit-decoder")
    class ExplicitDecoderLM(HFLM):  # type: ignore[misc]
        def _model_call(self, inps: Any, attn_mask: Any = None, labels: Any = None) -> Any:
            start = torch.full_like(labels[:, :1], self.model.config.decoder_start_token_id)
            shifted = torch.cat([start, labels[:, :-1]], dim=1)
            with torch.no_grad():
                # With a cache FSMT would read the last token only.
                output = self.model(inps, attention_mask=attn_mask, decoder_input_ids=shifted, use_cache=False)
            return output.logits

    return name


# ---------------------------------------------------------------- published beside measured


def measure(tests: pd.DataFrame, experiment: Experiment, run: PublishedRun, built: int) -> pd.DataFrame:
    """Return the published rates beside those of a model, pooled over tests.

    Where our set leaves out published tests of some labels, there is a second row, for the tests without these labels. Its
    published rate follows from the printed rates and numbers of tests. Our rate stands in the row of the tests that are
    built here.

    Args:
        tests: of a `Run`.
        experiment: has the run.
        run: the published run.
        built: number of tests of the set as it is built here.

    Returns:
        A row per label: label, published, measured and its stderr, clustered by prompt (nan where they are undefined), and the
        numbers of tests and of clusters (prompts) that the measured rate is over.
    """
    published = {ALL: run.rates[ALL]}
    whole = ALL
    if experiment.left_out:
        rest, others = f"{ALL} but {', '.join(experiment.left_out)}", _tests_left(experiment, run)
        lost = sum(run.rates[label] * experiment.counts[label] for label in experiment.left_out)
        # The printed rates have six digits, which give whole numbers of passes.
        published[rest] = round(run.rates[ALL] * run.tests - lost) / others
        whole = rest if built == others else ALL
    scored = tests[tests["passed"].notna()]
    rows = []
    for label, rate in {**published, **run.rates}.items():
        own = scored if label == whole else scored[(scored[[*experiment.columns]] == label).any(axis=1)]
        prompts = own.groupby("cluster_id")["passed"]
        mean = clustered_mean(prompts.sum(), prompts.size())
        numbers = {"measured": mean.mean, "stderr": mean.standard_error, "tests": len(own), "clusters": mean.clusters}
        rows.append({"label": label, "published": rate, **numbers})
    return pd.DataFrame(rows)


def _tests_left(experiment: Experiment, run: PublishedRun) -> int:
    """Return the number of published tests without the labels that our set leaves out."""
    return run.tests - sum(experiment.counts[label] for label in experiment.left_out)
