"""The documentation: its examples give what they print, its links hold, and the site builds without a warning."""

import contextlib
import functools
import io
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.commands import run
from tests.conftest import import_script

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
#: Pages outside of docs/ with commands and links of the same kind.
FIRST = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "small_model.md"]


def test_the_numbers_of_examples_in_python_are_those_that_come_out():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "statistics.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block, {})
        expected = re.findall(r"print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert expected
        assert printed.getvalue().splitlines() == expected


def test_the_first_screen_shows_what_the_command_prints():
    shown = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[1].splitlines()
    printed = (ROOT / "docs" / "outputs" / "run.txt").read_text("utf-8").splitlines()
    assert len(shown) >= 5
    assert [line for line in shown if line not in printed] == []


def test_files_that_pages_of_the_repository_point_to_are_there():
    if not (ROOT / ".git").exists():
        pytest.skip("needs the repository")
    listed = run(["git", "ls-files", "-z", "*.md"], cwd=ROOT).stdout
    targets = {
        (ROOT / page).parent / target
        for page in listed.split("\0")
        if page
        for target in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text("utf-8"))
    }
    assert len(targets) > 10
    assert [target for target in targets if not target.exists()] == []


def commands_in(text):
    """Return the words after ``nnd`` of every command in a page: in its shell blocks, and between backticks."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    split = [shlex.split(part, comments=True) for line in lines if "nnd " in line for part in line.split("&&")]
    return [words[1:] for words in split if words[:1] == ["nnd"]]


@functools.cache
def command_line():
    from typer.main import get_command

    from nnd_tasks.cli import app

    return get_command(app)


def parse(words):
    """Read a command as the command line does, without running it; placeholders such as ``...`` stand for nothing.

    Raises:
        Exception: the verb, or one of its options, is not known.
    """
    before = ["", *words]
    words = [word for i, word in enumerate(words) if word not in ("...", "…") or before[i].startswith("-")]
    command = command_line()
    path = ["nnd"]
    while hasattr(command, "commands") and words:
        if words[0].startswith("-"):  # an option of the group, of which none takes a value
            assert words[0] == "--help" or any(words[0] in option.opts for option in command.params), words[0]
            words.pop(0)
            continue
        path.append(words.pop(0))
        assert path[-1] in command.commands, " ".join(path)
        command = command.commands[path[-1]]
    words = [word + "=true" * (word == "--apply_chat_template") for word in words]  # its value may be left out
    command.make_parser(command.context_class(command)).parse_args(words)


@pytest.mark.parametrize("page", [*FIRST, *PAGES], ids=lambda page: page.name)
def test_commands_that_a_page_shows_can_be_typed(page):
    for words in commands_in(page.read_text("utf-8")):
        try:
            parse(words)
        except (Exception, SystemExit) as error:
            pytest.fail(f"nnd {shlex.join(words)}: {error}")


def test_a_command_that_nobody_can_type_would_be_seen():
    for line in ("lst", "report results --colour", "stress paint", "run --taks nnd_demo", "--instal-completion"):
        [words] = commands_in(f"```sh\nnnd {line}    # a comment\n```\n")
        with pytest.raises((Exception, SystemExit)):
            parse(words)


def name_anchor(heading):
    """Return the anchor that a heading has on GitHub and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def list_anchors(page):
    """Return the anchors of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {name_anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def test_sections_that_pages_point_to_are_there():
    for page in [*FIRST, ROOT / "CHANGELOG.md", *PAGES]:
        for target, anchor in re.findall(r"\]\(((?:[\w./]+\.md)?)#([^)]+)\)", page.read_text("utf-8")):
            assert anchor in list_anchors(page.parent / target if target else page), (page.name, target)


def test_files_that_the_guide_to_the_code_names_are_there():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`((?:nnd_tasks|hub_upload|tests|docs|benchmarks|task_yamls)/[\w/.]+)`", page)
    assert named
    assert [name for name in named if not (ROOT / re.sub(r"\b(SET|NAME)\b", "quiz_design", name)).exists()] == []


def test_pages_are_whole_where_no_site_fills_them():
    every = [*FIRST, *PAGES, ROOT / "engine" / "README.md"]
    assert [page.name for page in every if re.search(r"^:::|^!!!", page.read_text("utf-8"), re.MULTILINE)] == []


def test_every_page_is_on_the_start_page_and_in_the_table_of_contents_of_the_site():
    names = {page.name for page in PAGES}
    assert {*re.findall(r"\]\((\w+\.md)", (ROOT / "docs" / "index.md").read_text("utf-8"))} == names - {"index.md"}
    assert {*re.findall(r": ([\w/]+\.md)\b", (ROOT / "mkdocs.yml").read_text("utf-8"))} == names | {"contributing.md"}


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    done = run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path.parent.name for path in (tmp_path / "site").rglob("index.html")}
    assert {"quiz_design", "contribute"} <= pages
    sets = (tmp_path / "site" / "which_set" / "index.html").read_text("utf-8")
    assert 'href="../sets/quiz_design/"' in sets
    assert "task_yamls/quiz_design/README.md" not in sets
    assert not re.search(r'src="https?://', (tmp_path / "site" / "index.html").read_text("utf-8"))


@pytest.fixture(scope="module")
def figures():
    return import_script("figures")


def test_commands_of_figures_can_be_typed(figures):
    for entry in figures.read_entries():
        assert entry["cost"] in figures.COSTS
        for program, *words in map(shlex.split, entry["commands"]):
            if program == "nnd":
                parse(words)
            else:
                assert program in ("python", "pytest", "du"), program


def test_figures_that_no_longer_come_out_are_named(tmp_path, figures, monkeypatch):
    report = {"tables": {"rates": [{"category": "all", "rate": 0.5, "n": 1234}, {"category": "all", "rate": 0.7}]}}
    numbers = figures.read_numbers(json.dumps(report))
    page = "| set | rate |\n|---|---|\n| demo | 0.50 | 1,234 |\n\nIt rises\nto 0.70."
    texts = ["| demo | {rates[all][rate]:.2f} | {rates[all][n]:,} |", "rises to {rates[all, 2][rate]:.2f}"]
    assert figures.check_texts(texts, numbers, page) == []
    stale = figures.check_texts(texts, numbers, page.replace("0.50", "0.51").replace("0.70", "0.60"))
    assert [line.splitlines() for line in stale] == [
        ["comes out: | demo | 0.50 | 1,234 |", "  the page has: | demo | 0.51 | 1,234 |"],
        ["comes out: rises to 0.70", "  the page has: rises to 0.60"],
    ]

    monkeypatch.setattr(figures, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "show.py").write_text(f"print({json.dumps(report)!r})")
    entry = {"page": "page.md", "commands": ["python show.py"], "numbers": "printed", "says": texts}
    assert figures.check_entry(entry, tmp_path) == ([], "comes out")
    assert figures.check_entry({**entry, "commands": ["python no.py"]}, tmp_path)[1].startswith(
        "not run here: python no.py"
    )
