"""How many tokens a backend scores.

A backend of lm-eval returns the sum of the log-probabilities of a continuation and not the number of its tokens (upstream
issue 1396). This module counts them: it loads the tokenizer that ``--model_args`` names, and splits context and continuation
with lm-eval's own methods. The model is never loaded, so a run whose answers come from ``--use_cache`` counts the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

import datasets
import torch

from nnd_tasks.errors import NNDError, reason_of, typed_reason_of
from nnd_tasks.files import expand
from nnd_tasks.models.encodings import TokenizingOnce
from nnd_tasks.models.masked_lm import MASKED, masked_window
from nnd_tasks.models.model_error import ModelError

logger = logging.getLogger("lm_eval.nnd")

#: Arguments of HFLM that say where the tokenizer comes from, with their defaults.
_LOADING: Mapping[str, Any] = {
    "revision": "main",
    "subfolder": "",
    "trust_remote_code": False,
    "gguf_file": None,
}

_API_WINDOW = 2048  # default of `TemplateAPI.__init__`, lm-eval 0.4.13

#: Longest request of a backend minus its window, in tokens. Not listed: 1, as for hf, where the last token is never an input.
#: Source: `VLLM._loglikelihood_tokens` and `SGLangLM._loglikelihood_tokens` of lm-eval 0.4.13.
_ROOM = {"vllm": -1, "sglang": 0}
#: Model arguments that only this backend has.
_ARGUMENTS = {"vllm": ("max_model_len", "gpu_memory_utilization"), "sglang": ("context_length", "mem_fraction_static")}

#: Names of lm-eval's model type for transformers.
_HF = ("hf", "hf-auto", "huggingface")


def _looks_like(backend: str, metadata: Mapping[str, Any], model_type: str | None) -> bool:
    """Tell whether the model is of a backend, from its arguments if its type is not known, as with stock lm-eval."""
    if model_type:
        return model_type.removesuffix("-shared-prefix") == backend
    return any(name in metadata for name in _ARGUMENTS[backend])


@cache
def warn_once(message: str) -> None:
    """Log a warning the first time it is given; each task of a run would repeat it."""
    logger.warning(message)


class TokenCounter(TokenizingOnce):
    """An `HFLM` with a tokenizer and a backend type, and no model.

    Args:
        metadata: the parsed ``--model_args`` and ``--metadata``.
        model_type: what ``--model`` names; None if that is not known.

    Attributes:
        remote: the backend is a client of an HTTP server.
        masked: the model is a masked language model (``nnd_mlm``).
        window: most tokens that the model reads at once; None if that is not known.
        room: longest request that lm-eval does not cut, minus the window, in tokens.

    Raises:
        NNDError: the metadata names no tokenizer, or it cannot be loaded.
    """

    _DEFAULT_MAX_LENGTH = 0  # what HFLM's `max_length` returns where it finds none

    def __init__(self, metadata: Mapping[str, Any], model_type: str | None = None) -> None:
        # HFLM.__init__ would load the model. This sets only what HFLM's tokenizing methods read.
        self.add_bos_token = metadata.get("add_bos_token")
        self.custom_prefix_token_id = metadata.get("prefix_token_id", metadata.get("custom_prefix_token_id"))
        loading = {name: metadata.get(name, default) for name, default in _LOADING.items()}
        loading["revision"] = str(loading["revision"])
        # lm-eval's flag --trust_remote_code reaches models and datasets, but not the metadata of tasks.
        loading["trust_remote_code"] = loading["trust_remote_code"] or bool(
            getattr(datasets.config, "HF_DATASETS_TRUST_REMOTE_CODE", False)
        )
        tokenizer = metadata.get("tokenizer")
        remote = "base_url" in metadata or "tokenizer_backend" in metadata  # lm-eval's clients of HTTP servers
        self.masked = model_type == MASKED
        # In the order in which the backend looks for its model.
        names = ("model", "pretrained") if remote else ("pretrained", "model")
        model = metadata.get(names[0]) or metadata.get(names[1])
        if tokenizer is None and model is None:
            raise NNDError(
                "cannot count tokens: lm-eval names no tokenizer for this model. Add tokenizer=NAME_OR_FOLDER to "
                "--model_args (or to --metadata); in Python pass metadata={'tokenizer': ...} to simple_evaluate or "
                "TaskManager"
            )
        for name in (model, tokenizer):
            if isinstance(name, str) and name.startswith(("/", "./", "../", "~")) and not expand(name).exists():
                raise NNDError(f"{name}: there is no such model or tokenizer folder; --model_args names it")
        if remote and str(metadata.get("tokenizer_backend", "auto")) not in ("huggingface", "auto"):
            raise NNDError(
                f"cannot count tokens with tokenizer_backend={metadata['tokenizer_backend']}; use "
                "tokenizer_backend=huggingface and tokenizer=NAME_OR_FOLDER in --model_args"
            )
        self.remote = remote
        hf = model_type.removesuffix("-shared-prefix") in _HF if model_type else not remote
        self._dtype = (metadata.get("mixed_precision_dtype") or metadata.get("dtype") or "auto") if hf else None
        self._exact_sums = model_type == "hf-shared-prefix" or metadata.get("softmax_dtype") is not None
        self.room = next((room for name, room in _ROOM.items() if _looks_like(name, metadata, model_type)), 1)
        self._config: Any = None
        self._missing_model = ""
        if remote or self.masked:
            self.backend = "causal"
            self.add_bos_token = bool(self.add_bos_token)  # without it, lm-eval's API clients add no special token
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
        except Exception as error:  # transformers raises many kinds
            if tokenizer is None and self._missing_model:
                raise NNDError(
                    f"the model {_name(model)} cannot be loaded: it has neither a model config nor a tokenizer "
                    f"({self._missing_model}); name a folder that holds both, or a model of the hub"
                ) from error
            raise NNDError(
                f"cannot count tokens: the tokenizer {_name(tokenizer or model)} cannot be loaded "
                f"({typed_reason_of(error)}); name one with tokenizer=... in --model_args"
            ) from error
        if self.masked and isinstance(model, str):
            self._find_masked(model, loading)
        if self.prefix_token_id is None and not (remote or self.masked):
            raise NNDError(
                f"the tokenizer {self.name} has neither a BOS nor an EOS token; lm-eval's hf models need one"
            )
        self._named = isinstance(model, str)
        self._max_length, self._model = None, SimpleNamespace(config=self._config)  # what HFLM's `max_length` reads
        self.window = self._find_window(metadata)

    def _find_backend(self, metadata: Mapping[str, Any], model: Any, loading: Mapping[str, Any]) -> None:
        """Set ``self.backend`` as HFLM would: ``causal`` or ``seq2seq``."""
        backend = metadata.get("backend", "default")
        if backend not in ("default", "causal", "seq2seq"):
            raise NNDError(f"backend={backend}: expected causal or seq2seq")
        if not isinstance(model, str):
            self._config = getattr(model, "config", None)
        else:
            try:
                self._get_config(model, **loading)
            except Exception as error:  # a tokenizer alone has no config
                self._missing_model = reason_of(error)
                if backend == "default":
                    logger.warning(
                        "%s has no model config (%s); counting tokens as for a decoder-only model. Set backend=seq2seq "
                        "in --metadata if it is an encoder-decoder",
                        _name(model),
                        reason_of(error),
                    )
                    backend = "causal"
        if backend != "default":
            self.backend = backend
        else:
            self._get_backend(self._config, trust_remote_code=loading["trust_remote_code"])

    def _find_masked(self, model: str, loading: Mapping[str, Any]) -> None:
        try:
            self._get_config(model, **loading)
        except Exception as error:  # transformers raises many kinds
            raise NNDError(f"the model {model} cannot be loaded ({reason_of(error)})") from error

    def _find_window(self, metadata: Mapping[str, Any]) -> int | None:
        """Return the window as the backend computes it; warn once if it is not known.

        Source of the rule: `HFLM.max_length` and `TemplateAPI.__init__` of lm-eval 0.4.13.
        """
        names = ("max_length", "max_model_len", "context_length")  # the second is vLLM's, the third SGLang's
        given = next((metadata[name] for name in names if metadata.get(name)), None)
        if given is not None:
            try:
                window = int(given)
            except (TypeError, ValueError):
                raise NNDError(f"max_length={given!r}: expected a number of tokens") from None
            if self.masked:
                return window - int(self.tokenizer.num_special_tokens_to_add())
        elif self.masked:
            return masked_window(self._config, self.tokenizer) - int(self.tokenizer.num_special_tokens_to_add())
        elif self.remote:
            window = _API_WINDOW
        elif length := self.max_length:
            return int(length)
        elif self._config is not None:
            default = TokenizingOnce._DEFAULT_MAX_LENGTH
            warn_once(
                f"the window of {self.name} is not known: neither its config nor its tokenizer has one. lm-eval takes "
                f"{default} tokens; set max_length in --model_args if it is another"
            )
            return int(default)
        else:
            warn_once(
                f"the window of {self.name} is not known, so overlong prompts are left to lm-eval, which cuts them from "
                "the left; set max_length in --model_args"
            )
            return None
        # An HTTP server always generates one token, for which lm-eval leaves room.
        return window - 1 if self.remote else window

    def overlong(self, context: int, continuation: int) -> bool:
        """Tell whether lm-eval would cut the prompt of a request to make it fit.

        Args:
            context: tokens of the context, as `lengths` counts them.
            continuation: tokens of the continuation.
        """
        if self.window is None:
            return False
        if self.backend == "seq2seq":
            return context > self.window
        return context + continuation > self.window + (0 if self.remote or self.masked else self.room)

    def _encode(self, string: str, add_special_tokens: bool | None) -> list[int]:
        if self.masked:  # `MaskedLM` puts special tokens around context and continuation together
            return list(self.tokenizer.encode(string, add_special_tokens=False))
        if self.prefix_token_id is None:  # HFLM's method needs a prefix token, lm-eval's API clients do not
            return list(self.tokenizer.encode(string, add_special_tokens=bool(add_special_tokens)))
        return super()._encode(string, add_special_tokens)

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        try:
            return super()._encode_pair(context, continuation)
        except ModelError as error:
            raise NNDError(str(error)) from error

    def lengths(self, context: str, continuation: str) -> tuple[int, int]:
        """Return two numbers of tokens: those that the backend conditions on, and those whose log-probabilities it sums.

        Source of the rule: `TemplateLM.loglikelihood` and `TemplateLM._encode_pair` of lm-eval 0.4.13.

        Raises:
            NNDError: the tokenizer appends a token to every text, and the model is a decoder-only one.
        """
        if context:
            encoded, scored = self._encode_pair(context, continuation)
            return len(encoded), len(scored)
        scored = self.tok_encode(continuation, add_special_tokens=False)
        if self.masked:
            return 0, len(scored)
        # After an empty context, a first token that equals the prefix token is conditioned on and not scored.
        return 1, len(scored) - (bool(scored) and scored[0] == self.prefix_token_id)

    @property
    def sixteen_bits(self) -> tuple[str, bool] | None:
        """The 16-bit type in which a model of transformers computes logits, and whether it sums log-probabilities in it.

        None if the type is wider or not known.
        """
        if self._dtype is None or self.room != 1 or not self._named:
            return None
        dtype = getattr(self._config, "dtype", None) if self._dtype == "auto" else self._dtype
        name = str(getattr(torch, str(dtype), dtype)).removeprefix("torch.")
        return (name, not self._exact_sums) if name in ("bfloat16", "float16") else None

    @property
    def model_config(self) -> Any:
        """Configuration of the model; None if it could not be loaded."""
        return self._config

    @property
    def commit(self) -> str | None:
        """Commit of the model on the hub; None for a local model."""
        return getattr(self._config, "_commit_hash", None)

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
