"""What may be published: licences that let anyone pass a set on, and the terms of texts of our sets (from `terms.yaml`).

The rule: a set is published with its texts where every licence on its card is one of `_OPEN` (`is_open`), and the terms
of its texts allow it (`terms_of`, `texts_may_go`). Otherwise only ids and a recipe are published. Where the publisher of an
annotation grants a licence but the texts belong to others, the stricter reading counts. Not legal advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.files import read_yaml

# ---------------------------------------------------------------- licences on a card

_DATA = read_yaml(Path(__file__).with_name("terms.yaml"))
_OPEN = re.compile("|".join(_DATA["open"]))


def licence_id(name: str) -> str:
    """Return the hub's identifier of a licence that differs from it in case and spaces only: ``CC BY 4.0`` -> ``cc-by-4.0``.

    Any other name comes back in lower case.
    """
    plain = name.strip().lower()
    short = re.sub(r"[\s_]+", "-", plain)
    return short if is_open(short) else plain


def header_values(value: object) -> list[str]:
    """Return one or several values of a card's header as a list of stripped texts."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item.strip() for item in values if isinstance(item, str) and item.strip()]


def licence_names(value: object) -> list[str]:
    """Return the licences that a card's header names, as `licence_id` writes them."""
    return [licence_id(name) for name in header_values(value)]


def is_open(licence: str) -> bool:
    """Tell whether a licence, a hub identifier in lower case, is known to let anyone publish a set with its texts."""
    return bool(_OPEN.fullmatch(licence))


# ---------------------------------------------------------------- terms of the texts


@dataclass(frozen=True, slots=True)
class Terms:
    """Whose some texts are, and what one may do with them.

    Attributes:
        texts: which texts.
        terms: the terms, in words.
        source: where they are stated.
        redistribute: whether they let anyone publish the texts in pairs of a better and a worse one.
        short: whose they are, or their licence, in a few words.
        training: whether one may train on them, likewise.
        commercial: whether one may use them commercially, likewise.
        licences: hub identifiers that a dataset with these texts must carry besides that of the annotations.
    """

    texts: str
    terms: str
    source: str
    redistribute: bool
    short: str
    training: str
    commercial: str
    licences: Sequence[str] = ()


_TERMS = {name: Terms(**fields) for name, fields in _DATA["terms"].items()}
#: ``sets`` that come with the package, or ``corpora`` of `nnd stress build` -> name -> terms of its texts.
KNOWN: Mapping[str, Mapping[str, tuple[Terms, ...]]] = {
    table: {name: tuple(_TERMS[term] for term in terms) for name, terms in _DATA[table].items()}
    for table in ("sets", "corpora")
}


def terms_of(name: str, reports: Mapping[str, Any], config: str = "") -> tuple[Terms, ...]:
    """Return the terms of the texts of a set, or of one of its configs; none for a set that we do not know.

    Args:
        name: of the set.
        reports: config -> its part of ``build_report.json``; a stress set names its corpus there.
        config: whose texts; all of the set where none is named.
    """
    corpora = [report["corpus"] for report in reports.values() if isinstance(report, Mapping) and report.get("corpus")]
    if corpora:
        return KNOWN["corpora"].get(str(corpora[0]), ())
    for beginning, terms in _DATA["configs"].get(name, {}).items():
        if config and config.startswith(beginning):
            return tuple(_TERMS[term] for term in terms)
    return KNOWN["sets"].get(name, ())


def licence_columns(licence: str, terms: Iterable[Terms]) -> dict[str, str]:
    """Say what may be done with a set, in a few words each.

    Args:
        licence: of the annotations.
        terms: of the texts, as `terms_of` returns them.

    Returns:
        ``annotations``, and where the terms are known ``texts``, ``training`` and ``commercial use``.
    """
    columns = {"annotations": licence}
    for column, field in (("texts", "short"), ("training", "training"), ("commercial use", "commercial")):
        if values := list(dict.fromkeys(getattr(term, field) for term in terms)):
            columns[column] = "; ".join(values)
    if "commercial use" in columns and _no_commerce([licence]):
        columns["commercial use"] = "no"
    return columns


def texts_may_go(terms: Iterable[Terms]) -> bool:
    """Tell whether all texts of a set may be published."""
    return all(term.redistribute for term in terms)


def training_note(terms: Iterable[Terms], licences: Iterable[str]) -> str:
    """Say what forbids or limits training on the texts of a set, or commercial use; ``""`` where nothing is known to.

    Args:
        terms: of its texts.
        licences: on its card, in lower case.
    """
    closed = [f"{term.texts}: {term.terms}" for term in terms if not term.redistribute or _no_commerce(term.licences)]
    closed = closed or [f"licence {name}: no commercial use" for name in licences if _no_commerce([name])]
    return f"Terms to accept before training. {' '.join(closed)}" if closed else ""


def _no_commerce(licences: Iterable[str]) -> bool:
    return any("-nc" in name for name in licences)
