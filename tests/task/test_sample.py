"""Samples of prompts: the same ones in every run, spread over categories, and a part of every larger sample."""

import json
from collections import Counter

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lm_eval.utils import make_table

from nnd_tasks.errors import NNDError
from nnd_tasks.task.settings import sample_of
from tests.random_models import evaluate
from tests.task.tasks import CASES, read_task, run_stock, run_task

#: Categories of each prompt; every prompt has a test.
PROMPTS = st.lists(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=40)


def documents(prompts):
    rows = [
        {"cluster_id": f"p{i}", "tests": [{"category": category} for category in sorted(categories)]}
        for i, categories in enumerate(prompts)
    ]
    return datasets.Dataset.from_list(rows)


@settings(max_examples=25)
@given(PROMPTS, st.integers(1, 45), st.randoms())
def test_a_sample_is_spread_deterministic_and_nested(prompts, count, random):
    found = sample_of(documents(prompts), count)
    assert found == sorted(set(found))
    assert len(found) == min(count, len(prompts))
    assert set(found) <= set(sample_of(documents(prompts), count + 1)), "a smaller sample is a part of a larger one"
    sizes = Counter(category for one in prompts for category in one)
    taken = Counter(category for place in found for category in prompts[place])
    for category, size in sizes.items():
        assert taken[category] >= min(size, count // len(sizes)), "each category gets its share, as far as it goes"
    order = list(range(len(prompts)))
    random.shuffle(order)
    moved = documents(prompts).select(order)
    assert {moved[place]["cluster_id"] for place in sample_of(moved, count)} == {f"p{place}" for place in found}


def test_a_rare_category_is_in_a_sample():
    assert {*sample_of(documents([{"a"}] * 50 + [{"b"}] * 2), 4)} > {50, 51}


# ---------------------------------------------------------------- runs


def outcomes(run):
    return {test["test_id"]: test["passed"] for sample in run.samples for test in sample["tests"]}


def test_a_run_of_a_sample_is_a_part_of_the_whole_run_and_scores_only_what_the_cache_lacks(
    gpt2, home, tmp_path, monkeypatch
):
    from shared_prefix.hf_shared_prefix import SharedPrefixLM

    scored = []
    score = SharedPrefixLM.loglikelihood

    def counted(self, requests, *args, **kwargs):
        scored.append(len(requests))
        return score(self, requests, *args, **kwargs)

    monkeypatch.setattr(SharedPrefixLM, "loglikelihood", counted)
    counts, cache = (5, 8, 8, None), {"use_cache": str(tmp_path / "cache")}
    results = [evaluate(gpt2, ["nnd_demo"], sample=count, **cache) for count in counts]
    assert results[0]["n-samples"]["nnd_demo"] == {"original": 60, "effective": 5}
    assert "|nnd_demo (5 of 60 prompts)|" in make_table(results[0]).replace(" |", "|")
    assert "|nnd_demo|" in make_table(results[3]).replace(" ", "")
    five, eight, again, whole = map(read_task, results)
    assert scored[0] == five.rates["candidates"]
    assert sum(scored) == whole.rates["candidates"], "no text is scored twice"
    assert eight.rates == again.rates
    assert outcomes(five).items() < outcomes(eight).items() < outcomes(whole).items()
    runs = (five, eight, whole, run_task(gpt2, limit=5))
    assert [run.facts.get("sample") for run in runs] == [5, 8, None, None]
    selections = [run.facts["signature"]["protocol"]["selection"] for run in runs]
    assert [text.split(" (")[0] for text in selections] == ["5 of 60", "8 of 60", "all", "5 of 60"]
    assert len({*selections}) == 4, "runs with different samples are never compared as equal"


def test_places_that_are_not_sorted_get_their_own_texts(gpt2, home):
    """The task alone, as stock lm_eval runs it, too: lm-eval looks the places of documents up by their numbers."""
    whole = run_task(gpt2, limit=10).samples
    asked = {"nnd_demo": [5, 2, 9, 5]}
    stock = run_stock({"pretrained": str(gpt2)}, samples=asked)
    ours = run_task(gpt2, samples=json.dumps(asked))
    for run in (stock, ours):
        places = [(sample["doc_id"], sample["doc"]["cluster_id"]) for sample in run.samples]
        assert places == [(place, whole[place]["doc"]["cluster_id"]) for place in (5, 2, 9)]
        assert run.rates["clusters"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    CASES["samples that are refused"],
)
def test_a_sample_that_cannot_be_taken_is_one_error(options, message, gpt2, home):
    with pytest.raises(NNDError, match=message):
        evaluate(gpt2, ["nnd_demo"], **options)


def test_a_task_without_categories_is_refused(gpt2, home, tmp_path):
    (tmp_path / "d.jsonl").write_text('{"q": "Q", "a": 0}\n')
    data = {"dataset_path": "json", "dataset_kwargs": {"data_files": str(tmp_path / "d.jsonl")}, "test_split": "train"}
    fields = {"doc_to_text": "{{q}}", "doc_to_choice": ["a", "b"], "doc_to_target": "a"}
    settings = {**data, **fields, "output_type": "multiple_choice"}
    (tmp_path / "mine.yaml").write_text(json.dumps({"task": "mine", **settings}))
    with pytest.raises(NNDError, match="sample: mine is none of our tasks"):
        evaluate(gpt2, ["nnd_demo", "mine"], sample=3, include_path=tmp_path)
