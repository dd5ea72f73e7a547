"""What a table says reaches the data: every space, every severity, the right numbers of rows. All counted by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from nnd_tasks.datasets import list_configs, read_report, read_table
from tests.commands import Outcome

Command = Callable[..., Outcome]
#: The second differs from the first in the indentation of its last line, and that is the error.
RIGHT = "for x in xs:\n    if x:\n        total += x\nprint(total)"
WRONG = "for x in xs:\n    if x:\n        total += x\n    print(total)"
OTHER = "print(sum(xs))"


@pytest.fixture
def make(nnd: Command, nnd_home: Path) -> Callable[..., tuple[list[dict[str, Any]], Outcome]]:
    """Return what runs `nnd new` and returns the tests of the set, and what was printed."""

    def run(source: Path, *options: str) -> tuple[list[dict[str, Any]], Outcome]:
        done = nnd("new", "mine", "--from", source, "--replace", *options)
        assert done.status == 0, done.err
        return read_table(nnd_home / "nnd" / "mine").to_pylist(), done

    return run


def as_csv(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def recipe_file(path: Path, **keys: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(keys), encoding="utf-8")
    return path


# ---------------------------------------------------------------- white space

PAIRS = ({"q": "Add up.", "good": RIGHT, "bad": WRONG}, {"q": "Add up.", "good": OTHER, "bad": WRONG})
JUDGED = tuple({"q": "Add up.", "a": text, "l": label} for text, label in ((RIGHT, "ok"), (WRONG, "no"), (OTHER, "ok")))


def test_pairs_that_differ_in_white_space_only_are_tests(
    make: Callable[..., Any], nnd_home: Path, tmp_path: Path
) -> None:
    same = {"q": "Add up.", "good": "caf\u00e9", "bad": "cafe\u0301"}
    source = as_csv(tmp_path / "t.csv", *PAIRS, same)
    rows, done = make(source, "--context", "q", "--chosen", "good", "--rejected", "bad")
    assert [(row["high"], row["low"]) for row in rows] == [(RIGHT, WRONG), (OTHER, WRONG)]
    assert "1 test of texts that differ in white space only" in done.err
    report = read_report(nnd_home / "nnd" / "mine")["default"]
    assert (report["space_only"], report["dropped"]) == (1, {"equal_texts": 1})
    assert "1 test of texts that differ in white space only" in (nnd_home / "nnd" / "mine" / "README.md").read_text(
        "utf-8"
    )


def test_candidates_that_differ_in_white_space_only_are_two(make: Callable[..., Any], tmp_path: Path) -> None:
    source = as_csv(tmp_path / "t.csv", *JUDGED)
    rows, _ = make(source, "--context", "q", "--candidate", "a", "--label", "l", "--better", "ok")
    assert sorted((row["high"], row["low"]) for row in rows) == [(RIGHT, WRONG), (OTHER, WRONG)]


@pytest.mark.parametrize("fold_space", [False, True])
def test_the_clean_config_keeps_them_unless_the_recipe_folds_white_space(
    fold_space: bool, nnd: Command, nnd_home: Path, tmp_path: Path
) -> None:
    recipe = recipe_file(
        tmp_path / "given" / "_recipe",
        context="q", candidate="a", label="l", better=["ok"], candidates="rows", fold_space=fold_space,
    )  # fmt: skip
    done = nnd("build", recipe, "--source", as_csv(tmp_path / "t.csv", *JUDGED))
    assert done.status == 0, done.err
    folder = nnd_home / "nnd" / "given"
    report = read_report(folder)["default"]
    assert report["space_only"] == 1
    assert (report["cleaning"]["kept"], "default_clean" in list_configs(folder)[0]) == (
        (0, False) if fold_space else (2, True)
    )
    assert ("fold_space" in done.out + done.err) == (not fold_space), "a recipe that says it needs no note"


def test_with_fold_space_pairs_that_differ_in_white_space_only_are_left_out(
    make: Callable[..., Any], nnd_home: Path, tmp_path: Path
) -> None:
    recipe = recipe_file(tmp_path / "r.yaml", context="q", chosen="good", rejected="bad", fold_space=True)
    rows, _ = make(as_csv(tmp_path / "t.csv", *PAIRS), "--recipe", str(recipe))
    assert [row["high"] for row in rows] == [OTHER]
    assert read_report(nnd_home / "nnd" / "mine")["default"]["dropped"] == {"equal_texts": 1}


# ---------------------------------------------------------------- severity of pairs


def test_the_severity_of_ready_made_pairs_is_in_the_data(make: Callable[..., Any], tmp_path: Path) -> None:
    rows = [
        {"q": "Q", "good": "a", "bad": f"b{i}", "how": how, "blank": ""} for i, how in enumerate(["minor", "", "major"])
    ]
    options = ("--context", "q", "--chosen", "good", "--rejected", "bad")
    found, _ = make(as_csv(tmp_path / "t.csv", *rows), *options, "--severity", "how")
    assert [(row["low"], row["severity"]) for row in found] == [("b0", "minor"), ("b1", ""), ("b2", "major")]
    found, _ = make(as_csv(tmp_path / "t.csv", *rows), *options, "--severity", "blank")
    assert "severity" not in found[0], "no row has one"


# ---------------------------------------------------------------- numbers of rows


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_after_blank_lines_have_the_numbers_of_a_spreadsheet(
    encoding: str, end: str, nnd: Command, tmp_path: Path
) -> None:
    """Blank lines count, a line break within quotes does not begin a row."""
    lines = ["q,a,s", "Q,one,1", "", "", 'Q,"two', "", 'lines",2', "", "Q,three,{}", "", "Q,four,4"]
    path = tmp_path / "t.csv"
    options = ("--context", "q", "--candidate", "a", "--score", "s", "--min-gap", "1")
    path.write_bytes(end.join(lines).format("high").encode(encoding))
    assert "t.csv, row 7, column 's'" in nnd("new", "mine", "--from", path, *options).err
    path.write_bytes(end.join(lines).format("3,more").encode(encoding))
    assert "t.csv, row 7: 4 columns, the header has 3" in nnd("new", "mine", "--from", path, *options).err
    path.write_bytes(end.join(lines).format("").encode(encoding))
    assert re.search(r"without a judgement \(row 7\)", nnd("new", "mine", "--from", path, *options).out)


def test_rows_of_several_files_are_named_with_their_file(
    make: Callable[..., Any], nnd: Command, nnd_home: Path, tmp_path: Path
) -> None:
    for folder in ("de", "fr"):
        for name in ("one", "two"):
            rows = [{"q": folder, "a": f"{name} {i}", "s": i} for i in range(3)]
            rows[1]["s"] = None
            (tmp_path / "all" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "all" / folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    options = ("--context", "q", "--candidate", "a", "--score", "s", "--min-gap", "1")
    _, done = make(tmp_path / "all", *options)
    places = ["2 of de/one.json", "2 of de/two.json", "2 of fr/one.json"]
    assert f"(items {', '.join(places)}, …)" in done.out
    assert read_report(nnd_home / "nnd" / "mine")["default"]["dropped_rows"]["no_judgement"] == places
    recipe = recipe_file(tmp_path / "r.yaml", group="@folder", field={"x": "a"})
    wrong = nnd("new", "other", "--from", tmp_path / "all", *options, "--recipe", recipe)
    assert f"{tmp_path}/all/de/one.json, item 2: context 'de'" in wrong.err


# ---------------------------------------------------------------- rows that are left out


@pytest.mark.parametrize("cells", [[True, False], ["True", "False"], ["yes", "no"], ["on", "off"]])
def test_a_truth_value_leaves_rows_out_however_the_table_writes_it(
    cells: list[Any], make: Callable[..., Any], tmp_path: Path
) -> None:
    """YAML reads ``no`` and ``off`` as false, so a recipe's false must leave out these too."""
    rows = [{"q": "Q", "good": "a", "bad": f"b{i}", "valid": cells[i % 2]} for i in range(4)]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = tmp_path / "r.yaml"
    for values in ("false", "[false]", "[no]"):
        recipe.write_text(
            f"{{context: q, chosen: good, rejected: bad, leave_out: {{valid: {values}}}}}", encoding="utf-8"
        )
        found, _ = make(path, "--recipe", str(recipe))
        assert [row["low"] for row in found] == ["b0", "b2"]


def test_new_leaves_rows_out_and_its_recipe_says_so(
    make: Callable[..., Any], nnd: Command, nnd_home: Path, tmp_path: Path
) -> None:
    kinds = ["fine", "check", "Wrong", "fine"]
    rows = [{"q": "Q", "good": "a", "bad": f"b{i}", "kind": kind, "n": i} for i, kind in enumerate(kinds)]
    source = as_csv(tmp_path / "t.csv", *rows)
    options = ("--context", "q", "--chosen", "good", "--rejected", "bad")
    found, done = make(source, *options, "--leave-out", "kind=check, wrong", "--leave-out", "n=3")
    assert [row["low"] for row in found] == ["b0"]
    assert re.search(r"3\s+rows that are no judgements by the recipe \(rows 3, 4, 5\)", done.out)
    recipe = yaml.safe_load((nnd_home / "task_yamls" / "mine" / "_recipe").read_text("utf-8"))
    assert recipe["leave_out"] == {"kind": ["check", "wrong"], "n": ["3"]}
    assert nnd("build", "mine", "--source", source).status == 0
    assert [row["low"] for row in read_table(nnd_home / "nnd" / "mine").to_pylist()] == ["b0"]
    assert "--leave-out kind: write COLUMN=VALUE" in nnd("new", "x", "--from", source, "--leave-out", "kind").err
    assert "there is no column 'kin'; did you mean 'kind'?" in (
        nnd("new", "x", "--from", source, *options, "--leave-out", "kin=check").err
    )
