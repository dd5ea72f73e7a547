"""The token scores beside samples, ``tokens_TASK_DATE.parquet``: read, and checked for damage.

`nnd_tasks.likelihood.scored_tokens` has their columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.likelihood.scored_tokens import ANSWERS, SCHEMA, STATS, STATS_SCHEMA
from nnd_tasks.results.runs import Run

#: How far the log-probabilities of a candidate may add up from its sum, in nats per token: they are kept as 32-bit floats.
CLOSE = 1e-5


@dataclass(frozen=True)
class CandidateTokens:
    """The scored tokens of one candidate after one prompt.

    Attributes:
        ids: in the model's vocabulary, shape (tokens,).
        starts: first character of the candidate that each token stands for, shape (tokens,).
        ends: the character after the last, shape (tokens,). A token around the candidate has an empty span.
        logprobs: log-probability of each, in nats, shape (tokens,).
        expected: of `STATS`, each of shape (tokens,); empty for a run without ``token_stats``.
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    expected: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


#: (cluster_id, index of the candidate, whether its prompt had the context) -> its tokens.
TokenScores = Mapping[tuple[str, int, bool], CandidateTokens]


@lru_cache(maxsize=100)
def read_tokens(run: Run) -> TokenScores:
    """Read the token scores of a run, once for all parts of a report; empty where it kept none.

    Raises:
        NNDError: their file cannot be read, lacks a column or a scored candidate, or disagrees with the samples: a candidate
            that is not there, another text, or log-probabilities that do not add up to its sum.
    """
    path, tokens = run.tokens, dict[tuple[str, int, bool], CandidateTokens]()
    if path is None:
        return tokens
    try:
        whole = pq.read_table(path)
        schema = STATS_SCHEMA if STATS[0] in whole.column_names else SCHEMA
        table = whole.select(schema.names).cast(schema)
        for column in table.columns:
            numbers = pc.list_flatten(column) if pa.types.is_list(column.type) else column
            if column.null_count or numbers.null_count:
                raise ValueError("a value is missing")
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise NNDError(f"{path}: cannot be read ({reason_of(error)}); run the task again") from error
    if run.answers and (whole.schema.metadata or {}).get(ANSWERS) != run.answers.encode():
        raise NNDError(
            f"{path}: its answers are not those of {run.file.name} (digest); the file belongs to another run"
        )
    documents = {document["cluster_id"]: document for document in run.documents}
    for number, row in enumerate(table.to_pandas().itertuples(index=False), start=1):
        document, with_context = documents.get(row.cluster_id), row.context_part != "none"
        if document is None:
            continue  # the samples may be a selection
        same = document["candidates"][row.candidate : row.candidate + 1] == [row.text]
        scores = document["scores" if with_context else "no_context"]
        score: Any = scores[row.candidate] if same and scores else None
        if same and (score is None or score["sum"] is None):
            continue
        count, total = len(row.logprobs), row.logprobs.sum(dtype=np.float64)
        tolerance = CLOSE * count + 1e-6 * abs(total)
        right = same and _are_tokens(row) and count == score["tokens"]
        if not right or not abs(total - score["sum"]) <= tolerance:
            raise NNDError(
                f"{path}, row {number}: {count} tokens with a sum of {total:.6g} are not those of the samples for candidate "
                f"{row.candidate} of prompt {row.cluster_id}; the file belongs to another run"
            )
        key = row.cluster_id, row.candidate, with_context
        expected = dict(zip(STATS, row[8:], strict=False))  # of a run without them there are no more columns
        tokens[key] = CandidateTokens(row.token_ids, row.starts, row.ends, row.logprobs, expected)
    for name, document in documents.items():
        for i, score in enumerate(document["scores"]):
            if score is not None and score["sum"] is not None and (name, i, True) not in tokens:
                raise NNDError(f"{path}: has no tokens of candidate {i} of prompt {name}; run the task again")
    return tokens


def _are_tokens(row: Any) -> bool:
    """Tell whether all lists of a row have one length, and its places lie in its text."""
    return (
        len({len(numbers) for numbers in row[4:]}) == 1
        and bool((row.token_ids >= 0).all())
        and bool(((row.starts >= 0) & (row.starts <= row.ends) & (row.ends <= len(row.text))).all())
    )
