"""The dataset schema: a row per test, its columns and their types, and the identifiers and metric names derived from them.

As in the paper (Laban et al., EMNLP 2022, section 2.1), a *test* is a (context, higher, lower) triple whose two candidates
differ in quality in a known direction.

A set is a folder with a card (``README.md``, with ``nnd_schema_version: 1``) and a file per config,
``CONFIG/test-00000-of-00001.parquet``. The card says what each column holds. Columns that every set has, without nulls:

- ``test_id``: 16 hex digits, unique in the config
- ``context_id``: the group in which pairs were formed
- ``cluster_id``: names the prompt: equal exactly when a model reads the same prompt fields
- ``context``: what a model reads; may be empty. ``high``, ``low``: the better and the worse text
- ``category``: kind of error, or rated aspect
- ``high_first``: whether the better text came first in the publisher's file

Optional are ``subcategory``, ``severity``, ``high_label``, ``low_label``, ``high_system``, ``low_system``, ``high_score``,
``low_score`` (float64), ``rater``, ``noise_ratio`` (float64) and ``seed`` (int64) of synthetic errors, and ``low_spans`` (a list
of ``start``, ``end``, ``category``, ``severity``). Any other string column that a prompt uses is a *prompt field*; it is equal
for all tests of a prompt. Texts are Unicode NFC and otherwise as published, unless the card says otherwise.

The metric of a category is ``pass_rate_<slug>``: lower case, ``_`` for all but letters and digits of any script. A hash follows
the slug of a category where another category has the same one, or where it has a meaning of its own, as ``sum`` has. The
*fingerprint* of a config is a SHA-256 over all columns; results of different fingerprints are not compared.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nnd_tasks.errors import NNDError, reason_of

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
#: Type of `SPANS_COLUMN`.
SPANS = pa.list_(
    pa.struct([("start", pa.int64()), ("end", pa.int64()), ("category", pa.string()), ("severity", pa.string())])
)
#: Name of a type -> the type that a table has.
TYPES = {"string": pa.string(), "bool": pa.bool_(), "float64": pa.float64(), "int64": pa.int64()}
_COLUMNS = {name: TYPES[type_name] for name, type_name in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}.items()} | {
    SPANS_COLUMN: SPANS
}
#: Rows that are taken at a time.
_PIECE = 10_000
RESERVED_COLUMNS = frozenset(REQUIRED_COLUMNS) | frozenset(OPTIONAL_COLUMNS) | {SPANS_COLUMN}
#: What a document of the harness holds besides prompt fields; no column may have these names.
DOCUMENT_COLUMNS = frozenset({"candidates", "tests", "error_spans", "left_out"})


def to_nfc(text: str) -> str:
    """Bring text into Unicode NFC; nothing else is changed, nothing is trimmed."""
    return unicodedata.normalize("NFC", text)


def short_hash(*texts: str) -> str:
    """Hash texts: 16 hex digits of SHA-256; ("ab", "c") and ("a", "bc") differ."""
    parts = (text.encode("utf-8") for text in texts)
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()[:16]


def hash_rows(*columns: Iterable[str]) -> list[str]:
    """Hash the texts of each row of some columns, as `short_hash` does, in less time."""
    hashes: list[str] = []
    cells = [np.asarray(column, dtype=object) for column in columns]
    for start in range(0, len(cells[0]), _PIECE):
        parts: list[pa.Array] = []
        for column in cells:
            texts = pa.array(column[start : start + _PIECE], pa.binary())
            sizes = pa.py_buffer(pc.binary_length(texts).to_numpy().astype(">i8"))
            parts += [pa.Array.from_buffers(pa.binary(8), len(texts), [None, sizes]).cast(pa.binary()), texts]
        rows = pc.binary_join_element_wise(*parts, b"").to_numpy(zero_copy_only=False)
        hashes += [hashlib.sha256(row).hexdigest()[:16] for row in rows]
    return hashes


def slug(name: str) -> str:
    """Write a name as it stands in names of metrics and configs: ``Common Sense`` -> ``common_sense``.

    Letters with their marks and digits of all scripts stay. Of a name without any, the signs are named: ``👎`` ->
    ``thumbs_down_sign``. White space alone gives ``""``.
    """
    words = _join_words(name)
    return words or _join_words(" ".join(unicodedata.name(sign, f"u{ord(sign):x}") for sign in "".join(name.split())))


def _join_words(name: str) -> str:
    text, words = to_nfc(to_nfc(name).lower()), ""
    for character in text:
        kind = unicodedata.category(character)[0]
        inside = kind in "LN" or (kind == "M" and words[-1:] not in ("", "_"))
        words += character if inside else "" if words.endswith("_") else "_"
    return words.strip("_")


#: Reason -> what it says of a test, for the card.
CLEANING_REASONS: Mapping[str, str] = {
    "equal_texts": "its two texts are equal",
    "repeated": "an earlier test has the same prompt, texts and category",
    "contradictory": "a candidate of it was judged both good and bad for the same prompt",
    "empty": "a candidate of it is empty or white space",
}


def clean_name(config: str) -> str:
    """Name the clean variant of a config: ``authors`` -> ``clean``, ``cnn`` -> ``cnn_clean``."""
    return "clean" if config == "authors" else f"{config}_clean"


#: Variants of a task, each the end of its name, that a YAML may list under ``variants``.
VARIANTS = ("choice", "clean", "heldout", "judge", "rating", "validator")

#: What follows ``pass_rate_`` or the name of a measure in metrics that are not of a category.
RESERVED_SLUGS = frozenset(
    {"all", "sum", "bytes", "pmi", "half", "swapped", "no_context", "prompts", "prompts_sum", "prompts_bytes"}
)


def list_slugs(name: str, *, of_severity: bool = False) -> list[str]:
    """List the ends that the metric of a category or severity can have: the slug, unless it is in use, and one with a hash."""
    short = slug(name)
    if not short:
        raise NNDError(f"category or severity {name!r} is white space, which names no metric; rename it")
    # lm-eval takes a name that ends so for a standard error.
    in_use = f"_{short}".endswith("_stderr") or (
        not of_severity and (short in RESERVED_SLUGS or short.startswith(("severity_", "pmi_", "half_", "no_context_")))
    )
    return [*([] if in_use else [short]), f"{short}_{short_hash(name)[:8]}"]


def metric_slugs(names: Iterable[str], *, of_severity: bool = False) -> dict[str, str]:
    """Map each category, or each severity, to the end of its metric's name; no two have the same.

    Raises:
        NNDError: one is empty, or white space.
    """
    slugs = {name: list_slugs(name, of_severity=of_severity) for name in sorted(set(names))}
    shared = Counter(ends[0] for ends in slugs.values())
    return {name: ends[0] if shared[ends[0]] == 1 else ends[-1] for name, ends in slugs.items()}


#: The rates that a task reports for parts of its tests: name -> (column, value); the rate is over the tests that have the value.
Breakdown = Mapping[str, tuple[str, str]]


def break_down(categories: Iterable[str], severities: Iterable[str | None]) -> Breakdown:
    """Name a rate for each category and each severity of tests; an empty severity is none.

    Raises:
        NNDError: a category is empty, or a category or severity white space.
    """
    of_severity = metric_slugs(filter(None, severities), of_severity=True)
    return {
        **{f"pass_rate_{slug}": ("category", name) for name, slug in metric_slugs(categories).items()},
        **{f"pass_rate_severity_{slug}": ("severity", name) for name, slug in of_severity.items()},
    }


# ---------------------------------------------------------------- tables


class Fault(NamedTuple):
    """What is wrong with a table.

    Attributes:
        code: as in `nnd check`.
        note: where.
        rows: how many have it.
    """

    code: str
    note: str = ""
    rows: int = 0


def find_faults(table: pa.Table) -> tuple[pa.Table, list[Fault]]:
    """Cast the columns of the schema to their declared types, and list all that is against the schema.

    Args:
        table: one row per test.
    """
    try:
        table.validate(full=True)  # parquet from elsewhere can hold text that is not UTF-8
    except (pa.ArrowException, ValueError) as error:
        return table, [Fault("data_unreadable", reason_of(error))]
    faults = [] if table.num_rows else [Fault("no_tests")]
    for name, declared in _COLUMNS.items():
        required = name in REQUIRED_COLUMNS
        if name not in table.column_names:
            if required:
                faults.append(Fault("column_missing", repr(name)))
            continue
        try:
            cells = table[name].cast(declared)
        except (pa.ArrowException, ValueError) as error:
            faults.append(Fault("column_type", f"{name!r} is no {declared} ({reason_of(error)})"))
            continue
        fields = _name_fields(table[name].type) if name == SPANS_COLUMN else []
        if name == SPANS_COLUMN and fields != _name_fields(declared) and len(pc.list_flatten(cells)):
            # The cast fills the fields that a span lacks with nulls, and drops the others.
            said = f"its fields are {', '.join(fields)}, not {', '.join(_name_fields(declared))}"
            faults.append(Fault("column_type", f"{name!r}: {said}"))
            continue
        table = table.set_column(table.column_names.index(name), name, cells)
        if required and cells.null_count:
            faults.append(Fault("cell_empty", f"{cells.null_count:,} of {name!r}", cells.null_count))
    if faults:
        return table, faults
    ids = pc.value_counts(table["test_id"])
    if repeated := ids.filter(pc.greater(ids.field("counts"), 1)).to_pylist():
        faults.append(Fault("test_id_repeated", repr(repeated[0]["values"]), len(repeated)))
    try:
        metric_slugs(table["category"].unique().to_pylist())
    except NNDError as error:
        faults.append(Fault("category_name", str(error)))
    if SPANS_COLUMN in table.column_names:
        faults += _find_spans_outside(table)
    return table, faults


def _name_fields(spans: pa.DataType) -> list[str]:
    """List the fields of the objects in lists, in the order of the alphabet; empty for any other type."""
    objects = getattr(spans, "value_type", spans)
    return sorted(field.name for field in objects) if pa.types.is_struct(objects) else []


def _find_spans_outside(table: pa.Table) -> list[Fault]:
    """Find spans that do not lie in the worse text, and those that lack a field."""
    column = table[SPANS_COLUMN].combine_chunks()
    rows, spans = pc.list_parent_indices(column), pc.list_flatten(column)
    lengths = pc.utf8_length(table["low"]).combine_chunks().take(rows)
    start, end, *names = (pc.struct_field(spans, i) for i in range(4))
    inside = pc.and_(pc.and_(pc.greater_equal(start, 0), pc.less(start, end)), pc.less_equal(end, lengths))
    for name in names:
        inside = pc.and_(inside, pc.is_valid(name))
    outside = pc.invert(pc.fill_null(inside, False))
    if not (wrong := pc.sum(outside).as_py()):
        return []
    first = pc.index(outside, True).as_py()
    place = f"{spans[first].as_py()} in a text of {lengths[first]} characters; no field may be null"
    return [Fault("spans_outside", f"row {rows[first].as_py() + 1}: {place}", wrong)]


def check_table(table: pa.Table, source: str) -> pa.Table:
    """Cast every column of the schema to its declared type.

    Args:
        table: one row per test.
        source: what the table is called in an error.

    Raises:
        NNDError: the first of what `find_faults` finds.
    """
    table, faults = find_faults(table)
    if faults:
        raise NNDError(f"{source}: {faults[0].code.replace('_', ' ')} {faults[0].note}")
    return table


def fingerprint(table: pa.Table) -> str:
    """Hash a table: 16 hex digits that change with any cell, column name or row order, except for error spans.

    Spans do not affect pass rates, so a set keeps its fingerprint when they are added to it.
    """
    digest = hashlib.sha256()
    for name in table.column_names:
        if name == SPANS_COLUMN:
            continue
        column = table.column(name)
        digest.update(f"[{json.dumps(name, ensure_ascii=False)}, [".encode())
        for start in range(0, table.num_rows, _PIECE):  # a million texts as Python objects would take gigabytes
            piece = column.slice(start, _PIECE)
            digest.update(b", " if start else b"")
            if is_text(column):
                digest.update(_join_json(piece.combine_chunks().cast(pa.string())))
            else:  # extra columns may hold values that JSON lacks, such as dates
                digest.update(json.dumps(piece.to_pylist(), ensure_ascii=False, default=repr)[1:-1].encode("utf-8"))
        digest.update(b"]]")
    return digest.hexdigest()[:16]


def _join_json(texts: pa.Array) -> memoryview:
    """Write texts as JSON does, with a comma and a space between them."""

    def join(some: pa.Array, separator: str) -> pa.Buffer:
        return pc.binary_join(pa.ListArray.from_arrays([0, len(some)], some), separator)[0].as_buffer()

    signs = np.frombuffer(join(texts.fill_null(""), ""), np.uint8)
    signs = np.unique(signs[(signs < ord(" ")) | (signs == ord('"')) | (signs == ord("\\"))])
    for sign in sorted(map(chr, signs), key=lambda sign: sign != "\\"):  # which the others put in
        texts = pc.replace_substring(texts, sign, json.dumps(sign)[1:-1])
    return memoryview(join(pc.binary_join_element_wise('"', texts, '"', "").fill_null("null"), ", "))


def is_text(column: pa.ChunkedArray) -> bool:
    """Tell whether a column holds texts."""
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def list_texts(column: pa.ChunkedArray) -> list[Any]:
    """List the texts of a column. Equal ones are one object, as most stand in many rows."""
    values: list[Any] = []
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        texts = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
        values += texts[encoded.indices.fill_null(-1).to_numpy()].tolist()
    return values


@dataclass(frozen=True)
class ConfigSummary:
    """Counts of one config, for the card and the listing; ``clusters`` is the number of prompts."""

    name: str
    tests: int
    clusters: int
    candidates: int
    categories: dict[str, int]
    fingerprint: str


def summarize(name: str, table: pa.Table) -> ConfigSummary:
    """Count what is in a config.

    Args:
        name: of the config.
        table: its tests.
    """
    texts = [table.select(["cluster_id", name]).rename_columns(["prompt", "text"]) for name in ("high", "low")]
    return ConfigSummary(
        name=name,
        tests=table.num_rows,
        clusters=pc.count_distinct(table["cluster_id"]).as_py(),
        candidates=pa.concat_tables(texts).group_by(["prompt", "text"], use_threads=False).aggregate([]).num_rows,
        categories=dict(sorted(Counter(table["category"].to_pylist()).items())),
        fingerprint=fingerprint(table),
    )
