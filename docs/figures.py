"""Make figures of the docs again, and name those that no longer come out.

    python docs/figures.py                                # list them: page, cost, how they are compared, commands
    python docs/figures.py --run                          # run what takes seconds
    python docs/figures.py --run --cost minutes           # what takes seconds or minutes; hours: all
    python docs/figures.py --run --cost hours --page small_model.md --only challenge300

``figures.yaml`` names measured numbers of the docs with the commands that give them. Commands run once each, in the folder
``--work``, where their results stay. ``nnd build`` takes the publishers' files from ``NND_TEST_DATA`` where that is set. What
cannot run here, such as a set that cannot be downloaded, is named.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
COSTS = ("seconds", "minutes", "hours")
#: Set -> its folder in ``NND_TEST_DATA``, where that is not the set's name.
SOURCES = {
    "webnlg": "extra_raw/webnlg",
    "humanevalfix": "today/humanevalpack",
    "wqrm": "next/creativity/WritingRewards",
    "mtrag": "next/mtrag/mtrag-human/evaluations",
    "d2t": "next/d2t_spans",
}

_MINUS = "\N{MINUS SIGN}"
_NUMBER = rf"[+\-{_MINUS}]?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?"


def split_blocks(page: str) -> Iterator[str]:
    """Yield the blocks of a page without code: a table with its rows as they stand, any other block as one line."""
    page = re.sub(r"^( *)```.*?^\1```$", "", page, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=#)", page):
        if block.strip():
            yield block.strip() if block.lstrip().startswith("|") else " ".join(block.split())


def to_pattern(text: str) -> str:
    """Return a regular expression for a text of the page, in which each ``{...}`` stands for a number."""
    return re.sub(r"\\\{.*?\\\}", lambda _: _NUMBER, re.escape(text))


def read_entries() -> list[dict[str, Any]]:
    """Return the entries of ``figures.yaml``."""
    entries: list[dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "figures.yaml").read_text("utf-8"))["measured"]
    return entries


def words_of(command: str) -> list[str]:
    """Return the words of a command that can run in any folder, with the Python of this process."""
    program, *words = shlex.split(os.path.expandvars(command))
    if program == "nnd":
        data = os.environ.get("NND_TEST_DATA")
        if words[0] == "build" and data and "--source" not in words:
            name = words[1]
            choices = [Path(data, folder) for folder in (SOURCES.get(name, name), f"today/{name}", f"later/{name}")]
            words += [word for path in choices[:] if path.exists() for word in ("--source", str(path))][:2]
        return [sys.executable, "-m", "nnd_tasks.cli", *words]
    module = ["-m", "pytest", "-q", f"--rootdir={ROOT}"] if program == "pytest" else []
    return [
        sys.executable,
        *module,
        *(str(ROOT / word) if (ROOT / word.split("::")[0]).exists() else word for word in words),
    ]


@cache
def run_command(command: str, work: Path) -> tuple[str, str]:
    """Run a command in a folder; return what it printed, and the last line of what went wrong, or nothing."""
    print(f"$ {command}", flush=True)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(words_of(command), cwd=work, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    reasons = (done.stderr or done.stdout).splitlines() or ["no message"]
    return done.stdout, "" if done.returncode == 0 else reasons[-1]


def read_numbers(text: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a report in JSON: table -> row -> column.

    A row is named by its category, or by its name and config; a second row of that name is ``NAME, 2``.
    """
    tables: dict[str, dict[str, Any]] = {}
    for table, rows in json.loads(text)["tables"].items():
        named = tables.setdefault(table, {})
        for row in rows:
            name = row.get("category") or " ".join(filter(None, (row.get("name"), row.get("config"))))
            count = sum(key.partition(", ")[0] == name for key in named)
            named[f"{name}, {count + 1}" if count else name] = row
    return tables


def to_numbers(text: str) -> list[float]:
    """Return the numbers of a text, in their order."""
    return [float(number.replace(",", "").replace(_MINUS, "-")) for number in re.findall(_NUMBER, text)]


def is_close(first: str, second: str, within: float) -> bool:
    """Return whether two texts have the same words, and numbers that differ by no more than a bound."""
    pairs = zip(to_numbers(first), to_numbers(second), strict=False)
    return re.sub(_NUMBER, "0", first) == re.sub(_NUMBER, "0", second) and all(
        abs(one - other) <= within + 1e-9 for one, other in pairs
    )


def check_texts(texts: list[str], numbers: dict[str, dict[str, Any]], page: str, within: float = 0) -> list[str]:
    """Return a line for each text that a page does not have with these numbers, and what stands there instead."""
    problems = []
    for text in texts:
        made = text.format(**numbers)
        stands = [match[0] for block in split_blocks(page) for match in re.finditer(to_pattern(text), block)]
        if not any(is_close(made, part, within) for part in stands):
            problems.append(f"comes out: {made}\n  the page has: {' or '.join(stands) or 'no such text'}")
    return problems


def check_rows(printed: str, page: str, within: float = 0) -> list[str]:
    """Return a line for each row of printed tables that a page does not have."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    rows = [line for line in printed.splitlines() if line.startswith("|") and "---" not in line and to_numbers(line)]
    return [f"comes out: {row}" for row in rows if not any(is_close(row, line, within) for line in lines)]


def check_entry(entry: dict[str, Any], work: Path) -> tuple[list[str], str]:
    """Run an entry's commands; return what no longer comes out, and what became of the rest."""
    page = (ROOT / entry["page"]).read_text("utf-8")
    outputs = []
    for command in entry["commands"]:
        output, problem = run_command(command, work)
        if problem:
            return [], f"not run here: {command}: {problem}"
        outputs.append(output)
    printed = outputs[-1]
    within = entry.get("within", 0)
    if "numbers" in entry:
        text = printed if entry["numbers"] == "printed" else (work / entry["numbers"]).read_text("utf-8")
        problems = check_texts(entry["says"], read_numbers(text), page, within)
    elif entry.get("compare") == "rows":
        problems = check_rows(printed, page, within)
    elif entry.get("compare") == "eye":
        return [], f"{''.join(outputs)}compare by eye: {entry.get('says', []) + entry.get('tables', [])}"
    else:
        problems = []
    return problems, "" if problems else "comes out"


def main() -> int:
    """List figures, or check them; return 1 if one no longer comes out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="run the commands and compare; else the figures are listed")
    parser.add_argument("--page", default="", help="only figures of pages whose name has this text")
    parser.add_argument("--only", default="", help="only figures whose commands have this text")
    parser.add_argument("--cost", choices=COSTS, help="at most this (to list: hours; to run: seconds)")
    parser.add_argument("--work", type=Path, default=Path("figures"), help="folder for results and tables")
    options = parser.parse_args()
    highest = COSTS.index(options.cost or ("seconds" if options.run else "hours"))
    chosen = [
        entry
        for entry in read_entries()
        if options.page in entry["page"]
        and options.only in " ".join(entry["commands"])
        and COSTS.index(entry["cost"]) <= highest
    ]
    stale = 0
    for entry in chosen:
        first = (entry.get("says") or entry.get("tables"))[0]
        print(f"{entry['page']} ({entry['cost']}): {first}")
        if not options.run:
            print(*(f"    {command}" for command in entry["commands"]), sep="\n")
            continue
        options.work.mkdir(parents=True, exist_ok=True)
        problems, state = check_entry(entry, options.work.resolve())
        stale += len(problems)
        print(*problems, *filter(None, [state]), sep="\n")
    print(f"{len(chosen)} entries" + f", {stale} figures no longer come out" * options.run)
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
