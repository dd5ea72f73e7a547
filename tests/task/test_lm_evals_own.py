"""What lm-eval's CI asserts of every contributed task (its tests/test_tasks.py, 0.4.13), of every task that comes with us.

It names no model and no tokenizer, and calls `construct_requests` with a document and its prompt only.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.task import documents
from tests.task.tasks import SHIPPED, load_task

LIMIT = 10
#: Tasks of which one of the first prompts ends in a space of the publisher's, which lm-eval's CI would not take before the
#: delimiter: texts stay as they were published.
SPACED = ("nnd_llmbar", "nnd_llmbar_clean")


def first_prompts(tests: datasets.Dataset) -> datasets.Dataset:
    """Return the tests of the first prompts, which lm-eval's tests look at: all of a large set take seconds to group."""
    table = tests.flatten_indices().data.table
    clusters = list(dict.fromkeys(table["cluster_id"].to_pylist()))[: LIMIT + 2]
    return datasets.Dataset(table.filter(pc.is_in(table["cluster_id"], pa.array(clusters))))


def assert_as_lm_eval(task: Any) -> None:
    task.download(task.config.dataset_kwargs)
    assert task.dataset is not None
    for name in ("training", "validation", "test"):
        if getattr(task, f"has_{name}_docs")():
            assert task.config[f"{name}_split"] is not None
    assert task.has_test_docs() is True
    assert task.should_decontaminate() is False
    docs = list(islice(task.test_docs(), LIMIT))
    assert len(docs) == min(LIMIT, len(task.eval_docs))
    for document in docs:
        prompt = task.doc_to_text(document)
        assert isinstance(prompt, str)
        spaced = task.config.target_delimiter.isspace() and prompt[-1:].isspace()
        assert not spaced or task.config.task in SPACED, "two spaces in a row"
        choices = task.doc_to_choice(document)
        assert isinstance(choices, list)
        assert all(isinstance(text, str) for text in choices)
        assert isinstance(task.doc_to_target(document), (int, str))
        requests = task.construct_requests(doc=document, ctx=task.doc_to_text(document))
        assert len(requests) >= len(choices)
    task.build_all_requests(rank=1, limit=LIMIT, world_size=1)
    assert {request.doc_id for request in task.instances} == set(range(1, len(docs)))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_task_passes_the_tests_of_lm_evals_ci(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue("home" if SHIPPED[name] == "demo" else "real_home")
    take = documents.take_split
    monkeypatch.setattr(documents, "take_split", lambda *args: first_prompts(take(*args)))
    assert_as_lm_eval(load_task(name))


def test_requests_without_a_tokenizer_are_never_scored(home: Path) -> None:
    task = load_task("nnd_demo")
    task.build_all_requests(limit=2)
    for request in task.instances:
        request.resps = [(-1.0, False)]
    with pytest.raises(NNDError, match="names no tokenizer for this model"):
        task.apply_filters()
    with pytest.raises(NNDError, match="names no tokenizer for this model"):  # as lm-eval's evaluator calls it
        load_task("nnd_demo").build_all_requests(limit=2, cache_requests=False)
