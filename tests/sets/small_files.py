"""Small made-up files in each publisher's format, for tests of formats, readers, downloads, builds and the command line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

QUIZ_FILE = "quiz_design_groups.jsonl"
CHALLENGE_FILE = "challenge300-outputs.tsv"
SUMMEVAL_FILE = "model_annotations.aligned.paired.jsonl"
FRANK_FILE = "human_annotations_sentence.json"
SPLIT_FILE = "test_split.txt"
MQM_FILE = "mqm_newstest2021_ende.tsv"

RIVER = "The river froze in January. Barges waited at the lock until the thaw in March."

CHALLENGE_SYSTEMS = ["Macaw-11B", "Macaw-answer-11B", "GPT3-davinci", "Jurassic-1-jumbo", "T5-XXL-SSM-NQ"]


def quiz_group(group_id: int, *questions: tuple[str, str], context: str = RIVER, answer: str = "January") -> Any:
    return {
        "group_id": group_id,
        "doc_id": 0,
        "answer_span": answer,
        "context": context,
        "questions": [
            {"question": text, "label": int(reason == "No error"), "reason": reason, "model_name": f"model_{i}"}
            for i, (text, reason) in enumerate(questions)
        ],
    }


def jsonl(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def quiz_text() -> str:
    """Five tests: four from group 7, one from group 8; the others have good or bad questions only."""
    return jsonl(
        [
            quiz_group(
                7,
                ("When did the river freeze?", "No error"),
                ("When when river freeze did?", "disfluent"),
                ("In which month did ice close the river?", "No error"),
                ("Where did the barges wait?", "off_target"),
            ),
            quiz_group(8, ("When was it?", "wrong_context"), ("In what month did the river freeze?", "No error")),
            quiz_group(9, ("Who?", "disfluent"), ("What river?", "off_target"), answer="the lock"),
            quiz_group(10, ("When did the thaw come?", "No error"), answer="March"),
        ]
    )


# In the order of the published file; the smaller systems were not judged.
CHALLENGE_COLUMNS = [
    "id",
    "question",
    "category",
    "Macaw-11B",
    "Macaw-3B",
    "Macaw-answer-11B",
    "GPT3-davinci",
    "Jurassic-1-jumbo",
    "T5-XXL-SSM-NQ",
    "Credits->",
    *(f"credit-{system}" for system in CHALLENGE_SYSTEMS),
]


def challenge_row(number: int, question: str, tag: str, answers: Sequence[str], credits: Sequence[object]) -> Any:
    judged = dict(zip(CHALLENGE_SYSTEMS, answers, strict=True))
    paid = {f"credit-{system}": credit for system, credit in zip(CHALLENGE_SYSTEMS, credits, strict=True)}
    return {
        "id": f"probe-{number}",
        "question": question,
        "category": tag,
        "Macaw-3B": "not judged",
        "Credits->": "",
        **judged,
        **paid,
    }


def challenge_text(rows: Sequence[Any] | None = None) -> str:
    """Eight tests: six of question 1 (three right answers, two wrong), two of question 2 (partial credits)."""
    if rows is None:
        rows = [
            challenge_row(
                1, 'What does a sign that says "Wet paint" ask of you?', "commonsense",
                ['not to touch it, or "hands off"', "to wet it", "Keep your hands away.", "water", "don't touch"],
                [1, 0, 1, 0, 1],
            ),
            challenge_row(2, "How many legs have two hens?", "math", ["4", "2 and 2", "four?", "8", ""],
                          [1, 0.5, 0.66, 0, 0]),
            challenge_row(3, "Name a colour.", "generation", ["red", "blue", "green", "tall", "yes"],
                          [0.5, 0.5, 0.2, 0, 0]),
        ]  # fmt: skip
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, CHALLENGE_COLUMNS, delimiter="\t", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def summeval_row(article: str, system: str, decoded: str, *marks: tuple[int, int, int, int], **more: Any) -> Any:
    names = ("coherence", "consistency", "fluency", "relevance")
    return {
        "id": f"dm-test-{article}",
        "decoded": decoded,
        "expert_annotations": [dict(zip(names, mark, strict=True)) for mark in marks],
        "turker_annotations": [],
        "references": ["A made-up reference."],
        "model_id": system,
        "filepath": f"cnndm/dailymail/stories/{article}.story",
        **more,
    }


HARBOUR = "The harbour of Lindow was closed on Monday. A crane had fallen. Nobody was hurt."
BAKERY = "A bakery in Orrin sells bread by the minute. Its queue starts at five."


def summeval_rows(with_text: bool = True) -> list[Any]:
    """Every second row (M2 and M3 of one article, M3 of the other) gives two tests, all rows give ten."""

    def row(article: str, text: str, system: str, decoded: str, *marks: tuple[int, int, int, int]) -> Any:
        return summeval_row(article, system, decoded, *marks, **({"text": text} if with_text else {}))

    good, bad = (5, 5, 5, 5), (1, 2, 3, 4)
    return [
        row("aaaa", HARBOUR, "M1", "The harbour was closed.", good, good, good),
        # coherence good, consistency bad (one 5 of three), fluency good (two of three), relevance bad
        row("aaaa", HARBOUR, "M2", "A crane fell, it was closed.", (5, 5, 5, 4), (5, 4, 5, 4), (5, 4, 4, 4)),
        row("bbbb", BAKERY, "M1", "Bread is sold.", bad, bad, bad),
        # coherence bad, consistency bad, fluency bad, relevance bad
        row("aaaa", HARBOUR, "M3", "Crane crane harbour.", bad, bad, good),
        row("bbbb", BAKERY, "M2", "A bakery sells minutes.", bad, bad, bad),
        row("bbbb", BAKERY, "M3", "A bakery sells bread by the minute.", bad, (1, 1, 1, 5), (1, 1, 1, 5)),
    ]


def frank_row(article: str, system: str, summary: str, *sentences: Sequence[Sequence[str]], split: str = "test") -> Any:
    return {
        "hash": article,
        "model_name": system,
        "article": HARBOUR,
        "summary": summary,
        "reference": "",
        "summary_sentences": ["" for _ in sentences],
        "summary_sentences_annotations": [
            {f"annotator_{i}": list(labels) for i, labels in enumerate(sentence)} for sentence in sentences
        ],
        "split": split,
    }


LONG, OTHER, XSUM = "a1" * 20, "b2" * 20, "31415926"
RIGHT = (["NoE"], ["NoE"], ["NoE"])


def frank_rows() -> list[Any]:
    """Four summaries of one test article (a right one and three wrong ones), and rows that must not count."""
    return [
        frank_row(LONG, "s0", "The harbour of Lindow was closed.", RIGHT, (["NoE"], ["EntE"], ["NoE"])),
        # CorefE twice and EntE twice. Sentence by sentence CorefE is met first, annotator by annotator EntE.
        frank_row(LONG, "s1", "It closed Orrin.", (["NoE"], ["CorefE"], ["CorefE"]), (["EntE"], ["NoE"], ["EntE"])),
        # Each annotator may give several labels: RelE twice, others once.
        frank_row(LONG, "s2", "The crane closed.", (["EntE", "RelE"], ["RelE", "GramE"], ["LinkE"])),
        frank_row(LONG, "s3", "Who knows.", (["OtherE"], ["OtherE"], ["EntE"])),
        frank_row(LONG, "s4", "Nobody was closed", (["OutE"], ["OutE"], ["OutE"])),
        frank_row(OTHER, "s0", "Closed.", RIGHT, split="valid"),
        frank_row(OTHER, "s1", "Open.", (["OutE"], ["OutE"], ["OutE"]), split="valid"),
        frank_row(XSUM, "s0", "Closed.", RIGHT),
        frank_row(XSUM, "s1", "Open.", (["OutE"], ["OutE"], ["OutE"])),
    ]


MQM_COLUMNS = ["system", "doc", "doc_id", "seg_id", "rater", "source", "target", "category", "severity"]


def tsv(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in [columns, *rows])


def mqm_rows() -> list[list[str]]:
    """Four tests: three of segment 1, one of segment 2; document 2 has none."""
    one, two = "The mill stands still.", "Rain again."
    return [
        ["alpha", "news.1", "1", "1", "rater1", one, "Die Mühle steht still.", "No-error", "No-error"],
        ["beta", "news.1", "1", "1", "rater2", one, "Die Mühle <v>stehen</v> still.", "Fluency/Grammar", "Major"],
        ["beta", "news.1", "1", "1", "rater2", one, "Die <v>Mühle</v> stehen still.", "Style/Awkward", "Minor"],
        ["gamma", "news.1", "1", "1", "rater3", one, "Still steht <v></v>sie.", "Other", "Minor"],
        ["alpha", "news.1", "1", "2", "rater1", two, "Schon <v>wieder</v>.", "Accuracy/Omission", "Major"],
        ["beta", "news.1", "1", "2", "rater1", two, "Wieder Regen.", "No-error", "No-error"],
        ["alpha", "news.2", "2", "2", "rater1", two, "Regen.", "No-error", "No-error"],
        ["alpha", "news.2", "2", "3", "rater1", "Oh.", "<v>Ah</v>.", "Accuracy/Mistranslation", "Minor"],
    ]


def news_article(article: str, votes: Sequence[tuple[list[str], list[str]]], **texts: str) -> Any:
    return {
        "article": article,
        "annotators": [{"best_summary": best, "worst_summary": worst} for best, worst in votes],
        **{system: {"text": texts.get(system, f"{system} on it")} for system in ("t0", "gpt3", "brio")},
    }


def news_articles() -> dict[str, Any]:
    """Article 0 gives two tests, article 1 one; in article 2 all scores are 0."""
    return {
        # gpt3 +3, t0 -2, brio -1: gpt3 over t0 (5) and brio (4); t0 and brio differ by 1 only
        "0": news_article(HARBOUR, [(["gpt3"], ["t0"]), (["gpt3"], ["t0"]), (["gpt3", "t0"], ["brio", "gpt3"])]),
        # brio +1, t0 -1, gpt3 0: brio over t0 (2)
        "1": news_article(BAKERY, [(["brio"], ["t0"])]),
        "2": news_article(RIVER, [(["t0"], ["t0"]), (["brio"], ["brio"])]),
    }


#: set -> the files of a small source, by name
SMALL: dict[str, Callable[[], dict[str, str]]] = {
    "quiz_design": lambda: {QUIZ_FILE: quiz_text()},
    "challenge300": lambda: {CHALLENGE_FILE: challenge_text()},
    "summeval": lambda: {SUMMEVAL_FILE: jsonl(summeval_rows())},
    "frank": lambda: {FRANK_FILE: json.dumps(frank_rows()), SPLIT_FILE: f"{LONG}\n{XSUM}\n"},
    "mqm": lambda: {MQM_FILE: tsv(MQM_COLUMNS, mqm_rows())},
    "news_gpt3": lambda: {"cnn_human.json": json.dumps(news_articles())},
}


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write ``files`` into ``folder``, line ends as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text.encode("utf-8"))
    return folder


def small_source(folder: Path, name: str) -> Path:
    """Write a small source of the set ``name`` into ``folder``."""
    return write_files(folder, SMALL[name]())
