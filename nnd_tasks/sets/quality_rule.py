"""The rule of a recipe: which judgements make one candidate better than another (paper, sections 2.1 and 7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nnd_tasks.sets.recipe import Recipe


@dataclass(frozen=True)
class LabelRule:
    """Labels say what is better.

    Attributes:
        sentence: the rule in words.
        better: labels that are better than all others.
        ranks: label -> its rank, the worst is 0; empty where ``better`` decides.
        ignored: labels that do not rate quality.
        min_gap: smallest difference of two ranks that makes one better.
    """

    sentence: str
    better: tuple[str, ...]
    ranks: Mapping[str, float]
    ignored: tuple[str, ...]
    min_gap: float = 1.0
    role: str = "label"

    def rank(self, label: str) -> float | None:
        """Rank a label; None for a label that the order does not have."""
        return self.ranks.get(label) if self.ranks else float(label in self.better)


@dataclass(frozen=True)
class ScoreRule:
    """Scores say what is better.

    Attributes:
        sentence: the rule in words.
        min_gap: smallest difference of two qualities that makes one better, less a tolerance for rounding.
        majority: whether a candidate is good if more than half of its scores are the best one.
        best: the best score; None takes the highest of each attribute.
    """

    sentence: str
    min_gap: float
    majority: bool
    best: float | None
    role: str = "score"


@dataclass(frozen=True)
class PairRule:
    """The source says of each pair which text is better; ``sentence`` says so."""

    sentence: str


Rule: TypeAlias = LabelRule | ScoreRule | PairRule


def make_rule(recipe: Recipe) -> Rule:
    """Make the rule of a recipe; one that names none is for ready-made pairs."""
    sentence = recipe.facts.rule or _describe_rule(recipe)
    if recipe.better or recipe.order:
        ranks = {label: float(place) for place, rank in enumerate(recipe.order) for label in rank}
        return LabelRule(sentence, recipe.better, ranks, recipe.ignore)
    if recipe.majority or recipe.min_gap is not None:
        # Scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding.
        min_gap = (recipe.min_gap or 1.0) * (1 - 1e-9)
        return ScoreRule(sentence, min_gap, recipe.majority, recipe.best)
    return PairRule(sentence)


def _describe_rule(recipe: Recipe) -> str:
    if recipe.better:
        labels = ["without a label" if not label else f"labelled `{label}`" for label in recipe.better]
        sentence = f"Candidates {' or '.join(labels)} are better than all others of the same context."
    elif recipe.order:
        ranks = " < ".join(" = ".join(rank) for rank in recipe.order)
        sentence = f"Labels have an order: {ranks}. Pairs of equal rank are left out."
    elif recipe.majority:
        best = "the highest score" if recipe.best is None else f"{recipe.best:g}"
        sentence = f"A candidate is good when more than half of its scores are {best}, else bad."
    elif recipe.min_gap is not None:
        sentence = f"A candidate is better when its mean score is {recipe.min_gap:g} or more above that of another."
    elif recipe.pairs:
        sentence = "The source says of each pair which text is better."
    else:
        return "The recipe names no rule."
    return f"{sentence} {_SEVERAL_ERRORS[recipe.several_errors]}" if recipe.several_errors else sentence


_SEVERAL_ERRORS = {
    "first": "Of several errors of a candidate, the first one counts.",
    "most_severe": "Of several errors of a candidate, the most severe one counts.",
    "each": "Each of several errors of a candidate makes a test.",
}
