"""News summarization in the era of GPT-3 (Goyal, Li and Durrett, 2022): best and worst of three summaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import ScoreGap
from nnd_tasks.schema import Annotation
from nnd_tasks.sources.base import Record, Source, SourceFile, check_text, read_json

_URL = "https://tagoyal.github.io/zero-shot-explorer/human_annotations.zip"
SYSTEMS = ("gpt3", "t0", "brio")


class NewsGPT3(Source):
    """A group is one article."""

    name = "news_gpt3"
    title = "News summarization in the era of GPT-3"
    summary = (
        "Three annotators named the best and the worst of three system summaries of CNN and BBC articles of 2022. A "
        "summary's score is its best votes less its worst votes; it is better than one at least 2 points lower."
    )
    kind = "summarization"
    licence = "cc-by-4.0"
    licence_note = "The articles are CNN's and the BBC's and stay under their publishers' terms."
    homepage = "https://tagoyal.github.io/zeroshot-news-annotations.html"
    task_category = "summarization"
    categories = ("preference",)
    files = (
        SourceFile(
            "cnn_human.json",
            _URL,
            "4e13a6eeb2aeb2c300b32e870360f0118d4855bcbb1ade8d8946976c4b203fe4",
            required=False,
            member="human_annotations/cnn_human.json",
        ),
        SourceFile(
            "bbc_human.json",
            _URL,
            "7e6e01f04baaa3d597ab5ef51559a5458da947ab708ab6001552729ac5e1bdbf",
            required=False,
            member="human_annotations/bbc_human.json",
        ),
    )
    shape = ScoreGap(min_gap=2.0)
    default_config = "cnn"
    published = {"cnn": 205, "bbc": 208}
    citation = """@article{goyal2022news,
  title = {News Summarization and Evaluation in the Era of {GPT}-3},
  author = {Goyal, Tanya and Li, Junyi Jessy and Durrett, Greg},
  journal = {arXiv preprint arXiv:2209.12356},
  year = {2022}
}"""

    def locate(self, source: Path) -> dict[str, Path]:
        """Find one of the two files, or both."""
        if source.is_file() and source.name not in {file.name for file in self.files}:
            raise NNDError(f"{source}: its name must be cnn_human.json or bbc_human.json, it decides the config")
        found = super().locate(source)
        if source.is_file():  # a file that is named is the only one meant
            return {source.name: source}
        if not found:
            raise NNDError(f"{source}: set {self.name} needs cnn_human.json or bbc_human.json there")
        return found

    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """One config per file."""
        return {name.split("_")[0]: self._annotations(path) for name, path in files.items()}

    def _annotations(self, path: Path) -> Iterator[Annotation]:
        for article_id, data in Record(read_json(path), str(path)).entries():
            article = Record(data, f"{path}, article {article_id}")
            check_text(article_id, article.where)
            scores = dict.fromkeys(SYSTEMS, 0)
            for annotator in article.records("annotators"):
                scores[_first_named(annotator, "best_summary")] += 1
                scores[_first_named(annotator, "worst_summary")] -= 1
            for system in SYSTEMS:
                yield Annotation(
                    context_id=article_id,
                    context=article.text("article"),
                    candidate=article.record(system).text("text"),
                    score=float(scores[system]),
                    system=system,
                )


def _first_named(annotator: Record, vote: str) -> str:
    """Return the first system of a vote; where several are named the authors count the first only."""
    named = annotator.items(vote)
    where = f"{annotator.where}, {vote}"
    if not named:
        raise NNDError(f"{where}: no system is named")
    system = check_text(named[0], where)
    if system not in SYSTEMS:
        raise NNDError(f"{where}: unknown system {system!r} (known: {', '.join(SYSTEMS)})")
    return system
