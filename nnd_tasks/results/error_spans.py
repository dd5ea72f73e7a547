"""How surprising the tokens before, in and after marked errors are to each model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.results.runs import Run
from nnd_tasks.results.token_files import run_tokens
from nnd_tasks.show.report import Report, Table, file_stem
from nnd_tasks.statistics import clustered_mean
from nnd_tasks.task.span_metrics import marked_tokens, unigram_surprise

#: Tokens that are looked at on each side of an error.
SIDE = 5
#: Places of tokens: before an error, in it, after it. An error of one token has a first one only, and of two no middle.
PLACES = (*(f"{n:+}" for n in range(-SIDE, 0)), "first", "middle", "last", *(f"{n:+}" for n in range(1, SIDE + 1)))
#: What is averaged -> how it is called.
VALUES = {"surprise": "surprise", "excess": "surprise less that of frequency"}
CAPTION = (
    "Surprise: -log p of a token in nats, averaged over the marked errors, by its place: tokens before an error, "
    "its first token, the mean of its middle ones, its last, and tokens after it. Tokens of other errors are left out. The "
    "excess is less the surprise to a model that only knows how often each token occurs in the texts of the run. "
    "Intervals (95%) are Student's, clustered by prompt."
)


def around_errors(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the mean surprise at each place around marked errors.

    Runs without token scores or marked errors have no rows, nor have those of a task whose runs rest on different error spans.

    Returns:
        One row per ``place``, in the order of `PLACES`, ``task``, ``model`` and ``value`` (a key of `VALUES`): ``errors`` (how
        many have such a token), ``mean`` in nats, and ``low`` and ``high``, its 95% interval clustered by prompt; nan where
        there is none.

    Raises:
        NNDError: token scores are damaged.
    """
    builds = Counter(task for task, _ in {(run.task, run.spans) for run in runs if run.spans})
    rows = [row for run in runs if builds[run.task] < 2 for row in _read_errors(run)]
    about = ["task", "model", "value", "prompt"]
    numbers = pd.DataFrame(rows, columns=[*about, *PLACES]).melt(about, var_name="place", value_name="nats").dropna()
    group = ["task", "model", "value", "place"]
    sums = numbers.groupby([*group, "prompt"], sort=False)["nats"].agg(["sum", "size"])
    means = []
    for names, prompts in sums.groupby(group, sort=False):
        mean = clustered_mean(prompts["sum"], prompts["size"])
        means.append((*names, prompts["size"].sum(), mean.mean, mean.low, mean.high))
    return pd.DataFrame(means, columns=[*group, "errors", "mean", "low", "high"])


def _read_errors(run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield task, model, value and prompt of each error, and its numbers at `PLACES`."""
    marked = [document for document in run.documents if any(document.get("error_spans") or ())]
    scores = (run_tokens(run) if marked else None) or {}
    own = {key: one.starts < one.ends for key, one in scores.items()}
    unigram = unigram_surprise(one.ids[own[key]] for key, one in scores.items() if key[2])
    for document in marked:
        prompt = document["cluster_id"]
        for candidate, errors in enumerate(document["error_spans"]):
            key = (prompt, candidate, True)
            if key not in scores or not errors:
                continue
            tokens, text = scores[key], own[key]
            spans = np.stack([tokens.starts[text], tokens.ends[text]], axis=1).astype(np.int64)
            surprise = -tokens.logprobs[text].astype(np.float64)
            free = ~marked_tokens(spans, errors)
            for start, end in dict.fromkeys((error["start"], error["end"]) for error in errors):
                inside = np.flatnonzero(marked_tokens(spans, [{"start": start, "end": end}]))
                if inside.size:
                    for value, nats in {"surprise": surprise, "excess": surprise - unigram(tokens.ids[text])}.items():
                        yield run.task, run.model, value, prompt, *_take_places(nats, inside, free)


def _take_places(values: NDArray[np.float64], inside: NDArray[np.int64], free: NDArray[np.bool_]) -> list[float]:
    """Return the numbers at `PLACES`; nan where there is no such token.

    Args:
        values: of the tokens of a text, shape (tokens,).
        inside: places of the tokens of an error, ascending, at least one.
        free: whether each token is part of no error, shape (tokens,).
    """
    around = np.pad(np.where(free, values, np.nan), SIDE, constant_values=np.nan)
    before, after = inside[0], inside[-1] + 1 + SIDE
    first, *middle = values[inside]
    last = middle.pop() if middle else np.nan
    mean = np.mean(middle) if middle else np.nan
    return [*around[before : before + SIDE], first, mean, last, *around[after : after + SIDE]]


def report_spans(around: pd.DataFrame) -> Report:
    """Return what `around_errors` found, as a table for each task.

    Args:
        around: at least one row.
    """
    columns = {"token": "{place}", "{model}: {value}": "{mean:.2f} [{low:.2f}, {high:.2f}]"}
    return Report(
        name="around_errors",
        title="Surprise around marked errors",
        tables=[Table(file_stem(task), rows, columns, caption=task) for task, rows in around.groupby("task")],
        notes=[CAPTION],
    )
