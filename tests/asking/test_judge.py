"""Covers AskedInWriting, Judge, WrittenAnswer, is_chat_api, check_chat_api.

Judges and ratings behind a chat API over real HTTP, against counts that are made of the server's answers.
"""

from __future__ import annotations

import json
import logging
import zlib
from typing import Any

import pytest

import nnd_tasks
from nnd_tasks.errors import NNDError
from tests.conftest import REPO
from tests.random_models import evaluate
from tests.run.chat_server import ChatServer
from tests.run.test_backends import needs_client
from tests.task.tasks import write_yaml

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


def pick(text: str, *options: Any) -> Any:
    """Pick one of some options for a text, the same each time."""
    return options[zlib.crc32(text.encode()) % len(options)]


def judge(server: ChatServer, task: str, **options: Any) -> dict[str, Any]:
    arguments = {"model": "m", "base_url": server.url, "num_concurrent": 4, "max_retries": 1}
    options = {"apply_chat_template": True, **options}
    return nnd_tasks.evaluate(task, "local-chat-completions", arguments | options.pop("model_args", {}), **options)


def last_message(payload: dict[str, Any]) -> str:
    return str(payload["messages"][-1]["content"])


def close(rate: float, outcomes: list[Any]) -> bool:
    return bool(outcomes) and abs(rate - sum(outcomes) / len(outcomes)) < 1e-9


def test_a_judge_is_asked_in_both_orders_and_its_rates_are_counts_of_its_verdicts(home, tmp_path):
    folder = write_yaml(tmp_path / "yaml", "verdicts", reader="judge", tie=True, questions=QUESTION)
    verdicts = ("A", "A", "B", "tie", None)
    with ChatServer(lambda payload: f"Hm.\n\nAnswer: {pick(last_message(payload), *verdicts)}") as server:
        results = judge(server, "verdicts", include_path=folder)
    found, samples = results["results"]["verdicts"], results["samples"]["verdicts"]
    rates = {name: [] for name in ("strict", "half", "right", "flips", *QUESTION)}
    asked = set()
    for sample in samples:
        doc, texts = sample["doc"], sample["doc"]["candidates"]
        for test, record in zip(doc["tests"], sample["tests"], strict=True):
            said = []
            for first, second in ((test["high"], test["low"]), (test["low"], test["high"])):
                # The texts of a test stand in a place of their own for each rival.
                prompt = (
                    f"{CUES[doc['kind']].format(**doc)}\nA: {texts[first]}\nB: {texts[second]}\n\nWhich one is closer to "
                    f'{QUESTION[test["category"]]}? End with a line "Answer: A", "Answer: B" or "Answer: tie".'
                )
                asked.add(prompt)
                said.append(pick(prompt, *verdicts))
            points = [{"A": 1, "B": -1, "tie": 0}.get(word) for word in said]
            read = None not in points
            mean = points[0] - points[1] if read else None  # type: ignore[operator]
            assert record["passed"] is (read and mean > 0)  # type: ignore[operator]
            assert record["tie"] is (mean == 0)
            rates["strict"].append(record["passed"])
            rates["half"].append(1 if record["passed"] else 0.5 if mean == 0 else 0)
            rates[test["category"]].append(rates["half"][-1])
            rates["right"].append(said == ["A", "B"])
            rates["flips"].append(said in (["A", "A"], ["B", "B"]))
    prompts = [last_message(payload) for payload in server.payloads]
    assert sorted(prompts) == sorted(asked), "each question once"
    assert server.payloads[0]["temperature"] == 0
    assert server.payloads[0]["max_tokens"] == 512
    assert "stop" not in server.payloads[0], "an empty one ends nothing, and some servers refuse it"
    answers = [pick(prompt, *verdicts) for prompt in prompts]
    assert 0 < sum(rates["strict"]) < sum(rates["half"]) < len(rates["strict"]) == found["tests,none"] == 381
    assert close(found["pass_rate,none"], rates["strict"])
    assert close(found["pass_rate_half,none"], rates["half"])
    assert all(close(found[f"pass_rate_half_{name},none"], rates[name]) for name in QUESTION)
    assert close(found["both_right,none"], rates["right"])
    assert close(found["order_flips,none"], rates["flips"])
    assert close(found["unread,none"], [answer is None for answer in answers])
    assert close(found["first,none"], [answer == "A" for answer in answers if answer in ("A", "B")])
    assert found["unscored,none"] == 0
    record = samples[0]["candidates"][0]
    assert record["answers"][0].startswith("Hm.\n\nAnswer: ")
    assert record["read"][0] in (1, -1, 0, None)
    protocol = results["configs"]["verdicts"]["metadata"]["nnd"]["signature"]["protocol"]
    assert (protocol["reader"], len(protocol["generation"])) == ("judge", 12)


def test_a_rating_passes_where_the_better_text_has_the_higher_number(home):
    def rate(payload):
        return f"Rating: {pick(last_message(payload), 3, 5, 9, 'none')}"

    with ChatServer(rate) as server:
        results = judge(server, "nnd_demo_rating")
    found, strict, half = results["results"]["nnd_demo_rating"], [], []
    for sample in results["samples"]["nnd_demo_rating"]:
        doc = sample["doc"]
        for test, record in zip(doc["tests"], sample["tests"], strict=True):
            numbers = []
            for side in ("high", "low"):
                prompt = (
                    f"{CUES[doc['kind']].format(**doc)} {doc['candidates'][test[side]]}\n\nIs this "
                    f"{QUESTION[test['category']]}? Rate it from 1 (not at all) to 10 (fully). End with a line "
                    '"Rating: N", where N is the number.'
                )
                numbers.append(pick(prompt, 3, 5, 9, None))
            read = None not in numbers
            strict.append(read and numbers[0] > numbers[1])
            half.append(1 if strict[-1] else 0.5 if read and numbers[0] == numbers[1] else 0)
            assert record["passed"] is strict[-1]
    assert 0 < sum(strict) < sum(half) < len(half)
    assert close(found["pass_rate,none"], strict)
    assert close(found["pass_rate_half,none"], half)
    assert not {"order_flips,none", "both_right,none", "first,none"} & set(found)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda payload: "I like both.", "none of 30 answers can be read, the first is 'I like both.'"),
        (lambda payload: None, "none of 30 answers can be read"),
    ],
    ids=["prose", "null"],
)
def test_a_run_without_any_answer_that_can_be_read_is_an_error_with_one(answers, message, home):
    with ChatServer(answers) as server, pytest.raises(NNDError, match=message):
        judge(server, "nnd_demo_judge", limit=2)


def test_cost_is_told_before_and_many_unread_answers_after(home, caplog):
    def answer(payload):
        return str(pick(last_message(payload), "Answer: A", "Well."))

    with caplog.at_level(logging.INFO, "lm_eval.nnd"), ChatServer(answer) as server:
        judge(server, "nnd_demo_judge")
    [cost] = [record.message for record in caplog.records if "tokens in" in record.message]
    characters = sum(
        -(-len(json.dumps([payload["messages"][-1]], ensure_ascii=False)) // 4) for payload in server.payloads
    )
    begin = f"nnd_demo_judge: {len(server.payloads)} requests, about {characters:,} tokens in"
    assert cost.startswith(f"{begin}, at most {len(server.payloads) * 512:,} out; with --sample 40: ")
    assert [record for record in caplog.records if "answers cannot be read, and their tests fail" in record.message]


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

    with ChatServer(answer) as server:
        for task, ending in (
            ("demo_letter", "Answer with one letter, A or B."),
            ("demo_number", "Answer with one number."),
        ):
            found = judge(server, task, limit=1, include_path=REPO / "examples" / "judges")["results"][task]
            assert (found["unread,none"], found["pass_rate_half,none"]) == (0, 0.5)
            question, begun = server.payloads[-1]["messages"]
            assert question["content"].endswith(ending)
            assert begun["role"] == "assistant"
            assert server.payloads[-1]["max_tokens"] == 4


def test_exemplars_end_as_answers_are_asked_for_and_a_rating_has_none(home):
    with ChatServer(lambda payload: "Answer: A") as server:
        judge(server, "nnd_demo_judge", limit=2, num_fewshot=2, fewshot_as_multiturn=True)
        turns = server.payloads[0]["messages"]
        assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2 + ["user"]
        assert {turn["content"].strip() for turn in turns[1::2]} <= {"Answer: A", "Answer: B"}
        with pytest.raises(NNDError, match="no rating is known to be right"):
            judge(server, "nnd_demo_rating", num_fewshot=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reader": "rating", "scale": [5, 1]}, "scale=.5, 1.: expected the lowest and the highest number"),
        ({"reader": "judge", "repeats": 0}, "repeats=0: "),
        (
            {"reader": "judge", "metadata": {"context_reliance": True}},
            "context_reliance is about likelihoods, and a judge",
        ),
    ],
    ids=["scale", "repeats", "likelihoods"],
)
def test_mistakes_in_a_yaml_are_said_in_one_line(settings, message, home, tmp_path):
    folder = write_yaml(tmp_path / "yaml", "bad", **settings)
    with ChatServer(lambda payload: "A") as server, pytest.raises(NNDError, match=message):
        judge(server, "bad", include_path=folder)
    assert not server.payloads


def test_a_chat_api_takes_chats_and_tasks_that_need_no_likelihoods(home):
    with ChatServer(lambda payload: "A") as server:
        with pytest.raises(NNDError, match="add --apply_chat_template"):
            judge(server, "nnd_demo_judge", apply_chat_template=False)
        with pytest.raises(NNDError, match="give no likelihoods of a given text, which nnd_demo_choice needs"):
            judge(server, "nnd_demo_choice")
    assert not server.payloads


def test_a_model_in_this_process_writes_answers_within_its_window(tiny_models, home):
    with pytest.raises(NNDError, match="answers of 512 tokens leave no room in the model's window of 300"):
        evaluate(tiny_models["gpt2"], ["nnd_demo_judge"], limit=1, model_args={"max_length": 300})
    with pytest.raises(NNDError, match=r"none of .* answers can be read"):  # random weights
        evaluate(tiny_models["gpt2"], ["nnd_demo_judge"], limit=1, gen_kwargs={"max_gen_toks": 4})


def test_a_chat_model_is_not_asked_without_its_template(tiny_models, home, monkeypatch):
    monkeypatch.setattr("nnd_tasks.run.run.simple_evaluate", None)  # loads the model
    for task in ("nnd_demo_judge", "nnd_demo_rating"):
        with pytest.raises(NNDError, match=f"task {task}: the model answers in chats, .* add --apply_chat_template"):
            evaluate(tiny_models["llama"], [task], limit=1)


@pytest.mark.parametrize(
    "generation",
    [{"max_gen_toks": "many"}, {"max_gen_toks": 0}, {"max_gen_toks": None}, {"max_tokens": 9}, {"max_new_tokens": 9}],
    ids=str,
)
def test_room_for_an_answer_is_a_number_under_one_name(generation, home):
    with (
        ChatServer(lambda payload: "Answer: A") as server,
        pytest.raises(NNDError, match="expected the most tokens of an answer under max_gen_toks"),
    ):
        judge(server, "nnd_demo_judge", limit=1, gen_kwargs=generation)
    assert not server.payloads
