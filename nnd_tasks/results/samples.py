"""A samples file that lm-eval wrote with ``--log_samples``: read, and checked for damage.

Outcomes follow from sums and numbers of tokens; those that the file says must be the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.files import json_lines, reading
from nnd_tasks.measures import MARGIN, MEASURES, measure_tests, weigh_measures
from nnd_tasks.results.result_types import Sample, check_types
from nnd_tasks.results.runs import COLUMNS, QUANTITIES, SIDES, WRITER, Run, take_values
from nnd_tasks.rule import Likelihood, Normalization, Ties, passes
from nnd_tasks.schema import break_down
from nnd_tasks.statistics import pooled_means
from nnd_tasks.task.metrics import NORMALIZATIONS, PROMPT_RATES, UNDEFINED, answers_digest

#: Ends errors about missing files: how lm-eval comes to write them.
HOW_TO_WRITE = "run the task with --log_samples --output_path FOLDER"
#: How far a number may be from the one that is stored, relative to it above 1.
_CLOSE = 1e-9


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of each line of a JSONL file; raise NNDError where it cannot be read."""
    with reading(path), path.open(encoding="utf-8") as file:
        yield from json_lines(file, str(path), hint="; the file is cut off or damaged")


def read_samples(run: Run) -> Run:
    """Add the samples to a run of which only the results file was read.

    Raises:
        NNDError: their file is missing, cut off or damaged, or their numbers are not those that lm-eval reported.
    """
    if not run.path.is_file():
        raise NNDError(f"{run.file}: its samples {run.path.name} are missing; {HOW_TO_WRITE}")
    documents: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    own: dict[str, list[Any]] = defaultdict(list)  # what only the reader of the task can compute from its answers
    counts = Counter[str]()
    for line, sample in read_lines(run.path):
        check_types(Sample, sample, line, "is not a sample of an NND task, or damaged")
        doc = sample["doc"]
        indices = {"cluster_id": doc["cluster_id"], "document": len(documents)}
        rows += [{"subcategory": "", "severity": "", **test, **indices} for test in sample["tests"]]
        prompt = {key: value for key, value in doc.items() if key != "tests"}
        documents.append({**prompt, "scores": sample["candidates"], "no_context": sample.get("no_context")})
        counts["truncated_contexts"] += sample.get("truncated_contexts") or 0
        for name in ("candidates", "no_context"):
            counts[name] += sum(score is not None for score in sample.get(name) or ())
        for name, value in sample.items():
            if isinstance(value, list) and len(value) == 2 and all(map(_is_finite, value)):
                own[name].append(value)
    tests = _add_scores(pd.DataFrame(rows, columns=list(COLUMNS)), documents)
    weighed = weigh_measures(tests) if run.reader == WRITER else None
    if weighed is None:  # the scores are no likelihoods of the texts
        tests[[name for name in MEASURES if name != MARGIN]] = np.nan
    prompts = pd.Series([document["cluster_id"] for document in documents], dtype=object)
    for noun, names in {"test": tests["test_id"], "prompt": prompts}.items():
        for name in names[names.duplicated()]:
            raise NNDError(f"{run.path}: {noun} {name} is there twice; the file is damaged, run the task again")
    check_outcomes(run.path, tests, run.protocol)
    if run.prompts not in (None, len(documents)):
        raise NNDError(
            f"{run.path}: {len(documents)} of {run.prompts} prompts; the file is cut off, run the task again"
        )
    # An excess is pooled as a share; see `nnd_tasks.likelihood.span_metrics.SpanMetrics`.
    whole = {name: np.sum(value, axis=0) for name, value in own.items() if len(value) == len(documents)}
    pooled = {
        name: total / count if count else math.nan
        for name, (total, count) in whole.items()
        if not name.endswith("_stderr") and "excess" not in name
    }
    not_of_one_run = "they are not of one run, or one is damaged; run the task again"
    for name, value in {**pooled, **counts, **recompute_metrics(run, tests, weighed)}.items():
        expected = UNDEFINED if math.isnan(value) else value
        reported = run.reported.get(f"{name},none", expected)
        close = _is_finite(reported) and abs(value - reported) <= _CLOSE * max(abs(value), 1)
        if reported != expected and not close:
            raise NNDError(
                f"{run.path}: its tests give {name} {expected!s:.12}, {run.file.name} says {reported!r:.40}: {not_of_one_run}"
            )
    if run.answers and answers_digest(score for document in documents for score in document["scores"]) != run.answers:
        raise NNDError(f"{run.path}: its sums and tokens are not those of {run.file.name} (digest): {not_of_one_run}")
    return replace(run, documents=documents, tests=tests, truncated=counts["truncated_contexts"])


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e15


def _add_scores(tests: pd.DataFrame, documents: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Give each test the scores of its texts, nan where one was not scored or is infinite, and its margins."""
    types = {"test_id": str, "category": str, "passed": "boolean", "tie": bool, "seed": "Int64", "noise_ratio": float}
    numbers: dict[str, Any] = {}
    for side in SIDES:
        scores = [score or {} for score in take_values(documents, tests, side, "scores")]
        for quantity in QUANTITIES:
            numbers[f"{side}_{quantity}"] = np.array([score.get(quantity) for score in scores], dtype=float)
        without_context = take_values(documents, tests, side, "no_context")
        numbers[f"{side}_no_context"] = np.array([score and score["mean"] for score in without_context], dtype=float)
    per_byte = {side: numbers[f"{side}_sum"] / numbers[f"{side}_bytes"] for side in SIDES}
    numbers |= {
        **measure_tests(numbers),
        "margin_sum": numbers["high_sum"] - numbers["low_sum"],
        "margin_bytes": per_byte["high"] - per_byte["low"],
        "margin_no_context": numbers["high_no_context"] - numbers["low_no_context"],
    }
    # All columns at once: each that is added by itself takes as long.
    return pd.DataFrame({name: numbers.get(name, cells) for name, cells in tests.items()}).astype(types)


def recount(tests: pd.DataFrame | Mapping[str, Any], by: Normalization) -> Any:
    """Tell again which tests of a run pass, as `nnd_tasks.rule.passes`; a tie fails.

    The log-likelihood per token is the mean that the samples hold: in files of others it may differ from sum / tokens in its
    last digit.
    """
    high, low = (
        Likelihood(tests[f"{side}_mean"])
        if by is Normalization.TOKENS
        else Likelihood(tests[f"{side}_sum"], tests[f"{side}_tokens"], tests[f"{side}_bytes"])
        for side in SIDES
    )
    return passes(high, low, by)


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
    numbers = {name: tests[name].to_numpy(dtype=float) for name in ("high_mean", "low_mean")}
    passed, tie = recount(numbers, Normalization.TOKENS), numbers["high_mean"] == numbers["low_mean"]
    said_tie = tests["tie"].to_numpy(dtype=bool)
    # A sample does not say which text came first in the source, so any outcome of a tie may be the authors'.
    right = (stored == passed) | (tie & (protocol.get("ties") == Ties.AUTHORS.value) & ~np.isnan(stored))
    wrong = ~np.isnan(passed) & ~(right & (said_tie == tie))
    missing, lost, lost_too = (
        np.isnan(tests[[*names]].to_numpy(dtype=float)).any(axis=1)
        for names in (("high_tokens", "low_tokens"), ("high_sum",), ("low_sum",))
    )
    wrong |= missing & ~np.isnan(stored)
    if protocol.get("reader") is None:
        wrong |= lost & ~missing & (stored == 1)
        wrong |= lost_too & ~lost & ~missing & (stored == 0)
    if wrong.any():
        row = tests.loc[wrong.argmax()]
        raise NNDError(
            f"{path}: test {row.test_id}: its outcome, {name_outcome(row.passed, row.tie)}, contradicts the sums and tokens of "
            "its texts; the file is damaged, run the task again"
        )


def name_outcome(passed: bool | None, tie: bool) -> str:
    """What became of a test, in words."""
    if pd.isna(passed):
        return "not scored"
    return "passed" if passed else "failed, equal" if tie else "failed"


def outcomes_of(tests: pd.DataFrame) -> dict[str, Any]:
    """Tell again which tests of a writer pass, by each rule: key of `NORMALIZATIONS` or of `RELIANCE` -> 1, 0 or nan."""
    names = (f"{side}_{name}" for side in SIDES for name in ("sum", "mean", "tokens", "bytes", "no_context"))
    tests = {name: tests[name].to_numpy(dtype=float) for name in names}
    outcomes = {name: recount(tests, by) for name, by in NORMALIZATIONS.items()}
    gains = [Likelihood(tests[f"{side}_mean"] - tests[f"{side}_no_context"]) for side in SIDES]
    alone = [Likelihood(tests[f"{side}_no_context"]) for side in SIDES]
    survival = np.where(outcomes["pass_rate"] == 1, passes(alone[0], alone[1]), np.nan)
    return {**outcomes, "pass_rate_pmi": passes(gains[0], gains[1]), "survival": survival}


def recompute_metrics(run: Run, tests: pd.DataFrame, weighed: NDArray[np.float64] | None) -> dict[str, float]:
    """Compute what lm-eval reports of a task again, and the same of every category and severity; nan where it is undefined.

    Known limits: the rates that only some readers have, and those of error spans, are not among them.

    Args:
        run: says who read the texts.
        tests: as `read_samples` returns them.
        weighed: of a writer, see `nnd_tasks.measures.weigh_measures`.

    Raises:
        NNDError: a category has a name that no set may have.
    """
    scored, prompts = tests["passed"].notna(), tests["cluster_id"]
    values = {"tests": int(scored.sum()), "clusters": prompts[scored].nunique()}
    values |= {"ties": int(tests["tie"].sum()), "unscored": int((~scored).sum())}
    # The outcomes of ties may be the authors', and of unread answers a failure; those of the other rules are not kept.
    likelihoods = run.reader in (WRITER, "reward") and run.protocol.get("ties") != Ties.AUTHORS.value
    outcomes = outcomes_of(tests) if likelihoods else {}
    outcomes["pass_rate"] = tests["passed"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    totals = {name: np.nan_to_num(passed) for name, passed in outcomes.items()}
    weights = {name: (~np.isnan(passed)).astype(float) for name, passed in outcomes.items()}
    if weighed is not None:
        for name, total, weight in zip(MEASURES, *np.split(weighed.T, 2), strict=True):
            totals[name], weights[name] = total, weight
    subsets: dict[str, Any] = {"": slice(None)}
    parts = break_down(*(tests[name].unique().tolist() for name in ("category", "severity")))
    for name, (column, value) in parts.items():
        subsets[name.removeprefix("pass_rate")] = (tests[column] == value).to_numpy()
    document, size = tests["document"].to_numpy(), 1 + tests["document"].max()
    summed: dict[str, list[Any]] = {}  # metric -> its sums and weights of each prompt
    for suffix, chosen in subsets.items():
        # Of the parts of a set there are rates by token alone: "pass_rate_sum_x" is that of a category "sum_x".
        for name in totals.keys() - ({*NORMALIZATIONS} - {"pass_rate"} if suffix else ()):
            of_tests = totals[name], weights[name]
            summed[f"{name}{suffix}"] = [np.bincount(document[chosen], cells[chosen], size) for cells in of_tests]
    # A prompt fails if a test of it does, and passes if all of them do.
    for name, rate in PROMPT_RATES.items():
        if rate in outcomes:
            worst, scored = np.full(size, math.inf), summed[rate][1]
            np.fmin.at(worst, document, outcomes[rate])
            known = (scored > 0) & ((worst == 0) | (scored == np.bincount(document, minlength=size)))
            summed[name] = [np.where(known, worst, 0), known]
    for name, mean, error in zip(summed, *pooled_means(*zip(*summed.values(), strict=True)), strict=True):
        values[name], values[f"{name}_stderr"] = mean, error
    return values
