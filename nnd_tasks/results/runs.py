"""Runs of NND tasks, read from what lm-eval wrote and checked: one after another, and as tables for pandas."""

from __future__ import annotations

import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.errors import NNDError, noting, visible
from nnd_tasks.files import expand, parse_json, read_text, reading
from nnd_tasks.redact import hide
from nnd_tasks.results.model_names import short_names
from nnd_tasks.results.result_types import TaskResults, check_types
from nnd_tasks.results.run_files import (
    MOST_BYTES,
    date_of_run,
    find_answers,
    find_results,
    find_samples,
    find_tokens,
    holds_results,
)
from nnd_tasks.results.samples import check_outcomes, rates_of, read_lines, read_samples
from nnd_tasks.results.selecting import select_runs
from nnd_tasks.task.signature import answers_digest, short_signature
from nnd_tasks.text import some_of

#: Ends errors about missing files: how lm-eval comes to write them.
_HOW = "run the task with --log_samples --output_path FOLDER"
#: How far a rate may be from the one that is stored.
_CLOSE = 1e-9
_logger = logging.getLogger(__name__)


@dataclass(eq=False)
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
        documents: per prompt ``context`` and ``candidates``, what else the prompt used, ``scores`` of the candidates, and
            ``no_context``, their scores without the context, or None.
        tests: one row per test, columns `nnd_tasks.results.samples.COLUMNS`; ``passed`` is missing where the test could not
            be scored.
        earlier: results files of equal runs before this one, which are not read.
        spans: digest of the set's error spans; None for a run without span metrics.
        reported: what lm-eval wrote of the task: metric -> value.
        prompts: their number, as lm-eval wrote it.
        answers: digest of the answers, by which its other files are known.
        file: its results file.
        set: name of the set and its config.
        comparison_key: what must be equal for runs to be compared: task, protocol, and the N of a version N-X (CONTRIBUTING.md).
            What to do with texts that are too long makes no difference where every prompt was whole and every test was scored.
        trained_on: splits that the model was trained on, ``SET:SPLIT`` or ``SET``, as ``--metadata`` said.
        training_overlap: those of ``trained_on`` that the run's tests hold.
        training_note: a sentence on what the model was trained on; ``""`` where nothing was said.
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
    reported: Mapping[str, Any] = field(default_factory=dict, repr=False)
    prompts: int | None = None
    answers: str = ""
    file: Path = Path("results.json")

    set: str = field(init=False)
    comparison_key: dict[str, Any] = field(init=False, repr=False)
    trained_on: list[str] = field(init=False)
    training_overlap: list[str] = field(init=False)
    training_note: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute what the protocol says of the run."""
        self.set = f"{self.protocol.get('set', '?')} ({self.protocol.get('config', '?')})"
        self.comparison_key = {"task": self.task, **self.protocol, "version": str(self.version).partition("-")[0]}
        everything_fits = not self.truncated and len(self.tests) > 0 and self.tests["passed"].notna().all()
        if everything_fits and "overlong" in self.protocol:
            self.comparison_key["overlong"] = "nothing is"
        self.trained_on = [part for part in str(self.model_info.get("trained_on") or "").split(",") if part]
        # Set and split of each.
        trained = [part.partition(":")[::2] for part in self.trained_on]
        tested_set = str(self.protocol.get("set")).removeprefix("nnd/")
        tested_split = self.protocol.get("split")
        self.training_overlap = [
            named
            for named, (name, split) in zip(self.trained_on, trained, strict=True)
            if name == tested_set and (tested_split is None or split in ("", tested_split))
        ]
        self.training_note = ""
        if self.trained_on:
            if self.training_overlap:
                tests = f"these tests hold {', '.join(self.training_overlap)}"
            elif tested_split is not None and not {"", tested_split} & {split for _, split in trained}:
                tests = "none of its texts is in these tests"
            else:
                tests = "these tests may share texts with it; another split does not"
            self.training_note = f"{self.model} was trained on {', '.join(self.trained_on)}; {tests}."

    @property
    def short_line(self) -> str:
        """The signature for print, see `nnd_tasks.task.signature.short_signature`."""
        return short_signature(self.protocol, self.model_info, self.environment)

    @property
    def tokens(self) -> Path:
        """Where its token scores lie; the file is there only for runs with ``tokens``."""
        return find_tokens(self.file, self.task, self.date, self.answers)

    def texts_of(self, side: str) -> list[str]:
        """Return the better (``high``) or the worse (``low``) text of each test."""
        places = zip(self.tests["document"], self.tests[side], strict=True)
        return [self.documents[document]["candidates"][candidate] for document, candidate in places]


class Runs(list[Run]):
    """Runs in the order in which they were found, with a table of all their tests and one of the runs."""

    @cached_property
    def tests(self) -> pd.DataFrame:
        """One row per run and test: ``run`` (its row in `runs`), ``model``, ``task``, ``set``, the texts, scores and outcome.

        The columns are those of `nnd_tasks.results.samples.COLUMNS`, with texts for ``high`` and ``low``, and every text of the
        prompt, such as ``context``. Log-likelihoods are in nats.
        """
        return pd.concat([_with_texts(i, run) for i, run in enumerate(self)], ignore_index=True)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run: ``model``, ``task``, each part of the protocol, and what else is known of it."""
        names = ("model", "task", "set", "version", "date", "parameters", "truncated")
        rows = [
            {
                **{name: getattr(run, name) for name in names},
                **{**run.protocol, "set": run.set},
                **{
                    "prompts": len(run.documents),
                    "tests": len(run.tests),
                    "signature": run.line,
                    "short_signature": run.short_line,
                    "file": str(run.file),
                },
                "tokens": str(run.tokens) if run.tokens.is_file() else None,
            }
            for run in self
        ]
        return pd.DataFrame(rows).rename_axis("run")


def _with_texts(place: int, run: Run) -> pd.DataFrame:
    """Return the tests of a run with the texts of their prompts and candidates."""
    prompts = pd.DataFrame(
        [{key: text for key, text in document.items() if isinstance(text, str)} for document in run.documents]
    )
    about = {"run": place, "model": run.model, "task": run.task, "set": run.set}
    tests = pd.DataFrame({**about, **run.tests, "high": run.texts_of("high"), "low": run.texts_of("low")})
    others = [name for name in prompts if name not in tests]
    return tests.join(prompts[others], on="document").drop(columns="document")


def read_results(
    places: str | Path | Iterable[str | Path], select: Sequence[str] = (), skipped: list[str] | None = None
) -> Runs:
    """Read every NND run below the given places.

    Of several runs that asked one model the same, only the latest is read; it names the others (`Run.earlier`).

    Args:
        places: folders that ``--output_path`` named, ``results_*.json`` files, or a ``samples_*.jsonl`` beside one. Results
            of tasks that are not NND's are passed over.
        select: ``KEY=VALUE`` texts with keys of `nnd_tasks.results.selecting.PARTS`: only runs of this protocol.
        skipped: takes a line for each file that cannot be used, and the rest is returned; where the latest of equal runs
            is such a file, the one before is taken. None raises an error instead.

    Returns:
        The runs, in the order of the places, then by task; each model has a short name of its own.

    Raises:
        NNDError: nothing is there, is selected or can be used, or samples are missing, cut off, damaged or of another run.
    """
    found: list[Run] = []
    files = _find([places] if isinstance(places, (str, Path)) else places, skipped)
    for file in files:
        with noting(skipped):
            found += _read_headers(file)
    if not found and not skipped:
        raise NNDError(f"{', '.join(map(str, files))}: no results of NND tasks")
    equal: dict[str, list[Run]] = defaultdict(list)
    for run in select_runs(found, select) if found else ():
        equal[json.dumps([run.comparison_key, run.model_info, run.model], sort_keys=True)].append(run)
    runs = Runs()
    firsts = [same[0] for same in equal.values()]
    names = short_names([run.model for run in firsts], [run.model_info for run in firsts])
    for same, name in zip(equal.values(), names, strict=True):
        same.sort(key=lambda run: (run.path.is_file(), run.date, run.file.stat().st_mtime))
        while same:
            last = replace(same.pop(), model=name, earlier=tuple(run.file for run in same))
            with noting(skipped):
                runs.append(_read_run(last))
                break
    if not runs:
        raise NNDError(f"no results can be used: {some_of(skipped or (), 3, str)}")
    for note in notes_on(runs):
        _logger.warning(visible(note))
    return runs


def notes_on(runs: Sequence[Run]) -> list[str]:
    """Return a line for each run that was taken in place of earlier ones of the same model and protocol."""
    return [
        f"{run.model} on {run.task}: {len(run.earlier) + 1} equal runs, that of {run.date} is taken; passed over: "
        f"{', '.join(map(str, run.earlier))}"
        for run in runs
        if run.earlier
    ]


# ---------------------------------------------------------------- files


def _find(places: Iterable[str | Path], skipped: list[str] | None) -> list[Path]:
    """Return the results files at some places; raise NNDError where a place does not exist, cannot be read or has none."""
    found: list[Path] = []
    for place in places:
        with noting(skipped):
            path = expand(place)
            if not path.exists():
                raise NNDError(f"{path}: there is no such file or folder")
            found += _results_below(path, skipped) if path.is_dir() else [find_results(path)]
    return list(dict.fromkeys(file.resolve() for file in found))


def _results_below(folder: Path, skipped: list[str] | None) -> list[Path]:
    """Return all results files below a folder, sorted; raise NNDError where there are none, or samples without results."""

    def refuse(error: OSError) -> None:  # `Path.rglob` would leave the folder out without a word
        with noting(skipped), reading(error.filename):
            raise error

    files = sorted(Path(where, name) for where, _, names in os.walk(folder, onerror=refuse) for name in names)
    results = [
        file
        for file in files
        if file.match("results_*.json") or (file.suffix == ".json" and file.is_file() and holds_results(file))
    ]
    for file in files:
        own = find_results(file) if file.match("samples_*.jsonl") and file.is_file() else None
        if own is not None and own not in results:
            with noting(skipped):
                _, first = next(read_lines(file), ("", {}))
                if {"candidates", "tests"} <= set(first):  # of an NND task: a model would be missing without a word
                    raise NNDError(
                        f"{file}: its results {own.name} are missing; put them there, or move the samples away"
                    )
    if not results:
        raise NNDError(f"{folder}: no results_*.json is there; {_HOW}")
    return results


def _read_headers(file: Path) -> list[Run]:
    """Return the NND runs of a results file, still without their samples.

    Raises:
        NNDError: it cannot be read, or is no results file of lm-eval.
    """
    hint = "; the file is cut off or damaged, or is not a results_*.json of lm-eval"
    content = parse_json(read_text(file, limit=MOST_BYTES), str(file), hint=hint)
    try:
        return [
            _header(file, content, task, nnd)
            for task, config in content["configs"].items()
            if (nnd := _nnd_metadata(config.get("metadata"))).get("signature")
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise NNDError(
            f"{file}: holds no results of lm-eval, or is damaged ({error!s:.80}); run the task again"
        ) from error


def _nnd_metadata(metadata: Any) -> Mapping[str, Any]:
    """Return what a task's metadata say of NND; nothing for other tasks, whose metadata may also be a list."""
    if not metadata or isinstance(metadata, list):
        return {}
    return metadata.get("nnd") or {}


def _header(file: Path, content: Mapping[str, Any], task: str, nnd: Mapping[str, Any]) -> Run:
    signature, config, date = nnd["signature"], content["config"], date_of_run(file, content)
    answers = str(nnd.get("answers") or "")
    header = {
        "signature": signature,
        "version": content["versions"][task],
        "settings": nnd.get("settings"),
        "sample": nnd.get("sample"),
        "command": config,
        "model_name": content.get("model_name"),
        "reported": content.get("results", {}).get(task, {}),
        "prompts": content.get("n-samples", {}).get(task, {}).get("effective"),
    }
    check_types(TaskResults, header, f"{file}, {task}", "holds no results of an NND task, or is damaged")
    command = {key: config.get(key) for key in ("model", "model_args", "batch_size", "device", "limit")}
    return Run(
        model=str(signature["model"].get("name") or content.get("model_name")),
        task=task,
        path=find_samples(file, task, date, answers),
        date=date,
        protocol=signature["protocol"],
        model_info=signature["model"],
        environment=signature["environment"],
        line=hide(signature["line"]),  # runs of plain lm_eval may hold secrets
        version=header["version"],
        command={**command, "sample": nnd.get("sample"), "settings": nnd.get("settings") or {}},
        parameters=max(config.get("model_num_parameters") or 0, 0) or None,
        truncated=0,
        documents=[],
        tests=pd.DataFrame(),
        spans=signature.get("spans"),
        reported=header["reported"],
        prompts=header["prompts"],
        answers=answers,
        file=file,
    )


def _read_run(run: Run) -> Run:
    """Return a run with its samples; those of another name where only they hold the answers of the run.

    Raises:
        NNDError: the samples are missing, cut off, damaged, or of another run.
    """
    try:
        read = _read_samples_of(run)
    except NNDError:
        if (other := find_answers(run.file.parent, run.answers)) in (None, run.path):
            raise
    else:
        scores = (score for document in read.documents for score in document["scores"])
        if not run.answers or answers_digest(scores) == run.answers:
            return read
        if (other := find_answers(run.file.parent, run.answers)) is None:
            return read
    return _read_samples_of(replace(run, path=other))


def _read_samples_of(run: Run) -> Run:
    """Return a run with its samples, whose numbers must be those that lm-eval reported; raises as `_read_run` does."""
    if not run.path.is_file():
        raise NNDError(f"{run.file}: its samples {run.path.name} are missing; {_HOW}")
    documents, tests, truncated = read_samples(run.path)
    check_outcomes(run.path, tests, run.protocol)
    if run.prompts not in (None, len(documents)):
        raise NNDError(
            f"{run.path}: {len(documents)} of {run.prompts} prompts; the file is cut off, run the task again"
        )
    for name, value in rates_of(tests).items():
        reported = run.reported.get(f"{name},none", value)
        agrees = isinstance(reported, (int, float)) and value - _CLOSE <= reported <= value + _CLOSE  # nan is not
        if not agrees:
            raise NNDError(
                f"{run.path}: its tests give {name} {value:.6g}, {run.file.name} says {reported!r:.40}: they are not of one "
                "run, or one is damaged; run the task again"
            )
    return replace(run, documents=documents, tests=tests, truncated=truncated)
