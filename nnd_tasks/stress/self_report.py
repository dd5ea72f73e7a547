"""`nnd_tasks.stress.self_texts` as a table: which model likes whose texts, and does each like its own best?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.special import stdtrit

from nnd_tasks.analysis.compare.paired import holm
from nnd_tasks.analysis.effects import Effects, Floats
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, write_texts
from nnd_tasks.formats import TextTable, csv_text, json_text, number, p_value
from nnd_tasks.show.report import interval, write_cell
from nnd_tasks.statistics import confidence_interval
from nnd_tasks.stress.self_texts import SelfScores
from nnd_tasks.wording import counted

_READING = (
    "Scores: mean log-likelihood per token in nats, with 95% intervals over prompts; rows score, columns write. Own less others: "
    "what a model gives its own texts, less what it gives those of others after the same prompt; p is of this, corrected over "
    "the models (Holm). Beyond the others: that, less what the other scorers give; it is above 0 for any models that differ, so "
    "only its size says something. Prefers own: share of pairs (own text, other's text) in which the own one scores higher."
)

#: (value, lower end, upper end of the 95% interval).
Estimate: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class GivenScore:
    """What one model gives the texts of another; `mean` is in nats per token, with the ends of its 95% interval."""

    scorer: str
    writer: str
    mean: Estimate


@dataclass(frozen=True, slots=True)
class SelfBias:
    """How a model scores its own texts. Estimates are (value, lower end, upper end of the 95% interval).

    Attributes:
        model: its name.
        rank: of its own texts among all writers, by its mean score; 1 is the highest.
        own: its score of its own texts less that of the others, in nats per token.
        beyond: that, less what the other scorers give.
        prefers: share of pairs with its own text in which that scores higher.
        p_holm: p of ``own`` being 0, corrected over the models.
    """

    model: str
    rank: int
    own: Estimate
    beyond: Estimate
    prefers: Estimate
    p_holm: float


@dataclass(frozen=True)
class SelfReport:
    """The table of who likes whose texts.

    Attributes:
        cells: per scorer and writer.
        biases: per model that writes.
        prompts: number of prompts after which every text could be scored.
        left_out: number of the other prompts.
        tokens: writer -> mean number of tokens of its texts.
    """

    cells: list[GivenScore]
    biases: list[SelfBias]
    prompts: int
    left_out: int
    tokens: dict[str, float]


def self_report(found: SelfScores) -> SelfReport:
    """Return the report on prompts after which every model wrote something that all could score.

    Raises:
        NNDError: there are fewer than two such prompts.
    """
    whole = np.isfinite(found.scores).all(axis=(1, 2))
    scores = found.scores[whole]
    if len(scores) < 2:
        raise NNDError(
            f"only {counted(len(scores), 'prompt')} after which every model wrote a text that all could score; take more --texts"
        )
    cells = [
        GivenScore(scorer, writer, _mean(scores[:, i, j]))
        for i, scorer in enumerate(found.scorers)
        for j, writer in enumerate(found.writers)
    ]
    biases = [_bias(model, scores, i) for i, model in enumerate(found.writers)]
    corrected = holm([one.p_holm for one in biases])
    biases = [replace(one, p_holm=p) for one, p in zip(biases, corrected, strict=True)]
    return SelfReport(
        cells, biases, len(scores), int((~whole).sum()), dict(zip(found.writers, found.tokens, strict=True))
    )


def _bias(model: str, scores: Floats, place: int) -> SelfBias:
    """Return how a model scores its own texts, with p not yet corrected.

    Args:
        model: its name.
        scores: shape (prompts, scorers, writers).
        place: of the model among scorers and writers.
    """
    prompts, _, writers = scores.shape
    given = scores[:, place]
    columns = [given, given - np.delete(scores, place, axis=1).mean(axis=1)]
    prompt = np.repeat(np.arange(prompts), writers)
    effects = Effects(prompt, prompt, np.tile(np.eye(writers), (prompts, 1)))
    contrast = effects.against_others([place])[None]
    result = effects.estimate(np.stack([column.ravel() for column in columns], axis=1), contrast)
    low, high = result.interval()
    own, beyond = ((float(result.values[0, i]), float(low[0, i]), float(high[0, i])) for i in range(len(columns)))
    wins = (given[:, [place]] > np.delete(given, place, axis=1)).sum(axis=1)
    compared = np.full(prompts, writers - 1)
    prefers = (float(wins.sum() / compared.sum()), *confidence_interval(wins, compared))
    means = given.mean(axis=0)
    rank = 1 + int((means > means[place]).sum())
    return SelfBias(model, rank, own, beyond, prefers, float(result.p_values()[0, 0]))


def _mean(values: Floats) -> Estimate:
    """Return a mean over prompts, two at least, with its 95% interval, Student's."""
    mean = float(values.mean())
    half = float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1)) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def scores_table(report: SelfReport) -> TextTable:
    """Return a row per scorer, a column per writer."""
    writers = list(report.tokens)
    scorers = list(dict.fromkeys(cell.scorer for cell in report.cells))
    means = {(cell.scorer, cell.writer): cell.mean for cell in report.cells}
    rows = []
    for scorer in scorers:
        values = (means[scorer, writer] for writer in writers)
        rows.append([scorer, *(f"{number(mean)} [{number(low)} to {number(high)}]" for mean, low, high in values)])
    return TextTable(["scorer", *writers], rows)


def biases_table(report: SelfReport) -> TextTable:
    """Return a row per model."""
    rows = [
        [
            *(one.model, f"{report.tokens[one.model]:.1f}", f"{one.rank} of {len(report.biases)}"),
            *(shown(*one.own), p_value(one.p_holm), shown(*one.beyond)),
            f"{number(one.prefers[0])} [{number(one.prefers[1])} to {number(one.prefers[2])}]",
        ]
        for one in report.biases
    ]
    head = [
        "model",
        "tokens per text",
        "rank of own",
        "own less others",
        "beyond the others",
        "p (Holm)",
        "prefers own",
    ]
    return TextTable(head, rows)


def shown(value: float, low: float, high: float) -> str:
    """Return an estimate with its interval for a table."""
    return write_cell("{value:+.3f} [{ends}]", {"value": value, "ends": interval(low, high)})


def markdown(report: SelfReport) -> str:
    """Return both tables, with what is needed to read them."""
    lines = [f"# Self-evaluation: {report.prompts:,} prompts", "", _READING, "", *scores_table(report).markdown()]
    lines += biases_table(report).markdown()
    if report.left_out:
        lines.append(
            f"Left out: {counted(report.left_out, 'prompt')} after which a model wrote nothing, or a text could not be scored."
        )
    return "\n".join(lines)


def write_self_report(report: SelfReport, folder: Path) -> list[Path]:
    """Write the report as Markdown, CSV (the cells) and JSON into a folder, all files or none; return them.

    Raises:
        NNDError: the folder cannot be written.
    """
    place = expand(folder)
    cells = [
        {"scorer": c.scorer, "writer": c.writer, "mean": c.mean[0], "low": c.mean[1], "high": c.mean[2]}
        for c in report.cells
    ]
    files = {
        place / "self.md": markdown(report) + "\n",
        place / "self.csv": csv_text(cells),
        place / "self.json": json_text(asdict(report)) + "\n",
    }
    write_texts(files)
    return list(files)
