"""From scores of noised texts to the paper's tables and figure."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.show.report import Report, Table
from nnd_tasks.stress.error_types import ERRORS
from nnd_tasks.stress.verdict import CONFIDENCE, judge, rep_4gram
from nnd_tasks.wording import figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What reports call the two scores of a run.
LIKELIHOOD = "mean log-likelihood per token"
DIVERSITY = "negated rep-4gram"
#: Kinds of errors in the order of the figure's panels.
_KINDS = ("fluency", "consistency", "targeted", "other")
_LEVELS = {
    "error": "{error}",
    "verdict": "{outcome}",
    "level": "{level}",
    "noise ratio": "{noise:.3f}",
    "score": "{score:.4f}",
    "sd over seeds": "{deviation:.4f}",
    "change": "{change:+.1%}",
    "step": "{step_low:+.4f} to {step_high:+.4f}",
    DIVERSITY: "{diversity:.4f}",
    "pass rate": "{passed:.3f}",
    "its interval": "{rate_low:.3f} to {rate_high:.3f}",
    "texts": "{texts:,.0f}",
}
_VERDICTS = {"error": "{error}", "{title}": "{outcome} {passed:.3f} ({rate_low:.3f} to {rate_high:.3f})"}


def report_results(results: Path) -> list[Report]:
    """Return the verdicts on every stress task and model below a results folder; other tasks are passed over.

    Raises:
        NNDError: there is none, or the results cannot be read; see `nnd_tasks.analysis.results.read_results`.
    """
    stress = [run for run in read_results([results]) if run.tests["noise_ratio"].notna().any()]
    if not stress:
        raise NNDError(f"{expand(results)}: holds no stress tests; they are made with `nnd stress build`")
    return [report_run(run) for run in stress]


def report_run(run: Run) -> Report:
    """Return the verdicts on the likelihoods of a run on a stress set.

    Raises:
        NNDError: none of its tests was scored.
    """
    tests = name_columns(run.tests)
    for side, name in (("high", "gold"), ("low", "score")):
        places = list(zip(run.tests["document"], run.tests[side], strict=True))
        scores = [run.documents[document]["scores"][place] for document, place in places]
        tests[name] = pd.Series([score["mean"] if score else None for score in scores], tests.index, dtype=float)
        tests[f"{name}_text"] = [run.documents[document]["candidates"][place] for document, place in places]
    if tests[["gold", "score"]].isna().any(axis=1).all():
        raise NNDError(f"{run.path}: holds no scored stress test")
    return report_scores(run.task, LIKELIHOOD, tests, judge(tests), model=run.model)


def name_columns(tests: pd.DataFrame) -> pd.DataFrame:
    """Return what `judge` reads of tests of a stress set, without their scores."""
    names = {"cluster_id": "text", "category": "error", "subcategory": "level", "noise_ratio": "noise", "seed": "seed"}
    return tests.rename(columns=names)[[*names.values()]]


def report_scores(task: str, metric: str, tests: pd.DataFrame, levels: pd.DataFrame, model: str = "") -> Report:
    """Return a report on one score.

    Args:
        task: name of the task, or of the set.
        metric: name of the score.
        tests: as for `judge`, with ``gold_text`` and ``score_text``, of which the paper advises to read `rep_4gram` beside
            likelihoods.
        levels: of `judge`.
        model: whose likelihoods they are; ``""`` for text metrics.
    """
    lacking = tests[["gold", "score"]].isna().any(axis=1)
    repeats = {name: -tests[f"{name}_text"].map(rep_4gram).mask(lacking) for name in ("gold", "score")}
    diversity = judge(tests.assign(**repeats))
    levels = levels.assign(diversity=diversity["score"])
    title = f"{task}, {model}" if model else task
    unscored = tests[lacking].groupby("error", sort=False)["text"].nunique()
    lowest = levels.loc[levels["passed"].fillna(1).groupby(levels["error"], sort=False).idxmin()].assign(title=title)
    findings = [
        f"{outcome.capitalize()}: {', '.join(levels.loc[levels['outcome'] == outcome, 'error'].unique()) or 'none'}."
        for outcome in ("fail", "undecided")
    ]
    notes = [
        f"Score: {metric}; of the gold texts {levels['gold'].iloc[0]:.4f} ({DIVERSITY}: {diversity['gold'].iloc[0]:.4f}).",
        "A metric passes an error when every level scores below the one before it, and the first below gold (`step`); where "
        "levels are kinds and no grades, when each scores below gold; and when each level has a pass rate above 0.5.",
        "It is undecided while an interval holds 0 or 0.5. The intervals are over texts; those of one error hold together with "
        f"{CONFIDENCE:.0%}. Texts that an error left as they were keep their score.",
    ]
    if len(unscored):
        said = ", ".join(f"{error} {count:,}" for error, count in unscored.items())
        notes.append(f"Texts that take no part because a score is missing: {said}.")
    return Report(
        name=f"{task}_{model}" if model else task,
        title=f"Blind spots: {title}",
        findings=findings,
        tables=[
            Table("levels", levels, _LEVELS),
            Table("diversity", diversity, _LEVELS | {DIVERSITY: ""}, only_files=True),
        ],
        notes=notes,
        brief=Table("verdicts", lowest, _VERDICTS),
        figures={"levels": partial(draw_levels, levels, metric, title)},
        facts={"task": task, "model": model, "metric": metric, "unscored": unscored.to_dict()},
    )


def draw_levels(levels: pd.DataFrame, metric: str, title: str) -> Figure:
    """Return the paper's Figure 4: score against noise ratio, a panel for each kind of error, failing curves in bold."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NNDError("the figure needs matplotlib: in a clone of nnd-tasks, pip install '.[stress]'") from error

    kinds = levels["error"].map(lambda name: ERRORS[name].kind if name in ERRORS else "other")
    shown = [kind for kind in _KINDS if (kinds == kind).any()]
    figure = Figure(figsize=(6.5 * max(len(shown), 2), 5.5), layout="constrained")
    for axes, kind in zip(figure.subplots(1, len(shown), sharey=True, squeeze=False)[0], shown, strict=True):
        for i, (name, own) in enumerate(levels[kinds == kind].groupby("error", sort=False)):
            outcome = own["outcome"].iloc[0]
            start = pd.DataFrame({"noise": [0.0], "score": [own["gold"].iloc[0]], "deviation": [0.0]})
            curve = pd.concat([start, own[[*start]]])
            x, y, spread = (curve[name].to_numpy() for name in curve)
            [line] = axes.plot(
                x,
                y,
                marker="osD^v<>*XP"[i % 10],
                markersize=4,
                linewidth=3.2 if outcome == "fail" else 1.2,
                label=figure_text(name if outcome == "pass" else f"{name} ({outcome})"),
            )
            axes.fill_between(x, y - spread, y + spread, color=line.get_color(), alpha=0.15)
        axes.set_title(kind)
        axes.set_xlabel("noise ratio")
        axes.legend(fontsize="small")
    figure.axes[0].set_ylabel(figure_text(metric))
    figure.suptitle(figure_text(title))
    return figure
