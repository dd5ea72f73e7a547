"""How far a text is from the gold text."""

from __future__ import annotations

from rapidfuzz.distance import Levenshtein


def noise_ratio(gold: str, noised: str, *, switching: bool = False) -> float:
    """Return the word-level Levenshtein distance over the number of gold words (paper, Eq. 1).

    Args:
        gold: the gold text, of at least one word.
        noised: the same text with an error.
        switching: the error only moves words, so the distance is halved (paper, note 7).
    """
    words = gold.split()
    ratio = Levenshtein.distance(words, noised.split()) / len(words)
    return ratio / 2 if switching else ratio
