"""Every test of a report as compact data, which the script of the page unpacks piece by piece and shows."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.results.paired import Paired
from nnd_tasks.results.token_scores import CandidateTokens, TokenScores, read_tokens

#: Fields of a document that are no part of the prompt.
_NOT_PROMPT = {"cluster_id", "candidates", "error_spans", "scores", "no_context", "kind"}
#: Prompts in one piece: the page unpacks a piece when one of its tests is looked at.
_EACH = 10


@dataclass(frozen=True)
class Packed:
    """The tests of some runs as a page holds them.

    Attributes:
        pieces: base64 of deflated JSON; the first is the index of all tests, each other one has some prompts, see `read_prompt`.
        tests: number of tests that the page has.
        of: number of tests that there are.
        models: names of the models whose token scores the page has.
        cut: token scores were left out.
    """

    pieces: list[str]
    tests: int
    of: int
    models: list[str]
    cut: bool


def pack(pairs: Sequence[Paired], room: int, only: str = "") -> Packed:
    """Return all tests as data for the page, or as much as fits: token scores are left out first, then tests with large margins.

    Args:
        pairs: models on the same tests, for each set.
        room: most bytes.
        only: id of a test; the page has this one alone.
    """
    tokens = {id(run): scores for paired in pairs for run in paired.runs if (scores := read_tokens(run)) is not None}
    tests = pd.concat(
        [_list_tests(paired).assign(section=number) for number, paired in enumerate(pairs)], ignore_index=True
    )
    tests = tests[tests["id"] == only] if only else tests
    rank = tests["worst"].rank(method="first", na_option="bottom")
    every = len(tests)
    for count, kept in [(every, tokens), *((every >> n, {}) for n in range(every.bit_length()))]:
        pieces = _pack(pairs, tests[rank <= count], kept)
        if sum(map(len, pieces)) <= room:
            break
    names = dict.fromkeys(run.model for paired in pairs for run in paired.runs if id(run) in kept)
    return Packed(pieces, count, every, list(names), len(kept) < len(tokens))


def _list_tests(paired: Paired) -> pd.DataFrame:
    """Return the tests of the first run, with ``worst``, the smallest margin that a model has."""
    margins = pd.concat([run.tests.set_index("test_id")["margin"] for run in paired.runs], axis="columns")
    tests = paired.runs[0].tests.rename(columns={"test_id": "id"})
    details = [", ".join(filter(None, pair)) for pair in zip(tests["subcategory"], tests["severity"], strict=True)]
    return tests.assign(worst=tests["id"].map(margins.min(axis="columns")), detail=details)


def _pack(pairs: Sequence[Paired], tests: pd.DataFrame, tokens: Mapping[int, TokenScores]) -> list[str]:
    sections: list[dict[str, Any]] = []
    pieces: list[str] = []
    for number, paired in enumerate(pairs):
        own = tests[tests["section"] == number]
        codes, names = pd.factorize(own["cluster_id"])
        of_runs = [run.tests.set_index("test_id").reindex(own["id"]) for run in paired.runs]
        sections.append(
            {
                "task": paired.title,
                "models": paired.models,
                **own[["id", "category", "detail", "high", "low"]].to_dict("list"),
                "piece": (1 + len(pieces) + codes // _EACH).tolist(),
                "place": (codes % _EACH).tolist(),
                "outcome": [list(map(name_outcome, of_run["passed"], of_run["tie"])) for of_run in of_runs],
                "margin": [of_run["margin"].round(8).replace({math.nan: None}).tolist() for of_run in of_runs],
            }
        )
        documents = [{document["cluster_id"]: document for document in run.documents} for run in paired.runs]
        kept = [tokens.get(id(run), {}) for run in paired.runs]
        prompts = [read_prompt([of_run[name] for of_run in documents], kept) for name in names]
        pieces += [_deflate(prompts[first : first + _EACH]) for first in range(0, len(prompts), _EACH)]
    return [_deflate(sections), *pieces]


def _deflate(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(text, 6)).decode()


def name_outcome(passed: bool | None, tie: bool) -> str:
    """Return what became of a test, in words."""
    if pd.isna(passed):
        return "not scored"
    return "passed" if passed else "failed, equal" if tie else "failed"


def read_prompt(documents: Sequence[Mapping[str, Any]], tokens: Sequence[TokenScores]) -> dict[str, Any]:
    """Return all that is shown of a prompt.

    Args:
        documents: of each run; the candidates may be in another order than in the first.
        tokens: of each run; empty where it kept none.

    Returns:
        ``fields``: name and text of each field that is not empty; ``texts`` of the candidates; ``marks`` of each candidate:
        start, end and kind of each error that people marked.
        For each run and candidate: ``scores``, with ``sum`` in nats, ``tokens`` and ``bytes``; ``tokens``: the two lists of
        `segments`; both None where the run has none.
    """
    first = documents[0]
    name, candidates = first["cluster_id"], first["candidates"]
    fields = [[key, str(value)] for key, value in first.items() if key not in _NOT_PROMPT and value not in (None, "")]
    places = [{text: i for i, text in enumerate(document["candidates"])} for document in documents]
    return {
        "fields": fields,
        "texts": candidates,
        "marks": [
            [[one["start"], one["end"], ", ".join(filter(None, (one["category"], one["severity"])))] for one in errors]
            for errors in first.get("error_spans") or [[]] * len(candidates)
        ],
        "scores": [
            [document["scores"][place[text]] if text in place else None for text in candidates]
            for document, place in zip(documents, places, strict=True)
        ],
        "tokens": [
            [
                None if one is None else [part.tolist() for part in segments(one)]
                for one in (kept.get((name, place.get(text, -1), True)) for text in candidates)
            ]
            for kept, place in zip(tokens, places, strict=True)
        ],
    }


def segments(tokens: CandidateTokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return stretches of a candidate that follow each other, each with the tokens that stand for it.

    Tokens that stand for parts of one character are in one stretch. A token around the candidate has a stretch of length 0.

    Args:
        tokens: of the candidate.

    Returns:
        Lengths in characters, and surprises in tenths of a nat, shape (stretches,).
    """
    reach = np.maximum.accumulate(tokens.ends, dtype=np.int64)
    begins = np.flatnonzero(np.append(True, tokens.starts[1:] >= reach[:-1]))
    ends = reach[np.append(begins[1:], len(reach)) - 1]
    tenths = np.rint(np.add.reduceat(tokens.logprobs, begins, dtype=np.float64) * -10).astype(np.int64)
    return np.diff(ends, prepend=0), tenths
