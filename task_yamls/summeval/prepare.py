"""SummEval: three experts rate each summary on four attributes; the authors take every second row."""

from pathlib import Path

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.tables.read import read_records

ATTRIBUTES = ["consistency", "coherence", "fluency", "relevance"]
#: Where the file has no articles, they are taken from here.
ARTICLES = "abisee/cnn_dailymail"


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per attribute and summary, of the authors' half and of all rows."""
    summaries = list(read_records(folder / "model_annotations.aligned.paired.jsonl"))
    articles = {} if all("text" in summary for summary in summaries) else load_articles()
    table = pd.DataFrame(
        {
            "id": summary["id"],
            "context": summary["text"] if "text" in summary else articles[summary["id"].rsplit("-", 1)[-1]],
            "candidate": summary["decoded"],
            "system": summary["model_id"],
            "where": summary.where,
            **{attribute: [expert[attribute] for expert in summary["expert_annotations"]] for attribute in ATTRIBUTES},
        }
        for summary in summaries
    )
    parts = [
        part.assign(config=config, attribute=attribute, score=part[attribute], group=part["id"] + "/" + attribute)
        for config, part in (("authors", table[1::2]), ("all_rows", table))
        for attribute in ATTRIBUTES
    ]
    return pd.concat(parts).drop(columns=["id", *ATTRIBUTES])


def judgements(folder: Path) -> pd.DataFrame:
    """Return the rows of the experts, and those of the crowd, a panel of its own; one system's texts have no crowd."""
    crowd = {
        summary.where: {name: [worker[name] for worker in summary["turker_annotations"]] for name in ATTRIBUTES}
        for summary in read_records(folder / "model_annotations.aligned.paired.jsonl")
        if summary.get("turker_annotations")
    }
    experts = rows(folder)
    other = experts[experts["where"].isin(crowd)]
    scores = [crowd[where][name] for where, name in zip(other["where"], other["attribute"], strict=True)]
    return pd.concat([experts.assign(panel="experts"), other.assign(panel="crowd", score=scores)])


def load_articles() -> dict[str, str]:
    """Return id -> article of the test split of CNN/DailyMail."""
    import datasets

    try:
        data = datasets.load_dataset(ARTICLES, "3.0.0", split="test")
    except Exception as error:
        raise NNDError(
            f"the annotations come without their articles, and {ARTICLES} cannot be loaded ({error})"
        ) from error
    return dict(zip(data["id"], data["article"], strict=True))
