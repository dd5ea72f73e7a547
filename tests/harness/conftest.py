"""Models and sets that the harness tests share, made once per worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nnd_tasks.build import build_set
from nnd_tasks.new.draft import draft_set, write_set
from nnd_tasks.stress.corpora import KNOWN
from nnd_tasks.stress.stress_set import build_stress_set
from tests.conftest import DATA, once
from tests.harness import tiny


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tests run in parallel processes; more threads only slow them down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return name -> folder of a tiny model."""
    root = tmp_path_factory.mktemp("tiny")
    return {name: build(root / name) for name, build in tiny.BUILDERS.items()}


@pytest.fixture(scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    build_set("demo", out=home / "nnd" / "demo")
    return home


@pytest.fixture(scope="session")
def _real_home(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "real_home", _build_all)


def _build_all(home: Path) -> None:
    for name in ("demo", "quiz_design", "challenge300", "summeval", "frank", "mqm", "news_gpt3"):
        build_set(name, None if name == "demo" else DATA / name, home / "nnd" / name)
    build_set("summeval", DATA / "summeval", home / "nnd" / "summeval", {"rows": "all"})
    for name, file in (("webnlg", "webnlg2020_en_human.jsonl"), ("hanna", "hanna.jsonl")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NND_HOME", str(home))
            write_set(draft_set(name, str(DATA / "extra" / file)))
    for corpus in KNOWN:
        name = f"blindspot_{corpus}"
        build_stress_set(
            name, corpus, place=DATA / "blindspot", out=home / "nnd" / name, texts=3, levels="three", progress=False
        )


@pytest.fixture
def home(_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which the demo is built."""
    monkeypatch.setenv("NND_HOME", str(_home))
    return _home


@pytest.fixture
def real_home(data: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which every set is built from the real files."""
    folder: Path = request.getfixturevalue("_real_home")
    monkeypatch.setenv("NND_HOME", str(folder))
    return folder
