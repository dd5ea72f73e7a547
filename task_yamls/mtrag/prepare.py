"""MTRAG: questions in dialogues about passages, three answers each, and the scores of raters; all in one JSON object."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_json

DIMENSIONS = ["faithfulness", "appropriateness", "naturalness", "completeness"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per answer and dimension."""
    return judgements(folder).drop(columns="rater")


def judgements(folder: Path) -> pd.DataFrame:
    """Return the same with the numbers of the raters beside their scores."""
    data = read_json(folder / "reference_subset_with_human_evaluations.json")
    passages = {passage["document_id"]: passage["text"] for passage in data["documents"]}
    tasks = {task["task_id"]: task for task in data["tasks"]}
    return pd.DataFrame(
        {
            "group": answer["task_id"],
            "context": "\n\n".join(
                [passages[one["document_id"]] for one in task["contexts"]] + write_turns(task["input"][:-1])
            ),
            "question": task["input"][-1]["text"],
            "candidate": answer["model_response"],
            "system": answer["model_id"],
            "attribute": dimension,
            "score": [rating["value"] for rating in answer["annotations"][dimension].values()],
            "rater": [*answer["annotations"][dimension]],
            "where": f"evaluation {number}",
        }
        for number, answer in enumerate(data["evaluations"], start=1)
        for task in [tasks[answer["task_id"]]]
        for dimension in DIMENSIONS
    )


def write_turns(turns: list[dict]) -> list[str]:
    """Return the turns of a dialogue with their speakers."""
    return [f"{turn['speaker'].title()}: {turn['text']}" for turn in turns]
