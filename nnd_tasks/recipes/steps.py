"""Steps: functions that compute the rows of a set from several files, where a recipe alone cannot describe them.

A step gets the set's files and options and returns config -> rows. Only recipes of this package can name a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.recipes.records import RIGHT_FILE, Record, check_text, read_file, read_jsonl
from nnd_tasks.yaml_json import load_json

Row = dict[str, Any]
Step = Callable[[Mapping[str, Path], Mapping[str, str]], dict[str, Iterable[Row]]]


# ---------------------------------------------------------------- FRANK

#: CNN/DailyMail articles are named by a SHA-1 in hex, those of XSum by a shorter BBC number.
CNNDM_HASH_LENGTH = 40
NO_ERROR = "NoE"


def frank(files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Row]]:
    """Return one row per CNN/DailyMail summary of the test split; without a file of the split, its rows name it."""
    split = set(read_file(files["test_split.txt"]).split()) if "test_split.txt" in files else None
    return {"authors": _frank_rows(files["human_annotations_sentence.json"], split)}


def _frank_rows(path: Path, split: set[str] | None) -> Iterator[Row]:
    rows = load_json(read_file(path), str(path), hint=RIGHT_FILE)
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
        for annotator, labels in sentence.entries():
            if not isinstance(labels, list):
                raise NNDError(f"{sentence.where}: annotator {annotator!r} has no list of labels")
            texts = [check_text(label, f"{sentence.where}, annotator {annotator!r}") for label in labels]
            votes += texts.count(NO_ERROR)
            by_annotator.setdefault(annotator, []).extend(texts)
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
    """Return one row per summary and attribute, sorted by attribute, as in the authors' release.

    The authors' cut takes every second row. Where the file has no articles, they are taken from CNN/DailyMail.
    """
    name, start, step = ("all_rows", 0, 1) if options["rows"] == "all" else ("authors", 1, 2)
    [path] = files.values()
    return {name: _summeval_rows(path, start, step, options["articles"])}


def _summeval_rows(path: Path, start: int, step: int, articles: str) -> Iterator[Row]:
    records = list(read_jsonl(path))[start::step]
    if not records:
        raise NNDError(f"{path}: fewer than {start + 1} rows; is it the right file?")
    # Check all rows before any article is fetched, which takes minutes.
    rows: list[Row] = [
        {
            "@where": record.where,
            "id": record.text("id"),
            "decoded": record.text("decoded"),
            "model_id": record.text("model_id"),
            "experts": record.records("expert_annotations"),
        }
        for record in records
    ]
    joined = None if all("text" in record for record in records) else load_articles(articles)
    for record, row in zip(records, rows, strict=True):
        if not row["experts"]:
            raise NNDError(f"{record.where}, field 'expert_annotations': no expert rated the summary")
        row["text"] = record.text("text") if joined is None else _article(joined, row["id"], record, articles)
    for attribute in ATTRIBUTES:
        for row in rows:
            yield {**row, "attribute": attribute, "ratings": [_rating(expert, attribute) for expert in row["experts"]]}


def _rating(expert: Record, attribute: str) -> float:
    value = expert.number(attribute)
    if not 1 <= value <= 5:
        raise NNDError(f"{expert.where}, field {attribute!r}: a rating lies in 1 to 5, found {value:g}")
    return value


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
    except Exception as error:  # datasets raises many kinds; the user can do the same about all of them
        raise NNDError(
            f"the annotations come without their articles, and {path} cannot be loaded "
            f"({typed_reason_of(error)}); name a copy with --articles"
        ) from error
    if not {"id", "article"} <= set(data.column_names):
        raise NNDError(f"{path}: no columns id and article")
    return {str(key): str(text) for key, text in zip(data["id"], data["article"], strict=True)}


STEPS: Mapping[str, Step] = {"frank": frank, "summeval": summeval}
