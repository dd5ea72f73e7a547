"""UKPConvArg1: pairs of arguments on one side of a debate, and which of them five workers find more convincing; XML."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per pair; its label tells whether four workers or more are for one argument."""
    found = []
    for known, texts, votes in read_votes(folder):
        values = [*votes.values()]
        better, worse = ("a1", "a2") if values.count("a1") > values.count("a2") else ("a2", "a1")
        label = "sure" if values.count(better) >= 4 else "fewer than four votes"
        found.append({**known, "chosen": texts[better], "rejected": texts[worse], "label": label})
    return pd.DataFrame(found)


def judgements(folder: Path) -> pd.DataFrame:
    """Return a row per vote; workers have numbers for names."""
    found = pd.DataFrame(
        {**known, "chosen": texts.get(value, texts["a1"]), "rejected": texts["a1" if value == "a2" else "a2"],
         "label": "sure", "rater": worker, "score": float(value != "equal")}
        for known, texts, votes in read_votes(folder) for worker, value in votes.items()
    )  # fmt: skip
    return found.assign(rater=[f"worker {number}" for number in pd.factorize(found["rater"])[0]])


def read_votes(folder: Path) -> Iterator[tuple[dict, dict, dict]]:
    """Yield what is known of a pair, its texts, and the votes by worker."""
    for path in sorted(folder.glob("*.xml")):
        for pair in ElementTree.parse(path).iter("annotatedArgumentPair"):  # noqa: S314
            debate, side = pair.findtext("debateMetaData/title"), pair.findtext("arg1/stance")
            known = {"context": f"{debate}\n{side}", "category": debate, "subcategory": side}
            texts = {"a1": pair.findtext("arg1/text"), "a2": pair.findtext("arg2/text")}
            votes = {vote.findtext("turkID"): vote.findtext("value") for vote in pair.iter("mTurkAssignment")}
            yield {**known, "where": f"{path.name}, {pair.findtext('id')}"}, texts, votes
