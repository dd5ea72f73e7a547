"""Files as people have them are read strictly: texts and numbers as written, and one line that names file and row."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.recipe import read_recipe
from tests.sets.small_files import write_files
from tests.sets.tables import make, make_csv, make_rows, pick, read_tests

KEYS = {"context": "c", "candidate": "t", "score": "s", "min_gap": 1}
PAIR = {"context": "c", "chosen": "x", "rejected": "y"}
#: Texts that careless readers take for missing, for numbers or for others.
TEXTS = ["NA", "None", "null", "007", "12345678901234567890123", "1.50", " x ", "é, \"quoted\"", "=1+1", "nan"]  # fmt: skip
ROWS: list[dict[str, Any]] = [{"c": "Wörter; viele, ja", "t": text, "s": i} for i, text in enumerate(TEXTS)]


def delimited(mark: str, decimal: str = ".", quotes: bool = True) -> str:
    """Return `ROWS` as text; by hand, as no library may decide what is quoted."""

    def cell(value: Any) -> str:
        text = f"{value:.1f}".replace(".", decimal) if isinstance(value, int) else str(value)
        return '"' + text.replace('"', '""') + '"' if quotes and any(sign in text for sign in f'{mark}"\n') else text

    return "".join(mark.join(map(cell, row)) + "\n" for row in [ROWS[0], *(row.values() for row in ROWS)])


def excel(rows: list[dict[str, Any]]) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book, target = openpyxl.Workbook(), io.BytesIO()
    for number, row in enumerate([rows[0], *(row.values() for row in rows)], 1):
        for place, value in enumerate(row, 1):
            cell = book.active.cell(number, place, value)
            cell.data_type = "s" if isinstance(value, str) else cell.data_type
    book.save(target)
    return target.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "comma.csv": lambda: delimited(",").encode(),
    "bom.csv": lambda: delimited(",").replace("\n", "\r\n").encode("utf-8-sig"),
    "german.csv": lambda: delimited(";", ",").replace("\n", "\r\n").encode("cp1252"),
    "quotes.tsv": lambda: delimited("\t").encode("utf-16"),
    "plain.tsv": lambda: delimited("\t", quotes=False).encode(),
    "lines.jsonl": lambda: "\n\n".join(map(json.dumps, ROWS)).encode(),
    "list.json": lambda: json.dumps(ROWS, ensure_ascii=False).encode("utf-8-sig"),
    "data.json": lambda: json.dumps({"version": 1, "data": ROWS}).encode(),
    "keyed.json": lambda: json.dumps({f"id{row['s']}": row for row in ROWS}).encode(),
    "columns.parquet": lambda: pd.DataFrame(ROWS).to_parquet(),
    "sheet.xlsx": lambda: excel(ROWS),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_texts_as_they_are_written(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMATS[name]())
    given = {"german.csv": {"decimal": ","}, "quotes.tsv": {"encoding": "utf-16"}}
    tests = read_tests(make(tmp_path / name, **KEYS, **given.get(name, {})))
    assert set(pick(tests, "high", "low")) == {(high, low) for i, low in enumerate(TEXTS) for high in TEXTS[i + 1 :]}
    assert {test["context"] for test in tests} == {"Wörter; viele, ja"}


@pytest.mark.parametrize(
    "text",
    [
        "Où est-ce que la forêt, l'été, paraît si belle à l'œil ? Là-bas, près du château, où l'âne brait.",
        "São Paulo é uma cidade grande, não há ninguém que não a conheça, e as canções são boas.",
        "Där borta på ängen går en älg, och över sjön hörs en trana som ropar på sin make.",
        "Die Füße müssen größer sein als die Schuhe, übrigens heißt das Mädchen Käthe.",
    ],
)
def test_files_of_windows_in_western_europe_are_read_as_such(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(f"c;x;y\nQ;{text};x\n".encode("cp1252"))
    assert pick(read_tests(make(tmp_path / "t.csv", **PAIR)), "high") == [(text,)]


def test_file_key_and_dotted_names_are_columns(tmp_path: Path) -> None:
    text = """{"a": {"in": {"q": "Q"}, "texts": ["x", "bad"], "s": "{'v': [1]}"},
               "b": {"in": {"q": "Q"}, "texts": ["x", "good"], "s": "{'v': [2]}"}}"""
    path = write_files(tmp_path, {"part.one.json": text}) / "part.one.json"
    keys = {"context": "in.q", "candidate": "texts.1", "score": "s.v.0", "system": "@key", "category": "@file"}
    tests = read_tests(make(path, **keys, min_gap=1))
    assert pick(tests, "context", "high", "low", "low_system", "category") == [("Q", "good", "bad", "a", "part")]
    made = make_csv(tmp_path, "c,t,s.x", "q,a,1", "q,b,2", **{**KEYS, "score": "s.x"})
    assert pick(read_tests(made), "high") == [("b",)]


def test_several_files_are_one_table_or_a_config_each_and_their_rows_are_named_with_their_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_files(tmp_path / "in" / "de", {f"{name}.csv": f"c,t,s\nq,{name},1\nq,?,\nq,x{name},2\n"})
    made = make(tmp_path / "in", **KEYS)
    assert len(read_tests(made)) == 4
    assert made.report["default"]["accounts"]["rows"]["examples"] == {
        "no_judgement": ["one.csv, row 3", "two.csv, row 3"]
    }
    assert str(tmp_path) not in json.dumps(made.report), "a report does not say where a file lies"
    assert list(make(tmp_path / "in", **KEYS, config="@file").tables) == ["one", "two"]
    assert len(read_tests(make(tmp_path / "in" / "de" / "o*.csv", **KEYS))) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_after_blank_lines_have_the_numbers_of_a_spreadsheet(encoding: str, end: str, tmp_path: Path) -> None:
    """Blank lines count, a line break within quotes does not begin a row."""
    lines = ["c,t,s", "Q,one,1", "", "", 'Q,"zwölf', "", 'lines",2', "", "Q,three,high", "", "Q,four,4"]
    (tmp_path / "t.csv").write_bytes(end.join(lines).encode(encoding))
    with pytest.raises(NNDError, match=r"t.csv, row 7, column 's': expected a number, found 'high'"):
        make(tmp_path / "t.csv", **KEYS)


def test_rows_of_a_sheet_are_counted_as_excel_does(tmp_path: Path) -> None:
    rows = [{"c": "q", "t": "a", "s": 1}, {"c": None, "t": None, "s": None}, {"c": "q", "t": "b", "s": "much"}]
    (tmp_path / "t.xlsx").write_bytes(excel(rows))
    with pytest.raises(NNDError, match=r"t.xlsx, row 4, column 's': expected a number, found 'much'"):
        make(tmp_path / "t.xlsx", **KEYS)


@pytest.mark.parametrize(
    ("text", "score"),
    [("c\tt\t# errors\nq\ta\t1\nq\tb\t2\n", "# errors"), ("c\tt\ts\t# Documentation: ...\nq\ta\t1\nq\tb\t2\n", "s")],
)
def test_a_last_column_with_a_number_sign_is_a_comment_only_where_rows_have_no_cell_for_it(
    text: str, score: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {"t.tsv": text})
    assert len(read_tests(make(tmp_path / "t.tsv", **{**KEYS, "score": score}))) == 1


HEAD = b"c,t,s\nq,a,1\n"
UNREADABLE: dict[str, tuple[str, bytes, str]] = {
    "short row": ("t.csv", HEAD + b"\nq,b\n", "row 4: 2 cells, the header has 3"),
    "long row": ("t.csv", HEAD + b"q,b,2,3\n", "row 3: 4 cells, the header has 3"),
    "row after a cell of two lines": ("t.csv", b'c,t,s\n"q\nq",a,1\nq\n', "row 3: 1 cell"),
    "unclosed quote": ("t.csv", HEAD + b'q,"b,2\nq,c,3\n', "row 3: not a valid table"),
    "two columns of one name": ("t.csv", b"c,t,t\nq,a,1\n", "row 1: two columns are called 't'"),
    "no row": ("t.csv", b"c,t,s\n", "no row is in it"),
    "missing column": ("t.csv", b"c,x,s\nq,a,1\n", "no column 't'; there are: c, x, s"),
    "decimal comma": ("t.tsv", b"c\tt\ts\nq\ta\t1,5\n", "expected a number, found '1,5'; for decimal commas"),
    "wrong encoding": ("t.jsonl", b'{"c": "q\xff"}', "is not utf-8 (byte 8)"),
    "truncated line": ("t.jsonl", b'{"c": "q", "t": "a", "s": 1}\n{"c": "q", "t', "line 2: is not valid JSON"),
    "no object": ("t.json", b'[{"c": "q"}, 7]', "item 2: expected an object with fields, found a number"),
    "truncated list": ("t.json", b'[{"c": "q"}, {"c"', "is not valid JSON"),
    "half surrogate": ("t.json", b'[{"c": "q", "t": "\\ud800", "s": 1}]', "item 1, column 't': it holds half a surrogate"),
    "object": ("t.json", b'{"my k": {"c": "q", "t": {"x": 1}, "s": 1}}', "key 'my k', column 't': expected text"),
    "no such field": ("t.jsonl", b'{"c": "q", "t": "a", "s": {"y": 1}}', "line 1, column 's.x': no 'x' in an object"),
    "no parquet": ("t.parquet", b"PAR1", "cannot be read as parquet"),
    "no sheet": ("t.xlsx", b"PK", "cannot be read as .xlsx"),
    "no table": ("t.txt", b"c,t,s", "a table ends in one of .csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_one_line_that_names_file_and_row(name: str, tmp_path: Path) -> None:
    file, content, message = UNREADABLE[name]
    (tmp_path / file).write_bytes(content)
    more = {"no such field": {"score": "s.x"}, "wrong encoding": {"encoding": "utf-8"}}
    with pytest.raises(NNDError) as caught:
        make(tmp_path / file, **KEYS | more.get(name, {}))
    assert str(caught.value).startswith(f"{tmp_path / file}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- cells that mean nothing


@pytest.mark.parametrize(
    ("cells", "missing"),
    [
        ('["1", "n/a", "", "None", "3"]', ()),
        ('[1, null, NaN, "-", 3]', ()),
        ('["1", "-99", "k.A.", "-99", "3"]', ["-99", "K.A."]),
        ("[1, -99, -99.0, null, 3]", "-99"),
    ],
)
def test_only_named_texts_mean_that_nobody_judged(cells: str, missing: Any, tmp_path: Path) -> None:
    rows = [{"c": "q", "t": str(i), "s": cell} for i, cell in enumerate(json.loads(cells))]
    made = make_rows(tmp_path, rows, **KEYS, missing=missing)
    assert pick(read_tests(made), "high", "low") == [("4", "0")]
    assert made.report["default"]["accounts"]["rows"]["left_out"]["no_judgement"] == 3


@pytest.mark.parametrize(
    ("cells", "value"),
    [("true, false", "false"), ('"True", "False"', "[false]"), ('"yes", "no"', "no"), ('"on", "off"', "[off]")],
)
def test_a_recipe_leaves_rows_out_by_truth_values_and_by_words(cells: str, value: str, tmp_path: Path) -> None:
    """In a recipe ``no`` and ``off`` are the words of a table, not the truth values that YAML makes of them."""
    rows = [{"c": "Q", "x": "a", "y": str(cell), "valid": cell} for cell in json.loads(f"[{cells}]")]
    write_files(tmp_path, {"_recipe": f"leave_out: {{valid: {value}}}\n"})
    made = make_rows(tmp_path, rows, **PAIR, **read_recipe(tmp_path / "_recipe"))
    assert pick(read_tests(made), "low") == [(rows[0]["y"],)]
    assert not any("no row has" in note for note in made.notes)
