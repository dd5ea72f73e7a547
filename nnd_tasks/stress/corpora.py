"""Corpora of gold texts: the paper's four, or the user's own file or dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import nnd_home
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import expand, is_missing_path, read_text
from nnd_tasks.schema import normalize
from nnd_tasks.sets.fetch import sha256_of
from nnd_tasks.wording import did_you_mean
from nnd_tasks.yaml_json import parse_json

#: Bytes that a corpus file may have; it is read into memory.
_MOST_BYTES = 2_000_000_000


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
        name: ``wikitext``, ``cnndm``, ``wmt``, ``ted``, or the name of a file or dataset.
        texts: the gold texts, without repeats.
        sha256: file -> hash of its bytes.
        title: what the texts are, for the card.
        languages: languages of the gold texts.
        terms: terms or licence of the texts.
        reference: other texts of the same kind, in which n-grams are counted; ``()`` where there are none.
    """

    name: str
    texts: list[Gold]
    sha256: dict[str, str] = field(default_factory=dict)
    title: str = ""
    languages: tuple[str, ...] = ()
    terms: str = "other"
    reference: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Known:
    """A corpus of the paper: its file, its title and terms, and the file of its reference texts."""

    file: str
    title: str
    terms: str
    reference: str = ""


#: The corpora of the paper (its section 3), whose files come from the repository ``blindspot_nlg``.
KNOWN: Mapping[str, _Known] = {
    "wikitext": _Known(
        "wikitext_gold.txt", "WikiText-103 paragraphs", "CC BY-SA (Wikipedia)", "wikitext_reference.txt"
    ),
    "cnndm": _Known("cnndm.jsonl", "CNN/DailyMail reference summaries", "of CNN and the Daily Mail"),
    "wmt": _Known("wmt21_de_en.jsonl", "WMT21 German-English translations", "of the WMT21 shared task (research)"),
    "ted": _Known("ted_zh_en.jsonl", "TED talks, Chinese-English translations", "CC BY-NC-ND (TED)"),
}


def read_corpus(name: str, place: Path | None = None, reference: Path | None = None) -> Corpus:
    """Return the corpus ``name``.

    Args:
        name: one of `KNOWN`, a file (``.txt``: one text per line; ``.jsonl``: ``gold``, and ``source``, ``reference`` or
            ``references`` where there are any), or a path for `datasets.load_dataset`.
        place: a file, or a folder that holds the paper's files; None looks in ``$NND_HOME/blindspot``.
        reference: a file of one text per line, to count n-grams in.

    Raises:
        NNDError: there is no such corpus, it cannot be read, or it is empty.
    """
    more: tuple[str, ...] = ()
    if place is not None and name not in KNOWN:
        raise NNDError(f"--source is for the corpora {', '.join(KNOWN)}; --corpus {name} is a file or dataset itself")
    if name in KNOWN:
        known = KNOWN[name]
        folder = expand(place) if place is not None else nnd_home() / "blindspot"
        path = folder if folder.is_file() else folder / known.file
        if not path.is_file():
            raise NNDError(
                f"corpus {name}: there is no {known.file} in {folder}; name the folder of the paper's texts with --source "
                "(they come from github.com/cloudygoose/blindspot_nlg; docs/blind_spots.md says what the file holds)"
            )
        beside = path.with_name(known.reference) if known.reference else None
        if reference is None and beside is not None and beside.is_file():
            reference = beside
        title, terms = known.title, known.terms
        rows, hashes = _rows(path), {path.name: sha256_of(path)}
    else:
        title, terms = Path(name).name, "other"
        path = expand(name)
        if path.is_file():
            rows, hashes = _rows(path), {path.name: sha256_of(path)}
        else:
            rows, hashes = _from_datasets(name), {}
    if reference is not None:
        reference = expand(reference)
        more = tuple(gold.text for gold in _rows(reference))
        hashes[reference.name] = sha256_of(reference)
    texts = list({(gold.source, gold.text): gold for gold in rows if gold.text.strip()}.values())
    if not texts:
        raise NNDError(f"corpus {name}: it holds no text")
    lacking = sum(not gold.source for gold in texts)
    if 0 < lacking < len(texts):
        raise NNDError(
            f"corpus {name}: {lacking:,} of {len(texts):,} texts have no source; give every text one, or none"
        )
    languages = {"wmt": ("en", "de"), "ted": ("en", "zh")}.get(name, ("en",)) if name in KNOWN else ()
    called = Path(name).stem
    if name in KNOWN or called in KNOWN:  # a file called like a corpus of the paper keeps its path, to differ from it
        called = name
    return Corpus(called, texts, hashes, title, languages, terms, more)


def _rows(path: Path) -> Iterator[Gold]:
    """Yield the gold texts of a text file, one per line, or of a JSONL file."""
    # Not str.splitlines: texts may hold other characters that it takes for the end of a line.
    lines = read_text(path, limit=_MOST_BYTES).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if path.suffix not in (".jsonl", ".json"):
        return (Gold(normalize(line.strip())) for line in lines)
    return _json_rows(path, lines)


def _json_rows(path: Path, lines: Iterable[str]) -> Iterator[Gold]:
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        yield _gold(parse_json(line, where), where)


def _gold(row: Any, where: str) -> Gold:
    """Return the gold text of a JSON object; raise NNDError where a part is missing or of a wrong type."""
    if not isinstance(row, Mapping) or not isinstance(row.get("gold"), str):
        raise NNDError(f"{where}: expected an object with the text in `gold`")
    source = row.get("source", "")
    references = row.get("references", row.get("reference", ()))
    references = [references] if isinstance(references, str) else references
    if not isinstance(source, str) or not isinstance(references, (list, tuple)):
        raise NNDError(f"{where}: `source` must be a text, `references` a list of texts")
    if not all(isinstance(text, str) for text in references):
        raise NNDError(f"{where}: `references` must be texts")
    gold = normalize(row["gold"].strip())
    others = dict.fromkeys(normalize(text.strip()) for text in references)
    return Gold(gold, normalize(source.strip()), tuple(text for text in others if text and text != gold))


def _from_datasets(name: str) -> Iterator[Gold]:
    """Yield the gold texts of ``PATH:SPLIT`` for `datasets.load_dataset`."""
    import datasets

    path, _, split = name.partition(":")
    if is_missing_path(path, ".txt", ".jsonl", ".json"):
        raise NNDError(f"corpus {name}: there is no such file or folder")
    meant = did_you_mean(name, KNOWN, end=" ")
    try:
        rows = datasets.load_dataset(path, split=split or "test")
    except Exception as error:  # datasets and the hub raise many kinds
        raise NNDError(
            f"corpus {name}: is not one of {', '.join(KNOWN)}, is not a file, and could not be loaded as a dataset "
            f"({reason_of(error)}); {meant}write PATH:SPLIT for another split than test"
        ) from error
    column = next((column for column in ("gold", "text") if column in rows.column_names), None)
    if column is None:
        raise NNDError(f"corpus {name}: has neither a column `gold` nor `text`, only {', '.join(rows.column_names)}")
    return (_gold({**row, "gold": row[column]}, f"{name}, row {i}") for i, row in enumerate(rows))
