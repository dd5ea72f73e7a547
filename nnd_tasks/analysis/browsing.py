"""Every test of a report as compact data, which the script of the page unpacks piece by piece and shows."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired
from nnd_tasks.analysis.token_files import CandidateTokens, TokenScores, run_tokens

if TYPE_CHECKING:
    import pandas as pd

#: Fields of a document that are no part of the prompt.
_NOT_PROMPT = {"cluster_id", "candidates", "error_spans", "scores", "no_context", "kind"}
#: Characters of texts in one piece, about: the page unpacks a piece when one of its tests is looked at.
_PIECE = 25_000
#: A number n of a list, such as the lengths of tokens, is the character chr(48 + n): no letter that JSON escapes but one.
_ZERO, _MOST = 48, 40_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of its texts a page holds.

    Attributes:
        candidate: characters of a candidate.
        field: characters of a field of the prompt.
        tokens: whether token scores are kept.
    """

    candidate: int
    field: int
    tokens: bool = True


#: What is tried in turn until the data fits. After these, fewer tests.
STEPS = (
    Limits(4_000, 1_500),
    Limits(1_500, 500),
    Limits(800, 200),
    Limits(800, 200, tokens=False),
    Limits(300, 100, False),
)
#: Of one test alone.
WHOLE = Limits(200_000, 200_000)


@dataclass(frozen=True)
class Packed:
    """The tests of some runs as a page holds them.

    Attributes:
        pieces: base64 of deflated JSON; the first is the index of all tests, each other one has the texts of some prompts.
        limits: what is kept of the texts.
        tests: number of tests that the page has.
        of: number of tests that there are.
        models: names of the models that have token scores.
    """

    pieces: list[str]
    limits: Limits
    tests: int
    of: int
    models: list[str]

    @property
    def size(self) -> int:
        """Bytes of the pieces."""
        return sum(map(len, self.pieces))


def pack(pairs: Sequence[Paired], room: int, only: str = "") -> Packed:
    """Return all tests as data for the page, or as much as fits.

    Texts are shortened first, then token scores left out, then tests with large margins.

    Args:
        pairs: models on the same tests, for each set.
        room: most bytes.
        only: id of a test; the page has this one alone, with its whole texts.
    """
    tokens = {id(run): run_tokens(run) for paired in pairs for run in paired.runs}
    tests = [_tests(paired, only) for paired in pairs]
    every = sum(map(len, tests))
    steps = [(WHOLE, every)] if only else [(limits, every) for limits in STEPS]
    steps += [(STEPS[-1], every >> n) for n in range(1, max(every, 1).bit_length())]
    order = np.argsort(np.concatenate([table["worst"] for table in tests]), kind="stable")
    ends = np.cumsum([len(table) for table in tests])[:-1]
    for limits, count in steps:
        kept = np.zeros(every, dtype=bool)
        kept[order[:count]] = True
        chosen = [table[own] for table, own in zip(tests, np.split(kept, ends), strict=True)]
        packed = _pack(pairs, chosen, tokens if limits.tokens else {}, limits, every)
        if packed.size <= room:
            break
    return packed


def _tests(paired: Paired, only: str) -> pd.DataFrame:
    """Return the tests of the first run with ``worst``, the smallest margin that a model has, infinite where none has one."""
    tests = paired.runs[0].tests
    tests = tests[tests["test_id"] == only] if only else tests
    margins = [run.tests.set_index("test_id")["margin"].reindex(tests["test_id"]).to_numpy() for run in paired.runs]
    return tests.assign(worst=np.fmin.reduce([np.nan_to_num(row, nan=math.inf) for row in margins]))


def _pack(
    pairs: Sequence[Paired],
    chosen: Sequence[pd.DataFrame],
    tokens: Mapping[int, TokenScores | None],
    limits: Limits,
    every: int,
) -> Packed:
    sections: list[dict[str, Any]] = []
    pieces: list[str] = []
    for paired, tests in zip(pairs, chosen, strict=True):
        kept = [tokens.get(id(run)) for run in paired.runs]
        places = {place: i for i, place in enumerate(dict.fromkeys(tests["document"].tolist()))}
        own, first = _documents(paired, list(places), kept, limits)
        categories, details = (list(dict.fromkeys(names)) for names in (tests["category"], _details(tests)))
        sections.append(
            {
                **{"task": paired.title, "models": paired.models, "tokens": [scores is not None for scores in kept]},
                **{"categories": categories, "details": details, "piece": len(pieces) + 1, "first": first},
                "id": tests["test_id"].tolist(),
                "document": [places[place] for place in tests["document"]],
                "category": _numbers([categories.index(name) for name in tests["category"]]),
                "detail": _numbers([details.index(detail) for detail in _details(tests)]),
                "high": _numbers(tests["high"]),
                "low": _numbers(tests["low"]),
                "outcome": [_outcomes(run, tests) for run in paired.runs],
                "margin": [_margins(run, tests) for run in paired.runs],
            }
        )
        pieces += own
    with_tokens = (run.model for paired in pairs for run in paired.runs if tokens.get(id(run)) is not None)
    return Packed(
        [_deflated(sections), *pieces], limits, sum(map(len, chosen)), every, list(dict.fromkeys(with_tokens))
    )


def _details(tests: pd.DataFrame) -> list[str]:
    """Return subcategory and severity of each test, where it has any."""
    return [", ".join(filter(None, pair)) for pair in zip(tests["subcategory"], tests["severity"], strict=True)]


def _outcomes(run: Run, tests: pd.DataFrame) -> str:
    """Return a letter for each test: Passed, Failed, = failed with equal likelihoods, - not scored."""
    own = run.tests.set_index("test_id").reindex(tests["test_id"])
    return "".join(
        "-" if passed is not True and passed is not False else "P" if passed else "=" if tie else "F"
        for passed, tie in zip(own["passed"].astype(object), own["tie"], strict=True)
    )


def _margins(run: Run, tests: pd.DataFrame) -> list[float | None]:
    margins = run.tests.set_index("test_id")["margin"].reindex(tests["test_id"])
    return [None if math.isnan(margin) else round(margin, 8) for margin in margins.tolist()]


# ---------------------------------------------------------------- prompts


def _documents(
    paired: Paired, places: Sequence[int], tokens: Sequence[TokenScores | None], limits: Limits
) -> tuple[list[str], list[int]]:
    """Return the prompts of a set in pieces, and which of them (counted from 0) is the first of each piece."""
    others = [{document["cluster_id"]: document for document in run.documents} for run in paired.runs]
    pieces, first = [], []
    texts: dict[str, int] = {}
    documents: list[dict[str, Any]] = []
    size = 0
    for number, place in enumerate(places, start=1):
        document = paired.runs[0].documents[place]
        name, candidates = document["cluster_id"], document["candidates"]
        own = [(other[name], scores) for other, scores in zip(others, tokens, strict=True)]
        data = {
            "fields": [[key, *_kept(text, limits.field, texts)] for key, text in prompt_fields(document)],
            "texts": [_kept(text, limits.candidate, texts) for text in candidates],
            "marks": [_marks(errors) for errors in document.get("error_spans") or []],
            "scores": [_scores(theirs, candidates) for theirs, _ in own],
            "tokens": [_tokens(theirs, candidates, scores, limits.candidate) for theirs, scores in own],
        }
        size += sum(map(len, candidates)) + sum(min(len(text), limits.field) for _, text in prompt_fields(document))
        documents.append(data)
        if size > _PIECE or number == len(places):
            first.append(number - len(documents))
            pieces.append(_deflated({"texts": list(texts), "documents": documents}))
            texts, documents, size = {}, [], 0
    return pieces, first


def prompt_fields(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return name and text of each field of a prompt that is not empty."""
    return [(key, str(value)) for key, value in document.items() if key not in _NOT_PROMPT and value not in (None, "")]


def _kept(text: str, limit: int, texts: dict[str, int]) -> list[int]:
    """Return the number of a text among ``texts``, where it is put once, and how many of its characters are not kept."""
    return [texts.setdefault(text[:limit], len(texts)), max(len(text) - limit, 0)]


def _marks(errors: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Return start, end and kind of each error that people marked."""
    kind = (", ".join(filter(None, (error["category"], error["severity"]))) for error in errors)
    return [[error["start"], error["end"], what] for error, what in zip(errors, kind, strict=True)]


def _scores(document: Mapping[str, Any], candidates: Sequence[str]) -> list[list[float] | None]:
    """Return sum (nats), tokens and bytes of each candidate; None where the run has no finite score of this text."""
    known = dict(zip(document["candidates"], document["scores"], strict=True))
    found = [known.get(text) for text in candidates]
    return [
        None if score is None or score["sum"] is None else [round(score["sum"], 8), score["tokens"], score["bytes"]]
        for score in found
    ]


def _tokens(
    document: Mapping[str, Any], candidates: Sequence[str], scores: TokenScores | None, limit: int
) -> list[list[str] | None]:
    """Return lengths and surprises of the tokens of each candidate, see `segments`; None where they were not kept."""
    places = {text: i for i, text in enumerate(document["candidates"])} if scores else {}
    found = [(scores or {}).get((document["cluster_id"], places.get(text, -1), True)) for text in candidates]
    return [None if one is None else [_numbers(part) for part in segments(one, limit)] for one in found]


def segments(tokens: CandidateTokens, limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return stretches of a candidate that follow each other, each with the tokens that stand for it.

    Tokens that stand for parts of one character are in one stretch. A token around the candidate has a stretch of length 0.

    Args:
        tokens: of the candidate.
        limit: characters of the candidate; later stretches are left out.

    Returns:
        Lengths in characters, and surprises in tenths of a nat, both from 0 to 40,000, shape (stretches,).
    """
    reach = np.maximum.accumulate(np.minimum(tokens.ends, limit + 1, dtype=np.int64))
    first = np.ones(len(reach), dtype=bool)
    first[1:] = tokens.starts[1:] >= reach[:-1]
    begins = np.flatnonzero(first)
    ends = reach[np.append(begins[1:], len(reach)) - 1]
    tenths = np.rint(np.add.reduceat(tokens.logprobs, begins, dtype=np.float64) * -10).clip(0, _MOST).astype(np.int64)
    lengths = ends.copy()
    lengths[1:] -= ends[:-1]
    count = int(np.searchsorted(ends, limit, side="right"))
    return lengths[:count], tenths[:count]


def _numbers(values: ArrayLike) -> str:
    """Return whole numbers from 0 to 40,000 as one character each."""
    codes: NDArray[np.uint32] = np.asarray(values, dtype="<u4") + np.uint32(_ZERO)
    return codes.tobytes().decode("utf-32-le")


def _deflated(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(text, 6)).decode()
