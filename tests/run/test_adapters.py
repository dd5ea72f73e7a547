"""PEFT adapters on tied embeddings."""

import pytest
import torch

from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.model_error import ModelError
from shared_prefix.peft_adapters import check_adapter
from shared_prefix.upstream import HFLM

peft = pytest.importorskip("peft", reason="pip install 'nnd-tasks[train]'")
transformers = pytest.importorskip("transformers")

CONTEXT, ENDING = [5, 9, 60, 61], [7, 8, 30]
#: What the adapter changes -> its settings. GPT-2 ties its output layer, `lm_head`, to its embeddings, `wte`.
CHANGES = {
    "attention": {"target_modules": ["c_attn"], "fan_in_fan_out": True},
    "input": {"target_modules": ["wte"]},
    "saved input": {"target_modules": ["c_attn"], "fan_in_fan_out": True, "modules_to_save": ["wte"]},
    "output": {"target_modules": ["lm_head"]},
    "saved output": {"target_modules": ["c_attn"], "fan_in_fan_out": True, "modules_to_save": ["lm_head"]},
    "rows": {"target_modules": ["c_attn"], "fan_in_fan_out": True, "trainable_token_indices": {"wte": [5, 7]}},
}


def add_adapter(folder, out, change):
    """Write an adapter with random weights that matter; return the model with it."""
    torch.manual_seed(0)
    model = peft.get_peft_model(
        transformers.AutoModelForCausalLM.from_pretrained(folder),
        peft.LoraConfig(r=4, lora_alpha=64, init_lora_weights=False, task_type="CAUSAL_LM", **CHANGES[change]),
    )
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "modules_to_save" in name or "trainable_tokens_delta" in name:
                weights.add_(torch.randn_like(weights) * 0.3)
    model.save_pretrained(out)
    return model.eval()


def sum_of(model):
    """The log-likelihood of the ending, from the model's own logits."""
    with torch.no_grad():
        logits = model(torch.tensor([CONTEXT + ENDING])).logits[0].log_softmax(-1)
    return sum(float(logits[len(CONTEXT) + i - 1, token]) for i, token in enumerate(ENDING))


def sum_of_run(model_type, **arguments):
    model = model_type(device="cpu", dtype="float32", batch_size=1, **arguments)
    [(total, _)] = model._loglikelihood_tokens([(("a", "b"), CONTEXT, ENDING)], disable_tqdm=True)
    return total


@pytest.mark.parametrize("change", CHANGES)
def test_what_an_adapter_changes_is_known_before_the_model_is_loaded(change, gpt2, tmp_path, caplog):
    add_adapter(gpt2, tmp_path, change)
    arguments = {"pretrained": str(gpt2), "peft": str(tmp_path)}
    if change not in ("attention", "input"):
        with pytest.raises(ModelError, match=r"ties its output layer .*merge_and_unload"):
            check_adapter(arguments)
        return
    check_adapter(arguments)
    assert ("only the input changes" in caplog.text) == (change == "input")
    check_adapter({**arguments, "pretrained": "no_such_model"})  # loading says what is wrong


@pytest.mark.parametrize("model_type", [HFLM, SharedPrefixLM])
@pytest.mark.parametrize("change", ["attention", "input"])
def test_an_adapter_has_the_likelihoods_of_peft_itself(change, model_type, gpt2, tmp_path):
    adapted = add_adapter(gpt2, tmp_path, change)
    expected = sum_of(adapted)
    assert abs(expected - sum_of(transformers.AutoModelForCausalLM.from_pretrained(gpt2))) > 0.01
    assert sum_of_run(model_type, pretrained=str(gpt2), peft=str(tmp_path)) == pytest.approx(expected, abs=1e-4)
    merged = sum_of(adapted.merge_and_unload())
    if change == "attention":
        assert merged == pytest.approx(expected, abs=1e-4)
    else:
        assert abs(merged - expected) > 0.01


@pytest.mark.parametrize("change", ["output", "saved input"])
def test_tied_layers_are_merged_as_the_docs_say(change, gpt2, tmp_path):
    expected = sum_of(add_adapter(gpt2, tmp_path / "adapter", change))
    model = transformers.AutoModelForCausalLM.from_pretrained(gpt2)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    model.config.tie_word_embeddings = False
    merged = peft.PeftModel.from_pretrained(model, tmp_path / "adapter").merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    transformers.AutoTokenizer.from_pretrained(gpt2).save_pretrained(tmp_path / "merged")
    total = sum_of_run(SharedPrefixLM, pretrained=str(tmp_path / "merged"))
    assert total == pytest.approx(expected, abs=1e-4)
