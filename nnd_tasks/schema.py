"""Tests: their columns, the types of these, and the identifiers and names of metrics derived from them.

As in the paper (Laban et al., EMNLP 2022, section 2.1), a *test* is a (context, higher, lower) triple whose two candidates
differ in quality in a known direction.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping

from nnd_tasks.errors import NNDError

SCHEMA_VERSION = 1

#: Columns that every dataset has, in this order.
REQUIRED_COLUMNS: dict[str, str] = {
    "test_id": "string",
    "context_id": "string",
    "cluster_id": "string",
    "context": "string",
    "high": "string",
    "low": "string",
    "category": "string",
    "high_first": "bool",
}
#: Columns that a dataset has when its source knows them.
OPTIONAL_COLUMNS: dict[str, str] = {
    "subcategory": "string",
    "severity": "string",
    "high_label": "string",
    "low_label": "string",
    "high_system": "string",
    "low_system": "string",
    "high_score": "float64",
    "low_score": "float64",
    "rater": "string",
    "noise_ratio": "float64",
    "seed": "int64",
}
#: Where people marked errors in the worse candidate: for each test a list of start, end, category and severity. Start and
#: end count characters of ``low``; the character at the end is not part of the span.
SPANS_COLUMN = "low_spans"
RESERVED_COLUMNS = frozenset(REQUIRED_COLUMNS) | frozenset(OPTIONAL_COLUMNS) | {SPANS_COLUMN}
#: What a document of the harness holds besides prompt fields; no column may have these names.
DOCUMENT_COLUMNS = frozenset({"candidates", "tests", "error_spans", "left_out"})


def normalize(text: str) -> str:
    """Return ``text`` in Unicode NFC; nothing else is changed, nothing is trimmed."""
    return unicodedata.normalize("NFC", text)


def short_hash(*parts: str) -> str:
    """Return 16 hex digits of SHA-256 over ``parts``; ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]


def slug(name: str) -> str:
    """Return a category's name as it stands in metric names: ``Common Sense`` -> ``common_sense``."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


#: Reason -> what it says of a test, for the card.
CLEANING_REASONS: Mapping[str, str] = {
    "equal_texts": "its two texts are equal",
    "repeated": "an earlier test has the same prompt, texts and category",
    "contradictory": "a candidate of it was judged both good and bad for the same prompt",
    "empty": "a candidate of it is empty or white space",
}


def clean_name(config: str) -> str:
    """Return the name of the clean variant of a config: ``authors`` -> ``clean``, ``cnn`` -> ``cnn_clean``."""
    return "clean" if config == "authors" else f"{config}_clean"


#: What follows ``pass_rate_`` in metrics that are not of a category; no category may have such a slug.
RESERVED_SLUGS = frozenset({"all", "sum", "bytes", "stderr", "pmi"})


def metric_slugs(names: Iterable[str], kind: str, prefix: str) -> dict[str, str]:
    """Map each name to its slug.

    Args:
        names: categories or severities.
        kind: what to call one of them in an error.
        prefix: what its metric's name begins with.

    Raises:
        NNDError: a name without ASCII letters or digits, or two with the same slug.
    """
    owner: dict[str, str] = {}
    for name in sorted(set(names)):
        short = slug(name)
        if not short:
            raise NNDError(f"{kind} {name!r} has no ASCII letter or digit to name a metric by; rename it")
        if short in owner:
            raise NNDError(
                f"{kind} {owner[short]!r} and {name!r} would both be reported as {prefix}{short}; rename one"
            )
        owner[short] = name
    return {name: short for short, name in owner.items()}


def category_slugs(categories: Iterable[str]) -> dict[str, str]:
    """Map each category to its slug.

    Raises:
        NNDError: as `metric_slugs`, or a category's slug is in use for something else.
    """
    slugs = metric_slugs(categories, "category", "pass_rate_")
    for category, name in slugs.items():
        if name in RESERVED_SLUGS or name.startswith(("severity_", "pmi_")) or name.endswith("_stderr"):
            raise NNDError(f"category {category!r} would be reported as pass_rate_{name}, a name in use; rename it")
    return slugs


def severity_slugs(severities: Iterable[str | None]) -> dict[str, str]:
    """Map each severity that is not empty to its slug.

    Raises:
        NNDError: as `metric_slugs`.
    """
    return metric_slugs([name for name in severities if name], "severity", "pass_rate_severity_")


def cluster_key(context: str, fields: Mapping[str, str]) -> str:
    """Return the ``cluster_id``: equal exactly for contexts that give a model the same prompt fields."""
    parts = [context]
    for name in sorted(fields):
        parts += [name, fields[name]]
    return short_hash(*parts)


def check_field_names(names: Iterable[str]) -> None:
    """Raise NNDError for a prompt field whose name is one of the schema's own columns, or no identifier."""
    for name in names:
        if name in RESERVED_COLUMNS | DOCUMENT_COLUMNS:
            raise NNDError(f"prompt field {name!r} has a name that is in use; rename it")
        if not name.isidentifier():
            raise NNDError(f"prompt field {name!r} cannot be used in a prompt template; use letters, digits and _")
