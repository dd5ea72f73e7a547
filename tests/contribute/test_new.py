"""`nnd new`: from options to a recipe, tests and a task; or to a prepare.py to complete."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import nnd_tasks.contribute.exports
from nnd_tasks.cli import app
from nnd_tasks.contribute.check.checking import check_set
from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import read_report, read_table
from tests.sets.folders import contents
from tests.sets.small_files import write_files
from tests.sets.tables import pick, write_rows

ROWS = [
    {"q": q, "a": f"{q} [[{label}]] {who}", "l": label, "n": number, "m": {"x": number}, "who": who, "by": who.upper(),
     "k": label[:1], "g": "one", "s": "q", "from": 0, "to": 2, "check": "no"}
    for q in ("q1", "q2")
    for who, label, number in (("r", "good", 5), ("s", "bad", 2), ("t", "poor", -9))
]  # fmt: skip
PAIRS = [{"q": "q1", "x": "good", "y": "bad", "w": "x"}, {"q": "q2", "x": "worse", "y": "fine", "w": "2"}]
SAMPLES = Path(nnd_tasks.contribute.exports.__file__).with_name("samples")
JUDGED = "--context q --candidate a "
LABEL = f"{JUDGED} --label l --better good "
SCORE = f"{JUDGED} --score n --min-gap 2 "
MISTAKES, OPTIONS = (
    yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8")) for name in ("mistakes", "options")
)


@pytest.fixture
def table(tmp_path):
    return write_rows(tmp_path / "answers.jsonl", ROWS)


@pytest.fixture
def recipe(nnd_home):
    """Return where the recipe is written."""
    return nnd_home / "task_yamls" / "mine" / "_recipe"


def new(source, options="", name="mine"):
    words = ["new", name, "--from", str(source), *options.split()]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refusal(source, options="", name="mine"):
    with pytest.raises(NNDError) as caught:
        new(source, options, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("case", OPTIONS, ids=[case["options"] for case in OPTIONS])
def test_each_option_comes_into_the_recipe_which_builds_the_same_again(case, tmp_path, nnd_home, recipe):
    pairs = {"--chosen", "--pair"} & {*case["options"].split()}
    source = write_rows(tmp_path / "t.jsonl", PAIRS if pairs else ROWS)
    new(source, case["options"])
    tests = read_table(nnd_home / "nnd" / "mine")
    found = tests.column(case["column"]).to_pylist()
    if case["column"] == "low_spans":
        found = [[span["start"], span["end"]] for spans in found for span in spans]
    assert found == case["values"]
    [report] = read_report(nnd_home / "nnd" / "mine").values()
    assert read_yaml(recipe)["expected"] == report["categories"]
    again = build_set("mine", source, tmp_path / "again")
    assert fingerprint(read_table(again.folder)) == fingerprint(tests)
    assert [note for note in again.notes if "left out" not in note and "no row has" not in note] == []


def test_a_dry_run_shows_what_columns_were_taken_by_their_names_and_writes_nothing(tmp_path, nnd_home):
    row = {"Question": "q", "model": "m", "a list": ["x"]}
    rows = [{**row, "answer": "a", "rating": 1}, {**row, "answer": "b", "rating": 4}]
    shown = new(write_rows(tmp_path / "t.jsonl", rows), "--min-gap 1 --dry-run")
    for role, column in (("context", "Question"), ("candidate", "answer"), ("score", "rating"), ("system", "model")):
        assert f"{role}: column {column!r}, by its name" in shown
    assert re.search("rule: A candidate is better when.*^1 test$", shown, re.DOTALL | re.MULTILINE)
    arena = {
        "prompt": "q",
        "winner": "gpt",
        "model_a": "llama",
        "model_b": "gpt",
        "response_a": "No",
        "response_b": "Yes",
    }
    shown = new(write_rows(tmp_path / "arena.jsonl", [arena]), "--dry-run")
    assert "recognised by model_a, response_a, winner" in shown
    assert "pair: columns ('conversation_a', 'conversation_b')" in shown
    assert "systems: columns ('model_a', 'model_b')" in shown
    assert not nnd_home.exists()


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake["options"] for mistake in MISTAKES])
def test_a_mistake_is_one_line_that_says_what_to_write(mistake, table, nnd_home):
    source = SAMPLES / mistake["sample"] if "sample" in mistake else table
    assert mistake["message"] in refusal(source, mistake["options"])
    assert not nnd_home.exists()


TAKEN = "frank Frank quiz_design_clean today nnd task_summarization blindspot frank_choice mine_heldout Mine"


def test_a_name_that_is_taken_or_that_no_set_can_have_is_refused(table, nnd_home):
    new(table, LABEL)
    before = contents(nnd_home)
    for name in TAKEN.split():
        assert "take another name" in refusal(table, LABEL, name), name
    for name in ("my set", "../x", "nnd_x", "1a", "__pycache__"):
        assert "a set is named by letters" in refusal(table, LABEL, name), name
    assert contents(nnd_home) == before


def test_another_table_of_that_name_needs_replace_and_facts_stay(table, recipe):
    said = new(table, f"{LABEL} --license mit")
    assert "- judges: who judged" in said
    assert "- license:" not in said
    new(table, f"{LABEL} --language en")
    assert read_yaml(recipe)["facts"] == {"license": "mit", "language": ["en"]}
    before = recipe.read_text("utf-8")
    assert "(better, label, min_gap, score)" in refusal(table, SCORE)
    assert recipe.read_text("utf-8") == before
    new(table, f"{SCORE} --replace")
    assert "facts" not in read_yaml(recipe)
    assert set(load("mine")["category"]) == {"preference"}


@pytest.mark.parametrize(
    ("rows", "options", "notes"),
    [
        ([*ROWS, ROWS[1]], LABEL, 1),
        ([*ROWS, ROWS[1]], f"{LABEL} --category k", 0),
        ([*ROWS, {**ROWS[1], "n": 3}], f"{SCORE} --category k", 1),
        (
            [{**pair, "who": "s"} for pair in [*PAIRS, {**PAIRS[0], "x": "bad", "y": "good"}]],
            "--context q --pair x,y --winner w",
            1,
        ),
    ],
)
def test_a_rater_who_judged_a_text_twice_is_named(rows, options, notes, tmp_path):
    table = write_rows(tmp_path / "t.jsonl", rows)
    made = new(table, f"{options} --rater who")
    for said in (made, CliRunner().invoke(app, ["build", "mine", "--source", str(table)]).output):
        assert " ".join(said.split()).count("1 row in which a rater judges a text again, first 's' of ") == notes


def test_nothing_that_a_table_says_is_a_command_of_the_terminal(tmp_path):
    rows = [{"q": "\x1b[2J[bold]q", "a": "\x1b]0;x\x07" + text, "l": f"{text}\x1b[1m"} for text in ("good", "bad")]
    shown = new(write_rows(tmp_path / "t.jsonl", rows), f"{JUDGED} --label l --better good\x1b[1m --dry-run")
    assert "\x1b" not in shown
    assert "[bold]q" in shown


DOTTED = "Input.question,Input.a,Input.b,Answer.best,Answer.time\nq,aa,bb,A,1\nr,cc,dd,2,2\n"


def test_columns_whose_own_names_have_dots(tmp_path, nnd_home):
    source = write_files(tmp_path, {"t.csv": DOTTED}) / "t.csv"
    new(source, "--pair Input.a,Input.b --winner Answer.best --leave-out Answer.time=9")
    assert pick(load("mine").to_list(), "context", "high", "low") == [("q", "aa", "bb"), ("r", "dd", "cc")]
    assert "no column 'Answer.bests'; there are" in refusal(
        source, "--context Answer.bests --candidate Input.a --score Answer.time --min-gap 1"
    )
    rows = [{"In.p": "q", "Out.a": {"x": {"t": text}}, "Out.n": score} for text, score in (("aa", 1), ("bb", 4))]
    new(
        write_rows(tmp_path / "t.jsonl", rows),
        "--context In.p --candidate Out.a.x.t --attribute easy=Out.n --min-gap 2 --replace",
    )
    assert pick(load("mine").to_list(), "high", "category") == [("bb", "easy")]


def test_all_files_are_looked_at(tmp_path, nnd_home):
    row = {"context": "q", "label": "good", "low_spans": []}
    rows = {
        "a": {"candidate": "aa", "errors": None},
        "b": {"candidate": "bb", "label": "bad", "errors": [{"from": 0, "to": 1, "labels": ["K", "L"]}]},
    }
    for name, more in rows.items():
        write_rows(tmp_path / "p" / f"{name}.jsonl", [{**row, **more}])
    new(tmp_path / "p" / "*.jsonl", "--better good --spans errors")
    assert pick(load("mine").to_list()[0]["low_spans"], "start", "end", "category") == [(0, 1, "K|L")]
    assert "'bad', 'good'" in refusal(tmp_path / "p" / "*.jsonl", "--label label")


def test_a_full_disk_names_the_folder_of_the_set(table, nnd_home, monkeypatch):
    write = Path.write_text

    def fail(path, *arguments, **options):
        if ".new-" in str(path):
            raise OSError(28, "No space left on device", str(path))
        return write(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", fail)
    assert refusal(table, LABEL).startswith(f"{nnd_home / 'nnd' / 'mine'}: cannot be written (No space left on device)")


# ---------------------------------------------------------------- its task


def test_the_task_is_one_of_lm_eval_and_stays_as_people_change_it(table, recipe):
    from lm_eval.tasks import TaskManager

    new(table, LABEL)
    manager = TaskManager(include_path=[str(recipe.parent)], include_defaults=False)
    task = manager.load(["nnd_mine"])["tasks"]["nnd_mine"]
    documents = list(task.eval_docs)
    assert sorted(task.doc_to_text(doc) for doc in documents) == ["q1\n\n", "q2\n\n"]
    assert sorted(len(doc["candidates"]) for doc in documents) == [3, 3]
    path = recipe.with_name("nnd_mine.yaml")
    path.write_text(path.read_text("utf-8").replace("{{context}}", "Q: {{context}}"), encoding="utf-8")
    said = new(table, LABEL)
    assert f"{path} stays: you may have changed it; to write it anew, type the same command with --replace" in said
    assert "Q: {{context}}" in path.read_text("utf-8")
    new(table, f"{LABEL} --replace")
    assert "Q: " not in path.read_text("utf-8")


def test_prompts_and_fields_of_a_recipe_come_into_the_task(recipe, table, nnd_home):
    text = "context: q\ncandidate: a\nlabel: l\nbetter: good\nfield: {hint: g}\nprompt: '{{hint}}: {{context}} A:'\n"
    write_files(recipe.parent, {"_recipe": text})
    build = ["build", "mine", "--source", str(table), "--replace"]
    assert "default: 4 tests" in CliRunner().invoke(app, build, catch_exceptions=False).output
    task = read_yaml(recipe.with_name("nnd_mine.yaml"))
    assert (task["doc_to_text"], task["metadata"]["categories"]) == ("{{hint}}: {{context}} A:", ["bad", "poor"])
    recipe.write_text(text.replace("{{hint}}", "{{hind}}"), encoding="utf-8")
    before = contents(nnd_home)
    with pytest.raises(NNDError, match="prompt: there is no 'hind'; a prompt can name context, hint"):
        CliRunner().invoke(app, build, catch_exceptions=False)
    assert contents(nnd_home) == before
    recipe.write_text(text.replace("better: good", "better: poor"), encoding="utf-8")
    said = CliRunner().invoke(app, build[:-1], catch_exceptions=False).output
    assert "its categories are not those of the set (bad, good)" in said.replace("\n", " ")


# ---------------------------------------------------------------- kinds of files, and rows that are no judgements


def test_a_file_that_was_cut_off_gives_nothing(tmp_path, nnd_home):
    write_files(tmp_path, {"cut.json": '[{"context": "x", "candidate"'})
    assert "cut.json: is not valid JSON" in refusal(tmp_path / "cut.json")
    assert not nnd_home.exists()


@pytest.mark.parametrize("options", [LABEL, f"{LABEL} --encoding cp1252"])
def test_records_that_are_not_in_utf8_are_read_as_tables_are(options, table):
    table.write_bytes(table.read_text("utf-8").replace("[[", "schöne [[").encode("cp1252"))
    new(table, options)
    assert load("mine")["high"][0] == "q1 schöne [[good]] r"


def test_a_prepare_that_somebody_changed_stays_unless_it_is_replaced(table, recipe):
    new(SAMPLES / "argilla.json", "--better good")
    new(SAMPLES / "argilla.json", "--better good --license mit")
    prepare = recipe.with_name("prepare.py")
    prepare.write_text(f"{prepare.read_text('utf-8')}# mine\n", "utf-8")
    assert "says what a row of mine is" in refusal(SAMPLES / "argilla.json", "--better good")
    assert "says what a row of mine is" in refusal(table, LABEL)
    new(table, f"{LABEL} --replace")
    assert not prepare.exists()


def test_rows_that_may_be_no_judgements_and_ranks_are_named(tmp_path, nnd_home):
    rows = [{**row, "state": "rejected" if row["l"] == "poor" else "done"} for row in ROWS]
    source = write_rows(tmp_path / "t.jsonl", rows)
    assert "2 rows with 'rejected' in the column 'state' count; if they are no judgements: --leave-out" in new(
        source, LABEL
    )
    [found] = [finding for finding in check_set("mine").findings if finding.code == "doubtful_rows"]
    assert "state: {'rejected': 2}" in found.message
    assert "'rejected'" not in new(source, f"{LABEL} --leave-out state=rejected --replace").split("rule:")[0]
    ranked = write_rows(tmp_path / "r.jsonl", [{**row, "n": place % 3 + 1} for place, row in enumerate(ROWS)])
    assert "is 1 the best in column 'n'?" in refusal(ranked, f"{SCORE} --replace")
    new(ranked, f"{JUDGED} --score n --min-gap 1 --best lowest --replace")
    assert load("mine").to_list()[0]["high"].endswith(" r")


def test_merged_cells_hold_in_each_of_their_rows_and_each_sheet_is_read(tmp_path, nnd_home):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("bob")):
        for row in ([None, "s", None, "t", None], ["question", *["answer", "verdict"] * 2],
                    ["Name a metal.", "Tin.", "good", "Oak.", "bad"], [None, "Gold.", "good", "Ash.", None]):  # fmt: skip
            sheet.append(row)
        sheet.merge_cells("A3:A4")
    book.save(tmp_path / "merged.xlsx")
    new(tmp_path / "merged.xlsx", "--better good --rater @sheet")
    texts = [("Name a metal.", high, "Oak.") for high in ("Tin.", "Gold.")]
    assert sorted(pick(load("mine").to_list(), "context", "high", "low")) == sorted(texts)
    assert sorted(load("mine", "default_judgements")["rater"]) == ["Sheet"] * 3 + ["bob"] * 3
