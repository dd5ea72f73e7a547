"""Readers name the file, the row and the field at fault, and nothing but NNDError comes out of a broken file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.build import build_set
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes import readers as tables
from nnd_tasks.recipes import records, steps
from nnd_tasks.recipes.flatten import batches
from nnd_tasks.recipes.make import make_tests
from nnd_tasks.recipes.readers import open_table
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.records import Record, check_text, read_file, read_jsonl
from nnd_tasks.yaml_json import load_json
from tests.recipes.small_files import (
    FRANK_FILE,
    LONG,
    MQM_COLUMNS,
    MQM_FILE,
    QUIZ_FILE,
    RIGHT,
    SMALL,
    SPLIT_FILE,
    SUMMEVAL_FILE,
    frank_row,
    jsonl,
    mqm_rows,
    news_article,
    quiz_text,
    small_source,
    summeval_rows,
    tsv,
    write_files,
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes one file as it is given."""

    def to_file(content: bytes | str, suffix: str = ".txt") -> Path:
        path = tmp_path / f"annotations{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return to_file


def refusal(act: Callable[[], Any]) -> str:
    """Return the message of the NNDError that ``act`` raises."""
    with pytest.raises(NNDError) as caught:
        act()
    return str(caught.value)


# ---------------------------------------------------------------- records


def test_record_refuses_what_is_no_mapping() -> None:
    for value, kind in (([], "a list"), ("x", "text"), (None, "nothing"), (3, "a number"), (True, "true/false")):
        assert refusal(lambda value=value: Record(value, "f, line 3")) == (
            f"f, line 3: expected an object with named fields, found {kind}"
        )


def test_record_missing_field_is_named_with_the_fields_there_are() -> None:
    record = Record({"id": 1, "text": "x"}, "f, line 3")
    assert (
        refusal(lambda: record.get("txt"))
        == "f, line 3: field 'txt' is missing (found: id, text); is it the right file?"
    )
    assert "id" in record
    assert "txt" not in record


@pytest.mark.parametrize("accessor", ["text", "number", "items", "records"])
def test_record_accessors_name_place_and_field_when_it_is_missing(accessor: str) -> None:
    record = Record({"other": 1}, "f, line 3")
    assert refusal(lambda: getattr(record, accessor)("wanted")).startswith("f, line 3: field 'wanted' is missing")


@pytest.mark.parametrize(
    ("accessor", "value", "found"),
    [
        ("text", None, "expected text, found nothing"),
        ("text", 7, "expected text, found a number"),
        ("text", 0.5, "expected text, found a number"),
        ("text", True, "expected text, found true/false"),
        ("text", ["x"], "expected text, found a list"),
        ("text", {"x": 1}, "expected text, found an object"),
        ("text", "ab\ud800", "half a surrogate pair at character 2"),
        ("number", "five", "expected a number, found 'five'"),
        ("number", "", "expected a number, found ''"),
        ("number", None, "expected a number, found None"),
        ("number", True, "expected a number, found True"),
        ("number", [1], r"expected a number, found [1]"),
        ("number", float("nan"), "expected a number, found nan"),
        ("number", "-inf", "expected a number, found '-inf'"),
        ("number", 10**400, "expected a number, found 1000"),
        ("items", "abc", "expected a list, found text"),
        ("items", {}, "expected a list, found an object"),
        ("records", None, "expected a list, found nothing"),
    ],
)
def test_record_accessors_refuse_other_types_by_place_and_field(accessor: str, value: Any, found: str) -> None:
    message = refusal(lambda: getattr(Record({"wanted": value}, "f, line 3"), accessor)("wanted"))
    assert message.startswith("f, line 3, field 'wanted': ")
    assert found in message
    assert len(message) < 200, "a long value is cut"


def test_record_accessors_return_what_the_file_holds() -> None:
    record = Record({"t": " x\n", "i": 7, "n": "0.5", "m": 3, "l": [1, "x"], "r": [{"k": 1}]}, "f")
    assert record.text("t") == " x\n"

    assert (record.number("n"), record.number("m")) == (0.5, 3.0)
    assert record.items("l") == [1, "x"]
    assert [r.get("k") for r in record.records("r")] == [1]

    assert dict(record.entries())["i"] == 7


def test_record_element_of_a_list_is_named_by_its_index() -> None:
    record = Record({"votes": [{}, 5]}, "f, line 3")
    assert refusal(lambda: record.records("votes")).startswith("f, line 3, votes[1]: expected an object")
    assert refusal(lambda: Record({"votes": [{}]}, "f").records("votes")[0].text("x")).startswith(
        "f, votes[0]: field 'x'"
    )


def test_whole_surrogate_pairs_and_nul_are_text() -> None:
    assert check_text(json.loads('"\\ud83d\\ude00\\u0000"'), "f") == "😀\x00"


# ---------------------------------------------------------------- files


def read_json(path: Path) -> Any:
    return load_json(read_file(path), str(path), hint=records.RIGHT_FILE)


def rows_of_table(path: Path, recipe: Recipe) -> list[dict[str, Any]]:
    """Return the rows of a table, without the columns that every table has."""
    found: list[dict[str, Any]] = []
    for batch in open_table(str(path), recipe).read():
        columns = {
            name: values if isinstance(values, list) else values.to_pylist()
            for name, values in batch.columns.items()
            if not name.startswith("@")
        }
        found += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return found


#: As the recipes of publishers' files say it: their encoding is known, and what quotes mean.
UTF8 = Recipe(encoding="utf-8")
QUOTED, PLAIN = Recipe(encoding="utf-8", quotes=True), Recipe(encoding="utf-8", quotes=False)


def read_csv(path: Path) -> list[dict[str, Any]]:
    return rows_of_table(path, QUOTED)


def read_any_csv(path: Path) -> list[dict[str, Any]]:
    return rows_of_table(path, UTF8)


def read_plain_tsv(path: Path) -> list[dict[str, Any]]:
    return rows_of_table(path, PLAIN)


def read_json_table(path: Path) -> list[dict[str, Any]]:
    return rows_of_table(path, UTF8)


#: Reader -> the ending of its files, and what reads one.
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "read_file": (".txt", read_file),
    "read_json": (".json", read_json),
    "read_jsonl": (".jsonl", lambda path: list(read_jsonl(path))),
    "quoted csv": (".csv", read_csv),
    "any csv": (".csv", read_any_csv),
    "any tsv": (".tsv", read_any_csv),
    "plain tsv": (".tsv", read_plain_tsv),
    "json table": (".json", read_json_table),
    "jsonl table": (".jsonl", read_json_table),
}
readers = pytest.mark.parametrize(("suffix", "reader"), list(READERS.values()), ids=list(READERS))
TABLES = [read_csv, read_any_csv, read_plain_tsv, read_json_table]


@readers
def test_missing_file_and_folder_are_refused_by_name(
    suffix: str, reader: Callable[[Path], Any], tmp_path: Path
) -> None:
    missing = tmp_path / f"missing{suffix}"
    cannot = ": no such file" if reader in TABLES else ": cannot be read (No such file or directory)"
    assert refusal(lambda: reader(missing)) == f"{missing}{cannot}"
    missing.mkdir()
    cannot = ": a folder, not a file" if reader in TABLES else ": cannot be read (Is a directory)"
    assert refusal(lambda: reader(missing)) == f"{missing}{cannot}"


@readers
@pytest.mark.parametrize("content", [b"", b" \n\r\n\t"], ids=["no bytes", "white space"])
def test_empty_file_is_refused_by_name(
    suffix: str, reader: Callable[[Path], Any], content: bytes, write: Callable[..., Path]
) -> None:
    path = write(content, suffix)
    assert refusal(lambda: reader(path)) == f"{path}: the file is empty"


@readers
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe", 1),
        (b"PK\x03\x04\x14\x00\x08\xfa\xce", 1),
        ("a,b\n1,2\n".encode("utf-16"), 1),
        (b"a\tb\n1\t2\ncaf\xe9\t3\n", 3),
        (b"a\tb\n\xed\xa0\x80\t2\n", 2),
        (b'{"a": 1}\n' * 20_000 + b'{"a": "\xe9"}\n', 20_001),
    ],
    ids=["image", "zip", "UTF-16", "Latin-1", "encoded surrogate", "far down"],
)
def test_bytes_that_are_not_utf8_are_refused_by_line(
    suffix: str, reader: Callable[[Path], Any], content: bytes, line: int, write: Callable[..., Path]
) -> None:
    path = write(content, suffix)
    message = refusal(lambda: reader(path))
    assert message.startswith(f"{path}, line {line}: not UTF-8 text"), message


@readers
def test_file_above_the_size_limit_is_refused_unread(
    suffix: str, reader: Callable[[Path], Any], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(tables, "MAX_BYTES", 1 << 20)
    path = write("[" + " " * (1 << 20) + "]", suffix)
    assert refusal(lambda: reader(path)).startswith((f"{path}: larger than ", f"{path}: is larger than "))


def test_byte_order_mark_is_dropped_at_the_beginning_only(write: Callable[..., Path]) -> None:
    bom = b"\xef\xbb\xbf"
    assert read_file(write(bom + b"a" + bom)) == "a\ufeff"
    assert read_json(write(bom + b'{"a": 1}')) == {"a": 1}
    assert [r.get("a") for r in read_jsonl(write(bom + b'{"a": 1}\n{"a": 2}\n'))] == [1, 2]
    for suffix in (".json", ".jsonl"):
        assert read_json_table(write(bom + b'{"a": 1}\n{"a": 2}\n', suffix)) == [{"a": 1}, {"a": 2}]
    for read in (read_csv, read_any_csv):
        assert read(write(bom + b"a,b\n1,2\n" + bom + b",3\n", ".csv")) == [
            {"a": "1", "b": "2"},
            {"a": "\ufeff", "b": "3"},
        ]
    assert read_plain_tsv(write(bom + b"a\tb\n1\t2\n", ".tsv")) == [{"a": "1", "b": "2"}]


def test_line_ends_of_windows_are_no_part_of_the_values(write: Callable[..., Path]) -> None:
    lines = b'{"a": "x"}\r\n\r\n{"a": "y"}\r\n'
    assert [dict(r.entries()) for r in read_jsonl(write(lines))] == [{"a": "x"}, {"a": "y"}]
    assert read_json_table(write(lines, ".jsonl")) == [{"a": "x"}, {"a": "y"}]
    for read in (read_csv, read_any_csv):
        assert read(write(b'a,b\r\n1,"x\r\ny"\r\n', ".csv")) == [{"a": "1", "b": "x\r\ny"}]
    for read in (read_plain_tsv, read_any_csv):
        assert read(write(b"a\tb\r\n1\t2\r\n", ".tsv")) == [{"a": "1", "b": "2"}]


def test_line_separators_within_text_do_not_end_a_record(write: Callable[..., Path]) -> None:
    text = "one\u2028two\u0085three"
    line = json.dumps({"a": text}, ensure_ascii=False) + "\n"
    [record] = read_jsonl(write(line))
    assert record.text("a") == text
    assert read_json_table(write(line, ".jsonl")) == [{"a": text}]
    assert read_plain_tsv(write(f"a\tb\n{text}\t2\n", ".tsv")) == [{"a": text, "b": "2"}]


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize("broken", ['{"a": 1', "{'a': 1}", '{"a": 1}}', "a: 1", '["\t"]', "[1,]"])
def test_broken_json_is_refused_by_file_and_line(broken: str, write: Callable[..., Path]) -> None:
    path = write(broken)
    assert refusal(lambda: read_json(path)).startswith(f"{path}: is not valid JSON (")
    path = write('{"a": 1}\n\n' + broken)
    assert refusal(lambda: list(read_jsonl(path))).startswith(f"{path}, line 3: is not valid JSON (")
    for suffix in (".json", ".jsonl"):
        table = write('{"a": 1}\n\n' + broken, suffix)
        assert refusal(lambda table=table: read_json_table(table)).startswith(f"{table}, line 3: is not valid JSON (")


@pytest.mark.parametrize("opening", ["[", '{"a":'], ids=["lists", "objects"])
def test_deeply_nested_json_is_refused_by_file(opening: str, write: Callable[..., Path]) -> None:
    path = write(opening * 200_000)
    assert (
        refusal(lambda: read_json(path))
        == f"{path}: its lists and objects are nested too deeply to be read; is it the right file?"
    )
    assert refusal(lambda: list(read_jsonl(path))) == (
        f"{path}, line 1: its lists and objects are nested too deeply to be read; is it the right file?"
    )
    for suffix in (".json", ".jsonl"):
        table = write(opening * 200_000, suffix)
        assert refusal(lambda table=table: read_json_table(table)) == (
            f"{table}: its lists and objects are nested too deeply to be read; is it the right file?"
        )
        table = write('{"a": 1}\n' + opening * 200_000, suffix)
        assert refusal(lambda table=table: read_json_table(table)) == (
            f"{table}, line 2: its lists and objects are nested too deeply to be read; is it the right file?"
        )


def test_json_integer_of_ten_thousand_digits_is_refused_by_file(write: Callable[..., Path]) -> None:
    path = write("9" * 10_000)
    assert refusal(lambda: Record({"n": read_json(path)}, str(path)).number("n")).startswith(f"{path}")
    table = write('{"n": ' + "9" * 10_000 + "}\n", ".jsonl")
    assert refusal(lambda: read_json_table(table)).startswith(f"{table}")


def test_json_line_that_is_no_object_is_refused_by_line(write: Callable[..., Path]) -> None:
    path = write('{"a": 1}\n[1]\n', ".jsonl")
    assert refusal(lambda: list(read_jsonl(path))).startswith(f"{path}, line 2: expected an object")
    assert refusal(lambda: read_json_table(path)).startswith(f"{path}, line 2: expected an object")


@pytest.mark.parametrize("size", [100, 70_000, 200_000])
def test_json_lines_are_told_from_one_object_however_long_the_first_is(size: int, write: Callable[..., Path]) -> None:
    rows = [{"a": "x" * size}, {"a": "y"}]
    for suffix in (".json", ".jsonl"):
        assert read_json_table(write(jsonl(rows), suffix)) == rows
    assert read_json_table(write(json.dumps(rows), ".json")) == rows
    assert read_json_table(write(json.dumps(rows[0], indent=1), ".json")) == rows[:1]


# ---------------------------------------------------------------- tables


def test_csv_with_quotes_line_breaks_and_further_columns_is_read(write: Callable[..., Path]) -> None:
    path = write('b,a,c\n"x, ""y""\nz",1,\n,,\n\n2,3,4\n', ".csv")
    expected = [{"b": 'x, "y"\nz', "a": "1", "c": ""}, {"b": "2", "a": "3", "c": "4"}]
    assert read_csv(path) == expected
    assert [row for row in read_any_csv(path) if any(row.values())] == expected


kinds_of_table = pytest.mark.parametrize(
    ("recipe", "suffix", "tab"),
    [(QUOTED, ".csv", ","), (UTF8, ".csv", ","), (PLAIN, ".tsv", "\t"), (UTF8, ".tsv", "\t")],
    ids=["quoted csv", "any csv", "plain tsv", "any tsv"],
)


@kinds_of_table
def test_table_without_a_column_is_refused_with_those_it_has(
    recipe: Recipe, suffix: str, tab: str, write: Callable[..., Path]
) -> None:
    path = write(f"a{tab}c\n1{tab}2\n", suffix)
    wanted = Recipe(encoding="utf-8", quotes=recipe.quotes, context="a", candidate="b", complete=True)
    message = refusal(lambda: list(batches(open_table(str(path), wanted), wanted)))
    assert message == f"{path}, row 1: no column 'b' (found: a, c); is it the right file?"


@kinds_of_table
def test_table_row_that_is_too_short_is_refused_by_row(
    recipe: Recipe, suffix: str, tab: str, write: Callable[..., Path]
) -> None:
    path = write(f"a{tab}b\n1{tab}2\n3\n", suffix)
    assert refusal(lambda: rows_of_table(path, recipe)) == f"{path}, row 3: 1 column, the header has 2"


@kinds_of_table
def test_table_with_a_header_only_or_two_columns_of_a_name_is_refused(
    recipe: Recipe, suffix: str, tab: str, write: Callable[..., Path]
) -> None:
    path = write(f"a{tab}b", suffix)
    assert refusal(lambda: open_table(str(path), recipe).head()) == f"{path}: it holds no row; is it the right file?"
    path = write(f"a{tab}b{tab}a\n1{tab}2{tab}3\n", suffix)
    assert refusal(lambda: open_table(str(path), recipe)).startswith(f"{path}, row 1: two columns are called 'a'")


@pytest.mark.parametrize(
    ("broken", "row"), [('a,b\n1,2\n3,"4\n', 3), ('a,b\n1,"2"x\n', 2)], ids=["open quote", "text after a quote"]
)
def test_csv_with_broken_quotes_is_refused_by_row(broken: str, row: int, write: Callable[..., Path]) -> None:
    path = write(broken, ".csv")
    assert refusal(lambda: read_csv(path)).startswith(f"{path}, row {row}: not a valid table (")


def test_csv_field_beyond_the_parsers_limit_is_refused_by_row(write: Callable[..., Path]) -> None:
    path = write("a,b\n1,2\n" + "x" * 200_000 + ",3\n", ".csv")
    assert refusal(lambda: read_csv(path)).startswith(f"{path}, row 3: not a valid table (")
    assert read_any_csv(path)[1] == {"a": "x" * 200_000, "b": "3"}, "one of one's own may have long texts"


@kinds_of_table
def test_table_of_a_zero_byte_file_is_refused_as_the_wrong_file(
    recipe: Recipe, suffix: str, tab: str, write: Callable[..., Path]
) -> None:
    path = write(b"\x00" * 64, suffix)
    wanted = Recipe(encoding="utf-8", quotes=recipe.quotes, context="a", candidate="b", complete=True)
    message = refusal(lambda: list(batches(open_table(str(path), wanted), wanted)))
    assert message.startswith(f"{path}, row 1: no ")


def test_nul_within_a_cell_is_kept_or_refused_by_row(write: Callable[..., Path]) -> None:
    path = write(b"a\tb\n1\tx\x00y\n", ".tsv")
    assert read_any_csv(path) == [{"a": "1", "b": "x\x00y"}]
    for file, read, row in ((path, read_plain_tsv, 1), (write(b"a,b\n1,x\x00y\n", ".csv"), read_csv, 2)):
        try:  # the csv module of Python 3.10 knows no NUL
            assert [row["b"] for row in read(file)] == ["x\x00y"]
        except NNDError as error:
            assert str(error).startswith(f"{file}, row {row}: no")  # noqa: PT017


def test_tsv_quotes_are_plain_characters_and_spare_fields_are_dropped(write: Callable[..., Path]) -> None:
    path = write('a\tb\n"1\t2"\textra\tmore\n', ".tsv")
    assert read_plain_tsv(path) == [{"a": '"1', "b": '2"'}]


# ---------------------------------------------------------------- broken fields in whole files


def with_value(rows: list[Any], *path: Any, value: Any) -> list[Any]:
    """Return ``rows`` with one value, at ``path``, replaced."""
    place = rows
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return rows


QUIZ = ("quiz_design", QUIZ_FILE, jsonl)
FRANK = ("frank", FRANK_FILE, json.dumps)
SUMMEVAL = ("summeval", SUMMEVAL_FILE, jsonl)
NEWS = ("news_gpt3", "cnn_human.json", json.dumps)


def quiz() -> list[Any]:
    return [json.loads(line) for line in quiz_text().splitlines()]


def frank() -> list[Any]:
    return [frank_row(LONG, "s0", "A.", RIGHT), frank_row(LONG, "s1", "B.", (["OutE"], ["OutE"], ["NoE"]))]


def news() -> Any:
    return {"0": news_article("A.", [(["gpt3"], ["t0"]), (["gpt3"], ["t0"])])}


SENTENCES = "summary_sentences_annotations"


@pytest.mark.parametrize(
    ("source", "content", "place"),
    [
        (QUIZ, with_value(quiz(), 1, "questions", value=None), "line 2, field 'questions': expected a list"),
        (
            QUIZ,
            with_value(quiz(), 1, "questions", 0, value="Q?"),
            "line 2, questions[0], 'questions[].question': before .question stands text, not an object",
        ),
        (
            QUIZ,
            with_value(quiz(), 0, "questions", 1, "question", value=7),
            "line 1, questions[1], column 'questions[].question': expected text, found a number",
        ),
        (
            QUIZ,
            with_value(quiz(), 0, "questions", 1, "reason", value="\ud800"),
            "line 1, questions[1], column 'questions[].reason': it holds half a surrogate pair",
        ),
        (
            QUIZ,
            with_value(quiz(), 2, "group_id", value=1.5),
            "line 3, questions[0], column 'group_id': expected text, found a number",
        ),
        (
            QUIZ,
            with_value(quiz(), 0, "questions", 1, "reason", value=""),
            "line 1, questions[1], column 'questions[].reason': it is empty",
        ),
        (
            QUIZ,
            with_value(quiz(), 0, "questions", 1, "reason", value=["No error"]),
            "line 1, questions[1], column 'questions[].reason': expected text, found a list",
        ),
        (
            QUIZ,
            with_value(quiz(), 2, "context", value=["x", "y"]),
            "line 3, questions[0], column 'context': expected text, found a list",
        ),
        (
            QUIZ,
            with_value(quiz(), 2, "answer_span", value=None),
            "line 3, questions[0], column 'answer_span': expected text, found nothing",
        ),
        (QUIZ, [{"group_id": 1, "context": "C."}], "line 1: field 'questions' is missing"),
        (
            QUIZ,
            [{"group_id": 1, "context": "C.", "questions": quiz()[0]["questions"]}],
            "line 1, questions[0]: field 'answer_span' is missing",
        ),
        (FRANK, with_value(frank(), 1, SENTENCES, 0, value=[]), f"summary 1, {SENTENCES}[0]: expected an object"),
        (
            FRANK,
            with_value(frank(), 1, SENTENCES, 0, "annotator_2", value="NoE"),
            "annotator 'annotator_2' has no list",
        ),
        (
            FRANK,
            with_value(frank(), 1, SENTENCES, 0, "annotator_2", 0, value=1),
            "annotator 'annotator_2': expected text",
        ),
        (FRANK, with_value(frank(), 0, "hash", value=None), "summary 0, field 'hash'"),
        (FRANK, [[]], "summary 0: expected an object"),
        (
            FRANK,
            [frank_row(LONG, "s0", "A.", (["New"], ["New"], ["NoE"]))],
            "summary 0, column 'label': unknown error label 'New'",
        ),
        (FRANK, {"hash": LONG}, "expected a list of summaries"),
        (
            SUMMEVAL,
            with_value(summeval_rows(), 1, "expert_annotations", 2, "coherence", value="high"),
            "line 2, expert_annotations[2], field 'coherence': expected a number, found 'high'",
        ),
        (SUMMEVAL, with_value(summeval_rows(), 3, "decoded", value=None), "line 4, field 'decoded': expected text"),
        (
            SUMMEVAL,
            with_value(summeval_rows(), 3, "expert_annotations", value=[]),
            "line 4, field 'expert_annotations': no",
        ),
        (
            NEWS,
            with_value(news(), "0", "annotators", 1, value="gpt3"),
            "entry '0', 'annotators[].best_summary[0]': in item [1] before .best_summary stands text, not an object",
        ),
        (
            NEWS,
            with_value(news(), "0", "brio", "text", value=["x"]),
            "entry '0', column 'brio.text': expected text, found a list",
        ),
        (NEWS, with_value(news(), "0", value=[]), "entry '0': expected an object"),
        (
            NEWS,
            {**news(), "1": {**news()["0"], "annotators": None}},
            "entry '1', column 'annotators[].best_summary[0]', item [0]: no system",
        ),
        (
            NEWS,
            {**news(), "1": {key: value for key, value in news()["0"].items() if key != "t0"}},
            "entry '1', column 't0.text': expected text, found nothing",
        ),
        (NEWS, [], "cnn_human.json: expected an object with named fields, found a list"),
    ],
)
def test_wrong_field_in_a_source_is_named_by_file_row_and_field(
    source: tuple[str, str, Callable[[Any], str]], content: Any, place: str, tmp_path: Path
) -> None:
    name, file, encode = source
    folder = write_files(tmp_path / "in", {file: encode(content)})
    message = refusal(lambda: build_set(name, folder, tmp_path / "out"))
    assert message.startswith(str(folder / file))
    assert place in message, message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["quiz_design", "frank", "summeval", "news_gpt3"])
@pytest.mark.parametrize("text", [tsv(MQM_COLUMNS, mqm_rows()), "a,b\n1,2\n"], ids=["tsv", "csv"])
def test_table_in_place_of_json_brings_up_that_it_may_be_the_wrong_file(name: str, text: str, tmp_path: Path) -> None:
    file = next(iter(SMALL[name]()))
    folder = write_files(tmp_path / "in", {file: text})
    message = refusal(lambda: build_set(name, folder, tmp_path / "out"))
    assert message.startswith(str(folder / file))
    assert message.endswith("is it the right file?")


def test_rows_that_are_not_summevals_are_refused_before_the_articles_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "load_articles", lambda path: pytest.fail("it asked for the articles"))
    wrong = write_files(tmp_path / "in", {"WRONG.jsonl": quiz_text()}) / "WRONG.jsonl"
    message = refusal(lambda: build_set("summeval", wrong, tmp_path / "out"))
    assert message.startswith(f"{wrong}, line 2: field 'id' is missing")
    no_text = [{key: value for key, value in row.items() if key != "text"} for row in summeval_rows()]
    last = write_files(tmp_path / "in", {SUMMEVAL_FILE: jsonl(with_value(no_text, 5, "model_id", value=7))})
    assert "line 6, field 'model_id'" in refusal(lambda: build_set("summeval", last, tmp_path / "out"))


@pytest.mark.parametrize("category", ["/", "/Grammar", "/🙂/x"])
def test_mqm_category_with_nothing_before_the_slash_is_refused_by_row(category: str, tmp_path: Path) -> None:
    rows = mqm_rows()
    rows[2][MQM_COLUMNS.index("category")] = category
    file = write_files(tmp_path / "in", {MQM_FILE: tsv(MQM_COLUMNS, rows)}) / MQM_FILE
    message = refusal(lambda: build_set("mqm", file, tmp_path / "out"))
    assert message.startswith(f"{file}, row 4, column 'category': ")
    assert category in message


def test_article_id_with_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"cnn_human.json": json.dumps({"\ud800": news()["0"]})})
    assert "cnn_human.json" in refusal(lambda: build_set("news_gpt3", folder, tmp_path / "out"))


def test_folder_named_like_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in" / QUIZ_FILE).mkdir(parents=True)
    assert QUIZ_FILE in refusal(lambda: build_set("quiz_design", tmp_path / "in", tmp_path / "out"))


# ---------------------------------------------------------------- places that cannot be read


@pytest.mark.parametrize("name", ["quiz_design", "frank", "mqm", "news_gpt3"])
def test_source_that_does_not_exist_is_refused_by_name(name: str, tmp_path: Path) -> None:
    assert refusal(lambda: build_set(name, tmp_path / "none", tmp_path / "out")) == (
        f"{tmp_path / 'none'}: no such file or folder"
    )


@pytest.mark.parametrize("name", list(SMALL))
def test_folder_without_the_file_is_refused_with_the_name_that_is_wanted(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    message = refusal(lambda: build_set(name, tmp_path / "in", tmp_path / "out"))
    assert message.startswith(f"{tmp_path / 'in'}: ")
    assert next(iter(SMALL[name]())) in message


def test_renamed_copy_of_a_single_file_source_is_read(tmp_path: Path) -> None:
    copy = write_files(tmp_path / "in", {"my copy.jsonl": quiz_text()}) / "my copy.jsonl"
    assert build_set("quiz_design", copy, tmp_path / "out").built[0].tests == 5


def test_split_file_given_as_the_source_does_not_stand_for_the_annotations(tmp_path: Path) -> None:
    folder = small_source(tmp_path / "in", "frank")
    (folder / FRANK_FILE).unlink()
    message = refusal(lambda: build_set("frank", folder / SPLIT_FILE, tmp_path / "out"))
    assert FRANK_FILE in message


@pytest.mark.parametrize(
    "source", ["a" * 300, "~no-such-user-of-this-system/data"], ids=["name too long", "unknown home"]
)
@pytest.mark.parametrize("name", ["quiz_design", "mqm"])
def test_source_path_that_the_system_refuses_is_a_plain_error(name: str, source: str, tmp_path: Path) -> None:
    assert source[:20] in refusal(lambda: build_set(name, source, tmp_path / "out"))


@pytest.mark.parametrize("name", ["quiz_design", "mqm"])
def test_file_that_cannot_be_read_is_a_plain_error(name: str, tmp_path: Path) -> None:
    folder = small_source(tmp_path / "in", name)
    file = folder / next(iter(SMALL[name]()))
    file.unlink()
    try:
        file.symlink_to("/proc/self/mem")  # a regular file whose first bytes nobody can read, not even root
        with pytest.raises(OSError, match="Input/output error"):
            file.read_bytes()
    except (OSError, pytest.fail.Exception):
        pytest.skip("no file here that exists but cannot be read")
    assert str(file) in refusal(lambda: build_set(name, folder, tmp_path / "out"))


# ---------------------------------------------------------------- odd content


def test_numbers_nested_to_any_depth_are_refused(tmp_path: Path) -> None:
    rows = summeval_rows()
    folder = write_files(tmp_path / "in", {})
    for depth in range(10, 1000, 9):
        rows[1]["expert_annotations"][0]["consistency"] = "DEEP"
        text = jsonl(rows).replace('"DEEP"', "[" * depth + "]" * depth)
        write_files(folder, {SUMMEVAL_FILE: text})
        message = refusal(lambda: build_set("summeval", folder, tmp_path / "out"))
        assert message.startswith(f"{folder / SUMMEVAL_FILE}, line 2"), depth


def test_cells_of_ones_own_table_that_are_no_text_are_refused_by_row(write: Callable[..., Path]) -> None:
    judged = Recipe(context="c", candidate="t", score="s", min_gap=1.0)
    deep = '{"c": "x", "t": "y", "s": 1}\n{"c": "x", "t": ' + "[" * 900 + "]" * 900 + ', "s": 2}\n'
    path = write(deep, ".jsonl")
    message = refusal(lambda: make_tests(open_table(str(path), judged), judged))
    assert message == f"{path}, line 2, column 't': lists nested too deeply"
    pairs = Recipe(context="c", pair=("a", "b"), winner="w")
    path = write('{"c": "x", "a": "y", "b": "z", "w": {"a": 1}}\n', ".jsonl")
    message = refusal(lambda: make_tests(open_table(str(path), pairs), pairs))
    assert message == f"{path}, line 1, column 'w': expected text, found an object"


def test_message_stays_on_one_line_whatever_the_names_in_the_file() -> None:
    record = Record({"a\nb": 1, "c\x1b[31m": 2}, "f, line 3")
    message = refusal(lambda: record.get("wanted"))
    assert message.isprintable(), "line breaks and control characters of the file are shown, not obeyed"
