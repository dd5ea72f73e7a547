"""Text metrics as functions of one form: ``(hypotheses, sources, references) -> scores``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError, reason_of

Texts: TypeAlias = Sequence[str]
#: ``(hypotheses, sources, references) -> scores``, one per hypothesis, higher is better; each has a list of references.
Metric: TypeAlias = Callable[[Texts, Texts, Sequence[Texts]], list[float]]
_BATCH = 16


@dataclass(frozen=True)
class SetMetric:
    """A metric of a set of texts against a set of references, which need not correspond.

    Attributes:
        score: ``(hypotheses, references) -> score``, higher is better.
    """

    score: Callable[[Texts, Texts], float]


def _import(metric: str, module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NNDError(f"metric {metric} needs {package}: pip install {package} ({reason_of(error)})") from error


@contextmanager
def _naming_model(metric: str, model: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # transformers and the packages raise many kinds
        raise NNDError(f"metric {metric}: {model} cannot be used ({reason_of(error)})") from error


# ---------------------------------------------------------------- metrics without a model


def score_each(name: str, hypotheses: Texts, sources: Texts, references: Sequence[Texts]) -> list[float]:
    """Score each text against its references with one of `METRICS`.

    - ``bleu`` and ``chrf``: of sentences, by sacrebleu with its default settings, 0 to 100.
    - ``rouge1``, ``rouge2``, ``rougel``: F-measure of rouge-score, 0 to 1; the highest over several references.
    - ``meteor``: of nltk, 0 to 1; it needs WordNet.

    Raises:
        NNDError: its package is missing, or WordNet.
    """
    score = _load_score(name)
    try:
        return [float(score(text, list(refs))) for text, refs in zip(hypotheses, references, strict=True)]
    except LookupError as error:
        raise NNDError(f"metric {name} needs the data of WordNet: python -m nltk.downloader wordnet") from error


def _load_score(name: str) -> Callable[[str, list[str]], float]:
    if name == "meteor":
        meteor = _import(name, "nltk.translate.meteor_score", "nltk").meteor_score
        return lambda text, refs: meteor([ref.split() for ref in refs], text.split())
    if name in ("bleu", "chrf"):
        sentence = getattr(_import(name, "sacrebleu", "sacrebleu"), f"sentence_{name}")
        return lambda text, refs: sentence(text, refs).score
    kind = name.replace("l", "L")
    scorer = _import(name, "rouge_score.rouge_scorer", "rouge-score").RougeScorer([kind], use_stemmer=False)
    return lambda text, refs: max(scorer.score(ref, text)[kind].fmeasure for ref in refs)


# ---------------------------------------------------------------- metrics with a model


def bertscore(model: str, hypotheses: Texts, sources: Texts, references: Sequence[Texts]) -> list[float]:
    """F-measure of BERTScore; the highest over several references.

    Args:
        model: name or folder of an encoder. For models that the package knows by name it also chooses the layer; of others the
            last layer is taken.
        hypotheses: the texts to score.
        sources: not used.
        references: references of each text.

    Raises:
        NNDError: the package is missing, or the model cannot be loaded.
    """
    package = _import("bertscore", "bert_score", "bert-score")
    from transformers import AutoConfig

    with _naming_model("bertscore", model):
        layers = package.utils.model2layers.get(model) or AutoConfig.from_pretrained(model).num_hidden_layers
        scores = package.score(list(hypotheses), list(map(list, references)), model_type=model, num_layers=layers)[2]
    return list(map(float, scores))


def mauve(model: str) -> SetMetric:
    """Return MAUVE (Pillutla et al., 2021), 0 to 1, on the last hidden state of the last token.

    Args:
        model: name or folder of a decoder or encoder.

    Raises:
        NNDError: the package is missing, or the model cannot be loaded.
    """
    package = _import("mauve", "mauve", "mauve-text")
    from transformers import AutoModel, AutoTokenizer

    with _naming_model("mauve", model):
        tokenizer = AutoTokenizer.from_pretrained(model)
        network = AutoModel.from_pretrained(model, dtype="float32", device_map="auto").eval()
    known: dict[str, NDArray[np.float32]] = {}

    def score(hypotheses: Texts, references: Texts) -> float:
        p, q = (_features(texts, tokenizer, network, known) for texts in (references, hypotheses))
        return float(package.compute_mauve(p_features=p, q_features=q, verbose=False).mauve)

    return SetMetric(score)


def _features(texts: Texts, tokenizer: Any, network: Any, known: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the features of texts, shape (texts, width); ``known`` (text -> features) gets those that it lacks."""
    import torch

    tokenizer.padding_side = "right"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    window = min(getattr(network.config, "max_position_embeddings", None) or 1024, 1024)
    waiting = sorted({text for text in texts if text not in known}, key=len)
    for start in range(0, len(waiting), _BATCH):
        batch = waiting[start : start + _BATCH]
        tokens = tokenizer(
            [text or tokenizer.eos_token or "" for text in batch],
            padding=True,
            truncation=True,
            max_length=window,
            return_tensors="pt",
        ).to(network.device)
        mask = tokens["attention_mask"]
        with torch.no_grad():
            states = network(input_ids=tokens["input_ids"], attention_mask=mask).last_hidden_state
        last = states[torch.arange(len(batch)), mask.sum(1) - 1].float().cpu().numpy()
        known.update(zip(batch, last, strict=True))
    return np.stack([known[text] for text in texts])


def bartscore(variant: str, lm: Any, hypotheses: Texts, sources: Texts, references: Sequence[Texts]) -> list[float]:
    """Mean log-likelihood per token under an encoder-decoder (Yuan et al., 2021).

    Args:
        variant: ``p`` (reference to hypothesis), ``r`` (hypothesis to reference), ``f`` (their mean) or ``faithful`` (source
            to hypothesis); the mean over several references.
        lm: a `SharedPrefixLM` of an encoder-decoder.
        hypotheses: the texts to score.
        sources: what each text was written from.
        references: references of each text.
    """
    if variant == "f":
        both = (bartscore(part, lm, hypotheses, sources, references) for part in "pr")
        return [(p + r) / 2 for p, r in zip(*both, strict=True)]
    pairs = [
        [(source, text)] if variant == "faithful" else [(ref, text) if variant == "p" else (text, ref) for ref in refs]
        for text, source, refs in zip(hypotheses, sources, references, strict=True)
    ]
    wanted = list({pair for some in pairs for pair in some})
    encoded = [(pair, *lm._encode_pair(*pair)) for pair in wanted]
    sums = lm._loglikelihood_tokens(encoded, disable_tqdm=True)
    known = {pair: total / len(target) for (pair, _, target), (total, _) in zip(encoded, sums, strict=True)}
    return [fmean(known[pair] for pair in some) for some in pairs]


@lru_cache(maxsize=1)
def _seq2seq(model: str) -> Any:
    """Return a `SharedPrefixLM` of an encoder-decoder, remembered for the next variant."""
    import torch

    from nnd_tasks.models.shared_prefix import SharedPrefixLM

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with _naming_model("bartscore", model):
        return SharedPrefixLM(pretrained=model, backend="seq2seq", dtype="float32", device=device)


# ---------------------------------------------------------------- by name

#: Name -> metric, of those that need no model.
METRICS: Mapping[str, Metric] = {
    name: partial(score_each, name) for name in ("bleu", "chrf", "rouge1", "rouge2", "rougel", "meteor")
}
_BART = [f"bartscore_{variant}" for variant in ("p", "r", "f", "faithful")]
#: The metric that needs the source and no reference.
FAITHFUL = _BART[-1]


def split_metrics(text: str) -> dict[str, str]:
    """Return name -> model, or "", of metrics as users name them: ``rouge2,bertscore=FOLDER,bartscore=FOLDER``.

    ``bartscore`` stands for its four variants.

    Raises:
        NNDError: it names none.
    """
    models: dict[str, str] = {}
    for part in filter(str.strip, text.split(",")):
        name, _, model = map(str.strip, part.partition("="))
        models |= dict.fromkeys(_BART if name == "bartscore" else [name], model)
    if not models:
        raise NNDError("--metrics: empty; give names separated by commas, such as rouge2,bleu")
    return models


def find_metric(name: str, model: str = "") -> Metric | SetMetric:
    """Return a metric.

    Args:
        name: of `METRICS`, ``bertscore``, ``mauve``, or ``bartscore_`` and a variant.
        model: name or folder of the encoder of BERTScore, the model of MAUVE, or the encoder-decoder of BARTScore.

    Raises:
        NNDError: there is no such metric, or its model is not named or cannot be loaded.
    """
    if name in METRICS:
        return METRICS[name]
    names = ("bertscore", "mauve", *_BART)
    if name not in names:
        raise NNDError(f"there is no metric {name!r}; there are: {', '.join((*METRICS, *names))}")
    if not model:
        raise NNDError(f"metric {name} needs a model: --metrics {name}=FOLDER")
    if name == "mauve":
        return mauve(model)
    if name == "bertscore":
        return partial(bertscore, model)
    return partial(bartscore, name.removeprefix("bartscore_"), _seq2seq(model))
