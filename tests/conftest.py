"""What all tests share: where the real data is, a home of its own for each test, tiny models, built sets, the command line.

Fixtures import what they need when they are asked for, so that a simple test starts fast.
"""

import functools
import gc
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine_tests.session import gpt2, leave_out_complete, llama, lm_eval_handlers, make_models, masked_model, once
from nnd_tasks.sets.catalogue import list_recipes
from tests.commands import Outcome
from tests.convarg import write_xml
from tests.hanna import write_ratings

__all__ = ["gpt2", "llama", "lm_eval_handlers", "masked_model"]

for _name in ("COLUMNS", "FORCE_COLOR", "NND_DEBUG", "NND_SOURCES", "NO_COLOR"):
    os.environ.pop(_name, None)

REPO = Path(__file__).resolve().parent.parent
DEMO_ANNOTATIONS = REPO / "task_yamls" / "demo" / "demo_annotations.csv"


def _beside(variable, default):
    return Path(os.environ.get(variable) or REPO.parent / "shared" / default).resolve()


DATA = _beside("NND_TEST_DATA", "data")
MODELS = _beside("NND_TEST_MODELS", "models")

#: Set -> its recipe, of those that come with the package.
SOURCES = {name: found.read() for name, found in list_recipes().items() if found.origin == "package"}

#: The side-by-side file of `mqm`.
SIDE_BY_SIDE = DATA / "today/mqm2023/sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv.tar.gz"

#: Set of today -> the folder of its files in `DATA`.
TODAY = {
    name: f"today/{'humanevalpack' if name == 'humanevalfix' else name}"
    for name in ("humanevalfix", "prmbench", "summedits", "llmbar", "lfqa", "bump", "bio_mqm")
}

#: Sets whose files are in a folder of their name below ``later``.
LATER = ("basse", "convarg", "esa23", "medec", "mrben", "mrbench", "tofueval", "vtg", "xsum_hallucination")

#: Set -> the folder of its files in `DATA`, where that is not called as the set is.
FOLDERS = {
    **TODAY,
    "lamp": "next/creativity/Writing_Alignment/LAMP/reannotation",
    "wqrm": "next/creativity/WritingRewards",
    "when2call": "next/when2call/data/test",
    "bridge": "next/bridge/dataset",
    "mtrag": "next/mtrag/mtrag-human/evaluations",
    "crscore": "next/crscore/human_study/phase2",
    "wmt_chat": "next/wmt_chat/data/mqm-annotations",
    "d2t": "next/d2t_spans",
    "webnlg": "extra_raw/webnlg",
    "hanna": "extra",
    **{name: f"later/{name}" for name in LATER},
}

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no annotation data at {DATA}; set NND_TEST_DATA")
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason=f"no trained models at {MODELS}; set NND_TEST_MODELS")


def pytest_collection_finish():
    """Look at this machine once: lm-eval asks pip and other programs about it after every run, which takes a second."""
    if "torch" in sys.modules:
        from torch.utils import collect_env

        collect_env.get_pretty_env_info = functools.cache(collect_env.get_pretty_env_info)
    # What is imported and collected now stays to the end; the garbage collector need not look at it again and again.
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Leave out the tests of ``make test-all``, and put the files with slow tests first.

    With ``--dist worksteal`` each process takes its share of the list from the front, and one that is done takes tests from
    the back of another's. So the last tests are short ones, and no process works alone at the end. A file's tests stay
    together, as they share fixtures.
    """
    leave_out_complete(items)
    slow = {item.path for item in items if "slow" in item.keywords}
    items.sort(key=lambda item: item.path not in slow)


def import_script(name):
    """Import a script of docs/, which is no package."""
    sys.path.insert(0, str(REPO / "docs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.fixture(autouse=True)
def nnd_home(tmp_path, monkeypatch):
    """Give every test a home of its own."""
    home = tmp_path / "nnd_home"
    monkeypatch.setenv("NND_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def stay_alone(tmp_path, monkeypatch):
    """Look for what is registered in no lm-eval that others read (`make install` registers there); wait for no download."""
    monkeypatch.setattr("nnd_tasks.task.task_files.lm_eval_tasks_dir", lambda: tmp_path / "lm_eval" / "tasks")
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))


@pytest.fixture(scope="session")
def data():
    """Return the folder of the real annotation files; skip without it."""
    if not DATA.is_dir():
        pytest.skip(f"no annotation data at {DATA}; set NND_TEST_DATA")
    return DATA


@pytest.fixture(scope="session")
def models():
    """Return the folder of the small trained models; skip without it."""
    if not MODELS.is_dir():
        pytest.skip(f"no trained models at {MODELS}; set NND_TEST_MODELS")
    return MODELS


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    """Return name -> folder of a tiny model."""
    from tests.random_models import BUILDERS

    return make_models(tmp_path_factory, "tiny_models", BUILDERS)


# ---------------------------------------------------------------- lm-eval with few tasks of its own


@pytest.fixture(scope="session")
def small_lm_eval(tmp_path_factory):
    """Return a folder with lm-eval as it is installed, but for its tasks: of thousands, which take ten seconds to list, some."""

    def make(folder):
        def skip(path, names):
            return [name for name in names if name not in ("arc", "__pycache__") and Path(path, name).is_dir()]

        installed = Path(next(iter(importlib.util.find_spec("lm_eval").submodule_search_locations)))
        shutil.copytree(installed, folder / "lm_eval", ignore=shutil.ignore_patterns("tasks", "__pycache__"))
        shutil.copytree(installed / "tasks", folder / "lm_eval" / "tasks", ignore=skip)

    return once(tmp_path_factory, "small_lm_eval", make)


@pytest.fixture
def few_tasks(small_lm_eval, monkeypatch):
    """Let lm-eval list few tasks of its own in this process."""
    from lm_eval.tasks import manager

    monkeypatch.setattr(manager, "__file__", str(small_lm_eval / "lm_eval" / "tasks" / "manager.py"))


# ---------------------------------------------------------------- built sets


@pytest.fixture(scope="session")
def demo_home(real_sets):
    """Return a home in which the demo is built; no test changes it."""
    return real_sets("demo").parents[1]


@pytest.fixture
def home(demo_home, monkeypatch):
    """Let the test use the home in which the demo is built."""
    monkeypatch.setenv("NND_HOME", str(demo_home))
    return demo_home


@pytest.fixture(scope="session")
def real_sets(tmp_path_factory):
    """A function that gives the folder of a set, built from the publisher's files once for all processes; no test changes it.

    It skips where the files are not there.
    """

    def get(name):
        if name != "demo" and not (DATA / FOLDERS.get(name, name)).is_dir():
            pytest.skip(f"no annotation data at {DATA}; set NND_TEST_DATA")

        def make(home):
            from nnd_tasks.sets.build import build_set

            source = None if name == "demo" else DATA / FOLDERS.get(name, name)
            if name == "hanna":
                source = write_ratings(DATA / "extra" / "hanna.jsonl", home / "sources")
            if name == "convarg":
                source = write_xml(source, home / "sources")
            build_set(name, source, home / "nnd" / name)
            if name == "mqm" and SIDE_BY_SIDE.is_file():
                build_set(name, SIDE_BY_SIDE, home / "nnd" / name)

        return once(tmp_path_factory, f"set_{name}", make) / "nnd" / name

    return get


@pytest.fixture
def link_sets(nnd_home, real_sets):
    """A function that puts sets, built from the publishers' files, into the home of the test."""

    def link(*names):
        (nnd_home / "nnd").mkdir(parents=True)
        for name in names:
            (nnd_home / "nnd" / name).symlink_to(real_sets(name), target_is_directory=True)

    return link


@pytest.fixture(scope="session")
def stress_home(data, tmp_path_factory):
    """Return a home with a small stress set of each corpus; no test changes it."""

    def make(home):
        from nnd_tasks.studies.stress.corpora import KNOWN
        from nnd_tasks.studies.stress.stress_set import build_stress_set

        for corpus in KNOWN:
            name = f"blindspot_{corpus}"
            build_stress_set(name, corpus, folder=data / "blindspot", out=home / "nnd" / name, texts=3, levels="three")

    return once(tmp_path_factory, "stress_home", make)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def nnd(monkeypatch, capsys):
    """A function that runs the command's entry point in this process."""
    from nnd_tasks import cli

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["nnd", *map(str, arguments)])
        capsys.readouterr()
        status = 0
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code or 0
        assert isinstance(status, int)
        return Outcome(status, *capsys.readouterr())

    return run
