"""A finding, and how it shows texts of a set: short, on one line, with personal data masked."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from nnd_tasks.errors import visible

#: Rows that a finding lists; it counts all of them.
EXAMPLES = 5
_CLIP = 80  # characters of a detail


class Severity(IntEnum):
    """How much a finding matters; the worst one decides the exit status.

    Error: the set cannot be run or published as it is. Warning: its rates may mislead, or a person has to look at it. Note:
    good to know.
    """

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """Name in lower case."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Row:
    """A test that a finding is about.

    Attributes:
        index: 0-based row of the config's parquet files, in the order of their names.
        test_id: of the test; ``""`` where the data have none.
        detail: the text that the finding is about, shortened, with personal data masked.
    """

    index: int
    test_id: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at.

    Attributes:
        severity: how much it matters.
        code: of its rule.
        message: what is there.
        fix: what to do.
        rows: the first few tests.
        count: all of them.
        config: where; ``""`` for what concerns the whole set.
        table: rows of numbers, column -> cell.
    """

    severity: Severity
    code: str
    message: str
    fix: str
    rows: tuple[Row, ...] = ()
    count: int = 0
    config: str = ""
    table: tuple[dict[str, Any], ...] = ()


EMAIL = re.compile(r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b")
PHONE = re.compile(
    r"(?<![\w.,/+-])(?:"
    r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,5}){1,4}"
    r"|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}"
    r"|0\d{2,4}[ /-]\d{3,4}[ -]?\d{2,4}(?:[ -]?\d{2,4})?)(?![\w-])"
)


def mask(text: str) -> str:
    """Return ``text`` with e-mail addresses and phone numbers made unreadable except for their first characters."""
    text = EMAIL.sub(lambda m: f"{m[0][0]}***@***.{m[0].rsplit('.', 1)[1]}", text)
    return PHONE.sub(lambda m: m[0][:3] + re.sub(r"\d", "*", m[0][3:]), text)


def show_texts(texts: Sequence[str], part: str | None = None) -> str:
    """Return texts as a finding shows them, masked and shortened, each on one line.

    Args:
        texts: one, or the two candidates of a test.
        part: of the first text: they are shown from shortly before it; None stands for their first difference.
    """
    texts = [mask(text) for text in texts]  # before they are cut: half an address would not be recognized
    at = len(os.path.commonprefix(texts)) if part is None else texts[0].find(mask(part))
    start = max(0, at - _CLIP // 4)
    return " | ".join(visible(text[start : start + _CLIP]) for text in texts)
