"""`nnd run`: a user's mistake ends in one line that says what to do, before any model is loaded."""

import json
import logging
import os
import re
import resource
import shlex
import shutil
import traceback
from pathlib import Path

import pytest
import torch
from lm_eval._cli.utils import key_val_to_dict
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

import nnd_tasks
from nnd_tasks import cli
from nnd_tasks.errors import NNDError
from nnd_tasks.page.page import render_report
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.run.checks import read_pairs, read_seeds
from tests.commands import nnd_process, printed_table
from tests.commands import refused as refused_message
from tests.conftest import REPO
from tests.random_models import evaluate
from tests.run.chat_server import ChatServer, Refusal
from tests.run.completions_server import CompletionsServer
from tests.run.local_server import closed_port


@pytest.fixture
def refused(monkeypatch, nnd):
    """Return a function that runs ``nnd run ...`` and returns its one line of error; loading a model is a failure."""

    def call(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(HFLM, "_create_model", lambda *args, **kwargs: pytest.fail("the model was loaded"))
            outcome = nnd("run", *arguments)
        assert (outcome.status, outcome.err.count("nnd: error: "), "Traceback" in outcome.err) == (1, 1, False)
        return outcome.err.splitlines()[-1].removeprefix("nnd: error: ")

    return call


def hf(model, *more):
    return ["--model", "hf", "--model_args", f"pretrained={model}", "--device", "cpu", *more]


#: What follows ``nnd run --model hf --model_args pretrained=GPT2 --tasks nnd_demo``, unless it names these itself -> the error.
CASES = dict(
    line.split(" => ")
    for line in """
--tasks nnd_dmeo => there is no task 'nnd_dmeo'; did you mean 'nnd_demo'
--tasks blue_whale_42 => there is no task 'blue_whale_42'; `nnd list` lists the sets, `lm_eval ls tasks` lm-eval's
--tasks nnd_blue* => there is no task 'nnd_blue*'
--tasks nnd_mqm => there is no task 'nnd_mqm'; of this set there are nnd_mqm_
--tasks demo => there is no task 'demo'; of this set there are nnd_demo, nnd_demo_choice,
--tasks nnd_demo,nnd_frnk => there is no task 'nnd_frnk'; did you mean 'nnd_frank'
--tasks nnd_frank => https://raw.githubusercontent.com/artidoro/frank/
--metadata '{"ties": "au' => --metadata {"ties": "au: is not valid JSON (
--gen_kwargs '{temperature: 1}' => --gen_kwargs {temperature: 1}: is not valid JSON
--metadata '{"ties": "both"}' => metadata ties='both': expected 'fail' or 'authors'
--metadata '{"apend_eos": true}' => no such setting, did you mean 'append_eos'?
--metadata '{"max_length": 9000}' => metadata max_length=9000 is not what the model gets (None); give it in
--metadata '{"append_bos": true}' --apply_chat_template => leave out --apply_chat_template
--apply_chat_template => has no chat template; leave out
--fewshot_as_multiturn => --fewshot_as_multiturn: only a chat has turns; add --apply_chat_template
--no-save --metadata tokens=true => add --output_path FOLDER
--no-save --output_path a => --no-save: saves nothing, and --output_path or --log_samples asks for files
--include_path /no/such => include_path=/no/such: there is no such folder
--limit 0 => limit=0.0: expected a whole number of prompts, 1 or more, or a share below 1
--limit nan => limit=nan: expected a whole number of prompts
--seed x => --seed x: expected a whole number, or four
--seed 1,2 => --seed 1,2: expected a whole number, or four
--limit 1.5 => limit=1.5: expected a whole number of prompts
--limit 2 --sample 2 => sample and limit both say
--limit 2 -L 3 => --limit is given 2 times; give it once
--limit 3 --samples '{"nnd_demo": [1]}' => samples and limit both say which prompts are taken
--output_path a -o b => --output_path is given 2 times; give it once
--output_path {tmp}/file/out => --output_path {tmp}/file/out: cannot be written
--metadata split=train --split test => --metadata: split is given twice; give it once
--metadata '{"context_reliance": "yes"}' => metadata context_reliance='yes': expected true or false
--metadata append_eos=1 => metadata append_eos=1: expected true or false
--batch_size x => --batch_size x: expected a number of requests
--model_args dtype=float31 => dtype=float31: no such type of numbers; did
--model_args dtype=16 => dtype=16: no such type of numbers
--model_args dtype=auto,dtype=float32 => --model_args: dtype is given twice; give it once
--model_args dtype=auto --model_args dtype=float32 => --model_args: dtype is given twice; give it once
--model_args dtype => --model_args dtype: 'dtype' is no NAME=VALUE
--model hf --model_args gpt2 => --model_args gpt2: 'gpt2' is no NAME=VALUE; did you mean pretrained=gpt2?
--model hf --model_args pretrained=gpt2,device=cpu --device cpu => --device cpu: --model_args has device=cpu; give it once
--model_args batch_size=x => --batch_size x: expected a number of requests
--model hf --model_args pretrained=gpt2,device=cudaa => --device cudaa: there is no such kind of device
--model_args '{"max_length": "1024"}' => --model_args max_length='1024': expected a whole number, without quotes
--model_args '{"add_bos_token": "false"}' => --model_args add_bos_token='false': expected true or false
--model_args add_bos_tokn=true => --model_args add_bos_tokn: there is no such argument; did you mean 'add_bos_token'
--model_args "dtype='auto,revision=main" => --model_args dtype='auto,revision=main: ' is opened and not closed
--model_args max_memory={0:1,revision=main => --model_args max_memory={0:1,revision=main: { is opened and not closed
--model hf --model_args pretrained=gpt2 --device cudaa => --device cudaa: there is no such kind of device
--model hf --model_args pretrained=gpt2 --device cuda => --device cuda: torch sees 0 GPUs here; take cpu
--model hff --model_args pretrained=x => --model hff: lm-eval has no such model type; did you mean 'hf'?
--model blue_whale_42 --model_args pretrained=x => there are:
--model nnd_rewrd --model_args pretrained=x => did you mean 'nnd_reward'?
--model local-chat-completions --model_args pretrained=x => --model local-completions
--model hf --model_args Pretrained=gpt2 => --model_args Pretrained: there is no such argument; did you mean 'pretrained'?
--model hf --model_args pretraind=gpt2 => --model_args pretraind: there is no such argument; did you mean
--model hf --model_args pretrained= => --model hf: --model_args has no pretrained=NAME_OR_FOLDER; add it
--model hf => --model hf: --model_args has no pretrained=NAME_OR_FOLDER; add it
--model hf --model_args pretrained={tmp} => the model {tmp} cannot be loaded: it has neither a model config nor a
--model hf --model_args pretrained={tmp},gguf_file=file => is the GGUF file there, and whole?
--model hf --model_args pretrained={tmp}/no => {tmp}/no: there is no such model or tokenizer folder
--model dummy => Add tokenizer=NAME_OR_FOLDER to --model_args
--samples '{"nnd_dmeo": [1]}' => samples: no task 'nnd_dmeo' is run; did you mean 'nnd_demo'?
--samples '{"nnd_demo": [0, -1]}' => samples: nnd_demo: there is no prompt -1; expected places from 0 to 59
--samples '{"nnd_demo": [999]}' => samples: nnd_demo: there is no prompt 999; expected places from 0 to 59
--samples '{"nnd_demo": []}' => samples: {'nnd_demo': []} names no prompts; expected {"TASK": [0, 5]}
--samples '{"nnd_demo": ["1"]}' => samples: nnd_demo: there is no prompt '1'
--samples '{"nnd_demo": 3}' => samples: {'nnd_demo': 3} names no prompts
--samples 'nowhere.json' => samples=nowhere.json: there is no such file
--samples '{"nnd_demo": [1]' => samples: is not valid JSON (
--samples '[3]' => samples: [3] names no prompts; expected {
""".strip().splitlines()
)


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_line_before_the_model_is_loaded(case, refused, gpt2, demo_home, tmp_path, monkeypatch):
    monkeypatch.setenv("NND_HOME", str(tmp_path))  # where no other test has built anything
    shutil.copytree(demo_home / "nnd" / "demo", tmp_path / "nnd" / "demo")
    (tmp_path / "file").touch()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    filled, message = (text.replace("{tmp}", str(tmp_path)) for text in (case, CASES[case]))
    words = shlex.split(filled)
    model = [] if "--model" in words else hf(gpt2)
    assert message in refused(*model, *([] if "--tasks" in words else ["--tasks", "nnd_demo"]), *words)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("pretrained='/lr=1,dtype=16',dtype=float32", {"pretrained": "/lr=1,dtype=16", "dtype": "float32"}),
        ('pretrained="/o\'hara,dtype=16"', {"pretrained": "/o'hara,dtype=16"}),
        ("pretrained=/o'hara, a=true,b=False", {"pretrained": "/o'hara", "a": True, "b": False}),
        ("a=1,b=1.5,c=1e3,d=x=y", {"a": 1, "b": 1.5, "c": 1000.0, "d": "x=y"}),
        ("e=[1,[2,3]],f={'g': (1, 2)}", {"e": [1, [2, 3]], "f": {"g": (1, 2)}}),
        ("stop=[INST],prompt=", {"stop": "[INST]", "prompt": ""}),
        (["a=1", '{"b": "1"}'], {"a": 1, "b": "1"}),
        (None, {}),
    ],
)  # fmt: skip
def test_pairs_are_read_as_lm_eval_reads_them(text, pairs):
    assert read_pairs(text, "--model_args") == pairs
    if isinstance(text, str) and "o'hara, " not in text:
        assert key_val_to_dict(text) == pairs


def test_a_seed_is_for_all_or_each_has_its_own():
    assert [*read_seeds("7").values()] == [7] * 4
    assert read_seeds("0,None,8,52") == dict(zip(read_seeds("7"), [0, None, 8, 52], strict=True))


def test_a_value_may_be_left_out_and_a_misspelt_option_is_named(nnd, llama, home, tmp_path):
    words = "--model_args", f"pretrained={llama},dtype=float32", "--tasks", "nnd_demo,nnd_demo_clean"
    done = nnd("run", *words, "--apply_chat_template", "-L", "2", "-f", "1", "-o", tmp_path, "--device", "cpu")
    assert done.status == 0, done.err
    [path] = tmp_path.rglob("results_*.json")
    assert json.loads(path.read_text("utf-8"))["fewshot_as_multiturn"] is True
    assert {"nnd_demo (2 of 60 prompts)", "nnd_demo_clean (2 of 60 prompts)"} == {*printed_table(done.out)}
    wrong = nnd("run", "--tasks", "nnd_demo", "--limt", "2")
    assert (wrong.status, "No such option: --limt" in wrong.err, "--limit" in wrong.err) == (2, True, True)


def test_the_table_has_what_one_looks_for_and_the_rest_on_request(nnd, gpt2, home):
    words = hf(gpt2, "--tasks", "nnd_demo", "--limit", "9", "--no-save")
    [brief], [whole] = (printed_table(nnd("run", *words, *more).out).values() for more in ([], ["--all-metrics"]))
    categories = [f"pass_rate_{name}" for name in ("disfluent", "off_target", "unfaithful")]
    assert [*brief] == ["clusters", "pass_rate", *categories, "tests"]
    assert brief.items() <= whole.items()
    further = {"bits_high", "margin_disfluent", "pass_rate_sum", "pass_rate_prompts_bytes", "candidates", "ties"}
    assert further <= whole.keys()


def test_a_device_among_the_arguments_is_that_of_the_run(nnd, gpt2, home, tmp_path):
    words = "run", "--tasks", "nnd_demo", "--limit", "2", "-o", tmp_path, "--model_args"
    assert nnd(*words, f"pretrained={gpt2},device=cpu,batch_size=2").status == 0
    [path] = tmp_path.rglob("results_*.json")
    config = json.loads(path.read_text("utf-8"))["config"]
    assert (config["device"], config["batch_size"], "device" in config["model_args"]) == ("cpu", 2, False)


def test_what_needs_no_model_is_checked_before_torch_is_imported(home, tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch is imported')", encoding="utf-8")
    words = "run", "--model", "hf", "--tasks", "nnd_demo", "--model_args", "pretrained=/nowhere"
    outcome = nnd_process(*words, PYTHONPATH=os.pathsep.join([str(tmp_path), str(REPO)]), NND_HOME=str(home))
    assert refused_message(outcome) == "/nowhere: there is no such model or tokenizer folder"


@pytest.mark.parametrize(
    ("variable", "message"), [("NND_HOME", "is a file; name a folder"), ("NND_SOURCES", "there is no such folder; ")]
)
def test_a_variable_that_names_a_file_is_refused(variable, message, refused, gpt2, home, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    assert refused(*hf(gpt2, "--tasks", "nnd_demo")).startswith(f"{variable}={tmp_path}/file: {message}")


def test_a_tokenizer_with_tokens_that_the_model_lacks_is_refused(refused, gpt2, home, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(gpt2)
    tokenizer.add_tokens(["unused and rare"])
    tokenizer.save_pretrained(tmp_path / "unused")
    tokenizer.add_tokens([" of the"])
    tokenizer.save_pretrained(tmp_path / "used")
    unused = {"pretrained": str(gpt2), "tokenizer": str(tmp_path / "unused")}
    nnd_tasks.evaluate("nnd_demo", model_args=unused, limit=1, device="cpu")
    arguments = "--model_args", f"tokenizer={tmp_path / 'used'}"
    message = refused(*hf(gpt2, *arguments, "--tasks", "nnd_demo"))
    assert "(' of the'), which the model lacks; name the tokenizer that the model was trained with" in message


def test_weights_that_do_not_fit_and_an_argument_that_no_model_takes_are_named(nnd, gpt2, home, tmp_path):
    shutil.copytree(gpt2, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text("utf-8"))
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "n_embd": 64}), encoding="utf-8")
    outcome = nnd("run", *hf(tmp_path / "model", "--tasks", "nnd_demo", "--limit", "1"))
    assert outcome.status == 1
    assert re.search(r"lm-eval stopped with RuntimeError: .*(size mismatch|mismatched)", outcome.err)
    outcome = nnd("run", *hf(f"{gpt2},blue=x", "--tasks", "nnd_demo", "--limit", "1"))
    assert re.search("lm-eval stopped with TypeError: .*unexpected keyword argument 'blue'", outcome.err)


def test_results_of_a_long_name_and_of_a_json_path_are_written_and_read(nnd, gpt2, home, tmp_path):
    model = tmp_path / ("ä" * 100) / ("b" * 150) / "model"
    model.parent.mkdir(parents=True)
    model.symlink_to(gpt2)
    words = hf(model, "--tasks", "nnd_demo", "--limit", "2", "--log_samples", "--metadata", "tokens=true")
    for output in (tmp_path / "json" / "out.json", tmp_path / "folder"):
        assert nnd("run", *words, "--output_path", output).status == 0
        [run] = read_results(tmp_path / output.relative_to(tmp_path).parts[0])
        assert len(run.documents) == 2
        assert run.tokens.is_file()


def test_outside_of_a_git_repository_git_says_nothing(gpt2, home, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["nnd", "run", *hf(gpt2, "--tasks", "nnd_demo", "--limit", "1")])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    assert "fatal" not in capfd.readouterr().err


@pytest.mark.parametrize(("kind", "output"), [("results", "out"), ("samples", "out/mine.json")])
def test_a_disk_that_is_full_is_an_error_and_leaves_no_file(kind, output, nnd, gpt2, home, tmp_path):
    words = hf(gpt2, "--tasks", "nnd_demo", "--limit", "9", "--log_samples")
    words += ["--output_path", tmp_path / output]
    assert nnd("run", *words).status == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.json*")}
    results, samples = sorted(map(len, before.values()))
    assert results + 2000 < samples
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000 if kind == "results" else results + 2000, limits[1]))
    try:
        outcome = nnd("run", *words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert outcome.status == 1
    line = outcome.err.strip().splitlines()[-1]
    assert line.startswith(
        f"nnd: error: --output_path {tmp_path / output}: cannot be written (File too large); make room"
    )
    assert "|nnd_demo(9of60prompts)|" in outcome.out.replace(" ", ""), "the numbers are not lost"
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.json*")} == before


# ---------------------------------------------------------------- secrets


def secret_arguments(url, tokenizer):
    address = url.replace("http://", "http://hush-user:hush-pw@") + "?api_key=hush-query&size=3"
    header = {"Authorization": "Bearer hush-bearer", "X-Second": "hush-second"}
    return {
        **{"model": "served", "base_url": address, "tokenizer": str(tokenizer), "header": header, "max_retries": 1},
        **{"hub_token": "hush-hub", "openai_api_key": "hush-key", "more": {"deep": [{"password": "hush-deep"}]}},
    }


def test_secrets_reach_the_server_and_nothing_that_is_written_or_logged(nnd, gpt2, home, tmp_path, caplog):
    with CompletionsServer.load(gpt2) as server, caplog.at_level(logging.DEBUG):
        arguments = json.dumps(secret_arguments(server.url, gpt2))
        words = "--model", "local-completions", "--model_args", arguments, "--tasks", "nnd_demo", "--limit", "2"
        more = "--metadata", '{"api_token": "hush-metadata"}', "--log_samples", "--output_path", str(tmp_path / "out")
        outcome = nnd("run", *words, *more)
    assert outcome.status == 0, outcome.err
    path, headers = server.heard[-1]
    assert path.endswith("?api_key=hush-query&size=3")
    assert headers["X-Second"] == "hush-second", "the server gets what it was given"
    written = {str(path): path.read_text("utf-8") for path in (tmp_path / "out").rglob("*.json*")}
    assert "hush" not in f"{outcome}{caplog.text}{written}"
    assert "'hub_token': '***'" in outcome.out, "that it was given is shown"
    assert server.url in str(written)
    assert "hush" not in render_report(read_results(tmp_path / "out"))[1]


def test_an_error_shows_no_secret(nnd, gpt2, home, caplog):
    with closed_port() as port, caplog.at_level(logging.DEBUG):
        arguments = secret_arguments(f"http://127.0.0.1:{port}/v1/completions", gpt2)
        words = ["--tasks", "nnd_demo", "--limit", "1", "--model_args", json.dumps(arguments)]
        words += ["--model", "local-completions"]
        outcome = nnd("run", *words)
        assert outcome.status == 1
        assert "the server gives no answer" in outcome.err
        with pytest.raises(NNDError) as debug:
            nnd("--debug", "run", *words)
    trace = "".join(traceback.format_exception(debug.value))
    assert "api_models.py" in trace
    assert "hush" not in f"{outcome}{caplog.text}{trace}"


@pytest.mark.parametrize("begin", ["", "word " * 57])
def test_a_key_that_a_server_says_again_or_that_is_in_its_address_is_hidden(begin, nnd, home, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "hush-0123456789")
    with ChatServer(lambda payload: Refusal(401, f"{begin}not {server.heard[-1][1]['Authorization']}")) as server:
        url = server.url.replace("/v1", "/hush-0123456789/v1")
        words = [
            "--model",
            "local-chat-completions",
            "--model_args",
            f"model=m,base_url={url}",
            "--apply_chat_template",
        ]
        outcome = nnd("run", *words, "--tasks", "nnd_demo_judge", "--limit", "1")
    assert server.heard[-1][0].startswith("/hush-0123456789")
    assert "the server refuses the request (401)" in outcome.err
    assert "hush" not in f"{outcome}{caplog.text}"


def test_a_raw_model_is_told_how_to_be_passed_and_that_way_works(gpt2, home):
    model = AutoModelForCausalLM.from_pretrained(gpt2)
    with pytest.raises(NNDError, match=r"GPT2LMHeadModel is not a model of lm-eval.*model_args=\{'pretrained': MODEL"):
        nnd_tasks.evaluate("nnd_demo", model=model)
    arguments = {"pretrained": model, "tokenizer": AutoTokenizer.from_pretrained(gpt2)}
    found = nnd_tasks.evaluate("nnd_demo", model_args=arguments, limit=3, bootstrap_iters=0, device="cpu")
    named = evaluate(gpt2, ["nnd_demo"], limit=3)
    for one, two in zip(found["samples"]["nnd_demo"], named["samples"]["nnd_demo"], strict=True):
        assert [c["sum"] for c in one["candidates"]] == pytest.approx([c["sum"] for c in two["candidates"]])


# ---------------------------------------------------------------- where results go


def test_results_are_saved_at_home_and_the_last_line_is_the_command_that_comes_next(
    nnd, tiny_models, demo_home, nnd_home, tmp_path
):
    shutil.copytree(demo_home / "nnd", nnd_home / "nnd")
    refusal = nnd("compare")
    assert (refusal.status, "no run is saved there yet" in refusal.err) == (1, True)

    def last_lines(model, *more):
        done = nnd("run", *hf(tiny_models[model], "--tasks", "nnd_demo", "--limit", "2"), *more)
        assert done.status == 0, done.err
        return done.out.splitlines()[-2:]

    saved, following = last_lines("gpt2")
    assert following == "next: nnd report"
    folder = Path(saved.removeprefix("saved in "))
    assert folder.parent == nnd_home / "results"
    [results] = folder.glob("results_*.json")
    assert json.loads(results.read_text("utf-8"))["config"]["model_args"]["softmax_dtype"] == "float32"
    assert len([*folder.glob("samples_nnd_demo_*.jsonl")]) == 1
    assert last_lines("llama")[1] == "next: nnd compare"
    assert nnd("compare", "--brief").status == 0
    before = {*nnd_home.rglob("*")}
    assert not any(line.startswith(("saved", "next")) for line in last_lines("gpt2", "--no-save"))
    assert (
        last_lines("gpt2", "--log_samples", "--output_path", tmp_path / "out")[1] == f"next: nnd report {tmp_path}/out"
    )
    assert {*nnd_home.rglob("*")} == before
