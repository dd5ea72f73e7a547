"""What may be published: licences that let anyone pass a set on, and the terms of texts of our sets (from `terms.yaml`).

The rule: a set is published with its texts where every licence on its card is one of `_OPEN` (`check_licences`), and the terms
of its texts allow it (`terms_of`, `texts_may_go`). Otherwise only ids and a recipe are published. Where the publisher of an
annotation grants a licence but the texts belong to others, the stricter reading counts. Not legal advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.yaml_json import read_yaml

# ---------------------------------------------------------------- licences on a card

#: Licences of the hub's list that let anyone pass on a work and what was made from it.
_OPEN = re.compile(
    r"apache-2\.0|mit|bsd(-[23]-clause(-clear)?)?|cc0-1\.0|cc-by-(2\.0|2\.5|3\.0|4\.0)|cc-by-sa-(3\.0|4\.0)"
    r"|cc-by-nc-(2\.0|3\.0|4\.0)|cc-by-nc-sa-(2\.0|3\.0|4\.0)|gfdl|pddl|odc-by|odbl|cdla-permissive-[12]\.0|cdla-sharing-1\.0"
    r"|etalab-2\.0|unlicense|wtfpl|isc|zlib|artistic-2\.0|mpl-2\.0|afl-3\.0|ecl-2\.0|ms-pl|postgresql|ncsa"
    r"|(a|l)?gpl(-(2\.1|2\.0|3\.0))?|eupl-1\.[12]|epl-[12]\.0|osl-3\.0|lgpl-lr"
)


def licence_names(value: object) -> list[str]:
    """Return the licences that a card's header names, in lower case."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item.strip().lower() for item in values if isinstance(item, str) and item.strip()]


def is_open(licence: str) -> bool:
    """Tell whether a licence, a hub identifier in lower case, is known to let anyone publish a set with its texts."""
    return bool(_OPEN.fullmatch(licence))


def check_licences(names: Sequence[str], where: str) -> None:
    """Check that licences allow to publish a set with its texts.

    Args:
        names: hub identifiers, in lower case.
        where: what to name in an error.

    Raises:
        NNDError: one of them does not, such as one that allows no derivatives, or is unknown.
    """
    if closed := [licence for licence in names if not is_open(licence)]:
        why = "is not known to let you publish pairs that are made of the texts"
        raise NNDError(f"{where}: licence {closed[0]} {why}; publish ids and a recipe instead with --ids-only")


# ---------------------------------------------------------------- terms of the texts


@dataclass(frozen=True, slots=True)
class Terms:
    """Whose some texts are, and what one may do with them.

    Attributes:
        texts: which texts.
        terms: the terms, in words.
        source: where they are stated.
        redistribute: whether they let anyone publish the texts in pairs of a better and a worse one.
        licences: hub identifiers that a dataset with these texts must carry besides that of the annotations.
    """

    texts: str
    terms: str
    source: str
    redistribute: bool
    licences: Sequence[str] = ()


_DATA = read_yaml(Path(__file__).with_name("terms.yaml"))
_TERMS = {name: Terms(**fields) for name, fields in _DATA["terms"].items()}
#: ``sets`` that come with the package, or ``corpora`` of `nnd stress build` -> name -> terms of its texts.
KNOWN: Mapping[str, Mapping[str, tuple[Terms, ...]]] = {
    kind: {name: tuple(_TERMS[one] for one in of) for name, of in _DATA[kind].items()} for kind in ("sets", "corpora")
}


def terms_of(name: str, report: Mapping[str, object]) -> tuple[Terms, ...]:
    """Return the terms of the texts of a set; none for a set that we do not know.

    Args:
        name: of the set.
        report: its part of ``build_report.json``: a stress set names its corpus there.
    """
    corpus = report.get("corpus")
    return KNOWN["corpora" if corpus else "sets"].get(str(corpus or name), ())


def texts_may_go(terms: Iterable[Terms]) -> bool:
    """Tell whether all texts of a set may be published."""
    return all(term.redistribute for term in terms)


def training_note(terms: Iterable[Terms], licences: Iterable[str]) -> str:
    """Return what forbids or limits training on the texts of a set, or commercial use; ``""`` where nothing is known to.

    Args:
        terms: of its texts.
        licences: on its card, in lower case.
    """
    closed = [f"{term.texts}: {term.terms}" for term in terms if not term.redistribute or _no_commerce(term.licences)]
    closed = closed or [f"licence {name}: no commercial use" for name in licences if _no_commerce([name])]
    return f"Terms to accept before training. {' '.join(closed)}" if closed else ""


def _no_commerce(licences: Iterable[str]) -> bool:
    return any("-nc" in name for name in licences)


def publishing_note(terms: Sequence[Terms]) -> str:
    """Return what of a set may be published, as a sentence for its card; ``""`` where the terms of its texts are not known."""
    if not terms:
        return ""
    if closed := "; ".join(term.texts for term in terms if not term.redistribute):
        return f"Ids and the recipe may be published (`nnd publish`), the texts not: they are {closed}."
    return "May be published with its texts (`nnd publish`)."
