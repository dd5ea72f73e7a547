"""Trunks hold every sequence once, and are worth what they cost."""

from __future__ import annotations

import random

import pytest

from nnd_tasks.models.snapshot_plan import DEEPEST, Trunk, plan_snapshots


def spelled(root: Trunk, sequences: list[tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Return index -> what is read for the sequence, from trunk to trunk, as a reader of the plan would."""
    found: dict[int, tuple[int, ...]] = {}

    def read(trunk: Trunk, before: tuple[int, ...]) -> None:
        before += sequences[trunk.first][trunk.begin : trunk.end]
        inside = {i for inner in trunk.within for i in range(inner.first, inner.last + 1)}
        for i in range(trunk.first, trunk.last + 1):
            if i in trunk.leaves:
                assert i not in inside
                found[i] = before + sequences[i][trunk.end :]
            elif i not in inside:
                found[i] = before
        for inner in trunk.within:
            assert inner.begin == trunk.end < inner.end
            read(inner, before)

    read(root, ())
    return found


def some(seed: int) -> list[tuple[int, ...]]:
    draw = random.Random(seed)
    return sorted({tuple(draw.choice((1, 1, 1, 2)) for _ in range(draw.randint(1, 14))) for _ in range(40)})


@pytest.mark.parametrize("price", [0, 1, 5, 50])
@pytest.mark.parametrize("seed", range(8))
def test_every_sequence_is_read_whole_and_once(seed: int, price: int) -> None:
    sequences = some(seed)
    root = plan_snapshots(sequences, price)
    assert spelled(root, sequences) == dict(enumerate(sequences))
    for trunk in root.walk():
        if trunk is not root:
            assert (trunk.last - trunk.first) * (trunk.end - trunk.begin) > price


def test_a_paragraph_its_questions_and_their_candidates() -> None:
    paragraph = (1,) * 50
    sequences = sorted(
        (*paragraph, *[question] * 20, *[candidate] * 5) for question in (2, 3) for candidate in (4, 5, 6)
    )
    [outer] = plan_snapshots(sequences, 16).within
    assert (outer.begin, outer.end, outer.leaves) == (0, 50, [])
    assert sorted((inner.begin, inner.end, len(inner.leaves)) for inner in outer.within) == [(50, 70, 3)] * 2


def test_a_short_common_beginning_is_read_again() -> None:
    sequences = [(1, 2, *[candidate] * 5) for candidate in (4, 5, 6)]
    assert plan_snapshots(sequences, 16) == Trunk(0, 2, 0, 0, [], [0, 1, 2])


def test_without_a_price_no_token_is_read_twice() -> None:
    sequences = some(0)
    root = plan_snapshots(sequences, 0)
    assert max(map(len, sequences)) < 2 * DEEPEST
    read = sum(trunk.end - trunk.begin for trunk in root.walk())
    read += sum(len(sequences[i]) - trunk.end for trunk in root.walk() for i in trunk.leaves)
    assert read == len({sequence[: k + 1] for sequence in sequences for k in range(len(sequence))})


def test_many_beginnings_within_one_another_keep_few_snapshots() -> None:
    """A candidate that repeats one token, in 400 lengths."""
    sequences = [(1,) * length for length in range(1, 401)]
    root = plan_snapshots(sequences, 16)
    assert spelled(root, sequences) == dict(enumerate(sequences))
    assert len(list(root.walk())) <= DEEPEST + 1
