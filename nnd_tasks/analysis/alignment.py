"""Two texts side by side: what they share, and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import TypeAlias

from nnd_tasks.languages import split_words

#: (same, start, length, start, length): a stretch of each of two sequences, shared or different, in order.
Block: TypeAlias = tuple[bool, int, int, int, int]

#: Sequences with more items than this between their first and last difference are not compared item by item.
MANY = 500


def blocks(left: Sequence[str], right: Sequence[str], many: int = MANY) -> list[Block]:
    """Return what two sequences share and where they differ, in order.

    Args:
        left: such as words.
        right: likewise.
        many: with more items than this between the first and the last difference, all between them is one difference.
    """
    short = min(len(left), len(right))
    head = next((i for i in range(short) if left[i] != right[i]), short)
    tail = next((i for i in range(short - head) if left[-1 - i] != right[-1 - i]), short - head)
    a, b = left[head : len(left) - tail], right[head : len(right) - tail]
    found = [(True, 0, head, 0, head)]
    if max(len(a), len(b)) > many:
        found.append((False, head, len(a), head, len(b)))
    else:
        for tag, i, i_end, j, j_end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            found.append((tag == "equal", head + i, i_end - i, head + j, j_end - j))
    found.append((True, len(left) - tail, tail, len(right) - tail, tail))
    return [block for block in found if block[2] or block[4]]


def character_blocks(left: str, right: str, many: int = MANY) -> list[Block]:
    """Return what two texts share and where they differ, compared word by word, in characters.

    Words are those of `split_words`.
    """
    a_words, b_words = split_words(left), split_words(right)
    i, j = ([0, *accumulate(map(len, words))] for words in (a_words, b_words))
    return [
        (same, i[a], i[a + a_size] - i[a], j[b], j[b + b_size] - j[b])
        for same, a, a_size, b, b_size in blocks(a_words, b_words, many)
    ]
