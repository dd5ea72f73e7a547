"""``--model vllm`` with a stand-in for vLLM: which model type it becomes, what is sent, and that the numbers are those of hf.

`tests/vllm` runs vLLM itself.
"""

import logging
from types import ModuleType, SimpleNamespace

import pytest

import nnd_tasks
from engine_tests import fake_vllm
from nnd_tasks.errors import NNDError
from nnd_tasks.run import checks
from nnd_tasks.run.run import cache_key
from nnd_tasks.task.signature import environment
from shared_prefix.model_error import ModelError
from tests import random_models
from tests.run import test_backends

LIMIT = 4
REQUESTS = [(None, [*range(5, 26)], [*range(3, 3 + n)]) for n in (1, 4, 9)]


@pytest.fixture
def engine(tmp_path):
    environment.cache_clear()
    with fake_vllm.installed(tmp_path / "site") as made:
        yield made
    environment.cache_clear()


def through_vllm(folder, model="vllm", **kwargs):
    arguments = {"pretrained": str(folder), "dtype": "float32", "max_model_len": 2048, **kwargs.pop("model_args", {})}
    options = {"batch_size": "auto", "bootstrap_iters": 0, "limit": LIMIT, **kwargs}
    return nnd_tasks.evaluate(["nnd_demo"], model, arguments, **options)


def assert_same(one, other):
    test_backends.assert_same(test_backends.samples_of(one), test_backends.samples_of(other))


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("vllm-shared-prefix:")]


# ---------------------------------------------------------------- the numbers


@pytest.mark.parametrize(("name", "block", "short"), [("gpt2", 4, False), ("llama", 32, True)])
def test_the_outcomes_are_those_of_hf(name, block, short, engine, tiny_models, home, caplog):
    engine.short = short
    with caplog.at_level(logging.INFO):
        results = through_vllm(tiny_models[name], model_args={"block_size": block})
    assert results["config"]["model"] == "vllm-shared-prefix"
    assert said(caplog) == ["vllm-shared-prefix: contexts are read once, from vLLM's cache of prefixes"]
    assert_same(results, random_models.evaluate(tiny_models[name], ["nnd_demo"], limit=LIMIT))
    plain = through_vllm(tiny_models[name], model_args={"block_size": block}, shared_prefix=False)
    assert_same(results, plain)
    assert [any(cached for _, _, cached in made.calls) for made in engine.made] == [True, False]
    ours, theirs = (run["configs"]["nnd_demo"]["metadata"]["nnd"]["signature"] for run in (results, plain))
    assert ours["environment"]["vllm"] == "0.32.0"
    assert (ours["protocol"], ours["environment"]) == (theirs["protocol"], theirs["environment"])
    assert ours["model"] == theirs["model"], "it is one model"


def test_a_window_cuts_as_lm_evals_vllm_does(engine, gpt2, home):
    from shared_prefix.vllm_shared_prefix import VLLMSharedPrefixLM

    settings = {"pretrained": str(gpt2), "max_model_len": 40, "block_size": 4}
    requests = [
        (None, list(range(5, 5 + n)), list(range(3, 3 + m))) for n, m in ((50, 3), (36, 3), (37, 3), (1, 38), (9, 37))
    ]
    ours, plain = VLLMSharedPrefixLM(**settings), VLLMSharedPrefixLM(**settings, shared_prefix=False)
    assert ours.why_not() is None
    for one, other in zip(ours._loglikelihood_tokens(requests), plain._loglikelihood_tokens(requests), strict=True):
        assert one == (pytest.approx(other[0], abs=1e-5), other[1])
    for context, continuation in (([1], list(range(39))), ([1], []), ([], [1])):
        with pytest.raises(ModelError, match=r"window|has no token"):
            ours._loglikelihood_tokens([(("a", "b"), context, continuation)])


# ---------------------------------------------------------------- falling back


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"enable_prefix_caching": False}, "vLLM caches no prefixes here"),
        ({"logprobs_mode": "raw_logits"}, "logprobs_mode=raw_logits"),
        ({"block_size": 1024}, "the check on a small example failed"),
        ({"shared_prefix": False}, "shared_prefix=False"),
        ({"lies": True}, "nothing came from its cache"),
        ({"skew": 0.1}, "on a small example the sums differ from those of whole prompts"),
    ],
)
def test_an_engine_that_cannot_share_scores_as_lm_eval_does(arguments, reason, engine, gpt2, caplog):
    from shared_prefix.vllm_shared_prefix import VLLMSharedPrefixLM

    for name in ("lies", "skew"):  # a faulty engine
        setattr(engine, name, arguments.get(name, getattr(engine, name)))
    arguments = {name: value for name, value in arguments.items() if name not in ("lies", "skew")}
    settings = {"pretrained": str(gpt2), "max_model_len": 512, "block_size": 4, "dtype": "float32"}
    with caplog.at_level(logging.INFO):
        VLLMSharedPrefixLM(**{**settings, **arguments})._loglikelihood_tokens(REQUESTS)
    [line] = said(caplog)
    assert line.startswith("vllm-shared-prefix: not sharing prefixes, plain vllm instead: ")
    assert reason in line
    [made] = engine.made
    assert [params.prompt_logprobs for _, params, _ in made.calls[-len(REQUESTS) :]] == [1] * len(REQUESTS)
    assert not any(cached for _, _, cached in made.calls[-len(REQUESTS) :])


def test_16_bits_say_how_to_get_exact_numbers(engine, gpt2, caplog):
    from shared_prefix.vllm_shared_prefix import VLLMSharedPrefixLM

    lm = VLLMSharedPrefixLM(pretrained=str(gpt2), max_model_len=512, dtype="bfloat16")
    with caplog.at_level(logging.INFO):
        assert lm.why_not() is None
    lines = said(caplog)
    assert "42019" in lines[1]
    assert "shared_prefix=False,enable_prefix_caching=False" in lines[1]


class Silent:
    def __init__(self):
        """Take no number of tokens from the cache."""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"SamplingParams": SimpleNamespace(__struct_fields__=())}, "no prompt_logprobs"),
        ({"RequestOutput": Silent}, "does not say how many"),
    ],
)
def test_a_vllm_that_is_too_old_is_one_line(changes, reason, tmp_path, caplog):
    with fake_vllm.installed(tmp_path, release="0.9.2", **changes), caplog.at_level(logging.INFO):
        assert checks.choose_model_type("vllm", {}, shared_prefix=True, tokens=False) == ("vllm", {})
    [line] = said(caplog)
    assert "plain vllm instead: vLLM 0.9.2 is too old" in line
    assert reason in line


def test_a_vllm_that_lm_eval_cannot_load_is_one_line(tmp_path):
    with fake_vllm.installed(tmp_path), pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "vllm", SimpleNamespace(__spec__=ModuleType("vllm")))
        with pytest.raises(NNDError, match=r"lm-eval cannot load vLLM 0\.32\.0 \(ImportError: .*pip install -U vllm"):
            checks.choose_model_type("vllm", {}, shared_prefix=True, tokens=False)


def test_without_vllm_there_is_one_line(home, monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    with pytest.raises(NNDError, match="--model vllm: vLLM is not installed; pip install vllm"):
        nnd_tasks.evaluate(["nnd_demo"], "vllm", {"pretrained": "x"})


# ---------------------------------------------------------------- what results keep


def test_answers_of_another_vllm_are_not_reused(tmp_path):
    keys = set()
    for release in ("0.32.0", "0.33.0"):
        environment.cache_clear()
        with fake_vllm.installed(tmp_path / release, release=release):
            keys |= {cache_key(model, {"pretrained": "x"}) for model in ("vllm", "vllm-shared-prefix", "hf")}
    environment.cache_clear()
    assert len(keys) == 5
