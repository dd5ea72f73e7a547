"""Short names for models, as many parts of their paths as tell them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from nnd_tasks.errors import visible

#: Last parts of a path that mean nothing without the part before.
_CHECKPOINT = re.compile(r"(step|checkpoint|epoch|iter|final|last|best|model|snapshot)s?[-_.]?\d*$", re.IGNORECASE)
#: Characters that may be added to a name to tell two models of that name apart.
_LONGEST_MARK = 50


def short_names(models: Sequence[str], infos: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return a name per model: as many of the last parts of its path as tell it from the others.

    Args:
        models: path or name of each; one may be there several times.
        infos: all else that is known of each; models of one path that differ in it get marks, such as `` (dtype=float16)``.
    """
    paths = [model.replace("\\", "/").strip("/") for model in models]
    names = [_shorten(path, {*paths} - {path}) for path in paths]
    known = list(zip(names, infos or [{}] * len(names), strict=True))
    return [visible(name + _mark(info, [other for one, other in known if one == name])) for name, info in known]


def _shorten(path: str, others: set[str]) -> str:
    parts = path.split("/")
    ends = ("/".join(parts[-size:]) for size in range(1 + bool(_CHECKPOINT.match(parts[-1])), len(parts)))
    return next((end for end in ends if not any(f"/{other}".endswith(f"/{end}") for other in others)), path)


def _mark(info: Mapping[str, Any], infos: Sequence[Mapping[str, Any]]) -> str:
    """Return what tells a model from those of its name; its number where that is too long, or does not."""
    distinct = [one for i, one in enumerate(infos) if one not in infos[:i]]
    flat = [{**one, "arguments": None, **(one.get("arguments") or {})} for one in distinct]
    differ = [key for key in dict.fromkeys(chain(*flat)) if len({str(one.get(key)) for one in flat}) > 1]
    texts = [", ".join(f"{key}={one[key]}" for key in differ if one.get(key) not in (None, "", "auto")) for one in flat]
    place = distinct.index(info)
    if len(set(texts)) < len(texts) or max(map(len, texts)) > _LONGEST_MARK:
        return f" #{place + 1}"
    return f" ({texts[place]})" if texts[place] else ""
