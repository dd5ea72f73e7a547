"""The task inside the harness: documents, requests, settings, exemplars, results."""

import copy
import json
import pickle
from collections import Counter

import pytest

import nnd_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import read_table
from nnd_tasks.task.reader import Answer
from nnd_tasks.task.request import ClusterSampler, Request
from nnd_tasks.task.settings import Settings
from shared_prefix.model_error import ModelError
from tests.random_models import evaluate
from tests.sets.folders import write
from tests.task.tasks import CASES, build_task, load_task, read_task, run_stock, run_task, small_set
from tests.task.test_oracle import numbers

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
def test_every_test_is_there_once_and_every_distinct_prompt_and_candidate_is_one_request(
    task, requests, documents, link_sets
):
    link_sets(task.removeprefix("nnd_"))
    built = build_task(task, {})
    assert len(built.instances) == len({instance.args for instance in built.instances}) == requests
    assert len(built.eval_docs) == documents
    tests = [
        (test["test_id"], document["context"], *(document["candidates"][test[side]] for side in ("high", "low")))
        for document in built.eval_docs
        for test in document["tests"]
    ]
    rows = load(task.removeprefix("nnd_")).select_columns(["test_id", "context", "high", "low"])
    assert sorted(tests) == sorted(tuple(row.values()) for row in rows)


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


def test_a_ready_made_model_is_asked_for_its_tokenizer_or_needs_it_named(tiny_models, home):
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=str(tiny_models["t5"]), dtype="float32", device="cpu", batch_size=8)
    options = {"model": lm, "limit": 3, "bootstrap_iters": 0}
    with pytest.raises(ModelError, match="tokenizer"):
        run_stock({}, **options)
    named = run_stock({}, **options, metadata={"tokenizer": str(tiny_models["t5"])})
    asked = nnd_tasks.evaluate(tasks=["nnd_demo"], **options)
    json.dumps(asked["configs"])  # nothing in there but plain values
    outcomes, counts, sums = numbers(run_task(tiny_models["t5"], limit=3))
    for run in (named, read_task(asked)):
        assert numbers(run) == (outcomes, counts, pytest.approx(sums, rel=1e-5))


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
    options, tests, unscored, clusters, empty, gpt2, tmp_path, home, caplog
):
    rates, _, facts = run_task(gpt2, "small", include_path=[small_set(tmp_path, ROWS)], **options)
    assert (rates["tests"], rates["unscored"], rates["clusters"]) == (tests, unscored, clusters)
    assert (rates["pass_rate"] == "N/A") == (tests == 0)
    assert facts["tokenization"]["empty"] == empty
    assert f"small: {empty} candidates are empty" in caplog.text


def test_a_tie_fails_or_goes_to_the_second_candidate_of_the_source(gpt2, tmp_path, home):
    rows = [("A?", "Yes.", "ok"), ("A?", "Yes.", "wrong"), ("B?", "No.", "wrong"), ("B?", "No.", "ok")]
    include = [small_set(tmp_path, rows)]
    for ties, rate in (("fail", 0.0), ("authors", 0.5)):
        rates = run_task(gpt2, "small", include_path=include, metadata={"ties": ties}).rates
        assert (rates["pass_rate"], rates["ties"]) == (rate, 2)


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("key", "value", "message"),
    CASES["settings that are refused"],
)
def test_a_setting_with_an_impossible_value_or_name_is_refused(key, value, message):
    with pytest.raises(NNDError, match=f"metadata '?{key}.*{message}|metadata {message}="):
        Settings.read({key: value})
    assert Settings.read({"append_eos": True, "append_bos": False}) == Settings(append_eos=True)


def test_the_arguments_of_models_are_no_misspelled_settings():
    import inspect

    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.huggingface import HFLM

    for model in (HFLM, TemplateAPI):
        Settings.read(dict.fromkeys({*inspect.signature(model.__init__).parameters} - {*Settings.model_fields}))


@pytest.mark.parametrize("missing", ["bos", "eos"])
def test_a_tokenizer_without_the_token_that_a_task_needs_is_named(missing, gpt2, home, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gpt2)
    setattr(tokenizer, f"{missing}_token", None)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    with pytest.raises(ModelError, match=f"has no {missing.upper()} token"):
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


def test_the_results_say_what_the_numbers_rest_on(gpt2, home):
    results = evaluate(gpt2, ["nnd_demo"], limit=5)
    rates, samples, facts = read_task(results)
    assert facts["fingerprint"] == fingerprint(read_table(home / "nnd" / "demo"))
    assert (facts["local"], facts["config"], facts["append_eos"], facts["ties"]) == (True, "authors", False, "fail")
    sizes = {name: size["tests"] for name, size in facts["categories"].items()}
    assert sizes == Counter(test["category"] for sample in samples for test in sample["tests"])
    json.dumps(results["configs"])
    # Loggers such as that of Weights & Biases look up each of these in every sample.
    names = [entry["metric"] for entry in results["configs"]["nnd_demo"]["metric_list"]]
    assert (names[0], names[-1]) == ("pass_rate", "truncated_contexts")
    assert all(set(names) <= set(sample) for sample in samples)
    assert set(names) <= set(rates)


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


def test_request_caches_of_lm_eval_are_not_used(gpt2, home, tmp_path, monkeypatch):
    """With stock lm-eval, that is; our own ways to run it refuse the option."""
    monkeypatch.setattr("lm_eval.caching.cache.PATH", str(tmp_path / "cache"))
    arguments = {"pretrained": str(gpt2), "dtype": "float32"}
    counts = []
    for metadata in ({}, {"append_eos": True}):
        samples = run_stock(arguments, metadata=metadata, limit=3, cache_requests=True).samples
        counts.append([record["tokens"] for sample in samples for record in sample["candidates"]])
    assert [tokens + 1 for tokens in counts[0]] == counts[1]


def test_log_likelihoods_that_are_no_numbers_are_unscored_reported_and_plain_json(gpt2, home, monkeypatch, caplog):
    from lm_eval.models.huggingface import HFLM

    original = HFLM.loglikelihood

    def broken(self, requests, **kwargs):
        answers = original(self, requests, **kwargs)
        return [(float("nan"), False) if i % 4 == 0 else answer for i, answer in enumerate(answers)]

    monkeypatch.setattr(HFLM, "loglikelihood", broken)
    rates, samples, _ = run_task(gpt2, limit=6)
    bad = unscored = 0
    for sample in samples:
        is_bad = [record["sum"] is None for record in sample["candidates"]]
        bad += sum(is_bad)
        unscored += sum(is_bad[test["high"]] or is_bad[test["low"]] for test in sample["tests"])
    assert rates["unscored"] == unscored > 0
    assert f"{bad} of " in caplog.text
    json.dumps([sample["candidates"] for sample in samples], allow_nan=False)
