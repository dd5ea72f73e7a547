"""`nnd demo`: a real model and its untrained twin on the embedded set, and a page of every test."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from nnd_tasks.cli.typer_app import verb
from nnd_tasks.errors import NNDError, reason_of, visible


@verb(
    "Run",
    "nnd demo  # a minute on two cores",
    "nnd demo --out /tmp/demo  # everything goes there",
)
def demo(
    folder: Annotated[Path, Option("--out", help="Folder for the results, the report and the untrained model.")] = Path(
        ".demo"
    ),
) -> None:
    """Score a small set with a real language model, offline, and compare it with its untrained twin.

    The model is SmolLM2-135M-Instruct. It needs 1.1 GB of disk.
    """
    from nnd_tasks.page.smollm2 import SMOLLM2

    run_demo(folder, SMOLLM2)


def run_demo(folder: Path, model: str) -> None:
    """Build the embedded set, score it with two models, compare them, and write the report; print every step.

    The twin has the same architecture and tokenizer, and random weights.

    Args:
        folder: gets ``untrained`` (the twin), ``results`` and ``report.html``.
        model: folder or name of the model.

    Raises:
        NNDError: ``folder`` cannot be written, there is no such model, or lm_eval failed.
    """
    from rich.console import Console

    from nnd_tasks.files import changing, expand, write_text
    from nnd_tasks.page.page import render_report
    from nnd_tasks.page.smollm2 import resolve_model
    from nnd_tasks.results.compare import compare_runs
    from nnd_tasks.results.comparison_report import report_comparison
    from nnd_tasks.results.read_runs import read_results
    from nnd_tasks.run.run import run_and_save
    from nnd_tasks.sets.build import build_set
    from nnd_tasks.show.terminal import show_reports

    console = Console(emoji=False, markup=False, highlight=False, soft_wrap=True)
    folder = expand(folder).absolute()
    with changing(folder, hint="name a folder with --out"):
        folder.mkdir(parents=True, exist_ok=True)
    build_set("demo")
    console.print("nnd build demo", style="bold")
    trained = resolve_model(model)
    twin = make_untrained_twin(trained, folder / "untrained")
    for name, pretrained in ((model, trained), (str(twin), str(twin))):
        words = ["nnd", "run", "--model", "hf", "--tasks", "nnd_demo", "--batch_size", "8", "--log_samples"]
        words += ["--output_path", str(folder / "results"), "--model_args", f"pretrained={name}"]
        console.print(visible(shlex.join(words)), style="bold")
        arguments = {"pretrained": pretrained}
        run_and_save("nnd_demo", "hf", arguments, batch_size="8", output_path=folder / "results")
    console.print(visible(shlex.join(["nnd", "compare", str(folder / "results")])), style="bold")
    latest = sorted(read_results(folder / "results"), key=lambda run: run.date)[-2:]  # older ones may be of other data
    runs = sorted(latest, key=lambda run: run.model != twin.name)
    _, page = render_report(runs)
    write_text(folder / "report.html", page)
    show_reports([report_comparison(comparison) for comparison in compare_runs(runs)])
    console.print(visible(f"Every test is in {folder / 'report.html'}"))


def make_untrained_twin(model: str, folder: Path) -> Path:
    """Write a model with the architecture and the tokenizer of another, and random weights; keep one that is there.

    Args:
        model: folder or name of the other.
        folder: what is written.
    """
    if (folder / "config.json").is_file():
        return folder
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from nnd_tasks.files import changing, rewriting
    from nnd_tasks.page.smollm2 import INSTALL

    torch.manual_seed(0)
    try:
        config, tokenizer = AutoConfig.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    except OSError as error:
        raise NNDError(
            f"{model}: cannot be loaded ({reason_of(error)}); for the model of the demo run `{INSTALL}`"
        ) from error
    with changing(folder), rewriting(folder) as new:
        AutoModelForCausalLM.from_config(config).save_pretrained(new)
        tokenizer.save_pretrained(new)
    return folder
