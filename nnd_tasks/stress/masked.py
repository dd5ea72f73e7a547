"""A masked language model that fills one place of a text, for BERT-diverge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.masked_lm import load_masked

TOP = 10  # candidates for a place (paper, Table 16)
_AROUND = 100  # words on each side that the model is shown


def load_fill(folder: str | Path) -> Callable[[Sequence[str], int], list[str]]:
    """Return a function: words with the white space after them, a position -> words for that place, the likeliest first.

    Args:
        folder: of a masked language model with its tokenizer, or its name on the hub.

    Raises:
        NNDError: there is none.
    """
    try:
        model, tokenizer = load_masked(str(folder))
    except NNDError as error:
        raise NNDError(f"--mlm {error}") from error

    def fill(words: Sequence[str], position: int) -> list[str]:
        space = words[position][len(words[position].rstrip()) :]
        left, right = words[max(position - _AROUND, 0) : position], words[position + 1 : position + 1 + _AROUND]
        text = "".join([*left, tokenizer.mask_token, space, *right])
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
        places = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()
        if not len(places):
            return []
        with torch.inference_mode():
            logits = model(**inputs).logits[0, int(places[0])]
        best = logits.topk(min(4 * TOP, len(logits))).indices.tolist()
        found = [tokenizer.decode([token]).strip() for token in best if token not in tokenizer.all_special_ids]
        return [word for word in found if word and word.isalnum()][:TOP]

    return fill
