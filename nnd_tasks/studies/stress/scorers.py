"""Models that score texts outside a task, and texts that models write from the same prompts, each scored by all of them.

The second is He et al. (2023), section 5.4: does a model like its own texts best?
"""

from __future__ import annotations

import gc
import math
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from scipy.stats import ttest_1samp
from tqdm import tqdm

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand
from nnd_tasks.results.model_names import short_names
from nnd_tasks.run.checks import read_pairs
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.significance import holm
from nnd_tasks.statistics import summarize_rate
from nnd_tasks.store import look_up_set, read_table
from nnd_tasks.studies.stress.corpora import KNOWN, read_corpus
from nnd_tasks.task.request import engine_errors, make_requests
from nnd_tasks.text import counted
from shared_prefix.lengths import TokenCounter


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
        self._arguments = {
            "softmax_dtype": "float32",
            **read_pairs(model_args, "--model_args"),
            "pretrained": pretrained,
        }
        with engine_errors():
            self.counter = TokenCounter(self._arguments, "hf")

    @contextmanager
    def loaded(self) -> Iterator[Any]:
        """Load the model, and give its memory back at the end.

        Raises:
            NNDError: it cannot be loaded.
        """
        from shared_prefix.hf_shared_prefix import SharedPrefixLM

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


# ---------------------------------------------------------------- texts that models write

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
#: Prompts in one request; each piece has random numbers of its own.
PIECE = 20
#: Prompts that a model reads at once; with another number it draws other texts.
_BATCH = 8
#: Tokens that a model writes at most.
TOKENS = 64
#: How a model writes, as in the paper.
_SAMPLING = {"until": [], "max_gen_toks": TOKENS, "do_sample": True, "temperature": 1.0, "top_k": 50}
_READING = (
    "Scores: mean log-likelihood per token in nats, with 95% intervals over prompts; rows score, columns write. Own less others: "
    "what a model gives its own texts, less what it gives those of others after the same prompt; p is of this, corrected over "
    "the models (Holm). Relative to the others: that, less what other scorers give; above 0 for any models that differ, so "
    "only its size says something. Prefers own: share of pairs (own text, other's text) in which the own one scores higher."
)


def score_own_texts(
    models: Sequence[str],
    corpus: str,
    source: Path | None = None,
    *,
    texts: int = 100,
    words: int = 20,
    judges: Sequence[str] = (),
    model_args: str = "",
) -> Report:
    """Let each model write from each prompt, and each model and judge score all texts; return `report_own_texts`.

    Args:
        models: that write and score: folders, or names on the hub; two at least.
        corpus: what `draw_prompts` takes the prompts from.
        source: folder of the paper's corpora.
        texts: number of prompts; 0 takes all.
        words: of each text that are the prompt; 0 takes it whole.
        judges: that score only.
        model_args: further arguments of all models, as for ``--model_args``.

    Raises:
        NNDError: there are no prompts, a model is named twice, or cannot be loaded, or fewer than two prompts and what follows
            fit into the windows.
    """
    if len(models) < 2:
        raise NNDError("--models: name two models or more, separated by commas")
    prompts = draw_prompts(corpus, source, texts=texts, words=words)
    scorers = name_scorers([*models, *judges], model_args=model_args, batch_size=_BATCH)
    writers = scorers[: len(models)]
    written = pd.DataFrame({"prompt": prompts})
    for scorer in writers:
        with scorer.loaded() as lm:
            _keep_spaces(lm)
            starts = tqdm(range(0, len(prompts), PIECE), f"texts of {scorer.name}", disable=None)
            written[scorer.name] = [
                text for start in starts for text in _write(lm, prompts[start : start + PIECE], start)
            ]
    pairs = [(prompt, text) for prompt, *of_prompt in written.itertuples(index=False) for text in of_prompt]
    scored = []
    for scorer in scorers:
        with scorer.loaded():
            scored.append(np.reshape(scorer.score(pairs), (len(prompts), len(writers))))
    return report_own_texts([scorer.name for scorer in scorers], np.stack(scored, axis=1), written)


def _write(lm: Any, prompts: Sequence[str], seed: int) -> list[str]:
    """The texts that a model writes from prompts."""
    requests = make_requests("generate_until", [(prompt, dict(_SAMPLING)) for prompt in prompts])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return list(lm.generate_until(requests, disable_tqdm=True))


def draw_prompts(corpus: str, source: Path | None = None, *, texts: int = 100, words: int = 20) -> list[str]:
    """Return the beginnings of texts that models go on from.

    They are of contexts of a set; of sources of a corpus where it has any; or of its gold texts.

    Args:
        corpus: as for `nnd_tasks.studies.stress.corpora.read_corpus`, or a set that is built here.
        source: folder of the paper's corpora.
        texts: number of prompts, drawn at random; always the same ones; 0 takes all.
        words: of each text that are the prompt; 0 takes it whole.

    Raises:
        NNDError: there is no such corpus or set, or it has fewer than two texts that are long enough.
    """
    is_corpus = corpus in KNOWN or expand(corpus).is_file()
    if not is_corpus and (corpus in list_recipes() or look_up_set(corpus)):
        originals = read_table(provide_set(corpus)).column("context").to_pylist()
    else:
        originals = [gold.source or gold.text for gold in read_corpus(corpus, source).texts]
    begins = re.compile(rf"\s*(?:\S+\s+){{{words - 1}}}\S+(?=\s)" if words else r"(?s).*\S.*")
    prompts = list(dict.fromkeys(match[0] for text in originals if (match := begins.match(text))))
    if len(prompts) < 2:
        texts_found = f"{counted(len(prompts), 'text')} of more than {counted(words, 'word')}"
        raise NNDError(f"corpus {corpus}: {texts_found}; two are needed (--words)")
    return random.Random(0).sample(prompts, texts) if 0 < texts < len(prompts) else prompts  # noqa: S311


def _keep_spaces(lm: Any) -> None:
    """Let a model of lm-eval keep the space that its texts begin with; without it they would run into the prompt.

    Tokenizers of the SentencePiece kind drop it where they decode a text alone, so texts are decoded after another token.
    """
    if lm.backend != "causal":
        return
    plain, first = lm.tok_decode, lm.tok_encode("a", add_special_tokens=False)

    def decode(tokens: Any, skip_special_tokens: bool = True) -> str:
        if not isinstance(tokens, list):
            return str(plain(tokens, skip_special_tokens=skip_special_tokens))
        before, decoded = (plain(ids, skip_special_tokens=skip_special_tokens) for ids in (first, [*first, *tokens]))
        return str(decoded[len(before) :])

    lm.tok_decode = decode


# ---------------------------------------------------------------- the report


def report_own_texts(scorers: Sequence[str], scored: Floats, texts: pd.DataFrame) -> Report:
    """Return the report on prompts after which every model wrote something that all could score.

    Args:
        scorers: names of the models that write, then of the judges.
        scored: mean log-likelihood per token in nats, shape (prompts, scorers, writers); not finite for a text without any
            token, and for one that does not fit the scorer's window.
        texts: ``prompt``, and a column per writer.

    Raises:
        NNDError: there are fewer than two such prompts.
    """
    complete = np.isfinite(scored).all(axis=(1, 2))
    scores = scored[complete]
    prompts = counted(len(scores), "prompt")
    writers = scorers[: scores.shape[2]]
    if len(scores) < 2:
        raise NNDError(f"only {prompts} after which every model wrote a text that all could score; take more --texts")
    low, high = ttest_1samp(scores, 0).confidence_interval()
    means_given = pd.DataFrame(product(scorers, writers), columns=["scorer", "writer"])
    means_given = means_given.assign(mean=scores.mean(axis=0).ravel(), low=low.ravel(), high=high.ravel())
    biases = pd.DataFrame({"model": model, **_estimate_bias(scores, i)} for i, model in enumerate(writers))
    biases["p_holm"] = holm(biases["p_holm"].tolist())
    left_out = int((~complete).sum())
    lost = f"Left out: {counted(left_out, 'prompt')} after which a model wrote nothing, or a text could not be scored."
    tables = [make_table("given", means_given), make_table("biases", biases)]
    return Report(
        name="self",
        title=f"Self-evaluation: {prompts}",
        tables=tables,
        notes=[_READING, lost] if left_out else [_READING],
        brief=tables[1:2],
        facts={
            "prompts": len(scores),
            "left_out": left_out,
            "texts": texts,
            "scores": {scorer: scored[:, i].tolist() for i, scorer in enumerate(scorers)},
        },
    )


def _estimate_bias(scores: Floats, index: int) -> dict[str, Any]:
    """Return how a model scores its own texts, with p not yet corrected, and 95% intervals.

    ``own`` is its score of its own texts less that of the others, in nats per token; ``relative`` that, less what the other
    scorers give; ``prefers`` the share of pairs with its own text in which that scores higher; ``p_holm`` the p of ``own`` being
    0.

    Args:
        scores: shape (prompts, scorers, writers).
        index: of the model among scorers and writers.
    """
    own_scores, others = scores[:, index], np.delete(scores, index, axis=1).mean(axis=1)
    row: dict[str, Any] = {}
    for name, contrast in (("relative", own_scores - others), ("own", own_scores)):
        differences = contrast[:, index] - np.delete(contrast, index, axis=1).mean(axis=1)
        test = ttest_1samp(differences, 0)
        low, high = test.confidence_interval()
        row |= {name: differences.mean(), f"{name}_low": low, f"{name}_high": high, "p_holm": test.pvalue}
    wins = own_scores[:, [index]] > np.delete(own_scores, index, axis=1)
    low, high = summarize_rate(wins.sum(axis=1), [wins.shape[1]] * len(wins))[2:]
    return {**row, "prefers": wins.mean(), "prefers_low": low, "prefers_high": high}
