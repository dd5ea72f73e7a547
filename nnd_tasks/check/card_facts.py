"""What a card must say before a set can be published."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nnd_tasks.check.reading import Folder
from nnd_tasks.check.rules import Finding, finding
from nnd_tasks.licences import licence_names, refusal

#: The TODOs of facts that only a person knows, and those that people write. The word alone is not enough: a label, a category
#: or a text may contain it.
_TODO = re.compile(
    r"^TODO:|^(?:license|language|pretty_name): TODO\b|TODO\((?:licence|languages|what|who|where|BibTeX)\b",
    re.MULTILINE,
)
_BIBTEX = re.compile(r"^```bibtex[^\n]*\n\s*@\w+\s*\{", re.MULTILINE)
#: Keys of BibTeX, apart from that on our cards that cites the method, not the judgements.
_KEY = re.compile(r"^[ \t]*@\w+\s*\{\s*(?!laban2022nnd)\w", re.MULTILINE | re.IGNORECASE)


def has_bibtex(text: str) -> bool:
    """Tell whether a card has a citation: a block of BibTeX that begins with an entry."""
    return bool(_BIBTEX.search(text))


def unfilled(text: str) -> list[int]:
    """Return the 1-based lines of a card that still hold a TODO."""
    return sorted({text.count("\n", 0, match.start()) + 1 for match in _TODO.finditer(text)})


def check_card(folder: Folder, *, must_cite: bool) -> Iterator[Finding]:
    """Check the header and the text of a card; only the text where the header cannot be read.

    Args:
        folder: the set.
        must_cite: whether there is a human evaluation to cite.
    """
    if lines := unfilled(folder.card):
        yield finding("card_todo", f"line {', '.join(map(str, lines))}", count=len(lines))
    if not has_bibtex(folder.card):
        yield finding("card_citation")
    elif must_cite and not _KEY.search(folder.card):
        yield finding("card_citation_origin", "only the method is")
    if folder.header:
        if not folder.header.get("language"):
            yield finding("card_language")
        # Sets made of a corpus, with errors put in, are of texts whose terms we know.
        corpus = any("corpus" in part for part in folder.report.values() if isinstance(part, dict))
        for licence in licence_names(folder.header.get("license")) or ["unknown"]:
            if licence == "unknown":
                yield finding("card_license")
            elif licence == "other":
                if not corpus:
                    yield finding("card_license_other")
            elif not _TODO.match(licence.upper()) and (why := refusal(licence)):
                yield finding("card_license_closed", f"{licence} {why}")
