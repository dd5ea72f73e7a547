"""Read judged candidates from a table: the texts of each role as codes, groups, categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.codes import Codes, Index, Mask, Texts, combine
from nnd_tasks.errors import NNDError
from nnd_tasks.judgements import Dropped, Judgements, Prompts, number_prompts
from nnd_tasks.qualities import unranked
from nnd_tasks.recipes.base_table import Batch, Table
from nnd_tasks.recipes.cells import check_size, short_repr, strings
from nnd_tasks.recipes.flatten import LEFT_OUT, batches, without
from nnd_tasks.recipes.marks import Marks
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.spans import SpanReader
from nnd_tasks.schema import normalize, short_hash
from nnd_tasks.wording import some_of

#: Roles whose texts are names; white space around a name does not count.
_NAMES = ("system", "high_system", "low_system", "rater", "category", "subcategory", "severity")
#: Roles whose texts a model reads; where candidates are rows, blank ones are kept.
_BODIES = ("context", "candidate", "chosen", "rejected")


class Reader:
    """Gathers columns of codes from the batches of a table.

    Args:
        roles: role -> column.
        recipe: names the marks that are taken out of a text, and says whether blank texts count.
    """

    def __init__(self, roles: Mapping[str, str], recipe: Recipe) -> None:
        self.roles, self._recipe = dict(roles), recipe
        self._blank = recipe.candidates == "rows"
        kept = {role for role in roles if self._blank and (role in _BODIES or _is_field(role))}
        self.texts = {
            role: Texts(strip=role in _NAMES, blank=role in kept, fold_space=recipe.fold_space) for role in roles
        }
        self._codes: dict[str, list[Codes]] = {role: [] for role in roles}
        self._numbers: list[NDArray[np.int64]] = []
        self.count = 0

    def add(self, batch: Batch) -> None:
        """Read the columns of a batch.

        Raises:
            NNDError: a cell is not text; or it is empty, and the recipe is ``complete``.
        """
        self._numbers.append(np.asarray(batch.numbers, dtype=np.int64))
        self.count += len(batch.numbers)
        for role, column in self.roles.items():
            where = batch.where(column)
            cells = strings(batch.columns[column], where, (str,) if self._recipe.complete else ())
            if self._recipe.complete and role != "severity":
                absent = pc.is_null(cells)
                if role == "category":
                    absent = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(cells), ""), True)
                if (place := int(pc.index(absent, True).as_py())) >= 0:
                    raise NNDError(f"{where(place)}: expected text, found nothing")
            if self._blank and _is_field(role):  # a prompt field that is absent is an empty one
                cells = pc.fill_null(cells, "")
            for mark in self._recipe.strip.get("candidate" if role in ("chosen", "rejected") else role, ()):
                cells = pc.replace_substring(cells, mark, "")
            self._codes[role].append(self.texts[role].add(cells))

    @property
    def numbers(self) -> Index:
        """Numbers of the rows in the file, shape (rows,)."""
        return np.concatenate(self._numbers) if self._numbers else np.empty(0, np.int64)

    def codes(self, role: str) -> Codes:
        """Return the codes of a role, shape (rows,)."""
        return np.concatenate(self._codes[role])


def _is_field(role: str) -> bool:
    return role.startswith("field ")


def field_roles(recipe: Recipe) -> dict[str, str]:
    """Return the role of each prompt field -> its column."""
    return {f"field {name}": column for name, column in sorted(recipe.field.items())}


def prompts_of(reader: Reader, recipe: Recipe) -> tuple[Index, Prompts]:
    """Return the number of each row's prompt, and the prompts."""
    fields = {name: reader.codes(f"field {name}") for name in sorted(recipe.field)}
    texts = {"context": reader.texts["context"], **{name: reader.texts[f"field {name}"] for name in fields}}
    return number_prompts(reader.codes("context"), fields, texts)


def read_judgements(table: Table, recipe: Recipe) -> Judgements:
    """Read a table of judged candidates.

    Rows with an empty candidate, an empty context or no judgement are counted and left out; a set whose candidates are rows
    keeps empty texts, as its publisher did.

    Raises:
        NNDError: a file that cannot be read, or a cell of a wrong kind; the error names the row.
    """
    gathered = _Gathered(table, recipe)
    for batch in batches(table, recipe):
        gathered.add(batch)
    if not (gathered.reader.count or gathered.dropped.counts):
        raise table.empty()
    gathered.spans.note_lost(table)
    return gathered.judgements()


class _Gathered:
    """Gathers the judgements of a table, and counts the rows that are left out.

    Attributes:
        reader: texts of all rows.
        spans: error spans of all rows.
        dropped: what is left out.
    """

    def __init__(self, table: Table, recipe: Recipe) -> None:
        self._table, self._recipe = table, recipe
        roles = {
            role: column
            for role in ("context", "candidate", "system", "rater", "category", "subcategory", "severity")
            if (column := getattr(recipe, role))
        } | field_roles(recipe)
        if recipe.score and recipe.label:
            roles["shown"] = recipe.label
        self.reader = Reader(roles, recipe)
        self.spans = SpanReader(recipe.spans, recipe.strip.get("candidate", ()))
        self._marks, self._groups = Marks(recipe), _Groups(recipe)
        self.dropped = Dropped()
        # Of each judgement that is still in: position of the row, mark, number of the aspect.
        self._place: Index
        self._mark: NDArray[Any]
        self._aspect: Codes

    def add(self, whole: Batch) -> None:
        """Read a batch, without the rows that the recipe leaves out."""
        batch = without(whole, self._recipe, self.dropped)
        self._marks.add(batch, self.reader.count)
        self.reader.add(batch)
        self._groups.add(batch)
        self.spans.add(batch, str(self._recipe.candidate))

    def _keep(self, keep: Mask) -> None:
        self._place, self._mark, self._aspect = self._place[keep], self._mark[keep], self._aspect[keep]

    def _leave_out(self, reason: str, wrong: Mask) -> None:
        """Leave out the judgements that are marked as wrong."""
        self.dropped.add(reason, int(wrong.sum()), self.reader.numbers[self._place[wrong]])
        self._keep(~wrong)

    def judgements(self) -> Judgements:
        """Return the judgements of all rows."""
        reader, recipe, labels = self.reader, self._recipe, self._marks.labels
        self._place, self._mark, self._aspect = self._marks.gather()
        rows, candidate = reader.numbers, reader.codes("candidate")
        count = len(rows) + sum(self.dropped.counts.get(reason, 0) for reason in LEFT_OUT)
        empty, unknown = candidate < 0, reader.codes("context") < 0
        judged = np.zeros(len(rows), dtype=bool)
        judged[self._place] = True
        for reason, wrong in (
            ("empty", empty),
            ("no_context", unknown & ~empty),
            ("no_judgement", ~judged & ~empty & ~unknown),
        ):
            self.dropped.add(reason, int(wrong.sum()), rows[wrong])
        self._keep(~(empty | unknown)[self._place])
        if labels is not None:
            ignored = [code for label in recipe.ignore if (code := labels.find(label)) is not None]
            self._leave_out("ignored", np.isin(self._mark, ignored))
            if codes := unranked(labels, recipe.rule, recipe.ignore):
                self.dropped.labels = [labels.texts[code] for code in codes]
                self._leave_out("unranked", np.isin(self._mark, codes))
        prompt, prompts = prompts_of(reader, recipe)
        group, groups = self._groups.gather(prompt, rows, self._table)
        facts: dict[str, Codes] = {
            role: reader.codes(role)
            for role in ("system", "rater", "subcategory", "severity", "shown")
            if role in reader.roles
        }
        texts = dict(reader.texts)
        if labels is not None:
            texts["label"] = labels
        elif "shown" in texts:
            texts["label"] = texts["shown"]
        if recipe.spans:
            facts["spans"], texts["spans"] = self.spans.codes(), self.spans.texts
        categories = self._categories(texts)  # leaves judgements out
        place = self._place
        return Judgements(
            prompt[place], group[place], candidate[place], self._aspect, self._mark, place, rows[place],
            {**{name: codes[place] for name, codes in facts.items()}, **categories}, prompts, groups, self._marks.aspects,
            texts, count, self.dropped,
        )  # fmt: skip

    def _categories(self, texts: dict[str, Texts]) -> dict[str, Codes]:
        """Return the category and subcategory of each judgement, where columns or a table of categories name them.

        Judgements whose label is mapped to null in the table of categories are left out.
        """
        recipe, reader, labels = self._recipe, self.reader, self._marks.labels
        by_label = labels is not None and not recipe.category
        if not (recipe.categories or recipe.separator):
            return {"category": reader.codes("category")[self._place]} if recipe.category else {}
        if by_label:
            assert labels is not None
            kinds, finer = labels, self._mark.astype(np.int32)
        elif recipe.category:
            kinds, finer = reader.texts["category"], reader.codes("category")[self._place]
        else:
            raise NNDError("categories and separator need labels, or the column of the category")
        names = Texts(strip=True)
        category_of = np.full(len(kinds.texts) + 1, -1, dtype=np.int32)  # the last for a judgement without one
        left_out = []
        for code, text in enumerate(kinds.texts):
            category = self._category(text, by_label)
            if category is None:
                left_out.append(code)
            elif category:
                category_of[code] = names.code(category)
        wrong = np.isin(finer, left_out)
        self._leave_out("no_test_category", wrong)
        finer = finer[~wrong]
        texts["category"], texts["subcategory"] = names, kinds
        return {"category": category_of[finer], "subcategory": finer}

    def _category(self, text: str, by_label: bool) -> str | None:
        """Return the category of a label or subcategory: ``""`` for a good label, None where it is mapped to null."""
        recipe = self._recipe
        if by_label and text in recipe.better:
            return ""
        if text in recipe.categories:
            return recipe.categories[text]
        if recipe.separator:
            first = text.split(recipe.separator, 1)[0].strip()
            if not first:
                raise NNDError(f"{self._find(text)}: {text!r} has nothing before {recipe.separator!r}")
            return recipe.categories.get(first, first)
        what = "error label" if by_label else "category"
        known = some_of([*(recipe.better if by_label else ()), *recipe.categories])
        raise NNDError(f"{self._find(text)}: unknown {what} {text!r} (known: {known})")

    def _find(self, text: str) -> str:
        """Return the place of a label or category, for an error."""
        for batch in batches(self._table, self._recipe):
            for column in (self._recipe.category, self._recipe.label):
                cells = [normalize(str(cell)).strip() for cell in batch.columns[column]] if column else []
                if column and text in cells:
                    return batch.where(column)(cells.index(text))
        return self._table.name


class _Groups:
    """Gathers the identifiers of groups, which a recipe names by a column or a template."""

    def __init__(self, recipe: Recipe) -> None:
        self._template, self._parts = recipe.group, recipe.group_parts()
        self._strip = recipe.strip.get("context", ()) if recipe.context in self._parts else ()
        self._context = recipe.context
        self._only = (str, int) if recipe.complete else ()
        self._texts = Texts(blank=True)
        self._codes: list[Codes] = []

    def add(self, batch: Batch) -> None:
        """Read the identifiers of a batch."""
        if self._template is None or not len(batch.numbers):
            return
        values = [self._cells(batch, part) for part in self._parts]
        if isinstance(self._template, tuple):
            texts = [short_hash(*row) for row in zip(*values, strict=True)]
        elif self._template == self._parts[0]:
            texts = values[0]
        else:
            pattern = self._template
            for number, part in enumerate(self._parts):
                pattern = pattern.replace(f"{{{part}}}", f"\0{number}\0", 1)
            pieces = pattern.split("\0")  # text and the number of a part in turn
            size = sum(len(cell) for cells in values for cell in cells) + len(pattern) * len(batch.numbers)
            check_size(size, batch.where(self._template))
            texts = [
                "".join(row[int(piece)] if place % 2 else piece for place, piece in enumerate(pieces))
                for row in zip(*values, strict=True)
            ]
        self._codes.append(self._texts.add(pa.array(texts, pa.string())))

    def _cells(self, batch: Batch, part: str) -> list[str]:
        """Return the cells of one part of the template: a column, or the first of ``a|b`` that the table has."""
        column = next((choice for choice in part.split("|") if choice in batch.columns), None)
        if column is None:
            raise NNDError(f"{batch.place(0)}: no column {part.replace('|', ' or ')!r}; is it the right file?")
        cells: list[str | None] = strings(batch.columns[column], batch.where(column), self._only).to_pylist()
        if None in cells:
            raise NNDError(f"{batch.where(column)(cells.index(None))}: expected text, found nothing")
        texts = [str(cell) for cell in cells]
        for mark in self._strip if column == self._context else ():
            texts = [text.replace(mark, "") for text in texts]
        return texts

    def gather(self, prompt: Index, rows: Index, table: Table) -> tuple[Index, list[str] | None]:
        """Return the number of each row's group, and the identifiers of groups; None where the groups are the prompts.

        Raises:
            NNDError: the rows of a group have different prompts.
        """
        if self._template is None:
            return prompt, None
        codes = np.concatenate(self._codes)
        group, first = combine(codes)
        other = np.flatnonzero(prompt != prompt[first][group])
        if len(other):
            raise NNDError(
                f"{table.place(int(rows[other[0]]))}: context {short_repr(self._texts.texts[codes[other[0]]])}: its "
                "rows do not all have the same context and fields"
            )
        return group, [self._texts.texts[code] for code in codes[first].tolist()]
