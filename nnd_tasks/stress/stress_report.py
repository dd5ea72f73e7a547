"""From a results folder of lm-eval to the paper's tables and figure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.formats import TextTable, json_text, number
from nnd_tasks.markdown import code, unlinked
from nnd_tasks.show.figures import save_files
from nnd_tasks.stress import sentences, words  # noqa: F401 - importing them registers their error types
from nnd_tasks.stress.registry import ERRORS
from nnd_tasks.stress.verdict import CONFIDENCE, Scored, Verdict, judge, rep_4gram
from nnd_tasks.wording import figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What tables call the two scores of a run.
LIKELIHOOD = "mean log-likelihood per token"
DIVERSITY = "negated rep-4gram"
#: Kinds of errors in the order of the figure's panels.
_KINDS = ("fluency", "consistency", "targeted", "other")


@dataclass(frozen=True)
class StressReport:
    """Verdicts on one set.

    Attributes:
        task: name of the task, or of the set.
        metric: name of the score.
        verdicts: one per error type.
        diversity: verdicts on the same texts by negated `rep_4gram`, which the paper advises to read beside likelihoods.
        model: whose likelihoods they are; ``""`` for text metrics.
        unscored: error type -> number of texts that take no part because a score is missing.
    """

    task: str
    metric: str
    verdicts: list[Verdict]
    diversity: list[Verdict]
    model: str = ""
    unscored: Mapping[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Task and model."""
        return f"{self.task}, {self.model}" if self.model else self.task

    @property
    def file_name(self) -> str:
        """Name for its files."""
        return re.sub(r"[^\w.-]+", "_", f"{self.task}_{self.model}" if self.model else self.task)


def read_reports(results: Path) -> list[StressReport]:
    """Return the verdicts on every stress task and model below a results folder; other tasks are passed over.

    Raises:
        NNDError: there is none, or the results cannot be read; see `nnd_tasks.analysis.results.read_results`.
    """
    stress = [run for run in read_results([results]) if run.tests["noise_ratio"].notna().any()]
    if not stress:
        raise NNDError(f"{expand(results)}: holds no stress tests; they are made with `nnd stress build`")
    return [report_of(run) for run in stress]


def report_of(run: Run) -> StressReport:
    """Return the verdicts on the likelihoods of a run on a stress set.

    Raises:
        NNDError: none of its tests was scored.
    """
    gold: dict[str, float] = {}
    repeats: dict[str, float] = {}
    scored: list[Scored] = []
    diversity: list[Scored] = []
    unscored: dict[str, set[str]] = {}
    for row in run.tests.to_dict("records"):
        key, document = row["cluster_id"], run.documents[row["document"]]
        high, low = (document["scores"][row[side]] for side in ("high", "low"))
        if high is None or low is None or high["mean"] is None or low["mean"] is None:
            unscored.setdefault(row["category"], set()).add(key)
            continue
        gold[key] = high["mean"]
        repeats[key] = -rep_4gram(document["candidates"][row["high"]])
        about = key, row["category"], row["subcategory"], int(row["seed"]), row["noise_ratio"]
        scored.append(Scored(*about, low["mean"]))
        diversity.append(Scored(*about, -rep_4gram(document["candidates"][row["low"]])))
    if not scored:
        raise NNDError(f"{run.path}: holds no scored stress test")
    return StressReport(
        run.task,
        LIKELIHOOD,
        judge(gold, scored, unscored),
        judge(repeats, diversity, unscored),
        model=run.model,
        unscored={error: len(texts) for error, texts in unscored.items()},
    )


def summary_table(reports: Sequence[StressReport]) -> TextTable:
    """Return verdicts and lowest pass rates of a level: a row per error type, a column per report."""
    verdicts = [{verdict.error: verdict for verdict in report.verdicts} for report in reports]
    errors = dict.fromkeys(error for of_report in verdicts for error in of_report)
    rows = [[error, *(_verdict_cell(of_report.get(error)) for of_report in verdicts)] for error in errors]
    return TextTable(["error", *(report.title for report in reports)], rows, coded=True, bold={"fail"})


def summary(reports: Sequence[StressReport], least: int = 2) -> str:
    """Return `summary_table` as Markdown; ``""`` for fewer reports than ``least``."""
    if len(reports) < least:
        return ""
    head = ["# Blind spots: verdicts, and the lowest pass rate of a level", ""]
    return "\n".join([*head, *summary_table(reports).markdown()])


def _verdict_cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "-"
    rated = [level for level in verdict.levels if not math.isnan(level.passed)]
    if not rated:
        return verdict.outcome
    lowest = min(rated, key=lambda level: level.passed)
    return f"{verdict.outcome} {number(lowest.passed)} ({_interval(lowest.rate)})"


def _interval(ends: tuple[float, float], digits: int = 3, *, signed: bool = False) -> str:
    return "-" if math.isnan(ends[0]) else " to ".join(number(end, digits, signed=signed) for end in ends)


def levels_table(report: StressReport) -> TextTable:
    """Return a row per error type and level; only the first row of an error type has its name and verdict."""
    head = [
        "error",
        "verdict",
        "level",
        "noise ratio",
        "score",
        "sd over seeds",
        "change",
        "step",
        DIVERSITY,
        "pass rate",
        "its interval",
        "texts",
    ]
    diversity = {verdict.error: verdict for verdict in report.diversity}
    rows = []
    for verdict in report.verdicts:
        diverse = {level.level: level for level in diversity[verdict.error].levels}
        for i, level in enumerate(verdict.levels):
            rows.append(
                [
                    *([verdict.error, verdict.outcome] if i == 0 else ["", ""]),
                    level.level,
                    number(level.noise),
                    number(level.score, 4),
                    number(level.deviation or math.nan, 4),
                    f"{level.change:+.1%}",
                    _interval(level.step, 4, signed=True),
                    number(diverse[level.level].score, 4),
                    number(level.passed),
                    _interval(level.rate),
                    f"{level.texts:,}",
                ]
            )
    return TextTable(head, rows, names=3, coded=True, bold={"fail"})


def markdown(report: StressReport) -> str:
    """Return the verdicts of a report, with what is needed to read them."""
    lines = [
        f"# Blind spots: {unlinked(report.title)}",
        "",
        f"Score: {report.metric}; of the gold texts {report.verdicts[0].gold:.4f} ({DIVERSITY}: "
        f"{report.diversity[0].gold:.4f}). A metric passes an error when every level scores below the one before it, and the "
        "first below gold (`step`); where levels are kinds and no grades, when each scores below gold; and when each level has a "
        "pass rate above 0.5. It is undecided while an interval holds 0 or 0.5. The intervals are over texts; those of one "
        f"error hold together with {CONFIDENCE:.0%}. Texts that an error left as they were keep their score.",
        "",
    ]
    for outcome in ("fail", "undecided"):
        errors = [code(verdict.error) for verdict in report.verdicts if verdict.outcome == outcome]
        lines += [f"{outcome.capitalize()}: {', '.join(errors) or 'none'}.", ""]
    if report.unscored:
        unscored = [f"{code(error)} {texts:,}" for error, texts in report.unscored.items()]
        lines += [f"Texts that take no part because a score is missing: {', '.join(unscored)}.", ""]
    return "\n".join([*lines, *levels_table(report).markdown()])


def draw(report: StressReport) -> Figure:
    """Return the paper's Figure 4: score against noise ratio, a panel for each kind of error, failing curves in bold."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NNDError("the figure needs matplotlib: in a clone of nnd-tasks, pip install '.[stress]'") from error

    by_kind: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        kind = ERRORS[verdict.error].kind if verdict.error in ERRORS else "other"
        by_kind.setdefault(kind, []).append(verdict)
    kinds = sorted(by_kind, key=(*_KINDS, *by_kind).index)
    figure = Figure(figsize=(6.5 * max(len(kinds), 2), 5.5), layout="constrained")
    for axes, kind in zip(figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0], kinds, strict=True):
        for i, verdict in enumerate(by_kind[kind]):
            x = [0.0, *(level.noise for level in verdict.levels)]
            y = [verdict.gold, *(level.score for level in verdict.levels)]
            spread = [0.0, *(level.deviation for level in verdict.levels)]
            passes = verdict.outcome == "pass"
            label = figure_text(verdict.error if passes else f"{verdict.error} ({verdict.outcome})")
            [line] = axes.plot(
                x,
                y,
                marker="osD^v<>*XP"[i % 10],
                markersize=4,
                linewidth=3.2 if verdict.outcome == "fail" else 1.2,
                label=label,
            )
            axes.fill_between(
                x,
                [a - b for a, b in zip(y, spread, strict=True)],
                [a + b for a, b in zip(y, spread, strict=True)],
                color=line.get_color(),
                alpha=0.15,
            )
        axes.set_title(kind)
        axes.set_xlabel("noise ratio")
        axes.legend(fontsize="small")
    figure.axes[0].set_ylabel(figure_text(report.metric))
    figure.suptitle(figure_text(report.title))
    return figure


def write_reports(reports: Sequence[StressReport], folder: Path) -> list[Path]:
    """Write tables, numbers and figure of each report, all files or none; return the files.

    Raises:
        NNDError: two reports have one name, the folder cannot be written, or matplotlib is not installed.
    """
    twice = [name for name, count in Counter(report.file_name for report in reports).items() if count > 1]
    if twice:
        raise NNDError(
            f"{twice[0]}: two runs would be written under this name, such as one of all tests and one with --limit; "
            "name the results of one of them"
        )
    files: dict[str, str | Figure] = {}
    for report in reports:
        name, figure = report.file_name, draw(report)
        files |= {f"{name}.md": markdown(report), f"{name}.json": json_text(asdict(report)) + "\n"}
        files |= {f"{name}.png": figure, f"{name}.svg": figure}
    paths = {folder / name: content for name, content in files.items()}
    save_files(paths)
    return list(paths)
