"""``nnd_reward``: reward models answer ``loglikelihood`` with the reward of a text, which is no likelihood."""

from __future__ import annotations

from typing import Any

import torch
from tqdm import tqdm

from nnd_tasks.models.model_error import ModelError
from nnd_tasks.models.text_scorer import TextScorer
from nnd_tasks.models.upstream import register_model

#: The name of this type of models.
REWARD = "nnd_reward"


@register_model(REWARD)
class RewardModel(TextScorer):
    """A model of transformers with a head that gives a text one number; its arguments are those of `TextScorer`.

    Where the tokenizer has a chat template, the context is the user's turn and the continuation the assistant's, without white
    space around them; else they are one text.

    Raises:
        ModelError: the model cannot be loaded, or its head gives several numbers.
    """

    model_type, description, auto_class = REWARD, "reward model", "AutoModelForSequenceClassification"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (outputs := self.model.config.num_labels) != 1:
            raise ModelError(f"nnd_reward: the model gives {outputs} numbers; a reward model gives one (num_labels=1)")
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.model.config.pad_token_id = self.tokenizer.pad_token_id

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
            ids = pad(rows, batch_first=True, padding_value=self.tokenizer.pad_token_id)
            mask = pad([torch.ones_like(row) for row in rows], batch_first=True)
            with torch.inference_mode():
                outputs = self.model(input_ids=ids.to(self._device), attention_mask=mask.to(self._device)).logits
            for index, reward in zip(batch, outputs[:, 0].tolist(), strict=True):
                rewards[index] = (reward, False)
                self.cache_hook.add_partial("loglikelihood", requests[index].args, rewards[index])
        return rewards

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        """Raise ModelError: a text without a context has no reward."""
        raise ModelError("nnd_reward: reward models give no likelihood of whole texts")


def encode_chat(tokenizer: Any, context: str, continuation: str) -> list[int]:
    """Return the tokens of a text after its context, as a reward model reads them."""
    if tokenizer.chat_template is None:
        return list(tokenizer.encode(context + continuation))
    turns = [{"role": "user", "content": context.strip()}, {"role": "assistant", "content": continuation.strip()}]
    return list(tokenizer.apply_chat_template(turns, return_dict=False))
