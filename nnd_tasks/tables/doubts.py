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
from typing import TYPE_CHECKING, Any

import pandas as pd

from nnd_tasks.tables.cells import as_number, take_column, texts_of_nobody
from nnd_tasks.tables.contents import (
    COLUMN_NAMES,
    MOST_VALUES,
    NAMES,
    holds_something,
    is_blank,
    list_file_columns,
    name_columns,
    take_fields,
    take_items,
)
from nnd_tasks.tables.read import named_columns
from nnd_tasks.text import counted, some_of

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Recipe

_LEAST_JUDGED = 5  # judgements of a rater, and of all others, that may show another scale
#: Names of what is no rater, but sums several up.
_SUMS = re.compile(
    r"(all|av(g|erage)|mean|median|sum|total|majority|consensus|adjudicat(ed|or|ion)|gold|final|aggregated?)[\W\d_]*",
    re.IGNORECASE,
)


# ---------------------------------------------------------------- columns and values


def find_doubtful(table: pd.DataFrame, recipe: Recipe) -> dict[str, dict[str, int]]:
    """Find columns that the recipe does not name -> values that may say that a row is no judgement -> rows that are used."""
    named, found = named_columns(recipe), {}
    others = [name for name in list_file_columns(table) if name not in named]
    used = table.loc[table["exclusion"] == "", others]
    columns = ((name, map(str, used[name])) for name in others)
    for name, cells in chain(columns, take_fields(used, named).items()):
        counts = Counter(map(str.strip, cells))
        if len(counts) <= MOST_VALUES:
            said = _plain(name.rpartition(".")[2]).removeprefix("is ")
            known = {*COLUMN_NAMES["doubtful"]}
            words = known if {*said.split()} & {*COLUMN_NAMES["statuses"]} else {*COLUMN_NAMES["doubtful_anywhere"]}
            yes = COLUMN_NAMES["yes"] if said in known | {*COLUMN_NAMES["doubtful_if_yes"]} else ()
            no = COLUMN_NAMES["no"] if said in COLUMN_NAMES["doubtful_if_no"] else ()
            found[name] = {value: n for value, n in counts.items() if _plain(value) in {*words, *yes, *no}}
    return {name: values for name, values in found.items() if values}


def find_doubtful_values(table: pd.DataFrame, recipe: Recipe) -> list[str]:
    """Write notes on labels and scores that may say that nobody judged, such as ``skip`` and -99."""
    columns = [*filter(None, (recipe.label, recipe.score)), *recipe.attribute.values()]
    cells = [*filter(holds_something, chain(*(take_items(table, column) for column in columns)))]
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
            for several in group_spellings({*labels, *recipe.better})
        ]
    else:
        read = (as_number(cell, recipe, texts_of_nobody(recipe)) for cell in cells)
        numbers = sorted({number for number in read if number is not None and not math.isnan(number)})
        low, high = numbers[:2], numbers[-2:]
        below = len(numbers) > 2 and low[0] < 0 <= low[1] and high[1] > 1
        above = len(numbers) > 2 and high[1] in (99, 999, 9999) and high[1] > 2 * high[0]
        doubtful = [f"{number:g}" for number in (*low[:below], *high[2 - above :])]
    return notes + [
        f"{value!r} counts as a judgement; if it says that nobody judged: --missing={quote(value)}"
        for value in doubtful
    ]


def find_unused_raters(table: pd.DataFrame, recipe: Recipe, unused: Sequence[str]) -> list[str]:
    """Write notes on columns that nobody uses, and that may be of raters, or part what is not to be compared."""
    columns, notes = name_columns(table), []
    named = [columns.get(called) for called in (*NAMES["rater"], *COLUMN_NAMES["raters"] * (not recipe.rater))]
    persons = [name for name in unused if name in named and not table[name].equals(table.get(recipe.rater))]
    if persons:
        notes.append(
            f"{persons[0]} not used, though called as a rater; if it names the persons: --rater {quote(persons[0])}"
        )
    judged = recipe.score or recipe.label or recipe.winner or ""
    typeable = [name for name in (judged, *unused) if name in table and "," not in name]
    alike = [name for name in typeable if _plain(name, r"[\W\d_]+") == _plain(judged, r"[\W\d_]+")]
    if len(alike) > 1 and alike[0] == judged and not recipe.rater:
        notes.append(
            f"{some_of(alike[1:], 4, str)} not used, though like {judged!r}; if each is of another rater or aspect: "
            f"--rater {quote(','.join(alike))}, or --attribute for each"
        )
    for used in [column for _, column in recipe.list_columns() if column in table]:
        notes += [
            f"{name} not used, though it fills cells where {used!r} is empty; if it is the same, give both one name"
            for name in unused
            if name in table and _fills(table[name], table[used], recipe)
        ]
    context = recipe.context if recipe.context and "," not in recipe.context and not recipe.pairs else None
    for name in [name for name in unused if name in [columns.get(called) for called in COLUMN_NAMES["languages"]]]:
        both = {*zip(map(str, take_column(table, context)), map(str, table[name]), strict=True)} if context else ()
        if len(both) > len({prompt for prompt, _ in both}):
            notes.append(
                f"texts of several {name} are compared; if they should not be: --group {quote(f'{context},{name}')}"
            )
    return notes


def _fills(cells: pd.Series[Any], used: pd.Series[Any], recipe: Recipe) -> bool:
    """Tell whether a column has a cell only where a used one has none, and what that may have: numbers, or its values."""
    empty = is_blank(used)
    if not empty.any() or not is_blank(cells[~empty]).all():
        return False
    more, own = {*map(str, cells[~is_blank(cells)])}, {*map(str, used[~empty])}
    numbers = [as_number(value, recipe, ()) for value in more | own]
    return bool(more) and (bool(more & own) or all(n is not None and math.isfinite(n) for n in numbers))


def group_spellings(names: Iterable[str]) -> list[list[str]]:
    """Group the names that are equal but for case, how words are parted, and an end; those that stand alone are left out."""
    spelled: dict[str, list[str]] = {}
    for name in sorted(names):
        plain = re.sub(r"^0+(?=\d)|(?<=\d)\.0$|(?<=\w)[\s.!]+$|[\u200b\ufeff]", "", name.casefold())
        plain = re.sub(r"(?<=[^\W\d_])[\s_-]+(?=\d)", "", plain)  # rater_1 is rater1
        spelled.setdefault(re.sub(r"(?<!\d)[\s_-]+", " ", plain), []).append(name)
    return [several for several in spelled.values() if len(several) > 1]


def _plain(name: str, apart: str = r"[\W_]+") -> str:
    """A name in small letters, its words apart: ``_Attention-Check`` is ``attention check``."""
    return re.sub(apart, " ", name.casefold()).strip()


# ---------------------------------------------------------------- raters and texts of single judgements


def find_doubtful_names(raters: pd.Series[str], column: str) -> list[str]:
    """Write notes where several names of raters may be of one person, one name of several, and where some have none."""
    names = sorted({*raters} - {""})
    twins = group_spellings(names)
    joined = [name for name in names if len(parts := re.split(r"\s*[;,|/&+]\s*", name)) > 1 and {*parts} <= {*names}]
    notes = []
    if twins:
        notes.append(f"{some_of(twins[0])} count as several raters; if they are one person, write the name in one way")
    if joined:
        notes.append(f"{joined[0]!r} counts as one rater; if it is several persons, write a list, or a row for each")
    if sums := [*filter(_SUMS.fullmatch, names)]:
        left_out = quote(f"{column}={','.join(sums)}")
        notes.append(f"a rater is called {some_of(sums)}; if that sums others up: --leave-out {left_out}")
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
    """Write a note on named raters who use no label of another's, or another scale of scores."""
    notes = []
    for _, judged in judgements[judgements["rater"] != ""].groupby("attribute"):
        column = judged.columns[-1]
        by_rater = judged.groupby("rater")[column]
        sizes = by_rater.size()
        many = sizes.index[(sizes >= _LEAST_JUDGED) & (len(judged) - sizes >= _LEAST_JUDGED)]
        if column == "label":
            raters_of = judged.drop_duplicates(["rater", column])[column].value_counts()
            alone = judged[~judged["rater"].isin(judged["rater"][judged[column].map(raters_of) > 1])]
            own = alone[alone["rater"].isin(many)].drop_duplicates(["rater", column])
            odd = [*own["rater"][own["rater"].duplicated()].unique()]
            said = some_of(sorted(own[column][own["rater"].isin(odd)]))
            notes += [f"{some_of(odd)}: labels that no other rater gives, {said}; is it another scale?"] if odd else []
        else:
            others, high = [0, *by_rater.max().sort_values()][-2:]
            medians = by_rater.median()[many]
            odd = [*medians.index[medians > 3 * others]] if others > 0 else []
            notes += [
                f"{rater!r} gives up to {high:g}, all others up to {others:g}; is it another scale?" for rater in odd
            ]
    return notes
