"""The texts of a set with who wrote them, how people judged them, and the scores that models gave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.analysis.familiarity.effects import Effects, Floats
from nnd_tasks.analysis.side_by_side import Paired
from nnd_tasks.baselines import WRITERS, system_names
from nnd_tasks.errors import NNDError
from nnd_tasks.statistics import FEW

#: What texts are compared within: those of one prompt that people judged alike, or the better and the worse text of a test.
EQUAL, PAIRS = "equal judgements", "pairs"
_SIDES = ("high", "low")


@dataclass(frozen=True, eq=False)
class JudgedTexts:
    """What familiarity is estimated from.

    Attributes:
        paired: the runs, and their tests.
        systems: names of those who wrote the texts, sorted.
        prompts: number of the prompt of each test, shape (tests,).
        better: how much of the better text of each test is each system's, shape (tests, systems).
        worse: the same of the worse text.
        basis: `EQUAL`, or `PAIRS` where people only said which of two texts is better.
        effects: the least squares.
        rows: the texts that count, one row for each judgement: ``text``, ``prompt`` (numbers).
        shares: of the systems in them, shape (rows, systems).
        scores: their mean log-likelihood per token, in nats, shape (rows, models).
    """

    paired: Paired
    systems: list[str]
    prompts: np.ndarray[Any, np.dtype[np.int64]] = field(repr=False)
    better: Floats = field(repr=False)
    worse: Floats = field(repr=False)
    basis: str
    effects: Effects = field(repr=False)
    rows: pd.DataFrame = field(repr=False)
    shares: Floats = field(repr=False)
    scores: Floats = field(repr=False)


def judged_texts(paired: Paired, table: pd.DataFrame) -> JudgedTexts:
    """Return the texts of a set; its tests are those that all models scored.

    Args:
        paired: the runs.
        table: the tests of the set, as it is built here.

    Raises:
        NNDError: the set lacks a test of the runs, or no two texts of different systems can be compared.
    """
    unknown = set(paired.tests["test_id"]) - set(table["test_id"])
    if unknown:
        raise NNDError(f"{paired.runs[0].path}: {paired.set} has no test {min(unknown)}; the file is damaged")
    sides = _sides(paired, table.set_index("test_id").loc[paired.tests["test_id"]])
    systems, of_text = _shares(sides)
    finite = sides[list(range(len(paired.runs)))].notna().all(axis=1)
    written = sides[of_text[sides["text"]].any(axis=1) & finite]
    basis, rows = EQUAL, written.drop_duplicates(["text", "stratum"])
    counted = Effects(rows["prompt"], rows["stratum"], of_text[rows["text"]]).counted
    if not written["judged"].all() or rows["prompt"][counted].nunique() < FEW:
        basis, rows = PAIRS, written.assign(stratum=written["test"])
        counted = Effects(rows["prompt"], rows["stratum"], of_text[rows["text"]]).counted
    rows = rows[counted]
    if rows.empty:
        raise NNDError(f"{paired.set}: no two texts of different systems can be compared")
    weights = more = None
    if basis == EQUAL:  # a text that was judged in several respects counts once
        weights = 1 / rows.groupby("text")["stratum"].transform("size").to_numpy()
    else:
        more = rows["better"].to_numpy(dtype=np.float64)[:, None]
    shares = of_text[rows["text"]]
    better, worse = np.split(of_text[sides["text"]], 2)
    return JudgedTexts(
        paired=paired,
        systems=systems,
        prompts=sides["prompt"].to_numpy()[: len(better)],
        better=better,
        worse=worse,
        basis=basis,
        effects=Effects(rows["prompt"], rows["stratum"], shares, weights, more),
        rows=rows[["text", "prompt"]],
        shares=shares,
        scores=rows[list(range(len(paired.runs)))].to_numpy(dtype=np.float64),
    )


def _sides(paired: Paired, about: pd.DataFrame) -> pd.DataFrame:
    """Return two rows per test, of all better texts and then of all worse ones, in the order of the tests.

    Columns are ``test``, ``text``, ``prompt`` and ``stratum`` (numbers), ``writer``, ``better``, ``judged`` (whether the set
    says how the text was judged) and the number of each run, with the score that it gave.
    """
    ids = paired.tests["test_id"]
    logged = [run.tests.set_index("test_id").loc[ids] for run in paired.runs]
    parts = []
    for side, writer in zip(_SIDES, WRITERS, strict=True):
        judged = _judgements(about, side)
        part = pd.DataFrame(
            {
                "test": np.arange(len(ids)),
                "document": logged[0]["document"].to_numpy(),
                "candidate": logged[0][side].to_numpy(),
                "prompt": pd.factorize(paired.tests["cluster_id"], sort=True)[0],
                "context_id": about["context_id"].to_numpy(),
                "category": about["category"].to_numpy(),
                # A test says of the worse text only how severe its error is.
                "severity": paired.tests["severity"].to_numpy() if side == "low" else "",
                "judgement": judged.fillna("").to_numpy(),
                "judged": judged.notna().to_numpy(),
                "better": side == "high",
                "writer": about[writer].fillna("").to_numpy(),
            }
        )
        for i, (run, tests) in enumerate(zip(paired.runs, logged, strict=True)):
            places = zip(tests["document"], tests[side], strict=True)
            part[i] = [run.documents[document]["scores"][candidate]["mean"] for document, candidate in places]
        parts.append(part)
    sides = pd.concat(parts, ignore_index=True)
    judgement = ["prompt", "context_id", "category", "severity", "judgement"]
    return sides.assign(
        text=sides.groupby(["document", "candidate"], sort=False).ngroup(),
        stratum=sides.groupby(judgement, sort=False).ngroup(),
    )


def _judgements(about: pd.DataFrame, side: str) -> pd.Series[str]:
    """Return the score that people gave the texts of one side, or else the label; missing where the set has neither."""
    scores, labels = (about.get(f"{side}_{kind}", pd.Series(None, index=about.index)) for kind in ("score", "label"))
    texts = scores.astype(float).map("{:.9g}".format, na_action="ignore").astype(object)
    return texts.where(scores.notna(), labels.replace("", None))


def _shares(sides: pd.DataFrame) -> tuple[list[str], Floats]:
    """Return the names of all systems, and how much of each text is whose, shape (texts, systems).

    A text that several systems wrote alike belongs to each of them by an equal part.
    """
    writers: dict[int, set[str]] = {}
    for text, writer in zip(sides["text"], sides["writer"], strict=True):
        writers.setdefault(text, set()).update(system_names(writer))
    systems = sorted(set().union(*writers.values()))
    shares = np.zeros((len(writers), len(systems)))
    for text, names in writers.items():
        for name in names:
            shares[text, systems.index(name)] = 1 / len(names)
    return systems, shares
