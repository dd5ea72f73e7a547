"""What a table says reaches the data: every space, the right numbers of rows, truth values. All counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from nnd_tasks.datasets import list_configs, read_report, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import Made, build_set

#: The second differs from the first in the indentation of its last line, and that is the error.
RIGHT = "for x in xs:\n    if x:\n        total += x\nprint(total)"
WRONG = "for x in xs:\n    if x:\n        total += x\n    print(total)"
OTHER = "print(sum(xs))"
SCORES = {"context": "q", "candidate": "a", "score": "s", "min_gap": 1}


def build(folder: Path, source: Path, **keys: Any) -> Made:
    recipe = folder / "given" / "_recipe"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    recipe.write_text(yaml.safe_dump(keys), encoding="utf-8")
    return build_set(str(recipe), source, folder / "out", replace=True)


def as_csv(path: Path, *rows: dict[str, Any]) -> Path:
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_pairs_that_differ_in_white_space_only_are_tests(tmp_path: Path) -> None:
    rows = [{"q": "Q", "good": RIGHT, "bad": WRONG}, {"q": "Q", "good": OTHER, "bad": WRONG}]
    same = {"q": "Q", "good": "caf\u00e9", "bad": "cafe\u0301"}
    result = build(tmp_path, as_csv(tmp_path / "t.csv", *rows, same), context="q", chosen="good", rejected="bad")
    assert [(row["high"], row["low"]) for row in read_table(result.folder).to_pylist()] == [
        (RIGHT, WRONG),
        (OTHER, WRONG),
    ]
    assert read_report(result.folder)["default"]["dropped"] == {"equal_texts": 1}


@pytest.mark.parametrize("candidates", ["texts", "rows"])
def test_candidates_that_differ_in_white_space_only_are_two(candidates: str, tmp_path: Path) -> None:
    rows = [{"q": "Q", "a": text, "l": label} for text, label in ((RIGHT, "ok"), (WRONG, "no"), (OTHER, "ok"))]
    keys = {"context": "q", "candidate": "a", "label": "l", "better": ["ok"], "candidates": candidates}
    folder = build(tmp_path, as_csv(tmp_path / "t.csv", *rows), **keys).folder
    for config in list_configs(folder)[0]:
        found = [(row["high"], row["low"]) for row in read_table(folder, config).to_pylist()]
        assert sorted(found) == [(RIGHT, WRONG), (OTHER, WRONG)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_after_blank_lines_have_the_numbers_of_a_spreadsheet(encoding: str, end: str, tmp_path: Path) -> None:
    """Blank lines count, a line break within quotes does not begin a row."""
    lines = ["q,a,s", "Q,one,1", "", "", 'Q,"zwölf', "", 'lines",2', "", "Q,three,{}", "", "Q,four,4"]
    path = tmp_path / "t.csv"
    for cell, problem in (
        ("high", "t.csv, row 7, column 's': "),
        ("3,more", "t.csv, row 7: 4 cells, the header has 3"),
    ):
        path.write_bytes(end.join(lines).format(cell).encode(encoding))
        with pytest.raises(NNDError, match=problem):
            build(tmp_path, path, **SCORES)
    path.write_bytes(end.join(lines).format("").encode(encoding))
    assert build(tmp_path, path, **SCORES).report["default"]["dropped_rows"] == {"no_judgement": ["t.csv, row 7"]}


def test_rows_of_several_files_are_named_with_their_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        rows = [{"q": name, "a": f"{name} {i}", "s": None if i == 1 else i} for i in range(3)]
        (tmp_path / "all" / "de").mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / "de" / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    report = build(tmp_path, tmp_path / "all", **SCORES).report["default"]
    assert report["dropped_rows"]["no_judgement"] == ["one.json, item 2", "two.json, item 2"]


@pytest.mark.parametrize(
    ("cells", "value"),
    [([True, False], "false"), (["True", "False"], "[false]"), (["yes", "no"], "no"), (["on", "off"], "[off]")],
)
def test_a_recipe_leaves_rows_out_by_truth_values_and_by_words(cells: list[Any], value: str, tmp_path: Path) -> None:
    """In a recipe ``no`` and ``off`` are the words of a table, not the truth values that YAML makes of them."""
    rows = [{"q": "Q", "good": "a", "bad": f"b{i}", "valid": cells[i % 2]} for i in range(4)]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = tmp_path / "given" / "_recipe"
    recipe.parent.mkdir()
    recipe.write_text(f"context: q\nchosen: good\nrejected: bad\nleave_out: {{valid: {value}}}\n", encoding="utf-8")
    result = build_set(str(recipe), path, tmp_path / "out")
    assert [row["low"] for row in read_table(result.folder).to_pylist()] == ["b0", "b2"]
    assert not any("no row has" in note for note in result.notes)


def test_a_value_to_leave_out_that_no_row_has_is_noted(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "t.csv", {"q": "Q", "good": "a", "bad": "b", "kind": "x"})
    notes = build(tmp_path, path, context="q", chosen="good", rejected="bad", leave_out={"kind": "y"}).notes
    assert any("kind = 'y'" in note for note in notes)


@pytest.mark.parametrize(
    "text",
    [
        "Où est-ce que la forêt, l'été, paraît si belle à l'œil ? Là-bas, près du château, où l'âne brait.",
        "São Paulo é uma cidade grande; não há ninguém que não a conheça, e as canções são boas.",
        "Där borta på ängen går en älg, och över sjön hörs en trana som ropar på sin make.",
        "Die Füße müssen größer sein als die Schuhe; übrigens heißt das Mädchen Käthe.",
    ],
)
def test_files_of_windows_in_western_europe_are_read_as_such(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f"q;good;bad\nQ;{text.replace(';', ',')};x\n".encode("cp1252"))
    result = build(tmp_path, path, context="q", chosen="good", rejected="bad")
    assert read_table(result.folder).to_pylist()[0]["high"] == text.replace(";", ",")
