"""A report as text for a terminal, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nnd_tasks.check.checking import Report
from nnd_tasks.check.findings import Finding, Severity, escape
from nnd_tasks.errors import NNDError

FORMATS = ("text", "markdown", "json")
#: A comment on GitHub holds 65,536 characters.
COMMENT = 60_000


def check_format(form: str) -> None:
    """Raise NNDError where there is no such format."""
    if form not in FORMATS:
        raise NNDError(f"--format {form}: expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")


def render(report: Report, form: str) -> str:
    """Return a report in one of `FORMATS`, without a line break at its end.

    Raises:
        NNDError: there is no such format.
    """
    check_format(form)
    return {"text": text, "markdown": markdown, "json": as_json}[form](report)


def write(content: str, path: Path) -> None:
    """Write a report to a file, whole or not at all.

    Raises:
        NNDError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content + "\n")
            Path(new).chmod(0o644)  # mkstemp makes it private
            Path(new).replace(path)
        finally:
            Path(new).unlink(missing_ok=True)
    except OSError as error:
        raise NNDError(f"--output {path}: cannot be written ({error.strerror or error})") from error


def totals(report: Report) -> str:
    """Return the numbers of findings in words."""
    parts = [(report.count(severity), severity.label) for severity in reversed(Severity)]
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in parts)


def _tasks(report: Report) -> str:
    if not report.tasks:
        return "no tasks"
    ran = f"{len(report.ran)} of {len(report.tasks)} run on a tiny model" if report.ran else "none run"
    return f"tasks: {', '.join(report.tasks)} ({ran})"


# ---------------------------------------------------------------- text


def text(report: Report) -> str:
    """Return a report for a terminal."""
    lines = [f"{escape(report.name)}  {escape(str(report.folder))}"]
    for name, size in report.sizes.items():
        counts = ", ".join(f"{escape(category)} {count:,}" for category, count in size.categories.items())
        lines.append(f"  {escape(name)}: {size.tests:,} tests of {size.contexts:,} contexts ({counts})")
    lines += [f"  {escape(_tasks(report))}", ""]
    for one in report.findings:
        lines += [*_text_of(one), ""]
    return "\n".join([*lines, totals(report)])


def _text_of(one: Finding) -> Iterator[str]:
    yield f"{one.severity.label}: {one.code}{f' [{one.config}]' if one.config else ''}: {one.message}"
    for row in one.rows:
        yield f"    row {row.index}, test {escape(row.test_id) or '?'}{f': {row.detail}' if row.detail else ''}"
    if one.rows and one.count > len(one.rows):
        yield f"    and {one.count - len(one.rows):,} more"
    yield f"    to do: {one.fix}"


# ---------------------------------------------------------------- Markdown

_TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}


def markdown(report: Report) -> str:
    """Return a report for a comment on a pull request: what comes from the data is shown as it is, and obeyed by nobody."""
    head = [
        f"## `nnd check`: {_plain(report.name)}",
        "",
        f"**{totals(report).capitalize()}.** {_plain(_tasks(report))}",
        "",
        "| config | tests | contexts | categories |",
        "|---|---|---|---|",
        *[
            f"| {_code(name)} | {size.tests:,} | {size.contexts:,} | "
            f"{', '.join(f'{_plain(category)} {count:,}' for category, count in size.categories.items())} |"
            for name, size in report.sizes.items()
        ],
    ]
    lines, room = head, COMMENT - sum(map(len, head))
    left = 0
    for severity, title in _TITLES.items():
        blocks: list[str] = []
        for one in report.findings:
            block = "\n".join(_markdown_of(one))
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


def _markdown_of(one: Finding) -> Iterator[str]:
    where = f" ({_code(one.config)})" if one.config else ""
    yield f"- **`{one.code}`**{where}: {_plain(one.message)}. *To do:* {_plain(one.fix)}{'' if one.fix.endswith('?') else '.'}"
    for row in one.rows:
        detail = f": {_code(row.detail)}" if row.detail else ""
        yield f"  - row {row.index}, test {_code(row.test_id or '?')}{detail}"
    if one.rows and one.count > len(one.rows):
        yield f"  - and {one.count - len(one.rows):,} more"


def _code(value: str) -> str:
    """Return text as code, on one line, however many backticks it holds."""
    value = escape(value).replace("|", "\u2502")  # a table cell ends at |, even in code
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", value)), default=0))
    pad = " " if value[:1] in ("`", " ", "") or value[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{value}{pad}{fence}"


def _plain(value: str) -> str:
    """Return text whose characters mean themselves; our own `code` stays code."""
    parts = re.split(r"(`[^`]*`)", escape(value))
    return "".join(
        part
        if i % 2
        else re.sub(r"([\\*_\[\]|~#`])", r"\\\1", part).replace("&", "&amp;").replace("<", "&lt;").replace("@", "&#64;")
        for i, part in enumerate(parts)
    )


# ---------------------------------------------------------------- JSON


def as_json(report: Report) -> str:
    """Return a report for programs; its keys are an interface."""
    content: dict[str, Any] = {
        "set": report.name,
        "folder": str(report.folder),
        "configs": {name: asdict(size) for name, size in report.sizes.items()},
        "tasks": report.tasks,
        "ran": report.ran,
        "counts": {severity.label: report.count(severity) for severity in reversed(Severity)},
        "findings": [{**asdict(one), "severity": one.severity.label} for one in report.findings],
    }
    return json.dumps(content, indent=2, ensure_ascii=False)
