"""Check a set as a whole."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nnd_tasks.contribute.check.card_facts import check_card
from nnd_tasks.contribute.check.check_report import CheckReport
from nnd_tasks.contribute.check.reading import read_folder
from nnd_tasks.contribute.check.recipes import check_code, check_recipe
from nnd_tasks.contribute.check.rules import Severity, check_baselines, check_tests, finding
from nnd_tasks.contribute.check.task_rules import check_sent_tasks, check_tasks, find_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.run.register import include_paths
from nnd_tasks.sets.build import compare_counts
from nnd_tasks.sets.catalogue import find_recipe_file, list_recipes
from nnd_tasks.sets.recipe import PREPARE, RECIPE
from nnd_tasks.store import SPLIT, find_set, look_up_set


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
    path, built = expand(name), look_up_set(name)
    sent = path / RECIPE if path.is_dir() else path
    if sent.is_file() and not (built and [*built.glob(f"*/{SPLIT}-*.parquet")]):
        found = find_recipe_file(str(sent.absolute()))
        recipe, findings = check_recipe(found)
        return CheckReport(found.name, found.path.parent, findings=[*findings, *check_sent_tasks(found, recipe)])
    folder = read_folder(find_set(name), configs)
    findings, must_cite = folder.findings, True
    sizes = {
        config: {
            "tests": len(tests.frame),
            "contexts": tests.frame["cluster_id"].nunique(),
            "categories": tests.frame["category"].value_counts().sort_index().to_dict(),
        }
        for config, tests in folder.configs.items()
    }
    if (code := folder.path / PREPARE).is_file():
        findings += check_code(code)
    if known := list_recipes().get(folder.name):
        recipe, found_in_recipe = check_recipe(known)
        findings += [one for one in found_in_recipe if one.code != "recipe_fact"]  # those are said of the card, too
        if recipe:
            counts = {config: size["categories"] for config, size in sizes.items()}
            if not configs:
                findings += [finding("recipe_counts", note) for note in compare_counts(recipe, counts)]
            must_cite = bool(recipe.facts.citation) or not known.shipped
    findings += check_card(folder, must_cite=must_cite)
    for tests in folder.configs.values():
        findings += check_tests(tests)
    findings += check_baselines([*folder.configs.values()])
    faulty = {one.config for one in findings if one.severity is Severity.ERROR}
    folder.configs = {config: tests for config, tests in folder.configs.items() if config not in faulty}
    yamls, problems = find_tasks(folder, [*include_paths(), *tasks])
    findings += [*problems, *check_tasks(folder, yamls)]
    findings.sort(key=lambda one: -one.severity)
    return CheckReport(folder.name, folder.path, sizes, [task.name for task in yamls], findings)
