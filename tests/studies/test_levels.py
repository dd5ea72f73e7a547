"""A higher level of an error adds to a lower one, in real texts."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.studies.stress.corpora import read_corpus
from nnd_tasks.studies.stress.edits import Edit, Parser, join
from nnd_tasks.studies.stress.error_types import ERRORS, negate, switch
from tests.studies.pipeline import is_within, rough, split_into

PARSER = Parser(rough())
DONORS = [f"This is sentence {i} of another text." for i in range(40)]
DRAFT = Edit(
    PARSER,
    sentences_of_others=[(donor, "other") for donor in DONORS],
    fill=lambda words, place: ["violet", "marble", "seven"],
)


def letters(text, gold=""):
    return list("".join(text.split()))


def words(text, gold):
    return text.split()


def sentences(text, gold):
    spans = PARSER.sentences(gold)
    negated = [new.rstrip() for span in spans if (new := negate(span))]
    return split_into(text, [*map(join, spans), *negated, *DONORS])


def same(split):
    """Return whether all parts that the lower level changed are the same in the higher one."""

    def check(gold, lower, higher):
        parts = zip(*(split(text, gold) for text in (gold, lower, higher)), strict=True)
        return all(high == low for whole, low, high in parts if low != whole)

    return check


def taken_away(gold, lower, higher):
    return is_within(letters(higher), letters(lower))


def same_words_gone(gold, lower, higher):
    """Return whether the higher level lacks every word that the lower one lacks."""
    before = Counter(gold.split())
    return not (before - Counter(lower.split())) - (before - Counter(higher.split()))


CHECKS = {
    **dict.fromkeys(["token_drop", "stop_word_removal", "article_removal", "preposition_removal"], taken_away),
    **dict.fromkeys(["noised_punctuation", "middle_swap"], same(letters)),
    **dict.fromkeys(["verb_lemmatization", "bert_diverge"], same(words)),
    **dict.fromkeys(["sentence_replacement", "negation"], same(sentences)),
    "generic_named_entity": same_words_gone,
    "truncation": lambda gold, lower, higher: lower.startswith((higher, higher[:-1])),
    "repeated_token": lambda gold, lower, higher: taken_away(gold, higher, lower),
    "repetition": lambda gold, lower, higher: higher.startswith(lower),
}


def test_every_graded_error_is_looked_at():
    """Those that switch one pair after the other have a test of their own below."""
    switching = {name for name, kind in ERRORS.items() if kind.switching} - {"middle_swap", "positioned_error_shuffle"}
    assert {*CHECKS} | switching == {name for name, kind in ERRORS.items() if kind.graded} - {"copy_source"} | {
        "repetition"
    }


@pytest.mark.parametrize("name", CHECKS)
def test_a_higher_level_adds_to_a_lower_one(name, data):
    changed = 0
    for corpus in ("wikitext", "cnndm", "ted"):
        texts = [gold.text for gold in read_corpus(corpus, data / "blindspot").texts]
        for seed, text in enumerate(random.Random(0).sample(texts, 12)):
            if name == "bert_diverge":  # a word that is replaced by two parts would hide which word went where
                text = " ".join(word for word in text.split() if word.isalpha() and len(PARSER.parse(word)) == 1)
            if name == "middle_swap":
                text = text.lower()  # it changes capital letters
            levels = ERRORS[name].choose_levels(corpus) or ERRORS[name].choose_levels("cnndm")
            made = [ERRORS[name].make(DRAFT, text, level, random.Random(seed)) for level in levels]
            for lower, higher in pairwise(made):
                assert CHECKS[name](text, lower, higher), (corpus, text, lower, higher)
            changed += made[0] != made[-1] != text
    assert changed > 5, "else nothing was looked at"


@given(st.integers(0, 40), st.integers(0, 30), st.integers(0, 3), st.integers(0, 1000))
def test_more_switches_go_on_from_fewer(movable, amount, fixed, seed):
    """What `amount` pairs give, one more pair gives but for two parts that change places; the last parts stay."""
    parts = [str(i) for i in range(movable + fixed)]
    fewer, more = (switch(list(parts), movable, pairs, random.Random(seed)) for pairs in (amount, amount + 1))
    assert sorted(fewer) == sorted(parts)
    assert fewer[movable:] == parts[movable:]
    assert sum(a != b for a, b in zip(fewer, more, strict=True)) in (0, 2)
    moved, later = ({i for i, part in enumerate(parts) if part != new[i]} for new in (fewer, more))
    assert moved <= later
    assert len(moved) == 2 * amount if 2 * amount <= movable else len(moved) >= movable - 1 - (movable < 2)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 1000))
def test_what_is_drawn_begins_alike_for_every_number(items, count, seed):
    every, some = (Edit(PARSER, rng=random.Random(seed)).draw(range(items), number) for number in (items, count))
    assert sorted(every) == list(range(items))
    assert some == every[:count]
