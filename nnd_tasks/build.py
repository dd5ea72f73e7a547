"""Build a set: name -> source -> tests -> dataset folder, with a build report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.analysis.reading import rules_section, trivial_rates
from nnd_tasks.cleaning import REASONS, clean, clean_name
from nnd_tasks.datasets import dataset_folder, write_dataset
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.markdown import cell, code
from nnd_tasks.pairing import PairingReport, form_tests
from nnd_tasks.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, Annotation, Test
from nnd_tasks.sources import get_source
from nnd_tasks.sources.base import Source
from nnd_tasks.sources.demo import PATH as DEMO_PATH
from nnd_tasks.sources.download import Fetched, fetch, sha256_of
from nnd_tasks.tables import ConfigSummary, check_table, summarize, to_table
from nnd_tasks.wording import counted

NND_CITATION = """@inproceedings{laban2022nnd,
  title = {Near-Negative Distinction: Giving a Second Life to Human Evaluation Datasets},
  author = {Laban, Philippe and Wu, Chien-Sheng and Liu, Wenhao and Xiong, Caiming},
  booktitle = {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing},
  year = {2022}
}"""


@dataclass(frozen=True)
class BuildResult:
    """What `build_set` made.

    Attributes:
        folder: the dataset folder.
        built: summaries of the configs of this build.
        kept: names of other configs that the folder had and still has.
        notes: one line each for what the user should know.
        report: per config, what is stored in ``build_report.json``.
    """

    folder: Path
    built: list[ConfigSummary]
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


def build_set(
    name: str,
    source: str | Path | None = None,
    out: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    *,
    progress: bool = True,
) -> BuildResult:
    """Build the set ``name`` into a dataset folder.

    Args:
        name: a key of `nnd_tasks.sources.SOURCES`.
        source: the publisher's file, or a folder that holds it; None downloads it.
        out: the dataset folder to write; None takes ``$NND_HOME/nnd/NAME``.
        options: options of the source, such as ``{"rows": "all"}`` for SummEval.
        progress: show progress of downloads.

    Raises:
        NNDError: unknown set or option, a source that cannot be read, a folder that cannot be written.
    """
    origin = get_source(name)
    chosen = _options(origin, options or {})
    notes: list[str] = []
    fetched: Fetched | None = None
    if source is not None:
        files = _locate(origin, expand(source))
    elif origin.name == "demo":
        files = {DEMO_PATH.name: DEMO_PATH}
    else:
        fetched = fetch(origin, progress=progress)
        files = fetched.files
        notes += [
            f"unverified: {file} has no published hash; its content at the first download is recorded"
            for file in fetched.unverified
        ]

    try:
        tables, report, notes_of_cleaning = _form(origin, files, chosen)
    except NNDError:
        if fetched is not None:
            fetched.discard()
        raise
    notes += notes_of_cleaning
    for config, table in tables.items():
        expected = origin.published.get(config, table.num_rows)
        if expected != table.num_rows:
            notes.append(
                f"{config}: {counted(table.num_rows, 'test')}, published are {expected:,}: another version of the file?"
            )

    other = any(tables[config].num_rows != count for config, count in origin.published.items() if config in tables)
    if fetched is not None and fetched.unsure and other:
        notes.append(
            f"{' and '.join(fetched.unsure)}: not kept, as it may be cut off; the next build downloads it again"
        )
        fetched.discard(fetched.unsure)

    folder = expand(out) if out is not None else dataset_folder(name)
    summaries = write_dataset(
        folder,
        tables,
        header=lambda all_summaries: _header(origin, [summary.name for summary in all_summaries]),
        body=lambda all_summaries, reports: card_body(origin, all_summaries, reports),
        default=origin.default_config,
        report=report,
        obsolete={clean_name(config) for config in tables} - set(tables),
    )
    return BuildResult(
        folder=folder,
        built=[summary for summary in summaries if summary.name in tables],
        kept=[summary.name for summary in summaries if summary.name not in tables],
        notes=notes,
        report=report,
    )


def _locate(source: Source, place: Path) -> dict[str, Path]:
    try:
        return source.locate(place)
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise NNDError(f"{place}: cannot be read ({error.strerror or error})") from error


def _form(
    source: Source, files: Mapping[str, Path], options: Mapping[str, str]
) -> tuple[dict[str, pa.Table], dict[str, Any], list[str]]:
    """Return config -> table of tests, config -> report, and notes; each config is followed by its clean variant."""
    tables: dict[str, pa.Table] = {}
    report: dict[str, Any] = {}
    notes: list[str] = []
    provenance = {file: sha256_of(path) for file, path in sorted(files.items())}
    # A report travels with the data: of a local folder it keeps the name, not the place.
    shown = {key: Path(value).name if Path(value).exists() else value for key, value in options.items()}
    where = ", ".join(str(path) for path in files.values())
    origin = {"source_sha256": provenance, "options": shown, "nnd_tasks": __version__}

    def add(config: str, tests: list[Test], details: Mapping[str, Any]) -> None:
        if config in tables:
            raise NNDError(f"two configs would be called {config!r}; rename one of {', '.join(files)}")
        tables[config] = check_table(to_table(tests), where)
        counts = {k: v for k, v in asdict(summarize(config, tables[config])).items() if k != "name"}
        aids = {
            "trivial_rules": trivial_rates([(t.context, t.high, t.low) for t in tests], [t.category for t in tests])
        }
        report[config] = {**details, **counts, **aids, **origin}

    for config, read in source.read(files, options).items():
        pairing = PairingReport()
        try:
            rows = list(read)
            tests = form_tests(rows, source.shape, pairing)
        except NNDError as error:
            if any(str(path) in str(error) for path in files.values()):
                raise
            raise NNDError(f"{where}: {error}") from error  # pairing knows contexts, not files
        if not tests:
            raise NNDError(
                f"{where}: no test comes out of its {pairing.annotations} "
                "annotations: no context has two candidates of known different quality"
            )
        if pairing.left_out and source.left_out_note:
            notes.append(f"{config}: {pairing.left_out:,} {source.left_out_note}")
        cleaning = clean(tests, pairing)
        kept, told = cleaning.tests, cleaning.report()
        mended = [source.mended(row) for row in rows]
        if any(new is not row for new, row in zip(mended, rows, strict=True)):
            kept, of_mended = _clean_anew(source, rows, mended)
            told |= {"kept": len(kept), "mended": of_mended}
        add(config, tests, {**pairing.counts(), "cleaning": told})
        if kept:
            add(clean_name(config), kept, {"cleaned_from": config})
        else:
            notes.append(f"{config}: no test is left for {clean_name(config)}, so there is none")
    return tables, report, notes


def _clean_anew(
    source: Source, rows: Sequence[Annotation], mended: Sequence[Annotation | None]
) -> tuple[list[Test], dict[str, int]]:
    """Return the clean tests of annotations that a source mended, and counts: what changed, and the tests before cleaning."""
    left = [row for row in mended if row is not None]
    changed = sum(new is not None and new is not row for new, row in zip(mended, rows, strict=True))
    pairing = PairingReport()
    tests = form_tests(left, source.shape, pairing)
    counts = {"changed": changed, "left_out": len(rows) - len(left), "tests": len(tests)}
    return clean(tests, pairing).tests, counts


def _options(source: Source, given: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(set(given) - set(source.options))
    if unknown:
        raise NNDError(f"set {source.name} has no option --{unknown[0]}")
    return {key: given.get(key, default) for key, (default, _) in source.options.items()}


# ---------------------------------------------------------------- the card


def _header(source: Source, configs: Sequence[str]) -> dict[str, Any]:
    header: dict[str, Any] = {
        "nnd_set": source.name,
        "license": source.licence,
        "language": source.languages(configs),
        "pretty_name": f"NND {source.title}",
        "task_categories": [source.task_category],
        "tags": ["nnd", "near-negative-distinction", "lm-evaluation-harness", "human-evaluation"],
    }
    return {key: value for key, value in header.items() if value}


COLUMN_NOTES = {
    "test_id": "identifier of the test, stable over builds",
    "context_id": "group in which pairs were formed",
    "cluster_id": "all tests that give a model the same prompt fields",
    "context": "what the model is given",
    "high": "the better candidate",
    "low": "the worse candidate",
    "category": "error of the worse candidate, or the aspect or kind of context",
    "high_first": "whether the better candidate comes first in the source",
    "subcategory": "finer label",
    "severity": "severity of the error",
    "high_label": "label of the better candidate as published",
    "low_label": "label of the worse candidate as published",
    "high_system": "system that wrote the better candidate",
    "low_system": "system that wrote the worse candidate",
    "high_score": "score of the better candidate",
    "low_score": "score of the worse candidate",
    "rater": "who judged the worse candidate",
    "noise_ratio": "word-level Levenshtein distance of the worse candidate from the better one, over its words",
    "seed": "of the random choices of a synthetic error",
}


def card_body(source: Source, summaries: Sequence[ConfigSummary], reports: Mapping[str, Any] | None = None) -> str:
    """Return the Markdown of the dataset card.

    Args:
        source: where the set comes from.
        summaries: of all configs that the folder holds.
        reports: config -> its part of ``build_report.json``.
    """
    lines = [
        f"# NND {source.title}",
        "",
        "A Near-Negative Distinction test set: each row is one test, a context with a better and a worse candidate by "
        "human judgement. A language model passes when the mean log-likelihood per token that it gives the better candidate is "
        "strictly higher (Laban et al., EMNLP 2022).",
        "",
        source.summary,
        "",
        "## Sizes",
        "",
        "| config | tests | clusters (distinct prompts) | distinct (prompt, candidate) | fingerprint |",
        "|---|---|---|---|---|",
        *[f"| `{s.name}` | {s.tests:,} | {s.clusters:,} | {s.candidates:,} | `{s.fingerprint}` |" for s in summaries],
        "",
        "| config | category | tests |",
        "|---|---|---|",
        *[
            f"| `{s.name}` | {cell(category)} | {count:,} |"
            for s in summaries
            for category, count in s.categories.items()
        ],
        "",
        "## Use",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        f'tests = load_dataset("nnd/{source.name}", "{summaries[0].name}", split="test")',
        "```",
        "",
        f"With lm-evaluation-harness: `nnd run --model hf --model_args pretrained=MODEL --tasks {_task_hint(source)}`.",
        "",
        "## Columns",
        "",
        "| column | what it holds |",
        "|---|---|",
        *[f"| `{name}` | {COLUMN_NOTES[name]} |" for name in REQUIRED_COLUMNS],
        *[f"| `{name}` | {COLUMN_NOTES[name]} (where the source has it) |" for name in OPTIONAL_COLUMNS],
        *[f"| `{name}` | prompt field: {what} |" for name, what in source.fields.items()],
        "",
        "Texts are as published, in Unicode NFC, and nothing was trimmed.",
        "",
        *rules_section(reports or {}),
        *_cleaning_section(reports or {}, source.mended_note),
        "## Origin and licence",
        "",
        f"Human evaluation: {source.title}"
        + (f", {source.homepage}" if source.homepage else "")
        + f". Licence: {source.licence}. {source.licence_note}".rstrip(),
        "",
        f"Built with nnd-tasks {__version__}. `build_report.json` has the hashes of the source files and all counts.",
        "",
        "## Citation",
        "",
        "```bibtex",
        *([source.citation, ""] if source.citation else []),
        NND_CITATION,
        "```",
    ]
    return "\n".join(lines)


def _cleaning_section(reports: Mapping[str, Any], mended_note: str = "") -> list[str]:
    """Return what the card says of the clean configs: how many tests each reason holds for, and examples."""
    found = {
        name: part["cleaning"] for name, part in reports.items() if isinstance(part, Mapping) and "cleaning" in part
    }
    if not found:
        return []
    lines = [
        "## Clean configs",
        "",
        "A config keeps every test, as the authors' release does; its clean variant leaves out a test when:",
        "",
        *[f"- `{reason}`: {what}" for reason, what in REASONS.items()],
        "",
        "| config | tests | " + " | ".join(f"`{reason}`" for reason in REASONS) + " | left in | clean config |",
        "|---" * (len(REASONS) + 4) + "|",
    ]
    for name, part in found.items():
        reasons = part["reasons"]
        cells = [f"{reasons[reason]['tests']:,}" for reason in REASONS]
        cells[list(REASONS).index("contradictory")] += (
            f" ({counted(reasons['contradictory']['candidates'], 'candidate')})"
        )
        kept = f"{part['kept']:,} | `{clean_name(name)}`" if part["kept"] else "0 | none"
        lines.append(f"| `{name}` | {reports[name]['tests']:,} | {' | '.join(cells)} | {kept} |")
    mended = {name: part["mended"] for name, part in found.items() if "mended" in part}
    if mended:
        lines += ["", f"Before that, {mended_note}:", ""]
    for name, part in mended.items():
        changed = f"{part['changed']:,} annotation{' was' if part['changed'] == 1 else 's were'} changed"
        given = counted(part["tests"], "test")
        lines.append(f"- `{clean_name(name)}`: {changed} and {part['left_out']:,} left out; the others give {given}")
    lines += ["", "A test can have several reasons. Examples, shortened:", ""]
    for name, part in found.items():
        for reason in REASONS:
            for test in part["reasons"][reason]["examples"][:1]:
                lines.append(
                    f"- `{name}`, `{reason}`, test {code(test['test_id'])} ({cell(test['category'])}): "
                    f"better: {cell(test['high']) or '(nothing)'}; worse: {cell(test['low']) or '(nothing)'}"
                )
    return [*lines, ""]


def _task_hint(source: Source) -> str:
    return {"mqm": "nnd_mqm_ende", "news_gpt3": "nnd_news_gpt3_cnn"}.get(source.name, f"nnd_{source.name}")
