"""The page of `nnd report`: what a comparison says, charts, commands to run again, and every test to look at."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from nnd_tasks.baselines import ALL, BASELINES
from nnd_tasks.errors import NNDError, noting
from nnd_tasks.page.browsing import PAGE_LIMIT, frame_tests, pack
from nnd_tasks.redact import hide, without_secrets
from nnd_tasks.results import token_analyses as spans
from nnd_tasks.results.compare import Comparison, compare
from nnd_tasks.results.comparison_report import LEGEND, report_comparison
from nnd_tasks.results.paired import Paired, not_compared, pair
from nnd_tasks.results.read_runs import notes_on
from nnd_tasks.results.readers import pair_readers
from nnd_tasks.results.runs import Run
from nnd_tasks.results.tables import make_table
from nnd_tasks.show.forms import render
from nnd_tasks.show.report import Report, Table, file_stem


@dataclass(frozen=True)
class Section:
    """What a page says about models on one set.

    Attributes:
        paired: the models on its tests.
        comparison: of the models.
        report: its tables.
        around: surprise around marked errors; empty without these or token scores.
        settings: the signature of each run, part by part.
        note: why it cannot be compared with the first section of a site's page.
    """

    paired: Paired
    comparison: Comparison
    report: Report
    around: pd.DataFrame
    settings: Table
    note: str = ""


def make_section(paired: Paired, note: str = "") -> Section:
    """Compute what a page says about models on one set.

    Raises:
        NNDError: no test was scored by every model, or token scores are damaged.
    """
    if paired.tests.empty:
        raise NNDError(f"{paired.runs[0].path}: no test was scored by every model; leave {paired.title} out")
    comparison = compare(paired)
    around = spans.around_errors(paired.runs)
    return Section(paired, comparison, report_comparison(comparison), around, _list_settings(paired.runs), note)


def _list_settings(runs: Sequence[Run]) -> Table:
    """All parts of the signatures, with a column for each model."""
    rows = pd.DataFrame(
        {"part": f"{key} ({name})", "model": run.model, "value": str(value)}
        for run in runs
        for name, settings in (
            ("protocol", run.protocol),
            ("model", run.model_info),
            ("environment", run.environment),
        )
        for key, value in without_secrets(settings).items()  # plain lm_eval may have stored some
    )
    return make_table("settings", rows)


def report_pages(pairs: Sequence[Paired]) -> list[Report]:
    """The reports that a page is made of, for ``--out``."""
    reports = []
    for section in map(make_section, pairs):
        reports.append(section.report)
        if len(section.around):
            reports.append(_report_spans(section.around))
    return reports


def _report_spans(around: pd.DataFrame) -> Report:
    """Show what `spans.around_errors` gives, in a table for each task.

    Args:
        around: at least one row.
    """
    columns = {"token": "{place}", "{model}: {value}": "{mean:.2f} [{low:.2f}, {high:.2f}]"}
    return Report(
        name="around_errors",
        title="Surprise around marked errors",
        tables=[Table(file_stem(task), rows, columns, caption=task) for task, rows in around.groupby("task")],
        notes=[spans.CAPTION],
    )


def render_report(runs: Sequence[Run], allow: Sequence[str] = (), skipped: Sequence[str] = ()) -> str:
    """The page about some runs; each that cannot be compared with the others has a section of its own, and the page says why.

    Args:
        runs: of any sets.
        allow: parts of the protocol that may differ.
        skipped: a line for each file that could not be used.

    Raises:
        NNDError: a run has no test that was scored, or token scores are damaged.
    """
    pairs = pair(runs, allow, split_conflicts=True)
    several_models = len({run.model for run in runs}) > 1
    notes = not_compared(runs, pairs) if several_models or any(paired.conflict for paired in pairs) else []
    with noting(notes):
        pairs += pair_readers(runs, allow)
    notes += [f"left out: {line}" for line in skipped]
    return render_page("NND report", [make_section(paired) for paired in pairs], notes)


def render_page(
    title: str, sections: Sequence[Section], notes: Sequence[str] = (), *, home: str = "", texts: bool = True
) -> str:
    """Fill the page.

    Args:
        title: of the page.
        sections: one per set, or per group of runs.
        notes: below the summary.
        home: front page of the site; empty for a page alone.
        texts: let the reader look at the tests.
    """
    pairs = [section.paired for section in sections]
    rates = pd.concat([section.report.tables[0].data.assign(task=section.paired.title) for section in sections])
    overall = rates[rates["category"] == ALL]
    return render(
        "page.html.j2",
        overview=Report("summary", title, tables=[make_table("summary", overall)], legend=LEGEND),
        sections=sections,
        notes=[*notes, *(note for section in sections for note in notes_on(section.paired.runs))],
        home=home,
        baselines=BASELINES,
        commands=[(run, command_of(run)) for paired in pairs for run in paired.runs],
        without_secrets=without_secrets,
        spans=spans,
        **frame_tests(title, pairs, pack(pairs, PAGE_LIMIT) if texts else None),
    )


# ---------------------------------------------------------------- commands

#: Flag of lm-eval -> key of the protocol.
_FLAGS = {"apply_chat_template": "chat_template", "fewshot_as_multiturn": "multiturn"}


def command_of(run: Run) -> str:
    """The command that repeats a run, as its results file has it, without secrets."""
    asked, protocol, settings = run.command, run.protocol, run.command.get("settings")
    model_args = asked.get("model_args")
    options = {
        "model": str(asked.get("model") or "hf").removesuffix("-shared-prefix"),
        "model_args": json.dumps(without_secrets(model_args, None))
        if isinstance(model_args, Mapping)
        else hide(str(model_args or "")),
        "tasks": run.task,
        **{name: asked.get(name) for name in ("device", "batch_size", "limit", "sample")},
        "num_fewshot": protocol.get("shots"),
        "metadata": settings and json.dumps(settings),
    }
    words = ["nnd", "run"]
    for name, value in options.items():
        if value:  # a limit is a number or a share; lm-eval keeps both as floats
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    words += [f"--{flag}" for flag, key in _FLAGS.items() if protocol.get(key)]
    return shlex.join([*words, "--log_samples", "--output_path", "results"])
