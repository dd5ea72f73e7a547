"""Tables written to files, drafts of them, and the slow definition of pairs that the fast one must equal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.new.draft import Draft, draft_set
from nnd_tasks.schema import normalize

Row = Mapping[str, Any]


def write_rows(path: Path, rows: Iterable[Row]) -> Path:
    """Write rows as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def draft(path: Path, rows: Iterable[Row], **options: Any) -> Draft:
    """Return the draft of a set of rows."""
    return draft_set("mine", str(write_rows(path / "table.jsonl", rows)), options)


def draft_if_any(source: Path, options: Mapping[str, Any]) -> Draft | None:
    """Return the draft of a table, None where no test comes out of it."""
    try:
        return draft_set("mine", str(source), options)
    except NNDError as error:
        if "no test comes out" in str(error) or "no candidate has this label" in str(error):
            return None
        raise


def rows_of(found: Draft, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of the tests, row by row."""
    return [tuple(row[name] for name in columns) for row in found.table.to_pylist()]


def slow_pairs(rows: Sequence[Row], rule: str, aspects: Sequence[str], setting: Any) -> list[tuple[Any, ...]]:
    """Return (context, high, low, category, high_first) of every test, by the definition.

    Args:
        rows: with ``c`` (context), ``t`` (candidate) and a mark per aspect, None for no judgement.
        rule: ``better``, ``order``, ``gap`` or ``majority``.
        aspects: columns of marks.
        setting: better labels, ranks of labels, a gap, or None.
    """
    tests = []
    usable = [row for row in rows if row["c"].strip() and row["t"].strip()]
    for context in dict.fromkeys(normalize(row["c"]) for row in rows):
        for aspect in aspects:
            judged: dict[str, list[Any]] = {}
            shown: dict[str, str] = {}
            for row in usable:
                if normalize(row["c"]) == context and row[aspect] is not None:
                    key = normalize(row["t"])
                    judged.setdefault(key, []).append(row[aspect])
                    shown.setdefault(key, normalize(row["t"]))
            best = max((row[aspect] for row in usable if row[aspect] is not None), default=None)
            quality: dict[str, tuple[float, Any]] = {}
            for key, marks in judged.items():
                value = _quality(marks, rule, setting, best)
                if value is not None:
                    quality[key] = value
            keys = list(quality)
            for i, one in enumerate(keys):
                for other in keys[i + 1 :]:
                    difference = quality[one][0] - quality[other][0]
                    if abs(difference) >= (setting if rule == "gap" else 1) - 1e-9:
                        high, low = (one, other) if difference > 0 else (other, one)
                        category = aspect if len(aspects) > 1 else quality[low][1]
                        tests.append((context, shown[high], shown[low], category, difference > 0))
    return tests


def _quality(marks: list[Any], rule: str, setting: Any, best: Any) -> tuple[float, Any] | None:
    """Return quality and label of a candidate, None for a tie of its raters."""
    if rule == "gap":
        return sum(marks) / len(marks), "preference"
    if rule == "majority":
        return float(2 * marks.count(best) > len(marks)), "preference"
    rank = {label: i for i, labels in enumerate(setting) for label in labels}
    votes = Counter(rank[mark] for mark in marks)
    (first, most), *others = votes.most_common()
    if others and others[0][1] == most:
        return None
    inside = [mark for mark in marks if rank[mark] == first]
    return float(first), Counter(inside).most_common()[0][0]  # the earliest of equally frequent ones
