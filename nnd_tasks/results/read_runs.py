"""Read runs from the files that lm-eval wrote: which files there are, which belong together, which are wanted.

lm-eval names its files by task and date: beside ``results_DATE.json`` stand ``samples_TASK_DATE.jsonl`` and
``tokens_TASK_DATE.parquet``. Any other text in the place of the date will do, if it is the same in all.
"""

from __future__ import annotations

import json
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.errors import NNDError, visible
from nnd_tasks.files import changing, expand, noting, parse_json, read_text, reading
from nnd_tasks.packages import has_package, load_optional
from nnd_tasks.redact import without_secrets
from nnd_tasks.results.model_names import short_names
from nnd_tasks.results.result_types import TaskResults, check_types
from nnd_tasks.results.runs import METRIC, Run, Runs
from nnd_tasks.results.samples import HOW_TO_WRITE, read_lines, read_samples
from nnd_tasks.show.console import warn
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.store import results_dir
from nnd_tasks.task.signature import line as compose_line
from nnd_tasks.task.signature import short_signature
from nnd_tasks.text import some_of

#: Bytes that a results file may have; with hundreds of tasks one has a few million.
MOST_BYTES = 500_000_000
#: How the time of a run stands in the names of its files; with ``--output_path NAME.json``, lm-eval writes NAME_TIME.json.
_TIME = "[0-9]*T[0-9]*"
_logger = logging.getLogger(__name__)


def locate_results(results: list[Path] | None) -> list[Path]:
    """Take the results that a command names, else those in ``$NND_HOME``; raise NNDError where none are saved there."""
    if not results and not any(results_dir().rglob("results_*.json")):
        raise NNDError(f"{results_dir()}: no run is saved there yet (nnd run does that); or name a folder of results")
    return results or [results_dir()]


def load_runs(
    results: list[Path] | None, select: list[str] | None, allow: Container[str] = (), **options: Any
) -> tuple[Runs, list[str]]:
    """Read the runs that a command names by its arguments; print and return what is left out, and why.

    ``--allow selection`` takes runs with ``--limit`` beside others. The ``options`` are those of `read_results`.
    """
    skipped: list[str] = []
    runs = read_results(locate_results(results), select or (), skipped, trials="selection" in allow, **options)
    for line in skipped:
        warn(f"left out: {line}")
    return runs, skipped


def read_results(
    places: str | Path | Iterable[str | Path],
    select: str | Sequence[str] = (),
    skipped: list[str] | None = None,
    *,
    tokens: bool = False,
    trials: bool = False,
    cluster: str | None = None,
    category: str | None = None,
) -> Runs:
    """Read every run below the given places.

    Example:
        ``[(run.model, run.task, run.reported["pass_rate,none"]) for run in read_results("results")]``

    Of several runs of one model and protocol, only the latest is read; it names the others (`Run.earlier`).

    Args:
        places: folders that ``--output_path`` named, ``results_*.json`` files, or a ``samples_*.jsonl`` beside one. Of
            tasks that are not NND's each metric is a run, whose tests are documents (`nnd_tasks.exchange`).
        select: a text such as ``shots=0,limit=all``, or several: only runs of this protocol, see `select_runs`.
        skipped: takes a line for each file that cannot be used, and the rest is returned; where the latest of equal runs
            is such a file, the one before is taken. None raises an error instead. It also takes a line for each run with
            ``--limit`` that is left out because a place holds other runs, too; None leaves out none.
        tokens: a run whose token scores are damaged cannot be used either.
        trials: leave out no run with ``--limit``.
        cluster: of tasks that are not NND's, the field of documents that says which belong together, such as a passage.
        category: of tasks that are not NND's, the field of documents that gives categories.

    Returns:
        The runs, in the order of the places, then by task; each model has a short name of its own.

    Raises:
        NNDError: nothing is there, is selected or can be used; samples are missing, cut off, damaged or of another run; or
            documents have no such field.
    """
    files_of_places = [
        _find_files(place, skipped) for place in ([places] if isinstance(places, (str, Path)) else places)
    ]
    chosen = _read_selected(dict.fromkeys(chain(*files_of_places)), select, skipped)
    if skipped is not None and not trials:
        chosen = _leave_trials_out(chosen, files_of_places, skipped)
    equal: dict[str, list[Run]] = defaultdict(list)
    for run in chosen:
        equal[json.dumps([run.comparison_key, run.model_info, run.model], sort_keys=True)].append(run)
    runs = Runs()
    firsts = [same[0] for same in equal.values()]
    kinds = [run.reader == METRIC for run in firsts]
    names = short_names([run.model for run in firsts], [run.model_info for run in firsts], kinds)
    for same, name in zip(equal.values(), names, strict=True):
        same.sort(key=lambda run: (run.path.is_file(), run.date, run.file.stat().st_mtime))
        while same:
            last = replace(same.pop(), model=name, earlier=tuple(run.file for run in same))
            with noting(skipped):
                run = _read_whole(last)
                if tokens:
                    load_optional("nnd_tasks.likelihood.token_scores:read_tokens", "token scores")(run)
                runs.append(run)
                break
        for copy in (run for run in same if run.date == last.date):  # a link to these results, or a copy of them
            with noting(skipped):
                _read_whole(copy)
    if not runs:
        raise NNDError(f"no results can be used: {some_of(skipped or (), 3, str)}")
    for note in notes_on(runs):
        _logger.warning(visible(note))
    if cluster or category:
        runs[:] = load_optional("nnd_tasks.exchange.any_task:label_documents", "--cluster, --category")(
            runs, cluster, category
        )
    return runs


def _read_selected(files: Iterable[Path], select: Sequence[str], skipped: list[str] | None) -> Sequence[Run]:
    """Read the runs of some results files that are selected, still without their samples."""
    headers: list[Run] = []
    for file in files:
        with noting(skipped):
            headers += _read_headers(file, skipped)
    if not headers and not skipped:
        raise NNDError(f"{', '.join(map(str, files)) or 'no place'}: no results of tasks")
    return select_runs(headers, select)


def _leave_trials_out(runs: Sequence[Run], files_of_places: Sequence[Sequence[Path]], skipped: list[str]) -> list[Run]:
    """Take the runs of the whole set or a ``--sample`` of each place; of a place that has none, those with ``--limit``."""
    kept: list[Run] = []
    for files in files_of_places:
        of_place = [run for run in runs if run.file in files]
        kept += [run for run in of_place if not run.is_trial] or of_place
    for run in runs:
        if run not in kept:
            limit = f"{run.task} of {run.model} is a trial, with --limit {run.command['limit']:g}"
            skipped.append(f"{run.file}: {limit}; name this file to use it, or remove it (nnd runs)")
    return [run for run in runs if run in kept]


def notes_on(runs: Sequence[Run]) -> list[str]:
    """A line for each run of which answers cannot be read, or that was taken in place of equal earlier ones."""
    unread = [
        f"{run.model} on {run.task}: {share:.1%} of the answers cannot be read, and their tests fail"
        for run in runs
        if isinstance(share := run.reported.get("unread,none"), float) and share > 0
    ]
    return unread + [
        f"{run.model} on {run.task}: {len(run.earlier) + 1} equal runs, that of {run.date} is taken; passed over: "
        f"{', '.join(map(str, run.earlier))}"
        for run in runs
        if run.earlier
    ]


# ---------------------------------------------------------------- the list of runs


def report_saved(runs: Sequence[Run]) -> Report:
    """List runs, as `list_saved` reads them."""
    rows = [
        {
            **vars(run),
            "prompts": f"{run.settings.get('split', '')} {run.settings.get('selection', 'all')}".partition(" (")[
                0
            ].strip(),
        }
        for run in runs
    ]
    columns = ["model", "task", "prompts", "date", "file", "is_trial"]
    return Report("runs", "Runs", tables=[make_table("runs", pd.DataFrame(rows, columns=columns).drop_duplicates())])


def list_saved(places: Sequence[Path], select: Sequence[str], skipped: list[str]) -> Sequence[Run]:
    """Read the runs at some places without their samples; ``skipped`` takes a line for each file that cannot be used."""
    return _read_selected(dict.fromkeys(chain(*(_find_files(place, skipped) for place in places))), select, skipped)


def remove_runs(runs: Sequence[Run]) -> None:
    """Remove the files of runs, and folders that are empty then.

    Raises:
        NNDError: a results file holds other tasks, too (nothing is removed then), or a file cannot be removed.
    """
    removed: dict[Path, set[str]] = defaultdict(set)
    for run in runs:
        removed[run.file].add(run.path.name)
    for file, names in removed.items():
        tasks = parse_json(read_text(file, limit=MOST_BYTES), str(file))["configs"]
        others = sorted(task for task in tasks if f"samples_{task}_{_date_of(file)}.jsonl" not in names)
        if others:
            raise NNDError(
                f"{file}: holds {some_of(others, show=str)}, too; nothing is removed: choose all of its runs or none"
            )
    for run in runs:
        beside = [path for path in (run.path, run.tokens) if path is not None and path.parent == run.file.parent]
        for path in (*beside, run.file):
            with changing(path, done="removed"):
                path.unlink(missing_ok=True)
        with suppress(OSError):
            run.file.parent.rmdir()


# ---------------------------------------------------------------- results files


def _find_files(place: str | Path, skipped: list[str] | None) -> list[Path]:
    """List the results files at a path; raise NNDError where it does not exist, cannot be read or has none.

    A file that is a link keeps its own name, as its samples may stand beside it.
    """
    files: list[Path] = []
    with noting(skipped):
        path = expand(place)
        if not path.exists():
            raise NNDError(f"{path}: there is no such file or folder")
        files = _find_below(path, skipped) if path.is_dir() else [_results_beside(path)]
    return list(dict.fromkeys(file.parent.resolve() / file.name for file in files))


def _walk(folder: Path, onerror: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield the files below a folder and behind links in it, each folder once, so that loops of links end."""
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, onerror=onerror, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
        else:
            seen.add(real)
            yield from (Path(parent, name) for name in names)


def _find_below(folder: Path, skipped: list[str] | None) -> list[Path]:
    """List all results files below a folder, sorted; raise NNDError where there are none, or samples without results."""

    def refuse(error: OSError) -> None:  # `Path.rglob` would leave the folder out without a word
        with noting(skipped), reading(error.filename):
            raise error

    files = sorted(_walk(folder, refuse))
    results = [file for file in files if file.match("results_*.json") or file.match(f"*_{_TIME}.json")]
    for file in files:
        beside = _results_beside(file) if file.match("samples_*.jsonl") and file.is_file() else None
        if beside is not None and beside not in results:
            with noting(skipped):
                # A model would be missing without a word.
                raise NNDError(
                    f"{file}: its results {beside.name} are missing; put them there, or move the samples away"
                )
    if not results:
        raise NNDError(f"{folder}: no results_*.json is there; {HOW_TO_WRITE}")
    return results


def _results_beside(path: Path) -> Path:
    """The results file of a samples file; any other file itself."""
    if not path.match("samples_*.jsonl"):
        return path
    ending = f"_{path.stem.rpartition('_')[2]}.json"
    named = path.with_name(f"results{ending}")
    if named.is_file():  # the folder is listed only for a file of another name: it may hold many runs
        return named
    return min((file for file in path.parent.glob("*.json") if file.name.endswith(ending)), default=named)


def _read_whole(run: Run) -> Run:
    """Add what became of its tests to a run of which only the results file was read."""
    if run.reader == METRIC:
        whole: Run = load_optional("nnd_tasks.exchange.any_task:read_documents", run.task)(run)
        return whole
    return read_samples(run)


def _read_headers(file: Path, skipped: list[str] | None) -> list[Run]:
    """Read the runs of a results file, still without their samples.

    Raises:
        NNDError: it cannot be read, or is no results file of lm-eval.
    """
    hint = "; the file is cut off or damaged, or is not a results_*.json of lm-eval"
    content = parse_json(read_text(file, limit=MOST_BYTES), str(file), hint=hint)
    runs = []
    with _checking(file):
        for task, config in content["configs"].items():
            metadata = config.get("metadata") or {}
            nnd = None if isinstance(metadata, list) else metadata.get("nnd")  # of other tasks it may be a list
            if nnd and nnd.get("signature"):
                runs.append(read_header(file, content, task, nnd))
    tasks = {run.task for run in runs}
    for samples in sorted(file.parent.glob(f"samples_*_{_date_of(file)}.jsonl")):
        task = samples.stem.removeprefix("samples_").rpartition("_")[0]
        if task not in tasks and _are_of_nnd(samples):
            raise NNDError(
                f"{file}: has no signature of {task}, whose samples stand beside it; it is damaged, run the task again"
            )
    names = {task: f"samples_{task}_{_date_of(file)}.jsonl" for task in content["configs"] if task not in tasks}
    if names and has_package("exchange"):
        with noting(skipped), _checking(file):
            beside = {task: _find_beside(file, name) for task, name in names.items()}
            runs += load_optional("nnd_tasks.exchange.any_task:read_headers", str(file))(file, content, beside, skipped)
    return runs


@contextmanager
def _checking(file: Path) -> Iterator[None]:
    """Turn what goes wrong while the block looks at results into one error."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        raise NNDError(
            f"{file}: holds no results of lm-eval, or is damaged ({error!s:.80}); run the task again"
        ) from error


def _date_of(results: Path) -> str:
    name = results.stem
    return name.removeprefix("results_") if name.startswith("results_") else name.rpartition("_")[2]


def _are_of_nnd(samples: Path) -> bool:
    _, first = next(read_lines(samples), ("", {}))
    return isinstance(first, dict) and {"candidates", "tests"} <= set(first)


def read_header(file: Path, content: Mapping[str, Any], task: str, nnd: Mapping[str, Any]) -> Run:
    """Read what a results file says of a task, with its signature and what else NND tasks keep in their metadata."""
    signature, config, date = nnd["signature"], content["config"], _date_of(file)
    header = {
        "signature": signature,
        "version": content["versions"][task],
        "settings": nnd.get("settings"),
        "sample": nnd.get("sample"),
        "command": config,
        "model_name": content.get("model_name"),
        "prompts": content.get("n-samples", {}).get(task, {}).get("effective"),
    }
    check_types(TaskResults, header, f"{file}, {task}", "holds no results of a task, or is damaged")
    spans = signature.get("spans")
    parts = signature["protocol"], signature["model"], signature["environment"]
    if signature["line"] != compose_line(*parts) + (f" || spans:{spans}" if spans else ""):
        raise NNDError(
            f"{file}, {task}: the line of its signature contradicts its parts; the file is damaged, run the task again"
        )
    short_line = short_signature(*parts)
    tokens = _find_beside(file, f"tokens_{task}_{date}.parquet")
    command = {key: config.get(key) for key in ("model", "model_args", "batch_size", "device", "limit")}
    return Run(
        model=str(signature["model"].get("name") or content.get("model_name")),
        task=task,
        path=_find_beside(file, f"samples_{task}_{date}.jsonl"),
        date=date,
        protocol=signature["protocol"],
        model_info=signature["model"],
        environment=signature["environment"],
        line=without_secrets(signature["line"]),  # runs of plain lm_eval may hold secrets
        short_line=short_line,
        version=header["version"],
        command={**command, "sample": nnd.get("sample"), "settings": nnd.get("settings") or {}},
        parameters=max(config.get("model_num_parameters") or 0, 0) or None,
        spans=spans,
        reported=dict(content.get("results", {}).get(task, {})),
        prompts=header["prompts"],
        answers=str(nnd.get("answers") or ""),
        file=file,
        tokens=tokens if tokens.is_file() else None,
    )


def _find_beside(results: Path, name: str) -> Path:
    """A file beside results; of results that are a link, it may stand where the link leads to. It need not be there."""
    paths = [folder / name for folder in (results.parent, results.resolve().parent)]
    return next(filter(Path.is_file, paths), paths[0])


# ---------------------------------------------------------------- which runs are wanted


def select_runs(runs: Sequence[Run], select: Sequence[str]) -> Sequence[Run]:
    """Take the runs that have the wanted value of each part of the protocol.

    Case does not matter, ``nnd/`` before a set may be left out, and so may the X of a version N-X. ``limit`` is the number of
    prompts that --limit or --samples took, or ``all``.

    Args:
        runs: of any protocols.
        select: a text such as ``shots=0,limit=all``, or several.

    Raises:
        NNDError: a text is not KEY=VALUE, names no part of a protocol, or no run has the value.
    """
    texts = [select] if isinstance(select, str) else select
    pairs = (pair.strip() for text in texts for pair in text.split(","))
    for pair in filter(None, pairs if runs else ()):
        key, _, value = (side.strip() for side in pair.partition("="))
        if not value:
            raise NNDError(f"--select {pair}: write KEY=VALUE, such as shots=0")
        # The number of prompts is what stands before " of 60 (digest)".
        settings = [
            {
                "limit": str(run.protocol.get("selection", "all")).partition(" of ")[0],
                "reader": run.reader,
                **run.settings,
            }
            for run in runs
        ]
        if not any(key in of_run for of_run in settings):
            raise NNDError(f"--select {key}: no part of the protocol; they are {', '.join(settings[0])}")
        values = [of_run.get(key, "no") for of_run in settings]
        value = value.lower().partition("-")[0] if key == "version" else value.lower()
        meant = {value, f"nnd/{value}", {"true": "yes", "false": "no", "none": "no"}.get(value)}
        runs = [run for run, value_of_run in zip(runs, values, strict=True) if value_of_run.lower() in meant]
        if not runs:
            raise NNDError(f"--select {pair}: no run has it; they have {', '.join(sorted(set(values)))}")
    return runs
