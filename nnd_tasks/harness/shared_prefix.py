"""``hf-shared-prefix``: lm-eval's `HFLM`, reading every distinct token once.

Requests are sorted by their tokens; what neighbours begin with in common is read once, whatever task they come from, and
the vocabulary head runs at scored positions only. A model for which this is not known, and checked, to give the model's
own numbers takes HFLM's path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lm_eval.api.registry import register_model
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import Cache, DynamicCache

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.encodings import TokenizingOnce
from nnd_tasks.harness.packed_decoder import PackedDecoder
from nnd_tasks.harness.prefix_tree import Branch, Pack, branch_mask, make_packs, rows_of
from nnd_tasks.harness.vocabulary_head import VocabularyHead

logger = logging.getLogger("lm_eval.nnd")

#: ``model_type`` of the architectures that take a mask of four dimensions and explicit positions, and whose logits are
#: one linear layer of the final hidden states.
CAUSAL = {
    "gpt2",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gpt_neox",
    "opt",
    "phi",
    "gemma",
    "olmo2",
    "starcoder2",
    "stablelm",
}
#: Encoder-decoders whose decoder reuses the keys and values of the encoder's output from a cache.
SEQ2SEQ = {"t5", "mt5", "bart", "mbart", "pegasus"}

#: Sum and greediness of one request.
Answer = tuple[float, bool]


@dataclass
class _Request:
    """One request with its tokens.

    Attributes:
        index: its place among the requests.
        text: (context, continuation), the key of the cache; None for parts of rolling requests.
        targets: the tokens to score.
    """

    index: int
    text: tuple[str, str] | None
    targets: list[int]
    total: float = 0.0
    greedy: bool = True


@dataclass
class _Scores:
    """Tokens to score out of one row of hidden states."""

    rows: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    owners: list[_Request] = field(default_factory=list)

    def add(self, request: _Request, rows: Sequence[int], targets: Sequence[int]) -> None:
        self.rows += rows
        self.targets += targets
        self.owners += [request] * len(targets)


class _Trunk(DynamicCache):  # type: ignore[misc]
    """Keys and values of a trunk; rows that come after it see them and leave nothing behind."""

    def __init__(self) -> None:
        super().__init__()
        self.complete = False

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        """Store the trunk; once it is complete, return it with the given states appended."""
        if not self.complete:
            return super().update(key_states, value_states, layer_idx, *args, **kwargs)
        layer = self.layers[layer_idx]
        return torch.cat([layer.keys, key_states], dim=-2), torch.cat([layer.values, value_states], dim=-2)


@register_model("hf-shared-prefix")
class SharedPrefixLM(TokenizingOnce):
    """`HFLM` with all its arguments, scoring each distinct token once where the model allows it.

    Args:
        shared_prefix: False takes HFLM's path for every request.

    In 16-bit types log-probabilities are taken and summed in float32, unless ``softmax_dtype`` says otherwise.
    """

    #: Most tokens that are read at once, and of a pack.
    row_tokens, pack_tokens = 1024, 16384
    #: Most tokens that the decoder of an encoder-decoder reads at once: T5 has a bias of this, squared, for each head.
    decoder_row_tokens = 512
    #: Most tokens of contexts that are encoded together, unless one alone has more.
    source_tokens = 640

    def __init__(self, *args: Any, shared_prefix: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.device.type != "cpu":  # where short rows would leave most of the device idle
            self.row_tokens, self.decoder_row_tokens, self.source_tokens = 4096, 2048, 4096
        self._reason: str | None = None if shared_prefix else "shared_prefix=False"
        self._checked = False

    # ------------------------------------------------------------ may this model share?

    @property
    def _inner(self) -> Any:
        """The transformers model below an adapter."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

    def why_not(self) -> str | None:
        """Return why this model takes HFLM's path; None when prefixes are shared. Checked once, then remembered."""
        if not self._checked:
            self._checked = True
            if self._reason is None:
                self._reason = self._unsuitable() or self._self_check()
            if self._reason is None:
                logger.info("hf-shared-prefix: every distinct token is read once")
            else:
                logger.info("hf-shared-prefix: not sharing prefixes, plain hf instead: %s", self._reason)
        return self._reason

    def _unsuitable(self) -> str | None:
        config = self._inner.config
        text = getattr(config, "text_config", None) or config
        known = SEQ2SEQ if self.backend == "seq2seq" else CAUSAL
        if config.model_type not in known:
            return f"the architecture {config.model_type} is not known to allow it"
        if getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True):
            return "sliding-window attention"
        kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            return f"attention layers of other kinds ({', '.join(sorted(kinds - {'full_attention'}))})"
        for name in ("attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "logits_scaling"):
            if getattr(text, name, None):
                return f"its config sets {name}"
        if getattr(config, "_attn_implementation", "sdpa") not in ("sdpa", "eager"):
            return f"attn_implementation={config._attn_implementation} takes no mask of one's own"
        if any(adapter.is_prompt_learning for adapter in (getattr(self.model, "peft_config", None) or {}).values()):
            return "a prompt-learning adapter"
        if not isinstance(self._inner.get_output_embeddings(), torch.nn.Linear):
            return "its output layer is no plain linear layer"
        if self.world_size > 1 and type(self.model).__name__ not in (
            type(self._inner).__name__,
            "PeftModelForCausalLM",
        ):
            return "the model is wrapped for several processes"
        return None

    def _self_check(self) -> str | None:
        """Compare a small tree of random tokens with the model's own logits."""
        random = np.random.default_rng(0)
        size = min(int(self._inner.config.vocab_size), len(self.tokenizer))
        draw: Callable[[int], list[int]] = lambda n: random.integers(0, size, n).tolist()  # noqa: E731
        trunk, twig = draw(9), draw(4)
        pairs = [
            (trunk, draw(3)),
            (trunk, draw(5)),
            (trunk + twig, draw(2)),
            (trunk + twig, draw(4)),
            (draw(6), draw(3)),
        ]
        pairs += [(trunk, pairs[0][1][:1]), (trunk[:5], trunk[5:])]
        requests = [(None, context, continuation) for context, continuation in pairs]
        try:
            with torch.inference_mode():
                found = [total for total, _ in self._score(requests, disable_tqdm=True)]
        except Exception as error:  # whatever a model of another kind stumbles over
            return f"the check on a small example failed ({type(error).__name__}: {error})"
        for (_, context, continuation), total in zip(requests, found, strict=True):
            expected = self._own(context, continuation)
            allowed = 2e-4 if self._dtype == torch.float32 else 0.1
            if not abs(total - expected) <= allowed * len(continuation) + 1e-4 * abs(expected):
                return f"on a small example the sums differ from the model's own ({total:.5f}, {expected:.5f})"
        return None

    @property
    def _dtype(self) -> Any:
        return next(self._inner.parameters()).dtype

    def _own(self, context: list[int], continuation: list[int]) -> float:
        """Return the sum of log-probabilities straight from the model's logits."""
        targets = torch.tensor(continuation, device=self.device)
        if self.backend == "seq2seq":
            inputs = torch.tensor([context], device=self.device)
            logits = self._model_call(inputs, attn_mask=torch.ones_like(inputs), labels=targets[None])[0]
        else:
            logits = self._model_call(torch.tensor([context + continuation[:-1]], device=self.device))[0]
        logits = torch.log_softmax(logits[-len(continuation) :].float(), dim=-1)
        return float(logits.gather(1, targets.to(logits.device)[:, None]).sum())

    # ------------------------------------------------------------ requests

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[Answer]:
        """Score requests (context, continuation); see `HFLM`.

        Raises:
            NNDError: a continuation has no token, or more than the window holds.
        """
        for request in requests:
            context, continuation = request.args
            if not continuation or (not context and not self.tok_encode(continuation, add_special_tokens=False)):
                raise NNDError(f"the continuation {continuation!r} has no token; it cannot be scored")
        answers: list[Answer] = super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        return answers

    def _loglikelihood_tokens(
        self,
        requests: list[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[Answer]:
        """Score requests, each (text, context tokens, continuation tokens); see `HFLM`.

        Raises:
            NNDError: a continuation has no token, or more than the window holds.
        """
        for text, context, continuation in requests:
            shown = repr(text[1]) if text else "a part of a rolling request"
            if not continuation:
                raise NNDError(
                    f"the continuation {shown} has no token of its own after its context; it cannot be scored"
                )
            if not context:
                raise NNDError(f"the context of {shown} has no token")
            if len(continuation) > self.max_length:
                raise NNDError(f"the continuation {shown} has more tokens than the window of {self.max_length}")
        if not requests or self.why_not() is not None:
            return self._plain(requests, disable_tqdm, override_bs)
        with torch.inference_mode():
            return self._score(requests, disable_tqdm)

    def _plain(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool, override_bs: int | None
    ) -> list[Answer]:
        """Score as HFLM does, but never send two requests together that have one input and two split points.

        lm-eval 0.4.13 would take the log-probabilities of one for those of the other.
        """
        more = {} if override_bs is None else {"override_bs": override_bs}
        splits: dict[tuple[int, ...], list[int]] = {}
        waves: dict[int, list[int]] = {}
        for i, (_, context, continuation) in enumerate(requests):
            known = splits.setdefault(tuple((context + continuation)[:-1]), [])
            if len(context) not in known:
                known.append(len(context))
            waves.setdefault(known.index(len(context)), []).append(i)
        answers: dict[int, Answer] = {}
        for wave in waves.values():
            chosen = [requests[i] for i in wave]
            found = super()._loglikelihood_tokens(chosen, disable_tqdm=disable_tqdm, **more)
            answers |= dict(zip(wave, found, strict=True))
        return [answers[i] for i in range(len(requests))]

    def _score(self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool) -> list[Answer]:
        """Return the answers in the order of the requests; each goes to the cache as soon as it is known."""
        answers: list[Answer | None] = [None] * len(requests)
        bar = tqdm(
            total=len(requests),
            disable=disable_tqdm or self.rank != 0,
            desc="Running loglikelihood requests, prefixes shared",
        )

        def done(finished: Sequence[_Request]) -> None:
            for request in finished:
                answers[request.index] = answer = (request.total, request.greedy)
                if request.text is not None:
                    self.cache_hook.add_partial("loglikelihood", request.text, answer)
            bar.update(len(finished))

        score = self._score_seq2seq if self.backend == "seq2seq" else self._score_causal
        with torch.autocast(
            device_type=self.device.type,
            dtype=self.mixed_precision_dtype,
            enabled=self.mixed_precision_dtype is not None,
        ):
            score(requests, done)
        bar.close()
        return [answer for answer in answers if answer is not None]

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), device=self.device)

    def _settle(self, head: VocabularyHead, hidden: torch.Tensor, scores: _Scores) -> None:
        """Add the log-probabilities of ``scores`` to their requests; ``hidden`` has shape (positions, width)."""
        if not scores.rows:
            return
        needed, rows = np.unique(scores.rows, return_inverse=True)
        logprobs, greedy = head(hidden[self._tensor(needed)], self._tensor(rows), self._tensor(scores.targets))
        for owner, logprob, likeliest in zip(scores.owners, logprobs.tolist(), greedy.tolist(), strict=True):
            owner.total += logprob
            owner.greedy = owner.greedy and likeliest

    # ------------------------------------------------------------ decoder-only models

    def _score_causal(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], done: Callable[[Sequence[_Request]], None]
    ) -> None:
        """Score packs of requests that begin alike; their inputs are cut from the left as HFLM does."""
        by_input: dict[tuple[int, ...], list[_Request]] = {}
        for i, (text, context, continuation) in enumerate(requests):
            inputs = tuple((context + continuation)[-(self.max_length + 1) :][:-1])
            by_input.setdefault(inputs, []).append(_Request(i, text, continuation))
        sequences = sorted(by_input)
        inner = self._inner
        head = VocabularyHead(inner.get_output_embeddings(), dtype=self.softmax_dtype)
        for pack in make_packs(sequences, self.row_tokens, self.pack_tokens):
            self._score_pack(pack, sequences, by_input, inner.base_model, head)
            done([request for i in pack.paths for request in by_input[sequences[i]]])

    def _score_pack(
        self,
        pack: Pack,
        sequences: Sequence[tuple[int, ...]],
        by_input: Mapping[tuple[int, ...], list[_Request]],
        body: Any,
        head: VocabularyHead,
    ) -> None:
        cache: _Trunk | None = None
        if len(pack.tokens):
            cache = _Trunk() if pack.branches else None
            hidden = self._read(body, pack.tokens, pack.positions, pack.trunk_mask(), cache)
            self._settle(head, hidden, _trunk_scores(pack, sequences, by_input))
            if cache is not None:
                cache.complete = True
        for row in rows_of(pack.branches, sequences, self.row_tokens):
            self._score_row(pack, row, sequences, by_input, body, head, cache)

    def _score_row(
        self,
        pack: Pack,
        row: Sequence[Branch],
        sequences: Sequence[tuple[int, ...]],
        by_input: Mapping[tuple[int, ...], list[_Request]],
        body: Any,
        head: VocabularyHead,
        cache: _Trunk | None,
    ) -> None:
        parts = [sequences[branch.sequence][branch.start :] for branch in row]
        lengths = [len(part) for part in parts]
        tokens = np.concatenate([np.asarray(part) for part in parts])
        positions = np.concatenate([np.arange(b.start, b.start + n) for b, n in zip(row, lengths, strict=True)])
        owners = np.repeat(np.arange(len(row)), lengths)
        anchors = np.repeat([branch.anchor for branch in row], lengths)
        hidden = self._read(body, tokens, positions, branch_mask(pack, owners, anchors), cache)
        scores = _Scores()
        offset = 0
        for branch, length in zip(row, lengths, strict=True):
            for request in by_input[sequences[branch.sequence]]:
                count = min(len(request.targets), length)  # the others were scored in the trunk
                scores.add(request, range(offset + length - count, offset + length), request.targets[-count:])
            offset += length
        self._settle(head, hidden, scores)

    def _read(self, body: Any, tokens: Any, positions: Any, mask: Any, cache: Cache | None) -> torch.Tensor:
        """Return the final hidden states of one row, shape (row, width)."""
        arguments: dict[str, Any] = {"input_ids": self._tensor(tokens)[None], "use_cache": cache is not None}
        if cache is not None:
            arguments["past_key_values"] = cache
        bias = self._bias(mask)
        if bias is not None:
            arguments["attention_mask"] = bias[None, None]
            arguments["position_ids"] = self._tensor(positions)[None]
        hidden: torch.Tensor = body(**arguments).last_hidden_state[0]
        return hidden

    def _bias(self, mask: NDArray[np.bool_]) -> torch.Tensor | None:
        """Return what to add to attention scores; None where ``mask``, shape (row, keys), is plainly causal."""
        rows, columns = mask.shape
        if rows == columns and np.array_equal(mask, np.tri(rows, dtype=bool)):
            return None
        return self._additive(mask)

    def _additive(self, mask: NDArray[np.bool_]) -> torch.Tensor:
        bias = torch.zeros(mask.shape, dtype=self._dtype, device=self.device)
        return bias.masked_fill_(~self._tensor(mask), torch.finfo(bias.dtype).min)

    # ------------------------------------------------------------ encoder-decoders

    def _score_seq2seq(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], done: Callable[[Sequence[_Request]], None]
    ) -> None:
        """Encode each context once; its candidates are read as one tree, in rows."""
        inner = self._inner
        config = inner.config
        scaled = config.model_type == "t5" and config.scale_decoder_outputs
        head = VocabularyHead(
            inner.get_output_embeddings(),
            scale=inner.model_dim**-0.5 if scaled else 1.0,
            bias=getattr(inner, "final_logits_bias", None),
            dtype=self.softmax_dtype,
        )
        decoder = PackedDecoder(inner)
        contexts: dict[tuple[int, ...], dict[tuple[int, ...], list[_Request]]] = {}
        for i, (text, context, continuation) in enumerate(requests):
            by_input = contexts.setdefault(tuple(context[-self.max_length :]), {})
            inputs = tuple(decoder.inputs(torch.tensor(continuation)))
            by_input.setdefault(inputs, []).append(_Request(i, text, continuation))
        for group in _groups(sorted(contexts, key=len), self.source_tokens):
            # The number of its context stands before each candidate: different contexts share nothing.
            by_input = {
                (k, *inputs): kept for k, context in enumerate(group) for inputs, kept in contexts[context].items()
            }
            sequences = sorted(by_input)
            packs = list(make_packs(sequences, self.decoder_row_tokens, self.decoder_row_tokens))
            decoder.encode(group, keep=len(packs) > 1)
            source = np.repeat(np.arange(len(group)), [len(context) for context in group])
            for pack in packs:
                pack, about = pack.without_roots()
                mask = self._bias(pack.trunk_mask())
                positions = None if mask is None else self._tensor(pack.positions)
                across = self._additive(about[:, None] == source[None, :]) if len(group) > 1 else None
                hidden = decoder.read(self._tensor(pack.tokens), positions, mask, across)
                self._settle(head, hidden, _trunk_scores(pack, sequences, by_input))
                done([request for i in pack.paths for request in by_input[sequences[i]]])


def _groups(contexts: Sequence[tuple[int, ...]], most: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield neighbouring contexts of at most ``most`` tokens together; a longer one alone."""
    group: list[tuple[int, ...]] = []
    size = 0
    for context in contexts:
        if group and size + len(context) > most:
            yield group
            group, size = [], 0
        group.append(context)
        size += len(context)
    yield group


def _trunk_scores(
    pack: Pack, sequences: Sequence[tuple[int, ...]], by_input: Mapping[tuple[int, ...], list[_Request]]
) -> _Scores:
    """Return what can be scored in the trunk."""
    scores = _Scores()
    for i, path in pack.paths.items():
        for request in by_input[sequences[i]]:
            unscored = len(sequences[i]) - len(request.targets)
            rows = path[unscored:].tolist()
            scores.add(request, rows, request.targets[: len(rows)])
    return scores
