"""Short names that tell models apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from nnd_tasks.errors import visible

#: Last parts of a path that mean nothing without the part before.
_CHECKPOINT = re.compile(r"(step|checkpoint|epoch|iter|final|last|best|model|snapshot)s?[-_.]?\d*$", re.IGNORECASE)
#: Characters that may be added to a name to tell two models of that name apart.
_LONGEST_SUFFIX = 50


def short_names(models: Sequence[str], infos: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Name each model by as many of the last parts of its path as tell it from the others.

    Args:
        models: path or name of each; one may be there several times.
        infos: the rest of each model's part of the signature; models of one path that differ in it get a suffix, such as
            `` (dtype=float16)``.
    """
    paths = [model.replace("\\", "/").strip("/") for model in models]
    named = [*zip((_shorten(path, {*paths} - {path}) for path in paths), infos or [{}] * len(paths), strict=True)]
    suffixes = [
        _suffix(info, [other for name_of_other, other in named if name_of_other == name]) for name, info in named
    ]
    return [visible(name + suffix) for (name, _), suffix in zip(named, suffixes, strict=True)]


def _shorten(path: str, others: set[str]) -> str:
    parts = path.split("/")
    ends = ("/".join(parts[-size:]) for size in range(1 + bool(_CHECKPOINT.match(parts[-1])), len(parts)))
    return next((end for end in ends if not any(f"/{other_path}".endswith(f"/{end}") for other_path in others)), path)


def _suffix(info: Mapping[str, Any], infos: Sequence[Mapping[str, Any]]) -> str:
    """What tells a model from those of its name; its number where that is too long, or does not."""
    distinct = [candidate for i, candidate in enumerate(infos) if candidate not in infos[:i]]
    flat = [{**settings, "arguments": None, **(settings.get("arguments") or {})} for settings in distinct]
    keys = [key for key in dict.fromkeys(chain(*flat)) if len({str(settings.get(key)) for settings in flat}) > 1]
    texts = [
        ", ".join(f"{key}={settings[key]}" for key in keys if settings.get(key) not in (None, "", "auto"))
        for settings in flat
    ]
    index = distinct.index(info)
    if len(set(texts)) < len(texts) or max(map(len, texts)) > _LONGEST_SUFFIX:
        return f" #{index + 1}"
    return f" ({texts[index]})" if texts[index] else ""
