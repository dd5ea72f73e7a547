"""What the tests of runs share."""

from __future__ import annotations

import pytest

from nnd_tasks.sets import download


@pytest.fixture(autouse=True)
def be_quick(few_tasks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for unknown names among few tasks of lm-eval, and try downloads, which all fail, once."""
    monkeypatch.setattr(download, "RETRIES", 0)
