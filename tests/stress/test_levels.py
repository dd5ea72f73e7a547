"""A higher level of an error adds to a lower one: every graded type, every pair of neighbouring levels, real texts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.stress.corpora import read_corpus
from nnd_tasks.stress.error_types import ERRORS, PAPER
from nnd_tasks.stress.sentences import negate, switch
from nnd_tasks.stress.text import Edit, Parser, join
from tests.stress.pipeline import rough

PARSER = Parser(rough())
DONORS = [f"This is sentence {i} of another text." for i in range(40)]
FILLS = ["violet", "marble", "seven"]
DRAFT = Edit(PARSER, sentences_of_others=[(donor, "other") for donor in DONORS], fill=lambda words, place: FILLS)
Check = Callable[[str, str, str], bool]


def letters(text: str) -> str:
    return "".join(text.split())


def is_within(short: str, long: str) -> bool:
    rest = iter(long)
    return all(letter in rest for letter in short)


def taken_away(gold: str, lower: str, higher: str) -> bool:
    return is_within(letters(higher), letters(lower))


def put_in(gold: str, lower: str, higher: str) -> bool:
    return is_within(letters(lower), letters(higher))


def same_letters(gold: str, lower: str, higher: str) -> bool:
    """What the lower level changed is the same in the higher one; for errors that keep the number of letters."""
    return all(h == w for g, w, h in zip(*map(letters, (gold, lower, higher)), strict=True) if w != g)


def same_words(gold: str, lower: str, higher: str) -> bool:
    """As `same_letters`, for errors that keep the number of words."""
    return all(h == w for g, w, h in zip(gold.split(), lower.split(), higher.split(), strict=True) if w != g)


def same_sentences(gold: str, lower: str, higher: str) -> bool:
    """As `same_letters`, for errors that make something else of whole sentences."""
    spans = PARSER.sentences(gold)
    made = [new.rstrip() for span in spans if (new := negate(span))]
    options = sorted({*map(join, spans), *made, *DONORS}, key=len, reverse=True)

    def pieces(text: str) -> list[str]:
        found = []
        while text:
            found.append(next(option for option in options if text.startswith(option)))
            text = text[len(found[-1]) :].strip()
        return found

    return all(
        h == w for g, w, h in zip([join(span) for span in spans], pieces(lower), pieces(higher), strict=True) if w != g
    )


def same_words_gone(gold: str, lower: str, higher: str) -> bool:
    """What the lower level has no more, the higher one has neither."""
    before = Counter(gold.split())
    return not (before - Counter(lower.split())) - (before - Counter(higher.split()))


def cut_shorter(gold: str, lower: str, higher: str) -> bool:
    return lower.startswith((higher, higher[:-1]))


def goes_on(gold: str, lower: str, higher: str) -> bool:
    return higher.startswith(lower)


def distinct_words(text: str) -> str:
    words = (word for word in text.split() if word.isalpha() and len(PARSER.parse(word)) == 1)
    return " ".join(dict.fromkeys(words))


def no_pair_turned_back(gold: str, lower: str, higher: str) -> bool:
    """Every two words whose order the lower level turned round are turned round in the higher one; words are distinct."""

    def turned(text: str) -> set[tuple[str, str]]:
        place = {word: i for i, word in enumerate(text.split())}
        return {(a, b) for a, b in combinations(gold.split(), 2) if place[a] > place[b]}

    return turned(lower) <= turned(higher)


CHECKS: dict[str, Check] = {
    **dict.fromkeys(["token_drop", "stop_word_removal", "article_removal", "preposition_removal"], taken_away),
    **dict.fromkeys(["noised_punctuation", "middle_swap"], same_letters),
    **dict.fromkeys(["verb_lemmatization", "bert_diverge"], same_words),
    **dict.fromkeys(["sentence_replacement", "negation"], same_sentences),
    "generic_named_entity": same_words_gone,
    "truncation": cut_shorter,
    "repeated_token": put_in,
    "repetition": goes_on,
    "local_swap": no_pair_turned_back,
}
#: They all switch by one function, which has a test of its own below.
SWITCHING = {
    "sentence_switching", "sub_sentence_switching", "named_entity_switching", "verb_switching", "noun_switching"
}  # fmt: skip


def test_every_graded_error_is_looked_at() -> None:
    assert set(CHECKS) | SWITCHING == {name for name, kind in ERRORS.items() if kind.graded} - {"copy_source"} | {
        "repetition"
    }


@pytest.mark.parametrize("name", CHECKS)
def test_a_higher_level_adds_to_a_lower_one(name: str, data: Path) -> None:
    changed = 0
    for corpus in ("wikitext", "cnndm", "ted"):
        texts = [gold.text for gold in read_corpus(corpus, data / "blindspot").texts]
        for text in random.Random(0).sample(texts, 12):
            if name in ("local_swap", "bert_diverge"):  # which word went where is to be seen in the text alone
                text = distinct_words(text)
            if name == "middle_swap":
                text = text.lower()  # it changes capital letters
            levels = next(filter(None, (ERRORS[name].find_levels(known) for known in (corpus, *PAPER))))
            for seed in range(3):
                made = [ERRORS[name].make(DRAFT, text, level, random.Random(seed)) for level in levels]
                for (low, lower), (high, higher) in pairwise(zip(levels, made, strict=True)):
                    assert CHECKS[name](text, lower, higher), (corpus, seed, low, high, text, lower, higher)
                changed += made[0] != made[-1] != text
    assert changed > 10, "else nothing was looked at"


@given(st.integers(0, 40), st.integers(0, 30), st.integers(0, 1000))
def test_more_switches_go_on_from_fewer(movable: int, amount: int, seed: int) -> None:
    """What `amount` pairs give, one more pair gives but for two parts that change places."""
    parts = [str(i) for i in range(movable)]
    fewer, more = (switch(list(parts), movable, pairs, random.Random(seed)) for pairs in (amount, amount + 1))
    assert sum(a != b for a, b in zip(fewer, more, strict=True)) in (0, 2)
    assert {i for i in range(movable) if fewer[i] != parts[i]} <= {i for i in range(movable) if more[i] != parts[i]}


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 1000))
def test_what_is_drawn_begins_alike_for_every_number(items: int, count: int, seed: int) -> None:
    order = Edit(PARSER, rng=random.Random(seed)).draw(range(items), items)
    assert sorted(order) == list(range(items))
    assert Edit(PARSER, rng=random.Random(seed)).draw(range(items), count) == order[:count]
