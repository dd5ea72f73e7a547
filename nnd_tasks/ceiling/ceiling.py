"""The human ceiling: how many tests one rater passes, of those that the other raters' judgements make by the set's own rule.

A rater passes a test if his own judgements put its two texts in the same order; a tie of his is half a pass. Equal texts of a
group are one candidate.

Known limits: a rater is asked only where he judged both texts and others judged each. Labels of parts, such as FRANK's of
sentences, count as one label of the whole text. Agreement within a panel is not validity: where two panels judged the same
texts, read both rates. Coverage of the 95% intervals was simulated (``benchmarks/ceiling_coverage.py``) for three and five
raters: by prompt .93 to .98, over persons .955 with five; other numbers of persons were not tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.special import stdtrit

from nnd_tasks.baselines import ALL, is_of_category
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.sets.pair import UNCATEGORISED, pair_candidates
from nnd_tasks.sets.recipe import LabelRule, PairRule, Recipe, Rule, SetRecipe, make_recipe
from nnd_tasks.statistics import FEW, summarize_rate
from nnd_tasks.store import REPORT, default_config, read_header, read_judgements, read_report

#: Who judged where each rater was left out in turn.
LEFT_OUT = "each of them, left out"
#: Of more persons, several are taken out at a time for the interval over persons.
GROUPS = 20
_TEXTS = ["context_id", "cluster_id", "attribute", "candidate"]


class Panel:
    """Raters who judged the same texts, and the rule of their set.

    Attributes:
        items: a row per text of a group and attribute, or per pair of texts: `_TEXTS`, of pairs ``rejected``, and ``category``.
        persons: whether raters are named; else they are places in a list.
        own: what each rater says of each item, by item and rater: a column of votes for each rank of labels, or ``number`` and
            ``sum`` of scores, and ``good``, how many are the best one.
    """

    def __init__(self, name: str, judgements: pd.DataFrame, recipe: Recipe, rule: Rule) -> None:
        """Take the judgements of one panel, as `nnd_tasks.sets.judgements.list_judgements` gives them."""
        self.name, self.recipe, self.rule = name, recipe, rule
        self.persons = bool((judgements["rater"] != "").any())
        place = "place " + judgements["place"].astype(str)
        votes = judgements.assign(rater=judgements["rater"].where(judgements["rater"] != "", place))
        key = [*_TEXTS]
        if isinstance(rule, PairRule):
            turned = votes["candidate"] > votes["rejected"]
            texts = votes[["candidate", "rejected"]].to_numpy()
            votes[["candidate", "rejected"]] = np.where(turned.to_numpy()[:, None], texts[:, ::-1], texts)
            votes["score"] = votes["score"].mask(turned, -votes["score"])
            key += ["rejected", "category"]
        elif isinstance(rule, LabelRule):
            votes["score"] = votes["label"].map(rule.is_better)
            votes["category"] = votes["category"].where(votes["category"] != "", votes["label"])
        votes["item"] = votes.groupby(key, sort=False).ngroup()
        # A test has the category of its worse text, and that is the one of its worst judgement.
        items = votes.sort_values("score", kind="stable").drop_duplicates("item").set_index("item").sort_index()
        category = items["attribute"].where(items["attribute"] != "", items["category"])
        self.items = items[_TEXTS + key[4:5]].assign(category=category.where(category != "", UNCATEGORISED))
        self.own = self._count(votes)

    def _count(self, votes: pd.DataFrame) -> pd.DataFrame:
        """Count votes by item and rater; a named rater has one: the mean of his scores, or his majority if he has one."""
        group = votes.groupby(["item", "rater"])["score"]
        if isinstance(self.rule, LabelRule):
            counts = group.value_counts().unstack(fill_value=0)
            if self.persons:
                most = counts.eq(counts.max(axis=1), axis=0)
                counts = most[most.sum(axis=1) == 1].astype(int)
            return counts
        if self.persons:
            votes = group.mean().reset_index()
            votes["score"] = np.sign(votes["score"]) if isinstance(self.rule, PairRule) else votes["score"]
        attribute = self.items["attribute"].loc[votes["item"]].to_numpy()
        best = votes["score"].groupby(attribute).transform("max") if self.recipe.best is None else self.recipe.best
        votes = votes.assign(good=np.isclose(votes["score"], best, 1e-9, 1e-12))
        grouped = votes.groupby(["item", "rater"])
        return grouped.agg(number=("score", "size"), sum=("score", "sum"), good=("good", "sum"))

    def conclude(self, counts: pd.DataFrame, *, by_rule: bool) -> pd.Series[float]:
        """Rate what has these counts: by the set's rule, or as one orders texts oneself; nan for ties and no votes."""
        if isinstance(self.rule, LabelRule):
            most = counts.eq(counts.max(axis=1), axis=0)
            clear = (most.sum(axis=1) == 1) & counts.any(axis=1)
            return most.idxmax(axis=1).astype(float).where(clear)
        mean = counts["sum"] / counts["number"].where(counts["number"] > 0)
        if isinstance(self.rule, PairRule):
            return np.sign(mean).where((mean != 0) | (not by_rule))
        if by_rule and self.recipe.majority:
            return (counts["good"] / counts["number"] > 0.5).astype(float).where(mean.notna())
        return mean

    def leave_one_out(self) -> tuple[pd.DataFrame, dict[str, int]]:
        """Ask each rater the tests that the others' judgements make.

        Returns:
            The tests of `ask`; and how many judgements of a rater on a text there are, of them ``alone`` (nobody else judged it),
            ``tied`` (the others do not agree on it, or he does not with himself), and those in no test.
        """
        total = self.own.groupby(level="item").transform("sum")
        others = total - self.own
        alone = ~others.iloc[:, : None if isinstance(self.rule, LabelRule) else 1].any(axis=1)
        theirs, own = self.conclude(others, by_rule=True), self.conclude(self.own, by_rule=False)
        clear = theirs.notna() & own.notna()
        tests = self.ask(theirs[clear], own[clear])
        asked = {
            (item, rater)
            for side in ("high_item", "low_item")
            for item, rater in zip(tests[side], tests["rater"], strict=True)
        }
        counts = {"judgements": len(own), "alone": int(alone.sum()), "tied": int((~clear & ~alone).sum())}
        return tests, counts | {"no_test": int(clear.sum()) - len(asked)}

    def leave_persons_out(self) -> list[pd.DataFrame]:
        """List the tests of `leave_one_out` without each named rater in turn, or without each of `GROUPS` groups of them."""
        raters, found = self.own.index.unique("rater"), []
        for turn in range(min(len(raters), GROUPS) if self.persons else 0):
            rest = copy(self)
            rest.own = self.own.drop(raters[turn::GROUPS], level="rater")
            found.append(rest.leave_one_out()[0])
        return found

    def judge(self, other: Panel) -> pd.DataFrame:
        """Ask another panel the tests that all judgements of this one make; see `ask`."""
        keys = ["cluster_id", "attribute", "candidate", *(["rejected"] if "rejected" in self.items else [])]
        if ("rejected" in self.items) != ("rejected" in other.items):
            raise NNDError(f"{other.name}: judged pairs, or {self.name} did; the two cannot judge each other's tests")
        if not (other.items["attribute"] != "").any():
            keys.remove("attribute")
        said = other.conclude(other.own.groupby(level="item").sum(), by_rule=False)
        said = said.groupby([other.items[key] for key in keys]).mean().rename("own")
        own = self.items[keys].join(said, on=keys)["own"].dropna()
        theirs = self.conclude(self.own.groupby(level="item").sum(), by_rule=True).dropna()
        both = theirs.index.intersection(own.index)
        index = pd.MultiIndex.from_product([both, [other.name]], names=["item", "rater"])
        return self.ask(theirs[both].set_axis(index), own[both].set_axis(index))

    def ask(self, theirs: pd.Series[float], own: pd.Series[float]) -> pd.DataFrame:
        """Form the tests of what others say of items, and tell how those do who say ``own``.

        Args:
            theirs: what the others conclude by the set's rule, by item and rater.
            own: what the rater says of the same.

        Returns:
            A row per test and rater: ``rater``, ``cluster_id``, ``high`` and ``low`` (texts), ``high_item`` and ``low_item``,
            ``category``, and ``passed``: 1, 0.5 for a tie, or 0.
        """
        items = self.items.loc[theirs.index.get_level_values("item")]
        rater = theirs.index.get_level_values("rater")
        quality, said = theirs.to_numpy(float), own.to_numpy(float)
        if isinstance(self.rule, PairRule):
            texts = items[["candidate", "rejected"]].to_numpy()
            texts = np.where(quality[:, None] > 0, texts, texts[:, ::-1])
            high = low = np.arange(len(items))
            order, names = np.sign(said * quality), texts.T
        else:
            group = items.groupby(["context_id", rater.to_numpy()], sort=False).ngroup().to_numpy()
            rated = pd.DataFrame(
                {"quality": quality, "group": group, "attribute_id": pd.factorize(items["attribute"])[0]}
            )
            high, low, _, _ = pair_candidates(rated, self.rule.min_gap)
            order = np.sign(np.round(said[high] - said[low], 9))
            names = items["candidate"].to_numpy()[np.stack([high, low])]
        worse = items.iloc[low]
        columns = {"rater": rater[high], "cluster_id": worse["cluster_id"], "high": names[0], "low": names[1]}
        ids = items.index.to_numpy()
        columns |= {"high_item": ids[high], "low_item": ids[low], "category": worse["category"]}
        return pd.DataFrame({name: np.asarray(cells) for name, cells in columns.items()}).assign(passed=(order + 1) / 2)


# ---------------------------------------------------------------- rates


def two_way(tests: pd.DataFrame, without: Sequence[pd.DataFrame]) -> tuple[float, float]:
    """Compute the 95% interval of the share of passes over prompts and persons like these.

    The variance is that clustered by prompt, plus that by rater, less that by both (Cameron, Gelbach and Miller, 2011). A person
    also makes the tests of the others, so that by rater is of the jackknife, which takes a person out altogether. Student's t has
    the degrees of freedom of the fewer clusters.

    Args:
        tests: as of `Panel.ask`.
        without: those that are left without each of the raters.

    Returns:
        The ends; nan for fewer than three raters or two prompts.
    """
    mean = tests["passed"].mean()
    residual = tests["passed"] - mean
    by_prompt, by_both = (
        residual.groupby([tests[name] for name in key]).sum() for key in (["cluster_id"], ["cluster_id", "rater"])
    )
    rates = pd.Series([part["passed"].mean() for part in without], dtype=float).dropna()
    if len(rates) < 3 or len(by_prompt) < 2:
        return math.nan, math.nan
    of_prompt, of_both = (
        (sums**2).sum() * len(sums) / (len(sums) - 1) / len(tests) ** 2 for sums in (by_prompt, by_both)
    )
    of_rater = (len(rates) - 1) * rates.var(ddof=0)
    variance = max(of_prompt + of_rater - of_both, of_prompt, of_rater)
    half = float(stdtrit(min(len(rates), len(by_prompt)) - 1, 0.975)) * math.sqrt(variance)
    return max(0.0, mean - half), min(1.0, mean + half)


def spearman_brown(ceiling: float, others: float) -> float:
    """Estimate what a second panel of the same size would pass, of what one rater passes on tests of ``others``.

    With normal errors, a rate c is that of two judges who correlate by sin(pi (c - 1/2)) (Kendall's tau). One rater of
    reliability r and a panel of m correlate by sqrt(r r_m), with r_m = m r / (1 + (m - 1) r) (Spearman, 1910; Brown, 1910). So r
    follows from c, and from r the rate of a panel of m + 1 on the tests of m.
    """
    square, m = math.sin(math.pi * (max(ceiling, 0.5) - 0.5)) ** 2, others
    r = ((m - 1) * square + math.sqrt(((m - 1) * square) ** 2 + 4 * m * square)) / (2 * m)
    panel, tested = (size * r / (1 + (size - 1) * r) for size in (m + 1, m))
    return 0.5 + math.asin(math.sqrt(panel * tested)) / math.pi


def rate_tests(
    tests: pd.DataFrame, panel: Panel, judged_by: str = LEFT_OUT, without: Sequence[pd.DataFrame] = ()
) -> pd.DataFrame:
    """Summarize tests of `Panel.ask`; ``without`` is what `Panel.leave_persons_out` gives, for the interval over persons.

    Returns:
        A row per category (``all`` first): ``panel`` (whose tests), ``judged_by``, ``category``, ``tests`` (times raters),
        ``raters``, ``prompts``, ``few``, ``strict`` (share of passes), ``ties``, ``ceiling`` (a tie is half a pass), its 95%
        interval ``low`` to ``high``, clustered by prompt, and ``wide_low`` to ``wide_high``, by prompt and person; nan for
        places; ``of_panel``: see `spearman_brown`.
    """
    rows = []
    alone = judged_by == LEFT_OUT
    others = panel.own.groupby(level="item").size().loc[tests["low_item"]].mean() - 1 if len(tests) else math.nan
    for category in (ALL, *sorted(tests["category"].unique())):
        chosen = tests[is_of_category(tests, category)]
        passed = chosen["passed"].groupby(chosen["cluster_id"])
        rate = summarize_rate(passed.sum(), passed.size())
        wide = two_way(chosen, [rest[is_of_category(rest, category)] for rest in without])
        rows.append({
            "panel": panel.name, "judged_by": judged_by, "category": category, "tests": len(chosen),
            "raters": chosen["rater"].nunique() if alone else math.nan, "prompts": len(passed), "few": len(passed) < FEW,
            "strict": (chosen["passed"] == 1).mean(), "ties": (chosen["passed"] == 0.5).mean(), "ceiling": rate.mean,
            "low": rate.low, "high": rate.high, "wide_low": wide[0], "wide_high": wide[1],
            "of_panel": spearman_brown(rate.mean, others) if alone and len(chosen) else math.nan,
        })  # fmt: skip
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- a set


@dataclass(frozen=True)
class Ceiling:
    """What people pass of the tests of a set.

    Attributes:
        set: its name and config.
        panels: the first one made the tests of the set.
        tests: of each panel, a row per test and rater that was left out, see `Panel.ask`.
        counts: panel -> how many judgements are in a test, or why not, see `Panel.leave_one_out`.
        rates: of each panel alone, and of its tests judged by each other panel, see `rate_tests`.
    """

    set: str
    panels: tuple[Panel, ...]
    tests: tuple[pd.DataFrame, ...]
    counts: dict[str, dict[str, int]]
    rates: pd.DataFrame


def human_ceiling(name: str, config: str | None = None, judged_by: str | None = None) -> Ceiling:
    """Compute what people pass of the tests of a set.

    Example:
        ``nnd_tasks.human_ceiling("summeval").rates`` is a data frame, a row per panel, judge and category.

    Args:
        name: a set, or the path of a dataset folder.
        config: one of its configs; None takes the default one. Of a clean config, the one that was cleaned is taken.
        judged_by: another config of the set, another set, or ``SET:CONFIG``, whose raters judge the same tests.

    Raises:
        NNDError: nobody else judged the same texts, or the other panel judged no pair of them.
    """
    folder = provide_set(name)
    config = config or default_config(read_header(folder))
    panels = read_panels(folder, config)
    if judged_by is not None and judged_by not in [panel.name for panel in panels]:
        other, _, of_other = judged_by.partition(":")
        here = judged_by in read_report(folder)
        other_folder = folder if here else provide_set(other)
        of_other = judged_by if here else of_other or default_config(read_header(other_folder))
        for panel in read_panels(other_folder, of_other):
            panel.name = f"{judged_by} {panel.name}" if panel.name != of_other else judged_by
            panels.append(panel)
    ceiling = compare_panels(f"{read_header(folder).get('nnd_set', name)} ({config})", panels)
    if judged_by is not None and panels[-1].name not in set(ceiling.rates["judged_by"]):
        raise NNDError(f"{name} ({config}): {judged_by} judged no two texts of a test; are the prompts the same?")
    return ceiling


def read_panels(folder: Path, config: str) -> list[Panel]:
    """Read the panels of a config, those who made its tests first; raise NNDError where no two people judged one text."""
    reports = read_report(folder)
    config = reports.get(config, {}).get("cleaned_from", config)
    table = read_judgements(folder, config)
    given = reports.get(config, {}).get("recipe")
    name = str(read_header(folder).get("nnd_set") or folder.name)
    set_recipe = (
        find_recipe(name) if given is None else SetRecipe(name, folder, "own", recipe=make_recipe(given, REPORT))
    )
    if table is None:
        raise NNDError(
            f"{name} ({config}): no single judgements of several people on one text are known, so nobody can be left out. Who "
            f"judged: {set_recipe.recipe.facts.judges or 'the recipe does not say'} Of a set built before them: nnd build {name}"
        )
    return list_panels(table, set_recipe.recipe, set_recipe.rule, config)


def list_panels(judgements: pa.Table, recipe: Recipe, rule: Rule, config: str) -> list[Panel]:
    """List the panels whose single judgements these are; one without a name is called as the config."""
    by_panel = judgements.to_pandas().groupby("panel", sort=False)
    return [Panel(str(name) or config, rows.reset_index(drop=True), recipe, rule) for name, rows in by_panel]


def compare_panels(name: str, panels: Sequence[Panel], *, persons: bool = True) -> Ceiling:
    """Ask each rater of each panel, and each panel the tests of each other one, where it judged any.

    Args:
        name: of the set and its config.
        panels: those who made the tests first.
        persons: whether to compute intervals over persons, which takes most of the time.
    """
    alone = {panel.name: panel.leave_one_out() for panel in panels}
    rates = []
    for panel in panels:
        without = panel.leave_persons_out() if persons else []
        rates.append(rate_tests(alone[panel.name][0], panel, without=without))
        for other in panels:
            if other is not panel:
                tests = panel.judge(other)
                rates += [rate_tests(tests, panel, other.name)] if len(tests) else []
    counts = {panel.name: alone[panel.name][1] for panel in panels}
    return Ceiling(
        name, tuple(panels), tuple(tests for tests, _ in alone.values()), counts, pd.concat(rates, ignore_index=True)
    )


def list_ceilings(judgements: pa.Table, recipe: Recipe, rule: Rule, config: str) -> list[dict[str, Any]]:
    """List what a card says of the single judgements of a config: some columns of `Ceiling.rates`; missing numbers are None."""
    rates = compare_panels(config, list_panels(judgements, recipe, rule, config), persons=False).rates
    rows = rates[["panel", "judged_by", "category", "tests", "ceiling", "low", "high"]].dropna(subset="ceiling")
    return [{key: None if cell != cell else cell for key, cell in row.items()} for row in rows.to_dict("records")]
