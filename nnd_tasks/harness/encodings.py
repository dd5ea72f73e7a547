"""Each distinct string is tokenized once, whoever needs it: the task that counts tokens, the model that scores them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from lm_eval.models.huggingface import HFLM
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError

#: (text, special tokens asked for, BOS setting, prefix token): all that HFLM's ``tok_encode`` depends on.
_Key = tuple[str, bool | None, bool | None, int | None]


class Encodings:
    """Tokens of texts; the oldest go first when there are too many.

    Args:
        capacity: most tokens to keep; 8 million take 32 MB, and their texts about as much.
    """

    def __init__(self, capacity: int = 1 << 23) -> None:
        self._known: dict[_Key, NDArray[np.int32]] = {}
        self._size, self._capacity = 0, capacity

    def get(self, key: _Key) -> list[int] | None:
        """Return the tokens of a text, if they are known."""
        known = self._known.get(key)
        return None if known is None else known.tolist()

    def put(self, key: _Key, tokens: list[int]) -> None:
        """Keep the tokens of a text."""
        self._known[key] = np.asarray(tokens, dtype=np.int32)
        self._size += len(tokens)
        while self._size > self._capacity and len(self._known) > 1:
            self._size -= len(self._known.pop(next(iter(self._known))))


#: Loading arguments of a tokenizer -> the tokenizer and its encodings; None outside of `shared_encodings`.
_shared: dict[Any, tuple[Any, Encodings]] | None = None


@contextmanager
def shared_encodings() -> Iterator[None]:
    """Let all that load the same tokenizer within share it, and what it has tokenized."""
    global _shared
    before, _shared = _shared, {} if _shared is None else _shared
    try:
        yield
    finally:
        _shared = before


class TokenizingOnce(HFLM):  # type: ignore[misc]
    """An `HFLM` that remembers what it has tokenized, and shares that within `shared_encodings`."""

    tokenizer: Any

    def _create_tokenizer(self, pretrained: Any, tokenizer: Any = None, **loading: Any) -> None:
        named = all(isinstance(name, str) for name in (pretrained, tokenizer or ""))
        shared = _shared if named and _shared is not None else {}
        key = (pretrained, tokenizer, *sorted(loading.items()))
        if key not in shared:
            super()._create_tokenizer(pretrained, tokenizer, **loading)
            shared[key] = self.tokenizer, Encodings()
        self.tokenizer, self._encodings = shared[key]

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        left_truncate_len: int | None = None,
        **kwargs: Any,
    ) -> list[int]:
        """Tokenize as `HFLM` does; a text that was tokenized before is not tokenized again."""
        if kwargs:
            return list(super().tok_encode(string, add_special_tokens, left_truncate_len, **kwargs))
        key = (string, add_special_tokens, self.add_bos_token, self.prefix_token_id)
        tokens = self._encodings.get(key)
        if tokens is None:
            tokens = self._encode(string, add_special_tokens)
            self._encodings.put(key, tokens)
        return tokens[-left_truncate_len:] if left_truncate_len else tokens

    def _encode(self, string: str, add_special_tokens: bool | None) -> list[int]:
        return list(super().tok_encode(string, add_special_tokens))

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Split a request into tokens of context and continuation as lm-eval does.

        Raises:
            NNDError: the tokenizer ends both texts with a token of its own. lm-eval splits where the context alone would
                end, so the first token of the continuation would go unscored, and the appended one be scored.
        """
        if self.backend == "causal" and self._ends_with("a") and (token := self._ends_with(context + continuation)):
            raise NNDError(
                f"the tokenizer {self.tokenizer.name_or_path} puts {token!r} after every text, which lm-eval would score in "
                "place of a part of the candidate; add add_bos_token=False to --model_args (no special tokens), or name a "
                "tokenizer that puts none after a text with tokenizer=..."
            )
        context_tokens, continuation_tokens = super()._encode_pair(context, continuation)
        return list(context_tokens), list(continuation_tokens)

    def _ends_with(self, text: str) -> str | None:
        """Return the token that the tokenizer puts after a text; None where it puts none."""
        plain, whole = self.tok_encode(text, add_special_tokens=False), self.tok_encode(text)
        if not plain or whole[-1:] == plain[-1:]:
            return None
        return str(self.tokenizer.convert_ids_to_tokens(whole[-1]))
