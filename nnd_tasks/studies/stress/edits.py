"""A text in words and sentences, from spaCy, and what an error may use to change it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

_Item = TypeVar("_Item")
#: The pipeline of the paper's authors for most errors (`en_core_web_trf` for the rest).
PIPELINE = "en_core_web_sm"
#: What ``words.yaml`` holds, and its lists of words.
WORDS: Mapping[str, Any] = read_yaml(Path(__file__).with_name("words.yaml"))
LISTS: Mapping[str, frozenset[str]] = {name: frozenset(words.split()) for name, words in WORDS["lists"].items()}


class Parser:
    """Splits texts with a spaCy pipeline, and remembers the latest results.

    Args:
        nlp: a spaCy ``Language``.

    Attributes:
        name: name, version and parts of the pipeline, for the build report.
        tags: the pipeline finds parts of speech and lemmas.
        entities: the pipeline finds named entities.
    """

    def __init__(self, nlp: Any) -> None:
        if not ({"parser", "senter", "sentencizer"} & set(nlp.pipe_names)):
            nlp.add_pipe("sentencizer")
        self.name = f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']} ({', '.join(nlp.pipe_names)})"
        sample = nlp("She went to Paris.")
        self.tags = sample.has_annotation("TAG") and sample.has_annotation("LEMMA")
        self.entities = sample.has_annotation("ENT_IOB")
        self.parse: Callable[[str], Doc] = lru_cache(maxsize=256)(nlp)

    def sentences(self, text: str) -> list[Span]:
        """Return the sentences of a text."""
        doc = self.parse(text)
        starts = [span.start for span in doc.sents]
        starts = starts[:1] + [start for start in starts[1:] if not _goes_on(doc, start, cased=not text.islower())]
        return [doc[start:end] for start, end in zip(starts, [*starts[1:], len(doc)], strict=False)]


def load_parser(name: str | None = None) -> Parser:
    """Return a parser with a spaCy pipeline.

    Args:
        name: of the pipeline, or its folder; None takes the authors' choice if it is installed, else spaCy's rules for English:
            words, stop words and sentences that end in punctuation.

    Raises:
        NNDError: spaCy, rapidfuzz or the named pipeline is not installed.
    """
    try:
        import rapidfuzz  # noqa: F401
        import spacy
    except ImportError as error:
        raise NNDError(
            "stress tests need spaCy and rapidfuzz: in a clone of nnd-tasks, pip install '.[stress]'"
        ) from error
    try:
        return Parser(spacy.load(name or PIPELINE))
    except (OSError, ValueError) as error:
        if name is None:
            return Parser(spacy.blank("en"))
        raise NNDError(
            f"there is no spaCy pipeline {name!r}; run: python -m spacy download {name} (or name a folder)"
        ) from error


def _goes_on(doc: Doc, start: int, *, cased: bool) -> bool:
    """Tell whether the sentence before the word at ``start`` goes on there, though a pipeline ended it.

    It does after an abbreviation ("Lt. Col."), and where the next word has no capital letter ("Yahoo! was"), in ``cased`` texts.
    """
    last = doc[max(start - 3, 0) : start].text.split()[-1:]
    before = "".join(last).lstrip("(").lower()
    if before.endswith(".") and (
        before[:-1] in LISTS["abbreviations"] or (before == "no." and doc[start].text[0].isdigit())
    ):
        return True
    return cased and next((word.text[0].islower() for word in doc[start:] if is_spoken(word)), False)


@dataclass(frozen=True)
class Edit:
    """A text that gets an error, and what the error may use.

    Attributes:
        parser: splits and, where it can, tags texts.
        text: the text.
        amount: the level.
        rng: gives the random choices.
        source: the text that the text was written from; ``""`` where there is none.
        sentences_of_others: (sentence, the text that it is from) of the corpus, to replace sentences by irrelevant ones.
        vocabulary: the words of the corpus, each once.
        ngrams: length -> the most frequent n-grams of a reference corpus, the most frequent first.
        ngram_words: length of a text of frequent n-grams, in words; None takes that of the text.
        keep_last: never move the last sentence.
        fill: function of `nnd_tasks.studies.stress.stress_set.load_fill`.
    """

    parser: Parser
    text: str = ""
    amount: float = 1
    rng: random.Random = field(default_factory=random.Random)
    source: str = ""
    sentences_of_others: Sequence[tuple[str, str]] = ()
    vocabulary: Sequence[str] = ()
    ngrams: Mapping[int, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    ngram_words: int | None = None
    keep_last: bool = False
    fill: Callable[[Sequence[str], int], Sequence[str]] = lambda words, position: ()

    @cached_property
    def doc(self) -> Doc:
        """The words."""
        return self.parser.parse(self.text)

    @cached_property
    def sentences(self) -> list[Span]:
        """The sentences."""
        return self.parser.sentences(self.text)

    def draw(self, items: Sequence[_Item], count: int | None = None) -> list[_Item]:
        """Draw items at random: ``count`` of them, or as many as the amount says.

        The order does not depend on the count, so that a higher level takes the items of a lower one, and more.
        `random.Random.sample` alone does not promise that.
        """
        return self.rng.sample(items, len(items))[: int(self.amount) if count is None else count]

    def draw_share(self, items: Sequence[_Item]) -> list[_Item]:
        """Draw a share of the items at random; the amount is that share."""
        return self.draw(items, count_of(self.amount, len(items)))

    def respell(self, new: Mapping[int, str]) -> str:
        """Return the text with other words at some places."""
        return "".join(new.get(word.i, word.text) + word.whitespace_ for word in self.doc).rstrip()

    def replace(self, new: Mapping[Span, str]) -> str:
        """Return the text with other texts for some spans; the white space after them stays."""
        parts = [word.text_with_ws for word in self.doc]
        for span, text in new.items():
            parts[span.start : span.end] = [text + span[-1].whitespace_, *[""] * (len(span) - 1)]
        return "".join(parts).rstrip()


def count_of(amount: float, items: int) -> int:
    """Return a share of a number of items, rounded half up; at least 1 where there are items."""
    return min(items, max(1, int(amount * items + 0.5))) if items else 0


def join(words: Iterable[Token]) -> str:
    """Return words as a text; the white space after the last one is dropped."""
    return "".join(word.text_with_ws for word in words).rstrip()


def is_spoken(word: Token) -> bool:
    """Tell whether a word has a letter or digit, and so is neither punctuation nor a symbol."""
    return any(char.isalnum() for char in word.text)


def is_alone(words: Doc | Sequence[Token], i: int) -> bool:
    """Tell whether a word stands alone, not as a part of a contraction."""
    before = i > 0 and not words[i - 1].whitespace_ and is_spoken(words[i - 1])
    after = i + 1 < len(words) and not words[i].whitespace_ and is_spoken(words[i + 1])
    return not (before or after)


def find_end(sentence: Span) -> int:
    """Return the end of a sentence without its closing punctuation."""
    return max((word.i + 1 for word in sentence if is_spoken(word)), default=sentence.start)


def like(word: str, model: str) -> str:
    """Return ``word`` with the capital letters of ``model``."""
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word
