"""Attention in blocks: what it leaves out is masked. Recurrent layers: each token goes on from its own sequence. That models give
the same numbers is shown in `test_sums.py`, where rows are also read in as many blocks as there can be.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shared_prefix import tree_layers
from shared_prefix.prefix_tree import PackLimits, make_packs
from shared_prefix.tree_layers import Scan, TreeScan, _Reading, blocks_of, in_blocks

#: Sorted sequences of few different tokens: they share a lot, at many depths.
sequences = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=14).map(tuple), min_size=1, max_size=25, unique=True
).map(sorted)


def check(blocks, mask):
    """Assert that blocks hold every token once, and every key that one of their tokens sees."""
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == len(mask)
    for block in blocks:
        kept = np.zeros(mask.shape[1], dtype=bool)
        for start, stop in block.keys:
            assert 0 <= start < stop <= mask.shape[1]
            assert not kept[start:stop].any(), "no key twice"
            kept[start:stop] = True
        assert not mask[block.start : block.stop, ~kept].any()


def masks_of(found, row, total):
    """Yield the trees of all rows with which these sequences are read."""
    for pack in make_packs(found, PackLimits(row, total, min_shared=2)):
        if len(pack.tokens):
            yield pack.mask
        yield from (rows.mask for rows in pack.rows(found, row))


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
        (151 * i, [(151 * i, 151 * (i + 1))]) for i in range(6)
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
    assert tree_layers._plan.get() is None


# ---------------------------------------------------------------- recurrent layers


def _running_sum(values, g, chunk_size, initial_state):
    """Return a scan whose result at a token is that before it, times 3, plus the token; padding (g is 0) changes nothing."""
    state = torch.zeros(len(values), dtype=values.dtype) if initial_state is None else initial_state
    results = []
    for step in range(values.shape[1]):
        state = torch.where(g[:, step] > 0, 3 * state + values[:, step], state)
        results.append(state)
    return torch.stack(results, dim=1), state


SUM = Scan("_running_sum", "initial_state")


@given(sequences, st.integers(3, 12), st.integers(3, 40), st.sampled_from([0, 8, 30]))
def test_each_token_goes_on_from_its_own_sequence(found, row, total, price):
    """A scan and a convolution over 3 tokens, in whole numbers, against each sequence read alone."""
    expected = {}
    for one in found:
        result = 0
        for k, token in enumerate(one, 1):
            result = 3 * result + token + 1
            expected[one[:k]] = result, sum((t + 1) * 10**i for i, t in enumerate(reversed(one[max(k - 3, 0) : k])))
    weight = torch.tensor([[100, 10, 1]])

    def read(tokens, ends, origins, keep, before):
        reading = _Reading(TreeScan(ends, origins, keep, price), before)
        values = torch.as_tensor(np.asarray(tokens) + 1)[None]

        def convolution(inputs, weight):
            padded = torch.nn.functional.pad(inputs, (2, 0))
            return sum(padded[..., k : k + inputs.shape[-1]] * weight[0, k] for k in range(3))

        convolved = reading.convolve(convolution, values[None], weight)[0, 0]
        scanned, _ = reading.scan_row(SUM, _running_sum, values, g=torch.ones_like(values))
        return scanned[0], convolved, reading.kept

    nowhere = np.zeros(0, dtype=np.int64)
    for pack in make_packs(found, PackLimits(row, total, min_shared=2, max_anchors=3)):
        stem, count = None, len(pack.tokens)
        anchors = np.unique(np.array([branch.anchor for branch in pack.branches], dtype=np.int64))
        assert len(anchors) <= 3
        if pack.mask.stem:
            line = found[pack.owner][: pack.mask.stem]
            *_, stem = read(
                line,
                np.full(pack.mask.stem, pack.mask.stem),
                np.zeros(pack.mask.stem, int),
                np.array([pack.mask.stem - 1]),
                None,
            )
        states = stem
        if count:
            scanned, convolved, states = read(pack.tokens, pack.mask.ends, np.zeros(count, int), anchors, stem)
            for i, path in pack.paths.items():
                for k, place in enumerate(path.tolist(), pack.mask.stem + 1):
                    assert (scanned[place], convolved[place]) == expected[found[i][:k]]
        for rows in pack.rows(found, row):
            origins = np.zeros(len(rows.tokens), int) if states is None else states.rows(rows.mask.anchors)
            scanned, convolved, _ = read(rows.tokens, rows.mask.ends, origins, nowhere, states)
            places = [
                found[b.sequence][:k] for b in rows.branches for k in range(b.start + 1, len(found[b.sequence]) + 1)
            ]
            assert list(zip(scanned.tolist(), convolved.tolist(), strict=True)) == [expected[one] for one in places]


def test_a_context_and_its_candidates_are_two_calls_of_a_scan():
    """Three contexts of 30 tokens with four candidates each, two of which begin with the same tokens."""
    found = sorted(
        (context,) * 30 + start + tuple(range(10, 18))
        for context in (1, 2, 3)
        for start in ((4,), (5,), (6, 6, 7), (6, 6, 8))
    )
    [pack] = make_packs(found, PackLimits(1024, 4096))
    scan = TreeScan(pack.mask.ends, np.zeros(len(pack.tokens), int), np.zeros(0, int), 64)
    assert [batch.tokens.shape for batch in scan.batches] == [(3, 30), (12, 11)]
