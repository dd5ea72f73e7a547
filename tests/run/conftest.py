"""What the tests of runs share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def list_few_tasks(few_tasks) -> None:
    """Look for unknown names among few tasks of lm-eval."""
