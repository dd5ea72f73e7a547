"""The keys of a recipe that say how a table is read: which column is what, and where the errors of a text are marked."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import combinations
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from nnd_tasks.schema import DOCUMENT_COLUMNS, RESERVED_COLUMNS
from nnd_tasks.tables.cells import PLACES

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


def as_list(value: Any) -> Any:
    """Return a single value as a list of it."""
    return [value] if isinstance(value, (str, int, float)) else value


def _named(value: Any) -> Any:
    return {name: name for name in as_list(value)} if isinstance(value, (list, str)) else value


Text: TypeAlias = Annotated[str, BeforeValidator(_as_text), Field(max_length=10_000)]
Column: TypeAlias = Text | None
Texts: TypeAlias = Annotated[tuple[Text, ...], BeforeValidator(as_list)]
NamedColumns: TypeAlias = Annotated[dict[Text, Text], BeforeValidator(_named)]


class Strict(BaseModel):
    """Keys that are all known, and do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Spans(Strict):
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


class Columns(Strict):
    """How tables are read, and which of their columns is what.

    A *column* may have a dotted name that leads into objects and lists: ``scores.fluency``, ``votes.0``. Each table also has
    the columns ``@file`` (the file's name without its ending) and ``@folder`` (the name of its folder); where a JSON file is an
    object keyed by id or holds several lists, ``@key``; and where a workbook has several sheets, ``@sheet``.

    Attributes:
        encoding: of the files: ``cp1252``. Recognised where it is not given.
        decimal: decimal mark of numbers.
        missing: texts that mean that nobody judged: ``[k.A., '?']``. Empty cells always do. What programs write for a missing
            value, such as nan or None, is missing in every column (`nnd_tasks.tables.cells.TRACES`), unless this is ``[]``; a
            label of ``better`` or ``ignore`` is kept.
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
        spans: where errors are marked.
        field: prompt field -> column: ``{answer: answer_span}``.
        chosen: column of the better text of a pair, or of its chat messages.
        rejected: column of the worse text.
        pair: two columns of texts, where ``winner`` says which is better.
        winner: column that names the winner: a column of ``pair``, 1 or 2, A or B, first or second, or a tie.
        winners: what other values of that column mean, all listed: ``{0: tie, 1: first, 2: second}``.
        systems: two columns of who wrote the texts of a pair.
    """

    encoding: str | None = None
    decimal: Literal[".", ","] = "."
    missing: Texts | None = None
    leave_out: dict[Text, Texts] = {}
    context: Column = None
    candidate: Column = None
    group: Texts = ()
    label: Column = None
    score: Column = None
    system: Column = None
    rater: Column = None
    attribute: NamedColumns = {}
    category: Column = None
    subcategory: Column = None
    severity: Column = None
    spans: Spans | None = None
    field: NamedColumns = {}
    chosen: Column = None
    rejected: Column = None
    pair: Texts = ()
    winner: Column = None
    winners: dict[Text, Literal["first", "second", "tie"]] = {}
    systems: Texts = ()

    @field_validator("encoding")
    @classmethod
    def _is_encoding(cls, encoding: str | None) -> str | None:
        try:
            # An encoding of bytes, such as zlib, is one that no text is in.
            b"a".decode(encoding or "utf-8", errors="ignore")
            return encoding and codecs.lookup(encoding).name
        except (LookupError, ValueError):
            raise ValueError(f"no such encoding: {encoding!r}; name one such as utf-8, utf-16 or cp1252") from None

    @model_validator(mode="after")
    def _check_columns(self) -> Columns:
        mistakes = [*self._find_mistakes()]
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return self

    def _find_mistakes(self) -> Iterator[str]:
        """Yield what is wrong with columns of pairs and prompt fields, and each column in two roles that cannot be one."""
        if bool(self.pair) != bool(self.winner or (self.pair and self.attribute)) or len(self.pair) not in (0, 2):
            yield "pair and winner go together: two columns of texts, and the one that says which is better"
        if bool(self.chosen) != bool(self.rejected) or (self.chosen and self.pair):
            yield "name chosen and rejected, or pair and winner"
        if len(self.systems) not in (0, 2):
            yield "systems are two columns"
        for name in self.field:
            if name in RESERVED_COLUMNS | DOCUMENT_COLUMNS or not name.isidentifier():
                yield f"prompt field {name!r}: a prompt cannot use this name, or it is in use; rename it (letters, digits and _)"
        for (role, column), (other_role, other_column) in combinations(self.list_columns(), 2):
            shared = column == other_column and column not in PLACES
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
