"""WebNLG+ 2020: means of marks per system and sample; the text is a line of the submission, the triples are an HTML table."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_json, read_records

HUMAN, RESULTS = "evaluation/human-evaluation", "results/en"
CRITERIA = ["Correctness", "DataCoverage", "Fluency", "Relevance", "TextStructure"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per text and criterion; people's own texts were judged too, and are no submission."""
    return pd.DataFrame(
        describe(folder, read_records(folder / HUMAN / RESULTS / "english_humeval_data_all_teams.json"))
    )


def judgements(folder: Path) -> pd.DataFrame | None:
    """Return a row per text, criterion and rater, where the files of single marks are there."""
    marks = (
        {**given, "sample_id": sample, "submission_id": path.parent.name, "rater": rater, "category": ""}
        for path in sorted(folder.glob(f"{HUMAN}/{RESULTS}/*/primary.json"))
        for sample, raters in read_json(path).items()
        for rater, given in raters.items()
    )
    return pd.DataFrame(describe(folder, marks)) if any(folder.glob(f"{HUMAN}/{RESULTS}/*/primary.json")) else None


def describe(folder: Path, scores: Iterable[dict]) -> Iterator[dict]:
    """Yield a row for each criterion of scores of texts."""
    tables = read_json(folder / HUMAN / "amt-scripts/data/en/tables/tables_xml.json")
    paths = folder.glob("submissions/*/*/*/primary.en")
    texts = {path.parent.name: path.read_text("utf-8").split("\n") for path in paths}
    for score in scores:
        if score["submission_id"] not in texts:
            continue
        for criterion in CRITERIA:
            yield {
                "context": read_triples(tables[score["sample_id"]]),
                "candidate": texts[score["submission_id"]][int(score["sample_id"]) - 1],
                "system": score["submission_id"],
                "category": score["category"],
                "attribute": criterion,
                "score": score[criterion],
                **({"rater": score["rater"]} if "rater" in score else {"where": score.where}),
            }


def read_triples(table: str) -> str:
    """Return the triples of an HTML table, a line each."""
    cells = re.findall('<td class="tg-0lax">(.*?)</td>', table, re.DOTALL)
    return "\n".join(" | ".join(cells[start : start + 3]) for start in range(0, len(cells), 3))
