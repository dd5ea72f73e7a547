"""Small random requests that a model scores before it may share prefixes, some of them longer than its windows and chunks.

Shorter requests would not show that a window is ignored or counted wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from nnd_tasks.models.architectures import config_parts

#: (context, continuation), both in tokens.
Pairs = list[tuple[list[int], list[int]]]

#: Length of windows during the check, where reading beyond their true length would take too long.
SHORT = 6
#: Lengths that a model reads from its config for every mask (``masking_utils.py``), so that they can be changed.
_SHORTENED = ("sliding_window", "attention_chunk_size")


def _draw(random: np.random.Generator, size: int, count: int) -> list[int]:
    return [int(token) for token in random.integers(0, size, count)]


def short_pairs(size: int) -> Pairs:
    """Return requests of up to 17 tokens that share beginnings in several ways, from a vocabulary of ``size`` tokens."""
    random = np.random.default_rng(0)
    trunk, twig = _draw(random, size, 9), _draw(random, size, 4)
    pairs = [(trunk, _draw(random, size, 3)), (trunk, _draw(random, size, 5))]
    pairs += [(trunk + twig, _draw(random, size, 2)), (trunk + twig, _draw(random, size, 4))]
    pairs += [(_draw(random, size, 6), _draw(random, size, 3)), (trunk, pairs[0][1][:1]), (trunk[:5], trunk[5:])]
    second = trunk + _draw(random, size, 5)  # a second beginning after the same one
    pairs += [(second, _draw(random, size, 2)), (second, _draw(random, size, 3))]
    fork = _draw(random, size, 10)  # candidates follow it and its beginning, and are too many for one short row
    return pairs + [(context, _draw(random, size, 5)) for context in (fork, fork, fork[:8], fork[:8])]


def long_pairs(size: int, length: int, most: int) -> Pairs:
    """Return requests that cross a window or a chunk of ``length`` tokens in several ways; two of them are one input.

    Args:
        size: tokens of the vocabulary.
        length: in tokens; less than ``most``.
        most: most tokens that the model reads.
    """
    random = np.random.default_rng(length)
    tokens = _draw(random, size, length + 6)[: most + 1]
    before, beyond = max(length - 2, 1), min(length + 2, most)
    early = max(length - 40, 1)  # not 1: a model's logits at thousands of places may not fit into memory in float32
    pairs = [(tokens[:before], tokens[before:]), (tokens[:early], tokens[early:])]
    for start, count in ((beyond, 3), (before, 4)):
        pairs.append((tokens[:start], _draw(random, size, min(count, most + 1 - start))))
    return pairs


def to_shorten(config: Any) -> list[tuple[Any, str, int]]:
    """Return (part of the config, name, length) of each window or chunk that `shortened` shortens.

    Others, such as the chunks of recurrent layers, stay as they are.
    """
    named = [
        (config_part, name, getattr(config_part, name, None))
        for config_part in config_parts(config)
        for name in _SHORTENED
    ]
    return [(config_part, name, length) for config_part, name, length in named if length]


@contextmanager
def shortened(config: Any) -> Iterator[None]:
    """Within this context, windows and chunks of a config are `SHORT` tokens long."""
    with ExitStack() as stack:
        for part, name, _ in to_shorten(config):
            stack.enter_context(patch.object(part, name, SHORT))
        yield


def covered(read: Sequence[int], short: Sequence[int], beyond_reach: Sequence[int]) -> str:
    """Return what a check covered, as ``"; checked ..."``; ``""`` without windows and chunks.

    Args:
        read: lengths that it read beyond.
        short: lengths of windows and chunks that it shortened.
        beyond_reach: lengths that it neither read beyond nor shortened.
    """
    lengths_by_words = {
        "beyond {} tokens": read,
        f"with windows or chunks of {{}} tokens shortened to {SHORT}": short,
        "not beyond {} tokens, which would take long": beyond_reach,
    }
    sentences = [
        words.format(", ".join(map("{:,}".format, lengths))) for words, lengths in lengths_by_words.items() if lengths
    ]
    return f"; checked {' and '.join(sentences)}" if sentences else ""
