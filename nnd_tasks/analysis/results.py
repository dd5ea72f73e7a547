"""One loader: from the results folders of lm-eval to a table with one row per model and test."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from nnd_tasks.analysis import selecting
from nnd_tasks.analysis.samples import Samples, read_lines, read_samples
from nnd_tasks.errors import NNDError, reason_of, visible
from nnd_tasks.files import check_json, expand, read_text, writing
from nnd_tasks.wording import counted

#: Bytes that a results file may have; with hundreds of tasks one has a few million.
_MOST_BYTES = 500_000_000
#: Last parts of a path that say nothing without the one before.
_CHECKPOINT = re.compile(r"(step|checkpoint|epoch|iter|final|last|best|model|snapshot)s?[-_.]?\d*$", re.IGNORECASE)
_logger = logging.getLogger(__name__)
#: What may differ besides parts of the protocol.
_ALLOWED = ("task", "version", "window")
#: Parts of the protocol whose values say nothing to people.
_DIGESTS = {"data", "prompt", "system"}
_HOW = "run the task with --log_samples --output_path FOLDER"
_CLOSE = 1e-9  # how far a rate may be from the one that is stored


@dataclass(frozen=True, eq=False)
class Run:
    """What one model gave on one task.

    Attributes:
        model: a short name, unique among the runs that were read together.
        task: name of the task.
        path: of the samples file.
        date: of the run, as in its file name.
        protocol: what was asked, from the signature; two runs are comparable when it is equal.
        about: the model's part of the signature.
        environment: versions.
        line: the signature in one line.
        version: of the task.
        command: what lm-eval was told, for a report.
        parameters: number of the model's parameters, where lm-eval knows it.
        truncated: how many contexts lost their end.
        documents: per cluster ``context`` and ``candidates``, and what else the prompt used.
        tests: one row per test, columns `nnd_tasks.analysis.samples.COLUMNS`; ``passed`` is missing where the test could not
            be scored.
        earlier: results files of equal runs, which this one, the latest, stands for.
    """

    model: str
    task: str
    path: Path
    date: str
    protocol: Mapping[str, Any]
    about: Mapping[str, Any]
    environment: Mapping[str, Any]
    line: str
    version: Any
    command: Mapping[str, Any]
    parameters: int | None
    truncated: int
    documents: list[dict[str, Any]] = field(repr=False)
    tests: pd.DataFrame = field(repr=False)
    earlier: tuple[Path, ...] = ()

    @property
    def set(self) -> str:
        """Name of the set and its config."""
        return f"{self.protocol.get('set', '?')} ({self.protocol.get('config', '?')})"


#: A task's results in a results file: (file, task, content of the file).
_Piece: TypeAlias = tuple[Path, str, Mapping[str, Any]]


def read_runs(places: Iterable[str | Path], select: Sequence[str] = ()) -> list[Run]:
    """Read every NND run below the given places.

    Of runs that were asked the same of the same model the latest is taken; it names the others (`Run.earlier`).

    Args:
        places: folders that ``--output_path`` named, ``results_*.json`` or ``samples_*.jsonl`` files. Results of tasks that
            are not NND's are passed over.
        select: ``KEY=VALUE`` texts with keys of `nnd_tasks.analysis.selecting.PARTS`: only runs of this protocol.

    Returns:
        The runs, in the order of the places, then by task; models have short names of their own.

    Raises:
        NNDError: nothing is there or is selected, or samples are missing, cut off or contradict themselves.
    """
    wanted = selecting.parse(select)
    files: dict[Path, Path] = {}
    named: dict[Path, set[Path]] = {}  # results file -> the samples files by which it was named; empty where as a whole
    for place in places:
        path = expand(place)
        if not path.exists():
            raise NNDError(f"{path}: there is no such file or folder")
        found = _results_files(path)
        if not found:
            raise NNDError(f"{path}: no results_*.json is there; {_HOW}")
        files |= {file.resolve(): path for file in found}
        for file in found:
            as_whole = path.suffix != ".jsonl" or not named.get(file.resolve(), {path})
            named[file.resolve()] = set() if as_whole else named.get(file.resolve(), set()) | {path.resolve()}
    pieces: list[_Piece] = []
    for file in files:
        results = _read_json(file)
        configs = results.get("configs")
        if not isinstance(configs, Mapping):
            raise NNDError(f"{file}: holds no results of lm-eval")
        for task, config in configs.items():
            if not _ours(config):
                continue
            _check_types(file, task, results)
            if not named[file] or _samples_file(file, task) in named[file]:
                pieces.append((file, task, results))
    if not pieces:
        raise NNDError(f"{', '.join(map(str, files))}: no results of NND tasks")
    kept = _latest(_selected(pieces, wanted))
    names = _short_names([_identity(results, task) for (_, task, results), _ in kept])
    runs = [_read_run(*piece, name, earlier) for (piece, earlier), name in zip(kept, names, strict=True)]
    for note in notes_on(runs):
        _logger.warning(visible(note))
    return runs


def _selected(pieces: Sequence[_Piece], wanted: Mapping[str, str]) -> list[_Piece]:
    """Return the pieces of the wanted protocol.

    Raises:
        NNDError: none is.
    """
    left = list(pieces)
    for key, value in wanted.items():
        values = {
            i: selecting.value_of(key, task, _version(results, task), _part(_signature(results, task), "protocol"))
            for i, (_, task, results) in enumerate(left)
        }
        chosen = [piece for i, piece in enumerate(left) if selecting.matches(key, value, values[i])]
        if not chosen:
            raise NNDError(
                f"--select {key}={value}: no run has it; they have {', '.join(sorted(set(values.values())))}"
            )
        left = chosen
    return left


def _latest(pieces: Sequence[_Piece]) -> list[tuple[_Piece, tuple[Path, ...]]]:
    """Return the pieces, of equal ones the latest that has samples, each with the files that it stands for."""
    equal: dict[tuple[str, str, str, str], list[_Piece]] = defaultdict(list)
    for file, task, results in pieces:
        version = str(_version(results, task)).partition("-")[0]
        asked = json.dumps(_part(_signature(results, task), "protocol"), sort_keys=True)
        equal[task, version, asked, _identity(results, task)[1]].append((file, task, results))

    def age(piece: _Piece) -> tuple[bool, str, float]:
        file, task, _ = piece
        return _samples_file(file, task).is_file(), _date(file), file.stat().st_mtime

    kept = []
    for found in equal.values():
        *others, last = sorted(found, key=age)
        kept.append((last, tuple(file for file, _, _ in others)))
    return kept


def _date(file: Path) -> str:
    """Return when a run was, as lm-eval writes it into the name of its results file."""
    return file.stem.removeprefix("results_")


def _results_files(path: Path) -> list[Path]:
    if path.is_dir():
        files = _files_below(path)
        found = [file for file in files if fnmatch(file.name, "results_*.json")]
        _refuse_lonely_samples([file for file in files if fnmatch(file.name, "samples_*.jsonl")], set(found))
        return found
    if path.name.startswith("samples_") and path.is_file():
        return [path.with_name(f"results_{path.stem.rpartition('_')[2]}.json")]
    return [path] if path.is_file() else []


def _files_below(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted; `Path.rglob` passes over what it may not read.

    Raises:
        NNDError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise NNDError(f"{error.filename}: cannot be read ({reason_of(error)})") from error

    return sorted(Path(where) / name for where, _, names in os.walk(folder, onerror=refuse) for name in names)


def _samples_file(results: Path, task: str) -> Path:
    return results.with_name(f"samples_{task}_{results.stem.removeprefix('results_')}.jsonl")


def _refuse_lonely_samples(files: Sequence[Path], results: set[Path]) -> None:
    """Raise NNDError for samples of an NND task without their results: a model would go missing without a word."""
    for samples in files:
        of_it = samples.with_name(f"results_{samples.stem.rpartition('_')[2]}.json")
        if of_it in results:
            continue
        _, first = next(read_lines(samples), (0, {}))
        if {"candidates", "tests"} <= first.keys():
            raise NNDError(f"{samples}: its results {of_it.name} are missing; put them there, or move the samples away")


def _ours(config: Any) -> bool:
    metadata = config.get("metadata") if isinstance(config, Mapping) else None
    nnd = metadata.get("nnd") if isinstance(metadata, Mapping) else None
    return isinstance(nnd, Mapping) and isinstance(nnd.get("signature"), Mapping)


def _read_json(path: Path) -> dict[str, Any]:
    text = read_text(path, limit=_MOST_BYTES)
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise NNDError(f"{path}: its lists and objects are nested too deeply to be read") from error
    except ValueError as error:
        if not path.name.startswith("results_"):
            raise NNDError(f"{path}: is no results_*.json of lm-eval") from error
        raise NNDError(f"{path}: is no JSON, the file is cut off or damaged; run the task again") from error
    check_json(found, text, str(path))
    if not isinstance(found, dict):
        raise NNDError(f"{path}: holds no results of lm-eval")
    return found


def _part(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object inside another; an empty one where something else is there."""
    part = found.get(key)
    return part if isinstance(part, Mapping) else {}


def _signature(results: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = results["configs"][task]["metadata"]["nnd"]["signature"]
    return found


def _version(results: Mapping[str, Any], task: str) -> Any:
    return _part(results, "versions").get(task)


def _identity(results: Mapping[str, Any], task: str) -> tuple[str, str]:
    """Return (name, all that is known) of the model."""
    about = _part(_signature(results, task), "model")
    names = (about.get("name"), results.get("model_name"), results.get("model_source"), "model")
    name = next(name for name in names if isinstance(name, str) and name)
    return name, json.dumps(about, sort_keys=True)


#: Characters of what tells two models of one name apart; more make no name.
_LONGEST_MARK = 50


def _short_names(models: Sequence[tuple[str, str]]) -> list[str]:
    """Return a name per model: as many of the last parts of its path as tell it from the others."""
    known = list(dict.fromkeys(models))
    names: dict[tuple[str, str], str] = {}
    for model in known:
        parts = [part for part in model[0].replace("\\", "/").split("/") if part]
        others = [other[0] for other in known if other[0] != model[0]]
        size = 1 + bool(parts and _CHECKPOINT.match(parts[-1]))
        while size < len(parts) and any(f"/{other}".endswith("/" + "/".join(parts[-size:])) for other in others):
            size += 1
        names[model] = "/".join(parts[-size:]) or model[0]
    for name, count in Counter(names.values()).items():
        if count > 1:  # the same weights, run with other arguments
            alike = [model for model in known if names[model] == name]
            names |= {model: f"{name}{mark}" for model, mark in zip(alike, _what_differs(alike), strict=True)}
    return [visible(names[model]) for model in models]


def _what_differs(models: Sequence[tuple[str, str]]) -> list[str]:
    """Return what tells models of one name apart, such as `` (dtype=bfloat16)``; numbers where that is long or says nothing."""
    about = []
    for _, known in models:
        found = json.loads(known)
        arguments = found.pop("arguments", None) if isinstance(found, dict) else None
        about.append(
            {**(found if isinstance(found, dict) else {}), **(arguments if isinstance(arguments, dict) else {})}
        )
    keys = [
        key
        for key in dict.fromkeys(key for one in about for key in one)
        if len({json.dumps(one.get(key), sort_keys=True) for one in about}) > 1
    ]
    said = [", ".join(f"{key}={one[key]}" for key in keys if one.get(key) not in (None, "", "auto")) for one in about]
    if len(set(said)) < len(said) or any(len(text) > _LONGEST_MARK for text in said):
        return [f" #{number}" for number in range(1, len(models) + 1)]
    return [f" ({text})" if text else "" for text in said]


def _read_run(file: Path, task: str, results: Mapping[str, Any], name: str, earlier: tuple[Path, ...]) -> Run:
    samples = _samples_file(file, task)
    if not samples.is_file():
        raise NNDError(f"{file}: its samples {samples.name} are missing; {_HOW}")
    signature = _signature(results, task)
    protocol = _part(signature, "protocol")
    ties = protocol.get("ties", "fail")
    found = read_samples(samples, str(ties))
    expected = _part(_part(results, "n-samples"), task).get("effective")
    if expected is not None and expected != len(found.documents):
        raise NNDError(
            f"{samples}: {len(found.documents)} of {expected!r} contexts; the file is cut off, run the task again"
        )
    _check_rates(file, samples, _part(_part(results, "results"), task), found, str(ties))
    config = _part(results, "config")
    return Run(
        model=name,
        task=task,
        path=samples,
        date=_date(file),
        protocol=protocol,
        about=_part(signature, "model"),
        environment=_part(signature, "environment"),
        line=str(signature.get("line", "")),
        version=_version(results, task),
        command={key: config.get(key) for key in ("model", "model_args", "batch_size", "device", "limit")},
        parameters=config.get("model_num_parameters"),
        truncated=found.truncated,
        documents=found.documents,
        tests=found.tests,
        earlier=earlier,
    )


def _check_types(file: Path, task: str, results: Mapping[str, Any]) -> None:
    """Raise NNDError where something that the analysis uses is not of its kind: the file was damaged, or changed."""

    def refuse(what: str, value: Any, expected: str) -> None:
        raise NNDError(
            f"{file}: {what} is {value!r:.60}, expected {expected}; the file was changed, run the task again"
        )

    # lm-eval makes a file name of it, and so do we.
    if not task or not task.isprintable() or {"/", "\\"} & set(task) or task.startswith("."):
        refuse("the name of a task", task, "one that can be part of a file name")
    protocol = _part(_signature(results, task), "protocol")
    for key in ("set", "config", "ties", "selection"):
        if key in protocol and not (isinstance(protocol[key], str) and protocol[key].isprintable()):
            refuse(f"{key} in the signature of {task}", protocol[key], "text")
    for key, value in protocol.items():
        if isinstance(value, (Mapping, list)):
            refuse(f"{key} in the signature of {task}", value, "text or a number")
    config = _part(results, "config")
    for what, value in (("limit", config.get("limit")), ("model_num_parameters", config.get("model_num_parameters"))):
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
        if value is not None and not number:
            refuse(f"config: {what}", value, "a number")


def _check_rates(file: Path, samples: Path, stored: Mapping[str, Any], found: Samples, ties: str) -> None:
    """Raise NNDError where samples give other numbers than the results beside them: they are of another run, or changed."""
    try:
        rates = found.rates(ties)
    except NNDError as error:
        raise NNDError(f"{samples}: {error}") from error
    for name, value in {**found.counts(), **rates}.items():
        told = stored.get(f"{name},none")
        if told is None:  # an analysis needs the samples only
            continue
        same = isinstance(told, (int, float)) and abs(told - value) <= _CLOSE
        if not same:
            raise NNDError(
                f"{samples}: its tests give {name} {value:.6g}, {file.name} says {told!r:.40}: they are not of one run, or one "
                "was changed; run the task again"
            )


def to_table(runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row per run and test: ``model``, ``task``, ``set``, ``signature``, ``context`` (its text), and `COLUMNS`."""
    parts = []
    for run in runs:
        contexts = [str(run.documents[i].get("context", "")) for i in run.tests["document"]]
        about = {"model": run.model, "task": run.task, "set": run.set, "signature": run.line, "context": contexts}
        parts.append(run.tests.assign(**about).drop(columns=["document"]))
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
    with writing(path) as new, new.open("wb") as file:  # by its name pyarrow opens files with UTF-8 names only
        to_table(runs).to_parquet(file, index=False)
    return path


# ---------------------------------------------------------------- runs side by side


@dataclass(frozen=True, eq=False)
class Paired:
    """Several models on the same tests.

    Attributes:
        task: name of the task, or of the tasks.
        set: that they ran on.
        runs: one per model.
        tests: one row per test that all models have scored: ``test_id``, ``cluster_id``, ``category``, ``subcategory``,
            ``severity``, ``document`` (of the first run).
        passed: shape (tests, models).
        left_out: tests that some model could not score.
        apart: what sets these runs apart from others on the same set and task, such as ``shots 2``; empty where none are.
    """

    task: str
    set: str
    runs: list[Run]
    tests: pd.DataFrame = field(repr=False)
    passed: np.ndarray[Any, np.dtype[np.bool_]] = field(repr=False)
    left_out: int
    apart: str = ""

    @property
    def title(self) -> str:
        """Name of the task, with what sets these runs apart from others of it."""
        return f"{self.task} ({self.apart})" if self.apart else self.task

    def task_of(self, run: Run) -> str:
        """Return the name of a run's task, as `title` has it."""
        return f"{run.task} ({self.apart})" if self.apart else run.task

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return [run.model for run in self.runs]


def pair(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Paired]:
    """Put the runs on each set side by side; runs of other protocols stand apart, in groups of their own.

    Args:
        runs: of any tasks; those on one set and config belong together.
        allow: parts of the protocol that may differ, such as ``prompt`` for models that each have a format of their own.

    Raises:
        NNDError: a model has two runs in one group, contexts were shortened to other windows, or tests of two runs differ.
    """
    by_set: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_set[run.set].append(run)
    pairs = []
    known = {*_ALLOWED, *(key for run in runs for key in run.protocol)}
    if unknown := [name for name in allow if name not in known]:
        raise NNDError(f"--allow {unknown[0]}: no part of the protocol; they are {', '.join(sorted(known))}")
    for found in by_set.values():
        groups = _groups(found, allow, by_task=not allow)
        if not allow and len({run.task for run in found}) == len({run.model for run in found}) == len(found):
            groups = _groups(found, allow, by_task=False)  # a task per model
        pairs += [
            replace(_pair(group, allow), apart=apart) for group, apart in zip(groups, _apart(groups), strict=True)
        ]
    return pairs


def _asked(run: Run, allow: Sequence[str] = ()) -> dict[str, Any]:
    """Return all that must be equal for runs to be compared: the protocol, and N of a version N-X (docs/contribute.md)."""
    asked = {key: value for key, value in run.protocol.items() if key not in allow}
    return asked if "version" in allow else {**asked, "version": str(run.version).partition("-")[0]}


def _groups(runs: Sequence[Run], allow: Sequence[str], *, by_task: bool) -> list[list[Run]]:
    """Return the runs that were asked the same, of one task or of any."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        without = (*allow, *(() if by_task else ("version",)))  # the versions of two tasks have nothing in common
        groups[run.task if by_task else "", json.dumps(_asked(run, without), sort_keys=True)].append(run)
    return list(groups.values())


def _apart(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Return what sets each group apart from the others of its tasks; empty where there are none.

    Digests say little to people: they are named only where nothing else differs.
    """
    found = []
    for group in groups:
        tasks = {run.task for run in group}
        rivals = [other for other in groups if tasks & {run.task for run in other}]
        parts = [_asked(rival[0]) for rival in rivals]
        keys = [
            key
            for key in dict.fromkeys(key for part in parts for key in part)
            if len({str(part.get(key)) for part in parts}) > 1
        ]
        if "shots" in keys:  # the number says it all; without exemplars there is no seed of them
            keys = [key for key in keys if key not in ("shots_seed", "exemplars")]
        plain = [key for key in keys if key not in _DIGESTS]
        tellable = {tuple(str(part.get(key)) for key in plain) for part in parts}
        shown = plain if len(tellable) == len(parts) else keys
        mine = _asked(group[0])
        found.append(visible(", ".join(f"{key} {selecting.text_of(mine.get(key))}" for key in shown)))
    return found


def notes_on(runs: Sequence[Run]) -> list[str]:
    """Return a line for each run that stands for earlier ones of the same model and protocol."""
    return [
        f"{run.model} on {run.task}: {len(run.earlier) + 1} equal runs, that of {run.date} is taken; passed over: "
        f"{', '.join(map(str, run.earlier))}"
        for run in runs
        if run.earlier
    ]


def left_out(runs: Sequence[Run], pairs: Sequence[Paired]) -> list[str]:
    """Return a line for each run that no other can be compared with, and why where another ran on its set."""
    lines = []
    for lone in (paired.runs[0] for paired in pairs if len(paired.runs) == 1):
        line = f"{lone.model} on {lone.task} is compared with nothing"
        others = [run for run in runs if run.set == lone.set and run.model != lone.model]
        others.sort(key=lambda run: (run.task != lone.task, -_shared(run, lone)))
        if not others:
            lines.append(f"{line}: no other model ran on {lone.set}")
            continue
        try:
            first, second = sorted((others[0], lone), key=list(runs).index)
            check_comparable(first, second)
            lines.append(f"{line}: the others ran {others[0].task}; --allow task compares all tasks on {lone.set}")
        except NNDError as error:
            lines.append(f"{line}: {error}")
    return lines


def _shared(run: Run, other: Run) -> int:
    """Return how many parts of two protocols are equal."""
    return sum(run.protocol.get(key) == value for key, value in other.protocol.items())


def _pair(runs: list[Run], allow: Sequence[str]) -> Paired:
    first = runs[0]
    for one, other in combinations(runs, 2):  # windows matter between any two
        check_comparable(one, other, allow)
    counts = Counter(run.model for run in runs)
    repeated = [model for model, count in counts.items() if count > 1]
    if repeated:
        tasks = ", ".join(dict.fromkeys(run.task for run in runs if run.model == repeated[0]))
        raise NNDError(
            f"{repeated[0]}: two runs of it on {first.set}, {tasks}; name the results file of one, or choose by what "
            "differs, such as --select shots=0"
        )
    for run in runs:
        double = run.tests["test_id"].duplicated()
        if double.any():
            raise NNDError(f"{run.path}: test {run.tests['test_id'][double].iloc[0]} is there twice")
    wanted = set(first.tests["test_id"])
    for other in runs[1:]:
        differ = wanted ^ set(other.tests["test_id"])
        if differ:
            raise NNDError(
                f"{first.path} and {other.path}: {counted(len(differ), 'test')} in one of them only, e.g. {min(differ)}"
            )
    order = first.tests["test_id"]
    passed = [run.tests.set_index("test_id")["passed"].reindex(order) for run in runs]
    scored = np.all([column.notna().to_numpy() for column in passed], axis=0)
    table = np.stack([column.to_numpy(dtype=bool, na_value=False)[scored] for column in passed], axis=1)
    kept = ["test_id", "cluster_id", "category", "subcategory", "severity", "document"]
    tests = first.tests.loc[scored, kept].reset_index(drop=True)
    names = " / ".join(dict.fromkeys(run.task for run in runs))
    return Paired(names, first.set, runs, tests, table, int((~scored).sum()))


def check_comparable(first: Run, other: Run, allow: Sequence[str] = ()) -> None:
    """Raise NNDError when two runs were not asked the same; name what differs.

    What may differ by ``allow`` is passed over. Windows must be equal where a context was shortened.
    """
    keys = [key for key in {**first.protocol, **other.protocol} if key not in allow]
    differ = [
        f"{key} {first.protocol.get(key)!r} and {other.protocol.get(key)!r}"
        for key in keys
        if first.protocol.get(key) != other.protocol.get(key)
    ]
    # Of a version N-X only N says whether numbers compare (docs/contribute.md).
    same_version = str(first.version).partition("-")[0] == str(other.version).partition("-")[0]
    if not same_version and "version" not in allow and first.task == other.task:
        differ.append(f"version of the task {first.version!r} and {other.version!r}")
    windows = first.about.get("window"), other.about.get("window")
    if "window" not in allow and (first.truncated or other.truncated) and windows[0] != windows[1]:
        differ.append(f"window {windows[0]!r} and {windows[1]!r}, with contexts that were shortened to fit")
    if differ:
        hint = "run both in one way"
        if any(entry.startswith("selection ") for entry in differ):
            hint += " (selection: what --limit or --samples took)"
        if not any(entry.startswith(("data ", "selection ")) for entry in differ):
            hint += f", or compare anyway with --allow {','.join(entry.split(' ')[0] for entry in differ)}"
        raise NNDError(
            f"{first.model} ({first.task}) and {other.model} ({other.task}) cannot be compared: {'; '.join(differ)}; {hint}"
        )
