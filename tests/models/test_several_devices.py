"""A model that accelerate has spread over devices: its layers may be anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerate import dispatch_model
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from nnd_tasks.models.shared_prefix import SharedPrefixLM

PAIRS = [(f"The cat {a} sat", f" on {b}") for a in ("one", "two", "red") for b in ("mat", "the house", "a dog now")]


@pytest.mark.parametrize(
    ("name", "away", "reason"),
    [
        ("llama", "model.layers.1", None),
        ("t5", "decoder.block.1", None),
        ("llama", "lm_head", "the vocabulary head is kept on disk or in main memory"),
    ],
)
def test_a_model_with_a_part_on_disk_is_scored_as_the_whole(
    name: str, away: str, reason: str | None, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(PAIRS)]
    plain = HFLM(pretrained=str(tiny_models[name]), device="cpu", dtype="float32")
    expected = plain.loglikelihood(requests, disable_tqdm=True)
    kind = AutoModelForSeq2SeqLM if name == "t5" else AutoModelForCausalLM
    model = kind.from_pretrained(tiny_models[name])
    parts = [part for part, module in model.named_modules() if [*module.parameters(recurse=False)]]
    places = {part: "disk" if part.startswith(away) else "cpu" for part in parts}
    model = dispatch_model(model, places, offload_dir=tmp_path, main_device="cpu", force_hooks=True)
    assert any(parameter.is_meta for parameter in model.parameters())
    lm = SharedPrefixLM(model, tokenizer=AutoTokenizer.from_pretrained(tiny_models[name]))
    found = lm.loglikelihood(requests, disable_tqdm=True)
    assert lm.why_not() == reason
    for (total, greedy), (other, likeliest) in zip(found, expected, strict=True):
        assert total == pytest.approx(other, rel=1e-6, abs=1e-5)
        assert greedy == likeliest
