"""What the task used, recomputed straight from the models' logits."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from tests.random_models import evaluate


class Oracle:
    """Mean log-likelihood per token of one candidate, one forward pass, no padding, no batch, no lm-eval."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.seq2seq = "t5" in folder.name
        kind = AutoModelForSeq2SeqLM if self.seq2seq else AutoModelForCausalLM
        self.model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        self._encoded: tuple[list[int], Any] = ([], None)

    @torch.no_grad()
    def sum_and_count(self, context: list[int], candidate: list[int]) -> tuple[float, int]:
        """Sum log P(candidate | context); for T5 the context is what the encoder reads."""
        if self.seq2seq:
            start = self.model.config.decoder_start_token_id
            decoder = torch.tensor([[start, *candidate[:-1]]])
            if self._encoded[0] != context:
                self._encoded = (context, self.model.get_encoder()(input_ids=torch.tensor([context])))
            logits = self.model(encoder_outputs=self._encoded[1], decoder_input_ids=decoder).logits[0]
        else:
            logits = self.model(torch.tensor([[*context, *candidate]])).logits[0, len(context) - 1 : -1]
        logprobs = torch.log_softmax(logits.double(), -1)
        return float(logprobs[range(len(candidate)), candidate].sum()), len(candidate)

    def split(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokenize a request as lm-eval documents it: jointly for decoder-only models, apart for encoder-decoders."""
        if self.seq2seq:
            return self.tokenizer.encode(context), self.tokenizer.encode(continuation, add_special_tokens=False)
        cut = len(self.tokenizer.encode(context))
        whole = self.tokenizer.encode(context + continuation)
        return whole[:cut], whole[cut:]


def check_against(oracle: Oracle, samples: list[dict[str, Any]]) -> tuple[int, int]:
    """Compare every candidate's numbers and every test's outcome; return how many of each were compared."""
    candidates = tests = 0
    for sample in samples:
        means: list[float | None] = [None] * len(sample["doc"]["candidates"])
        scored = [i for i, record in enumerate(sample["candidates"]) if record is not None]
        for i, (context, continuation) in zip(scored, sample["arguments"], strict=True):
            record = sample["candidates"][i]
            total, count = oracle.sum_and_count(*oracle.split(context, continuation))
            assert record["tokens"] == count
            assert record["sum"] == pytest.approx(total, rel=2e-6, abs=1e-4)
            assert record["mean"] == pytest.approx(total / count, rel=2e-6, abs=1e-5)
            means[i] = total / count
            candidates += 1
        for test, outcome in zip(sample["doc"]["tests"], sample["tests"], strict=True):
            assert outcome["test_id"] == test["test_id"]
            high, low = means[test["high"]], means[test["low"]]
            if high is None or low is None:
                assert outcome["passed"] is None
                continue
            assert outcome["passed"] is (high > low)
            assert outcome["tie"] is (high == low)
            tests += 1
    return candidates, tests


@pytest.mark.parametrize("append_eos", [False, True], ids=["plain", "eos"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_scores_and_outcomes_equal_the_models_own_logits(
    name: str, append_eos: bool, tiny_models: dict[str, Path], home: Path
) -> None:
    results = evaluate(tiny_models[name], ["nnd_demo"], metadata={"append_eos": append_eos})
    samples = results["samples"]["nnd_demo"]
    candidates, tests = check_against(Oracle(tiny_models[name]), samples)
    found = results["results"]["nnd_demo"]
    assert (candidates, tests) == (found["candidates,none"], found["tests,none"]) == (305, 381)
    eos = AutoTokenizer.from_pretrained(tiny_models[name]).eos_token
    assert all(text.endswith(eos) == append_eos for sample in samples for _, text in sample["arguments"])


def test_the_oracle_would_notice_a_wrong_count(tiny_models: dict[str, Path], home: Path) -> None:
    samples = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=2)["samples"]["nnd_demo"]
    samples[0]["candidates"][0]["tokens"] += 1
    with pytest.raises(AssertionError):
        check_against(Oracle(tiny_models["gpt2"]), samples)


def test_rates_and_errors_are_the_slow_definitions_over_the_samples(tiny_models: dict[str, Path], home: Path) -> None:
    results = evaluate(tiny_models["gpt2"], ["nnd_demo"])
    found, samples = results["results"]["nnd_demo"], results["samples"]["nnd_demo"]
    for metric, category in [("pass_rate", None), *((f"pass_rate_{c}", c) for c in ("disfluent", "unfaithful"))]:
        clusters = [[t["passed"] for t in sample["tests"] if category in (None, t["category"])] for sample in samples]
        clusters = [outcomes for outcomes in clusters if outcomes]
        flat = [outcome for outcomes in clusters for outcome in outcomes]
        rate = sum(flat) / len(flat)
        variance = sum((sum(o) - rate * len(o)) ** 2 for o in clusters) * len(clusters) / (len(clusters) - 1)
        assert found[f"{metric},none"] == pytest.approx(rate)
        assert found[f"{metric}_stderr,none"] == pytest.approx(math.sqrt(variance) / len(flat))
    for suffix, key in (("_sum", lambda c: c["sum"]), ("_bytes", lambda c: c["sum"] / c["bytes"])):
        flat = [
            key(sample["candidates"][t["high"]]) > key(sample["candidates"][t["low"]])
            for sample in samples
            for t in sample["doc"]["tests"]
        ]
        assert found[f"pass_rate{suffix},none"] == pytest.approx(sum(flat) / len(flat))


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_results_do_not_depend_on_batch_size_or_padding(name: str, tiny_models: dict[str, Path], home: Path) -> None:
    runs = {size: evaluate(tiny_models[name], ["nnd_demo"], batch_size=size) for size in (1, 7, "auto")}
    reference = runs.pop(1)["samples"]["nnd_demo"]
    for run in runs.values():
        for one, other in zip(reference, run["samples"]["nnd_demo"], strict=True):
            assert [t["passed"] for t in one["tests"]] == [t["passed"] for t in other["tests"]]
            for a, b in zip(one["candidates"], other["candidates"], strict=True):
                assert a["sum"] == pytest.approx(b["sum"], rel=1e-5)
                assert a["tokens"] == b["tokens"]


def test_results_do_not_depend_on_the_order_of_requests(tiny_models: dict[str, Path], home: Path) -> None:
    from lm_eval.models.huggingface import HFLM

    shuffled = HFLM.loglikelihood

    def shuffle(self: HFLM, requests: list[Any], **kwargs: Any) -> list[Any]:
        order = list(range(len(requests)))
        random.Random(5).shuffle(order)
        answers = shuffled(self, [requests[i] for i in order], **kwargs)
        return [answer for _, answer in sorted(zip(order, answers, strict=True))]

    plain = evaluate(tiny_models["gpt2"], ["nnd_demo"])["samples"]["nnd_demo"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HFLM, "loglikelihood", shuffle)
        other = evaluate(tiny_models["gpt2"], ["nnd_demo"])["samples"]["nnd_demo"]
    for one, two in zip(plain, other, strict=True):
        assert [t["passed"] for t in one["tests"]] == [t["passed"] for t in two["tests"]]
        assert [c["sum"] for c in one["candidates"]] == pytest.approx([c["sum"] for c in two["candidates"]], rel=1e-5)


# ---------------------------------------------------------------- the authors' protocol


def authors_scores(oracle: Oracle, document: str, candidate: str, cache: dict[tuple[str, str], float]) -> float:
    """Score as the authors' release does: tokens and EOS apart from the document's, their mean log-likelihood.

    A GPT-2 reads document, BOS, candidate; a T5 reads the document and decodes from its start token.
    """
    key = (document, candidate)
    if key not in cache:
        tokenizer = oracle.tokenizer
        target = [*tokenizer.encode(candidate, add_special_tokens=False), tokenizer.eos_token_id]
        context = tokenizer.encode(document)
        if not oracle.seq2seq:
            context = [*context, tokenizer.bos_token_id]
        total, count = oracle.sum_and_count(context, target)
        cache[key] = total / count
    return cache[key]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task"),
    [
        pytest.param("gpt2", "nnd_quiz_design_gpt2", marks=pytest.mark.complete),
        ("t5", "nnd_quiz_design_authors"),
    ],
)
def test_the_authors_protocol_on_all_of_quiz_design(
    name: str, task: str, tiny_models: dict[str, Path], real_home: Path, data: Path
) -> None:
    import itertools
    import json

    results = evaluate(tiny_models[name], [task], metadata={"append_eos": True, "ties": "authors"})
    oracle, cache = Oracle(tiny_models[name]), {}
    passed = total = 0
    by_error: dict[str, list[bool]] = {}
    for line in (data / "quiz_design" / "quiz_design_groups.jsonl").read_text(encoding="utf-8").splitlines():
        group = json.loads(line)
        document = f"{group['answer_span']} \n {group['context']}"
        for one, two in itertools.combinations(group["questions"], 2):
            if one["reason"] == two["reason"] or "No error" not in (one["reason"], two["reason"]):
                continue
            first = authors_scores(oracle, document, one["question"], cache)
            second = authors_scores(oracle, document, two["question"], cache)
            chosen, other = (one, two) if first > second else (two, one)
            error = other if chosen["reason"] == "No error" else chosen
            by_error.setdefault(error["reason"], []).append(chosen["reason"] == "No error")
            passed += chosen["reason"] == "No error"
            total += 1
    found = results["results"][task]
    assert found["tests,none"] == total == 2686
    assert found["candidates,none"] == len(cache) == 1860
    assert round(found["pass_rate,none"] * total) == passed
    assert {e: len(v) for e, v in by_error.items()} == {"disfluent": 711, "off_target": 890, "wrong_context": 1085}
    for error, outcomes in by_error.items():
        assert found[f"pass_rate_{error},none"] == pytest.approx(sum(outcomes) / len(outcomes))
    assert 0.2 < passed / total < 0.8  # a degenerate model would agree with anything
