"""All checks of a run before its model is loaded, in the order of their cost.

`read_pairs`, `take_options` and `check_request` need neither torch nor lm-eval's evaluator. `check_run` loads the tasks.
"""

from __future__ import annotations

import ast
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import regex  # type: ignore[import-untyped]

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand, parse_json
from nnd_tasks.run.adapter import LM, check_output, match_names, model_parameters, model_types
from nnd_tasks.run.adapters import check_adapter
from nnd_tasks.store import list_source_folders
from nnd_tasks.task.settings import check_selection, is_chat_api, select_prompts
from nnd_tasks.task.signature import CLUSTER
from nnd_tasks.text import counted, did_you_mean, some_of

logger = logging.getLogger("lm_eval.nnd")

#: Models of transformers, as lm-eval and we name them.
HF = ("hf", "hf-auto", "huggingface", "hf-shared-prefix")
#: All models that fail without ``device`` where torch has no CUDA.
ON_TORCH = (*HF, "nnd_mlm", "nnd_reward")
#: The names of lm-eval's model type and ours.
VLLM, SHARED = "vllm", "vllm-shared-prefix"

# ---------------------------------------------------------------- what is asked for

#: A part of ``KEY=VALUE,KEY=VALUE``: a comma in quotes or brackets separates nothing.
_PART = regex.compile(r"""(?:'[^']*'|"[^"]*"|(?P<nested>[\[({](?:[^][(){}]|(?&nested))*+[])}])|[^,])+""")
_CLOSING = {"'": "'", '"': '"', "[": "]", "(": ")", "{": "}"}


def read_pairs(given: str | Iterable[str] | Mapping[str, Any] | None, option: str) -> dict[str, Any]:
    """Read the value of an option such as ``--model_args`` as lm-eval does.

    Args:
        given: ``KEY=VALUE,KEY=VALUE`` or a JSON object, one or several; or a mapping, which is copied.
        option: its name.

    Raises:
        NNDError: it cannot be read, or gives a key twice.
    """
    if isinstance(given, Mapping):
        return dict(given)
    items: list[tuple[str, Any]] = []
    for text in [given] if isinstance(given, str) else given or ():
        if text.lstrip().startswith("{"):
            items += parse_json(text, f"{option} {text}", hint="; or write NAME=VALUE,... without braces").items()
            continue
        for match in _PART.finditer(text):
            key, equals, value = match[0].strip().partition("=")
            if not equals or not key:
                raise NNDError(f"{option} {text}: {match[0]!r} is no NAME=VALUE")
            if value[:1] in _CLOSING and (len(value) == 1 or value[-1] != _CLOSING[value[0]]):
                raise NNDError(f"{option} {text}: {value[0]} is opened and not closed")
            items.append((key, _read_value(value)))
    for key in (pairs := dict(items)):
        if sum(key == other for other, _ in items) > 1:
            raise NNDError(f"{option}: {key} is given twice; give it once")
    return pairs


def _read_value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int if text.isnumeric() else float, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            return read(text)
    return text


def read_seeds(text: str) -> dict[str, int | None]:
    """Read ``--seed``: one for all, or four between commas; ``None`` sets none.

    Raises:
        NNDError: it is neither.
    """
    try:
        seeds = [None if seed.strip().lower() == "none" else int(seed) for seed in text.split(",")]
        names = ("random_seed", "numpy_random_seed", "torch_random_seed", "fewshot_random_seed")
        return dict(zip(names, seeds * 4 if len(seeds) == 1 else seeds, strict=True))
    except ValueError as error:
        raise NNDError(
            f"--seed {text}: expected a whole number, or four between commas, or None for one of them"
        ) from error


def take_options(arguments: dict[str, Any], options: dict[str, Any]) -> None:
    """Move from the arguments of a model to the options of lm-eval what it gives the model, which would get it twice.

    Raises:
        NNDError: one is in both, or the batch size is none.
    """
    for name in {"device", "batch_size", "max_batch_size"} & arguments.keys():
        if options.get(name) is not None:
            raise NNDError(f"--{name} {options[name]}: --model_args has {name}={arguments[name]}; give it once")
        options[name] = arguments.pop(name)
    if (size := options.get("batch_size")) is not None and not re.fullmatch(r"auto(:[\d.]+)?|[1-9]\d*", str(size)):
        raise NNDError(f"--batch_size {size}: expected a number of requests, auto or auto:N")


def check_request(
    model: Any, arguments: Mapping[str, Any], metadata: Mapping[str, Any], selection: Mapping[str, Any]
) -> None:
    """Check which model is asked for, and for which prompts.

    Args:
        model: what ``--model`` names, or a ready-made model.
        arguments: the parsed ``--model_args``.
        metadata: the parsed ``--metadata``.
        selection: ``limit``, ``samples``, ``predict_only`` and ``sample``, a number of prompts of each task.

    Raises:
        NNDError: there is no such type of model, a folder is not there or holds no model, or no prompt is left.
    """
    list_source_folders()  # raises where NND_HOME or NND_SOURCES is no folder, before a set is asked of the hub
    check_selection(selection)
    engine, arguments, _ = split_cluster(model, arguments)
    if not isinstance(engine, (str, LM)):
        raise NNDError(
            f"{type(engine).__name__} is not a model of lm-eval; for a model of transformers pass model='hf', "
            "model_args={'pretrained': MODEL, 'tokenizer': TOKENIZER}"
        )
    given = {**metadata, **arguments}
    for key in ("pretrained", "model", "tokenizer", "peft", "delta"):
        path = given.get(key)
        if isinstance(path, str) and path.startswith(("/", "./", "../", "~")) and not expand(path).exists():
            raise NNDError(f"{path}: there is no such model or tokenizer folder; --model_args names it")
    if isinstance(engine, LM):
        return
    if engine not in (known := model_types()):
        hint = did_you_mean(engine, known) or f"there are: {', '.join(known)}"
        raise NNDError(f"--model {engine}: lm-eval has no such model type; {hint}")
    missing = [name for name in ("aiohttp", "requests", "tenacity") if find_spec(name) is None]
    if missing and ("completions" in engine or is_chat_api(engine)):
        raise NNDError(f"--model {engine}: needs {' and '.join(missing)}; pip install 'lm-eval[api]'")
    if engine not in (*ON_TORCH, VLLM, SHARED):
        return
    for key in ("dtype", "softmax_dtype", "mixed_precision_dtype"):
        _check_dtype(key, arguments.get(key))
    pretrained = arguments.get("pretrained", "")
    if engine in ON_TORCH and pretrained == "":
        for key in arguments:
            _check_spelling(key, ["pretrained"], engine)
        raise NNDError(f"--model {engine}: --model_args has no pretrained=NAME_OR_FOLDER; add it")
    if isinstance(pretrained, str) and not {"subfolder", "gguf_file"} & arguments.keys():
        _check_holds_model(pretrained)
    if engine in ("hf", SHARED):
        check_adapter(arguments)


def _check_spelling(key: str, known: Iterable[str], model: Any) -> None:
    """Raise NNDError for an argument that the model does not name and that is like one that it does."""
    if key not in known and (hint := did_you_mean(key, known, cutoff=0.85)):
        raise NNDError(f"--model_args {key}: --model {model} takes no such argument; {hint}")


def _check_types(arguments: Mapping[str, Any], model: Any) -> None:
    """Raise NNDError for misspelt arguments, and for a text where the model wants a number or a truth value.

    In Python every text is true, "false" too.
    """
    parameters: dict[str, str] = {}
    if isinstance(model, str):
        with suppress(ImportError):  # lm-eval will say what is not installed
            parameters = model_parameters(model)
    for key, value in arguments.items():
        _check_spelling(key, parameters, model)
        types = {*re.findall(r"\b(?:bool|int|float|str|dict|list|Literal)\b", parameters.get(key, ""))}
        if isinstance(value, str) and (types == {"bool"} or types == {"int"}):
            expected = "true or false" if types == {"bool"} else "a whole number"
            raise NNDError(f"--model_args {key}={value!r}: expected {expected}, without quotes")


#: Types of torch that weights can have, as both names of each.
_DTYPES = ("auto", "float32", "float", "float64", "double", "float16", "half", "bfloat16")


def _check_dtype(key: str, dtype: Any) -> None:
    if isinstance(dtype, (int, float)):  # as lm-eval parses dtype=16
        dtype = str(dtype)
    if not isinstance(dtype, str) or dtype in _DTYPES or dtype.startswith("float8_"):
        return
    hint = did_you_mean(dtype.removeprefix("torch."), _DTYPES, at_most=2) or f"there are: {', '.join(_DTYPES)}"
    raise NNDError(f"{key}={dtype}: no such type of numbers; {hint}")


def _check_holds_model(pretrained: str) -> None:
    """Raise NNDError for a folder of checkpoints that is no model itself."""
    folder = expand(pretrained)
    own = ("config.json", "adapter_config.json", "params.json")
    if not folder.is_dir() or any((folder / name).is_file() for name in own) or list(folder.glob("*.gguf")):
        return
    with suppress(OSError):
        below = {path.parent for name in own[:2] for path in folder.glob(f"*/{name}")}
        names = [str(path) for path in sorted(below, key=lambda path: (len(path.name), path.name))]
        if names:
            raise NNDError(
                f"pretrained={pretrained}: is a folder of models and none itself; name one: {some_of(names, 6, str)}"
            )


# ---------------------------------------------------------------- a run


@dataclass(frozen=True)
class CheckedRun:
    """A run that can begin.

    Attributes:
        model: the type of model that will run, or a ready-made model.
        arguments: its arguments.
        cluster: arguments of Ray's workers; empty where the model runs in this process.
        tasks: all of them.
        ours: those that are `NNDTask`.
        options: of lm-eval's `simple_evaluate`.
        folder: name of the folder of the results; None where lm-eval takes a random one.
    """

    model: Any
    arguments: dict[str, Any]
    cluster: dict[str, Any]
    tasks: list[Any]
    ours: list[Any]
    options: dict[str, Any]
    folder: str | None


def check_run(
    manager: Any,
    model: Any,
    arguments: Mapping[str, Any],
    names: Sequence[str],
    options: Mapping[str, Any],
    *,
    sample: int | None,
    shared_prefix: bool,
) -> CheckedRun:
    """Load the tasks of a run and check everything else that needs no model.

    Args:
        manager: lm-eval's `TaskManager`.
        model: what ``--model`` names, or a ready-made model.
        arguments: the parsed ``--model_args``.
        names: of tasks or groups.
        options: of lm-eval's `simple_evaluate`.
        sample: number of prompts of each task, spread over its categories; None takes all.
        shared_prefix: read common beginnings of requests once.

    Raises:
        NNDError: something is wrong.
    """
    from nnd_tasks.task.task import NNDTask  # imports torch
    from shared_prefix import hf_shared_prefix, text_models  # noqa: F401 - they register their model types

    if options.get("cache_requests"):
        raise NNDError(
            "cache_requests: lm-eval keys that cache by task name, not by data, prompt or settings, so it would "
            "give old requests the new names; leave it out, building requests takes seconds"
        )
    model, arguments, cluster = split_cluster(model, arguments)
    if model in ON_TORCH:
        _check_device(options.get("device"))
    chat = bool(options.get("apply_chat_template"))
    specs = match_names(manager, names)
    loaded = manager.load(specs)["tasks"]
    ours = [task for task in loaded.values() if isinstance(task, NNDTask)]
    check_chat_api(model, [task for task in ours if not task.reader.writes], chat=chat)
    tokens = any(task.settings.tokens for task in ours)
    samples = select_prompts(loaded, ours, options.get("samples"), sample)
    tracker = options.get("evaluation_tracker")
    folder = check_output(getattr(tracker, "output_path", None), arguments, loaded)
    shares = shared_prefix and model == "hf"
    model = resolve_model_type("hf-shared-prefix" if shares else model, shared_prefix=shared_prefix)
    _check_types(arguments, model)
    _check_processes(model, arguments, tokens=tokens)
    if tokens:
        model, arguments = with_token_scores(model, arguments, tracker)
    if arguments.get("token_stats") and model != "hf-shared-prefix":
        raise NNDError(
            f"token_stats: --model {model} gives no ranks and entropies of tokens; --model hf does, unless "
            "shared_prefix is off"
        )
    for task in ours:
        _check_metadata(task.metadata, model, arguments)
        task.prepare(model, chat=chat)
    options = {**options, "tasks": specs, "task_manager": manager, "samples": samples}
    return CheckedRun(model, dict(arguments), cluster, [*loaded.values()], ours, options, folder)


# ---------------------------------------------------------------- the model and the tasks


def check_chat_api(model: Any, scoring: Sequence[Any], *, chat: bool) -> None:
    """Check that a chat API is asked for what it gives.

    Args:
        model: what ``--model`` names, or a ready-made model.
        scoring: the tasks that need likelihoods.
        chat: whether prompts are sent as chats.

    Raises:
        NNDError: a task needs likelihoods, or prompts are no chats.
    """
    if not is_chat_api(model):
        return
    for task in scoring:
        raise NNDError(
            f"--model {model}: chat APIs give no likelihoods of a given text, which {task.config.task} needs; take a task in "
            "which the model writes its verdict (nnd_SET_judge, nnd_SET_rating), --model local-completions with a server's "
            "completions endpoint, or load the model with --model hf"
        )
    if not chat:
        raise NNDError(f"--model {model}: a chat API takes chats and no plain text; add --apply_chat_template")


def _check_device(device: Any) -> None:
    """Raise NNDError for a device that is not there.

    Upstream: `HFLM` (lm_eval/models/huggingface.py) takes another one without a word, but for ``cuda``. Its default, ``cuda:0``,
    stands for the CPU where there is no GPU.
    """
    import torch

    if not isinstance(device, str) or device == "cuda:0":
        return
    try:
        named = torch.device(device)
    except RuntimeError as error:
        raise NNDError(f"--device {device}: there is no such kind of device; take cpu or cuda") from error
    count = torch.cuda.device_count()
    if named.type == "cuda" and (named.index or 0) >= count:
        raise NNDError(f"--device {device}: torch sees {counted(count, 'GPU')} here; take cpu or another one")


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
    if tokens or model not in HF or here != count or torch.accelerator.device_count() < 2:
        raise NNDError(
            f"{count} processes were started, and lm-eval divides documents among processes only for --model hf on several "
            "GPUs of one machine, without metadata tokens; start one process (on a CPU it uses all cores)"
        )


#: Keys of the metadata that say which model runs and how it tokenizes.
_OF_THE_MODEL = {
    *("pretrained", "model", "peft", "revision", "subfolder", "gguf_file", "base_url", "backend"),
    *("tokenizer", "tokenizer_backend", "use_fast_tokenizer"),
    *("add_bos_token", "prefix_token_id", "custom_prefix_token_id"),
    *("max_length", "max_model_len", "context_length"),
}


def _check_metadata(metadata: Mapping[str, Any], model: Any, arguments: Mapping[str, Any]) -> None:
    """Compare a task's metadata with the arguments of the model that will run.

    Args:
        metadata: settings of the task and arguments of the model, as lm-eval mixes them.
        model: what ``--model`` names, or a ready-made model.
        arguments: the parsed ``--model_args``.

    Raises:
        NNDError: the metadata names another model than the one that runs, so that tokens would be counted and contexts
            shortened for the wrong one.
    """
    if not isinstance(model, str):
        return
    for key in sorted(_OF_THE_MODEL & metadata.keys()):
        # Models of lm-eval whose names begin with hf take all of these keys.
        if (model.startswith("hf") or key in arguments) and metadata[key] != arguments.get(key):
            raise NNDError(
                f"metadata {key}={metadata[key]!r} is not what the model gets ({arguments.get(key)!r}); give it in "
                "--model_args"
            )


# ---------------------------------------------------------------- the model type that runs in place of the one that is named


def split_cluster(model: Any, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Take the engine of ``--model ray`` apart from where it runs.

    Args:
        model: what ``--model`` names, or a ready-made model.
        arguments: its arguments.

    Returns:
        The model type that computes, its arguments, and those of Ray's workers, which are empty for any other model.
    """
    if model != "ray":
        return model, dict(arguments), {}
    cluster = {"workers": 1, **{key: arguments[key] for key in CLUSTER if key in arguments}}
    rest = {key: value for key, value in arguments.items() if key not in (*CLUSTER, "engine")}
    return arguments.get("engine", "hf"), rest, cluster


def resolve_model_type(model: Any, *, shared_prefix: bool) -> Any:
    """Name the model type to take in place of ``model``: another one if that names vLLM, else ``model`` itself.

    Args:
        model: what ``--model`` names, or a ready-made model.
        shared_prefix: whether contexts may be read once.

    Raises:
        NNDError: vLLM is not installed, or lm-eval cannot load it.
    """
    if not isinstance(model, str) or model not in (VLLM, SHARED):
        return model
    if find_spec("vllm") is None:
        raise NNDError(f"--model {model}: vLLM is not installed; pip install vllm (docs/backends.md)")
    from shared_prefix import upstream  # imports torch

    try:
        upstream.vllm_class()
    except Exception as error:  # an old vLLM, or one that does not fit its torch, can raise anything
        raise NNDError(
            f"--model {model}: lm-eval cannot load vLLM {upstream.vllm_version()} ({typed_reason_of(error)}); "
            "install one that fits, pip install -U vllm"
        ) from error
    if not shared_prefix:
        return VLLM
    if (reason := upstream.why_vllm_is_too_old()) is not None:
        logger.info("vllm-shared-prefix: not sharing prefixes, plain vllm instead: %s", reason)
        return VLLM
    import_module("shared_prefix.vllm_shared_prefix")  # registers it
    return SHARED


_WHO = "hf and vllm keep the log-probabilities of tokens"
#: Model types -> ours, which can keep what each token gets. Ours also scores as the other does.
_KEEPING = {
    "hf": "hf-shared-prefix",
    "hf-auto": "hf-shared-prefix",
    "huggingface": "hf-shared-prefix",
    VLLM: SHARED,
}


def with_token_scores(model: Any, arguments: Mapping[str, Any], tracker: Any) -> tuple[Any, dict[str, Any]]:
    """Change the model and its arguments so that its answers keep the log-probability of every token.

    Args:
        model: what ``--model`` names, or a ready-made model.
        arguments: its arguments.
        tracker: lm-eval's writer of results; None where a caller gets them.

    Raises:
        NNDError: the model gives sums only, or there is no place for the file.
    """
    if tracker is not None and not tracker.output_path:
        raise NNDError("metadata tokens: the token scores go to a file beside the results; add --output_path FOLDER")
    if not isinstance(model, str):
        if not hasattr(model, "token_scores"):
            raise NNDError(f"metadata tokens: a ready-made {type(model).__name__} gives sums only; {_WHO}")
        model.token_scores = True
        return model, dict(arguments)
    keeping = _KEEPING.get(model, model)
    if keeping not in _KEEPING.values():
        raise NNDError(f"metadata tokens: --model {model} gives sums only; {_WHO}")
    if keeping == SHARED:
        from shared_prefix.upstream import why_vllm_is_too_old  # imports torch

        if (reason := why_vllm_is_too_old()) is not None:
            raise NNDError(f"metadata tokens: {reason}")
        import_module("shared_prefix.vllm_shared_prefix")  # registers it
    more = {} if keeping == model else {"shared_prefix": False}
    return keeping, {**arguments, **more, "token_scores": True}
