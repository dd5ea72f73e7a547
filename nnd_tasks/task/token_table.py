"""The scored tokens of a run as a table, which is written beside its results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from nnd_tasks.task.request import Request  # which takes seconds to import

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

#: Key of the table's metadata: the digest of the run's answers, which its results hold, too.
ANSWERS = b"nnd_answers"


def token_table(requests: Iterable[Request], answers: str) -> pa.Table:
    """Return the tokens of requests whose filtered responses are answers with tokens, as `SCHEMA` says.

    Args:
        requests: of a task.
        answers: see `ANSWERS`.
    """
    rows = []
    for request in requests:
        [answer] = request.filtered_resps.values()
        if (tokens := answer.tokens) is not None:
            starts, ends = tokens.spans.T
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
                }
            )
    return pa.Table.from_pylist(rows, schema=SCHEMA).replace_schema_metadata({ANSWERS: answers.encode()})
