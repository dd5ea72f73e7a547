"""The rules of `nnd check`: each has a code, a severity, what is wrong, and how to mend it.

Those about tests find them in the DataFrame of a config. The others are raised where a folder, a card, a recipe or a task is
read, and have only their words here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

from nnd_tasks.analysis.compare.power import FEW, LARGEST_MDE, planned_by_category, points
from nnd_tasks.baselines import ALL, BASELINES, WRITERS, baseline_passes
from nnd_tasks.check import texts
from nnd_tasks.check.findings import EXAMPLES, Finding, Row, Severity, find_email, find_phone, mask, show_pair, show_part, show_text
from nnd_tasks.cleaning import clean_name
from nnd_tasks.errors import visible
from nnd_tasks.schema import RESERVED_COLUMNS, fold
from nnd_tasks.wording import counted

#: A baseline that passes more than this share of a category's tests gives the label away; above `OFTEN` it is noted.
LEAK, OFTEN = 0.95, 0.8
#: Tests that a category needs for such a finding. By the rule of three, 30 passed of 30 means a rate of at least 0.9 (95%).
ENOUGH = 30
#: Normalized Levenshtein similarity (1 - distance / length of the longer text) from which two texts are nearly equal.
NEARLY_EQUAL = 0.95
_LONG = 200_000  # characters; longer texts are not compared in this way, which takes quadratic time


@dataclass
class Tests:
    """The tests of a config.

    Attributes:
        name: of the config.
        frame: one row per test, in the columns of the schema; cells as Python objects, None where there is no value.
        languages: that the card declares; without any, scripts are not checked.
        cleaned: whether there is a clean config beside it.
    """

    __test__ = False  # pytest must not collect it

    name: str
    frame: pd.DataFrame
    languages: Sequence[str] = ()
    cleaned: bool = False

    @cached_property
    def folded(self) -> pd.DataFrame:
        """Both candidates, white space folded."""
        return self.frame[["high", "low"]].map(fold)

    @cached_property
    def bare(self) -> pd.DataFrame:
        """Both candidates, letters and digits only."""
        return self.folded.map(texts.strip_form)

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """The first test of each prompt: ``cluster_id`` and the prompt fields, which are constant within every prompt."""
        extra = [name for name in self.frame if name not in RESERVED_COLUMNS]
        distinct = self.frame[extra].astype(str).groupby(self.frame["cluster_id"]).nunique()
        fields = ["cluster_id", "context", *(name for name in extra if distinct[name].max() <= 1)]
        return self.frame.drop_duplicates("cluster_id")[fields]

    @cached_property
    def sizes(self) -> dict[str, tuple[float, int]]:
        """Category -> smallest difference that can be detected, and number of prompts."""
        return planned_by_category(self.frame["cluster_id"], self.frame["category"])

    def rows(self, found: pd.Series[Any], show: Callable[[str], str]) -> tuple[Row, ...]:
        """Return the first tests that were found, those with different texts first.

        Args:
            found: the text of each test that is to be shown, or True for both candidates; missing or False for other tests.
            show: shortens a text.
        """
        pairs = self.frame.loc[found.index, ["high", "low"]] if found.dtype == bool else found.to_frame()
        again = pairs.duplicated()
        order = [*again.index[~again], *again.index[again]][:EXAMPLES]
        details = (show_pair(*pairs.loc[i]) if found.dtype == bool else show(found[i]) for i in order)
        return tuple(Row(int(i), self.frame["test_id"][i], detail) for i, detail in zip(order, details, strict=True))


class Found(NamedTuple):
    """Tests that a rule has found.

    Attributes:
        rows: as for `Tests.rows`; None where the rule is about all tests.
        note: ends the message; without it, the number of tests.
        count: of what is found, where it is not tests.
        show: shortens the text of a row.
    """

    rows: pd.Series[Any] | None = None
    note: str = ""
    count: int = 0
    show: Callable[[str], str] = lambda text: show_text(mask(text))


Find: TypeAlias = "Callable[[Tests], pd.Series[Any] | Found | None]"


@dataclass(frozen=True)
class Rule:
    """What is looked for.

    Attributes:
        code: an interface: scripts match on it, so never rename or reuse one.
        severity: the usual one.
        says: what is wrong.
        fix: what to do.
        find: the tests.
        search: in each text.
        in_contexts: severity in contexts, which are the publishers' texts; with None they are not searched.
    """

    code: str
    severity: Severity
    says: str
    fix: str
    find: Find | None = None
    search: texts.Search | None = None
    in_contexts: Severity | None = Severity.NOTE


# ---------------------------------------------------------------- what can be measured


def _few(tests: Tests) -> Found | None:
    few = [f"{name} ({prompts})" for name, (_, prompts) in tests.sizes.items() if prompts < FEW]
    return Found(note=", ".join(few), count=len(few)) if few and not _alone(tests) else None


def _weak(tests: Tests) -> Found | None:
    weak = [
        f"{name} ({points(smallest)})"
        for name, (smallest, prompts) in tests.sizes.items()
        if prompts >= FEW and not math.isnan(smallest) and smallest > LARGEST_MDE
    ]
    note = f"smallest detectable difference of two models, in percentage points: {', '.join(weak)}"
    return Found(note=note, count=len(weak)) if weak else None


def _alone(tests: Tests) -> Found | None:
    return Found(note=counted(len(tests.frame), "test")) if tests.frame["cluster_id"].nunique() < 2 else None


# ---------------------------------------------------------------- prompts and labels


def _mixed(tests: Tests) -> pd.Series[Any]:
    context = tests.frame["context"]
    return context.where(context != context.groupby(tests.frame["cluster_id"]).transform("first"))


def _split(tests: Tests) -> pd.Series[Any]:
    prompts = tests.prompts[tests.prompts["context"].str.strip() != ""]  # else something else tells prompts apart
    again = prompts.drop(columns="cluster_id").astype(str).duplicated()
    return tests.frame["cluster_id"].isin(prompts["cluster_id"][again])


def _contradictory(tests: Tests) -> Found:
    """Find candidates that are judged both better and worse for one prompt, and the tests with them.

    That alone is not a contradiction: of three candidates, the second is better in one test and worse in another. A candidate
    is contradictory if its label (or, without labels, its score) differs between the two tests; in a set without either, if
    another test has the same pair of texts the other way round. Where the category is what was rated, candidates are
    compared within a category; where it follows from the label of the worse candidate, over all categories.
    """
    frame, category = tests.frame, tests.frame["category"]
    if "low_label" in frame and all(frame["low_label"]) and category.groupby(frame["low_label"]).nunique().max() == 1:
        category = category.where(False, "")
    judged = next((k for k in ("label", "score") if {f"high_{k}", f"low_{k}"} <= {*frame}), None)
    pairs = tests.folded.assign(cluster=frame["cluster_id"], category=category)
    turned = pairs.rename(columns={"high": "low", "low": "high"})
    if judged is None:
        pairs = pairs[pairs["high"] != pairs["low"]]
        again = pd.MultiIndex.from_frame(pairs).isin(pd.MultiIndex.from_frame(turned[pairs.columns]))
    key = ["cluster", "category", "text"]
    sides = [
        pairs.rename(columns={side: "text"})[key].assign(
            side=side, verdict=frame[f"{side}_{judged}"] if judged else side, counts=True if judged else again
        )
        for side in ("high", "low")
    ]
    verdicts = pd.concat(sides)
    groups = verdicts[verdicts["counts"]].groupby(key)
    both = (groups["side"].nunique() == 2) & (groups["verdict"].nunique(dropna=False) > 1)
    odd = verdicts[pd.MultiIndex.from_frame(verdicts[key]).isin(both.index[both])]
    text = odd["text"].groupby(level=0).first().reindex(frame.index)
    return Found(text, f"{counted(int(both.sum()), 'candidate')} in {counted(text.count(), 'test')}")


def _near_equal(tests: Tests) -> pd.Series[Any]:
    from rapidfuzz.distance import Levenshtein

    near = [
        a != b
        and max(len(a), len(b)) <= _LONG
        and Levenshtein.normalized_similarity(a, b, score_cutoff=NEARLY_EQUAL) > 0
        for a, b in tests.bare.itertuples(index=False)
    ]
    return pd.Series(near, index=tests.frame.index, dtype=bool)


# ---------------------------------------------------------------- texts


def _blank(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.str.strip() == ""


def _other_script(tests: Tests) -> Found | None:
    expected = texts.scripts_of(tests.languages)
    if not expected:
        return None
    sides = tests.frame[["context", "high", "low"]]
    scripts = {text: texts.main_script(text) for text in pd.unique(sides.to_numpy().ravel())}
    other = {text: script for text, script in scripts.items() if script and script not in expected}
    found = sides.where(sides.isin(list(other))).bfill(axis=1).iloc[:, 0]
    note = f"{', '.join(sorted({*other.values()}))} in {counted(found.count(), 'test')}; the card declares {', '.join(tests.languages)}"
    return Found(found, note)


def _search(tests: Tests, search: texts.Search, sides: dict[str, str]) -> Found:
    """Search the columns ``sides``, column -> what to call its texts."""
    columns = tests.frame[list(sides)]
    parts = {text: part for text in pd.unique(columns.to_numpy().ravel()) if (part := search(text)) is not None}
    found = columns.where(columns.isin(list(parts)))
    said = " and ".join(f"{found[side].nunique():,} {what}" for side, what in sides.items())
    rows = found.bfill(axis=1).iloc[:, 0]
    return Found(rows, f"{said}, {counted(rows.count(), 'test')}", show=lambda text: show_part(text, parts[text]))


_CANDIDATES = {"high": "better", "low": "worse distinct candidates"}

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_AGAIN = "build the set again"
_CLEAN = "remove it in the source, or leave these candidates out, unless it is what was judged"
_READ = "read the source in its own encoding"
_PRIVATE = "replace it, or make sure that it may be published"
_LICENCE = "name the licence of the annotations by its identifier on the hub, such as cc-by-4.0"
_BIBTEX = "add a ```bibtex block for the human evaluation that the judgements come from"
_RECIPE = "correct the recipe; docs/contribute.md says what each key means"
_YAML = "correct the YAML of the task"
_BY_PERSON = "fill it in: only a person can know it"

RULES = (
    # the folder and its columns
    Rule("schema_version", _E, "the card names no schema version, or one that this release cannot read", _AGAIN),
    Rule("data_missing", _E, "the card lists a config without data", f"{_AGAIN}, or take the config out of the header"),
    Rule("data_unreadable", _E, "a file cannot be read as parquet", _AGAIN),
    Rule("config_unlisted", _W, "data that the card does not list", "list it under configs in the header, or remove it"),
    Rule("column_missing", _E, "a required column is missing", _AGAIN),
    Rule("column_type", _E, "a column is of another type than the schema's", _AGAIN),
    Rule("column_name", _W, "a column cannot be used as a prompt field", "rename it with letters, digits and _"),
    Rule("cell_empty", _E, "a required cell is null", f"{_AGAIN}, with every required column filled"),
    Rule("no_tests", _E, "a config without tests", _AGAIN),
    Rule(
        "test_id_repeated",
        _E,
        "two tests have one test_id",
        "give every test an identifier of its own; results are joined by it",
        lambda t: t.frame["test_id"].duplicated(),
    ),
    Rule("category_name", _E, "categories or severities that cannot stand in names of metrics", "rename them in the source"),
    Rule(
        "cluster_mixed",
        _E,
        "one cluster_id for tests with different contexts",
        "give tests one cluster_id exactly when they give a model the same prompt fields",
        _mixed,
    ),
    Rule(
        "cluster_split",
        _W,
        "one prompt under several cluster_ids",
        "give them one cluster_id: standard errors take prompts for independent",
        _split,
    ),
    Rule("report_mismatch", _W, "the data are not those that the build wrote", f"{_AGAIN}: the data were changed after it"),
    # what can be measured
    Rule(
        "no_error_bar",
        _E,
        "fewer than two prompts: a standard error is not defined",
        f"add prompts, at least {FEW}",
        _alone,
    ),
    Rule(
        "few_contexts", _W, "too few prompts for a reliable standard error", "add prompts, or merge categories", _few
    ),
    Rule(
        "low_power",
        _W,
        "underpowered: too few prompts to tell models apart",
        "add tests, best with further prompts",
        _weak,
    ),
    Rule(
        "contradictory",
        _W,
        "a candidate that people judged both ways is better in one test and worse in another",
        "ask who judged, take the majority, or leave these candidates out",
        _contradictory,
    ),
    Rule(
        "repeated",
        _W,
        "the same test again",
        "keep one of each: a repeated test counts twice in every rate",
        lambda t: t.frame.duplicated(["cluster_id", "high", "low", "category"]),
    ),
    Rule("trivial_rule", _W, "a baseline decides a category almost always", "balance the candidates"),
    Rule("trivial_rule_often", _N, "a baseline decides a category often", "balance the candidates"),
    # the texts
    Rule(
        "equal_texts",
        _W,
        "both candidates are equal",
        "leave these tests out: no model can pass them",
        lambda t: (t.folded["high"] == t.folded["low"]) & (t.folded["low"] != ""),
    ),
    Rule(
        "form_only",
        _W,
        "the candidates differ in case, punctuation or white space only",
        "look whether the difference is what was judged; else leave these tests out",
        lambda t: (t.bare["high"] == t.bare["low"]) & (t.folded["high"] != t.folded["low"]),
    ),
    Rule(
        "near_equal",
        _N,
        "the candidates are nearly equal",
        "look at some: is the difference the error that was judged?",
        _near_equal,
    ),
    Rule(
        "empty",
        _W,
        "an empty candidate",
        "leave these tests out: they are not scored",
        lambda t: _blank(t.frame["high"]) | _blank(t.frame["low"]),
    ),
    Rule("html", _W, "HTML tags", _CLEAN, search=texts.find_html),
    Rule("markdown", _W, "Markdown", _CLEAN, search=texts.find_markdown),
    Rule("escaped", _W, "escaped line breaks or entities", "unescape the source", search=texts.find_escaped),
    Rule(
        "special_token",
        _W,
        "a special token of a tokenizer",
        "remove it: tokenizers do not read it as text",
        search=texts.find_special_token,
    ),
    Rule("mojibake", _W, "UTF-8 that was read in another encoding", _READ, search=texts.find_mojibake),
    Rule(
        "replacement_character",
        _W,
        "U+FFFD, in place of a character that was lost",
        _READ,
        search=texts.find_replacement,
    ),
    Rule("control_character", _W, "control characters", _READ, search=texts.find_control),
    Rule(
        "invisible_character",
        _N,
        "characters without width, or that turn the direction",
        "remove them: a tokenizer sees them",
        search=texts.find_invisible,
    ),
    Rule(
        "not_nfc",
        _W,
        "a text is not in Unicode NFC",
        "normalize to NFC, as `nnd build` does",
        search=texts.find_not_nfc,
        in_contexts=_W,
    ),
    Rule(
        "edge_space",
        _N,
        "white space at an end",
        "trim the candidates, unless white space was judged: it makes tokens of its own",
        search=texts.find_edge_space,
        in_contexts=None,
    ),
    Rule(
        "context_missing",
        _W,
        "some tests have no context",
        "fill it in, or leave these tests out",
        lambda t: _blank(t.frame["context"]) & ~_blank(t.frame["context"]).all(),
    ),
    Rule(
        "no_context",
        _N,
        "no test has a context",
        "nothing, if it is meant that models tell which text is likelier by itself",
        lambda t: Found(note=counted(len(t.frame), "test")) if _blank(t.frame["context"]).all() else None,
    ),
    Rule(
        "language_mismatch",
        _W,
        "a script that no declared language is written in",
        "declare the language in the card's header, or leave these tests out",
        _other_script,
    ),
    Rule("email", _W, "an e-mail address", _PRIVATE, search=find_email, in_contexts=_W),
    Rule("phone", _W, "a phone number", _PRIVATE, search=find_phone, in_contexts=_W),
    # the card
    Rule("card_header", _E, "the card's header is not valid YAML", f"correct it, or {_AGAIN}"),
    Rule("card_license", _E, "no licence", _LICENCE),
    Rule("card_license_other", _W, "a licence without an identifier", f"{_LICENCE}; else publish with --ids-only"),
    Rule(
        "card_license_closed",
        _W,
        "a licence that does not let the texts be passed on",
        f"{_LICENCE}; or publish with --ids-only",
    ),
    Rule("card_language", _E, "no language", "name the languages of the texts in the card's header, such as en"),
    Rule("card_citation", _E, "no citation in BibTeX", _BIBTEX),
    Rule("card_citation_origin", _W, "the source of the annotations is not cited", _BIBTEX),
    Rule("card_todo", _E, "a field that is still to be filled in", _BY_PERSON),
    # the recipe
    Rule("recipe_invalid", _E, "a recipe that cannot be read or used", _RECIPE),
    Rule("recipe_key", _E, "a key of a recipe that recipes do not have", _RECIPE),
    Rule("recipe_fact", _W, "something in a recipe that only a person can add", "write it under facts"),
    Rule(
        "recipe_unverified",
        _N,
        "a file that is downloaded without a SHA-256 in the recipe",
        "write sha256: what `sha256sum` says of the original file",
    ),
    Rule(
        "recipe_counts",
        _W,
        "other counts of tests than the recipe says",
        f"{_AGAIN}; if it stays so, the file is another version of what the recipe was made with",
    ),
    Rule(
        "recipe_source",
        _W,
        "data built from another file than the recipe names",
        f"{_AGAIN} from the file that the recipe was made with",
    ),
    Rule(
        "prepare_code",
        _W,
        "a prepare.py runs when the set is built (from elsewhere with --trust only)",
        "read it before you build",
    ),
    # the tasks
    Rule("task_missing", _E, "no task reads the set", "write a YAML for it, or name its folder with --tasks"),
    Rule("config_without_task", _N, "no task reads a config", "none, if it is meant for tasks of others"),
    Rule("task_invalid", _E, "lm-eval cannot load a task", _YAML),
    Rule("config_not_built", _N, "a task of this package reads a config that is not built here", "none, or build it"),
    Rule(
        "task_code",
        _W,
        "a task names code, prompts or a model that are not of this package; it was not loaded",
        "take it out; or read that code, then check the task with lm_eval validate",
    ),
    Rule(
        "task_plain",
        _N,
        "a task of another class than this package's; it was not checked",
        "include the _base of `nnd tasks-dir`, unless it is meant to be plain",
    ),
    Rule(
        "categories_undeclared",
        _E,
        "categories in the data that a task does not declare",
        "add them to metadata: categories, or correct the data",
    ),
    Rule(
        "categories_absent",
        _E,
        "categories that a task declares and the data lack",
        "take them out of metadata: categories, or correct the data",
    ),
    Rule(
        "categories_open",
        _N,
        "a task declares no categories",
        "list them under metadata: categories, so that other data are refused",
    ),
    Rule("prompt_invalid", _E, "a prompt cannot be rendered", f"{_YAML}, or fill the field for every test"),
    Rule("prompt_empty", _W, "an empty prompt, though there is a context", _YAML),
    Rule(
        "prompt_without_context",
        _W,
        "a prompt that leaves the context out",
        "use {{context}} in doc_to_text, unless that is meant",
    ),
    Rule(
        "prompt_repeated",
        _W,
        "different cluster_ids give one prompt",
        "let doc_to_text use every prompt field; standard errors take cluster_ids for independent prompts",
    ),
)
CODES = {rule.code: rule for rule in RULES}
#: Codes of tests that the clean config leaves out.
_LEFT_OUT = {"contradictory", "repeated", "equal_texts", "empty"}


def finding(code: str, note: str = "", config: str = "", **changes: Any) -> Finding:
    """Return a finding.

    Args:
        code: of its rule.
        note: what the message says besides what the rule says.
        config: where.
        **changes: other attributes of `Finding`, and other severities or advice than the rule's.
    """
    rule = CODES[code]
    message = visible(f"{rule.says}: {note}" if note else rule.says)
    return replace(Finding(rule.severity, code, message, rule.fix, config=config), **changes)


def check_tests(tests: Tests) -> Iterator[Finding]:
    """Apply all rules about tests to a config, apart from those about baselines."""
    for rule in RULES:
        if rule.find and (found := rule.find(tests)) is not None:
            changes = {}
            if tests.cleaned and rule.code in _LEFT_OUT:
                changes = {"severity": _N, "fix": f"none: the config {clean_name(tests.name)} leaves them out"}
            yield from _report(rule, tests, found if isinstance(found, Found) else Found(found), **changes)
        if rule.search:
            yield from _report(rule, tests, _search(tests, rule.search, _CANDIDATES))
            if rule.in_contexts is not None:
                found = _search(tests, rule.search, {"context": "distinct contexts"})
                yield from _report(rule, tests, found, severity=rule.in_contexts)


def _report(rule: Rule, tests: Tests, found: Found, **changes: Any) -> Iterator[Finding]:
    if found.rows is None:
        yield finding(rule.code, found.note, tests.name, count=found.count, **changes)
        return
    rows = found.rows[found.rows] if found.rows.dtype == bool else found.rows.dropna()
    if len(rows):
        note = found.note or f"{counted(len(rows), 'test')} ({len(rows) / len(tests.frame):.1%})"
        yield finding(rule.code, note, tests.name, rows=tests.rows(rows, found.show), count=len(rows), **changes)


# ---------------------------------------------------------------- baselines


def check_baselines(configs: Sequence[Tests]) -> Iterator[Finding]:
    """Find categories where one of `BASELINES`, or its opposite, passes most tests: one finding for the whole set."""
    rates = [table for tests in configs if len(table := _rates(tests))]
    if not rates:
        return
    table = pd.concat(rates)
    often = table.set_index(["config", "category", "tests"])
    often = often.where(often > OFTEN).dropna(how="all").dropna(how="all", axis=1)
    if often.empty:
        return
    highest = often.max()
    top = highest.idxmax()
    leaks = highest.max() > LEAK
    note = f"{len(often)} of {counted(len(table), 'category', 'categories')}; {top} passes up to {highest.max():.1%}"
    legend = "; ".join(f"{name}: {BASELINES[name.removeprefix('not ')]}" for name in often if name in BASELINES)
    rows = often.map(lambda rate: "" if math.isnan(rate) else f"{rate:.1%}").reset_index().to_dict("records")
    code = "trivial_rule" if leaks else "trivial_rule_often"
    if {"shorter", "longer"} & {*often}:
        fix = "the worse text is longer or shorter by construction: report the baseline beside the rate, or use `nnd compare --adjust`"
    elif "system" in often:
        fix = "one system wrote most better texts: report the baseline beside the rate, or add pairs of other systems"
    else:
        fix = "a model passes these without reading: balance the candidates, or report the baseline beside the rate"
    yield finding(code, f"{note} ({legend})", fix=fix, table=tuple(rows), count=len(rows))


def _rates(tests: Tests) -> pd.DataFrame:
    """Return a row per category that has enough tests and prompts, with how often each baseline passes."""
    frame = tests.frame
    sides = [list(frame[name]) for name in ("context", "high", "low")]
    writers = list(zip(*(frame[name].fillna("") for name in WRITERS), strict=True)) if {*WRITERS} <= {*frame} else ()
    passes = pd.DataFrame(baseline_passes(list(zip(*sides, strict=True)), writers=writers), index=frame.index, dtype=float)
    # The opposite of a baseline gives the label away as well; "shorter" and "longer" are opposites already.
    turned = baseline_passes(list(zip(sides[0], sides[2], sides[1], strict=True)))
    passes = passes.assign(**{f"not {rule}": turned[rule].astype(float) for rule in ("overlap", "unigram")})
    if "system" in passes:
        passes["system"] = passes["system"].where([bool(high and low) for high, low in writers])
    parts = [(name, passes[frame["category"] == name]) for name in sorted({*frame["category"]})]
    if len(parts) > 1:
        parts.append((ALL, passes))
    rows = []
    for name, part in parts:
        if frame["cluster_id"][part.index].nunique() >= FEW and len(part) >= ENOUGH:
            means = part.mean().where(part.count() >= ENOUGH)
            rows.append({"config": tests.name, "category": name, "tests": len(part), **means})
    return pd.DataFrame(rows)
