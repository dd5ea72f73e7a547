"""Command for the hub: publish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.cli import completion
from nnd_tasks.cli.console import say, show, warn
from nnd_tasks.cli.typer_app import CONTRIBUTE, Brief, app, examples
from nnd_tasks.errors import NNDError

if TYPE_CHECKING:
    from hub_upload.plan import UploadPlan
    from hub_upload.upload import UploadResult


@app.command(
    rich_help_panel=CONTRIBUTE,
    epilog=examples(
        ("nnd publish answers --repo YOU/answers --source answers.csv --dry-run", "shows all that would go out"),
        ("nnd publish answers --repo YOU/answers --source answers.csv", "publishes it"),
    ),
)
def publish(
    name: Annotated[
        str, typer.Argument(help="A set that is built here, or a dataset folder.", autocompletion=completion.built)
    ],
    repo: Annotated[str, typer.Option(help="The dataset repository of the hub: NAMESPACE/NAME.")],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only check, and show the files, the card and the task; asks the hub nothing."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="With --dry-run: write all that would be uploaded into this folder, new or empty."),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    ids_only: Annotated[
        bool, typer.Option("--ids-only", help="Publish ids and a recipe where the texts might go out, too.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(help="What the set was built from, as nnd build and nnd new take it. Default: download it."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write into a repository of something else, too; shows what it loses.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer of the hub.")] = 30.0,
    brief: Brief = False,
) -> None:
    """Publish a set on the Hugging Face hub: card, parquet files, a tag for the version.

    Where the terms of its texts forbid that, ids, labels and a recipe to build the set go out instead. The set is built
    again first (one of `nnd new` with --source), and refused when something else comes out. What the hub has already is not
    uploaded again. A repository of anything else than this set is left alone.
    """
    from hub_upload.plan import check_out, make_plan
    from hub_upload.upload import check_repo, find_token, upload
    from nnd_tasks.files import expand

    check_repo(repo)
    if out is not None:
        if not dry_run:
            raise NNDError("--out shows what would be uploaded; add --dry-run")
        out = expand(out)
        check_out(out)
    if not dry_run:
        find_token()  # before the work begins
    plan = make_plan(name, repo, source=source, ids_only=ids_only, dry_run=dry_run)
    for note in plan.notes:
        warn(f"note: {note}")
    if dry_run:
        if out is not None:
            plan.write(out)
        _show_plan(plan, out, brief)
    else:
        _show_outcome(plan, upload(plan, private=private, replace=replace, timeout=timeout, tell=warn))


def _show_plan(plan: UploadPlan, out: Path | None, brief: bool) -> None:
    from nnd_tasks.markdown import fenced

    what = "ids and a recipe, no texts" if plan.ids_only else "with its texts"
    say(f"{plan.name} {plan.version}, {what}, for {plan.repo}:")
    head = "       bytes  sha256                                                            file"
    parts = {"": [*fenced("", head, *plan.listing().split("\n"))]}
    if not brief:
        parts["README.md:"] = fenced("markdown", *plan.card.split("\n"))
    if plan.task is not None and not brief:
        parts[f"nnd_{plan.name}.yaml:"] = fenced("yaml", *plan.task.split("\n"))
    for title, lines in parts.items():
        say(title)
        show("\n".join(["", *lines, ""] if title else [*lines, ""]))
    say(f"dry run: nothing was uploaded{f'; written: {out}' if out else ''}")


def _show_outcome(plan: UploadPlan, outcome: UploadResult) -> None:
    if not outcome.changed:
        say(f"{outcome.url} has all of this already, tagged {plan.version}: nothing was uploaded")
        return
    if outcome.created:
        say("the repository is new")
    if outcome.uploaded:
        say(f"uploaded in one commit: {', '.join(outcome.uploaded)}")
    if outcome.removed:
        say(f"removed in the same commit: {', '.join(outcome.removed)}")
    if outcome.tagged:
        say(f"tagged {plan.version}")
    say(f"published {'ids and a recipe' if plan.ids_only else 'with its texts'}: {outcome.url}")
