"""Quiz Design (Laban et al., Findings of NAACL 2022): teachers grade generated quiz questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nnd_tasks.pairing import SingleErrorLabel
from nnd_tasks.schema import Annotation
from nnd_tasks.sources.base import Source, SourceFile, read_jsonl

FILE = "quiz_design_groups.jsonl"


class QuizDesign(Source):
    """A group is one answer span of one paragraph in one quiz; each of its questions was graded by a teacher."""

    name = "quiz_design"
    title = "Quiz Design"
    summary = (
        "Teachers graded questions that seven systems generated for an answer span of a paragraph, as free of errors "
        "or with one of three errors. Within a group, a question with no error is better than any with one."
    )
    kind = "question generation"
    licence = "bsd-3-clause"
    homepage = "https://github.com/salesforce/QGen"
    task_category = "text-generation"
    categories = ("disfluent", "off_target", "wrong_context")
    fields = {"answer": "the answer span, a part of the paragraph"}
    files = (
        SourceFile(
            FILE,
            "https://raw.githubusercontent.com/salesforce/QGen/main/Quiz_Design/quiz_design_groups.jsonl",
            "a07b4182bdd888460414302933f9dcb47bb3e6bb713da50ef7707c643bee2741",
        ),
    )
    shape = SingleErrorLabel(no_error="No error")
    published = {"authors": 2686}
    citation = """@inproceedings{laban2022quiz,
  title = {Quiz Design Task: Helping Teachers Create Quizzes with Automated Question Generation},
  author = {Laban, Philippe and Wu, Chien-Sheng and Murakhovs'ka, Lidiya and Liu, Wenhao and Xiong, Caiming},
  booktitle = {Findings of the Association for Computational Linguistics: NAACL 2022},
  year = {2022}
}"""

    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """One annotation per graded question; a question that several systems wrote is one row, as published."""
        return {"authors": self._annotations(files[FILE])}

    def _annotations(self, path: Path) -> Iterator[Annotation]:
        for group in read_jsonl(path):
            context_id = group.identifier("group_id")
            context = group.text("context")
            fields = {"answer": group.text("answer_span")}
            for question in group.records("questions"):
                yield Annotation(
                    context_id=context_id,
                    context=context,
                    candidate=question.text("question"),
                    fields=fields,
                    label=question.label("reason"),
                    system=question.text("model_name"),
                )
