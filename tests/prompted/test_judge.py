"""Judges and ratings behind a chat API over real HTTP, against counts that are made of the server's answers."""

import json
import logging
import zlib
from statistics import fmean

import pytest

import nnd_tasks
from nnd_tasks.errors import NNDError
from tests.conftest import REPO
from tests.random_models import evaluate
from tests.run.chat_server import ChatServer
from tests.run.test_backends import needs_client
from tests.task.tasks import read_task, write_yaml

pytestmark = needs_client
CUES = {
    "question_answering": "Question: {context}\nAnswer:",
    "summarization": "{context}\n\nSummary:",
    "question_generation": "{context}\n\nAnswer: {answer}\nQuestion:",
}
QUESTION = {
    "disfluent": "a text in fluent and correct English",
    "off_target": "a text that fits what is asked for",
    "unfaithful": "a text whose facts agree with the passage",
}


def pick(text, *options):
    """Pick one of some options for a text, the same each time."""
    return options[zlib.crc32(text.encode()) % len(options)]


def judge(server, task, **options):
    arguments = {"model": "m", "base_url": server.url, "num_concurrent": 4, "max_retries": 1}
    options = {"apply_chat_template": True, **options}
    return nnd_tasks.evaluate(task, "local-chat-completions", arguments | options.pop("model_args", {}), **options)


def last_message(payload):
    return str(payload["messages"][-1]["content"])


def answer_a(payload):
    return "Answer: A"


def ask_server(answer, task, **options):
    """Run a task on a server; return what the run says of the task, and what the server was sent."""
    with ChatServer(answer) as server:
        return read_task(judge(server, task, **options), task), server.payloads


#: Reader -> the words of its answers, as often as they are given, and what is read of them.
ANSWERS = {
    "judge": (("A", "A", "B", "tie", None), {"A": 1, "B": -1, "tie": 0}),
    "rating": ((3, 5, 9, None), {3: 3, 5: 5, 9: 9}),
}


def write_question(reader, doc, text, rival, category):
    prompt, question = CUES[doc["kind"]].format(**doc), QUESTION[category]
    if reader == "judge":
        ending = 'End with a line "Answer: A", "Answer: B" or "Answer: tie".'
        return f"{prompt}\nA: {text}\nB: {rival}\n\nWhich one is closer to {question}? {ending}"
    rate = "Rate it from 1 (not at all) to 10 (fully)."
    return f'{prompt} {text}\n\nIs this {question}? {rate} End with a line "Rating: N", where N is the number.'


@pytest.mark.parametrize("reader", ANSWERS)
def test_each_question_is_asked_once_and_rates_are_counts_of_answers(reader, home, tmp_path):
    """A judge in both orders of a test, a rating about each of its texts."""
    words, points_of = ANSWERS[reader]
    folder = write_yaml(
        tmp_path / "yaml", "mine", reader=reader, questions=QUESTION, tie=reader == "judge", scale=[1, 10]
    )
    begin = "Answer" if reader == "judge" else "Rating"
    run, payloads = ask_server(
        lambda payload: f"Hm.\n\n{begin}: {pick(last_message(payload), *words)}", "mine", include_path=folder
    )
    counted = {name: [] for name in ("strict", "half", "right", "flips", *QUESTION)}
    asked = set()
    for sample in run.samples:
        doc, texts = sample["doc"], sample["doc"]["candidates"]
        for test, record in zip(doc["tests"], sample["tests"], strict=True):
            sides = ((test["high"], test["low"]), (test["low"], test["high"]))
            # The texts of a test stand in a place of their own for each rival.
            prompts = [write_question(reader, doc, texts[a], texts[b], test["category"]) for a, b in sides]
            asked.update(prompts)
            said = [pick(prompt, *words) for prompt in prompts]
            high, low = (points_of.get(word) for word in said)
            read = None not in (high, low)
            assert record["passed"] is (read and high > low)
            assert record["tie"] is (read and high == low)
            counted["strict"].append(record["passed"])
            counted["half"].append(1 if record["passed"] else record["tie"] / 2)
            counted[test["category"]].append(counted["half"][-1])
            counted["right"].append(said == ["A", "B"])
            counted["flips"].append(said in (["A", "A"], ["B", "B"]))
    assert sorted(last_message(payload) for payload in payloads) == sorted(asked)
    answers = [pick(prompt, *words) for prompt in asked]
    names = {"strict": "pass_rate", "half": "pass_rate_half", **{name: f"pass_rate_half_{name}" for name in QUESTION}}
    if reader == "judge":
        names |= {"right": "both_right", "flips": "order_flips"}
        verdicts = [answer for answer in answers if answer in ("A", "B")]
        assert run.rates["first"] == pytest.approx(verdicts.count("A") / len(verdicts))
    else:
        assert not {"both_right", "order_flips", "first"} & run.rates.keys()
    assert {name: run.rates[rate] for name, rate in names.items()} == {
        name: pytest.approx(fmean(counted[name])) for name in names
    }
    assert run.rates["unread"] == pytest.approx(answers.count(None) / len(answers))
    assert (run.rates["tests"], run.rates["unscored"]) == (381, 0)
    assert 0 < sum(counted["strict"]) < sum(counted["half"]) < 381
    assert (payloads[0]["temperature"], payloads[0]["max_tokens"]) == (0, 512)
    assert "stop" not in payloads[0], "an empty one ends nothing, and some servers refuse it"
    assert run.samples[0]["candidates"][0]["answers"][0].startswith(f"Hm.\n\n{begin}: ")
    protocol = run.facts["signature"]["protocol"]
    assert (protocol["reader"], len(protocol["generation"])) == (reader, 12)


def chat(message, ended="stop", **more):
    return {"choices": [{"message": message, "finish_reason": ended}], **more}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("I like both.", "30 have a text without a verdict; the first is 'I like both.'"),
        (None, "30 have no text; the first is ''"),
        (chat({"content": None, "refusal": "No."}), "30 have refusal and no text; "),
        (
            chat({"tool_calls": [{"type": "function"}]}, "tool_calls"),
            "30 have tool_calls and no text, ended by tool_calls; ",
        ),
        (
            chat({"content": "", "reasoning_content": "Hm"}, "length"),
            "have reasoning_content and no text, ended by length; ",
        ),
        (chat({"content": [{"type": "image"}]}), "30 have image and no text; "),
    ],
)
def test_a_run_without_any_answer_that_can_be_read_says_what_they_are(answer, says, home, caplog):
    run, _ = ask_server(lambda payload: answer, "nnd_demo_judge", limit=2)
    assert (run.rates["pass_rate"], run.rates["unread"]) == (0, 1)
    assert "30 of 30 answers cannot be read, and their tests fail: " in caplog.text
    assert says in caplog.text


def test_what_no_file_can_hold_loses_no_run(nnd, home, tmp_path):
    """A lone half of a surrogate pair, and numbers of tokens that are none."""
    usage = {"prompt_tokens": float("nan"), "completion_tokens": 10**400, "more": float("inf")}
    answer = chat({"content": "\ud83d\nAnswer: A"}, "\udc00", usage=usage)
    with ChatServer(lambda payload: answer) as server:
        words = ["--model", "local-chat-completions", "--model_args", f"model=m,base_url={server.url}"]
        words += ["--tasks", "nnd_demo_judge", "--limit", "2", "--apply_chat_template", "--log_samples"]
        outcome = nnd("run", *words, "--output_path", tmp_path / "out")
        assert outcome.status == 0, outcome.err
    report = nnd("report", tmp_path / "out", "-o", tmp_path / "page.html")
    assert report.status == 0, report.err
    [samples] = (tmp_path / "out").rglob("samples_*.jsonl")
    record = json.loads(samples.read_text("utf-8").splitlines()[0])["candidates"][0]
    assert record["answers"] == ["\ufffd\nAnswer: A"]
    assert record["usage"] == [{}]


def test_cost_is_told_before_and_many_unread_answers_after(home, caplog):
    def answer(payload):
        return str(pick(last_message(payload), "Answer: A", "Well."))

    with caplog.at_level(logging.INFO, "lm_eval.nnd"):
        _, payloads = ask_server(answer, "nnd_demo_judge")
    [cost] = [message for message in caplog.messages if "tokens in" in message]
    tokens = sum(-(-len(json.dumps([payload["messages"][-1]], ensure_ascii=False)) // 4) for payload in payloads)
    begin = f"nnd_demo_judge: {len(payloads)} requests, about {tokens:,} tokens in"
    assert cost == f"{begin}, at most {len(payloads) * 512:,} out"
    assert "answers cannot be read, and their tests fail" in caplog.text


def test_samples_are_asked_with_seeds_of_their_own_and_a_run_resumes(home, tmp_path):
    folder = write_yaml(tmp_path / "yaml", "thrice", reader="judge", repeats=3)

    def answer(payload):
        return "Answer: A" if payload["seed"] else "Answer: B"

    options = {"include_path": folder, "limit": 2, "use_cache": str(tmp_path / "cache")}
    with ChatServer(answer) as server:
        with pytest.raises(NNDError, match="3 answers at temperature 0 are the same"):
            judge(server, "thrice", **options)
        results = judge(server, "thrice", gen_kwargs={"temperature": 1.0}, **options)
        asked = [(last_message(payload), payload["seed"]) for payload in server.payloads]
        assert len({*asked}) == len(asked) == 3 * len({prompt for prompt, _ in asked})
        again = judge(server, "thrice", gen_kwargs={"temperature": 1.0}, **options)
        assert len(server.payloads) == len(asked), "all answers were there"
    assert again["results"]["thrice"] == results["results"]["thrice"]
    [record, *_] = results["samples"]["thrice"][0]["candidates"]
    assert record["read"] == [-1, 1, 1]
    assert record["sum"] == pytest.approx(1 / 6)


def test_the_examples_ask_for_a_letter_or_a_number_and_begin_the_answer(home):
    def answer(payload):
        return {"Answer:": "A", "Rating:": "7"}[last_message(payload)]

    endings = {"demo_letter": "Answer with one letter, A or B.", "demo_number": "Answer with one number."}
    for task, ending in endings.items():
        run, payloads = ask_server(answer, task, limit=1, include_path=REPO / "examples" / "judges")
        assert (run.rates["unread"], run.rates["pass_rate_half"]) == (0, 0.5)
        question, begun = payloads[-1]["messages"]
        assert question["content"].endswith(ending)
        assert (begun["role"], payloads[-1]["max_tokens"]) == ("assistant", 4)


def test_exemplars_end_as_answers_are_asked_for_and_a_rating_has_none(home):
    _, payloads = ask_server(answer_a, "nnd_demo_judge", limit=2, num_fewshot=2, fewshot_as_multiturn=True)
    turns = payloads[0]["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2 + ["user"]
    assert {turn["content"].strip() for turn in turns[1::2]} <= {"Answer: A", "Answer: B"}
    with pytest.raises(NNDError, match="no rating is known to be right"):
        ask_server(answer_a, "nnd_demo_rating", num_fewshot=1)


def test_a_chat_api_takes_chats_and_tasks_that_need_no_likelihoods(home):
    with ChatServer(lambda payload: "A") as server:
        with pytest.raises(NNDError, match="add --apply_chat_template"):
            judge(server, "nnd_demo_judge", apply_chat_template=False)
        with pytest.raises(NNDError, match="give no likelihoods of a given text, which nnd_demo_choice needs"):
            judge(server, "nnd_demo_choice")
    assert not server.payloads


def test_a_model_in_this_process_writes_answers_within_its_window(gpt2, home):
    with pytest.raises(NNDError, match="answers of 512 tokens leave no room in the model's window of 300"):
        evaluate(gpt2, ["nnd_demo_judge"], limit=1, model_args={"max_length": 300})
    run = read_task(evaluate(gpt2, ["nnd_demo_judge"], limit=1, gen_kwargs={"max_gen_toks": 4}), "nnd_demo_judge")
    assert run.rates["unread"] == 1  # random weights


def test_a_chat_model_is_not_asked_without_its_template(llama, home, monkeypatch):
    monkeypatch.setattr("nnd_tasks.run.run.simple_evaluate", None)  # loads the model
    for task in ("nnd_demo_judge", "nnd_demo_rating"):
        with pytest.raises(NNDError, match=f"task {task}: the model answers in chats, .* add --apply_chat_template"):
            evaluate(llama, [task], limit=1)


@pytest.mark.parametrize(
    "generation", [{"max_gen_toks": "many"}, {"max_gen_toks": 0}, {"max_tokens": 9}, {"max_new_tokens": 9}], ids=str
)
def test_room_for_an_answer_is_a_number_under_one_name(generation, home):
    with pytest.raises(NNDError, match="expected the most tokens of an answer under max_gen_toks"):
        ask_server(answer_a, "nnd_demo_judge", limit=1, gen_kwargs=generation)
