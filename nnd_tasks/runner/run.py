"""Run lm-eval with our tasks: `run_lm_eval` is its command line, `evaluate` is one call from Python.

Both go through `_evaluate_checked`, which finds a user's mistakes before the model is loaded and keys the caches.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import changing
from nnd_tasks.runner.adapter import (
    LM,
    loaded_once,
    model_types,
    our_tasks,
    parsed,
    run_command_line,
    sanitize_model_name,
    simple_evaluate,
    task_manager,
    veiled_config,
    whole_results,
)
from nnd_tasks.runner.keeping_tokens import keeping_tokens
from nnd_tasks.runner.known_models import resolve_argument, resolve_model
from nnd_tasks.runner.vllm_choice import choose
from nnd_tasks.secrets import bare_urls, hidden_in_logs, hide, without_secrets
from nnd_tasks.wording import did_you_mean

_VERBS = ("run", "ls", "validate")
#: Models of transformers, as lm-eval and we name them; and all that fail without ``device`` where torch has no CUDA.
_HF = ("hf", "hf-auto", "huggingface", "hf-shared-prefix")
_ON_TORCH = (*_HF, "nnd_mlm", "nnd_reward")


def _check_name(name: str, manager: Any) -> None:
    """Raise NNDError if there is no task, group or tag ``name``; the error names those that are similar."""
    names = list(manager.all_tasks)
    if name in names or any(mark in name for mark in "*?["):
        return
    # Ours come first, because among lm-eval's thousands of names some are similar to almost anything.
    ours = [task for task in names if task.startswith("nnd")]
    hint = did_you_mean(name, ours, at_most=3, cutoff=0.7) or did_you_mean(name, names, at_most=3, cutoff=0.8)
    raise NNDError(f"there is no task {name!r}; {hint or '`nnd run ls tasks` lists them'}")


def _evaluate_checked(
    model: Any,
    model_args: Any = None,
    tasks: Any = None,
    *,
    task_manager: Any,
    shared_prefix: bool = True,
    sample: int | None = None,
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
    import nnd_tasks.models.masked_lm  # registers nnd_mlm
    import nnd_tasks.models.reward  # registers nnd_reward
    import nnd_tasks.models.shared_prefix  # noqa: F401 - registers hf-shared-prefix
    from nnd_tasks.harness.task import NNDTask
    from nnd_tasks.harness.token_table import token_table
    from nnd_tasks.models.encodings import shared_encodings
    from nnd_tasks.models.model_error import ModelError
    from nnd_tasks.runner.caching import cache_key

    arguments = parsed(model_args)
    _check_model(model, arguments)
    check_prompts(sample, kwargs)
    if cache_requests:
        raise NNDError(
            "--cache_requests: lm-eval keys that cache by task name, not by data, prompt or settings, so it would "
            "give old requests the new names; leave it out, building requests takes seconds"
        )
    if shared_prefix and model == "hf":
        model = "hf-shared-prefix"
    model = choose(model, shared_prefix=shared_prefix)
    for name in tasks or []:
        if isinstance(name, str):
            _check_name(name, task_manager)
    loaded = task_manager.load(tasks)
    ours = [task for task in loaded["tasks"].values() if isinstance(task, NNDTask)]
    if sample is not None:
        if others := [name for name, task in loaded["tasks"].items() if task not in ours]:
            raise NNDError(
                f"--sample: {others[0]} is none of our tasks, so it has no categories; run it apart, with --limit"
            )
        kwargs["samples"] = {name: task.sample(sample) for name, task in loaded["tasks"].items()}
    tracker = kwargs.get("evaluation_tracker")
    keeping = [task for task in ours if task.settings.tokens]
    _check_processes(model, arguments, tokens=bool(keeping))
    if keeping:
        model, arguments = keeping_tokens(model, arguments, tracker)
    _check_output(tracker)
    with hidden_in_logs(), shared_encodings(), loaded_once(task_manager, loaded):
        for task in ours:
            task.prepare(model, arguments, chat=bool(apply_chat_template))
        if use_cache is not None:
            use_cache = f"{use_cache}_{cache_key(model, arguments)}"
        try:
            results = simple_evaluate(
                model=model,
                model_args=arguments or None,
                tasks=tasks,
                task_manager=task_manager,
                use_cache=use_cache,
                apply_chat_template=apply_chat_template,
                **kwargs,
            )
        except ModelError as error:  # of our engine, which knows no NNDError
            raise NNDError(str(error)) from error
        if results is not None and keeping:
            tables = {task.config.task: token_table(task.instances) for task in keeping}
            if tracker is None:
                results["tokens"] = tables
            else:
                tracker.nnd_tokens = tables
        return _without_secrets(results, tracker)


def _without_secrets(results: Any, tracker: Any) -> Any:
    """Take the secrets out of lm-eval's results, and out of the model's name, after which their folder is named."""
    for config in (results or {}).get("configs", {}).values():
        if isinstance(metadata := config.get("metadata"), dict):
            ours = {"nnd": metadata.pop("nnd")} if "nnd" in metadata else {}  # a category may be named like a secret
            config["metadata"] = {**without_secrets(metadata, None), **ours}
    if results and "config" in results:
        results["config"] = without_secrets(results["config"])
    names = getattr(tracker, "general_config_tracker", None)
    if names is not None and names.model_name and (shown := bare_urls(names.model_name)) != names.model_name:
        names.model_name, names.model_name_sanitized = shown, sanitize_model_name(shown)
    return results


def _check_processes(model: Any, arguments: Mapping[str, Any], *, tokens: bool) -> None:
    """Raise NNDError if a launcher has started several processes among which lm-eval does not divide the documents rightly.

    Upstream: `HFLM` (lm_eval/models/huggingface.py:465) does so where it sees several GPUs, and numbers the processes within a
    machine.

    Args:
        model: what ``--model`` names, or a ready-made model, which is scored in the process that has it.
        arguments: its arguments.
        tokens: whether token scores are kept, which lm-eval does not gather.
    """
    count = os.environ.get("WORLD_SIZE", "1")
    if count == "1" or not isinstance(model, str):
        return
    if arguments.get("tp_plan") or arguments.get("distributed_executor_backend") == "external_launcher":
        return  # the processes hold parts of one model, and each sees every request
    import torch

    here = os.environ.get("LOCAL_WORLD_SIZE", count)
    if tokens or model not in _HF or here != count or torch.accelerator.device_count() < 2:
        raise NNDError(
            f"{count} processes were started, and lm-eval divides documents among processes only for --model hf on several "
            "GPUs of one machine, without metadata tokens; start one process (on a CPU it uses all cores)"
        )


def _check_model(model: Any, arguments: Mapping[str, Any]) -> None:
    """Raise NNDError if the arguments do not say which model to load."""
    if not isinstance(model, (str, LM)):
        raise NNDError(
            f"{type(model).__name__} is not a model of lm-eval; for a model of transformers pass model='hf', "
            "model_args={'pretrained': MODEL, 'tokenizer': TOKENIZER}"
        )
    if isinstance(model, LM):
        return
    if model not in (known := model_types()):
        hint = did_you_mean(model, known) or f"there are: {', '.join(known)}"
        raise NNDError(f"--model {model}: lm-eval has no such model type; {hint}")
    if "-chat" in model:
        raise NNDError(
            f"--model {model}: chat APIs give no likelihoods of a given text; take --model local-completions with a server's "
            "completions endpoint, or load the model with --model hf"
        )
    if model in _ON_TORCH and arguments.get("pretrained", "") == "":
        raise NNDError(f"--model {model}: --model_args has no pretrained=NAME_OR_FOLDER; add it")


def check_prompts(sample: int | None, options: Mapping[str, Any]) -> None:
    """Raise NNDError if no prompt is left, or if two options choose prompts."""
    for name, number in (("limit", options.get("limit")), ("sample", sample)):
        if number is not None and not number > 0:
            raise NNDError(f"--{name} {number:g}: no prompt is left; take 1 or more, or leave it out")
    for name in ("limit", "samples"):
        if sample is not None and options.get(name) is not None:
            raise NNDError(f"--sample and --{name} both say which prompts are taken; leave one out")


def _check_output(tracker: Any) -> None:
    """Raise NNDError if the results cannot be written, which lm-eval would only log, and only after the run."""
    path = getattr(tracker, "output_path", None)
    if not path:
        return
    folder = Path(path).parent if str(path).endswith(".json") else Path(path)
    with changing(f"--output_path {path}"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def run_lm_eval(arguments: Sequence[str], *, shared_prefix: bool = True, sample: int | None = None) -> None:
    """Run ``lm_eval`` in this process with ``arguments``, our tasks known to it.

    Args:
        arguments: as one would type them after ``lm_eval``; the verb ``run`` may be left out.
        shared_prefix: read common beginnings of requests once, for ``--model hf`` and ``--model vllm``.
        sample: number of prompts of each task, spread over its categories; None takes all.

    Raises:
        SystemExit: as lm-eval's command line does.
        NNDError: lm-eval ended with an exception, or one of our checks before the run failed.
    """
    arguments = [resolve_argument(word) for word in arguments]
    verb = [] if arguments and arguments[0] in _VERBS else ["run"]
    instead = partial(_evaluate_checked, shared_prefix=shared_prefix, sample=sample)
    with _hidden_in_errors(), hidden_in_logs(), veiled_config(), whole_results(), our_tasks(_check_name):
        try:
            run_command_line(["lm_eval", *verb, *(arguments or ["--help"])], instead)
        except NNDError:
            raise
        except Exception as error:  # lm-eval, torch and transformers raise many kinds for a user's mistake
            reason = _short(hide(typed_reason_of(error)))  # half a secret would not be recognized
            raise NNDError(f"lm-eval stopped with {reason} (traceback: nnd --debug run ...)") from error


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


def _short(text: str) -> str:
    """Return a text of one line with single spaces, at most 300 characters of it."""
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:299]}…"


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
        NNDError: there is no such task, a set is not built, or the model or its tokenizer cannot be identified.
    """
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    arguments = parsed(model_args)
    if isinstance(arguments.get("pretrained"), str):
        arguments = {**arguments, "pretrained": resolve_model(arguments["pretrained"])}
    about_model = dict(arguments)
    if model in _ON_TORCH and kwargs.get("device") is None and "device" not in arguments:
        kwargs["device"] = "cuda:0"  # the default of `lm_eval` on the command line; it takes the CPU if there is no GPU
    if not isinstance(model, str):  # a ready-made model has attributes that say how it tokenizes
        for name in ("tokenizer", "backend", "add_bos_token", "custom_prefix_token_id", "max_length", "base_url"):
            if getattr(model, name, None) is not None:
                about_model[name] = getattr(model, name)
        if isinstance(getattr(model, "pretrained", None), str):
            about_model["pretrained"] = model.pretrained
    manager = task_manager(include_path, names, {**about_model, **(metadata or {})})
    options = {"task_manager": manager, "shared_prefix": shared_prefix, **kwargs}
    return dict(_evaluate_checked(model, arguments or None, names, **options) or {})
