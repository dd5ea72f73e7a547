"""Each distinct text is tokenized once, for the task, which counts its tokens, and for the model, which scores them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from shared_prefix.model_error import ModelError
from shared_prefix.shared_encodings import SHARED
from shared_prefix.upstream import HFLM


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
        key = (string, add_special_tokens, self.add_bos_token, self.prefix_token_id)
        if key not in self._encodings:
            if self.as_client:
                special = self.add_bos_token if add_special_tokens is None else add_special_tokens
                encoded = self.tokenizer.encode(string, add_special_tokens=special)
            else:
                encoded = super().tok_encode(string, add_special_tokens)
            self._encodings[key] = np.asarray(encoded, dtype=np.int32)
        tokens: list[int] = self._encodings[key].tolist()
        return tokens

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Return the tokens of context and continuation, split as lm-eval does.

        Raises:
            ModelError: the tokenizer appends a token to every text. lm-eval splits after as many tokens as the context alone
                has, so it would not score the first token of the continuation, and would score the appended one.
        """
        if self.backend == "causal" and self._ends_with("a") and (token := self._ends_with(context + continuation)):
            raise ModelError(
                f"the tokenizer {self.tokenizer.name_or_path} puts {token!r} after every text, which lm-eval would score in "
                "place of a part of the candidate; add add_bos_token=False to --model_args (no special tokens), or name a "
                "tokenizer that puts none after a text with tokenizer=..."
            )
        context_tokens, continuation_tokens = super()._encode_pair(context, continuation)
        return list(context_tokens), list(continuation_tokens)

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
