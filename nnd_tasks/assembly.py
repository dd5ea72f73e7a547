"""From pairs to the table of tests, in pieces, with the identifiers of the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.codes import Index, combine, occurrence
from nnd_tasks.pairing import Candidates, Judgements, Pairs, Prompts
from nnd_tasks.schema import SPANS_COLUMN
from nnd_tasks.tables import SPANS

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


def judged_table(found: Judgements, candidates: Candidates, pairs: Pairs, label_is_category: bool) -> pa.Table:
    """Return the tests of judged candidates, one row per test.

    Args:
        found: what was judged.
        candidates: those of `found`.
        pairs: of them.
        label_is_category: whether the label of the worse candidate names the category, where nothing else does.
    """
    high, low = pairs.high, pairs.low
    text = found.texts["candidate"].texts
    columns: dict[str, Coded | NDArray[np.float64] | NDArray[np.bool_]] = {
        "high": Coded(candidates.text[high], text),
        "low": Coded(candidates.text[low], text),
        "category": _category(found, candidates, pairs, label_is_category),
        "high_first": pairs.high_first,
    }
    optional: dict[str, Coded] = {}
    facts = candidates.facts
    if "subcategory" in facts:
        optional["subcategory"] = Coded(facts["subcategory"][low], found.texts["subcategory"].texts)
    elif (len(found.aspects) > 1 or found.aspects[0]) and "category" in facts:
        optional["subcategory"] = Coded(facts["category"][low], found.texts["category"].texts)
    if "severity" in facts:
        optional["severity"] = Coded(facts["severity"][low], found.texts["severity"].texts)
    for name, codes in (("label", candidates.label), ("system", facts.get("system"))):
        if codes is not None:
            optional[f"high_{name}"] = Coded(codes[high], found.texts[name].texts)
            optional[f"low_{name}"] = Coded(codes[low], found.texts[name].texts)
    columns |= {name: column for name, column in optional.items() if column.filled}
    if candidates.score is not None:
        columns |= {"high_score": candidates.score[high], "low_score": candidates.score[low]}
    if "rater" in facts and (rater := Coded(facts["rater"][low], found.texts["rater"].texts)).filled:
        columns["rater"] = rater
    if "spans" in facts:
        columns[SPANS_COLUMN] = Spans(facts["spans"][low], found.texts["spans"].texts)
    groups = found.groups if found.groups is not None else found.prompts.ids
    return table_of_tests(candidates.prompt[high], found.prompts, columns, Coded(candidates.group[high], groups))


def _category(found: Judgements, candidates: Candidates, pairs: Pairs, label_is_category: bool) -> Coded:
    """Return what was judged, else the named category, else the label of the worse candidate."""
    low = pairs.low
    if len(found.aspects) > 1 or found.aspects[0]:
        return Coded(candidates.aspect[low], found.aspects)
    if "category" in candidates.facts:
        return named(Coded(candidates.facts["category"][low], found.texts["category"].texts))
    if label_is_category and candidates.label is not None:
        return Coded(candidates.label[low], found.texts["label"].texts)
    return Coded(np.zeros(len(low), np.int64), [PREFERENCE])


def named(column: Coded) -> Coded:
    """Return a column of categories with a name for the empty one."""
    if not (column.codes < 0).any():
        return column
    texts = [*column.texts, PREFERENCE]
    return Coded(np.where(column.codes < 0, texts.index(PREFERENCE), column.codes), texts)


def table_of_tests(prompt: Index, prompts: Prompts, columns: Columns, groups: Coded | None = None) -> pa.Table:
    """Return columns of tests as a table, with the columns that the prompt and the identifiers make.

    Args:
        prompt: number of the prompt of each test.
        prompts: the prompts.
        columns: the other columns, in the order of the schema.
        groups: identifier of each test's group; None takes its prompt.
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
    """The column of test ids: `short_hash` of context id, texts, category and occurrence, several times as fast."""

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
