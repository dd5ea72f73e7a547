"""A `Report` as Markdown, CSV, JSON, LaTeX and HTML."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nnd_tasks.errors import visible
from nnd_tasks.show.figures import write_figure
from nnd_tasks.show.report import Report, Table, is_missing, numeric_columns
from nnd_tasks.text import escape_cell, escape_markdown

if TYPE_CHECKING:
    import jinja2


def to_markdown(report: Report, *, files: bool = True) -> str:
    """Write a report as Markdown.

    Args:
        report: to be written.
        files: with what is only written to files: signatures.
    """
    lines = [f"# {escape_markdown(report.title)}", "", *_bullets(report.findings)]
    for table in report.tables:
        lines += [*([table.caption, ""] if table.caption else []), *markdown_table(table), ""]
    lines += _bullets([*report.explain_marks(report.tables), *report.notes, *(report.signatures if files else ())])
    return "\n".join(lines).rstrip() + "\n"


def _bullets(lines: Sequence[str]) -> list[str]:
    return [*(f"- {escape_markdown(line)}" for line in lines), ""] if lines else []


def markdown_table(table: Table) -> list[str]:
    """The lines of a table in Markdown."""
    cells = table.cells()
    rule = ["---:" if right else "---" for right in numeric_columns(cells)]
    rows = [cells.columns, *cells.to_numpy().tolist()]
    head, *body = (f"| {' | '.join(map(escape_cell, row))} |" for row in rows)
    return [head, f"|{'|'.join(rule)}|", *body]


def to_csv(table: Table) -> str:
    """Write the values of a table as CSV; missing ones are empty."""
    return str(table.data.to_csv(index=False, lineterminator="\n"))


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
        cells = table.cells().map(visible)
        columns = "".join("r" if right else "l" for right in numeric_columns(cells))
        text = cells.to_latex(index=False, escape=True, column_format=columns)
        for symbol, command in _LATEX.items():
            text = text.replace(symbol, command)
        parts.append(text)
    return "\n".join(parts)


def to_html(reports: Sequence[Report]) -> str:
    """Write one page with all the reports, their figures in it."""
    return render("reports.html.j2", reports=reports, title=reports[0].title)


def render(template: str, **values: Any) -> str:
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
    environment.filters["numeric"] = numeric_columns
    environment.filters["picture"] = _picture
    environment.tests["nan"] = is_missing
    return environment


def _picture(draw: Callable[[], Any]) -> str:
    """Turn a figure into the address of an image that holds it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(write_figure(draw(), 'svg')).decode()}"
