"""Check a set as a whole."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nnd_tasks.check.card import check_card
from nnd_tasks.check.check_report import CheckReport, Size
from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.check.reading import read_folder
from nnd_tasks.check.recipes import check_built, check_code, check_recipe
from nnd_tasks.check.rules import check_baselines, check_tests
from nnd_tasks.check.tasks import check_tasks, find_tasks
from nnd_tasks.datasets import SPLIT, find_set
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.runner.register import include_paths
from nnd_tasks.sets.recipe import PREPARE, RECIPE, SetRecipe, find_recipe, list_recipes


def check_set(name: str, *, configs: Collection[str] = (), tasks: Collection[Path] = ()) -> CheckReport:
    """Check a set for everything that a reviewer would look for.

    Args:
        name: a set that is built here, a dataset folder, or a recipe (or a folder with one), which is checked without data.
        configs: those to check; all where there is none.
        tasks: folders with YAMLs of tasks, besides those that `nnd run` knows.

    Raises:
        NNDError: there is no such dataset, config or folder.
    """
    for place in tasks:
        if not place.is_dir():
            raise NNDError(f"--tasks {place}: there is no such folder")
    path = expand(name)
    if "/" in name or path.suffix or path.name == RECIPE:
        if path.is_file() or ((path / RECIPE).is_file() and not [*path.glob(f"*/{SPLIT}-*.parquet")]):
            sent = find_recipe(name)
            return _report(sent.name, sent.path.parent, check_recipe(sent)[1])
    folder = read_folder(find_set(name), configs)
    findings, recipe = folder.findings, None
    if (folder.path / PREPARE).is_file():
        findings += check_code(folder.path / PREPARE)
    known = list_recipes().get(folder.name)
    if known:
        recipe, found = check_recipe(known)
        findings += [one for one in found if one.code != "recipe_fact"]  # those are said of the card, too
    if recipe:
        findings += check_built(recipe, folder)
    findings += check_card(
        folder.card,
        folder.header,
        stress=any("corpus" in part for part in folder.report.values() if isinstance(part, dict)),
        must_cite=not (known and known.shipped and recipe and not recipe.facts.citation),
    )
    for tests in folder.configs.values():
        findings += check_tests(tests)
    findings += check_baselines([*folder.configs.values()])
    sizes = {tests.name: Size.of(tests.frame) for tests in folder.configs.values()}
    faulty = {one.config for one in findings if one.severity is Severity.ERROR}
    folder.configs = {name: tests for name, tests in folder.configs.items() if name not in faulty}
    found_tasks, problems = find_tasks(folder, [*include_paths(), *tasks])
    return _report(
        folder.name,
        folder.path,
        [*findings, *problems, *check_tasks(folder, found_tasks)],
        sizes,
        [task.name for task in found_tasks],
    )


def _report(
    name: str, folder: Path, findings: list[Finding], sizes: dict[str, Size] | None = None, tasks: Collection[str] = ()
) -> CheckReport:
    return CheckReport(name, folder, sizes or {}, [*tasks], sorted(findings, key=lambda one: -one.severity))
