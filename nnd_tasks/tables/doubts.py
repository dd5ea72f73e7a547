"""What may be wrong with a table of judgements, in notes: what may be no judgement, no rater, or several.

Known limits: a note is a question, and most columns and names that it asks of are as they should be. What has no name that is
known (`column_names.yaml`), and looks like the rest, is not asked of.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING

import pandas as pd

from nnd_tasks.tables.cells import as_number, list_items, take_column, texts_of_nobody
from nnd_tasks.tables.contents import (
    COLUMN_NAMES,
    MOST_VALUES,
    NAMES,
    holds_something,
    is_blank,
    list_file_columns,
    name_columns,
    take_cells,
    take_fields,
)
from nnd_tasks.tables.read import named_columns
from nnd_tasks.text import counted, some_of

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Recipe

_COMPARED_ROWS = 1000  # rows in which columns are compared
#: Names of what is no rater, but sums several up.
_SUMS = re.compile(
    r"(all|av(g|erage)|mean|median|sum|total|majority|consensus|adjudicat(ed|or|ion)|gold|final|aggregated?)([\W_].*)?",
    re.IGNORECASE,
)


# ---------------------------------------------------------------- columns and values


def find_doubtful(table: pd.DataFrame, recipe: Recipe) -> dict[str, dict[str, int]]:
    """Find columns that the recipe does not name -> values that may say that a row is no judgement -> rows that are used."""
    used, named, found = table[table["exclusion"] == ""], named_columns(recipe), {}
    columns = ((name, map(str, used[name])) for name in list_file_columns(used) if name not in named)
    for name, cells in chain(columns, take_fields(used, named).items()):
        counts = Counter(map(str.strip, cells))
        if len(counts) <= MOST_VALUES:
            words = {*COLUMN_NAMES["doubtful"]}
            said = _plain(name.rpartition(".")[2]).removeprefix("is ")
            yes = COLUMN_NAMES["yes"] if said in words | {*COLUMN_NAMES["doubtful_if_yes"]} else ()
            no = COLUMN_NAMES["no"] if said in COLUMN_NAMES["doubtful_if_no"] else ()
            found[name] = {value: n for value, n in counts.items() if _plain(value) in {*words, *yes, *no}}
    return {name: values for name, values in found.items() if values}


def find_doubtful_values(table: pd.DataFrame, recipe: Recipe) -> list[str]:
    """Write notes on labels and scores that may say that nobody judged, such as ``skip`` and -99."""
    columns = [*filter(None, (recipe.label, recipe.score)), *recipe.attribute.values()]
    distinct = [{id(cell): cell for cell in take_column(table, column, each=True)} for column in columns]
    cells = [*filter(holds_something, chain(*map(list_items, chain(*(cells.values() for cells in distinct)))))]
    notes = []
    if recipe.by_label:
        labels = {str(cell).strip() for cell in cells if not isinstance(cell, bool)} - {
            *recipe.better,
            *recipe.ignore,
            *(recipe.missing or ()),
        }
        doubtful = [label for label in sorted(labels) if label.casefold() in COLUMN_NAMES["unjudged"]]
        notes = [
            f"{some_of(several)} count as several labels; if they are one, write it in one way"
            for several in group_spellings({*labels, *recipe.better}, r"[\s_.!\u200b\ufeff]+")
        ]
    else:
        read = (as_number(cell, recipe, texts_of_nobody(recipe)) for cell in cells)
        numbers = sorted({number for number in read if number is not None and not math.isnan(number)})
        low, high = numbers[:2], numbers[-2:]
        below = len(numbers) > 2 and low[0] < 0 <= low[1] and high[1] > 1
        above = len(numbers) > 2 and high[1] in (99, 999, 9999) and high[1] > 2 * high[0]
        doubtful = [f"{number:g}" for number in (*low[:below], *high[2 - above :])]
    return notes + [
        f"{value!r} counts as a judgement; if it says that nobody judged: --missing='{value}'" for value in doubtful
    ]


def find_unused_raters(table: pd.DataFrame, recipe: Recipe, unused: Sequence[str]) -> list[str]:
    """Write notes on columns that nobody uses, and that may be of raters, or part what is not to be compared."""
    columns, notes = name_columns(table), []
    named = [columns.get(called) for called in (*NAMES["rater"], *COLUMN_NAMES["raters"])]
    persons = [name for name in unused if name in named and not table[name].equals(table.get(recipe.rater))]
    if persons:
        notes.append(
            f"{persons[0]} not used, though called as a rater; if it names the persons: --rater {persons[0]!r}"
        )
    judged = recipe.score or recipe.label or recipe.winner or ""
    called = [name for name in unused if judged and judged.casefold() in name.casefold()]
    if not recipe.rater and (alike := called or _find_alike(table, recipe, judged, unused)):
        raters = ",".join([judged, *alike] if called else alike)
        notes.append(
            f"{some_of(alike, 4, str)} not used, though like {judged!r}; if each is of another rater: --rater '{raters}'"
        )
    for used in [column for _, column in recipe.list_columns() if column in table]:
        empty = is_blank(table[used])
        blank = {name: is_blank(table[name]) for name in unused if name in table and empty.any()}
        others = [name for name, cells in blank.items() if cells[~empty].all() and not cells.all()]
        notes += [
            f"{name} not used, though it fills cells where {used!r} is empty; if it is the same, give both one name"
            for name in others
        ]
    for name in [name for name in unused if name in [columns.get(called) for called in COLUMN_NAMES["languages"]]]:
        contexts = map(str, take_column(table, recipe.context)) if recipe.context and not recipe.pairs else ()
        both = {*zip(contexts, map(str, table[name]), strict=False)}
        if len(both) > len({context for context, _ in both}):
            notes.append(
                f"texts of several {name} are compared; if they should not be: --group {quote(f'{recipe.context},{name}')}"
            )
    return notes


def _find_alike(table: pd.DataFrame, recipe: Recipe, judged: str, unused: Sequence[str]) -> list[str]:
    """Find columns of labels that are those of a column, or of numbers that its own always lie between, as a mean does."""
    if judged not in table:
        return []
    head, unused = table.head(_COMPARED_ROWS), [name for name in unused if name in table]
    numbers = {
        name: [as_number(cell, recipe, texts_of_nobody(recipe)) for cell in head[name]] for name in (judged, *unused)
    }
    if None in numbers[judged]:
        labels = {name: {str(cell).strip() for cell in take_cells(head, name)} for name in numbers}
        return [name for name in unused if len(labels[name]) <= MOST_VALUES and len(labels[name] & labels[judged]) > 1]
    others = pd.DataFrame({name: numbers[name] for name in unused if None not in numbers[name]}).dropna(
        axis=1, how="all"
    )
    scores = pd.Series(numbers[judged], dtype=float)
    between = others.min(axis=1).le(scores) & others.max(axis=1).ge(scores)
    return [*others] if others.shape[1] > 1 and between[scores.notna()].all() else []


def group_spellings(names: Iterable[str], between: str) -> list[list[str]]:
    """Group the names that are equal but for case and what a pattern matches; those that stand alone are left out."""
    spelled: dict[str, list[str]] = {}
    for name in sorted(names):
        spelled.setdefault(re.sub(between, "", name.casefold()), []).append(name)
    return [several for several in spelled.values() if len(several) > 1]


def _plain(name: str) -> str:
    """A name in small letters, its words apart: ``_Attention-Check`` is ``attention check``."""
    return re.sub(r"[\W_]+", " ", name.casefold()).strip()


# ---------------------------------------------------------------- raters and texts of single judgements


def find_doubtful_names(raters: pd.Series[str]) -> list[str]:
    """Write notes where several names of raters may be of one person, one name of several, and where some have none."""
    names = sorted({*raters} - {""})
    twins = group_spellings(names, r"\.0$|^0+(?=.)|[\W_]+(?=\w)")
    joined = [name for name in names if len(parts := re.split(r"\s*[;,|/&+]\s*", name)) > 1 and {*parts} <= {*names}]
    notes = []
    if twins:
        notes.append(f"{some_of(twins[0])} count as several raters; if they are one person, write the name in one way")
    if joined:
        notes.append(f"{joined[0]!r} counts as one rater; if it is several persons, write a list, or a row for each")
    if sums := [*filter(_SUMS.fullmatch, names)]:
        notes.append(f"{some_of(sums)} counts as a rater; if it sums others up: --leave-out 'COLUMN={sums[0]}'")
    if unnamed := int((raters == "").sum()) * bool(names):
        notes.append(
            f"{counted(unnamed, 'judgement')} without a rater's name, each of which counts as another person's"
        )
    return notes


def find_spaced_copies(candidates: pd.Series[str]) -> list[str]:
    """Write a note where texts are other candidates than those of other raters for white space alone."""
    texts = {*candidates}
    twins = len(texts) - len({" ".join(text.split()) for text in texts})
    many = f"{counted(twins, 'text')} with other white space than another"
    return [f"{many}: each is judged apart; write it in one way in the file if they are the same"] if twins else []


def find_odd_raters(judgements: pd.DataFrame) -> list[str]:
    """Write a note on each named rater who uses no label of another's, or another scale of scores."""
    notes = []
    for _, judged in judgements[judgements["rater"] != ""].groupby("attribute"):
        said = judged.groupby("rater")[judged.columns[-1]].agg(set)
        for rater, own in said.items() if len(said) > 1 else ():
            others = set.union(*said.drop(rater))
            if "label" in judged and own.isdisjoint(others) and len(own) > 1:
                notes.append(f"{rater!r} says {some_of(sorted(own))}, and no other rater does; is it another scale?")
            if "label" not in judged and max(own) > 3 * max(others) > 0:
                notes.append(
                    f"{rater!r} gives up to {max(own):g}, all others up to {max(others):g}; is it another scale?"
                )
    return notes
