"""What the card of every set says, section by section: built, made by a user, synthetic or published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnd_tasks import __version__
from nnd_tasks.baselines import ALL, BASELINES
from nnd_tasks.card import Card, Facts, safe, todo
from nnd_tasks.cleaning import REASONS as CLEANING
from nnd_tasks.cleaning import clean_name
from nnd_tasks.licences import publishing_note, terms_of
from nnd_tasks.markdown import cell, code, fenced, plain, table
from nnd_tasks.schema import RESERVED_COLUMNS
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted, some_of

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
#: Reason -> what was left out, in words.
DROPPED: Mapping[str, str] = {
    "empty_list": "rows whose list is empty",
    "no_list": "rows whose list is missing",
    "no_label": "items of a list without a label",
    "by_recipe": "rows that are no judgements by the recipe",
    "not_same": "rows that are different in columns that must be the same",
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
#: Note on pairs of chats whose texts share turns that the column of the context lacks.
FULLER = "both texts begin with turns that column {} does not have; they are part of the context"
#: What a card says of the errors of worse candidates, by whether they were put in on purpose.
ERRORS = ("judged (people judged texts as systems or people had written them)", "made (put in on purpose)")
#: Heading of the rates of baselines.
BASELINES_HEADING = "What baselines reach"
_TAGS = ("nnd", "near-negative-distinction", "lm-evaluation-harness")


def set_header(facts: Facts) -> dict[str, Any]:
    """Return the YAML header of a card, without what follows from the data, such as the configs."""
    languages = [part.strip() for part in facts.say("language").split(",")] if facts.known.get("language") else None
    return {
        "nnd_set": facts.name,
        "license": facts.say("license"),
        "language": languages or [todo("language")],
        "pretty_name": f"NND {facts.title}",
        "task_categories": [facts.task_category],
        "tags": [
            *_TAGS,
            "synthetic" if facts.synthetic else "made-errors" if facts.made_errors else "human-evaluation",
        ],
    }


def set_card(
    facts: Facts,
    summaries: Sequence[ConfigSummary],
    columns: Sequence[str],
    reports: Mapping[str, Any],
) -> Card:
    """Return the card of a set.

    Args:
        facts: what people know of it.
        summaries: of all configs.
        columns: of its tables.
        reports: config -> its part of ``build_report.json``.
    """
    card = Card(set_header(facts))
    card.sections[""] = "\n".join(
        [
            f"# NND {safe(' '.join(facts.title.split()))}",
            "",
            "A Near-Negative Distinction test set: each row is one test, "
            + (
                "a text and the same with one synthetic error"
                if facts.synthetic
                else "a context with a right candidate and one with an error that was put in on purpose"
                if facts.made_errors
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
        ("Use", use_section(facts.name, summaries)),
        ("Columns", columns_section(facts, columns)),
        ("How it was made", made_section(facts, reports)),
        (BASELINES_HEADING, baselines_section(reports)),
        ("Clean configs", cleaning_section(reports, note=facts.clean_note)),
        ("Origin and licence", origin_section(facts, reports)),
        ("Citation", fenced("bibtex", *citation, NND_CITATION)),
    ):
        if lines:
            card.put(heading, lines)
    return card


# ---------------------------------------------------------------- sections


def sizes_section(summaries: Sequence[ConfigSummary]) -> list[str]:
    """Return the numbers of tests, prompts and candidates of each config, and of tests per category."""
    head = ["config", "tests", "distinct prompts", "distinct (prompt, candidate)", "fingerprint"]
    rows = [
        [code(s.name), f"{s.tests:,}", f"{s.clusters:,}", f"{s.candidates:,}", f"`{s.fingerprint}`"] for s in summaries
    ]
    categories = [[code(s.name), cell(name), f"{count:,}"] for s in summaries for name, count in s.categories.items()]
    return [*table(head, rows), "", *table(["config", "category", "tests"], categories)]


def use_section(name: str, summaries: Sequence[ConfigSummary], repo: str | None = None) -> list[str]:
    """Return how to load a set, from ``repo`` of the hub where it is published, and how to score a model on it."""
    if repo:
        code = [
            "from datasets import load_dataset",
            "",
            f'tests = load_dataset("{repo}", "{summaries[0].name}", split="test")',
        ]
    else:
        code = ["import nnd_tasks", "", f'tests = nnd_tasks.load("{name}", "{summaries[0].name}")']
    return [
        *fenced("python", *code),
        "",
        f"With lm-evaluation-harness: `nnd run --model hf --model_args pretrained=MODEL --tasks {task_of(name)}`.",
    ]


def task_of(name: str) -> str:
    """Return the name of the task that the card of a set names."""
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
    """Return reason -> text that says how many things of which kind were left out for it.

    Args:
        counts: reason -> how many.
        labels: the labels that the order of the recipe does not have; they are named.
    """
    marked = {"unranked": f" ({some_of(labels)})"} if labels else {}
    return {reason: f"{count:,} {_reason(reason, count)}{marked.get(reason, '')}" for reason, count in counts.items()}


def _reason(reason: str, count: int) -> str:
    """Return the text of a reason, in the singular where it counts one thing."""
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
    lines = [safe(facts.rule), "", f"Errors: {ERRORS[facts.made_errors]}.", ""]
    for name, part in parts.items():
        said = f"`{name}`: {counted(part.get('rows', 0), 'row')}"
        if "judgements" in part:
            said += f", {counted(part['judgements'], 'judgement')} of {counted(part['candidates_judged'], 'candidate')}"
        dropped = [plain(text) for text in left_out(part["dropped"], part.get("unranked_labels", ())).values()]
        lines.append(f"- {said}{'; left out: ' + '; '.join(dropped) if dropped else ''}.")
        if fuller := part.get("contexts_from_messages"):
            lines.append(f"- `{name}`: in {counted(fuller, 'row')} {FULLER.format('of the context')}.")
        if spaces := part.get("space_only"):
            lines.append(f"- `{name}`: {counted(spaces, 'test')} of texts that differ in white space only.")
    if facts.recipe:
        lines += ["", "The recipe, a file for `nnd build`:", "", *fenced("yaml", facts.recipe.rstrip())]
    return lines


def baselines_section(reports: Mapping[str, Any]) -> list[str]:
    """Return how often baselines pass, by config and category."""
    rates_of = {
        name: part["trivial_rules"]
        for name, part in reports.items()
        if isinstance(part, Mapping) and "trivial_rules" in part
    }
    if not rates_of:
        return []
    known = [rule for rule in BASELINES if any(rule in rates[ALL] for rates in rates_of.values())]
    best = {part["trivial_system"]: None for part in reports.values() if "trivial_system" in part}
    notes = {"system": f" ({', '.join(map(code, best))})"} if best else {}
    rows = [
        [code(name), cell(category), *[f"{rates[rule]:.3f}" if rule in rates else "-" for rule in known]]
        for name, by_category in rates_of.items()
        for category, rates in by_category.items()
    ]
    sampled = next((part["trivial_rules_sample"] for part in reports.values() if "trivial_rules_sample" in part), None)
    return [
        "Pass rates of rules that read no meaning; a tie fails. The rate of a model means something where it is above these.",
        "",
        *[f"- `{rule}`: {BASELINES[rule]}{notes.get(rule, '')}" for rule in known],
        "",
        *table(["config", "category", *[f"`{rule}`" for rule in known]], rows),
        *(["", f"The rates are of {sampled:,} of the tests, drawn at random."] if sampled else []),
    ]


def cleaning_section(reports: Mapping[str, Any], *, examples: bool = True, note: str = "") -> list[str]:
    """Return what the clean configs leave out: how many tests for each reason, and some of them.

    Args:
        reports: config -> its part of ``build_report.json``.
        examples: whether texts may be quoted.
        note: what is changed in the judgements before tests are left out.
    """
    cleaned = {
        name: part["cleaning"] for name, part in reports.items() if isinstance(part, Mapping) and "cleaning" in part
    }
    if not cleaned:
        return []
    # What tests are left out of: those of a config, or of its mended judgements.
    whole = {
        name: {**part, "tests": reports[name]["tests"], **part.get("mended", {})} for name, part in cleaned.items()
    }
    rows = []
    for name, part in cleaned.items():
        reasons, tests = whole[name]["reasons"], whole[name]["tests"]
        cells = [f"{reasons[reason]['tests']:,}" for reason in CLEANING]
        candidates = reasons["contradictory"]["candidates"]
        cells[list(CLEANING).index("contradictory")] += f" ({counted(candidates, 'candidate')})"
        kept = [f"{part['kept']:,}", f"`{clean_name(name)}`"] if part["kept"] else ["0", "none"]
        rows.append([f"`{name}`", f"{tests:,}", *cells, f"{tests - part['kept']:,}", *kept])
    corrected = [
        f"- `{name}`: {counted(part['mended']['left_out'], 'judgement')} left out; the others give "
        f"{counted(part['mended']['tests'], 'test')}, in place of {reports[name]['tests']:,}"
        for name, part in cleaned.items()
        if "mended" in part
    ]
    lines = [
        "A config keeps every test, as the authors' release does; its clean variant leaves out a test when:",
        "",
        *[f"- `{reason}`: {what}" for reason, what in CLEANING.items()],
        "",
        *([f"Before that, {safe(note)}:", "", *corrected, ""] if corrected else []),
        *table(["config", "tests", *map(code, CLEANING), "left out in all", "left in", "clean config"], rows),
        "",
        "A test can have several reasons, and is then in several of these numbers."
        + (" Examples, shortened:" if examples else ""),
    ]
    if examples:
        lines.append("")
        lines += [
            f"- `{name}`, `{reason}`, test `{test['test_id']}` ({cell(test['category'])}): "
            f"better: {cell(test['high']) or '(nothing)'}; worse: {cell(test['low']) or '(nothing)'}"
            for name, part in whole.items()
            for reason in CLEANING
            for test in part["reasons"][reason]["examples"][:1]
        ]
    return lines


def origin_section(facts: Facts, reports: Mapping[str, Any]) -> list[str]:
    """Return where a set comes from, what it may be used for, and what of it may be published."""
    parts = [part for part in reports.values() if isinstance(part, Mapping)]
    publishing = next(filter(None, (publishing_note(terms_of(facts.name, part)) for part in parts)), "")
    named = [safe(" ".join(facts.title.split())), safe(facts.say("homepage"))]
    kind = "Texts" if facts.synthetic or facts.made_errors else "Human evaluation"
    return [
        f"{kind}: {', '.join(filter(None, named))}. "
        f"Licence: {safe(facts.say('license'))}. {safe(facts.license_note)}".rstrip(),
        "",
        *([safe(publishing), ""] if publishing else []),
        f"Judges: {safe(facts.say('judges'))}",
        "",
        f"Built with nnd-tasks {__version__}. `build_report.json` has the hashes of the source files and all counts.",
    ]
