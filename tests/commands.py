"""Command lines as users type them: run in processes of their own, and what they did.

Most of the time of a command is the import of torch, transformers and lm_eval. So `start` and `run` let a server that has
imported them fork itself (`tests.warm_server`). A command whose environment asks for something that Python or a library reads
while it starts is run by a fresh Python, as is every command where ``NND_COLD`` is set, and on systems other than Linux.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from filelock import FileLock

#: Imported by both servers: nothing of it reads variables of the environment that tests change.
LIBRARIES = (
    *("pandas", "pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset", "pyarrow.json", "pyarrow.csv", "scipy.stats"),
    *(
        "torch",
        "torch._dynamo",
        "torch.distributed.tensor",
        "requests",
        "httpx",
        "aiohttp",
        "fsspec",
        "multiprocess",
        "dill",
    ),
    *(
        "typer",
        "rich.progress",
        "yaml",
        "jinja2",
        "rapidfuzz",
        "tqdm.auto",
        "filelock",
        "platformdirs",
        "pooch",
        "regex",
    ),
    *("safetensors.torch", "sklearn.metrics", "nltk", "sacrebleu", "rouge_score.rouge_scorer", "sqlitedict"),
    *("more_itertools", "openpyxl", "matplotlib.pyplot"),
)
#: These read ``HF_HOME``, ``HF_ENDPOINT`` and others when they are imported. The server that has them has all modules of ours
#: too, which read no variable when they are imported.
HUGGING_FACE = (
    *("huggingface_hub.hf_api", "huggingface_hub.repocard", "datasets", "peft", "evaluate"),
    *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *(f"transformers.models.{name}.modeling_{name}" for name in ("gpt2", "llama", "t5", "bert")),
    *("lm_eval.evaluator", "lm_eval.tasks", "lm_eval.models.huggingface", "lm_eval.models.openai_completions"),
    *("lm_eval._cli.harness", "lm_eval.loggers"),
)
#: Variables that are read when something is done, or that the server hands on: commands with other values still fork.
READ_LATE = {"NND_HOME", "NND_DEBUG", "COLUMNS", "NO_PROXY", "PYTEST_CURRENT_TEST", "HF_DATASETS_CACHE", "TMPDIR"}
#: Variables by which a launcher numbers processes, read when these meet.
LAUNCHER = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
#: Variables that libraries set when they are imported, in the servers as in the process of the tests.
SET_AT_IMPORT = {
    *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "KMP_INIT_AT_FORK", "KMP_DUPLICATE_LIB_OK"),
    "HF_XET_HIGH_PERFORMANCE",
}
#: Variables that only the modules of ``HUGGING_FACE`` read.
READ_BY_HUGGING_FACE = ("HF_", "HUGGING", "TRANSFORMERS_")

_BASELINE = {name: value for name, value in os.environ.items() if name not in READ_LATE}
_servers: dict[str, Path] = {}


class Outcome(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


class Process:
    """A command that a warm server has started; what `subprocess.Popen` can do that tests need."""

    def __init__(self, args: Sequence[str], connection: socket.socket, pipes: Sequence[int]) -> None:
        self.args = args
        self.returncode: int | None = None
        self._connection = connection
        self._texts = {pipe: bytearray() for pipe in pipes}  # what came of standard output and error
        self._buffer = b""
        pid = self._line(60)
        assert pid, "the server forks at once"
        self.pid = int(pid)

    def _line(self, timeout: float | None) -> bytes | None:
        """Return the server's next line; None where none comes in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._connection], [], [], left)[0]:
                return None
            more = self._connection.recv(100)
            assert more, "the server of commands has died"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the command runs."""
        if self.returncode is None and (line := self._line(0)) is not None:
            self.returncode = int(line)
            self._connection.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raise `subprocess.TimeoutExpired` after ``timeout`` seconds."""
        if self.returncode is None:
            line = self._line(timeout)
            if line is None:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(line)
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait, and return standard output and error."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for pipe in self._texts:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                ready = selector.select(left)
                if not ready and left is not None:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
                for key, _ in ready:
                    if data := os.read(key.fd, 1 << 16):
                        self._texts[key.fd] += data
                    else:
                        selector.unregister(key.fd)
        for pipe in self._texts:
            os.close(pipe)
        self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        out, err = (bytes(text).decode("utf-8").replace("\r\n", "\n") for text in self._texts.values())
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal to the command, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> Process | subprocess.Popen[str]:
    """Start a command in a process of its own.

    Args:
        command: ``sys.executable`` with ``-m MODULE`` or ``-c CODE``, or a script of this Python's ``bin``, and arguments.
        cwd: where it runs; here by default.
        env: its whole environment; that of this process by default.
        output: a file for standard output and error, where they are not to be read with ``communicate``.
    """
    words = [str(word) for word in command]
    environment = dict(os.environ if env is None else env)
    server = _server_for(words, environment)
    if server is None:
        stream: Any = subprocess.PIPE if output is None else output
        return subprocess.Popen(
            words, cwd=cwd, env=environment, stdout=stream, stderr=stream, encoding="utf-8",
            # A shell that starts the tests in the background has it ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
    argv = words[1:] if words[0] == sys.executable else words
    request = json.dumps({"argv": argv, "cwd": str(cwd or Path.cwd()), "env": environment}).encode()
    pipes = [] if output else [os.pipe(), os.pipe()]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(server))
    with Path(os.devnull).open("rb") as nothing:
        outputs = [output.fileno()] * 2 if output else [end for _, end in pipes]
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], [nothing.fileno(), *outputs])
    connection.sendall(request)
    for _, end in pipes:
        os.close(end)
    return Process(words, connection, [end for end, _ in pipes])


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as `start` does, to its end."""
    process = start(command, cwd=cwd, env=env)
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        process.kill()
        raise
    assert process.returncode is not None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def kind_of_start(environment: Mapping[str, str]) -> str:
    """Return which server can run a command: ``full``, ``light`` (without Hugging Face's libraries), or ``cold``: none.

    Args:
        environment: of the command.
    """
    names = {name for name in {*environment, *_BASELINE} if environment.get(name) != _BASELINE.get(name)}
    names -= READ_LATE | LAUNCHER | SET_AT_IMPORT
    if os.environ.get("NND_COLD") or not hasattr(os, "pidfd_open"):
        return "cold"
    if not names:
        return "full"
    return "light" if all(name.startswith(READ_BY_HUGGING_FACE) for name in names) else "cold"


def nnd_process(*arguments: str | Path, **environment: str) -> Outcome:
    """Run ``nnd`` in a process of its own, with more variables in its environment than those of this process."""
    unset = ("FORCE_COLOR", "NND_DEBUG", "COLUMNS")
    env = {name: value for name, value in os.environ.items() if name not in unset} | environment
    done = run([sys.executable, "-m", "nnd_tasks.cli", *arguments], env=env)
    return Outcome(done.returncode, done.stdout, done.stderr)


def warm_server() -> Path | None:
    """Return the socket of the server that has imported everything; None where each process is to be a fresh Python."""
    return None if kind_of_start(os.environ) == "cold" else _server("full")


def _server(kind: str) -> Path:
    if kind not in _servers:
        _servers[kind] = _start_server(kind)
    return _servers[kind]


def _server_for(words: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    ours = words[0] == sys.executable and words[1] in ("-m", "-c")
    script = Path(words[0]).parent == Path(sys.executable).parent and words[0] != sys.executable
    kind = kind_of_start(environment)
    if kind == "cold" or not (ours or script):
        return None
    # What is published goes through huggingface_hub alone, whose variables the server can read anew.
    return _server("full" if words[1:3] == ["-m", "hub_upload"] else kind)


def _listens(path: Path) -> bool:
    """Return whether a server listens there; one that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def _start_server(kind: str) -> Path:
    """Return the socket of a server that all processes of this test run share; the first that needs it starts it."""
    parent = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"nnd-{os.getuid()}-{parent}"  # short: a socket's path has at most 107 bytes
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        assert folder.stat().st_uid == os.getuid(), f"{folder} is somebody else's"
    path = folder / kind
    with FileLock(folder / f"{kind}.lock"):
        if not _listens(path):
            path.unlink(missing_ok=True)
            modules = (*LIBRARIES, *HUGGING_FACE) if kind == "full" else LIBRARIES
            command = [
                sys.executable,
                str(Path(__file__).with_name("warm_server.py")),
                str(path),
                str(parent),
                *modules,
            ]
            # Pipes, as commands mostly have: Python sets up its streams once, for what they are when it starts.
            server = subprocess.Popen(
                command, env=_BASELINE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            while not path.exists():
                assert server.poll() is None, server.communicate()[0].decode()
                time.sleep(0.02)
            server.returncode = 0  # it outlives this process, and ends with the test run
    return path


def refused(outcome: Outcome) -> str:
    """Return the message of a command that must have ended as a user's mistake does."""
    assert outcome.status == 1, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") == 1, "one line"
    assert outcome.err.startswith("nnd: error: ")
    return outcome.err.removeprefix("nnd: error: ").rstrip("\n")


def printed_table(output: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Parse lm-eval's Markdown table: task -> metric -> (value, standard error)."""
    tasks: dict[str, dict[str, tuple[str, str]]] = {}
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 9 and cells[4] not in ("Metric", "") and not set(cells[4]) <= {"-", ":"}:
            current = cells[0] or current  # noqa: F821 - set by the first row of a task
            tasks.setdefault(current, {})[cells[4]] = (cells[6], cells[8])
    return tasks
