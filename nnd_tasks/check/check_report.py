"""A report as text for a terminal, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.formats import json_text
from nnd_tasks.markdown import code, table, unlinked
from nnd_tasks.wording import counted

FORMATS = ("text", "markdown", "json")
#: A comment on GitHub holds 65,536 characters.
COMMENT = 60_000


@dataclass(frozen=True, slots=True)
class Size:
    """Counts of one config.

    Attributes:
        tests: rows.
        contexts: number of prompts (the JSON key is `contexts`).
        categories: category -> tests.
    """

    tests: int
    contexts: int
    categories: dict[str, int]

    @classmethod
    def of(cls, tests: pd.DataFrame) -> Size:
        """Count the tests of a config."""
        categories = {name: int(count) for name, count in tests["category"].value_counts().sort_index().items()}
        return cls(len(tests), tests["cluster_id"].nunique(), categories)

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count:,}" for name, count in self.categories.items())
        return f"{counted(self.tests, 'test')} of {counted(self.contexts, 'prompt')} ({counts})"


@dataclass
class CheckReport:
    """What was found in a set.

    Attributes:
        name: of the set.
        folder: where it is.
        sizes: config -> counts; configs without readable columns are not in it.
        tasks: names of the tasks that read the set.
        findings: the worst first.
    """

    name: str
    folder: Path
    sizes: Mapping[str, Size]
    tasks: list[str]
    findings: list[Finding] = field(default_factory=list)

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(one.severity is severity for one in self.findings)

    def totals(self) -> str:
        """Return the numbers of findings in words."""
        return ", ".join(counted(self.count(severity), severity.label) for severity in reversed(Severity))

    @property
    def closed(self) -> bool:
        """Whether the licence of the card may not let its texts be passed on."""
        return any(one.code.startswith("card_license") and one.severity > Severity.NOTE for one in self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """Return the exit status: 2 with errors, 3 with warnings only where those count, else 0."""
        return 2 if self.count(Severity.ERROR) else 3 if strict and self.count(Severity.WARNING) else 0


def check_format(form: str) -> None:
    """Raise NNDError where there is no such format."""
    if form not in FORMATS:
        raise NNDError(f"--format {form}: expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")


def render_report(report: CheckReport, form: str, *, texts: bool = True, brief: bool = False) -> str:
    """Return a report in one of `FORMATS`, without a line break at the end.

    Args:
        report: what was found.
        form: one of `FORMATS`.
        texts: whether the Markdown, which is meant to be posted, may quote texts of the set.
        brief: show no notes and no rows; they count all the same.
    """
    findings = report.findings
    if brief:
        findings = [replace(one, rows=()) for one in findings if one.severity > Severity.NOTE]
    if form == "json":  # its keys are an interface
        content: dict[str, Any] = {
            "set": report.name,
            "folder": str(report.folder),
            "configs": {name: asdict(size) for name, size in report.sizes.items()},
            "tasks": report.tasks,
            "counts": {severity.label: report.count(severity) for severity in reversed(Severity)},
            "findings": [{**asdict(one), "severity": one.severity.label} for one in findings],
        }
        return json_text(content)
    return "\n".join(_markdown(report, findings, texts=texts) if form == "markdown" else _text(report, findings))


def _text(report: CheckReport, findings: list[Finding]) -> Iterator[str]:
    yield visible(f"{report.name}  {report.folder}")
    for name, size in report.sizes.items():
        yield visible(f"  {name}: {size}")
    yield visible(f"  tasks: {', '.join(report.tasks) or 'none'}")
    yield ""
    for one in findings:
        yield visible(f"{one.severity.label}: {one.code}{f' [{one.config}]' if one.config else ''}: {one.message}")
        if one.table:
            yield from (f"    {visible(line)}" for line in pd.DataFrame(one.table).to_string(index=False).split("\n"))
        yield from (f"    {line}" for line in _rows(one, lambda text: visible(text)))
        yield f"    to do: {one.fix}"
        yield ""
    yield report.totals()


def _rows(one: Finding, show: Any, *, texts: bool = True) -> Iterator[str]:
    for row in one.rows:
        yield f"row {row.index}, test {show(row.test_id or '?')}{f': {show(row.detail)}' if row.detail and texts else ''}"
    if one.rows and one.count > len(one.rows):
        yield f"and {one.count - len(one.rows):,} more"


def _plain(text: object) -> str:
    return unlinked(str(text), mentions=True)


def _markdown(report: CheckReport, findings: list[Finding], *, texts: bool) -> Iterator[str]:
    """Yield a comment on a pull request; text from the data becomes neither formatting nor a link."""
    yield f"## `nnd check`: {_plain(report.name)}\n\n**{report.totals().capitalize()}.**\n"
    if not texts:
        yield "Texts are left out: their terms do not let them be passed on.\n"
    yield from (f"- {code(name)}: {_plain(size)}" for name, size in report.sizes.items())
    yield f"- tasks: {_plain(', '.join(report.tasks) or 'none')}"
    room = COMMENT
    for one in findings:
        where = f" ({code(one.config)})" if one.config else ""
        block = [f"\n**{one.severity.label} `{one.code}`**{where}: {_plain(one.message)}. *To do:* {_plain(one.fix)}\n"]
        if one.table:
            block += table([*map(_plain, one.table[0])], [[*map(_plain, row.values())] for row in one.table])
        block += [f"- {line}" for line in _rows(one, code, texts=texts)]
        room -= sum(map(len, block)) + len(block)
        if room < 0:
            yield "\nMore did not fit here; `nnd check` shows it."
            return
        yield from block
