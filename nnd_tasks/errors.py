"""The one error type that a user's mistake, or a condition outside our control, ends in."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type when it has none."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def counted(number: int, noun: str) -> str:
    """Return ``1 test``, ``2 tests``: a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    r"""Return ``text`` on one line, with everything that a terminal would obey or hide written out.

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
