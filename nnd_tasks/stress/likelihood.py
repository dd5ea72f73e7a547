"""Mean log-likelihoods of texts from a model, outside a task: what a search or a model's own texts need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import expand, is_missing_path
from nnd_tasks.harness.lengths import TokenCounter


class Likelihood:
    """A model of lm-eval that scores texts as the tasks do.

    Args:
        model: folder or name of a causal or sequence-to-sequence model of transformers.
        device: as lm-eval's ``--device``; None takes a GPU where there is one.
        batch_size: as lm-eval's ``--batch_size``.

    Attributes:
        lm: lm-eval's model.
        counter: counts its tokens.

    Raises:
        NNDError: the model cannot be loaded.
    """

    def __init__(self, model: str, *, device: str | None = None, batch_size: int | str = 1) -> None:
        from nnd_tasks.models.shared_prefix import SharedPrefixLM

        if is_missing_path(model):
            raise NNDError(f"{model}: there is no such model folder")
        path = expand(model)
        name = str(path) if path.exists() else model
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        arguments: dict[str, Any] = {"pretrained": name, "softmax_dtype": "float32"}
        self.counter = TokenCounter(arguments, "hf")
        try:
            self.lm: Any = SharedPrefixLM(**arguments, device=device, batch_size=batch_size)
        except (OSError, ValueError, RuntimeError, AssertionError) as error:
            raise NNDError(f"{model}: cannot be loaded ({reason_of(error)})") from error

    def fits(self, context: str, text: str) -> bool:
        """Tell whether a text with its whole context fits the model's window, and has a token of its own."""
        prompt, tokens = self.counter.lengths(context, text)
        window = self.counter.window
        return tokens > 0 and (window is None or prompt + tokens <= window + self.counter.room)

    def means(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the mean log-likelihood per token, in nats, of each text after its context.

        Args:
            pairs: (context, text); each has a token of its own.
        """
        requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
        answers = self.lm.loglikelihood(requests, disable_tqdm=True)
        return [float(total) / self.counter.lengths(*pair)[1] for (total, _), pair in zip(answers, pairs, strict=True)]
