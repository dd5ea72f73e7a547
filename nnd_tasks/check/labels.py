"""What the labels say: enough tests, one verdict per candidate, each test once, and no rule that needs no understanding."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from nnd_tasks.analysis.compare.power import FEW, LARGEST_MDE, planned_by_category, points
from nnd_tasks.baselines import ALL, BASELINES, baseline_passes
from nnd_tasks.check.findings import EXAMPLES, Finding, Severity, finding, shown
from nnd_tasks.check.loading import Config, distinct_first
from nnd_tasks.cleaning import clean_name
from nnd_tasks.schema import fold
from nnd_tasks.wording import counted

#: A rule that passes more of the tests of a category than this leaks the label; from `OFTEN` on it is worth knowing.
LEAK, OFTEN = 0.95, 0.8
#: Tests below which a rate of a rule says nothing: with 30, none of 30 against the rule bounds its rate from below by 0.9 (95%).
ENOUGH = 30


def check_labels(config: Config, others: Collection[str] = ()) -> Iterator[Finding]:
    """Check the labels of a config.

    Args:
        config: with the columns of the schema.
        others: names of all configs; where the clean variant is among them, what that leaves out is a note only.
    """
    yield from _sizes(config)
    yield from _contradictions(config, others)
    yield from _repeats(config, others)
    yield from _trivial(config)


def left_out(config: Config, others: Collection[str]) -> tuple[Severity | None, str]:
    """Return the severity of what the clean variant of a config leaves out, and what to add to the advice."""
    if clean_name(config.name) in others:
        return Severity.NOTE, f"none: the config {clean_name(config.name)} leaves them out"
    return None, ""


def _sizes(config: Config) -> Iterator[Finding]:
    clusters, categories = config.columns["cluster_id"], config.columns["category"]
    distinct = len(set(clusters))
    if distinct < 2:
        message = f"one prompt for {counted(len(clusters), 'test')}: a standard error is not defined"
        yield finding("no_error_bar", message, f"add contexts, {FEW} at the least", config=config.name)
        return
    sizes = planned_by_category(clusters, categories)
    few = [f"{name} ({count})" for name, (_, count) in sizes.items() if count < FEW]
    if few:
        message = f"fewer than {FEW} contexts: {', '.join(few)}"
        fix = "add contexts, or merge categories: with so few a standard error cannot be relied on"
        yield finding("few_contexts", message, fix, count=len(few), config=config.name)
    weak = [
        f"{name} ({points(smallest)})"
        for name, (smallest, count) in sizes.items()
        if count >= FEW and not math.isnan(smallest) and smallest > LARGEST_MDE
    ]
    if weak:
        message = f"smallest difference between two models that can be expected to show, in percentage points: {', '.join(weak)}"
        yield finding("low_power", message, "add tests, best of further contexts", count=len(weak), config=config.name)


# ---------------------------------------------------------------- contradictions and repetitions


def contradicted(config: Config) -> dict[tuple[str, ...], list[int]]:
    """Return the candidates that are judged both better and worse for one prompt, and the tests with them.

    A candidate on both sides is no contradiction by itself: the second of three is worse than the first and better than the
    third. It is one where the labels (else the scores) that it has on its two sides differ; without either, where two tests
    turn one pair of texts around. Within a category where that is a rated aspect; over all where it follows from the label
    of the worse candidate.

    Returns:
        (cluster, category or ``""``, text without differences of white space) -> rows.
    """
    columns = config.columns
    high, low = ([fold(text) for text in columns[side]] for side in ("high", "low"))
    judged = next((k for k in ("label", "score") if {f"high_{k}", f"low_{k}"} <= columns.keys()), None)
    keys = list(zip(columns["cluster_id"], _aspects(config), strict=True))
    verdicts: dict[tuple[str, ...], tuple[set[object], set[object]]] = defaultdict(lambda: (set(), set()))
    rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    pairs: set[tuple[object, ...]] = set() if judged else set(zip(keys, high, low, strict=True))
    for i, (key, better, worse) in enumerate(zip(keys, high, low, strict=True)):
        if better == worse and not judged:
            continue
        turned = judged is not None or (key, worse, better) in pairs
        for side, text in enumerate((better, worse)):
            place = (*key, text)
            if turned:
                verdicts[place][side].add(columns[f"{('high', 'low')[side]}_{judged}"][i] if judged else side)
            rows[place].append(i)
    return {
        place: rows[place]
        for place, (better, worse) in verdicts.items()
        if better and worse and len(better | worse) > 1
    }


def _aspects(config: Config) -> Sequence[str]:
    """Return the category of each test where it is what was rated; ``""`` where the worse candidate's label decides it."""
    categories, labels = config.columns["category"], config.columns.get("low_label")
    if labels is None or any(not label for label in labels):
        return categories
    by_label: dict[str, set[str]] = defaultdict(set)
    for label, category in zip(labels, categories, strict=True):
        by_label[label].add(category)
    return [""] * len(categories) if all(len(found) == 1 for found in by_label.values()) else categories


def _contradictions(config: Config, others: Collection[str]) -> Iterator[Finding]:
    found = contradicted(config)
    if not found:
        return
    severity, more = left_out(config, others)
    texts: dict[int, str] = {}
    for (*_, text), rows in found.items():
        for i in rows:
            texts.setdefault(i, text)
    message = (
        f"{counted(len(found), 'candidate')} better in one test and worse in another of the same prompt, judged differently: "
        f"{counted(len(texts), 'test')}"
    )
    fix = more or "ask who judged, take the majority, or leave these candidates out"
    order = distinct_first(sorted(texts), [texts[i] for i in sorted(texts)])
    examples = config.rows(order, {i: shown(texts[i]) for i in order[:EXAMPLES]})
    yield finding("contradictory", message, fix, rows=examples, config=config.name, severity=severity)


def _repeats(config: Config, others: Collection[str]) -> Iterator[Finding]:
    columns = config.columns
    seen: set[tuple[str, ...]] = set()
    again = []
    for i, key in enumerate(zip(*(columns[name] for name in ("cluster_id", "high", "low", "category")), strict=True)):
        if key in seen:
            again.append(i)
        seen.add(key)
    if again:
        severity, more = left_out(config, others)
        message = f"{counted(len(again), 'test')} as an earlier one: same prompt, texts and category"
        fix = more or "keep one of each: a repeated test counts twice in every rate"
        rows = config.pairs_of(again)
        yield finding("repeated", message, fix, rows=rows, config=config.name, severity=severity)


# ---------------------------------------------------------------- leakage


def _trivial(config: Config) -> Iterator[Finding]:
    """Find categories that a rule of `BASELINES`, or its opposite, decides."""
    columns = config.columns
    triples = list(zip(columns["context"], columns["high"], columns["low"], strict=True))
    categories = np.asarray(columns["category"], dtype=object)
    passes = {(rule, ""): found for rule, found in baseline_passes(triples).items()}
    # The opposite of a rule leaks as well; of the two on length each is the other's.
    turned = baseline_passes([(context, low, high) for context, high, low in triples])
    passes |= {(rule, "not "): turned[rule] for rule in BASELINES if rule not in ("shorter", "longer")}
    names = sorted(set(columns["category"]))
    for name in names if len(names) == 1 else [*names, ALL]:
        chosen = np.full(len(categories), True) if name == ALL and name not in names else categories == name
        if int(chosen.sum()) < ENOUGH or len({columns["cluster_id"][i] for i in np.flatnonzero(chosen)}) < FEW:
            continue
        for (rule, opposite), found in passes.items():
            rate = float(found[chosen].mean())
            if rate > OFTEN:
                yield _leak(config, name, rule, opposite, rate, int(chosen.sum()))


def _leak(config: Config, category: str, rule: str, opposite: str, rate: float, tests: int) -> Finding:
    what = BASELINES[rule] if not opposite else BASELINES[rule].replace("larger", "smaller").replace("higher", "lower")
    code = "trivial_rule" if rate > LEAK else "trivial_rule_often"
    message = f"{category}: a rule passes {rate:.1%} of {counted(tests, 'test')}: {what} ({opposite}{rule})"
    fix = "a model passes these without reading: balance the candidates" + (
        ", or leave the category out" if code == "trivial_rule" else ", or tell readers"
    )
    return finding(code, message, fix, count=tests, config=config.name)
