"""Ready-made preference pairs: plain texts or chats, as in RewardBench-style and preference-tuning datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nnd_tasks.contribute.chat import is_chat, split_pair
from nnd_tasks.contribute.encode import Index, combine
from nnd_tasks.contribute.judgements import Dropped, Prompts, Reader, number_prompts
from nnd_tasks.contribute.recipe import Recipe
from nnd_tasks.contribute.tables import Batch, Table
from nnd_tasks.errors import NNDError


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
        chats: whether candidates came as messages.
        dropped: what was left out.
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
    chats: bool
    dropped: Dropped


def read_preferences(table: Table, recipe: Recipe) -> Preferences:
    """Read a table of ready-made pairs.

    What both texts begin with (whole messages of chats, turns of a dialogue) becomes the context where no column is named for it.
    Left out and counted are pairs with an empty text, of equal texts, that repeat an earlier one, and those that people judged
    both ways round equally often; where one way has more judgements it is kept.

    Raises:
        NNDError: a file that cannot be read, or a cell that holds something else; the row is named.
    """
    roles = {role: column for role in ("context", "category") if (column := getattr(recipe, role))}
    roles |= {f"field {name}": column for name, column in sorted(recipe.field.items())}
    columns = {**roles, "chosen": str(recipe.chosen), "rejected": str(recipe.rejected)}
    shared = _Reader(table, columns, has_context="context" in roles)
    for batch in table.read(recipe.columns()):
        shared.take(batch)
    if not len(shared.rows):
        raise NNDError(f"{table.name}: it holds no row")
    return _assemble(shared, recipe)


class _Reader(Reader):
    """A reader that splits what both texts of a pair share from them."""

    def __init__(self, table: Table, columns: dict[str, str], *, has_context: bool) -> None:
        super().__init__(table, columns if has_context else {**columns, "context": columns["chosen"]})
        self.texts["rejected"] = self.texts["chosen"]  # one numbering of candidates
        for role in ("chosen", "rejected"):
            self.texts[role]._strip = False
        self._has_context = has_context
        self._pair = columns["chosen"], columns["rejected"]
        self.chats = False

    def take(self, batch: Batch) -> None:
        """Take in a batch, split."""
        chosen, rejected = (self._cells(batch, column) for column in self._pair)
        self.chats |= any(is_chat(cell) for cell in chosen[:10])
        parts = [split_pair(a, b) for a, b in zip(chosen, rejected, strict=True)]
        split: dict[str, Any] = dict(batch.columns)
        split[self._pair[0]] = [part[1] for part in parts]
        split[self._pair[1]] = [part[2] for part in parts]
        if not self._has_context:
            split["\0context"] = [part[0] for part in parts]
            self.roles["context"] = "\0context"
        self.add(Batch(batch.numbers, split))

    @staticmethod
    def _cells(batch: Batch, column: str) -> list[Any]:
        values = batch.columns[column]
        return values.to_pylist() if isinstance(values, pa.Array) else values


def _assemble(reader: _Reader, recipe: Recipe) -> Preferences:
    rows, chosen, rejected = reader.rows, reader.codes("chosen"), reader.codes("rejected")
    context, dropped = reader.codes("context"), Dropped()
    folded = np.append(reader.texts["chosen"].folded(), -1)
    one, other = folded[chosen], folded[rejected]
    empty = (chosen < 0) | (rejected < 0)
    equal = (one == other) & ~empty
    unknown = (context < 0) & ~empty & ~equal & (recipe.context is not None)
    for reason, wrong in (("empty", empty), ("equal_texts", equal), ("no_context", unknown)):
        dropped.add(reason, int(wrong.sum()), rows[wrong])
    keep = np.flatnonzero(~(empty | equal | unknown))
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
        reader.chats, dropped,
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
