"""Covers Answer, check_config, ClusterSampler, first_mistake, load_documents, plain_metadata, Request, Settings, tasks_dir.

The task inside the harness: documents, requests, settings, exemplars, results.
"""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from lm_eval.tasks import TaskManager

import nnd_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import read_table, tasks_dir
from nnd_tasks.task.request import Answer, ClusterSampler, Request
from nnd_tasks.task.settings import Settings
from tests.conftest import REPO
from tests.random_models import evaluate
from tests.sets.folders import write
from tests.task.tasks import CASES, build_task, load_task, small_set

# ---------------------------------------------------------------- documents and requests


@pytest.mark.parametrize(
    ("task", "requests", "documents"),
    [
        ("nnd_quiz_design", 1860, 332),
        ("nnd_challenge300", 771, 178),
        ("nnd_summeval", 828, 98),
        ("nnd_frank", 794, 159),
    ],
)
def test_every_distinct_prompt_and_candidate_is_one_request(task, requests, documents, link_sets):
    link_sets(task.removeprefix("nnd_"))
    built = build_task(task, {})
    assert len(built.instances) == len({instance.args for instance in built.instances}) == requests
    assert len(built.eval_docs) == documents


def test_documents_hold_every_test_once_and_index_its_texts(link_sets):
    link_sets("quiz_design")
    table = {row["test_id"]: row for row in load("quiz_design")}
    seen = []
    for document in load_task("nnd_quiz_design").eval_docs:
        texts = document["candidates"]
        assert len(set(texts)) == len(texts)
        for test in document["tests"]:
            row = table[test["test_id"]]
            assert (texts[test["high"]], texts[test["low"]]) == (row["high"], row["low"])
            assert (document["context"], document["answer"]) == (row["context"], row["answer"])
            seen.append(test["test_id"])
    assert sorted(seen) == sorted(table)


def test_the_prompts_of_the_families_are_those_of_the_authors(link_sets):
    link_sets("quiz_design", "challenge300")
    document = load_task("nnd_quiz_design").eval_docs[0]
    p, a, q = document["context"], document["answer"], document["candidates"][0]
    expected = {
        "nnd_quiz_design_authors": (f"{a} \n {p}", q),
        "nnd_quiz_design_prophetnet": (f"{a} [SEP] {p}", q),
        "nnd_quiz_design_mixqg": (f"{a} \\n {p}", q),
        "nnd_quiz_design_macaw": (f"$question$ ; $context$ = {p} ; $answer$ = {a}", f"$question$ = {q}"),
    }
    macaw = load_task("nnd_challenge300_macaw").eval_docs[0]
    expected["nnd_challenge300_macaw"] = (
        f"$answer$ ; $question$ = {macaw['context']}",
        f"$answer$ = {macaw['candidates'][0]}",
    )
    for name, (prompt, candidate) in expected.items():
        task = load_task(name)
        first = task.eval_docs[0]
        assert (task.doc_to_text(first), task.doc_to_choice(first)[0]) == (prompt, candidate)
        assert task.config.target_delimiter == ""


def test_the_group_has_the_papers_sets_and_no_aggregate(tiny_models, link_sets):
    link_sets("quiz_design", "challenge300", "summeval", "frank")
    results = evaluate(tiny_models["gpt2"], ["nnd"], limit=1)
    assert set(results["group_subtasks"]["nnd"]) == {"nnd_quiz_design", "nnd_challenge300", "nnd_summeval", "nnd_frank"}
    assert not results.get("groups")


def test_a_ready_made_model_is_asked_for_its_tokenizer_or_needs_it_named(tiny_models, home):
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=str(tiny_models["t5"]), dtype="float32", device="cpu", batch_size=8)
    options = {"model": lm, "tasks": ["nnd_demo"], "limit": 3, "bootstrap_iters": 0}
    folders = {"include_path": tasks_dir(), "include_defaults": False}
    with pytest.raises(NNDError, match="tokenizer"):
        simple_evaluate(**options, task_manager=TaskManager(**folders))
    manager = TaskManager(**folders, metadata={"tokenizer": str(tiny_models["t5"])})
    usual = evaluate(tiny_models["t5"], ["nnd_demo"], limit=3)
    for found in (simple_evaluate(**options, task_manager=manager), nnd_tasks.evaluate(**options)):
        json.dumps(found["configs"])  # nothing in there but plain values
        for one, two in zip(found["samples"]["nnd_demo"], usual["samples"]["nnd_demo"], strict=True):
            assert one["tests"] == two["tests"]
            for first, second in zip(one["candidates"], two["candidates"], strict=True):
                assert first == pytest.approx(second, rel=1e-5)


def test_an_answer_is_written_as_a_list_and_keeps_what_it_knows_between_processes():
    instance = Request("loglikelihood", {}, ("a", "b"), 3, ("task", 1, 1), candidate=2, context_part="none", tokens=7)
    answer = Answer.to(instance, (-1.5, True))
    assert json.dumps([answer]) == "[[-1.5, true, 7]]"
    for copied in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert copied == (-1.5, True, 7)
        assert (copied.candidate, copied.context_part) == (2, "none")


# ---------------------------------------------------------------- candidates that decide nothing

ROWS = [
    ("Where?", "In the garden.", "wrong"),
    ("Where?", "In the kitchen.", "ok"),
    ("Where?", "", "wrong"),
    ("When?", "At noon.", "ok"),
    ("When?", "At noon.", "wrong"),
    ("Why?", "", "ok"),
    ("Why?", "   ", "wrong"),
]


@pytest.mark.parametrize(
    ("options", "tests", "unscored", "clusters", "empty"),
    [
        # kitchen > garden, kitchen > "", noon > noon, and the prompt of which nothing can be scored
        ({}, 2, 2, 2, 3),
        ({"metadata": {"append_eos": True}}, 4, 0, 3, 3),
        ({"samples": {"small": [2]}}, 0, 1, 0, 2),
    ],
    ids=["plain", "eos", "nothing"],
)
def test_empty_candidates_count_as_unscored_and_never_as_a_pass(
    options, tests, unscored, clusters, empty, tiny_models, tmp_path, home, caplog
):
    results = evaluate(tiny_models["gpt2"], ["small"], include_path=[small_set(tmp_path, ROWS)], **options)
    found = results["results"]["small"]
    assert (found["tests,none"], found["unscored,none"], found["clusters,none"]) == (tests, unscored, clusters)
    assert (found["pass_rate,none"] == "N/A") == (tests == 0)
    assert results["configs"]["small"]["metadata"]["nnd"]["tokenization"]["empty"] == empty
    assert [message for message in caplog.messages if f"small: {empty} candidates are empty" in message]


def test_a_tie_fails_or_goes_to_the_second_candidate_of_the_source(tiny_models, tmp_path, home):
    rows = [("A?", "Yes.", "ok"), ("A?", "Yes.", "wrong"), ("B?", "No.", "wrong"), ("B?", "No.", "ok")]
    include = [small_set(tmp_path, rows)]
    for ties, rate in (("fail", 0.0), ("authors", 0.5)):
        results = evaluate(tiny_models["gpt2"], ["small"], include_path=include, metadata={"ties": ties})
        found = results["results"]["small"]
        assert (found["pass_rate,none"], found["ties,none"]) == (rate, 2)


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("key", "value", "message"),
    CASES["settings that are refused"],
)
def test_a_setting_with_an_impossible_value_or_name_is_refused(key, value, message):
    with pytest.raises(NNDError, match=f"metadata '?{key}.*{message}|metadata {message}="):
        Settings.read({key: value})
    assert Settings.read({"append_eos": "True", "append_bos": "false"}) == Settings(append_eos=True)


def test_the_arguments_of_models_are_no_misspelled_settings():
    import inspect

    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.huggingface import HFLM

    for model in (HFLM, TemplateAPI):
        Settings.read(dict.fromkeys({*inspect.signature(model.__init__).parameters} - {*Settings.model_fields}))


@pytest.mark.parametrize("missing", ["bos", "eos"])
def test_a_tokenizer_without_the_token_that_a_task_needs_is_named(missing, tiny_models, home, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_models["gpt2"])
    setattr(tokenizer, f"{missing}_token", None)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    with pytest.raises(NNDError, match=f"has no {missing.upper()} token"):
        build_task("nnd_demo", {"tokenizer": str(tmp_path / "tokenizer"), f"append_{missing}": True})


# ---------------------------------------------------------------- exemplars


def test_exemplars_are_about_other_contexts_than_that_of_the_prompt_and_follow_the_seed():
    docs = [{"cluster_id": str(i), "context": f"paragraph {i // 2}", "answer": str(i)} for i in range(8)]
    docs += [{"cluster_id": f"empty {i}", "context": "", "answer": str(i)} for i in range(2)]
    one, two = (ClusterSampler(docs).set_rnd(seed) for seed in (1, 2))  # as lm-eval 0.4.13 gives the seed
    for doc in docs[:8]:
        drawn = one.sample(8, doc)
        assert ClusterSampler(docs, rnd=1).sample(8, doc) == drawn, "as 0.5 gives it"
        assert len({other["cluster_id"] for other in drawn}) == 8
        assert doc["context"] not in {other["context"] for other in drawn}
        # A shortened context, or none, is still that of its cluster: the same exemplars.
        assert all(one.sample(8, doc | {"context": text}) == drawn for text in ("para", ""))
        assert two.sample(8, doc) != drawn
    with pytest.raises(NNDError, match="the set has only 8 prompts about other contexts"):
        one.sample(9, docs[0])
    assert len(one.sample(9, docs[8])) == 9, "of prompts without a context none is about another's"


# ---------------------------------------------------------------- the results file


def test_the_results_say_what_the_numbers_rest_on(tiny_models, home):
    results = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=5)
    known, samples = results["configs"]["nnd_demo"]["metadata"]["nnd"], results["samples"]["nnd_demo"]
    assert known["fingerprint"] == fingerprint(read_table(home / "nnd" / "demo"))
    assert (known["local"], known["config"], known["append_eos"], known["ties"]) == (True, "authors", False, "fail")
    counted = [t["category"] for s in samples for t in s["tests"]]
    assert {name: size["tests"] for name, size in known["categories"].items()} == {
        name: counted.count(name) for name in set(counted)
    }
    json.dumps(results["configs"])
    # Loggers such as that of Weights & Biases look up each of these in every sample.
    names = [entry["metric"] for entry in results["configs"]["nnd_demo"]["metric_list"]]
    assert names[0] == "pass_rate"
    assert all(set(names) <= set(sample) for sample in samples)
    assert {f"{name},none" for name in names} <= set(results["results"]["nnd_demo"])


def test_a_local_build_is_preferred_and_the_log_says_so(home, tmp_path, monkeypatch, caplog):
    # What load_dataset("nnd/demo") would take from here: the demo with one test fewer.
    built = read_table(home / "nnd" / "demo")
    write(tmp_path / "nnd" / "demo", {"authors": built.slice(1)})
    monkeypatch.chdir(tmp_path)

    def tests():
        return sum(len(document["tests"]) for document in load_task("nnd_demo").eval_docs)

    with caplog.at_level("INFO", logger="lm_eval"):
        assert tests() == built.num_rows
    [message] = [message for message in caplog.messages if "fingerprint" in message]
    assert str(home / "nnd" / "demo") in message
    assert fingerprint(built) in message
    monkeypatch.setenv("NND_HOME", str(tmp_path / "empty"))
    assert tests() == built.num_rows - 1


# ---------------------------------------------------------------- numbers that must not be wrong without a word


def test_request_caches_of_lm_eval_are_not_used(tiny_models, home, tmp_path, monkeypatch):
    """With stock lm-eval, that is; our own ways to run it refuse the option."""
    from lm_eval import simple_evaluate

    monkeypatch.setattr("lm_eval.caching.cache.PATH", str(tmp_path / "cache"))
    arguments = {"pretrained": str(tiny_models["gpt2"]), "dtype": "float32"}

    def stock(**settings):
        metadata = {**arguments, **settings}
        manager = TaskManager(include_path=[str(tasks_dir())], include_defaults=False, metadata=metadata)
        options = {"limit": 3, "cache_requests": True, "device": "cpu", "bootstrap_iters": 0}
        results = simple_evaluate("hf", arguments, tasks=["nnd_demo"], task_manager=manager, **options)
        return [c["tokens"] for sample in results["samples"]["nnd_demo"] for c in sample["candidates"]]

    assert [tokens + 1 for tokens in stock()] == stock(append_eos=True)


def test_log_likelihoods_that_are_no_numbers_are_unscored_reported_and_plain_json(
    tiny_models, home, monkeypatch, caplog
):
    from lm_eval.models.huggingface import HFLM

    original = HFLM.loglikelihood

    def broken(self, requests, **kwargs):
        answers = original(self, requests, **kwargs)
        return [(float("nan"), False) if i % 4 == 0 else answer for i, answer in enumerate(answers)]

    monkeypatch.setattr(HFLM, "loglikelihood", broken)
    results = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=6)
    found, samples = results["results"]["nnd_demo"], results["samples"]["nnd_demo"]
    bad = {(i, j) for i, s in enumerate(samples) for j, c in enumerate(s["candidates"]) if c["sum"] is None}
    expected = sum((i, t["high"]) in bad or (i, t["low"]) in bad for i, s in enumerate(samples) for t in s["tests"])
    assert found["unscored,none"] == expected > 0
    assert any(f"{len(bad)} of " in message for message in caplog.messages)
    json.dumps([s["candidates"] for s in samples], allow_nan=False)


def test_examples_of_hf_do_not_end_in_rounded_sums():
    pages = [REPO / "README.md", *(REPO / "docs").glob("*.md")]
    lines = [
        line for page in pages for line in page.read_text("utf-8").splitlines() if "--model hf --model_args " in line
    ]
    assert sum("lm_eval --model hf " in line for line in lines) == 2
    assert len(lines) > 10
    literal = [line for line in lines if line.startswith("lm_eval ")]
    assert [line for line in literal if "softmax_dtype=float32" not in line] == []
    assert [line for line in lines if "nnd run" in line and "softmax_dtype" in line] == [], "it is the default"
