"""The page of `nnd report`: what a comparison says, charts, commands to run again, and every test to look at.

The site of `nnd report --site` is a front page of all models and sets, and such a page for each set.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.baselines import ALL, BASELINES
from nnd_tasks.errors import NNDError, noting, visible
from nnd_tasks.files import expand, write_texts
from nnd_tasks.page.browsing import PAGE_LIMIT, frame_tests, pack
from nnd_tasks.redact import hide, without_secrets
from nnd_tasks.results.compare import Comparison, compare
from nnd_tasks.results.comparison_report import LEGEND, report_comparison
from nnd_tasks.results.paired import Paired, asked_texts, not_compared, pair
from nnd_tasks.results.read_runs import notes_on, read_results
from nnd_tasks.results.runs import Run
from nnd_tasks.results.samples import read_tokens
from nnd_tasks.sets.licences import terms_of, texts_may_go
from nnd_tasks.show.forms import render, to_json
from nnd_tasks.show.report import Report, Table, file_stem, make_table
from nnd_tasks.statistics import clustered_mean
from nnd_tasks.task.scored_tokens import marked_tokens, unigram_surprise
from nnd_tasks.task.signature import digest
from nnd_tasks.text import some_of


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


#: Makes the report of a comparison: `report_comparison`, or that with tables of other rooms.
Describe: TypeAlias = Callable[[Comparison], Report]


def make_section(paired: Paired, note: str = "", describe: Describe = report_comparison) -> Section:
    """Compute what a page says about models on one set.

    Raises:
        NNDError: no test was scored by every model, or token scores are damaged.
    """
    if paired.tests.empty:
        raise NNDError(f"{paired.runs[0].path}: no test was scored by every model; leave {paired.title} out")
    comparison = compare(paired)
    around = around_errors(paired.runs)
    return Section(paired, comparison, describe(comparison), around, _list_settings(paired.runs), note)


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
    sections = [make_section(paired, describe=describe) for paired in pairs]
    reports = []
    for section in sections:
        reports.append(section.report)
        if len(section.around):
            reports.append(_report_around_errors(section.around))
    sections += [make_section(paired, describe=describe) for paired in readers]
    notes += [f"left out: {line}" for line in skipped]
    return reports, render_page("NND report", sections, notes)


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
        error_places=PLACES,
        error_side=SIDE,
        error_values=VALUES,
        error_caption=AROUND_CAPTION,
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


# ---------------------------------------------------------------- sites

# Many people's results. Nobody's may change the numbers of others: runs that were asked otherwise, or whose tests are others,
# stand apart, and files that cannot be used are named.


#: A run that scored a smaller share of its tests stands alone: only tests that all models of a group scored are counted.
LEAST_SCORED = 0.9
#: Sets of synthetic errors have no recipe; their names begin so, and end with that of the corpus.
_BLINDSPOT = "blindspot_"


def write_site(
    paths: Sequence[str | Path], folder: Path, select: Sequence[str] = (), describe: Describe = report_comparison
) -> tuple[Path, list[str]]:
    """Write a site about the runs in some folders and files.

    Texts of tests are shown where their terms let anyone publish them.

    Args:
        paths: as `nnd_tasks.results.read_runs.read_results` takes them; some files may be damaged.
        folder: gets ``index.html``, a page per set, and ``results.json``.
        select: as for `read_results`.
        describe: makes the report of each comparison.

    Returns:
        The front page, and a line for each file that could not be used.

    Raises:
        NNDError: no run can be used, or the folder cannot be written.
    """
    skipped: list[str] = []
    sets = group_runs(read_results(paths, select, skipped, tokens=True), skipped, describe)
    if not sets:
        raise NNDError(f"{', '.join(map(str, paths))}: no results can be used: {some_of(skipped, 3, str)}")
    names = _name_pages(sets)
    sections = [section for of_set in sets.values() for section in of_set]
    pages = {
        names[name]: render_page(name, of_set, home="index.html", texts=_texts_are_free(of_set[0].paired.runs[0]))
        for name, of_set in sets.items()
    }
    rates = pd.concat(
        [section.report.tables[0].data.assign(set=section.paired.set, note=section.note) for section in sections]
    )
    overall = rates[rates["category"] == ALL]
    stands_apart = overall["note"] != ""
    trained = [run for section in sections for run in section.paired.runs if run.trained_on]
    training = dict.fromkeys(f"{run.model} was trained on {', '.join(run.trained_on)}." for run in trained)
    front = Report(
        name="index",
        title="NND results",
        tables=[make_table("sets", overall[~stands_apart]), make_table("apart", overall[stands_apart])],
        legend=LEGEND,
        findings=list(training),
        notes=[f"left out: {line}" for line in skipped],
    )
    pages["index.html"] = render("site.html.j2", front=front, pages=names)
    pages["results.json"] = f"[{', '.join(to_json(section.report) for section in sections)}]"
    site = expand(folder)
    write_texts({site / name: text for name, text in pages.items()})
    return site / "index.html", skipped


def _name_pages(sets: Iterable[str]) -> dict[str, str]:
    """Name the page of each set; sets whose names differ in other characters than letters and digits get numbers."""
    names: dict[str, str] = {}
    for name in sets:
        stem = f"set-{file_stem(name.removeprefix('nnd/'))}"
        taken = sum(re.fullmatch(rf"{re.escape(stem)}(-\d+)?\.html", page) is not None for page in names.values())
        names[name] = f"{stem}-{taken + 1}.html" if taken else f"{stem}.html"
    return names


def _texts_are_free(run: Run) -> bool:
    name = str(run.protocol.get("set", "")).removeprefix("nnd/")
    terms = terms_of(name, {"": {"corpus": name.removeprefix(_BLINDSPOT)}} if name.startswith(_BLINDSPOT) else {})
    return bool(terms) and texts_may_go(terms)


def group_runs(
    runs: Sequence[Run], skipped: list[str], describe: Describe = report_comparison
) -> dict[str, list[Section]]:
    """Divide runs by set, and those of a set into groups of runs that were asked the same, the main group first.

    The main group of a set is that with the most models.

    Args:
        runs: of any sets.
        skipped: takes a line for each run that cannot be shown.
        describe: makes the report of each comparison.
    """
    groups: dict[str, dict[str, dict[str, Run]]] = defaultdict(lambda: defaultdict(dict))
    for run in sorted(runs, key=lambda run: (run.set, run.task, run.model, run.date)):
        if run.tests["passed"].isna().all():
            skipped.append(f"{run.path}: no test was scored")
        else:
            groups[run.set][_group_key(run)][run.model] = run  # the newest of a model
    sets: dict[str, list[Section]] = {}
    for name, of_set in groups.items():
        # Models that were trained on these tests come last.
        order = sorted((list(of_model.values()) for of_model in of_set.values()), key=len, reverse=True)
        ordered = sorted(order, key=lambda group: bool(group[0].training_overlap))
        for number, group in enumerate(ordered, start=1):
            with noting(skipped):
                [paired] = pair(group)
                paired = replace(paired, distinguished_by=f"group {number}" if number > 1 else "")
                note = _differs(group[0], ordered[0][0])
                sets.setdefault(name, []).append(make_section(paired, note, describe))
    return sets


def _group_key(run: Run) -> str:
    """What must be equal in a group: task, what was asked, all texts, whether models were trained on them, window."""
    alone = run.model if run.tests["passed"].notna().mean() < LEAST_SCORED else ""
    window = run.model_info.get("window") if run.truncated else ""
    texts = digest(sorted(asked_texts(run).reset_index().to_numpy().tolist()))
    return json.dumps(
        [run.task, run.comparison_key, texts, window, alone, run.training_overlap], sort_keys=True, default=str
    )


def _differs(run: Run, main: Run) -> str:
    """What a run was asked otherwise than the main group, or which of its tests the model was trained on."""
    if run is main and not run.training_overlap:
        return ""
    settings, main_settings = run.comparison_key, main.comparison_key
    differences = [f"trained on {', '.join(run.training_overlap)}"] if run.training_overlap else []
    differences += [
        f"{key} {settings.get(key)} in place of {main_settings.get(key)}"
        for key in {**settings, **main_settings}
        if settings.get(key) != main_settings.get(key)
    ]
    return visible("; ".join(differences)) or "other tests, window, or too few scored, though the protocol is the same"


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
