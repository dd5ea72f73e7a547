"""The error of a model that cannot be used, or of a request that it cannot score."""

from __future__ import annotations


class ModelError(ValueError):
    """Something that the caller can act on: one line that says what is wrong, and what to do where that is known."""


def reason_with_type(error: BaseException) -> str:
    """Return the type of an error, and the first line of what it says."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
