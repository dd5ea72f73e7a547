"""What people should know of the texts of a set: missing values, odd white space in contexts, repeated prompts."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.sets.rows import count_traces

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
