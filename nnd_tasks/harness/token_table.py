"""The log-probability of every scored token, with the characters of the candidate that the token stands for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.answers import Answer
from nnd_tasks.harness.lengths import TokenCounter
from nnd_tasks.harness.requests import Request

#: Columns of the table: one row for each candidate after one prompt, one entry of each list for each scored token.
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


def scored_tokens(counter: TokenCounter, context: str, continuation: str) -> tuple[list[int], NDArray[np.int64]]:
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
        ids = counter._encode_pair(context, continuation)[1]
    else:  # an encoder-decoder reads the continuation apart; after an empty context there is nothing else
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
    ends = np.maximum.accumulate(spans[:, 1]) if len(spans) else spans[:, 1]
    starts = np.minimum(spans[:, 0], np.concatenate([[0], ends[:-1]]))
    return ids, np.maximum(np.stack([starts, ends], axis=1)[-count:] - before, 0)


def token_table(requests: Iterable[Request], counter: TokenCounter) -> pa.Table:
    """Return the tokens of answered requests, as `SCHEMA` says.

    ``starts`` and ``ends`` count characters of ``text``, the candidate. What stands around it (a space or line feed before it,
    an end-of-sequence token) has an empty span at its beginning or end.

    Raises:
        NNDError: an answer has no log-probabilities of tokens, or the tokenizer does not tell which characters they stand for.
    """
    rows: list[dict[str, Any]] = []
    for request in requests:
        [answer] = request.filtered_resps.values()
        if request.candidate is None:
            continue
        if not isinstance(answer, Answer) or answer.logprobs is None:
            raise NNDError(f"{request.describe()}: the model gave no log-probabilities of tokens")
        context, continuation = request.args
        ids, spans = scored_tokens(counter, context, continuation)
        if len(ids) != len(answer.logprobs):
            raise RuntimeError(f"{request.describe()}: {len(answer.logprobs)} token scores for {len(ids)} tokens")
        text = request.doc["candidates"][request.candidate]
        inside = np.clip(spans - continuation.rindex(text), 0, len(text))
        rows.append(
            {
                "cluster_id": request.doc["cluster_id"],
                "candidate": request.candidate,
                "text": text,
                "context_part": request.context_part,
                "token_ids": ids,
                "starts": inside[:, 0],
                "ends": inside[:, 1],
                "logprobs": answer.logprobs,
            }
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)
