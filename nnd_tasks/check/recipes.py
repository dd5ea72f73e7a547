"""Check the recipe of a set: what it says, what a person has to add, its code, and whether the data are what it makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.check.reading import Folder
from nnd_tasks.check.rules import finding
from nnd_tasks.cleaning import clean_name
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_text
from nnd_tasks.licences import refusal
from nnd_tasks.sets.recipe import FILE, Recipe, SetRecipe, make_recipe, read_recipe
from nnd_tasks.wording import some_of

_FACTS = ("license", "language", "summary", "judges", "homepage", "citation")
#: What a ``prepare.py`` may import and needs no second look.
_MODULES = set("__future__ collections csv itertools json math nnd_tasks numpy pandas pathlib re typing".split())
#: Names that do more than read tables: run code, reach other files or the network.
_NAMES = set(
    "__import__ breakpoint chmod compile delattr eval exec getattr globals hardlink_to locals mkdir popen read_clipboard read_html "
    "read_pickle read_sql remove rename rmdir rmtree setattr symlink_to system to_clipboard to_csv to_excel to_json to_parquet "
    "to_pickle to_sql touch unlink urlopen urlretrieve vars write write_bytes write_text".split()
)
_WRITING = re.compile(r"[rbt]*[wax+][rwabtx+]*")


def check_recipe(found: SetRecipe) -> tuple[Recipe | None, list[Finding]]:
    """Check a recipe without its data: nothing that it names is read, downloaded or run.

    Returns:
        The recipe, None where it cannot be used, and the findings.
    """
    findings, recipe, where = [], None, found.path.name
    try:
        values = read_recipe(found.path)
        known = {key: value for key, value in values.items() if key in Recipe.model_fields}
        for code, part in (("recipe_key", {key: values[key] for key in values if key not in known}), ("recipe_invalid", known)):
            try:
                recipe = make_recipe(part, where)
            except NNDError as error:
                findings.append(finding(code, str(error)))
    except NNDError as error:
        findings.append(finding("recipe_invalid", str(error)))
    if found.prepare and not found.shipped:
        findings += check_code(found.prepare)
    if recipe is None or any(one.severity is Severity.ERROR for one in findings):
        return None, findings
    return recipe, [*findings, *_check_facts(recipe, where, prepared=found.prepare is not None)]


def _check_facts(recipe: Recipe, where: str, *, prepared: bool) -> Iterator[Finding]:
    if not (recipe.pairs or prepared):
        roles = {
            "context": recipe.context,
            "candidate": recipe.candidate,
            "label or score": recipe.label or recipe.score or recipe.attribute,
            "rule (better, order, min_gap or majority)": recipe.rules,
        }
        if lacking := [role for role, said in roles.items() if not said]:
            yield finding("recipe_invalid", f"{where} names no {', no '.join(lacking)}")
    facts = recipe.facts
    for key in _FACTS:
        if not getattr(facts, key) and (key != "language" or recipe.config != FILE):
            yield finding("recipe_fact", f"{where} has no {key}")
    if facts.citation and not re.match(r"\s*@\w+\s*\{", facts.citation):
        yield finding("recipe_fact", "the citation is not BibTeX")
    if facts.homepage and not facts.homepage.startswith("https://"):
        yield finding("recipe_fact", "the homepage is not an https:// address")
    licence = (facts.license or "other").strip().lower()
    if licence not in ("other", "unknown") and (why := refusal(licence)):
        yield finding("recipe_fact", f"the license {licence} {why}", fix="name another, or publish with --ids-only")
    for name, file in recipe.files.items():
        if file and file.url and not file.sha256:
            yield finding("recipe_unverified", name)


def check_code(path: Path) -> Iterator[Finding]:
    """Read a ``prepare.py`` without running it, and name what a reviewer should look at. That proves nothing."""
    try:
        tree = ast.parse(read_text(path))
    except (NNDError, SyntaxError, ValueError, RecursionError) as error:
        yield finding("recipe_invalid", f"{path.name} cannot be read as Python ({reason_of(error)})")
        return
    if not any(isinstance(node, ast.FunctionDef) and node.name == "rows" for node in tree.body):
        yield finding("recipe_invalid", f"{path.name} has no function rows(folder)")
    seen = [f"{what} in line {node.lineno}" for node in ast.walk(tree) for what in _look_at(node)]  # type: ignore[attr-defined]
    if seen:
        yield finding("prepare_code", f"look at {some_of(seen, show=str)}")
    else:
        yield finding("prepare_code", "nothing in it stands out", severity=Severity.NOTE)


def _look_at(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (f"import {one.name}" for one in names if one.name.partition(".")[0] not in _MODULES)
        case ast.ImportFrom(module=module) if (module or "").partition(".")[0] not in _MODULES:
            yield f"import {module or 'from its folder'}"
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if name in _NAMES or name.startswith("__"):
            yield name
        case ast.Constant(value=str(text)) if re.match(r"\w+://", text):
            yield f"the address {text}"
        case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open"), args=args, keywords=keywords):
            values = [*args[:2], *(one.value for one in keywords if one.arg in (None, "mode"))]
            if any(isinstance(one, ast.Constant) and _WRITING.fullmatch(str(one.value)) for one in values):
                yield "open for writing"


def check_built(recipe: Recipe, folder: Folder) -> Iterator[Finding]:
    """Compare the data of a set with what its recipe says of them."""
    counts = {name: dict(tests.frame["category"].value_counts()) for name, tests in folder.configs.items()}
    for name, count in recipe.published.items():
        if name in counts and (found := sum(counts[name].values())) != count:
            yield finding("recipe_counts", f"{found:,}; {count:,} are published", name)
    own = [name for name in folder.known if name not in map(clean_name, folder.known)]
    if recipe.expected and len(own) == 1 and own[0] in counts:
        found = counts[own[0]]
        names = sorted(name for name in {*found, *recipe.expected} if found.get(name) != recipe.expected.get(name))
        if names:
            said = [f"{name} {found.get(name, 0):,} instead of {recipe.expected.get(name, 0):,}" for name in names]
            yield finding("recipe_counts", some_of(said, 5, str), own[0])
    pinned = {name: file.sha256 for name, file in recipe.files.items() if file and file.sha256}
    built = {}
    for part in folder.report.values():
        if isinstance(part, dict) and isinstance(part.get("source_sha256"), dict):
            built |= part["source_sha256"]
    for name in built:
        if name in pinned and built[name] != pinned[name]:
            yield finding("recipe_source", str(name))
