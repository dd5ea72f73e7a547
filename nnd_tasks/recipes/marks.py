"""Read the marks that people gave: labels, numbers or votes, one or several per row, of one or several aspects."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.codes import Codes, Index, Mask, Texts
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.base_table import Batch
from nnd_tasks.recipes.cells import Column, Numbers, Where, coded, listed, short_repr, spread, strings
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.wording import some_of


class Marks:
    """Gathers the marks of the batches of a table.

    Attributes:
        labels: texts of the labels; None where people gave numbers.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        # Publishers write their best label in several ways (No-error, no-error); a user's own table is read as it is.
        same = {label.casefold(): label for label in recipe.better} if recipe.candidates == "rows" else None
        texts = Texts(strip=True, blank="" in recipe.better, missing=recipe.missing, same=same)
        self.labels = texts if recipe.by_label else None
        self._numbers = Numbers(recipe.missing, recipe.decimal, recipe.scale)
        self._columns = recipe.marks
        self._aspects = Texts(strip=True)
        self._parts: list[tuple[Index, NDArray[Any], Codes]] = []  # of each batch and column: row, mark, aspect

    @property
    def aspects(self) -> list[str]:
        """Names of the aspects that were judged."""
        return list(self._columns) if self._recipe.wide else self._aspects.texts or [""]

    def add(self, batch: Batch, before: int) -> None:
        """Read the marks of a batch that has ``before`` rows before it."""
        if self._recipe.votes:
            self._vote(batch, before)
            return
        for number, column in enumerate(self._columns.values()):
            place_of = batch.where(column)
            place, cells = self._spread(batch.columns[column], place_of)

            def where(i: int, place: Index = place, place_of: Where = place_of) -> str:
                return place_of(int(place[i]))

            mark, known = self._read(cells, where)
            if self._recipe.complete and (not known.all() or len(np.unique(place)) < len(batch.numbers)):
                raise NNDError(
                    f"{_first_empty(batch, column, place, known)}: it is empty; nobody judged this candidate"
                )
            aspect = np.full(len(place), number if self._recipe.wide else 0, dtype=np.int32)
            if self._recipe.aspect:
                named = batch.where(self._recipe.aspect)
                names = coded(self._aspects, batch.columns[self._recipe.aspect], named)
                if self._recipe.complete and (names < 0).any():
                    raise NNDError(f"{named(int((names < 0).argmax()))}: it is empty; nothing says what was judged")
                aspect = names[place]
                known &= aspect >= 0
            self._parts.append(((place + before)[known], mark[known], aspect[known]))

    def _vote(self, batch: Batch, before: int) -> None:
        """Read votes: the mark of a row is the number of best votes minus that of worst votes for its system."""
        votes, system = self._recipe.votes, str(self._recipe.system)
        known = self._recipe.each.get(system)
        score = np.zeros(len(batch.numbers))
        systems = listed(batch.columns[system])
        for name, sign in (("best", 1), ("worst", -1)):
            for i, cell in enumerate(listed(batch.columns[votes[name]]) if name in votes else ()):
                voted = cell if isinstance(cell, (list, tuple)) else [cell]
                for number, one in enumerate(voted):
                    where = f"{batch.where(votes[name])(i)}, item [{number}]"
                    if one is None and self._recipe.complete:
                        raise NNDError(f"{where}: no system is named")
                    if one is not None and known and one not in known:
                        raise NNDError(f"{where}: unknown system {short_repr(one)} (known: {some_of(known)})")
                score[i] += sign * Counter(str(one) for one in voted if one is not None)[str(systems[i])]
        count = len(batch.numbers)
        self._parts.append((np.arange(before, before + count), score, np.zeros(count, np.int32)))

    def _spread(self, cells: Column, where: Where) -> tuple[Index, Column]:
        """Return each item of a list as a cell of its own, and its row; a set that is complete has one label per row."""
        if self._recipe.complete and self._recipe.by_label:
            return np.arange(len(cells), dtype=np.int64), cells
        return spread(cells, where)

    def _read(self, cells: Column, where: Where) -> tuple[NDArray[Any], Mask]:
        """Return the mark of each cell, and whether it has one."""
        if self.labels is not None:
            texts = strings(cells, where, (str,) if self._recipe.complete else ())
            codes = self.labels.add(pc.fill_null(texts, "") if "" in self._recipe.better else texts)
            return codes, codes >= 0
        values = self._numbers.read(cells, where)
        return values, ~np.isnan(values)

    def gather(self) -> tuple[Index, NDArray[Any], Codes]:
        """Return for each mark the position of its row, the mark, and the number of its aspect, sorted by row."""
        place, mark, aspect = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        order = np.lexsort((aspect, place)) if self._recipe.wide else np.arange(len(place))
        return place[order], mark[order], aspect[order]


def _first_empty(batch: Batch, column: str, place: Index, known: Mask) -> str:
    """Return the place of the first row without a mark, else of the first cell without one."""
    judged = np.zeros(len(batch.numbers), dtype=bool)
    judged[place[known]] = True
    wrong = np.flatnonzero(~judged)
    return batch.where(column)(int(wrong[0]) if len(wrong) else int(place[~known][0]))
