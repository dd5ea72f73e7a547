"""Each distinct text is tokenized once, for the task, which counts its tokens, and for the model, which scores them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from shared_prefix.model_error import ModelError
from shared_prefix.shared_encodings import SHARED
from shared_prefix.upstream import HFLM

_BATCH = 1000  # texts that are tokenized at once


class _Asked:
    """Stands for a tokenizer where `HFLM.tok_encode` encodes a text, and keeps the arguments instead."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self.decode = tokenizer, cache(tokenizer.decode)
        self.arguments: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._tokenizer, name)
        setattr(self, name, value)
        return value

    def encode(self, string: str, **arguments: Any) -> list[int]:
        """Keep the arguments."""
        self.arguments = arguments
        return []


class TokenizingOnce(HFLM):  # type: ignore[misc]
    """An `HFLM` that keeps the tokens of each text, and shares them within `share_encodings`."""

    tokenizer: Any
    #: Encode as lm-eval's clients of servers do: they need no prefix token, and look for none in a text.
    as_client = False

    def _create_tokenizer(self, pretrained: Any, tokenizer: Any = None, **loading: Any) -> None:
        named = all(isinstance(name, str) for name in (pretrained, tokenizer or ""))
        shared = SHARED.get() if named else None
        if shared is None:
            shared = {}
        key = (pretrained, tokenizer, *sorted(loading.items()))
        if key not in shared:
            super()._create_tokenizer(pretrained, tokenizer, **loading)
            shared[key] = self.tokenizer, {}
        self.tokenizer, self._encodings = shared[key]

    def tok_encode(self, string: str, add_special_tokens: bool | None = None) -> list[int]:
        """Tokenize as `HFLM` does, or return the tokens from the cache."""
        key = (string, add_special_tokens, *self._adds)
        if key not in self._encodings:
            self.encode_texts([(string, add_special_tokens)])
        tokens: list[int] = self._encodings[key].tolist()
        return tokens

    @cached_property
    def _adds(self) -> tuple[bool | None, int | None]:
        return self.add_bos_token, self.prefix_token_id

    def encode_texts(self, texts: Iterable[tuple[str, bool | None]]) -> None:
        """Tokenize texts in batches, each with the arguments that `HFLM.tok_encode` gives the tokenizer, and keep the tokens.

        Args:
            texts: each with ``add_special_tokens``; those that are known are left out.
        """
        asked = _Asked(self.tokenizer)
        batches: dict[tuple[tuple[str, Any], ...], list[Any]] = {}
        with patch.object(self, "tokenizer", asked):
            for string, special in dict.fromkeys(texts):
                key = (string, special, *self._adds)
                if key in self._encodings:
                    continue
                if self.as_client:
                    arguments = {"add_special_tokens": self.add_bos_token if special is None else special}
                else:
                    super().tok_encode(string, special)
                    arguments = asked.arguments
                batches.setdefault(tuple(arguments.items()), []).append(key)
        for given, keys in batches.items():
            for some in (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH)):
                encoded = self.tokenizer([key[0] for key in some], return_attention_mask=False, **dict(given))
                arrays = (np.asarray(tokens, dtype=np.int32) for tokens in encoded["input_ids"])
                self._encodings.update(zip(some, arrays, strict=True))

    def encode_pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Tokenize in batches all texts that `loglikelihood` asks for, of pairs (context, continuation)."""
        texts: list[tuple[str, bool | None]] = []

        def note(string: str, add_special_tokens: bool | None = None) -> list[int]:
            texts.append((string, add_special_tokens))
            return []

        with patch.object(self, "tok_encode", note):
            for context, continuation in pairs:
                if context:
                    super()._encode_pair(context, continuation)
                else:
                    note(continuation, False)
        self.encode_texts(texts)

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score requests; see `HFLM`."""
        self.encode_pairs(request.args for request in requests)
        responses: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        return responses

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Return the tokens of context and continuation, split as lm-eval does.

        Raises:
            ModelError: the tokenizer appends a token to every text. lm-eval splits after as many tokens as the context alone
                has, so it would not score the first token of the continuation, and would score the appended one.
        """
        if self.backend == "causal" and self._appends and (token := self._ends_with(context + continuation)):
            raise ModelError(
                f"the tokenizer {self.tokenizer.name_or_path} puts {token!r} after every text, which lm-eval would score in "
                "place of a part of the candidate; add add_bos_token=False to --model_args (no special tokens), or name a "
                "tokenizer that puts none after a text with tokenizer=..."
            )
        context_tokens, continuation_tokens = super()._encode_pair(context, continuation)
        return list(context_tokens), list(continuation_tokens)

    @cached_property
    def _appends(self) -> bool:
        return self._ends_with("a") is not None

    def _ends_with(self, text: str) -> str | None:
        """Return the token that the tokenizer appends to a text; None if it appends none."""
        plain, encoded = self.tok_encode(text, add_special_tokens=False), self.tok_encode(text)
        if not plain or encoded[-1:] == plain[-1:]:
            return None
        return str(self.tokenizer.convert_ids_to_tokens(encoded[-1]))


class Tokenizing(TokenizingOnce):
    """Tokenizes as an `HFLM` does, without its model.

    Args:
        model: folder or name of the model, or the model; None where only a tokenizer is named.
        tokenizer: folder or name of the tokenizer, or the tokenizer; None takes the model's.
        config: the model's configuration; None where it is not known.
        backend: ``causal`` or ``seq2seq``; ``default`` takes what the configuration says.
        add_bos_token: see `HFLM`.
        prefix_token_id: see `HFLM`.
        as_client: see `TokenizingOnce`.
        loading: see `HFLM._create_tokenizer`.
    """

    _max_length: int | None
    _DEFAULT_MAX_LENGTH = 0  # what `max_length` is where nothing tells it

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        config: Any,
        *,
        backend: str,
        add_bos_token: bool | None,
        prefix_token_id: int | None,
        as_client: bool,
        **loading: Any,
    ) -> None:
        # HFLM.__init__ would load the model. This sets only what HFLM's tokenizing methods read.
        self._model = SimpleNamespace(config=config, name_or_path=getattr(model, "name_or_path", None))
        self._max_length, self.backend, self.as_client = None, backend, as_client
        self.add_bos_token, self.custom_prefix_token_id = add_bos_token, prefix_token_id
        if backend == "default":
            self._get_backend(config, trust_remote_code=loading["trust_remote_code"])
        self._create_tokenizer(model, tokenizer, add_bos_token=add_bos_token, **loading)
