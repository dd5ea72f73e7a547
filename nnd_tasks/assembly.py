"""From pairs to the table of tests with the columns and identifiers of the schema, made in pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.codes import Index, combine, occurrence
from nnd_tasks.judgements import Judgements, Prompts
from nnd_tasks.pairing import Pairs
from nnd_tasks.qualities import Candidates
from nnd_tasks.schema import SPANS_COLUMN
from nnd_tasks.tables import SPANS

#: Category of tests where the source has no categories.
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

    @property
    def filled(self) -> bool:
        """Whether any of its texts is not empty."""
        return any(self.texts[code] for code in np.unique(self.codes[self.codes >= 0]).tolist())


@dataclass
class Spans(Coded):
    """A column of error spans; its texts are JSON."""

    def take(self, piece: slice) -> pa.Array:
        """Return a piece of the column as lists of spans."""
        known = [[{**_NO_SPAN, **span} for span in json.loads(text)] if text else [] for text in self.texts]
        return pa.array([known[code] if code >= 0 else [] for code in self.codes[piece].tolist()], SPANS)


_NO_SPAN = {"start": 0, "end": 0, "category": "", "severity": ""}
Columns = Mapping[str, Coded | NDArray[np.float64] | NDArray[np.bool_]]


def judged_table(judgements: Judgements, candidates: Candidates, pairs: Pairs, label_is_category: bool) -> pa.Table:
    """Return the tests formed from judged candidates, one row per test.

    Args:
        judgements: what people judged.
        candidates: the candidates of ``judgements``.
        pairs: pairs of these candidates.
        label_is_category: whether the label of the worse candidate is the category, where nothing else names it.
    """
    high, low = pairs.high, pairs.low
    text = judgements.texts["candidate"].texts
    columns: dict[str, Coded | NDArray[np.float64] | NDArray[np.bool_]] = {
        "high": Coded(candidates.text[high], text),
        "low": Coded(candidates.text[low], text),
        "category": _category(judgements, candidates, pairs, label_is_category),
        "high_first": pairs.high_first,
    }
    optional: dict[str, Coded] = {}
    facts = candidates.facts
    if "subcategory" in facts:
        optional["subcategory"] = Coded(facts["subcategory"][low], judgements.texts["subcategory"].texts)
    elif (len(judgements.aspects) > 1 or judgements.aspects[0]) and "category" in facts:
        optional["subcategory"] = Coded(facts["category"][low], judgements.texts["category"].texts)
    if "severity" in facts:
        optional["severity"] = Coded(facts["severity"][low], judgements.texts["severity"].texts)
    for name, codes in (("label", candidates.label), ("system", facts.get("system"))):
        if codes is not None:
            optional[f"high_{name}"] = Coded(codes[high], judgements.texts[name].texts)
            optional[f"low_{name}"] = Coded(codes[low], judgements.texts[name].texts)
    columns |= {name: column for name, column in optional.items() if column.filled}
    if candidates.score is not None:
        columns |= {"high_score": candidates.score[high], "low_score": candidates.score[low]}
    if "rater" in facts and (rater := Coded(facts["rater"][low], judgements.texts["rater"].texts)).filled:
        columns["rater"] = rater
    if "spans" in facts:
        columns[SPANS_COLUMN] = Spans(facts["spans"][low], judgements.texts["spans"].texts)
    groups = judgements.groups if judgements.groups is not None else judgements.prompts.ids
    return table_of_tests(candidates.prompt[high], judgements.prompts, columns, Coded(candidates.group[high], groups))


def _category(judgements: Judgements, candidates: Candidates, pairs: Pairs, label_is_category: bool) -> Coded:
    """Return the category of each test: the aspect that was judged, else the named one, else the label of the worse text."""
    low = pairs.low
    if len(judgements.aspects) > 1 or judgements.aspects[0]:
        return Coded(candidates.aspect[low], judgements.aspects)
    if "category" in candidates.facts:
        return named(Coded(candidates.facts["category"][low], judgements.texts["category"].texts))
    if label_is_category and candidates.label is not None:
        return Coded(candidates.label[low], judgements.texts["label"].texts)
    return Coded(np.zeros(len(low), np.int64), [PREFERENCE])


def named(column: Coded) -> Coded:
    """Return a column of categories in which the empty category is called `PREFERENCE`."""
    if not (column.codes < 0).any():
        return column
    texts = [*column.texts, PREFERENCE]
    return Coded(np.where(column.codes < 0, texts.index(PREFERENCE), column.codes), texts)


def table_of_tests(prompt: Index, prompts: Prompts, columns: Columns, groups: Coded | None = None) -> pa.Table:
    """Return a table of tests: identifiers, context, the given columns, and the prompt fields.

    Args:
        prompt: number of the prompt of each test.
        prompts: the prompts.
        columns: the other columns, in the order of the schema.
        groups: identifier of each test's group; None takes the identifier of its prompt.
    """
    clusters = Coded(prompt, prompts.ids)
    ids = groups or clusters
    shared = {"context_id": ids, "cluster_id": clusters, "context": Coded(prompt, prompts.contexts)}
    fields = {name: Coded(prompt, texts) for name, texts in prompts.fields.items()}
    parts: Columns = {**shared, **columns, **fields}
    high, low, category = (parts[name] for name in ("high", "low", "category"))
    assert isinstance(high, Coded) and isinstance(low, Coded) and isinstance(category, Coded)  # noqa: PT018
    hashed = _Hashed(ids, high, low, category, repeated=groups is not None)
    batches = []
    for start in range(0, len(prompt), _PIECE):
        piece = slice(start, start + _PIECE)
        arrays = {
            name: column.take(piece) if isinstance(column, Coded) else pa.array(column[piece])
            for name, column in parts.items()
        }
        batches.append(pa.RecordBatch.from_pydict({"test_id": hashed.take(piece), **arrays}))
    return pa.Table.from_batches(batches)


class _Hashed:
    """The column of test ids: a faster form of `short_hash` of context id, texts, category and occurrence."""

    def __init__(self, context_id: Coded, high: Coded, low: Coded, category: Coded, *, repeated: bool) -> None:
        self._columns = (context_id, high, low, category)
        self._contexts = [_part(text) for text in context_id.texts]
        self._ends = [_part(text) for text in category.texts]
        turn = np.ones(len(high.codes), dtype=np.int64)
        if repeated:  # equal tests of one group occur only where each row is a candidate
            turn = occurrence(combine(*(column.codes for column in self._columns))[0])
        self._turn = turn
        self._turns = [_part(str(number)) for number in range(int(turn.max(initial=1)) + 1)]

    def take(self, piece: slice) -> pa.Array:
        """Return a piece of the column as strings."""
        high, low = self._columns[1].texts, self._columns[2].texts
        codes = [column.codes[piece].tolist() for column in self._columns]
        ids = [
            sha256(
                self._contexts[c]
                + _part(high[h] if h >= 0 else "")
                + _part(low[w] if w >= 0 else "")
                + self._ends[k]
                + self._turns[n]
            ).hexdigest()[:16]
            for c, h, w, k, n in zip(*codes, self._turn[piece].tolist(), strict=True)
        ]
        return pa.array(ids, pa.string())


def _part(text: str) -> bytes:
    """Return a text as `short_hash` takes it in, its length first."""
    data = text.encode("utf-8")
    return len(data).to_bytes(8, "big") + data


def examples(table: pa.Table, count: int) -> list[dict[str, str]]:
    """Return up to ``count`` tests for a preview: the first of each category, then the second of each, and so on."""
    column = table.column("category")
    of_category = [
        pc.indices_nonzero(pc.equal(column, category))[:count].to_pylist() for category in column.unique().to_pylist()
    ]
    turns = [place for turn in zip_longest(*of_category) for place in turn if place is not None]
    rows: list[dict[str, str]] = table.select(["context", "high", "low", "category"]).take(turns[:count]).to_pylist()
    return rows
