"""SummEval (Fabbri et al., TACL 2021): experts rate summaries of CNN/DailyMail articles on four scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, first_line
from nnd_tasks.pairing import LikertScale
from nnd_tasks.schema import Annotation
from nnd_tasks.sources.base import Record, Source, SourceFile, check_text, read_jsonl

FILE = "model_annotations.aligned.paired.jsonl"
ATTRIBUTES = ("consistency", "coherence", "fluency", "relevance")
HUB_ARTICLES = "abisee/cnn_dailymail"
HUB_ARTICLES_CONFIG = "3.0.0"


class SummEval(Source):
    """A group is one article and one attribute."""

    name = "summeval"
    title = "SummEval"
    summary = (
        "Three experts rated summaries of 100 CNN/DailyMail articles from 1 to 5 on four attributes. For an article and "
        "attribute, a summary to which a majority of experts gave 5 is better than one to which they did not."
    )
    kind = "summarization"
    licence = "mit"
    licence_note = "The articles are CNN/DailyMail's and stay under their publishers' terms."
    homepage = "https://github.com/Yale-LILY/SummEval"
    task_category = "summarization"
    categories = ATTRIBUTES
    files = (
        # The release with all 17 systems that the NND authors used; no copy of the original to pin is at hand.
        SourceFile(
            FILE,
            "https://drive.usercontent.google.com/download?id=1d2Iaz3jNraURP1i7CfTqPIj8REZMJ3tS&export=download&confirm=t",
        ),
    )
    shape = LikertScale(best=5)
    options = {
        "rows": ("half", "half: every second row, the authors' test cut; all: every row, as config all_rows"),
        "articles": (HUB_ARTICLES, "dataset with columns id and article, for a release without the articles"),
    }
    published = {"authors": 3613}
    citation = """@article{fabbri2021summeval,
  title = {{S}umm{E}val: Re-evaluating Summarization Evaluation},
  author = {Fabbri, Alexander R. and Kry{\\'s}ci{\\'n}ski, Wojciech and McCann, Bryan and Xiong, Caiming and
            Socher, Richard and Radev, Dragomir},
  journal = {Transactions of the Association for Computational Linguistics},
  volume = {9},
  year = {2021}
}"""

    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """Four annotations per summary, one per attribute."""
        rows = options["rows"]
        if rows not in ("half", "all"):
            raise NNDError(f"--rows: expected half or all, found {rows!r}")
        name, start, step = ("all_rows", 0, 1) if rows == "all" else ("authors", 1, 2)
        return {name: self._annotations(files[FILE], start, step, options["articles"])}

    def _annotations(self, path: Path, start: int, step: int, articles: str) -> Iterator[Annotation]:
        records = list(read_jsonl(path))[start::step]
        if not records:
            raise NNDError(f"{path}: fewer than {start + 1} rows; is it the right file?")
        # All rows before any article: to fetch those for what turns out to be another file takes minutes.
        rows = [_Row.read(record) for record in records]
        joined = None if all("text" in record for record in records) else load_articles(articles)
        contexts = [
            record.text("text") if joined is None else _article(joined, row.article_id, record, articles)
            for record, row in zip(records, rows, strict=True)
        ]
        # Attribute by attribute, as the authors' release orders its tests.
        for attribute in ATTRIBUTES:
            for row, context in zip(rows, contexts, strict=True):
                yield Annotation(
                    context_id=f"{row.article_id}/{attribute}",
                    context=context,
                    candidate=row.summary,
                    category=attribute,
                    ratings=row.ratings[attribute],
                    system=row.system,
                )


@dataclass(frozen=True, slots=True)
class _Row:
    """One summary: what a row says of it but the article's text, which may have to come from elsewhere."""

    article_id: str
    summary: str
    system: str
    ratings: Mapping[str, tuple[float, ...]]  #: attribute -> one rating per expert

    @classmethod
    def read(cls, row: Record) -> _Row:
        article_id, summary, system = row.text("id"), row.text("decoded"), row.text("model_id")
        experts = row.records("expert_annotations")
        if not experts:
            raise NNDError(f"{row.where}, field 'expert_annotations': no expert rated the summary")
        ratings = {attribute: tuple(_rating(expert, attribute) for expert in experts) for attribute in ATTRIBUTES}
        return cls(article_id, summary, system, ratings)


def _rating(rating: Record, attribute: str) -> float:
    value = rating.number(attribute)
    if not 1 <= value <= 5:
        raise NNDError(f"{rating.where}, field {attribute!r}: a rating lies in 1 to 5, found {value:g}")
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
    except Exception as error:  # whatever datasets raises for a path, a network or a format, the user's way out is one
        raise NNDError(
            f"the annotations come without their articles, and {path} cannot be loaded ({type(error).__name__}: "
            f"{first_line(error)}); name a copy with --articles"
        ) from error
    if not {"id", "article"} <= set(data.column_names):
        raise NNDError(f"{path}: no columns id and article")
    where = f"{path}, column 'article'"
    return {str(key): check_text(text, where) for key, text in zip(data["id"], data["article"], strict=True)}
