"""The tokens of a candidate that a model scored, with the characters that each stands for; and their file.

In the file a row is a candidate after a prompt. Lists have an entry per scored token.

| column | what it holds |
|---|---|
| ``cluster_id``, ``candidate`` | the prompt, and which of its candidates; as in the samples |
| ``text`` | the candidate |
| ``context_part`` | what the prompt has of its context: ``whole``, ``shortened``, or ``none`` (with ``context_reliance``) |
| ``token_ids`` | ids in the model's vocabulary |
| ``starts``, ``ends`` | the token is ``text[start:end]``, in characters; a space belongs to the word after it |
| ``logprobs`` | natural logarithms of probabilities; they add up to the candidate's ``sum`` |

With ``token_stats=True`` among the arguments of the model, also what it expected in the place of each token:

| column | what it holds |
|---|---|
| ``rank`` | binary logarithm of the token's rank; 0 is the likeliest |
| ``entropy`` | entropy of what the model expects, in nats |
| ``deviation`` | standard deviation of log-probabilities under it, in nats |
| ``logsumexp`` | logsumexp of the logits, in nats |
| ``top`` | log-probability of the likeliest token, in nats |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.task.settings import Settings
from shared_prefix.token_requests import TOKEN_COLUMNS

if TYPE_CHECKING:
    from nnd_tasks.task.request import Request
    from shared_prefix.lengths import BaseCounter


@dataclass(frozen=True)
class ScoredTokens:
    """The scored tokens of a candidate.

    Attributes:
        ids: in the model's vocabulary, shape (tokens,).
        spans: start and end of each, in characters of the candidate, shape (tokens, 2). What stands around the candidate (a
            space or line feed before it, an end-of-sequence token) has an empty span at its beginning or end, and the number
            that the setting ``number_lines`` puts before a line has one there.
        logprobs: log-probability of each, in nats, shape (tokens,).
        expected: `shared_prefix.token_requests.TOKEN_COLUMNS`, shape (tokens, 6); None without ``token_stats``.
    """

    ids: list[int]
    spans: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    expected: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, request: Request, response: Sequence[Any], counter: BaseCounter) -> ScoredTokens | None:
        """Take the tokens of an answered request; None for a placeholder.

        Raises:
            NNDError: the response has no log-probabilities of tokens, or the tokenizer does not tell which characters its
                tokens stand for.
        """
        if request.candidate is None:
            return None
        logprobs = getattr(response, "logprobs", None)
        if logprobs is None:
            raise NNDError(f"{request.describe()}: the model gave no log-probabilities of tokens")
        ids, spans = tokens_and_characters(counter, *request.args)
        if len(ids) != len(logprobs):
            raise RuntimeError(f"{request.describe()}: {len(logprobs)} token scores for {len(ids)} tokens")
        offsets = candidate_offsets(request.doc["candidates"][request.candidate], request.args[1])
        return cls(ids, offsets[spans], logprobs, getattr(response, "expected", None))


def candidate_offsets(candidate: str, continuation: str) -> NDArray[np.int64]:
    """Map each place between characters of a continuation to the place in its candidate that it stands for.

    Returns:
        Shape (characters of the continuation + 1,).
    """
    numbered = Settings(number_lines=True).scored(candidate)
    written = numbered if numbered in continuation else candidate
    before = continuation.rindex(written)
    offsets = [0] * before
    start = 0
    for line, as_written in zip(candidate.split("\n"), written.split("\n"), strict=True):
        offsets += [start] * (len(as_written) - len(line))
        offsets += range(start, start + len(line) + 1)
        start += len(line) + 1
    offsets += [len(candidate)] * (len(continuation) - before - len(written))
    return np.asarray(offsets)


def tokens_and_characters(counter: BaseCounter, context: str, continuation: str) -> tuple[list[int], NDArray[np.int64]]:
    """Return the tokens of a request that are scored, and the characters of its continuation that each stands for.

    A character that takes several tokens, as in byte-level BPE, is in all of their spans. A space that a tokenizer leaves out
    of its offsets belongs to the token after it. A token that also stands for the end of the context begins at 0. A token for a
    space that the tokenizer itself puts before a text has the text's first character, as in its offsets.

    Args:
        counter: with the tokenizer.
        context: the prompt; may be empty.
        continuation: what is scored after it.

    Returns:
        Token ids, and for each (start, end) in characters of ``continuation``, shape (tokens, 2).

    Raises:
        NNDError: the tokenizer does not tell which characters its tokens stand for.
    """
    count = counter.lengths(context, continuation)[1]
    if context and counter.backend == "causal":
        text, before = context + continuation, len(context)
        ids = counter.split(context, continuation)[1]
    else:  # an encoder-decoder reads the continuation separately; after an empty context there is nothing else
        text, before = continuation, 0
        ids = counter.tok_encode(continuation, add_special_tokens=False)[-count:]
    if not getattr(counter.tokenizer, "is_fast", False):
        raise NNDError(
            f"the tokenizer {counter.name} does not tell which characters its tokens stand for (it is not a fast one of the "
            "tokenizers library), so token scores cannot be kept; leave out the setting tokens"
        )
    for special in (False, True):
        encoded = counter.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
        if encoded["input_ids"][-count:] == ids:
            break
    else:
        raise NNDError(f"the tokenizer {counter.name} gives other tokens with offsets; leave out the setting tokens")
    spans = np.asarray(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    ends = np.maximum.accumulate(spans[:, 1])
    starts = np.minimum(spans[:, 0], np.concatenate([[0], ends[:-1]]))
    return ids, np.maximum(np.stack([starts, ends], axis=1)[-count:] - before, 0)


def unigram_surprise(texts: Iterable[Iterable[int]]) -> Callable[..., NDArray[np.float64]]:
    """Return a function: token ids -> their surprise to a model that knows only how often each occurs in ``texts``.

    Counts are taken plus one, for all ids up to the largest of ``texts`` and for all others together, so that a token that
    occurs nowhere has a surprise too; it is in nats. The function's second argument, which may be left out, names tokens of
    ``texts`` that are not to be counted.
    """
    counts = Counter(chain.from_iterable(texts))
    total, vocabulary = counts.total(), max(counts, default=-1) + 1

    def surprise(ids: Iterable[int], uncounted: Iterable[int] = ()) -> NDArray[np.float64]:
        removed = Counter(uncounted)
        occurrences = np.array([counts[token] - removed[token] for token in ids])
        return np.asarray(np.log(total - removed.total() + vocabulary + 1.0) - np.log(occurrences + 1.0))

    return surprise


# ---------------------------------------------------------------- the file beside the results

#: One row for each candidate after one prompt, one entry of each list for each scored token; see `ScoredTokens`.
SCHEMA = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("candidate", pa.int32()),
        ("text", pa.string()),
        ("context_part", pa.string()),
        ("token_ids", pa.list_(pa.int32())),
        ("starts", pa.list_(pa.int32())),
        ("ends", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
    ]
)

#: With ``token_stats=True``: all of `TOKEN_COLUMNS` but the first, which follows from the rank.
STATS = TOKEN_COLUMNS[1:]
STATS_SCHEMA = pa.schema([*SCHEMA, *((name, pa.list_(pa.float32())) for name in STATS)])

#: Key of the table's metadata: the digest of the run's answers, which its results hold, too.
ANSWERS = b"nnd_answers"


def token_table(requests: Iterable[Request], answers: str) -> pa.Table:
    """Put the tokens of requests whose filtered responses are answers with tokens into a table (`SCHEMA`, `STATS_SCHEMA`).

    Args:
        requests: of a task.
        answers: see `ANSWERS`.
    """
    rows, schema = [], SCHEMA
    for request in requests:
        [answer] = request.filtered_resps.values()
        if (tokens := answer.tokens) is not None:
            starts, ends = tokens.spans.T
            stats = {}
            if tokens.expected is not None:
                schema, stats = STATS_SCHEMA, dict(zip(STATS, tokens.expected.T[1:], strict=True))
            rows.append(
                {
                    "cluster_id": request.doc["cluster_id"],
                    "candidate": request.candidate,
                    "text": request.doc["candidates"][request.candidate],
                    "context_part": request.context_part,
                    "token_ids": tokens.ids,
                    "starts": starts,
                    "ends": ends,
                    "logprobs": tokens.logprobs,
                    **stats,
                }
            )
    return pa.Table.from_pylist(rows, schema=schema).replace_schema_metadata({ANSWERS: answers.encode()})
