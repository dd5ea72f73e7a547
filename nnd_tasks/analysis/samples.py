"""A samples file that lm-eval wrote with ``--log_samples``: read, and checked for damage; not for forgery."""

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
from nnd_tasks.harness.metrics import passes
from nnd_tasks.schema import category_slugs, severity_slugs
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import check_json, json_lines, load_json

#: Columns of `Samples.tests`. Margins are (better - worse) in nats: per token, summed, per UTF-8 byte. ``high`` and ``low``
#: are indices into the document's candidates, ``document`` is an index into `Samples.documents`.
COLUMNS = (
    *("test_id", "cluster_id", "category", "subcategory", "severity", "noise_ratio", "seed", "document", "high", "low"),
    *("margin", "margin_sum", "margin_bytes", "passed", "tie"),
)


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


def read_samples(path: Path) -> Samples:
    """Read a samples file.

    What lm-eval or a task of ours could not have written is not looked for: that is for `Samples.rates` and `Samples.counts`,
    which the results beside the samples must have too.

    Args:
        path: of the file.

    Raises:
        NNDError: it cannot be read, is cut off or damaged, is not a samples file of an NND task, or has a prompt or test twice;
            the error names the line.
    """
    documents: list[dict[str, Any]] = []
    rows: list[tuple[Any, ...]] = []
    truncated = 0
    seen: dict[str, dict[str, int]] = {"cluster_id": {}, "test_id": {}}
    for number, sample in read_lines(path):
        try:
            doc = sample["doc"]
            scores = _scores(sample["candidates"], doc["candidates"])
            without = sample.get("no_context")
            no_context = None if without is None else _scores(without, doc["candidates"])
            truncated += int(sample.get("truncated_contexts") or 0)
            tests = [_test(test, scores) for test in sample["tests"]]
            prompt = str(doc["cluster_id"])
        except KeyError as error:
            raise NNDError(f"{path}, line {number}: is not a sample of an NND task (it has no {error})") from error
        except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise NNDError(f"{path}, line {number}: is not a sample of an NND task, or damaged ({error})") from error
        _once(seen["cluster_id"], prompt, "prompt", number, path)
        for row in tests:
            _once(seen["test_id"], row["test_id"], "test", number, path)
            row |= {"cluster_id": prompt, "document": len(documents)}
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


def _scores(scores: Sequence[Mapping[str, Any] | None], candidates: Sequence[str]) -> list[dict[str, Any] | None]:
    """Return the scores of the candidates; None for one that was not scored. Sum and mean are None where they are infinite."""
    if len(scores) != len(candidates):
        raise ValueError(f"{counted(len(scores), 'score')} of {counted(len(candidates), 'candidate')}")
    kinds = {"sum": float, "mean": float, "tokens": int, "bytes": int}
    return [
        None
        if score is None
        else {key: None if score[key] is None else kind(score[key]) for key, kind in kinds.items()}
        for score in scores
    ]


def _test(test: Mapping[str, Any], scores: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return a test as a row of the table, without the columns ``cluster_id`` and ``document``.

    Args:
        test: as the task logged it.
        scores: of the document's candidates.
    """
    high, low = (scores[test[side]] for side in ("high", "low"))
    noise, seed = test.get("noise_ratio"), test.get("seed")
    return {
        "test_id": str(test["test_id"]),
        **{key: str(test.get(key, "")) for key in ("category", "subcategory", "severity")},
        "noise_ratio": None if noise is None else float(noise),
        "seed": None if seed is None else int(seed),
        **{side: int(test[side]) for side in ("high", "low")},
        "passed": None if test["passed"] is None else bool(test["passed"]),
        "tie": bool(test["tie"]),
        **dict(zip(("margin", "margin_sum", "margin_bytes"), _margins(high, low), strict=True)),
    }


def _margins(high: Mapping[str, Any] | None, low: Mapping[str, Any] | None) -> tuple[float, float, float]:
    """Return the three margins; nan where a candidate has no finite score."""
    if high is None or low is None or high["sum"] is None or low["sum"] is None:
        return math.nan, math.nan, math.nan
    return (
        high["mean"] - low["mean"],
        high["sum"] - low["sum"],
        high["sum"] / max(high["bytes"], 1) - low["sum"] / max(low["bytes"], 1),
    )
