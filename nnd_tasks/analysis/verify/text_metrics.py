"""Text metrics as functions of one form: ``(hypotheses, sources, references) -> scores``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from statistics import fmean
from typing import Any

import torch

from nnd_tasks.analysis.verify.embeddings import SetMetric, bertscore, mauve, missing
from nnd_tasks.errors import NNDError, reason_of

#: Returns one score per hypothesis, higher is better; ``references`` holds a list of references for each hypothesis.
Metric = Callable[[Sequence[str], Sequence[str], Sequence[Sequence[str]]], list[float]]


def sacre(
    kind: str, hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]
) -> list[float]:
    """Sentence BLEU or chrF of sacrebleu with its default settings, 0 to 100."""
    try:
        import sacrebleu
    except ImportError as error:
        raise missing(kind, "sacrebleu", error) from error
    score = getattr(sacrebleu, f"sentence_{kind}")
    return [score(text, list(refs)).score for text, refs in zip(hypotheses, references, strict=True)]


def rouge(
    kind: str, hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]
) -> list[float]:
    """F-measure of rouge-score, 0 to 1; the highest over several references."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise missing(kind, "rouge-score", error) from error
    scorer = RougeScorer([kind], use_stemmer=False)
    return [
        max(scorer.score(ref, text)[kind].fmeasure for ref in refs)
        for text, refs in zip(hypotheses, references, strict=True)
    ]


def meteor(hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """METEOR of nltk, 0 to 1; it needs WordNet."""
    try:
        from nltk.translate.meteor_score import meteor_score

        return [
            float(meteor_score([ref.split() for ref in refs], text.split()))
            for text, refs in zip(hypotheses, references, strict=True)
        ]
    except ImportError as error:
        raise missing("meteor", "nltk", error) from error
    except LookupError as error:
        raise NNDError("metric meteor needs the data of WordNet: python -m nltk.downloader wordnet") from error


def bartscore(
    variant: str, lm: Any, hypotheses: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]
) -> list[float]:
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
    pairs = []
    for text, source, refs in zip(hypotheses, sources, references, strict=True):
        if variant == "faithful":
            pairs.append([(source, text)])
        else:
            pairs.append([(ref, text) if variant == "p" else (text, ref) for ref in refs])
    wanted = list({pair for some in pairs for pair in some})
    encoded = [(pair, *lm._encode_pair(*pair)) for pair in wanted]
    sums = lm._loglikelihood_tokens(encoded, disable_tqdm=True)
    known = {pair: total / len(target) for (pair, _, target), (total, _) in zip(encoded, sums, strict=True)}
    return [fmean(known[pair] for pair in some) for some in pairs]


#: Name -> adapter, of metrics that need no model.
METRICS: Mapping[str, Metric] = {
    **{kind: partial(sacre, kind) for kind in ("bleu", "chrf")},
    **{kind.lower(): partial(rouge, kind) for kind in ("rouge1", "rouge2", "rougeL")},
    "meteor": meteor,
}
_BART = "bartscore_"
_VARIANTS = ("p", "r", "f", "faithful")
#: The metric that needs the source and no reference.
FAITHFUL = f"{_BART}faithful"
NAMES = (*METRICS, "bertscore", "mauve", *(f"{_BART}{variant}" for variant in _VARIANTS))


def find_metric(name: str, model: str | None = None, encoder: str | None = None) -> Metric | SetMetric:
    """Return the adapter of a metric.

    Args:
        name: one of `NAMES`.
        model: folder or name of an encoder-decoder, for BARTScore.
        encoder: folder or name of the model whose embeddings BERTScore and MAUVE compare.

    Raises:
        NNDError: there is no such metric, or its model is not named or cannot be loaded.
    """
    if name in METRICS:
        return METRICS[name]
    if name not in NAMES:
        raise NNDError(f"there is no metric {name!r}; there are: {', '.join(NAMES)}")
    if name == "bertscore":
        return partial(bertscore, encoder)
    if name == "mauve":
        return mauve(encoder)
    if model is None:
        raise NNDError(f"metric {name} needs an encoder-decoder: --model FOLDER")
    return partial(bartscore, name.removeprefix(_BART), _seq2seq(model))


@lru_cache(maxsize=1)
def _seq2seq(model: str) -> Any:
    """Return a `SharedPrefixLM` of an encoder-decoder, remembered for the next metric."""
    from nnd_tasks.models.shared_prefix import SharedPrefixLM

    try:
        return SharedPrefixLM(
            pretrained=model, backend="seq2seq", dtype="float32", device="cuda" if torch.cuda.is_available() else "cpu"
        )
    except Exception as error:  # transformers raises many kinds
        raise NNDError(f"--model {model}: no encoder-decoder could be loaded ({reason_of(error)})") from error
