"""The models and sets of the harness's tests."""

from __future__ import annotations

from tests.harness.conftest import _home, _one_thread, _real_home, real_home, tiny_models  # noqa: F401 - fixtures
