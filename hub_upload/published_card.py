"""The card of a published set: what must be in it, and what publishing adds to the card of the build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnd_tasks.card import read_card
from nnd_tasks.check.card_facts import has_bibtex, unfilled
from nnd_tasks.datasets import CARD
from nnd_tasks.files import read_text
from nnd_tasks.licences import Terms, licence_names
from nnd_tasks.markdown import code, table

_HEADER = {
    "license": "the licence of the annotations",
    "language": "the languages of the texts",
    "pretty_name": "a name for people",
    "task_categories": "the hub's task category",
    "size_categories": "the size",
    "configs": "the configs",
}


def lacking(folder: Path) -> list[str]:
    """Return what the card of a dataset folder still lacks for publishing, each in a few words.

    Raises:
        NNDError: there is no card.
    """
    card = read_card(folder)
    missing = [f"{key} ({what})" for key, what in _HEADER.items() if not card.header.get(key)]
    if card.header.get("license") and set(licence_names(card.header["license"])) <= {"unknown"}:
        missing.append("license (the licence of the annotations)")
    if not has_bibtex(card.text()):
        missing.append("a citation (a ```bibtex block)")
    marked = [str(i) for i in unfilled(read_text(folder / CARD))]
    if marked:
        missing.append(f"what is marked TODO in line{'s' if len(marked) > 1 else ''} {', '.join(marked)}")
    return missing


# ---------------------------------------------------------------- what publishing adds


def terms_section(terms: Sequence[Terms], ids_only: bool) -> list[str]:
    """Return the section on whose the texts are."""
    if not terms:
        return ["The texts stand under the licence above, as the contributor of this set declares."]
    rows = [
        [term.texts, term.terms, term.source, "no" if ids_only or not term.redistribute else "yes"] for term in terms
    ]
    head = ["texts", "terms", "stated at", "published here"]
    return [*table(head, rows), "", "This is our reading of the terms, and no legal advice."]


def sources_section(reports: Mapping[str, Any]) -> list[str]:
    """Return the section on the files that the set was built from."""
    configs = {
        (file, sha256): [name for name, part in reports.items() if part.get("source_sha256", {}).get(file) == sha256]
        for part in reports.values()
        for file, sha256 in part.get("source_sha256", {}).items()
    }
    rows = [[code(file), code(str(sha256)), ", ".join(map(code, names))] for (file, sha256), names in configs.items()]
    return table(["file", "SHA-256", "configs"], rows)
