"""A finding, its severity and the list of stable codes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from nnd_tasks.errors import visible

#: Rows that a finding lists; it counts all of them.
EXAMPLES = 5
_CLIP = 80  # characters of a detail


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


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

#: Code -> (usual severity, meaning). Codes are an interface: scripts match on them, so never rename or reuse one.
CODES: Mapping[str, tuple[Severity, str]] = {
    # the folder and its columns
    "schema_version": (_E, "the card names no schema version, or one that this release cannot read"),
    "data_missing": (_E, "the card lists a config without data"),
    "data_unreadable": (_E, "a file cannot be read as parquet"),
    "config_unlisted": (_W, "data that the card does not list"),
    "column_missing": (_E, "a required column is missing"),
    "column_type": (_E, "a column is of another type than the schema's"),
    "column_name": (_W, "a column cannot be used as a prompt field"),
    "cell_empty": (_E, "a required cell is null"),
    "no_tests": (_E, "a config without tests"),
    "test_id_repeated": (_E, "two tests have one test_id"),
    "category_name": (_E, "categories or severities that cannot stand in names of metrics"),
    "cluster_mixed": (_E, "one cluster_id for tests with different contexts"),
    "cluster_split": (_W, "one prompt under several cluster_ids"),
    "report_mismatch": (_W, "the data are not those that the build wrote"),
    # what can be measured
    "no_error_bar": (_E, "fewer than two prompts: a standard error is not defined"),
    "few_contexts": (_W, "too few prompts for a reliable standard error"),
    "low_power": (_W, "underpowered: too few prompts to tell models apart"),
    "contradictory": (_W, "a candidate is better in one test and worse in another of the same prompt"),
    "repeated": (_W, "the same test again"),
    "trivial_rule": (_W, "a baseline decides categories almost always"),
    "trivial_rule_often": (_N, "a baseline decides categories often"),
    # the texts
    "equal_texts": (_W, "both candidates are equal"),
    "form_only": (_W, "the candidates differ in case, punctuation or white space only"),
    "near_equal": (_N, "the candidates are nearly equal"),
    "empty": (_W, "an empty candidate"),
    "html": (_W, "HTML tags"),
    "markdown": (_W, "Markdown"),
    "escaped": (_W, "escaped line breaks or entities"),
    "special_token": (_W, "a special token of a tokenizer"),
    "mojibake": (_W, "UTF-8 that was read in another encoding"),
    "replacement_character": (_W, "U+FFFD, in place of a character that was lost"),
    "control_character": (_W, "control characters"),
    "invisible_character": (_N, "characters without width, or that turn the direction"),
    "not_nfc": (_W, "a text is not in Unicode NFC"),
    "edge_space": (_N, "white space at an end"),
    "context_missing": (_W, "some tests have no context"),
    "no_context": (_N, "no test has a context"),
    "language_mismatch": (_W, "a script that no declared language is written in"),
    "email": (_W, "an e-mail address"),
    "phone": (_W, "a phone number"),
    # the card
    "card_header": (_E, "the card's header is not valid YAML"),
    "card_license": (_E, "no licence"),
    "card_license_other": (_W, "a licence without an identifier"),
    "card_license_closed": (_W, "a licence that does not let the texts be passed on"),
    "card_language": (_E, "no language"),
    "card_citation": (_E, "no citation in BibTeX"),
    "card_citation_origin": (_W, "the source of the annotations is not cited"),
    "card_todo": (_E, "a field that is still to be filled in"),
    # the recipe
    "recipe_invalid": (_E, "a recipe that cannot be read or used"),
    "recipe_key": (_E, "a key of a recipe that recipes do not have"),
    "recipe_step": (_E, "a recipe from outside the package that names code"),
    "recipe_fact": (_W, "something in a recipe that only a person can add"),
    "recipe_unverified": (_N, "a file that is downloaded without a SHA-256 in the recipe"),
    "recipe_counts": (_W, "other counts of tests than the recipe says"),
    "recipe_source": (_W, "data built from another file than the recipe names"),
    "recipe_card": (_W, "a recipe on the card that is not the set's"),
    # the tasks
    "task_missing": (_E, "no task reads the set"),
    "config_without_task": (_N, "no task reads a config"),
    "task_invalid": (_E, "lm-eval cannot load a task"),
    "config_not_built": (_N, "a task of this package reads a config that is not built here"),
    "task_code": (_W, "a task names code, prompts or a model that are not of this package; it was not loaded"),
    "task_plain": (_N, "a task of another class than this package's; it was not checked"),
    "categories_undeclared": (_E, "categories in the data that a task does not declare"),
    "categories_absent": (_E, "categories that a task declares and the data lack"),
    "categories_open": (_N, "a task declares no categories"),
    "prompt_invalid": (_E, "a prompt cannot be rendered"),
    "prompt_empty": (_W, "an empty prompt, though there is a context"),
    "prompt_without_context": (_W, "a prompt that leaves the context out"),
    "prompt_repeated": (_W, "different cluster_ids give one prompt"),
    "run_failed": (_E, "a run on a tiny model failed"),
    "run_unscored": (_W, "a run on a tiny model left tests unscored"),
}


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
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at.

    Attributes:
        severity: how much it matters.
        code: a key of `CODES`.
        message: what is there.
        rows: the first few tests.
        count: all of them.
        fix: what to do.
        config: where; ``""`` for what concerns the whole set.
        table: cells of a table that belongs to it, its head first.
    """

    severity: Severity
    code: str
    message: str
    fix: str
    rows: tuple[Row, ...] = ()
    count: int = 0
    config: str = ""
    table: tuple[tuple[str, ...], ...] = ()


def finding(
    code: str,
    message: str,
    fix: str,
    *,
    rows: Sequence[Row] = (),
    count: int | None = None,
    config: str = "",
    severity: Severity | None = None,
    table: Sequence[Sequence[str]] = (),
) -> Finding:
    """Return a finding, with the usual severity of its code unless another is given; only the first few rows are kept."""
    usual, _ = CODES[code]
    return Finding(
        severity=usual if severity is None else severity,
        code=code,
        message=visible(message),
        fix=visible(fix),
        rows=tuple(rows[:EXAMPLES]),
        count=len(rows) if count is None else count,
        config=config,
        table=tuple(map(tuple, table)),
    )


_EMAIL = re.compile(r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b")
_PHONE = re.compile(
    r"(?<![\w.,/+-])(?:"
    r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,5}){1,4}"
    r"|\(\d{3}\) ?\d{3}[-. ]\d{4}|\d{3}[-.]\d{3}[-.]\d{4}"
    r"|0\d{2,4}[ /-]\d{3,4}[ -]?\d{2,4}(?:[ -]?\d{2,4})?)(?![\w-])"
)


def find_email(text: str) -> str | None:
    """Return the first e-mail address, or None."""
    if "@" not in text:
        return None
    match = _EMAIL.search(text)
    return match[0] if match else None


def find_phone(text: str) -> str | None:
    """Return the first phone number of 8 to 15 digits (E.164), written as such, or None."""
    for match in _PHONE.finditer(text):
        if 8 <= sum(c.isdigit() for c in match[0]) <= 15:
            return match[0]
    return None


def mask(text: str) -> str:
    """Return ``text`` with e-mail addresses and phone numbers made unreadable except for their first characters."""
    text = _EMAIL.sub(lambda m: f"{m[0][0]}***@***.{m[0].rsplit('.', 1)[1]}", text)
    return _PHONE.sub(lambda m: m[0][:3] + re.sub(r"\d", "*", m[0][3:]), text)


def shown(text: str) -> str:
    """Return ``text`` as a finding shows it: masked, on one line, shortened."""
    # Half an address would not be recognized, so the text is cut only roughly before it is masked.
    line = visible(mask(text[: 4 * _CLIP]))
    return line if len(line) <= _CLIP else line[: _CLIP - 1] + "…"


def around(text: str, part: str) -> str:
    """Return ``part`` with a little of the text around it, masked.

    The text is masked before it is cut: half an address would not be recognized.
    """
    at = text.find(part)
    start = max(0, at - 200)
    before, after = mask(text[start:at]), mask(text[at + len(part) : at + len(part) + 200])
    left = before[-20:] if len(before) > 20 else before
    right = after[:20]
    return shown(
        f"{'…' if start or len(before) > 20 else ''}{left}{part}{right}"
        f"{'…' if at + len(part) + len(right) < len(text) else ''}"
    )


def differing(better: str, worse: str) -> str:
    """Return two texts from shortly before their first difference, masked."""
    better, worse = mask(better), mask(worse)  # before they are cut: half an address would not be recognized
    ends = (i for i, (a, b) in enumerate(zip(better, worse, strict=False)) if a != b)
    same = next(ends, 0 if better == worse else min(len(better), len(worse)))
    start = max(0, same - _CLIP // 4) if same > _CLIP // 2 else 0
    left = "…" if start else ""
    return f"{left}{shown(better[start:])} | {left}{shown(worse[start:])}"
