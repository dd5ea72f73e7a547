"""Fixtures of the tests of `nnd check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contribute.made import Made


@pytest.fixture
def made(nnd_home: Path) -> Made:
    """Return a set in which nothing is wrong; it is not written yet."""
    return Made(nnd_home)
