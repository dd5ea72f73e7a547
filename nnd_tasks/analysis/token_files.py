"""The token scores of a run, ``tokens_TASK_DATE.parquet`` beside its results: read, and checked against its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nnd_tasks.analysis.samples import Samples
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.harness.token_table import SCHEMA

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
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    logprobs: NDArray[np.float32]


#: (cluster_id, index of the candidate, whether its prompt had the context) -> its tokens.
TokenScores = Mapping[tuple[str, int, bool], CandidateTokens]


def read_tokens(path: Path, samples: Samples) -> TokenScores:
    """Read the token scores of a task, and check that they are those of its samples.

    Args:
        path: of the file; see `tokens_of`.
        samples: of the same run and task.

    Raises:
        NNDError: the file cannot be read, lacks a column, or disagrees with the samples: a candidate that is not there, another
            text, or log-probabilities that do not add up to its sum.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise NNDError(f"{path}: cannot be read ({reason_of(error)})") from error
    for field in SCHEMA:
        if field.name not in table.schema.names or table.schema.field(field.name).type != field.type:
            raise NNDError(
                f"{path}: its column {field.name!r} is missing or not of type {field.type}; run the task again"
            )
    documents = {document["cluster_id"]: document for document in samples.documents}
    lists = {name: _lists(table, name) for name in ("token_ids", "starts", "ends", "logprobs")}
    tokens: dict[tuple[str, int, bool], CandidateTokens] = {}
    names, candidates, texts, parts = (
        table[n].to_pylist() for n in ("cluster_id", "candidate", "text", "context_part")
    )
    for row, (name, candidate, text, part) in enumerate(zip(names, candidates, texts, parts, strict=True)):
        where = f"{path}, row {row + 1}"
        document = documents.get(name)
        if document is None:
            continue  # the samples may be a selection
        with_context = part != "none"
        scores = document["scores" if with_context else "no_context"]
        if not 0 <= candidate < len(document["candidates"]) or document["candidates"][candidate] != text:
            raise NNDError(f"{where}: candidate {candidate} of prompt {name} has another text in the samples")
        ids, starts, ends, logprobs = (lists[key][row] for key in lists)
        if not len(ids) == len(starts) == len(ends) == len(logprobs):
            raise NNDError(f"{where}: its lists differ in length")
        score = scores[candidate] if scores else None
        if score is None or score["sum"] is None:
            continue
        total = float(np.sum(logprobs, dtype=np.float64))
        if len(ids) != score["tokens"] or not abs(total - score["sum"]) <= CLOSE * len(ids) + 1e-6 * abs(total):
            raise NNDError(
                f"{where}: {len(ids)} tokens with a sum of {total:.6g} are not those of the samples ({score['tokens']} with "
                f"{score['sum']:.6g}); the file belongs to another run"
            )
        tokens[name, candidate, with_context] = CandidateTokens(ids, starts, ends, logprobs)
    return tokens


def _lists(table: pa.Table, name: str) -> list[NDArray[Any]]:
    """Return a column of lists as arrays that share one buffer."""
    column = table[name].combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    ends = np.cumsum(column.value_lengths().to_numpy(zero_copy_only=False)).astype(np.int64)
    return np.split(flat, ends[:-1]) if len(ends) else []
