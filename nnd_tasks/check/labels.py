"""Check the labels: enough tests, one verdict per candidate, each test once, and no baseline that passes most tests."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from nnd_tasks.analysis.compare.power import LARGEST_MDE, planned_by_category, points
from nnd_tasks.baselines import ALL, BASELINES, WRITERS, baseline_passes
from nnd_tasks.check.findings import EXAMPLES, Finding, Severity, finding, shown
from nnd_tasks.check.loading import Config, distinct_first
from nnd_tasks.cleaning import clean_name
from nnd_tasks.schema import normalize
from nnd_tasks.statistics import FEW
from nnd_tasks.wording import counted

#: A baseline that passes more than this share of a category's tests gives the label away; above `OFTEN` it is noted.
LEAK, OFTEN = 0.95, 0.8
#: Tests that a category needs for such a finding. By the rule of three, 30 passed of 30 means a rate of at least 0.9 (95%).
ENOUGH = 30


def check_labels(config: Config, others: Collection[str] = ()) -> Iterator[Finding]:
    """Check the labels of a config.

    Args:
        config: with the columns of the schema.
        others: names of all configs; where the clean variant is among them, tests that it leaves out are only noted.
    """
    yield from _sizes(config)
    yield from _contradictions(config, others)
    yield from _repeats(config, others)


def clean_advice(config: Config, others: Collection[str]) -> tuple[Severity | None, str]:
    """Return severity and advice for faulty tests that the clean variant leaves out; (None, "") where there is no variant."""
    if clean_name(config.name) in others:
        return Severity.NOTE, f"none: the config {clean_name(config.name)} leaves them out"
    return None, ""


def _sizes(config: Config) -> Iterator[Finding]:
    clusters, categories = config.columns["cluster_id"], config.columns["category"]
    distinct = len(set(clusters))
    if distinct < 2:
        message = f"one prompt for {counted(len(clusters), 'test')}: a standard error is not defined"
        yield finding("no_error_bar", message, f"add prompts, at least {FEW}", config=config.name)
        return
    sizes = planned_by_category(clusters, categories)
    few = [f"{name} ({count})" for name, (_, count) in sizes.items() if count < FEW]
    if few:
        message = f"fewer than {FEW} prompts: {', '.join(few)}"
        fix = "add prompts, or merge categories: with so few prompts a standard error is not reliable"
        yield finding("few_contexts", message, fix, count=len(few), config=config.name)
    weak = [
        f"{name} ({points(smallest)})"
        for name, (smallest, count) in sizes.items()
        if count >= FEW and not math.isnan(smallest) and smallest > LARGEST_MDE
    ]
    if weak:
        message = f"underpowered; smallest detectable difference of two models, in percentage points: {', '.join(weak)}"
        yield finding("low_power", message, "add tests, best with further prompts", count=len(weak), config=config.name)


# ---------------------------------------------------------------- contradictions and repetitions


def contradicted(config: Config) -> dict[tuple[str, ...], list[int]]:
    """Return the candidates that are judged both better and worse for one prompt, and the tests with them.

    That alone is not a contradiction: of three candidates, the second is better in one test and worse in another. A candidate
    is contradictory if its label (or, without labels, its score) differs between the two tests; in a set without either, if
    another test has the same pair of texts the other way round. Where the category is what was rated, candidates are
    compared within a category; where it follows from the label of the worse candidate, over all categories.

    Returns:
        (cluster_id, category or ``""``, text in Unicode NFC) -> rows.
    """
    columns = config.columns
    high, low = ([normalize(text) for text in columns[side]] for side in ("high", "low"))
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
    """Return the category of each test where that is what was rated; ``""`` where it follows from the label of ``low``."""
    categories, labels = config.columns["category"], config.columns.get("low_label")
    if labels is None or any(not label for label in labels):
        return categories
    by_label: dict[str, set[str]] = defaultdict(set)
    for label, category in zip(labels, categories, strict=True):
        by_label[label].add(category)
    return [""] * len(categories) if all(len(names) == 1 for names in by_label.values()) else categories


def _contradictions(config: Config, others: Collection[str]) -> Iterator[Finding]:
    rows_of = contradicted(config)
    if not rows_of:
        return
    severity, more = clean_advice(config, others)
    texts: dict[int, str] = {}
    for (*_, text), rows in rows_of.items():
        for i in rows:
            texts.setdefault(i, text)
    message = (
        f"{counted(len(rows_of), 'candidate')} better in one test and worse in another of the same prompt, judged differently: "
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
        severity, more = clean_advice(config, others)
        message = f"{counted(len(again), 'test')} as an earlier one: same prompt, texts and category"
        fix = more or "keep one of each: a repeated test counts twice in every rate"
        rows = config.pairs_of(again)
        yield finding("repeated", message, fix, rows=rows, config=config.name, severity=severity)


# ---------------------------------------------------------------- leakage


def check_baselines(configs: Collection[Config]) -> Iterator[Finding]:
    """Find the categories of a set where one of `BASELINES`, or its opposite, passes most tests: all in one table.

    Args:
        configs: those of the set, with the columns of the schema.
    """
    decided = [(config.name, *found) for config in configs for found in _decided_by_baselines(config)]
    if not decided:
        return
    rates = [of for *_, of in decided]
    rules = list(dict.fromkeys(rule for of in rates for rule in of))
    surely = sum(max(of.values()) > LEAK for of in rates)
    message = (
        f"rules that understand nothing pass more than {OFTEN:.0%} of the tests of {counted(len(decided), 'category')}, "
        f"and more than {LEAK:.0%} of {surely}; {'; '.join(f'{rule}: {_meaning(rule)}' for rule in rules)}"
    )
    fix = "give these rates beside a model's, as cards and reports do, and do not read a category by itself"
    if any(of.get(rule, 0) > LEAK for of in rates for rule in ("shorter", "longer")):
        fix += "; where an error adds or removes words, length decides by construction: nothing need be balanced there"
    else:
        fix += "; or balance the candidates"
    several = len(configs) > 1
    yield finding(
        "trivial_rule" if surely else "trivial_rule_often",
        message,
        fix,
        count=len(decided),
        config="" if several else decided[0][0],
        table=[
            [*(["config"] if several else []), "category", "tests", *rules],
            *(
                [*([name] if several else []), category, f"{tests:,}"]
                + [f"{of[rule]:.1%}" if rule in of else "" for rule in rules]
                for name, category, tests, of in decided
            ),
        ],
    )


def _decided_by_baselines(config: Config) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield each category of which a baseline passes more than `OFTEN`: its name, its tests, and these baselines' rates."""
    columns = config.columns
    triples = list(zip(columns["context"], columns["high"], columns["low"], strict=True))
    categories = np.asarray(columns["category"], dtype=object)
    writers = list(zip(*(columns[name] for name in WRITERS), strict=True)) if {*WRITERS} <= columns.keys() else []
    passes = baseline_passes(triples, writers=writers)
    # The opposite of a baseline gives the label away as well; "shorter" and "longer" are opposites already.
    turned = baseline_passes([(context, low, high) for context, high, low in triples])
    passes |= {f"not {rule}": passed for rule, passed in turned.items() if rule not in ("shorter", "longer")}
    names = sorted(set(columns["category"]))
    for name in names if len(names) == 1 else [*names, ALL]:
        chosen = np.full(len(categories), True) if name == ALL and name not in names else categories == name
        tests = int(chosen.sum())
        if tests < ENOUGH or len({columns["cluster_id"][i] for i in np.flatnonzero(chosen)}) < FEW:
            continue
        decided = {rule: passed[chosen & ~np.isnan(passed)] for rule, passed in passes.items()}
        rates = {rule: float(part.mean()) for rule, part in decided.items() if part.size >= ENOUGH}
        if often := {rule: rate for rule, rate in rates.items() if rate > OFTEN}:
            yield name, tests, often


def _meaning(rule: str) -> str:
    what = BASELINES[rule.removeprefix("not ")]
    return what.replace("larger", "smaller").replace("higher", "lower") if rule.startswith("not ") else what
