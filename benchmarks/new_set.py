"""Time and memory of `nnd new` on a table of a million rows, as a ratio to pandas reading the same table.

    python benchmarks/new_set.py                            # 1,000,000 rows as CSV, JSON Lines and parquet
    python benchmarks/new_set.py --rows 100000 --formats parquet
    python benchmarks/new_set.py --against ../before        # and the same with another checkout, as a ratio to it

Workloads: `labels`, five labelled candidates of each context; `raters`, four raters of each candidate, five candidates of each
context, numbers; `pairs`, a preference pair per row. Texts are random words, contexts of about 300 characters, candidates of 120.
Every measurement is a process of its own; memory is its peak resident set.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, os.environ.get("NND_BENCHMARK_CHECKOUT", str(ROOT)))
RULES = {
    "labels": ["--better", "good"],
    "raters": [
        "--min-gap",
        "1",
        "--context",
        "context",
        "--candidate",
        "candidate",
        "--score",
        "score",
        "--rater",
        "rater",
    ],
    "pairs": [],
}


def make(kind: str, rows: int) -> dict[str, list[Any]]:
    """Return column -> values of a random table."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10))) for _ in range(5000)]

    def text(length: int) -> str:
        return " ".join(draw.choices(words, k=length))

    if kind == "pairs":
        return {
            name: [text(size) for _ in range(rows)] for name, size in (("prompt", 40), ("chosen", 17), ("rejected", 17))
        }
    of_each = 5 if kind == "labels" else 20
    contexts = [text(43) for _ in range(rows // of_each)]
    found: dict[str, list[Any]] = {"context": [context for context in contexts for _ in range(of_each)]}
    if kind == "labels":
        found["candidate"] = [text(17) for _ in range(rows)]
        found["label"] = draw.choices(["good", "slip", "lie", "gap"], weights=[3, 1, 1, 1], k=rows)
    else:
        found["candidate"] = [candidate for _ in range(rows // 4) for candidate in [text(17)] * 4]
        found["score"] = draw.choices(range(1, 6), k=rows)
        found["rater"] = ["r1", "r2", "r3", "r4"] * (rows // 4)
    found["system"] = draw.choices(["s1", "s2", "s3"], k=rows)
    return found


def write(columns: dict[str, list[Any]], path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(columns)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True, force_ascii=False)
    else:
        frame.to_parquet(path)


def read(path: Path) -> None:
    """Read a table with pandas."""
    import pandas as pd

    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".jsonl": lambda p: pd.read_json(p, lines=True)}
    print(len(readers[path.suffix](path)))  # type: ignore[operator]


def measure(arguments: list[str], home: Path, checkout: Path = ROOT) -> tuple[float, float, float, str]:
    """Return seconds, CPU seconds, peak GiB, and the output of a process that imports the package of a checkout."""
    command = [sys.executable, __file__, "--measured", *arguments]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NND_HOME": str(home), "NND_BENCHMARK_CHECKOUT": str(checkout)},
    )
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        raise SystemExit(done.stderr)
    *lines, last = done.stdout.splitlines()
    return seconds, cpu, json.loads(last) / 2**20, "\n".join(lines)


def measured(arguments: list[str]) -> None:
    """Run in a process of its own, and print its peak memory in KiB last."""
    if arguments[0] == "read":
        read(Path(arguments[1]))
    else:
        from nnd_tasks.cli import app

        app(arguments, standalone_mode=False)
    status = Path(
        "/proc/self/status"
    ).read_text()  # unlike ru_maxrss it knows nothing of the process that started this one
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def main() -> None:
    if sys.argv[1:2] == ["--measured"]:
        measured(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--formats", nargs="+", default=["csv", "jsonl", "parquet"])
    parser.add_argument("--workloads", nargs="+", default=list(RULES))
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="another checkout of nnd-tasks, measured in turn"
    )
    given = parser.parse_args()
    head = [
        "workload",
        "format",
        "tests",
        "pandas reads, CPU s",
        "nnd new, CPU s",
        "ratio",
        "nnd new, s",
        "pandas, GiB",
    ]
    head += ["nnd new, GiB", *(["CPU, ratio to before", "GiB, ratio to before"] if given.against else [])]
    print(f"| {' | '.join(head)} |")
    print("|---" * len(head) + "|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for kind in given.workloads:
            columns = make(kind, given.rows)
            for suffix in given.formats:
                path = Path(scratch) / f"{kind}.{suffix}"
                write(columns, path)
                _, base, base_memory, _ = measure(["read", str(path)], Path(scratch))
                arguments = ["new", "big", "--from", str(path), "--replace", *RULES[kind]]
                seconds, cpu, memory, said = measure(arguments, Path(scratch) / kind / suffix)
                ratios = ""
                if given.against:
                    _, before, peak, old = measure(
                        arguments, Path(scratch) / kind / suffix / "before", given.against.resolve()
                    )
                    ratios = f" {cpu / before:.2f} | {memory / peak:.2f} |"
                    assert _tests(old) == _tests(said), "the two checkouts make other numbers of tests"
                print(
                    f"| {kind} | {suffix} | {_tests(said)} | {base:.1f} | {cpu:.1f} | {cpu / base:.1f} | {seconds:.1f} | "
                    f"{base_memory:.2f} | {memory:.2f} |{ratios}",
                    flush=True,
                )
                path.unlink()


def _tests(said: str) -> str:
    """Return the number of tests in the output of `nnd new`."""
    return next(line.split()[0] for line in said.splitlines() if line.endswith(" tests"))


if __name__ == "__main__":
    main()
