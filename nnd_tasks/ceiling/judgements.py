"""The single judgements of a set, a row each, beside its tests: who said what of which text.

Known limits: a rater whom the source does not name is a place in a list, such as the second of three, and may be another person
in each row.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from nnd_tasks.ceiling.agreement import measure_agreement
from nnd_tasks.ceiling.ceiling import list_ceilings
from nnd_tasks.sets.pair import Judged, read_pairs
from nnd_tasks.sets.recipe import PairRule, Recipe, Rule, SetRecipe
from nnd_tasks.tables.cells import list_items

#: Columns of a judgement that are texts.
_TEXTS = ("context_id", "cluster_id", "candidate", "attribute", "category", "panel", "rater")


def add_judgements(
    details: dict[str, Any], rows: pd.DataFrame, judged: Judged, set_recipe: SetRecipe, config: str
) -> dict[str, pa.Table]:
    """Add to what a build reports of a config how far its raters agree, and what they pass of each other's tests.

    Args:
        details: the report: ``ceiling`` is added, and ``agreement`` to the ``accounts`` of a set that is not the package's.
        rows: as for `list_judgements`.
        judged: likewise.
        set_recipe: the set.
        config: whose judgements they are.

    Returns:
        The config -> the single judgements; empty where there are none.
    """
    recipe, rule = set_recipe.recipe, set_recipe.rule
    judgements = list_judgements(rows, judged, recipe, rule)
    if judgements is None:
        return {}
    if set_recipe.origin != "package" and (agreement := measure_agreement(judgements.to_pandas())):
        details["accounts"]["agreement"] = agreement
    details["ceiling"] = list_ceilings(judgements, recipe, rule, config)
    return {config: judgements}


def list_judgements(rows: pd.DataFrame, judged: Judged, recipe: Recipe, rule: Rule) -> pa.Table | None:
    """List the single judgements of the rows of a config; None where nobody else judged the same text.

    Args:
        rows: by role, as for `nnd_tasks.sets.pair.make_tests`; ``judgements`` of a ``prepare.py`` may add ``panel``, ``place``,
            and for pairs ``score``.
        judged: what `nnd_tasks.sets.pair.take_judgements` reads in them.
        recipe: of the set.
        rule: what is better.

    Returns:
        ``context_id`` and ``cluster_id`` as those of tests; ``candidate``; of pairs ``rejected``, the other text; ``attribute``;
        ``category``; ``panel``: which of several groups of raters; ``rater``, empty where nobody is named; ``place`` of the
        judgement in its row, from 1; ``label``, or ``score``, which is of pairs 1 for the candidate and 0 for a tie.
    """
    role = "winner" if isinstance(rule, PairRule) else rule.role
    if not {"rater", "place"} & {*rows} and all(len(list_items(cell)) < 2 for cell in rows.get(role, ())):
        return None
    said, prompts = judged
    if isinstance(rule, PairRule):
        tied = rows["exclusion"] == "undecided"
        if tied.any():
            said, _ = read_pairs(rows.assign(exclusion=rows["exclusion"].mask(tied, "")), recipe)
        value = (~said["row_id"].map(tied.groupby(level=0).any())) * said.get("score", 1.0)
        said = said.rename(columns={"chosen": "candidate"}).assign(context_id=said["cluster_id"], value=value)
    else:
        cluster = prompts["cluster_id"].to_numpy(object)[said["prompt"]]
        said = said.assign(context_id=said["group_id"], cluster_id=cluster)
    said = said.drop_duplicates("judgement_id")
    if "place" not in said:
        said["place"] = said.groupby(["row_id", *({"attribute", "panel"} & {*said})], dropna=False).cumcount() + 1
    said = said[said["exclusion"] == ""]
    table = said.reindex(columns=[*_TEXTS, *(["rejected"] if role == "winner" else [])]).astype(object).fillna("")
    table["place"] = said["place"].astype(int).where(table["rater"] == "", 0)
    table["label" if role == "label" else "score"] = said["value"]
    texts = [name for name in ("context_id", "candidate", "rejected", "attribute", "panel") if name in table]
    several = table.drop_duplicates([*texts, "rater", "place"]).groupby(texts).size().max() > 1
    return pa.Table.from_pandas(table, preserve_index=False) if several else None
