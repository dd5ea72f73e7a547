"""Corpora of gold texts: the paper's four, or the user's own file."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import nnd_home
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, read_text
from nnd_tasks.schema import normalize
from nnd_tasks.sets.fetch import sha256_of
from nnd_tasks.wording import did_you_mean
from nnd_tasks.yaml_json import parse_json, read_yaml

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
        references: other good texts for the same source, without the gold text.
    """

    text: str
    source: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Gold texts, and facts about them.

    Attributes:
        name: key of `KNOWN`, or the name of a file.
        texts: the gold texts, without repeats; all have a source or none.
        sha256: file -> hash of its bytes.
        title: what the texts are, for the card.
        reference: other texts of the same kind, in which n-grams are counted; empty where there are none.
    """

    name: str
    texts: list[Gold]
    sha256: dict[str, str]
    title: str
    reference: list[str]

    def draw(self, count: int | None) -> list[Gold]:
        """Return so many of the texts, drawn at random with a fixed seed, in their order; None takes all."""
        if count is None or count >= len(self.texts):
            return self.texts
        return [self.texts[i] for i in sorted(random.Random(0).sample(range(len(self.texts)), count))]  # noqa: S311


def read_corpus(name: str, place: Path | None = None, reference: Path | None = None) -> Corpus:
    """Return the corpus ``name``.

    Args:
        name: one of `KNOWN`, or a file (``.txt``: one text per line; ``.jsonl``: ``gold``, and ``source``, ``reference`` or
            ``references`` where there are any).
        place: a file, or a folder that holds the paper's files; None looks in ``$NND_HOME/blindspot``.
        reference: a file of one text per line, to count n-grams in; None takes ``NAME_reference.txt`` beside ``NAME.txt``.

    Raises:
        NNDError: there is no such corpus, it cannot be read, or it is empty.
    """
    known = KNOWN.get(name)
    if place is not None and known is None:
        raise NNDError(f"--source is for the corpora {', '.join(KNOWN)}; --corpus {name} is a file itself")
    folder = nnd_home() / "blindspot" if place is None else expand(place)
    path = expand(name) if known is None else folder if folder.is_file() else folder / known["file"]
    if not path.is_file():
        if known is None:
            meant = did_you_mean(name, KNOWN, end=" ")
            raise NNDError(f"corpus {name}: there is no such file, and it is not one of {', '.join(KNOWN)}; {meant}")
        raise NNDError(
            f"corpus {name}: there is no {path.name} in {folder}; name the folder of the paper's texts with --source "
            "(they come from github.com/cloudygoose/blindspot_nlg; docs/blind_spots.md says what the file holds)"
        )
    beside = path.with_name(f"{path.stem}_reference.txt" if known is None else known.get("reference", path.name))
    if reference is None and beside != path and beside.is_file():
        reference = beside
    texts = list({(gold.source, gold.text): gold for gold in _read(path) if gold.text.strip()}.values())
    if not texts:
        raise NNDError(f"corpus {name}: it holds no text")
    if 0 < (lacking := sum(not gold.source for gold in texts)) < len(texts):
        raise NNDError(
            f"corpus {name}: {lacking:,} of {len(texts):,} texts have no source; give every text one, or none"
        )
    files = [path] if reference is None else [path, expand(reference)]
    # A file that is called like a corpus of the paper keeps its path, to differ from it.
    called = name if path.stem in KNOWN or known else path.stem
    return Corpus(
        called,
        texts,
        {file.name: sha256_of(file) for file in files},
        known["title"] if known else path.name,
        [gold.text for file in files[1:] for gold in _read(file)],
    )


def _read(path: Path) -> Iterator[Gold]:
    """Yield the gold texts of a text file, one per line, or of a JSONL file."""
    # Not str.splitlines: texts may hold other characters that it takes for the end of a line.
    lines = read_text(path, limit=_MOST_BYTES).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(map(str.strip, lines), start=1):
        if path.suffix not in (".jsonl", ".json"):
            yield Gold(normalize(line))
        elif line:
            yield _read_row(line, f"{path}, line {number}")


def _read_row(line: str, where: str) -> Gold:
    """Return the gold text of a JSON object; raise NNDError where a part is missing or of a wrong type."""
    row = parse_json(line, where)
    if not isinstance(row, dict) or not isinstance(row.get("gold"), str):
        raise NNDError(f"{where}: expected an object with the text in `gold`")
    references = row.get("references", row.get("reference", []))
    others = [references] if isinstance(references, str) else references
    if not isinstance(others, list) or not all(isinstance(text, str) for text in [row.get("source", ""), *others]):
        raise NNDError(f"{where}: `source` must be a text, `references` a list of texts")
    gold, source, *others = (normalize(text.strip()) for text in (row["gold"], row.get("source", ""), *others))
    try:
        "".join((gold, source, *others)).encode()
    except UnicodeEncodeError as error:
        raise NNDError(f"{where}: a text in it holds half of a character (a lone surrogate); correct it") from error
    return Gold(gold, source, tuple(text for text in dict.fromkeys(others) if text and text != gold))
