"""Pairs against a slow definition: every two rows of a group, one by one."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import (
    HierarchicalLabel,
    LikertScale,
    PairingReport,
    ScoreGap,
    Shape,
    SingleErrorLabel,
    form_tests,
)
from nnd_tasks.schema import Annotation, Test

OK = "No error"
slowly = settings(max_examples=40, deadline=None)


# ---------------------------------------------------------------- annotations of every shape


@dataclass(frozen=True)
class Level:
    """What the test's own definition knows of one row: its quality in whole steps, and what a test of it is called."""

    steps: int
    category: str = ""
    subcategory: str = ""


@dataclass(frozen=True)
class Evaluation:
    """Random annotations, row ``i`` by system ``i``, with the level of each (None: it takes part in no test)."""

    shape: Shape
    rows: list[Annotation]
    levels: list[Level | None]
    gap: int = 1

    def level(self, row: Annotation) -> Level | None:
        return self.levels[int(row.system)]


PARENTS = {"EntE": "Frame", "RelE": "Frame", "CorefE": "Discourse", "OtherE": None}


@st.composite
def single(draw: st.DrawFn) -> tuple[dict[str, Any], Level]:
    label = draw(st.sampled_from([OK, "Disfluent", "Off target"]))
    subcategory = draw(st.sampled_from(["", "fine"]))
    return {"label": label, "subcategory": subcategory}, Level(1) if label == OK else Level(0, label, subcategory)


@st.composite
def hierarchical(draw: st.DrawFn) -> tuple[dict[str, Any], Level | None]:
    label = draw(st.sampled_from([OK, *PARENTS]))
    if label == OK:
        return {"label": label}, Level(1)
    parent = PARENTS[label]
    return {"label": label}, None if parent is None else Level(0, parent, label)


@st.composite
def paths(draw: st.DrawFn) -> tuple[dict[str, Any], Level | None]:
    label, level = draw(
        st.sampled_from(
            [
                (OK, Level(1)),
                ("Accuracy/Omission", Level(0, "Accuracy", "Accuracy/Omission")),
                ("Accuracy/Addition/Small", Level(0, "Accuracy", "Accuracy/Addition/Small")),
                ("Style", Level(0, "Style", "Style")),
                ("Source/issue", None),
            ]
        )
    )
    return {"label": label}, level


@st.composite
def likert(draw: st.DrawFn) -> tuple[dict[str, Any], Level]:
    ratings = draw(st.lists(st.sampled_from([5.0, 5.0, 4.0, 1.0]), min_size=1, max_size=4))
    votes_for = len([r for r in ratings if r == 5.0])
    votes_against = len(ratings) - votes_for
    level = Level(1 if votes_for > votes_against else 0, "coherence", "aspect")
    return {"ratings": tuple(ratings), "category": "coherence", "subcategory": "aspect"}, level


def scored(category: str) -> st.SearchStrategy[tuple[dict[str, Any], Level | None]]:
    """Scores in tenths: the level counts them exactly, the annotation has the float, however it was computed."""

    @st.composite
    def one(draw: st.DrawFn) -> tuple[dict[str, Any], Level | None]:
        tenths = draw(st.one_of(st.none(), st.integers(-10, 10)))
        own = draw(st.sampled_from(["", "style"]))
        if tenths is None:
            return {"score": None, "category": own}, None
        score = draw(st.sampled_from([tenths / 10, tenths * 0.1]))
        return {"score": score, "category": own}, Level(tenths, own or category)

    return one()


texts = st.sampled_from(["", "a", " a", "a\n", "é", "e\u0301", "b"])
#: Groups and what they show a model; the last two show the same, so they are one cluster.
GROUPS = [("g0", "text ", "yes"), ("g1", "text", "yes"), ("g2", "cafe\u0301", "no"), ("g3", "café", "no")]


@st.composite
def evaluations(draw: st.DrawFn) -> Evaluation:
    gap = 1
    kind = draw(st.sampled_from(["single", "hierarchical", "paths", "likert", "score", "score by default"]))
    shape: Shape
    if kind == "single":
        shape, row = SingleErrorLabel(OK), single()
    elif kind == "hierarchical":
        shape, row = HierarchicalLabel(OK, PARENTS), hierarchical()
    elif kind == "paths":
        shape, row = HierarchicalLabel(OK, {"Source/issue": None}, separator="/"), paths()
    elif kind == "likert":
        shape, row = LikertScale(best=5.0), likert()
    else:
        gap = draw(st.sampled_from([1, 2, 3, 10]))
        category = "quality" if kind == "score" else "preference"
        shape = ScoreGap(gap / 10, category="quality") if kind == "score" else ScoreGap(gap / 10)
        row = scored(category)
    rows: list[Annotation] = []
    levels: list[Level | None] = []
    for context, candidate, severity, rater, (values, level) in draw(
        st.lists(
            st.tuples(
                st.sampled_from(GROUPS), texts, st.sampled_from(["", "minor"]), st.sampled_from(["r1", "r2"]), row
            ),
            max_size=12,
        )
    ):
        context_id, text, answer = context
        rows.append(
            Annotation(
                context_id,
                text,
                candidate,
                fields={"answer": answer},
                severity=severity,
                system=str(len(rows)),
                rater=rater,
                **values,
            )
        )
        levels.append(level)
    return Evaluation(shape, rows, levels, gap)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def slow_tests(evaluation: Evaluation, rows: Sequence[Annotation]) -> list[tuple[Any, ...]]:
    """Return what the tests must be: group by group, every two rows in the order of the source."""
    expected = []
    for group in dict.fromkeys(row.context_id for row in rows):
        for first, second in combinations([row for row in rows if row.context_id == group], 2):
            a, b = evaluation.level(first), evaluation.level(second)
            if a is None or b is None:
                continue
            if a.steps - b.steps >= evaluation.gap:
                high, low, level, high_first = first, second, b, True
            elif b.steps - a.steps >= evaluation.gap:
                high, low, level, high_first = second, first, a, False
            else:
                continue
            expected.append(
                (
                    group,
                    nfc(high.context),
                    high.fields["answer"],
                    nfc(high.candidate),
                    nfc(low.candidate),
                    level.category,
                    level.subcategory,
                    high.system,
                    low.system,
                    low.severity,
                    low.rater,
                    high_first,
                )
            )
    return expected


def shown(test: Test) -> tuple[Any, ...]:
    """Return a test as `slow_tests` writes it."""
    return (
        test.context_id,
        test.context,
        test.fields["answer"],
        test.high,
        test.low,
        test.category,
        test.subcategory,
        test.high_system,
        test.low_system,
        test.severity,
        test.rater,
        test.high_first,
    )


# ---------------------------------------------------------------- which pairs


@settings(max_examples=150, deadline=None)
@given(evaluations())
def test_tests_are_all_pairs_of_known_difference_in_the_order_of_the_source(evaluation: Evaluation) -> None:
    assert [shown(t) for t in form_tests(evaluation.rows, evaluation.shape)] == slow_tests(evaluation, evaluation.rows)


@slowly
@given(evaluations().filter(lambda e: not isinstance(e.shape, ScoreGap)))
def test_with_two_levels_a_group_gives_better_times_worse_tests(evaluation: Evaluation) -> None:
    tests = Counter(test.context_id for test in form_tests(evaluation.rows, evaluation.shape))
    for group in {row.context_id for row in evaluation.rows}:
        levels = [evaluation.level(row) for row in evaluation.rows if row.context_id == group]
        better = [level for level in levels if level is not None and level.steps == 1]
        worse = [level for level in levels if level is not None and level.steps == 0]
        assert tests[group] == len(better) * len(worse)


@slowly
@given(evaluations())
def test_the_higher_candidate_is_better_and_no_pair_is_within_one_quality(evaluation: Evaluation) -> None:
    for test in form_tests(evaluation.rows, evaluation.shape):
        high, low = evaluation.levels[int(test.high_system)], evaluation.levels[int(test.low_system)]
        assert high is not None
        assert low is not None
        assert high.steps > low.steps


@slowly
@given(evaluations(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing_but_which_candidate_comes_first(evaluation: Evaluation, random: Any) -> None:
    shuffled = list(evaluation.rows)
    random.shuffle(shuffled)
    position = {row.system: i for i, row in enumerate(shuffled)}
    tests, others = form_tests(evaluation.rows, evaluation.shape), form_tests(shuffled, evaluation.shape)

    def content(items: list[Test]) -> Counter[tuple[Any, ...]]:
        return Counter(shown(test)[:-1] for test in items)  # all but high_first

    def identity(items: list[Test]) -> dict[str, tuple[str, ...]]:
        return {t.test_id: (t.context_id, t.cluster_id, t.context, t.high, t.low, t.category) for t in items}

    assert content(others) == content(tests)
    assert identity(others) == identity(tests)
    for test in others:
        assert test.high_first == (position[test.high_system] < position[test.low_system])


def rows(*values: dict[str, Any], **common: Any) -> list[Annotation]:
    """Return rows of one group with candidates a, b, c ..."""
    defaults = {"context_id": "c", "context": "text", **common}
    return [Annotation(**{**defaults, "candidate": name, **row}) for name, row in zip("abcdefgh", values, strict=False)]


def pairs(annotations: list[Annotation], shape: Shape) -> list[tuple[str, str]]:
    return [(test.high, test.low) for test in form_tests(annotations, shape)]


def test_a_stream_of_rows_gives_the_same_tests_as_a_list() -> None:
    annotations = rows({"label": "E"}, {"label": OK}, {"label": "F"})
    assert len(form_tests(annotations, SingleErrorLabel(OK))) == 2
    assert form_tests(iter(annotations), SingleErrorLabel(OK)) == form_tests(annotations, SingleErrorLabel(OK))


@pytest.mark.parametrize(
    ("ratings", "good"),
    [
        ((5, 5, 4), True),
        ((5, 4, 4), False),
        ((5, 4), False),  # exactly half is no majority
        ((5, 5, 4, 4), False),
        ((5, 5, 5, 4), True),
        ((5,), True),
        ((4.999,), False),
    ],
)
def test_on_a_likert_scale_good_takes_more_than_half_of_the_raters(ratings: tuple[float, ...], good: bool) -> None:
    annotations = rows({"ratings": ratings}, {"ratings": (1, 1)}, {"ratings": (5, 5)}, category="fluency")
    assert pairs(annotations, LikertScale(best=5)) == ([("a", "b"), ("c", "b")] if good else [("c", "a"), ("c", "b")])


def test_a_likert_test_keeps_the_ratings_and_their_mean() -> None:
    (test,) = form_tests(rows({"ratings": (4.5, 1)}, {"ratings": (5, 5)}, category="fluency"), LikertScale(best=5))
    assert (test.high_label, test.high_score, test.low_label, test.low_score) == ("5,5", 5.0, "4.5,1", 2.75)


@pytest.mark.parametrize(
    ("better", "worse", "gap"),
    [(0.3, 0.1, 0.2), (0.1 + 0.2, 0.2, 0.1), (1.1, 1.0, 0.1), (100.3, 100.1, 0.2), (-0.1, -0.3, 0.2), (2.0, 0.0, 2.0)],
)
def test_a_gap_is_not_missed_by_rounding(better: float, worse: float, gap: float) -> None:
    assert pairs(rows({"score": worse}, {"score": better}), ScoreGap(gap)) == [("b", "a")]


@pytest.mark.parametrize(("better", "worse", "gap"), [(0.2999, 0.1, 0.2), (1.0, -0.999, 2.0), (0.5, 0.5, 0.1)])
def test_a_smaller_difference_than_the_gap_makes_no_test(better: float, worse: float, gap: float) -> None:
    assert pairs(rows({"score": worse}, {"score": better}), ScoreGap(gap)) == []


@pytest.mark.parametrize(
    "scores", [(1.0, float("nan")), (float("nan"), 1.0), (float("inf"), float("inf")), (float("-inf"), float("-inf"))]
)
def test_scores_whose_difference_is_no_number_never_make_a_test(scores: tuple[float, float]) -> None:
    try:
        tests = form_tests(rows({"score": scores[0]}, {"score": scores[1]}), ScoreGap(0.5))
    except NNDError:
        return
    assert tests == []


@pytest.mark.parametrize("gap", [0.0, -1.0, float("nan")])
def test_a_gap_that_is_not_above_0_is_refused(gap: float) -> None:
    with pytest.raises(ValueError):
        form_tests(rows({"score": 1.0}, {"score": 1.0}), ScoreGap(gap))


def test_the_category_of_a_score_is_the_rows_own_else_the_shapes() -> None:
    annotations = rows({"score": 3.0}, {"score": 2.0, "category": "style"}, {"score": 1.0})
    assert [(t.high, t.low, t.category) for t in form_tests(annotations, ScoreGap(1.0))] == [
        ("a", "b", "style"),
        ("a", "c", "preference"),
        ("b", "c", "preference"),
    ]
    assert {t.category for t in form_tests(annotations[::2], ScoreGap(1.0, category="votes"))} == {"votes"}


def test_listed_parents_go_before_the_first_part_of_a_path() -> None:
    shape = HierarchicalLabel(OK, {"Accuracy/Omission": "Missing", "Other": None}, separator="/")
    labels = [OK, "Accuracy/Omission", "Accuracy/Addition", "Other", "Fluency"]
    tests = form_tests(rows(*[{"label": label} for label in labels]), shape)
    assert [(t.low, t.category, t.subcategory, t.high_label, t.low_label) for t in tests] == [
        ("b", "Missing", "Accuracy/Omission", OK, "Accuracy/Omission"),
        ("c", "Accuracy", "Accuracy/Addition", OK, "Accuracy/Addition"),
        ("e", "Fluency", "Fluency", OK, "Fluency"),
    ]


# ---------------------------------------------------------------- identifiers


@slowly
@given(evaluations())
def test_test_ids_are_distinct_and_the_same_when_formed_again(evaluation: Evaluation) -> None:
    ids = [test.test_id for test in form_tests(evaluation.rows, evaluation.shape)]
    assert len(set(ids)) == len(ids)
    assert ids == [test.test_id for test in form_tests(evaluation.rows, evaluation.shape)]


def labelled(context_id: str, high: str, low: str, category: str, context: str = "text") -> Test:
    """Return the one test of a group of two."""
    good, bad = Annotation(context_id, context, high, label=OK), Annotation(context_id, context, low, label=category)
    (test,) = form_tests([good, bad], SingleErrorLabel(OK))
    return test


keys = st.tuples(*[st.sampled_from(["a", "ab", "b", "é", "e\u0301", " a"])] * 4)


@settings(max_examples=200, deadline=None)
@given(keys, keys)
@example(("c", "ab", "c", "E"), ("c", "a", "bc", "E"))
@example(("c", "x", "y", "E"), ("c", "y", "x", "E"))
@example(("c1", "x", "y", "E"), ("c", "1x", "y", "E"))
def test_test_ids_are_equal_exactly_for_one_context_id_category_and_texts(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    same = (first[0], first[3], nfc(first[1]), nfc(first[2])) == (second[0], second[3], nfc(second[1]), nfc(second[2]))
    assert (labelled(*first).test_id == labelled(*second).test_id) == same


@slowly
@given(keys, keys, st.integers(0, 3))
def test_a_test_id_changes_with_each_of_its_parts(key: tuple[str, ...], other: tuple[str, ...], part: int) -> None:
    changed = (*key[:part], key[part] + other[part], *key[part + 1 :])
    assert labelled(*changed).test_id != labelled(*key).test_id


def test_a_test_id_does_not_depend_on_who_judged_or_wrote_the_candidates() -> None:
    plain = rows({"label": OK}, {"label": "E"})
    known = [replace(row, system="s", rater="r", severity="minor", subcategory="x") for row in plain]
    ids = [form_tests(annotations, SingleErrorLabel(OK))[0].test_id for annotations in (plain, known)]
    assert ids[0] == ids[1]


def test_a_test_id_stays_what_it_was_in_published_sets() -> None:
    assert labelled("c", "good", "bad", "E").test_id == "3b36b30f1de55143"


def test_identifiers_do_not_depend_on_the_process_that_forms_them() -> None:
    code = (
        "from nnd_tasks.pairing import *; from nnd_tasks.schema import Annotation as A\n"
        "rows = [A(f'c{i % 2}', f'text {i % 2}', f'{i % 5}', {'q': 'x', 'answer': 'y'}, label='EF'[i % 3 == 0])"
        " for i in range(12)]\n"
        "print([(t.test_id, t.cluster_id) for t in form_tests(rows, SingleErrorLabel('E'))])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 100


def test_repeated_rows_give_repeated_tests_with_ids_of_their_own() -> None:
    annotations = rows({"label": OK}, {"label": "E"}) * 2
    tests = form_tests(annotations, SingleErrorLabel(OK))
    assert [(t.high, t.low) for t in tests] == [("a", "b")] * 4
    assert len({t.test_id for t in tests}) == 4
    assert form_tests(annotations[:2], SingleErrorLabel(OK))[0].test_id == tests[0].test_id


@settings(max_examples=30, deadline=None)
@given(evaluations(), evaluations())
def test_cluster_ids_are_equal_exactly_for_equal_prompts(one: Evaluation, other: Evaluation) -> None:
    tests = [*form_tests(one.rows, one.shape), *form_tests(other.rows, other.shape)]
    for first, second in combinations(tests, 2):
        same = (first.context, first.fields) == (second.context, second.fields)
        assert (first.cluster_id == second.cluster_id) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", {"answer": "c"}), ("a", {"answer": "bc"})),
        (("a", {"answer": "bc"}), ("a", {"answerb": "c"})),
        (("a", {"b": "c", "d": ""}), ("a", {"b": "", "d": "c"})),
        (("aanswerb", {}), ("a", {"answer": "b"})),
        (("", {"answer": "a"}), ("a", {"answer": ""})),
        (("a ", {}), ("a", {})),
    ],
)
def test_prompts_whose_parts_concatenate_to_the_same_text_are_different_clusters(
    one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]]
) -> None:
    ids = [
        form_tests(rows({"label": OK}, {"label": "E"}, context=text, fields=fields), SingleErrorLabel(OK))[0].cluster_id
        for text, fields in (one, other)
    ]
    assert ids[0] != ids[1]


# ---------------------------------------------------------------- texts


def test_composed_and_decomposed_characters_are_one_text() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    annotations = [
        Annotation("c", composed, decomposed, {"answer": composed}, label=OK),
        Annotation("c", decomposed, composed + "s", {"answer": decomposed}, label="E"),
        Annotation("d", decomposed, composed, {"answer": decomposed}, label=OK),
        Annotation("d", decomposed, decomposed + "s", {"answer": composed}, label="E"),
    ]
    first, second = form_tests(annotations, SingleErrorLabel(OK))
    assert first.cluster_id == second.cluster_id
    for test in (first, second):
        assert (test.context, test.high, test.low) == (composed, composed, composed + "s")
        assert test.fields == {"answer": composed}


def test_nothing_is_trimmed_or_replaced() -> None:
    text = "\ufeff  \u00a0two  spaces\tand\r\nlines ﬁ \u200b \n"  # the ligature would go under NFKC
    annotations = rows(
        {"label": OK, "candidate": text}, {"label": "E", "candidate": ""}, context=text, fields={"answer": text}
    )
    (test,) = form_tests(annotations, SingleErrorLabel(OK))
    assert (test.context, test.high, test.low, test.fields) == (text, text, "", {"answer": text})


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"context": "other"}, "context"),
        ({"context": "text "}, "context"),
        ({"fields": {"answer": "no"}}, "fields"),
        ({"fields": {}}, "fields"),
        ({"fields": {"question": "yes"}}, "fields"),
        ({"fields": {"answer": "yes", "question": "yes"}}, "fields"),
    ],
)
def test_rows_of_a_group_that_contradict_each_other_are_refused(change: dict[str, Any], word: str) -> None:
    annotations = rows(
        {"label": OK}, {"label": "E"}, {"label": "E", **change}, context_id="c7", fields={"answer": "yes"}
    )
    with pytest.raises(NNDError, match=rf"c7.*{word}"):
        form_tests(annotations, SingleErrorLabel(OK))


def test_rows_that_contradict_each_other_are_refused_even_when_they_are_in_no_test() -> None:
    annotations = rows({"score": 1.0}, {"score": None, "context": "other"})
    with pytest.raises(NNDError):
        form_tests(annotations, ScoreGap(0.5))


def test_groups_with_different_prompt_fields_are_refused() -> None:
    annotations = [
        *rows({"label": OK}, fields={"answer": "yes"}),
        *rows({"label": OK}, fields={"question": "yes"}, context_id="d9"),
    ]
    with pytest.raises(NNDError, match="d9"):
        form_tests(annotations, SingleErrorLabel(OK))


@pytest.mark.parametrize("name", ["category", "high", "two words"])
def test_a_prompt_field_with_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(NNDError, match=name):
        form_tests(rows({"label": OK}, fields={name: "x"}), SingleErrorLabel(OK))


@pytest.mark.parametrize(
    "shape", [SingleErrorLabel(OK), HierarchicalLabel(OK, PARENTS), HierarchicalLabel(OK, {}, "/")]
)
def test_a_candidate_without_a_label_is_refused(shape: Shape) -> None:
    with pytest.raises(NNDError, match=r"c7.*label"):
        form_tests(rows({"label": OK}, {"label": ""}, context_id="c7"), shape)


def test_a_candidate_without_ratings_is_refused() -> None:
    with pytest.raises(NNDError, match=r"c7.*ratings"):
        form_tests(rows({"ratings": (5,)}, {"ratings": ()}, context_id="c7", category="x"), LikertScale(best=5))


def test_an_unknown_error_label_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(NNDError) as caught:
        form_tests(rows({"label": OK}, {"label": "ente"}, context_id="c7"), HierarchicalLabel(OK, PARENTS))
    for word in ("c7", "'ente'", OK, *PARENTS):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "better", "worse"),
    [
        (LikertScale(best=5), {"ratings": (5,)}, {"ratings": (1,)}),
        (ScoreGap(1.0, category=""), {"score": 2.0}, {"score": 1.0}),
        (HierarchicalLabel(OK, {"E": ""}), {"label": OK}, {"label": "E"}),
        (HierarchicalLabel(OK, separator="/"), {"label": OK}, {"label": "/E"}),
    ],
)
def test_a_worse_candidate_without_a_category_is_refused(shape: Shape, better: Any, worse: Any) -> None:
    for order in ((better, worse), (worse, better)):
        with pytest.raises(NNDError, match=r"c7.*category"):
            form_tests(rows(*order, context_id="c7"), shape)
    assert form_tests(rows(worse, worse), shape) == []  # it is worse than nothing here


# ---------------------------------------------------------------- report


@slowly
@given(evaluations())
def test_the_report_counts_rows_left_out_ones_groups_and_groups_with_tests(evaluation: Evaluation) -> None:
    report = PairingReport()
    form_tests(evaluation.rows, evaluation.shape, report)
    assert report.counts() == {
        "annotations": len(evaluation.rows),
        "left_out": len([level for level in evaluation.levels if level is None]),
        "groups": len({row.context_id for row in evaluation.rows}),
        "groups_with_tests": len({expected[0] for expected in slow_tests(evaluation, evaluation.rows)}),
    }


def test_counts_are_added_to_a_report_that_already_has_some() -> None:
    report = PairingReport()
    for name in ("c", "d"):
        form_tests(rows({"score": 1.0}, {"score": None}, {"score": 2.0}, context_id=name), ScoreGap(0.5), report)
    assert report.counts() == {"annotations": 6, "left_out": 2, "groups": 2, "groups_with_tests": 2}
