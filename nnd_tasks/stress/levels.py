"""How strong each error is: the levels that the paper's authors released, by corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnd_tasks.errors import NNDError
from nnd_tasks.stress.registry import ERRORS

Levels = Mapping[str, tuple[float, ...]]


def _steps(first: float, last: float, step: float) -> tuple[float, ...]:
    """Return numbers from the first to the last, rounded to two digits."""
    count = round((last - first) / step) + 1
    return tuple(round(first + i * step, 2) for i in range(count))


_TENTHS = _steps(0.05, 0.5, 0.05)
_TENTHS_OF_TRANSLATIONS = (*_steps(0.05, 0.45, 0.05), 0.55)
_PLACES = (0.0, 0.5, 1.0)

_COMMON: Levels = {
    "truncation": _steps(0.1, 0.5, 0.1),
    "article_removal": (0.5, 1),
    "preposition_removal": (0.4, 0.7, 1),
    "stop_word_removal": _steps(0.1, 0.6, 0.1),
    "verb_lemmatization": (0.5, 1),
    "token_drop": _TENTHS,
    "repeated_token": _TENTHS,
    "local_swap": (0.05, 0.15, 0.3, 0.6),
    "noised_punctuation": (0.5, 1),
    "negation": (0.5, 1),
    "positioned_error_random": _PLACES,
    "positioned_error_shuffle": _PLACES,
    "repetition": (10, 20, 30),
    "frequent_3gram": (10, 50, 100),
    "frequent_4gram": (10, 50, 100),
    "injection": (1, 2, 3, 4, 5),
    # Our choice: the paper (its Figure 9) does not say how many parts it switches.
    "sub_sentence_switching": (1, 3, 6),
}

#: Corpus -> error type -> amounts; a type that is missing is not applied to that corpus (paper, appendix I).
PAPER: Mapping[str, Levels] = {
    "wikitext": {
        **_COMMON,
        "middle_swap": (1, 2, 3),
        "sentence_switching": (1, 2, 6),
        "sentence_replacement": (1, 2, 3, 4, 5, 6),
        "generic_named_entity": (0.5, 1),
        "named_entity_switching": (6, 15, 30),
        "verb_switching": (10, 60),
        "noun_switching": (10, 60),
    },
    "cnndm": {
        **_COMMON,
        "middle_swap": (1, 2, 3),
        "sentence_switching": (1, 2),
        "sentence_replacement": (1, 2),
        "generic_named_entity": (0.5, 1),
        "named_entity_switching": (1, 3),
        "verb_switching": (8,),
        "noun_switching": (2, 7),
        "bert_diverge": (0.1, 0.2, 0.3, 0.4),
        "copy_source": (1,),
    },
    "ted": {
        **_COMMON,
        "token_drop": _TENTHS_OF_TRANSLATIONS,
        "repeated_token": _TENTHS_OF_TRANSLATIONS,
        "middle_swap": (1,),
        "sentence_switching": (1, 2, 3),
        "sentence_replacement": (1, 2, 3),
        "verb_switching": (8,),
        "noun_switching": (1, 6),
        "bert_diverge": (0.1, 0.2, 0.3, 0.4),
        "copy_source": (1,),
    },
    "wmt": {
        **_COMMON,
        "token_drop": _TENTHS_OF_TRANSLATIONS,
        "repeated_token": _TENTHS_OF_TRANSLATIONS,
        "middle_swap": (1,),
        "generic_named_entity": (0.5, 1),
        "noun_switching": (6,),
        "bert_diverge": (0.15, 0.3, 0.45, 0.6),
        "copy_source": (1,),
    },
}

#: Levels for a corpus of the user's: those of CNN/DM, whose texts have a medium length.
OTHER: Levels = PAPER["cnndm"]


def choose(kind: str, names: Sequence[str], levels: str) -> dict[str, tuple[float, ...]]:
    """Return error type -> amounts.

    Args:
        kind: name of the corpus; one that is not the paper's takes `OTHER`.
        names: error types.
        levels: ``three`` (the lowest, the middle and the highest of the paper's), ``paper`` (all of them), or numbers
            separated by commas, for every type.

    Raises:
        NNDError: a level is not a number, or out of range for a type.
    """
    known = PAPER.get(kind, OTHER)
    chosen: dict[str, tuple[float, ...]] = {}
    for name in names:
        if levels in ("three", "paper"):
            amounts = known[name]
            if levels == "three" and len(amounts) > 3 and not ERRORS[name].names:
                amounts = (amounts[0], amounts[(len(amounts) - 1) // 2], amounts[-1])
        else:
            try:
                amounts = tuple(sorted({float(part) for part in levels.split(",")}))
            except ValueError as error:
                raise NNDError(f"--levels {levels}: expected three, paper, or numbers such as 0.1,0.3") from error
        for amount in amounts:
            try:
                ERRORS[name].check(amount)
            except NNDError as error:
                raise NNDError(
                    f"--levels {levels}: {error}; use --errors to name the errors that these levels are for"
                ) from error
        chosen[name] = amounts
    return chosen
