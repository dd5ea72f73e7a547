"""What became of everything that a build read: used, or left out for a reason; and what is odd about the texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.files import read_yaml
from nnd_tasks.sets.recipe import LabelRule, Recipe, ScoreRule
from nnd_tasks.tables.cells import place_of, traces_of
from nnd_tasks.tables.roles import FIELD, NAMES, TEXTS
from nnd_tasks.tables.spans import read_items
from nnd_tasks.text import counted

_EXAMPLES = 3
_FOLDER = re.compile(r"^.*?/(?=[^/]*\.\w+, (sheet|row|line|item|key) )")  # before the file in the place of a row
#: What is counted -> reason -> what is said of those that are left out for it.
REASONS: Mapping[str, Mapping[str, str]]
REASONS, _NOTES, _KEPT_BY = read_yaml(Path(__file__).with_name("reasons.yaml")).values()
#: What happened to all of them.
_VERBS = {"row": "read", "judgement": "read", "candidate": "judged", "pair": "compared", "error span": "read"}
#: Share of tests whose candidates begin with their context from which on that is no accident.
_REPEATING = 0.1


def tally_table(table: pd.DataFrame, noun: str) -> dict[str, Any]:
    """Count the rows of a table by the reason in ``exclusion``, with the places of the first few.

    Args:
        table: a row per thing that is counted.
        noun: a key of `REASONS`.

    Raises:
        RuntimeError: something is neither used nor left out for one of the reasons.
    """
    counts = table.groupby("exclusion", sort=False).size()
    left_out = {
        reason: int(count)
        for kind in REASONS[noun]
        for reason, count in counts.items()
        if str(reason).partition(": ")[0] == kind
    }
    tally = tally_counts(len(table), left_out)
    if tally["used"] != counts.get("", 0):
        raise RuntimeError(
            f"of {counted(len(table), noun)}, {counts.get('', 0):,} are used and {sum(left_out.values()):,} left out for a "
            "reason; this is a mistake of nnd-tasks, please report it"
        )
    examples = {}
    for reason in left_out:
        first = table[table["exclusion"] == reason]
        places = dict.fromkeys(_FOLDER.sub("", place_of(first, position)) for position in range(min(len(first), 20)))
        examples[reason] = [*places][:_EXAMPLES]  # one row may have several judgements
    return {**tally, "examples": examples}


def tally_counts(total: int, left_out: Mapping[str, int]) -> dict[str, Any]:
    """Count what is used of a total, of which some are left out for each reason."""
    left_out = {reason: count for reason, count in left_out.items() if count}
    return {"total": total, "used": total - sum(left_out.values()), "left_out": left_out}


def tally_rows(rows: pd.DataFrame, placed: pd.DataFrame) -> dict[str, Any]:
    """Count rows, and the error spans in ``placed``, which has several rows for one where it has a ``row_id``."""
    accounts = {"rows": tally_table(rows, "row")}
    if "spans_nowhere" in placed:
        used = placed[placed["exclusion"] == ""]
        used = used.drop_duplicates("row_id") if "row_id" in used else used
        nowhere = int(used["spans_nowhere"].sum())
        accounts["error_spans"] = tally_counts(int(used["spans"].map(len).sum()) + nowhere, {"nowhere": nowhere})
    return accounts


def tally_judged(
    rows: pd.DataFrame, judgements: pd.DataFrame, candidates: pd.DataFrame, rule: LabelRule | ScoreRule
) -> dict[str, Any]:
    """Count rows, judgements and candidates by why they are left out."""
    used_rows = rows.index[rows["exclusion"] == ""]
    judgements = judgements.drop_duplicates("judgement_id")
    rated = candidates[candidates["exclusion"].isin(["", "no_pair"])]
    accounts = {
        **tally_rows(rows, judgements),
        "judgements": tally_table(judgements[judgements["row_id"].isin(used_rows)], "judgement"),
        "candidates": tally_table(candidates, "candidate"),
        "groups": rated["group"].nunique(),
        "groups_with_tests": candidates["group"][candidates["exclusion"] == ""].nunique(),
    }
    if differently := int(candidates["differently"].sum()):
        what_counts = "the most frequent label counts" if rule.role == "label" else "the mean of their scores counts"
        attributes = judgements["attribute_id"].nunique()
        accounts |= {"judged_differently": differently, "what_counts": what_counts, "attributes": attributes}
    return accounts


def describe_accounts(accounts: Mapping[str, Any], *, on_card: bool = False) -> list[str]:
    """Say what was read, used and left out: a line for rows, and one for whatever else something was left out of.

    Args:
        accounts: of a config, from ``build_report.json``.
        on_card: give a line for whatever was counted, and no advice or examples of rows.
    """
    lines = []
    for noun, reasons in REASONS.items():
        tally = accounts.get(f"{noun}s".replace(" ", "_"))
        if tally is None or not (noun == "row" or on_card or tally["left_out"]):
            continue
        sum_text = f"{tally['used']:,} used + {tally['total'] - tally['used']:,} left out"
        texts = []
        for reason, count in tally["left_out"].items():
            kind, _, condition = reason.partition(": ")
            text = f"{counted(count, noun)} {reasons[kind]}{f' ({condition})' if condition else ''}"
            first_rows = tally.get("examples", {}).get(reason)
            if first_rows and not on_card and reason != "no_pair":
                text += f" (such as {'; '.join(first_rows)})"
            texts.append(text)
        lines.append(
            f"{counted(tally['total'], noun)} {_VERBS[noun]} = {sum_text}{': ' if texts else ''}{', '.join(texts)}"
        )
    if "judged_differently" in accounts:
        number = counted(accounts["judged_differently"], "candidate" if "candidates" in accounts else "pair")
        lines.append(f"{number} judged differently by several: {accounts['what_counts']}")
        if accounts["attributes"] < 2 and not on_card:
            lines[-1] += "; if of several aspects, name their column with --attribute"
    agreement = describe_agreement(accounts)
    return [*lines, *([agreement] if agreement else []), *_describe_texts(accounts)]


def describe_agreement(accounts: Mapping[str, Any]) -> str:
    """Say how far the raters of a config agree; ``""`` where that is not known."""
    one = accounts.get("agreement")
    if not one:
        return ""
    return (
        f"{counted(one['raters'], 'rater')}, {one['units']:,} judged by several: {one['same']:.0%} of pairs of judgements are "
        f"the same, Krippendorff's alpha {one['alpha']:.2f} (95% interval {one['low']:.2f} to {one['high']:.2f})"
    )


def _describe_texts(accounts: Mapping[str, Any]) -> Iterator[str]:
    for role, texts in accounts.get("taken_for_missing", {}).items():
        for text, count in texts.items():
            way = _KEPT_BY.get(role, _KEPT_BY["other"])
            yield f"{role}: {text!r} in {counted(count, 'cell')} is taken for a missing value; if it is meant, {way}"
    for what, (noun, sentence) in _NOTES.items():
        if what in accounts:
            yield f"{counted(accounts[what], noun)} {sentence}"


def say_why_nothing(accounts: Mapping[str, Any]) -> str:
    """Say why no test comes out of what was counted."""
    candidates = accounts.get("candidates", {"total": 0, "left_out": {}})
    ties = candidates["left_out"].get("tie", 0)
    why = ""
    if ties and ties == candidates["total"]:
        why = ": of every candidate people said both equally often"
    elif "no_pair" in candidates["left_out"] and not accounts["pairs"]["total"]:
        why = ": no context has two candidates; is --context the column of what candidates share?"
        if ties or accounts["rows"]["left_out"]:
            why = ": no context has two candidates whose judgements count"
    merged = "judgements" in accounts and accounts["judgements"]["used"] > candidates["total"]
    hint = "; equal texts of a context count as one candidate" if merged else ""
    return f"no test comes out{why}; {'; '.join(describe_accounts(accounts))}{hint}"


# ---------------------------------------------------------------- what is odd about the texts


def look_at_texts(rows: pd.DataFrame, tests: pd.DataFrame, prompts: pd.DataFrame, recipe: Recipe) -> dict[str, Any]:
    """Count what people should know of the texts of a config; nothing of what there is none of."""
    counts = {
        "taken_for_missing": count_traces(rows[~rows["exclusion"].str.startswith("by_recipe")], recipe),
        "space_twins": int(find_space_twins(prompts).sum()),
        "repeated_prompts": int(find_repeated_prompts(tests).sum()),
        "astral_spans": count_astral(rows, recipe),
    }
    return {name: value for name, value in counts.items() if value}


def find_space_twins(prompts: pd.DataFrame) -> pd.Series[bool]:
    """Tell which prompts another one equals but for white space, no-break spaces included.

    Args:
        prompts: the texts of distinct prompts, a column each for the context and the prompt fields.
    """
    return prompts.map(_join_words).duplicated(keep=False) & ~prompts.duplicated(keep=False)


def find_repeated_prompts(tests: pd.DataFrame) -> pd.Series[bool]:
    """Tell which tests have a candidate that begins with its whole context, if they are too many to be an accident.

    Args:
        tests: with ``context``, ``high`` and ``low``.
    """
    join = cache(_join_words)  # a context is that of many tests

    def begins_alike(text: str, context: str) -> bool:
        return text.lstrip()[:1] == context.lstrip()[:1] and _continues(join(text), join(context))

    columns = (tests[name] for name in ("context", "high", "low"))
    repeats = [
        begins_alike(high, context) or begins_alike(low, context) for context, high, low in zip(*columns, strict=True)
    ]
    repeating = pd.Series(repeats, tests.index, dtype=bool)
    return repeating if repeating.mean() > _REPEATING else repeating & False


def _continues(text: str, context: str) -> bool:
    if not context or text == context or not text.startswith(context):
        return False
    return not (context[-1].isalnum() and text[len(context)].isalnum())  # "catalogue" does not continue "cat"


def _join_words(text: str) -> str:
    return " ".join(text.split())


def count_traces(rows: pd.DataFrame, recipe: Recipe) -> dict[str, dict[str, int]]:
    """Count the cells that `clean_texts` takes for missing values: role -> what they say -> how many."""
    counts = {}
    for role in rows:
        is_text = role in TEXTS or role.startswith(FIELD)
        if role in (*NAMES, "winner", "spans") or (is_text and recipe.candidates != "rows"):
            traces = traces_of(role, recipe)
            texts = map(str.strip, [cell for cell in rows[role] if isinstance(cell, str)])
            counts[role.removeprefix(FIELD)] = dict(Counter(filter(traces.__contains__, texts)))
    return {role: texts for role, texts in counts.items() if texts}


def count_astral(rows: pd.DataFrame, recipe: Recipe) -> int:
    """Count the rows whose spans count characters or UTF-16 units, which the recipe does not say, and so lie elsewhere.

    They have positions without words, in a text with characters beyond U+FFFF.
    """
    keys = recipe.spans
    if not keys or keys.marks or keys.utf16 is not None or "spans" not in rows:
        return 0
    texts = rows["rejected" if "rejected" in rows else "candidate"]

    def has_words(item: Any) -> bool:
        return isinstance(item, str) or bool(isinstance(item, Mapping) and item.get(keys.text))

    return sum(
        isinstance(text, str) and max(text, default="") > "\uffff" and not all(map(has_words, read_items(cell)))
        for text, cell in zip(texts, rows["spans"], strict=True)
    )
