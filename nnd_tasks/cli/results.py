"""Commands over results: compare, runs."""

from __future__ import annotations

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
from nnd_tasks.errors import NNDError
from nnd_tasks.packages import has_package, need_package
from nnd_tasks.show.console import say, warn
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from nnd_tasks.results.compare import Comparison
    from nnd_tasks.show.report import Report


def describe_comparison(comparison: Comparison) -> Report:
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

    chosen = load_runs(runs, select, allow, cluster=cluster, category=category)[0]
    if readers:
        need_package("prompted", "--readers")
        from nnd_tasks.prompted.readers import compare_readers

        comparisons = compare_readers(chosen, allow)
    else:
        comparisons = compare_runs(chosen, allow)
    reports = [describe_comparison(comparison) for comparison in comparisons if not comparison.paired.of_documents]
    others = [comparison for comparison in comparisons if comparison.paired.of_documents]
    if others:
        from nnd_tasks.exchange.document_report import report_documents

        reports.append(report_documents(others))
    for line in comparisons[0].not_compared if brief else ():
        warn(line)
    show_reports(reports, out=out, form=form, brief=brief)


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
