"""Files and folders are written whole or not at all, and a stranger's file cannot hang or flood its reader."""

import os
import stat
from pathlib import Path

import pytest
from lm_eval.tasks._index import TaskIndex

from nnd_tasks.errors import NNDError, reason_of, typed_reason_of, visible
from nnd_tasks.files import (
    changing,
    parse_json,
    parse_yaml,
    read_bytes,
    read_text,
    read_yaml,
    reading,
    rewriting,
    workshop,
    write_text,
    write_texts,
    writing,
    writing_all,
)
from tests.commands import refused


def test_of_several_files_all_are_written_or_none(tmp_path):
    paths = [tmp_path / "a.md", tmp_path / "b.json"]
    paths[0].write_text("before", encoding="utf-8")
    with pytest.raises(RuntimeError), writing_all(paths) as new:  # noqa: PT012
        new[0].touch()
        raise RuntimeError
    assert paths[0].read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == paths[:1]
    write_texts(dict.fromkeys(paths, "ä"))
    assert [path.read_text(encoding="utf-8") for path in paths] == ["ä", "ä"]
    assert sorted(tmp_path.iterdir()) == paths


def test_a_folder_of_that_name_is_refused_before_the_work(tmp_path):
    with pytest.raises(NNDError, match=r"cannot be written \(is a folder\); name a file"):
        write_text(tmp_path, "text", hint="name a file")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(NNDError, match=r"a\.txt: cannot be written.*No space left"), writing(tmp_path / "a.txt"):
        Path("/dev/full").write_text("text", encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_and_folders_have_the_mode_that_the_user_asked_for(tmp_path, mask):
    old = os.umask(mask)
    try:
        write_text(tmp_path / "a.txt", "text")
        with workshop(tmp_path / "folder", tmp_path / "folder") as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~mask
    assert not folder.exists()


def test_a_fifo_and_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(NNDError, match="is not a regular file"):
            read_bytes(path)


def test_a_file_that_is_absent_too_large_or_no_utf8_is_named(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(NNDError, match="a: cannot be read"):
        read_text(path)
    path.write_bytes(b"a\ngr\xfc\xdfe")
    with pytest.raises(NNDError, match=r"a: is not UTF-8 \(line 2, byte 4\)"):
        read_text(path)
    with pytest.raises(NNDError, match="larger than"):
        read_bytes(path, limit=4)


def test_aliases_and_depth_in_yaml_are_refused(tmp_path):
    bomb = "a: &a [x,x,x]\n" + "".join(
        f"{b}: &{b} [*{a},*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for text, message in ((bomb, r"alias \*a is not allowed"), ("[" * 3000, "nested deeper"), ("d: 2022-13-41", "")):
        with pytest.raises(NNDError, match=f"^card: .*{message}"):
            parse_yaml(text, "card")
    path = tmp_path / "a.yaml"
    path.write_text("a: [1, {b: ä}]", encoding="utf-8")
    assert read_yaml(path) == {"a": [1, {"b": "ä"}]}


@pytest.mark.parametrize(("text", "message"), [("[" * 100_000, "nested too deeply"), ("{", "is not valid JSON")])
def test_deep_and_broken_json_are_one_error(text, message):
    with pytest.raises(NNDError, match=rf"a\.json: .*{message}"):
        parse_json(text, "a.json")


def test_what_a_terminal_would_obey_is_shown():
    assert visible("ok ä 我 \x1b[2J\nnew\u202e\ud800") == "ok ä 我 \\x1b[2J\\nnew\\u202e\\ud800"


def test_what_goes_wrong_with_a_file_is_one_line_that_names_it(tmp_path):
    with pytest.raises(NNDError, match=r"^file: cannot be read \('utf-8' codec can't decode"), reading("file"):
        b"\xfc".decode("utf-8")
    with (
        pytest.raises(NNDError, match=r"^place: cannot be removed \(No such file or directory\); try again$"),
        changing("place", hint="try again", done="removed"),
    ):
        (tmp_path / "absent").unlink()


@pytest.mark.parametrize(
    ("error", "reason", "typed"),
    [
        (OSError(28, "No space left on device", "/x"), "No space left on device", "OSError: [Errno 28] No space left"),
        (ValueError(f"{'first':80}!\nsecond"), "first !", "ValueError: first !"),
        (
            ValueError("cannot load:\n\tsize of a\n\tsize of b"),
            "cannot load: size of a",
            "ValueError: cannot load: size of a",
        ),
        (ValueError("404\n\nNo model x"), "404", "ValueError: 404 No model x"),
        (ValueError(), "ValueError", "ValueError"),
        (NNDError("it is ours"), "it is ours", "it is ours"),
    ],
)
def test_the_reason_of_an_error_is_one_line(error, reason, typed):
    assert reason_of(error) == reason
    assert typed_reason_of(error).startswith(typed)


def test_a_long_message_keeps_its_beginning_and_its_end(nnd):
    message = refused(nnd("show", "x" * 100_000))
    assert len(message) < 5_000
    assert message.startswith("nnd/xxx")
    assert message.endswith("xxx: File name too long; name another place")


def test_what_a_killed_process_left_goes_with_the_next_and_nothing_else(tmp_path):
    with workshop(tmp_path / "set", tmp_path / "set") as made:
        left = made.name
    token = left.rpartition("-")[2]
    others = [f".set.old-{token}", f".set.new-b.new-{token}", f".settle.new-{token}", ".set.new-mine"]
    for name in (left, *others):
        (tmp_path / name / "authors").mkdir(parents=True)
    with rewriting(tmp_path / "set"):
        assert not (tmp_path / left).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["set", *others])


def test_lm_eval_takes_a_file_that_is_being_written_for_no_task(tmp_path):
    """Nor what a killed process leaves of it."""
    with writing(tmp_path / "nnd_answers.yaml") as new:
        new.write_text("task: nnd_answers\ndoc_to_text: half", "utf-8")
        assert not TaskIndex.build([tmp_path])
    assert {entry.yaml_path for entry in TaskIndex.build([tmp_path]).values()} == {tmp_path / "nnd_answers.yaml"}
