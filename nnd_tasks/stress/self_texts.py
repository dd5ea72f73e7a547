"""Texts that models write from the same prompts, each scored by all of them (He et al., 2023, section 5.4).

Everything goes into one folder, in pieces, so that an interrupted run goes on where it stopped: ``settings.json``,
``texts_N_MODEL.jsonl`` (``prompt``, ``text``) and ``scores_N_MODEL.jsonl`` (``prompt``, ``writer``, ``sum``, ``tokens``).
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.utils import simple_parse_args_string
from tqdm import tqdm

from nnd_tasks.analysis.compare.output import file_stem
from nnd_tasks.analysis.effects import Floats
from nnd_tasks.analysis.model_names import short_names
from nnd_tasks.datasets import look_up_set, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, expand, read_text, write_text
from nnd_tasks.folders import only_writer
from nnd_tasks.formats import json_text
from nnd_tasks.harness.lengths import TokenCounter
from nnd_tasks.harness.signature import weights_digest
from nnd_tasks.stress.corpora import KNOWN, read_corpus
from nnd_tasks.stress.likelihood import load_model
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import json_lines, read_json

SETTINGS = "settings.json"
#: Prompts of a piece. A piece is written whole, and has random numbers of its own, so that an interruption changes no text.
PIECE = 20
_MOST_BYTES = 2_000_000_000


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

    def settings(self, prompts: Sequence[str]) -> dict[str, Any]:
        """Return what the texts and scores depend on, but for the devices."""
        parts = ("models", "judges", "corpus", "texts", "words", "tokens", "temperature", "top_k", "seed", "model_args")
        values = {name: getattr(self, name) for name in (*parts, "batch_size")}
        weights = [weights_digest(str(expand(model))) for model in (*self.models, *self.judges)]
        return {**json.loads(json.dumps(values)), "weights": weights, "prompts": list(prompts)}


@dataclass(frozen=True, eq=False)
class SelfScores:
    """Who gave whose texts which scores.

    Attributes:
        scorers: names of the models, then of the judges.
        writers: names of the models, the first of `scorers`.
        scores: mean log-likelihood per token in nats, shape (prompts, scorers, writers); nan for a text without any token.
        tokens: mean number of a text's tokens as its writer counts them, per writer.
    """

    scorers: list[str]
    writers: list[str]
    scores: Floats
    tokens: list[float]


def self_scores(plan: SelfPlan, folder: Path, *, progress: bool = False) -> SelfScores:
    """Let each model write from each prompt, and each model and judge score all texts; what ``folder`` has is not made again.

    Args:
        plan: what is asked.
        folder: gets texts and scores.
        progress: show bars.

    Raises:
        NNDError: the plan makes no sense, the folder holds texts of another plan or is in use, or a model cannot be loaded or
            has too small a window.
    """
    plan.check()
    folder = expand(folder)
    prompts = prompts_of(plan)
    several = (*plan.models, *plan.judges)
    names = short_names([(model, "{}") for model in several])
    files = [f"{number}_{file_stem(name)}.jsonl" for number, name in enumerate(names, start=1)]
    models = [_Model(name, model, plan) for name, model in zip(names, several, strict=True)]
    writers = names[: len(plan.models)]
    for model in models[: len(writers)]:  # before the first of them writes
        model.check_room(prompts)
    with changing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(
            folder / "run", 0.5, f"{folder}: another run writes there; wait for it, or name another --out"
        ):
            _keep_settings(folder / SETTINGS, plan.settings(prompts))
            texts: dict[str, list[str]] = {}
            for model, file in zip(models[: len(writers)], files, strict=False):
                rows = _filled(
                    folder / f"texts_{file}", len(prompts), partial(model.write, prompts), model.name, progress
                )
                texts[model.name] = [row["text"] for row in rows]
                model.unload()
            scores = np.full((len(prompts), len(names), len(writers)), math.nan)
            tokens = np.full((len(prompts), len(writers)), math.nan)
            for column, (model, file) in enumerate(zip(models, files, strict=True)):
                score = partial(model.score, prompts, texts)
                rows = _filled(folder / f"scores_{file}", len(prompts), score, model.name, progress)
                model.unload()
                for number, row in enumerate(rows):
                    for place, writer in enumerate(writers):
                        if one := row["scores"][writer]:
                            scores[number, column, place] = one["sum"] / one["tokens"]
                            if column == place:
                                tokens[number, place] = one["tokens"]
    known = np.isfinite(tokens)
    means = np.where(known, tokens, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return SelfScores(names, writers, scores, means.tolist())


def prompts_of(plan: SelfPlan) -> list[str]:
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


def _keep_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write what the texts of a folder depend on, or raise NNDError where it holds texts of something else."""
    if path.exists():
        earlier = read_json(path, limit=_MOST_BYTES)
        keys = [key for key in settings if not isinstance(earlier, dict) or earlier.get(key) != settings[key]]
        if keys:
            raise NNDError(
                f"{path.parent}: holds texts made with other settings ({', '.join(keys)}); name another folder with --out, or "
                "remove this one"
            )
    else:
        write_text(path, json_text(settings) + "\n")


# ---------------------------------------------------------------- pieces


def _filled(
    path: Path, size: int, make: Callable[[int, int], list[dict[str, Any]]], name: str, progress: bool
) -> list[dict[str, Any]]:
    """Return the rows of a file, one per prompt; those that are not there yet are made, and written piece by piece.

    Args:
        path: of the file.
        size: number of prompts.
        make: returns the rows from one number to another.
        name: of the model, for the bar.
        progress: show a bar.

    Raises:
        NNDError: the file cannot be read or written, or holds something else.
    """
    rows = _read(path) if path.exists() else []
    with tqdm(
        total=size, initial=len(rows), desc=f"{path.name.partition('_')[0]} of {name}", disable=not progress
    ) as bar:
        while len(rows) < size:
            start = len(rows)
            rows += make(start, min(start + PIECE, size))
            write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            bar.update(len(rows) - start)
    return rows


def _read(path: Path) -> list[dict[str, Any]]:
    lines = read_text(path, limit=_MOST_BYTES).split("\n")
    rows: list[dict[str, Any]] = []
    for where, _, row in json_lines(lines, str(path), hint="; remove the file and run again", skip_blank=True):
        fits = isinstance(row, dict) and row.get("prompt") == len(rows)
        if not fits or not isinstance(row.get("text", ""), str) or not isinstance(row.get("scores", {}), dict):
            raise NNDError(f"{where}: is not what this command wrote; remove the file and run again")
        rows.append(row)
    return rows


@contextmanager
def _spaces_kept(lm: Any) -> Iterator[None]:
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


class _Model:
    """A model of lm-eval's type ``hf`` that shares prefixes, with what counts its tokens; it is loaded when it is needed.

    Args:
        name: for people.
        path: folder, or name on the hub.
        plan: says how it is loaded and how it writes.

    Raises:
        NNDError: there is no such model, or it has no tokenizer.
    """

    def __init__(self, name: str, path: str, plan: SelfPlan) -> None:
        self.name, self._plan = name, plan
        self._arguments = {"softmax_dtype": "float32", **simple_parse_args_string(plan.model_args), "pretrained": path}
        self._counter = TokenCounter(self._arguments, "hf")
        self._loaded: Any = None

    @property
    def _lm(self) -> Any:
        if self._loaded is None:
            plan = self._plan
            self._loaded = load_model(self.name, self._arguments, plan.device, int(plan.batch_size))
        return self._loaded

    def unload(self) -> None:
        """Let go of the weights."""
        self._loaded = None

    def check_room(self, prompts: Sequence[str]) -> None:
        """Raise NNDError where a prompt and the text that follows may not fit the window."""
        for prompt in prompts:
            self._check(prompt, len(self._counter.tok_encode(prompt)), self._plan.tokens)

    def _check(self, prompt: str, context: int, tokens: int) -> None:
        if self._counter.overlong(context, tokens):
            raise NNDError(
                f"{self.name}: a prompt of {context:,} tokens and a text of {tokens:,} do not fit its window of "
                f"{self._counter.window:,} ({prompt[:40]!r}…); take fewer --words or --tokens"
            )

    def write(self, prompts: Sequence[str], start: int, end: int) -> list[dict[str, Any]]:
        """Return the texts that the model writes from the prompts ``start`` to ``end``."""
        plan = self._plan
        how = {
            "until": [],
            "max_gen_toks": plan.tokens,
            "do_sample": plan.temperature > 0,
            "temperature": plan.temperature,
        }
        how |= {"top_k": plan.top_k} if plan.temperature else {}
        requests = [
            Instance("generate_until", {}, (prompt, dict(how)), i) for i, prompt in enumerate(prompts[start:end])
        ]
        model = self._lm
        with _spaces_kept(model), torch.random.fork_rng():
            torch.manual_seed(plan.seed * 1_000_003 + start)
            texts = model.generate_until(requests, disable_tqdm=True)
        return [{"prompt": start + i, "text": text} for i, text in enumerate(texts)]

    def score(
        self, prompts: Sequence[str], texts: Mapping[str, Sequence[str]], start: int, end: int
    ) -> list[dict[str, Any]]:
        """Return the log-likelihoods, in nats, of all texts of some prompts; None for a text without any token.

        Args:
            prompts: all of them.
            texts: writer -> text of each prompt.
            start: number of the first prompt.
            end: number after the last one.
        """
        rows: list[dict[str, Any]] = []
        asked: list[tuple[dict[str, Any], str, int]] = []
        requests: list[Instance] = []
        for number, prompt in enumerate(prompts[start:end], start):
            scores: dict[str, Any] = dict.fromkeys(texts)
            rows.append({"prompt": number, "scores": scores})
            for writer, written in texts.items():
                text = written[number]
                context, tokens = self._counter.lengths(prompt, text) if text.strip() else (0, 0)
                if tokens:
                    self._check(prompt, context, tokens)
                    asked.append((scores, writer, tokens))
                    requests.append(Instance("loglikelihood", {}, (prompt, text), len(requests)))
        answers = self._lm.loglikelihood(requests, disable_tqdm=True) if requests else []
        for (given, writer, tokens), (total, _) in zip(asked, answers, strict=True):
            if math.isfinite(total):
                given[writer] = {"sum": float(total), "tokens": tokens}
        return rows
