"""What was found in a set, as Markdown (which a terminal draws) and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jinja2.sandbox import SandboxedEnvironment

from nnd_tasks.contribute.check.rules import Finding, Severity
from nnd_tasks.errors import visible
from nnd_tasks.show.forms import dump_json
from nnd_tasks.text import code, counted, escape_links


@dataclass(frozen=True)
class CheckReport:
    """What was found in a set.

    Attributes:
        name: of the set.
        folder: where it is.
        sizes: config -> number of tests, of prompts (its key is ``contexts``), and of tests by category; configs without readable
            columns are not in it.
        tasks: names of the tasks that read the set.
        findings: the worst first.
    """

    name: str
    folder: Path
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    findings: Sequence[Finding] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Severity -> number of findings, the worst first."""
        return {one.label: sum(found.severity is one for found in self.findings) for one in reversed(Severity)}

    @property
    def totals(self) -> str:
        """The numbers of findings in words."""
        return ", ".join(counted(number, label) for label, number in self.counts.items())

    def exit_code(self, *, strict: bool = False) -> int:
        """Return the exit status: 2 with errors, 3 with warnings only where those count, else 0."""
        return 2 if self.counts["error"] else 3 if strict and self.counts["warning"] else 0

    def json(self) -> str:
        """Return the report for programs; its keys are an interface."""
        findings = [{**asdict(one), "severity": one.severity.label} for one in self.findings]
        content = {"set": self.name, "folder": str(self.folder), "configs": self.sizes, "tasks": self.tasks}
        return dump_json({**content, "counts": self.counts, "findings": findings})

    def markdown(self, *, texts: bool = True, rendered: bool = True) -> str:
        """Return the report as Markdown.

        Args:
            texts: whether texts of the set may be quoted.
            rendered: escape text from the data, so that it becomes neither formatting nor a link; a terminal shows it as it is.
        """
        page = SandboxedEnvironment(autoescape=False)
        escape = partial(escape_links, mentions=True) if rendered else visible
        page.filters |= {"plain": lambda value: escape(str(value)), "code": code}
        template = page.from_string(Path(__file__).with_name("report.md.jinja").read_text("utf-8"))
        return template.render(vars(self), totals=self.totals, texts=texts)
