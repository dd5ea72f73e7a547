"""`nnd build` on a bad day: no room, other builds, a kill.

Each ends in one line that names what is at fault, and leaves an earlier build as it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nnd_tasks.datasets import list_configs, load, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from nnd_tasks.tables import fingerprint
from tests import commands
from tests.commands import Outcome, refused
from tests.sets.small_files import (
    QUIZ_FILE,
    jsonl,
    quiz_group,
    small_source,
    write_files,
)

Command = Callable[..., Outcome]


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


def start(*arguments: str | Path, before: str = "") -> subprocess.Popen[str]:
    """Start the real command in a process of its own.

    Args:
        arguments: those of the command.
        before: Python that runs first, to make something go wrong at a certain point.
    """
    code = f"import sys\n{before}\nfrom nnd_tasks import cli\nsys.argv[0] = 'nnd'\ncli.main()"
    return commands.start([sys.executable, *(["-c", code] if before else ["-m", "nnd_tasks.cli"]), *arguments])


def end(process: subprocess.Popen[str]) -> Outcome:
    out, err = process.communicate(timeout=120)
    assert process.returncode is not None
    return Outcome(process.returncode, out, err)


def at(function: str, action: str) -> str:
    """Return Python that makes ``action`` happen when a function of `nnd_tasks.sets.write` is called."""
    return (
        "import os, signal, time\nimport nnd_tasks.sets.write as module\n"
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
@pytest.mark.parametrize("size", [300, 5000], ids=["little room", "room for a part"])
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


@pytest.mark.parametrize("processes", [2, 4])
def test_builds_of_one_set_at_once_all_succeed_and_leave_one_set(processes: int, nnd_home: Path) -> None:
    # Each waits a little while it writes, so that they do meet.
    slow = at("make_card", "time.sleep(0.3)")
    outcomes = [end(process) for process in [start("build", "demo", before=slow) for _ in range(processes)]]
    for outcome in outcomes:
        assert (outcome.status, outcome.err) == (0, "")
        assert "authors: 381 tests" in outcome.out
    assert load("demo").num_rows == 381
    assert [path.name for path in (nnd_home / "nnd").iterdir()] == ["demo"], "no lock and no rest stays"


POINTS = {
    "when the folder is locked": at("_read_existing", KILL),
    "before the data": at("_write_parquet", KILL),
    "before the card": at("make_card", KILL),
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


def test_a_folder_without_a_name_is_refused(nnd: Command) -> None:
    assert "no folder that a dataset can be written to" in refusal(nnd, "demo", "--out", "/")


def test_a_terminal_without_the_letters_of_a_folder_gets_them_escaped(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nnd_tasks.cli", "build", "demo", "--out", str(tmp_path / "ä")],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert done.returncode == 0
    assert b"\\xe4" in done.stdout
