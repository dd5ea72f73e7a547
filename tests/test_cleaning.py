"""The clean configs: what they leave out, and what the report and the card say of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.build import build_set
from nnd_tasks.cleaning import REASONS, clean, clean_name, contradictions
from nnd_tasks.datasets import list_configs, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import pair
from nnd_tasks.qualities import gather
from nnd_tasks.recipes.base_table import Rows, Table
from nnd_tasks.recipes.make import make_tests, tables_of
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.rows import read_judgements
from nnd_tasks.schema import REQUIRED_COLUMNS, Test
from nnd_tasks.tables import to_table
from tests.conftest import SOURCES
from tests.recipes.small_files import MQM_COLUMNS, QUIZ_FILE, jsonl, quiz_group, tsv, write_files
from tests.slow_pairing import Annotation, LikertScale, PairingReport, ScoreGap, Shape, SingleErrorLabel, form_tests
from tests.test_pairing import COLUMNS, Evaluation, Row, engine, engine_if_any, evaluations

OK = "ok"
LABELS: Row = {**COLUMNS, "system": None, "label": "label", "better": [OK]}
RATINGS: Row = {**COLUMNS, "system": None, "score": "mark", "attribute": ["aspect"], "majority": True, "best": 5}


def row(candidate: str, label: str = OK, context: str = "A text.", group: str = "", **more: Any) -> Row:
    return {"id": group or context, "text": context, "candidate": candidate, "label": label, **more}


def cleaned(*rows: Row, recipe: Row | None = None) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return (better, worse) of the tests that stay, and the tests per reason."""
    made = engine(recipe or LABELS, rows)
    assert made.cleaning is not None
    kept = [] if made.clean is None else made.clean.to_pylist()
    counts = {name: reason["tests"] for name, reason in made.cleaning["reasons"].items()}
    assert list(counts) == list(REASONS)
    assert made.cleaning["kept"] == len(kept)
    return [(t["high"], t["low"]) for t in kept], {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("fold_space", [False, True])
def test_equal_texts_are_those_that_differ_in_composition_only(fold_space: bool) -> None:
    recipe = {**LABELS, "fold_space": fold_space}
    kept, counts = cleaned(row("caf\u00e9 noir"), row("cafe\u0301 noir", "bad"), row("tea", "bad"), recipe=recipe)
    assert kept == [], "the good candidate was judged bad too"
    assert counts == {"equal_texts": 1, "contradictory": 2}
    kept, counts = cleaned(row("caf\u00e9"), row("cafe", "bad"), recipe=recipe)
    assert (kept, counts) == ([("caf\u00e9", "cafe")], {})


def test_texts_that_differ_in_white_space_are_equal_only_if_the_recipe_says_so() -> None:
    rows = [row("if a:\n    b()\nc()"), row("if a:\n    b()\n    c()", "bad"), row("d()", "bad")]
    kept, counts = cleaned(*rows)
    assert (kept, counts) == ([(rows[0]["candidate"], one["candidate"]) for one in rows[1:]], {})
    kept, counts = cleaned(*rows, recipe={**LABELS, "fold_space": True})
    assert (kept, counts) == ([], {"equal_texts": 1, "contradictory": 2})


def test_of_repeated_tests_the_first_stays_also_across_groups_with_one_prompt() -> None:
    rows = [row("good"), row("bad", "e1"), row("bad", "e1"), row("bad", "e2")]
    again = [row("good", group="2"), row("bad", "e1", group="2")]
    kept, counts = cleaned(*rows, *again)
    assert kept == [("good", "bad"), ("good", "bad")], "one per category"
    assert counts == {"repeated": 2}


def test_a_candidate_judged_good_and_bad_for_one_prompt_takes_its_tests_with_it() -> None:
    rows = [row("good"), row("both"), row("both", "e1"), row("bad", "e1")]
    kept, counts = cleaned(*rows)
    assert kept == [("good", "bad")]
    assert counts == {"equal_texts": 1, "contradictory": 3}
    # In another group with the same prompt it contradicts too, for another prompt it does not.
    assert cleaned(row("both"), row("x", "e"), row("both", "e", group="2"), row("y", group="2"))[0] == []
    assert len(cleaned(row("both"), row("x", "e"), row("both", "e", "Other."), row("y", context="Other."))[0]) == 2


def test_what_two_rated_aspects_say_of_a_candidate_is_no_contradiction() -> None:
    def rated(text: str, mark: float, aspect: str) -> Row:
        return row(text, mark=mark, aspect=aspect)

    rows = [rated("a", 5, "fluency"), rated("b", 1, "fluency"), rated("a", 1, "relevance"), rated("b", 5, "relevance")]
    for group in ("id", "{id}/{aspect}"):
        assert len(cleaned(*rows, recipe={**RATINGS, "group": group})[0]) == 2


@pytest.mark.parametrize(("scores", "kept"), [((3.0, 2.0, 0.5), 1), ((3.0, 1.5, 0.5), 0)])
def test_scores_contradict_when_they_would_make_a_test(scores: tuple[float, float, float], kept: int) -> None:
    rows = [row("a", score=scores[0]), row("a", score=scores[1]), row("b", score=scores[2])]
    # With a gap of 1.5: 3.0 and 2.0 for one text agree well enough, 3.0 and 1.5 do not.
    recipe = {**COLUMNS, "system": None, "score": "score", "min_gap": 1.5}
    assert len(cleaned(*rows, recipe=recipe)[0]) == kept


def test_empty_candidates_go() -> None:
    kept, counts = cleaned(row("good"), row(" \n", "bad"), row("", "bad"), row("bad", "bad"))
    assert kept == [("good", "bad")]
    assert counts == {"empty": 2}


labels = st.sampled_from([OK, "e1", "e2"])
texts = st.sampled_from(["a", " a", "b", "b\n", "c", "", " "])


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["P", "Q"]), st.sampled_from("12"), texts, labels), max_size=14))
def test_what_is_kept_follows_from_the_definitions(found: list[tuple[str, str, str, str]]) -> None:
    rows = [row(text, label, context, context + group) for context, group, text, label in found]
    made = engine_if_any(LABELS, rows)
    good = {(c, t) for c, _, t, label in found if label == OK}
    bad = {(c, t) for c, _, t, label in found if label != OK}
    if made is None:
        return
    expected, seen = [], set()
    counts = Counter(dict.fromkeys(REASONS, 0))
    sides: dict[str, set[tuple[str, str]]] = {"high": set(), "low": set()}
    for test in made.table.to_pylist():
        key = (test["cluster_id"], test["high"], test["low"], test["category"])
        texts_of = {side: (test["context"], test[side]) for side in ("high", "low")}
        holds = {
            "equal_texts": test["high"] == test["low"],
            "repeated": key in seen,
            "contradictory": any(text in good & bad for text in texts_of.values()),
            "empty": not test["high"].strip() or not test["low"].strip(),
        }
        seen.add(key)
        counts.update(reason for reason, is_so in holds.items() if is_so)
        for side, text in texts_of.items():
            sides[side].add(text)
        if not any(holds.values()):
            expected.append(test)
    assert made.cleaning is not None
    assert ([] if made.clean is None else made.clean.to_pylist()) == expected
    assert (made.clean is None) == (not expected)
    reasons = made.cleaning["reasons"]
    assert {name: reason["tests"] for name, reason in reasons.items()} == dict(counts)
    assert reasons["contradictory"]["candidates"] == len(good & bad)
    assert reasons["contradictory"]["candidates_on_both_sides_of_tests"] == len(
        good & bad & sides["high"] & sides["low"]
    )
    if made.clean is not None:
        again = clean(made.clean)
        assert again.keep.all()
        assert again.report["kept"] == len(expected)
        assert {reason["tests"] for reason in again.report["reasons"].values()} == {0}


# ---------------------------------------------------------------- the slow oracle


def slow_cleaning(tests: list[Test], report: PairingReport) -> tuple[list[Test], dict[str, Any]]:
    """Return what stays and what the report must say, by definition."""
    kept, seen = [], set()
    found: dict[str, list[Test]] = {reason: [] for reason in REASONS}
    sides: dict[str, set[tuple[str, str]]] = {"high": set(), "low": set()}
    for test in tests:
        key = (test.cluster_id, test.high, test.low, test.category)
        holds = {
            "equal_texts": test.high == test.low,
            "repeated": key in seen,
            "contradictory": test.test_id in report.contradicted,
            "empty": not test.high.strip() or not test.low.strip(),
        }
        seen.add(key)
        for reason, is_so in holds.items():
            found[reason] += [test] * is_so
        if holds["contradictory"]:
            sides["high"].add((test.cluster_id, test.high))
            sides["low"].add((test.cluster_id, test.low))
        if not any(holds.values()):
            kept.append(test)

    def clip(text: str) -> str:
        return text if len(text) <= 100 else text[:99] + "…"

    names = ("test_id", "context_id", "high", "low", "category")
    reasons: dict[str, Any] = {
        reason: {
            "tests": len(ones),
            "examples": [{name: clip(getattr(test, name)) for name in names} for test in ones[:3]],
        }
        for reason, ones in found.items()
    }
    contradicting = {(one.cluster_id, one.candidate) for one in report.contradictions}
    reasons["contradictory"] |= {
        "candidates": len(report.contradictions),
        "candidates_on_both_sides_of_tests": len(contradicting & sides["high"] & sides["low"]),
        "candidate_examples": [
            {"context_id": clip(one.context_id), "candidate": clip(one.candidate), "labels": list(one.labels)}
            for one in report.contradictions[:3]
        ],
    }
    return kept, {"kept": len(kept), "reasons": reasons}


def agrees(table: Table, recipe: Recipe, annotations: list[Annotation], shape: Shape) -> int:
    """Assert that tests, what is kept of them and the report are those of the slow oracle; return the number of tests."""
    report = PairingReport()
    tests = form_tests(annotations, shape, report)
    found = read_judgements(table, recipe)
    candidates = gather(found, recipe.rule)
    pairs = pair(candidates, found.dropped, table.name)
    wrong, told = contradictions(found, candidates, pairs)
    assert wrong.tolist() == [test.test_id in report.contradicted for test in tests]
    kept, wanted = slow_cleaning(tests, report)
    assert told == {name: wanted["reasons"]["contradictory"][name] for name in told}
    assert len(told) == 3
    if not tests:
        return 0
    whole = to_table(tests)
    result = clean(whole, wrong, told)
    assert result.report == wanted
    assert whole.filter(result.keep).column("test_id").to_pylist() == [test.test_id for test in kept]
    made = make_tests(table, recipe)
    assert made.table.column("test_id").to_pylist() == whole.column("test_id").to_pylist()
    if not recipe.clean:
        assert made.cleaning == wanted
        assert made.table.to_pylist() == whole.to_pylist()
        assert (made.clean is None) == (not kept)
        assert made.clean is None or made.clean.to_pylist() == whole.filter(result.keep).to_pylist()
    return len(tests)


@settings(max_examples=200, deadline=None)
@given(evaluations())
def test_contradictions_and_what_is_kept_are_those_of_the_slow_oracle(evaluation: Evaluation) -> None:
    if evaluation.judgements():
        table = Rows("table", evaluation.table)
        agrees(table, make_recipe(evaluation.recipe), evaluation.rows, evaluation.shape)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["1", "2"]),
            st.sampled_from(["S.", "<v>S.</v>", "T."]),
            st.sampled_from(["a", " a", "<v>a</v>", "b", "c"]),
            st.sampled_from(["No-error", "no-error", "Style/Odd", "Style", "Source error"]),
        ),
        max_size=12,
    )
)
def test_a_clean_config_with_keys_of_its_own_is_paired_anew(found: list[tuple[str, str, str, str]]) -> None:
    strip = {"candidate": ["<v>", "</v>"], "context": ["<v>", "</v>"]}
    recipe = {**LABELS, "group": "{id}_{text}", "better": ["No-error"], "separator": "/", "complete": True}
    recipe["strip"] = {"candidate": strip["candidate"]}
    changed = {"strip": strip, "categories": {"Source error": None}}
    rows = [row(text, label, context, group) for group, context, text, label in found]
    made = engine_if_any({**recipe, "clean": changed}, rows)
    if made is None:
        return
    assert made.table.equals(engine(recipe, rows).table), "the full config is as without"
    bare = [{**one, **{name: one[name].replace("<v>", "").replace("</v>", "") for name in ("text", "candidate")}}
            for one in rows if one["label"] != "Source error"]  # fmt: skip
    plain = {name: value for name, value in recipe.items() if name != "strip"}
    mended = engine_if_any(plain, bare)
    if mended is None or mended.clean is None:
        assert made.clean is None
    else:
        assert made.clean is not None
        assert made.clean.equals(mended.clean)


def test_a_contradiction_of_scores_without_a_label_shows_the_scores() -> None:
    recipe = {**COLUMNS, "system": None, "score": "score", "label": "label", "min_gap": 1}
    for label in ("", "fine"):
        rows = [row("a", "", score=3), row("a", "", score=1), row("b", label, score=2)]
        made = engine(recipe, rows)
        assert made.cleaning is not None
        [example] = made.cleaning["reasons"]["contradictory"]["candidate_examples"]
        assert example == {"context_id": "A text.", "candidate": "a", "labels": ["3", "1"]}


# ---------------------------------------------------------------- building


@pytest.mark.parametrize(("config", "name"), [("authors", "clean"), ("all_rows", "all_rows_clean")])
def test_names_of_clean_configs(config: str, name: str) -> None:
    assert clean_name(config) == name


MQM = tsv(
    MQM_COLUMNS,
    [
        ["a", "d", "1", "1", "r1", "Good.", "Gut.", "No-error", "no-error"],
        ["b", "d", "1", "1", "r1", "Good.", "Schlecht.", "Style/Awkward", "Minor"],
    ],
)


def quiz(folder: Path, *questions: tuple[str, str]) -> Path:
    return write_files(folder, {QUIZ_FILE: jsonl([quiz_group(1, *questions)])})


def test_the_card_counts_each_reason_and_shows_an_example(tmp_path: Path) -> None:
    questions = [("Good | one?", "No error"), ("Both?", "No error"), ("Both?", "disfluent"), ("Bad?", "disfluent")]
    result = build_set("quiz_design", quiz(tmp_path / "in", *questions), tmp_path / "out")
    card = (result.folder / "README.md").read_text("utf-8")
    assert "| `authors` | 4 | 1 | 0 | 3 (1 candidate) | 0 | 3 | 1 | `clean` |" in card
    [line] = [line for line in card.splitlines() if line.startswith("- `authors`, `contradictory`")]
    assert "better: Good &#124; one?; worse: Both?" in line
    [example] = result.report["authors"]["cleaning"]["reasons"]["contradictory"]["candidate_examples"]
    assert example == {"context_id": "1", "candidate": "Both?", "labels": ["No error", "disfluent"]}


def test_the_card_keeps_what_it_said_of_configs_that_are_not_built_anew(tmp_path: Path) -> None:
    for file in ("mqm_one_ende.tsv", "mqm_two_ende.tsv"):
        build_set("mqm", write_files(tmp_path / file[:-4], {file: MQM}) / file, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for config in ("one_ende", "two_ende"):
        assert f"| `{config}` | 1 | 0 | 0 | 0 (0 candidates) | 0 | 0 | 1 | `{config}_clean` |" in card


def test_a_clean_config_of_an_earlier_build_does_not_stay_when_none_is_left(tmp_path: Path) -> None:
    first = build_set("quiz_design", quiz(tmp_path / "1", ("Good?", "No error"), ("Bad?", "x")), tmp_path / "out")
    assert list_configs(first.folder)[0] == ["authors", "clean"]
    second = build_set("quiz_design", quiz(tmp_path / "2", ("Same?", "No error"), ("Same?", "x")), tmp_path / "out")
    assert list_configs(second.folder)[0] == ["authors"]
    assert any("no test is left for clean" in note for note in second.notes)
    assert "| 0 | none |" in (second.folder / "README.md").read_text("utf-8")


def test_two_files_that_give_one_config_name_are_refused(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"mqm_ted_ende.tsv": MQM, "mqm_ted_ende_clean.tsv": MQM})
    with pytest.raises(NNDError, match="two configs would be called 'ted_ende_clean'"):
        build_set("mqm", source, tmp_path / "out")


# ---------------------------------------------------------------- real data

#: set -> config -> (tests, equal texts, repeated, contradictory candidates, empty)
REAL = {
    "quiz_design": {"authors": (2686, 0, 113, 109, 0)},
    "challenge300": {"authors": (807, 0, 107, 0, 1)},
    "summeval": {"authors": (3613, 4, 29, 4, 0)},
    "frank": {"authors": (848, 0, 1, 0, 0)},
    "news_gpt3": {"cnn": (205, 0, 0, 0, 0), "bbc": (208, 0, 0, 0, 0)},
    # 12,504 tests repeat another of the same category, 11,754 (28%) also of the same subcategory.
    "mqm": {"newstest2021_ende": (42675, 1211, 12504, 449, 0), "ted_ende": (22139, 2277, 8720, 482, 0)},
}


TEST_COLUMNS = set(REQUIRED_COLUMNS) - {"high_first"}
#: Tests that clean configs have and full ones have not.
ADDED = {"newstest2021_ende": 158, "ted_ende": 38}


@pytest.mark.parametrize("name", REAL)
def test_real_sets_have_the_known_numbers_and_clean_ones_are_clean(name: str, data: Path, tmp_path: Path) -> None:
    folder = build_set(name, data / name, tmp_path / "out").folder
    report = json.loads((folder / "build_report.json").read_text("utf-8"))
    for config, expected in REAL[name].items():
        reasons = report[config]["cleaning"]["reasons"]
        counts = [reasons[reason]["tests"] for reason in ("equal_texts", "repeated", "empty")]
        counts.insert(2, reasons["contradictory"]["candidates"])
        assert (report[config]["tests"], *counts) == expected
        rows = read_table(folder, clean_name(config)).to_pylist()
        assert len(rows) == report[config]["cleaning"]["kept"]
        full = {row["test_id"]: row for row in read_table(folder, config).to_pylist()}
        if name != "mqm":
            assert all(full[row["test_id"]] == row for row in rows), "ids and cells stay"
        else:  # marks in sources kept some ratings from their segment; they can come before others of equal texts
            known = [(row, full[row["test_id"]]) for row in rows if row["test_id"] in full]
            assert all(row[key] == old[key] for row, old in known for key in TEST_COLUMNS)
            assert len(rows) - len(known) == ADDED[config]
        assert all(row["high"].split() != row["low"].split() for row in rows)
        assert all(row["high"].strip() and row["low"].strip() for row in rows)
        keys = [(row["cluster_id"], row["high"], row["low"], row["category"]) for row in rows]
        assert len(set(keys)) == len(keys)
        sides = defaultdict(set)
        for row in rows:
            aspect = row["category"] if name == "summeval" else ""
            sides["high"].add((row["cluster_id"], aspect, " ".join(row["high"].split())))
            sides["low"].add((row["cluster_id"], aspect, " ".join(row["low"].split())))
        if name != "news_gpt3":  # with three levels the middle one is better and worse
            assert not sides["high"] & sides["low"]


def test_of_the_482_contradictory_candidates_of_ted_481_are_on_both_sides_of_tests(data: Path, tmp_path: Path) -> None:
    build_set("mqm", data / "mqm", tmp_path / "out")
    report = json.loads((tmp_path / "out" / "build_report.json").read_text("utf-8"))
    found = report["ted_ende"]["cleaning"]["reasons"]["contradictory"]
    assert (found["candidates"], found["candidates_on_both_sides_of_tests"]) == (482, 481)


def annotations_of(table: Table, recipe: Recipe) -> list[Annotation]:
    """Return the judged rows of a set whose rows are candidates, as the slow oracle takes them."""
    found = read_judgements(table, recipe)

    def cell(name: str, place: int) -> str:
        code = found.facts[name][place] if name in found.facts else -1
        return found.texts[name].texts[code] if code >= 0 else ""

    marks: Mapping[int, list[Any]] = defaultdict(list)
    for place, mark in zip(found.place.tolist(), found.mark.tolist(), strict=True):
        marks[place].append(mark)
    rows = []
    for place in np.unique(found.place, return_index=True)[1].tolist():
        prompt, own = int(found.prompt[place]), marks[int(found.place[place])]
        group = found.groups[int(found.group[place])] if found.groups is not None else found.prompts.ids[prompt]
        text = int(found.candidate[place])
        values: Row = {"category": cell("category", place), "label": cell("shown", place)}
        if recipe.by_label:
            [code] = own
            values = {"label": found.texts["label"].texts[code], "category": values["category"]}
        elif recipe.majority:
            values = {"ratings": tuple(own), "category": found.aspects[int(found.aspect[place])]}
        else:
            [values["score"]] = own
        values |= {fact: cell(fact, place) for fact in ("severity", "system", "rater")}
        values["subcategory"] = cell("subcategory", place)
        fields = {name: texts[prompt] for name, texts in found.prompts.fields.items()}
        rows.append(
            Annotation(group, found.prompts.contexts[prompt], found.texts["candidate"].texts[text], fields, **values)
        )
    return rows


class ByCategory(SingleErrorLabel):
    """A label whose category the table of categories says."""

    def judge(self, annotation: Annotation) -> Any:
        judged = super().judge(annotation)
        assert judged is not None
        return replace(judged, category=annotation.category or judged.category)


@pytest.mark.parametrize("name", REAL)
def test_real_sets_are_what_the_slow_oracle_makes_of_their_rows(name: str, data: Path) -> None:
    recipe = SOURCES[name].recipe
    paths = {file.name: file for file in sorted((data / name).iterdir()) if file.name in recipe.files}
    options = {option: values[0] for option, values in recipe.options.items()}
    for config, table in tables_of(name, recipe, paths, options).items():
        shape: Shape = ScoreGap(recipe.min_gap or 0)
        if recipe.majority:
            shape = LikertScale(recipe.best or 0)
        elif recipe.by_label:
            shape = ByCategory(recipe.better[0])
        tests = agrees(table, recipe, annotations_of(table, recipe), shape)
        assert tests == REAL[name][config][0]
