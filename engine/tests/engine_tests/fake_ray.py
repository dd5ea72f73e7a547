"""The part of Ray that `ray_workers` uses, in this process: an actor is an object, and a call is done when it is waited for."""

import os
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import torch

from shared_prefix.ray_workers import RayWorkers


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class Actor:
    def __init__(self, cls):
        self._object = cls()

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *arguments: Call(self, getattr(self._object, name), arguments))


class Call:
    def __init__(self, actor, function, arguments):
        self.actor, self.function, self.arguments = actor, function, arguments


class FakeRay(ModuleType):
    """Ray with one machine.

    Args:
        resources: of the machine.
        lose: called with the number of each call; true lets the worker be lost with it.
        slots: actors that find room; others never begin.

    Attributes:
        calls: name of the method of each call that ended, and its arguments.
        actors: that were made and not killed.
        waits: seconds that each wait without an answer would have taken.
        started: arguments of `init`.
        alive: whether the machine is.
    """

    def __init__(self, resources, lose, slots):
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        self.resources, self.lose, self.slots = resources, lose, slots
        self.calls = []
        self.actors = []
        self.waits = []
        self.started = []
        self.alive = True
        self._number = 0

    def is_initialized(self):
        return bool(self.started)

    def init(self, *arguments, **options):
        self.started.append((arguments, options))

    def shutdown(self):
        self.started.clear()

    def nodes(self):
        return [
            {"Alive": self.alive, "Resources": self.resources},
            {"Alive": False, "Resources": {"CPU": 99, "GPU": 99}},
        ]

    def remote(self, **needs):
        def make(cls):
            def begin():
                self.actors.append(Actor(cls))
                return self.actors[-1]

            return SimpleNamespace(remote=begin)

        return make

    def wait(self, calls, timeout):
        for call in reversed(calls):  # the last one is done first
            if call.actor in self.actors[: self.slots]:
                return [call], [other for other in calls if other is not call]
        self.waits.append(timeout)
        return [], calls

    def get(self, call, timeout):
        self._number += 1
        if self.lose(self._number):
            raise RayError("The actor died unexpectedly")
        try:
            result = call.function(*call.arguments)
        except Exception as error:
            raise RayTaskError(error) from error
        self.calls.append((call.function.__name__, tuple(call.arguments)))
        return result

    def kill(self, actor):
        if actor in self.actors:
            self.actors.remove(actor)


@contextmanager
def fake_ray(resources=None, lose=lambda number: False, slots=99):
    """Let this process import a `FakeRay` as ``ray``. Workers, which set its threads, are stopped in the end."""
    ray, threads = FakeRay(resources or {"CPU": 4.0}, lose, slots), torch.get_num_threads()
    modules = {"ray": ray, "ray.exceptions": ray.exceptions}
    with patch.dict(sys.modules, modules), patch.dict(os.environ), patch("atexit.register"):
        try:
            yield ray
        finally:
            RayWorkers.stop_all()
            torch.set_num_threads(threads)


def count_batches(ray):
    """Count those that were answered."""
    return sum(method == "answer" for method, _ in ray.calls)
