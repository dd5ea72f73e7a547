"""What a card must say before a set can be published."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nnd_tasks.check.findings import Finding, Severity
from nnd_tasks.check.rules import finding
from nnd_tasks.licences import refusal
from nnd_tasks.wording import some_of

#: The TODOs of facts that only a person knows, and those that people write. The word alone is not enough: a label, a category
#: or a text may contain it.
_TODO = re.compile(
    r"^TODO:|^(?:license|language|pretty_name): TODO\b|TODO\((?:licence|languages|what|who|where|BibTeX)\b", re.MULTILINE
)
_BIBTEX = re.compile(r"^```bibtex[^\n]*\n\s*@\w+\s*\{", re.MULTILINE)
_KEY = re.compile(r"^[ \t]*@\w+\s*\{\s*([^,\s]*)", re.MULTILINE)
#: BibTeX keys on our cards that cite the method, not the judgements.
_METHOD = {"laban2022nnd"}


def has_bibtex(text: str) -> bool:
    """Tell whether a card has a citation: a block of BibTeX that begins with an entry."""
    return _BIBTEX.search(text) is not None


def unfilled(text: str) -> list[int]:
    """Return the 1-based lines of a card that still hold a TODO."""
    return list(dict.fromkeys(text.count("\n", 0, match.start()) + 1 for match in _TODO.finditer(text)))


def read_names(value: Any) -> list[str]:
    """Return the texts in a header's value, which is one text or a list of them; TODOs are left out."""
    texts = (str(one).strip() for one in (value if isinstance(value, list) else [value]) if one is not None)
    return [text for text in texts if text and not _TODO.search(text)]


def check_card(card: str, header: Mapping[str, Any], *, stress: bool, must_cite: bool) -> Iterator[Finding]:
    """Check the header and the text of a card; only the text where the header cannot be read.

    Args:
        card: the whole.
        header: its header; empty where it cannot be read.
        stress: whether the set has synthetic errors in a corpus whose terms we know.
        must_cite: whether there is a human evaluation to cite.
    """
    lines = unfilled(card)
    if lines:
        yield finding("card_todo", f"line {some_of([str(line) for line in lines], 5, str)}", count=len(lines))
    if header:
        yield from _check_licence(header, stress=stress)
        if not header.get("language"):
            yield finding("card_language")
    if not has_bibtex(card):
        yield finding("card_citation")
    elif must_cite and {key.lower() for key in _KEY.findall(card)} <= _METHOD:
        yield finding("card_citation_origin", "only the method is")


def _check_licence(header: Mapping[str, Any], *, stress: bool) -> Iterator[Finding]:
    licences = [name.lower() for name in read_names(header.get("license"))]
    if {*licences} <= {"unknown"} and (licences or not header.get("license")):  # a TODO is another finding
        yield finding("card_license", ", ".join(licences))
        return
    for name in licences:
        if name != "other":
            if why := refusal(name):
                yield finding("card_license_closed", f"{name} {why}")
        elif not stress:
            yield finding("card_license_other")
        elif not header.get("license_link"):
            fix = "say in the card what it allows, best with license_link"
            yield finding("card_license_other", severity=Severity.NOTE, fix=fix)
