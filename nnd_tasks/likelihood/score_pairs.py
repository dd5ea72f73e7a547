"""`score_pairs`: two lists of texts in, a data frame out, without a set or a task.

Known limits: models that keep the log-probability of each token, which are those of transformers and vLLM; no chat template, no
clusters, so no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.rule import Likelihood, normalize, passes
from nnd_tasks.task.request import Request


def score_pairs(
    model: Any,
    contexts: Sequence[str],
    high: Sequence[str],
    low: Sequence[str],
    *,
    delimiter: str = " ",
    **model_args: Any,
) -> pd.DataFrame:
    """Score pairs of texts after their contexts, by the rule of our tasks: is the better text likelier per token?

    Example:
        ``score_pairs("gpt2", ["The sky is"], ["blue."], ["a fish."])["passed"].mean()``

    Args:
        model: name or folder of a model of transformers, such a model (with ``tokenizer=...``), or a ready-made `SharedPrefixLM`.
        contexts: what comes before the texts of each pair, as the model reads it.
        high: the better text of each pair.
        low: its worse text.
        delimiter: between a context and a text; it is scored with the text.
        **model_args: arguments of the model, as for ``--model_args``, such as ``dtype="float32"``.

    Returns:
        A row for each pair: ``context``, ``high``, ``low``; ``sum_high``, ``sum_low``, log-likelihoods in nats; ``tokens_high``,
        ``tokens_low``, the numbers of tokens that they are sums of; ``margin``, the better text's nats per token less the worse
        one's; ``passed``, whether that is above 0.

    Raises:
        NNDError: the lists differ in length, a text is blank or no text, the model cannot be loaded or keeps no tokens, or a text
            has no token.
    """
    from nnd_tasks.run.checks import prepare_model
    from nnd_tasks.run.run import clear_errors
    from shared_prefix.hf_shared_prefix import SharedPrefixLM  # imports torch and transformers

    lists: dict[str, Sequence[str]] = {"contexts": contexts, "high": high, "low": low}
    for name, given in lists.items():
        if isinstance(given, str):
            raise NNDError(f"score_pairs: {name} is one text; expected a list of texts")
        lists[name] = list(given)
    if len({*map(len, lists.values())}) > 1:
        lengths = ", ".join(f"{len(texts)} {name}" for name, texts in lists.items())
        raise NNDError(f"score_pairs: the lists must have one length; there are {lengths}")
    for name, cells in lists.items():
        for row, text in enumerate(cells):
            if not isinstance(text, str) or not (text.strip() or name == "contexts"):
                raise NNDError(f"score_pairs: {name}[{row}] is {text!r}; expected text")
    pairs = pd.DataFrame({"context": lists["contexts"], "high": lists["high"], "low": lists["low"]}, dtype=object)
    requests = [
        Request("loglikelihood", {}, (context, delimiter + text), row)
        for row, (context, *texts) in enumerate(pairs.itertuples(index=False))
        for text in texts
    ]
    with clear_errors():
        if not hasattr(model, "loglikelihood"):
            options: dict[str, Any] = {}
            named = {"pretrained": str(model) if isinstance(model, Path) else model, **model_args}
            arguments = prepare_model("hf", named, options)
            try:
                model = SharedPrefixLM(**arguments, **options)
            except Exception as error:  # transformers raises many kinds
                raise NNDError(f"score_pairs: the model cannot be loaded ({typed_reason_of(error)})") from error
        if not hasattr(model, "token_scores"):
            raise NNDError(f"score_pairs: a ready-made {type(model).__name__} gives sums only; take SharedPrefixLM")
        with patch.object(model, "token_scores", True):
            answers = model.loglikelihood(requests)
    texts = {}
    for which, of_texts in (("high", answers[::2]), ("low", answers[1::2])):
        pairs[f"sum_{which}"] = [total for total, _ in of_texts]
        pairs[f"tokens_{which}"] = [len(answer.logprobs) for answer in of_texts]
        texts[which] = Likelihood(pairs[f"sum_{which}"], pairs[f"tokens_{which}"])
    pairs["margin"] = normalize(texts["high"]) - normalize(texts["low"])
    pairs["passed"] = passes(texts["high"], texts["low"]).astype(bool)
    return pairs
