"""Tables of what a search for errors found, and whom else its errors fool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from nnd_tasks.formats import number
from nnd_tasks.markdown import table as markdown_table
from nnd_tasks.statistics import confidence_interval
from nnd_tasks.stress.attack import Found
from nnd_tasks.stress.corpora import Gold
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted

#: Changes that the card lists for each search, the most frequent first.
_LISTED = 8


@dataclass(frozen=True)
class Attack:
    """What one search found against one model.

    Attributes:
        model: name of the model.
        search: a key of `SEARCHES`.
        texts: gold texts that were tried.
        too_long: gold texts that do not fit the model's window with their source, which were not.
        found: gold text -> what was found.
    """

    model: str
    search: str
    texts: int
    too_long: int
    found: Mapping[Gold, Found]

    @property
    def rate(self) -> tuple[float, float, float]:
        """Share of the texts for which an error was found, and its 95% interval."""
        hits = [1] * len(self.found) + [0] * (self.texts - len(self.found))
        return (len(self.found) / self.texts, *confidence_interval(hits, [1] * self.texts))

    def common(self) -> list[tuple[str, int]]:
        """Return the most frequent changes."""
        counts = Counter(step for found in self.found.values() for step in found.steps)
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_LISTED]


def attack_table(attacks: Sequence[Attack]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table of the searches."""
    head = ["model", "search", "texts", "found", "95% interval", "gain, nats per token", "noise ratio", "most frequent"]
    rows = []
    for attack in attacks:
        rate, low, high = attack.rate
        found = attack.found.values()
        means = [
            fmean(values) if found else float("nan") for values in ([f.gain for f in found], [f.noise for f in found])
        ]
        common = ", ".join(f"{what} ({count})" for what, count in attack.common()[:4])
        interval = f"{number(low)} to {number(high)}"
        rows.append(
            [attack.model, attack.search, f"{attack.texts:,}", number(rate), interval, *map(number, means), common]
        )
    return head, rows


def transfer_table(
    transfer: Mapping[tuple[str, str], tuple[float, float, float]], names: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table: attacked model by scoring model, shares of errors that the second prefers too."""
    head = ["found against", *names]
    rows = []
    for attacked in names:
        cells = []
        for scoring in names:
            rate = transfer.get((attacked, scoring))
            cells.append(f"{number(rate[0])} ({number(rate[1])} to {number(rate[2])})" if rate else "-")
        rows.append([attacked, *cells])
    return head, rows


def card_lines(
    summary: ConfigSummary,
    attacks: Sequence[Attack],
    transfer: Mapping[tuple[str, str], tuple[float, float, float]],
    names: Sequence[str],
) -> tuple[str, ...]:
    """Return lines for the card on how the tests were made."""
    return (
        f"{counted(summary.tests, 'test')}: for each gold text the smallest change, in as few greedy steps as possible, that a "
        "model prefers to the text (He et al., ACL 2023, appendix J). `category` is the model that was attacked, which fails "
        "these tests by construction; `subcategory` is the search: `errors` combines the error types of the stress sets, "
        "`edits` deletes and replaces words.",
        "",
        *markdown_table(*attack_table(attacks)),
        "",
        "Share of the errors found against a model (rows) that a model (columns) prefers too:",
        "",
        *markdown_table(*transfer_table(transfer, names)),
    )
