"""Answers of judges are read in every form that models use, and prose without a mark is never read."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.prompted.judge import read_number, read_word
from tests.task.tasks import read_cases

CASES = read_cases(__file__)

WORDS = ["A", "B", "tie"]


@pytest.mark.parametrize(("answer", "word"), CASES["words that an answer says"])
def test_a_word_is_read_in_forms_that_models_write(answer, word):
    assert read_word(answer, WORDS) == word


def test_a_tie_is_read_only_if_it_may_be_answered_and_any_words_can_be_names():
    assert read_word("Answer: tie", ["A", "B"]) is None
    assert read_word("Answer: first+", ["first+", "second"]) == "first+"


@pytest.mark.parametrize(
    ("answer", "number"),
    CASES["numbers that an answer says"],
)
def test_a_number_is_read_on_its_scale_only(answer, number):
    assert read_number(answer, 1, 10) == number


@pytest.mark.parametrize("begin", ["", "Answer: "])
@pytest.mark.parametrize(
    "piece", ["\n", " ", "answer\n", "the ", '"answer": ', "\\boxed{", "[[", "<think>", "1", "A\n"]
)
def test_the_time_grows_as_the_answer_does(begin, piece):
    text, start = begin + piece * (1_000_000 // len(piece)), time.process_time()
    read_word(text, WORDS)
    read_number(text, 1, 10)
    assert time.process_time() - start < 20, "less than 1 s; hours if it grew as the square"


PROSE_WORDS = st.sampled_from(
    ["A", "B", "tie", "7", "text", "Answer", "answer", "is", "better", "than", "the", "verdict"]
)
SENTENCES = st.lists(PROSE_WORDS, min_size=2, max_size=9).map(lambda words: " ".join(words))
PROSE = st.lists(st.tuples(SENTENCES, st.sampled_from([".", "!", "?", ",", ""])), min_size=1, max_size=4)


@given(PROSE, st.sampled_from([" ", "\n", "\n\n"]))
def test_prose_without_a_mark_is_never_read(sentences, between):
    text = between.join(f"It seems {sentence}{end}" for sentence, end in sentences)
    assert read_word(text, WORDS) is None
    assert read_number(text, 1, 10) is None
