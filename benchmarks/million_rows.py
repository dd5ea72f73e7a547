"""CPU seconds and peak memory of `nnd new` on a large table, each in a process of its own.

    python benchmarks/million_rows.py                      # 400,000 rows of labels, csv and jsonl
    python benchmarks/million_rows.py labels raters pairs --rows 1000000 --suffix csv,parquet
    python benchmarks/million_rows.py --beside FOLDER --polars PYTHON --rounds 3  # and another checkout, and polars, in turn

Tables: `labels`, five labelled candidates of each context; `raters`, four raters of each candidate, five candidates of each
context, numbers; `pairs`, a preference pair per row. Texts are random words, contexts and candidates of about 100 characters.
Polars only reads the table, and counts the rows of each context: what reading and grouping cannot do without. PYTHON is one
that has polars, which is no dependency.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RULES = {
    "labels": ["--better", "good"],
    "raters": ["--min-gap", "1", "--score", "score"],
    "pairs": ["--chosen", "chosen", "--rejected", "rejected"],
}
POLARS = """
import sys, polars, resource
path = sys.argv[1]
kinds = {"csv": lambda: polars.read_csv(path, infer_schema=False), "jsonl": lambda: polars.read_ndjson(path)}
print(kinds[path.rpartition(".")[2]]().group_by("context").len().height)
"""
BUILD = """
import sys
from nnd_tasks.cli import main, typer_app
typer_app.announce_tasks = lambda names: None  # which would make the set's tasks known to the lm-eval that is installed
sys.argv[:1] = ["nnd", "new", "big", "--from"]
main()
"""


def make(kind: str, path: Path, rows: int) -> None:
    """Write a random table."""
    import pandas as pd

    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10))) for _ in range(5000)]

    def texts(count: int) -> list[str]:
        return [" ".join(draw.choices(words, k=15)) for _ in range(count)]

    of_each = {"labels": 5, "raters": 20, "pairs": 1}[kind]
    columns: dict[str, list[Any]] = {"context": [text for text in texts(rows // of_each) for _ in range(of_each)]}
    if kind == "pairs":
        columns |= {"chosen": texts(rows), "rejected": texts(rows)}
    elif kind == "labels":
        columns |= {"candidate": texts(rows), "label": draw.choices(["good", "slip", "lie"], k=rows)}
    else:
        columns["candidate"] = [text for text in texts(rows // 4) for _ in range(4)]
        columns |= {"score": draw.choices(range(1, 6), k=rows), "rater": ["r1", "r2", "r3", "r4"] * (rows // 4)}
    if kind != "pairs":
        columns["system"] = draw.choices(["s1", "s2", "s3"], k=rows)
    table = pd.DataFrame(columns)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_parquet(path)


def measure(code: str, *arguments: str, python: str = sys.executable, folder: Path = ROOT) -> tuple[float, float]:
    """Run a program in a checkout; return its CPU seconds, and the most memory that it used in MB."""
    paths = os.pathsep.join(map(str, (folder, folder / "engine")))
    with tempfile.TemporaryDirectory() as home:
        changed = {"PYTHONPATH": paths, "NND_HOME": home, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        ending = "\nimport resource; used = resource.getrusage(resource.RUSAGE_SELF)\n"
        ending += "print([used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6], file=sys.stderr)"
        whole = f"{code.replace('main()', 'try: main()' + chr(10) + 'except SystemExit as end: assert not end.code')}{ending}"
        command = [python, "-c", whole, *arguments]
        done = subprocess.run(command, env={**os.environ, **changed}, capture_output=True, text=True, cwd=home)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    seconds, memory = json.loads(done.stderr.splitlines()[-1])
    return seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["labels"], help="of labels, raters, pairs")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--suffix", default="csv,jsonl", help="of csv, jsonl, parquet")
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--polars", help="a Python that has polars")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    print("| table | MB | program | CPU seconds | ratio to `nnd new` | MB of memory |\n|---|---:|---|---:|---:|---:|")
    for kind in given.tables:
        for suffix in given.suffix.split(","):
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch) / f"table.{suffix}"
                # A process of its own makes the table: the peak of a process counts that of the one that started it.
                subprocess.run([sys.executable, __file__, "--make", kind, str(path), str(given.rows)], check=True)
                found: dict[str, list[tuple[float, float]]] = {}
                for _ in range(given.rounds):
                    arguments = [str(path), *RULES[kind]]
                    done = {"`nnd new`": measure(BUILD, *arguments)}
                    if given.beside:
                        done[f"`nnd new`, {given.beside.name}"] = measure(
                            BUILD, *arguments, folder=given.beside.resolve()
                        )
                    if given.polars and suffix != "parquet":
                        done["polars"] = measure(POLARS, str(path), python=given.polars)
                    for name, one in done.items():
                        found.setdefault(name, []).append(one)
                ours = found["`nnd new`"]
                for name, of_rounds in found.items():
                    seconds, memory = map(statistics.median, zip(*of_rounds, strict=True))
                    ratio = statistics.median(one[0] / own[0] for one, own in zip(of_rounds, ours, strict=True))
                    size = path.stat().st_size / 1e6
                    print(
                        f"| {kind}, {suffix} | {size:.0f} | {name} | {seconds:.1f} | {ratio:.2f} | {memory:,.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
