"""``hf-shared-prefix``: lm-eval's `HFLM`, reading every distinct token once.

Requests are sorted by their tokens; what neighbours begin with in common is read once, whatever task they come from, and
the vocabulary head runs at scored positions only. A model for which this is not known, and checked, to give the model's
own numbers takes HFLM's path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
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
from nnd_tasks.models.architectures import why_unsuitable, windows
from nnd_tasks.models.estimate import Amount, Costs, Estimate, amount_of_packs, begin
from nnd_tasks.models.packed_decoder import PackedDecoder
from nnd_tasks.models.prefix_tree import Branch, Ints, Pack, branch_mask, make_packs, rows_of
from nnd_tasks.models.vocabulary_head import VocabularyHead

logger = logging.getLogger("lm_eval.nnd")

#: Rows of fewer tokens are not tried when memory runs out.
_SMALLEST_ROW = 64

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


#: Tokens that the model reads -> the requests that ask for them.
_ByInput = dict[tuple[int, ...], list[_Request]]


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
    """Keys and values of a trunk; what comes after it sees them and leaves nothing behind.

    Args:
        stem: what the trunk itself comes after.
    """

    def __init__(self, stem: _Trunk | None = None) -> None:
        super().__init__()
        self.stem = stem
        self.complete = False

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        """Store the trunk, until it is complete; return stem, trunk and what comes after it."""
        seen = [(key_states, value_states)]
        if not self.complete:
            seen = [super().update(key_states, value_states, layer_idx, *args, **kwargs)]
        elif layer_idx < len(self.layers):  # the trunk below a stem can be empty
            seen.insert(0, (self.layers[layer_idx].keys, self.layers[layer_idx].values))
        if self.stem is not None:
            seen.insert(0, (self.stem.layers[layer_idx].keys, self.stem.layers[layer_idx].values))
        if len(seen) == 1:
            return seen[0]
        keys, values = zip(*seen, strict=True)
        return torch.cat(keys, dim=-2), torch.cat(values, dim=-2)


@dataclass
class _Stem:
    """A beginning that was read before the packs that share it.

    Attributes:
        owner: of the packs, see `Pack`.
        cache: its keys and values.
        hidden: final hidden states, shape (stem, width), for targets that lie in it.
    """

    owner: int
    cache: _Trunk
    hidden: torch.Tensor


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
    decoder_row_tokens = 256
    #: Most tokens of contexts that are encoded together, unless one alone has more.
    source_tokens = 640

    def __init__(self, *args: Any, shared_prefix: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.device.type != "cpu":  # where short rows would leave most of the device idle
            self.row_tokens, self.decoder_row_tokens, self.source_tokens = 4096, 2048, 4096
        self._reason: str | None = None if shared_prefix else "shared_prefix=False"
        self._checked = False
        self._costs: Costs | None = None
        self._estimate: Estimate | None = None  # of how long the call that runs will take
        self._estimating = False

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
                self._reason = why_unsuitable(self.model, self._inner, self.backend) or self._self_check()
            if self._reason is None:
                logger.info("hf-shared-prefix: every distinct token is read once")
            else:
                logger.info("hf-shared-prefix: not sharing prefixes, plain hf instead: %s", self._reason)
                if self.softmax_dtype is None and self._dtype in (torch.bfloat16, torch.float16):
                    logger.warning(
                        "hf-shared-prefix: plain hf will round the log-likelihoods to %s, which makes ties and wrong outcomes; "
                        "add softmax_dtype=float32 to --model_args",
                        str(self._dtype).removeprefix("torch."),
                    )
        return self._reason

    def _self_check(self) -> str | None:
        """Compare small trees of random tokens with the model's own logits.

        Another tree reaches beyond each window that the config names: within a window, one that sharing ignores or counts
        wrongly changes nothing.
        """
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
        for window in sorted(windows(self._inner.config)):
            if window >= self.max_length:  # no input is longer than that
                continue
            before = draw(max(window - 2, 1))
            for context, length in ((before, 7), (before, 4), (before + twig, 3), (before[:3], window + 4)):
                room = self.max_length + 1 - len(context)
                pairs += [(context, draw(min(length, room)))] * (room > 0)
        requests = [(None, context, continuation) for context, continuation in pairs]
        rows = self.row_tokens, self.decoder_row_tokens
        try:
            with torch.inference_mode():
                expected = [self._own(context, continuation) for context, continuation in pairs]
                found = [total for total, _ in self._score(requests, disable_tqdm=True)]
                # Once more in rows so short that stems, trunks, branches and several rows of a decoder come about.
                self.row_tokens, self.decoder_row_tokens = 12, 8
                found += [total for total, _ in self._score(requests, disable_tqdm=True)]
        except Exception as error:  # whatever a model of another kind stumbles over
            return f"the check on a small example failed ({type(error).__name__}: {error})"
        finally:
            self.row_tokens, self.decoder_row_tokens = rows
        precision = torch.finfo(self.mixed_precision_dtype or self._dtype).eps
        for i, total in enumerate(found):
            own, largest = expected[i % len(pairs)]
            # Each log-probability is off by some units in the last place of the largest logit.
            allowed = (2e-4 + 4 * precision * largest) * len(pairs[i % len(pairs)][1])
            if not abs(total - own) <= allowed + 1e-5 * abs(own):
                return f"on a small example the sums differ from the model's own ({total:.5f}, {own:.5f})"
        return None

    @property
    def _dtype(self) -> Any:
        return next(self._inner.parameters()).dtype

    def _own(self, context: list[int], continuation: list[int]) -> tuple[float, float]:
        """Return the sum of log-probabilities straight from the model's logits, and the largest of these."""
        targets = torch.tensor(continuation, device=self.device)
        if self.backend == "seq2seq":
            inputs = torch.tensor([context], device=self.device)
            logits = self._model_call(inputs, attn_mask=torch.ones_like(inputs), labels=targets[None])[0]
        else:
            logits = self._model_call(torch.tensor([context + continuation[:-1]], device=self.device))[0]
        logits = logits[-len(continuation) :].float()
        chosen = torch.log_softmax(logits, dim=-1).gather(1, targets.to(logits.device)[:, None])
        return float(chosen.sum()), float(logits.abs().max())

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
        seq2seq = self.backend == "seq2seq"
        cut = sum(
            len(context) + (0 if seq2seq else len(continuation) - 1) > self.max_length
            for _, context, continuation in requests
        )
        if cut:
            logger.warning(
                "%d requests are longer than the window of %d tokens; cut from the left", cut, self.max_length
            )
        with torch.inference_mode():
            return self._score(requests, disable_tqdm)

    def _plain(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool, override_bs: int | None
    ) -> list[Answer]:
        """Score as HFLM does, but never send two requests together that have one input and two split points.

        lm-eval 0.4.13 would take the log-probabilities of one for those of the other.
        """
        more = {} if override_bs is None else {"override_bs": override_bs}
        self._estimate = None
        if requests and not disable_tqdm and self.rank == 0:
            lengths = [min(len(context) + len(continuation), self.max_length) for _, context, continuation in requests]
            self._expect(requests, sum(lengths), sum(map(self._plain_work, lengths)))
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

    def _model_call(self, inps: torch.Tensor, attn_mask: Any = None, labels: Any = None) -> torch.Tensor:
        """Read a batch as HFLM does, and count it for the estimate."""
        if self._estimate is not None:
            self._estimate.look()  # the batch before this one is finished
            length = inps.shape[1] + (0 if labels is None else labels.shape[1])
            self._estimate.add(len(inps) * self._plain_work(length))
        logits: torch.Tensor = super()._model_call(inps, attn_mask=attn_mask, labels=labels)
        return logits

    def _plain_work(self, length: int) -> float:
        """Return what HFLM's path costs for a request of ``length`` tokens: it asks the head for scores at each of them."""
        return self._cost.read(length, length) + length * self._cost.head

    @property
    def _cost(self) -> Costs:
        if self._costs is None:
            self._costs = Costs.of(self._inner)
        return self._costs

    def _expect(self, requests: Sequence[tuple[Any, list[int], list[int]]], tokens: int, work: float) -> None:
        """Begin an estimate of the time that these requests take; see `Amount`."""
        prompts = {text[0] if text else tuple(context) for text, context, _ in requests}
        self._estimate = begin(Amount(len(prompts), len(requests), tokens, work))

    def _score(self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool) -> list[Answer]:
        """Return the answers in the order of the requests; each goes to the cache as soon as it is known."""
        answers: list[Answer | None] = [None] * len(requests)
        self._estimate = None
        self._estimating = not disable_tqdm and self.rank == 0
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
        if None in answers:
            raise RuntimeError("a request has no answer")
        return [answer for answer in answers if answer is not None]

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), device=self.device)

    def _settle(self, head: VocabularyHead, hidden: torch.Tensor, scores: _Scores) -> None:
        """Add the log-probabilities of ``scores`` to their requests; ``hidden`` has shape (positions, width)."""
        if not scores.rows:
            return
        needed, rows = np.unique(scores.rows, return_inverse=True)
        logprobs, greedy = head(
            hidden[self._tensor(needed).to(hidden.device)], self._tensor(rows), self._tensor(scores.targets)
        )
        for owner, logprob, likeliest in zip(scores.owners, logprobs.tolist(), greedy.tolist(), strict=True):
            owner.total += logprob
            owner.greedy = owner.greedy and likeliest
        if self._estimate is not None:
            self._estimate.add(len(scores.targets) * self._cost.head)
            self._estimate.look()

    # ------------------------------------------------------------ decoder-only models

    def _score_causal(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], done: Callable[[Sequence[_Request]], None]
    ) -> None:
        """Score packs of requests that begin alike; their inputs are cut from the left as HFLM does."""
        by_input: _ByInput = {}
        for i, (text, context, continuation) in enumerate(requests):
            inputs = tuple((context + continuation)[-(self.max_length + 1) :][:-1])
            by_input.setdefault(inputs, []).append(_Request(i, text, continuation))
        sequences = sorted(by_input)
        head = VocabularyHead(self._inner.get_output_embeddings(), dtype=self.softmax_dtype)
        first = 0
        while first < len(sequences):
            left = sequences[first:]
            stem: _Stem | None = None
            packs = list(make_packs(left, self.row_tokens, self.pack_tokens))
            if first == 0 and self._estimating:
                tokens, reading = amount_of_packs(packs, left, self.row_tokens, self._cost)
                scored = sum(len(continuation) for _, _, continuation in requests)
                self._expect(requests, tokens, reading + scored * self._cost.head)
            for pack in packs:
                owners = [request for i in pack.paths for request in by_input[left[i]]]
                try:
                    stem = self._stem_of(pack, left, stem)
                    self._score_pack(pack, left, by_input, stem, head)
                except torch.OutOfMemoryError as error:
                    self._take_smaller_rows(owners, error)
                    break
                done(owners)
                first += len(pack.paths)

    def _take_smaller_rows(self, unfinished: Sequence[_Request], error: Exception) -> None:
        """Halve the rows, and forget what was scored of the requests that did not fit; raise ``error`` at the end of that."""
        if self.row_tokens < _SMALLEST_ROW:
            raise error
        self.row_tokens //= 2
        self.decoder_row_tokens //= 2
        self.source_tokens //= 2
        for request in unfinished:
            request.total, request.greedy = 0.0, True
        torch.cuda.empty_cache()
        logger.info("out of memory; reading %d tokens at once from here on", self.row_tokens)

    def _stem_of(self, pack: Pack, sequences: Sequence[tuple[int, ...]], stem: _Stem | None) -> _Stem | None:
        """Return the stem of a pack, read if it is not the last one."""
        if not pack.stem:
            return None
        if stem is not None and stem.owner == pack.owner:
            return stem
        cache = _Trunk()
        hidden = self._read(np.asarray(sequences[pack.owner][: pack.stem]), None, None, cache)
        cache.complete = True
        return _Stem(pack.owner, cache, hidden)

    def _score_pack(
        self,
        pack: Pack,
        sequences: Sequence[tuple[int, ...]],
        by_input: _ByInput,
        stem: _Stem | None,
        head: VocabularyHead,
    ) -> None:
        if stem is not None:
            whole = dict.fromkeys(pack.paths, np.arange(pack.stem))
            self._settle(head, stem.hidden, _segment_scores(whole, 0, sequences, by_input))
        cache = _Trunk(stem.cache if stem else None) if pack.branches or stem else None
        if len(pack.tokens):
            hidden = self._read(pack.tokens, pack.positions, pack.trunk_mask(), cache)
            self._settle(head, hidden, _segment_scores(pack.paths, pack.stem, sequences, by_input))
        if cache is not None:
            cache.complete = True
        for row in rows_of(pack.branches, sequences, self.row_tokens):
            self._score_row(pack, row, sequences, by_input, head, cache)

    def _score_row(
        self,
        pack: Pack,
        row: Sequence[Branch],
        sequences: Sequence[tuple[int, ...]],
        by_input: _ByInput,
        head: VocabularyHead,
        cache: _Trunk | None,
    ) -> None:
        parts = [sequences[branch.sequence][branch.start :] for branch in row]
        lengths = [len(part) for part in parts]
        tokens = np.concatenate([np.asarray(part) for part in parts])
        positions = np.concatenate([np.arange(b.start, b.start + n) for b, n in zip(row, lengths, strict=True)])
        owners = np.repeat(np.arange(len(row)), lengths)
        anchors = np.repeat([branch.anchor for branch in row], lengths)
        hidden = self._read(tokens, positions, branch_mask(pack, owners, anchors), cache)
        scores = _Scores()
        offset = 0
        for branch, length in zip(row, lengths, strict=True):
            for request in by_input[sequences[branch.sequence]]:
                count = min(len(request.targets), length)  # the others were scored before
                scores.add(request, range(offset + length - count, offset + length), request.targets[-count:])
            offset += length
        self._settle(head, hidden, scores)

    def _read(self, tokens: Any, positions: Any, mask: Any, cache: Cache | None) -> torch.Tensor:
        """Return the final hidden states of one row, shape (row, width); plainly causal without a mask."""
        arguments: dict[str, Any] = {"input_ids": self._tensor(tokens)[None], "use_cache": cache is not None}
        if cache is not None:
            arguments["past_key_values"] = cache
        bias = self._bias(mask)
        if self._estimate is not None:
            keys = len(tokens) if bias is None else bias.shape[1]
            self._estimate.add(self._cost.read(len(tokens), keys))
        if bias is not None:
            arguments["attention_mask"] = bias[None, None]
            arguments["position_ids"] = self._tensor(positions)[None]
        hidden: torch.Tensor = self._inner.base_model(**arguments).last_hidden_state[0]
        return hidden

    def _bias(self, mask: NDArray[np.bool_] | None) -> torch.Tensor | None:
        """Return what to add to attention scores where ``mask``, shape (row, keys), says what sees what; None for none."""
        if mask is None:
            return None
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
        waiting = sorted(contexts, key=len)
        if self._estimating:
            read = [(len(context), sum(map(len, by_input))) for context, by_input in contexts.items()]
            work = sum(self._pair_work(source, target) for source, target in read)
            self._expect(requests, sum(map(sum, read)), work)
        while waiting:
            group = _group(waiting, self.source_tokens)
            # The number of its context stands before each candidate: different contexts share nothing.
            by_input = {
                (k, *inputs): kept for k, context in enumerate(group) for inputs, kept in contexts[context].items()
            }
            owners = [request for kept in by_input.values() for request in kept]
            try:
                self._score_group(group, by_input, decoder, head)
            except torch.OutOfMemoryError as error:
                self._take_smaller_rows(owners, error)
                continue
            done(owners)
            del waiting[: len(group)]

    def _pair_work(self, source: int, target: float) -> float:
        """Return what a context of ``source`` tokens costs with candidates of ``target`` tokens together.

        Half of the body is the encoder's. What candidates have in common counts for each, as that is known without a tree.
        """
        attention = self._cost.attention * (source * source + target * source)
        return (source + target) * self._cost.body / 2 + target * self._cost.head + attention

    def _score_group(
        self, group: Sequence[tuple[int, ...]], by_input: _ByInput, decoder: PackedDecoder, head: VocabularyHead
    ) -> None:
        """Score the candidates of some contexts that are encoded together."""
        sequences = sorted(by_input)
        packs = list(make_packs(sequences, self.decoder_row_tokens, self.decoder_row_tokens, stems=False))
        decoder.encode(group, keep=len(packs) > 1)
        if self._estimate is not None:
            targets = np.bincount([inputs[0] for inputs in sequences], [len(inputs) - 1 for inputs in sequences])
            pairs = zip(map(len, group), targets.tolist(), strict=True)
            self._estimate.add(sum(self._pair_work(source, target) for source, target in pairs))
        source = np.repeat(np.arange(len(group)), [len(context) for context in group])
        for pack in packs:
            pack, about = pack.without_roots()
            mask = self._bias(pack.trunk_mask())
            positions = None if mask is None else self._tensor(pack.positions)
            across = self._bias(about[:, None] == source[None, :]) if len(group) > 1 else None
            hidden = decoder.read(self._tensor(pack.tokens), positions, mask, across)
            self._settle(head, hidden, _segment_scores(pack.paths, 0, sequences, by_input))


def _group(contexts: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Return the first contexts, shortest first, that padded to one length have at most ``most`` tokens; at least one."""
    count = 1
    while count < len(contexts) and (count + 1) * len(contexts[count]) <= most:
        count += 1
    return list(contexts[:count])


def _segment_scores(
    paths: Mapping[int, Ints], begin: int, sequences: Sequence[tuple[int, ...]], by_input: _ByInput
) -> _Scores:
    """Return what can be scored of targets whose inputs lie in one segment of their sequences.

    Args:
        paths: sequence -> the rows of its segment.
        begin: where the segment begins in each sequence.
        sequences: all of them.
        by_input: the requests of each.
    """
    scores = _Scores()
    for i, path in paths.items():
        for request in by_input[sequences[i]]:
            start = len(sequences[i]) - len(request.targets)  # of the scored part
            rows = path[max(start - begin, 0) :].tolist()
            skipped = max(begin - start, 0)
            scores.add(request, rows, request.targets[skipped : skipped + len(rows)])
    return scores
