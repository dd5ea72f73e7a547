"""Covers read_word, read_number: forms in which models answer, and that prose without a mark is never read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.task.judge_reader import read_number, read_word

WORDS = ["A", "B", "tie"]
#: What a model may write, and what is to be read of it.
FORMS = [
    ("A", "A"),
    ("b", "B"),
    (" A. ", "A"),
    ("(B)", "B"),
    ("**A**", "A"),
    ("[[A]]", "A"),
    ("[[ B ]]", "B"),
    ("Both are fluent, but the second has an error. [[A]]", "A"),
    ("My final verdict is: [[B]]", "B"),
    ("Answer: A", "A"),
    ("answer: b", "B"),
    ("ANSWER: A.", "A"),
    ("Answer: Text B", "B"),
    ("Answer: (A)", "A"),
    ("Answer: 'B'", "B"),
    ("Answer:\n\nA", "A"),
    ("**Answer:** B", "B"),
    ("**Answer: B**", "B"),
    ("### Answer: A", "A"),
    ("> Answer: A", "A"),
    ("- Verdict: B", "B"),
    ("Winner: A", "A"),
    ("The answer is: A", "A"),
    ("Final answer: $\\boxed{A}$", "A"),
    ("So it is \\boxed{\\text{B}}.", "B"),
    ("Answer: tie", "tie"),
    ("[[Tie]]", "tie"),
    ('{"reason": "A has an error", "verdict": "B"}', "B"),
    ('```json\n{"answer": "A"}\n```', "A"),
    ("{'winner': 'B'}", "B"),
    ("The first one reads well.\nThe other one does not.\n\nAnswer: A", "A"),
    ("B\n\nThe first text names a wrong city.", "B"),
    ("The first text names a wrong city.\n\nB", "B"),
    ("## Text A\nIt is fluent.\n## Text B\nIt is not.\n\nAnswer: A", "A"),
    ("<think>A is nice. Answer: A? No.</think>\nAnswer: B", "B"),
    ("I weigh both. Answer: A\n</think>\n\nB", "B"),
    ("Answer: A\nSo once more:\nAnswer: A", "A"),
    ("Answer: A\nOn second thoughts:\nAnswer: B", None),
    ("[[A]] or [[B]]", None),
    ("Answer: A\n\n[[B]]", None),
    ("A\nis better than\nB", None),
    ("[[C]]\nA", None),
    ("[[A>>B]]", None),
    ("Answer: A or B", None),
    ("Answer: A good text is hard to find.", None),
    ("Answer: neither", None),
    ("<think>The answer is A.\nAnswer: A", None),
    ("A is better.", None),
    ("I prefer A", None),
    ("Text A names a wrong city, so the answer must be B.", None),
    ("**Text A**\nnames the wrong city.\n**Text B**\nnames none.", None),
    ('"Answer: B"', "B"),
    ("Answer: t\u0131e", None),
    ("", None),
    ("[invalid]", None),
]


@pytest.mark.parametrize(("answer", "word"), FORMS)
def test_a_word_is_read_in_forms_that_models_write(answer, word):
    assert read_word(answer, WORDS) == word


def test_a_tie_is_read_only_if_it_may_be_answered_and_any_words_can_be_names():
    assert read_word("Answer: tie", ["A", "B"]) is None
    assert read_word("Answer: first+", ["first+", "second"]) == "first+"


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("7", 7),
        ("Rating: 7", 7),
        ("**Rating:** 7/10", 7),
        ("Score: 7.5", 7.5),
        ("Score: 8 out of 10", 8),
        ("[[10]]", 10),
        ('{"rating": 3}', 3),
        ("It is fluent.\n\n9", 9),
        ("The answer is: \\boxed{4}", 4),
        ("Rating: 11", None),
        ("Rating: 0", None),
        ("Rating: 7/5", None),
        ("Rating: high", None),
        ("Rating: 7\nRating: 8", None),
        ("I would give it 7 of 10 points.", None),
        ("There are 7 errors", None),
    ],
)
def test_a_number_is_read_on_its_scale_only(answer, number):
    assert read_number(answer, 1, 10) == number


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
