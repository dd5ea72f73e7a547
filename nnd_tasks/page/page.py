"""The page of `nnd report`: what a comparison says, charts, commands to run again, and every test to look at."""

from __future__ import annotations

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.baselines import BASELINES
from nnd_tasks.categories import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.likelihood.scored_tokens import unigram_surprise
from nnd_tasks.likelihood.span_metrics import marked_tokens
from nnd_tasks.likelihood.token_scores import read_tokens
from nnd_tasks.page.browsing import PAGE_LIMIT, Packed, frame_tests, pack
from nnd_tasks.redact import hide, without_secrets
from nnd_tasks.results.compare import Comparison, compare_all
from nnd_tasks.results.comparison_report import LEGEND, report_comparison
from nnd_tasks.results.paired import Paired, not_compared, pair
from nnd_tasks.results.read_runs import notes_on
from nnd_tasks.results.runs import METRIC, Run
from nnd_tasks.show.forms import fill_page
from nnd_tasks.show.report import Report, Table, file_stem, make_table
from nnd_tasks.statistics import clustered_mean


@dataclass(frozen=True)
class Section:
    """What a page says about models on one set.

    Attributes:
        paired: the models on its tests.
        report: its tables.
        around: surprise around marked errors; empty without these or token scores.
        settings: the signature of each run, part by part.
    """

    paired: Paired
    report: Report
    around: pd.DataFrame
    settings: Table


#: Makes the report of a comparison: `report_comparison`, or that with tables of optional packages.
Describe: TypeAlias = Callable[[Comparison], Report]


def make_sections(pairs: Sequence[Paired], describe: Describe = report_comparison) -> list[Section]:
    """Compute what a page says about models on each set.

    Raises:
        NNDError: no test was scored by every model, or token scores are damaged.
    """
    for paired in pairs:
        if paired.tests.empty:
            raise NNDError(f"{paired.runs[0].path}: no test was scored by every model; leave {paired.title} out")
    return [
        Section(one.paired, describe(one), around_errors(one.paired.runs), _list_settings(one.paired.runs))
        for one in compare_all(pairs)
    ]


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


def render_report(
    runs: Sequence[Run],
    allow: Sequence[str] = (),
    skipped: Sequence[str] = (),
    describe: Describe = report_comparison,
    readers: Sequence[Paired] = (),
) -> tuple[list[Report], str]:
    """Report some runs, and make the page of them.

    Each run that cannot be compared with the others has a section of its own, and the page says why.

    Args:
        runs: of any sets.
        allow: parts of the protocol that may differ.
        skipped: a line for each file that could not be used.
        describe: makes the report of each comparison.
        readers: several readers of one model, each side by side; the page has a section of them.

    Returns:
        The reports of models side by side and of surprise around errors; and the page.

    Raises:
        NNDError: a run has no test that was scored, or token scores are damaged.
    """
    pairs = pair(runs, allow, split_conflicts=True)
    several_models = len({run.model for run in runs}) > 1
    notes = not_compared(runs, pairs) if several_models or any(paired.conflict for paired in pairs) else []
    sections = make_sections(pairs, describe)
    reports = []
    for section in sections:
        reports.append(section.report)
        if len(section.around):
            reports.append(_report_around_errors(section.around))
    sections += make_sections(readers, describe)
    notes += [f"left out: {line}" for line in skipped]
    return reports, render_page(sections, notes)


def _report_around_errors(around: pd.DataFrame) -> Report:
    """Show what `around_errors` gives, in a table for each task.

    Args:
        around: at least one row.
    """
    columns = {"token": "{place}", "{model}: {value}": "{mean:.2f} [{low:.2f}, {high:.2f}]"}
    return Report(
        name="around_errors",
        title="Surprise around marked errors",
        tables=[Table(file_stem(task), rows, columns, caption=task) for task, rows in around.groupby("task")],
        notes=[AROUND_CAPTION],
    )


def render_page(sections: Sequence[Section], notes: Sequence[str] = ()) -> str:
    """Fill the page.

    Args:
        sections: one per set, or per group of runs.
        notes: below the summary.
    """
    tests = [section.paired for section in sections if not section.paired.of_documents]
    title = "NND report" if tests else "Report on tasks of lm-eval"
    # Readers side by side are runs that other sections have, too.
    of_models = [section for section in sections if section.paired.credit is None]
    rates = pd.concat([section.report.tables[0].data.assign(task=section.paired.title) for section in of_models])
    overall, others = rates[rates["category"] == ALL], len(sections) - len(tests)
    runs = [run for section in of_models for run in section.paired.runs]
    commands: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        commands[command_of(run)].append(run)
    captions = ["Pass rate over all tests of a set"] * bool(tests) + [
        "Mean over the documents of a task of lm-eval"
    ] * bool(others)
    return fill_page(
        "page.html.j2",
        overview=Report(
            "summary", title, tables=[make_table("summary", overall, what=". ".join(captions))], legend=LEGEND
        ),
        sections=sections,
        of_models=of_models,
        others=others,
        notes=[*notes, *notes_on(runs)],
        baselines=BASELINES,
        commands=commands,
        without_secrets=without_secrets,
        error_places=PLACES,
        error_side=SIDE,
        error_values=VALUES,
        error_caption=AROUND_CAPTION,
        **frame_tests(title, tests, pack(tests, PAGE_LIMIT) if tests else Packed([], 0, 0, [], False)),
    )


# ---------------------------------------------------------------- commands

#: What lm-eval takes, and keeps, where no device is named.
DEVICE = "cuda:0"
#: Flag of lm-eval -> key of the protocol.
_FLAGS = {"apply_chat_template": "chat_template", "fewshot_as_multiturn": "multiturn"}


def command_of(run: Run) -> str:
    """The command that repeats a run, as its results file has it, without secrets."""
    command, protocol, settings = run.command, run.protocol, run.command.get("settings")
    model_args = command.get("model_args")
    options = {
        "model": str(command.get("model") or "hf").removesuffix("-shared-prefix"),
        "model_args": json.dumps(without_secrets(model_args, None))
        if isinstance(model_args, Mapping)
        else hide(str(model_args or "")),
        "tasks": run.task,
        "device": (command.get("device") or "").removeprefix(DEVICE),
        **{name: command.get(name) for name in ("batch_size", "limit", "sample")},
        "num_fewshot": protocol.get("shots"),
        "metadata": settings and json.dumps(settings),
    }
    words = ["lm_eval" if run.reader == METRIC else "nnd", "run"]
    for name, value in options.items():
        if value:  # a limit is a number or a share; lm-eval keeps both as floats
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    words += [f"--{flag}" for flag, key in _FLAGS.items() if protocol.get(key)]
    return shlex.join([*words, "--log_samples", "--output_path", "results"])


# ---------------------------------------------------------------- surprise around marked errors

#: Tokens that are looked at on each side of an error.
SIDE = 5
#: Places of tokens: before an error, in it, after it. An error of one token has a first one only, and of two no middle.
PLACES = (*(f"{n:+}" for n in range(-SIDE, 0)), "first", "middle", "last", *(f"{n:+}" for n in range(1, SIDE + 1)))
#: What is averaged -> how it is called.
VALUES = {"surprise": "surprise", "excess": "surprise less that of frequency"}
AROUND_CAPTION = (
    "Surprise: -log p of a token in nats, averaged over the marked errors, by its place: tokens before an error, "
    "its first token, the mean of its middle ones, its last, and tokens after it. Tokens of other errors are left out. The "
    "excess is less the surprise to a model that only knows how often each token occurs in the texts of the run. "
    "Intervals (95%) are Student's, clustered by prompt."
)


def around_errors(runs: Sequence[Run]) -> pd.DataFrame:
    """Average the surprise at each place around marked errors.

    Runs without token scores or marked errors have no rows, nor have those of a task whose runs rest on different error spans.

    Returns:
        One row per ``place``, in the order of `PLACES`, ``task``, ``model`` and ``value`` (a key of `VALUES`): ``errors`` (how
        many have such a token), ``mean`` in nats, and ``low`` and ``high``, its 95% interval clustered by prompt; nan where
        there is none.

    Raises:
        NNDError: token scores are damaged.
    """
    builds = Counter(task for task, _ in {(run.task, run.spans) for run in runs if run.spans})
    rows = [row for run in runs if builds[run.task] < 2 for row in _read_errors(run)]
    keys = ["task", "model", "value", "prompt"]
    numbers = pd.DataFrame(rows, columns=[*keys, *PLACES]).melt(keys, var_name="place", value_name="nats").dropna()
    group = ["task", "model", "value", "place"]
    sums = numbers.groupby([*group, "prompt"], sort=False)["nats"].agg(["sum", "size"])
    means = []
    for names, prompts in sums.groupby(group, sort=False):
        mean = clustered_mean(prompts["sum"], prompts["size"])
        means.append((*names, prompts["size"].sum(), mean.mean, mean.low, mean.high))
    return pd.DataFrame(means, columns=[*group, "errors", "mean", "low", "high"])


def _read_errors(run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield task, model, value and prompt of each error, and its numbers at `PLACES`."""
    marked = [document for document in run.documents if any(document.get("error_spans") or ())]
    scores = read_tokens(run) if marked else {}
    in_text = {key: tokens.starts < tokens.ends for key, tokens in scores.items()}
    unigram = unigram_surprise(tokens.ids[in_text[key]] for key, tokens in scores.items() if key[2])
    for document in marked:
        prompt = document["cluster_id"]
        for candidate, errors in enumerate(document["error_spans"]):
            key = (prompt, candidate, True)
            if key not in scores or not errors:
                continue
            tokens, text = scores[key], in_text[key]
            spans = np.stack([tokens.starts[text], tokens.ends[text]], axis=1).astype(np.int64)
            surprise = -tokens.logprobs[text].astype(np.float64)
            free = ~marked_tokens(spans, errors)
            for start, end in dict.fromkeys((error["start"], error["end"]) for error in errors):
                inside = np.flatnonzero(marked_tokens(spans, [{"start": start, "end": end}]))
                if inside.size:
                    for value, nats in {"surprise": surprise, "excess": surprise - unigram(tokens.ids[text])}.items():
                        yield run.task, run.model, value, prompt, *_take_places(nats, inside, free)


def _take_places(values: NDArray[np.float64], inside: NDArray[np.int64], free: NDArray[np.bool_]) -> list[float]:
    """Take the numbers at `PLACES`; nan where there is no such token.

    Args:
        values: of the tokens of a text, shape (tokens,).
        inside: places of the tokens of an error, ascending, at least one.
        free: whether each token is part of no error, shape (tokens,).
    """
    around = np.pad(np.where(free, values, np.nan), SIDE, constant_values=np.nan)
    before, after = inside[0], inside[-1] + 1 + SIDE
    first, *middle = values[inside]
    last = middle.pop() if middle else np.nan
    mean = np.mean(middle) if middle else np.nan
    return [*around[before : before + SIDE], first, mean, last, *around[after : after + SIDE]]
