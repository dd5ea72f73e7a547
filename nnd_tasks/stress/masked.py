"""A masked language model that fills one place of a text, for BERT-diverge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.models.masked_lm import MaskedLM
from nnd_tasks.models.model_error import ModelError

#: Words that the model offers for a place (paper, Table 16).
TOP = 10
#: Words on each side that the model reads.
_AROUND = 100


def load_fill(folder: str | Path) -> Callable[[Sequence[str], int], list[str]]:
    """Return a function that takes words, each with the white space after it, and a position, and returns words for it.

    It returns up to `TOP` words, the likeliest first.

    Args:
        folder: folder of a masked language model with its tokenizer, or its name on the hub.

    Raises:
        NNDError: the model cannot be loaded.
    """
    from transformers import FillMaskPipeline

    try:
        model, tokenizer = MaskedLM.load(str(folder))
    except ModelError as error:
        raise NNDError(f"--mlm {error}") from error
    predict = FillMaskPipeline(model=model, tokenizer=tokenizer, top_k=min(4 * TOP, len(tokenizer)))

    def fill(words: Sequence[str], position: int) -> list[str]:
        space = words[position][len(words[position].rstrip()) :]
        left, right = words[max(position - _AROUND, 0) : position], words[position + 1 : position + 1 + _AROUND]
        options = [
            option["token_str"].strip() for option in predict("".join([*left, tokenizer.mask_token, space, *right]))
        ]
        return [word for word in options if word.isalnum()][:TOP]

    return fill
