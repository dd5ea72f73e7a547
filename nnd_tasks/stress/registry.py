"""What an error type is, and how one is registered and looked up.

The types themselves are in `nnd_tasks.stress.words` and `nnd_tasks.stress.sentences`; how much of each is made at each level,
in `nnd_tasks.stress.levels`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from nnd_tasks.errors import NNDError
from nnd_tasks.stress.text import Parser

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Resources:
    """What errors may use besides the text.

    Attributes:
        parser: splits and, where it can, tags texts.
        source: the text that the gold text was written from; ``""`` where there is none.
        sentences: (sentence, the text that it is from) of the corpus, to replace sentences by irrelevant ones.
        vocabulary: the words of the corpus, each once.
        ngrams: length -> the most frequent n-grams of a reference corpus, the most frequent first.
        ngram_words: length of a text of frequent n-grams, in words; None takes that of the gold text.
        keep_last: never move the last sentence.
        fill: function of `nnd_tasks.stress.masked.load_fill`.
    """

    parser: Parser
    source: str = ""
    sentences: Sequence[tuple[str, str]] = ()
    vocabulary: Sequence[str] = ()
    ngrams: Mapping[int, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    ngram_words: int | None = None
    keep_last: bool = False
    fill: Callable[[Sequence[str], int], Sequence[str]] | None = None


#: ``(text, amount, rng, resources) -> text``; returns the text unchanged where the error cannot be made in it.
Make = Callable[[str, float, random.Random, Resources], str]

#: What an error may need -> how the user can supply it.
NEEDS: Mapping[str, str] = {
    "tags": "a tagger: python -m spacy download en_core_web_sm, or --spacy PIPELINE",
    "entities": "an entity recognizer: python -m spacy download en_core_web_sm, or --spacy PIPELINE",
    "source": "a source for every text: a JSONL corpus with `source`",
    "reference corpus": "a reference corpus for n-grams: --reference FILE",
    "masked model": "a masked language model: --mlm FOLDER",
}


@dataclass(frozen=True)
class ErrorType:
    """One kind of error.

    Attributes:
        name: the paper's, in lower case with underscores; the category of its tests.
        kind: ``fluency``, ``consistency`` or ``targeted`` (paper, sections 5.1 to 5.5 and appendices D, E).
        unit: what its amount counts.
        make: puts the error into a text.
        switching: it only moves words, so that its noise ratio is halved (paper, note 7).
        graded: a larger amount is worse.
        needs: keys of `NEEDS`.
        names: amount -> name of the level, where the number alone says little.
        example: (text, the text with the error, amount), the same for every seed.
    """

    name: str
    kind: str
    unit: str
    make: Make
    switching: bool = False
    graded: bool = True
    needs: frozenset[str] = frozenset()
    names: Mapping[float, str] = field(default_factory=dict)
    example: tuple[str, str, float] | None = None

    @property
    def definition(self) -> str:
        """What it does: the first line of the docstring of its function."""
        return (self.make.__doc__ or "").split("\n")[0]

    def check(self, amount: float) -> None:
        """Raise NNDError for an amount that is out of range."""
        share = self.unit.startswith("share")
        if not math.isfinite(amount):
            raise NNDError(f"error {self.name}: level {amount:g} is not a number; take numbers such as 0.1 or 3")
        if self.names:
            if amount not in self.names:
                known = ", ".join(f"{key:g} ({name})" for key, name in self.names.items())
                raise NNDError(f"error {self.name}: there is no level {amount:g}, only {known}")
        elif share and not 0 < amount <= 1:
            raise NNDError(
                f"error {self.name}: level {amount:g} is not a share of its {self.unit[9:]}; take 0 < level <= 1"
            )
        elif not share and (amount < 1 or amount != int(amount)):
            raise NNDError(f"error {self.name}: level {amount:g} is not a number of {self.unit}; take 1, 2, ...")

    def level(self, amount: float) -> str:
        """Return the name of a level: the subcategory of its tests."""
        return self.names.get(amount, f"{amount:g}")


#: Name -> error type, in the order of the paper.
ERRORS: dict[str, ErrorType] = {}


def error(
    kind: str,
    unit: str,
    *,
    switching: bool = False,
    graded: bool = True,
    needs: Sequence[str] = (),
    names: Mapping[float, str] | None = None,
    example: tuple[str, str, float] | None = None,
) -> Callable[[Make], Make]:
    """Return a decorator that registers a function as an error type; the arguments are those of `ErrorType`."""

    def register(make: Make) -> Make:
        name = getattr(make, "__name__", "")
        ERRORS[name] = ErrorType(name, kind, unit, make, switching, graded, frozenset(needs), names or {}, example)
        return make

    return register


def drawn(rng: random.Random, items: Sequence[_Item], count: int) -> list[_Item]:
    """Return the first ``count`` of ``items`` in a random order.

    The order does not depend on the count, so that a higher level takes the items of a lower one, and more.
    `random.Random.sample` alone does not promise that.
    """
    return rng.sample(items, len(items))[:count]


def count_of(amount: float, items: int) -> int:
    """Return a share of a number of items, rounded half up; at least 1 where there are items."""
    return min(items, max(1, int(amount * items + 0.5))) if items else 0
