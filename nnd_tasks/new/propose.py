"""Propose which column holds what, from names and contents, for roles that the user did not name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.base_table import HEAD, Table
from nnd_tasks.recipes.cells import Numbers, listed, render
from nnd_tasks.recipes.chat import is_chat
from nnd_tasks.recipes.flatten import batches, list_hint, no_column
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.recipe import ROLES, Recipe
from nnd_tasks.recipes.spans import columns_of
from nnd_tasks.schema import RESERVED_COLUMNS
from nnd_tasks.wording import some_of

#: Role -> names of columns that usually hold it, the likeliest first.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "chosen": ("chosen", "preferred", "better", "winner", "sentence_good"),
    "rejected": ("rejected", "dispreferred", "worse", "loser", "sentence_bad"),
    "context": (
        "context", "prompt", "source", "src", "document", "article", "question", "query", "input", "instruction", "passage",
        "triples", "post", "source_text", "dialogue", "reference_document",
    ),
    "candidate": (
        "candidate", "output", "summary", "response", "completion", "hypothesis", "hyp", "mt", "target", "translation",
        "generation", "generated", "story", "answer", "system_output", "text",
    ),
    "label": ("label", "judgement", "judgment", "error", "error_type", "annotation", "verdict", "grade", "quality"),
    "score": ("score", "rating", "mean_score", "likert", "points", "mos"),
    "system": ("system", "model", "model_name", "model_id", "system_id", "system_name", "generator"),
    "rater": ("rater", "annotator", "worker", "judge", "worker_id", "annotator_id", "rater_id", "judge_id"),
    "category": ("category", "subset", "section"),
}  # fmt: skip
_MOST_LABELS = 30


@dataclass(frozen=True, slots=True)
class Choice:
    """A column that was chosen.

    Attributes:
        role: as in `Recipe`.
        column: its name.
        why: ``name``, or what its content looks like.
        rivals: for a context, other columns that may be the context: their texts are repeated and vary within one context.
    """

    role: str
    column: str
    why: str
    rivals: tuple[str, ...] = ()

    def note(self) -> str | None:
        """Return a note on columns that the user should look at, or None."""
        if not self.rivals:
            return None
        names = ", ".join(map(repr, self.rivals[:4]))
        return (
            f"rows with the same {self.column!r} differ in {names}; if a model is given that text, too, their candidates cannot "
            f"be compared: --context {self.rivals[0]}, and keep this column as a prompt field "
            f"with --field {_field_name(self.column)}={self.column}"
        )


def _field_name(column: str) -> str:
    """Return a name of a prompt field for a column."""
    name = re.sub(r"\W+", "_", column, flags=re.ASCII).strip("_").lower()
    return "given" if not name.isidentifier() or name in RESERVED_COLUMNS else name


class _Head:
    """The first rows of a table, and questions about its columns."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], recipe: Recipe) -> None:
        self.columns = columns
        self.number = Numbers(recipe.missing, recipe.decimal).number

    def texts(self, name: str) -> list[str]:
        """Return the texts of a column without blank ones; [] if a cell holds something else."""
        try:
            return [text for cell in self.columns[name] if (text := render(cell)) and text.strip()]
        except ValueError:
            return []

    def numeric(self, name: str) -> bool:
        """Tell whether every cell is a number, a list of numbers, or empty, and not all are empty."""
        values = self.values(name)
        return None not in values and any(value == value for value in values)

    def values(self, name: str) -> list[float | None]:
        """Return the numbers in the cells of a column and in their lists: nan for an empty cell, None for another one."""
        return [
            self.number(item) for cell in self.columns[name] for item in (cell if isinstance(cell, list) else [cell])
        ]

    def kinds(self, name: str) -> int:
        """Return the number of distinct texts of a column."""
        return len(set(self.texts(name)))

    def length(self, name: str) -> float:
        """Return the mean length of a column's texts, in characters."""
        texts = self.texts(name)
        return sum(map(len, texts)) / len(texts) if texts else 0.0

    def is_label(self, name: str) -> bool:
        """Tell whether a column holds few short texts that are repeated."""
        return 2 <= self.kinds(name) <= min(_MOST_LABELS, len(self.texts(name)) // 2) and self.length(name) <= 40


def complete(options: Mapping[str, Any], table: Table, where: str = "recipe") -> tuple[Recipe, list[Choice]]:
    """Return the recipe of a table, with a proposed column for each role that ``options`` do not name, and the proposals.

    Args:
        options: keys as in `Recipe`.
        table: the table.
        where: begins an error.

    Raises:
        NNDError: a column that the table does not have, or no column or rule that says what is better.
    """
    given = make_recipe(options, where)
    head = _Head(_head(table, given), given)
    for column in given.columns():
        if column not in head.columns:
            raise no_column(column, head.columns, table, list_hint(head.columns, given))
    choices = _propose(given, head)
    taken = {*given.columns(), *(choice.column for choice in choices)}
    choices = [
        replace(choice, rivals=_rivals(choice.column, taken, head)) if choice.role == "context" else choice
        for choice in choices
    ]
    proposed: dict[str, Any] = {choice.role: choice.column for choice in choices}
    if attributes := [choice.column for choice in choices if choice.role == "attribute"]:
        proposed["attribute"] = attributes
    recipe = make_recipe({**{k: v for k, v in options.items() if v is not None}, **proposed}, where)
    _check_enough(recipe, head, table)
    return recipe, choices


def _head(table: Table, recipe: Recipe) -> dict[str, list[Any]]:
    """Return the first rows of a table: its columns, and those that nested names of the recipe stand for."""
    columns = {name: cells for name, cells in table.head().items() if not name.startswith("@")}
    nested = [name for name in recipe.columns() if name not in columns]
    if not (nested or recipe.rows or recipe.each or recipe.constant):
        return columns
    batch = next(iter(batches(table, recipe, inside=True)), None)
    if batch is None:
        raise table.empty()
    made = {name: listed(cells[:HEAD]) for name, cells in batch.columns.items()}
    present = {name: cells for name, cells in made.items() if any(cell is not None for cell in cells)}
    return present if recipe.rows or recipe.each else {**columns, **present}


def _propose(given: Recipe, head: _Head) -> list[Choice]:
    """Return a column for each role that the recipe does not name and that a column fits."""
    taken = set(given.columns())
    choices: list[Choice] = []

    def choose(role: str, column: str | None, why: str) -> None:
        if column is not None:
            taken.add(column)
            choices.append(Choice(role, column, why))

    def named(role: str, test: Any = None) -> str | None:
        lower = {name.rsplit("[].", 1)[-1].lower().strip(): name for name in head.columns if name not in taken}
        fitting = (lower[name] for name in _NAMES[role] if name in lower)
        return next((name for name in fitting if test is None or test(name)), None)

    judged = any(getattr(given, role) for role in ("candidate", "label", "score", "attribute", "rater")) or given.rules
    chosen, rejected = given.chosen, given.rejected
    if not given.pair:
        chosen, rejected = chosen or named("chosen"), rejected or named("rejected")
    pairs = given.pairs or bool(chosen and rejected and not judged)
    for role, column in (("chosen", chosen), ("rejected", rejected)) if pairs and not given.pair else ():
        if getattr(given, role) is None:
            choose(role, column, "name")
    if given.context is None:
        column = named("context", lambda name: head.texts(name))
        first = chosen or next(iter(given.pair), None)
        own_context = pairs and first is not None and any(is_chat(cell) for cell in head.columns[first][:10])
        if column is not None and not own_context:
            choose("context", column, "name")
        elif not pairs:
            choose("context", _repeated_text(head, taken), "long texts that are repeated")
    if pairs:
        if given.category is None:
            choose("category", named("category", head.is_label), "name")
        return choices
    if given.candidate is None:
        if column := named("candidate", lambda name: head.kinds(name) > 0 and not head.numeric(name)):
            choose("candidate", column, "name")
        else:
            choose("candidate", _distinct_text(head, taken), "long texts, nearly all different")
    for role in ("system", "rater"):
        if getattr(given, role) is None:
            choose(role, named(role), "name")
    names_aspects = (
        len(given.attribute) == 1
        and given.wide
        and head.is_label(next(iter(given.attribute.values())))
        and not given.by_label
    )
    if names_aspects or not (given.label or given.score or given.attribute):
        _propose_marks(given, head, taken, named, choose)
    return choices


def _propose_marks(given: Recipe, head: _Head, taken: set[str], named: Any, choose: Any) -> None:
    """Choose the column of labels or numbers, or the columns of numbers of several attributes."""
    numbers_wanted = bool(given.rules) and not given.by_label

    def is_label(name: str) -> bool:
        return head.is_label(name) and (given.by_label or not head.numeric(name) or head.kinds(name) == 2)

    if not numbers_wanted and (column := named("label", is_label)):
        choose("label", column, "name")
        return
    if given.by_label:
        labels = [name for name in head.columns if name not in taken and head.is_label(name)]
        wanted = {*given.better, *(label for rank in given.order for label in rank)}
        fitting = [name for name in labels if wanted & set(head.texts(name))]
        if len(fitting) == 1:
            choose("label", fitting[0], "holds the labels of the rule")
        return
    if column := named("score", head.numeric) or named("label", head.numeric):
        choose("score", column, "name")
        return
    columns = [name for name in head.columns if name not in taken and _looks_rated(head, name)]
    if len(columns) == 1:
        choose("score", columns[0], "numbers")
        return
    for column in columns:
        choose("attribute", column, "numbers")


def _looks_rated(head: _Head, name: str) -> bool:
    """Tell whether a column of numbers may hold ratings rather than numbers of things."""
    counts = name.lower() in ("index", "idx", "row") or name.lower().endswith(
        ("_idx", "_index", "id", "count", "length")
    )
    return not counts and head.numeric(name) and head.kinds(name) > 1


def _repeated_text(head: _Head, taken: set[str]) -> str | None:
    """Return the column with the longest texts of which many are repeated."""
    return _longest(head, taken, 20, lambda name: 1 < head.kinds(name) <= 0.7 * len(head.texts(name)))


def _distinct_text(head: _Head, taken: set[str]) -> str | None:
    """Return the column with the longest texts that are nearly all different."""
    return _longest(head, taken, 10, lambda name: head.kinds(name) > 0.5 * max(len(head.texts(name)), 1))


def _longest(head: _Head, taken: set[str], shortest: int, fits: Callable[[str], bool]) -> str | None:
    """Return the column with the longest texts, longer than ``shortest`` characters on average, among those that fit."""
    names = (name for name in head.columns if name not in taken and not head.numeric(name) and fits(name))
    return max((name for name in names if head.length(name) > shortest), key=head.length, default=None)


def _rivals(context: str, taken: Collection[str], head: _Head) -> tuple[str, ...]:
    """Return other columns whose texts are repeated, as those of a context are, and vary within one cell of ``context``."""
    keys = [render(cell) for cell in head.columns[context]]
    rivals = []
    for name in head.columns:
        if name in taken or head.numeric(name) or head.length(name) <= 20:
            continue
        texts = [render(cell) for cell in head.columns[name]]
        rows = [(key, text) for key, text in zip(keys, texts, strict=True) if key and text and text.strip()]
        again = rows and 1 < len({text for _, text in rows}) <= 0.7 * len(rows)
        if again and len(set(rows)) > len({key for key, _ in rows}):
            rivals.append(name)
    return tuple(rivals)


def _check_enough(recipe: Recipe, head: _Head, table: Table) -> None:
    """Raise NNDError where the recipe lacks a column or a rule; it names what the table offers."""
    columns = some_of(list(head.columns), 40, str) + list_hint(head.columns, recipe)
    if recipe.pairs:
        return
    for role in ("context", "candidate"):
        if getattr(recipe, role) is None:
            raise NNDError(f"{table.name}: name the column of the {role} with --{role}; there are: {columns}")
    marks = [column for column in (recipe.label or recipe.score,) if column] or (
        list(recipe.attribute.values()) if recipe.wide else []
    )
    if recipe.votes:
        return
    if not marks:
        if (recipe.min_gap is not None or recipe.majority) and not any(map(head.numeric, head.columns)):
            rule = "--min-gap" if recipe.min_gap is not None else "--majority"
            raise NNDError(
                f"{table.name}: {rule} needs a column of numbers, and none of these holds any: {columns}; for labels say "
                "--better LABEL,... or --order WORST,...,BEST"
            )
        raise NNDError(
            f"{table.name}: name the column of judgements with --label, --score or --attribute; there are: {columns}"
        )
    if recipe.rules:
        return
    shown = marks[0]
    if recipe.score or (recipe.wide and head.numeric(shown)):
        values = [value for value in head.values(shown) if value is not None and value == value]
        score = f"--score {shlex.quote(shown)} " if recipe.score else ""
        raise NNDError(
            f"{table.name}: say what is better: column {shown!r} holds numbers from {min(values):g} to {max(values):g}, so "
            f"{score}--min-gap X (smallest difference of two scores) or {score}--majority (more than half of the ratings are "
            "the highest mark)"
        )
    labels = sorted(set(head.texts(shown)))[:12]
    raise NNDError(
        f"{table.name}: say what is better: column {shown!r} holds the labels {', '.join(map(repr, labels))}, so "
        "--better LABEL,... (against the rest) or --order WORST,...,BEST"
    )


def describe(recipe: Recipe, choices: Sequence[Choice]) -> list[str]:
    """Return a line for each column that is read: what it holds, and whether that was proposed."""
    why = {(choice.role, choice.column): f" (proposed: {choice.why})" for choice in choices}
    parts = [(role, role, getattr(recipe, role)) for role in ROLES if getattr(recipe, role)]
    for name, column in recipe.attribute.items():
        parts.append(("attribute", "attribute" if name == column else f"attribute {name}", column))
    lines = [f"{text}: column {column!r}" + why.get((role, column), "") for role, text, column in parts]
    for text, column in zip(("one text", "the other"), recipe.pair, strict=False):
        lines.append(f"{text}: column {column!r}")
    if recipe.spans:
        lines.append(
            "error spans: " + (", ".join(map(repr, columns_of(recipe.spans))) or "inside marks of the candidate")
        )
    return lines + [f"field {name}: column {column!r}" for name, column in recipe.field.items()]
