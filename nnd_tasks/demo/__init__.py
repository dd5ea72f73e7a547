"""The whole chain in one command, offline.

Build the embedded set, train a tiny model, score it untrained and trained as `nnd run` does, and compare the two.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from nnd_tasks.analysis.compare import compare_runs, report_comparison
from nnd_tasks.analysis.results import read_results
from nnd_tasks.demo.comparison_table import demo_table
from nnd_tasks.demo.model import TrainingSettings, make_models
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.files import expand, write_text
from nnd_tasks.sets.build import build_set
from nnd_tasks.show.forms import to_json
from nnd_tasks.show.terminal import print_table
from nnd_tasks.wording import counted

#: Where the comparison is written, below the demo's folder.
COMPARISON = "comparison.json"
#: Begins the log line that says whether prefixes were shared.
_SHARING = "hf-shared-prefix: "
_SAMPLES = "samples_nnd_demo_*.jsonl"


def run_demo(folder: Path, seed: int = 0, *, settings: TrainingSettings | None = None) -> None:
    """Build, train, score twice, and print the comparison; everything is written below ``folder``.

    A trained model that an earlier run left there is used again.

    Args:
        folder: gets ``nnd/demo`` (the set), ``untrained``, ``trained``, ``results`` and ``comparison.json``.
        seed: of the model and its training text.
        settings: of the model and its training, such as fewer steps; None takes the defaults with this seed.

    Raises:
        NNDError: ``folder`` cannot be written, or lm_eval failed.
    """
    console = Console(emoji=False, markup=False, highlight=False, soft_wrap=True)
    folder = expand(folder).absolute()
    console.rule("1. build the embedded set")
    built = folder / "nnd" / "demo"
    summary = next(iter(build_set("demo", out=built).summaries.values()))
    console.print(
        f"{counted(summary.tests, 'test')} over {counted(summary.clusters, 'prompt')} in {visible(_short(built))}"
    )

    console.rule("2. train a tiny model from scratch")
    settings = settings or TrainingSettings(seed=seed)
    console.print(
        f"{settings.steps} steps on text put together from the package's own words and sentences, none of it from the set; "
        "about half a minute on two idle cores"
    )
    start = time.monotonic()
    if make_models(folder / "untrained", folder / "trained", settings):
        console.print(f"trained in {time.monotonic() - start:.0f} seconds: {visible(_short(folder / 'trained'))}")
    else:
        console.print(f"used again, from an earlier run with the same settings: {visible(_short(folder / 'trained'))}")

    console.rule("3. score it with lm_eval, untrained and trained")
    samples = _score(console, folder, ("untrained", "trained"))

    console.rule("4. compare them, test by test")
    [comparison] = compare_runs(read_results(samples))
    report = report_comparison(comparison)
    write_text(folder / COMPARISON, to_json(report))
    table = demo_table(comparison)
    console.print(table.caption)
    print_table(table)
    console.print(
        "The interval is that of the difference: paired by test, clustered by prompt. Where it lies above 0, training has "
        "taught the model to tell such candidates from good ones."
    )
    console.print(f"Every test's outcome is in the samples_*.jsonl below {visible(_short(folder / 'results'))}.\n")
    command = shlex.quote(_short(Path(sys.executable).with_name("nnd")))
    console.print("Next, a real set and a model of yours (this downloads both):")
    console.print(f"  {command} build quiz_design")
    console.print(
        f"  {command} run --model hf --model_args pretrained=gpt2 --tasks nnd_quiz_design --batch_size 8 --limit 20"
    )


def _short(path: Path) -> str:
    """Return a path as a user would type it: relative to the current folder where it lies below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _score(console: Console, folder: Path, models: Sequence[str]) -> list[Path]:
    """Score models side by side, each in a process of its own, and return the samples files that lm_eval wrote.

    Raises:
        NNDError: lm_eval failed, or wrote no samples.
    """
    outputs = [folder / "results" / model for model in models]
    commands = [
        [
            *("--model", "hf", "--model_args", f"pretrained={_short(folder / model)}", "--device", "cpu"),
            *("--tasks", "nnd_demo", "--output_path", _short(output), "--log_samples"),
        ]
        for model, output in zip(models, outputs, strict=True)
    ]
    earlier = {path for output in outputs for path in output.rglob(_SAMPLES)}
    # Most of a run is Python that imports, on one core.
    with console.status("lm_eval scores both models"), ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda command: _run(command, folder), commands))
    samples = []
    for command, output, done in zip(commands, outputs, runs, strict=True):
        console.print(visible(f"nnd run {shlex.join(command)}"))
        if done.returncode:
            sys.stderr.write(done.stderr)
            raise NNDError(f"lm_eval ended with status {done.returncode}; its own output above says why")
        sharing = (line[line.index(_SHARING) :] for line in done.stderr.splitlines() if _SHARING in line)
        table = (line for line in done.stdout.splitlines() if line.startswith("|"))
        console.print("\n".join(map(visible, [*sharing, *table])))
        written = set(output.rglob(_SAMPLES)) - earlier
        if not written:
            raise NNDError(f"lm_eval wrote no samples below {output}")
        samples.append(max(written))
    return samples


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # Offline: the demo must neither need a network nor wait for one.
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "nnd_tasks.cli", "run", *command],
        env={**os.environ, "NND_HOME": str(folder), **offline},
        check=False,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
