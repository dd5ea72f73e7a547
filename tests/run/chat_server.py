"""A small server of a chat API for tests: ``POST /v1/chat/completions``, over real HTTP, with answers that a test writes.

with ChatServer(lambda payload: "Answer: A") as server:
    nnd_tasks.evaluate(tasks, "local-chat-completions", {"model": "m", "base_url": server.url}, ...)
    server.payloads  # the requests, in the order of arrival
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, cast

PATH = "/v1/chat/completions"


class Refusal(NamedTuple):
    """An answer that is an error.

    Attributes:
        status: of HTTP.
        message: what the server says.
        headers: further headers.
    """

    status: int
    message: str
    headers: Mapping[str, str] = {}


class ChatServer:
    """Serve on a free port of this machine, as a context manager.

    Args:
        answer: gives the text of the answer to a request; None is null content, and a `Refusal` is an error.

    Attributes:
        payloads: the requests, in the order of arrival.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], str | Refusal | None]) -> None:
        self.answer = answer
        self.payloads: list[dict[str, Any]] = []
        self._http = _HTTPServer(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """What to give a client as ``base_url``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}{PATH}"

    def __enter__(self) -> ChatServer:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _HTTPServer(ThreadingHTTPServer):
    """One thread per connection; knows the `ChatServer` that it works for."""

    daemon_threads = True
    owner: ChatServer


class _Handler(BaseHTTPRequestHandler):
    """Translate between HTTP and the `ChatServer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a request for a chat completion."""
        owner = cast("_HTTPServer", self.server).owner
        payload = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        owner.payloads.append(payload)
        answer = owner.answer(payload)
        if isinstance(answer, Refusal):
            self._send(answer.status, {"error": {"message": answer.message}}, answer.headers)
            return
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._send(200, {"object": "chat.completion", "choices": [choice]}, {})

    def _send(self, status: int, answer: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""
