"""Mean log-likelihoods of texts from a model, outside a task: what a search or a model's own texts need."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand
from nnd_tasks.results.model_names import short_names
from nnd_tasks.run.adapter import parse_model_args
from nnd_tasks.task.lengths import TokenCounter
from nnd_tasks.task.request import make_requests


class Scorer:
    """A model of lm-eval's type ``hf`` that scores texts as the tasks do.

    Args:
        model: folder or name of a causal or sequence-to-sequence model of transformers.
        name: for people.
        model_args: further arguments, as for lm-eval.
        batch_size: texts that it reads at once.

    Attributes:
        name: for people.
        counter: counts its tokens.
        lm: lm-eval's model, within `loaded`.

    Raises:
        NNDError: there is no such model, or it has no tokenizer.
    """

    def __init__(self, model: str, name: str, *, model_args: str = "", batch_size: int = 1) -> None:
        path = expand(model)
        pretrained = str(path) if path.exists() else model
        self.name = name
        self.lm: Any = None
        self._batch_size = batch_size
        self._arguments = {"softmax_dtype": "float32", **parse_model_args(model_args), "pretrained": pretrained}
        self.counter = TokenCounter(self._arguments, "hf")

    @contextmanager
    def loaded(self) -> Iterator[Any]:
        """Load the model, and give its memory back at the end.

        Raises:
            NNDError: it cannot be loaded.
        """
        from nnd_tasks.models.shared_prefix import SharedPrefixLM

        try:
            # lm-eval takes the CPU where there is no such GPU.
            self.lm = SharedPrefixLM(**self._arguments, device="cuda:0", batch_size=self._batch_size)
        except Exception as error:  # transformers raises many kinds
            raise NNDError(f"the model {self.name} cannot be loaded ({typed_reason_of(error)})") from error
        try:
            yield self.lm
        finally:
            self.lm = None
            gc.collect()

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the mean log-likelihood per token, in nats, of each text after its context.

        It is ``-inf`` for a text without a token of its own, and for one that does not fit the window with its whole context.

        Args:
            pairs: (context, text).
        """
        lengths = [self.counter.lengths(*pair) if pair[1].strip() else (0, 0) for pair in pairs]
        means = [-math.inf] * len(pairs)
        fitting = [
            i for i, (context, tokens) in enumerate(lengths) if tokens and not self.counter.overlong(context, tokens)
        ]
        requests = make_requests("loglikelihood", [pairs[i] for i in fitting])
        answers = self.lm.loglikelihood(requests, disable_tqdm=True) if requests else ()
        for i, (total, _) in zip(fitting, answers, strict=True):
            means[i] = float(total) / lengths[i][1]
        return means


def name_scorers(models: Sequence[str], **settings: Any) -> list[Scorer]:
    """Return a scorer per model, with short names; ``settings`` are those of `Scorer`.

    Raises:
        NNDError: a model is named twice, or cannot be read.
    """
    if len({*models}) < len(models):
        raise NNDError(f"{', '.join(models)}: a model is named twice")
    names = short_names([str(expand(model)) for model in models])
    return [Scorer(model, name, **settings) for model, name in zip(models, names, strict=True)]
