"""What a task checks before the model is loaded: its metadata, and the tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.settings import MODEL_ARGUMENTS, Settings
from nnd_tasks.wording import did_you_mean

if TYPE_CHECKING:
    from nnd_tasks.harness.lengths import TokenCounter

#: Keys of the metadata that say which model runs and how it tokenizes.
_OF_THE_MODEL = {
    *("pretrained", "model", "peft", "revision", "subfolder", "gguf_file", "base_url", "backend"),
    *("tokenizer", "tokenizer_backend", "use_fast_tokenizer"),
    *("add_bos_token", "prefix_token_id", "custom_prefix_token_id"),
    *("max_length", "max_model_len", "context_length"),
}


def check_metadata(metadata: Mapping[str, Any], model: Any, arguments: Mapping[str, Any]) -> None:
    """Compare a task's metadata with the arguments of the model that will run.

    Args:
        metadata: settings of the task and arguments of the model, as lm-eval mixes them.
        model: what ``--model`` names, or a ready-made model.
        arguments: the parsed ``--model_args``.

    Raises:
        NNDError: the metadata names another model than the one that runs, so that tokens would be counted and contexts
            shortened for the wrong one; or a key looks like a misspelled setting.
    """
    takes_all = isinstance(model, str) and model.startswith("hf")  # a model of lm-eval's that takes all of these keys
    for key in sorted(_OF_THE_MODEL & set(metadata)):
        value = metadata[key]
        if (takes_all or key in arguments) and value != arguments.get(key) and isinstance(model, str):
            raise NNDError(
                f"metadata {key}={value!r} is not what the model gets ({arguments.get(key)!r}); give it in --model_args"
            )
    for key in sorted(set(metadata) - set(Settings.names()) - MODEL_ARGUMENTS - set(arguments)):
        if meant := did_you_mean(key, Settings.names(), cutoff=0.7):
            raise NNDError(f"metadata {key!r} is not a setting of NND tasks; {meant}")


def check_tokenizer(counter: TokenCounter, settings: Settings, task: str | None, prompt: str, *, chat: bool) -> None:
    """Check that the tokenizer can do what the run needs.

    Args:
        counter: with the tokenizer of the model that will run.
        settings: of the task.
        task: its name.
        prompt: one of its prompts.
        chat: whether prompts will go through the chat template.

    Raises:
        NNDError: the tokenizer lacks a special token or the chat template, or appends a token to every text, so that a model
            would be asked for something else than the candidates.
    """
    for needed, which in ((settings.append_eos, "eos"), (settings.append_bos, "bos")):
        if needed:
            counter.special_text(which)
    check_bos(settings, task, chat=chat)
    if not chat:
        counter.lengths(prompt, " a")  # raises if the tokenizer appends a token
    elif getattr(counter.tokenizer, "chat_template", None) is None:
        raise NNDError(
            f"the tokenizer {counter.name} has no chat template; leave out --apply_chat_template, or name the "
            "tokenizer of a chat model with tokenizer=... in --model_args"
        )


def check_bos(settings: Settings, task: str | None, *, chat: bool | None) -> None:
    """Raise NNDError when the BOS token would follow a chat template."""
    if chat and settings.append_bos:
        raise NNDError(
            f"task {task} puts the BOS token between prompt and candidate, where it would follow the chat template; leave "
            "out --apply_chat_template, or take the task without _gpt2"
        )


def warn_of_rounding(counter: TokenCounter) -> str | None:
    """Warn, before the model runs, that it computes in 16 bits; return the type, None where it does not."""
    from nnd_tasks.harness.lengths import warn_once

    if counter.sixteen_bits is None:
        return None
    dtype, sums = counter.sixteen_bits
    if sums:
        warn_once(
            f"with --model hf the log-likelihoods of {counter.name} will be rounded to {dtype}, which makes ties and wrong "
            "outcomes; add softmax_dtype=float32 to --model_args"
        )
    else:
        warn_once(
            f"{counter.name} computes its logits in {dtype}: log-likelihoods are some thousandths to hundredths of a nat per "
            "token off those in float32, and a test as close may come out otherwise; dtype=float32 in --model_args is exact"
        )
    return dtype
