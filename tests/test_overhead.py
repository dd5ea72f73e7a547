"""`benchmarks/overhead.py`: a stage has the time of its functions without that of other stages that these call."""

from types import SimpleNamespace

from benchmarks import overhead


def test_a_stage_is_timed_without_those_that_it_calls(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(overhead, "cpu", lambda: now[0])

    def spend(seconds, *further):
        now[0] += seconds
        for call in further:
            call()

    def numbers():
        for seconds in (1, 2):
            spend(seconds)
            yield seconds

    module = SimpleNamespace(inner=lambda: spend(2), outer=lambda: spend(3, module.inner), numbers=numbers)
    monkeypatch.setattr(overhead, "import_module", lambda _: module)
    stages = overhead.Stages()
    for stage, name in {"packs": "inner", "requests": "outer", "scores": "numbers", "checks": "absent"}.items():
        stages.watch(stage, f"module:{name}")
    module.outer()
    assert [*module.numbers()] == [1, 2]
    assert [stages.seconds[stage] for stage in ("packs", "requests", "scores", "checks")] == [2, 3, 3, 0]
