"""Ready-made preference pairs: plain texts or chats, as in RewardBench-style and preference-tuning datasets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nnd_tasks.contribute.chat import Split, add_context, split_pair
from nnd_tasks.contribute.encode import Index, combine, render
from nnd_tasks.contribute.judgements import Dropped, Prompts, Reader, number_prompts
from nnd_tasks.contribute.recipe import Recipe
from nnd_tasks.contribute.tables import Batch, Table
from nnd_tasks.errors import NNDError

#: Column of a batch that holds the contexts; no table has one of this name.
_CONTEXT = "\0context"


@dataclass
class Preferences:
    """One entry per test; all arrays have shape (tests,).

    Attributes:
        prompt: number of the prompt.
        high: code of the better text.
        low: code of the worse one.
        category: code of the category, or None.
        row: number of its row.
        prompts: the distinct prompts.
        texts: of the candidates.
        categories: of the codes.
        rows: how many rows the table has.
        dropped: what was left out.
        fuller: number of pairs whose texts share turns that the column of the context does not say.
    """

    prompt: Index
    high: Index
    low: Index
    category: Index | None
    row: Index
    prompts: Prompts
    texts: list[str]
    categories: list[str]
    rows: int
    dropped: Dropped
    fuller: int


def read_preferences(table: Table, recipe: Recipe) -> Preferences:
    """Read a table of ready-made pairs.

    What both texts begin with (whole messages of chats, turns of a dialogue) becomes the context. Where a column is named for it,
    dialogues stay whole unless it says all that they share, and messages that say more than it does are taken as well.
    Left out and counted are pairs with an empty text, that answer different prompts, of equal texts, that repeat an earlier one,
    and those that people judged both ways round equally often; where one way has more judgements it is kept.

    Raises:
        NNDError: a file that cannot be read, or a cell that holds something else; the row is named.
    """
    roles = {role: column for role in ("context", "category") if (column := getattr(recipe, role))}
    roles |= {f"field {name}": column for name, column in sorted(recipe.field.items())}
    columns = {**roles, "chosen": str(recipe.chosen), "rejected": str(recipe.rejected)}
    shared = _Reader(table, columns)
    for batch in table.read(recipe.columns()):
        shared.take(batch)
    if not len(shared.rows):
        raise NNDError(f"{table.name}: it holds no row")
    return _assemble(shared, recipe)


class _Reader(Reader):
    """A reader that splits what both texts of a pair share from them.

    Attributes:
        apart: per row whether its texts answer different prompts.
        fuller: number of rows whose texts share turns that the column of the context does not say.
    """

    def __init__(self, table: Table, columns: dict[str, str]) -> None:
        self._context = columns.get("context")
        self._pair = columns["chosen"], columns["rejected"]
        super().__init__(table, {**columns, "context": _CONTEXT})
        self.texts["rejected"] = self.texts["chosen"]  # one numbering of candidates
        self.apart: list[bool] = []
        self.fuller = 0

    def take(self, batch: Batch) -> None:
        """Take in a batch, split."""
        parts = [self._split(batch, i, *pair) for i, pair in enumerate(self._pairs(batch))]
        columns = [[part.context for part in parts], [part.chosen for part in parts], [part.rejected for part in parts]]
        names = (_CONTEXT, *self._pair)
        self.add(Batch(batch.numbers, {**batch.columns, **dict(zip(names, columns, strict=True))}))

    def _pairs(self, batch: Batch) -> Iterator[tuple[Any, Any, str | None]]:
        """Yield chosen, rejected, and what the column of the context says, of each row."""
        chosen, rejected = (_cells(batch, column) for column in self._pair)
        contexts: list[Any] = [None] * len(chosen)
        if self._context is not None:
            contexts = [self._text(batch, i, cell) for i, cell in enumerate(_cells(batch, self._context))]
        return zip(chosen, rejected, contexts, strict=True)

    def _text(self, batch: Batch, i: int, cell: Any) -> str:
        try:
            return render(cell) or ""
        except ValueError as error:
            raise NNDError(f"{self.where(batch, str(self._context))(i)}: {error}") from None

    def _split(self, batch: Batch, i: int, chosen: Any, rejected: Any, column: str | None) -> Split:
        try:
            found = split_pair(chosen, rejected)
        except ValueError as error:
            place = f"columns {self._pair[0]!r} and {self._pair[1]!r}"
            raise NNDError(f"{self.table.where(batch.numbers[i])}, {place}: {error}") from None
        self.apart.append(found is None)
        if found is None:
            return Split("", (), None, None)
        if column is None:
            return found
        context = add_context(column, found)
        if context == column:
            return Split(column, (), found.chosen, found.rejected)
        if isinstance(chosen, str) and column.strip():
            return Split(column, (), chosen, rejected)
        self.fuller += 1
        return Split(context, (), found.chosen, found.rejected)


def _cells(batch: Batch, column: str) -> list[Any]:
    values = batch.columns[column]
    return values.to_pylist() if isinstance(values, pa.Array) else values


def _assemble(reader: _Reader, recipe: Recipe) -> Preferences:
    rows, chosen, rejected = reader.rows, reader.codes("chosen"), reader.codes("rejected")
    context, dropped = reader.codes("context"), Dropped()
    folded = np.append(reader.texts["chosen"].folded(), -1)
    one, other = folded[chosen], folded[rejected]
    apart = np.array(reader.apart, dtype=bool)
    empty = ((chosen < 0) | (rejected < 0)) & ~apart
    equal = (one == other) & ~empty & ~apart
    unknown = (context < 0) & ~empty & ~equal & ~apart & (recipe.context is not None)
    for reason, wrong in (("empty", empty), ("other_prompt", apart), ("equal_texts", equal), ("no_context", unknown)):
        dropped.add(reason, int(wrong.sum()), rows[wrong])
    keep = np.flatnonzero(~(empty | apart | equal | unknown))
    fields = {name: reader.codes(f"field {name}") for name in sorted(recipe.field)}
    texts = {"context": reader.texts["context"], **{name: reader.texts[f"field {name}"] for name in fields}}
    prompt, prompts = number_prompts(context, fields, texts)
    category = reader.codes("category") if "category" in reader.roles else None
    if category is not None:
        unnamed = keep[category[keep] < 0]
        dropped.add("no_category", len(unnamed), rows[unnamed])
        keep = keep[category[keep] >= 0]
    keep = _decide(keep, prompt, one, other, category, rows, dropped)
    return Preferences(
        prompt[keep], chosen[keep].astype(np.int64), rejected[keep].astype(np.int64),
        None if category is None else category[keep].astype(np.int64), rows[keep].astype(np.int64), prompts,
        reader.texts["chosen"].texts, reader.texts["category"].texts if category is not None else [], len(rows),
        dropped, reader.fuller,
    )  # fmt: skip


def _decide(
    keep: Index,
    prompt: Index,
    one: NDArray[Any],
    other: NDArray[Any],
    category: NDArray[Any] | None,
    rows: NDArray[Any],
    dropped: Dropped,
) -> Index:
    """Return the first row of each pair that more judgements have this way round than the other."""
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
