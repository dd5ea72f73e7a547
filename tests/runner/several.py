"""Runs in several processes, started as a launcher does."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import commands
from tests.commands import Outcome

NND = (sys.executable, "-m", "nnd_tasks.cli", "run")


def start(count: int, command: Sequence[str | Path], cwd: Path) -> list[Any]:
    """Start ``count`` processes of a command that find each other as those of torchrun do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    world = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        commands.start(command, cwd=cwd, env={**os.environ, **world, "RANK": str(k), "LOCAL_RANK": str(k)})
        for k in range(count)
    ]


def run(count: int, command: Sequence[str | Path], cwd: Path, timeout: float = 120) -> list[Outcome]:
    """Run a command in ``count`` processes to its end; with one, there is no launcher."""
    processes = start(count, command, cwd) if count > 1 else [commands.start(command, cwd=cwd)]
    outcomes = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=timeout)
            outcomes.append(Outcome(process.returncode or 0, out, err))
    finally:
        for process in processes:
            process.kill()
    return outcomes


def written(folder: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return what a run wrote: its results, without times and places, and the samples of each task."""
    [path] = folder.rglob("results_*.json")
    results = json.loads(path.read_text("utf-8"))
    del results["date"], results["total_evaluation_time_seconds"]
    samples = {
        path.name.removeprefix("samples_").rpartition("_")[0]: [
            json.loads(line) for line in path.read_text("utf-8").splitlines()
        ]
        for path in folder.rglob("samples_*.jsonl")
    }
    return results, samples
