"""Names from outside in all that people read: they are shown, and obeyed by no terminal, browser, spreadsheet or LaTeX."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from nnd_tasks.analysis.compare.output import file_names, markdown, to_csv, to_latex
from nnd_tasks.analysis.compare.paired import compare_runs
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.formats import TextTable, csv_cell, csv_text, json_text, number
from nnd_tasks.sets.build import build_set
from nnd_tasks.wording import counted, did_you_mean, some_of
from tests.analysis.runs import make_run

#: A name that would clear the screen and add a line of its own to what is printed.
FAKED = "evil\x1b[2J\nwritten: all is well"
ATTACKS = (
    *("<img src=x onerror=alert(1)>", "[a](https://evil.example)", "![a](https://evil.example/x.png)", "a | b \\| c"),
    *("<https://evil.example>", "https://evil.example www.evil.example", "`code` ``x``", "*b* __b__ ~~s~~", FAKED),
    *("- a\n\n# b", "1. a", "#", "---", "+ a", "[ref]\n\n[ref]: https://evil.example", "&lt;b&gt;"),
)


def printed(*arguments: Any) -> str:
    return CliRunner().invoke(app, [*map(str, arguments)]).output


def compared(model: str, category: str, task: str = "nnd_demo") -> Any:
    passed, clusters = [True, False, True, True], ["a", "b", "c", "d"]
    runs = [
        make_run(name, outcome, clusters, ["x", category, "x", category], task=task, line=f"name:{name} || torch:2")
        for name, outcome in ((model, passed), ("other", [False, *passed[1:]]), ("third", passed[::-1]))
    ]
    return compare_runs(runs, resamples=100)[0]


@pytest.mark.parametrize("command", ["list", "build", "check"])
def test_no_name_adds_a_line_or_reaches_the_terminal(command: str, nnd_home: Path) -> None:
    folder = nnd_home / "nnd" / FAKED
    if command == "build":
        output = printed("build", "demo", "--out", folder)
    else:
        build_set("demo", out=folder)
        output = printed("list") if command == "list" else printed("check", folder, "--format", "text")
    assert "evil\\x1b[2J\\nwritten: all is well" in output
    assert "\x1b" not in output
    assert not [line for line in output.splitlines() if line.startswith("written: all")]


def test_json_for_programs_stays_json_on_the_terminal(nnd_home: Path) -> None:
    folder = nnd_home / "nnd" / "evil\x9b2J\U000e0001"
    build_set("demo", out=folder)
    output = printed("check", folder, "--format", "json")
    assert json.loads(output)["folder"] == str(folder)
    assert "\x9b" not in output
    assert json_text(["größer"]) == '[\n  "größer"\n]'


def kinds(text: str) -> list[str]:
    """Return the elements that Markdown makes of a text."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = [token for block in parser.parse(text) for token in (block, *(block.children or []))]
    return [token.type for token in tokens if token.type not in ("text", "text_special", "entity")]


@pytest.mark.parametrize("value", ATTACKS)
def test_no_name_is_markup_in_a_comparison(value: str) -> None:
    hostile = markdown(compared(value, value, task=value))
    assert kinds(hostile) == kinds(markdown(compared("m", "y")))
    assert "://" not in re.sub(r"`[^`]*name:[^\n]*", "", hostile)
    assert "\x1b" not in hostile


def test_names_that_need_nothing_stay_as_they_are() -> None:
    shown = markdown(compared("tiny-lm_m/step-10 #1", "off_target (authors)"))
    assert "| off_target (authors) | 2 |" in shown
    assert "# nnd/demo (default): tiny-lm_m/step-10 #1, other, third" in shown


@pytest.mark.parametrize("name", ["=1+2", "+cmd", "-x", "@SUM(A1)", "=\tx"])
def test_no_cell_is_a_formula_and_numbers_stay_numbers(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(compared(name, name)))))
    cells = [cell for row in rows for cell in row.values()]
    assert f"'{name}".replace("\t", "\\t") in cells
    formulas = [cell for cell in cells if cell[:1] in ("=", "+", "-", "@")]
    assert all(float(cell) <= 0 for cell in formulas)
    assert any(float(row["difference"]) < 0 for row in rows)
    assert csv_cell(-0.5) == -0.5


def test_names_are_text_in_latex() -> None:
    latex = to_latex(compared("[1ex] a|b<c>", "*\nx_{y}^$"))
    assert "{*}\\textbackslash{}nx\\_\\{y\\}\\textasciicircum{}\\$ & " in latex
    assert "{[}1ex] a$|$b$<$c$>$" in latex
    assert not re.search(r"(\\\\|rule)\s*[\[*]", latex)


@pytest.mark.parametrize("name", ["..", "???", "a/../../b", ".hidden", "x" * 300])
def test_no_set_or_task_names_a_file_elsewhere(name: str) -> None:
    comparison = compared("m", "y")
    run = make_run("m", [True], ["a"], protocol={"set": name, "config": "c"})
    object.__setattr__(comparison.paired, "set", run.set.removesuffix(" (c)"))
    [first, second] = file_names([comparison, comparison])
    assert first != second
    for found in (first, second):
        assert re.fullmatch(r"\w[\w.-]{0,210}", found)


def test_one_thing_is_no_plural() -> None:
    assert [counted(n, "test") for n in (0, 1, 2884)] == ["0 tests", "1 test", "2,884 tests"]
    assert counted(2, "child", "children") == "2 children"


def test_the_nearest_names_are_offered_whatever_their_case() -> None:
    known = ["Question", "answer", "frank", "franks"]
    assert did_you_mean("quesion", known) == "did you mean 'Question'?"
    assert did_you_mean("FRNK", known, at_most=2, end=" ") == "did you mean 'frank' or 'franks'? "
    assert did_you_mean("frnk", known, cutoff=0.95) == did_you_mean("x" * 10_000, known) == ""


def test_of_many_names_the_first_are_shown() -> None:
    names = list("abc")
    assert some_of(names) == "'a', 'b', 'c'"
    assert some_of(names, 2, str) == "a, b and 1 more"
    assert some_of([]) == ""


# ---------------------------------------------------------------- one table in every form


def test_a_table_in_every_form_holds_the_same_cells() -> None:
    table = TextTable(
        ["error", "verdict", "rate"], [["a_b", "fail", "-0.5"], ["", "pass", "0.7 [0.6, 0.8]"]], 2, True, {"fail"}
    )
    assert table.markdown() == [
        "| error | verdict | rate |",
        "|---|---|---:|",
        "| `a_b` | **fail** | -0.5 |",
        "|  | pass | 0.7 [0.6, 0.8] |",
        "",
    ]
    assert table.latex()[2:6] == [
        r"error & verdict & rate \\",
        r"\midrule",
        r"a\_b & fail & $-$0.5 \\",
        r" & pass & 0.7 [0.6, 0.8] \\",
    ]


def test_numbers_that_json_and_csv_lack_are_null_and_empty() -> None:
    rows = [{"a": math.nan, "b": 1.5}, {"b": None, "c": "x"}]
    assert json.loads(json_text({"rows": rows, "more": (math.inf, -math.inf, 2)})) == {
        "rows": [{"a": None, "b": 1.5}, {"b": None, "c": "x"}],
        "more": [None, None, 2],
    }
    assert csv_text(rows) == "a,b,c\n,1.5,\n,,x\n"
    assert csv_text([], columns=["set"]) == "set\n"


def test_numbers_in_tables() -> None:
    assert [number(value) for value in (0.5, math.nan, math.inf)] == ["0.500", "-", "none"]
    assert number(0.25, 2, signed=True) == "+0.25"
    assert number(math.nan, undefined="undefined") == "undefined"
