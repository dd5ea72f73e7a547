"""How many tokens a backend scored.

A backend of lm-eval answers with the sum of the log-probabilities and not with their number (upstream issue 1396).
The number follows from the tokenizer: this module splits context and continuation with the harness's own methods, from
what ``--model_args`` says of the model. The model is never loaded: a run served from ``--use_cache`` counts the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import datasets
from lm_eval.models.huggingface import HFLM

from nnd_tasks.errors import NNDError, first_line

logger = logging.getLogger("lm_eval.nnd")

#: Model arguments that decide how text is tokenized, with HFLM's defaults.
_LOADING: Mapping[str, Any] = {
    "revision": "main",
    "subfolder": "",
    "trust_remote_code": False,
    "gguf_file": None,
}


class TokenCounter(HFLM):  # type: ignore[misc]
    """An `HFLM` with a tokenizer and a backend type, and no model.

    Args:
        metadata: what lm-eval knows of the model: the parsed ``--model_args`` and ``--metadata``.

    Raises:
        NNDError: the metadata names no tokenizer, or it cannot be loaded.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        # HFLM.__init__ would load the model; only what its tokenizing methods read is set.
        self.add_bos_token = metadata.get("add_bos_token")
        self.custom_prefix_token_id = metadata.get("prefix_token_id", metadata.get("custom_prefix_token_id"))
        loading = {name: metadata.get(name, default) for name, default in _LOADING.items()}
        loading["revision"] = str(loading["revision"])
        # lm-eval's flag --trust_remote_code reaches models and datasets, but not the metadata of tasks.
        loading["trust_remote_code"] = loading["trust_remote_code"] or bool(
            getattr(datasets.config, "HF_DATASETS_TRUST_REMOTE_CODE", False)
        )
        tokenizer = metadata.get("tokenizer")
        model = metadata.get("pretrained") or metadata.get("model")
        remote = "base_url" in metadata or "tokenizer_backend" in metadata  # lm-eval's clients of HTTP servers
        if tokenizer is None and model is None:
            raise NNDError(
                "cannot count tokens: lm-eval names no tokenizer for this model. Add tokenizer=NAME_OR_FOLDER to "
                "--model_args (or to --metadata); in Python pass metadata={'tokenizer': ...} to simple_evaluate or "
                "TaskManager"
            )
        if remote and str(metadata.get("tokenizer_backend", "huggingface")) != "huggingface":
            raise NNDError(
                f"cannot count tokens with tokenizer_backend={metadata['tokenizer_backend']}; use "
                "tokenizer_backend=huggingface and tokenizer=NAME_OR_FOLDER in --model_args"
            )
        if remote:
            self.backend = "causal"
            self.add_bos_token = bool(self.add_bos_token)  # lm-eval's API clients add no special token by default
        else:
            self._find_backend(metadata, model if model is not None else tokenizer, loading)
        try:
            self._model = model
            self._create_tokenizer(
                model,
                tokenizer,
                use_fast_tokenizer=metadata.get("use_fast_tokenizer", True),
                add_bos_token=self.add_bos_token,
                **loading,
            )
        except Exception as error:  # transformers raises many kinds; the user's way out is one
            raise NNDError(
                f"cannot count tokens: the tokenizer {_name(tokenizer or model)} cannot be loaded "
                f"({type(error).__name__}: {first_line(error)}); name one with tokenizer=... in --model_args"
            ) from error
        if self.prefix_token_id is None and not remote:
            raise NNDError(
                f"the tokenizer {self.name} has neither a BOS nor an EOS token; lm-eval's hf models need one"
            )
        # Of lm-eval's API clients nothing asks for a BOS token, so theirs may have none.
        encode = self.tokenizer.encode if self.prefix_token_id is None else super().tok_encode
        self.encode = lru_cache(maxsize=64)(encode)

    def _find_backend(self, metadata: Mapping[str, Any], model: Any, loading: Mapping[str, Any]) -> None:
        """Set ``self.backend`` as HFLM would: ``causal`` or ``seq2seq``."""
        backend = metadata.get("backend", "default")
        if backend not in ("default", "causal", "seq2seq"):
            raise NNDError(f"backend={backend}: expected causal or seq2seq")
        if not isinstance(model, str):
            self._config = getattr(model, "config", None)
        elif backend == "default":
            try:
                self._get_config(model, **loading)
            except Exception as error:  # a tokenizer alone has no config
                logger.warning(
                    "%s has no model config (%s); counting tokens as for a decoder-only model. Set backend=seq2seq in "
                    "--metadata if it is an encoder-decoder",
                    _name(model),
                    first_line(error),
                )
                backend = "causal"
        if backend != "default":
            self.backend = backend
        else:
            self._get_backend(self._config, trust_remote_code=loading["trust_remote_code"])

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Tokenize as HFLM does; a context is asked for once per candidate, so the latest answers are kept."""
        if self.prefix_token_id is None:
            return list(self.encode(string, add_special_tokens=bool(add_special_tokens)))
        encoded: list[int] = self.encode(string, add_special_tokens, **kwargs)
        return encoded

    def count(self, context: str, continuation: str) -> int:
        """Return the number of tokens whose log-probabilities the backend summed for this request.

        Source of the rule: `TemplateLM.loglikelihood` and `TemplateLM._encode_pair` of lm-eval 0.4.13.
        """
        if context:
            return len(self._encode_pair(context, continuation)[1])
        encoded = self.tok_encode(continuation, add_special_tokens=False)
        # With an empty context the first token is the condition when it equals the prefix token.
        return len(encoded) - (bool(encoded) and encoded[0] == self.prefix_token_id)

    @property
    def name(self) -> str:
        """Name or folder of the tokenizer."""
        return str(self.tokenizer.name_or_path)

    def special_text(self, which: str) -> str:
        """Return the text of the ``bos`` or ``eos`` token.

        Raises:
            NNDError: the tokenizer has none, or does not read that text as this one token.
        """
        text = getattr(self.tokenizer, f"{which}_token")
        if text is None:
            raise NNDError(f"the tokenizer {self.name} has no {which.upper()} token, which this task or option needs")
        encoded = self.tok_encode(f"a{text}", add_special_tokens=False)
        if not encoded or encoded[-1] != getattr(self.tokenizer, f"{which}_token_id"):
            raise NNDError(f"the tokenizer {self.name} does not read {text!r} in a text as its {which.upper()} token")
        return str(text)


def _name(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__
