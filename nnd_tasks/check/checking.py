"""Check a set as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnd_tasks.check import apart
from nnd_tasks.check.card_facts import check_card, languages
from nnd_tasks.check.columns import check_columns
from nnd_tasks.check.findings import Finding, Severity, finding
from nnd_tasks.check.labels import check_baselines, check_labels
from nnd_tasks.check.loading import Config, load
from nnd_tasks.check.recipe_checks import check_built, check_recipe
from nnd_tasks.check.task_checks import task_folders
from nnd_tasks.check.texts import Scanner, check_texts
from nnd_tasks.check.yamls import find_yamls
from nnd_tasks.datasets import find_set, read_report
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.shelf import name_of, recipe_file, recipe_paths, same_file

#: Exit statuses: nothing worse than a note; errors; warnings, with --strict. As for every command, 1 is a mistake in the call.
PASSED, ERRORS, WARNINGS = 0, 2, 3


@dataclass(frozen=True, slots=True)
class Size:
    """Counts of one config.

    Attributes:
        tests: rows.
        contexts: number of prompts (the JSON key is `contexts`).
        categories: category -> tests.
    """

    tests: int
    contexts: int
    categories: dict[str, int]


@dataclass
class CheckReport:
    """What was found in a set.

    Attributes:
        name: of the set.
        folder: where it is.
        sizes: config -> counts; configs without readable columns are not in it.
        tasks: names of the tasks that read the set.
        ran: the tasks that were run on a tiny model.
        findings: the worst first.
        brief: show no notes and no rows; they count all the same.
    """

    name: str
    folder: Path
    sizes: dict[str, Size]
    tasks: list[str]
    ran: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    brief: bool = False

    @property
    def shown(self) -> list[Finding]:
        """The findings that a report shows."""
        if not self.brief:
            return self.findings
        return [replace(one, rows=()) for one in self.findings if one.severity > Severity.NOTE]

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(one.severity is severity for one in self.findings)

    def exit_code(self, *, strict: bool = False) -> int:
        """Return the exit status: 2 with errors, 3 with warnings only where those count, else 0."""
        if self.count(Severity.ERROR):
            return ERRORS
        return WARNINGS if strict and self.count(Severity.WARNING) else PASSED


def check_set(
    name: str, *, configs: Collection[str] = (), tasks: Collection[Path] = (), run: bool = True
) -> CheckReport:
    """Check a set for everything that a reviewer would look for.

    Args:
        name: a set that is built here, a dataset folder, or a recipe (or a folder with one), which is checked without data.
        configs: those to check; all where there is none.
        tasks: folders with YAMLs of tasks, besides those that `nnd run` knows.
        run: run the tasks on a tiny model too.

    Raises:
        NNDError: there is no such dataset, config or folder.
    """
    path = recipe_file(name)
    if path is not None and _is_recipe(path):
        return _check_sent(path)
    folders = task_folders(tasks)
    loaded = load(find_set(name), configs)
    findings = list(loaded.findings)
    built = read_report(loaded.folder)
    sound: dict[str, Config] = {}  # configs whose content can be checked
    loadable: dict[str, Config] = {}  # configs that lm-eval can load
    for config in loaded.configs.values():
        part = built.get(config.name)
        faults, typed = check_columns(config, part if isinstance(part, dict) else None)
        findings += faults
        if typed is not None:
            sound[config.name] = typed
            if not any(one.severity is Severity.ERROR for one in faults):
                loadable[config.name] = typed
    yamls, problems = find_yamls(loaded, folders)
    with ThreadPoolExecutor(1) as beside:  # a process of its own checks the tasks meanwhile
        of_tasks = beside.submit(apart.check_apart if yamls else apart.check_here, loaded, loadable, yamls, run=run)
        scanner = Scanner()
        for config in sound.values():
            findings += check_labels(config, loaded.known)
            findings += check_texts(config, loaded.known, languages(loaded), scanner)
        findings += check_baselines(sound.values())
        findings += check_card(loaded)
        findings += check_built(loaded)
        checked, ran = of_tasks.result()
    findings += [*problems, *checked]
    findings.sort(key=lambda one: -one.severity)
    sizes = {config.name: _size(config) for config in sound.values()}
    return CheckReport(loaded.name, loaded.folder, sizes, [y.name for y in yamls], ran, findings)


def _is_recipe(path: Path) -> bool:
    """Tell whether a path is that of a recipe: a file, or one that was found in a folder."""
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False


def _check_sent(path: Path) -> CheckReport:
    """Check a recipe that somebody sent, before anything is built from it."""
    known = [name for name, (place, shipped) in recipe_paths().items() if shipped and same_file(place, path)]
    findings: list[Finding] = []
    name = next(iter(known), path.absolute().parent.name)
    if not known:
        try:
            name = name_of(path)
        except NNDError as error:
            findings.append(finding("recipe_invalid", str(error), "rename it"))
        if recipe_paths().get(name, (None, False))[1]:
            message = f"{name} is a set of this package, so no other can be built under its name"
            findings.append(finding("recipe_invalid", message, "rename the folder of the recipe"))
    findings += check_recipe(path, shipped=bool(known))[1]
    findings.sort(key=lambda one: -one.severity)
    return CheckReport(name, path.absolute().parent, {}, [], findings=findings)


def _size(config: Config) -> Size:
    columns = config.columns
    categories = Counter(columns["category"])
    return Size(config.table.num_rows, len(set(columns["cluster_id"])), dict(sorted(categories.items())))
