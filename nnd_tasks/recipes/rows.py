"""Read the judgements out of a table: each role's column as codes, marks of one or several attributes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.codes import Codes, Index, Mask, Texts, combine
from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import Dropped, Judgements, Prompts, number_prompts, unranked
from nnd_tasks.recipes.cells import Column, Numbers, Where, check_size, coded, listed, shown, spread, strings
from nnd_tasks.recipes.flatten import batches, without
from nnd_tasks.recipes.readers import Batch, Table
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.spans import columns_of, find_spans, named, row_cell
from nnd_tasks.schema import normalize
from nnd_tasks.wording import counted, some_of

#: Roles whose texts are names, which white space is no part of.
_NAMES = ("system", "rater", "category", "severity")
#: Roles whose texts a model reads; where candidates are rows, blank ones are kept.
_BODIES = ("context", "candidate", "chosen", "rejected")


class Reader:
    """Gathers columns of codes out of the batches of a table.

    Args:
        roles: role -> column.
        recipe: says which marks are taken out of a text, and whether blank texts count.
    """

    def __init__(self, roles: Mapping[str, str], recipe: Recipe) -> None:
        self.roles, self._recipe = dict(roles), recipe
        self._blank = recipe.candidates == "rows"
        kept = {role for role in roles if self._blank and (role in _BODIES or _is_field(role))}
        self.texts = {role: Texts(strip=role in _NAMES, blank=role in kept) for role in roles}
        self._codes: dict[str, list[Codes]] = {role: [] for role in roles}
        self._numbers: list[NDArray[np.int64]] = []
        self.count = 0

    def add(self, batch: Batch) -> None:
        """Take in the columns of a batch.

        Raises:
            NNDError: a cell is no text; or, where the recipe is complete, there is none.
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
        NNDError: a file that cannot be read, or a cell that holds something else; the row is named.
    """
    roles = {
        role: column
        for role in ("context", "candidate", "system", "rater", "category", "severity")
        if (column := getattr(recipe, role))
    } | field_roles(recipe)
    if recipe.score and recipe.label:
        roles["shown"] = recipe.label
    reader, marks, groups, spans = Reader(roles, recipe), _Marks(recipe), _Groups(recipe), SpanReader(recipe)
    skipped = Dropped()
    for whole in batches(table, recipe):
        batch = without(whole, recipe, skipped)
        marks.add(batch, reader.count)
        reader.add(batch)
        groups.add(batch)
        spans.add(batch, str(recipe.candidate))
    if not reader.count:
        raise NNDError(f"{table.name}: it holds no row; is it the right file?")
    spans.say(table)
    found = _Assembly(table, recipe, reader, marks, groups, spans).judgements()
    found.rows += skipped.counts.get("by_recipe", 0)
    found.dropped.counts = {**skipped.counts, **found.dropped.counts}
    found.dropped.rows = {**skipped.rows, **found.dropped.rows}
    return found


class _Assembly:
    """Puts what was read together, and counts what is left out."""

    def __init__(
        self, table: Table, recipe: Recipe, reader: Reader, marks: _Marks, groups: _Groups, spans: SpanReader
    ) -> None:
        self._table, self._recipe, self._reader, self._marks = table, recipe, reader, marks
        self._groups, self._spans = groups, spans
        self._place, self._mark, self._aspect = marks.gather()
        self._dropped = Dropped()

    def _keep(self, keep: Mask) -> None:
        self._place, self._mark, self._aspect = self._place[keep], self._mark[keep], self._aspect[keep]

    def _leave_out(self, reason: str, wrong: Mask) -> None:
        """Leave out judgements."""
        self._dropped.add(reason, int(wrong.sum()), self._reader.numbers[self._place[wrong]])
        self._keep(~wrong)

    def judgements(self) -> Judgements:
        reader, recipe, marks = self._reader, self._recipe, self._marks
        rows, candidate = reader.numbers, reader.codes("candidate")
        empty, unknown = candidate < 0, reader.codes("context") < 0
        judged = np.zeros(len(rows), dtype=bool)
        judged[self._place] = True
        for reason, wrong in (
            ("empty", empty),
            ("no_context", unknown & ~empty),
            ("no_judgement", ~judged & ~empty & ~unknown),
        ):
            self._dropped.add(reason, int(wrong.sum()), rows[wrong])
        self._keep(~(empty | unknown)[self._place])
        if marks.labels is not None:
            silent = [code for label in recipe.ignore if (code := marks.labels.find(label)) is not None]
            self._leave_out("ignored", np.isin(self._mark, silent))
            if codes := unranked(marks.labels, recipe.rule, recipe.ignore):
                self._dropped.labels = [marks.labels.texts[code] for code in codes]
                self._leave_out("unranked", np.isin(self._mark, codes))
        prompt, prompts = prompts_of(reader, recipe)
        group, groups = self._groups.gather(prompt, reader, self._table)
        facts: dict[str, Codes] = {
            role: reader.codes(role) for role in ("system", "rater", "severity", "shown") if role in reader.roles
        }
        texts = dict(reader.texts)
        if marks.labels is not None:
            texts["label"] = marks.labels
        elif "shown" in texts:
            texts["label"] = texts["shown"]
        if self._spans.found:
            facts["spans"], texts["spans"] = self._spans.codes(), self._spans.texts
        categories = self._categories(texts)  # leaves judgements out
        place = self._place
        return Judgements(
            prompt[place], group[place], candidate[place], self._aspect, self._mark, place, rows[place],
            {**{name: codes[place] for name, codes in facts.items()}, **categories}, prompts, groups, marks.aspects, texts,
            len(rows), self._dropped,
        )  # fmt: skip

    def _categories(self, texts: dict[str, Texts]) -> dict[str, Codes]:
        """Return the category and finer label of each judgement, where columns or a table of categories say them.

        Judgements whose label has no category by the table (null) are left out.
        """
        recipe, reader, labels = self._recipe, self._reader, self._marks.labels
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
        named = Texts(strip=True)
        to = np.full(len(kinds.texts) + 1, -1, dtype=np.int32)
        left_out = []
        for code, text in enumerate(kinds.texts):
            category = self._category(text, by_label)
            if category is None:
                left_out.append(code)
            elif category:
                to[code] = named.code(category)
        wrong = np.isin(finer, left_out)
        self._leave_out("no_test_category", wrong)
        finer = finer[~wrong]
        texts["category"], texts["subcategory"] = named, kinds
        return {"category": to[finer], "subcategory": finer}

    def _category(self, text: str, by_label: bool) -> str | None:
        """Return the category of a label or finer category, ``""`` of a good one, None where the table leaves it out."""
        recipe = self._recipe
        if by_label and text in recipe.better:
            return ""
        if text in recipe.categories:
            return recipe.categories[text]
        if recipe.separator:
            first = text.split(recipe.separator, 1)[0].strip()
            if not first:
                raise NNDError(f"{self._find(text)}: {text!r} has nothing before {recipe.separator!r}")
            return first
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
    """Gathers the identifiers of groups."""

    def __init__(self, recipe: Recipe) -> None:
        self._template, self._parts = recipe.group, recipe.group_parts()
        self._strip = recipe.strip.get("context", ()) if recipe.context in self._parts else ()
        self._context = recipe.context
        self._only = (str, int) if recipe.complete else ()
        self._texts = Texts(blank=True)
        self._codes: list[Codes] = []

    def add(self, batch: Batch) -> None:
        """Take in a batch."""
        if self._template is None or not len(batch.numbers):
            return
        values = []
        for part in self._parts:
            name = next((choice for choice in part.split("|") if choice in batch.columns), None)
            if name is None:
                raise NNDError(f"{batch.place(0)}: no column {part.replace('|', ' or ')!r}; is it the right file?")
            cells = strings(batch.columns[name], batch.where(name), self._only).to_pylist()
            if None in cells:
                raise NNDError(f"{batch.where(name)(cells.index(None))}: expected text, found nothing")
            if name == self._context:
                for mark in self._strip:
                    cells = [cell.replace(mark, "") for cell in cells]
            values.append(cells)
        if self._template == self._parts[0]:
            texts = values[0]
        else:
            pattern = self._template
            for number, part in enumerate(self._parts):
                pattern = pattern.replace(f"{{{part}}}", f"\0{number}\0", 1)
            pieces = pattern.split("\0")
            size = sum(len(cell) for cells in values for cell in cells) + len(pattern) * len(batch.numbers)
            check_size(size, batch.where(self._template))
            texts = [
                "".join(row[int(piece)] if place % 2 else piece for place, piece in enumerate(pieces))
                for row in zip(*values, strict=True)
            ]
        self._codes.append(self._texts.add(pa.array(texts, pa.string())))

    def gather(self, prompt: Index, reader: Reader, table: Table) -> tuple[Index, list[str] | None]:
        """Return the number of each row's group, and their identifiers; None where a group is a prompt.

        Raises:
            NNDError: the rows of a group have different prompts.
        """
        if self._template is None:
            return prompt, None
        group, first = combine(np.concatenate(self._codes))
        other = np.flatnonzero(prompt != prompt[first][group])
        if len(other):
            name = self._texts.texts[int(np.concatenate(self._codes)[other[0]])]
            raise NNDError(
                f"{table.name}, {table.unit} {reader.numbers[other[0]]}: context {shown(name)}: its rows do not all have the "
                "same context and fields"
            )
        names = [self._texts.texts[code] for code in np.concatenate(self._codes)[first].tolist()]
        return group, names


class SpanReader:
    """Gathers error spans as JSON.

    Attributes:
        found: whether the recipe names any.
        texts: the spans of candidates, as JSON.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self.found = recipe, bool(recipe.spans)
        self.texts = Texts()
        self._codes: list[Codes] = []
        self._named = self._lost = 0

    def add(self, batch: Batch, column: str) -> None:
        """Take in a batch whose candidates are in ``column``.

        Raises:
            NNDError: a candidate has too many.
        """
        if not self.found:
            return
        spans, columns = self._recipe.spans, columns_of(self._recipe.spans)
        cells: list[Any] = [None] * len(batch.numbers)
        if columns:
            parts = [listed(batch.columns[name]) for name in columns]
            cells = parts[0] if "column" in spans else [row_cell(spans, row) for row in zip(*parts, strict=True)]
        marks = self._recipe.strip.get("candidate", ())
        found = []
        for i, (cell, text) in enumerate(zip(cells, listed(batch.columns[column]), strict=True)):
            try:
                placed = find_spans(cell, str(text or ""), spans, marks)
            except ValueError as error:
                raise NNDError(f"{batch.where(columns[0])(i)}: {error}") from None
            found.append(json.dumps(placed) if placed else "")
            if columns:
                count = len(named(cell))
                self._named, self._lost = self._named + count, self._lost + count - len(placed)
        self._codes.append(self.texts.add(pa.array(found, pa.string())))

    def codes(self) -> Codes:
        """Return the codes of all rows."""
        return np.concatenate(self._codes)

    def say(self, table: Table) -> None:
        """Note on a table how many spans do not lie in their candidates."""
        if self._lost:
            note = f"left out, as they do not lie in their candidate: {self._lost:,} of {counted(self._named, 'error span')}"
            table.notes = [*(one for one in table.notes if one != note), note]


class _Marks:
    """Gathers labels or numbers: one or several per row, of one or several attributes."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        # Publishers write their best label in several ways (No-error, no-error); a table of one's own is read as it is.
        same = {label.casefold(): label for label in recipe.better} if recipe.candidates == "rows" else None
        texts = Texts(strip=True, blank="" in recipe.better, missing=recipe.missing, same=same)
        self.labels = texts if recipe.by_label else None
        self._numbers = Numbers(recipe.missing, recipe.decimal, recipe.scale)
        self._columns = recipe.marks
        self._names = Texts(strip=True)
        self._found: list[tuple[Index, NDArray[Any], Codes]] = []

    @property
    def aspects(self) -> list[str]:
        """Names of what was judged."""
        return list(self._columns) if self._recipe.wide else self._names.texts or [""]

    def add(self, batch: Batch, before: int) -> None:
        """Take in a batch that ``before`` rows come before."""
        if self._recipe.votes:
            self._vote(batch, before)
            return
        for number, column in enumerate(self._columns.values()):
            place_of = batch.where(column)
            place, cells = self._spread(batch.columns[column], place_of)

            def where(i: int, place: Index = place, place_of: Where = place_of) -> str:
                return place_of(int(place[i]))

            mark, known = self._read(cells, where)
            if self._recipe.complete and (not known.all() or len(np.unique(place)) < len(batch.numbers)):
                raise NNDError(
                    f"{_first_unjudged(batch, column, place, known)}: it is empty; nobody judged this candidate"
                )
            aspect = np.full(len(place), number if self._recipe.wide else 0, dtype=np.int32)
            if self._recipe.aspect:
                named = batch.where(self._recipe.aspect)
                names = coded(self._names, batch.columns[self._recipe.aspect], named)
                if self._recipe.complete and (names < 0).any():
                    raise NNDError(f"{named(int((names < 0).argmax()))}: it is empty; nothing says what was judged")
                aspect = names[place]
                known &= aspect >= 0
            self._found.append(((place + before)[known], mark[known], aspect[known]))

    def _vote(self, batch: Batch, before: int) -> None:
        """Take in the difference of best and worst votes for the system of each row; of a vote the first system counts."""
        votes, system = self._recipe.votes, str(self._recipe.system)
        score = np.zeros(len(batch.numbers))
        systems = listed(batch.columns[system])
        for name, sign in (("best", 1), ("worst", -1)):
            if name in votes:
                for i, cell in enumerate(listed(batch.columns[votes[name]])):
                    named = cell if isinstance(cell, (list, tuple)) else [cell]
                    known = self._recipe.each.get(system)
                    for number, one in enumerate(named):
                        where = f"{batch.where(votes[name])(i)}, item [{number}]"
                        if one is None and self._recipe.complete:
                            raise NNDError(f"{where}: no system is named")
                        if one is not None and known and one not in known:
                            raise NNDError(f"{where}: unknown system {shown(one)} (known: {some_of(known)})")
                    named = [one for one in named if one is not None]
                    score[i] += sign * Counter(map(str, named))[str(systems[i])]
        count = len(batch.numbers)
        self._found.append((np.arange(before, before + count), score, np.zeros(count, np.int32)))

    def _spread(self, cells: Column, where: Where) -> tuple[Index, Column]:
        """Return each item of a list as a cell of its own, and its row; a set that is complete has one label per row."""
        if self._recipe.complete and self._recipe.by_label:
            return np.arange(len(cells), dtype=np.int64), cells
        return spread(cells, where)

    def _read(self, cells: Column, where: Where) -> tuple[NDArray[Any], Mask]:
        """Return the marks of cells, and whether there is one."""
        if self.labels is not None:
            texts = strings(cells, where, (str,) if self._recipe.complete else ())
            codes = self.labels.add(_filled(texts) if "" in self._recipe.better else texts)
            return codes, codes >= 0
        values = self._numbers.read(cells, where)
        return values, ~np.isnan(values)

    def gather(self) -> tuple[Index, NDArray[Any], Codes]:
        """Return of all judgements the position of the row, the mark and the number of the attribute, row by row."""
        place, mark, aspect = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        order = np.lexsort((aspect, place)) if self._recipe.wide else np.arange(len(place))
        return place[order], mark[order], aspect[order]


def _filled(cells: pa.Array) -> pa.Array:
    """Return strings with ``""`` for those that are null: where no label is a label."""
    return pc.fill_null(cells, "")


def _first_unjudged(batch: Batch, column: str, place: Index, known: Mask) -> str:
    judged = np.zeros(len(batch.numbers), dtype=bool)
    judged[place[known]] = True
    wrong = np.flatnonzero(~judged)
    return batch.where(column)(int(wrong[0]) if len(wrong) else int(place[~known][0]))
