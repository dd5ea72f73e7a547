"""Run lm-eval with our tasks: `evaluate` from Python, `run_and_save` as ``nnd run`` does.

Both go through `_prepare`, which finds a user's mistakes before the model is loaded, and `_score`.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, cut_middle, typed_reason_of
from nnd_tasks.packages import load_optional
from nnd_tasks.redact import hidden_in_logs, hide, without_secrets
from nnd_tasks.run import checks
from nnd_tasks.run.adapter import (
    match_names,
    save_results,
    simple_evaluate,
    start_tracker,
    task_manager,
    write_table,
)
from nnd_tasks.show.console import say
from nnd_tasks.store import list_source_folders
from nnd_tasks.task.settings import check_selection, is_chat_api, select_prompts
from nnd_tasks.task.signature import (
    INDIFFERENT,
    digest,
    environment,
    model_files,
    name_server,
    weights_digest,
)
from shared_prefix.model_error import ModelError
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
    with clear_errors(), hidden_in_logs(), share_encodings():
        kwargs |= {"metadata": metadata, "include_path": include_path, "shared_prefix": shared_prefix}
        return dict(_score(_prepare(tasks, model, model_args, **kwargs)) or {})


def run_and_save(
    tasks: str | Sequence[str],
    model: str = "hf",
    model_args: str | Iterable[str] | Mapping[str, Any] | None = None,
    *,
    output_path: str | Path | None = None,
    all_metrics: bool = False,
    **options: Any,
) -> Path | None:
    """Evaluate a model, print the table and write the results with the samples, as ``nnd run`` does.

    Args:
        tasks: names of tasks or groups.
        model: a name that lm-eval knows.
        model_args: arguments of the model, as for ``--model_args``.
        output_path: folder of the results; None writes none.
        all_metrics: print every metric, not only those that one looks for first.
        **options: those of `evaluate`.

    Returns:
        The folder of the files; None if there are none, or another process writes them.

    Raises:
        NNDError: lm-eval ended with an exception, one of our checks before the run failed, or files could not be written.
    """
    with clear_errors(), hidden_in_logs(), share_encodings():
        try:
            tracker = start_tracker(output_path)
            chat, turns = bool(options.get("apply_chat_template")), options.get("fewshot_as_multiturn")
            if turns and not chat:
                raise NNDError("--fewshot_as_multiturn: only a chat has turns; add --apply_chat_template")
            options["fewshot_as_multiturn"] = (chat or None) if turns is None else turns
            if seed := options.pop("seed", None):
                options |= checks.read_seeds(seed)
            run = _prepare(tasks, model, model_args, evaluation_tracker=tracker, **options)
            results = _score(run)
            if results is None:
                return None
            tokens, samples = results.pop("tokens", {}), results.pop("samples")
            given = ", ".join(f"{name}: {run.options.get(name)}" for name in ("limit", "num_fewshot", "batch_size"))
            table = write_table(results, all_metrics=all_metrics)
            say(f"{model} ({results['config']['model_args']}), {given}", *table.splitlines())
            return save_results(tracker, results, samples, tokens) if output_path else None
        except (NNDError, ModelError):
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


@dataclass(frozen=True)
class CheckedRun:
    """A run that can begin.

    Attributes:
        model: the type of model that will run, or a ready-made model.
        arguments: its arguments.
        cluster: arguments of Ray's workers; empty where the model runs in this process.
        tasks: those of its tasks that are `NNDTask`.
        options: of lm-eval's `simple_evaluate`.
    """

    model: Any
    arguments: dict[str, Any]
    cluster: dict[str, Any]
    tasks: list[Any]
    options: dict[str, Any]


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
) -> CheckedRun:
    """Check a run, in the order of what the checks cost, and load its tasks; takes the arguments of `evaluate`."""
    if options.get("cache_requests"):
        raise NNDError(
            "cache_requests: lm-eval keys that cache by task name, not by data, prompt or settings, so it would "
            "give old requests the new names; leave it out, building requests takes seconds"
        )
    list_source_folders()  # raises where NND_HOME or NND_SOURCES is no folder, before a set is asked of the hub
    check_selection({"sample": sample, **options})
    names, metadata = [tasks] if isinstance(tasks, str) else list(tasks), checks.read_pairs(metadata, "--metadata")
    if "gen_kwargs" in options:
        options["gen_kwargs"] = checks.read_pairs(options["gen_kwargs"], "--gen_kwargs")
    arguments = checks.prepare_model(model, model_args, options)
    task_metadata = dict(arguments)
    if not isinstance(model, str):
        task_metadata |= {name: value for name in _TOKENIZING if (value := getattr(model, name, None)) is not None}
        if isinstance(getattr(model, "pretrained", None), str):
            task_metadata["pretrained"] = model.pretrained

    from nnd_tasks.task.task import NNDTask  # imports torch
    from shared_prefix import hf_shared_prefix, llamacpp, text_models  # noqa: F401 - they register their model types

    manager = task_manager(include_path, names, task_metadata | metadata)
    model, arguments, cluster = checks.split_cluster(model, arguments)
    specs, chat = match_names(manager, names), bool(options.get("apply_chat_template"))
    loaded = manager.load(specs)["tasks"]
    ours = [task for task in loaded.values() if isinstance(task, NNDTask)]
    tokens = any(task.settings.tokens for task in ours)
    options |= {"tasks": specs, "task_manager": manager}
    options["samples"] = select_prompts(loaded, ours, options.get("samples"), sample)
    if is_chat_api(model):
        checks.check_chat_api(model, [task for task in ours if not task.reader.writes], chat=chat)
    tracker = options.get("evaluation_tracker")
    if tokens and tracker is not None and not tracker.output_path:
        raise NNDError("metadata tokens: the token scores go to a file beside the results; add --output_path FOLDER")
    model, arguments = checks.choose_model_type(model, arguments, shared_prefix=shared_prefix, tokens=tokens)
    parameters = checks.check_types(arguments, model)
    checks.check_processes(model, arguments, tokens=tokens)
    for task in ours:
        checks.check_metadata(task.metadata, model, arguments, parameters)
        task.prepare(model, chat=chat)
    if use_cache is not None:
        options["use_cache"] = f"{use_cache}_{cache_key(model, arguments, chat=chat)}"
    return CheckedRun(model, arguments, cluster, ours, options)


# ---------------------------------------------------------------- the run


def _score(run: CheckedRun) -> Any:
    """Call lm-eval's `simple_evaluate`, with token scores under ``tokens``; only the model gets the secrets among the arguments.

    A cache of answers is keyed by the model. Models of types ``hf`` and ``vllm`` read common beginnings of requests once, if
    that is known to give the same numbers.
    """
    from shared_prefix.ray_workers import RAY, RayWorkers

    arguments = {**run.cluster, "engine": run.model, **run.arguments} if run.cluster else run.arguments or None
    try:
        results = simple_evaluate(model=RAY if run.cluster else run.model, model_args=arguments, **run.options)
    finally:
        RayWorkers.stop_all()
    keeping = [task for task in run.tasks if task.settings.tokens]
    if results is not None and keeping:
        token_table = load_optional("nnd_tasks.likelihood.scored_tokens:token_table", "metadata tokens")
        results["tokens"] = {task.config.task: token_table(task.instances, task.pooled.answers) for task in keeping}
    _name_samples(results or {}, [task.config.task for task in run.tasks])
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
def clear_errors() -> Iterator[None]:
    """Turn an error of the engine into an `NNDError`, and keep secrets out of errors and of the traceback that --debug shows."""
    try:
        yield
    except (NNDError, ModelError) as error:
        trace = "".join(traceback.format_exception(error))
        if hide(trace) != trace:
            raise NNDError(hide(str(error))) from RuntimeError(f"\n{hide(trace)}")
        if isinstance(error, ModelError):
            raise NNDError(str(error)) from error
        raise


# ---------------------------------------------------------------- cached answers

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
    scoring = ("lm_eval", "torch", "transformers", "tokenizers", "vllm", "llama_cpp_python")
    return digest(
        {
            "model": model,
            "arguments": given,
            "chat": chat,
            "files": {
                key: weights_digest(value, str(given.get("subfolder") or "")) or [] for key, value in texts.items()
            },
            "commits": {key: _find_commit(texts[key], given) for key in _NAMES if key in texts},
            "packages": [item for item in environment(model) if item[0] in scoring],
        }
    )


def _find_commit(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Find the commit of a model, adapter or tokenizer on the hub; None if it is local, or the commit is not known."""
    from huggingface_hub import snapshot_download

    if model_files(name):
        return None
    try:
        return Path(snapshot_download(name, revision=str(arguments.get("revision") or "main"), allow_patterns=[])).name
    except Exception:  # no such model, no network: loading the model will report it
        return None
