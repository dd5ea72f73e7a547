"""Checks of the tasks of a set, without lm-eval."""

from dataclasses import fields

import pytest
import yaml

from nnd_tasks.contribute.check import checking
from nnd_tasks.contribute.publish import dump_task_yaml
from nnd_tasks.store import tasks_dir
from nnd_tasks.task.task_files import read_task_yaml
from tests.contribute.made import NAME, Made
from tests.sets.tables import read_arguments

ARGUMENTS = read_arguments(__file__)

FOLDER = f"task_yamls/{NAME}"


def more(made, content):
    """Add a YAML beside that of the task."""
    made.files[f"{FOLDER}/nnd_made_more.yaml"] = content


# ---------------------------------------------------------------- as lm-eval does it


@pytest.mark.parametrize("path", sorted(tasks_dir().rglob("nnd_*.yaml")), ids=lambda path: path.stem)
def test_yamls_are_merged_as_lm_eval_does_it(path, tmp_path):
    from lm_eval.tasks._yaml_loader import load_yaml

    ours, foreign = read_task_yaml(path)
    ours.pop("variants", None)
    (tmp_path / "copy.yaml").write_text(dump_task_yaml(ours), encoding="utf-8")
    theirs = load_yaml(path)
    theirs.pop("variants", None)  # it may be that of a task that is included
    assert load_yaml(tmp_path / "copy.yaml") == theirs
    assert foreign == ()


def test_keys_are_those_of_lm_eval():
    from lm_eval.config.task import TaskConfig

    known = [field.name for field in fields(TaskConfig)]
    assert [key for key in known if not checking._KEYS.fullmatch(key)] == []
    assert not checking._KEYS.fullmatch("doc_to_texts")


# ---------------------------------------------------------------- which tasks


def test_tasks_of_other_sets_are_left_alone(made):
    made.files["task_yamls/other/nnd_other.yaml"] = "task: nnd_other\ndataset_path: nnd/other\n"
    made.files["task_yamls/other/broken.yaml"] = "task: ["
    made.files[f"{FOLDER}/group.yaml"] = "group: all\ntask: [nnd_made]\n"
    made.files[f"{FOLDER}/.ipynb_checkpoints/nnd_made-checkpoint.yaml"] = "include: ../nnd_made.yaml\n"
    assert made.found() == {}


def test_a_later_folder_replaces_a_task_of_a_set_named_by_its_folder(made, tmp_path):
    made.task |= {"dataset_path": str(made.folder), "doc_to_text": "{{no}}"}
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "x.yaml").write_text(yaml.safe_dump(made.task))
    made.task["doc_to_text"] = "{{context}}"
    assert made.found() == {}
    one = made.found(tasks=[tmp_path / "tasks"])["prompt_invalid"]
    assert "'no' is undefined (fields of this set: cluster_id, context)" in one.message


def test_tasks_of_ours_may_read_a_config_that_is_built_with_an_option_only(nnd_home):
    made = Made(nnd_home)
    made.header["nnd_set"] = "summeval"
    assert "nnd build summeval" in made.found()["config_not_built"].message


def test_a_task_that_is_made_of_another_need_not_name_categories(made):
    made.task["variants"] = ["heldout"]
    assert made.found() == {}


# ---------------------------------------------------------------- what is wrong with one


@pytest.mark.parametrize(("content", "message"), ARGUMENTS["what_is_wrong_with_a_yaml_is_said"])
def test_what_is_wrong_with_a_yaml_is_said(content, message, made):
    more(made, content)
    found = made.found()
    assert list(found) == ["task_invalid"]
    assert message in found["task_invalid"].message


def test_a_prompt_that_fails_late_names_the_test(made):
    made.task["doc_to_text"] = "{{context}} {{hint | length}}"
    made.tests["hint"] = "a hint"
    made.tests.loc[[40, 41], "hint"] = None
    assert [row.index for row in made.found()["prompt_invalid"].rows] == [40]


# ---------------------------------------------------------------- from strangers


@pytest.mark.parametrize(("lines", "named"), ARGUMENTS["what_lm_eval_would_take_from_elsewhere_is_named"])
def test_what_lm_eval_would_take_from_elsewhere_is_named(lines, named, made):
    made.files[f"{FOLDER}/evil.py"] = "raise SystemExit('it ran')"
    more(made, f"include: nnd_made.yaml\ntask: more\n{lines}\n")
    found = made.found()
    assert list(found) == ["task_code"]
    assert named in found["task_code"].message


def test_a_file_beside_the_yaml_is_not_our_class(made):
    """lm-eval would import it."""
    made.files[f"{FOLDER}/nnd_tasks/task/task.py"] = "raise SystemExit('it ran')"
    more(made, "include: nnd_made.yaml\ntask: more\nclass: !function nnd_tasks.task.task.NNDTask\n")
    assert list(made.found()) == ["task_code"]


@pytest.mark.parametrize(
    "key", ["doc_to_text", "description", "gen_prefix", "fewshot_config.doc_to_text", "fewshot_config.gen_prefix"]
)
def test_templates_do_not_reach_python(key, made, tmp_path):
    file = tmp_path / "ran"
    template = f"{{{{ cycler.__init__.__globals__.os.system('touch {file}') }}}}"
    first, _, second = key.partition(".")
    made.task[first] = {second: template} if second else template
    found = made.found()
    assert list(found) == ["prompt_invalid"]
    assert "unsafe" in found["prompt_invalid"].message
    assert not file.exists()
