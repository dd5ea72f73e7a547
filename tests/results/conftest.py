"""Results of lm-eval on tiny models."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nnd_tasks.run.run import run_lm_eval

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def scored(demo_home: Path, tiny_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with results of three tiny models on ten contexts of the demo."""
    out = tmp_path_factory.mktemp("scored")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NND_HOME", str(demo_home))
        for name in ("gpt2", "llama", "t5"):
            run_lm_eval(
                [
                    *("--model", "hf", "--model_args", f"pretrained={tiny_models[name]},dtype=float32"),
                    *("--tasks", "nnd_demo", "--limit", "10", "--device", "cpu"),
                    *("--output_path", str(out / name), "--log_samples"),
                ]
            )
    return out


@pytest.fixture
def results(scored: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(scored, tmp_path / "results"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
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
