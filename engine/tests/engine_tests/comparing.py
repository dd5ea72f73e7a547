"""Plain models and sharing ones of the same weights, and requests that share beginnings in every way or are of texts."""

import math
import random
from unittest.mock import patch

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from engine_tests.families import LENGTH, VOCABULARY, tiny
from shared_prefix import tree_layers
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.prefix_scoring import SortedRequests
from shared_prefix.token_requests import TokenStats

#: Where a vocabulary is read in slices, a rank may be off by one next to a token that is as likely up to rounding.
NEAR = 1e-5


def pair_of(model):
    """Return a plain and a sharing model; ``model`` is of transformers, or the name of a tiny one."""
    if isinstance(model, str):
        model = tiny(model)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w2"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="w0", pad_token="w0", eos_token="w1")
    backend = "seq2seq" if model.config.is_encoder_decoder else "causal"
    settings = {"pretrained": model, "tokenizer": tokenizer, "device": "cpu", "max_length": LENGTH, "backend": backend}
    return HFLM(**settings, batch_size=1), SharedPrefixLM(**settings)


def adversarial(count=None):
    """Return requests that share beginnings, cross windows, hold padding, or are longer than the model reads."""
    draw = random.Random(7)

    def text(length):
        return [draw.randrange(2, VOCABULARY) for _ in range(length)]

    stem = text(30)
    contexts = [
        stem,
        text(3 * LENGTH),
        stem[:10],
        stem + text(5),
        text(1),
        [5] * 40,
        stem[:2],
        stem + text(45),
        [0] * 4,
    ]
    found = []
    for context in [*contexts, text(LENGTH - 3)]:
        base = text(9)
        candidates = (base, base[:1], base[:4], base + text(8), [5, 5, 5], [0, 0, 7], base)
        found += [(("c", "x"), context, candidate) for candidate in candidates]
    draw.shuffle(found)
    splits = [(("c", "x"), stem[:20], stem[20:]), (("c", "x"), stem[:21], stem[21:])]  # one input
    return splits + found[:count]


def instances(requests, kind="loglikelihood"):
    """Return requests of lm-eval; each has some texts."""
    return [Instance(kind, {}, request, i) for i, request in enumerate(requests)]


def score_tokens(lm, requests):
    return lm._loglikelihood_tokens(requests, disable_tqdm=True)


def one_by_one(lm, requests):
    """Score each request alone: sent together, 0.4.13 can mix up split points."""
    return [score_tokens(lm, [request])[0] for request in requests]


def assert_close(requests, found, expected, loose=1):
    """Compare sums: 1e-5 per token, times ``loose``."""
    for (_, _, continuation), (total, greedy), (other, likeliest) in zip(requests, found, expected, strict=True):
        assert abs(total - other) <= loose * (1e-6 * abs(other) + 1e-5 * len(continuation))
        assert greedy == likeliest or loose > 1


def assert_same(plain, sharing, requests, rows=(1024,)):
    """Compare with plain HFLM; rows are read as they would be, and long ones in as many blocks as there can be."""
    expected = one_by_one(plain, requests)
    for row, call in [*((row, tree_layers.CALL) for row in rows), (1024, 0)]:
        sizes = {"row_tokens": row, "decoder_row_tokens": row, "source_tokens": 4 * row}
        with (
            patch.multiple(sharing, **sizes),
            patch.multiple(tree_layers, CALL=call, COPY=min(call, tree_layers.COPY)),
        ):
            assert_close(requests, score_tokens(sharing, requests), expected)


def run_out_of_memory(monkeypatch, at):
    """Let memory run out after calls ``at`` of `SortedRequests.score_targets`, counted from 1."""
    score, calls = SortedRequests.score_targets, []

    def failing(self, hidden, segments):
        calls.append(1)
        score(self, hidden, segments)
        if len(calls) in at:
            raise torch.OutOfMemoryError

    monkeypatch.setattr(SortedRequests, "score_targets", failing)


def count_stats(logits, tokens):
    """Count what logits, a row for each token, say of these tokens."""
    top1, ranks, entropy = 0, 0.0, 0.0
    for of_token, token in zip(logits.double(), tokens, strict=True):
        top1 += int(of_token.argmax()) == token
        ranks += math.log2(1 + int((of_token > of_token[token] + NEAR).sum()))
        p = of_token.softmax(dim=-1)
        entropy -= float((p * p.log()).sum())
    return TokenStats(top1, ranks, entropy)
