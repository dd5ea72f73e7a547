"""``vllm-shared-prefix``: lm-eval's `VLLM`, which computes each context once and then takes it from vLLM's cache.

lm-eval asks vLLM for the log-probabilities of whole prompts. For these, vLLM fills its cache of prefixes but does not use it
(`SamplingParams.__post_init__`). Here it does, and `shared_prefix.prefix_cache` takes no log-probabilities from rows that
vLLM did not compute. Importing this module imports vLLM.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from vllm import SamplingParams, TokensPrompt
from vllm.platforms import current_platform

from shared_prefix.model_error import reason_with_type
from shared_prefix.prefix_cache import Ask, CacheLayout, PrefixCacheScoring, Sent
from shared_prefix.token_requests import Response, TokenAnswer, TokenRequest, check_requests, collect_responses
from shared_prefix.upstream import register_model, vllm_class

logger = logging.getLogger("lm_eval.shared_prefix")

#: The smallest block that vLLM takes on a CPU; its own default there is 128, with which less is shared (vLLM 0.32).
_CPU_BLOCK = 32
#: vLLM's `MAX_LOGPROB_TOKEN_IDS` (0.32).
_FOLLOWING = 128
#: Largest allowed difference of a log-probability in the check, in nats, for float32 and for 16 bits. Garbage is nats away.
_ALLOWED, _ALLOWED_16 = 1e-3, 0.5


class _Reply:
    """What vLLM says to a prompt.

    Args:
        ask: the prompt.
        output: its `vllm.RequestOutput`.

    Attributes:
        cached: see `shared_prefix.prefix_cache.Reply`.
    """

    def __init__(self, ask: Ask, output: Any) -> None:
        self.cached: int | None = output.num_cached_tokens
        self._ask, self._after = ask, output.outputs[0].logprobs if ask.following else None
        self._rows, self._skipped = output.prompt_logprobs, 0
        if self._rows is not None and self.cached is not None:
            # vLLM's newer runner leaves the rows of cached tokens out, the older one fills them with garbage.
            self._skipped = len(ask.tokens) - len(self._rows)
            if self._skipped not in (0, self.cached):
                self._rows = None

    def row(self, position: int) -> Response | None:
        """Look up what vLLM says of the prompt's token at ``position``; None if that cannot be its log-probability."""
        if self._rows is None:
            return None
        # The token itself, and the likeliest one unless that is the same.
        entries = self._rows[position - self._skipped]
        token = self._ask.tokens[position]
        if not entries or token not in entries:
            return None
        logprob = float(entries[token].logprob)
        if math.isnan(logprob) or logprob > 1e-6 or (math.isinf(logprob) and not self._ask.fresh):
            return None
        return logprob, logprob >= max(entry.logprob for entry in entries.values())

    def after(self, token: int) -> Response | None:
        """Look up what vLLM says of ``token`` after the prompt; None if nothing."""
        entries = self._after[0] if self._after else {}
        if token not in entries:
            return None
        logprob = float(entries[token].logprob)  # the sampled token, which is the likeliest, is among the entries
        return logprob, logprob >= max(entry.logprob for entry in entries.values())


@register_model("vllm-shared-prefix")
class VLLMSharedPrefixLM(vllm_class()):  # type: ignore[misc]
    """`VLLM`, with all its arguments, which computes each context once if the engine allows it.

    On a CPU, ``block_size`` is 32 unless it is given.

    Args:
        shared_prefix: False scores every request as `VLLM` does.
        token_scores: whether responses keep the log-probability of every token, see `shared_prefix.token_requests`.

    Attributes:
        sent: what the last call sent to the engine; None if it was scored as `VLLM` does.
    """

    def __init__(
        self, pretrained: str, *args: Any, shared_prefix: bool = True, token_scores: bool = False, **kwargs: Any
    ) -> None:
        self.token_scores = token_scores
        if shared_prefix and "block_size" not in kwargs and current_platform.is_cpu():
            kwargs["block_size"] = _CPU_BLOCK
        super().__init__(pretrained, *args, **kwargs)
        self._shared_prefix = shared_prefix
        self.sent: Sent | None = None

    # ------------------------------------------------------------ may this engine share?

    def why_not(self) -> str | None:
        """Say why requests are scored as `VLLM` does; None if prefixes are shared. The engine is checked once."""
        return self._reason

    @cached_property
    def _reason(self) -> str | None:
        reason = self._why_unsuitable() or self._self_check()
        if reason is not None:
            logger.info("vllm-shared-prefix: not sharing prefixes, plain vllm instead: %s", reason)
            return reason
        logger.info("vllm-shared-prefix: contexts are read once, from vLLM's cache of prefixes")
        if not self._wide:
            logger.warning(
                "vllm-shared-prefix: in 16 bits, log-probabilities can depend on the order of requests where vLLM caches "
                "prefixes (vllm issue 42019); the exact way is shared_prefix=False,enable_prefix_caching=False in "
                "--model_args, or dtype=float32"
            )
        return None

    def _why_unsuitable(self) -> str | None:
        if not self._shared_prefix:
            return "shared_prefix=False"
        if self.data_parallel_size > 1:
            return "with data_parallel_size above 1, lm-eval starts engines anew for each batch, with empty caches"
        config = self.model.llm_engine.vllm_config.cache_config
        if not config.enable_prefix_caching:
            return "vLLM caches no prefixes here (enable_prefix_caching=False, or the model does not allow it)"
        mode = self.model.llm_engine.model_config.logprobs_mode
        if mode != "raw_logprobs":
            return f"logprobs_mode={mode}"
        if self._layout.capacity < 2 * self.max_length:
            return f"vLLM's cache holds {self._layout.capacity} tokens, fewer than two windows"
        return None

    @property
    def _wide(self) -> bool:
        return "float32" in str(self.model.llm_engine.model_config.dtype)

    @property
    def _layout(self) -> CacheLayout:
        config = self.model.llm_engine.vllm_config.cache_config
        blocks = int(config.num_gpu_blocks or 0) * int(config.block_size)
        # Where layers differ in kind, a request takes blocks for each kind, and only this number says so.
        capacity = getattr(config, "kv_cache_size_tokens", None) or blocks
        block = getattr(config, "cache_hit_alignment_tokens", None) or config.block_size
        return CacheLayout(int(block), int(capacity), _FOLLOWING)

    def _self_check(self) -> str | None:
        """Say how the sums of small random requests differ from those of prompts read as a whole; None if they do not.

        The requests have contexts that end with a block and within one, and candidates that share blocks beyond them.
        """
        random = np.random.default_rng(0)
        ids = sorted(set(self.tok_encode("The quick brown fox jumps over the lazy dog, 0 1 2 3 4 5 6 7 8 9 times.")))
        block, room = self._layout.block, self.max_length - 1

        def text(length: int) -> tuple[int, ...]:
            return tuple(random.choice(ids, length).tolist())

        full_block, half_block, common = text(block), text(max(block // 2, 1)), text(block)
        longest = room - len(half_block)
        to_end_of_block = block - len(half_block)
        pairs = [
            (full_block, (ids[0], *text(2))),
            (full_block, (ids[-1], *text(3))),
            (full_block + half_block, text(3)),
            (full_block + half_block, text(5)),
            (half_block, (*common, ids[0])[:longest]),
            (half_block, (*common[:-1], *text(2))[:longest]),
            (half_block, (*common[:to_end_of_block], ids[0], ids[1])),
            (half_block, (*common[:to_end_of_block], ids[-1])),
        ]
        sequences = [context + continuation for context, continuation in pairs]
        starts = [len(context) for context, _ in pairs]
        try:
            self.model.reset_prefix_cache()
            scoring = PrefixCacheScoring(sequences, starts, self._layout, self._send)
            ours = {request.index: sum(request.logprobs) for request in scoring.run()}
            fresh = [Ask(sequence, rows=True, fresh=True) for sequence in sequences]
            answers = self._send(fresh)
        except Exception as error:  # an engine can raise anything
            return f"the check on a small example failed ({reason_with_type(error)})"
        if not scoring.sent.cached:
            return "vLLM says that nothing came from its cache"
        for i, (sequence, start) in enumerate(zip(sequences, starts, strict=True)):
            rows = [answers[i].row(position) for position in range(start, len(sequence))]
            total = sum(row[0] if row else math.nan for row in rows)
            allowed = len(rows) * (_ALLOWED if self._wide else _ALLOWED_16)
            if not abs(ours[i] - total) <= allowed:
                return f"on a small example the sums differ from those of whole prompts ({ours[i]:.5f}, {total:.5f})"
        return None

    # ------------------------------------------------------------ requests

    def _loglikelihood_tokens(self, requests: list[TokenRequest], disable_tqdm: bool = False) -> list[Response]:
        """Score requests; see `VLLM`.

        Raises:
            ModelError: a context or a continuation has no token, or a continuation does not fit the window.
        """
        room = self.max_length - 1  # vLLM generates a token
        check_requests(requests, room - 1)
        self.sent = None
        if not requests or self.why_not() is not None:
            plain: list[Response] = super()._loglikelihood_tokens(requests, disable_tqdm=disable_tqdm)
            return plain
        sequences = [tuple((*context, *continuation)[-room:]) for _, context, continuation in requests]
        starts = [len(sequence) - len(request[2]) for sequence, request in zip(sequences, requests, strict=True)]
        cut = sum(len(context) + len(continuation) > room for _, context, continuation in requests)
        if cut:
            logger.warning("%d requests are longer than the window of %d tokens; cut from the left", cut, room)
        self.model.reset_prefix_cache()  # of what earlier calls left there, no log-probabilities are known
        scoring = PrefixCacheScoring(sequences, starts, self._layout, self._send)
        responses = collect_responses(self, requests, scoring.run(), disable_tqdm)
        self.sent = scoring.sent
        return responses

    def _parse_logprobs(self, tokens: list[int], outputs: Any, ctxlen: int) -> Response:
        """Read what vLLM says to a request that was sent as `VLLM` does."""
        total, greedy = super()._parse_logprobs(tokens, outputs, ctxlen)
        if not self.token_scores:
            return total, greedy
        rows = zip(tokens[ctxlen:], outputs.prompt_logprobs[ctxlen:], strict=True)
        return TokenAnswer.of(total, greedy, [float(getattr(row[token], "logprob", row[token])) for token, row in rows])

    def _send(self, asks: Sequence[Ask]) -> list[_Reply]:
        outputs = self.model.generate(
            [TokensPrompt(prompt_token_ids=list(ask.tokens)) for ask in asks],
            sampling_params=[_sampling(ask) for ask in asks],
            use_tqdm=False,
            lora_request=self.lora_request,
        )
        return [_Reply(ask, output) for ask, output in zip(asks, outputs, strict=True)]


def _sampling(ask: Ask) -> SamplingParams:
    """Return the parameters for a prompt. ``prompt_logprobs=1`` also gives the likeliest token, as lm-eval asks."""
    return SamplingParams(
        temperature=0,
        max_tokens=1,
        detokenize=False,
        skip_reading_prefix_cache=ask.fresh,
        prompt_logprobs=1 if ask.rows else None,
        flat_logprobs=ask.rows,
        logprob_token_ids=list(ask.following) or None,
    )
