"""The card of every set: built, made by a user, synthetic, published. It is composed from data, section by section."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import CARD, split_card
from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_text
from nnd_tasks.yaml_json import dump_yaml, parse_yaml

#: Beside it: the card as the last build composed it, which tells what people wrote on it since.
COMPOSED = ".card.md"
#: Fact that only a person can know -> what to write; a card says TODO where it is not known.
KNOWN_BY_PEOPLE: Mapping[str, str] = {
    "license": "licence of the texts and judgements, as the hub writes it, such as cc-by-4.0",
    "language": "languages of the texts, such as en",
    "summary": "what was evaluated, in a sentence or two",
    "judges": "who judged, how many, and what they were asked",
    "homepage": "where the judgements come from",
    "citation": "BibTeX of the human evaluation",
}


# ---------------------------------------------------------------- facts


@dataclass(frozen=True)
class Facts:
    """What a card says of a set besides its numbers.

    Attributes:
        name: of the set.
        title: of the human evaluation.
        known: fact of `KNOWN_BY_PEOPLE` -> text; languages are separated by commas.
        license_note: what else is to be known of the licence.
        task_category: of the hub.
        rule: what makes a candidate better, in a sentence.
        fields: prompt field -> what it holds.
        pairs: whether the table held ready-made pairs.
        recipe: how the set was made, as YAML; ``""`` where the card need not show it.
        synthetic: whether the errors were put in by a program.
        made_errors: whether people, or a program for them, put the errors in on purpose.
        clean_note: what is changed for the clean configs before they are cleaned.
        made: Markdown lines on how the set was made, where no recipe says it.
    """

    name: str
    title: str
    known: Mapping[str, str] = field(default_factory=dict)
    license_note: str = ""
    task_category: str = "text-generation"
    rule: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    pairs: bool = False
    recipe: str = ""
    synthetic: bool = False
    clean_note: str = ""
    made_errors: bool = False
    made: tuple[str, ...] = ()

    def say(self, key: str) -> str:
        """Return a fact, or a TODO where it is unknown; ``""`` where it is known that there is nothing to say."""
        return self.known.get(key, todo(key))


def todo(key: str) -> str:
    """Return the TODO that a card shows for a fact that only a person can know."""
    return f"TODO({KNOWN_BY_PEOPLE[key]})"


# ---------------------------------------------------------------- Markdown


def safe(text: str) -> str:
    """Return ``text`` without HTML that a page would obey."""
    return html.escape(text, quote=False)


# ---------------------------------------------------------------- the card


@dataclass
class Card:
    """A card, split into its header and sections.

    Attributes:
        header: its YAML.
        sections: heading -> text, in order; the first, with the title, has the heading ``""``.
    """

    header: dict[str, Any]
    sections: dict[str, str] = field(default_factory=dict)

    def put(self, heading: str, lines: Sequence[str], *, first: bool = False) -> None:
        """Replace a section, or add one before the citation.

        Args:
            heading: of the section.
            lines: of its text.
            first: add it before all sections that have a heading.
        """
        names = list(self.sections)
        if heading not in names:
            at = int("" in names) if first else names.index("Citation") if "Citation" in names else len(names)
            names.insert(at, heading)
        self.sections = {name: self.sections.get(name, "") for name in names} | {heading: "\n".join(lines).strip("\n")}

    def body(self) -> str:
        """Return the card's Markdown without its header."""
        parts = (f"## {name}\n\n{text}" if name else text for name, text in self.sections.items())
        return "\n\n".join(part.rstrip("\n") for part in parts if part)

    def text(self) -> str:
        """Return the card as it is written: its header as YAML between two lines of ---, and its Markdown."""
        return f"---\n{dump_yaml(self.header)}---\n\n{self.body()}\n"


def read_card(folder: Path, file: str = CARD) -> Card:
    """Return the card of a dataset folder.

    Args:
        folder: the dataset folder.
        file: its card, or `COMPOSED`.

    Raises:
        NNDError: it cannot be read, or its header is not a YAML mapping.
    """
    path = folder / file
    parts = split_card(read_text(path))
    header = parse_yaml(parts[0], f"{path}: its header") if parts else None
    if parts is None or not isinstance(header, dict):
        raise NNDError(f"{path}: it has no YAML header between two lines of ---; build the set again")
    return Card(header, sections_of(parts[1]))


def sections_of(body: str) -> dict[str, str]:
    """Return heading -> text for Markdown split at its headings of level 2; lines in code fences are no headings."""
    parts: dict[str, list[str]] = {"": []}
    current, fence = "", ""
    for line in body.split("\n"):
        mark = re.match(r"`{3,}", line)
        if mark and (not fence or mark[0] == fence):
            fence = "" if fence else mark[0]
        if line.startswith("## ") and not fence:
            current = line[3:].strip()
            parts.setdefault(current, [])
        else:
            parts[current].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in parts.items()}


# ---------------------------------------------------------------- what people wrote


#: Fields of a header that say what this build made; the last two are written by publishing, about the data published.
_OF_DATA = ("nnd_set", "nnd_schema_version", "configs", "size_categories", "dataset_info", "nnd_published")


def keep_written(new: Card, folder: Path) -> tuple[Card, list[str]]:
    """Return a newly composed card with what people wrote on the card of a dataset folder.

    Their sections and fields stay. In what a build composes, their changes stay too: only those lines are new that they left
    as they were. Without `COMPOSED` in the folder, nothing tells their changes in such a section, and it is new.

    Args:
        new: the card as it is composed now.
        folder: the dataset folder.

    Returns:
        The card, and the headings of sections where lines that people changed would now be composed differently.

    Raises:
        NNDError: a card cannot be read.
    """
    earlier = read_card(folder)
    if (folder / COMPOSED).is_file():
        composed = read_card(folder, COMPOSED)
    else:
        header = {key: value for key, value in earlier.header.items() if key in new.header}
        composed = Card(header, {name: text for name, text in earlier.sections.items() if name in new.sections})
    theirs = {key: value for key, value in earlier.header.items() if composed.header.get(key) == new.header.get(key)}
    kept = Card({**new.header, **{key: value for key, value in theirs.items() if key not in _OF_DATA}})
    kept.sections = {
        name: text
        for name, text in earlier.sections.items()
        if name in new.sections or text != composed.sections.get(name)
    }
    clashing = []
    for name, text in new.sections.items():
        before, now = composed.sections.get(name), earlier.sections.get(name)
        if before is None and now is None:
            kept.put(name, [text])
        elif before not in (None, text) and now is not None:  # a section that people removed stays away
            kept.sections[name], clash = _merged(now, before or "", text)
            clashing += [name] if clash else []
    return kept, clashing


def _merged(now: str, before: str, new: str) -> tuple[str, bool]:
    """Return text with its lines changed as from ``before`` to ``new``, and whether some of these lines are others in it."""
    lines, old, given = now.split("\n"), before.split("\n"), new.split("\n")
    blocks = SequenceMatcher(None, old, lines, autojunk=False).get_matching_blocks()
    place = {-1: -1} | {block.a + i: block.b + i for block in blocks for i in range(block.size)}
    clash = False
    for tag, i1, i2, j1, j2 in reversed(SequenceMatcher(None, old, given, autojunk=False).get_opcodes()):
        if tag == "equal":
            continue
        places = [place.get(i) for i in (range(i1, i2) if i2 > i1 else [i1 - 1])]
        first, last = places[0], places[-1]
        if first is None or last is None or last - first != len(places) - 1:
            clash = True
        else:
            lines[first if i2 > i1 else first + 1 : last + 1] = given[j1:j2]
    return "\n".join(lines), clash
