"""Short names that tell models apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from nnd_tasks.errors import visible

#: Last parts of a path that mean nothing without the part before.
_CHECKPOINT = re.compile(r"(step|checkpoint|epoch|iter|final|last|best|model|snapshot)s?[-_.]?\d*$", re.IGNORECASE)
#: Characters that may be added to a name to tell two models of that name apart.
_LONGEST_SUFFIX = 50


def short_names(
    models: Sequence[str], infos: Sequence[Mapping[str, Any]] = (), kinds: Sequence[object] = ()
) -> list[str]:
    """Name each model by as many of the last parts of its path as tell it from the others.

    Args:
        models: path or name of each; one may be there several times.
        infos: the rest of each model's part of the signature; models of one path that differ in it get a suffix, such as
            `` (dtype=float16)``.
        kinds: of each, whose parts of the signature say the same; only models of one kind are told apart.
    """
    paths = [model.replace("\\", "/").strip("/") for model in models]
    names = [_shorten(path, {*paths} - {path}) for path in paths]
    alike = defaultdict(list)
    infos, groups = infos or [{}] * len(paths), [*zip(names, kinds or names, strict=True)]
    for group, info in zip(groups, infos, strict=True):
        alike[group].append(info)
    return [visible(name + _suffix(info, alike[group])) for name, group, info in zip(names, groups, infos, strict=True)]


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
