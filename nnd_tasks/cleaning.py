"""Which tests the ``clean`` configs leave out, and how many of them a set has.

The ``authors`` configs keep all tests that the publishers kept. Some of these tests say nothing about a model: the two texts
are equal, the same test occurs again, or people disagreed about a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nnd_tasks.codes import Index, Mask, combine
from nnd_tasks.judgements import Judgements
from nnd_tasks.pairing import Pairs
from nnd_tasks.qualities import Candidates
from nnd_tasks.schema import fold, normalize

EXAMPLES = 3
_SHOWN = 100  # characters of an example's text

#: Reason -> what it says of a test, for the card.
REASONS: Mapping[str, str] = {
    "equal_texts": "its two texts are equal in Unicode NFC (white space does not count where the recipe has `fold_space`)",
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


def clean(
    table: pa.Table,
    contradictory: Mask | None = None,
    candidates: Mapping[str, Any] | None = None,
    *,
    fold_space: bool = False,
) -> Cleaning:
    """Find the tests to leave out for one of `REASONS`; of repeated tests the first stays.

    Args:
        table: the tests, in the order of the source.
        contradictory: whether a candidate of each test was judged both good and bad; None if no candidate was.
        candidates: what `contradictions` reports about these candidates.
        fold_space: whether texts that differ only in white space are equal.
    """
    equal = fold if fold_space else normalize
    columns = {name: table.column(name).to_pylist() for name in ("cluster_id", "high", "low", "category")}
    high, low = columns["high"], columns["low"]
    seen: set[tuple[str, ...]] = set()
    repeated = []
    for key in zip(*columns.values(), strict=True):
        repeated.append(key in seen)
        seen.add(key)
    holds: dict[str, Mask] = {
        "equal_texts": np.array([equal(a) == equal(b) for a, b in zip(high, low, strict=True)], dtype=bool),
        "repeated": np.array(repeated, dtype=bool),
        "contradictory": np.zeros(len(high), dtype=bool) if contradictory is None else contradictory,
        "empty": np.array([not (a.strip() and b.strip()) for a, b in zip(high, low, strict=True)], dtype=bool),
    }
    keep = ~np.logical_or.reduce(list(holds.values()))
    reasons: dict[str, Any] = {
        reason: {"tests": int(tests.sum()), "examples": _examples(table, tests)} for reason, tests in holds.items()
    }
    reasons["contradictory"] |= candidates or dict.fromkeys(("candidates", "candidates_on_both_sides_of_tests"), 0) | {
        "candidate_examples": []
    }
    return Cleaning(keep, {"kept": int(keep.sum()), "reasons": reasons})


def _examples(table: pa.Table, tests: Mask) -> list[dict[str, str]]:
    """Return the first few of the marked tests."""
    names = ["test_id", "context_id", "high", "low", "category"]
    rows = table.select(names).take(np.flatnonzero(tests)[:EXAMPLES]).to_pylist()
    return [{name: _clip(row[name]) for name in names} for row in rows]


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def contradictions(judgements: Judgements, candidates: Candidates, pairs: Pairs) -> tuple[Mask, dict[str, Any]]:
    """Find the tests with a candidate that was judged both good and bad for one prompt, and count these candidates.

    Returns:
        Whether each test has one, shape (tests,); and what a report says about the candidates.
    """
    wrong, number = _contradicted(judgements, candidates)
    tests = wrong[pairs.high] | wrong[pairs.low]
    first = np.unique(number[wrong], return_index=True)[1]
    places = np.sort(np.flatnonzero(wrong)[first])
    return tests, {
        "candidates": len(places),
        "candidates_on_both_sides_of_tests": _both_sides(judgements, candidates, pairs, tests, wrong),
        "candidate_examples": [
            _contradiction(judgements, candidates, int(place), number) for place in places[:EXAMPLES]
        ],
    }


def _contradicted(judgements: Judgements, candidates: Candidates) -> tuple[Mask, Index]:
    """Find the candidates that were judged both good and bad for one prompt and aspect.

    Returns:
        Whether each candidate was, shape (candidates,); and the number of its (prompt, aspect, text).
    """
    text = judgements.texts["candidate"].shared(candidates.text)
    number, first = combine(candidates.prompt, candidates.aspect, text)
    worst, best = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(worst, number, candidates.quality)
    np.maximum.at(best, number, candidates.quality)
    return (best - worst >= candidates.gap)[number], number


def _both_sides(judgements: Judgements, candidates: Candidates, pairs: Pairs, tests: Mask, wrong: Mask) -> int:
    """Return how many contradictory candidates are the better one of one test and the worse one of another."""
    key, _ = combine(candidates.prompt, judgements.texts["candidate"].shared(candidates.text))
    sides = np.intersect1d(key[pairs.high[tests]], key[pairs.low[tests]])
    return len(np.intersect1d(sides, key[wrong]))


def _contradiction(judgements: Judgements, candidates: Candidates, place: int, number: Index) -> dict[str, Any]:
    same_text = np.flatnonzero(number == number[place])
    labels = [f"{value:g}" for value in candidates.quality[same_text].tolist()]
    if candidates.label is not None:
        known = zip(candidates.label[same_text].tolist(), labels, strict=True)
        labels = [judgements.texts["label"].texts[code] if code >= 0 else value for code, value in known]
    groups = judgements.groups if judgements.groups is not None else judgements.prompts.ids
    text = candidates.text[place]
    return {
        "context_id": _clip(groups[int(candidates.group[place])]),
        "candidate": _clip(judgements.texts["candidate"].texts[text] if text >= 0 else ""),
        "labels": list(dict.fromkeys(labels)),
    }
