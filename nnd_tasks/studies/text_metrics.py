"""Text metrics as functions of one form: ``(hypotheses, sources, references) -> scores``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TypeAlias

from nnd_tasks.errors import NNDError, reason_of

Texts: TypeAlias = Sequence[str]
#: ``(hypotheses, sources, references) -> scores``, one per hypothesis, higher is better; each has a list of references.
Metric: TypeAlias = Callable[[Texts, Texts, Sequence[Texts]], list[float]]


@contextmanager
def _loading(metric: str, model: str = "") -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise NNDError(f"metric {metric} needs the extra metrics of nnd-tasks ({reason_of(error)})") from error
    except Exception as error:  # transformers and the packages raise many kinds
        raise NNDError(f"metric {metric}: {model} cannot be used ({reason_of(error)})") from error


# ---------------------------------------------------------------- metrics without a model


def score_each(name: str, hypotheses: Texts, sources: Texts, references: Sequence[Texts]) -> list[float]:
    """Score each text against its references with one of `METRICS`.

    - ``bleu`` and ``chrf``: of sentences, by sacrebleu with its default settings, 0 to 100.
    - ``rouge1``, ``rouge2``, ``rougel``: F-measure of rouge-score, 0 to 1; the highest over several references.

    Raises:
        NNDError: its package is missing.
    """
    with _loading(name):
        package = import_module("rouge_score.rouge_scorer" if name.startswith("rouge") else "sacrebleu")
    pairs = zip(hypotheses, map(list, references), strict=True)
    if name.startswith("rouge"):
        rouge_type = name.replace("l", "L")
        scorer = package.RougeScorer([rouge_type])
        return [scorer.score_multi(refs, text)[rouge_type].fmeasure for text, refs in pairs]
    return [getattr(package, f"sentence_{name}")(text, refs).score for text, refs in pairs]


#: Name -> metric, of those that need no model.
METRICS: Mapping[str, Metric] = {
    name: partial(score_each, name) for name in ("bleu", "chrf", "rouge1", "rouge2", "rougel")
}


# ---------------------------------------------------------------- metrics with a model


def bertscore(model: str) -> Metric:
    """Return the F-measure of BERTScore; the highest over several references.

    Args:
        model: name or folder of an encoder. For models that the package knows by name it also chooses the layer; of others the
            last layer is taken.

    Raises:
        NNDError: the package is missing, or the model cannot be loaded.
    """
    from transformers import AutoConfig

    with _loading("bertscore", model):
        package = import_module("bert_score")
        layers = package.utils.model2layers.get(model) or AutoConfig.from_pretrained(model).num_hidden_layers

    def score(hypotheses: Texts, sources: Texts, references: Sequence[Texts]) -> list[float]:
        texts = list(hypotheses), list(map(list, references))
        return list(map(float, package.score(*texts, model_type=model, num_layers=layers)[2]))

    return score


def bartscore(model: str) -> Metric:
    """Return BARTScore-faithful: the mean log-likelihood per token of a text, given its source (Yuan et al., 2021).

    Args:
        model: name or folder of an encoder-decoder.

    Raises:
        NNDError: the model cannot be loaded.
    """
    from shared_prefix.hf_shared_prefix import SharedPrefixLM

    with _loading(FAITHFUL, model):
        # On a machine without that GPU lm-eval takes the CPU.
        lm = SharedPrefixLM(pretrained=model, backend="seq2seq", dtype="float32", device="cuda:0")

    def score(hypotheses: Texts, sources: Texts, references: Sequence[Texts]) -> list[float]:
        pairs = [*zip(sources, hypotheses, strict=True)]
        encoded = [(pair, *lm._encode_pair(*pair)) for pair in pairs]
        sums = lm._loglikelihood_tokens(encoded, disable_tqdm=True)
        return [total / len(tokens) for (total, _), (*_, tokens) in zip(sums, encoded, strict=True)]

    return score


#: The metric that needs the source and no reference.
FAITHFUL = "bartscore"
#: Name -> what loads a metric with a model.
_LOADERS: Mapping[str, Callable[[str], Metric]] = {"bertscore": bertscore, FAITHFUL: bartscore}


# ---------------------------------------------------------------- by name


def load_metrics(text: str) -> dict[str, Metric]:
    """Return name -> metric, of metrics as users name them: ``rouge2,bertscore=FOLDER,bartscore=FOLDER``.

    What follows a ``=`` is the name or folder of the encoder of BERTScore, or the encoder-decoder of BARTScore.

    Raises:
        NNDError: there is no such metric, or its model is not named or cannot be loaded.
    """
    metrics = {}
    for entry in text.split(","):
        name, _, model = map(str.strip, entry.partition("="))
        if name in METRICS:
            metrics[name] = METRICS[name]
        elif name not in _LOADERS:
            raise NNDError(f"there is no metric {name!r}; there are: {', '.join((*METRICS, *_LOADERS))}")
        elif not model:
            raise NNDError(f"metric {name} needs a model: --metrics {name}=FOLDER")
        else:
            metrics[name] = _LOADERS[name](model)
    return metrics
