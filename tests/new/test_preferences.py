"""Ready-made pairs: plain texts, chats, dialogues; repeated and contradictory ones."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Environment

from nnd_tasks.errors import NNDError
from nnd_tasks.new.own_task import task_fields
from nnd_tasks.recipes.chat import split_pair
from tests.new.small_tables import draft, draft_if_any, rows_of, write_rows


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
    rows = [
        {"question": " Hi?\n", "chosen": [*chat, says("assistant", "a")], "rejected": [*chat, says("assistant", "b")]}
    ]
    found = draft(tmp_path, rows, context="question")
    assert rows_of(found, "context", "high", "low") == [(" Hi?\n", "a", "b")]
    assert found.notes == []


def test_no_turn_that_both_chats_share_is_lost_to_a_context_column(tmp_path: Path) -> None:
    start = [says("user", "hi"), says("assistant", "yo"), says("user", "this is it")]
    other = [says("user", "no"), *start[1:]]
    rows = [
        {"prompt": prompt, "chosen": [*chat, says("assistant", "a")], "rejected": [*chat, says("assistant", "b")]}
        for prompt, chat in (
            ("this is it", start),
            ("this is it", other),
            ("Ask.", start),
            ("hi yo this  is it", start),
        )
    ]
    found = draft(tmp_path, rows, context="prompt")
    rest = "\n\nAssistant: yo\n\nUser: this is it\n\nAssistant:"
    assert rows_of(found, "context", "high", "low") == [
        ("User: hi" + rest, "a", "b"),
        ("User: no" + rest, "a", "b"),
        ("Ask.\n\nUser: hi" + rest, "a", "b"),
        ("hi yo this  is it", "a", "b"),
    ]
    assert found.notes == [
        "in 3 rows both texts begin with turns that column 'prompt' does not have; they are part of the context"
    ]


def dialogue(*turns: str) -> str:
    return "".join(f"\n\n{'Assistant' if i % 2 else 'Human'}: {turn}" for i, turn in enumerate(turns))


def test_dialogues_stay_whole_beside_a_context_column_that_does_not_hold_their_turns(tmp_path: Path) -> None:
    pairs = [(dialogue(first, "yo", "q", "a"), dialogue(first, "yo", "q", "b")) for first in ("hi", "no")]
    rows = [{"prompt": "q", "chosen": one, "rejected": other} for one, other in pairs]
    rows.append({"prompt": dialogue("hi", "yo", "q", ""), "chosen": pairs[0][0], "rejected": pairs[0][1]})
    assert rows_of(draft(tmp_path, rows), "context", "high", "low") == [
        ("q", *pairs[0]),
        ("q", *pairs[1]),
        (dialogue("hi", "yo", "q", ""), "a", "b"),
    ]


def test_pairs_of_different_prompts_or_of_a_chat_and_a_text_are_left_out_and_counted(tmp_path: Path) -> None:
    def chat(*turns: str) -> list[dict[str, str]]:
        return [says("assistant" if i % 2 else "user", turn) for i, turn in enumerate(turns)]

    pairs = [
        (chat("x", "a"), chat("x", "b")),
        (chat("x", "a"), chat("y", "b")),
        (chat("x", "a"), chat("x")),
        (chat("x", "a", "y", "b"), chat("x", "a", "z", "b")),
        (chat("x", "a"), "b"),
        ("a", [says("assistant", "b")]),
        (chat("x", "a"), ""),
        (dialogue("x", "a"), dialogue("y", "b")),
        (dialogue("x", "a"), "b"),
        (dialogue("x", "a", "y", "b"), dialogue("x", "a", "z", "b")),
    ]
    for options in ({}, {"context": "c"}):
        found = draft(tmp_path, [{"c": "C", "chosen": one, "rejected": other} for one, other in pairs], **options)
        assert rows_of(found, "high", "low") == [("a", "b")]
        assert found.dropped.counts == {"empty": 1, "other_prompt": 8}
        assert found.dropped.rows["other_prompt"] == [2, 3, 4]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        (None, r"line 1, columns 'chosen' and 'rejected': message 2 \(assistant\) has no text as its content"),
        ([{"type": "image_url", "image_url": "x"}], "message 2"),
    ],
)
def test_a_message_is_text_or_parts_of_text(content: Any, expected: str, tmp_path: Path) -> None:
    rows = [
        {"chosen": [says("user", "x"), {"role": "assistant", "content": content}],
         "rejected": [says("user", "x"), says("assistant", "b")]}
    ]  # fmt: skip
    if "message" in expected:
        with pytest.raises(NNDError, match=expected):
            draft(tmp_path, rows)
    else:
        assert rows_of(draft(tmp_path, rows), "context", "high", "low") == [("x", expected, "b")]


def test_prompt_fields_keep_the_white_space_at_their_ends(tmp_path: Path) -> None:
    rows = [{"prompt": "P", "chosen": "a", "rejected": "b", "note": "  indented\n"}]
    assert rows_of(draft(tmp_path, rows, field={"hint": "note"}), "hint") == [("  indented\n",)]


@pytest.mark.parametrize(
    ("pairs", "prompt", "delimiter"),
    [
        ([(dialogue("x", "a"), dialogue("x", "b"))], "{{context}}", None),
        ([("a", "b")], "{{context}}\n\n", ""),
        (
            [([says("user", "x"), says("assistant", "a")], [says("user", "x"), says("assistant", "b")]),
             ([*[says("user", "x"), says("assistant", "y"), says("user", "z")], says("assistant", "a")],
              [*[says("user", "x"), says("assistant", "y"), says("user", "z")], says("assistant", "b")])],
            "{{context}}{% if not context.endswith('Assistant:') %}\n\nAssistant:{% endif %}", None,
        ),
    ],
)  # fmt: skip
def test_the_default_prompt_adds_no_empty_line_after_the_turn_of_the_assistant(
    pairs: list[tuple[Any, Any]], prompt: str, delimiter: str | None, tmp_path: Path
) -> None:
    found = draft(tmp_path, [{"chosen": one, "rejected": other} for one, other in pairs])
    fields = task_fields("mine", found.recipe, found.table)
    assert (fields["doc_to_text"], fields.get("target_delimiter")) == (prompt, delimiter)
    template = Environment(autoescape=False, keep_trailing_newline=True).from_string(prompt)
    ends = {template.render(context=text).rpartition("\n\n")[2] for text in found.table.column("context").to_pylist()}
    assert ends == ({""} if delimiter == "" else {"Assistant:"})


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
    found = split_pair(chosen, rejected)
    assert (found and (found.context, found.chosen, found.rejected)) == expected


def test_what_says_nothing_is_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("a", "b"), ("b", "a"), ("caf\u00e9", "cafe\u0301"), ("", "d"), ("e", "f"), ("f", "e")]
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
    votes = Counter((p, x, y) for p, x, y in pairs if x.strip() and y.strip() and x != y)
    expected = {key for key, count in votes.items() if count > votes[key[0], key[2], key[1]]}
    rows = [{"prompt": p, "chosen": x, "rejected": y} for p, x, y in pairs]
    with tempfile.TemporaryDirectory() as folder:
        source = write_rows(Path(folder) / "t.jsonl", rows)
        options = {"context": "prompt", "chosen": "chosen", "rejected": "rejected"}
        made = draft_if_any(source, options)
    found = rows_of(made, "context", "high", "low") if made else []
    assert len(found) == len(expected)
    assert {(context, high, low) for context, high, low in found} == expected


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
