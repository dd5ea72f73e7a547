"""Covers Asked, Asker, read_reader, finite_or_none, Writer.

Validator and choice against the models' own logits, and what a YAML may say of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from transformers import AutoTokenizer

import nnd_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.store import tasks_dir
from tests.random_models import evaluate
from tests.run.completions_server import CompletionsServer
from tests.run.test_backends import needs_client
from tests.task.tasks import build_task, load_task, read_cases, small_set, write_yaml
from tests.task.test_oracle import Oracle

#: Words of one token each in the vocabularies of the tiny models.
WORDS = {"validator": ("the", "a"), "choice": ("A", "B")}
QUESTIONS = {"disfluent": "a text in fluent English"}


def log_odds(oracle: Oracle, text: str, words: Iterable[str]) -> tuple[float, float]:
    """Return log P(first) - log P(second), and P(first) + P(second)."""
    answers = [oracle.sum_and_count(*oracle.split(text, word)) for word in words]
    assert [count for _, count in answers] == [1, 1]
    first, second = (total for total, _ in answers)
    return first - second, math.exp(first) + math.exp(second)


def question_about(sample: dict[str, Any], place: int, reader: str, order: str = "{0} or {1}") -> str:
    """Write by hand what the demo asks about a candidate; the prompt is that of the writer."""
    doc = sample["doc"]
    text, view, words = doc["candidates"][place], doc["reader_views"][place], WORDS[reader]
    cue = {"question_answering": "Question: {context}\nAnswer:", "summarization": "{context}\n\nSummary:"}
    prompt = cue.get(doc["kind"], "{context}\n\nAnswer: {answer}\nQuestion:").format(**doc)
    shown = f" {text}" if reader == "validator" else f"\nA: {text}\nB: {view['rival']}"
    return f"{prompt}{shown}\n\n{view['question']} Answer {order.format(*words)}.\nAnswer:"


@pytest.fixture
def yamls(tmp_path) -> Path:
    for reader, words in WORDS.items():
        write_yaml(tmp_path / "yaml", reader, reader=reader, question="a text", questions=QUESTIONS, answers=words)
    return tmp_path / "yaml"


@pytest.mark.parametrize(
    ("name", "reader"),
    [("gpt2", "validator"), ("gpt2", "choice"), ("llama", "validator"), ("llama", "choice"), ("t5", "validator")],
)
def test_scores_and_outcomes_are_the_models_own(name, reader, tiny_models, home, yamls):
    results = evaluate(tiny_models[name], [reader], include_path=yamls, limit=8)
    samples, found = results["samples"][reader], results["results"][reader]
    oracle, outcomes, flips, swapped_passes = Oracle(tiny_models[name]), [], [], []
    words = [f" {word}" for word in WORDS[reader]]
    for sample in samples:
        scores, swapped = [], []
        for place, record in enumerate(sample["candidates"]):
            odds, mass = log_odds(oracle, question_about(sample, place, reader), words)
            scores.append(odds / (1 + (reader == "choice")))
            other, _ = log_odds(oracle, question_about(sample, place, reader, "{1} or {0}"), words)
            swapped.append(other)
            assert record["sum"] == record["mean"] == pytest.approx(scores[-1], abs=1e-4)
            assert record["mass"] == pytest.approx(mass, rel=1e-4)
            assert record["swapped"] == pytest.approx(other / (1 + (reader == "choice")), abs=1e-4)
        for test, outcome in zip(sample["doc"]["tests"], sample["tests"], strict=True):
            assert outcome["passed"] is (scores[test["high"]] > scores[test["low"]])
            outcomes.append(outcome["passed"])
            swapped_passes.append(swapped[test["high"]] > swapped[test["low"]])
            flips.append((scores[test["high"]] > 0) == (scores[test["low"]] > 0))
    assert len(samples) == 8
    assert found["tests,none"] == len(outcomes)
    assert found["pass_rate,none"] == pytest.approx(fmean(outcomes))
    assert found["pass_rate_swapped,none"] == pytest.approx(fmean(swapped_passes))
    assert 0 < sum(outcomes) < len(outcomes)
    if reader == "choice":
        assert found["order_flips,none"] == pytest.approx(fmean(flips))
        assert sum(flips) > 0
    assert not {"pass_rate_sum,none", "pass_rate_bytes,none"} & set(found)


def test_each_test_is_asked_about_its_own_category_and_pair(tiny_models, home, yamls):
    found = evaluate(tiny_models["gpt2"], list(WORDS), include_path=yamls, limit=8)["samples"]
    for reader, begin in (("validator", "Is this"), ("choice", "Which one is closer to")):
        for sample in found[reader]:
            texts, views = sample["doc"]["candidates"], sample["doc"]["reader_views"]
            for test in sample["doc"]["tests"]:
                high, low = views[test["high"]], views[test["low"]]
                wanted = QUESTIONS.get(test["category"], "a text")
                assert high["question"] == low["question"] == f"{begin} {wanted}?"
                rivals = (texts[test["low"]], texts[test["high"]]) if reader == "choice" else ("", "")
                assert (high["rival"], low["rival"]) == rivals
            assert len({(t, *v.values()) for t, v in zip(texts, views, strict=True)}) == len(texts), "each asked once"


def scores_of(results: dict[str, Any], task: str) -> list[float]:
    records = [record for sample in results["samples"][task] for record in sample["candidates"]]
    return [record[key] for record in records for key in ("sum", "swapped", "mass")]


def test_batches_order_sharing_and_caches_change_nothing(tiny_models, home, yamls, tmp_path):
    def run(**options):
        return evaluate(tiny_models["llama"], ["choice"], include_path=yamls, **options)

    plain, cache = run(limit=4), {"use_cache": str(tmp_path / "cache")}
    for other in ({"batch_size": 1}, {"batch_size": 3, "shared_prefix": False}, cache, cache):
        found = scores_of(run(limit=4, **other), "choice")
        assert found == pytest.approx(scores_of(plain, "choice"), abs=1e-4), other
    every, backwards = plain["samples"]["choice"], run(samples={"choice": [3, 2, 1]})["samples"]["choice"]
    chosen = {sample["doc"]["cluster_id"]: sample for sample in backwards}
    assert chosen.keys() == {every[i]["doc"]["cluster_id"] for i in (1, 2, 3)}
    for sample in every:
        if other := chosen.get(sample["doc"]["cluster_id"]):
            sums = [[record["sum"] for record in one["candidates"]] for one in (sample, other)]
            assert sums[0] == pytest.approx(sums[1], abs=1e-4)


@needs_client
def test_a_server_gives_the_same_answers(tiny_models, home, yamls):
    folder = tiny_models["gpt2"]
    plain = evaluate(folder, list(WORDS), include_path=yamls, limit=2)
    with CompletionsServer.load(folder) as server:
        model_args = {"model": "served", "base_url": server.url, "tokenizer": str(folder)}
        options = {"include_path": yamls, "limit": 2, "batch_size": 8, "bootstrap_iters": 0}
        served = nnd_tasks.evaluate(list(WORDS), "local-completions", model_args, **options)
    for reader in WORDS:
        assert scores_of(served, reader) == pytest.approx(scores_of(plain, reader), abs=1e-4)


def test_chats_end_with_the_answer_alone_and_exemplars_with_the_right_one(tiny_models, home, yamls):
    results = evaluate(
        tiny_models["llama"], ["validator"], include_path=yamls, apply_chat_template=True, num_fewshot=2, limit=2
    )
    reader = results["configs"]["validator"]["metadata"]["nnd"]["reader"]
    tokenizer = AutoTokenizer.from_pretrained(tiny_models["llama"])
    assert reader["tokens"] == {word: tokenizer.convert_tokens_to_ids(word) for word in ("the", "a")}, "without a space"
    for sample in results["samples"]["validator"]:
        context, answer = sample["arguments"][0]
        assert context.endswith("Answer the or a.\nAnswer:\n<|assistant|>\n")
        assert answer == "the"
        assert context.count("Answer the or a.\nAnswer:") == 3
    results = evaluate(tiny_models["gpt2"], ["validator"], include_path=yamls, num_fewshot=3, limit=20)
    prompts = [sample["arguments"][0][0] for sample in results["samples"]["validator"]]
    rights = [line for prompt in prompts for line in prompt.splitlines() if line in ("Answer: the", "Answer: a")]
    assert len(rights) == 60
    assert 0.3 < rights.count("Answer: the") / 60 < 0.7


def test_without_the_context_the_question_stays(tiny_models, home, yamls):
    results = evaluate(
        tiny_models["gpt2"], ["choice"], include_path=yamls, limit=3, metadata={"context_reliance": True}
    )
    oracle = Oracle(tiny_models["gpt2"])
    for sample in results["samples"]["choice"]:
        bare = {**sample, "doc": {**sample["doc"], "context": ""}}
        for place, record in enumerate(sample["no_context"]):
            odds, _ = log_odds(oracle, question_about(bare, place, "choice"), (" A", " B"))
            assert record["sum"] == pytest.approx(odds / 2, abs=1e-4)


def test_blank_candidates_are_not_asked_about(tiny_models, tmp_path, home):
    rows = [("One.", "Good text.", "ok"), ("One.", " ", "wrong"), ("One.", "Bad text.", "wrong")]
    folder = small_set(tmp_path, rows, reader="choice")
    results = evaluate(tiny_models["gpt2"], ["small"], include_path=folder)
    assert results["results"]["small"]["unscored,none"] == 1
    assert results["results"]["small"]["tests,none"] == 1


def test_a_judge_with_samples_asks_once_where_all_candidates_are_blank(tiny_models, tmp_path, home):
    rows = [("One.", "Good.", "ok"), ("One.", "Bad.", "wrong"), ("Two.", "", "ok"), ("Two.", " ", "wrong")]
    folder = small_set(tmp_path, rows, reader="judge", repeats=3, generation_kwargs={"temperature": 1.0})
    task = build_task("small", {"pretrained": str(tiny_models["gpt2"])}, [folder])
    candidates = [[request.candidate for request in task.instances if request.doc_id == i] for i in (0, 1)]
    assert candidates == [[0, 0, 0, 1, 1, 1], [None]]


@pytest.mark.parametrize(
    ("settings", "metadata", "message"),
    read_cases(__file__)["mistakes about a reader"],
)
def test_mistakes_are_said_in_one_line(settings, metadata, message, tiny_models, home, tmp_path):
    folder = write_yaml(tmp_path / "yaml", "bad", **settings)
    with pytest.raises(NNDError, match=message) as error:
        evaluate(tiny_models["gpt2"], ["bad"], include_path=folder, metadata=metadata, limit=2)
    assert "\n" not in str(error.value)


def test_answers_that_are_no_numbers_leave_the_test_unscored(tiny_models, home, yamls):
    task = load_task("choice", {"pretrained": str(tiny_models["gpt2"])}, [yamls])
    task.set_config("num_fewshot", 0)
    task.build_all_requests(limit=1)
    requests = task.instances
    for request in requests:
        request.resps = [(math.nan if request.candidate == 0 else -1.0 - request.idx, False)]
    task.apply_filters()
    found = task.process_results(requests[0].doc, [one.filtered_resps["none"] for one in requests])
    assert found["unscored"] == sum(0 in (test["high"], test["low"]) for test in requests[0].doc["tests"]) > 0
    assert found["candidates"][0]["swapped"] is found["candidates"][0]["mass"] is None
    assert found["order_flips"][1] == len(found["tests"]) - found["unscored"]


def test_16_bits_are_warned_of(tiny_models, home, yamls, caplog):
    for dtype, warned in (("bfloat16", 1), ("float32", 0)):
        caplog.clear()
        evaluate(tiny_models["gpt2"], ["choice"], include_path=yamls, limit=1, model_args={"dtype": dtype})
        assert caplog.text.count("many tests tie and fail; add dtype=float32") == warned


def test_the_signature_tells_readers_and_questions_apart(tiny_models, home, yamls, tmp_path):
    write_yaml(tmp_path / "yaml", "other", reader="choice", question="another text")
    tasks = ["nnd_demo", *WORDS, "other"]
    configs = evaluate(tiny_models["gpt2"], tasks, include_path=yamls, limit=1)["configs"]
    protocols = [configs[task]["metadata"]["nnd"]["signature"]["protocol"] for task in tasks]
    assert [one.get("reader") for one in protocols] == [None, "validator", "choice", "choice"]
    assert len({json.dumps(one, sort_keys=True) for one in protocols}) == 4


def test_every_set_has_both_readers_and_a_question():
    from nnd_tasks.task.task_files import read_task_yaml

    plain = {path: read_task_yaml(path)[0] for path in sorted(tasks_dir().glob("*/nnd_*.yaml"))}
    plain = {path: settings for path, settings in plain.items() if {*WORDS} <= {*settings.get("variants", ())}}
    assert {path.parent.name for path in plain} >= {
        name for name, found in list_recipes().items() if found.origin == "package"
    }
    for path, writer in plain.items():
        categories = (writer.get("metadata") or {}).get("categories") or []
        assert writer["question"]
        assert set(writer.get("questions", {})) <= set(categories) or path.parent.name in ("mqm", "bio_mqm")
