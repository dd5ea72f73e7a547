"""The signature: every item of the protocol changes it, and what is not in it does not change a number."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from nnd_tasks.schema import SPANS
from nnd_tasks.sets.build import build_set
from nnd_tasks.store import read_table
from nnd_tasks.task.signature import (
    digest,
    line,
    model_part,
    selection,
    short_signature,
    tokenizer_digest,
    weights_digest,
)
from shared_prefix.lengths import TokenCounter
from tests.conftest import DEMO_ANNOTATIONS as DEMO
from tests.random_models import CHAT_TEMPLATE
from tests.task.tasks import CASES, load_task, run_stock, run_task, write_yaml

LIMIT = 3  # clusters: enough for numbers that differ


def run(model, task="nnd_demo", **kwargs):
    """Return the signature, and the numbers without harness fields."""
    rates, _, facts = run_task(model, task, **{"limit": LIMIT, **kwargs})
    return facts["signature"], {name: value for name, value in rates.items() if name.startswith("pass_rate")}


@pytest.fixture(scope="module")
def _runs():
    return {}


@pytest.fixture
def llama(tiny_models, home):
    return tiny_models["llama"]


@pytest.fixture
def base(_runs, llama):
    """A function that gives a run that others are compared with; each is done once."""

    def get(**options):
        if repr(options) not in _runs:
            _runs[repr(options)] = run(llama, **options)
        return _runs[repr(options)]

    return get


@pytest.fixture
def plain(base):
    signature, _ = base()
    return signature


def changed(one, two):
    """Return the items of the protocol that differ; line and digest must agree with them."""
    keys = set(one["protocol"]) | set(two["protocol"])
    items = {key for key in keys if one["protocol"].get(key) != two["protocol"].get(key)}
    assert set(one["protocol"]) ^ set(two["protocol"]) <= {"exemplars"}, "which only a run with exemplars has"
    assert bool(items) == (one["protocol_digest"] != two["protocol_digest"])
    assert bool(items) == (one["line"].split(" || ")[0] != two["line"].split(" || ")[0])
    return items


@pytest.mark.parametrize("change", CASES["changes of the protocol"])
def test_a_change_of_the_protocol_changes_its_items_and_no_others(change, base, llama, tmp_path):
    both, more, items = CASES["changes of the protocol"][change]
    options = {**both, **more}
    before, numbers = base(**both)
    if settings := options.pop("yaml", None):
        folder = write_yaml(tmp_path, "mine", **settings)
        after, others = run(llama, "mine", include_path=folder, **options)
    else:
        after, others = run(llama, **options)
    assert changed(before, after) == {*items}
    assert items or numbers == others
    assert {**before["model"], "chat_template": None} == {**after["model"], "chat_template": None}
    for signature in (before, after):
        assert bool(signature["model"]["chat_template"]) == bool(signature["protocol"]["chat_template"])


def test_the_delimiter_after_a_system_instruction_counts(llama, tmp_path):
    found = []
    for name, delimiter in (("one", "\n\n"), ("two", " @ ")):
        folder = write_yaml(tmp_path, name, description="Read.", fewshot_delimiter=delimiter)
        found.append(run(llama, name, include_path=folder, system_instruction="Be good.")[0])
    assert changed(*found) == {"prompt"}


def test_how_a_chat_template_treats_a_system_message_is_part_of_the_model(llama, tmp_path):
    folder = shutil.copytree(llama, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    signatures = []
    for condition in ("True", "m['role'] != 'system'"):
        tokenizer.chat_template = CHAT_TEMPLATE.replace("in messages %}", f"in messages if {condition} %}}")
        tokenizer.save_pretrained(folder)
        signatures.append(run(folder, apply_chat_template=True, system_instruction="Be brief.")[0])
    assert changed(*signatures) == set()
    assert signatures[0]["model"]["chat_template"] != signatures[1]["model"]["chat_template"]


def test_a_letter_in_the_data_changes_it(plain, llama, tmp_path, monkeypatch):
    text = DEMO.read_text("utf-8")
    (tmp_path / DEMO.name).write_text(text.replace("leave her sourdough", "leave his sourdough"), encoding="utf-8")
    build_set("demo", tmp_path, tmp_path / "nnd" / "demo")
    monkeypatch.setenv("NND_HOME", str(tmp_path))
    assert changed(plain, run(llama)[0]) == {"data"}


def test_error_spans_have_a_digest_of_their_own_where_span_metrics_are_printed(llama, home, tmp_path, monkeypatch):
    folder = shutil.copytree(home / "nnd" / "demo", tmp_path / "nnd" / "demo")
    monkeypatch.setenv("NND_HOME", str(tmp_path))
    table, [file] = read_table(folder, "authors"), (folder / "authors").glob("*.parquet")
    signatures = []
    for end, tokens in ((3, True), (4, True), (4, False)):
        spans = [[{"start": 0, "end": end, "category": "", "severity": ""}]] * table.num_rows
        pq.write_table(table.append_column("low_spans", pa.array(spans, SPANS)), file)
        signatures.append(run(llama, metadata={"tokens": tokens})[0])
    one, other, without = signatures
    assert one["spans"] != other["spans"]
    assert "spans" not in without
    assert changed(one, other) == changed(one, without) == set(), "the fingerprint stays, and pass rates compare"
    assert one["line"] != other["line"]


@pytest.mark.parametrize(
    ("model", "arguments", "items"),
    CASES["arguments of a model, and the items of its part that they change"],
)
def test_an_argument_of_the_model_changes_its_part(model, arguments, items, plain, tiny_models):
    signature, _ = run(tiny_models[model], model_args=arguments)
    assert changed(plain, signature) == set()
    assert signature["environment"] == plain["environment"]
    found = {key for key in signature["model"] if signature["model"][key] != plain["model"][key]}
    assert {*items} <= found
    assert bool(items) == bool(found) == (signature["line"] != plain["line"])


def test_a_model_is_one_however_it_is_run(plain, llama):
    literal = run_stock({"pretrained": str(llama)}, limit=LIMIT).facts["signature"]
    others = [run(llama, **options)[0] for options in ({"shared_prefix": False}, {"kind": "huggingface"})]
    for other in (literal, *others):
        assert other["model"] == plain["model"]
    assert (plain["model"]["type"], plain["model"]["dtype"]) == ("hf", "float32")


def test_auto_is_the_type_of_the_weights_where_the_configuration_names_none(llama, tmp_path):
    folder = shutil.copytree(llama, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({key: config[key] for key in config if "dtype" not in key}))
    models = [
        model_part({"pretrained": str(folder), **given}, TokenCounter({"pretrained": str(folder)}), "hf")
        for given in ({}, {"dtype": "float32"}, {"dtype": "half"})
    ]
    assert models[0] == models[1] != models[2]


def test_the_line_is_one_line_with_three_parts_and_is_stored_in_the_results(plain):
    assert "\n" not in plain["line"]
    parts = [dict(item.split(":", 1) for item in part.split("|")) for part in plain["line"].split(" || ")]
    protocol, _, environment = parts
    assert list(protocol) == list(plain["protocol"])
    assert protocol["set"] == "nnd/demo"
    assert protocol["eos"] == "no"
    assert environment["lm_eval"].startswith("0.4")
    assert json.loads(json.dumps(plain)) == plain


def test_secrets_among_the_arguments_are_not_written(tiny_models, home):
    secrets = {"auth_token": "hush", "header": {"k": "hush"}, "openai_api_key": "hush", "more": {"hub_token": "hush"}}
    given = {"pretrained": str(tiny_models["gpt2"]), **secrets}
    counter = TokenCounter(given)

    def about(query, **more):
        return model_part({**given, "base_url": f"http://hush:hush@h/v1?{query}", **more}, counter)

    one = about("api_key=hush&deployment=a")
    assert "hush" not in json.dumps(one)
    assert "hush" not in line({"a": 1}, one, {})
    assert one["arguments"]["base_url"].startswith("http://h/v1 (query ")
    assert about("deployment=a&api_key=hush-hush", more={"hub_token": "other"}) == one, "who asks does not matter"
    assert about("api_key=hush&deployment=b") != one, "what answers does"


def test_the_results_of_a_task_hold_no_secret_when_stock_lm_eval_runs_it(llama):
    known = {"pretrained": str(llama), "token": "hush", "base_url": "http://a:hush@h/v1?key=hush"}
    config = load_task("nnd_demo", known).dump_config()
    assert config["metadata"]["base_url"] == "http://h/v1"
    assert "hush" not in json.dumps(config, default=str)


# ---------------------------------------------------------------- digests


def test_weights_are_known_by_content_not_by_place(tiny_models, tmp_path):
    copy = shutil.copytree(tiny_models["gpt2"], tmp_path / "all" / "copy")
    weights, inside = weights_digest(str(copy)), weights_digest(str(tmp_path / "all"), "copy")
    assert weights == weights_digest(str(tiny_models["gpt2"]))
    file = copy / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert weights_digest(str(copy)) != weights
    assert weights_digest(str(tmp_path / "all"), "copy") != inside
    assert weights_digest("some/name-on-the-hub") is None


def test_adapters_count_as_part_of_the_model(plain, llama, tmp_path):
    base = AutoModelForCausalLM.from_pretrained(llama)
    get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")).save_pretrained(tmp_path)
    signature, _ = run(llama, model_args={"peft": str(tmp_path)})
    assert changed(plain, signature) == set()
    assert signature["model"]["adapter"]
    assert signature["model"]["weights"] == plain["model"]["weights"]


def test_tokenizers_differ_by_vocabulary_and_by_special_tokens_and_not_by_how_they_pad(tiny_models):
    one, two = (AutoTokenizer.from_pretrained(tiny_models["gpt2"]) for _ in range(2))
    two.pad_token = two.eos_token
    two(["a b c", "d"], padding=True)
    assert tokenizer_digest(one) == tokenizer_digest(two)
    two.add_tokens(["boats"])
    assert tokenizer_digest(one) != tokenizer_digest(two)


def test_digests_tell_functions_by_their_source_and_selections_by_their_clusters():
    assert digest(changed) == digest(changed) != digest(run)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
    assert selection(["b", "a"], 3) == selection(["a", "b"], 3) != selection(["a", "c"], 3)


def test_the_short_signature_names_the_run_without_its_place(plain):
    protocol, model, versions = (plain[name] for name in ("protocol", "model", "environment"))
    short = plain["short"]
    assert short.startswith(f"nnd:{versions['nnd_tasks']}|demo/authors:{plain['protocol_digest']}|llama:")
    elsewhere = {**model, "name": "/home/anna/copies/llama/", "tokenizer": "/home/anna/copies/llama/"}
    assert short_signature(protocol, elsewhere, versions) == short
    for changed in ({**model, "dtype": "bfloat16"}, {**model, "weights": "0"}, {**model, "weights": None}):
        assert short_signature(protocol, changed, versions) != short
    assert short_signature({**protocol, "eos": True}, model, versions) != short


@pytest.mark.parametrize("name", ["m" * 300, "/home/anna/" + "m" * 300, r"C:\models\m", "", None, "a|b c"])
def test_the_short_signature_stays_below_a_hundred_characters(name):
    short = short_signature(
        {"set": name, "config": name}, {"name": name}, {"nnd_tasks": "0.1.0.dev123+g0123456789abcdef"}
    )
    assert len(short) < 100
    assert not any(part in short for part in ("home", "\\", "models"))
    assert short.count("|") == 2
