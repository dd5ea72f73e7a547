"""Compare the numbers of two checkouts: every set that can be built here, and a real model on two of them.

    python benchmarks/same_numbers.py ../earlier .                # sets and SmolLM2; an hour on one core
    python benchmarks/same_numbers.py ../earlier . --sets demo,frank --tasks nnd_demo

Each checkout runs in processes of its own, with the packages of this Python. Of a set, each config's tests are compared cell
by cell, with their order; of a run, the log-likelihoods, tokens and outcomes of every prompt, all numbers of the results and
the signature; of a comparison, all cells of its tables. It prints what differs and exits with 1, or says that nothing does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "engine" / "tests")]
from tests.conftest import DATA, FOLDERS, MODELS, SIDE_BY_SIDE, SOURCES  # noqa: E402

#: Keys of results and samples that tell when and where a run was made, or which release of a package made it.
MOMENT = {
    "config_source",
    "date",
    "start_time",
    "end_time",
    "total_evaluation_time_seconds",
    "pretty_env_info",
    "git_hash",
}


def call(checkout: Path, home: Path, *arguments: object) -> str:
    """Run `nnd` of a checkout; return what it printed."""
    paths = os.pathsep.join(str(path) for path in (checkout, checkout / "engine"))
    environment = {**os.environ, "PYTHONPATH": paths, "NND_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "nnd_tasks.cli", *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: nnd {' '.join(command[3:])}\n{done.stderr[-2000:]}")
    return done.stdout


def build(checkout: Path, home: Path, name: str) -> None:
    """Build a set from the publisher's files."""
    source = [] if name == "demo" else ["--source", DATA / FOLDERS.get(name, name)]
    call(checkout, home, "build", name, *source)
    if name == "mqm" and SIDE_BY_SIDE.is_file():
        call(checkout, home, "build", name, "--source", SIDE_BY_SIDE)


def read_set(folder: Path) -> dict[str, Any]:
    """Return config -> number of tests, and a digest of all their cells."""
    found = {}
    for path in sorted(folder.rglob("*.parquet")):
        rows = pq.read_table(path).to_pylist()
        digest = hashlib.sha256(json.dumps(rows, sort_keys=True, ensure_ascii=False, default=str).encode())
        found[str(path.relative_to(folder))] = [len(rows), digest.hexdigest()]
    return found


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return path -> number or text of nested objects, without what `MOMENT` names."""
    if isinstance(value, dict):
        parts = [(str(key), part) for key, part in value.items() if key not in MOMENT]
    elif isinstance(value, list):
        parts = [(str(number), part) for number, part in enumerate(value)]
    else:
        return {path: value}
    return {place: cell for key, part in parts for place, cell in flatten(part, f"{path}/{key}").items()}


def read_run(folder: Path) -> dict[str, Any]:
    """Return all numbers of the results and samples of a run."""
    [results] = folder.rglob("results_*.json")
    [samples] = folder.rglob("samples_*.jsonl")
    loaded = json.loads(results.read_text("utf-8"))
    kept = {key: loaded[key] for key in ("results", "configs", "versions", "n-samples") if key in loaded}
    lines = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    return flatten({"results": kept, "samples": lines})


def report(what: str, old: dict[str, Any], new: dict[str, Any]) -> int:
    """Print what differs; return how much."""
    different = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    print(f"{what}: {len(old)} values, {len(different)} differ", flush=True)
    for key in different[:10]:
        print(f"    {key}: {str(old.get(key))[:200]} -> {str(new.get(key))[:200]}")
    return len(different)


def main() -> int:
    """Compare two checkouts; return 1 where a number differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--sets", help="between commas; default: all whose files are in NND_TEST_DATA")
    parser.add_argument("--tasks", default="nnd_demo,nnd_quiz_design", help="what the model is run on; empty: nothing")
    parser.add_argument("--models", nargs=2, default=["smollm2", MODELS / "tiny-lm-xs"], help="two, which are compared")
    options = parser.parse_args()
    here = [name for name in SOURCES if name == "demo" or (DATA / FOLDERS.get(name, name)).is_dir()]
    names = options.sets.split(",") if options.sets else [name for name in here if name != "hanna"]
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        sides = [(path.resolve(), Path(folder, side)) for side, path in (("old", options.old), ("new", options.new))]
        for _, home in sides:
            home.mkdir()
        for name in names:
            for checkout, home in sides:
                build(checkout, home, name)
            different += report(name, *(read_set(home / "nnd" / name) for _, home in sides))
        for task in filter(None, options.tasks.split(",")):
            for number, model in enumerate(options.models):
                words = ["--model", "hf", "--model_args", f"pretrained={model},dtype=float32,softmax_dtype=float32"]
                for checkout, home in sides:
                    out = ["--output_path", home / task / str(number), "--log_samples"]
                    call(checkout, home, "run", *words, "--tasks", task, *out)
                found = [read_run(home / task / str(number)) for _, home in sides]
                different += report(f"{task}, {model}", *found)
            tables = [
                json.loads(call(checkout, home, "compare", home / task, "--format", "json")) for checkout, home in sides
            ]
            different += report(f"nnd compare, {task}", *map(flatten, tables))
    print("nothing differs" if not different else f"{different} values differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
