"""The signature: every item of the protocol changes it, and what is not in it does not change a number."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from nnd_tasks.datasets import read_table
from nnd_tasks.harness.lengths import TokenCounter
from nnd_tasks.harness.signature import digest, line, model_part, selection, tokenizer_digest, weights_digest
from nnd_tasks.sets.build import build_set
from nnd_tasks.tables import SPANS
from tests.conftest import DEMO_ANNOTATIONS as DEMO
from tests.random_models import CHAT_TEMPLATE, evaluate

LIMIT = 4  # clusters: enough for numbers that differ


def run(model: Path, task: str = "nnd_demo", **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the signature, and the numbers without harness fields."""
    results = evaluate(model, [task], **{"limit": LIMIT, **kwargs})
    numbers = {key: value for key, value in results["results"][task].items() if key.startswith("pass_rate")}
    return results["configs"][task]["metadata"]["nnd"]["signature"], numbers


@pytest.fixture(scope="module")
def _plain() -> dict[str, Any]:
    return {}


@pytest.fixture
def plain(_plain: dict[str, Any], tiny_models: dict[str, Path], home: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run that the others are compared with."""
    if not _plain:
        _plain["run"] = run(tiny_models["llama"])
    result: tuple[dict[str, Any], dict[str, Any]] = _plain["run"]
    return result


def changed(one: dict[str, Any], two: dict[str, Any]) -> set[str]:
    """Return the items of the protocol that differ; line and digest must agree with them."""
    keys = set(one["protocol"]) | set(two["protocol"])
    items = {key for key in keys if one["protocol"].get(key) != two["protocol"].get(key)}
    assert set(one["protocol"]) ^ set(two["protocol"]) <= {"exemplars"}, "which only a run with exemplars has"
    assert bool(items) == (one["protocol_digest"] != two["protocol_digest"])
    assert bool(items) == (one["line"].split(" || ")[0] != two["line"].split(" || ")[0])
    return items


#: What is changed -> the items of the protocol that must change, no more and no less.
FLIPS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "eos": ({"metadata": {"append_eos": True}}, {"eos"}),
    "bos": ({"metadata": {"append_bos": True}}, {"bos"}),
    "candidate prefix": ({"metadata": {"candidate_prefix": "$answer$ = "}}, {"candidate_prefix"}),
    "ties": ({"metadata": {"ties": "authors"}}, {"ties"}),
    "overlong": ({"metadata": {"overlong": "refuse"}}, {"overlong"}),
    "shots": ({"num_fewshot": 1}, {"shots", "shots_seed", "exemplars", "prompt"}),
    "system instruction": ({"system_instruction": "Be brief."}, {"system"}),
    "chat template": ({"apply_chat_template": True}, {"chat_template"}),
    "limit": ({"limit": 3}, {"selection"}),
    "no limit": ({"limit": None}, {"selection"}),
    "samples": ({"limit": None, "samples": {"nnd_demo": [0, 1, 2, 5]}}, {"selection"}),
}


@pytest.mark.parametrize("flip", FLIPS)
def test_a_change_of_the_protocol_changes_its_item_and_no_other(
    flip: str, plain: tuple[dict[str, Any], dict[str, Any]], tiny_models: dict[str, Path], home: Path
) -> None:
    change, items = FLIPS[flip]
    signature, _ = run(tiny_models["llama"], **change)
    assert changed(plain[0], signature) == items
    before, after = (dict(s["model"]) for s in (plain[0], signature))
    if flip == "chat template":
        assert before.pop("chat_template") is None
        assert after.pop("chat_template")
    assert before == after, "the model is the same"


def test_seed_and_turns_matter_only_with_exemplars_and_a_chat_template(
    plain: tuple[dict[str, Any], dict[str, Any]], tiny_models: dict[str, Path], home: Path
) -> None:
    llama = tiny_models["llama"]
    assert changed(plain[0], run(llama, fewshot_random_seed=7, fewshot_as_multiturn=True)[0]) == set()
    one, seven = (run(llama, num_fewshot=1, fewshot_random_seed=seed) for seed in (1, 7))
    assert changed(one[0], seven[0]) == {"shots_seed", "prompt"}, "the exemplars are others"
    assert one[1] != seven[1]
    chat = {"num_fewshot": 1, "apply_chat_template": True}
    single, multi = (run(llama, **chat, fewshot_as_multiturn=turns) for turns in (False, True))
    assert changed(single[0], multi[0]) == {"multiturn"}


YAMLS = {
    "prompt": ('doc_to_text: "Text: {{context}} Answer:"', {"prompt"}),
    "delimiter": ('target_delimiter: "\\n"', {"prompt"}),
    "description": ('description: "Read this. "', {"prompt"}),
    "gen_prefix": ('gen_prefix: "It is"', {"prompt"}),
    "config": ("dataset_name: clean", {"config"}),
    "exemplars": ("num_fewshot: 1", {"prompt", "shots", "shots_seed", "exemplars"}),
    "nothing": ("num_fewshot: 0", set()),
}


@pytest.mark.parametrize("change", YAMLS)
def test_a_yaml_that_overrides_a_prompt_or_names_other_data_changes_it(
    change: str,
    plain: tuple[dict[str, Any], dict[str, Any]],
    tiny_models: dict[str, Path],
    home: Path,
    tmp_path: Path,
) -> None:
    line, items = YAMLS[change]
    base = Path(__file__).parents[2] / "task_yamls" / "demo" / "nnd_demo.yaml"
    (tmp_path / "mine.yaml").write_text(f"include: {base}\ntask: mine\n{line}\n", encoding="utf-8")
    signature, numbers = run(tiny_models["llama"], "mine", include_path=tmp_path)
    assert changed(plain[0], signature) == items
    if not items:
        assert numbers == plain[1]


EXEMPLARS = {
    "prompt of exemplars": 'fewshot_config: {doc_to_text: "{{context}} A:"}',
    "delimiter in exemplars": 'fewshot_config: {target_delimiter: ": "}',
    "delimiter between exemplars": 'fewshot_delimiter: " / "',
}


@pytest.mark.parametrize("change", EXEMPLARS)
def test_how_exemplars_are_written_changes_the_prompt(
    change: str, tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    base = Path(__file__).parents[2] / "task_yamls" / "demo" / "nnd_demo.yaml"
    (tmp_path / "mine.yaml").write_text(f"include: {base}\ntask: mine\n{EXEMPLARS[change]}\n", encoding="utf-8")
    plain = run(tiny_models["llama"], num_fewshot=1)
    other = run(tiny_models["llama"], "mine", include_path=tmp_path, num_fewshot=1)
    assert changed(plain[0], other[0]) == {"prompt"}


def test_what_a_function_renders_counts_not_only_its_source(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    base = Path(__file__).parents[2] / "task_yamls" / "demo" / "nnd_demo.yaml"
    found = []
    for name, text in (("one", "Text: {}"), ("two", "Nothing: {}"), ("three", "Text: {}")):
        folder = tmp_path / name
        folder.mkdir()
        code = f"T = {text!r}\n\n\ndef prompt(doc):\n    return T.format(doc['context'])  # {name}\n"
        (folder / f"prompt_{name}.py").write_text(code, encoding="utf-8")
        yaml = f"include: {base}\ntask: mine\ndoc_to_text: !function prompt_{name}.prompt\n"
        (folder / "mine.yaml").write_text(yaml, encoding="utf-8")
        found.append(run(tiny_models["llama"], "mine", include_path=folder)[0])
    assert changed(found[0], found[1]) == {"prompt"}
    assert changed(found[0], found[2]) == set(), "a comment is no change"


def test_the_delimiter_after_a_system_instruction_counts(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    base = Path(__file__).parents[2] / "task_yamls" / "demo" / "nnd_demo.yaml"
    found = []
    for name, delimiter in (("one", "\\n\\n"), ("two", " @ ")):
        text = f'include: {base}\ntask: {name}\ndescription: "Read."\nfewshot_delimiter: "{delimiter}"\n'
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        found.append(run(tiny_models["llama"], name, include_path=tmp_path, system_instruction="Be good.")[0])
    assert changed(*found) == {"prompt"}


def test_how_a_chat_template_treats_a_system_message_is_part_of_the_model(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_models["llama"], tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    signatures = []
    for condition in ("True", "m['role'] != 'system'"):
        tokenizer.chat_template = CHAT_TEMPLATE.replace(
            "{% for m in messages %}", "{% for m in messages if " + condition + " %}"
        )
        tokenizer.save_pretrained(folder)
        signatures.append(run(folder, apply_chat_template=True, system_instruction="Be brief.")[0])
    assert changed(*signatures) == set()
    assert signatures[0]["model"]["chat_template"] != signatures[1]["model"]["chat_template"]


def test_weights_in_a_subfolder_are_part_of_the_model(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(tiny_models["gpt2"], tmp_path / "all" / "step1")
    before = weights_digest(str(tmp_path / "all"), "step1")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "all" / "step1")
    model.transformer.wte.weight.data.mul_(-1)
    model.save_pretrained(tmp_path / "all" / "step1")
    assert before != weights_digest(str(tmp_path / "all"), "step1")


def test_a_letter_in_the_data_changes_it(
    plain: tuple[dict[str, Any], dict[str, Any]],
    tiny_models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with DEMO.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0]["candidate"] += "?"
    with (tmp_path / "demo_annotations.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    build_set("demo", tmp_path, tmp_path / "nnd" / "demo")
    monkeypatch.setenv("NND_HOME", str(tmp_path))
    assert changed(plain[0], run(tiny_models["llama"])[0]) == {"data"}


def test_error_spans_have_a_digest_of_their_own_where_span_metrics_are_printed(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(home / "nnd" / "demo", tmp_path / "nnd" / "demo")
    monkeypatch.setenv("NND_HOME", str(tmp_path))
    [file] = (tmp_path / "nnd" / "demo" / "authors").glob("*.parquet")
    table = read_table(tmp_path / "nnd" / "demo", "authors")

    def marked(end: int, **options: Any) -> dict[str, Any]:
        spans = [[{"start": 0, "end": end, "category": None, "severity": None}]] * table.num_rows
        pq.write_table(table.append_column("low_spans", pa.array(spans, SPANS)), file)
        return run(tiny_models["llama"], **options)[0]

    tokens = {"metadata": {"tokens": True}}
    one, same, other, without = marked(3, **tokens), marked(3, **tokens), marked(4, **tokens), marked(4)
    assert one["spans"] == same["spans"] != other["spans"]
    assert changed(one, other) == changed(one, without) == set(), (
        "the data keep their fingerprint, and pass rates compare"
    )
    assert one["line"] != other["line"]
    assert "spans" not in without


#: Changes that must change neither the protocol nor a number.
INDIFFERENT: dict[str, dict[str, Any]] = {
    "batch size": {"batch_size": 1},
    "samples not logged": {"log_samples": True, "write_out": False},
    "bootstrap": {"bootstrap_iters": 10},
    "seeds of the harness": {"random_seed": 5, "numpy_random_seed": 6, "torch_random_seed": 7},
    "samples that are the limit": {"limit": None, "samples": {"nnd_demo": [3, 1, 0, 2]}},
    "a note": {"metadata": {"note": "again"}},
}


@pytest.mark.parametrize("change", INDIFFERENT)
def test_what_is_not_in_the_protocol_does_not_change_a_number(
    change: str, plain: tuple[dict[str, Any], dict[str, Any]], tiny_models: dict[str, Path], home: Path
) -> None:
    signature, numbers = run(tiny_models["llama"], **INDIFFERENT[change])
    assert changed(plain[0], signature) == set()
    assert numbers == plain[1]


def test_another_model_changes_the_model_and_not_the_protocol(
    plain: tuple[dict[str, Any], dict[str, Any]], tiny_models: dict[str, Path], home: Path
) -> None:
    signature, _ = run(tiny_models["gpt2"])
    assert changed(plain[0], signature) == set()
    different = {key for key in signature["model"] if signature["model"][key] != plain[0]["model"][key]}
    assert {"name", "weights", "tokenizer", "tokenizer_digest"} <= different
    assert signature["environment"] == plain[0]["environment"]


@pytest.mark.parametrize(
    ("arguments", "item"),
    [
        ({"dtype": "bfloat16"}, "dtype"),
        ({"max_length": 500}, "window"),
        ({"add_bos_token": False}, "arguments"),
        ({"softmax_dtype": "float32"}, "arguments"),
    ],
)
def test_an_argument_of_the_model_changes_its_part(
    arguments: dict[str, Any],
    item: str,
    plain: tuple[dict[str, Any], dict[str, Any]],
    tiny_models: dict[str, Path],
    home: Path,
) -> None:
    signature, _ = run(tiny_models["llama"], model_args=arguments)
    assert changed(plain[0], signature) == set()
    assert signature["model"][item] != plain[0]["model"][item]
    assert signature["line"] != plain[0]["line"]


def test_keeping_token_scores_leaves_the_model_what_it_is(
    plain: tuple[dict[str, Any], dict[str, Any]], tiny_models: dict[str, Path], home: Path
) -> None:
    signature, numbers = run(tiny_models["llama"], model_args={"token_scores": True})
    assert signature == plain[0]
    assert numbers == plain[1]


def test_the_line_is_one_line_with_three_parts_and_is_stored_in_the_results(
    plain: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    signature = plain[0]
    assert "\n" not in signature["line"]
    parts = [dict(item.split(":", 1) for item in part.split("|")) for part in signature["line"].split(" || ")]
    assert len(parts) == 3
    assert list(parts[0]) == list(signature["protocol"])
    assert parts[0]["set"] == "nnd/demo"
    assert parts[0]["eos"] == "no"
    assert parts[2]["lm_eval"].startswith("0.4")
    assert json.loads(json.dumps(signature)) == signature


def test_secrets_among_the_arguments_are_not_written(tiny_models: dict[str, Path], home: Path) -> None:
    secrets = {"auth_token": "hush", "header": {"k": "hush"}, "openai_api_key": "hush", "more": {"hub_token": "hush"}}
    given = {"pretrained": str(tiny_models["gpt2"]), **secrets}
    counter = TokenCounter(given)

    def about(query: str, **more: Any) -> dict[str, Any]:
        return model_part({**given, "base_url": f"http://hush:hush@h/v1?{query}", **more}, [], counter)

    one = about("api_key=hush&deployment=a")
    assert "hush" not in json.dumps(one)
    assert "hush" not in line({"a": 1}, one, {})
    assert one["arguments"]["base_url"].startswith("http://h/v1 (query ")
    assert about("deployment=a&api_key=hush-hush", more={"hub_token": "other"}) == one, "who asks does not matter"
    assert about("api_key=hush&deployment=b") != one, "what answers does"


def test_the_results_of_a_task_hold_no_secret_when_stock_lm_eval_runs_it(
    tiny_models: dict[str, Path], home: Path
) -> None:
    from lm_eval.tasks import TaskManager

    from nnd_tasks.runner.register import include_paths

    known = {"pretrained": str(tiny_models["gpt2"]), "token": "hush", "base_url": "http://a:hush@h/v1?key=hush"}
    manager = TaskManager(include_path=include_paths(), include_defaults=False, metadata=known)
    config = manager.load(["nnd_demo"])["tasks"]["nnd_demo"].dump_config()
    assert config["metadata"]["base_url"] == "http://h/v1"
    assert "hush" not in json.dumps(config, default=str)


# ---------------------------------------------------------------- digests


def test_weights_are_known_by_content_not_by_place(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_models["gpt2"], tmp_path / "copy")
    assert weights_digest(str(copy)) == weights_digest(str(tiny_models["gpt2"]))
    model = AutoModelForCausalLM.from_pretrained(copy)
    model.transformer.h[1].mlp.c_fc.bias.data[0] += 1e-3
    model.save_pretrained(copy)
    assert weights_digest(str(copy)) != weights_digest(str(tiny_models["gpt2"]))
    assert weights_digest("some/name-on-the-hub") is None


@given(place=st.integers(0, 70 * (1 << 18) - 4))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_few_bytes_anywhere_in_a_tensor_of_a_large_file_count(place: int, tmp_path: Path) -> None:
    """Also where an edited checkpoint lies in the same folder: the files differ by four bytes of one of 70 tensors."""
    file = tmp_path / "model.safetensors"
    tensors = {f"layer.{i}.down_proj": torch.zeros(1 << 16) for i in range(70)}
    digests = []
    for value in (0.0, 1e-3):
        tensors[f"layer.{place >> 18}.down_proj"][(place % (1 << 18)) // 4] = value
        save_file(tensors, file)
        digests.append(weights_digest(str(tmp_path)))
        assert digests[-1] == weights_digest(str(tmp_path))
    assert file.stat().st_size > 70 * (1 << 18)
    assert len(set(digests)) == 2


def test_adapters_count_as_part_of_the_model(
    plain: tuple[dict[str, Any], dict[str, Any]], tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    base = AutoModelForCausalLM.from_pretrained(tiny_models["llama"])
    get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")).save_pretrained(tmp_path)
    signature, _ = run(tiny_models["llama"], model_args={"peft": str(tmp_path)})
    assert changed(plain[0], signature) == set()
    assert signature["model"]["adapter"]
    assert signature["model"]["weights"] == plain[0]["model"]["weights"]


def test_tokenizers_differ_by_vocabulary_and_by_special_tokens(tiny_models: dict[str, Path]) -> None:
    one, two = (AutoTokenizer.from_pretrained(tiny_models["gpt2"]) for _ in range(2))
    assert tokenizer_digest(one) == tokenizer_digest(two)
    two.add_tokens(["boats"])
    assert tokenizer_digest(one) != tokenizer_digest(two)
    assert tokenizer_digest(one) != tokenizer_digest(AutoTokenizer.from_pretrained(tiny_models["llama"]))


def test_a_selection_is_the_set_of_its_clusters() -> None:
    assert selection(["b", "a"], 2) == "all"
    assert selection(["b", "a"], 3) == selection(["a", "b"], 3) != selection(["a", "c"], 3)
    assert selection(["a"], 3).startswith("1 of 3 (")


def test_digests_tell_functions_by_their_source() -> None:
    assert digest(changed) == digest(changed) != digest(run)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
