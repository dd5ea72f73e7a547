"""Codes of languages, as a recipe names them."""

from __future__ import annotations

import re

from nnd_tasks.errors import NNDError

#: Names of languages, as people write them in place of codes, each followed by its code.
_LANGUAGES = (
    "arabic ar bengali bn bulgarian bg catalan ca chinese zh mandarin zh croatian hr czech cs danish da dutch nl "
    "english en estonian et finnish fi french fr fran\u00e7ais fr german de deutsch de greek el hebrew he hindi hi "
    "hungarian hu icelandic is indonesian id irish ga italian it italiano it japanese ja kazakh kk korean ko latin "
    "la latvian lv lithuanian lt malay ms norwegian no persian fa farsi fa polish pl portuguese pt romanian ro "
    "russian ru serbian sr slovak sk slovenian sl spanish es espa\u00f1ol es swahili sw swedish sv tamil ta telugu te "
    "thai th turkish tr ukrainian uk urdu ur vietnamese vi welsh cy"
)
_CODES = dict(zip(_LANGUAGES.split()[::2], _LANGUAGES.split()[1::2], strict=True))


def code_of(language: str) -> str:
    """Return the code that a language's name or a spelling of its code stands for: ``German`` and ``de`` -> ``de``."""
    plain = language.strip().lower()
    return _CODES.get(plain) or plain.replace("_", "-")


def check_language(language: str) -> None:
    """Raise NNDError for what is not the code of a language: the hub and `nnd check` know only codes."""
    if re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", language) or language in ("multilingual", "code"):
        return
    code = code_of(language)
    meant = (
        f"write {code}"
        if re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{2,8})*", code)
        else "write a code such as en or pt-BR (ISO 639)"
    )
    raise NNDError(f"--language {language}: is not a language code; {meant}")
