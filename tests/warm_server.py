"""A process that has imported what commands need, and forks itself for each command: it starts in milliseconds, not in seconds.

``python warm_server.py SOCKET PARENT MODULE...`` imports the modules, and then listens at ``SOCKET`` until the process
``PARENT`` ends. A client connects, and sends the length of a request in four bytes, the request as JSON (`argv`, `cwd`,
`env`), and three files: standard input, output and error. It is answered in lines: the pid of the command, and later its exit
status, negative for a signal. A client that goes away takes its command with it. `tests.commands` is the client.

The server runs nothing itself, so a command finds it as a fresh process would be: one thread of Python, no model loaded, no
set read; only what torch tells of this machine is known already. It imports no test, and nothing of pytest.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pickle
import pkgutil
import random
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the request of a client, and its three files."""
    data, files, _, _ = socket.recv_fds(connection, 4, 3)
    length = int.from_bytes(data, "big")
    body = b""
    while len(body) < length:
        more = connection.recv(length - len(body))
        if not more:
            raise ConnectionError("the client went away within its request")
        body += more
    return json.loads(body), list(files)


def run(argv: list[str]) -> None:
    """Run what stands after ``python`` on a command line, as Python does.

    Args:
        argv: ``-m MODULE ...``, ``-c CODE ...`` or ``SCRIPT ...``.
    """
    kind, *rest = argv
    if kind == "-m":
        sys.argv = rest
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.argv = argv
        sys.path.insert(0, os.path.dirname(kind))  # noqa: PTH120 - as Python does
        runpy.run_path(kind, run_name="__main__")


def become(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Be the process that was asked for, from its first line to its exit status."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
        if file > 2:
            os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # TMPDIR may be another
    if "datasets" in sys.modules and (cache := request["env"].get("HF_DATASETS_CACHE")):
        sys.modules["datasets"].config.HF_DATASETS_CACHE = Path(cache)  # what `datasets` does when it is imported
    if "huggingface_hub" in sys.modules and request["argv"][:2] == ["-m", "hub_upload"]:
        # It and `datasets` read their variables when they are imported, and ask for them as `constants.NAME` later.
        for name in ("huggingface_hub.constants", "datasets.config"):
            importlib.reload(sys.modules[name])
    random.seed()
    for name in ("numpy.random", "torch"):  # each command draws numbers of its own, as in a fresh process
        if name in sys.modules:
            sys.modules[name].seed()
    status = 0
    try:
        run(request["argv"])
    except SystemExit as stop:
        if isinstance(stop.code, int) or stop.code is None:
            status = stop.code or 0
        else:
            print(stop.code, file=sys.stderr)
            status = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    # What Python does at the end of a process, but for giving back the memory object by object.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120  # as Python's
    if status < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


def remember_yamls() -> Any:
    """Let lm-eval parse each YAML of its own tasks once: listing its thousands of tasks takes ten seconds each time.

    Stubs that `nnd register` writes among them are read anew, as is whatever lies elsewhere.

    Returns:
        The class that lists tasks.
    """
    index = importlib.import_module("lm_eval.tasks._index")
    folder = Path(index.__file__).parent
    original, parsed = index.load_yaml, {}

    def load_yaml(path: Path, **options: Any) -> Any:
        key = (str(path), *sorted(options.items()))
        if not path.is_relative_to(folder) or path.is_relative_to(folder / "nnd"):
            return original(path, **options)
        if key not in parsed:
            parsed[key] = pickle.dumps(original(path, **options))
        return pickle.loads(parsed[key])

    index.load_yaml = load_yaml
    return index.TaskIndex


def serve(listener: socket.socket, parent: int) -> None:
    """Answer clients until the process ``parent`` ends; returns in no child."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, ("client", None))
    selector.register(os.pidfd_open(parent), selectors.EVENT_READ, ("end", None))
    running: dict[int, tuple[int, socket.socket]] = {}  # pid -> its pidfd, and who asked for it

    def finish(pid: int) -> None:
        handle, connection = running.pop(pid)
        _, state = os.waitpid(pid, 0)
        for one in (handle, connection):
            selector.unregister(one)
        with suppress(OSError):  # the client is gone
            connection.sendall(f"{os.waitstatus_to_exitcode(state)}\n".encode())
        connection.close()
        os.close(handle)

    while True:
        for key, _ in selector.select():
            what, pid = key.data
            if what == "end":
                for one in running:
                    os.kill(one, signal.SIGKILL)
                return
            if what == "ended" and pid in running:
                finish(pid)
            elif what == "gone" and pid in running:
                os.kill(pid, signal.SIGKILL)
                finish(pid)
            elif what == "client":
                connection, _ = listener.accept()
                try:
                    request, files = receive(connection)
                except (OSError, ValueError):
                    connection.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    for one in (listener, connection, *(client for _, client in running.values())):
                        one.close()
                    for handle, _ in running.values():
                        os.close(handle)
                    become(request, files)
                for file in files:
                    os.close(file)
                connection.sendall(f"{pid}\n".encode())
                running[pid] = os.pidfd_open(pid), connection
                selector.register(running[pid][0], selectors.EVENT_READ, ("ended", pid))
                selector.register(connection, selectors.EVENT_READ, ("gone", pid))


def main() -> None:
    """Import, listen, serve."""
    path, parent, *modules = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; the server ends when they have ended
    sys.path.pop(0)  # the folder of this file, which no command has in its path
    for module in modules:
        importlib.import_module(module)
    if "torch" in modules:  # lm-eval asks programs about this machine after every run, which takes a second
        collect_env = importlib.import_module("torch.utils.collect_env")
        machine = collect_env.get_pretty_env_info()
        collect_env.get_pretty_env_info = lambda: machine
    if "lm_eval.tasks" in modules:
        for package in ("nnd_tasks", "hub_upload"):
            for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
                if not found.name.endswith(("__main__", ".vllm_shared_prefix")):  # the second needs vLLM
                    importlib.import_module(found.name)
        tasks = remember_yamls()
        tasks.build([Path(sys.modules["lm_eval.tasks"].__file__ or "").parent])
    gc.collect()
    gc.freeze()  # so that a child's collector writes into none of it, and its memory stays shared
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.new")
        listener.listen(64)
        Path(f"{path}.new").rename(path)  # who finds it can connect
        serve(listener, int(parent))
    Path(path).unlink()
    with suppress(OSError):  # the other server removes the folder
        Path(path).with_suffix(".lock").unlink()
        Path(path).parent.rmdir()
    os._exit(0)


if __name__ == "__main__":
    main()
