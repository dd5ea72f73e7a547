"""From tables to rows: what is left out, the roles of columns, a row for each item of a list, winners and chats of pairs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml
from nnd_tasks.schema import short_hash
from nnd_tasks.show.values import is_missing
from nnd_tasks.tables.cells import (
    ANSWER,
    PATH,
    ROW,
    Array,
    as_texts,
    is_chat,
    join_messages,
    list_items,
    place_of,
    read_chat,
    read_messages,
    render,
    take_column,
    texts_of_nobody,
    traces_of,
    unpack,
)
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Recipe

FIELD = "field "  # before the name of a prompt field, as a column of rows
TEXTS = ("context", "candidate", "chosen", "rejected")
#: Roles whose texts are names; white space around a name does not count.
NAMES = ("label", "attribute", "system", "high_system", "low_system", "rater", "category", "subcategory", "severity")
#: Roles of which a list in a cell has an item for each judgement of its row.
JUDGING = ("label", "score", "winner", "rater")


# ---------------------------------------------------------------- what is left out


def exclude(table: pd.DataFrame, reasons: Mapping[str, Any]) -> pd.DataFrame:
    """Give those rows of a table that are not left out yet the first reason that they have.

    Args:
        table: with the column ``exclusion``: why a row is left out, ``""`` where it is used.
        reasons: a key of `nnd_tasks.sets.account.REASONS` -> which rows have it, shape (rows,). What follows ``": "`` in a key
            is counted apart.
    """
    exclusion = table["exclusion"]
    for reason, wrong in reasons.items():
        exclusion = exclusion.mask((exclusion == "") & wrong, reason)
    return table.assign(exclusion=exclusion)


def explode_lists(rows: pd.DataFrame, roles: Sequence[str]) -> pd.DataFrame:
    """Make a row of each item of the lists in some columns; lists of one row go side by side, and other cells are repeated.

    Returns:
        The rows, with the index of those that they come from.

    Raises:
        NNDError: the lists of a row have different lengths, or hold lists.
    """
    roles = [role for role in roles if role in rows]
    distinct = {id(cell): cell for role in roles for cell in rows[role]}
    if not any(isinstance(unpack(cell), (list, tuple)) for cell in distinct.values()):
        return rows
    lists = pd.DataFrame({role: rows[role].map(list_items) for role in roles}, rows.index)
    lengths = lists.map(len)
    most = lengths.max(axis=1)
    wrong = (lengths.ne(1) & lengths.ne(most, axis=0)).any(axis=1).to_numpy()
    if "rater" in lists:  # one judgement is not that of each of several
        said = lists.drop(columns="rater").map(lambda items: not is_missing(items[0]) and items[0] != "")
        alone = said.apply(lambda given: given & (lengths[given.name] < lengths["rater"])).any(axis=1).to_numpy(bool)
        wrong = wrong | alone
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        parts = " beside ".join(f"{counted(number, 'item')} of {role}" for role, number in lengths.iloc[i].items())
        raise NNDError(
            f"{place_of(rows, i)}: {parts}; lists in one row need the same length"
            + "; what several raters judged together has one name" * ("rater" in lists)
        )
    for role in lists:
        lists[role] = [items * (number // len(items)) for items, number in zip(lists[role], most, strict=True)]
    exploded = rows.assign(**lists).explode([*lists])
    for role in lists:
        if nested := [i for i, cell in enumerate(exploded[role]) if isinstance(cell, (list, tuple))]:
            raise NNDError(f"{place_of(exploded, nested[0])}, column {role!r}: a list within a list")
    return exploded


# ---------------------------------------------------------------- rows of tables


def take_roles(table: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Name the columns of a table by their roles, as objects; a row per attribute where each has a column.

    Raises:
        NNDError: a column is missing.
    """
    named = {role: getattr(recipe, role, None) for role in (*TEXTS, "score", *NAMES)}
    columns = {role: column for role, column in named.items() if column and isinstance(column, str)}
    columns |= dict(zip(("chosen", "rejected"), recipe.pair, strict=False))
    columns |= dict(zip(("high_system", "low_system"), recipe.systems, strict=False))
    columns |= {"winner": recipe.winner} if recipe.winner else {}
    columns |= {FIELD + name: column for name, column in recipe.field.items()}
    cells = {role: take_column(table, column, each=role in JUDGING) for role, column in columns.items()}
    cells |= {name: table[name].to_numpy(object) for name in (PATH, ROW, "where", "exclusion") if name in table}
    rows = pd.DataFrame(cells, dtype=object)
    if recipe.group:
        keys = [as_texts(take_column(table, column), table, column) for column in recipe.group]
        rows["group"] = keys[0] if len(keys) == 1 else [short_hash(*map(str, row)) for row in zip(*keys, strict=True)]
    if not recipe.attribute:
        return rows
    if recipe.label or recipe.score or recipe.winner or recipe.chosen:
        return rows.assign(attribute=take_column(table, next(iter(recipe.attribute.values()))))
    role = "winner" if recipe.pair else "label" if recipe.by_label else "score"
    of_each = [
        rows.assign(attribute=name, **{role: take_column(table, column, each=True)})
        for name, column in recipe.attribute.items()
    ]
    return pd.concat(of_each).sort_index(kind="stable")


# ---------------------------------------------------------------- rows of pairs

_TIE, _UNJUDGED = -1, -2
_WINNER_WORDS = read_yaml(Path(__file__).with_name("winner_words.yaml"))
_SIDES = {"first": 0, "second": 1, "tie": _TIE}
_MEANINGS = {word: side for name, side in _SIDES.items() for word in _WINNER_WORDS[name]}
_NUMBER = re.compile(r"[-+\u2212]?\s?\d+([.,]\d+)?")


def take_pairs(table: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Take rows with the roles ``chosen`` and ``rejected``; those without a winner are left out.

    Raises:
        NNDError: a column is missing, or a cell names no winner.
    """
    rows = take_roles(table, recipe)
    if not recipe.pair:
        return rows
    rows = explode_lists(rows, ["winner", "rater"])
    side = find_winners(rows, recipe)
    rows = exclude(rows, {"undecided": side == _TIE, "no_judgement": side == _UNJUDGED})
    for better, worse in (("chosen", "rejected"), ("high_system", "low_system")):
        if better in rows:
            first_cells, second_cells = rows[better], rows[worse]
            rows[better], rows[worse] = (
                first_cells.mask(side == 1, second_cells),
                second_cells.mask(side == 1, first_cells),
            )
    return rows


def find_winners(rows: pd.DataFrame, recipe: Recipe) -> Array:
    """Find which column of ``pair`` each row's ``winner`` names: 0 or 1, -1 for a tie, -2 where nobody judged.

    Args:
        rows: with ``winner``, and ``high_system`` and ``low_system`` as the systems of the first and the second text. Rows that
            are left out already need no winner.
        recipe: of the set.

    Raises:
        NNDError: a cell is neither a column of ``pair`` or a word of its name, one of ``systems``, 1 or 2, A or B, first or
            second, left or right, a tie, nor a value of ``winners``.
    """
    meanings = _winner_meanings(recipe)
    traces = traces_of("winner", recipe)
    unjudged = texts_of_nobody(recipe)
    columns = {
        "winner": recipe.winner or "winner",
        **dict(zip(("high_system", "low_system"), recipe.systems, strict=False)),
    }
    cells, *systems = (
        [text or "" for text in as_texts(rows[role], rows, column, strip=True)] for role, column in columns.items()
    )
    sides = np.full(len(rows), _UNJUDGED)
    for i in np.flatnonzero(rows["exclusion"] == "").tolist():
        value = cells[i].casefold()
        if cells[i] in traces or value in unjudged:
            continue
        readings = {meanings.get(value)}
        if not recipe.winners:  # a system called 1 may be the second
            readings = {_read_side(value, meanings)}
            readings |= {side for side, names in enumerate(systems) if names[i].casefold() == value}
            if readings == {None}:  # the cell may hold the better text itself
                readings = {side for side, role in enumerate(("chosen", "rejected")) if rows[role].iat[i] == cells[i]}
        readings.discard(None)
        if len(readings) != 1:
            column = recipe.winner or recipe.attribute[rows["attribute"].iat[i]]
            parts = re.split(r"\s*[;,|/]\s*", cells[i])
            if len(parts) > 1 and all(_read_side(part.casefold(), meanings) is not None for part in parts):
                raise NNDError(
                    f"{place_of(rows, i)}, column {column!r}: {cells[i]!r:.60} names several winners: write a list, "
                    f"{json.dumps(parts)}, or a row for each"
                )
            raise NNDError(
                f"{place_of(rows, i)}, column {column!r}: {cells[i]!r:.60} names no winner; say what each value "
                f"means: --winners {_example_winners(cells, meanings)}, with first, second or tie for each ? (`winners` in the "
                "recipe)"
            )
        sides[i] = readings.pop()
    return sides


def _winner_meanings(recipe: Recipe) -> dict[str, int]:
    """What values of ``winner`` mean, in small letters."""
    if recipe.winners:
        return {value.casefold(): _MEANINGS[meaning] for value, meaning in recipe.winners.items()}
    meanings = dict(_MEANINGS)
    first, second = ({*_split_words(column)} for column in recipe.pair)
    # "a" of answer_b and answer_a is the second.
    if len(first - second) == len(second - first) == 1:
        meanings |= {(first - second).pop(): 0, (second - first).pop(): 1}
    return meanings | {column.casefold(): side for side, column in enumerate(recipe.pair)}


def _split_words(name: str) -> list[str]:
    """The words of a name in small letters: ``responseA``, ``response_a`` and ``response-a`` have two."""
    words = re.findall(r"[^\W\d_]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
    return [word.casefold() for word in words]


def _read_side(value: str, meanings: Mapping[str, int]) -> int | None:
    if value in meanings:
        return meanings[value]
    words = [] if _NUMBER.fullmatch(value) else _split_words(value)  # -1 is not 1
    if words and meanings.get(words[0]) == _TIE:
        return _TIE  # tie (bothbad)
    telling = [word for word in words if word not in _WINNER_WORDS["fillers"]]
    return meanings.get(telling[0]) if len(telling) == 1 else None


def _example_winners(cells: Iterable[str], meanings: Mapping[str, int]) -> str:
    values = [value for value in dict.fromkeys(cells) if value]
    words = {side: name for name, side in _SIDES.items()}
    numbers = {value for value in values if _NUMBER.fullmatch(value)}
    if not numbers <= {*meanings}:  # of a scale, on which 1 and 2 may mean something else
        meanings = {value: side for value, side in meanings.items() if value not in numbers}
    examples = [f"{value}={words.get(meanings.get(value.casefold(), _UNJUDGED), '?')}" for value in values[:6]]
    return f"'{','.join(examples)}{',...' if len(values) > 6 else ''}'"


# ---------------------------------------------------------------- chats of pairs


def split_chats(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the messages that both chats of a pair begin with to its context; pairs that cannot be compared are left out."""
    cells = []
    reasons = []
    contexts = rows["context"] if "context" in rows else [None] * len(rows)
    for i, (context, chosen, rejected) in enumerate(zip(contexts, rows["chosen"], rows["rejected"], strict=True)):
        try:
            shared, *rests, reason = _split_pair(chosen, rejected)
            text = render(context) or ""
        except ValueError as error:
            raise NNDError(f"{place_of(rows, i)}: {error}") from None
        if shared not in text:
            text = shared if text.strip() in shared else f"{text}\n\n{shared}"
        cells.append((text, *rests))
        reasons.append(reason)
    # As objects: pandas would copy equal texts, which are one object here.
    split_rows = pd.DataFrame(cells, rows.index, ["context", "chosen", "rejected"], dtype=object)
    found = {name: np.array([reason == name for reason in reasons], bool) for name in ("other_prompt", "unequal_turns")}
    return exclude(rows.assign(**split_rows), found)


def _split_pair(chosen: Any, rejected: Any) -> tuple[str, Any, Any, str]:
    """Split two chats into the messages that both begin with, and the rest of each, as text.

    The common beginning is the longest one that leaves each side a message. Texts that are no chats have none.

    Returns:
        Context, rests and ``""``; or the reason to leave the pair out: the two answer different prompts, as they differ in a
        turn that is not the assistant's or one is a chat and the other a text; or the rests have not as many messages.

    Raises:
        ValueError: a message has no text, or a text is a whole dialogue.
    """
    chosen, rejected = read_chat(chosen), read_chat(rejected)
    if not (is_chat(chosen) and is_chat(rejected)):
        if ANSWER in str(chosen) and ANSWER in str(rejected):
            raise ValueError(
                "a dialogue in one text; split it into messages in prepare.py, as that of nnd_tasks/contribute/exports/hh.py does"
            )
        is_mixed = chosen and rejected and (is_chat(chosen) or is_chat(rejected))
        return ("", None, None, "other_prompt") if is_mixed else ("", chosen, rejected, "")
    chosen_turns, rejected_turns = read_messages(chosen), read_messages(rejected)
    most = min(len(chosen_turns), len(rejected_turns)) - 1
    differing = (i for i in range(most) if chosen_turns[i] != rejected_turns[i])
    shared = next(differing, most)
    next_speakers = {chosen_turns[shared][0], rejected_turns[shared][0]}
    if max(len(chosen_turns), len(rejected_turns)) > 1 and next_speakers & {"User", "System"}:
        return "", None, None, "other_prompt"
    if len(chosen_turns) != len(rejected_turns):
        return "", None, None, "unequal_turns"
    context = join_messages(chosen_turns[:shared]) + (ANSWER if shared > 1 else "") if shared else ""
    return context, join_messages(chosen_turns[shared:]), join_messages(rejected_turns[shared:]), ""
