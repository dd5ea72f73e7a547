"""Servers that answer badly give one clear error, and nothing of it is cached."""

import copy
import json
import logging
import random
import re

import pytest
from sqlitedict import SqliteDict

from engine_tests.comparing import instances
from nnd_tasks.errors import NNDError
from nnd_tasks.servers.client import checked_servers, read_answers
from shared_prefix.model_error import ModelError
from tests.run.completions_server import PROBE, CompletionsServer
from tests.run.local_server import HANG_UP
from tests.run.test_backends import FEW, needs_client, samples_of, scored_by, through

pytestmark = needs_client
LISTS = ("tokens", "token_logprobs", "top_logprobs")


def each(change):
    """Spoil every choice of an answer."""

    def spoil(body):
        for choice in body["choices"]:
            change(choice)
        return body

    return spoil


def edit(change, names=LISTS):
    """Change the lists of a choice."""

    def change_lists(choice):
        for name in names:
            change(choice["logprobs"][name])

    return change_lists


def put(place, value, name="token_logprobs"):
    return edit(lambda values: values.__setitem__(place, value), (name,))


def swap_numbers(body):
    """Give each prompt the numbers of the one before, where that has as many; nothing else shows it."""
    groups = {}
    for choice in body["choices"]:
        groups.setdefault(len(choice["logprobs"]["tokens"]), []).append(choice)
    for group in groups.values():
        lists = [choice["logprobs"] for choice in group]
        for choice, other in zip(group, [*lists[1:], lists[0]], strict=True):
            choice["logprobs"] = {**other, "tokens": None}
    return body


def nameless(change):
    """Spoil the numbers of a choice, and name no tokens, which could show it."""

    def spoil(choice):
        edit(change, LISTS[1:])(choice)
        choice["logprobs"]["tokens"] = None

    return spoil


def where_long(change):
    """Spoil prompts that are longer than those of `check_order`."""
    return each(lambda choice: len(choice["logprobs"]["tokens"]) > PROBE + 1 and nameless(change)(choice))


def turn(values):
    """Give the tokens the entries of one another, the last one that of the first."""
    values[1:-1] = values[-2:0:-1]


def shift(values):
    """Give each token but the first the entry of the next one."""
    values[1:] = [*values[2:], values[-1]]


SURE = [None, *({"b": 0.0} for _ in range(8))]
#: What the server does with its answers -> what the error says.
BAD = {
    "the last entry is lost": (each(edit(list.pop)), r"of (\d+) tokens with \d+ log-probabilities; expected \d+"),
    "no echo": (
        each(edit(lambda values: values.__delitem__(slice(1, None)))),
        r"8 tokens with 1 log-.* does not echo",
    ),
    "all are shifted": (each(edit(lambda values: values.append(values.pop(0)))), "first token, which has none: null"),
    "as many entries in one list only": (each(edit(list.pop, LISTS[2:])), r"\d+ token_logprobs and \d+ top_logprobs"),
    "null": (each(put(3, None)), "None as log-probability of token 4 of"),
    "no number": (each(put(3, float("nan"))), "nan as log-probability of token 4 of"),
    "a huge number": (each(put(3, -(10**400))), "as log-probability of token 4 of"),
    "what stands for an unlikely token": (each(put(3, -9999.0)), "-9999.0 as log-probability of token 4 of"),
    "above the likeliest": (each(put(3, -0.5)), "-0.5 for token 4 of 8, above the likeliest one, -3"),
    "below the same token": (
        each(put(3, {"a": -3.5, "b": -3.0}, "top_logprobs")),
        "-4 for token 4 of 8, and -3.5 for the same token in top_logprobs",
    ),
    "above the same token": (each(put(3, {"a": -5.0, "b": -3.0}, "top_logprobs")), "-4 for token 4 of 8, and -5 for"),
    "above 0": (each(put(3, 0.25)), "0.25 as log-probability of token 4 of"),
    "a candidate of zeros": (
        each(
            lambda choice: choice["logprobs"].update(
                token_logprobs=[None, -2.0, -3.0, -4.0, *[0.0] * 5], top_logprobs=SURE
            )
        ),
        "0 as log-probability of each of",
    ),
    "one number for all": (
        each(edit(lambda values: values.__setitem__(slice(1, None), [-9.0] * (len(values) - 1)), LISTS[1:2])),
        "-9 as log-probability of each of",
    ),
    "no likeliest tokens": (each(put(3, None, "top_logprobs")), "top_logprobs None for token 4 of"),
    "no logprobs": (
        each(lambda choice: choice.pop("logprobs")),
        "with choices.0.logprobs .*: Field required; it must heed",
    ),
    "the shape of chats": (
        each(lambda choice: choice.update(logprobs={"content": [{"token": "a", "logprob": -1.0}]})),
        "the shape of chat completions",
    ),
    "fewer choices": (lambda body: {**body, "choices": body["choices"][1:]}, r"(\d+) prompts? with \d+ choices"),
    "no indices": (each(lambda choice: choice.pop("index")), "with choices.0.index .*: Field required"),
    "the same index": (each(lambda choice: choice.update(index=1)), r"of the indices \[1, 1, 1\]; expected each of"),
    "an error": (lambda body: {"error": {"message": "overloaded"}}, "with an error: .*overloaded"),
    "null as a whole": (lambda body: None, "with answer None: "),
}
#: The same for what only several answers show.
STRANGE = {
    "another order": (
        lambda body: {**body, "choices": _reversed(body["choices"])},
        "log-probabilities; expected|was sent: it is the answer to another prompt",
    ),
    "another order of equal lengths": (swap_numbers, "not in the order of the prompts"),
    "numbers are those of the next": (each(nameless(shift)), "belong to the token before or after"),
    "numbers are those of the token before": (
        each(nameless(lambda values: values.__setitem__(slice(2, None), values[1:-1]))),
        "belong to the token before or after",
    ),
    "long prompts have the numbers of the next": (where_long(shift), "belong to the token before or after"),
    "long prompts have them in another order": (where_long(turn), "with other numbers than the same without its last"),
    "another text": (
        each(lambda choice: choice.update(text=f"Hm. {choice['text']}")),
        "begin with the prompt that was sent",
    ),
    "another token": (
        each(put(3, "Hm", "tokens")),
        "'Hm' as token 4 of .* was sent: it is the answer to another prompt",
    ),
    "a key twice": (
        lambda body: json.dumps(body).replace('"index": 0', '"index": 0, "index": 0').encode(),
        "with an object that has the key 'index' twice",
    ),
}


def _reversed(choices):
    return [{**choice, "index": len(choices) - 1 - choice["index"]} for choice in choices]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_answer_is_an_error_that_says_what_is_wrong(bad):
    spoil, message = BAD[bad]
    prompts = [[*range(8)]] * 3
    likely = [None, *({"b": -1.0 - place} for place in range(8))]
    logprobs = {"tokens": ["a"] * 9, "token_logprobs": [None, *(-2.0 - i for i in range(8))], "top_logprobs": likely}
    body = {"choices": [{"index": i, "text": "a", "logprobs": copy.deepcopy(logprobs)} for i in range(3)]}
    assert len(read_answers(copy.deepcopy(body), prompts, [4] * 3)) == 3
    with pytest.raises(ModelError, match=f"the server answers .*({message})"):
        read_answers(spoil(body), prompts, [4] * 3)


@pytest.mark.parametrize(
    ("bad", "concurrent"),
    [
        *((bad, 1) for bad in ("null", *STRANGE)),
        *((bad, 3) for bad in ("null", "an error", *(bad for bad in STRANGE if bad.startswith("long")), "a key twice")),
    ],
)
def test_a_bad_answer_ends_the_run_and_leaves_nothing_in_the_cache(bad, concurrent, gpt2, home, tmp_path, caplog):
    change, message = (BAD | STRANGE)[bad]

    def spoil(body):
        """Spoil later answers where one alone shows it: those before it are not kept either."""
        return change(body) if bad in STRANGE or len(server.answered) > 30 else body

    expected = pytest.raises(NNDError, match=f"the server answers .*({message})")
    with CompletionsServer.load(gpt2, spoil=spoil) as server, expected:
        through(server, gpt2, {"num_concurrent": concurrent}, limit=8, use_cache=str(tmp_path / "cache"))
    assert "Exception:" not in caplog.text
    [path] = tmp_path.glob("cache*.db")
    assert len(SqliteDict(str(path))) == 0


@pytest.mark.parametrize("concurrent", [1, 3])
def test_a_share_of_the_prompts_is_asked_again_and_the_run_says_how_many(concurrent, gpt2, home, caplog):
    with CompletionsServer.load(gpt2) as server, caplog.at_level(logging.INFO, "lm_eval.nnd"):
        through(server, gpt2, {"num_concurrent": concurrent}, limit=FEW)
    [again] = re.findall(r"(\d+) of (\d+) prompts were sent to the server again", caplog.text)
    asked = sum(len(prompt) > PROBE for prompt in server.answered)
    scored = len(scored_by(server))
    assert again == (str(asked - scored), str(scored)) == ("8", str(scored))


def test_a_server_that_dies_takes_no_likelihoods_with_it(gpt2, home, tmp_path):
    spoils = [lambda body: body if len(server.answered) < 60 else HANG_UP]
    options = {"limit": FEW, "use_cache": str(tmp_path / "cache"), "batch_size": 1}
    with CompletionsServer.load(gpt2, spoil=lambda body: spoils[-1](body)) as server:
        with pytest.raises(NNDError, match=r"no answer .*with --use_cache FILE a run goes on"):
            through(server, gpt2, {"max_retries": 1}, **options)
        first = {*map(tuple, scored_by(server)[:-1])}
        spoils.append(dict)
        server.answered.clear()
        through(server, gpt2, {"max_retries": 1}, **options)
    assert len(first) > 20
    assert not first & {*map(tuple, scored_by(server))}


def ended(body):
    """Answer as where the text ends for the model: some prompts get no further token."""
    ends = [choice for choice in body["choices"] if random.Random(str(choice["text"])).random() < 0.5]
    for choice in ends:
        edit(list.pop)(choice)
    return {**body, "usage": {"completion_tokens": len(body["choices"]) - len(ends)}}


def longer(body):
    """Answer with a further token, as where the first is a part of a letter."""
    each(edit(lambda values: values.append(values[-1])))(body)
    return {**body, "usage": {"completion_tokens": 2 * len(body["choices"])}}


@pytest.mark.parametrize(("change", "batch_size"), [(ended, 5), (longer, 1)])
def test_as_many_entries_count_as_the_server_says_that_it_generated(change, batch_size, gpt2, home):
    found = []
    for spoil in (dict, change):
        with CompletionsServer.load(gpt2, spoil=spoil) as server:
            samples = samples_of(through(server, gpt2, limit=4, batch_size=batch_size))
            found.append([sample["candidates"] for sample in samples])
    assert found[0] == found[1]


@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_server_of_texts_that_adds_a_token_of_its_own_is_told(adds_bos, llama, home):
    """With ``tokenized_requests=False`` the server tokenizes, and this one puts BOS before every text."""
    with CompletionsServer.load(llama) as server:
        encode = server.tokenizer.encode
        server.tokenizer.encode = lambda text, **kwargs: [0] * adds_bos + encode(text, add_special_tokens=False)
        arguments = {"tokenized_requests": False}
        if not adds_bos:
            assert len(samples_of(through(server, llama, arguments, limit=2))) == 2
            return
        with pytest.raises(NNDError, match="a BOS token of its own"):
            through(server, llama, arguments, limit=2)


def test_chats_are_refused_where_lm_eval_does_not_render_them(llama, home):
    chats = {"arguments": {"tokenized_requests": False}, "apply_chat_template": True, "batch_size": 1}
    with CompletionsServer.load(llama) as server, pytest.raises(NNDError, match="sends chats without rendering them"):
        through(server, llama, limit=2, **chats)


def test_a_server_without_likelihoods_of_a_text_ends_a_run_with_lm_evals_client_gguf(monkeypatch):
    from lm_eval.models.gguf import GGUFLM

    written = {"choices": [{"logprobs": {"content": [{"logprob": -2.2}]}}]}  # as llama-server answers
    monkeypatch.setattr(GGUFLM, "gguf_completion", lambda *args, **kwargs: written)
    with checked_servers(), pytest.raises(ModelError, match=r"no likelihood of 2 of 2 texts, as llama\.cpp's own"):
        GGUFLM("http://x").loglikelihood(instances([("a", " b")] * 2))
