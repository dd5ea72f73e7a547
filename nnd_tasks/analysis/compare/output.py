"""A comparison as Markdown, JSON, CSV and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from nnd_tasks.analysis.compare.adjusted_output import (
    adjusted_cells,
    adjusted_lines,
    adjusted_table,
    as_data,
    link_table,
    rate_cell,
)
from nnd_tasks.analysis.compare.diagnostics import Diagnostics
from nnd_tasks.analysis.compare.margin_parts import CAPTION, margin_cells, margin_parts_table
from nnd_tasks.analysis.compare.model_verdicts import verdicts
from nnd_tasks.analysis.compare.paired import CategoryResult, Comparison, Difference
from nnd_tasks.analysis.compare.power import LARGEST_MDE, is_underpowered
from nnd_tasks.baselines import BASELINES
from nnd_tasks.files import expand, write_texts
from nnd_tasks.formats import TextTable, csv_text, json_text, number, p_value
from nnd_tasks.markdown import code, unlinked
from nnd_tasks.statistics import FEW

_Item = TypeVar("_Item")

#: Model -> category -> diagnostics.
ByModel = Mapping[str, Mapping[str, Diagnostics]]

#: What the mark of `few` means.
FEW_NOTE = f"† fewer than {FEW} prompts, or no spread between them: the error bars are unreliable."


def between(low: float, high: float) -> str:
    """Return the interval of a difference for a table, with enough digits to tell its ends apart."""
    if math.isnan(low):
        return "no interval"
    digits = next((digits for digits in range(3, 9) if round(low, digits) != round(high, digits)), 9)
    return f"{number(low, digits, signed=True)} to {number(high, digits, signed=True)}"


def few(prompts: int, error: float | None = None) -> str:
    """Return a mark for categories whose error bars are unreliable: of few prompts, or with a standard error of 0."""
    return "†" if prompts < FEW or error == 0 else ""


def underpowered(difference: Difference, prompts: int) -> str:
    """Return a mark for a difference between models that so few prompts can hardly show."""
    return "‡" if is_underpowered(difference.detectable, prompts) else ""


def odd(difference: Difference) -> str:
    """Return a mark for an interval and a p value that do not agree."""
    return " ≠" if difference.disagrees else ""


def rows_of(comparison: Comparison, diagnostics: ByModel | None = None) -> list[dict[str, Any]]:
    """Return one flat row per category and pair of models: what CSV holds."""
    rows = []
    for result in comparison.categories:
        for difference in result.differences:
            first, second = result.rates[difference.first], result.rates[difference.second]
            rows.append(
                {
                    "set": comparison.paired.set,
                    "task": comparison.paired.title,
                    "category": result.category,
                    "tests": result.tests,
                    "clusters": result.clusters,
                    "first": difference.first,
                    "second": difference.second,
                    **{f"first_{key}": value for key, value in asdict(first).items()},
                    **{f"second_{key}": value for key, value in asdict(second).items()},
                    **asdict(difference),
                    **_diagnostic_cells(diagnostics or {}, difference, result.category),
                    **{
                        f"{which}_{key}": value
                        for which, model in (("first", difference.first), ("second", difference.second))
                        for key, value in adjusted_cells(comparison.adjusted, model, result.category).items()
                    },
                    **margin_cells(comparison.parts, difference, result.category),
                }
            )
    return rows


def _diagnostic_cells(diagnostics: ByModel, difference: Difference, category: str) -> dict[str, float | None]:
    """Return the diagnostics of two models on a category as cells of a row."""
    cells: dict[str, float | None] = {}
    for which, model in (("first", difference.first), ("second", difference.second)):
        if (of_model := diagnostics.get(model, {}).get(category)) is not None:
            cells |= {f"rule_{baseline}": rate for baseline, rate in of_model.baselines.items()}
            keys = ("flips_bytes", "flips_sum", "near", "pmi", "survives")
            cells |= {f"{which}_{key}": getattr(of_model, key) for key in keys}
    return cells


# ---------------------------------------------------------------- tables


def rates_table(comparison: Comparison) -> TextTable:
    """Return a row per category: pass rates of the models with their intervals."""
    models = comparison.paired.models
    rows = []
    for result in comparison.categories:
        cells = [rate_cell(result.rates[model]) for model in models]
        rows.append([result.category, f"{result.tests:,}", f"{result.clusters:,}{few(result.clusters)}", *cells])
    return TextTable(["category", "tests", "prompts", *models], rows)


def differences_table(comparison: Comparison) -> TextTable:
    """Return a row per category and pair of models."""
    head = ["category", "second - first", "difference", "95% interval", "p", "p (Holm)", "McNemar", "MDE"]
    rows = [
        [
            result.category,
            f"{one.second} - {one.first}",
            number(one.difference, signed=True),
            between(one.low, one.high) + odd(one),
            p_value(one.p),
            p_value(one.p_holm),
            p_value(one.mcnemar),
            number(one.detectable) + underpowered(one, result.clusters),
        ]
        for result in comparison.categories
        for one in result.differences
    ]
    return TextTable(head, rows, names=2)


def ranks_table(comparison: Comparison) -> TextTable:
    """Return a row per model, the best first."""
    rows = [
        [
            str(rank.group),
            str(rank.best) if rank.best == rank.worst else f"{rank.best}-{rank.worst}",
            rank.model,
            number(rank.rate),
        ]
        for rank in comparison.ranks
    ]
    return TextTable(["rank group", "rank", "model", "pass rate"], rows, names=3)


#: Heading of a column of diagnostics -> field of `Diagnostics`; the last two are shown where a run has them.
_PER_MODEL = {"flips, bytes": "flips_bytes", "flips, sum": "flips_sum", "near ties": "near"}
_WITH_CONTEXT = {"PMI": "pmi", "survives": "survives"}


def baselines_of(diagnostics: ByModel) -> list[str]:
    """Return the baselines that some diagnostics have: ``system`` is known only where the set says who wrote its texts."""
    found = {name for by_category in diagnostics.values() for one in by_category.values() for name in one.baselines}
    return [name for name in BASELINES if name in found]


def diagnostics_table(comparison: Comparison, diagnostics: ByModel) -> TextTable:
    """Return a row per category: rates of the baselines, then each diagnostic of each model."""
    models = comparison.paired.models
    with_context = any(one.pmi is not None for by_category in diagnostics.values() for one in by_category.values())
    columns = {**_PER_MODEL, **(_WITH_CONTEXT if with_context else {})}
    known = baselines_of(diagnostics)
    rows = []
    for result in comparison.categories:
        here = [diagnostics[model].get(result.category) for model in models]
        if here[0] is None:
            continue
        row = [result.category, *(number(here[0].baselines.get(name, math.nan)) for name in known)]
        for field in columns.values():
            values = [getattr(one, field, None) for one in here]
            row += [number(math.nan if value is None else value) for value in values]
        rows.append(row)
    head = ["category", *known, *(f"{heading}: {model}" for heading in columns for model in models)]
    return TextTable(head, rows)


# ---------------------------------------------------------------- Markdown


def markdown(comparison: Comparison, diagnostics: ByModel | None = None, *, signatures: bool = True) -> str:
    """Return the tables of a comparison with what is needed to read them.

    Args:
        comparison: of one set.
        diagnostics: model -> category -> diagnostics.
        signatures: end with the signature of each run, a long line.
    """
    paired = comparison.paired
    lines = [
        f"# {unlinked(paired.set)}: {', '.join(map(unlinked, paired.models))}",
        "",
        f"Task: {unlinked(paired.title)}.",
        "",
    ]
    lines += [line for note in paired.notes for line in (note, "")]
    lines += [*(f"- {unlinked(line)}" for line in verdicts(comparison)), ""]
    lines += [
        "Pass rates with 95% intervals (Wilson's), clustered by prompt:",
        "",
        *rates_table(comparison).markdown(),
    ]
    if comparison.ranks:
        lines += [
            "Ranks. Between rank groups every pair of models differs; within one, some may differ too, as the differences "
            "on all tests say (paired permutation, Holm over pairs, 0.05):",
            "",
            *ranks_table(comparison).markdown(),
        ]
    lines += [
        f"Differences, paired by test and clustered by prompt: 95% t interval, p by permutation ({comparison.resamples:,} "
        "resamples), McNemar's exact test for reference (it takes tests for independent). MDE: the smallest true difference "
        "that p (Holm) finds with probability 0.8.",
        "",
        "p (Holm) answers two questions. On all tests: which models differ? Corrected over the pairs of models. On a category: "
        "which models differ on which errors? Corrected over pairs and categories together. With equal models, each "
        "question gives a false positive (any p (Holm) below 0.05) in at most 5% of tables.",
        "",
        *differences_table(comparison).markdown(),
    ]
    if diagnostics:
        lines += [
            "Diagnostics: share of tests that baselines pass (system: of the tests with a text of that system), flips (share of "
            "outcomes that differ from per-token scoring with the likelihood per byte, or the summed one), share decided by less "
            "than 1e-6.",
            "",
            *diagnostics_table(comparison, diagnostics).markdown(),
        ]
    lines += adjusted_lines(comparison.adjusted)
    if comparison.parts:
        lines += [CAPTION, "", *margin_parts_table(comparison.parts).markdown()]
    lines += _notes(comparison.categories)
    lines += [f"- {unlinked(run.model)}: {code(run.line, in_table=False)}" for run in paired.runs if signatures]
    lines += [f"- Not in this table: {unlinked(line)}" for line in comparison.not_compared]
    return "\n".join(lines) + "\n"


def _notes(categories: Sequence[CategoryResult]) -> list[str]:
    """Return what the marks in the tables mean."""
    differences = [(one, result.clusters) for result in categories for one in result.differences]
    notes = []
    if any(few(result.clusters) for result in categories):
        notes.append(FEW_NOTE)
    if any(underpowered(one, prompts) for one, prompts in differences):
        notes.append(
            f"‡ underpowered: too few prompts to detect what models really differ by (fewer than {FEW}, or an MDE above "
            f"{LARGEST_MDE}). none: no difference can be found, as no p can be small enough with so few prompts (or --resamples)."
        )
    if any(odd(one) for one, _ in differences):
        notes.append(
            "≠ interval and p (before Holm) do not agree on whether 0 is possible. They are two methods, and this is a close "
            "call or one of few prompts: take the difference as not shown."
        )
    return [*notes, ""] if notes else []


# ---------------------------------------------------------------- files


def to_json(comparison: Comparison, diagnostics: ByModel | None = None) -> str:
    """Return everything as JSON; nan as null."""
    content = {
        "set": comparison.paired.set,
        "task": comparison.paired.title,
        "models": comparison.paired.models,
        "signatures": {run.model: run.line for run in comparison.paired.runs},
        "left_out": comparison.paired.left_out,
        "beyond": comparison.paired.beyond,
        "verdicts": verdicts(comparison),
        "not_compared": comparison.not_compared,
        "resamples": comparison.resamples,
        "seed": comparison.seed,
        "categories": [asdict(result) for result in comparison.categories],
        # The file's keys are older than the names in the code.
        "ranks": [
            {("cluster" if key == "group" else key): v for key, v in asdict(r).items()} for r in comparison.ranks
        ],
        "reading_aid": {
            model: {category: one.as_data() for category, one in by_category.items()}
            for model, by_category in (diagnostics or {}).items()
        },
        "adjusted": {model: as_data(one) for model, one in comparison.adjusted.items()},
    }
    if comparison.parts:
        content["margin_parts"] = {
            model: {category: asdict(one) for category, one in by_category.items()}
            for model, by_category in comparison.parts.items()
        }
    return json_text(content) + "\n"


def to_csv(comparison: Comparison, diagnostics: ByModel | None = None) -> str:
    """Return one row per category and pair of models, with the diagnostics of both."""
    return csv_text(rows_of(comparison, diagnostics))


def to_latex(comparison: Comparison, diagnostics: ByModel | None = None) -> str:
    """Return the tables for LaTeX with booktabs."""
    tables = [rates_table(comparison), differences_table(comparison)]
    if diagnostics:
        tables.append(diagnostics_table(comparison, diagnostics))
    if comparison.adjusted:
        tables += [adjusted_table(comparison.adjusted), link_table(comparison.adjusted)]
    if comparison.parts:
        tables.append(margin_parts_table(comparison.parts))
    if comparison.ranks:
        tables.insert(1, ranks_table(comparison))
    return "\n".join(["% needs \\usepackage{booktabs}", *(line for table in tables for line in table.latex())])


def file_names(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a name for the files of each comparison: its set, and its task where another is on the same set."""
    sets = [comparison.paired.set.replace("nnd/", "") for comparison in comparisons]
    tasks = [comparison.paired.title for comparison in comparisons]
    names = [f"{set_} {task}" if sets.count(set_) > 1 else set_ for set_, task in zip(sets, tasks, strict=True)]
    plain = [file_stem(name) or "comparison" for name in names]
    return [f"{name}_{i}" if plain.count(name) > 1 else name for i, name in enumerate(plain, start=1)]


def file_stem(name: str) -> str:
    """Return a name from outside as one that names a file of a folder, and no hidden one; empty where nothing is left."""
    return re.sub(r"[^\w.-]+", "_", name).strip("_.")[:200]


def write_each(
    found: Sequence[_Item],
    folder: Path,
    name_of: Callable[[_Item], str],
    forms: Mapping[str, Callable[[_Item], str]],
) -> list[Path]:
    """Write each result in several forms into a folder, all files or none; return the files.

    Args:
        found: the results.
        folder: where to write.
        name_of: returns what a result is called; equal names get a number.
        forms: ending of a file -> what returns its text.

    Raises:
        NNDError: the folder cannot be written.
    """
    stems = [file_stem(name_of(one)) for one in found]
    stems = [f"{stem}_{i}" if stems.count(stem) > 1 else stem for i, stem in enumerate(stems, start=1)]
    place = expand(folder)
    files = {
        place / f"{stem}.{suffix}": form(one)
        for one, stem in zip(found, stems, strict=True)
        for suffix, form in forms.items()
    }
    write_texts(files)
    return list(files)


def write_comparison(comparison: Comparison, stem: Path, diagnostics: ByModel | None = None) -> list[Path]:
    """Write a comparison as Markdown, JSON, CSV and LaTeX, all files or none; return the files.

    Raises:
        NNDError: the folder cannot be written.
    """
    stem = expand(stem)
    forms = {"md": markdown, "json": to_json, "csv": to_csv, "tex": to_latex}
    texts = {stem.with_name(f"{stem.name}.{suffix}"): form(comparison, diagnostics) for suffix, form in forms.items()}
    write_texts(texts)
    return list(texts)
