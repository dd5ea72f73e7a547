"""Most tests check tasks in their own process: another one imports lm-eval anew each time."""

from __future__ import annotations

import pytest

from nnd_tasks.check import apart


@pytest.fixture(autouse=True)
def _here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "apart" not in request.keywords:
        monkeypatch.setattr(apart, "check_apart", apart.check_here)
