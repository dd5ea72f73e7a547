"""Read the judgements out of a table, and put together those of one candidate."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nnd_tasks.contribute.encode import Codes, Floats, Index, Texts, combine, numbers, spread
from nnd_tasks.contribute.recipe import Recipe
from nnd_tasks.contribute.tables import Batch, Table
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import cluster_key

_EXAMPLES = 3
_NAMES = ("system", "rater", "category")  # roles whose texts are names, which white space is no part of


@dataclass
class Dropped:
    """What took no part, and why.

    Attributes:
        counts: reason -> how many.
        rows: reason -> numbers of the first few rows of the table.
        labels: that an order does not have.
    """

    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)

    def add(self, reason: str, count: int, rows: Sequence[int] | NDArray[Any] = ()) -> None:
        """Count some more."""
        if count:
            self.counts[reason] = self.counts.get(reason, 0) + int(count)
            known = self.rows.setdefault(reason, [])
            known += [int(row) for row in rows[: _EXAMPLES - len(known)]]


@dataclass
class Prompts:
    """Distinct prompts: the context and the prompt fields.

    Attributes:
        contexts: text of each.
        fields: prompt field -> text of each.
        ids: cluster id of each.
    """

    contexts: list[str]
    fields: dict[str, list[str]]
    ids: list[str]


def number_prompts(context: Codes, fields: Mapping[str, Codes], texts: Mapping[str, Texts]) -> tuple[Index, Prompts]:
    """Number the distinct prompts in the order of their first appearance.

    Args:
        context: code of each row's context, -1 where it is empty; shape (rows,).
        fields: prompt field -> codes likewise.
        texts: ``context`` and each prompt field -> its texts.

    Returns:
        The number of each row's prompt, and the prompts.
    """
    codes, first = combine(context, *fields.values())

    def of(name: str, column: Codes) -> list[str]:
        known = texts[name].texts
        return [known[code] if code >= 0 else "" for code in column[first].tolist()]

    contexts = of("context", context)
    columns = {name: of(name, column) for name, column in fields.items()}
    ids = [
        cluster_key(text, dict(zip(columns, values, strict=True)))
        for text, *values in zip(contexts, *columns.values(), strict=True)
    ]
    return codes, Prompts(contexts, columns, ids)


@dataclass
class Judgements:
    """One entry per judgement of a candidate in one aspect; all arrays have shape (judgements,).

    Attributes:
        prompt: number of the prompt.
        candidate: code of the text.
        aspect: number of what was judged.
        mark: code of the label (integers), or the number that was given.
        row: number of the row in the table.
        system: code of who wrote the candidate, or None.
        rater: code of who judged it, or None.
        category: code of the category, or None.
        prompts: the distinct prompts.
        aspects: names of what was judged; ``[""]`` where the table names none.
        texts: role -> texts of its codes.
        rows: how many rows the table has.
        dropped: what was left out.
    """

    prompt: Index
    candidate: Codes
    aspect: Codes
    mark: NDArray[Any]
    row: Index
    system: Codes | None
    rater: Codes | None
    category: Codes | None
    prompts: Prompts
    aspects: list[str]
    texts: dict[str, Texts]
    rows: int
    dropped: Dropped


class Reader:
    """Gathers columns of codes out of the batches of a table.

    Args:
        table: to read.
        roles: role -> column.
    """

    def __init__(self, table: Table, roles: Mapping[str, str]) -> None:
        self.table, self.roles = table, dict(roles)
        self.texts = {role: Texts(strip=role in _NAMES) for role in roles}
        self._found: dict[str, list[Codes]] = {role: [] for role in roles}
        self._rows: list[NDArray[np.int32]] = []

    def where(self, batch: Batch, column: str) -> Callable[[int], str]:
        """Return what names a cell of ``column`` in an error."""
        return lambda i: f"{self.table.where(batch.numbers[i])}, column {column!r}"

    def add(self, batch: Batch) -> None:
        """Take in the columns of a batch."""
        self._rows.append(np.asarray(batch.numbers, dtype=np.int32))
        for role, column in self.roles.items():
            self._found[role].append(self.texts[role].add(batch.columns[column], self.where(batch, column)))

    @property
    def rows(self) -> NDArray[np.int32]:
        """Numbers of the rows, shape (rows,)."""
        return np.concatenate(self._rows) if self._rows else np.empty(0, np.int32)

    def codes(self, role: str) -> Codes:
        """Return the codes of a role, shape (rows,)."""
        return np.concatenate(self._found[role])


def _prompt_roles(recipe: Recipe) -> dict[str, str]:
    return {f"field {name}": column for name, column in sorted(recipe.field.items())}


def read_judgements(table: Table, recipe: Recipe) -> Judgements:
    """Read a table of judged candidates.

    Rows with an empty candidate, an empty context or no judgement are counted and left out.

    Raises:
        NNDError: a file that cannot be read, or a cell that holds something else; the row is named.
    """
    roles = {role: column for role in ("context", "candidate", "system", "rater", "category")
             if (column := getattr(recipe, role))} | _prompt_roles(recipe)  # fmt: skip
    reader = Reader(table, roles)
    marks = _Marks(reader, recipe)
    total = 0
    for batch in table.read(recipe.columns()):
        reader.add(batch)
        marks.add(batch, total)
        total += len(batch.numbers)
    if not total:
        raise NNDError(f"{table.name}: it holds no row")
    place, mark, aspect = marks.gather()
    return _assemble(reader, recipe, place, mark, aspect, marks)


def _assemble(
    reader: Reader, recipe: Recipe, place: Index, mark: NDArray[Any], aspect: Codes, marks: _Marks
) -> Judgements:
    rows, candidate = reader.rows, reader.codes("candidate")
    context = reader.codes("context")
    dropped = Dropped()
    empty, unknown = candidate < 0, context < 0
    judged = np.zeros(len(rows), dtype=bool)
    judged[place] = True
    for reason, wrong in (
        ("empty", empty),
        ("no_context", unknown & ~empty),
        ("no_judgement", ~judged & ~empty & ~unknown),
    ):
        dropped.add(reason, int(wrong.sum()), rows[wrong])
    keep = ~(empty | unknown)[place]
    place, mark, aspect = place[keep], mark[keep], aspect[keep]
    if marks.labels is not None and recipe.ignore:
        silent = np.isin(mark, [code for label in recipe.ignore if (code := marks.labels.find(label)) is not None])
        dropped.add("ignored", int(silent.sum()), rows[place[silent]])
        place, mark, aspect = place[~silent], mark[~silent], aspect[~silent]
    if marks.labels is not None and (codes := _unranked(marks.labels, recipe)):
        unknown = np.isin(mark, codes)
        dropped.add("unranked", int(unknown.sum()), rows[place[unknown]])
        dropped.labels = [marks.labels.texts[code] for code in codes]
        place, mark, aspect = place[~unknown], mark[~unknown], aspect[~unknown]
    fields = {name: reader.codes(f"field {name}") for name in sorted(recipe.field)}
    texts = {"context": reader.texts["context"], **{name: reader.texts[f"field {name}"] for name in fields}}
    prompt, prompts = number_prompts(context, fields, texts)

    def of(role: str) -> Codes | None:
        return reader.codes(role)[place] if role in reader.roles else None

    return Judgements(
        prompt[place], candidate[place], aspect, mark, rows[place].astype(np.int64), of("system"), of("rater"),
        of("category"), prompts, marks.aspects, {**reader.texts, **({"label": marks.labels} if marks.labels else {})},
        len(rows), dropped,
    )  # fmt: skip


def _unranked(labels: Texts, recipe: Recipe) -> list[int]:
    """Return the codes of the labels that an order does not have; of other rules, none.

    Raises:
        NNDError: no label of the order is in the table, or one of the table is nearly one of the order.
    """
    ranked = [label for rank in recipe.order for label in rank]
    if not ranked or not labels.texts:
        return []
    shown = ", ".join(map(repr, labels.texts[:12])) + (", ..." if len(labels.texts) > 12 else "")
    if all(labels.find(label) is None for label in ranked):
        raise NNDError(f"--order {ranked[0]}: no candidate has this label; the labels are {shown}")
    unknown = [label for label in labels.texts if label not in ranked and label not in recipe.ignore]
    lower = {label.casefold(): label for label in ranked}
    for label in unknown:
        if near := difflib.get_close_matches(label.casefold(), lower, n=1, cutoff=0.8):
            raise NNDError(
                f"--order: it lacks the label {label!r}; is it {lower[near[0]]!r}? Put it into the order "
                f"(bad=ugly,good: equal ranks), or --ignore it (the labels are {shown})"
            )
    return [code for label in unknown if (code := labels.find(label)) is not None]


class _Marks:
    """Gathers labels or numbers: one or several per row, of one or several attributes."""

    def __init__(self, reader: Reader, recipe: Recipe) -> None:
        self.labels = Texts(strip=True) if recipe.by_label else None
        self._reader = reader
        self._wide = recipe.wide
        self._columns = list(recipe.attribute) if recipe.wide else [str(recipe.label or recipe.score)]
        self._names = Texts(strip=True)
        self._named_by = recipe.attribute[0] if recipe.attribute and not recipe.wide else None
        self._found: list[tuple[Index, NDArray[Any], Codes]] = []

    @property
    def aspects(self) -> list[str]:
        """Names of what was judged."""
        return self._columns if self._wide else self._names.texts or [""]

    def add(self, batch: Batch, before: int) -> None:
        """Take in a batch that ``before`` rows come before."""
        for number, column in enumerate(self._columns):
            place, cells = spread(batch.columns[column])
            named = self._reader.where(batch, column)

            def where(i: int, place: Index = place, named: Callable[[int], str] = named) -> str:
                return named(int(place[i]))

            mark, known = self._read(cells, where)
            aspect = np.full(len(place), number if self._wide else 0, dtype=np.int32)
            if self._named_by:
                aspect = self._names.add(batch.columns[self._named_by], self._reader.where(batch, self._named_by))[
                    place
                ]
                known &= aspect >= 0
            self._found.append(((place + before)[known], mark[known], aspect[known]))

    def _read(self, cells: pa.Array | list[Any], where: Callable[[int], str]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the marks of cells, and whether there is one."""
        if self.labels is not None:
            codes = self.labels.add(cells, where)
            return codes, codes >= 0
        values: Floats = numbers(cells, where)
        return values, ~np.isnan(values)

    def gather(self) -> tuple[Index, NDArray[Any], Codes]:
        """Return of all judgements the position of the row, the mark and the number of the attribute, row by row."""
        place, mark, aspect = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        order = np.lexsort((aspect, place)) if self._wide else np.arange(len(place))
        return place[order], mark[order], aspect[order]
