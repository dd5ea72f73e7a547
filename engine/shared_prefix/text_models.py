"""``nnd_mlm`` and ``nnd_reward``: models that read context and continuation as one text.

Masked language models answer ``loglikelihood`` with pseudo-log-likelihoods, reward models with the reward of a text, which is
no likelihood.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from tqdm import tqdm

from shared_prefix.model_error import ModelError, reason_with_type
from shared_prefix.upstream import LM, TemplateLM, register_model

logger = logging.getLogger("lm_eval.shared_prefix")


class TextScorer(LM):  # type: ignore[misc]
    """A model of transformers that scores a continuation with its context around it.

    Args:
        pretrained: folder or name of the model.
        tokenizer: folder or name of the tokenizer; None takes the model's.
        device: where to run; None takes a GPU if there is one.
        dtype: name of the type of the weights.
        batch_size: number of inputs that are read at once.
        max_length: most tokens of an input, special tokens included; None takes the model's limit.
        revision: revision of the model on the hub.

    Attributes:
        model_type: what ``--model`` names.
        description: such a model, in words.
        auto_class: the class of transformers that loads it.

    Raises:
        ModelError: the model cannot be loaded, or is of another kind.
    """

    backend = "causal"  # context and continuation are one text
    model_type: str
    description: str
    auto_class: str

    def __init__(
        self,
        pretrained: str,
        tokenizer: str | None = None,
        device: str | None = None,
        dtype: str = "float32",
        batch_size: int | str = 16,
        max_length: int | None = None,
        revision: str = "main",
        **unknown: Any,
    ) -> None:
        super().__init__()
        unknown.pop("max_batch_size", None)  # lm-eval passes it to every model
        if unknown:
            raise ModelError(f"{self.model_type} has no argument {min(unknown)}")
        # lm-eval asks for cuda:0 unless it is told otherwise; like its own models, take the CPU where there is no GPU.
        self._device = torch.device((device or "cuda") if torch.cuda.is_available() else "cpu")
        model, self.tokenizer = self.load(pretrained, tokenizer, dtype=dtype, revision=revision)
        self.model = model.to(self._device)
        try:
            self.batch_size = int(batch_size)
        except ValueError as error:
            raise ModelError(f"batch_size={batch_size}: {self.model_type} takes a number") from error
        self.max_length = int(max_length or text_window(model.config, self.tokenizer))

    @classmethod
    def load(
        cls, pretrained: str, tokenizer: str | None = None, *, dtype: str = "float32", revision: str = "main"
    ) -> tuple[Any, Any]:
        """Return a model, ready to score, and its tokenizer.

        Raises:
            ModelError: they cannot be loaded, or are of another kind.
        """
        import transformers

        try:
            loaded = transformers.AutoTokenizer.from_pretrained(tokenizer or pretrained, revision=revision)
            auto_class = getattr(transformers, cls.auto_class)
            model = auto_class.from_pretrained(pretrained, dtype=getattr(torch, dtype), revision=revision)
        except Exception as error:  # transformers raises many kinds
            raise ModelError(
                f"{pretrained}: no {cls.description} could be loaded ({reason_with_type(error)})"
            ) from error
        return model.eval(), loaded

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        """Raise ModelError: such models neither generate text nor score a text without a context."""
        raise ModelError(
            f"{self.model_type}: {self.description}s neither generate text nor score whole texts; take tasks with likelihoods"
        )

    loglikelihood_rolling = generate_until


def text_window(config: Any, tokenizer: Any) -> int:
    """Return the most tokens of an input of a model, special tokens included."""
    window = int(getattr(config, "max_position_embeddings", 512))
    # Their positions begin after the padding token's id.
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        window -= config.pad_token_id + 1
    return min(window, int(tokenizer.model_max_length))


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


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that a tokenizer puts before and after a text."""
    inner, encoded = tokenizer.encode("a", add_special_tokens=False), tokenizer.encode("a", add_special_tokens=True)
    start = next(i for i in range(len(encoded)) if encoded[i : i + len(inner)] == inner)
    return encoded[:start], encoded[start + len(inner) :]


#: The name of this type of models.
REWARD = "nnd_reward"


@register_model(REWARD)
class RewardModel(TextScorer):
    """A model of transformers with a head that gives a text one number; its arguments are those of `TextScorer`.

    Where the tokenizer has a chat template, the context is the user's turn and the continuation the assistant's, without white
    space around them; else they are one text. A reward is what the model itself gives for these tokens alone.

    Raises:
        ModelError: the model cannot be loaded, or its head gives several numbers.
    """

    model_type, description, auto_class = REWARD, "reward model", "AutoModelForSequenceClassification"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (outputs := self.model.config.num_labels) != 1:
            raise ModelError(f"nnd_reward: the model gives {outputs} numbers; a reward model gives one (num_labels=1)")
        # Its config alone says at which token a model reads the reward: the last one that is not the pad token, else the very
        # last (`GenericForSequenceClassification.forward` of transformers 5.23). Another pad token would move it.
        text_config = self.model.config.get_text_config()
        pad = getattr(text_config, "pad_token_id", None)
        self._pad = pad if pad is not None and 0 <= pad < text_config.vocab_size else None
        if self._pad is None and self.batch_size > 1:
            logger.info("%s: the model's config names no pad token, so texts are read one at a time", REWARD)
            self.batch_size = 1

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return (reward, False) of each request (context, continuation).

        Raises:
            ModelError: a text has more tokens than the model reads.
        """
        encoded = [encode_chat(self.tokenizer, *request.args) for request in requests]
        longest = max(map(len, encoded), default=0)
        if longest > self.max_length:
            raise ModelError(f"a text has {longest} tokens, more than the model's window of {self.max_length}")
        order = sorted(range(len(encoded)), key=lambda index: len(encoded[index]))
        rewards = [(0.0, False)] * len(encoded)
        for start in tqdm(range(0, len(order), self.batch_size), disable=disable_tqdm, desc="Rewarding texts"):
            batch = order[start : start + self.batch_size]
            rows = [torch.tensor(encoded[index]) for index in batch]
            pad = torch.nn.utils.rnn.pad_sequence
            ids = pad(rows, batch_first=True, padding_value=self._pad or 0)
            mask = pad([torch.ones_like(row) for row in rows], batch_first=True)
            with torch.inference_mode():
                outputs = self.model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device)).logits
            for index, reward in zip(batch, outputs[:, 0].tolist(), strict=True):
                rewards[index] = (reward, False)
                self.cache_hook.add_partial("loglikelihood", requests[index].args, rewards[index])
        return rewards


def encode_chat(tokenizer: Any, context: str, continuation: str) -> list[int]:
    """Return the tokens of a text after its context, as a reward model reads them."""
    if tokenizer.chat_template is None:
        return list(tokenizer.encode(context + continuation))
    turns = [{"role": "user", "content": context.strip()}, {"role": "assistant", "content": continuation.strip()}]
    return list(tokenizer.apply_chat_template(turns, return_dict=False))
