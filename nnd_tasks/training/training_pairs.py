"""Preference data: the tests of a set as prompts with a chosen and a rejected text, in splits by source, for training."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, dump_yaml, rewriting, write_text
from nnd_tasks.likelihood.scored_tokens import candidate_offsets
from nnd_tasks.publishers.licences import licence_names, terms_of, training_note
from nnd_tasks.schema import SPANS, SPANS_COLUMN, clean_name, fingerprint, short_hash
from nnd_tasks.sets.write import write_parquet
from nnd_tasks.splits import SHARES, sources_of, split_of
from nnd_tasks.store import (
    CARD,
    PREFERENCE_CONFIG,
    PREFERENCE_SECTION,
    config_names,
    default_config,
    preference_files,
    read_card,
    read_header,
    read_report,
    read_table,
    version_of,
    without_preferences,
)
from nnd_tasks.task.sandbox import fill_template
from nnd_tasks.task.settings import Settings
from nnd_tasks.task.task_files import tasks_on

#: Column -> that of the tests; those that a set does not have are left out.
_COLUMNS = {
    **{name: name for name in ("category", "severity", "cluster_id")},
    **{"chosen_model": "high_system", "rejected_model": "low_system", "test_id": "test_id"},
}
_ABOUT = """\
Pairs for training (`prompt`, `chosen`, `rejected`), split by source, the same in all sets; only clean tests, with the prompt \
of the task named here. `nnd build {name} --preference` made them.

| config | task | train | validation | test | sources |
|---|---|---:|---:|---:|---:|
"""


def add_preferences(folder: Path, *, chat: bool = False) -> dict[str, dict[str, int]]:
    """Write the preference data of each config of a built set beside it, in place of earlier ones.

    They are made of the clean config where there is one, with the prompt of the set's main task.

    Args:
        folder: the dataset folder.
        chat: write lists of messages in place of strings.

    Returns:
        Config -> split -> number of pairs; configs that no task scores are left out.

    Raises:
        NNDError: no task scores any config, a prompt cannot be rendered, or the folder cannot be read or written.
    """
    header, (_, card), reports = read_header(folder), read_card(folder), read_report(folder)
    name = header.get("nnd_set") or folder.resolve().name
    licences = licence_names(header.get("license"))
    tables: dict[str, dict[str, pa.Table]] = {}
    entries, rows, notes = [], [], []
    for config, tested in _sources_of_pairs(header, reports):
        task = next(tasks_on(name, tested), None)
        if task is None:
            continue
        target = PREFERENCE_CONFIG if config == default_config(header) else f"{config}_{PREFERENCE_CONFIG}"
        pairs = make_pairs(read_table(folder, tested), task, chat=chat)
        splits = np.array([split_of(source) for source in pairs["source_id"].to_pylist()])
        tables[target] = {split: pairs.filter(pa.array(splits == split)) for split in SHARES}
        # `datasets` cannot read a file without rows.
        files = [file for file in preference_files(target) if tables[target][file["split"]].num_rows]
        note = training_note(terms_of(name, reports, config), licences)
        notes.append(note)
        version = version_of(short_hash(*map(fingerprint, tables[target].values())))
        entry = {"config_name": target, "data_files": files, "version": version}
        entries.append({**entry, **({"description": note} if note else {})})
        sizes = [f"{table.num_rows:,}" for table in tables[target].values()]
        cells = [f"`{target}`", f"`{task['task']}`", *sizes, f"{pc.count_distinct(pairs['source_id'])}"]
        rows.append(f"| {' | '.join(cells)} |\n")
    if not tables:
        raise NNDError(f"{folder}: no task scores any config of {name}, so there is no prompt; build it without --out")
    earlier = config_names(header, PREFERENCE_CONFIG)
    header["configs"] = [entry for entry in header["configs"] if entry["config_name"] not in earlier] + entries
    terms = "\n\n".join(dict.fromkeys(filter(None, notes)))
    section = f"{PREFERENCE_SECTION}\n\n{_ABOUT.format(name=name)}{''.join(rows)}\n{terms}\n\n"
    with changing(folder), rewriting(folder) as new:
        shutil.copytree(
            folder, new, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(PREFERENCE_CONFIG)
        )
        for config, by_split in tables.items():
            for split, table in by_split.items():
                if table.num_rows:
                    write_parquet(table, new / PREFERENCE_CONFIG / config / f"{split}-00000-of-00001.parquet")
        body = without_preferences(card).replace("## Known limits", f"{section}## Known limits", 1)
        write_text(new / CARD, f"---\n{dump_yaml(header)}---\n{body}")
    return {config: {split: table.num_rows for split, table in by_split.items()} for config, by_split in tables.items()}


def _sources_of_pairs(header: Mapping[str, Any], reports: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each config of tests that is no clean one, and the config that its pairs are made of."""
    names = config_names(header)
    for config in names:
        report = reports.get(config, {})
        clean = clean_name(config) if "cleaning" in report else config
        if "cleaned_from" not in report and clean in names:
            yield config, clean


def make_pairs(tests: pa.Table, task: Mapping[str, Any], *, chat: bool = False) -> pa.Table:
    """Make preference data of tests, a row each.

    Args:
        tests: rows of the dataset schema.
        task: the YAML of the task whose prompt is taken.
        chat: write lists of messages in place of strings.

    Returns:
        ``prompt``, ``chosen`` and ``rejected``: prompt and text follow each other as the task scores them; in a chat the user's
        and the assistant's message. ``category``, ``severity``, ``cluster_id``, ``chosen_model``, ``rejected_model``,
        ``test_id``; ``source_id``, which decides the split; ``margin``: difference of people's scores; ``rejected_spans``:
        the marked errors, in characters of ``rejected``. What the set does not know is left out.

    Raises:
        NNDError: the prompt cannot be rendered, or the task puts more around it.
    """
    for key in ("description", "gen_prefix"):
        if task.get(key):
            raise NNDError(f"task {task['task']}: it sets {key}, which preference data do not have")
    settings, delimiter = Settings.read(task.get("metadata") or {}), "" if chat else task["target_delimiter"]
    texts: dict[str, list[Any]] = {"prompt": [], "chosen": [], "rejected": []}
    spans = []
    for test in tests.to_pylist():
        prompt = str(fill_template(task["doc_to_text"], test, f"task {task['task']}: doc_to_text"))
        chosen, rejected = (f"{delimiter}{settings.scored(test[side])}" for side in ("high", "low"))
        offsets = candidate_offsets(test["low"], rejected)
        spans.append([_move_span(span, offsets) for span in test.get(SPANS_COLUMN) or ()])
        for name, text in zip(texts, (prompt, chosen, rejected), strict=True):
            role = "user" if name == "prompt" else "assistant"
            texts[name].append([{"role": role, "content": text}] if chat else text)
    columns = {name: tests[column] for name, column in _COLUMNS.items() if column in tests.column_names}
    if {"high_score", "low_score"} <= {*tests.column_names}:
        columns["margin"] = pc.subtract(tests["high_score"], tests["low_score"])
    if SPANS_COLUMN in tests.column_names:
        columns["rejected_spans"] = pa.array(spans, SPANS)
    return pa.table({**texts, **columns, "source_id": sources_of(tests)})


def _move_span(span: Mapping[str, Any], offsets: Any) -> dict[str, Any]:
    """Find a span's characters in a text, by the character of the candidate that each of them is."""
    start, end = np.searchsorted(offsets, span["start"], side="right") - 1, np.searchsorted(offsets, span["end"])
    return {**span, "start": int(start), "end": int(end)}
