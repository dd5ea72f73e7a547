"""Shortening a context until its prompt fits the model's window.

lm-eval cuts an overlong prompt from the left, which drops the lead of a news article, the instruction and the few-shot
examples. Here the context loses its end, before the prompt is rendered.
"""

from __future__ import annotations

import re

_WORD = 40  # characters; a longer run without white space, such as a Chinese sentence, may be cut anywhere


def _ends(text: str) -> list[int]:
    """Return where ``text`` may be cut, in characters: after each word but the last, and anywhere within an overlong word."""
    ends: list[int] = []
    for word in re.finditer(r"\S+", text):
        start, end = word.span()
        ends += [end] if end - start <= _WORD else range(start + 1, end + 1)
    return ends[:-1]


class Shortening:
    """A search for the longest beginning of a text that fits, cut between words.

    Whether a beginning fits need not be monotone: a tokenizer may need one token more for a shorter text. What is found then
    fits, but a longer beginning might fit too.

    Args:
        text: a context that does not fit as a whole.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = _ends(text)
        # Binary search over the ends; -1 stands for no beginning at all.
        self._low, self._high = -1, len(self._ends) - 1

    @property
    def attempt(self) -> str | None:
        """The beginning to try next; None when the search is over."""
        return self._text[: self._ends[self._middle]] if self._low < self._high else None

    def record(self, *, fits: bool) -> None:
        """Go on after it is known whether `attempt` fits."""
        if fits:
            self._low = self._middle
        else:
            self._high = self._middle - 1

    @property
    def longest(self) -> str | None:
        """The longest beginning that is known to fit; None when not even the first word does."""
        return self._text[: self._ends[self._low]] if self._low >= 0 else None

    @property
    def _middle(self) -> int:
        return (self._low + self._high + 1) // 2
