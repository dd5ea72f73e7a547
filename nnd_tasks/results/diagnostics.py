"""Diagnostics to read beside a pass rate: baselines, near ties, normalization, and reliance on the context."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pandas as pd

from nnd_tasks.baselines import ALL, BASELINES, Writers, baseline_rates, writers_of
from nnd_tasks.results.paired import Paired
from nnd_tasks.results.runs import Run, Runs
from nnd_tasks.results.samples import recount
from nnd_tasks.results.set_tables import table_of
from nnd_tasks.rule import Likelihood, Normalization, passes
from nnd_tasks.show.report import Table

#: Margins (nats per token) below which rounding may decide.
NEAR = 1e-6


def baselines_of(paired: Paired) -> pd.DataFrame:
    """The pass rates of baselines on the tests that all models have scored.

    Returns:
        A row per category (``all`` first): ``category``; a baseline's pass rate under its name, for those of
        `nnd_tasks.baselines.BASELINES` that decide some of the tests; ``best_baseline``: the highest rate of those that decide
        all.
    """
    run = paired.runs[0]
    tests = Runs([run]).tests.set_index("test_id").loc[paired.tests["test_id"]]
    texts_of = tests.reindex(columns=["context", "high", "low"], fill_value="").fillna("")
    pairs = tuple(texts_of.itertuples(index=False, name=None))
    # Words are counted in the whole set.
    texts, writers_of_test = _set_facts(*(str(run.protocol.get(key, "")) for key in ("set", "config", "data")))
    writers = tuple(writers_of_test.get(name, ("", "")) for name in tests.index) if writers_of_test else ()
    rates = pd.DataFrame.from_dict(baseline_rates(pairs, tuple(tests["category"]), texts, writers), orient="index")
    rates = rates.reindex(columns=[name for name in BASELINES if name in rates])
    best = rates.drop(columns="system", errors="ignore").max(axis=1)
    return rates.assign(best_baseline=best).rename_axis("category").reset_index()


def baselines_table(baselines: pd.DataFrame) -> Table:
    """The table of `baselines_of`."""
    columns = {name: f"{{{name}:.3f}}" for name in BASELINES if name in baselines}
    caption = "Baselines: share of tests that rules without understanding pass (system: of the tests with a text of that system)."
    return Table("baselines", baselines, {"category": "{category}", **columns}, caption)


def diagnostics_of(run: Run) -> pd.DataFrame:
    """What puts the pass rates of a run into proportion, over the tests that it scored.

    Returns:
        A row per category (``all`` first): ``category``; ``model``; ``near``: share of tests decided by a margin smaller than
        `NEAR`; ``flips_bytes``, ``flips_sum``: share of tests whose outcome changes with the log-likelihood per byte, or the
        summed one, instead of the one per token; ``pmi``: pass rate by the mean log-likelihood with context less that without;
        ``survives``: share of the passes that also pass without context. The last two are nan where the run did not score the
        candidates without context.
    """
    tests = run.tests.dropna(subset="passed")
    passed, by_bytes, by_sums = (
        recount(tests, by) == 1 for by in (Normalization.TOKENS, Normalization.BYTES, Normalization.NONE)
    )
    high_gain, low_gain = (Likelihood(tests[f"{side}_mean"] - tests[f"{side}_no_context"]) for side in ("high", "low"))
    high_alone, low_alone = (Likelihood(tests[f"{side}_no_context"]) for side in ("high", "low"))
    outcomes = {
        "near": tests["margin"].abs() < NEAR,
        "flips_bytes": by_bytes != passed,
        "flips_sum": by_sums != passed,
        "pmi": passes(high_gain, low_gain),
        "survives": np.where(passed, passes(high_alone, low_alone), math.nan),
    }
    shares = pd.DataFrame(outcomes, dtype=float)
    rows = [
        {"category": name, "model": run.model, **shares[tests["category"].eq(name) | (name == ALL)].mean()}
        for name in [ALL, *sorted(tests["category"].unique())]
    ]
    return pd.DataFrame(rows)


def diagnostics_table(diagnostics: pd.DataFrame) -> Table:
    """The table of `diagnostics_of` several runs."""
    columns = {
        "category": "{category}",
        "model": "{model}",
        "near ties": "{near:.3f}",
        "flips, bytes": "{flips_bytes:.3f}",
        "flips, sum": "{flips_sum:.3f}",
        "PMI": "{pmi:.3f}",
        "survives": "{survives:.3f}",
    }
    caption = (
        "Diagnostics: share of tests decided by less than 1e-6, and flips (share of outcomes that differ from per-token scoring "
        "with the likelihood per byte, or the summed one)."
    )
    return Table("diagnostics", diagnostics, columns, caption)


@lru_cache(maxsize=4)
def _set_facts(name: str, config: str, data: str) -> tuple[tuple[str, ...] | None, dict[str, Writers]]:
    """The distinct candidates of a whole set, and who wrote those of each test; None and nothing where it is not built.

    Args:
        name: of the set.
        config: of the set.
        data: fingerprint of the config.
    """
    table = table_of({"set": name, "config": config, "data": data})
    if table is None:
        return None, {}
    writers = dict(zip(table.column("test_id").to_pylist(), writers_of(table), strict=False))
    return tuple({*table.column("high").to_pylist(), *table.column("low").to_pylist()}), writers
