"""Check the recipe of a set: what it says, what a person has to add, and its code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nnd_tasks.contribute.check.rules import Finding, Severity, finding
from nnd_tasks.contribute.look import look_at_code
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.card import KNOWN_BY_PEOPLE
from nnd_tasks.sets.catalogue import RecipeFile
from nnd_tasks.sets.recipe import FILE, Recipe, make_recipe, read_recipe
from nnd_tasks.text import some_of


def check_recipe(found: RecipeFile) -> tuple[Recipe | None, list[Finding]]:
    """Check a recipe without its data: nothing that it names is read, downloaded or run.

    Returns:
        The recipe, None where it cannot be used, and the findings.
    """
    findings = [*check_code(found.prepare)] if found.prepare and not found.shipped else []
    values: dict[str, Any] = {}
    try:
        values = read_recipe(found.path)
        recipe = make_recipe(values, found.path.name)
    except NNDError as error:
        code = "recipe_key" if values.keys() - Recipe.model_fields.keys() else "recipe_invalid"
        return None, [finding(code, str(error)), *findings]
    return recipe, [*_check_facts(recipe, prepared=found.prepare is not None), *findings]


def _check_facts(recipe: Recipe, *, prepared: bool) -> Iterator[Finding]:
    judged = recipe.label or recipe.score or recipe.attribute
    if not (recipe.pairs or prepared or (recipe.context and recipe.candidate and judged and recipe.rules)):
        needs = "a recipe of single texts names context, candidate, label or score, and one of better, order, min_gap, majority"
        yield finding("recipe_invalid", needs)
    facts = [
        key
        for key in KNOWN_BY_PEOPLE
        if getattr(recipe.facts, key) in (None, ()) and (key != "language" or recipe.config != FILE)
    ]
    if facts:
        yield finding("recipe_fact", ", ".join(facts), count=len(facts))
    files = [name for name, file in recipe.files.items() if file and file.url and not file.sha256]
    if files:
        yield finding("recipe_unverified", some_of(files, show=str), count=len(files))


def check_code(path: Path) -> Iterator[Finding]:
    """Check a ``prepare.py`` without running it."""
    try:
        marked = look_at_code(path)
    except NNDError as error:
        yield finding("recipe_invalid", str(error))
        return
    note = f"look at {some_of(marked, show=str)}" if marked else "nothing in it stands out"
    yield finding("prepare_code", note, severity=Severity.WARNING if marked else Severity.NOTE, count=len(marked))
