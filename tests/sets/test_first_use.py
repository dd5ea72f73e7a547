"""The first use of a set builds it, from files that the user has; several processes, a kill and a lack of network do no harm."""

import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.publishers.download import find_copy, sha256_of
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import find_dataset, look_up_set
from nnd_tasks.task.documents import load_tests
from tests.commands import run
from tests.conftest import REPO
from tests.sets.small_files import QUIZ_FILE, small_source, write_files
from tests.sets.tables import read_arguments

ARGUMENTS = read_arguments(__file__)

QUIZ_SHA256 = "a07b4182bdd888460414302933f9dcb47bb3e6bb713da50ef7707c643bee2741"
LOAD = "import nnd_tasks; print(len(nnd_tasks.load('quiz_design')))"


@pytest.fixture
def sources(data, monkeypatch):
    """Name the folder of the real files by NND_SOURCES."""
    monkeypatch.setenv("NND_SOURCES", str(data))
    return data


# ---------------------------------------------------------------- where the files come from


@pytest.mark.parametrize("name", ["quiz_design", "frank"])
def test_a_set_of_the_package_is_built_from_the_users_files(name, data, tmp_path, monkeypatch, capsys):
    folder = data if name == "quiz_design" else small_source(tmp_path / "frank", "frank").parent
    monkeypatch.setenv("NND_SOURCES", str(folder))
    loaded = load(name)
    assert loaded.num_rows == {"quiz_design": 2686, "frank": 3}[name]
    told = capsys.readouterr().err
    assert re.search(rf"^{name}: \S.* from {folder}/", told, re.M)
    assert ("has no published hash; it was taken by its name from " in told) == (name == "frank")
    assert load(name).to_list() == loaded.to_list()
    assert capsys.readouterr().err == ""


def test_a_task_builds_its_set_with_what_there_is_of_optional_files(tmp_path, monkeypatch, capsys):
    small_source(tmp_path, "mqm")
    monkeypatch.setenv("NND_SOURCES", str(tmp_path))
    tests, origin, _ = load_tests("nnd/mqm", "newstest2021_ende", "test", {})
    assert (origin["local"], tests.num_rows) == (True, 4)
    assert "note: without mqm_ted_ende.tsv, which is optional: https://" in capsys.readouterr().err


def test_a_file_is_found_by_its_hash_whatever_its_name_is(nnd_home, tmp_path, monkeypatch):
    files = {"a/t.csv": "other", "b/second.csv": "wanted", "b/third.txt": "wanted"}
    folder = write_files(tmp_path / "files", files)
    sha256 = sha256_of(folder / "b/second.csv")
    assert find_copy("t.csv", sha256, "mine") is None
    monkeypatch.setenv("NND_SOURCES", str(folder))
    assert find_copy("t.csv", sha256, "mine") == folder / "b/second.csv"
    (folder / "b/second.csv").write_text("has changed since")
    assert find_copy("t.csv", sha256, "mine") is None
    assert find_copy("t.csv", sha256_of(write_files(nnd_home / "sources", {"x.csv": "wanted"}) / "x.csv"), "mine")


def test_of_files_with_one_name_that_of_the_set_is_taken_and_none_is_guessed(tmp_path, monkeypatch):
    files = {"a/t.csv": "a", "b/t.csv": "b", "mine/t.csv": "c", "not_t.csv": "d"}
    monkeypatch.setenv("NND_SOURCES", str(write_files(tmp_path, files)))
    assert find_copy("t.csv", None, "mine") == tmp_path / "mine/t.csv"
    assert find_copy("a/t.csv", None, "yours") == tmp_path / "a/t.csv"
    assert find_copy("no.csv", None, "mine") is None
    with pytest.raises(NNDError, match=r"3 files are called t.csv, .* into a folder yours there"):
        find_copy("t.csv", None, "yours")
    monkeypatch.setenv("NND_SOURCES", str(tmp_path / "gone"))
    with pytest.raises(NNDError, match=r"^NND_SOURCES=\S+gone: there is no such folder; name another, or unset it$"):
        find_copy("t.csv", None, "mine")


# ---------------------------------------------------------------- what is not built


def test_without_a_network_one_line_names_file_hash_folder_and_option(nnd_home):
    with pytest.raises(NNDError) as error:
        load("quiz_design")
    message = str(error.value)
    assert "\n" not in message
    for part in ("https://raw.githubusercontent.com/", f"{QUIZ_FILE} (sha256 {QUIZ_SHA256})", f"{nnd_home}/sources",
                 "nnd build quiz_design --source FILE_OR_DIR"):  # fmt: skip
        assert part in message
    assert look_up_set("quiz_design") is None


@pytest.mark.parametrize(("name", "message"), ARGUMENTS["what_cannot_be_built_is_one_line"])
def test_what_cannot_be_built_is_one_line(name, message):
    with pytest.raises(NNDError, match=message):
        load(name)


def test_a_set_of_ones_own_is_never_built_on_use(nnd_home, monkeypatch):
    recipe = "context: c\ncandidate: t\nlabel: l\nbetter: good\nfiles: {t.csv: {}}\n"
    folder = write_files(nnd_home / "task_yamls/mine", {"_recipe": recipe, "t.csv": "c,t,l\nq,a,good\nq,b,bad\n"})
    with pytest.raises(NNDError, match=r"the set 'mine' is not built in NND_HOME=.*; run: nnd build mine"):
        load("mine")
    monkeypatch.chdir(folder.parent)
    with pytest.raises(NNDError, match=r"mine: no NND dataset is there"):
        load("./mine")
    assert not (nnd_home / "nnd").exists()


# ---------------------------------------------------------------- several processes, and a kill


@pytest.mark.usefixtures("sources")
def test_of_two_that_want_a_set_at_once_one_builds_it():
    with patch("nnd_tasks.sets.build.build_set", wraps=build_set) as build, ThreadPoolExecutor(2) as pool:
        loaded = list(pool.map(load, ["quiz_design"] * 2))
    assert [table.num_rows for table in loaded] == [2686] * 2
    assert build.call_count == 1


@pytest.mark.usefixtures("sources")
def test_of_a_build_that_is_killed_nothing_is_seen_and_the_next_use_builds():
    kill = "import os, nnd_tasks.sets.build, unittest.mock as m; kill = lambda *a, **k: os.kill(os.getpid(), 9);"
    killed = run([sys.executable, "-c", f"{kill} m.patch('pathlib.Path.rename', kill).start(); {LOAD}"], cwd=REPO)
    assert (killed.stdout, killed.returncode) == ("", -signal.SIGKILL)
    assert look_up_set("quiz_design") is find_dataset("nnd/quiz_design") is None
    assert load("quiz_design").num_rows == 2686
