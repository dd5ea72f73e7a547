"""Each rule against its slow definition on random tables, and against the pairing of the sets that are built in."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.card_sections import left_out, made_section
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import Test, cluster_key, normalize
from tests.new.small_tables import draft, draft_if_any, rows_of, slow_pairs, write_rows
from tests.slow_pairing import Annotation, LikertScale, ScoreGap, Shape, SingleErrorLabel, form_tests

CONTEXTS = ["one", "two", "Se\u0301", "S\u00e9", " "]
TEXTS = ["a", "b", "c", "a b", "a  b", " a b\n", "e\u0301", "\u00e9", "", "\t"]
LABELS = [["bad", "ugly"], ["fair"], ["good"]]
Table = list[dict[str, Any]]


def tables(marks: st.SearchStrategy[Any]) -> st.SearchStrategy[Table]:
    row = st.fixed_dictionaries({"c": st.sampled_from(CONTEXTS), "t": st.sampled_from(TEXTS), "x": marks, "y": marks})
    return st.lists(row, min_size=1, max_size=25)


labels = tables(st.sampled_from([None, "bad", "ugly", "fair", "good"]))
marks = tables(st.sampled_from([None, 1, 2, 3, 4, 5]))
several = st.booleans()


def fast(rows: Table, aspects: list[str], role: str, **options: Any) -> list[tuple[Any, ...]]:
    """Return the tests; none where the table gives none."""
    columns = {"attribute": aspects} if len(aspects) > 1 else {role: aspects[0]}
    with tempfile.TemporaryDirectory() as folder:
        source = write_rows(Path(folder) / "table.jsonl", rows)
        found = draft_if_any(source, {"context": "c", "candidate": "t", **columns, **options})
    return rows_of(found, "context", "high", "low", "category", "high_first") if found else []


@settings(max_examples=60, deadline=None)
@given(marks, several, st.sampled_from([0.5, 1.0, 4 / 3, 2.0]))
def test_a_gap_of_means_makes_the_pairs_of_the_definition(rows: Table, both: bool, gap: float) -> None:
    aspects = ["x", "y"] if both else ["x"]
    assert fast(rows, aspects, "score", min_gap=gap) == slow_pairs(rows, "gap", aspects, gap)


@settings(max_examples=60, deadline=None)
@given(marks, several)
def test_a_majority_of_best_marks_makes_the_pairs_of_the_definition(rows: Table, both: bool) -> None:
    aspects = ["x", "y"] if both else ["x"]
    assert fast(rows, aspects, "score", majority=True) == slow_pairs(rows, "majority", aspects, None)


@settings(max_examples=60, deadline=None)
@given(labels, several)
def test_an_order_makes_the_pairs_of_the_definition(rows: Table, both: bool) -> None:
    aspects = ["x", "y"] if both else ["x"]
    assert fast(rows, aspects, "label", order=LABELS) == slow_pairs(rows, "order", aspects, LABELS)


@settings(max_examples=60, deadline=None)
@given(labels)
def test_better_labels_make_the_pairs_of_the_definition(rows: Table) -> None:
    rows = [*rows, {"c": "last", "t": "a", "x": "good", "y": None}, {"c": "last", "t": "b", "x": "fair", "y": None}]
    ranks = [["bad", "ugly"], ["fair", "good"]]
    assert fast(rows, ["x"], "label", better=["fair", "good"]) == slow_pairs(rows, "better", ["x"], ranks)


def built_in(rows: Table, shape: Shape, mark: str) -> list[Test]:
    annotations = []
    for row in rows:
        given = (
            {"label": row["x"]}
            if mark == "label"
            else {"score": row["x"]}
            if mark == "score"
            else {"ratings": (row["x"],)}
        )
        key = cluster_key(row["c"], {})
        annotations.append(Annotation(key, row["c"], row["t"], category="preference" * (mark != "label"), **given))
    return form_tests(annotations, shape)


@pytest.mark.parametrize(
    ("mark", "shape", "options"),
    [
        ("label", SingleErrorLabel("good"), {"label": "x", "better": "good"}),
        ("score", ScoreGap(2.0), {"score": "x", "min_gap": 2}),
        ("ratings", LikertScale(5.0), {"score": "x", "majority": True, "best": 5}),
    ],
)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_where_each_candidate_is_judged_once_the_tests_are_those_of_the_built_in_sets(
    mark: str, shape: Shape, options: dict[str, Any], data: st.DataObject
) -> None:
    values = st.sampled_from(["good", "bad", "ugly"] if mark == "label" else [1, 2, 3, 4, 5])
    keys = data.draw(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("abcdef")), unique=True, min_size=2))
    rows = [{"c": context, "t": text, "x": data.draw(values)} for context, text in keys]
    expected = [
        (one.test_id, one.cluster_id, one.high, one.low, one.category, one.high_first, one.high_label, one.low_score)
        for one in built_in(rows, shape, mark)
    ]
    with tempfile.TemporaryDirectory() as folder:
        source = write_rows(Path(folder) / "t.jsonl", rows)
        found = draft_if_any(source, {"context": "c", "candidate": "t", **options})
    rows = found.table.to_pylist() if found else []
    for one, row in zip(expected, rows, strict=True):
        assert one[:6] == tuple(row[k] for k in ("test_id", "cluster_id", "high", "low", "category", "high_first"))
        if mark == "label":
            assert one[6] == row["high_label"]
        else:
            assert one[7] == row["low_score"]


# ---------------------------------------------------------------- raters, attributes, what is left out


def judged(*marks_of: tuple[str, Any], context: str = "C", **more: Any) -> Table:
    return [{"context": context, "candidate": text, "x": mark, **more} for text, mark in marks_of]


def test_raters_without_a_majority_leave_the_candidate_out_and_it_is_counted(tmp_path: Path) -> None:
    rows = judged(("a", "good"), ("a", "good"), ("a", "bad"), ("b", "bad"), ("c", "good"), ("c", "bad"))
    found = draft(tmp_path, rows, label="x", better="good")
    assert rows_of(found, "high", "low", "category") == [("a", "b", "bad")]
    assert found.dropped.counts == {"tie": 1}
    assert found.dropped.rows == {"tie": [5]}


def test_errors_of_several_kinds_outvote_a_good_label_together(tmp_path: Path) -> None:
    rows = judged(("a", "good"), ("a", "slip"), ("a", "lie"), ("b", "good"))
    found = draft(tmp_path, rows, label="x", better="good")
    assert rows_of(found, "high", "low", "category") == [("b", "a", "slip")]


def voted(*marks_of: tuple[str, str | None, Any]) -> Table:
    return [{"context": "C", "candidate": text, "rater": rater, "x": mark} for text, rater, mark in marks_of]


def test_a_rater_counts_once_for_a_candidate(tmp_path: Path) -> None:
    marks = voted(("a", "r", 5), ("a", "r", 4), ("a", "s", 1), ("b", None, 2), ("b", None, 3), ("b", None, 4))
    found = draft(tmp_path, marks, score="x", min_gap=0.25)
    assert rows_of(found, "high_score", "low_score") == [(3.0, 2.75)]


def test_a_rater_of_two_minds_has_no_vote(tmp_path: Path) -> None:
    marks = voted(
        ("a", "r", "bad"), ("a", "r", "bad"), ("a", "r", "good"), ("a", "s", "good"), ("a", "t", "good"),
        ("b", "r", "bad"), ("b", "s", "good"), ("b", "s", "bad"),
        ("c", "r", "good"), ("c", "r", "bad"),
    )  # fmt: skip
    found = draft(tmp_path, marks, label="x", better="good")
    assert rows_of(found, "high", "low", "category") == [("a", "b", "bad")]
    assert found.dropped.counts == {"rater_tie": 2, "tie": 1}
    assert found.dropped.rows["rater_tie"] == [7, 9]


def test_several_marks_in_the_cell_of_a_rater_are_of_several(tmp_path: Path) -> None:
    marks = voted(("a", "r", [5, 5, 1]), ("b", "r", [5, 1, 1]))
    found = draft(tmp_path, marks, score="x", majority=True)
    assert rows_of(found, "high", "low") == [("a", "b")]


def once_each(rows: Table, rule: str) -> Table:
    """Return the judgements with those that one rater gave of one candidate put together, at the place of the first."""
    groups: dict[Any, Table] = {}
    for i, row in enumerate(rows):
        if row["x"] is not None and row["c"].strip() and row["t"].strip():
            key = (normalize(row["c"]), normalize(row["t"]), row["r"] or i)
            groups.setdefault(key, []).append(row)
    made = []
    for group in groups.values():
        given = [row["x"] for row in group]
        if rule == "gap":
            made.append({**group[0], "x": sum(given) / len(given)})
            continue
        rank = {label: i for i, ranked in enumerate(LABELS) for label in ranked}
        (first, most), *others = Counter(rank[mark] for mark in given).most_common()
        if not others or others[0][1] < most:
            label = Counter(mark for mark in given if rank[mark] == first).most_common()[0][0]
            made.append({**group[0], "x": label})
    return made


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["gap", "order"]))
def test_judgements_of_one_rater_are_one_as_in_the_definition(data: st.DataObject, rule: str) -> None:
    given_marks = [None, 1, 2, 4] if rule == "gap" else [None, "bad", "ugly", "good"]
    row = {"c": "CD", "t": ["a", "b", "a "], "r": [None, "r", "s"], "x": given_marks}
    strategies = {key: st.sampled_from(values) for key, values in row.items()}
    rows = data.draw(st.lists(st.fixed_dictionaries(strategies), min_size=6, max_size=25))
    setting, options = (0.5, {"min_gap": 0.5}) if rule == "gap" else (LABELS, {"order": LABELS})
    found = fast(rows, ["x"], "score" if rule == "gap" else "label", rater="r", **options)
    expected = slow_pairs(once_each(rows, rule), rule, ["x"], setting)
    assert Counter((c, normalize(h), normalize(w), k) for c, h, w, k, _ in found) == Counter(
        (c, normalize(h), normalize(w), k) for c, h, w, k, _ in expected
    )


def test_a_list_of_scores_is_one_rating_each(tmp_path: Path) -> None:
    rows = judged(("a", [5, 5, 1]), ("b", [5, 4, 4]), ("c", []))
    found = draft(tmp_path, rows, score="x", majority=True)
    assert rows_of(found, "high", "low", "high_score") == [("a", "b", pytest.approx(11 / 3))]
    assert found.dropped.counts == {"no_judgement": 1}


def test_systems_and_raters_are_kept_and_equal_texts_of_two_systems_joined(tmp_path: Path) -> None:
    rows = [
        {"context": "C", "candidate": "a", "score": 5, "system": "s1", "rater": "r1"},
        {"context": "C", "candidate": "a", "score": 4, "system": "s2", "rater": "r2"},
        {"context": "C", "candidate": "b", "score": 1, "system": "s3", "rater": "r2"},
    ]
    found = draft(tmp_path, rows, min_gap=1)
    columns = ("high_system", "low_system", "high_score", "low_score", "rater")
    assert rows_of(found, *columns) == [("s1|s2", "s3", 4.5, 1.0, "r2")]


def test_an_attribute_column_makes_a_category_of_each_name(tmp_path: Path) -> None:
    rows = [
        {"context": "C", "candidate": text, "aspect": aspect, "score": score}
        for aspect, scores in (("fluency", (1, 5)), ("truth", (5, 1)))
        for text, score in zip("ab", scores, strict=True)
    ]
    found = draft(tmp_path, rows, attribute="aspect", score="score", min_gap=2)
    assert rows_of(found, "high", "low", "category") == [("b", "a", "fluency"), ("a", "b", "truth")]


def test_prompt_fields_make_prompts_of_their_own(tmp_path: Path) -> None:
    rows = judged(("a", 1), ("b", 5), answer="yes") + judged(("a", 5), ("b", 1), answer="no")
    found = draft(tmp_path, rows, score="x", min_gap=1, field={"reply": "answer"})
    assert rows_of(found, "high", "reply") == [("b", "yes"), ("a", "no")]
    ids = [row["cluster_id"] for row in found.table.to_pylist()]
    assert ids == [cluster_key("C", {"reply": "yes"}), cluster_key("C", {"reply": "no"})]


def test_everything_that_is_left_out_is_counted_with_its_rows(tmp_path: Path) -> None:
    rows = [
        *judged(("a", "good"), ("b", "bad"), ("c", "bad"), (" ", "bad"), ("d", None), ("e", "unsure")),
        *judged(("a", "good"), context=""),
        *judged(("alone", "good"), context="D"),
    ]
    found = draft(tmp_path, rows, label="x", better="good", ignore="unsure")
    assert found.dropped.counts == {
        "empty": 1, "no_context": 1, "no_judgement": 1, "ignored": 1, "no_order": 1, "no_pair": 1,
    }  # fmt: skip
    assert found.dropped.rows["no_pair"] == [8]
    assert found.dropped.rows["empty"] == [4]
    assert found.report["rows"] == len(rows)


def test_a_category_column_names_the_kind_of_the_worse_candidate(tmp_path: Path) -> None:
    rows = [
        {"context": "C", "candidate": text, "score": score, "kind": kind}
        for text, score, kind in (("a", 5, "fine"), ("b", 1, "slip"), ("c", 2, None))
    ]
    found = draft(tmp_path, rows, category="kind", min_gap=3)
    assert rows_of(found, "low", "category") == [("b", "slip"), ("c", "preference")]


# ---------------------------------------------------------------- wrong rules


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "x", "order": ["bad", "Odds", "good"]}, r"--order: it lacks the label 'odd'; did you mean 'Odds'\?"),
        ({"label": "x", "order": ["low", "high"]}, r"--order low: no candidate has this label; the labels are 'good'"),
        (
            {"label": "x", "better": "great"},
            r"--better great: no candidate has this label; the labels are 'good', 'bad', 'odd'",
        ),
        ({"label": "x", "better": "good", "min_gap": 1}, "--better and --min-gap: a set has one rule"),
        ({"label": "x", "min_gap": 1}, "--min-gap compares numbers"),
        ({"score": "x", "min_gap": 1}, r"table.jsonl, line 1, column 'x': expected a number, found 'good'"),
        ({"score": "x", "min_gap": 0}, "a gap is above 0"),
        ({"label": "x"}, "say what is better: column 'x' holds the labels 'bad', 'good', 'odd'"),
        ({"label": "x", "order": ["bad"]}, "name two labels or more"),
        ({"label": "x", "order": ["bad", "bad"]}, "a label is named twice"),
        ({"label": "x", "better": "good", "ignore": "good"}, "names this label too"),
        ({"label": "y", "better": "good"}, r"there is no column 'y'; .*there are: context, candidate, x"),
        ({"label": "x", "better": "good", "field": {"high": "x"}}, "a name that is in use"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused_in_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    rows = judged(("a", "good"), ("b", "bad"), ("c", "odd"))
    with pytest.raises(NNDError, match=message) as error:
        draft(tmp_path, rows, **options)
    assert "\n" not in str(error.value)


def test_a_better_label_in_two_spellings_is_not_taken_for_an_error(tmp_path: Path) -> None:
    rows = judged(("a", "No-error"), ("b", "no-error"), ("c", "Fluency"))
    with pytest.raises(NNDError, match=r"--better No-error: the table has the label 'no-error' too; name both"):
        draft(tmp_path, rows, label="x", better="No-error")
    for options in ({"better": ["No-error", "no-error"]}, {"better": "No-error", "ignore": "no-error"}):
        assert {*rows_of(draft(tmp_path, rows, label="x", **options), "low")} == {("c",)}


def test_labels_that_an_order_does_not_have_are_left_out_and_named(tmp_path: Path) -> None:
    rows = judged(("a", "good"), ("b", "bad"), ("c", "odd"), ("d", "unsure"), ("a", "new"))
    found = draft(tmp_path, rows, label="x", order=["worst", "bad", "good"], ignore="unsure")
    assert rows_of(found, "high", "low") == [("a", "b")]
    assert found.dropped.counts == {"ignored": 1, "unranked": 2}
    assert found.dropped.rows["unranked"] == [3, 5]
    assert found.report["judgements"] == 2
    text = "2 judgements whose label the order does not have ('odd', 'new')"
    assert left_out(found.dropped.counts, found.dropped.labels)["unranked"] == text
    assert text in "\n".join(made_section(found.recipe.facts("mine"), found.formed.report))


def test_equal_texts_are_named_where_no_test_comes_out_of_them(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=r"no test comes out.*; equal texts of a context count as one candidate"):
        draft(tmp_path, judged(("a", 1), ("a", 5)), score="x", min_gap=1)


def test_no_pair_says_why(tmp_path: Path) -> None:
    rows = [{"context": f"C{i}", "candidate": "a", "score": i} for i in range(4)]
    with pytest.raises(NNDError, match=r"no test comes out; left out are 4 candidates .*in no test"):
        draft(tmp_path, rows, min_gap=1)


def test_a_context_of_too_many_candidates_is_refused_before_they_are_compared(tmp_path: Path) -> None:
    rows = [{"context": "C", "candidate": str(i), "score": i % 2} for i in range(32_000)]
    with pytest.raises(NNDError, match="511,984,000 pairs of candidates"):
        draft(tmp_path, rows, score="score", context="context", candidate="candidate", min_gap=1)


@pytest.mark.parametrize("column", ["quality", "grade", "x"])
def test_a_column_of_numbers_is_proposed_as_a_score_whatever_its_name(tmp_path: Path, column: str) -> None:
    rows = [
        {"context": f"C{i // 4}", "candidate": f"answer {i}", column: quality}
        for i, quality in enumerate([1, 2.5, 2.5, 4, 3, 3, 1, 4] * 3)
    ]
    with pytest.raises(NNDError, match=rf"numbers from 1 to 4, so --score {column} --min-gap X"):
        draft(tmp_path, rows)
    assert rows_of(draft(tmp_path, rows, score=column, min_gap=1), "high") == rows_of(
        draft(tmp_path, rows, min_gap=1), "high"
    )
