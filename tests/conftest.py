"""What all tests share: where the real data is, an isolated home, tiny models."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from nnd_tasks.recipes.shelf import find_recipe, recipe_paths

# Nothing may wait for a network; set before any test imports datasets or transformers.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

REPO = Path(__file__).resolve().parent.parent
DEMO_ANNOTATIONS = REPO / "task_yamls" / "demo" / "demo_annotations.csv"


def _beside(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or REPO.parent / "shared" / default).resolve()


DATA = _beside("NND_TEST_DATA", "data")
MODELS = _beside("NND_TEST_MODELS", "models")

#: Set -> its recipe, of those that come with the package.
SOURCES = {name: find_recipe(name) for name, (_, shipped) in recipe_paths().items() if shipped}

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no annotation data at {DATA}; set NND_TEST_DATA")
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason=f"no trained models at {MODELS}; set NND_TEST_MODELS")


#: Files whose tests take longest; started first, or one process would end with them while the other is idle.
LONGEST = ("test_demo.py", "test_wrong_input.py", "test_docs.py", "test_lm_eval_cli.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; the order within a file stays."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Make a folder that no test changes once for all processes of a run.

    Args:
        factory: of this process.
        name: of the folder.
        make: fills it.
    """
    root = factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / name
    with FileLock(folder.with_suffix(".lock")):
        if not folder.with_suffix(".made").exists():
            make(folder)
            folder.with_suffix(".made").touch()
    return folder


@pytest.fixture(autouse=True)
def nnd_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a home of its own."""
    home = tmp_path / "nnd_home"
    monkeypatch.setenv("NND_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of the real annotation files; skip without it."""
    if not DATA.is_dir():
        pytest.skip(f"no annotation data at {DATA}; set NND_TEST_DATA")
    return DATA


@pytest.fixture(scope="session")
def models() -> Path:
    """Return the folder of the small trained models; skip without it."""
    if not MODELS.is_dir():
        pytest.skip(f"no trained models at {MODELS}; set NND_TEST_MODELS")
    return MODELS
