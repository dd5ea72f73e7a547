"""What `nnd_mlm` and `nnd_reward` have in common: models that read context and continuation as one text."""

from __future__ import annotations

from typing import Any

import torch

from nnd_tasks.models.model_error import ModelError, reason_with_type
from nnd_tasks.models.upstream import LM


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

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Raise ModelError: such models do not generate text."""
        raise ModelError(
            f"{self.model_type}: {self.description}s do not generate text; take tasks that score likelihoods"
        )


def text_window(config: Any, tokenizer: Any) -> int:
    """Return the most tokens of an input of a model, special tokens included."""
    window = int(getattr(config, "max_position_embeddings", 512))
    # Their positions begin after the padding token's id.
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        window -= config.pad_token_id + 1
    return min(window, int(tokenizer.model_max_length))
