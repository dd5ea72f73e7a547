"""``nnd run --models``: many models by one command, each as if it were run alone, and none again."""

import json
import shutil
from pathlib import Path

import pytest

from engine_tests.fake_ray import fake_ray
from nnd_tasks.errors import NNDError
from nnd_tasks.run.run import list_models, run_sweep
from tests.run.test_several import close, written


@pytest.fixture
def checkpoints(tmp_path, gpt2, llama):
    """Two models, in an order that texts do not have, and two folders that are none."""
    runs = tmp_path / "lr=1,dtype=16"
    for name, model in (("step-2", gpt2), ("step-10", llama)):
        shutil.copytree(model, runs / name)
    for name in ("step-1", "logs"):
        (runs / name).mkdir()
    return runs


def test_models_are_those_of_a_pattern_or_a_file(checkpoints, tmp_path):
    assert [Path(name).name for name in list_models(f"{checkpoints}/*")] == ["step-2", "step-10"]
    file = tmp_path / "models.txt"
    file.write_text("# two\nEleutherAI/pythia-160m,revision=step1000\n\n  gpt2 \n", "utf-8")
    models = "EleutherAI/pythia-160m,revision=step1000", "gpt2"
    assert list_models(str(file)) == {model: f"pretrained={model}" for model in models}
    for nothing in (f"{checkpoints}/epoch-*", str(checkpoints), str(tmp_path / "missing.txt")):
        with pytest.raises(NNDError, match="no model; name a file with a model on each line, or a pattern"):
            list_models(nothing)


def test_a_token_in_a_list_of_models_is_not_shown(tmp_path, capsys):
    file = tmp_path / "models.txt"
    file.write_text("gpt2,token=hush\n", "utf-8")

    def fail(words):
        assert words == "pretrained=gpt2,token=hush"
        raise NNDError("it failed")

    with pytest.raises(NNDError, match="1 model of 1 failed"):
        run_sweep(str(file), fail)
    shown = "".join(capsys.readouterr())
    assert "gpt2,token=***" in shown
    assert "hush" not in shown


#: Of every run.
WORDS = ["--tasks=nnd_demo,nnd_demo_clean", "--limit=3", "--device=cpu", "--log_samples"]


def sweep(nnd, models, out, *more, arguments="dtype=float32"):
    model = "ray" if "workers" in arguments else "hf"
    words = ["--model", model, "--model_args", arguments, "--models", models, "--output_path", out]
    return nnd("run", *WORDS, *words, *more)


def results(out):
    return sorted(out.rglob("results_*.json"))


def test_each_model_has_the_results_of_a_run_of_its_own_and_is_not_run_again(nnd, checkpoints, home, tmp_path):
    pattern, out = f"{checkpoints}/step-*", tmp_path / "out"
    first = sweep(nnd, pattern, out)
    assert first.status == 0, first.err
    assert [line for line in first.out.splitlines() if line.startswith("model ")] == [
        f"model {number} of 2: {checkpoints}/{name}" for number, name in ((1, "step-2"), (2, "step-10"))
    ]
    files = results(out)
    assert len(files) == 2
    words = ["--model", "hf", "--model_args", f"dtype=float32,pretrained='{checkpoints}/step-10'"]
    assert nnd("run", *WORDS, *words, "--output_path", tmp_path / "alone").status == 0
    [folder] = {path.parent for path in files if path.parent.name.endswith("step-10")}
    assert close(written(folder), written(tmp_path / "alone"))

    again = sweep(nnd, pattern, out)
    assert again.status == 0
    assert again.out.count("has results: ") == 2
    assert results(out) == files
    trend = nnd("trend", out)
    assert trend.status == 0, trend.err
    assert "step-10" in trend.out

    # Results of another command, other options, and a model that was trained on leave no results of this command.
    files[0].rename(files[0].with_name("results_2026-01-01.json"))
    config = checkpoints / "step-2" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text("utf-8")), indent=1), "utf-8")
    assert sweep(nnd, pattern, out).out.count("has results: ") == 0
    assert len(results(out)) == 4
    assert sweep(nnd, pattern, out, "--num_fewshot", "1").out.count("has results: ") == 0
    assert sweep(nnd, pattern, out, "--batch_size", "2").out.count("has results: ") == 2


def test_a_model_that_fails_is_named_in_the_end_and_a_mistake_of_all_ends_the_sweep(nnd, checkpoints, home, tmp_path):
    (checkpoints / "step-1" / "config.json").write_text("{}", "utf-8")
    outcome = sweep(nnd, f"{checkpoints}/step-*", tmp_path / "out")
    assert outcome.status == 1
    assert outcome.err.splitlines()[-1] == "nnd: error: 1 model of 3 failed; the same command tries them again"
    assert f"{checkpoints}/step-1: " in outcome.err
    assert len(results(tmp_path / "out")) == 2
    wrong = sweep(nnd, f"{checkpoints}/step-*", tmp_path / "other", "--tasks", "nnd_dmo")
    assert wrong.status == 1
    assert wrong.err.splitlines()[-1].startswith("nnd: error: there is no task 'nnd_dmo'")
    assert "model 3 of 3" not in wrong.out


def test_workers_leave_room_for_the_next_model(nnd, checkpoints, home, tmp_path):
    pattern, out = f"{checkpoints}/step-*", tmp_path / "out"
    with fake_ray() as ray:
        first = sweep(nnd, pattern, out, arguments="engine=hf,workers=2,dtype=float32")
        assert first.status == 0, first.err
        assert ray.actors == []
        assert len(ray.started) == 1
        assert [name for name, _ in ray.calls].count("load") <= 4, "each worker loads a model once for both tasks"
        again = sweep(nnd, pattern, out, arguments="engine=hf,workers=3,dtype=float32")
        assert again.out.count("has results: ") == 2
