"""The processes of one run, which `torchrun` or `accelerate launch` starts, and how they tell each other what they know.

Python objects are exchanged on the CPU, with gloo, whatever the model runs on: answers are small, and gloo is everywhere.
"""

from __future__ import annotations

import os
import socket
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
        self._places: list[tuple[int, str]] = []  # where the processes run, if it is known
        self._depth = 0  # how many calls of `together` this process is in
        self._failure = ""  # with which they end

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks and writes."""
        return self.index == 0

    def gather(self, mine: Result) -> list[Result]:
        """Return what every process passes, in the order of the processes.

        Raises:
            NNDError: another process has failed or ended, wherever it was; the text is the same in all that go on.
        """
        return self._tell(mine)

    def from_first(self, make: Callable[[], Result]) -> Result:
        """Return, in every process, what ``make`` returns in the first; it is not called in the others."""
        result: Result = self.together(lambda: make() if self.first else None)[0]  # type: ignore[assignment]
        return result

    def in_step(self, work: Callable[[], Result]) -> Result:
        """Do something in every process, and return what this one got, once all are done; see `together`."""
        mine: list[Result] = []
        self.together(lambda: mine.append(work()))
        return mine[0]

    def together(self, work: Callable[[], Result]) -> list[Result]:
        """Do something in every process, and return what all of them got.

        What is done may exchange things itself. Where it fails, the process tells the others when they exchange something next,
        whatever that is.

        Raises:
            NNDError: it has failed in one process; then it is raised in all of them, with the same text.
        """
        if self.count == 1:
            return [work()]
        self._depth += 1
        try:
            try:
                mine = work()
            except Exception as error:  # the others must not wait for a process that has given up
                known = isinstance(error, NNDError)
                if self._failure:  # which all of them know
                    if known:
                        raise
                    raise NNDError(self._failure) from error
                said = str(error) if known else f"stopped with {typed_reason_of(error)} (traceback: --debug)"
                self._tell(None, (known, said), error)
            return self._tell(mine)
        finally:
            self._depth -= 1
            if not self._depth:
                self._failure = ""

    def _tell(self, mine: Any, failure: tuple[bool, str] | None = None, cause: Exception | None = None) -> list[Any]:
        """Exchange objects, or say that this process has failed.

        Args:
            mine: of this process.
            failure: whether the text that follows is that of an NNDError, and the text.
            cause: the failure itself.

        Raises:
            NNDError: this process or another one has failed, or has ended.
        """
        if self.count == 1:
            return [mine]
        try:
            replies = self._exchange((mine, failure))
        except RuntimeError as error:  # gloo: connection closed by peer
            self._failure = self._who_ended()
            raise NNDError(self._failure) from cause or error
        failures = [(k, *failed) for k, (_, failed) in enumerate(replies) if failed]
        if failures:
            k, known, text = failures[0]
            alike = len(failures) == self.count and len({said for _, _, said in failures}) == 1
            who = "every process" if alike else f"process {k + 1} of {self.count}"
            self._failure = text if alike and known else f"{who}: {text}" if known else f"{who} {text}"
            raise NNDError(self._failure) from cause
        return [reply for reply, _ in replies]

    def _exchange(self, mine: Any) -> list[Any]:
        """Return what every process passes."""
        import torch.distributed as dist

        replies: list[Any] = [None] * self.count
        dist.all_gather_object(replies, mine, group=self._group)
        return replies

    def introduce(self) -> Ranks:
        """Tell the other processes where this one runs, by which they can see that it has ended; return self."""
        self._places = self._exchange((os.getpid(), socket.gethostname()))
        return self

    def _who_ended(self) -> str:
        """Return which process has ended without saying why, in words; all that go on say the same."""
        until = time.monotonic() + _HEAR
        ended: list[int] = []
        while not ended and time.monotonic() < until:  # its connections are closed a little before it has ended
            time.sleep(0.05)
            with suppress(Exception):  # the process that keeps the notes has ended
                if self._store.check(["nnd/ended"]):
                    return str(self._store.get("nnd/ended").decode())
            ended = [k for k, place in enumerate(self._places) if _has_ended(*place)]
        text = f"another of the {self.count} processes of this run has ended; what it, or the launcher, printed may say why"
        if ended:
            which = " and ".join(str(k + 1) for k in ended)
            text = f"process {which} of {self.count} ended without saying why; the system may have killed it for lack of memory"
        with suppress(Exception):
            self._store.set("nnd/ended", text)
        return text

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


def _has_ended(pid: int, host: str) -> bool:
    """Tell whether a process has ended; one on another machine, or that may not be looked at, has not as far as is known."""
    import psutil

    if host != socket.gethostname():
        return False
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


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
            ranks = Ranks(index, count, local, group, store).introduce()
        except (RuntimeError, ValueError) as error:
            raise NNDError(
                f"process {index + 1} of {count} did not meet the others ({typed_reason_of(error)}); start all of them with "
                "torchrun or accelerate launch, or unset RANK and WORLD_SIZE"
            ) from error
        _joined = _met = ranks
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
