"""Everything that the engine imports from lm-eval, the same in releases 0.4.13 and 0.5; and whether a vLLM has what it needs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM, hash_args
from lm_eval.api.registry import get_model, model_registry, register_model
from lm_eval.models.huggingface import HFLM

__all__ = [
    "HFLM",
    "LM",
    "Instance",
    "TemplateLM",
    "get_model",
    "hash_args",
    "list_models",
    "register_model",
    "register_models",
    "run_lm_eval",
    "vllm_class",
    "vllm_version",
    "why_vllm_is_too_old",
]


def register_models() -> None:
    """Tell lm-eval the entry points ``lm_eval.models`` of all installed packages, which its releases do not read themselves.

    A model is imported when a run asks for it. A name that lm-eval knows keeps its model.
    """
    for entry in entry_points(group="lm_eval.models"):
        if entry.name not in model_registry:
            model_registry.register(entry.name, target=entry.value)


def list_models() -> list[str]:
    """List the names that ``--model`` may have, see `register_models`."""
    import lm_eval.models  # noqa: F401 - registers lm-eval's

    register_models()
    return sorted(model_registry.keys())


def run_lm_eval() -> None:
    """Run the command ``lm_eval`` with the arguments of this process."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


def vllm_class() -> Any:
    """Return lm-eval's `VLLM`. A vLLM that does not fit can raise any error in this import."""
    from lm_eval.models.vllm_causallms import VLLM

    return VLLM


def vllm_version() -> str:
    """Name the release of the installed vLLM."""
    try:
        return version("vllm")
    except PackageNotFoundError:  # a build from source
        return "of an unknown version"


def why_vllm_is_too_old() -> str | None:
    """Say what the installed vLLM lacks for reading its cache of prefixes; None if nothing."""
    from vllm import RequestOutput, SamplingParams

    too_old = f"vLLM {vllm_version()} is too old, it"
    for name in ("prompt_logprobs", "skip_reading_prefix_cache", "detokenize", "flat_logprobs", "logprob_token_ids"):
        if name not in getattr(SamplingParams, "__struct_fields__", ()):
            return f"{too_old} has no {name} (0.32 is tested)"
    if "num_cached_tokens" not in RequestOutput.__init__.__code__.co_varnames:
        return f"{too_old} does not say how many tokens came from its cache (0.32 is tested)"
    return None
