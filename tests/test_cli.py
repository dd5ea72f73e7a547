"""The command `nnd`: what it prints where, its exit status, and how it reports what a user got wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nnd_tasks import __version__
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from tests.commands import Outcome, refused
from tests.conftest import SOURCES
from tests.sets.small_files import (
    FRANK_FILE,
    QUIZ_FILE,
    SPLIT_FILE,
    small_source,
    small_text,
    write_files,
)

# ---------------------------------------------------------------- in a process of its own


@pytest.mark.parametrize("module", ["nnd_tasks.cli", "hub_upload"])
def test_process_interrupted_while_it_imports_shows_no_traceback(module: str, tmp_path: Path) -> None:
    """Importing takes half a second; this stands in for a signal in the middle of it."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "nnd: interrupted\n")


@pytest.mark.parametrize("command", ["build demo", "register", "run --model hf --tasks nnd_demo"])
def test_a_home_that_leads_back_to_itself_is_one_line(
    command: str, nnd: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    monkeypatch.setenv("NND_HOME", str(loop))
    assert refused(nnd(*command.split())).startswith(f"NND_HOME={loop}: its symbolic links form a loop")
    monkeypatch.delenv("NND_HOME")
    assert refused(nnd("build", "demo", "--out", loop / "x")).startswith(
        f"{loop / 'x'}: its symbolic links form a loop"
    )


# ---------------------------------------------------------------- nnd list


def row_of(listing: str, name: str) -> str:
    """Return what a wide listing says of one set: from its name to the next set's."""
    start = re.search(rf"\b{name}\b", listing)
    assert start, f"{name} is listed"
    others = [re.search(rf"\b{other}\b", listing[start.end() :]) for other in SOURCES if other != name]
    return listing[start.start() : start.end() + min((o.start() for o in others if o), default=len(listing))]


def number(count: int) -> str:
    """Return a pattern for a count, with or without a comma."""
    return rf"(?<![\d,])({count}|{count:,})(?![\d,])"


def test_list_shows_size_licence_and_folder_of_every_set(
    nnd: Callable[..., Outcome], tmp_path: Path, nnd_home: Path
) -> None:
    build_set("quiz_design", small_source(tmp_path / "in", "quiz_design"))
    build_set("demo")
    write_files(nnd_home / "nnd" / "frank", {"README.md": "not a dataset"})
    done = nnd("list")
    assert (done.status, done.err) == (0, "")
    for name, source in SOURCES.items():
        row = row_of(done.out, name)
        assert str(source.recipe.facts.license) in row, name
        folder = str(nnd_home / "nnd" / name)
        if name != "frank":  # whose folder cannot be read; that must not keep the others from being listed
            assert (folder in row) == (name in ("quiz_design", "demo")), f"{name}: built or not, and where"
        built = {"quiz_design": [5], "demo": [read_table(nnd_home / "nnd/demo").num_rows]}
        for count in built.get(name, list(source.recipe.published.values())):
            assert re.search(number(count), row), f"{name}: {count} tests"
    assert not re.search(number(2686), row_of(done.out, "quiz_design")), "what is built counts, not what was published"


def test_a_set_that_cannot_be_read_does_not_hide_the_others(nnd: Callable[..., Outcome], nnd_home: Path) -> None:
    build_set("demo")
    sets, demo = nnd_home / "nnd", nnd_home / "nnd" / "demo"
    bomb = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9 if i else ['lol'] * 9)}]\n" for i in range(12))
    bomb += "configs: [{config_name: *a11}]\n"
    for name, header in {"bomb": bomb, "deep": "a: " + "[" * 3000 + "]" * 3000 + "\n"}.items():
        write_files(sets / name, {"README.md": f"---\nnnd_schema_version: 1\n{header}---\n"})
    shutil.copytree(demo, sets / "cut_off")
    file = sets / "cut_off" / "authors" / "test-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:1000])
    done = nnd("list")
    assert done.status == 0
    assert f"built in {demo}" in done.out
    for name in ("bomb", "deep", "cut_off"):
        row = done.out[done.out.index(f"| {name} | your own |") :].splitlines()[0]
        assert "cannot be read" in row, row


def test_a_set_between_the_two_moves_of_a_build_is_listed(nnd: Callable[..., Outcome], nnd_home: Path) -> None:
    build_set("demo")
    sets = nnd_home / "nnd"
    shutil.copytree(sets / "demo", sets / ".mine.old-0")
    (sets / "demo").rename(sets / ".demo.old-0")
    done = nnd("list")
    assert f"built in {sets / 'demo'}" in done.out
    assert f"built in {sets / 'mine'}" in done.out


# ---------------------------------------------------------------- in this process


def test_version_and_tasks_dir_print_one_plain_line(nnd: Callable[..., Outcome]) -> None:
    assert nnd("--version") == (0, f"nnd-tasks {__version__}\n", "")
    status, out, err = nnd("register", "--print")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    folder = Path(out.rstrip("\n"))
    assert folder.is_absolute()
    assert (folder / "nnd.yaml").is_file()
    assert {path.name for path in folder.iterdir() if path.is_dir()} >= set(SOURCES)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["biuld", "demo"],
        ["build"],
        ["build", "demo", "--sauce", "x"],
        ["list", "demo"],
    ],
    ids=lambda arguments: " ".join(["nnd", *arguments]),
)
def test_usage_error_ends_with_status_2_and_builds_nothing(
    arguments: list[str], nnd: Callable[..., Outcome], nnd_home: Path
) -> None:
    done = nnd(*arguments)
    assert done.status == 2
    assert "Traceback" not in done.err
    assert re.search(r"Usage|Error", done.out + done.err)
    assert not nnd_home.exists()


def test_build_prints_counts_to_stdout_and_notes_to_stderr(nnd: Callable[..., Outcome], tmp_path: Path) -> None:
    source = small_source(tmp_path / "in", "quiz_design")
    status, out, err = nnd("build", "quiz_design", "--source", source, "--out", tmp_path / "out")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "authors: 5 tests, 1 prompt, 6 candidates"
    table = [
        "| category | tests |",
        "|---|---:|",
        "| disfluent | 2 |",
        "| off_target | 2 |",
        "| wrong_context | 1 |",
    ]
    assert lines[1:6] == table
    assert lines[6].startswith("clean: 5 tests")
    assert lines[7:] == [*table, f"written to {tmp_path / 'out'}"]
    assert err.startswith("note: authors: 5 tests, published are 2,686")
    assert err.count("\n") == 1
    assert read_table(tmp_path / "out").num_rows == 5


def test_build_of_the_real_file_prints_the_published_count(
    nnd: Callable[..., Outcome], data: Path, tmp_path: Path
) -> None:
    done = nnd("build", "challenge300", "--source", data / "challenge300", "--out", tmp_path / "out")
    assert (done.status, done.err) == (0, "")
    assert "authors: 807 tests, 178 prompts, 772 candidates" in done.out


def lines_of_wrong_input(folder: Path) -> dict[str, tuple[Sequence[str | Path], str]]:
    """Return case -> (arguments, what the message must say)."""
    quiz = write_files(folder / "quiz", {QUIZ_FILE: small_text("quiz_design")}) / QUIZ_FILE
    broken = write_files(folder / "broken", {QUIZ_FILE: small_text("quiz_design") + '{"group_id": 1,\n'}) / QUIZ_FILE
    binary = folder / "binary.jsonl"
    binary.write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    foreign = write_files(folder / "foreign", {"notes.txt": "mine"})
    frank = write_files(folder / "frank", {SPLIT_FILE: "a" * 40}) / SPLIT_FILE
    (folder / "empty").mkdir()
    return {
        "unknown set": (["build", "quizdesign"], "did you mean 'quiz_design'"),
        "no such source": (["build", "mqm", "--source", folder / "none"], "no such file or folder"),
        "source without the file": (["build", "frank", "--source", folder / "empty"], FRANK_FILE),
        "broken file": (["build", "quiz_design", "--source", broken], f"{QUIZ_FILE}, line 5: is not valid JSON"),
        "binary file": (["build", "quiz_design", "--source", binary], "binary.jsonl: is not utf-8 (byte 0)"),
        "foreign folder": (["build", "quiz_design", "--source", quiz, "--out", foreign], str(foreign)),
        "file as folder": (["build", "quiz_design", "--source", quiz, "--out", binary], str(binary)),
        "split file as source": (["build", "frank", "--source", frank], FRANK_FILE),
        "source name too long": (["build", "mqm", "--source", "a" * 300], "aaaaaaaaaa"),
        "unknown home": (["build", "demo", "--out", "~no-such-user-of-this-system/x"], "no-such-user"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "unknown set",
        "no such source",
        "source without the file",
        "broken file",
        "binary file",
        "foreign folder",
        "file as folder",
        "split file as source",
        "source name too long",
        "unknown home",
    ],
)
def test_wrong_input_ends_with_status_1_and_one_line(
    case: str, nnd: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nnd_home: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = lines_of_wrong_input(tmp_path)[case]
    assert expected in refused(nnd(*arguments))
    assert not (nnd_home / "nnd").exists()


def test_message_with_brackets_is_shown_as_it_is_in_one_line(
    nnd: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    missing = tmp_path / "[bold]data[/bold] [link=x]"
    assert refused(nnd("build", "mqm", "--source", missing)) == f"{missing}: no such file or folder"


def test_folder_with_brackets_is_shown_as_it_is(nnd: Callable[..., Outcome], tmp_path: Path) -> None:
    folder = tmp_path / "out [old]"
    done = nnd("build", "demo", "--out", folder)
    assert done.status == 0
    assert (folder / "README.md").is_file()
    assert f"written to {folder}\n" in done.out


def test_category_with_brackets_is_shown_as_it_is(nnd: Callable[..., Outcome], tmp_path: Path) -> None:
    category = "bad [/end] [red]flag"
    text = small_text("quiz_design").replace("off_target", category)
    source = write_files(tmp_path / "in", {QUIZ_FILE: text})
    done = nnd("build", "quiz_design", "--source", source, "--out", tmp_path / "out")
    assert done.status == 0
    assert f"\n| {category} | 2 |\n" in done.out


@pytest.mark.parametrize("way", ["option", "variable"])
def test_debug_lets_the_error_through(way: str, nnd: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "variable":
        monkeypatch.setenv("NND_DEBUG", "1")
    with pytest.raises(NNDError, match="there is no set 'nowhere'"):
        nnd(*(["--debug"] if way == "option" else []), "build", "nowhere")
