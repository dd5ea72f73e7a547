"""``hf-shared-prefix`` gives the numbers of plain HFLM at batch size 1, for every kind of model and request."""

from unittest.mock import patch

import pytest
import torch
from accelerate import dispatch_model
from lm_eval.models.huggingface import HFLM
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from engine_tests.comparing import (
    adversarial,
    assert_close,
    assert_same,
    instances,
    one_by_one,
    pair_of,
    run_out_of_memory,
    score_tokens,
)
from engine_tests.families import LENGTH, PLAIN, RARE, TINY, tiny
from shared_prefix.architectures import DECODERS, SEQ2SEQ, layout_of
from shared_prefix.hf_shared_prefix import SharedPrefixLM, describe_layers
from shared_prefix.model_error import ModelError
from shared_prefix.prefix_scoring import PackedDecoder, SortedRequests, VocabularyHead

#: Configs that show one thing more of a type, and rare types: `make test` leaves them out.
MORE = {name for name in TINY if " " in name and name.split()[0] in TINY} | RARE


def test_every_type_has_a_config():
    """`gemma3n` with its image encoder needs timm; its language model is `gemma3n_text`. Qwen 3.5 that sees is `qwen3_5`."""
    assert {name.split()[0] for name in TINY} == {*DECODERS, *SEQ2SEQ} - {"gemma3n", "qwen3_5_moe"}


@pytest.mark.parametrize(
    ("name", "count", "rows"),
    [
        *((name, 14, (8,)) for name in TINY if name not in MORE),
        *(pytest.param(name, None, (1024, 8, 16, 64, 3), marks=pytest.mark.complete) for name in TINY),
    ],
)
def test_adversarial_requests_score_as_with_plain_hf(name, count, rows):
    if name == "olmo_hybrid":  # with 5.20, the last release for Python 3.10, it is read text by text
        pytest.importorskip("transformers", "5.21")
    plain, sharing = pair_of(name)
    assert sharing.why_not() is None
    assert describe_layers(layout_of(plain.model.config)) == TINY[name][1]
    assert_same(plain, sharing, adversarial(count), rows)


@pytest.mark.parametrize("name", PLAIN)
def test_what_cannot_share_is_scored_as_by_plain_hf_also_token_by_token(name):
    """Also where lm-eval would give a request the log-probabilities of another that has its input."""
    plain, sharing = pair_of(name)
    assert sharing.why_not() is not None
    requests = adversarial(20)
    expected = one_by_one(plain, requests)
    sharing.batch_size_per_gpu = 1 if "longrope" in name else 4  # its frequencies would follow from the batch
    assert_close(requests, score_tokens(sharing, requests), expected)
    sharing.token_scores = True
    answers = score_tokens(sharing, requests)
    assert_close(requests, answers, expected)
    for answer, (_, _, continuation) in zip(answers, requests, strict=True):
        assert len(answer.logprobs) == len(continuation)
        assert answer[0] == pytest.approx(float(answer.logprobs.sum(dtype="float64")), rel=1e-6)


# ---------------------------------------------------------------- texts

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


def assert_answers(found, expected):
    for (total, greedy), (other, likeliest) in zip(found, expected, strict=True):
        assert (total, greedy) == (pytest.approx(other, rel=1e-6, abs=1e-4), likeliest)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_texts_and_rolling_likelihoods_score_as_with_plain_hf(name, tiny_models):
    """Merges, empty contexts, unicode, texts beyond the window."""
    settings = {"pretrained": str(tiny_models[name]), "dtype": "float32", "device": "cpu", "max_length": LENGTH}
    plain, sharing = HFLM(**settings, batch_size=1), SharedPrefixLM(**settings)
    requests = instances(TEXTS)
    expected = [plain.loglikelihood([request], disable_tqdm=True)[0] for request in requests]
    found = sharing.loglikelihood(requests, disable_tqdm=True)
    assert_answers(found, expected)
    text = "A text that is longer than the window of the model. " * 40
    rolling = instances([(text,)], "loglikelihood_rolling")
    [one], [two] = (lm.loglikelihood_rolling(rolling, disable_tqdm=True) for lm in (plain, sharing))
    assert one == pytest.approx(two, rel=1e-5)
    with pytest.raises(ModelError, match="the continuation '' has no token"):
        sharing.loglikelihood(instances([("a b", "")]), disable_tqdm=True)


@pytest.mark.parametrize(("context", "continuation"), [([5, 6], []), ([], [5]), ([5], [6] * (LENGTH + 1))])
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_what_cannot_be_scored_is_an_error_never_a_score(name, context, continuation):
    with pytest.raises(ModelError, match=r"no token|do not fit"):
        score_tokens(pair_of(name)[1], [(("c", "x"), context, continuation)])


def test_cut_requests_are_counted_in_one_warning(caplog):
    requests = [(("c", "x"), [5] * length, [6, 7]) for length in (LENGTH - 1, LENGTH, LENGTH + 1)]
    score_tokens(pair_of("gpt2")[1], requests)
    assert f"2 requests are longer than the window of {LENGTH} tokens" in caplog.text


# ---------------------------------------------------------------- what is read, memory


@pytest.mark.parametrize(("name", "row"), [("gpt2", 16), ("gpt2", 64), ("gpt2", 1024), ("lfm2", 1024)])
def test_every_distinct_token_is_read_once(name, row):
    """A context, and all tokens but the last of each candidate."""
    sharing = pair_of(name)[1]
    assert sharing.why_not() is None
    sharing.row_tokens = row
    read = []
    body = sharing.model.base_model
    forward = body.forward

    def counting(input_ids, **more):
        read.append(input_ids.shape[1])
        return forward(input_ids=input_ids, **more)

    requests = [(("c", "x"), [5] * 50, [i, 6, 7]) for i in range(6, 46)]
    with patch.object(body, "forward", counting):
        score_tokens(sharing, requests)
    assert sum(read) == 50 + 40 * 2
    assert row < 1024 or len(read) == 1


def test_an_encoder_decoder_reads_every_context_and_every_distinct_beginning_of_its_candidates_once():
    """Requests are answered row by row, which is what the progress bar shows."""
    sharing = pair_of("bart")[1]
    assert sharing.why_not() is None
    encoded = []
    decoded = []
    encode, read = PackedDecoder.__init__, PackedDecoder.read

    def counting_encode(self, model, contexts):
        encoded.extend(map(len, contexts))
        encode(self, model, contexts)

    def counting_read(self, tokens, *rest):
        decoded.append(len(tokens))
        return read(self, tokens, *rest)

    contexts = [list(range(10 + i, 40)) for i in range(5)]
    requests = [(("c", "x"), context, [7, 8, i, i + 1]) for context in contexts for i in range(10, 30)]
    with patch.multiple(PackedDecoder, __init__=counting_encode, read=counting_read), torch.inference_mode():
        rows = {scored.index: len(decoded) for scored in sharing.score_encoder_decoder(requests)}
    assert sum(encoded) == sum(map(len, contexts))
    assert sum(decoded) == 5 * (3 + 20), "start, 7 and 8 once for each context, then one token of each candidate"
    assert sorted(rows) == list(range(100))
    assert set(rows.values()) == set(range(1, len(decoded) + 1))


@pytest.mark.parametrize("name", ["gpt2", "lfm2", "t5"])
def test_where_memory_runs_out_rows_get_shorter(name, monkeypatch):
    plain, sharing = pair_of(name)
    assert sharing.why_not() is None
    requests, before = adversarial(), sharing.row_tokens
    run_out_of_memory(monkeypatch, (1, 3, 4))
    assert_close(requests, score_tokens(sharing, requests), one_by_one(plain, requests))
    assert sharing.row_tokens == before // 8

    def hopeless(*_):
        raise torch.OutOfMemoryError("no memory at all")

    monkeypatch.setattr(SortedRequests, "score_targets", hopeless)
    with pytest.raises(torch.OutOfMemoryError, match="no memory at all"):
        score_tokens(sharing, requests)


# ---------------------------------------------------------------- types of numbers, devices, adapters, kinds of attention


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bits_sum_in_float32(dtype, llama):
    settings = {"pretrained": str(llama), "dtype": dtype, "device": "cpu", "max_length": LENGTH}
    reference, sharing = HFLM(**settings, softmax_dtype="float32", batch_size=1), SharedPrefixLM(**settings)
    assert sharing.why_not() is None
    requests = adversarial(40)
    found = score_tokens(sharing, requests)
    for (_, _, continuation), (total, _), (other, _) in zip(
        requests, one_by_one(reference, requests), found, strict=True
    ):
        assert abs(total - other) <= 0.15 * len(continuation)
    sums = torch.tensor([total for total, _ in found])
    assert (sums.to(getattr(torch, dtype)).float() != sums).any(), "they are not rounded to the model's type"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_on_a_gpu_the_numbers_are_those_of_plain_hf(name, tiny_models):
    settings = {"pretrained": str(tiny_models[name]), "dtype": "float32", "device": "cuda", "max_length": LENGTH}
    plain, sharing = HFLM(**settings, batch_size=1), SharedPrefixLM(**settings)
    assert sharing.why_not() is None
    requests = adversarial()
    found = score_tokens(sharing, requests)
    assert_close(requests, found, one_by_one(plain, requests), loose=10)


def test_adapters_are_shared_too_unless_they_look_at_the_whole_prompt():
    requests = adversarial(25)
    without = one_by_one(pair_of("llama")[0], requests)
    torch.manual_seed(1)
    settings = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    plain, sharing = pair_of(get_peft_model(tiny("llama"), settings))
    assert sharing.why_not() is None
    assert_same(plain, sharing, requests)
    assert without != one_by_one(plain, requests)
    sharing = pair_of(sharing.model)[1]
    sharing.model.peft_config["default"].alora_invocation_tokens = [5]
    assert "looks at the whole prompt" in str(sharing.why_not())


@pytest.mark.parametrize(
    ("name", "away", "reason"),
    [
        ("llama", "model.layers.1", None),
        ("t5", "decoder.block.1", None),
        ("llama", "lm_head", "the vocabulary head is kept on disk or in main memory"),
    ],
)
def test_a_model_with_a_part_on_disk_is_scored_as_the_whole(name, away, reason, tiny_models, tmp_path):
    """Accelerate has spread its layers over devices."""
    requests = adversarial(12)
    plain = HFLM(pretrained=str(tiny_models[name]), device="cpu", dtype="float32", max_length=LENGTH)
    expected = one_by_one(plain, requests)
    kind = AutoModelForSeq2SeqLM if name == "t5" else AutoModelForCausalLM
    model = kind.from_pretrained(tiny_models[name])
    parts = [part for part, module in model.named_modules() if [*module.parameters(recurse=False)]]
    places = {part: "disk" if part.startswith(away) else "cpu" for part in parts}
    model = dispatch_model(model, places, offload_dir=tmp_path, main_device="cpu", force_hooks=True)
    assert any(parameter.is_meta for parameter in model.parameters())
    sharing = SharedPrefixLM(model, tokenizer=AutoTokenizer.from_pretrained(tiny_models[name]), max_length=LENGTH)
    assert sharing.why_not() == reason
    assert_close(requests, score_tokens(sharing, requests), expected)


# ---------------------------------------------------------------- the vocabulary head


@pytest.mark.parametrize(("size", "biased"), [(1024, False), (49_152, False), (262_144, True)])
def test_the_head_stays_with_float64_where_the_softmax_of_torch_leaves_it(size, biased):
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
