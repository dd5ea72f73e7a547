"""Keep passwords, tokens and keys out of what is written and logged.

Model arguments may hold a token of the hub, the key of a server, or both in its URL. The model must get them; results,
signatures, reports and log lines must not. Names decide: every value whose name reads like that of a secret is hidden, at
any depth, and so are the user, the password and the query of every URL. The values of environment variables with such names,
and those that `keep_secret` is told, are hidden wherever they appear: in the path of a URL, in what a server says.

Known limits: values of fewer than 8 characters are hidden beside their names only. A key in a path that is the value of no
variable, and does not begin as well-known keys do, is taken for a part of the path.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import quote

#: Replaces a secret.
MARK = "***"

#: The words of a name before its last one: ``openai_``, or ``user`` before a capital letter.
_BEFORE = r"(?:[\w.-]*(?:[_.-]|(?-i:(?<=[a-z0-9])(?=[A-Z]))))?"
#: Names of secrets: api_key, hub-token, Authorization, accessToken. A token of a text, as in bos_token, is none.
_NAME = rf"""(?:
    [\w.-]*(?:passw(?:or)?d|passphrase|secret|credential|authorization|bearer|cookie|header)[\w.-]*
    | [\w.-]*(?:(?:api|access|private)[_.-]?key|(?:auth|access|api|hf|hub)[_.-]?token)[\w.-]*
    | {_BEFORE}(?:auth|pass|pwd|pw|pat|jwt|sas|sig|keys?)
    | auth[_.-][\w.-]*
    | (?!{_BEFORE}(?:bos|eos|pad|unk|sep|cls|mask|prefix|suffix|start|end|stop|special|image|audio|video
        |think|thinking|eot|eod|begin|boi|eoi|next|first|last|per)[_.-]?token(?![\w.-])){_BEFORE}token
    )(?![\w.-])"""
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE | re.VERBOSE)
#: A secret in running text after its name: ``name=...``, ``"name": "..."``, ``name: '...'``; "unexpected token: x" is prose.
_NAMED = re.compile(
    rf"""(?P<name>(?<![\w.-])(?P<quote>\\*['"]?){_NAME}(?P=quote)\s*(?:=|:(?=\s*[\\'"{{\[(]))\s*)
    (?!(?-i:VALUE)\b|\*\*\*)
    (?:(?P<mark>\\*['"]).*?(?:(?P=mark)|$) | \{{[^}}]*\}}? | \[[^]]*\]? | \([^)]*\)? | [^\s,;&'"{{}}()\[\]\\]+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_SCHEME = re.compile(r"\b(Bearer|Basic)\s+[\w+/=.~-]{4,}")
#: Keys that tell by their beginning whose they are.
_KNOWN_KEY = re.compile(r"\b(?:sk-|pk-|hf_|gsk_|xai-|ghp_|github_pat_|glpat-|nvapi-|AIza)[\w-]{16,}")
#: Least length of a value that is hidden wherever it appears.
_LEAST = 8
#: Values that `keep_secret` was told.
_told: set[str] = set()
_URL = re.compile(
    r"""(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://)
    (?P<user>(?:(?!,\w+=)[^/?#\s'"<>@])*@(?:(?:(?!,\w+=)[^/?#\s'"<>@])*@)*)?
    (?P<place>(?:(?!,\w+=)[^?#\s'"<>])*)
    (?P<query>[?#](?:(?!,\w+=)[^\s'"<>])*)?""",
    re.IGNORECASE | re.VERBOSE,
)


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Tell whether a name reads like that of a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


def bare_urls(text: str) -> str:
    """Take the user, the password and the query out of every URL in a text, and write `MARK` for known values."""
    return _hide_values(_URL.sub(r"\g<scheme>\g<place>", text))


def _hide_values(text: str) -> str:
    """Write `MARK` for the values of variables of the environment whose names are those of secrets, and for values told."""
    values = {*_told, *(value for name, value in os.environ.items() if is_secret(name))}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _LEAST:
            text = text.replace(value, MARK).replace(quote(value, safe=""), MARK)
    return _KNOWN_KEY.sub(MARK, text)


def keep_secret(value: Any, *, named: bool = False) -> None:
    """Hide from now on, wherever they appear, the secrets among the arguments of a model, and the words of each.

    Args:
        value: a mapping of arguments, or a value in it at any depth.
        named: whether it has the name of a secret.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            keep_secret(item, named=named or is_secret(str(name)))
    elif isinstance(value, (list, tuple)):
        for item in value:
            keep_secret(item, named=named)
    elif named and isinstance(value, str):
        _told.update([value, *value.split()])


def hide(text: str) -> str:
    """Write `MARK` for every secret in a log line, an error or ``--model_args``, and make its URLs bare."""
    return _SCHEME.sub(rf"\1 {MARK}", _NAMED.sub(rf"\g<name>{MARK}", bare_urls(text)))


def without_secrets(value: Any, replacement: str | None = MARK) -> Any:
    """Copy arguments without their secrets; lists and mappings at any depth, other objects as they are.

    Args:
        value: what to copy.
        replacement: takes the place of each secret; None leaves it out with its name.
    """
    if isinstance(value, Mapping):
        return {
            name: replacement if is_secret(str(name)) else without_secrets(item, replacement)
            for name, item in value.items()
            if replacement is not None or not is_secret(str(name))
        }
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, replacement) for item in value]
    return hide(value) if isinstance(value, str) else value


@contextmanager
def hidden_in_logs() -> Iterator[None]:
    """Keep secrets out of all log lines, tracebacks in them included, while the block runs."""
    make = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        try:
            text = record.getMessage()
        except Exception:  # a line that cannot be formatted is reported by logging itself
            return record
        hidden = hide(text)
        if hidden != text:
            record.msg, record.args = hidden, ()
        if record.exc_info:
            record.exc_text = hide(logging.Formatter().formatException(record.exc_info))
        return record

    logging.setLogRecordFactory(factory)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
