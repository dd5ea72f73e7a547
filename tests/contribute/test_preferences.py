"""Ready-made pairs: plain texts, chats, dialogues; repeated and contradictory ones."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.contribute.chat import split_pair
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import fold
from tests.contribute.tables import draft, draft_if_any, rows_of, write_rows


def says(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def test_plain_pairs_with_a_prompt_and_a_category(tmp_path: Path) -> None:
    rows = [
        {"prompt": "P", "chosen": "good", "rejected": "bad", "subset": "alpaca-easy"},
        {"prompt": "P", "chosen": "fine", "rejected": "poor", "subset": "hep-python"},
    ]
    found = draft(tmp_path, rows, category="subset")
    assert rows_of(found, "context", "high", "low", "category") == [
        ("P", "good", "bad", "alpaca-easy"),
        ("P", "fine", "poor", "hep-python"),
    ]
    assert found.table.column("high_first").to_pylist() == [False, True], "by the alphabet, not always the better one"


def test_what_chats_begin_with_alike_is_the_context(tmp_path: Path) -> None:
    start = [says("system", "Be kind."), says("user", "Hi?")]
    rows = [
        {"chosen": [*start, says("assistant", "Hello!")], "rejected": [*start, says("assistant", "Go away.")]},
        {
            "chosen": [says("user", "1+1?"), says("assistant", "2")],
            "rejected": [says("user", "1+1?"), says("assistant", "3")],
        },
    ]
    assert rows_of(draft(tmp_path, rows), "context", "high", "low") == [
        ("System: Be kind.\n\nUser: Hi?\n\nAssistant:", "Hello!", "Go away."),
        ("1+1?", "2", "3"),
    ]


def test_a_named_context_goes_before_that_of_the_chats(tmp_path: Path) -> None:
    chat = [says("user", "Hi?")]
    rows = [{"question": "Q", "chosen": [*chat, says("assistant", "a")], "rejected": [*chat, says("assistant", "b")]}]
    assert rows_of(draft(tmp_path, rows, context="question"), "context", "high", "low") == [("Q", "a", "b")]


@pytest.mark.parametrize(
    ("chosen", "rejected", "expected"),
    [
        ("a", "b", ("", "a", "b")),
        ("\n\nHuman: x\n\nAssistant: a", "\n\nHuman: x\n\nAssistant: b", ("Human: x\n\nAssistant:", "a", "b")),
        ("\n\nHuman: x\n\nAssistant: a", "\n\nHuman: y\n\nAssistant: b", None),
        ([says("user", "x")], [says("user", "x")], ("", "x", "x")),
        ([{"from": "human", "value": "x"}, {"from": "gpt", "value": "a"}],
         [{"from": "human", "value": "x"}, {"from": "gpt", "value": "b"}], ("x", "a", "b")),
        ([says("user", "x"), says("assistant", "a"), says("user", "y"), says("assistant", "b")],
         [says("user", "x"), says("assistant", "c")], ("x", "Assistant: a\n\nUser: y\n\nAssistant: b", "c")),
    ],
)  # fmt: skip
def test_a_pair_is_split_where_its_texts_part(
    chosen: Any, rejected: Any, expected: tuple[str, Any, Any] | None
) -> None:
    assert split_pair(chosen, rejected) == (expected or ("", chosen, rejected))


def test_what_says_nothing_is_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("a", "b"), ("b", "a"), ("c", "c "), ("", "d"), ("e", "f"), ("f", "e")]
    rows = [{"prompt": "P", "chosen": one, "rejected": other} for one, other in pairs]
    rows.append({"prompt": " ", "chosen": "x", "rejected": "y"})
    found = draft(tmp_path, rows)
    assert rows_of(found, "high", "low") == [("a", "b")]
    assert found.dropped.counts == {"empty": 1, "equal_texts": 1, "no_context": 1, "contradictory": 3, "repeated": 1}
    assert found.dropped.rows["equal_texts"] == [4]
    assert found.dropped.rows["contradictory"] == [3, 6, 7]


def test_pairs_without_any_context_say_that_no_error_can_be_given(tmp_path: Path) -> None:
    found = draft(tmp_path, [{"sentence_good": "He goes.", "sentence_bad": "He go."}])
    assert rows_of(found, "context", "high") == [("", "He goes.")]
    assert len(found.notes) == 1
    assert "no standard error" in found.notes[0]


TEXTS = st.sampled_from(["a", "b", "a ", "c", "", " "])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("PQ"), TEXTS, TEXTS), min_size=1, max_size=20))
def test_each_pair_is_kept_once_the_way_round_that_more_judgements_have(pairs: list[tuple[str, str, str]]) -> None:
    votes = Counter((p, fold(x), fold(y)) for p, x, y in pairs if fold(x) and fold(y) and fold(x) != fold(y))
    expected = {key for key, count in votes.items() if count > votes[key[0], key[2], key[1]]}
    rows = [{"prompt": p, "chosen": x, "rejected": y} for p, x, y in pairs]
    with tempfile.TemporaryDirectory() as folder:
        source = write_rows(Path(folder) / "t.jsonl", rows)
        options = {"context": "prompt", "chosen": "chosen", "rejected": "rejected"}
        made = draft_if_any(source, options)
    found = rows_of(made, "context", "high", "low") if made else []
    assert len(found) == len(expected)
    assert {(context, fold(high), fold(low)) for context, high, low in found} == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chosen": "chosen", "rejected": "chosen"}, "cannot be both chosen and rejected"),
        (
            {"chosen": "chosen", "rejected": "rejected", "min_gap": 1},
            "--min-gap does not go with --chosen and --rejected",
        ),
        ({"chosen": "chosen", "rejected": "rejected", "label": "l"}, "--label does not go with"),
        ({"chosen": "chosen", "rejected": "none"}, "there is no column 'none'"),
    ],
)
def test_options_that_do_not_go_with_pairs_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=message):
        draft(tmp_path, [{"chosen": "a", "rejected": "b"}], **options)
