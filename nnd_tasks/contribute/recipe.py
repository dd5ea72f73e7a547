"""The recipe of a set: which columns hold what, which rule says what is better, and what a person knows of it."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnd_tasks.contribute.encode import render
from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml
from nnd_tasks.schema import check_field_names

#: Roles that one column each can have.
ROLES = ("context", "candidate", "label", "score", "system", "rater", "chosen", "rejected", "category")
#: What only a person can know; `missing` names those that are not given.
KNOWN_BY_PEOPLE: Mapping[str, str] = {
    "license": "licence of the texts and judgements, as the hub writes it, such as cc-by-4.0",
    "language": "languages of the texts, such as en",
    "summary": "what was evaluated, in a sentence or two",
    "judges": "who judged, how many, and what they were asked",
    "homepage": "where the judgements come from",
    "citation": "BibTeX of the human evaluation",
}
_LISTS = {"attribute", "better", "ignore", "language"}


@dataclass(frozen=True)
class Recipe:
    """How a set is made of a table. Names are those of the options of ``nnd new`` and of the keys of a recipe's YAML.

    Attributes:
        context: column of what a model is given.
        candidate: column of the text that was judged.
        label: column of a label.
        score: column of a number (higher is better), or of a list of them, one per rater.
        system: column of who wrote the candidate.
        rater: column of who judged; rows of one candidate are then judged together.
        attribute: with ``label`` or ``score`` the one column that names what was judged; else columns that each hold the
            labels or scores of one attribute.
        field: prompt field -> its column.
        chosen: column of the better text of a pair, or its chat messages.
        rejected: column of the worse one.
        category: column of the category of tests.
        better: labels that are better than all others.
        order: labels, the worst first; a list within it holds labels of equal rank.
        ignore: labels that say nothing of quality, such as ``unsure``; they are left out.
        min_gap: smallest difference of two scores that makes one better.
        majority: better is who got the best mark from more than half of the raters (Likert scale).
        best: this mark; None takes the highest in the table, per attribute.
        prompt: template of what a model reads before a candidate.
        title: of the human evaluation.
        summary: what was evaluated, in a sentence or two.
        license: of the texts and judgements.
        language: codes of the languages.
        citation: BibTeX.
        homepage: where the data comes from.
        judges: who judged.
        task_category: of the hub.
        sources: file -> SHA-256 that the recipe was made with.
        expected: category -> number of tests that came out of them.
    """

    context: str | None = None
    candidate: str | None = None
    label: str | None = None
    score: str | None = None
    system: str | None = None
    rater: str | None = None
    attribute: tuple[str, ...] = ()
    field: Mapping[str, str] = field(default_factory=dict)
    chosen: str | None = None
    rejected: str | None = None
    category: str | None = None
    better: tuple[str, ...] = ()
    order: tuple[tuple[str, ...], ...] = ()
    ignore: tuple[str, ...] = ()
    min_gap: float | None = None
    majority: bool = False
    best: float | None = None
    prompt: str | None = None
    title: str | None = None
    summary: str | None = None
    license: str | None = None
    language: tuple[str, ...] = ()
    citation: str | None = None
    homepage: str | None = None
    judges: str | None = None
    task_category: str = "text-generation"
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    expected: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def pairs(self) -> bool:
        """Whether the table holds ready-made pairs."""
        return self.chosen is not None or self.rejected is not None

    @property
    def rules(self) -> list[str]:
        """The rules that are given; a recipe has one, or none where pairs are ready-made."""
        given = {
            "--better": bool(self.better),
            "--order": bool(self.order),
            "--min-gap": self.min_gap is not None,
            "--majority": self.majority,
        }
        return [name for name, on in given.items() if on]

    @property
    def by_label(self) -> bool:
        """Whether labels, not numbers, say what is better."""
        return bool(self.better or self.order)

    @property
    def wide(self) -> bool:
        """Whether each attribute has a column of its own."""
        return bool(self.attribute) and self.label is None and self.score is None

    def columns(self) -> list[str]:
        """Return the columns that are read, each once."""
        single = [getattr(self, role) for role in ROLES]
        return list(dict.fromkeys([c for c in single if c] + list(self.attribute) + list(self.field.values())))

    def missing(self) -> list[str]:
        """Return what a person has to add before the set can be published."""
        return [name for name in KNOWN_BY_PEOPLE if not getattr(self, name)]

    def rule_text(self) -> str:
        """Say the rule in one sentence."""
        if self.pairs:
            return "The table says of each pair which text people preferred."
        if self.better:
            return f"Candidates labelled {_names(self.better)} are better than all others of the same context."
        if self.order:
            ranks = " < ".join(" = ".join(rank) for rank in self.order)
            return f"Labels have an order: {ranks}. Pairs of equal rank are left out."
        if self.majority:
            mark = "the highest mark of the scale" if self.best is None else f"{self.best:g}"
            return f"A candidate is good when more than half of its ratings are {mark}, else bad."
        return f"A candidate is better when its score is at least {self.min_gap:g} higher than that of another."

    def dump(self) -> dict[str, Any]:
        """Return what differs from the defaults, as a recipe's YAML has it."""
        found: dict[str, Any] = {}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if value in (None, (), {}, False) or (one.name == "task_category" and value == one.default):
                continue
            if one.name == "order":
                found[one.name] = [rank[0] if len(rank) == 1 else list(rank) for rank in value]
            else:
                found[one.name] = (
                    list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
                )
        return found


def _names(labels: tuple[str, ...]) -> str:
    return " or ".join(f"`{label}`" for label in labels)


def read_recipe(path: Path) -> dict[str, Any]:
    """Return the options that a recipe's YAML gives.

    Raises:
        NNDError: it cannot be read, is no mapping, or has an unknown key.
    """
    found = read_yaml(path)
    if not isinstance(found, Mapping):
        raise NNDError(f"{path}: a recipe is a mapping such as `candidate: summary`, one key per line")
    known = [one.name for one in dataclasses.fields(Recipe)]
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            raise NNDError(
                f"{path}: no such key {key!r}; " + (f"did you mean {near[0]}?" if near else ", ".join(known))
            )
    return dict(found)


def make_recipe(options: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """Return the recipe that ``options`` describe, checked as far as that goes without the table.

    Args:
        options: keys as in `Recipe`; lists may be single values.
        where: what to name in an error.

    Raises:
        NNDError: a value of a wrong type, two rules, options that do not go together.
    """
    values = {key: _value(key, value, where) for key, value in options.items() if value is not None}
    recipe = Recipe(**values)
    if len(recipe.rules) > 1:
        raise NNDError(f"{' and '.join(recipe.rules)}: a set has one rule; leave all but one out")
    if recipe.pairs:
        _check_pairs(recipe)
    _check_numbers(recipe)
    _check_labels(recipe)
    if (recipe.label or recipe.score) and len(recipe.attribute) > 1:
        raise NNDError(
            "--attribute: beside --label or --score it is the one column that names what was judged; without them it "
            "is each column of judgements"
        )
    check_field_names(recipe.field)
    for language in recipe.language:
        _check_language(language)
    if recipe.context is not None and recipe.context == recipe.candidate:
        raise NNDError(f"column {recipe.context!r} cannot be both context and candidate")
    return recipe


#: Names of languages, as people write them, that are no codes.
_LANGUAGES = (
    "arabic ar bengali bn bulgarian bg catalan ca chinese zh mandarin zh croatian hr czech cs danish da dutch nl "
    "english en estonian et finnish fi french fr fran\u00e7ais fr german de deutsch de greek el hebrew he hindi hi "
    "hungarian hu icelandic is indonesian id irish ga italian it italiano it japanese ja kazakh kk korean ko latin "
    "la latvian lv lithuanian lt malay ms norwegian no persian fa farsi fa polish pl portuguese pt romanian ro "
    "russian ru serbian sr slovak sk slovenian sl spanish es espa\u00f1ol es swahili sw swedish sv tamil ta telugu te "
    "thai th turkish tr ukrainian uk urdu ur vietnamese vi welsh cy"
)
_CODES = dict(zip(_LANGUAGES.split()[::2], _LANGUAGES.split()[1::2], strict=True))


def _check_language(language: str) -> None:
    """Raise NNDError for what is no code of a language: the hub and `nnd check` know only codes."""
    if re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", language) or language in ("multilingual", "code"):
        return
    plain = language.strip().lower()
    code = _CODES.get(plain) or plain.replace("_", "-")
    meant = (
        f"write {code}"
        if re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{2,8})*", code)
        else "write a code such as en or pt-BR (ISO 639)"
    )
    raise NNDError(f"--language {language}: is no code of a language; {meant}")


def _check_numbers(recipe: Recipe) -> None:
    if recipe.min_gap is not None and not (recipe.min_gap > 0 and math.isfinite(recipe.min_gap)):
        raise NNDError(f"--min-gap {recipe.min_gap:g}: a gap is above 0")
    if recipe.best is not None and not recipe.majority:
        raise NNDError("--best belongs to --majority; leave it out")
    if recipe.label and recipe.score:
        raise NNDError("--label and --score: people gave a label or a number; leave one out")
    if recipe.by_label and recipe.score:
        raise NNDError(f"{recipe.rules[0]} compares labels; name their column with --label, not --score")
    if recipe.label and recipe.rules and not recipe.by_label:
        raise NNDError(f"{recipe.rules[0]} compares numbers; name their column with --score, not --label")


def _check_labels(recipe: Recipe) -> None:
    ranked = [label for rank in recipe.order for label in rank]
    if len(set(ranked)) < len(ranked):
        raise NNDError("--order: a label is named twice")
    if recipe.order and len(recipe.order) < 2:
        raise NNDError("--order: name two labels or more, the worst first")
    if recipe.ignore and recipe.rules and not recipe.by_label:
        raise NNDError(f"--ignore names labels, which {recipe.rules[0]} does not read; leave it out")
    unclear = sorted(set(recipe.ignore) & {*recipe.better, *ranked})
    if unclear:
        raise NNDError(f"--ignore {unclear[0]}: {recipe.rules[0]} names this label too; leave it out of one")


def _check_pairs(recipe: Recipe) -> None:
    if not (recipe.chosen and recipe.rejected):
        raise NNDError("--chosen and --rejected go together: name both columns")
    if recipe.chosen == recipe.rejected:
        raise NNDError(f"column {recipe.chosen!r} cannot be both chosen and rejected")
    wrong = [f"--{role}" for role in ("candidate", "label", "score", "system", "rater", "attribute", "ignore")
             if getattr(recipe, role)] + recipe.rules  # fmt: skip
    if wrong:
        raise NNDError(f"{wrong[0]} does not go with --chosen and --rejected, which say themselves what is better")


def _value(key: str, value: Any, where: str) -> Any:
    """Return ``value`` in the type of the recipe's ``key``."""
    if key in ("min_gap", "best"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise NNDError(f"{where}: {key} is a number, not {value!r}")
        return float(value)
    if key == "majority":
        if not isinstance(value, bool):
            raise NNDError(f"{where}: majority is true or false, not {value!r}")
        return value
    if key == "order":
        ranks = value if isinstance(value, (list, tuple)) else [value]
        return tuple(_texts(key, rank, where) for rank in ranks)
    if key in _LISTS:
        return _texts(key, value, where)
    if key in ("field", "sources", "expected"):
        if not isinstance(value, Mapping):
            raise NNDError(f"{where}: {key} is a mapping of names, not {value!r}")
        if key == "expected" and not all(isinstance(count, int) for count in value.values()):
            raise NNDError(f"{where}: expected is a mapping of categories to numbers of tests, not {value!r}")
        for one in (*value, *(() if key == "expected" else value.values())):
            _check_quoted(key, one, where)
        return {str(name): v if key == "expected" else str(v) for name, v in value.items()}
    _check_quoted(key, value, where)
    if not isinstance(value, str):
        raise NNDError(f"{where}: {key} is text, not {value!r}")
    return value


def _check_quoted(key: str, value: Any, where: str) -> None:
    """Raise NNDError for a word that YAML reads as true or false."""
    if isinstance(value, bool):
        words = "true, yes or on" if value else "false, no or off"
        raise NNDError(f"{where}: {key} holds {words}, which YAML takes for a truth value; put it in quotes")


def _texts(key: str, value: Any, where: str) -> tuple[str, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    for one in values:
        _check_quoted(key, one, where)
    if not values or not all(isinstance(one, (str, int, float)) for one in values):
        raise NNDError(f"{where}: {key} is a list of texts, not {value!r}")
    return tuple((render(one) or "").strip() for one in values)
