"""What is looked for in each text: markup, damage, personal data, scripts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from os.path import commonprefix  # of texts, not paths
from pathlib import Path

from nnd_tasks.errors import visible
from nnd_tasks.files import read_yaml

_CLIP = 80  # characters that a finding shows of a text

_EMAIL = re.compile(r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b")
_PHONE = re.compile(
    r"(?<![\w.,/+-])(?:"
    r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,5}){1,4}"
    r"|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}"
    r"|0\d{2,4}[ /-]\d{3,4}[ -]?\d{2,4}(?:[ -]?\d{2,4})?)(?![\w-])"
)

#: What latin-1 and cp1252 show for the bytes 0x80 to 0xBF, which continue a character in UTF-8.
_CONTINUED = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"  # noqa: RUF001
_MOJIBAKE = re.compile(
    f"(?<![A-ZÀ-Þ])[ÃÂ][{_CONTINUED}]|[âï][{_CONTINUED}]{{2}}|ð[{_CONTINUED}]{{3}}|(?:[ÎÏÐÑ][{_CONTINUED}]){{2,}}"
)


def _find_mojibake(text: str) -> re.Match[str] | None:
    """Return a part of the text that becomes valid UTF-8 when it is written as cp1252, or None."""
    for match in _MOJIBAKE.finditer(text):
        try:
            b"".join(c.encode("latin-1" if c < "\u0100" else "cp1252") for c in match[0]).decode("utf-8")
        except UnicodeError:
            continue
        return match
    return None


def _find_phone(text: str) -> re.Match[str] | None:
    """Return the first phone number of 8 to 15 digits (E.164), written as such, or None."""
    return next((found for found in _PHONE.finditer(text) if 8 <= len(re.sub(r"\D", "", found[0])) <= 15), None)


#: Code -> words and, where it is looked for in texts, its regular expression; the file says what each key stands for.
RULES: Mapping[str, Mapping[str, str]] = read_yaml(Path(__file__).with_name("rules.yaml"))
#: Code -> search for its part of a text.
SEARCHES: Mapping[str, Callable[[str], re.Match[str] | None]] = {
    **{code: re.compile(rule["search"]).search for code, rule in RULES.items() if "search" in rule},
    "mojibake": _find_mojibake,
    "email": _EMAIL.search,
    "phone": _find_phone,
}


def strip_form(text: str) -> str:
    """Return the letters and digits of a text in lower case; the text as it is where it has none."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold()) or text


# ---------------------------------------------------------------- what a finding shows


def mask(text: str) -> str:
    """Return ``text`` with e-mail addresses and phone numbers made unreadable except for their first characters."""
    text = _EMAIL.sub(lambda m: f"{m[0][0]}***@***.{m[0].rsplit('.', 1)[1]}", text)
    return _PHONE.sub(lambda m: m[0][:3] + re.sub(r"\d", "*", m[0][3:]), text)


def show_texts(texts: Sequence[str], part: str | None = None) -> str:
    """Return texts as a finding shows them, masked and shortened, each on one line.

    Args:
        texts: one, or the two candidates of a test.
        part: of the first text: they are shown from shortly before it; None stands for their first difference.
    """
    texts = [mask(text) for text in texts]  # before they are cut: half an address would not be recognized
    at = len(commonprefix(texts)) if part is None else texts[0].find(mask(part))  # noqa: RUF071
    start = max(0, at - _CLIP // 4)
    return " | ".join(visible(text[start : start + _CLIP]) for text in texts)


# ---------------------------------------------------------------- scripts

_SCRIPTS: Mapping[str, Sequence[str]] = read_yaml(Path(__file__).with_name("scripts.yaml"))


def scripts_of(languages: Iterable[str]) -> set[str]:
    """Return the scripts of languages (BCP 47 tags such as ``zh-TW``); none where any script may occur."""
    codes = {re.split("[-_]", tag.lower())[0] for tag in languages}
    found = {script for script, own in _SCRIPTS.items() if codes.intersection(own)}
    if "ANY" in found:
        return set()
    return found | {"LATIN"} if codes.difference(*_SCRIPTS.values()) else found


def find_other_script(text: str, expected: Container[str]) -> str | None:
    """Return the script of most letters of a text where it is none of those expected.

    A text with fewer than five letters is too short to tell (with Chinese characters, which are about a word each, fewer than
    two).
    """
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            counts[unicodedata.name(character, "?").split()[0]] += count
    if counts.total() < (2 if "CJK" in counts else 5):
        return None
    [(script, count)] = counts.most_common(1)
    return None if script in expected or count <= counts.total() / 2 else script
