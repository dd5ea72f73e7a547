"""Commands for sets of one's own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option

from nnd_tasks.cli.typer_app import Replace, announce_tasks, complete_set, parts_of, verb
from nnd_tasks.errors import NNDError
from nnd_tasks.show.console import say, say_lines, warn
from nnd_tasks.text import counted, some_of

if TYPE_CHECKING:
    from nnd_tasks.contribute.new import Draft


def _column(words: str) -> Any:
    return Option(help=words, rich_help_panel="Columns")


def _rule(words: str) -> Any:
    return Option(help=words, rich_help_panel="What is better")


def _print_keys(wanted: bool) -> None:
    if wanted:
        from nnd_tasks.contribute.keys import RECIPE, describe_keys

        say_lines(describe_keys(RECIPE))
        raise Exit


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
        str,
        Option(
            "--from",
            help="csv, tsv, txt, xlsx, json, jsonl or parquet, csv.gz; a folder, 'DIR/*.csv', a zip or tar.",
        ),
    ],
    context: Annotated[str, _column("What a model is given.")] = "",
    candidate: Annotated[str, _column("The text that was judged.")] = "",
    label: Annotated[str, _column("A label.")] = "",
    score: Annotated[str, _column("A number, or a list of them.")] = "",
    system: Annotated[str, _column("Who wrote the candidate; A,B: systems that have columns of their own.")] = "",
    rater: Annotated[str, _column("Who judged it; A,B: raters that have columns of their own.")] = "",
    attribute: Annotated[list[str] | None, _column("NAME=COLUMN of one attribute; repeat it.")] = None,
    category: Annotated[str, _column("Category of the tests.")] = "",
    group: Annotated[str, _column("Pairs stay within it.")] = "",
    spans: Annotated[
        str,
        _column("Errors: COLUMN, START,END, or marks such as '<v>,</v>'."),
    ] = "",
    better: Annotated[str, _rule("LABEL,...: better than the rest.")] = "",
    min_gap: Annotated[float | None, _rule("Smallest difference of scores.")] = None,
    best: Annotated[str, _rule("Which score is best: highest, lowest.")] = "",
    several_errors: Annotated[str, _rule("each: of errors of a text that differ, each makes a test.")] = "",
    chosen: Annotated[str, _rule("The better text, or messages.")] = "",
    rejected: Annotated[str, _rule("The worse text, or messages.")] = "",
    pair: Annotated[str, _rule("A,B: two columns of texts.")] = "",
    winner: Annotated[str, _rule("Names the better one: A or B, 1 or 2, a system, tie.")] = "",
    winners: Annotated[str, _rule("VALUE=first, second or tie,...: what the values of --winner mean.")] = "",
    leave_out: Annotated[list[str] | None, _reading("COLUMN=VALUE,...: no judgements; repeat it.")] = None,
    missing: Annotated[str, _reading("VALUE,...: nobody judged.")] = "",
    decimal: Annotated[str, _reading("Decimal mark, . or ,")] = "",
    encoding: Annotated[str, _reading("Such as cp1252. Default: recognised.")] = "",
    license_: Annotated[str, Option("--license", help="Such as cc-by-4.0.")] = "",
    language: Annotated[str, Option(help="Codes, such as en,de.")] = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be made, write nothing.")] = False,
    replace: Replace = False,
    _: Annotated[
        bool, Option("--keys", is_eager=True, callback=_print_keys, help="Show what a recipe can say, and end.")
    ] = False,
) -> None:
    """Make a set out of a table of judged texts or of pairs.

    Exports of annotation tools and other common files are recognised; the prepare.py that reads them is put beside the recipe.
    Columns may be dotted, for fields of objects: scores.fluency. The recipe goes to $NND_HOME/task_yamls/NAME/_recipe; edit it
    for all else, and build again.
    """
    # Arrow's own pool does not use again what numpy's arrays leave free: 100 MB of a table of 400,000 rows.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from nnd_tasks.contribute.new import draft_set

    systems, raters = (parts_of(names) if "," in names else [] for names in (system, rater))
    system, rater = "" if systems else system, "" if raters else rater
    keys = _drop_empty({
        "context": context, "candidate": candidate, "label": label, "score": score, "system": system, "rater": rater,
        "category": category, "min_gap": min_gap, "best": best, "several_errors": several_errors,
        "chosen": chosen, "rejected": rejected, "winner": winner, "decimal": decimal,
        "encoding": encoding, "group": parts_of(group), "better": parts_of(better), "pair": parts_of(pair),
        "missing": parts_of(missing), "spans": _split_spans(spans),
        "attribute": _split_attributes(attribute), "leave_out": _split_left_out(leave_out), "winners": _split_winners(winners),
        "facts": _drop_empty({"license": license_, "language": parts_of(language)}),
    })  # fmt: skip
    draft = draft_set(name, source, keys, systems=systems, raters=raters, replace=replace)
    _preview(draft)
    tasks = [] if dry_run else draft.write(replace=replace)
    for note in draft.built_set.notes:
        warn(f"note: {note}")
    if dry_run:
        say("nothing written (--dry-run)")
        return
    say_lines(f"\nwritten to {draft.built_set.folder}\nrecipe: {draft.set_recipe.path}")
    announce_tasks([task.name for task in tasks])
    _print_missing(draft)


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


def _split_equals(option: str, form: str, value: str) -> tuple[str, str]:
    """Split a text at its first ``=``."""
    name, _, after = (text.strip() for text in value.partition("="))
    if not name or ("VALUE" in form and not after):
        raise NNDError(f"{option} {value}: write {form}")
    first, *others = after.split(",")
    columns = [text.strip() for text in others if "=" in text]
    if columns:
        values = ",".join([first, *(text for text in others if "=" not in text)])
        repeated = " ".join(f"{option} {column}" for column in columns)
        raise NNDError(f"{option} {value}: one column per option; write {option} {name}={values} {repeated}")
    return name, after or name


def _split_attributes(values: list[str] | None) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for value in values or []:
        name, column = _split_equals("--attribute", "NAME=COLUMN", value)
        if name in attributes:
            raise NNDError(f"--attribute {value}: {name} is named twice; give each attribute a name of its own")
        attributes[name] = column
    return attributes


def _split_left_out(values: list[str] | None) -> dict[str, list[str]]:
    left_out: dict[str, list[str]] = {}
    for value in values or []:
        column, cells = _split_equals("--leave-out", "COLUMN=VALUE", value)
        left_out.setdefault(column, []).extend(parts_of(cells))
    return left_out


def _split_winners(values: str) -> dict[str, str]:
    winners: dict[str, str] = {}
    for pair in parts_of(values):
        value, _, meaning = (text.strip() for text in pair.rpartition("="))
        if meaning not in ("first", "second", "tie") or value in winners:
            raise NNDError(
                f"--winners {values}: write VALUE=first, VALUE=second or VALUE=tie for each value, with commas"
            )
        winners[value] = meaning
    return winners


def _split_spans(value: str) -> dict[str, Any]:
    names = parts_of(value)
    if len(names) > 2:
        raise NNDError(f"--spans {value}: write COLUMN, START,END or two marks")
    if len(names) < 2:
        return {"column": names[0]} if names else {}
    if any(re.match(r"[\w@]", name) for name in names):
        return {"start": names[0], "end": names[1]}
    return {"marks": names}


def _preview(draft: Draft) -> None:
    """Show the columns, the rule, some tests, and what is left out."""
    from nnd_tasks.cli.listing import tabulate_examples
    from nnd_tasks.sets.account import describe_accounts
    from nnd_tasks.show.terminal import print_counts, print_table

    for role in draft.proposed:
        column = getattr(draft.set_recipe.recipe, role)
        if role == "leave_out":
            say(*(f"left out, as {name} says: {', '.join(values)}" for name, values in column.items()))
        elif role == "spans":
            say(f"spans: fields {column.start!r}, {column.end!r} and {column.category!r} of column {column.column!r}")
        else:
            say(f"{role}: column {column!r}, by its name" if isinstance(column, str) else f"{role}: columns {column}")
    if draft.unused:
        say(f"not used: {some_of(draft.unused, 40, str)}")
    say(f"rule: {draft.built_set.rule}")
    config, tests = next(iter(draft.built_set.tables.items()))
    print_table(tabulate_examples(tests, 3))
    say(counted(tests.num_rows, "test"))
    print_counts(draft.built_set.summaries[config].categories)
    say(*describe_accounts(draft.built_set.report[config]["accounts"]))


def _print_missing(draft: Draft) -> None:
    from nnd_tasks.sets.write import KNOWN_BY_PEOPLE

    missing = {
        key: meaning for key, meaning in KNOWN_BY_PEOPLE.items() if not getattr(draft.set_recipe.recipe.facts, key)
    }
    if missing:
        say("needed before publishing, under `facts` in the recipe:")
    for key, meaning in missing.items():
        say(f"- {key}: {meaning}")


@verb(
    "Contribute",
    "nnd check answers  # a set that is built here",
    "nnd check answers --format markdown -o report.md  # for a pull request",
)
def check(
    name: Annotated[
        str,
        Argument(
            metavar="NAME|PATH",
            help="A set that is built here, a dataset folder, or a recipe (_recipe).",
        ),
    ],
    config: Annotated[
        list[str] | None,
        Option(help="Check only this config; repeatable."),
    ] = None,
    tasks: Annotated[
        list[Path] | None, Option(help="Folder of task YAMLs besides those that nnd run knows; repeatable.")
    ] = None,
    form: Annotated[
        Literal["text", "markdown", "json"],
        Option("--format", help="text; markdown, for a pull request; or json."),
    ] = "text",
    output: Annotated[Path | None, Option("--output", "-o", help="Write the report to this file.")] = None,
    strict: Annotated[bool, Option("--strict", help="Warnings count too.")] = False,
) -> None:
    """Look for everything that a reviewer of a set would look for.

    The recipe of a set is checked too.

    Errors keep a set from being run or published; warnings may mislead, or need a person's eye.

    Exit status: 0 no errors (with --strict, no warnings either), 1 nothing could be checked, 2 errors, 3 warnings with --strict.
    """
    from nnd_tasks.contribute.check.checking import check_set
    from nnd_tasks.contribute.check.rules import Severity
    from nnd_tasks.files import write_text
    from nnd_tasks.publishers.licences import terms_of, texts_may_go
    from nnd_tasks.store import read_report

    report = check_set(name, configs=config or (), tasks=tasks or ())
    closed = any(finding.code.startswith("card_license") for finding in report.findings)
    texts = form == "text" or (texts_may_go(terms_of(report.name, read_report(report.folder))) and not closed)
    content = report.json() if form == "json" else report.markdown(texts=texts, rendered=form == "markdown")
    if output is not None:
        write_text(output, f"{content}\n", hint="name another file with --output")
        say(f"{report.totals}; written: {output}")
    else:
        if form == "text":
            say(str(report.folder))
        say_lines(content)
    worst = max((finding.severity for finding in report.findings), default=Severity.NOTE)
    raise Exit(2 if worst is Severity.ERROR else 3 if strict and worst is Severity.WARNING else 0)


@verb(
    "Contribute",
    "nnd publish answers --repo YOU/answers --source answers.csv --dry-run  # shows all that would go out",
    "nnd publish answers --repo YOU/answers --source answers.csv  # publishes it",
)
def publish(
    name: Annotated[str, Argument(help="A set, or a dataset folder.", autocompletion=complete_set)],
    repo: Annotated[str, Option(help="The dataset repository of the hub: NAMESPACE/NAME.")],
    source: Annotated[
        str | None,
        Option(help="What the set was built from, as for nnd new --from or nnd build --source. Default: download it."),
    ] = None,
    ids_only: Annotated[
        bool, Option("--ids-only", help="Publish ids and a recipe where the texts might go out, too.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only check, and show the files and the card; asks the hub nothing.")
    ] = False,
    private: Annotated[bool, Option("--private", help="Make a new repository private.")] = False,
    replace: Annotated[bool, Option("--replace", help="Write into a repository of something else, too.")] = False,
) -> None:
    """Publish a set on the Hugging Face hub.

    What goes out is a card, parquet files and a tag for the version.

    Where the terms of its texts forbid that, ids, labels and a recipe to build the set go out instead. The set is built
    again first, and refused when something else comes out. A repository of anything else than this set is left alone.
    """
    from nnd_tasks.contribute.publish import find_token, make_plan, upload

    if not dry_run:
        find_token()  # before the work begins
    plan = make_plan(name, repo, source=source, ids_only=ids_only, dry_run=dry_run)
    for note in plan.notes:
        warn(f"note: {note}")
    content = "ids and a recipe, no texts" if plan.ids_only else "with its texts"
    if not dry_run:
        done = upload(plan, private=private, replace=replace)
        if done.removed:
            say(f"removed in the same commit: {', '.join(done.removed)}")
        state = "published" if done.changed else "nothing new, the hub has all of this already"
        say(f"{state}, {content}, tagged {plan.version}: {done.url}")
        return
    say_lines(
        f"{plan.name} {plan.version}, {content}, for {plan.repo}:\n{'bytes':>12}  {'sha256':64}  file\n{plan.list_files()}"
    )
    for path, data in plan.files.items():
        if path.endswith((".md", ".yaml")):
            say_lines(f"\n{path}:\n{data.decode('utf-8')}")
    say("dry run: nothing was uploaded")
