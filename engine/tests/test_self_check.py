"""The check of a model on itself finds every way to read a tree wrongly, and says what it covered."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as tf

from engine_tests.comparing import adversarial, assert_close, one_by_one, pair_of, score_tokens
from engine_tests.families import LENGTH, TINY, WINDOW
from shared_prefix import tree_layers
from shared_prefix.architectures import Reach, layout_of
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.prefix_scoring import VocabularyHead
from shared_prefix.prefix_tree import TreeMask
from shared_prefix.tree_layers import TreeScan, _Reading

# ---------------------------------------------------------------- layouts, trees, positions

#: The module that reads layouts.
SCORING = "shared_prefix.prefix_scoring"


def _reach(change):
    return lambda layout: replace(layout, reaches={kind: change(reach) for kind, reach in layout.reaches.items()})


def _longer(by):
    return _reach(lambda reach: Reach(reach.window and reach.window + by, reach.chunk and reach.chunk + by))


def _exchanged(layout):
    return replace(layout, reaches=dict(zip(layout.reaches, reversed(layout.reaches.values()), strict=True)))


#: What is wrong -> (configs, what becomes of the right layout).
WRONG = {
    "a window that is one longer": (("gemma3_text", "gpt_oss", "llama4_text", "t5gemma"), _longer(1)),
    "a window that is one shorter": (("qwen3_moe window", "gemma4_text", "t5gemma"), _longer(-1)),
    "a window in all layers": (("olmo3",), _reach(lambda reach: Reach(window=WINDOW))),
    "kinds of layers exchanged": (("gemma2", "t5gemma"), _exchanged),
    "a window in the place of chunks": (("llama4_text",), _reach(lambda reach: Reach(window=reach.chunk))),
    "queries scaled by places of the row": (("llama4_text tuned",), lambda layout: replace(layout, places=False)),
    "no cap of the logits": (("gemma2 capped", "t5gemma"), lambda layout: replace(layout, cap=None)),
    "another cap of the logits": (("nanochat",), lambda layout: replace(layout, cap=2.1)),
    "a cap that the model ignores": (("gemma3",), lambda layout: replace(layout, cap=2.0)),
    "no factor of the logits": (("cohere",), lambda layout: replace(layout, scale=1.0)),
    "a factor in the place of a divisor": (("granite",), lambda layout: replace(layout, scale=1 / layout.scale)),
}


@pytest.mark.parametrize(("wrong", "name"), [(wrong, name) for wrong, (names, _) in WRONG.items() for name in names])
def test_a_wrong_layout_is_found(wrong, name, monkeypatch):
    sharing = pair_of(name)[1]
    before = sharing.model.config.to_dict()
    monkeypatch.setattr(f"{SCORING}.layout_of", lambda config: WRONG[wrong][1](layout_of(config)))
    assert "differ from the model's own" in str(sharing.why_not())
    assert sharing.model.config.to_dict() == before


@pytest.mark.parametrize(("window", "matters"), [(LENGTH - 1, True), (LENGTH, False)])
def test_a_window_matters_up_to_what_the_model_reads(window, matters, monkeypatch):
    settings = {**TINY["mistral"][0], "sliding_window": window}
    monkeypatch.setitem(TINY, "mistral", (settings, ""))
    sharing = pair_of("mistral")[1]
    monkeypatch.setattr(f"{SCORING}.layout_of", lambda config: replace(layout_of(config), reaches={"": Reach()}))
    assert ("differ from the model's own" in str(sharing.why_not())) == matters


def _in_places(mask, seen):
    """Count a window in places of the row, not in positions of the text."""
    key = torch.arange(seen.shape[1])
    return seen & (key[-len(seen) :, None] - key[None, :] < WINDOW)


@pytest.mark.parametrize("change", [_in_places, lambda mask, seen: seen | (seen.shape[1] > len(seen))])
def test_wrong_masks_are_found(change, monkeypatch):
    """The second one lets all tokens of a branch see the whole trunk."""
    visible = TreeMask.visible
    monkeypatch.setattr(TreeMask, "visible", lambda mask, device, reach: change(mask, visible(mask, device)))
    assert "differ from the model's own" in str(pair_of("mistral window")[1].why_not())


@pytest.mark.parametrize(
    ("names", "change"),
    [
        (("llama", "mixtral"), lambda mask: replace(mask, ends=mask.ends * 0 + len(mask.ends))),
        (("gpt2", "deepseek_v3"), lambda mask: replace(mask, anchors=mask.anchors + 1)),
        (("llama4_text", "llama"), lambda mask: replace(mask, positions=mask.positions + 1)),
    ],
)
def test_a_wrong_tree_is_found(names, change, monkeypatch):
    """Branches that see each other, branches of another place of the trunk, and positions that are one too high."""
    read = SharedPrefixLM._read
    monkeypatch.setattr(
        SharedPrefixLM,
        "_read",
        lambda self, tokens, mask, cache: read(self, tokens, mask if mask.is_text else change(mask), cache),
    )
    for name in names:
        assert "differ from the model's own" in str(pair_of(name)[1].why_not())


@pytest.mark.parametrize("name", ["bloom", "mpt", "falcon"])
def test_biases_by_places_of_the_row_are_found(name, monkeypatch):
    monkeypatch.setattr(TreeMask, "key_positions", property(lambda mask: np.arange(mask.keys)))
    assert "differ from the model's own" in str(pair_of(name)[1].why_not())


# ---------------------------------------------------------------- recurrent layers


def _states(kind, call=0):
    """Return a change of what is kept at branching points: ``lost`` or that of ``another`` branch, in every second call."""

    def change(monkeypatch):
        rows = tree_layers.States.rows

        def wrong(self, places):
            if kind == "another":
                return (rows(self, places) + 1) % len(self.places)
            self.tensors = [t * 0 if i % 2 == call else t for i, t in enumerate(self.tensors)]
            return rows(self, places)

        monkeypatch.setattr(tree_layers.States, "rows", wrong)

    return change


def _leaking_scan(monkeypatch):
    """A segment goes on from the one before it in the row, which can be another branch."""
    segments = TreeScan._segments

    def wrong(self, price):
        return [replace(one, after=one.number - 1, level=one.number) for one in segments(self, -1)]

    monkeypatch.setattr(TreeScan, "_segments", wrong)


def _leaking_convolution(monkeypatch):
    """A token sees the tokens before it in the row, whatever their branch."""
    windows = TreeScan.windows

    def wrong(self, width):
        self.parents = np.arange(self.length) - 1
        return windows(self, width)

    monkeypatch.setattr(TreeScan, "windows", wrong)


def _changing_padding(monkeypatch):
    """Padding is read like tokens."""
    monkeypatch.setattr(tree_layers.torch, "zeros_like", torch.ones_like)


def _scan_ends_at(size):
    """Return a change that makes scans right only until the end of the first chunk."""

    def change(monkeypatch):
        scan_row = _Reading.scan_row

        def wrong(self, *args, **kwargs):
            output, state = scan_row(self, *args, **kwargs)
            output[:, size:] = 0.0
            return output, state

        monkeypatch.setattr(_Reading, "scan_row", wrong)

    return change


CONVOLVING = [_states("lost"), _states("another"), _leaking_convolution]
SCANNING = [*CONVOLVING, _states("lost", 1), _leaking_scan, _changing_padding]
CHANGES = {
    "kimi_linear": SCANNING,
    "lfm2": CONVOLVING,
    "mamba2": [*SCANNING, _scan_ends_at(16)],
    "qwen3_next": [*SCANNING, _scan_ends_at(64)],
}


@pytest.mark.parametrize("name", CHANGES)
def test_states_and_inputs_that_are_not_of_the_own_branch_are_found(name):
    sharing = pair_of(name)[1]
    for change in CHANGES[name]:
        with pytest.MonkeyPatch.context() as patch:
            change(patch)
            assert "differ from the model's own" in str(sharing._self_check()), change
    assert sharing._self_check() is None


# ---------------------------------------------------------------- what comes of it


def test_a_model_that_fails_takes_the_plain_path(monkeypatch, caplog):
    """A head that is a little wrong, as a model with a scale of its own would need another one."""
    plain, sharing = pair_of("llama")
    original = VocabularyHead.__call__
    monkeypatch.setattr(VocabularyHead, "__call__", lambda self, hidden, *rest: original(self, hidden * 1.01, *rest))
    requests = adversarial(12)
    with caplog.at_level(logging.INFO):
        assert_close(requests, score_tokens(sharing, requests), one_by_one(plain, requests))
    [line] = [record.message for record in caplog.records if "plain hf instead" in record.message]
    assert "differ from the model's own" in line
    monkeypatch.setattr(VocabularyHead, "__call__", lambda *_: 1 / 0)
    assert "(ZeroDivisionError: division by zero)" in str(pair_of("llama")[1].why_not())


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("settings", [{"dtype": "bfloat16"}, {"dtype": "float32", "mixed_precision_dtype": "bfloat16"}])
def test_rounding_in_sixteen_bits_is_no_reason_against_sharing(settings, scale, llama, tmp_path):
    """Large logits are rounded to large steps."""
    model = tf.AutoModelForCausalLM.from_pretrained(llama)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(scale)
    model.save_pretrained(tmp_path)
    tf.AutoTokenizer.from_pretrained(llama).save_pretrained(tmp_path)
    assert SharedPrefixLM(pretrained=str(tmp_path), device="cpu", **settings).why_not() is None


@pytest.mark.parametrize(
    ("name", "said"), [("gemma2", "windows of 8)"), ("lfm2", "(recurrent layers; not checked beyond 3 tokens)")]
)
def test_the_log_says_what_took_too_long_to_check(name, said, caplog):
    sharing = pair_of(name)[1]
    sharing.check_work = 0.0, 0.0
    with caplog.at_level(logging.INFO):
        assert sharing.why_not() is None
    [line] = [record.message for record in caplog.records if "read once" in record.message]
    assert line.endswith(said)


def test_a_model_that_cannot_share_sums_in_float32_unless_it_is_told_otherwise(gpt2):
    settings = {"pretrained": str(gpt2), "device": "cpu", "dtype": "bfloat16", "shared_prefix": False}
    assert SharedPrefixLM(**settings).softmax_dtype == torch.float32
    assert SharedPrefixLM(**settings, softmax_dtype="bfloat16").softmax_dtype == torch.bfloat16
