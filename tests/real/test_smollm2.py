"""A real model: its sums are those of plain transformers, and the demo has the rates that the README states, on three prompts
here, on all with ``make test-all``.
"""

import itertools

import pytest
from transformers import AutoTokenizer

from nnd_tasks.likelihood.scored_tokens import tokens_and_characters
from shared_prefix.lengths import TokenCounter
from shared_prefix.prefix_scoring import PrefixScoring
from shared_prefix.prefix_tree import PackLimits, make_packs
from tests.random_models import evaluate
from tests.task.tasks import folders_of, load_task
from tests.task.test_oracle import Oracle, check_against

READERS = {"validator": ("Yes", "No"), "choice": ("A", "B")}
SHORT = ("nnd_demo", *(f"nnd_demo_{reader}" for reader in READERS), "nnd_quiz_design", "nnd_challenge300")
LONG = (
    *("nnd_summeval", "nnd_frank", "nnd_news_gpt3_cnn", "nnd_lfqa", "nnd_bump", "nnd_summedits", "nnd_humanevalfix"),
    *("nnd_prmbench", "nnd_llmbar", "nnd_webnlg", "nnd_bio_mqm_en2de", "nnd_hanna", "nnd_mqm_ende"),
)
ASKED = tuple(f"nnd_{name}_{reader}" for name in ("quiz_design", "llmbar") for reader in READERS)


@pytest.fixture(scope="module")
def oracle(smollm2):
    return Oracle(smollm2)


def check_first_tests(oracle, samples):
    """Compare both candidates of one test of each prompt with plain transformers: each takes a second."""
    reduced = []
    for sample in samples:
        test = sample["doc"]["tests"][0]
        kept = {test["high"], test["low"]}
        scored = [place for place, record in enumerate(sample["candidates"]) if record is not None]
        arguments = [pair for place, pair in zip(scored, sample["arguments"], strict=True) if place in kept]
        candidates = [record if place in kept else None for place, record in enumerate(sample["candidates"])]
        doc = {**sample["doc"], "tests": [test]}
        reduced.append({"doc": doc, "arguments": arguments, "candidates": candidates, "tests": sample["tests"][:1]})
    assert check_against(oracle, reduced) == (2 * len(samples), len(samples))


def check_answers(oracle, samples, reader):
    """Compare what is answered about both candidates of one test of each prompt with plain transformers."""
    for sample in samples:
        test = sample["doc"]["tests"][0]
        for place in (test["high"], test["low"]):
            pairs = sample["arguments"][4 * place : 4 * place + 2]
            assert [answer for _, answer in pairs] == [f" {word}" for word in READERS[reader]]
            good, bad = (oracle.sum_and_count(*oracle.split(*pair))[0] for pair in pairs)
            score = (good - bad) / (2 if reader == "choice" else 1)
            assert sample["candidates"][place]["sum"] == pytest.approx(score, abs=1e-4)


def rates_of(found):
    """The rates of the demo: all tests, disfluent, off_target, unfaithful."""
    rates = found["results"]["nnd_demo"]
    names = ("pass_rate", "pass_rate_disfluent", "pass_rate_off_target", "pass_rate_unfaithful")
    return [f"{rates[f'{name},none']:.3f}" for name in names]


@pytest.mark.complete
def test_rates_of_the_demo_are_those_of_the_readme(smollm2, oracle, home):
    found = evaluate(smollm2, ["nnd_demo"])
    check_first_tests(oracle, found["samples"]["nnd_demo"][::20])
    assert rates_of(found) == ["0.759", "0.976", "0.614", "0.685"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "prompts", "checked", "rates"),
    [
        (SHORT, 3, 1, ["0.778", "1.000", "0.600", "0.600"]),
        pytest.param(SHORT + LONG, 10, 10, None, marks=pytest.mark.complete),
        pytest.param(ASKED, 50, 50, None, marks=pytest.mark.complete),
    ],
    ids=["short", "all", "asked"],
)
def test_sums_and_answers_are_those_of_plain_transformers(tasks, prompts, checked, rates, smollm2, oracle, link_sets):
    names = [task.removesuffix("_validator").removesuffix("_choice") for task in tasks]
    link_sets(*{folder.name for name in names for folder in folders_of(name)})
    found = evaluate(smollm2, [*tasks], sample=prompts)
    assert set(found["samples"]) == set(tasks)
    for task, samples in found["samples"].items():
        assert len(samples) == prompts
        reader = task.rpartition("_")[2]
        if reader not in READERS:
            check_first_tests(oracle, samples[:checked])
            continue
        tokens = found["configs"][task]["metadata"]["nnd"]["reader"]["tokens"]
        assert tokens == {word: oracle.tokenizer.encode(f" {word}")[0] for word in READERS[reader]}
        check_answers(oracle, samples[:checked], reader)
    assert rates is None or rates_of(found) == rates


@pytest.mark.complete
def test_long_beginnings_are_read_at_most_a_tenth_more_than_once(smollm2, link_sets):
    link_sets("when2call")
    task = load_task("nnd_when2call", {"pretrained": str(smollm2)})
    task.build_all_requests()
    texts = sorted({prompt + text for prompt, text in (request.args[:2] for request in task.instances)})
    sequences = sorted(tuple(ids) for ids in AutoTokenizer.from_pretrained(smollm2)(texts)["input_ids"])
    stems, read = {}, 0
    for pack in make_packs(sequences, PackLimits(PrefixScoring.row_tokens, PrefixScoring.pack_tokens)):
        stems[pack.owner] = pack.stem
        read += len(pack.tokens) + sum(len(sequences[branch.sequence]) - branch.start for branch in pack.branches)
    neighbours = [zip(*pair, strict=False) for pair in itertools.pairwise(sequences)]
    shared = sum(len(list(itertools.takewhile(lambda ids: ids[0] == ids[1], pair))) for pair in neighbours)
    tree = sum(map(len, sequences)) - shared
    assert tree <= read + sum(stems.values()) <= 1.1 * tree


def test_every_token_stands_for_its_own_characters(smollm2):
    counter = TokenCounter({"pretrained": str(smollm2)})
    several = 0
    for text in ("Die Straße führt über Köln; “naïve” 2024: 35 %.", "Ein 😀 kommt selten allein, 1,234.5 mal."):
        ids, spans = tokens_and_characters(counter, "Translate: The road.\nGerman:", f" {text}")
        assert spans[0, 0] == 0
        assert spans[-1, 1] == len(text) + 1
        for (_, end), (start, _) in itertools.pairwise(spans):
            assert start <= end, "no character is left out"
            several += start < end
        for one, (start, end) in zip(ids, spans, strict=True):
            decoded = counter.tokenizer.decode([one])
            assert "�" in decoded or decoded == f" {text}"[start:end]
    assert several, "a character of several tokens"
