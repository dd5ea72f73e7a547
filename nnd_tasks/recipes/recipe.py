"""The recipe of a set: which columns hold what, which rule says what is better, and facts for the card."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nnd_tasks.card import KNOWN_BY_PEOPLE, Facts, dump_yaml
from nnd_tasks.judgements import Rule
from nnd_tasks.recipes.spans import columns_of

#: Roles that a recipe gives to one column each.
ROLES = (
    *("context", "candidate", "label", "score", "system", "rater", "severity"),
    *("chosen", "rejected", "winner", "category", "subcategory"),
)
#: Where the errors of worse texts come from: people judged texts as they are, or an error was put in on purpose.
ERRORS = ("judged", "made")
#: Columns that every table has besides its own.
FILE, FOLDER, KEY = "@file", "@folder", "@key"
_PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class File:
    """One file of a set, as its publisher names it.

    Attributes:
        name: its name in the folder that ``--source`` names.
        url: where it is downloaded from, https only; ``""`` where it cannot be downloaded.
        sha256: hash of its content, 64 hex digits; None where it is not known: then the first download is recorded.
        member: path inside the archive behind ``url``, for a file that comes in a zip or tar.
        config: the config that it makes; ``""`` where all files make one config, or `Recipe.config` names it.
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
        encoding: of the files; None: it is recognised.
        decimal: decimal mark of numbers, ``.`` or ``,``.
        quotes: whether quotes enclose cells of a tab-separated file; None: it is recognised.
        step: for sets of this package: the function of `nnd_tasks.recipes.steps` that computes the rows from the files.
        rows: a nested list that is taken apart into rows, such as ``questions[]``. A row without an item is left out and counted;
            behind ``[]`` a ``?`` keeps it where the list is there and empty, ``??`` also where the list is missing.
        each: name -> values: every row is read once per value; the value replaces ``{name}`` in the names of columns, and is
            itself in a column ``name`` (for a table in which each system has columns of its own).
        constant: column -> text that it holds in every row.
        group: column of the group within which pairs are formed, or a template of several such as ``{doc}_{seg}``; None takes
            the prompt. ``{a|b}`` takes the first of the two columns that the table has. A list of columns holds long texts; the
            group is then named by a hash of them.
        context: column of what a model is given.
        candidate: column of the text that was judged.
        strip: ``candidate``, ``context`` or ``subcategory`` -> marks that are taken out of its text.
        label: column of a label.
        score: column of a number (higher is better), or of a list of them, one per rater.
        votes: ``best`` and ``worst`` -> column of the systems with such a vote; the score is best minus worst votes.
        system: column of the system that wrote the candidate.
        rater: column of the rater; several judgements of one candidate by one rater then count as one.
        attribute: name -> column. With ``label`` or ``score`` the one column that names the attribute that was judged; else
            columns that each hold the labels or scores of one attribute.
        severity: column of the severity of the error.
        field: prompt field -> its column.
        chosen: column of the better text of a pair, or its chat messages.
        rejected: column of the worse text, likewise.
        pair: the two columns of the texts of a pair, where another column names the winner.
        winner: the column that names the winner.
        winners: value of that column -> ``first``, ``second``, ``tie`` or ``system``; see `nnd_tasks.recipes.winners.winner`.
        systems: the two columns of who wrote the texts of a pair, in the order of ``pair``, or of ``chosen`` and ``rejected``.
        category: column of the category of tests.
        list_category: ``none`` and ``several`` -> the category where the column of the category holds a list with no item, and
            with several; a list of one item is that item.
        subcategory: column of a finer label of the worse candidate.
        categories: label, or value of ``category``, or its first part by ``separator`` -> category; null leaves it out.
        separator: where labels are paths (``Accuracy/Mistranslation``), what separates their parts; the first is the category.
        spans: where the errors of a candidate are; see `nnd_tasks.recipes.spans`.
        leave_out: column -> values: rows with one of these values are not judgements, such as attention checks.
        same: columns that must hold the same; rows in which they differ are left out.
        missing: texts that mean that nobody judged, besides empty cells.
        complete: whether every row must have every column, with text where text belongs, and a judgement; a row that lacks one
            is then an error.
        scale: lowest and highest valid judgement.
        better: labels that are better than all others.
        order: labels, the worst first; a list within it holds labels of equal rank.
        ignore: labels that do not rate quality, such as ``unsure``; they are left out.
        min_gap: smallest difference of two scores that makes one better.
        majority: a candidate is good if more than half of its raters gave the best mark (Likert scale).
        best: the best mark; None takes the highest in the table, per attribute.
        candidates: ``texts``: equal texts of a prompt are one candidate; ``rows``: every row is one, as in the authors' release,
            and a clean config without repeats stands beside it.
        fold_space: whether texts that differ only in white space are equal, for a set whose known counts rest on this; else
            texts are equal if they are the same in Unicode NFC.
        clean: keys of a recipe that have another value for the clean config, such as ``strip``; its pairs are then formed anew.
        clean_note: what these keys change, for the card.
        config: name of the config; ``@file`` or ``@folder`` names it after each file.
        prompt: template of what a model reads before a candidate.
        title: of the human evaluation.
        summary: what was evaluated, in a sentence or two.
        kind: what a model is asked to do, in words; several are separated by commas.
        errors: one of `ERRORS`: ``judged`` (people judged texts as they are) or ``made`` (errors were put in on purpose).
        license: of the texts and judgements.
        license_note: what else people should know about the licence.
        language: codes of the languages.
        citation: BibTeX.
        homepage: where the data comes from.
        judges: who judged.
        task_category: the hub's name for the kind of task.
        field_notes: prompt field -> what it holds.
        options: name of an option -> its values; the first is the default.
        sources: file -> SHA-256 that the recipe was made with.
        published: config -> number of tests in the authors' release.
        expected: category -> number of tests that the recipe made from these files.
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
    group: str | tuple[str, ...] | None = None
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
    winners: Mapping[str, str] = dataclasses.field(default_factory=dict)
    systems: tuple[str, ...] = ()
    category: str | None = None
    list_category: Mapping[str, str] = dataclasses.field(default_factory=dict)
    subcategory: str | None = None
    categories: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    separator: str | None = None
    spans: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    leave_out: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    same: tuple[str, ...] = ()
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
    fold_space: bool = False
    clean: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    clean_note: str | None = None
    config: str | None = None
    prompt: str | None = None
    title: str | None = None
    summary: str | None = None
    kind: str | None = None
    errors: str = ERRORS[0]
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
        """Options of the rules that the recipe names; a valid recipe has one, or none where pairs are ready-made."""
        given = {
            "--better": bool(self.better),
            "--order": bool(self.order),
            "--min-gap": self.min_gap is not None,
            "--majority": self.majority,
        }
        return [name for name, on in given.items() if on]

    @property
    def rule(self) -> Rule:
        """What makes a candidate better than another."""
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
        """The one column that names the attribute that was judged, or None."""
        return None if self.wide else next(iter(self.attribute.values()), None)

    @property
    def marks(self) -> dict[str, str]:
        """Attribute -> column of its labels or scores; its name is ``""`` where the table has one such column."""
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
        several = [*self.attribute.values(), *self.field.values(), *self.votes.values(), *self.pair, *self.systems]
        several += [*self.leave_out, *self.same]
        parts = [part for part in self.group_parts() for part in part.split("|")] if self.group else []
        return list(dict.fromkeys(name for name in (*single, *several, *parts, *columns_of(self.spans)) if name))

    def group_parts(self) -> list[str]:
        """Return the names in the template of a group, or in its list."""
        if not self.group or isinstance(self.group, tuple):
            return list(self.group or ())
        return _PLACE.findall(self.group) or [self.group]

    def unknown(self) -> list[str]:
        """Return the facts that a person must add before the set can be published."""
        return [name for name in KNOWN_BY_PEOPLE if getattr(self, name) in (None, ())]

    def facts(self, name: str, *, shown: bool = False) -> Facts:
        """Return the facts for the card of the set ``name``.

        Args:
            name: of the set.
            shown: whether the card shows the recipe: for sets that do not come with the package.
        """
        known = {key: getattr(self, key) for key in KNOWN_BY_PEOPLE}
        known["language"] = ", ".join(self.language) or None
        fields = {one: self.field_notes.get(one, f"column {column} of the table") for one, column in self.field.items()}
        return Facts(
            name, self.title or name, {key: text for key, text in known.items() if text is not None}, self.license_note or "",
            self.task_category, self.rule_text(), fields, self.pairs, dump_yaml(self.dump()) if shown else "",
            clean_note=self.clean_note or "", made_errors=self.errors == "made",
        )  # fmt: skip

    def rule_text(self) -> str:
        """Return the rule as a sentence."""
        if self.pairs:
            return "The table says of each pair which text is better."
        if self.better:
            labels = ["without a label" if not label else f"labelled `{label}`" for label in self.better]
            return f"Candidates {' or '.join(labels)} are better than all others of the same context."
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
        """Return the keys that differ from their defaults, in the form of a recipe's YAML."""
        said = _changed(self)
        if self.order:
            said["order"] = [rank[0] if len(rank) == 1 else rank for rank in self.order]
        if self.attribute and all(name == column for name, column in self.attribute.items()):
            said["attribute"] = list(self.attribute)
        if self.files:
            said["files"] = {name: _changed(file) for name, file in self.files.items()}
        return {key: _plain(value) for key, value in said.items()}


def _changed(one: Recipe | File) -> dict[str, Any]:
    """Return the fields of a recipe or a file that differ from their defaults; a file's name is its key."""
    values = {part.name: (getattr(one, part.name), part.default) for part in dataclasses.fields(one)}
    return {
        name: value
        for name, (value, default) in values.items()
        if value != default and value not in (None, (), {}) and not (name == "name" and isinstance(one, File))
    }


def _plain(value: Any) -> Any:
    """Return tuples as lists and mappings as dicts, at every level."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
