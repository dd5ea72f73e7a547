"""What the tests of runs share."""

from __future__ import annotations

import pytest

from tests.warm_server import remember_yamls


@pytest.fixture(scope="session", autouse=True)
def _yamls_of_lm_eval() -> None:
    """Parse the YAMLs of lm-eval's tasks once, not for each misspelled name."""
    remember_yamls()
