"""The engine on tables whose rows are candidates, against slow definitions: every two rows of a group, one by one."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.base_table import Rows
from nnd_tasks.recipes.make import Made, make_tests
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.schema import cluster_key
from nnd_tasks.tables import to_table
from tests.slow_pairing import (
    Annotation,
    HierarchicalLabel,
    LikertScale,
    PairingReport,
    ScoreGap,
    Shape,
    SingleErrorLabel,
    form_tests,
)

OK = "No error"
Row = dict[str, Any]
slowly = settings(max_examples=40, deadline=None)

#: What all recipes here have in common.
COLUMNS: Row = {
    "group": "id",
    "context": "text",
    "candidate": "candidate",
    "system": "system",
    "candidates": "rows",
}


# ---------------------------------------------------------------- evaluations of every shape


@dataclass(frozen=True)
class Level:
    """What the test's own definition knows of one row: its quality in whole steps, and what a test of it is called."""

    steps: int
    category: str = ""
    subcategory: str = ""


@dataclass(frozen=True)
class Judged:
    """One judged candidate: its cells in the table, what they are for the oracle, and its level."""

    cells: Row
    known: Row
    level: Level | None


@dataclass(frozen=True)
class Evaluation:
    """A random table and what it means, row ``i`` by system ``i`` (level None: it takes part in no test)."""

    recipe: Row
    shape: Shape
    table: list[Row]
    rows: list[Annotation]
    levels: list[Level | None]
    gap: int = 1

    def level(self, row: Annotation) -> Level | None:
        return self.levels[int(row.system)]

    @property
    def aspects(self) -> bool:
        return "attribute" in self.recipe

    def judgements(self) -> int:
        """Return how many judgements of candidates there are, several raters of one candidate each."""
        judged = [row for row in self.rows if self.level(row) is not None]
        return sum(len(row.ratings) or 1 for row in judged)


@dataclass(frozen=True)
class Kind:
    """One kind of human evaluation: its recipe, the oracle's shape, and what a row can be."""

    recipe: Row
    shape: Shape
    row: st.SearchStrategy[Judged]
    gap: int = 1


PARENTS = {"EntE": "Frame", "RelE": "Frame", "CorefE": "Discourse", "OtherE": None}
#: How a label can be written: around it is white space, and the best one is known in any case.
GOOD = st.sampled_from([OK, OK, "no error", " NO ERROR\n"])


@st.composite
def single(draw: st.DrawFn) -> Judged:
    label = draw(st.sampled_from([OK, "Disfluent", "Off target"]))
    if label == OK:
        return Judged({"label": draw(GOOD)}, {"label": OK}, Level(1))
    return Judged({"label": draw(st.sampled_from(["", " "])) + label}, {"label": label}, Level(0, label))


@st.composite
def hierarchical(draw: st.DrawFn) -> Judged:
    label = draw(st.sampled_from([OK, *PARENTS]))
    if label == OK:
        return Judged({"label": draw(GOOD)}, {"label": label}, Level(1))
    parent = PARENTS[label]
    return Judged({"label": label}, {"label": label}, None if parent is None else Level(0, parent, label))


@st.composite
def paths(draw: st.DrawFn) -> Judged:
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
    return Judged({"label": label}, {"label": label}, level)


@st.composite
def likert(draw: st.DrawFn) -> Judged:
    ratings = draw(st.lists(st.sampled_from([5.0, 5.0, 4.0, 1.0]), min_size=1, max_size=4))
    aspect = draw(st.sampled_from(["coherence", "fluency"]))
    votes_for = len([r for r in ratings if r == 5.0])
    votes_against = len(ratings) - votes_for
    level = Level(1 if votes_for > votes_against else 0, aspect, "part")
    known = {"ratings": tuple(ratings), "category": aspect, "subcategory": "part"}
    return Judged({"score": ratings, "aspect": aspect, "kind": "part"}, known, level)


@st.composite
def scored(draw: st.DrawFn, *, aspects: bool) -> Judged:
    """Scores in tenths: the level counts them exactly, the table has the float, however it was computed and written."""
    tenths = draw(st.one_of(st.none(), st.integers(-10, 10)))
    named = draw(st.sampled_from(["style", "form"] if aspects else ["", "style"]))
    label = draw(st.sampled_from(["", "so so", "fine"]))
    cells = {"aspect" if aspects else "kind": named, "label": label}
    known = {"category": named, "label": label}
    if tenths is None:
        nothing = draw(st.sampled_from([None, "", " n/a", "NaN", float("nan")]))
        return Judged({**cells, "score": nothing}, {**known, "score": None}, None)
    score = draw(st.sampled_from([tenths / 10, tenths * 0.1]))
    written = draw(st.sampled_from([score, repr(score), f" {score!r} "]))
    return Judged({**cells, "score": written}, {**known, "score": score}, Level(tenths, named or "preference"))


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    kind = draw(st.sampled_from(["single", "hierarchical", "paths", "likert", "score", "scored aspects"]))
    labels = {"label": "label", "better": [OK]}
    if kind == "single":
        return Kind({**labels, "complete": True}, SingleErrorLabel(OK), single())
    if kind == "hierarchical":
        recipe = {**labels, "categories": PARENTS, "complete": True}
        return Kind(recipe, HierarchicalLabel(OK, PARENTS), hierarchical())
    if kind == "paths":
        left_out = {"Source/issue": None}
        recipe = {**labels, "categories": left_out, "separator": "/"}
        return Kind(recipe, HierarchicalLabel(OK, left_out, separator="/"), paths())
    if kind == "likert":
        recipe = {"score": "score", "attribute": ["aspect"], "category": "kind", "majority": True, "best": 5}
        return Kind({**recipe, "complete": True}, LikertScale(best=5.0), likert())
    gap, aspects = draw(st.sampled_from([1, 2, 3, 10])), kind == "scored aspects"
    recipe = {"score": "score", "label": "label", "min_gap": gap / 10}
    recipe |= {"attribute": ["aspect"]} if aspects else {"category": "kind"}
    return Kind(recipe, ScoreGap(gap / 10, aspects=aspects), scored(aspects=aspects), gap)


texts = st.sampled_from(["", "a", " a", "a\n", "é", "e\u0301", "b"])
#: Groups and what they show a model; of "g2" and "g3" that is the same, so they are one cluster.
GROUPS = [
    ("g0", "text ", "yes"),
    ("g1", "text", "yes"),
    ("g2", "cafe\u0301", "no"),
    ("g3", "café", "no"),
    ("g4", "", " "),
    ("g5", "", ""),
]


@st.composite
def evaluations(draw: st.DrawFn) -> Evaluation:
    kind = draw(kinds())
    grouped = draw(st.sampled_from(["id", "id", "{id}/{aspect}", None]))
    if grouped == "{id}/{aspect}" and "attribute" not in kind.recipe:
        grouped = "id"
    recipe = {**COLUMNS, **kind.recipe, "group": grouped, "field": {"answer": "answer"}}
    named = {name: True for name in ("severity", "rater") if draw(st.booleans())}
    recipe |= {name: name for name in named}
    table: list[Row] = []
    rows: list[Annotation] = []
    levels: list[Level | None] = []
    one = st.tuples(st.sampled_from(GROUPS), texts, st.sampled_from(["", "minor"]), st.sampled_from(["r1", "r2"]))
    for ((group, text, answer), candidate, severity, rater), judged in draw(
        st.lists(st.tuples(one, kind.row), max_size=12)
    ):
        if grouped is None:
            context_id = cluster_key(nfc(text), {"answer": nfc(answer)})
        else:
            context_id = group if grouped == "id" else f"{group}/{judged.known['category']}"
        common = {"candidate": candidate, "severity": severity, "rater": rater, "system": str(len(rows))}
        where = {"@where": f"table, row {len(rows)}"}
        table.append({**where, **common, "id": group, "text": text, "answer": answer, **judged.cells})
        known: Row = {name: value for name, value in common.items() if name in recipe}
        rows.append(Annotation(context_id, text, fields={"answer": answer}, **known, **judged.known))
        levels.append(judged.level)
    return Evaluation(recipe, kind.shape, table, rows, levels, kind.gap)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def engine(recipe: Mapping[str, Any], table: Iterable[Row]) -> Made:
    """Return what the engine makes of a table."""
    return make_tests(Rows("table", table), make_recipe(recipe))


def engine_if_any(recipe: Mapping[str, Any], table: Sequence[Row]) -> Made | None:
    """Return the same, None where no test comes out."""
    try:
        return engine(recipe, table)
    except NNDError as error:
        if ("table: no test comes out" if table else "table: it holds no row") not in str(error):
            raise
        return None


#: Columns that a table has only where a row fills them.
ABSENT = dict.fromkeys(("subcategory", "severity", "high_system", "low_system", "rater"), "")


def cells_of(made: Made | None) -> list[Row]:
    """Return the tests as rows, with every column of text."""
    return [] if made is None else [{**ABSENT, **row} for row in made.table.to_pylist()]


def found_in(evaluation: Evaluation) -> list[Row]:
    return cells_of(engine_if_any(evaluation.recipe, evaluation.table))


def slow_tests(evaluation: Evaluation) -> list[tuple[Any, ...]]:
    """Return what the tests must be: group by group, aspect by aspect, every two rows in the order of the table."""
    expected = []
    rows = evaluation.rows
    aspects = dict.fromkeys(row.category if evaluation.aspects else "" for row in rows)
    for group in dict.fromkeys(row.context_id for row in rows):
        for aspect in aspects:
            own = [row for row in rows if row.context_id == group and row.category == (aspect or row.category)]
            for first, second in combinations(own, 2):
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


def shown(test: Row) -> tuple[Any, ...]:
    """Return a test as `slow_tests` writes it."""
    names = (
        "context_id",
        "context",
        "answer",
        "high",
        "low",
        "category",
        "subcategory",
        "high_system",
        "low_system",
        "severity",
        "rater",
        "high_first",
    )
    return tuple(test[name] for name in names)


# ---------------------------------------------------------------- which pairs


@settings(max_examples=150, deadline=None)
@given(evaluations())
def test_tests_are_all_pairs_of_known_difference_in_the_order_of_the_table(evaluation: Evaluation) -> None:
    assert [shown(t) for t in found_in(evaluation)] == slow_tests(evaluation)


@settings(max_examples=200, deadline=None)
@given(evaluations())
def test_the_table_is_that_of_the_slow_oracle_in_every_cell(evaluation: Evaluation) -> None:
    made = engine_if_any(evaluation.recipe, evaluation.table)
    expected = form_tests(evaluation.rows, evaluation.shape)
    if made is None:
        assert expected == []
        return
    wanted = to_table(expected)
    assert made.table.to_pylist() == wanted.to_pylist()
    assert made.table.schema == wanted.schema, "the same columns in the same order"


@slowly
@given(evaluations().filter(lambda e: not isinstance(e.shape, ScoreGap)))
def test_with_two_levels_a_group_gives_better_times_worse_tests(evaluation: Evaluation) -> None:
    def part(row: Annotation) -> tuple[str, str]:
        return row.context_id, row.category if evaluation.aspects else ""

    found = Counter(
        (test["context_id"], test["category"] if evaluation.aspects else "") for test in found_in(evaluation)
    )
    for group in {part(row) for row in evaluation.rows}:
        levels = [evaluation.level(row) for row in evaluation.rows if part(row) == group]
        better = [level for level in levels if level is not None and level.steps == 1]
        worse = [level for level in levels if level is not None and level.steps == 0]
        assert found[group] == len(better) * len(worse)


@slowly
@given(evaluations())
def test_the_higher_candidate_is_better_and_no_pair_is_within_one_quality(evaluation: Evaluation) -> None:
    for test in found_in(evaluation):
        high, low = evaluation.levels[int(test["high_system"])], evaluation.levels[int(test["low_system"])]
        assert high is not None
        assert low is not None
        assert high.steps > low.steps


@slowly
@given(evaluations(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing_but_which_candidate_comes_first(evaluation: Evaluation, random: Any) -> None:
    shuffled = list(evaluation.table)
    random.shuffle(shuffled)
    position = {row["system"]: i for i, row in enumerate(shuffled)}
    before, others = found_in(evaluation), found_in(replace(evaluation, table=shuffled))

    def content(items: list[Row]) -> Counter[tuple[Any, ...]]:
        return Counter(shown(test)[:-1] for test in items)  # all but high_first

    def identity(items: list[Row]) -> dict[str, tuple[str, ...]]:
        names = ("context_id", "cluster_id", "context", "high", "low", "category")
        return {test["test_id"]: tuple(test[name] for name in names) for test in items}

    assert content(others) == content(before)
    assert identity(others) == identity(before)
    for test in others:
        assert test["high_first"] == (position[test["high_system"]] < position[test["low_system"]])


def rows(*values: Row, **common: Any) -> list[Row]:
    """Return rows of one group with candidates a, b, c ..."""
    defaults = {"id": "c", "text": "text", **common}
    found = [{**defaults, "candidate": name, **row} for name, row in zip("abcdefgh", values, strict=False)]
    return [{"@where": f"table, row {i}", **row} for i, row in enumerate(found, start=1)]


PLAIN: Row = {name: value for name, value in COLUMNS.items() if name != "system"}
LABELS: Row = {**PLAIN, "label": "label", "better": [OK], "complete": True}
RATINGS: Row = {**PLAIN, "score": "score", "attribute": ["aspect"], "majority": True, "best": 5, "complete": True}


def scores(gap: float, **more: Any) -> Row:
    return {**PLAIN, "score": "score", "min_gap": gap, **more}


def pairs(recipe: Row, table: list[Row]) -> list[tuple[str, str]]:
    return [(test["high"], test["low"]) for test in cells_of(engine_if_any(recipe, table))]


def test_a_stream_of_rows_gives_the_same_tests_as_a_list() -> None:
    table = rows({"label": "E"}, {"label": OK}, {"label": "F"})
    assert len(engine(LABELS, table).table) == 2
    assert engine(LABELS, iter(table)).table.equals(engine(LABELS, table).table)
    recipe = {**LABELS, "clean": {"categories": {"E": None}, "separator": "/"}}
    made = engine(recipe, iter(table))
    assert made.clean is not None
    assert [(row["high"], row["low"]) for row in made.clean.to_pylist()] == [("b", "c")], "read again for clean"


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
    table = rows({"score": ratings}, {"score": (1, 1)}, {"score": (5, 5)}, aspect="fluency")
    assert pairs(RATINGS, table) == ([("a", "b"), ("c", "b")] if good else [("c", "a"), ("c", "b")])


def test_a_likert_test_keeps_the_ratings_and_their_mean() -> None:
    [test] = cells_of(engine(RATINGS, rows({"score": (4.5, 1)}, {"score": (5, 5)}, aspect="fluency")))
    labels = [test[name] for name in ("high_label", "high_score", "low_label", "low_score")]
    assert labels == ["5,5", 5.0, "4.5,1", 2.75]


@pytest.mark.parametrize(
    ("better", "worse", "gap"),
    [(0.3, 0.1, 0.2), (0.1 + 0.2, 0.2, 0.1), (1.1, 1.0, 0.1), (100.3, 100.1, 0.2), (-0.1, -0.3, 0.2), (2.0, 0.0, 2.0)],
)
def test_a_gap_is_not_missed_by_rounding(better: float, worse: float, gap: float) -> None:
    assert pairs(scores(gap), rows({"score": worse}, {"score": better})) == [("b", "a")]


@pytest.mark.parametrize(("better", "worse", "gap"), [(0.2999, 0.1, 0.2), (1.0, -0.999, 2.0), (0.5, 0.5, 0.1)])
def test_a_smaller_difference_than_the_gap_makes_no_test(better: float, worse: float, gap: float) -> None:
    assert pairs(scores(gap), rows({"score": worse}, {"score": better})) == []


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("complete", [False, True])
def test_a_score_that_is_nan_never_makes_a_test(place: int, complete: bool) -> None:
    table = rows({"score": 1.0}, {"score": 1.0}, {"score": 2.0})
    table[place]["score"] = float("nan")
    recipe = scores(0.5, complete=complete)
    if complete:
        with pytest.raises(NNDError, match=rf"row {place + 1}, column 'score'"):
            engine(recipe, table)
    else:
        assert pairs(recipe, table) == [("c", "ab"[1 - place])]


@pytest.mark.parametrize("score", [float("inf"), float("-inf"), "inf", "1e999"])
def test_an_infinite_score_is_refused(score: Any) -> None:
    with pytest.raises(NNDError, match=r"row 2, column 'score'"):
        engine(scores(0.5), rows({"score": 1.0}, {"score": score}, {"score": score}))


@pytest.mark.parametrize("gap", [0.0, -1.0, float("nan"), float("inf")])
def test_a_gap_that_is_not_above_0_is_refused(gap: float) -> None:
    with pytest.raises(NNDError, match=r"gap is above 0|is not a number that can be compared"):
        engine(scores(gap), rows({"score": 1.0}, {"score": 1.0}))


def test_the_category_of_a_score_is_the_rows_own_else_preference() -> None:
    table = rows({"score": 3.0}, {"score": 2.0, "kind": "style"}, {"score": 1.0})
    found = cells_of(engine(scores(1.0, category="kind"), table))
    assert [(t["high"], t["low"], t["category"]) for t in found] == [
        ("a", "b", "style"),
        ("a", "c", "preference"),
        ("b", "c", "preference"),
    ]
    named = scores(1.0, category="name", constant={"name": "votes"})
    assert {t["category"] for t in cells_of(engine(named, table))} == {"votes"}


def test_listed_categories_go_before_the_first_part_of_a_path() -> None:
    recipe = {**LABELS, "categories": {"Accuracy/Omission": "Missing", "Other": None}, "separator": "/"}
    labels = [OK, "Accuracy/Omission", "Accuracy/Addition", "Other", "Fluency"]
    names = ("low", "category", "subcategory", "high_label", "low_label")
    found = cells_of(engine(recipe, rows(*[{"label": label} for label in labels])))
    assert [tuple(test[name] for name in names) for test in found] == [
        ("b", "Missing", "Accuracy/Omission", OK, "Accuracy/Omission"),
        ("c", "Accuracy", "Accuracy/Addition", OK, "Accuracy/Addition"),
        ("e", "Fluency", "Fluency", OK, "Fluency"),
    ]


# ---------------------------------------------------------------- identifiers


@slowly
@given(evaluations())
def test_test_ids_are_distinct_and_the_same_when_formed_again(evaluation: Evaluation) -> None:
    ids = [test["test_id"] for test in found_in(evaluation)]
    assert len(set(ids)) == len(ids)
    assert ids == [test["test_id"] for test in found_in(evaluation)]


def labelled(group: str, high: str, low: str, category: str, context: str = "text") -> Row:
    """Return the one test of a group of two."""
    good = {"candidate": high, "label": OK}
    [test] = cells_of(engine(LABELS, rows(good, {"candidate": low, "label": category}, id=group, text=context)))
    return test


keys = st.tuples(*[st.sampled_from(["a", "ab", "b", "cé", "ce\u0301", " a"])] * 4)


@settings(max_examples=200, deadline=None)
@given(keys, keys)
@example(("c", "ab", "c", "E"), ("c", "a", "bc", "E"))
@example(("c", "x", "y", "E"), ("c", "y", "x", "E"))
@example(("c1", "x", "y", "E"), ("c", "1x", "y", "E"))
def test_test_ids_are_equal_exactly_for_one_context_id_category_and_texts(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    def key(parts: tuple[str, ...]) -> tuple[str, ...]:
        return *map(nfc, parts[:3]), nfc(parts[3]).strip()  # white space is no part of a label

    assert (labelled(*first)["test_id"] == labelled(*second)["test_id"]) == (key(first) == key(second))


@slowly
@given(keys, keys, st.integers(0, 3))
def test_a_test_id_changes_with_each_of_its_parts(key: tuple[str, ...], other: tuple[str, ...], part: int) -> None:
    changed = (*key[:part], key[part] + other[part], *key[part + 1 :])
    assert labelled(*changed)["test_id"] != labelled(*key)["test_id"]


def test_a_test_id_does_not_depend_on_who_judged_or_wrote_the_candidates() -> None:
    plain = rows({"label": OK}, {"label": "E"})
    known = [{**row, "system": "s", "rater": "r", "severity": "minor"} for row in plain]
    more = {**LABELS, "system": "system", "rater": "rater", "severity": "severity"}
    assert labelled("c", "a", "b", "E")["test_id"] == cells_of(engine(more, known))[0]["test_id"]


def test_a_test_id_stays_what_it_was_in_published_sets() -> None:
    assert labelled("c", "good", "bad", "E")["test_id"] == "3b36b30f1de55143"
    good, bad = Annotation("c", "text", "good", label=OK), Annotation("c", "text", "bad", label="E")
    assert form_tests([good, bad], SingleErrorLabel(OK))[0].test_id == "3b36b30f1de55143", "the oracle's own"


def test_identifiers_do_not_depend_on_the_process_that_forms_them() -> None:
    code = (
        "from nnd_tasks.recipes.make import make_tests\n"
        "from nnd_tasks.recipes.parse import make_recipe\n"
        "from nnd_tasks.recipes.base_table import Rows\n"
        "rows = [{'id': f'c{i % 2}', 'text': f'text {i % 2}', 'candidate': f'{i % 5}', 'q': 'x', 'answer': 'y',"
        " 'label': 'EF'[i % 3 == 0]} for i in range(12)]\n"
        "recipe = {'group': 'id', 'context': 'text', 'candidate': 'candidate', 'label': 'label', 'better': ['E'],"
        " 'field': {'q': 'q', 'answer': 'answer'}, 'candidates': 'rows'}\n"
        "table = make_tests(Rows('table', rows), make_recipe(recipe)).table\n"
        "print(table.select(['test_id', 'cluster_id']).to_pylist())"
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
    table = rows({"label": OK}, {"label": "E"}) * 2
    found = cells_of(engine(LABELS, table))
    assert [(t["high"], t["low"]) for t in found] == [("a", "b")] * 4
    assert len({t["test_id"] for t in found}) == 4
    assert cells_of(engine(LABELS, table[:2]))[0]["test_id"] == found[0]["test_id"]


@settings(max_examples=30, deadline=None)
@given(evaluations(), evaluations())
def test_cluster_ids_are_equal_exactly_for_equal_prompts(one: Evaluation, other: Evaluation) -> None:
    for first, second in combinations([*found_in(one), *found_in(other)], 2):
        same = (first["context"], first["answer"]) == (second["context"], second["answer"])
        assert (first["cluster_id"] == second["cluster_id"]) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", {"answer": "c"}), ("a", {"answer": "bc"})),
        (("a", {"answer": "bc"}), ("a", {"answerb": "c"})),
        (("a", {"b": "c", "d": ""}), ("a", {"b": "", "d": "c"})),
        (("aanswerb", {}), ("a", {"answer": "b"})),
        (("", {"answer": "a"}), ("a", {"answer": ""})),
        (("a ", {}), ("a", {})),
        (("a", {"answer": " "}), ("a", {"answer": ""})),
    ],
)
def test_prompts_whose_parts_concatenate_to_the_same_text_are_different_clusters(
    one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]]
) -> None:
    ids = [
        cells_of(
            engine(
                {**LABELS, "field": {name: name for name in fields}},
                rows({"label": OK}, {"label": "E"}, text=text, **fields),
            )
        )[0]["cluster_id"]
        for text, fields in (one, other)
    ]
    assert ids[0] != ids[1]


# ---------------------------------------------------------------- texts

ANSWER: Row = {**LABELS, "field": {"answer": "answer"}}


def test_composed_and_decomposed_characters_are_one_text() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    cells = [
        ("c", composed, decomposed, composed, OK),
        ("c", decomposed, composed + "s", decomposed, "E"),
        ("d", decomposed, composed, decomposed, OK),
        ("d", decomposed, decomposed + "s", composed, "E"),
    ]
    table = [dict(zip(("id", "text", "candidate", "answer", "label"), row, strict=True)) for row in cells]
    first, second = cells_of(engine(ANSWER, table))
    assert first["cluster_id"] == second["cluster_id"]
    for test in (first, second):
        assert (test["context"], test["high"], test["low"]) == (composed, composed, composed + "s")
        assert test["answer"] == composed


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff  \u00a0two  spaces\tand\r\nlines ﬁ \u200b \n",  # the ligature would go under NFKC
        " \n",
    ],
)
def test_nothing_is_trimmed_or_replaced(text: str) -> None:
    table = rows({"label": OK, "candidate": text}, {"label": "E", "candidate": ""}, text=text, answer=text)
    [test] = cells_of(engine(ANSWER, table))
    assert (test["context"], test["high"], test["low"], test["answer"]) == (text, text, "", text)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "change",
    [
        {"text": "other"},
        {"text": "text "},
        {"answer": "no"},
        {"answer": ""},
        {"answer": "yes "},
    ],
)
@pytest.mark.parametrize("label", ["E", OK])
def test_rows_of_a_group_that_contradict_each_other_are_refused(change: Row, label: str) -> None:
    table = rows({"label": OK}, {"label": "E"}, {"label": label, **change}, id="c7", answer="yes")
    with pytest.raises(NNDError, match=r"row 3.*'c7'.*context and fields"):
        engine(ANSWER, table)


def test_rows_that_contradict_each_other_are_refused_even_when_they_are_in_no_test() -> None:
    table = rows({"score": 1.0}, {"score": 2.0}, {"score": None, "text": "other"})
    with pytest.raises(NNDError, match=r"row 3.*'c'.*context and fields"):
        engine(scores(0.5), table)


@pytest.mark.parametrize("change", [{"answer": None}, {"text": None}, {"candidate": None}, {"id": None}])
def test_a_complete_table_that_lacks_a_text_is_refused(change: Row) -> None:
    table = rows({"label": OK}, {"label": "E", **change}, answer="yes")
    [column] = change
    for absent in (False, True):
        if absent:
            del table[1][column]
        with pytest.raises(NNDError, match=rf"row 2, column '{column}'.*found nothing"):
            engine(ANSWER, table)


def test_a_complete_table_without_a_column_is_refused() -> None:
    with pytest.raises(NNDError, match=r"row 1.*'question' is missing"):
        engine({**LABELS, "field": {"question": "question"}}, rows({"label": OK}, {"label": "E"}, answer="yes"))


@pytest.mark.parametrize("name", ["category", "high", "two words"])
def test_a_prompt_field_with_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(NNDError, match=name):
        engine({**LABELS, "field": {name: "x"}}, rows({"label": OK}, {"label": "E"}, x="x"))


@pytest.mark.parametrize("more", [{}, {"categories": PARENTS}, {"separator": "/"}])
@pytest.mark.parametrize("label", ["", " ", None])
def test_a_candidate_without_a_label_is_refused(more: Row, label: str | None) -> None:
    with pytest.raises(NNDError, match=r"row 2, column 'label'"):
        engine({**LABELS, **more}, rows({"label": OK}, {"label": label}, {"label": "EntE"}))


@pytest.mark.parametrize("ratings", [(), None, (5, None), "", ("n/a",)])
def test_a_candidate_without_ratings_is_refused(ratings: Any) -> None:
    with pytest.raises(NNDError, match=r"row 2, column 'score'"):
        engine(RATINGS, rows({"score": (5,)}, {"score": ratings}, {"score": (1,)}, aspect="x"))


@pytest.mark.parametrize("label", ["ente", "cafe\u0301", " ente"])
def test_an_unknown_error_label_is_refused_and_the_known_ones_are_named(label: str) -> None:
    table = rows({"label": OK}, {"label": "EntE"}, {"label": label})
    for source in (table, iter(table)):
        with pytest.raises(NNDError) as caught:
            engine({**LABELS, "categories": PARENTS}, source)
        for word in ("row 3, column 'label'", repr(nfc(label).strip()), OK, *PARENTS):
            assert word in str(caught.value)


@pytest.mark.parametrize(
    ("recipe", "better", "worse", "column"),
    [
        (RATINGS, {"score": (5,), "aspect": "x"}, {"score": (1,), "aspect": ""}, "aspect"),
        (RATINGS, {"score": (5,), "aspect": "x"}, {"score": (1,), "aspect": " "}, "aspect"),
        (scores(1.0, category="kind", complete=True), {"score": 2, "kind": "x"}, {"score": 1, "kind": ""}, "kind"),
        ({**LABELS, "separator": "/"}, {"label": OK}, {"label": "/E"}, "label"),
    ],
)
def test_a_worse_candidate_of_a_complete_table_without_a_category_is_refused(
    recipe: Row, better: Row, worse: Row, column: str
) -> None:
    for order, place in (((better, worse), 2), ((worse, better), 1)):
        with pytest.raises(NNDError, match=rf"row {place}, column '{column}'"):
            engine(recipe, rows(*order))


# ---------------------------------------------------------------- counts


@settings(max_examples=100, deadline=None)
@given(evaluations())
def test_counts_are_those_of_rows_judgements_groups_and_of_what_is_left_out(evaluation: Evaluation) -> None:
    made, report = engine_if_any(evaluation.recipe, evaluation.table), PairingReport()
    form_tests(evaluation.rows, evaluation.shape, report)
    judged = [row for row in evaluation.rows if evaluation.level(row) is not None]
    assert report.counts() == {
        "annotations": len(evaluation.rows),
        "left_out": len(evaluation.rows) - len(judged),
        "groups": len({row.context_id for row in evaluation.rows}),
        "groups_with_tests": len({expected[0] for expected in slow_tests(evaluation)}),
    }
    if made is None:
        return
    assert made.counts == {
        "rows": report.annotations,
        "judgements": evaluation.judgements(),
        "candidates_judged": len(judged),
        "groups": len({row.context_id for row in judged}),
        "groups_with_tests": report.groups_with_tests,
    }
    dropped = made.dropped.counts
    parts = Counter((row.context_id, row.category if evaluation.aspects else "") for row in judged)
    compared = sum(count * (count - 1) // 2 for count in parts.values())
    used = {test[side] for test in cells_of(made) for side in ("high_system", "low_system")}
    assert dropped.get("no_judgement", 0) + dropped.get("no_test_category", 0) == report.left_out
    assert dropped.get("no_order", 0) == compared - len(made.table)
    assert dropped.get("no_pair", 0) == len(judged) - len(used)
    assert set(dropped) <= {"no_judgement", "no_test_category", "no_order", "no_pair"}
