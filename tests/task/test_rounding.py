"""Log-likelihoods that 16 bits round are told of before the model scores, and named in the results."""

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

import nnd_tasks
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.lengths import warn_once
from tests.task.tasks import read_task, run_stock

_SUMS, _LOGITS = "add softmax_dtype=float32", "computes its logits in"
SHARED, ALONE = {"shared_prefix": True}, {"shared_prefix": False}
#: How a model of 16 bits is run -> what is told before it scores, and the type that the results name.
ROUNDING = {
    "stock lm_eval": ({}, {}, _SUMS, "bfloat16"),
    "nnd run without shared prefixes": ({}, ALONE, _LOGITS, "bfloat16"),
    "nnd run": ({}, SHARED, _LOGITS, "bfloat16"),
    "stock lm_eval with softmax_dtype": ({"softmax_dtype": "float32"}, {}, _LOGITS, "bfloat16"),
    "in float32": ({"dtype": "float32"}, ALONE, "", None),
    "a type of its own name": ({"dtype": "half"}, {}, _SUMS, "float16"),
    "mixed": ({"dtype": "float32", "mixed_precision_dtype": "bfloat16"}, SHARED, _LOGITS, "bfloat16"),
}


@pytest.fixture(scope="module")
def half(gpt2, tmp_path_factory):
    """Return the folder of a model in bfloat16. Its config says so, as most users leave dtype out."""
    folder = tmp_path_factory.mktemp("half")
    AutoModelForCausalLM.from_pretrained(gpt2, dtype=torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(gpt2).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("how", ROUNDING)
def test_rounding_is_told_before_the_model_scores_anything(how, half, home, monkeypatch, caplog):
    more, options, told, rounded_to = ROUNDING[how]
    arguments = {"pretrained": half, **more}
    before = []

    def watched(score):
        def scoring(self, requests, **kwargs):
            before.append("".join(mark for mark in (_SUMS, _LOGITS) if mark in caplog.text))
            return score(self, requests, **kwargs)

        return scoring

    for model in (HFLM, SharedPrefixLM):
        monkeypatch.setattr(model, "loglikelihood", watched(model.loglikelihood))
    warn_once.cache_clear()
    if options:
        run = read_task(
            nnd_tasks.evaluate("nnd_demo", model_args=arguments, limit=2, device="cpu", bootstrap_iters=0, **options)
        )
    else:
        run = run_stock(arguments, limit=2)
    assert before[0] == told
    assert ("the log-likelihoods are rounded to" in caplog.text) == (told == _SUMS), "as the sums show afterwards"
    assert run.facts["rounded_to"] == rounded_to
