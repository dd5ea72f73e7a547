"""What a contributed set says of itself: its dataset card, its recipe, and the README beside its task."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from nnd_tasks import __version__
from nnd_tasks.analysis.reading import rules_section
from nnd_tasks.build import COLUMN_NOTES, NND_CITATION
from nnd_tasks.contribute.recipe import KNOWN_BY_PEOPLE, Recipe
from nnd_tasks.files import check_yaml
from nnd_tasks.markdown import cell, code, fenced, plain
from nnd_tasks.schema import RESERVED_COLUMNS
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted

CONFIG = "default"
_LABELS = 12  # that are named
#: Reason -> what took no part, for a person.
REASONS: Mapping[str, str] = {
    "empty": "rows with an empty candidate",
    "no_context": "rows with an empty context",
    "no_judgement": "rows without a judgement",
    "ignored": "judgements whose label says nothing of quality",
    "unranked": "judgements whose label the order does not have",
    "rater_tie": "candidates that a rater judged differently, each way equally often (only these judgements)",
    "tie": "candidates of which as many judgements say one thing as another",
    "no_category": "pairs without a category",
    "other_prompt": "pairs whose prompts differ, or of a chat and a text",
    "equal_texts": "pairs of equal texts",
    "contradictory": "pairs that were judged the other way round as often or more often",
    "repeated": "pairs that repeat an earlier one",
    "no_order": "pairs of candidates neither of which is better by the rule",
    "no_pair": "candidates (of an attribute) that are in no test",
}


#: What is said of pairs whose texts share turns that the column of the context lacks.
FULLER = "both texts begin with turns that column {} does not have; they are part of the context"


def todo(key: str) -> str:
    """Return what stands on a card where only a person can know what to write."""
    return f"TODO({KNOWN_BY_PEOPLE[key]})"


def known(recipe: Recipe, key: str) -> str:
    """Return a text of the recipe, or what is to be written there."""
    return str(getattr(recipe, key) or todo(key))


def _shown(recipe: Recipe, key: str) -> str:
    """Return `known` as it can stand in Markdown."""
    return _safe(known(recipe, key))


def _safe(text: str) -> str:
    """Return ``text`` without HTML that a page would obey."""
    return html.escape(text, quote=False)


def _title(name: str, recipe: Recipe) -> str:
    return _safe(" ".join((recipe.title or name).split()))


def left_out(counts: Mapping[str, int], labels: Sequence[str] = ()) -> dict[str, str]:
    """Return reason -> what is said of it: how many, of what, and of unknown labels which.

    Args:
        counts: reason -> how many.
        labels: that an order does not have.
    """
    shown = ", ".join(map(repr, labels[:_LABELS])) + (", ..." if len(labels) > _LABELS else "")
    named = {"unranked": f" ({shown})"} if labels else {}
    return {reason: f"{count:,} {_reason(reason, count)}{named.get(reason, '')}" for reason, count in counts.items()}


def _reason(reason: str, count: int) -> str:
    """Return a reason, in the singular of one."""
    noun, _, rest = REASONS[reason].partition(" ")
    if count != 1:
        return f"{noun} {rest}"
    for many, one in (("that are ", "that is "), ("that were ", "that was "), ("that repeat ", "that repeats ")):
        rest = one + rest.removeprefix(many) if rest.startswith(many) else rest
    return f"{noun.removesuffix('s')} {rest}"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    odd = any(
        mark in text for mark in "\x85\u2028\u2029\ufeff"
    )  # YAML reads them as line breaks, unless they are escaped
    style = '"' if odd else "|" if "\n" in text.rstrip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def recipe_yaml(values: Mapping[str, Any]) -> str:
    """Return a recipe as YAML; raise NNDError where reading it would give something else."""
    text = str(yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
    check_yaml(text, dict(values))
    return text


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
    notes = {**COLUMN_NOTES, "high_first": _ALPHABET} if recipe.pairs else COLUMN_NOTES
    lines = [
        f"# NND {_title(name, recipe)}",
        "",
        "A Near-Negative Distinction test set: each row is one test, a context with a better and a worse candidate by "
        "human judgement. A language model passes when the mean log-likelihood per token that it gives the better candidate is "
        "strictly higher (Laban et al., EMNLP 2022).",
        "",
        _shown(recipe, "summary"),
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
        *[f"| `{column}` | {notes[column]} |" for column in columns if column in notes],
        *[
            f"| `{column}` | prompt field: column {cell(recipe.field.get(column, column))} of the table |"
            for column in fields
        ],
        "",
        "Texts are as in the table, in Unicode NFC, and nothing was trimmed"
        + (_SPLIT if recipe.pairs else "")
        + "; lists are "
        "written one item per line.",
        "",
        *_made(recipe, report),
        *_trivial(report),
        "## Origin and licence",
        "",
        f"Human evaluation: {_title(name, recipe)}, {_shown(recipe, 'homepage')}. Licence: {_shown(recipe, 'license')}. "
        f"Judges: {_shown(recipe, 'judges')}",
        "",
        f"Built with nnd-tasks {__version__}. `build_report.json` has the hash of the source file and all counts.",
        "",
        "## Citation",
        "",
        *fenced("bibtex", known(recipe, "citation").strip(), "", NND_CITATION),
    ]
    return "\n".join(lines)


_ALPHABET = "whether the better candidate comes first in the order of the alphabet; the table has no order of the two"
_SPLIT = (
    " but the ends of what an assistant says in a dialogue that was written as one text (what both texts of a pair begin with "
    "is the context)"
)


def _trivial(report: Mapping[str, Any]) -> list[str]:
    """Return the section on trivial rules, and of how many tests it speaks."""
    lines = rules_section({CONFIG: report})
    if sampled := report.get("trivial_rules_sample"):
        lines += [f"The rates are of {sampled:,} of the tests, drawn at random.", ""]
    return lines


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
        *[f"| `{summary.name}` | {cell(name)} | {count:,} |" for name, count in summary.categories.items()],
        "",
    ]


def _made(recipe: Recipe, report: Mapping[str, Any]) -> list[str]:
    """Return the section on how tests were formed, and what was left out."""
    dropped = report["dropped"]
    lines = ["## How it was made", "", _safe(recipe.rule_text()), ""]
    if not recipe.pairs:
        lines += [
            f"The table has {counted(report['rows'], 'row')} with {counted(report['judgements'], 'judgement')} of "
            f"{counted(report['candidates_judged'], 'candidate')} (distinct texts of a prompt"
            + (", for each attribute" if recipe.attribute else "")
            + "; texts that differ in white space only count as one). "
            + ("Of several labels the one that most judgements give counts." if recipe.by_label else "")
            + ("Of several scores the mean counts." if recipe.min_gap else "")
            + (" A rater counts once for each candidate." if recipe.rater else ""),
            "",
        ]
    else:
        lines += [f"The table has {counted(report['rows'], 'pair')}.", ""]
    if fuller := report.get("contexts_from_messages"):
        lines += [f"In {counted(fuller, 'row')} {FULLER.format(_safe(repr(recipe.context)))}.", ""]
    if dropped:
        lines += ["Left out:", "", *[f"- {plain(text)}" for text in _left_out(report).values()], ""]
    lines += ["The recipe, as a file for `nnd new --recipe`:", ""]
    return [*lines, *fenced("yaml", recipe_yaml(report["recipe"]).rstrip()), ""]


def _left_out(report: Mapping[str, Any]) -> dict[str, str]:
    return left_out(report["dropped"], report.get("unranked_labels", ()))


def task_readme(name: str, recipe: Recipe, summary: ConfigSummary, report: Mapping[str, Any]) -> str:
    """Return the README beside the task, in the form of lm-eval's own tasks; it holds no text of the set."""
    categories = [f"| {cell(category)} | {count:,} |" for category, count in summary.categories.items()]
    sources = [f"* {code(file)}, SHA-256 `{digest}`" for file, digest in report["source_sha256"].items()]
    lines = [
        f"# {_title(name, recipe)} NND",
        "",
        "### Paper",
        "",
        f"Title: {_title(name, recipe)}",
        "",
        f"Abstract: {_shown(recipe, 'summary')}",
        "",
        f"Judges: {_shown(recipe, 'judges')}",
        "",
        f"Homepage: {_shown(recipe, 'homepage')}",
        "",
        f"Licence: {_shown(recipe, 'license')}. Languages: {_safe(', '.join(recipe.language)) or todo('language')}.",
        "",
        "### Citation",
        "",
        *fenced("bibtex", known(recipe, "citation").strip(), NND_CITATION),
        "",
        "### Groups, Tags, and Tasks",
        "",
        "#### Groups",
        "",
        "* Not part of a group.",
        "",
        "#### Tasks",
        "",
        f"* `nnd_{name}`: {counted(summary.tests, 'test')} of {counted(summary.clusters, 'prompt')}.",
        "",
        "### Data",
        "",
        f"{_safe(recipe.rule_text())} `_recipe` says how the set is made; the texts are not part of this folder.",
        "",
        "| category | tests |",
        "|---|---|",
        *categories,
        f"| all | {summary.tests:,} |",
        "",
        *(["Source:", "", *sources, ""] if sources else []),
        *(
            ["Left out:", "", *[f"* {plain(text)}" for text in _left_out(report).values()], ""]
            if report["dropped"]
            else []
        ),
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
