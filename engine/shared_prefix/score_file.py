"""``nnd_file``: an engine that lm-eval does not know takes part by two files, requests out and scores in.

``requests=FILE.parquet`` writes the requests of all tasks and ends. ``scores=FILE.parquet`` answers them from a file:

| file | column | what it holds |
|---|---|---|
| both | ``id`` | digest of context and continuation |
| requests | ``context``, ``continuation`` | texts; a continuation is scored as what follows its context |
| requests | ``context_tokens``, ``tokens`` | numbers of tokens, where ``tokenizer`` is named |
| scores | ``sum`` | sum of the log-probabilities of the continuation's tokens, in nats |
| scores | ``tokens`` | number of these tokens |
| scores | ``token_logprobs`` | list of their log-probabilities; may be left out |
| scores | ``greedy`` | whether each of them was the likeliest; may be left out |

Metadata of the scores' schema say who made them: ``engine`` and ``model``.
"""

from __future__ import annotations

import logging
import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from shared_prefix.model_error import ModelError, reason_with_type
from shared_prefix.token_requests import TokenAnswer
from shared_prefix.upstream import TemplateLM, register_model

logger = logging.getLogger("lm_eval.shared_prefix")

#: The name of this type of models.
FILE = "nnd_file"
#: More than a log-probability of a token can be, in nats: engines write -9999 for tokens that are not among the likeliest.
_MOST_NATS = 1000
#: What rounding may make of the log-probability of a token that is certain, in nats.
_CERTAIN = 1e-6
#: Nats by which the log-probabilities of a text's tokens may miss its sum: an engine may have added more digits.
TOLERANCE = 0.05


def request_id(context: str, continuation: str) -> str:
    """Name a request by 32 hex digits of the SHA-256 of its texts."""
    digest = sha256(context.encode("utf-8", "surrogatepass"))
    digest.update(b"\x00" + continuation.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class Scores:
    """The scores of another engine.

    Attributes:
        path: the file.
        table: its rows by ``id``: ``sum``, ``tokens``, and if it has them ``token_logprobs`` and ``greedy``.
        engine: what computed them, such as ``Levanter 1.2``; empty if the file does not say.
        model: of which model they are; empty if the file does not say.
    """

    path: str
    table: pd.DataFrame
    engine: str
    model: str

    @classmethod
    def read(cls, path: str) -> Scores:
        """Read and check a file of scores.

        Raises:
            ModelError: it cannot be read, lacks a column, or a row cannot be right.
        """
        try:
            content = pq.read_table(path)
            table = content.to_pandas()
        except Exception as error:  # pyarrow raises many kinds
            raise ModelError(f"scores={path}: cannot be read as parquet ({reason_with_type(error)})") from error
        for column in ("id", "sum", "tokens"):
            if column not in table:
                raise ModelError(f"scores={path}: has no column {column}; it has {', '.join(map(str, table))}")
        for column in ("sum", "tokens"):
            if not pd.api.types.is_numeric_dtype(table[column]):
                raise ModelError(f"scores={path}: column {column} holds {table[column].dtype}, not numbers")
        if "greedy" in table and not pd.api.types.is_bool_dtype(table["greedy"]):
            raise ModelError(f"scores={path}: column greedy holds {table['greedy'].dtype}, not true and false")
        metadata = {key.decode(): value.decode() for key, value in (content.schema.metadata or {}).items()}
        scores = cls(str(path), table.set_index("id"), metadata.get("engine", ""), metadata.get("model", ""))
        scores._check_rows()
        return scores

    def _check_rows(self) -> None:
        sums, tokens, ids = self.table["sum"], self.table["tokens"], self.table.index
        faults = {
            "ids that stand several times": ids.duplicated(),
            "sums that are no number": ~np.isfinite(sums),
            "sums above 0, which no log-probability is": sums > 0,
            "counts of tokens that are no whole number above 0": ~(tokens >= 1) | (tokens % 1 != 0),
            f"sums below {-_MOST_NATS} for each token, as of -9999, which stands for no number": sums
            < -_MOST_NATS * tokens,
        }
        for what, wrong in faults.items():
            self.refuse(ids[wrong].unique(), what)
        if "token_logprobs" in self.table:
            logprobs = self.table["token_logprobs"]
            self.refuse(ids[logprobs.isna()], "rows without token_logprobs, which others have")
            self.refuse(ids[logprobs.map(len) != tokens], "lists of token_logprobs of another length than tokens")
            added = logprobs.map(lambda values: np.asarray(values, dtype=float).sum())
            self.refuse(ids[~((added - sums).abs() <= TOLERANCE)], "lists of token_logprobs that do not add up to sum")
            impossible = logprobs.map(lambda values: max(values) > _CERTAIN or min(values) < -_MOST_NATS)
            self.refuse(ids[impossible], f"lists of token_logprobs with one above 0 or below {-_MOST_NATS}")

    def refuse(self, ids: Sequence[str], what: str) -> None:
        """Raise ModelError if there are ``ids``, with their number and the first three."""
        if len(ids):
            first = ", ".join(map(str, list(ids)[:3]))
            raise ModelError(f"scores={self.path}: {len(ids):,} {what}; first: {first}")

    def check_requests(self, texts: dict[str, tuple[str, str]]) -> None:
        """Check that the rows are those of the requests, and that a tokenizer could give their counts.

        Args:
            texts: id -> (context, continuation) of each request.

        Raises:
            ModelError: they are not.
        """
        again = (
            "; write the requests again with the same tasks and options (requests=FILE.parquet), and score that file"
        )
        ids = self.table.index
        self.refuse([key for key in texts if key not in ids], f"of {len(texts):,} requests are missing{again}")
        self.refuse([key for key in ids if key not in texts], f"of {len(ids):,} rows are of no request{again}")
        most = [most_tokens(continuation) for _, continuation in texts.values()]
        counts = self.table["tokens"].reindex(list(texts))
        self.refuse(counts.index[counts > most], "counts of tokens above the number of bytes of the text")


def read_scores(path: str) -> Scores:
    """Read a file of scores; as long as it does not change, once.

    Raises:
        ModelError: see `Scores.read`.
    """
    try:
        state = Path(path).stat()
    except OSError as error:
        raise ModelError(f"scores={path}: cannot be read ({error.strerror or error})") from error
    return _read_state(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1)
def _read_state(path: str, changed: int, size: int) -> Scores:
    return Scores.read(path)


def most_tokens(text: str) -> int:
    """Count the bytes of a text, also in the form that tokenizers may give it, and one token that may stand before it."""
    return 1 + max(len(form.encode("utf-8", "surrogatepass")) for form in (text, unicodedata.normalize("NFKD", text)))


@register_model(FILE)
class ScoreFile(TemplateLM):  # type: ignore[misc]
    """Requests out, scores in.

    Args:
        requests: file to write, in which case lm-eval ends then.
        scores: file to read.
        tokenizer: folder or name of the engine's tokenizer: for numbers of tokens, and for chat templates.
        token_scores: whether answers keep the log-probability of every token.

    Raises:
        ModelError: not one of the two files is named, or the tokenizer cannot be loaded.
    """

    backend = "causal"

    def __init__(
        self,
        requests: str | None = None,
        scores: str | None = None,
        tokenizer: str | None = None,
        token_scores: bool = False,
        **others: Any,
    ) -> None:
        super().__init__()
        others = {key: value for key, value in others.items() if key not in ("batch_size", "max_batch_size", "device")}
        if others:
            raise ModelError(f"{FILE} has no argument {min(others)}; it takes requests, scores and tokenizer")
        if (requests is None) == (scores is None):
            raise ModelError(
                f"{FILE} takes requests=FILE.parquet, to write the requests, or scores=FILE.parquet, to answer them"
            )
        self._requests_path = requests
        self.scores = None if scores is None else read_scores(scores)
        self._tokenizer_name = tokenizer
        self.token_scores = token_scores
        if token_scores and self.scores is not None and "token_logprobs" not in self.scores.table:
            raise ModelError(f"scores={scores}: has no column token_logprobs, which metadata tokens needs")

    @cached_property
    def tokenizer(self) -> Any:
        """The engine's tokenizer; None if it is not named."""
        if self._tokenizer_name is None:
            return None
        import transformers

        try:
            return transformers.AutoTokenizer.from_pretrained(self._tokenizer_name)
        except Exception as error:  # transformers raises many kinds
            raise ModelError(
                f"tokenizer={self._tokenizer_name}: cannot be loaded ({reason_with_type(error)})"
            ) from error

    @property
    def tokenizer_name(self) -> str:
        """Name or folder of the tokenizer; empty if it is not named."""
        return self._tokenizer_name or ""

    @property
    def eot_token_id(self) -> int:
        """The token before a continuation without a context."""
        return int(self.tokenizer.eos_token_id)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Tokenize without special tokens: they are the engine's."""
        return list(self.tokenizer.encode(string, add_special_tokens=bool(add_special_tokens)))

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Write a chat as one text.

        Raises:
            ModelError: no tokenizer is named.
        """
        if self.tokenizer is None:
            raise ModelError(f"{FILE}: --apply_chat_template needs tokenizer=NAME_OR_FOLDER in --model_args")
        return str(
            self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Write the requests and end, or answer them.

        Raises:
            SystemExit: the requests are written.
            ModelError: the scores are not those of these requests.
        """
        ids = [request_id(*request.args) for request in requests]
        texts: dict[str, tuple[str, str]] = {key: request.args for key, request in zip(ids, requests, strict=True)}
        if self.scores is None:
            self._write(texts)
            raise SystemExit(0)
        self.scores.check_requests(texts)
        if self.tokenizer is not None:
            pairs = self._split(texts)
            told = self.scores.table["tokens"].reindex(list(texts))
            differing = told.index[told != [len(continuation) for _, continuation in pairs]]
            self.scores.refuse(differing, f"counts of tokens are not those of the tokenizer {self.tokenizer_name}")
        if "greedy" not in self.scores.table:
            logger.warning(
                "scores=%s: has no column greedy; to tasks that ask whether a text is the likeliest, such as lambada, it is not",
                self.scores.path,
            )
        rows = self.scores.table.reindex(ids)
        greedy = rows["greedy"].astype(bool) if "greedy" in rows else np.zeros(len(rows), dtype=bool)
        if self.token_scores:
            return [TokenAnswer.of(*row) for row in zip(rows["sum"], greedy, rows["token_logprobs"], strict=True)]
        return [(float(total), bool(likeliest)) for total, likeliest in zip(rows["sum"], greedy, strict=True)]

    def _split(self, texts: dict[str, tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        return [self._encode_pair(*pair) if pair[0] else ([], self.tok_encode(pair[1])) for pair in texts.values()]

    def _write(self, texts: dict[str, tuple[str, str]]) -> None:
        table = pd.DataFrame(
            [(key, context, continuation) for key, (context, continuation) in texts.items()],
            columns=["id", "context", "continuation"],
        )
        if self.tokenizer is not None:
            pairs = self._split(texts)
            table["context_tokens"] = [len(context) for context, _ in pairs]
            table["tokens"] = [len(continuation) for _, continuation in pairs]
        path = Path(str(self._requests_path)).expanduser()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            pq.write_table(pa.Table.from_pandas(table, preserve_index=False), unfinished)
            unfinished.replace(path)
        except OSError as error:
            raise ModelError(f"requests={path}: cannot be written ({error.strerror or error})") from error
        print(f"{len(table):,} requests are in {path}; score them and run again with scores=FILE.parquet")

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Raise ModelError: whole texts are cut into windows, which are the engine's."""
        raise ModelError(f"{FILE} has no likelihoods of whole texts; take tasks that score continuations")

    def _loglikelihood_tokens(self, requests: list[Any], **kwargs: Any) -> list[tuple[float, bool]]:
        """Raise ModelError: requests are texts here."""
        raise ModelError(f"{FILE} scores texts, not tokens")

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Raise ModelError: the file holds no texts."""
        raise ModelError(f"{FILE} holds scores and generates no text; take tasks that score likelihoods")
