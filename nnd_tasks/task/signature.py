"""The signature of a run: what its pass rates rest on, in three parts: protocol, model, environment.

Two runs may be compared if their protocols are equal. Their models are what is compared, and their environments should make
no difference. Nothing else may change a pass rate.

Known limits: how the hardware rounds (batch size, device) is not in it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import NoneType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import xxhash

from nnd_tasks import __version__
from nnd_tasks.redact import bare_urls, hide, is_secret, without_secrets
from nnd_tasks.task.settings import Settings

_PACKAGES = ("lm_eval", "torch", "transformers", "tokenizers", "datasets")
#: Arguments of ``--model ray`` that say where its engine runs; they change no number.
CLUSTER = ("workers", "address", "worker_cpus", "worker_gpus")
#: Arguments of a model that change no number, except for how the hardware rounds.
INDIFFERENT = {
    *("batch_size", "max_batch_size", "device", "n_threads", "num_concurrent", "max_retries", "timeout"),
    *("auth_token", "header", "verify_certificate", "ca_cert_path"),
}
#: Arguments of a model whose default value says nothing.
_DEFAULTS = {"revision": "main", "subfolder": "", "backend": "default", "use_fast_tokenizer": True}
#: Other names of types of numbers.
_DTYPES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
}
#: Characters that a short signature has at most.
SHORT = 99
_PROBE = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}, {"role": "user", "content": "3"}]


def digest(value: Any) -> str:
    """Return 12 hex digits that change with ``value``, which is made of mappings, sequences, text and functions."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=_source)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _source(value: Any) -> Any:
    """Return an object that JSON cannot write in another form: a function as its source."""
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return repr(value)


@dataclass(frozen=True)
class Signature:
    """What is known of a signature before the model runs.

    Attributes:
        protocol: its first part: what a run does, whatever the model.
        chat_template: digest of the chat template; None if the run uses none.
    """

    protocol: dict[str, Any]
    chat_template: str | None

    @classmethod
    def begin(
        cls,
        origin: Mapping[str, Any],
        settings: Settings,
        config: Any,
        *,
        of_reader: Mapping[str, Any],
        rendered: Sequence[str],
        chosen: Sequence[str],
        seed: int | None,
        options: Mapping[str, Any],
        tokenizer: Any,
    ) -> Signature:
        """Begin a signature.

        Args:
            origin: ``dataset``, ``config`` and ``fingerprint`` of the data.
            settings: of the task.
            config: the `TaskConfig` of lm-eval.
            of_reader: items that only the task's reader has.
            rendered: the prompt of every document of the set, exemplars included, before any chat template or shortening.
            chosen: ``cluster_id`` of each prompt that is scored.
            seed: seed of the exemplars; counts only with exemplars.
            options: of lm-eval for this run.
            tokenizer: of the model; None where it is not known.
        """
        shots, system = config.num_fewshot or 0, options.get("system_instruction")
        chat = options.get("apply_chat_template")
        items = {
            "set": origin["dataset"],  # whose tests they are
            "config": origin["config"],  # which of its variants
            "data": origin["fingerprint"],  # every text and label of the tests
            "normalization": "token",  # what `nnd_tasks.rule` divides by for ``pass_rate``
            "eos": settings.append_eos,  # whether the end-of-sequence token is scored
            "bos": settings.append_bos,  # whether the BOS token stands between prompt and candidate
            "candidate_prefix": settings.candidate_prefix,  # is scored with each candidate
            "number_lines": settings.number_lines,  # whether the lines of candidates are numbered
            "split": settings.split,  # whose sources alone are scored
            "ties": settings.ties,  # what a tie counts
            "overlong": settings.overlong,  # what happens to a context that does not fit the model's window
            "prompt": digest([rendered, config.target_delimiter, config.filter_list]),  # all that a model is given
            "shots": shots,  # number of exemplars
            "shots_seed": seed if shots else None,  # decides which ones
            "exemplars": "other contexts" if shots else None,  # what they are drawn from
            # Up to version 0.1 the line feed at the end of a chat template was scored with each text, and this item was true.
            "chat_template": "candidate tokens only" if chat else False,
            "multiturn": bool(options.get("fewshot_as_multiturn") and chat and shots),  # exemplars as turns of a chat
            "system": digest(system) if system else None,  # the system instruction
            "selection": selection(chosen, len(rendered)),  # which prompts are scored
        }
        render = options.get("chat_template") if chat else None
        return cls(
            {**_without_unset(items), **of_reader}, _chat_digest(render, getattr(tokenizer, "chat_template", None))
        )

    def complete(
        self,
        metadata: Mapping[str, Any],
        counter: Any,
        *,
        model_type: str | None,
        rounded_to: str | None,
        spans: str | None,
    ) -> dict[str, Any]:
        """Compose the signature as the results file has it: the three parts, all of them in one ``line``, and ``short``.

        Args:
            metadata: see `model_part`.
            counter: see `model_part`.
            model_type: what ``--model`` names, see `find_model_type`.
            rounded_to: the 16-bit type of the sums, or what they are rounded to otherwise.
            spans: digest of the set's error spans, for a run with span metrics. It is beside the protocol, as no pass rate
                depends on it.
        """
        protocol, packages = self.protocol, dict[str, Any](environment(model_type))
        packages |= {key: metadata[key] for key in ("workers",) if key in metadata}
        model = {
            **model_part(metadata, counter, model_type),
            "chat_template": self.chat_template,
            "rounded_to": rounded_to,
        }
        return {
            "line": line(protocol, model, packages) + (f" || spans:{spans}" if spans else ""),
            "short": short_signature(protocol, model, packages),
            "protocol": protocol,
            "protocol_digest": digest(protocol),
            **({"spans": spans} if spans else {}),
            "model": model,
            "environment": packages,
        }


def _without_unset(items: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the items that signatures of earlier versions lack, where they are not set."""
    added_later = ("number_lines", "split", "exemplars", "trained_on", "engine")
    return {key: value for key, value in items.items() if value or key not in added_later}


def selection(chosen: Iterable[str], total: int) -> str:
    """Return ``all``, or the number and a digest of the prompts that ``--limit`` or ``--samples`` selected.

    Args:
        chosen: ``cluster_id`` of each selected prompt.
        total: number of prompts in the set.
    """
    ids = sorted(chosen)
    return "all" if len(ids) == total else f"{len(ids)} of {total} ({digest(ids)})"


def _chat_digest(render: Callable[..., str] | None, template: Any) -> str | None:
    """Return a digest of a chat template's text and of some short chats rendered with it; None without a template."""
    if render is None:
        return None
    rendered = []
    for probe in (_PROBE, [{"role": "system", "content": "0"}, *_PROBE]):
        try:
            rendered.append(render(probe))
        except Exception as error:  # a template may refuse a role
            rendered.append(repr(error))
    return digest([template, rendered])


# ---------------------------------------------------------------- the model


def find_model_type() -> str | None:
    """Find what ``--model`` names: stock lm-eval tells it to no task, but `simple_evaluate` runs around it; None elsewhere."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "simple_evaluate":
        frame = frame.f_back
    named = frame and frame.f_locals.get("model")
    return named if isinstance(named, str) else None


def model_part(metadata: Mapping[str, Any], counter: Any, model_type: str | None = None) -> dict[str, Any]:
    """Return the second part of the signature: what is known of the model.

    What changes no number makes no other model: types that share beginnings have the names of lm-eval's, and ``auto`` is the
    type of the weights, where the model is one of transformers.

    Args:
        metadata: the parsed ``--model_args`` and ``--metadata``.
        counter: the `TokenCounter` of the run.
        model_type: what ``--model`` names.
    """
    kind = model_type and model_type.removesuffix("-shared-prefix")
    kind = "hf" if kind in ("hf-auto", "huggingface") else kind
    # Left out: shown elsewhere, or without effect on numbers.
    skipped = {
        "version",
        "pretrained",
        "model",
        "tokenizer",
        "config_source",
        "shared_prefix",
        "token_scores",
        "token_stats",
        "engine",
    }
    skipped |= {*Settings.model_fields, *CLUSTER, *INDIFFERENT, "dtype", "max_length"}
    name = metadata.get("pretrained") or metadata.get("model")
    stored = getattr(counter.config, "dtype", None)
    dtype = _name_dtype(metadata.get("dtype") or "auto")
    if dtype == "auto" and kind in ("hf", "nnd_mlm", "nnd_reward"):
        dtype = _name_dtype(stored or _read_dtype(name, metadata.get("revision")) or "auto")
    summed = metadata.get("softmax_dtype") or (model_type == "hf-shared-prefix" and "float32")  # which always sums so
    arguments = {**metadata, "softmax_dtype": _name_dtype(summed or dtype)}
    items = {
        "type": kind,
        "name": bare_urls(name) if isinstance(name, str) else type(name).__name__,  # folder, or name on the hub
        "weights": weights_digest(name, str(metadata.get("subfolder") or "")),  # of a local folder
        "adapter": weights_digest(metadata.get("peft")),  # of a local folder
        "commit": getattr(counter.config, "_commit_hash", None),  # of a model of the hub
        "dtype": dtype,  # that the model computes in
        "stored_dtype": None if stored is None else _name_dtype(stored),
        "backend": "server" if counter.remote else counter.backend,  # causal or seq2seq
        "window": counter.window,  # in tokens
        "tokenizer": bare_urls(counter.name),
        "tokenizer_digest": counter.tokenizer
        and tokenizer_digest(counter.tokenizer),  # vocabulary, rules and special tokens
        "trained_on": metadata.get("trained_on"),  # splits of our sets
        "arguments": {
            key: _shown(value)
            for key, value in sorted(name_server(arguments).items())
            if key.lower() not in skipped
            and not is_secret(key)
            and value != {**_DEFAULTS, "softmax_dtype": dtype}.get(key)
        },
    }
    return _without_unset(items)


def _name_dtype(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return _DTYPES.get(name, name)


def _read_dtype(name: Any, revision: Any) -> str | None:
    """Read the type of a model's weights, which transformers takes where its configuration names none; None if not known."""
    from safetensors import SafetensorError, safe_open
    from transformers.utils import cached_file

    try:
        file = cached_file(name, "model.safetensors", revision=str(revision or "main"), local_files_only=True)
        with safe_open(file, "numpy") as weights:
            types = [weights.get_slice(key).get_dtype() for key in weights.keys()]  # noqa: SIM118 - no mapping
    except (OSError, TypeError, ValueError, SafetensorError):
        return None
    return next((dtype for dtype in types if dtype in _DTYPES), None)


def name_server(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put the name that the user gives a server, ``server``, in the place of its address: one that moved is the same."""
    named = {"base_url": arguments["server"]} if "server" in arguments else {}
    return {key: value for key, value in {**arguments, **named}.items() if key != "server"}


def _shown(value: Any) -> Any:
    """Return an argument in a form that can be compared and shown; a local file or folder gets a digest of its content."""
    if isinstance(value, str):
        if content := weights_digest(value):
            return f"{value} ({content})"
        # The query of a URL may choose the model, and may hold secrets: its digest is shown, not its text.
        try:
            parts = urlsplit(value)
            query = [pair for pair in parse_qsl(parts.query) if parts.scheme and not is_secret(pair[0])]
        except ValueError:
            query = []  # no URL
        return f"{hide(value)} (query {digest(query)})" if query else hide(value)
    value = without_secrets(value, None)
    if isinstance(value, (int, float, NoneType)):
        return value
    return digest(value if isinstance(value, (dict, list)) else type(value).__qualname__)


def tokenizer_digest(tokenizer: Any) -> str:
    """Return a digest of a tokenizer's vocabulary, rules and special tokens, without how it pads: lm-eval sets that itself."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    rules = {"vocabulary": tokenizer.get_vocab()} if inner is None else json.loads(inner.to_str())
    rules |= {"padding": None, "truncation": None}
    special_tokens = {name: str(text) for name, text in tokenizer.special_tokens_map.items() if name != "pad_token"}
    return digest([rules, special_tokens])


def weights_digest(name: Any, subfolder: str = "") -> str | None:
    """Return a digest of the weights and configuration in a local folder; None for what is no path.

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
    """Return a digest of all bytes of a file; ``size`` and ``changed`` (nanoseconds) distinguish its versions."""
    hashed = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def model_files(name: Any, subfolder: str = "") -> list[Path]:
    """Return the files of a local model that decide its scores: weights, adapters, configurations and templates."""
    kinds = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".json", ".model", ".txt", ".py", ".jinja"}
    try:
        path_given = Path(name).expanduser()
        if path_given.is_file():
            return [path_given]
        files = [
            path for folder in {path_given, path_given / subfolder} if folder.is_dir() for path in folder.iterdir()
        ]
        return sorted(path for path in files if path.is_file() and path.suffix in kinds)
    except (OSError, RuntimeError, TypeError, ValueError):  # it is not a path
        return []


# ---------------------------------------------------------------- the whole


@cache
def environment(model_type: str | None) -> tuple[tuple[str, str], ...]:
    """Return the third part of the signature: (package, version) of all that computes the numbers of a type of models."""
    versions = [("nnd_tasks", __version__)]
    engine = {"vllm": ("vllm",), "llamacpp": ("llama_cpp_python",)}
    for package in (*_PACKAGES, *engine.get(str(model_type).removesuffix("-shared-prefix"), ())):
        try:
            versions.append((package, version(package)))
        except PackageNotFoundError:
            versions.append((package, "?"))
    return (*versions, ("python", platform.python_version()))


def line(protocol: Mapping[str, Any], model: Mapping[str, Any], packages: Mapping[str, Any]) -> str:
    """Return a signature as one line of text: ``key:value`` items joined by ``|``, the three parts by ``||``.

    Items of the model that are not known are left out.
    """
    known_items = {key: value for key, value in model.items() if value is not None and key != "arguments"}
    known_items["arguments"] = digest(model["arguments"])
    return " || ".join(
        "|".join(f"{key}:{_text(value)}" for key, value in section.items())
        for section in (protocol, known_items, packages)
    )


def short_signature(protocol: Mapping[str, Any], model: Mapping[str, Any], packages: Mapping[str, str]) -> str:
    """Return a signature for print, of at most `SHORT` characters: ``nnd:0.2.0|demo/authors:1b4e28ba2fa1|gpt2:5f0c8b3a``.

    After the set and its config stands the digest of the protocol, ``protocol_digest`` of the results; after the model's name
    that of its part of the signature. Of names that are paths the last part is shown. Weights in a local folder count by their
    digest, wherever the folder lies.
    """
    placed = {"name", "tokenizer"} if model.get("weights") else set()
    model_items = {key: value for key, value in model.items() if key not in placed}
    names = [protocol.get("set"), protocol.get("config"), model.get("name")]
    digests = [digest(protocol), digest(model_items)[:8]]
    nnd = str(packages.get("nnd_tasks", "?"))[:20]
    length = (SHORT - len(f"nnd:{nnd}|/:{digests[0]}|:{digests[1]}")) // len(names)
    last_parts = [re.split(r"[/\\]", str(name or "?").rstrip("/\\"))[-1] for name in names]
    data, config, model_name = (_text(name_part)[:length] for name_part in last_parts)
    return f"nnd:{nnd}|{data}/{config}:{digests[0]}|{model_name}:{digests[1]}"


def write_value(value: Any) -> str:
    """Write a part of the protocol for people: ``yes``, ``no`` (also for None and ``""``), or the value itself."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "no" if value is None or value == "" else str(value)


def _text(value: Any) -> str:
    return " ".join(write_value(value).split()).replace("|", "/")
