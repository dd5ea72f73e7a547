"""The card of a published set: what must be in it, and what publishing adds to the card of the build."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nnd_tasks.check.card import has_bibtex, unfilled
from nnd_tasks.datasets import CARD
from nnd_tasks.errors import NNDError
from nnd_tasks.files import parse_yaml, read_text
from nnd_tasks.markdown import code
from nnd_tasks.publish.terms import Terms, licences

_HEADER = {
    "license": "the licence of the annotations",
    "language": "the languages of the texts",
    "pretty_name": "a name for people",
    "task_categories": "the hub's task category",
    "size_categories": "the size",
    "configs": "the configs",
}


@dataclass
class Card:
    """A card, taken apart.

    Attributes:
        header: its YAML.
        sections: (heading, text without the heading), in order; the first has no heading.
    """

    header: dict[str, Any]
    sections: list[tuple[str, str]] = field(default_factory=list)

    def section(self, heading: str) -> str | None:
        """Return the text of a section, or None."""
        return next((text for name, text in self.sections if name == heading), None)

    def put(self, heading: str, lines: Sequence[str], *, first: bool = False) -> None:
        """Replace a section, or put a new one before the citation, or before all others."""
        text = "\n".join(lines).strip("\n")
        for i, (name, _) in enumerate(self.sections):
            if name == heading:
                self.sections[i] = (heading, text)
                return
        places = [1] if first else [i for i, (name, _) in enumerate(self.sections) if name == "Citation"]
        self.sections.insert(places[0] if places else len(self.sections), (heading, text))

    def text(self) -> str:
        """Return the card as it is written."""
        parts = [f"## {name}\n\n{text}" if name else text for name, text in self.sections]
        header = yaml.safe_dump(self.header, sort_keys=False, allow_unicode=True)
        return f"---\n{header}---\n\n" + "\n\n".join(part.strip("\n") for part in parts) + "\n"


def read_card(folder: Path) -> Card:
    """Return the card of a dataset folder.

    Raises:
        NNDError: it cannot be read, or its header is no plain YAML mapping.
    """
    path = folder / CARD
    text = read_text(path).replace("\r\n", "\n")
    match = re.match(r"---\n(.*?\n)---\n", text, flags=re.DOTALL)
    header = parse_yaml(match[1], f"{path}: its header") if match else None
    if match is None or not isinstance(header, dict):
        raise NNDError(f"{path}: it has no YAML header between two lines of ---; build the set again")
    return Card(header, _sections(text[match.end() :]))


def _sections(body: str) -> list[tuple[str, str]]:
    """Take Markdown apart at its headings of level 2, those in code fences left out."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in body.split("\n"):
        fenced ^= line.startswith("```")
        if line.startswith("## ") and not fenced:
            parts.append((line[3:].strip(), []))
        else:
            parts[-1][1].append(line)
    return [(name, "\n".join(lines).strip("\n")) for name, lines in parts]


def lacking(folder: Path) -> list[str]:
    """Return what the card of a dataset folder lacks before it can be published, each in a few words.

    Raises:
        NNDError: there is no card.
    """
    card = read_card(folder)
    missing = [f"{key} ({what})" for key, what in _HEADER.items() if not card.header.get(key)]
    if card.header.get("license") and set(licences(card.header["license"])) <= {"unknown"}:
        missing.append("license (the licence of the annotations)")
    if not has_bibtex(card.text()):
        missing.append("a citation (a ```bibtex block)")
    marked = [str(i) for i in unfilled(read_text(folder / CARD))]
    if marked:
        missing.append(f"what is marked TODO in line{'s' if len(marked) > 1 else ''} {', '.join(marked)}")
    return missing


def without_examples(text: str) -> str:
    """Return the section on cleaning without the texts that it quotes."""
    kept = [line for line in text.split("\n") if not re.match(r"- `[^`]+`, `\w+`, test `", line)]
    return "\n".join(kept).replace(" Examples, shortened:", "")


# ---------------------------------------------------------------- what publishing adds


def terms_section(terms: Sequence[Terms], ids_only: bool) -> list[str]:
    """Return the section on whose the texts are."""
    if not terms:
        return ["The texts stand under the licence above, as the contributor of this set declares."]
    lines = ["| texts | terms | stated at | published here |", "|---|---|---|---|"]
    for term in terms:
        published = "no" if ids_only or not term.redistribute else "yes"
        lines.append(f"| {term.texts} | {term.terms} | {term.source} | {published} |")
    return [*lines, "", "This is our reading of the terms, and no legal advice."]


def sources_section(reports: Mapping[str, Any]) -> list[str]:
    """Return the section on the files that the set was built from."""
    rows = {
        (file, sha256): [name for name, part in reports.items() if part.get("source_sha256", {}).get(file) == sha256]
        for part in reports.values()
        for file, sha256 in part.get("source_sha256", {}).items()
    }
    return [
        "| file | SHA-256 | configs |",
        "|---|---|---|",
        *[
            f"| {code(file)} | {code(str(sha256))} | {', '.join(f'`{n}`' for n in names)} |"
            for (file, sha256), names in rows.items()
        ],
    ]
