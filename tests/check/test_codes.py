"""For every code a set that has it, beside the same set without; and what looks like it but is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.check.checking import check_set
from nnd_tasks.check.rules import Severity
from nnd_tasks.check.texts import RULES, SEARCHES
from nnd_tasks.datasets import list_files
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import cluster_key
from tests.check.made import CATEGORIES, CITATION, NAME, Made, good_tests

Spoil = Callable[[Made], Any]


@pytest.fixture
def made(nnd_home: Path) -> Made:
    return Made(nnd_home)


def test_nothing_is_found_in_a_set_without_faults(made: Made) -> None:
    made.write()
    report = check_set(NAME)
    assert report.findings == []
    assert report.tasks == ["nnd_made"]
    assert report.sizes == {"authors": {"tests": 160, "contexts": 80, "categories": dict.fromkeys(CATEGORIES, 80)}}


# ---------------------------------------------------------------- ways to spoil a set


def put(value: str, **where: Any) -> Spoil:
    return lambda made: made.put(f"amber brook {value} cedar delta", **where)


def header(**changes: Any) -> Spoil:
    return lambda made: made.header.update(changes)


def task(**changes: Any) -> Spoil:
    return lambda made: made.task.update(changes)


def attribute(**changes: Any) -> Spoil:
    return lambda made: [setattr(made, name, value) for name, value in changes.items()]


def each(**columns: Callable[[Any], Any]) -> Spoil:
    """Set columns of every test."""
    return lambda made: attribute(tests=made.tests.assign(**columns))(made)


def few(count: int) -> Spoil:
    return lambda made: attribute(tests=made.tests.head(2 * count))(made)


def file(**contents: str) -> Spoil:
    """Add YAMLs of tasks."""
    return lambda made: made.files.update(
        {f"task_yamls/made/{name}.yaml": content for name, content in contents.items()}
    )


def config(name: str, *, data: bool = True, listed: bool = True) -> Spoil:
    def spoil(made: Made) -> None:
        if listed:
            made.header["configs"].append({"config_name": name, "data_files": list_files(name)})
        if data:
            made.extra[name] = good_tests()

    return spoil


def turned(made: Made) -> None:
    made.add(high=made.tests["low"][0], low=made.tests["high"][0])


def longer(tests: Any) -> Any:
    return tests["high"] + " heron inlet"


def unreadable(made: Made) -> None:
    config("broken", data=False)(made)
    made.files["nnd/made/broken/test-00000-of-00001.parquet"] = "no parquet"


#: Code -> texts that have it.
SAMPLES: dict[str, list[str]] = {
    "html": ["<b>bold</b>", "line<br>line", "line<br/>", '<a href="x">y</a>', "</p>"],
    "markdown": ["**bold**", "```python", "see [this](https://example.org/x)", "**two words**"],
    "escaped": ["line\\nline", "Rodgers &amp; Hart", "caf\\u00e9", "\\r\\n", "&#39;", "&nbsp;"],
    "special_token": ["<|endoftext|>", "<s>", "[UNK]", "<extra_id_0>", "<|im_start|>", "▁word"],
    "mojibake": ["cafÃ©"],
    "replacement_character": ["caf\ufffd"],
    "control_character": ["caf\x07e"],
    "invisible_character": ["caf\u200be"],
    "email": ["jane.doe@example.org", "x+y@mail.example.co.uk"],
    "phone": ["+49 30 1234567", "(212) 555-0123", "212-555-0123", "+1 212 555 0123", "030 1234567"],
}
DATA = "nnd/made/"
CASES: dict[str, Spoil] = {
    **{code: put(found[0]) for code, found in SAMPLES.items()},
    # the folder and its columns
    "schema_version": header(nnd_schema_version=2),
    "data_missing": config("lost", data=False),
    "data_unreadable": unreadable,
    "config_unlisted": config("other", listed=False),
    "column_missing": lambda made: made.tests.pop("high_first"),
    "column_type": each(high_first=lambda tests: "perhaps"),
    "column_name": each(**{"the answer": lambda tests: tests["context_id"]}),
    "cell_empty": lambda made: made.put(None, column="category"),  # type: ignore[arg-type]
    "no_tests": lambda made: attribute(tests=made.tests.astype({"high_first": bool}).iloc[:0].astype(str))(made),
    "test_id_repeated": lambda made: made.put(made.tests["test_id"][0], 3, "test_id"),
    "category_name": each(category=lambda tests: tests["category"].replace(CATEGORIES, ["Flu-ency", "flu ency"])),
    "cluster_mixed": lambda made: made.put(made.tests["cluster_id"][2], 7, "cluster_id"),
    "cluster_split": lambda made: made.put("another", 1, "cluster_id"),
    "report_mismatch": lambda made: made.files.update(
        {f"{DATA}build_report.json": '{"authors": {"fingerprint": "0"}}'}
    ),
    # what can be measured
    "no_error_bar": few(1),
    "few_contexts": few(9),
    "low_power": few(12),
    "contradictory": turned,
    "repeated": lambda made: made.add(),
    "trivial_rule": each(low=longer),
    "trivial_rule_often": each(low=lambda tests: longer(tests).where(tests.index % 10 > 1, tests["low"])),
    # the texts
    "equal_texts": lambda made: made.put(made.tests["high"][6]),
    "form_only": lambda made: made.put(made.tests["high"][6].upper()),
    "empty": lambda made: made.put(" \n"),
    "edge_space": lambda made: made.put("amber brook. "),
    "context_missing": lambda made: made.put(" ", column="context"),
    "no_context": each(context=lambda tests: ""),
    "language_mismatch": lambda made: made.put("敏捷的棕色狐狸跳过了懒狗", column="high"),
    # the card
    "card_header": lambda made: made.files.update({f"{DATA}README.md": f"---\nlicense: [\n---\n{CITATION}"}),
    "card_license": header(license="unknown"),
    "card_license_other": header(license="other"),
    "card_license_closed": header(license="proprietary"),
    "card_language": header(language=[]),
    "card_citation_origin": attribute(body="# Made\n\n```bibtex\n@inproceedings{laban2022nnd,\n}\n```\n"),
    "card_todo": attribute(body=f"# Made\n\nJudged by TODO(who judged, how many).\n\n{CITATION}"),
    # the tasks
    "task_missing": attribute(task={}),
    "config_without_task": config("other"),
    "task_invalid": file(nnd_made_more="task: [nnd_made_more"),
    "task_code": file(more="include: nnd_made.yaml\ntask: more\ndoc_to_text: !function evil.prompt\n"),
    "task_plain": file(
        plain="task: plain\ndataset_path: nnd/made\ndoc_to_text: '{{context}}'\nmetadata: {categories: []}\n"
    ),
    "categories_undeclared": task(metadata={"categories": ["fluency"]}),
    "categories_absent": task(metadata={"categories": [*CATEGORIES, "style"]}),
    "categories_open": task(metadata={"version": 1.0}),
    "prompt_invalid": task(doc_to_text="{{question}}"),
    "prompt_empty": task(doc_to_text="{{context[:1000] if 'amber' in context}}"),
    "prompt_without_context": task(doc_to_text="Question {{cluster_id}}:"),
    "prompt_repeated": task(doc_to_text="{{context if cluster_id < '8' else context[:7]}}"),
}
#: What else a case brings with it.
ALSO = {"cluster_split": {"prompt_repeated"}, "config_unlisted": {"config_without_task"}}


@pytest.mark.parametrize("code", CASES)
def test_a_code_is_found_where_it_should_be(code: str, made: Made) -> None:
    CASES[code](made)
    found = made.found()
    assert set(found) == {code, *ALSO.get(code, ())}
    assert found[code].severity.label == RULES[code]["severity"]
    assert found[code].message.startswith(RULES[code]["says"])
    assert found[code].fix


def test_every_code_has_a_case() -> None:
    elsewhere = {code for code in RULES if code.startswith("recipe_")} | {"prepare_code", "config_not_built"}
    assert set(RULES) - set(CASES) == elsewhere, "see test_recipes and test_tasks"


# ---------------------------------------------------------------- texts

LOOKALIKES: dict[str, list[str]] = {
    "html": ["a < b and c > d", "x <y> z", "<3", "List<String>"],
    "markdown": ["2 ** 3 ** 4", "F*** the law, F*** them", "# of cedars", "C# and F#", "[1] and (2)"],
    "escaped": [r"the gradient \nabla f, \nu and \neq", "AT&T & Co", "C:\\users", "Q&A;"],
    "special_token": ["5 < s > 3", "[sic]", "<|", "a_b"],
    "mojibake": ["SÃO PAULO", "Ângela", "naïve façade", "Ã is a letter", "Größe"],
    "control_character": ["tab\there"],
    "email": ["@user said", "a @ b", "foo@bar", "3@5.7"],
    "phone": ["2020-10-12", "1914-1918", "1,234,567,890", "version 10.2.33.4", "ISBN 978-3-16-148410-0", "0.123456789"],
}


@pytest.mark.parametrize("code", SAMPLES)
def test_texts_are_told_from_what_looks_like_them(code: str) -> None:
    search = SEARCHES[code]
    assert [text for text in SAMPLES[code] if not search(f"amber {text} cedar")] == []
    assert [text for text in LOOKALIKES.get(code, []) if search(f"amber {text} cedar")] == []


@given(st.text("äöüßéèñçøåαβγДжЩя“”—£€", min_size=2), st.sampled_from(["latin-1", "cp1252"]))
def test_what_was_read_in_another_encoding_is_found(value: str, encoding: str) -> None:
    assert not SEARCHES["mojibake"](value)
    try:
        wrong = value.encode("utf-8").decode(encoding)
    except UnicodeDecodeError:  # cp1252 lacks five bytes
        return
    assert SEARCHES["mojibake"](f"amber {wrong} brook")


@pytest.mark.parametrize(
    ("text", "languages", "expected"),
    [
        ("the letter λ", ["en"], False),
        ("Пушкин was a poet of amber", ["en"], False),
        ("1234 5678", ["en"], False),
        ("быстрая бурая лиса", ["en"], True),
        ("быстрая бурая лиса", ["en", "sr"], False),
        ("素早い茶色の狐がのろまな犬を", ["ja"], False),
        ("敏捷的棕色狐狸跳过了懒狗", ["ko"], False),
        ("敏捷的棕色狐狸跳过了懒狗", ["zh-TW"], False),
        ("the quick brown fox", ["zh"], True),
        ("敏捷的棕色狐狸跳过了懒狗", "multilingual", False),
        ("敏捷的棕色狐狸跳过了懒狗", [], False),
    ],
)
def test_scripts_are_those_of_the_languages(text: str, languages: Any, expected: bool, made: Made) -> None:
    made.header["language"] = languages
    for column in ("context", "high", "low"):
        made.tests[column] = [f"{text} {i}" for i in made.tests.index]
    assert ("language_mismatch" in made.found()) is expected


# ---------------------------------------------------------------- what findings say


def test_examples_are_the_first_distinct_ones_and_the_count_is_of_all(made: Made) -> None:
    for i in range(10, 30):
        made.put("the same <b>bold</b>" if i < 28 else f"other {i} <b>", row=i)
    one = made.found()["html"]
    assert one.count == 20
    assert [row.index for row in one.rows] == [10, 28, 29, 11, 12]
    assert one.rows[0].test_id == made.tests["test_id"][10]


def test_personal_data_are_masked_wherever_they_are_shown(made: Made) -> None:
    secret = "jane.doe@example.org or +49 30 1234567"
    made.put(f"{secret} <b>x</b>")
    made.add(high=f"{'amber ' * 30}{secret}.", low=f"{'amber ' * 30}{secret}")
    found = made.found()
    assert {"email", "phone", "html", "form_only"} <= found.keys()
    details = " ".join(row.detail for one in found.values() for row in one.rows)
    assert "j***@***.org" in details
    assert not re.search("jane|doe|example|1234", details)


def test_what_the_clean_config_leaves_out_is_a_note(made: Made) -> None:
    made.add()
    turned(made)
    made.put("")
    made.put(made.tests["high"][8], row=8)
    codes = ("repeated", "empty", "contradictory", "equal_texts")
    assert {made.found()[code].severity for code in codes} == {Severity.WARNING}
    made.extra["clean"] = good_tests()
    found = made.found()
    assert {found[code].severity for code in codes} == {Severity.NOTE}
    assert "clean leaves them out" in found["repeated"].fix


def test_a_middle_candidate_is_no_contradiction(made: Made) -> None:
    """Of three levels the second is better than the third and worse than the first."""
    made.tests[["high_label", "low_label"]] = ["good", "bad"]
    made.put("fair", 0, "low_label")
    made.add(high=made.tests["low"][0], low="third one", high_label="fair", low_label="bad")
    assert "contradictory" not in made.found()
    made.put("good", 160, "high_label")
    assert [row.index for row in made.found()["contradictory"].rows] == [0, 160]


# ---------------------------------------------------------------- baselines


def test_baselines_are_one_finding_with_a_table_of_all_categories(made: Made) -> None:
    each(low=lambda tests: longer(tests).where(tests["category"] == "fluency", tests["low"]))(made)
    made.extra["clean"] = made.tests
    config("clean", data=False)(made)
    one = made.found()["trivial_rule"]
    assert one.config == ""
    assert [(row["config"], row["category"], row["shorter"]) for row in one.table] == [
        ("authors", "fluency", "100.0%"),
        ("clean", "fluency", "100.0%"),
    ]
    assert "--adjust" in one.fix, "the worse text is longer by construction"


def test_the_texts_of_one_system_win(made: Made) -> None:
    made.tests[["high_system", "low_system"]] = ["person", "model"]
    one = made.found()["trivial_rule"]
    assert {row["system"] for row in one.table} == {"100.0%"}
    assert "one system" in one.fix


# ---------------------------------------------------------------- the folder and its card


def test_prompt_fields_are_part_of_the_prompt(made: Made) -> None:
    """Two prompts may share a context where a field tells them apart."""
    made.tests["answer"] = [f"answer {i % 2}" for i in made.tests.index]
    fields = zip(made.tests["context"], made.tests["answer"], strict=True)
    made.tests["cluster_id"] = [cluster_key(context, {"answer": answer}) for context, answer in fields]
    assert set(made.found()) == {"prompt_repeated"}, "the template leaves the answer out"
    made.task["doc_to_text"] = "{{context}} {{answer}}"
    assert made.found() == {}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("The label TODO(x) or TODO: nothing.\n\n| TODO | 3 |\n\n- TODO\n", set()),
        ("```yaml\norder:\n- TODO\n- [good]\nlabel: TODO\n```\n", set()),
        ("TODO: who judged?\n", {"card_todo"}),
    ],
)
def test_only_our_marker_is_something_to_fill_in(text: str, codes: set[str], made: Made) -> None:
    made.body = f"# Made\n\n{text}\n\n{CITATION}"
    assert set(made.found()) == codes


@pytest.mark.parametrize(
    "change", ["a: &a {b: 1}\n<<: *a\n", "[" * 3000 + "\n", "configs: [{config_name: ../x}]\nnnd_schema_version: 1\n"]
)
def test_headers_that_harm_are_not_taken(change: str, made: Made) -> None:
    made.files[f"{DATA}README.md"] = f"---\n{change}---\n{CITATION}"
    assert set(made.found()) == {"card_header"}


def test_only_the_config_that_is_asked_for(made: Made) -> None:
    config("other")(made)
    made.extra["other"]["low"] = "<b>bold</b>"
    assert made.found(configs=["authors"]) == {}
    with pytest.raises(NNDError, match="it has no config 'lost', only authors, other"):
        made.found(configs=["lost"])
