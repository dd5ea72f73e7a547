"""The scored tokens of a run as a table, which is written beside its results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from nnd_tasks.harness.requests import Request  # which takes seconds to import

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


def token_table(requests: Iterable[Request]) -> pa.Table:
    """Return the tokens of requests whose filtered responses are answers with tokens, as `SCHEMA` says."""
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
    for request in requests:
        [answer] = request.filtered_resps.values()
        if answer.tokens is None:
            continue
        tokens = answer.tokens
        values = (request.doc["cluster_id"], request.candidate, request.doc["candidates"][request.candidate])
        lists = (tokens.ids, tokens.spans[:, 0], tokens.spans[:, 1], tokens.logprobs)
        for name, value in zip(SCHEMA.names, (*values, request.context_part, *lists), strict=True):
            columns[name].append(value)
    return pa.table(columns, schema=SCHEMA)
