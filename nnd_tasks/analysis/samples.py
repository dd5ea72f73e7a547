"""A samples file that lm-eval wrote with ``--log_samples``: read, and checked for damage; not for forgery."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import reading
from nnd_tasks.harness.metrics import passes
from nnd_tasks.schema import category_slugs, severity_slugs
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import check_json, json_lines

_KINDS = ("sum", "mean", "tokens", "bytes", "no_context")
_SCORES = tuple(f"{side}_{kind}" for side in ("high", "low") for kind in _KINDS)
#: Columns of the tests of a run. ``high`` and ``low`` are places in the document's candidates, ``document`` is a place in
#: `Run.documents`. Log-likelihoods are in nats: ``high_sum``, and ``high_mean`` and ``high_no_context`` per token. Margins are
#: (better - worse): per token, summed, per UTF-8 byte, per token without the context; nan where a text has no finite score.
COLUMNS = (
    *("test_id", "cluster_id", "category", "subcategory", "severity", "noise_ratio", "seed", "document", "high", "low"),
    *("margin", "margin_sum", "margin_bytes", "passed", "tie", "margin_no_context"),
    *_SCORES,
)


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, object) of each line of a JSONL file.

    Raises:
        NNDError: it cannot be read, or a line is not an object.
    """
    with reading(path), path.open(encoding="utf-8") as file:
        lines = json_lines(file, str(path), hint="; the file is cut off or damaged")
        for number, (where, line, value) in enumerate(lines, start=1):
            if "\\ud" in line.lower():  # a lone surrogate, which no file can hold, becomes a question mark
                value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
            check_json(value, line, where)
            if not isinstance(value, dict):
                raise NNDError(f"{where}: is not a JSON object")
            yield number, value


def read_samples(path: Path) -> tuple[list[dict[str, Any]], pd.DataFrame, int]:
    """Read a samples file.

    Args:
        path: of the file.

    Returns:
        The documents, the tests and the number of shortened prompts, as `nnd_tasks.analysis.results.Run` has them.

    Raises:
        NNDError: it cannot be read, is cut off or damaged, is not a samples file of an NND task, or has a prompt or test twice.
    """
    documents: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    truncated, where = 0, str(path)
    try:
        for number, sample in read_lines(path):
            where = f"{path}, line {number}"
            doc, scores, without = sample["doc"], sample["candidates"], sample.get("no_context")
            if not len(doc["candidates"]) == len(scores) == len(without or scores):
                raise ValueError(f"{counted(len(scores), 'score')} of {counted(len(doc['candidates']), 'candidate')}")
            about = {"cluster_id": doc["cluster_id"], "document": len(documents), "subcategory": "", "severity": ""}
            rows += [{**about, **test, **_side_scores(test, scores, without)} for test in sample["tests"]]
            prompt = {key: value for key, value in doc.items() if key != "tests"}
            documents.append({**prompt, "scores": scores, "no_context": without})
            truncated += int(sample.get("truncated_contexts") or 0)
        where = str(path)
        tests = _table(rows)
    except KeyError as error:
        raise NNDError(f"{where}: is not a sample of an NND task (it has no {error})") from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise NNDError(f"{where}: is not a sample of an NND task, or damaged ({error})") from error
    for what, names in ("prompt", [one["cluster_id"] for one in documents]), ("test", tests["test_id"]):
        known = pd.Series(names, dtype=str)
        for name in known[known.duplicated()]:
            raise NNDError(f"{path}: {what} {name} is there twice; the file is damaged, run the task again")
    return documents, tests, truncated


def _side_scores(test: Mapping[str, Any], scores: list[Any], without: list[Any] | None) -> dict[str, Any]:
    """Return the scores of the better and the worse text of a test; None where one was not scored, or is infinite."""
    found: list[Any] = []
    for side in ("high", "low"):
        score, alone = scores[test[side]], without[test[side]] if without else None
        found += [score[kind] if score else None for kind in _KINDS[:-1]]
        found.append(alone["mean"] if alone else None)
    return dict(zip(_SCORES, found, strict=True))


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the tests with their margins."""
    types = {"test_id": str, "category": str, "passed": "boolean", "tie": bool, "seed": "Int64", "noise_ratio": float}
    tests = pd.DataFrame(rows, columns=list(COLUMNS)).astype({**types, **dict.fromkeys(_SCORES, float)})
    per_byte = {side: tests[f"{side}_sum"] / tests[f"{side}_bytes"].clip(lower=1) for side in ("high", "low")}
    return tests.assign(
        margin=tests["high_mean"] - tests["low_mean"],
        margin_sum=tests["high_sum"] - tests["low_sum"],
        margin_bytes=per_byte["high"] - per_byte["low"],
        margin_no_context=tests["high_no_context"] - tests["low_no_context"],
    )


def rates_of(tests: pd.DataFrame, *, ties: str | None, where: Path) -> dict[str, float]:
    """Return numbers that lm-eval reports of tests, computed again: metric -> value; rates without a scored test are left out.

    Args:
        tests: with the columns `COLUMNS`.
        ties: how ties were decided. The rates by sum and by byte are only known for ``fail``, which None stands for.
        where: begins the error.

    Raises:
        NNDError: a category or severity has a name that no set may have.
    """
    scored = tests[tests["passed"].notna()]
    rates: dict[str, float] = {"tests": len(scored), "clusters": scored["cluster_id"].nunique()}
    if scored.empty:
        return rates
    rates["pass_rate"] = scored["passed"].mean()
    if ties in (None, "fail") and scored["margin"].notna().all():
        rates |= {f"pass_rate_{kind}": passes(scored[f"margin_{kind}"]).mean() for kind in ("sum", "bytes")}
    try:
        slugs = {"category": category_slugs(tests["category"]), "severity": severity_slugs(tests["severity"])}
    except NNDError as error:
        raise NNDError(f"{where}: {error}") from error
    for column, names in slugs.items():
        prefix = "pass_rate_severity_" if column == "severity" else "pass_rate_"
        passed = scored.groupby(column)["passed"].mean()
        rates |= {f"{prefix}{slug}": passed[name] for name, slug in names.items() if name in passed}
    return rates
