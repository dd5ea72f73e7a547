"""`nnd build` on a bad day: wrong files, broken downloads, no room, other builds, a kill.

Each ends in one line that names what is at fault, and leaves an earlier build as it was.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pooch.core
import pytest

from nnd_tasks import cli
from nnd_tasks.build import build_set
from nnd_tasks.datasets import list_configs, load, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import SCHEMA_VERSION
from nnd_tasks.tables import fingerprint
from tests import commands
from tests.commands import Outcome, refused
from tests.conftest import DEMO_ANNOTATIONS as DEMO_PATH
from tests.conftest import SOURCES
from tests.recipes.publisher import QUIZ, Answer, Publisher, sha256
from tests.recipes.small_files import (
    CHALLENGE_COLUMNS,
    MQM_COLUMNS,
    QUIZ_FILE,
    SMALL,
    jsonl,
    quiz_group,
    small_source,
    summeval_row,
    tsv,
    write_files,
)

Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooch.core, "time", SimpleNamespace(sleep=lambda seconds: None))


def refusal(nnd: Command, *arguments: str | Path) -> str:
    """Return the one line of a build that must fail; with --debug the same error comes as it was raised."""
    message = refused(nnd("build", *arguments))
    with pytest.raises(NNDError) as caught:
        nnd("--debug", "build", *arguments)
    assert str(caught.value) == message
    return message


def content(folder: Path) -> dict[str, bytes]:
    """Return every file below ``folder``."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "near"),
    [("quiz", "quiz_design"), ("nnd_frank", "frank"), ("MQM", "mqm"), ("summ-eval", "summeval"), ("news", "news_gpt3")],
)
def test_a_set_that_does_not_exist_brings_up_those_with_a_name_near_it(nnd: Command, name: str, near: str) -> None:
    message = refusal(nnd, name)
    assert message.startswith(f"there is no set {name!r}; did you mean ")
    assert near in message.partition("did you mean")[2]


def test_a_set_like_no_other_brings_up_them_all(nnd: Command) -> None:
    assert refusal(nnd, "xyzzy") == f"there is no set 'xyzzy'; known sets: {', '.join(SOURCES)}"


# ---------------------------------------------------------------- source files

SETS = [*SMALL, "demo"]


def annotation_file(name: str) -> str:
    return DEMO_PATH.name if name == "demo" else next(iter(SMALL[name]()))


def text_of(name: str) -> bytes:
    return DEMO_PATH.read_bytes() if name == "demo" else next(iter(SMALL[name]().values())).encode()


def directory(path: Path) -> None:
    path.mkdir(parents=True)


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


def loop(path: Path) -> None:
    path.symlink_to(path)


#: What is in the place of the file -> how it is made.
UNREADABLE: dict[str, Callable[[Path], None]] = {
    "nothing": lambda path: None,
    "a directory": directory,
    "a dangling link": dangling,
    "a link to itself": loop,
}
WRONG: dict[str, bytes] = {
    "empty": b"",
    "blank": b"\n \n\n",
    "image": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\xe5",
    "zip": b"PK\x03\x04\x14\x00\x00\x00\x08\x00\xee\xff",
    "zero bytes": bytes(500),
    "page": b"<!DOCTYPE html>\n<html><body>Quota exceeded</body></html>\n",
    "UTF-16": "id\tquestion\n1\tWho?\n".encode("utf-16"),
}
HINT = re.compile("right file|this is not the file that is wanted|the file is empty|not UTF-8 text")


@pytest.mark.parametrize("made", list(UNREADABLE))
@pytest.mark.parametrize("name", SETS)
def test_a_source_that_is_not_there_is_refused_with_the_file_that_is_wanted(
    nnd: Command,
    name: str,
    made: str,
    tmp_path: Path,
    nnd_home: Path,
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    UNREADABLE[made](folder / annotation_file(name))
    message = refusal(nnd, name, "--source", folder)
    assert message.startswith(f"{folder}")
    assert annotation_file(name) in message
    if made != "a directory":  # which is a folder to look into
        single = refusal(nnd, name, "--source", folder / annotation_file(name))
        assert single.startswith(str(folder / annotation_file(name)))
    assert not nnd_home.exists()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", list(WRONG))
def test_a_file_that_is_something_else_is_refused_by_name(
    nnd: Command,
    name: str,
    kind: str,
    tmp_path: Path,
    nnd_home: Path,
) -> None:
    file = tmp_path / annotation_file(name)
    file.write_bytes(WRONG[kind])
    message = refusal(nnd, name, "--source", file)
    assert message.startswith(str(file))
    assert HINT.search(message), message
    assert not nnd_home.exists()


@pytest.mark.parametrize(("name", "other"), [(name, other) for name in SETS for other in SETS if name != other])
def test_the_file_of_another_set_is_refused_by_name(
    nnd: Command,
    name: str,
    other: str,
    tmp_path: Path,
    nnd_home: Path,
) -> None:
    file = tmp_path / annotation_file(name)
    file.write_bytes(text_of(other))
    message = refusal(nnd, name, "--source", file)
    assert message.startswith(str(file))
    assert HINT.search(message) or "expected an object" in message, message
    assert not nnd_home.exists()


#: set -> a file of its format from which no test comes
BARREN = {
    "quiz_design": jsonl([quiz_group(1, ("Good?", "No error"), ("Better?", "No error"))]),
    "challenge300": tsv(CHALLENGE_COLUMNS, []),
    "summeval": jsonl([summeval_row("a", "M1", "S.", (5, 5, 5, 5), text="T.")] * 4),
    "frank": "[]",
    "mqm": tsv(MQM_COLUMNS, []),
    "news_gpt3": "{}",
    "demo": DEMO_PATH.read_text("utf-8").partition("\n")[0] + "\n",
}


@pytest.mark.parametrize("name", SETS)
def test_a_source_without_any_test_is_refused_by_name(
    nnd: Command,
    name: str,
    tmp_path: Path,
    nnd_home: Path,
) -> None:
    file = write_files(tmp_path / "in", {annotation_file(name): BARREN[name]}) / annotation_file(name)
    message = refusal(nnd, name, "--source", file)
    assert message.startswith((f"{file}: no test comes out", f"{file}: it holds no row"))
    assert "neither of which is better by the rule" in message or "is it the right file?" in message
    assert not nnd_home.exists()


# ---------------------------------------------------------------- downloads


@pytest.mark.parametrize("name", [name for name in SETS if name != "demo"])
def test_without_a_network_the_way_round_the_download_is_named(
    nnd: Command,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    nnd_home: Path,
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]  # nobody listens there after this
    for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{port}")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    message = refusal(nnd, name)
    assert message.startswith(f"{next(iter(SOURCES[name].recipe.files.values())).url}: cannot be downloaded (")
    assert f"check the network, or download it by hand and pass it with: nnd build {name} --source" in message
    assert content(nnd_home) == {}


def test_a_download_with_another_checksum_is_refused_and_an_earlier_build_kept(
    nnd: Command,
    publisher: Publisher,
    quiz_from: Callable[..., None],
    nnd_home: Path,
) -> None:
    url = publisher.serve("q.jsonl", QUIZ)
    quiz_from(url, sha256(QUIZ))
    assert nnd("build", "quiz_design").status == 0
    before = content(nnd_home / "nnd")
    (nnd_home / "downloads/quiz_design" / QUIZ_FILE).unlink()
    publisher.serve("q.jsonl", QUIZ.replace(b"January", b"Februar"))
    message = refusal(nnd, "quiz_design")
    assert message.startswith(
        f"{url}: what was downloaded is not the file with the pinned hash (sha256 {sha256(QUIZ)})"
    )
    assert "nnd build quiz_design --source FILE_OR_DIR" in message
    assert content(nnd_home / "nnd") == before
    assert content(nnd_home / "downloads") == {}


@pytest.mark.parametrize("pinned", [None, sha256(QUIZ)], ids=["unpinned", "pinned"])
def test_a_download_that_broke_off_is_refused_and_had_in_full_the_next_time(
    nnd: Command,
    publisher: Publisher,
    quiz_from: Callable[..., None],
    nnd_home: Path,
    pinned: str | None,
) -> None:
    url = publisher.serve("q.jsonl", Answer(QUIZ[: len(QUIZ) // 2], promised=len(QUIZ)))
    quiz_from(url, pinned)
    message = refusal(nnd, "quiz_design")
    assert url in message
    assert "--source FILE_OR_DIR" in message
    assert content(nnd_home) == {}
    publisher.serve("q.jsonl", QUIZ)
    done = nnd("build", "quiz_design")
    assert done.status == 0
    assert "authors: 5 tests" in done.out
    assert (nnd_home / "downloads/quiz_design" / QUIZ_FILE).read_bytes() == QUIZ


# ---------------------------------------------------------------- other schema versions


def with_version(folder: Path, version: int) -> None:
    card = folder / "README.md"
    text = card.read_text("utf-8")
    changed = text.replace(f"nnd_schema_version: {SCHEMA_VERSION}\n", f"nnd_schema_version: {version}\n")
    assert changed != text
    card.write_text(changed, encoding="utf-8")


def test_data_of_a_later_release_is_left_alone_and_named(nnd: Command, nnd_home: Path) -> None:
    folder = nnd_home / "nnd" / "demo"
    build_set("demo")
    with_version(folder, SCHEMA_VERSION + 1)
    before = content(folder)
    message = refusal(nnd, "demo")
    assert message.startswith(f"{folder}: written by a later release (schema version {SCHEMA_VERSION + 1})")
    assert "--out" in message
    assert content(folder) == before
    listed = nnd("list")
    assert listed.status == 0
    assert f"unreadable: {folder}: written by a later release" in listed.out
    assert "upgrade nnd-tasks" in listed.out


def test_data_of_an_earlier_release_is_named_and_built_again(nnd: Command, nnd_home: Path) -> None:
    folder = nnd_home / "nnd" / "demo"
    build_set("demo")
    with_version(folder, SCHEMA_VERSION - 1)
    listed = nnd("list")
    assert listed.status == 0
    assert (
        f"schema version {SCHEMA_VERSION - 1}, this release reads {SCHEMA_VERSION}; build the set again" in listed.out
    )
    with pytest.raises(NNDError, match="build the set again"):
        load("demo")
    assert nnd("build", "demo").status == 0
    assert load("demo").num_rows == 381


# ---------------------------------------------------------------- a home that cannot be written


@pytest.mark.parametrize("place", ["a file", "below a file", "not writable"])
def test_a_home_that_cannot_be_written_is_named_with_the_way_out(
    nnd: Command,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    home = {"a file": file, "below a file": file / "deeper" / "home", "not writable": Path("/proc/nnd_home")}[place]
    if place == "not writable" and not Path("/proc").is_dir():
        pytest.skip("no /proc, in which nobody can write")
    monkeypatch.setenv("NND_HOME", str(home))
    message = refusal(nnd, "demo")
    assert message.startswith(f"{home}/nnd/demo: cannot be written (")
    assert "--out" in message
    message = refusal(nnd, "quiz_design")
    assert message.startswith(f"{home}/downloads/quiz_design: cannot be written (")
    assert "NND_HOME" in message
    assert file.read_text() == "mine"


# ---------------------------------------------------------------- processes


def start(*arguments: str | Path, before: str = "") -> commands.Process | subprocess.Popen[str]:
    """Start the real command in a process of its own.

    Args:
        arguments: those of the command.
        before: Python that runs first, to make something go wrong at a certain point.
    """
    code = f"import sys\n{before}\nfrom nnd_tasks import cli\nsys.argv[0] = 'nnd'\ncli.main()"
    return commands.start([sys.executable, *(["-c", code] if before else ["-m", "nnd_tasks.cli"]), *arguments])


def end(process: commands.Process | subprocess.Popen[str]) -> Outcome:
    out, err = process.communicate(timeout=120)
    assert process.returncode is not None
    return Outcome(process.returncode, out, err)


def at(function: str, action: str) -> str:
    """Return Python that makes ``action`` happen when a function of `nnd_tasks.dataset_writing` is called."""
    return (
        "import os, signal, time\nimport nnd_tasks.dataset_writing as module\n"
        f"real = module.{function}\n"
        f"def replaced(*arguments, **named):\n    {action}\n    return real(*arguments, **named)\n"
        f"module.{function} = replaced\n"
    )


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def earlier_build(nnd_home: Path, tmp_path: Path) -> tuple[Path, str]:
    """Build a small Quiz Design; return its folder and fingerprint."""
    build_set("quiz_design", small_source(tmp_path / "earlier", "quiz_design"))
    folder = nnd_home / "nnd" / "quiz_design"
    return folder, fingerprint(read_table(folder))


def other_source(tmp_path: Path) -> Path:
    text = jsonl([quiz_group(i, (f"Good {i}?", "No error"), (f"Bad {i}?", "disfluent")) for i in range(300)])
    return write_files(tmp_path / "later", {QUIZ_FILE: text})


def limited(size: int) -> str:
    """Return Python that lets no file grow beyond ``size`` bytes, as on a disk with no more room."""
    return (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"  # so that a write fails instead
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
    )


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit on file sizes here")
@pytest.mark.parametrize("size", [0, 300, 5000], ids=["no room", "little room", "room for a part"])
def test_a_full_disk_ends_in_one_line_and_leaves_the_earlier_build(size: int, nnd_home: Path, tmp_path: Path) -> None:
    folder, before = earlier_build(nnd_home, tmp_path)
    files = content(nnd_home)
    arguments = ("build", "quiz_design", "--source", other_source(tmp_path))
    message = refused(end(start(*arguments, before=limited(size))))
    assert message.startswith(f"{folder}: cannot be written (")
    assert message.endswith("choose another place with --out")
    assert content(nnd_home) == files, "nothing half-written, and nothing left beside it"
    debug = end(start("--debug", *arguments, before=limited(size)))
    assert debug.status != 0
    assert debug.err.startswith("Traceback")
    assert end(start(*arguments)).status == 0, "with room again it works"
    assert fingerprint(read_table(folder)) != before


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit on file sizes here")
def test_a_full_disk_during_a_first_build_leaves_no_set(nnd_home: Path) -> None:
    message = refused(end(start("build", "demo", before=limited(2000))))
    assert message.startswith(f"{nnd_home / 'nnd' / 'demo'}: cannot be written (")
    assert content(nnd_home) == {}
    with pytest.raises(NNDError, match="is not built here"):
        load("demo")


@pytest.mark.parametrize("processes", [2, 4])
def test_builds_of_one_set_at_once_all_succeed_and_leave_one_set(processes: int, nnd_home: Path) -> None:
    # Each waits a little while it writes, so that they do meet.
    slow = at("_card", "time.sleep(0.3)")
    outcomes = [end(process) for process in [start("build", "demo", before=slow) for _ in range(processes)]]
    for outcome in outcomes:
        assert (outcome.status, outcome.err) == (0, "")
        assert "authors: 381 tests" in outcome.out
    assert load("demo").num_rows == 381
    assert [path.name for path in (nnd_home / "nnd").iterdir()] == ["demo"], "no lock and no rest stays"


POINTS = {
    "before anything is written": at("write_dataset", KILL).replace(
        "nnd_tasks.dataset_writing", "nnd_tasks.recipes.configs"
    ),
    "when the folder is locked": at("_existing", KILL),
    "before the data": at("_write_parquet", KILL),
    "before the card": at("_card", KILL),
    "before the swap": (
        "import os, signal\nfrom pathlib import Path\nreal = Path.rename\n"
        f"def rename(self, target):\n    {KILL}\nPath.rename = rename\n"
    ),
}
#: Between the two moves of the swap neither folder has the set's name.
BETWEEN = (
    "import os, signal\nfrom pathlib import Path\nreal = Path.rename\n"
    f"def rename(self, target):\n    real(self, target)\n    {KILL}\nPath.rename = rename\n"
)


def killed(before: str, source: Path) -> None:
    assert end(start("build", "quiz_design", "--source", source, before=before)).status == -signal.SIGKILL


@pytest.mark.parametrize("point", list(POINTS))
def test_a_build_that_is_killed_leaves_the_earlier_one_and_the_next_one_works(
    point: str, nnd_home: Path, tmp_path: Path
) -> None:
    folder, before = earlier_build(nnd_home, tmp_path)
    files = content(folder)
    killed(POINTS[point], other_source(tmp_path))
    assert content(folder) == files
    assert fingerprint(read_table(folder)) == before
    done = end(start("build", "quiz_design", "--source", other_source(tmp_path)))
    assert done.status == 0, done.err
    assert read_table(folder).num_rows == 300
    assert list_configs(folder)[1] == "authors"


def test_a_build_that_is_killed_between_the_two_moves_leaves_the_earlier_one_readable(
    nnd_home: Path, tmp_path: Path
) -> None:
    _, before = earlier_build(nnd_home, tmp_path)
    killed(BETWEEN, other_source(tmp_path))
    assert fingerprint(load("quiz_design").data.table) == before


def test_after_a_kill_the_next_build_leaves_nothing_beside_the_set(nnd_home: Path, tmp_path: Path) -> None:
    earlier_build(nnd_home, tmp_path)
    killed(POINTS["before the swap"], other_source(tmp_path))
    assert end(start("build", "quiz_design", "--source", other_source(tmp_path))).status == 0
    assert [path.name for path in (nnd_home / "nnd").iterdir()] == ["quiz_design"]


@pytest.mark.slow
def test_a_build_that_is_killed_at_any_time_never_leaves_a_broken_set(nnd_home: Path, tmp_path: Path) -> None:
    folder, _ = earlier_build(nnd_home, tmp_path)
    source = other_source(tmp_path)
    began = time.monotonic()
    assert end(start("build", "quiz_design", "--source", source)).status == 0
    whole = time.monotonic() - began
    for share in (0.3, 0.5, 0.7, 0.85, 0.95):
        process = start("build", "quiz_design", "--source", source)
        time.sleep(whole * share)
        with suppress(ProcessLookupError):  # it was faster than the first, and is done
            process.kill()
        end(process)
        assert read_table(folder).num_rows == 300
    assert end(start("build", "quiz_design", "--source", source)).status == 0


def test_a_download_that_is_killed_is_not_taken_for_the_file(
    publisher: Publisher,
    nnd_home: Path,
) -> None:
    # The server sends a half and then nothing: the process hangs on it until it is killed.
    half = Answer(QUIZ[: len(QUIZ) // 2], promised=len(QUIZ))
    url = publisher.serve("q.jsonl", half)
    address = (
        "import nnd_tasks.new.keep\nfrom nnd_tasks.recipes.recipe import File\nfrom tests.recipes.served import served\n"
        f"found = served('quiz_design', File({QUIZ_FILE!r}, {url!r}))\n"
        "nnd_tasks.new.keep.find_recipe = lambda name: found\n"
    )
    stall = address + (
        "import os, signal, pooch.core\n"
        f"pooch.core.time.sleep = lambda seconds: {KILL}\n"  # the half has come; it would now try again
    )
    assert end(start("build", "quiz_design", before=stall)).status == -signal.SIGKILL
    assert not (nnd_home / "downloads/quiz_design" / QUIZ_FILE).exists()
    publisher.serve("q.jsonl", QUIZ)
    done = end(start("build", "quiz_design", before=address))
    assert done.status == 0, done.err
    assert (nnd_home / "downloads/quiz_design" / QUIZ_FILE).read_bytes() == QUIZ
    assert load("quiz_design").num_rows == 5


@pytest.mark.parametrize("out", ["/", "/tmp/q\udcff"])
def test_a_folder_without_a_name_and_one_that_is_no_text_are_refused(
    out: str, nnd_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["nnd", "build", "demo", "--out", out])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert "no folder that a dataset can be written to" in capsys.readouterr().err


def test_a_terminal_without_the_letters_of_a_folder_gets_them_escaped(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nnd_tasks.cli", "build", "demo", "--out", str(tmp_path / "ä")],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert done.returncode == 0
    assert b"\\xe4" in done.stdout


# ---------------------------------------------------------------- what an error names


@pytest.mark.parametrize(("row", "found"), [({"prompt": "x", "answer": "y"}, "prompt, answer"), ({}, "none")])
def test_a_file_without_the_fields_of_the_recipe_has_its_own_named(
    row: dict[str, str], found: str, nnd: Command, tmp_path: Path
) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(jsonl([row]), encoding="utf-8")
    assert f"field 'questions' is missing (found: {found}); is it the right file?" in refusal(
        nnd, "quiz_design", "--source", path
    )


def test_a_mistake_in_a_recipe_names_the_file_and_its_keys(nnd: Command, tmp_path: Path) -> None:
    path = tmp_path / "mine" / "_recipe"
    path.parent.mkdir()
    path.write_text("context: q\ncandidate: a\nscore: s\nmin_gap: 1\nbest: 5\n", encoding="utf-8")
    assert refusal(nnd, path) == f"{path}: `best:` belongs to `majority:`; leave it out"
