"""A finding, and how it shows texts of a set: short, on one line, with personal data masked."""

from __future__ import annotations

import os
import re
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


_EMAIL = re.compile(r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b")
_PHONE = re.compile(
    r"(?<![\w.,/+-])(?:"
    r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,5}){1,4}"
    r"|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}"
    r"|0\d{2,4}[ /-]\d{3,4}[ -]?\d{2,4}(?:[ -]?\d{2,4})?)(?![\w-])"
)


def find_email(text: str) -> str | None:
    """Return the first e-mail address, or None."""
    match = _EMAIL.search(text) if "@" in text else None
    return match[0] if match else None


def find_phone(text: str) -> str | None:
    """Return the first phone number of 8 to 15 digits (E.164), written as such, or None."""
    numbers = (match[0] for match in _PHONE.finditer(text))
    return next((number for number in numbers if 8 <= sum(c.isdigit() for c in number) <= 15), None)


def mask(text: str) -> str:
    """Return ``text`` with e-mail addresses and phone numbers made unreadable except for their first characters."""
    text = _EMAIL.sub(lambda m: f"{m[0][0]}***@***.{m[0].rsplit('.', 1)[1]}", text)
    return _PHONE.sub(lambda m: m[0][:3] + re.sub(r"\d", "*", m[0][3:]), text)


def show_text(text: str, start: int = 0) -> str:
    """Return ``text`` from a character on as a finding shows it: on one line, shortened. Mask it before."""
    line = ("…" if start else "") + visible(text[start : start + 4 * _CLIP])
    return line if len(line) <= _CLIP else line[: _CLIP - 1] + "…"


def show_part(text: str, part: str) -> str:
    """Return ``part`` with a little of the text around it, masked."""
    text = mask(text)  # before it is cut: half an address would not be recognized
    return show_text(text, max(0, text.find(mask(part)) - _CLIP // 4))


def show_pair(better: str, worse: str) -> str:
    """Return two texts from shortly before their first difference, masked."""
    pair = [mask(better), mask(worse)]
    same = len(os.path.commonprefix(pair))
    start = max(0, same - _CLIP // 4) if same > _CLIP // 2 and better != worse else 0
    return " | ".join(show_text(text, start) for text in pair)
