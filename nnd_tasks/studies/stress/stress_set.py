"""Build a set of synthetic near-negatives: every error type, level and seed in every text."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from tqdm import tqdm

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.schema import ConfigSummary, short_hash
from nnd_tasks.sets.build import BuiltSet
from nnd_tasks.sets.catalogue import check_set_name, list_recipes
from nnd_tasks.sets.recipe import Facts
from nnd_tasks.sets.tasks import UserTask, shipped_task, write_task
from nnd_tasks.sets.write import CardFacts, making, write_dataset
from nnd_tasks.show.forms import markdown_table
from nnd_tasks.show.report import Table, make_table
from nnd_tasks.store import dataset_folder, read_report
from nnd_tasks.studies.stress.corpora import KNOWN, Corpus, Gold, read_corpus
from nnd_tasks.studies.stress.edits import Edit, Parser, is_spoken, join, load_parser
from nnd_tasks.studies.stress.error_types import ErrorType, choose_errors
from nnd_tasks.text import counted
from shared_prefix.model_error import ModelError
from shared_prefix.text_models import MaskedLM

CONFIG = "stress"
#: What a model reads before a text that has a source.
PROMPT = "{{context}}\n\n"
#: The N of the tasks' version N-X, to raise when the same command comes to give other tests.
VERSION = 3
CITATION = """@inproceedings{he2023blind,
  title = {On the Blind Spots of Model-Based Evaluation Metrics for Text Generation},
  author = {He, Tianxing and Zhang, Jingyu and Wang, Tianle and Kumar, Sachin and Cho, Kyunghyun and Glass, James and
    Tsvetkov, Yulia},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year = {2023}
}"""


@dataclass(frozen=True)
class StressSet:
    """A set of synthetic errors that was written.

    Attributes:
        folder: the dataset folder.
        summary: of its tests.
        report: what is stored in ``build_report.json``.
        table: how the tests were made, as on the card.
        task: the task that scores the set.
    """

    folder: Path
    summary: ConfigSummary
    report: Mapping[str, Any]
    table: Table
    task: UserTask


def build_stress_set(
    name: str,
    corpus: str,
    *,
    folder: str | Path | None = None,
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
        folder: holds the paper's corpora; None looks in ``$NND_HOME/blindspot``.
        errors: ``all``, or names that are separated by commas; ``all`` leaves out those for which the corpus lacks something
            or a package is not installed.
        levels: ``paper``, or ``three`` of these; see `nnd_tasks.studies.stress.error_types.ErrorType`.
        texts: how many of the gold texts, drawn at random with a fixed seed; 0 takes all.
        seeds: how often each error is made, each time with other random choices.
        spacy: a spaCy pipeline; None takes ``en_core_web_sm`` if it is installed.
        mlm: folder of a masked language model, for ``bert_diverge``.
        out: the dataset folder; None takes ``$NND_HOME/nnd/NAME``.
        replace: overwrite a set of this name that was made from other texts, errors or levels.

    Raises:
        NNDError: an argument is wrong, the corpus cannot be read, or another process builds this set.
    """
    golds = read_corpus(corpus, folder)
    _check_name(name, golds)
    target = (dataset_folder(name) if out is None else expand(out)).absolute()
    parser = load_parser(spacy)
    chosen, left_out = choose_errors(errors, golds, parser, mlm)
    amounts = {error.name: error.choose_levels(golds.name, few=levels == "three") for error in chosen}
    named = {error.name: [*map(error.name_level, amounts[error.name])] for error in chosen}
    long = golds.name == "wikitext"
    draft = dataclasses.replace(
        _prepare_draft(golds, parser, chosen),
        ngrams=find_ngrams(golds.reference if {"frequent_3gram", "frequent_4gram"} & {*named} else [], parser),
        ngram_words=256 if long else None,  # section 5.3
        keep_last=long,  # section 5.5.2
        fill=load_fill(mlm) if mlm and "bert_diverge" in named else lambda words, folder: (),
    )
    drawn = golds.draw(texts)
    plan = short_hash(json.dumps([golds.sha256, [len(drawn), named, seeds, parser.name, mlm], __version__, VERSION]))
    with making(target, timeout=0):  # no waiting for another build of this set, which may take hours
        if not replace and read_report(target).get(CONFIG, {}).get("plan", plan) != plan:
            raise NNDError(
                f"{target}: holds a stress set of other texts, errors, levels, seeds, models or tools; take another name, or "
                "--replace it"
            )
        tests = pd.DataFrame(
            row
            for gold in tqdm(drawn, "making tests", unit="text", disable=None)
            for error in chosen
            for row in _make_tests(draft, gold, error, amounts[error.name], seeds)
        )
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
        table = make_table("made", error_facts)
        description = (
            f"{counted(len(tests), 'test')} from {counted(len(drawn), 'text')} with {counted(seeds, 'seed')}; `category` is the "
            "error, `subcategory` its level, `noise_ratio` the word-level Levenshtein distance over the words of the gold text "
            f"(halved for switching). Words, sentences and tags: {parser.name}."
        )
        sets = BuiltSet()
        sets.add(
            CONFIG,
            tests,
            {
                "plan": plan,
                "corpus": golds.name,
                "source_sha256": golds.sha256,
                "nnd_tasks": __version__,
                "texts": len(drawn),
                "seeds": seeds,
                "levels": named,
                **{state: states[state][states[state] > 0].to_dict() for state in ("unchanged", "repeated")},
                "left_out": left_out,
                "pipeline": parser.name,
                "masked_model": Path(mlm).name if mlm else None,
            },
        )
        card = CardFacts(name, _describe_set(golds), synthetic=True, how_made=(description, "", *markdown_table(table)))
        write_dataset(
            target, sets.tables, card_facts=card, report=sets.report, default=CONFIG, known_summaries=sets.summaries,
            replace=replace,
        )  # fmt: skip
        fields = {
            "dataset_path": f"nnd/{name}" if out is None else str(target),
            "dataset_name": CONFIG,
            "doc_to_text": PROMPT if golds.texts[0].source else "",
            "target_delimiter": "",
            "metadata": {"version": f"{VERSION}-A"},
        }
        task = write_task(f"nnd_{name}", fields)
        return StressSet(target, sets.summaries[CONFIG], sets.report[CONFIG], table, task)


def _check_name(name: str, corpus: Corpus) -> None:
    check_set_name(name)
    if name in list_recipes() or (shipped_task(f"nnd_{name}") and name != f"blindspot_{corpus.name}"):
        raise NNDError(f"{name} is the name of another set; take another")


def _describe_set(corpus: Corpus) -> Facts:
    facts = KNOWN.get(corpus.name, {})
    return Facts(
        title=f"blind spots: {facts.get('title', corpus.name)}",
        summary="Gold texts and the same texts with one synthetic error each (He et al., ACL 2023).",
        judges="nobody, a program put the errors in.",
        license="other",
        license_note=f"The texts stand under the terms {facts.get('terms', 'other')}.",
        language=tuple(facts.get("languages", ())),
        homepage="",
        citation=CITATION,
    )


def _make_tests(
    draft: Edit, gold: Gold, error: ErrorType, amounts: Iterable[float], seeds: int
) -> Iterator[dict[str, Any]]:
    """Yield a test for each level and seed, with its ``state``: ``tests``, ``unchanged`` or ``repeated``."""
    draft, earlier = dataclasses.replace(draft, source=gold.source), {gold.text}
    cluster = short_hash("stress", gold.source, gold.text)
    for amount, seed in product(amounts, range(seeds)):
        rng = random.Random(short_hash(gold.text, error.name, str(seed)))  # noqa: S311
        low = error.make(draft, gold.text, amount, rng)
        level = error.name_level(amount)
        unchanged = low == gold.text or not low.strip()
        state = "unchanged" if unchanged else "repeated" if low in earlier else "tests"
        earlier.add(low)
        yield {
            "test_id": short_hash(cluster, error.name, level, str(seed), low),
            "context_id": cluster,
            "cluster_id": cluster,
            "context": gold.source,
            "high": gold.text,
            "low": low,
            "category": error.name,
            "high_first": True,
            "subcategory": level,
            "noise_ratio": compute_noise(gold.text, low, switching=error.switching),
            "seed": seed,
            "state": state,
        }


def _prepare_draft(corpus: Corpus, parser: Parser, errors: Iterable[ErrorType]) -> Edit:
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
    counts = {size: Counter[tuple[str, ...]]() for size in (3, 4)}
    for text, (size, counter) in product(texts, counts.items()):
        words = [word.lower_ for word in parser.parse(text)]
        grams = zip(*(words[i:] for i in range(size)), strict=False)
        counter.update(gram for gram in grams if all(word[:1].isalpha() for word in gram))
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
        before, after = words[max(position - _AROUND, 0) : position], words[position + 1 : position + 1 + _AROUND]
        options = predict("".join([*before, tokenizer.mask_token, space, *after]))
        spelled = [option["token_str"].strip() for option in options]
        return [word for word in spelled if word.isalnum()][:TOP]

    return fill


def compute_noise(gold: str, noised: str, *, switching: bool = False) -> float:
    """Return the word-level Levenshtein distance over the number of gold words (paper, Eq. 1).

    Args:
        gold: the gold text, of at least one word.
        noised: the same text with an error.
        switching: the error only moves words, so the distance is halved (paper, note 7).
    """
    from rapidfuzz.distance import Levenshtein

    words = gold.split()
    return Levenshtein.distance(words, noised.split()) / len(words) / (1 + switching)
