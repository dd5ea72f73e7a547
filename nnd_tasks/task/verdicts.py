r"""What a model answered, read from the text that it wrote: a word or a number after a mark, never from prose.

A mark is ``[[A]]``, ``\boxed{A}``, a key of JSON such as ``"verdict": "A"``, or a line such as ``Answer: A``. Only an answer
without any mark may say it in a first or last line that is nothing else. Where an answer says two things, nothing is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

_Value = TypeVar("_Value", str, float)

_WORD_KEYS = "answer|verdict|winner|choice|decision|judge?ment"
_NUMBER_KEYS = "answer|verdict|rating|score|grade|judge?ment"
#: What a text may be called before its name: ``Answer: Text A``.
_NOUN = r"(?:(?:text|response|option|candidate|assistant)\s+)?"
#: White space and what Markdown and LaTeX put around a word.
_AROUND = " \t*_`~$\"'“”()[]{}<>"
#: Reasoning that is no part of an answer. A chat template may have opened it, so that only its end is there.
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHTS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{\s*(?:\\text\w*\{)?([^{}\n]{1,40})\}{1,2}")
_BRACKETS = re.compile(r"\[\[([^\[\]\n]{1,40})\]\]")


def read_word(answer: str, words: Sequence[str]) -> str | None:
    """Read which of some words an answer says, in upper or lower case.

    Args:
        answer: what the model wrote.
        words: those that it may say, as they were asked for.

    Returns:
        One of ``words``; None where none can be read, or several.
    """
    pattern = re.compile(rf"{_NOUN}({'|'.join(map(re.escape, words))})", re.IGNORECASE)
    by_folded = {word.casefold(): word for word in words}

    def interpret(value: str) -> str | None:
        match = pattern.fullmatch(value)
        return by_folded[match[1].casefold()] if match else None

    return _read(answer, _WORD_KEYS, interpret)


def read_number(answer: str, lowest: float, highest: float) -> float | None:
    """Read which number on a scale an answer says: ``7``, ``7.5``, ``7/10`` or ``7 out of 10``.

    Args:
        answer: what the model wrote.
        lowest: the lower end of the scale.
        highest: its upper end, which alone may stand after a slash.

    Returns:
        The number; None where none on the scale can be read, or several.
    """
    pattern = re.compile(rf"(-?\d+(?:\.\d+)?)(?:\s*(?:/|out of)\s*{highest:g})?", re.IGNORECASE)

    def interpret(value: str) -> float | None:
        match = pattern.fullmatch(value)
        return float(match[1]) if match and lowest <= float(match[1]) <= highest else None

    return _read(answer, _NUMBER_KEYS, interpret)


def _read(answer: str, keys: str, interpret: Callable[[str], _Value | None]) -> _Value | None:
    answer = _BOXED.sub(r"[[\1]]", _THOUGHTS.sub("", answer))
    if _OPEN_THOUGHTS.search(answer):
        return None
    json_key = re.compile(rf"[\"'](?:{keys})[\"']\s*:\s*([^,}}\n]{{1,40}})", re.IGNORECASE)
    line = re.compile(
        rf"^[\s>#*_`-]*(?:(?:my|the|final|overall)\s+)*(?:{keys})(?:\s+is)?[*_`\s]*[:\uff1a=]\s*([^\n]*)$",
        re.IGNORECASE | re.MULTILINE,
    )
    marked = [_strip(match[1]) for mark in (_BRACKETS, json_key, line) for match in mark.finditer(answer)]
    # After a mark, one word that is no answer contradicts the others; a sentence is no mark.
    values: list[_Value | None] = []
    for text in marked:
        value = interpret(text)
        if value is not None or len(text.split()) == 1:
            values.append(value)
    if not values:
        lines: list[str] = [line for line in map(_strip, answer.splitlines()) if line]
        values = [value for value in map(interpret, [*lines[:1], *lines[-1:]]) if value is not None]
    return values[0] if len({*values}) == 1 else None


def _strip(text: str) -> str:
    """Take away what is around a word; a full stop or an exclamation mark may be inside or outside of that."""
    return text.strip(_AROUND).rstrip(".!。").strip(_AROUND)
