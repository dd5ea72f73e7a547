"""Writing dataset folders: as a whole or not at all, by one process at a time."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from filelock import FileLock

from nnd_tasks.datasets import list_configs, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.folders import lock_file
from nnd_tasks.sets.card import make_card
from tests.sets.folders import beside, contents, make, to_table, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the place of a dataset in a folder of its own."""
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets" / "demo"


# ---------------------------------------------------------------- writing that fails


class Interrupted(BaseException):
    """Stands for a signal, which is no `Exception`."""


def fail_on_a_full_disk(*arguments: Any, **named: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupt(*arguments: Any, **named: Any) -> None:
    raise Interrupted


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    ("place", "failure", "kind"),
    [
        ("nnd_tasks.sets.write.make_card", interrupt, Interrupted),
        ("pyarrow.parquet.write_table", fail_on_a_full_disk, NNDError),
        ("pathlib.Path.rename", interrupt, Interrupted),
    ],
)
def test_a_write_that_fails_leaves_everything_as_it_was(
    folder: Path, place: str, failure: Callable[..., None], kind: type[BaseException], exists: bool
) -> None:
    if exists:
        write(folder)
    before = contents(folder) if exists else None
    with patch(place, failure), pytest.raises(kind) as caught:
        write(folder, {"authors": to_table(make(9, "new"))})
    assert kind is Interrupted or "No space left" in str(caught.value)
    assert (contents(folder) if folder.exists() else None) == before
    assert beside(folder) == set()
    write(folder, {"authors": to_table(make(2))})  # and nothing keeps it from being written later
    assert read_table(folder).num_rows == 2


def test_a_set_behind_a_link_can_be_built_again_and_again(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "large_disk").mkdir()
    folder.symlink_to(tmp_path / "large_disk", target_is_directory=True)
    for n in (1, 2, 3):
        write(folder, {"authors": to_table(make(n))})
        assert read_table(folder).num_rows == n
    assert beside(folder) == set()


def test_what_others_put_into_the_folder_is_kept(folder: Path) -> None:
    write(folder)
    (folder / ".gitattributes").write_text("*.parquet filter=lfs")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (folder / "notes").symlink_to("somewhere")
    write(folder)
    assert (folder / ".gitattributes").read_text() == "*.parquet filter=lfs"
    assert (folder / ".git" / "HEAD").read_text() == "ref: refs/heads/main"
    assert (folder / "notes").is_symlink()
    assert read_table(folder).equals(to_table(make()))


# ---------------------------------------------------------------- several writers


def test_a_set_that_another_process_keeps_locked_is_left_alone(folder: Path) -> None:
    write(folder)
    before = contents(folder)
    with FileLock(lock_file(folder)), pytest.raises(NNDError, match="another command"):
        write(folder, {"clean": to_table(make(1))}, timeout=0.1)
    assert contents(folder) == before
    write(folder, {"clean": to_table(make(1))}, timeout=0.1)
    assert list_configs(folder)[0] == ["authors", "clean"]


def _write_one(folder: Path, name: str, barrier: Any) -> None:
    """Write one config in a process of its own, slowly enough for the other to come in between."""

    def make_slowly(*arguments: Any, **named: Any) -> str:
        time.sleep(0.3)
        return make_card(*arguments, **named)

    barrier.wait(60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nnd_tasks.sets.write.make_card", make_slowly)
        write(folder, {name: to_table(make(4, name))})


def test_two_processes_that_write_different_configs_of_one_set_both_succeed(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    processes = [context.Process(target=_write_one, args=(folder, name, barrier)) for name in ("authors", "clean")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0, 0]
    assert sorted(list_configs(folder)[0]) == ["authors", "clean"]
    for name in ("authors", "clean"):
        assert read_table(folder, name).equals(to_table(make(4, name)))
    assert beside(folder) == set()
