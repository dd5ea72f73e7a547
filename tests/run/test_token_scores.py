"""``--metadata '{"tokens": true}'``: the log-probabilities of tokens, against those straight from the model."""

import numpy as np
import pytest
import torch
import transformers as tf
from lm_eval.models.huggingface import HFLM

import nnd_tasks
from engine_tests import fake_vllm
from nnd_tasks.errors import NNDError
from tests import random_models
from tests.task.tasks import run_stock

LIMIT = 4
TOKENS = {"tokens": True}


def scores_of(results):
    """Return (prompt, candidate, part of the context) -> sum and tokens, of what is scored in the samples."""
    return {
        (sample["doc"]["cluster_id"], i, part): (record["sum"], record["tokens"])
        for sample in results["samples"]["nnd_demo"]
        for part, records in (("whole", sample["candidates"]), ("none", sample.get("no_context", ())))
        for i, record in enumerate(records)
        if record
    }


def assert_sums(results):
    """The table has a row for each scored candidate; its log-probabilities add up to the candidate's score."""
    scores, rows = scores_of(results), results["tokens"]["nnd_demo"].to_pylist()
    assert {(row["cluster_id"], row["candidate"], row["context_part"]) for row in rows} == scores.keys()
    assert len(rows) == len(scores)
    for row in rows:
        total, count = scores[row["cluster_id"], row["candidate"], row["context_part"]]
        assert len(row["logprobs"]) == len(row["token_ids"]) == len(row["starts"]) == len(row["ends"]) == count
        assert sum(row["logprobs"]) == pytest.approx(total, abs=1e-5)
        assert (row["starts"][0], row["ends"][-1]) == (0, len(row["text"]))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gpt2", {}),
        ("t5", {}),
        ("t5", {"shared_prefix": False, "batch_size": 3}),
    ],
)
def test_each_token_has_what_the_model_gives_it(name, options, tiny_models, home):
    results = random_models.evaluate(tiny_models[name], ["nnd_demo"], limit=LIMIT, metadata=TOKENS, **options)
    table = results["tokens"]["nnd_demo"]
    assert_sums(results)
    tokenizer = tf.AutoTokenizer.from_pretrained(tiny_models[name])
    kind = tf.AutoModelForSeq2SeqLM if name == "t5" else tf.AutoModelForCausalLM
    model = kind.from_pretrained(tiny_models[name], dtype=torch.float32).eval()
    prompts = {sample["doc"]["cluster_id"]: sample["arguments"][0][0] for sample in results["samples"]["nnd_demo"]}
    for row in table.slice(0, 6).to_pylist():
        targets = torch.tensor(row["token_ids"])
        context = torch.tensor([tokenizer(prompts[row["cluster_id"]])["input_ids"]])
        with torch.inference_mode():
            if name == "t5":
                logits = model(input_ids=context, labels=targets[None]).logits[0]
            else:
                logits = model(torch.cat([context[0], targets])[None]).logits[0, context.shape[1] - 1 : -1]
        own = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
        assert np.allclose(row["logprobs"], own, atol=1e-5, rtol=1e-6)
        text = "".join(row["text"][start:end] for start, end in zip(row["starts"], row["ends"], strict=True))
        assert text == row["text"], "these texts have one byte per character, so spans follow each other"


@pytest.mark.parametrize("shared", [True, False])
def test_vllm_keeps_them_too(shared, tmp_path, gpt2, home):
    arguments = {"pretrained": str(gpt2), "dtype": "float32", "max_model_len": 2048, "block_size": 4}
    with fake_vllm.installed(tmp_path / "site"):
        options = {"batch_size": "auto", "limit": LIMIT, "metadata": TOKENS, "shared_prefix": shared}
        results = nnd_tasks.evaluate(["nnd_demo"], "vllm", arguments, bootstrap_iters=0, **options)
    assert_sums(results)
    hf = random_models.evaluate(gpt2, ["nnd_demo"], limit=LIMIT, metadata=TOKENS)["tokens"]["nnd_demo"]
    ours = results["tokens"]["nnd_demo"]
    assert ours.drop(["logprobs"]).equals(hf.drop(["logprobs"]))
    for one, other in zip(ours["logprobs"].to_pylist(), hf["logprobs"].to_pylist(), strict=True):
        assert np.allclose(one, other, atol=1e-5, rtol=1e-5)


def test_a_cache_gives_them_back_and_a_run_without_them_has_the_same_numbers(tmp_path, gpt2, home):
    options = {"limit": LIMIT, "use_cache": str(tmp_path / "cache")}
    one, again, plain = (
        random_models.evaluate(gpt2, ["nnd_demo"], metadata=metadata, **options) for metadata in (TOKENS, TOKENS, {})
    )
    assert one["tokens"]["nnd_demo"].equals(again["tokens"]["nnd_demo"])
    assert "tokens" not in plain
    assert len([*tmp_path.glob("cache*.db")]) == 2, "a cache without them is another one"
    assert one["results"] == plain["results"]
    assert scores_of(one) == scores_of(plain)
    signatures = [run["configs"]["nnd_demo"]["metadata"]["nnd"]["signature"] for run in (one, plain)]
    assert signatures[0] == signatures[1], "what is kept does not change what a number rests on"


def test_with_context_reliance_a_candidate_has_a_row_for_each_prompt(gpt2, home):
    metadata = {**TOKENS, "context_reliance": True, "append_eos": True}
    results = random_models.evaluate(gpt2, ["nnd_demo"], limit=2, metadata=metadata)
    assert_sums(results)
    parts = results["tokens"]["nnd_demo"]["context_part"].to_pylist()
    assert parts.count("none") == parts.count("whole") > 0


def test_who_cannot_keep_them_says_so(gpt2, masked_model, home):
    with pytest.raises(NNDError, match="--model nnd_mlm gives sums only; hf, vllm and llamacpp keep"):
        nnd_tasks.evaluate(["nnd_demo"], "nnd_mlm", {"pretrained": str(masked_model)}, metadata=TOKENS, limit=1)
    with pytest.raises(NNDError, match="a ready-made HFLM gives sums only"):
        nnd_tasks.evaluate(["nnd_demo"], HFLM(str(gpt2), device="cpu"), metadata=TOKENS, limit=1)
    with pytest.raises(NNDError, match="token scores are kept by `nnd run`"):
        run_stock({"pretrained": str(gpt2)}, metadata=TOKENS, limit=1)
