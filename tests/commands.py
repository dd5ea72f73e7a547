"""Commands in processes of their own, for what only these show; most tests use the fixture `nnd`, in the process itself."""

import os
import signal
import subprocess
import sys
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


def start(command, *, cwd=None, env=None, output=None):
    """Start a command.

    Args:
        command: its words.
        cwd: where it runs; here by default.
        env: its whole environment; that of this process by default.
        output: a file for standard output and error, where they are not to be read with ``communicate``.
    """
    stream = subprocess.PIPE if output is None else output
    return subprocess.Popen(
        [str(word) for word in command], cwd=cwd, env=env, stdout=stream, stderr=stream, encoding="utf-8",
        # A shell that starts the tests in the background has it ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def run(command, *, cwd=None, env=None):
    """Run a command to its end."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, encoding="utf-8", timeout=300, check=False)


def nnd_process(*arguments, **environment):
    """Run ``nnd`` with more variables in its environment than those of this process."""
    done = run([sys.executable, "-m", "nnd_tasks.cli", *arguments], env=os.environ | environment)
    return Outcome(done.returncode, done.stdout, done.stderr)


def refused(outcome):
    """Return the message of a command that must have ended as a user's mistake does."""
    assert outcome.status == 1, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") == 1, "one line"
    assert outcome.err.startswith("nnd: error: ")
    return outcome.err.removeprefix("nnd: error: ").rstrip("\n")


def printed_table(output):
    """Parse lm-eval's Markdown table: task -> metric -> (value, standard error)."""
    tasks = {}
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and cells[4] not in ("Metric", "") and not set(cells[4]) <= {"-", ":"}:
            current = cells[0] or current  # noqa: F821 - set by the first row of a task
            tasks.setdefault(current, {})[cells[4]] = (cells[6], cells[8])
    return tasks
