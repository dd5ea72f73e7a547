"""From a results folder of lm-eval to the paper's tables and figure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnd_tasks.datasets import expand
from nnd_tasks.errors import NNDError
from nnd_tasks.stress import sentences, words  # noqa: F401 - they register their error types
from nnd_tasks.stress.registry import ERRORS
from nnd_tasks.stress.verdict import Scored, Verdict, judge, rep_4gram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Metric -> how it is called in tables.
LIKELIHOOD = "mean log-likelihood per token"
DIVERSITY = "negated rep-4gram"


@dataclass(frozen=True)
class Report:
    """Verdicts on one set.

    Attributes:
        task: name of the task, or of the set.
        metric: what was scored.
        verdicts: one per error type.
        diversity: the same texts by `rep_4gram`, negated, as the paper advises to look at beside likelihoods.
    """

    task: str
    metric: str
    verdicts: list[Verdict]
    diversity: list[Verdict]


def find_samples(results: Path) -> list[Path]:
    """Return the newest samples file of each task below a results folder, or the one file that is named.

    Raises:
        NNDError: there is none.
    """
    results = expand(results)
    if results.is_file():
        return [results]
    newest: dict[str, Path] = {}
    for path in sorted(results.rglob("samples_*.jsonl"), key=lambda path: path.name):
        task = path.stem.removeprefix("samples_").rpartition("_")[0]
        newest[task] = path
    if not newest:
        raise NNDError(f"{results}: no samples_*.jsonl is there; run the task with --log_samples --output_path FOLDER")
    return list(newest.values())


def read_reports(results: Path) -> list[Report]:
    """Return the verdicts on every stress task below a results folder; other tasks are passed over.

    Raises:
        NNDError: there is none, or a samples file cannot be read.
    """
    found = find_samples(results)
    stress = [path for path in found if any("noise_ratio" in test for test in _first(path).get("tests") or [{}])]
    if not stress:
        raise NNDError(f"{results}: holds no stress tests; they are made with `nnd stress build`")
    return [read_report(path) for path in stress]


def _first(path: Path) -> dict[str, Any]:
    return next((sample for _, sample in _lines(path) if isinstance(sample, dict)), {})


def read_report(samples: Path) -> Report:
    """Return the verdicts on the likelihoods in a samples file.

    Raises:
        NNDError: it cannot be read, or holds no stress tests.
    """
    gold: dict[str, float] = {}
    repeats: dict[str, float] = {}
    scored: list[Scored] = []
    diversity: list[Scored] = []
    for number, sample in _lines(samples):
        try:
            doc, candidates = sample["doc"], sample["candidates"]
            key = doc["cluster_id"]
            for test in sample["tests"]:
                high, low = candidates[test["high"]], candidates[test["low"]]
                if high is None or low is None or high["mean"] is None or low["mean"] is None:
                    continue
                gold[key] = high["mean"]
                repeats[key] = -rep_4gram(doc["candidates"][test["high"]])
                about = key, test["category"], test["subcategory"], test["seed"], test["noise_ratio"]
                scored.append(Scored(*about, low["mean"]))
                diversity.append(Scored(*about, -rep_4gram(doc["candidates"][test["low"]])))
        except (KeyError, TypeError, IndexError) as error:
            raise NNDError(f"{samples}, line {number}: is no sample of a stress test ({error!r})") from error
    if not scored:
        raise NNDError(f"{samples}: holds no scored stress test")
    task = samples.stem.removeprefix("samples_").rpartition("_")[0] or samples.stem
    return Report(task, LIKELIHOOD, judge(gold, scored), judge(repeats, diversity))


def _lines(path: Path) -> Iterable[tuple[int, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise NNDError(f"{path}, line {number}: no JSON; the file is damaged") from error
    except (OSError, UnicodeDecodeError) as error:
        raise NNDError(f"{path}: cannot be read ({error})") from error


def markdown(report: Report) -> str:
    """Return the tables of a report."""
    gold, diverse = report.verdicts[0].gold, {verdict.error: verdict for verdict in report.diversity}
    failed = [verdict.error for verdict in report.verdicts if verdict.failed]
    lines = [
        f"# Blind spots: {report.task}",
        "",
        f"Score: {report.metric}; of the gold texts {gold:.4f} ({DIVERSITY}: {report.diversity[0].gold:.4f}). An error "
        "passes when every level scores below the one before it, and the first below gold; where levels are no grades, when each "
        "scores "
        "below gold. Texts that an error left as they were keep their score.",
        "",
        f"Failed: {', '.join(f'`{name}`' for name in failed) if failed else 'none'}.",
        "",
        f"| error | verdict | level | noise ratio | score | sd over seeds | change | {DIVERSITY} | pass rate | texts |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for verdict in report.verdicts:
        other = {level.level: level for level in diverse[verdict.error].levels}
        for i, level in enumerate(verdict.levels):
            name = f"`{verdict.error}` | {'pass' if verdict.falls else '**fail**'}" if i == 0 else " | "
            lines.append(
                f"| {name} | {level.level} | {level.noise:.3f} | {level.score:.4f} | {level.deviation:.4f} | {level.change:+.1%} "
                f"| {other[level.level].score:.4f} | {level.passed:.3f} | {level.texts:,} |"
            )
    return "\n".join(lines) + "\n"


def draw(report: Report) -> Figure:
    """Return the paper's Figure 4: score against noise ratio, fluency and consistency apart, failing curves in bold."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NNDError("the figure needs matplotlib: pip install 'nnd-tasks[stress]'") from error

    kinds = ("fluency", "consistency")
    figure = Figure(figsize=(13, 5.5), layout="constrained")
    for axes, kind in zip(figure.subplots(1, 2, sharey=True), kinds, strict=True):
        for i, verdict in enumerate(v for v in report.verdicts if v.error in ERRORS and ERRORS[v.error].kind == kind):
            x = [0.0, *(level.noise for level in verdict.levels)]
            y = [verdict.gold, *(level.score for level in verdict.levels)]
            spread = [0.0, *(level.deviation for level in verdict.levels)]
            label = f"{verdict.error} (fails)" if verdict.failed else verdict.error
            [line] = axes.plot(
                x, y, marker="osD^v<>*XP"[i % 10], markersize=4, linewidth=3.2 if verdict.failed else 1.2, label=label
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
        if axes.get_lines():
            axes.legend(fontsize="small")
    figure.axes[0].set_ylabel(report.metric)
    figure.suptitle(report.task)
    return figure


def write_reports(reports: Sequence[Report], folder: Path) -> list[Path]:
    """Write tables, numbers and figure of each report; return the files.

    Raises:
        NNDError: the folder cannot be written.
    """
    folder = expand(folder)
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for report in reports:
            stem = folder / report.task
            texts = {".md": markdown(report), ".json": json.dumps(asdict(report), indent=2) + "\n"}
            for suffix, text in texts.items():
                new = stem.with_name(f".{stem.name}{suffix}.new")
                new.write_text(text, encoding="utf-8")
                written.append(new.replace(stem.with_name(stem.name + suffix)))
            figure = draw(report)
            for suffix in (".png", ".svg"):
                new = stem.with_name(f".{stem.name}.new{suffix}")
                figure.savefig(new, dpi=150)
                written.append(new.replace(stem.with_name(stem.name + suffix)))
    except OSError as error:
        raise NNDError(f"{folder}: cannot be written ({error.strerror or error})") from error
    return written
