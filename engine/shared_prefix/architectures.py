"""Which model types may share prefixes, and what each of them needs. Nothing but the model's config is read for that.

Sharing reads requests as a tree, in rows. So it must know which tokens a token sees in each layer, and what happens to the
logits after the last linear layer. ``architectures.yaml`` says both. Its source is ``models/<type>/modeling_<type>.py`` of
transformers 5.23: masks where the model's ``forward`` calls ``create_causal_mask`` and its relatives (``masking_utils.py``),
logits where ``...ForCausalLM.forward`` calls ``self.lm_head``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: The names that configs give to kinds of layers.
FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"

#: Kinds of rotary embedding whose frequencies do not depend on the length of the input (``modeling_rope_utils.py``).
ROPE = frozenset({"default", "linear", "llama3", "yarn", "proportional"})


@dataclass(frozen=True)
class DecoderType:
    """What a type of models needs.

    Attributes:
        layers: kinds of layers that ``layer_types`` may name; ``forward`` takes a mask for each of them. Empty if it takes one
            mask for all layers.
        window: without ``layers``, whether ``sliding_window`` is the window of all layers.
        cap: name of the config's number that caps the logits.
        scale: name of the config's number with which the logits are multiplied.
        divisor: name of the config's number by which the logits are divided.
        ropes: kinds of rotary embedding that do not depend on the length of the input.
        places: whether some layers count the places in a row instead of reading ``position_ids``.
        alibi: whether the attention has linear biases, unless ``alibi`` of the config turns them off; see
            `shared_prefix.tree_layers`.
        recurrent: whether there are recurrent layers, which take no mask; see `shared_prefix.tree_layers`.
        scan: number of tokens that the recurrent layers read at once, where it stands in the code and not in the config.
    """

    layers: frozenset[str] = frozenset()
    window: bool = False
    cap: str | None = None
    scale: str | None = None
    divisor: str | None = None
    ropes: frozenset[str] = ROPE
    places: bool = False
    alibi: bool = False
    recurrent: bool = False
    scan: int | None = None


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


def _read_types(section: str) -> dict[str, DecoderType]:
    types: dict[str, DecoderType] = {}
    for entry in _TABLE[section]:
        needs: dict[str, Any] = {
            key: frozenset(value) if isinstance(value, list) else value for key, value in entry["needs"].items()
        }
        types |= dict.fromkeys(entry["types"].split(), DecoderType(**needs))
    return types


#: ``model_type`` -> what it needs, of decoder-only models and of encoder-decoders.
DECODERS, SEQ2SEQ = _read_types("decoders"), _read_types("encoder_decoders")
#: Types that were tried and cannot share, and why.
REFUSED: dict[str, str] = {name: entry["why"] for entry in _TABLE["refused"] for name in entry["types"].split()}

#: Numbers of a config that may count tokens: windows, chunks, the reach of convolutions, and Llama 4's ``floor_scale``.
_WINDOW_NAME = re.compile(
    "^(?!.*(?:layer|expert|head|pattern|freq|theta)).*(?:window|chunk|local|floor_scale|d_conv|conv_kernel|conv_L_cache)"
)


@dataclass(frozen=True)
class Reach:
    """How far the tokens of a layer see, among the tokens before them and themselves (``masking_utils.py``).

    Attributes:
        window: a token at position p sees positions above p - window (``sliding_window_overlay``); None: all.
        chunk: a token at position p sees positions with the same p // chunk (``chunked_overlay``); None: all.
    """

    window: int | None = None
    chunk: int | None = None


@dataclass(frozen=True)
class Layout:
    """What a config asks for; see `DecoderType`.

    Attributes:
        reaches: kind of layer -> how far its tokens see; ``""`` is the kind of all layers where the model takes one mask.
        scale: the logits are multiplied with this number.
        cap: then they become ``cap * tanh(logits / cap)``; None leaves them as they are.
        places: see `DecoderType`.
        alibi: whether its attention has linear biases.
        recurrent: see `DecoderType`.
        windows: lengths beyond which the model may read differently: windows, chunks and convolutions, in tokens.
    """

    reaches: dict[str, Reach]
    scale: float = 1.0
    cap: float | None = None
    places: bool = False
    alibi: bool = False
    recurrent: bool = False
    windows: frozenset[int] = frozenset()


def text_config(config: Any) -> Any:
    """Return the part of a config that describes the language model, without its parts for images and sound."""
    return config.get_text_config(decoder=True)


def config_parts(config: Any) -> list[Any]:
    """Return the config of the language model or decoder, and that of the encoder if it has one of its own."""
    return [text_config(config), *filter(None, [getattr(config, "encoder", None)])]


def rope_kinds(config: Any) -> set[str]:
    """Return the kinds of rotary embedding that a model's config names, for all layers or for each type of layer."""
    kinds: set[str] = set()
    for part in config_parts(config):
        settings = getattr(part, "rope_parameters", None) or getattr(part, "rope_scaling", None) or {}
        ropes = [settings, *(rope for rope in settings.values() if isinstance(rope, Mapping))]
        kinds |= {str(rope.get("rope_type") or rope.get("type")) for rope in ropes}
    return kinds - {"None"}


def layout_of(config: Any) -> Layout:
    """Read what the config of a decoder asks for.

    Raises:
        ValueError: sharing is not possible; the message says why.
    """
    decoder_type = SEQ2SEQ.get(config.model_type) or DECODERS[config.model_type]
    text = text_config(config)
    kinds = set(getattr(text, "layer_types", None) or [FULL])
    if decoder_type.recurrent:  # the mask is for all layers with attention, which have no windows
        kinds = {FULL}
    if unknown_kinds := kinds - (decoder_type.layers or {FULL}):
        raise ValueError(f"attention layers of other kinds ({', '.join(sorted(unknown_kinds))})")
    window, chunk = getattr(text, "sliding_window", None), getattr(text, "attention_chunk_size", None)
    if (SLIDING in kinds and not window) or (CHUNKED in kinds and not chunk):
        raise ValueError("layers with a window whose length the config does not name")
    possible = {FULL: Reach(), SLIDING: Reach(window=window), CHUNKED: Reach(chunk=chunk)}
    reaches = {name: possible[name] for name in sorted(kinds)}
    if not decoder_type.layers:
        reaches = {"": Reach(window=window if decoder_type.window else None)}
    scale = float(getattr(text, decoder_type.scale)) if decoder_type.scale else 1.0
    if decoder_type.divisor:
        scale /= float(getattr(text, decoder_type.divisor))
    cap = getattr(text, decoder_type.cap) if decoder_type.cap else None
    alibi = decoder_type.alibi and getattr(text, "alibi", True)
    cap = None if cap is None else float(cap)
    return Layout(reaches, scale, cap, decoder_type.places, alibi, decoder_type.recurrent, _windows_of(config))


def _windows_of(config: Any) -> frozenset[int]:
    """Find the windows, chunks and convolutions of a model by their names in its config; see `Layout`."""
    scan = DECODERS.get(config.model_type, DecoderType()).scan
    sizes: set[int] = {scan} if scan else set()
    waiting: list[tuple[bool, Any]] = [(False, item.to_dict()) for item in config_parts(config)]
    while waiting:
        named, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(bool(_WINDOW_NAME.search(str(name))), item) for name, item in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [(named, item) for item in value]
        elif named and isinstance(value, int) and not isinstance(value, bool) and value > 0:
            sizes.add(value)
    return frozenset(sizes)
