"""`nnd register` and `nnd register --undo`, killed at every step, and two at once."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from nnd_tasks.errors import NNDError
from nnd_tasks.runner import register as registration
from nnd_tasks.runner.adapter import our_tasks
from nnd_tasks.runner.register import FOLDER, MARKER, register, task_files, unregister
from nnd_tasks.runner.run import _check_name
from nnd_tasks.sets.tasks import write_task

#: What `register` and `unregister` ask of the file system, by module and name.
STEPS = [(os, "rename"), (os, "replace"), (os, "unlink"), (os, "rmdir"), (os, "mkdir"), (os, "chmod"), (io, "open")]


class KilledError(BaseException):
    """No handler of ours catches it, and nothing can be changed after it."""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for the folder that lm-eval searches."""
    folder = tmp_path / "lm_eval" / "tasks"
    folder.mkdir(parents=True)
    monkeypatch.setattr(registration, "lm_eval_tasks_dir", lambda: folder)
    return folder


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Do ``act``; from its change number ``step`` on none takes place, clean-ups included. Tell whether it came to that."""
    done = 0

    def limited(original: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            reading = original is io_open and not set("wax+") & set(str((*args, "", "")[1]) + str(kwargs.get("mode")))
            done += not reading
            if done >= step and not reading:
                raise KilledError
            return original(*args, **kwargs)

        return change

    io_open = io.open
    with pytest.MonkeyPatch.context() as patch:
        for module, name in STEPS:
            patch.setattr(module, name, limited(getattr(module, name)))
        try:
            act()
        except KilledError:
            return True
    return False


def whole_or_absent(tasks: Path) -> bool:
    """Tell whether lm-eval sees all stubs or none."""
    found = {path.name for path in tasks.rglob("*") if path.is_file()}
    return found in (set(), {MARKER, *task_files()})


@pytest.mark.parametrize("act", [register, unregister])
def test_a_kill_at_any_step_leaves_all_or_nothing_and_the_next_command_clears_up(
    act: Callable[[], object], tasks: Path
) -> None:
    few = dict(list(task_files().items())[:4])  # every stub is a step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registration, "task_files", lambda: few)
        patch.setattr("tests.runner.test_register.task_files", lambda: few)
        kills = 0
        for next_command in (register, unregister):
            step = 0
            killed = True
            while killed:
                step += 1
                register()
                killed = killed_at(step, act)
                kills += killed
                assert whole_or_absent(tasks), f"killed at step {step}"
                next_command()
                assert (next_command is register) == (tasks / FOLDER / MARKER).is_file()
                assert whole_or_absent(tasks)
                assert [path.name for path in tasks.parent.iterdir()] == ["tasks"], f"left over from step {step}"
        assert kills > 10


def test_what_a_killed_release_before_left_is_taken_over(tasks: Path) -> None:
    """It removed the marker first, and its unfinished stubs stayed beside."""
    for act in (register, unregister):
        folder, _ = register()
        (folder / MARKER).unlink()
        for path in list(folder.iterdir())[:3]:
            path.unlink()
        (tasks.parent / ".nnd-abc").mkdir()
        (tasks.parent / ".nnd-abc" / "nnd.yaml").write_text("include: /x/nnd.yaml\n", encoding="utf-8")
        assert act() is not None
        assert (folder / MARKER).is_file() == (act is register)
        assert [path.name for path in tasks.parent.iterdir()] == ["tasks"]


def test_two_at_once_both_succeed(tasks: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = [future.result() for future in [pool.submit(register) for _ in range(8)]]
    assert set(results) == {(tasks / FOLDER, len(task_files()))}
    assert whole_or_absent(tasks)
    assert [path.name for path in tasks.parent.iterdir()] == ["tasks"]


def test_a_hidden_file_is_no_task(tasks: Path, nnd_home: Path) -> None:
    folder = nnd_home / "task_yamls" / "demo"
    folder.mkdir(parents=True)
    text = f"include: {registration.tasks_dir() / 'demo' / 'nnd_demo.yaml'}\ndoc_to_text: an earlier prompt\n"
    for name in (".nnd_demo.x1y2.yaml", ".ipynb_checkpoints/nnd_demo.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    assert not [path for path in task_files().values() if path.is_relative_to(nnd_home)]
    with our_tasks({"nnd_demo"}, _check_name):
        assert TaskManager().task_index["nnd_demo"].yaml_path.is_relative_to(registration.tasks_dir())


def test_a_task_is_written_under_a_name_of_its_own_and_one_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "nnd_x.new").mkdir()  # the earlier name of the unfinished file: of two at once, one took the other's
    assert write_task("nnd_x", {"dataset_path": "nnd/x"}, tmp_path).path.is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"nnd_x.new", "nnd_x.yaml"}
    (tmp_path / "nnd_x.yaml").write_bytes(b"\xff")
    with pytest.raises(NNDError, match=r"nnd_x.yaml: cannot be read \('utf-8' codec"):
        write_task("nnd_x", {"dataset_path": "nnd/x"}, tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_the_stubs_have_the_mode_that_the_user_asks_for(tasks: Path) -> None:
    before = os.umask(0o077)
    try:
        folder, _ = register()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
