"""Commands that run models, or let lm-eval run them: run, register."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

from typer import Option, echo

from nnd_tasks.cli.typer_app import RUN_GPT2, LMEvalVerb, parts_of, verb
from nnd_tasks.errors import NNDError
from nnd_tasks.show.console import say, warn
from nnd_tasks.text import counted

_PAIRS = "NAME=VALUE,..."
_SAVING = "Save nothing. Default: results and samples go to --output_path, or to $NND_HOME/results."
_SHARING = "For --model hf and vllm: read every request on its own, as lm-eval does."


@verb(
    "Run",
    f"{RUN_GPT2} --tasks nnd_quiz_design  # then nnd report, or nnd compare after another model",
    f"{RUN_GPT2} --tasks nnd_summeval,nnd_frank --sample 20  # 20 prompts of each, from all categories",
    cls=LMEvalVerb,
    no_args_is_help=True,
)
def run(
    tasks: Annotated[list[str], Option("--tasks", "-t", metavar="TASK,...", help="Tasks or groups.")],
    model: Annotated[
        str, Option("--model", "-M", help="Type of the model, such as hf, vllm, local-completions.")
    ] = "hf",
    model_args: Annotated[
        list[str] | None,
        Option("--model_args", "-a", metavar=_PAIRS, help="Its arguments, such as pretrained=gpt2,dtype=float32."),
    ] = None,
    sample: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Take N prompts of each task, spread over its categories, always the same ones; --limit takes the first.",
        ),
    ] = None,
    limit: Annotated[
        float | None, Option("--limit", "-L", help="Take the first N prompts, or a share below 1.")
    ] = None,
    samples: Annotated[
        str | None,
        Option("--samples", "-E", metavar="JSON", help='Take prompts by number: {"TASK": [0, 5]}, or a file.'),
    ] = None,
    split: Annotated[
        str | None,
        Option(metavar="SPLIT", help="Score the tests of train, validation or test; see nnd build --preference."),
    ] = None,
    device: Annotated[str | None, Option(help="Such as cuda, cuda:0 or cpu.")] = None,
    batch_size: Annotated[str | None, Option("--batch_size", "-b", help="A number, auto or auto:N.")] = None,
    max_batch_size: Annotated[int | None, Option("--max_batch_size", help="The most that auto tries.")] = None,
    use_cache: Annotated[
        str | None, Option("--use_cache", "-c", metavar="PATH", help="Keep answers, and ask for none again.")
    ] = None,
    output_path: Annotated[
        str | None, Option("--output_path", "-o", metavar="PATH", help="Folder of the results, or a .json file.")
    ] = None,
    log_samples: Annotated[
        bool, Option("--log_samples", "-s", help="As for lm_eval; samples are always saved with the results.")
    ] = False,
    no_save: Annotated[bool, Option("--no-save", help=_SAVING)] = False,
    all_metrics: Annotated[
        bool, Option("--all-metrics", help="Print all metrics: also bits, margins, rates by sum, by bytes, of prompts.")
    ] = False,
    metadata: Annotated[
        list[str] | None,
        Option(metavar=_PAIRS, help="Settings of the tasks, such as append_eos=true (docs/running.md)."),
    ] = None,
    include_path: Annotated[str | None, Option("--include_path", metavar="FOLDER", help="Further task YAMLs.")] = None,
    num_fewshot: Annotated[int | None, Option("--num_fewshot", "-f", help="Put N examples before each prompt.")] = None,
    apply_chat_template: Annotated[
        str | None, Option("--apply_chat_template", metavar="[NAME]", help="Send prompts as chats.")
    ] = None,
    system_instruction: Annotated[str | None, Option("--system_instruction", help="First turn of a chat.")] = None,
    fewshot_as_multiturn: Annotated[
        Literal["true", "false"] | None,
        Option("--fewshot_as_multiturn", help="A turn of the chat per example: true unless it is false."),
    ] = None,
    gen_kwargs: Annotated[
        list[str] | None,
        Option("--gen_kwargs", metavar=_PAIRS, help="For judges that write: temperature=0.8,top_p=0.95."),
    ] = None,
    seed: Annotated[
        str | None, Option(help="One, or four between commas: of Python, numpy, torch, few-shot examples.")
    ] = None,
    trust_remote_code: Annotated[bool, Option("--trust_remote_code", help="Run code that comes with a model.")] = False,
    no_shared_prefix: Annotated[bool, Option("--no-shared-prefix", help=_SHARING)] = False,
) -> None:
    """Score a model on tasks of ours and of lm-eval.

    Options are those of lm_eval, and --sample, --split, --no-save, --all-metrics, --no-shared-prefix. What requests to
    a model of type hf or vllm have in common at their beginning is read once.
    """
    from nnd_tasks.run.run import run_and_save
    from nnd_tasks.store import results_dir

    if no_save and (output_path or log_samples):
        raise NNDError("--no-save: saves nothing, and --output_path or --log_samples asks for files; leave one out")
    output = Path(output_path or results_dir())
    saved = run_and_save(
        [name for word in tasks for name in parts_of(word)],
        model,
        [*(model_args or []), *(["trust_remote_code=true"] if trust_remote_code else [])],
        sample=sample,
        limit=limit,
        samples=samples,
        device=device,
        batch_size=batch_size,
        max_batch_size=max_batch_size,
        use_cache=use_cache,
        output_path=None if no_save else output,
        all_metrics=all_metrics,
        metadata=[*(metadata or []), *([f"split={split}"] if split else [])],
        include_path=include_path,
        num_fewshot=num_fewshot,
        apply_chat_template=apply_chat_template == "true" or apply_chat_template or False,
        system_instruction=system_instruction,
        fewshot_as_multiturn=None if fewshot_as_multiturn is None else fewshot_as_multiturn == "true",
        gen_kwargs=gen_kwargs,
        shared_prefix=not no_shared_prefix,
        seed=seed,
    )
    if saved is None:
        return
    say(f"saved in {saved}")
    # With another model beside it, the command that compares comes next.
    folder = output.parent if output.suffix == ".json" else output
    command = "compare" if len({path.parent for path in folder.rglob("results_*.json")}) > 1 else "report"
    say(shlex.join(["next:", "nnd", command, *([str(folder)] if output_path else [])]))


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
    folder, count, home = task_files.register()
    say(f"registered {counted(count, 'task or group', 'tasks and groups')} in {folder}")
    if home:
        warn(f"note: lm_eval no longer knows the tasks of NND_HOME={home}")
    say("next: lm_eval --model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks nnd_quiz_design")
