"""The card of every set: built, made by a user, synthetic, published. It is composed from data, section by section."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nnd_tasks import __version__
from nnd_tasks.baselines import BASELINES
from nnd_tasks.cleaning import REASONS as CLEANING
from nnd_tasks.cleaning import clean_name
from nnd_tasks.errors import NNDError
from nnd_tasks.files import check_yaml, parse_yaml, read_text
from nnd_tasks.markdown import cell, code, fenced, plain, table
from nnd_tasks.schema import RESERVED_COLUMNS
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted

CARD = "README.md"
#: Fact that only a person can know -> what to write; a card says TODO where it is not known.
KNOWN_BY_PEOPLE: Mapping[str, str] = {
    "license": "licence of the texts and judgements, as the hub writes it, such as cc-by-4.0",
    "language": "languages of the texts, such as en",
    "summary": "what was evaluated, in a sentence or two",
    "judges": "who judged, how many, and what they were asked",
    "homepage": "where the judgements come from",
    "citation": "BibTeX of the human evaluation",
}
NND_CITATION = """@inproceedings{laban2022nnd,
  title = {Near-Negative Distinction: Giving a Second Life to Human Evaluation Datasets},
  author = {Laban, Philippe and Wu, Chien-Sheng and Liu, Wenhao and Xiong, Caiming},
  booktitle = {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing},
  year = {2022}
}"""
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
    "low_spans": "where the errors of the worse candidate are: characters from start to end, end outside",
    "noise_ratio": "word-level Levenshtein distance of the worse candidate from the better one, over its words",
    "seed": "of the random choices of a synthetic error",
}
_ALPHABET = "whether the better candidate comes first in the order of the alphabet; the table has no order of the two"
#: Reason -> what took no part, for a person.
DROPPED: Mapping[str, str] = {
    "by_recipe": "rows that are no judgements by the recipe",
    "empty": "rows with an empty candidate",
    "no_context": "rows with an empty context",
    "no_judgement": "rows without a judgement",
    "ignored": "judgements whose label says nothing of quality",
    "unranked": "judgements whose label the order does not have",
    "no_test_category": "judgements whose label or category is left out by the recipe",
    "rater_tie": "candidates that a rater judged differently, each way equally often (only these judgements)",
    "tie": "candidates of which as many judgements say one thing as another",
    "undecided": "pairs that people called a tie",
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
#: Heading of the rates of baselines.
BASELINES_HEADING = "What baselines reach"
_LABELS = 12  # that are named
_TAGS = ("nnd", "near-negative-distinction", "lm-evaluation-harness")


# ---------------------------------------------------------------- facts


@dataclass(frozen=True)
class Facts:
    """What a card says of a set besides its numbers.

    Attributes:
        name: of the set.
        title: of the human evaluation.
        known: fact of `KNOWN_BY_PEOPLE` -> text; languages are separated by commas.
        license_note: what else is to be known of the licence.
        task_category: of the hub.
        rule: what makes a candidate better, in a sentence.
        fields: prompt field -> what it holds.
        pairs: whether the table held ready-made pairs.
        recipe: how the set was made, as YAML; ``""`` where it needs no saying.
        synthetic: whether the errors were put in by a program.
        clean_note: what is changed for the clean configs before they are cleaned.
        made: Markdown lines on how the set was made, where no recipe says it.
    """

    name: str
    title: str
    known: Mapping[str, str] = field(default_factory=dict)
    license_note: str = ""
    task_category: str = "text-generation"
    rule: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    pairs: bool = False
    recipe: str = ""
    synthetic: bool = False
    clean_note: str = ""
    made: tuple[str, ...] = ()

    def say(self, key: str) -> str:
        """Return a fact, or what is to be written there; ``""`` where it is known that there is none."""
        return self.known.get(key, todo(key))


def todo(key: str) -> str:
    """Return what stands on a card where only a person can know what to write."""
    return f"TODO({KNOWN_BY_PEOPLE[key]})"


# ---------------------------------------------------------------- Markdown


def safe(text: str) -> str:
    """Return ``text`` without HTML that a page would obey."""
    return html.escape(text, quote=False)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # YAML reads these as line breaks, unless they are escaped.
    odd = any(mark in text for mark in "\x85\u2028\u2029\ufeff")
    style = '"' if odd else "|" if "\n" in text.rstrip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Return plain data as YAML, texts of several lines readable; raise NNDError where reading it gives something else."""
    text = str(yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
    check_yaml(text, dict(values))
    return text


# ---------------------------------------------------------------- the card


@dataclass
class Card:
    """A card, taken apart.

    Attributes:
        header: its YAML.
        sections: heading -> text, in order; the first, with the title, has the heading ``""``.
    """

    header: dict[str, Any]
    sections: dict[str, str] = field(default_factory=dict)

    def put(self, heading: str, lines: Sequence[str], *, before: str = "Citation", first: bool = False) -> None:
        """Replace a section, or put a new one before another, or at the end where that is absent.

        Args:
            heading: of the section.
            lines: of its text.
            before: heading of the section that a new one comes before.
            first: a new one comes before all that have a heading.
        """
        text = "\n".join(lines).strip("\n")
        if heading in self.sections:
            self.sections[heading] = text
            return
        names = list(self.sections)
        at = names.index("") + 1 if first and "" in names else names.index(before) if before in names else len(names)
        items = list(self.sections.items())
        self.sections = dict([*items[:at], (heading, text), *items[at:]])

    def body(self) -> str:
        """Return the card's Markdown without its header."""
        parts = (f"## {name}\n\n{text}" if name else text for name, text in self.sections.items())
        return "\n\n".join(part.rstrip("\n") for part in parts if part)

    def text(self) -> str:
        """Return the card as it is written."""
        return card_text(self.header, self.body())


def card_text(header: Mapping[str, Any], body: str) -> str:
    """Return a card as it is written: its header as YAML between two lines of ---, and its Markdown."""
    text = body.rstrip("\n")
    return f"---\n{dump_yaml(header)}---\n\n{text}\n"


def read_card(folder: Path) -> Card:
    """Return the card of a dataset folder, taken apart by `huggingface_hub`'s own class.

    Raises:
        NNDError: it cannot be read, or its header is no YAML mapping.
    """
    path = folder / CARD
    return parse_card(read_text(path), str(path))


def parse_card(text: str, where: str) -> Card:
    """Return a card's header and sections.

    Raises:
        NNDError: its header is no YAML mapping; begins with ``where``.
    """
    parts = split_card(text)
    header = parse_yaml(parts[0], f"{where}: its header") if parts else None
    if parts is None or not isinstance(header, dict):
        raise NNDError(f"{where}: it has no YAML header between two lines of ---; build the set again")
    return Card(header, _sections(parts[1]))


def split_card(text: str) -> tuple[str, str] | None:
    """Return the YAML of a card's header and the Markdown below it, as `huggingface_hub.RepoCard` sees them; None without header.

    The hub's class reads YAML without limits, so only its rule of where the header ends is taken; `nnd_tasks.files.parse_yaml`
    reads what stands in it.
    """
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # The hub's pattern takes quadratic time over empty lines; no header needs many.
    if re.search(r"\n{1000}", text):
        return None
    match = REGEX_YAML_BLOCK.search(text)
    return (match[2], text[match.end() :]) if match else None


def _sections(body: str) -> dict[str, str]:
    """Take Markdown apart at its headings of level 2, those in code fences left out."""
    parts: dict[str, list[str]] = {"": []}
    current, fence = "", ""
    for line in body.split("\n"):
        mark = re.match(r"`{3,}", line)
        if mark and (not fence or mark[0] == fence):
            fence = "" if fence else mark[0]
        if line.startswith("## ") and not fence:
            current = line[3:].strip()
            parts.setdefault(current, [])
        else:
            parts[current].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in parts.items()}


def set_header(facts: Facts) -> dict[str, Any]:
    """Return the YAML header of a card, without what the data says."""
    languages = [part.strip() for part in facts.say("language").split(",")] if facts.known.get("language") else None
    return {
        "nnd_set": facts.name,
        "license": facts.say("license"),
        "language": languages or [todo("language")],
        "pretty_name": f"NND {facts.title}",
        "task_categories": [facts.task_category],
        "tags": [*_TAGS, "synthetic" if facts.synthetic else "human-evaluation"],
    }


def set_card(
    facts: Facts,
    summaries: Sequence[ConfigSummary],
    columns: Sequence[str],
    reports: Mapping[str, Any],
    *,
    header: Mapping[str, Any] | None = None,
    repo: str | None = None,
    examples: bool = True,
) -> Card:
    """Return the card of a set.

    Args:
        facts: what is known of it.
        summaries: of all configs.
        columns: of its tables.
        reports: config -> its part of ``build_report.json``.
        header: of the card; None takes `set_header`.
        repo: of the hub, where it is published.
        examples: whether the card may quote texts.
    """
    card = Card(dict(header or set_header(facts)))
    card.sections[""] = "\n".join(
        [
            f"# NND {safe(' '.join(facts.title.split()))}",
            "",
            "A Near-Negative Distinction test set: each row is one test, "
            + (
                "a text and the same with one synthetic error"
                if facts.synthetic
                else "a context with a better and a worse candidate by human judgement"
            )
            + ". A language model passes when the mean log-likelihood per token that it gives the better candidate "
            "is strictly higher (Laban et al., EMNLP 2022).",
            "",
            safe(facts.say("summary")),
        ]
    )
    citation = [text, ""] if (text := facts.say("citation").strip()) else []
    for heading, lines in (
        ("Sizes", sizes_section(summaries)),
        ("Use", use_section(facts.name, summaries, repo)),
        ("Columns", columns_section(facts, columns)),
        ("How it was made", made_section(facts, reports)),
        (BASELINES_HEADING, baselines_section(reports)),
        ("Clean configs", cleaning_section(reports, examples=examples, note=facts.clean_note)),
        ("Origin and licence", origin_section(facts)),
        ("Citation", fenced("bibtex", *citation, NND_CITATION)),
    ):
        if lines:
            card.put(heading, lines)
    return card


# ---------------------------------------------------------------- sections


def sizes_section(summaries: Sequence[ConfigSummary]) -> list[str]:
    """Return the numbers of tests, prompts and candidates of each config, and of tests per category."""
    head = ["config", "tests", "clusters (distinct prompts)", "distinct (prompt, candidate)", "fingerprint"]
    rows = [
        [code(s.name), f"{s.tests:,}", f"{s.clusters:,}", f"{s.candidates:,}", f"`{s.fingerprint}`"] for s in summaries
    ]
    categories = [[code(s.name), cell(name), f"{count:,}"] for s in summaries for name, count in s.categories.items()]
    return [*table(head, rows), "", *table(["config", "category", "tests"], categories)]


def use_section(name: str, summaries: Sequence[ConfigSummary], repo: str | None = None) -> list[str]:
    """Return how to load a set and score a model on it."""
    code = ["from datasets import load_dataset", ""]
    code.append(f'tests = load_dataset("{repo or f"nnd/{name}"}", "{summaries[0].name}", split="test")')
    return [
        *fenced("python", *code),
        "",
        f"With lm-evaluation-harness: `nnd run --model hf --model_args pretrained=MODEL --tasks {task_of(name)}`.",
    ]


def task_of(name: str) -> str:
    """Return the task that a card names for a set."""
    return {"mqm": "nnd_mqm_ende", "news_gpt3": "nnd_news_gpt3_cnn"}.get(name, f"nnd_{name}")


def columns_section(facts: Facts, columns: Sequence[str]) -> list[str]:
    """Return what each column of the tables holds."""
    notes = {**COLUMN_NOTES, "high_first": _ALPHABET} if facts.pairs else COLUMN_NOTES
    rows = [[code(name), notes[name]] for name in columns if name in notes]
    rows += [
        [code(name), f"prompt field: {cell(facts.fields.get(name, name))}"]
        for name in columns
        if name not in RESERVED_COLUMNS
    ]
    trimmed = (
        ", but the ends of what an assistant says in a dialogue that was written as one text" if facts.pairs else ""
    )
    return [
        *table(["column", "what it holds"], rows),
        "",
        f"Texts are as published, in Unicode NFC, and nothing was trimmed{trimmed}; lists are written one item per line.",
    ]


def left_out(counts: Mapping[str, int], labels: Sequence[str] = ()) -> dict[str, str]:
    """Return reason -> what is said of it: how many, of what, and of unknown labels which.

    Args:
        counts: reason -> how many.
        labels: that an order does not have.
    """
    shown = ", ".join(map(repr, labels[:_LABELS])) + (", ..." if len(labels) > _LABELS else "")
    marked = {"unranked": f" ({shown})"} if labels else {}
    return {reason: f"{count:,} {_reason(reason, count)}{marked.get(reason, '')}" for reason, count in counts.items()}


def _reason(reason: str, count: int) -> str:
    """Return a reason, in the singular of one."""
    noun, _, rest = DROPPED[reason].partition(" ")
    if count != 1:
        return f"{noun} {rest}"
    for many, one in (("that are ", "that is "), ("that were ", "that was "), ("that repeat ", "that repeats ")):
        rest = rest.replace(many, one, 1)
    return f"{noun.removesuffix('s')} {rest}"


def made_section(facts: Facts, reports: Mapping[str, Any]) -> list[str]:
    """Return how tests were formed, and what was left out."""
    if facts.made:
        return list(facts.made)
    parts = {name: part for name, part in reports.items() if isinstance(part, Mapping) and "dropped" in part}
    if not parts:
        return [safe(facts.rule)] if facts.rule else []
    lines = [safe(facts.rule), ""]
    for name, part in parts.items():
        said = f"`{name}`: {counted(part.get('rows', 0), 'row')}"
        if "judgements" in part:
            said += f", {counted(part['judgements'], 'judgement')} of {counted(part['candidates_judged'], 'candidate')}"
        dropped = [plain(text) for text in left_out(part["dropped"], part.get("unranked_labels", ())).values()]
        lines.append(f"- {said}{'; left out: ' + '; '.join(dropped) if dropped else ''}.")
        if fuller := part.get("contexts_from_messages"):
            lines.append(f"- `{name}`: in {counted(fuller, 'row')} {FULLER.format('of the context')}.")
    if facts.recipe:
        lines += ["", "The recipe, a file for `nnd build`:", "", *fenced("yaml", facts.recipe.rstrip())]
    return lines


def baselines_section(reports: Mapping[str, Any]) -> list[str]:
    """Return how often baselines pass, by config and category."""
    found = {
        name: part["trivial_rules"]
        for name, part in reports.items()
        if isinstance(part, Mapping) and "trivial_rules" in part
    }
    if not found:
        return []
    rows = [
        [code(name), cell(category), *[f"{rates[rule]:.3f}" for rule in BASELINES]]
        for name, by_category in found.items()
        for category, rates in by_category.items()
    ]
    sampled = next((part["trivial_rules_sample"] for part in reports.values() if "trivial_rules_sample" in part), None)
    return [
        "Pass rates of rules that read no meaning; a tie fails. A model says something where it does better than these.",
        "",
        *[f"- `{rule}`: {what}" for rule, what in BASELINES.items()],
        "",
        *table(["config", "category", *[f"`{rule}`" for rule in BASELINES]], rows),
        *(["", f"The rates are of {sampled:,} of the tests, drawn at random."] if sampled else []),
    ]


def cleaning_section(reports: Mapping[str, Any], *, examples: bool = True, note: str = "") -> list[str]:
    """Return what the clean configs leave out: how many tests each reason holds for, and examples."""
    found = {
        name: part["cleaning"] for name, part in reports.items() if isinstance(part, Mapping) and "cleaning" in part
    }
    if not found:
        return []
    rows = []
    for name, part in found.items():
        cells = [f"{part['reasons'][reason]['tests']:,}" for reason in CLEANING]
        candidates = part["reasons"]["contradictory"]["candidates"]
        cells[list(CLEANING).index("contradictory")] += f" ({counted(candidates, 'candidate')})"
        kept = [f"{part['kept']:,}", f"`{clean_name(name)}`"] if part["kept"] else ["0", "none"]
        rows.append([f"`{name}`", f"{reports[name]['tests']:,}", *cells, *kept])
    mended = [
        f"- `{clean_name(name)}`: {counted(part['mended']['left_out'], 'judgement')} left out; the others give "
        f"{counted(part['mended']['tests'], 'test')}"
        for name, part in found.items()
        if "mended" in part
    ]
    lines = [
        "A config keeps every test, as the authors' release does; its clean variant leaves out a test when:",
        "",
        *[f"- `{reason}`: {what}" for reason, what in CLEANING.items()],
        "",
        *table(["config", "tests", *[f"`{reason}`" for reason in CLEANING], "left in", "clean config"], rows),
        "",
        *([f"Before that, {safe(note)}:", "", *mended, ""] if mended else []),
        "A test can have several reasons." + (" Examples, shortened:" if examples else ""),
    ]
    if examples:
        lines.append("")
        lines += [
            f"- `{name}`, `{reason}`, test `{test['test_id']}` ({cell(test['category'])}): "
            f"better: {cell(test['high']) or '(nothing)'}; worse: {cell(test['low']) or '(nothing)'}"
            for name, part in found.items()
            for reason in CLEANING
            for test in part["reasons"][reason]["examples"][:1]
        ]
    return lines


def origin_section(facts: Facts) -> list[str]:
    """Return where a set comes from, and what it may be used for."""
    named = [safe(" ".join(facts.title.split())), safe(facts.say("homepage"))]
    kind = "Texts" if facts.synthetic else "Human evaluation"
    return [
        f"{kind}: {', '.join(filter(None, named))}. "
        f"Licence: {safe(facts.say('license'))}. {safe(facts.license_note)}".rstrip(),
        "",
        f"Judges: {safe(facts.say('judges'))}",
        "",
        f"Built with nnd-tasks {__version__}. `build_report.json` has the hashes of the source files and all counts.",
    ]
