"""Scoring with an engine that caches prefixes: garbage for what it read from its cache must never get into a sum.

The engine is simulated: blocks are cached when they are scheduled, the longest cached beginning is taken, at least one token
is read, and the rows of cached tokens are garbage that looks like log-probabilities, as with vLLM.
"""

import hashlib
import random
from collections import OrderedDict
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_prefix.prefix_cache import Ask, CacheLayout, PrefixCacheScoring

VOCABULARY = range(1, 6)
GARBAGE = -0.125  # a plausible log-probability; no sum of the model has it in its digits


def logprob(prefix, token):
    """The model: a function of the whole prefix, in thousandths, so that sums show what they are made of."""
    value = hashlib.sha256(bytes([*prefix, 255, token])).digest()
    return -(1 + int.from_bytes(value[:2], "big") % 5000) / 1000


def scored(prefix, token):
    return logprob(prefix, token), logprob(prefix, token) == max(logprob(prefix, other) for other in VOCABULARY)


def truth(tokens, start):
    numbers = [scored(tokens[:at], tokens[at]) for at in range(start, len(tokens))]
    return sum(number for number, _ in numbers), all(likeliest for _, likeliest in numbers)


@dataclass
class FakeAnswer:
    ask: Ask
    cached: int | None

    def row(self, position):
        assert self.ask.rows
        if position <= (self.cached or 0):
            return GARBAGE, True
        return scored(self.ask.tokens[:position], self.ask.tokens[position])

    def after(self, token):
        assert token in self.ask.following
        return scored(self.ask.tokens, token)


class FakeEngine:
    """An engine with a prefix cache of ``blocks`` blocks.

    Args:
        silent: it does not say how much came from its cache.
        meddle: called before each prompt, with the cache.
    """

    def __init__(self, block, blocks=10**6, silent=False, meddle=lambda cache: None):
        self.block, self.blocks, self.silent, self.meddle = block, blocks, silent, meddle
        self.cache = OrderedDict()
        self.asks = []
        self.computed = []

    def send(self, asks):
        return [self._one(ask) for ask in asks]

    def _one(self, ask):
        self.meddle(self.cache)
        self.asks.append(ask)
        cached = 0
        if not ask.fresh:
            while cached + self.block < len(ask.tokens) and ask.tokens[: cached + self.block] in self.cache:
                cached += self.block
        for end in range(self.block, len(ask.tokens) + 1, self.block):
            self.cache[ask.tokens[:end]] = None
            self.cache.move_to_end(ask.tokens[:end])
        while len(self.cache) > self.blocks:
            self.cache.popitem(last=False)
        self.computed += [ask.tokens[: at + 1] for at in range(cached, len(ask.tokens))]
        return FakeAnswer(ask, None if self.silent else cached)


def score(engine, requests, **layout):
    """Score requests (context, continuation) with an engine, and compare every answer with the model's own."""
    sequences = [context + continuation for context, continuation in requests]
    starts = [len(context) for context, _ in requests]
    capacity = layout.pop("capacity", 10**6)
    scoring = PrefixCacheScoring(sequences, starts, CacheLayout(engine.block, capacity, **layout), engine.send)
    answers = {request.index: request.answer for request in scoring.run()}
    assert sorted(answers) == list(range(len(requests)))
    for i, (sequence, start) in enumerate(zip(sequences, starts, strict=True)):
        total, likeliest = truth(sequence, start)
        assert answers[i][0] == pytest.approx(total, abs=1e-9), (i, sequence, start)
        assert answers[i][1] == likeliest
    return scoring


def text(length, seed=0):
    return tuple(random.Random(seed).choices(VOCABULARY, k=length))


# ---------------------------------------------------------------- cases


@pytest.mark.parametrize(
    ("context", "continuations", "seeds"),
    [
        # A context is read once, and without log-probabilities.
        (text(21), [text(n, n) for n in (3, 5, 6)], [Ask(text(21)[:20])]),
        # The first token after a context that ends with a block comes from the context.
        (text(8), [(1, 2), (2, 2), (2, 3, 1), (5,)], [Ask(text(8), following=(1, 2, 5))]),
        # Candidates that part where a block ends need one prompt more.
        (text(6), [(*text(6, 1), *rest) for rest in ((1, 2), (2,), (3, 3, 3))],
         [Ask(text(6)[:4]), Ask(text(6) + text(6, 1), rows=True, following=(1, 2, 3))]),
        # More first tokens than one prompt may ask for.
        (text(8), [(token,) for token in VOCABULARY], [Ask(text(8), following=(1, 2, 3)), Ask(text(8), following=(4, 5))]),
        # A candidate that another begins with is not sent.
        (text(6), [text(10, 1)[:n] for n in (10, 6, 2, 10)], [Ask(text(6)[:4])]),
    ],
)  # fmt: skip
def test_what_is_sent(context, continuations, seeds):
    engine = FakeEngine(4)
    scoring = score(engine, [(context, continuation) for continuation in continuations], following=3)
    assert [ask for ask in engine.asks if ask.following or not ask.rows] == seeds
    sent = {ask.tokens for ask in engine.asks if ask not in seeds}
    longest = [
        one for one in continuations if not any(other[: len(one)] == one and other != one for other in continuations)
    ]
    assert sent == {context + one for one in longest}
    assert scoring.sent.again == 0


def test_an_engine_that_does_not_say_what_was_cached_is_not_believed():
    engine = FakeEngine(4, silent=True)
    with pytest.raises(RuntimeError, match="no log-probabilities"):
        score(engine, [(text(6), (1, 2))])


def test_a_cache_that_holds_little_is_filled_part_by_part():
    requests = [(text(18, seed), text(n, n)) for seed in range(6) for n in (3, 5, 9)]
    roomy, small = FakeEngine(4), FakeEngine(4, blocks=40)
    score(roomy, requests)
    scoring = score(small, requests, capacity=160)
    assert scoring.sent.again == 0
    assert len(small.computed) == len(roomy.computed)  # nothing was evicted before its use


def test_answers_come_as_soon_as_they_are_known():
    engine = FakeEngine(4)
    requests = [(text(9, seed), text(3, n)) for seed in range(5) for n in (3, 5)]
    sequences = [context + continuation for context, continuation in requests]
    layout = CacheLayout(4, 10**6, together=3)
    scoring = PrefixCacheScoring(sequences, [len(context) for context, _ in requests], layout, engine.send)
    sent_at = [len(engine.asks) for _ in scoring.run()]
    assert sent_at[0] == 3
    assert len(set(sent_at)) == len(range(0, sent_at[-1], 3))


# ---------------------------------------------------------------- anything

few = st.integers(1, 3)
contexts = st.lists(few, min_size=1, max_size=14).map(tuple)
continuations = st.lists(few, min_size=1, max_size=11).map(tuple)


@st.composite
def workloads(draw):
    """Requests with much in common: contexts that are beginnings of others, candidates that go on as others do."""
    some = draw(st.lists(contexts, min_size=1, max_size=3))
    found = []
    for _ in range(draw(st.integers(1, 9))):
        context = draw(st.sampled_from(some + [one + two for one, two in found]))[:24]
        continuation = draw(continuations)
        if found and draw(st.booleans()):
            continuation = (draw(st.sampled_from(found))[1][: draw(st.integers(0, 9))] + continuation)[:14]
        found.append((context, continuation))
    return found


@given(workloads(), st.integers(1, 6))
@settings(max_examples=80)
def test_with_an_empty_cache_that_is_large_enough_nothing_is_sent_twice(requests, block):
    engine = FakeEngine(block)
    scoring = score(engine, requests)
    assert scoring.sent.again == 0
    # A token is computed again only in a part of a block, or in the last block of a prompt that was asked what follows.
    whole = [prefix for prefix in engine.computed if len(prefix) % block == 0]
    asked = {ask.tokens for ask in engine.asks if ask.following}
    assert {prefix for prefix in whole if whole.count(prefix) > 1} <= asked


@given(
    *(workloads(), st.integers(1, 5), st.integers(1, 12), st.sampled_from([1, 2, 128]), st.integers(1, 9)),
    st.integers(0, 2**32),
)
@settings(max_examples=120)
def test_a_cache_of_which_nothing_is_as_expected(requests, block, blocks, following, together, seed):
    """Blocks vanish, and beginnings that were never asked for are there."""
    random_ = random.Random(seed)
    known = [context + continuation for context, continuation in requests]

    def meddle(cache):
        for prefix in [prefix for prefix in cache if random_.random() < 0.3]:
            del cache[prefix]
        tokens = random_.choice(known)
        for end in range(block, len(tokens) + 1, block):
            cache[tokens[:end]] = None

    engine = FakeEngine(block, blocks, meddle=meddle)
    score(engine, requests, capacity=blocks * block, following=following, together=together)
