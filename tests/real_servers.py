"""Servers of other projects, started for a test in a process of their own."""

import socket
import subprocess
import time
from contextlib import contextmanager

import pytest
import requests


@contextmanager
def serving(command, ready, log):
    """Start a server on a free port, and end it.

    Args:
        command: takes ``--host`` and ``--port``.
        ready: path of an address that answers once the server is ready.
        log: the file for what it prints.

    Yields:
        Its address, as ``http://127.0.0.1:8000``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        for _ in range(600):
            assert server.poll() is None, log.read_text("utf-8", "replace")[-3000:]
            try:
                if requests.get(url + ready, timeout=5).ok:
                    break
            except requests.RequestException:
                time.sleep(1)
        else:
            pytest.fail("the server does not answer")
        yield url
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
