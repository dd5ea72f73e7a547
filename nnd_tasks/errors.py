"""The one error type that a user's mistake, or a condition outside our control, ends in."""

from __future__ import annotations

from typing import Any


def reason_of(error: BaseException) -> str:
    """Say in one line why something failed, for an error message that names the file or the thing itself.

    That is what the operating system says ("No space left on device", without the path), else the message, else the name of
    the error's type.
    """
    message = error.strerror if isinstance(error, OSError) else None
    return message or one_line(str(error)) or type(error).__name__


def typed_reason_of(error: BaseException) -> str:
    """Say why something failed, with the type of the error before the message unless it is an `NNDError`."""
    message = one_line(str(error), least=80)
    if isinstance(error, NNDError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def one_line(message: str, least: int = 0) -> str:
    """Join the first lines of a message to one: as many as give ``least`` characters and do not end by a colon."""
    text = ""
    for line in message.splitlines():
        text = f"{text} {' '.join(line.split())}".strip()
        if len(text) > least and not text.endswith(":"):
            break
    return text


def cut_middle(message: str, most: int = 3000) -> str:
    """Cut a message to at most ``most`` characters: a longer one loses its middle, as its end says what to do."""
    if len(message) <= most:
        return message
    tail = most // 5
    return f"{message[: most - tail - 3]} … {message[-tail:]}"


def visible(text: str) -> str:
    r"""Write ``text`` on one line, with everything that a terminal would obey or hide written out.

    Line breaks, terminal escapes, characters that turn the writing direction or have no width and lone surrogates become
    escapes such as ``\x1b``; letters of every script stay.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class NNDError(Exception):
    """Something the user can act on: one line that says what is wrong, where, and what to do.

    The command line prints it without a traceback and exits with status 1. Everything else that
    escapes is a bug of ours.
    """

    def __init__(self, message: str) -> None:
        # File and column names from outside may hold line breaks and terminal escapes: show them, don't obey them.
        super().__init__(visible(message))


def list_mistakes(error: Any) -> list[tuple[str, str]]:
    """List key and cause, in plain words, of each mistake in a `pydantic.ValidationError`: ``("min_gap", "expected ...")``."""
    plain = {"Value error, ": "", "Input should be": "expected", "a valid tuple": "a list", "a valid boolean": "true or false",
             "Field required": "it is missing"}  # fmt: skip
    mistakes = []
    for mistake in error.errors(include_url=False):
        cause = mistake["msg"]
        for words, plain_words in plain.items():
            cause = cause.replace(words, plain_words)
        mistakes.append((".".join(map(str, mistake["loc"])).removesuffix(".[key]"), cause))
    return mistakes
