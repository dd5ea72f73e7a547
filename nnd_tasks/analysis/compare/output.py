"""A comparison as Markdown, JSON, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nnd_tasks.analysis.compare.diagnostics import ReadingAid
from nnd_tasks.analysis.compare.paired import CategoryResult, Comparison, Difference
from nnd_tasks.analysis.compare.power import FEW, HOPELESS, is_hopeless
from nnd_tasks.baselines import BASELINES
from nnd_tasks.errors import visible
from nnd_tasks.files import expand, write_texts
from nnd_tasks.markdown import code, table_row, unlinked
from nnd_tasks.wording import counted, csv_cell

#: What a report of one comparison may be written as.
FORMATS = ("md", "json", "csv", "tex")

#: Model -> category -> reading aid.
Aids = Mapping[str, Mapping[str, ReadingAid]]


def number(value: float, digits: int = 3, signed: bool = False) -> str:
    """Return a number for a table; a dash for nan, and ``none`` for what infinity stands for (`power.detectable`)."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "none"
    return f"{value:{'+' if signed else ''}.{digits}f}"


def between(low: float, high: float) -> str:
    """Return the interval of a difference for a table, with as many digits as tell its ends apart."""
    if math.isnan(low):
        return "no interval"
    digits = next((digits for digits in range(3, 9) if round(low, digits) != round(high, digits)), 9)
    return f"{number(low, digits, signed=True)} to {number(high, digits, signed=True)}"


def p_value(value: float) -> str:
    """Return a p value for a table."""
    if math.isnan(value):
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def few(clusters: int) -> str:
    """Return a mark for categories whose error bars are not to be relied on."""
    return "†" if clusters < FEW else ""


def hopeless(difference: Difference, clusters: int) -> str:
    """Return a mark for what can hardly be detected."""
    return "‡" if is_hopeless(difference.detectable, clusters) else ""


def odd(difference: Difference) -> str:
    """Return a mark for an interval and a p value that do not agree."""
    return " ≠" if difference.disagrees else ""


def rows_of(comparison: Comparison, aids: Aids | None = None) -> list[dict[str, Any]]:
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
                    **_aid_cells(aids, difference, result.category),
                }
            )
    return rows


def _aid_cells(aids: Aids | None, difference: Difference, category: str) -> dict[str, float | None]:
    """Return the reading aid of two models on a category as cells of a row."""
    cells: dict[str, float | None] = {}
    for which, model in (("first", difference.first), ("second", difference.second)) if aids else ():
        aid = aids[model].get(category) if aids else None
        if aid is not None:
            cells |= {f"rule_{rule}": rate for rule, rate in aid.trivial.items()}
            cells |= {
                f"{which}_{key}": getattr(aid, key) for key in ("flips_bytes", "flips_sum", "near", "pmi", "survives")
            }
    return cells


def _rates_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    models = comparison.paired.models
    head = ["category", "tests", "clusters", *models]
    body = []
    for result in comparison.categories:
        rates = [
            f"{number(rate.rate)} [{number(rate.low)}, {number(rate.high)}]"
            for rate in (result.rates[model] for model in models)
        ]
        body.append([result.category, f"{result.tests:,}", f"{result.clusters:,}{few(result.clusters)}", *rates])
    return head, body


def _differences_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    head = ["category", "second - first", "difference", "95% interval", "p", "p (Holm)", "McNemar", "detectable"]
    body = [
        [
            result.category,
            f"{found.second} - {found.first}",
            number(found.difference, signed=True),
            between(found.low, found.high) + odd(found),
            p_value(found.p),
            p_value(found.p_holm),
            p_value(found.mcnemar),
            number(found.detectable) + hopeless(found, result.clusters),
        ]
        for result in comparison.categories
        for found in result.differences
    ]
    return head, body


def _ranks_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    head = ["rank group", "rank", "model", "pass rate"]
    body = [
        [
            str(rank.cluster),
            str(rank.best) if rank.best == rank.worst else f"{rank.best}-{rank.worst}",
            rank.model,
            number(rank.rate),
        ]
        for rank in comparison.ranks
    ]
    return head, body


def _aid_table(comparison: Comparison, aids: Aids) -> tuple[list[str], list[list[str]]]:
    models = comparison.paired.models
    with_context = any(aid.pmi is not None for found in aids.values() for aid in found.values())
    head = ["category", *BASELINES, *(f"flips, bytes: {model}" for model in models)]
    head += [*(f"flips, sum: {model}" for model in models), *(f"near ties: {model}" for model in models)]
    if with_context:
        head += [f"PMI: {model}" for model in models] + [f"survives: {model}" for model in models]
    body = []
    for result in comparison.categories:
        of_first = aids[models[0]].get(result.category)
        if of_first is None:
            continue
        row = [result.category, *(number(of_first.trivial[rule]) for rule in BASELINES)]
        here = [aids[model][result.category] for model in models]
        row += [number(aid.flips_bytes) for aid in here] + [number(aid.flips_sum) for aid in here]
        row += [number(aid.near) for aid in here]
        if with_context:
            row += [number(math.nan if aid.pmi is None else aid.pmi) for aid in here]
            row += [number(math.nan if aid.survives is None else aid.survives) for aid in here]
        body.append(row)
    return head, body


def _markdown_table(table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> list[str]:
    head, body = table
    return [table_row(head), "|" + "---|" * len(head), *map(table_row, body), ""]


def markdown(comparison: Comparison, aids: Aids | None = None, *, signatures: bool = True) -> str:
    """Return the tables of a comparison.

    Args:
        comparison: of one set.
        aids: model -> category -> reading aid.
        signatures: end with the signature of each run, a long line.
    """
    paired = comparison.paired
    lines = [
        f"# {unlinked(paired.set)}: {', '.join(map(unlinked, paired.models))}",
        "",
        f"Task: {unlinked(paired.title)}.",
        "",
    ]
    if paired.left_out:
        lines += [f"Left out: {counted(paired.left_out, 'test')} that some model could not score.", ""]
    lines += [
        "Pass rates with 95% intervals (Wilson's), clustered by prompt:",
        "",
        *_markdown_table(_rates_table(comparison)),
    ]
    if comparison.ranks:
        lines += [
            "Ranks. Between rank groups every pair of models differs; within one, some may differ too, as the differences "
            "on all tests say (paired permutation, Holm over pairs, 0.05):",
            "",
            *_markdown_table(_ranks_table(comparison)),
        ]
    lines += [
        f"Differences, paired by test and clustered by prompt: 95% t interval, p by permutation ({comparison.resamples:,} "
        "resamples), McNemar's exact test for reference (it takes tests for independent); detectable: the smallest true "
        "difference that p (Holm) finds with probability 0.8.",
        "",
        "p (Holm) answers two questions. On all tests: which models differ? Corrected over the pairs of models. On a category: "
        "which models differ on which errors? Corrected over pairs and categories together. Of tables of equal models, at most "
        "5% have any p (Holm) below 0.05 for the first question, and at most 5% for the second.",
        "",
        *_markdown_table(_differences_table(comparison)),
    ]
    if aids:
        lines += [
            "Reading aid: share of tests that trivial rules pass, flips (share of outcomes that the likelihood per byte, "
            "or the summed one, changes against the one per token), share decided by less than 1e-6.",
            "",
            *_markdown_table(_aid_table(comparison, aids)),
        ]
    lines += _notes(comparison.categories)
    lines += [f"- {unlinked(run.model)}: {code(run.line, in_table=False)}" for run in paired.runs if signatures]
    lines += [f"- Not in this table: {unlinked(line)}" for line in comparison.alone]
    return "\n".join(lines) + "\n"


def _notes(categories: Sequence[CategoryResult]) -> list[str]:
    notes = []
    if any(few(result.clusters) for result in categories):
        notes.append(f"† fewer than {FEW} prompts: the error bars are not to be relied on.")
    if any(hopeless(found, result.clusters) for result in categories for found in result.differences):
        notes.append(
            f"‡ too few prompts to detect what models really differ by (or more than {HOPELESS} needed). none: no difference "
            "can be found, for no p can be small enough with so few prompts (or --resamples)."
        )
    if any(odd(found) for result in categories for found in result.differences):
        notes.append(
            "≠ interval and p (before Holm) do not agree on whether 0 is possible. They are two methods, and this is a close "
            "call or one of few prompts: take the difference as not shown."
        )
    return [*notes, ""] if notes else []


def to_json(comparison: Comparison, aids: Aids | None = None) -> str:
    """Return everything as JSON; nan as null."""
    found = {
        "set": comparison.paired.set,
        "task": comparison.paired.title,
        "models": comparison.paired.models,
        "signatures": {run.model: run.line for run in comparison.paired.runs},
        "left_out": comparison.paired.left_out,
        "not_compared": comparison.alone,
        "resamples": comparison.resamples,
        "seed": comparison.seed,
        "categories": [asdict(result) for result in comparison.categories],
        "ranks": [asdict(rank) for rank in comparison.ranks],
        "reading_aid": {
            model: {category: asdict(aid) for category, aid in by_category.items()}
            for model, by_category in (aids or {}).items()
        },
    }
    return json.dumps(_without_nan(found), indent=2, ensure_ascii=False) + "\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_csv(comparison: Comparison, aids: Aids | None = None) -> str:
    """Return one row per category and pair of models, with the reading aid of both."""
    text = io.StringIO()
    rows = rows_of(comparison, aids)
    writer = csv.DictWriter(text, fieldnames=list({key: 0 for cells in rows for key in cells}), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: csv_cell(value) for key, value in cells.items()} for cells in rows)
    return text.getvalue()


_MINUS = "\u2212"
_LATEX = str.maketrans(
    {
        **{char: "\\" + char for char in "&%$#_{}"},
        **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
        **{_MINUS: r"$-$", "†": r"$\dagger$", "‡": r"$\ddagger$", "≠": r"$\neq$"},
        **{char: f"${char}$" for char in "<>|"},
    }
)


def to_latex(comparison: Comparison, aids: Aids | None = None) -> str:
    """Return the tables for LaTeX with booktabs."""
    tables = [_rates_table(comparison), _differences_table(comparison)]
    if aids:
        tables.append(_aid_table(comparison, aids))
    if comparison.ranks:
        tables.insert(1, _ranks_table(comparison))
    lines = ["% needs \\usepackage{booktabs}"]
    for head, body in tables:
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule", _latex_line(head), r"\midrule"]
        lines += [*map(_latex_line, body), r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _latex_line(cells: Sequence[str]) -> str:
    # The minus of a number is no hyphen; that of a name, a date or a range stays.
    escaped = [re.sub(r"(?<![\w.])-(?=\d)", _MINUS, visible(cell)).translate(_LATEX) for cell in cells]
    # After the end of a row a bracket or a star would belong to that end.
    return " & ".join(f"{{{cell[0]}}}{cell[1:]}" if cell[:1] in ("[", "*") else cell for cell in escaped) + r" \\"


def file_names(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a name for the files of each comparison: its set, and its task where another is on the same set."""
    sets = [comparison.paired.set.replace("nnd/", "") for comparison in comparisons]
    tasks = [comparison.paired.title for comparison in comparisons]
    names = [f"{set_} {task}" if sets.count(set_) > 1 else set_ for set_, task in zip(sets, tasks, strict=True)]
    # A name from outside must name a file of the folder, and no hidden one.
    plain = [re.sub(r"[^\w.-]+", "_", name).strip("_.")[:200] or "comparison" for name in names]
    return [f"{name}_{i}" if plain.count(name) > 1 else name for i, name in enumerate(plain, start=1)]


def write_comparison(comparison: Comparison, stem: Path, aids: Aids | None = None) -> list[Path]:
    """Write a comparison in every form of `FORMATS`; return the files.

    Raises:
        NNDError: the folder cannot be written.
    """
    stem = expand(stem)
    forms = {
        "md": markdown(comparison, aids),
        "json": to_json(comparison, aids),
        "csv": to_csv(comparison, aids),
        "tex": to_latex(comparison, aids),
    }
    texts = {stem.with_name(f"{stem.name}.{suffix}"): text for suffix, text in forms.items()}
    write_texts(texts)
    return list(texts)
