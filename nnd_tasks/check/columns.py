"""Columns, types, identifiers: is this a dataset of the schema?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from nnd_tasks.check.findings import Finding, Severity, finding, shown
from nnd_tasks.check.loading import Config
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.schema import (
    DOCUMENT_COLUMNS,
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    category_slugs,
    severity_slugs,
)
from nnd_tasks.tables import TYPES, fingerprint
from nnd_tasks.wording import counted

_AGAIN = "build the set again, with every required column filled"


def check_columns(config: Config, report: dict[str, Any] | None = None) -> tuple[list[Finding], Config | None]:
    """Check a config against the schema.

    Args:
        config: as stored.
        report: what ``build_report.json`` says of it.

    Returns:
        The findings; and the config with every column in its declared type, for the checks of its content, or None where a
        required column is missing, of a wrong type or has empty cells.
    """
    findings = [*_names(config), *_types(config)]
    if config.table.num_rows == 0:
        findings.append(finding("no_tests", "it holds no test", "build the set again", config=config.name))
    if any(one.severity is Severity.ERROR and one.code != "column_name" for one in findings):
        return findings, None
    typed = Config(config.name, _cast(config.table))
    findings += [*_identifiers(typed), *_metric_names(typed), *_clusters(typed)]
    known = (report or {}).get("fingerprint")
    if known and known != fingerprint(typed.table):
        message = f"the data have the fingerprint {fingerprint(typed.table)}, build_report.json says {known}"
        fix = "the data were changed after the build: build the set again"
        findings.append(finding("report_mismatch", message, fix, config=config.name))
    return findings, typed


def _names(config: Config) -> Iterator[Finding]:
    for name in REQUIRED_COLUMNS:
        if name not in config.table.column_names:
            message = f"the column {name!r} is missing"
            yield finding("column_missing", message, _AGAIN, config=config.name)
    for name in config.extra:
        if name in DOCUMENT_COLUMNS:
            message = f"a column is called {name!r}, which documents of the harness use"
            yield finding("column_name", message, "rename it", config=config.name, severity=Severity.ERROR)
        elif not name.isidentifier():
            message = f"the column {name!r} cannot be used in a prompt template"
            yield finding("column_name", message, "rename it with letters, digits and _", config=config.name)


def _types(config: Config) -> Iterator[Finding]:
    for name, kind in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}.items():
        if name not in config.table.column_names:
            continue
        column = config.table.column(name)
        if column.type != TYPES[kind]:
            try:
                column.cast(TYPES[kind])
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                message = f"the column {name!r} is of type {column.type}, not {kind} ({reason_of(error)})"
                yield finding("column_type", message, "build the set again", config=config.name)
                continue
        if name in REQUIRED_COLUMNS and column.null_count:
            empty = [i for i, cell in enumerate(column.to_pylist()) if cell is None]
            message = f"the column {name!r} has {counted(len(empty), 'cell')} without a value"
            yield finding("cell_empty", message, _AGAIN, rows=config.rows(empty), config=config.name)


def _cast(table: pa.Table) -> pa.Table:
    for name, kind in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}.items():
        if name in table.column_names and table.schema.field(name).type != TYPES[kind]:
            index = table.column_names.index(name)
            table = table.set_column(index, name, table.column(name).cast(TYPES[kind]))
    return table


def _identifiers(config: Config) -> Iterator[Finding]:
    seen: set[str] = set()
    again = []
    for i, key in enumerate(config.columns["test_id"]):
        if key in seen:
            again.append(i)
        seen.add(key)
    if again:
        message = f"{counted(len(again), 'test')} with the test_id of an earlier one"
        fix = "give every test an identifier of its own; results are joined by it"
        yield finding("test_id_repeated", message, fix, rows=config.rows(again), config=config.name)


def _metric_names(config: Config) -> Iterator[Finding]:
    for name, check in (("category", category_slugs), ("severity", severity_slugs)):
        try:
            check(config.columns.get(name, []))
        except NNDError as error:
            yield finding("category_name", str(error), f"rename the {name} in the source", config=config.name)


def _clusters(config: Config) -> Iterator[Finding]:
    """Check that tests have one cluster_id exactly when they have one prompt.

    The prompt is the context and the extra columns that are constant within every cluster_id.
    """
    columns = config.columns
    keys, contexts = columns["cluster_id"], columns["context"]
    first: dict[str, int] = {}
    mixed, varying = [], set()
    for i, key in enumerate(keys):
        start = first.setdefault(key, i)
        if contexts[start] != contexts[i]:
            mixed.append(i)
        varying |= {name for name in config.extra if name not in varying and columns[name][start] != columns[name][i]}
    if mixed:
        message = f"{counted(len(mixed), 'test')} with another context than an earlier test of the same cluster_id"
        fix = "give tests one cluster_id exactly when they give a model the same prompt fields"
        details = {i: shown(contexts[i]) for i in mixed[:10]}
        yield finding("cluster_mixed", message, fix, rows=config.rows(mixed, details), config=config.name)
    fields = ["context", *(name for name in config.extra if name not in varying)]
    prompts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, i in first.items():
        if not contexts[i].strip():
            continue  # in a set without contexts something else tells prompts apart
        prompts[tuple(str(columns[name][i]) for name in fields)].append(key)
    split = {key for same in prompts.values() for key in same[1:]}
    if split:
        message = f"{counted(len(split), 'cluster_id')} with the prompt fields of another one ({', '.join(fields)})"
        fix = "give them one cluster_id: standard errors take prompts for independent"
        rows = config.rows([i for i, key in enumerate(keys) if key in split])
        yield finding("cluster_split", message, fix, rows=rows, config=config.name)
