"""``hf-shared-prefix``: lm-eval's `HFLM`, which reads common beginnings of requests once.

Requests of all tasks are sorted by their tokens, so that neighbours share as much as possible. The vocabulary head runs at
the scored positions only. Models that are not known to give the same numbers this way, or that fail a check on small
requests, are scored as `HFLM` does. `shared_prefix.prefix_scoring` does the scoring.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from shared_prefix.architectures import (
    DECODERS,
    REFUSED,
    SEQ2SEQ,
    Layout,
    config_parts,
    layout_of,
    rope_kinds,
    text_config,
)
from shared_prefix.model_error import reason_with_type
from shared_prefix.prefix_scoring import PrefixScoring, stats_of
from shared_prefix.token_requests import (
    Response,
    ScoredRequest,
    TokenRequest,
    check_requests,
    collect_responses,
)
from shared_prefix.upstream import register_model

logger = logging.getLogger("lm_eval.shared_prefix")


@register_model("hf-shared-prefix")
class SharedPrefixLM(PrefixScoring):
    """`HFLM`, with all its arguments, which reads common beginnings of requests once if the model allows it.

    Log-probabilities are computed in float32, also of models in 16 bits and where nothing is shared, unless ``softmax_dtype``
    names another type.

    Args:
        shared_prefix: False scores every request as `HFLM` does.
        token_scores: whether responses keep the log-probability of every token, see `shared_prefix.token_requests`.
        token_stats: whether they have `TokenStats`, computed in the same forward pass without keeping tokens. Sums are the
            same; where nothing is shared, those of `HFLM` up to rounding.
    """

    #: Most multiplications for reading long requests in the check, on a CPU and elsewhere: about half a minute.
    check_work = 2e12, 2e15

    def __init__(
        self,
        *args: Any,
        shared_prefix: bool = True,
        token_scores: bool = False,
        token_stats: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **{"softmax_dtype": "float32", **kwargs})
        self._inner = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        self.token_scores, self.token_stats = token_scores, token_stats
        if self.device.type != "cpu":  # short rows would leave most of an accelerator idle
            self.row_tokens, self.decoder_row_tokens, self.source_tokens = 4096, 2048, 4096
            self.scan_price = 512
        self._shared_prefix = shared_prefix
        self._unchecked: Collection[int] = ()  # windows that the check on the model itself did not read beyond

    # ------------------------------------------------------------ may this model share?

    def why_not(self) -> str | None:
        """Say why requests are scored as `HFLM` does; None if prefixes are shared. The model is checked once."""
        return self._reason

    @cached_property
    def _reason(self) -> str | None:
        reason: str | None = "shared_prefix=False"
        if self._shared_prefix:
            reason = why_unsuitable(self.model, self._inner, self.backend) or self._self_check()
        if reason is None:
            seen = describe_layers(layout_of(self._inner.config))
            limits = "".join(f"; not checked beyond {length:,} tokens" for length in sorted(self._unchecked))
            logger.info("hf-shared-prefix: every distinct token is read once (%s%s)", seen, limits)
            return None
        logger.info("hf-shared-prefix: not sharing prefixes, plain hf instead: %s", reason)
        return reason

    def _self_check(self) -> str | None:
        """Say how the sums of small random requests differ from the model's own logits; None if they do not.

        Windows and chunks are shortened, so that some requests are longer. Where they cannot be, as the chunks of recurrent
        layers, requests are as long as that takes, unless reading them would take too long.
        """
        if self._inner.get_output_embeddings().weight.is_meta:  # accelerate lends it to the model's own pass only
            return "the vocabulary head is kept on disk or in main memory"
        config, layout = self._inner.config, layout_of(self._inner.config)
        lengths = {length for length in layout.windows if length < self.max_length}
        short = lengths & {length for *_, length in to_shorten(config)}
        seq2seq = self.backend == "seq2seq"  # its decoder reads candidates only, which are short in this check
        budget = 0 if seq2seq else self.check_work[self.device.type != "cpu"]
        per_token = self._inner.num_parameters(exclude_embeddings=True)  # about one multiplication each
        read = {length for length in lengths - short if 6 * (length + 6) * per_token <= budget}
        self._unchecked = lengths - short - read
        size = min(int(text_config(config).vocab_size), len(self.tokenizer))
        pairs = short_pairs(size)
        for length in sorted(read | ({SHORT} if short else set())):
            pairs += long_pairs(size, length, self.max_length)
        with shortened(config) if short else nullcontext():
            return self._difference(pairs)

    def _difference(self, pairs: Pairs) -> str | None:
        """Say how the sums of requests differ from those of the model's own logits; None if they do not."""
        requests = [(None, context, continuation) for context, continuation in pairs]
        try:
            with torch.inference_mode():
                expected = []  # of each request: the sum, and the largest of the model's own logits
                for request in requests:
                    [logits] = self._logits([request])
                    targets = torch.tensor(request[2], device=logits.device)
                    total = float(-cross_entropy(logits.float(), targets, reduction="sum"))
                    expected.append((total, float(logits.abs().max())))
                # Recurrent layers read in levels, with some padding, although there is little to read.
                with patch.object(self, "scan_price", 3):
                    scored = list(self._score(requests))
                # Once more with rows so short that there are stems, trunks, branches and several decoder rows.
                with patch.multiple(self, row_tokens=12, decoder_row_tokens=8):
                    scored += self._score(requests)
        except Exception as error:  # an unsuitable model can raise anything
            return f"the check on a small example failed ({reason_with_type(error)})"
        precision = torch.finfo(self.mixed_precision_dtype or self._dtype).eps
        for one in scored:
            total, (expected_total, largest) = sum(one.logprobs), expected[one.index]
            # Each log-probability may be off by some units in the last place of the largest logit.
            allowed = (2e-4 + 4 * precision * largest) * len(one.targets)
            if not abs(total - expected_total) <= allowed + 1e-5 * abs(expected_total):
                return f"on a small example the sums differ from the model's own ({total:.5f}, {expected_total:.5f})"
        return None

    def _logits(self, requests: Sequence[TokenRequest]) -> list[torch.Tensor]:
        """Return the model's logits of each continuation, shape (tokens, vocabulary), as `HFLM` asks for them in one batch."""

        def padded(rows: Iterable[Sequence[int]]) -> torch.Tensor:
            return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(self.device)

        if self.backend == "seq2seq":
            inputs = [context[-self.max_length :] for _, context, _ in requests]
            labels = padded(continuation for _, _, continuation in requests)
            seen = padded([1] * len(row) for row in inputs)
            logits = self._model_call(padded(inputs), attn_mask=seen, labels=labels)
            return [row[: len(continuation)] for row, (_, _, continuation) in zip(logits, requests, strict=True)]
        inputs = [(context + continuation)[-(self.max_length + 1) :][:-1] for _, context, continuation in requests]
        rows = zip(self._model_call(padded(inputs)), inputs, requests, strict=True)
        return [row[len(read) - len(request[2]) : len(read)] for row, read, request in rows]

    # ------------------------------------------------------------ requests

    def _loglikelihood_tokens(
        self, requests: Sequence[TokenRequest], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[Response]:
        """Score requests; see `HFLM`.

        Raises:
            ModelError: a continuation has no token, or more than the window holds.
        """
        window = self.max_length  # HFLM looks it up in the model's configuration each time
        check_requests(requests, window)
        shares = self.why_not() is None
        if not shares and not self.token_scores and not self.token_stats:
            return self._plain(requests, disable_tqdm=disable_tqdm, **kwargs)
        seq2seq = self.backend == "seq2seq"
        cut = sum(
            len(context) + (0 if seq2seq else len(continuation) - 1) > window for _, context, continuation in requests
        )
        if shares and cut:
            logger.warning("%d requests are longer than the window of %d tokens; cut from the left", cut, window)
        with torch.inference_mode():
            scored = self._score(requests) if shares else self._score_each(requests)
            return collect_responses(self, requests, scored, disable_tqdm)

    def _plain(self, requests: Sequence[TokenRequest], **kwargs: Any) -> list[Response]:
        """Score as `HFLM` does.

        Where two requests have the same input and different split points, its cache of logits is left out: lm-eval 0.4.13 would
        give one of them the log-probabilities of the other.
        """
        splits = {(tuple((context + continuation)[:-1]), len(context)) for _, context, continuation in requests}
        grouping = self.logits_cache and len({inputs for inputs, _ in splits}) == len(splits)
        with patch.object(self, "logits_cache", grouping):
            responses: list[Response] = super()._loglikelihood_tokens(requests, **kwargs)
        return responses

    def _score_each(self, requests: Sequence[TokenRequest]) -> Iterator[ScoredRequest]:
        """Score requests each on its own, in batches of padded rows, as `HFLM` does, and keep what each token gets."""
        size = int(self.batch_size) if str(self.batch_size).isdigit() else 1  # auto: HFLM would try sizes
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i][1]) - len(requests[i][2]))
        for chunk in (order[start : start + size] for start in range(0, len(order), size)):
            for i, logits in zip(chunk, self._logits([requests[i] for i in chunk]), strict=True):
                targets = torch.tensor(requests[i][2], device=logits.device)
                logits = logits.to(self.softmax_dtype or logits.dtype)
                logprobs = -cross_entropy(logits, targets, reduction="none")
                likeliest = logits.argmax(dim=-1) == targets
                scored = ScoredRequest(i, requests[i][2], logprobs.tolist(), bool(likeliest.all()))
                if self.token_stats:
                    scored.stats = stats_of(logits, targets).tolist()
                yield scored

    def _score(self, requests: Sequence[TokenRequest]) -> Iterator[ScoredRequest]:
        dtype = self.mixed_precision_dtype
        score = self.score_encoder_decoder if self.backend == "seq2seq" else self.score_decoder_only
        with torch.autocast(device_type=self.device.type, dtype=dtype, enabled=dtype is not None):
            yield from score(requests)


# ---------------------------------------------------------------- what cannot share

_QUANTIZED = "a quantized model, whose numbers depend on what is read together"


def why_not_config(config: Any, backend: str) -> str | None:
    """Say why no model with this config can share prefixes; None if it may be tried.

    Args:
        config: of transformers.
        backend: ``causal`` or ``seq2seq``.
    """
    types = SEQ2SEQ if backend == "seq2seq" else DECODERS
    if config.model_type not in types:
        return REFUSED.get(config.model_type, f"the architecture {config.model_type} is not known to allow it")
    text = text_config(config)
    ropes = rope_kinds(config) - types[config.model_type].ropes
    if ropes:
        return f"rotary embeddings of type {min(ropes)} depend on how much is read at once"
    if getattr(text, "use_bidirectional_attention", None) in (True, "all") or not getattr(text, "is_causal", True):
        return "its tokens see those that follow them"
    quantized = getattr(config, "quantization_config", None)
    if quantized and getattr(quantized, "quant_method", None) != "gguf":  # of which a CPU makes plain weights
        return _QUANTIZED
    try:
        layout_of(config)
    except ValueError as error:
        return str(error)
    return None


def why_unsuitable(model: Any, inner: Any, backend: str) -> str | None:
    """Say why a model cannot share prefixes; None if it may be tried.

    Args:
        model: the model with its adapters.
        inner: the transformers model without them.
        backend: ``causal`` or ``seq2seq``.
    """
    if reason := why_not_config(inner.config, backend):
        return reason
    if not type(inner).__module__.startswith("transformers.models."):
        return f"{type(inner).__name__} is not part of transformers"
    if any(type(module).__name__.startswith("Gguf") for module in inner.modules()):
        return _QUANTIZED
    used = getattr(inner.config, "_attn_implementation", "sdpa")
    if used not in ("sdpa", "eager"):
        alternative = "sdpa" if getattr(inner, "_supports_sdpa", False) else "eager"
        return (
            f"attn_implementation={used} takes no custom mask; attn_implementation={alternative} in --model_args does"
        )
    for adapter in (getattr(model, "peft_config", None) or {}).values():
        if adapter.is_prompt_learning or getattr(adapter, "alora_invocation_tokens", None):
            return "an adapter that looks at the whole prompt"
    if not isinstance(inner.get_output_embeddings(), torch.nn.Linear):
        return "its output layer is not a plain linear layer"
    return None


# ---------------------------------------------------------------- requests of the check

# Some of them are longer than windows and chunks. Shorter ones would not show that a window is ignored or counted wrongly.

#: (context, continuation), both in tokens.
Pairs = list[tuple[list[int], list[int]]]

#: Length of windows during the check.
SHORT = 6
#: Lengths that a model reads from its config for every mask (``masking_utils.py``), so that they can be changed.
_SHORTENED = ("sliding_window", "attention_chunk_size")


def short_pairs(size: int) -> Pairs:
    """Return requests of up to 19 tokens that share beginnings in several ways, from a vocabulary of ``size`` tokens."""
    random = np.random.default_rng(0)

    def draw(count: int) -> list[int]:
        return list(random.integers(0, size, count).tolist())

    trunk, fork = draw(9), draw(10)  # candidates of the fork and its beginning are too many for one short row
    contexts = [trunk, trunk + draw(4), trunk + draw(5), draw(6), fork, fork, fork[:8], fork[:8]]
    pairs = [(context, draw(length)) for context in contexts for length in (3, 5)]
    return [*pairs, (trunk, pairs[0][1][:1]), (trunk[:5], trunk[5:])]


def long_pairs(size: int, length: int, most: int) -> Pairs:
    """Return requests that cross a window or a chunk of ``length`` tokens in several ways; two of them are one input.

    Args:
        size: tokens of the vocabulary.
        length: in tokens; less than ``most``.
        most: most tokens that the model reads.
    """
    tokens = np.random.default_rng(length).integers(0, size, length + 12).tolist()
    text, other = tokens[: length + 6][: most + 1], tokens[length + 6 :]
    before, beyond = max(length - 2, 1), min(length + 2, most)
    early = max(length - 40, 1)  # not 1: a model's logits at thousands of places may not fit into memory in float32
    pairs = [(text[:start], text[start:]) for start in (before, early)]
    return pairs + [(text[:start], other[: most + 1 - start][:4]) for start in (beyond, before)]


def to_shorten(config: Any) -> list[tuple[Any, str, int]]:
    """Return (part of the config, name, length) of each window or chunk that `shortened` shortens.

    Others, such as the chunks of recurrent layers, stay as they are.
    """
    named = [
        (config_part, name, getattr(config_part, name, None))
        for config_part in config_parts(config)
        for name in _SHORTENED
    ]
    return [(config_part, name, length) for config_part, name, length in named if length]


@contextmanager
def shortened(config: Any) -> Iterator[None]:
    """Within this context, windows and chunks of a config are `SHORT` tokens long."""
    with ExitStack() as stack:
        for config_part, name, _ in to_shorten(config):
            stack.enter_context(patch.object(config_part, name, SHORT))
        yield


def describe_layers(layout: Layout) -> str:
    """Say how the layers of a model see: ``full attention, windows of 512``."""
    if layout.recurrent:
        return "recurrent layers"
    if layout.alibi:
        return "full attention with linear biases"
    words = {
        f"windows of {reach.window:,}" if reach.window else f"chunks of {reach.chunk:,}" if reach.chunk else ""
        for reach in layout.reaches.values()
    }
    return ", ".join(word or "full attention" for word in sorted(words))
