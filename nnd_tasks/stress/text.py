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
#: What ends in a full stop within a sentence, in lower case; "no." only before a number.
_ABBREVIATIONS = (
    "al approx ave bros capt cf cmdr co col corp cpl dept dr ed eds esp est etc ft gen gov hon inc jr lit lt ltd maj max messrs "
    "min mlle mme mr mrs ms mt op pp pres prof pvt rep rev sen sgt sr st supt viz vol vols vs"
)
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())


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

    def begins(self, word: int) -> bool:
        """Tell whether a word begins a sentence."""
        return any(word == start for start, _ in self.sentences)

    def core(self, start: int, end: int) -> int:
        """Return the end of a sentence without its closing punctuation."""
        while end > start and not self.words[end - 1].spoken:
            end -= 1
        return end


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
        starts = [sent.start for sent in doc.sents]
        starts = starts[:1] + [start for start in starts[1:] if not _goes_on(words, start, cased=not text.islower())]
        sentences = tuple(zip(starts, [*starts[1:], len(words)], strict=False))
        return Parsed(words, sentences, tuple((ent.start, ent.end, ent.label_) for ent in doc.ents))


def _goes_on(words: Sequence[Word], start: int, *, cased: bool) -> bool:
    """Tell whether the sentence before the word at ``start`` goes on there, though a pipeline ended it.

    It does after an abbreviation ("Lt. Col."), and where the next word has no capital letter ("Yahoo! was"), in ``cased`` texts.
    """
    last = join(words[max(start - 3, 0) : start]).split()[-1:]
    before = "".join(last).lstrip("(").lower()
    if before.endswith(".") and (before[:-1] in ABBREVIATIONS or (before == "no." and words[start].text[0].isdigit())):
        return True
    return cased and next((word.text[0].islower() for word in words[start:] if word.spoken), False)


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
