"""``hf-shared-prefix`` gives the numbers of plain HFLM at batch size 1, for every kind of model and request."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import lm_eval
import pytest
import torch
import transformers as tf
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from peft import LoraConfig, get_peft_model

import nnd_tasks
from nnd_tasks.datasets import read_table
from nnd_tasks.harness.documents import cluster_documents
from nnd_tasks.models.architectures import Reach, layout_of, why_unsuitable
from nnd_tasks.models.encoder_decoder import PackedDecoder
from nnd_tasks.models.model_error import ModelError
from nnd_tasks.models.prefix_scoring import Work
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from nnd_tasks.models.tree_mask import TreeMask
from nnd_tasks.models.vocabulary_head import VocabularyHead
from tests import random_models
from tests.models.memory import run_out_of_memory

WINDOW = 256
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {**SMALL, "num_key_value_heads": 2, "max_position_embeddings": WINDOW}
ENDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": WINDOW,
    "decoder_start_token_id": 1,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "n_positions": WINDOW}

#: Architecture -> (config class, its arguments, whether prefixes are shared).
MODELS: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "gpt2": (tf.GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": WINDOW}, True),
    "llama": (tf.LlamaConfig, {**GROUPED}, True),
    "mistral": (tf.MistralConfig, {**GROUPED, "sliding_window": None}, True),
    "mistral sliding": (tf.MistralConfig, {**GROUPED, "sliding_window": 16}, True),
    "qwen2": (tf.Qwen2Config, {**GROUPED}, True),
    "qwen3": (tf.Qwen3Config, {**GROUPED, "head_dim": 8}, True),
    "gpt_neox": (tf.GPTNeoXConfig, {**SMALL, "max_position_embeddings": WINDOW}, True),
    "gemma": (tf.GemmaConfig, {**GROUPED, "head_dim": 8}, True),
    "gemma2": (tf.Gemma2Config, {**GROUPED, "head_dim": 8, "sliding_window": 16}, True),
    "opt": (
        tf.OPTConfig,
        {
            "hidden_size": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 32,
            "max_position_embeddings": WINDOW,
        },
        True,
    ),
    "phi": (tf.PhiConfig, {**SMALL, "max_position_embeddings": WINDOW}, True),
    "olmo2": (tf.Olmo2Config, {**GROUPED}, True),
    "stablelm": (tf.StableLmConfig, {**GROUPED}, True),
    "starcoder2": (tf.Starcoder2Config, {**GROUPED, "sliding_window": None}, True),
    # Of these four only the Qwens read the switch beside the window.
    "mistral switch": (tf.MistralConfig, {**GROUPED, "sliding_window": 32, "use_sliding_window": False}, True),
    "starcoder2 switch": (tf.Starcoder2Config, {**GROUPED, "sliding_window": 32, "use_sliding_window": False}, True),
    "qwen2 switch": (tf.Qwen2Config, {**GROUPED, "sliding_window": 32, "use_sliding_window": False}, True),
    "qwen3 switch": (
        tf.Qwen3Config,
        {**GROUPED, "head_dim": 8, "sliding_window": 32, "use_sliding_window": False},
        True,
    ),
    "qwen2 sliding": (
        tf.Qwen2Config,
        {**GROUPED, "sliding_window": 32, "use_sliding_window": True, "max_window_layers": 0},
        True,
    ),
    # The frequencies follow from the longest input of a call.
    "llama longrope": (
        tf.LlamaConfig,
        {
            **GROUPED,
            "rope_scaling": {
                "rope_type": "longrope",
                "short_factor": [1.0] * 4,
                "long_factor": [3.0] * 4,
                "original_max_position_embeddings": 64,
                "factor": 4.0,
            },
        },
        False,
    ),
    "llama yarn": (
        tf.LlamaConfig,
        {
            **GROUPED,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        },
        True,
    ),
    "bloom": (tf.BloomConfig, {"hidden_size": 32, "n_layer": 2, "n_head": 4}, True),
    "mamba": (tf.MambaConfig, {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}, False),
    "t5": (tf.T5Config, {**T5, "decoder_start_token_id": 0, "dropout_rate": 0.0}, True),
    "t5 gated": (
        tf.T5Config,
        {
            **T5,
            "decoder_start_token_id": 0,
            "dropout_rate": 0.0,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
        True,
    ),
    "bart": (tf.BartConfig, BART, True),
    "mbart": (tf.MBartConfig, BART, True),
    "pegasus": (tf.PegasusConfig, BART, True),
    # mT5 does not scale the decoder's output as T5 does: at its usual scale random weights give logits in the hundreds.
    "mt5": (tf.MT5Config, {**T5, "decoder_start_token_id": 0, "dropout_rate": 0.0, "initializer_factor": 0.5}, True),
}


def _save_random(kind: Any, arguments: dict[str, Any], tokenizer_of: Path, folder: Path) -> Path:
    """Save a model with random weights, large enough to show a wrong mask, and the tokenizer of another."""
    tokenizer = tf.AutoTokenizer.from_pretrained(tokenizer_of)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = kind(vocab_size=len(tokenizer), **{**ENDS, **arguments})
    seq2seq = config.is_encoder_decoder
    model = (tf.AutoModelForSeq2SeqLM if seq2seq else tf.AutoModelForCausalLM).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and config.model_type != "t5":
                parameter.mul_(3.0)  # small weights would hide a wrong mask; T5's are large
        if getattr(model, "final_logits_bias", None) is not None:
            model.final_logits_bias.normal_()
    model.eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pairs(tiny_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Return a function: architecture -> (plain model, sharing model), made once."""
    made: dict[str, Any] = {}

    def make(name: str) -> tuple[HFLM, SharedPrefixLM]:
        if name not in made:
            kind, arguments, _ = MODELS[name]
            folder = tmp_path_factory.mktemp("shared")
            _save_random(kind, arguments, tiny_models["gpt2"], folder)
            settings = {"pretrained": str(folder), "dtype": "float32", "device": "cpu", "max_length": WINDOW}
            made[name] = HFLM(**settings, batch_size=1), SharedPrefixLM(**settings)
        return made[name]

    return make


Requests = list[tuple[Any, list[int], list[int]]]


def one_by_one(lm: HFLM, requests: Requests) -> list[tuple[float, bool]]:
    """Score with plain HFLM, each request alone: sent together, 0.4.13 can mix up split points."""
    return [lm._loglikelihood_tokens([request], disable_tqdm=True)[0] for request in requests]


def assert_same(plain: HFLM, sharing: HFLM, requests: Requests) -> None:
    expected = one_by_one(plain, requests)
    found = sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    for (_, _, continuation), (total, greedy), (other, likeliest) in zip(requests, expected, found, strict=True):
        assert abs(total - other) <= 1e-6 * abs(total) + 1e-5 * len(continuation)
        assert greedy == likeliest


def adversarial(size: int) -> Requests:
    """Return requests that share beginnings in every way; some are longer than the window."""
    draw = random.Random(7)

    def text(length: int) -> list[int]:
        return [draw.randrange(2, size) for _ in range(length)]

    stem = text(40)
    contexts = [stem, stem + text(5), stem[:10], stem + text(30), text(1), text(3 * WINDOW), text(WINDOW - 3)]
    contexts.append(contexts[-2][:-20] + text(20))
    requests: Requests = []
    for context in contexts:
        base = text(9)
        candidates = [base, base[:1], base[:4], [*base, *text(3)], text(1), text(12), base]
        requests += [(("c", "x"), context, candidate) for candidate in candidates]
    requests += [(("c", "x"), stem[:20], stem[20:]), (("c", "x"), stem[:21], stem[21:])]  # one input, two splits
    draw.shuffle(requests)
    return requests


@pytest.mark.parametrize("name", MODELS)
def test_adversarial_requests_score_as_with_plain_hf(name: str, pairs: Callable[[str], Any]) -> None:
    plain, sharing = pairs(name)
    assert (sharing.why_not() is None) == MODELS[name][2], sharing.why_not()
    assert_same(plain, sharing, adversarial(len(plain.tokenizer)))


@pytest.mark.parametrize("name", [name for name, (_, _, shares) in MODELS.items() if shares])
@pytest.mark.parametrize("row", [16, 64])
def test_small_rows_give_the_same(
    name: str, row: int, pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, sharing = pairs(name)
    monkeypatch.setattr(sharing, "row_tokens", row)
    monkeypatch.setattr(sharing, "decoder_row_tokens", row)
    monkeypatch.setattr(sharing, "source_tokens", 4 * row)
    assert_same(plain, sharing, adversarial(len(plain.tokenizer)))


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_one_context_with_500_candidates_and_500_contexts_with_one(name: str, pairs: Callable[[str], Any]) -> None:
    plain, sharing = pairs(name)
    draw = random.Random(3)
    size = len(plain.tokenizer)

    def text(most: int) -> list[int]:
        return [draw.randrange(2, size) for _ in range(draw.randint(1, most))]

    context = text(30) + text(30)
    many: Requests = [(("c", "x"), context, text(10)) for _ in range(500)]
    few: Requests = [(("c", "x"), text(20), text(6)) for _ in range(500)]
    check = draw.sample(range(500), 60)
    for requests in (many, few):
        found = sharing._loglikelihood_tokens(requests, disable_tqdm=True)
        expected = one_by_one(plain, [requests[i] for i in check])
        for i, (total, greedy) in zip(check, expected, strict=True):
            assert abs(found[i][0] - total) <= 1e-6 * abs(total) + 1e-5 * len(requests[i][2])
            assert found[i][1] == greedy


TEXTS = [
    ("The cat", " sat"),
    ("The cat", " sat on the mat"),
    ("The ca", "t sat"),
    ("The cat ", "sat"),
    ("The cat \n", "sat"),
    ("", "The cat sat"),
    ("", "<|endoftext|>The cat"),
    ("Ein Käse 🧀", " schmeckt gut, 中文"),
    ("e", "\u0301 and more"),
    ("a" * 2000, " end"),
]


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_texts_with_merges_empty_contexts_and_unicode(name: str, pairs: Callable[[str], Any]) -> None:
    plain, sharing = pairs(name)
    requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(TEXTS)]
    expected = [plain.loglikelihood([request], disable_tqdm=True)[0] for request in requests]
    for (total, greedy), (other, likeliest) in zip(
        expected, sharing.loglikelihood(requests, disable_tqdm=True), strict=True
    ):
        assert total == pytest.approx(other, rel=1e-6, abs=1e-4)
        assert greedy == likeliest


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_rolling_likelihoods_are_those_of_plain_hf(name: str, pairs: Callable[[str], Any]) -> None:
    plain, sharing = pairs(name)
    text = "A text that is longer than the window of the model. " * 40
    requests = [Instance("loglikelihood_rolling", {}, (text,), 0)]
    [one], [two] = (lm.loglikelihood_rolling(requests, disable_tqdm=True) for lm in (plain, sharing))
    assert one == pytest.approx(two, rel=1e-5)


@pytest.mark.parametrize(("context", "continuation"), [([5, 6], []), ([], [5]), ([5], [6] * (WINDOW + 1))])
@pytest.mark.parametrize("name", ["gpt2", "bloom", "t5"])
def test_what_cannot_be_scored_is_an_error_never_a_score(
    name: str, context: list[int], continuation: list[int], pairs: Callable[[str], Any]
) -> None:
    _, sharing = pairs(name)
    with pytest.raises(ModelError, match=r"no token|do not fit"):
        sharing._loglikelihood_tokens([(("c", "x"), context, continuation)], disable_tqdm=True)


@pytest.mark.parametrize("name", ["gpt2", "t5"])
@pytest.mark.parametrize(("context", "continuation"), [("", ""), ("a b", "")])
def test_an_empty_text_is_an_error_too(name: str, context: str, continuation: str, pairs: Callable[[str], Any]) -> None:
    _, sharing = pairs(name)
    with pytest.raises(ModelError, match="the continuation '' has no token"):
        sharing.loglikelihood([Instance("loglikelihood", {}, (context, continuation), 0)], disable_tqdm=True)


def test_a_model_that_fails_the_check_on_itself_takes_the_plain_path(
    pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A head that is a little wrong, as a model with a scale of its own would need another one."""
    plain, _ = pairs("llama")
    sharing = SharedPrefixLM(pretrained=plain.pretrained, dtype="float32", device="cpu", max_length=WINDOW)
    original = VocabularyHead.__call__
    monkeypatch.setattr(VocabularyHead, "__call__", lambda self, hidden, *rest: original(self, hidden * 1.01, *rest))
    with caplog.at_level(logging.INFO):
        assert "differ from the model's own" in str(sharing.why_not())
    assert [r.message for r in caplog.records if "plain hf instead" in r.message]
    assert_same(plain, sharing, adversarial(len(plain.tokenizer))[:20])


#: Windows that sharing is made to ignore: (config class, its arguments, whether they change any number).
WINDOWED: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "mistral 16": (tf.MistralConfig, {**GROUPED, "sliding_window": 16}, True),
    "mistral 200": (tf.MistralConfig, {**GROUPED, "sliding_window": 200}, True),
    "mistral, one less than the model reads": (tf.MistralConfig, {**GROUPED, "sliding_window": WINDOW - 1}, True),
    "mistral, as much as the model reads": (tf.MistralConfig, {**GROUPED, "sliding_window": WINDOW}, False),
    "starcoder2 40": (tf.Starcoder2Config, {**GROUPED, "sliding_window": 40}, True),
    "qwen2 120, and a smaller number that is none": (
        tf.Qwen2Config,
        {**GROUPED, "sliding_window": 120, "use_sliding_window": True, "max_window_layers": 1},
        True,
    ),
}


@pytest.fixture
def windowed(tiny_models: dict[str, Path], tmp_path: Path) -> Callable[[Any, dict[str, Any]], SharedPrefixLM]:
    """Return a function: config class, its arguments -> a model with a window."""

    def make(kind: Any, arguments: dict[str, Any]) -> SharedPrefixLM:
        folder = _save_random(kind, arguments, tiny_models["gpt2"], tmp_path)
        return SharedPrefixLM(pretrained=str(folder), dtype="float32", device="cpu", max_length=WINDOW)

    return make


@pytest.mark.parametrize("name", WINDOWED)
def test_the_check_finds_windows_that_sharing_ignores(
    name: str, windowed: Callable[[Any, dict[str, Any]], SharedPrefixLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, arguments, matters = WINDOWED[name]
    sharing = windowed(kind, arguments)
    layout = layout_of(sharing.model.config)
    blind = replace(layout, reaches=dict.fromkeys(layout.reaches, Reach()))
    monkeypatch.setattr("nnd_tasks.models.decoder_only.layout_of", lambda _: blind)
    assert ("differ from the model's own" in str(sharing.why_not())) == matters
    assert matters or sharing.why_not() is None


@pytest.mark.parametrize("counted", ["right", "in places of the row", "one more"])
def test_the_check_finds_windows_that_are_counted_wrongly(
    counted: str, windowed: Callable[[Any, dict[str, Any]], SharedPrefixLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    window = 40
    sharing = windowed(tf.MistralConfig, {**GROUPED, "sliding_window": window})
    visible = TreeMask.visible

    def wrong(self: TreeMask, device: Any, reach: Reach | None = None) -> torch.Tensor:
        mask = visible(self, device)
        if counted == "in places of the row":
            key = torch.arange(mask.shape[1])
            distance = key[-len(mask) :, None] - key[None, :]
        else:  # a token sees its ancestors and itself, the nearest of them last
            distance = mask.flip(1).cumsum(1).flip(1) - 1
        return mask & (distance < window + (counted == "one more"))

    monkeypatch.setattr(TreeMask, "visible", wrong)
    assert (sharing.why_not() is None) == (counted == "right"), sharing.why_not()


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_where_memory_runs_out_rows_get_shorter(
    name: str, pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, sharing = pairs(name)
    sharing.why_not()
    run_out_of_memory(monkeypatch, sharing, (1, 3, 4))
    before = sharing.row_tokens
    assert_same(plain, sharing, adversarial(len(plain.tokenizer)))
    assert sharing.row_tokens == before // 8

    def hopeless(self: Any, *args: Any) -> None:
        raise torch.OutOfMemoryError("no memory at all")

    monkeypatch.setattr(Work, "settle", hopeless)
    with pytest.raises(torch.OutOfMemoryError, match="no memory at all"):
        sharing._loglikelihood_tokens(adversarial(len(plain.tokenizer)), disable_tqdm=True)


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("settings", [{"dtype": "bfloat16"}, {"mixed_precision_dtype": "bfloat16"}])
def test_rounding_in_sixteen_bits_is_no_reason_against_sharing(
    settings: dict[str, str], scale: float, pairs: Callable[[str], Any], tmp_path: Path
) -> None:
    """Large logits are rounded to large steps."""
    plain, _ = pairs("llama")
    model = tf.AutoModelForCausalLM.from_pretrained(plain.pretrained)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(scale)
    model.save_pretrained(tmp_path)
    plain.tokenizer.save_pretrained(tmp_path)
    assert SharedPrefixLM(pretrained=str(tmp_path), device="cpu", **{"dtype": "float32", **settings}).why_not() is None


def test_models_that_cannot_share_say_why(pairs: Callable[[str], Any]) -> None:
    _, sharing = pairs("llama")
    inner = sharing.model
    assert why_unsuitable(inner, inner, "causal") is None
    remote = type("Remote", (type(inner),), {"__module__": "somewhere.else"})
    other = object.__new__(remote)
    other.__dict__ = inner.__dict__
    assert "is not part of transformers" in str(why_unsuitable(other, other, "causal"))
    try:
        inner.config.quantization_config = {"load_in_8bit": True}
        assert "quantized" in str(why_unsuitable(inner, inner, "causal"))
    finally:
        del inner.config.quantization_config
    # Of the dynamic kind even plain hf's numbers depend on what was read before.
    scaled = tf.LlamaConfig(**GROUPED, vocab_size=50, rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    model = tf.LlamaForCausalLM(scaled)
    assert "rotary embeddings of type dynamic" in str(why_unsuitable(model, model, "causal"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"dtype": "bfloat16"}, True), ({"dtype": "bfloat16", "softmax_dtype": "float32"}, False), ({}, False)],
)
def test_a_model_that_cannot_share_says_that_its_sums_will_be_rounded(
    settings: dict[str, str], told: bool, tiny_models: dict[str, Path], tmp_path: Path, caplog: Any
) -> None:
    kind, arguments, _ = MODELS["llama longrope"]
    folder = _save_random(kind, arguments, tiny_models["gpt2"], tmp_path)
    sharing = SharedPrefixLM(pretrained=str(folder), device="cpu", **{"dtype": "float32", **settings})
    assert "rotary embeddings of type longrope" in str(sharing.why_not())
    assert ("add softmax_dtype=float32" in caplog.text) == told


def test_cut_requests_are_counted_in_one_warning(pairs: Callable[[str], Any], caplog: pytest.LogCaptureFixture) -> None:
    _, sharing = pairs("gpt2")
    requests: Requests = [(("c", "x"), [5] * length, [6, 7]) for length in (WINDOW - 1, WINDOW, WINDOW + 1)]
    sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    assert "2 requests are longer than the window of 256 tokens" in caplog.text


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_on_a_gpu_the_numbers_are_those_of_plain_hf(name: str, pairs: Callable[[str], Any]) -> None:
    folder = pairs(name)[0].pretrained
    settings = {"pretrained": folder, "dtype": "float32", "device": "cuda", "max_length": WINDOW}
    plain, sharing = HFLM(**settings, batch_size=1), SharedPrefixLM(**settings)
    assert sharing.why_not() is None
    requests = adversarial(len(plain.tokenizer))
    for (_, _, continuation), (total, _), (other, _) in zip(
        requests, one_by_one(plain, requests), sharing._loglikelihood_tokens(requests, disable_tqdm=True), strict=True
    ):
        assert abs(total - other) <= 1e-5 * abs(total) + 1e-4 * len(continuation)


def test_adapters_are_shared_too(pairs: Callable[[str], Any], tmp_path: Path) -> None:
    plain, _ = pairs("llama")
    base = tf.AutoModelForCausalLM.from_pretrained(plain.pretrained)
    torch.manual_seed(1)
    adapter = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapter.save_pretrained(tmp_path)
    settings = {"pretrained": plain.pretrained, "peft": str(tmp_path), "dtype": "float32", "device": "cpu"}
    with_plain = HFLM(**settings, batch_size=1, max_length=WINDOW)
    with_sharing = SharedPrefixLM(**settings, max_length=WINDOW)
    assert with_sharing.why_not() is None
    requests = adversarial(len(plain.tokenizer))[:25]
    assert_same(with_plain, with_sharing, requests)
    assert one_by_one(plain, requests) != one_by_one(with_plain, requests)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bits_sum_in_float32(dtype: str, pairs: Callable[[str], Any]) -> None:
    plain, _ = pairs("llama")
    settings = {"pretrained": plain.pretrained, "dtype": dtype, "device": "cpu", "max_length": WINDOW}
    reference, sharing = HFLM(**settings, softmax_dtype="float32", batch_size=1), SharedPrefixLM(**settings)
    assert sharing.why_not() is None
    requests = adversarial(len(plain.tokenizer))[:40]
    expected, found = one_by_one(reference, requests), sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    for (_, _, continuation), (total, _), (other, _) in zip(requests, expected, found, strict=True):
        assert abs(total - other) <= 0.15 * len(continuation)
    sums = torch.tensor([total for total, _ in found])
    assert (sums.to(getattr(torch, dtype)).float() != sums).any(), "they are not rounded to the model's type"


@pytest.mark.parametrize("row", [16, 64, 1024])
def test_every_distinct_token_is_read_once(
    row: int, pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = pairs("gpt2")
    sharing.why_not()
    monkeypatch.setattr(sharing, "row_tokens", row)
    read: list[int] = []
    original = SharedPrefixLM._read
    monkeypatch.setattr(
        SharedPrefixLM,
        "_read",
        lambda self, tokens, *rest: (read.append(len(tokens)), original(self, tokens, *rest))[1],
    )
    stem = list(range(10, 60))
    requests: Requests = [(("c", "x"), stem, [i, i + 1, i + 2]) for i in range(100, 160)]
    sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    assert sum(read) == len(stem) + 60 * 2, "the context once, and of each candidate all tokens but the last"


def test_an_encoder_decoder_reads_every_context_and_every_distinct_beginning_of_its_candidates_once(
    pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sharing = pairs("bart")
    sharing.why_not()
    encoded: list[int] = []
    decoded: list[int] = []
    encode, read = PackedDecoder.__init__, PackedDecoder.read

    def counting_encode(self: Any, model: Any, contexts: Any) -> None:
        encoded.extend(map(len, contexts))
        encode(self, model, contexts)

    def counting_read(self: Any, tokens: Any, *rest: Any) -> Any:
        decoded.append(len(tokens))
        return read(self, tokens, *rest)

    monkeypatch.setattr(PackedDecoder, "__init__", counting_encode)
    monkeypatch.setattr(PackedDecoder, "read", counting_read)
    contexts = [list(range(10 + i, 40)) for i in range(5)]
    requests: Requests = [(("c", "x"), context, [7, 8, i, i + 1]) for context in contexts for i in range(100, 120)]
    sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    assert sum(encoded) == sum(map(len, contexts))
    assert sum(decoded) == 5 * (3 + 20), "start, 7 and 8 once for each context, then one token of each candidate"


@pytest.mark.parametrize("size", [7, 1024, 5000])
def test_the_head_in_slices_is_the_whole_softmax(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnd_tasks.models.vocabulary_head._ELEMENTS", 1500)
    torch.manual_seed(0)
    linear, hidden = torch.nn.Linear(16, size), torch.randn(5, 16) * 4
    rows, targets = torch.tensor([0, 0, 3, 4, 4]), torch.randint(0, size, (5,))
    targets[2] = linear(hidden)[3].argmax()
    with torch.no_grad():
        head = VocabularyHead(linear, scale=0.35, cap=1.5)
        logprobs, greedy = head(hidden, rows, targets)
        expected = torch.log_softmax(torch.tanh(linear(hidden) * 0.35 / 1.5) * 1.5, dim=-1)
    torch.testing.assert_close(logprobs, expected[rows, targets], atol=1e-5, rtol=1e-5)
    assert greedy.tolist() == (expected.argmax(-1)[rows] == targets).tolist()


@pytest.mark.parametrize(("size", "biased"), [(1024, False), (49_152, False), (262_144, True)])
def test_the_head_stays_with_float64_where_the_softmax_of_torch_leaves_it(size: int, biased: bool) -> None:
    """`torch.log_softmax` adds up a large vocabulary in few running sums of float32, which lose small terms."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(32, size, generator=draw) * 3
    linear = torch.nn.Linear(32, size, bias=False)
    linear.weight.data = logits.T.contiguous()  # so that the logits of unit vectors are exact
    rows, targets = torch.arange(32), torch.randint(0, size, (32,), generator=draw)
    exact = torch.log_softmax(logits.double(), -1)[rows, targets]
    with torch.no_grad():
        ours = VocabularyHead(linear)(torch.eye(32), rows, targets)[0] - exact
    of_torch = torch.log_softmax(logits, -1)[rows, targets] - exact
    assert ours.abs().max() < 3e-6
    assert ours.mean().abs() < 3e-7
    assert (of_torch.mean() > 5e-6) == biased, "docs/backends.md says so"


# ---------------------------------------------------------------- whole runs


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_evaluate_shares_by_default_and_gives_the_outcomes_of_plain_hf(
    name: str, tiny_models: dict[str, Path], home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        shared = random_models.evaluate(tiny_models[name], ["nnd_demo"])
    assert sum("every distinct token is read once" in record.message for record in caplog.records) == 1
    plain = random_models.evaluate(tiny_models[name], ["nnd_demo"], shared_prefix=False)
    assert shared["config"]["model"] == "hf-shared-prefix"
    assert plain["config"]["model"] == "hf"
    for one, two in zip(shared["samples"]["nnd_demo"], plain["samples"]["nnd_demo"], strict=True):
        assert [test["passed"] for test in one["tests"]] == [test["passed"] for test in two["tests"]]
        for a, b in zip(one["candidates"], two["candidates"], strict=True):
            assert a["sum"] == pytest.approx(b["sum"], rel=1e-5)
            assert a["tokens"] == b["tokens"]


@pytest.fixture(scope="module")
def real_requests(built_home: Path) -> list[tuple[str, str]]:
    """Some documents of Quiz Design (shortened) and SummEval (longer than the window) as requests."""
    found = []
    for name, config in (("quiz_design", "authors"), ("summeval", "all_rows")):
        documents = cluster_documents(datasets.Dataset(read_table(built_home / "nnd" / name, config)), name)
        for document in list(documents)[:2]:
            words = document["context"].split()[: 30 if name == "quiz_design" else None]
            prompt = f"{' '.join(words)}\n\nText:"
            found += [(prompt, f" {text}") for text in document["candidates"] if text.strip()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_real_requests_score_as_with_plain_hf(
    name: str, data: Path, pairs: Callable[[str], Any], real_requests: list[tuple[str, str]]
) -> None:
    plain, sharing = pairs(name)
    requests: Requests = [(pair, *plain._encode_pair(*pair)) for pair in real_requests]
    assert any(len(context) > WINDOW for _, context, _ in requests)
    assert any(len(context) < WINDOW for _, context, _ in requests)
    fitting = [request for request in requests if len(request[2]) <= WINDOW]
    assert len(fitting) > 15
    assert_same(plain, sharing, fitting)


#: A task as lm-eval's own with several choices, such as hellaswag; acc_mutual_info also asks for the choices alone.
CHOICES = """
task: choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: {table}}}, cache_dir: {cache}}}
test_split: test
fewshot_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}:"
doc_to_choice: "{{{{endings}}}}"
doc_to_target: label
metric_list: [{{metric: acc}}, {{metric: acc_norm}}, {{metric: acc_mutual_info}}]
"""


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_tasks_of_lm_eval_with_several_choices_get_the_numbers_of_hf(
    name: str, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    """The literal `lm_eval.simple_evaluate`, without our runner and our task class."""
    draw = random.Random(1)
    words = ["sky", "fire", "house", "dog", "red", "blue", "open", "one", "day", "nobody", "knew", "the", "song", "cat"]

    def text(most: int) -> str:
        return " ".join(draw.choice(words) for _ in range(draw.randint(1, most)))

    rows = [{"text": text(40), "endings": [text(8) for _ in range(4)], "label": draw.randrange(4)} for _ in range(12)]
    table = tmp_path / "table.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "choices.yaml").write_text(CHOICES.format(table=table, cache=tmp_path / "cache"), encoding="utf-8")
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    arguments = {"pretrained": str(tiny_models[name]), "dtype": "float32"}
    plain, shared = (
        lm_eval.simple_evaluate(
            model, arguments, ["choices"], num_fewshot=2, device="cpu", task_manager=manager, bootstrap_iters=0
        )
        for model in ("hf", "hf-shared-prefix")
    )
    assert shared["results"]["choices"] == plain["results"]["choices"]
    for one, two in zip(shared["samples"]["choices"], plain["samples"]["choices"], strict=True):
        assert len(one["filtered_resps"]) == 8
        for (total, greedy), (other, likeliest) in zip(one["filtered_resps"], two["filtered_resps"], strict=True):
            assert total == pytest.approx(other, rel=1e-6, abs=1e-4)
            assert greedy == likeliest


def test_the_name_is_registered_and_announced_to_later_releases_of_lm_eval() -> None:
    from importlib.metadata import entry_points

    from lm_eval.api.registry import get_model

    assert get_model("hf-shared-prefix") is SharedPrefixLM
    [entry] = [e for e in entry_points(group="lm_eval.models") if e.name == "hf-shared-prefix"]
    assert entry.load() is SharedPrefixLM
    assert nnd_tasks.evaluate is not None
