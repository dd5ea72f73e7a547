"""One table in every format, what cannot be read, and what is proposed."""

from __future__ import annotations

import csv
import json
import random
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.new.draft import Draft, draft_set
from nnd_tasks.recipes.parse import Recipe, make_recipe, read_recipe
from tests.new.small_tables import draft, rows_of

ROWS: list[dict[str, Any]] = [
    {"prompt": 'Say, "it"\nnow', "output": "a\tb", "rating": 5, "model": "m1"},
    {"prompt": 'Say, "it"\nnow', "output": "c, d", "rating": 2, "model": "m2"},
    {"prompt": "\u00c9 \u2603", "output": "e", "rating": 1.5, "model": "m1"},
    {"prompt": "\u00c9 \u2603", "output": "f", "rating": 4, "model": "m2"},
]
EXPECTED = [('Say, "it"\nnow', "a\tb", "c, d", "m1", 5.0), ("\u00c9 \u2603", "f", "e", "m2", 4.0)]


def as_csv(path: Path, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(ROWS)
    return path


def as_dataset(path: Path) -> Path:
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(str(path))
    return path


def as_parquet(path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist([{**row, "rating": float(row["rating"])} for row in ROWS]), path)
    return path


def as_text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


FORMATS = {
    "csv": lambda folder: as_csv(folder / "t.csv"),
    "csv with a mark": lambda folder: as_csv(folder / "t.csv", encoding="utf-8-sig"),
    "csv of semicolons": lambda folder: as_csv(folder / "t.csv", ";"),
    "tsv": lambda folder: as_csv(folder / "t.tsv", "\t"),
    "jsonl": lambda folder: as_text(folder / "t.jsonl", "\n".join(json.dumps(row) for row in ROWS) + "\n\n"),
    "json": lambda folder: as_text(folder / "t.json", json.dumps(ROWS, indent=1)),
    "parquet": lambda folder: as_parquet(folder / "t.parquet"),
    "dataset": lambda folder: as_dataset(folder / "set"),
}


def made(source: Path) -> Draft:
    return draft_set("mine", str(source), {"min_gap": 1})


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_tests(kind: str, tmp_path: Path) -> None:
    found = made(FORMATS[kind](tmp_path))
    assert rows_of(found, "context", "high", "low", "high_system", "high_score") == EXPECTED
    assert (
        found.table.column("test_id").to_pylist()
        == made(as_csv(tmp_path / "again.csv")).table.column("test_id").to_pylist()
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "prompt,output,rating\na,b,1\nc,d\n", r"t\.csv, row 3: 2 columns, the header has 3"),
        ("t.csv", b"prompt,output,rating\na,\xc3\xa4,1\nc,\xff,2\n", r"t\.csv, line 3: not UTF-8 text .* --encoding"),
        ("t.csv", "prompt,output,output\n", "two columns are called 'output'"),
        ("t.csv", "prompt,output,rating\n", "it holds no row"),
        ("t.csv", "", "the file is empty"),
        ("t.csv", "prompt,output,rating\na,b,1\na,c,high\n", r"t\.csv, row 3, column 'rating': expected a number, found 'high'"),
        ("t.csv", "prompt,output,rating\na,b,1\na,c,inf\n", r"t\.csv, row 3, column 'rating': expected a number"),
        ("t.jsonl", '{"prompt": "a"}\n{"prompt": \n', r"t\.jsonl, line 2: is not valid JSON"),
        ("t.jsonl", '{"prompt": "a"}\n[1]\n', r"t\.jsonl, line 2: expected an object"),
        ("t.json", "[1, 2]", r"t\.json, item 1: expected an object"),
        ("t.jsonl", '{"prompt": {"a": 1}, "output": "x", "rating": 1}\n', r"column 'prompt': expected text, found an object"),
        ("t.jsonl", '{"prompt": "\\ud800", "output": "x", "rating": 1}\n', r"line 1, column 'prompt': .*surrogate"),
        ("t.parquet", "no parquet", r"t\.parquet: cannot be read as parquet"),
        ("t.xlsx", "x", r"t\.xlsx: cannot be read as Excel \(.*zip.*\); is it the right file"),
        ("t.doc", "x", "a table is a file .csv"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_refused_with_its_row(
    name: str, content: str | bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    options = {"context": "prompt", "candidate": "output", "score": "rating", "min_gap": 1}
    with pytest.raises(NNDError, match=message) as error:
        draft_set("mine", str(tmp_path / name), options)
    assert "\n" not in str(error.value)


def test_a_parquet_file_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"text": ["x", "y"], "label": ["good", "bad"]})
    pq.write_table(rows.append_column("label", rows.column("label")), tmp_path / "t.parquet")
    with pytest.raises(NNDError, match=r"t\.parquet: two columns are called 'label'; rename one"):
        made(tmp_path / "t.parquet")


def test_decimals_are_numbers(tmp_path: Path) -> None:
    ratings = pa.array([Decimal("5.00"), Decimal("2.00"), Decimal("1.50"), None], pa.decimal128(5, 2))
    rows = pa.Table.from_pylist([{k: v for k, v in row.items() if k != "rating"} for row in ROWS])
    pq.write_table(rows.append_column("rating", ratings), tmp_path / "t.parquet")
    assert rows_of(made(tmp_path / "t.parquet"), "high_score", "low_score") == [(5.0, 2.0)]


@pytest.mark.parametrize("extra", [",", ",,"])
def test_columns_without_a_name_at_the_end_of_a_header_are_no_columns(extra: str, tmp_path: Path) -> None:
    lines = ["prompt,output,rating", "P,a,1", "P,b,5"]
    found = made(as_text(tmp_path / "t.csv", "".join(line + extra + "\n" for line in lines)))
    assert rows_of(found, "context", "high", "low") == [("P", "b", "a")]


def test_a_file_that_is_not_there_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=r"none\.csv: no such file"):
        draft_set("mine", str(tmp_path / "none.csv"), {})
    with pytest.raises(NNDError, match="could not be loaded as a dataset"):
        draft_set("mine", str(tmp_path / "none"), {})


def test_a_missing_column_is_named_with_the_columns_there_are(tmp_path: Path) -> None:
    message = r"there is no column 'ouput'; did you mean 'output'\? there are: prompt, output, rating, model"
    with pytest.raises(NNDError, match=message):
        draft(tmp_path, ROWS, candidate="ouput", min_gap=1)


# ---------------------------------------------------------------- what is proposed


def test_columns_are_proposed_by_name_and_by_content(tmp_path: Path) -> None:
    rows = [
        {"id": i, "news": f"A long text about something, number {i % 3}, that comes again",
         "written": f"A text number {i} by a system", "fluent": 1 + i % 4, "true": 1 + i % 3}
        for i in range(12)
    ]  # fmt: skip
    found = draft(tmp_path, rows, min_gap=1)
    chosen = {(choice.role, choice.column) for choice in found.choices}
    assert chosen == {("context", "news"), ("candidate", "written"), ("attribute", "fluent"), ("attribute", "true")}


def test_a_label_column_is_found_by_the_labels_of_the_rule(tmp_path: Path) -> None:
    rows = [
        {"prompt": "P", "output": f"o{i}", "colour": ["red", "blue"][i % 2], "found": ["ok", "slip"][i // 3 % 2]}
        for i in range(6)
    ]
    assert draft(tmp_path, rows, better="ok").recipe.label == "found"


def test_what_is_named_is_not_proposed_anew(tmp_path: Path) -> None:
    rows = [{**row, "text": f"t{i}"} for i, row in enumerate(ROWS)]
    found = draft(tmp_path, rows, candidate="text", min_gap=1)
    assert found.recipe.candidate == "text"
    assert "candidate" not in {choice.role for choice in found.choices}


def test_nothing_to_judge_by_is_said_with_the_columns(tmp_path: Path) -> None:
    with pytest.raises(
        NNDError, match="name the column of judgements with --label, --score or --attribute; there are: p"
    ):
        draft(tmp_path, [{"prompt": "P", "output": "o"}], better="good")
    with pytest.raises(
        NNDError, match="--min-gap needs a column of numbers, and none of these holds any: prompt, output"
    ):
        draft(tmp_path, [{"prompt": "P", "output": "o"}], min_gap=1)


def test_scores_without_a_rule_are_shown_with_their_range(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=r"column 'rating' holds numbers from 1\.5 to 5, so --score rating --min-gap X"):
        draft(tmp_path, ROWS)


# ---------------------------------------------------------------- recipes


def test_a_recipe_comes_back_from_its_own_yaml(tmp_path: Path) -> None:
    from nnd_tasks.yaml_json import dump_yaml as recipe_yaml

    recipe = make_recipe(
        {
            "context": "p", "candidate": "o", "label": "l", "order": [["bad", "ugly"], "good"], "ignore": "odd: yes",
            "field": {"a": "b"}, "prompt": "{{context}}\n\nA: {{a}}\n", "citation": "@misc{a,\n  title = {b}\n}\n",
            "expected": {"x": 3},
        }
    )  # fmt: skip
    path = tmp_path / "_recipe"
    path.write_text(recipe_yaml(recipe.dump()), encoding="utf-8")
    assert make_recipe(read_recipe(path)) == recipe
    assert recipe != Recipe()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contxt: a\n", "no such key 'contxt'; did you mean 'context'"),
        ("- a\n", "a recipe is a mapping"),
        ("a: [\n", "is not YAML that can be read here"),
        ("min_gap: much\n", "min_gap is a number, not 'much'"),
        ("majority: 3\n", "majority is true or false"),
        ("better: {a: 1}\n", "better is a list of texts"),
        ("context: 3\n", "context is text, not 3"),
        ("better: yes\n", "better holds true, yes or on, .* put it in quotes"),
        ("order: [no, good]\n", "order holds false, no or off, .* put it in quotes"),
        ("language: no\n", "language holds false, no or off, .* put it in quotes"),
        ("context: on\n", "put it in quotes"),
        ("field: {yes: a}\n", "put it in quotes"),
        ("expected: {no: 3}\n", "put it in quotes"),
        ("field: a\n", "field is a mapping"),
        ("expected: {a: many}\n", "expected"),
    ],
)
def test_a_wrong_recipe_is_refused_by_its_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NNDError, match=message) as error:
        draft_set("mine", str(as_csv(tmp_path / "t.csv")), {}, path)
    assert "recipe.yaml" in str(error.value)


GERMAN = "Frage;Bewertung Fl\u00fcssigkeit\n" + "".join(f"Was ist {i}?;gut\n" for i in range(4))
RUSSIAN = "\u041e\u0446\u0435\u043d\u043a\u0430;\u0422\u0435\u043a\u0441\u0442\n1;2\n"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (GERMAN.encode("cp1252"), r"cp1252 \(Windows, Western Europe\)"),
        (GERMAN.encode("utf-16"), "UTF-16"),
        (GERMAN.encode("utf-16-le"), "UTF-16"),
        (GERMAN.encode("utf-16-be"), "UTF-16"),
        (RUSSIAN.encode("cp1251"), "cp1252"),
        (b"Frage,b\n" + b"x,y\n" * 300_000 + b"x,\xe4\n", "cp1252"),
    ],
)
def test_an_encoding_that_was_found_out_is_told_in_an_error_too(content: bytes, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    message = (
        rf"there is no column 'a'; .*there are: .*; t\.csv is not UTF-8; it is read as {encoding}.* with --encoding$"
    )
    with pytest.raises(NNDError, match=message):
        draft_set("mine", str(path), {"context": "a", "candidate": "b", "label": "b", "better": "good"})


def test_a_character_that_the_look_ahead_cuts_in_two_is_no_other_encoding(tmp_path: Path) -> None:
    head = "prompt,output,rating\np,a,1\np,"
    path = as_text(tmp_path / "t.csv", head + "b" * ((1 << 20) - 1 - len(head)) + "\u00e4,3\n")
    with pytest.raises(UnicodeDecodeError, match="unexpected end of data"):
        path.read_bytes()[: 1 << 20].decode()
    assert draft_set("mine", str(path), {"min_gap": 1}).table.num_rows == 1


@pytest.mark.parametrize("indent", [None, 1])
def test_one_object_around_the_rows_is_taken_off_or_explained(indent: int | None, tmp_path: Path) -> None:
    path = as_text(tmp_path / "t.json", json.dumps({"data": ROWS}, indent=indent))
    other = as_text(tmp_path / "u.json", json.dumps({"data": ROWS, "version": 3}, indent=indent))
    with pytest.raises(
        NNDError, match=r"A row of 'data' holds a list of objects; --rows 'data\[\]' makes a row of each"
    ):
        draft_set("mine", str(other), {})
    for source, rows in ((path, None), (path, "data[]"), (other, "data[]")):
        found = draft_set("mine", str(source), {"rows": rows, "min_gap": 1})
        assert rows_of(found, "context", "high", "low", "high_system", "high_score") == EXPECTED


def test_of_very_many_columns_an_error_names_some(tmp_path: Path) -> None:
    path = as_text(tmp_path / "t.csv", ",".join(f"c{i}" for i in range(3000)) + "\n" + ",".join("x" * 3000) + "\n")
    with pytest.raises(NNDError, match=r"there is no column 'nothing'; .*there are: c0, c1, .*c39 and 2,960 more$"):
        draft_set("mine", str(path), {"context": "nothing"})


def test_a_wide_table_is_read_as_fast_as_a_long_one(tmp_path: Path) -> None:
    """The header was looked through once per column: 50,000 columns took a minute."""
    names = [*ROWS[0], *(f"c{i}" for i in range(50_000))]
    rows = [",".join([*(f'"{row[name]}"' for name in ROWS[0]), *["1"] * 50_000]) for row in ROWS[2:]]
    path = as_text(tmp_path / "t.csv", "\n".join([",".join(names), *rows]) + "\n")
    start = time.process_time()
    assert draft_set("mine", str(path), {"score": "rating", "min_gap": 1}).table.num_rows == 1
    assert time.process_time() - start < 15


def test_a_column_that_varies_within_a_proposed_context_is_told(tmp_path: Path) -> None:
    """As in a well-known file on Topical-Chat, whose column `context` is a fact that several dialogues share."""
    rows = [
        {"source": f"Did you know that? Turn {turn} of a dialogue.", "context": f"The moon has {turn // 2} sides, it is said.",
         "system_output": f"Reply {turn} of {system}, which is a text.", "system_id": system, "rating": rating}
        for turn in range(6)
        for rating, system in enumerate("abcd")
    ]  # fmt: skip
    [note] = draft(tmp_path, rows, score="rating", min_gap=1).notes
    assert note.startswith("rows with the same 'context' differ in 'source'; if a model is given that text, too")
    assert "--context source, and keep this column as a prompt field with --field given=context" in note
    named = draft(tmp_path, rows, score="rating", min_gap=1, context="source", field={"given": "context"})
    assert (named.notes, named.table.num_rows) == ([], 36)
    assert draft(tmp_path, rows, score="rating", min_gap=1, context="context").notes == [], "who names it knows"


@pytest.mark.parametrize("file", ["hanna", "webnlg2020_en_human"])
def test_real_tables_with_one_context_get_no_such_note(file: str, data: Path) -> None:
    found = draft_set("mine", str(data / "extra" / f"{file}.jsonl"), {"min_gap": 1.0})
    assert not [note for note in found.notes if note.startswith("rows with the same")]


def test_damaged_parquet_is_one_clear_error(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{**row, "rating": float(row["rating"])} for row in ROWS])
    pq.write_table(table, tmp_path / "whole.parquet", compression="none", use_dictionary=False, write_statistics=False)
    whole = (tmp_path / "whole.parquet").read_bytes()
    path = tmp_path / "t.parquet"
    place = whole.index(b"a\tb")
    path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])  # a text
    with pytest.raises(
        NNDError, match=r"t\.parquet, row 1: column 'output' is damaged \(.*\); download the file again"
    ):
        draft_set("mine", str(path), {"min_gap": 1})
    path.write_bytes(whole.replace(b"rating", b"\xffating"))  # a name
    with pytest.raises(NNDError, match=r"t\.parquet: cannot be read as parquet"):
        draft_set("mine", str(path), {"min_gap": 1})
    pq.write_table(table.rename_columns(["prompt", "output", "output", "model"]), path)
    with pytest.raises(NNDError, match=r"t\.parquet: two columns are called 'output'; rename one"):
        draft_set("mine", str(path), {"min_gap": 1})
    for seed in range(40):
        chance = random.Random(seed)
        damaged = bytearray(whole)
        for _ in range(5):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        with suppress(NNDError):
            draft_set("mine", str(path), {"context": "prompt", "candidate": "output", "score": "rating", "min_gap": 1})
