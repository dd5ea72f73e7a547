"""The one error type that a user's mistake, or a condition outside our control, ends in."""

from __future__ import annotations


class NNDError(Exception):
    """Something the user can act on: one line that says what is wrong, where, and what to do.

    The command line prints it without a traceback and exits with status 1. Everything else that
    escapes is a bug of ours.
    """
