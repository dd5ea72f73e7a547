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
from nnd_tasks.models.estimate import estimates_go_to
from nnd_tasks.models.shared_prefix import SharedPrefixLM

WORDS, WINDOW = 211, 100
ENDS = {"vocab_size": WORDS, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "max_position_embeddings": 256, **ENDS}
GROUPED = {**SMALL, "num_key_value_heads": 2}
DELTA = {
    **GROUPED,
    "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
SHARED = {**EXPERTS, "shared_expert_intermediate_size": 16}
MAMBA = {
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 16,
}

#: Architecture -> (config class, its arguments).
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "qwen3_next": (tf.Qwen3NextConfig, {**DELTA, **SHARED, "mlp_only_layers": [1]}),
    "qwen3_5_text": (tf.Qwen3_5TextConfig, DELTA),
    "qwen3_5_moe_text": (tf.Qwen3_5MoeTextConfig, {**DELTA, **SHARED}),
    "olmo_hybrid": (tf.OlmoHybridConfig, {**DELTA, "linear_num_key_heads": 4, "tie_word_embeddings": True}),
    "kimi_linear": (
        tf.KimiLinearConfig,
        {
            **SMALL,
            "num_hidden_layers": 3,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "linear_head_dim": 8,
            "linear_num_heads": 4,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "n_shared_experts": 1,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
        },
    ),
    "granitemoehybrid": (
        tf.GraniteMoeHybridConfig,
        {
            **GROUPED,
            **MAMBA,
            "num_hidden_layers": 3,
            "layer_types": ["mamba", "attention", "mamba"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 16,
            "logits_scaling": 0.7,
            "embedding_multiplier": 3.0,
            "position_embedding_type": "rope",
        },
    ),
    "nemotron_h": (
        tf.NemotronHConfig,
        {
            **GROUPED,
            "layers_block_type": ["mamba", "moe", "attention", "mamba", "mlp"],
            "head_dim": 8,
            "mamba_num_heads": 4,
            "mamba_head_dim": 16,
            "ssm_state_size": 8,
            "n_groups": 2,
            "chunk_size": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 16,
            "moe_shared_expert_intermediate_size": 16,
        },
    ),
    "falcon_h1": (
        tf.FalconH1Config,
        {**GROUPED, **MAMBA, "mamba_d_ssm": 64, "num_hidden_layers": 2, "lm_head_multiplier": 0.5},
    ),
    "lfm2": (tf.Lfm2Config, {**GROUPED, "num_hidden_layers": 3, "full_attn_idxs": [1], "conv_bias": True}),
    "lfm2_moe": (
        tf.Lfm2MoeConfig,
        {
            **GROUPED,
            **EXPERTS,
            "num_hidden_layers": 3,
            "num_dense_layers": 1,
            "layer_types": ["conv", "full_attention", "conv"],
        },
    ),
    "mamba2": (
        tf.Mamba2Config,
        {
            **ENDS,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "state_size": 8,
            "num_heads": 4,
            "head_dim": 16,
            "n_groups": 1,
            "chunk_size": 16,
        },
    ),
}
#: Those that cannot read on from a state: they take the plain path.
PLAIN: dict[str, tuple[Any, dict[str, Any]]] = {
    "mamba": (tf.MambaConfig, {**ENDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "jamba": (
        tf.JambaConfig,
        {**GROUPED, "num_hidden_layers": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8},
    ),
    "bamba": (tf.BambaConfig, {**GROUPED, **MAMBA, "num_hidden_layers": 2, "attn_layer_indices": [1]}),
}

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
    for attribute in ("row_tokens", "decoder_row_tokens", "source_tokens"):  # they are halved
        monkeypatch.setattr(sharing, attribute, getattr(sharing, attribute))
    settle, calls = SharedPrefixLM._settle, []

    def failing(self: Any, head: Any, hidden: Any, scores: Any) -> None:
        calls.append(1)
        settle(self, head, hidden, scores)
        if len(calls) in (2, 5, 6):
            raise torch.OutOfMemoryError

    monkeypatch.setattr(SharedPrefixLM, "_settle", failing)
    before = sharing.row_tokens
    requests = adversarial()
    assert_same(one_by_one(plain, requests), sharing, requests)
    assert sharing.row_tokens == before // 8


def test_answers_go_to_the_cache_before_the_next_context_is_read(
    pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = pairs("lfm2")
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
