"""Ready-made pairs: texts or chats, with the better one in a column of its own, or named by another column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import SPANS_COLUMN, short_hash
from nnd_tasks.sets.cells import place_of, render, take_column, traces_of
from nnd_tasks.sets.chat import split_pair
from nnd_tasks.sets.pair import make_table
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.sets.rows import clean_rows, exclude, number_rows, take_roles

_TIE, _UNJUDGED = -1, -2
_MEANINGS = {
    **dict.fromkeys(("1", "a", "first", "left"), 0),
    **dict.fromkeys(("2", "b", "second", "right"), 1),
    **dict.fromkeys(("tie", "both", "bothbad", "equal", "neither", "none", "draw", "same"), _TIE),
}
#: Words of a winner that do not tell the two texts apart: model_a is A.
_FILLERS = {
    *(
        "answer",
        "assistant",
        "candidate",
        "chat",
        "completion",
        "conversation",
        "model",
        "option",
        "output",
        "response",
    ),
    *("summary", "system", "text", "translation"),
}


def take_pairs(table: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Take rows with the roles ``chosen`` and ``rejected``; those without a winner are left out.

    Raises:
        NNDError: a column is missing, or a cell names no winner.
    """
    rows = take_roles(table, recipe)
    side = find_winners(table, recipe) if recipe.pair else np.zeros(len(table))
    rows = exclude(rows, side == _TIE, "undecided")
    rows = exclude(rows, side == _UNJUDGED, "no_judgement")
    texts = recipe.pair or (str(recipe.chosen), str(recipe.rejected))
    for names, columns in ((("chosen", "rejected"), texts), (("high_system", "low_system"), recipe.systems)):
        cells = [take_column(table, column) for column in columns]
        for name, one, other in zip(names, cells, reversed(cells), strict=False):
            rows[name] = np.where(side == 1, other, one)
    return rows


def find_winners(table: pd.DataFrame, recipe: Recipe) -> np.ndarray[Any, Any]:
    """Find which column of ``pair`` each row's ``winner`` names: 0 or 1, -1 for a tie, -2 where nobody judged.

    Rows that are left out already need none.

    Raises:
        NNDError: a cell is neither a column of ``pair`` or a word of its name, one of ``systems``, 1 or 2, A or B, first or
            second, left or right, a tie, nor a value of ``winners``.
    """
    meanings = _winner_meanings(recipe)
    traces = traces_of("winner", recipe) - {*recipe.winners}
    systems = [take_column(table, column) for column in recipe.systems]
    sides = np.full(len(table), _UNJUDGED)
    excluded = (table["exclusion"] != "").to_numpy()
    cells = take_column(table, str(recipe.winner))
    for i, cell in enumerate(cells):
        if excluded[i]:
            continue
        published = (render(cell) or "").strip()
        value = published.casefold()
        side = _UNJUDGED if published in traces else meanings.get(value)
        if not recipe.winners:
            side = _read_side(value, meanings) if side is None else side
            named = [
                place for place, names in enumerate(systems) if (render(names[i]) or "").strip().casefold() == value
            ]
            if len(named) == 1 and side in (None, named[0]):
                side = named[0]
            elif len(named) == 1 and side != _UNJUDGED:
                side = None  # a system called 1 may be the second
        if side is None:
            raise NNDError(
                f"{place_of(table, i)}, column {recipe.winner!r}: {render(cell)!r:.60} names no winner; say what each value "
                f"means: --winners {_example_winners(cells, meanings)}, with first, second or tie for each ? (`winners` in the "
                "recipe)"
            )
        sides[i] = side
    return sides


def _winner_meanings(recipe: Recipe) -> dict[str, int]:
    """What values of ``winner`` mean, in small letters."""
    if recipe.winners:
        meanings = {value.casefold(): _MEANINGS[meaning] for value, meaning in recipe.winners.items()}
    else:
        first, second = (_split_words(column) for column in recipe.pair)
        meanings = dict(_MEANINGS)
        # "a" of answer_b and answer_a is the second.
        if len({*first} - {*second}) == len({*second} - {*first}) == 1:
            meanings |= {next(iter({*first} - {*second})): 0, next(iter({*second} - {*first})): 1}
        meanings |= {column.casefold(): side for side, column in enumerate(recipe.pair)}
    return meanings | dict.fromkeys(recipe.unjudged, _UNJUDGED)


def _split_words(name: str) -> list[str]:
    """The words of a name in small letters: ``responseA``, ``response_a`` and ``response-a`` have two."""
    words = re.findall(r"[^\W\d_]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
    return [word.casefold() for word in words]


def _read_side(value: str, meanings: Mapping[str, int]) -> int | None:
    words = _split_words(value)
    if words and meanings.get(words[0]) == _TIE:
        return _TIE  # tie (bothbad)
    telling = [word for word in words if word not in _FILLERS]
    return meanings.get(telling[0]) if len(telling) == 1 else None


def _example_winners(cells: Iterable[Any], meanings: Mapping[str, int]) -> str:
    values = [value for value in dict.fromkeys((render(cell) or "").strip() for cell in cells) if value]
    words = {0: "first", 1: "second", _TIE: "tie"}
    shown = [f"{value}={words.get(meanings.get(value.casefold(), _UNJUDGED), '?')}" for value in values[:6]]
    return f"'{','.join(shown)}{',...' if len(values) > 6 else ''}'"


def preference_tests(rows: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame | None, pd.DataFrame]:
    """Make the tests of rows with ``chosen`` and ``rejected``.

    The messages that both chats of a pair begin with become the context, unless a column of the context has them. A pair makes
    one test, in the direction that more people say; each rater counts once, by the majority of what that rater says. Where
    nothing gives a context, each pair is a prompt of its own: a model reads nothing before either text.

    Returns:
        The tests, None where no pair makes one; and the rows with the reason of those that make none.

    Raises:
        NNDError: a cell is of a wrong kind; the error names the row.
    """
    has_context = "context" in rows
    rows = _split_context(rows)
    pairs, prompts = clean_rows(rows, recipe)
    if recipe.candidates == "texts":
        pairs = exclude(pairs, pairs["chosen"].isna() | pairs["rejected"].isna(), "empty")
        pairs = exclude(pairs, pairs["chosen"] == pairs["rejected"], "equal_texts")
        if has_context:
            pairs = exclude(pairs, pairs["context"].isna(), "no_context")
    if "category" in pairs:
        pairs = exclude(pairs, pairs["category"].isna(), "no_category")
    if recipe.candidates == "texts":
        pairs = _decide(pairs)
    rows = rows.assign(exclusion=pairs["exclusion"].reindex(rows.index).fillna(rows["exclusion"]))
    if "spans_nowhere" in pairs:
        rows["spans_placed"], rows["spans_nowhere"] = pairs["spans_placed"], pairs["spans_nowhere"]
    used = pairs[pairs["exclusion"] == ""].reset_index(drop=True)
    if not len(used):
        return None, rows
    names = ("category", "subcategory", "severity", "high_system", "low_system")
    columns = {name: used.get(name) for name in (*names, "rater")}
    # The table does not say which text came first, and the better one must not always be the first: the alphabet decides.
    high = used["chosen"].fillna("")
    low = used["rejected"].fillna("")
    columns |= {"high": high, "low": low, "high_first": (high < low).to_numpy(bool), SPANS_COLUMN: used.get("spans")}
    prompts = prompts.iloc[used["prompt"]].reset_index(drop=True)
    if not has_context and not recipe.field:
        alone = [short_hash("", *sorted(texts)) for texts in zip(high, low, strict=True)]
        prompts["cluster_id"] = prompts["cluster_id"].where(prompts["context"] != "", alone)
    return make_table(columns, prompts, np.arange(len(used)), keep=names), rows


def _split_context(rows: pd.DataFrame) -> pd.DataFrame:
    contexts: list[str | None] = []
    apart: list[bool] = []
    given = rows["context"].to_numpy(object) if "context" in rows else [None] * len(rows)
    chosen = rows["chosen"].to_numpy(object).copy()
    rejected = rows["rejected"].to_numpy(object).copy()
    excluded = (rows["exclusion"] != "").to_numpy()
    for i, column in enumerate(given):
        if excluded[i]:
            apart.append(False)
            contexts.append(None)
            continue
        try:
            split = split_pair(chosen[i], rejected[i])
            text = render(column) or ""
        except ValueError as error:
            raise NNDError(f"{place_of(rows, i)}: {error}") from None
        apart.append(split is None)
        shared, chosen[i], rejected[i] = split or ("", None, None)
        contexts.append(_join_contexts(text, shared))
    # As objects: pandas would copy equal texts, which are one object here.
    columns = {"context": contexts, "chosen": chosen, "rejected": rejected}
    rows = rows.assign(**{name: pd.Series(cells, dtype=object, index=rows.index) for name, cells in columns.items()})
    return exclude(rows, apart, "other_prompt")


def _join_contexts(text: str, shared: str) -> str:
    """Join what a column and the turns that both chats share say, each once."""
    if shared in text:
        return text
    return shared if text.strip() in shared else f"{text}\n\n{shared}"


def _decide(pairs: pd.DataFrame) -> pd.DataFrame:
    """Leave out all rows of a pair but the first one of the direction that more people say."""
    used = pairs[pairs["exclusion"] == ""]
    category = used["category"] if "category" in used else pd.Series("", index=used.index)
    turned = (used["chosen"] > used["rejected"]).to_numpy(bool)
    one = used["chosen"].where(~turned, used["rejected"])
    other = used["rejected"].where(~turned, used["chosen"])
    pair = number_rows(used["prompt"], category, one, other)[0]
    direction = np.where(turned, -1, 1)
    voter = np.arange(len(used))
    if "rater" in used:
        voter = number_rows(pair, used["rater"].where(used["rater"].notna(), used.index))[0]
    vote = np.sign(np.bincount(voter, weights=direction))  # 0 for a rater who says both equally often
    first_row = np.flatnonzero(~pd.Series(voter).duplicated())
    votes = np.bincount(pair[first_row], weights=vote, minlength=pair.max(initial=-1) + 1)
    used = exclude(used, vote[voter] == 0, "rater_tie")
    used = exclude(used, direction * votes[pair] <= 0, "contradictory")
    still = (used["exclusion"] == "").to_numpy()
    repeated = np.zeros(len(used), dtype=bool)
    repeated[still] = pd.Series(pair[still]).duplicated().to_numpy()
    used = exclude(used, repeated, "repeated")
    if "rater" in used:
        pairs["rater"] = used["rater"].where(used.groupby(pair)["rater"].transform("nunique") == 1)
    return pairs.assign(exclusion=used["exclusion"].reindex(pairs.index).fillna(pairs["exclusion"]))
