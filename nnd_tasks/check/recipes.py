"""Check the recipe of a set: what it says, what a person has to add, its code, and whether the data are what it makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.check.reading import Folder
from nnd_tasks.check.rules import finding
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_text
from nnd_tasks.licences import refusal
from nnd_tasks.sets.recipe import FILE, Recipe, SetRecipe, make_recipe, read_recipe
from nnd_tasks.wording import some_of

_FACTS = ("license", "language", "summary", "judges", "homepage", "citation")
#: What a ``prepare.py`` may import without a second look.
_HARMLESS = re.compile(
    r"(__future__|collections|csv|itertools|json|math|nnd_tasks|numpy|pandas|pathlib|re|typing)(\..*)?"
)
#: Names that do more than read tables: they run code, change files or reach the network.
_MARKED = re.compile(
    "__.*|breakpoint|chmod|compile|(del|get|set)attr|eval|exec|globals|(hard|sym)link_to|locals|mkdir|popen|remove|rename"
    "|read_(clipboard|html|pickle|sql)|rm(dir|tree)|system|to_(clipboard|csv|excel|json|parquet|pickle|sql)|touch|unlink"
    "|url(open|retrieve)|vars|write(_bytes|_text)?"
)
_WRITING = re.compile("[rbt]*[wax+][rwabtx+]*")


def check_recipe(found: SetRecipe) -> tuple[Recipe | None, list[Finding]]:
    """Check a recipe without its data: nothing that it names is read, downloaded or run.

    Returns:
        The recipe, None where it cannot be used, and the findings.
    """
    findings, recipe = [], None
    try:
        values = read_recipe(found.path)
        for code, known in (("recipe_key", False), ("recipe_invalid", True)):
            part = {key: value for key, value in values.items() if (key in Recipe.model_fields) is known}
            try:
                recipe = make_recipe(part, found.path.name)
            except NNDError as error:
                findings.append(finding(code, str(error)))
    except NNDError as error:
        findings.append(finding("recipe_invalid", str(error)))
    sound = recipe is not None and not findings
    if found.prepare and not found.shipped:
        findings += check_code(found.prepare)
    if not sound or recipe is None:
        return None, findings
    return recipe, [*findings, *_check_facts(recipe, prepared=found.prepare is not None)]


def _check_facts(recipe: Recipe, *, prepared: bool) -> Iterator[Finding]:
    needs = {
        "context": recipe.context,
        "candidate": recipe.candidate,
        "label or score": recipe.label or recipe.score or recipe.attribute,
        "better, order, min_gap or majority": recipe.rules,
    }
    if not (recipe.pairs or prepared or all(needs.values())):
        yield finding("recipe_invalid", f"no {', no '.join(role for role, said in needs.items() if not said)}")
    facts = recipe.facts
    notes = [f"no {key}" for key in _FACTS if not getattr(facts, key) and (key != "language" or recipe.config != FILE)]
    if facts.citation and not re.match(r"\s*@\w+\s*\{", facts.citation):
        notes.append("the citation is not BibTeX")
    if facts.homepage and not facts.homepage.startswith("https://"):
        notes.append("the homepage is not an https:// address")
    licence = (facts.license or "other").lower()
    if licence not in ("other", "unknown") and (why := refusal(licence)):
        notes.append(f"the license {licence} {why}")
    if notes:
        yield finding("recipe_fact", "; ".join(notes), count=len(notes))
    if unverified := [name for name, file in recipe.files.items() if file and file.url and not file.sha256]:
        yield finding("recipe_unverified", some_of(unverified, show=str), count=len(unverified))


def check_code(path: Path) -> Iterator[Finding]:
    """Read a ``prepare.py`` without running it, and name what a reviewer should look at. That proves nothing."""
    try:
        tree = ast.parse(read_text(path))
    except (NNDError, SyntaxError, ValueError, RecursionError) as error:
        yield finding("recipe_invalid", f"{path.name} cannot be read as Python ({reason_of(error)})")
        return
    if "rows" not in [getattr(node, "name", "") for node in tree.body]:
        yield finding("recipe_invalid", f"{path.name} has no function rows(folder)")
    marked = [f"{what} in line {getattr(node, 'lineno', '?')}" for node in ast.walk(tree) for what in _look_at(node)]
    if marked:
        yield finding("prepare_code", f"look at {some_of(marked, show=str)}", count=len(marked))
    else:
        yield finding("prepare_code", "nothing in it stands out", severity=Severity.NOTE)


def _look_at(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [f"import {one.name}" for one in names if not _HARMLESS.fullmatch(one.name)]
        case ast.ImportFrom(module=module) if not _HARMLESS.fullmatch(module or ""):
            return [f"import {module or 'of a file beside it'}"]
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if _MARKED.fullmatch(name):
            return [name]
        case ast.Constant(value=str(text)) if re.match(r"\w+://", text):
            return [text]
        case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open"), args=args, keywords=keywords):
            values = [*args, *(one.value for one in keywords)]
            writes = any(isinstance(one, ast.Constant) and _WRITING.fullmatch(str(one.value)) for one in values)
            return ["open for writing"] if writes else []
    return []


def check_counts(recipe: Recipe, folder: Folder) -> Iterator[Finding]:
    """Compare the numbers of tests of a set with those that its recipe names."""
    for name, tests in folder.configs.items():
        counts = tests.frame["category"].value_counts()
        if recipe.published.get(name) not in (None, len(tests.frame)):
            yield finding("recipe_counts", f"{len(tests.frame):,}; {recipe.published[name]:,} are published", name)
        if recipe.expected and name == folder.default and dict(counts) != recipe.expected:
            names = sorted({*counts.index, *recipe.expected})
            said = [f"{one} {counts.get(one, 0):,} ({recipe.expected.get(one, 0):,})" for one in names]
            yield finding("recipe_counts", f"category, tests (expected): {some_of(said, show=str)}", name)
