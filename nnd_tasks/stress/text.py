"""Texts as words, sentences and entities, from spaCy's ``Doc``.

Each word keeps the white space after it, so that the words joined are the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nnd_tasks.errors import NNDError

#: The pipeline of the paper's authors for most errors (`en_core_web_trf` for the rest).
PIPELINE = "en_core_web_sm"


@dataclass(frozen=True, slots=True)
class Word:
    """One token.

    Attributes:
        text: as it stands in the text.
        space: the white space after it.
        tag: fine-grained part of speech (Penn Treebank), ``""`` without a tagger.
        pos: coarse part of speech (Universal Dependencies), ``""`` without a tagger.
        lemma: base form, ``""`` without a lemmatizer.
        stop: it is in spaCy's list of stop words.
    """

    text: str
    space: str
    tag: str = ""
    pos: str = ""
    lemma: str = ""
    stop: bool = False

    @property
    def spoken(self) -> bool:
        """Whether it has a letter or digit, and so is neither punctuation nor a symbol."""
        return any(char.isalnum() for char in self.text)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text in parts.

    Attributes:
        words: all words, marks and symbols.
        sentences: (first word, word after the last) of each.
        entities: (first word, word after the last, label) of each named entity.
    """

    words: tuple[Word, ...]
    sentences: tuple[tuple[int, int], ...]
    entities: tuple[tuple[int, int, str], ...]


def join(words: Sequence[Word]) -> str:
    """Return words as a text; the white space after the last one is dropped."""
    return "".join(word.text + word.space for word in words).rstrip()


class Parser:
    """Splits texts with a spaCy pipeline, and remembers the latest results.

    Args:
        nlp: a spaCy ``Language``; None takes spaCy's rules for English, without a tagger.

    Attributes:
        name: of the pipeline, for the build report.
        tags: the pipeline finds parts of speech and lemmas.
        entities: the pipeline finds named entities.
    """

    def __init__(self, nlp: Any = None) -> None:
        nlp = nlp if nlp is not None else rules()
        if not ({"parser", "senter", "sentencizer"} & set(nlp.pipe_names)):
            nlp.add_pipe("sentencizer")
        self._nlp = nlp
        meta = nlp.meta
        self.name = f"{meta['lang']}_{meta['name']} {meta['version']} ({', '.join(nlp.pipe_names)})"
        sample = nlp("She went to Paris.")
        self.tags = sample.has_annotation("TAG") and sample.has_annotation("LEMMA")
        self.entities = sample.has_annotation("ENT_IOB")
        self.parse = lru_cache(maxsize=256)(self._parse)

    def _parse(self, text: str) -> Parsed:
        doc = self._nlp(text)
        words = tuple(
            Word(token.text, token.whitespace_, token.tag_, token.pos_, token.lemma_, token.is_stop) for token in doc
        )
        sentences = tuple((sent.start, sent.end) for sent in doc.sents)
        return Parsed(words, sentences, tuple((ent.start, ent.end, ent.label_) for ent in doc.ents))


def rules() -> Any:
    """Return spaCy's rules for English: words, stop words and sentences that end in punctuation.

    Raises:
        NNDError: spaCy is not installed.
    """
    try:
        import spacy
    except ImportError as error:
        raise NNDError("stress tests need spaCy: in a clone of nnd-tasks, pip install '.[stress]'") from error
    return spacy.blank("en")


def find_pipeline(name: str | None) -> Any:
    """Return a spaCy pipeline by name or folder; None takes the authors' choice if it is installed, else `rules`.

    Raises:
        NNDError: spaCy, or the named pipeline, is not installed.
    """
    blank = rules()
    import spacy

    try:
        return spacy.load(name or PIPELINE)
    except (OSError, ValueError) as error:
        if name is None:
            return blank
        raise NNDError(
            f"the spaCy pipeline {name!r} is not installed; run: python -m spacy download {name} (or name a folder)"
        ) from error
