"""Check the recipe of a set: what it says, what a person has to add, and whether the built data are what it makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nnd_tasks.check.findings import Finding, finding
from nnd_tasks.check.loading import Loaded
from nnd_tasks.cleaning import clean_name
from nnd_tasks.datasets import CARD, read_report
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.limits import MAX_RECIPE_BYTES
from nnd_tasks.recipes.make import check_complete
from nnd_tasks.recipes.parse import KEYS, make_recipe
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.recipes.shelf import recipe_paths
from nnd_tasks.sets.card import KNOWN_BY_PEOPLE
from nnd_tasks.sets.licences import refusal
from nnd_tasks.wording import counted, did_you_mean
from nnd_tasks.yaml_json import parse_yaml, read_yaml

_CORRECT = "correct the recipe; nnd_tasks/recipes/recipe.py says what each key means"
#: The recipe on a card, between fences of as many backticks as it needs.
_ON_CARD = re.compile(r"^The recipe, .*\n\n(`{3,})yaml\n(.*?)\n\1[ \t]*$", re.MULTILINE | re.DOTALL)
#: Keys that record what came out of a build; they are no part of how the set is made.
_MADE = ("sources", "published", "expected")
_BIBTEX = re.compile(r"^\s*@\w+\s*\{", re.MULTILINE)


def check_recipe(path: Path, *, shipped: bool = False) -> tuple[Recipe | None, list[Finding]]:
    """Check a recipe without its data: nothing that it names is read or downloaded.

    Args:
        path: of its YAML.
        shipped: whether it comes with the package; only then it may name a step.

    Returns:
        The recipe, None where it cannot be used, and the findings.
    """
    try:
        said = read_yaml(path, limit=MAX_RECIPE_BYTES)
    except NNDError as error:
        return None, [finding("recipe_invalid", str(error), _CORRECT)]
    if not isinstance(said, Mapping):
        message = f"{path.name} is not a mapping such as `candidate: summary`, one key per line"
        return None, [finding("recipe_invalid", message, _CORRECT)]
    findings = [*_unknown(said, path), *_values(said, path)]
    if not shipped:
        findings += _code(said, path)
    recipe = None
    if not findings:
        try:
            recipe = make_recipe(said, path.name)
            if not recipe.step:
                check_complete(recipe, path.name)
        except NNDError as error:
            findings.append(finding("recipe_invalid", str(error), _CORRECT))
    if recipe is not None:
        findings += [*_facts(recipe, path), *_files(recipe, path)]
    return recipe, findings


def _unknown(said: Mapping[Any, Any], path: Path) -> Iterator[Finding]:
    for key in said:
        if key not in KEYS:
            message = f"{path.name} has a key {str(key)[:50]!r} that recipes do not have"
            meant = did_you_mean(str(key), KEYS)
            yield finding("recipe_key", f"{message}{f'; {meant}' if meant else ''}", _CORRECT)


#: Keys that are wrong without others.
_WITH_OTHERS = {
    *("best", "chosen", "clean", "ignore", "list_category", "pair", "rejected", "systems", "votes"),
    *("winner", "winners"),
}


def _values(said: Mapping[Any, Any], path: Path) -> Iterator[Finding]:
    """Yield what is wrong with each key taken alone; a build would stop at the first mistake."""
    for key, value in said.items():
        if key in KEYS and key not in _WITH_OTHERS:
            try:
                make_recipe({key: value}, path.name)
            except NNDError as error:
                yield finding("recipe_invalid", str(error), _CORRECT)


def _code(said: Mapping[Any, Any], path: Path) -> Iterator[Finding]:
    for key in ("step", "options"):
        if said.get(key):
            message = (
                f"{path.name} has {key}, which only recipes of this package can have: one from elsewhere runs no code"
            )
            yield finding("recipe_step", message, "leave it out; compute the columns beforehand, in the file")


def _facts(recipe: Recipe, path: Path) -> Iterator[Finding]:
    """Yield facts that are missing, which only a person can add, and facts in a wrong form."""
    missing = [key for key in recipe.unknown() if key != "language" or recipe.config not in (FILE, FOLDER)]
    for key in missing:
        yield finding("recipe_fact", f"{path.name} has no {key}", f"write {key}: {KNOWN_BY_PEOPLE[key]}")
    if recipe.citation and not _BIBTEX.search(recipe.citation):
        yield finding("recipe_fact", f"the citation in {path.name} is not BibTeX", KNOWN_BY_PEOPLE["citation"])
    if recipe.homepage and not _is_address(recipe.homepage):
        yield finding(
            "recipe_fact", f"the homepage in {path.name} is not an https:// address", KNOWN_BY_PEOPLE["homepage"]
        )
    licence = (recipe.license or "").strip().lower()
    if licence and licence not in ("other", "unknown") and (why := refusal(licence)):
        yield finding(
            "recipe_fact", f"the license {licence} in {path.name} {why}", "name another, or publish with --ids-only"
        )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and text.isprintable()


def _files(recipe: Recipe, path: Path) -> Iterator[Finding]:
    for file in recipe.files.values():
        if file.url and not file.sha256:
            message = (
                f"{file.name} is unverified: {path.name} has no sha256 of it, so the first download is taken as it is"
            )
            yield finding("recipe_unverified", message, "write sha256: what `sha256sum` says of the original file")


# ---------------------------------------------------------------- beside the data


def check_built(loaded: Loaded) -> Iterator[Finding]:
    """Check the recipe of a set that is built, if it has one: taken alone, and against the data."""
    path, shipped = recipe_paths().get(loaded.name, (None, False))
    if path is None:
        return
    recipe, findings = check_recipe(path, shipped=shipped)
    if not shipped:  # a card of ours says the facts; those of the user's own are said of the card, too
        findings = [one for one in findings if one.code != "recipe_fact"]
    yield from findings
    if recipe is None:
        return
    yield from _counts(recipe, loaded)
    yield from _sources(recipe, loaded)
    if not shipped:
        yield from _card(recipe, loaded)


def _counts(recipe: Recipe, loaded: Loaded) -> Iterator[Finding]:
    fix = "build the set again; if it stays so, the file is another version of what the recipe was made with"
    for name, count in recipe.published.items():
        config = loaded.configs.get(name)
        if config is not None and config.table.num_rows != count:
            message = f"{counted(config.table.num_rows, 'test')}; the recipe says that {count:,} are published"
            yield finding("recipe_counts", message, fix, config=name)
    known = set(loaded.known)
    own = [name for name in loaded.known if name not in {clean_name(other) for other in known}]
    if recipe.expected and len(own) == 1 and own[0] in loaded.configs:
        categories = loaded.configs[own[0]].columns.get("category", [])
        counts = {str(one): categories.count(one) for one in dict.fromkeys(categories)}
        if counts != dict(recipe.expected):
            other = sorted(
                name for name in {*counts, *recipe.expected} if counts.get(name) != recipe.expected.get(name)
            )
            parts = [
                f"{name} {counts.get(name, 0):,} instead of {recipe.expected.get(name, 0):,}" for name in other[:5]
            ]
            message = f"the tests are not those that the recipe expects: {', '.join(parts)}"
            yield finding("recipe_counts", message, fix, config=own[0])


def _sources(recipe: Recipe, loaded: Loaded) -> Iterator[Finding]:
    pinned = {file.name: file.sha256 for file in recipe.files.values() if file.sha256}
    known = {**recipe.sources, **pinned}
    other: dict[str, None] = {}
    for part in read_report(loaded.folder).values():
        hashes = part.get("source_sha256") if isinstance(part, dict) else None
        for name, digest in (hashes if isinstance(hashes, dict) else {}).items():
            if name in known and known[name] != digest:
                other[str(name)] = None
    for name in other:
        message = f"the set was built from another {name} than the recipe names by its SHA-256"
        yield finding("recipe_source", message, "build the set again from the file that the recipe was made with")


def _card(recipe: Recipe, loaded: Loaded) -> Iterator[Finding]:
    match = _ON_CARD.search(loaded.body)
    if match is None:
        return
    try:
        said = parse_yaml(match[2], f"the recipe on {CARD}")
    except NNDError as error:
        yield finding("recipe_card", str(error), "build the set again")
        return
    said = said if isinstance(said, Mapping) else {}
    own = recipe.dump()
    other = [key for key in KEYS if key not in _MADE and said.get(key) != own.get(key)]
    if other:
        message = f"the recipe on {CARD} differs from the set's {', '.join(other[:5])}"
        yield finding("recipe_card", message, "build the set again, so that the card shows the recipe that made it")
