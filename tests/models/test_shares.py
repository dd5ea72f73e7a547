"""Which process gets which request: all of them once, common beginnings together, equal numbers of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnd_tasks
from nnd_tasks.harness.documents import cluster_documents
from nnd_tasks.models.shares import (
    Tokens,
    divide,
    loads,
    owners_of_inputs,
    owners_of_masked,
    owners_of_pairs,
    owners_of_texts,
)

few_tokens = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


def tree(sequences: Sequence[Tokens]) -> int:
    """Count the distinct beginnings of sequences: the tokens that are read when common ones are read once."""
    nodes: dict[tuple[int, int], int] = {}  # (beginning, next token) -> longer beginning
    for sequence in sequences:
        node = 0
        for token in sequence:
            node = nodes.setdefault((node, token), len(nodes) + 1)
    return len(nodes)


def read(sequences: Sequence[Tokens], owners: Sequence[int], count: int) -> list[int]:
    """Count the tokens of each process."""
    return [tree([one for one, owner in zip(sequences, owners, strict=True) if owner == k]) for k in range(count)]


@settings(max_examples=100, deadline=None)
@given(st.lists(few_tokens, min_size=1, max_size=40), st.integers(1, 5))
def test_each_request_has_one_process_and_equal_ones_the_same(inputs: list[Tokens], count: int) -> None:
    owners = owners_of_inputs(inputs, count, shared=True)
    assert len(owners) == len(inputs)
    assert set(owners) <= set(range(count))
    assert len({*zip(inputs, owners, strict=True)}) == len(set(inputs))
    assert owners == owners_of_inputs(inputs, count, shared=True)
    order = np.random.default_rng(0).permutation(len(inputs))
    assert owners_of_inputs([inputs[i] for i in order], count, shared=True) == [owners[i] for i in order]


@settings(max_examples=60, deadline=None)
@given(st.sets(few_tokens, min_size=1, max_size=30), st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_the_tokens_of_a_process_are_the_distinct_beginnings_of_its_requests(
    found: set[Tokens], numbers: list[int]
) -> None:
    inputs = sorted(found)
    owners = numbers[: len(inputs)]
    common = [0] + [next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
                    for a, b in pairwise(inputs)]  # fmt: skip
    lengths = np.asarray([len(one) for one in inputs])
    assert loads(lengths, np.asarray(common), np.asarray(owners), 4, shared=True) == read(inputs, owners, 4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 4))
def test_no_process_gets_much_more_than_its_part(costs: list[int], count: int) -> None:
    """Items that have nothing in common: the largest load is below the mean and one item, as with any greedy rule."""
    given_out = divide(np.asarray(costs), np.zeros(len(costs), dtype=np.int64), count, shared=True)
    busy = np.bincount(given_out, costs, minlength=count)
    assert busy.sum() == sum(costs)
    assert busy.max() <= sum(costs) / count + max(costs)


@pytest.mark.parametrize(
    ("name", "template"),
    [("quiz_design", "{context}\n\nAnswer: {answer}\nQuestion:"), ("summeval", "{context}\n\nSummary:")],
)
def test_real_sets_are_divided_equally_and_no_text_is_torn_apart(
    name: str, template: str, real_sets: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NND_HOME", str(real_sets(name).parents[1]))
    requests = [
        (document["context"], template.format(**document) + " " + text)
        for document in cluster_documents(nnd_tasks.load(name), name)
        for text in document["candidates"]
    ]
    numbers: dict[str, int] = {}  # of words, which stand for tokens
    inputs = [tuple(numbers.setdefault(word, len(numbers)) for word in text.split()) for _, text in requests]
    texts = [context for context, _ in requests]
    for count in (2, 3):
        owners = owners_of_inputs(inputs, count, shared=True)
        each = read(inputs, owners, count)
        assert max(each) / (sum(each) / count) <= 1.05
        assert len({*zip(texts, owners, strict=True)}) == len(set(texts))
        assert sum(each) <= 1.001 * tree(inputs)


def test_a_long_text_that_all_begin_with_is_read_by_all_and_its_branches_are_divided() -> None:
    stem = tuple(range(1000))
    inputs = [(*stem, group, group, item, 7) for group in range(8) for item in range(5)]
    owners = owners_of_inputs(inputs, 4, shared=True)
    assert read(inputs, owners, 4) == [1000 + 2 * (2 + 5 * 2)] * 4
    assert all(len(set(owners[start : start + 5])) == 1 for start in range(0, 40, 5))


def test_a_text_that_is_larger_than_a_share_is_divided_where_least_is_read_again() -> None:
    paragraph = tuple(range(10))
    inputs = [(*paragraph, *[question] * 10, *[answer] * 10) for question in range(4) for answer in range(4)]
    owners = owners_of_inputs(inputs, 2, shared=True)
    assert all(len(set(owners[start : start + 4])) == 1 for start in range(0, 16, 4))
    assert read(inputs, owners, 2) == [10 + 2 * (10 + 4 * 10)] * 2


def test_an_encoder_decoders_contexts_are_not_torn_apart() -> None:
    pairs = [(tuple(range(k, k + 30)), (5, 6, item)) for k in range(6) for item in range(4)]
    owners = owners_of_pairs(pairs, 3, shared=True)
    assert len({*zip([context for context, _ in pairs], owners, strict=True)}) == 6
    assert sorted(np.bincount(owners)) == [8, 8, 8]


def test_without_sharing_each_request_counts_whole() -> None:
    inputs = [(0,) * 100 + (item,) for item in range(12)]
    assert sorted(np.bincount(owners_of_inputs(inputs, 3, shared=False))) == [4, 4, 4]


def test_masked_models_are_given_by_what_they_read() -> None:
    pairs = [((1, 2, 3), (k,) * n) for k, n in enumerate((10, 5, 5, 5))]
    owners = owners_of_masked(pairs, 2)  # 130 tokens against 3 x 40
    assert owners[0] not in owners[1:]
    assert len(set(owners[1:])) == 1


def test_texts_are_divided_too() -> None:
    texts = [letter * 10 + digit for letter in "abc" for digit in "12"]
    owners = owners_of_texts(texts, 3)
    assert sorted(np.bincount(owners)) == [2, 2, 2]
    assert owners_of_texts([], 3) == []


def test_there_may_be_more_processes_than_requests() -> None:
    assert len(set(owners_of_inputs([(1, 2), (3, 4)], 5, shared=True))) == 2
    assert owners_of_inputs([], 2, shared=True) == []
