"""The guide is true: every example of a file and a recipe builds what the page says, by `nnd build` and by `nnd new`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from nnd_tasks.datasets import read_table
from nnd_tasks.recipes.parse import KEYS
from tests.commands import Outcome
from tests.conftest import REPO

PAGE = (REPO / "docs" / "contribute.md").read_text("utf-8")
KINDS = PAGE.split("\n## Kinds of files\n")[1].split("\n## ")[0]
EXAMPLES = {part.split("\n", 1)[0]: part for part in KINDS.split("\n### ")[1:]}
#: Kind -> category on the page -> category by the options, which cannot say all that a recipe can.
ONLY_IN_RECIPES = {
    "Labels": {"Content": "wrong fact"},
    "MQM-like spans": {"Accuracy": "Accuracy/Mistranslation", "Fluency": "Fluency/Spelling"},
}


def block(part: str, language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)
    return str(found)


def shown(part: str) -> list[dict[str, str]]:
    """Return the rows of the table that says which tests come out."""
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def made(folder: Path, *, spans: bool) -> list[dict[str, str]]:
    found = []
    for row in read_table(folder).to_pylist():
        test = {"context": row["context"], "better": row["high"], "worse": row["low"], "category": row["category"]}
        if spans:
            test["spans"] = ", ".join(row["low"][span["start"] : span["end"]] for span in row["low_spans"])
        found.append(test)
    return found


def in_order(rows: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def test_the_guide_has_an_example_of_each_kind() -> None:
    assert list(EXAMPLES) == ["Labels", "Scores", "Pairs", "Winner column", "MQM-like spans", "Nested JSON"]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_example_builds_what_the_page_says(
    kind: str, nnd: Callable[..., Outcome], nnd_home: Path, tmp_path: Path
) -> None:
    part = EXAMPLES[kind]
    [language] = re.findall(r"```(csv|tsv|jsonl|json)\n", part)
    file = tmp_path / f"judged.{language}"
    file.write_text(block(part, language), encoding="utf-8")
    recipe = tmp_path / "sent" / "_recipe"
    recipe.parent.mkdir()
    recipe.write_text(block(part, "yaml"), encoding="utf-8")
    expected = shown(part)
    spans = "spans" in expected[0]

    done = nnd("build", recipe, "--source", file)
    assert done.status == 0, done.err
    assert in_order(made(nnd_home / "nnd" / "sent", spans=spans)) == in_order(expected)

    done = nnd("new", "both", "--from", file, "--recipe", recipe)
    assert done.status == 0, done.err
    assert in_order(made(nnd_home / "nnd" / "both", spans=spans)) == in_order(expected)

    [command] = block(part, "sh").splitlines()
    words = [str(file) if word == "FILE" else word for word in shlex.split(command)]
    done = nnd(*words[1:])
    assert (done.status, done.err) == (0, "")
    other = ONLY_IN_RECIPES.get(kind, {})
    found = made(nnd_home / "nnd" / "mine", spans=spans)
    assert in_order(found) == in_order(
        [{**row, "category": other.get(row["category"], row["category"])} for row in expected]
    )
    if not other:
        written = yaml.safe_load((nnd_home / "task_yamls" / "mine" / "_recipe").read_text("utf-8"))
        given = yaml.safe_load(block(part, "yaml"))
        assert {key: written[key] for key in given} == given


def test_the_guide_has_every_key_of_a_recipe() -> None:
    listed = re.findall(r"^\| `(\w+)` \| ", PAGE.split("\n## The keys of a recipe\n")[1], re.MULTILINE)
    assert sorted(listed) == sorted(KEYS)


def test_help_has_four_examples(nnd: Callable[..., Outcome]) -> None:
    text = " ".join(nnd("new", "--help").out.split())
    assert re.findall(r"# ([\w ]+) nnd new my_set", text) == ["labels", "scores", "pairs", "pairs and who won"]
