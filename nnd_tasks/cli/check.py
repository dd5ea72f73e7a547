"""Command over one set: check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option

from nnd_tasks.cli.typer_app import verb
from nnd_tasks.show.console import say, say_lines


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
    from nnd_tasks.files import write_text
    from nnd_tasks.sets.licences import terms_of, texts_may_go
    from nnd_tasks.store import read_report

    report = check_set(name, configs=config or (), tasks=tasks or ())
    closed = any(one.code.startswith("card_license") for one in report.findings)
    texts = form == "text" or (texts_may_go(terms_of(report.name, read_report(report.folder))) and not closed)
    content = report.json() if form == "json" else report.markdown(texts=texts, rendered=form == "markdown")
    if output is not None:
        write_text(output, f"{content}\n", hint="name another file with --output")
        say(f"{report.totals}; written: {output}")
    else:
        if form == "text":
            say(str(report.folder))
        say_lines(content)
    raise Exit(report.exit_code(strict=strict))
