"""How long a run will take: what there is to read, known before it starts, divided by the speed of its first rows.

A token is not always equally dear: each one passes the layers, attention costs more the more tokens come before it, and the
vocabulary head runs at scored tokens only. So speed is measured in multiplications (`Costs`), and shown in tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from nnd_tasks.models.prefix_tree import Pack
from nnd_tasks.wording import counted

#: Seconds: a run that will be shorter is over before anybody has read how long it takes.
LONG = 30.0
#: Seconds over which the speed is measured, at least, and at most; between the two, until `SHARE` of the work is done.
LISTEN, LISTEN_AT_MOST, SHARE = 3.0, 20.0, 0.05

#: Takes the line with the estimate; None where nobody asked for one.
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def estimates_go_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Let models that run within pass the line with their estimate to ``tell``."""
    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(frozen=True)
class Costs:
    """Multiplications that a model makes.

    Attributes:
        body: for one token in all layers; about one per parameter.
        head: for the scores of the vocabulary at one place.
        attention: for one token that looks at one other, in all layers.
    """

    body: float
    head: float
    attention: float

    @classmethod
    def of(cls, model: Any) -> Costs:
        """Return the costs of a model of transformers; only their ratios matter."""
        config = model.config.get_text_config(decoder=True)
        embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
        tables = {id(part.weight): part.weight.numel() for part in (embedding, output) if part is not None}
        body = sum(parameter.numel() for parameter in model.parameters()) - sum(tables.values())
        width = int(getattr(config, "hidden_size", 0) or getattr(config, "d_model", 0))
        layers = int(getattr(config, "num_hidden_layers", 0) or getattr(config, "num_layers", 0))
        head = getattr(output, "weight", None)
        return cls(float(max(body, 1)), 0.0 if head is None else float(head.numel()), 2.0 * width * layers)

    def read(self, tokens: int, keys: int) -> float:
        """Return what reading a row costs.

        Args:
            tokens: that are read.
            keys: tokens that each of them is compared with, itself and masked ones included.
        """
        return tokens * (self.body + self.attention * keys)


@dataclass(frozen=True)
class Amount:
    """What there is to do.

    Attributes:
        prompts: distinct ones.
        texts: requests, each for one candidate after one prompt.
        tokens: to be read, each distinct beginning once where prefixes are shared.
        work: multiplications, see `Costs`.
    """

    prompts: int
    texts: int
    tokens: int
    work: float


def amount_of_packs(
    packs: Iterable[Pack], sequences: Sequence[tuple[int, ...]], row: int, costs: Costs
) -> tuple[int, float]:
    """Return how many tokens of packs a model reads, and what reading them costs.

    Args:
        packs: made of ``sequences``.
        sequences: distinct token sequences, sorted.
        row: most tokens of a row.
        costs: of the model.
    """
    tokens, work, owner = 0, 0.0, -1
    for pack in packs:
        if pack.stem and pack.owner != owner:
            owner = pack.owner
            tokens += pack.stem
            work += costs.read(pack.stem, pack.stem)
        trunk = len(pack.tokens)
        branches = sum(len(sequences[branch.sequence]) - branch.start for branch in pack.branches)
        tokens += trunk + branches
        work += costs.read(trunk, pack.stem + trunk) + costs.read(branches, pack.stem + trunk + min(branches, row))
    return tokens, work


class RunEstimate:
    """Watches a run and says once how long it will take.

    Args:
        amount: what there is to do.
        tell: takes the line.
        clock: returns seconds.
    """

    def __init__(
        self, amount: Amount, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._amount, self._tell, self._clock = amount, tell, clock
        self._begin = clock()
        self._done = 0.0
        self._first: tuple[float, float] | None = None  # when the first row was done, and the work by then
        self._said = False

    def add(self, work: float) -> None:
        """Count work that was started; it is finished at the next `look`."""
        self._done += work

    def look(self) -> None:
        """Take the time where all work that was added is finished; say the estimate as soon as the speed is known.

        The first row does not count: a device and its libraries warm up in it.
        """
        if self._said:
            return
        now = self._clock()
        if self._first is None:
            if self._done:
                self._first = now, self._done
            return
        since, before = self._first
        listened = now - since
        if listened < LISTEN or (listened < LISTEN_AT_MOST and self._done < SHARE * self._amount.work):
            return
        self._said = True
        speed = (self._done - before) / listened
        if speed > 0:
            left = max(self._amount.work - self._done, 0.0) / speed
            total = now - self._begin + left
            if total >= LONG:
                self._tell(sentence(self._amount, total))


def begin(amount: Amount) -> RunEstimate | None:
    """Return what watches a run that starts now; None where nobody wants to know."""
    tell = _listener.get()
    return None if tell is None else RunEstimate(amount, tell)


def sentence(amount: Amount, seconds: float) -> str:
    """Return the line: ``about 12 min for 3,400 prompts (9,100 texts, 1.2 M tokens, 1,600 tokens/s here)``."""
    return (
        f"about {duration(seconds)} for {counted(amount.prompts, 'prompt')} "
        f"({counted(amount.texts, 'text')}, {_large(amount.tokens)} tokens, {_rounded(amount.tokens / seconds):,} tokens/s here)"
    )


def duration(seconds: float) -> str:
    """Return a duration in words: ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def _large(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{_rounded(count):,}"


def _rounded(value: float) -> int:
    """Return a number with two significant digits."""
    whole = round(value)
    return round(whole, 2 - len(str(whole))) if whole > 99 else whole
