"""Preference data: the strings that a task scores, in splits that share no text; TRL trains on them as they are."""

import json
import runpy
import shutil
import sys

import datasets
import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer

import nnd_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.schema import clean_name
from nnd_tasks.splits import SHARES, find_source, sources_of, split_of
from nnd_tasks.store import CARD, dataset_folder, list_configs, read_header, read_table
from nnd_tasks.task.task_files import tasks_on
from nnd_tasks.training.training_pairs import add_preferences, make_pairs
from tests.conftest import DATA, REPO, SOURCES, needs_data
from tests.task.tasks import build_task, load_task

COLUMNS = {"prompt", "chosen", "rejected", "category", "cluster_id", "source_id", "test_id"}


@pytest.fixture
def demo(demo_home, nnd_home):
    """Return the folder of the demo, with preference data."""
    folder = shutil.copytree(demo_home / "nnd" / "demo", nnd_home / "nnd" / "demo")
    add_preferences(folder)
    return folder


# ---------------------------------------------------------------- what is in it


def test_it_is_built_beside_the_tests_and_changes_nothing_of_them(nnd):
    before = nnd("build", "demo").out
    folder = dataset_folder("demo")
    tests = {path: path.read_bytes() for path in folder.glob("*/test-*.parquet")}
    status, out, _ = nnd("build", "demo", "--preference")
    assert status == 0
    assert out.startswith(before.rpartition("written to")[0])
    assert "preference: " in out
    assert {path: path.read_bytes() for path in folder.glob("*/test-*.parquet")} == tests
    assert list_configs(folder)[0] == ["authors", "clean"]
    assert nnd("check", "demo").status == 0
    data = nnd_tasks.load("demo", "preference")
    assert list(data) == list(SHARES)
    clean = nnd_tasks.load("demo", "clean")
    assert sorted(row["test_id"] for part in data.values() for row in part) == sorted(clean["test_id"])
    # A build without the option makes the set as it always was.
    assert nnd("build", "demo").status == 0
    with pytest.raises(NNDError, match="build it: nnd build demo --preference"):
        nnd_tasks.load("demo", "preference")
    assert not (folder / "preference").exists()
    assert "Preference data" not in (folder / CARD).read_text("utf-8")


def test_no_two_splits_share_a_prompt_or_a_source(demo):
    data = nnd_tasks.load("demo", "preference")
    for name in ("cluster_id", "source_id", "prompt"):
        parts = [set(part[name]) for part in data.values()]
        assert sum(map(len, parts)) == len(set.union(*parts))
    assert set(data["train"].column_names) == COLUMNS
    assert {split_of(source) for source in data["test"]["source_id"]} == {"test"}


@pytest.mark.parametrize(("name", "variant"), [("demo", ""), ("bio_mqm", "_en2de"), ("summeval", "")])
def test_prompt_and_text_are_what_the_task_scores(name, variant, real_sets, gpt2, monkeypatch):
    folder = real_sets(name)
    monkeypatch.setenv("NND_HOME", str(folder.parents[1]))
    config = clean_name(list_configs(folder)[1])
    yaml = next(tasks_on(name, config))
    tests = read_table(folder, config).slice(0, 400)
    pairs, rows = make_pairs(tests, yaml).to_pylist(), tests.to_pylist()
    task = load_task(f"nnd_{name}{variant}_clean", {"pretrained": str(gpt2)})
    prompts = {row["cluster_id"] for row in rows}
    docs = [doc for doc in task.eval_docs if doc["cluster_id"] in prompts]
    scored = {request for doc in docs for request in task._pairs(doc, task.fewshot_context(doc, 0))}
    assert {(pair["prompt"], pair[side]) for pair in pairs for side in ("chosen", "rejected")} <= scored
    assert [pair["test_id"] for pair in pairs] == [row["test_id"] for row in rows]
    for row, pair in zip(rows, pairs, strict=True):
        assert row["high"].split("\n")[0] in pair["chosen"]
        marked = [(row["low"][one["start"] : one["end"]]) for one in row.get("low_spans") or ()]
        assert [pair["rejected"][one["start"] : one["end"]] for one in pair.get("rejected_spans") or ()] == marked
        if "high_score" in row:
            assert pair["margin"] == row["high_score"] - row["low_score"]
        if "high_system" in row:
            assert (pair["chosen_model"], pair["rejected_model"]) == (row["high_system"], row["low_system"])


def test_terms_that_limit_training_are_said(demo_home, nnd_home, real_sets):
    folder = shutil.copytree(real_sets("summeval"), nnd_home / "nnd" / "summeval")
    made = add_preferences(folder)
    assert set(made) == {"preference", "all_rows_preference"}
    about = datasets.load_dataset_builder(str(folder), "preference").config.description
    assert about.startswith("Terms to accept before training. articles and highlights of CNN")
    assert about in (folder / CARD).read_text("utf-8")
    free = shutil.copytree(demo_home / "nnd" / "demo", nnd_home / "nnd" / "demo")
    add_preferences(free)
    assert "description" not in read_header(free)["configs"][-1]


def test_what_cannot_be_made_is_an_error(demo):
    tests, yaml = read_table(demo), next(tasks_on("demo", "clean"))
    with pytest.raises(NNDError, match=r"task nnd_demo_clean: doc_to_text: .*'nothing'"):
        make_pairs(tests, {**yaml, "doc_to_text": "{{nothing}}"})
    with pytest.raises(NNDError, match="it sets description"):
        make_pairs(tests, {**yaml, "description": "Write well."})
    card = (demo / CARD).read_text("utf-8")
    (demo / CARD).write_text(card.replace("nnd_set: demo", "nnd_set: other"), "utf-8")
    with pytest.raises(NNDError, match="no task scores any config of other"):
        add_preferences(demo)
    (demo / CARD).write_text(card.replace("path: preference/preference/train-", "path: ../../secret/train-"), "utf-8")
    with pytest.raises(NNDError, match="takes data from elsewhere"):
        read_header(demo)


# ---------------------------------------------------------------- splits


def test_a_text_is_found_in_other_dress():
    words = [f"word{i}" for i in range(300)]
    article = f"(Reuters) - {' '.join(words)}. The minister's party (the Left) didn't agree."
    treebank = f"-lrb- reuters -rrb- - {' '.join(words)} . the minister 's party -lrb- the left -rrb- did n't agree ."
    source = find_source(article)
    assert find_source(treebank) == source
    assert find_source(article[: len(article) // 2]) == source
    assert find_source(" ".join(words[150:])) != source
    assert find_source("第一章。") != find_source("第二章。")
    # Segments of a document that the group names.
    assert (
        find_source("Hello.", "doc7_1_Hello.")
        == find_source("Bye.", "doc7_2_Bye.")
        != find_source("Bye.", "doc8_2_Bye.")
    )


@needs_data
@pytest.mark.slow
def test_no_near_duplicate_is_in_another_split_of_any_other_set(real_sets, stress_home):
    """Every pair of texts of all sets: those with half of the shorter one's sequences of 6 words in common are in one split.

    Here every sequence counts, and the words are scikit-learn's; texts of fewer than 15 words are left out, as two questions
    may begin alike.
    """
    found = {}
    folders = {name: real_sets(name) for name in SOURCES if name != "wmt24_esa"}  # whose files are not here
    folders |= {path.name: path for path in (stress_home / "nnd").iterdir()}
    for name, folder in sorted(folders.items()):
        for config in list_configs(folder)[0]:
            tests = read_table(folder, config)
            texts = zip(tests["context"].to_pylist(), tests["high"].to_pylist(), strict=True)
            for (context, high), source in zip(texts, sources_of(tests), strict=True):
                assert found.setdefault(context or high, (name, source))[1] == source
    problems = {}
    for path in (DATA / "today/humanevalpack").glob("*.jsonl"):
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            problems.setdefault(row["task_id"].split("/")[1], set()).add(found.pop(row["prompt"])[1])
    assert len(problems) == 164
    assert {len(sources) for sources in problems.values()} == {1}
    words = CountVectorizer(ngram_range=(6, 6), binary=True, token_pattern=r"[^\W_]+", dtype=np.int32)
    grams = words.fit_transform(found)
    shared, size = (grams @ grams.T).tocoo(), np.asarray(grams.sum(axis=1)).ravel()
    few = np.minimum(size[shared.row], size[shared.col])
    near = (shared.row < shared.col) & (shared.data >= 0.5 * few) & (few >= 10)
    texts = list(found)
    pairs = [(texts[a], texts[b]) for a, b in zip(shared.row[near], shared.col[near], strict=True)]
    assert len(pairs) > 4000
    assert sum({found[a][0], found[b][0]} == {"blindspot_cnndm", "summeval"} for a, b in pairs) > 1
    leaks = [(a, b) for a, b in pairs if split_of(found[a][1]) != split_of(found[b][1])]
    assert leaks == []


def test_a_held_out_task_has_the_tests_of_its_split(demo, gpt2):
    model, tests = {"pretrained": str(gpt2)}, read_table(demo)
    splits = map(split_of, sources_of(tests))
    wanted = {test for test, split in zip(tests["test_id"].to_pylist(), splits, strict=True) if split == "test"}

    def tests_of(task):
        return {test["test_id"] for doc in task.eval_docs for test in doc["tests"]}

    held = build_task("nnd_demo_heldout", model)
    asked = build_task("nnd_demo", {**model, "split": "test", "trained_on": "demo:train"})
    assert tests_of(held) == tests_of(asked) == wanted
    signature = asked.dump_config()["metadata"]["nnd"]["signature"]
    assert (signature["protocol"]["split"], signature["model"]["trained_on"]) == ("test", "demo:train")
    whole = build_task("nnd_demo", model).dump_config()["metadata"]["nnd"]["signature"]
    assert "split" not in whole["protocol"]
    assert "trained_on" not in whole["model"]
    assert whole["protocol"]["data"] == signature["protocol"]["data"]
    for key, value in (("split", "tests"), ("trained_on", "demo:tests"), ("trained_on", "nnd_demo")):
        with pytest.raises(NNDError, match=f"metadata {key}="):
            load_task("nnd_demo", {key: value})


# ---------------------------------------------------------------- TRL


@pytest.mark.slow
@pytest.mark.parametrize("chat", [False, True])
def test_trl_trains_on_it_as_it_is(chat, demo, llama, tmp_path):
    trl = pytest.importorskip("trl")
    from transformers import AutoModelForSequenceClassification

    add_preferences(demo, chat=chat)
    data = nnd_tasks.load("demo", "preference")
    model = str(llama)
    same = {
        "max_steps": 2, "per_device_train_batch_size": 2, "output_dir": str(tmp_path), "report_to": [], "use_cpu": True,
        "save_strategy": "no", "logging_steps": 1, "bf16": False, "gradient_checkpointing": False,
    }  # fmt: skip
    settings = trl.DPOConfig(loss_type=["sigmoid_norm", "sft"], loss_weights=[1.0, 0.5], **same)
    parts = {"train_dataset": data["train"], "eval_dataset": {"held": data["test"].select(range(4))}}
    dpo = trl.DPOTrainer(model, args=settings, **parts)
    assert dpo.train().global_step == 2
    assert 0 <= dpo.evaluate()["eval_rewards/accuracies"] <= 1
    judge = AutoModelForSequenceClassification.from_pretrained(model, num_labels=1)
    reward = trl.RewardTrainer(judge, args=trl.RewardConfig(**same), processing_class=dpo.processing_class, **parts)
    assert reward.train().global_step == 2


@pytest.mark.slow
def test_the_example_trains_on_a_category_and_asks_for_terms(demo, llama, tmp_path, real_sets, monkeypatch, capsys):
    pytest.importorskip("trl")
    pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    example = runpy.run_path(str(REPO / "examples" / "train_dpo.py"))
    model, out = str(llama), tmp_path / "out"

    def train(*words):
        monkeypatch.setattr(sys, "argv", ["train_dpo.py", "--model", model, "--pairs", "6", "--out", str(out), *words])
        example["main"]()

    train("--category", "disfluent")
    before, after = (
        AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in (model, out / "demo-disfluent-0")
    )
    assert before.keys() == after.keys(), "the adapter is merged"
    assert any(not torch.equal(before[name].float(), after[name].float()) for name in before)
    runs = sorted(read_results(out / "results"), key=lambda run: len(run.trained_on))
    assert [(run.task, run.trained_on) for run in runs] == [
        ("nnd_demo_heldout", []),
        ("nnd_demo_heldout", ["demo:train"]),
    ]
    monkeypatch.setattr(sys, "argv", ["training_effects.py", str(out / "results")])
    runpy.run_path(str(REPO / "benchmarks" / "training_effects.py"))["main"]()
    first, second = (run.tests["passed"].mean() for run in runs)
    table = capsys.readouterr().out
    assert f"| nothing | {first:.3f} |" in table
    assert f"| demo-disfluent | {100 * (second - first):+.1f}" in table
    with pytest.raises(NNDError, match="there is no category fluent; there are: disfluent, off_target, unfaithful"):
        train("--category", "disfluent", "--category", "fluent")
    summeval = shutil.copytree(real_sets("summeval"), demo.parent / "summeval")
    add_preferences(summeval)
    with pytest.raises(NNDError, match=r"summeval: Terms to accept .* Add --accept-terms to train on it"):
        train("--set", "summeval")
