"""Evaluate a model of your own while it trains: any torch.nn.Module, any tokenizer of transformers, without conversion.

``python examples/own_model.py TEXT_FILE``, or ``torchrun --nproc-per-node 2 ...``, where each process scores its share.
"""

import sys
from itertools import groupby
from pathlib import Path

import torch
import torch.distributed as dist
from lm_eval.api.model import TemplateLM
from transformers import ByT5Tokenizer

import nnd_tasks


class OwnModel(TemplateLM):
    """``module(tokens)`` gives logits; or (logits, cache), and ``module(tokens, cache)`` goes on without changing the cache."""

    backend, add_bos_token = "causal", False
    eot_token_id = loglikelihood_rolling = generate_until = None  # our tasks ask for likelihoods only

    def __init__(self, module, tokenizer, max_length):
        super().__init__()
        self.module, self.tokenizer, self.max_length = module, tokenizer, max_length
        self.eot_token_id = tokenizer.eos_token_id

    def tok_encode(self, string, **options):
        """Tokenize."""
        return self.tokenizer.encode(string, add_special_tokens=False)

    def _read(self, tokens, *cache):
        output = self.module(torch.tensor([tokens], device=next(self.module.parameters()).device), *cache)
        return output if isinstance(output, tuple) else (output, None)

    def _score(self, context, continuation, logits, cache):
        if cache is None:
            logits = self._read(context + continuation[:-1])[0][:, len(context) - 1 :]
        elif continuation[1:]:  # the prompt was read: its last logits are of the first token
            logits = torch.cat([logits[:, -1:], self._read(continuation[:-1], cache)[0]], dim=1)
        targets = torch.tensor(continuation, device=logits.device)
        logprobs = logits[0, -len(continuation) :].float().log_softmax(dim=-1)
        return float(logprobs.gather(1, targets[:, None]).sum()), bool((logprobs.argmax(dim=-1) == targets).all())

    @torch.inference_mode()
    def _loglikelihood_tokens(self, requests, **options):
        rank, processes = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        training = self.module.training
        self.module.eval()
        caches = self._read([self.eot_token_id])[1] is not None
        order, answers = sorted(range(len(requests)), key=lambda i: requests[i][1]), {}
        prompts = [(context, [*group]) for context, group in groupby(order, key=lambda i: requests[i][1])]
        for context, group in prompts[rank::processes]:
            before = self._read(context) if caches else (None, None)
            answers.update((i, self._score(context, requests[i][2], *before)) for i in group)
        self.module.train(training)
        shares = [answers] * processes
        if processes > 1:
            dist.all_gather_object(shares, answers)
        return [next(share[i] for share in shares if i in share) for i in range(len(requests))]


if __name__ == "__main__":
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    tokenizer, model = ByT5Tokenizer(), torch.nn.Sequential(torch.nn.Embedding(384, 128), torch.nn.Linear(128, 384))
    text = torch.tensor(tokenizer.encode(Path(sys.argv[1]).read_text("utf-8")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(1, 301):
        batch = text[torch.randint(len(text) - 129, (16, 1)) + torch.arange(129)]
        torch.nn.functional.cross_entropy(model(batch[:, :-1]).mT, batch[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            # The training goes on with its own random numbers.
            seeds = dict.fromkeys(("random_seed", "numpy_random_seed", "torch_random_seed"))
            results = nnd_tasks.evaluate("nnd_demo", OwnModel(model, tokenizer, 4096), limit=5, **seeds)
            if results:  # of several processes, the first has them
                scores = results["results"]["nnd_demo"]
                print(step, {name: scores[f"{name},none"] for name in ("pass_rate", "margin", "bits_high")})
