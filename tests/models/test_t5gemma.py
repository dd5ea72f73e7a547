"""T5Gemma, whose decoder has windows, soft caps and positions of its own, gives the numbers of plain HFLM."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as tf
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models
from transformers.models.t5gemma import modeling_t5gemma

from nnd_tasks.models.architectures import Layout, Reach, layout_of, why_not_config
from nnd_tasks.models.shared_prefix import SharedPrefixLM

WORDS, LENGTH, WINDOW = 64, 48, 8
MODULE = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "query_pre_attn_scalar": 8,
    "final_logit_softcapping": 2.0,
    "attn_logit_softcapping": 3.0,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}


def _config(window: int = WINDOW, **decoder: Any) -> Any:
    module = {**MODULE, "sliding_window": window}
    return tf.T5GemmaConfig(encoder=module, decoder={**module, **decoder}, vocab_size=WORDS)


def _pair(config: Any) -> tuple[HFLM, SharedPrefixLM]:
    torch.manual_seed(0)
    model = tf.AutoModelForSeq2SeqLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 or not parameter.any():
                parameter.normal_(0, 0.4)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w3"))
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1", bos_token="w2")
    settings = {"pretrained": model, "tokenizer": tokenizer, "device": "cpu", "max_length": LENGTH}
    return HFLM(**settings, backend="seq2seq", batch_size=1), SharedPrefixLM(**settings, backend="seq2seq")


def _requests() -> list[tuple[Any, list[int], list[int]]]:
    """Return requests with candidates beyond the window, prefixes of others, and tokens with the id of the padding."""
    draw = random.Random(7)

    def text(length: int) -> list[int]:
        return [draw.randrange(WORDS) for _ in range(length)]

    found: list[tuple[Any, list[int], list[int]]] = []
    for context in (text(30), text(2 * LENGTH), text(1), [5] * 12, [0] * 4):
        base = text(6)
        candidates = (base, base[:2], base + text(14), base + text(3), [5, 5, 5], [0, 0, 7], [0])
        found += [(("c", "x"), context, candidate) for candidate in candidates]
    draw.shuffle(found)
    return found


@pytest.mark.parametrize(
    "decoder", [{}, {"final_logit_softcapping": None}, {"layer_types": ["full_attention", "sliding_attention"]}]
)
def test_requests_score_as_with_plain_hf(decoder: dict[str, Any]) -> None:
    plain, sharing = _pair(_config(**decoder))
    assert sharing.why_not() is None
    requests = _requests()
    expected = [plain._loglikelihood_tokens([request], disable_tqdm=True)[0] for request in requests]
    for row in (256, 4):
        sharing.decoder_row_tokens = row
        found = sharing._loglikelihood_tokens(requests, disable_tqdm=True)
        for (_, _, continuation), (total, greedy), (other, likeliest) in zip(requests, expected, found, strict=True):
            assert abs(total - other) <= 1e-6 * abs(total) + 1e-5 * len(continuation)
            assert greedy == likeliest


def _sliding(change: Callable[[Reach], Reach]) -> Callable[[Layout], Layout]:
    return lambda layout: replace(
        layout, reaches={**layout.reaches, "sliding_attention": change(layout.reaches["sliding_attention"])}
    )


#: What is wrong -> what becomes of the right layout.
WRONG: dict[str, Callable[[Layout], Layout]] = {
    "no window": _sliding(lambda _: Reach()),
    "a window that is one longer": _sliding(lambda reach: Reach(window=(reach.window or 0) + 1)),
    "a window that is one shorter": _sliding(lambda reach: Reach(window=(reach.window or 0) - 1)),
    "kinds of layers exchanged": lambda layout: replace(
        layout, reaches=dict(zip(layout.reaches, reversed(layout.reaches.values()), strict=True))
    ),
    "no cap": lambda layout: replace(layout, cap=None),
}
#: Longer than all that the check reads, also in the encoder.
LONG = 40


@pytest.mark.parametrize("window", [WINDOW, LONG])
@pytest.mark.parametrize("wrong", WRONG)
def test_the_check_finds_a_wrong_layout(wrong: str, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sharing = _pair(_config(window))
    before = sharing.model.config.to_dict()
    monkeypatch.setattr("nnd_tasks.models.encoder_decoder.layout_of", lambda config: WRONG[wrong](layout_of(config)))
    assert "differ from the model's own" in str(sharing.why_not())
    assert sharing.model.config.to_dict() == before


@pytest.mark.parametrize("window", [WINDOW, LONG])
@pytest.mark.parametrize("kind", ["full_attention", "sliding_attention"])
def test_the_check_finds_padding_that_the_encoder_sees(kind: str, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts are encoded together, the shorter ones padded. In layers with windows, only where these are crossed."""
    _, sharing = _pair(_config(window))
    name = {"full_attention": "mask", "sliding_attention": "sliding_window_mask"}[kind]
    original = getattr(modeling_t5gemma, f"create_bidirectional_{name}")

    def blind(config: Any, inputs_embeds: Any, attention_mask: torch.Tensor, **more: Any) -> Any:
        crossed = kind == "full_attention" or inputs_embeds.shape[1] > config.sliding_window
        seen = torch.ones_like(attention_mask) if crossed else attention_mask
        return original(config=config, inputs_embeds=inputs_embeds, attention_mask=seen, **more)

    encoder = sharing.model.get_encoder()
    forward = type(encoder).forward

    def encode(self: Any, *args: Any, **kwargs: Any) -> Any:
        with monkeypatch.context() as patch:  # the decoder makes masks of the context by the same function
            patch.setattr(modeling_t5gemma, f"create_bidirectional_{name}", blind)
            return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(encoder), "forward", encode)
    assert "differ from the model's own" in str(sharing.why_not())


def test_rotary_embeddings_of_the_encoder_count_too() -> None:
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    config = tf.T5GemmaConfig(encoder={**MODULE, "rope_parameters": dynamic}, decoder=MODULE, vocab_size=WORDS)
    assert "type dynamic" in str(why_not_config(config, "seq2seq"))
