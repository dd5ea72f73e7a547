"""Keep passwords, tokens and keys out of what is written and logged.

Model arguments may hold a token of the hub, the key of a server, or both in its URL. The model must get them; results,
signatures, reports and log lines must not. Names decide: every value whose name reads like that of a secret is hidden, at
any depth, and so are the user, the password and the query of every URL.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

#: Replaces a secret.
MARK = "***"

#: A name that contains one of these, its separators left out, is that of a secret.
_PARTS = (
    *("password", "passwd", "passphrase", "secret", "credential", "authorization", "bearer", "cookie", "header"),
    *("apikey", "accesskey", "privatekey", "authtoken", "accesstoken", "apitoken", "hftoken", "hubtoken"),
)
#: A name whose last word is one of these is that of a secret.
_WORDS = {"auth", "pass", "pwd", "pw", "pat", "jwt", "sas", "sig", "key", "keys"}
#: With one of these before it, "token" means a token of a text, as in bos_token.
_OF_TEXTS = {
    *("bos", "eos", "pad", "unk", "sep", "cls", "mask", "prefix", "suffix", "start", "end", "stop", "special", "image"),
    *("audio", "video", "think", "thinking", "eot", "eod", "begin", "boi", "eoi", "next", "first", "last", "per"),
}

_URL = re.compile(
    r"""(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://)
    (?P<user>(?:(?!,\w+=)[^/?#\s'"<>@])*@(?:(?:(?!,\w+=)[^/?#\s'"<>@])*@)*)?
    (?P<place>(?:(?!,\w+=)[^?#\s'"<>])*)
    (?P<query>[?#](?:(?!,\w+=)[^\s'"<>])*)?""",
    re.IGNORECASE | re.VERBOSE,
)
#: A name and what stands between it and its value: ``name=``, ``"name": ``, ``name: '``.
_NAME = re.compile(r"""(?<![\w.-])(?P<quote>\\?['"]?)(?P<name>[A-Za-z_][\w.-]*)(?P=quote)\s*(?P<sign>[:=])\s*""")
_SCHEME = re.compile(r"\b(Bearer|Basic)\s+[\w+/=.~-]{4,}")
_CLOSING = {"{": "}", "[": "]", "(": ")"}
#: Minimum length of a secret that is looked for in running text; shorter ones also occur in ordinary words.
_LONG = 6


def is_secret(name: str) -> bool:
    """Tell whether a name reads like that of a secret: ``api_key``, ``hub-token``, ``Authorization``, ``accessToken``."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    if not words:
        return False
    joined = "".join(words)
    if any(part in joined for part in _PARTS):
        return True
    if words[-1] == "token":  # bos_token and max_tokens are not secrets
        return len(words) == 1 or words[-2] not in _OF_TEXTS
    return words[-1] in _WORDS or words[0] == "auth"


def bare_urls(text: str) -> str:
    """Return ``text`` with the user, the password and the query of every URL taken out."""
    return _URL.sub(lambda match: match["scheme"] + match["place"], text)


def open_query(url: str) -> list[tuple[str, str]]:
    """Return what the query of a URL asks for, secrets left out; empty for a text that is not a URL."""
    try:
        parts = urlsplit(url)
        return [pair for pair in parse_qsl(parts.query) if parts.scheme and not is_secret(pair[0])]
    except ValueError:
        return []


def without_secrets(value: Any, mark: str | None = MARK) -> Any:
    """Return a copy of arguments without their secrets; lists and mappings at any depth, other objects as they are.

    Args:
        value: what to copy.
        mark: takes the place of each secret; None leaves it out with its name.
    """
    if isinstance(value, Mapping):
        kept = {}
        for name, item in value.items():
            if not is_secret(str(name)):
                kept[name] = without_secrets(item, mark)
            elif mark is not None:
                kept[name] = mark
        return kept
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, mark) for item in value]
    return hide(value) if isinstance(value, str) else value


def secret_values(value: Any) -> set[str]:
    """Return the secrets among arguments that are long enough to be looked for in running text."""
    secrets: set[str] = set()
    if isinstance(value, Mapping):
        for name, item in value.items():
            secrets |= set(_leaves(item)) if is_secret(str(name)) else secret_values(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            secrets |= secret_values(item)
    elif isinstance(value, str):
        secrets |= {value[start:end].strip("'\"\\") for _, start, end in _named(value)}
        for url in _URL.finditer(value):
            try:
                parts = urlsplit(url[0])
                secret = [parts.password, *(item for name, item in parse_qsl(parts.query) if is_secret(name))]
            except ValueError:  # no URL after all
                continue
            secrets |= {text for item in secret if item for text in (item, unquote(item))}
    return {text for text in secrets if len(text) >= _LONG}


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield value
        yield from value.split()  # the token of "Bearer TOKEN"


def hide(text: str, known: Iterable[str] = ()) -> str:
    """Return ``text`` with every secret replaced by `MARK`: ``token=...``, ``'api_key': '...'``, parts of URLs.

    Args:
        text: anything, such as a log line, an error or ``--model_args``.
        known: values of secrets to look for, from `secret_values`.
    """
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, MARK)
    text = bare_urls(text)
    for _, start, end in reversed(list(_named(text))):
        text = text[:start] + MARK + text[end:]
    return _SCHEME.sub(rf"\1 {MARK}", text)


def arguments_without_secrets(text: str) -> str:
    """Return comma-separated ``key=value`` pairs, those with secrets and the secrets in URLs left out."""
    for name, _, end in reversed(list(_named(text))):
        comma = text.find(",", end)
        text = text[:name].rstrip(",") + (text[comma:] if comma >= 0 else "")
    return hide(text.lstrip(","))


def _named(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield for each secret the index at which its name begins, and those at which its value begins and ends."""
    done = 0
    for match in _NAME.finditer(text):
        start = match.end()
        if match.start() < done or start >= len(text) or not is_secret(match["name"]):
            continue
        quoted = text[start] in "'\"\\{[("
        if match["sign"] == ":" and not match["quote"] and not quoted:
            continue  # prose, such as "unexpected token: x"
        done = _end(text, start)
        if done > start:
            yield match.start(), start, done


def _end(text: str, start: int) -> int:
    """Return where the value that begins at ``start`` ends: its closing quote or bracket, or the next separator."""
    opening = re.compile(r"\\?['\"]").match(text, start)
    if opening:
        closing = text.find(opening[0], opening.end())
        return len(text) if closing < 0 else closing + len(opening[0])
    if text[start] not in _CLOSING:
        match = re.compile(r"[^\s,;&'\"{}()\[\]]*").match(text, start)
        return match.end() if match else start
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "{[(") - (text[i] in "}])")
        if depth == 0:
            return i + 1
    return len(text)


class Veiled(dict[str, Any]):
    """A dictionary that holds its secrets and does not show them when it is printed or logged."""

    def __repr__(self) -> str:
        return repr(without_secrets(dict(self)))

    __str__ = __repr__


@contextmanager
def hidden_in_logs(known: Iterable[str]) -> Iterator[None]:
    """Keep secrets out of all log lines, tracebacks in them included, while the block runs.

    Args:
        known: as for `hide`; it is read again for each line, so secrets may be added to it during the run.
    """
    make = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        try:
            text = record.getMessage()
        except Exception:  # a line that cannot be formatted is reported by logging itself
            return record
        if (hidden := hide(text, known)) != text:
            record.msg, record.args = hidden, ()
        if record.exc_info:
            text = logging.Formatter().formatException(record.exc_info)
            if (hidden := hide(text, known)) != text:
                record.exc_text = hidden
        return record

    logging.setLogRecordFactory(factory)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
