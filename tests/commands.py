"""Command lines as users type them: run in processes of their own, and what they did."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


def nnd_process(*arguments: str, **environment: str) -> Outcome:
    """Run the real command in a process of its own."""
    unset = ("FORCE_COLOR", "NND_DEBUG", "COLUMNS")
    env = {name: value for name, value in os.environ.items() if name not in unset} | environment
    done = subprocess.run(
        [sys.executable, "-m", "nnd_tasks.cli", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=env,
        timeout=60,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def refused(outcome: Outcome) -> str:
    """Return the message of a command that must have ended as a user's mistake does."""
    assert outcome.status == 1, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") == 1, "one line"
    assert outcome.err.startswith("nnd: error: ")
    return outcome.err.removeprefix("nnd: error: ").rstrip("\n")


def printed_table(output: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Parse lm-eval's Markdown table: task -> metric -> (value, standard error)."""
    tasks: dict[str, dict[str, tuple[str, str]]] = {}
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and cells[4] not in ("Metric", "") and not set(cells[4]) <= {"-", ":"}:
            current = cells[0] or current  # noqa: F821 - set by the first row of a task
            tasks.setdefault(current, {})[cells[4]] = (cells[6], cells[8])
    return tasks
