"""Ray itself, with several raylets in the place of machines: whatever is lost, the right numbers or one clear line.

``nox -s ray`` runs this file; it takes minutes. `engine/tests/test_ray_workers.py` has what needs no Ray.
"""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from lm_eval.api.instance import Instance

from engine_tests.comparing import instances
from engine_tests.fake_engine import expected, pairs, use_fake_engine
from shared_prefix import ray_workers
from shared_prefix.model_error import ModelError
from shared_prefix.ray_workers import SPARE, RayWorkers, divide
from tests.commands import Outcome
from tests.conftest import REPO

pytestmark = pytest.mark.skipif(
    find_spec("ray") is None or not os.environ.get("NND_TEST_RAY"), reason="nox -s ray runs it, with Ray installed"
)

#: What the workers of a test answer: 240 prompts, 8 batches.
REQUESTS = pairs(80)


@pytest.fixture(autouse=True)
def _fake_engine(monkeypatch):
    use_fake_engine(monkeypatch)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Ray reads them once in a process.
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPO), str(REPO / "engine" / "tests")]))


@pytest.fixture
def cluster():
    """A cluster whose head has no room for workers; tests add machines. Its files are removed."""
    import ray
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "num_gpus": 0, "include_dashboard": False})
    try:
        yield started
    finally:
        RayWorkers.stop_all()
        ray.shutdown()
        started.shutdown()


def loads(folder):
    """Count the processes that have loaded the fake engine."""
    return len(list(folder.glob("loaded-*")))


def fake(cluster, folder, workers, **arguments):
    return RayWorkers("fake", workers=workers, address=cluster.address, folder=str(folder), **arguments)


def after_batches(count, act, monkeypatch):
    """Do something once so many batches are answered."""
    keep, kept = RayWorkers._keep, []

    def counted(self, *batch):
        keep(self, *batch)
        kept.append(batch)
        if len(kept) == count:
            act()

    monkeypatch.setattr(RayWorkers, "_keep", counted)


# ---------------------------------------------------------------- what is lost


def test_a_worker_is_killed(cluster, tmp_path):
    cluster.add_node(num_cpus=2)
    lm = fake(cluster, tmp_path, 2, fault="kill once")
    assert lm.loglikelihood(instances(REQUESTS)) == expected(REQUESTS, tmp_path)
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("spare", [False, True])
def test_a_machine_is_lost(cluster, tmp_path, monkeypatch, spare):
    first, *_ = [cluster.add_node(num_cpus=1) for _ in range(2 + spare)]
    after_batches(2, lambda: cluster.remove_node(first, allow_graceful=False), monkeypatch)
    lm = fake(cluster, tmp_path, 2 + spare, seconds=0.5)
    if spare:
        lm.workers = 2
    assert lm.loglikelihood(instances(REQUESTS)) == expected(REQUESTS, tmp_path)


def test_all_machines_are_lost(cluster, tmp_path, monkeypatch):
    """The run ends; Ray may still place workers on the machines for a while, which are lost then."""
    machines = [cluster.add_node(num_cpus=1) for _ in range(2)]
    monkeypatch.setattr(ray_workers, "NOTICE", 1.0)
    monkeypatch.setattr(ray_workers, "JOINING", 6.0)

    def lose_all():
        for machine in machines:
            cluster.remove_node(machine, allow_graceful=False)

    after_batches(2, lose_all, monkeypatch)
    with pytest.raises(ModelError, match=r"no machine with room for a worker \(1 CPU, 0 GPU\)|5 workers were lost"):
        fake(cluster, tmp_path, 2, seconds=0.2).loglikelihood(instances(REQUESTS))


def test_a_machine_that_comes_later_is_used(cluster, tmp_path, monkeypatch, caplog):
    cluster.add_node(num_cpus=1)

    def add_machine():
        (tmp_path / "wait-2").touch()
        cluster.add_node(num_cpus=1)

    after_batches(1, add_machine, monkeypatch)
    lm = fake(cluster, tmp_path, 2, fault="wait")
    assert (
        "ray: 1 of 2 workers have room now (1 CPU, 0 GPU each); the others begin when machines join" in caplog.messages
    )
    assert lm.loglikelihood(instances(REQUESTS)) == expected(REQUESTS, tmp_path)
    assert loads(tmp_path) == 2 + 1


def test_a_batch_that_kills_every_worker_ends_the_run(cluster, tmp_path):
    """All others are answered before."""
    cluster.add_node(num_cpus=2)
    lm = fake(cluster, tmp_path, 2, fault="kill")
    answered = []
    lm._keep = lambda method, requests, answers: answered.extend(requests)  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="5 workers were lost one after the other, the last one by ActorDiedError"):
        lm.loglikelihood(instances([*REQUESTS, ("poison", " a")]))
    [poisoned] = [batch for batch in divide([*REQUESTS, ("poison", " a")]) if len(REQUESTS) in batch]
    assert len(answered) == len(REQUESTS) + 1 - len(poisoned)


def test_a_worker_cannot_start(cluster, tmp_path):
    cluster.add_node(num_cpus=2)
    with pytest.raises(ModelError, match="5 workers were lost one after the other, the last one by ActorDiedError"):
        fake(cluster, tmp_path, 2, fault="exit").loglikelihood(instances(REQUESTS))
    assert 2 + SPARE <= loads(tmp_path) <= 2 + SPARE + 1, "one more may have begun"


def test_the_memory_of_a_machine_is_short(monkeypatch, tmp_path):
    """Ray ends workers where a machine uses more than a share of its memory; here any use is more."""
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_memory_usage_threshold", "0.01")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    short = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        with pytest.raises(
            ModelError, match="4 workers were lost one after the other, the last one by OutOfMemoryError"
        ):
            fake(short, tmp_path, 1, seconds=5.0).loglikelihood(instances(REQUESTS))
    finally:
        RayWorkers.stop_all()
        ray.shutdown()
        short.shutdown()


def test_errors_of_the_engine_are_raised_at_once(cluster, tmp_path):
    cluster.add_node(num_cpus=1)
    with pytest.raises(ValueError, match="no such model: fake"):
        fake(cluster, tmp_path, 1, fault="raise").loglikelihood(instances(REQUESTS))
    RayWorkers.stop_all()
    with pytest.raises(MemoryError, match="out of memory"):
        fake(cluster, tmp_path, 1, fault="memory").loglikelihood(instances([*REQUESTS, ("poison", " a")]))
    RayWorkers.stop_all()
    lm = RayWorkers("hf", address=cluster.address, pretrained="no/such-model")
    with pytest.raises(OSError, match=r"no/such-model|cached files"):
        lm.loglikelihood(instances(REQUESTS))


# ---------------------------------------------------------------- engines


@pytest.mark.parametrize("engine", ["hf", "hf-shared-prefix", "nnd_mlm"])
def test_engines_answer_as_they_do_alone(engine, llama, masked_model):
    """Ray starts on this machine, and its files are for the user alone."""
    import ray
    from lm_eval.api.registry import get_model

    import shared_prefix.hf_shared_prefix
    import shared_prefix.text_models  # noqa: F401 - registers them

    folder = masked_model if engine == "nnd_mlm" else llama
    arguments = {"pretrained": str(folder), "dtype": "float32", "batch_size": 4, "device": "cpu"}
    requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs(12, 2, 2, 60))]
    rolling = [Instance("loglikelihood_rolling", {}, (" ".join(pair),), i) for i, pair in enumerate(pairs(3, 1, 1, 60))]
    alone = get_model(engine)(**arguments)
    try:
        workers = RayWorkers(engine, workers=2, **arguments)
        ours, theirs = workers.loglikelihood(requests), alone.loglikelihood(requests)
        assert [one for _, one in ours] == [other for _, other in theirs]
        assert [one for one, _ in ours] == pytest.approx([other for other, _ in theirs], abs=5e-5)
        assert workers.loglikelihood_rolling(rolling) == pytest.approx(alone.loglikelihood_rolling(rolling), abs=5e-5)
        if engine != "nnd_mlm":
            chat = [{"role": "user", "content": "Hello"}]
            assert workers.apply_chat_template(chat) == alone.apply_chat_template(chat)
            assert workers.chat_template(True) == alone.chat_template(True)
            assert workers.tokenizer_name == alone.tokenizer_name
            assert workers.get_model_info().keys() >= {"model_num_parameters"}
            asked = [
                Instance("generate_until", {}, (f"{i} +", {"until": ["."], "max_gen_toks": 4}), i) for i in range(5)
            ]
            assert workers.generate_until(asked) == alone.generate_until(asked)
        folder = Path(ray._private.worker._global_node.get_session_dir_path())
        assert stat.S_IMODE(folder.parents[1].stat().st_mode) == 0o700
        assert not (Path.home() / ".ray" / "auth_token").exists()
    finally:
        RayWorkers.stop_all()
        ray.shutdown()


# ---------------------------------------------------------------- commands

#: A command that ends, as by SIGKILL, after some batches; small batches, so that the demo has many.
KILLED = """
import os, signal, sys
from shared_prefix import ray_workers
ray_workers.LEAST, kept, most = 2000, [], int(sys.argv[1])
keep = ray_workers.RayWorkers._keep
def counted(self, *batch):
    keep(self, *batch)
    self.cache_hook.dbdict and self.cache_hook.dbdict.commit()
    kept.append(batch)
    if len(kept) == most:
        os.kill(os.getpid(), signal.SIGKILL)
ray_workers.RayWorkers._keep = counted
from nnd_tasks.cli import main
sys.argv = ["nnd", *sys.argv[2:]]
main()
"""


def command(home, batches, *words):
    """Run ``nnd`` until so many batches are answered, 0 for all."""
    env = {**os.environ, "NND_HOME": str(home), "HF_TOKEN": "hf_secretsecretsecret"}
    line = [sys.executable, "-c", KILLED, str(batches), *map(str, words)]
    done = subprocess.run(line, env=env, capture_output=True, encoding="utf-8", timeout=300, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def sums(folder):
    [path] = folder.rglob("samples_*.jsonl")
    return [[c["sum"] for c in json.loads(line)["candidates"]] for line in path.read_text("utf-8").splitlines()]


def test_the_driver_is_killed_and_the_command_repeated(llama, home, tmp_path):
    """To the bit in bfloat16, with one worker as with four; `nnd run` starts Ray by itself."""

    def run(name, workers, batches=0):
        settings = f"engine=hf,workers={workers},pretrained={llama},dtype=bfloat16"
        words = ["run", "--model", "ray", "--tasks", "nnd_demo", "--output_path", tmp_path / name, "--log_samples"]
        return command(home, batches, *words, "--model_args", settings, "--use_cache", tmp_path / f"cache-{name}")

    whole = run("four", 4)
    assert whole.status == 0, whole.err[-3000:]
    assert "saved in" not in whole.err
    assert run("one", 1, batches=3).status == -9
    [database] = tmp_path.glob("cache-one*.db")
    with sqlite3.connect(database) as cache:
        [(answered,)] = cache.execute("select count(*) from unnamed").fetchall()
    assert 0 < answered < 305
    again = run("one", 1)
    assert again.status == 0, again.err[-3000:]
    assert f"Cached requests: {answered}, Requests remaining: {305 - answered}" in again.err
    assert sums(tmp_path / "one") == sums(tmp_path / "four")


def test_a_command_connects_to_a_cluster(cluster, gpt2, home, tmp_path):
    cluster.add_node(num_cpus=2)
    words = ["run", "--model", "ray", "--tasks", "nnd_demo", "--limit", "4", "--output_path", tmp_path, "--log_samples"]
    settings = (
        f"engine=hf,workers=2,worker_cpus=1,worker_gpus=0,address={cluster.address},pretrained={gpt2},dtype=float32"
    )
    done = command(home, 0, *words, "--model_args", settings)
    assert done.status == 0, done.err[-3000:]
    assert len(sums(tmp_path)) == 4
