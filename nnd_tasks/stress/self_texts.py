"""Texts that models write from the same prompts, each scored by all of them (He et al., 2023, section 5.4)."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from lm_eval.api.instance import Instance
from tqdm import tqdm

from nnd_tasks.analysis.effects import Floats
from nnd_tasks.analysis.model_names import short_names
from nnd_tasks.datasets import look_up_set, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.stress.corpora import KNOWN, read_corpus
from nnd_tasks.stress.likelihood import Scorer
from nnd_tasks.wording import counted

#: Prompts that are asked at once; each piece has random numbers of its own.
PIECE = 20


@dataclass(frozen=True)
class SelfPlan:
    """What is asked of the models.

    Attributes:
        models: that write and score: folders, or names on the hub; two at least.
        judges: that score only.
        corpus: of the prompts: a corpus of `nnd_tasks.stress.corpora`, or a set that is built here.
        source: folder of the paper's corpora.
        texts: number of prompts, drawn at random; always the same ones.
        words: of each text that are the prompt; 0 takes it whole.
        tokens: that a model writes at most.
        temperature: of the sampling; 0 takes the likeliest token each time.
        top_k: number of likeliest tokens that are sampled from.
        seed: of the sampling.
        model_args: further arguments of all models, as for ``--model_args``.
        device: as for lm_eval.
        batch_size: as for lm_eval; another one draws other texts.
    """

    models: tuple[str, ...]
    corpus: str
    judges: tuple[str, ...] = ()
    source: Path | None = None
    texts: int = 100
    words: int = 20
    tokens: int = 64
    temperature: float = 1.0
    top_k: int = 50
    seed: int = 0
    model_args: str = ""
    device: str | None = None
    batch_size: str = "8"

    def check(self) -> None:
        """Raise NNDError where a value makes no sense."""
        if len(self.models) < 2:
            raise NNDError("--models: name two models or more, separated by commas")
        several = [*self.models, *self.judges]
        if twice := [name for name in several if several.count(name) > 1]:
            raise NNDError(f"--models, --judges: {twice[0]} is named twice")
        least = {"texts": 2, "words": 0, "tokens": 1, "temperature": 0, "top_k": 1, "seed": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if not bound <= value < math.inf:
                raise NNDError(f"--{name.replace('_', '-')} {value}: must be {bound} or more")
        if not self.batch_size.isdigit() or int(self.batch_size) < 1:
            raise NNDError(f"--batch_size {self.batch_size}: must be a whole number, as the texts depend on it")


@dataclass(frozen=True, eq=False)
class SelfScores:
    """Who gave whose texts which scores.

    Attributes:
        scorers: names of the models, then of the judges.
        writers: names of the models, the first of `scorers`.
        scores: mean log-likelihood per token in nats, shape (prompts, scorers, writers); not finite for a text without any
            token, and for one that does not fit the scorer's window.
        tokens: mean number of a text's tokens as its writer counts them, per writer.
        texts: ``prompt``, and a column per writer.
    """

    scorers: list[str]
    writers: list[str]
    scores: Floats
    tokens: list[float]
    texts: pd.DataFrame = field(default_factory=pd.DataFrame)


def score_own_texts(plan: SelfPlan, *, progress: bool = False) -> SelfScores:
    """Let each model write from each prompt, and each model and judge score all texts.

    Args:
        plan: what is asked.
        progress: show bars.

    Raises:
        NNDError: the plan makes no sense, or a model cannot be loaded or has too small a window.
    """
    plan.check()
    prompts = draw_prompts(plan)
    several = (*plan.models, *plan.judges)
    names = short_names(several)
    settings: Any = {"model_args": plan.model_args, "device": plan.device, "batch_size": int(plan.batch_size)}
    scorers = [Scorer(model, name, **settings) for model, name in zip(several, names, strict=True)]
    writers = scorers[: len(plan.models)]
    for scorer, prompt in product(writers, prompts):  # before the first of them writes
        if scorer.counter.overlong(len(scorer.counter.tok_encode(prompt)), plan.tokens):
            raise NNDError(
                f"{scorer.name}: the prompt {prompt[:40]!r}… and {plan.tokens:,} tokens do not fit its window of "
                f"{scorer.counter.window:,}; take fewer --words or --tokens"
            )
    pieces = [range(start, min(start + PIECE, len(prompts))) for start in range(0, len(prompts), PIECE)]
    texts = pd.DataFrame({"prompt": prompts})
    scores = np.full((len(prompts), len(scorers), len(writers)), -math.inf)
    for scorer in writers:
        with scorer.loaded() as lm:
            steps = tqdm(pieces, f"texts of {scorer.name}", disable=not progress)
            texts[scorer.name] = [text for piece in steps for text in _write(lm, plan, prompts, piece)]
    for column, scorer in enumerate(scorers):
        with scorer.loaded():
            for piece in tqdm(pieces, f"scores of {scorer.name}", disable=not progress):
                pairs = [(prompts[i], texts[writer.name][i]) for i in piece for writer in writers]
                scores[piece, column] = np.reshape(scorer.score(pairs), (len(piece), len(writers)))
    tokens = []
    for column, writer in enumerate(writers):
        own = [i for i in range(len(prompts)) if np.isfinite(scores[i, column, column])]
        lengths = [writer.counter.lengths(prompts[i], texts[writer.name][i])[1] for i in own]
        tokens.append(sum(lengths) / max(len(lengths), 1))
    return SelfScores(names, names[: len(writers)], scores, tokens, texts)


def _write(lm: Any, plan: SelfPlan, prompts: Sequence[str], piece: range) -> list[str]:
    """Return the texts that a model writes from some of the prompts."""
    how = {"until": [], "max_gen_toks": plan.tokens, "do_sample": plan.temperature > 0, "temperature": plan.temperature}
    how |= {"top_k": plan.top_k} if plan.temperature else {}
    requests = [Instance("generate_until", {}, (prompts[i], dict(how)), i - piece[0]) for i in piece]
    with _keep_spaces(lm), torch.random.fork_rng():
        torch.manual_seed(plan.seed * 1_000_003 + piece[0])
        return list(lm.generate_until(requests, disable_tqdm=True))


def draw_prompts(plan: SelfPlan) -> list[str]:
    """Return the beginnings of texts that models go on from.

    They are of contexts of a set; of sources of a corpus where it has any; or of its gold texts.

    Raises:
        NNDError: there is no such corpus or set, or it has fewer than two texts that are long enough.
    """
    known = plan.corpus in KNOWN or expand(plan.corpus).is_file()
    folder = None if known or ":" in plan.corpus else look_up_set(plan.corpus)
    if folder is not None and plan.source is None:
        texts = read_table(folder).column("context").to_pylist()
    else:
        texts = [gold.source or gold.text for gold in read_corpus(plan.corpus, plan.source).texts]
    texts = list(dict.fromkeys(texts))
    if plan.words:
        begins = re.compile(rf"\s*(?:\S+\s+){{{plan.words - 1}}}\S+(?=\s)")
        texts = list(dict.fromkeys(match[0] for text in texts if (match := begins.match(text))))
    else:
        texts = [text for text in texts if text.strip()]
    if len(texts) < 2:
        least = f"more than {counted(plan.words, 'word')}" if plan.words else "any word"
        raise NNDError(f"corpus {plan.corpus}: {counted(len(texts), 'text')} of {least}; two are needed (--words)")
    return texts if len(texts) <= plan.texts else random.Random(0).sample(texts, plan.texts)  # noqa: S311


@contextmanager
def _keep_spaces(lm: Any) -> Iterator[None]:
    """Let a model of lm-eval keep the space that its texts begin with; without it they would run into the prompt.

    Tokenizers of the SentencePiece kind drop it where they decode a text alone, so texts are decoded after another token.
    """
    if lm.backend != "causal":
        yield
        return
    plain, first = lm.tok_decode, lm.tok_encode("a", add_special_tokens=False)

    def decode(tokens: Any, skip_special_tokens: bool = True) -> str:
        if not isinstance(tokens, list):
            return str(plain(tokens, skip_special_tokens=skip_special_tokens))
        before, whole = (plain(part, skip_special_tokens=skip_special_tokens) for part in (first, [*first, *tokens]))
        return str(whole[len(before) :])

    lm.tok_decode = decode
    try:
        yield
    finally:
        del lm.tok_decode
