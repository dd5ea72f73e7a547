"""Which runs of a results folder to take: ``--select shots=0``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnd_tasks.errors import NNDError

if TYPE_CHECKING:
    from nnd_tasks.results.runs import Run

#: For ``--help``.
HELP = (
    "Take only runs of this protocol, such as shots=0 or limit=all; repeatable, or separated by commas. Keys: task, "
    "version, limit, reader and those of the signature, such as set, config, shots, chat_template, system, ties, overlong."
)


def text_of(value: Any) -> str:
    """Return a part of a protocol as people write it: yes, no, or the value itself."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "no" if value is None or value == "" else str(value)


def texts_apart(values: Sequence[Any]) -> list[str]:
    """Return several values of one part of a protocol as text; digests of selections are left out where nothing needs them."""
    texts = [text_of(value) for value in values]
    short = [re.sub(r"( of \d+) \([0-9a-f]+\)$", r"\1", text) for text in texts]
    return short if len(set(short)) == len(set(texts)) else texts


def _parts_of(run: Run) -> dict[str, str]:
    """Return what a run can be chosen by; ``limit`` is the number of prompts that --limit or --samples took, or all."""
    limit = str(run.protocol.get("selection", "all")).partition(" of ")[0]  # 10 of 60 (digest)
    return {key: text_of(value) for key, value in {"limit": limit, "reader": "writer", **run.comparison_key}.items()}


def select_runs(runs: Sequence[Run], wanted: Sequence[str]) -> Sequence[Run]:
    """Return the runs that have the wanted value of each part of the protocol.

    Case does not matter, ``nnd/`` before a set may be left out, and so may the X of a version N-X.

    Args:
        runs: one or more.
        wanted: texts such as ``shots=0,limit=all``.

    Raises:
        NNDError: a text is not KEY=VALUE, names a part that is unknown, or no run has the value.
    """
    for text in filter(None, (part.strip() for texts in wanted for part in texts.split(","))):
        key, _, value = (part.strip() for part in text.partition("="))
        if not value:
            raise NNDError(f"--select {text}: write KEY=VALUE, such as shots=0")
        known = list(map(_parts_of, runs))
        if not any(key in parts for parts in known):
            raise NNDError(f"--select {key}: no part of the protocol; they are {', '.join(known[0])}")
        values = [parts.get(key, "no") for parts in known]
        value = value.lower().partition("-")[0] if key == "version" else value.lower()
        meant = {value, f"nnd/{value}", {"true": "yes", "false": "no", "none": "no"}.get(value)}
        chosen = [run for run, own in zip(runs, values, strict=True) if own.lower() in meant]
        if not chosen:
            raise NNDError(f"--select {text}: no run has it; they have {', '.join(sorted(set(values)))}")
        runs = chosen
    return runs
