"""The tables of `nnd compare --adjust`: raw rates beside those with length and word frequency taken out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nnd_tasks.analysis.compare.adjusted import ADJUSTED, RAW, TAKEN_OUT, Adjusted, Coefficient
from nnd_tasks.analysis.compare.paired import Rate
from nnd_tasks.formats import TextTable, number
from nnd_tasks.markdown import unlinked

#: Model -> what length and frequency do to its rates.
ByModel = Mapping[str, Adjusted]
#: Rate -> heading of its column.
_HEADS = {"pass_rate": "by token", "pass_rate_sum": "by sum", "pass_rate_bytes": "by byte", ADJUSTED: "adjusted"}


def rate_cell(rate: Rate) -> str:
    """Return a rate with its interval for a table."""
    return f"{number(rate.rate)} [{number(rate.low)}, {number(rate.high)}]" if not math.isnan(rate.rate) else "-"


def _signed(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "-"
    ends = "no interval" if math.isnan(low) else ", ".join(number(end, signed=True) for end in (low, high))
    return f"{number(value, signed=True)} [{ends}]"


def adjusted_table(adjusted: ByModel) -> TextTable:
    """Return a row per category and model: its rates, and how far the adjusted one is from the one by token."""
    categories = next(iter(adjusted.values())).rates
    rows = []
    for category in categories:
        for model, one in adjusted.items():
            change = one.changes.get(category)
            change_cell = _signed(change.difference, change.low, change.high) if change else "-"
            cells = [rate_cell(one.rates[category][name]) for name in _HEADS]
            rows.append([category, model, *cells, change_cell])
    return TextTable(["category", "model", *_HEADS.values(), "adjusted - by token"], rows, names=2)


def link_table(adjusted: ByModel) -> TextTable:
    """Return a row per model: its coefficients, and how often the longer text wins."""
    nothing = Coefficient(math.nan, math.nan, math.nan)
    rows = []
    for model, one in adjusted.items():
        found = [one.coefficients.get(name, nothing) for name in TAKEN_OUT]
        shares = [number(one.longer.get(name, math.nan)) for name in _HEADS]
        rows.append([model, *(_signed(c.value, c.low, c.high) for c in found), *shares, number(one.better_longer)])
    units = ["nats per token", "per nat of unigram surprise"]
    return TextTable(["model", *units, *(f"longer wins {head}" for head in _HEADS.values()), "longer is better"], rows)


def adjusted_lines(adjusted: ByModel) -> list[str]:
    """Return the tables in Markdown, with what is needed to read them; nothing without models."""
    if not adjusted:
        return []
    lines = [
        "Length and word frequency taken out. By token, by sum, by byte: the likelihoods that are compared. Adjusted: by sum, "
        "less what so many tokens, and so rare ones, cost this model in the other prompts; a tie counts half. 95% intervals, "
        "clustered by prompt, with the noise of what was learned. What a model knows is taken out too as far as it grows with "
        "the difference in length, as where it notices each word that was left out:",
        "",
        *adjusted_table(adjusted).markdown(),
        "What was learned (95% intervals), and in how many of the tests whose texts differ in tokens the longer text wins, or is "
        "the better one:",
        "",
        *link_table(adjusted).markdown(),
    ]
    notes = [f"- {unlinked(model)}: {note}" for model, one in adjusted.items() for note in one.notes]
    return [*lines, *notes, *([""] if notes else [])]


def adjusted_cells(adjusted: ByModel, model: str, category: str) -> dict[str, float]:
    """Return the rates of a model on a category as cells of a row; the one by token is there already."""
    if model not in adjusted:
        return {}
    rates = adjusted[model].rates[category]
    names = [name for name in (*RAW, ADJUSTED) if name != "pass_rate"]
    return {f"{name}{end}": value for name in names for end, value in _flat(rates[name]).items()}


def _flat(rate: Rate) -> dict[str, float]:
    return {"": rate.rate, "_low": rate.low, "_high": rate.high}


def as_data(one: Adjusted) -> dict[str, Any]:
    """Return everything for JSON."""
    return {
        "coefficients": {name: asdict(value) for name, value in one.coefficients.items()},
        "categories": {
            category: {
                **{name: asdict(rate) for name, rate in rates.items()},
                "change": asdict(one.changes[category]) if category in one.changes else None,
            }
            for category, rates in one.rates.items()
        },
        "longer_wins": dict(one.longer),
        "longer_is_better": one.better_longer,
        "notes": one.notes,
    }
