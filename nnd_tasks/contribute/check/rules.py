"""The rules about the tests of a config, as functions of its DataFrame. `rules.yaml` has the words of all rules."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from os.path import commonprefix  # of texts, not paths
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from nnd_tasks.baselines import BASELINES, WRITERS, baseline_passes
from nnd_tasks.categories import ALL
from nnd_tasks.errors import visible
from nnd_tasks.files import read_yaml
from nnd_tasks.schema import RESERVED_COLUMNS, clean_name, to_nfc
from nnd_tasks.sets.account import find_repeated_prompts, find_space_twins
from nnd_tasks.significance import LARGEST_MDE, detectable
from nnd_tasks.statistics import FEW, WITHIN
from nnd_tasks.text import counted

_CLIP = 80  # characters that a finding shows of a text

_EMAIL = re.compile(r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b")

#: Code -> words and, where it is looked for in texts, its regular expression; the file says what each key stands for.
RULES: Mapping[str, Mapping[str, str]] = read_yaml(Path(__file__).with_name("rules.yaml"))
#: Code -> search for its part of a text.
SEARCHES: Mapping[str, Callable[[str], re.Match[str] | None]] = {
    **{code: re.compile(rule["search"]).search for code, rule in RULES.items() if "search" in rule},
    "email": _EMAIL.search,
}
#: Rows that a finding lists; it counts all of them.
EXAMPLES = 5
#: A baseline that passes more than this share of a category's tests gives the label away; above `OFTEN` it is noted.
LEAK, OFTEN = 0.95, 0.8
#: Tests that a category needs for such a finding. By the rule of three, 30 passed of 30 means a rate of at least 0.9 (95%).
ENOUGH = 30

#: For each test True, or the text that a rule is about; False or missing where there is nothing.
Hits: TypeAlias = "pd.Series[Any]"


class Severity(IntEnum):
    """How much a finding matters; the worst one decides the exit status.

    Error: the set cannot be run or published as it is. Warning: its rates may mislead, or a person has to look at it. Note:
    good to know.
    """

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """Name in lower case."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Row:
    """A test that a finding is about.

    Attributes:
        index: 0-based row of the config's parquet files, in the order of their names.
        test_id: of the test; ``""`` where the data have none.
        detail: the text that the finding is about, shortened, with personal data masked.
    """

    index: int
    test_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at.

    Attributes:
        severity: how much it matters.
        code: of its rule.
        message: what is there.
        fix: what to do.
        rows: the first few tests.
        count: all of them.
        config: where; ``""`` for what concerns the whole set.
        table: rows of numbers, column -> cell.
    """

    severity: Severity
    code: str
    message: str
    fix: str
    rows: Sequence[Row] = ()
    count: int = 0
    config: str = ""
    table: Sequence[dict[str, Any]] = ()


def finding(code: str, note: str = "", config: str = "", **changes: Any) -> Finding:
    """Return a finding.

    Args:
        code: of its rule.
        note: what the message says besides what the rule says.
        config: where.
        **changes: other attributes of `Finding`, and another severity or advice than the rule's.
    """
    rule = RULES[code]
    message = visible(": ".join(filter(None, [rule["says"], note])))
    return replace(Finding(Severity[rule["severity"].upper()], code, message, rule["fix"], config=config), **changes)


@dataclass
class Tests:
    """The tests of a config.

    Attributes:
        name: of the config.
        frame: one row per test, in the columns of the schema; cells as Python objects, None where there is no value.
        cleaned: whether there is a clean config beside it.
        choices: whether they are of a benchmark, where a wrong choice may equal the right one.
    """

    __test__ = False  # pytest must not collect it

    name: str
    frame: pd.DataFrame
    cleaned: bool = False
    choices: bool = False

    @cached_property
    def texts(self) -> pd.DataFrame:
        """Both candidates in NFC; white space counts."""
        return self.frame[["high", "low"]].map(to_nfc)

    @cached_property
    def blank(self) -> pd.DataFrame:
        """Whether context and candidates are empty or white space."""
        return self.frame[["context", "high", "low"]].map(lambda text: not text.strip())

    @cached_property
    def bare(self) -> pd.DataFrame:
        """Both candidates, letters and digits only; as they are where they have none."""
        forms = self.texts.map(lambda text: unicodedata.normalize("NFKC", text).casefold())
        return forms.replace(r"[\W_]+", "", regex=True).where(lambda form: form != "", self.texts)

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """The first test of each prompt: ``cluster_id`` and the prompt fields, which are constant within every prompt."""
        extra = self.frame.drop(columns=RESERVED_COLUMNS, errors="ignore")
        varying = extra.astype(str).groupby(self.frame["cluster_id"]).nunique().max() > 1
        return self.frame.drop_duplicates("cluster_id")[["cluster_id", "context", *varying.index[~varying]]]

    def list_rows(self, hits: Hits, search: Callable[[str], Any] | None = None) -> list[Row]:
        """The first of the tests that are hit, those with different texts first.

        Args:
            hits: of these tests; True stands for both candidates.
            search: returns the part of a text to show.
        """
        pairs = hits.dtype == bool
        examples = self.frame.loc[hits.index, ["high", "low"]] if pairs else hits.to_frame()
        rows = []
        for i in examples.index[examples.duplicated().argsort(kind="stable")][:EXAMPLES]:
            focus = None if pairs else search(hits[i])[0] if search else ""
            rows.append(Row(i, self.frame["test_id"][i], show_texts([*examples.loc[i]], focus)))
        return rows


# ---------------------------------------------------------------- what can be measured: a note on the whole config


def _find_few_prompts(tests: Tests) -> str:
    prompts = tests.frame.groupby("category")["cluster_id"].nunique()
    few = [f"{name} ({count})" for name, count in prompts.items() if count < FEW]
    return ", ".join(few) if tests.frame["cluster_id"].nunique() > 1 else ""


#: Assumed share of tests that two models decide differently, before they have run. On Quiz Design and Challenge 300 three
#: models of at most 3.9M parameters gave 0.10 to 0.18; each of them and SmolLM2-135M gave 0.29 to 0.45. (`WITHIN` is the assumed
#: correlation of their differences within a prompt: 0.11 to 0.21, and 0.15 to 0.40.)
DISAGREEMENT = 0.3


def planned(tests: ArrayLike, hypotheses: int = 1) -> float:
    """The MDE that a category can be expected to have, before any model has run.

    The variance of a sum of n equally correlated differences is n d (1 + (n - 1) r) for a share d of discordant tests
    (`DISAGREEMENT`) and a correlation r within a prompt (`WITHIN`; Kish, 1965, section 5.4), so the standard error of the pooled
    difference is sqrt(sum_i n_i d (1 + (n_i - 1) r)) / sum_i n_i.

    Args:
        tests: of each prompt, at least one, shape (prompts,).
        hypotheses: as for `nnd_tasks.significance.detectable`.

    Returns:
        As `detectable`; it may be above d, the largest difference that is possible.
    """
    n = np.asarray(tests, dtype=np.float64)
    error = math.sqrt(float((n * DISAGREEMENT * (1 + (n - 1) * WITHIN)).sum())) / float(n.sum())
    return detectable(error, n.size, hypotheses)


def _find_low_power(tests: Tests) -> str:
    sizes = tests.frame.groupby(["category", "cluster_id"]).size().groupby(level=0)
    weak = []
    for name, of_prompts in sizes:  # categories are taken to be compared, and corrected, together
        mde, prompts = planned(of_prompts, sizes.ngroups), len(of_prompts)
        if prompts >= FEW and mde > LARGEST_MDE:
            least = "no difference is" if mde > DISAGREEMENT else f"only a difference above {100 * mde:.0f} points is"
            weak.append(f"{name}, {counted(prompts, 'prompt')}: {least} likely to be detected")
    return "; ".join(weak)


# ---------------------------------------------------------------- prompts and labels


def _find_space_twins(tests: Tests) -> Hits:
    prompts = tests.prompts[~tests.blank["context"][tests.prompts.index]]
    twins = find_space_twins(prompts.drop(columns="cluster_id").fillna("").astype(str))
    return tests.frame["cluster_id"].isin(prompts["cluster_id"][twins])


def _find_mixed(tests: Tests) -> Hits:
    context = tests.frame["context"]
    return context.where(context != context.groupby(tests.frame["cluster_id"]).transform("first"))


def _find_split(tests: Tests) -> Hits:
    prompts = tests.prompts[~tests.blank["context"][tests.prompts.index]]  # else something else tells prompts apart
    again = prompts.drop(columns="cluster_id").astype(str).duplicated()
    return tests.frame["cluster_id"].isin(prompts["cluster_id"][again])


# ---------------------------------------------------------------- texts


#: Code -> what finds the tests: hits, or a note on the whole config, empty where nothing is wrong.
_FINDERS: Mapping[str, Callable[[Tests], Hits | str]] = {
    "cluster_mixed": _find_mixed,
    "cluster_split": _find_split,
    "no_error_bar": lambda tests: "" if tests.frame["cluster_id"].nunique() > 1 else counted(len(tests.frame), "test"),
    "few_contexts": _find_few_prompts,
    "low_power": _find_low_power,
    "repeated": lambda tests: tests.frame.duplicated(["cluster_id", "high", "low", "category"]),
    "equal_texts": lambda tests: (tests.texts["high"] == tests.texts["low"]) & (tests.texts["low"] != ""),
    "form_only": lambda tests: (tests.bare["high"] == tests.bare["low"]) & (tests.texts["high"] != tests.texts["low"]),
    "context_spaces": _find_space_twins,
    "prompt_in_texts": lambda tests: find_repeated_prompts(tests.frame),
    "empty": lambda tests: tests.blank[["high", "low"]].any(axis=1),
    "context_missing": lambda tests: tests.blank["context"] & ~tests.blank["context"].all(),
    "no_context": lambda tests: "all of them" if tests.blank["context"].all() else "",
}


def check_tests(configs: Sequence[Tests]) -> Iterator[Finding]:
    """Apply all rules about tests to each config, and those about baselines to all of them together."""
    for tests in configs:
        for code, find in _FINDERS.items():
            result = find(tests)
            if not isinstance(result, str):
                changes = dict[str, Any]()
                if tests.cleaned and "left_out" in RULES[code]:
                    fix = f"none: the config {clean_name(tests.name)} leaves them out"
                    changes = {"severity": Severity.NOTE, "fix": fix}
                if tests.choices and code == "equal_texts":
                    changes = {"severity": Severity.NOTE, "fix": "none: a wrong choice that equals the right one fails"}
                yield from _report(tests, code, result, **changes)
            elif result:
                yield finding(code, result, tests.name)
        for code in SEARCHES:
            yield from _search_texts(tests, code)
    yield from _check_baselines(configs)


def _search_texts(tests: Tests, code: str) -> Iterator[Finding]:
    """Look for what a rule describes in the candidates, and where it says so in the contexts."""
    rule = RULES[code]
    texts = tests.frame[["context", "high", "low"]]
    found = [text for text in pd.unique(texts.to_numpy().ravel()) if SEARCHES[code](text)]
    texts = texts.where(texts.isin(found))
    note = f", {texts['high'].nunique():,} better and {texts['low'].nunique():,} worse texts"
    yield from _report(tests, code, texts["high"].fillna(texts["low"]), note)
    if "in_contexts" in rule:
        changes = {"severity": Severity[rule["in_contexts"].upper()], "fix": rule.get("fix_contexts", rule["fix"])}
        yield from _report(tests, code, texts["context"], " in contexts", **changes)


def _report(tests: Tests, code: str, hits: Hits, note: str = "", **changes: Any) -> Iterator[Finding]:
    hits = hits[hits] if hits.dtype == bool else hits.dropna()
    count = len(hits)
    if count:
        note = f"{counted(count, 'test')} ({count / len(tests.frame):.1%}{note})"
        rows = tests.list_rows(hits, SEARCHES.get(code))
        yield finding(code, note, tests.name, rows=rows, count=count, **changes)


# ---------------------------------------------------------------- baselines


def _check_baselines(configs: Sequence[Tests]) -> Iterator[Finding]:
    """Find categories where one of `BASELINES` passes most tests: one finding for the whole set."""
    rates = pd.DataFrame({key: row for tests in configs for key, row in _rate_baselines(tests)}).T
    often = rates.where(rates > OFTEN).dropna(how="all").dropna(how="all", axis=1)
    if often.empty:
        return
    highest = often.max()
    note = f"{len(often)} of {len(rates)} categories, up to {highest.max():.1%} ({highest.idxmax()})"
    often = often.rename_axis(["config", "category", "tests"])
    table = often.map("{:.1%}".format, na_action="ignore").fillna("").reset_index().to_dict("records")
    code = "trivial_rule" if highest.max() > LEAK else "trivial_rule_often"
    yield finding(
        code, "; ".join([note, *(f"{name}: {BASELINES[name]}" for name in often)]), table=table, count=len(table)
    )


def _rate_baselines(tests: Tests) -> Iterator[tuple[tuple[str, str, int], pd.Series[float]]]:
    """Yield (config, category, number of tests) and how often each baseline passes, for categories of some size."""
    frame = tests.frame
    columns = frame.columns.intersection(["context", "high", "low", *WRITERS])
    passes = baseline_passes(pa.Table.from_pandas(frame[columns].fillna(""), preserve_index=False))
    rates = pd.DataFrame(passes, frame.index)
    by_category = [*rates.groupby(frame["category"])]
    for name, part in by_category if len(by_category) == 1 else [(ALL, rates), *by_category]:
        if frame["cluster_id"][part.index].nunique() >= FEW:
            yield (tests.name, name, len(part)), part.mean().where(part.count() >= ENOUGH)


# ---------------------------------------------------------------- what a finding shows


def mask(text: str) -> str:
    """A text with its e-mail addresses made unreadable but for their first characters."""
    return _EMAIL.sub(lambda match: f"{match[0][0]}***@***.{match[0].rsplit('.', 1)[1]}", text)


def show_texts(texts: Sequence[str], focus: str | None = None) -> str:
    """Texts as a finding shows them, masked and shortened, each on one line.

    Args:
        texts: one, or the two candidates of a test.
        focus: a part of the first text: they are shown from shortly before it; None stands for their first difference.
    """
    texts = [mask(text) for text in texts]  # before they are cut: half an address would not be recognized
    start_of_focus = len(commonprefix(texts)) if focus is None else texts[0].find(mask(focus))  # noqa: RUF071
    start = max(0, start_of_focus - _CLIP // 4)
    return " | ".join(visible(text[start : start + _CLIP]) for text in texts)
