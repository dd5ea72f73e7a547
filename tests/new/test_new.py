"""`nnd new` from the command line: what it writes, what it refuses, and the sets that are made with it."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from nnd_tasks.datasets import read_report, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.new import draft as new
from nnd_tasks.new.draft import draft_set, write_set
from nnd_tasks.recipes import configs
from nnd_tasks.schema import normalize
from nnd_tasks.yaml_json import check_yaml
from tests import commands
from tests.commands import Outcome
from tests.conftest import REPO
from tests.new.small_tables import write_rows

Command = Callable[..., Outcome]
ROWS = [
    {"question": f"What is {i}?", "answer": f"It is {word}.", "verdict": verdict, "model": f"m{k}"}
    for i in range(4)
    for k, (word, verdict) in enumerate([("a number", "good"), ("a cat", "wrong"), ("number a", "disfluent")])
]
OPTIONS = ["--label", "verdict", "--better", "good"]
KNOWN = ["--license", "mit", "--language", "en,de", "--homepage", "https://example.org", "--judges", "Two people.",
         "--summary", "Answers.", "--citation", "@misc{a, title = {b}}", "--title", "Numbers"]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in" / "answers.jsonl", ROWS)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "task_yamls").mkdir(parents=True)
    shutil.copy(REPO / "task_yamls" / "_base", folder / "task_yamls" / "_base")
    return folder


def test_new_writes_a_set_that_list_shows_and_says_what_is_missing(nnd: Command, table: Path, nnd_home: Path) -> None:
    done = nnd("new", "numbers", "--from", table, *OPTIONS)
    assert (done.status, done.err) == (0, "")
    assert "context: column 'question' (proposed: name)" in done.out
    assert "\n8 tests\n" in done.out
    assert "needed before publishing" in done.out
    assert f"lm_eval --include_path {nnd_home / 'task_yamls' / 'numbers'}" in done.out
    assert read_table(nnd_home / "nnd" / "numbers").num_rows == 8
    card = (nnd_home / "nnd" / "numbers" / "README.md").read_text("utf-8")
    assert re.search(r"^license: TODO\(", card, flags=re.MULTILINE)
    assert card.count("TODO(") >= 6
    listing = nnd("list").out
    assert "| `numbers` | your own; errors: judged | default | 8 | disfluent 4 (" in listing
    fields = yaml.safe_load((nnd_home / "task_yamls/numbers/nnd_numbers.yaml").read_text("utf-8"))
    assert fields["metadata"]["categories"] == ["disfluent", "wrong"]
    assert (fields["doc_to_text"], fields["target_delimiter"]) == ("{{context}}\n\n", "")


def test_two_at_once_of_one_name_never_mix(table: Path, nnd_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = [draft_set("numbers", str(table), {"label": "verdict", "better": better}) for better in ("good", "wrong")]
    both = threading.Barrier(2)
    write = configs.write_dataset

    def together(*arguments: Any, **settings: Any) -> Any:
        with suppress(threading.BrokenBarrierError):
            both.wait(1)  # without a lock both have found the name free when the first writes
        return write(*arguments, **settings)

    monkeypatch.setattr(configs, "write_dataset", together)

    def attempt(draft: new.Draft) -> new.Written | str:
        try:
            return write_set(draft)
        except NNDError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(attempt, drafts))
    [refused] = [found for found in done if isinstance(found, str)]
    assert "holds a set that was made of another table or recipe" in refused
    winner = drafts[next(i for i, found in enumerate(done) if not isinstance(found, str))]
    task = yaml.safe_load((nnd_home / "task_yamls" / "numbers" / "nnd_numbers.yaml").read_text("utf-8"))
    stored = read_table(nnd_home / "nnd" / "numbers").column("category").unique().to_pylist()
    assert task["metadata"]["categories"] == sorted(stored) == sorted(winner.categories)
    assert not list(nnd_home.rglob("*.lock"))


@pytest.mark.parametrize(
    "strange", ["don\x92t", "wei\x9f", "\x7f", "next\x85line", "\ufffe", "\ufeff", "a\u2028b", "\U0001f600"]
)
def test_labels_of_any_characters_give_yamls_that_can_be_read(
    strange: str, tmp_path: Path, checkout: Path, nnd: Command, nnd_home: Path
) -> None:
    table = write_rows(tmp_path / "t.jsonl", [{**row, "verdict": f"{row['verdict']} {strange}"} for row in ROWS])
    done = nnd("new", "numbers", "--from", table, "--label", "verdict", "--better", f"good {strange}",
               "--prompt", f"{{{{context}}}} {strange}:", "--into", checkout)  # fmt: skip
    assert (done.status, done.err) == (0, "")
    labels = [f"disfluent {strange}", f"wrong {strange}"]
    folder = checkout / "task_yamls" / "numbers"
    for task in (nnd_home / "task_yamls" / "numbers" / "nnd_numbers.yaml", folder / "nnd_numbers.yaml"):
        fields = yaml.safe_load(task.read_text("utf-8"))
        assert (fields["metadata"]["categories"], fields["doc_to_text"]) == (labels, f"{{{{context}}}} {strange}:")
    assert yaml.safe_load((folder / "_recipe").read_text("utf-8"))["better"] == [f"good {strange}"]
    assert "| `numbers` | your own; errors: judged | default | 8 |" in nnd("list").out


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("english", "--language english: is not a language code; write en"),
        ("en,Deutsch", "--language Deutsch: is not a language code; write de"),
        ("EN", "write en"),
        ("pt_br", "write pt-br"),
        ("Elvish", "write a code such as en or pt-BR"),
        ("<script>alert(1)</script>", "write a code such as en or pt-BR"),
    ],
)
def test_a_language_is_named_by_its_code(
    nnd: Command, table: Path, language: str, message: str, nnd_home: Path
) -> None:
    done = nnd("new", "numbers", "--from", table, *OPTIONS, "--language", language)
    assert done.status == 1
    assert message in done.err
    assert not nnd_home.exists()
    assert nnd("new", "numbers", "--from", table, *OPTIONS, "--language", "en,pt-BR,yue").status == 0


def test_one_of_a_thing_is_singular(nnd: Command, tmp_path: Path, nnd_home: Path, checkout: Path) -> None:
    table = write_rows(tmp_path / "t.jsonl", [*ROWS[:2], {**ROWS[0], "answer": ""}])
    done = nnd("new", "one", "--from", table, *OPTIONS, "--into", checkout)
    assert "\n1 test\n" in done.out
    assert "1  row with an empty candidate (line 3)" in done.out
    card = (nnd_home / "nnd" / "one" / "README.md").read_text("utf-8")
    assert "- `default`: 3 rows, 2 judgements of 2 candidates; left out: 1 row with an empty candidate." in card
    assert "`nnd_one`: 1 test of 1 prompt." in (checkout / "task_yamls" / "one" / "README.md").read_text("utf-8")


def test_a_yaml_that_would_be_read_otherwise_is_not_written() -> None:
    with pytest.raises(NNDError, match="reading it gives something else"):
        check_yaml("a: yes\n", {"a": "yes"})


def test_a_card_of_which_everything_is_told_has_nothing_left_to_do(nnd: Command, table: Path, nnd_home: Path) -> None:
    done = nnd("new", "numbers", "--from", table, *OPTIONS, *KNOWN, "--prompt", "{{context}}\\nAnswer:")
    assert done.status == 0
    assert "needed before publishing" not in done.out
    card = (nnd_home / "nnd" / "numbers" / "README.md").read_text("utf-8")
    assert "TODO" not in card
    header = yaml.safe_load(card.split("---\n")[1])
    assert (header["license"], header["language"]) == ("mit", ["en", "de"])
    for column in read_table(nnd_home / "nnd" / "numbers").column_names:
        assert f"| `{column}` | " in card
    fields = yaml.safe_load((nnd_home / "task_yamls/numbers/nnd_numbers.yaml").read_text("utf-8"))
    assert fields["doc_to_text"] == "{{context}}\nAnswer:"
    assert "target_delimiter" not in fields
    report = read_report(nnd_home / "nnd" / "numbers")["default"]
    assert list(report["source_sha256"]) == ["answers.jsonl"]
    assert str(table.parent) not in json.dumps(report) + card


def test_dry_run_shows_and_writes_nothing(nnd: Command, table: Path, nnd_home: Path) -> None:
    done = nnd("new", "numbers", "--from", table, *OPTIONS, "--dry-run")
    assert done.status == 0
    assert "nothing written" in done.out
    assert not nnd_home.exists()


def test_the_same_again_is_the_same_and_another_needs_replace(nnd: Command, table: Path, nnd_home: Path) -> None:
    for _ in range(2):
        assert nnd("new", "numbers", "--from", table, *OPTIONS).status == 0
    other = ["new", "numbers", "--from", table, "--label", "verdict", "--order", "wrong,disfluent=good"]
    done = nnd(*other)
    assert done.status == 1
    assert "take another name, or --replace it" in done.err
    assert read_table(nnd_home / "nnd/numbers").num_rows == 8
    done = nnd(*other, "--replace")
    assert (done.status, done.err) == (0, "")
    fields = yaml.safe_load((nnd_home / "task_yamls/numbers/nnd_numbers.yaml").read_text("utf-8"))
    assert fields["metadata"]["categories"] == ["wrong"]
    assert set(read_table(nnd_home / "nnd/numbers").column("category").to_pylist()) == {"wrong"}


def test_into_writes_recipe_task_and_readme_but_no_text(
    nnd: Command,
    table: Path,
    checkout: Path,
    tmp_path: Path,
) -> None:
    assert nnd("new", "numbers", "--from", table, *OPTIONS, *KNOWN, "--into", checkout).status == 0
    folder = checkout / "task_yamls" / "numbers"
    assert {path.name for path in folder.iterdir()} == {"_recipe", "nnd_numbers.yaml", "README.md"}
    written = "".join(path.read_text("utf-8") for path in folder.iterdir())
    assert not any(row[key] in written for row in ROWS for key in ("question", "answer"))
    recipe = yaml.safe_load((folder / "_recipe").read_text("utf-8"))
    assert recipe["expected"] == {"disfluent": 4, "wrong": 4}
    again = draft_set("again", str(table), recipe=folder / "_recipe")
    assert again.notes == []
    assert again.table.num_rows == 8
    table.write_text(table.read_text("utf-8").replace('"wrong"', '"good"'), encoding="utf-8")
    [note] = draft_set("again", str(table), recipe=folder / "_recipe").notes
    assert "the recipe expects 8" in note
    assert "another file than the recipe's" in note


def test_nothing_that_a_table_or_an_option_says_is_markup_or_a_command_of_the_terminal(
    nnd: Command, tmp_path: Path, checkout: Path, nnd_home: Path
) -> None:
    evil = "<script>alert(1)</script>"
    rows = [
        {**row, "verdict": row["verdict"].replace("wrong", f"w{evil}|"), "answer": "\x1b[2J" + row["answer"]}
        for row in ROWS
    ]
    source = write_rows(tmp_path / "in" / "t.jsonl", rows)
    told = ["--title", f"T {evil}", "--summary", f"S {evil}", "--judges", f"J {evil}", "--homepage", f"H {evil}"]
    told += ["--license", f"L {evil}", "--citation", f"@misc{{a}}\n```\n{evil}"]
    for rule in (["--better", f"good,w{evil}|"], ["--order", f"w{evil}|,good"]):
        done = nnd(
            "new", "numbers", "--from", source, "--label", "verdict", *rule, *told, "--into", checkout, "--replace"
        )
        assert done.status == 0
        assert "\x1b" not in done.out
        assert "\\x1b[2J" in done.out
        card = (nnd_home / "nnd" / "numbers" / "README.md").read_text("utf-8").split("---\n", 2)[2]
        for page in (card, (checkout / "task_yamls" / "numbers" / "README.md").read_text("utf-8")):
            outside = re.sub(r"^(`{3,})\w+\n.*?^\1$", "", page, flags=re.MULTILINE | re.DOTALL)
            assert "<script" not in outside
            assert outside.count("&lt;script") >= 5
            assert "```" not in outside


def test_a_card_says_of_how_many_tests_the_rates_are(
    tmp_path: Path, nnd_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [{**row, "question": row["question"] + more} for row in ROWS for more in ("", "!")]
    table = write_rows(tmp_path / "t.jsonl", more)
    monkeypatch.setattr("nnd_tasks.recipes.configs.SAMPLE", 1)
    for most, said in ((16, False), (15, True)):  # of 16 tests
        monkeypatch.setattr("nnd_tasks.recipes.configs._EXACT", most)
        write_set(draft_set("numbers", str(table), {"label": "verdict", "better": "good"}))
        card = (nnd_home / "nnd" / "numbers" / "README.md").read_text("utf-8")
        assert ("The rates are of 1 of the tests, drawn at random." in card) == said


def test_the_card_of_pairs_says_what_was_done_to_them(tmp_path: Path, nnd_home: Path) -> None:
    pairs = [("\n\nHuman: q\n\nAssistant: a ", "\n\nHuman: q\n\nAssistant: b")]
    source = write_rows(tmp_path / "t.jsonl", [{"chosen": one, "rejected": other} for one, other in pairs])
    written = write_set(draft_set("pairs", str(source)))
    card = (written.folder / "README.md").read_text("utf-8")
    assert "nothing was trimmed, but the ends of what an assistant says in a dialogue" in card
    assert "| `high_first` | whether the better candidate comes first in the order of the alphabet" in card
    assert "target_delimiter" not in written.task.path.read_text("utf-8")


@pytest.fixture
def package(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that is also the installation."""
    for module in ("runner.register", "sets.user_tasks"):
        monkeypatch.setattr(f"nnd_tasks.{module}.tasks_dir", lambda: checkout / "task_yamls")
    return checkout


def prompt_that_runs() -> str:
    """Return the prompt of the task that `nnd run` finds."""
    from lm_eval.tasks import TaskManager

    from nnd_tasks.runner.register import include_paths

    manager = TaskManager(include_path=[str(path) for path in include_paths()], include_defaults=False)
    return str(manager.load(["nnd_numbers"])["tasks"]["nnd_numbers"].config.doc_to_text)


def test_no_earlier_task_stands_before_that_of_the_checkout(
    nnd: Command, table: Path, nnd_home: Path, package: Path
) -> None:
    own = nnd_home / "task_yamls" / "numbers" / "nnd_numbers.yaml"
    command = ["new", "numbers", "--from", table, *OPTIONS, *KNOWN]
    assert nnd(*command).status == 0
    assert own.is_file()
    for _ in range(2):
        done = nnd(*command, "--into", package)
        assert (done.status, done.err) == (0, "")
        assert not own.exists()
    done = nnd(*command, "--prompt", "One: {{context}}")
    assert done.status == 1
    assert "--replace" in done.err
    done = nnd(*command, "--prompt", "One: {{context}}", "--replace")
    assert (done.status, done.err) == (0, "")
    assert prompt_that_runs() == "One: {{context}}"
    assert nnd(*command, "--prompt", "Two: {{context}}", "--replace", "--into", package).status == 0
    assert not own.exists()
    assert prompt_that_runs() == "Two: {{context}}"
    own.write_text("task: nnd_numbers\n", encoding="utf-8")
    done = nnd(*command, "--prompt", "Two: {{context}}", "--into", package)
    assert done.status == 0
    assert f"note: {own} has other content" in done.err


def test_a_copy_of_the_shipped_recipe_is_the_shipped_recipe(
    nnd: Command, table: Path, package: Path, tmp_path: Path
) -> None:
    assert nnd("new", "numbers", "--from", table, *OPTIONS, "--into", package).status == 0
    copy = shutil.copy(package / "task_yamls" / "numbers" / "_recipe", tmp_path / "recipe.yaml")
    assert nnd("new", "numbers", "--from", table, "--recipe", copy).status == 0
    copy.write_text(copy.read_text("utf-8").replace("good", "wrong"), encoding="utf-8")
    done = nnd("new", "numbers", "--from", table, "--recipe", copy)
    assert done.status == 1
    assert "has a recipe of its own" in done.err


def test_a_checkout_that_cannot_be_written_leaves_no_half_a_set(
    nnd: Command, table: Path, nnd_home: Path, checkout: Path
) -> None:
    place = checkout / "task_yamls" / "numbers"
    place.write_text("a file\n", encoding="utf-8")
    done = nnd("new", "numbers", "--from", table, *OPTIONS, "--into", checkout)
    assert (done.status, nnd_home.exists()) == (1, False)
    assert "numbers: cannot be written (File exists)" in done.err
    place.unlink()
    (place / "README.md").mkdir(parents=True)
    done = nnd("new", "numbers", "--from", table, *OPTIONS, "--into", checkout)
    assert (done.status, nnd_home.exists()) == (1, False)
    assert "README.md is a folder" in done.err


def test_options_go_before_those_of_the_recipe(nnd: Command, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("label: verdict\nbetter: good\nlicense: mit\nlanguage: en\n", encoding="utf-8")
    found = draft_set("numbers", str(table), {"license": "cc-by-4.0"}, path)
    assert (found.recipe.license, found.recipe.language, found.recipe.better) == ("cc-by-4.0", ("en",), ("good",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frank"], "frank is a set or task that comes with the package"),
        (["blindspot_wmt"], "comes with the package (`nnd list`); take another name"),
        (["hanna"], "hanna has a recipe of its own"),
        (["my-set"], "named by letters, digits and _"),
        (["nnd_x"], "without nnd_ before them"),
        (["x", "--field", "answer"], "write NAME=COLUMN"),
        (["x", "--prompt", "{{contxt}}"], "there is no 'contxt'; a prompt can name context"),
        (["x", "--prompt", "{{context"], "no valid template"),
        (["x", "--into", "/nowhere"], "no checkout of nnd-tasks is there"),
        (["x", "--citation", "none.bib"], "neither BibTeX nor a file"),
        (["x", "--context", "quesion"], "there is no column 'quesion'; did you mean 'question'?"),
        (["x", "--order", "wrong,good"], "--better and --order: a set has one rule"),
    ],
)  # fmt: skip
def test_a_mistake_ends_in_one_line_and_writes_nothing(
    arguments: list[str],
    message: str,
    nnd: Command,
    table: Path,
    nnd_home: Path,
) -> None:
    done = nnd("new", *arguments, "--from", table, *OPTIONS)
    assert done.status == 1
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not nnd_home.exists()


def test_a_set_of_something_else_in_the_folder_is_left_alone(table: Path, nnd_home: Path) -> None:
    folder = nnd_home / "nnd" / "numbers"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# My notes\n", encoding="utf-8")
    found = draft_set("numbers", str(table), {"label": "verdict", "better": "good"})
    for replace in (False, True):
        with pytest.raises(NNDError):
            write_set(found, replace=replace)
    assert (folder / "README.md").read_text("utf-8") == "# My notes\n"


# ---------------------------------------------------------------- the two sets that come with a recipe


def recount(rows: list[dict[str, Any]], context: str, candidate: str, aspects: list[str], gap: float) -> Counter[str]:
    """Count the tests per aspect straight from the file: means of equal texts, every two of a context."""
    counts: Counter[str] = Counter()
    groups: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if (text := normalize(row[candidate])).strip():
            groups[json.dumps(row[context])][text].append(row)
    for texts in groups.values():
        for aspect in aspects:
            means = [sum(row[aspect] for row in found) / len(found) for found in texts.values()]
            counts[aspect] += sum(abs(a - b) > gap - 1e-6 for a, b in itertools.combinations(means, 2))
    return counts


@pytest.mark.parametrize(("name", "file"), [("webnlg", "webnlg2020_en_human.jsonl"), ("hanna", "hanna.jsonl")])
def test_a_shipped_recipe_builds_the_tests_that_a_recount_of_the_file_gives(
    name: str,
    file: str,
    data: Path,
    nnd: Command,
    nnd_home: Path,
) -> None:
    done = nnd("new", name, "--from", data / "extra" / file)
    assert (done.status, done.err) == (0, "")
    assert "needed before publishing" not in done.out
    folder = REPO / "task_yamls" / name
    recipe = yaml.safe_load((folder / "_recipe").read_text("utf-8"))
    rows = [json.loads(line) for line in (data / "extra" / file).read_text("utf-8").splitlines()]
    expected = recount(rows, recipe["context"], recipe["candidate"], recipe["attribute"], recipe["min_gap"])
    tests = read_table(nnd_home / "nnd" / name)
    assert Counter(tests.column("category").to_pylist()) == expected
    assert recipe["expected"] == dict(expected)
    assert not (nnd_home / "task_yamls").exists(), "its task comes with the package"
    for category, count in expected.items():
        assert f"| {category} | {count:,} |" in (folder / "README.md").read_text("utf-8")
    task = yaml.safe_load((folder / f"nnd_{name}.yaml").read_text("utf-8"))
    assert task["metadata"]["categories"] == sorted(expected)
    written = "".join(path.read_text("utf-8") for path in folder.iterdir())
    assert not any(
        text[:40] in written for column in ("high", "context") for text in tests.column(column).unique().to_pylist()
    )


# ---------------------------------------------------------------- end to end


def process(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NND_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return commands.run([sys.executable, *arguments], env=environment)


@pytest.mark.slow
def test_a_new_set_runs_at_once_with_nnd_and_with_lm_eval(
    table: Path,
    nnd_home: Path,
    tmp_path: Path,
    tiny_models: dict[str, Path],
) -> None:
    made = process(nnd_home, "-m", "nnd_tasks.cli", "new", "numbers", "--from", table, *OPTIONS)
    assert made.returncode == 0, made.stderr
    model = [
        "--model",
        "hf",
        "--model_args",
        f"pretrained={tiny_models['gpt2']}",
        "--tasks",
        "nnd_numbers",
        "--device",
        "cpu",
    ]
    rates = []
    for name, command in (
        ("ours", ["-m", "nnd_tasks.cli", "run"]),
        ("stock", ["-m", "lm_eval", "run", "--include_path", nnd_home / "task_yamls" / "numbers"]),
    ):
        done = process(nnd_home, *command, *model, "--output_path", tmp_path / name)
        assert done.returncode == 0, done.stderr[-2000:]
        [results] = (tmp_path / name).rglob("results_*.json")
        rates.append(json.loads(results.read_text("utf-8"))["results"]["nnd_numbers"])
    assert rates[0]["tests,none"] == 8
    assert rates[0]["pass_rate,none"] == rates[1]["pass_rate,none"]


# ---------------------------------------------------------------- what people wrote


@pytest.mark.parametrize("verb", ["new", "build"])
def test_what_was_written_on_a_card_by_hand_survives(verb: str, nnd: Command, table: Path, nnd_home: Path) -> None:
    again = ["new", "numbers", "--from", table, *OPTIONS] if verb == "new" else ["build", "numbers", "--source", table]
    nnd("new", "numbers", "--from", table, *OPTIONS, "--license", "mit")
    path = nnd_home / "nnd" / "numbers" / "README.md"
    text = path.read_text("utf-8")
    edited = re.sub(r"TODO\([^)]*\)", "filled in", text) + "\nOurs.\n\n## Notes\n\nOurs.\n"
    assert "TODO" in text
    assert "TODO" not in edited
    path.write_text(edited, "utf-8")
    assert nnd(*again).status == 0
    kept = path.read_text("utf-8")
    assert kept == edited or verb == "build"  # which shows a recipe with the hashes of its files
    assert "TODO" not in kept
    assert (kept.count("Ours."), kept.count("filled in")) == (2, edited.count("filled in"))
    assert nnd(*again, "--replace").status == 0
    assert "Ours." not in path.read_text("utf-8")


def test_a_licence_given_earlier_is_not_dropped(nnd: Command, table: Path, nnd_home: Path) -> None:
    def licence() -> tuple[Any, str]:
        nnd_set = nnd_home / "task_yamls" / "numbers" / "_recipe"
        card = (nnd_home / "nnd" / "numbers" / "README.md").read_text("utf-8")
        return yaml.safe_load(nnd_set.read_text("utf-8")).get("license"), card

    nnd("new", "numbers", "--from", table, *OPTIONS, "--license", "mit")
    assert nnd("new", "numbers", "--from", table, *OPTIONS, "--judges", "Two people.").status == 0
    given, card = licence()
    assert given == "mit"
    assert "license: mit\n" in card
    assert "Licence: mit." in card
    assert "Judges: Two people." in card
    nnd("new", "numbers", "--from", table, *OPTIONS, "--replace")
    given, card = licence()
    assert given is None
    assert "license: TODO(" in card
