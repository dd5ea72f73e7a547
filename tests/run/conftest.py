"""What the tests of runs share."""

import pytest


@pytest.fixture(autouse=True)
def list_few_tasks(few_tasks):
    """Look for unknown names among few tasks of lm-eval."""
