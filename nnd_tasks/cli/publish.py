"""Command for the hub: publish."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from nnd_tasks.cli.typer_app import verb
from nnd_tasks.show.console import say, say_lines, warn


@verb(
    "Contribute",
    "nnd publish answers --repo YOU/answers --source answers.csv --dry-run  # shows all that would go out",
    "nnd publish answers --repo YOU/answers --source answers.csv  # publishes it",
)
def publish(
    name: Annotated[str, Argument(help="A set that is built here, or a dataset folder.")],
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
    from nnd_tasks.contribute.publish import check_repo, find_token, make_plan, upload

    check_repo(repo)
    if not dry_run:
        find_token()  # before the work begins
    plan = make_plan(name, repo, source=source, ids_only=ids_only, dry_run=dry_run)
    for note in plan.notes:
        warn(f"note: {note}")
    what = "ids and a recipe, no texts" if plan.ids_only else "with its texts"
    if not dry_run:
        done = upload(plan, private=private, replace=replace)
        if done.removed:
            say(f"removed in the same commit: {', '.join(done.removed)}")
        state = "published" if done.changed else "nothing new, the hub has all of this already"
        say(f"{state}, {what}, tagged {plan.version}: {done.url}")
        return
    say_lines(
        f"{plan.name} {plan.version}, {what}, for {plan.repo}:\n{'bytes':>12}  {'sha256':64}  file\n{plan.list_files()}"
    )
    for path, content in plan.files.items():
        if path.endswith((".md", ".yaml")):
            say_lines(f"\n{path}:\n{content.decode('utf-8')}")
    say("dry run: nothing was uploaded")
