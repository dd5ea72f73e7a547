"""Models with recurrent layers: sums are those of plain HFLM at batch size 1, and a state that is wrong is found."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as tf
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models
from transformers import DynamicCache, PreTrainedTokenizerFast

from nnd_tasks.models import hybrid
from nnd_tasks.models.architectures import DECODERS
from nnd_tasks.models.estimate import estimates_go_to
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from tests.models.hybrid_configs import DELTA, MODELS, PLAIN, WINDOW, WORDS
from tests.models.memory import run_out_of_memory

Requests = list[tuple[Any, list[int], list[int]]]


def _pair(kind: Any, arguments: dict[str, Any]) -> tuple[HFLM, SharedPrefixLM]:
    """Return a plain and a sharing model with the same random weights, large enough to show a lost state."""
    torch.manual_seed(0)
    model = tf.AutoModelForCausalLM.from_config(kind(**arguments)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("A_log"):
                parameter.sub_(3.0)  # fades more slowly
            elif parameter.ndim > 1:
                parameter.mul_(6.0)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w2"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="w0", pad_token="w0", eos_token="w1")
    settings = {"pretrained": model, "tokenizer": tokenizer, "device": "cpu", "max_length": WINDOW}
    return HFLM(**settings, batch_size=1), SharedPrefixLM(**settings)


@pytest.fixture(scope="module")
def pairs() -> Callable[[str], tuple[HFLM, SharedPrefixLM]]:
    """Return a function: architecture -> (plain model, sharing model), made once."""
    made: dict[str, tuple[HFLM, SharedPrefixLM]] = {}

    def make(name: str) -> tuple[HFLM, SharedPrefixLM]:
        if name not in made:
            made[name] = _pair(*MODELS[name])
        return made[name]

    return make


def adversarial() -> Requests:
    """Return requests with trunks of 1 to 3 tokens, equal contexts, prefixes of others, and inputs beyond the window."""
    draw = random.Random(7)

    def text(length: int) -> list[int]:
        return [draw.randrange(2, WORDS) for _ in range(length)]

    stem = text(30)
    contexts = [stem, stem + text(5), stem[:1], stem[:2], stem[:3], stem + text(45), [5] * 40]
    contexts += [text(3 * WINDOW), text(WINDOW - 3)]
    requests: Requests = []
    for context in contexts:
        base = text(9)
        candidates = [base, base[:1], base[:4], [*base, *text(3)], [5] * 3]
        requests += [(("c", "x"), context, candidate) for candidate in candidates]
    requests += [(("c", "x"), stem[:20], stem[20:]), (("c", "x"), stem[:21], stem[21:])]  # one input, two splits
    draw.shuffle(requests)
    return requests


def one_by_one(lm: HFLM, requests: Requests) -> list[tuple[float, bool]]:
    return [lm._loglikelihood_tokens([request], disable_tqdm=True)[0] for request in requests]


def assert_same(expected: list[tuple[float, bool]], sharing: SharedPrefixLM, requests: Requests) -> None:
    found = sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    for (_, _, continuation), (total, greedy), (other, likeliest) in zip(requests, expected, found, strict=True):
        assert abs(total - other) <= 1e-6 * abs(total) + 1e-5 * len(continuation)
        assert greedy == likeliest


@pytest.mark.parametrize("name", MODELS)
def test_adversarial_requests_score_as_with_plain_hf(
    name: str, pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, sharing = pairs(name)
    assert sharing.why_not() is None
    requests = adversarial()[: None if os.environ.get("NND_TEST_ALL") else 18]
    expected = one_by_one(plain, requests)
    assert_same(expected, sharing, requests)
    monkeypatch.setattr(sharing, "row_tokens", 16)  # trunks and leaves in pieces, and trunks within trunks
    assert_same(expected, sharing, requests)


@pytest.mark.complete
@pytest.mark.parametrize("name", MODELS)
def test_requests_like_those_of_quiz_design_score_as_with_plain_hf(name: str, pairs: Callable[[str], Any]) -> None:
    """Paragraphs, questions to each, and candidates of words some of which are frequent."""
    draw = random.Random(11)

    def text(low: int, high: int) -> list[int]:
        return [min(int(draw.paretovariate(0.6)) + 1, WORDS - 1) for _ in range(draw.randint(low, high))]

    requests: Requests = []
    for _ in range(3):
        paragraph = text(40, 60)
        for _ in range(3):
            question = paragraph + text(8, 15)
            requests += [(("c", "x"), question, text(3, 15)) for _ in range(5)]
    plain, sharing = pairs(name)
    assert sharing.why_not() is None
    assert_same(one_by_one(plain, requests), sharing, requests)


def test_every_type_with_recurrent_layers_has_a_config_here() -> None:
    """Those of Qwen 3.5 that could see are tested with the text model that they become."""
    recurrent = {name for name, kind in DECODERS.items() if kind.recurrent}
    assert set(MODELS) == recurrent - {"qwen3_5", "qwen3_5_moe"}


@pytest.mark.parametrize("name", PLAIN)
def test_types_that_cannot_go_on_from_a_state_take_the_plain_path(name: str) -> None:
    _, sharing = _pair(*PLAIN[name])
    assert "read on from a stored state" in str(sharing.why_not())


def test_a_text_model_within_a_multimodal_config_shares() -> None:
    """What `AutoModelForCausalLM` makes of a checkpoint of Qwen 3.5 that could see."""
    text = {**DELTA, "tie_word_embeddings": True}
    config = tf.Qwen3_5Config(text_config=text, vision_config={"depth": 1, "hidden_size": 16, "num_heads": 2})
    plain, sharing = _pair(lambda: config, {})
    assert sharing.why_not() is None
    requests = adversarial()[:12]
    assert_same(one_by_one(plain, requests), sharing, requests)


# ---------------------------------------------------------------- the check on itself


def _lost(kind: str) -> Callable[..., Any]:
    """Return a way of copying a cache that loses, or shares, one of its parts."""
    copied = hybrid.copied

    def wrong(cache: Any, rows: int = 1) -> Any:
        if kind == "shared":
            return cache if rows == 1 else copied(cache, rows)
        twin = copied(cache, rows)
        for layer in twin.layers:
            if kind == "keys" and getattr(layer, "keys", None) is not None:
                layer.keys, layer.values = layer.keys * 0, layer.values * 0
            if kind in ("conv_states", "recurrent_states"):
                for state in getattr(layer, kind, {}).values():
                    if state is not None:
                        state.zero_()
        return twin

    return wrong


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in ("qwen3_next", "falcon_h1") for kind in ("keys", "conv_states", "recurrent_states")),
        *((name, "recurrent_states") for name in ("kimi_linear", "granitemoehybrid", "mamba2")),
        ("lfm2", "conv_states"),
        *((name, "shared") for name in ("qwen3_next", "falcon_h1", "lfm2", "mamba2")),
    ],
)
def test_the_check_finds_a_state_that_is_lost_or_not_copied(
    name: str, kind: str, pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = pairs(name)
    assert sharing.why_not() is None
    monkeypatch.setattr(hybrid, "copied", _lost(kind))
    assert "differ from the model's own" in str(sharing._self_check())


@pytest.mark.parametrize("name", ["qwen3_next", "lfm2", "mamba2"])
def test_the_check_finds_a_state_that_is_not_reset(
    name: str, pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = pairs(name)
    one = DynamicCache(config=sharing._inner.config)
    monkeypatch.setattr(sharing, "_empty", lambda: one)
    assert sharing._self_check() is not None


def test_the_check_finds_padding_on_the_wrong_side(
    pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = pairs("falcon_h1")
    step = SharedPrefixLM._step

    def padded_left(self: Any, parts: Any, begin: int, state: Any) -> torch.Tensor:
        width = len(parts[0])
        hidden = step(self, [[0] * (width - len(part)) + list(part) for part in parts], begin, state)
        return torch.stack([row.roll(len(part) - width, 0) for row, part in zip(hidden, parts, strict=True)])

    monkeypatch.setattr(SharedPrefixLM, "_step", padded_left)
    assert "differ from the model's own" in str(sharing._self_check())


@pytest.mark.parametrize(("name", "size"), [("qwen3_next", 64), ("mamba2", 16)])
def test_the_check_reads_beyond_chunks_and_convolutions(
    name: str, size: int, pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that is right only until the end of the first chunk."""
    _, sharing = pairs(name)
    step = SharedPrefixLM._step

    def wrong_later(self: Any, parts: Any, begin: int, state: Any) -> torch.Tensor:
        hidden = step(self, parts, begin, state)
        hidden[:, max(size - begin, 0) :] *= 1.5
        return hidden

    monkeypatch.setattr(SharedPrefixLM, "_step", wrong_later)
    assert "differ from the model's own" in str(sharing._self_check())


# ---------------------------------------------------------------- memory, cache, estimate, cost


def test_where_memory_runs_out_rows_get_shorter(pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plain, sharing = pairs("lfm2")
    sharing.why_not()
    run_out_of_memory(monkeypatch, sharing, (2, 5, 6))
    monkeypatch.setattr(hybrid, "HEAD_ROWS", 1)
    before = sharing.row_tokens
    requests = adversarial()
    assert_same(one_by_one(plain, requests), sharing, requests)
    assert sharing.row_tokens == before // 8


def test_answers_go_to_the_cache_when_the_head_has_enough(
    pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = pairs("lfm2")
    monkeypatch.setattr(hybrid, "HEAD_ROWS", 1)
    sharing.why_not()
    events: list[str] = []
    step = SharedPrefixLM._step
    monkeypatch.setattr(SharedPrefixLM, "_step", lambda *args: (events.append("read"), step(*args))[1])
    hook = SimpleNamespace(add_partial=lambda *_: events.append("kept"))
    monkeypatch.setattr(sharing, "cache_hook", hook)
    requests = [(("c", "x"), [k] * 30, [k, j, j]) for k in (5, 6, 7) for j in (8, 9)]
    sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    assert events == ["read", "read", "kept", "kept"] * 3


def test_each_context_is_read_once(pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A paragraph, three questions to it, four candidates each: 40 + 3 x 20 tokens, and the candidates."""
    _, sharing = pairs("lfm2")
    sharing.why_not()
    read: list[int] = []
    step = SharedPrefixLM._step

    def counted(self: Any, parts: Any, begin: int, state: Any) -> torch.Tensor:
        read.append(sum(map(len, parts)))
        return step(self, parts, begin, state)

    monkeypatch.setattr(SharedPrefixLM, "_step", counted)
    requests = [
        (("c", "x"), [5] * 40 + [question] * 20, [candidate] * 6)
        for question in (6, 7, 8)
        for candidate in range(10, 14)
    ]
    sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    assert sum(read) == 40 + 3 * 20 + 12 * 5  # the last token of a candidate is not read
    assert len(read) == 1 + 3 + 3


def test_the_estimate_knows_all_that_is_read(pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _, sharing = pairs("mamba2")
    sharing.why_not()
    found: list[Any] = []
    expect = SharedPrefixLM._expect

    def noted(self: Any, *args: Any) -> None:
        expect(self, *args)
        found.append(self._estimate)

    monkeypatch.setattr(SharedPrefixLM, "_expect", noted)
    with estimates_go_to(lambda _: None):
        sharing._loglikelihood_tokens(adversarial(), disable_tqdm=False)
    [estimate] = found
    assert estimate._done == pytest.approx(estimate._amount.work, rel=0.05)
