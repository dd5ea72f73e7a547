"""`nnd_tasks.analysis.signal.signals` as tables and files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nnd_tasks.analysis.compare.output import write_each
from nnd_tasks.analysis.signal.measures import BITS, MARGIN, PASS_RATE
from nnd_tasks.analysis.signal.signals import KEPT, SetSignals
from nnd_tasks.baselines import ALL
from nnd_tasks.formats import TextTable, csv_text, json_text, number, p_value
from nnd_tasks.markdown import code, unlinked
from nnd_tasks.statistics import FEW
from nnd_tasks.wording import some_of

_SIGNALS = (
    "Signal: the best model less the worst. Noise of prompts: what other prompts would change; of steps: what the next "
    "checkpoint would, beyond that. SNR: signal over both."
)
_VERDICTS = (
    "In order: of the pairs of models of which one should be better, those where it is. Apart: pairs told apart at 0.05, of all "
    "pairs; one in twenty is by chance. Chosen: p on half of the prompts; confirmed: p of the same on the other half (one-sided, "
    f"Holm). Sample: prompts that keep {KEPT:.0%} of the pairs told apart.",
    "Verdict: better - models that should be better are; worse - they are worse; mixed - two models differ, and the order as "
    "a whole is not shown; not confirmed - half of the prompts or all together show something, not both halves; noise - "
    f"nothing is shown; too few prompts - fewer than {FEW} in a half.",
)


def signals_table(found: SetSignals) -> TextTable:
    """Return a row per category and measure: what the models differ by, and the noise."""
    head = [
        "category",
        "measure",
        "prompts",
        "worst model",
        "best model",
        "signal",
        "noise: prompts",
        "noise: steps",
        "SNR",
    ]
    rows = []
    for one in found.signals:
        ends = sorted(one.values.values(), reverse=one.measure == BITS)
        numbers = [number(value) for value in (ends[0], ends[-1], one.signal)]
        noises = [number(value, 4) for value in (one.noise_prompts, one.noise_steps)]
        rows.append([one.category, one.measure, f"{one.prompts:,}", *numbers, *noises, number(one.snr, 1)])
    return TextTable(head, rows, names=2)


def verdicts_table(found: SetSignals) -> TextTable:
    """Return a row per category and measure: what is shown, and on how few prompts."""
    head = ["category", "measure", "in order", "apart", "chosen", "confirmed", "verdict", "sample"]
    rows = []
    for one in found.signals:
        counts = [f"{one.in_order}/{one.ordered}", f"{one.apart}/{one.pairs}"]
        p_values = ["-" if math.isnan(p) else p_value(p) for p in (one.p_chosen, one.p_confirmed)]
        sample = "-" if one.sample is None else f"{one.sample:,}"
        rows.append([one.category, one.measure, *counts, *p_values, one.verdict, sample])
    return TextTable(head, rows, names=2)


def advantages_table(found: SetSignals) -> TextTable:
    """Return a row per category: how well each measure tells the models apart, and whether the margin is the better one."""
    noise = {(one.category, one.measure): one.signal / one.noise_prompts for one in found.signals if one.noise_prompts}
    rows = [
        [
            one.category,
            *(number(noise.get((one.category, measure), math.nan), 1) for measure in (PASS_RATE, MARGIN, BITS)),
            number(one.ratio, 2),
            "-" if math.isnan(one.low) else f"{number(one.low, 2)} to {number(one.high, 2)}",
            one.better or "not shown",
        ]
        for one in found.advantages
    ]
    return TextTable(["category", PASS_RATE, MARGIN, BITS, f"{MARGIN} / {PASS_RATE}", "95% interval", "better"], rows)


def conclusions(found: SetSignals) -> list[str]:
    """Return a line on what is worth running, one on what is not, and one on the smallest sample; names are escaped."""
    worth = found.worth_running()
    categories = list(dict.fromkeys(one.category for one in found.signals if one.category != ALL))
    rest = [category for category in categories if category not in worth]
    by = [
        f"{unlinked(category)} (by {' and '.join(one.measure for one in shown)})" for category, shown in worth.items()
    ]
    other = [f"{unlinked(category)} ({_why_not(found, category)})" for category in rest]
    lines = [
        f"Worth running: {some_of(by, 50, str) or 'no category'}.",
        f"Not shown to be: {some_of(other, 50, str) or 'none'}.",
    ]
    sample = found.sample()
    if sample is not None and sample < found.prompts:
        command = code(f"nnd run ... --tasks {found.paired.runs[0].task} --sample {sample}", in_table=False)
        lines.append(
            f"Keeps {KEPT:.0%} of the pairs told apart on each of them, by its better measure: {command} (of {found.prompts:,})."
        )
    elif sample is not None:
        lines.append(
            f"No sample smaller than all {found.prompts:,} prompts keeps {KEPT:.0%} of the pairs told apart on each of them."
        )
    return lines


def _why_not(found: SetSignals, category: str) -> str:
    """Return the verdicts on a category by pass rate and margin, as one where they agree."""
    verdicts = {one.measure: one.verdict for one in found.signals if one.category == category and one.measure != BITS}
    return (
        verdicts[MARGIN] if len(set(verdicts.values())) == 1 else ", ".join(f"{v} by {m}" for m, v in verdicts.items())
    )


def markdown(found: SetSignals) -> str:
    """Return the tables of a family on a set, with what is needed to read them."""
    family = found.family
    lines = [f"# {unlinked(found.paired.title)}: signal and noise of {unlinked(family.name)}", ""]
    lines += [f"Should be better, from left to right: {unlinked('; '.join(family.orders))}.", ""]
    lines += [f"{unlinked(note)}\n" for note in found.notes]
    lines += [_SIGNALS, "", *signals_table(found).markdown()]
    lines += [f"{line}\n" for line in _VERDICTS]
    lines += verdicts_table(found).markdown()
    lines += ["Signal over noise of prompts, and how many times as large it is by margin as by pass rate:", ""]
    lines += advantages_table(found).markdown()
    lines += [f"- {line}" for line in conclusions(found)]
    return "\n".join(lines) + "\n"


def to_csv(found: SetSignals) -> str:
    """Return a row per category, measure and model."""
    rows: list[dict[str, Any]] = []
    for one in found.signals:
        about = {"task": found.paired.title, "family": found.family.name, **asdict(one)}
        values = about.pop("values")
        rows += [{**about, "model": model, "value": value} for model, value in values.items()]
    return csv_text(rows)


def to_json(found: SetSignals) -> str:
    """Return everything as JSON; nan as null."""
    content = {
        "set": found.paired.set,
        "task": found.paired.title,
        "family": found.family.name,
        "orders": found.family.orders,
        "signatures": {
            found.paired.runs[column].model: found.paired.runs[column].line for column in found.family.columns
        },
        "notes": found.notes,
        "prompts": found.prompts,
        "worth_running": list(found.worth_running()),
        "sample": found.sample(),
        "signals": [asdict(one) for one in found.signals],
        "advantages": [asdict(one) for one in found.advantages],
    }
    return json_text(content) + "\n"


def write_signals(found: Sequence[SetSignals], folder: Path) -> list[Path]:
    """Write Markdown, CSV and JSON of each set and family, all files or none; return the files.

    Raises:
        NNDError: the folder cannot be written.
    """
    return write_each(
        found,
        folder,
        lambda one: f"signal_{one.paired.title}_{one.family.name}",
        {"md": markdown, "csv": to_csv, "json": to_json},
    )
