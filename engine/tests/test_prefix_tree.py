"""Packs of a prefix tree: every sequence is there, and every token sees its own ancestors and nothing else."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_prefix.architectures import Reach
from shared_prefix.prefix_tree import PackLimits, make_packs

tokens = st.integers(0, 2)
sequences = st.sets(st.lists(tokens, min_size=1, max_size=12).map(tuple), min_size=1, max_size=25).map(sorted)


@settings(max_examples=200)
@given(sequences, st.sampled_from([1, 3, 10, 100]), st.sampled_from([0, 2, 8]))
def test_every_token_of_every_sequence_sees_its_own_ancestors(found, row, worth):
    seen = []
    for pack in make_packs(found, PackLimits(row, 4 * row, worth)):
        trunk, stem = len(pack.tokens), pack.mask.stem
        assert not stem or stem > row
        mask = pack.mask.visible("cpu").numpy()
        assert not pack.mask.is_text or (mask == np.tri(trunk, dtype=bool)).all()
        assert mask.shape == (trunk, stem + trunk)
        assert mask[:, :stem].all()
        for i, path in pack.paths.items():
            seen.append(i)
            if stem:
                assert found[i][:stem] == found[pack.owner][:stem]
            assert tuple(pack.tokens[path]) == found[i][stem : stem + len(path)]
            assert pack.mask.positions[path].tolist() == list(range(stem, stem + len(path)))
            for k, node in enumerate(path):
                assert (np.flatnonzero(mask[node, stem:])).tolist() == sorted(path[: k + 1])
        left = {branch.sequence: branch for branch in pack.branches}
        for i, path in pack.paths.items():
            assert (i in left) == (stem + len(path) < len(found[i]))
        for rows in pack.rows(found, row):
            branches, lengths = rows.branches, rows.lengths
            assert lengths == [len(found[branch.sequence]) - branch.start for branch in branches]
            assert sum(lengths) <= row or len(branches) == 1
            assert all(branch.start == stem + len(pack.paths[branch.sequence]) for branch in branches)
    assert seen == list(range(len(found)))


def assert_reaches(mask, paths, reach):
    """Check what each token of a row sees; ``paths`` has the keys of its ancestors and itself, in the order of positions."""
    seen = mask.visible("cpu", reach).numpy()
    for token, path in paths.items():
        own = len(path) - 1
        near = [
            key
            for position, key in enumerate(path)
            if (reach.window is None or position > own - reach.window)
            and (reach.chunk is None or position // reach.chunk == own // reach.chunk)
        ]
        assert np.flatnonzero(seen[token]).tolist() == sorted(near)


@given(
    sequences,
    st.sampled_from([1, 3, 10]),
    st.builds(Reach, st.one_of(st.none(), st.integers(1, 9)), st.one_of(st.none(), st.integers(1, 9))),
)
def test_windows_and_chunks_are_counted_in_positions_also_over_stem_and_trunk(found, row, reach):
    for pack in make_packs(found, PackLimits(row, 4 * row, 0)):
        stem, trunk = list(range(pack.mask.stem)), len(pack.tokens)
        before = {i: [*stem, *(pack.mask.stem + path).tolist()] for i, path in pack.paths.items()}
        if trunk:
            ancestors = {k - pack.mask.stem: keys[: at + 1] for keys in before.values() for at, k in enumerate(keys)}
            assert_reaches(pack.mask, {token: path for token, path in ancestors.items() if token >= 0}, reach)
        for rows in pack.rows(found, row):
            offset, paths = 0, {}
            for branch, length in zip(rows.branches, rows.lengths, strict=True):
                own = [pack.mask.stem + trunk + offset + k for k in range(length)]
                paths |= {offset + k: [*before[branch.sequence], *own[: k + 1]] for k in range(length)}
                offset += length
            assert_reaches(rows.mask, paths, reach)


def read(found, row):
    """Return how many tokens are read, each stem once."""
    packs = list(make_packs(found, PackLimits(row, 16 * row)))
    stems = {pack.owner: pack.mask.stem for pack in packs if pack.mask.stem}
    branches = sum(len(found[branch.sequence]) - branch.start for pack in packs for branch in pack.branches)
    return sum(stems.values()) + sum(len(pack.tokens) for pack in packs) + branches


def test_a_beginning_longer_than_a_row_is_read_once():
    stem = tuple(range(1000, 1500))
    one = sorted((*stem, i, i, i) for i in range(200))
    assert read(one, 64) == 500 + 200 * 3
    shots = tuple(range(1000, 1300))  # few-shot examples, then contexts of 40 tokens with 5 candidates each
    many = sorted((*shots, *range(100 * c, 100 * c + 40), 7, k) for c in range(10) for k in range(5))
    assert read(many, 64) == 300 + 10 * (40 + 1 + 5)


def test_stems_of_stems_are_stems_of_their_own():
    """Some sequences have a row in common, and some of these another row: each is read once per longer stem."""
    shots = tuple(range(1000, 1100))
    contexts = [tuple(range(2000 + 1000 * c, 2100 + 1000 * c)) for c in range(3)]
    found = sorted((*shots, *context, k) for context in contexts for k in range(5))
    packs = list(make_packs(found, PackLimits(64, 1024)))
    assert [pack.mask.stem for pack in packs] == [200, 200, 200]
    assert read(found, 64) == 3 * (200 + 5)


def test_a_full_pack_ends_where_neighbours_share_least():
    """Contexts that share 10 tokens, with five candidates each: no pack ends between the candidates of one context."""
    found = sorted((*range(10), *range(100 * c, 100 * c + 20), k, k) for c in range(1, 41) for k in range(5))
    for row in (50, 64, 100, 150):
        packs = len(list(make_packs(found, PackLimits(row, 16 * row))))
        assert read(found, row) == 10 * packs + 40 * (20 + 5 * 2)


def test_a_large_pack_reads_what_is_shared_once_and_the_rest_in_rows():
    stem = tuple(range(100, 120))
    found = sorted((*stem, i, i, i) for i in range(30))
    [pack] = make_packs(found, PackLimits(50, 1000))
    assert pack.tokens.tolist() == list(stem)
    assert [len(row.branches) for row in pack.rows(found, 50)] == [16, 14]


def test_little_in_common_is_no_reason_for_a_large_pack():
    found = sorted((1, *range(10 * i, 10 * i + 9)) for i in range(10))  # all begin with one token, such as BOS
    packs = list(make_packs(found, PackLimits(40, 10**6)))
    assert len(packs) > 1
    assert all(len(pack.tokens) <= 40 and not pack.branches for pack in packs)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(tokens, min_size=1, max_size=6).map(tuple)), min_size=1, unique=True)
)
def test_sequences_of_different_groups_share_nothing(found):
    numbers, texts = zip(*sorted(found), strict=True)
    [pack] = make_packs(texts, PackLimits(10**6, 10**6), groups=numbers)
    assert len(pack.tokens) == len({(number, text[:n]) for number, text in found for n in range(1, len(text) + 1)})
    mask = pack.mask.visible("cpu").numpy()
    for i, path in pack.paths.items():
        assert tuple(pack.tokens[path]) == texts[i]
        assert pack.mask.positions[path].tolist() == list(range(len(path)))
        for k, node in enumerate(path):
            assert np.flatnonzero(mask[node]).tolist() == sorted(path[: k + 1])


def test_the_example_in_the_text_of_neighbours():
    texts = ("abcde", "abcdf", "abcdgh", "xypq", "xyr", "xys")
    packs = make_packs([tuple(map(ord, text)) for text in texts], PackLimits(3, 6, min_shared=2))
    found = [
        ("".join(map(chr, pack.tokens)), pack.mask.stem, pack.owner, [branch.anchor for branch in pack.branches])
        for pack in packs
    ]
    assert found == [("ef", 4, 0, []), ("gh", 4, 0, []), ("xy", 0, -1, [1, 1, 1])]
