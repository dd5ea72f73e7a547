"""Error-span NND against its definition, and on planted errors."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.likelihood.scored_tokens import ScoredTokens, unigram_surprise
from nnd_tasks.likelihood.span_metrics import SpanMetrics, auc, first_tokens, marked_tokens
from nnd_tasks.schema import break_down
from nnd_tasks.task.documents import cluster_documents
from nnd_tasks.task.reader import Answer

Marks = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30)


@given(Marks.filter(lambda pairs: len({mark for _, mark in pairs}) == 2))
def test_auc_is_the_share_of_pairs_that_a_marked_token_wins(pairs):
    marked, free = ([value for value, mark in pairs if mark is kind] for kind in (True, False))
    won = [(one > other) + (one == other) / 2 for one in marked for other in free]
    assert auc(*zip(*pairs, strict=True)) == pytest.approx(sum(won) / len(won))


def test_a_token_is_marked_if_it_has_a_character_of_an_error():
    spans = np.array([[0, 0], [0, 3], [3, 6], [4, 6], [6, 9], [9, 9]])
    for start, end, expected in ((3, 5, [2, 3]), (2, 7, [1, 2, 3, 4])):
        assert np.flatnonzero(marked_tokens(spans, [error(start, end, "")])).tolist() == expected
    assert not marked_tokens(spans, []).any()


def test_unigram_surprise_is_the_negated_logarithm_of_a_count():
    surprise = unigram_surprise([[1, 1, 1], [2]])
    once, thrice, never = surprise([2])[0], surprise([1])[0], surprise([7])[0]
    assert (once - thrice, never - once) == pytest.approx((np.log(4 / 2), np.log(2)))
    assert unigram_surprise([])([3]).shape == (1,)


#: Each of its characters is a word.
WORDS = ["." * 60]


def answer(ids, logprobs, part="whole", ends=()):
    """Return an answer whose tokens end at these places; without, each is a character."""
    made = Answer((0.0, False, len(ids)))
    made.candidate, made.context_part = 0, part
    stops = [*(ends or range(1, len(ids) + 1))]
    spans = np.column_stack([[0, *stops[:-1]], stops])
    made.tokens = ScoredTokens([*ids], spans, np.asarray(logprobs, dtype=np.float32))
    return made


def error(start, end, category):
    return {"start": start, "end": end, "category": category, "severity": ""}


BREAKDOWN = break_down(["noise", "rare"], [])


def test_planted_errors_get_what_was_planted():
    """Marks on random tokens: an excess of 0 within its interval. Marks on inserted words that surprise: near 1."""
    draw = np.random.default_rng(3)
    texts = [draw.integers(0, 40, 60) for _ in range(300)]
    unigram = unigram_surprise(texts)
    metrics = SpanMetrics(BREAKDOWN, context_reliance=False)
    items = {name: [] for name in metrics.aggregations()}
    for ids in texts:
        logprobs = -draw.exponential(2.0, len(ids))
        noise, rare = draw.choice(np.arange(60), 2, replace=False)
        logprobs[rare] = -40.0  # the model is surprised; the word is as frequent as others
        errors = [[error(noise, noise + 1, "noise"), error(rare, rare + 1, "rare")]]
        for name, value in metrics.score(WORDS, errors, [answer(ids, logprobs)], unigram).items():
            items[name].append(value)
    got = {name: pool(items[name]) for name, pool in metrics.aggregations().items()}
    assert got["span_texts"] == 300
    assert abs(got["span_auc_noise"] - 0.5) < 2 * got["span_auc_noise_stderr"]
    assert abs(got["span_excess_noise"]) < 2 * got["span_excess_noise_stderr"] < 0.1
    assert got["span_auc_rare"] == pytest.approx(1.0)
    assert got["span_excess_rare"] == pytest.approx(0.5, abs=0.06), "the unigram model is at chance here"
    assert got["span_excess"] == pytest.approx((got["span_excess_rare"] + got["span_excess_noise"]) / 2, abs=0.02)


def test_an_excess_is_of_whole_words():
    """By hand: three words of two, one and two tokens, of which the first is marked."""
    text, ends = "fauler Hund bellt", [3, 6, 11, 14, 17]  # fau|ler| Hund| be|llt
    logprobs = [-4.0, -0.5, -3.0, -2.0, -0.5]
    unigram = unigram_surprise([[1, 2, 3, 4, 5, 3, 4, 4, 4]])  # 1, 2 and 5 occur once, 3 twice, 4 four times
    items = SpanMetrics(BREAKDOWN, context_reliance=False).score(
        [text], [[error(0, 6, "rare")]], [answer([1, 2, 3, 4, 5], logprobs, ends=ends)], unigram
    )
    # By token 4 beats all three others, and 0.5 ties with one: (3 + 0.5) of 6 pairs. By word 4.5 beats 3.0 and 2.5. Of counts the
    # marked word (once, once) beats " Hund" (twice) and "bellt" (four times, once): no excess. By token it would be -0.25.
    assert items["span_auc"] == (pytest.approx(3.5 / 6), 1)
    assert items["span_excess"] == (pytest.approx(0.5), 1)


@pytest.mark.parametrize(
    ("text", "ends", "first"),
    [
        ("fauler Hund.", [3, 6, 11, 12], [0, 2, 3]),
        ("a, b", [2, 4], [0, 1]),  # "a," is one token: the word and the comma are one
        ("don't", [3, 5], [0, 1]),
        ("我爱你", [1, 3], [0, 1]),  # no spaces: a word per character, joined by tokens
        ("no way", [2, 3, 6], [0, 1]),  # a space alone belongs to what follows
    ],
)
def test_words_begin_where_no_token_joins_them(text, ends, first):
    spans = np.array(list(zip([0, *ends[:-1]], ends, strict=True)))
    assert first_tokens(text, spans).tolist() == first


def test_texts_without_a_mark_or_marked_whole_do_not_count():
    metrics, unigram = SpanMetrics(BREAKDOWN, context_reliance=True), unigram_surprise([[1, 2, 3]])
    rising, falling = answer([1, 2, 3], [-1, -2, -3]), answer([1, 2, 3], [-3, -2, -1], "none")
    for errors in ([], [error(0, 3, "rare")]):
        items = metrics.score(WORDS, [errors], [rising], unigram)
        assert items["span_texts"] == 0
        assert all(items[name] == (0.0, 0) for name in metrics.names)
    items = metrics.score(WORDS, [[error(2, 3, "rare")]], [rising, falling], unigram)
    assert items["span_texts"] == 1
    assert (items["span_auc"], items["span_auc_no_context"]) == ((1.0, 1), (0.0, 1))
    assert items["span_excess"] == (0.75, 1), "the unigram model is at chance: an excess of 0.5, kept as (0.5 + 1) / 2"
    assert (items["span_auc_rare"], items["span_auc_noise"]) == ((1.0, 1), (0.0, 0))


def test_a_document_has_each_error_of_a_candidate_once():
    mark, other = error(0, 3, "facts"), error(0, 2, "facts")
    texts = {"cluster_id": "p", "context": "c", "low": "bad", "high_first": True}
    labels = {"context_id": "g", "category": "x", "subcategory": "", "severity": ""}
    marks = {"good": [mark], "fine": [mark, other]}
    rows = [{"test_id": high, "high": high, "low_spans": spans, **texts, **labels} for high, spans in marks.items()]
    [document] = cluster_documents(pa.Table.from_pylist(rows), "made up")
    assert document["candidates"] == ["good", "bad", "fine"]
    assert document["error_spans"] == [[], [mark, other], []]


def test_rates_are_those_of_the_errors_not_of_the_tests():
    kinds = SpanMetrics.of([[[error(0, 1, "facts")], []], [[]]], BREAKDOWN, context_reliance=False)
    assert kinds.names == ["span_auc", "span_auc_facts", "span_excess", "span_excess_facts"]
    strange = SpanMetrics.of([[[error(0, 1, " ")]]], BREAKDOWN, context_reliance=False)
    assert strange.names == SpanMetrics(BREAKDOWN, context_reliance=False).names, "no metric can have this name"
