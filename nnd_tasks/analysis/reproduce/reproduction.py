"""The authors' published runs again: their recipes on the models that the user has, published beside measured rates."""

from __future__ import annotations

import gc
import json
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
    load_recipes,
    parse_folders,
    pick,
    protocol,
)
from nnd_tasks.analysis.reproduce.reproduce_report import Data, RateCell, head, measure, table
from nnd_tasks.datasets import find_set, read_table
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand, read_json, write_text
from nnd_tasks.tables import fingerprint

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """How to run: see `reproduce`."""

    limit: int | None = None
    device: str | None = None
    batch_size: int | str = 8


# ---------------------------------------------------------------- one run


def _model_arguments(recipe: PublishedRun, weights: str, scratch: Path) -> tuple[dict[str, Any], str]:
    """Return the model's arguments and its type.

    The start token and the special tokens of a recipe are for its own architecture; a stand-in of another keeps its own.
    """
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(weights)
    arguments = {"pretrained": weights, **protocol()[1]}
    if recipe.start_at_bos and config.model_type == "bart":
        arguments["decoder_start_token_id"] = config.bos_token_id
    if recipe.special_tokens:
        tokenizer = AutoTokenizer.from_pretrained(weights)
        if tokenizer.eos_token is None:
            tokenizer.add_special_tokens(dict(recipe.special_tokens))
            tokenizer.save_pretrained(scratch)
            arguments["tokenizer"] = str(scratch)
    return arguments, str(config.model_type)


def _explicit_decoder(arguments: Mapping[str, Any], options: Options) -> Any:
    """Return an lm-eval model that passes the decoder's input itself.

    FSMT, given labels alone, lets its decoder read the shifted source (`_prepare_fsmt_decoder_inputs`, transformers 5).
    """
    import torch
    from lm_eval.models.huggingface import HFLM

    class ExplicitDecoderLM(HFLM):  # type: ignore[misc]
        def _model_call(self, inps: Any, attn_mask: Any = None, labels: Any = None) -> Any:
            start = torch.full_like(labels[:, :1], self.model.config.decoder_start_token_id)
            shifted = torch.cat([start, labels[:, :-1]], dim=1)
            with torch.no_grad():
                # With a cache FSMT would read the last token only.
                found = self.model(inps, attention_mask=attn_mask, decoder_input_ids=shifted, use_cache=False)
            return found.logits

    device = {"device": options.device} if options.device else {}
    return ExplicitDecoderLM(**arguments, batch_size=options.batch_size, **device)


def _run(job: _Job, experiment: Experiment, options: Options) -> dict[str, Any]:
    """Evaluate one model as its recipe says; return what is stored of it."""
    from nnd_tasks.runner.run import evaluate

    recipe = job.recipe
    arguments, kind = _model_arguments(recipe, job.weights, job.path.with_suffix(".tokenizer"))
    metadata = {**protocol()[0], **recipe.metadata}
    run = partial(evaluate, recipe.task, metadata=metadata, limit=options.limit, bootstrap_iters=0)
    if kind == "fsmt":
        results = run(model=_explicit_decoder(arguments, options))
    else:
        results = run(model_args=arguments, device=options.device, batch_size=options.batch_size)
    found = results["results"][recipe.task]
    return {
        "cells": [asdict(cell) for cell in measure(results["samples"][recipe.task], experiment, recipe, job.data)],
        "model_args": arguments,
        "metadata": metadata,
        **{name: found[f"{name},none"] for name in ("tests", "clusters", "ties", "unscored", "truncated_contexts")},
        "signature": results["configs"][recipe.task]["metadata"]["nnd"]["signature"]["line"],
    }


# ---------------------------------------------------------------- results that are kept


def _key(recipe: PublishedRun, weights: str, data: Data, options: Options) -> dict[str, Any]:
    """Return what a stored result must have been made with to be taken for this run's."""
    from nnd_tasks.harness.signature import weights_digest

    asked = {"task": recipe.task, "rates": dict(recipe.rates), "metadata": dict(recipe.metadata)}
    return {**asked, "weights": weights_digest(weights) or weights, "data": data.fingerprint, "limit": options.limit}


def _stored(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a result of an earlier run; None where there is none.

    Raises:
        NNDError: it cannot be read, or was made otherwise.
    """
    if not path.exists():
        return None
    try:
        found = read_json(path)
        earlier, cells = found["key"], [RateCell(**cell) for cell in found["cells"]]
    except (NNDError, KeyError, TypeError) as error:
        raise NNDError(f"{path}: no result that can be read; delete it, or choose another --out") from error
    other = [name for name in key if earlier.get(name) != key[name]]
    if other or not cells:
        raise NNDError(f"{path}: made with another {' and '.join(other)}; delete it, or choose another --out")
    return dict(found)


# ---------------------------------------------------------------- the whole


@dataclass(frozen=True)
class _Job:
    """One model to run, or to take from an earlier run."""

    recipe: PublishedRun
    weights: str
    where: str
    data: Data
    key: Mapping[str, Any]
    path: Path
    kept: Mapping[str, Any] | None

    def result(self, experiment: Experiment, options: Options) -> Mapping[str, Any]:
        """Return what is stored of it, after running it if need be."""
        if self.kept is not None:
            return {**self.kept, "weights": f"{self.kept['weights']}, kept from an earlier run"}
        about = {"nnd_tasks": __version__, "weights": self.where, "key": self.key}
        result = {**about, **_run(self, experiment, options)}
        gc.collect()  # lm-eval's objects refer to each other; the next model needs the memory
        write_text(self.path, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        return result


def _select(experiment: Experiment, only: str | None, given: Mapping[str, Path]) -> list[PublishedRun]:
    names = [recipe.name for recipe in experiment.models]
    if only is not None:
        asked = [name.strip() for name in only.split(",") if name.strip()]
        if not asked:
            raise NNDError(f"--only {only!r}: names no model of {experiment.name}; known: {', '.join(names)}")
        names = [pick(name, names, f"model of {experiment.name}") for name in asked]
        for name in given:
            if name not in names:
                raise NNDError(f"--model {name}: --only leaves this model out")
    return [recipe for recipe in experiment.models if recipe.name in names]


def _read_data(experiment: Experiment, recipes: Iterable[PublishedRun]) -> dict[str, Data]:
    """Return config -> what is built of it."""
    folder = find_set(experiment.set)
    found = {}
    for config in {recipe.config for recipe in recipes}:
        rows = read_table(folder, config)
        columns = [name for name in experiment.columns if name in rows.column_names]
        labels = Counter(label for name in columns for label in rows.column(name).to_pylist())
        found[config] = Data(fingerprint(rows), rows.num_rows, labels)
    return found


def _plan(
    experiment: Experiment,
    only: str | None,
    models: Path | None,
    folders: Sequence[str],
    options: Options,
    out: Path,
) -> tuple[list[_Job], list[str]]:
    """Return the models that can be run, and a line about each that was asked for."""
    given = parse_folders(folders, experiment)
    chosen = _select(experiment, only, given)
    if models is not None and not (models := expand(models)).is_dir():
        raise NNDError(f"--models {models}: no such folder")
    data = _read_data(experiment, chosen)
    jobs, lines = [], []
    for recipe in chosen:
        weights, where = find_weights(recipe, given, models)
        lines.append(f"- {recipe.name}: {where}")
        if weights is not None:
            key = _key(recipe, weights, data[recipe.config], options)
            path = out / experiment.name / f"{recipe.stem}.json"
            jobs.append(_Job(recipe, weights, where, data[recipe.config], key, path, _stored(path, key)))
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
    """Run the published models of an experiment that are at hand, and show published beside measured rates.

    Args:
        name: of the experiment.
        out: folder for ``NAME/MODEL.json``, one per model as it comes, and ``NAME.md``. A model whose result is there is
            not run again.
        only: names of models, separated by commas.
        models: folder whose subfolders are named like the models.
        folders: ``NAME=FOLDER`` texts; they come before ``models``.
        options: limit (contexts), device and batch size.
        say: takes what people read, as it comes.

    Returns:
        The Markdown file.

    Raises:
        NNDError: no such experiment, model or folder; the set is not built; nothing can be run; or a model failed, after the
            others were run.
    """
    options, out = options or Options(), expand(out)
    if options.limit is not None and options.limit < 1:
        raise NNDError(f"--limit {options.limit}: expected a number of contexts, 1 or more")
    recipes = load_recipes()
    experiment = recipes[pick(name, recipes, "experiment")]
    jobs, lines = _plan(experiment, only, models, folders, options, out)
    parts = [head(experiment), "\n".join(lines)]
    say("\n\n".join(parts))
    if not jobs:
        raise NNDError("none of these models can be run here; name folders with --models DIR or --model NAME=FOLDER")
    failed: list[str] = []
    report = out / f"{experiment.name}.md"
    write_text(report, "\n\n".join(parts) + "\n")  # a place that cannot be written shows before the models run
    for job in jobs:
        try:
            parts.append(table(experiment, job.recipe, job.data, job.result(experiment, options)))
        except Exception as error:  # lm-eval, torch and transformers raise many kinds; the other models can still run
            cause = typed_reason_of(error)
            failed.append(f"{job.recipe.name} ({cause})")
            parts.append(f"## {job.recipe.name}\n\nFailed: {cause}")
        say("\n" + parts[-1])
        write_text(report, "\n\n".join(parts) + "\n")
    if failed:
        raise NNDError(f"{len(failed)} of {len(jobs)} models failed: {'; '.join(failed)}")
    return report
