"""What people said of each system's outputs, read from the publishers' files of Quiz Design and SummEval."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.read import Record, naming_place, read_records

ERRORS = ("disfluent", "off_target", "wrong_context")
ATTRIBUTES = ("consistency", "coherence", "fluency", "relevance")
#: The label of a question that teachers accepted.
NO_ERROR = "No error"


def read_quiz_design(path: Path, systems: Collection[str]) -> pd.DataFrame:
    """Return a row per system and question: prompt, model, accepted, and of each of `ERRORS` whether the question lacks it.

    A question that several systems wrote counts for each of them.

    Args:
        path: the publisher's file.
        systems: names of the systems.

    Raises:
        NNDError: the file is not in the publisher's format, has an unknown label, or has no question of a system.
    """
    with naming_place(path):
        rows = [
            {"prompt": f"{group['context']}\n{group['answer_span']}", "model": model, **_grade(question, group.where)}
            for group in read_records(path)
            for question in group["questions"]
            for model in question["model_name"].split("|")
            if model in systems
        ]
    return _tabulate(rows, systems, path)


def _grade(question: Mapping[str, str], where: str) -> dict[str, bool]:
    label = question["reason"]
    if label not in (known := (NO_ERROR, *ERRORS)):
        raise NNDError(f"{where}: unknown label {label!r}; the labels are {', '.join(known)}")
    return {"accepted": label == NO_ERROR, **{error: label != error for error in ERRORS}}


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
        rows = [_read_summary(record) for record in read_records(path) if record["model_id"] in systems]
    return _tabulate(rows, systems, path)


def _read_summary(record: Record) -> dict[str, Any]:
    reference = next(iter(record["references"]), None)
    if not isinstance(reference, str) or not reference.strip():
        raise NNDError(f"{record.where}, field 'references': its first reference is missing or empty")
    ratings = pd.DataFrame(record["expert_annotations"], columns=ATTRIBUTES)
    if ratings.empty or not ((ratings >= 1) & (ratings <= 5)).all(axis=None):
        raise NNDError(
            f"{record.where}, field 'expert_annotations': expected ratings of 1 to 5 of {', '.join(ATTRIBUTES)}"
        )
    known = {"prompt": "id", "model": "model_id", "text": "decoded"}
    texts = {name: record[field] for name, field in known.items()}
    return {**texts, "source": record.get("text", ""), "reference": reference, **ratings.mean()}


def _tabulate(rows: Sequence[Mapping[str, Any]], systems: Collection[str], path: Path) -> pd.DataFrame:
    present = {row["model"] for row in rows}
    if lacking := [name for name in systems if name not in present]:
        raise NNDError(f"{path}: nothing of {', '.join(lacking)} is in it; is it the publisher's whole file?")
    return pd.DataFrame(rows)


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
