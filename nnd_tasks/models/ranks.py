"""The processes of one run, which `torchrun` or `accelerate launch` starts, and how they tell each other what they know.

Python objects are exchanged on the CPU, with gloo, whatever the model runs on: answers are small, and gloo is everywhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from nnd_tasks.errors import NNDError, typed_reason_of

#: How long the processes wait for each other when they start.
_MEET = timedelta(minutes=10)
#: How long one may wait for the answers of another; as for lm-eval's HFLM (lm_eval/models/huggingface.py:251).
_SCORE = timedelta(weeks=52)
#: Seconds for which a process waits until another has said what went wrong.
_HEAR = 3.0

Result = TypeVar("Result")


class Ranks:
    """This process among those of a run.

    Args:
        index: number of this process, from 0; the first one speaks and writes.
        count: number of processes.
        local: number of this process among those of its machine.
        group: group of torch.distributed for objects; None takes the default one.
        store: where processes leave notes for each other, which outlives the group.
    """

    def __init__(self, index: int = 0, count: int = 1, local: int = 0, group: Any = None, store: Any = None) -> None:
        self.index, self.count, self.local = index, count, local
        self._group, self._store = group, store

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks and writes."""
        return self.index == 0

    def gather(self, mine: Result) -> list[Result]:
        """Return what every process passes, in the order of the processes.

        Raises:
            NNDError: another process has ended.
        """
        if self.count == 1:
            return [mine]
        import torch.distributed as dist

        replies: list[Any] = [None] * self.count
        try:
            dist.all_gather_object(replies, mine, group=self._group)
        except RuntimeError as error:  # gloo: connection closed by peer
            raise NNDError(
                f"process {self.index + 1} of {self.count}: another process of this run has ended"
            ) from error
        return replies

    def from_first(self, make: Callable[[], Result]) -> Result:
        """Return, in every process, what ``make`` returns in the first; it is not called in the others."""
        result: Result = self.together(lambda: make() if self.first else None)[0]  # type: ignore[assignment]
        return result

    def together(self, work: Callable[[], Result]) -> list[Result]:
        """Do something in every process, and return what all of them got.

        Raises:
            NNDError: it has failed in one process; then it is raised in all of them, with the same text.
        """
        if self.count == 1:
            return [work()]
        caught: Exception | None = None
        reply: tuple[Result | None, str] = None, ""
        try:
            reply = work(), ""
        except NNDError as error:
            caught, reply = error, (None, str(error))
        except Exception as error:  # the others must not wait for a process that has given up
            at = f"process {self.index + 1} of {self.count}"
            caught, reply = error, (None, f"{at} stopped with {typed_reason_of(error)} (traceback: --debug)")
        replies = self.gather(reply)
        for _, failure in replies:
            if failure:
                raise NNDError(failure) from caught
        return [result for result, _ in replies]  # type: ignore[misc]

    def may_say(self) -> bool:
        """Tell whether this process is to print the error that it ends with: the first that asks is; `said` must follow."""
        if self._store is None:
            return True
        with suppress(Exception):  # the process that keeps the notes has ended
            return bool(self._store.add("nnd/failed", 1) == 1)
        return True

    def said(self, *, here: bool) -> None:
        """End with an error: note that it is printed, if it was ``here``, or else wait a little until another has printed it.

        A launcher ends all processes as soon as one has ended. The first process keeps the notes, so it waits for the others.
        """
        if self._store is None:
            return
        with suppress(Exception):
            if here:
                self._store.set("nnd/said", "1")
            else:
                self._store.wait(["nnd/said"], timedelta(seconds=_HEAR))
            until = time.monotonic() + _HEAR
            while self.first and time.monotonic() < until and self._store.add("nnd/failed", 0) < self.count:
                time.sleep(0.05)


ALONE = Ranks()
_joined: Ranks | None = None
_met = ALONE  # what was joined last, also after `leave`


def launched() -> tuple[int, int, int]:
    """Return index, count and local index of this process, as the launcher says in the environment.

    Raises:
        NNDError: the environment is contradictory.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    given = {name: os.environ[name] for name in names if os.environ.get(name)}
    if "RANK" not in given or "WORLD_SIZE" not in given:
        return 0, 1, 0
    try:
        index, count, local = (int(given.get(name, "0")) for name in names)
    except ValueError:
        index, count, local = -1, 0, 0
    if not 0 <= index < count:
        said = ", ".join(f"{name}={value}" for name, value in given.items())
        raise NNDError(f"the environment says {said}: it must number the processes of a launcher, or be unset")
    return index, count, local


def join() -> Ranks:
    """Meet the other processes that the launcher has started; without a launcher, or with one process, nothing is done.

    Raises:
        NNDError: not all processes came.
    """
    global _joined, _met
    index, count, local = launched()
    if count == 1:
        return ALONE
    if _joined is None:
        import torch
        import torch.distributed as dist

        try:
            group = None
            if dist.is_initialized():  # by the program that uses us
                store = dist.distributed_c10d._get_default_store()
                group = dist.new_group(backend="gloo", timeout=_SCORE)
            else:
                store, index, count = next(dist.rendezvous("env://", timeout=_MEET))
                store.set(f"nnd/here/{index}", "1")
                store.wait([f"nnd/here/{k}" for k in range(count)], _MEET)
                # With GPUs tensors go through NCCL, which only tensor parallelism (tp_plan) needs.
                nccl = torch.cuda.is_available() and dist.is_nccl_available()
                backend = "cpu:gloo,cuda:nccl" if nccl else "gloo"
                dist.init_process_group(
                    backend, store=dist.PrefixStore("nnd", store), rank=index, world_size=count, timeout=_SCORE
                )
        except (RuntimeError, ValueError) as error:
            raise NNDError(
                f"process {index + 1} of {count} did not meet the others ({typed_reason_of(error)}); start all of them with "
                "torchrun or accelerate launch, or unset RANK and WORLD_SIZE"
            ) from error
        _joined = _met = Ranks(index, count, local, group, store)
    return _joined


def joined() -> Ranks:
    """Return this process among those that it has met; `ALONE` if `join` was not called."""
    return _joined or ALONE


def met_before() -> Ranks:
    """Return this process among those that it has met, also after `leave`, for its last words."""
    return _met


def leave() -> None:
    """Close the connections to the other processes; who waits for this one will hear that it has ended."""
    global _joined
    if _joined is not None:
        import torch.distributed as dist

        _joined = None
        if dist.is_initialized():
            dist.destroy_process_group()
