"""The authors' published runs again, on the models that the user has: published beside measured rates."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand, read_yaml
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Run
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.show.report import Report, file_stem, make_table
from nnd_tasks.statistics import FEW, FEW_PROMPTS, clustered_mean
from nnd_tasks.store import read_table
from nnd_tasks.text import did_you_mean

DISCLAIMER = (
    "These experiments have not been run on the authors' weights: their numbers are checked against the published ones, and "
    "only small stand-in models were run with them."
)


def list_experiments() -> Report:
    """Return every experiment with its models."""
    rows = [
        {"experiment": experiment.name, "set": experiment.set, "name": run.name, "published": run.rates[ALL]}
        | {"task": run.task, "model": run.model, "released": run.released}
        for experiment in load_experiments().values()
        for run in experiment.models
    ]
    notes = ["What was not released, the authors fine-tuned from the model that is named."]
    return Report(
        "experiments", "Published experiments", [DISCLAIMER], [make_table("published", pd.DataFrame(rows))], notes
    )


def reproduce(
    name: str,
    weights: Sequence[str] = (),
    *,
    out: Path,
    limit: int | None = None,
) -> Report:
    """Run the models of an experiment that the user has, and show published beside measured rates.

    Args:
        name: of the experiment.
        weights: models to run, ``NAME`` or ``NAME=FOLDER``; none takes all that were released.
        out: folder for ``NAME/MODEL-KEY``, lm-eval's results of each model. A model whose results are there, made with the
            same weights, data and limit, is not run again.
        limit: number of prompts; None takes all.

    Returns:
        The report; its fact ``failed`` has a line for each model that failed (the others are run nevertheless).

    Raises:
        NNDError: there is no such experiment, model or folder, the set cannot be built, or all models failed.
    """
    experiment = pick(name, load_experiments(), "experiment")
    runs_by_name = {run.name: run for run in experiment.models}
    asked = weights or [run.name for run in experiment.models if run.released]
    jobs = []
    for text in asked:
        model_name, _, folder = text.partition("=")
        run = pick(model_name, runs_by_name, f"model of {name}")
        jobs.append((run, find_weights(run, folder)))
    built = provide_set(experiment.set)
    cells, notes, failed = [], [], []
    for run, location in jobs:
        data = fingerprint(read_table(built, run.config))
        try:
            result = _run(run, location, data, expand(out) / name, limit)
        except Exception as error:  # torch and transformers raise many kinds; the other models can still run
            failed.append(f"{run.name}: failed ({typed_reason_of(error)})")
            continue
        measured = measure(result.tests, experiment, run)
        cells.append(measured.assign(model=run.name))
        notes += [f"{run.name}: {location}: {result.line}", *(f"{run.name}: {note}" for note in run.notes)]
        if limit is None and (here := measured["tests"][0]) != run.tests:
            notes.append(f"{run.name}: the authors have {run.tests:,} tests, here {here:,} were scored: other data.")
    if not cells:
        raise NNDError("; ".join(failed))
    if limit is not None:
        notes.append(f"--limit {limit}: the published rates are over all prompts, the measured ones are not.")
    rates = pd.concat(cells, ignore_index=True)
    rates["difference"] = rates["measured"] - rates["published"]
    rates["few"] = (rates["clusters"] < FEW) | (rates["stderr"] == 0)
    reading = (
        "stderr is that of the measured rate, clustered by prompt. It does not say how near a reproduction must be: over all "
        "prompts of the same data, the same weights should come much nearer."
    )
    return Report(
        name,
        experiment.title,
        [DISCLAIMER, *failed],
        [make_table("reproduced", rates)],
        [reading, *experiment.notes, *notes],
        FEW_PROMPTS,
        facts={"failed": failed},
    )


# ---------------------------------------------------------------- one run


def _run(run: PublishedRun, weights: str, data: str, folder_of_runs: Path, limit: int | None) -> Run:
    """Return the run of one model, evaluated as the authors did, or of an earlier time with the same model and data."""
    from transformers import AutoConfig, AutoTokenizer

    from nnd_tasks.run.run import run_and_save
    from nnd_tasks.task.signature import digest, weights_digest

    asked = [run.task, run.metadata, limit, weights_digest(weights) or weights, data]
    folder = folder_of_runs / f"{file_stem(run.name)}-{digest(asked)}"
    if not any(folder.rglob("results_*.json")):
        # What transformers loaded every checkpoint as in 2022.
        arguments = {"pretrained": weights, "dtype": "float32"}
        config = AutoConfig.from_pretrained(weights)
        if config.model_type == "bart":  # the authors start its decoder at BOS
            arguments["decoder_start_token_id"] = config.bos_token_id
        if config.model_type == "prophetnet":  # its tokenizer names no EOS token; the authors start and end at [SEP]
            arguments["tokenizer"] = str(folder / "tokenizer")
            ends = dict.fromkeys(("bos_token", "eos_token"), "[SEP]")
            tokenizer = AutoTokenizer.from_pretrained(weights, **ends)
            tokenizer.save_pretrained(arguments["tokenizer"])
        metadata = {"append_eos": True, "ties": "authors", **run.metadata}
        # No batch size: ProphetNet's scores change with what else is in a batch.
        with redirect_stdout(sys.stderr):
            run_and_save(run.task, "hf", arguments, metadata=metadata, limit=limit or None, output_path=folder)
        gc.collect()  # lm-eval's objects refer to each other; the next model needs the memory
    [result] = read_results(folder)
    return result


# ---------------------------------------------------------------- published beside measured


def measure(tests: pd.DataFrame, experiment: Experiment, run: PublishedRun) -> pd.DataFrame:
    """Return the published rates beside those of a model, pooled over tests.

    Args:
        tests: of a `Run`.
        experiment: has the run.
        run: the published run.

    Returns:
        A row per label: label, published, measured and its stderr, clustered by prompt (nan where they are undefined), and the
        numbers of tests and of clusters (prompts) that the measured rate is over.
    """
    labels = tests[[*experiment.columns]]
    counted = tests["passed"].notna() & ~labels.isin(experiment.left_out).any(axis=1)
    rows = []
    for label, rate in run.rates.items():
        label_tests = tests[counted if label == ALL else counted & (labels == label).any(axis=1)]
        prompts = label_tests.groupby("cluster_id")["passed"]
        measured, error, *_ = clustered_mean(prompts.sum(), prompts.size())
        rows.append([label, rate, measured, error, len(label_tests), len(prompts)])
    return pd.DataFrame(rows, columns=["label", "published", "measured", "stderr", "tests", "clusters"])


# ---------------------------------------------------------------- experiments.yaml, which says where its facts come from


@dataclass(frozen=True)
class PublishedRun:
    """One published run.

    Attributes:
        name: as the authors call the model, with the config after it where there are results on several configs.
        model: name on the hub; where the weights were never released, that of the model that they were fine-tuned from.
        task: our task with the authors' input for this family of models.
        config: of the set.
        tests: published number of tests.
        rates: label -> published pass rate; ``all`` is over all tests.
        released: the weights are on the hub.
        metadata: settings of the task besides those that all experiments share.
        notes: sentences for the report.
    """

    name: str
    model: str
    task: str
    config: str
    tests: int
    rates: Mapping[str, float]
    released: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """Published runs on one human evaluation.

    Attributes:
        name: as the user types it.
        title: for people.
        set: name of the set that must be built.
        columns: columns of a test that may hold the labels of `PublishedRun.rates`.
        models: the published runs.
        left_out: labels whose tests do not count.
        notes: sentences for the report, on all of its runs.
    """

    name: str
    title: str
    set: str
    columns: Sequence[str]
    models: Sequence[PublishedRun]
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()


def load_experiments() -> dict[str, Experiment]:
    """Return experiment name -> experiment, in the order of the file."""
    experiments = {}
    for name, entry in read_yaml(Path(__file__).with_name("experiments.yaml")).items():
        shared = {key: entry.pop(key) for key in ("config", "tests")}
        models = [PublishedRun(**{**shared, **model}) for model in entry.pop("models")]
        experiments[name] = Experiment(name=name, models=models, **entry)
    return experiments


def pick(name: str, options: Mapping[str, Any], description: str) -> Any:
    """The option of a name; raise NNDError, which calls it by the description, where there is none."""
    if name not in options:
        meant = did_you_mean(name, options, end=" ")
        raise NNDError(f"there is no {description} {name!r}; {meant}known: {', '.join(options)}")
    return options[name]


def find_weights(run: PublishedRun, folder: str = "") -> str:
    """Return the folder, or the name on the hub, to load a model from.

    Raises:
        NNDError: the folder holds no model, or the weights were never released.
    """
    if folder:
        if not (expand(folder) / "config.json").is_file():
            raise NNDError(f"{folder}: no model is there for {run.name} (it has no config.json)")
        return str(expand(folder))
    if not run.released:
        raise NNDError(
            f"{run.name}: never released by the authors; name a folder of yours: --weights {run.name}=FOLDER"
        )
    return run.model
