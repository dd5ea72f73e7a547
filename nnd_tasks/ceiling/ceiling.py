"""The human ceiling: how many tests one rater passes, of those that the other raters' judgements make by the set's own rule.

A rater passes a test if his own judgements put its two texts in the same order; a tie of his is half a pass. Equal texts of a
group are one candidate.

Known limits: a rater is asked only where he judged both texts and others judged each. Labels of parts, such as FRANK's of
sentences, count as one label of the whole text. Agreement within a panel is not validity: where two panels judged the same
texts, read both rates. Coverage of the 95% intervals was simulated (``benchmarks/ceiling_coverage.py``) for three, five and
twelve raters: of 80 prompts .95 to .97 by prompt, of 20 prompts .99, which is too wide; over persons .95 to .96.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy  # imports scipy.special when it is first used

from nnd_tasks.categories import ALL, is_of_category
from nnd_tasks.ceiling.agreement import measure_agreement
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.sets.pair import UNCATEGORISED, pair_candidates
from nnd_tasks.sets.recipe import LabelRule, PairRule, Recipe, Rule, ScoreRule, SetRecipe, make_recipe
from nnd_tasks.statistics import FEW, summarize_rate
from nnd_tasks.store import REPORT, default_config, read_header, read_judgements, read_report, read_table

#: Who judged where each rater was left out in turn.
LEFT_OUT = "each of them, left out"
#: Of more persons, several are taken out at a time for the interval over persons.
GROUPS = 20
_TEXTS = ["context_id", "cluster_id", "attribute", "candidate"]


class Panel:
    """Raters who judged the same texts, and the rule of their set.

    Of pairs, each of the two texts is an item, whose score says whether it is the better one.

    Attributes:
        items: a row per text of a group and attribute: `_TEXTS`, of pairs ``rejected``, the other text, and ``category``.
        persons: whether raters are named; else they are places in a list.
        unanimous: whether nobody ever disagrees, as in a file that was put together from what most of them said.
        own: what each rater says of each item, by item and rater: ``number`` and ``sum`` of scores; by majority of the best
            score also ``good``, how many are that one.
    """

    def __init__(self, name: str, judgements: pd.DataFrame, recipe: Recipe, rule: Rule) -> None:
        """Take the judgements of one panel, as `nnd_tasks.ceiling.judgements.list_judgements` gives them."""
        self.name, self.judgements, self.gap = name, judgements, getattr(rule, "min_gap", 1.0)
        self.by_sign, self.pairs = not isinstance(rule, ScoreRule), isinstance(rule, PairRule)
        named = judgements["rater"] != ""
        self.persons = bool(named.any())
        votes = judgements.assign(rater=judgements["rater"].where(named, "place " + judgements["place"].astype(str)))
        if isinstance(rule, LabelRule):
            votes["score"] = 2 * votes["label"].map(rule.is_better) - 1
            votes["category"] = votes["category"].where(votes["category"] != "", votes["label"])
        elif recipe.best == "lowest":
            votes["score"] *= -1
        if self.pairs:
            turned = votes.rename(columns={"candidate": "rejected", "rejected": "candidate"})
            votes = pd.concat([votes, turned.assign(score=-votes["score"])], ignore_index=True)
            first, second = np.sort(votes[["candidate", "rejected"]].to_numpy(), axis=1).T
            votes["context_id"] = votes.groupby(["context_id", "category", first, second], sort=False).ngroup()
        votes["item"] = votes.groupby(_TEXTS, sort=False).ngroup()
        # A test has the category of its worse text, and that is the one of its worst judgement.
        items = votes.sort_values("score", kind="stable").drop_duplicates("item").set_index("item").sort_index()
        category = items["attribute"].where(items["attribute"] != "", items["category"])
        self.items = items.filter([*_TEXTS, "rejected"]).assign(category=category.replace("", UNCATEGORISED))
        if self.persons:  # each has one vote: the mean of his scores, or what more of them say
            votes = votes.groupby(["item", "rater"], as_index=False)["score"].mean()
            if self.by_sign:
                votes["score"] = np.sign(votes["score"])
                votes = votes[(votes["score"] != 0) | self.pairs]
        counts = {"number": ("score", "size"), "sum": ("score", "sum")}
        if recipe.majority:
            of_attribute = votes["score"].groupby(votes["item"].map(self.items["attribute"]))
            best = recipe.best if isinstance(recipe.best, float) else of_attribute.transform("max")
            votes["good"] = np.isclose(votes["score"], best, 1e-9, 1e-12)
            counts["good"] = ("good", "sum")
        self.own = votes.groupby(["item", "rater"]).agg(**counts)
        said = (self.own["sum"] / self.own["number"]).groupby(level="item")
        self.unanimous = bool((said.size() > 1).sum() >= FEW and said.nunique().max() == 1)
        self.tests, self.counts = self.leave_one_out()

    def conclude(self, counts: pd.DataFrame, *, by_rule: bool) -> pd.Series[float]:
        """Rate what has these counts: by the set's rule, or as one orders texts oneself; nan for ties and no votes."""
        mean = counts["sum"] / counts["number"].where(counts["number"] > 0)
        if self.by_sign:
            return np.sign(mean).where((mean != 0) | (self.pairs and not by_rule))
        if by_rule and "good" in counts:
            return (counts["good"] / counts["number"] > 0.5).astype(float).where(mean.notna())
        return mean

    def leave_one_out(self, without: Sequence[str] = ()) -> tuple[pd.DataFrame, dict[str, int]]:
        """Ask each rater, but for those ``without``, the tests that the others' judgements make.

        Returns:
            The tests of `ask`; and how many judgements of a rater on a text or pair there are, of them ``alone`` (nobody else
            judged it), ``tied`` (the others do not agree on it, or he does not with himself), and those in no test.
        """
        counts = self.own.drop([*without], level="rater")
        of_item = counts.groupby(level="item")
        others = of_item.transform("sum") - counts
        said = {"quality": self.conclude(others, by_rule=True), "own": self.conclude(counts, by_rule=False)}
        said["others"] = of_item["number"].transform("size") - 1
        asked = pd.DataFrame(said).reset_index("rater").join(self.items)
        tests, used = self.ask(asked)
        clear, alone = asked["quality"].notna() & asked["own"].notna(), others["number"] == 0
        numbers = {"judgements": len(counts), "alone": alone.sum(), "tied": len(counts) - clear.sum() - alone.sum()}
        numbers["no_test"] = clear.sum() - used
        return tests, {name: int(number) // (1 + self.pairs) for name, number in numbers.items()}

    def leave_persons_out(self) -> list[pd.DataFrame]:
        """List the tests of `leave_one_out` without each named rater in turn, or without each of `GROUPS` groups of them."""
        raters = self.own.index.unique("rater")[: None if self.persons else 0]
        return [self.leave_one_out(raters[turn::GROUPS])[0] for turn in range(min(len(raters), GROUPS))]

    def judge(self, other: Panel) -> pd.DataFrame:
        """Ask another panel the tests that all judgements of this one make; see `ask`."""
        if self.pairs != other.pairs:
            raise NNDError(f"{other.name}: judged pairs, or {self.name} did; the two cannot judge each other's tests")
        keys = [*other.items.columns[(other.items != "").any()].drop(["context_id", "category"])]
        said = other.conclude(other.own.groupby(level="item").sum(), by_rule=False)
        said = said.groupby([other.items[key] for key in keys]).mean()
        theirs = self.conclude(self.own.groupby(level="item").sum(), by_rule=True)
        asked = self.items.assign(quality=theirs, rater=other.name, others=math.nan)
        return self.ask(asked.join(said.rename("own"), on=keys))[0]

    def ask(self, asked: pd.DataFrame) -> tuple[pd.DataFrame, int]:
        """Form the tests of what others say of items, and tell how those do who are asked.

        Args:
            asked: a row per item and rater: `items`, ``rater``, ``quality`` (what the others conclude by the set's rule), ``own``
                (what the rater says), ``others`` (how many they are); it takes part where both say something.

        Returns:
            A row per test and rater: ``rater``, ``cluster_id``, ``high`` and ``low`` (texts), ``category``, ``others``, and
            ``passed``: 1, 0.5 for a tie, or 0; and how many rows of ``asked`` are in a test.
        """
        asked = asked.dropna(subset=["quality", "own"])
        group = asked.groupby(["context_id", "rater", "attribute"], sort=False).ngroup()
        high, low, *_ = pair_candidates(asked.assign(group=group, attribute_id=0), self.gap)
        better, worse = (asked.iloc[places].reset_index(drop=True) for places in (high, low))
        passed = (np.sign((better["own"] - worse["own"]).round(9)) + 1) / 2
        tests = worse[["rater", "cluster_id", "category", "others"]]
        tests = tests.assign(high=better["candidate"], low=worse["candidate"], passed=passed)
        return tests, len(np.union1d(high, low))


# ---------------------------------------------------------------- rates


def _linearise(tests: pd.DataFrame, ratio: float) -> pd.Series[float]:
    """Sum up by prompt how far tests move sum(value) / sum(weight) away from a ratio."""
    moved = (tests["value"] - ratio * tests["weight"]) / tests["weight"].sum()
    return moved.groupby(tests["cluster_id"]).sum()


def ratio_interval(tests: pd.DataFrame, without: Sequence[pd.DataFrame] = ()) -> tuple[float, ...]:
    """Compute sum(value) / sum(weight) over tests, with 95% intervals over prompts, and over prompts and persons like these.

    The variance is the linearised one of a ratio, clustered by prompt (Cochran, Sampling Techniques, 3rd ed., section 6.3). Over
    persons that by person is added, less that by both (Cameron, Gelbach and Miller, 2011). As a person also makes the tests of
    the others, these two are of the jackknife, which takes a person out altogether: he moves each prompt, and their sum.
    Student's t has the degrees of freedom of such a sum (Satterthwaite, 1946), and of the fewer of both at least.

    Args:
        tests: with ``value`` and ``weight``, and ``cluster_id`` as of `Panel.ask`.
        without: those that are left without each of the persons, as of `Panel.leave_persons_out`.

    Returns:
        The ratio, the ends over prompts, and those over persons too; nan for fewer than two prompts, and the last two for fewer
        than three persons, or where the others of one have no ratio.
    """
    if tests.empty:
        return (math.nan,) * 5
    ratio = tests["value"].sum() / tests["weight"].sum()
    by_prompt, *others = (_linearise(part, ratio) for part in (tests, *without) if len(part))
    prompts, persons = len(by_prompt), len(others)
    if prompts < 2:
        return ratio, *(math.nan,) * 4
    of_prompt = (by_prompt**2).sum() * prompts / (prompts - 1)
    variances, degrees = [of_prompt, math.nan], [prompts - 1.0, 1.0]
    # What each person moves, by prompt; over all prompts it is the ratio without him, less that of all.
    moved = pd.concat([by_prompt, *others], axis=1).fillna(0.0).to_numpy()[:, 1:]
    if persons > 2 and np.isfinite(moved).all():  # else without one of them there is no ratio
        moved = (moved - moved.mean(axis=1, keepdims=True)) * math.sqrt((persons - 1) / persons)
        of_person, of_both = (moved.sum(axis=0) ** 2).sum(), (moved**2).sum()
        variances[1] = of_prompt + max(of_person - of_both, 0.0)
        sizes = of_prompt**2 / (prompts - 1) + of_person**2 / (persons - 1)
        degrees[1] = max(variances[1] ** 2 / sizes if sizes else 1.0, min(prompts, persons) - 1.0)
    halves = scipy.special.stdtrit(degrees, 0.975) * np.sqrt(variances)
    return ratio, *(ratio + sign * half for half in halves for sign in (-1, 1))


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


def rate_tests(tests: pd.DataFrame, without: Sequence[pd.DataFrame] = (), **names: str) -> pd.DataFrame:
    """Summarize tests of `Panel.ask`; ``without`` is what `Panel.leave_persons_out` gives, for the interval over persons.

    Returns:
        A row per category (``all`` first): the ``names``, ``category``, ``tests`` (times raters), ``raters``, ``prompts``,
        ``few``, ``strict`` (share of passes), ``ties``, ``ceiling`` (a tie is half a pass), its 95% interval ``low`` to
        ``high``, clustered by prompt, and ``wide_low`` to ``wide_high``, by prompt and person; nan for places; ``of_panel``:
        see `spearman_brown`.
    """
    rows = []
    tests, *without = (part.assign(value=part["passed"], weight=1.0) for part in (tests, *without))
    for category in (ALL, *sorted(tests["category"].unique())):
        chosen, *rest = (part[is_of_category(part, category)] for part in (tests, *without))
        passed = chosen["passed"].groupby(chosen["cluster_id"])
        rate = summarize_rate(passed.sum(), passed.size())
        *_, wide_low, wide_high = ratio_interval(chosen, rest)
        rows.append({
            **names, "category": category, "tests": len(chosen), "raters": chosen["rater"].nunique(),
            "prompts": len(passed), "few": len(passed) < FEW, "strict": (chosen["passed"] == 1).mean(),
            "ties": (chosen["passed"] == 0.5).mean(), "ceiling": rate.mean, "low": rate.low, "high": rate.high,
            "wide_low": max(wide_low, 0.0), "wide_high": min(wide_high, 1.0),
            "of_panel": spearman_brown(rate.mean, tests["others"].mean()),
        })  # fmt: skip
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- a set


@dataclass(frozen=True)
class Ceiling:
    """What people pass of the tests of a set.

    Attributes:
        set: its name and config.
        panels: the first one made the tests of the set; each has ``tests``, a row per test and rater that was left out.
        rates: of each panel alone, and of its tests judged by each other panel, see `rate_tests`; alone also Krippendorff's
            ``alpha`` of the same judgements with its interval, of all and of each attribute, see
            `nnd_tasks.ceiling.agreement.measure_agreement`.
    """

    set: str
    panels: Sequence[Panel]
    rates: pd.DataFrame


def human_ceiling(name: str, config: str | None = None, judged_by: str | None = None) -> Ceiling:
    """Compute what people pass of the tests of a set.

    Example:
        ``nnd_tasks.human_ceiling("summeval").rates`` is a data frame, a row per panel, judge and category.

    Args:
        name: a set, or the path of a dataset folder.
        config: one of its configs; None takes the default one. Of a clean config, the one that was cleaned is taken.
        judged_by: another config of the set, another set, or ``SET:CONFIG``, whose raters judge the same tests.

    Returns:
        The rates, and the panels with the tests behind them.

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
        if (other_folder, of_other) == (folder, config):
            raise NNDError(f"--judged-by {judged_by}: these are the raters of {name} ({config}) themselves")
        for panel in read_panels(other_folder, of_other):
            panel.name = f"{judged_by} {panel.name}" if panel.name != of_other else judged_by
            panels.append(panel)
    rates = rate_panels(panels)
    if judged_by is not None and panels[-1].name not in set(rates["judged_by"]):
        raise NNDError(f"{name} ({config}): {judged_by} judged no two texts of a test; are the prompts the same?")
    if not rates["tests"].any():
        raise NNDError(
            f"{name} ({config}): no rater judged two texts of a prompt that others judged, so nobody can be left out"
        )
    return Ceiling(f"{read_header(folder).get('nnd_set', name)} ({config})", panels, rates)


def read_panels(folder: Path, config: str) -> list[Panel]:
    """Read the panels of a config, those who made its tests first; raise NNDError where no two people judged one text."""
    read_table(folder, config, ["cluster_id"])  # raises where there is no such config
    reports = read_report(folder)
    config = reports.get(config, {}).get("cleaned_from", config)
    table = read_judgements(folder, config)
    given = reports.get(config, {}).get("recipe")
    name = str(read_header(folder).get("nnd_set") or folder.name)
    set_recipe = (
        find_recipe(name) if given is None else SetRecipe(name, folder, "own", recipe=make_recipe(given, REPORT))
    )
    if not table:
        raise NNDError(
            f"{name} ({config}): no single judgements of several people on one text are known, so nobody can be left out; who "
            f"judged: {set_recipe.recipe.facts.judges or 'the recipe does not say'}"
        )
    panels = list_panels(table, set_recipe.recipe, set_recipe.rule, config)
    if not panels:
        raise NNDError(
            f"{name} ({config}): all who judged a text say the same of it, as in a file that was put together from what most of "
            "them said; that tells nothing about what one person passes"
        )
    return panels


@lru_cache(maxsize=20)
def read_tests(folder: Path, config: str, data: str) -> tuple[list[pd.DataFrame], dict[str, str]] | None:
    """Read what a set's leave-one-out tests say; None where it has no single judgements.

    Returns:
        The tests, and those without each of the persons; and category -> what other panels pass of the set's tests.
    """
    try:
        panels = read_panels(folder, config)
    except NNDError:
        return None
    others: dict[str, list[str]] = defaultdict(list)
    for other in panels[1:]:
        judged = panels[0].judge(other)
        for row in rate_tests(judged).itertuples() if len(judged) else ():
            others[row.category].append(f"{other.name} {row.ceiling:.3f}")
    tests = [panels[0].tests, *panels[0].leave_persons_out()]
    return tests, {category: ", ".join(rates) for category, rates in others.items()}


def list_panels(judgements: pa.Table, recipe: Recipe, rule: Rule, config: str) -> list[Panel]:
    """List the panels whose single judgements these are, those who made the tests first.

    They are the first ones of the judgements, or the panel that is called as the config, as one without a name is. A unanimous
    panel is left out, and all are where the first one is.
    """
    by_panel = judgements.to_pandas().groupby("panel", sort=False)
    panels = [Panel(str(name) or config, rows.reset_index(drop=True), recipe, rule) for name, rows in by_panel]
    panels.sort(key=lambda panel: panel.name != config)
    return [panel for panel in panels if not panel.unanimous and not panels[0].unanimous]


def rate_panels(panels: Sequence[Panel], *, brief: bool = False) -> pd.DataFrame:
    """Compute `Ceiling.rates`: ask each rater of each panel, and each panel the tests of each other one, where it judged any.

    Args:
        panels: those who made the tests first.
        brief: leave out intervals over persons and agreement, which take most of the time.
    """
    rates = []
    for panel in panels:
        without = [] if brief else panel.leave_persons_out()
        of_panel = rate_tests(panel.tests, without, panel=panel.name, judged_by=LEFT_OUT)
        if not brief:
            judged = {ALL: panel.judgements, **dict(iter(panel.judgements.groupby("attribute")))}
            judged.pop("", None)
            agreement = pd.DataFrame({category: measure_agreement(rows) for category, rows in judged.items()}).T
            alpha = agreement.reindex(columns=["alpha", "low", "high"])
            of_panel = of_panel.merge(alpha, "left", left_on="category", right_index=True, suffixes=("", "_of_alpha"))
        rates.append(of_panel)
        rates += [
            rate_tests(asked, panel=panel.name, judged_by=other.name).assign(raters=math.nan)
            for other in panels
            if other is not panel and len(asked := panel.judge(other))
        ]
    return pd.concat(rates, ignore_index=True)


def list_ceilings(judgements: pa.Table, recipe: Recipe, rule: Rule, config: str) -> list[dict[str, Any]]:
    """List what a card says of the single judgements of a config: some columns of `Ceiling.rates`; missing numbers are None.

    Of panels beside the first one it says no categories.
    """
    panels = list_panels(judgements, recipe, rule, config)
    if not panels:
        return []
    rates = rate_panels(panels, brief=True)
    rates = rates[(rates["panel"] == panels[0].name) | (rates["category"] == ALL)]
    rows = rates[["panel", "judged_by", "category", "tests", "ceiling", "low", "high"]].dropna(subset="ceiling")
    return [*rows.astype(object).where(rows.notna(), None).to_dict("records")]
