"""Build a set of synthetic near-negatives: every error type, level and seed in every text."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, groupby, product
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from tqdm import tqdm

from nnd_tasks.errors import NNDError
from nnd_tasks.models.masked_lm import MaskedLM
from nnd_tasks.models.model_error import ModelError
from nnd_tasks.schema import short_hash
from nnd_tasks.show.report import Table
from nnd_tasks.studies.stress.corpora import Corpus, Gold, read_corpus
from nnd_tasks.studies.stress.error_types import NEEDS, ErrorType, choose_errors, choose_levels
from nnd_tasks.studies.stress.set_writing import NewSet, StressSet, compute_noise, make_row
from nnd_tasks.studies.stress.text import Edit, Parser, is_spoken, join, load_parser
from nnd_tasks.wording import counted

_ERRORS = {
    "error": "{error}",
    "what it does": "{definition}",
    "levels": "{levels}",
    "tests": "{tests:,}",
    "texts left as they were": "{unchanged:,}",
    "nothing new at a level or seed": "{repeated:,}",
}


def build_stress_set(
    name: str,
    corpus: str,
    *,
    place: str | Path | None = None,
    errors: str = "all",
    levels: Literal["three", "paper"] = "three",
    texts: int = 200,
    seeds: int = 1,
    spacy: str | None = None,
    mlm: str | None = None,
    out: str | Path | None = None,
    replace: bool = False,
) -> StressSet:
    """Build the set ``name`` of synthetic near-negatives, and the task ``nnd_NAME`` that scores it.

    All levels of an error draw the same random numbers, so that a higher level adds to a lower one. A test depends on the text,
    the error, its levels up to this one and the seeds alone, not on other texts or errors.

    Args:
        name: of the set; letters, digits and ``_``.
        corpus: a corpus of the paper (``wikitext``, ``cnndm``, ``wmt``, ``ted``), or a file.
        place: folder of the paper's corpora.
        errors: ``all``, or names that are separated by commas; ``all`` leaves out those for which the corpus lacks something
            or a package is not installed.
        levels: ``paper``, or ``three`` of these; see `nnd_tasks.studies.stress.error_types.choose_levels`.
        texts: how many of the gold texts, drawn at random with a fixed seed; 0 takes all.
        seeds: how often each error is made, each time with other random choices.
        spacy: a spaCy pipeline; None takes ``en_core_web_sm`` if it is installed.
        mlm: folder of a masked language model, for ``bert_diverge``.
        out: the dataset folder; None takes ``$NND_HOME/nnd/NAME``.
        replace: overwrite a set of this name that was made from other texts, errors or levels.

    Raises:
        NNDError: an argument is wrong, the corpus cannot be read, or another process builds this set.
    """
    golds = read_corpus(corpus, place)
    new = NewSet(name, golds, out, replace)
    parser = load_parser(spacy)
    chosen, left_out = choose_errors(errors, golds.name, find_means(golds, parser, mlm))
    amounts = {error.name: choose_levels(error, golds.name, few=levels == "three") for error in chosen}
    named = {error.name: [*map(error.name_level, amounts[error.name])] for error in chosen}
    long = golds.name == "wikitext"
    draft = dataclasses.replace(
        prepare_draft(golds, parser, chosen),
        ngrams=find_ngrams(golds.reference if {"frequent_3gram", "frequent_4gram"} & {*named} else [], parser),
        ngram_words=256 if long else None,  # section 5.3
        keep_last=long,  # section 5.5.2
        fill=load_fill(mlm) if mlm and "bert_diverge" in named else lambda words, place: (),
    )
    drawn = golds.draw(texts)
    with new.making(len(drawn), named, seeds, parser.name, mlm) as report:
        rows = []
        for gold in tqdm(drawn, "making tests", unit="text", disable=None):
            source_draft = dataclasses.replace(draft, source=gold.source)
            rows += [
                row for error in chosen for row in _make_tests(source_draft, gold, error, amounts[error.name], seeds)
            ]
        tests = pd.DataFrame(rows)
        states = pd.crosstab(tests["category"], tests["state"]).reindex(
            [*named], columns=["tests", "unchanged", "repeated"], fill_value=0
        )
        tests = tests[tests.pop("state") == "tests"].reset_index(drop=True)
        if tests.empty:
            raise NNDError(f"corpus {golds.name}: no error changed any text, so there is no test")
        error_facts = states.reset_index(names="error").assign(
            definition=[error.definition for error in chosen],
            levels=[f"{', '.join(named[error.name])} ({error.unit})" for error in chosen],
        )
        report |= {
            "texts": len(drawn),
            "seeds": seeds,
            "levels": named,
            **{state: states[state][states[state] > 0].to_dict() for state in ("unchanged", "repeated")},
            "left_out": left_out,
            "pipeline": parser.name,
            "masked_model": Path(mlm).name if mlm else None,
        }
        return new.write(
            tests,
            report,
            [Table("errors", error_facts, _ERRORS)],
            f"{counted(len(tests), 'test')} from {counted(len(drawn), 'text')} with {counted(seeds, 'seed')}; `category` is the "
            "error, `subcategory` its level, `noise_ratio` the word-level Levenshtein distance over the words of the gold text "
            f"(halved for switching). Words, sentences and tags: {parser.name}.",
            "Gold texts and the same texts with one synthetic error each (He et al., ACL 2023).",
        )


def _make_tests(
    draft: Edit, gold: Gold, error: ErrorType, amounts: Iterable[float], seeds: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each level and seed, with its ``state``: ``tests``, ``unchanged`` or ``repeated``."""
    earlier = {gold.text}
    for amount, seed in product(amounts, range(seeds)):
        rng = random.Random(short_hash(gold.text, error.name, str(seed)))  # noqa: S311
        low = error.make(draft, gold.text, amount, rng)
        level = error.name_level(amount)
        unchanged = low == gold.text or not low.strip()
        state = "unchanged" if unchanged else "repeated" if low in earlier else "tests"
        earlier.add(low)
        noise = compute_noise(gold.text, low, switching=error.switching)
        row = make_row(gold, low, error.name, level, noise, seed, error.name, level, str(seed))
        yield {**row, "state": state}


def find_means(corpus: Corpus, parser: Parser, mlm: str | None = None) -> set[str]:
    """Return which of `NEEDS` are there."""
    have = (parser.tags, parser.entities, corpus.texts[0].source, corpus.reference, mlm)
    return set(compress(NEEDS, have))


def prepare_draft(corpus: Corpus, parser: Parser, errors: Iterable[ErrorType]) -> Edit:
    """Return a draft with the sentences and words of a corpus, where an error needs them."""
    if not {"sentence_replacement", "injection", "positioned_error_random"} & {error.name for error in errors}:
        return Edit(parser)
    sentences: list[tuple[str, str]] = []
    vocabulary: dict[str, None] = {}
    for gold in tqdm(corpus.texts, desc="reading the corpus", disable=None):
        sentences += [(join(sentence), gold.text) for sentence in parser.sentences(gold.text)]
        vocabulary |= dict.fromkeys(word.text for word in parser.parse(gold.text) if is_spoken(word))
    return Edit(parser, sentences_of_others=sentences, vocabulary=list(vocabulary))


def find_ngrams(texts: Sequence[str], parser: Parser) -> dict[int, list[tuple[str, ...]]]:
    """Return the 3- and 4-grams of words in lower case, the most frequent first; those with punctuation are left out.

    Equally frequent n-grams are in alphabetical order.
    """
    counts: dict[int, Counter[tuple[str, ...]]] = {3: Counter(), 4: Counter()}
    for text in texts:
        words = [word.lower_ for word in parser.parse(text)]
        for run in (list(run) for spoken, run in groupby(words, lambda word: word[:1].isalpha()) if spoken):
            for size, counter in counts.items():
                counter.update(zip(*(run[i:] for i in range(size)), strict=False))
    return {size: sorted(counter, key=lambda gram: (-counter[gram], gram)) for size, counter in counts.items()}


#: Words that the model offers for a place (paper, Table 16).
TOP = 10
#: Words on each side that the model reads.
_AROUND = 100


def load_fill(folder: str | Path) -> Callable[[Sequence[str], int], list[str]]:
    """Return a function that takes words, each with the white space after it, and a position, and returns words for it.

    It returns up to `TOP` words, the likeliest first.

    Args:
        folder: folder of a masked language model with its tokenizer, or its name on the hub.

    Raises:
        NNDError: the model cannot be loaded.
    """
    from transformers import FillMaskPipeline

    try:
        model, tokenizer = MaskedLM.load(str(folder))
    except ModelError as error:
        raise NNDError(f"--mlm {error}") from error
    predict = FillMaskPipeline(model=model, tokenizer=tokenizer, top_k=min(4 * TOP, len(tokenizer)))

    def fill(words: Sequence[str], position: int) -> list[str]:
        space = words[position][len(words[position].rstrip()) :]
        left, right = words[max(position - _AROUND, 0) : position], words[position + 1 : position + 1 + _AROUND]
        options = [
            option["token_str"].strip() for option in predict("".join([*left, tokenizer.mask_token, space, *right]))
        ]
        return [word for word in options if word.isalnum()][:TOP]

    return fill
