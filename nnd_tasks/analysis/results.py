"""Runs of NND tasks: read from what lm-eval wrote, checked, and as one table with a row per model and test."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.analysis import selecting
from nnd_tasks.analysis.model_names import short_names
from nnd_tasks.analysis.result_files import HOW, date_of, find_results, samples_of, tokens_of
from nnd_tasks.analysis.samples import Samples, read_samples
from nnd_tasks.errors import NNDError, noting, visible
from nnd_tasks.files import expand, read_text, writing
from nnd_tasks.yaml_json import check_json

#: Bytes that a results file may have; with hundreds of tasks one has a few million.
_MOST_BYTES = 500_000_000
_logger = logging.getLogger(__name__)
#: How far a rate may be from the one that is stored.
_CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class Run:
    """What one model gave on one task.

    Attributes:
        model: a short name, unique among the runs that were read together.
        task: name of the task.
        path: of the samples file.
        date: of the run, as in the name of its file.
        protocol: what was asked, from the signature; two runs are comparable when it is equal.
        model_info: the model's part of the signature.
        environment: versions of packages, from the signature.
        line: the signature in one line.
        version: of the task.
        command: arguments that lm-eval was given, for a report; ``sample``, and ``settings``: those of ``--metadata``.
        parameters: number of the model's parameters, where lm-eval knows it.
        truncated: number of prompts that lost their end to fit the model's window.
        documents: per prompt ``context`` and ``candidates``, and what else the prompt used.
        tests: one row per test, columns `nnd_tasks.analysis.samples.COLUMNS`; ``passed`` is missing where the test could not
            be scored.
        earlier: results files of equal runs before this one, which are not read.
        spans: digest of the set's error spans; None for a run without span metrics.
    """

    model: str
    task: str
    path: Path
    date: str
    protocol: Mapping[str, Any]
    model_info: Mapping[str, Any]
    environment: Mapping[str, Any]
    line: str
    version: Any
    command: Mapping[str, Any]
    parameters: int | None
    truncated: int
    documents: list[dict[str, Any]] = field(repr=False)
    tests: pd.DataFrame = field(repr=False)
    earlier: tuple[Path, ...] = ()
    spans: str | None = None

    @property
    def set(self) -> str:
        """Name of the set and its config."""
        return f"{self.protocol.get('set', '?')} ({self.protocol.get('config', '?')})"

    @property
    def tokens(self) -> Path:
        """Where its token scores lie; the file is there only for runs with ``tokens``."""
        return tokens_of(self.path.with_name(f"results_{self.date}.json"), self.task)


@dataclass(frozen=True)
class _TaskResults:
    """The results of one task in a results file.

    Attributes:
        file: the results file.
        task: name of the task.
        content: of the whole file.
    """

    file: Path
    task: str
    content: Mapping[str, Any]

    @property
    def samples(self) -> Path:
        """The samples file beside the results file."""
        return samples_of(self.file, self.task)

    @property
    def about(self) -> Mapping[str, Any]:
        """What the task says of the run, besides its numbers."""
        about: Mapping[str, Any] = self.content["configs"][self.task]["metadata"]["nnd"]
        return about

    @property
    def signature(self) -> Mapping[str, Any]:
        """Protocol, model, environment, and all of them in one line."""
        signature: Mapping[str, Any] = self.about["signature"]
        return signature

    @property
    def protocol(self) -> Mapping[str, Any]:
        """What was asked."""
        return _part(self.signature, "protocol")

    @property
    def version(self) -> Any:
        """Version of the task."""
        return _part(self.content, "versions").get(self.task)

    @property
    def model(self) -> tuple[str, str]:
        """Name of the model, and all that is known of it as JSON."""
        info = _part(self.signature, "model")
        names = (info.get("name"), self.content.get("model_name"), self.content.get("model_source"), "model")
        name = next(name for name in names if isinstance(name, str) and name)
        return name, json.dumps(info, sort_keys=True)


def read_runs(places: Iterable[str | Path], select: Sequence[str] = (), skipped: list[str] | None = None) -> list[Run]:
    """Read every NND run below the given places.

    Of several runs that asked one model the same, only the latest is read; it names the others (`Run.earlier`).

    Args:
        places: folders that ``--output_path`` named, ``results_*.json`` or ``samples_*.jsonl`` files. Results of tasks that
            are not NND's are passed over.
        select: ``KEY=VALUE`` texts with keys of `nnd_tasks.analysis.selecting.PARTS`: only runs of this protocol.
        skipped: takes a line for each file that cannot be used, and the rest is returned; where the latest of equal runs
            is such a file, the one before is taken. None raises an error instead.

    Returns:
        The runs, in the order of the places, then by task; each model has a short name of its own.

    Raises:
        NNDError: nothing is there or is selected, or samples are missing, cut off, damaged or of another run.
    """
    wanted = selecting.parse(select)
    chosen = find_results(places, skipped)
    results: list[_TaskResults] = []
    for file, samples in chosen.items():
        with noting(skipped):
            content = _read_json(file)
            configs = content.get("configs")
            if not isinstance(configs, Mapping):
                raise NNDError(f"{file}: holds no results of lm-eval")
            for task, config in configs.items():
                with noting(skipped):
                    if not _is_nnd(config):
                        continue
                    one = _TaskResults(file, task, content)
                    _check_types(one)
                    if not samples or one.samples in samples:
                        results.append(one)
    if not results and not skipped:
        raise NNDError(f"{', '.join(map(str, chosen))}: no results of NND tasks")
    equal = _equal(_selected(results, wanted) if results else [])
    names = short_names([several[-1].model for several in equal])
    runs = []
    for several, name in zip(equal, names, strict=True):
        while several:
            last = several.pop()
            with noting(skipped):
                runs.append(_read_run(last, name, tuple(one.file for one in several)))
                break
    for note in notes_on(runs):
        _logger.warning(visible(note))
    return runs


def _is_nnd(config: Any) -> bool:
    """Tell whether the config of a task is that of an NND task."""
    metadata = config.get("metadata") if isinstance(config, Mapping) else None
    nnd = metadata.get("nnd") if isinstance(metadata, Mapping) else None
    return isinstance(nnd, Mapping) and isinstance(nnd.get("signature"), Mapping)


def _selected(results: list[_TaskResults], wanted: Mapping[str, str]) -> list[_TaskResults]:
    """Return the results that have the wanted value of each part of the protocol.

    Raises:
        NNDError: none has.
    """
    for key, value in wanted.items():
        values = [selecting.value_of(key, one.task, one.version, one.protocol) for one in results]
        chosen = [one for one, has in zip(results, values, strict=True) if selecting.matches(key, value, has)]
        if not chosen:
            raise NNDError(f"--select {key}={value}: no run has it; they have {', '.join(sorted(set(values)))}")
        results = chosen
    return results


def _equal(results: Sequence[_TaskResults]) -> list[list[_TaskResults]]:
    """Return lists of equal results, the latest last, those with samples after those without."""
    equal: dict[tuple[str, str, str, str], list[_TaskResults]] = defaultdict(list)
    for one in results:
        version = str(one.version).partition("-")[0]
        equal[one.task, version, json.dumps(one.protocol, sort_keys=True), one.model[1]].append(one)

    def age(one: _TaskResults) -> tuple[bool, str, float]:
        return one.samples.is_file(), date_of(one.file), one.file.stat().st_mtime

    return [sorted(several, key=age) for several in equal.values()]


def notes_on(runs: Sequence[Run]) -> list[str]:
    """Return a line for each run that was taken in place of earlier ones of the same model and protocol."""
    return [
        f"{run.model} on {run.task}: {len(run.earlier) + 1} equal runs, that of {run.date} is taken; passed over: "
        f"{', '.join(map(str, run.earlier))}"
        for run in runs
        if run.earlier
    ]


# ---------------------------------------------------------------- one run


def _read_json(path: Path) -> dict[str, Any]:
    """Return the content of a results file.

    Raises:
        NNDError: it cannot be read, or is not a JSON object.
    """
    text = read_text(path, limit=_MOST_BYTES)
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise NNDError(f"{path}: its lists and objects are nested too deeply to be read") from error
    except ValueError as error:
        if not path.name.startswith("results_"):
            raise NNDError(f"{path}: is not a results_*.json of lm-eval") from error
        raise NNDError(f"{path}: is not JSON, the file is cut off or damaged; run the task again") from error
    check_json(content, text, str(path))
    if not isinstance(content, dict):
        raise NNDError(f"{path}: holds no results of lm-eval")
    return content


def _part(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object inside another; an empty one where something else is there."""
    part = content.get(key)
    return part if isinstance(part, Mapping) else {}


def _read_run(results: _TaskResults, name: str, earlier: tuple[Path, ...]) -> Run:
    """Read the samples of a task's results, and check the two against each other.

    Raises:
        NNDError: the samples are missing, cut off, damaged, or of another run.
    """
    path = results.samples
    if not path.is_file():
        raise NNDError(f"{results.file}: its samples {path.name} are missing; {HOW}")
    ties = str(results.protocol.get("ties", "fail"))
    samples = read_samples(path)
    expected = _part(_part(results.content, "n-samples"), results.task).get("effective")
    if expected is not None and expected != len(samples.documents):
        raise NNDError(
            f"{path}: {len(samples.documents)} of {expected!r} prompts; the file is cut off, run the task again"
        )
    _check_rates(results, samples, ties)
    config = _part(results.content, "config")
    return Run(
        model=name,
        task=results.task,
        path=path,
        date=date_of(results.file),
        protocol=results.protocol,
        model_info=_part(results.signature, "model"),
        environment=_part(results.signature, "environment"),
        line=str(results.signature.get("line", "")),
        version=results.version,
        command={
            **{key: config.get(key) for key in ("model", "model_args", "batch_size", "device", "limit")},
            "sample": results.about.get("sample"),
            "settings": _part(results.about, "settings"),
        },
        parameters=config.get("model_num_parameters"),
        truncated=samples.truncated,
        documents=samples.documents,
        tests=samples.tests,
        earlier=earlier,
        spans=results.signature.get("spans"),
    )


def _check_types(results: _TaskResults) -> None:
    """Raise NNDError where a value that the analysis uses has a wrong type."""

    def refuse(what: str, value: Any, expected: str) -> None:
        raise NNDError(
            f"{results.file}: {what} is {value!r:.60}, expected {expected}; the file is damaged, run the task again"
        )

    task, protocol = results.task, results.protocol
    # lm-eval makes the name of a file from it, and so do we.
    if not task or not task.isprintable() or {"/", "\\"} & set(task) or task.startswith("."):
        refuse("the name of a task", task, "one that can be part of a file name")
    for key in ("set", "config", "ties", "selection"):
        if key in protocol and not (isinstance(protocol[key], str) and protocol[key].isprintable()):
            refuse(f"{key} in the signature of {task}", protocol[key], "text")
    for key, value in protocol.items():
        if isinstance(value, (Mapping, list)):
            refuse(f"{key} in the signature of {task}", value, "text or a number")
    config = _part(results.content, "config")
    for key in ("limit", "model_num_parameters"):
        value = config.get(key)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
        if value is not None and not number:
            refuse(f"config: {key}", value, "a number")


def _check_rates(results: _TaskResults, samples: Samples, ties: str) -> None:
    """Raise NNDError where the samples give other numbers than the results: one is of another run, or is damaged."""
    try:
        rates = samples.rates(ties)
    except NNDError as error:
        raise NNDError(f"{results.samples}: {error}") from error
    stored = _part(_part(results.content, "results"), results.task)
    for name, value in {**samples.counts(), **rates}.items():
        reported = stored.get(f"{name},none")
        if reported is None:  # the analysis needs the samples only
            continue
        if not isinstance(reported, (int, float)) or abs(reported - value) > _CLOSE:
            raise NNDError(
                f"{results.samples}: its tests give {name} {value:.6g}, {results.file.name} says {reported!r:.40}: they are not "
                "of one run, or one is damaged; run the task again"
            )


# ---------------------------------------------------------------- one table


def to_table(runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row per run and test: ``model``, ``task``, ``set``, ``signature``, ``context`` (its text), and `COLUMNS`."""
    parts = []
    for run in runs:
        contexts = [str(run.documents[i].get("context", "")) for i in run.tests["document"]]
        columns = {"model": run.model, "task": run.task, "set": run.set, "signature": run.line, "context": contexts}
        parts.append(run.tests.assign(**columns).drop(columns=["document"]))
    table = pd.concat(parts, ignore_index=True)
    first = ["model", "task", "set", "signature", "context"]
    return table[[*first, *(column for column in table.columns if column not in first)]]


def write_table(runs: Sequence[Run], path: str | Path) -> Path:
    """Write `to_table` as parquet.

    Raises:
        NNDError: the file cannot be written.
    """
    path = expand(path)
    if path.is_dir():
        raise NNDError(f"{path}: is a folder; name a file for the table")
    if path.suffix != ".parquet":
        raise NNDError(f"{path}: the table is written as parquet; name a file that ends so")
    with writing(path) as new, new.open("wb") as file:  # given a path, pyarrow opens no file whose name is not UTF-8
        to_table(runs).to_parquet(file, index=False)
    return path
