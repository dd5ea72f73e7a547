"""The signature of a run: everything that can change its numbers, in three parts: protocol, model, environment.

Two runs may be compared if their protocols are equal. Their models are what is compared, and their environments should make
no difference. Nothing else may change a pass rate, except for how the hardware rounds (batch size, device).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import xxhash

from nnd_tasks import __version__
from nnd_tasks.secrets import bare_urls, hide, is_secret, open_query, without_secrets

_PACKAGES = ("lm_eval", "torch", "transformers", "tokenizers", "datasets")
_PROBE = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}, {"role": "user", "content": "3"}]


def digest(value: Any) -> str:
    """Return 12 hex digits that change with ``value``, which is made of mappings, sequences, text and functions."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=_source)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _source(value: Any) -> Any:
    """Return an object that JSON cannot write in another form: a dataclass as its fields, a function as its source."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return repr(value)


@dataclass
class RunRecord:
    """What is known of a run, for the results file.

    Attributes:
        protocol: see `protocol_part`; set by `NNDTask.build_all_requests`.
        chat_template: digest of the model's chat template, if the run uses it; set by `NNDTask.build_all_requests`.
        rounded_to: the 16-bit type that logits or sums were rounded to, if any; set by `NNDTask.apply_filters`.
        sizes: ``categories`` and ``severities`` -> the tests and prompts of each; set by `NNDTask.aggregation`.
    """

    protocol: dict[str, Any] = field(default_factory=dict)
    chat_template: str | None = None
    rounded_to: str | None = None
    sizes: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)


def protocol_part(
    origin: Mapping[str, Any],
    settings: Any,
    config: Any,
    *,
    rendered: Sequence[str],
    seed: int | None,
    selected: str,
    system_instruction: str | None,
    apply_chat_template: bool | None,
    fewshot_as_multiturn: bool | None,
) -> dict[str, Any]:
    """Return the first part of the signature: what a run does, whatever the model.

    Args:
        origin: ``dataset``, ``config`` and ``fingerprint`` of the data.
        settings: the `Settings` of the task.
        config: the `TaskConfig` of lm-eval.
        rendered: the prompt of every document, exemplars included, before any chat template or shortening.
        seed: seed of the exemplars; None without any.
        selected: see `selection`.
        system_instruction: text of ``--system_instruction``.
        apply_chat_template: whether prompts go through the model's chat template. The template is part of the model.
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
        **({"number_lines": True} if settings.number_lines else {}),
        "ties": settings.ties,
        "overlong": settings.overlong,
        "prompt": digest([rendered, config.target_delimiter, config.filter_list]),
        "shots": shots,
        "shots_seed": seed,
        # What exemplars are drawn from. Runs without exemplars have no such item, nor have those of earlier versions.
        **({"exemplars": "other contexts"} if shots else {}),
        "chat_template": bool(apply_chat_template),
        "multiturn": bool(fewshot_as_multiturn and apply_chat_template and shots),
        "system": digest(system_instruction) if system_instruction else None,
        "selection": selected,
    }


def selection(chosen: Iterable[str], total: int) -> str:
    """Return ``all``, or the number and a digest of the prompts that ``--limit`` or ``--samples`` selected.

    Args:
        chosen: ``cluster_id`` of each selected prompt.
        total: number of prompts in the set.
    """
    ids = sorted(chosen)
    return "all" if len(ids) == total else f"{len(ids)} of {total} ({digest(ids)})"


def chat_digest(render: Callable[..., str] | None, template: Any) -> str | None:
    """Return a digest of a chat template's text and of some short chats rendered with it; None without a template."""
    if render is None:
        return None
    shown = []
    for probe in (_PROBE, [{"role": "system", "content": "0"}, *_PROBE]):
        try:
            shown.append(render(probe))
        except Exception as error:  # a template may refuse a role
            shown.append(repr(error))
    return digest([template, shown])


# ---------------------------------------------------------------- the model


def model_part(metadata: Mapping[str, Any], settings: Iterable[str], counter: Any) -> dict[str, Any]:
    """Return the second part of the signature: what is known of the model.

    Args:
        metadata: the parsed ``--model_args`` and ``--metadata``.
        settings: keys of the metadata that are settings of the task, not of the model.
        counter: the `TokenCounter` of the run.
    """
    # config_source, the path of the YAML, comes from lm-eval; the content of the YAML is in the protocol.
    # The last two change how the same numbers are computed and what is kept of them.
    skipped = {
        *settings,
        "version",
        "pretrained",
        "model",
        "tokenizer",
        "config_source",
        "shared_prefix",
        "token_scores",
    }
    arguments = {
        key: _shown(value)
        for key, value in sorted(metadata.items())
        if key.lower() not in skipped and not is_secret(key)
    }
    subfolder = str(metadata.get("subfolder") or "")
    name = metadata.get("pretrained") or metadata.get("model")
    return {
        "name": bare_urls(name) if isinstance(name, str) else type(name).__name__,
        "weights": weights_digest(name, subfolder) if isinstance(name, str) else None,
        "adapter": weights_digest(metadata["peft"]) if isinstance(metadata.get("peft"), str) else None,
        "commit": counter.commit,
        "dtype": str(metadata.get("dtype") or "auto"),
        "stored_dtype": _short(getattr(counter.model_config, "dtype", None)),
        "backend": "server" if counter.remote else counter.backend,
        "window": counter.window,
        "tokenizer": bare_urls(counter.name),
        "tokenizer_digest": tokenizer_digest(counter.tokenizer),
        "arguments": arguments,
    }


def _shown(value: Any) -> Any:
    """Return an argument in a form that can be compared and shown; a local file or folder gets a digest of its content."""
    if isinstance(value, str):
        if content := weights_digest(value):
            return f"{value} ({content})"
        # The query of a URL may choose the model, and may hold secrets: its digest is shown, not its text.
        asked = open_query(value)
        return f"{hide(value)} (query {digest(asked)})" if asked else hide(value)
    value = without_secrets(value, None)
    return value if isinstance(value, (str, int, float, bool, type(None))) else digest(_plain(value))


def _plain(value: Any) -> Any:
    return value if isinstance(value, (Mapping, list, tuple)) else type(value).__qualname__


def _short(dtype: Any) -> str | None:
    return None if dtype is None else str(dtype).removeprefix("torch.")


def tokenizer_digest(tokenizer: Any) -> str:
    """Return a digest of a tokenizer's vocabulary, rules and special tokens."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    rules = inner.to_str() if inner is not None else json.dumps(sorted(tokenizer.get_vocab().items()))
    return digest([rules, {name: str(text) for name, text in tokenizer.special_tokens_map.items()}])


def weights_digest(name: str, subfolder: str = "") -> str | None:
    """Return a digest of the weights and configuration in a local folder; None for a name on the hub.

    Every byte counts. A file is read once in a process, and again only when its size or time has changed: about 0.2 s of a
    core for 500 MB, besides reading the disk.

    Args:
        name: a folder, a file or a name on the hub.
        subfolder: a folder below it whose files are hashed too.
    """
    files = model_files(name, subfolder)
    if not files:
        return None
    states = [(path, path.stat()) for path in files]
    return digest([[path.name, _content_digest(path, state.st_size, state.st_mtime_ns)] for path, state in states])


@cache
def _content_digest(path: Path, size: int, changed: int) -> str:
    """Return a digest of all bytes of a file; ``size`` and ``changed`` (nanoseconds) tell its versions apart."""
    hashed = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def model_files(name: str, subfolder: str = "") -> list[Path]:
    """Return the files of a local model that decide its scores: weights, adapters, configurations and templates."""
    kinds = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".json", ".model", ".txt", ".py", ".jinja"}
    try:
        place = Path(name).expanduser()
        if place.is_file():
            return [place]
        folders = [folder for folder in {place, place / subfolder} if folder.is_dir()]
        return sorted(
            path for folder in folders for path in folder.iterdir() if path.is_file() and path.suffix in kinds
        )
    except (OSError, RuntimeError, ValueError):  # the text is not a path
        return []


# ---------------------------------------------------------------- the whole


def engine_packages(model_type: Any) -> tuple[str, ...]:
    """Return the packages, besides those of every run, that compute the numbers of a type of models."""
    return ("vllm",) if model_type in ("vllm", "vllm-shared-prefix") else ()


@cache
def environment(*more: str) -> tuple[tuple[str, str], ...]:
    """Return the third part of the signature: (package, version) of each package that computes the numbers, and of ``more``."""
    versions = [("nnd_tasks", __version__)]
    for package in (*_PACKAGES, *more):
        try:
            versions.append((package, version(package)))
        except PackageNotFoundError:
            versions.append((package, "?"))
    return (*versions, ("python", platform.python_version()))


def whole_signature(protocol: Mapping[str, Any], model: Mapping[str, Any], spans: str | None) -> dict[str, Any]:
    """Return the signature of a run as the results file has it: the three parts, and all of them in one ``line``.

    Args:
        protocol: see `protocol_part`.
        model: see `model_part`.
        spans: digest of the set's error spans, for a run with span metrics. It is beside the protocol, as no pass rate
            depends on it.
    """
    packages = dict(environment(*engine_packages(model.get("type"))))
    return {
        "line": line(protocol, model, packages) + (f" || spans:{spans}" if spans else ""),
        "protocol": protocol,
        "protocol_digest": digest(protocol),
        **({"spans": spans} if spans else {}),
        "model": model,
        "environment": packages,
    }


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
