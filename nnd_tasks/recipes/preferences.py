"""Ready-made pairs: plain texts or chats, with the better one in a column of its own or named by another column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nnd_tasks.assembly import PREFERENCE, Coded, Spans, table_of_tests
from nnd_tasks.codes import Index, combine
from nnd_tasks.errors import NNDError
from nnd_tasks.judgements import Dropped
from nnd_tasks.recipes.base_table import Batch, Table
from nnd_tasks.recipes.cells import Column, listed, render
from nnd_tasks.recipes.chat import Split, add_context, is_chat, split_pair
from nnd_tasks.recipes.flatten import LEFT_OUT, batches, without
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.rows import Reader, field_roles, prompts_of
from nnd_tasks.recipes.spans import SpanReader
from nnd_tasks.recipes.winners import winner
from nnd_tasks.schema import SPANS_COLUMN

#: Columns of a batch that are made from others; no table has a column of these names.
_CONTEXT, _CHOSEN, _REJECTED = "\0context", "\0chosen", "\0rejected"
_SYSTEMS = {"high_system": "\0high_system", "low_system": "\0low_system"}


@dataclass
class Preferences:
    """The tests of a table of ready-made pairs.

    Attributes:
        table: of the tests; None where no pair makes one.
        rows: how many rows the source has.
        dropped: what was left out.
        fuller: number of pairs whose texts share turns that the column of the context lacks.
    """

    table: pa.Table | None
    rows: int
    dropped: Dropped
    fuller: int


def read_preferences(table: Table, recipe: Recipe) -> Preferences:
    """Return the tests of a table of ready-made pairs.

    What both texts begin with (whole messages of chats, turns of a dialogue) becomes the context. With a context
    column, a dialogue is split only if the column contains the whole shared part; messages beyond it are added to the context.
    These pairs are left out and counted: without a winner, with an empty text, that answer different prompts, of equal texts,
    that repeat an earlier one, and those that people judged both ways round equally often. Where people judged both ways
    round unequally often, the more frequent way is kept.

    Raises:
        NNDError: a file that cannot be read, or a cell of a wrong kind; the error names the row.
    """
    pairs, dropped = _Pairs(recipe), Dropped()
    for batch in batches(table, recipe):
        pairs.take(without(batch, recipe, dropped))
    if not (pairs.reader.count or dropped.counts):
        raise table.empty()
    pairs.spans.note_lost(table)
    if 2 * sum(pairs.joined.values()) > pairs.reader.count:
        names = " and ".join(f"{name.partition('[]')[0]}[]" for name in pairs.joined)
        table.notes.append(
            f"lists of several texts are joined to one text, while the other text of the pair is single: {names}; if each item "
            "is a text of its own, `rows` in the recipe makes a row of each"
        )
    return _assemble(pairs, recipe, dropped)


class _Pairs:
    """Reads pairs, and removes the common beginning of the two texts.

    Attributes:
        reader: what is read of all rows.
        apart: whether the texts of each row answer different prompts.
        undecided: for each row ``tie`` or ``no_judgement`` where no text won, else ``""``.
        fuller: number of rows whose texts share turns that the column of the context lacks.
        spans: error spans of the worse text.
        joined: column of texts -> in how many rows it alone holds a list of several texts.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        roles = {"context": _CONTEXT, "chosen": _CHOSEN, "rejected": _REJECTED}
        roles |= {role: name for role in ("category", "subcategory", "severity") if (name := getattr(recipe, role))}
        roles |= _SYSTEMS if recipe.systems else {}
        self.reader = Reader({**roles, **field_roles(recipe)}, recipe)
        self.reader.texts["rejected"] = self.reader.texts["chosen"]  # one numbering of candidates
        self.apart: list[bool] = []
        self.undecided: list[str] = []
        self.fuller = 0
        self.joined = Counter[str]()
        self.spans = SpanReader(recipe.spans, recipe.strip.get("candidate", ()))
        self._won: dict[tuple[str, ...], int | str] = {}

    def take(self, batch: Batch) -> None:
        """Read the pairs of a batch."""
        parts = [self._split(batch, i, *pair) for i, pair in enumerate(self._pairs(batch))]
        made: dict[str, Column] = {
            _CONTEXT: [part.context for part in parts],
            _CHOSEN: [part.chosen for part in parts],
            _REJECTED: [part.rejected for part in parts],
        }
        if self._recipe.systems:
            one, other = (listed(batch.columns[column]) for column in self._recipe.systems)
            turned = [side == 1 for side in self._sides]
            made[_SYSTEMS["high_system"]] = [b if turn else a for a, b, turn in zip(one, other, turned, strict=True)]
            made[_SYSTEMS["low_system"]] = [a if turn else b for a, b, turn in zip(one, other, turned, strict=True)]
        split = Batch(batch.numbers, {**batch.columns, **made}, batch.place)
        self.reader.add(split)
        self.spans.add(split, _REJECTED, _CHOSEN)

    def _pairs(self, batch: Batch) -> Iterator[tuple[Any, Any, str | None]]:
        """Yield for each row the better text, the worse one, and the text in the column of the context."""
        recipe = self._recipe
        contexts: list[Any] = [None] * len(batch.numbers)
        if recipe.context is not None:
            contexts = [self._text(batch, i, cell) for i, cell in enumerate(listed(batch.columns[recipe.context]))]
        self._sides: list[int | str] = [0] * len(contexts)
        if not recipe.pair:
            self.undecided += [""] * len(contexts)
            chosen, rejected = (listed(batch.columns[str(column)]) for column in (recipe.chosen, recipe.rejected))
            self._count_joined(chosen, rejected, (str(recipe.chosen), str(recipe.rejected)))
            return zip(chosen, rejected, contexts, strict=True)
        sides = self._sides = self._won_by(batch, str(recipe.winner))
        self.undecided += [side if isinstance(side, str) else "" for side in sides]
        one, other = (listed(batch.columns[column]) for column in recipe.pair)
        self._count_joined(one, other, recipe.pair)
        ordered = [(b, a) if side == 1 else (a, b) for a, b, side in zip(one, other, sides, strict=True)]
        return ((*pair, context) for pair, context in zip(ordered, contexts, strict=True))

    def _count_joined(self, one: list[Any], other: list[Any], names: Sequence[str]) -> None:
        for pair in zip(one, other, strict=True):
            several = [isinstance(text, (list, tuple)) and len(text) > 1 and not is_chat(text) for text in pair]
            self.joined.update(name for name, alone in zip(names, several, strict=True) if alone and sum(several) == 1)

    def _won_by(self, batch: Batch, column: str) -> list[int | str]:
        """Return what `winner` says of each cell; a text that comes again, of the same systems, is read once."""
        where, sides = batch.where(column), []
        systems = [listed(batch.columns[name]) for name in self._recipe.systems]
        for i, (cell, *writers) in enumerate(zip(listed(batch.columns[column]), *systems, strict=True)):
            known = (cell, *map(str, writers)) if isinstance(cell, str) else None
            side = self._won.get(known) if known else None
            if side is None:
                side = winner(cell, self._recipe, where(i), writers)
                if known:
                    self._won[known] = side
            sides.append(side)
        return sides

    def _text(self, batch: Batch, i: int, cell: Any) -> str:
        try:
            return render(cell) or ""
        except ValueError as error:
            raise NNDError(f"{batch.where(str(self._recipe.context))(i)}: {error}") from None

    def _split(self, batch: Batch, i: int, chosen: Any, rejected: Any, column: str | None) -> Split:
        """Return a pair without what its texts share; ``column`` is the text in the column of the context, if there is one."""
        try:
            split = split_pair(chosen, rejected)
        except ValueError as error:
            names = self._recipe.pair or (self._recipe.chosen, self._recipe.rejected)
            raise NNDError(f"{batch.place(i)}, columns {names[0]!r} and {names[1]!r}: {error}") from None
        self.apart.append(split is None)
        if split is None:
            return Split("", (), None, None)
        if column is None:
            return split
        context = add_context(column, split)
        if context == column:
            return Split(column, (), split.chosen, split.rejected)
        if isinstance(chosen, str) and column.strip():
            return Split(column, (), chosen, rejected)
        self.fuller += 1
        return Split(context, (), split.chosen, split.rejected)


def _assemble(pairs: _Pairs, recipe: Recipe, dropped: Dropped) -> Preferences:
    """Return the tests of all pairs that make one, and add the other pairs to ``dropped``."""
    reader = pairs.reader
    rows, chosen, rejected = reader.numbers, reader.codes("chosen"), reader.codes("rejected")
    context, texts = reader.codes("context"), reader.texts["chosen"]
    count = len(rows) + sum(dropped.counts.get(reason, 0) for reason in LEFT_OUT)
    one, other = texts.shared(chosen), texts.shared(rejected)
    wrong = np.zeros(len(rows), dtype=bool)
    whole = recipe.candidates == "rows"  # equal and empty texts stay; the clean config leaves them out

    def leave_out(reason: str, which: Any) -> None:
        nonlocal wrong
        which = which & ~wrong
        dropped.add(reason, int(which.sum()), rows[which])
        wrong |= which

    undecided = np.array(pairs.undecided, dtype=object)
    leave_out("undecided", undecided == "tie")
    leave_out("no_judgement", undecided == "no_judgement")
    leave_out("other_prompt", np.array(pairs.apart, dtype=bool))
    if not whole:
        leave_out("empty", (chosen < 0) | (rejected < 0))
        leave_out("equal_texts", one == other)
        leave_out("no_context", (context < 0) & (recipe.context is not None))
    prompt, prompts = prompts_of(reader, recipe)
    category = reader.codes("category") if "category" in reader.roles else None
    if category is not None:
        leave_out("no_category", category < 0)
    keep = np.flatnonzero(~wrong)
    if not whole:
        keep = _decide(keep, prompt, one, other, category, rows, dropped)
    if not len(keep):
        return Preferences(None, count, dropped, pairs.fuller)
    high, low = (Coded(codes[keep].astype(np.int64), texts.texts) for codes in (chosen, rejected))
    # The table does not say which text came first, and the better one must not always be the first: the alphabet decides.
    both = zip(high.codes.tolist(), low.codes.tolist(), strict=True)
    columns: dict[str, Any] = {
        "high": high,
        "low": low,
        "category": Coded(np.zeros(len(keep), np.int64), [PREFERENCE]),
        "high_first": np.array([texts.texts[one] < texts.texts[other] for one, other in both], dtype=bool),
    }
    for role in ("category", "subcategory", "severity", *_SYSTEMS):
        if role in reader.roles:
            columns[role] = Coded(reader.codes(role)[keep].astype(np.int64), reader.texts[role].texts)
    if "severity" in columns and not columns["severity"].filled:
        del columns["severity"]
    if recipe.spans:
        columns[SPANS_COLUMN] = Spans(pairs.spans.codes()[keep].astype(np.int64), pairs.spans.texts.texts)
    groups = Coded(prompt[keep], prompts.ids) if whole else None  # a test that comes again needs an id of its own
    return Preferences(table_of_tests(prompt[keep], prompts, columns, groups), count, dropped, pairs.fuller)


def _decide(
    keep: Index,
    prompt: Index,
    one: NDArray[Any],
    other: NDArray[Any],
    category: NDArray[Any] | None,
    rows: Index,
    dropped: Dropped,
) -> Index:
    """Return the first row of each pair that was judged more often in this direction than in reverse.

    Args:
        keep: positions of the pairs that are still in.
        prompt: number of each row's prompt; shape (rows,).
        one: code of the better text, which equal texts share; likewise.
        other: code of the worse text, likewise.
        category: code of the category, or None.
        rows: number of each row.
        dropped: gets the pairs that are contradicted and those that repeat an earlier one.
    """
    kinds = np.zeros(len(keep), np.int64) if category is None else category[keep]
    directed, first = combine(prompt[keep], kinds, one[keep], other[keep])
    low, high = np.minimum(one, other)[keep], np.maximum(one, other)[keep]
    either, _ = combine(prompt[keep], kinds, low, high)
    sense = np.where(one[keep] == low, 1, -1)
    balance = np.bincount(either, weights=sense, minlength=1) if len(keep) else np.zeros(1)
    won = (sense * balance[either]) > 0
    dropped.add("contradictory", int((~won).sum()), rows[keep[~won]])
    repeated = won & (np.arange(len(keep)) != first[directed])
    dropped.add("repeated", int(repeated.sum()), rows[keep[repeated]])
    return np.asarray(keep[won & ~repeated], dtype=np.int64)
