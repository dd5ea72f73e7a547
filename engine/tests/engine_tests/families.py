"""Tiny models of every type that may share prefixes; ``families.yaml`` has their configs."""

from pathlib import Path

import torch
import yaml
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

_FAMILIES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
VOCABULARY = _FAMILIES["parts"]["size"]["vocab_size"]
#: Most tokens that the models read: more than what recurrent layers read at once.
LENGTH = _FAMILIES["parts"]["size"]["max_position_embeddings"]
#: Windows and chunks, shorter than most of the tests' requests.
WINDOW = _FAMILIES["parts"]["kinds"]["sliding_window"]
#: Name -> (settings, what `describe_layers` says of it). The first word of a name is the type.
TINY = {
    name: (settings, layout) for layout, configs in _FAMILIES["configs"].items() for name, settings in configs.items()
}
#: Name -> settings of those that take the plain path.
PLAIN = _FAMILIES["plain"]
#: Type, what its config has besides, and why it cannot share.
UNSUITABLE = _FAMILIES["unsuitable"]
#: Types that few people run.
RARE = set(_FAMILIES["rare"])


def tiny(name):
    """Return a model of random weights that are large enough to show a wrong mask or a lost state."""
    settings, layout = TINY[name] if name in TINY else ({**TINY["llama"][0], **PLAIN[name]}, "")
    config = AutoConfig.for_model(name.split()[0], **settings)
    torch.manual_seed(0)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = kind.from_config(config)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("A_log"):
                parameter.sub_(3.0)  # states fade more slowly
            elif parameter.ndim > 1 or not parameter.any():
                # With larger weights, rounding alone exceeds what the tests allow.
                parameter.normal_(0, 0.25 if layout == "recurrent layers" else 0.3)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model.eval()
