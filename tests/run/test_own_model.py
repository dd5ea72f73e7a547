"""`examples/own_model.py`: a plain module is scored as by its own logits, with a cache and without."""

import runpy

import pytest
import torch
from transformers import ByT5Tokenizer

import nnd_tasks
from tests.conftest import REPO

SCRIPT = REPO / "examples" / "own_model.py"
LIMIT = 3


class Recurrent(torch.nn.Module):
    """A byte model whose state is its cache; without ``caching`` it gives logits alone."""

    def __init__(self, *, caching):
        super().__init__()
        torch.manual_seed(0)
        self.caching = caching
        self.embed, self.head = torch.nn.Embedding(384, 16), torch.nn.Linear(16, 384)
        self.drop, self.layer = torch.nn.Dropout(0.5), torch.nn.GRU(16, 16, batch_first=True)
        self.tokens_read = 0

    def forward(self, tokens, cache=None):
        self.tokens_read += tokens.numel()
        hidden, cache = self.layer(self.drop(self.embed(tokens)), cache)
        logits = 3 * self.head(hidden)
        return (logits, cache) if self.caching else logits


def evaluate(module):
    own_model = runpy.run_path(str(SCRIPT))["OwnModel"]
    lm = own_model(module, ByT5Tokenizer(), 4096)
    return nnd_tasks.evaluate("nnd_demo", lm, limit=LIMIT, bootstrap_iters=0)


def sums(results):
    return [record["sum"] for sample in results["samples"]["nnd_demo"] for record in sample["candidates"]]


def test_a_plain_module_is_scored_by_its_own_logits(home):
    plain, caching = Recurrent(caching=False), Recurrent(caching=True)
    results = evaluate(plain.train())
    assert plain.training, "training goes on as before"
    tokenizer, found = ByT5Tokenizer(), iter(sums(results))
    plain.eval()
    for sample in results["samples"]["nnd_demo"]:
        for prompt, text in (request for request in sample["arguments"]):
            context, continuation = (tokenizer.encode(part, add_special_tokens=False) for part in (prompt, text))
            with torch.inference_mode():
                logits = plain(torch.tensor([context + continuation]))[0, len(context) - 1 : -1]
            own = logits.log_softmax(-1).gather(1, torch.tensor(continuation)[:, None]).sum()
            assert next(found) == pytest.approx(float(own), rel=1e-5)
    assert {"pass_rate,none", "margin,none", "bits_high,none"} <= results["results"]["nnd_demo"].keys()
    plain.tokens_read = 0
    evaluate(plain)
    shared = evaluate(caching)
    assert sums(shared) == pytest.approx(sums(results), rel=1e-5)
    assert caching.tokens_read < plain.tokens_read / 3, "each prompt is read once"
