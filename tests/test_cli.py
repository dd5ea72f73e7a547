"""The command `nnd`: what it prints where, its exit status, and how it reports what a user got wrong."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from nnd_tasks import __version__, cli
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from nnd_tasks.store import read_table
from tests.commands import nnd_process, refused, run
from tests.conftest import REPO, SOURCES
from tests.sets.small_files import FRANK_FILE, QUIZ_FILE, small_source, small_text, write_files

# ---------------------------------------------------------------- in a process of its own


@pytest.mark.parametrize("module", ["nnd_tasks.cli", "hub_upload"])
def test_process_interrupted_while_it_imports_shows_no_traceback(module, tmp_path):
    """Importing takes half a second; this stands in for a signal in the middle of it."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = run([sys.executable, "-m", module, "--help"], env={**os.environ, "PYTHONPATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "nnd: interrupted\n")


#: Loads each module of commands alone, then runs two commands, and prints after each what is imported.
STEPS = """
import sys
from nnd_tasks.cli import COMMANDS, load_app, main

for commands in COMMANDS.values():
    for module in {*COMMANDS, "nnd_tasks.cli.typer_app"} & {*sys.modules}:
        del sys.modules[module]
    load_app(commands[-1])
    print("imported:", *sys.modules)
for command in ("--help", "list"):
    sys.argv = ["nnd", command]
    try:
        main()
    except SystemExit as stop:
        print("status", stop.code)
    print("imported:", *sys.modules)
"""


def test_a_command_imports_no_more_than_it_needs(demo_home):
    """That of a run is in `tests.test_rooms`."""
    out = run([sys.executable, "-c", STEPS], env=os.environ | {"NND_HOME": str(demo_home)}).stdout
    *alone, by_help, by_list = ({*line.split()} for line in out.splitlines() if line.startswith("imported: "))
    for name, imported in zip(cli.COMMANDS, alone, strict=True):
        assert {*cli.COMMANDS} & imported == {name}
    assert not {"torch", "transformers", "lm_eval", "matplotlib", "pandas"} & by_help
    assert not {"torch", "transformers", "matplotlib"} & by_list
    assert re.search(r"Near-Negative.*^status 0$.*quiz_design.*^status 0$", out, re.DOTALL | re.MULTILINE)


def test_a_wrong_option_of_a_run_is_refused_before_lm_eval_is_imported_whole(tmp_path):
    for name in ("torch", "transformers", "datasets", "pandas", "scipy"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is imported')\n", encoding="utf-8")
    status, _, err = nnd_process("run", "--bogus", PYTHONPATH=os.pathsep.join([str(tmp_path), str(REPO)]))
    assert (status, "No such option: --bogus" in err) == (2, True)


def test_a_home_that_leads_back_to_itself_is_one_line(nnd, tmp_path, monkeypatch):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert refused(nnd("build", "demo", "--out", loop / "x")).startswith(f"{loop / 'x'}: Too many levels of")
    monkeypatch.setenv("NND_HOME", str(loop))
    for command in ("build demo", "register", "run --model hf --tasks nnd_demo"):
        assert refused(nnd(*command.split())).startswith(f"NND_HOME={loop}: Too many levels of symbolic links")


def test_a_folder_whose_name_is_no_utf_8_is_refused_before_anything_is_written(nnd, tmp_path, monkeypatch):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    assert ": this name is not UTF-8; " in refused(nnd("build", "demo", "--out", f"{folder}/x"))
    monkeypatch.setenv("NND_HOME", folder)
    for command in ("build demo", "register", "list", "run --model hf --tasks nnd_demo"):
        assert refused(nnd(*command.split())).startswith("NND_HOME=")
    assert not [*tmp_path.iterdir()]


# ---------------------------------------------------------------- nnd list


def test_list_shows_the_size_of_what_is_built_else_of_what_was_published(nnd, tmp_path, nnd_home):
    build_set("quiz_design", small_source(tmp_path / "in", "quiz_design"))
    write_files(nnd_home / "nnd" / "frank", {"README.md": "not a dataset"})
    status, out, err = nnd("list", "--format", "json")
    assert (status, err) == (0, "")
    rows = json.loads(out)["tables"]["sets"]
    for name, source in SOURCES.items():
        own = [row for row in rows if row["name"] == name]
        assert {row["license"] for row in own} == {source.recipe.facts.license}
        assert {row["folder"] for row in own} == {
            str(nnd_home / "nnd" / name) if name in ("quiz_design", "frank") else ""
        }
        published = {"quiz_design": {"authors": 5, "clean": 5}}.get(name, source.recipe.published)
        assert not published or {row["config"]: row["tests"] for row in own} == published


def test_list_where_gives_each_folder_and_its_size(nnd, nnd_home):
    write_files(nnd_home, {"nnd/a/x": "12345", "results/deep/y": "123"})
    tables = json.loads(nnd("list", "--where", "--format", "json").out)["tables"]["places"]
    own = [row for row in tables if Path(row["folder"]).is_relative_to(nnd_home)]
    assert [(Path(row["folder"]).name, row["bytes"]) for row in own] == [("nnd", 5), ("results", 3)]


def test_a_set_that_cannot_be_read_does_not_hide_the_others(nnd, nnd_home):
    build_set("demo")
    demo = nnd_home / "nnd" / "demo"
    sets = demo.parent
    write_files(sets / "deep", {"README.md": f"---\nnnd_schema_version: 1\na: {'[' * 3000}{']' * 3000}\n---\n"})
    shutil.copytree(demo, sets / "cut_off")
    file = sets / "cut_off" / "authors" / "test-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:1000])
    done = nnd("list")
    assert done.status == 0
    assert f"built in {demo}" in done.out
    for name in ("deep", "cut_off"):
        row = done.out[done.out.index(f"| {name} | your own |") :].splitlines()[0]
        assert "cannot be read" in row, row


# ---------------------------------------------------------------- in this process


def test_version_and_tasks_dir_print_one_plain_line(nnd):
    assert nnd("--version") == (0, f"nnd-tasks {__version__}\n", "")
    status, out, err = nnd("register", "--print")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    assert (Path(out.rstrip("\n")) / "nnd.yaml").is_file()


@pytest.mark.parametrize("arguments", ["", "biuld demo", "build", "build demo --sauce x", "list demo"])
def test_usage_error_ends_with_status_2_and_builds_nothing(arguments, nnd, nnd_home):
    done = nnd(*arguments.split())
    assert done.status == 2
    assert "Traceback" not in done.err
    assert re.search(r"Usage|Error", done.out + done.err)
    assert not nnd_home.exists()


def test_build_prints_counts_to_stdout_and_notes_to_stderr(nnd, tmp_path):
    source = small_source(tmp_path / "in", "quiz_design")
    _, out, err = nnd("build", "quiz_design", "--source", source, "--out", tmp_path / "out")
    table = "| category | tests |\n|---|---:|\n| disfluent | 2 |\n| off_target | 2 |\n| wrong_context | 1 |\n"
    assert out.startswith(
        f"authors: 5 tests, 1 prompt, 6 candidates\n{table}authors: 9 rows read = 9 used + 0 left out\n"
    )
    assert out.endswith(f"\n{table}written to {tmp_path / 'out'}\n")
    assert err.startswith("note: authors: 5 tests, published are 2,686")
    assert err.count("\n") == 1
    assert read_table(tmp_path / "out").num_rows == 5


#: Command -> what its message must say.
WRONG = {
    "build quizdesign": "did you mean 'quiz_design'",
    "build mqm --source [bold]data[/bold]": "[bold]data[/bold]: no such file or folder",
    "build frank --source empty": FRANK_FILE,
    f"build quiz_design --source {QUIZ_FILE}": f"{QUIZ_FILE}, line 5: is not valid JSON",
    "build quiz_design --source binary.jsonl": "binary.jsonl: it holds NUL bytes: is it the right file",
    "build demo --out foreign": "foreign",
    "build demo --out binary.jsonl": "binary.jsonl",
    f"build mqm --source {'a' * 300}": "aaaaaaaaaa",
    "build demo --out ~no-such-user-of-this-system/x": "no-such-user",
}


@pytest.mark.parametrize("command", WRONG)
def test_wrong_input_ends_with_status_1_and_one_line(command, nnd, tmp_path, monkeypatch, nnd_home):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "30")
    (tmp_path / "empty").mkdir()
    write_files(tmp_path / "foreign", {"notes.txt": "mine"})
    write_files(tmp_path, {QUIZ_FILE: small_text("quiz_design") + '{"group_id": 1,\n'})
    (tmp_path / "binary.jsonl").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    assert WRONG[command] in refused(nnd(*command.split()))
    assert not (nnd_home / "nnd").exists()


def test_debug_lets_the_error_through(nnd, monkeypatch):
    with pytest.raises(NNDError, match="there is no set 'nowhere'"):
        nnd("--debug", "build", "nowhere")
    monkeypatch.setenv("NND_DEBUG", "1")
    with pytest.raises(NNDError, match="there is no set 'nowhere'"):
        nnd("build", "nowhere")
