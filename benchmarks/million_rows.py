"""CPU seconds and peak memory of `nnd new` on a table of a million rows, each in a process of its own.

    python benchmarks/million_rows.py               # three tables as CSV
    python benchmarks/million_rows.py pairs parquet 100000

Tables: `labels`, five labelled candidates of each context; `raters`, four raters of each candidate, five candidates of each
context, numbers; `pairs`, a preference pair per row. Texts are random words, contexts of about 300 characters, candidates of 120.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RULES = {
    "labels": ["--better", "good"],
    "raters": ["--min-gap", "1", "--score", "score"],
    "pairs": ["--chosen", "chosen", "--rejected", "rejected"],
}


def make(kind: str, path: Path, rows: int) -> None:
    """Write a random table."""
    import pandas as pd

    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10))) for _ in range(5000)]

    def texts(count: int, length: int) -> list[str]:
        return [" ".join(draw.choices(words, k=length)) for _ in range(count)]

    of_each = {"labels": 5, "raters": 20, "pairs": 1}[kind]
    columns: dict[str, list[Any]] = {"context": [text for text in texts(rows // of_each, 43) for _ in range(of_each)]}
    if kind == "pairs":
        columns |= {"chosen": texts(rows, 17), "rejected": texts(rows, 17)}
    elif kind == "labels":
        columns |= {"candidate": texts(rows, 17), "label": draw.choices(["good", "slip", "lie"], k=rows)}
    else:
        columns["candidate"] = [text for text in texts(rows // 4, 17) for _ in range(4)]
        columns |= {"score": draw.choices(range(1, 6), k=rows), "rater": ["r1", "r2", "r3", "r4"] * (rows // 4)}
    if kind != "pairs":
        columns["system"] = draw.choices(["s1", "s2", "s3"], k=rows)
    table = pd.DataFrame(columns)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)


def build(kind: str, path: Path) -> None:
    """Make a set of a table, and print what this process took."""
    from nnd_tasks.cli import app

    app(["new", "big", "--from", str(path), *RULES[kind]], standalone_mode=False)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{used.ru_utime + used.ru_stime:.0f} CPU s, {used.ru_maxrss / 2**20:.2f} GiB")


def main(*given: str) -> None:
    """Measure the tables that are named, else all."""
    kinds = [kind for kind in RULES if kind in given] or list(RULES)
    suffix = "parquet" if "parquet" in given else "csv"
    rows = next((word for word in given if word.isdigit()), "1000000")
    for kind in kinds:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / f"table.{suffix}"
            run = [sys.executable, __file__]
            # A process of its own makes the table: the peak of a process counts that of the one that started it.
            subprocess.run([*run, "--make", kind, str(path), rows], check=True)
            home = {**os.environ, "NND_HOME": scratch}
            done = subprocess.run(
                [*run, "--build", kind, str(path)], check=True, capture_output=True, text=True, env=home
            )
            print(f"{kind}, {rows} rows, {suffix}: {done.stdout.splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1:2] == ["--build"]:
        build(sys.argv[2], Path(sys.argv[3]))
    else:
        main(*sys.argv[1:])
