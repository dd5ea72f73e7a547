"""Which optional packages of ``nnd_tasks`` are installed."""

from __future__ import annotations

from importlib.util import find_spec

from nnd_tasks.errors import NNDError


def has_package(name: str) -> bool:
    """Tell whether an optional package of ``nnd_tasks`` is installed."""
    return find_spec(f"nnd_tasks.{name}") is not None


def need_package(name: str, wanted_by: str) -> None:
    """Raise NNDError if an optional package of ``nnd_tasks`` is not installed.

    Args:
        name: of the package.
        wanted_by: the option, command or task that needs it, for the error.
    """
    if not has_package(name):
        raise NNDError(f"{wanted_by}: needs the package nnd_tasks.{name}, which is not installed")
