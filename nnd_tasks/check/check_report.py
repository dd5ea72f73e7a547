"""What was found in a set, as Markdown (which a terminal draws) and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.formats import json_text
from nnd_tasks.markdown import code, table, unlinked
from nnd_tasks.wording import counted


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
    tasks: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Severity -> number of findings, the worst first."""
        return {one.label: sum(found.severity is one for found in self.findings) for one in reversed(Severity)}

    @property
    def totals(self) -> str:
        """The numbers of findings in words."""
        return ", ".join(counted(number, label) for label, number in self.counts.items())

    @property
    def closed(self) -> bool:
        """Whether the licence of the card may not let its texts be passed on."""
        return any(one.code.startswith("card_license") and one.severity > Severity.NOTE for one in self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """Return the exit status: 2 with errors, 3 with warnings only where those count, else 0."""
        return 2 if self.counts["error"] else 3 if strict and self.counts["warning"] else 0

    def adding(self, findings: Iterable[Finding]) -> CheckReport:
        """Return the report with findings, the worst first."""
        return replace(self, findings=tuple(sorted(findings, key=lambda one: -one.severity)))

    def brief(self) -> CheckReport:
        """Return the report without notes and rows."""
        findings = (replace(one, rows=()) for one in self.findings if one.severity > Severity.NOTE)
        return replace(self, findings=tuple(findings))

    def json(self) -> str:
        """Return the report for programs; its keys are an interface."""
        content = {
            **asdict(self),
            "set": self.name,
            "folder": str(self.folder),
            "counts": self.counts,
            "configs": self.sizes,
        }
        for one in content["findings"]:
            one["severity"] = one["severity"].label
        return json_text({key: value for key, value in content.items() if key not in ("name", "sizes")})

    def markdown(self, *, texts: bool = True) -> str:
        """Return the report in which text from the data becomes neither formatting nor a link.

        Args:
            texts: whether texts of the set may be quoted.
        """
        rows = [
            [code(name), *(f"{size[key]:,}" for key in ("tests", "contexts")), _plain(size["categories"])]
            for name, size in self.sizes.items()
        ]
        lines = [
            f"# `nnd check`: {_plain(self.name)}",
            *("", f"{self.totals.capitalize()}; tasks: {_plain(', '.join(self.tasks) or 'none')}.", ""),
            *table(["config", "tests", "prompts", "categories"], rows),
        ]
        if not texts:
            lines += ["", "Texts are left out: their terms do not let them be passed on."]
        for one in self.findings:
            lines += _blocks(one, texts=texts)
        return "\n".join(lines)


def _plain(value: object) -> str:
    text = ", ".join(f"{name} {count:,}" for name, count in value.items()) if isinstance(value, dict) else str(value)
    return unlinked(text, mentions=True)


def _blocks(one: Finding, *, texts: bool) -> Iterator[str]:
    where = f" ({code(one.config)})" if one.config else ""
    yield from (
        "",
        f"**{one.severity.label}** `{one.code}`{where}: {_plain(one.message)}. To do: {_plain(one.fix)}.",
        "",
    )
    if one.table:
        yield from table([*map(_plain, one.table[0])], [[*map(_plain, row.values())] for row in one.table])
    for row in one.rows:
        yield f"- row {row.index}, test {code(row.test_id or '?')}{f': {code(row.detail)}' if row.detail and texts else ''}"
    if one.rows and one.count > len(one.rows):
        yield f"- and {one.count - len(one.rows):,} more"
