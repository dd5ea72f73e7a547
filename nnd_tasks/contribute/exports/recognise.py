"""What kind of file somebody has, by its first records: one of this gallery, or a plain table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from importlib import import_module
from inspect import getdoc, getsource
from itertools import chain, islice, product
from pathlib import Path

import pandas as pd

from nnd_tasks.contribute import exports
from nnd_tasks.contribute.exports import wide
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.tables.cells import split_column
from nnd_tasks.tables.propose import propose_pairs, propose_roles
from nnd_tasks.tables.read import Record, read_cells, read_records
from nnd_tasks.text import some_of

_HEAD = 100  # records that tell a kind
_SHEETS = (".csv", ".tsv", ".xlsx")


@dataclass(frozen=True)
class Kind:
    """What a file is.

    Attributes:
        title: the first paragraph of the docstring of its module.
        advice: the rest.
        fields: that told it.
        prepare: the text of the ``prepare.py`` that reads it.
        utf16: whether positions of its error spans count UTF-16 units.
    """

    title: str
    advice: str
    fields: Sequence[str]
    prepare: str
    utf16: bool


def find_kind(
    files: Mapping[str, Path], recipe: Recipe, pairs: Mapping[str, str], systems: Sequence[str], raters: Sequence[str]
) -> Kind | None:
    """Find the kind of the files of a set; None for a plain table.

    Args:
        files: name -> path; the first records of the first one tell.
        recipe: with the columns that the user named.
        pairs: the keys of pairs that the user named.
        systems: names of systems that have a column each.
        raters: likewise.

    Raises:
        NNDError: the first file cannot be read.
    """
    first = next(iter(files.values()))
    if systems or raters:
        if first.suffix.lower() in _SHEETS and _recognise_headers(first):
            raise NNDError(
                f"{first}: its header is two rows; leave out --system and --rater, or write one, such as 'A score'"
            )
        head = islice(read_records(first, recipe.encoding, 2 * _HEAD), _HEAD)
        _check_owners(head, {"--system": systems, "--rater": raters})
        return _make_kind("wide", [*systems, *raters], files, next(iter(files)), f"{[*systems]}, {[*raters]}")
    first_files = {Path(name).suffix.lower(): name for name in reversed([*files])}  # one of each ending
    if first_files.keys() == {".xml"}:
        return _make_kind("appraise_ranking", ["its ending, .xml"], files, first_files[".xml"])
    for ending in {*first_files} & {*_SHEETS}:
        if fields := _recognise_headers(files[first_files[ending]]):
            return _make_kind("two_headers", fields, files, first_files[ending])
    heads = {
        name: [*islice(read_records(files[name], recipe.encoding, 2 * _HEAD), _HEAD)] for name in first_files.values()
    }
    for kind, (name, records) in product(exports.KINDS, heads.items()):
        fields = _recognise(kind, records) if records else []
        if fields and not (kind == "nested" and _has_candidate(records, fields, recipe, pairs)):
            return _make_kind(kind, fields, files, name)
    return None


def _check_owners(records: Iterable[Record], owners: Mapping[str, Sequence[str]]) -> None:
    """Raise NNDError where no column has the name of a system or rater in its name."""
    every = [*chain(*owners.values())]
    if both := [name for name in every if every.count(name) > 1]:
        raise NNDError(
            f"{both[0]}: named twice with --system and --rater; rename its columns, such as system {both[0]}"
        )
    columns = [*dict.fromkeys(name for record in records for name, _ in wide.flatten(record, every))]
    for option, names in owners.items():
        for name in names:
            if not any(wide.take(column, names)[0] == name for column in columns):
                raise NNDError(f"{option} {name}: no column is called so; there are: {some_of(columns, 40, str)}")


def _recognise_headers(path: Path) -> list[str]:
    """Recognise a header of two rows; raise NNDError where it has three, as a pivot table of pandas."""
    rows = [cells for _, cells in islice(read_cells(path), 3)]
    if len(rows) == 3:
        index = sum(cell != "" for cell in rows[2])  # columns of the index, which the third row names
        over = [*rows[0][:index], *rows[1][:index]]
        levels, below = rows[0][index:], rows[2][index:]
        if (
            below
            and not any(below)
            and all(rows[1][index:])
            and 2 * over.count("") >= len(over) > 0
            and len({*levels} - {""}) < len(levels)
        ):
            raise NNDError(
                f"{path}: its header is three rows, as of a pivot table of pandas; write one: table.columns = "
                "['_'.join(names) for names in table.columns], then table.reset_index().to_csv(...)"
            )
    return _recognise("two_headers", rows)


def _recognise(name: str, records: Sequence[object]) -> list[str]:
    return [*import_module(f"{exports.__name__}.{name}").recognise(records)]


def _has_candidate(records: Sequence[object], lists: Sequence[str], recipe: Recipe, pairs: Mapping[str, str]) -> bool:
    """Tell whether each record is one judged text or pair, beside which it has lists."""
    table = pd.DataFrame(records, dtype=object)
    named, path = split_column(table, recipe.candidate or propose_roles(table, recipe).get("candidate") or "")
    return bool(named and (path or named not in lists)) or bool(pairs or propose_pairs(table, recipe, {}))


def _make_kind(name: str, fields: Sequence[str], files: Mapping[str, Path], file: str, names: str = "[], []") -> Kind:
    module = import_module(f"{exports.__name__}.{name}")
    title, _, advice = (getdoc(module) or "").partition("\n\n")
    ending = Path(file).suffix
    others = [other for other in files if Path(other).suffix not in (ending, getattr(module, "BESIDE", ending))]
    if others:
        raise NNDError(
            f"{some_of(others, 3, str)}: would not be read, as {file} and all others that end in {ending} are; name the files of "
            f"the set, 'FOLDER/*{ending}', or make all of one kind"
        )
    pattern = escape(file) if len(files) == 1 else f"*{escape(ending)}"
    text = re.sub("^FILES = .*", lambda _: f"FILES = {pattern!r}", getsource(module), flags=re.MULTILINE)
    text = re.sub("^SYSTEMS, RATERS = .*", lambda _: f"SYSTEMS, RATERS = {names}", text, flags=re.MULTILINE)
    return Kind(title.rstrip("."), " ".join(advice.split()), fields, text, hasattr(module, "UTF16"))
