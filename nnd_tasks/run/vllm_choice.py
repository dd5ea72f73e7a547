"""Which model type ``--model vllm`` becomes: `vllm-shared-prefix` where the installed vLLM allows it."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from nnd_tasks.errors import NNDError, typed_reason_of

logger = logging.getLogger("lm_eval.nnd")

#: The names of lm-eval's model type and ours.
VLLM, SHARED = "vllm", "vllm-shared-prefix"


def choose(model: Any, *, shared_prefix: bool) -> Any:
    """Return the model type to take in place of ``model``: another one if that names vLLM, else ``model`` itself.

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
    """Return what the installed vLLM lacks for reading its cache of prefixes; None if nothing."""
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
