"""Commands that run models, or let lm-eval run them: run, register, demo."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option, echo

from nnd_tasks.cli.typer_app import RUN_GPT2, verb
from nnd_tasks.errors import NNDError, need_package, reason_of, visible
from nnd_tasks.show.console import say
from nnd_tasks.text import counted

_SAVING = "Save nothing. Default: results and samples go to --output_path, or to $NND_HOME/results."
_SHARING = "For --model hf and vllm: read every request on its own, as lm-eval does."


def complete_task(incomplete: str) -> list[str]:
    """List the tasks that the last of some names between commas may mean."""
    from nnd_tasks.task.task_files import write_task_folder

    before, comma, last = incomplete.rpartition(",")
    names = sorted(path.stem for path in write_task_folder().rglob(f"{last}*.yaml")) if last.startswith("nnd") else []
    return [f"{before}{comma}{name}" for name in names]


@verb(
    "Run",
    f"{RUN_GPT2} --tasks nnd_quiz_design  # then nnd report, or nnd compare after another model",
    f"{RUN_GPT2} --tasks nnd_summeval,nnd_frank --sample 20  # 20 prompts of each, from all categories",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def run(
    context: Context,
    arguments: Annotated[
        list[str] | None,
        Argument(
            metavar="[OPTIONS OF LM_EVAL]...",
            autocompletion=complete_task,
            help="Whatever lm_eval takes, such as --model, --model_args, --tasks, --batch_size, --device, --output_path, "
            "--log_samples, --limit, --use_cache. All of them follow below this help.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Take N prompts of each task, spread over its categories, always the same ones; --limit takes the first.",
        ),
    ] = None,
    split: Annotated[
        str | None,
        Option(metavar="SPLIT", help="Score the tests of train, validation or test; see nnd build --preference."),
    ] = None,
    models: Annotated[
        str | None,
        Option(metavar="GLOB", help="Run for each model of a pattern or a file."),
    ] = None,
    no_save: Annotated[bool, Option("--no-save", help=_SAVING)] = False,
    no_shared_prefix: Annotated[bool, Option("--no-shared-prefix", help=_SHARING)] = False,
) -> None:
    """Run lm-eval with our tasks known to it.

    Everything else on the line goes to lm_eval.

    What requests to a model of type hf or vllm have in common at their beginning is read once. --cache_requests is
    refused.
    """
    from nnd_tasks.run.run import run_lm_eval, run_sweep

    words = [word for word in arguments or [] if word != "--debug"]
    words += ["--metadata", f"split={split}"] if split else []
    if {"--help", "-h"} & set(words):
        say(context.get_help())
        say("The options of lm_eval:")
        say()
    run_model = partial(run_lm_eval, shared_prefix=not no_shared_prefix, sample=sample, save=not no_save)
    if models is None:
        run_model(words)
    else:
        run_sweep(models, lambda more: run_model([*words, *more], resume=True))


@verb(
    "Run",
    "nnd register  # then: lm_eval --model hf --tasks nnd_frank ..., as ever",
    'nnd register --print  # for: lm_eval --include_path "$(nnd register --print)" --tasks nnd_frank ...',
)
def register(
    undo: Annotated[bool, Option("--undo", help="Make lm_eval forget them again.")] = False,
    only_print: Annotated[
        bool, Option("--print", help="Only print a folder of all our tasks, for --include_path.")
    ] = False,
) -> None:
    """Make our tasks known to the command lm_eval as it stands."""
    from nnd_tasks.task import task_files

    if only_print:
        echo(task_files.write_task_folder())
        return
    if undo:
        removed = task_files.unregister()
        say(f"removed {removed}" if removed else "nothing was registered")
        return
    folder, count = task_files.register()
    say(f"registered {counted(count, 'task or group', 'tasks and groups')} in {folder}")


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
    from nnd_tasks.run.smollm2 import SMOLLM2

    need_package("page", "nnd demo")
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
    from nnd_tasks.results.compare import compare_runs
    from nnd_tasks.results.comparison_report import report_comparison
    from nnd_tasks.results.read_runs import read_results
    from nnd_tasks.run.run import run_lm_eval
    from nnd_tasks.run.smollm2 import resolve_model
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
        words = ["--model", "hf", "--tasks", "nnd_demo", "--batch_size", "8", "--log_samples"]
        words += ["--output_path", str(folder / "results"), "--model_args"]
        console.print(visible(shlex.join(["nnd", "run", *words, f"pretrained={name}"])), style="bold")
        run_lm_eval([*words, f"pretrained={pretrained}"])
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
    from nnd_tasks.run.smollm2 import INSTALL

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
