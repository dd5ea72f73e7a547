"""From judgements to tests by the definition (paper, sections 2.1, 3.3 and 7.2), in plain Python over rows of dicts.

Rows have ``c`` (context), ``t`` (candidate), ``g`` (group), ``mark`` (a label, a score, or a list of these), ``other`` (a second
one), ``name`` (of what was judged), and ``system``, ``rater``, ``category``, ``subcategory`` and ``severity``.
"""

import math
from itertools import combinations


def vote(labels, rank):
    """Find the most frequent label of the most frequent rank, or the first of several; None where ranks tie."""
    ranks = [rank[label] for label in labels]
    most = max(ranks, key=ranks.count)
    if any(ranks.count(other) == ranks.count(most) for other in set(ranks) - {most}):
        return None
    inside = sorted(label for label in labels if rank[label] == most)
    return max(inside, key=inside.count)


def mean(numbers):
    return math.fsum(numbers) / len(numbers)


def choose_errors(judgements, recipe):
    """List the errors of a candidate."""
    names = [name for name in ("category", "subcategory", "severity") if name in recipe]
    errors = list(dict.fromkeys(tuple(one[name] for name in names) for one in judgements))
    if "category" in names and any(error[0] for error in errors):
        errors = [error for error in errors if error[0]]
    values = [list(dict.fromkeys(error[i] for error in errors if error[i])) for i in range(len(names))]
    if len(errors) > 1 and all(len(several) < 2 for several in values):
        errors = [tuple(several[0] if several else "" for several in values)]
    return [dict(zip(names, error, strict=True)) for error in errors]


def by_label(recipe):
    return "better" in recipe


def take_marks(row, recipe):
    """Take what was judged in a row -> its mark."""
    attribute = recipe.get("attribute", {})
    if attribute and not {"label", "score"} & {*recipe}:
        return {name: row[column] for name, column in attribute.items()}
    return {row["name"] if attribute else "": row["mark"]}


def judge(rows, recipe):
    """Make a judgement for each mark in the cells of rows."""
    found = []
    for number, row in enumerate(rows):
        if not row["t"].strip() and recipe.get("candidates") != "rows":
            continue
        for aspect, cell in take_marks(row, recipe).items():
            for mark in cell if isinstance(cell, list) else [cell]:
                if by_label(recipe) and not mark and "" in recipe.get("better", []):
                    mark = ""
                elif not mark or mark in recipe["missing"]:
                    continue
                if mark in recipe.get("ignore", []):
                    continue
                found.append({**row, "row": number, "aspect": aspect, "mark": mark})
    return found


def rate(judgements, recipe, best):
    """Make a candidate with its quality, or None where people did not agree; ``best`` is the best score by aspect."""
    ballots = {}
    turns = {}
    cast = []
    for i, one in enumerate(judgements):
        turn = turns[one["row"]] = turns.get(one["row"], -1) + 1
        named = "rater" in recipe and one["rater"]
        cast.append((one["rater"], turn) if named else i)
        ballots.setdefault(cast[-1], []).append(one["mark"])
    if by_label(recipe):
        rank = {one["mark"]: int(one["mark"] in recipe["better"]) for one in judgements}
        decided = {ballot: label for ballot, marks in ballots.items() if (label := vote(marks, rank)) is not None}
        judgements = [one for one, ballot in zip(judgements, cast, strict=True) if ballot in decided]
        label = vote([*decided.values()], rank) if decided else None
        if label is None:
            return None
        judgements_with = [one for one in judgements if one["mark"] == label]
        found = {**judgements_with[0], "quality": rank[label], "label": label}
        found["errors"] = choose_errors(judgements_with, recipe)
    else:
        votes = [mean(marks) for marks in ballots.values()]
        found = dict(judgements[0])
        found["score"] = found["quality"] = mean(votes)
        found["errors"] = choose_errors(judgements, recipe)
        if "majority" in recipe:
            found["quality"] = int(2 * votes.count(best[found["aspect"]]) > len(votes))
    found["system"] = "|".join(sorted({one["system"] for one in judgements if one["system"]}))
    found["rater"] = judgements[0]["rater"] if len({one["rater"] for one in judgements}) == 1 else ""
    return found


def slow_tests(rows, recipe):
    """Form the tests of rows, and which of them the clean config keeps."""
    judgements = judge(rows, recipe)
    gap = recipe.get("min_gap", 1) - 1e-9
    group = "g" if "group" in recipe else "c"
    best = {}
    of_each = {}
    for one in judgements:
        if "majority" in recipe:
            best[one["aspect"]] = recipe.get("best", max(one["mark"], best.get(one["aspect"], -math.inf)))
        key = one["row"] if recipe.get("candidates") == "rows" else (one[group], one["t"])
        of_each.setdefault((one["aspect"], key), []).append(one)
    candidates = [found for members in of_each.values() if (found := rate(members, recipe, best))]
    tests, keep, seen = [], [], set()
    for place in dict.fromkeys(row[group] for row in rows):
        for aspect in dict.fromkeys(aspect for row in rows for aspect in take_marks(row, recipe)):
            members = [one for one in candidates if (one["aspect"], one[group]) == (aspect, place)]
            for first, second in combinations(members, 2):
                if abs(first["quality"] - second["quality"]) < gap:
                    continue
                high, low = (first, second) if first["quality"] > second["quality"] else (second, first)
                test = {"context": high["c"], "high": high["t"], "low": low["t"], "high_first": high is first}
                test["rater"] = low["rater"] if "rater" in recipe else ""
                for side, one in (("high", high), ("low", low)):
                    test |= {f"{side}_label": one.get("label", ""), f"{side}_system": one["system"]}
                    test[f"{side}_score"] = one.get("score")
                twins = [
                    [one["quality"] for one in candidates
                     if (one["aspect"], one["c"], one["t"]) == (aspect, side["c"], side["t"])]
                    for side in (high, low)
                ]  # fmt: skip
                for error in low["errors"]:
                    category = error.get("category", low.get("label"))
                    finer = error.get("category", "") if aspect else ""
                    test = {
                        **test,
                        "category": aspect or category or "preference",
                        "subcategory": error.get("subcategory", finer),
                        "severity": error.get("severity", ""),
                    }
                    tests.append(test)
                    key = tuple(test[name] for name in ("context", "high", "low", "category"))
                    keep.append(
                        high["t"] != low["t"]
                        and key not in seen
                        and not any(max(qualities) - min(qualities) >= gap for qualities in twins)
                        and bool(high["t"].strip() and low["t"].strip())
                    )
                    seen.add(key)
    return tests, keep


def slow_ready_pairs(rows):
    """Form the tests of ready-made pairs: prompt, better and worse text, and rater (``""`` is nobody known).

    A rater says what most of his judgements of a pair say; the direction that more raters say counts.
    """
    tests = []
    for i, (prompt, better, worse, rater) in enumerate(rows):
        if not better.strip() or not worse.strip() or better == worse or (prompt, better, worse) in tests:
            continue
        ballots = {}
        for j, (twin_prompt, *texts, voter) in enumerate(rows):
            if twin_prompt == prompt and {*texts} == {better, worse}:
                ballots[voter or j] = ballots.get(voter or j, 0) + (1 if texts[0] == better else -1)
        if ballots[rater or i] and sum((votes > 0) - (votes < 0) for votes in ballots.values()) > 0:
            tests.append((prompt, better, worse))
    return tests
