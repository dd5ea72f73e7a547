"""Of several processes, one shows something: progress, log lines, tables and errors are there once."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from nnd_tasks.models.ranks import Ranks, join, leave


@contextmanager
def one_voice(ranks: Ranks) -> Iterator[None]:
    """Within this context, show nothing of what Python writes in any process but the first; errors that leave it are shown."""
    if ranks.first:
        yield
        return
    silence = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - handlers that are made within keep it
    with ExitStack() as stack:
        streams = (sys.stdout, sys.stderr)
        named = [log for log in logging.root.manager.loggerDict.values() if isinstance(log, logging.Logger)]
        for log in (logging.root, *named):
            for handler in log.handlers:
                if isinstance(handler, logging.StreamHandler) and vars(handler).get("stream") in streams:
                    stack.callback(handler.setStream, handler.stream)
                    handler.setStream(silence)
        stack.enter_context(redirect_stdout(silence))
        stack.enter_context(redirect_stderr(silence))
        yield


@contextmanager
def met() -> Iterator[Ranks]:
    """Meet the other processes that a launcher has started, show what the first one shows, and leave the others at the end."""
    ranks = join()
    try:
        with one_voice(ranks):
            yield ranks
    finally:
        leave()
