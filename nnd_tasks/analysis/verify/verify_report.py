"""Tables of a verification beside the paper's: Markdown, JSON and CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks import __version__
from nnd_tasks.analysis.verify.verification import AVERAGE, DESIGNS, Estimate, published
from nnd_tasks.analysis.verify.verify_sets import CELLS, SETS, UNREACHABLE, SetReport
from nnd_tasks.files import expand, write_texts
from nnd_tasks.formats import TextTable, csv_text, json_text, number
from nnd_tasks.wording import counted

#: The paper prints two digits: a value that rounds to its value, or to a neighbouring one, agrees.
AGREES = 0.015
_HALF_UNIT = 0.005
_INTERVALS = (
    "Intervals are 95% percentile bootstraps (Deutsch et al., TACL 2021). *Prompts*: other {what}, the same models. *Both*: "
    "other models too; with so few models this interval is wide. A resample breaks near ties, so a value may lie close to one "
    "end."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the paper's Table 1 beside ours.

    Attributes:
        name: column and row, as in the paper.
        scorer: our name of what scored.
        statistic: ``tau`` or ``r``.
        paper: the printed value.
        ours: the value that is computed here; for ``r`` over both orders of each pair of models.
        in_order: for ``r``, with each pair once, in the order of the models; None for ``tau``.
    """

    name: str
    scorer: str
    statistic: str
    paper: float
    ours: Estimate
    in_order: float | None

    @property
    def difference(self) -> float:
        """Ours less the paper's."""
        return self.ours.value - self.paper

    @property
    def agrees(self) -> bool:
        """Whether both are at most one unit of the last printed digit apart."""
        return abs(self.difference) < AGREES


def paper_value(set_name: str, scorer: str, statistic: str) -> float | None:
    """Return what the paper's Table 1 prints; None where it has no such cell."""
    table = published()["table_1"]
    row = table["rows"].get(CELLS.get(scorer, ""))
    column = f"{SETS[set_name]} {statistic}"
    return None if row is None or column not in table["columns"] else float(row[table["columns"].index(column)])


def cells(reports: Sequence[SetReport]) -> list[Cell]:
    """Return the cells of the paper's Table 1 that were computed here."""
    reached = []
    for report in reports:
        for one in report.verifications:
            for statistic in ("tau", "r"):
                paper = paper_value(report.name, one.scorer, statistic)
                if paper is not None:
                    ours: Estimate = getattr(one.average, statistic)
                    name = f"{SETS[report.name]} {CELLS[one.scorer]}"
                    in_order = one.average.r_in_order.value if statistic == "r" else None
                    reached.append(Cell(name, one.scorer, statistic, paper, ours, in_order))
    return reached


# ---------------------------------------------------------------- Markdown


def markdown(reports: Sequence[SetReport]) -> str:
    """Return the tables."""
    parts = ["# Verification: do scores rank models, and the gaps between them, as people do?", ""]
    for report in reports:
        parts += _set_section(report)
    return "\n".join([*parts, *_paper_section(reports)]) + "\n"


def _set_section(report: SetReport) -> list[str]:
    count, what = report.contexts
    models = report.verifications[0].models if report.verifications else ()
    systems = f", {counted(len(models), 'model')}" if models else ""
    lines = [f"## {report.name}", "", f"Human score: {report.human}; {count:,} {what}{systems}.", ""]
    if report.acceptance:
        note = (
            "NND rates are the authors' published ones; outcomes per test were not published, so intervals leave out their "
            "noise."
        )
        lines += [*acceptance_table(report).markdown(), note, ""]
    if report.verifications:
        lines += [
            "tau: Kendall's tau-b over models. r: Pearson's r over the gaps of all pairs of models, each pair in both orders; "
            f"*in order*: each pair once, in the order {', '.join(models)}. Averages are over the categories. "
            + _INTERVALS.format(what=what),
            "",
            *agreement_table(report).markdown(),
        ]
    if report.not_run:
        lines += ["Not run:", "", *(f"- {name}: {why}" for name, why in report.not_run.items()), ""]
    return lines


def acceptance_table(report: SetReport) -> TextTable:
    """Return the human scores of Quiz Design beside the paper's Table 2, and the NND rates that are compared with them."""
    [one] = report.verifications
    known = {model["name"]: model for model in published()["quiz_design"]["models"]}
    head = ["model", "accepted", "paper", "NND", *(f"{kind} {c}" for c in one.categories for kind in ("human", "NND"))]
    rows = []
    for model, share in report.acceptance.items():
        pairs = [f"{table[model][c]:.3f}" for c in one.categories for table in (one.human, one.scores)]
        paper = known[model]
        name = f"{model} ({paper['paper_name']})"
        rows.append([name, f"{share:.1%}", f"{paper['acceptance_percent']:.1f}%", f"{paper['overall']:.3f}", *pairs])
    return TextTable(head, rows)


def agreement_table(report: SetReport) -> TextTable:
    """Return a row per scorer and category: both correlations with their intervals."""
    head = ["score", "category", "tau", "prompts", "both", "r", "prompts", "both", "r in order"]
    rows = [
        [
            one.scorer,
            row.category,
            *_with_intervals(row.tau),
            *_with_intervals(row.r),
            number(row.r_in_order.value, 2, undefined="undefined"),
        ]
        for one in report.verifications
        for row in one.rows
    ]
    return TextTable(head, rows, names=2, bold={AVERAGE})


def _paper_section(reports: Sequence[SetReport]) -> list[str]:
    reached = cells(reports)
    lines = ["## Beside the paper's Table 1", ""]
    if reached:
        lines += [*paper_table(reached).markdown(), *_differences(reached), ""]
    columns = {SETS[report.name] for report in reports} | {"GenQA"}
    lines += ["Out of reach of public data:", ""]
    lines += [f"- {column}, {rows}: {why}" for column, rows, why in UNREACHABLE if column in columns]
    return lines


def paper_table(reached: Sequence[Cell]) -> TextTable:
    """Return a row per cell of the paper's Table 1 that was computed here."""
    head = ["cell", "score", "statistic", "paper", "ours", "prompts", "both", "difference", "in order"]
    rows = [
        [
            *(c.name, c.scorer, c.statistic, f"{c.paper:.2f}", *_with_intervals(c.ours), _signed(c.difference)),
            "-" if c.in_order is None else number(c.in_order, 2, undefined="undefined"),
        ]
        for c in reached
    ]
    return TextTable(head, rows, names=3)


def _differences(reached: Sequence[Cell]) -> list[str]:
    """Say in words which cells differ, and what is known of why."""
    apart = [cell for cell in reached if not cell.agrees]
    lines = [f"{len(reached) - len(apart)} of {counted(len(reached), 'cell')} agree to within 0.01."]
    if apart:
        lines[0] += (
            f" Apart: {', '.join(f'{c.name} {c.statistic} ({c.scorer}, {_signed(c.difference)})' for c in apart)}."
        )
    outside = [cell for cell in apart if not _inside(cell)]
    if outside:
        lines += ["", f"Outside the interval over prompts: {', '.join(f'{c.name} {c.statistic}' for c in outside)}."]
    if any(cell.name.startswith("QGen") for cell in reached):
        lines += [
            "",
            "QGen r: the paper does not say in which order it subtracted; `in order` is that of its Table 2.",
        ]
    if any(cell.name.startswith("Summ") for cell in reached):
        lines += [
            "",
            "Summ: ours takes one reference, all 100 articles and the mean of the experts' ratings; the paper says neither "
            "which package, tokenization and number of references it took, nor how it averaged the ratings. On this file, all "
            "references in place of one, or half of the rows, move a value by up to 0.2.",
        ]
    return lines


def _inside(cell: Cell) -> bool:
    """Tell whether the printed value lies in the interval over prompts, given how it was rounded."""
    if "contexts" not in cell.ours.intervals:
        return True
    low, high = cell.ours.intervals["contexts"]
    return low - _HALF_UNIT <= cell.paper <= high + _HALF_UNIT


def _with_intervals(estimate: Estimate) -> tuple[str, str, str]:
    """Return a correlation, its interval over prompts, and that over prompts and models."""
    ends = [estimate.intervals.get(design) for design in ("contexts", "both")]
    shown = [f"{number(pair[0], 2)} to {number(pair[1], 2)}" if pair else "-" for pair in ends]
    return number(estimate.value, 2, undefined="undefined"), shown[0], shown[1]


def _signed(difference: float) -> str:
    """Return a difference with its sign, never -0.00."""
    return number(round(difference, 2) + 0.0, 2, signed=True, undefined="undefined")


# ---------------------------------------------------------------- files


def to_rows(reports: Sequence[SetReport]) -> list[dict[str, Any]]:
    """Return one row per set, scorer, category and statistic, with the paper's value where it prints one; nan is undefined."""
    rows = []
    for report in reports:
        for one in report.verifications:
            for row in one.rows:
                for statistic in ("tau", "r", "r_in_order"):
                    estimate: Estimate = getattr(row, statistic)
                    paper = paper_value(report.name, one.scorer, statistic) if row.category == AVERAGE else None
                    line: dict[str, Any] = {"set": report.name, "scorer": one.scorer}
                    line |= {"category": row.category, "statistic": statistic}
                    line |= {"value": estimate.value, "paper": paper}
                    for design in DESIGNS:
                        low, high = estimate.intervals.get(design, (math.nan, math.nan))
                        line |= {f"{design}_low": low, f"{design}_high": high}
                    rows.append({**line, "models": len(one.models), "contexts": report.contexts[0]})
    return rows


def to_json(reports: Sequence[SetReport]) -> str:
    """Return everything that the tables show, and the scores behind it; nan as null."""
    content = {
        "nnd_tasks": __version__,
        "intervals": "95% percentile bootstrap over prompts (contexts_low and so on), models, or both",
        "published": {name: published()[name]["origin"] for name in ("quiz_design", "summeval", "table_1")},
        "sets": {report.name: _set_json(report) for report in reports},
        "correlations": to_rows(reports),
        "unreachable": [dict(zip(("column", "rows", "why"), one, strict=True)) for one in UNREACHABLE],
    }
    return json_text(content) + "\n"


def _set_json(report: SetReport) -> dict[str, Any]:
    return {
        "source_sha256": report.sha256,
        "resamples": report.resamples,
        "seed": report.seed,
        "human_score": report.human,
        "contexts": {"count": report.contexts[0], "what": report.contexts[1]},
        "acceptance": report.acceptance,
        "human": report.verifications[0].human if report.verifications else {},
        "scores": {one.scorer: one.scores for one in report.verifications},
        "not_run": report.not_run,
    }


def to_csv(reports: Sequence[SetReport]) -> str:
    """Return `to_rows` as CSV; what is undefined is empty."""
    return csv_text(to_rows(reports), columns=["set"])


def write_reports(reports: Sequence[SetReport], folder: str | Path) -> list[Path]:
    """Write ``verify.md``, ``verify.json`` and ``verify.csv``, all files or none; return the files.

    Raises:
        NNDError: the folder cannot be written.
    """
    folder = expand(folder)
    texts = {
        "verify.md": markdown(reports),
        "verify.json": to_json(reports),
        "verify.csv": to_csv(reports),
    }
    files = {folder / name: text for name, text in texts.items()}
    write_texts(files)
    return list(files)
