"""What models and counters of one run share: tokenizers and the tokens of each text. It imports neither torch nor lm-eval."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: (text, add_special_tokens, add_bos_token, prefix token) -> tokens. HFLM's ``tok_encode`` depends on nothing else. All are kept:
#: they take less memory than lm-eval's lists of its requests.
Encodings = dict[tuple[str, bool | None, bool | None, int | None], NDArray[np.int32]]

#: Arguments that load a tokenizer -> the tokenizer and its encodings; None outside of `share_encodings`.
SHARED: ContextVar[dict[Any, tuple[Any, Encodings]] | None] = ContextVar("SHARED", default=None)


@contextmanager
def share_encodings() -> Iterator[None]:
    """Within this context, models and counters with the same tokenizer share it and its encodings."""
    token = SHARED.set({})
    try:
        yield
    finally:
        SHARED.reset(token)
