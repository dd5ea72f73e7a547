"""Results of lm-eval on tiny models."""

import shutil
from pathlib import Path

import pytest

from nnd_tasks.run.run import run_and_save
from tests.conftest import once


@pytest.fixture(scope="session")
def scored(demo_home, tiny_models, tmp_path_factory):
    """Return a folder with results of three tiny models on ten contexts of the demo."""

    def make(out):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NND_HOME", str(demo_home))
            for name in ("gpt2", "llama", "t5"):
                arguments = {"pretrained": str(tiny_models[name]), "dtype": "float32"}
                run_and_save("nnd_demo", "hf", arguments, limit=10, device="cpu", output_path=out / name)

    return once(tmp_path_factory, "scored", make)


@pytest.fixture
def results(scored, tmp_path):
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(scored, tmp_path / "results"))
