"""Spans mark the same words after a text was changed (`nnd_tasks.sets.spans`, `take_marks`, `locate_spans`)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnd_tasks.sets.recipe import Spans
from nnd_tasks.sets.spans import change_text, locate_spans, normalize_text, replace_text, take_marks
from tests.sets.tables import LABELS, make_rows, pick


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


#: Letters and marks that compose, decompose, change places or become two: Latin, Hangul, Bengali, Tibetan, Devanagari.
LETTERS = "ae \n\u0301\u0323\u0327\u0308\u1100\u1161\u11a8\uac00\u09c7\u09be\u0f40\u0f71\u0f72\u0f73\u0f84\u0958\u212b"
texts = st.text(LETTERS, max_size=12) | st.text(max_size=12)


@settings(max_examples=300, deadline=None)
@given(texts, texts, texts)
@example("A cafe\u0301 in ", "Paris", " now")
@example("\u1100", "\u1161", "\u11a8")
@example("e", "\u0301\u0301", "")
def test_a_span_of_the_normalized_text_is_the_normalized_span(before: str, marked: str, after: str) -> None:
    whole = normalize_text(before + marked + after)
    assert whole.text == nfc(before + marked + after)
    found = whole.text[whole.starts[len(before)] : whole.ends[len(before + marked)]]
    if nfc(before) + nfc(marked) + nfc(after) == whole.text:
        assert found == nfc(marked)
    else:  # a letter that the span cuts through belongs to it
        assert Counter(unicodedata.normalize("NFD", marked)) <= Counter(unicodedata.normalize("NFD", found))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.text("ae\u0301\u0323 \r\n", min_size=1, max_size=6)), max_size=6))
def test_marks_are_taken_out_before_a_text_is_normalized(pieces: list[tuple[bool, str]]) -> None:
    text = "".join(f"<v>{piece}</v>" if marked else piece for marked, piece in pieces)
    without, spans = take_marks(text, "<v>", "</v>")
    assert without == nfc("".join(piece for _, piece in pieces))
    cuttable = all(not unicodedata.combining(piece[0]) for _, piece in pieces)
    if cuttable:
        assert [without[span["start"] : span["end"]] for span in spans] == [
            nfc(piece) for marked, piece in pieces if marked
        ]


def test_several_changes_are_one() -> None:
    text = "a\r\n<v>e\u0301e</v>\r\n"
    lines = replace_text(text, "\r\n", "\n")
    plain = lines.then(replace_text(lines.text, "</?v>"))
    composed = plain.then(normalize_text(plain.text))
    whole = composed.then(change_text([("", "Answer: "), (composed.text, composed.text)]))
    assert whole.text == "Answer: a\n\xe9e\n"
    start, end = text.index("e"), text.index("</v>")
    assert whole.text[whole.starts[start] : whole.ends[end]] == "\xe9e"


@pytest.mark.parametrize(
    ("text", "spans", "cell", "expected"),
    [
        ("A cafe\u0301 in Paris now", {"column": "s"}, [11, 16], ["Paris"]),
        ("In cafe\u0301s", {"column": "s"}, {"start": 3, "end": 9}, ["caf\xe9s"]),
        ("In cafe\u0301", {"column": "s", "end_inside": True}, {"start": 3, "end": 7}, ["caf\xe9"]),
        ("A cafe\u0301 in Paris now", {"column": "s"}, {"start": 90, "end": 95, "text": "cafe\u0301"}, ["caf\xe9"]),
        ("A cafe\u0301 in Paris now", {"column": "s"}, ["Cafe\u0301"], ["caf\xe9"]),
        ("A cafe<b>\u0301 in</b> Paris", {"marks": ["<b>", "</b>"]}, None, ["\xe9 in"]),
        ("A *cafe\u0301* in *Paris*", {"marks": ["*", "*"]}, None, ["caf\xe9", "Paris"]),
        ("A \u2329cafe\u0301\u232a", {"marks": ["\u2329", "\u232a"]}, None, ["caf\xe9"]),
    ],
)
def test_what_people_marked_is_marked_in_the_set(
    text: str, spans: dict[str, Any], cell: Any, expected: list[str], tmp_path: Path
) -> None:
    rows = [{"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": text, "l": "bad", "s": cell}]
    [test] = make_rows(tmp_path, rows, **LABELS, spans=spans).tables["default"].to_pylist()
    assert [test["low"][start:end] for start, end in pick(test["low_spans"], "start", "end")] == expected


def test_positions_outside_of_the_text_are_no_span() -> None:
    assert locate_spans([[0, 8], [-1, 2], [3, 3], [2, 7]], "cafe\u0301s", Spans()) == ([], 4)
