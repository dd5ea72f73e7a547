"""Ready-made pairs: texts or chats, with the better one in a column of its own, or named by another column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import SPANS_COLUMN
from nnd_tasks.sets.cells import place_of, render, take_column
from nnd_tasks.sets.chat import split_pair
from nnd_tasks.sets.pair import make_table
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.sets.rows import Dropped, clean_texts, number_prompts, number_rows, place_spans, take_roles

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
    """Return rows with the roles ``chosen`` and ``rejected``, and ``side``: 0 or 1, -1 for a tie, -2 where nobody judged.

    Raises:
        NNDError: a column is missing, or a cell names no winner.
    """
    rows = take_roles(table, recipe)
    rows["side"] = find_winners(table, recipe) if recipe.pair else 0
    texts = recipe.pair or (str(recipe.chosen), str(recipe.rejected))
    for names, columns in ((("chosen", "rejected"), texts), (("high_system", "low_system"), recipe.systems)):
        cells = [take_column(table, column) for column in columns]
        for name, one, other in zip(names, cells, reversed(cells), strict=False):
            rows[name] = np.where(rows["side"] == 1, other, one)
    return rows


def find_winners(table: pd.DataFrame, recipe: Recipe) -> np.ndarray[Any, Any]:
    """Return which column of ``pair`` each row's ``winner`` names: 0 or 1, -1 for a tie, -2 where nobody judged.

    Raises:
        NNDError: a cell is neither a column of ``pair`` or a word of its name, one of ``systems``, 1 or 2, A or B, first or
            second, left or right, a tie, nor a value of ``winners``.
    """
    meanings = _winner_meanings(recipe)
    systems = [take_column(table, column) for column in recipe.systems]
    sides = np.empty(len(table), dtype=np.int64)
    cells = take_column(table, str(recipe.winner))
    for i, cell in enumerate(cells):
        value = (render(cell) or "").strip().casefold()
        side = meanings.get(value)
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


def preference_tests(rows: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> pd.DataFrame | None:
    """Return the tests of rows with ``chosen`` and ``rejected``; None where no pair makes one.

    The messages that both chats of a pair begin with become the context, unless a column of the context has them. Left out
    and counted are pairs without a winner, that answer different prompts, with an empty text, of equal texts, that repeat an
    earlier one, and those that people judged both ways round equally often; of pairs that were judged both ways round
    unequally often, the more frequent way stays.

    Raises:
        NNDError: a cell is of a wrong kind; the error names the row.
    """
    if "side" in rows:
        rows = rows[dropped.add("undecided", rows, rows["side"] == _TIE)]
        rows = rows[dropped.add("no_judgement", rows, rows["side"] == _UNJUDGED)].reset_index(drop=True)
    rows = _split_context(rows, dropped)
    rows = clean_texts(place_spans(rows, recipe, dropped), recipe)
    if not recipe.as_published:
        rows = rows[dropped.add("empty", rows, rows["chosen"].isna() | rows["rejected"].isna())]
        rows = rows[dropped.add("equal_texts", rows, rows["chosen"] == rows["rejected"])]
        if recipe.context:
            rows = rows[dropped.add("no_context", rows, rows["context"].isna())]
    if not len(rows):
        return None
    prompt, prompts = number_prompts(rows, recipe)
    rows = rows.assign(prompt=prompt)
    if "category" in rows:
        rows = rows[dropped.add("no_category", rows, rows["category"].isna())]
    if not recipe.as_published:
        rows = _decide(rows, dropped)
    if not len(rows):
        return None
    rows = rows.reset_index(drop=True)
    names = ("category", "subcategory", "severity", "high_system", "low_system")
    columns = {name: rows.get(name) for name in (*names, "spans")}
    # The table does not say which text came first, and the better one must not always be the first: the alphabet decides.
    high, low = rows["chosen"].fillna(""), rows["rejected"].fillna("")
    columns |= {"high": high, "low": low, "high_first": (high < low).to_numpy(bool), SPANS_COLUMN: columns.pop("spans")}
    return make_table(columns, prompts, rows["prompt"].to_numpy(), keep=names)


def _split_context(rows: pd.DataFrame, dropped: Dropped) -> pd.DataFrame:
    contexts, apart = [], []
    given = rows["context"].to_numpy(object) if "context" in rows else [None] * len(rows)
    chosen, rejected = rows["chosen"].to_numpy(object).copy(), rows["rejected"].to_numpy(object).copy()
    for i, column in enumerate(given):
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
    return rows[dropped.add("other_prompt", rows, apart)].reset_index(drop=True)


def _join_contexts(text: str, shared: str) -> str:
    """Return what a column and the turns that both chats share say, each once."""
    if shared in text:
        return text
    return shared if text.strip() in shared else f"{text}\n\n{shared}"


def _decide(rows: pd.DataFrame, dropped: Dropped) -> pd.DataFrame:
    """Return the first row of each pair that was judged more often in this direction than in reverse."""
    category = rows["category"] if "category" in rows else pd.Series("", index=rows.index)
    turned = (rows["chosen"] > rows["rejected"]).to_numpy()
    one, other = rows["chosen"].where(~turned, rows["rejected"]), rows["rejected"].where(~turned, rows["chosen"])
    pair = number_rows(rows["prompt"], category, one, other)[0]
    sense = np.where(turned, -1, 1)
    won = sense * np.bincount(pair, weights=sense)[pair] > 0
    rows, pair = rows[dropped.add("contradictory", rows, ~won)], pair[won]
    return rows[dropped.add("repeated", rows, pd.Series(pair).duplicated())]
