"""What the small servers of these tests share: a port of this machine, a thread, a context manager; and a port of nobody's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

from typing_extensions import Self


class LocalServer:
    """Serve on a free port of this machine, as a context manager.

    Attributes:
        path: of the API.
        handler: answers requests; ``self.server.owner`` is this object.
    """

    path: ClassVar[str]
    handler: ClassVar[type[BaseHTTPRequestHandler]]

    def __init__(self) -> None:
        self._http = OwnedServer(("127.0.0.1", 0), self.handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """What to give a client as ``base_url``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}{self.path}"

    def __enter__(self) -> Self:
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


@contextmanager
def closed_port() -> Iterator[int]:
    """Hold a port of this machine, on which nobody listens, so that no other process can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class OwnedServer(ThreadingHTTPServer):
    """One thread per connection; knows the `LocalServer` that it works for."""

    daemon_threads = True
    owner: Any
