"""Which runs of a results folder to take: ``--select shots=0``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nnd_tasks.errors import NNDError

#: Part of the protocol by which runs can be chosen -> what it is; see `nnd_tasks.harness.signature.protocol_part`.
PARTS: Mapping[str, str] = {
    "task": "name of the task",
    "version": "of the task: 1, or 1-A",
    "limit": "number of prompts that --limit or --samples took, or all",
    "shots": "number of few-shot examples",
    "shots_seed": "seed of the few-shot examples",
    "exemplars": "what the few-shot examples are drawn from",
    "set": "name of the set",
    "config": "of the set",
    "data": "fingerprint of the data",
    "prompt": "digest of the prompts",
    "chat_template": "yes or no",
    "multiturn": "yes or no",
    "system": "digest of the system instruction, or no",
    "eos": "yes or no",
    "bos": "yes or no",
    "candidate_prefix": "text before each candidate",
    "number_lines": "yes, or no where lines stay as they are",
    "ties": "fail or authors",
    "overlong": "shorten, leave_out, whole or refuse",
    "normalization": "token",
    "selection": "as the signature writes it",
}
#: For ``--help``.
HELP = (
    "Take only runs of this protocol, such as shots=0 or limit=all; repeatable, or separated by commas. Keys: "
    f"{', '.join(PARTS)}."
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


def parse(wanted: Sequence[str]) -> dict[str, str]:
    """Return part -> value of texts such as ``shots=0,limit=all``.

    Raises:
        NNDError: a text is not KEY=VALUE, or names a part that is unknown or given twice.
    """
    chosen: dict[str, str] = {}
    for text in (part.strip() for texts in wanted for part in texts.split(",")):
        key, equals, value = (part.strip() for part in text.partition("="))
        if not text:
            continue
        if not equals or not value:
            raise NNDError(f"--select {text}: write KEY=VALUE, such as shots=0")
        if key not in PARTS:
            raise NNDError(f"--select {key}: no part of the protocol; they are {', '.join(PARTS)}")
        if key in chosen:
            raise NNDError(f"--select {key}: is given twice; name one value")
        chosen[key] = value
    return chosen


def value_of(key: str, task: str, version: Any, protocol: Mapping[str, Any]) -> str:
    """Return what a run has for a key of `PARTS`."""
    if key == "task":
        return task
    if key == "version":
        return text_of(version)
    if key == "limit":  # 10 of 60 (digest)
        return text_of(protocol.get("selection", "all")).partition(" of ")[0]
    return text_of(protocol.get(key))


def matches(key: str, wanted: str, value: str) -> bool:
    """Tell whether a run's value is the wanted one.

    Case does not matter, ``nnd/`` before a set may be left out, and so may the X of a version N-X.
    """
    wanted, value = wanted.lower(), value.lower()
    if key == "version" and "-" not in wanted:
        value = value.partition("-")[0]
    if key == "set":
        wanted, value = wanted.removeprefix("nnd/"), value.removeprefix("nnd/")
    words = {"true": "yes", "false": "no", "none": "no"}
    return words.get(wanted, wanted) == value or wanted == value
