"""Tests that need packages beside those of `make install`, each in an environment of its own.

    pip install nox==2026.10.20
    nox -l                             what there is
    nox -R -s next                     lm-eval 0.5 against 0.4.13 (-R: keep the environment of the last time)
    nox -s vllm -- /opt/vllm           with an environment that has vLLM already, such as a build for CPUs

All but `vllm`, `engine` and `ray` run in `.venv`, which `make install` makes, and call the Python of the other environment.
"""

import os
import pathlib

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["engine", "next", "inspect"]

ROOT = pathlib.Path(__file__).parent
MAIN = ROOT / os.environ.get("VENV", ".venv") / "bin" / "python"
OURS = ("--editable", "./engine", "--editable", ".")
OFFLINE = {"HF_HUB_OFFLINE": "1"}


def find_python(session: nox.Session) -> str:
    """Return the Python of the folder given after ``--``, else of the session's own environment."""
    return (
        str(pathlib.Path(session.posargs[0], "bin", "python"))
        if session.posargs
        else str(pathlib.Path(session.bin, "python"))
    )


def run_in_main(session: nox.Session, *pytest: str, **environment: str) -> None:
    """Run tests in ``.venv``; ``environment`` names the Python that they call."""
    if not MAIN.exists():
        session.error(f"{MAIN} is not there; run make install first")
    session.run(str(MAIN), "-m", "pytest", *pytest, env={**OFFLINE, **environment}, external=True)


@nox.session
def engine(session: nox.Session) -> None:
    """The engine's own tests, with a wheel of it and what it asks for, without nnd-tasks."""
    session.install("--constraint", "constraints.txt", "./engine[test]")
    session.chdir("engine")
    session.run("python", "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('nnd_tasks') is not None)")
    session.run("pytest", env=OFFLINE)


@nox.session(name="next")
def next_release(session: nox.Session) -> None:
    """lm-eval 0.5 against 0.4.13; all other packages are of the same versions in both environments."""
    if not session.posargs:
        pins = [
            pin for pin in pathlib.Path("constraints.txt").read_text().splitlines() if not pin.startswith("lm-eval==")
        ]
        constraints = pathlib.Path(session.create_tmp(), "constraints.txt")
        constraints.write_text("\n".join(pins))
        session.install("--constraint", str(constraints), "torch", "lm-eval[hf,api]==0.5.0.dev1", *OURS)
    run_in_main(session, "tests/next", NND_TEST_NEXT=find_python(session))


@nox.session(name="inspect")
def inspect_ai(session: nox.Session) -> None:
    """inspect_ai, which runs what `nnd publish` describes."""
    if not session.posargs:
        session.install("inspect_ai>=0.3.285", "datasets", "huggingface-hub>=1.0")
    run_in_main(session, "tests/contribute/test_inspect.py", NND_TEST_INSPECT=find_python(session))


@nox.session
def exports(session: nox.Session) -> None:
    """The packages of annotation tools, which write exports that `nnd new` reads."""
    if not session.posargs:
        session.install("label-studio-sdk==2.1.2", "argilla==2.8.0")
    run_in_main(session, "tests/contribute/test_real_exports.py", NND_TEST_EXPORTS=find_python(session))


@nox.session
def llamacpp(session: nox.Session) -> None:
    """llama.cpp, in process and as a server; it compiles, which takes a C++ compiler and about 20 minutes on two cores."""
    python = find_python(session)
    if not session.posargs:
        session.install("--constraint", "constraints.txt", "./engine[llamacpp,test]", "llama-cpp-python[server]")
    session.run(python, "-m", "pytest", "engine/tests/test_llamacpp.py", env=OFFLINE, external=True)
    run_in_main(session, "-s", "tests/llamacpp", NND_TEST_LLAMACPP=python)


@nox.session(python="3.12")
def eee(session: nox.Session) -> None:
    """The validator of Every Eval Ever, on what `nnd report --eee` writes."""
    if not session.posargs:
        session.install("every_eval_ever==0.3.0")
    run_in_main(session, "tests/exchange/test_every_eval_ever.py", NND_TEST_EEE=find_python(session))


@nox.session
def ray(session: nox.Session) -> None:
    """Ray itself, with several raylets on this machine; 240 MB, and it takes minutes."""
    session.install(
        "--constraint", "constraints.txt", "torch", "ray", "--editable", "./engine", "--editable", ".[test]"
    )
    session.run("pytest", "tests/ray", env={**OFFLINE, "NND_TEST_RAY": "1"})


@nox.session
def vllm(session: nox.Session) -> None:
    """Real vLLM, which wants torch and transformers of its own versions; the index's build is for GPUs."""
    python = find_python(session)
    if not session.posargs:
        session.install("vllm>=0.32")
    tools = ("lm-eval[api]>=0.4.13,<0.6", "hypothesis>=6.135", "pytest>=8.2", "pytest-xdist>=3.6")
    session.run(python, "-m", "pip", "install", "--quiet", *OURS, *tools, external=True)
    session.run(python, "-m", "pytest", "-s", "tests/vllm", env={**OFFLINE, "NND_TEST_VLLM": "1"}, external=True)
