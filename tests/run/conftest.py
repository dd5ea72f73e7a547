"""What the tests of runs share."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _yamls_of_lm_eval() -> None:
    """Parse each YAML of lm-eval's own tasks once: listing its thousands of tasks takes ten seconds each time.

    Stubs that `nnd register` writes among them are read anew, as is whatever lies elsewhere.
    """
    from lm_eval.tasks import _index as index

    folder = Path(index.__file__).parent
    original, parsed = index.load_yaml, {}

    def load_yaml(path: Path, **options: Any) -> Any:
        key = (str(path), *sorted(options.items()))
        if not path.is_relative_to(folder) or path.is_relative_to(folder / "nnd_tasks"):
            return original(path, **options)
        if key not in parsed:
            parsed[key] = pickle.dumps(original(path, **options))
        return pickle.loads(parsed[key])

    index.load_yaml = load_yaml
