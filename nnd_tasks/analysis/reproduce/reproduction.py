"""The authors' published runs again, on the models that the user has: published beside measured rates."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nnd_tasks import __version__
from nnd_tasks.analysis.reproduce.experiments import (
    Experiment,
    PublishedRun,
    find_weights,
    load_experiments,
    parse_folders,
    pick,
    protocol,
)
from nnd_tasks.analysis.reproduce.reproduce_report import Data, RateCell, head, measure, model_section
from nnd_tasks.datasets import find_set, read_table
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand, write_text
from nnd_tasks.formats import json_text
from nnd_tasks.tables import fingerprint
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import read_json

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """How to run the models.

    Attributes:
        limit: number of prompts; None takes all.
        device: as for lm_eval.
        batch_size: as for lm_eval.
    """

    limit: int | None = None
    device: str | None = None
    batch_size: int | str = 8


# ---------------------------------------------------------------- one run


def _model_arguments(published: PublishedRun, weights: str, scratch: Path) -> tuple[dict[str, Any], str]:
    """Return the model's arguments and its type.

    Args:
        published: its start token and special tokens are for its own architecture; a model of another keeps its own.
        weights: folder, or name on the hub.
        scratch: folder for a tokenizer that gets special tokens.
    """
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(weights)
    arguments = {"pretrained": weights, **protocol()[1]}
    if published.start_at_bos and config.model_type == "bart":
        arguments["decoder_start_token_id"] = config.bos_token_id
    if published.special_tokens:
        tokenizer = AutoTokenizer.from_pretrained(weights)
        if tokenizer.eos_token is None:
            tokenizer.add_special_tokens(dict(published.special_tokens))
            tokenizer.save_pretrained(scratch)
            arguments["tokenizer"] = str(scratch)
    return arguments, str(config.model_type)


def _explicit_decoder(arguments: Mapping[str, Any], options: Options) -> Any:
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

    device = {"device": options.device} if options.device else {}
    return ExplicitDecoderLM(**arguments, batch_size=options.batch_size, **device)


def _run(job: _Job, experiment: Experiment, options: Options) -> dict[str, Any]:
    """Evaluate one model as the authors did; return what is stored of the result."""
    from nnd_tasks.runner.run import evaluate

    published = job.published
    arguments, kind = _model_arguments(published, job.weights, job.path.with_suffix(".tokenizer"))
    metadata = {**protocol()[0], **published.metadata}
    run = partial(evaluate, published.task, metadata=metadata, limit=options.limit, bootstrap_iters=0)
    if kind == "fsmt":
        results = run(model=_explicit_decoder(arguments, options))
    else:
        results = run(model_args=arguments, device=options.device, batch_size=options.batch_size)
    metrics = results["results"][published.task]
    return {
        "cells": [
            asdict(cell) for cell in measure(results["samples"][published.task], experiment, published, job.data)
        ],
        "model_args": arguments,
        "metadata": metadata,
        **{name: metrics[f"{name},none"] for name in ("tests", "clusters", "ties", "unscored", "truncated_contexts")},
        "signature": results["configs"][published.task]["metadata"]["nnd"]["signature"]["line"],
    }


# ---------------------------------------------------------------- results that are kept


def _key(published: PublishedRun, weights: str, data: Data, options: Options) -> dict[str, Any]:
    """Return what a stored result must have been made with to stand for this run."""
    from nnd_tasks.harness.signature import weights_digest

    asked = {"task": published.task, "rates": dict(published.rates), "metadata": dict(published.metadata)}
    return {**asked, "weights": weights_digest(weights) or weights, "data": data.fingerprint, "limit": options.limit}


def _stored(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result of an earlier run; None where there is none.

    Raises:
        NNDError: it cannot be read, or was made with another key.
    """
    if not path.exists():
        return None
    try:
        stored = read_json(path)
        earlier, cells = stored["key"], [RateCell(**cell) for cell in stored["cells"]]
    except (NNDError, KeyError, TypeError) as error:
        raise NNDError(f"{path}: no result that can be read; delete it, or choose another --out") from error
    other = [name for name in key if earlier.get(name) != key[name]]
    if other or not cells:
        raise NNDError(f"{path}: made with another {' and '.join(other)}; delete it, or choose another --out")
    return dict(stored)


# ---------------------------------------------------------------- the whole


@dataclass(frozen=True)
class _Job:
    """One model to run, or whose result is kept from an earlier run.

    Attributes:
        published: the authors' run.
        weights: folder, or name on the hub.
        where: where the weights are, for people.
        data: the config of the set.
        key: what the result depends on.
        path: file of the result.
        kept: the result of an earlier run, or None.
    """

    published: PublishedRun
    weights: str
    where: str
    data: Data
    key: Mapping[str, Any]
    path: Path
    kept: Mapping[str, Any] | None

    def result(self, experiment: Experiment, options: Options) -> Mapping[str, Any]:
        """Return the kept result; if there is none, run the model first."""
        if self.kept is not None:
            return {**self.kept, "weights": f"{self.kept['weights']}, kept from an earlier run"}
        origin = {"nnd_tasks": __version__, "weights": self.where, "key": self.key}
        result = {**origin, **_run(self, experiment, options)}
        gc.collect()  # lm-eval's objects refer to each other; the next model needs the memory
        write_text(self.path, json_text(result) + "\n")
        return result


def _select(experiment: Experiment, only: str | None, given: Mapping[str, Path]) -> list[PublishedRun]:
    """Return the runs that ``only`` names, or all.

    Raises:
        NNDError: ``only`` names none, an unknown model, or leaves out a model in ``given``.
    """
    names = [published.name for published in experiment.models]
    if only is not None:
        asked = [name.strip() for name in only.split(",") if name.strip()]
        if not asked:
            raise NNDError(f"--only {only!r}: names no model of {experiment.name}; known: {', '.join(names)}")
        names = [pick(name, names, f"model of {experiment.name}") for name in asked]
        for name in given:
            if name not in names:
                raise NNDError(f"--model {name}: --only leaves this model out")
    return [published for published in experiment.models if published.name in names]


def _read_data(experiment: Experiment, runs: Iterable[PublishedRun]) -> dict[str, Data]:
    """Return config -> what is built of it, for the configs of some runs.

    Raises:
        NNDError: the set is not built, or cannot be read.
    """
    folder = find_set(experiment.set)
    data = {}
    for config in {published.config for published in runs}:
        rows = read_table(folder, config)
        columns = [name for name in experiment.columns if name in rows.column_names]
        labels = Counter(label for name in columns for label in rows.column(name).to_pylist())
        data[config] = Data(fingerprint(rows), rows.num_rows, labels)
    return data


def _plan(
    experiment: Experiment,
    only: str | None,
    models: Path | None,
    folders: Sequence[str],
    options: Options,
    out: Path,
) -> tuple[list[_Job], list[str]]:
    """Return the models that can be run, and a line for people about each that was asked for."""
    given = parse_folders(folders, experiment)
    chosen = _select(experiment, only, given)
    if models is not None and not (models := expand(models)).is_dir():
        raise NNDError(f"--models {models}: no such folder")
    data = _read_data(experiment, chosen)
    jobs, lines = [], []
    for published in chosen:
        weights, where = find_weights(published, given, models)
        lines.append(f"- {published.name}: {where}")
        if weights is not None:
            key = _key(published, weights, data[published.config], options)
            path = out / experiment.name / f"{published.stem}.json"
            jobs.append(_Job(published, weights, where, data[published.config], key, path, _stored(path, key)))
    return jobs, lines


def reproduce(
    name: str,
    *,
    out: Path,
    only: str | None = None,
    models: Path | None = None,
    folders: Sequence[str] = (),
    options: Options | None = None,
    say: Say = print,
) -> Path:
    """Run the models of an experiment that the user has, and show published beside measured rates.

    Args:
        name: of the experiment.
        out: folder for ``NAME/MODEL.json``, written after each model, and ``NAME.md``. A model whose result is there already
            is not run again.
        only: names of models, separated by commas; None takes all.
        models: folder whose subfolders are named like the models.
        folders: ``NAME=FOLDER`` texts, which take precedence over ``models``.
        options: limit, device and batch size.
        say: is called with each part of the report as soon as it is known.

    Returns:
        The Markdown file.

    Raises:
        NNDError: there is no such experiment, model or folder, the set is not built, no model can be run, or a model failed
            (the others are run nevertheless).
    """
    options, out = options or Options(), expand(out)
    if options.limit is not None and options.limit < 1:
        raise NNDError(f"--limit {options.limit}: expected a number of prompts, 1 or more")
    experiments = load_experiments()
    experiment = experiments[pick(name, experiments, "experiment")]
    jobs, lines = _plan(experiment, only, models, folders, options, out)
    parts = [head(experiment), "\n".join(lines)]
    say("\n\n".join(parts))
    if not jobs:
        raise NNDError("none of these models can be run here; name folders with --models DIR or --model NAME=FOLDER")
    failed: list[str] = []
    report = out / f"{experiment.name}.md"
    write_text(report, "\n\n".join(parts) + "\n")  # before any model runs, in case it fails
    for job in jobs:
        try:
            parts.append(model_section(experiment, job.published, job.data, job.result(experiment, options)))
        except Exception as error:  # lm-eval, torch and transformers raise many kinds; the other models can still run
            cause = typed_reason_of(error)
            failed.append(f"{job.published.name} ({cause})")
            parts.append(f"## {job.published.name}\n\nFailed: {cause}")
        say("\n" + parts[-1])
        write_text(report, "\n\n".join(parts) + "\n")
    if failed:
        raise NNDError(f"{len(failed)} of {counted(len(jobs), 'model')} failed: {'; '.join(failed)}")
    return report
