"""Make figures of the docs again, and name those that no longer come out: ``python docs/figures.py [--only TEXT]``.

The figures stand in ``figures.yaml``, with the commands that give them. Commands run once, in the folder ``--work``, where
their results stay. What cannot run here, such as a set that cannot be downloaded, is named.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent


@cache
def run_command(command: str, work: Path) -> str:
    """Run a command of ``nnd`` in a folder; return the last line of what went wrong, or nothing."""
    print(f"$ {command}", flush=True)
    words = [sys.executable, "-m", "nnd_tasks.cli", *shlex.split(command)[1:]]
    path = os.pathsep.join(filter(None, (str(DOCS.parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    return "" if done.returncode == 0 else (done.stderr.splitlines() or ["no message"])[-1]


def read_numbers(path: Path) -> dict[str, dict[str, Any]]:
    """Return the tables of a comparison: table -> category -> its first row."""
    tables = json.loads(path.read_text("utf-8"))["tables"]
    return {name: {row.get("category"): row for row in reversed(rows)} for name, rows in tables.items()}


def check_texts(texts: list[str], numbers: dict[str, dict[str, Any]], page: str) -> list[str]:
    """Return a line for each text that a page does not have with these numbers, and what stands there instead."""
    problems = []
    for text in texts:
        made = text.format(**numbers)
        if made not in page:
            begin = text.partition("{")[0]
            stands = [line for line in page.splitlines() if begin.strip() and line.startswith(begin)]
            problems.append(f"comes out: {made}\n  the page has: {' or '.join(stands) or 'no such line'}")
    return problems


def main() -> int:
    """Check all figures; return 1 if one no longer comes out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only figures whose page or commands have this text")
    parser.add_argument("--work", type=Path, default=Path("figures"), help="folder for results and tables")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    stale = 0
    for entry in yaml.safe_load((DOCS / "figures.yaml").read_text("utf-8")):
        page, commands = entry["page"], entry["commands"]
        if options.only not in f"{page} {' '.join(commands)}":
            continue
        problem = next(filter(None, (run_command(command, options.work.resolve()) for command in commands)), "")
        if problem:
            print(f"{page}: not run here: {problem}")
            continue
        problems = check_texts(
            entry["texts"], read_numbers(options.work / entry["numbers"]), (DOCS / page).read_text("utf-8")
        )
        stale += len(problems)
        print("\n".join(f"{page}: {line}" for line in problems) or f"{page}: {len(entry['texts'])} as they stand")
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
