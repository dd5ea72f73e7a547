"""What to know before one reads a pass rate: baselines, near ties, normalization, and reliance on the context."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from nnd_tasks.baselines import ALL, baseline_rates
from nnd_tasks.datasets import find_dataset, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.tables import fingerprint

if TYPE_CHECKING:
    import pandas as pd

    from nnd_tasks.analysis.results import Run

#: Margins (nats per token) below which rounding may decide.
NEAR = 1e-6
#: The runs of a comparison are on the same tests.
_remembered_rates = lru_cache(maxsize=4)(baseline_rates)


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
