"""What to know before one reads a pass rate: trivial rules, near ties, normalization, and reliance on the context."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nnd_tasks.datasets import find_dataset, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.markdown import cell
from nnd_tasks.tables import fingerprint

if TYPE_CHECKING:
    import pandas as pd

    from nnd_tasks.analysis.results import Run

ALL = "all"
#: Margins (nats per token) below which rounding may decide.
NEAR = 1e-6
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def overlap(text: str, context: str) -> float:
    """Return the share of a text's words that the context has; 0 without words."""
    found = words(text)
    known = set(words(context))
    return sum(word in known for word in found) / len(found) if found else 0.0


class Unigrams:
    """Maximum-likelihood word frequencies of some texts.

    Args:
        texts: those of the set that is looked at, so that every word is known.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts = Counter(word for text in texts for word in words(text))
        self._total = sum(self._counts.values())

    def mean(self, text: str) -> float:
        """Return the mean log-likelihood per word, in nats; -inf without words or with an unknown one."""
        found = words(text)
        if not found or any(word not in self._counts for word in found):
            return -math.inf
        return sum(math.log(self._counts[word] / self._total) for word in found) / len(found)


#: Rule -> what it does: each prefers one of two candidates without understanding either.
RULES: Mapping[str, str] = {
    "shorter": "the shorter candidate wins (characters)",
    "longer": "the longer candidate wins (characters)",
    "overlap": "the candidate with the larger share of words from the context wins",
    "unigram": "the candidate with the higher mean word frequency in the set's own candidates wins (log-likelihood per word)",
}


def trivial_passes(
    pairs: Sequence[tuple[str, str, str]], texts: Sequence[str] | None = None
) -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Tell which tests each rule of `RULES` passes; a tie fails, as for a model.

    Args:
        pairs: (context, better candidate, worse candidate) of each test.
        texts: distinct candidates to count words in; None takes those of ``pairs``.

    Returns:
        Rule -> shape (tests,).
    """
    unigrams = Unigrams(texts or dict.fromkeys(text for _, high, low in pairs for text in (high, low)))
    frequency = _remembered(lambda _, text: unigrams.mean(text))
    shared = _remembered(lambda context, text: overlap(text, context))
    rules: Mapping[str, Callable[[str, str], float]] = {
        "shorter": lambda _, text: -len(text),
        "longer": lambda _, text: len(text),
        "overlap": shared,
        "unigram": lambda _, text: frequency("", text),
    }
    return {
        name: np.array([score(context, high) > score(context, low) for context, high, low in pairs], dtype=bool)
        for name, score in rules.items()
    }


def _remembered(score: Callable[[str, str], float]) -> Callable[[str, str], float]:
    """Return a function that scores each candidate of a context once."""
    known: dict[tuple[str, str], float] = {}

    def call(context: str, text: str) -> float:
        key = (context, text)
        if key not in known:
            known[key] = score(context, text)
        return known[key]

    return call


def trivial_rates(
    pairs: Sequence[tuple[str, str, str]], categories: Sequence[str], texts: Sequence[str] | None = None
) -> dict[str, dict[str, float]]:
    """Return how often each rule passes: category, or ``all``, -> rule -> pass rate.

    Args:
        pairs: (context, better candidate, worse candidate) of each test.
        categories: of each test.
        texts: as for `trivial_passes`.
    """
    passes = trivial_passes(pairs, texts)
    labels = np.asarray(categories, dtype=object)
    return {
        name: {
            rule: float(found[np.full(len(labels), True) if name == ALL else labels == name].mean())
            for rule, found in passes.items()
        }
        for name in [ALL, *sorted(set(categories))]
        if len(labels)
    }


def rules_section(reports: Mapping[str, Any]) -> list[str]:
    """Return what a card says of rules that understand nothing: how often each passes.

    Args:
        reports: config -> its part of ``build_report.json``, with `trivial_rates` under ``trivial_rules``.
    """
    found = {
        name: part["trivial_rules"]
        for name, part in reports.items()
        if isinstance(part, Mapping) and "trivial_rules" in part
    }
    if not found:
        return []
    return [
        "## What trivial rules reach",
        "",
        "Pass rates of rules that read no meaning; a tie fails. A model says something where it does better than these.",
        "",
        *[f"- `{rule}`: {what}" for rule, what in RULES.items()],
        "",
        f"| config | category | {' | '.join(f'`{rule}`' for rule in RULES)} |",
        "|---" * (len(RULES) + 2) + "|",
        *[
            f"| `{name}` | {shown} | {' | '.join(f'{rates[rule]:.3f}' for rule in RULES)} |"
            for name, by_category in found.items()
            for shown, rates in ((cell(category), value) for category, value in by_category.items())
        ],
        "",
    ]


#: The runs of a comparison are on the same tests.
_remembered_rates = lru_cache(maxsize=4)(trivial_rates)


@dataclass(frozen=True, slots=True)
class ReadingAid:
    """What puts a pass rate of one run on one category into proportion.

    Attributes:
        trivial: rule -> its pass rate on the same tests.
        near: share of tests decided by a margin smaller than `NEAR`.
        flips_bytes: share of tests that end otherwise by the likelihood per byte than by the one per token.
        flips_sum: share of tests that end otherwise by the summed likelihood than by the one per token.
        pmi: pass rate by the difference of the means with and without context; None where a run has not scored it.
        survives: share of the passes that also pass without the context; None likewise.
    """

    trivial: dict[str, float]
    near: float
    flips_bytes: float
    flips_sum: float
    pmi: float | None = None
    survives: float | None = None


def reading_aid(run: Run) -> dict[str, ReadingAid]:
    """Return category, or ``all``, -> reading aid of a run, over the tests that it scored."""
    tests = run.tests[run.tests["passed"].notna()]
    pairs = [
        (str(doc.get("context", "")), doc["candidates"][high], doc["candidates"][low])
        for doc, high, low in zip(
            (run.documents[i] for i in tests["document"]), tests["high"], tests["low"], strict=True
        )
    ]
    protocol = run.protocol
    part = protocol.get("selection") != ALL
    whole = _set_texts(*(str(protocol.get(key, "")) for key in ("set", "config", "data"))) if part else None
    trivial = _remembered_rates(tuple(pairs), tuple(tests["category"]), whole)
    found = tests.assign(**_alone(run, tests))
    return {name: _aid(found if name == ALL else found[found["category"] == name], trivial[name]) for name in trivial}


@lru_cache(maxsize=4)
def _set_texts(name: str, config: str, data: str) -> tuple[str, ...] | None:
    """Return the distinct candidates of a whole set, for a run on a part of it; None where it is not built here."""
    try:
        folder = find_dataset(name)
        table = None if folder is None else read_table(folder, config or None)
    except NNDError:
        return None
    if table is None or fingerprint(table) != data:
        return None
    pairs = zip(table.column("high").to_pylist(), table.column("low").to_pylist(), strict=True)
    return tuple(dict.fromkeys(text for pair in pairs for text in pair))


def _aid(tests: pd.DataFrame, trivial: dict[str, float]) -> ReadingAid:
    token, summed, per_byte = (tests[column].to_numpy() > 0 for column in ("margin", "margin_sum", "margin_bytes"))
    pmi = survives = None
    if tests["without"].notna().all():
        pmi = float((tests["margin"] - tests["without"] > 0).mean())
        passes = tests["margin"] > 0
        survives = float((tests["without"][passes] > 0).mean()) if passes.any() else math.nan
    return ReadingAid(
        trivial=trivial,
        near=float((tests["margin"].abs() < NEAR).mean()),
        flips_bytes=float((per_byte != token).mean()),
        flips_sum=float((summed != token).mean()),
        pmi=pmi,
        survives=survives,
    )


def _alone(run: Run, tests: pd.DataFrame) -> dict[str, list[float]]:
    """Return the margin of each test without the context, where the run has scored it; else nan."""

    def margin(document: int, high: int, low: int) -> float:
        scores = run.documents[document].get("no_context")
        if not scores or scores[high] is None or scores[low] is None:
            return math.nan
        values = scores[high]["mean"], scores[low]["mean"]
        return math.nan if None in values else float(values[0] - values[1])

    places = zip(tests["document"], tests["high"], tests["low"], strict=True)
    return {"without": [margin(*place) for place in places]}
