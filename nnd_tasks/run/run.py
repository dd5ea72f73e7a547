"""Run lm-eval with our tasks: `evaluate` from Python, `run_and_save` as ``nnd run`` does, `run_sweep` for many models.

All go through `_prepare`, which finds a user's mistakes before the model is loaded, and `_score`.
"""

from __future__ import annotations

import glob
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, cut_middle, typed_reason_of
from nnd_tasks.files import expand, read_text, write_text
from nnd_tasks.redact import hidden_in_logs, hide, keep_secret, without_secrets
from nnd_tasks.run import checks
from nnd_tasks.run.adapter import (
    SavedRun,
    results_folder,
    save_results,
    simple_evaluate,
    start_tracker,
    task_manager,
)
from nnd_tasks.run.smollm2 import resolve_model
from nnd_tasks.run.table import write_table
from nnd_tasks.show.console import say, warn
from nnd_tasks.task.request import engine_errors
from nnd_tasks.task.settings import plain_metadata
from nnd_tasks.task.signature import INDIFFERENT, digest, engine_packages, environment, model_files, name_server
from nnd_tasks.text import counted
from shared_prefix.shared_encodings import share_encodings


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
        **kwargs: ``sample``, a number of prompts of each task, spread over its categories; all others are options of
            `lm_eval.simple_evaluate`.

    Returns:
        lm-eval's results: ``results``, ``configs``, ``samples`` and so on.

    Raises:
        NNDError: there is no such task, a set cannot be built, or the model or its tokenizer cannot be identified.
    """
    with _hidden_in_errors(), hidden_in_logs(), share_encodings():
        kwargs |= {"metadata": metadata, "include_path": include_path, "shared_prefix": shared_prefix}
        return dict(_score(_prepare(tasks, model, model_args, **kwargs)) or {})


def run_and_save(
    tasks: str | Sequence[str],
    model: str = "hf",
    model_args: str | Iterable[str] | Mapping[str, Any] | None = None,
    *,
    output_path: str | Path | None = None,
    log_samples: bool = True,
    all_metrics: bool = False,
    resume: bool = False,
    **options: Any,
) -> SavedRun | None:
    """Evaluate a model, print the table and write the results, as ``nnd run`` does.

    Args:
        tasks: names of tasks or groups.
        model: a name that lm-eval knows.
        model_args: arguments of the model, as for ``--model_args``.
        output_path: folder of the results; None writes none.
        log_samples: write the samples too.
        all_metrics: print every metric, not only those that one looks for first.
        resume: run nothing where the results of this very command are saved.
        **options: those of `evaluate`.

    Returns:
        Where the files are; None if there are none, they were there already, or another process writes them.

    Raises:
        NNDError: lm-eval ended with an exception, one of our checks before the run failed, or files could not be written.
    """
    with _hidden_in_errors(), hidden_in_logs(), share_encodings():
        try:
            tracker = start_tracker(output_path)
            arguments = checks.read_pairs(model_args, "--model_args")
            for name, default in (("device", "cuda:0"), ("batch_size", 1)):  # those of lm-eval's command line
                if options.get(name) is None and name not in arguments:
                    options[name] = default
            chat, turns = bool(options.get("apply_chat_template")), options.get("fewshot_as_multiturn")
            if turns and not chat:
                raise NNDError("--fewshot_as_multiturn: only a chat has turns; add --apply_chat_template")
            options["fewshot_as_multiturn"] = (chat or None) if turns is None else turns
            options["gen_kwargs"] = checks.read_pairs(options.get("gen_kwargs"), "--gen_kwargs")
            if (seed := options.pop("seed", None)) is not None:
                options |= checks.read_seeds(seed)
            run = _prepare(tasks, model, arguments, evaluation_tracker=tracker, log_samples=log_samples, **options)
            mark = None
            if resume and output_path:
                folder = results_folder(str(output_path), run.folder)
                mark = folder / f".run-{run_key(run)}"  # holds the date in the names of the results
                if mark.is_file() and [*folder.glob(f"*_{read_text(mark)}.json")]:
                    say(f"has results: {folder}")
                    return None
            results = _score(run)
            if results is None:
                return None
            tokens, samples = results.pop("tokens", {}), results.pop("samples", None)
            given = ", ".join(f"{name}: {run.options.get(name)}" for name in ("limit", "num_fewshot", "batch_size"))
            table = write_table(results, all_metrics=all_metrics)
            say(f"{model} ({without_secrets(arguments)}), {given}", *table.splitlines())
            if not output_path:
                return None
            saved = save_results(tracker, run.folder, results, samples if log_samples else None, tokens)
            if mark is not None:
                write_text(mark, saved.date)
            return saved
        except NNDError:
            raise
        except Exception as error:  # lm-eval, torch and transformers raise many kinds for a user's mistake
            reason = cut_middle(hide(typed_reason_of(error)), 300)  # half a secret would not be recognized
            raise NNDError(f"lm-eval stopped with {reason} (traceback: nnd --debug run ...)") from error


# ---------------------------------------------------------------- before the model is loaded

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


def _prepare(
    tasks: str | Sequence[str],
    model: Any,
    model_args: Any,
    *,
    metadata: Any = None,
    include_path: Any = None,
    shared_prefix: bool = True,
    sample: int | None = None,
    use_cache: str | None = None,
    **options: Any,
) -> checks.CheckedRun:
    """Check a run and load its tasks; takes the arguments of `evaluate`."""
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    arguments, metadata = checks.read_pairs(model_args, "--model_args"), checks.read_pairs(metadata, "--metadata")
    keep_secret(arguments)
    checks.take_options(arguments, options)
    checks.check_request(model, arguments, metadata, {"sample": sample, **options})
    engine, _, _ = checks.split_cluster(model, arguments)
    if engine in checks.HF:  # lm-eval would sum in the type of the weights: in bfloat16, different texts tie
        arguments = {"softmax_dtype": "float32", **arguments}
    if isinstance(pretrained := arguments.get("pretrained"), str):
        arguments["pretrained"] = resolve_model(pretrained)
    if engine in checks.ON_TORCH and options.get("device") is None:
        options["device"] = "cuda:0"  # the default of lm-eval's command line; it takes the CPU if there is no GPU
    task_metadata = dict(arguments)
    if not isinstance(model, str):
        task_metadata |= {name: value for name in _TOKENIZING if (value := getattr(model, name, None)) is not None}
        if isinstance(getattr(model, "pretrained", None), str):
            task_metadata["pretrained"] = model.pretrained
    task_metadata |= metadata
    manager = task_manager(include_path, names, task_metadata)
    run = checks.check_run(manager, model, arguments, names, options, sample=sample, shared_prefix=shared_prefix)
    if use_cache is not None:
        run.options["use_cache"] = f"{use_cache}_{_key_answers(run)}"
    return run


# ---------------------------------------------------------------- the run


def _score(run: checks.CheckedRun) -> Any:
    """Call lm-eval's `simple_evaluate`, with token scores under ``tokens``; only the model gets the secrets among the arguments.

    A cache of answers is keyed by the model. Models of types ``hf`` and ``vllm`` read common beginnings of requests once, if
    that is known to give the same numbers.
    """
    from nnd_tasks.task.scored_tokens import token_table
    from shared_prefix.ray_workers import RAY, RayWorkers

    arguments = {**run.cluster, "engine": run.model, **run.arguments} if run.cluster else run.arguments or None
    with engine_errors():
        try:
            results = simple_evaluate(model=RAY if run.cluster else run.model, model_args=arguments, **run.options)
        except TypeError as error:
            unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
            if unknown is None or unknown[1] not in run.arguments:
                raise
            raise NNDError(
                f"--model_args {unknown[1]}: --model {run.model} takes no such argument; leave it out"
            ) from error
        finally:
            RayWorkers.stop_all()
    keeping = [task for task in run.ours if task.settings.tokens]
    if results is not None and keeping:
        results["tokens"] = {task.config.task: token_table(task.instances, task.answers) for task in keeping}
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


def _key_answers(run: checks.CheckedRun) -> str:
    return cache_key(run.model, run.arguments, chat=bool(run.options.get("apply_chat_template")))


def run_key(run: checks.CheckedRun) -> str:
    """Hash what can change the results of a run: 12 hex digits."""
    # Settings of ours are taken out of the metadata, in which the arguments of the model are too.
    configs = [plain_metadata({**vars(task.config), "metadata": None}) for task in run.tasks]
    ours = [[task.loaded.origin, task.settings.model_dump()] for task in run.ours]
    others = {key: value for key, value in run.options.items() if key not in {*INDIFFERENT, "use_cache"}}
    return digest([_key_answers(run), configs, ours, plain_metadata(others)])


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


def run_sweep(models: str, run: Callable[[str], None]) -> None:
    """Run the same command for many models.

    Args:
        models: see `list_models`.
        run: runs it with further ``--model_args``, which name a model.

    Raises:
        NNDError: no model is named, or some of them fail. What the first two raise alike ends the sweep, because a mistake in
            the command is that of all.
    """
    listed, errors = list_models(models), list[str]()
    for number, (name, words) in enumerate(listed.items(), start=1):
        say(f"model {number} of {len(listed)}: {hide(name)}")
        try:
            run(words)
        except NNDError as error:
            warn(f"{hide(name)}: {error}")
            errors.append(str(error))
            if number == 2 and errors[1:] == errors[:1]:
                raise
    if errors:
        raise NNDError(f"{counted(len(errors), 'model')} of {len(listed)} failed; the same command tries them again")
