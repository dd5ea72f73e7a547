"""The clean configs: what they leave out, and what the report and the card say of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.build import build_set
from nnd_tasks.cleaning import REASONS, clean, clean_name
from nnd_tasks.datasets import list_configs, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import LikertScale, PairingReport, ScoreGap, SingleErrorLabel, form_tests
from nnd_tasks.schema import REQUIRED_COLUMNS, Annotation
from tests.sources.test_formats import MQM_COLUMNS, QUIZ_FILE, jsonl, quiz_group, tsv, write_files

OK = "ok"


def row(candidate: str, label: str = OK, context: str = "A text.", **more: Any) -> Annotation:
    return Annotation(**{"context_id": context, "context": context, "candidate": candidate, "label": label, **more})


def cleaned(*rows: Annotation, shape: Any = None) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return (better, worse) of the tests that stay, and the tests per reason."""
    report = PairingReport()
    result = clean(form_tests(rows, shape or SingleErrorLabel(OK), report), report)
    return [(t.high, t.low) for t in result.tests], {k: v for k, v in result.counts.items() if v}


def test_equal_texts_are_those_that_differ_in_white_space_or_composition_only() -> None:
    kept, counts = cleaned(row("caf\u00e9  noir"), row(" cafe\u0301 noir\n", "bad"), row("tea", "bad"))
    assert kept == [], "the good candidate was judged bad too"
    assert counts == {"equal_texts": 1, "contradictory": 2}
    kept, counts = cleaned(row("caf\u00e9"), row("cafe", "bad"))
    assert (kept, counts) == ([("caf\u00e9", "cafe")], {})


def test_of_repeated_tests_the_first_stays_also_across_groups_with_one_prompt() -> None:
    rows = [row("good"), row("bad", "e1"), row("bad", "e1"), row("bad", "e2")]
    again = [row("good", context_id="2"), row("bad", "e1", context_id="2")]
    kept, counts = cleaned(*rows, *again)
    assert kept == [("good", "bad"), ("good", "bad")], "one per category"
    assert counts == {"repeated": 2}


def test_a_candidate_judged_good_and_bad_for_one_prompt_takes_its_tests_with_it() -> None:
    rows = [row("good"), row("both"), row("both", "e1"), row("bad", "e1")]
    kept, counts = cleaned(*rows)
    assert kept == [("good", "bad")]
    assert counts == {"equal_texts": 1, "contradictory": 3}
    # In another group with the same prompt it contradicts too, for another prompt it does not.
    assert cleaned(row("both"), row("x", "e"), row("both", "e", context_id="2"), row("y", context_id="2"))[0] == []
    assert len(cleaned(row("both"), row("x", "e"), row("both", "e", "Other."), row("y", context="Other."))[0]) == 2


def test_what_two_rated_aspects_say_of_a_candidate_is_no_contradiction() -> None:
    def rated(text: str, mark: float, aspect: str) -> Annotation:
        return row(text, "", ratings=(mark,), category=aspect, context_id=aspect)

    rows = [rated("a", 5, "fluency"), rated("b", 1, "fluency"), rated("a", 1, "relevance"), rated("b", 5, "relevance")]
    assert len(cleaned(*rows, shape=LikertScale(best=5))[0]) == 2


@pytest.mark.parametrize(("scores", "kept"), [((3.0, 2.0, 0.5), 1), ((3.0, 1.5, 0.5), 0)])
def test_scores_contradict_when_they_would_make_a_test(scores: tuple[float, float, float], kept: int) -> None:
    rows = [row("a", score=scores[0]), row("a", score=scores[1]), row("b", score=scores[2])]
    # With a gap of 1.5: 3.0 and 2.0 for one text agree well enough, 3.0 and 1.5 do not.
    assert len(cleaned(*rows, shape=ScoreGap(1.5))[0]) == kept


def test_empty_candidates_go() -> None:
    kept, counts = cleaned(row("good"), row(" \n", "bad"), row("", "bad"), row("bad", "bad"))
    assert kept == [("good", "bad")]
    assert counts == {"empty": 2}


labels = st.sampled_from([OK, "e1", "e2"])
texts = st.sampled_from(["a", " a", "b", "b\n", "c", "", " "])


@given(st.lists(st.tuples(st.sampled_from(["P", "Q"]), st.sampled_from("12"), texts, labels), max_size=14))
def test_what_is_kept_follows_from_the_definitions(found: list[tuple[str, str, str, str]]) -> None:
    rows = [row(text, label, context, context_id=context + group) for context, group, text, label in found]
    report = PairingReport()
    tests = form_tests(rows, SingleErrorLabel(OK), report)
    result = clean(tests, report)
    good = {(c, t.strip()) for c, _, t, label in found if label == OK}
    bad = {(c, t.strip()) for c, _, t, label in found if label != OK}
    expected, seen = [], set()
    counts = Counter(dict.fromkeys(REASONS, 0))
    for test in tests:
        key = (test.cluster_id, test.high, test.low, test.category)
        holds = {
            "equal_texts": test.high.split() == test.low.split(),
            "repeated": key in seen,
            "contradictory": any((test.context, x.strip()) in good & bad for x in (test.high, test.low)),
            "empty": not test.high.strip() or not test.low.strip(),
        }
        seen.add(key)
        counts.update(reason for reason, is_so in holds.items() if is_so)
        if not any(holds.values()):
            expected.append(test)
    assert result.tests == expected
    assert result.counts == dict(counts)
    assert {(c.context_id[0], c.candidate.strip()) for c in report.contradictions} == good & bad
    again = clean(result.tests, report)
    assert again.tests == result.tests
    assert set(again.counts.values()) <= {0}


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
    assert "| `authors` | 4 | 1 | 0 | 3 (1 candidate) | 0 | 1 | `clean` |" in card
    [line] = [line for line in card.splitlines() if line.startswith("- `authors`, `contradictory`")]
    assert "better: Good &#124; one?; worse: Both?" in line
    [example] = result.report["authors"]["cleaning"]["reasons"]["contradictory"]["candidate_examples"]
    assert example == {"context_id": "1", "candidate": "Both?", "labels": ["No error", "disfluent"]}


def test_the_card_keeps_what_it_said_of_configs_that_are_not_built_anew(tmp_path: Path) -> None:
    for file in ("mqm_one_ende.tsv", "mqm_two_ende.tsv"):
        build_set("mqm", write_files(tmp_path / file[:-4], {file: MQM}) / file, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    for config in ("one_ende", "two_ende"):
        assert f"| `{config}` | 1 | 0 | 0 | 0 (0 candidates) | 0 | 1 | `{config}_clean` |" in card


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
