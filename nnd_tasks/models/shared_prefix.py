"""``hf-shared-prefix``: lm-eval's `HFLM`, but what several requests begin with in common is read once.

Requests are sorted by their tokens, whatever task they come from, so that neighbours share as much as possible. The
vocabulary head runs at the scored positions only. Models that are not known to give the same numbers this way, or fail a
check on a small example, are scored as `HFLM` does. `nnd_tasks.models.decoder_only` and
`nnd_tasks.models.encoder_decoder` do the scoring.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from nnd_tasks.models.architectures import layout_of, text_config, why_unsuitable, windows
from nnd_tasks.models.decoder_only import DecoderOnlyScoring
from nnd_tasks.models.encoder_decoder import EncoderDecoderScoring
from nnd_tasks.models.model_error import ModelError, reason_with_type
from nnd_tasks.models.prefix_scoring import Response, ScoredRequest
from nnd_tasks.models.self_check import (
    SHORT,
    Pairs,
    covered,
    lengths_to_shorten,
    long_pairs,
    short_pairs,
    shortened,
    work_of,
    work_per_token,
)
from nnd_tasks.models.token_scores import TokenAnswer
from nnd_tasks.models.upstream import register_model

logger = logging.getLogger("lm_eval.nnd")


@register_model("hf-shared-prefix")
class SharedPrefixLM(DecoderOnlyScoring, EncoderDecoderScoring):
    """`HFLM` with all its arguments, which reads common beginnings of requests once if the model allows it.

    With models in 16-bit types, log-probabilities are computed and summed in float32, unless ``softmax_dtype`` names
    another type.

    Args:
        shared_prefix: False scores every request as `HFLM` does.
        token_scores: whether answers keep the log-probability of every token, see `nnd_tasks.models.token_scores`.
    """

    #: Most multiplications for reading beyond windows before a run, on a CPU and elsewhere: up to about half a minute.
    check_work = 2e12, 2e15

    def __init__(self, *args: Any, shared_prefix: bool = True, token_scores: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.token_scores = token_scores
        if self.device.type != "cpu":  # short rows would leave most of an accelerator idle
            self.row_tokens, self.decoder_row_tokens, self.source_tokens = 4096, 2048, 4096
            self.scan_price = 512
        self._reason: str | None = None if shared_prefix else "shared_prefix=False"
        self._checked = False
        self._covered = ""  # what the check on the model itself read beyond

    # ------------------------------------------------------------ may this model share?

    def why_not(self) -> str | None:
        """Return why requests are scored as `HFLM` does; None if prefixes are shared. The model is checked once."""
        if not self._checked:
            self._checked = True
            if self._reason is None:
                self._reason = why_unsuitable(self.model, self._inner, self.backend) or self._self_check()
            if self._reason is None:
                logger.info("hf-shared-prefix: every distinct token is read once%s", self._checked_on())
            else:
                logger.info("hf-shared-prefix: not sharing prefixes, plain hf instead: %s", self._reason)
                if self.softmax_dtype is None and self._dtype in (torch.bfloat16, torch.float16):
                    logger.warning(
                        "hf-shared-prefix: plain hf will round the log-likelihoods to %s, which makes ties and wrong outcomes; "
                        "add softmax_dtype=float32 to --model_args",
                        str(self._dtype).removeprefix("torch."),
                    )
        return self._reason

    def _checked_on(self) -> str:
        """Return what the model's layers see, and what the check on itself covered, in words, if there is anything to say."""
        layout = layout_of(self._inner.config).describe() if self.backend == "causal" else ""
        about = f" ({layout})" if layout not in ("", "full attention") else ""
        return about + (f", checked {self._covered}" if self._covered else "")

    def _self_check(self) -> str | None:
        """Return how the sums of small random requests differ from the model's own logits; None if they do not.

        For each window or chunk that the config names, some requests are longer than it. Where reading these would take too
        long, the windows are shortened instead.
        """
        if self._inner.get_output_embeddings().weight.is_meta:  # accelerate lends it to the model's own pass only
            return "the vocabulary head is kept on disk or in main memory"
        config = self._inner.config
        size = min(int(text_config(config).vocab_size), len(self.tokenizer))
        lengths = sorted(length for length in windows(config) if length < self.max_length)
        seq2seq = self.backend == "seq2seq"  # its decoder reads candidates only, which are short in this check
        limit = 0 if seq2seq else self.check_work[self.device.type != "cpu"] / work_per_token(self._inner)
        read = [length for i, length in enumerate(lengths) if work_of(lengths[: i + 1]) <= limit]
        can = set() if not seq2seq and layout_of(config).recurrent else lengths_to_shorten(config)
        short = [length for length in lengths if length not in read and length in can]
        self._covered = covered(read, short, [length for length in lengths if length not in read and length not in can])
        pairs = short_pairs(size)
        for length in read:
            pairs += long_pairs(size, length, self.max_length)
        reason = self._difference(pairs)
        if reason is None and short:
            with shortened(config):
                reason = self._difference(long_pairs(size, SHORT, self.max_length) + short_pairs(size))
        return reason

    def _difference(self, pairs: Pairs) -> str | None:
        """Return how the sums of requests differ from those of the model's own logits; None if they do not."""
        requests = [(None, context, continuation) for context, continuation in pairs]
        rows = self.row_tokens, self.decoder_row_tokens, self.scan_price
        try:
            with torch.inference_mode():
                expected = self._own(pairs)
                # Recurrent layers read in levels, with some padding, although there is little to read.
                self.scan_price = 3
                totals = [total for total, _ in self._score(requests, disable_tqdm=True)]
                # Once more with rows so short that there are stems, trunks, branches and several decoder rows.
                self.row_tokens, self.decoder_row_tokens, self.scan_price = 12, 8, rows[2]
                totals += [total for total, _ in self._score(requests, disable_tqdm=True)]
        except Exception as error:  # an unsuitable model can raise anything
            return f"the check on a small example failed ({reason_with_type(error)})"
        finally:
            self.row_tokens, self.decoder_row_tokens, self.scan_price = rows
        precision = torch.finfo(self.mixed_precision_dtype or self._dtype).eps
        for i, total in enumerate(totals):
            own, largest = expected[i % len(pairs)]
            # Each log-probability may be off by some units in the last place of the largest logit.
            allowed = (2e-4 + 4 * precision * largest) * len(pairs[i % len(pairs)][1])
            if not abs(total - own) <= allowed + 1e-5 * abs(own):
                return f"on a small example the sums differ from the model's own ({total:.5f}, {own:.5f})"
        return None

    def _own(self, pairs: Pairs) -> list[tuple[float, float]]:
        """Return for each request the sum of log-probabilities straight from the model's logits, and the largest of these."""
        logits: torch.Tensor | None = None
        found, last = [], None
        for context, continuation in pairs:
            targets = torch.tensor(continuation, device=self.device)
            if self.backend == "seq2seq":
                inputs = torch.tensor([context], device=self.device)
                logits = self._model_call(inputs, attn_mask=torch.ones_like(inputs), labels=targets[None])[0]
            elif logits is None or last != context + continuation:  # neighbours can be one input
                last = context + continuation
                logits = self._model_call(torch.tensor([last[:-1]], device=self.device))[0]
            scored = logits[-len(continuation) :].float()
            chosen = torch.log_softmax(scored, dim=-1).gather(1, targets.to(scored.device)[:, None])
            found.append((float(chosen.sum()), float(scored.abs().max())))
        return found

    # ------------------------------------------------------------ requests

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[Response]:
        """Score requests (context, continuation); see `HFLM`.

        Raises:
            ModelError: a continuation has no token, or more than the window holds.
        """
        for request in requests:
            context, continuation = request.args
            if not continuation or (not context and not self.tok_encode(continuation, add_special_tokens=False)):
                raise ModelError(f"the continuation {continuation!r} has no token; it cannot be scored")
        responses: list[Response] = super().loglikelihood(requests, disable_tqdm=disable_tqdm)
        return responses

    def _loglikelihood_tokens(
        self,
        requests: list[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[Response]:
        """Score requests, each (text, context tokens, continuation tokens); see `HFLM`.

        Raises:
            ModelError: a continuation has no token, or more than the window holds.
        """
        for text, context, continuation in requests:
            shown = repr(text[1]) if text else "a part of a rolling request"
            if not continuation:
                raise ModelError(
                    f"the continuation {shown} has no token of its own after its context; it cannot be scored"
                )
            if not context:
                raise ModelError(f"the context of {shown} has no token")
            if len(continuation) > self.max_length:
                raise ModelError(f"the continuation {shown} has more tokens than the window of {self.max_length}")
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
    ) -> list[Response]:
        """Score as `HFLM` does, but never together two requests that have the same input and different split points.

        lm-eval 0.4.13 would give one of them the log-probabilities of the other.
        """
        more = {} if override_bs is None else {"override_bs": override_bs}
        if self.token_scores:
            with torch.inference_mode():
                return self._plain_with_tokens(requests, disable_tqdm)
        splits: dict[tuple[int, ...], list[int]] = {}
        waves: dict[int, list[int]] = {}
        for i, (_, context, continuation) in enumerate(requests):
            lengths = splits.setdefault(tuple((context + continuation)[:-1]), [])
            if len(context) not in lengths:
                lengths.append(len(context))
            waves.setdefault(lengths.index(len(context)), []).append(i)
        by_request: dict[int, Response] = {}
        for wave in waves.values():
            chosen = [requests[i] for i in wave]
            responses = super()._loglikelihood_tokens(chosen, disable_tqdm=disable_tqdm, **more)
            by_request |= dict(zip(wave, responses, strict=True))
        return [by_request[i] for i in range(len(requests))]

    def _plain_with_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool
    ) -> list[Response]:
        """Score requests each on its own, in batches of padded rows, as `HFLM` does, and keep what each token gets."""
        size = int(self.batch_size) if str(self.batch_size).isdigit() else 1  # auto: HFLM would try sizes
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i][1]) - len(requests[i][2]))
        responses: list[Response] = [(0.0, False)] * len(requests)
        bar = tqdm(total=len(requests), disable=disable_tqdm or self.rank != 0, desc="Running loglikelihood requests")
        for chunk in (order[start : start + size] for start in range(0, len(order), size)):
            pairs = [(requests[i][1], requests[i][2]) for i in chunk]
            if self.backend == "seq2seq":
                inputs = [context[-self.max_length :] for context, _ in pairs]
                seen = pad_sequence([torch.ones(len(row), dtype=torch.long) for row in inputs], batch_first=True)
                labels = self._padded([continuation for _, continuation in pairs])
                logits = self._model_call(self._padded(inputs), attn_mask=seen.to(self.device), labels=labels)
                ends = [len(continuation) for _, continuation in pairs]
            else:
                inputs = [(context + continuation)[-(self.max_length + 1) :][:-1] for context, continuation in pairs]
                logits = self._model_call(self._padded(inputs))
                ends = [len(row) for row in inputs]
            for i, row, end in zip(chunk, logits, ends, strict=True):
                text, _, targets = requests[i]
                scored = torch.log_softmax(row[end - len(targets) : end], dim=-1, dtype=self.softmax_dtype)
                ids = torch.tensor(targets, device=scored.device)
                logprobs = scored.gather(1, ids[:, None])[:, 0]
                greedy = bool((scored.argmax(dim=-1) == ids).all())
                responses[i] = response = TokenAnswer.of(float(logprobs.double().sum()), greedy, logprobs.float().cpu())
                if text is not None:
                    self.cache_hook.add_partial("loglikelihood", text, response)
            bar.update(len(chunk))
        bar.close()
        return responses

    def _padded(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return rows of tokens as one tensor on the device, with zeros after the shorter ones, shape (rows, longest)."""
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(self.device)

    def _score(self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool) -> list[Response]:
        """Return the responses in the order of the requests. Each goes to lm-eval's cache as soon as it is known."""
        responses: list[Response | None] = [None] * len(requests)
        bar = tqdm(
            total=len(requests),
            disable=disable_tqdm or self.rank != 0,
            desc="Running loglikelihood requests, prefixes shared",
        )

        def done(finished: Sequence[ScoredRequest]) -> None:
            for request in finished:
                responses[request.index] = response = request.response()
                if request.text is not None:
                    self.cache_hook.add_partial("loglikelihood", request.text, response)
            bar.update(len(finished))

        score = self.score_encoder_decoder if self.backend == "seq2seq" else self.score_decoder_only
        with torch.autocast(
            device_type=self.device.type,
            dtype=self.mixed_precision_dtype,
            enabled=self.mixed_precision_dtype is not None,
        ):
            score(requests, done)
        bar.close()
        if None in responses:
            raise RuntimeError("a request has no response")
        return [response for response in responses if response is not None]
