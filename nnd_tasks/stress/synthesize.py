"""From gold texts to tests: every error type, level and seed."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, TypeAlias

from tqdm import tqdm

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import short_hash
from nnd_tasks.stress import sentences, words  # noqa: F401 - importing them registers their error types
from nnd_tasks.stress.corpora import Gold
from nnd_tasks.stress.masked import load_fill
from nnd_tasks.stress.noise import noise_ratio
from nnd_tasks.stress.registry import ERRORS, ErrorType, Resources
from nnd_tasks.stress.text import Parser, find_pipeline, join

#: Gold texts that a process is given at once.
_CHUNK = 20
#: The N of the tasks' version N-X, to raise when the same plan comes to give other tests.
VERSION = 3
#: Why there is no test: the error left the text unchanged, or gave the same as a lower level or an earlier seed.
UNCHANGED, REPEATED = "unchanged", "repeated"
#: A test as a row of the dataset, or why there is none.
Made: TypeAlias = "dict[str, Any] | str"


@dataclass(frozen=True)
class SynthesisPlan:
    """Everything that the tests depend on.

    Attributes:
        texts: gold texts.
        corpus: all texts of the corpus, for irrelevant sentences and random words.
        levels: error type -> amounts.
        seeds: each error is made once with each.
        keep_last: never move the last sentence of a text.
        ngrams: length -> frequent n-grams.
        ngram_words: length of a text of frequent n-grams, in words.
        pipeline: a spaCy pipeline, by name or folder; None takes the usual one.
        masked: folder of a masked language model, or None.
    """

    texts: tuple[Gold, ...]
    corpus: tuple[str, ...]
    levels: Mapping[str, tuple[float, ...]]
    seeds: tuple[int, ...]
    keep_last: bool = False
    ngrams: Mapping[int, tuple[tuple[str, ...], ...]] | None = None
    ngram_words: int | None = None
    pipeline: str | None = None
    masked: str | None = None

    def key(self, parser: str) -> str:
        """Return a hash that differs between plans; ``parser`` is the name of the plan's parser."""
        parts = [
            [[gold.text, gold.source] for gold in self.texts],
            short_hash(*self.corpus),
            {name: list(amounts) for name, amounts in self.levels.items()},
            [list(self.seeds), self.keep_last, self.ngram_words, self.masked, parser, __version__, VERSION],
            {size: list(map(list, grams)) for size, grams in (self.ngrams or {}).items()},
        ]
        return short_hash(json.dumps(parts, ensure_ascii=False))


@dataclass
class Synthesized:
    """What `synthesize` made.

    Attributes:
        tests: rows of the dataset, one per text, error type, level and seed that gave a new text.
        unchanged: error type -> how often it left a text unchanged.
        repeated: error type -> how often a level or seed gave the same text as a lower level or an earlier seed.
    """

    tests: list[dict[str, Any]]
    unchanged: Counter[str]
    repeated: Counter[str]


def resources_of(plan: SynthesisPlan, parser: Parser, progress: bool = False) -> Resources:
    """Return what the errors of a plan need; `make_tests` adds the source of each text."""
    owned: list[tuple[str, str]] = []
    vocabulary: list[str] = []
    if {"sentence_replacement", "injection", "positioned_error_random"} & set(plan.levels):
        for text in tqdm(plan.corpus, desc="reading the corpus", disable=not progress):
            parsed = parser.parse(text)
            owned += [(join(parsed.words[start:end]), text) for start, end in parsed.sentences]
            vocabulary += [word.text for word in parsed.words if word.spoken]
    return Resources(
        parser=parser,
        sentences=owned,
        vocabulary=list(dict.fromkeys(vocabulary)),
        ngrams=plan.ngrams or {},
        ngram_words=plan.ngram_words,
        keep_last=plan.keep_last,
        fill=load_fill(plan.masked) if plan.masked and "bert_diverge" in plan.levels else None,
    )


def make_tests(gold: Gold, plan: SynthesisPlan, resources: Resources) -> Iterator[tuple[str, Made]]:
    """Yield (error type, test) for every level and seed, with `UNCHANGED` or `REPEATED` where there is no test.

    All levels of an error draw the same random numbers, so that a higher level adds to a lower one. A test depends on the text,
    the error, its levels up to this one and the seeds alone, not on other texts or errors.
    """
    resources = replace(resources, source=gold.source)
    cluster = short_hash("stress", gold.source, gold.text)
    for name, amounts in plan.levels.items():
        kind = ERRORS[name]
        known: set[str] = set()
        for amount in amounts:
            for seed in plan.seeds:
                rng = random.Random(short_hash(gold.text, name, str(seed)))  # noqa: S311
                noised = kind.make(gold.text, amount, rng, resources)
                if noised == gold.text or not noised.strip():
                    yield name, UNCHANGED
                elif noised in known:
                    yield name, REPEATED
                else:
                    known.add(noised)
                    yield name, _test(gold, cluster, kind, amount, seed, noised)


def _test(gold: Gold, cluster: str, kind: ErrorType, amount: float, seed: int, noised: str) -> dict[str, Any]:
    level = kind.level(amount)
    return {
        "test_id": short_hash(cluster, kind.name, level, str(seed), noised),
        "context_id": cluster,
        "cluster_id": cluster,
        "context": gold.source,
        "high": gold.text,
        "low": noised,
        "category": kind.name,
        "high_first": True,
        "subcategory": level,
        "noise_ratio": noise_ratio(gold.text, noised, switching=kind.switching),
        "seed": seed,
    }


#: What a process of the pool needs; `_start` sets it.
_worker: tuple[SynthesisPlan, Resources] | None = None


def _start(plan: SynthesisPlan) -> None:
    """Prepare a process of the pool."""
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = plan, resources_of(plan, Parser(find_pipeline(plan.pipeline)))


def _made(gold: Gold) -> list[tuple[str, Made]]:
    """Return what `make_tests` yields; runs in a process of the pool."""
    if _worker is None:
        raise RuntimeError("the worker was not started")
    return list(make_tests(gold, *_worker))


def synthesize(plan: SynthesisPlan, parser: Parser, *, workers: int = 1, progress: bool = True) -> Synthesized:
    """Make all tests of a plan.

    Args:
        plan: what to make.
        parser: of the plan's pipeline; other processes load their own.
        workers: number of processes.
        progress: show a progress bar.

    Raises:
        NNDError: a process stopped.
    """
    found = Synthesized([], Counter(), Counter())
    without = {UNCHANGED: found.unchanged, REPEATED: found.repeated}
    try:
        for made in tqdm(
            _each(plan, parser, workers, progress), "making tests", len(plan.texts), unit="text", disable=not progress
        ):
            for name, test in made:
                if isinstance(test, str):
                    without[test][name] += 1
                else:
                    found.tests.append(test)
    except BrokenProcessPool as error:
        raise NNDError(
            "a process of --workers stopped (out of memory?); run the same command again with fewer"
        ) from error
    return found


def _each(plan: SynthesisPlan, parser: Parser, workers: int, progress: bool) -> Iterator[Iterable[tuple[str, Made]]]:
    """Yield what is made of each text."""
    if workers <= 1:
        resources = resources_of(plan, parser, progress)
        yield from (make_tests(gold, plan, resources) for gold in plan.texts)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start, initargs=(plan,)) as pool:
        yield from pool.map(_made, plan.texts, chunksize=_CHUNK)


def frequent_ngrams(texts: Sequence[str], parser: Parser, most: int) -> dict[int, tuple[tuple[str, ...], ...]]:
    """Return the most frequent 3- and 4-grams of words in lower case; those with punctuation are left out.

    Equally frequent n-grams are in alphabetical order.
    """
    counts: dict[int, Counter[tuple[str, ...]]] = {3: Counter(), 4: Counter()}
    for text in texts:
        run: list[str] = []
        for word in [*(word.text.lower() for word in parser.parse(text).words), "."]:
            if word[:1].isalpha():
                run.append(word)
                continue
            for size, counter in counts.items():
                counter.update(zip(*(run[i:] for i in range(size)), strict=False))
            run = []
    return {
        size: tuple(gram for gram, _ in sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:most])
        for size, counter in counts.items()
    }
