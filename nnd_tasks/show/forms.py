"""A `Report` as Markdown, CSV, JSON, LaTeX and HTML, and its figures as files."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from nnd_tasks.errors import visible
from nnd_tasks.markdown import escape_cell, escape_markdown, on_one_line
from nnd_tasks.show.report import Report, Table
from nnd_tasks.show.values import is_missing

if TYPE_CHECKING:
    import jinja2
    import pandas as pd
    from matplotlib.figure import Figure

NO_MATPLOTLIB = "the figure needs matplotlib: in a clone of nnd-tasks, pip install '.[analysis]'"


def write_figure(figure: Figure, form: Literal["png", "svg"]) -> bytes:
    """Write a figure as a file; equal numbers give equal bytes, without a date, and with fixed ids in SVG."""
    import matplotlib as mpl

    data = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "nnd"}):
        figure.savefig(data, format=form, dpi=200, metadata={"Date": None} if form == "svg" else {})
    return data.getvalue()


# ---------------------------------------------------------------- forms of a report


def to_markdown(report: Report, *, files: bool = True) -> str:
    """Write a report as Markdown.

    Args:
        report: to be written.
        files: as a file, with signatures, and with texts escaped so that none is markup; else to be read as it is.
    """
    escape = escape_markdown if files else on_one_line
    lines = [f"# {escape(report.title)}", "", *_bullets(report.findings, escape)]
    for table in report.tables:
        lines += [*([table.caption, ""] if table.caption else []), *markdown_table(table, escape=files), ""]
    lines += _bullets([*explain_marks(report), *report.notes, *(report.signatures if files else ())], escape)
    return "\n".join(lines).rstrip() + "\n"


def explain_marks(report: Report, tables: Sequence[Table] | None = None) -> list[str]:
    """Say what the marks mean that stand in the cells of a report's tables, or of some tables made of them."""
    every = report.tables if tables is None else tables
    text = "\n".join(cell for table in every for cell in table.cells.to_numpy().ravel())
    return [f"{symbol} {meaning}" for symbol, meaning in report.legend.items() if symbol in text]


def _bullets(lines: Sequence[str], escape: Callable[[str], str]) -> list[str]:
    return [*(f"- {escape(line)}" for line in lines), ""] if lines else []


def markdown_table(table: Table, *, escape: bool = True) -> list[str]:
    """The lines of a table in Markdown; its texts as they are, where nobody will render it."""
    write = escape_cell if escape else on_one_line
    rule = ["---:" if right else "---" for right in table.numeric]
    rows = [table.cells.columns, *table.cells.to_numpy().tolist()]
    head, *body = (f"| {' | '.join(map(write, row))} |" for row in rows)
    return [head, f"|{'|'.join(rule)}|", *body]


#: Characters at the start of a cell that spreadsheets take for a formula (OWASP, CSV injection).
_RUN = ("=", "+", "-", "@", "\t", "\r")


def to_csv(table: Table) -> str:
    """Write the values of a table as CSV; missing ones are empty, and texts that a spreadsheet would run begin with '."""
    data = table.data.map(lambda value: f"'{value}" if isinstance(value, str) and value[:1] in _RUN else value)
    return str(data.to_csv(index=False, lineterminator="\n"))


def to_json(report: Report) -> str:
    """Write title, findings, notes, the report's facts, and ``tables``: name -> list of rows; nan and infinity are null."""
    content = {
        "title": report.title,
        "findings": report.findings,
        "notes": report.notes,
        **report.facts,
        "tables": {table.name: table.data for table in report.tables},
    }
    return dump_json(content) + "\n"


def dump_json(value: Any) -> str:
    """Write a value as indented JSON: nan and infinity are null, and what a terminal would obey or hide is escaped."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _plain(value: Any) -> Any:
    """Turn a value into what JSON can hold."""
    if isinstance(value, pd.DataFrame):
        return _plain(value.to_dict("records"))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if is_missing(value) or (isinstance(value, float) and math.isinf(value)):
        return None
    return value.item() if hasattr(value, "item") else value if isinstance(value, (str, int, float)) else str(value)


#: Marks that LaTeX's fonts lack.
_LATEX = {"†": r"$\dagger$", "‡": r"$\ddagger$", "≠": r"$\neq$", "<0": "$<$0"}


def to_latex(report: Report) -> str:
    """Write the tables of a report for LaTeX with booktabs."""
    parts = ["% needs \\usepackage{booktabs}"]
    for table in report.tables:
        columns = "".join("r" if right else "l" for right in table.numeric)
        text = table.cells.map(visible).to_latex(index=False, escape=True, column_format=columns)
        for symbol, command in _LATEX.items():
            text = text.replace(symbol, command)
        parts.append(text)
    return "\n".join(parts)


def to_html(reports: Sequence[Report]) -> str:
    """Write one page with all the reports, their figures in it."""
    return fill_page("reports.html.j2", reports=reports, title=reports[0].title)


def fill_page(template: str, **values: Any) -> str:
    """Fill a template; characters that UTF-8 cannot hold are replaced."""
    return templates().get_template(template).render(values).encode("utf-8", "replace").decode("utf-8")


@cache
def templates() -> jinja2.Environment:
    """The environment of our templates; all text is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marks"] = explain_marks
    environment.filters["picture"] = _picture
    environment.tests["nan"] = is_missing
    return environment


def _picture(draw: Callable[[], Any]) -> str:
    """Turn a figure into the address of an image that holds it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(write_figure(draw(), 'svg')).decode()}"
