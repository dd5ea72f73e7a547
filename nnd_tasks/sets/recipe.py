"""The recipe of a set: its files, which column is what, which rule says what is better, and the facts of its card."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from nnd_tasks.errors import NNDError
from nnd_tasks.files import StrictLoader, parse_yaml, read_text
from nnd_tasks.schema import DOCUMENT_COLUMNS, RESERVED_COLUMNS
from nnd_tasks.sets.licences import licence_id
from nnd_tasks.store import is_name
from nnd_tasks.tables.cells import FILE, KEY, SHEET
from nnd_tasks.text import did_you_mean

#: In the folder of a set; without .yaml, which lm-eval would take for a task.
RECIPE, PREPARE = "_recipe", "prepare.py"
MAX_RECIPE_BYTES = 1_000_000
CONFIG = "default"
#: What a text has that was judged by itself: keys of a recipe.
_OF_TEXTS = frozenset({
    "candidate", "label", "score", "group", "system", "several_errors", "ignore", "decimal", "better",
    "order", "min_gap", "majority", "best",
})  # fmt: skip
_ERRORS = ("category", "subcategory", "severity")
#: Keys that say how `rows` of a ``prepare.py`` reads its files, or what their columns are; it says that itself.
_OF_TABLES = frozenset({
    "encoding", "quotes", "context", "candidate", "group", "label", "score", "system", "rater", "attribute", *_ERRORS,
    "chosen", "rejected", "pair", "winner", "winners", "systems",
})  # fmt: skip
#: Roles that may be of one column. A column of ``group`` or ``field`` may have any other role, too.
_MAY_SHARE = frozenset({
    ("label", "category"), ("label", "subcategory"), ("label", "severity"),
    ("system", "category"), ("system", "subcategory"),
})  # fmt: skip


def _as_text(value: Any) -> Any:
    """Return numbers and truth values, which YAML reads from plain words, as the texts that a table has."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, (str, int, float)) else value


def _named(value: Any) -> Any:
    return {name: name for name in _as_list(value)} if isinstance(value, (list, str)) else value


Text: TypeAlias = Annotated[str, BeforeValidator(_as_text), Field(max_length=10_000)]
Column: TypeAlias = Text | None
Texts: TypeAlias = Annotated[tuple[Text, ...], BeforeValidator(_as_list)]
Columns: TypeAlias = Annotated[dict[Text, Text], BeforeValidator(_named)]
Prose: TypeAlias = Annotated[str, Field(max_length=100_000)] | None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class File(_Strict):
    """One file of a set, as its publisher names it.

    Attributes:
        url: https address.
        sha256: of the file. Without it, the hash of the first download is recorded and checked from then on.
        member: path in the archive behind ``url``: ``2024/ratings.csv``.
        config: the config that the file makes: ``sxs2023_ende``.
        optional: whether the set can be built without the file.
    """

    url: str = ""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    member: str = ""
    config: str = ""
    optional: bool = False

    @field_validator("url")
    @classmethod
    def _is_public(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (parts.scheme != "https" or not parts.hostname or parts.username is not None):
            raise ValueError("an https:// address without a user or password")
        return url


class Spans(_Strict):
    """Where the errors of a candidate are marked.

    Positions count characters from 0. Spans that do not lie in the text are left out and counted. In a table of pairs, spans
    are in the worse text.

    Attributes:
        column: column of objects, of pairs of positions, of words, or of lists of these, as JSON or as Python prints it. Without
            it, ``start``, ``end`` and those of ``text``, ``category`` and ``severity`` that are given name columns, and a row
            has one span; -1 and -1 are none.
        start: key of the first character.
        end: the same of the character after the last.
        end_inside: whether the end is the last character.
        utf16: whether positions count UTF-16 units, as tools in a browser do: an emoji is two.
        text: key of the marked words. Where they do not stand at the positions, the nearest place with these words counts.
        category: key of the kind of error.
        severity: key of its severity.
        marks: opening and closing mark in the candidate itself: ``[<v>, </v>]``. They are taken out.
    """

    column: str | None = None
    start: str = "start"
    end: str = "end"
    end_inside: bool = False
    utf16: bool | None = None
    text: str = "text"
    category: str = "category"
    severity: str = "severity"
    marks: tuple[str, str] | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Spans:
        others = [key for key in self.model_dump(exclude_defaults=True) if key != "marks"]
        if self.marks and others:
            raise ValueError(f"{', '.join(others)}: marks alone say where errors are")
        return self

    @property
    def columns(self) -> list[str]:
        """The columns of a table that hold spans, or each a part of one."""
        if self.column or self.marks:
            return [self.column] if self.column else []
        given = [key for key in ("text", "category", "severity") if key in self.model_fields_set]
        return [getattr(self, key) for key in ("start", "end", *given)]


class Facts(_Strict):
    """What the card says besides numbers.

    Attributes:
        title: name of the human evaluation.
        summary: what was evaluated, in a sentence or two.
        kind: what a model is asked to do, for ``nnd list --task``; several are separated by commas.
        errors: ``judged``: people judged texts as they were; ``made``: errors were put in on purpose.
        judges: who judged, how many, what they were asked.
        license: identifier of the hub: ``cc-by-4.0``; SPDX identifiers and common spellings become it.
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
    license: str | None = None
    license_note: Prose = None
    language: Texts = ()
    homepage: Prose = None
    citation: Prose = None
    task_category: str = "text-generation"
    fields: dict[str, str] = {}
    clean: Prose = None
    rule: Prose = None
    notes: Texts = ()

    @field_validator("license")
    @classmethod
    def _name_licence(cls, license: str | None) -> str | None:
        return license and licence_id(license)

    @field_validator("language")
    @classmethod
    def _are_codes(cls, languages: tuple[str, ...]) -> tuple[str, ...]:
        for language in languages:
            if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*|multilingual|code", language):
                raise ValueError(f"{language!r} is no code of a language; write one such as en or pt-BR (ISO 639)")
        return languages


class Recipe(_Strict):
    """How a set is made of files.

    A *column* may have a dotted name that leads into objects and lists: ``scores.fluency``, ``votes.0``. Each table also has
    the column ``@file`` (the file's name without its ending); where a JSON file is an object keyed by id or holds several
    lists, ``@key``; and where a workbook has several sheets, ``@sheet``.

    Attributes:
        files: file -> where it comes from: ``{ratings.csv: {}}``.
        config: name of the config; ``@file`` makes one of each file.
        encoding: of the files: ``cp1252``. Recognised where it is not given.
        decimal: decimal mark of numbers.
        quotes: whether quotes enclose cells. Without it they do, unless tab-separated rows fit only without.
        missing: texts that mean that nobody judged: ``[k.A., '?']``. Empty cells always do. What programs write for a missing
            value, such as nan or None, is missing in every column (`nnd_tasks.tables.cells.TRACES`), unless this is ``[]``; a
            label of ``better``, ``order`` or ``ignore`` is kept.
        leave_out: column -> values of rows that are left out and counted: ``{control: ['yes']}``.
        context: column of what a model is given.
        candidate: column of the text that was judged.
        group: column or columns within which pairs are formed; without it, within the prompt.
        label: column of a label, or of a list of labels.
        score: column of a number, higher is better, or of a list of numbers.
        system: column of who wrote the candidate.
        rater: column of who judged, or of a list beside one of labels, scores or winners. Of several judgements of one
            candidate the most frequent label counts (a tie leaves it out), or the mean score, each rater once. Of a pair that
            was judged several times, the more frequent way counts.
        attribute: name -> column of its labels, scores or winners: ``{fluency: Flüssigkeit}``; beside ``label``, ``score``,
            ``winner`` or ``chosen``, the one column that names the attribute.
        category: column of the category of the tests.
        subcategory: column of a finer label of the worse candidate.
        severity: column of how bad its error is.
        several_errors: what counts where judgements of one candidate differ in category, subcategory or severity: ``first``,
            ``most_severe``, or ``each``, which makes a test of each. Without it, that is an error.
        spans: where errors are marked.
        field: prompt field -> column: ``{answer: answer_span}``.
        chosen: column of the better text of a pair, or of its chat messages.
        rejected: column of the worse text.
        pair: two columns of texts, where ``winner`` says which is better.
        winner: column that names the winner: a column of ``pair``, 1 or 2, A or B, first or second, or a tie.
        winners: what other values of that column mean, all listed: ``{0: tie, 1: first, 2: second}``.
        systems: two columns of who wrote the texts of a pair.
        better: labels that are better than all others; ``''`` stands for no label.
        order: labels, the worst first: ``[bad, [fair, ok], good]``, where fair equals ok.
        ignore: labels that do not rate quality: ``[unclear]``.
        min_gap: smallest difference of two scores that makes one better.
        majority: whether a candidate is good if more than half of its scores are the best one.
        best: the best score; without it the highest of the table, by attribute.
        candidates: ``texts``: equal texts of a group are one candidate; ``rows``: each row is one, and a clean config stands
            beside it; ``choices``: as ``texts``, of pairs; one of two equal texts is a test, which ties and so fails.
        prompt: template of what a model reads before a candidate; or a list of it and the text between the two, which is else a
            space, or nothing after white space: ``['{{context}}', '']``.
        published: config -> number of tests of the publisher; another number gives a note.
        expected: category -> number of tests: ``{fluency: 12}``.
        facts: for the card.
    """

    files: dict[str, File | None] = {}
    config: str | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] = "."
    quotes: bool | None = None
    missing: Texts | None = None
    leave_out: dict[Text, Texts] = {}
    context: Column = None
    candidate: Column = None
    group: Texts = ()
    label: Column = None
    score: Column = None
    system: Column = None
    rater: Column = None
    attribute: Columns = {}
    category: Column = None
    subcategory: Column = None
    severity: Column = None
    several_errors: Literal["first", "most_severe", "each"] | None = None
    spans: Spans | None = None
    field: Columns = {}
    chosen: Column = None
    rejected: Column = None
    pair: Texts = ()
    winner: Column = None
    winners: dict[Text, Literal["first", "second", "tie"]] = {}
    systems: Texts = ()
    better: Texts = ()
    order: tuple[Texts, ...] = ()
    ignore: Texts = ()
    min_gap: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    majority: bool = False
    best: Annotated[float, Field(allow_inf_nan=False)] | None = None
    candidates: Literal["texts", "choices", "rows"] = "texts"
    prompt: Prose | tuple[str, str] = None
    published: dict[str, int] = {}
    expected: dict[str, int] = {}
    facts: Facts = Facts()

    @field_validator("files")
    @classmethod
    def _name_files(cls, files: dict[str, File | None]) -> dict[str, File | None]:
        for name in files:
            if not re.fullmatch(r"(?!\.)[^\\:*?\"<>|/\0-\x1f]+(/(?!\.)[^\\:*?\"<>|/\0-\x1f]+)*", name):
                raise ValueError(f"{name!r} is not the name of a file in the folder or in one below it")
        return files

    @field_validator("encoding")
    @classmethod
    def _is_encoding(cls, encoding: str | None) -> str | None:
        try:
            # An encoding of bytes, such as zlib, is one that no text is in.
            b"a".decode(encoding or "utf-8", errors="ignore")
            return encoding and codecs.lookup(encoding).name
        except (LookupError, ValueError):
            raise ValueError(f"no such encoding: {encoding!r}; name one such as utf-8, utf-16 or cp1252") from None

    @field_validator("config")
    @classmethod
    def _is_config(cls, config: str | None) -> str | None:
        if config not in (None, FILE) and not is_name(config):
            raise ValueError(f"{config!r}: a config is named by letters, digits, _, - and .")
        return config

    @field_validator("field")
    @classmethod
    def _name_fields(cls, fields: dict[str, str]) -> dict[str, str]:
        for name in fields:
            if name in RESERVED_COLUMNS | DOCUMENT_COLUMNS:
                raise ValueError(f"prompt field {name!r} has a name that is in use; rename it")
            if not name.isidentifier():
                raise ValueError(
                    f"prompt field {name!r} cannot be used in a prompt template; use letters, digits and _"
                )
        return fields

    @model_validator(mode="after")
    def _fit_together(self) -> Recipe:
        mistakes = [
            (bool(self.pair) != bool(self.winner or (self.pair and self.attribute)) or len(self.pair) not in (0, 2),
             "pair and winner go together: two columns of texts, and the one that says which is better"),
            (bool(self.chosen) != bool(self.rejected) or (self.chosen and self.pair),
             "name chosen and rejected, or pair and winner"),
            (len(self.systems) not in (0, 2), "systems are two columns"),
            (len(self.rules) > 1, f"{' and '.join(self.rules)}: one rule says what is better"),
            *((True, mistake) for mistake in self.find_unused()),
            (self.candidates == "choices" and (self.rules or self.candidate),
             "candidates: choices is of pairs, and the table holds single texts"),
            *((True, mistake) for mistake in self._find_shared_columns()),
            *((True, mistake) for mistake in find_prompt_mistakes(self.template or "", ["context", *sorted(self.field)])),
        ]  # fmt: skip
        if wrong_parts := [message for wrong, message in mistakes if wrong]:
            raise ValueError("; ".join(wrong_parts))
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
            "used for labels only; name better or order": () if self.by_label else given & {"ignore"},
            "used beside majority only": () if self.majority else given & {"best"},
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

    def _find_shared_columns(self) -> Iterator[str]:
        """Yield a mistake for each column that is named in two roles which cannot be one."""
        for (role, column), (other_role, other_column) in combinations(self.list_columns(), 2):
            shared = column == other_column and column not in (FILE, KEY, SHEET)
            if shared and (role, other_role) not in _MAY_SHARE:
                yield f"column {column!r} is both {role} and {other_role}; name another for one of them"

    def list_columns(self) -> list[tuple[str, str]]:
        """List role and column of what people judged; a column of a group or a prompt field may have another role, too."""
        single = ("context", "candidate", "label", "score", "system", "rater", "category", "subcategory", "severity",
                  "chosen", "rejected", "winner")  # fmt: skip
        roles = [(role, getattr(self, role)) for role in single]
        roles += [("pair", column) for column in self.pair]
        roles += [(f"attribute {name}", column) for name, column in self.attribute.items()]
        return [(role, column) for role, column in roles if column]

    @property
    def template(self) -> str | None:
        """The template of the prompt."""
        return self.prompt[0] if isinstance(self.prompt, tuple) else self.prompt

    @property
    def delimiter(self) -> str | None:
        """The text between prompt and candidate, where the recipe says it."""
        return self.prompt[1] if isinstance(self.prompt, tuple) else None

    @property
    def pairs(self) -> bool:
        """Whether the table holds ready-made pairs."""
        return bool(self.chosen or self.pair)

    @property
    def rules(self) -> list[str]:
        """Names of the rules that are given; a complete recipe of judged texts has one."""
        return [
            key for key in ("better", "order", "min_gap", "majority") if getattr(self, key) not in (None, (), False)
        ]

    @property
    def by_label(self) -> bool:
        """Whether labels, not numbers, say what is better."""
        return bool(self.better or self.order)

    @property
    def unjudged(self) -> frozenset[str]:
        """Cells that mean "nobody judged": stripped texts whose case is ignored."""
        return frozenset(text.strip().casefold() for text in ("", *(self.missing or ())))

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
        parts: dict[object, type[BaseModel]] = {"files": File, "spans": Spans, "facts": Facts}
        mistakes = []
        for mistake in error.errors(include_url=False):
            key = ".".join(map(str, mistake["loc"]))
            text = mistake["msg"].removeprefix("Value error, ")
            if mistake["type"] == "extra_forbidden":
                *above, last = mistake["loc"]
                allowed = (parts[above[0]] if above else Recipe).model_fields
                hint = did_you_mean(str(last), allowed) or "see docs/contribute.md"
                text = f"no such key; {'put it under `facts`' if not above and last in Facts.model_fields else hint}"
            mistakes.append(f"{key}: {text}" if key else text)
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
        ranks: label -> its rank, the worst is 0; empty where ``better`` decides.
        min_gap: smallest difference of two ranks that makes one better.
    """

    sentence: str
    better: tuple[str, ...]
    ranks: Mapping[str, float]
    min_gap: float = 1.0
    role: str = "label"

    def rank(self, label: str) -> float | None:
        """Rank a label; None for a label that the order does not have."""
        return self.ranks.get(label) if self.ranks else float(label in self.better)


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
    if recipe.better or recipe.order:
        ranks = {label: float(rank_number) for rank_number, rank in enumerate(recipe.order) for label in rank}
        return LabelRule(sentence, recipe.better, ranks)
    if recipe.majority or recipe.min_gap is not None:
        # Scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding.
        return ScoreRule(sentence, (recipe.min_gap or 1.0) * (1 - 1e-9))
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
    """A recipe that was read, the set that it makes, and the rule that follows from it."""

    recipe: Recipe = field(kw_only=True)
    rule: Rule = field(init=False)

    def __post_init__(self) -> None:
        if self.prepare and (unused := sorted(_OF_TABLES & self.recipe.dump().keys())):
            raise NNDError(f"{self.path}: {', '.join(unused)}: not used, as {self.prepare.name} says what a row is")
        object.__setattr__(self, "rule", _make_rule(self.recipe))
