"""The token scores of a run, ``tokens_TASK_DATE.parquet`` beside its results: read, and checked against its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nnd_tasks.analysis.results import Run
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


#: Columns with an entry for each token, in the order of the attributes of `CandidateTokens`.
_LISTS = ("token_ids", "starts", "ends", "logprobs")
#: (cluster_id, index of the candidate, whether its prompt had the context) -> its tokens.
TokenScores = Mapping[tuple[str, int, bool], CandidateTokens]


#: What was read already: the parts of a report all need the token scores of a run.
_READ: WeakKeyDictionary[Run, TokenScores] = WeakKeyDictionary()


def run_tokens(run: Run) -> TokenScores | None:
    """Return the token scores of a run, which are read once; None where it kept none.

    Raises:
        NNDError: their file is damaged, or of another run; see `read_tokens`.
    """
    if run not in _READ:
        if not run.tokens.is_file():
            return None
        _READ[run] = read_tokens(run.tokens, Samples(run.documents, run.tests, run.truncated))
    return _READ[run]


def read_tokens(path: Path, samples: Samples) -> TokenScores:
    """Read the token scores of a task, and check that they are those of its samples.

    Args:
        path: of the file; see `tokens_of`.
        samples: of the same run and task.

    Raises:
        NNDError: the file cannot be read, lacks a column or a scored candidate, or disagrees with the samples: a candidate that
            is not there, another text, or log-probabilities that do not add up to its sum.
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
    columns = {name: table[name].combine_chunks() for name in SCHEMA.names}
    names, candidates, texts, parts = (columns[n].to_pylist() for n in SCHEMA.names if n not in _LISTS)
    flat = [columns[name].flatten().to_numpy() for name in _LISTS]
    sizes = columns[_LISTS[0]].value_lengths().to_numpy()
    rows = np.repeat(np.arange(len(texts)), sizes)
    totals = np.bincount(rows, weights=flat[-1], minlength=len(texts))
    lists = [np.split(values, np.cumsum(sizes)[:-1]) for values in flat]
    documents = {document["cluster_id"]: document for document in samples.documents}
    tokens: dict[tuple[str, int, bool], CandidateTokens] = {}
    for row, (name, candidate, text, part) in enumerate(zip(names, candidates, texts, parts, strict=True)):
        where = f"{path}, row {row + 1}"
        document = documents.get(name)
        if document is None:
            continue  # the samples may be a selection
        with_context = part != "none"
        scores = document["scores" if with_context else "no_context"]
        if not 0 <= candidate < len(document["candidates"]) or document["candidates"][candidate] != text:
            raise NNDError(f"{where}: candidate {candidate} of prompt {name} has another text in the samples")
        score = scores[candidate] if scores else None
        if score is None or score["sum"] is None:
            continue
        count, total = int(sizes[row]), float(totals[row])
        if count != score["tokens"] or not abs(total - score["sum"]) <= CLOSE * count + 1e-6 * abs(total):
            raise NNDError(
                f"{where}: {count} tokens with a sum of {total:.6g} are not those of the samples ({score['tokens']} with "
                f"{score['sum']:.6g}); the file belongs to another run"
            )
        tokens[name, candidate, with_context] = CandidateTokens(*(values[row] for values in lists))
    for name, document in documents.items():
        for i, score in enumerate(document["scores"]):
            if score is not None and score["sum"] is not None and (name, i, True) not in tokens:
                raise NNDError(f"{path}: has no tokens of candidate {i} of prompt {name}; run the task again")
    return tokens
