"""Short names for models, as many parts of their paths as tell them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from nnd_tasks.errors import visible

#: Last parts of a path that mean nothing without the part before.
_CHECKPOINT = re.compile(r"(step|checkpoint|epoch|iter|final|last|best|model|snapshot)s?[-_.]?\d*$", re.IGNORECASE)


def short_names(models: Sequence[str], infos: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return a name per model: as many of the last parts of the paths as tell them apart.

    Args:
        models: path or name of each; one may be there several times.
        infos: all else that is known of each; models of one path that differ in it get numbers, such as `` #2``.
    """
    paths = [model.replace("\\", "/").strip("/").split("/") for model in models]
    sizes = count(1 + any(_CHECKPOINT.match(path[-1]) for path in paths))
    several = (["/".join(path[-size:]) for path in paths] for size in sizes)
    names = next(names for names in several if len(set(names)) == len(set(map(tuple, paths))))
    known: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    both = list(zip(names, infos or [{}] * len(names), strict=True))
    for name, info in both:
        known[name] += [] if info in known[name] else [info]
    numbers = [f" #{known[name].index(info) + 1}" if len(known[name]) > 1 else "" for name, info in both]
    return [visible(name + number) for name, number in zip(names, numbers, strict=True)]
