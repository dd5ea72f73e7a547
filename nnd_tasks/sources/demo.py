"""The embedded demo: contexts and candidates written and annotated for this project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nnd_tasks.pairing import SingleErrorLabel
from nnd_tasks.schema import Annotation
from nnd_tasks.sources.base import Source, SourceFile, read_csv

FILE = "demo_annotations.csv"
PATH = Path(__file__).with_name(FILE)


class Demo(Source):
    """A group is one context; the file lies in the package, so that it builds without a network."""

    name = "demo"
    title = "Demo"
    summary = (
        "Small texts, questions and answers written for this project, some candidates with one error put in on "
        "purpose. A candidate with no error is better than any with one. It shows the tool; it is no human evaluation "
        "and no benchmark."
    )
    kind = "question generation, question answering, summarization"
    licence = "apache-2.0"
    homepage = ""
    task_category = "text-generation"
    categories = ("disfluent", "off_target", "unfaithful")
    fields = {
        "kind": "question_generation, question_answering or summarization",
        "answer": "the answer span, for question generation",
    }
    files = (SourceFile(FILE),)
    shape = SingleErrorLabel(no_error="no_error")
    published = {"authors": 381}
    citation = ""

    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """One annotation per row."""
        return {"authors": self._annotations(files[FILE])}

    def _annotations(self, path: Path) -> Iterator[Annotation]:
        columns = ["context_id", "kind", "context", "answer", "candidate", "label"]
        for row in read_csv(path, columns):
            yield Annotation(
                context_id=row.text("context_id"),
                context=row.text("context"),
                candidate=row.text("candidate"),
                fields={"kind": row.text("kind"), "answer": row.text("answer")},
                label=row.label("label"),
            )
