"""The error for a model that cannot be used, or a request that cannot be scored."""

from __future__ import annotations


class ModelError(ValueError):
    """One line that says what is wrong and, where that is known, what the caller can do."""


def reason_with_type(error: BaseException) -> str:
    """Return the type of an error, and the first line of what it says; transformers may begin with an empty one."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
