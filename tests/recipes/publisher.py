"""A publisher of files: a server of this process on 127.0.0.1, and sets that are downloaded from it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep
from typing import Any

import pytest

import nnd_tasks.build
import nnd_tasks.new.keep
from nnd_tasks.recipes.recipe import File
from tests.recipes.served import served
from tests.recipes.small_files import quiz_text

QUIZ = quiz_text().encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What the server says to one request; ``promised`` is a Content-Length that may be wrong, below 0 for none."""

    body: bytes
    status: int = 200
    promised: int | None = None
    location: str = ""
    encoding: str = ""  #: Content-Encoding
    trickle: float = 0.0  #: seconds between two bytes


@dataclass
class Publisher:
    """A server whose answers tests choose: path -> answers in turn, the last one for good."""

    url: str = ""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)

    def serve(self, path: str, *answers: Answer | bytes) -> str:
        """Set the answers for ``path`` and return its address."""
        self.answers[path] = [answer if isinstance(answer, Answer) else Answer(answer) for answer in answers]
        return f"{self.url}/{path}"


@contextmanager
def running() -> Iterator[Publisher]:
    """Start a publisher, and stop it in the end."""
    state = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            state.requests[path] += 1
            turns = state.answers.get(path, [Answer(b"no such file", 404)])
            answer = turns[min(state.requests[path], len(turns)) - 1]
            self.send_response(answer.status)
            if answer.location:
                self.send_header("Location", answer.location)
            if answer.encoding:
                self.send_header("Content-Encoding", answer.encoding)
            if (promised := answer.promised or len(answer.body)) >= 0:
                self.send_header("Content-Length", str(promised))
            self.end_headers()
            with suppress(ConnectionError):
                for at in range(len(answer.body) if answer.trickle else 0):
                    self.wfile.write(answer.body[at : at + 1])
                    sleep(answer.trickle)
                if not answer.trickle:
                    self.wfile.write(answer.body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve_set(monkeypatch: pytest.MonkeyPatch, name: str, *files: File, **changes: Any) -> None:
    """Let a set be downloaded from other addresses."""
    found = served(name, *files)
    found = replace(found, recipe=replace(found.recipe, **changes))
    for module in (nnd_tasks.build, nnd_tasks.new.keep):
        monkeypatch.setattr(module, "find_recipe", lambda _: found)
