"""Text metrics that compare embeddings: BERTScore, and MAUVE, which scores a set of texts as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError, reason_of

#: The default model: that of the paper's MAUVE-GPT2 and of the package ``mauve``.
MAUVE_MODEL = "gpt2-large"
_BATCH = 16


@dataclass(frozen=True)
class SetMetric:
    """A metric of a set of texts against a set of references, which need not correspond.

    Attributes:
        score: ``(hypotheses, references) -> score``, higher is better.
    """

    score: Callable[[Sequence[str], Sequence[str]], float]


def missing(metric: str, package: str, error: Exception) -> NNDError:
    """Return an error that tells a user which package is missing."""
    return NNDError(f"metric {metric} needs {package}: pip install {package} ({reason_of(error)})")


def bertscore(
    model: str | None, hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]
) -> list[float]:
    """F-measure of BERTScore; the highest over several references.

    Args:
        model: name or folder of an encoder; None takes the package's choice for English. For models that the package knows by
            name it also chooses the layer; of others the last layer is taken.
        hypotheses: the texts to score.
        sources: not used.
        references: references of each text.

    Raises:
        NNDError: the package is missing, or the model cannot be loaded.
    """
    try:
        from bert_score import score
        from bert_score.utils import model2layers
    except ImportError as error:
        raise missing("bertscore", "bert-score", error) from error
    settings: dict[str, Any] = {"lang": "en"}
    try:
        if model is not None:
            from transformers import AutoConfig

            layers = model2layers.get(model) or AutoConfig.from_pretrained(model).num_hidden_layers
            settings = {"model_type": model, "num_layers": layers}
        scores = score(list(hypotheses), [list(refs) for refs in references], **settings)[2]
    except Exception as error:  # transformers and the package raise many kinds
        raise NNDError(
            f"metric bertscore: {model or 'its default model'} cannot be used ({reason_of(error)})"
        ) from error
    return [float(value) for value in scores]


def mauve(model: str | None) -> SetMetric:
    """Return MAUVE (Pillutla et al., 2021), 0 to 1, on the last hidden state of the last token.

    Args:
        model: name or folder of a decoder or encoder; None takes `MAUVE_MODEL`.

    Raises:
        NNDError: the package is missing, or the model cannot be loaded.
    """
    try:
        import mauve as package
    except ImportError as error:
        raise missing("mauve", "mauve-text", error) from error
    from transformers import AutoModel, AutoTokenizer

    name = model or MAUVE_MODEL
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        network = AutoModel.from_pretrained(name, dtype=torch.float32).eval()
    except Exception as error:  # transformers raises many kinds
        raise NNDError(f"metric mauve: {name} cannot be loaded ({reason_of(error)})") from error
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    known: dict[str, NDArray[np.float32]] = {}

    def score(hypotheses: Sequence[str], references: Sequence[str]) -> float:
        p, q = (_features(texts, tokenizer, network, known) for texts in (references, hypotheses))
        return float(package.compute_mauve(p_features=p, q_features=q, verbose=False).mauve)

    return SetMetric(score)


def _features(
    texts: Sequence[str], tokenizer: Any, network: Any, known: dict[str, NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return the features of texts, shape (texts, width); ``known`` (text -> features) gets those that it lacks."""
    window = getattr(network.config, "max_position_embeddings", None) or 1024
    encode = partial(tokenizer.encode, truncation=True, max_length=min(window, 1024))
    new = {text: encode(text) or [tokenizer.eos_token_id or 0] for text in dict.fromkeys(texts) if text not in known}
    waiting = sorted(new, key=lambda text: len(new[text]))
    for start in range(0, len(waiting), _BATCH):
        batch = waiting[start : start + _BATCH]
        longest = len(new[batch[-1]])
        tokens = torch.zeros((len(batch), longest), dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for row, text in enumerate(batch):
            tokens[row, : len(new[text])] = torch.tensor(new[text])
            mask[row, : len(new[text])] = 1
        device = network.device
        with torch.no_grad():
            states = network(input_ids=tokens.to(device), attention_mask=mask.to(device)).last_hidden_state
        last = states[torch.arange(len(batch)), mask.sum(1) - 1].float().cpu().numpy()
        known.update(zip(batch, last, strict=True))
    return np.stack([known[text] for text in texts])
