"""Ready-made pairs of texts or chats, or two columns and a winner."""

import unicodedata
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.account import describe_accounts
from nnd_tasks.sets.recipe import make_recipe
from nnd_tasks.sets.tasks import task_fields
from tests.sets.slow_pairing import slow_ready_pairs
from tests.sets.tables import left_out, make_csv, make_rows, pick, read_arguments, read_tests

ARGUMENTS = read_arguments(__file__)
CHOSEN = {"chosen": "chosen", "rejected": "rejected"}
WINNER = {"context": "q", "pair": ["answer_1", "answer_2"], "winner": "who"}
#: White space tells texts apart; é is the same composed and decomposed.
TEXTS = st.sampled_from(["a", "a ", "é", "e\u0301", "", " "])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder for the tables of all examples."""
    return tmp_path_factory.mktemp("tables")


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("PQ"), TEXTS, TEXTS, st.sampled_from(["A", "B", ""])), min_size=1, max_size=20)
)
@pytest.mark.parametrize("by_rater", [True, False])
def test_each_pair_stays_once_the_way_round_that_more_people_say(by_rater, folder, pairs):
    rows = [{"p": p, "chosen": x, "rejected": y, "who": rater} for p, x, y, rater in pairs]
    keys = {**CHOSEN, "context": "p", **({"rater": "who"} if by_rater else {})}
    nfc = partial(unicodedata.normalize, "NFC")
    expected = slow_ready_pairs([(p, nfc(x), nfc(y), rater if by_rater else "") for p, x, y, rater in pairs])
    if not expected:
        with pytest.raises(NNDError, match=r"no test comes out; \d+ rows? read = 0 used"):
            make_rows(folder, rows, **keys)
        return
    made = make_rows(folder, rows, **keys)
    tests = read_tests(made)
    assert pick(tests, "context", "high", "low") == expected
    assert all(test["high_first"] == (test["high"] < test["low"]) for test in tests), "not always the better one"
    assert sum(left_out(made).values()) == len(pairs) - len(tests)


def test_categories_systems_severity_and_spans_are_those_of_the_pair(tmp_path):
    lines = ["p,chosen,rejected,by,other,k,m,s", 'P,a,b c,A,B,K,major,"[2, 3]"', "P,x,y,A,B,,,"]
    keys = {"systems": ["by", "other"], "category": "k", "severity": "m", "spans": {"column": "s"}, "context": "p"}
    made = make_csv(tmp_path, *lines, **CHOSEN, **keys)
    [test] = read_tests(made)
    assert pick([test], "category", "severity", "high_system", "low_system") == [("K", "major", "A", "B")]
    assert pick(test["low_spans"], "start", "end") == [(2, 3)]
    assert left_out(made) == {"no_category": 1}


# ---------------------------------------------------------------- a winner


@pytest.mark.parametrize(
    "values",
    [("answer_1", "Answer_2"), (1, "2"), ("A", " b "), ("first", "Second"), ("left", "right"), ("model_a", "Model B"),
     ("s", "T"), (0, "yes")],
)  # fmt: skip
def test_a_column_names_the_winner(values, tmp_path):
    cells = [*values, "tie", None, "k.A.", "nan", "<NA>"]
    rows = [
        {"q": f"Q{i}", "answer_1": "a", "answer_2": "b", "who": who, "by_1": "S", "by_2": "T"}
        for i, who in enumerate(cells)
    ]
    winners = {"winners": {"0": "first", "yes": "second", "tie": "tie"}} if values[0] == 0 else {}
    made = make_rows(tmp_path, rows, **WINNER, **winners, systems=["by_1", "by_2"], missing="k.A.")
    expected = [("Q0", "a", "b", "S", "T"), ("Q1", "b", "a", "T", "S")]
    assert pick(read_tests(made), "context", "high", "low", "high_system", "low_system") == expected
    assert left_out(made) == {"undecided": 1, "no_judgement": 4}
    way = "taken for a missing value; if it is meant, say with --winners what it means"
    assert f"winner: 'nan' in 1 cell is {way}" in describe_accounts(made.report["default"]["accounts"])


@pytest.mark.parametrize(
    "line",
    ["answer_b,answer_a,A", "text2,text1,1", "response_0,response_1,1", "right,left,left", "by_gpt,by_llama,Llama"],
)
def test_a_word_of_one_column_means_this_column(line, tmp_path):
    first, second, value = line.split(",")
    made = make_csv(tmp_path, f"{first},{second},w", f"x,y,{value}", pair=[first, second], winner="w")
    assert pick(read_tests(made), "high", "low") == [("y", "x")]


@pytest.mark.parametrize("value", ["tie", "tie (bothbad)", "both_bad", "Tie (both good)", "bothbad", "neither"])
def test_ties_of_arenas_give_no_test(value, tmp_path):
    lines = ["q,answer_1,answer_2,who", "Q,a,b,A", f"R,a,b,{value}"]
    assert left_out(make_csv(tmp_path, *lines, **WINNER)) == {"undecided": 1}


def test_a_system_whose_name_means_the_other_side_is_no_winner(tmp_path):
    lines = ["q,answer_1,answer_2,who,s,t", "Q,a,b,1,2,1"]
    with pytest.raises(NNDError, match="'1' names no winner"):
        make_csv(tmp_path, *lines, **WINNER, systems=["s", "t"])


@pytest.mark.parametrize("value", ["Alice", "0", "answer_1 is better", "1.5"])
def test_what_names_no_winner_is_refused_with_file_and_row(value, tmp_path):
    lines = ["q,answer_1,answer_2,who", "Q,a,b,A", f"Q,a,b,{value}"]
    with pytest.raises(
        NNDError, match=f"row 3, column 'who': {value!r} names no winner.*--winners 'A=first,{value}=[?]'"
    ):
        make_csv(tmp_path, *lines, **WINNER)
    with pytest.raises(NNDError, match="'A' names no winner"):
        make_csv(tmp_path, *lines, **WINNER, winners={"left": "first"})


def test_rows_that_lose_a_vote_are_counted_and_a_test_names_its_only_rater(tmp_path):
    lines = ["p,x,y,who", *["P,a,b,Ann"] * 3, "P,b,a,Bo", "P,b,a,Cy", "Q,a,b,Ann", "Q,a,b,Bo", "Q,b,a,Bo", "R,a,b,Ann"]
    made = make_csv(tmp_path, *lines, context="p", chosen="x", rejected="y", rater="who")
    assert pick(read_tests(made), "context", "rater") == [("P", ""), ("Q", ""), ("R", "Ann")]
    assert left_out(made) == {"rater_tie": 2, "contradictory": 3, "repeated": 1}


def test_each_pair_without_a_context_is_a_prompt_of_its_own(tmp_path):
    lines = ["x,y,k", "a,b,K", "c,d,K", "b,a,L"]
    tests = read_tests(make_csv(tmp_path, *lines, chosen="x", rejected="y", category="k"))
    first, second, turned = (test["cluster_id"] for test in tests)
    assert first == turned != second
    assert {test["context"] for test in tests} == {""}


# ---------------------------------------------------------------- chats


def chat(*turns):
    """Take messages as they are, and texts for what user and assistant say in turn."""
    speakers = ("user", "assistant") * len(turns)
    return [
        turn if isinstance(turn, dict) else {"role": speaker, "content": turn}
        for turn, speaker in zip(turns, speakers, strict=False)
    ]


LONG = {"chosen": chat("x", "y", "z", "a"), "rejected": chat("x", "y", "z", "b")}
TALK = "User: x\n\nAssistant: y\n\nUser: z\n\nAssistant:"


@pytest.mark.parametrize(("chosen", "rejected", "expected"), ARGUMENTS["what_both_chats_begin_with_is_the_context"])
def test_what_both_chats_begin_with_is_the_context(chosen, rejected, expected, tmp_path):
    chats = [chat(*turns) if isinstance(turns, list) else turns for turns in (chosen, rejected)]
    rows = [{"chosen": "other", "rejected": "text"}, dict(zip(CHOSEN, chats, strict=True))]
    made = make_rows(tmp_path, rows, **CHOSEN)
    found = pick(read_tests(made), "context", "high", "low")
    reason = expected if isinstance(expected, str) else ""
    assert found == [("", "other", "text"), *([] if reason else [tuple(expected)])]
    assert left_out(made) == ({reason: 1} if reason else {})


@pytest.mark.parametrize(
    ("column", "context"),
    [("z", TALK), ("Ask.", f"Ask.\n\n{TALK}"), (TALK, TALK), (f"{TALK}\n", f"{TALK}\n")],
)
def test_no_turn_is_lost_to_a_context_column_and_none_is_said_twice(column, context, tmp_path):
    tests = read_tests(make_rows(tmp_path, [{"p": column, **LONG}], **CHOSEN, context="p"))
    assert pick(tests, "context", "high", "low") == [(context, "a", "b")]


def test_a_message_without_a_text_is_refused_with_its_row(tmp_path):
    rows = [{"chosen": [*chat("x"), {"role": "assistant", "content": None}], "rejected": chat("x", "b")}]
    with pytest.raises(NNDError, match=r"table.jsonl, line 1: a message of 'assistant' has no text"):
        make_rows(tmp_path, rows, **CHOSEN)


@pytest.mark.parametrize(
    ("rows", "prompt"),
    [
        ([{"chosen": "a", "rejected": "b"}], ""),
        ([{"chosen": "a", "rejected": "b"}, {"chosen": chat("x", "a"), "rejected": chat("x", "b")}],
         "{% if context %}{{context}}\n\n{% endif %}"),
        ([{"chosen": chat("x", "a"), "rejected": chat("x", "b")}, LONG],
         "{{context}}{% if not context.endswith('Assistant:') %}\n\nAssistant:{% endif %}"),
    ],
)  # fmt: skip
def test_the_default_prompt_ends_with_one_turn_of_the_assistant(rows, prompt, tmp_path):
    fields = task_fields("mine", make_recipe(CHOSEN, ""), make_rows(tmp_path, rows, **CHOSEN).tables["default"])
    assert (fields["doc_to_text"], "target_delimiter" in fields) == (prompt, not prompt or prompt[-1].isspace())


ASPECTS = [
    ("Name a colour.", "Red.", "Seven.", {"truth": "A", "length": "B", "style": "A"}),
    ("Name a town.", "Oslo.", "Tuna town.", {"truth": "A", "length": "B"}),
    ("Name a fish.", "Cod.", "Oak fish.", {"truth": "A", "length": "B", "style": "tie"}),
]
EACH = sorted(
    (name, *((a, b) if winner == "A" else (b, a)))
    for _, a, b, winners in ASPECTS
    for name, winner in winners.items()
    if winner != "tie"
)


@pytest.mark.parametrize("form", ["a row per aspect", "a column per aspect", "chosen"])
def test_each_aspect_of_a_pair_is_a_test(form, tmp_path):
    """Aspects do not vote against each other; what names them is the category, and a category the subcategory."""
    rows = [
        {"q": q, "a": a, "b": b, "aspect": name, "w": winner, "kind": "k"}
        for q, a, b, winners in ASPECTS
        for name, winner in winners.items()
    ]
    keys = {"context": "q", "pair": ["a", "b"], "winner": "w", "attribute": {"aspect": "aspect"}, "category": "kind"}
    if form == "a column per aspect":
        rows = [{"q": q, "a": a, "b": b, "kind": "k", **winners} for q, a, b, winners in ASPECTS]
        del keys["winner"]
        keys["attribute"] = {name: name for name in ("truth", "length", "style")}
    if form == "chosen":
        ordered = [(row, "ab" if row["w"] == "A" else "ba") for row in rows if row["w"] != "tie"]
        rows = [{**row, "chosen": row[better], "rejected": row[worse]} for row, (better, worse) in ordered]
        keys = {**CHOSEN, "context": "q", "attribute": ["aspect"], "category": "kind"}
    made = make_rows(tmp_path, rows, **keys)
    tests = read_tests(made)
    assert sorted(pick(tests, "category", "high", "low")) == EACH
    assert {test["subcategory"] for test in tests} == {"k"}
    assert made.report["default"]["accounts"]["rows"]["total"] == len(rows)


def test_pairs_that_are_judged_differently_are_counted_with_a_hint(tmp_path):
    lines = describe_accounts(
        make_csv(tmp_path, "q,a,b,w", "q,x,y,A", "q,x,y,B", "q,x,y,A", context="q", pair=["a", "b"], winner="w").report[
            "default"
        ]["accounts"]
    )
    hint = "1 pair judged differently by several: what more people say of a pair counts; if of several aspects, name their column"
    assert any(line.startswith(hint) for line in lines)
