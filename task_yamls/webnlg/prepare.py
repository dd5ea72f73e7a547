"""WebNLG+ 2020: means of marks per system and sample; the text is a line of the submission, the triples are an HTML table."""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_json, read_records

CRITERIA = ["Correctness", "DataCoverage", "Fluency", "Relevance", "TextStructure"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per text and criterion; people's own texts were judged too, and are no submission."""
    human = folder / "evaluation/human-evaluation"
    tables = read_json(human / "amt-scripts/data/en/tables/tables_xml.json")
    paths = folder.glob("submissions/*/*/*/primary.en")
    texts = {path.parent.name: path.read_text("utf-8").split("\n") for path in paths}
    return pd.DataFrame(
        {
            "context": read_triples(tables[score["sample_id"]]),
            "candidate": texts[score["submission_id"]][int(score["sample_id"]) - 1],
            "system": score["submission_id"],
            "category": score["category"],
            "attribute": criterion,
            "score": score[criterion],
            "where": score.where,
        }
        for score in read_records(human / "results/en/english_humeval_data_all_teams.json")
        if score["submission_id"] in texts
        for criterion in CRITERIA
    )


def read_triples(table: str) -> str:
    """Return the triples of an HTML table, a line each."""
    cells = re.findall('<td class="tg-0lax">(.*?)</td>', table, re.DOTALL)
    return "\n".join(" | ".join(cells[start : start + 3]) for start in range(0, len(cells), 3))
