"""Which runs of a results folder to take: ``--select shots=0``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnd_tasks.errors import NNDError

if TYPE_CHECKING:
    from nnd_tasks.analysis.results import Run

#: Parts of the protocol by which runs can be chosen; see `nnd_tasks.harness.signature.protocol_part`. ``version`` is that of
#: the task, ``limit`` is the number of prompts that --limit or --samples took, or all.
PARTS = (
    *(
        "task",
        "version",
        "limit",
        "shots",
        "shots_seed",
        "exemplars",
        "set",
        "config",
        "data",
        "prompt",
        "chat_template",
    ),
    *("multiturn", "system", "eos", "bos", "candidate_prefix", "number_lines", "ties", "overlong", "normalization"),
    "selection",
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


def value_of(key: str, run: Run) -> str:
    """Return what a run has for a key of `PARTS`."""
    if key == "limit":  # 10 of 60 (digest)
        return text_of(run.protocol.get("selection", "all")).partition(" of ")[0]
    return text_of({**run.protocol, "task": run.task, "version": run.version}.get(key))


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
        if key not in PARTS:
            raise NNDError(f"--select {key}: no part of the protocol; they are {', '.join(PARTS)}")
        value = value.lower()
        meant = {value, f"nnd/{value}", {"true": "yes", "false": "no", "none": "no"}.get(value)}
        chosen = [run for run in runs if meant & _names_of(value_of(key, run).lower(), key)]
        if not chosen:
            known = sorted({value_of(key, run) for run in runs})
            raise NNDError(f"--select {text}: no run has it; they have {', '.join(known)}")
        runs = chosen
    return runs


def _names_of(value: str, key: str) -> set[str | None]:
    return {value, value.partition("-")[0]} if key == "version" else {value}
