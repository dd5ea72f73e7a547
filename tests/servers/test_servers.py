"""What becomes of a run when a chat server refuses, is busy, fails, dies, moves, or answers in other shapes, over real HTTP."""

import gc
import json
import re
from collections import Counter

import pytest
from sqlitedict import SqliteDict

import nnd_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.servers.client import BusyError, RefusedError, check_status, explain_refusal
from tests.prompted.test_judge import judge, last_message, pick
from tests.random_models import evaluate
from tests.run.chat_server import DRIP, HANG_UP, ChatServer, Refusal
from tests.run.test_backends import needs_client
from tests.task.tasks import read_task, write_yaml

pytestmark = needs_client
TASK = "nnd_demo_judge"
#: Of a run of two prompts.
QUESTIONS = 30


def ask(server, at_once=1, **options):
    """Let a judge write 30 answers, and return what its run says."""
    arguments = {"num_concurrent": at_once, **options.pop("model_args", {})}
    results = judge(server, TASK, model_args=arguments, **{"limit": 2, **options})
    return read_task(results, TASK)


def records_of(run):
    return [record for sample in run.samples for record in sample["candidates"]]


def answer(payload):
    return str(pick(last_message(payload), "Answer: A", "Answer: B"))


def body(content, *, ended="stop", **more):
    message = {"role": "assistant", "content": content}
    return {"choices": [{"index": 0, "message": message, "finish_reason": ended}], **more}


def openai_says(name):
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return {"error": {"message": message, "type": "invalid_request_error", "param": name}}


def pydantic_says(name):
    return {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]}


def apart_says(name):
    return {"object": "error", "message": "Unknown value.", "param": name}


# ---------------------------------------------------------------- a server that refuses


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("seed", 400, openai_says),
        ("seed", 422, pydantic_says),
        ("temperature", 400, apart_says),
        ("max_tokens", 400, openai_says),
    ],
)
def test_a_refused_parameter_is_one_error_at_the_first_answer_with_the_option_that_leaves_it_out(
    name, status, says, home
):
    given = {"until": ["\n\n"]}
    with ChatServer(lambda payload: Refusal(status, says(name)) if name in payload else answer(payload)) as server:
        with pytest.raises(NNDError, match=rf"refuses the request \({status}\): .*leaves {name} out$") as refused:
            ask(server, gen_kwargs=given)
        assert len(server.payloads) == 1
        advice = re.search(r"--gen_kwargs (\S+)", str(refused.value))
        assert advice
        options = {key: None if value == "None" else int(value) for key, value in re.findall(r"(\w+)=(\w+)", advice[1])}
        run = ask(server, 4, gen_kwargs=given | options)
    assert len(server.payloads) == 1 + QUESTIONS
    assert run.rates["unread"] == 0
    assert ("max_completion_tokens" in server.payloads[-1]) is (name == "max_tokens")


def test_requests_at_once_end_with_the_first_that_is_refused(home, caplog):
    refusal = Refusal(400, "no seed, please")
    with ChatServer(lambda payload: refusal) as server, pytest.raises(NNDError, match="no seed, please"):
        ask(server, 4, model_args={"max_retries": 3})
    gc.collect()  # asyncio tells of the errors of other tasks when they are thrown away
    assert len(server.payloads) < QUESTIONS, "each question once would be as many"
    logged = [f"{record.getMessage()} {record.exc_info}" for record in caplog.records]
    assert not [line for line in logged if "no seed" in line], "it is said once, in the error"


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (Refusal(401, "Incorrect API key"), "401.*Incorrect API key; .*OPENAI_API_KEY"),
        (Refusal(404, "Not Found"), "404.*Not Found; base_url in --model_args is the whole address"),
        (Refusal(400, "This model has a context of 10 tokens."), "400.: This model has a context of 10 tokens.$"),
        (
            Refusal(429, "Enough for today", {"Retry-After": "86400"}),
            "429.*Enough for today; it asks to wait for longer",
        ),
        (Refusal(429, {"error": {"code": "insufficient_quota", "message": "Pay first."}}), "429.: Pay first.$"),
    ],
    ids=["key", "address", "no parameter", "a day", "unpaid"],
)
def test_what_asking_again_does_not_mend_ends_a_run_at_once(refusal, message, home):
    with ChatServer(lambda payload: refusal) as server, pytest.raises(NNDError, match=message):
        ask(server, model_args={"max_retries": 3})
    assert len(server.payloads) == 1


@pytest.mark.parametrize(("status", "at_once"), [(301, 1), (302, 4)])
def test_a_redirection_names_the_other_address(status, at_once, home):
    moved = Refusal(status, "Moved", {"Location": "/login"})
    message = rf"\({status}\): it sends the request on to \S*/login; base_url in --model_args names that address"
    with ChatServer(lambda payload: moved) as server, pytest.raises(NNDError, match=message):
        ask(server, at_once, limit=1)


def test_what_a_server_says_is_read_in_any_shape():
    for text in ("Bad Request", '{"error": "Bad Request"}', '{"message": "Bad Request"}', '{"detail": "Bad Request"}'):
        assert (
            explain_refusal(RefusedError(400, text), {"seed": 1}) == "the server refuses the request (400): Bad Request"
        )
    assert "base_url" in explain_refusal(RefusedError(404, "Not Found"), {})
    assert "base_url" not in explain_refusal(RefusedError(404, "The model `x` does not exist"), {})
    too_large = explain_refusal(RefusedError(400, "max_tokens is too large: 9000"), {"max_tokens": 9000})
    assert too_large.endswith("; --gen_kwargs max_gen_toks=N asks for fewer")
    assert explain_refusal(RefusedError(400, ""), {}) == "the server refuses the request (400): "
    assert len(explain_refusal(RefusedError(400, "x" * 10_000), {})) < 400


def test_a_client_whose_packages_are_missing_is_one_error_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr("nnd_tasks.run.checks.find_spec", lambda name: None if name == "tenacity" else name)
    for model in ("local-chat-completions", "local-completions"):
        with pytest.raises(NNDError, match=rf"--model {model}: needs tenacity; pip install 'lm-eval\[api\]'"):
            nnd_tasks.evaluate(TASK, model, {"base_url": "http://127.0.0.1:1/v1"})


# ---------------------------------------------------------------- a server that is busy or fails


@pytest.mark.parametrize(
    ("headers", "times", "at_once"), [({"Retry-After": "0"}, 2, 1), ({"Retry-After": "0"}, 2, 4), ({}, 1, QUESTIONS)]
)
def test_a_busy_server_is_asked_again_when_it_says(headers, times, at_once, home):
    asked = Counter()

    def busy(payload):
        asked[last_message(payload)] += 1
        return answer(payload) if asked[last_message(payload)] > times else Refusal(429, "slow down", headers)

    with ChatServer(busy) as server:
        run = ask(server, at_once)
    assert len(asked) == QUESTIONS
    assert {*asked.values()} == {times + 1}
    assert run.rates["unread"] == 0


def test_a_server_that_stays_busy_is_one_error_that_says_to_ask_for_fewer_at_once(home):
    with ChatServer(lambda payload: Refusal(429, "slow down", {"Retry-After": "0"})) as server:
        with pytest.raises(NNDError, match=r"no answer \(status 429: slow down\); .*num_concurrent=1"):
            ask(server, model_args={"max_retries": 2})
        assert len(server.payloads) == 40


def test_a_server_that_is_overloaded_is_asked_more_often_than_one_that_fails():
    says = {(500, "error"): False, (503, "no such host"): False, (503, "The engine is overloaded."): True}
    for (status, text), overloaded in {**says, (529, "Overloaded"): True, (429, "slow down"): True}.items():
        with pytest.raises(BusyError) as busy:
            check_status(status, {}, text)
        assert busy.value.overloaded is overloaded


def test_how_long_a_server_asks_to_wait_is_read():
    pauses = {}
    for value in ("7", "0.5", "-1", "Wed, 21 Oct 2015 07:28:00 GMT", "soon", None):
        with pytest.raises(BusyError) as busy:
            check_status(429, {} if value is None else {"Retry-After": value}, "")
        pauses[value] = busy.value.pause
    assert pauses == {"7": 7, "0.5": 0.5, "-1": 0, "Wed, 21 Oct 2015 07:28:00 GMT": 0, "soon": None, None: None}


#: Of completions, a stream, Anthropic's, Ollama's and Google's APIs, and of none.
OTHER_SHAPES = [
    {"choices": [{"index": 0, "text": "Answer: A"}]},
    {"choices": [{"delta": {"content": "Answer: A"}}]},
    {"content": [{"type": "text", "text": "Answer: A"}]},
    {"message": {"content": "Answer: A"}, "done": True},
    {"candidates": [{"content": {"parts": [{"text": "Answer: A"}]}}]},
    {"choices": [None]},
    {"choices": [{"message": "Yes"}], "usage": []},
    {"choices": [{"message": {"content": 1}}]},
]


@pytest.mark.parametrize(
    ("at_once", "failure", "message"),
    [
        (1, Refusal(500, "out of memory"), r"no answer \(status 500: out of memory\); .*--use_cache FILE"),
        (4, {"error": {"message": "upstream is gone"}}, r"no answer \(upstream is gone\)"),
        *(
            (1, shape, r"answers .*, without choices\[\]\.message\.content: it has another API")
            for shape in OTHER_SHAPES
        ),
        (4, OTHER_SHAPES[0], "it has another API than --model; base_url in --model_args is the whole address"),
        (1, HANG_UP, "no answer .*max_retries=N"),
        (4, HANG_UP, "no answer .*max_retries=N"),
    ],
)
def test_a_server_that_fails_is_one_error(at_once, failure, message, home):
    with ChatServer(lambda payload: failure) as server, pytest.raises(NNDError, match=message):
        ask(server, at_once, limit=1)


@pytest.mark.parametrize(("at_once", "drips"), [(1, False), (2, False), (1, True), (2, True)])
def test_a_server_that_takes_too_long_is_one_error_that_names_the_option(at_once, drips, home):
    match = r"no answer .*; in --model_args, .*timeout=SECONDS"
    slow = (lambda payload: DRIP) if drips else (lambda payload: server.closing.wait() and "")
    with ChatServer(slow) as server, pytest.raises(NNDError, match=match):
        ask(server, at_once, model_args={"timeout": 1}, limit=1)


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_run_goes_on_at_another_address_where_a_server_died(at_once, home, tmp_path):
    answered = []

    def die(payload):
        if len(answered) >= 12:
            return HANG_UP
        answered.append(last_message(payload))
        return answer(payload)

    cache = str(tmp_path / "cache")
    with ChatServer(die) as first, pytest.raises(NNDError, match="with --use_cache FILE a run goes on"):
        ask(first, at_once, use_cache=cache)
    with ChatServer(answer) as second:
        resumed = ask(second, 4, model_args={"server": first.url}, use_cache=cache)
        asked = [last_message(payload) for payload in second.payloads]
        lost = {*asked} & {*answered}
        assert len(lost) < at_once, "those that were under way when another was hung up"
        assert len({*asked}) == len(asked) == QUESTIONS - len(answered) + len(lost)
        whole = ask(second, 4, use_cache=cache)
        assert len(second.payloads) == len(asked) + QUESTIONS, "another server, as nobody said that it is the same"
    assert resumed.rates == whole.rates
    arguments = resumed.facts["signature"]["model"]["arguments"]
    assert arguments["base_url"] == first.url
    assert "server" not in arguments


# ---------------------------------------------------------------- what a server answers


_FILTERED = Refusal(400, {"error": {"code": "content_filter", "message": "It was filtered.", "param": "prompt"}})


@pytest.mark.parametrize(
    ("at_once", "unread"),
    [
        (1, body(None, ended="length")),
        (4, {"choices": [{"index": 0, "finish_reason": "content_filter"}]}),
        (1, _FILTERED),
        (4, _FILTERED),
    ],
    ids=["null", "without a message", "400", "400 at once"],
)
def test_an_answer_without_text_is_unread(at_once, unread, home):
    with ChatServer(lambda payload: pick(last_message(payload), unread, body("Answer: A"))) as server:
        run = ask(server, at_once)
    expected = [pick(last_message(payload), True, False) for payload in server.payloads]
    assert 0 < sum(expected) < len(expected) == QUESTIONS
    assert run.rates["unread"] == pytest.approx(sum(expected) / QUESTIONS)


def test_an_answer_in_blocks_is_one_text_and_several_answers_are_an_error(home):
    blocks = [
        {"type": "thinking", "thinking": "Answer: B"},
        *({"type": "text", "text": part} for part in ("Answer", ": A")),
    ]
    with ChatServer(lambda payload: body(blocks)) as server:
        run = ask(server, 4)
    assert run.rates["first"] == 1
    two = body("Answer: A")
    two["choices"].append({**two["choices"][0], "index": 1})
    with ChatServer(lambda payload: two) as server, pytest.raises(NNDError, match="gives 2 answers to 1 questions"):
        ask(server)


def test_anthropics_client_reads_answers_in_blocks_and_their_tokens(home, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    usage = {"input_tokens": 50, "output_tokens": 4}
    blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Answer: B"}]

    def is_refused(payload):
        return pick(str(payload["messages"]), False, False, True)

    def message(payload):
        content, reason = ([], "refusal") if is_refused(payload) else (blocks, "end_turn")
        return {"content": content, "stop_reason": reason, "usage": usage}

    with ChatServer(message) as server:
        arguments = {"model": "m", "base_url": server.url, "num_concurrent": 4, "max_retries": 1}
        results = nnd_tasks.evaluate(TASK, "anthropic-chat", arguments, apply_chat_template=True, limit=2)
    refused = sum(map(is_refused, server.payloads))
    assert 0 < refused < QUESTIONS
    run = read_task(results, TASK)
    assert run.rates["unread"] == pytest.approx(refused / QUESTIONS)
    assert run.rates["first"] == 0
    usage = Counter(json.dumps(record["usage"]) for record in records_of(run))
    of_refusal, of_answer = (json.dumps([{"in": 50, "out": 4, "ended": end}]) for end in ("refusal", "end_turn"))
    assert usage == {of_refusal: refused, of_answer: QUESTIONS - refused}


def test_samples_hold_the_tokens_that_the_server_tells_also_of_cached_answers(home, tmp_path):
    def told(payload):
        text = last_message(payload)
        return body(answer(payload), usage={"prompt_tokens": len(text), "completion_tokens": 3})

    with ChatServer(told) as server:
        runs = [ask(server, 4, use_cache=str(tmp_path / "cache")) for _ in range(2)]
        assert len(server.payloads) == QUESTIONS
    asked = Counter(len(last_message(payload)) for payload in server.payloads)
    for run in runs:
        usage = [of_answer for record in records_of(run) for of_answer in record["usage"]]
        assert Counter(tokens["in"] for tokens in usage) == asked
        assert all(tokens == {"in": tokens["in"], "out": 3, "ended": "stop"} for tokens in usage)
    json.dumps(runs[1].samples)


# ---------------------------------------------------------------- several answers to a question


def test_several_answers_of_a_model_in_this_process_differ_and_resume(gpt2, home, tmp_path):
    folder = write_yaml(tmp_path / "yaml", "thrice", reader="judge", repeats=3)
    cache = tmp_path / "cache"

    def run():
        generation = {"max_gen_toks": 8, "temperature": 1.0, "do_sample": True}
        options = {"include_path": folder, "limit": 1, "use_cache": str(cache), "gen_kwargs": generation}
        evaluate(gpt2, ["thrice"], batch_size=1, **options)
        [path] = tmp_path.glob("cache_*.db")
        with SqliteDict(str(path)) as answers:
            return dict(answers)

    first = run()
    assert len(first) % 3 == 0
    assert len({*first.values()}) == len(first), "no answer is another one again"
    [path] = tmp_path.glob("cache_*.db")
    lost = sorted(first)[::2]
    with SqliteDict(str(path), autocommit=True) as answers:
        for key in lost:
            del answers[key]
    assert run() == first, "what was lost is drawn as before, and nothing else"
