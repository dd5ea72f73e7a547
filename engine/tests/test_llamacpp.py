"""``llamacpp``: a pack as a batch of llama.cpp, and what is refused; with the library, sums to the bit (`nox -s llamacpp`)."""

import ctypes
import random
import struct
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.models.huggingface import HFLM
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from engine_tests.comparing import adversarial, instances, one_by_one, score_tokens
from engine_tests.families import LENGTH
from engine_tests.random_models import CONFIGS, TEXTS, save
from shared_prefix import llamacpp
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.lengths import TokenCounter
from shared_prefix.model_error import ModelError
from shared_prefix.prefix_tree import PackLimits, make_packs

needs_library = pytest.mark.skipif(
    find_spec("llama_cpp") is None, reason="nox -s llamacpp runs it, with llama-cpp-python"
)


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), min_size=1, max_size=12, unique=True),
    st.integers(9, 40),
    st.integers(1, 6),
)
def test_each_token_sees_its_own_text(texts, cells, most):
    """llama.cpp shows a token the cells of its first sequence at no later position, and wants positions without gaps."""
    sequences, found = sorted(texts), []
    for pack in make_packs(sequences, PackLimits(9, cells, min_shared=1, max_sequences=most)):
        batch = llamacpp.batch_of(pack, sequences)
        numbers = np.split(batch.numbers, np.cumsum(batch.counts)[:-1])
        assert len(batch.paths) == len(pack.paths) <= most
        for i, path in zip(pack.paths, batch.paths, strict=True):
            found.append(tuple(batch.tokens[path].tolist()))
            assert found[-1] == sequences[i]
            for length, place in enumerate(path, 1):
                first = numbers[place][0]
                seen = [
                    j for j, of in enumerate(numbers) if first in of and batch.positions[j] <= batch.positions[place]
                ]
                assert seen == path[:length].tolist()
        for number in {*batch.numbers.tolist()}:
            own = [int(position) for position, of in zip(batch.positions, numbers, strict=True) if number in of]
            assert own == list(range(len(own)))
        pieces = list(batch.pieces(40))
        assert [start for start, _ in pieces] == [0, *(stop for _, stop in pieces[:-1])]
        assert pieces[-1][1] == len(batch.tokens)
        assert all(0 < stop - start <= 32 and (stop - start) % 16 == 0 for start, stop in pieces)
    assert found == sequences


HEAD = b"GGUF" + struct.pack("<IQ", 3, 5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.gguf", None, "none.gguf: there is no such file"),
        ("model.gguf", b"PK\3\4" + HEAD, "model.gguf: this is no GGUF file"),
        ("model.gguf", HEAD[:9], "model.gguf: this is no GGUF file"),
        ("m-00001-of-00003.gguf", HEAD, "one of several parts; join them: llama-gguf-split --merge"),
        ("vocab.gguf", HEAD[:8] + bytes(8), "has a vocabulary and no weights"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    for use in (lambda file: TokenCounter({"pretrained": file}, "llamacpp"), llamacpp.LlamaCppLM):
        with pytest.raises(ModelError, match=message):
            use(str(tmp_path / name))


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (None, r"needs llama-cpp-python 0\.3\.36 .* pip install 'lm-eval-shared-prefix\[llamacpp\]'"),
        (
            SimpleNamespace(
                __version__="9", llama_context_default_params=lambda: SimpleNamespace(n_ctx=512, n_batch=0)
            ),
            r"llama_context_default_params\(\) has n_batch=0, not 2048: the library has other structures",
        ),
    ],
)
def test_a_library_that_is_missing_or_has_other_structures_is_one_line(monkeypatch, tmp_path, library, message):
    monkeypatch.setitem(sys.modules, "llama_cpp", library)
    (tmp_path / "model.gguf").write_bytes(HEAD)
    llamacpp.load_library.cache_clear()
    with pytest.raises(ModelError, match=message):
        llamacpp.LlamaCppLM(str(tmp_path / "model.gguf"))


# ---------------------------------------------------------------- GGUF files


@pytest.fixture(scope="session")
def plain(tmp_path_factory, llama):
    """Return a tiny Llama as wide as a block of Q4_K, as a folder of transformers, in which it also is as F32.gguf."""
    pytest.importorskip("gguf")
    from engine_tests.write_gguf import write

    folder = tmp_path_factory.mktemp("gguf")
    tokenizer = AutoTokenizer.from_pretrained(llama)
    torch.manual_seed(0)
    wide = {**CONFIGS["llama"], "hidden_size": 256, "intermediate_size": 256, "vocab_size": len(tokenizer)}
    weights = LlamaForCausalLM(LlamaConfig(**wide))
    save(weights, tokenizer, folder)
    tied = set(getattr(weights, "all_tied_weights_keys", ()))
    tensors = {name: weight.numpy() for name, weight in weights.state_dict().items() if name not in tied}
    np.savez(folder / "weights.npz", **tensors)
    write(folder, folder / "F32.gguf", add_bos=True)
    return folder


def test_hf_shares_prefixes_of_a_gguf_file(plain):
    options = {"device": "cpu", "dtype": "float32", "max_length": LENGTH}
    lm = SharedPrefixLM(pretrained=str(plain), gguf_file="F32.gguf", tokenizer=str(plain), **options)
    requests = adversarial()
    found = lm._loglikelihood_tokens(requests, disable_tqdm=True)
    assert lm.why_not() is None
    expected = one_by_one(HFLM(pretrained=str(plain), **options), requests)
    assert [total for total, _ in found] == pytest.approx([total for total, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


@pytest.fixture(scope="session")
def folder(plain):
    """Return the folder with files of several types beside F32.gguf."""
    library = llamacpp.load_library()
    for name, number in {"F16": 1, "Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15}.items():
        parameters = library.llama_model_quantize_default_params()
        parameters.ftype, parameters.nthread = number, 1
        names = [str(plain / f"{each}.gguf").encode() for each in ("F32", name)]
        assert library.llama_model_quantize(*names, ctypes.byref(parameters)) == 0
    return plain


def load(folder, name="F32", **options):
    return llamacpp.LlamaCppLM(str(folder / f"{name}.gguf"), tokenizer=str(folder), max_length=LENGTH, **options)


@needs_library
@pytest.mark.parametrize("name", ["F32", "F16", "Q8_0", "Q4_0", "Q4_K_M"])
def test_sums_are_those_of_each_text_alone_to_the_bit(folder, name):
    requests, lm = adversarial(), load(folder, name, token_scores=True)
    together = score_tokens(lm, requests)
    assert lm.why_not() is None
    order = random.Random(0).sample(range(len(requests)), len(requests))
    shuffled = score_tokens(load(folder, name, n_ctx=100, n_threads=2), [requests[i] for i in order])
    alone = score_tokens(load(folder, name, shared_prefix=False), requests)
    assert together == alone
    assert [together[i] for i in order] == shuffled
    assert all(sum(answer.logprobs) == pytest.approx(answer[0]) for answer in together)


@needs_library
@pytest.mark.parametrize(("flash_attn", "within"), [(True, 1e-2), (False, 1e-4)])
def test_sums_are_those_of_transformers(folder, flash_attn, within):
    requests = adversarial()
    expected = one_by_one(HFLM(pretrained=str(folder), device="cpu", dtype="float32", max_length=LENGTH), requests)
    found = score_tokens(load(folder, flash_attn=flash_attn), requests)
    for (_, _, continuation), (total, greedy), (other, likeliest) in zip(requests, found, expected, strict=True):
        assert total == pytest.approx(other, abs=within * len(continuation))
        assert greedy == likeliest


@needs_library
def test_texts_are_compared_and_scored_as_by_transformers(folder):
    pairs = [
        (line, f" {word}")
        for line in TEXTS[2:40]
        if line.strip()
        for word in ("the", "Work", "\u00e9t\u00e9 \U0001f600")
    ]
    found, expected = (
        lm.loglikelihood(instances([*pairs, ("", "A text")]), disable_tqdm=True)
        for lm in (load(folder), HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=8))
    )
    assert [total for total, _ in found] == pytest.approx([total for total, _ in expected], abs=1e-2)
    counter = TokenCounter({"pretrained": str(folder / "F32.gguf"), "tokenizer": str(folder)}, "llamacpp")
    assert counter.window == CONFIGS["llama"]["max_position_embeddings"]
    assert counter.lengths(*pairs[0])[0] == len(counter.tok_encode(pairs[0][0]))


@needs_library
def test_what_cannot_be_scored_is_one_line(folder, llama, gpt2, monkeypatch):
    def refused(message, **options):
        with pytest.raises(ModelError, match=message):
            load(folder, **options).loglikelihood(
                instances([("Licensed under", " the Apache License")]), disable_tqdm=True
            )

    path = str(folder / "F32.gguf")
    for options, message in (
        ({"max_length": 99999}, "max_length=99999: the window of F32.gguf is 2048 tokens"),
        ({"dtype": "float32"}, "llamacpp has no argument dtype"),
        ({"tokenizer": str(folder / "nothing")}, "no tokenizer from .*nothing"),
    ):
        with pytest.raises(ModelError, match=message):
            llamacpp.LlamaCppLM(path, **options)
    other = llamacpp.LlamaCppLM(path, tokenizer=str(gpt2))
    with pytest.raises(ModelError, match=r"makes \[.*\] of 'a', and llama.cpp"):
        other.compare(other.file, ["the"])
    with pytest.raises(ModelError, match=r"gives .* tokens for 'Licensed under', and llama.cpp"):
        llamacpp.LlamaCppLM(path, tokenizer=str(gpt2), add_bos_token=False).compare(other.file, ["Licensed under"])
    with pytest.raises(ModelError, match="writes no text"):
        load(folder).generate_until([])
    (folder / "torn.gguf").write_bytes((folder / "F32.gguf").read_bytes()[:20000])
    with pytest.raises(ModelError, match=r"llama\.cpp cannot load this file"):
        llamacpp.LlamaCppLM(str(folder / "torn.gguf"))
    library = llamacpp.load_library()
    monkeypatch.setattr(library, "llama_model_n_swa", lambda model: 512)
    assert load(folder).why_not() == "the model has sliding windows, of 512 tokens"
    monkeypatch.setattr(library, "llama_model_has_encoder", lambda model: True)
    refused("the model has an encoder; --model llamacpp takes decoder-only models")
    monkeypatch.undo()
    monkeypatch.setattr(library, "llama_init_from_model", lambda *_: None)
    refused("llama.cpp opens no context of")
