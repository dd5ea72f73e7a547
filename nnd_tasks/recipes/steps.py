"""Sets of this package whose rows must be computed from several files: a named step each, the only code of a set.

A step gets the set's files and options, and returns config -> rows. A recipe from outside the package cannot name one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, first_line
from nnd_tasks.files import read_text
from nnd_tasks.recipes.cells import kind
from nnd_tasks.recipes.readers import MAX_BYTES

Row = dict[str, Any]
Step = Callable[[Mapping[str, Path], Mapping[str, str]], dict[str, Iterable[Row]]]


class Record:
    """An object of a file; its accessors raise NNDError, with the place, when a field is not what they return."""

    __slots__ = ("data", "where")

    def __init__(self, data: Any, where: str) -> None:
        """Wrap ``data``; raise NNDError when it is no object."""
        if not isinstance(data, Mapping):
            raise NNDError(f"{where}: expected an object with named fields, found {kind(data)}")
        self.data = data
        self.where = where

    def get(self, name: str, wanted: type, what: str) -> Any:
        """Return a field that must be of a type."""
        if name not in self.data:
            known = ", ".join(map(str, list(self.data)[:12]))
            raise NNDError(f"{self.where}: field {name!r} is missing (found: {known}); is it the right file?")
        value = self.data[name]
        if not isinstance(value, wanted):
            raise NNDError(f"{self.where}, field {name!r}: expected {what}, found {kind(value)}")
        return value

    def text(self, name: str) -> str:
        """Return a field that is text."""
        return str(self.get(name, str, "text"))

    def records(self, name: str) -> list[Record]:
        """Return a field that is a list of objects."""
        return [Record(one, f"{self.where}, {name}[{i}]") for i, one in enumerate(self.get(name, list, "a list"))]


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise NNDError(f"{where}: JSON nested too deeply; is it the right file?") from None
    except ValueError as error:
        raise NNDError(f"{where}: not valid JSON ({error}); is it the right file?") from None


def _lines(path: Path) -> Iterator[Record]:
    for number, line in enumerate(read_text(path, limit=MAX_BYTES).split("\n"), start=1):
        if line.strip():
            yield Record(_parse(line, f"{path}, line {number}"), f"{path}, line {number}")


# ---------------------------------------------------------------- FRANK

#: CNN/DailyMail articles are named by a SHA-1 in hex, those of XSum by a shorter BBC number.
CNNDM_HASH_LENGTH = 40
NO_ERROR = "NoE"


def frank(files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Row]]:
    """One row per CNN/DailyMail summary of the test split; without the split file, the rows' own `split` says which."""
    split = set(read_text(files["test_split.txt"]).split()) if "test_split.txt" in files else None
    return {"authors": _frank_rows(files["human_annotations_sentence.json"], split)}


def _frank_rows(path: Path, split: set[str] | None) -> Iterator[Row]:
    rows = _parse(read_text(path, limit=MAX_BYTES), str(path))
    if not isinstance(rows, list):
        raise NNDError(f"{path}: expected a list of summaries; is it the right file?")
    for number, data in enumerate(rows):
        row = Record(data, f"{path}, summary {number}")
        article = row.text("hash")
        if len(article) < CNNDM_HASH_LENGTH:
            continue
        if not (article in split if split is not None else row.text("split") == "test"):
            continue
        yield {
            "@where": row.where,
            "hash": article,
            "article": row.text("article"),
            "summary": row.text("summary"),
            "model_name": row.text("model_name"),
            "label": summary_label(row),
        }


def summary_label(row: Record) -> str:
    """Return ``NoE`` or the most common error of a summary.

    A sentence is right when at least two of its annotations are ``NoE``. Errors are counted over all labels other than
    ``NoE``, annotator by annotator; on a tie the first seen wins (authors' release, `utils_summarization.py`).
    """
    by_annotator: dict[str, list[str]] = {}
    right = True
    sentences = row.records("summary_sentences_annotations")
    if not sentences:
        raise NNDError(f"{row.where}: too few annotations, no sentence has any")
    for sentence in sentences:
        votes = 0
        for annotator, labels in sentence.data.items():
            if not isinstance(labels, list):
                raise NNDError(f"{sentence.where}: annotator {annotator!r} has no list of labels")
            for label in labels:
                if not isinstance(label, str):
                    raise NNDError(f"{sentence.where}, annotator {annotator!r}: expected text, found {kind(label)}")
            votes += labels.count(NO_ERROR)
            by_annotator.setdefault(annotator, []).extend(labels)
        right = right and votes >= 2
    if right:
        return NO_ERROR
    errors = Counter(label for labels in by_annotator.values() for label in labels if label != NO_ERROR)
    if not errors:
        raise NNDError(f"{row.where}: too few annotations to tell whether the summary is right")
    return errors.most_common(1)[0][0]  # equal counts keep the order in which they were first seen


# ---------------------------------------------------------------- SummEval

ATTRIBUTES = ("consistency", "coherence", "fluency", "relevance")
HUB_ARTICLES, HUB_ARTICLES_CONFIG = "abisee/cnn_dailymail", "3.0.0"


def summeval(files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Row]]:
    """One row per summary and attribute, attribute by attribute, as the authors' release orders its tests.

    The authors' cut is every second row; a release without the articles takes them from CNN/DailyMail.
    """
    name, start, step = ("all_rows", 0, 1) if options["rows"] == "all" else ("authors", 1, 2)
    [path] = files.values()
    return {name: _summeval_rows(path, start, step, options["articles"])}


def _summeval_rows(path: Path, start: int, step: int, articles: str) -> Iterator[Row]:
    records = list(_lines(path))[start::step]
    if not records:
        raise NNDError(f"{path}: fewer than {start + 1} rows; is it the right file?")
    # All rows before any article: to fetch those for what turns out to be another file takes minutes.
    rows = [
        {
            "@where": record.where,
            "id": record.text("id"),
            "decoded": record.text("decoded"),
            "model_id": record.text("model_id"),
            "experts": [expert.data for expert in record.records("expert_annotations")],
        }
        for record in records
    ]
    joined = None if all("text" in record.data for record in records) else load_articles(articles)
    for record, row in zip(records, rows, strict=True):
        if not row["experts"]:
            raise NNDError(f"{record.where}, field 'expert_annotations': no expert rated the summary")
        row["text"] = record.text("text") if joined is None else _article(joined, row["id"], record, articles)
    for attribute in ATTRIBUTES:
        for row in rows:
            for i, expert in enumerate(row["experts"]):
                if attribute not in expert:
                    raise NNDError(f"{row['@where']}, expert_annotations[{i}]: field {attribute!r} is missing")
            yield {**row, "attribute": attribute, "ratings": [expert[attribute] for expert in row["experts"]]}


def _article(articles: Mapping[str, str], article_id: str, row: Record, source: str) -> str:
    key = article_id.rsplit("-", 1)[-1]  # dm-test-<hash of the article's address>
    if key not in articles:
        raise NNDError(f"{row.where}: article {key} is not in {source}")
    return articles[key]


def load_articles(path: str) -> dict[str, str]:
    """Return id -> article of CNN/DailyMail's test split, from the hub or a local dataset folder.

    Raises:
        NNDError: it cannot be loaded, or has no columns ``id`` and ``article``.
    """
    import datasets

    try:
        config = HUB_ARTICLES_CONFIG if path == HUB_ARTICLES else None
        data: Any = datasets.load_dataset(path, config, split="test")
    except Exception as error:  # whatever datasets raises for a path, a network or a format, the user's way out is one
        raise NNDError(
            f"the annotations come without their articles, and {path} cannot be loaded ({type(error).__name__}: "
            f"{first_line(error)}); name a copy with --articles"
        ) from error
    if not {"id", "article"} <= set(data.column_names):
        raise NNDError(f"{path}: no columns id and article")
    return {str(key): str(text) for key, text in zip(data["id"], data["article"], strict=True)}


STEPS: Mapping[str, Step] = {"frank": frank, "summeval": summeval}
