"""What the task used, recomputed straight from the models' logits."""

import itertools
import json
import random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from tests.task.tasks import run_task


class Oracle:
    """Mean log-likelihood per token of one candidate, one forward pass, no padding, no batch, no lm-eval."""

    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.seq2seq = "t5" in folder.name
        kind = AutoModelForSeq2SeqLM if self.seq2seq else AutoModelForCausalLM
        self.model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        self._encoded = ([], None)

    @torch.no_grad()
    def read(self, context, candidate):
        """Return the logits in the places of the candidate's tokens; for T5 the context is what the encoder reads."""
        if self.seq2seq:
            start = self.model.config.decoder_start_token_id
            decoder = torch.tensor([[start, *candidate[:-1]]])
            if self._encoded[0] != context:
                self._encoded = (context, self.model.get_encoder()(input_ids=torch.tensor([context])))
            logits = self.model(encoder_outputs=self._encoded[1], decoder_input_ids=decoder).logits[0]
        else:
            logits = self.model(torch.tensor([[*context, *candidate]])).logits[0, len(context) - 1 : -1]
        return logits.double()

    def sum_and_count(self, context, candidate):
        """Sum log P(candidate | context), and count the candidate's tokens."""
        logprobs = torch.log_softmax(self.read(context, candidate), -1)
        return float(logprobs[range(len(candidate)), candidate].sum()), len(candidate)

    def split(self, context, continuation):
        """Tokenize a request as lm-eval documents it: jointly for decoder-only models, apart for encoder-decoders.

        White space at the end of the context belongs to the continuation, but for a `ClosedPrompt`, which keeps it.
        """
        if self.seq2seq:
            return self.tokenizer.encode(context), self.tokenizer.encode(continuation, add_special_tokens=False)
        cut = len(self.tokenizer.encode(context.rstrip()))
        whole = self.tokenizer.encode(context + continuation)
        return whole[:cut], whole[cut:]


def check_against(oracle, samples):
    """Compare every candidate's numbers and every test's outcome; return how many of each were compared."""
    candidates = tests = 0
    for sample in samples:
        means = [None] * len(sample["doc"]["candidates"])
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


EOS = {"metadata": {"append_eos": True}}
CHAT = {"apply_chat_template": True, "fewshot_as_multiturn": False, "system_instruction": "Answer well."}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, options) for name in ("gpt2", "llama", "t5") for options in ({}, EOS)),
        ("gpt2", {"num_fewshot": 2}),
        ("llama", {"system_instruction": "Answer well."}),
        ("llama", {**CHAT, "num_fewshot": 1}),
        ("llama", {"apply_chat_template": True, "fewshot_as_multiturn": True, "num_fewshot": 2}),
        ("t5", {"num_fewshot": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_scores_and_outcomes_equal_the_models_own_logits(name, options, tiny_models, home):
    rates, samples, facts = run_task(tiny_models[name], limit=6, **options)
    oracle = Oracle(tiny_models[name])
    assert check_against(oracle, samples) == (rates["candidates"], rates["tests"])
    assert rates["truncated_contexts"] == 0, "lm-eval and this file have read the same"
    assert facts["tokenization"] == {"merged": 0, "bos_twice": 0, "empty": 0}
    chat, eos = options.get("apply_chat_template"), oracle.tokenizer.eos_token
    for sample in samples:
        for (context, text), record in zip(sample["arguments"], sample["candidates"], strict=True):
            assert text.endswith(eos) == (options == EOS)
            if chat:
                assert context.endswith("<|assistant|>\n")
                assert record["tokens"] == len(oracle.tokenizer.encode(text, add_special_tokens=False)), "no line feed"


def numbers(run):
    """Return the outcomes, token counts and sums of a run."""
    candidates = [candidate for sample in run.samples for candidate in sample["candidates"]]
    outcomes = [test["passed"] for sample in run.samples for test in sample["tests"]]
    return outcomes, *([candidate[key] for candidate in candidates] for key in ("tokens", "sum"))


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_results_do_not_depend_on_batches_padding_or_the_order_of_requests(name, tiny_models, home, monkeypatch):
    from lm_eval.models.huggingface import HFLM

    runs = [run_task(tiny_models[name], limit=6, batch_size=size) for size in (1, 7, "auto")]
    plain = HFLM.loglikelihood

    def shuffle(self, requests, **kwargs):
        order = random.Random(5).sample(range(len(requests)), len(requests))
        answers = plain(self, [requests[i] for i in order], **kwargs)
        return [answer for _, answer in sorted(zip(order, answers, strict=True))]

    monkeypatch.setattr(HFLM, "loglikelihood", shuffle)
    outcomes, counts, sums = numbers(runs[0])
    for other in (*runs[1:], run_task(tiny_models[name], limit=6)):
        assert numbers(other) == (outcomes, counts, pytest.approx(sums, rel=1e-5))


# ---------------------------------------------------------------- the authors' protocol


def authors_scores(oracle, document, candidate, cache):
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
    ("name", "task", "limit"),
    [
        pytest.param("gpt2", "nnd_quiz_design_gpt2", None, marks=pytest.mark.complete),
        pytest.param("t5", "nnd_quiz_design_authors", None, marks=pytest.mark.complete),
        ("t5", "nnd_quiz_design_authors", 25),
    ],
)
def test_the_authors_protocol_on_quiz_design(name, task, limit, tiny_models, link_sets, data):
    link_sets("quiz_design")
    run = run_task(tiny_models[name], task, limit=limit, metadata={"append_eos": True, "ties": "authors"})
    prompts = {(sample["doc"]["context"], sample["doc"]["answer"]) for sample in run.samples}
    oracle, cache = Oracle(tiny_models[name]), {}
    outcomes = {}
    for line in (data / "quiz_design" / "quiz_design_groups.jsonl").read_text(encoding="utf-8").splitlines():
        group = json.loads(line)
        if (group["context"], group["answer_span"]) not in prompts:
            continue
        document = f"{group['answer_span']} \n {group['context']}"
        for pair in itertools.combinations(group["questions"], 2):
            errors = [question["reason"] for question in pair if question["reason"] != "No error"]
            if len(errors) == 1:
                first, second = (authors_scores(oracle, document, question["question"], cache) for question in pair)
                chosen = pair[0] if first > second else pair[1]
                outcomes.setdefault(errors[0], []).append(chosen["reason"] == "No error")
    rates = {f"pass_rate_{error}": passed for error, passed in outcomes.items()}
    rates["pass_rate"] = [outcome for passed in outcomes.values() for outcome in passed]
    sizes = (run.rates["tests"], run.rates["candidates"], len(outcomes))
    assert sizes == (len(rates["pass_rate"]), len(cache), 3)
    assert limit or sizes == (2686, 1860, 3)
    assert {name: run.rates[name] for name in rates} == {
        name: pytest.approx(sum(passed) / len(passed)) for name, passed in rates.items()
    }
    assert 0.2 < run.rates["pass_rate"] < 0.8  # a degenerate model would agree with anything
