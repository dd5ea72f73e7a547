"""Writing dataset folders: as a whole or not at all, by one process at a time, and only where the user may write."""

import errno
import io
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nnd_tasks import cli
from nnd_tasks.errors import NNDError
from nnd_tasks.files import only_writer
from nnd_tasks.schema import SPANS, TYPES
from nnd_tasks.sets.write import make_card, write_parquet
from nnd_tasks.store import list_configs, read_table
from tests.commands import refused
from tests.sets.folders import beside, contents, make, to_table, write


@pytest.fixture
def folder(tmp_path):
    """Return the place of a dataset in a folder of its own."""
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets" / "demo"


# ---------------------------------------------------------------- writing that fails


class Interrupted(BaseException):
    """Stands for a signal, which is no `Exception`."""


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    ("place", "failure", "kind"),
    [
        ("nnd_tasks.sets.write.make_card", Interrupted, Interrupted),
        ("pyarrow.parquet.write_table", OSError(errno.ENOSPC, "No space left"), NNDError),
        ("pathlib.Path.rename", Interrupted, Interrupted),
    ],
)
def test_a_write_that_fails_leaves_everything_as_it_was(folder, place, failure, kind, exists):
    if exists:
        write(folder)
    before = contents(folder.parent)
    with patch(place, side_effect=failure), pytest.raises(kind) as caught:
        write(folder, {"authors": to_table(make(9, "new"))})
    assert kind is Interrupted or "No space left" in str(caught.value)
    assert contents(folder.parent) == before
    write(folder, {"authors": to_table(make(2))})  # and nothing keeps it from being written later
    assert read_table(folder).num_rows == 2


@pytest.mark.parametrize(
    "kind",
    [*TYPES.values(), SPANS, pa.list_(pa.list_(pa.float32())), pa.float16(), pa.date32(), pa.null()],
    ids=str,
)
def test_a_file_declares_the_features_that_datasets_infers(folder, kind):
    write_parquet(pa.table({"cells": pa.nulls(1, kind)}), folder / "one.parquet")
    written = pq.read_schema(folder / "one.parquet")
    wanted = datasets.Features.from_arrow_schema(written.remove_metadata()).arrow_schema
    assert written.metadata == wanted.metadata


def test_a_set_behind_a_link_can_be_built_again_and_again(folder, tmp_path):
    (tmp_path / "large_disk").mkdir()
    folder.symlink_to(tmp_path / "large_disk", target_is_directory=True)
    for n in (1, 2, 3):
        write(folder, {"authors": to_table(make(n))})
        assert read_table(folder).num_rows == n
    assert beside(folder) == set()


def test_what_others_put_into_the_folder_is_kept(folder):
    write(folder)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (folder / "notes").symlink_to("somewhere")
    write(folder, {"authors": to_table(make(2))})
    assert (folder / ".git" / "HEAD").read_text() == "ref: refs/heads/main"
    assert (folder / "notes").is_symlink()
    assert read_table(folder).num_rows == 2


# ---------------------------------------------------------------- several writers


def test_a_set_that_another_process_keeps_locked_is_left_alone(folder):
    write(folder)
    before = contents(folder)
    with only_writer(folder, 1.0, "unused"), pytest.raises(NNDError, match="another command"):
        write(folder, {"clean": to_table(make(1))}, timeout=0.1)
    assert contents(folder) == before
    write(folder, {"clean": to_table(make(1))}, timeout=0.1)
    assert list_configs(folder)[0] == ["authors", "clean"]


def test_two_that_write_different_configs_of_one_set_both_succeed(folder):
    def make_slowly(*arguments, **named):
        time.sleep(0.1)  # for the other to come in between
        return make_card(*arguments, **named)

    names = ["authors", "clean"]
    with patch("nnd_tasks.sets.write.make_card", make_slowly), ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: write(folder, {name: to_table(make(4, name))}), names))
    assert sorted(list_configs(folder)[0]) == names
    for name in names:
        assert read_table(folder, name).equals(to_table(make(4, name)))
    assert beside(folder) == set()


# ---------------------------------------------------------------- places that take no files


def test_a_home_that_cannot_be_written_is_named_with_the_way_out(nnd, tmp_path, monkeypatch):
    home = tmp_path / "file" / "home"
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("NND_HOME", str(home))
    for name, place, hint in (("demo", "nnd/demo", "--out"), ("quiz_design", "downloads/quiz_design", "NND_HOME")):
        message = refused(nnd("build", name))
        assert message.startswith(f"{home}/{place}: cannot be written (")
        assert hint in message
    assert (tmp_path / "file").read_text() == "mine"
    assert "no folder that a dataset can be written to" in refused(nnd("build", "demo", "--out", "/"))


def test_a_terminal_without_the_letters_of_a_folder_gets_them_escaped(tmp_path, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["nnd", "build", "demo", "--out", str(tmp_path / "ä")])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    out.flush()
    assert b"\\xe4" in out.buffer.getvalue()  # type: ignore[attr-defined]
