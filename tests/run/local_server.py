"""What the small servers of these tests share: a port of this machine, a thread, a context manager; and a port of nobody's."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

#: An answer that ends the connection without one, and one that never ends: a byte now and then.
HANG_UP, DRIP = object(), object()


class Refusal(NamedTuple):
    """An answer that is an error.

    Attributes:
        status: of HTTP.
        message: what the server says, or its whole answer.
        headers: further headers.
    """

    status: int
    message: str | dict
    headers: dict | None = None


class _OwnedServer(ThreadingHTTPServer):
    """One thread per connection; knows the `LocalServer` that it works for."""

    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    """Translate between HTTP and the `LocalServer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; Nagle's algorithm would wait between them

    def do_POST(self):
        """Answer a request."""
        owner = self.server.owner
        owner.heard.append((self.path, dict(self.headers)))
        answer = owner.respond(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        if answer is HANG_UP:
            self.close_connection = True
        elif answer is DRIP:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not owner.closing.wait(0.2):
                    self.wfile.write(b" ")
                    self.wfile.flush()
            self.close_connection = True
        elif isinstance(answer, Refusal):
            body = {"error": {"message": answer.message}} if isinstance(answer.message, str) else answer.message
            self._send(answer.status, body, answer.headers)
        else:
            self._send(200, answer)

    def do_GET(self):
        """Answer that there is nothing: lm-eval asks for ``/tokenizer_info``, which few servers have."""
        self._send(404, {"error": {"message": "not found", "type": "not_found"}})

    def _send(self, status, body, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # a client whose run has ended waits for no answer
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format, *args):
        """Keep quiet."""


class LocalServer:
    """Serve on a free port of this machine, as a context manager.

    Attributes:
        path: of the API.
        handler: answers requests; ``self.server.owner`` is this object.
        heard: path and headers of each request.
        closing: is set when the server stops, for an answer that waits.
    """

    handler = _Handler

    def __init__(self):
        self.heard = []
        self.closing = threading.Event()
        self._http = _OwnedServer(("127.0.0.1", 0), self.handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def respond(self, request):
        """Return the body of the answer to a request, a `Refusal`, `HANG_UP` or `DRIP`."""
        raise NotImplementedError

    @property
    def url(self):
        """What to give a client as ``base_url``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}{self.path}"

    def __enter__(self):
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(self, *error):
        """Stop."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def closed_port():
    """Hold a port of this machine, on which nobody listens, so that no other process can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
