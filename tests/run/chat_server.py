"""A small server of a chat API for tests: ``POST /v1/chat/completions``, over real HTTP, with answers that a test writes.

with ChatServer(lambda payload: "Answer: A") as server:
    nnd_tasks.evaluate(tasks, "local-chat-completions", {"model": "m", "base_url": server.url}, ...)
    server.payloads  # the requests, in the order of arrival
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, cast

from tests.run.local_server import LocalServer, OwnedServer

PATH = "/v1/chat/completions"
HANG_UP = object()


class Refusal(NamedTuple):
    """An answer that is an error.

    Attributes:
        status: of HTTP.
        message: what the server says, or its whole answer.
        headers: further headers.
    """

    status: int
    message: str | Mapping[str, Any]
    headers: Mapping[str, str] = {}


class ChatServer(LocalServer):
    """Serve on a free port of this machine, as a context manager.

    Args:
        answer: gives the text of the answer to a request; None is null content, a mapping is the whole answer, a `Refusal` is an
            error, and `HANG_UP` ends the connection without an answer.

    Attributes:
        payloads: the requests, in the order of arrival.
        closing: is set when the server stops, for an answer that waits.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.payloads: list[dict[str, Any]] = []
        self.closing = threading.Event()
        super().__init__()

    def __exit__(self, *error: Any) -> None:
        """Stop."""
        self.closing.set()
        super().__exit__(*error)


class _Handler(BaseHTTPRequestHandler):
    """Translate between HTTP and the `ChatServer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a request for a chat completion."""
        owner = cast("OwnedServer", self.server).owner
        payload = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        owner.payloads.append(payload)
        answer = owner.answer(payload)
        if answer == HANG_UP:
            self.close_connection = True
            return
        if isinstance(answer, Refusal):
            said = {"error": {"message": answer.message}} if isinstance(answer.message, str) else answer.message
            self._send(answer.status, said, answer.headers)
            return
        if isinstance(answer, Mapping):
            self._send(200, answer, {})
            return
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._send(200, {"object": "chat.completion", "choices": [choice]}, {})

    def _send(self, status: int, answer: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # a client whose run has ended waits for no answer
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


ChatServer.path, ChatServer.handler = PATH, _Handler
