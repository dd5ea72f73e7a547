"""Failed tests to look at: which ones to show, and how their two candidates differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnd_tasks.analysis.alignment import blocks
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired

if TYPE_CHECKING:
    import pandas as pd

#: Characters that are shown of a context or another field of the prompt.
CONTEXT_LIMIT = 1_500
#: Characters up to which a field of the prompt is shown without a click.
SHORT = 300
#: Characters that are shown of a candidate.
CANDIDATE_LIMIT = 800
#: Characters that are shown on each side of a difference, where what two candidates share is long.
_AROUND = 100
#: Texts that share a smaller part of their words are shown without marks, as almost everything would be marked.
_ALIKE = 0.4
#: Fields of a document that are no part of the prompt.
_NOT_PROMPT = {"cluster_id", "candidates", "scores", "no_context", "kind"}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a candidate.

    Attributes:
        text: as it is shown.
        differs: the other candidate does not have it here.
        left_out: number of characters that are not shown after it.
    """

    text: str
    differs: bool = False
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate of an example.

    Attributes:
        parts: its text.
        mean: log-likelihood per token, nats.
        tokens: number of tokens.
    """

    parts: list[Part]
    mean: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Example:
    """A test that a model failed.

    Attributes:
        model: its name.
        task: name of the task.
        category: of the test.
        detail: subcategory and severity, where there are any.
        test_id: of the test.
        margin: better - worse, nats per token; 0 or less.
        margin_sum: better - worse, nats of the whole texts.
        margin_bytes: better - worse, nats per UTF-8 byte.
        high: the better candidate.
        low: the worse one.
        prompt: (field, its text) of what the model was given.
        others: number of other models that were compared.
        passed_by: names of those that passed the test.
    """

    model: str
    task: str
    category: str
    detail: str
    test_id: str
    margin: float
    margin_sum: float
    margin_bytes: float
    high: Candidate
    low: Candidate
    prompt: list[tuple[str, Part]]
    others: int
    passed_by: list[str]

    @property
    def short(self) -> list[tuple[str, Part]]:
        """Fields of the prompt that are shown at once, such as a question or an answer."""
        return [(name, part) for name, part in self.prompt if len(part.text) <= SHORT]

    @property
    def long(self) -> list[tuple[str, Part]]:
        """Fields of the prompt that are folded, as they are long."""
        return [(name, part) for name, part in self.prompt if len(part.text) > SHORT]


def failed_examples(paired: Paired, count: int) -> list[Example]:
    """Return failed tests of each model, the largest negative margins first.

    Args:
        paired: models on the same tests.
        count: tests per model: an equal number from each category, then the worst of all categories.
    """
    outcome = dict(zip(paired.tests["test_id"], paired.passed.tolist(), strict=True))
    examples = []
    for run in paired.runs:
        for row in worst(run.tests, count).to_dict("records"):
            outcomes = outcome.get(row["test_id"], [])
            passed_by = [model for model, passed in zip(paired.models, outcomes, strict=False) if passed]
            examples.append(_example(run, paired.task_of(run), row, len(paired.models) - 1, passed_by))
    return examples


def worst(tests: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return up to ``count`` failed tests by margin: count // categories from each category, then the worst of the rest.

    Args:
        tests: with the columns of `nnd_tasks.analysis.samples.COLUMNS`.
        count: number of tests to return.
    """
    failed = tests[tests["passed"].eq(False).fillna(False) & tests["margin"].notna()].sort_values(
        ["margin", "test_id"], kind="stable"
    )
    share = count // max(failed["category"].nunique(), 1)
    first = failed.groupby("category", sort=False).head(share)
    rest = failed.drop(index=first.index).head(max(count - len(first), 0))
    return failed.loc[sorted([*first.index, *rest.index], key=failed.index.get_loc)]


def _example(run: Run, task: str, row: Mapping[str, Any], others: int, passed_by: list[str]) -> Example:
    document = run.documents[row["document"]]
    high, low = contrast(str(document["candidates"][row["high"]]), str(document["candidates"][row["low"]]))
    scores = document["scores"][row["high"]], document["scores"][row["low"]]
    fields = [(key, value) for key, value in document.items() if key not in _NOT_PROMPT and value not in (None, "")]
    return Example(
        model=run.model,
        task=task,
        category=row["category"],
        detail=", ".join(str(row[key]) for key in ("subcategory", "severity") if row[key]),
        test_id=row["test_id"],
        margin=row["margin"],
        margin_sum=row["margin_sum"],
        margin_bytes=row["margin_bytes"],
        high=Candidate(high, scores[0]["mean"], scores[0]["tokens"]),
        low=Candidate(low, scores[1]["mean"], scores[1]["tokens"]),
        prompt=[(key, _cut(str(value), CONTEXT_LIMIT)) for key, value in fields],
        others=others,
        passed_by=passed_by,
    )


def _cut(text: str, limit: int) -> Part:
    """Return the first ``limit`` characters of a text."""
    return Part(text[:limit], left_out=max(len(text) - limit, 0))


# ---------------------------------------------------------------- two texts side by side


def contrast(high: str, low: str) -> tuple[list[Part], list[Part]]:
    """Return two texts in parts, marked where they differ and shortened where they share a long stretch.

    Each has at most `CANDIDATE_LIMIT` characters. Texts that have little in common are not marked.
    """
    left, right = _words(high), _words(low)
    enough = _ALIKE * max(len(left), len(right))
    if (Counter(left) & Counter(right)).total() < enough:  # in order they share even fewer
        return _limit([Part(high)]), _limit([Part(low)])
    stretches = blocks(left, right)
    if sum(i_size for same, _, i_size, _, _ in stretches if same) < enough:
        return _limit([Part(high)]), _limit([Part(low)])
    parts: tuple[list[Part], list[Part]] = ([], [])
    for number, (same, i, i_size, j, j_size) in enumerate(stretches):
        ends = number == 0, number == len(stretches) - 1
        for side, words, start, size in ((0, left, i, i_size), (1, right, j, j_size)):
            text = "".join(words[start : start + size])
            parts[side].extend(_shorten(text, *ends) if same else _mark(text))
    return _limit(parts[0]), _limit(parts[1])


def _words(text: str) -> list[str]:
    """Return the words of a text, each with the white space before it, so that joined they are the text."""
    return re.findall(r"\s*\S+|\s+$", text)


def _mark(text: str) -> list[Part]:
    """Return text that differs, marked except for the space before it."""
    words = text.lstrip()
    space = text[: len(text) - len(words)]
    return [Part(space)] * bool(space) + [Part(words, differs=True)] * bool(words)


def _shorten(text: str, first: bool, last: bool) -> list[Part]:
    """Return shared text, without its middle where it is long.

    Args:
        text: to shorten.
        first: no difference comes before it, so its beginning is left out too.
        last: no difference comes after it, so its end is left out too.
    """
    before, after = (0 if first else _AROUND), (0 if last else _AROUND)
    if first and last:  # the texts are equal
        return [Part(text)]
    if len(text) <= 2 * _AROUND + 40:
        return [Part(text)]
    kept = [Part(text[:before])] if before else []
    kept.append(Part("", left_out=len(text) - before - after))
    return [*kept, Part(text[len(text) - after :])] if after else kept


def _limit(parts: list[Part]) -> list[Part]:
    """Return the parts up to `CANDIDATE_LIMIT` characters."""
    shown: list[Part] = []
    room = CANDIDATE_LIMIT
    for number, part in enumerate(parts):
        if len(part.text) > room:
            left_out = sum(len(p.text) + p.left_out for p in parts[number:]) - room
            return [*shown, Part(part.text[:room], part.differs), Part("", left_out=left_out)]
        shown.append(part)
        room -= len(part.text)
    return shown
