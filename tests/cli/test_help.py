"""`--help`: panels, and examples that can be typed as they stand."""

import re
import shlex
from contextlib import nullcontext

import pytest
from lm_eval._cli import HarnessCLI
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from nnd_tasks import cli
from nnd_tasks.cli import app
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from nnd_tasks.store import results_dir
from tests.conftest import REPO
from tests.results.fake_runs import write_run
from tests.sets.small_files import write_files
from tests.test_docs import parse

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


def commands(group=None, path=()):
    """Yield every command and group with the words that lead to it."""
    group = group or get_command(app)
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


COMMANDS = {path: command for path, command in commands() if not command.hidden}
VERBS = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


def examples_of(command):
    text = Text.from_markup(command.epilog or "").plain
    return [line for line in text.splitlines() if line.startswith("nnd ")]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_a_short_help_with_examples_that_can_be_typed(path):
    """Examples are shown whole and as they are."""
    is_verb, lines = path in VERBS, examples_of(COMMANDS[path])
    assert 1 <= len(lines) <= 2
    for line in lines:
        assert not is_verb or shlex.split(line)[1 : len(path) + 1] == list(path), "an example of this command"
        parse(shlex.split(line)[1:])
    shown = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(app, [*path, "--help"]).output
    assert all(line in " ".join(shown.split()) for line in lines)


#: What examples begin with that need no model, no publisher's file and no set that names systems.
HERE = (
    *("nnd list", "nnd show", "nnd new", "nnd check", "nnd register --print", "nnd compare", "nnd report", "nnd trend"),
    "nnd stress build typos",
)


def test_examples_that_can_run_here_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build_set("demo")
    answers = ["new", "answers", "--from", str(REPO / "examples" / "answers.csv"), "--better", "right"]
    assert CliRunner().invoke(app, answers).exit_code == 0
    for year, name in enumerate(("small", "large", "anna", "ben"), start=2019):
        folder = tmp_path / "results" if year < 2021 else tmp_path
        write_run(folder / name, name, parameters=10 ** (year - 2013), seed=year)
    results_dir().symlink_to(tmp_path / "results")
    files = {
        "models.csv": "model,year\nsmall,2019\nlarge,2020\n",
        "judged.csv": "article,summary,verdict\na,b,good\na,c,bad\n",
        "pairs.jsonl": '{"prompt": "p", "chosen": "c", "rejected": "r"}\n',
        "texts.txt": "The cat sat on the mat and saw a dog.\n\nIt ran from the garden to the old house.\n",
    }
    write_files(tmp_path, files)
    lines = [line for command in VERBS.values() for line in examples_of(command) if f"{line} ".startswith(HERE)]
    assert {begin for begin in HERE if any(line.startswith(begin) for line in lines)} == set(HERE)
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        # `nnd check` finds that nobody has written the set's facts yet.
        assert done.exit_code == (2 if line.startswith("nnd check") else 0), (line, done.exception)
    written = "tables/compare_nnd_made_up.md report.html figures/trend_nnd_made_up.svg report.md"
    assert [file for file in written.split() if not (tmp_path / file).is_file()] == []


def test_commands_stand_in_panels_in_the_order_of_work():
    shown = CliRunner(env=WIDE).invoke(app, ["--help"]).output
    assert re.search("─ Sets .*─ Run .*─ Conclusions .*─ Contribute ", shown, re.DOTALL)
    assert "─ Commands " not in shown, "every command has a panel"
    assert {path[0] for path in VERBS} == {name for commands in cli.COMMANDS.values() for name in commands}


def test_an_option_that_is_given_twice_is_a_list_or_an_error():
    for path, command in VERBS.items():
        for option in command.params:
            name = option.opts[0]
            if not name.startswith("-") or option.is_flag:
                continue
            context = command.context_class(command, resilient_parsing=True)
            hint = ", with commas" if name == "--allow" else "$"
            twice = pytest.raises(NNDError, match=f"^{name} is given 2 times; give it once{hint}")
            with nullcontext() if option.multiple else twice:
                command.parse_args(context, [name, "1", f"{name}=2"])
                assert option.multiple, path


def test_options_of_run_are_those_of_lm_eval_or_are_said_to_be_left_out():
    theirs = HarnessCLI()._subparsers.choices["run"]._option_string_actions.keys() - {"-h", "--help"}
    ours = {name for option in VERBS[("run",)].params for name in option.opts}
    page = (REPO / "docs" / "running.md").read_text("utf-8")
    assert {name for name in theirs - ours if name.startswith("--")} == {
        name for name in re.findall(r"`(--\w+)`", page) if name in theirs - ours
    }


def test_an_interrupted_command_says_so_and_how_a_run_goes_on(nnd, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("nnd_tasks.run.run.run_and_save", interrupted)
    monkeypatch.setattr("nnd_tasks.cli.listing.report_sets", interrupted)
    hint = "; with --use_cache FILE the same command goes on where it stopped"
    assert nnd("run", "--tasks", "nnd_demo") == (130, "", f"nnd: interrupted{hint}\n")
    assert nnd("list") == (130, "", "nnd: interrupted\n")


def test_the_shell_completes_names_of_sets():
    shell = {"_NND_COMPLETE": "complete_bash", "COMP_WORDS": "nnd show quiz", "COMP_CWORD": "2"}
    assert CliRunner(env=shell).invoke(app, prog_name="nnd").output.split() == ["quiz_design"]
