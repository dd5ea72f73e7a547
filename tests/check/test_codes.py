"""For every code a set that has it, beside the same set without; and what looks like it but is not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nnd_tasks.card import KNOWN_BY_PEOPLE, read_card, todo
from nnd_tasks.licences import check_licences, licence_names

from hub_upload.published_card import lacking
from nnd_tasks.check.card_facts import check_card, unfilled
from nnd_tasks.check.findings import CODES, Severity, mask
from nnd_tasks.check.loading import load
from nnd_tasks.check.texts import Scanner
from nnd_tasks.datasets import read_report
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import cluster_key, short_hash
from nnd_tasks.tables import fingerprint
from tests.check.made import CATEGORIES, CITATION, Made, good_rows, text

Spoil = Callable[[Made], Any]


@pytest.fixture
def made(nnd_home: Path) -> Made:
    return Made(nnd_home)


def test_nothing_is_found_in_a_set_without_faults(made: Made) -> None:
    report = made.check(run=True)
    assert report.findings == []
    assert report.ran == report.tasks == ["nnd_made"]
    assert report.exit_code(strict=True) == 0
    assert report.sizes["authors"].categories == dict.fromkeys(CATEGORIES, 80)


# ---------------------------------------------------------------- ways to spoil a set


def put(value: str, **where: Any) -> Spoil:
    return lambda made: text(made, f"amber brook {value} cedar delta", **where)


def header(**changes: Any) -> Spoil:
    return lambda made: made.header.update(changes)


def task(**changes: Any) -> Spoil:
    assert changes
    return lambda made: made.task.update(changes) if made.task is not None else None


def categories(*names: str) -> Spoil:
    return task(metadata={"version": 1.0, "categories": list(names)})


def body(value: str) -> Spoil:
    return lambda made: setattr(made, "body", value)


def table(change: Callable[[pa.Table], pa.Table]) -> Spoil:
    return lambda made: setattr(made, "table", change)


def rows(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Spoil:
    return lambda made: setattr(made, "rows", change(made.rows))


def each(**columns: Callable[[dict[str, Any]], Any]) -> Spoil:
    """Set columns of every row."""
    return rows(lambda found: [row | {name: value(row) for name, value in columns.items()} for row in found])


def again(**changes: Any) -> Spoil:
    """Add the first test once more, with changes."""
    return rows(lambda found: [*found, found[0] | {"test_id": "again"} | changes])


def copy_with(**changes: str) -> Spoil:
    """Change columns of row 7; ``cluster_id`` stays."""
    return rows(lambda found: [row | changes if i == 7 else row for i, row in enumerate(found)])


def turned(made: Made) -> None:
    first = made.rows[0]
    again(high=first["low"], low=first["high"])(made)


def unlisted(made: Made) -> None:
    made.extra["other"] = good_rows()


def lost(made: Made) -> None:
    made.header["configs"].append({"config_name": "lost", "data_files": "lost/test-*.parquet"})


def unreadable(made: Made) -> None:
    made.files["nnd/made/broken/test-00000-of-00001.parquet"] = "no parquet"
    made.header["configs"].append({"config_name": "broken", "data_files": "broken/test-*.parquet"})


def second_config(made: Made) -> None:
    unlisted(made)
    made.header["configs"].append({"config_name": "other", "data_files": "other/test-*.parquet"})


def few(count: int) -> Spoil:
    return rows(lambda found: found[: 2 * count])


def as_tests(made: Made, column: str, value: Any) -> None:
    for row in made.rows:
        row[column] = value


def length_tells(made: Made) -> None:
    for i, row in enumerate(made.rows):
        if row["category"] == "fluency" and (i % 10 or i < 20):  # the rest as it comes
            row["low"] = row["high"] + " heron inlet"


def length_tells_all(made: Made) -> None:
    for row in made.rows:
        row["low"] = row["high"] + " heron inlet"


def split(made: Made) -> None:
    made.rows[1]["cluster_id"] = "another"


def stale(made: Made) -> None:
    made.files["nnd/made/build_report.json"] = '{"authors": {"fingerprint": "0123456789abcdef"}}'


def broken_yaml(made: Made) -> None:
    made.files["task_yamls/made/nnd_made_more.yaml"] = "task: [nnd_made_more"


def code_of_its_own(made: Made) -> None:
    made.files["task_yamls/made/evil.py"] = "raise SystemExit('it ran')"
    made.files["task_yamls/made/nnd_made_more.yaml"] = (
        "include: nnd_made.yaml\ntask: nnd_made_more\ndoc_to_text: !function evil.prompt\n"
    )


def plain_task(made: Made) -> None:
    made.files["task_yamls/made/plain.yaml"] = "task: plain\ndataset_path: nnd/made\ndoc_to_text: '{{context}}'\n"


def overlong(made: Made) -> None:
    text(made, "candidate " * 40_000 + "end.", row=0)


CASES: dict[str, Spoil] = {
    # the folder and its columns
    "schema_version": header(nnd_schema_version=2),
    "data_missing": lost,
    "data_unreadable": unreadable,
    "config_unlisted": unlisted,
    "column_missing": table(lambda t: t.drop_columns(["high_first"])),
    "column_type": table(lambda t: t.set_column(7, "high_first", pa.array(["perhaps"] * t.num_rows))),
    "column_name": each(**{"the answer": lambda row: row["context_id"]}),
    "cell_empty": copy_with(category=None),  # type: ignore[arg-type]
    "no_tests": table(lambda t: t.slice(0, 0)),
    "test_id_repeated": rows(
        lambda found: [row | {"test_id": found[0]["test_id"]} if i == 3 else row for i, row in enumerate(found)]
    ),
    "category_name": each(category=lambda row: {"fluency": "Flu-ency", "meaning": "flu ency"}[row["category"]]),
    "cluster_mixed": copy_with(context="another"),
    "cluster_split": split,
    "report_mismatch": stale,
    # what can be measured
    "no_error_bar": few(1),
    "few_contexts": few(9),
    "low_power": few(12),
    "contradictory": turned,
    "repeated": again(),
    "trivial_rule": length_tells_all,
    "trivial_rule_often": length_tells,
    # the texts
    "equal_texts": lambda made: text(made, made.rows[6]["high"].replace(" ", "  ")),
    "form_only": lambda made: text(made, made.rows[6]["high"].upper()),
    "near_equal": lambda made: (
        text(made, "amber brook " * 9 + "cedar"),
        text(made, "amber brook " * 9 + "cedars", column="high"),
    ),
    "empty": lambda made: text(made, " \n"),
    "html": put("<b>bold</b>"),
    "markdown": put("**bold**"),
    "escaped": put("line\\nline"),
    "special_token": put("<|endoftext|>"),
    "mojibake": put("cafÃ©"),
    "replacement_character": put("caf\ufffd"),
    "control_character": put("caf\x07e"),
    "invisible_character": put("caf\u200be"),
    "not_nfc": put("cafe\u0301"),
    "edge_space": lambda made: text(made, "amber brook. "),
    "context_missing": lambda made: text(made, " ", column="context"),
    "no_context": each(context=lambda row: ""),
    "language_mismatch": lambda made: text(made, "敏捷的棕色狐狸跳过了懒狗", column="high"),
    "email": put("jane.doe@example.org"),
    "phone": put("+49 30 1234567"),
    # the card
    "card_header": lambda made: made.files.update({"nnd/made/README.md": f"---\nlicense: [\n---\n{CITATION}"}),
    "card_license": header(license="unknown"),
    "card_license_other": header(license="other"),
    "card_license_closed": header(license="proprietary"),
    "card_language": header(language=[]),
    "card_citation": body("# Made\n\nCite Who (2020).\n"),
    "card_citation_origin": body("# Made\n\n```bibtex\n@inproceedings{laban2022nnd,\n}\n```\n"),
    "card_todo": body(f"# Made\n\nJudged by {todo('judges')}.\n\n{CITATION}"),
    # the tasks
    "task_missing": lambda made: setattr(made, "task", None),
    "config_without_task": second_config,
    "task_invalid": broken_yaml,
    "task_code": code_of_its_own,
    "task_plain": plain_task,
    "categories_undeclared": categories("fluency"),
    "categories_absent": categories(*CATEGORIES, "style"),
    "categories_open": task(metadata={"version": 1.0}),
    "prompt_invalid": task(doc_to_text="{{question}}"),
    "prompt_empty": task(doc_to_text="{{context[:1000] if 'amber' in context}}"),
    "prompt_without_context": task(doc_to_text="Question {{cluster_id}}:"),
    "prompt_repeated": task(doc_to_text="{{context if context.endswith('.') and cluster_id < '8' else context[:7]}}"),
    "run_failed": overlong,
}
#: What else a case brings with it.
ALSO = {
    "cluster_split": {"prompt_repeated"},
    "config_unlisted": {"config_without_task"},
}
#: What only a run can find; the other codes are found without one.
RUN = {"run_failed"}


@pytest.mark.parametrize("code", CASES)
def test_a_code_is_found_where_it_should_be(code: str, made: Made) -> None:
    CASES[code](made)
    found = made.found(run=code in RUN)
    assert code in found, sorted(found)
    assert found[code].severity is CODES[code][0]
    assert found[code].message
    assert found[code].fix
    assert set(found) <= {code, *ALSO.get(code, ())}


def test_every_code_has_a_case() -> None:
    elsewhere = {code for code in CODES if code.startswith("recipe_")}  # see test_recipes
    assert set(CODES) - set(CASES) - elsewhere == {"run_unscored", "config_not_built"}, "see test_tasks"


# ---------------------------------------------------------------- what only looks like it

LOOKALIKES: dict[str, list[str]] = {
    "html": ["a < b and c > d", "x <y> z", "<3", "List<String>"],
    "markdown": ["2 ** 3 ** 4", "F*** the law, F*** them", "# of cedars", "C# and F#", "[1] and (2)"],
    "escaped": [r"the gradient \nabla f, \nu and \neq", "AT&T & Co", "C:\\users", "Q&A;"],
    "special_token": ["5 < s > 3", "[sic]", "<|", "a_b"],
    "mojibake": ["SÃO PAULO", "Ângela", "naïve façade", "Ã is a letter", "Größe"],
    "control_character": ["tab\there"],
    "not_nfc": ["café", "Ångström"],
    "email": ["@user said", "a @ b", "foo@bar", "3@5.7"],
    "phone": ["2020-10-12", "1914-1918", "1,234,567,890", "version 10.2.33.4", "ISBN 978-3-16-148410-0", "0.123456789"],
    "language_mismatch": [
        "the letter λ",
        "Пушкин was a poet of amber",
        "1234 5678",
        "东京 is a city in the country of Japan",
    ],
}


@pytest.mark.parametrize(("code", "value"), [(code, value) for code, values in LOOKALIKES.items() for value in values])
def test_what_looks_like_it_is_not_reported(code: str, value: str, made: Made) -> None:
    put(value)(made)
    made.task = None
    assert code not in made.found()


MORE: dict[str, list[str]] = {
    "html": ["line<br>line", "line<br/>", '<a href="x">y</a>', "</p>"],
    "markdown": ["```python", "see [this](https://example.org/x)", "**two words**"],
    "escaped": ["Rodgers &amp; Hart", "caf\\u00e9", "\\r\\n", "&#39;", "&nbsp;"],
    "special_token": ["<s>", "[UNK]", "<extra_id_0>", "<|im_start|>", "▁word"],
    "email": ["x+y@mail.example.co.uk"],
    "phone": ["(212) 555-0123", "212-555-0123", "+1 212 555 0123", "030 1234567"],
}


@pytest.mark.parametrize(("code", "value"), [(code, value) for code, values in MORE.items() for value in values])
def test_further_forms_are_found(code: str, value: str, made: Made) -> None:
    put(value)(made)
    made.task = None
    found = made.found()
    assert code in found
    assert [row.index for row in found[code].rows] == [6]
    assert found[code].rows[0].test_id == made.rows[6]["test_id"]


@given(st.text("äöüßéèñçøåαβγДжЩя“”—£€", min_size=2), st.sampled_from(["latin-1", "cp1252"]))
def test_what_was_read_in_another_encoding_is_found(value: str, encoding: str) -> None:
    assert "mojibake" not in Scanner().scan(value)
    try:
        wrong = value.encode("utf-8").decode(encoding)
    except UnicodeDecodeError:  # cp1252 lacks five bytes
        return
    assert "mojibake" in Scanner().scan(f"amber {wrong} brook")


# ---------------------------------------------------------------- what findings say


def test_rows_are_the_first_few_and_the_count_is_of_all(made: Made) -> None:
    for i in range(10, 90):
        text(made, f"number {i} <b>bold</b>", row=i)
    one = made.found()["html"]
    assert one.count == 80
    assert [row.index for row in one.rows] == [10, 11, 12, 13, 14]


def test_distinct_examples_come_before_repeated_ones(made: Made) -> None:
    for i in range(10, 30):
        text(made, "the same <b>bold</b>" if i < 28 else f"other {i} <b>", row=i)
    assert [row.index for row in made.found()["html"].rows] == [10, 28, 29, 11, 12]


def test_personal_data_are_masked_wherever_they_are_shown(made: Made) -> None:
    secret = "jane.doe@example.org or +49 30 1234567"
    for row, value in ((6, f"{secret} <b>x</b>"), (8, f"{'amber ' * 30}{secret}")):
        text(made, value, row=row)
    text(made, f"{'amber ' * 30}{secret}!", row=8, column="high")
    again(high=f"{secret}.", low=f"{secret}")(made)
    report = made.check()
    assert {"email", "phone", "html", "form_only"} <= {one.code for one in report.findings}
    details = " ".join(row.detail for one in report.findings for row in one.rows)
    assert "j***@***.org" in details
    assert "+49" in details
    for leak in ("jane", "doe", "example", "1234"):
        assert leak not in details


def test_what_the_clean_config_leaves_out_is_a_note(made: Made) -> None:
    again()(made)
    text(made, "")
    turned(made)
    text(made, made.rows[8]["high"], row=8)
    codes = {"repeated", "empty", "contradictory", "equal_texts"}
    assert {made.found()[code].severity for code in codes} == {Severity.WARNING}
    made.extra["clean"] = good_rows()
    found = made.found()
    assert {found[code].severity for code in codes} == {Severity.NOTE}
    assert "clean leaves them out" in found["repeated"].fix


def test_a_middle_candidate_is_no_contradiction(made: Made) -> None:
    """Of three levels the second is better than the third and worse than the first."""
    first = made.rows[0] | {"high_label": "good", "low_label": "fair"}
    second = first | {
        "test_id": "t2",
        "high": first["low"],
        "high_label": "fair",
        "low": "third one",
        "low_label": "bad",
    }
    made.rows = [row | {"high_label": "good", "low_label": "bad"} for row in made.rows[1:]] + [first, second]
    assert "contradictory" not in made.found()
    made.rows[-1] = second | {"high_label": "good"}
    one = made.found()["contradictory"]
    assert one.message.startswith("1 candidate ")
    assert {row.index for row in one.rows} == {159, 160}


def test_two_aspects_may_disagree(made: Made) -> None:
    """A candidate can be better in one rated aspect and worse in another."""
    first = made.rows[0]
    second = first | {"test_id": "t2", "high": first["low"], "low": first["high"]}
    made.rows.append(second | {"category": "meaning"})
    assert "contradictory" not in made.found()
    made.rows[-1] = second
    assert "contradictory" in made.found()


def test_a_rule_is_told_by_category_and_share(made: Made) -> None:
    length_tells(made)
    one = made.found()["trivial_rule_often"]
    expected = sum(len(row["high"]) < len(row["low"]) for row in made.rows if row["category"] == "fluency") / 80
    assert f"fluency: a baseline passes {expected:.1%} of 80 tests" in one.message
    assert "shorter" in one.message


def test_few_tests_tell_nothing_of_a_rule(made: Made) -> None:
    length_tells_all(made)
    made.rows = made.rows[:28]
    assert "trivial_rule" not in made.found()


def test_the_fingerprint_of_the_report_is_that_of_the_data(made: Made) -> None:
    made.files["nnd/made/build_report.json"] = (
        f'{{"authors": {{"fingerprint": "{fingerprint(pa.Table.from_pylist(made.rows))}"}}}}'
    )
    assert "report_mismatch" not in made.found()
    made.rows[0]["high"] += "!"
    assert "report_mismatch" in made.found()


def test_a_type_that_can_be_cast_is_no_fault(made: Made) -> None:
    made.table = lambda t: t.set_column(3, "context", t.column("context").cast(pa.large_string()))
    assert made.found() == {}


def test_languages_that_are_declared_may_occur(made: Made) -> None:
    text(made, "敏捷的棕色狐狸跳过了懒狗", column="high")
    made.header["language"] = ["en", "zh"]
    assert made.found() == {}
    made.header["language"] = "multilingual"
    assert made.found() == {}


@pytest.mark.parametrize("licence", ["proprietary", "cc-by-nd-4.0", ["mit", "All rights reserved"], "other", "mit"])
def test_licences_are_those_that_publishing_takes(licence: Any, made: Made) -> None:
    made.header["license"] = licence
    try:
        check_licences(licence_names(licence), "x")
        expected = set()
    except NNDError:
        expected = {"card_license_other" if licence == "other" else "card_license_closed"}
    assert set(made.found()) == expected


def test_synthetic_errors_may_have_another_licence(made: Made) -> None:
    """The terms of their corpora are known to `nnd publish`."""
    made.header["license"] = "other"
    made.files["nnd/made/build_report.json"] = '{"authors": {"corpus": "wikitext"}}'
    assert made.found()["card_license_other"].severity is Severity.NOTE


@pytest.mark.parametrize(
    ("text_", "codes"),
    [
        ("The label TODO(x) or TODO: nothing.\n\n| TODO | 3 |\n\n- TODO\n", set()),
        ("```yaml\norder:\n- TODO\n- [good]\nlabel: TODO\n```\n", set()),
        ("TODO: who judged?\n", {"card_todo"}),
        *((todo(key), {"card_todo"}) for key in KNOWN_BY_PEOPLE),
        (todo("judges").replace(" ", "\n  "), {"card_todo"}),
    ],
)
def test_only_our_marker_is_something_to_fill_in(text_: str, codes: set[str], made: Made) -> None:
    made.body = f"# Made\n\n{text_}\n\n{CITATION}"
    found = made.found()
    assert set(found) == codes
    assert bool(unfilled(made.body)) == bool(codes)
    if codes:
        assert "in line 15" in found["card_todo"].message, "of the file"


@pytest.mark.parametrize(
    "block", ["Who (2020). Judged.", "Who (2020).\n\n@inproceedings{laban2022nnd,\n}", todo("citation")]
)
def test_a_citation_is_bibtex_as_publishing_wants_it(block: str, made: Made) -> None:
    made.body = f"# Made\n\n```bibtex\n{block}\n```\n"
    assert "card_citation" in made.found()
    made.header |= {"pretty_name": "Made", "task_categories": ["x"], "size_categories": ["x"]}
    made.write()
    assert any("citation" in one for one in lacking(made.folder))
    made.body = f"# Made\n\n{CITATION}"
    made.write()
    assert lacking(made.folder) == []


@pytest.mark.parametrize("licence", [["cc-by-4.0", "apache-2.0"], "mit"])
def test_licences_may_be_one_or_more(licence: Any, made: Made) -> None:
    made.header["license"] = licence
    assert made.found() == {}


def test_prompt_fields_are_part_of_the_prompt(made: Made) -> None:
    """Two clusters may share a context where a field tells them apart."""
    for i, row in enumerate(made.rows):
        answer = f"answer {i % 2}"
        row |= {"answer": answer, "cluster_id": cluster_key(row["context"], {"answer": answer})}
        row["test_id"] = short_hash(row["test_id"], answer)
    assert set(made.found()) == {"prompt_repeated"}, "the template leaves the answer out"
    assert made.task is not None
    made.task["doc_to_text"] = "{{context}} {{answer}}"
    assert made.found() == {}


# ---------------------------------------------------------------- what is made to take for ever


@pytest.mark.parametrize(
    "value",
    [
        "[a](http://x" * 20_000,
        "a" + " " * 200_000 + "b",
        "**a" * 50_000,
        "a@a." * 50_000,
        "<a " * 50_000,
        "`" * 200_000,
    ],
    ids=["links", "spaces", "stars", "addresses", "tags", "ticks"],
)
def test_long_texts_of_one_kind_take_no_time(value: str) -> None:
    begun = time.process_time()
    Scanner().scan(value)
    mask(value)
    assert time.process_time() - begun < 3, "in quadratic time it is a minute, or many"


@pytest.mark.parametrize(
    "body", ["TODO: x\n" * 150_000, "```bibtex\n" + "\n" * 400_000 + "x\n```\n"], ids=["todo", "bibtex"]
)
def test_long_cards_take_no_time(body: str, made: Made) -> None:
    made.body = body
    made.write()
    loaded = load(made.folder)
    begun = time.process_time()
    assert len(list(check_card(loaded))) >= 1
    assert time.process_time() - begun < 5, "in quadratic time it is minutes"


BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))


@pytest.mark.parametrize("header", [BOMB, "a: &a {b: 1}\n<<: *a\n", "[" * 3000 + "\n", "a: 1" + ":59" * 400_000 + "\n"])
def test_headers_that_unfold_to_much_are_not_unfolded(header: str, made: Made) -> None:
    made.write()
    (made.folder / "README.md").write_text(f"---\n{header}---\n{CITATION}")
    begun = time.process_time()
    found = {one.code: one for one in load(made.folder).findings}
    assert "is not YAML that can be read here" in found["card_header"].message
    assert time.process_time() - begun < 5
    with pytest.raises(NNDError, match="is not YAML that can be read here"):
        read_card(made.folder)


def test_data_files_that_never_end_or_lie_elsewhere_are_not_read(made: Made, nnd_home: Path) -> None:
    made.header["configs"].append({"config_name": "../../victim", "data_files": "x"})
    made.write()
    (nnd_home / "victim").mkdir()
    (made.folder / "authors" / "test-00000-of-00001.parquet").rename(
        nnd_home / "victim" / "test-00000-of-00001.parquet"
    )
    os.mkfifo(made.folder / "authors" / "test-00000-of-00001.parquet")
    os.mkfifo(made.folder / "build_report.json")
    assert read_report(made.folder) == {}
    loaded = load(made.folder)
    assert loaded.configs == {}
    assert {one.code for one in loaded.findings} == {"data_missing", "data_unreadable"}
    assert any("is not a regular file" in one.message for one in loaded.findings)


@pytest.mark.parametrize("part", ["text", "name"])
def test_damaged_data_are_a_finding_and_no_traceback(made: Made, part: str) -> None:
    made.write()
    file = made.folder / "authors" / "test-00000-of-00001.parquet"
    table = pq.read_table(file)
    if part == "text":
        broken = pa.array([b"\xff\xfe"] * table.num_rows, pa.binary()).view(pa.string())
        pq.write_table(table.set_column(table.column_names.index("high"), "high", broken), file)
    else:
        pq.write_table(table.append_column("zzzz", table.column("high")), file)
        file.write_bytes(file.read_bytes().replace(b"zzzz", b"\xff\xfe\xff\xfe"))
    assert "data_unreadable" in {one.code for one in load(made.folder).findings}
