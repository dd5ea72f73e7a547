"""``--use_cache`` with a file for each model.

lm-eval keys an answer by the text of its request alone, so that a second model silently gets the scores of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.task.signature import digest, engine_packages, environment, model_files

#: Arguments that do not change what a model answers, except for how the hardware rounds.
_INDIFFERENT = {
    "batch_size",
    "max_batch_size",
    "device",
    "num_concurrent",
    "max_retries",
    "timeout",
    "auth_token",
    "header",
    "verify_certificate",
    "ca_cert_path",
}
#: Arguments that name a model, an adapter or a tokenizer.
_NAMES = ("pretrained", "model", "peft", "delta", "tokenizer")


def cache_key(model: Any, arguments: Mapping[str, Any], *, chat: bool = False) -> str:
    """Return 12 hex digits that change with anything that can change what a model answers.

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
    given = {key: value for key, value in arguments.items() if key not in _INDIFFERENT}
    for key, value in given.items():
        if not isinstance(value, (str, int, float, bool, list, tuple, dict, type(None))):
            raise NNDError(f"use_cache: model argument {key} is a Python object, by which answers cannot be keyed")
    return digest(
        {
            "model": model,
            "given": given,  # "arguments" in files of an earlier format
            **({"scored": "candidate tokens only"} if chat else {}),
            **({"answers": "checked"} if "base_url" in given else {}),
            "files": {key: _state(value, given) for key, value in given.items() if isinstance(value, str)},
            "commits": {name: _commit(given[name], given) for name in _NAMES if isinstance(given.get(name), str)},
            "packages": [
                item
                for item in environment(*engine_packages(model))
                if item[0] in ("lm_eval", "torch", "transformers", "tokenizers", "vllm")
            ],
        }
    )


def _state(name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """Return name, size and time of each file of a local model, which change when the model is trained further."""
    files = model_files(name, str(arguments.get("subfolder") or ""))
    return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def _commit(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the commit of a model, adapter or tokenizer on the hub; None if it is local, or the commit is not known."""
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
