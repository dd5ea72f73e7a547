"""From judgements to tests by the definition (paper, sections 2.1, 3.3 and 7.2), in plain Python over rows of dicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

Row = Mapping[str, Any]


def vote(labels: Sequence[str], rank: Mapping[str, int]) -> str | None:
    """Return the most frequent label of the most frequent rank, None where two ranks are as frequent."""
    ranks = [rank[label] for label in labels]
    most = max(ranks, key=ranks.count)
    if any(ranks.count(other) == ranks.count(most) for other in set(ranks) - {most}):
        return None
    inside = [label for label in labels if rank[label] == most]
    return max(inside, key=inside.count)


def mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def judge(rows: Sequence[Row], recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a judgement for each mark in the cells of rows."""
    by_label = "better" in recipe or "order" in recipe
    ranked = [label for rank in recipe.get("order", []) for label in rank]
    found = []
    for number, row in enumerate(rows):
        wide = (
            recipe.get("attribute", {})
            if not {"label", "score"} & {*recipe}
            else {"": recipe.get("label") or recipe["score"]}
        )
        for name, column in wide.items():
            aspect = name or (row[next(iter(recipe["attribute"].values()))] if "attribute" in recipe else "")
            for mark in row[column] if isinstance(row[column], list) else [row[column]]:
                if by_label and not mark and "" in recipe.get("better", []):
                    mark = ""
                elif not mark or str(mark).casefold() in recipe.get("missing", []):
                    continue
                if by_label and (mark in recipe.get("ignore", []) or (ranked and mark not in ranked)):
                    continue
                if row["t"] is None or (recipe.get("candidates") != "rows" and not row["t"].strip()):
                    continue
                found.append({**row, "row": number, "aspect": aspect, "mark": mark})
    return found


def rate(judgements: list[dict[str, Any]], recipe: Mapping[str, Any], best: float) -> dict[str, Any] | None:
    """Return a candidate with its quality, or None where people did not agree."""
    ballots: dict[Any, list[Any]] = {}
    turns: dict[int, int] = {}
    for i, one in enumerate(judgements):
        turn = turns[one["row"]] = turns.get(one["row"], -1) + 1
        named = "rater" in recipe and one["rater"]
        ballots.setdefault((one["rater"], turn) if named else i, []).append(one["mark"])
    found = dict(judgements[0])
    if "better" in recipe or "order" in recipe:
        rank = {label: place for place, labels in enumerate(recipe.get("order", [])) for label in labels}
        rank = rank or {one["mark"]: int(one["mark"] in recipe["better"]) for one in judgements}
        votes = [label for marks in ballots.values() if (label := vote(marks, rank)) is not None]
        label = vote(votes, rank) if votes else None
        if label is None:
            return None
        found = {**next(one for one in judgements if one["mark"] == label), "quality": rank[label], "label": label}
    else:
        votes = [mean(marks) for marks in ballots.values()]
        found["score"] = found["quality"] = mean(votes)
        if "majority" in recipe:
            found["quality"] = int(2 * votes.count(best) > len(votes))
    found["system"] = "|".join(dict.fromkeys(one["system"] for one in judgements if one["system"]))
    found["rater"] = judgements[0]["rater"] if len({one["rater"] for one in judgements}) == 1 else ""
    return found


def slow_tests(rows: Sequence[Row], recipe: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[bool]]:
    """Return the tests of rows with ``c`` (context), ``t`` (candidate) and so on, and which of them the clean config keeps."""
    judgements = judge(rows, recipe)
    gap = recipe.get("min_gap", 1) - 1e-9
    group = (lambda row: row["g"]) if "group" in recipe else (lambda row: row["c"])
    names = recipe["attribute"] if {"label", "score"}.isdisjoint(recipe) else dict.fromkeys(
        row[next(iter(recipe["attribute"].values()))] if "attribute" in recipe else "" for row in rows
    )  # fmt: skip
    tests, keep, seen = [], [], set()
    candidates: dict[Any, dict[str, Any]] = {}
    for aspect in names:
        best = recipe.get("best", max((one["mark"] for one in judgements if one["aspect"] == aspect), default=0))
        of_each: dict[Any, list[Any]] = {}
        for one in judgements:
            if one["aspect"] == aspect:
                key = one["row"] if recipe.get("candidates") == "rows" else (group(one), one["t"])
                of_each.setdefault((aspect, key), []).append(one)
        rated = {key: rate(members, recipe, best) for key, members in of_each.items()}
        candidates |= {key: found for key, found in rated.items() if found}
    for place in dict.fromkeys(group(row) for row in rows):
        for aspect in names:
            members = [one for (name, _), one in candidates.items() if name == aspect and group(one) == place]
            for first, second in combinations(members, 2):
                if abs(first["quality"] - second["quality"]) < gap:
                    continue
                high, low = (first, second) if first["quality"] > second["quality"] else (second, first)
                test = {"context": high["c"], "high": high["t"], "low": low["t"], "high_first": high is first}
                known = low["category"] if "category" in recipe else low.get("label")
                test["category"] = aspect or known or "preference"
                finer = low["category"] if aspect and "category" in recipe else ""
                test["subcategory"] = low["subcategory"] if "subcategory" in recipe else finer
                test["severity"] = low["severity"] if "severity" in recipe else ""
                test["high_label"], test["low_label"] = high.get("label", ""), low.get("label", "")
                test["high_system"], test["low_system"] = high["system"], low["system"]
                test["rater"] = low["rater"] if "rater" in recipe else ""
                test["high_score"], test["low_score"] = high.get("score"), low.get("score")
                tests.append(test)
                twins = [
                    [one["quality"] for (name, _), one in candidates.items()
                     if (name, one["c"], one["t"]) == (aspect, side["c"], side["t"])]
                    for side in (high, low)
                ]  # fmt: skip
                key = tuple(test[name] for name in ("context", "high", "low", "category"))
                keep.append(
                    high["t"] != low["t"]
                    and key not in seen
                    and not any(max(qualities) - min(qualities) >= gap for qualities in twins)
                    and bool(high["t"].strip() and low["t"].strip())
                )
                seen.add(key)
    return tests, keep
