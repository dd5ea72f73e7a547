"""The registry of error types: the rows of ``errors.yaml`` with the functions of `words` and `sentences`."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.studies.stress import sentences, words
from nnd_tasks.studies.stress.text import Edit
from nnd_tasks.yaml_json import read_yaml

#: The corpora of the paper.
PAPER = ("wikitext", "cnndm", "wmt", "ted")
#: What an error may need -> how the user can supply it.
NEEDS: Mapping[str, str] = {
    "tags": "a tagger: python -m spacy download en_core_web_sm, or --spacy PIPELINE",
    "entities": "an entity recognizer: python -m spacy download en_core_web_sm, or --spacy PIPELINE",
    "source": "a source for every text: a JSONL corpus with `source`",
    "reference corpus": "a reference corpus for n-grams: texts_reference.txt beside texts.txt",
    "masked model": "a masked language model: --mlm FOLDER",
}


@dataclass(frozen=True)
class ErrorType:
    """One kind of error; the attributes but the first two are the columns of ``errors.yaml``, which says what they mean."""

    name: str
    change: Callable[[Edit], str]
    kind: str
    unit: str
    levels: Sequence[float] | Mapping[str, Sequence[float]]
    names: Mapping[float, str] = field(default_factory=dict)
    switching: bool = False
    graded: bool = True
    needs: Sequence[str] = ()
    example: tuple[str, str, float] | None = None

    @property
    def counts_shares(self) -> bool:
        """Whether its amount is a share of the text, not a count."""
        return self.unit.startswith("share")

    @property
    def definition(self) -> str:
        """What it does."""
        return (self.change.__doc__ or "").split("\n")[0]

    def make(self, draft: Edit, text: str, amount: float, rng: random.Random) -> str:
        """Return a text with the error, unchanged where it cannot be made; ``draft`` has what it may use."""
        return self.change(replace(draft, text=text, amount=amount, rng=rng))

    def find_levels(self, corpus: str) -> Sequence[float]:
        """Return the paper's amounts for a corpus; one of the user's has those of CNN/DM, whose texts have a medium length."""
        if isinstance(self.levels, Mapping):
            return self.levels.get(corpus if corpus in PAPER else "cnndm", ())
        return self.levels

    def name_level(self, amount: float) -> str:
        """Return the name of a level: the subcategory of its tests."""
        return self.names.get(amount, f"{amount:g}")


_FUNCTIONS = {**vars(words), **vars(sentences)}
#: Name -> error type, in the order of the paper.
ERRORS: dict[str, ErrorType] = {
    name: ErrorType(name, _FUNCTIONS[name], **row)
    for name, row in read_yaml(Path(__file__).with_name("errors.yaml")).items()
}


def choose_errors(wanted: str, corpus: str, have: Collection[str]) -> tuple[list[ErrorType], dict[str, str]]:
    """Return the error types to make, and error type -> what it lacks.

    Args:
        wanted: ``all``, or names separated by commas.
        corpus: name of the corpus.
        have: keys of `NEEDS`.

    Raises:
        NNDError: the user named an error type that is unknown or cannot be made.
    """
    chosen, lacking = [], {}
    for name in ERRORS if wanted == "all" else dict.fromkeys(name_given.strip() for name_given in wanted.split(",")):
        if name not in ERRORS:
            raise NNDError(f"--errors: there is no error {name!r}; there are: {', '.join(ERRORS)}")
        error = ERRORS[name]
        missing = [NEEDS[need] for need in sorted(error.needs) if need not in have]
        if not error.find_levels(corpus):
            missing.insert(0, f"another corpus: the paper does not make it on {corpus}")
        if not missing:
            chosen.append(error)
        elif wanted != "all":
            raise NNDError(f"--errors {name} needs {missing[0]}")
        else:
            lacking[name] = missing[0]
    return chosen, lacking


def choose_levels(error: ErrorType, corpus: str, *, few: bool) -> list[float]:
    """Return the paper's amounts of an error for a corpus; few: the lowest, the middle and the highest, of those that count."""
    amounts = list(error.find_levels(corpus))
    if few and len(amounts) > 3 and not error.names:
        return [amounts[0], amounts[(len(amounts) - 1) // 2], amounts[-1]]
    return amounts
