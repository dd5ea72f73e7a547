"""Short names for models, as many parts of their paths as tell them apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from nnd_tasks.errors import visible

#: Last parts of a path that mean nothing without the part before.
_CHECKPOINT = re.compile(r"(step|checkpoint|epoch|iter|final|last|best|model|snapshot)s?[-_.]?\d*$", re.IGNORECASE)
#: Characters that may be added to a name to tell two models of that name apart.
_LONGEST_MARK = 50


def short_names(models: Sequence[tuple[str, str]]) -> list[str]:
    """Return a name per model: as many of the last parts of its path as tell it from the others.

    Args:
        models: (path or name, all that is known of the model as JSON).
    """
    known = list(dict.fromkeys(models))
    paths = {model: model[0].replace("\\", "/").strip("/") for model in known}
    names: dict[tuple[str, str], str] = {}
    for model, path in paths.items():
        parts = path.split("/")
        size = 1 + bool(_CHECKPOINT.match(parts[-1]))
        others = {f"/{other}" for other in paths.values() if other != path}
        while size < len(parts) and any(other.endswith("/" + "/".join(parts[-size:])) for other in others):
            size += 1
        names[model] = "/".join(parts[-size:])
    for name, count in Counter(names.values()).items():
        if count > 1:  # the same weights, run with other arguments
            same_name = [model for model in known if names[model] == name]
            names |= {model: f"{name}{mark}" for model, mark in zip(same_name, _what_differs(same_name), strict=True)}
    return [visible(names[model]) for model in models]


def _what_differs(models: Sequence[tuple[str, str]]) -> list[str]:
    """Return what tells models of one name apart, such as `` (dtype=bfloat16)``; numbers where that is too long or equal."""
    infos = [json.loads(known) for _, known in models]
    infos = [{**info, "arguments": None, **(info.get("arguments") or {})} for info in infos]
    differ = [key for key in dict.fromkeys(chain(*infos)) if len({str(info.get(key)) for info in infos}) > 1]
    texts = [
        ", ".join(f"{key}={info[key]}" for key in differ if info.get(key) not in (None, "", "auto")) for info in infos
    ]
    if len(set(texts)) < len(texts) or any(len(text) > _LONGEST_MARK for text in texts):
        return [f" #{number}" for number in range(1, len(models) + 1)]
    return [f" ({text})" if text else "" for text in texts]
