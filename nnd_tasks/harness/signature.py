"""What a number rests on, in three parts: protocol, model, environment.

Two runs may be compared when their protocols are equal. The model is what a comparison is about, the environment should
not matter. What is in none of the three must not change a pass rate, but for the rounding of the hardware (batch size,
device).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nnd_tasks import __version__

#: Fields of a task's configuration that decide what a model is shown.
PROMPT_FIELDS = ("doc_to_text", "target_delimiter", "description", "gen_prefix", "filter_list")
#: Further ones, which matter only with exemplars.
FEWSHOT_FIELDS = ("fewshot_delimiter", "fewshot_config", "fewshot_split")

_PACKAGES = ("lm_eval", "torch", "transformers", "tokenizers", "datasets")
#: Model arguments that must not be written anywhere.
_SECRET = {"token", "auth_token", "hf_token", "use_auth_token", "api_key", "header", "headers", "password", "secret"}
_PROBE = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}, {"role": "user", "content": "3"}]

_WHOLE = 1 << 24  # bytes up to which a file is hashed as a whole
_BLOCK = 1 << 16
_BLOCKS = 64


def digest(value: Any) -> str:
    """Return 12 hex digits that change with ``value``, anything made of mappings, sequences, text and functions."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=_source)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _source(value: Any) -> str:
    """Return the source of a function or class; a template may be one."""
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def prompt_digest(config: Any, shots: int) -> str:
    """Return a digest of all that a task's configuration says about prompts.

    Args:
        config: the `TaskConfig` of lm-eval.
        shots: number of exemplars.
    """
    names = (*PROMPT_FIELDS, *(FEWSHOT_FIELDS if shots else ()))
    return digest({name: getattr(config, name, None) for name in names})


def protocol_part(
    origin: Mapping[str, Any],
    settings: Any,
    config: Any,
    *,
    seed: int | None,
    selected: str,
    system_instruction: str | None,
    apply_chat_template: bool | None,
    fewshot_as_multiturn: bool | None,
) -> dict[str, Any]:
    """Return what a run is asked to do, whatever the model.

    Args:
        origin: ``dataset``, ``config`` and ``fingerprint`` of the data.
        settings: the `Settings` of the task.
        config: the `TaskConfig` of lm-eval.
        seed: of the exemplars; None without any.
        selected: see `selection`.
        system_instruction: text of ``--system_instruction``.
        apply_chat_template: whether prompts go through the model's chat template; which that is belongs to the model.
        fewshot_as_multiturn: whether exemplars are turns of a conversation.
    """
    shots = config.num_fewshot or 0
    return {
        "set": origin["dataset"],
        "config": origin["config"],
        "data": origin["fingerprint"],
        "normalization": "token",
        "eos": settings.append_eos,
        "bos": settings.append_bos,
        "candidate_prefix": settings.candidate_prefix,
        "ties": settings.ties,
        "overlong": settings.overlong,
        "prompt": prompt_digest(config, shots),
        "shots": shots,
        "shots_seed": seed,
        "chat_template": bool(apply_chat_template),
        "multiturn": bool(fewshot_as_multiturn and apply_chat_template and shots),
        "system": digest(system_instruction) if system_instruction else None,
        "selection": selected,
    }


def selection(chosen: Iterable[str], total: int) -> str:
    """Return ``all``, or number and digest of the clusters that ``--limit`` or ``--samples`` selected."""
    ids = sorted(chosen)
    return "all" if len(ids) == total else f"{len(ids)} of {total} ({digest(ids)})"


def chat_digest(render: Callable[..., str] | None) -> str | None:
    """Return a digest of what a chat template makes of a short exchange; None without a template."""
    if render is None:
        return None
    try:
        return digest(render(_PROBE))
    except Exception:  # a template may refuse any exchange; then its prompts fail as well
        return "unknown"


# ---------------------------------------------------------------- the model


def model_part(metadata: Mapping[str, Any], settings: Iterable[str], counter: Any) -> dict[str, Any]:
    """Return what is known of the model.

    Args:
        metadata: the parsed ``--model_args`` and ``--metadata``.
        settings: keys of it that are settings of the task, not of the model.
        counter: the `TokenCounter` of the run.
    """
    # lm-eval adds the path of the YAML; what it says is in the protocol.
    skipped = {*settings, *_SECRET, "version", "pretrained", "model", "tokenizer", "config_source"}
    arguments = {
        key: value if isinstance(value, (str, int, float, bool, type(None))) else digest(_plain(value))
        for key, value in sorted(metadata.items())
        if key.lower() not in skipped
    }
    name = metadata.get("pretrained") or metadata.get("model")
    return {
        "name": name if isinstance(name, str) else type(name).__name__,
        "weights": weights_digest(name) if isinstance(name, str) else None,
        "adapter": weights_digest(metadata["peft"]) if isinstance(metadata.get("peft"), str) else None,
        "commit": counter.commit,
        "dtype": str(metadata.get("dtype") or "auto"),
        "stored_dtype": _short(getattr(counter.model_config, "dtype", None)),
        "backend": "server" if counter.remote else counter.backend,
        "window": counter.window,
        "tokenizer": counter.name,
        "tokenizer_digest": tokenizer_digest(counter.tokenizer),
        "arguments": arguments,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (Mapping, list, tuple)) else type(value).__qualname__


def _short(dtype: Any) -> str | None:
    return None if dtype is None else str(dtype).removeprefix("torch.")


def tokenizer_digest(tokenizer: Any) -> str:
    """Return a digest of a tokenizer's vocabulary, rules and special tokens."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    rules = inner.to_str() if inner is not None else json.dumps(sorted(tokenizer.get_vocab().items()))
    return digest([rules, {name: str(text) for name, text in tokenizer.special_tokens_map.items()}])


def weights_digest(name: str) -> str | None:
    """Return a digest of the weights and configuration in a local folder; None for a name on the hub.

    Files above 16 MiB are sampled: 64 blocks of 64 KiB, evenly spread, with the size.
    """
    folder = Path(name)
    if not folder.is_dir():
        return None
    hashed = hashlib.sha256()
    for path in model_files(folder):
        hashed.update(f"{path.name}:{path.stat().st_size}:".encode())
        with path.open("rb") as file:
            size = path.stat().st_size
            if size <= _WHOLE:
                hashed.update(file.read())
            else:
                for i in range(_BLOCKS):
                    file.seek(i * (size - _BLOCK) // (_BLOCKS - 1))
                    hashed.update(file.read(_BLOCK))
    return hashed.hexdigest()[:12]


def model_files(folder: Path) -> list[Path]:
    """Return the files of a local model that decide its scores: weights, adapters and configurations."""
    kinds = {".safetensors", ".bin", ".pt", ".gguf", ".json", ".model", ".txt", ".py"}
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in kinds)


# ---------------------------------------------------------------- the whole


@lru_cache(maxsize=1)
def environment() -> tuple[tuple[str, str], ...]:
    """Return (package, version) of what the numbers were computed with."""
    found = [("nnd_tasks", __version__)]
    for package in _PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            found.append((package, "?"))
    return (*found, ("python", platform.python_version()))


def line(protocol: Mapping[str, Any], model: Mapping[str, Any], packages: Mapping[str, str]) -> str:
    """Return a signature as one line of text: ``key:value`` items joined by ``|``, the three parts by ``||``.

    Items of the model that are not known are left out.
    """
    shown = {key: value for key, value in model.items() if value is not None and key != "arguments"}
    shown["arguments"] = digest(model["arguments"])
    return " || ".join(
        "|".join(f"{key}:{_text(value)}" for key, value in part.items()) for part in (protocol, shown, packages)
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "no" if value is None or value == "" else " ".join(str(value).split()).replace("|", "/")
