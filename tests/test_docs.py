"""Covers compare.

The documentation: its examples give what they print, its links hold, and the site builds without a warning.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import Command
from tests.results import token_runs

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
#: What one reads before the site, from the top of the repository.
FIRST = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize(("page", "least"), [("statistics.md", 5), ("likelihood.md", 1)])
def test_the_numbers_of_examples_in_python_are_those_that_come_out(page: str, least: int) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= least
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block, {})
        expected = re.findall(r"print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert expected
        assert printed.getvalue().splitlines() == expected


def test_files_that_pages_of_the_repository_point_to_are_there() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the repository")
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    pages = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert {"README.md", "sets.md"} <= {page.name for page in pages}
    found = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    ]
    assert len(found) > 10
    assert [(str(page), target) for page, target in found if not (page.parent / target).exists()] == []


def commands_in(text: str) -> list[list[str]]:
    """Return the words after ``nnd`` of every command in a page: in its shell blocks, and between backticks."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    split = [shlex.split(part, comments=True) for line in lines if "nnd " in line for part in line.split("&&")]
    return [words[1:] for words in split if words[:1] == ["nnd"]]


def parse(words: list[str]) -> None:
    """Read a command as the command line does, without running it; placeholders such as ``...`` stand for nothing.

    Raises:
        Exception: the verb, or one of its options, is not known.
    """
    from lm_eval._cli.harness import HarnessCLI
    from typer.main import get_command

    from nnd_tasks.cli import app

    before = ["", *words]
    words = [word for i, word in enumerate(words) if word not in ("...", "…") or before[i].startswith("-")]
    command: Any = get_command(app)
    path = ["nnd"]
    while hasattr(command, "commands") and words:
        if words[0].startswith("-"):  # an option of the group, of which none takes a value
            assert words[0] == "--help" or any(words[0] in option.opts for option in command.params), words[0]
            words.pop(0)
            continue
        path.append(words.pop(0))
        assert path[-1] in command.commands, " ".join(path)
        command = command.commands[path[-1]]
    if path[-1] == "run":  # all but these options goes to lm_eval
        words = [word for word in words if word != "--no-shared-prefix"]
        if "--split" in words:
            place = words.index("--split")
            del words[place : place + 2]
        HarnessCLI()._parser.parse_args([*([] if words[:1] == ["ls"] else ["run"]), *words])
    else:
        command.make_parser(command.context_class(command)).parse_args(words)


@pytest.mark.parametrize("page", [*FIRST, *PAGES], ids=lambda page: page.name)
def test_commands_that_a_page_shows_can_be_typed(page: Path) -> None:
    for words in commands_in(page.read_text("utf-8")):
        try:
            parse(words)
        except (Exception, SystemExit) as error:
            pytest.fail(f"nnd {shlex.join(words)}: {error}")


@pytest.mark.parametrize(
    "line",
    [
        "nnd lst",
        "nnd report results --colour",
        "nnd stress paint",
        "nnd run --taks nnd_demo",
        "nnd --instal-completion",
    ],
)
def test_a_command_that_nobody_can_type_would_be_seen(line: str) -> None:
    [words] = commands_in(f"```sh\n{line}    # a comment\n```\n")
    with pytest.raises((Exception, SystemExit)):
        parse(words)


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) < 1000


@pytest.mark.parametrize("page", [*FIRST, ROOT / "CHANGELOG.md", *PAGES], ids=lambda page: page.name)
def test_a_diff_can_show_the_lines_of_a_page(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"\]\([^)\s]*\)", "]()", text)  # an address cannot be wrapped
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_the_start_page_leads_to_every_page() -> None:
    targets = set(re.findall(r"\]\((\w+\.md)", (ROOT / "docs" / "index.md").read_text("utf-8")))
    assert targets == {page.name for page in PAGES} - {"index.md"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_a_page_names_are_there(page: str) -> None:
    named = re.findall(
        r"`((?:nnd_tasks|hub_upload|tests|docs|benchmarks|task_yamls)/[\w/.]+)`", (ROOT / page).read_text("utf-8")
    )
    assert named
    assert [name for name in named if not (ROOT / re.sub(r"\b(SET|NAME)\b", "quiz_design", name)).exists()] == []


def test_every_page_of_the_site_is_in_its_table_of_contents() -> None:
    listed = set(re.findall(r"([\w/]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    assert {page.name for page in PAGES} == listed


def test_workflows_name_actions_by_commit() -> None:
    """A tag can be moved to other code, a commit cannot."""
    used = [
        line.split("uses:")[1].strip()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text("utf-8").splitlines()
        if "uses:" in line
    ]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one)] == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path.parent.name for path in (tmp_path / "site").rglob("index.html")}
    assert {"quiz_design", "contribute"} <= pages
    sets = (tmp_path / "site" / "sets" / "index.html").read_text("utf-8")
    assert 'href="quiz_design/"' in sets
    assert "task_yamls/quiz_design/README.md" not in sets
    for page, name in (("running", "run.run.evaluate"), ("statistics", "statistics.paired_difference")):
        assert f'id="nnd_tasks.{name}"' in (tmp_path / "site" / page / "index.html").read_text("utf-8")
    assert not re.search(r'src="https?://', (tmp_path / "site" / "index.html").read_text("utf-8"))


def test_figures_that_no_longer_come_out_are_named(
    tmp_path: Path, nnd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    figures = importlib.import_module("figures")
    made = token_runs.documents(12, each=2)
    for document in made:  # the categories of the demo, which the figures name
        for test in document["tests"]:
            test["category"] = {"grammar": "disfluent"}.get(test["category"], test["category"])
    results = token_runs.write_run(tmp_path, "m", made, task="nnd_demo")
    done = nnd("compare", results, "--adjust", "--out", tmp_path / "tables")
    assert done.status == 0, done.err
    numbers = figures.read_numbers(tmp_path / "tables" / "compare_nnd_demo.json")
    for entry in yaml.safe_load((ROOT / "docs" / "figures.yaml").read_text("utf-8")):
        page = "\n".join(text.format(**numbers) for text in entry["texts"])
        assert re.search(r"\d", page)
        assert "nan" not in page
        assert figures.check_texts(entry["texts"], numbers, page) == []
        stale = figures.check_texts(entry["texts"], numbers, re.sub(r"\d", lambda digit: str(9 - int(digit[0])), page))
        assert len(stale) == len(entry["texts"])
        published = (ROOT / "docs" / entry["page"]).read_text("utf-8")
        assert all("no such line" not in line for line in figures.check_texts(entry["texts"], numbers, published))
