"""Files as people have them are read strictly: texts and numbers as written, and one line that names file and row."""

import bz2
import gzip
import io
import json
import re

import datasets
import pandas as pd
import pyarrow as pa
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.recipe import read_recipe
from nnd_tasks.tables import read
from nnd_tasks.tables.columns import Columns
from nnd_tasks.tables.read import read_records, read_table
from tests.sets.small_files import write_files
from tests.sets.tables import make, make_csv, make_rows, pick, read_arguments, read_tests, refusal

ARGUMENTS = read_arguments(__file__)

KEYS = {"context": "c", "candidate": "t", "score": "s", "min_gap": 1}
PAIR = {"context": "c", "chosen": "x", "rejected": "y"}
#: Texts that careless readers take for missing, for numbers or for others.
TEXTS = ["NA", "None", "null", "007", "12345678901234567890123", "1.50", " x ", "é, \"quoted\"", "=1+1", "nan"]  # fmt: skip
ROWS = [{"c": "Wörter; viele, ja", "t": text, "s": i} for i, text in enumerate(TEXTS)]


def delimited(mark, decimal=".", quotes=True):
    """Return `ROWS` as text; by hand, as no library may decide what is quoted."""

    def cell(value):
        text = f"{value:.1f}".replace(".", decimal) if isinstance(value, int) else str(value)
        return '"' + text.replace('"', '""') + '"' if quotes and any(sign in text for sign in f'{mark}"\n') else text

    return "".join(mark.join(map(cell, row)) + "\n" for row in [ROWS[0], *(row.values() for row in ROWS)])


def excel(*sheets):
    """Return a workbook with the sheets s0, s1, ..."""
    openpyxl = pytest.importorskip("openpyxl")
    book, target = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for place, rows in enumerate(sheets):
        sheet = book.create_sheet(f"s{place}")
        for number, row in enumerate([*rows[:1], *(row.values() for row in rows)], 1):
            for column, value in enumerate(row, 1):
                cell = sheet.cell(number, column, value)
                cell.data_type = "s" if isinstance(value, str) else cell.data_type
    book.save(target)
    return target.getvalue()


FRAME = pd.DataFrame(ROWS)
FORMATS = {
    "comma.csv": lambda: delimited(",").encode(),
    "bom.csv": lambda: delimited(",").replace("\n", "\r\n").encode("utf-8-sig"),
    "german.csv": lambda: delimited(";", ",").replace("\n", "\r\n").encode("cp1252"),
    "excel.csv": lambda: ("sep=;\n" + delimited(";")).encode(),
    "mac.csv": lambda: delimited(",").replace("\n", "\r").encode(),
    "tabs.csv": lambda: delimited("\t").encode(),
    "commas.tsv": lambda: delimited(",").encode(),
    "bars.txt": lambda: delimited("|").encode(),
    "quotes.tsv": lambda: delimited("\t").encode("utf-16"),
    "plain.tsv": lambda: delimited("\t", quotes=False).encode(),
    "packed.csv.gz": lambda: gzip.compress(delimited(",").encode()),
    "packed.tsv.bz2": lambda: bz2.compress(delimited("\t").encode()),
    "packed.jsonl.zst": lambda: pa.compress("\n".join(map(json.dumps, ROWS)).encode(), "zstd", asbytes=True),
    "lines.jsonl": lambda: "\n\n".join(map(json.dumps, ROWS)).encode(),
    "lines.json": lambda: "\n".join(map(json.dumps, ROWS)).encode(),
    "several_lines.jsonl": lambda: "\n".join(json.dumps(row, indent=1) for row in ROWS).encode(),
    "one_line.jsonl": lambda: "".join(map(json.dumps, ROWS)).encode(),
    "list.jsonl": lambda: json.dumps(ROWS).encode(),
    "list.json": lambda: json.dumps(ROWS, ensure_ascii=False).encode("utf-8-sig"),
    "data.json": lambda: json.dumps({"version": 1, "about": {"by": "us"}, "data": ROWS}).encode(),
    "parts.json": lambda: json.dumps({"train": ROWS[:4], "dev": [], "test": ROWS[4:]}).encode(),
    "keyed.json": lambda: json.dumps({f"id{row['s']}": row for row in ROWS}).encode(),
    **{
        f"{orient}.json": lambda orient=orient: FRAME.to_json(orient=orient).encode()  # type: ignore[misc]
        for orient in ("columns", "index", "records", "table")
    },
    "filtered.json": lambda: FRAME.set_axis(range(7, 7 + len(FRAME))).to_json().encode(),
    "dict.json": lambda: json.dumps(FRAME.to_dict("list")).encode(),
    "columns.parquet": lambda: FRAME.to_parquet(),
    "sheet.xlsx": lambda: excel(ROWS),
    "sheets.xlsx": lambda: excel(ROWS[:4], [], ROWS[4:]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_texts_as_they_are_written(name, tmp_path):
    (tmp_path / name).write_bytes(FORMATS[name]())
    given = {"german.csv": {"decimal": ","}, "quotes.tsv": {"encoding": "utf-16"}}
    tests = read_tests(make(tmp_path / name, **KEYS, missing=[], **given.get(name, {})))
    assert set(pick(tests, "high", "low")) == {(high, low) for i, low in enumerate(TEXTS) for high in TEXTS[i + 1 :]}
    assert {test["context"] for test in tests} == {"Wörter; viele, ja"}


# ---------------------------------------------------------------- encodings

BAD_BYTE = "c,t,s\nq,schön,1\nq,Käse,2\nq,über,5\n".encode().replace("Käse".encode(), "Käse".encode("cp1252"))


@pytest.mark.parametrize(
    ("encoding", "text"), ARGUMENTS["an_encoding_that_is_guessed_is_said_with_words_that_it_makes"]
)
def test_an_encoding_that_is_guessed_is_said_with_words_that_it_makes(encoding, text, tmp_path, caplog):
    (tmp_path / f"{text[:4]}.csv").write_bytes(f"c;x;y\nQ;{text};x\n".encode(encoding))
    assert pick(read_tests(make(tmp_path / f"{text[:4]}.csv", **PAIR)), "high") == [(text,)]
    [said] = caplog.messages
    word = next(word for word in re.split(r"[\s,;]+", text) if not word.isascii())[:30]
    assert re.search(f"read as {encoding} \\('{word}.*; if letters are wrong, name its encoding with --encoding", said)


@pytest.mark.parametrize("encoding", [None, "utf-8"])
def test_a_file_that_is_utf8_but_for_a_byte_is_never_read_otherwise(encoding, tmp_path):
    (tmp_path / "t.csv").write_bytes(BAD_BYTE)
    message = "t.csv: is UTF-8 but for row 3 (byte 0xe4); correct that letter and save the file as UTF-8"
    assert message in refusal(make, tmp_path / "t.csv", **KEYS, encoding=encoding)


def test_letters_that_a_named_encoding_makes_of_utf8_are_shown(tmp_path, caplog):
    (tmp_path / "t.csv").write_bytes(BAD_BYTE)
    make(tmp_path / "t.csv", **KEYS, encoding="cp1252")
    assert "t.csv: read as cp1252 ('schÃ¶n', 'Käse', 'Ã¼ber'), but it is UTF-8, or nearly so" in caplog.text


# ---------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    "text",
    [
        'c;t;s;"a, b, c, d"\nq, p;t;1;x\nq, p;u;5;y\n',
        'c,t,s,"a; b; c; d; e; f"\nq;p,t,1,x\nq;p,u,5,y\n',
        "c;t;s;a, b, c, d, e\nq;t;1;x\nq;u;5;y\n",
        "c,t,s,note,note\nq,t,1,x,y\nq,u,5,x,y\n",
        f"c,t,s\n{'a b ' * 40_000},t,1\n{'a b ' * 40_000},u,5\n",
        f"c,t,s{''.join(f',x{i}' for i in range(3_000))}\nq,t,1{',' * 3_000}\nq,u,5{',' * 3_000}\n",
        "c\tt\ts\t# Documentation: ...\nq\tt\t1\nq\tu\t5\n",
        "c\tt\ts\t# errors\nq\tt\t1\t0\nq\tu\t5\t2\n",
        "c\tt\ts\t# errors\nq\tt\t1\t\nq\tu\t5\n",
    ],
    ids=[
        "commas in the header",
        "semicolons in the header",
        "no quotes",
        "unused twins",
        "long cells",
        "many columns",
        "a comment in the header",
        "a column that looks like one",
        "a row with a cell for it",
    ],
)
def test_tables_of_odd_shapes_are_read(text, tmp_path):
    write_files(tmp_path, {"t.csv": text})
    assert pick(read_tests(make(tmp_path / "t.csv", **KEYS)), "high", "low") == [("u", "t")]


def test_the_sheets_of_a_workbook_are_one_table_and_rows_are_named_with_their_sheet(tmp_path):
    more = {"c": "q2", "t": "b", "s": None, "note": "?"}
    blank = dict.fromkeys(more)
    notes = [{"about": "the scale"}]
    (tmp_path / "t.xlsx").write_bytes(
        excel(ROWS[:2], [{**more, "s": 1}, blank, {**more, "t": "a", "s": 4}, more], notes)
    )
    with pytest.raises(
        NNDError, match=r"t.xlsx, sheet 's2': no column 'c'; there are: about; .* --leave-out '@sheet=s2'"
    ):
        make(tmp_path / "t.xlsx", **KEYS)
    made = make(tmp_path / "t.xlsx", **KEYS, missing=[], category="@sheet", leave_out={"@sheet": "S2"})
    assert pick(read_tests(made), "category", "high") == [("s0", TEXTS[1]), ("s1", "a")]
    places = {"by_recipe: @sheet = 'S2'": ["t.xlsx, sheet 's2', row 2"], "no_judgement": ["t.xlsx, sheet 's1', row 5"]}
    examples = made.report["default"]["accounts"]["rows"]["examples"]
    assert {reason: examples[reason] for reason in places} == places


def test_a_file_of_other_columns_can_be_left_out(tmp_path):
    write_files(tmp_path, {"legend.csv": "about\nthe scale\n", "t.csv": "c,t,s\nq,a,1\nq,b,2\n"})
    with pytest.raises(NNDError, match=r"legend.csv: no column 'c'; there are: about"):
        make(tmp_path, **KEYS)
    made = make(tmp_path, **KEYS, leave_out={"@file": "legend"})
    assert len(read_tests(made)) == 1
    assert made.report["default"]["accounts"]["rows"]["examples"] == {
        "by_recipe: @file = 'legend'": ["legend.csv, row 2"]
    }


def test_of_a_folder_texts_are_tables_only_where_nothing_else_is_one(tmp_path):
    write_files(tmp_path, {"LICENSE.txt": "Do, what\nyou want", "t.csv": "c,t,s\nq,a,1\nq,b,2\n"})
    assert len(read_tests(make(tmp_path, **KEYS))) == 1
    (tmp_path / "t.csv").replace(tmp_path / "LICENSE.txt")
    assert len(read_tests(make(tmp_path, **KEYS))) == 1


def test_file_key_and_dotted_names_are_columns(tmp_path):
    text = """{"a": {"in": {"q": "Q"}, "texts": ["x", "bad"], "s": "{'v': [1]}"},
               "b": {"in": {"q": "Q"}, "texts": ["x", "good"], "s": "{'v': [2]}"}}"""
    path = write_files(tmp_path, {"part.one.json": text}) / "part.one.json"
    keys = {"context": "in.q", "candidate": "texts.1", "score": "s.v.0", "system": "@key", "category": "@file"}
    tests = read_tests(make(path, **keys, min_gap=1))
    assert pick(tests, "context", "high", "low", "low_system", "category") == [("Q", "good", "bad", "a", "part.one")]
    made = make_csv(tmp_path, "c,t,s.x", "q,a,1", "q,b,2", **{**KEYS, "score": "s.x"})
    assert pick(read_tests(made), "high") == [("b",)]


def test_several_files_are_one_table_or_a_config_each_and_their_rows_are_named_with_their_file(tmp_path):
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


UNREADABLE = [
    *ARGUMENTS["what_cannot_be_read_is_one_line_that_names_file_and_row"],
    ["t.csv.gz", gzip.compress(BAD_BYTE)[:-9].decode("latin-1"), "cannot be unpacked (", {}],
    ["t.csv.gz", gzip.compress(bytes(30_000_000)).decode("latin-1"), "it unpacks to 21 MB or more, ", {}],
]


@pytest.mark.parametrize(("file", "content", "message", "keys"), UNREADABLE, ids=[case[2] for case in UNREADABLE])
def test_what_cannot_be_read_is_one_line_that_names_file_and_row(file, content, message, keys, tmp_path):
    (tmp_path / file).write_bytes(content.encode("latin-1"))
    error = refusal(make, tmp_path / file, **KEYS | keys)
    assert error.startswith(f"{tmp_path / file}")
    assert message in error


# ---------------------------------------------------------------- cells that mean nothing


@pytest.mark.parametrize(("cells", "missing"), ARGUMENTS["only_named_texts_mean_that_nobody_judged"])
def test_only_named_texts_mean_that_nobody_judged(cells, missing, tmp_path):
    rows = [{"c": "q", "t": str(i), "s": cell} for i, cell in enumerate(json.loads(cells))]
    made = make_rows(tmp_path, rows, **KEYS, missing=missing)
    assert pick(read_tests(made), "high", "low") == [("4", "0")]
    assert made.report["default"]["accounts"]["rows"]["left_out"]["no_judgement"] == 3


@pytest.mark.parametrize(("cells", "value"), ARGUMENTS["a_recipe_leaves_rows_out_by_truth_values_and_by_words"])
def test_a_recipe_leaves_rows_out_by_truth_values_and_by_words(cells, value, tmp_path):
    """In a recipe ``no`` and ``off`` are the words of a table, not the truth values that YAML makes of them."""
    rows = [{"c": "Q", "x": "a", "y": str(cell), "valid": cell} for cell in json.loads(f"[{cells}]")]
    write_files(tmp_path, {"_recipe": f"leave_out: {{valid: {value}}}\n"})
    made = make_rows(tmp_path, rows, **PAIR, **read_recipe(tmp_path / "_recipe"))
    assert pick(read_tests(made), "low") == [(rows[0]["y"],)]
    assert not any("no row has" in note for note in made.notes)


def test_classes_of_datasets_in_parquet_are_their_names(tmp_path):
    classes = datasets.ClassLabel(names=["bad", "ok"])
    features = datasets.Features(
        n=datasets.Value("int64"),
        label=classes,
        several=[classes],
        inner={"label": classes, "n": datasets.Value("int64")},
    )
    rows = {
        "n": [0, 1],
        "label": [1, None],
        "several": [[1, 0], []],
        "inner": [{"label": 0, "n": 0}, {"label": -1, "n": 1}],
    }
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", Columns())
    assert [list(table[name]) for name in ("n", "label", "several")] == [[0, 1], ["ok", None], [["ok", "bad"], []]]
    assert list(table["inner"]) == [{"label": "bad", "n": 0}, {"label": None, "n": 1}]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_long_table_is_read_in_pieces_and_names_its_rows(ending, tmp_path, monkeypatch):
    rows = [{"a": f'{i}\r\n\n"x"', "b": "NA"} for i in range(9)] + [{"a": "\r", "b": "007"}, {"a": "", "b": "late"}]
    lines, wrong = [json.dumps(row) + "\n" for row in rows], "[1]\n"
    if ending == "csv":
        cells = [("a", "b"), *(row.values() for row in rows)]
        lines, wrong = ['"{}",{}\r\n'.format(a.replace('"', '""'), b) for a, b in cells], '"a"\n'
    path = tmp_path / f"t.{ending}"
    monkeypatch.setattr(read, "_PIECE", 8)
    monkeypatch.setattr(read, "_PIECE_ROWS", 2)
    path.write_bytes("".join(lines).encode())
    table = read_table(path)
    assert table[["a", "b"]].to_dict("records") == rows
    assert table["@row"].tolist()[-1] == (12 if ending == "csv" else "line 11")
    path.write_bytes("".join([*lines[:8], wrong, *lines[8:]]).encode())
    with pytest.raises(NNDError, match="row 9: 1 cell" if ending == "csv" else "line 9: expected an object"):
        read_table(path)


@pytest.mark.parametrize(("name", "text"), [("t.csv", "a\n1\n"), ("t.jsonl", '{"a": "1"}')])
def test_a_file_that_changes_after_its_head_was_read_is_read_anew(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    assert [record["a"] for record in read_records(path, None, 2)] == ["1"]
    path.write_text(text.replace("1", "22"))
    assert [*read_table(path)["a"]] == ["22"]
