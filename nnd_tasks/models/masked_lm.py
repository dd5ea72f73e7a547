"""``nnd_mlm``: masked language models answer ``loglikelihood`` with pseudo-log-likelihoods."""

from __future__ import annotations

from typing import Any

import torch
from tqdm import tqdm

from nnd_tasks.models.model_error import ModelError
from nnd_tasks.models.text_scorer import TextScorer
from nnd_tasks.models.upstream import TemplateLM, register_model

#: The name of this type of models.
MASKED = "nnd_mlm"


@register_model(MASKED)
class MaskedLM(TextScorer, TemplateLM):  # type: ignore[misc]
    """A masked language model of transformers, such as BERT or RoBERTa; its arguments are those of `TextScorer`.

    The pseudo-log-likelihood of a continuation is the sum over its tokens of log P(token | all other tokens of context and
    continuation), each masked in turn (Salazar et al., 2020, Eq. 2; the context is never masked).
    """

    model_type, description, auto_class = MASKED, "masked language model", "AutoModelForMaskedLM"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._before, self._after = special_tokens(self.tokenizer)

    @classmethod
    def load(cls, pretrained: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return a masked language model and its tokenizer.

        Raises:
            ModelError: they cannot be loaded, or the tokenizer has no mask token.
        """
        model, tokenizer = super().load(pretrained, *args, **kwargs)
        if tokenizer.mask_token_id is None:
            raise ModelError(f"{pretrained}: its tokenizer has no mask token")
        return model, tokenizer

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text; it is never part of a request."""
        return int(self.tokenizer.sep_token_id)

    @property
    def tokenizer_name(self) -> str:
        """Name or folder of the tokenizer."""
        return str(self.tokenizer.name_or_path)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Tokenize without special tokens; they stand around context and continuation together."""
        return list(self.tokenizer.encode(string, add_special_tokens=False))

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score requests (context, continuation); the context may be empty."""
        encoded: list[tuple[tuple[str, str], list[int], list[int]]] = []
        for request in requests:
            context, continuation = request.args
            pair = self._encode_pair(context, continuation) if context else ([], self.tok_encode(continuation))
            encoded.append(((context, continuation), *pair))
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        answers = []
        for text, context, continuation in tqdm(requests, disable=disable_tqdm, desc="Masking tokens"):
            if not continuation:
                raise ModelError(f"the continuation {text[1]!r} has no token of its own; it cannot be scored")
            answers.append(self._score(context, continuation))
            self.cache_hook.add_partial("loglikelihood", text, answers[-1])
        return answers

    def _score(self, context: list[int], continuation: list[int]) -> tuple[float, bool]:
        room = self.max_length - len(self._before) - len(self._after)
        if len(continuation) > room:
            raise ModelError(f"a continuation has {len(continuation)} tokens, more than the model's window of {room}")
        # A context that is too long loses its beginning, as with lm-eval's models.
        tokens = [*context, *continuation][-room:]
        first = len(self._before) + len(tokens) - len(continuation)
        row = torch.tensor([*self._before, *tokens, *self._after], device=self._device)
        total, greedy = 0.0, True
        for start in range(0, len(continuation), self.batch_size):
            stop = min(start + self.batch_size, len(continuation))
            masked_positions = torch.arange(first + start, first + stop, device=self._device)
            batch = row.repeat(len(masked_positions), 1)
            index = torch.arange(len(masked_positions), device=self._device)
            batch[index, masked_positions] = self.tokenizer.mask_token_id
            with torch.inference_mode():
                logits = self.model(input_ids=batch).logits[index, masked_positions].float()
            targets = row[masked_positions]
            total += float(torch.log_softmax(logits, dim=-1)[index, targets].sum())
            greedy = greedy and bool((logits.argmax(dim=-1) == targets).all())
        return total, greedy

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        """Return pseudo-log-likelihoods of whole texts, each in one window. lm-eval 0.5 gives an empty context, too."""
        texts = [request.args[-1] for request in requests]
        answers = self._loglikelihood_tokens([(("", text), [], self.tok_encode(text)) for text in texts], disable_tqdm)
        return [
            answer if len(request.args) > 1 else answer[0] for request, answer in zip(requests, answers, strict=True)
        ]


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that a tokenizer puts before and after a text."""
    inner, encoded = tokenizer.encode("a", add_special_tokens=False), tokenizer.encode("a", add_special_tokens=True)
    start = next(i for i in range(len(encoded)) if encoded[i : i + len(inner)] == inner)
    return encoded[:start], encoded[start + len(inner) :]
