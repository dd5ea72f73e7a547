"""Spans mark the words that people marked."""

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.account import describe_accounts
from nnd_tasks.tables.spans import normalize_text
from tests.sets.tables import LABELS, left_out, make_csv, make_rows, pick


def nfc(text):
    return unicodedata.normalize("NFC", text)


#: Letters and marks that compose, decompose, change places or become two: Latin, Hangul, Bengali, Tibetan, Devanagari.
LETTERS = "ae \n\u0301\u0323\u0327\u0308\u1100\u1161\u11a8\uac00\u09c7\u09be\u0f40\u0f71\u0f72\u0f73\u0f84\u0958\u212b"
texts = st.text(LETTERS, max_size=12) | st.text(max_size=12)


@settings(max_examples=300, deadline=None)
@given(texts, texts, texts)
@example("A cafe\u0301 in ", "Paris", " now")
@example("\u1100", "\u1161", "\u11a8")
@example("e", "\u0301\u0301", "")
def test_a_span_of_the_normalized_text_is_the_normalized_span(before, marked, after):
    whole = normalize_text(before + marked + after)
    assert whole.text == nfc(before + marked + after)
    found = whole.text[whole.starts[len(before)] : whole.ends[len(before + marked)]]
    if nfc(before) + nfc(marked) + nfc(after) == whole.text:
        assert found == nfc(marked)
    else:  # a letter that the span cuts through belongs to it
        assert Counter(unicodedata.normalize("NFD", marked)) <= Counter(unicodedata.normalize("NFD", found))


TEXT = "The mill stood stil and stood."


def read_spans(folder, text, *cells, **keys):
    """Read a worse candidate that was judged once for each cell, its spans, and how many spans lie nowhere."""
    good, bad = {"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": text, "l": "bad"}
    where = keys if "marks" in keys else {"column": "s", **keys}
    made = make_rows(folder, [good, *({**bad, "s": cell} for cell in cells)], **LABELS, spans=where)
    [test] = made.tables["default"].to_pylist()
    return test["low"], test.get("low_spans") or [], left_out(made, "error_spans")


MARKED = yaml.safe_load(Path(__file__).with_name("spans.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", MARKED, ids=[case["cell"] for case in MARKED])
def test_what_people_marked_is_marked_in_the_set(case, tmp_path):
    cell, keys, words = case["cell"], case.get("keys", {}), case["words"]
    low, spans, nowhere = read_spans(tmp_path, case["text"], json.loads(cell), **keys)
    assert [low[start:end] for start, end in pick(spans, "start", "end")] == words
    assert bool(nowhere) == (not words and cell != "null")
    if "severity" in cell:
        assert pick(spans, "category", "severity") == [("K", "minor")]
    if words and "marks" not in keys:
        assert read_spans(tmp_path, case["text"], cell, **keys)[1] == spans, "as a text, too"


def test_columns_of_a_span_are_one(tmp_path):
    """The words say where it is, as positions from 1 are beside it; -1 and -1 are no span."""
    rows = [
        {"c": "q", "t": "the cat is black", "l": "good", "from": -1, "to": -1, "words": "NULL", "kind": "", "how": ""},
        {
            "c": "q",
            "t": "the cat is green",
            "l": "bad",
            "from": 12,
            "to": 17,
            "words": "green",
            "kind": "K",
            "how": "minor",
        },
    ]
    where = {"start": "from", "end": "to", "text": "words", "category": "kind", "severity": "how"}
    [test] = make_rows(tmp_path, rows, **LABELS, spans=where).tables["default"].to_pylist()
    assert test["low_spans"] == [{"start": 11, "end": 16, "category": "K", "severity": "minor"}]
    assert left_out(make_rows(tmp_path, rows, **LABELS, spans=where), "error_spans") == {}


def test_the_spans_of_several_raters_are_put_together(tmp_path):
    _, spans, _ = read_spans(tmp_path, TEXT, [9, 14], [4, 8], [9, 14])
    assert pick(spans, "start", "end") == [(4, 8), (9, 14)]


def test_two_columns_are_one_span_that_counts_the_line_ends_of_the_file(tmp_path):
    lines = ["c,t,l,from,to", "q,a,good,,", '"q","The\r\nmill",bad,5,9', "p,a,good,x,3", "p,b,bad,1.5,3"]
    made = make_csv(tmp_path, *lines, **LABELS, spans={"start": "from", "end": "to"})
    low, [span] = (made.tables["default"].to_pylist()[0][name] for name in ("low", "low_spans"))
    assert low[span["start"] : span["end"]] == "mill"
    assert left_out(made, "error_spans") == {"nowhere": 2}


@pytest.mark.parametrize(("cell", "keys", "notes"), [
    ([1, 3], {}, 1), ({"start": 1, "end": 3}, {}, 1), ({"text": "mat"}, {}, 0), ("mat", {}, 0), ([], {}, 0),
    ([1, 3], {"utf16": False}, 0), ([1, 3], {"utf16": True}, 0),
])  # fmt: skip
def test_a_note_asks_whether_positions_after_an_emoji_count_utf16_units(cell, keys, notes, tmp_path):
    rows = [{"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": "\U0001f408 a mat", "l": "bad", "s": cell}]
    accounts = make_rows(tmp_path, rows, **LABELS, spans={"column": "s", **keys}).report["default"]["accounts"]
    assert accounts.get("astral_spans", 0) == notes
    assert ("`utf16: true`" in " ".join(describe_accounts(accounts))) == bool(notes)


@pytest.mark.parametrize("cell", ["[4, 9, 12]", "4", "[[4, 9], [4]]", '[[4, 9, "minor"]]'])
def test_what_is_no_span_is_refused_with_its_row(cell, tmp_path):
    with pytest.raises(NNDError, match=r"table.jsonl, line 2: .* is no error span; write an object"):
        read_spans(tmp_path, TEXT, json.loads(cell))
