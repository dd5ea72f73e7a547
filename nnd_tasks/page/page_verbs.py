"""`nnd report`: a page with every test, or records of the results for elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from nnd_tasks.cli.typer_app import Allow, Category, Cluster, Out, Results, Select, verb
from nnd_tasks.errors import NNDError
from nnd_tasks.packages import has_package, need_package
from nnd_tasks.show.console import say, warn
from nnd_tasks.text import counted


@verb(
    "Conclusions",
    "nnd report  # a page with every test to look at",
    "nnd report anna ben --select limit=all  # two people's runs, on whole sets",
)
def report(
    runs: Results = None,
    output: Annotated[Path | None, Option("--output", "-o", help="The page to write; default: report.html.")] = None,
    test: Annotated[str | None, Option(metavar="TEST_ID", help="Print one test, and write its page.")] = None,
    hub: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write a model's rates for .eval_results of its repository on the hub."),
    ] = None,
    eee: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Write records in the schema of Every Eval Ever: rates, and every test."),
    ] = None,
    cluster: Cluster = None,
    category: Category = None,
    allow: Allow = "",
    select: Select = None,
    out: Out = None,
) -> None:
    """Write a page with rates, differences and every test.

    What to know before reading them, signatures and commands stand there too.

    With --out it gives the same numbers as files, with surprise around marked errors.
    """
    from nnd_tasks.cli.results import describe_comparison
    from nnd_tasks.files import dump_yaml, expand, noting, write_text
    from nnd_tasks.results.read_runs import load_runs
    from nnd_tasks.show.terminal import show_reports

    if (hub or eee) and (test or out or output or allow or (hub and eee)):
        raise NNDError(
            f"{'--hub' if hub else '--eee'}: takes --select only; leave --test, --out, --output and --allow out"
        )
    if out is not None and out.suffix == ".html":
        raise NNDError(f"--out {out}: is a folder for the tables; -o {out} names the page")
    if eee is not None:
        need_package("exchange", "--eee")
        from nnd_tasks.exchange.every_eval_ever import write_records

        chosen = load_runs(runs, select, cluster=cluster, category=category)[0]
        write_records(chosen, expand(eee))
        say(f"written: {eee} ({counted(len(chosen), 'run')}, with the texts of all tests, which keep their licences)")
        return
    if hub is not None:
        from nnd_tasks.page.hub_results import list_hub_results

        write_text(expand(hub), dump_yaml(list_hub_results(load_runs(runs, select)[0])), hint="name a file with --hub")
        say(f"written: {hub}; its dataset ids are repositories of the hub: change those that have another name there")
        return
    from nnd_tasks.page.browsing import look_up_test
    from nnd_tasks.page.page import render_report

    chosen, left_out = load_runs(runs, select, allow, tokens=True, cluster=cluster, category=category)
    if test is not None:
        reports, page = look_up_test(test, chosen, allow)
        show_reports(reports, out=out)
    else:
        readers = []
        if has_package("prompted") and len({run.reader for run in chosen}) > 1:
            from nnd_tasks.prompted.readers import pair_readers

            with noting(left_out):
                readers = pair_readers(chosen, allow)
        reports, page = render_report(chosen, allow, left_out, describe_comparison, readers)
        if out is not None:
            show_reports(reports, out=out, brief=True)
    path = expand(output or Path("report.html"))
    write_text(path, page, hint="name a file with --output")
    warn(f"written: {path.absolute()}")
