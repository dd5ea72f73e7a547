"""Which optional packages of ``nnd_tasks`` are installed, and what the core takes from them by name."""

from __future__ import annotations

import pkgutil
from importlib.util import find_spec
from typing import Any

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


def load_optional(name: str, wanted_by: str) -> Any:
    """Load a class or a function from an optional package.

    Args:
        name: ``module:Class``.
        wanted_by: as for `need_package`.

    Raises:
        NNDError: the package is not installed.
    """
    need_package(name.split(".")[1], wanted_by)
    return pkgutil.resolve_name(name)
