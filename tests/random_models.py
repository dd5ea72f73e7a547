"""The engine's tiny models, with tokenizers that are trained on the demo, and the runs that the tests share."""

from functools import partial

import nnd_tasks
from engine_tests.random_models import BUILDERS as OF_ENGINE
from engine_tests.random_models import CHAT_TEMPLATE, WINDOW, bert, byte_level, save
from tests.conftest import DEMO_ANNOTATIONS

__all__ = ["BUILDERS", "CHAT_TEMPLATE", "WINDOW", "bert", "byte_level", "evaluate", "save", "texts"]


def texts():
    """List the texts that the tokenizers are trained on."""
    return DEMO_ANNOTATIONS.read_text(encoding="utf-8").splitlines()


BUILDERS = {name: partial(build, texts=texts()) for name, build in OF_ENGINE.items()}


def evaluate(model, tasks, *, model_args=None, kind="hf", **kwargs):
    """Evaluate a model folder in float32 on the CPU with `nnd_tasks.evaluate`; ``kind`` is what ``--model`` names."""
    arguments = {"pretrained": str(model), "dtype": "float32", **(model_args or {})}
    options = {"batch_size": 16, "bootstrap_iters": 0, "device": "cpu", **kwargs}
    return nnd_tasks.evaluate(tasks, kind, model_args=arguments, **options)
