"""A samples file that lm-eval wrote with ``--log_samples``: read, and checked for damage and changes by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import reading
from nnd_tasks.harness.metrics import decide, passes
from nnd_tasks.schema import category_slugs, severity_slugs
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import check_json, json_lines, load_json

#: Columns of `Samples.tests`. Margins are (better - worse) in nats: per token, summed, per UTF-8 byte. ``high`` and ``low``
#: are indices into the document's candidates, ``document`` is an index into `Samples.documents`.
COLUMNS = (
    *("test_id", "cluster_id", "category", "subcategory", "severity", "noise_ratio", "seed", "document", "high", "low"),
    *("margin", "margin_sum", "margin_bytes", "passed", "tie"),
)
_CLOSE = 1e-9  # how far a number may be from what it is computed from
_MOST = 2**53  # a float holds every whole number up to this one
_LARGEST = 1e50  # a number may be; its fourth power, which an analysis may take, is still a number


@dataclass(frozen=True)
class Samples:
    """What a samples file holds.

    Attributes:
        documents: per prompt ``context`` and ``candidates``, what else the prompt used, ``scores`` of the candidates, and
            ``no_context``, their scores without the context, or None.
        tests: one row per test, columns `COLUMNS`; ``passed`` is missing where the test could not be scored.
        truncated: number of prompts that lost their end to fit the model's window.
    """

    documents: list[dict[str, Any]] = field(repr=False)
    tests: pd.DataFrame = field(repr=False)
    truncated: int

    def counts(self) -> dict[str, int]:
        """Return the counts that lm-eval reports: metric -> number."""
        scored = self.tests["passed"].notna()
        return {
            "tests": int(scored.sum()),
            "clusters": int(self.tests["cluster_id"][scored].nunique()),
            "ties": int(self.tests["tie"].sum()),
            "unscored": int((~scored).sum()),
            "truncated_contexts": self.truncated,
        }

    def rates(self, ties: str) -> dict[str, float]:
        """Return the pass rates that lm-eval reports: metric -> rate; rates without a scored test are left out.

        Args:
            ties: how ties were decided. The rates by sum and by byte are only known for ``fail``.

        Raises:
            NNDError: a category or severity has a name that no set may have.
        """
        scored = self.tests[self.tests["passed"].notna()]
        if scored.empty:
            return {}
        rates = {"pass_rate": float(scored["passed"].mean())}
        if ties == "fail" and scored["margin"].notna().all():
            rates |= {f"pass_rate_{kind}": float(passes(scored[f"margin_{kind}"]).mean()) for kind in ("sum", "bytes")}
        slugs = {
            **{("category", name): slug for name, slug in category_slugs(self.tests["category"]).items()},
            **{("severity", name): f"severity_{slug}" for name, slug in severity_slugs(self.tests["severity"]).items()},
        }
        for (column, name), slug in slugs.items():
            passed = scored["passed"][scored[column] == name]
            if len(passed):
                rates[f"pass_rate_{slug}"] = float(passed.mean())
        return rates


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, object) of each line of a JSONL file.

    Raises:
        NNDError: it cannot be read, or a line is not an object.
    """
    with reading(path), path.open(encoding="utf-8") as file:
        lines = json_lines(file, str(path), hint="; the file is cut off or damaged")
        for number, (where, line, value) in enumerate(lines, start=1):
            if "\\ud" in line.lower():  # a lone surrogate, which no file can hold, becomes a question mark
                line = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
                value = load_json(line, where)
            check_json(value, line, where)
            if not isinstance(value, dict):
                raise NNDError(f"{where}: is not a JSON object")
            yield number, value


def read_samples(path: Path, ties: str = "fail") -> Samples:
    """Read a samples file and check every value that an analysis uses, and every outcome against the scores.

    Args:
        path: of the file.
        ties: how ties were decided, as the signature says.

    Raises:
        NNDError: it cannot be read, is not a samples file of an NND task, or contradicts itself; the error names the line.
    """
    documents: list[dict[str, Any]] = []
    rows: list[tuple[Any, ...]] = []
    truncated = 0
    seen: dict[str, dict[str, int]] = {"cluster_id": {}, "test_id": {}}
    for number, sample in read_lines(path):
        where = f"{path}, line {number}"
        doc = _document(sample, where)
        scores = _scores(sample, "candidates", len(doc["candidates"]), where)
        no_context = None
        if sample.get("no_context") is not None:
            no_context = _scores(sample, "no_context", len(doc["candidates"]), where)
        truncated += _whole(sample.get("truncated_contexts") or 0, f"{where}: truncated_contexts", 0)
        _once(seen["cluster_id"], doc["cluster_id"], "prompt", number, path)
        asked = _asked(doc, where)
        for test in _get(sample, "tests", list, where):
            row = _test(test, scores, asked, ties, where)
            _once(seen["test_id"], row["test_id"], "test", number, path)
            row |= {"cluster_id": doc["cluster_id"], "document": len(documents)}
            rows.append(tuple(row[name] for name in COLUMNS))
        documents.append({**{k: v for k, v in doc.items() if k != "tests"}, "scores": scores, "no_context": no_context})
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    types = {"passed": "boolean", "tie": bool, "noise_ratio": float, "seed": "Int64"}
    return Samples(documents, table.astype(types), truncated)


def _once(seen: dict[str, int], name: str, what: str, number: int, path: Path) -> None:
    """Remember in which line a name stands; raise NNDError where it stood in an earlier one."""
    if name in seen:
        raise NNDError(f"{path}, line {number}: {what} {name} is there twice, first in line {seen[name]}")
    seen[name] = number


# ---------------------------------------------------------------- parts of a line


def _get(part: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """Return a value of a JSON object.

    Raises:
        NNDError: it is missing, or of another type than ``kind``.
    """
    if key not in part:
        which = "its document" if where.endswith(_DOC) else "it"
        raise NNDError(f"{where.removesuffix(_DOC)}: is not a sample of an NND task ({which} has no {key!r})")
    value = part[key]
    if not isinstance(value, kind):
        raise NNDError(f"{where}: {key} is {_shown(value)}, which is not {_KINDS[kind]}")
    return value


#: Ends the place of a value in the document, which is an object inside the sample.
_DOC = ": doc"
#: Type -> its name in errors.
_KINDS = {str: "text", list: "a list", dict: "an object", bool: "true or false"}


def _shown(value: Any) -> str:
    """Return a wrong value for an error, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _whole(value: Any, where: str, least: int, most: int = _MOST) -> int:
    """Return a value that must be a whole number within bounds; raise NNDError where it is not."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise NNDError(f"{where} is {_shown(value)}; expected a whole number from {least:,} to {most:,}")
    return value


def _number(value: Any, where: str) -> float:
    """Return a value that must be a finite number, not beyond `_LARGEST`; raise NNDError where it is not."""
    if not isinstance(value, bool) and isinstance(value, (int, float)) and abs(value) <= _LARGEST:
        return float(value)
    raise NNDError(f"{where} is {_shown(value)}, which is not a finite number up to {_LARGEST:g}")


def _document(sample: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the document of a sample, its parts checked; raise NNDError where one is missing or of a wrong type."""
    doc: dict[str, Any] = _get(sample, "doc", dict, where)
    where += _DOC
    _get(doc, "cluster_id", str, where)
    if "context" in doc:
        _get(doc, "context", str, where)
    candidates = _get(doc, "candidates", list, where)
    for text in candidates:
        if not isinstance(text, str):
            raise NNDError(f"{where}: candidates hold {_shown(text)}, which is not text")
    if doc.get("error_spans") is not None:
        _check_marks(_get(doc, "error_spans", list, where), candidates, where)
    return doc


def _check_marks(marks: Sequence[Any], candidates: Sequence[str], where: str) -> None:
    """Raise NNDError where marked errors are not places in the candidates, each with a category and a severity."""
    if len(marks) != len(candidates):
        raise NNDError(
            f"{where}: error_spans are of {counted(len(marks), 'candidate')}, it has {counted(len(candidates), 'candidate')}"
        )
    for i, (text, errors) in enumerate(zip(candidates, marks, strict=True)):
        place = f"{where}: error_spans[{i}]"
        for error in errors if isinstance(errors, list) else [errors]:
            if not isinstance(error, dict) or not all(isinstance(error.get(k), str) for k in ("category", "severity")):
                raise NNDError(f"{place} hold {_shown(error)}, which is not an error with category and severity")
            start = _whole(error.get("start"), f"{place}: start", 0, len(text))
            _whole(error.get("end"), f"{place}: end", start, len(text))


def _scores(sample: Mapping[str, Any], key: str, expected: int, where: str) -> list[dict[str, Any] | None]:
    """Return the scores of the candidates; None for one that was not scored."""
    scores: list[dict[str, Any] | None] = _get(sample, key, list, where)
    if len(scores) != expected:
        raise NNDError(
            f"{where}: {key} has {counted(len(scores), 'score')}, the document {counted(expected, 'candidate')}"
        )
    for i, score in enumerate(scores):
        place = f"{where}: {key}[{i}]"
        if score is None:
            continue
        if not isinstance(score, dict):
            raise NNDError(f"{place} is {_shown(score)}, which is not a score")
        if missing := {"sum", "mean", "tokens", "bytes"} - score.keys():
            raise NNDError(f"{place} has no {min(missing)!r}")
        tokens = _whole(score["tokens"], f"{place}: tokens", 1)
        _whole(score["bytes"], f"{place}: bytes", 0)
        if score["sum"] is None and score["mean"] is None:  # infinite, or no number
            continue
        total, mean = _number(score["sum"], f"{place}: sum"), _number(score["mean"], f"{place}: mean")
        if not math.isclose(mean, total / tokens, rel_tol=_CLOSE, abs_tol=_CLOSE):
            raise NNDError(
                f"{place}: mean is {mean:.6g}, its sum / tokens are {total / tokens:.6g}; the file was changed"
            )
    return scores


def _asked(doc: Mapping[str, Any], where: str) -> dict[str, Mapping[str, Any]] | None:
    """Return test id -> test as it stands in the document; None where the document has no tests."""
    tests = doc.get("tests")
    if tests is None:
        return None
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise NNDError(f"{where}: doc: tests is {_shown(tests)}, which is not a list of objects")
    return {test["test_id"]: test for test in tests if isinstance(test.get("test_id"), str)}


def _test(
    test: Any,
    scores: Sequence[Mapping[str, Any] | None],
    asked: Mapping[str, Mapping[str, Any]] | None,
    ties: str,
    where: str,
) -> dict[str, Any]:
    """Return a test as a row of the table, without the columns ``cluster_id`` and ``document``.

    Args:
        test: as the task logged it.
        scores: of the document's candidates.
        asked: the document's tests (`_asked`).
        ties: how ties were decided.
        where: begins errors.

    Raises:
        NNDError: a value is missing or wrong, or contradicts the document or the scores.
    """
    if not isinstance(test, dict):
        raise NNDError(f"{where}: tests hold {_shown(test)}, which is not an object")
    name = _get(test, "test_id", str, where)
    where = f"{where}, test {name}"
    row = {"test_id": name, **{key: test.get(key, "") for key in ("category", "subcategory", "severity")}}
    for key in ("category", "subcategory", "severity"):
        _get(row, key, str, where)
    for key in ("high", "low"):
        row[key] = _whole(test.get(key), f"{where}: {key}", 0, len(scores) - 1)
    noise, seed = test.get("noise_ratio"), test.get("seed")
    row["noise_ratio"] = None if noise is None else _number(noise, f"{where}: noise_ratio")
    row["seed"] = None if seed is None else _whole(seed, f"{where}: seed", -_MOST)
    if noise is not None and seed is None:
        raise NNDError(f"{where}: has a noise_ratio and no seed")
    row["tie"] = _get(test, "tie", bool, where)
    if (passed := test.get("passed", "")) is not None:
        _get(test, "passed", bool, where)
    row["passed"] = passed
    first = None
    if asked is not None:
        if name not in asked:
            raise NNDError(f"{where}: its document has no such test; the file was changed")
        for key in ("category", "high", "low"):
            if asked[name].get(key) != test.get(key):
                raise NNDError(f"{where}: {key} is not that of its document; the file was changed")
        first = asked[name].get("high_first")
    high, low = scores[row["high"]], scores[row["low"]]
    _check_outcome(row, high, low, ties, first, where)
    return {**row, **dict(zip(("margin", "margin_sum", "margin_bytes"), _margins(high, low), strict=True))}


def _check_outcome(
    row: Mapping[str, Any],
    high: Mapping[str, Any] | None,
    low: Mapping[str, Any] | None,
    ties: str,
    high_first: Any,
    where: str,
) -> None:
    """Raise NNDError where a test's outcome is not what the scores of its candidates say."""
    logged = row["passed"], row["tie"]
    expected: tuple[bool | None, bool]
    if high is None or low is None:
        expected = (None, False)
    elif high["mean"] is None or low["mean"] is None:
        return  # infinity and nan are both logged as null
    else:
        outcome = decide(high["mean"], low["mean"], high_first=high_first is not False, ties=ties)
        expected = outcome.passed, outcome.tie
        if outcome.tie and ties != "fail" and high_first is None:
            expected = logged[0] is True, True  # the file does not say which candidate comes first
    if logged != expected:
        raise NNDError(
            f"{where}: passed {logged[0]}, tie {logged[1]} contradict its scores, by which they are {expected[0]} and "
            f"{expected[1]}; the file was changed, run the task again"
        )


def _margins(high: Mapping[str, Any] | None, low: Mapping[str, Any] | None) -> tuple[float, float, float]:
    """Return the three margins; nan where a candidate has no finite score."""
    if high is None or low is None or high["sum"] is None or low["sum"] is None:
        return math.nan, math.nan, math.nan
    return (
        high["mean"] - low["mean"],
        high["sum"] - low["sum"],
        high["sum"] / max(high["bytes"], 1) - low["sum"] / max(low["bytes"], 1),
    )
