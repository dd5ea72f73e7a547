"""A masked language model of plain transformers, which masks one token after the other."""

from functools import cache

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer


@cache
def load(folder):
    return AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()


def brute_force(folder, context, continuation, window=512):
    tokenizer, model = load(folder)
    target = tokenizer.encode(continuation, add_special_tokens=False)
    ahead = tokenizer.encode(context, add_special_tokens=False)
    ahead = ahead[len(ahead) + len(target) - (window - 2) :] if len(ahead) + len(target) > window - 2 else ahead
    total, greedy = 0.0, True
    for i, token in enumerate(target):
        masked = [*target[:i], tokenizer.mask_token_id, *target[i + 1 :]]
        inputs = torch.tensor([[tokenizer.cls_token_id, *ahead, *masked, tokenizer.sep_token_id]])
        with torch.no_grad():
            logits = model(inputs).logits[0, 1 + len(ahead) + i]
        total += float(torch.log_softmax(logits, dim=-1)[token])
        greedy = greedy and int(logits.argmax()) == token
    return total, greedy
