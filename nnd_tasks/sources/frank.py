"""FRANK (Pagnoni et al., NAACL 2021): typology of factual errors in summaries, sentence by sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import HierarchicalLabel
from nnd_tasks.schema import Annotation
from nnd_tasks.sources.base import Record, Source, SourceFile, check_text, read_json, read_text

FILE = "human_annotations_sentence.json"
SPLIT_FILE = "test_split.txt"
NO_ERROR = "NoE"

#: CNN/DailyMail articles are named by a SHA-1 in hex, those of XSum by a shorter BBC number.
CNNDM_HASH_LENGTH = 40

#: Error type -> its group (FRANK, section 2; paper, section 3.3); OtherE is left out.
GROUPS: dict[str, str | None] = {
    "RelE": "Semantic Frame",
    "EntE": "Semantic Frame",
    "CircE": "Semantic Frame",
    "CorefE": "Discourse",
    "LinkE": "Discourse",
    "OutE": "Verifiability",
    "GramE": "Verifiability",
    "OtherE": None,
}


class Frank(Source):
    """A group is one article of the CNN/DailyMail part of the test split."""

    name = "frank"
    title = "FRANK"
    summary = (
        "Three annotators marked each sentence of system summaries with the type of its factual error. A sentence is "
        "right when two say so, a summary when all its sentences are; a right summary is better than a wrong one."
    )
    kind = "summarization"
    licence = "mit"
    licence_note = "The articles are CNN/DailyMail's and stay under their publishers' terms."
    homepage = "https://github.com/artidoro/frank"
    task_category = "summarization"
    categories = ("Discourse", "Semantic Frame", "Verifiability")
    files = (
        SourceFile(FILE, "https://raw.githubusercontent.com/artidoro/frank/main/data/human_annotations_sentence.json"),
        SourceFile(
            SPLIT_FILE,
            "https://raw.githubusercontent.com/artidoro/frank/main/data/test_split.txt",
            "d6d14b924bf4f4f5aaf59bb370ecb50e461eb0559b8c5aa0d659432bb6f90fac",
            required=False,
        ),
    )
    shape = HierarchicalLabel(no_error=NO_ERROR, parents=GROUPS)
    published = {"authors": 824}
    citation = """@inproceedings{pagnoni2021frank,
  title = {Understanding Factuality in Abstractive Summarization with {FRANK}: A Benchmark for Factuality Metrics},
  author = {Pagnoni, Artidoro and Balachandran, Vidhisha and Tsvetkov, Yulia},
  booktitle = {Proceedings of NAACL-HLT 2021},
  year = {2021}
}"""

    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """One annotation per summary; without the split file, the rows' own `split` says which are test rows."""
        split = set(read_text(files[SPLIT_FILE]).split()) if SPLIT_FILE in files else None
        return {"authors": self._annotations(files[FILE], split)}

    def _annotations(self, path: Path, split: set[str] | None) -> Iterator[Annotation]:
        rows = read_json(path)
        if not isinstance(rows, list):
            raise NNDError(f"{path}: expected a list of summaries; is it the right file?")
        for number, data in enumerate(rows):
            row = Record(data, f"{path}, summary {number}")
            article_id = row.text("hash")
            if len(article_id) < CNNDM_HASH_LENGTH:
                continue
            if not (article_id in split if split is not None else row.text("split") == "test"):
                continue
            yield Annotation(
                context_id=article_id,
                context=row.text("article"),
                candidate=row.text("summary"),
                label=summary_label(row),
                system=row.text("model_name"),
            )


def summary_label(row: Record) -> str:
    """Return ``NoE`` or the most common error of a summary, a key of `GROUPS`.

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
    label = errors.most_common(1)[0][0]  # equal counts keep the order in which they were first seen
    if label not in GROUPS:
        raise NNDError(f"{row.where}: unknown error label {label!r} (known: {', '.join([NO_ERROR, *GROUPS])})")
    return label
