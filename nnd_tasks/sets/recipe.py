"""The recipe of a set: its files, which column is what, which rule says what is better, and the facts of its card."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from nnd_tasks.errors import NNDError, list_mistakes
from nnd_tasks.files import StrictLoader, parse_yaml, read_text
from nnd_tasks.publishers.licences import licence_id
from nnd_tasks.publishers.wanted import ConfigName, File, FileName, Wanted, must_hold
from nnd_tasks.tables.cells import FILE
from nnd_tasks.tables.columns import Columns, Spans, Strict, Text, Texts, as_list
from nnd_tasks.text import did_you_mean

#: In the folder of a set; without .yaml, which lm-eval would take for a task.
RECIPE, PREPARE = "_recipe", "prepare.py"
MAX_RECIPE_BYTES = 1_000_000
CONFIG = "default"
#: What a text has that was judged by itself: keys of a recipe.
_OF_TEXTS = frozenset({
    "candidate", "label", "score", "group", "system", "several_errors", "ignore", "decimal", "better",
    "min_gap", "majority", "best",
})  # fmt: skip
_ERRORS = ("category", "subcategory", "severity")
#: Keys that say how files are read, or which column is what. Beside a ``prepare.py`` the first two have no use, and the others
#: only where they name the texts among the columns of its rows.
_OF_TABLES = frozenset({
    "encoding", "context", "candidate", "group", "label", "score", "system", "rater", "attribute", *_ERRORS,
    "chosen", "rejected", "pair", "winner", "winners", "systems",
})  # fmt: skip
Prose: TypeAlias = Annotated[str, Field(max_length=100_000)] | None


Language: TypeAlias = Annotated[
    Text,
    must_hold(
        re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*|multilingual|code").fullmatch,
        "is no code of a language; write one such as en or pt-BR (ISO 639)",
    ),
]


class Facts(Strict):
    """What the card says besides numbers.

    Attributes:
        title: name of the human evaluation.
        summary: what was evaluated, in a sentence or two.
        kind: what a model is asked to do, for ``--task`` of ``nnd list``; several are separated by commas.
        errors: ``judged``: people judged texts as they were; ``made``: errors were put in on purpose.
        judges: who judged, how many, what they were asked.
        license: identifier of the hub, such as ``cc-by-4.0``; ``CC BY 4.0`` becomes it.
        license_note: what else people should know about it.
        language: codes of the languages: ``[en, de]``.
        homepage: where the judgements come from.
        citation: BibTeX.
        task_category: the hub's task category: ``translation``.
        fields: prompt field -> what it holds.
        clean: what ``mended`` of ``prepare.py`` changes for the clean config.
        rule: what makes a candidate better, where the keys of the recipe do not say it.
        notes: sentences in Markdown on what a reader of rates should know: how pairs are formed, what is left out.
    """

    title: Prose = None
    summary: Prose = None
    kind: Prose = None
    errors: Literal["judged", "made"] = "judged"
    judges: Prose = None
    license: Annotated[str, AfterValidator(licence_id)] | None = None
    license_note: Prose = None
    language: Annotated[tuple[Language, ...], BeforeValidator(as_list)] = ()
    homepage: Prose = None
    citation: Prose = None
    task_category: str = "text-generation"
    fields: dict[str, str] = Field(default={})
    clean: Prose = None
    rule: Prose = None
    notes: Texts = ()


class Recipe(Columns):
    """How a set is made of files.

    Those that say how a table is read are keys of `nnd_tasks.tables.columns.Columns`.

    Attributes:
        files: file -> where it comes from: ``{ratings.csv: {}}``.
        config: name of the config; ``@file`` makes one of each file.
        several_errors: ``each``: where judgements of one candidate differ in category, subcategory or severity, each makes a
            test. Without it, that is an error.
        better: labels that are better than all others; ``''`` stands for no label.
        ignore: labels that do not rate quality: ``[unclear]``.
        min_gap: smallest difference of two scores that makes one better.
        majority: whether a candidate is good if more than half of its scores are the best one.
        best: ``lowest`` where a lower score is better, as of ranks; ``highest``; or beside ``majority`` the best score, without
            which it is the highest of the table, by attribute.
        candidates: ``texts``: equal texts of a group are one candidate; ``rows``: each row is one, and a clean config stands
            beside it.
        prompt: template of what a model reads before a candidate; or a list of it and the text between the two, which is else a
            space, or nothing after white space: ``['{{context}}', '']``.
        published: config -> number of tests of the publisher; another number gives a note.
        expected: category -> number of tests: ``{fluency: 12}``.
        facts: for the card.
    """

    files: dict[FileName, File | None] = Field(default={})
    config: ConfigName | None = None
    several_errors: Literal["each"] | None = None
    better: Texts = ()
    ignore: Texts = ()
    min_gap: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    majority: bool = False
    best: Literal["lowest", "highest"] | Annotated[float, Field(allow_inf_nan=False)] | None = None
    candidates: Literal["texts", "rows"] = "texts"
    prompt: Prose | tuple[str, str] = None
    published: dict[str, int] = Field(default={})
    expected: dict[str, int] = Field(default={})
    facts: Facts = Facts()

    @model_validator(mode="after")
    def _fit_together(self) -> Recipe:
        mistakes = [*self.find_unused()]
        if len(self.rules) > 1:
            mistakes.append(f"{' and '.join(self.rules)}: one rule says what is better")
        mistakes += find_prompt_mistakes(self.template or "", ["context", *sorted(self.field)])
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return self

    def find_unused(self, roles: Collection[str] = ()) -> Iterator[str]:
        """Yield a mistake for each kind of keys that nothing would use.

        Args:
            roles: columns that the rows of a ``prepare.py`` have. Those that ``leave_out`` names are used.
        """
        given = {key for key, value in self.dump().items() if value != []} | ({*roles} - {*self.leave_out})
        judged = {"label", "score", "winner", "chosen"} & given
        causes = {
            "used for single texts only; the table holds pairs, which say themselves what is better":
                given & _OF_TEXTS if {"chosen", "pair"} & given else (),
            "used for pairs only; name chosen and rejected, or pair and winner":
                () if {"chosen", "pair"} & given else given & {"rejected", "high_system", "low_system", "systems"},
            "used for scores only, and labels say what is better": given & {"score", "decimal"} if self.by_label else (),
            "used for labels only; name better": () if self.by_label else given & {"ignore"},
            "used beside majority only": given & {"best"} if isinstance(self.best, float) and not self.majority else (),
            "used for scores only": given & {"best"} if self.by_label else (),
            "used beside winner only": () if self.pair else given & {"winners"},
            "used for judgements only, and pairs of chosen and rejected have none":
                given & {"missing"} if "chosen" in given else (),
            "names several columns, and beside label, score, winner or chosen one column names the attribute":
                {"attribute"} if judged and len(self.attribute) > 1 else (),
            "not used beside attribute and subcategory, as the attribute is the category":
                {"category"} if {"attribute", "category", "subcategory"} <= given else (),
            "used beside category, subcategory or severity only":
                given & {"several_errors"} if {"candidate"} & given and not given & {*_ERRORS} else (),
        }  # fmt: skip
        yield from (f"{', '.join(sorted(keys))}: {cause}" for cause, keys in causes.items() if keys)

    @property
    def template(self) -> str | None:
        """The template of the prompt."""
        return self.prompt[0] if isinstance(self.prompt, tuple) else self.prompt

    @property
    def delimiter(self) -> str | None:
        """The text between prompt and candidate, where the recipe says it."""
        return self.prompt[1] if isinstance(self.prompt, tuple) else None

    @property
    def rules(self) -> list[str]:
        """Names of the rules that are given; a complete recipe of judged texts has one."""
        return [key for key in ("better", "min_gap", "majority") if getattr(self, key) not in (None, (), False)]

    @property
    def pairs(self) -> bool:
        """Whether the table holds ready-made pairs."""
        return bool(self.chosen or self.pair)

    @property
    def by_label(self) -> bool:
        """Whether labels, not numbers, say what is better."""
        return bool(self.better)

    def dump(self) -> dict[str, Any]:
        """Return the keys that differ from their defaults, in the form of a recipe's YAML."""
        return self.model_dump(mode="json", exclude_defaults=True)


# ---------------------------------------------------------------- reading


def make_recipe(values: Any, prefix: str) -> Recipe:
    """Return a recipe of plain data.

    Raises:
        NNDError: all its mistakes, in one line that begins with ``prefix``.
    """
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        sections: dict[str, type[Strict]] = {"files": File, "spans": Spans, "facts": Facts}
        mistakes = []
        for key, cause in list_mistakes(error):
            if cause == "Extra inputs are not permitted":
                section, _, last = key.rpartition(".")
                allowed = sections.get(section.partition(".")[0], Recipe).model_fields
                hint = did_you_mean(last, allowed) or "nnd new --keys shows them"
                cause = f"no such key; {'put it under `facts`' if not section and last in Facts.model_fields else hint}"
            mistakes.append(f"{key}: {cause}" if key else cause)
        raise NNDError(f"{prefix}: {'; '.join(mistakes)}") from None


def read_recipe(path: Path) -> dict[str, Any]:
    """Return the keys of a recipe's YAML, unchecked; raise NNDError where it cannot be read as plain data."""
    values = parse_yaml(read_text(path, limit=MAX_RECIPE_BYTES), str(path), StrictLoader)
    if not isinstance(values, dict):
        raise NNDError(f"{path}: a recipe is a mapping of keys, such as `context: article`")
    return values


def load_recipe(path: Path) -> Recipe:
    """Read and check the recipe in a file; raise NNDError where it is wrong."""
    return make_recipe(read_recipe(path), str(path))


def find_prompt_mistakes(prompt: str, fields: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with the template of a prompt: its Jinja, a filter that is not known, or a field that is not there.

    Args:
        prompt: the template.
        fields: what it can name.
    """
    from jinja2 import TemplateError, meta
    from jinja2.sandbox import SandboxedEnvironment

    class NothingWorkedOut(SandboxedEnvironment):
        """Reads templates without the values of constants, which may be too large, such as ``10**10**10``."""

        intercepted_binops = frozenset(["+", "*", "**", "%"])

    environment = NothingWorkedOut()
    # lm-eval adds one filter. Those of constants would be called here.
    environment.filters = dict.fromkeys([*environment.filters, "regex_replace"], lambda *_, **__: "")
    try:
        unknown = sorted(meta.find_undeclared_variables(environment.parse(prompt)) - {*fields})
    except TemplateError as error:
        yield f"prompt: no valid template ({error})"
        return
    if unknown:
        yield f"prompt: there is no {unknown[0]!r}; a prompt can name {', '.join(fields)}"


@dataclass(frozen=True)
class LabelRule:
    """Labels say what is better.

    Attributes:
        sentence: the rule in words.
        better: labels that are better than all others.
        min_gap: the smallest difference of two qualities, 1 of a better label and 0 of another.
    """

    sentence: str
    better: tuple[str, ...]
    min_gap: float = 1.0
    role: str = "label"

    def is_better(self, label: str) -> float:
        """Return the quality of a label."""
        return float(label in self.better)


@dataclass(frozen=True)
class ScoreRule:
    """Scores say what is better, by their mean or by ``majority`` of the recipe.

    Attributes:
        sentence: the rule in words.
        min_gap: smallest difference of two qualities that makes one better, less a tolerance for rounding.
    """

    sentence: str
    min_gap: float
    role: str = "score"


@dataclass(frozen=True)
class PairRule:
    """The source says of each pair which text is better; ``sentence`` says so."""

    sentence: str


Rule: TypeAlias = LabelRule | ScoreRule | PairRule


def _make_rule(recipe: Recipe) -> Rule:
    """Make the rule of a recipe; one that names none is for ready-made pairs."""
    sentence = recipe.facts.rule or _describe_rule(recipe)
    if recipe.better:
        return LabelRule(sentence, recipe.better)
    if recipe.majority or recipe.min_gap is not None:
        # Scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding.
        return ScoreRule(sentence, (recipe.min_gap or 1.0) * (1 - 1e-9))
    return PairRule(sentence)


def _describe_rule(recipe: Recipe) -> str:
    if recipe.better:
        labels = ["without a label" if not label else f"labelled `{label}`" for label in recipe.better]
        sentence = f"Candidates {' or '.join(labels)} are better than all others of the same context."
    elif recipe.majority:
        best = f"{recipe.best:g}" if isinstance(recipe.best, float) else f"the {recipe.best or 'highest'} score"
        sentence = f"A candidate is good when more than half of its scores are {best}, else bad."
    elif recipe.min_gap is not None:
        side = "below" if recipe.best == "lowest" else "above"
        sentence = f"A candidate is better when its mean score is {recipe.min_gap:g} or more {side} that of another."
    elif recipe.pairs:
        sentence = "The source says of each pair which text is better."
    else:
        return "The recipe names no rule."
    return f"{sentence} Each of several errors of a candidate makes a test." if recipe.several_errors else sentence


# ---------------------------------------------------------------- the recipe of a set


@dataclass(frozen=True)
class RecipeFile:
    """Where the recipe of a set is.

    Attributes:
        name: of the set.
        path: of the recipe's YAML.
        origin: ``package``, ``own`` (in the user's folder of tasks), or ``elsewhere``: somebody sent it.
        prepare: the ``prepare.py`` beside it, if there is one.
    """

    name: str
    path: Path
    origin: Literal["package", "own", "elsewhere"]
    prepare: Path | None = None

    def read(self) -> SetRecipe:
        """Read the recipe; raise NNDError where it is wrong."""
        return SetRecipe(self.name, self.path, self.origin, self.prepare, recipe=load_recipe(self.path))


@dataclass(frozen=True)
class SetRecipe(RecipeFile):
    """A recipe that was read, with the rule and the files that follow from it."""

    recipe: Recipe = field(kw_only=True)
    rule: Rule = field(init=False)
    wanted: Wanted = field(init=False)

    def __post_init__(self) -> None:
        useless = {"encoding", "quotes"} if self.recipe.candidate or self.recipe.pairs else _OF_TABLES
        if self.prepare and (unused := sorted(useless & self.recipe.dump().keys())):
            raise NNDError(f"{self.path}: {', '.join(unused)}: not used, as {self.prepare.name} says what a row is")
        files = Wanted(self.name, self.path.parent, self.origin, self.recipe.files, self.recipe.config == FILE)
        object.__setattr__(self, "rule", _make_rule(self.recipe))
        object.__setattr__(self, "wanted", files)
