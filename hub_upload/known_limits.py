"""The section of a card on the limits of a set, from the numbers of the set itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from nnd_tasks.baselines import ALL, table_rates
from nnd_tasks.card import Card
from nnd_tasks.card_sections import BASELINES_HEADING, baselines_section
from nnd_tasks.markdown import cell
from nnd_tasks.schema import fold
from nnd_tasks.statistics import FEW
from nnd_tasks.wording import counted, some_of

HEADING = "Known limits"
_NEAR_ALL = 0.8  # pass rate of a baseline from which a category says little
_SHOWN = 8  # categories that are named


def add_missing(card: Card, tables: Mapping[str, pa.Table], reports: Mapping[str, Any]) -> None:
    """Put the rates of baselines and the known limits on a card that does not have them."""
    rates = {config: _rates(table, reports.get(config, {})) for config, table in tables.items()}
    if not {BASELINES_HEADING, "What trivial rules reach"} & card.sections.keys():
        lines = baselines_section({config: {"trivial_rules": by_category} for config, by_category in rates.items()})
        card.put(BASELINES_HEADING, lines)
    if HEADING not in card.sections:
        report: Mapping[str, Any] = next(iter(reports.values()), {})
        made = "synthetic" if "corpus" in report else "made" if report.get("errors") == "made" else "judged"
        card.put(HEADING, known_limits(tables, rates, errors=made))


def _rates(table: pa.Table, report: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
    known = report.get("trivial_rules")
    if isinstance(known, Mapping):
        return known
    return table_rates(table)


def known_limits(
    tables: Mapping[str, pa.Table], rates: Mapping[str, Mapping[str, Mapping[str, float]]], *, errors: str
) -> list[str]:
    """Return one line per limit.

    Args:
        tables: config -> its tests.
        rates: config -> category -> baseline -> pass rate.
        errors: ``synthetic`` (put in by a program of ours), ``made`` (put in on purpose) or ``judged``.
    """
    what = {"synthetic": "synthetic", "made": "made on purpose"}
    lines = [
        f"- The errors are {what[errors]}: rates say which of them a model notices, not how it ranks texts that systems write."
        if errors in what
        else "- Rates say how a model ranks the texts of the systems that were judged, and the judgements are those of "
        "the people asked then. They extend a human evaluation, they do not replace one."
    ]
    for config, table in tables.items():
        columns = table.select(["cluster_id", "high", "low", "category"]).to_pydict()
        lines += _few(config, columns)
        equal = sum(fold(high) == fold(low) for high, low in zip(columns["high"], columns["low"], strict=True))
        if equal:
            lines.append(f"- `{config}`: {counted(equal, 'test')} with two equal texts, which no model passes.")
    return [*lines, *_passed_by_baselines(rates)]


def _few(config: str, columns: Mapping[str, list[str]]) -> list[str]:
    clusters: dict[str, set[str]] = {}
    for category, cluster in zip(columns["category"], columns["cluster_id"], strict=True):
        clusters.setdefault(category, set()).add(cluster)
    few = [f"{cell(category)} ({len(ids)})" for category, ids in sorted(clusters.items()) if len(ids) < FEW]
    return (
        [f"- `{config}`: fewer than {FEW} distinct prompts, so no reliable error bar: {', '.join(few)}."] if few else []
    )


def _passed_by_baselines(rates: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    passing = [
        (rate, f"`{config}` {cell(category)}: `{rule}` {rate:.2f}")
        for config, by_category in rates.items()
        for category, by_rule in by_category.items()
        if category != ALL
        for rule, rate in by_rule.items()
        if rate >= _NEAR_ALL
    ]
    if not passing:
        return []
    shown = some_of([text for _, text in sorted(passing, key=lambda item: -item[0])], _SHOWN, str)
    return [f"- A baseline, which reads no meaning, passes most tests of: {shown}."]
