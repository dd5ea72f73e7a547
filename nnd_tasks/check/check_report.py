"""A report as text for a terminal, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nnd_tasks.check.checking import CheckReport
from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.files import write_text
from nnd_tasks.formats import json_text
from nnd_tasks.markdown import code, table, unlinked
from nnd_tasks.wording import counted

FORMATS = ("text", "markdown", "json")
#: A comment on GitHub holds 65,536 characters.
COMMENT = 60_000


def check_format(form: str) -> None:
    """Raise NNDError where there is no such format."""
    if form not in FORMATS:
        raise NNDError(f"--format {form}: expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")


def render(report: CheckReport, form: str, *, texts: bool = True) -> str:
    """Return a report in one of `FORMATS`, without a line break at the end.

    Args:
        report: what was found.
        form: one of `FORMATS`.
        texts: whether the Markdown, which is meant to be posted, may quote texts of the set.

    Raises:
        NNDError: there is no such format.
    """
    check_format(form)
    if form == "markdown":
        return markdown(report, texts=texts)
    return {"text": text, "json": as_json}[form](report)


def write(content: str, path: Path) -> None:
    """Write a report to a file, whole or not at all.

    Raises:
        NNDError: it cannot be written.
    """
    write_text(path, content + "\n", hint="name another file with --output")


def totals(report: CheckReport) -> str:
    """Return the numbers of findings in words."""
    return ", ".join(counted(report.count(severity), severity.label) for severity in reversed(Severity))


def _tasks(report: CheckReport) -> str:
    if not report.tasks:
        return "no tasks"
    ran = f"{len(report.ran)} of {len(report.tasks)} run on a tiny model" if report.ran else "none run"
    return f"tasks: {', '.join(report.tasks)} ({ran})"


# ---------------------------------------------------------------- text


def text(report: CheckReport) -> str:
    """Return a report for a terminal."""
    lines = [f"{visible(report.name)}  {visible(str(report.folder))}"]
    for name, size in report.sizes.items():
        counts = ", ".join(f"{visible(category)} {count:,}" for category, count in size.categories.items())
        lines.append(
            f"  {visible(name)}: {counted(size.tests, 'test')} of {counted(size.contexts, 'prompt')} ({counts})"
        )
    lines += [f"  {visible(_tasks(report))}", ""]
    for one in report.shown:
        lines += [*_text_of(one), ""]
    return "\n".join([*lines, totals(report)])


def _text_of(one: Finding) -> Iterator[str]:
    yield f"{one.severity.label}: {one.code}{f' [{visible(one.config)}]' if one.config else ''}: {one.message}"
    widths = [max(map(len, column)) for column in zip(*one.table, strict=True)]
    for cells in one.table:
        yield "    " + "  ".join(visible(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    for row in one.rows:
        yield f"    row {row.index}, test {visible(row.test_id) or '?'}{f': {visible(row.detail)}' if row.detail else ''}"
    if one.rows and one.count > len(one.rows):
        yield f"    and {one.count - len(one.rows):,} more"
    yield f"    to do: {one.fix}"


# ---------------------------------------------------------------- Markdown

_TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}


def markdown(report: CheckReport, *, texts: bool = True) -> str:
    """Return a report for a comment on a pull request; text from the data becomes neither formatting nor a link.

    Args:
        report: what was found.
        texts: whether texts of the set may be quoted.
    """
    rows = [
        [
            code(name),
            f"{size.tests:,}",
            f"{size.contexts:,}",
            ", ".join(f"{_plain(category)} {count:,}" for category, count in size.categories.items()),
        ]
        for name, size in report.sizes.items()
    ]
    head = [
        f"## `nnd check`: {_plain(report.name)}",
        "",
        f"**{totals(report).capitalize()}.** {_plain(_tasks(report))}",
        *([] if texts else ["", "Texts are left out: their terms do not let them be passed on."]),
        "",
        *table(["config", "tests", "prompts", "categories"], rows),
    ]
    lines, room = head, COMMENT - sum(map(len, head))
    left = 0
    for severity, title in _TITLES.items():
        blocks: list[str] = []
        for one in report.shown:
            block = "\n".join(_markdown_of(one, texts=texts))
            if one.severity is not severity:
                continue
            if len(block) > room:
                left += 1
                continue
            room -= len(block) + 1
            blocks.append(block)
        if blocks:
            folded = severity is Severity.NOTE
            opening = f"<details><summary>{title}</summary>" if folded else f"### {title}"
            lines += ["", opening, "", *blocks, *(["", "</details>"] if folded else [])]
    if left:
        lines += ["", f"{left} more did not fit here; `nnd check` shows them."]
    return "\n".join(lines)


def _markdown_of(one: Finding, *, texts: bool) -> Iterator[str]:
    where = f" ({code(one.config)})" if one.config else ""
    yield f"- **`{one.code}`**{where}: {_plain(one.message)}. *To do:* {_plain(one.fix)}{'' if one.fix.endswith('?') else '.'}"
    if one.table:
        head, *rows = ([_plain(cell) for cell in cells] for cells in one.table)
        yield from ("", *(f"  {line}" for line in table(head, rows)), "")
    for row in one.rows:
        detail = f": {code(row.detail)}" if row.detail and texts else ""
        yield f"  - row {row.index}, test {code(row.test_id or '?')}{detail}"
    if one.rows and one.count > len(one.rows):
        yield f"  - and {one.count - len(one.rows):,} more"


def _plain(text: str) -> str:
    return unlinked(text, mentions=True)


# ---------------------------------------------------------------- JSON


def as_json(report: CheckReport) -> str:
    """Return a report for programs; its keys are an interface."""
    content: dict[str, Any] = {
        "set": report.name,
        "folder": str(report.folder),
        "configs": {name: asdict(size) for name, size in report.sizes.items()},
        "tasks": report.tasks,
        "ran": report.ran,
        "counts": {severity.label: report.count(severity) for severity in reversed(Severity)},
        "findings": [{**asdict(one), "severity": one.severity.label} for one in report.shown],
    }
    return json_text(content)
