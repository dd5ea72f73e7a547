"""An engine without a model, whose answers depend on the whole batch, and which can end as a real one does.

``engine=fake``; `use_fake_engine` makes it known to workers.
"""

import os
import random
import signal
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from engine_tests.comparing import instances
from shared_prefix import ray_workers
from shared_prefix.ray_workers import divide


def use_fake_engine(monkeypatch):
    monkeypatch.setitem(ray_workers.MODULES, "fake", "engine_tests.fake_engine")


def number(*texts):
    """Make a number from 0 to 1 of texts."""
    return int.from_bytes(sha256("\0".join(map(str, texts)).encode()).digest()[:6], "big") / 2**48


@register_model("fake")
class FakeEngine(LM):
    """Answers are made of a request, and in their last digits of all requests of the call, as with 16 bits.

    Args:
        folder: in which each engine leaves a file when it is loaded.
        seconds: that a call takes.
        fault: what goes wrong. ``exit`` ends the process while it loads, ``raise`` raises an error there. ``kill once`` ends it
            in the first call of all engines, ``kill`` in each call with "poison" in a text, where ``memory`` raises an error.
            ``wait`` waits in each call for as many loaded engines as the name of a file says (``wait-N``).
    """

    def __init__(self, folder, seconds=0.0, fault="", **others):
        super().__init__()
        self.folder, self.seconds, self.fault = Path(folder), seconds, fault
        (self.folder / f"loaded-{os.getpid()}").touch()
        if fault == "exit":
            os._exit(7)
        if fault == "raise":
            raise ValueError("no such model: fake")

    def _fail(self, poisoned):
        if self.fault == "wait":
            deadline = monotonic() + 200
            wanted = [int(path.name.partition("-")[2]) for path in self.folder.glob("wait-*")]
            while len(list(self.folder.glob("loaded-*"))) < max(wanted, default=0) and monotonic() < deadline:
                sleep(0.1)
        if self.fault == "kill once":
            try:
                (self.folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "kill" and poisoned:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "memory" and poisoned:
            raise MemoryError("out of memory")

    def loglikelihood(self, requests, disable_tqdm=False):
        texts = [request.args for request in requests]
        self._fail(any("poison" in text for pair in texts for text in pair))
        sleep(self.seconds)
        of_batch = number(*sorted(map(str, texts)))
        return [(-100 * number(*pair) - of_batch / 1000, number("greedy", *pair) < 0.5) for pair in texts]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        return [-100 * number(*request.args) for request in requests]

    def generate_until(self, requests, disable_tqdm=False):
        return [f"{request.args[0]} {sorted(request.args[1])} {len(requests)}" for request in requests]

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        if chat_history[0]["role"] == "system":
            raise ValueError("no system role")
        return f"{chat_history}{add_generation_prompt}"


def pairs(sources, prompts=3, texts=4, length=700):
    """Make requests: each source is read in several prompts, each with several texts, in no order."""
    made = [
        (
            f"Read this.\n{str(source) * (length // len(str(source)))}\nQuestion {prompt}?",
            f" Text {source} {prompt} {text}.",
        )
        for source in range(1000, 1000 + sources)
        for prompt in range(prompts)
        for text in range(texts)
    ]
    random.Random(0).shuffle(made)
    return made


def expected(requests, folder):
    """Answer each batch by an engine in this process."""
    engine, answers = FakeEngine(str(folder)), [None] * len(requests)
    for batch in divide(requests):
        for index, answer in zip(batch, engine.loglikelihood(instances([requests[i] for i in batch])), strict=True):
            answers[index] = answer
    return answers
