"""A browser for pages."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def browser():
    """Return a Chromium; tests that need one are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")]
    with api.sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = next(filter(None, found), own if Path(own).exists() else None)
        if path is None:
            pytest.skip("no chromium or google-chrome on the PATH, and none of playwright's; make browser installs one")
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()
