"""A samples file that lm-eval wrote with ``--log_samples``: read, and checked for damage; not for forgery.

Outcomes follow from sums and numbers of tokens; those that the file says must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import json_lines, reading
from nnd_tasks.results.result_types import Sample, check_types
from nnd_tasks.rule import Likelihood, Normalization, Ties, normalize, passes
from nnd_tasks.schema import category_slugs

_SIDES = ("high", "low")
_KINDS = ("sum", "mean", "tokens", "bytes")
_SCORES = tuple(f"{side}_{kind}" for side in _SIDES for kind in (*_KINDS, "no_context"))
#: Columns of the tests of a run. ``high`` and ``low`` are places in the document's candidates, ``document`` is a place in
#: `Run.documents`. Log-likelihoods are in nats: ``high_sum``, and ``high_mean`` and ``high_no_context`` per token. Margins are
#: (better - worse): per token, summed, per UTF-8 byte, per token without the context; nan where a text has no finite score.
COLUMNS = (
    *("test_id", "cluster_id", "category", "subcategory", "severity", "noise_ratio", "seed", "document", "high", "low"),
    *("margin", "margin_sum", "margin_bytes", "passed", "tie", "margin_no_context"),
    *_SCORES,
)


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of each line of a JSONL file; raise NNDError where it cannot be read."""
    with reading(path), path.open(encoding="utf-8") as file:
        yield from json_lines(file, str(path), hint="; the file is cut off or damaged")


def read_samples(path: Path) -> tuple[list[dict[str, Any]], pd.DataFrame, int]:
    """Read a samples file.

    Returns:
        The documents, the tests and the number of shortened prompts, as `nnd_tasks.results.runs.Run` has them.

    Raises:
        NNDError: it cannot be read, is cut off or damaged, is not a samples file of an NND task, or has a test twice.
    """
    documents: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    truncated = 0
    for place, sample in read_lines(path):
        check_types(Sample, sample, place, "is not a sample of an NND task, or damaged")
        doc, scores, without = sample["doc"], sample["candidates"], sample.get("no_context")
        about = {"cluster_id": doc["cluster_id"], "document": len(documents)}
        defaults = {"subcategory": "", "severity": ""}
        rows += [{**defaults, **test, **about, **_side_scores(test, scores, without)} for test in sample["tests"]]
        prompt = {key: value for key, value in doc.items() if key != "tests"}
        documents.append({**prompt, "scores": scores, "no_context": without})
        truncated += sample.get("truncated_contexts") or 0
    tests = _table(rows)
    prompts = pd.Series([document["cluster_id"] for document in documents], dtype=object)
    for kind, names in {"test": tests["test_id"], "prompt": prompts}.items():
        for name in names[names.duplicated()]:
            raise NNDError(f"{path}: {kind} {name} is there twice; the file is damaged, run the task again")
    return documents, tests, truncated


def _side_scores(test: Mapping[str, Any], scores: list[Any], without: list[Any] | None) -> dict[str, Any]:
    """Return the scores of the better and the worse text of a test; None where one was not scored, or is infinite."""
    found: dict[str, Any] = {}
    for side in _SIDES:
        score = scores[test[side]] or dict.fromkeys(_KINDS)
        alone = without[test[side]] if without else None
        found |= {f"{side}_{kind}": score[kind] for kind in _KINDS}
        found[f"{side}_no_context"] = alone["mean"] if alone else None
    return found


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the tests with their margins."""
    types = {"test_id": str, "category": str, "passed": "boolean", "tie": bool, "seed": "Int64", "noise_ratio": float}
    tests = pd.DataFrame(rows, columns=list(COLUMNS)).astype({**types, **dict.fromkeys(_SCORES, float)})
    for side in _SIDES:
        tests[f"{side}_byte"] = tests[f"{side}_sum"] / tests[f"{side}_bytes"].clip(lower=1)
    kinds = {"margin": "mean", "margin_sum": "sum", "margin_bytes": "byte", "margin_no_context": "no_context"}
    margins = {name: tests[f"high_{kind}"] - tests[f"low_{kind}"] for name, kind in kinds.items()}
    return tests.assign(**margins)[list(COLUMNS)]


def likelihoods(tests: pd.DataFrame, side: str, by: Normalization = Normalization.TOKENS) -> Likelihood:
    """The log-likelihoods of the ``high`` or the ``low`` texts of a run's tests; nan where they are not finite.

    Per token it is the mean that the samples hold: in files of others it may differ from sum / tokens in its last digit.
    """
    if by is Normalization.TOKENS:
        return Likelihood(tests[f"{side}_mean"])
    return Likelihood(tests[f"{side}_sum"], tests[f"{side}_tokens"], tests[f"{side}_bytes"].clip(lower=1))


def recount(tests: pd.DataFrame, by: Normalization) -> Any:
    """Tell again which tests of a run pass, as `nnd_tasks.rule.passes`; a tie fails."""
    return passes(likelihoods(tests, "high", by), likelihoods(tests, "low", by), by)


def check_outcomes(path: Path, tests: pd.DataFrame, protocol: Mapping[str, Any]) -> None:
    """Raise NNDError where the outcome of a test is not what its sums and numbers of tokens say.

    A sum that is null was no finite number. A likelihood was minus infinity then, or nan, which leaves its test unscored; the
    answers of other readers may also be plus infinity, so of them nothing follows.

    Args:
        path: of the samples.
        tests: as `read_samples` returns them.
        protocol: of the run; says what a tie counts, and who read the texts.
    """
    stored = tests["passed"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    high, low = likelihoods(tests, "high"), likelihoods(tests, "low")
    passed, tie = passes(high, low), normalize(high) == normalize(low)
    said_tie = tests["tie"].to_numpy(dtype=bool)
    # A sample does not say which text came first in the source, so any outcome of a tie may be the authors'.
    right = (stored == passed) | (tie & (protocol.get("ties") == Ties.AUTHORS.value) & ~np.isnan(stored))
    wrong = ~np.isnan(passed) & ~(right & (said_tie == tie))
    missing = tests[["high_tokens", "low_tokens"]].isna().any(axis="columns")
    wrong |= missing & ~np.isnan(stored)
    if protocol.get("reader") is None:
        lost = tests[["high_sum", "low_sum"]].isna() & ~missing.to_numpy()[:, None]
        wrong |= lost["high_sum"] & (stored == 1)
        wrong |= lost["low_sum"] & ~lost["high_sum"] & (stored == 0)
    for row in tests[wrong].itertuples():
        raise NNDError(
            f"{path}: test {row.test_id}: that it {_name_outcome(row)} contradicts the sums and tokens of its texts; the file is "
            "damaged, run the task again"
        )


def _name_outcome(test: Any) -> str:
    if pd.isna(test.passed):
        return "was not scored"
    return f"{'passed' if test.passed else 'failed'}{' with a tie' if test.tie else ''}"


def rates_of(tests: pd.DataFrame) -> dict[str, float]:
    """Return counts and rates that lm-eval reports of tests, computed again: metric -> value.

    Rates without a scored test are left out.

    Raises:
        NNDError: a category has a name that no set may have.
    """
    scored = tests[tests["passed"].notna()]
    rates: dict[str, float] = {"tests": len(scored), "clusters": scored["cluster_id"].nunique()}
    slugs = category_slugs(scored["category"])
    passed = scored.groupby("category")["passed"].mean()
    whole = {} if scored.empty else {"pass_rate": scored["passed"].mean()}
    return rates | whole | {f"pass_rate_{slugs[name]}": rate for name, rate in passed.items()}
