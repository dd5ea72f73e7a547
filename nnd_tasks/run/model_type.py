"""Which model type of lm-eval a run takes in place of the one that ``--model`` names."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from nnd_tasks.errors import NNDError, typed_reason_of

logger = logging.getLogger("lm_eval.nnd")

#: The names of lm-eval's model type and ours.
VLLM, SHARED = "vllm", "vllm-shared-prefix"


#: Models of transformers, as lm-eval and we name them.
HF = ("hf", "hf-auto", "huggingface", "hf-shared-prefix")


def with_exact_sums(model: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Add ``softmax_dtype=float32`` to the arguments of a model of transformers, unless they name a type.

    `HFLM` would sum log-probabilities in the type of its weights: in bfloat16, different texts tie.
    """
    return {**({"softmax_dtype": "float32"} if model in HF else {}), **arguments}


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
    try:
        import_module("nnd_tasks.models.upstream").vllm_class()
    except Exception as error:  # an old vLLM, or one that does not fit its torch, can raise anything
        raise NNDError(
            f"--model {model}: lm-eval cannot load vLLM {_version()} ({typed_reason_of(error)}); install one that fits, "
            "pip install -U vllm"
        ) from error
    if not shared_prefix:
        return VLLM
    if (reason := why_too_old()) is not None:
        logger.info("vllm-shared-prefix: not sharing prefixes, plain vllm instead: %s", reason)
        return VLLM
    import_module("nnd_tasks.models.vllm_shared_prefix")  # registers it
    return SHARED


def why_too_old() -> str | None:
    """Say what the installed vLLM lacks for reading its cache of prefixes; None if nothing."""
    parameters = import_module("vllm").SamplingParams
    known = getattr(parameters, "__struct_fields__", ())
    lacking = [name for name in ("prompt_logprobs", "skip_reading_prefix_cache", "detokenize") if name not in known]
    if lacking:
        return f"vLLM {_version()} is too old, it has no {lacking[0]} (0.32 is tested)"
    output = import_module("vllm").RequestOutput
    if "num_cached_tokens" not in output.__init__.__code__.co_varnames:
        return f"vLLM {_version()} is too old, it does not say how many tokens came from its cache (0.32 is tested)"
    return None


def _version() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:  # a build from source
        return "of an unknown version"


# ---------------------------------------------------------------- log-probabilities of every token

_WHO = "hf and vllm keep the log-probabilities of tokens, and files of scores may have them"
#: Model types -> ours, which can keep what each token gets. Ours also scores as the other does.
_KEEPING = {
    "hf": "hf-shared-prefix",
    "hf-auto": "hf-shared-prefix",
    "huggingface": "hf-shared-prefix",
    VLLM: SHARED,
    "nnd_file": "nnd_file",
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
        if (reason := why_too_old()) is not None:
            raise NNDError(f"metadata tokens: {reason}")
        import_module("nnd_tasks.models.vllm_shared_prefix")  # registers it
    more = {} if keeping == model else {"shared_prefix": False}
    return keeping, {**arguments, **more, "token_scores": True}
