"""Two texts side by side: what they share, and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from operator import and_, eq
from typing import TypeAlias

from nnd_tasks.languages import split_words

#: (same, start, length, start, length): a stretch of each of two texts in characters, shared or different, in order.
Block: TypeAlias = tuple[bool, int, int, int, int]

#: With more words than this between the first and the last difference, all between them is one difference.
MANY = 2_000


def character_blocks(left: str, right: str) -> list[Block]:
    """Return what two texts share and where they differ, compared word by word (`split_words`), in characters."""
    a, b = split_words(left), split_words(right)
    head = count_equal(a, b)
    tail = count_equal(a[head:][::-1], b[head:][::-1])
    middles = a[head : len(a) - tail], b[head : len(b) - tail]
    a_size, b_size = map(len, middles)
    matcher = SequenceMatcher(None, *middles, autojunk=False)
    found = matcher.get_opcodes() if max(a_size, b_size) <= MANY else [("replace", 0, a_size, 0, b_size)]
    # Places are counted from the first difference.
    found = [("equal", -head, 0, -head, 0), *found, ("equal", a_size, a_size + tail, b_size, b_size + tail)]
    i, j = ([0, *accumulate(map(len, words))] for words in (a, b))
    blocks = [
        (tag == "equal", i[head + a0], i[head + a1] - i[head + a0], j[head + b0], j[head + b1] - j[head + b0])
        for tag, a0, a1, b0, b1 in found
    ]
    return [block for block in blocks if block[2] or block[4]]


def count_equal(left: Sequence[object], right: Sequence[object]) -> int:
    """Return with how many equal items two sequences begin."""
    return sum(accumulate(map(eq, left, right), and_))
