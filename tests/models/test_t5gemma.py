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

from nnd_tasks.models.architectures import Reach, layout_of, why_not_config
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
    "sliding_window": WINDOW,
    "final_logit_softcapping": 2.0,
    "attn_logit_softcapping": 3.0,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}


def _config(**decoder: Any) -> Any:
    return tf.T5GemmaConfig(encoder={**MODULE}, decoder={**MODULE, **decoder}, vocab_size=WORDS)


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


WRONG: dict[str, Callable[[Any], Any]] = {
    "no window": lambda layout: replace(layout, reaches=dict.fromkeys(layout.reaches, Reach())),
    "a window that is one longer": lambda layout: replace(
        layout, reaches={**layout.reaches, "sliding_attention": Reach(window=WINDOW + 1)}
    ),
    "no cap": lambda layout: replace(layout, cap=None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_check_finds_a_wrong_layout(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sharing = _pair(_config())
    monkeypatch.setattr("nnd_tasks.models.encoder_decoder.layout_of", lambda config: WRONG[wrong](layout_of(config)))
    assert "differ from the model's own" in str(sharing.why_not())


def test_rotary_embeddings_of_the_encoder_count_too() -> None:
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    config = tf.T5GemmaConfig(encoder={**MODULE, "rope_parameters": dynamic}, decoder=MODULE, vocab_size=WORDS)
    assert "type dynamic" in str(why_not_config(config, "seq2seq"))
