"""Commands over results: compare, report, runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from nnd_tasks.cli.typer_app import (
    Allow,
    Brief,
    Category,
    Cluster,
    Format,
    Out,
    Results,
    Select,
    verb,
)
from nnd_tasks.errors import NNDError, has_package, need_package, noting
from nnd_tasks.show.console import say, warn
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnd_tasks.results.compare import Comparison
    from nnd_tasks.results.runs import Run
    from nnd_tasks.show.report import Report


def _report_comparison(comparison: Comparison) -> Report:
    """Report a comparison, with what is known of readers."""
    from nnd_tasks.results.comparison_report import report_comparison

    if comparison.paired.of_documents:
        from nnd_tasks.exchange.document_report import report_documents

        return report_documents([comparison])
    report = report_comparison(comparison)
    if has_package("ceiling"):
        from nnd_tasks.ceiling.shares import add_shares

        report = add_shares(report, comparison.paired)
    if comparison.paired.credit is not None:
        from nnd_tasks.prompted.readers import add_reader_tables

        report = add_reader_tables(report, comparison.paired)
    return report


def _label(runs: Sequence[Run], cluster: str | None, category: str | None) -> Sequence[Run]:
    """Give documents of other tasks the clusters and categories that options name."""
    if not (cluster or category):
        return runs
    need_package("exchange", "--cluster, --category")
    from nnd_tasks.exchange.any_task import label_documents

    return label_documents(runs, cluster, category)


@verb(
    "Conclusions",
    "nnd compare --brief  # each pair of models: difference, interval, verdict",
    "nnd compare results/small results/large --select shots=0 --out tables  # two runs, and files of all tables",
)
def compare(
    runs: Results = None,
    out: Out = None,
    allow: Allow = "",
    select: Select = None,
    readers: Annotated[bool, Option("--readers", help="Compare what each model writes with what it says.")] = False,
    cluster: Cluster = None,
    category: Category = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Compare models: rates, differences with intervals, tests, ranks.

    What to know before reading them is said, too.
    """
    from nnd_tasks.results.compare import compare_runs
    from nnd_tasks.results.read_runs import load_runs
    from nnd_tasks.show.terminal import show_reports

    chosen = _label(load_runs(runs, select, allow)[0], cluster, category)
    if readers:
        need_package("prompted", "--readers")
        from nnd_tasks.prompted.readers import compare_readers

        comparisons = compare_readers(chosen, allow)
    else:
        comparisons = compare_runs(chosen, allow)
    reports = [_report_comparison(comparison) for comparison in comparisons if not comparison.paired.of_documents]
    others = [comparison for comparison in comparisons if comparison.paired.of_documents]
    if others:
        from nnd_tasks.exchange.document_report import report_documents

        reports.append(report_documents(others))
    show_reports(reports, out=out, form=form, brief=brief)


@verb(
    "Conclusions",
    "nnd report  # a page with every test to look at",
    "nnd report anna ben --select limit=all  # two people's runs, on whole sets",
)
def report(
    runs: Results = None,
    output: Annotated[Path, Option("--output", "-o", help="The page to write.")] = Path("report.html"),
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
    need_package("page", "nnd report")
    from nnd_tasks.files import dump_yaml, expand, write_text
    from nnd_tasks.results.read_runs import load_runs
    from nnd_tasks.show.terminal import show_reports

    if (hub or eee) and (test or out or allow or (hub and eee)):
        raise NNDError(f"{'--hub' if hub else '--eee'}: takes --select only; leave --test, --out and --allow out")
    if eee is not None:
        need_package("exchange", "--eee")
        from nnd_tasks.exchange.every_eval_ever import write_records

        chosen = _label(load_runs(runs, select)[0], cluster, category)
        write_records(chosen, expand(eee))
        say(f"written: {eee} ({counted(len(chosen), 'run')}, with the texts of all tests, which keep their licences)")
        return
    if hub is not None:
        from nnd_tasks.page.hub_results import list_hub_results

        write_text(expand(hub), dump_yaml(list_hub_results(load_runs(runs, select)[0])), hint="name a file with --hub")
        say(f"written: {hub}")
        return
    from nnd_tasks.page.browsing import look_up_test
    from nnd_tasks.page.page import render_report

    whole, left_out = load_runs(runs, select, allow, tokens=True)
    chosen = _label(whole, cluster, category)
    if test is not None:
        reports, page = look_up_test(test, chosen, allow)
        show_reports(reports, out=out)
    else:
        readers = []
        if has_package("prompted") and len({run.reader for run in chosen}) > 1:
            from nnd_tasks.prompted.readers import pair_readers

            with noting(left_out):
                readers = pair_readers(chosen, allow)
        reports, page = render_report(chosen, allow, left_out, _report_comparison, readers)
        if out is not None:
            show_reports(reports, out=out, brief=True)
    path = expand(output)
    write_text(path, page, hint="name a file with --output")
    warn(f"written: {path.absolute()}")


@verb(
    "Conclusions",
    "nnd runs  # every run that is saved, and where",
    "nnd runs --select limit=2 --remove  # trials that one no longer needs",
)
def runs(
    results: Results = None,
    select: Select = None,
    remove: Annotated[bool, Option("--remove", help="Remove the files of these runs.")] = False,
    form: Format = "text",
) -> None:
    """List the runs that are saved, or remove some of them."""
    from nnd_tasks.results.read_runs import list_saved, locate_results, remove_runs, report_saved
    from nnd_tasks.show.terminal import show_reports

    if remove and not (results or select):
        raise NNDError("--remove: would remove every run; name results, or choose some with --select KEY=VALUE")
    skipped: list[str] = []
    found = list_saved(locate_results(results), select or (), skipped)
    for line in skipped:
        warn(line)
    if remove:
        remove_runs(found)
    if found or form != "text":
        show_reports([report_saved(found)], form=form)
    if remove:
        say(f"removed {counted(len(found), 'run')}")
