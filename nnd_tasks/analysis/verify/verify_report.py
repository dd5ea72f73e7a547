"""Tables of a verification beside the paper's: Markdown, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks import __version__
from nnd_tasks.analysis.verify.verification import AVERAGE, DESIGNS, Estimate, VerificationRow, published
from nnd_tasks.analysis.verify.verify_sets import CELLS, SETS, UNREACHABLE, SetReport
from nnd_tasks.files import expand, write_texts
from nnd_tasks.wording import counted, csv_cell

#: Two printed digits: what rounds to the paper's value, or to its neighbour, agrees.
AGREES = 0.015
_HALF_UNIT = 0.005
_INTERVALS = (
    "Intervals are 95% percentile bootstraps (Deutsch et al., TACL 2021). *Contexts*: other {contexts}, the same models. "
    "*Both*: other models too, which with so few of them says how little the number settles. A resample breaks near ties, so a "
    "value may lie close to one end."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the paper's Table 1 beside ours.

    Attributes:
        name: column and row, as in the paper.
        scorer: ours.
        statistic: ``tau`` or ``r``.
        paper: printed value.
        ours: the same, computed here; for ``r`` over both orders of each pair.
        in_order: for ``r``, each pair once, in the order of the models; None for ``tau``.
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
        """Whether they are at most one unit of the last printed digit apart."""
        return abs(self.difference) < AGREES


def paper_value(set_name: str, scorer: str, statistic: str) -> float | None:
    """Return what the paper's Table 1 prints; None where it has no such cell."""
    table = published()["table_1"]
    row = table["rows"].get(CELLS.get(scorer, ""))
    column = f"{SETS[set_name]} {statistic}"
    return None if row is None or column not in table["columns"] else float(row[table["columns"].index(column)])


def cells(reports: Sequence[SetReport]) -> list[Cell]:
    """Return the cells of the paper's Table 1 that were reached."""
    found = []
    for report in reports:
        for one in report.verifications:
            for statistic in ("tau", "r"):
                paper = paper_value(report.name, one.scorer, statistic)
                if paper is not None:
                    ours: Estimate = getattr(one.average, statistic)
                    name = f"{SETS[report.name]} {CELLS[one.scorer]}"
                    in_order = one.average.r_in_order.value if statistic == "r" else None
                    found.append(Cell(name, one.scorer, statistic, paper, ours, in_order))
    return found


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
        lines += _acceptance_table(report)
    if report.verifications:
        lines += [
            "tau: Kendall's tau-b over models. r: Pearson's r over the gaps of all pairs of models, each pair in both orders; "
            f"*in order*: each pair once, in the order {', '.join(models)}. Averages are over the categories. "
            + _INTERVALS.format(contexts=what),
            "",
            *_table(
                ("score", "category", "tau", "contexts", "both", "r", "contexts", "both", "r in order"),
                [_agreement(one.scorer, row) for one in report.verifications for row in one.rows],
            ),
        ]
    if report.not_run:
        lines += ["Not run:", "", *(f"- {name}: {why}" for name, why in report.not_run.items()), ""]
    return lines


def _acceptance_table(report: SetReport) -> list[str]:
    """Return the human scores of Quiz Design beside the paper's Table 2, and the NND rates they are held against."""
    [one] = report.verifications
    known = {model["name"]: model for model in published()["quiz_design"]["models"]}
    head = ("model", "accepted", "paper", "NND", *(f"{kind} {c}" for c in one.categories for kind in ("human", "NND")))
    rows = []
    for model, share in report.acceptance.items():
        pairs = [f"{table[model][c]:.3f}" for c in one.categories for table in (one.human, one.scores)]
        paper = known[model]
        name = f"{model} ({paper['paper_name']})"
        rows.append((name, f"{share:.1%}", f"{paper['acceptance_percent']:.1f}%", f"{paper['overall']:.3f}", *pairs))
    note = "NND rates are the authors' published ones; outcomes per test were not published, so intervals leave out their noise."
    return [*_table(head, rows), note, ""]


def _agreement(scorer: str, row: VerificationRow) -> tuple[str, ...]:
    name = f"**{row.category}**" if row.category == AVERAGE else row.category
    return (scorer, name, *_with_intervals(row.tau), *_with_intervals(row.r), _number(row.r_in_order.value))


def _paper_section(reports: Sequence[SetReport]) -> list[str]:
    found = cells(reports)
    lines = ["## Beside the paper's Table 1", ""]
    if found:
        head = ("cell", "score", "statistic", "paper", "ours", "contexts", "both", "difference", "in order")
        rows = [
            (
                *(c.name, c.scorer, c.statistic, f"{c.paper:.2f}", *_with_intervals(c.ours), _signed(c.difference)),
                "-" if c.in_order is None else _number(c.in_order),
            )
            for c in found
        ]
        lines += _table(head, rows)
        lines += [*_differences(found), ""]
    columns = {SETS[report.name] for report in reports} | {"GenQA"}
    lines += ["Out of reach of public data:", ""]
    lines += [f"- {column}, {rows}: {why}" for column, rows, why in UNREACHABLE if column in columns]
    return lines


def _differences(found: Sequence[Cell]) -> list[str]:
    """Say in words which cells differ, and what is known of why."""
    apart = [cell for cell in found if not cell.agrees]
    lines = [f"{len(found) - len(apart)} of {counted(len(found), 'cell')} agree to within 0.01."]
    if apart:
        lines[0] += (
            f" Apart: {', '.join(f'{c.name} {c.statistic} ({c.scorer}, {_signed(c.difference)})' for c in apart)}."
        )
    outside = [cell for cell in apart if not _inside(cell)]
    if outside:
        lines += ["", f"Outside the interval over contexts: {', '.join(f'{c.name} {c.statistic}' for c in outside)}."]
    if any(cell.name.startswith("QGen") for cell in found):
        lines += [
            "",
            "QGen r: the paper does not say in which order it subtracted; `in order` is that of its Table 2.",
        ]
    if any(cell.name.startswith("Summ") for cell in found):
        lines += [
            "",
            "Summ: ours takes one reference, all 100 articles and the mean of the experts' ratings; the paper says neither "
            "which package, tokenization and number of references it took, nor how it averaged the ratings. On this file, all "
            "references in place of one, or half of the rows, move a value by up to 0.2.",
        ]
    return lines


def _inside(cell: Cell) -> bool:
    if "contexts" not in cell.ours.intervals:
        return True
    low, high = cell.ours.intervals["contexts"]
    return low - _HALF_UNIT <= cell.paper <= high + _HALF_UNIT


def _with_intervals(estimate: Estimate) -> tuple[str, str, str]:
    ends = [estimate.intervals.get(design) for design in ("contexts", "both")]
    shown = [f"{_number(pair[0])} to {_number(pair[1])}" if pair else "-" for pair in ends]
    return _number(estimate.value), shown[0], shown[1]


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.2f}"


def _signed(difference: float) -> str:
    return "undefined" if math.isnan(difference) else f"{round(difference, 2) + 0.0:+.2f}"  # + 0.0: no -0.00


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows), ""]


# ---------------------------------------------------------------- files


def to_rows(reports: Sequence[SetReport]) -> list[dict[str, Any]]:
    """Return one row per set, scorer, category and statistic, with the paper's value where it prints one."""
    rows = []
    for report in reports:
        for one in report.verifications:
            for row in one.rows:
                for statistic in ("tau", "r", "r_in_order"):
                    estimate: Estimate = getattr(row, statistic)
                    paper = paper_value(report.name, one.scorer, statistic) if row.category == AVERAGE else None
                    line: dict[str, Any] = {"set": report.name, "scorer": one.scorer}
                    line |= {"category": row.category, "statistic": statistic}
                    line |= {"value": _or_none(estimate.value), "paper": paper}
                    for design in DESIGNS:
                        low, high = estimate.intervals.get(design, (math.nan, math.nan))
                        line |= {f"{design}_low": _or_none(low), f"{design}_high": _or_none(high)}
                    rows.append({**line, "models": len(one.models), "contexts": report.contexts[0]})
    return rows


def to_json(reports: Sequence[SetReport]) -> dict[str, Any]:
    """Return everything that the tables show, and the scores behind it."""
    return {
        "nnd_tasks": __version__,
        "intervals": "95% percentile bootstrap over contexts, models, or both",
        "published": {name: published()[name]["origin"] for name in ("quiz_design", "summeval", "table_1")},
        "sets": {report.name: _set_json(report) for report in reports},
        "correlations": to_rows(reports),
        "unreachable": [dict(zip(("column", "rows", "why"), one, strict=True)) for one in UNREACHABLE],
    }


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
    rows = to_rows(reports)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else ["set"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: csv_cell(value) for key, value in cells.items()} for cells in rows)
    return stream.getvalue()


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def write_reports(reports: Sequence[SetReport], folder: str | Path) -> list[Path]:
    """Write ``verify.md``, ``verify.json`` and ``verify.csv``; return the files.

    Raises:
        NNDError: the folder cannot be written.
    """
    folder = expand(folder)
    texts = {
        "verify.md": markdown(reports),
        "verify.json": json.dumps(to_json(reports), indent=1, allow_nan=False) + "\n",
        "verify.csv": to_csv(reports),
    }
    files = {folder / name: text for name, text in texts.items()}
    write_texts(files)
    return list(files)
