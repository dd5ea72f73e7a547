"""Recognise how a file holds judged texts where a row is not one; write a recipe and the ``prepare.py`` that reads it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from jinja2 import Environment

from nnd_tasks.errors import NNDError
from nnd_tasks.files import dump_yaml, read_yaml
from nnd_tasks.sets.cells import PATH, ROW, as_number, is_chat, is_missing, unpack
from nnd_tasks.sets.recipe import FILE, KEY, PREPARE, RECIPE, Recipe
from nnd_tasks.store import user_tasks_dir
from nnd_tasks.text import some_of

COLUMN_NAMES = read_yaml(Path(__file__).with_name("column_names.yaml"))
#: Role -> names of columns that are taken for it where no option says it, the likelier first.
NAMES: Mapping[str, Sequence[str]] = COLUMN_NAMES["roles"]
MOST_COLUMNS = 500  # of a table whose columns are compared, to find those of systems, raters or pairs
#: Stands in an expression of Python for what the user has to complete.
TO_COMPLETE = "[...]"
_EXAMPLES = 50  # cells of a column that are looked at
#: Numbers that judge nothing.
_NO_JUDGEMENT = re.compile(r"(^|[\W_])(id|index|len|length|tokens?|words?|time|seconds|rank|seed)$", re.IGNORECASE)
#: Words in the names of columns of one rater each.
_RATERS = re.compile(r"rater|annotator|judge|coder|expert|worker|reviewer|evaluator|person|human|turker", re.IGNORECASE)
_BOUNDARY = re.compile(r"(?<=[^\W_])(?=[\W_])|(?<=[\W_])(?=[^\W_])|(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)")
_SEPARATORS = (";", "|", "/", ",")

Titles: TypeAlias = dict[tuple[str, str], dict[str, str]]  # what a name says besides the system -> system -> column
Cells: TypeAlias = dict[str, list[Any]]  # expression of Python, or name of a column -> some of its values


@dataclass
class Shape:
    """How the records of a file become rows of judged texts.

    Attributes:
        seen: what was recognised, for the user.
        loops: over the texts of one record, and conditions.
        fields: expression of a field of one text -> some of its values; roles that are not known are guessed of these.
        used: columns that the loops read.
        roles: role -> expression; ``[...]`` in it is for the user to complete.
        item: expression of one text with its fields.
        columns: titles and rows of the constant ``COLUMNS``, over which a loop goes.
        better: the label of the rule, where the code gives labels of its own.
        reader: the loop over the records of ``{path}``, where the file has none.
    """

    seen: str
    loops: list[str] = field(default_factory=list)
    fields: Cells = field(default_factory=dict)
    used: Sequence[str] = ()
    roles: dict[str, str] = field(default_factory=dict)
    item: str = "record"
    columns: Sequence[Sequence[str]] = ()
    better: str = ""
    reader: str = ""

    @classmethod
    def of_other_json(cls, data: Any) -> Shape:
        """Describe a JSON file without objects that could be rows: all is for the user to complete."""
        fields: Cells = {_quote(key): [] for key in data} if isinstance(data, dict) else {}
        roles = dict.fromkeys(("context", "candidate", "label"), f"record{TO_COMPLETE}") | {"where": 'f"{record}"[:60]'}
        reader = "for record in read_json({path})[...]"
        return cls("a file that is no list of objects", fields=fields, roles=roles, reader=reader)

    @classmethod
    def recognise(cls, table: pd.DataFrame, recipe: Recipe, *, complete: bool) -> Shape | None:
        """Recognise records that hold several judged texts, or several judgements in a cell.

        Args:
            table: the first rows of a file.
            recipe: what the user, and the names of columns, say.
            complete: whether that names a context, a candidate and a judgement.

        Returns:
            The shape, with all its roles; None where each row is one judged text, or nothing is recognised.
        """
        if table.shape[1] > MOST_COLUMNS:
            return None
        records = Records(table, recipe)
        finders: list[Callable[[Records], Shape | None]] = [_find_rater_columns]
        if recipe.candidate is None:
            finders = [_find_keyed, _find_lists, _find_system_columns, _find_best_column]
        elif complete:
            finders.append(_find_raters_in_cells)
        shape = next(filter(None, (find(records) for find in finders)), None)
        if shape is None:
            return None
        if shape.fields:
            _guess_roles(shape, recipe)
        elif recipe.candidate:
            shape.roles["candidate"] = records.take(recipe.candidate)
        shape.roles = {**records.name_roles(shape.used), **shape.roles}
        return shape

    def write_code(self, name: str, files: Sequence[str], recipe: Recipe, columns: Sequence[str]) -> str:
        """Write the ``prepare.py`` of a set that reads its ``files``; the ``columns`` of their table are shown to the user."""
        suffix = Path(files[0]).suffix
        path = f"folder / {_quote(files[0])}" if len(files) == 1 else "path"
        encoding = f"encoding={_quote(recipe.encoding)}" if recipe.encoding else ""
        where = "record.where"
        if self.reader:
            records = self.reader.format(path=path)
        elif suffix.lower() in (".json", ".jsonl", ".ndjson", ".xml"):
            records = f"for record in read_records({', '.join(filter(None, [path, encoding]))})"
        else:
            records = f'for record in read_table({path}, Recipe({encoding})).to_dict("records")'
            where = """f"row {record['@row']}\""""
        loops = [] if len(files) == 1 else [f"for path in sorted(folder.rglob({_quote(f'*{suffix}')}))"]
        loops.append(records)
        for column, values in recipe.leave_out.items():
            loops.append(f"if str(record[{_quote(column)}]) not in {_literal(values)}")
        loops += self.loops
        expressions = {"where": where, **self.roles}
        page = Environment(trim_blocks=True, keep_trailing_newline=True)  # noqa: S701 - Python, not HTML
        page.filters["quote"] = _quote
        return page.from_string(Path(__file__).with_name("prepare.py.j2").read_text("utf-8")).render(
            name=name,
            shape=self,
            loops=loops,
            roles=[(role, expressions[role], meaning) for role, meaning in _ROLES.items() if role in expressions],
            code="\n".join([*expressions.values(), *loops]),
            offered=some_of([*(f"record[{_quote(column)}]" for column in columns), *self.fields], 40, str),
        )


#: Role -> what its column holds, for the user, in the order of a ``prepare.py``.
_ROLES = {
    "context": "what a model is given",
    "candidate": "the text that was judged",
    "label": 'what people said of it (or "score": a number)',
    "score": 'a number, or a list of them (or "label": what people said)',
    **dict.fromkeys(("attribute", "system", "rater", "group", "category", "subcategory", "severity", "where"), ""),
}
#: The last line of a recipe that is to be completed.
_RULE_TO_COMPLETE = {
    "label": "# better: [LABEL]  # complete: the labels that are better than all others\n",
    "score": "# min_gap: 1  # complete: the smallest difference of two scores that makes one text better\n",
}
#: Keys of a recipe that hold beside a ``prepare.py``.
_BESIDE_PREPARE = ("decimal", "missing", "facts", "ignore", "best")


class NeedsPrepareError(NNDError):
    """A row of the file is not one judged text, so that no option can say what it is.

    Attributes:
        recipe: what the user, and the names of columns, say.
        shape: how the file's records become rows.
        files: names of the files of the set.
        columns: of the first file.
    """

    def __init__(self, files: Mapping[str, Path], recipe: Recipe, shape: Shape, columns: Sequence[str] = ()) -> None:
        first = next(iter(files.values()))
        super().__init__(f"{first}: {shape.seen}; a prepare.py says what a row is")
        self.recipe, self.shape, self.files, self.columns = recipe, shape, [*files], columns

    def draft_files(self, name: str, *, replace: bool = False) -> dict[Path, str]:
        """Make the texts of a ``prepare.py`` that reads the file, and of its recipe; a person completes both.

        Raises:
            NNDError: one of them is there already.
        """
        folder = user_tasks_dir() / name
        if not replace and ((folder / PREPARE).exists() or (folder / RECIPE).exists()):
            raise NNDError(f"{folder}: a recipe is there already; complete it, take another name, or --replace")
        recipe, shape = self.recipe, self.shape
        keys = {key: value for key, value in recipe.dump().items() if key in _BESIDE_PREPARE or key in recipe.rules}
        if shape.better and not recipe.rules:
            keys["better"] = [shape.better]
        text = dump_yaml({"files": {file: {} for file in self.files}, **keys})
        if not (recipe.rules or shape.better):
            text += _RULE_TO_COMPLETE["label" if "label" in shape.roles else "score"]
        return {folder / PREPARE: shape.write_code(name, self.files, recipe, self.columns), folder / RECIPE: text}


# ---------------------------------------------------------------- the records that are looked at


class Records:
    """The first records of a file.

    Attributes:
        cells: column -> its cells that hold something, lists and objects unpacked.
        first_line: of the file, in bytes.
    """

    def __init__(self, table: pd.DataFrame, recipe: Recipe) -> None:
        self.recipe = recipe
        with Path(table[PATH].iat[0]).open("rb") as file:
            self.first_line = file.readline()
        self.cells: Cells = {}
        self._packed: set[str] = set()
        self._incomplete: set[str] = set()
        for column in columns_of(table):
            cells = [cell for cell in table[column].head(_EXAMPLES) if not is_missing(cell) and cell != ""]
            self.cells[column] = [unpack(cell) for cell in cells]
            if any(isinstance(cell, str) and not isinstance(unpack(cell), str) for cell in cells):
                self._packed.add(column)
            if len(cells) < min(len(table), _EXAMPLES):
                self._incomplete.add(column)

    def take(self, column: str) -> str:
        """The expression of a cell; a dotted name leads into objects."""
        name, *inner = [column] if column in self.cells else column.split(".")
        cell = f"record[{_quote(name)}]"
        return (f"unpack({cell})" if name in self._packed else cell) + "".join(f"[{_quote(key)}]" for key in inner)

    def split_option(self, option: str | None) -> list[str]:
        """The names in an option such as ``gpt,llama``; none where it names a column."""
        if not option or "," not in option or option in self.cells:
            return []
        return [name.strip() for name in option.split(",")]

    def loop_over(self, column: str, loop: str) -> list[str]:
        """A loop over the cell of a column, after the condition that it holds something where some do not."""
        present = [f"if record.get({_quote(column)})"] if column in self._incomplete else []
        return [*present, loop.format(self.take(column))]

    def name_roles(self, used: Iterable[str]) -> dict[str, str]:
        """Role -> expression, of the columns that the user named or that are called so."""
        roles = {}
        for role in ("context", "group", "system", "rater", "category", "subcategory", "severity"):
            column = getattr(self.recipe, role)
            column = column[0] if column and not isinstance(column, str) else column
            if column and column.split(".")[0] in self.cells:
                roles[role] = self.take(column)
        free = [name for name in self.cells if name not in (*used, *self.recipe.leave_out)]
        texts = [name for name in free if _are_texts(self.cells[name]) and not _NO_JUDGEMENT.search(name)]
        roles.setdefault("context", self.take(texts[0]) if len(texts) == 1 else f"record{TO_COMPLETE}")
        return roles


def columns_of(table: pd.DataFrame) -> list[str]:
    """The columns of a file itself."""
    return [name for name in table.columns if name not in (PATH, ROW, FILE, KEY)]


# ---------------------------------------------------------------- objects and lists


def _find_keyed(records: Records) -> Shape | None:
    """Texts under the names of systems: objects in one column, or in several with the same keys, or a column of each system."""
    objects = {column: cells for column, cells in records.cells.items() if _are_objects(cells)}
    for column, cells in objects.items():
        values = [value for cell in cells for value in cell.values()]
        loops = records.loop_over(column, "for system, item in {}.items()")
        if all(isinstance(value, list) and _are_objects(value) for value in values):
            values = [item for value in values for item in value]
            loops = [*records.loop_over(column, "for system, items in {}.items()"), "for item in items"]
        judged = [name for name in objects if name != column and {*objects[name][0]} & {*cells[0]}]
        used, roles = [column], {"system": "system"}
        if _are_objects(values) and set.intersection(*map(set, values)) and max(map(len, cells)) > 1:
            fields = _leaves_of(values, "item")
        elif _are_texts(values) and judged:
            used += judged
            roles["candidate"] = "item"
            fields = {"item": values}
            fields |= {f"{records.take(name)}[system]": [*objects[name][0].values()] for name in judged}
        else:
            continue
        systems = [*dict.fromkeys(key for cell in cells for key in cell)]
        seen = f"column {column!r} holds objects keyed by system: {some_of(systems, 6, str)}"
        return Shape(seen, loops, fields, used, roles, "item")
    values = [cell for cells in objects.values() for cell in cells]
    if len(objects) > 1 and len(set.intersection(*map(set, values))) > 1:
        loops = [f"for system in {_literal([*objects])}", "if record.get(system)"]
        seen = f"a column of objects per system: {some_of([*objects], 6, str)}"
        item = "record[system]"
        return Shape(seen, loops, _leaves_of(values, item), [*objects], {"system": "system"}, item)
    return None


def _find_lists(records: Records) -> Shape | None:
    """Lists of objects; lists of texts beside lists of as many judgements; lists of texts under their label."""
    lists = {
        column: cells
        for column, cells in records.cells.items()
        if cells and all(isinstance(cell, (list, tuple)) and not is_chat(cell) for cell in cells)
    }
    items = {column: [item for cell in cells for item in cell] for column, cells in lists.items()}
    for column in lists:
        if _are_objects(items[column]):
            loops = records.loop_over(column, "for item in {}")
            fields = _leaves_of(items[column], "item")
            return Shape(f"column {column!r} holds lists of objects", loops, fields, [column], item="item")
    texts = [column for column in lists if _are_texts(items[column])]
    if not texts:
        return None
    lengths = [*map(len, lists[texts[0]])]
    alike = [column for column in lists if [*map(len, lists[column])] == lengths]
    judged = [column for column in alike if _are_numbers(items[column])]
    if judged:
        zipped = {"text": records.take(texts[0]), "score": records.take(judged[0])}
        roles = {"candidate": "text", "score": "score"}
        systems = [name for name in alike if name.casefold().rstrip("s") in NAMES["system"]]
        if systems:
            zipped["system"] = records.take(systems[0])
            roles["system"] = "system"
        loops = []
        if len(judged) > 1:
            zipped["score"] = "record[attribute]"
            roles["attribute"] = "attribute"
            loops = [f"for attribute in {_literal(judged)}"]
        loops.append(f"for {', '.join(zipped)} in zip({', '.join(zipped.values())}, strict=True)")
        seen = f"columns {some_of([texts[0], *judged], 6)} hold lists of one length"
        return Shape(seen, loops, used=[*lists], roles=roles)
    if len(texts) > 1:
        loops = [f"for label in {_literal(texts)}", "for text in record[label]"]
        seen = f"a list of texts per label: {some_of(texts, 6, str)}"
        return Shape(seen, loops, used=[*lists], roles={"candidate": "text", "label": "label"})
    roles = {"candidate": "text", "label": f"record{TO_COMPLETE}"}
    seen = f"column {texts[0]!r} holds lists of texts"
    return Shape(seen, records.loop_over(texts[0], "for text in {}"), used=[*lists], roles=roles)


def _leaves_of(items: Sequence[Mapping[str, Any]], expression: str) -> Cells:
    """The fields of objects, and those of objects in them, but not of objects with a number per attribute."""
    fields: Cells = {}
    for name in dict.fromkeys(name for item in items for name in item):
        cells = [unpack(item[name]) for item in items if name in item and not is_missing(item[name])]
        is_everywhere = all(name in item for item in items)
        inner = f"{expression}[{_quote(name)}]" if is_everywhere else f"{expression}.get({_quote(name)})"
        if _are_objects(cells) and not all(_are_numbers([*cell.values()]) and len(cell) > 1 for cell in cells):
            fields |= _leaves_of(cells, inner)
        else:
            fields[inner] = cells
    return fields


def _guess_roles(shape: Shape, recipe: Recipe) -> None:
    """Add the roles of the fields of a text, by their names or kinds; what cannot be told is left for the user to complete.

    Where each text has an object of scores, a loop over its attributes is added, too.
    """
    fields = shape.fields
    to_complete = f"{shape.item}{TO_COMPLETE}"
    by_name = {(re.findall(r'"([^"]*)"', name) or [name])[-1].casefold(): name for name in reversed(fields)}

    def choose(names: Iterable[str], otherwise: Sequence[str] = ()) -> str:
        """The first field that has one of the names, else the only one of some others."""
        only = otherwise[0] if len(otherwise) == 1 else ""
        return next((by_name[name] for name in names if name in by_name), only)

    roles = {role: choose(NAMES[role]) for role in ("system", "rater")}
    others = {name: cells for name, cells in fields.items() if name not in roles.values()}
    roles["candidate"] = shape.roles.get("candidate") or choose(
        NAMES["candidate"], [name for name, cells in others.items() if _are_texts(cells)]
    )
    others.pop(roles["candidate"], None)
    named = [name.split(".")[-1].casefold() for name in (recipe.label, recipe.score) if name]
    judged = choose(named) or choose((*NAMES["label"], *NAMES["score"], "ratings", "scores", "quality"))
    numbers = [name for name, cells in others.items() if _are_numbers(cells)]
    numbers = [name for name in numbers if not _NO_JUDGEMENT.search(name.strip('"])'))]
    objects = [name for name, cells in others.items() if _are_objects(cells)]
    texts = [name for name, cells in others.items() if _are_texts(cells)]
    labels = [name for name in texts if recipe.by_label or len({*fields[name]}) * 2 <= len(fields[name])]
    judged = judged or next((names[0] for names in (numbers, objects, labels) if len(names) == 1), "")
    if not roles["candidate"]:
        texts = [name for name in texts if name != judged]
        roles["candidate"] = texts[0] if len(texts) == 1 else to_complete
    if judged and _are_objects(fields[judged]):
        shape.loops.append(f"for attribute, score in {judged}.items()")
        roles |= {"score": "score", "attribute": "attribute"}
    elif recipe.by_label or (recipe.min_gap is None and not (judged and _are_numbers(fields[judged]))):
        roles["label"] = judged or to_complete
    else:
        roles["score"] = judged or to_complete
    shape.roles = {role: expression for role, expression in roles.items() if expression} | shape.roles


# ---------------------------------------------------------------- columns of one system or rater each


def _find_system_columns(records: Records) -> Shape | None:
    """A column of texts per system, and one or several of judgements, whose names differ by the name of the system.

    ``--system gpt,llama`` says the names where no column is called so; else an ending or a beginning of names tells them.
    """
    system_names = records.split_option(records.recipe.system)
    columns = [name for name, cells in records.cells.items() if cells and name != records.recipe.context]
    by_title = _name_columns_of(system_names, columns) if system_names else _split_names(columns)
    texts, judgements = _choose_columns(by_title, records.cells, system_names)
    lacking = [name for name in system_names if name not in texts]
    if lacking:
        example = "no column has the texts of"
        if texts:
            name, text = next(iter(texts.items()))
            example = f"{text!r} has the texts of {name}, and no column that is called alike those of"
        raise NNDError(
            f"--system {records.recipe.system}: {example} {lacking[0]}; only the name of the system may differ: write it as the "
            "columns do, or rename them in the file"
        )
    if not texts:
        return None
    judged = [column for of_systems in judgements.values() for column in of_systems.values()]
    cells = [cell for column in judged for cell in records.cells[column]]
    role = "label" if records.recipe.by_label or (cells and not _are_numbers(cells)) else "score"
    several = len(judgements) > 1
    titles = ["system", "text", *(["attribute"] if several else []), *([role] if judged else [])]
    rows = [titles]
    for name, text in texts.items():
        system = next(iter(re.findall(re.escape(name), text, re.IGNORECASE)), name)  # as the column writes it
        of_system = [([title] if several else []) + [judgements[title][name]] for title in judgements]
        rows += [[system, text, *cells] for cells in of_system or [[]]]
    roles = {"candidate": 'record.get(text) or ""'}
    roles[role] = f"record.get({role})" if judged else f"record{TO_COMPLETE}"
    if several:
        roles["attribute"] = "attribute"
    if any(len(name) > 1 for name in texts):  # a and b are no names
        roles["system"] = "system"
    seen = f"a column per system: {some_of([*dict.fromkeys(row[0] for row in rows[1:])], 6, str)}"
    loops = [f"for {', '.join(titles)} in COLUMNS"]
    return Shape(seen, loops, used=[*texts.values(), *judged], roles=roles, columns=rows)


def _choose_columns(
    by_title: Titles, cells: Cells, system_names: Sequence[str]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Choose the columns of texts, system -> column, and those of judgements, title -> system -> column.

    Those of most systems count, then those called as a named system, then the longest, as names of systems are shorter.
    """
    best: tuple[Any, ...] = ()
    chosen: tuple[dict[str, str], dict[str, dict[str, str]]] = ({}, {})
    for title, columns in by_title.items():
        texts = {system: column for system, column in columns.items() if _are_texts(cells[column])}
        judgements = {}
        for other, others in by_title.items():
            judged = {system: others[system] for system in texts if others.get(system, texts[system]) != texts[system]}
            numbers = {system: column for system, column in judged.items() if _are_numbers(cells[column])}
            judged = numbers if numbers or not system_names else judged
            if other[1] and other != title and len(judged) > 1 and not _NO_JUDGEMENT.search(other[1]):
                judgements[other[1]] = judged
        if not system_names:  # only judgements tell which columns are of systems
            texts = {system: texts[system] for system in max(judgements.values(), key=len, default={})}
        judgements = {name: judged for name, judged in judgements.items() if [*judged] == [*texts]}
        lengths = [len(str(cell)) for column in texts.values() for cell in cells[column]]
        rank = (len(texts), bool(system_names and not title[1]), sum(lengths) / max(len(lengths), 1))
        if texts and rank > (best or (0,)):
            best, chosen = rank, (texts, judgements)
    texts, judgements = chosen
    if system_names and not all(
        _are_numbers(cells[name]) for judged in judgements.values() for name in judged.values()
    ):
        judgements = dict([*judgements.items()][:1])  # words: the first is a label, and others may be remarks
    return texts, judgements


def _name_columns_of(systems: Sequence[str], columns: Sequence[str]) -> Titles:
    """The columns whose names contain that of a system; where several do, the longest."""
    by_title: Titles = {}
    for column in columns:
        within = [name for name in systems if name.casefold() in column.casefold()]
        if within:
            name = max(within, key=len)
            title = _strip(re.sub(re.escape(name), "", column, flags=re.IGNORECASE))
            by_title.setdefault(("", title), {}).setdefault(name, column)
    return by_title


def _split_names(columns: Sequence[str]) -> Titles:
    """The columns by each beginning and each ending of their names, and by none."""
    by_title: Titles = {("", ""): {_strip(column): column for column in columns}}
    for column in columns:
        for match in _BOUNDARY.finditer(column):
            head, tail = _strip(column[: match.start()]), _strip(column[match.start() :])
            by_title.setdefault(("ends", tail), {})[head] = column
            by_title.setdefault(("begins", head), {})[tail] = column
    return by_title


def _strip(name: str) -> str:
    return re.sub(r"^[\W_]+|[\W_]+$", "", name).casefold()


def _find_best_column(records: Records) -> Shape | None:
    """A column of texts per system, and one whose cells name the system with the best text."""
    for column, cells in records.cells.items():
        texts = [name for name in records.cells if name != records.recipe.context and _are_texts(records.cells[name])]
        named = [number for number, name in enumerate(texts) if name in map(str.strip, map(str, cells))]
        if len(named) < 2 or column in [texts[number] for number in named]:
            continue
        # Systems that are never the best have columns, too: those of texts between the others.
        systems = [name for name in texts[named[0] : named[-1] + 1] if name != column]
        label = f'"best" if str(record[{_quote(column)}]).strip() == system else "other"'
        roles = {"candidate": "record[system]", "system": "system", "label": label}
        seen = f"a column per system, the best one in column {column!r}: {some_of(systems, 6, str)}"
        loops = [f"for system in {_literal(systems)}"]
        return Shape(seen, loops, used=[*systems, column], roles=roles, better="best")
    return None


def _find_rater_columns(records: Records) -> Shape | None:
    """A column of judgements per rater, beside a context and a candidate.

    Raises:
        NNDError: several columns hold numbers, and nothing says whether each is a rater or an attribute.
    """
    recipe, cells = records.recipe, records.cells
    raters = records.split_option(recipe.rater)
    absent = [name for name in raters if name not in cells]
    if absent:
        raise NNDError(f"--rater {recipe.rater}: no column {absent[0]!r}; there are: {some_of([*cells], 40, str)}")
    if not raters:
        if not (recipe.context and recipe.candidate) or recipe.label or recipe.score or recipe.attribute:
            return None
        used = (recipe.context, recipe.candidate, recipe.system, recipe.category, *recipe.group)
        free = [name for name in cells if name not in used and not _NO_JUDGEMENT.search(name)]
        numbers = [name for name in free if _are_numbers(cells[name])]
        raters = [name for name in free if _RATERS.search(name) and cells[name]]
        numbered = {re.sub(r"[\W_]?(\d+|(?<![a-z])[a-z])$", "", name, flags=re.I) for name in numbers}
        if len(raters) < 2 and len(numbered) == 1:
            raters = numbers
        if len(raters) < 2 and len(numbers) > 1:
            aspects = " ".join(f"--attribute {shlex.quote(name)}" for name in numbers)
            raise NNDError(
                f"columns {some_of(numbers)} hold numbers; where each is what was judged (an attribute), write {aspects}; "
                f"where each is a rater, --rater {shlex.quote(','.join(numbers))}; where one is the score, --score COLUMN"
            )
    if len(raters) < 2:
        return None
    is_label = recipe.by_label or not _are_numbers([cell for name in raters for cell in cells[name]])
    roles = {"rater": "rater", "label" if is_label else "score": "record.get(rater)"}
    loops = [f"for rater in {_literal(raters)}"]
    return Shape(f"a column per rater: {some_of(raters, 6, str)}", loops, used=raters, roles=roles)


def _find_raters_in_cells(records: Records) -> Shape | None:
    """Several judgements in one cell, with a separator between them."""
    recipe = records.recipe
    column = recipe.label or recipe.score or ""
    cells = [cell for cell in records.cells.get(column, []) if isinstance(cell, str)]
    for separator in _SEPARATORS:
        several = [cell for cell in cells if separator in cell.strip(separator)]
        judgements = [words.strip() for cell in cells for words in cell.split(separator) if words.strip()]
        numbers = all(as_number(judgement, recipe, recipe.unjudged) is not None for judgement in judgements)
        labels = recipe.label and len({*judgements}) * 2 <= len(judgements) and len(several) * 2 >= len(cells)
        if not several or not (numbers or labels) or {*cells} & {*recipe.better}:
            continue
        alike = separator == "," and all(re.fullmatch(r"\s*\d+,\d+\s*", cell) for cell in several)
        # Where semicolons separate the cells, commas are decimal marks.
        if separator == "," and (recipe.decimal == "," or (alike and b";" in records.first_line)):
            continue
        split = f"str(record[{_quote(column)}]).split({_quote(separator)})"
        seen = f"column {column!r} holds several judgements in a cell, such as {several[0]!r}"
        if alike:
            seen += f" (if {several[0]!r} is one number instead, say so with --decimal)"
        loops = [f"for label in {split}"] if recipe.label else []
        roles = {"label": "label"} if recipe.label else {"score": split}
        return Shape(seen, loops, used=[column], roles=roles)
    return None


# ---------------------------------------------------------------- kinds of cells


def _are_numbers(cells: Sequence[Any]) -> bool:
    """Whether all cells are numbers, or lists of them; a text may be one."""
    items = [item for cell in cells for item in (cell if isinstance(cell, list) else [cell])]
    return bool(items) and all(map(_is_number, items))


def _is_number(value: Any) -> bool:
    try:
        float(value.replace(",", ".") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _are_texts(cells: Sequence[Any]) -> bool:
    """Whether all cells are texts or chats, and not all numbers."""
    return bool(cells) and all(isinstance(cell, str) or is_chat(cell) for cell in cells) and not _are_numbers(cells)


def _are_objects(cells: Sequence[Any]) -> bool:
    return bool(cells) and all(isinstance(cell, dict) and cell for cell in cells)


# ---------------------------------------------------------------- literals of Python


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def _literal(names: Sequence[str]) -> str:
    return f"({', '.join(map(_quote, names))}{',' if len(names) == 1 else ''})"
