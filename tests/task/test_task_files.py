"""The folder of tasks that lm-eval is given."""

import hashlib
import importlib
import importlib.resources
import json
from pathlib import Path

import pytest
import yaml

from nnd_tasks.errors import NNDError
from nnd_tasks.store import tasks_dir
from nnd_tasks.task.task_files import FOLDER, list_variants, read_task_yaml, tasks_on, write_task_folder
from tests.conftest import REPO

#: A task, and a digest of what its YAML sets; made of the YAMLs when each variant had one that somebody had written.
SHIPPED = Path(__file__).with_name("shipped_tasks.txt")
READERS = ("choice", "judge", "rating", "validator")
#: What the digest leaves out: how the task is made.
HOW = ("class", "fewshot_config", "reader", "variants")


def read_folder(folder):
    """Return task or group -> its settings."""
    settings = [read_task_yaml(path)[0] for path in sorted(folder.rglob("*.yaml"))]
    return {task.get("group") or task["task"]: task for task in settings}


def digest(settings):
    kept = {key: value for key, value in settings.items() if key not in HOW}
    kept["tag"] = kept.get("tag") or []
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


def test_names_and_contents_of_all_tasks_are_those_that_were_written_once(nnd_home):
    tasks = read_folder(write_task_folder())
    lines = "".join(f"{name} {digest(settings)}\n" for name, settings in sorted(tasks.items()))
    assert lines == SHIPPED.read_text("utf-8")
    for name, settings in tasks.items():
        end = name.rpartition("_")[2]
        assert settings.get("reader") == (end if end in READERS else None)


def test_lm_eval_knows_them_with_their_tags(nnd_home):
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(write_task_folder()), include_defaults=False)
    names = [line.split()[0] for line in SHIPPED.read_text("utf-8").splitlines()]
    assert sorted([*manager.all_subtasks, *manager.all_groups]) == names
    assert set(manager.all_tags) == {"nnd_language_en", *(tag for tag in manager.all_tags if tag.startswith("nnd_"))}


def write_own(nnd_home, file, **settings):
    path = nnd_home / "task_yamls" / "mine" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    included = {"include": str(tasks_dir() / "_base"), "dataset_path": "nnd/mine", "doc_to_text": "{{context}}"}
    path.write_text(yaml.safe_dump({**included, "task": path.stem, **settings}), encoding="utf-8")
    return path


def test_a_contributors_set_has_variants_alike_and_a_written_yaml_wins(nnd_home):
    metadata = {"version": "3-B", "categories": ["a"], "overlong": "whole"}
    variants = ["choice", "clean", "heldout", "judge", "rating", "validator"]
    write_own(nnd_home, "nnd_mine.yaml", dataset_name="cnn", tag=["x"], metadata=metadata, variants=variants)
    write_own(nnd_home, "nnd_mine_choice.yaml", dataset_name="cnn", doc_to_text="mine: {{context}}")
    tasks = read_folder(write_task_folder())
    assert tasks["nnd_mine_choice"]["doc_to_text"] == "mine: {{context}}"
    assert tasks["nnd_mine_validator"]["reader"] == "validator"
    assert tasks["nnd_mine_clean"]["dataset_name"] == "cnn_clean"
    assert tasks["nnd_mine_heldout"]["metadata"] == {"version": "3-B", "overlong": "whole", "split": "test"}
    assert [tasks[f"nnd_mine_{variant}"].get("tag", []) for variant in variants] == [[]] * 6
    assert [task["task"] for task in tasks_on("mine", "cnn_clean")] == ["nnd_mine_clean"]


def test_a_task_of_the_user_takes_the_place_of_ours_of_the_same_name(nnd_home):
    path = write_own(nnd_home, "other.yaml", task="nnd_demo", doc_to_text="mine")
    folder = write_task_folder()
    assert read_folder(folder)["nnd_demo"]["doc_to_text"] == "mine"
    assert len([file for file in folder.rglob("*.yaml") if read_task_yaml(file)[0].get("task") == "nnd_demo"]) == 1
    assert str(path) in (folder / "mine" / "other.yaml").read_text("utf-8")


def test_the_folder_is_made_anew_only_where_something_changed(nnd_home):
    folder = write_task_folder()
    before = folder.stat()
    after = write_task_folder().stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    path = write_own(nnd_home, "nnd_mine.yaml", variants=["choice"])
    assert (write_task_folder() / "mine" / "nnd_mine_choice.yaml").is_file()
    write_own(nnd_home, "nnd_mine.yaml", variants=["validator"])
    assert not (write_task_folder() / "mine" / "nnd_mine_choice.yaml").exists()
    path.unlink()
    assert not (write_task_folder() / "mine").exists()
    assert {left.name for left in nnd_home.iterdir()} == {FOLDER, "task_yamls"}


def test_a_home_that_cannot_be_written_is_no_obstacle(nnd_home, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    nnd_home.mkdir()
    (nnd_home / FOLDER).write_text("no folder can be made here")
    assert write_task_folder().is_relative_to(tmp_path / "cache")


def test_a_task_can_be_included_from_the_folder_and_so_can_a_base(nnd_home):
    folder = write_task_folder()
    assert read_task_yaml(folder / "quiz_design" / "_base") == read_task_yaml(tasks_dir() / "quiz_design" / "_base")


@pytest.mark.parametrize(
    ("variants", "expected"), [(["chioce"], "did you mean 'choice'"), ("choice", "expected a list of")]
)
def test_a_mistake_in_variants_is_named(variants, expected):
    with pytest.raises(NNDError, match=f"^task nnd_mine: variants.*{expected}"):
        list_variants({"task": "nnd_mine", "variants": variants})


def test_the_entry_point_leads_to_the_folder(nnd_home, monkeypatch):
    project = (REPO / "pyproject.toml").read_text("utf-8")
    declared = project.partition('[project.entry-points."lm_eval.tasks"]\nnnd_tasks = "')[2].partition('"')[0]
    package = importlib.import_module(declared)
    importlib.reload(package)  # another test may have imported it, with another home
    folder = nnd_home / FOLDER
    assert [Path(path) for path in package.__path__] == [folder]
    assert Path(package.__file__).parent == folder
    assert importlib.resources.files(package) == folder
    assert (folder / "demo" / "nnd_demo_choice.yaml").is_file()
