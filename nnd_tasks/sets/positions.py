"""Texts that are changed, and where each position of the original lies in the changed text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnd_tasks.schema import normalize


@dataclass(frozen=True)
class ChangedText:
    """A text after a change.

    Attributes:
        text: after the change.
        starts: for each position of the original, 0 to its length, where what begins there begins now.
        ends: likewise, where what ends there ends now. A position inside a replaced piece goes to the edge of the piece, so
            that a span never loses a character.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def then(self, later: ChangedText) -> ChangedText:
        """Return both changes as one; ``later`` changes the text of this one."""
        if later.text == self.text:
            return self
        return ChangedText(
            later.text, [later.starts[start] for start in self.starts], [later.ends[end] for end in self.ends]
        )


def change_text(pieces: Iterable[tuple[str, str]]) -> ChangedText:
    """Return a text whose pieces are replaced; each piece is (original, new), and an unchanged one keeps its positions."""
    starts: list[int] = []
    ends = [0]
    written: list[str] = []
    length = 0
    for original, new in pieces:
        if original == new:
            starts.extend(range(length, length + len(new)))
            ends.extend(range(length + 1, length + len(new) + 1))
        else:
            starts.extend([length] * len(original))
            ends.extend([length + len(new)] * len(original))
        written.append(new)
        length += len(new)
    return ChangedText("".join(written), [*starts, length], ends)


def replace_text(text: str, pattern: str, new: str = "") -> ChangedText:
    """Return a text in which every match of a regular expression is replaced."""
    pieces = re.split(f"({pattern})", text)
    return change_text((piece, new if i % 2 else piece) for i, piece in enumerate(pieces))


def normalize_text(text: str) -> ChangedText:
    """Return a text in Unicode NFC."""
    if unicodedata.is_normalized("NFC", text):
        every = range(len(text) + 1)
        return ChangedText(text, every, every)
    return change_text(piece for cluster in _split_clusters(text) for piece in _normalize_cluster(cluster))


def _split_clusters(text: str) -> Iterator[str]:
    """Yield pieces whose NFC does not depend on their neighbours: each has a starter and what combines with it."""
    cluster = ""
    for character in text:
        # A character may decompose into one that combines, although it does not itself (U+0F73).
        combines = unicodedata.combining(unicodedata.normalize("NFD", character)[0])
        if cluster and not combines and normalize(cluster + character) == normalize(cluster) + normalize(character):
            yield cluster
            cluster = ""
        cluster += character
    if cluster:
        yield cluster


def _normalize_cluster(cluster: str) -> Iterator[tuple[str, str]]:
    """Yield the smallest pieces of a cluster that can be normalized one by one, each with its NFC."""
    changed = normalize(cluster)
    cuts = [i for i in range(1, len(cluster)) if normalize(cluster[:i]) + normalize(cluster[i:]) == changed]
    for start, end in zip([0, *cuts], [*cuts, len(cluster)], strict=True):
        yield cluster[start:end], normalize(cluster[start:end])
