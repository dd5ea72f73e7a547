"""How surprising the tokens before, in and after marked errors are to each model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.token_files import run_tokens
from nnd_tasks.errors import NNDError
from nnd_tasks.formats import TextTable, csv_text, json_text, number
from nnd_tasks.harness.span_metrics import marked_tokens, unigram_surprise
from nnd_tasks.markdown import unlinked
from nnd_tasks.show.figures import Panel, Series, draw_panels, save_files
from nnd_tasks.statistics import clustered_mean
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Tokens that are looked at on each side of an error.
SIDE = 5
#: Places of tokens: before an error, in it, after it. An error of one token has a first one only, and of two no middle.
PLACES = (*(str(-n) for n in range(SIDE, 0, -1)), "first", "middle", "last", *(f"+{n}" for n in range(1, SIDE + 1)))
#: What is averaged -> how it is called.
VALUES = {"surprise": "surprise", "excess": "surprise less that of frequency"}
CAPTION = (
    "Surprise: -log p of a token in nats, averaged over the marked errors, by its place: tokens before an error, "
    "its first token, the mean of its middle ones, its last, and tokens after it. Tokens of other errors are left out. The "
    "second value is less the surprise to a model that only knows how often each token occurs in the texts of the run. "
    "Intervals (95%) are Student's, clustered by prompt."
)


@dataclass(frozen=True, slots=True)
class Place:
    """A mean over errors, of one model.

    Attributes:
        task: name of the task.
        model: name of the model.
        value: a key of `VALUES`.
        place: one of `PLACES`.
        errors: number of errors that have such a token.
        mean: in nats.
        low: lower end of its 95% interval, clustered by prompt; nan where there is none.
        high: upper end.
    """

    task: str
    model: str
    value: str
    place: str
    errors: int
    mean: float
    low: float
    high: float


def around_errors(runs: Sequence[Run], *, needed: bool = True) -> list[Place]:
    """Return the means of every run that has token scores and marked errors.

    Args:
        runs: of any tasks.
        needed: raise an error where no run has both.

    Raises:
        NNDError: none has both, and one is needed; runs of a task rest on other error spans; or token scores are damaged.
    """
    first: dict[str, Run] = {}
    for run in runs:
        if run.spans and first.setdefault(run.task, run).spans != run.spans:
            raise NNDError(
                f"{first[run.task].path} and {run.path} rest on other error spans ({first[run.task].spans} and {run.spans}): "
                "run both on the same build of the set"
            )
    marked = [run for run in runs if any(any(document.get("error_spans") or ()) for document in run.documents)]
    found = [place for run in marked for place in _of_run(run)]
    if needed and not found:
        why = "none of these runs has token scores: run the task again with --metadata '{\"tokens\": true}'"
        what = "no set of these runs says which part of a text is wrong (MQM, Bio-MQM, PRMBench and LFQA do)"
        raise NNDError(why if marked else what)
    return found


def _of_run(run: Run) -> list[Place]:
    scores = run_tokens(run)
    if scores is None:
        return []
    own = {key: one.starts < one.ends for key, one in scores.items()}
    unigram = unigram_surprise(one.ids[own[key]].tolist() for key, one in scores.items() if key[2])
    sums: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for document in run.documents:
        name = document["cluster_id"]
        for candidate, errors in enumerate(document.get("error_spans") or ()):
            tokens = scores.get((name, candidate, True))
            if tokens is None or not errors:
                continue
            text = own[name, candidate, True]
            spans = np.stack([tokens.starts[text], tokens.ends[text]], axis=1).astype(np.int64)
            surprise = -tokens.logprobs[text].astype(np.float64)
            free = ~marked_tokens(spans, errors)
            excess = surprise - unigram(tokens.ids[text].tolist())
            for start, end in dict.fromkeys((error["start"], error["end"]) for error in errors):
                inside = np.flatnonzero(marked_tokens(spans, [{"start": start, "end": end}]))
                for place, which in _places(inside, free).items():
                    for value, numbers in (("surprise", surprise), ("excess", excess)):
                        one = numbers[which]
                        sums[value, place][name].append(
                            float(one[0] if len(one) == 1 else one.mean())
                        )  # .mean() is slow
    places = []
    for value in VALUES:
        for place in PLACES:
            by_prompt = list(sums[value, place].values())
            if by_prompt:
                mean = clustered_mean([sum(one) for one in by_prompt], [len(one) for one in by_prompt])
                errors = sum(map(len, by_prompt))
                places.append(Place(run.task, run.model, value, place, errors, mean.mean, mean.low, mean.high))
    return places


def _places(inside: NDArray[np.int64], free: NDArray[np.bool_]) -> dict[str, NDArray[np.int64]]:
    """Return place -> the tokens that are there.

    Args:
        inside: tokens of an error, ascending.
        free: whether each token of the text is part of no error, shape (tokens,).
    """
    if not len(inside):
        return {}
    first, last = inside[0], inside[-1]
    places = {"first": inside[:1], "middle": inside[1:-1], "last": inside[1:][-1:]}
    for n in range(1, SIDE + 1):
        for place, token in ((str(-n), first - n), (f"+{n}", last + n)):
            places[place] = np.array([token])[: int(0 <= token < len(free) and free[token])]
    return {place: which for place, which in places.items() if len(which)}


# ---------------------------------------------------------------- table and figure


def markdown(places: Sequence[Place]) -> str:
    """Return a table for each task: a row for each place, columns for each model."""
    lines = ["# Surprise around marked errors", ""]
    for task in dict.fromkeys(place.task for place in places):
        own = {(p.model, p.value, p.place): p for p in places if p.task == task}
        models = list(dict.fromkeys(model for model, _, _ in own))
        errors = max(p.errors for p in own.values())
        lines += [f"## {unlinked(task)}, {counted(errors, 'error')}", ""]
        head = ["token", *(f"{model}: {what}" for model in models for what in VALUES.values())]
        rows = [[place, *(_cell(own.get((m, value, place))) for m in models for value in VALUES)] for place in PLACES]
        lines += TextTable(head, rows).markdown()
    return "\n".join([*lines, CAPTION]) + "\n"


def _cell(place: Place | None) -> str:
    if place is None:
        return "-"
    interval = "" if place.low != place.low else f" [{number(place.low, 2)}, {number(place.high, 2)}]"
    return f"{number(place.mean, 2)}{interval}"


def draw(places: Sequence[Place]) -> Figure:
    """Return a figure with a panel for each task and value, a line for each model.

    Raises:
        NNDError: matplotlib is not installed.
    """
    tasks = list(dict.fromkeys(place.task for place in places))
    panels = []
    for task in tasks:
        for value, what in VALUES.items():
            own = [p for p in places if (p.task, p.value) == (task, value)]
            series = [_series([p for p in own if p.model == model]) for model in dict.fromkeys(p.model for p in own)]
            panels.append(Panel(what if len(tasks) == 1 else f"{task}: {what}", series))
    label = "tokens before, in and after an error"
    return draw_panels(
        panels, "Surprise around marked errors", label, columns=2, y_label="nats", chance=None, ticks=PLACES
    )


def _series(own: Sequence[Place]) -> Series:
    x, y = [PLACES.index(p.place) for p in own], [p.mean for p in own]
    return Series(own[0].model, x, y, [p.low for p in own], [p.high for p in own])


def write(places: Sequence[Place], folder: Path) -> list[Path]:
    """Write table (Markdown, CSV, JSON) and figure (PNG, SVG), all files or none; return the files.

    Raises:
        NNDError: the folder cannot be written, or matplotlib is not installed.
    """
    rows: list[dict[str, Any]] = [asdict(place) for place in places]
    figure = draw(places)
    files: dict[str, str | Figure] = {"md": markdown(places), "csv": csv_text(rows), "json": json_text(rows) + "\n"}
    files |= {"png": figure, "svg": figure}
    paths = {folder / f"around_errors.{ending}": content for ending, content in files.items()}
    save_files(paths)
    return list(paths)
