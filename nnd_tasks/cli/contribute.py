"""Commands for sets of one's own: new."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnd_tasks.cli.console import parts_of, say, show, table, warn
from nnd_tasks.cli.typer_app import CONTRIBUTE, app, examples
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.new.draft import Draft, Written
    from nnd_tasks.recipes.recipe import Recipe

_SHOWN = 300  # characters of a text in the preview
_COLUMNS, _RULES, _PAIRS, _CARD = "Columns", "What is better (one of these)", "Ready-made pairs", "Card"
_FILE = "How the file is read"


@app.command(
    rich_help_panel=CONTRIBUTE,
    epilog=examples(
        (
            "nnd new my_set --from judged.csv --context article --candidate summary --label verdict --better good",
            "labels",
        ),
        (
            "nnd new my_set --from rated.xlsx --context source --candidate text --attribute fluency=Fluency --min-gap 1",
            "scores",
        ),
        ("nnd new my_set --from pairs.jsonl --context prompt --chosen chosen --rejected rejected", "pairs"),
        (
            "nnd new my_set --from arena.json --context question --pair answer_1,answer_2 --winner preference",
            "pairs and who won",
        ),
    ),
)
def new(
    name: Annotated[str, typer.Argument(help="Name of the set: letters, digits and _.")],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="Table with a judged candidate per row: .csv, .tsv, .jsonl, .json, .parquet, .xlsx; a folder of them, "
            "'FOLDER/*.csv', a zip or tar, ARCHIVE:MEMBER; or PATH[:SPLIT] for datasets. Columns may be nested, such as "
            "scores.fluency; @file, @folder and @key are columns too.",
        ),
    ],
    recipe: Annotated[Path | None, typer.Option(help="YAML with options as keys; options here go before it.")] = None,
    context: Annotated[str | None, typer.Option(help="What a model is given.", rich_help_panel=_COLUMNS)] = None,
    candidate: Annotated[str | None, typer.Option(help="The text that was judged.", rich_help_panel=_COLUMNS)] = None,
    label: Annotated[str | None, typer.Option(help="A label.", rich_help_panel=_COLUMNS)] = None,
    score: Annotated[
        str | None, typer.Option(help="A number, higher is better, or a list of them.", rich_help_panel=_COLUMNS)
    ] = None,
    system: Annotated[str | None, typer.Option(help="Who wrote the candidate.", rich_help_panel=_COLUMNS)] = None,
    rater: Annotated[
        str | None, typer.Option(help="Who judged it; counts once per candidate.", rich_help_panel=_COLUMNS)
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=COLUMN, or COLUMN: labels or scores of one attribute, which becomes a category (repeat it); with --label "
            "or --score the one column that names the attribute.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(help="NAME=COLUMN: a further part of the prompt (repeat it).", rich_help_panel=_COLUMNS),
    ] = None,
    category: Annotated[
        str | None,
        typer.Option(help="Category of the tests; of candidates, that of the worse.", rich_help_panel=_COLUMNS),
    ] = None,
    better: Annotated[
        str | None, typer.Option(help="LABEL,...: these are better than all others.", rich_help_panel=_RULES)
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="WORST,...,BEST: labels in order; bad=ugly,good for equal ranks.", rich_help_panel=_RULES),
    ] = None,
    min_gap: Annotated[
        float | None, typer.Option(help="A score that is higher by this or more is better.", rich_help_panel=_RULES)
    ] = None,
    majority: Annotated[
        bool,
        typer.Option(
            "--majority", help="Good is what more than half of the ratings give the best mark.", rich_help_panel=_RULES
        ),
    ] = False,
    best: Annotated[
        float | None, typer.Option(help="Best mark of --majority. Default: the highest.", rich_help_panel=_RULES)
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(help="LABEL,...: these say nothing, leave them out.", rich_help_panel=_RULES)
    ] = None,
    chosen: Annotated[str | None, typer.Option(help="The better text, or messages.", rich_help_panel=_PAIRS)] = None,
    rejected: Annotated[str | None, typer.Option(help="The worse text, or messages.", rich_help_panel=_PAIRS)] = None,
    pair: Annotated[
        str | None, typer.Option(help="A,B: two columns of texts; --winner says which won.", rich_help_panel=_PAIRS)
    ] = None,
    winner: Annotated[
        str | None,
        typer.Option(
            help="Says which of --pair won: its column, the last part of that name, 1 or 2, A or B, or a text with one of these; "
            "ties are left out.",
            rich_help_panel=_PAIRS,
        ),
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="VALUE,...: these say that nobody judged.", rich_help_panel=_FILE)
    ] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark of numbers: . or ,", rich_help_panel=_FILE)] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of the file, such as cp1252. Default: guessed from its bytes.", rich_help_panel=_FILE
        ),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="A list that is taken apart into rows, such as answers[].", rich_help_panel=_FILE)
    ] = None,
    spans: Annotated[
        str | None,
        typer.Option(
            help="Column of error spans: objects with start and end, or the words of each; START,END for two columns of "
            "places; or OPEN,CLOSE for marks in the candidate, such as '<v>,</v>'.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    severity: Annotated[str | None, typer.Option(help="How bad the error is.", rich_help_panel=_COLUMNS)] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Template of what a model reads, such as '{{context}}\\n\\nSummary:'.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="A checkout of nnd-tasks to write recipe, task and README into, for a pull request."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be made, write nothing.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an earlier set of this name, and its card.")
    ] = False,
    license_: Annotated[
        str | None, typer.Option("--license", help="Licence, as the hub writes it.", rich_help_panel=_CARD)
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Languages, as codes such as en,de.", rich_help_panel=_CARD)
    ] = None,
    citation: Annotated[str | None, typer.Option(help="BibTeX, or a file of it.", rich_help_panel=_CARD)] = None,
    homepage: Annotated[str | None, typer.Option(help="Where the judgements come from.", rich_help_panel=_CARD)] = None,
    judges: Annotated[str | None, typer.Option(help="Who judged.", rich_help_panel=_CARD)] = None,
    title: Annotated[str | None, typer.Option(help="Title of the human evaluation.", rich_help_panel=_CARD)] = None,
    summary: Annotated[str | None, typer.Option(help="What was evaluated.", rich_help_panel=_CARD)] = None,
) -> None:
    """Make a set out of a table of judged texts, or of preference pairs.

    Columns that no option names are proposed. Dataset, task and recipe go to $NND_HOME, where `nnd run` and `nnd build`
    find them.
    """
    from nnd_tasks.new.draft import draft_set, write_set

    options: dict[str, Any] = {
        "context": context, "candidate": candidate, "label": label, "score": score, "system": system, "rater": rater,
        "attribute": _attributes(attribute), "field": _fields(field), "category": category, "better": _labels("--better", better),
        "order": _order(order), "min_gap": min_gap, "majority": majority or None, "best": best,
        "ignore": _labels("--ignore", ignore), "chosen": chosen, "rejected": rejected,
        "prompt": None if prompt is None else prompt.replace("\\n", "\n"), "license": license_,
        "language": _labels("--language", language), "citation": _text_or_file(citation), "homepage": homepage,
        "judges": judges, "title": title, "summary": summary, "pair": _labels("--pair", pair), "winner": winner,
        "missing": parts_of(missing or "") or None, "decimal": decimal, "encoding": encoding, "rows": rows,
        "severity": severity, **_spans(spans),
    }  # fmt: skip
    draft = draft_set(name, source, options, recipe, into=into, replace=replace)
    _preview(draft)
    if dry_run:
        say("nothing written (--dry-run)")
        return
    _print_written(draft, write_set(draft, into=into, replace=replace))


def _labels(option: str, value: str | None) -> list[str] | None:
    if value is None:
        return None
    if not (labels := parts_of(value)):
        raise NNDError(f"{option}: empty; give labels separated by commas")
    return labels


def _order(value: str | None) -> list[list[str]] | None:
    """Return the ranks of ``bad=ugly,good``."""
    ranks = _labels("--order", value)
    return None if ranks is None else [[part.strip() for part in rank.split("=")] for rank in ranks]


def _fields(values: list[str] | None) -> dict[str, str] | None:
    columns: dict[str, str] = {}
    for value in values or []:
        name, equals, column = value.partition("=")
        if not (equals and name.strip() and column.strip()):
            raise NNDError(f"--field {value}: write NAME=COLUMN")
        columns[name.strip()] = column.strip()
    return columns or None


def _attributes(values: list[str] | None) -> dict[str, str] | None:
    """Return name -> column of ``NAME=COLUMN`` or ``COLUMN``."""
    columns: dict[str, str] = {}
    for value in values or []:
        name, equals, column = value.partition("=")
        columns[name.strip()] = column.strip() if equals else name.strip()
        if not name.strip() or not columns[name.strip()]:
            raise NNDError(f"--attribute {value}: write NAME=COLUMN, or COLUMN")
    return columns or None


def _spans(value: str | None) -> dict[str, Any]:
    """Return what a recipe says of error spans, and the marks that are taken out of candidates."""
    if value is None:
        return {}
    parts = parts_of(value)
    if not parts or len(parts) > 2:
        raise NNDError(f"--spans {value}: write COLUMN, START,END or OPEN,CLOSE")
    if len(parts) == 1:
        return {"spans": {"column": parts[0]}}
    if all(re.fullmatch(r"[\w.@ \[\]-]*\w[\w.@ \[\]-]*", part) and not part.startswith("[") for part in parts):
        return {"spans": {"start": parts[0], "end": parts[1]}}
    return {"spans": {"marks": parts}, "strip": {"candidate": parts}}


def _text_or_file(value: str | None) -> str | None:
    """Return a text, or what the file that it names holds."""
    if value is None or "{" in value:
        return value
    try:
        return Path(value).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NNDError(f"--citation {value}: neither BibTeX nor a file of it") from error


def _preview(draft: Draft) -> None:
    """Show the columns, the rule, some tests, and what is left out."""
    from nnd_tasks.assembly import examples
    from nnd_tasks.new.propose import describe
    from nnd_tasks.sets.card import left_out

    for line in describe(draft.recipe, draft.choices):
        say(visible(line))
    say(visible(f"rule: {draft.recipe.rule_text()}"))
    for test in examples(draft.table, 3):
        say()
        say(f"[{test['category']}]")
        say()
        for part in ("context", "high", "low"):
            text = visible(" ".join(test[part].split()))
            say(f"- {part}: {text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}")
    say()
    say(counted(draft.table.num_rows, "test"))
    counts = [[visible(category), f"{count:,}"] for category, count in draft.categories.items()]
    show("\n" + table(["category", "tests"], counts, right=["tests"]) + "\n")
    if draft.dropped.counts:
        say("left out")
        say()
    for reason, text in left_out(draft.dropped.counts, draft.dropped.labels).items():
        rows = draft.dropped.rows.get(reason, [])
        number, _, what = text.partition(" ")
        shown = ", ".join(map(str, rows)) + (", …" if draft.dropped.counts[reason] > len(rows) else "")
        say(f"- {number}  {what}" + (f" ({draft.unit}{'s' * (len(rows) > 1)} {shown})" if rows else ""))
    for note in draft.notes:
        warn(visible(f"note: {note}"))


def _print_written(draft: Draft, written: Written) -> None:
    """Say where everything is, how to run it, and what only a person can add."""
    say()
    say(f"written to {written.folder}")
    for path in written.files:
        say(f"written: {path}")
    say(f"task {written.task.name}: {written.task.path}")
    if written.task.kept:
        warn(
            f"note: {written.task.path} has other content than this set would give it, and stays; --replace rewrites it"
        )
    arguments = f"--model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks {written.task.name}"
    say()
    say(f"run it:  nnd run {arguments}")
    say(f"or:      lm_eval --include_path {shlex.quote(str(written.task.path.parent))} {arguments}")
    _print_missing(draft.recipe)


def _print_missing(recipe: Recipe) -> None:
    from nnd_tasks.sets.card import KNOWN_BY_PEOPLE

    missing = recipe.unknown()
    if missing:
        say()
        say("needed before publishing (marked TODO on the card):")
        say()
        for key in missing:
            say(f"- {key}: {KNOWN_BY_PEOPLE[key]}")
