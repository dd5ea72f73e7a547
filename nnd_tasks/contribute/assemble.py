"""From pairs to the table of tests, in pieces, with the identifiers of the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.contribute.encode import Index
from nnd_tasks.contribute.judgements import Judgements, Prompts
from nnd_tasks.contribute.preferences import Preferences
from nnd_tasks.contribute.recipe import Recipe
from nnd_tasks.contribute.rules import Candidates, Pairs

#: Category of tests whose table names none.
PREFERENCE = "preference"
_PIECE = 50_000


@dataclass
class Coded:
    """A column of texts as indices into a list of distinct ones; -1 is an empty text."""

    codes: Index
    texts: Sequence[str]

    def take(self, piece: slice) -> pa.Array:
        """Return a piece of the column as strings."""
        texts = self.texts
        return pa.array([texts[code] if code >= 0 else "" for code in self.codes[piece].tolist()], pa.string())


Columns = Mapping[str, Coded | NDArray[np.float64] | NDArray[np.bool_]]


def judged_table(found: Judgements, candidates: Candidates, pairs: Pairs, recipe: Recipe) -> pa.Table:
    """Return the tests of judged candidates, one row per test."""
    high, low = pairs.high, pairs.low
    text = found.texts["candidate"].texts
    columns: dict[str, Coded | NDArray[np.float64] | NDArray[np.bool_]] = {
        "high": Coded(candidates.text[high], text),
        "low": Coded(candidates.text[low], text),
        "category": _category(found, candidates, pairs, recipe),
        "high_first": pairs.high_first,
    }
    if recipe.attribute and candidates.category is not None:
        columns["subcategory"] = Coded(candidates.category[low], found.texts["category"].texts)
    for name, codes in (("label", candidates.label), ("system", candidates.system)):
        if codes is not None:
            columns[f"high_{name}"] = Coded(codes[high], found.texts[name].texts)
            columns[f"low_{name}"] = Coded(codes[low], found.texts[name].texts)
    if candidates.score is not None:
        columns |= {"high_score": candidates.score[high], "low_score": candidates.score[low]}
    if candidates.rater is not None and (candidates.rater[low] >= 0).any():
        columns["rater"] = Coded(candidates.rater[low], found.texts["rater"].texts)
    return _table(candidates.prompt[high], found.prompts, columns)


def _category(found: Judgements, candidates: Candidates, pairs: Pairs, recipe: Recipe) -> Coded:
    """Return what was judged, else the named category, else the label of the worse candidate."""
    low = pairs.low
    if recipe.attribute:
        return Coded(candidates.aspect[low], found.aspects)
    if candidates.category is not None:
        return _named(Coded(candidates.category[low], found.texts["category"].texts))
    if candidates.label is not None:
        return Coded(candidates.label[low], found.texts["label"].texts)
    return Coded(np.zeros(len(low), np.int64), [PREFERENCE])


def _named(column: Coded) -> Coded:
    """Return a column of categories with a name for the empty one."""
    if not (column.codes < 0).any():
        return column
    texts = [*column.texts, PREFERENCE]
    return Coded(np.where(column.codes < 0, texts.index(PREFERENCE), column.codes), texts)


def preferred_table(found: Preferences) -> pa.Table:
    """Return the tests of ready-made pairs, one row per test."""
    zeros = np.zeros(len(found.high), np.int64)
    return _table(
        found.prompt,
        found.prompts,
        {
            "high": Coded(found.high, found.texts),
            "low": Coded(found.low, found.texts),
            "category": Coded(zeros, [PREFERENCE])
            if found.category is None
            else Coded(found.category, found.categories),
            "high_first": _by_alphabet(found),
        },
    )


def _by_alphabet(found: Preferences) -> NDArray[np.bool_]:
    """Return which text comes first: the table does not say, and the better one must not always be the first."""
    pairs = zip(found.high.tolist(), found.low.tolist(), strict=True)
    return np.array([found.texts[high] < found.texts[low] for high, low in pairs], dtype=bool)


def _table(prompt: Index, prompts: Prompts, columns: Columns) -> pa.Table:
    """Return columns of tests as a table, with the columns that the prompt and the identifiers make.

    Args:
        prompt: number of the prompt of each test.
        prompts: the prompts.
        columns: the other columns.
    """
    ids = Coded(prompt, prompts.ids)
    shared = {"context_id": ids, "cluster_id": ids, "context": Coded(prompt, prompts.contexts)}
    fields = {name: Coded(prompt, texts) for name, texts in prompts.fields.items()}
    parts: Columns = {**shared, **columns, **fields}
    hashed = _Hashed(*(column for column in (ids, *(parts[name] for name in _HASHED)) if isinstance(column, Coded)))
    batches = []
    for start in range(0, len(prompt), _PIECE):
        piece = slice(start, start + _PIECE)
        arrays = {
            name: column.take(piece) if isinstance(column, Coded) else pa.array(column[piece])
            for name, column in parts.items()
        }
        batches.append(pa.RecordBatch.from_pydict({"test_id": hashed.take(piece), **arrays}))
    return pa.Table.from_batches(batches)


_HASHED = ("high", "low", "category")


class _Hashed:
    """The column of test ids: `short_hash` of context id, texts, category and occurrence, several times as fast.

    The occurrence is always the first: a text is judged once for a prompt, aspect and category.
    """

    def __init__(self, context_id: Coded, high: Coded, low: Coded, category: Coded) -> None:
        self._context_id, self._high, self._low, self._category = context_id, high, low, category
        self._contexts = [_part(text) for text in context_id.texts]
        self._ends = [_part(text) + _part("1") for text in category.texts]

    def take(self, piece: slice) -> pa.Array:
        """Return a piece of the column as strings."""
        columns = (self._context_id, self._high, self._low, self._category)
        high, low = self._high.texts, self._low.texts
        ids = [
            sha256(self._contexts[c] + _part(high[h]) + _part(low[w]) + self._ends[k]).hexdigest()[:16]
            for c, h, w, k in zip(*(column.codes[piece].tolist() for column in columns), strict=True)
        ]
        return pa.array(ids, pa.string())


def _part(text: str) -> bytes:
    data = text.encode("utf-8")
    return len(data).to_bytes(8, "big") + data


def examples(table: pa.Table, count: int) -> list[dict[str, str]]:
    """Return a few tests for a preview, those of each category in turn."""
    categories = pc.unique(table.column("category")).to_pylist()
    found: list[dict[str, str]] = []
    for turn in range(count):
        for category in categories:
            if len(found) == count:
                return found
            places = pc.indices_nonzero(pc.equal(table.column("category"), category))
            if turn < len(places):
                row = table.slice(int(places[turn].as_py()), 1).to_pylist()[0]
                found.append({key: row[key] for key in ("context", "high", "low", "category")})
    return found
