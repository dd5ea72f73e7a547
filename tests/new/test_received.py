"""`nnd build PATH/_recipe`: a recipe that somebody sent, and sets that were made before recipes had files of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from nnd_tasks.datasets import list_configs, read_report, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.new.draft import draft_set, write_set
from nnd_tasks.new.keep import build_recipe
from nnd_tasks.recipes import shelf
from nnd_tasks.recipes.shelf import find_recipe
from nnd_tasks.tables import fingerprint

TABLE = "q,answer,verdict\nTwo?,2,right\nTwo?,3,wrong\nTwo?,4,wrong\nRed?,a color,right\nRed?,a number,wrong\n"
RECIPE = {
    "files": {"judged.csv": {}},
    "context": "q",
    "candidate": "answer",
    "label": "verdict",
    "better": ["right"],
    "prompt": "{{context}}\nAnswer:",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NND_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def sent(folder: Path, **changes: object) -> Path:
    """Write a recipe and its table as somebody would send them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_recipe").write_text(yaml.safe_dump({**RECIPE, **changes}), encoding="utf-8")
    (folder / "judged.csv").write_text(TABLE, encoding="utf-8")
    return folder / "_recipe"


def test_a_recipe_with_its_data_beside_it_is_built_and_kept_with_a_task(home: Path, tmp_path: Path) -> None:
    path = sent(tmp_path / "friend")
    (tmp_path / "friend" / "nnd_friend.yaml").write_text("task: !function os.system\n")
    result, [task] = build_recipe(str(path))
    assert [(one.name, one.tests) for one in result.built] == [("default", 3)]
    said = yaml.safe_load(task.path.read_text("utf-8"))
    assert said["task"] == "nnd_friend"
    assert said["doc_to_text"] == "{{context}}\nAnswer:"
    assert "os.system" not in task.path.read_text("utf-8")
    assert find_recipe("friend").recipe.better == ("right",)
    (tmp_path / "friend" / "judged.csv").rename(tmp_path / "other.csv")
    again, _ = build_recipe("friend", tmp_path / "other.csv")
    assert again.built == result.built


def test_another_recipe_of_that_name_does_not_replace_the_set_unasked(home: Path, tmp_path: Path) -> None:
    build_recipe(str(sent(tmp_path / "friend")))
    before = fingerprint(read_table(home / "nnd" / "friend"))
    other = sent(tmp_path / "elsewhere" / "friend", better=["wrong"], prompt="{{context}} =")
    with pytest.raises(
        NNDError, match="holds a set that another recipe made; rename the folder of yours, or --replace"
    ):
        build_recipe(str(other))
    assert fingerprint(read_table(home / "nnd" / "friend")) == before
    _, [task] = build_recipe(str(other), replace=True)
    assert yaml.safe_load(task.path.read_text("utf-8"))["doc_to_text"] == "{{context}} ="
    assert fingerprint(read_table(home / "nnd" / "friend")) != before
    assert find_recipe("friend").recipe.better == ("wrong",)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("demo", "demo is a set of this package; rename the folder of the recipe"),
        ("blindspot_ted", "blindspot_ted is a set of this package"),
        ("nnd_mine", "a set is named by letters, digits and _, without nnd_ before them"),
        ("my set", "rename the folder of the recipe"),
        (
            "my-set",
            "a set is named by letters, digits and _, without nnd_ before them, not 'my-set'; rename the folder",
        ),
    ],
)
def test_a_recipe_cannot_pass_for_another_set(home: Path, tmp_path: Path, folder: str, message: str) -> None:
    with pytest.raises(NNDError, match=message):
        build_recipe(str(sent(tmp_path / folder)))
    assert not (home / "nnd").exists()


def test_a_recipe_is_read_once_in_a_build(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sent(tmp_path / "friend")
    read: list[Path] = []
    read_recipe = shelf.read_recipe
    monkeypatch.setattr(shelf, "read_recipe", lambda path: read.append(path) or read_recipe(path))
    build_recipe(str(path))
    assert read == [path]


def test_a_list_of_objects_around_the_rows_is_pointed_out_in_a_build(home: Path, tmp_path: Path) -> None:
    path = sent(tmp_path / "friend", files={"judged.json": {}})
    items = [{"q": "Two?", "answer": "2", "verdict": "right"}, {"q": "Two?", "answer": "3", "verdict": "wrong"}]
    (tmp_path / "friend" / "judged.json").write_text(json.dumps({"version": 1, "items": items}), encoding="utf-8")
    with pytest.raises(
        NNDError, match=r"A row of 'items' holds a list of objects; `rows:` 'items\[\]' makes a row of each"
    ):
        build_recipe(str(path))
    sent(tmp_path / "friend", files={"judged.json": {}}, rows="items[]", context="items[].q",
         candidate="items[].answer", label="items[].verdict")  # fmt: skip
    assert build_recipe(str(path))[0].built[0].tests == 1


def test_with_out_only_the_dataset_folder_is_written(home: Path, tmp_path: Path) -> None:
    result, tasks = build_recipe(str(sent(tmp_path / "friend")), out=tmp_path / "out")
    assert not tasks
    assert list_configs(result.folder)[0] == ["default"]
    assert not home.exists()


def test_a_set_of_an_earlier_release_is_built_again_by_its_report(home: Path, tmp_path: Path) -> None:
    table = tmp_path / "judged.csv"
    table.write_text(TABLE, encoding="utf-8")
    options = {"context": "q", "candidate": "answer", "label": "verdict", "better": ("right",)}
    written = write_set(draft_set("old", str(table), options))
    (home / "task_yamls" / "old" / "_recipe").unlink()  # it wrote none
    before = fingerprint(read_table(written.folder))
    result, _ = build_recipe("old", table)
    assert fingerprint(read_table(result.folder)) == before
    assert (home / "task_yamls" / "old" / "_recipe").is_file()


def test_facts_for_the_card_can_be_added_later(home: Path, tmp_path: Path) -> None:
    table = tmp_path / "judged.csv"
    table.write_text(TABLE, encoding="utf-8")
    options = {"context": "q", "candidate": "answer", "label": "verdict", "better": ("right",)}
    write_set(draft_set("mine", str(table), options))
    written = write_set(draft_set("mine", str(table), {**options, "license": "mit", "summary": "Answers."}))
    assert "license: mit" in (written.folder / "README.md").read_text("utf-8")
    assert read_report(written.folder)["default"]["recipe"]["summary"] == "Answers."
    with pytest.raises(NNDError, match="made of another table or recipe"):
        write_set(draft_set("mine", str(table), {**options, "better": ("wrong",)}))
    assert json.loads((written.folder / "build_report.json").read_text())["default"]["recipe"]["better"] == ["right"]


def test_the_config_of_a_file_that_is_not_there_is_named(home: Path, tmp_path: Path) -> None:
    files = {f"{one}.csv": {"config": one, "optional": True} for one in ("first", "second")}
    path = sent(tmp_path / "friend", files=files)
    (tmp_path / "friend" / "judged.csv").rename(tmp_path / "first.csv")
    result, _ = build_recipe(str(path), tmp_path / "first.csv")
    assert [one.name for one in result.built] == ["first"]
    assert "second.csv is not there, so config second is not built from it" in result.notes


def test_a_set_of_a_dataset_is_built_again_from_it(home: Path, tmp_path: Path) -> None:
    import datasets

    rows = [dict(zip(("q", "answer", "verdict"), line.split(","), strict=True)) for line in TABLE.splitlines()[1:]]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    datasets.DatasetDict({"test": datasets.Dataset.from_list(rows)}).save_to_disk(tmp_path / "splits")
    options = {"context": "q", "candidate": "answer", "label": "verdict", "better": ("right",)}
    written = write_set(draft_set("mine", str(tmp_path / "saved"), options))
    before = fingerprint(read_table(written.folder))
    for source in ("saved", "splits:test"):
        result, _ = build_recipe("mine", str(tmp_path / source))
        assert fingerprint(read_table(result.folder)) == before


def test_a_clean_config_has_a_task_and_a_task_stays_with_its_config(home: Path, tmp_path: Path) -> None:
    path = sent(tmp_path / "friend", files={}, config="@file", candidates="rows")

    def scored(file: str) -> dict[str, str]:
        (tmp_path / file).write_text(TABLE, encoding="utf-8")
        tasks = build_recipe(str(path), tmp_path / file)[1]
        return {task.name: yaml.safe_load(task.path.read_text("utf-8"))["dataset_name"] for task in tasks}

    assert scored("one.csv") == {"nnd_friend": "one", "nnd_friend_one_clean": "one_clean"}
    assert scored("two.csv") == {"nnd_friend_two": "two", "nnd_friend_two_clean": "two_clean"}
    assert scored("one.csv") == {"nnd_friend": "one", "nnd_friend_one_clean": "one_clean"}


def test_a_set_with_a_config_for_each_file_is_built_again_before_it_is_published(home: Path, tmp_path: Path) -> None:
    from hub_upload.checks import check_rebuild

    path = sent(tmp_path / "friend", files={"one.csv": {}, "two.csv": {}}, config="@file")
    for name in ("one.csv", "two.csv"):
        (tmp_path / "friend" / name).write_text(TABLE, encoding="utf-8")
    result, tasks = build_recipe(str(path))
    scored = {task.name: yaml.safe_load(task.path.read_text("utf-8"))["dataset_name"] for task in tasks}
    assert scored == {"nnd_friend": "one", "nnd_friend_two": "two"}
    tables = {config: read_table(result.folder, config) for config in ("one", "two")}
    reports = read_report(result.folder)
    assert check_rebuild("friend", tables, reports, tmp_path / "friend") == []
    (tmp_path / "friend" / "two.csv").write_text(TABLE.replace("Red", "Blue"), encoding="utf-8")
    with pytest.raises(NNDError, match=r"friend, config two: a new build gives .*two\.csv is another file"):
        check_rebuild("friend", tables, reports, tmp_path / "friend")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "context: q\ncandidate: answer\ncontext: verdict\n",
            r"_recipe: is not YAML .*the key 'context' stands twice in line 3",
        ),
        (
            "context: q\ncandidate: a.reply\nlabel: verdict\nbetter: [right]\n",
            r"before \.reply stands a list, not an object; use \[\]\.reply for every item",
        ),
        (
            "context: q\ncandidate: answer\nlabel: verdict\nbetter: [good]\n",
            "`better:` good: no candidate has this label",
        ),
    ],
)
def test_mistakes_in_a_recipe_are_told_in_its_own_words(home: Path, tmp_path: Path, text: str, message: str) -> None:
    path = sent(tmp_path / "friend")
    path.write_text(text, encoding="utf-8")
    source = tmp_path / "judged.json"
    row = {"q": "Q", "answer": "x", "a": [{"reply": "one"}, {"reply": "two"}], "verdict": "right"}
    source.write_text(json.dumps({"one": row}), encoding="utf-8")  # keyed by id
    with pytest.raises(NNDError, match=message):
        build_recipe(str(path), source)


def test_the_next_command_names_the_recipe_that_was_sent(home: Path, tmp_path: Path) -> None:
    path = sent(tmp_path / "friend")
    (tmp_path / "friend" / "judged.csv").unlink()
    with pytest.raises(NNDError, match=f"name it: nnd build {path} --source FILE"):
        build_recipe(str(path))
