"""Every kind of file and every option of a recipe, tried as a user does: the command `nnd new`, then the tests that it made."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.winners import winner
from tests.commands import Outcome

Rows = Sequence[Mapping[str, Any]]
#: Two contexts; by a gap of 1 the tests are (P, a, b), (P, a, c) and (Grüße, d, e).
ROWS: Rows = [
    {"prompt": "P", "text": "a", "points": 5},
    {"prompt": "P", "text": "b", "points": 2},
    {"prompt": "P", "text": "c", "points": 1.5},
    {"prompt": "Grüße", "text": "d", "points": 4},
    {"prompt": "Grüße", "text": "e", "points": 2.5},
]
SCORED = ["--context", "prompt", "--candidate", "text", "--score", "points", "--min-gap", "1"]
EXPECTED = [("P", "a", "b"), ("P", "a", "c"), ("Grüße", "d", "e")]


class Maker:
    """Makes a set with `nnd new` and reads its tests."""

    def __init__(self, nnd: Callable[..., Outcome], home: Path, folder: Path) -> None:
        self.nnd, self.home, self.folder = nnd, home, folder
        self.done = Outcome(0, "", "")

    def make(
        self, source: Path | str, *options: str | Path, recipe: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return the tests, row by row; the command must end well."""
        if recipe is not None:
            path = self.folder / "given_recipe.yaml"
            path.write_text(yaml.safe_dump(dict(recipe), allow_unicode=True), encoding="utf-8")
            options = (*options, "--recipe", path)
        self.done = self.nnd("new", "mine", "--from", source, *options, "--replace")
        assert self.done.status == 0, self.done.err
        return self.tests()

    def tests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read_table(self.home / "nnd" / "mine").to_pylist()
        return found

    def refuse(self, source: Path | str, *options: str) -> str:
        """Return the one line that says what is wrong."""
        self.done = self.nnd("new", "mine", "--from", source, *options)
        assert self.done.status == 1
        assert self.done.err.startswith("nnd: error: ")
        assert self.done.err.count("\n") == 1, self.done.err
        assert not (self.home / "nnd").exists()
        return self.done.err


@pytest.fixture
def maker(nnd: Callable[..., Outcome], nnd_home: Path, tmp_path: Path) -> Maker:
    return Maker(nnd, nnd_home, tmp_path)


def triples(tests: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["context"], row["high"], row["low"]) for row in tests]


def as_csv(rows: Rows, delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def put(path: Path, text: str | bytes, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def as_json(path: Path, value: Any) -> Path:
    return put(path, json.dumps(value, ensure_ascii=False, indent=1))


def as_lines(path: Path, rows: Rows) -> Path:
    return put(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def as_excel(path: Path, rows: Rows) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(list(rows[0]))
    for row in rows:
        sheet.append(list(row.values()))
    book.save(path)
    return path


def as_parquet(path: Path, rows: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist([{**row, "points": float(row["points"])} for row in rows]), path)
    return path


def as_dataset(path: Path, rows: Rows) -> Path:
    import datasets

    datasets.Dataset.from_list([{**row, "points": float(row["points"])} for row in rows]).save_to_disk(str(path))
    return path


def as_splits(path: Path, rows: Rows) -> str:
    import datasets

    made = datasets.Dataset.from_list([{**row, "points": float(row["points"])} for row in rows])
    datasets.DatasetDict({"train": made.select([0]), "judged": made}).save_to_disk(str(path))
    return f"{path}:judged"


def as_zip(path: Path, members: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as bundle:
        for name, text in members.items():
            bundle.writestr(name, text)
    return path


def as_tar(path: Path, members: Mapping[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as bundle:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            bundle.addfile(info, io.BytesIO(text.encode()))
    return path


# ---------------------------------------------------------------- kinds of files

KINDS: dict[str, Callable[[Path], Path | str]] = {
    "csv": lambda f: put(f / "t.csv", as_csv(ROWS)),
    "csv of semicolons": lambda f: put(f / "t.csv", as_csv(ROWS, ";")),
    "csv with Windows line ends": lambda f: put(f / "t.csv", as_csv(ROWS).replace("\n", "\r\n")),
    "tsv": lambda f: put(f / "t.tsv", as_csv(ROWS, "\t")),
    "json lines": lambda f: as_lines(f / "t.jsonl", ROWS),
    "json list": lambda f: as_json(f / "t.json", ROWS),
    "json by id": lambda f: as_json(f / "t.json", {f"id{i}": row for i, row in enumerate(ROWS)}),
    "json by id in a line": lambda f: put(f / "t.json", json.dumps({f"id{i}": row for i, row in enumerate(ROWS)})),
    "parquet": lambda f: as_parquet(f / "t.parquet", ROWS),
    "excel": lambda f: as_excel(f / "t.xlsx", ROWS),
    "saved dataset": lambda f: as_dataset(f / "saved", ROWS),
    "split of a saved dataset": lambda f: as_splits(f / "saved", ROWS),
    "zip of one table": lambda f: as_zip(f / "t.zip", {"in/t.csv": as_csv(ROWS), "readme.txt": "x"}),
    "member of a zip": lambda f: f"{as_zip(f / 't.zip', {'t.csv': as_csv(ROWS), 'b.csv': 'x,y'})}:t.csv",
    "member of a tar": lambda f: f"{as_tar(f / 't.tar.gz', {'in/t.csv': as_csv(ROWS), 'b.csv': 'x'})}:in/*.csv",
    "utf-8 with a mark": lambda f: put(f / "t.csv", as_csv(ROWS), "utf-8-sig"),
    "json with a mark": lambda f: put(f / "t.json", json.dumps(ROWS, ensure_ascii=False), "utf-8-sig"),
    "utf-16": lambda f: put(f / "t.csv", as_csv(ROWS), "utf-16"),
    "utf-16 without a mark": lambda f: put(f / "t.csv", as_csv(ROWS), "utf-16-le"),
    "zip of a Mac": lambda f: as_zip(f / "t.zip", {"t.csv": as_csv(ROWS), "__MACOSX/._t.csv": "junk"}),
    "utf-16 tsv": lambda f: put(f / "t.tsv", as_csv(ROWS, "\t"), "utf-16"),
    "utf-16 json lines": lambda f: put(f / "t.jsonl", as_lines(f / "u.jsonl", ROWS).read_text("utf-8"), "utf-16"),
    "cp1252": lambda f: put(f / "t.csv", as_csv(ROWS), "cp1252"),
    "cp1252 json": lambda f: put(f / "t.json", json.dumps(ROWS, ensure_ascii=False), "cp1252"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_tests(kind: str, maker: Maker, tmp_path: Path) -> None:
    assert triples(maker.make(KINDS[kind](tmp_path), *SCORED)) == EXPECTED
    said = [line for line in maker.done.err.splitlines() if "is not UTF-8" in line]
    if kind.startswith(("utf-16", "cp1252")):
        [note] = said
        name = "UTF-16" if "utf-16" in kind else "cp1252"
        assert f"is not UTF-8; it is read as {name}" in note
        assert "name the encoding with --encoding" in note
    else:
        assert said == []


@pytest.mark.parametrize("kind", ["csv", "json by id", "excel", "zip of one table"])
def test_what_new_made_is_built_again_by_build(kind: str, maker: Maker, tmp_path: Path) -> None:
    source = KINDS[kind](tmp_path)
    made = maker.make(source, *SCORED)
    done = maker.nnd("build", "mine", "--source", source)
    assert done.status == 0, done.err
    assert maker.tests() == made
    recipe = maker.home / "task_yamls" / "mine" / "_recipe"
    done = maker.nnd("build", recipe, "--source", source, "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert read_table(tmp_path / "out").to_pylist() == made


def test_an_encoding_that_is_found_wrong_is_named(maker: Maker, tmp_path: Path) -> None:
    rows = [{"prompt": "Оценка", "text": text, "points": points} for text, points in (("да", 5), ("нет", 1))]
    path = put(tmp_path / "t.csv", as_csv(rows), "cp1251")
    assert triples(maker.make(path, *SCORED)) != [("Оценка", "да", "нет")]
    assert "If letters look wrong, name the encoding with --encoding" in maker.done.err
    assert triples(maker.make(path, *SCORED, "--encoding", "cp1251")) == [("Оценка", "да", "нет")]
    assert maker.done.err == ""
    recipe = yaml.safe_load((maker.home / "task_yamls" / "mine" / "_recipe").read_text("utf-8"))
    assert recipe["encoding"] == "cp1251"


def test_a_wrong_encoding_and_a_damaged_file_are_one_line(maker: Maker, tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", as_csv(ROWS), "cp1252")
    assert "t.csv, line 5: not UTF-8 text" in maker.refuse(path, *SCORED, "--encoding", "utf-8")
    for name in ("klingon", "rot13"):
        assert f"--encoding '{name}': no such encoding; name one such as" in maker.refuse(
            path, *SCORED, "--encoding", name
        )
    for name in ("utf-16", "utf-32"):
        assert f"t.csv: not {name.upper()} text; is it the right file?" in maker.refuse(
            path, *SCORED, "--encoding", name
        )
    cut = put(tmp_path / "c.csv", as_csv(ROWS).encode("utf-16")[:-1])
    assert "c.csv, line 6: not UTF-16 text" in maker.refuse(cut, *SCORED)
    damaged = put(tmp_path / "d.csv", as_csv(ROWS).encode() + b"\xff,e,3\n")
    assert "d.csv, line 7: not UTF-8 text" in maker.refuse(damaged, *SCORED)


def test_excel_rows_are_counted_as_excel_does(maker: Maker, tmp_path: Path) -> None:
    rows = [{**row, "points": points} for row, points in zip(ROWS, [5, None, "n/a", "gut", 1], strict=True)]
    message = maker.refuse(as_excel(tmp_path / "t.xlsx", rows), *SCORED)
    assert "t.xlsx, row 5, column 'points': expected a number, found 'gut'" in message
    words = [{"prompt": "P", "text": text, "verdict": label} for text, label in (("None", "good"), ("NA", "bad"))]
    options = ["--context", "prompt", "--candidate", "text", "--label", "verdict", "--better", "good"]
    assert triples(maker.make(as_excel(tmp_path / "u.xlsx", words), *options)) == [("P", "None", "NA")], (
        "texts, no gaps"
    )


def test_excel_without_openpyxl_says_what_to_install(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_excel(tmp_path / "t.xlsx", ROWS)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    assert "pip install 'nnd-tasks[excel]'" in maker.refuse(path, *SCORED)


def test_the_header_says_what_stands_between_columns(maker: Maker, tmp_path: Path) -> None:
    rows = [{"prompt, in full": row["prompt"], "text": row["text"], "points": row["points"]} for row in ROWS]
    options = ["--context", "prompt, in full", *SCORED[2:]]
    for delimiter in (";", ","):  # with commas the name is in quotes
        assert triples(maker.make(put(tmp_path / "t.csv", as_csv(rows, delimiter)), *options)) == EXPECTED


def test_the_id_of_an_entry_is_a_column(maker: Maker, tmp_path: Path) -> None:
    rows = {f"Question {i}?": {"answers": [{"text": "a", "points": 2}, {"text": "b", "points": i}]} for i in range(3)}
    options = ["--rows", "answers[]", "--context", "@key", "--min-gap", "1"]
    assert triples(maker.make(as_json(tmp_path / "t.json", rows), *options)) == [
        ("Question 0?", "a", "b"),
        ("Question 1?", "a", "b"),
    ]


def test_lists_of_rows_may_be_keyed(maker: Maker, tmp_path: Path) -> None:
    rows = {
        name: [{"prompt": p, "text": f"{p} {name}", "points": i} for p in "PQ"] for i, name in enumerate(("one", "two"))
    }
    path = as_json(tmp_path / "t.json", rows)
    for options in ([], ["--system", "@key"]):
        assert triples(maker.make(path, *SCORED, *options)) == [("P", "P two", "P one"), ("Q", "Q two", "Q one")]
    assert {row["high_system"] for row in maker.tests()} == {"two"}
    rows["two"][1]["points"] = "good"  # type: ignore[assignment]
    message = maker.nnd("new", "other", "--from", as_json(tmp_path / "u.json", rows), *SCORED).err
    assert "u.json, entry 'two', item 2, column 'points': expected a number, found 'good'" in message


def test_a_folder_with_a_readme_is_one_of_tables_and_one_with_splits_a_dataset(maker: Maker, tmp_path: Path) -> None:
    put(tmp_path / "in" / "README.md", "# Ratings\n")
    put(tmp_path / "in" / "t.csv", as_csv(ROWS))
    found = maker.make(tmp_path / "in", *SCORED, "--system", "@file")
    assert (triples(found), found[0]["high_system"]) == (EXPECTED, "t")
    (tmp_path / "hub").mkdir()
    put(tmp_path / "hub" / "README.md", "---\nconfigs:\n- config_name: x\n  data_files: t.parquet\n---\n")
    as_parquet(tmp_path / "hub" / "t.parquet", ROWS)
    assert triples(maker.make(tmp_path / "hub", *SCORED)) == EXPECTED


# ---------------------------------------------------------------- several files


def test_several_files_are_one_table_with_file_and_folder_as_columns(maker: Maker, tmp_path: Path) -> None:
    for number, (folder, name) in enumerate([("de", "sys_a"), ("de", "sys_b"), ("fr", "sys_a"), ("fr", "sys_b")]):
        as_lines(
            tmp_path / "all" / folder / f"{name}.jsonl",
            [{"prompt": f"P {folder}", "text": f"t{number}", "points": number}],
        )
    options = [*SCORED, "--system", "@file", "--category", "@folder"]
    expected = [("P de", "t1", "t0", "sys_b", "de"), ("P fr", "t3", "t2", "sys_b", "fr")]

    def found(source: Path | str) -> list[tuple[str, ...]]:
        return [(*triples([row])[0], row["high_system"], row["category"]) for row in maker.make(source, *options)]

    assert found(tmp_path / "all") == expected
    assert "note: 4 files are read, one after another: 'de/sys_a.jsonl', 'de/sys_b.jsonl', " in maker.done.err
    assert found(f"{tmp_path}/all/**/*.jsonl") == expected
    recipe = maker.home / "task_yamls" / "mine" / "_recipe"
    assert list(yaml.safe_load(recipe.read_text("utf-8"))["sources"]) == [
        "de/sys_a.jsonl", "de/sys_b.jsonl", "fr/sys_a.jsonl", "fr/sys_b.jsonl"
    ]  # fmt: skip
    made = maker.tests()
    assert maker.nnd("build", "mine", "--source", tmp_path / "all").status == 0
    assert maker.tests() == made
    sent = as_json(tmp_path / "sent" / "_recipe", {**yaml.safe_load(recipe.read_text("utf-8")), "sources": None})
    assert maker.nnd("build", sent, "--source", tmp_path / "all").status == 0
    assert read_table(maker.home / "nnd" / "sent").to_pylist() == made
    members = {
        path.relative_to(tmp_path / "all").as_posix(): path.read_text("utf-8")
        for path in (tmp_path / "all").rglob("*.jsonl")
    }
    for archive in (as_zip(tmp_path / "all.zip", members), as_tar(tmp_path / "all.tgz", members)):
        assert found(archive) == expected
        assert maker.nnd("build", "mine", "--source", archive).status == 0
        assert maker.tests() == made


def test_a_config_of_each_file_is_built_by_build(maker: Maker, tmp_path: Path) -> None:
    for name in ("one", "two"):
        put(tmp_path / "in" / f"{name}.csv", as_csv(ROWS))
    recipe = {
        "context": "prompt",
        "candidate": "text",
        "score": "points",
        "min_gap": 1,
        "config": "@file",
        "pattern": "*.csv",
    }
    path = as_json(tmp_path / "both" / "_recipe", recipe)
    done = maker.nnd("build", path, "--source", tmp_path / "in")
    assert (done.status, done.out.count("3 tests")) == (0, 2), done.err
    assert "one: 3 tests" in done.out
    message = maker.nnd("new", "mine", "--from", tmp_path / "in", "--recipe", path).err
    assert "config: @file makes one of each file; build it with `nnd build" in message


def test_one_of_several_files_that_lacks_a_column_is_named(maker: Maker, tmp_path: Path) -> None:
    as_lines(tmp_path / "in" / "a.jsonl", ROWS)
    as_lines(tmp_path / "in" / "b.jsonl", [{"prompt": "P", "txt": "x", "points": 1}])
    message = maker.refuse(tmp_path / "in", *SCORED)
    assert (
        f"{tmp_path / 'in' / 'b.jsonl'}: there is no column 'text'; did you mean 'txt'? there are: prompt, txt, points"
        in message
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nothing.zip", "nothing.zip: no such file"),
        ("t.zip:c.csv", "no file 'c.csv' is there; there are: 'a.csv', 'b.csv'"),
        ("empty", "empty: 0 tables are there"),
        ("in/*.tsv", "no file '*.tsv' is there"),
        ("broken.zip", "broken.zip: cannot be unpacked; is it a zip or tar?"),
        ("t.zip:a.csv", "t.zip/a.csv: there is no column 'prompt'; there are: x, y"),
        ("t.doc", "a table is a file .csv"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(source: str, message: str, maker: Maker, tmp_path: Path) -> None:
    as_zip(tmp_path / "t.zip", {"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n1,2\n"})
    (tmp_path / "empty").mkdir()
    put(tmp_path / "in" / "a.csv", "x,y\n1,2\n")
    put(tmp_path / "broken.zip", "PK no zip")
    put(tmp_path / "t.doc", "x")
    assert message in maker.refuse(f"{tmp_path}/{source}", *SCORED)


# ---------------------------------------------------------------- numbers, names, lists


def test_decimal_commas(maker: Maker, tmp_path: Path) -> None:
    rows = [{**row, "points": str(row["points"]).replace(".", ",")} for row in ROWS]
    path = put(tmp_path / "t.csv", as_csv(rows, ";"))
    message = "column 'points': expected a number, found '1,5'; for decimal commas add --decimal ,"
    assert message in maker.refuse(path, *SCORED)
    assert triples(maker.make(path, *SCORED, "--decimal", ",")) == EXPECTED
    assert [row["high_score"] - row["low_score"] for row in maker.tests()] == [3.0, 3.5, 1.5]
    assert triples(maker.make(path, "--context", "prompt", "--decimal", ",", "--min-gap", "1")) == EXPECTED, "proposed"
    thousand = put(tmp_path / "u.csv", "prompt;text;points\nP;a;1.000\nP;b;3,5\n")
    message = "row 2, column 'points': expected a number, found '1.000'; with --decimal , a number has no point"
    assert message in maker.nnd("new", "other", "--from", thousand, *SCORED, "--decimal", ",").err
    assert "decimal is '.' or ',', not ';'" in maker.nnd("new", "other", "--from", path, *SCORED, "--decimal", ";").err


NESTED: Rows = [
    {"source": {"text": f"Q{i}", "lang": "de"}, "out": {"text": f"a{i}{k}", "by": f"m{k}"}, "votes": [k, k + 2],
     "scores": {"fluency": 1 + 2 * k, "style": {"tone": 3 - k}}, "label": {"kind": ["bad", "good"][k], "who": "r"}}
    for i in range(2) for k in range(2)
]  # fmt: skip


def test_nested_names_stand_wherever_a_column_does(maker: Maker, tmp_path: Path) -> None:
    path = as_lines(tmp_path / "t.jsonl", NESTED)
    base = ["--context", "source.text", "--candidate", "out.text", "--system", "out.by", "--field", "lang=source.lang"]
    found = maker.make(path, *base, "--score", "scores.fluency", "--min-gap", "1")
    assert [(*triples([row])[0], row["lang"], row["high_system"]) for row in found] == [
        ("Q0", "a01", "a00", "de", "m1"),
        ("Q1", "a11", "a10", "de", "m1"),
    ]
    found = maker.make(
        path, *base, "--attribute", "Fluency=scores.fluency", "--attribute", "Tone=scores.style.tone", "--min-gap", "1"
    )
    assert Counter((row["category"], row["high"]) for row in found) == {
        ("Fluency", "a01"): 1, ("Fluency", "a11"): 1, ("Tone", "a00"): 1, ("Tone", "a10"): 1
    }  # fmt: skip
    assert len(maker.make(path, *base, "--label", "label.kind", "--rater", "label.who", "--better", "good")) == 2
    assert len(maker.make(path, *base, "--score", "votes[1]", "--min-gap", "1", "--category", "source.lang")) == 2
    message = maker.nnd("new", "other", "--from", path, *base, "--score", "scores.flow", "--min-gap", "1").err
    assert "there is no column 'scores.flow'" in message
    message = maker.nnd("new", "other", "--from", path, *base, "--score", "source.text.x", "--min-gap", "1").err
    assert "line 1, 'source.text.x': before .x stands text, not an object" in message


def test_a_column_with_a_dot_in_its_name_is_itself(maker: Maker, tmp_path: Path) -> None:
    rows = [{"prompt": row["prompt"], "text": row["text"], "scores.points": row["points"]} for row in ROWS]
    options = ["--context", "prompt", "--candidate", "text", "--score", "scores.points", "--min-gap", "1"]
    for path in (put(tmp_path / "t.csv", as_csv(rows)), as_lines(tmp_path / "t.jsonl", rows)):
        assert triples(maker.make(path, *options)) == EXPECTED


def test_a_list_is_taken_apart_into_rows(maker: Maker, tmp_path: Path) -> None:
    rows = [
        {
            "prompt": prompt,
            "answers": [{"text": row["text"], "points": row["points"]} for row in ROWS if row["prompt"] == prompt],
        }
        for prompt in ("P", "Grüße")
    ]
    path = as_json(tmp_path / "t.json", rows)
    named = [
        "--rows",
        "answers[]",
        "--context",
        "prompt",
        "--candidate",
        "answers[].text",
        "--score",
        "answers[].points",
    ]
    assert triples(maker.make(path, *named, "--min-gap", "1")) == EXPECTED
    assert triples(maker.make(path, "--rows", "answers[]", "--min-gap", "1")) == EXPECTED, "proposed"
    assert "candidate: column 'answers[].text' (proposed: name)" in maker.done.out
    other = as_json(tmp_path / "u.json", {"rows": ROWS})
    assert triples(maker.make(other, "--rows", "rows[]", "--min-gap", "1")) == EXPECTED
    for wrong, message in (
        ("answers", "rows is a list with [] behind its name, such as answers[], not 'answers'"),
        ("prompt[]", "item 1, 'prompt': expected a list, found text"),
    ):
        assert message in maker.nnd("new", "other", "--from", path, *named, "--min-gap", "1", "--rows", wrong).err


def test_lists_in_lists_are_taken_apart(maker: Maker, tmp_path: Path) -> None:
    rows = [
        {
            "documents": [
                {"prompt": "P", "answers": [{"t": "a", "s": 2}, {"t": "b", "s": 1}]},
                {"prompt": "Q", "answers": []},
            ]
        }
    ]
    recipe = {
        "rows": "documents[].answers[]", "context": "documents[].prompt", "candidate": "documents[].answers[].t",
        "score": "documents[].answers[].s", "min_gap": 1,
    }  # fmt: skip
    assert triples(maker.make(as_json(tmp_path / "t.json", rows), recipe=recipe)) == [("P", "a", "b")]


def test_a_list_is_joined_into_a_text(maker: Maker, tmp_path: Path) -> None:
    rows = [
        {
            "facts": [["Rome", "in", "Italy"], ["Rome", "is", "old"]],
            "steps": [{"say": "one"}, {"say": text}],
            "points": points,
        }
        for text, points in (("two", 3), ("five", 1))
    ]
    options = ["--context", "facts", "--candidate", "steps[].say", "--score", "points", "--min-gap", "1"]
    assert triples(maker.make(as_lines(tmp_path / "t.jsonl", rows), *options)) == [
        ("Rome | in | Italy\nRome | is | old", "one\ntwo", "one\nfive")
    ]


def test_a_list_of_scores_is_one_per_rater(maker: Maker, tmp_path: Path) -> None:
    rows = [
        {"prompt": "P", "text": text, "points": marks}
        for text, marks in (("a", [5, 5, 1]), ("b", [1, 5, None]), ("c", [5, 2, 2]))
    ]
    path = as_lines(tmp_path / "t.jsonl", rows)
    assert triples(maker.make(path, *SCORED[:6], "--majority")) == [("P", "a", "b"), ("P", "a", "c")]


# ---------------------------------------------------------------- labels


LABELLED: Rows = [
    {"prompt": "P", "text": "one <v>two</v>", "verdict": "ok", "lang": "de"},
    {"prompt": "P", "text": "three", "verdict": "typo", "lang": "de"},
    {"prompt": "P", "text": "four", "verdict": "wrong fact", "lang": "de"},
    {"prompt": "P", "text": "five", "verdict": "unclear", "lang": "de"},
    {"prompt": "P", "text": "six", "verdict": "k.A.", "lang": "de"},
    {"prompt": "P", "text": "seven", "verdict": "", "lang": "de"},
]
COLUMNS = {"context": "prompt", "candidate": "text", "label": "verdict", "better": ["ok"], "missing": ["", "k.A."]}


def test_labels_become_categories_by_a_table_and_marks_are_taken_out(maker: Maker, tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", as_csv(LABELLED))
    recipe = {
        **COLUMNS, "categories": {"typo": "Form", "wrong fact": "Content", "unclear": None},
        "strip": {"candidate": ["<v>", "</v>"]}, "constant": {"target": "English"}, "field": {"into": "target", "from_": "lang"},
    }  # fmt: skip
    found = maker.make(path, recipe=recipe)
    assert [
        (row["high"], row["low"], row["category"], row["subcategory"], row["into"], row["from_"]) for row in found
    ] == [
        ("one two", "three", "Form", "typo", "English", "de"),
        ("one two", "four", "Content", "wrong fact", "English", "de"),
    ]
    assert "2  rows without a judgement (rows 6, 7)" in maker.done.out
    assert "1  judgement whose label or category is left out by the recipe" in maker.done.out
    recipe["categories"] = {"typo": "Form", "unclear": None}
    given = as_json(tmp_path / "wrong.yaml", recipe)
    message = maker.nnd("new", "other", "--from", path, "--recipe", given).err
    assert (
        "t.csv, row 4, column 'verdict': unknown error label 'wrong fact' (known: 'ok', 'typo', 'unclear')" in message
    )


def test_separated_labels_name_their_category_first(maker: Maker, tmp_path: Path) -> None:
    rows = [
        {"prompt": "P", "text": text, "verdict": label}
        for text, label in (("a", "ok"), ("b", "Accuracy/Omission"), ("c", "Style/Odd"))
    ]
    found = maker.make(put(tmp_path / "t.tsv", as_csv(rows, "\t")), recipe={**COLUMNS, "separator": "/"})
    assert [(row["category"], row["subcategory"]) for row in found] == [
        ("Accuracy", "Accuracy/Omission"),
        ("Style", "Style/Odd"),
    ]


@pytest.mark.parametrize(
    ("column", "rule", "values", "expected"),
    [
        ("label", ["--better", "good"], ["good", "bad", "k.A.", "-9"], [("a", "b")]),
        ("label", ["--order", "bad,good"], ["good", "bad", "k.A.", "-9"], [("a", "b")]),
        ("score", ["--min-gap", "1"], ["3", "1", "k.A.", "-9"], [("a", "b")]),
        ("score", ["--majority"], ["3", "1", "k.A.", "-9"], [("a", "b")]),
        ("attribute", ["--min-gap", "1"], ["3", "1", "k.A.", "-9"], [("a", "b")]),
    ],
)
def test_missing_holds_for_every_rule(
    column: str, rule: list[str], values: list[str], expected: list[tuple[str, str]], maker: Maker, tmp_path: Path
) -> None:
    rows = [{"prompt": "P", "text": text, "judged": value} for text, value in zip("abcd", values, strict=True)]
    path = put(tmp_path / "t.csv", as_csv(rows))
    options = ["--context", "prompt", "--candidate", "text", f"--{column}", "judged", *rule, "--missing", ",k.A.,-9"]
    assert [(row["high"], row["low"]) for row in maker.make(path, *options)] == expected
    assert "2  rows without a judgement (rows 4, 5)" in maker.done.out


def test_a_number_that_is_none_is_refused_with_its_row(maker: Maker, tmp_path: Path) -> None:
    rows = [{**row, "points": "k.A." if row["text"] == "b" else row["points"]} for row in ROWS]
    message = maker.refuse(put(tmp_path / "t.csv", as_csv(rows)), *SCORED)
    assert (
        "t.csv, row 3, column 'points': expected a number, found 'k.A.'; if this says that nobody judged, name it with --missing"
        in message
    )


def test_an_attribute_has_a_name_of_its_own(maker: Maker, tmp_path: Path) -> None:
    rows = [
        {"prompt": "P", "text": text, "Bewertung Flüssigkeit": one, "正确": other}
        for text, one, other in (("a", "4,5", "1,0"), ("b", "2,5", "3,0"))
    ]
    path = put(tmp_path / "t.csv", as_csv(rows, ";"))
    options = ["--context", "prompt", "--candidate", "text", "--min-gap", "1", "--decimal", ","]
    found = maker.make(path, *options, "--attribute", "fluency=Bewertung Flüssigkeit", "--attribute", "correct=正确")
    assert [(row["high"], row["category"]) for row in found] == [("a", "fluency"), ("b", "correct")]
    assert "attribute fluency: column 'Bewertung Flüssigkeit'" in maker.done.out
    fields = yaml.safe_load((maker.home / "task_yamls/mine/nnd_mine.yaml").read_text("utf-8"))
    assert fields["metadata"]["categories"] == ["correct", "fluency"]
    recipe = yaml.safe_load((maker.home / "task_yamls/mine/_recipe").read_text("utf-8"))
    assert recipe["attribute"] == {"fluency": "Bewertung Flüssigkeit", "correct": "正确"}
    message = maker.nnd("new", "other", "--from", path, *options, "--attribute", "fluency=Bewertung").err
    assert "there is no column 'Bewertung'" in message
    assert "--attribute =x: write NAME=COLUMN" in maker.nnd("new", "other", "--from", path, "--attribute", "=x").err


def test_attributes_may_hold_labels(maker: Maker, tmp_path: Path) -> None:
    rows = [
        {"prompt": "P", "text": text, "Q1": one, "Q2": other}
        for text, one, other in (("a", "yes", "no"), ("b", "no", "yes"), ("c", "no", "no"))
    ]
    options = [
        "--context",
        "prompt",
        "--candidate",
        "text",
        "--attribute",
        "fluent=Q1",
        "--attribute",
        "true=Q2",
        "--better",
        "yes",
    ]
    found = maker.make(put(tmp_path / "t.csv", as_csv(rows)), *options)
    assert Counter((row["high"], row["low"]) for row in found) == {
        ("a", "b"): 1,
        ("a", "c"): 1,
        ("b", "a"): 1,
        ("b", "c"): 1,
    }


# ---------------------------------------------------------------- winner column


@pytest.mark.parametrize(
    ("pair", "values"),
    [
        (("answer_1", "answer_2"), "answer_1 | 1 | a | A | Answer 1 | ANSWER_1 | answer_1 is better | Answer-1 wins | A > B | "
         "model_a | Model A | [[A]] | 1.0 | The first one is answer_1. | A is the better one | 1>2 | A>>B | B<A"),
        (("text_left", "text_right"), "left | text_left | the left one | 1 | A | Left | a"),
        (("conversation_a", "conversation_b"), "model_a | a | A | assistant_a | conversation_a | 1"),
        (("out.gpt", "out.claude"), "gpt | GPT | out.gpt | gpt is better | 1 | A"),
        (("one[0].text", "two[0].text"), "1 | A | one[0].text"),
    ],
)  # fmt: skip
def test_every_way_to_name_the_first_of_a_pair(pair: tuple[str, str], values: str) -> None:
    for value in values.split(" | "):
        assert winner(value, Recipe(pair=pair, winner="w"), "here") == 0, value


@pytest.mark.parametrize(
    "value",
    ["tie", "Tie", "both", "Both", "tie (bothbad)", "A = B", "equal", "both are good", "answer_1 and answer_2", "neither", "draw",
     "A and B are equally good", "A-B", "1=2", "no_preference", "same"],
)  # fmt: skip
def test_ties_of_all_kinds(value: str) -> None:
    assert winner(value, Recipe(pair=("answer_1", "answer_2"), winner="w"), "here") == "tie"


@pytest.mark.parametrize(
    "value",
    ["B is worse", "A is not good", "not A", "A loses", "k.A.", "10", "20", "A: 3, B: 5", "B, not A", "I prefer B over A",
     "A better choice is the second", "2 of 3 raters prefer", "A strong preference for the second", "answer_1 is not better"],
)  # fmt: skip
def test_what_may_be_read_in_two_ways_is_no_winner(value: str) -> None:
    with pytest.raises(NNDError, match=r"row 1: .* names (neither|both)"):
        winner(value, Recipe(pair=("answer_1", "answer_2"), winner="w"), "row 1")


def test_names_of_columns_go_before_the_alphabet() -> None:
    swapped = Recipe(pair=("system_b", "system_a"), winner="w")
    assert [winner(value, swapped, "row 1") for value in ("A", "b", "Model A", "A > B", "system_b")] == [1, 0, 1, 1, 0]
    assert winner("1", Recipe(pair=("answer_2", "answer_1"), winner="w"), "row 1") == 1
    with pytest.raises(NNDError, match="names neither"):
        winner("2", swapped, "row 1")


WON: Rows = [
    {"q": "Q1", "answer_1": "a", "answer_2": "b", "who": who, "topic": "x"}
    for who in ("answer_1 is better", "tie", "", "k.A.")
] + [
    {"q": "Q2", "answer_1": "c", "answer_2": "d", "who": "answer_2", "topic": "y"},
    {"q": "Q3", "answer_1": "e", "answer_2": "f", "who": "both", "topic": "y"},
    {"q": "Q4", "answer_1": "g", "answer_2": "h", "who": "2", "topic": "y"},
]
PAIRED = ["--context", "q", "--pair", "answer_1,answer_2", "--winner", "who"]


def test_a_column_says_which_of_a_pair_won(maker: Maker, tmp_path: Path) -> None:
    path = put(tmp_path / "t.csv", as_csv(WON))
    found = maker.make(path, *PAIRED, "--missing", "k.A.", "--category", "topic")
    assert [(*triples([row])[0], row["category"]) for row in found] == [
        ("Q1", "a", "b", "x"),
        ("Q2", "d", "c", "y"),
        ("Q4", "h", "g", "y"),
    ]
    assert "2  pairs of which neither text won (rows 3, 7)" in maker.done.out or "(rows 3, 7)" in maker.done.out
    assert "(rows 4, 5)" in maker.done.out, "no judgement"
    assert "winner: column 'who'" in maker.done.out


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "Alice",
            "row 2, column 'who': 'Alice' names neither 'answer_1' nor 'answer_2' as the winner; a winner is named by its column",
        ),
        ("0", "'0' names neither"),
        ("-1", "'-1' names neither"),
        ("1.5", "'1.5' names neither"),
        ("answer_1 is better than answer_2", "names both columns; write which one won"),
    ],
)
def test_a_winner_that_is_not_clear_is_refused(value: str, message: str, maker: Maker, tmp_path: Path) -> None:
    rows = [{**row, "who": value} for row in WON]
    assert message in maker.refuse(put(tmp_path / "t.csv", as_csv(rows)), *PAIRED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pair", "answer_1,answer_2"], "--pair A,B and --winner COLUMN go together"),
        (["--winner", "who"], "name the two columns with --pair A,B"),
        (["--pair", "answer_1", "--winner", "who"], "--pair A,B and --winner COLUMN go together"),
        (["--pair", "answer_1,answer_3", "--winner", "who"], "there is no column 'answer_3'; did you mean 'answer_2'?"),
        (["--pair", "answer_1,answer_1", "--winner", "who"], "cannot be both"),
        (
            ["--pair", "answer_1,answer_2", "--winner", "who", "--min-gap", "1"],
            "--min-gap does not go with --pair and --winner",
        ),
        (["--spans", "a,b,c"], "--spans a,b,c: write COLUMN, START,END or OPEN,CLOSE"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    options: list[str], message: str, maker: Maker, tmp_path: Path
) -> None:
    assert message in maker.refuse(put(tmp_path / "t.csv", as_csv(WON)), "--context", "q", *options)


# ---------------------------------------------------------------- error spans


def spans_of(tests: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    return [[row["low"][span["start"] : span["end"]] for span in row["low_spans"]] for row in tests]


SPANNED = ["--context", "prompt", "--candidate", "text", "--label", "verdict", "--better", "ok"]
GOOD = {"prompt": "P", "text": "All is well.", "verdict": "ok"}


def test_spans_inside_marks(maker: Maker, tmp_path: Path) -> None:
    rows = [GOOD, {"prompt": "P", "text": "All <v>were</v> we<v>e</v>l.", "verdict": "typo"}]
    found = maker.make(put(tmp_path / "t.csv", as_csv(rows)), *SPANNED, "--spans", "<v>,</v>")
    assert triples(found) == [("P", "All is well.", "All were weel.")]
    assert spans_of(found) == [["were", "e"]]
    assert "error spans: inside marks of the candidate" in maker.done.out


BAD = "Alles waren waren guut."


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ([{"start": 6, "end": 11}, {"start": 18, "end": 22}], ["waren", "guut"]),
        ({"start": 6, "end": 11, "kind": "x"}, ["waren"]),
        ([{"start": "6", "end": 11.0}], ["waren"]),
        (["guut"], ["guut"]),
        ("guut", ["guut"]),
        ('[{"start": 6, "end": 11}]', ["waren"]),
        ('["guut", "Alles"]', ["guut", "Alles"]),
        ([], []),
        (None, []),
    ],
)
def test_spans_by_place_and_by_text(cell: Any, expected: list[str], maker: Maker, tmp_path: Path) -> None:
    rows = [{**GOOD, "errors": None}, {"prompt": "P", "text": BAD, "verdict": "typo", "errors": cell}]
    found = maker.make(as_lines(tmp_path / "t.jsonl", rows), *SPANNED, "--spans", "errors")
    assert spans_of(found) == [expected]
    assert maker.done.err == ""


def test_spans_of_two_columns_and_of_a_csv(maker: Maker, tmp_path: Path) -> None:
    rows = [{**GOOD, "from": "", "to": ""}, {"prompt": "P", "text": BAD, "verdict": "typo", "from": 6, "to": 11}]
    assert spans_of(maker.make(put(tmp_path / "t.csv", as_csv(rows)), *SPANNED, "--spans", "from,to")) == [["waren"]]
    assert maker.done.err == ""


def test_spans_that_do_not_lie_in_their_text_are_counted(maker: Maker, tmp_path: Path) -> None:
    rows = [
        GOOD,
        {"prompt": "P", "text": BAD, "verdict": "typo", "errors": [{"start": 60, "end": 70}, {"start": 0, "end": 5}]},
    ]
    found = maker.make(as_lines(tmp_path / "t.jsonl", rows), *SPANNED, "--spans", "errors")
    assert spans_of(found) == [["Alles"]]
    assert "note: left out, as they do not lie in their candidate: 1 of 2 error spans" in maker.done.err


def test_spans_with_other_names_ends_inside_and_kinds(maker: Maker, tmp_path: Path) -> None:
    error = {"startIndex": 12, "endIndex": 16, "term": "waren", "type": "Grammar", "severity": "Minor"}
    rows = [
        {**GOOD, "errors": []},
        {"prompt": "P", "text": BAD, "verdict": "typo", "errors": [error, {**error, "startIndex": 11, "endIndex": 15}]},
    ]
    names = {"start": "startIndex", "end": "endIndex", "text": "term", "category": "type", "severity": "severity"}
    spans = {"column": "errors", "end_inside": True, **names}
    recipe = {"context": "prompt", "candidate": "text", "label": "verdict", "better": "ok", "spans": spans}
    [test] = maker.make(as_lines(tmp_path / "t.jsonl", rows), recipe=recipe)
    span = {"start": 12, "end": 17, "category": "Grammar", "severity": "Minor"}
    assert test["low_spans"] == [span, span], "the second is moved to where its words stand"


def test_spans_of_the_worse_text_of_a_pair(maker: Maker, tmp_path: Path) -> None:
    rows = [{"prompt": "P", "chosen": "It is.", "rejected": "It be.", "errors": ["be"]}]
    assert spans_of(maker.make(as_lines(tmp_path / "t.jsonl", rows), "--spans", "errors")) == [["be"]]
    rows = [{"prompt": "P", "chosen": "It is.", "rejected": "It <v>be</v>."}]
    found = maker.make(as_lines(tmp_path / "u.jsonl", rows), "--spans", "<v>,</v>")
    assert (triples(found), spans_of(found)) == ([("P", "It is.", "It be.")], [["be"]])


# ---------------------------------------------------------------- files of publishers


def real(data: Path, *parts: str) -> Path:
    path = data.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def test_real_json_lists_in_several_files_with_a_winner(maker: Maker, data: Path) -> None:
    source = real(data, "today", "llmbar")
    found = maker.make(
        source, "--context", "input", "--pair", "output_1,output_2", "--winner", "label", "--category", "@file"
    )
    assert Counter(row["category"] for row in found) == {
        "Natural": 100, "Adversarial_Neighbor": 134, "Adversarial_GPTInst": 92, "Adversarial_GPTOut": 47, "Adversarial_Manual": 46
    }  # fmt: skip


def test_real_table_with_a_winner_named_by_a_word(maker: Maker, data: Path) -> None:
    import pandas as pd

    source = real(data, "today", "lfqa", "HaluQuestQA.csv")
    rows = pd.read_csv(source, sep="\t").drop_duplicates(["question_text", "ans1_text", "ans2_text"])
    options = [
        "--context",
        "question_text",
        "--pair",
        "ans1_text,ans2_text",
        "--winner",
        "ans_preference",
        "--category",
        "category",
    ]
    found = maker.make(source, *options)
    assert len(found) == len(rows)


def test_real_member_of_a_tar(maker: Maker, data: Path, tmp_path: Path) -> None:
    source = real(data, "today", "mqm2023", "sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv.tar.gz")
    recipe = {
        "context": "source", "candidate": "target", "label": "category", "better": "No-error", "separator": "/",
        "system": "system", "rater": "rater", "severity": "severity", "leave_out": {"severity": ["HOTW-test"]},
        "group": "{doc}_{globalSegId}_{source}", "candidates": "rows", "spans": {"marks": ["<v>", "</v>"]},
        "strip": {"candidate": ["<v>", "</v>"], "context": ["<v>", "</v>"]},
    }  # fmt: skip
    found = maker.make(source, recipe=recipe)
    assert "245  rows that are no judgements by the recipe" in maker.done.out
    assert len(found) == 28_144
    assert {row["category"] for row in found} >= {"Accuracy", "Fluency", "Style"}
    assert not any("<v>" in row["low"] + row["high"] + row["context"] for row in found)
    assert sum(bool(row["low_spans"]) for row in found) > 0.5 * len(found)


def test_real_nested_errors_of_several_files(maker: Maker, data: Path) -> None:
    """A target without errors is better than one with: counted from the files."""
    folder = real(data, "today", "bio_mqm", "en2es")
    recipe = {
        "rows": "target_errors[]?", "context": "source", "candidate": "target", "label": "target_errors[].error_category",
        "group": "{filename}_{SEG_ID}_{source}", "better": [""], "system": "@file", "candidates": "rows",
        "spans": {"column": "target_errors[]", "start": "startIndex", "end": "endIndex", "end_inside": True, "text": "term"},
    }  # fmt: skip
    found = maker.make(folder, recipe=recipe)
    assert len(found) == 7412
    assert {row["high_system"] for row in found} <= {path.stem for path in folder.glob("*.json")}


def test_real_table_keyed_by_id_in_a_folder(maker: Maker, data: Path) -> None:
    folder = real(data, "news_gpt3")
    recipe = yaml.safe_load((Path(__file__).parents[2] / "task_yamls" / "news_gpt3" / "_recipe").read_text("utf-8"))
    kept = {
        key: recipe[key]
        for key in ("each", "group", "context", "candidate", "votes", "system", "min_gap", "candidates")
    }
    assert len(maker.make(folder / "cnn_human.json", recipe=kept)) == 205
    assert len(maker.make(folder / "bbc_human.json", recipe=kept)) == 208
