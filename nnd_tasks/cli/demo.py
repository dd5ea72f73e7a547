"""The main job in one command: score the embedded set with a real language model and with its untrained twin."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console

from nnd_tasks.errors import NNDError, reason_of, visible
from nnd_tasks.files import changing, expand, rewriting, write_text
from nnd_tasks.page.page import render_report
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.run.run import run_lm_eval
from nnd_tasks.run.smollm2 import INSTALL, SMOLLM2, resolve_model
from nnd_tasks.sets.build import build_set
from nnd_tasks.show.terminal import show_reports


def run_demo(folder: Path, model: str = SMOLLM2) -> None:
    """Build the embedded set, score it with two models, compare them, and write the report; print every step.

    The twin has the same architecture and tokenizer, and random weights.

    Args:
        folder: gets ``untrained`` (the twin), ``results`` and ``report.html``.
        model: folder or name of the model.

    Raises:
        NNDError: ``folder`` cannot be written, there is no such model, or lm_eval failed.
    """
    console = Console(emoji=False, markup=False, highlight=False, soft_wrap=True)
    folder = expand(folder).absolute()
    with changing(folder, hint="name a folder with --out"):
        folder.mkdir(parents=True, exist_ok=True)
    build_set("demo")
    console.print("nnd build demo", style="bold")
    trained = resolve_model(model)
    twin = make_untrained_twin(trained, folder / "untrained")
    for name, pretrained in ((model, trained), (str(twin), str(twin))):
        words = ["--model", "hf", "--tasks", "nnd_demo", "--batch_size", "8", "--log_samples"]
        words += ["--output_path", str(folder / "results"), "--model_args"]
        console.print(visible(shlex.join(["nnd", "run", *words, f"pretrained={name}"])), style="bold")
        run_lm_eval([*words, f"pretrained={pretrained}"])
    console.print(visible(shlex.join(["nnd", "compare", str(folder / "results")])), style="bold")
    latest = sorted(read_results(folder / "results"), key=lambda run: run.date)[-2:]  # older ones may be of other data
    runs = sorted(latest, key=lambda run: run.model != twin.name)
    write_text(folder / "report.html", render_report(runs))
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
