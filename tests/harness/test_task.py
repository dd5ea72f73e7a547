"""The task inside the harness: requests, token counts, settings, errors."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.tasks import TaskManager

import nnd_tasks
from nnd_tasks.datasets import read_table, tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.answers import Answer
from nnd_tasks.harness.prompts import ClusterSampler
from nnd_tasks.harness.requests import Request
from nnd_tasks.harness.settings import Settings
from nnd_tasks.harness.task import NNDTask
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.shelf import find_recipe
from nnd_tasks.sets.tasks import write_tasks
from nnd_tasks.tables import fingerprint
from tests.conftest import REPO
from tests.random_models import WINDOW, evaluate
from tests.sets.folders import write
from tests.sets.small_files import small_text, write_files
from tests.sets.tables import LABELS, make_rows

AUTHORS = {"append_eos": True, "ties": "authors"}


def load_task(name: str, metadata: dict[str, Any] | None = None, include: Sequence[Path] = ()) -> Any:
    manager = TaskManager(include_path=[tasks_dir(), *include], include_defaults=False, metadata=metadata or {})
    return manager.load([name])["tasks"][name]


def small_set(folder: Path, rows: list[tuple[str, str, str]]) -> Path:
    """Write a set of (context, candidate, label) rows as ``folder/nnd/small`` with a task ``small``."""
    table = [{"c": context, "t": text, "l": label} for context, text, label in rows]
    made = make_rows(folder, table, **{**LABELS, "better": "ok"}, candidates="rows", config="authors")
    write(folder / "nnd" / "small", {"authors": made.tables["authors"]})
    (folder / "yaml").mkdir(exist_ok=True)
    (folder / "yaml" / "small.yaml").write_text(
        f"include: {tasks_dir() / '_base'}\ntask: small\ndataset_path: {folder / 'nnd' / 'small'}\n"
        'doc_to_text: "{{context}}\\nQuestion:"\n'
    )
    return folder / "yaml"


# ---------------------------------------------------------------- documents and requests


@pytest.mark.parametrize(
    ("task", "requests", "documents"),
    [
        ("nnd_quiz_design", 1860, 332),
        ("nnd_challenge300", 771, 178),
        ("nnd_summeval", 828, 98),
        ("nnd_frank", 794, 159),
    ],
)
def test_every_distinct_prompt_and_candidate_is_one_request(
    task: str, requests: int, documents: int, tiny_models: dict[str, Path], real_home: Path
) -> None:
    built = load_task(task, {"pretrained": str(tiny_models["gpt2"])})
    built.set_config("num_fewshot", 0)
    built.build_all_requests()
    assert len(built.instances) == requests
    assert len({instance.args for instance in built.instances}) == requests
    assert len(built.eval_docs) == documents


def test_documents_hold_every_test_once_and_index_its_texts(real_home: Path) -> None:
    from nnd_tasks import load

    table = {row["test_id"]: row for row in load("quiz_design")}
    seen = []
    for document in load_task("nnd_quiz_design").eval_docs:
        for test in document["tests"]:
            row = table[test["test_id"]]
            assert document["candidates"][test["high"]] == row["high"]
            assert document["candidates"][test["low"]] == row["low"]
            assert (document["context"], document["answer"]) == (row["context"], row["answer"])
            seen.append(test["test_id"])
        assert len(set(document["candidates"])) == len(document["candidates"])
    assert sorted(seen) == sorted(table)


@pytest.mark.parametrize(
    "yaml", sorted(path.name for path in tasks_dir().rglob("nnd_*.yaml") if "group:" not in path.read_text("utf-8"))
)
def test_every_task_loads_and_renders_its_first_prompt(yaml: str, real_home: Path) -> None:
    task = load_task(yaml.removesuffix(".yaml"))
    document = task.eval_docs[0]
    prompt = task.doc_to_text(document)
    assert document["context"] in prompt
    assert "{{" not in prompt
    if yaml.endswith("_authors.yaml") and "quiz" not in yaml:
        assert prompt == document["context"]


def test_the_prompts_of_the_families_are_those_of_the_authors(real_home: Path) -> None:
    document = load_task("nnd_quiz_design").eval_docs[0]
    p, a, q = document["context"], document["answer"], document["candidates"][0]
    expected = {
        "nnd_quiz_design_authors": (f"{a} \n {p}", q),
        "nnd_quiz_design_prophetnet": (f"{a} [SEP] {p}", q),
        "nnd_quiz_design_mixqg": (f"{a} \\n {p}", q),
        "nnd_quiz_design_macaw": (f"$question$ ; $context$ = {p} ; $answer$ = {a}", f"$question$ = {q}"),
    }
    for name, (prompt, candidate) in expected.items():
        task = load_task(name)
        assert task.doc_to_text(document) == prompt
        assert task.doc_to_choice(document)[0] == candidate
        assert task.config.target_delimiter == ""
    macaw = load_task("nnd_challenge300_macaw")
    question = macaw.eval_docs[0]
    assert macaw.doc_to_text(question) == f"$answer$ ; $question$ = {question['context']}"
    assert macaw.doc_to_choice(question)[0] == f"$answer$ = {question['candidates'][0]}"


def test_the_group_has_the_papers_sets_and_no_aggregate(tiny_models: dict[str, Path], real_home: Path) -> None:
    results = evaluate(tiny_models["gpt2"], ["nnd"], limit=1)
    assert set(results["group_subtasks"]["nnd"]) == {"nnd_quiz_design", "nnd_challenge300", "nnd_summeval", "nnd_frank"}
    assert not results.get("groups")


# ---------------------------------------------------------------- token counts


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt2", {}),
        ("gpt2", {"num_fewshot": 2}),
        ("gpt2", {"description": "Read, then go on. "}),
        ("t5", {"description": "Read, then go on. "}),
        ("llama", {"system_instruction": "Answer well."}),
        ("llama", {"apply_chat_template": True, "num_fewshot": 1, "system_instruction": "Answer well."}),
        ("llama", {"apply_chat_template": True, "fewshot_as_multiturn": True, "num_fewshot": 2}),
        ("llama", {"model_args": {"add_bos_token": False}}),
        ("t5", {"num_fewshot": 1}),
        ("t5", {"model_args": {"backend": "seq2seq"}, "metadata": {"append_eos": True}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value) or "plain",
)
def test_token_counts_are_those_that_the_backend_scored(
    model: str,
    options: dict[str, Any],
    tiny_models: dict[str, Path],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    scored: dict[tuple[str, str], int] = {}
    original = SharedPrefixLM._loglikelihood_tokens

    def spy(self: SharedPrefixLM, requests: list[Any], **kwargs: Any) -> Any:
        for request, _, continuation in requests:
            scored[request] = len(continuation)
        return original(self, requests, **kwargs)

    monkeypatch.setattr(SharedPrefixLM, "_loglikelihood_tokens", spy)
    options = {"fewshot_as_multiturn": False, **options}
    (tmp_path / "described.yaml").write_text(
        f"include: {tasks_dir() / 'demo' / 'nnd_demo.yaml'}\ntask: described\n"
        f"description: {json.dumps(options.pop('description', ''))}\n"
    )
    samples = evaluate(tiny_models[model], ["described"], limit=6, include_path=tmp_path, **options)
    samples = samples["samples"]["described"]
    compared = 0
    for sample in samples:
        for record, request in zip(sample["candidates"], sample["arguments"], strict=True):
            assert record["tokens"] == scored[tuple(request)]
            compared += 1
    assert compared == len(scored) > 20


def test_counts_do_not_need_the_model_to_run(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    cache = str(tmp_path / "cache")
    first = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=5, use_cache=cache)

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the model ran")

    monkeypatch.setattr(SharedPrefixLM, "_loglikelihood_tokens", never)
    second = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=5, use_cache=cache)
    for one, two in zip(first["samples"]["nnd_demo"], second["samples"]["nnd_demo"], strict=True):
        assert one["candidates"] == two["candidates"]
        assert one["tests"] == two["tests"]
    assert first["results"]["nnd_demo"] == second["results"]["nnd_demo"]


def test_a_ready_made_model_is_asked_for_its_tokenizer_or_needs_it_named(
    tiny_models: dict[str, Path], home: Path
) -> None:
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=str(tiny_models["t5"]), dtype="float32", device="cpu", batch_size=8)
    options = {"model": lm, "tasks": ["nnd_demo"], "limit": 3, "bootstrap_iters": 0}
    with pytest.raises(NNDError, match="tokenizer"):
        simple_evaluate(**options, task_manager=TaskManager(include_path=tasks_dir(), include_defaults=False))
    manager = TaskManager(
        include_path=tasks_dir(), include_defaults=False, metadata={"tokenizer": str(tiny_models["t5"])}
    )
    usual = evaluate(tiny_models["t5"], ["nnd_demo"], limit=3)
    for found in (simple_evaluate(**options, task_manager=manager), nnd_tasks.evaluate(**options)):
        assert found["results"]["nnd_demo"]["pass_rate,none"] == usual["results"]["nnd_demo"]["pass_rate,none"]
        for one, two in zip(found["samples"]["nnd_demo"], usual["samples"]["nnd_demo"], strict=True):
            assert [c["tokens"] for c in one["candidates"]] == [c["tokens"] for c in two["candidates"]]
            assert [c["sum"] for c in one["candidates"]] == pytest.approx(
                [c["sum"] for c in two["candidates"]], rel=1e-5
            )


def test_python_objects_as_model_arguments_work_and_stay_out_of_the_results(
    tiny_models: dict[str, Path], home: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_models["gpt2"])
    tokenizer = AutoTokenizer.from_pretrained(tiny_models["gpt2"])
    arguments = {"pretrained": model, "tokenizer": tokenizer}
    results = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=3, model_args=arguments)
    usual = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=3)
    assert results["results"]["nnd_demo"]["pass_rate,none"] == usual["results"]["nnd_demo"]["pass_rate,none"]
    json.dumps(results["configs"])  # nothing in there but plain values


def test_lm_eval_calls_a_task_in_the_order_that_its_docstring_gives(
    tiny_models: dict[str, Path], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = [
        *("__init__", "download", "prepare", "set_config", "set_fewshot_seed", "build_all_requests", "doc_to_prefix"),
        *("fewshot_context", "construct_requests", "apply_filters", "process_results", "aggregation", "dump_config"),
        "higher_is_better",
    ]
    calls: list[str] = []

    def noting(hook: str) -> Any:
        original = getattr(NNDTask, hook)

        @wraps(original)  # lm-eval looks at the arguments of __init__
        def noted(*args: Any, **kwargs: Any) -> Any:
            if hook != "doc_to_prefix" or "prepare" in calls:  # __init__ tries that template too
                calls.append(hook)
            return original(*args, **kwargs)

        return noted

    for hook in hooks:
        monkeypatch.setattr(NNDTask, hook, noting(hook))
    evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=2)
    assert list(dict.fromkeys(calls)) == hooks
    assert all(f"`{hook}`" in str(NNDTask.__doc__) or f"``{hook}``" in str(NNDTask.__doc__) for hook in hooks)


def test_an_answer_is_written_as_a_list_and_keeps_what_it_knows_between_processes() -> None:
    instance = Request("loglikelihood", {}, ("a", "b"), 3, ("task", 1, 1), candidate=2, context_part="none", tokens=7)
    answer = Answer.to(instance, (-1.5, True))
    assert json.dumps([answer]) == "[[-1.5, true, 7]]"
    for copied in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert copied == (-1.5, True, 7)
        assert (copied.candidate, copied.context_part) == (2, "none")


# ---------------------------------------------------------------- settings


def test_append_eos_scores_one_token_more_per_candidate(tiny_models: dict[str, Path], home: Path) -> None:
    plain = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=4)["samples"]["nnd_demo"]
    eos = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=4, metadata={"append_eos": "true"})["samples"]["nnd_demo"]
    for one, two in zip(plain, eos, strict=True):
        assert [c["tokens"] + 1 for c in one["candidates"]] == [c["tokens"] for c in two["candidates"]]
        assert [c["bytes"] for c in one["candidates"]] == [c["bytes"] for c in two["candidates"]]


ROWS = [
    ("Where?", "In the garden.", "wrong"),
    ("Where?", "In the kitchen.", "ok"),
    ("Where?", "", "wrong"),
    ("When?", "At noon.", "ok"),
    ("When?", "At noon.", "wrong"),
    ("Why?", "", "ok"),
    ("Why?", "   ", "wrong"),
]


def test_empty_candidates_count_as_unscored_and_never_as_a_pass(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    include = [small_set(tmp_path, ROWS)]
    found = evaluate(tiny_models["gpt2"], ["small"], include_path=include)["results"]["small"]
    # kitchen > garden, kitchen > "", noon > noon, and the cluster of which nothing can be scored
    assert (found["tests,none"], found["unscored,none"], found["ties,none"]) == (2, 2, 1)
    assert found["clusters,none"] == 2
    with_eos = evaluate(tiny_models["gpt2"], ["small"], include_path=include, metadata={"append_eos": True})
    found = with_eos["results"]["small"]
    assert (found["tests,none"], found["unscored,none"], found["clusters,none"]) == (4, 0, 3)


def test_the_empty_answer_of_challenge_300_leaves_one_test_unscored(
    tiny_models: dict[str, Path], real_home: Path
) -> None:
    found = evaluate(tiny_models["gpt2"], ["nnd_challenge300"], log_samples=False)["results"]["nnd_challenge300"]
    assert (found["tests,none"], found["unscored,none"]) == (806, 1)
    found = evaluate(tiny_models["gpt2"], ["nnd_challenge300_gpt2"], log_samples=False, metadata=AUTHORS)
    found = found["results"]["nnd_challenge300_gpt2"]
    assert (found["tests,none"], found["unscored,none"]) == (807, 0)


def test_a_tie_fails_or_goes_to_the_second_candidate_of_the_source(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    rows = [("A?", "Yes.", "ok"), ("A?", "Yes.", "wrong"), ("B?", "No.", "wrong"), ("B?", "No.", "ok")]
    include = [small_set(tmp_path, rows)]
    found = evaluate(tiny_models["gpt2"], ["small"], include_path=include)["results"]["small"]
    assert (found["pass_rate,none"], found["ties,none"]) == (0.0, 2)
    found = evaluate(tiny_models["gpt2"], ["small"], include_path=include, metadata={"ties": "authors"})["results"][
        "small"
    ]
    assert (found["pass_rate,none"], found["ties,none"]) == (0.5, 2)


def test_severities_have_rates_of_their_own(tiny_models: dict[str, Path], real_home: Path) -> None:
    results = evaluate(tiny_models["gpt2"], ["nnd_mqm_ende"], limit=12)
    found, samples = results["results"]["nnd_mqm_ende"], results["samples"]["nnd_mqm_ende"]
    for severity in ("Minor", "Major"):
        outcomes = [t["passed"] for s in samples for t in s["tests"] if t["severity"] == severity]
        assert found[f"pass_rate_severity_{severity.lower()},none"] == pytest.approx(sum(outcomes) / len(outcomes))
        assert found[f"pass_rate_severity_{severity.lower()}_stderr,none"] > 0


def test_limit_counts_clusters_and_samples_selects_them(tiny_models: dict[str, Path], home: Path) -> None:
    whole = {s["doc"]["cluster_id"]: s for s in evaluate(tiny_models["gpt2"], ["nnd_demo"])["samples"]["nnd_demo"]}
    limited = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=7)
    assert limited["results"]["nnd_demo"]["clusters,none"] == 7
    chosen = evaluate(tiny_models["gpt2"], ["nnd_demo"], samples={"nnd_demo": [9, 2, 31]})
    assert chosen["results"]["nnd_demo"]["clusters,none"] == 3
    for sample in [*limited["samples"]["nnd_demo"], *chosen["samples"]["nnd_demo"]]:
        same = whole[sample["doc"]["cluster_id"]]
        assert [t["test_id"] for t in sample["tests"]] == [t["test_id"] for t in same["tests"]]
        assert [c["sum"] for c in sample["candidates"]] == pytest.approx([c["sum"] for c in same["candidates"]])


def test_exemplars_come_from_other_clusters_and_do_not_depend_on_the_selection(
    tiny_models: dict[str, Path], home: Path
) -> None:
    runs = [
        evaluate(tiny_models["gpt2"], ["nnd_demo"], num_fewshot=2, **selection)["samples"]["nnd_demo"]
        for selection in ({"limit": 12}, {"samples": {"nnd_demo": [11, 3, 40]}})
    ]
    prompts = [{s["doc"]["cluster_id"]: s["arguments"][0][0] for s in run} for run in runs]
    common = prompts[0].keys() & prompts[1].keys()
    assert len(common) == 2
    assert all(prompts[0][key] == prompts[1][key] for key in common)
    for sample in runs[0]:
        assert sample["arguments"][0][0].count(sample["doc"]["context"]) == 1
        assert sample["arguments"][0][0].count("\n\n") >= 2


def test_the_sampler_never_draws_the_evaluated_cluster_and_follows_the_seed() -> None:
    docs = [{"cluster_id": str(i)} for i in range(6)]
    sampler = ClusterSampler(docs)
    sampler.set_rnd(1)
    drawn = [[d["cluster_id"] for d in sampler.sample(5, doc)] for doc in docs]
    assert all(doc["cluster_id"] not in row and len(set(row)) == 5 for doc, row in zip(docs, drawn, strict=True))
    assert drawn == [[d["cluster_id"] for d in sampler.sample(5, doc)] for doc in docs]
    sampler.set_rnd(2)
    assert drawn != [[d["cluster_id"] for d in sampler.sample(5, doc)] for doc in docs]
    with pytest.raises(NNDError, match="only 5 prompts about other contexts"):
        sampler.sample(6, docs[0])


def test_exemplars_are_about_other_contexts_than_that_of_the_prompt() -> None:
    docs = [{"cluster_id": str(i), "context": f"paragraph {i // 2}", "answer": str(i)} for i in range(8)]
    docs += [{"cluster_id": f"empty {i}", "context": "", "answer": str(i)} for i in range(2)]
    sampler = ClusterSampler(docs)
    sampler.set_rnd(1)
    for doc in docs[:8]:
        drawn = sampler.sample(8, doc)
        assert doc["context"] not in {other["context"] for other in drawn}
        # A shortened context, or none, is still that of its cluster: the same exemplars.
        assert all(sampler.sample(8, doc | {"context": text}) == drawn for text in ("para", ""))
    with pytest.raises(NNDError, match="the set has only 8 prompts about other contexts"):
        sampler.sample(9, docs[0])
    assert len(sampler.sample(9, docs[8])) == 9, "of prompts without a context none is about another's"


def test_no_exemplar_of_quiz_design_is_about_the_paragraph_of_the_test(real_home: Path) -> None:
    task = load_task("nnd_quiz_design")
    task.set_fewshot_seed(1234)
    answered = 0
    for doc in task.eval_docs:
        drawn = task.sampler.sample(5, doc)
        assert doc["context"] not in {other["context"] for other in drawn}
        answered += any(task.doc_to_target(other) in doc["candidates"] for other in drawn)
    assert answered == 0, "an exemplar gives the answer to a test"


# ---------------------------------------------------------------- results file


def test_the_results_say_what_the_numbers_rest_on(tiny_models: dict[str, Path], home: Path) -> None:
    results = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=5)
    known = results["configs"]["nnd_demo"]["metadata"]["nnd"]
    assert known["fingerprint"] == fingerprint(read_table(home / "nnd" / "demo"))
    assert (known["local"], known["config"], known["append_eos"], known["ties"]) == (True, "authors", False, "fail")
    counted = [t["category"] for s in results["samples"]["nnd_demo"] for t in s["tests"]]
    assert {name: size["tests"] for name, size in known["categories"].items()} == {
        name: counted.count(name) for name in set(counted)
    }
    json.dumps(results["configs"])


def test_the_metrics_named_in_the_results_are_those_of_the_samples(tiny_models: dict[str, Path], home: Path) -> None:
    """Loggers such as that of Weights & Biases look up each of them in every sample."""
    results = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=2)
    names = [entry["metric"] for entry in results["configs"]["nnd_demo"]["metric_list"]]
    assert names[0] == "pass_rate"
    for sample in results["samples"]["nnd_demo"]:
        assert set(names) <= set(sample)
    assert {f"{name},none" for name in names} <= set(results["results"]["nnd_demo"])


def test_predict_only_keeps_the_scores_and_skips_the_rates(tiny_models: dict[str, Path], home: Path) -> None:
    results = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=3, predict_only=True)
    assert "pass_rate,none" not in results["results"]["nnd_demo"]
    assert all(c["tokens"] > 0 for s in results["samples"]["nnd_demo"] for c in s["candidates"])


# ---------------------------------------------------------------- other people's YAMLs and mistakes


def test_anyones_yaml_can_include_a_base_and_override_the_prompt(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(
        f"include: {tasks_dir() / 'demo' / '_base'}\ntask: mine\ndoc_to_text: 'Text: {{{{context}}}} Next:'\n"
    )
    results = evaluate(tiny_models["gpt2"], ["mine"], include_path=[tmp_path], limit=2)
    prompts = {s["arguments"][0][0] for s in results["samples"]["mine"]}
    assert all(prompt.startswith("Text: ") and prompt.endswith(" Next:") for prompt in prompts)


def test_a_prompt_of_digits_stays_text(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    include = small_set(tmp_path, [("17", "Seventeen.", "ok"), ("17", "Eighteen.", "wrong")])
    (include / "digits.yaml").write_text("include: small.yaml\ntask: digits\ndoc_to_text: '{{context}}'\n")
    results = evaluate(tiny_models["gpt2"], ["digits"], include_path=[include])
    assert results["samples"]["digits"][0]["arguments"][0][0] == "17"


def test_a_candidate_that_merges_wholly_into_the_prompt_is_an_error_that_names_its_test(
    home: Path, tmp_path: Path
) -> None:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"[UNK]": 0, "Where?": 1, "Here.": 2, "Question:": 3}
    inner = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    inner.normalizer = normalizers.Replace(Regex("lost"), "")  # a candidate of which nothing is left
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", eos_token="[UNK]").save_pretrained(
        tmp_path / "words"
    )
    include = small_set(tmp_path, [("Where?", "Here.", "ok"), ("Where?", "lost", "wrong")])
    task = load_task("small", {"tokenizer": str(tmp_path / "words")}, [include])
    task.set_config("num_fewshot", 0)
    with pytest.raises(NNDError, match=task.eval_docs[0]["tests"][0]["test_id"]):
        task.build_all_requests()


def test_a_set_that_is_not_built_says_how_to_build_it(nnd_home: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NNDError, match="nnd build quiz_design"):
        load_task("nnd_quiz_design")


def test_a_local_build_is_preferred_and_the_log_says_so(
    home: Path, tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # What load_dataset("nnd/demo") would take from here: the demo with one test fewer.
    built = read_table(home / "nnd" / "demo")
    write(tmp_path / "nnd" / "demo", {"authors": built.slice(1)})
    monkeypatch.chdir(tmp_path)
    with caplog.at_level("INFO", logger="lm_eval"):
        task = load_task("nnd_demo")
    assert sum(len(document["tests"]) for document in task.eval_docs) == built.num_rows
    [message] = [message for message in caplog.messages if "fingerprint" in message]
    assert str(home / "nnd" / "demo") in message
    assert fingerprint(built) in message
    monkeypatch.setenv("NND_HOME", str(tmp_path / "empty"))
    task = load_task("nnd_demo")
    assert sum(len(document["tests"]) for document in task.eval_docs) == built.num_rows - 1


@pytest.mark.parametrize(
    ("categories", "message"),
    [("[disfluent, off_target]", "undeclared.*unfaithful"), ("[disfluent, off_target, unfaithful, odd]", "lacks.*odd")],
)
def test_a_curated_task_insists_on_its_categories(categories: str, message: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        f"include: {tasks_dir() / 'demo' / '_base'}\ntask: mine\ndoc_to_text: '{{{{context}}}}'\n"
        f"metadata:\n  version: 1-A\n  categories: {categories}\n"
    )
    with pytest.raises(NNDError, match=message):
        load_task("mine", include=[tmp_path])


def test_a_prompt_is_not_used_for_other_languages_than_its_own(tmp_path: Path, nnd_home: Path) -> None:
    for name in ("mqm_ted_ende.tsv", "mqm_ted_zhen.tsv", "mqm_mine.tsv"):
        build_set("mqm", write_files(tmp_path / name, {name: small_text("mqm")}))
    mine = f"include: {tasks_dir() / 'mqm' / 'nnd_mqm_ende.yaml'}\ntask: mine\nmetadata: {{version: 1-A}}\n"
    for config in ("ted_ende", "ted_ende_clean", "mine"):  # of a config that names no languages nothing is known
        (tmp_path / "mine.yaml").write_text(f"{mine}dataset_name: {config}\n")
        task = load_task("mine", include=[tmp_path])
        assert task.doc_to_text(task.eval_docs[0]) == "English: The mill stands still.\nGerman:"
    for config in ("ted_zhen", "ted_zhen_clean"):
        (tmp_path / "mine.yaml").write_text(f"{mine}dataset_name: {config}\n")
        with pytest.raises(NNDError, match=f"task mine: its prompt is for en-de, .*{config} is zh-en; .*Chinese: "):
            load_task("mine", include=[tmp_path])
    write_tasks(find_recipe("mqm"), build_set("mqm", tmp_path / "mqm_ted_zhen.tsv"))
    task = load_task("nnd_mqm_ted_zhen", include=[nnd_home / "task_yamls"])
    assert task.doc_to_text(task.eval_docs[0]) == "Chinese: The mill stands still.\nEnglish:"


def test_a_template_with_an_unknown_field_names_those_that_exist(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        f"include: {tasks_dir() / 'demo' / '_base'}\ntask: mine\ndoc_to_text: '{{{{question}}}}'\n"
    )
    with pytest.raises(NNDError, match=r"question.*context"):
        load_task("mine", include=[tmp_path])


@pytest.mark.parametrize(
    "metadata",
    [{"append_eos": "perhaps"}, {"ties": "coin"}, {"categories": "one"}, {"candidate_prefix": 3}],
    ids=lambda value: next(iter(value)),
)
def test_a_setting_with_an_impossible_value_is_named(metadata: dict[str, Any]) -> None:
    with pytest.raises(NNDError, match=next(iter(metadata))):
        Settings.read(metadata)


@pytest.mark.parametrize("key", ["append_EOS", "apend_eos", "tie", "candidate_prefixes"])
def test_a_misspelled_setting_is_refused_with_the_right_spelling(key: str) -> None:
    with pytest.raises(NNDError, match=f"{key}.*did you mean"):
        Settings.read({key: True})


def test_the_arguments_of_models_are_no_misspelled_settings() -> None:
    import inspect

    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.huggingface import HFLM

    for model in (HFLM, TemplateAPI):
        Settings.read(dict.fromkeys(inspect.signature(model.__init__).parameters))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("doc_to_choice: ['a', 'b']", "doc_to_choice"),
        ("doc_to_target: '{{answer}}'", "doc_to_target"),
        ("metric_list: [{metric: acc}]", "metric_list"),
        ("output_type: loglikelihood", "output_type"),
        ("doc_to_text: null", "doc_to_text"),
    ],
)
def test_what_a_yaml_sets_is_used_or_refused(line: str, word: str, home: Path, tmp_path: Path) -> None:
    text = f"include: {tasks_dir() / 'demo' / '_base'}\ntask: mine\ndoc_to_text: '{{{{context}}}}'\n"
    (tmp_path / "mine.yaml").write_text(
        text.replace("doc_to_text: '{{context}}'\n", "") + line + "\n" if word == "doc_to_text" else text + line + "\n"
    )
    with pytest.raises(NNDError, match=word):
        load_task("mine", include=[tmp_path])


def test_the_categories_of_the_yamls_are_those_that_the_real_sets_have() -> None:
    """Of the first file that a set's recipe names, as pinned; files of other languages may have further categories."""
    import yaml

    pins = json.loads((REPO / "tests" / "sets" / "pins.json").read_text("utf-8"))

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: node.value)
    checked = 0
    for name, configs in pins.items():
        base = tasks_dir() / name / "_base"
        for path in [*([base] if base.is_file() else []), *(tasks_dir() / name).glob("*.yaml")]:
            task = yaml.load(path.read_text(), Loader)
            config = task.get("dataset_name")
            metadata = task.get("metadata", {})
            if metadata and "group" not in task:
                categories = sorted(configs[config if config in configs else next(iter(configs))]["categories"])
                assert metadata["categories"] == categories, path
                assert re.fullmatch(r"[1-9][0-9]*-[A-Z]", metadata["version"])
                checked += 1
    assert checked >= 14


# ---------------------------------------------------------------- numbers that must not be wrong without a word


def test_request_caches_of_lm_eval_are_not_used(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """With stock lm-eval, that is; our own ways to run it refuse the option."""
    from lm_eval import simple_evaluate

    monkeypatch.setattr("lm_eval.caching.cache.PATH", str(tmp_path / "cache"))
    arguments = {"pretrained": str(tiny_models["gpt2"]), "dtype": "float32"}

    def stock(**settings: Any) -> Any:
        metadata = {**arguments, **settings}
        manager = TaskManager(include_path=[str(tasks_dir())], include_defaults=False, metadata=metadata)
        options = {"limit": 3, "cache_requests": True, "device": "cpu", "bootstrap_iters": 0}
        return simple_evaluate("hf", arguments, tasks=["nnd_demo"], task_manager=manager, **options)

    plain, eos = stock(), stock(append_eos=True)
    for one, two in zip(plain["samples"]["nnd_demo"], eos["samples"]["nnd_demo"], strict=True):
        assert [c["tokens"] + 1 for c in one["candidates"]] == [c["tokens"] for c in two["candidates"]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounded_log_likelihoods_are_reported(
    dtype: str, tiny_models: dict[str, Path], home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", logger="lm_eval"):
        results = evaluate(
            tiny_models["llama"], ["nnd_demo"], limit=8, model_args={"dtype": dtype}, shared_prefix=False
        )
    coarse = dtype == "bfloat16"
    assert any("softmax_dtype=float32" in message for message in caplog.messages) is coarse
    known = results["configs"]["nnd_demo"]["metadata"]["nnd"]
    assert known["rounded_to"] == ("bfloat16" if coarse else None)
    if coarse:
        arguments = {"dtype": dtype, "softmax_dtype": "float32"}
        caplog.clear()
        evaluate(tiny_models["llama"], ["nnd_demo"], limit=8, model_args=arguments)
        assert "log-likelihoods are rounded" not in caplog.text, "the sums are not"


_SUMS, _LOGITS = "add softmax_dtype=float32", "computes its logits in"
#: How a model of 16 bits is run -> what is told before it scores, and the type that the results name.
ROUNDING: dict[str, tuple[dict[str, Any], dict[str, Any], str, str | None]] = {
    "stock lm_eval": ({}, {}, _SUMS, "bfloat16"),
    "nnd run without shared prefixes": ({}, {"shared_prefix": False}, _SUMS, "bfloat16"),
    "nnd run": ({}, {"shared_prefix": True}, _LOGITS, "bfloat16"),
    "softmax_dtype": ({"softmax_dtype": "float32"}, {"shared_prefix": False}, _LOGITS, "bfloat16"),
    "stock lm_eval with softmax_dtype": ({"softmax_dtype": "float32"}, {}, _LOGITS, "bfloat16"),
    "in float32": ({"dtype": "float32"}, {"shared_prefix": False}, "", None),
    "in float32 with shared prefixes": ({"dtype": "float32"}, {"shared_prefix": True}, "", None),
    "a type of its own name": ({"dtype": "half"}, {}, _SUMS, "float16"),
    "mixed": ({"dtype": "float32", "mixed_precision_dtype": "bfloat16"}, {"shared_prefix": True}, _LOGITS, "bfloat16"),
}


@pytest.mark.parametrize("how", ROUNDING)
def test_rounding_is_told_before_the_model_scores_anything(
    how: str, tiny_models: dict[str, Path], home: Path, tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    """The type comes from the model's config, as most users leave dtype out."""
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from nnd_tasks.harness.lengths import warn_once

    AutoModelForCausalLM.from_pretrained(tiny_models["gpt2"], dtype=torch.bfloat16).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_models["gpt2"]).save_pretrained(tmp_path)
    more, options, told, rounded_to = ROUNDING[how]
    arguments = {"pretrained": str(tmp_path), **more}
    before: list[str] = []

    def watched(score: Any) -> Any:
        def scoring(self: HFLM, requests: list[Any], **kwargs: Any) -> Any:
            before.append("".join(mark for mark in (_SUMS, _LOGITS) if mark in caplog.text))
            return score(self, requests, **kwargs)

        return scoring

    for model in (HFLM, SharedPrefixLM):
        monkeypatch.setattr(model, "loglikelihood", watched(model.loglikelihood))
    warn_once.cache_clear()
    known = {"tasks": ["nnd_demo"], "limit": 2, "device": "cpu", "bootstrap_iters": 0}
    with caplog.at_level("WARNING", logger="lm_eval"):
        if options:
            results = nnd_tasks.evaluate(model_args=arguments, **known, **options)
        else:
            manager = TaskManager(include_path=[str(tasks_dir())], include_defaults=False, metadata=arguments)
            results = simple_evaluate("hf", arguments, task_manager=manager, **known)
    assert before[0] == told
    assert results["configs"]["nnd_demo"]["metadata"]["nnd"]["rounded_to"] == rounded_to


def test_examples_of_hf_do_not_end_in_rounded_sums() -> None:
    pages = [REPO / "README.md", *(REPO / "docs").glob("*.md"), *(REPO / "task_yamls").glob("*/README.md")]
    lines = [
        line for page in pages for line in page.read_text("utf-8").splitlines() if "--model hf --model_args " in line
    ]
    assert sum("lm_eval --model hf " in line for line in lines) == 3 + 12
    assert len(lines) > 20
    assert [line for line in lines if "softmax_dtype=float32" not in line] == []


def test_log_likelihoods_that_are_no_numbers_are_unscored_reported_and_plain_json(
    tiny_models: dict[str, Path], home: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from lm_eval.models.huggingface import HFLM

    original = HFLM.loglikelihood

    def broken(self: HFLM, requests: list[Any], **kwargs: Any) -> list[Any]:
        answers = original(self, requests, **kwargs)
        return [(float("nan"), False) if i % 4 == 0 else answer for i, answer in enumerate(answers)]

    monkeypatch.setattr(HFLM, "loglikelihood", broken)
    with caplog.at_level("WARNING", logger="lm_eval"):
        results = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=6)
    found, samples = results["results"]["nnd_demo"], results["samples"]["nnd_demo"]
    bad = {(i, j) for i, s in enumerate(samples) for j, c in enumerate(s["candidates"]) if c["sum"] is None}
    expected = sum((i, t["high"]) in bad or (i, t["low"]) in bad for i, s in enumerate(samples) for t in s["tests"])
    assert found["unscored,none"] == expected > 0
    assert any(f"{len(bad)} of " in message for message in caplog.messages)
    json.dumps([s["candidates"] for s in samples], allow_nan=False)


def test_a_clash_of_severities_shows_up_before_the_model_runs(home: Path, tmp_path: Path) -> None:
    rows = [
        {"c": "Where?", "t": text, "l": label, "s": severity}
        for text, label, severity in [
            ("Here.", "good", ""),
            ("There.", "wrong", "Major"),
            ("Nowhere.", "wrong", "major"),
        ]
    ]
    with pytest.raises(NNDError, match="severity 'Major' and 'major'"):
        make_rows(tmp_path, rows, **LABELS, severity="s")


def test_an_all_empty_document_is_counted_only_when_it_is_selected(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    include = [small_set(tmp_path, ROWS)]
    results = evaluate(tiny_models["gpt2"], ["small"], include_path=include)
    assert [len(s["tests"]) for s in results["samples"]["small"]] == [2, 1, 1]
    chosen = evaluate(tiny_models["gpt2"], ["small"], include_path=include, samples={"small": [2]})
    found = chosen["results"]["small"]
    assert (found["tests,none"], found["unscored,none"], found["candidates,none"]) == (0, 1, 0)
    assert found["pass_rate,none"] == "N/A"


@pytest.mark.parametrize("missing", ["bos", "eos"])
def test_a_tokenizer_without_the_token_that_a_task_needs_is_named(
    missing: str, tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_models["gpt2"])
    setattr(tokenizer, f"{missing}_token", None)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    metadata: dict[str, Any] = {"tokenizer": str(tmp_path / "tokenizer"), "append_eos": missing == "eos"}
    if missing == "bos":
        metadata["append_bos"] = True
    task = load_task("nnd_demo", metadata)
    task.set_config("num_fewshot", 0)
    with pytest.raises(NNDError, match=f"has no {missing.upper()} token"):
        task.build_all_requests()


def test_the_window_of_the_tiny_models_holds_the_demo(tiny_models: dict[str, Path], home: Path) -> None:
    """Otherwise lm-eval would truncate, and the tests above would compare something else."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_models["gpt2"])
    task = load_task("nnd_demo")
    longest = max(len(tokenizer.encode(task.doc_to_text(document))) for document in task.eval_docs)
    assert longest + 100 < WINDOW


def trap_task(folder: Path, key: str, value: Any) -> Path:
    """Write the small set, and set one key of its task."""
    include = small_set(folder, [("c", "good", "ok"), ("c", "bad", "wrong"), ("d", "g", "ok"), ("d", "b", "wrong")])
    settings = {"task": "small", "dataset_path": str(folder / "nnd" / "small"), "doc_to_text": "{{context}}"}
    first, _, second = key.partition(".")
    settings |= {first: {second: value} if second else value}
    lines = [f"include: {tasks_dir() / '_base'}", *(f"{name}: {json.dumps(text)}" for name, text in settings.items())]
    (include / "small.yaml").write_text("\n".join(lines))
    return include


@pytest.mark.parametrize(
    "key", ["doc_to_text", "description", "gen_prefix", "fewshot_config.doc_to_text", "fewshot_config.gen_prefix"]
)
def test_no_template_reaches_into_python(key: str, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    template = "{{ cycler.__init__.__globals__.os.system('touch " + str(trap) + "') }}"
    include = trap_task(tmp_path, key, template)
    with pytest.raises(NNDError, match=f"task small: {key} is unsafe"):
        load_task("small", include=[include])
    assert not trap.exists()


@pytest.mark.parametrize(
    "key",
    [
        *("doc_to_target", "doc_to_choice", "doc_to_image", "doc_to_audio", "doc_to_decontamination_query"),
        *("use_prompt", "fewshot_config.doc_to_target", "fewshot_config.doc_to_choice"),
    ],
)
def test_templates_that_an_nnd_task_has_no_use_for_are_refused(key: str, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    template = "{{ cycler.__init__.__globals__.os.system('touch " + str(trap) + "') }}"
    include = trap_task(tmp_path, key, template)
    with pytest.raises(NNDError, match=f"its YAML sets {key}"):
        load_task("small", include=[include])
    assert not trap.exists()


@pytest.mark.parametrize(
    ("key", "value"), [("description", "{{contxt}}"), ("gen_prefix", "{{ x"), ("description", ["a"])]
)
def test_a_template_that_cannot_be_rendered_is_named_as_the_task_is_loaded(
    key: str, value: Any, tmp_path: Path
) -> None:
    include = trap_task(tmp_path, key, value)
    with pytest.raises(NNDError, match=f"task small: {key}"):
        load_task("small", include=[include])


def test_descriptions_and_prefixes_are_rendered_as_lm_eval_does(tmp_path: Path) -> None:
    include = trap_task(tmp_path, "description", "About {{context}}:\n")
    path = include / "small.yaml"
    path.write_text(path.read_text() + "\ngen_prefix: 'So {{context}}'\nfewshot_config: {gen_prefix: context}")
    task = load_task("small", include=[include])
    task.set_fewshot_seed(1)
    [first, _] = task.eval_docs
    assert task.fewshot_context(first, 1, gen_prefix=task.doc_to_prefix(first)) == (
        "About c:\n" + "d d g\n\n" + "c So c"
    )


def test_prompts_render_as_lm_eval_renders_them() -> None:
    from lm_eval.utils import apply_template

    from nnd_tasks.harness.sandbox import SANDBOX

    doc = {"context": "A b\n", "n": 3, "items": [{"x": 1}]}
    for template in (
        "{{context}}",
        "{{context|trim}} {{n+1}}\n",
        "{% for i in items %}{{i.x}}{% endfor %}",
        "{{context|regex_replace('b','c')}}",
    ):
        assert SANDBOX.from_string(template).render(**doc) == apply_template(template, doc)
