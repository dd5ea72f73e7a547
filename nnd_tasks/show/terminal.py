"""Reports as they are printed, drawn on a terminal or in the form that ``--format`` names, and written to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
from rich.table import Table as DrawnTable
from rich.text import Text

from nnd_tasks.errors import visible
from nnd_tasks.files import expand, writing_all
from nnd_tasks.show import Form, forms
from nnd_tasks.show.console import on_terminal, open_console, say, say_lines, warn
from nnd_tasks.show.forms import write_figure
from nnd_tasks.show.report import Report, Table, file_stem


def print_table(table: Table) -> None:
    """Print one table: drawn on a terminal, as Markdown elsewhere."""
    if not on_terminal():
        say(*forms.markdown_table(table, escape=False))
        return
    drawn = DrawnTable()
    for name, right in zip(table.cells.columns, table.numeric, strict=True):
        drawn.add_column(Text(visible(name)), justify="right" if right else "left", overflow="fold")
    for row in table.cells.to_numpy():
        drawn.add_row(*(Text(visible(cell)) for cell in row))
    open_console().print(drawn)


def print_counts(counts: Mapping[str, int]) -> None:
    """Print how many tests each category has."""
    table = pd.DataFrame(counts.items(), columns=["category", "tests"])
    print_table(Table("categories", table, {"category": "{category}", "tests": "{tests:,}"}))


def show_reports(
    reports: Sequence[Report], *, out: Path | None = None, form: Form = "text", brief: bool = False
) -> None:
    """Write the files of reports, and print them: a pipe may close before the last line.

    Args:
        reports: at least one.
        out: folder for the files of each report: Markdown, JSON, LaTeX, HTML, one CSV per table, and its figures.
        form: what is printed; ``text`` is drawn on a terminal, and Markdown elsewhere.
        brief: print the findings and `Report.brief` only, in every form.

    Raises:
        NNDError: the folder cannot be written; all files are written or none.
    """
    if (
        (out is not None or form == "html")
        and any(report.figures for report in reports)
        and not find_spec("matplotlib")
    ):
        warn(f"figures are left out: {forms.NO_MATPLOTLIB}")
        reports = [replace(report, figures={}) for report in reports]
    written = write_reports(reports, out) if out is not None else []
    if form != "text":
        say_lines(_print_form([_shorten(report) for report in reports] if brief else reports, form))
    elif brief:
        _print_brief(reports)
    elif on_terminal():
        for report in reports:
            _draw_report(report)
    else:
        say_lines("\n".join(forms.to_markdown(report, files=False) for report in reports))
    for path in written:
        say(f"written: {path}", stderr=form != "text")


def _shorten(report: Report) -> Report:
    """The report with its findings and brief tables only."""
    return replace(report, tables=report.brief, notes=(), figures={}, facts={})


def _print_form(reports: Sequence[Report], form: Form) -> str:
    if form == "json":
        return forms.to_json(reports[0]) if len(reports) == 1 else f"[{', '.join(map(forms.to_json, reports))}]"
    if form == "html":
        return forms.to_html(reports)
    if form == "csv":
        return "\n".join(forms.to_csv(table) for report in reports for table in report.tables)
    return "\n".join(map(forms.to_latex if form == "latex" else forms.to_markdown, reports))


def _print_brief(reports: Sequence[Report]) -> None:
    """Print the findings of all reports, and their brief tables, those of one name as one."""
    for report in reports:
        heading = [f"{report.title}:"] if len(reports) > 1 else []
        for line in [*heading, *(f"- {line}" for line in report.findings)]:
            say(line)
    by_name: dict[str, list[Table]] = {}
    for report in reports:
        for table in report.brief:
            by_name.setdefault(table.name, []).append(table)
    merged = [replace(tables[0], data=pd.concat([table.data for table in tables])) for tables in by_name.values()]
    for table in merged:
        print_table(table)
    for line in forms.explain_marks(reports[0], merged):
        say(line)


def _draw_report(report: Report) -> None:
    console = open_console()
    console.rule(Text(visible(report.title), style="bold"))
    for line in report.findings:
        console.print(Text(f"• {visible(line)}"))
    for table in report.tables:
        console.print()
        if table.caption:
            console.print(Text(visible(table.caption), style="dim"))
        print_table(table)
    for line in [*forms.explain_marks(report), *report.notes]:
        console.print(Text(f"• {visible(line)}", style="dim"))


def write_reports(reports: Sequence[Report], folder: Path) -> list[Path]:
    """Write every form of each report into a folder, all files or none; return them.

    Raises:
        NNDError: the folder cannot be written.
    """
    stems = [file_stem(report.name) for report in reports]
    stems = [f"{stem}_{i}" if stems.count(stem) > 1 else stem for i, stem in enumerate(stems, start=1)]
    files: dict[str, str | bytes] = {}
    for report, stem in zip(reports, stems, strict=True):
        report = replace(report, figures={name: cache(draw) for name, draw in report.figures.items()})
        files[f"{stem}.md"] = forms.to_markdown(report)
        files[f"{stem}.json"] = forms.to_json(report)
        files[f"{stem}.tex"] = forms.to_latex(report)
        files[f"{stem}.html"] = forms.to_html([report])
        files |= {f"{stem}_{table.name}.csv": forms.to_csv(table) for table in report.tables}
        for name, draw in report.figures.items():
            files[f"{stem}_{name}.png"] = write_figure(draw(), "png")
            files[f"{stem}_{name}.svg"] = write_figure(draw(), "svg")
    paths = [expand(folder) / name for name in files]
    with writing_all(paths) as new:
        for path, content in zip(new, files.values(), strict=True):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths
