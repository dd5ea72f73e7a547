"""What people said of each system's outputs, read from the publishers' files of Quiz Design and SummEval."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.read import naming_place, read_records

ERRORS = ("disfluent", "off_target", "wrong_context")
ATTRIBUTES = ("consistency", "coherence", "fluency", "relevance")


def read_quiz_design(path: Path, systems: Collection[str]) -> pd.DataFrame:
    """Return a row per system and question: prompt, model, and of each of `ERRORS` whether the question lacks it.

    A question that several systems wrote counts for each of them.

    Args:
        path: the publisher's file.
        systems: names of the systems.

    Raises:
        NNDError: the file is not in the publisher's format, or has no question of a system.
    """
    with naming_place(path):
        rows = [
            {
                "prompt": f"{group['context']}\n{group['answer_span']}",
                "model": model,
                **{error: question["reason"] != error for error in ERRORS},
            }
            for group in read_records(path)
            for question in group["questions"]
            for model in question["model_name"].split("|")
        ]
    return _select(pd.DataFrame(rows), systems, path)


def read_summeval(path: Path, systems: Collection[str]) -> pd.DataFrame:
    """Return a row per summary: prompt (the article's id), model, text, its source and first reference, mean expert ratings.

    Args:
        path: the publisher's file.
        systems: names of the systems.

    Returns:
        Ratings of `ATTRIBUTES`, 1 to 5; the source is "" where the file has none; the reference is CNN/DailyMail's own.

    Raises:
        NNDError: the file is not in the publisher's format, or has no summary of a system.
    """
    with naming_place(path):
        rows = [
            {
                "prompt": record["id"],
                "model": record["model_id"],
                "text": record["decoded"],
                "source": record.get("text", ""),
                "reference": record["references"][0],
                **{name: fmean(expert[name] for expert in record["expert_annotations"]) for name in ATTRIBUTES},
            }
            for record in read_records(path)
        ]
    return _select(pd.DataFrame(rows), systems, path)


def _select(outputs: pd.DataFrame, systems: Collection[str], path: Path) -> pd.DataFrame:
    if lacking := [name for name in systems if name not in set(outputs["model"])]:
        raise NNDError(f"{path}: nothing of {', '.join(lacking)} is in it; is it the publisher's whole file?")
    return outputs[outputs["model"].isin(systems)]


def add_up(outputs: pd.DataFrame, models: Sequence[str], columns: Sequence[str]) -> NDArray[np.float64]:
    """Return sums of scores per prompt, so that prompts can be resampled without scoring again.

    Args:
        outputs: a row per output: prompt (what all models were given), model, and scores.
        models: names.
        columns: names of the scores.

    Returns:
        Shape (prompts, models, columns + 1), the last being the number of outputs; prompts in the order of their first output.
    """
    sums = outputs[[*columns]].astype(float).assign(outputs=1.0).groupby([outputs["prompt"], outputs["model"]]).sum()
    every = pd.MultiIndex.from_product([outputs["prompt"].unique(), models])
    return np.asarray(sums.reindex(every, fill_value=0.0)).reshape(-1, len(models), len(columns) + 1)
