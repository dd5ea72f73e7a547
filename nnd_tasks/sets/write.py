"""Write dataset folders: the card, and the folder, which is replaced as a whole: a reader sees the earlier build or the new one.

The card of every set is a template, filled with what people know of the set and what its build counted.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from nnd_tasks import __version__
from nnd_tasks.baselines import BASELINES
from nnd_tasks.categories import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, dump_yaml, expand, only_writer, read_text, rewriting
from nnd_tasks.languages import language_pair
from nnd_tasks.markdown import code, escape_markdown, fenced
from nnd_tasks.publishers.licences import terms_of
from nnd_tasks.schema import (
    CLEANING_REASONS,
    RESERVED_COLUMNS,
    SCHEMA_VERSION,
    ConfigSummary,
    check_table,
    clean_name,
    fingerprint,
    summarize,
)
from nnd_tasks.sets.account import describe_accounts
from nnd_tasks.store import (
    CARD,
    JUDGEMENTS,
    PREFERENCE_CONFIG,
    REPORT,
    SPLIT,
    config_names,
    is_name,
    judgements_name,
    list_files,
    parse_card,
    read_header,
    read_judgements,
    read_report,
    read_table,
    version_of,
)
from nnd_tasks.tables.read import describe_features
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Facts

#: Fact that only a person can know -> what to write; a card says TODO where it is not known.
KNOWN_BY_PEOPLE: Mapping[str, str] = {
    "license": "licence of the texts and judgements, as the hub writes it, such as cc-by-4.0",
    "language": "languages of the texts, such as en",
    "summary": "what was evaluated, in a sentence or two",
    "judges": "who judged, how many, and what they were asked",
    "homepage": "where the judgements come from",
    "citation": "BibTeX of the human evaluation",
}
#: What a card says of the errors of worse candidates, by the recipe's ``errors``.
ERRORS: Mapping[str, str] = {
    "judged": "judged (people judged texts as systems or people had written them)",
    "made": "made (put in on purpose)",
}
_BEGIN, _END = "<!-- kept by builds: begin -->", "<!-- kept by builds: end -->"
#: The hub's size categories, from 1 to 10^9 tests.
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B")


@dataclass(frozen=True)
class CardFacts:
    """What a card says besides counts.

    Attributes:
        name: of the set.
        facts: of its recipe.
        rule: what makes a candidate better, in a sentence.
        recipe: YAML, shown where the set does not come with the package.
        pairs: whether the table held ready-made pairs.
        synthetic: whether a program of this package put the errors in.
        how_made: Markdown lines on how the set was made, where no recipe says it.
    """

    name: str
    facts: Facts
    rule: str = ""
    recipe: str = ""
    pairs: bool = False
    synthetic: bool = False
    how_made: tuple[str, ...] = ()


def make_card(
    card_facts: CardFacts,
    summaries: Sequence[ConfigSummary],
    columns: Iterable[str],
    reports: Mapping[str, Any],
    judgements: Mapping[str, pa.Table] | None = None,
    *,
    default: str,
    earlier: str = "",
) -> str:
    """Return the card of a set: its header as YAML between two lines of ---, and its Markdown.

    Args:
        card_facts: what people know of the set.
        summaries: of all configs.
        columns: of the tables.
        reports: config -> its part of ``build_report.json``.
        judgements: config -> its single judgements, where it has some.
        default: the config that `datasets.load_dataset` takes where none is named; the first one if the set lacks it.
        earlier: the card that this one replaces. What people wrote between its two markers stays, and so do fields that they
            added to its header.

    Raises:
        NNDError: ``earlier`` cannot be read, or has one marker without the other.
    """
    names = [summary.name for summary in summaries]
    tests = sum(summary.tests for summary in summaries)
    errors = "synthetic" if card_facts.synthetic else card_facts.facts.errors
    languages = [*card_facts.facts.language, *(language for name in names for language in language_pair(name) or ())]
    header = {
        "nnd_set": card_facts.name,
        "license": find_fact(card_facts.facts, "license"),
        "language": list(dict.fromkeys(languages)) or [todo("language")],
        "pretty_name": f"NND {card_facts.facts.title or card_facts.name}",
        "task_categories": [card_facts.facts.task_category],
        "tags": [
            *("nnd", "near-negative-distinction", "lm-evaluation-harness"),
            {"judged": "human-evaluation", "made": "made-errors"}.get(errors, errors),
        ],
        "size_categories": [_SIZES[max(len(str(tests)) - 3, 0)]],
        "configs": [
            {
                "config_name": summary.name,
                "data_files": list_files(summary.name),
                "version": version_of(summary.fingerprint),
                **({"default": True} if summary.name == (default if default in names else names[0]) else {}),
            }
            for summary in summaries
        ]
        + [
            {
                "config_name": judgements_name(config),
                "data_files": list_files(f"{JUDGEMENTS}/{judgements_name(config)}"),
                "version": version_of(fingerprint(table)),
            }
            for config, table in (judgements or {}).items()
        ],
        "nnd_schema_version": SCHEMA_VERSION,
    }
    earlier_header, written = _find_written(earlier) if earlier else ({}, "\n")
    header = {**header, **earlier_header, **header}
    rates = [report["trivial_rules"][ALL] for report in reports.values() if "trivial_rules" in report]
    sources: dict[tuple[str, str], list[str]] = {}
    for name, report in reports.items():
        for source in report.get("source_sha256", {}).items():
            sources.setdefault(source, []).append(name)
    body = _template().render(
        card=card_facts,
        facts=card_facts.facts,
        kind=errors,
        summaries=summaries,
        judgements=judgements or {},
        columns=list(columns),
        reports=reports,
        rules={
            rule: text for rule, text in BASELINES.items() if any(rule in rates_of_config for rates_of_config in rates)
        },
        terms=terms_of(card_facts.name, reports),
        sources=sources,
        kept=Markup(f"{_BEGIN}{written}{_END}"),  # noqa: S704 (the user's own Markdown)
    )
    return f"---\n{dump_yaml(header)}---\n\n{body}"


def find_fact(facts: Facts, key: str) -> str:
    """Return a fact of `KNOWN_BY_PEOPLE`, or a TODO where it is unknown; ``""`` where there is nothing to say."""
    value = getattr(facts, key)
    if value in (None, ()):
        return todo(key)
    return value if isinstance(value, str) else ", ".join(value)


def todo(key: str) -> str:
    """Return the TODO that a card shows for a fact that only a person can know."""
    return f"TODO({KNOWN_BY_PEOPLE[key]})"


def _find_written(card: str) -> tuple[dict[str, Any], str]:
    """Return the header of a card, and what people wrote between its markers."""
    header, body = parse_card(card, CARD)
    written = re.findall(f"(?ms)^{_BEGIN}$(.*?)^{_END}$", body)
    if any(len(re.findall(f"(?m)^{line}$", body)) != len(written) for line in (_BEGIN, _END)):
        raise NNDError(
            f"{CARD}: a line {_BEGIN!r} or {_END!r} is missing; put it back, or write all anew with --replace"
        )
    published = ("dataset_info", "nnd_published")  # written by publishing, about what was published
    return {key: value for key, value in header.items() if key not in published}, "".join(written) or "\n"


# ---------------------------------------------------------------- the template


def _write(value: Any) -> Markup:
    """Return Markdown as it is, and any other text on one line, without HTML and fences of code."""
    if isinstance(value, Markup):
        return value
    text = html.escape(" ".join(str(value).split()), quote=False)
    return Markup(re.sub("(```|~~~)", r"\\\1", text))  # noqa: S704


def _fence(text: str, language: str) -> Markup:
    # A text of a stranger must not be taken for one of the markers.
    return Markup("\n".join(fenced(language, text.rstrip("\n").replace("<!-- kept", "<! -- kept"))))  # noqa: S704


@cache
def _template() -> Template:
    """Return the template. What no filter has made Markdown is text, and its HTML is escaped."""
    env = Environment(  # noqa: S701 (quotes stay as they are, which autoescape would change)
        finalize=_write,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name, make in {"code": code, "plain": escape_markdown, "number": "{:,}".format}.items():
        env.filters[name] = lambda value, make=make: Markup(make(value))  # noqa: S704 (they escape)
    env.filters |= {"fence": _fence, "markdown": Markup, "counted": counted}
    env.globals |= {"ALL": ALL, "ERRORS": ERRORS, "REASONS": CLEANING_REASONS, "RESERVED": RESERVED_COLUMNS}
    env.globals |= {
        "judgements_name": judgements_name,
        "clean_name": clean_name,
        "find_fact": find_fact,
        "describe_accounts": describe_accounts,
        "version": __version__,
    }
    return env.from_string(Path(__file__).with_name("card.md.j2").read_text(encoding="utf-8"))


_ELSEWHERE = "choose another place with NND_HOME, or with nnd build --out"


# ---------------------------------------------------------------- the folder


@contextmanager
def making(folder: Path, timeout: float = 600.0) -> Iterator[None]:
    """Let one process at a time make the set in ``folder``, as its data, its task and its recipe belong together.

    Args:
        folder: the dataset folder.
        timeout: seconds to wait for another process.

    Raises:
        NNDError: another process makes it for longer than that, or the place takes no files.
    """
    busy = f"{folder}: another command is making this set; run this one again when that is done, or take another name"
    with changing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(folder.with_name(f"{folder.name}.making"), timeout, busy):
        yield


def write_dataset(
    folder: Path,
    tables: Mapping[str, pa.Table],
    judgements: Mapping[str, pa.Table] | None = None,
    *,
    card_facts: CardFacts,
    report: Mapping[str, Any],
    default: str,
    obsolete: Collection[str] = (),
    known_summaries: Mapping[str, ConfigSummary] | None = None,
    replace: bool = False,
    timeout: float = 600.0,
) -> list[ConfigSummary]:
    """Write tables as configs of the dataset in a folder, beside those that it already has.

    Args:
        folder: the dataset folder; it is replaced as a whole, or not at all.
        tables: config -> tests.
        judgements: config -> its single judgements, for those that have some.
        card_facts: what the card says besides counts.
        report: config -> what is stored in ``build_report.json``.
        default: the config that `datasets.load_dataset` picks when none is named.
        obsolete: configs that are removed if the folder has them.
        known_summaries: config -> its summary, where there is one already.
        replace: forget what people wrote on the card.
        timeout: seconds to wait for another process that writes the folder.

    Returns:
        Summaries of all configs that the folder holds now.

    Raises:
        NNDError: the folder holds something else, cannot be written, or another process keeps it locked.
    """
    if wrong := [name for name in tables if not is_name(name)]:
        raise NNDError(f"config {wrong[0]!r}: a config is named by letters, digits, _, - and .")
    with changing(folder, hint=_ELSEWHERE), ExitStack() as stack:
        folder = expand(expand(folder).resolve())
        if not folder.name:
            raise NNDError(f"{folder}: no folder that a dataset can be written to; {_ELSEWHERE}")
        new = stack.enter_context(rewriting(folder, timeout))
        earlier_tables = {
            name: table
            for name, table in _read_existing(folder, card_facts.name, tables).items()
            if name not in obsolete
        }
        _keep_the_rest(folder, new)
        merged = earlier_tables | {name: check_table(table, f"config {name}") for name, table in tables.items()}
        earlier_reports = read_report(folder) if earlier_tables else {}
        reports = {name: details for name, details in earlier_reports.items() if name in earlier_tables} | dict(report)
        kept = dict(judgements or {})
        for name in earlier_tables.keys() - tables.keys():
            with suppress(NNDError):  # a damaged one is left out, as configs are
                if (earlier_judgements := read_judgements(folder, name)) is not None:
                    kept[name] = earlier_judgements
        summaries = [(known_summaries or {}).get(name) or summarize(name, table) for name, table in merged.items()]
        columns = list(dict.fromkeys(column for table in merged.values() for column in table.column_names))
        earlier = read_text(folder / CARD) if (folder / CARD).is_file() and not replace else ""
        card = make_card(card_facts, summaries, columns, reports, kept, default=default, earlier=earlier)
        for name, table in {**merged, **{f"{JUDGEMENTS}/{judgements_name(name)}": kept[name] for name in kept}}.items():
            write_parquet(table, new / name / f"{SPLIT}-00000-of-00001.parquet")
        # Written as they are: an error then names the folder, not the new one, which takes its place as a whole.
        (new / CARD).write_text(card, encoding="utf-8")
        (new / REPORT).write_text(json.dumps(reports, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return summaries


def _read_existing(folder: Path, name: str, new: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the readable configs of a folder that is to be written, and in the place of some the new ones.

    Raises:
        NNDError: it holds something else than this set, or was written by a later release.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return {}
    try:
        header = read_header(folder, any_version=True)
    except NNDError as error:
        raise NNDError(f"{error}; what is there is left alone, {_ELSEWHERE}") from error
    version = header["nnd_schema_version"]
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise NNDError(f"{folder}: written by a later release (schema version {version}); {_ELSEWHERE}")
    if header.get("nnd_set", name) != name:
        raise NNDError(f"{folder}: holds the set {header['nnd_set']}; {_ELSEWHERE}")
    tables = {}
    for config in config_names(header) if version == SCHEMA_VERSION else ():
        try:
            tables[config] = new[config] if config in new else read_table(folder, config)
        except NNDError:
            continue  # a damaged config is built again, or left out
    return tables


def _keep_the_rest(folder: Path, new: Path) -> None:
    """Copy what others put into a folder, such as the .git of a clone of the hub's repository."""
    ours = {
        CARD,
        REPORT,
        PREFERENCE_CONFIG,
        JUDGEMENTS,
        *(path.parent.name for path in folder.glob(f"*/{SPLIT}-*.parquet")),
    }
    if folder.is_dir():
        shutil.copytree(
            folder, new, symlinks=True, dirs_exist_ok=True, ignore=lambda path, _: ours if path == str(folder) else ()
        )


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with the features that `datasets` reads from the metadata of a parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(describe_features(table.schema)), path, compression="zstd")
