"""Covers chains.

Attention in blocks: what it leaves out is masked. That models give the same numbers with it is shown in `test_sums.py`, where
rows are also read in as many blocks as there can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nnd_tasks.models import tree_layers
from nnd_tasks.models.prefix_tree import PackLimits, TreeMask, make_packs, make_rows
from nnd_tasks.models.tree_layers import Block, blocks_of, in_blocks

#: Sorted sequences of few different tokens: they share a lot, at many depths.
sequences = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=14).map(tuple), min_size=1, max_size=25, unique=True
).map(sorted)


def check(blocks: list[Block], mask: NDArray[np.bool_]) -> None:
    """Assert that blocks hold every token once, and every key that one of their tokens sees."""
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == len(mask)
    for block in blocks:
        kept = np.zeros(mask.shape[1], dtype=bool)
        assert list(block.keys) == sorted(block.keys)
        for start, stop in block.keys:
            assert 0 <= start < stop <= mask.shape[1]
            assert not kept[start:stop].any(), "no key twice"
            kept[start:stop] = True
        assert not mask[block.start : block.stop, ~kept].any()


def masks_of(found: list[tuple[int, ...]], row: int, total: int) -> Iterator[TreeMask]:
    """Yield the trees of all rows with which these sequences are read."""
    for pack in make_packs(found, PackLimits(row, total, min_shared=2)):
        if len(pack.tokens):
            yield pack.mask or TreeMask(pack.positions, pack.ends)
        yield from (rows.mask for rows in make_rows(pack, found, row))


@settings(max_examples=150, deadline=None)
@given(sequences, st.integers(3, 12), st.integers(3, 40), st.sampled_from([0, 20, 4096]))
def test_blocks_leave_out_only_what_is_masked(found, row, total, call):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_layers, "CALL", call)
        patch.setattr(tree_layers, "COPY", min(call, 10))
        for mask in masks_of(found, row, total):
            seen = mask.visible("cpu").numpy()
            check(blocks_of(mask), seen)
            if not call:  # each chain on its own: no more keys than the last of its tokens sees
                for block in blocks_of(mask):
                    assert sum(stop - start for start, stop in block.keys) <= seen[block.stop - 1].sum()


def test_many_contexts_in_a_row_are_blocks_and_short_rows_are_one():
    contexts = [(i, *range(10, 160)) for i in range(6)]
    [mask] = masks_of(contexts, 1024, 4096)
    assert [(block.start, block.keys) for block in blocks_of(mask)] == [
        (151 * i, ((151 * i, 151 * (i + 1)),)) for i in range(6)
    ]
    [mask] = masks_of([(1, 2, 3), (1, 2, 4), (5, 6)], 1024, 4096)
    assert len(blocks_of(mask)) == 1


def test_the_model_gets_its_own_attention_back():
    config = SimpleNamespace(_attn_implementation="sdpa")
    mask = next(masks_of([(i, *range(10, 160)) for i in range(6)], 1024, 4096))

    def read():
        with in_blocks(config, mask):
            assert config._attn_implementation == tree_layers.NAME
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        read()
    assert config._attn_implementation == "sdpa"
    assert tree_layers._plan is None
