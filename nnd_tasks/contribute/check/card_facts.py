"""What a card must say before a set can be published."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nnd_tasks.contribute.check.reading import Folder
from nnd_tasks.contribute.check.rules import Finding, finding
from nnd_tasks.sets.card import find_todos
from nnd_tasks.sets.licences import is_open, licence_names

#: Keys of BibTeX, apart from that on our cards that cites the method, not the judgements.
_KEY = re.compile(r"^[ \t]*@\w+\s*\{\s*(?!laban2022nnd)\w", re.MULTILINE | re.IGNORECASE)


def check_card(folder: Folder, *, must_cite: bool) -> Iterator[Finding]:
    """Check the header and the text of a card; only the text where the header cannot be read.

    Args:
        folder: the set.
        must_cite: whether there is a human evaluation to cite.
    """
    if fields := find_todos(folder.header, folder.card):
        yield finding("card_todo", ", ".join(fields), count=len(fields))
    if must_cite and not _KEY.search(folder.card):
        yield finding("card_citation_origin")
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
            elif not (licence.startswith("todo") or is_open(licence)):
                known = "-nd-" in licence or licence in ("proprietary", "all rights reserved")
                fix = {} if known else {"fix": "name it by its identifier on the hub, such as cc-by-4.0, if it has one"}
                yield finding("card_license_closed", licence, **fix)
