"""Packs of a prefix tree: every sequence is there, and every token sees its own ancestors and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.harness.prefix_tree import branch_mask, common_prefix, make_packs, rows_of

tokens = st.integers(0, 2)
sequences = st.sets(st.lists(tokens, min_size=1, max_size=12).map(tuple), min_size=1, max_size=25).map(sorted)


@settings(max_examples=300)
@given(sequences, st.sampled_from([3, 10, 100]), st.sampled_from([0, 2, 8]))
def test_every_token_of_every_sequence_sees_its_own_ancestors(
    found: list[tuple[int, ...]], row: int, worth: int
) -> None:
    seen: list[int] = []
    for pack in make_packs(found, row, 4 * row, worth):
        trunk = len(pack.tokens)
        mask = pack.trunk_mask()
        for i, path in pack.paths.items():
            seen.append(i)
            assert tuple(pack.tokens[path]) == found[i][: len(path)]
            assert pack.positions[path].tolist() == list(range(len(path)))
            for k, node in enumerate(path):
                assert np.flatnonzero(mask[node]).tolist() == sorted(path[: k + 1])
        left = {branch.sequence: branch for branch in pack.branches}
        for i, path in pack.paths.items():
            assert (i in left) == (len(path) < len(found[i]))
        for branches in rows_of(pack.branches, found, row):
            lengths = [len(found[branch.sequence]) - branch.start for branch in branches]
            assert sum(lengths) <= row or len(branches) == 1
            owners = np.repeat(np.arange(len(branches)), lengths)
            anchors = np.repeat([branch.anchor for branch in branches], lengths)
            seeing = branch_mask(pack, owners, anchors)
            offset = 0
            for branch, length in zip(branches, lengths, strict=True):
                path = pack.paths[branch.sequence]
                assert branch.start == len(path)
                for k in range(length):
                    columns = np.flatnonzero(seeing[offset + k])
                    assert columns[columns < trunk].tolist() == sorted(path)
                    assert (columns[columns >= trunk] - trunk).tolist() == list(range(offset, offset + k + 1))
                offset += length
    assert seen == list(range(len(found)))


@given(sequences)
def test_in_one_pack_every_distinct_beginning_is_read_once(found: list[tuple[int, ...]]) -> None:
    """The number of nodes of a trie, counted from its definition."""
    [pack] = make_packs(found, 10**6, 10**6)
    nodes = {sequence[:n] for sequence in found for n in range(1, len(sequence) + 1)}
    assert len(pack.tokens) == len(nodes)
    assert not pack.branches


def test_a_large_pack_reads_what_is_shared_once_and_the_rest_in_rows() -> None:
    stem = tuple(range(100, 120))
    found = sorted((*stem, i, i, i) for i in range(30))
    [pack] = make_packs(found, 50, 1000)
    assert pack.tokens.tolist() == list(stem)
    assert [len(row) for row in rows_of(pack.branches, found, 50)] == [16, 14]


def test_little_in_common_is_no_reason_for_a_large_pack() -> None:
    found = sorted((1, *range(10 * i, 10 * i + 9)) for i in range(10))  # all begin with one token, such as BOS
    packs = list(make_packs(found, 40, 10**6))
    assert len(packs) > 1
    assert all(len(pack.tokens) <= 40 and not pack.branches for pack in packs)


def test_a_sequence_longer_than_a_row_has_a_pack_of_its_own() -> None:
    found = [tuple(range(90)), tuple(range(1000, 1010))]
    first, second = make_packs(found, 50, 100)
    assert (len(first.tokens), len(first.branches)) == (90, 0)
    assert (len(second.tokens), len(second.branches)) == (10, 0)


@given(sequences)
def test_without_their_roots_sequences_of_different_roots_share_nothing(found: list[tuple[int, ...]]) -> None:
    [whole] = make_packs(found, 10**6, 10**6)
    pack, roots = whole.without_roots()
    assert len(pack.tokens) == len({sequence[:n] for sequence in found for n in range(2, len(sequence) + 1)})
    mask = pack.trunk_mask()
    for i, path in pack.paths.items():
        path = path[1:]
        assert tuple(pack.tokens[path]) == found[i][1:]
        assert pack.positions[path].tolist() == list(range(len(path)))
        assert set(roots[path]) <= {found[i][0]}
        for k, node in enumerate(path):
            assert np.flatnonzero(mask[node]).tolist() == sorted(path[: k + 1])


@pytest.mark.parametrize(
    ("one", "two", "length"), [((), (1,), 0), ((1, 2), (1, 2, 3), 2), ((1, 2), (1, 3), 1), ((2,), (3,), 0)]
)
def test_common_beginnings(one: tuple[int, ...], two: tuple[int, ...], length: int) -> None:
    assert common_prefix(one, two) == common_prefix(two, one) == length
