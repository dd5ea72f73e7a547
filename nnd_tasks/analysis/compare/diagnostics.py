"""Diagnostics to read beside a pass rate: baselines, near ties, normalization, and reliance on the context."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nnd_tasks.analysis.set_tables import table_of
from nnd_tasks.baselines import ALL, Writers, baseline_rates, writers_of
from nnd_tasks.harness.metrics import passes

if TYPE_CHECKING:
    import pandas as pd

    from nnd_tasks.analysis.results import Run

#: Margins (nats per token) below which rounding may decide.
NEAR = 1e-6
#: Remembered, as the runs of a comparison are on the same tests.
_remembered_rates = lru_cache(maxsize=4)(baseline_rates)


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What puts a pass rate of one run on one category into proportion.

    Attributes:
        baselines: baseline -> its pass rate on the same tests.
        near: share of tests decided by a margin smaller than `NEAR`.
        flips_bytes: share of tests whose outcome changes with the log-likelihood per byte instead of per token.
        flips_sum: share of tests whose outcome changes with the summed log-likelihood instead of the one per token.
        pmi: pass rate by the mean log-likelihood with context less that without; None where the run did not score the
            candidates without context.
        survives: share of the passes that also pass without context; None likewise.
    """

    baselines: dict[str, float]
    near: float
    flips_bytes: float
    flips_sum: float
    pmi: float | None = None
    survives: float | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the diagnostics under the keys of JSON files, where the baselines are called ``trivial``."""
        values = asdict(self)
        return {"trivial": values.pop("baselines"), **values}


def diagnostics_of(run: Run) -> dict[str, Diagnostics]:
    """Return category, or ``all``, -> diagnostics of a run, over the tests that it scored."""
    tests = run.tests[run.tests["passed"].notna()]
    pairs = [
        (str(doc.get("context", "")), doc["candidates"][high], doc["candidates"][low])
        for doc, high, low in zip(
            (run.documents[i] for i in tests["document"]), tests["high"], tests["low"], strict=True
        )
    ]
    protocol = run.protocol
    # Words are counted in the whole set.
    texts, known = _set_facts(*(str(protocol.get(key, "")) for key in ("set", "config", "data"))) or (None, {})
    writers = tuple(known.get(name, ("", "")) for name in tests["test_id"]) if known else ()
    baselines = _remembered_rates(tuple(pairs), tuple(tests["category"]), texts, writers)
    return {
        name: _diagnostics(tests if name == ALL else tests[tests["category"] == name], rates)
        for name, rates in baselines.items()
    }


@lru_cache(maxsize=4)
def _set_facts(name: str, config: str, data: str) -> tuple[tuple[str, ...], dict[str, Writers]] | None:
    """Return the distinct candidates of a whole set, and who wrote those of each test; None where it is not built here.

    Args:
        name: of the set.
        config: of the set.
        data: fingerprint of the config.
    """
    table = table_of({"set": name, "config": config, "data": data})
    if table is None:
        return None
    pairs = zip(table.column("high").to_pylist(), table.column("low").to_pylist(), strict=True)
    writers = dict(zip(table.column("test_id").to_pylist(), writers_of(table), strict=False))
    return tuple(dict.fromkeys(text for pair in pairs for text in pair)), writers


def _diagnostics(tests: pd.DataFrame, baselines: dict[str, float]) -> Diagnostics:
    token, summed, per_byte = (passes(tests[column].to_numpy()) for column in ("margin", "margin_sum", "margin_bytes"))
    pmi = survives = None
    if tests["margin_no_context"].notna().all():
        pmi = float(passes(tests["margin"] - tests["margin_no_context"]).mean())
        passed = passes(tests["margin"])
        survives = float(passes(tests["margin_no_context"][passed]).mean()) if passed.any() else math.nan
    return Diagnostics(
        baselines=baselines,
        near=float((tests["margin"].abs() < NEAR).mean()),
        flips_bytes=float((per_byte != token).mean()),
        flips_sum=float((summed != token).mean()),
        pmi=pmi,
        survives=survives,
    )
