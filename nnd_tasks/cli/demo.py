"""The main job in one command: score the embedded set with a real language model and with its untrained twin."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
from rich.console import Console

from nnd_tasks.baselines import ALL, table_rates
from nnd_tasks.errors import NNDError, reason_of, visible
from nnd_tasks.files import changing, expand, rewriting, write_text
from nnd_tasks.page.page import render_report
from nnd_tasks.results.compare import Comparison, compare_runs
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.run.run import run_lm_eval
from nnd_tasks.run.smollm2 import INSTALL, SMOLLM2, resolve_model
from nnd_tasks.sets.build import build_set
from nnd_tasks.show.report import Cell, Table
from nnd_tasks.show.terminal import print_table
from nnd_tasks.store import find_set, read_table


def run_demo(folder: Path, model: str = SMOLLM2) -> list[str]:
    """Build the embedded set, score it with two models, compare them, and write the report; print every step.

    The twin has the same architecture and tokenizer, and random weights.

    Args:
        folder: gets ``untrained`` (the twin), ``results`` and ``report.html``.
        model: folder or name of the model.

    Returns:
        The sentences that it ends with.

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
    console.print(visible(shlex.join(["nnd", "report", str(folder / "results")])), style="bold")
    latest = sorted(read_results(folder / "results"), key=lambda run: run.date)[-2:]  # older ones may be of other data
    runs = sorted(latest, key=lambda run: run.model != twin.name)
    write_text(folder / "report.html", render_report(runs))
    [comparison] = compare_runs(runs)
    print_table(tabulate_rates(comparison))
    sentences = describe(comparison)
    console.print("\n".join(sentences))
    console.print(visible(f"Every test is in {folder / 'report.html'}"))
    return sentences


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


def tabulate_rates(comparison: Comparison) -> Table:
    """Return a row per category: the rates of two models, and how much higher the second is, with its 95% interval."""
    columns: dict[str, Cell] = {
        "category": "{category}",
        "tests": "{tests:,}",
        "{model}": "{rate:.3f}",
        "difference": "{difference:+.3f}",
        "95% interval": "{low:+.3f} to {high:+.3f}",
    }
    rates = comparison.rates[["category", "tests", "model", "rate"]]
    differences = comparison.differences[["category", "difference", "low", "high"]]
    return Table("demo", rates.merge(differences, on="category"), columns, "Share of tests passed")


def describe(comparison: Comparison) -> list[str]:
    """Say in three sentences what was found: what the model notices, what it does not, and what training did.

    Args:
        comparison: of the untrained twin and the model, in this order.
    """
    twin, name = comparison.paired.models
    by_category = comparison.rates.pivot(index="category", columns="model")
    rates = by_category.xs(name, axis=1, level="model")
    parts = rates.drop(ALL).sort_values("rate", ascending=False)
    noticed = parts[parts["low"] > 0.5]
    missed = parts.drop(noticed.index)
    texts = [f"{row.rate:.0%} of the {row.Index} texts" for row in noticed.itertuples()]
    first = f"{name} notices {join_words(texts) if texts else 'no kind of error more often than chance'}."
    texts = [f"{row.Index} ({row.rate:.0%}, interval {row.low:.0%} to {row.high:.0%})" for row in missed.itertuples()]
    better = f"no better on {join_words(texts)}" if texts else "better on each category"
    second = f"Guessing would pass 50% of the tests, and it does {better}."
    gain = comparison.differences.set_index("category").loc[ALL]
    rules = pd.DataFrame(table_rates(read_table(find_set("demo")))).drop(columns=ALL)
    third = (
        f"It passes {rates.loc[ALL, 'rate']:.0%} of all tests and its untrained twin "
        f"{by_category.loc[ALL, ('rate', twin)]:.0%} (difference "
        f"{gain.difference:+.2f}, 95% interval {gain.low:+.2f} to {gain.high:+.2f}); no rule without understanding, such as "
        f'"the shorter text wins", passes more than {rules.to_numpy().max():.0%} of a category.'
    )
    return [first, second, third]


def join_words(words: list[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
