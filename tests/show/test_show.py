"""The forms of a report: terminal, Markdown, CSV, JSON, LaTeX and HTML."""

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from lxml import html
from markdown_it import MarkdownIt

from nnd_tasks.errors import NNDError
from nnd_tasks.show import forms
from nnd_tasks.show.report import Report, Table, file_stem
from nnd_tasks.show.terminal import show_reports, write_reports
from nnd_tasks.show.values import write_cell

if TYPE_CHECKING:
    pass

HOSTILE = "a|b `c` *d* <script>x</script> \\ \x1b[31m & 5%_$"
ROWS = pd.DataFrame(
    [
        ("all", 1200, False, "m-a", 0.5, 0.4, 0.6, 0.01),
        ("all", 1200, False, "m-b", 0.7, None, None, 1e-5),
        ("rare", 3, True, "m-a", None, None, None, None),
    ],
    columns=["category", "prompts", "few", "model", "rate", "low", "high", "p"],
)
TABLE = Table(
    "rates",
    ROWS,
    {"category": "{category}", "prompts": "{prompts:,}{few:†}", "{model}": "{rate:.3f} [{low:.3f}, {high:.3f}]"},
    "Rates.",
)


def draw():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([0, 1])
    return figure


def make_report(name="one", title="Title", **more):
    return Report(
        name,
        title,
        findings=["It is found."],
        tables=[TABLE],
        notes=["A note."],
        legend={"†": "few prompts.", "‡": "never there."},
        brief=[Table("brief", TABLE.data.iloc[:1], {"model": "{model}"})],
        facts={"seed": 1, "signatures": {"m-a": "model:m-a|shots:0"}},
        **more,
    )


# ---------------------------------------------------------------- cells


def test_a_heading_with_a_field_is_a_column_per_value_and_equal_rows_are_one():
    cells = TABLE.cells
    assert list(cells.columns) == ["category", "prompts", "m-a", "m-b"]
    assert cells.to_numpy().tolist() == [
        ["all", "1,200", "0.500 [0.400, 0.600]", "0.700 [-, -]"],
        ["rare", "3†", "-", ""],
    ]
    assert TABLE.numeric == [False, True, True, True]


def test_a_column_without_any_value_is_not_shown():
    data = pd.DataFrame([{"a": 1.0, "b": math.nan}, {"a": 2.0, "b": math.nan}])
    assert list(Table("t", data, {"a": "{a:.0f}", "b": "{b:.2f}"}).cells.columns) == ["a"]


@pytest.mark.parametrize(
    ("cell", "row", "shown"),
    [
        ("{x:.2f}", {"x": math.nan}, "-"),
        ("{x:.2f}", {"x": None}, "-"),
        ("{x:.2f}", {"x": math.inf}, "none"),
        ("{x:p}", {"x": 0.0004}, "<0.001"),
        ("{x:points}", {"x": 0.123}, "12.3"),
        ("{x:p}", {"x": 0.0449}, "0.045"),
        ("{x:.1f}{bad:‡}", {"x": 1.0, "bad": True}, "1.0‡"),
        ("{x:.1f}{bad:‡}", {"x": 1.0, "bad": False}, "1.0"),
        ("{x:.1f}{bad:‡}", {"x": math.nan, "bad": True}, "-‡"),
        (lambda row: str(row["x"] * 2), {"x": 4}, "8"),
    ],
)
def test_cells_are_written(cell, row, shown):
    assert write_cell(cell, row) == shown


@pytest.mark.parametrize(("name", "stem"), [("a b/c", "a_b_c"), ("../..", "report"), (".hidden", "hidden")])
def test_names_of_files_lead_nowhere_else(name, stem):
    assert file_stem(name) == stem


# ---------------------------------------------------------------- forms


def test_markdown_has_all_and_keeps_texts_from_being_markup():
    text = forms.to_markdown(make_report(title=HOSTILE))
    rendered = html.fromstring(MarkdownIt("commonmark").enable("table").render(text))
    assert len(rendered.xpath("//table")) == 1
    assert not rendered.xpath("//script | //em | //code")
    assert "\x1b" not in text
    assert rendered.xpath("string(//h1)").startswith("a|b `c` *d* <script>x</script> \\")
    assert "- † few prompts." in text
    signature = "- m-a: model:m-a\\|shots:0"
    assert text.splitlines()[-1] == signature
    assert signature not in forms.to_markdown(make_report(), files=False)
    assert (
        '<li><span class="whole">m-a:</span> <span class="whole">model:m-a|</span><wbr>shots:0</li>'
        in forms.to_html([make_report()])
    )
    assert "‡" not in text, "a mark that stands nowhere is not explained"
    assert "|---|---:|---:|---:|" in text


def test_csv_has_the_values_and_nothing_where_one_is_missing():
    [first, _, last] = csv.DictReader(io.StringIO(forms.to_csv(TABLE)))
    assert first["low"] == "0.4"
    assert last["rate"] == last["p"] == ""


def test_json_has_facts_and_rows_and_null_for_what_is_no_number():
    data = pd.DataFrame([{"x": math.nan, "y": math.inf, "z": pd.NA, "n": 3}])
    found = json.loads(forms.to_json(Report("r", "T", tables=[Table("t", data, {})], facts={"path": Path("a")})))
    assert found == {
        **{"title": "T", "findings": [], "notes": [], "path": "a"},
        "tables": {"t": [{"x": None, "y": None, "z": None, "n": 3}]},
    }


def test_latex_escapes_texts_and_turns_marks():
    data = pd.DataFrame([{"name": "a_b & 5%", "x": "-0.1 to +0.2 ≠"}, {"name": "c", "x": "<0.001‡"}])
    text = forms.to_latex(Report("r", "T", tables=[Table("t", data, {"name": "{name}", "x": "{x}"})]))
    assert r"a\_b \& 5\%" in text
    assert r"-0.1 to +0.2 $\neq$" in text
    assert r"$<$0.001$\ddagger$" in text
    assert r"\begin{tabular}{lr}" in text


def test_html_escapes_texts_and_has_the_figures_in_it():
    text = forms.to_html([make_report(title=HOSTILE, figures={"plot": draw})])
    page = html.document_fromstring(text)
    assert not page.xpath("//script")
    assert page.xpath("string(//h1)").startswith("a|b `c` *d* <script>x</script>")
    assert page.xpath("//img/@src")[0].startswith("data:image/svg+xml;base64,")
    assert page.xpath("//table[@class='rates']//th[.='prompts']/@class") == []


# ---------------------------------------------------------------- what is printed


def test_a_pipe_gets_markdown_with_texts_as_they_are(capsys):
    show_reports([make_report(), make_report(title="Second")])
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("# ")] == ["# Title", "# Second"]
    assert "| all | 1,200 |" in shown
    assert "model:m-a" not in shown, "signatures stand in files"
    report = Report("r", "nnd_a*b", tables=[Table("t", pd.DataFrame({"m": ["x_y <z>"]}), {"m": "{m}"})])
    show_reports([report])
    assert capsys.readouterr().out == "# nnd_a*b\n\n| m |\n|---|\n| x_y <z> |\n"


@pytest.mark.parametrize("name", ["=1+1", "+m", "-m", "@m", "\tm"])
def test_a_spreadsheet_runs_no_cell(name):
    data = pd.DataFrame({"model": [name, "m-a"], "x": [-0.5, None]})
    assert forms.to_csv(Table("t", data, {})).splitlines() == ["model,x", f"'{name},-0.5", "m-a,"]


def test_without_matplotlib_the_other_files_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("nnd_tasks.show.terminal.find_spec", lambda name: None)
    show_reports([make_report("c", figures={"plot": draw})], out=tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".json", ".tex", ".html", ".csv"}
    assert "figures are left out: the figure needs matplotlib" in capsys.readouterr().err


def test_a_terminal_gets_drawn_tables_and_nothing_that_it_obeys(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    show_reports([make_report(title=HOSTILE)])
    shown = capsys.readouterr().out
    assert "│" in shown
    assert "\x1b[1m" in shown
    assert "\x1b[31m" not in shown
    assert "• † few prompts." in re.sub(r"\x1b\[\d*m", "", shown)


def test_brief_is_the_findings_and_one_table_of_all_reports(capsys):
    show_reports([make_report(), make_report()], brief=True)
    lines = capsys.readouterr().out.splitlines()
    found = [f"{make_report().title}:", "- It is found."]  # which report says it
    assert lines == [*found, *found, "| model |", "|---|", "| m-a |", "| m-a |"]
    show_reports([make_report()], brief=True, form="json")  # in every form
    assert [*json.loads(capsys.readouterr().out)["tables"]] == ["brief"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("markdown", forms.to_markdown(make_report())),
        ("csv", forms.to_csv(TABLE)),
        ("json", forms.to_json(make_report())),
        ("latex", forms.to_latex(make_report())),
        ("html", forms.to_html([make_report()])),
    ],
)
def test_every_format_is_printed_as_it_is(form, expected, capsys):
    show_reports([make_report()], form=form)
    assert capsys.readouterr().out.split() == expected.split()


def test_several_reports_are_one_json(capsys):
    show_reports([make_report(), make_report()], form="json")
    assert json.loads(capsys.readouterr().out) == [json.loads(forms.to_json(make_report()))] * 2


# ---------------------------------------------------------------- files


def test_every_form_of_each_report_is_written_and_names_differ(tmp_path):
    written = write_reports(
        [make_report("a b"), make_report("a b"), make_report("c", figures={"plot": draw})], tmp_path
    )
    assert {path.name for path in written} == {path.name for path in tmp_path.iterdir()}
    endings = (".md", ".json", ".tex", ".html", "_rates.csv")
    expected = {f"{stem}{ending}" for stem in ("a_b_1", "a_b_2", "c") for ending in endings}
    assert {path.name for path in written} == expected | {"c_plot.png", "c_plot.svg"}


def test_all_files_are_written_or_none(tmp_path):
    def fail():
        raise NNDError("no figure")

    with pytest.raises(NNDError, match="no figure"):
        write_reports([make_report(figures={"plot": fail})], tmp_path / "out")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NNDError, match="cannot be written"):
        write_reports([make_report()], tmp_path / "file" / "out")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["file"]
