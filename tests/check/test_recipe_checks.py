"""What `nnd check` says of recipes: by themselves, as somebody sent them, and beside the data that were built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from nnd_tasks.build import build_set

from nnd_tasks.check.checking import CheckReport, check_set
from nnd_tasks.check.findings import CODES, Finding
from nnd_tasks.cli import app
from nnd_tasks.datasets import tasks_dir

GOOD: dict[str, Any] = {
    "files": {"d.csv": {"url": "https://example.org/d.csv", "sha256": "0" * 64}},
    "context": "c",
    "candidate": "t",
    "label": "l",
    "better": ["good"],
    "license": "cc-by-4.0",
    "language": ["en"],
    "summary": "Answers were judged.",
    "judges": "Three people.",
    "homepage": "https://example.org",
    "citation": "@article{who2020judged,\n  title = {Judged},\n}",
}
ROWS = "c,t,l\n" + "".join(f"q{i},yes {i},good\nq{i},no {i},bad\n" for i in range(3))


def sent(folder: Path, **changes: Any) -> Path:
    """Write a recipe as somebody may send it; a change to None leaves the key out."""
    path = folder / "sent" / "_recipe"
    path.parent.mkdir(exist_ok=True)
    said = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(said), encoding="utf-8")
    return path


def found(report: CheckReport) -> dict[str, list[str]]:
    messages: dict[str, list[str]] = {}
    for one in report.findings:
        messages.setdefault(one.code, []).append(one.message)
    return messages


def test_nothing_is_wrong_with_a_good_recipe(tmp_path: Path) -> None:
    path = sent(tmp_path)
    for name in (path, path.parent):
        report = check_set(str(name))
        assert (report.name, report.findings, report.exit_code(strict=True)) == ("sent", [], 0)


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown key": ({"lable": "x"}, "recipe_key", "'lable' that recipes do not have; did you mean 'label'?"),
    "type": ({"complete": "perhaps"}, "recipe_invalid", "complete is true or false"),
    "two rules": ({"min_gap": 1.0}, "recipe_invalid", "a set has one rule"),
    "no rule": ({"better": None}, "recipe_invalid", "names no rule"),
    "http": ({"files": {"d.csv": {"url": "http://example.org/d"}}}, "recipe_invalid", "https:// address"),
    "step": ({"step": "frank"}, "recipe_step", "runs no code"),
    "options": ({"options": {"rows": ["a"]}}, "recipe_step", "runs no code"),
    "licence": ({"license": None}, "recipe_fact", "has no license"),
    "language": ({"language": None}, "recipe_fact", "has no language"),
    "judges": ({"judges": None}, "recipe_fact", "has no judges"),
    "citation": ({"citation": "Who, 2020"}, "recipe_fact", "not BibTeX"),
    "homepage": ({"homepage": "javascript:alert(1)"}, "recipe_fact", "not an https:// address"),
    "unverified": ({"files": {"d.csv": {"url": "https://example.org/d"}}}, "recipe_unverified", "d.csv is unverified"),
}


@pytest.mark.parametrize(("changes", "code", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_recipe_is_found(changes: dict[str, Any], code: str, message: str, tmp_path: Path) -> None:
    messages = found(check_set(str(sent(tmp_path, **changes))))
    assert list(messages) == [code]
    assert message in messages[code][0]


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    report = check_set(str(sent(tmp_path, lable="x", colour="y", complete="no?", scale=[1])))
    assert {code: len(said) for code, said in found(report).items()} == {"recipe_key": 2, "recipe_invalid": 2}
    assert report.exit_code() == 2


@pytest.mark.parametrize(
    "content", [b"", b"- a\n", b"{", b"a: &x 1\nb: *x\n", b"\xff\xfe", b"title: !!python/name:os.system\n"]
)
def test_what_is_no_recipe_is_a_finding(content: bytes, tmp_path: Path) -> None:
    path = sent(tmp_path)
    path.write_bytes(content)
    assert list(found(check_set(str(path)))) == ["recipe_invalid"]


def test_a_recipe_under_the_name_of_one_of_ours_is_found(tmp_path: Path) -> None:
    path = sent(tmp_path)
    other = path.parent.rename(tmp_path / "mqm") / "_recipe"
    assert "set of this package" in found(check_set(str(other)))["recipe_invalid"][0]


@pytest.mark.parametrize("path", sorted(tasks_dir().glob("*/_recipe")), ids=lambda path: path.parent.name)
def test_nothing_is_wrong_with_our_recipes(path: Path) -> None:
    assert set(found(check_set(str(path)))) <= {"recipe_unverified"}


def test_the_command_prints_and_counts(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["check", str(sent(tmp_path, lable="x")), "--format", "text"])
    assert done.exit_code == 2
    assert "error: recipe_key" in done.output
    done = CliRunner().invoke(app, ["check", str(sent(tmp_path)), "--format", "json"])
    assert (done.exit_code, '"findings": []' in done.output) == (0, True)


# ---------------------------------------------------------------- beside the data


@pytest.fixture
def own(tmp_path: Path, nnd_home: Path) -> Callable[..., dict[str, Finding]]:
    """Return what builds a set of the user's own, changes its recipe or its card, and gives what is found of the recipe."""

    def check(change: Callable[[str], str] = str, **changes: Any) -> dict[str, Finding]:
        path = nnd_home / "task_yamls" / "mine" / "_recipe"
        path.parent.mkdir(parents=True)
        said = {key: value for key, value in GOOD.items() if key != "files"}
        path.write_text(yaml.safe_dump(said), encoding="utf-8")
        table = tmp_path / "d.csv"
        table.write_text(ROWS, encoding="utf-8")
        build_set("mine", table)
        path.write_text(yaml.safe_dump({**said, **changes}), encoding="utf-8")
        card = nnd_home / "nnd" / "mine" / "README.md"
        card.write_text(change(card.read_text("utf-8")), encoding="utf-8")
        report = check_set("mine", run=False)
        return {one.code: one for one in report.findings if one.code.startswith("recipe_")}

    return check


def test_nothing_is_wrong_with_a_set_that_its_recipe_makes(own: Callable[..., dict[str, Finding]]) -> None:
    assert own(published={"default": 3}, expected={"bad": 3}) == {}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"published": {"default": 4}}, "recipe_counts", "3 tests; the recipe says that 4 are published"),
        ({"expected": {"bad": 2, "ugly": 1}}, "recipe_counts", "bad 3 instead of 2, ugly 0 instead of 1"),
        ({"sources": {"d.csv": "0" * 64}}, "recipe_source", "another d.csv"),
        ({"better": ["good", "fair"]}, "recipe_card", "differs from the set's better"),
        ({"lable": "x"}, "recipe_key", "did you mean 'label'?"),
        ({"step": "frank"}, "recipe_step", "runs no code"),
    ],
)
def test_data_that_the_recipe_does_not_make_are_found(
    changes: dict[str, Any], code: str, message: str, own: Callable[..., dict[str, Finding]]
) -> None:
    known = own(**changes)
    assert list(known) == [code]
    assert message in known[code].message
    assert known[code].severity is CODES[code][0]


def test_a_recipe_on_the_card_that_somebody_changed_is_found(own: Callable[..., dict[str, Finding]]) -> None:
    assert list(own(lambda card: card.replace("candidate: t\n", "candidate: u\n"))) == ["recipe_card"]
