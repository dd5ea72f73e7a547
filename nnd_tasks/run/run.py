"""Run lm-eval with our tasks: `run_lm_eval` is its command line, `evaluate` is one call from Python.

Both go through `_evaluate_checked`, which finds a user's mistakes before the model is loaded and keys the caches.
"""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, cut_middle, typed_reason_of
from nnd_tasks.redact import bare_urls, hidden_in_logs, hide, without_secrets
from nnd_tasks.run import checks
from nnd_tasks.run.adapter import (
    fail_on_unsaved_results,
    our_tasks,
    parse_model_args,
    run_command_line,
    simple_evaluate,
    task_manager,
    words_by_option,
)
from nnd_tasks.run.outputs import saved_folder
from nnd_tasks.run.smollm2 import resolve_model
from nnd_tasks.show.console import say
from nnd_tasks.store import results_dir

_VERBS = ("run", "ls", "validate")


def _evaluate_checked(
    model: Any,
    model_args: Any = None,
    tasks: Any = None,
    *,
    task_manager: Any,
    shared_prefix: bool = True,
    sample: int | None = None,
    resume: bool = False,
    use_cache: str | None = None,
    cache_requests: bool = False,
    apply_chat_template: bool | str = False,
    **kwargs: Any,
) -> Any:
    """Call lm-eval's `simple_evaluate` after our checks.

    Tasks are loaded before the model. A cache of answers is keyed by the model, and a cache of requests is refused. Models of
    types ``hf`` and ``vllm`` read common beginnings of requests once, if that is known to give the same numbers. Only the model
    gets the secrets among the arguments.
    """
    import nnd_tasks.models.score_file  # registers nnd_file
    import nnd_tasks.models.shared_prefix  # registers hf-shared-prefix
    import nnd_tasks.models.text_models  # noqa: F401 - registers nnd_mlm and nnd_reward
    from nnd_tasks.models.encodings import shared_encodings
    from nnd_tasks.models.model_error import ModelError
    from nnd_tasks.models.ray_workers import RAY, stop_workers
    from nnd_tasks.run.outputs import cache_key, results_folder, run_key
    from nnd_tasks.task.scored_tokens import token_table

    tracker = kwargs.get("evaluation_tracker")
    engine, arguments, cluster = checks.split_cluster(model, model_args or {})
    with hidden_in_logs(), shared_encodings():
        run = checks.check_run(
            checks.Asked(engine, arguments, tasks, sample=sample, shared_prefix=shared_prefix),
            task_manager,
            cache_requests=cache_requests,
            chat=bool(apply_chat_template),
            options=kwargs,
        )
        kwargs["samples"] = run.samples
        if use_cache is not None or resume:
            answers = cache_key(run.model, run.arguments, chat=bool(apply_chat_template))
            use_cache = use_cache and f"{use_cache}_{answers}"
        if resume and tracker is not None and tracker.output_path:
            folder = results_folder(tracker.output_path, run.folder)
            key = run_key(answers, run.loaded["tasks"].values(), {**kwargs, "chat": apply_chat_template})
            tracker.nnd_mark = folder / f".run-{key}"  # is made when all files of the run are saved
            if tracker.nnd_mark.exists() and any(folder.glob("*.json")):
                say(f"has results: {folder}")
                return None
        try:
            results = simple_evaluate(
                task_manager,
                run.loaded,
                model=RAY if cluster else run.model,
                model_args={**cluster, "engine": run.model, **run.arguments} if cluster else run.arguments or None,
                tasks=tasks,
                use_cache=use_cache,
                apply_chat_template=apply_chat_template,
                **kwargs,
            )
        except ModelError as error:  # of our engine, which knows no NNDError
            raise NNDError(str(error)) from error
        finally:
            stop_workers()
    keeping = [task for task in run.ours if task.settings.tokens]
    if results is not None and keeping:
        tables = {task.config.task: token_table(task.instances, task.answers) for task in keeping}
        if tracker is None:
            results["tokens"] = tables
        else:
            tracker.nnd_tokens = tables
    _name_results(tracker, run.folder)
    _name_samples(results or {}, [task.config.task for task in run.ours])
    return _without_secrets(results)


def _name_samples(results: Any, tasks: Sequence[str]) -> None:
    """Say in lm-eval's table which tasks ran on some of their prompts: their rates are not those of the whole set."""
    for task in tasks:
        counts = results.get("n-samples", {}).get(task)
        if counts and counts["effective"] < counts["original"] and task in results["results"]:
            alias = results["results"][task].get("alias", task)
            results["results"][task]["alias"] = f"{alias} ({counts['effective']:,} of {counts['original']:,} prompts)"


def _without_secrets(results: Any) -> Any:
    """Take the secrets out of lm-eval's results."""
    for config in (results or {}).get("configs", {}).values():
        if isinstance(metadata := config.get("metadata"), dict):
            ours = {"nnd": metadata.pop("nnd")} if "nnd" in metadata else {}  # a category may be named like a secret
            config["metadata"] = {**without_secrets(metadata, None), **ours}
    if results and "config" in results:
        results["config"] = without_secrets(results["config"])
    return results


def _name_results(tracker: Any, folder: str | None) -> None:
    """Let lm-eval write into the folder that was checked before the run, and name the model without its secrets."""
    names = getattr(tracker, "general_config_tracker", None)
    if names is None:
        return
    if names.model_name:
        names.model_name = bare_urls(names.model_name)
    if folder is not None:
        names.model_name_sanitized = folder


def run_lm_eval(
    arguments: Sequence[str],
    *,
    shared_prefix: bool = True,
    sample: int | None = None,
    save: bool = False,
    resume: bool = False,
) -> None:
    """Run ``lm_eval`` in this process with ``arguments``, our tasks known to it.

    Args:
        arguments: as one would type them after ``lm_eval``; the verb ``run`` may be left out.
        shared_prefix: read common beginnings of requests once, for ``--model hf`` and ``--model vllm``.
        sample: number of prompts of each task, spread over its categories; None takes all.
        save: write results and samples into `results_dir` where ``arguments`` name no other place, and say in the end where
            they are and which command reads them.
        resume: run nothing where the results of this very command are saved.

    Raises:
        SystemExit: as lm-eval's command line does.
        NNDError: lm-eval ended with an exception, or one of our checks before the run failed.
    """
    verb = arguments[0] if arguments and arguments[0] in _VERBS else "run"
    rest = list(arguments[1:] if arguments and arguments[0] == verb else arguments) or ["--help"]
    instead = partial(_evaluate_checked, shared_prefix=shared_prefix, sample=sample, resume=resume)
    trackers: list[list[Any]] = []
    default_folder = results_dir()
    with _hidden_in_errors(), hidden_in_logs(), ExitStack() as patches:

        def begin(options: Any) -> None:
            _complete_options(options)
            patches.enter_context(our_tasks(checks.check_task_name))
            trackers.append(patches.enter_context(fail_on_unsaved_results()))

        try:
            if verb == "run":
                checks.check_words(rest)
                if save and not {"output_path", "config"} & {words.option for words in words_by_option(rest)}:
                    rest += ["--output_path", str(default_folder), "--log_samples"]
            else:
                patches.enter_context(our_tasks(checks.check_task_name))
            run_command_line(["lm_eval", verb, *rest], instead, begin)
        except NNDError:
            raise
        except Exception as error:  # lm-eval, torch and transformers raise many kinds for a user's mistake
            reason = cut_middle(hide(typed_reason_of(error)), 300)  # half a secret would not be recognized
            raise NNDError(f"lm-eval stopped with {reason} (traceback: nnd --debug run ...)") from error
    for tracker in trackers[0] if save and trackers else ():
        if tracker.output_path:
            say(*_describe_saved(tracker, default_folder))


def _describe_saved(tracker: Any, default_folder: Path) -> list[str]:
    """Say where the files of a run are, and which command reads them: with another model beside it, the one that compares.

    Args:
        tracker: it has saved the results of a run.
        default_folder: where commands look for results that are not told another folder.
    """
    folder, named = saved_folder(tracker), Path(tracker.output_path)
    lines = [f"saved in {folder}"]
    if any(folder.glob(f"samples_*_{tracker.date_id}.jsonl")):
        all_results = named.parent if named.suffix == ".json" else named
        verb = "compare" if len({path.parent for path in all_results.rglob("results_*.json")}) > 1 else "report"
        lines.append(shlex.join(["next:", "nnd", verb, *([] if all_results == default_folder else [str(all_results)])]))
    return lines


def _complete_options(options: Any) -> None:
    """Check what the command line says, and put the folder of a model that we know by name in place of that name."""
    checks.check_options(options)
    options.model_args = _with_exact_sums(options.model, options.model_args)
    options.metadata = _with_exact_sums(options.model, options.metadata)
    pretrained = options.model_args.get("pretrained")
    if isinstance(pretrained, str):
        folder = resolve_model(pretrained)
        options.model_args = {**options.model_args, "pretrained": folder}
        if options.metadata.get("pretrained") == pretrained:
            options.metadata = {**options.metadata, "pretrained": folder}


def _with_exact_sums(model: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Add ``softmax_dtype=float32`` to the arguments of a model of transformers, unless they name a type.

    `HFLM` would sum log-probabilities in the type of its weights: in bfloat16, different texts tie.
    """
    exact = checks.split_cluster(model, arguments)[0] in checks.HF
    return {**({"softmax_dtype": "float32"} if exact else {}), **arguments}


@contextmanager
def _hidden_in_errors() -> Iterator[None]:
    """Keep secrets out of an error, and out of the traceback that --debug shows."""
    try:
        yield
    except NNDError as error:
        trace = "".join(traceback.format_exception(error))
        if hide(trace) == trace:
            raise
        raise NNDError(hide(str(error))) from RuntimeError(f"\n{hide(trace)}")


def evaluate(
    tasks: str | Sequence[str],
    model: Any = "hf",
    model_args: str | Mapping[str, Any] | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    include_path: str | Path | Sequence[str | Path] | None = None,
    shared_prefix: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """Evaluate a model on our tasks, and any others, from Python.

    `lm_eval.simple_evaluate` with a task manager that knows our folders and how the model tokenizes.

    Example:
        ``evaluate("nnd_quiz_design", model_args="pretrained=gpt2")["results"]["nnd_quiz_design"]["pass_rate,none"]``

    Args:
        tasks: names of tasks or groups.
        model: a name that lm-eval knows, or a ready-made ``LM`` object.
        model_args: arguments of the model, as for ``--model_args``.
        metadata: settings of the tasks, as for ``--metadata``, such as ``{"append_eos": True}``.
        include_path: further folders of task YAMLs.
        shared_prefix: read common beginnings of requests once, for ``model="hf"`` and ``model="vllm"``.
        **kwargs: ``sample``, see `run_lm_eval`; all others are passed on to `lm_eval.simple_evaluate`.

    Returns:
        lm-eval's results: ``results``, ``configs``, ``samples`` and so on.

    Raises:
        NNDError: there is no such task, a set cannot be built, or the model or its tokenizer cannot be identified.
    """
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    arguments = _with_exact_sums(model, parse_model_args(model_args))
    if isinstance(arguments.get("pretrained"), str):
        arguments = {**arguments, "pretrained": resolve_model(arguments["pretrained"])}
    about_model = dict(arguments)
    engine, _, _ = checks.split_cluster(model, arguments)
    if engine in checks.ON_TORCH and kwargs.get("device") is None and "device" not in arguments:
        kwargs["device"] = "cuda:0"  # the default of `lm_eval` on the command line; it takes the CPU if there is no GPU
    if not isinstance(model, str):  # a ready-made model has attributes that say how it tokenizes
        for name in (
            "tokenizer",
            "backend",
            "add_bos_token",
            "custom_prefix_token_id",
            "max_length",
            "base_url",
            "token_stats",
        ):
            if getattr(model, name, None) is not None:
                about_model[name] = getattr(model, name)
        if isinstance(getattr(model, "pretrained", None), str):
            about_model["pretrained"] = model.pretrained
    manager = task_manager(include_path, names, {**about_model, **(metadata or {})})
    options = {"task_manager": manager, "shared_prefix": shared_prefix, **kwargs}
    return dict(_evaluate_checked(model, arguments or None, names, **options) or {})
