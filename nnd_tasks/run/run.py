"""Run lm-eval with our tasks: `run_lm_eval` is its command line, `evaluate` one call from Python, `run_sweep` many models.

All go through `_evaluate_checked`, which finds a user's mistakes before the model is loaded and keys the caches.
"""

from __future__ import annotations

import glob
import re
import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, cut_middle, typed_reason_of
from nnd_tasks.files import expand, read_text
from nnd_tasks.redact import bare_urls, hidden_in_logs, hide, keep_secret, without_secrets
from nnd_tasks.run import checks
from nnd_tasks.run.adapter import (
    model_parameters,
    parse_model_args,
    results_folder,
    run_command_line,
    saved_folder,
    simple_evaluate,
    task_manager,
    words_by_option,
)
from nnd_tasks.run.smollm2 import resolve_model
from nnd_tasks.show.console import say, warn
from nnd_tasks.store import results_dir
from nnd_tasks.task.settings import plain_metadata
from nnd_tasks.task.signature import INDIFFERENT, digest, engine_packages, environment, model_files, name_server
from nnd_tasks.text import counted, did_you_mean

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
    **options: Any,
) -> Any:
    """Call lm-eval's `simple_evaluate` after our checks.

    Tasks are loaded before the model. A cache of answers is keyed by the model, and a cache of requests is refused. Models of
    types ``hf`` and ``vllm`` read common beginnings of requests once, if that is known to give the same numbers. Only the model
    gets the secrets among the arguments.
    """
    from nnd_tasks.task.scored_tokens import token_table
    from shared_prefix import hf_shared_prefix, score_file, text_models  # noqa: F401 - they register their model types
    from shared_prefix.encodings import TokenizingOnce
    from shared_prefix.model_error import ModelError
    from shared_prefix.ray_workers import RAY, RayWorkers

    tracker, use_cache = options.get("evaluation_tracker"), options.get("use_cache")
    engine, arguments, cluster = checks.split_cluster(model, model_args or {})
    keep_secret(arguments)
    with _hidden_in_errors(), hidden_in_logs(), TokenizingOnce.shared_encodings():
        run = checks.check_run(
            task_manager, engine, arguments, tasks, options, sample=sample, shared_prefix=shared_prefix
        )
        options["samples"] = run.samples
        if use_cache is not None or resume:
            answers = cache_key(run.model, run.arguments, chat=bool(options.get("apply_chat_template")))
            options["use_cache"] = use_cache and f"{use_cache}_{answers}"
        if resume and tracker is not None and tracker.output_path:
            folder = results_folder(tracker.output_path, run.folder)
            key = run_key(answers, run.loaded["tasks"].values(), options)
            tracker.nnd_mark = folder / f".run-{key}"  # gets the date in the names of the results when they are saved
            if tracker.nnd_mark.is_file() and [*folder.glob(f"*_{read_text(tracker.nnd_mark)}.json")]:
                say(f"has results: {folder}")
                return None
        try:
            results = simple_evaluate(
                task_manager,
                run.loaded,
                model=RAY if cluster else run.model,
                model_args={**cluster, "engine": run.model, **run.arguments} if cluster else run.arguments or None,
                tasks=tasks,
                **options,
            )
        except ModelError as error:  # of our engine, which knows no NNDError
            raise NNDError(str(error)) from error
        except TypeError as error:
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            if unknown is None or unknown[1] not in run.arguments:
                raise
            hint = did_you_mean(unknown[1], model_parameters(run.model)) or "leave it out"
            raise NNDError(f"--model_args {unknown[1]}: --model {model} takes no such argument; {hint}") from error
        finally:
            RayWorkers.stop_all()
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
    default_folder = results_dir()
    with _hidden_in_errors(), hidden_in_logs():
        try:
            if verb == "run":
                checks.check_words(rest)
                if save and not {"output_path", "config"} & words_by_option(rest).keys():
                    rest += ["--output_path", str(default_folder), "--log_samples"]
            complete = partial(_complete_options, sample=sample)
            trackers = run_command_line([verb, *rest], instead, complete)
        except NNDError:
            raise
        except Exception as error:  # lm-eval, torch and transformers raise many kinds for a user's mistake
            reason = cut_middle(hide(typed_reason_of(error)), 300)  # half a secret would not be recognized
            raise NNDError(f"lm-eval stopped with {reason} (traceback: nnd --debug run ...)") from error
    for tracker in trackers if save else ():
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


def _complete_options(options: Any, *, sample: int | None) -> list[str]:
    """Check what the command line says, and complete the arguments of the model, which are in the metadata, too.

    Returns the names of the tasks.
    """
    names = checks.check_options(options, sample)
    options.model_args = _complete_arguments(options.model, options.model_args)
    options.metadata = _complete_arguments(options.model, options.metadata)
    return names


def _complete_arguments(model: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Put the folder of a model that we know by name in place of that name, and sum exactly.

    `HFLM` would sum log-probabilities in the type of its weights: in bfloat16, different texts tie. So a model of transformers
    gets ``softmax_dtype=float32`` unless the arguments name a type.
    """
    exact = checks.split_cluster(model, arguments)[0] in checks.HF
    completed = {**({"softmax_dtype": "float32"} if exact else {}), **arguments}
    if isinstance(pretrained := arguments.get("pretrained"), str):
        completed["pretrained"] = resolve_model(pretrained)
    return completed


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


#: Attributes of a ready-made model that say how it tokenizes.
_TOKENIZING = [
    "tokenizer",
    "backend",
    "add_bos_token",
    "custom_prefix_token_id",
    "max_length",
    "base_url",
    "token_stats",
]


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
    arguments = parse_model_args(model_args)
    checks.check_request(model, arguments, metadata or {}, kwargs)
    arguments = _complete_arguments(model, arguments)
    engine, _, _ = checks.split_cluster(model, arguments)
    if engine in checks.ON_TORCH and kwargs.get("device") is None and "device" not in arguments:
        kwargs["device"] = "cuda:0"  # the default of `lm_eval` on the command line; it takes the CPU if there is no GPU
    task_metadata = dict(arguments)
    if not isinstance(model, str):
        task_metadata |= {name: value for name in _TOKENIZING if (value := getattr(model, name, None)) is not None}
        if isinstance(getattr(model, "pretrained", None), str):
            task_metadata["pretrained"] = model.pretrained
    manager = task_manager(include_path, names, {**task_metadata, **(metadata or {})})
    options = {"task_manager": manager, "shared_prefix": shared_prefix, **kwargs}
    return dict(_evaluate_checked(model, arguments or None, names, **options) or {})


# ---------------------------------------------------------------- cached answers, and runs that have their results

#: Arguments that name a model, an adapter or a tokenizer.
_NAMES = ("pretrained", "model", "peft", "delta", "tokenizer")


def cache_key(model: Any, arguments: Mapping[str, Any], *, chat: bool = False) -> str:
    """Hash what can change the answers of a model: 12 hex digits, which end the name of its file of ``--use_cache``.

    lm-eval keys an answer by the text of its request alone, so that a second model silently gets the scores of the first.

    Args:
        model: what ``--model`` names.
        arguments: the parsed ``--model_args``.
        chat: whether prompts go through the chat template, whose line feed at the end is not scored.

    Raises:
        NNDError: the model, or one of its arguments, is a Python object, whose weights have no name to key answers by.
    """
    if not isinstance(model, str):
        raise NNDError(
            "use_cache: a ready-made model has no name to key its answers by; name it with model and model_args"
        )
    given = {key: value for key, value in name_server(arguments).items() if key not in INDIFFERENT}
    for key, value in given.items():
        if not isinstance(value, (str, int, float, bool, list, tuple, dict, type(None))):
            raise NNDError(f"use_cache: model argument {key} is a Python object, by which answers cannot be keyed")
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    scoring = ("lm_eval", "torch", "transformers", "tokenizers", "vllm")
    return digest(
        {
            "model": model,
            "arguments": given,
            "chat": chat,
            "files": {key: _describe_files(value, given) for key, value in texts.items()},
            "commits": {key: _find_commit(texts[key], given) for key in _NAMES if key in texts},
            "packages": [item for item in environment(*engine_packages(model)) if item[0] in scoring],
        }
    )


def run_key(answers: str, tasks: Iterable[Any], options: Mapping[str, Any]) -> str:
    """Hash what can change the results of a run: 12 hex digits.

    Args:
        answers: the `cache_key` of the model.
        tasks: those that are loaded.
        options: of lm-eval's `simple_evaluate`.
    """
    # Settings of ours are taken out of the metadata, in which the arguments of the model are too.
    configs = [plain_metadata({**vars(task.config), "metadata": None}) for task in tasks]
    ours = [[task.loaded.origin, task.settings.model_dump()] for task in tasks if hasattr(task, "settings")]
    others = {
        key: value for key, value in options.items() if key not in {*INDIFFERENT, "metadata", "verbosity", "use_cache"}
    }
    return digest([answers, configs, ours, plain_metadata(others)])


def _describe_files(name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """List name, size and time of each file of a local model, which change when the model is trained further."""
    files = model_files(name, str(arguments.get("subfolder") or ""))
    return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def _find_commit(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Find the commit of a model, adapter or tokenizer on the hub; None if it is local, or the commit is not known."""
    from transformers.utils import cached_file

    if model_files(name):
        return None
    for file in ("config.json", "adapter_config.json", "tokenizer_config.json"):
        try:
            path = cached_file(name, file, revision=str(arguments.get("revision") or "main"))
        except Exception:  # no such file, no such model, no network: loading the model will report it  # noqa: S112
            continue
        if path and "snapshots" in (parts := Path(path).parts):
            return parts[parts.index("snapshots") + 1]
    return None


# ---------------------------------------------------------------- many models


def list_models(models: str) -> dict[str, str]:
    """List what ``--models`` names.

    Args:
        models: a file with a model on each line, as after ``pretrained=``; or a pattern of folders that hold models.

    Returns:
        Model -> its ``--model_args``; those of a pattern with their numbers in order: ``step-2`` before ``step-10``.

    Raises:
        NNDError: it names none.
    """
    path = expand(models)
    if path.is_file():
        lines = [line.strip() for line in read_text(path).splitlines()]
        listed = {line: f"pretrained={line}" for line in lines if line and not line.startswith("#")}
    else:
        folders = [name for name in glob.glob(str(path)) if Path(name, "config.json").is_file()]  # noqa: PTH207
        folders.sort(key=lambda name: [part.zfill(20) for part in re.split(r"(\d+)", name)])
        listed = {name: f"pretrained={name!r}" for name in folders}  # in quotes, as a name may hold a comma
    if not listed:
        raise NNDError(
            f"--models {models}: no model; name a file with a model on each line, or a pattern of folders such as 'runs/step-*'"
        )
    return listed


def run_sweep(models: str, run: Callable[[list[str]], None]) -> None:
    """Run the same command for many models.

    Args:
        models: see `list_models`.
        run: runs it with further words, which name a model.

    Raises:
        NNDError: no model is named, or some of them fail. What the first two raise alike ends the sweep, because a mistake in
            the command is that of all.
    """
    listed, errors = list_models(models), list[str]()
    for number, (name, words) in enumerate(listed.items(), start=1):
        say(f"model {number} of {len(listed)}: {hide(name)}")
        try:
            run(["--model_args", words])
        except NNDError as error:
            warn(f"{hide(name)}: {error}")
            errors.append(str(error))
            if number == 2 and errors[1:] == errors[:1]:
                raise
    if errors:
        raise NNDError(f"{counted(len(errors), 'model')} of {len(listed)} failed; the same command tries them again")
