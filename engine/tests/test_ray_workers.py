"""Ray workers: batches and the loop over workers, with a stand-in for Ray.

The repository's `tests/ray` has the same with Ray itself.
"""

import os
import random
from pathlib import Path

import pytest
from lm_eval.api.model import CachingLM

from engine_tests.comparing import instances
from engine_tests.fake_engine import expected, pairs, use_fake_engine
from engine_tests.fake_ray import count_batches, fake_ray
from shared_prefix import ray_workers
from shared_prefix.model_error import ModelError
from shared_prefix.ray_workers import AGAIN, LEAST, RayWorkers, check_waiting, divide

# ---------------------------------------------------------------- batches


def texts_of(requests, batches):
    return [{requests[index] for index in batch} for batch in batches]


def test_every_request_is_in_one_batch_and_sources_stay_together():
    requests = pairs(200)
    batches = divide(requests)
    assert sorted(index for batch in batches for index in batch) == list(range(len(requests)))
    assert 4 < len(batches) < 20
    sources = [source for batch in batches for source in {requests[index][0][:300] for index in batch}]
    assert len(sources) == len({*sources}) == 200
    for batch in batches[:-1]:
        assert sum(len(context) + len(text) for context, text in {requests[i] for i in batch}) >= LEAST


def test_a_batch_reads_a_small_share_again_where_all_prompts_begin_alike():
    """Exemplars of few shots stand before every prompt."""
    head = "".join(f"Exemplar {i}: something. " for i in range(60))
    requests = [(f"{head}Question {i:05}: what is {i * 7}?", f" It is {i}.") for i in range(4000)]
    batches = divide(requests)
    new = sum(len(context) - len(head) + len(text) for context, text in requests)
    assert len(batches) > 1
    assert (len(batches) - 1) * len(head) <= 1.1 * AGAIN * new


@pytest.mark.parametrize("seed", range(2))
def test_batches_stay_as_they_are_where_others_are_done(seed):
    requests = pairs(300, length=random.Random(seed).randint(100, 2000))
    batches = texts_of(requests, divide(requests))
    left = [batch for batch in batches if random.Random(f"{seed}{min(batch)}").random() < 0.5]
    assert 0 < len(left) < len(batches)
    remaining = [request for request in requests if any(request in batch for batch in left)]
    assert sorted(texts_of(remaining, divide(remaining)), key=min) == sorted(left, key=min)


def test_requests_without_a_prompt_and_those_that_generate_are_divided_too():
    whole = [(f"{i} " * 300,) for i in range(100)]
    for requests in (whole, [("", text) for (text,) in whole]):  # lm-eval 0.4.13 and 0.5
        assert 3 < len(divide(requests)) < 20
    judged = [(f"{i:04} Which is better?", {"until": ["\n"], "temperature": 0}) for i in range(1000)]
    sizes = [len(batch) for batch in divide(judged)]
    assert sizes[:-1] == [64] * (len(sizes) - 1)
    assert divide([]) == []
    sampled = [("Write.", {"do_sample": True})] * 500
    assert [len(batch) for batch in divide(sampled)] == [500]


# ---------------------------------------------------------------- the loop


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    use_fake_engine(monkeypatch)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # so that it is restored
        monkeypatch.delenv(name)


@pytest.mark.parametrize("lost", [(), (3,), (4, 5, 9)])
def test_workers_answer_in_the_order_of_the_requests_whatever_is_lost(lost, tmp_path):
    requests = pairs(60)
    with fake_ray(lose=lambda number: number in lost) as ray:
        lm = RayWorkers("fake", workers=3, folder=str(tmp_path))
        assert lm.loglikelihood(instances(requests), disable_tqdm=True) == expected(requests, tmp_path)
        assert count_batches(ray) == len(divide(requests))
        assert len(ray.actors) == 3
        assert lm.loglikelihood([]) == []
    assert len(list(tmp_path.glob("loaded-*"))) == 1, "all in this process"


def test_a_worker_that_is_lost_again_and_again_ends_the_run(tmp_path):
    with fake_ray(lose=lambda number: True) as ray:
        with pytest.raises(
            ModelError, match=r"^--model ray: 5 workers were lost .*, the last one by RayError: The actor"
        ):
            RayWorkers("fake", workers=2, folder=str(tmp_path)).loglikelihood(instances(pairs(9)))
        assert len(ray.actors) <= 1, "one that has begun"
    with fake_ray(lose=lambda number: number > 4), pytest.raises(ModelError, match="5 workers were lost"):
        RayWorkers("fake", workers=2, folder=str(tmp_path)).loglikelihood(instances(pairs(60)))


@pytest.mark.parametrize(
    ("change", "message", "minutes"),
    [
        ({}, "no worker could begin within 60 minutes", 60),
        (
            {"resources": {"CPU": 0.5}},
            r"no machine with room for a worker \(1 CPU, 0 GPU\) has joined within 10 minutes",
            10,
        ),
        ({"alive": False}, "no machine of the cluster is alive", 0.5),
    ],
)
def test_what_is_waited_for_is_said_and_nobody_waits_for_ever(change, message, minutes, tmp_path, caplog):
    with fake_ray(slots=0) as ray:
        lm = RayWorkers("fake", workers=2, folder=str(tmp_path))
        vars(ray).update(change)
        with pytest.raises(ModelError, match=f"--model ray: {message}.*; what was answered is kept"):
            lm.loglikelihood(instances(pairs(3)))
    assert sum(ray.waits) == minutes * 60
    said = "ray: no answer for %s s: 0 batches are read, 1 wait, 2 workers load or wait for a machine with room"
    times = [30 * 2**k for k in range(9) if 30 * 2**k < minutes * 60]
    assert caplog.messages == [said % time for time in times], "not every 30 s for hours"


def test_a_batch_that_is_never_answered_ends_the_run():
    check_waiting(ray_workers.LONGEST - 1, [{"CPU": 1.0}], {"CPU": 1}, reading=True)
    with pytest.raises(ModelError, match="no batch was answered within 360 minutes"):
        check_waiting(ray_workers.LONGEST, [{"CPU": 1.0}], {"CPU": 1}, reading=True)


def test_errors_are_those_of_the_engine(tmp_path):
    with fake_ray():
        with pytest.raises(ValueError, match="no such model: fake"):
            RayWorkers("fake", folder=str(tmp_path), fault="raise").loglikelihood(instances([("a", "b")]))
        with pytest.raises(MemoryError, match="out of memory"):
            RayWorkers("fake", folder=str(tmp_path), fault="memory").loglikelihood(instances([("a", "poison")]))
        lm = RayWorkers("fake", folder=str(tmp_path))
        assert lm.apply_chat_template([{"role": "user"}]) == "[{'role': 'user'}]True"
        with pytest.raises(ValueError, match="no system role"):
            lm.apply_chat_template([{"role": "system"}])
        assert lm.get_model_info() == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers=0: expected a number of at least 1"),
        ({"workers": "many"}, "workers=many: expected"),
        ({"worker_cpus": 0.5}, "worker_cpus=0.5: expected"),
        ({"worker_gpus": -1}, "worker_gpus=-1: expected"),
        ({"engine": "local-completions", "base_url": "http://x"}, "base_url is of an engine that computes elsewhere"),
        ({"data_parallel_size": 2}, "data_parallel_size is of an engine that"),
        ({"worker_gpus": 8}, "a worker takes 1 CPU, 8 GPU of one machine, and none of the 1 machines has so much"),
    ],
)
def test_arguments_that_cannot_be_taken_are_one_line(arguments, message):
    with fake_ray({"CPU": 4.0, "GPU": 4.0}), pytest.raises(ModelError, match=f"^--model ray: {message}"):
        RayWorkers(**arguments)


def test_a_launcher_and_a_missing_package_are_refused(monkeypatch):
    monkeypatch.setattr(ray_workers, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"Ray is not installed; pip install 'ray>=2.60'"):
        RayWorkers()
    monkeypatch.undo()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with fake_ray(), pytest.raises(ModelError, match="a launcher has started several processes"):
        RayWorkers()


def test_fewer_places_than_workers_are_said(caplog):
    with fake_ray({"CPU": 4.0, "GPU": 2.0}):
        RayWorkers("fake", workers=3, folder=".")
    assert caplog.messages == [
        "ray: 2 of 3 workers have room now (1 CPU, 1 GPU each); the others begin when machines join"
    ]


def test_ray_starts_here_with_private_files_or_connects():
    with fake_ray() as ray:
        RayWorkers("fake", workers=64, folder=".")
        [(where, options)] = ray.started
        assert (where, options["num_cpus"], options["include_dashboard"]) == (("local",), 64, False)
        folder = Path(options["_temp_dir"]).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    with fake_ray() as ray:
        RayWorkers("fake", address="ray://head:10001", folder=".")
        [(where, options)] = ray.started
        assert where == ("ray://head:10001",)
        assert "runtime_env" not in options


# ---------------------------------------------------------------- lm-eval's cache


def test_a_run_that_stopped_goes_on_with_the_same_batches(tmp_path, monkeypatch):
    requests, keep, kept = pairs(90), RayWorkers._keep, []

    def stop_at_third(self, *batch):
        keep(self, *batch)
        kept.append(batch)
        if len(kept) == 3:
            raise KeyboardInterrupt

    def run(workers):
        with fake_ray() as ray:
            cached = CachingLM(RayWorkers("fake", workers=workers, folder=str(tmp_path)), str(tmp_path / "cache.db"))
            try:
                answers = cached.loglikelihood(instances(requests))
            finally:
                cached.dbdict.close()
            return answers, count_batches(ray)

    monkeypatch.setattr(RayWorkers, "_keep", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        run(4)
    monkeypatch.setattr(RayWorkers, "_keep", keep)
    assert run(1) == (expected(requests, tmp_path), len(divide(requests)) - 3)
    assert run(1) == (expected(requests, tmp_path), 0)
