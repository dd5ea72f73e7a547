"""`nnd_tasks.analysis.familiarity.familiarity` as tables and files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from nnd_tasks.analysis.compare.output import FEW_NOTE, between, few, write_each
from nnd_tasks.analysis.familiarity.familiarity import Effect, Familiarity
from nnd_tasks.analysis.familiarity.own import Estimate, Own
from nnd_tasks.analysis.power import LEVEL
from nnd_tasks.formats import TextTable, csv_text, json_text, number, p_value
from nnd_tasks.markdown import unlinked
from nnd_tasks.wording import counted

_READING = (
    "Nats per token: mean log-likelihood per token of a system's texts less that of the other systems' texts, where people "
    "judged both alike. Intervals are clustered by prompt; p is corrected over all rows (Holm). This is what a model likes, not "
    "why: style, length and what the judgement does not see count too."
)
_OWN = (
    "Beyond the others: what the model likes its own texts more than the other models of the table do. Without: the pass rate "
    "with the familiarity taken off the scores of own texts; gained: the rate less that."
)


def shown(value: float, low: float, high: float) -> str:
    """Return an estimate with its interval for a table."""
    if math.isnan(value):
        return "-"
    return f"{number(value, signed=True)} [{between(low, high)}]"


def effects_table(effects: Sequence[Effect]) -> TextTable:
    """Return a row per model and system, what each model likes most first."""
    rows = [
        [
            *(one.model, one.system, f"{one.texts:,}", f"{one.prompts:,}{few(one.prompts)}"),
            number(one.value, signed=True),
            between(one.low, one.high),
            "-" if math.isnan(one.p_holm) else p_value(one.p_holm),
        ]
        for one in in_order(effects)
    ]
    return TextTable(
        ["model", "system", "texts", "prompts", "nats per token", "95% interval", "p (Holm)"], rows, names=2
    )


def in_order(effects: Sequence[Effect]) -> list[Effect]:
    """Return effects by model, what each likes most first, what is not known last."""
    models = list(dict.fromkeys(one.model for one in effects))
    return sorted(effects, key=lambda one: (models.index(one.model), math.isnan(one.value), -one.value, one.system))


def findings(found: Familiarity) -> list[Effect]:
    """Return the effects that are shown: p (Holm) below 0.05."""
    return [one for one in in_order(found.effects) if one.p_holm < LEVEL]


def own_table(own: Sequence[Own]) -> TextTable:
    """Return a row per model with texts of its own."""
    rows = [
        [
            *(one.model, ", ".join(one.systems), shown(*one.familiarity), shown(*one.beyond)),
            *(number(part.rate) if part.tests else "-" for part in one.parts),
            number(one.rate),
            _rate(one.without),
            shown(*one.gained),
        ]
        for one in own
    ]
    head = [
        "model",
        "own texts",
        "familiarity",
        "beyond the others",
        "own is better",
        "own is worse",
        "neither or both",
    ]
    return TextTable([*head, "pass rate", "without", "gained"], rows, names=2)


def parts_table(own: Sequence[Own]) -> TextTable:
    """Return a row per model and part of the tests."""
    rows = [
        [
            *(one.model, part.which, f"{part.tests:,}", f"{part.prompts:,}{few(part.prompts)}"),
            *(number(part.rate), _interval(part.low, part.high)),
        ]
        for one in own
        for part in one.parts
        if part.tests
    ]
    return TextTable(["model", "tests", "number", "prompts", "pass rate", "95% interval"], rows, names=2)


def _rate(estimate: Estimate) -> str:
    value, low, high = estimate
    return "-" if math.isnan(value) else f"{number(value)} [{_interval(low, high)}]"


def _interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"{number(low)} to {number(high)}"


def markdown(found: Familiarity) -> str:
    """Return all tables of a set, with what is needed to read them."""
    texts = f"{counted(found.texts, 'text')} of {counted(found.prompts, 'prompt')}"
    lines = [
        f"# {unlinked(found.paired.title)}: familiarity",
        "",
        f"Compared within {found.basis}: {texts}.",
        "",
        _READING,
    ]
    lines += ["", *effects_table(found.effects).markdown()]
    if found.own:
        lines += [_OWN, "", *own_table(found.own).markdown(), *parts_table(found.own).markdown()]
    prompts = [one.prompts for one in found.effects] + [
        part.prompts for one in found.own for part in one.parts if part.tests
    ]
    if any(map(few, prompts)):
        lines += [FEW_NOTE, ""]
    lines += [f"{unlinked(note)}\n" for note in found.notes]
    return "\n".join(lines)


def to_json(found: Familiarity) -> str:
    """Return everything as JSON; nan as null."""
    content = {
        "set": found.paired.set,
        "task": found.paired.title,
        "basis": found.basis,
        "texts": found.texts,
        "prompts": found.prompts,
        "signatures": {run.model: run.line for run in found.paired.runs},
        "effects": [asdict(one) for one in in_order(found.effects)],
        "own": [asdict(one) for one in found.own],
        "notes": found.notes,
    }
    return json_text(content) + "\n"


def to_csv(found: Familiarity) -> str:
    """Return a row per model and system."""
    return csv_text([{"task": found.paired.title, **asdict(one)} for one in in_order(found.effects)])


def write_familiarity(found: Sequence[Familiarity], folder: Path) -> list[Path]:
    """Write Markdown, CSV and JSON of each set into a folder, all files or none; return them.

    Raises:
        NNDError: the folder cannot be written.
    """
    return write_each(
        found, folder, lambda one: f"familiarity_{one.paired.title}", {"md": markdown, "csv": to_csv, "json": to_json}
    )
