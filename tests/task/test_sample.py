"""Covers check_places, check_selection, sample_of, sample_order, select_prompts.

Samples of prompts: the same ones in every run, spread over categories, and a part of every larger sample.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import datasets
import lm_eval
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lm_eval.tasks import TaskManager
from lm_eval.utils import make_table

from nnd_tasks.errors import NNDError
from nnd_tasks.store import tasks_dir
from nnd_tasks.task.selection import sample_of
from tests.random_models import evaluate
from tests.task.tasks import CASES

#: Categories of each prompt; every prompt has a test.
PROMPTS = st.lists(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=40)


def documents(prompts: list[set[str]]) -> datasets.Dataset:
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


def about(results: dict[str, Any]) -> dict[str, Any]:
    return dict(results["configs"]["nnd_demo"]["metadata"]["nnd"])


def outcomes(results: dict[str, Any]) -> dict[str, Any]:
    return {test["test_id"]: test["passed"] for row in results["samples"]["nnd_demo"] for test in row["tests"]}


def test_a_run_of_a_sample_is_a_part_of_the_whole_run_and_scores_only_what_the_cache_lacks(
    tiny_models, home, tmp_path, monkeypatch
):
    from nnd_tasks.models.shared_prefix import SharedPrefixLM

    scored = []
    score = SharedPrefixLM.loglikelihood

    def counted(self, requests, *args, **kwargs):
        scored.append(len(requests))
        return score(self, requests, *args, **kwargs)

    monkeypatch.setattr(SharedPrefixLM, "loglikelihood", counted)
    counts, cache = (5, 8, 8, None), {"use_cache": str(tmp_path / "cache")}
    five, eight, again, whole = (evaluate(tiny_models["gpt2"], ["nnd_demo"], sample=n, **cache) for n in counts)
    texts = [run["results"]["nnd_demo"]["candidates,none"] for run in (five, eight, whole)]
    assert scored[0] == texts[0]
    assert sum(scored) == texts[2], "no text is scored twice"
    assert eight["results"] == again["results"]
    assert five["n-samples"]["nnd_demo"] == {"original": 60, "effective": 5}
    assert "|nnd_demo (5 of 60 prompts)|" in make_table(five).replace(" |", "|"), "the table says that it is a sample"
    assert "|nnd_demo|" in make_table(whole).replace(" ", "")
    assert outcomes(five).items() < outcomes(eight).items() < outcomes(whole).items()
    assert [about(run).get("sample") for run in (five, eight, whole)] == [5, 8, None]
    protocols = [about(run)["signature"]["protocol"]["selection"] for run in (five, eight, whole)]
    assert [text.split(" (")[0] for text in protocols] == ["5 of 60", "8 of 60", "all"]
    first = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=5)
    assert "sample" not in about(first)
    digests = {about(run)["signature"]["protocol_digest"] for run in (five, eight, whole, first)}
    assert len(digests) == 4, "runs with different samples are never compared as equal"


def test_places_that_are_not_sorted_get_their_own_texts(tiny_models, home):
    """The task alone, as stock lm_eval runs it, too: lm-eval looks the places of documents up by their numbers."""
    whole = {
        row["doc_id"]: row["doc"]["cluster_id"]
        for row in evaluate(tiny_models["gpt2"], ["nnd_demo"])["samples"]["nnd_demo"]
    }
    settings = {"metadata": {"pretrained": str(tiny_models["gpt2"])}}
    asked = {"nnd_demo": [5, 2, 9, 5]}
    stock = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(tiny_models["gpt2"])},
        tasks=["nnd_demo"],
        task_manager=TaskManager(include_path=str(tasks_dir()), include_defaults=False, **settings),
        samples=asked,
        device="cpu",
        bootstrap_iters=0,
    )
    ours = evaluate(tiny_models["gpt2"], ["nnd_demo"], samples=json.dumps(asked))
    for results in (stock, ours):
        rows = {row["doc_id"]: row["doc"]["cluster_id"] for row in results["samples"]["nnd_demo"]}
        assert list(rows) == [5, 2, 9]
        assert rows.items() <= whole.items()
        assert results["results"]["nnd_demo"]["clusters,none"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    CASES["samples that are refused"],
)
def test_a_sample_that_cannot_be_taken_is_one_error(options, message, tiny_models, home):
    with pytest.raises(NNDError, match=message):
        evaluate(tiny_models["gpt2"], ["nnd_demo"], **options)


def test_a_task_without_categories_is_refused(tiny_models, home, tmp_path):
    (tmp_path / "d.jsonl").write_text('{"q": "Q", "a": 0}\n')
    settings = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": str(tmp_path / "d.jsonl")},
        "test_split": "train",
    }
    settings |= {
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": ["a", "b"],
        "doc_to_target": "a",
    }
    (tmp_path / "mine.yaml").write_text(json.dumps({"task": "mine", **settings}))
    with pytest.raises(NNDError, match="--sample: mine is none of our tasks"):
        evaluate(tiny_models["gpt2"], ["nnd_demo", "mine"], sample=3, include_path=tmp_path)
