"""The recipe of a set: which columns hold what, which rule says what is better, and what a person knows of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nnd_tasks.card import KNOWN_BY_PEOPLE, Facts, dump_yaml
from nnd_tasks.pairing import Rule
from nnd_tasks.recipes.spans import columns_of

#: Roles that one column each can have.
ROLES = (
    "context",
    "candidate",
    "label",
    "score",
    "system",
    "rater",
    "severity",
    "chosen",
    "rejected",
    "winner",
    "category",
)
#: Columns that every table has besides its own.
FILE, FOLDER, KEY = "@file", "@folder", "@key"
_PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class File:
    """One file of a set, as its publisher names it.

    Attributes:
        name: looked for in the folder that is given with ``--source``.
        url: where it is downloaded from, https only; ``""`` where it cannot be.
        sha256: its content, 64 hex digits; None where no copy of the original was at hand: it is recorded at the first download.
        member: path inside the archive behind ``url``, for a file that comes in a zip or tar.
        config: the config that it makes; ``""`` where all files make one, or `Recipe.config` names it.
        optional: whether the set can be built without it.
    """

    name: str
    url: str = ""
    sha256: str | None = None
    member: str = ""
    config: str = ""
    optional: bool = False


@dataclass(frozen=True)
class Recipe:
    """How a set is made of files. Names are those of the options of ``nnd new`` and of the keys of a recipe's YAML.

    A column may be nested (`nnd_tasks.recipes.cells`). ``@file``, ``@folder`` and ``@key`` are columns of every table: the file's
    name without its ending, that of its folder, and the key of an entry where the file is an object keyed by id.

    Attributes:
        files: file -> where it comes from.
        pattern: which files of a folder to take where ``files`` names only some, such as ``mqm*.tsv``.
        encoding: of the files; None finds it out.
        decimal: what stands between a number's whole and its fraction, ``.`` or ``,``.
        quotes: whether quotes mean something in a file between tabs; None finds it out.
        step: for sets of this package: the function of `nnd_tasks.recipes.steps` that computes the rows from the files.
        rows: a nested list that is taken apart into rows, such as ``questions[]``; with ``?`` at its end a row whose list is
            empty stays.
        each: name -> values: every row is read once per value, which replaces ``{name}`` in the names of columns and is a
            column of this name itself (a table with columns of their own for each system).
        constant: column -> text that it holds in every row.
        group: column, or several in a template such as ``{doc}_{seg}``, of what forms pairs together; None takes the prompt.
            ``{a|b}`` takes the first of the two that the table has.
        context: column of what a model is given.
        candidate: column of the text that was judged.
        strip: marks that are taken out of a text: ``candidate`` or ``context`` -> marks.
        label: column of a label.
        score: column of a number (higher is better), or of a list of them, one per rater.
        votes: ``best`` and ``worst`` -> column of the systems that were voted so; a candidate's score is the difference.
        system: column of who wrote the candidate.
        rater: column of who judged; rows of one candidate are then judged together.
        attribute: name -> column. With ``label`` or ``score`` the one column that names what was judged; else columns that
            each hold the labels or scores of one attribute.
        severity: column of how bad the error is.
        field: prompt field -> its column.
        chosen: column of the better text of a pair, or its chat messages.
        rejected: column of the worse one.
        pair: the two columns of a pair of which another column says which one won.
        winner: this column.
        category: column of the category of tests.
        categories: label, or value of ``category``, -> category; null leaves it out.
        separator: where labels are paths (``Accuracy/Mistranslation``), what separates their parts; the first is the category.
        spans: where the errors of a candidate are; see `nnd_tasks.recipes.spans`.
        leave_out: column -> values: rows with one of them are no judgements, such as attention checks.
        missing: texts that say that nobody judged, beside empty cells.
        complete: whether every row must have every column, with text where text belongs, and a judgement; a row that lacks one
            is then an error.
        scale: lowest and highest judgement that can be right.
        better: labels that are better than all others.
        order: labels, the worst first; a list within it holds labels of equal rank.
        ignore: labels that say nothing of quality, such as ``unsure``; they are left out.
        min_gap: smallest difference of two scores that makes one better.
        majority: better is who got the best mark from more than half of the raters (Likert scale).
        best: this mark; None takes the highest in the table, per attribute.
        candidates: ``texts``: equal texts of a prompt are one candidate; ``rows``: every row is one, as in the authors' release,
            and a clean config without repeats stands beside it.
        clean: keys of a recipe that the clean config has otherwise, such as ``strip``; it is then paired anew.
        clean_note: what they change, for the card.
        config: name of the config; ``@file`` or ``@folder`` names it after each file.
        prompt: template of what a model reads before a candidate.
        title: of the human evaluation.
        summary: what was evaluated, in a sentence or two.
        kind: what a model is asked to do, in words.
        license: of the texts and judgements.
        license_note: what else is to be known of it.
        language: codes of the languages.
        citation: BibTeX.
        homepage: where the data comes from.
        judges: who judged.
        task_category: of the hub.
        field_notes: prompt field -> what it holds.
        options: name of an option -> its values; the first is the default.
        sources: file -> SHA-256 that the recipe was made with.
        published: config -> number of tests in the authors' release.
        expected: category -> number of tests that came out of them.
    """

    files: Mapping[str, File] = field(default_factory=dict)
    pattern: str | None = None
    encoding: str | None = None
    decimal: str = "."
    quotes: bool | None = None
    step: str | None = None
    rows: str | None = None
    each: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constant: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    context: str | None = None
    candidate: str | None = None
    strip: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: str | None = None
    score: str | None = None
    votes: Mapping[str, str] = field(default_factory=dict)
    system: str | None = None
    rater: str | None = None
    attribute: Mapping[str, str] = field(default_factory=dict)
    severity: str | None = None
    field: Mapping[str, str] = field(default_factory=dict)
    chosen: str | None = None
    rejected: str | None = None
    pair: tuple[str, ...] = ()
    winner: str | None = None
    category: str | None = None
    categories: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    separator: str | None = None
    spans: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    leave_out: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    missing: tuple[str, ...] = ()
    complete: bool = False
    scale: tuple[float, float] | None = None
    better: tuple[str, ...] = ()
    order: tuple[tuple[str, ...], ...] = ()
    ignore: tuple[str, ...] = ()
    min_gap: float | None = None
    majority: bool = False
    best: float | None = None
    candidates: str = "texts"
    clean: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    clean_note: str | None = None
    config: str | None = None
    prompt: str | None = None
    title: str | None = None
    summary: str | None = None
    kind: str | None = None
    license: str | None = None
    license_note: str | None = None
    language: tuple[str, ...] = ()
    citation: str | None = None
    homepage: str | None = None
    judges: str | None = None
    task_category: str = "text-generation"
    field_notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    published: Mapping[str, int] = dataclasses.field(default_factory=dict)
    expected: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def pairs(self) -> bool:
        """Whether the table holds ready-made pairs."""
        return self.chosen is not None or self.rejected is not None or bool(self.pair)

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
    def rule(self) -> Rule:
        """What makes a candidate better, as `nnd_tasks.pairing` takes it."""
        return Rule(self.better, self.order, self.min_gap, self.majority, self.best, self.candidates == "rows")

    @property
    def by_label(self) -> bool:
        """Whether labels, not numbers, say what is better."""
        return bool(self.better or self.order)

    @property
    def wide(self) -> bool:
        """Whether each attribute has a column of its own."""
        return bool(self.attribute) and self.label is None and self.score is None

    @property
    def aspect(self) -> str | None:
        """The one column that names what was judged, or None."""
        return None if self.wide else next(iter(self.attribute.values()), None)

    @property
    def marks(self) -> dict[str, str]:
        """Name of what was judged -> column of its labels or scores; the name is ``""`` where the table has one column."""
        if self.wide:
            return dict(self.attribute)
        column = (self.label if self.by_label else None) or self.score or self.label
        return {"": column} if column else {}

    @property
    def has_clean(self) -> bool:
        """Whether a clean config stands beside each."""
        return self.candidates == "rows"

    def columns(self) -> list[str]:
        """Return the names of the columns that are read, each once."""
        single = [getattr(self, role) for role in ROLES]
        several = [*self.attribute.values(), *self.field.values(), *self.votes.values(), *self.pair, *self.leave_out]
        parts = [part for part in self.group_parts() for part in part.split("|")] if self.group else []
        return list(dict.fromkeys(name for name in (*single, *several, *parts, *columns_of(self.spans)) if name))

    def group_parts(self) -> list[str]:
        """Return the names in the template of a group."""
        if not self.group:
            return []
        return _PLACE.findall(self.group) or [self.group]

    def unknown(self) -> list[str]:
        """Return what a person has to add before the set can be published."""
        return [name for name in KNOWN_BY_PEOPLE if getattr(self, name) in (None, ())]

    def facts(self, name: str, *, shown: bool = False) -> Facts:
        """Return what the card of the set ``name`` says of it.

        Args:
            name: of the set.
            shown: whether the card has the recipe: for sets that do not come with the package.
        """
        known = {key: getattr(self, key) for key in KNOWN_BY_PEOPLE}
        known["language"] = ", ".join(self.language) or None
        fields = {one: self.field_notes.get(one, f"column {column} of the table") for one, column in self.field.items()}
        return Facts(
            name, self.title or name, {key: text for key, text in known.items() if text is not None}, self.license_note or "",
            self.task_category, self.rule_text(), fields, self.pairs, dump_yaml(self.dump()) if shown else "",
            clean_note=self.clean_note or "",
        )  # fmt: skip

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
        if self.min_gap is None:
            return "The recipe names no rule."
        return f"A candidate is better when its score is at least {self.min_gap:g} higher than that of another."

    def dump(self) -> dict[str, Any]:
        """Return what differs from the defaults, as a recipe's YAML has it."""
        found: dict[str, Any] = {}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if value == _default(one) or value in (None, (), {}):
                continue
            if one.name == "order":
                value = [rank[0] if len(rank) == 1 else list(rank) for rank in value]
            elif one.name == "attribute" and all(name == column for name, column in value.items()):
                value = list(value)
            elif one.name == "files":
                value = {name: _of_file(file) for name, file in value.items()}
            found[one.name] = _plain(value)
        return found


def _default(one: dataclasses.Field[Any]) -> Any:
    return one.default if one.default is not dataclasses.MISSING else {}


def _of_file(file: File) -> dict[str, Any]:
    return {one.name: value for one in dataclasses.fields(file)
            if one.name != "name" and (value := getattr(file, one.name)) != one.default}  # fmt: skip


def _plain(value: Any) -> Any:
    """Return tuples as lists and mappings as dicts, all the way down."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _names(labels: tuple[str, ...]) -> str:
    return " or ".join(f"`{label}`" if label else "nothing" for label in labels)
