"""Challenge 300 (Tafjord and Clark, 2021): answers of five systems to 300 hard questions, with credits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import ScoreGap
from nnd_tasks.schema import Annotation
from nnd_tasks.sources.base import Source, SourceFile, read_csv

FILE = "challenge300-outputs.tsv"

#: The systems whose answers were judged.
SYSTEMS = ("Macaw-11B", "Macaw-answer-11B", "GPT3-davinci", "Jurassic-1-jumbo", "T5-XXL-SSM-NQ")

#: Tag of a question -> its group, as in the authors' release (`utils_nnd_dataset.py`).
GROUPS = {
    "commonsense": "Common Sense",
    "explanation": "Common Sense",
    "general knowledge": "Common Sense",
    "human behavior": "Common Sense",
    "hypothetical": "Common Sense",
    "story understanding": "Common Sense",
    "Winograd": "Common Sense",
    "history": "Common Sense",
    "entity substitution": "Entity",
    "entity tracking": "Entity",
    "comparison": "Comparison",
    "estimation": "Comparison",
    "temporal": "Comparison",
    "example generation": "Creativity",
    "false presupposition": "Creativity",
    "generation": "Creativity",
    "riddle": "Creativity",
    "math": "Science",
    "meta-reasoning": "Science",
    "science": "Science",
    "spatial": "Science",
    "steps": "Science",
}


class Challenge300(Source):
    """A group is one question."""

    name = "challenge300"
    title = "Challenge 300"
    summary = (
        "Answers of five systems to 300 challenging questions, each credited from 0 (wrong) to 1 (right). "
        "An answer with credit 1 is better than one with credit 0; partial credits are used by no test."
    )
    kind = "question answering"
    licence = "apache-2.0"
    homepage = "https://github.com/allenai/macaw"
    task_category = "question-answering"
    categories = ("Common Sense", "Comparison", "Creativity", "Entity", "Science")
    files = (
        SourceFile(
            FILE,
            "https://raw.githubusercontent.com/allenai/macaw/main/challenge300-outputs.tsv",
            "58ea7ff8f93055e5946e69356c531bb4f9f57b4d21fe79711b116f92a73115be",
        ),
    )
    # Credits lie in [0, 1], so a gap of 1 leaves exactly the pairs (1, 0).
    shape = ScoreGap(min_gap=1.0)
    published = {"authors": 807}
    citation = """@article{tafjord2021macaw,
  title = {General-Purpose Question-Answering with {M}acaw},
  author = {Tafjord, Oyvind and Clark, Peter},
  journal = {arXiv preprint arXiv:2109.02593},
  year = {2021}
}"""

    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """Five annotations per question, in the order of `SYSTEMS`."""
        return {"authors": self._annotations(files[FILE])}

    def _annotations(self, path: Path) -> Iterator[Annotation]:
        credits = {system: f"credit-{system}" for system in SYSTEMS}
        for row in read_csv(path, ["id", "question", "category", *SYSTEMS, *credits.values()], delimiter="\t"):
            tag = row.text("category")
            if tag not in GROUPS:
                raise NNDError(f"{row.where}, column 'category': unknown tag {tag!r}")
            for system in SYSTEMS:
                credit = row.number(credits[system])
                if not 0 <= credit <= 1:
                    raise NNDError(
                        f"{row.where}, column {credits[system]!r}: a credit lies in [0, 1], found {credit:g}"
                    )
                yield Annotation(
                    context_id=row.text("id"),
                    context=row.text("question"),
                    candidate=row.text(system),
                    label=f"{credit:g}",
                    category=GROUPS[tag],
                    subcategory=tag,
                    score=credit,
                    system=system,
                )
