"""Corpora of gold texts: the paper's four, or the user's own file.

The paper's have levels and exceptions of their own; others have the levels of CNN/DM. Its authors publish the texts
(github.com/cloudygoose/blindspot_nlg) in another form than these files:

- ``wikitext_gold.txt``, ``wikitext_reference.txt``: paragraphs of WikiText-103, one per line
- ``cnndm.jsonl``, ``wmt21_de_en.jsonl``, ``ted_zh_en.jsonl``: ``source``, ``gold``; other keys are passed over
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from nnd_tasks.errors import NNDError, list_mistakes
from nnd_tasks.files import expand, json_lines, read_text, read_yaml
from nnd_tasks.publishers.download import sha256_of
from nnd_tasks.schema import to_nfc
from nnd_tasks.store import nnd_home

#: Bytes that a corpus file may have; it is read into memory.
_MOST_BYTES = 2_000_000_000
#: Corpus of the paper -> what ``corpora.yaml`` says of it.
KNOWN: Mapping[str, Mapping[str, Any]] = read_yaml(Path(__file__).with_name("corpora.yaml"))


@dataclass(frozen=True, slots=True)
class Gold:
    """One text that is taken to be good.

    Attributes:
        text: the gold text.
        source: the text that it was written from; ``""`` where there is none.
    """

    text: str
    source: str = ""


@dataclass(frozen=True)
class Corpus:
    """Gold texts, and facts about them.

    Attributes:
        name: key of `KNOWN`, or the name of a file.
        texts: the gold texts, without repeats; all have a source or none.
        sha256: file -> hash of its bytes.
        reference: other texts of the same kind, in which n-grams are counted; empty where there are none.
    """

    name: str
    texts: list[Gold]
    sha256: dict[str, str]
    reference: list[str]

    def draw(self, count: int) -> list[Gold]:
        """Draw texts at random with a fixed seed, and return them in their order; a count of 0 takes all."""
        if not 0 < count < len(self.texts):
            return self.texts
        return [self.texts[i] for i in sorted(random.Random(0).sample(range(len(self.texts)), count))]  # noqa: S311


def read_corpus(name: str, folder: str | Path | None = None) -> Corpus:
    """Return the corpus ``name``; texts to count n-grams in are in ``STEM_reference.txt`` beside it.

    Args:
        name: one of `KNOWN`, or a file (``.txt``: one text per line; ``.jsonl``: ``gold``, and ``source`` where there is one).
        folder: holds the paper's files; None looks in ``$NND_HOME/blindspot``.

    Raises:
        NNDError: there is no such corpus, it cannot be read, or it is empty.
    """
    facts = KNOWN.get(name)
    location = nnd_home() / "blindspot" if folder is None else expand(folder)
    path = location / facts["file"] if facts else expand(name)
    if not path.is_file():
        if facts is None:
            raise NNDError(f"corpus {name}: there is no such file, and it is not one of {', '.join(KNOWN)}")
        raise NNDError(
            f"corpus {name}: there is no {path.name} in {location}; name the folder of the paper's texts with --source "
            "(they come from github.com/cloudygoose/blindspot_nlg; docs/blind_spots.md says what the file holds)"
        )
    texts = list({(gold.source, gold.text): gold for gold in _read(path) if gold.text.strip()}.values())
    if not texts:
        raise NNDError(f"corpus {name}: it holds no text")
    if 0 < (lacking := sum(not gold.source for gold in texts)) < len(texts):
        raise NNDError(
            f"corpus {name}: {lacking:,} of {len(texts):,} texts have no source; give every text one, or none"
        )
    beside = path.with_name(f"{path.stem.removesuffix('_gold')}_reference.txt")
    reference = [gold.text for gold in _read(beside)] if beside.is_file() else []
    hashes = {file.name: sha256_of(file) for file in (path, beside) if file.is_file()}
    return Corpus(name if facts else path.name, texts, hashes, reference)


class _Row(BaseModel):
    """A line of a JSONL file."""

    gold: str
    source: str = ""


def _read(path: Path) -> Iterator[Gold]:
    """Yield the gold texts of a text file, one per line, or of a JSONL file."""
    # Not str.splitlines: texts may hold other characters that it takes for the end of a line.
    lines = StringIO(read_text(path, limit=_MOST_BYTES), newline=None)
    if path.suffix not in (".jsonl", ".json"):
        yield from (Gold(to_nfc(line.strip())) for line in lines)
        return
    for location, values in json_lines(lines, str(path)):
        try:
            row = _Row.model_validate(values)
        except ValidationError as error:
            raise NNDError(f"{location}: {': '.join(list_mistakes(error)[-1])}") from error
        yield Gold(to_nfc(row.gold.strip()), to_nfc(row.source.strip()))
