"""Files as people have them are read strictly: texts and numbers as written, and one line that names file and row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from tests.sets.tables import make, make_rows, pick, read_tests

KEYS = {"context": "c", "candidate": "t", "score": "s", "min_gap": 1}
#: Texts that careless readers take for missing, for numbers or for others.
TEXTS = ["NA", "None", "null", "007", "12345678901234567890123", "1.50", " x ", "é, \"quoted\"", "=1+1", "nan"]  # fmt: skip
ROWS: list[dict[str, Any]] = [{"c": "Wörter; viele, ja", "t": text, "s": i} for i, text in enumerate(TEXTS)]
EXPECTED = {(high, low) for i, low in enumerate(TEXTS) for high in TEXTS[i + 1 :]}


def delimited(rows: list[dict[str, Any]], mark: str, decimal: str = ".", quotes: bool = True) -> str:
    """Return rows as text; by hand, as no library may decide what is quoted."""

    def cell(value: Any) -> str:
        text = f"{value:.1f}".replace(".", decimal) if isinstance(value, int) else str(value)
        return '"' + text.replace('"', '""') + '"' if quotes and any(sign in text for sign in f'{mark}"\n') else text

    return "".join(mark.join(map(cell, row)) + "\n" for row in [list(rows[0]), *(row.values() for row in rows)])


def excel(path: Path, rows: list[dict[str, Any]]) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [list(rows[0]), *(list(row.values()) for row in rows)]:
        book.active.append([None] * len(row))
        for place, value in enumerate(row, 1):
            cell = book.active.cell(book.active.max_row, place, value)
            cell.data_type = "s" if isinstance(value, str) else cell.data_type
    book.save(path)


FORMATS: dict[str, Any] = {
    "comma.csv": lambda path: path.write_text(delimited(ROWS, ","), encoding="utf-8"),
    "bom.csv": lambda path: path.write_text(delimited(ROWS, ","), encoding="utf-8-sig", newline="\r\n"),
    "german.csv": lambda path: path.write_text(delimited(ROWS, ";", ","), encoding="cp1252", newline="\r\n"),
    "quotes.tsv": lambda path: path.write_text(delimited(ROWS, "\t"), encoding="utf-16"),
    "plain.tsv": lambda path: path.write_text(delimited(ROWS, "\t", quotes=False), encoding="utf-8"),
    "lines.jsonl": lambda path: path.write_text("\n\n".join(map(json.dumps, ROWS)), encoding="utf-8"),
    "list.json": lambda path: path.write_text(json.dumps(ROWS, ensure_ascii=False), encoding="utf-8-sig"),
    "data.json": lambda path: path.write_text(json.dumps({"version": 1, "data": ROWS}), encoding="utf-8"),
    "keyed.json": lambda path: path.write_text(json.dumps({f"id{row['s']}": row for row in ROWS}), encoding="utf-8"),
    "columns.parquet": lambda path: pd.DataFrame(ROWS).to_parquet(path),
    "sheet.xlsx": lambda path: excel(path, ROWS),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_texts_as_they_are_written(name: str, tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name)
    given = {"german.csv": {"decimal": ","}, "quotes.tsv": {"encoding": "utf-16"}}
    tests = read_tests(make(tmp_path / name, **KEYS, **given.get(name, {})))
    assert set(pick(tests, "high", "low")) == EXPECTED
    assert {test["context"] for test in tests} == {"Wörter; viele, ja"}


def test_file_key_and_dotted_names_are_columns(tmp_path: Path) -> None:
    entries = {
        key: {"in": {"q": "Q"}, "texts": ["x", text], "s": str({"v": [score]})}
        for key, text, score in (("a", "bad", 1), ("b", "good", 2))
    }
    (tmp_path / "part.one.json").write_text(json.dumps(entries), encoding="utf-8")
    keys = {
        "context": "in.q",
        "candidate": "texts.1",
        "score": "s.v.0",
        "min_gap": 1,
        "system": "@key",
        "category": "@file",
    }
    tests = read_tests(make(tmp_path / "part.one.json", **keys))
    assert pick(tests, "context", "high", "low", "low_system", "category") == [("Q", "good", "bad", "a", "part")]
    rows = [{"c": "q", "t": "a", "s.x": 1}, {"c": "q", "t": "b", "s.x": 2}]
    assert pick(read_tests(make_rows(tmp_path, rows, **{**KEYS, "score": "s.x"})), "high") == [("b",)], (
        "a name with a dot"
    )


def test_several_files_are_one_table_or_a_config_each(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "in" / f"{name}.csv").parent.mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name}.csv").write_text(f"c,t,s\nq,{name},1\nq,x{name},2\n", encoding="utf-8")
    assert len(read_tests(make(tmp_path / "in", **KEYS))) == 4
    assert list(make(tmp_path / "in", **KEYS, config="@file").tables) == ["one", "two"]
    assert len(read_tests(make(tmp_path / "in" / "o*.csv", **KEYS))) == 1


HEAD = "c,t,s\nq,a,1\n"
UNREADABLE: dict[str, tuple[str, bytes, str]] = {
    "short row": ("t.csv", f"{HEAD}\nq,b\n".encode(), "row 4: 2 cells, the header has 3"),
    "long row": ("t.csv", f"{HEAD}q,b,2,3\n".encode(), "row 3: 4 cells, the header has 3"),
    "row after a cell of two lines": ("t.csv", b'c,t,s\n"q\nq",a,1\nq\n', "row 3: 1 cell"),
    "unclosed quote": ("t.csv", f'{HEAD}q,"b,2\nq,c,3\n'.encode(), "row 3: not a valid table"),
    "two columns of one name": ("t.csv", b"c,t,t\nq,a,1\n", "row 1: two columns are called 't'"),
    "no row": ("t.csv", b"c,t,s\n", "no row is in it"),
    "missing column": ("t.csv", b"c,x,s\nq,a,1\n", "no column 't'; there are: c, x, s"),
    "no number": ("t.csv", f"{HEAD}q,b,much\n".encode(), "row 3, column 's': expected a number, found 'much'"),
    "decimal comma": (
        "t.tsv",
        b"c\tt\ts\nq\ta\t1,5\n",
        "row 2, column 's': expected a number, found '1,5'; for decimal commas",
    ),
    "wrong encoding": ("t.jsonl", b'{"c": "q\xff"}', "is not utf-8 (byte 8)"),
    "truncated line": ("t.jsonl", b'{"c": "q", "t": "a", "s": 1}\n{"c": "q", "t', "line 2: is not valid JSON"),
    "no object": ("t.json", b'[{"c": "q"}, 7]', "item 2: expected an object with fields, found a number"),
    "truncated list": ("t.json", b'[{"c": "q"}, {"c"', "is not valid JSON"),
    "half surrogate": (
        "t.json",
        b'[{"c": "q", "t": "\\ud800", "s": 1}]',
        "item 1, column 't': it holds half a surrogate",
    ),
    "an object for a text": (
        "t.json",
        b'{"my k": {"c": "q", "t": {"x": 1}, "s": 1}}',
        "key 'my k', column 't': expected text",
    ),
    "no such field": (
        "t.jsonl",
        b'{"c": "q", "t": "a", "s": {"y": 1}}',
        "line 1, column 's.x': no 'x' in an object; there are",
    ),
    "no parquet": ("t.parquet", b"PAR1", "cannot be read as parquet"),
    "no sheet": ("t.xlsx", b"PK", "cannot be read as .xlsx"),
    "no table": ("t.txt", b"c,t,s", "a table ends in one of .csv"),
}


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_last_column_may_begin_with_a_number_sign(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{ending}"
    rows = [{"c": "q", "t": text, "# errors": count} for count, text in enumerate("ab")]
    excel(path, rows) if ending == "xlsx" else pd.DataFrame(rows).to_csv(path, index=False)
    assert len(read_tests(make(path, **{**KEYS, "score": "# errors"}))) == 1


def test_a_comment_behind_the_header_that_rows_have_no_cell_for_is_none(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("c\tt\ts\t# Documentation: ...\nq\ta\t1\nq\tb\t2\n")
    assert len(read_tests(make(tmp_path / "t.tsv", **KEYS))) == 1


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_one_line_that_names_file_and_row(name: str, tmp_path: Path) -> None:
    file, content, message = UNREADABLE[name]
    (tmp_path / file).write_bytes(content)
    keys = {**KEYS, "score": "s.x"} if name == "no such field" else KEYS
    keys = {**keys, "encoding": "utf-8"} if name == "wrong encoding" else keys
    with pytest.raises(NNDError) as caught:
        make(tmp_path / file, **keys)
    assert str(caught.value).startswith(f"{tmp_path / file}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_of_a_sheet_are_counted_as_excel_does(tmp_path: Path) -> None:
    rows = [{"c": "q", "t": "a", "s": 1}, {"c": None, "t": None, "s": None}, {"c": "q", "t": "b", "s": "much"}]
    excel(tmp_path / "t.xlsx", rows)
    with pytest.raises(NNDError, match=r"t.xlsx, row 4, column 's': expected a number, found 'much'"):
        make(tmp_path / "t.xlsx", **KEYS)


@pytest.mark.parametrize(
    ("cells", "keys"),
    [
        (["1", "n/a", "", "None", "3"], {}),
        ([1, None, float("nan"), "-", 3], {}),
        (["1", "-99", "k.A.", "-99", "3"], {"missing": ["-99", "K.A."]}),
        ([1, -99, -99.0, None, 3], {"missing": "-99"}),
    ],
)
def test_only_named_texts_mean_that_nobody_judged(cells: list[Any], keys: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"c": "q", "t": str(i), "s": cell} for i, cell in enumerate(cells)]
    made = make_rows(tmp_path, rows, **KEYS, **keys)
    assert pick(read_tests(made), "high", "low") == [("4", "0")]
    assert made.report["default"]["dropped"]["no_judgement"] == 3
