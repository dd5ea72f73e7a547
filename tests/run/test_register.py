"""`nnd register`: what stock lm-eval knows then, and what is left when a process is killed."""

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.run.adapter import task_manager
from nnd_tasks.task.task_files import (
    MARKER,
    REGISTERED,
    is_filled,
    register,
    unregister,
    write_task_folder,
)
from tests import commands
from tests.conftest import REPO


@pytest.fixture
def tasks(tmp_path):
    """Make the folder that stands for the one that lm-eval searches (tests/conftest.py)."""
    folder = tmp_path / "lm_eval" / "tasks"
    folder.mkdir(parents=True)
    return folder


def names_in(folder):
    return sorted(path.stem for path in folder.rglob("*.yaml"))


@pytest.mark.parametrize("act", [register, unregister])
@pytest.mark.parametrize("failing", ["write_text", "rename", "rmtree"])
def test_after_a_kill_all_stubs_are_there_or_none_and_the_next_command_works(failing, act, tasks, monkeypatch):
    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    register()
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(shutil if failing == "rmtree" else Path, failing, killed)
        patch.setattr(shutil, "rmtree", killed)  # a killed process does not clear up
        act()
    assert is_filled(tasks / REGISTERED) or not list(tasks.iterdir())
    assert register() == (tasks / REGISTERED, len(names_in(write_task_folder())), "")
    assert is_filled(tasks / REGISTERED)
    assert unregister() == tasks / REGISTERED
    assert list(tasks.iterdir()) == []
    assert unregister() is None


def test_processes_that_register_at_once_leave_all_stubs(tasks):
    code = f"""
from pathlib import Path
from nnd_tasks.task import task_files
task_files.lm_eval_tasks_dir = lambda: Path({str(tasks)!r})
task_files.register()
"""
    processes = [commands.start([sys.executable, "-c", code], cwd=REPO) for _ in range(2)]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    assert names_in(tasks / REGISTERED) == names_in(write_task_folder())
    assert is_filled(tasks / REGISTERED)


def test_a_new_task_is_added_where_others_are_registered_and_nowhere_else(nnd, tmp_path, tasks):
    table = tmp_path / "t.csv"
    table.write_text("q,text,right\n" + "".join(f"q{i},good {i},yes\nq{i},bad {i},no\n" for i in range(3)))
    options = ("--from", table, "--context", "q", "--candidate", "text", "--label", "right", "--better", "yes")
    assert nnd("new", "first", *options).status == 0
    assert list(tasks.iterdir()) == []
    register()
    made = nnd("new", "second", *options)
    assert {"nnd_first", "nnd_second", "nnd_second_choice"} <= {*names_in(tasks / REGISTERED)}
    assert "run it: nnd run --model hf --model_args pretrained=MODEL --tasks nnd_second" in made.out
    (tasks / REGISTERED / MARKER).write_text("")
    (tasks.parent / ".nnd_tasks.lock").mkdir()  # no new folder can be prepared
    assert "note: lm_eval does not know the new tasks: " in nnd("new", "third", *options).err


def test_another_home_takes_no_tasks_away_without_a_word(nnd, tmp_path, nnd_home, tasks, monkeypatch):
    table = tmp_path / "t.csv"
    table.write_text("context,candidate,label\nq,good,yes\nq,bad,no\n")
    assert nnd("new", "mine", "--from", table, "--better", "yes").status == 0
    register()
    monkeypatch.setenv("NND_HOME", str(tmp_path / "other"))
    with (tasks / REGISTERED / MARKER).open("a") as marker:
        marker.write("\nnames of files, which an earlier snapshot wrote" * 1000)
    assert f"it knows those of NND_HOME={nnd_home}" in nnd("new", "second", "--from", table, "--better", "yes").err
    assert "nnd_mine" in names_in(tasks / REGISTERED)
    assert f"no longer knows the tasks of NND_HOME={nnd_home}" in nnd("register").err
    assert {"nnd_mine", "nnd_second"} & {*names_in(tasks / REGISTERED)} == {"nnd_second"}
    assert nnd("register").err == ""


def test_an_lm_eval_that_asks_installed_packages_finds_all_tasks():
    """As its pull request 4015 describes: the entry point names a package, whose folder is searched for YAMLs."""
    code = """
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from lm_eval.tasks import TaskManager
[entry] = entry_points(group="lm_eval.tasks")
package = entry.load()
[folder] = {Path(package.__file__).parent, *map(Path, package.__path__), Path(str(files(package)))}
print(*TaskManager(include_path=str(folder), include_defaults=False).all_tasks)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPO).stdout
    assert {name for name in names_in(write_task_folder()) if name.startswith("nnd")} <= {*found.split()}


def test_registered_tasks_are_overridden_without_a_word_and_others_with_one(tasks, tmp_path, caplog, monkeypatch):
    """Such as those that were registered with another NND_HOME."""
    register()
    monkeypatch.setattr("lm_eval.tasks.manager.__file__", str(tasks / "manager.py"))
    (tasks / "theirs.yaml").write_text("task: theirs\n")
    assert {"nnd_demo", "theirs"} <= {*task_manager(None, ["nnd_demo", "theirs"]).all_tasks}
    assert "overrides" not in caplog.text
    mine = tmp_path / "mine" / "nnd_demo.yaml"
    mine.parent.mkdir()
    shutil.copyfile(write_task_folder() / "demo" / mine.name, mine)
    shutil.copyfile(write_task_folder() / "hanna" / "nnd_hanna.yaml", mine.with_name("nnd_hanna.yaml"))
    task_manager([mine.parent], ["nnd_demo"])
    assert f"Task 'nnd_demo' from {mine} overrides existing task" in caplog.text
    assert "nnd_hanna" not in caplog.text, "which nobody asked for"


def test_a_users_own_yaml_below_nnd_home_is_registered_too(nnd_home, tasks):
    register()
    mine = nnd_home / "task_yamls" / "mine" / "mine.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("task: mine\n")
    assert not is_filled(tasks / REGISTERED)
    folder, count, _ = register()
    stub = folder / "mine" / "mine.yaml"
    assert str(mine) in stub.read_text()
    assert is_filled(tasks / REGISTERED)
    assert count == len(names_in(folder))


def test_a_foreign_folder_of_our_name_is_left_alone(tmp_path, tasks):
    foreign = tasks / REGISTERED / "theirs.yaml"
    foreign.parent.mkdir()
    foreign.write_text("task: theirs\n")
    with pytest.raises(NNDError, match="was not made by nnd register"):
        register()
    assert unregister() is None
    assert foreign.read_text() == "task: theirs\n"


def test_a_folder_that_cannot_be_written_says_what_else_works(tasks):
    tasks.rmdir()
    tasks.write_text("not a folder")
    with pytest.raises(NNDError, match="--include_path"):
        register()
