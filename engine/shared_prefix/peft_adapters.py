"""PEFT adapters and tied embeddings: what a run of `hf` cannot load, or scores otherwise than merged weights.

Known limits: an adapter on the hub that is not downloaded yet, a model with code of its own, and adapters of
vLLM are not looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from shared_prefix.model_error import ModelError

logger = logging.getLogger("lm_eval.shared_prefix")


def check_adapter(arguments: Mapping[str, Any]) -> None:
    """Look at what ``peft=`` changes in a model whose output layer shares its weights with the input embeddings.

    Args:
        arguments: the parsed ``--model_args`` of ``hf``.

    Raises:
        ModelError: lm-eval would not load the adapter as it was trained. It ties weights again after it loads an adapter
            (`HFLM.__init__` of 0.4.13 and 0.5): transformers 5 fails on an adapted output layer and on single rows, and
            gives saved input embeddings (``modules_to_save``) to the output layer too.
    """
    name = arguments.get("peft")
    if not name or not isinstance(arguments.get("pretrained"), str) or arguments.get("trust_remote_code"):
        return
    changed = _changed_embeddings(str(name), arguments)
    if changed - {"the input embeddings"}:
        raise ModelError(
            f"peft={name}: changes {' and '.join(sorted(changed))}, and the model ties its output layer to its input embeddings; "
            "lm-eval does not load that as it was trained. Score weights that it is merged into: model.lm_head.weight = "
            "torch.nn.Parameter(model.lm_head.weight.clone()); model.config.tie_word_embeddings = False; "
            "PeftModel.from_pretrained(model, ADAPTER).merge_and_unload().save_pretrained(FOLDER)"
        )
    if changed:
        logger.warning(
            f"peft={name} changes the input embeddings, to which the output layer is tied. As in its training, only the input "
            "changes; weights that it was merged into change at both ends and have other outcomes."
        )


def _changed_embeddings(name: str, arguments: Mapping[str, Any]) -> set[str]:
    """Name the tied embeddings that an adapter changes; nothing where they are not tied."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    try:
        from peft import PeftConfig
        from peft.tuners.tuners_utils import check_target_module_exists

        adapter = PeftConfig.from_pretrained(name)
        config = AutoConfig.from_pretrained(arguments["pretrained"], revision=arguments.get("revision", "main"))
        if not config.get_text_config().tie_word_embeddings:
            return set()
        auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        with torch.device("meta"):
            model = auto.from_config(config)
    except Exception:
        return set()  # loading the model says what is wrong
    changed = set()
    for end, layer in (
        ("the input embeddings", model.get_input_embeddings()),
        ("the output layer", model.get_output_embeddings()),
    ):
        key = next((key for key, module in model.named_modules() if module is layer), "")
        if any(f".{key}".endswith(f".{part}") for part in getattr(adapter, "modules_to_save", None) or ()):
            changed.add(f"{end} as a saved module")
        elif getattr(adapter, "target_modules", None) and check_target_module_exists(adapter, key):
            changed.add(end)
    if getattr(adapter, "trainable_token_indices", None):
        changed.add("single rows (trainable_token_indices)")
    return changed
