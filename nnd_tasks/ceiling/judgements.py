"""The single judgements of a set, a row each, beside its tests: who said what of which text.

Known limits: a rater whom the source does not name is a place in a list, such as the second of three, and may be another person
in each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from nnd_tasks.ceiling.agreement import measure_agreement, number_units
from nnd_tasks.ceiling.ceiling import list_ceilings
from nnd_tasks.sets.pair import Judged, read_pairs
from nnd_tasks.sets.recipe import LabelRule, PairRule, Recipe, Rule, SetRecipe
from nnd_tasks.tables.cells import list_items
from nnd_tasks.tables.doubts import find_doubtful_names, find_odd_raters, find_spaced_copies
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.build import BuiltSet

#: Columns of a judgement that are texts.
_TEXTS = ("context_id", "cluster_id", "candidate", "attribute", "category", "panel", "rater")


def add_judgements(
    built: BuiltSet, config: str, details: dict[str, Any], rows: pd.DataFrame, judged: Judged, set_recipe: SetRecipe
) -> None:
    """Add the single judgements of a config to a set, where several people judged one text.

    Args:
        built: the set; of one that is not the package's, its ``notes`` say where a rater judged a text again.
        config: whose judgements they are.
        details: its report: ``ceiling`` is added, what raters pass of each other's tests; and ``agreement`` to the ``accounts``
            of a set that is not the package's.
        rows: as for `list_judgements`.
        judged: likewise.
        set_recipe: of the set.
    """
    recipe, rule, own = set_recipe.recipe, set_recipe.rule, set_recipe.origin != "package"
    judgements = list_judgements(rows, judged, recipe, rule)
    if judgements is None:
        return
    if own and recipe.candidates != "rows":
        built.notes += [
            *find_repeats(judgements, rule, errors="spans" in rows),
            *find_doubtful_names(judgements["rater"], recipe.rater or "rater"),
            *find_spaced_copies(judgements["candidate"]),
            *find_odd_raters(judgements),
        ]
    by_rater = judgements.assign(unit=number_units(judgements)).drop_duplicates(["unit", "rater", "place"])
    if by_rater["unit"].is_unique:
        return
    if own and (agreement := measure_agreement(judgements)):
        details["accounts"]["agreement"] = agreement
    built.judgements[config] = pa.Table.from_pandas(judgements, preserve_index=False)
    details["ceiling"] = list_ceilings(built.judgements[config], recipe, rule, config)


def find_repeats(judgements: pd.DataFrame, rule: Rule, *, errors: bool) -> list[str]:
    """Write a note where a named rater judged a text or pair in several rows, which are one vote.

    Args:
        judgements: of `list_judgements`.
        rule: what is better.
        errors: whether rows tell errors, as they do where there are categories: a text has many, and only rows that
            contradict each other are repeats.
    """
    named = judgements[judgements["rater"] != ""]
    value = named["label"].map(rule.is_better) if isinstance(rule, LabelRule) else named["score"]
    by_rater = [number_units(named), named["rater"]]
    again = value.groupby(by_rater).cumcount() > 0
    if errors or (named["category"] != "").any():
        again &= value.groupby(by_rater).transform("nunique") > 1
    if not again.any():
        return []
    first = named[again].iloc[0]
    return [
        f"{counted(int(again.sum()), 'row')} in which a rater judges a text again, first {first['rater']!r} of "
        f"{first['candidate'][:60]!r}; the rows of one rater are one vote: their mean, or their most frequent label"
    ]


def list_judgements(rows: pd.DataFrame, judged: Judged, recipe: Recipe, rule: Rule) -> pd.DataFrame | None:
    """List the single judgements of the rows of a config; None where raters are neither named nor listed in cells.

    Args:
        rows: by role, as for `nnd_tasks.sets.pair.make_tests`; ``judgements`` of a ``prepare.py`` may add ``panel``, ``place``,
            and for pairs ``score``.
        judged: what `nnd_tasks.sets.pair.take_judgements` reads in them.
        recipe: of the set.
        rule: what is better.

    Returns:
        ``context_id`` and ``cluster_id`` as those of tests; ``candidate``; of pairs ``rejected``, the other text; ``attribute``;
        ``category``; ``panel``: which of several groups of raters; ``rater``, empty where nobody is named; ``place`` of the
        judgement in its row, from 1, or where others are named, among those of its text or pair; ``label``, or ``score``, which
        is of pairs 1 for the candidate and 0 for a tie.
    """
    role = "winner" if isinstance(rule, PairRule) else rule.role
    distinct = {id(cell): cell for cell in rows.get(role, ())}
    several = (role == "winner" and not rows.index.is_unique) or any(
        len(list_items(cell)) > 1 for cell in distinct.values()
    )
    if not ({"rater", "place"} & {*rows} or several):
        return None
    said, prompts = judged
    if isinstance(rule, PairRule):
        tied = rows["exclusion"] == "undecided"
        if tied.any():  # a list of winners may hold ties among others
            said, _ = read_pairs(rows.assign(exclusion=rows["exclusion"].mask(tied, ""), score=1.0 - tied), recipe)
        value = said.get("score", 1.0)
        said = said.rename(columns={"chosen": "candidate"}).assign(context_id=said["cluster_id"], value=value)
    else:
        cluster = prompts["cluster_id"].to_numpy(object)[said["prompt"]]
        said = said.assign(context_id=said["group_id"], cluster_id=cluster)
    said = said.drop_duplicates("judgement_id")
    if "place" not in said:
        said["place"] = said.groupby(["row_id", *({"attribute", "panel"} & {*said})], dropna=False).cumcount() + 1
    said = said[said["exclusion"] == ""]
    table = said.reindex(columns=[*_TEXTS, *(["rejected"] if role == "winner" else [])]).astype(object).fillna("")
    unnamed = table["rater"] == ""
    table["place"] = said["place"].astype(int).where(unnamed, 0)
    if "place" not in rows and unnamed.any() and not unnamed.all():  # each without a name is another person
        others = table[unnamed]
        table.loc[unnamed, "place"] = others.groupby(number_units(others)).cumcount() + 1
    table["label" if role == "label" else "score"] = said["value"]
    return table
