"""Which scripts a text is written in, against those of the declared languages."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Script -> ranges of its letters (Unicode 15, blocks; enough to tell scripts apart).
_RANGES = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0250-\u02af\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "Armenian": "\u0531-\u058f",
    "Hebrew": "\u05d0-\u05f4",
    "Arabic": "\u0620-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufefc",
    "Devanagari": "\u0900-\u097f",
    "Bengali": "\u0980-\u09ff",
    "Gurmukhi": "\u0a00-\u0a7f",
    "Gujarati": "\u0a80-\u0aff",
    "Oriya": "\u0b00-\u0b7f",
    "Tamil": "\u0b80-\u0bff",
    "Telugu": "\u0c00-\u0c7f",
    "Kannada": "\u0c80-\u0cff",
    "Malayalam": "\u0d00-\u0d7f",
    "Sinhala": "\u0d80-\u0dff",
    "Thai": "\u0e01-\u0e4e",
    "Lao": "\u0e81-\u0edf",
    "Tibetan": "\u0f00-\u0fbc",
    "Myanmar": "\u1000-\u109f",
    "Georgian": "\u10a0-\u10ff\u1c90-\u1cbf",
    "Ethiopic": "\u1200-\u137f",
    "Khmer": "\u1780-\u17d3",
    "Kana": "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9d",
    "Hangul": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "Han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f",
}
_PATTERNS = {name: re.compile(f"[{ranges}]") for name, ranges in _RANGES.items()}
_LETTER = re.compile(r"[^\W\d_]")

#: Language (ISO 639-1 or 639-3) -> its scripts. Languages that are not here are written in Latin letters, as far as we know.
_SCRIPTS = {
    **dict.fromkeys(("ru", "uk", "be", "bg", "mk", "ky", "tg", "mn", "tt", "ba", "cv", "os"), ("Cyrillic",)),
    **dict.fromkeys(("sr", "bs", "cnr", "kk", "uz", "tk", "az", "crh"), ("Cyrillic", "Latin")),
    **dict.fromkeys(("ar", "fa", "ur", "ps", "ug", "sd", "ckb", "arz", "ary"), ("Arabic",)),
    **dict.fromkeys(("he", "iw", "yi"), ("Hebrew",)),
    **dict.fromkeys(("hi", "mr", "ne", "sa", "bho", "mai", "kok"), ("Devanagari",)),
    **dict.fromkeys(("bn", "as", "mni"), ("Bengali",)),
    **dict.fromkeys(("zh", "yue", "lzh", "wuu", "nan"), ("Han",)),
    **dict.fromkeys(("am", "ti"), ("Ethiopic",)),
    "el": ("Greek",),
    "hy": ("Armenian",),
    "pa": ("Gurmukhi", "Arabic"),
    "ku": ("Latin", "Arabic"),
    "ks": ("Arabic", "Devanagari"),
    "gu": ("Gujarati",),
    "or": ("Oriya",),
    "ta": ("Tamil",),
    "te": ("Telugu",),
    "kn": ("Kannada",),
    "ml": ("Malayalam",),
    "si": ("Sinhala",),
    "th": ("Thai",),
    "lo": ("Lao",),
    "bo": ("Tibetan",),
    "dz": ("Tibetan",),
    "my": ("Myanmar",),
    "ka": ("Georgian",),
    "km": ("Khmer",),
    "ja": ("Kana", "Han"),
    "ko": ("Hangul", "Han"),
}
#: Codes that stand for no one language.
_ANY = {"multilingual", "mul", "und", "code", "zxx", "mis"}


def scripts_of(languages: Iterable[str]) -> frozenset[str] | None:
    """Return the scripts of languages (BCP 47 tags such as ``zh-TW``); None where any script may occur."""
    scripts: set[str] = set()
    for tag in languages:
        language = re.split(r"[-_]", tag.lower())[0]
        if language in _ANY:
            return None
        scripts.update(_SCRIPTS.get(language, ("Latin",)))
        if "latn" in tag.lower():
            scripts.add("Latin")
    return frozenset(scripts)


def main_script(text: str) -> str | None:
    """Return the script of more than half of the letters of a text, or None where no script has so many.

    A text with fewer than five letters is too short to tell (with Chinese characters, fewer than two). Han and kana count
    together, as Japanese mixes them.
    """
    letters = len(_LETTER.findall(text))
    if text.isascii():
        return "Latin" if letters >= 5 else None
    counts = {name: len(pattern.findall(text)) for name, pattern in _PATTERNS.items()}
    # A Chinese character is about a word, so two are enough.
    if letters < (2 if counts["Han"] else 5):
        return None
    name = max(counts, key=lambda key: counts[key])
    if name == "Han" and counts["Kana"] > letters / 10:
        return "Kana"
    return name if counts[name] > letters / 2 else None
