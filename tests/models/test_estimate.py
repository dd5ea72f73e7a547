"""How long a run will take: the arithmetic, against a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from nnd_tasks.models import estimate
from nnd_tasks.models.estimate import (
    LISTEN,
    LISTEN_AT_MOST,
    LONG,
    Amount,
    Costs,
    RunEstimate,
    amount_of_packs,
    begin,
    duration,
    estimates_go_to,
    sentence,
)
from nnd_tasks.models.prefix_tree import make_packs, rows_of
from nnd_tasks.models.shared_prefix import SharedPrefixLM

AMOUNT = Amount(prompts=3400, texts=9100, tokens=1_200_000, work=1000.0)


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def said_by(steps: list[tuple[float, float]], amount: Amount = AMOUNT) -> list[tuple[float, str]]:
    """Return when what was said in a run of steps, each seconds and the work done in them."""
    clock, said = Clock(), []
    watch = RunEstimate(amount, lambda line: said.append((clock.now, line)), clock)
    for seconds, work in steps:
        watch.add(work)
        clock.now += seconds
        watch.look()
    return said


def test_a_steady_run_is_predicted_exactly_and_once() -> None:
    [(when, line)] = said_by([(1.0, 1.0)] * 1000)
    assert LISTEN <= when <= LISTEN_AT_MOST + 2
    assert line == "about 17 min for 3,400 prompts (9,100 texts, 1.2 M tokens, 1,200 tokens/s here)"


def test_the_first_row_in_which_the_device_warms_up_does_not_count_as_speed() -> None:
    [(_, line)] = said_by([(60.0, 1.0)] + [(1.0, 1.0)] * 999)
    assert line.startswith("about 18 min ")  # 60 + 999 seconds


def test_work_counts_and_not_the_number_of_rows() -> None:
    # Rows of 1 and of 9, the long ones later: tokens alone, or rows alone, would mislead.
    [(_, line)] = said_by([(1.0, 1.0)] * 100 + [(9.0, 9.0)] * 100)
    assert line.startswith("about 17 min ")


@pytest.mark.parametrize("total", [LONG / 2, LONG * 0.99])
def test_a_short_run_says_nothing(total: float) -> None:
    assert said_by([(total / 100, 10.0)] * 100) == []


def test_a_run_that_is_over_before_its_speed_is_known_says_nothing() -> None:
    assert said_by([(LISTEN / 10, 100.0)] * 5) == []


def test_a_very_long_run_does_not_keep_one_waiting() -> None:
    [(when, line)] = said_by([(1.0, 0.01)] * 100)
    assert when <= LISTEN_AT_MOST + 2
    assert line.startswith("about 27.8 h ")


def test_nothing_is_said_without_anyone_to_listen() -> None:
    assert begin(AMOUNT) is None
    said: list[str] = []
    with estimates_go_to(said.append):
        assert begin(AMOUNT) is not None
    assert begin(AMOUNT) is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1, "5 s"), (33, "35 s"), (99, "100 s"), (101, "2 min"), (720, "12 min"), (5999, "100 min"), (12_600, "3.5 h")],
)
def test_durations_are_words(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_one_prompt_is_no_plural() -> None:
    assert (
        sentence(Amount(1, 2, 3210, 1.0), 100.0) == "about 2 min for 1 prompt (2 texts, 3,200 tokens, 32 tokens/s here)"
    )


# ---------------------------------------------------------------- costs and amounts


@pytest.mark.parametrize("tied", [True, False])
def test_costs_of_a_model_are_its_parameters(tied: bool) -> None:
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        tie_word_embeddings=tied,
    )
    model = LlamaForCausalLM(config)
    costs = Costs.of(model)
    assert costs.head == 800
    assert costs.body == sum(p.numel() for p in model.parameters()) - (1 if tied else 2) * 800
    assert costs.attention == 2 * 8 * 3
    assert costs.read(5, 10) == 5 * (costs.body + 10 * costs.attention)


def sequences_of(shape: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return sequences: for each (length of a beginning, number of ends) that many that share the beginning."""
    token = iter(range(1, 10**6))
    made = []
    for length, ends in shape:
        beginning = tuple(next(token) for _ in range(length))
        made += [(*beginning, *(next(token) for _ in range(4))) for _ in range(ends)]
    return sorted(made)


@pytest.mark.parametrize("shape", [[(10, 1)], [(10, 30), (7, 2)], [(40, 20), (3, 3)], [(100, 5), (2, 1)]])
def test_the_amount_of_packs_is_what_is_read_of_them(shape: list[tuple[int, int]]) -> None:
    sequences, row = sequences_of(shape), 32
    packs = list(make_packs(sequences, row, 512))
    tokens, work = amount_of_packs(packs, sequences, row, Costs(body=1.0, head=0.0, attention=0.0))
    read, owner = 0, -1
    for pack in packs:
        read += pack.stem * (pack.owner != owner) + len(pack.tokens)
        owner = pack.owner if pack.stem else owner
        for branches in rows_of(pack.branches, sequences, row):
            read += sum(len(sequences[branch.sequence]) - branch.start for branch in branches)
    assert tokens == work == read


# ---------------------------------------------------------------- what models count


class Watch:
    """Counts as `RunEstimate` does."""

    def __init__(self, amount: Amount) -> None:
        self.amount, self.done, self.looks = amount, 0.0, 0

    def add(self, work: float) -> None:
        self.done += work

    def look(self) -> None:
        self.looks += 1


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> list[Watch]:
    """Return what models begin to watch."""
    from nnd_tasks.models import prefix_scoring

    made: list[Watch] = []
    monkeypatch.setattr(prefix_scoring, "begin", lambda amount: made.append(Watch(amount)) or made[-1])
    return made


def requests_of() -> list[tuple[tuple[str, str], list[int], list[int]]]:
    generator = torch.Generator().manual_seed(0)

    def draw(n: int) -> list[int]:
        return torch.randint(5, 60, (n,), generator=generator).tolist()

    contexts = [draw(12), draw(20), draw(3)]
    return [((f"context {i}", f"text {i} {j}"), contexts[i], draw(2 + j)) for i in range(3) for j in range(4)]


MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=64, n_embd=8, n_layer=2, n_head=2, n_positions=64)),
    "t5": lambda: T5ForConditionalGeneration(
        T5Config(vocab_size=64, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_heads=2, decoder_start_token_id=0)
    ),
}


def tokenizer() -> PreTrainedTokenizerFast:
    words = {f"w{i}": i for i in range(64)}
    inner = Tokenizer(WordLevel(words, unk_token="w3"))
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="w1", unk_token="w3", pad_token="w0")


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_does_about_as_much_as_it_said(kind: str, sharing: bool, watches: list[Watch]) -> None:
    torch.manual_seed(0)
    lm = SharedPrefixLM(
        pretrained=MODELS[kind]().eval(), tokenizer=tokenizer(), device="cpu", shared_prefix=sharing, batch_size=2
    )
    assert (lm.why_not() is None) == sharing
    requests = requests_of()
    answers = lm._loglikelihood_tokens(requests)
    [watch] = watches
    assert (watch.amount.prompts, watch.amount.texts) == (3, 12)
    assert watch.looks > 0
    assert 0.6 < watch.done / watch.amount.work < 1.5
    watches.clear()
    assert lm._loglikelihood_tokens(requests, disable_tqdm=True) == answers, "watching changes no number"
    assert watches == []


def test_a_masked_model_counts_a_whole_text_for_each_token_that_it_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    from nnd_tasks.models import masked_lm

    made: list[Watch] = []
    monkeypatch.setattr(masked_lm, "begin", lambda amount: made.append(Watch(amount)) or made[-1])
    lm = masked_lm.MaskedLM.__new__(masked_lm.MaskedLM)
    monkeypatch.setattr(lm, "_score", lambda context, continuation: (0.0, True), raising=False)
    monkeypatch.setattr(lm, "cache_hook", SimpleNamespace(add_partial=lambda *_: None), raising=False)
    requests = requests_of()
    lm._loglikelihood_tokens(requests)
    [watch] = made
    expected = sum(len(target) * (len(context) + len(target)) for _, context, target in requests)
    assert watch.done == watch.amount.work == watch.amount.tokens == expected
    assert watch.looks == len(requests)


@pytest.mark.parametrize("named", [True, False])
def test_only_a_run_that_loads_its_model_says_how_long_it_takes(named: bool) -> None:
    """A ready-made model is scored again and again while it trains."""
    from lm_eval.api.model import LM

    from nnd_tasks.runner.run import guarded

    asked: list[RunEstimate | None] = []
    manager = SimpleNamespace(load=lambda tasks: {"tasks": {}}, all_tasks=[])
    model = "hf" if named else LM.__new__(type("Ready", (LM,), dict.fromkeys(LM.__abstractmethods__)))
    guarded(lambda **_: asked.append(begin(AMOUNT)))(model, {"pretrained": "x"}, [], task_manager=manager)
    assert [watch is not None for watch in asked] == [named]


def test_the_line_stands_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    from nnd_tasks.runner.run import _tell

    _tell("about 12 min")
    assert capsys.readouterr() == ("", "about 12 min\n")


def test_limits_are_in_order() -> None:
    assert 0 < LISTEN < LISTEN_AT_MOST <= LONG
    assert 0 < estimate.SHARE < 0.1
