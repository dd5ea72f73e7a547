"""The callback changes nothing in a training run, logs what `evaluate` measures, and leaves a sound file."""

import json
import logging
import os
import random
import re
import runpy

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
    default_data_collator,
)

import nnd_tasks
import nnd_tasks.training.callback as module
from nnd_tasks import NNDCallback
from nnd_tasks.errors import NNDError
from nnd_tasks.measures import MEASURES
from nnd_tasks.training.training_log import read_log
from tests import random_models
from tests.conftest import REPO

pytestmark = pytest.mark.usefixtures("few_tasks")
TASK = "nnd_demo"
CATEGORIES = ["disfluent", "off_target", "unfaithful"]


def load(folder):
    """Return a tiny model, with dropout where its architecture has any."""
    if folder.name == "t5":
        return AutoModelForSeq2SeqLM.from_pretrained(folder, dropout_rate=0.2)
    return AutoModelForCausalLM.from_pretrained(folder)


def rows(tokenizer, seq2seq):
    """Return training examples of one length."""
    encoded = [tokenizer(text, add_special_tokens=False)["input_ids"][:32] for text in random_models.texts()]
    return [{"input_ids": ids, "labels": ids[:16] if seq2seq else ids} for ids in encoded if len(ids) == 32][:40]


def make_trainer(folder, out, callbacks, *, model=None, tokenizer="own", **arguments):
    torch.manual_seed(0)
    own = AutoTokenizer.from_pretrained(folder)
    settings = {
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_steps": 1,
        "learning_rate": 1e-2,
        **arguments,
    }
    return Trainer(
        model=load(folder) if model is None else model,
        args=TrainingArguments(output_dir=str(out), **settings),
        train_dataset=rows(own, folder.name == "t5"),
        processing_class=own if tokenizer == "own" else tokenizer,
        data_collator=default_data_collator,  # the tokenizers have no padding token
        callbacks=callbacks,
    )


def steps(path):
    return [line["step"] for line in read_log(path)]


def generators():
    """Tell the states of all random numbers."""
    _, key, *others = np.random.get_state()
    return random.getstate(), key.tolist(), others, torch.get_rng_state().tolist()


def leave_behind(model):
    """Leave everything of a model, and all random numbers, in another state."""
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    for i, part in enumerate(model.modules()):
        part.training = bool(i % 2)
    model.config.use_cache = not model.config.use_cache
    model.generation_config.max_length = 3
    model.gradient_checkpointing_disable()
    model.left_behind = True


@pytest.fixture
def hostile(monkeypatch):
    """An evaluation that leaves everything it can in another state, and a model that cannot be copied."""
    real = module.evaluate

    def evaluate(tasks, lm, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(type(lm.model), "__deepcopy__", lambda self, memo: pytest.fail("a copy"), raising=False)
            results = real(tasks, lm, **kwargs)
        leave_behind(lm.model)
        lm.tokenizer.add_tokens([f"<|left behind {len(lm.tokenizer)}|>"])
        return results

    monkeypatch.setattr(module, "evaluate", evaluate)


# ---------------------------------------------------------------- it changes nothing


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gpt2", {"gradient_checkpointing": True, "gradient_accumulation_steps": 2}),
        ("llama", {"bf16": True}),
        ("t5", {"gradient_checkpointing": True, "use_cache": True}),
    ],
)
@pytest.mark.usefixtures("home", "hostile")
def test_training_gives_the_same_weights_with_and_without_it(name, arguments, tiny_models, tmp_path):
    ends = []
    for callbacks in ([], [NNDCallback(TASK, every=1, limit=1)]):
        trainer = make_trainer(tiny_models[name], tmp_path / str(len(callbacks)), callbacks, **arguments)
        trainer.train()
        losses = [entry for entry in trainer.state.log_history if "loss" in entry]
        tensors = trainer.model.state_dict(), trainer.optimizer.state_dict()["state"]
        ends.append((tensors, (losses, generators(), len(trainer.processing_class))))
    assert steps(tmp_path / "1" / "nnd.jsonl") == [1, 2]
    (tensors, others), (tensors_with_it, others_with_it) = ends
    torch.testing.assert_close(tensors_with_it, tensors, rtol=0, atol=0)
    assert others_with_it == others
    assert len(losses) == 2  # the loss of a step that was evaluated is logged all the same


def test_everything_of_a_model_is_found_as_it_was_left(gpt2):
    model = load(gpt2)
    model.gradient_checkpointing_enable()
    model.train()
    next(part for part in model.modules() if isinstance(part, torch.nn.Dropout)).eval()

    def look():
        parts = [
            (part.training, getattr(part, "gradient_checkpointing", None), {*vars(part)}) for part in model.modules()
        ]
        values = [id(value) for value in (*model.parameters(), *model.buffers())]
        return [parts, model.config.to_dict(), model.generation_config.to_dict(), values, generators()]

    before = look()
    with module.untouched(model):
        assert not any(part.training for part in model.modules())
        leave_behind(model)
    assert look() == before


# ---------------------------------------------------------------- the rates are those of the checkpoints


@pytest.mark.parametrize(
    ("name", "arguments", "prompts"),
    [("t5", {}, {"sample": 6}), ("llama", {"bf16": True, "report_to": ["tensorboard"]}, {"limit": 6})],
)
@pytest.mark.usefixtures("home")
def test_rates_are_those_of_the_saved_checkpoints(name, arguments, prompts, tiny_models, tmp_path):
    callback = NNDCallback([TASK], every=1, token_stats=True, **prompts)
    saving = {"save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(tiny_models[name], tmp_path, [callback], **saving, **arguments)
    trainer.train()
    lines = read_log(tmp_path / "nnd.jsonl")
    logged = {entry["step"]: entry for entry in trainer.state.log_history if f"nnd/{TASK}" in entry}
    assert [line["step"] for line in lines] == [1, 2] == list(logged)
    for line in lines:
        # The state in the checkpoint itself has the rates of its step.
        folder, scalars = tmp_path / f"checkpoint-{line['step']}", logged[line["step"]]
        saved = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
        assert scalars in saved
        results = random_models.evaluate(folder, [TASK], model_args={"token_stats": True}, **prompts)
        about = results["configs"][TASK]["metadata"]["nnd"]
        metrics = {metric.removesuffix(",none"): value for metric, value in results["results"][TASK].items()}
        sizes = {"all": {size: metrics[size] for size in ("tests", "clusters")}, **about["categories"]}
        assert [*sizes] == ["all", *CATEGORIES]
        expected = {"rates": {}, "measures": {}}
        for category, of_category in sizes.items():
            end, place = ("", f"nnd/{TASK}") if category == "all" else (f"_{category}", f"nnd/{TASK}/{category}")
            rate, error = (metrics[f"pass_rate{end}{kind}"] for kind in ("", "_stderr"))
            expected["rates"][category] = {"rate": rate, "stderr": error, **of_category}
            expected["measures"][category] = {
                measure: {"mean": metrics[f"{measure}{end}"], "stderr": metrics[f"{measure}{end}_stderr"]}
                for measure in MEASURES
            }
            assert scalars[place] == rate
            for measure in MEASURES:
                assert scalars[f"{place}/{measure}"] == metrics[f"{measure}{end}"]
        assert {key: line[key] for key in expected} == expected
        # Equal protocols: the two may be compared.
        assert line["signature"].split(" || ")[0] == about["signature"]["line"].split(" || ")[0]
        assert line["epoch"] == scalars["epoch"]
        assert {*line} == {"step", "epoch", "task", "signature", *expected}
    if "report_to" in arguments:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        [file] = tmp_path.rglob("events.out.tfevents.*")
        [_, margin] = EventAccumulator(str(file)).Reload().Scalars(f"train/nnd/{TASK}/disfluent/margin")
        assert (margin.step, margin.value) == (2, pytest.approx(scalars[f"nnd/{TASK}/disfluent/margin"], rel=1e-6))


@pytest.mark.usefixtures("home")
def test_an_adapter_in_training_is_evaluated_with_its_model(llama, tmp_path):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_dropout=0.1, init_lora_weights=False)
    model = peft.get_peft_model(load(llama), config)
    make_trainer(llama, tmp_path, [NNDCallback(TASK, every=2, limit=10)], model=model).train()
    model.save_pretrained(tmp_path / "adapter")
    arguments = {"peft": str(tmp_path / "adapter")}
    results = random_models.evaluate(llama, [TASK], model_args=arguments, limit=10)["results"][TASK]
    [line] = read_log(tmp_path / "nnd.jsonl")
    assert line["rates"]["all"]["rate"] == results["pass_rate,none"]


# ---------------------------------------------------------------- when


@pytest.mark.parametrize(("stop", "evaluated"), [(5, [2, 4, 5]), (3, [2, 3])])
@pytest.mark.usefixtures("home")
def test_a_step_is_evaluated_once_and_the_last_one_always(stop, evaluated, gpt2, tmp_path):
    class Stop(TrainerCallback):  # after ours, as early stopping is: the Trainer evaluates when a step has ended
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == stop

    trainer = make_trainer(gpt2, tmp_path, [NNDCallback(TASK, every=2, limit=1), Stop()], max_steps=5)
    trainer.train()
    assert steps(tmp_path / "nnd.jsonl") == evaluated
    assert [entry["step"] for entry in trainer.state.log_history if f"nnd/{TASK}" in entry] == evaluated


# ---------------------------------------------------------------- the file


@pytest.mark.usefixtures("home")
def test_resuming_replaces_the_steps_of_the_abandoned_run(gpt2, tmp_path, caplog):
    path = tmp_path / "curves" / "mine.jsonl"

    def train(most, checkpoint=None):
        callback = NNDCallback(TASK, every=2, limit=1, log_path=path)
        # Two steps are an epoch: a run that goes on at the end has nothing to do.
        saving = {"save_strategy": "steps", "save_steps": 2, "per_device_train_batch_size": 20}
        trainer = make_trainer(gpt2, tmp_path, [callback], max_steps=most, **saving)
        with caplog.at_level(logging.WARNING, "lm_eval.nnd"):
            trainer.train(resume_from_checkpoint=checkpoint and str(tmp_path / checkpoint))
        return [entry["step"] for entry in trainer.state.log_history if f"nnd/{TASK}" in entry]

    path.parent.mkdir()
    assert train(4) == steps(path) == [2, 4]
    first, abandoned = read_log(path)
    abandoned["rates"]["all"]["rate"] = 2.0  # impossible, so that it cannot come about again
    path.write_text(f"{json.dumps(first)}\n{json.dumps(abandoned)}\n", encoding="utf-8")
    assert train(6, "checkpoint-2") == steps(path) == [2, 4, 6]
    assert f"{path}: 1 line of steps after 2" in caplog.text
    assert read_log(path)[0] == first
    assert read_log(path.with_suffix(".1.jsonl")) == [first, abandoned]
    assert abandoned not in read_log(path)
    # From the last checkpoint there is nothing to train, and nothing to evaluate.
    written = path.read_bytes()
    assert train(6, "checkpoint-6") == [2, 4, 6]
    assert path.read_bytes() == written


# ---------------------------------------------------------------- what fails


@pytest.mark.usefixtures("home")
def test_an_evaluation_that_fails_and_a_full_disk_do_not_lose_the_training(gpt2, tmp_path, monkeypatch, caplog):
    real, calls, path = module.evaluate, [], tmp_path / "nnd.jsonl"

    def evaluate(*args, **kwargs):
        calls.append(kwargs["limit"])
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no memory\nand more")
        return real(*args, **kwargs)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    class Fill(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 2:
                monkeypatch.setattr(os, "fsync", full)

    monkeypatch.setattr(module, "evaluate", evaluate)
    trainer = make_trainer(gpt2, tmp_path, [NNDCallback(TASK, every=1, limit=2), Fill()], max_steps=3)
    with caplog.at_level(logging.WARNING, "lm_eval.nnd"):
        trainer.train()
    assert trainer.state.global_step == 3
    assert calls == [1, 2, 2, 2]  # first the trial, on one context
    assert [entry["step"] for entry in trainer.state.log_history if f"nnd/{TASK}" in entry] == [2, 3]
    assert steps(path) == [2]
    assert [*tmp_path.glob("*nnd.jsonl*")] == [path]
    assert "no evaluation at step 1, training goes on (OutOfMemoryError: no memory and more)" in caplog.text
    assert re.search("step 3 is not in the file, training goes on .*No space left on device", caplog.text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": "nnd_dmeo"}, "there is no task 'nnd_dmeo'; did you mean 'nnd_demo'"),
        ({"tasks": "blue_whale"}, "; include_path=FOLDER adds yours"),
        ({"every": 0}, "every=0: expected a number of steps"),
        ({"every": "10"}, "every='10': expected a number of steps"),
        ({"sample": -1}, "sample=-1: expected a whole number"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(arguments, message):
    with pytest.raises(NNDError, match=re.escape(message)):
        NNDCallback(**{"tasks": TASK, "every": 1, **arguments})


@pytest.fixture
def refused(gpt2, tmp_path):
    """Return a function that trains with a callback and returns its one line of error; a step of training is a failure."""

    class NoStep(TrainerCallback):
        def on_step_begin(self, *args, **kwargs):
            pytest.fail("training began")

    def call(processing_class="own", **arguments):
        callback = NNDCallback(**{"tasks": TASK, "every": 1, "limit": 1, **arguments})
        trainer = make_trainer(gpt2, tmp_path / "out", [callback, NoStep()], tokenizer=processing_class)
        with pytest.raises(NNDError) as error:
            trainer.train()
        assert "\n" not in str(error.value)
        assert not list((tmp_path / "out").glob("*nnd.jsonl*"))
        return str(error.value)

    return call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": ["nnd_demo", "nnd_frank"]}, "human_annotations_sentence.json: cannot be downloaded"),
        ({"tokenizer": "./no_such_folder"}, "no_such_folder"),
        ({"no_such_option": 1}, "this model cannot be evaluated"),
        ({"processing_class": None}, "there is no tokenizer; pass processing_class=... to the Trainer"),
        ({"log_path": "/tmp"}, "log_path /tmp: cannot be read (Is a directory); name another file"),
    ],
)
def test_a_mistake_ends_before_training(arguments, message, refused, monkeypatch, tmp_path):
    monkeypatch.setenv("NND_HOME", str(tmp_path / "other"))  # where no other test has built anything
    nnd_tasks.build_set("demo")
    assert message in refused(**arguments)


@pytest.mark.parametrize("content", [b'{"step": 1, "task": "nnd_demo"}\n{"step": 2, "ta', b"[1]\n", b"\xff\xfe\n"])
def test_a_file_that_somebody_else_wrote_is_not_replaced(content, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(NNDError, match=f"^log_path {file}.*; name another file"):
        read_log(file)


def test_outside_of_a_trainer(tmp_path):
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    with pytest.raises(NNDError, match=r"no transformers\.Trainer calls it"):
        NNDCallback(TASK, every=1).on_train_begin(arguments, TrainerState(), None)


@pytest.mark.parametrize("attribute", ["is_fsdp_enabled", "is_distributed_loading_by_transformers"])
def test_a_sharded_model_is_refused(attribute, refused, monkeypatch):
    begin = NNDCallback.on_train_begin

    def sharded(self, *args, **kwargs):
        trainer = module._calling_trainer()
        setattr(trainer, attribute, True)
        begin(self, *args, **kwargs)

    monkeypatch.setattr(NNDCallback, "on_train_begin", sharded)
    assert "shards the model over processes" in refused()


# ---------------------------------------------------------------- the example


@pytest.mark.usefixtures("home")
def test_the_example_runs(gpt2, tmp_path):
    script = REPO / "examples" / "train_and_watch.py"
    text, out = tmp_path / "text", tmp_path / "watched"
    text.write_text("\n".join(random_models.texts()), encoding="utf-8")
    train = runpy.run_path(str(script))["train_and_watch"]
    assert steps(train(text, str(gpt2), out, steps=4, limit=1, window=32)) == [1, 2, 3, 4]
    assert (out / "model" / "model.safetensors").is_file()
