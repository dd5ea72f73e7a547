"""What a card must say before a set can be published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nnd_tasks.check.findings import Finding, finding
from nnd_tasks.check.loading import Loaded
from nnd_tasks.datasets import CARD
from nnd_tasks.sources import SOURCES

_TODO = re.compile(r"\bTODO\b")
_ENTRY = re.compile(r"^\s*@(\w+)\s*\{\s*([^,\s]*)", re.MULTILINE)
_FENCE = re.compile(r"^```bibtex[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: BibTeX keys on our cards that cite the method, not the judgements.
_METHOD = {"laban2022nnd"}
_SHOWN = 5  # lines with TODO that are named


def check_card(loaded: Loaded) -> Iterator[Finding]:
    """Check the header and the text of a card; one whose header cannot be read is checked for its text only."""
    if loaded.header:
        yield from _licence(loaded.header)
        yield from _language(loaded.header)
    yield from _citation(loaded)
    yield from _todo(loaded)


def _names(value: Any) -> list[str]:
    """Return what a header names: one text, or a list of them."""
    values = value if isinstance(value, list) else [value]
    return [str(one).strip() for one in values if one is not None and str(one).strip()]


def languages(loaded: Loaded) -> list[str]:
    """Return the languages that a card declares, those still to be filled in left out."""
    return [name for name in _names(loaded.header.get("language")) if not _TODO.search(name)]


def _licence(header: dict[str, Any]) -> Iterator[Finding]:
    found = [name.lower() for name in _names(header.get("license"))]
    fix = "name the licence of the annotations by its identifier on the hub, such as cc-by-4.0"
    if not found or set(found) <= {"unknown"}:
        yield finding("card_license", f"{CARD} names no license in its header", fix)
    elif "other" in found and not header.get("license_link"):
        message = "the card's license is other"
        yield finding("card_license_other", message, "say in the card what it allows, best with license_link")


def _language(header: dict[str, Any]) -> Iterator[Finding]:
    if not _names(header.get("language")):
        message = f"{CARD} names no language in its header"
        yield finding("card_language", message, "name the languages of the texts, such as en")


def _citation(loaded: Loaded) -> Iterator[Finding]:
    keys = {key.lower() for block in _FENCE.findall(loaded.body) for _, key in _ENTRY.findall(block)}
    fix = "add a ```bibtex block for the human evaluation that the judgements come from"
    if not keys:
        yield finding("card_citation", f"{CARD} has no citation", fix)
    elif keys <= _METHOD and not (loaded.name in SOURCES and not SOURCES[loaded.name].citation):
        yield finding("card_citation_origin", f"{CARD} cites the method only, not who judged", fix)


def _todo(loaded: Loaded) -> Iterator[Finding]:
    lines = [str(i) for i, line in enumerate(loaded.card.splitlines(), start=1) if _TODO.search(line)]
    if lines:
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        message = f"{CARD} has a TODO in line {', '.join(lines[:_SHOWN])}{more}"
        yield finding("card_todo", message, "fill it in: only a person can know it", count=len(lines))
