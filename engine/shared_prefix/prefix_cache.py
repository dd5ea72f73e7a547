"""Scoring with an engine that caches prefixes in blocks, and returns garbage as the log-probabilities of cached tokens.

vLLM is such an engine. A context is sent once, without log-probabilities, and then its candidates, of which the engine computes
the end. Log-probabilities are kept by prefix, and only from prompts for which the engine computed them, so those of cached
tokens come from an earlier prompt. The token after a cached block can differ from the one that was read there before: the
prompt that ends with the block is asked for it (`Ask.following`). What is still missing is sent again, past the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared_prefix.prefix_tree import common_prefix
from shared_prefix.token_requests import Response, ScoredRequest


@dataclass(frozen=True)
class Ask:
    """A prompt for the engine.

    Attributes:
        tokens: the prompt.
        rows: whether to return the log-probabilities of its tokens.
        following: tokens whose log-probabilities after the prompt are to be returned.
        fresh: whether to compute everything, whatever the cache holds.
    """

    tokens: tuple[int, ...]
    rows: bool = False
    following: tuple[int, ...] = ()
    fresh: bool = False


class Reply(Protocol):
    """What the engine says to an `Ask`."""

    @property
    def cached(self) -> int | None:
        """Tokens at the beginning of the prompt that came from the cache; None if the engine does not say."""

    def row(self, position: int) -> Response | None:
        """Look up what is said of the prompt's token at ``position``; None if that cannot be its log-probability.

        It is meaningless for positions up to `cached`.
        """

    def after(self, token: int) -> Response | None:
        """Look up what is said of ``token`` after the prompt; None if nothing is."""


@dataclass(frozen=True)
class CacheLayout:
    """An engine's cache. It decides what is sent, not which answers are trusted.

    Attributes:
        block: tokens of a block; whole blocks are cached.
        capacity: tokens that the cache holds.
        following: most tokens of `Ask.following`.
        together: most prompts that are sent at once.
    """

    block: int
    capacity: int
    following: int = 128
    together: int = 1024


@dataclass
class Sent:
    """What was sent.

    Attributes:
        prompts: number of prompts.
        tokens: number of tokens that the engine computed.
        cached: number of tokens that came from the cache.
        again: number of prompts that were sent again, past the cache.
    """

    prompts: int = 0
    tokens: int = 0
    cached: int = 0
    again: int = 0


class PrefixCacheScoring:
    """Scores sequences, each from its own position to its end.

    Args:
        sequences: the tokens of each request; not empty.
        starts: for each, the position of its first scored token, from 1.
        layout: of the engine's cache.
        send: sends prompts to the engine in this order, and returns its answers.

    Attributes:
        sent: what was sent so far.
    """

    def __init__(
        self,
        sequences: Sequence[tuple[int, ...]],
        starts: Sequence[int],
        layout: CacheLayout,
        send: Callable[[Sequence[Ask]], Sequence[Reply]],
    ) -> None:
        self._starts, self._layout, self._send = starts, layout, send
        self.sent = Sent()
        self._sequences = sorted(set(sequences))
        self._shared = [0, *(common_prefix(first, second) for first, second in pairwise(self._sequences)), 0]
        self._nodes: list[NDArray[np.int32]] = []  # of each sequence, per position: one number for each distinct prefix
        count = 0
        for sequence, shared in zip(self._sequences, self._shared, strict=False):
            old = self._nodes[-1][:shared] if shared else np.empty(0, np.int32)
            new = np.arange(count, count + len(sequence) - shared, dtype=np.int32)
            self._nodes.append(np.concatenate([old, new]))
            count += len(new)
        self._needed = np.zeros(count, dtype=bool)
        self._known = np.zeros(count, dtype=bool)
        self._logprobs = np.zeros(count)
        self._likeliest = np.zeros(count, dtype=bool)
        number_of = {sequence: i for i, sequence in enumerate(self._sequences)}
        self._after: dict[int, dict[int, int]] = {}  # node at the end of a block -> next token -> its node
        self._requests: dict[int, list[int]] = {}  # place of a sequence -> its requests
        for request, sequence in enumerate(sequences):
            i = number_of[sequence]
            self._requests.setdefault(i, []).append(request)
            self._needed[self._nodes[i][starts[request] :]] = True

    # ------------------------------------------------------------ what is sent

    def _whole(self, i: int) -> bool:
        """Tell whether no other sequence begins with sequence ``i``. Only such sequences need a prompt."""
        return self._shared[i + 1] < len(self._sequences[i])

    def _seed(self, i: int) -> int:
        """Count the tokens of sequence ``i`` in whole blocks of which no request needs a log-probability."""
        first = int(np.argmax(self._needed[self._nodes[i]]))
        return first // self._layout.block * self._layout.block

    def plan(self) -> list[tuple[Ask, int]]:
        """Return all prompts in the order of sending, each with the index of a sequence that begins with it.

        A prompt comes before those that begin with it. If the cache was empty and nothing is evicted, the answers are complete,
        and a token is computed twice only where a prompt ends with its block.
        """
        block, most = self._layout.block, self._layout.following
        asks: dict[tuple[int, bool], tuple[int, int]] = {}  # (last node, rows) -> (place, length)
        seeds = {i: self._seed(i) for i in range(len(self._sequences)) if self._whole(i)}
        for i, seed in seeds.items():
            nodes, sequence = self._nodes[i], self._sequences[i]
            asks[int(nodes[-1]), True] = i, len(sequence)
            if seed:
                asks.setdefault((int(nodes[seed - 1]), False), (i, seed))
            for end in range(seed or block, len(sequence), block):
                self._after.setdefault(int(nodes[end - 1]), {})[sequence[end]] = int(nodes[end])
        for i, seed in seeds.items():
            for end in range(seed + block, len(self._sequences[i]), block):
                node = int(self._nodes[i][end - 1])
                if len(self._after[node]) > 1 and self._wanted(node):
                    asks.setdefault((node, True), (i, end))
        planned: list[tuple[Ask, int]] = []
        for (node, rows), (i, length) in asks.items():
            wanted = self._wanted(node)
            followings = [tuple(wanted[at : at + most]) for at in range(0, len(wanted), most)]
            planned += [(Ask(self._sequences[i][:length], rows, following), i) for following in followings or [()]]
        planned.sort(key=lambda pair: (pair[0].tokens, pair[0].following))
        return [
            (ask, i)
            for (ask, i), (after, _) in zip(planned, [*planned[1:], (None, 0)], strict=True)
            if ask.rows or ask.following or after is None or after.rows or after.tokens[: len(ask.tokens)] != ask.tokens
        ]

    def _wanted(self, node: int) -> list[int]:
        """Return the tokens after a node, at the end of a block, whose log-probabilities some request needs."""
        return sorted(token for token, after in self._after.get(node, {}).items() if self._needed[after])

    def _batches(self, planned: Sequence[tuple[Ask, int]]) -> Iterator[Sequence[tuple[Ask, int]]]:
        """Cut a plan into parts whose blocks fit the cache.

        An engine whose cache is full evicts what the next prompts need, and interrupts prompts.
        """
        room = self._layout.capacity // self._layout.block * 4 // 5
        batch: list[tuple[Ask, int]] = []
        blocks = 0
        for ask, i in planned:
            shared = common_prefix(batch[-1][0].tokens, ask.tokens) if batch and not ask.fresh else 0
            # One more for the last block, which each prompt has for itself.
            added_blocks = len(ask.tokens) // self._layout.block - shared // self._layout.block + 1
            if batch and (blocks + added_blocks > room or len(batch) == self._layout.together):
                yield batch
                batch, blocks, added_blocks = [], 0, len(ask.tokens) // self._layout.block + 1
            batch.append((ask, i))
            blocks += added_blocks
        if batch:
            yield batch

    # ------------------------------------------------------------ what comes back

    def run(self) -> Iterator[ScoredRequest]:
        """Send everything; yield each request as soon as it is scored.

        Raises:
            RuntimeError: the engine gave no log-probability for a prompt that it was told to compute as a whole.
        """
        done = 0
        for batch in self._batches(self.plan()):
            self._take(batch)
            # All that begins with what comes before the last prompt was sent.
            ask, last = batch[-1]
            if len(ask.tokens) < len(self._sequences[last]):
                last -= 1
            while last >= done and not self._whole(last):
                last -= 1
            finished = range(done, max(last + 1, done))
            self._send_again(finished)
            for i in finished:
                for request in self._requests[i]:
                    start = self._starts[request]
                    nodes, targets = self._nodes[i][start:], list(self._sequences[i][start:])
                    likeliest = bool(self._likeliest[nodes].all())
                    yield ScoredRequest(request, targets, self._logprobs[nodes].tolist(), likeliest)
            done = finished.stop

    def _send_again(self, numbers: Iterable[int]) -> None:
        """Send sequences with missing log-probabilities past the cache, in as few prompts as possible."""
        covered = self._known.copy()
        again: list[tuple[Ask, int]] = []
        for i in reversed(list(numbers)):  # a longer sequence comes after those that it begins with
            nodes = self._nodes[i]
            if not covered[nodes[self._needed[nodes]]].all():
                again.append((Ask(self._sequences[i], rows=True, fresh=True), i))
                covered[nodes] = True
        self.sent.again += len(again)
        for batch in self._batches(again):
            self._take(batch)
        for _, i in again:
            nodes = self._nodes[i]
            if not self._known[nodes[self._needed[nodes]]].all():
                raise RuntimeError("the engine gave no log-probabilities for a prompt that it read as a whole")

    def _take(self, batch: Sequence[tuple[Ask, int]]) -> None:
        """Send prompts and keep what their answers say, except of tokens that the engine did not compute."""
        answers = self._send([ask for ask, _ in batch])
        for (ask, i), answer in zip(batch, answers, strict=True):
            nodes = self._nodes[i]
            cached = answer.cached
            self.sent.prompts += 1
            self.sent.tokens += len(ask.tokens) - (cached or 0)
            self.sent.cached += cached or 0
            if ask.rows and cached is not None:
                # The token after the last cached one was predicted by it, and so not in this request.
                for position in range(max(cached + 1, 1), len(ask.tokens)):
                    node = int(nodes[position])
                    if self._needed[node] and not self._known[node]:
                        self._keep(node, answer.row(position))
            for token in ask.following:
                self._keep(self._after[int(nodes[len(ask.tokens) - 1])][token], answer.after(token))

    def _keep(self, node: int, scored: Response | None) -> None:
        if scored is not None:
            self._logprobs[node], self._likeliest[node] = scored
            self._known[node] = True
