"""For every code of a check, a set that has it beside the same set without; and what looks like it but is not."""

import re
from pathlib import Path

import pytest
import yaml

from nnd_tasks.contribute.check.checking import check_set
from nnd_tasks.contribute.check.rules import RULES, SEARCHES, Severity
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.rows import hash_prompts
from tests.contribute.made import CATEGORIES, CITATION, NAME, good_tests

#: By code: texts that it finds and texts that only look so; and what is changed in a good set.
TEXTS, CHANGES = (
    yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8")) for name in ("texts", "changes")
)


def test_nothing_is_found_in_a_set_without_faults(made):
    made.write()
    report = check_set(NAME)
    assert report.findings == []
    assert report.tasks == ["nnd_made"]
    assert report.sizes == {"authors": {"tests": 160, "contexts": 80, "categories": dict.fromkeys(CATEGORIES, 80)}}


# ---------------------------------------------------------------- ways to spoil a set


def put(value, **where):
    return lambda made: made.put(f"amber brook {value} cedar delta", **where)


def each(**columns):
    """Set columns of every test."""

    def spoil(made):
        made.tests = made.tests.assign(**columns)

    return spoil


def emptied(made):
    made.tests = made.tests.astype({"high_first": bool}).iloc[:0].astype(str)


def longer(tests):
    return tests["high"] + " heron inlet"


CASES = {
    **{code: put(texts["found"][0]) for code, texts in TEXTS.items()},
    **{code: lambda made, changes=changes: made.change(**changes) for code, changes in CHANGES.items()},
    "column_missing": lambda made: made.tests.pop("high_first"),
    "column_name": each(**{"the answer": lambda tests: tests["context_id"]}),
    "no_tests": emptied,
    "test_id_repeated": lambda made: made.put(made.tests["test_id"][0], 3, "test_id"),
    "category_name": each(category=lambda tests: tests["category"].replace(CATEGORIES, ["Fluency", " "])),
    "spans_outside": each(low_spans=[[{"start": 0, "end": 100, "category": "", "severity": ""}]] * 160),
    "cluster_mixed": lambda made: made.put(made.tests["cluster_id"][2], 7, "cluster_id"),
    "repeated": lambda made: made.add(),
    "trivial_rule": each(low=longer),
    "trivial_rule_often": each(low=lambda tests: longer(tests).where(tests.index % 10 > 1, tests["low"])),
    "form_only": lambda made: made.put(made.tests["high"][6].upper()),
    "context_spaces": lambda made: made.put(f"{made.tests['context'][8]}\u00a0", column="context"),
    "prompt_in_texts": each(high=lambda tests: tests["context"] + " " + tests["high"],
                            low=lambda tests: tests["context"] + "\n" + tests["low"]),
    "equal_texts": lambda made: made.put(made.tests["high"][6]),
}  # fmt: skip
#: What else a case brings with it.
ALSO = {
    "cluster_split": {"prompt_repeated"},
    "prompt_in_texts": {"trivial_rule"},
}  # the worse texts alone have a line feed


@pytest.mark.parametrize("code", CASES)
def test_a_code_is_found_where_it_should_be(code, made):
    CASES[code](made)
    found = made.found()
    assert set(found) == {code, *ALSO.get(code, ())}
    assert found[code].severity.label == RULES[code]["severity"]
    assert found[code].message.startswith(RULES[code]["says"])
    assert found[code].fix


def test_every_code_has_a_case():
    elsewhere = {code for code in RULES if code.startswith("recipe_")} | {
        "prepare_code",
        "config_not_built",
        "doubtful_rows",
    }
    assert set(RULES) - set(CASES) == elsewhere, "see test_recipes, test_tasks and test_new"


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize("code", TEXTS)
def test_texts_are_told_from_what_looks_like_them(code):
    found = {
        kind: {bool(SEARCHES[code](f"amber {text} cedar")) for text in texts} for kind, texts in TEXTS[code].items()
    }
    assert found == {"found": {True}, "clean": {False}}


# ---------------------------------------------------------------- what findings say


def test_examples_are_the_first_distinct_ones_and_the_count_is_of_all(made):
    for i in range(10, 30):
        made.put("the same <b>bold</b>" if i < 28 else f"other {i} <b>", row=i)
    one = made.found()["html"]
    assert one.count == 20
    assert [(row.index, row.test_id) for row in one.rows] == [
        (i, made.tests["test_id"][i]) for i in (10, 28, 29, 11, 12)
    ]


def test_personal_data_are_masked_wherever_they_are_shown(made):
    secret = "jane.doe@example.org"
    made.put(f"{secret} <b>x</b>")
    made.add(high=f"{'amber ' * 30}{secret}.", low=f"{'amber ' * 30}{secret}")
    found = made.found()
    assert {"email", "html", "form_only"} <= found.keys()
    details = " ".join(row.detail for one in found.values() for row in one.rows)
    assert "j***@***.org" in details
    assert not re.search("jane|doe|example", details)


def test_what_the_clean_config_leaves_out_is_a_note(made):
    made.add()
    made.put("")
    made.put(made.tests["high"][8], row=8)
    for severity in (Severity.WARNING, Severity.NOTE):
        found = made.found()
        codes = ("repeated", "empty", "equal_texts")
        assert {found[code].severity for code in codes} == {severity}
        made.extra["clean"] = good_tests()
    assert "clean leaves them out" in found["repeated"].fix


def test_candidates_that_begin_with_their_prompt_are_found_where_that_is_no_accident(made):
    for i in range(12):
        made.put(f"{made.tests['context'][i]}  And on.", row=i)
    assert made.found() == {}
    for i in range(12, 20):
        made.put(f"{made.tests['context'][i]}  And on.", row=i)
    assert made.found()["prompt_in_texts"].count == 20


def test_what_a_finding_says_names_numbers_and_what_to_type(made):
    made.change(contexts=12)
    made.tests["category"] = "fluency"
    assert "fluency, 12 prompts: no difference is likely to be detected" in made.found()["low_power"].message
    made.put("<b>bold</b>", column="context")
    assert made.found()["html"].fix.endswith("unless a model should read it")
    made.header["license"] = "CC BY 4.0"
    assert "card_license_closed" not in made.found()
    made.header["license"] = "our terms"
    assert "identifier on the hub" in made.found()["card_license_closed"].fix


# ---------------------------------------------------------------- baselines


def test_baselines_are_one_finding_with_a_table_of_all_categories(made):
    each(low=lambda tests: longer(tests).where(tests["category"] == "fluency", tests["low"]))(made)
    made.extra["clean"] = made.tests
    made.change(listed="clean")
    one = made.found()["trivial_rule"]
    assert one.config == ""
    assert [(row["config"], row["category"], row["shorter"]) for row in one.table] == [
        ("authors", "fluency", "100.0%"),
        ("clean", "fluency", "100.0%"),
    ]
    assert "nnd rules" in one.fix


def test_the_texts_of_one_system_win(made):
    made.tests[["high_system", "low_system"]] = ["person", "model"]
    one = made.found()["trivial_rule"]
    assert {row["system"] for row in one.table} == {"100.0%"}
    assert "systems" in one.fix


# ---------------------------------------------------------------- the folder and its card


def test_prompt_fields_are_part_of_the_prompt(made):
    """Two prompts may share a context where a field tells them apart."""
    made.tests["answer"] = [f"answer {i % 2}" for i in made.tests.index]
    made.tests["cluster_id"] = hash_prompts(made.tests[["context", "answer"]])
    assert set(made.found()) == {"prompt_repeated"}, "the template leaves the answer out"
    made.task["doc_to_text"] = "{{context}} {{answer}}"
    assert made.found() == {}


def test_only_our_marker_is_something_to_fill_in(made):
    tables = "| TODO | 3 |\n\n- TODO\n\n```yaml\norder:\n- TODO\nlabel: TODO\n```\n"
    made.body = f"# Made\n\nThe label TODO(x) or TODO: nothing.\n\n{tables}\n{CITATION}"
    assert made.found() == {}


def test_only_the_config_that_is_asked_for(made):
    made.change(listed="other", held="other")
    made.extra["other"]["low"] = "<b>bold</b>"
    assert made.found(configs=["authors"]) == {}
    with pytest.raises(NNDError, match="it has no config 'lost', only authors, other"):
        made.found(configs=["lost"])
