"""Check a set as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from nnd_tasks.check import apart
from nnd_tasks.check.card import check_card, languages
from nnd_tasks.check.columns import check_columns
from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.check.labels import check_labels
from nnd_tasks.check.loading import Config, find, load
from nnd_tasks.check.tasks import task_folders
from nnd_tasks.check.texts import Scanner, check_texts
from nnd_tasks.check.yamls import find_yamls
from nnd_tasks.datasets import read_report

#: Exit status: nothing above a note; errors; with --strict, warnings. Status 1 is a mistake in the call, as of every command.
PASSED, ERRORS, WARNINGS = 0, 2, 3


@dataclass(frozen=True, slots=True)
class Size:
    """Counts of one config.

    Attributes:
        tests: rows.
        contexts: distinct prompts.
        categories: category -> tests.
    """

    tests: int
    contexts: int
    categories: dict[str, int]


@dataclass
class Report:
    """What was found in a set.

    Attributes:
        name: of the set.
        folder: where it is.
        sizes: config -> counts; configs without readable columns are not in it.
        tasks: names of the tasks that read the set.
        ran: the tasks that were run on a tiny model.
        findings: the worst first.
    """

    name: str
    folder: Path
    sizes: dict[str, Size]
    tasks: list[str]
    ran: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(one.severity is severity for one in self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """Return the exit status: 2 with errors, 3 with warnings only where those count, else 0."""
        if self.count(Severity.ERROR):
            return ERRORS
        return WARNINGS if strict and self.count(Severity.WARNING) else PASSED


def check_set(name: str, *, configs: Collection[str] = (), tasks: Collection[Path] = (), run: bool = True) -> Report:
    """Look for everything that a reviewer of a set would look for.

    Args:
        name: a set that is built here, or a dataset folder.
        configs: those to check; all where there is none.
        tasks: folders with YAMLs of tasks, besides those that `nnd run` knows.
        run: run the tasks on a tiny model too.

    Raises:
        NNDError: there is no such dataset, config or folder.
    """
    folders = task_folders(tasks)
    loaded = load(find(name), configs)
    findings = list(loaded.findings)
    built = read_report(loaded.folder)
    sound: dict[str, Config] = {}  # those whose content can be looked at
    loadable: dict[str, Config] = {}  # those that lm-eval can load
    for config in loaded.configs.values():
        part = built.get(config.name)
        found, typed = check_columns(config, part if isinstance(part, dict) else None)
        findings += found
        if typed is not None:
            sound[config.name] = typed
            if not any(one.severity is Severity.ERROR for one in found):
                loadable[config.name] = typed
    scanner = Scanner()
    for config in sound.values():
        findings += check_labels(config, loaded.known)
        findings += check_texts(config, loaded.known, languages(loaded), scanner)
    findings += check_card(loaded)
    yamls, problems = find_yamls(loaded, folders)
    checked, ran = (apart.check_apart if yamls else apart.check_here)(loaded, loadable, yamls, run=run)
    findings += [*problems, *checked]
    findings.sort(key=lambda one: -one.severity)
    sizes = {config.name: _size(config) for config in sound.values()}
    return Report(loaded.name, loaded.folder, sizes, [y.name for y in yamls], ran, findings)


def _size(config: Config) -> Size:
    columns = config.columns
    categories = Counter(columns["category"])
    return Size(config.table.num_rows, len(set(columns["cluster_id"])), dict(sorted(categories.items())))
