"""What became of everything that a build read: used, or left out for a reason; each row, judgement and so on counts once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from nnd_tasks.sets.cells import place_of
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.sets.rows import count_traces
from nnd_tasks.wording import counted, some_of

_EXAMPLES = 3
_FOLDER = re.compile(r"^.*?/(?=[^/]*\.\w+, (sheet|row|line|item|key) )")  # before the file in the place of a row
#: What is counted -> reason -> what is said of those that are left out for it.
#:
#: A row is used if one of its judgements is; a judgement counts as left out if its row is used without it. A candidate is used
#: if it is in a test, a pair of candidates if it makes one.
REASONS: Mapping[str, Mapping[str, str]] = {
    "row": {
        "by_recipe": "left out by the recipe, as no judgement",
        "undecided": "with a pair that people called a tie",
        "other_prompt": "with two texts that answer different prompts, or of a chat and a text",
        "empty": "with an empty text",
        "no_context": "with an empty context",
        "no_attribute": "with an empty attribute",
        "no_category": "with an empty category",
        "no_judgement": "without a judgement",
        "ignored": "whose label says nothing of quality",
        "unranked": "whose label the order does not have",
        "rater_tie": "of a rater who judged the same differently, each way equally often",
        "equal_texts": "with two equal texts",
        "contradictory": "with a pair that people judged the other way round as often or more often",
        "repeated": "with the same pair as an earlier one",
    },
    "judgement": {
        "no_judgement": "that is missing beside others of its row",
        "ignored": "whose label says nothing of quality",
        "unranked": "whose label the order does not have",
        "rater_tie": "of a rater who judged the same differently, each way equally often",
    },
    "candidate": {
        "tie": "of which as many judgements say one thing as another",
        "no_pair": "in no test",
    },
    "pair": {"no_order": "of candidates neither of which is better by the rule"},
    "error span": {"nowhere": "that does not lie in its text"},
}


#: What happened to all of them.
_VERBS = {"row": "read", "judgement": "read", "candidate": "judged", "pair": "compared", "error span": "read"}


def tally_table(table: pd.DataFrame, noun: str) -> dict[str, Any]:
    """Count the rows of a table by the reason in ``exclusion``, with the places of the first few.

    Args:
        table: a row per thing that is counted.
        noun: a key of `REASONS`.
    """
    counts = table["exclusion"].value_counts()
    left_out = {reason: int(counts[reason]) for reason in REASONS[noun] if reason in counts}
    examples = {}
    for reason in left_out:
        first = table[table["exclusion"] == reason].head(_EXAMPLES)
        examples[reason] = [_FOLDER.sub("", place_of(first, position)) for position in range(len(first))]
    return {**tally_counts(len(table), left_out), "examples": examples}


def tally_counts(total: int, left_out: Mapping[str, int]) -> dict[str, Any]:
    """Count what is used of a total, of which some are left out for each reason."""
    left_out = {reason: count for reason, count in left_out.items() if count}
    return {"total": total, "used": total - sum(left_out.values()), "left_out": left_out}


def check_sum(tally: Mapping[str, Any], table: pd.DataFrame, read: int) -> None:
    """Raise RuntimeError where some of the rows that were read are neither used nor left out for a reason that is counted."""
    used = int((table["exclusion"] == "").sum())
    if not (tally["total"] == read and tally["used"] == used):
        raise RuntimeError(
            f"of {read:,} rows that were read, {used:,} are used and {sum(tally['left_out'].values()):,} left out for a "
            "reason; this is a mistake of nnd-tasks, please report it"
        )


def describe_accounts(accounts: Mapping[str, Any], *, examples: bool = True, complete: bool = False) -> list[str]:
    """Say what was read, used and left out: a line for rows, and one for whatever else something was left out of.

    Args:
        accounts: of a config, from ``build_report.json``.
        examples: name the first rows that were left out for each reason.
        complete: a line for whatever was counted.
    """
    lines = []
    for noun, reasons in REASONS.items():
        tally = accounts.get(f"{noun}s".replace(" ", "_"))
        if tally is None or not (noun == "row" or complete or tally["left_out"]):
            continue
        sum_text = f"{tally['used']:,} used + {tally['total'] - tally['used']:,} left out"
        texts = []
        for reason, count in tally["left_out"].items():
            text = f"{counted(count, noun)} {reasons[reason]}"
            if reason == "unranked" and "unranked_labels" in accounts:
                text += f" ({some_of(accounts['unranked_labels'])})"
            places = tally.get("examples", {}).get(reason, []) if examples and reason != "no_pair" else []
            texts.append(text + (f" (such as {'; '.join(places)})" if places else ""))
        lines.append(
            f"{counted(tally['total'], noun)} {_VERBS[noun]} = {sum_text}{': ' if texts else ''}{', '.join(texts)}"
        )
    if "judged_differently" in accounts:
        number = counted(accounts["judged_differently"], "candidate")
        lines.append(f"{number} judged differently by several: {accounts['what_counts']}")
    return [*lines, *_describe_texts(accounts)]


def _describe_texts(accounts: Mapping[str, Any]) -> Iterator[str]:
    for role, texts in accounts.get("taken_for_missing", {}).items():
        for text, count in texts.items():
            way = "name it in better, order or ignore" if role == "label" else "write `missing: []` into the recipe"
            yield f"{role}: {text!r} in {counted(count, 'cell')} is taken for a missing value; if it is meant, {way}"
    if "space_twins" in accounts:
        number = counted(accounts["space_twins"], "context")
        yield f"{number} differ in white space only; texts are compared only where the context is the same"
    if "repeated_prompts" in accounts:
        number = counted(accounts["repeated_prompts"], "test")
        yield f"{number} with candidates that begin with their prompt, which a model then reads twice; take the prompt off them"


#: Share of tests whose candidates begin with their context from which on that is no accident.
_REPEATING = 0.1


def look_at_texts(rows: pd.DataFrame, tests: pd.DataFrame, prompts: pd.DataFrame, recipe: Recipe) -> dict[str, Any]:
    """Count what people should know of the texts of a config; nothing of what there is none of."""
    found = {
        "taken_for_missing": count_traces(rows[rows["exclusion"] == ""], recipe),
        "space_twins": int(find_space_twins(prompts).sum()),
        "repeated_prompts": int(find_repeated_prompts(tests).sum()),
    }
    return {name: value for name, value in found.items() if value}


def find_space_twins(prompts: pd.DataFrame) -> pd.Series[bool]:
    """Tell which prompts another one equals but for white space, no-break spaces included.

    Args:
        prompts: the texts of distinct prompts, a column each for the context and the prompt fields.
    """
    texts = prompts.fillna("").astype(str)
    return texts.map(_join_words).duplicated(keep=False) & ~texts.duplicated(keep=False)


def find_repeated_prompts(tests: pd.DataFrame) -> pd.Series[bool]:
    """Tell which tests have a candidate that begins with its whole context, if they are too many to be an accident.

    Args:
        tests: with ``context``, ``high`` and ``low``.
    """
    plain = tests[["context", "high", "low"]].map(_join_words)
    repeats = [any(_continues(text, context) for text in candidates) for context, *candidates in plain.to_numpy()]
    found = pd.Series(repeats, tests.index, dtype=bool)
    return found if found.mean() > _REPEATING else found & False


def _continues(text: str, context: str) -> bool:
    if not context or text == context or not text.startswith(context):
        return False
    return not (context[-1].isalnum() and text[len(context)].isalnum())  # "catalogue" does not continue "cat"


def _join_words(text: str) -> str:
    return " ".join(text.split())
