"""MQM (Freitag et al., TACL 2021): professional translators mark errors in WMT translations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import HierarchicalLabel
from nnd_tasks.schema import Annotation, language_pair, slug
from nnd_tasks.sources.base import Source, SourceFile, read_plain_tsv

_URL = "https://raw.githubusercontent.com/google/wmt-mqm-human-evaluation/main/"
NO_ERROR = "No-error"
#: Severity of an attention check: raters were shown an error that was put in, and found it or missed it.
ATTENTION = "HOTW-test"
#: Releases name the document and the segment in different ways.
_DOCUMENT = ("doc_id", "doc")
_SEGMENT = ("seg_id", "globalSegId", "docSegId")


def config_name(file_name: str) -> str:
    """Return the config of a file: ``mqm_newstest2021_ende.tsv`` -> ``newstest2021_ende``."""
    return slug(re.sub(r"^mqm[-_]", "", Path(file_name).stem, flags=re.IGNORECASE))


def _unmarked(text: str) -> str:
    """Return a text without the marks around an error, or at the place where something is missing."""
    return text.replace("<v>", "").replace("</v>", "")


class MQM(Source):
    """A group is one segment; every row, that is every error that a rater marked, is a candidate."""

    name = "mqm"
    title = "WMT MQM"
    summary = (
        "Professional translators marked the errors in translations of news and talks, each with a category and a "
        "severity. Within a segment, a translation rated free of errors is better than one rated with an error."
    )
    kind = "translation"
    licence = "apache-2.0"
    homepage = "https://github.com/google/wmt-mqm-human-evaluation"
    task_category = "translation"
    categories = ("Accuracy", "Fluency", "Locale convention", "Style", "Terminology")
    files = (
        # The original of this file is not at hand, so its hash is recorded at the first download.
        SourceFile("mqm_newstest2021_ende.tsv", _URL + "newstest2021/ende/mqm_newstest2021_ende.tsv"),
        SourceFile(
            "mqm_ted_ende.tsv",
            _URL + "ted/ende/mqm_ted_ende.tsv",
            "3952dc904997dda31c03421243862cb8a093f9a712fd90dc97b9709b4bb387b3",
            required=False,
        ),
    )
    shape = HierarchicalLabel(no_error=NO_ERROR, parents={ATTENTION: None}, separator="/")
    left_out_note = f"ratings are attention checks with a planted error ({ATTENTION}), left out"
    mended_note = (
        "marks (`<v>`) are taken out of sources, which brings a rating back to the segment that it belongs to, and ratings "
        "that blame the source are left out, as they do not judge the translation"
    )
    default_config = "newstest2021_ende"
    published = {"newstest2021_ende": 42675}
    citation = """@article{freitag2021mqm,
  title = {Experts, Errors, and Context: A Large-Scale Study of Human Evaluation for Machine Translation},
  author = {Freitag, Markus and Foster, George and Grangier, David and Ratnakar, Viresh and Tan, Qijun and
            Macherey, Wolfgang},
  journal = {Transactions of the Association for Computational Linguistics},
  volume = {9},
  year = {2021}
}"""

    def languages(self, configs: Iterable[str]) -> list[str]:
        """Read the language pair off names such as ``newstest2021_ende``."""
        pairs = [pair for name in configs if (pair := language_pair(name))]
        return sorted({code for pair in pairs for code in pair})

    def locate(self, source: Path) -> dict[str, Path]:
        """Take any file of the format, or all ``mqm*.tsv`` of a folder but those with averaged scores."""
        if not source.exists():
            raise NNDError(f"{source}: no such file or folder")
        if source.is_file():
            return {source.name: source}
        for folder in (source, source / self.name):
            found = {path.name: path for path in sorted(folder.glob("mqm*.tsv")) if path.name.count(".") == 1}
            if found:
                return found
        raise NNDError(f"{source}: set {self.name} needs a file such as {self.files[0].name} there")

    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """One config per file."""
        configs: dict[str, Iterable[Annotation]] = {}
        for name, path in files.items():
            config = config_name(name)
            if not config:
                raise NNDError(
                    f"{path}: cannot name a config after this file; rename it, e.g. mqm_newstest2021_ende.tsv"
                )
            if config in configs:
                raise NNDError(f"{path}: another file gives the config {config!r} too; rename one")
            configs[config] = self._annotations(path)
        return configs

    def _annotations(self, path: Path) -> Iterator[Annotation]:
        for row in read_plain_tsv(path, ["system", "rater", "source", "target", "category", "severity"]):
            document = next((row.text(name) for name in _DOCUMENT if name in row), None)
            segment = next((row.text(name) for name in _SEGMENT if name in row), None)
            if document is None or segment is None:
                raise NNDError(f"{path}, row 1: no column 'doc_id' or no column 'seg_id'; is this an MQM ratings file?")
            category = row.text("category").strip()
            if category.casefold() == NO_ERROR.casefold():
                category = NO_ERROR
            severity = row.text("severity").strip()
            if severity.casefold() == ATTENTION.casefold():
                category = ATTENTION  # it says Found or Missed
            if not category:
                raise NNDError(f"{row.where}, column 'category': it is empty")
            if category.startswith("/"):
                raise NNDError(f"{row.where}, column 'category': {category!r} has nothing before the slash")
            source = row.text("source")
            yield Annotation(
                context_id=f"{document}_{segment}_{source}",
                context=source,
                candidate=_unmarked(row.text("target")),
                label=category,
                severity="" if category == NO_ERROR else severity,
                system=row.text("system"),
                rater=row.text("rater"),
            )

    def mended(self, annotation: Annotation) -> Annotation | None:
        """Take the marks out of the source; leave out a rating that blames the source."""
        if annotation.label.casefold().startswith("source "):  # Source error, in later releases Source issue
            return None
        source = _unmarked(annotation.context)
        if source == annotation.context:
            return annotation
        return replace(
            annotation, context=source, context_id=annotation.context_id.removesuffix(annotation.context) + source
        )
