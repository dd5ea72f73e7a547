"""What a process of tests is given: no network, one thread, the same examples in every run, folders that are made once."""

import logging
import os
import shutil
import tempfile

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Nothing may wait for a network; set before any test imports datasets or transformers.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
# What datasets keeps is not for the user's home, and goes with this process; those that xdist starts have it from here.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="nnd-tests-")
    os.environ["HF_DATASETS_CACHE"] = _CACHE.name
os.environ["HTTPS_PROXY"] = os.environ["https_proxy"] = "http://127.0.0.1:9"  # nobody listens there
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Tests run in parallel processes; more threads in each only slow them down.
os.environ["OMP_NUM_THREADS"] = "1"

# A busy machine is no mistake. Every run tries the same examples; `make test-all` tries new ones. Hypothesis would also take
# constants from our modules that happen to be imported, so that the examples would depend on which tests ran before.
settings.register_profile(
    "nnd", deadline=None, derandomize=not os.environ.get("NND_TEST_ALL"), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("nnd")
providers._get_local_constants = lambda: providers._local_constants  # which are none


def leave_out_complete(items):
    """Leave out the tests of ``make test-all``."""
    if not os.environ.get("NND_TEST_ALL"):
        for item in items:
            if "complete" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="it takes long; make test-all runs it (NND_TEST_ALL=1)"))


def once(factory, name, make):
    """Make a folder that no test changes once for all processes of a run.

    Args:
        factory: of this process.
        name: of the folder.
        make: fills it.
    """
    root = factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / name
    with FileLock(folder.with_suffix(".lock")):
        if not folder.with_suffix(".made").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that did not come to its end
            make(folder)
            folder.with_suffix(".made").touch()
    return folder


@pytest.fixture(autouse=True)
def lm_eval_handlers():
    """Take away what lm-eval adds to its logger when it starts: it would write to the streams of a test that has ended."""
    handlers = logging.getLogger("lm_eval").handlers
    before = list(handlers)
    yield
    handlers[:] = before


# ---------------------------------------------------------------- tiny models


def make_models(factory, name, builders):
    """Write tiny models once into a folder of this name; return name -> folder of a model."""

    def make(root):
        for model, build in builders.items():
            build(root / model)

    return {path.name: path for path in once(factory, name, make).iterdir()}


@pytest.fixture(scope="session")
def gpt2(tiny_models):
    """Return the folder of the tiny GPT-2."""
    return tiny_models["gpt2"]


@pytest.fixture(scope="session")
def llama(tiny_models):
    """Return the folder of the tiny Llama, which has a BOS token and a chat template."""
    return tiny_models["llama"]


@pytest.fixture(scope="session")
def masked_model(tmp_path_factory):
    """Return the folder of a tiny masked language model."""
    from engine_tests.random_models import bert

    return once(tmp_path_factory, "masked_model", bert)
