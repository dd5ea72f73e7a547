"""Every decoder-only type that may share prefixes gives the numbers of plain HFLM, and the check on itself can fail."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import datasets
import numpy as np
import pytest
import torch
import transformers as tf
from lm_eval.models.huggingface import HFLM

from nnd_tasks.datasets import read_table
from nnd_tasks.harness.documents import cluster_documents
from nnd_tasks.models import block_attention
from nnd_tasks.models.architectures import DECODERS, Layout, Reach, layout_of, why_not_config, why_unsuitable
from nnd_tasks.models.prefix_tree import make_packs
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from nnd_tasks.models.tree_mask import TreeMask, trunk_mask
from tests.models.decoder_configs import LENGTH, RARE, TINY, VOCABULARY, WINDOW, tiny

Requests = list[tuple[Any, list[int], list[int]]]
#: Configs that show one thing more of a type, and rare types: `make test` leaves them out.
MORE = {name for name in TINY if " " in name and name.split()[0] in TINY} | set(RARE)


@pytest.fixture(scope="module")
def tokenizer(tiny_models: dict[str, Path]) -> Any:
    tokenizer = tf.AutoTokenizer.from_pretrained(tiny_models["gpt2"])
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


Make = Callable[..., tuple[HFLM, SharedPrefixLM]]


@pytest.fixture
def make(tokenizer: Any) -> Make:
    """Return a function: name of a config -> (plain model, sharing model), of the same weights."""

    def pair(name: str, dtype: Any = None) -> tuple[HFLM, SharedPrefixLM]:
        model = tiny(name).to(dtype)
        settings = {"pretrained": model, "tokenizer": tokenizer, "max_length": LENGTH, "device": "cpu"}
        return HFLM(**settings, batch_size=1), SharedPrefixLM(**settings)

    return pair


def assert_same(plain: HFLM, sharing: SharedPrefixLM, requests: Requests, rows: tuple[int, ...]) -> None:
    """Compare with plain HFLM, each request alone; rows are read as they would be, and in as many blocks as there can be."""
    expected = [plain._loglikelihood_tokens([request], disable_tqdm=True)[0] for request in requests]
    for row, call in [*((row, block_attention.CALL) for row in rows), (rows[0], 0)]:
        sharing.row_tokens = row
        with patch.multiple(block_attention, CALL=call, COPY=min(call, block_attention.COPY)):
            found = sharing._loglikelihood_tokens(requests, disable_tqdm=True)
        for (_, _, continuation), (total, greedy), (other, likeliest) in zip(requests, expected, found, strict=True):
            assert abs(total - other) <= 1e-6 * abs(total) + 1e-5 * len(continuation)
            assert greedy == likeliest


def adversarial(contexts: int) -> Requests:
    """Return requests that share beginnings, across windows, and are longer than the model reads."""
    draw = random.Random(7)

    def text(length: int) -> list[int]:
        return [draw.randrange(2, VOCABULARY) for _ in range(length)]

    stem = text(30)
    found: Requests = []
    for context in [stem, text(2 * LENGTH), stem[:10], stem + text(5), text(1), [5] * 12][:contexts]:
        base = text(6)
        found += [(("c", "x"), context, candidate) for candidate in (base, base[:2], base + text(3), [5, 5, 5])]
    found += [(("c", "x"), stem[:20], stem[20:]), (("c", "x"), stem[:21], stem[21:])]  # one input, two splits
    draw.shuffle(found)
    return found


def test_every_type_has_a_config_here() -> None:
    """`gemma3n` with its image encoder needs timm, which is not installed; its language model is `gemma3n_text`.

    Those of types with recurrent layers stand in ``test_hybrid.py``.
    """
    known = {name for name, kind in DECODERS.items() if not kind.recurrent}
    assert {name.split()[0] for name in TINY} == known - {"gemma3n"}


@pytest.mark.parametrize("name", [name for name in TINY if name not in MORE])
def test_adversarial_requests_score_as_with_plain_hf(name: str, make: Make) -> None:
    plain, sharing = make(name)
    assert sharing.why_not() is None
    assert layout_of(plain.model.config).describe() == TINY[name][1]
    assert_same(plain, sharing, adversarial(2), (1024, 8))


@pytest.mark.complete
@pytest.mark.parametrize("name", TINY)
def test_more_adversarial_requests_score_as_with_plain_hf(name: str, make: Make) -> None:
    plain, sharing = make(name)
    assert sharing.why_not() is None
    assert layout_of(plain.model.config).describe() == TINY[name][1]
    assert_same(plain, sharing, adversarial(6), (1024, 8, 16, 3))


@pytest.fixture(scope="module")
def real(built_home: Path, tokenizer: Any) -> Requests:
    """Some documents of Quiz Design; each token has a number of the small vocabulary, the same one everywhere."""
    documents = cluster_documents(
        datasets.Dataset(read_table(built_home / "nnd" / "quiz_design", "authors")), "quiz_design"
    )

    def encode(text: str) -> list[int]:
        return [2 + token % (VOCABULARY - 2) for token in tokenizer.encode(text)]

    found: Requests = []
    for document in list(documents)[:4]:
        context = encode(" ".join(document["context"].split()[:12]))[:30]
        found += [(("c", "x"), context, encode(f" {text}")[:18]) for text in document["candidates"] if text.strip()]
    return found


@pytest.mark.complete
@pytest.mark.parametrize("name", TINY)
def test_real_requests_score_as_with_plain_hf(name: str, make: Make, real: Requests) -> None:
    plain, sharing = make(name)
    assert len(real) > 12
    assert max(len(context) + len(continuation) for _, context, continuation in real) > 2 * WINDOW
    assert_same(plain, sharing, real, (1024, 24))


# ---------------------------------------------------------------- the check on itself

Wrong = Callable[[Layout], Layout]


def _reach(change: Callable[[Reach], Reach]) -> Wrong:
    return lambda layout: replace(layout, reaches={kind: change(reach) for kind, reach in layout.reaches.items()})


def _longer(by: int) -> Wrong:
    return _reach(lambda reach: Reach(reach.window and reach.window + by, reach.chunk and reach.chunk + by))


#: What is wrong -> (config, what becomes of the right layout).
WRONG: dict[str, tuple[str, Wrong]] = {
    "no window": ("mistral window", _reach(lambda _: Reach())),
    "a window that is one longer": ("mistral window", _longer(1)),
    "a window that is one shorter": ("qwen3_moe window", _longer(-1)),
    "no window in any layer": ("gemma3_text", _reach(lambda _: Reach())),
    "a window that is one longer in some layers": ("gpt_oss", _longer(1)),
    "a window that is one shorter in some layers": ("gemma4_text", _longer(-1)),
    "a window in all layers": ("olmo3", _reach(lambda _: Reach(window=WINDOW))),
    "kinds of layers exchanged": (
        "gemma2",
        lambda layout: replace(layout, reaches=dict(zip(layout.reaches, reversed(layout.reaches.values()), strict=True))),
    ),
    "no chunks": ("llama4_text", _reach(lambda _: Reach())),
    "chunks that are one longer": ("llama4_text", _longer(1)),
    "a window in the place of chunks": ("llama4_text", _reach(lambda reach: Reach(window=reach.chunk))),
    "queries scaled by places of the row": ("llama4_text tuned", lambda layout: replace(layout, places=False)),
    "no cap of the logits": ("gemma2 capped", lambda layout: replace(layout, cap=None)),
    "another cap of the logits": ("nanochat", lambda layout: replace(layout, cap=2.1)),
    "a cap that the model ignores": ("gemma3", lambda layout: replace(layout, cap=2.0)),
    "no factor of the logits": ("cohere", lambda layout: replace(layout, scale=1.0)),
    "a factor in the place of a divisor": ("granite", lambda layout: replace(layout, scale=1 / layout.scale)),
}  # fmt: skip


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_the_check_finds_a_wrong_layout(
    wrong: str, short: bool, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it shortens the windows, because reading beyond them would take too long."""
    name, change = WRONG[wrong]
    _, sharing = make(name)
    if short:
        if "floor_scale" in TINY[name][0]:
            pytest.skip("what is no window cannot be shortened")
        sharing.check_work = 0, 0
    before = sharing.model.config.to_dict()
    monkeypatch.setattr("nnd_tasks.models.decoder_only.layout_of", lambda config: change(layout_of(config)))
    if short and wrong == "a window in all layers":  # which is as long as the shortened one
        monkeypatch.setattr(
            "nnd_tasks.models.decoder_only.layout_of",
            lambda config: replace(right := layout_of(config), reaches=dict.fromkeys(right.reaches, Reach(window=6))),
        )
    assert "differ from the model's own" in str(sharing.why_not())
    assert sharing.model.config.to_dict() == before


def _siblings(mask: TreeMask) -> TreeMask:
    return replace(mask, ends=mask.ends * 0 + len(mask.ends))


def _one_more(mask: TreeMask) -> TreeMask:
    return replace(mask, anchors=mask.anchors + 1)


def _chunks_of_places(mask: TreeMask) -> TreeMask:
    return replace(mask, positions=mask.positions + 1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("llama", _siblings),
        ("mixtral", _siblings),
        ("gpt2", _one_more),
        ("deepseek_v3", _one_more),
        ("llama4_text", _chunks_of_places),
        ("llama", _chunks_of_places),
    ],
)
def test_the_check_finds_a_wrong_tree(
    name: str, change: Callable[[TreeMask], TreeMask], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = make(name)
    original = SharedPrefixLM._read
    monkeypatch.setattr(
        SharedPrefixLM,
        "_read",
        lambda self, tokens, mask, cache: original(self, tokens, mask and change(mask), cache),
    )
    assert "differ from the model's own" in str(sharing.why_not())


@pytest.mark.parametrize("name", ["bloom", "mpt", "falcon"])
def test_the_check_finds_biases_by_places_of_the_row(name: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sharing = make(name)
    monkeypatch.setattr(TreeMask, "key_positions", property(lambda mask: np.arange(mask.keys)))
    assert "differ from the model's own" in str(sharing.why_not())


@pytest.mark.parametrize(
    ("name", "work", "said"),
    [
        ("llama", 2e12, "every distinct token is read once (full attention)"),
        ("gemma2", 2e12, "read once (full attention, windows of 8; checked beyond 8 tokens)"),
        ("llama4_text tuned", 2e12, "read once (full attention, chunks of 8; checked beyond 4, 8 tokens)"),
        ("gemma2", 0.0, "(full attention, windows of 8; checked with windows or chunks of 8 tokens shortened to 6)"),
    ],
)
def test_the_log_says_what_the_check_covered(
    name: str, work: float, said: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    _, sharing = make(name)
    sharing.check_work = work, work
    with caplog.at_level(logging.INFO):
        assert sharing.why_not() is None
    [line] = [record.message for record in caplog.records if "read once" in record.message]
    assert line.endswith(said)


def test_masks_are_made_on_the_device(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes from numpy to torch has one number per token."""
    _, sharing = make("gemma2")
    assert sharing.why_not() is None
    sizes: list[int] = []
    for name in ("from_numpy", "as_tensor", "tensor"):
        original = getattr(torch, name)

        def call(value: Any, *args: Any, original: Any = original, **kwargs: Any) -> Any:
            made = original(value, *args, **kwargs)
            sizes.append(made.ndim)
            return made

        monkeypatch.setattr(torch, name, call)
    sharing.row_tokens = 8
    sharing._loglikelihood_tokens(adversarial(3), disable_tqdm=True)
    assert set(sizes) == {1}


# ---------------------------------------------------------------- what cannot share

_SMALL = TINY["llama"][0]
_ROPE = {"rope_theta": 1e4, "original_max_position_embeddings": 16}
_FACTORS = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4}


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("phi3", {"rope_parameters": {**_ROPE, **_FACTORS, "rope_type": "longrope"}}, "type longrope"),
        (
            "phimoe",
            {"rope_parameters": {**_ROPE, "rope_type": "linear", "factor": 2.0, "short_mscale": 1.0, "long_mscale": 2.0}},
            "type linear",
        ),
        ("gemma3_text", {"use_bidirectional_attention": True}, "those that follow"),
        ("gemma4_text", {"use_bidirectional_attention": "all"}, "those that follow"),
        ("llama", {"is_causal": False}, "those that follow"),
        ("llama", {"layer_types": ["sliding_attention"] * 2}, "other kinds (sliding_attention)"),
        ("qwen3", {"sliding_window": None, "layer_types": ["sliding_attention"] * 2}, "does not name"),
        ("llama", {"quantization_config": {"quant_method": "fp8"}}, "quantized"),
        ("xlnet", {}, "not known"),
        ("jamba", {}, "recurrent"),
    ],
)  # fmt: skip
def test_a_config_says_why_it_cannot_share(kind: str, settings: dict[str, Any], reason: str) -> None:
    sizes = {} if kind in ("xlnet", "jamba") else _SMALL
    config = tf.AutoConfig.for_model(kind, **{**sizes, **settings})
    assert reason in str(why_not_config(config, "causal"))


def test_attention_without_masks_of_our_own_says_which_one_to_ask_for() -> None:
    for name, other in (("llama", "sdpa"), ("gpt_oss", "eager")):
        model = tiny(name)
        model.config._attn_implementation = "flash_attention_2"
        assert f"attn_implementation={other} in --model_args" in str(why_unsuitable(model, model, "causal"))
        model.config._attn_implementation = "flex_attention"
        assert why_unsuitable(model, model, "causal") is None
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 16}
    model = tf.T5ForConditionalGeneration(tf.T5Config(**sizes))
    model.config._attn_implementation = "flex_attention"  # its biases need the whole mask
    assert "takes no custom mask" in str(why_unsuitable(model, model, "seq2seq"))


def test_flex_attention_gets_the_masks_as_blocks(make: Make) -> None:
    sharing = make("gemma3_text")[1]
    sequences = sorted({tuple(([*context, *more])[:-1]) for _, context, more in adversarial(4)})
    pack = next(make_packs(sequences, 1024, 1024))
    mask = trunk_mask(pack)
    assert mask is not None
    layout = layout_of(sharing.model.config)
    biases = sharing._masks(mask, layout)
    sharing.model.config._attn_implementation = "flex_attention"
    for kind, blocks in sharing._masks(mask, layout).items():
        index = torch.arange(len(pack.tokens))
        assert torch.equal(blocks.mask_mod(0, 0, index[:, None], index[None]), biases[kind][0, 0] == 0)
        assert blocks.shape == biases[kind].shape


@pytest.mark.complete
def test_flex_attention_scores_as_plain_hf(make: Make) -> None:
    """Compiled, as transformers does it; windows and full attention."""
    plain, sharing = make("gemma3_text")
    requests = adversarial(4)
    expected = [plain._loglikelihood_tokens([request], disable_tqdm=True)[0][0] for request in requests]
    sharing.model.set_attn_implementation("flex_attention")
    assert sharing.why_not() is None
    for sharing.row_tokens in (1024, 16):
        sums = [total for total, _ in sharing._loglikelihood_tokens(requests, disable_tqdm=True)]
        for (_, _, continuation), total, other in zip(requests, expected, sums, strict=True):
            assert abs(total - other) <= 1e-6 * abs(total) + 1e-5 * len(continuation)


def test_gpt_oss_has_no_sdpa_that_could_be_asked_for() -> None:
    """Its sinks need eager attention, which is what transformers takes by itself."""
    assert tiny("gpt_oss").config._attn_implementation == "eager"
    config = tf.AutoConfig.for_model("gpt_oss", **TINY["gpt_oss"][0])
    with pytest.raises(ValueError, match="scaled_dot_product_attention"):
        tf.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
