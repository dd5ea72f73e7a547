"""What a card must say before a set can be published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nnd_tasks.check.findings import Finding, Severity, finding
from nnd_tasks.check.loading import Loaded
from nnd_tasks.datasets import CARD, read_report
from nnd_tasks.recipes.shelf import load_recipe, recipe_paths
from nnd_tasks.sets.card import find_todos
from nnd_tasks.sets.licences import refusal
from nnd_tasks.wording import some_of

_BIBTEX = re.compile(r"^```bibtex[^\n]*\n\s*@\w+\s*\{", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]*@(\w+)\s*\{\s*([^,\s]*)", re.MULTILINE)
_FENCE = re.compile(r"^```bibtex[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: BibTeX keys on our cards that cite the method, not the judgements.
_METHOD = {"laban2022nnd"}
_SHOWN = 5  # lines with a TODO that a finding names


def has_bibtex(text: str) -> bool:
    """Tell whether a card has a citation: a block of BibTeX that begins with an entry."""
    return _BIBTEX.search(text) is not None


def _has_no_citation(name: str) -> bool:
    """Tell whether a set comes with the package and its recipe has no citation: no human evaluation to cite."""
    path, shipped = recipe_paths().get(name, (None, False))
    return path is not None and shipped and not load_recipe(path, name, shipped=True).recipe.citation


def check_card(loaded: Loaded) -> Iterator[Finding]:
    """Check the header and the text of a card; only the text where the header cannot be read."""
    if loaded.header:
        yield from _licence(loaded)
        yield from _language(loaded.header)
    yield from _citation(loaded)
    yield from _todo(loaded)


def _names(value: Any) -> list[str]:
    """Return the texts in a header's value, which is one text or a list of them."""
    values = value if isinstance(value, list) else [value]
    return [str(one).strip() for one in values if one is not None and str(one).strip()]


def languages(loaded: Loaded) -> list[str]:
    """Return the languages that a card declares, TODOs left out."""
    return [name for name in _names(loaded.header.get("language")) if not find_todos(name)]


def _licence(loaded: Loaded) -> Iterator[Finding]:
    header = loaded.header
    licences = [name.lower() for name in _names(header.get("license")) if not find_todos(name)]
    fix = "name the licence of the annotations by its identifier on the hub, such as cc-by-4.0"
    if set(licences) <= {"unknown"}:
        if licences or not _names(header.get("license")):  # a TODO is another finding
            yield finding("card_license", f"{CARD} names no license in its header", fix)
        return
    known = any("corpus" in part for part in read_report(loaded.folder).values() if isinstance(part, dict))
    if "other" in licences and known and not header.get("license_link"):
        say = "say in the card what it allows, best with license_link"
        yield finding("card_license_other", "the card's license is other", say, severity=Severity.NOTE)
    elif "other" in licences and not known:
        message = "the card's license is other, which does not say whether the texts may be passed on"
        fix = "name it by its identifier on the hub if it has one; else publish with --ids-only"
        yield finding("card_license_other", message, fix)
    for name in licences:
        if name != "other" and (why := refusal(name)):
            message = f"the card's license {name} {why}"
            yield finding("card_license_closed", message, f"{fix}; or publish with --ids-only")


def _language(header: dict[str, Any]) -> Iterator[Finding]:
    if not _names(header.get("language")):
        message = f"{CARD} names no language in its header"
        yield finding("card_language", message, "name the languages of the texts, such as en")


def _citation(loaded: Loaded) -> Iterator[Finding]:
    keys = {key.lower() for block in _FENCE.findall(loaded.body) for _, key in _ENTRY.findall(block)}
    fix = "add a ```bibtex block for the human evaluation that the judgements come from"
    if not has_bibtex(loaded.body):
        yield finding("card_citation", f"{CARD} has no citation in BibTeX", fix)
    elif keys <= _METHOD and not _has_no_citation(loaded.name):
        yield finding("card_citation_origin", f"{CARD} cites only the method, not the human evaluation", fix)


def _todo(loaded: Loaded) -> Iterator[Finding]:
    lines = [str(i) for i in find_todos(loaded.card)]
    if lines:
        message = f"{CARD} has a TODO in line {some_of(lines, _SHOWN, str)}"
        yield finding("card_todo", message, "fill it in: only a person can know it", count=len(lines))
