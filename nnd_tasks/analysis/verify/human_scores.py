"""What people said of each system, read from the publishers' files of Quiz Design and SummEval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.cells import kind_of
from nnd_tasks.sets.read import Record, naming_place, read_records

Array = NDArray[np.float64]
ATTRIBUTES = ("consistency", "coherence", "fluency", "relevance")
#: Separates the names of systems that wrote the same question.
SHARED = "|"
#: Labels of Quiz Design.
NO_ERROR, ERRORS = "No error", ("disfluent", "off_target", "wrong_context")


@dataclass(frozen=True)
class HumanJudgements:
    """Scores of the outputs of several models, added up per prompt, so that prompts can be resampled without scoring again.

    A prompt is what all models were given: a paragraph and an answer, or an article.

    Attributes:
        models: names.
        categories: names.
        sums: sums of scores, shape (prompts, models, categories).
        counts: numbers of outputs, shape (prompts, models).
    """

    models: tuple[str, ...]
    categories: tuple[str, ...]
    sums: Array
    counts: Array

    @property
    def prompts(self) -> int:
        """Number of prompts."""
        return len(self.counts)

    def means(self, weights: Array | None = None) -> Array:
        """Return the mean score of each model over its outputs.

        Args:
            weights: how often each prompt counts, shape (resamples, prompts); None counts each once.

        Returns:
            Shape (models, categories), or (resamples, models, categories); nan for a model without outputs.
        """
        flat = self.sums.reshape(self.prompts, -1)
        if weights is None:
            sums, counts = flat.sum(axis=0), self.counts.sum(axis=0)
        else:
            sums, counts = weights @ flat, weights @ self.counts
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums.reshape(*counts.shape, len(self.categories)) / counts[..., None])

    def table(self) -> dict[str, dict[str, float]]:
        """Return model -> category -> mean score."""
        return means_by_model(self.means(), self.models, self.categories)


def means_by_model(means: Array, models: Sequence[str], categories: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return model -> category -> mean, of means of shape (models, categories)."""
    return {
        model: dict(zip(categories, map(float, row), strict=True)) for model, row in zip(models, means, strict=True)
    }


def add_up(
    scored: Iterable[tuple[str, str, Sequence[float]]], models: Sequence[str], categories: Sequence[str]
) -> HumanJudgements:
    """Return the sums of scores, with prompts in the order of their first output.

    Args:
        scored: (prompt, model, score of each category) of each output.
        models: names.
        categories: names.
    """
    row: dict[str, int] = {}
    column = {model: i for i, model in enumerate(models)}
    where, values = [], []
    for prompt, model, scores in scored:
        where.append((row.setdefault(prompt, len(row)), column[model]))
        values.append(scores)
    sums, counts = np.zeros((len(row), len(column), len(categories))), np.zeros((len(row), len(column)))
    index = tuple(np.array(where, dtype=np.intp).reshape(-1, 2).T)
    np.add.at(sums, index, np.array(values, dtype=np.float64).reshape(-1, len(categories)))
    np.add.at(counts, index, 1.0)
    return HumanJudgements(tuple(models), tuple(categories), sums, counts)


# ---------------------------------------------------------------- Quiz Design


def read_quiz_design(path: Path, models: Sequence[str]) -> tuple[HumanJudgements, dict[str, float]]:
    """Return 1 - the share of a model's questions with each error, and the share of its questions without any.

    A question that several models wrote counts for each of them.

    Args:
        path: the publisher's file.
        models: names of the models.

    Raises:
        NNDError: the file is not in the publisher's format, has an unknown label, or has no question of a model.
    """
    scored: list[tuple[str, str, list[float]]] = []
    accepted: list[tuple[str, str, list[float]]] = []
    with naming_place(path):
        for group in read_records(path):
            prompt = f"{group['context']}\n{group['answer_span']}"
            for question in group["questions"]:
                label = question["reason"]
                if label not in (NO_ERROR, *ERRORS):
                    known = ", ".join((NO_ERROR, *ERRORS))
                    raise NNDError(f"{group.where}: unknown label {label!r}; the labels are {known}")
                for model in question["model_name"].split(SHARED):
                    if model in models:
                        scored.append((prompt, model, [float(label != error) for error in ERRORS]))
                        accepted.append((prompt, model, [float(label == NO_ERROR)]))
    _need({model for _, model, _ in scored}, models, path, "question")
    acceptance = add_up(accepted, models, ("accepted",)).means()[:, 0]
    return add_up(scored, models, ERRORS), dict(zip(models, map(float, acceptance), strict=True))


# ---------------------------------------------------------------- SummEval


@dataclass(frozen=True)
class Summaries:
    """The summaries of some systems, with what text metrics compare them to.

    Attributes:
        systems: names, in the order asked for.
        human: mean expert rating, 1 to 5, per attribute.
        articles: identifier of each summary's article.
        writers: the system that wrote each summary.
        texts: the summaries.
        references: the first reference of each summary, CNN/DailyMail's own highlights.
        sources: the article of each summary, "" where the file has none.
    """

    systems: tuple[str, ...]
    human: HumanJudgements
    articles: tuple[str, ...]
    writers: tuple[str, ...]
    texts: tuple[str, ...]
    references: tuple[str, ...]
    sources: tuple[str, ...]

    def score(self, metric: Callable[[Sequence[str], Sequence[str], Sequence[Sequence[str]]], list[float]]) -> Array:
        """Return a score per summary."""
        references = [[reference] for reference in self.references]
        return np.asarray(metric(self.texts, self.sources, references), dtype=np.float64)

    def judge(self, scores: Mapping[str, Sequence[float] | Array]) -> HumanJudgements:
        """Return scores of metrics (metric -> a score per summary) added up by article, with a category per metric."""
        rows = [list(row) for row in zip(*scores.values(), strict=True)]
        # `human` has the same articles in the same order, as both are made from the same summaries.
        return add_up(zip(self.articles, self.writers, rows, strict=True), self.systems, list(scores))


def read_summeval(path: Path, systems: Sequence[str]) -> Summaries:
    """Return the summaries that ``systems`` wrote, with the mean of the experts' ratings.

    Raises:
        NNDError: the file is not in the publisher's format, or has no summary of a system.
    """
    chosen, articles, ratings, references = [], [], [], []
    with naming_place(path):
        for record in read_records(path):
            if record["model_id"] not in systems:
                continue
            first = next(iter(record["references"]), None)
            if not isinstance(first, str) or not first.strip():
                raise NNDError(f"{record.where}, field 'references': its first reference is missing or empty")
            if not isinstance(record["decoded"], str):
                raise NNDError(f"{record.where}, field 'decoded': expected text, found {kind_of(record['decoded'])}")
            chosen.append((record, record["model_id"]))
            articles.append(record["id"])
            ratings.append(_ratings(record))
            references.append(first)
    _need({writer for _, writer in chosen}, systems, path, "summary")
    writers = [writer for _, writer in chosen]
    return Summaries(
        systems=tuple(systems),
        human=add_up(zip(articles, writers, ratings, strict=True), systems, ATTRIBUTES),
        articles=tuple(articles),
        writers=tuple(writers),
        texts=tuple(record["decoded"] for record, _ in chosen),
        references=tuple(references),
        sources=tuple(record.get("text", "") for record, _ in chosen),
    )


def _ratings(record: Record) -> list[float]:
    """Return the mean of the experts' ratings per attribute."""
    experts = record["expert_annotations"]
    if not experts:
        raise NNDError(f"{record.where}, field 'expert_annotations': no expert rated the summary")
    rows = [[float(expert[attribute]) for attribute in ATTRIBUTES] for expert in experts]
    if not all(1 <= value <= 5 for row in rows for value in row):
        raise NNDError(f"{record.where}, field 'expert_annotations': ratings lie in 1 to 5, these do not: {rows}")
    return [float(value) for value in np.mean(rows, axis=0)]


def _need(present: set[str], wanted: Sequence[str], path: Path, what: str) -> None:
    """Raise NNDError where a file has nothing (``what``, such as ``summary``) of some of the wanted systems."""
    missing = [name for name in wanted if name not in present]
    if missing:
        raise NNDError(f"{path}: no {what} of {', '.join(missing)}; is it the publisher's whole file?")
