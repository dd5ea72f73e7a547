"""`nnd_tasks.measures`: from a run to its results, samples and tables, against transformers' own logits and sums test by test."""

import math

import numpy as np
import pandas as pd
import pytest

from engine_tests.comparing import count_stats
from nnd_tasks.errors import NNDError
from nnd_tasks.measures import MEASURES, list_measures, weigh_measures
from nnd_tasks.results.compare import category_measures
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.run.run import run_and_save
from tests.random_models import evaluate
from tests.task.tasks import read_task, run_task
from tests.task.test_oracle import Oracle

LIMIT = 4
BASIC = ("bits_high", "bits_low", "margin")
BREAKDOWN = {"pass_rate_a_b": ("category", "a b"), "pass_rate_severity_minor": ("severity", "minor")}


def read_text(oracle, prompt, text):
    """Measure a text after a prompt by the model's logits, token by token."""
    context, continuation = oracle.split(prompt, f" {text}")
    total, tokens = oracle.sum_and_count(context, continuation)
    stats = count_stats(oracle.read(context, continuation), continuation)
    return {"sum": total, "tokens": tokens, "bytes": len(text.encode()), **stats._asdict()}


def measure_slowly(samples, texts, category):
    """Compute every measure and its clustered error from pairs of sums, one prompt after the other."""
    pairs = {name: [] for name in MEASURES}
    for sample, of_sample in zip(samples, texts, strict=True):
        of_prompt = {name: [] for name in MEASURES}
        for test in sample["doc"]["tests"]:
            if category in (None, test["category"]):
                high, low = of_sample[test["high"]], of_sample[test["low"]]
                of_prompt["margin"].append((high["sum"] / high["tokens"] - low["sum"] / low["tokens"], 1))
                for side, text in (("high", high), ("low", low)):
                    of_prompt[f"bits_{side}"].append((-text["sum"] / math.log(2), text["bytes"]))
                    for name in (f"top1_{side}", f"rank_{side}", "entropy"):
                        of_prompt[name].append((text[name.partition("_")[0]], text["tokens"]))
        for name, values in of_prompt.items():
            if values:
                pairs[name].append((sum(total for total, _ in values), sum(weight for _, weight in values)))
    measured = {}
    for name, of_prompts in pairs.items():
        weights, k = sum(weight for _, weight in of_prompts), len(of_prompts)
        mean = sum(total for total, _ in of_prompts) / weights
        squares = sum((total - mean * weight) ** 2 for total, weight in of_prompts)
        measured[name] = mean, math.sqrt(k / (k - 1) * squares) / weights
    return measured


def test_a_run_measures_what_the_logits_say(gpt2, home):
    results = evaluate(gpt2, ["nnd_demo"], limit=LIMIT, model_args={"token_stats": True})
    stats, bare, oracle = read_task(results), run_task(gpt2, limit=LIMIT), Oracle(gpt2)
    texts = [
        [read_text(oracle, sample["arguments"][0][0], text) for text in sample["doc"]["candidates"]]
        for sample in stats.samples
    ]
    for category, suffix in ((None, ""), ("disfluent", "_disfluent")):
        for name, (mean, error) in measure_slowly(stats.samples, texts, category).items():
            assert stats.rates[f"{name}{suffix}"] == pytest.approx(mean, rel=1e-4, abs=1e-5), name
            assert stats.rates[f"{name}{suffix}_stderr"] == pytest.approx(error, rel=1e-3, abs=1e-5), name
    higher = results["higher_is_better"]["nnd_demo"]
    assert (higher["margin"], higher["bits_high_disfluent"], higher["rank_low"]) == (True, False, False)
    listed = {item["metric"] for item in results["configs"]["nnd_demo"]["metric_list"]}
    assert {"margin", "bits_low_off_target", "top1_high"} <= listed, "loggers find them by name"
    # Without token_stats the rest is the same, to the bit.
    of_stats = tuple(name for name in MEASURES if name not in BASIC)
    assert {name: rate for name, rate in stats.rates.items() if not name.startswith(of_stats)} == bare.rates
    assert stats.facts["signature"] == bare.facts["signature"], "a number does not rest on what is measured besides"


def test_runs_and_files_hold_them(tmp_path, gpt2, home):
    arguments = {"pretrained": str(gpt2), "dtype": "float32", "token_stats": True}
    run_and_save("nnd_demo", "hf", arguments, limit=LIMIT, output_path=tmp_path, batch_size=4, device="cpu")
    runs = read_results(tmp_path)
    tests = runs.tests
    assert np.allclose(tests["bits_high"], -tests["high_sum"] / math.log(2) / tests["high_bytes"])
    assert np.allclose(tests["rank_low"], tests["low_rank"] / tests["low_tokens"])
    assert tests[[*MEASURES]].notna().all(axis=None)
    overall = category_measures(pair(runs)[0]).iloc[0]
    for name in MEASURES:
        assert overall[name] == pytest.approx(runs[0].reported[f"{name},none"], rel=1e-9)
        assert overall[f"{name}_standard_error"] == pytest.approx(runs[0].reported[f"{name}_stderr,none"], rel=1e-6)


def test_other_models_refuse_token_stats(tmp_path, masked_model, home):
    with pytest.raises(NNDError, match="token_stats: only --model hf"):
        evaluate(masked_model, ["nnd_demo"], kind="nnd_mlm", model_args={"token_stats": True})


def test_a_text_without_a_likelihood_leaves_its_test_out():
    nan = math.nan
    tests = pd.DataFrame(
        {
            "margin": [0.5, nan, -0.25, nan],
            "bits_high": [2.0, 9.0, 4.0, nan],
            "high_bytes": [10, 10, 30, 10],
            "top1_high": [nan, nan, 0.5, nan],
            "high_tokens": [2, 2, 4, 2],
        }
    )
    assert weigh_measures(tests, ["bits_high", "margin", "top1_high"]).tolist() == [
        [20.0, 0.5, 0.0, 10.0, 1.0, 0.0],
        [0.0] * 6,
        [120.0, -0.25, 2.0, 30.0, 1.0, 4.0],
        [0.0] * 6,
    ]


def test_names_are_those_of_categories():
    assert list_measures(BREAKDOWN, token_stats=False) == {
        **{name: (name, None) for name in BASIC},
        **{f"{name}_a_b": (name, "a b") for name in BASIC},
    }
