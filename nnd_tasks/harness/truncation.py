"""Shortening a context until its prompt fits the model's window.

lm-eval cuts an overlong prompt from the left, which drops the lead of a news article, the instruction and the few-shot
examples. Here the context loses its end, before the prompt is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_WORD = 40  # characters; a longer run without white space, such as a Chinese sentence, may be cut anywhere


def _ends(text: str) -> list[int]:
    """Return where ``text`` may be cut, in characters: after each word but the last, and anywhere within an overlong word."""
    ends: list[int] = []
    for word in re.finditer(r"\S+", text):
        start, end = word.span()
        ends += [end] if end - start <= _WORD else range(start + 1, end + 1)
    return ends[:-1]


def shorten(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return the longest beginning of ``text`` that fits, cut between words; None when not even the first word does.

    Args:
        text: a context that does not fit as a whole.
        fits: tells whether the prompt with this beginning fits. It need not be monotone: a tokenizer may need one token
            more for a shorter text. The result then fits, but a longer beginning might fit too.
    """
    ends = _ends(text)
    # Binary search; -1 stands for no beginning at all.
    low, high = -1, len(ends) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[: ends[middle]]):
            low = middle
        else:
            high = middle - 1
    return text[: ends[low]] if low >= 0 else None
