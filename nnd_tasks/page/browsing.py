"""The tests on a page: as compact data, which its script unpacks piece by piece and shows, and one test alone."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError
from nnd_tasks.likelihood.token_scores import CandidateTokens, TokenScores, read_tokens
from nnd_tasks.results.paired import Paired, pair
from nnd_tasks.results.runs import SIDES, WRITER, Run, take_values
from nnd_tasks.results.samples import name_outcome
from nnd_tasks.show.forms import fill_page
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.text import counted, did_you_mean, some_of

#: Fields of a document that are no part of the prompt.
_NOT_PROMPT = {"cluster_id", "candidates", "error_spans", "scores", "no_context", "kind", "reader_views"}
#: Reader that writes -> what the answers are about that stand with the better and with the worse text.
_ABOUT = {
    "judge": ("the better text first", "the worse text first"),
    "rating": ("about the better text", "about the worse text"),
}
#: Bytes that the data of the tests may have on a page.
PAGE_LIMIT = 18_000_000
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


def pack(pairs: Sequence[Paired], most_bytes: int, only: str = "") -> Packed:
    """Pack all tests as data for the page, or as much as fits: token scores are left out first, then tests with large margins.

    Args:
        pairs: models on the same tests, for each set.
        most_bytes: of the data.
        only: id of a test; the page has this one alone.
    """
    runs = [run for paired in pairs for run in paired.runs]
    tokens = {id(run): read_tokens(run) for run in runs if run.tokens}
    tests = pd.concat(
        [_list_tests(paired).assign(section=number) for number, paired in enumerate(pairs)], ignore_index=True
    )
    tests = tests[tests["id"] == only] if only else tests
    rank = tests["worst"].rank(method="first", na_option="bottom")
    total = len(tests)
    for count, packed_tokens in [(total, tokens), *((total >> n, {}) for n in range(total.bit_length()))]:
        pieces = _pack(pairs, tests[rank <= count], packed_tokens)
        if sum(map(len, pieces)) <= most_bytes:
            break
    models = dict.fromkeys(run.model for run in runs if id(run) in packed_tokens)
    return Packed(pieces, count, total, list(models), len(packed_tokens) < len(tokens))


def _list_tests(paired: Paired) -> pd.DataFrame:
    """The tests of the first run, with ``worst``, the smallest margin that a model has."""
    margins = pd.concat([run.tests.set_index("test_id")["margin"] for run in paired.runs], axis="columns")
    tests = paired.runs[0].tests.rename(columns={"test_id": "id"})
    details = [", ".join(filter(None, pair)) for pair in zip(tests["subcategory"], tests["severity"], strict=True)]
    return tests.assign(worst=tests["id"].map(margins.min(axis="columns")), detail=details)


def _pack(pairs: Sequence[Paired], tests: pd.DataFrame, tokens: Mapping[int, TokenScores]) -> list[str]:
    sections: list[dict[str, Any]] = []
    pieces: list[str] = []
    for number, paired in enumerate(pairs):
        of_section = tests[tests["section"] == number]
        codes, names = pd.factorize(of_section["cluster_id"])
        of_runs = [run.tests.set_index("test_id").reindex(of_section["id"]) for run in paired.runs]
        sections.append(
            {
                "task": paired.title,
                "models": paired.models,
                **of_section[["id", "category", "detail", "high", "low"]].to_dict("list"),
                "piece": (1 + len(pieces) + codes // _EACH).tolist(),
                "place": (codes % _EACH).tolist(),
                "outcome": [list(map(name_outcome, of_run["passed"], of_run["tie"])) for of_run in of_runs],
                "margin": [of_run["margin"].round(8).replace({math.nan: None}).tolist() for of_run in of_runs],
            }
        )
        documents = [{document["cluster_id"]: document for document in _list_documents(run)} for run in paired.runs]
        tokens_of_runs = [tokens.get(id(run), {}) for run in paired.runs]
        words = _list_words(paired)
        prompts = [
            {**read_prompt([of_run[name] for of_run in documents], tokens_of_runs), "words": words.get(name, {})}
            for name in names
        ]
        pieces += [_deflate(prompts[first : first + _EACH]) for first in range(0, len(prompts), _EACH)]
    return [_deflate(sections), *pieces]


def _list_documents(run: Run) -> list[dict[str, Any]]:
    """List the documents of a run; the scores of a prompted reader belong to a question, not to a text."""
    if run.reader in (WRITER, "reward"):
        return run.documents
    return [{**document, "scores": [None] * len(document["candidates"])} for document in run.documents]


def _list_words(paired: Paired) -> dict[str, dict[str, list[list[str]]]]:
    """List what judges and ratings wrote: prompt -> test -> pairs of who wrote about what, and the words."""
    words: dict[str, dict[str, list[list[str]]]] = defaultdict(lambda: defaultdict(list))
    for run in paired.runs:
        for side, about in zip(SIDES, _ABOUT.get(run.reader, ()), strict=False):
            scores = take_values(run.documents, run.tests, side, "scores")
            for test, prompt, score in zip(run.tests["test_id"], run.tests["cluster_id"], scores, strict=True):
                for answer in (score or {}).get("answers", ()):
                    words[prompt][test].append([f"{run.model}, {about}", answer])
    return words


def _deflate(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(text, 6)).decode()


def read_prompt(documents: Sequence[Mapping[str, Any]], tokens: Sequence[TokenScores]) -> dict[str, Any]:
    """Gather all that is shown of a prompt.

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
    index_of = [{text: i for i, text in enumerate(document["candidates"])} for document in documents]
    return {
        "fields": fields,
        "texts": candidates,
        "marks": [
            [
                [error["start"], error["end"], ", ".join(filter(None, (error["category"], error["severity"])))]
                for error in errors
            ]
            for errors in first.get("error_spans") or [[]] * len(candidates)
        ],
        "scores": [
            [document["scores"][index[text]] if text in index else None for text in candidates]
            for document, index in zip(documents, index_of, strict=True)
        ],
        "tokens": [
            [_list_segments(tokens_of_run.get((name, index.get(text, -1), True))) for text in candidates]
            for tokens_of_run, index in zip(tokens, index_of, strict=True)
        ],
    }


def _list_segments(tokens: CandidateTokens | None) -> list[list[int]] | None:
    return None if tokens is None else [numbers.tolist() for numbers in segments(tokens)]


def segments(tokens: CandidateTokens) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide a candidate into stretches that follow each other, each with the tokens that stand for it.

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


# ---------------------------------------------------------------- on a page


def frame_tests(title: str, pairs: Sequence[Paired], packed: Packed, *, alone: bool = False) -> dict[str, Any]:
    """What a page needs that shows tests.

    Args:
        title: of the page.
        pairs: models on the same tests, for each set.
        packed: these tests.
        alone: the page shows one test, so it has no search.
    """
    return {
        "title": title,
        "version": __version__,
        "packed": packed,
        "alone": alone,
        "tasks": [paired.title for paired in pairs],
        "models": list(dict.fromkeys(model for paired in pairs for model in paired.models)),
        "categories": sorted({name for paired in pairs for name in paired.runs[0].tests["category"]}),
        "counted": counted,
    }


# ---------------------------------------------------------------- one test alone


def look_up_test(test_id: str, runs: Sequence[Run], allow: Sequence[str] = ()) -> tuple[list[Report], str]:
    """Report a test of runs, those of one protocol side by side, and make a page about it, with its whole texts.

    Raises:
        NNDError: no run has it (the nearest ids are named), or runs cannot be compared.
    """
    ids = list(dict.fromkeys(name for run in runs for name in run.tests["test_id"]))
    if test_id not in ids:
        meant = did_you_mean(test_id, ids, at_most=3, cutoff=0.5) or f"they have {some_of(ids, 2)}"
        raise NNDError(f"--test {test_id}: no run has this test; {meant}; samples and nnd report show the ids")
    pairs = pair([run for run in runs if test_id in set(run.tests["test_id"])], allow)
    if any(paired.of_documents for paired in pairs):
        raise NNDError(f"--test {test_id}: is a document of a task that is not NND's; it is in {pairs[0].runs[0].path}")
    packed = pack(pairs, PAGE_LIMIT, only=test_id)
    page = fill_page("test.html.j2", **frame_tests(f"Test {test_id}", pairs, packed, alone=True))
    return [_report_test(test_id, paired) for paired in pairs], page


def _report_test(test_id: str, paired: Paired) -> Report:
    """Report the texts, marks and outcomes of a test."""
    tests = pd.DataFrame([run.tests.set_index("test_id").loc[test_id] for run in paired.runs])
    first = tests.iloc[0]
    prompt = read_prompt([paired.runs[0].documents[first["document"]]], [{}])
    texts = list(prompt["fields"])
    for name, candidate in (("better", first["high"]), ("worse", first["low"])):
        text = prompt["texts"][candidate]
        texts.append([name, text])
        texts += [[f"marked in it: {error}", text[start:end]] for start, end, error in prompt["marks"][candidate]]
    texts += _list_words(paired)[first["cluster_id"]][test_id]
    outcomes = tests[["margin", "margin_sum", "margin_bytes"]].assign(
        model=paired.models, outcome=list(map(name_outcome, tests["passed"], tests["tie"]))
    )
    tables = [
        make_table("texts", pd.DataFrame(texts, columns=["what", "text"])),
        make_table("outcomes", outcomes),
    ]
    labels = ", ".join(filter(None, first[["category", "subcategory", "severity"]]))
    return Report(f"test {test_id}", f"{paired.title}, test {test_id}", [f"Category: {labels}."], tables)
