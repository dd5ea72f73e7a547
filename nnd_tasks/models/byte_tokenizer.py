"""A byte-level BPE tokenizer trained on a few texts, for small models that are made on the spot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def train_tokenizer(
    texts: Iterable[str], vocabulary: int, special: Sequence[str], **settings: Any
) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer trained on ``texts``; it encodes any other text too.

    Args:
        texts: to train on.
        vocabulary: most tokens.
        special: tokens with the first ids, such as the one that ends a text.
        settings: of `transformers.PreTrainedTokenizerFast`, such as ``eos_token``.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)
