"""Validator and choice against the models' own logits, and what a YAML may say of them."""

import functools
import math
from statistics import fmean

import pytest
from transformers import AutoTokenizer

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.store import tasks_dir
from nnd_tasks.task.task_files import read_task_yaml
from tests.prompted.test_judge import CUES
from tests.random_models import evaluate
from tests.task.tasks import build_task, read_cases, read_task, run_task, small_set, write_yaml
from tests.task.test_oracle import Oracle

#: Words of one token each in the vocabularies of the tiny models.
WORDS = {"validator": ("the", "a"), "choice": ("A", "B")}
QUESTIONS = {"disfluent": "a text in fluent English", "off_target": "Does it fit?"}


def log_odds(oracle, text, words):
    """Return log P(first) - log P(second), and P(first) + P(second)."""
    answers = [oracle.sum_and_count(*oracle.split(text, f" {word}")) for word in words]
    assert [count for _, count in answers] == [1, 1]
    first, second = (total for total, _ in answers)
    return first - second, math.exp(first) + math.exp(second)


def write_question(doc, text, rival, category, reader, *, swapped):
    """Write by hand what the demo asks about a candidate; the prompt is that of the writer."""
    prompt = CUES[doc["kind"]].format(**doc)
    shown = f" {text}" if reader == "validator" else f"\nA: {text}\nB: {rival}"
    begin = "Is this" if reader == "validator" else "Which one is closer to"
    words = " or ".join(WORDS[reader][:: -1 if swapped else 1])
    question = "Does it fit?" if category == "off_target" else f"{begin} {QUESTIONS.get(category, 'a text')}?"
    return f"{prompt}{shown}\n\n{question} Answer {words}.\nAnswer:"


@pytest.fixture
def yamls(tmp_path):
    """Write tasks of both readers on the demo; return their folder."""
    for reader, words in WORDS.items():
        write_yaml(tmp_path / "yaml", reader, reader=reader, question="a text", questions=QUESTIONS, answers=words)
    return tmp_path / "yaml"


@pytest.mark.parametrize(("name", "reader"), [("gpt2", "choice"), ("llama", "validator"), ("t5", "validator")])
def test_each_test_is_asked_about_its_category_and_scores_are_the_models_own(name, reader, tiny_models, home, yamls):
    run = run_task(tiny_models[name], reader, include_path=yamls, limit=6)
    oracle, outcomes, flips, swapped_passes = Oracle(tiny_models[name]), [], [], []
    answer = functools.cache(lambda question: log_odds(oracle, question, WORDS[reader]))
    for sample in run.samples:
        doc, asked = sample["doc"], set()
        texts = doc["candidates"]
        for test, outcome in zip(doc["tests"], sample["tests"], strict=True):
            scores, swapped_scores = [], []
            for side, opposite in (("high", "low"), ("low", "high")):
                record, text, rival = sample["candidates"][test[side]], texts[test[side]], texts[test[opposite]]
                question = text, rival if reader == "choice" else "", test["category"], reader
                (odds, mass), (swapped, _) = (
                    answer(write_question(doc, *question, swapped=order)) for order in (False, True)
                )
                share = 1 / (1 + (reader == "choice"))
                assert record["sum"] == record["mean"] == pytest.approx(odds * share, abs=1e-4)
                assert record["mass"] == pytest.approx(mass, rel=1e-4)
                assert record["swapped"] == pytest.approx(swapped * share, abs=1e-4)
                scores.append(odds)
                swapped_scores.append(swapped)
                asked.add((*question[:2], QUESTIONS.get(test["category"])))
            assert outcome["passed"] is (scores[0] > scores[1])
            outcomes.append(outcome["passed"])
            swapped_passes.append(swapped_scores[0] > swapped_scores[1])
            flips.append((scores[0] > 0) == (scores[1] > 0))
        assert len(asked) == len(texts), "each asked once"
    assert run.rates["tests"] == len(outcomes)
    assert run.rates["pass_rate"] == pytest.approx(fmean(outcomes))
    assert run.rates["pass_rate_swapped"] == pytest.approx(fmean(swapped_passes))
    assert 0 < sum(outcomes) < len(outcomes)
    assert run.rates.get("order_flips") == (pytest.approx(fmean(flips)) if reader == "choice" else None)
    assert not {"pass_rate_sum", "pass_rate_bytes", "margin"} & set(run.rates)


def scores_of(results, task):
    records = [record for sample in results["samples"][task] for record in sample["candidates"]]
    return [record[key] for record in records for key in ("sum", "swapped", "mass")]


def test_batches_order_sharing_and_caches_change_nothing(llama, home, yamls, tmp_path):
    def run(**options):
        return evaluate(llama, ["choice"], include_path=yamls, **options)

    plain, cache = run(limit=2), {"use_cache": str(tmp_path / "cache")}
    for other in ({"batch_size": 3, "shared_prefix": False}, cache, cache):
        assert scores_of(run(limit=2, **other), "choice") == pytest.approx(scores_of(plain, "choice"), abs=1e-4), other
    backwards = run(samples={"choice": [1, 0]})
    backwards["samples"]["choice"].reverse()
    assert scores_of(backwards, "choice") == pytest.approx(scores_of(plain, "choice"), abs=1e-4)


def test_chats_end_with_the_answer_alone_and_exemplars_with_the_right_one(llama, gpt2, home, yamls):
    options = {"include_path": yamls, "apply_chat_template": True, "num_fewshot": 2, "limit": 2}
    run = run_task(llama, "validator", **options)
    tokenizer = AutoTokenizer.from_pretrained(llama)
    tokens = {word: tokenizer.convert_tokens_to_ids(word) for word in ("the", "a")}
    assert run.facts["reader"]["tokens"] == tokens, "without a space"
    for sample in run.samples:
        context, answer = sample["arguments"][0]
        assert context.endswith("Answer the or a.\nAnswer:\n<|assistant|>\n")
        assert answer == "the"
        assert context.count("Answer the or a.\nAnswer:") == 3
    run = run_task(gpt2, "validator", include_path=yamls, num_fewshot=3, limit=10)
    prompts = [sample["arguments"][0][0] for sample in run.samples]
    rights = [line for prompt in prompts for line in prompt.splitlines() if line in ("Answer: the", "Answer: a")]
    assert len(rights) == 30
    assert 0.3 < rights.count("Answer: the") / 30 < 0.7


def test_without_the_context_the_question_stays(gpt2, home, yamls):
    options = {"include_path": yamls, "limit": 2, "metadata": {"context_reliance": True}}
    oracle = Oracle(gpt2)
    for sample in run_task(gpt2, "validator", **options).samples:
        bare = {**sample["doc"], "context": ""}
        for test in bare["tests"]:
            text = bare["candidates"][test["high"]]
            question = write_question(bare, text, "", test["category"], "validator", swapped=False)
            odds, _ = log_odds(oracle, question, WORDS["validator"])
            assert sample["no_context"][test["high"]]["sum"] == pytest.approx(odds, abs=1e-4)


def test_blank_candidates_are_not_asked_about(gpt2, tmp_path, home):
    rows = [("One.", "Good text.", "ok"), ("One.", " ", "wrong"), ("One.", "Bad text.", "wrong")]
    run = run_task(gpt2, "small", include_path=small_set(tmp_path, rows, reader="choice"))
    assert (run.rates["unscored"], run.rates["tests"]) == (1, 1)


def test_a_judge_with_samples_asks_once_where_all_candidates_are_blank(gpt2, tmp_path, home):
    rows = [("One.", "Good.", "ok"), ("One.", "Bad.", "wrong"), ("Two.", "", "ok"), ("Two.", " ", "wrong")]
    folder = small_set(tmp_path, rows, reader="judge", repeats=3, generation_kwargs={"temperature": 1.0})
    task = build_task("small", {"pretrained": str(gpt2)}, [folder])
    candidates = [[request.candidate for request in task.instances if request.doc_id == i] for i in (0, 1)]
    assert candidates == [[0, 0, 0, 1, 1, 1], [None]]


@pytest.mark.parametrize(("settings", "metadata", "message"), read_cases(__file__)["mistakes about a reader"])
def test_mistakes_are_said_in_one_line(settings, metadata, message, gpt2, home, tmp_path):
    folder = write_yaml(tmp_path / "yaml", "bad", **settings)
    with pytest.raises(NNDError, match=message) as error:
        build_task("bad", {"pretrained": str(gpt2), **metadata}, [folder])
    assert "\n" not in str(error.value)


def test_answers_that_are_no_numbers_leave_the_test_unscored(gpt2, home, yamls):
    task = build_task("choice", {"pretrained": str(gpt2)}, [yamls], limit=1)
    requests = task.instances
    for request in requests:
        request.resps = [(math.nan if request.candidate == 0 else -1.0 - request.idx, False)]
    task.apply_filters()
    found = task.process_results(requests[0].doc, [request.filtered_resps["none"] for request in requests])
    assert found["unscored"] == sum(0 in (test["high"], test["low"]) for test in requests[0].doc["tests"]) > 0
    assert found["candidates"][0]["swapped"] is found["candidates"][0]["mass"] is None
    assert found["order_flips"][1] == len(found["tests"]) - found["unscored"]


def test_16_bits_are_warned_of(gpt2, home, yamls, caplog):
    for dtype, warned in (("bfloat16", 1), ("float32", 0)):
        caplog.clear()
        evaluate(gpt2, ["choice"], include_path=yamls, limit=1, model_args={"dtype": dtype})
        assert caplog.text.count("many tests tie and fail; add dtype=float32") == warned


def test_the_signature_tells_readers_and_questions_apart(gpt2, home, yamls):
    write_yaml(yamls, "other", reader="choice", question="another text")
    tasks = ["nnd_demo", *WORDS, "other"]
    results = evaluate(gpt2, tasks, include_path=yamls, limit=1)
    signatures = [read_task(results, task).facts["signature"] for task in tasks]
    readers = [signature["protocol"].get("reader") for signature in signatures]
    assert readers == [None, "validator", "choice", "choice"]
    assert len({signature["protocol_digest"] for signature in signatures}) == 4


def test_every_set_has_both_readers_and_a_question():
    tasks = {path: read_task_yaml(path)[0] for path in sorted(tasks_dir().glob("*/nnd_*.yaml"))}
    asked = {path.parent.name: task for path, task in tasks.items() if {*WORDS} <= {*task.get("variants", ())}}
    assert {*asked} >= {name for name, recipe in list_recipes().items() if recipe.origin == "package"}
    for name, task in asked.items():
        assert task["question"]
        categories = (task.get("metadata") or {}).get("categories") or []
        assert set(task.get("questions", {})) <= set(categories) or name in ("mqm", "bio_mqm", "esa23", "mrbench"), (
            "those have configs with one table of questions"
        )


def test_frames_ask_in_another_language(gpt2, home, tmp_path):
    asked = {}
    frames = {
        "validator": "¿Es {question}? {first} o {second}.",
        "choice": "¿Cuál es {question}? {first} o {second}.",
        "judge": "¿Cuál es {question}? «{first}» o «{second}».",
        "rating": "¿Es {question}? De {lowest} a {highest}.",
    }
    for reader in frames:
        rows = [("Uno.", "Sí.", "ok"), ("Uno.", "No.", "wrong")]
        settings = {"reader": reader, "question": "bueno", "frames": frames, "answers": WORDS.get(reader)}
        task = build_task("small", {"pretrained": str(gpt2)}, [small_set(tmp_path / reader, rows, **settings)])
        asked[reader] = {request.args[0].rpartition("\n\n")[2] for request in task.instances}
    assert asked == {
        "validator": {"¿Es bueno? the o a.", "¿Es bueno? a o the."},
        "choice": {"¿Cuál es bueno? A o B.", "¿Cuál es bueno? B o A."},
        "judge": {"¿Cuál es bueno? «A» o «B»."},
        "rating": {"¿Es bueno? De 1 a 10."},
    }
