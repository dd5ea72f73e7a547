"""What a contributed set says of itself: its dataset card, its recipe, and the README beside its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from nnd_tasks import __version__
from nnd_tasks.analysis.reading import rules_section
from nnd_tasks.build import COLUMN_NOTES, NND_CITATION
from nnd_tasks.contribute.recipe import KNOWN_BY_PEOPLE, Recipe
from nnd_tasks.schema import RESERVED_COLUMNS
from nnd_tasks.tables import ConfigSummary

CONFIG = "default"
#: Reason -> what took no part, for a person.
REASONS: Mapping[str, str] = {
    "empty": "rows with an empty candidate",
    "no_context": "rows with an empty context",
    "no_judgement": "rows without a judgement",
    "ignored": "judgements whose label says nothing of quality",
    "tie": "candidates whose raters have no majority",
    "no_category": "pairs without a category",
    "equal_texts": "pairs of equal texts",
    "contradictory": "pairs that were judged the other way round as often or more often",
    "repeated": "pairs that repeat an earlier one",
    "no_order": "pairs of candidates neither of which is better by the rule",
    "no_pair": "candidates (of an attribute) that are in no test",
}


def todo(key: str) -> str:
    """Return what stands on a card where only a person can know what to write."""
    return f"TODO({KNOWN_BY_PEOPLE[key]})"


def known(recipe: Recipe, key: str) -> str:
    """Return a text of the recipe, or what is to be written there."""
    return str(getattr(recipe, key) or todo(key))


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.rstrip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def recipe_yaml(values: Mapping[str, Any]) -> str:
    """Return a recipe as YAML."""
    return str(yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))


def header(name: str, recipe: Recipe) -> dict[str, Any]:
    """Return the YAML header of the card, without what the data says."""
    return {
        "nnd_set": name,
        "license": known(recipe, "license"),
        "language": list(recipe.language) or [todo("language")],
        "pretty_name": f"NND {recipe.title or name}",
        "task_categories": [recipe.task_category],
        "tags": ["nnd", "near-negative-distinction", "lm-evaluation-harness", "human-evaluation"],
    }


def body(name: str, recipe: Recipe, summary: ConfigSummary, columns: Sequence[str], report: Mapping[str, Any]) -> str:
    """Return the Markdown of the dataset card.

    Args:
        name: of the set.
        recipe: how it was made.
        summary: of its tests.
        columns: of its table.
        report: what is stored in ``build_report.json``.
    """
    fields = [column for column in columns if column not in RESERVED_COLUMNS]
    lines = [
        f"# NND {recipe.title or name}",
        "",
        "A Near-Negative Distinction test set: each row is one test, a context with a better and a worse candidate by "
        "human judgement. A language model passes when the mean log-likelihood per token that it gives the better candidate is "
        "strictly higher (Laban et al., EMNLP 2022).",
        "",
        known(recipe, "summary"),
        "",
        *_sizes(summary),
        "## Use",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        f'tests = load_dataset("nnd/{name}", split="test")',
        "```",
        "",
        f"With lm-evaluation-harness: `nnd run --model hf --model_args pretrained=MODEL --tasks nnd_{name}`.",
        "",
        "## Columns",
        "",
        "| column | what it holds |",
        "|---|---|",
        *[f"| `{column}` | {COLUMN_NOTES[column]} |" for column in columns if column in COLUMN_NOTES],
        *[
            f"| `{column}` | prompt field: column {_cell(recipe.field.get(column, column))} of the table |"
            for column in fields
        ],
        "",
        "Texts are as in the table, in Unicode NFC, and nothing was trimmed; lists are written one item per line.",
        "",
        *_made(recipe, report),
        *rules_section({CONFIG: report}),
        "## Origin and licence",
        "",
        f"Human evaluation: {recipe.title or name}, {known(recipe, 'homepage')}. Licence: {known(recipe, 'license')}. "
        f"Judges: {known(recipe, 'judges')}",
        "",
        f"Built with nnd-tasks {__version__}. `build_report.json` has the hash of the source file and all counts.",
        "",
        "## Citation",
        "",
        "```bibtex",
        known(recipe, "citation").strip(),
        "",
        NND_CITATION,
        "```",
    ]
    return "\n".join(lines)


def _sizes(summary: ConfigSummary) -> list[str]:
    return [
        "## Sizes",
        "",
        "| config | tests | clusters (distinct prompts) | distinct (prompt, candidate) | fingerprint |",
        "|---|---|---|---|---|",
        f"| `{summary.name}` | {summary.tests:,} | {summary.clusters:,} | {summary.candidates:,} | `{summary.fingerprint}` |",
        "",
        "| config | category | tests |",
        "|---|---|---|",
        *[f"| `{summary.name}` | {_cell(name)} | {count:,} |" for name, count in summary.categories.items()],
        "",
    ]


def _made(recipe: Recipe, report: Mapping[str, Any]) -> list[str]:
    """Return the section on how tests were formed, and what was left out."""
    dropped = report["dropped"]
    lines = ["## How it was made", "", recipe.rule_text(), ""]
    if not recipe.pairs:
        lines += [
            f"The table has {report['rows']:,} rows with {report['judgements']:,} judgements of {report['candidates_judged']:,} "
            "candidates (distinct texts of a prompt"
            + (", for each attribute" if recipe.attribute else "")
            + "; texts that differ in white space only count as one). "
            + ("Of several labels the one that most judgements give counts." if recipe.by_label else "")
            + ("Of several scores the mean counts." if recipe.min_gap else ""),
            "",
        ]
    else:
        lines += [f"The table has {report['rows']:,} pairs.", ""]
    if dropped:
        lines += ["Left out:", "", *[f"- {count:,} {REASONS[reason]}" for reason, count in dropped.items()], ""]
    lines += ["The recipe, as a file for `nnd new --recipe`:", "", "```yaml"]
    return [*lines, recipe_yaml(report["recipe"]).rstrip(), "```", ""]


def _cell(text: str) -> str:
    """Return ``text`` as it can stand in a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def task_readme(name: str, recipe: Recipe, summary: ConfigSummary, report: Mapping[str, Any]) -> str:
    """Return the README beside the task, in the form of lm-eval's own tasks; it holds no text of the set."""
    categories = [f"| {_cell(category)} | {count:,} |" for category, count in summary.categories.items()]
    sources = [f"* `{file}`, SHA-256 `{digest}`" for file, digest in report["source_sha256"].items()]
    lines = [
        f"# {recipe.title or name} NND",
        "",
        "### Paper",
        "",
        f"Title: {recipe.title or name}",
        "",
        f"Abstract: {known(recipe, 'summary')}",
        "",
        f"Judges: {known(recipe, 'judges')}",
        "",
        f"Homepage: {known(recipe, 'homepage')}",
        "",
        f"Licence: {known(recipe, 'license')}. Languages: {', '.join(recipe.language) or todo('language')}.",
        "",
        "### Citation",
        "",
        "```bibtex",
        known(recipe, "citation").strip(),
        NND_CITATION,
        "```",
        "",
        "### Groups, Tags, and Tasks",
        "",
        "#### Groups",
        "",
        "* Not part of a group.",
        "",
        "#### Tasks",
        "",
        f"* `nnd_{name}`: {summary.tests:,} tests of {summary.clusters:,} prompts.",
        "",
        "### Data",
        "",
        f"{recipe.rule_text()} `_recipe` says how the set is made; the texts are not part of this folder.",
        "",
        "| category | tests |",
        "|---|---|",
        *categories,
        f"| all | {summary.tests:,} |",
        "",
        *(["Source:", "", *sources, ""] if sources else []),
        *_left_out(report["dropped"]),
        "### Usage",
        "",
        "```bash",
        f"nnd new {name} --from FILE",
        f"nnd run --model hf --model_args pretrained=DIR --tasks nnd_{name}",
        "```",
        "",
        "### Checklist",
        "",
        "* [x] Is the task an existing benchmark in the literature? Its human evaluation is; the tests are made from it.",
        "* [ ] Does the original paper provide a reference implementation? Not of these tests.",
        "",
        "### Changelog",
        "",
        "* version 1-A: first version.",
    ]
    return "\n".join(lines) + "\n"


def _left_out(dropped: Mapping[str, int]) -> list[str]:
    if not dropped:
        return []
    return ["Left out:", "", *[f"* {count:,} {REASONS[reason]}" for reason, count in dropped.items()], ""]
