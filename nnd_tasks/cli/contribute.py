"""Commands for sets of one's own: new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnd_tasks.cli.typer_app import CONTRIBUTE, app, examples, parts_of
from nnd_tasks.errors import NNDError
from nnd_tasks.show.console import say, warn
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.new import Draft

_COLUMNS, _RULES, _PAIRS, _FILE = "Columns", "What is better", "Ready-made pairs", "How the file is read"


@app.command(
    rich_help_panel=CONTRIBUTE,
    epilog=examples(
        (
            "nnd new mine --from judged.csv --context article --candidate summary --label verdict --better good",
            "labels",
        ),
        ("nnd new mine --from pairs.jsonl --context prompt --chosen chosen --rejected rejected", "pairs"),
    ),
)
def new(
    name: Annotated[str, typer.Argument(help="Name of the set: letters, digits and _.")],
    source: Annotated[
        str, typer.Option("--from", help="csv, tsv, xlsx, json, jsonl or parquet; a folder, 'DIR/*.csv', a zip or tar.")
    ],
    context: Annotated[str | None, typer.Option(help="What a model is given.", rich_help_panel=_COLUMNS)] = None,
    candidate: Annotated[str | None, typer.Option(help="The text that was judged.", rich_help_panel=_COLUMNS)] = None,
    label: Annotated[str | None, typer.Option(help="A label.", rich_help_panel=_COLUMNS)] = None,
    score: Annotated[str | None, typer.Option(help="A number, or a list of them.", rich_help_panel=_COLUMNS)] = None,
    system: Annotated[str | None, typer.Option(help="Who wrote the candidate.", rich_help_panel=_COLUMNS)] = None,
    rater: Annotated[str | None, typer.Option(help="Who judged it.", rich_help_panel=_COLUMNS)] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="NAME=COLUMN of one attribute; repeat it.", rich_help_panel=_COLUMNS)
    ] = None,
    category: Annotated[str | None, typer.Option(help="Category of the tests.", rich_help_panel=_COLUMNS)] = None,
    group: Annotated[str | None, typer.Option(help="Pairs stay within it.", rich_help_panel=_COLUMNS)] = None,
    spans: Annotated[
        str | None,
        typer.Option(help="Errors: COLUMN, START,END, or marks such as '<v>,</v>'.", rich_help_panel=_COLUMNS),
    ] = None,
    better: Annotated[str | None, typer.Option(help="LABEL,...: better than the rest.", rich_help_panel=_RULES)] = None,
    min_gap: Annotated[
        float | None, typer.Option(help="Smallest difference of scores.", rich_help_panel=_RULES)
    ] = None,
    chosen: Annotated[str | None, typer.Option(help="The better text, or messages.", rich_help_panel=_PAIRS)] = None,
    rejected: Annotated[str | None, typer.Option(help="The worse text, or messages.", rich_help_panel=_PAIRS)] = None,
    pair: Annotated[str | None, typer.Option(help="A,B: two columns of texts.", rich_help_panel=_PAIRS)] = None,
    winner: Annotated[
        str | None, typer.Option(help="Names the better one: A or B, 1 or 2, first or second.", rich_help_panel=_PAIRS)
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE,...: no judgements; repeat it.", rich_help_panel=_FILE)
    ] = None,
    missing: Annotated[str | None, typer.Option(help="VALUE,...: nobody judged.", rich_help_panel=_FILE)] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal mark, . or ,", rich_help_panel=_FILE)] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Such as cp1252. Default: recognised.", rich_help_panel=_FILE)
    ] = None,
    license_: Annotated[str | None, typer.Option("--license", help="As the hub writes it.")] = None,
    language: Annotated[str | None, typer.Option(help="Codes, such as en,de.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be made, write nothing.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier set of this name.")] = False,
) -> None:
    """Make a set out of a table of judged texts, or of preference pairs.

    Columns may be dotted, for fields of objects: scores.fluency. The recipe goes to $NND_HOME/task_yamls/NAME/_recipe;
    edit it for all else, and build again. For other files a recipe and a prepare.py are written, for you to complete.
    """
    from nnd_tasks.sets.new import NoTableError, draft_set, write_draft, write_skeleton

    facts = {"license": license_, "language": parts_of(language or "")}
    keys: dict[str, Any] = {
        "context": context, "candidate": candidate, "label": label, "score": score, "system": system, "rater": rater,
        "category": category, "min_gap": min_gap, "chosen": chosen, "rejected": rejected, "winner": winner, "decimal": decimal,
        "encoding": encoding, "group": parts_of(group or ""), "better": parts_of(better or ""), "pair": parts_of(pair or ""),
        "missing": parts_of(missing or ""), "spans": _split_spans(spans),
        "attribute": {one: column or one for one, column in _split_equals("--attribute", attribute)},
        "leave_out": {column: parts_of(values) for column, values in _split_equals("--leave-out", leave_out)},
        "facts": {key: value for key, value in facts.items() if value},
    }  # fmt: skip
    keys = {key: value for key, value in keys.items() if value not in (None, [], {})}
    try:
        draft = draft_set(name, source, keys, replace=replace)
    except NoTableError as needs:
        recipe, prepare, lines = write_skeleton(name, needs, keys)
        say(str(needs))
        say(f"complete lines {', '.join(map(str, lines))} of {prepare}")
        say(f"complete `better` (or another rule) in {recipe}")
        say(f"then: nnd build {name} --source {source}")
        return
    _preview(draft)
    if dry_run:
        say("nothing written (--dry-run)")
        return
    tasks = write_draft(draft, replace=replace)
    say()
    say(f"written to {draft.made.folder}")
    say(f"recipe: {draft.set_recipe.path}")
    for note in draft.made.notes:
        warn(f"note: {note}")
    names = ",".join(task.name for task in tasks)
    say(f"run it: nnd run --model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks {names}")
    _print_missing(draft)


def _split_equals(option: str, values: list[str] | None) -> list[tuple[str, str]]:
    """Return what stands before and after the first = of each text."""
    pairs = []
    for value in values or []:
        name, _, rest = (part.strip() for part in value.partition("="))
        if not name or ("leave" in option and not rest):
            raise NNDError(f"{option} {value}: write {'COLUMN=VALUE' if 'leave' in option else 'NAME=COLUMN'}")
        pairs.append((name, rest))
    return pairs


def _split_spans(value: str | None) -> dict[str, Any]:
    parts = parts_of(value or "")
    if len(parts) > 2:
        raise NNDError(f"--spans {value}: write COLUMN, START,END or two marks")
    if len(parts) == 2:
        marks = all(part.startswith(("<", "[", "{")) for part in parts)
        return {"marks": parts} if marks else {"start": parts[0], "end": parts[1]}
    return {"column": parts[0]} if parts else {}


def _preview(draft: Draft) -> None:
    """Show the columns, the rule, some tests, and what is left out."""
    from nnd_tasks.cli.catalogue import tabulate_examples
    from nnd_tasks.sets.card import left_out
    from nnd_tasks.show.terminal import print_counts, print_table

    for role in draft.proposed:
        say(f"{role}: column {getattr(draft.recipe, role)!r}, by its name")
    say(f"rule: {draft.recipe.rule_text()}")
    config, tests = next(iter(draft.made.tables.items()))
    print_table(tabulate_examples(tests, 3))
    say(counted(tests.num_rows, "test"))
    print_counts(draft.made.summaries[config].categories)
    report = draft.made.report[config]
    for reason, text in left_out(report["dropped"], report.get("unranked_labels", ())).items():
        places = ", ".join(report["dropped_rows"].get(reason, []))
        say(f"left out: {text}" + (f" (such as {places})" if places else ""))


def _print_missing(draft: Draft) -> None:
    from nnd_tasks.sets.card import KNOWN_BY_PEOPLE

    missing = {key: what for key, what in KNOWN_BY_PEOPLE.items() if not getattr(draft.recipe.facts, key)}
    if missing:
        say("needed before publishing, under `facts` in the recipe:")
    for key, what in missing.items():
        say(f"- {key}: {what}")
