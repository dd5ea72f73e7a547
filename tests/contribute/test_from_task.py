"""`nnd new NAME --from task:...`: any multiple-choice task of lm-eval is a set, whose rates of prompts are the task's own.

The documents are made up here, in the format of each publisher, and lm-eval's own YAMLs read them.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

import nnd_tasks
from nnd_tasks.files import dump_yaml, read_yaml
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import list_configs, read_table
from nnd_tasks.task.task_files import INDEX
from tests.conftest import MODELS, needs_models
from tests.contribute.test_new import new, refusal
from tests.sets.tables import pick, read_arguments

ARGUMENTS = read_arguments(__file__)

INSTALLED = Path(find_spec("lm_eval").origin).parent / "tasks"
#: Question, right answer, wrong answers.
FACTS = ARGUMENTS["facts"]


def choices_of(number):
    """The four answers in an order of their own, and the place of the right one."""
    _, right, *wrong = FACTS[number]
    place = number % 4
    return [*wrong[:place], right, *wrong[place:]], place


#: Task -> the YAML of lm-eval, what differs from it, and a document in the format of its publisher.
TASKS = {
    "made_arc": (
        "arc/arc_easy.yaml",
        {"num_fewshot": 2, "training_split": "train", "test_split": "test"},
        lambda i: {
            "question": FACTS[i][0],
            "choices": {"text": choices_of(i)[0], "label": [*"ABCD"]},
            "answerKey": "ABCD"[choices_of(i)[1]],
        },
    ),
    "made_hellaswag": (
        "hellaswag/hellaswag.yaml",
        {"validation_split": "validation"},
        lambda i: {
            "activity_label": "Talking",
            "ctx_a": "A child asks a question.",
            "ctx_b": FACTS[i][0],
            "endings": [f"[step] {choice}" for choice in choices_of(i)[0]],
            "label": str(choices_of(i)[1]),
        },
    ),
    "made_piqa": (
        "piqa/piqa.yaml",
        {"validation_split": "validation"},
        lambda i: {"goal": FACTS[i][0], "sol1": FACTS[i][1 + i % 2], "sol2": FACTS[i][2 - i % 2], "label": i % 2},
    ),
    "made_blimp": (
        "blimp/adjunct_island.yaml",
        {"validation_split": "train"},
        lambda i: {"sentence_good": f"It is {FACTS[i][1]} again.", "sentence_bad": f"It again {FACTS[i][2]} is."},
    ),
}


def write_task(folder, name, documents, **settings):
    """Write the YAML of a task, and its documents, which are those of all its splits."""
    data = folder / f"{name}.jsonl"
    data.write_text("".join(f"{json.dumps(document)}\n" for document in documents), encoding="utf-8")
    splits = [split for key, split in settings.items() if key.endswith("_split") and split]
    kwargs = {"data_files": dict.fromkeys(splits, str(data)), "cache_dir": str(folder / "cache")}
    of_data = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": kwargs}
    (folder / f"{name}.yaml").write_text(dump_yaml({"task": name, **of_data, **settings}), encoding="utf-8")


def write_own(folder, documents, name="own", **settings):
    """Write a task of one's own, whose documents have a question ``q``, choices ``c`` and the right one, ``r``."""
    plain = {"output_type": "multiple_choice", "test_split": "test", "doc_to_text": "q"}
    write_task(folder, name, documents, **{**plain, "doc_to_choice": "c", "doc_to_target": "r", **settings})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of tasks. lm-eval is not told of ours, which no test of these needs, and which take half a second."""
    for name in ("tasks", "ours"):
        (tmp_path / name).mkdir()
    (tmp_path / "ours" / INDEX).write_text("{}", "utf-8")
    monkeypatch.setattr("nnd_tasks.run.adapter.write_task_folder", lambda: tmp_path / "ours")
    return tmp_path / "tasks"


def list_sets(home):
    return [*home.glob("nnd/*"), *home.glob("task_yamls/*")]


@needs_models
def test_the_rates_of_prompts_are_the_tasks_own(tmp_path, nnd_home):
    folder = tmp_path / "tasks"
    folder.mkdir()
    splits = dict.fromkeys(("training_split", "validation_split", "test_split"))
    metrics = [{"metric": name, "aggregation": "mean"} for name in ("acc", "acc_norm", "acc_bytes")]
    for task, (yaml, settings, document) in TASKS.items():
        changed = {**splits, **settings, "include": str(INSTALLED / yaml), "metric_list": metrics}
        write_task(folder, task, [document(i) for i in range(len(FACTS))], **changed)
    grouped = [task for task in TASKS if task != "made_blimp"]
    (folder / "all.yaml").write_text(dump_yaml({"group": "all_made", "task": grouped}), encoding="utf-8")
    new("task:all_made", f"--include_path {folder} --trust", "made")
    new("task:made_blimp", f"--include_path {folder}", "grammar")
    assert list_configs(nnd_home / "nnd" / "made")[0] == [task.removeprefix("made_") for task in grouped]
    sets = {task: f"nnd_{task}" for task in grouped} | {"made_arc": "nnd_made", "made_blimp": "nnd_grammar"}
    results = nnd_tasks.evaluate(
        [*sets, *sets.values()],
        model_args={"pretrained": str(MODELS / "tiny-lm-s" / "step-01244"), "dtype": "float32"},
        include_path=folder,
        batch_size=8,
        device="cpu",
    )
    rates = results["results"]
    for task, of_set in sets.items():
        asked = list_requests(results, task)
        assert asked == list_requests(results, of_set)
        assert len(asked) == len(FACTS) * (2 if task in ("made_piqa", "made_blimp") else 4)
        assert rates[of_set]["pass_rate_prompts_sum,none"] == rates[task]["acc,none"]
        assert rates[of_set]["pass_rate_prompts_bytes,none"] == rates[task]["acc_bytes,none"]
        assert rates[of_set]["clusters,none"] == len(FACTS)
        error = rates[task]["acc_stderr,none"]
        assert rates[of_set]["pass_rate_prompts_sum_stderr,none"] == pytest.approx(error)
    piqa = rates["nnd_made_piqa"]  # as docs/statistics.md says
    shares = [piqa[f"pass_rate_prompts{unit},none"] for unit in ("_sum", "_bytes", "")]
    assert [round(share, 3) for share in shares] == [0.583, 0.833, 0.333]
    assert rates["made_piqa"]["acc_norm,none"] == shares[1]
    assert len({rates[task]["acc,none"] for task in sets} | {rates[task]["acc_bytes,none"] for task in sets}) > 3


def list_requests(results, task):
    """List the (context, continuation) of all requests, sorted."""
    return sorted((str(args[0]), args[1]) for sample in results["samples"][task] for args in sample["arguments"])


# ---------------------------------------------------------------- a task of one's own

DOCUMENTS = [
    {"q": "one:", "c": ["None", "b", "b"], "r": 0, "kind": "easy"},
    {"q": "two:", "c": ["a", "b", "c"], "r": 2, "kind": "hard"},
]


@pytest.mark.parametrize(("settings", "pairs"), ARGUMENTS["each_right_choice_is_better_than_each_wrong_one"])
def test_each_right_choice_is_better_than_each_wrong_one(settings, pairs, folder):
    write_own(folder, DOCUMENTS, **settings)
    new("task:own", f"--include_path {folder}")
    assert sorted(pick(load("mine").to_list(), "context", "high", "low", "category")) == sorted(
        (*pair, "wrong_choice") for pair in pairs
    )


def test_a_wrong_choice_like_the_right_one_ties_and_documents_without_a_test_are_named(folder):
    choices = [["a", "b", "a"], ["a", " ", "c"], ["", "b"], ["a"]]
    write_own(folder, [{"q": f"{i}:", "c": texts, "r": 0} for i, texts in enumerate(choices)])
    said = new("task:own", f"--include_path {folder}")
    tests = sorted(pick(load("mine").to_list(), "context", "high", "low"))
    assert tests == [("0:", "a", "a"), ("0:", "a", "b"), ("1:", "a", "c")]
    assert "task own, document 1, 2: with an empty choice" in said
    assert "task own, document 3: without a wrong choice" in said


def test_documents_with_one_context_are_prompts_of_their_own(folder):
    write_own(folder, DOCUMENTS, doc_to_text="")
    new("task:own", f"--include_path {folder}")
    prompts = {(test["cluster_id"], test["context"], test["doc_id"]) for test in load("mine")}
    assert sorted(prompt[1:] for prompt in prompts) == [("", "0"), ("", "1")]


def test_the_set_has_a_category_a_delimiter_and_a_card_and_is_built_again_without_the_task(folder, nnd_home):
    write_own(folder, DOCUMENTS, target_delimiter="\n")
    options = f"--include_path {folder} --category kind --license mit"
    assert "nothing written" in new("task:own", f"{options} --dry-run")
    assert not list_sets(nnd_home)
    new("task:own", options)
    tests = pick(load("mine").to_list(), "high", "category")
    assert tests == [("None", "easy"), ("c", "hard"), ("c", "hard")]
    recipe = nnd_home / "task_yamls" / "mine" / "_recipe"
    task = read_yaml(recipe.with_name("nnd_mine.yaml"))
    assert (task["doc_to_text"], task["target_delimiter"]) == ("{{context}}", "\n")
    card = (nnd_home / "nnd" / "mine" / "README.md").read_text("utf-8")
    assert "The task own of lm-eval" in card
    assert "license: mit" in card
    assert "the authors of the benchmark say which choice is right" in card
    recipe.write_text(recipe.read_text("utf-8").replace("The task own of lm-eval", "Ours"), encoding="utf-8")
    new("task:own", options)
    assert read_yaml(recipe)["facts"]["title"] == "Ours"
    (folder / "own.yaml").unlink()
    assert fingerprint(read_table(build_set("mine").folder)) == fingerprint(read_table(nnd_home / "nnd" / "mine"))


OTHER = {"other_delimiter": {"target_delimiter": ""}, "other_context": {"doc_to_text": ""}}


@pytest.mark.parametrize(
    ("settings", "message", "options"),
    [
        *((*case, "") for case in ARGUMENTS["a_task_without_choices_to_compare_is_refused"]),
        ({}, "task own: its documents have no column 'sort'; there are: q, c, r, kind", "--category sort"),
        ({}, "--better: a task says itself what is better", "--better a"),
    ],
)
def test_a_task_or_an_option_that_cannot_be_used_is_refused(settings, message, options, folder, nnd_home):
    write_own(folder, DOCUMENTS, **settings)
    assert message in refusal("task:own", f"--include_path {folder} {options}")
    assert not list_sets(nnd_home)


@pytest.mark.parametrize("other", OTHER)
def test_tasks_of_several_forms_are_no_set(other, folder):
    write_own(folder, DOCUMENTS)
    write_own(folder, DOCUMENTS, "other", **OTHER[other])
    (folder / "all.yaml").write_text(dump_yaml({"group": "both", "task": ["own", "other"]}), encoding="utf-8")
    assert "make a set of each: own, other" in refusal("task:both", f"--include_path {folder}")


def test_code_of_a_task_runs_with_trust_only(folder, tmp_path):
    write_own(folder, DOCUMENTS)
    code = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\ndef choices(doc): return doc['c']\n"
    code += "def count(doc, results): return {'acc': 1}\n"
    (folder / "utils.py").write_text(code, encoding="utf-8")
    yaml = folder / "own.yaml"
    yaml.write_text(
        yaml.read_text("utf-8").replace("doc_to_choice: c", "doc_to_choice: !function utils.choices"), "utf-8"
    )
    (folder / "all.yaml").write_text(dump_yaml({"group": "all_own", "task": [{"task": "own"}]}), encoding="utf-8")
    for name in ("own", "all_own"):
        said = refusal(f"task:{name}", f"--include_path {folder}")
        assert f"{yaml}: names code (utils.choices), which would run with your rights" in said.replace("'", "")
    assert not (tmp_path / "ran").exists()
    new("task:all_own", f"--include_path {folder} --trust")
    assert (tmp_path / "ran").exists()
    assert len(load("mine")) == 3
    yaml.write_text(yaml.read_text("utf-8") + "process_results: !function utils.count\n", encoding="utf-8")
    assert "counts answers by code of its own" in refusal("task:own", f"--include_path {folder} --trust")


def test_an_unknown_task_is_refused_with_a_name_like_it(folder, few_tasks):
    assert "there is no task 'arc_eazy'; did you mean 'arc_easy'?" in refusal("task:arc_eazy")
