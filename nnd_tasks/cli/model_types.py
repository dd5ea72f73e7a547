"""Which model types share prefixes, and whether one config does."""

from __future__ import annotations

from typing import Any

from nnd_tasks.cli.console import table
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.files import is_missing_path
from nnd_tasks.formats import number
from nnd_tasks.markdown import plain
from nnd_tasks.models.architectures import DECODERS, REFUSED, SEQ2SEQ, layout_of, text_config, why_not_config

_LEGEND = (
    "Every other type, quantized models, code that is not part of transformers, and rotary embeddings that depend on the length "
    "of the input: not shared, scored as by plain hf. `nnd models PATH` says it of one model."
)


def model_types() -> str:
    """Return a table of types as Markdown: shared or not, and what sharing takes, or why not."""
    return f"{_table(_rows())}\n\n{_LEGEND}"


def _rows() -> list[list[str]]:
    rows = [[name, "yes", kind.describe()] for name, kind in DECODERS.items()]
    rows += [[name, "yes", "encoder-decoder: each context is encoded once"] for name in sorted(SEQ2SEQ)]
    rows += [[name, "no", reason] for name, reason in REFUSED.items()]
    return sorted(rows)


def _table(rows: list[list[str]]) -> str:
    return table(["type", "shared", "how, or why not"], rows)


def describe_model(name: str) -> str:
    """Return a list as Markdown: whether the model of this config shares prefixes. No weights are read.

    Args:
        name: a folder with a ``config.json``, that file, a name on the hub, or a type of the table.

    Raises:
        NNDError: there is no config that transformers can read.
    """
    if is_missing_path(name, ".json"):
        raise NNDError(
            f"{name}: there is no such folder or file; name a folder with a config.json, or a model of the hub"
        )
    try:
        config = _read_config(name)
    except NNDError:
        if row := [row for row in _rows() if row[0] == name]:  # a model of the hub may be called like its type
            return _table(row)
        raise
    backend = "seq2seq" if getattr(config, "is_encoder_decoder", False) else "causal"
    reason = why_not_config(config, backend)
    lines = [f"- type: {plain(str(config.model_type))}"]
    if reason is not None:
        if getattr(config, "quantization_config", None):
            reason += "; if it is dequantized when it is loaded, it may share"
        return "\n".join([*lines, f"- shared: no, {plain(reason)}"])
    lines.append("- shared: yes, if a small example gives the numbers of plain hf, which each run checks")
    if backend == "causal":
        layout = layout_of(config)
        lines.append(f"- attention: {layout.describe()}")
        if layout.scale != 1.0:
            lines.append(f"- logits: multiplied with {number(layout.scale, 4)}")
        if layout.cap is not None:
            lines.append(f"- logits: capped at {layout.cap:g}")
        if experts := _experts(text_config(config)):
            lines.append(f"- experts: {experts}; in 16 bits, sums differ by more than those of other models")
    return "\n".join(lines)


def _experts(config: Any) -> int:
    """Return how many experts a layer has; 0 without a mixture of experts."""
    names = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    return max(int(getattr(config, name, None) or 0) for name in names)


def _read_config(name: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # transformers raises many kinds
        raise NNDError(f"{name}: no config of a model that transformers knows ({typed_reason_of(error)})") from error
