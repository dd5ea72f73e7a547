"""Which licences let anyone pass on a work and what was made from it, by their identifiers on the hub.

Not legal advice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nnd_tasks.errors import NNDError

#: Licences of the hub's list that let anyone pass on a work and what was made from it.
_OPEN = re.compile(
    r"apache-2\.0|mit|bsd(-[23]-clause(-clear)?)?|cc0-1\.0|cc-by-(2\.0|2\.5|3\.0|4\.0)|cc-by-sa-(3\.0|4\.0)"
    r"|cc-by-nc-(2\.0|3\.0|4\.0)|cc-by-nc-sa-(2\.0|3\.0|4\.0)|gfdl|pddl|odc-by|odbl|cdla-permissive-[12]\.0|cdla-sharing-1\.0"
    r"|etalab-2\.0|unlicense|wtfpl|isc|zlib|artistic-2\.0|mpl-2\.0|afl-3\.0|ecl-2\.0|ms-pl|postgresql|ncsa"
    r"|(a|l)?gpl(-(2\.1|2\.0|3\.0))?|eupl-1\.[12]|epl-[12]\.0|osl-3\.0|lgpl-lr"
)
_NO_DERIVATIVES = re.compile(r"cc-by(-nc)?-nd(-\d\.\d)?")


def licences(value: object) -> list[str]:
    """Return the licences that a card's header names, in lower case."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item.strip().lower() for item in values if isinstance(item, str) and item.strip()]


def refusal(licence: str) -> str | None:
    """Return why a licence does not allow to publish a set with its texts, or None where it does.

    Args:
        licence: hub identifier, in lower case.
    """
    if _OPEN.fullmatch(licence):
        return None
    if _NO_DERIVATIVES.fullmatch(licence):
        return "allows no derivatives, which pairs of a better and a worse text are"
    return "is none that is known to let you pass the texts on"


def check_licences(found: Sequence[str], where: str) -> None:
    """Check that licences allow to publish a set with its texts.

    Args:
        found: hub identifiers.
        where: what to name in an error.

    Raises:
        NNDError: one of them does not, or is unknown to the hub.
    """
    for licence in found:
        why = refusal(licence)
        if why is not None:
            raise NNDError(f"{where}: licence {licence} {why}; publish ids and a recipe instead with --ids-only")
