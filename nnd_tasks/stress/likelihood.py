"""Mean log-likelihoods of texts from a model, outside a task: what a search or a model's own texts need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand, is_missing_path
from nnd_tasks.harness.lengths import TokenCounter


def load_model(name: str, arguments: Mapping[str, Any], device: str | None, batch_size: int | str) -> Any:
    """Return lm-eval's model of type ``hf`` that shares prefixes.

    Args:
        name: of the model, for errors.
        arguments: as for ``--model_args``.
        device: as lm-eval's ``--device``; None takes a GPU where there is one.
        batch_size: as lm-eval's ``--batch_size``.

    Raises:
        NNDError: the model cannot be loaded.
    """
    from nnd_tasks.models.shared_prefix import SharedPrefixLM

    try:
        # lm-eval takes the CPU where there is no such GPU.
        return SharedPrefixLM(**arguments, device=device or "cuda:0", batch_size=batch_size)
    except Exception as error:  # transformers raises many kinds
        raise NNDError(f"the model {name} cannot be loaded ({typed_reason_of(error)})") from error


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
        if is_missing_path(model):
            raise NNDError(f"{model}: there is no such model folder")
        path = expand(model)
        name = str(path) if path.exists() else model
        arguments: dict[str, Any] = {"pretrained": name, "softmax_dtype": "float32"}
        self.counter = TokenCounter(arguments, "hf")
        self.lm = load_model(model, arguments, device, batch_size)

    def fits(self, context: str, text: str) -> bool:
        """Tell whether a text with its whole context fits the model's window, and has a token of its own."""
        prompt, tokens = self.counter.lengths(context, text)
        return tokens > 0 and not self.counter.overlong(prompt, tokens)

    def means(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the mean log-likelihood per token, in nats, of each text after its context.

        Args:
            pairs: (context, text); each has a token of its own.
        """
        requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
        answers = self.lm.loglikelihood(requests, disable_tqdm=True)
        return [float(total) / self.counter.lengths(*pair)[1] for (total, _), pair in zip(answers, pairs, strict=True)]
