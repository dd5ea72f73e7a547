"""Which reader the YAML of a task names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.task.judge_reader import AskedInWriting, Judge
from nnd_tasks.task.reader import Asked, Asker, Writer
from nnd_tasks.task.settings import Settings

#: Settings that a reader without likelihoods of texts has no use for.
_OF_TEXTS = ("tokens", "append_eos", "append_bos")
_OF_LIKELIHOODS = (*_OF_TEXTS, "context_reliance")


def read_reader(config: Mapping[str, Any], settings: Settings) -> Writer:
    """Make the reader that a YAML names under ``reader``; without it, a writer.

    Raises:
        NNDError: one of the keys about the reader has a value that it cannot have, or a setting does not fit the reader.
    """
    name, delimiter = config.get("reader", "writer"), str(config.get("target_delimiter", " "))
    if name == "writer":
        return Writer()
    if name in ("judge", "rating"):
        asked = AskedInWriting.read(config)
        reader: Asker = Judge(asked, delimiter, config.get("generation_kwargs") or {})
    else:
        reader = Asker(Asked.read(config), delimiter)
    task = f"task {config.get('task')}"
    for key in _OF_LIKELIHOODS if reader.writes else _OF_TEXTS:
        if getattr(settings, key):
            about = "likelihoods" if key == "context_reliance" else "the tokens of a text"
            raise NNDError(f"{task}: {key} is about {about}, and a {name} gives an answer about it; leave it out")
    if reader.writes and settings.ties != "fail":
        raise NNDError(f"{task}: ties={settings.ties} is about likelihoods, and a tie of a {name} fails; leave it out")
    return reader
