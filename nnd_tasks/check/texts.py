"""What is looked for in each text: markup, damage, personal data, scripts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeAlias

#: Returns the part of a text that it looks for, or None.
Search: TypeAlias = Callable[[str], "str | None"]


def _search(pattern: str, needs: str = "", flags: int = 0) -> Search:
    """Return a search for a pattern that can only match where one of the characters ``needs`` is, which is fast to test."""
    compiled = re.compile(pattern, flags)

    def search(text: str) -> str | None:
        match = compiled.search(text) if not needs or any(c in text for c in needs) else None
        return match[0] if match else None

    return search


find_html = _search(
    r"</?(?:a|abbr|article|b|blockquote|body|br|center|code|dd|div|dl|dt|em|font|footer|form|h[1-6]|head|header|hr|html|i|iframe"
    r"|img|input|label|li|link|main|mark|meta|nav|ol|option|p|pre|ref|script|section|select|small|span|strong|style|sub|sup|svg"
    r"|table|tbody|td|textarea|th|thead|title|tr|tt|u|ul|v|video)(?:\s[^<>]{0,300})?/?>",
    "<",
    re.IGNORECASE,
)
find_markdown = _search(
    r"```|^#{1,6} \S.*|(?<![\w*])\*\*[^\s*](?:[^*\n]{0,200}[^\s*])?\*\*(?![\w*])|\[[^\]\n]{1,200}\]\(https?://[^)\s]{1,500}\)",
    "`#*[",
    re.MULTILINE,
)
find_escaped = _search(  # \nabla, \nu and the like are LaTeX
    r"\\r?\\?n(?!abla|u\b|eq?\b|eg\b|i\b|ot|ewline|oindent|mid|leq|geq|rightarrow)|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}"
    r"|&(?:amp|lt|gt|quot|apos|nbsp|[lr][sd]quo|[mn]dash|hellip|#\d{2,6}|#x[0-9a-fA-F]{2,6});",
    "\\&",
)
find_special_token = _search(
    r"</?s>|<(?:unk|pad|mask|bos|eos|extra_id_\d+)>|<\|[\w-]{1,40}\|>|\[(?:UNK|CLS|SEP|MASK|PAD)\]|▁\w", "<[▁"
)
find_replacement = _search("\ufffd")
find_control = _search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]")
find_invisible = _search("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
find_edge_space = _search(r"\A\s+(?=\S)|(?<=\S)\s+\Z")

#: What latin-1 and cp1252 show for the bytes 0x80 to 0xBF, which continue a character in UTF-8.
_CONTINUED = "\u0080-\u00bf" + "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xA0))
_MOJIBAKE = re.compile(
    f"(?<![A-ZÀ-Þ])[ÃÂ][{_CONTINUED}]|[âï][{_CONTINUED}]{{2}}|ð[{_CONTINUED}]{{3}}|(?:[ÎÏÐÑ][{_CONTINUED}]){{2,}}"
)


def find_mojibake(text: str) -> str | None:
    """Return a part of the text that becomes valid UTF-8 when it is written as cp1252, or None."""
    for match in [] if text.isascii() else _MOJIBAKE.finditer(text):
        try:
            b"".join(c.encode("latin-1" if c < "\u0100" else "cp1252") for c in match[0]).decode("utf-8")
        except UnicodeError:
            continue
        return match[0]
    return None


def find_not_nfc(text: str) -> str | None:
    """Return the beginning of a text that is not in NFC."""
    return None if unicodedata.is_normalized("NFC", text) else text[:40]


def strip_form(text: str) -> str:
    """Return the letters and digits of a text in lower case; the text as it is where it has none."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold()) or text


# ---------------------------------------------------------------- scripts

#: Script, as names of Unicode characters begin -> the languages that it writes (ISO 639-1 or 639-3). Languages that are not
#: here are written in Latin letters, as far as we know.
_SCRIPTS = {
    "CYRILLIC": "ru uk be bg mk ky tg mn tt ba cv os sr bs cnr kk uz tk az crh",
    "ARABIC": "ar fa ur ps ug sd ckb arz ary pa ku ks",
    "HEBREW": "he iw yi",
    "DEVANAGARI": "hi mr ne sa bho mai kok ks",
    "BENGALI": "bn as mni",
    "CJK": "zh yue lzh wuu nan ja ko",
    "KANA": "ja",
    "HANGUL": "ko",
    "ETHIOPIC": "am ti",
    "GREEK": "el",
    "ARMENIAN": "hy",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "TIBETAN": "bo dz",
    "MYANMAR": "my",
    "GEORGIAN": "ka",
    "KHMER": "km",
}
_ALSO_LATIN = "sr bs cnr kk uz tk az crh ku".split()
#: Codes that stand for no one language.
_ANY = {"multilingual", "mul", "und", "code", "zxx", "mis"}


def scripts_of(languages: Iterable[str]) -> set[str] | None:
    """Return the scripts of languages (BCP 47 tags such as ``zh-TW``); None where any script may occur."""
    scripts: set[str] = set()
    for tag in languages:
        language = re.split(r"[-_]", tag.lower())[0]
        if language in _ANY:
            return None
        own = {script for script, codes in _SCRIPTS.items() if language in codes.split()}
        scripts |= own
        if not own or language in _ALSO_LATIN or "latn" in tag.lower():
            scripts.add("LATIN")
    return scripts


@lru_cache(None)
def _script(character: str) -> str:
    names = unicodedata.name(character, "").split()
    if {"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"} & {*names}:
        return "KANA"
    return next((name for name in names if name not in ("FULLWIDTH", "HALFWIDTH", "MODIFIER")), "")


def main_script(text: str) -> str | None:
    """Return the script of more than half of the letters of a text, or None where no script has so many.

    A text with fewer than five letters is too short to tell (with Chinese characters, fewer than two). Han and kana count
    together, as Japanese mixes them.
    """
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            counts[_script(character)] += count
    letters = counts.total()
    if letters < (2 if counts["CJK"] else 5):  # a Chinese character is about a word
        return None
    script, count = counts.most_common(1)[0]
    if script == "CJK" and counts["KANA"] > letters / 10:
        return "KANA"
    return script if count > letters / 2 else None
