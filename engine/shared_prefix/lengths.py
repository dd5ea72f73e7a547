"""How many tokens a backend scores.

A backend of lm-eval returns the sum of the log-probabilities of a continuation and not the number of its tokens (upstream
issue 1396). This module counts them: it loads the tokenizer that ``--model_args`` names, and splits context and continuation
with lm-eval's own methods. The model is never loaded, so a run whose answers come from ``--use_cache`` counts the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import datasets
import torch
import transformers

from shared_prefix.encodings import Tokenizing, TokenizingOnce
from shared_prefix.llamacpp import LLAMACPP, open_tokenizer
from shared_prefix.model_error import ModelError, reason_with_type
from shared_prefix.text_models import MASKED, REWARD, encode_chat, text_window

logger = logging.getLogger("lm_eval.shared_prefix")

#: Arguments of HFLM that say where the tokenizer comes from, with their defaults.
_LOADING: Mapping[str, Any] = {
    "revision": "main",
    "subfolder": "",
    "trust_remote_code": False,
    "gguf_file": None,
}

_API_WINDOW = 2048  # default of `TemplateAPI.__init__`, lm-eval 0.4.13

#: Backend -> its longest request minus its window, in tokens. Not listed: 1, as for hf, where the last token is never an input.
#: Source: `VLLM._loglikelihood_tokens` and `SGLangLM._loglikelihood_tokens` of lm-eval 0.4.13.
_ROOM = {"vllm": -1, "sglang": 0}
#: Names of lm-eval's model type for transformers.
_HF = ("hf", "hf-auto", "huggingface")


@cache
def warn_once(message: str) -> None:
    """Log a warning the first time it is given; each task of a run would repeat it."""
    logger.warning(message)


class BaseCounter:
    """What a task asks about tokens. This one stands where no model will answer, as in lm-eval's own tests: a text is one token.

    Attributes:
        will_answer: whether a model is known to answer.
        name: of the tokenizer.
        tokenizer: of transformers; None where it is not known.
        config: the model's configuration; None where it is not known.
        window: most tokens that the model reads at once; None if that is not known.
        backend: ``causal`` or ``seq2seq``.
        remote: the backend is a client of an HTTP server.
        reward: the model gives rewards, not likelihoods (``nnd_reward``).
    """

    will_answer = False
    name: str = "none"
    tokenizer: Any = None
    config: Any = None
    window: int | None = None
    backend: str = "causal"
    remote: bool = False
    reward: bool = False

    def tok_encode(self, string: str, add_special_tokens: bool | None = None) -> list[int]:
        """Give the tokens of a text."""
        return [0]

    def measure(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[int, int, list[str]]]:
        """Count the tokens of each pair (context, continuation), see `lengths`, and list its flaws: ``merged``, ``bos_twice``."""
        return [(*self.lengths(*pair), []) for pair in pairs]

    def split(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Give the tokens of context and continuation."""
        return [0], [0]

    def lengths(self, context: str, continuation: str) -> tuple[int, int]:
        """Count the tokens that the backend conditions on, and those whose log-probabilities it sums."""
        return 1, 1

    def overlong(self, context: int, continuation: int) -> bool:
        """Tell whether lm-eval would cut the prompt of a request to make it fit."""
        return False

    def merges(self, context: str, continuation: str) -> bool:
        """Tell whether a token has characters of both the context and the continuation."""
        return False

    def special_text(self, which: str) -> str:
        """Give the text of the ``bos`` or ``eos`` token."""
        return f"<{which}>"

    def check_needs(self, needed: Collection[str], prompt: str, texts: Iterable[str], *, chat: bool) -> None:
        """Raise ModelError if tokens cannot be told as the run needs it."""

    def warn_of_rounding(self) -> str | None:
        """Warn that a model computes in 16 bits, and say the type; None if it is wider or not known."""
        return None


class TokenCounter(BaseCounter):
    """A counter with a tokenizer.

    Args:
        metadata: the parsed ``--model_args`` and ``--metadata``.
        model_type: what ``--model`` names; None if that is not known.

    Raises:
        ModelError: the metadata names no tokenizer, or it cannot be loaded.
    """

    will_answer = True

    def __init__(self, metadata: Mapping[str, Any], model_type: str | None = None) -> None:
        self._resized = "peft" in metadata or "delta" in metadata  # lm-eval fits these models to the tokenizer
        self.remote = "base_url" in metadata or "tokenizer_backend" in metadata  # lm-eval's clients of HTTP servers
        self.reward = model_type == REWARD
        self._whole = self.reward or model_type == MASKED  # context and continuation are read as one text
        tokenizer = metadata.get("tokenizer")
        # In the order in which the backend looks for its model.
        names = ("model", "pretrained") if self.remote else ("pretrained", "model")
        model = metadata.get(names[0]) or metadata.get(names[1])
        if tokenizer is None and model is None:
            raise ModelError(
                "cannot count tokens: lm-eval names no tokenizer for this model. Add tokenizer=NAME_OR_FOLDER to "
                "--model_args (or to --metadata); in Python pass metadata={'tokenizer': ...} to simple_evaluate or "
                "TaskManager"
            )
        if self.remote and str(metadata.get("tokenizer_backend", "auto")) not in ("huggingface", "auto"):
            raise ModelError(
                f"cannot count tokens with tokenizer_backend={metadata['tokenizer_backend']}; use "
                "tokenizer_backend=huggingface and tokenizer=NAME_OR_FOLDER in --model_args"
            )
        kind = (model_type or ("" if self.remote else "hf")).removesuffix("-shared-prefix")
        self._room = 0 if self.remote or self._whole else _ROOM.get(kind, 1)
        self._exact_sums = model_type == "hf-shared-prefix" or metadata.get("softmax_dtype") is not None
        self._dtype = None
        if isinstance(model, str) and kind in _HF:
            self._dtype = metadata.get("mixed_precision_dtype") or metadata.get("dtype") or "auto"
        if kind == LLAMACPP:
            self._hf: TokenizingOnce = open_tokenizer(metadata)
            self.config = self._hf._model.config
        else:
            self._hf = self._find_tokenizer(model, tokenizer, metadata)
        self.tokenizer, self.backend = self._hf.tokenizer, self._hf.backend
        self.name = str(self.tokenizer.name_or_path)
        if self._hf.prefix_token_id is None and not self.remote and not self._whole:
            raise ModelError(
                f"the tokenizer {self.name} has neither a BOS nor an EOS token; lm-eval's hf models need one"
            )
        if self.remote and kind not in ("gguf", "ggml"):
            self._warn_of_missing_bos(metadata)
        self.window = self._find_window(metadata)

    def _find_tokenizer(self, model: Any, tokenizer: Any, metadata: Mapping[str, Any]) -> Tokenizing:
        """Load the tokenizer, and set ``self.config``."""
        loading = {name: metadata.get(name, default) for name, default in _LOADING.items()}
        loading["revision"] = str(loading["revision"])
        # lm-eval's flag --trust_remote_code reaches models and datasets, but not the metadata of tasks.
        loading["trust_remote_code"] = loading["trust_remote_code"] or bool(
            getattr(datasets.config, "HF_DATASETS_TRUST_REMOTE_CODE", False)
        )
        # Clients add no special token unless asked; around whole texts they come later.
        as_client = self.remote or self._whole
        why_no_config = self._find_config(tokenizer if model is None else model, loading)
        add_bos_token = metadata.get("add_bos_token")
        try:
            return Tokenizing(
                model,
                tokenizer,
                self.config,
                backend="causal" if as_client else _choose_backend(metadata.get("backend", "default"), why_no_config),
                add_bos_token=bool(add_bos_token) and self.remote if as_client else add_bos_token,
                prefix_token_id=metadata.get("prefix_token_id", metadata.get("custom_prefix_token_id")),
                as_client=as_client,
                use_fast_tokenizer=metadata.get("use_fast_tokenizer", True),
                **loading,
            )
        except ModelError:
            raise
        except Exception as error:  # transformers raises many kinds
            if tokenizer is None and why_no_config:
                hint = (
                    "is the GGUF file there, and whole?"
                    if metadata.get("gguf_file")
                    else f"name a folder that holds both, or a model of the hub; of a GGUF file: --model {LLAMACPP}, or "
                    "pretrained=FOLDER,gguf_file=FILE"
                )
                raise ModelError(
                    f"the model {_name(model)} cannot be loaded: it has neither a model config nor a tokenizer "
                    f"({why_no_config}); {hint}"
                ) from error
            raise ModelError(
                f"cannot count tokens: the tokenizer {_name(tokenizer or model)} cannot be loaded "
                f"({reason_with_type(error)}); name one with tokenizer=... in --model_args"
            ) from error

    def _warn_of_missing_bos(self, metadata: Mapping[str, Any]) -> None:
        """Warn once if lm-eval's client sends prompts without the BOS token that the tokenizer puts before every text."""
        plain, usual = (self.tokenizer.encode("a", add_special_tokens=added) for added in (False, True))
        if usual != plain and usual[0] == self.tokenizer.bos_token_id and metadata.get("add_bos_token") is None:
            warn_once(
                f"the tokenizer {self.name} puts BOS before a text, and lm-eval's client of a server does not: rates differ from "
                "those of hf; add add_bos_token=True to --model_args (False, if the server adds it)"
            )

    def _find_config(self, model: Any, loading: Mapping[str, Any]) -> str:
        """Set ``self.config`` to the configuration of a model of this machine; return why a named model has none."""
        self.config = getattr(model, "config", None)
        if self.remote or not isinstance(model, str):
            return ""
        try:
            self.config = transformers.AutoConfig.from_pretrained(model, **loading)
        except Exception as error:  # transformers raises many kinds; a tokenizer alone has no config
            if self._whole:
                raise ModelError(f"the model {model} cannot be loaded ({reason_with_type(error)})") from error
            return reason_with_type(error)
        return ""

    def _find_window(self, metadata: Mapping[str, Any]) -> int | None:
        """Find the window as the backend computes it; warn once if it is not known.

        Source of the rule: `HFLM.max_length` and `TemplateAPI.__init__` of lm-eval 0.4.13.
        """
        names = ("max_length", "max_model_len", "context_length")  # the second is vLLM's, the third SGLang's
        given = next((metadata[name] for name in names if metadata.get(name)), None)
        try:
            window = None if given is None else int(given)
        except (TypeError, ValueError):
            raise ModelError(f"max_length={given!r}: expected a number of tokens") from None
        if self._whole:
            window = window or text_window(self.config, self.tokenizer)
            return window - (0 if self.reward else int(self.tokenizer.num_special_tokens_to_add()))
        if self.remote:  # a server always generates one token, for which lm-eval leaves room
            return (window or _API_WINDOW) - 1
        if window := window or self._hf.max_length:
            return int(window)
        default = None if self.config is None else int(TokenizingOnce._DEFAULT_MAX_LENGTH)  # lm-eval's
        warn_once(
            f"the window of {self.name} is not known, so {default or 'any number of'} tokens are taken to fit; lm-eval may cut "
            "prompts from the left; set max_length in --model_args"
        )
        return default

    def tok_encode(self, string: str, add_special_tokens: bool | None = None) -> list[int]:
        """Tokenize a text as the backend does."""
        return self._hf.tok_encode(string, add_special_tokens)

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
        return context + continuation > self.window + self._room

    def measure(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[int, int, list[str]]]:
        """Count the tokens of each pair (context, continuation), see `lengths`, and list its flaws, see `find_flaws`."""
        if not self.reward:
            self._hf.encode_pairs(pairs)  # in batches
        return [(*self.lengths(*pair), self.find_flaws(*pair)) for pair in pairs]

    def split(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokenize context and continuation as lm-eval does.

        Raises:
            ModelError: the tokenizer appends a token to every text, and the model is a decoder-only one.
        """
        return self._hf._encode_pair(context, continuation)

    def lengths(self, context: str, continuation: str) -> tuple[int, int]:
        """Count two numbers of tokens: those that the backend conditions on, and those whose log-probabilities it sums.

        Source of the rule: `TemplateLM.loglikelihood` and `TemplateLM._encode_pair` of lm-eval 0.4.13.

        Raises:
            ModelError: the tokenizer appends a token to every text, and the model is a decoder-only one.
        """
        if self.reward:
            tokens = len(self._hf.tok_encode(continuation, add_special_tokens=False))
            return len(encode_chat(self.tokenizer, context, continuation)) - tokens, tokens
        if context:
            encoded, scored = self.split(context, continuation)
            return len(encoded), len(scored)
        scored = self._hf.tok_encode(continuation, add_special_tokens=False)
        if self._whole:
            return 0, len(scored)
        # After an empty context, a first token that equals the prefix token is conditioned on and not scored.
        return 1, len(scored) - (bool(scored) and scored[0] == self._hf.prefix_token_id)

    def check_needs(self, needed: Collection[str], prompt: str, texts: Iterable[str], *, chat: bool) -> None:
        """Check that the tokenizer can do what the run needs.

        Args:
            needed: which settings of the task are about tokens: ``tokens``, ``append_eos``, ``append_bos``.
            prompt: one of its prompts.
            texts: its prompts and candidates.
            chat: whether prompts will go through the chat template.

        Raises:
            ModelError: the tokenizer lacks a special token or the chat template, or appends a token to every text, so that a
                model would be asked for something else than the candidates; or the model lacks a token of a text.
        """
        for which in ("eos", "bos"):
            if f"append_{which}" in needed:
                self.special_text(which)
        if not chat:
            self.lengths(prompt, " a")  # raises if the tokenizer appends a token
        elif getattr(self.tokenizer, "chat_template", None) is None:
            raise ModelError(
                f"the tokenizer {self.name} has no chat template; leave out --apply_chat_template, or name the tokenizer of a "
                "chat model with tokenizer=... in --model_args"
            )
        self._check_vocabulary(texts)

    def _check_vocabulary(self, texts: Iterable[str]) -> None:
        """Raise ModelError if a text has a token without an embedding, or else torch would say "index out of range"."""
        size = getattr(self.config and self.config.get_text_config(decoder=True), "vocab_size", None)
        if size is None or self.remote or self._resized or len(self.tokenizer) <= size:
            return
        texts = [*texts]
        self._hf.encode_texts((text, False) for text in texts)
        for text in texts:
            beyond = [token for token in self._hf.tok_encode(text, add_special_tokens=False) if token >= size]
            if beyond:
                token = self.tokenizer.convert_ids_to_tokens(beyond[0])
                raise ModelError(
                    f"the tokenizer {self.name} has {len(self.tokenizer):,} tokens and the model {size:,}: the texts have token "
                    f"{beyond[0]} ({token!r}), which the model lacks; name the tokenizer that the model was trained with"
                )

    def find_flaws(self, context: str, continuation: str) -> list[str]:
        """List the flaws of a request.

        ``bos_twice``: the context begins with two BOS tokens. ``merged``: a token of context and continuation together has
        characters of both. White space at the end of the context counts as the continuation's, as in
        `TemplateLM._encode_pair`.
        """
        if not context:
            return []
        tokens, _ = self.split(context, continuation)
        merged = self._merges(tokens, context + continuation)
        return ["merged"] * merged + ["bos_twice"] * (tokens[:2] == [self.tokenizer.bos_token_id] * 2)

    def merges(self, context: str, continuation: str) -> bool:
        """Tell whether a token has characters of both the context, which is not empty, and the continuation."""
        return self._merges(self.split(context, continuation)[0], context + continuation)

    def _merges(self, tokens: list[int], whole: str) -> bool:
        """Tell whether a text does not begin with the tokens of its context."""
        return self.backend != "seq2seq" and self._hf.tok_encode(whole)[: len(tokens)] != tokens

    def warn_of_rounding(self) -> str | None:
        """Warn that a model of transformers computes in 16 bits; return the type, None if it is wider or not known."""
        dtype = getattr(self.config, "dtype", None) if self._dtype == "auto" else self._dtype
        name = str(getattr(torch, str(dtype), dtype)).removeprefix("torch.")
        if name not in ("bfloat16", "float16"):
            return None
        if self._exact_sums:
            warn_once(
                f"{self.name} computes its logits in {name}: log-likelihoods are some thousandths to hundredths of a nat per "
                "token off those in float32, and a test as close may come out otherwise; dtype=float32 in --model_args is exact"
            )
        else:
            warn_once(
                f"with --model hf the log-likelihoods of {self.name} will be rounded to {name}, which makes ties and wrong "
                "outcomes; add softmax_dtype=float32 to --model_args"
            )
        return name

    def special_text(self, which: str) -> str:
        """Return the text of the ``bos`` or ``eos`` token.

        Raises:
            ModelError: the tokenizer has none, or does not read that text as this one token.
        """
        text = getattr(self.tokenizer, f"{which}_token")
        encoded = [] if text is None else self._hf.tok_encode(f"a{text}", add_special_tokens=False)
        if encoded[-1:] != [getattr(self.tokenizer, f"{which}_token_id")]:
            raise ModelError(
                f"the tokenizer {self.name} has no {which.upper()} token that it reads in a text, which this task or option needs"
            )
        return str(text)


class HiddenTokens(BaseCounter):
    """A counter where a model writes behind an API that hides its tokens."""

    will_answer = True
    remote = True


def make_counter(
    metadata: Mapping[str, Any], model_type: str | None, *, writes: bool, chat_api: bool, evaluated: bool
) -> BaseCounter:
    """Make the counter of a run, see `TokenCounter`.

    Args:
        metadata: the parsed ``--model_args`` and ``--metadata``.
        model_type: what ``--model`` names; None if that is not known.
        writes: whether the model writes its answers.
        chat_api: whether the model is behind an API of chats.
        evaluated: whether it is known that a model will answer.
    """
    names = {"tokenizer", "pretrained", "model"} & metadata.keys()
    if not evaluated and not names:
        return BaseCounter()
    if writes and (names <= {"model"} or chat_api):
        return HiddenTokens()
    return TokenCounter(metadata, model_type)


def _choose_backend(asked: str, why_no_config: str) -> str:
    """Say which backend lm-eval is to take: ``causal``, ``seq2seq`` or, by the model's configuration, ``default``."""
    if asked not in ("default", "causal", "seq2seq"):
        raise ModelError(f"backend={asked}: expected causal or seq2seq")
    if asked == "default" and why_no_config:
        logger.warning(
            "the model has no config (%s); counting tokens as for a decoder-only model. Set backend=seq2seq in --metadata "
            "if it is an encoder-decoder",
            why_no_config,
        )
        return "causal"
    return asked


def _name(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__
