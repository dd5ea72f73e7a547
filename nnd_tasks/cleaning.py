"""What the ``clean`` configs leave out, and how much of it a set has.

The ``authors`` configs keep what the publishers kept. Some of their tests say nothing about a model: the two texts are
equal, the same test comes again, or people disagreed about a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nnd_tasks.codes import Index, Mask, combine
from nnd_tasks.pairing import Candidates, Judgements, Pairs, contradicted
from nnd_tasks.schema import fold

EXAMPLES = 3
_SHOWN = 100  # characters of an example's text

#: Reason -> what it says of a test, for the card.
REASONS: Mapping[str, str] = {
    "equal_texts": "its two texts are equal (Unicode NFC, white space folded)",
    "repeated": "an earlier test has the same prompt, texts and category",
    "contradictory": "a candidate of it was judged both good and bad for the same prompt",
    "empty": "a candidate of it is empty or white space",
}


def clean_name(config: str) -> str:
    """Return the name of the clean variant of a config: ``authors`` -> ``clean``, ``cnn`` -> ``cnn_clean``."""
    return "clean" if config == "authors" else f"{config}_clean"


@dataclass(frozen=True)
class Cleaning:
    """What a clean config keeps, and why the rest is left out.

    Attributes:
        keep: whether each test is kept, shape (tests,).
        report: counts and examples for ``build_report.json``.
    """

    keep: Mask
    report: dict[str, Any]


def clean(table: pa.Table, contradictory: Mask | None = None, candidates: Mapping[str, Any] | None = None) -> Cleaning:
    """Find the tests that hold for any of `REASONS`; of repeated ones the first stays.

    Args:
        table: the tests, in the order of the source.
        contradictory: whether a candidate of each test was judged both good and bad; None for none.
        candidates: what `contradictions` reports of these candidates.
    """
    columns = {name: table.column(name).to_pylist() for name in ("cluster_id", "high", "low", "category")}
    high, low = columns["high"], columns["low"]
    seen: set[tuple[str, ...]] = set()
    repeated = []
    for key in zip(*columns.values(), strict=True):
        repeated.append(key in seen)
        seen.add(key)
    holds: dict[str, Mask] = {
        "equal_texts": np.array([a == b or fold(a) == fold(b) for a, b in zip(high, low, strict=True)], dtype=bool),
        "repeated": np.array(repeated, dtype=bool),
        "contradictory": np.zeros(len(high), dtype=bool) if contradictory is None else contradictory,
        "empty": np.array([not (a.strip() and b.strip()) for a, b in zip(high, low, strict=True)], dtype=bool),
    }
    keep = ~np.logical_or.reduce(list(holds.values()))
    reasons: dict[str, Any] = {
        reason: {"tests": int(found.sum()), "examples": _examples(table, found)} for reason, found in holds.items()
    }
    reasons["contradictory"] |= candidates or dict.fromkeys(("candidates", "candidates_on_both_sides_of_tests"), 0) | {
        "candidate_examples": []
    }
    return Cleaning(keep, {"kept": int(keep.sum()), "reasons": reasons})


def _examples(table: pa.Table, found: Mask) -> list[dict[str, str]]:
    names = ["test_id", "context_id", "high", "low", "category"]
    rows = table.select(names).take(np.flatnonzero(found)[:EXAMPLES]).to_pylist()
    return [{name: _clip(row[name]) for name in names} for row in rows]


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def contradictions(found: Judgements, candidates: Candidates, pairs: Pairs) -> tuple[Mask, dict[str, Any]]:
    """Tell which tests use a candidate that was judged both good and bad for one prompt, and count these candidates.

    Returns:
        Shape (tests,), and what a report says of the candidates.
    """
    wrong, number = contradicted(found, candidates)
    tests = wrong[pairs.high] | wrong[pairs.low]
    first = np.unique(number[wrong], return_index=True)[1]
    places = np.sort(np.flatnonzero(wrong)[first])
    return tests, {
        "candidates": len(places),
        "candidates_on_both_sides_of_tests": _both_sides(found, candidates, pairs, tests, wrong),
        "candidate_examples": [_contradiction(found, candidates, int(place), number) for place in places[:EXAMPLES]],
    }


def _both_sides(found: Judgements, candidates: Candidates, pairs: Pairs, tests: Mask, wrong: Mask) -> int:
    """Return how many contradictory candidates are the better one of one test and the worse one of another."""
    text = np.append(found.texts["candidate"].folded(), -1)[candidates.text]
    key, _ = combine(candidates.prompt, text)
    sides = np.intersect1d(key[pairs.high[tests]], key[pairs.low[tests]])
    return len(np.intersect1d(sides, key[wrong]))


def _contradiction(found: Judgements, candidates: Candidates, place: int, number: Index) -> dict[str, Any]:
    alike = np.flatnonzero(number == number[place])
    labels = [f"{value:g}" for value in candidates.quality[alike].tolist()]
    if candidates.label is not None:
        known = zip(candidates.label[alike].tolist(), labels, strict=True)
        labels = [found.texts["label"].texts[code] if code >= 0 else number for code, number in known]
    groups = found.groups if found.groups is not None else found.prompts.ids
    text = candidates.text[place]
    return {
        "context_id": _clip(groups[int(candidates.group[place])]),
        "candidate": _clip(found.texts["candidate"].texts[text] if text >= 0 else ""),
        "labels": list(dict.fromkeys(labels)),
    }
