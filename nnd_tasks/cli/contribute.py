"""Commands for sets of one's own: new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from nnd_tasks.cli.typer_app import Replace, parts_of, verb
from nnd_tasks.errors import NNDError
from nnd_tasks.show.console import say, say_lines, warn
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.new import Draft


def _column(words: str) -> Any:
    return Option(help=words, rich_help_panel="Columns")


def _rule(words: str) -> Any:
    return Option(help=words, rich_help_panel="What is better")


def _reading(words: str) -> Any:
    return Option(help=words, rich_help_panel="How the file is read")


@verb(
    "Contribute",
    "nnd new mine --from judged.csv --context article --candidate summary --label verdict --better good  # labels",
    "nnd new pairs --from pairs.jsonl --context prompt --chosen chosen --rejected rejected  # pairs",
)
def new(
    name: Annotated[str, Argument(help="Name of the set: letters, digits and _.")],
    source: Annotated[
        str, Option("--from", help="csv, tsv, xlsx, json, jsonl or parquet; a folder, 'DIR/*.csv', a zip or tar.")
    ],
    context: Annotated[str, _column("What a model is given.")] = "",
    candidate: Annotated[str, _column("The text that was judged.")] = "",
    label: Annotated[str, _column("A label.")] = "",
    score: Annotated[str, _column("A number, or a list of them.")] = "",
    system: Annotated[str, _column("Who wrote the candidate.")] = "",
    rater: Annotated[str, _column("Who judged it.")] = "",
    attribute: Annotated[list[str] | None, _column("NAME=COLUMN of one attribute; repeat it.")] = None,
    category: Annotated[str, _column("Category of the tests.")] = "",
    group: Annotated[str, _column("Pairs stay within it.")] = "",
    spans: Annotated[
        str,
        _column("Errors: COLUMN, START,END, or marks such as '<v>,</v>'."),
    ] = "",
    better: Annotated[str, _rule("LABEL,...: better than the rest.")] = "",
    min_gap: Annotated[float | None, _rule("Smallest difference of scores.")] = None,
    chosen: Annotated[str, _rule("The better text, or messages.")] = "",
    rejected: Annotated[str, _rule("The worse text, or messages.")] = "",
    pair: Annotated[str, _rule("A,B: two columns of texts.")] = "",
    winner: Annotated[str, _rule("Names the better one: A or B, 1 or 2, first or second.")] = "",
    leave_out: Annotated[list[str] | None, _reading("COLUMN=VALUE,...: no judgements; repeat it.")] = None,
    missing: Annotated[str, _reading("VALUE,...: nobody judged.")] = "",
    decimal: Annotated[str, _reading("Decimal mark, . or ,")] = "",
    encoding: Annotated[str, _reading("Such as cp1252. Default: recognised.")] = "",
    license_: Annotated[str, Option("--license", help="Such as cc-by-4.0.")] = "",
    language: Annotated[str, Option(help="Codes, such as en,de.")] = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be made, write nothing.")] = False,
    replace: Replace = False,
) -> None:
    """Make a set out of a table of judged texts or of pairs.

    Columns may be dotted, for fields of objects: scores.fluency. The recipe goes to $NND_HOME/task_yamls/NAME/_recipe;
    edit it for all else, and build again. For other files a recipe and a prepare.py are written, for you to complete.
    """
    from nnd_tasks.sets.new import NoTableError, draft_set, write_draft, write_skeleton

    keys = _drop_empty({
        "context": context, "candidate": candidate, "label": label, "score": score, "system": system, "rater": rater,
        "category": category, "min_gap": min_gap, "chosen": chosen, "rejected": rejected, "winner": winner, "decimal": decimal,
        "encoding": encoding, "group": parts_of(group), "better": parts_of(better), "pair": parts_of(pair),
        "missing": parts_of(missing), "spans": _split_spans(spans),
        "attribute": dict(_split_equals("--attribute", "NAME=COLUMN", attribute)),
        "leave_out": {column: parts_of(values) for column, values in _split_equals("--leave-out", "COLUMN=VALUE", leave_out)},
        "facts": _drop_empty({"license": license_, "language": parts_of(language)}),
    })  # fmt: skip
    try:
        draft = draft_set(name, source, keys, replace=replace)
    except NoTableError as needs:
        recipe, prepare, lines = write_skeleton(name, needs, keys)
        say_lines(
            f"{needs}\n"
            f"complete lines {', '.join(map(str, lines))} of {prepare}\n"
            f"complete `better` (or another rule) in {recipe}\n"
            f"then: nnd build {name} --source {source}"
        )
        return
    _preview(draft)
    if dry_run:
        say("nothing written (--dry-run)")
        return
    tasks = write_draft(draft, replace=replace)
    say_lines(f"\nwritten to {draft.made.folder}\nrecipe: {draft.set_recipe.path}")
    for note in draft.made.notes:
        warn(f"note: {note}")
    names = ",".join(task.name for task in tasks)
    say(f"run it: nnd run --model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks {names}")
    _print_missing(draft)


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def _split_equals(option: str, form: str, values: list[str] | None) -> list[tuple[str, str]]:
    """Return what stands before and after the first = of each text."""
    pairs = []
    for value in values or []:
        name, _, rest = (part.strip() for part in value.partition("="))
        if not name or ("VALUE" in form and not rest):
            raise NNDError(f"{option} {value}: write {form}")
        pairs.append((name, rest or name))
    return pairs


def _split_spans(value: str) -> dict[str, Any]:
    parts = parts_of(value)
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
