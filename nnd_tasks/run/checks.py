"""Checks of a run before its model is loaded, in the order in which `nnd_tasks.run.run` makes them.

`read_pairs`, `take_options` and `check_request` need neither torch nor lm-eval's evaluator.
"""

from __future__ import annotations

import ast
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import regex  # type: ignore[import-untyped]

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import expand, parse_json
from nnd_tasks.packages import load_optional
from nnd_tasks.redact import keep_secret
from nnd_tasks.run.adapter import LM, model_parameters, model_types
from nnd_tasks.task.settings import is_chat_api
from nnd_tasks.task.signature import CLUSTER
from nnd_tasks.text import counted, did_you_mean
from shared_prefix.peft_adapters import check_adapter

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
                alone = option == "--model_args" and not items
                hint = f"; did you mean pretrained={match[0]}?" if alone else ""
                raise NNDError(f"{option} {text}: {match[0]!r} is no NAME=VALUE{hint}")
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


def prepare_model(model: Any, model_args: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Read, check and complete the arguments of a model.

    Args:
        model: a name that lm-eval knows, or a ready-made model.
        model_args: its arguments, as for ``--model_args``.
        options: of lm-eval's `simple_evaluate`; gets the device and the batch size.

    Raises:
        NNDError: an argument cannot be read, or `check_request` finds a mistake.
    """
    arguments = read_pairs(model_args, "--model_args")
    take_options(arguments, options)
    engine, of_engine, _ = split_cluster(model, arguments)
    check_request(engine, of_engine)
    if engine in (*ON_TORCH, VLLM, SHARED):
        check_torch(arguments, options.get("device"))
    keep_secret(arguments)
    if engine in HF:
        # Lm-eval would sum in the type of the weights: in bfloat16, different texts tie.
        arguments = {"softmax_dtype": "float32", **arguments}
    if (name := arguments.get("pretrained")) == "smollm2":
        arguments["pretrained"] = load_optional("nnd_tasks.page.smollm2:resolve_model", f"pretrained={name}")(name)
    for name, default in (("device", "cuda:0"), ("batch_size", 1)):  # those of lm-eval's command line
        if isinstance(model, str) and options.get(name) is None:
            options[name] = default
    return arguments


def check_request(engine: Any, arguments: Mapping[str, Any]) -> None:
    """Check which model is asked for.

    Args:
        engine: what ``--model`` names, or a ready-made model; see `split_cluster`.
        arguments: its arguments.

    Raises:
        NNDError: there is no such type of model, or a folder is not there.
    """
    if not isinstance(engine, (str, LM)):
        raise NNDError(
            f"{type(engine).__name__} is not a model of lm-eval; for a model of transformers pass model='hf', "
            "model_args={'pretrained': MODEL, 'tokenizer': TOKENIZER}"
        )
    for key in ("pretrained", "model", "tokenizer", "peft", "delta"):
        name = arguments.get(key)  # of another form, it is a name on the hub
        if isinstance(name, str) and name.startswith(("/", "./", "../", "~")) and not expand(name).exists():
            raise NNDError(f"{name}: there is no such model or tokenizer folder")
    if isinstance(engine, LM):
        return
    if engine not in (known := model_types()):
        hint = did_you_mean(engine, known) or f"there are: {', '.join(known)}"
        raise NNDError(f"--model {engine}: lm-eval has no such model type; {hint}")
    missing = [name for name in ("aiohttp", "requests", "tenacity") if find_spec(name) is None]
    if missing and ("completions" in engine or is_chat_api(engine)):
        raise NNDError(f"--model {engine}: needs {' and '.join(missing)}; pip install 'lm-eval[api]'")
    if engine in (*ON_TORCH, "llamacpp") and arguments.get("pretrained", "") == "":
        for key in arguments:
            _check_spelling(key, ["pretrained"])
        raise NNDError(f"--model {engine}: --model_args has no pretrained=NAME_OR_FOLDER; add it")
    if engine in ("hf", SHARED):
        check_adapter(arguments)


def _check_spelling(key: str, known: Iterable[str]) -> None:
    """Raise NNDError for an argument that the model does not name and that is like one that it does."""
    if key not in known and (hint := did_you_mean(key, known, cutoff=0.85)):
        raise NNDError(f"--model_args {key}: there is no such argument; {hint}")


def check_types(arguments: Mapping[str, Any], model: Any) -> dict[str, str]:
    """Check the arguments of a model against its parameters, which are returned with their annotations.

    Raises:
        NNDError: an argument is misspelt, or a text where the model wants a number or a truth value: in Python every text is
            true, "false" too.
    """
    parameters: dict[str, str] = {}
    if isinstance(model, str):
        with suppress(ImportError):  # lm-eval will say what is not installed
            parameters = model_parameters(model)
    for key, value in arguments.items():
        _check_spelling(key, parameters)
        types = {*re.findall(r"\b(?:bool|int|float|str|dict|list|Literal)\b", parameters.get(key, ""))}
        if isinstance(value, str) and (types == {"bool"} or types == {"int"}):
            expected = "true or false" if types == {"bool"} else "a whole number"
            raise NNDError(f"--model_args {key}={value!r}: expected {expected}, without quotes")
    return parameters


# ---------------------------------------------------------------- the model and the tasks


def check_chat_api(model: str, scoring: Sequence[Any], *, chat: bool) -> None:
    """Check that a chat API is asked for what it gives.

    Args:
        model: what ``--model`` names, a client of a chat API.
        scoring: the tasks that need likelihoods.
        chat: whether prompts are sent as chats.

    Raises:
        NNDError: a task needs likelihoods, or prompts are no chats.
    """
    for task in scoring:
        raise NNDError(
            f"--model {model}: chat APIs give no likelihoods of a given text, which {task.config.task} needs; take a task in "
            "which the model writes its verdict (nnd_SET_judge, nnd_SET_rating), --model local-completions with a server's "
            "completions endpoint, or load the model with --model hf"
        )
    if not chat:
        raise NNDError(f"--model {model}: a chat API takes chats and no plain text; add --apply_chat_template")


def check_torch(arguments: Mapping[str, Any], device: Any) -> None:
    """Raise NNDError for a type of numbers that torch does not know, and for a device that is not there.

    Upstream: `HFLM` (lm_eval/models/huggingface.py) takes another device without a word, but for ``cuda``. Its default,
    ``cuda:0``, stands for the CPU where there is no GPU.
    """
    import torch

    types = {"auto", *(name for name, value in vars(torch).items() if isinstance(value, torch.dtype))}
    for key in ("dtype", "softmax_dtype", "mixed_precision_dtype"):
        dtype = arguments.get(key)
        if isinstance(dtype, (str, int, float)) and str(dtype) not in types:  # lm-eval reads dtype=16 as a number
            hint = did_you_mean(str(dtype).removeprefix("torch."), types, at_most=2) or "such as float32 or bfloat16"
            raise NNDError(f"{key}={dtype}: no such type of numbers; {hint}")
    if not isinstance(device, str) or device == "cuda:0":
        return
    try:
        named = torch.device(device)
    except RuntimeError as error:
        raise NNDError(f"--device {device}: there is no such kind of device; take cpu or cuda") from error
    count = torch.cuda.device_count()
    if named.type == "cuda" and (named.index or 0) >= count:
        raise NNDError(f"--device {device}: torch sees {counted(count, 'GPU')} here; take cpu or another one")


def check_processes(model: Any, arguments: Mapping[str, Any], *, tokens: bool) -> None:
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


def check_metadata(
    metadata: Mapping[str, Any], model: Any, arguments: Mapping[str, Any], parameters: Mapping[str, str]
) -> None:
    """Check that tokens are counted, and contexts shortened, for the model that runs.

    Args:
        metadata: settings of a task and arguments of the model, as lm-eval mixes them.
        model: the type of the model, or a ready-made model.
        arguments: of the model.
        parameters: of its type, see `check_types`.

    Raises:
        NNDError: the metadata says otherwise than the arguments.
    """
    for key in sorted(metadata.keys() & parameters):
        if (model in HF or key in arguments) and metadata[key] != arguments.get(key):
            raise NNDError(
                f"metadata {key}={metadata[key]!r} is not what the model gets ({arguments.get(key)!r}); give it in --model_args"
            )
    if arguments.get("token_stats") and model != "hf-shared-prefix":
        raise NNDError("token_stats: only --model hf gives ranks and entropies of tokens, unless shared_prefix is off")


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


def choose_model_type(
    model: Any, arguments: Mapping[str, Any], *, shared_prefix: bool, tokens: bool
) -> tuple[Any, dict[str, Any]]:
    """Choose the model type that runs in place of the one that is named, and its arguments.

    Args:
        model: what ``--model`` names, or a ready-made model.
        arguments: its arguments.
        shared_prefix: read common beginnings of requests once, where that gives the same numbers.
        tokens: keep the log-probability of every token.

    Raises:
        NNDError: the model gives sums only, or vLLM is not installed or cannot be loaded.
    """
    sums_only = "gives sums only; hf, vllm and llamacpp keep the log-probabilities of tokens"
    if not isinstance(model, str):
        if tokens and not hasattr(model, "token_scores"):
            raise NNDError(f"metadata tokens: a ready-made {type(model).__name__} {sums_only}")
        if tokens:
            model.token_scores = True
        return model, dict(arguments)
    if model in (VLLM, SHARED):
        reason = _find_why_vllm_shares_nothing(model)
        if reason is not None and tokens:
            raise NNDError(f"metadata tokens: {reason}")
        if reason is not None and shared_prefix:
            logger.info("vllm-shared-prefix: not sharing prefixes, plain vllm instead: %s", reason)
        model = SHARED if reason is None and (shared_prefix or tokens) else VLLM
    elif model in HF and (tokens or (shared_prefix and model == "hf")):
        model = "hf-shared-prefix"
    shares = model in ("hf-shared-prefix", SHARED, "llamacpp")
    if tokens and not shares:
        raise NNDError(f"metadata tokens: --model {model} {sums_only}")
    plain = {"shared_prefix": False} if shares and not shared_prefix else {}
    kept = {"token_scores": True} if tokens else {}
    return model, {**plain, **arguments, **kept}


def _find_why_vllm_shares_nothing(model: str) -> str | None:
    """Say why vLLM is too old to read common beginnings once; None where it can.

    Raises:
        NNDError: vLLM is not installed, or lm-eval cannot load it.
    """
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
    reason = upstream.why_vllm_is_too_old()
    if reason is None:
        import_module("shared_prefix.vllm_shared_prefix")  # registers it
    return reason
