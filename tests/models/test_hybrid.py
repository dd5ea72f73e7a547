"""Models with recurrent layers: sums are those of plain HFLM at batch size 1, and a state that is wrong is found."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from nnd_tasks.models import hybrid
from nnd_tasks.models.architectures import DECODERS
from nnd_tasks.models.hybrid import TreeScan, _Reading
from nnd_tasks.models.prefix_tree import make_packs, rows_of
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from tests.models.hybrid_configs import DELTA, MODELS, PLAIN, WINDOW, WORDS
from tests.models.memory import run_out_of_memory
from tests.models.test_block_attention import sequences

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


def _states(kind: str, call: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a change of what is kept at branching points: ``lost`` or that of ``another`` branch, in every second call."""

    def change(monkeypatch: pytest.MonkeyPatch) -> None:
        rows = hybrid.States.rows

        def wrong(self: hybrid.States, places: Any) -> Any:
            if kind == "another":
                return (rows(self, places) + 1) % len(self.places)
            self.tensors = [t * 0 if i % 2 == call else t for i, t in enumerate(self.tensors)]
            return rows(self, places)

        monkeypatch.setattr(hybrid.States, "rows", wrong)

    return change


def _leaking_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment goes on from the one before it in the row, which can be another branch."""
    batches = TreeScan._batches

    def wrong(self: TreeScan, *args: Any) -> Any:
        return [replace(one, after=[i - 1 for i in one.segments]) for one in batches(self, *args)]

    monkeypatch.setattr(hybrid.TreeScan, "_segments", _without_levels)
    monkeypatch.setattr(hybrid.TreeScan, "_batches", wrong)


def _without_levels(self: TreeScan, price: int, segments: Any = TreeScan._segments) -> Any:
    return [(number, own, above, number) for number, own, above, _ in segments(self, -1)]


def _leaking_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token sees the tokens before it in the row, whatever their branch."""
    windows = TreeScan.windows

    def wrong(self: TreeScan, width: int) -> Any:
        self.parents = np.arange(self.length) - 1
        return windows(self, width)

    monkeypatch.setattr(hybrid.TreeScan, "windows", wrong)


def _changing_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding is read like tokens."""
    monkeypatch.setattr(hybrid.torch, "zeros_like", torch.ones_like)


def _scan_ends_at(size: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a change that makes scans right only until the end of the first chunk."""

    def change(monkeypatch: pytest.MonkeyPatch) -> None:
        scan_row = _Reading.scan_row

        def wrong(self: _Reading, *args: Any, **kwargs: Any) -> Any:
            found = scan_row(self, *args, **kwargs)
            output = found[0] if isinstance(found, tuple) else found
            output[:, size:] = 0.0
            return found

        monkeypatch.setattr(_Reading, "scan_row", wrong)

    return change


SCANNING = ("qwen3_next", "falcon_h1", "kimi_linear", "granitemoehybrid", "nemotron_h", "mamba2")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, _states("lost", call)) for name in SCANNING for call in (0, 1)),
        *((name, _states("another", 0)) for name in (*SCANNING, "lfm2")),
        *((name, _leaking_scan) for name in SCANNING),
        *((name, _leaking_convolution) for name in (*SCANNING, "lfm2")),
        *((name, _changing_padding) for name in SCANNING),
        ("lfm2", _states("lost", 0)),
        ("qwen3_next", _scan_ends_at(64)),
        ("mamba2", _scan_ends_at(16)),
    ],
)
def test_the_check_finds_states_and_inputs_that_are_not_of_the_own_branch(
    name: str, change: Callable[[pytest.MonkeyPatch], None], pairs: Callable[[str], Any]
) -> None:
    _, sharing = pairs(name)
    assert sharing.why_not() is None
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        assert "differ from the model's own" in str(sharing._self_check())
    assert sharing._self_check() is None


# ---------------------------------------------------------------- the way a row is read


def _running_sum(values: torch.Tensor, g: Any, chunk_size: int, initial_state: Any) -> Any:
    """Return a scan whose result at a token is that before it, times 3, plus the token; padding (g is 0) changes nothing."""
    state = torch.zeros(len(values), dtype=values.dtype) if initial_state is None else initial_state
    results = []
    for step in range(values.shape[1]):
        state = torch.where(g[:, step] > 0, 3 * state + values[:, step], state)
        results.append(state)
    return torch.stack(results, dim=1), state


@settings(max_examples=150, deadline=None)
@given(sequences, st.integers(3, 12), st.integers(3, 40), st.sampled_from([0, 8, 30]))
def test_each_token_goes_on_from_its_own_sequence(
    found: list[tuple[int, ...]], row: int, total: int, price: int
) -> None:
    """A scan and a convolution over 3 tokens, in whole numbers, against each sequence read alone."""
    expected: dict[tuple[int, ...], tuple[int, int]] = {}
    for one in found:
        result = 0
        for k, token in enumerate(one, 1):
            result = 3 * result + token + 1
            expected[one[:k]] = result, sum((t + 1) * 10**i for i, t in enumerate(reversed(one[max(k - 3, 0) : k])))
    weight = torch.tensor([[100, 10, 1]])

    def read(tokens: Any, ends: Any, origins: Any, keep: Any, before: Any) -> tuple[Any, Any, hybrid.States]:
        reading = _Reading(TreeScan(ends, origins, keep, price), before)
        values = torch.as_tensor(np.asarray(tokens) + 1)[None]

        def convolution(inputs: Any, weight: Any) -> Any:
            padded = torch.nn.functional.pad(inputs, (2, 0))
            return sum(padded[..., k : k + inputs.shape[-1]] * weight[0, k] for k in range(3))

        convolved = reading.convolve(convolution, values[None], weight)[0, 0]
        scanned, _ = reading.scan_row(_running_sum, "initial_state", values, g=torch.ones_like(values))
        return scanned[0], convolved, reading.kept

    nowhere = np.zeros(0, dtype=np.int64)
    for pack in make_packs(found, row, total, worth=2, anchors=3):
        stem, count = None, len(pack.tokens)
        anchors = np.unique(np.array([branch.anchor for branch in pack.branches], dtype=np.int64))
        assert len(anchors) <= 3
        if pack.stem:
            line = found[pack.owner][: pack.stem]
            *_, stem = read(
                line, np.full(pack.stem, pack.stem), np.zeros(pack.stem, int), np.array([pack.stem - 1]), None
            )
        states = stem
        if count:
            scanned, convolved, states = read(pack.tokens, pack.ends, np.zeros(count, int), anchors, stem)
            for i, path in pack.paths.items():
                for k, place in enumerate(path.tolist(), pack.stem + 1):
                    assert (scanned[place], convolved[place]) == expected[found[i][:k]]
        for branches in rows_of(pack.branches, found, row):
            parts = [found[branch.sequence][branch.start :] for branch in branches]
            lengths = [len(part) for part in parts]
            of = np.repeat([branch.anchor for branch in branches], lengths)
            origins = np.zeros(len(of), int) if states is None else states.rows(of)
            ends = np.repeat(np.cumsum(lengths), lengths)
            scanned, convolved, _ = read(np.concatenate(parts), ends, origins, nowhere, states)
            places = [found[b.sequence][:k] for b in branches for k in range(b.start + 1, len(found[b.sequence]) + 1)]
            assert list(zip(scanned.tolist(), convolved.tolist(), strict=True)) == [expected[one] for one in places]


def test_a_context_and_its_candidates_are_two_calls_of_a_scan() -> None:
    """Three contexts of 30 tokens with four candidates each, two of which begin with the same tokens."""
    found = sorted(
        (context,) * 30 + start + tuple(range(10, 18))
        for context in (1, 2, 3)
        for start in ((4,), (5,), (6, 6, 7), (6, 6, 8))
    )
    [pack] = make_packs(found, 1024, 4096)
    scan = TreeScan(pack.ends, np.zeros(len(pack.ends), int), np.zeros(0, int), 64)
    assert [batch.tokens.shape for batch in scan.batches] == [(3, 30), (12, 11)]


# ---------------------------------------------------------------- memory, cost


def test_where_memory_runs_out_rows_get_shorter(pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plain, sharing = pairs("lfm2")
    sharing.why_not()
    run_out_of_memory(monkeypatch, sharing, (2, 5))
    sharing.row_tokens = 128
    requests = adversarial()
    assert_same(one_by_one(plain, requests), sharing, requests)
    assert sharing.row_tokens == 32


def test_each_token_is_read_once(pairs: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A paragraph, three questions to it, four candidates each: 40 + 3 x 20 tokens, and the candidates, in one row."""
    _, sharing = pairs("lfm2")
    sharing.why_not()
    read: list[int] = []
    forward = sharing._inner.base_model.forward
    monkeypatch.setattr(
        sharing._inner.base_model,
        "forward",
        lambda input_ids, **others: (read.append(input_ids.shape[1]), forward(input_ids=input_ids, **others))[1],
    )
    requests = [
        (("c", "x"), [5] * 40 + [question] * 20, [candidate] * 6)
        for question in (6, 7, 8)
        for candidate in range(10, 14)
    ]
    sharing._loglikelihood_tokens(requests, disable_tqdm=True)
    assert read == [40 + 3 * 20 + 12 * 5]  # the last token of a candidate is not read
