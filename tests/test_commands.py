"""The server that forks commands: they get what they ask for, leave nothing behind, and end as fresh processes do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import commands
from tests.commands import kind_of_start, run, start

pytestmark = pytest.mark.skipif(kind_of_start(os.environ) == "cold", reason="commands do not fork here")

PYTHON = sys.executable
STATE = (
    "import json, os, sys, signal, torch\n"
    "print(json.dumps([sys.argv, os.getcwd(), dict(os.environ), sys.path[0], __name__, torch.get_num_threads(),"
    " 'torch' in sys.modules, signal.getsignal(signal.SIGINT) is signal.default_int_handler, sys.stdin.read(),"
    " 'nnd_tasks' in sys.modules, os.getpgid(0) == os.getpid()]))"
)


def is_warm(process: object) -> bool:
    return isinstance(process, commands.Process)


def test_a_command_gets_its_arguments_folder_and_whole_environment(tmp_path: Path) -> None:
    environment = {**os.environ, "NND_HOME": "elsewhere"}
    del environment["PATH"]
    environment["PATH"] = os.environ["PATH"]
    process = start([PYTHON, "-c", STATE, "a", "b c"], cwd=tmp_path, env=environment)
    assert is_warm(process)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    argv, cwd, seen, path, name, threads, *rest = json.loads(out)
    assert (argv, cwd, path, name, threads) == (["-c", "a", "b c"], str(tmp_path), "", "__main__", 1)
    assert seen == environment
    assert rest == [True, True, "", True, True]


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize(
    ("code", "status", "last"),
    [
        ("pass", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('why')", 1, "why"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("import os; os._exit(300 & 255)", 44, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import atexit, sys; atexit.register(lambda: print('last', file=sys.stderr)); sys.exit(3)", 3, "last"),
        ("import threading, time, sys\n"
         "threading.Thread(target=lambda: (time.sleep(0.2), print('later', file=sys.stderr))).start()", 0, "later"),
    ],
)  # fmt: skip
def test_it_ends_as_a_fresh_process_does(
    cold: bool, code: str, status: int, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cold:
        monkeypatch.setenv("NND_COLD", "1")
    process = start([PYTHON, "-c", code])
    assert is_warm(process) is not cold
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, "")
    assert (err.splitlines() or [""])[-1] == last
    assert err.startswith("Traceback (most recent call last):") is ("Error" in last or "Interrupt" in last)


def test_both_outputs_are_whole_and_a_module_runs_as_main(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import sys\nprint('x' * 300_000)\nprint('é' * 100_000, file=sys.stderr)\n"
        "assert __name__ == '__main__'\nassert sys.modules['__main__'].__dict__ is globals()\nprint(sys.argv)\n"
    )
    done = run([PYTHON, "-m", "mine", "argument"], cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "x" * 300_000 + f"\n{[str(tmp_path / 'mine.py'), 'argument']}\n"
    assert done.stderr == "é" * 100_000 + "\n"


def test_what_one_command_changes_the_next_does_not_see(tmp_path: Path) -> None:
    change = (
        "import json, os, random, sys\nos.environ['NND_LEFT'] = 'x'\njson.dumps = None\nsys.path.append('left')\n"
        "os.chdir('/')\nimport numpy\nnumpy.left = 1\nimport torch\nfirst = torch.initial_seed()\n"
        "torch.manual_seed(5)\ntorch.set_num_threads(2)\n"
        "print(json.loads('1'), random.random(), numpy.random.rand(), first)"
    )
    look = (
        "import json, os, sys, random, numpy, torch\n"
        "print(json.dumps([os.environ.get('NND_LEFT'), 'left' in sys.path, hasattr(numpy, 'left'),"
        " torch.initial_seed() == 5, torch.get_num_threads()]))"
    )
    drawn = [run([PYTHON, "-c", change], cwd=tmp_path).stdout.split() for _ in range(2)]
    assert [one == other for one, other in zip(*drawn, strict=True)] == [True, False, False, False], (
        "numbers of its own"
    )
    assert json.loads(run([PYTHON, "-c", look]).stdout) == [None, False, False, False, 1]


def test_a_signal_reaches_the_command_and_nothing_else(tmp_path: Path) -> None:
    wait = "import time\nopen('there', 'w').close()\ntime.sleep(100)"
    processes = [start([PYTHON, "-c", wait], cwd=tmp_path) for _ in range(2)]
    while not (tmp_path / "there").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    assert [process.poll() for process in processes] == [None, None]
    with pytest.raises(subprocess.TimeoutExpired):
        processes[0].wait(0.05)
    processes[0].send_signal(signal.SIGINT)
    assert processes[0].communicate(timeout=30)[1].endswith("KeyboardInterrupt\n")
    assert processes[0].returncode == -signal.SIGINT
    assert processes[1].poll() is None
    processes[1].kill()
    assert processes[1].wait(30) == -signal.SIGKILL
    assert run([PYTHON, "-c", "print(1)"]).stdout == "1\n"


def test_a_command_ends_with_the_test_that_started_it(tmp_path: Path) -> None:
    process = start([PYTHON, "-c", "import time; time.sleep(100)"])
    assert isinstance(process, commands.Process)
    process._connection.close()
    for _ in range(500):
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail("it still runs")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "full"),
        ({"NND_HOME": "x", "COLUMNS": "80", "TMPDIR": "/x"}, "full"),
        ({"KMP_INIT_AT_FORK": "FALSE"}, "full"),
        ({"HF_HOME": "x", "HF_HUB_OFFLINE": None}, "light"),
        ({"HF_DATASETS_CACHE": "x"}, "full"),
        ({"PYTHONHASHSEED": "1"}, "cold"),
        ({"OMP_NUM_THREADS": "2"}, "cold"),
        ({"HF_HOME": "x", "PYTHONHASHSEED": "1"}, "cold"),
        ({"PATH": None}, "cold"),
    ],
)
def test_an_environment_that_is_read_at_import_gets_a_process_that_reads_it(
    changes: dict[str, str | None], kind: str
) -> None:
    environment = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    assert kind_of_start(environment) == kind


def test_the_cache_of_datasets_is_handed_on(tmp_path: Path) -> None:
    look = "from datasets import config\nprint(config.HF_DATASETS_CACHE)"
    done = run([PYTHON, "-c", look], env={**os.environ, "HF_DATASETS_CACHE": str(tmp_path)})
    assert done.stdout == f"{tmp_path}\n"


def test_the_light_server_has_imported_nothing_that_reads_the_environment(tmp_path: Path) -> None:
    look = (
        "import sys\nprint([name for name in ('huggingface_hub', 'datasets', 'transformers', 'lm_eval', 'nnd_tasks')"
        " if name in sys.modules], 'torch' in sys.modules)\n"
        "import datasets, huggingface_hub\nprint(huggingface_hub.constants.ENDPOINT, datasets.config.HF_DATASETS_CACHE)"
    )
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_DATASETS_CACHE": str(tmp_path)}
    process = start([PYTHON, "-c", look], env=environment)
    assert is_warm(process)
    out, err = process.communicate(timeout=60)
    assert out == f"[] True\nhttp://127.0.0.1:9 {tmp_path}\n", err
