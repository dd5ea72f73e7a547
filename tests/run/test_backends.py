"""The same outcomes through an HTTP server."""

from functools import cache
from importlib.util import find_spec

import pytest

import nnd_tasks
from shared_prefix.lengths import TokenCounter
from shared_prefix.model_error import ModelError
from tests.random_models import WINDOW, evaluate
from tests.run.completions_server import PROBE, CompletionsServer

missing = [name for name in ("aiohttp", "tenacity") if find_spec(name) is None]
needs_client = pytest.mark.skipif(
    bool(missing), reason=f"lm-eval's API client needs {missing}: pip install lm-eval[api]"
)

FEW = 12  # clusters, where a part of the demo is enough

#: (model, arguments of local-completions, arguments of hf that mean the same). lm-eval's API client adds no BOS token
#: unless told to; hf does what the tokenizer does.
ALIKE = {
    "gpt2": ("gpt2", {}, {}),
    "llama-without-bos": ("llama", {}, {"add_bos_token": False}),
    "llama-with-bos": ("llama", {"add_bos_token": True}, {}),
}
#: How the client sends prompts: arguments, batch size, number of clusters.
TRANSPORTS = {
    "tokens": ({"tokenizer_backend": "huggingface"}, 8, None),
    "tokens-one-by-one": ({}, 1, FEW),
    "text-concurrent": ({"tokenized_requests": False, "num_concurrent": 4}, 3, None),
    "text-one-by-one": ({"tokenized_requests": False}, 1, FEW),
}


def through(server, folder, arguments=None, **kwargs):
    """Evaluate the demo through a server of the model in ``folder``."""
    model_args = {"model": "served", "base_url": server.url, "tokenizer": str(folder), **(arguments or {})}
    options = {"batch_size": 8, "bootstrap_iters": 0, **kwargs}
    return nnd_tasks.evaluate(["nnd_demo"], "local-completions", model_args, **options)


def samples_of(results):
    return list(results["samples"]["nnd_demo"])


def scored_by(server):
    """Return the prompts that a server answered, without those that only try its answers (`check_order`, `AskedAgain`)."""
    heads = {tuple(prompt[:-1]) for prompt in server.answered}
    return [prompt for prompt in server.answered if len(prompt) > PROBE and tuple(prompt) not in heads]


def assert_same(some, others):
    """Check that two runs agree on every test, token count and, within float32's precision, every likelihood."""
    for one, other in zip(some, others, strict=True):
        assert one["tests"] == other["tests"]
        for a, b in zip(one["candidates"], other["candidates"], strict=True):
            assert (a["tokens"], a["bytes"]) == (b["tokens"], b["bytes"])
            assert a["sum"] == pytest.approx(b["sum"], rel=2e-6, abs=1e-4)
            assert a["mean"] == pytest.approx(b["mean"], rel=2e-6, abs=1e-5)


@pytest.fixture(scope="module")
def reference(tiny_models):
    """A function that gives hf's results in float32 on the whole demo, by name in `ALIKE`; each is run once."""

    @cache
    def find(alike):
        model, _, arguments = ALIKE[alike]
        return evaluate(tiny_models[model], ["nnd_demo"], model_args=arguments)

    return find


# ---------------------------------------------------------------- local-completions


@needs_client
@pytest.mark.parametrize(
    ("alike", "transport"),
    [
        *(("gpt2", way) for way in TRANSPORTS),
        ("llama-without-bos", "tokens-one-by-one"),
        ("llama-with-bos", "text-one-by-one"),
    ],
)
def test_every_test_comes_out_over_http_as_with_hf(alike, transport, reference, tiny_models, home):
    model, arguments, _ = ALIKE[alike]
    more, batch_size, limit = TRANSPORTS[transport]
    folder = tiny_models[model]
    with CompletionsServer.load(folder, meet=2 if "num_concurrent" in more else 1) as server:
        results = through(server, folder, {**arguments, **more}, batch_size=batch_size, limit=limit)
    assert_same(samples_of(results), samples_of(reference(alike))[:limit])
    found = results["results"]["nnd_demo"]
    assert len(scored_by(server)) == found["candidates,none"]
    assert server.texts == ("text" in transport) * len(server.answered)
    assert (max(server.sizes), server.most_at_once > 1) == (batch_size, "num_concurrent" in more)
    if limit is None:
        assert (found["tests,none"], found["candidates,none"]) == (381, 305)


@needs_client
@pytest.mark.parametrize("tokenized", [True, False], ids=["tokens", "text"])
def test_special_tokens_in_the_candidates_survive_the_way_to_the_server(tokenized, llama, home):
    options = {"limit": FEW, "metadata": {"append_eos": True}}
    with CompletionsServer.load(llama) as server:
        results = through(server, llama, {"tokenized_requests": tokenized, "add_bos_token": True}, **options)
    assert all(prompt[0] == 0 and prompt[-1] == 1 for prompt in scored_by(server))  # BOS and EOS, once each
    assert all({0, 1}.isdisjoint(prompt[1:-1]) for prompt in scored_by(server))
    assert_same(samples_of(results), samples_of(evaluate(llama, ["nnd_demo"], **options)))


@needs_client
def test_the_clients_window_holds_two_tokens_fewer_than_that_of_hf(reference, gpt2, home):
    """It leaves room for the token that the server generates; hf does not even feed the last one."""
    window, few = 64, 6
    with CompletionsServer.load(gpt2) as server:
        short = through(server, gpt2, {"max_length": window}, limit=few)
        whole = {
            len(server.tokenizer.encode(context + continuation))
            for sample in samples_of(reference("gpt2"))[:few]
            for context, continuation in sample["arguments"]
        }
    assert max(len(prompt) for prompt in server.answered) < window < min(whole) < WINDOW
    plain = evaluate(gpt2, ["nnd_demo"], model_args={"max_length": window - 2}, limit=few)
    assert_same(samples_of(short), samples_of(plain))


def test_the_gguf_client_agrees_with_hf_where_the_tokens_meet_at_the_characters(reference, gpt2, home):
    """It sends text and finds the candidate by `text_offset`. This is lm-eval's client only, not llama.cpp."""
    with CompletionsServer.load(gpt2) as server:
        arguments = {"base_url": server.url.removesuffix("/v1/completions"), "tokenizer": str(gpt2)}
        results = nnd_tasks.evaluate(["nnd_demo"], "gguf", arguments, limit=FEW, bootstrap_iters=0)
    assert server.texts == len(server.answered) > 4 * FEW
    assert_same(samples_of(results), samples_of(reference("gpt2"))[:FEW])


# ---------------------------------------------------------------- what cannot be counted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokenizer_backend": None, "tokenizer": "x"}, "tokenizer_backend=None; use tokenizer_backend=huggingface"),
        ({"model": "nobody/served"}, r"the tokenizer nobody/served cannot be loaded .*name one with tokenizer="),
    ],
)
def test_a_tokenizer_that_we_cannot_count_with_is_one_clear_error(arguments, message):
    with pytest.raises(ModelError, match=message):
        TokenCounter({"base_url": "http://127.0.0.1:1/v1/completions", **arguments})
