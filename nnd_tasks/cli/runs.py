"""Commands that run models, or let lm-eval run them: run, register, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option, echo

from nnd_tasks.cli.typer_app import RUN_GPT2, complete_task, verb
from nnd_tasks.show.console import say
from nnd_tasks.text import counted

_SAVING = "Save nothing. Default: results and samples go to --output_path, or to $NND_HOME/results."
_SHARING = "For --model hf and vllm: read every request on its own, as lm-eval does."


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
    no_save: Annotated[bool, Option("--no-save", help=_SAVING)] = False,
    no_shared_prefix: Annotated[bool, Option("--no-shared-prefix", help=_SHARING)] = False,
) -> None:
    """Run lm-eval with our tasks known to it.

    Everything else on the line goes to lm_eval.

    What requests to a model of type hf or vllm have in common at their beginning is read once. --cache_requests is
    refused.
    """
    from nnd_tasks.run.run import run_lm_eval

    words = [word for word in arguments or [] if word != "--debug"]
    words += ["--metadata", f"split={split}"] if split else []
    if {"--help", "-h"} & set(words):
        say(context.get_help())
        say("The options of lm_eval:")
        say()
    run_lm_eval(words, shared_prefix=not no_shared_prefix, sample=sample, save=not no_save)


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
    if only_print:
        from nnd_tasks.task.task_files import write_task_folder

        echo(write_task_folder())
        return
    from nnd_tasks.run import register as registration

    if undo:
        removed = registration.unregister()
        say(f"removed {removed}" if removed else "nothing was registered")
        return
    folder, count = registration.register()
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
    from nnd_tasks.cli.demo import run_demo

    run_demo(folder)
