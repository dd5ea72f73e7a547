"""What the ``clean`` configs leave out, and how much of it a set has.

The ``authors`` configs keep what the publishers kept. Some of their tests say nothing about a model: the two texts are
equal, the same test comes again, or people disagreed about a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nnd_tasks.pairing import Contradiction, PairingReport
from nnd_tasks.schema import Test, fold

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


@dataclass(slots=True)
class Cleaning:
    """Result of `clean`.

    Attributes:
        tests: those that are kept, in their order.
        counts: reason -> number of tests of the full set that it holds for; one test can have several reasons.
        examples: reason -> the first few of these tests.
        contradictions: candidates with contradictory labels.
        both_sides: how many of these are the better candidate of one test and the worse of another.
    """

    tests: list[Test]
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Test]] = field(default_factory=dict)
    contradictions: Sequence[Contradiction] = ()
    both_sides: int = 0

    def report(self) -> dict[str, Any]:
        """Return counts and examples for ``build_report.json``."""
        reasons: dict[str, Any] = {
            reason: {"tests": count, "examples": [_shown(test) for test in self.examples[reason]]}
            for reason, count in self.counts.items()
        }
        reasons["contradictory"] |= {
            "candidates": len(self.contradictions),
            "candidates_on_both_sides_of_tests": self.both_sides,
            "candidate_examples": [
                {"context_id": _clip(one.context_id), "candidate": _clip(one.candidate), "labels": list(one.labels)}
                for one in self.contradictions[:EXAMPLES]
            ],
        }
        return {"kept": len(self.tests), "reasons": reasons}


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _shown(test: Test) -> dict[str, str]:
    shown = {name: getattr(test, name) for name in ("test_id", "context_id", "high", "low", "category")}
    return {name: _clip(value) for name, value in shown.items()}


def clean(tests: Iterable[Test], pairing: PairingReport) -> Cleaning:
    """Leave out the tests that hold for any of `REASONS`; of repeated ones the first stays.

    Args:
        tests: in the order of the source.
        pairing: what `form_tests` reported when it made them; it knows of contradictory labels.
    """
    checks: dict[str, Callable[[Test], bool]] = {
        "equal_texts": lambda test: fold(test.high) == fold(test.low),
        "repeated": _Repeats(),
        "contradictory": lambda test: test.test_id in pairing.contradicted,
        "empty": lambda test: not (test.high.strip() and test.low.strip()),
    }
    result = Cleaning([], dict.fromkeys(REASONS, 0), {reason: [] for reason in REASONS}, pairing.contradictions)
    sides: dict[tuple[str, str], set[str]] = {}
    for test in tests:
        reasons = [reason for reason, holds in checks.items() if holds(test)]
        for reason in reasons:
            result.counts[reason] += 1
            if len(result.examples[reason]) < EXAMPLES:
                result.examples[reason].append(test)
        if "contradictory" in reasons:
            sides.setdefault((test.cluster_id, fold(test.high)), set()).add("high")
            sides.setdefault((test.cluster_id, fold(test.low)), set()).add("low")
        if not reasons:
            result.tests.append(test)
    contradictory = {(one.cluster_id, fold(one.candidate)) for one in pairing.contradictions}
    result.both_sides = sum(len(sides.get(key, ())) == 2 for key in contradictory)
    return result


class _Repeats:
    """Tells whether a test came before."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, str, str]] = set()

    def __call__(self, test: Test) -> bool:
        key = (test.cluster_id, test.high, test.low, test.category)
        known = key in self._seen
        self._seen.add(key)
        return known
