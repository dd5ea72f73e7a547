"""A run of a set's tasks on a tiny model with random weights, on a few prompts each: does the whole chain work?"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from nnd_tasks.check.findings import Finding, finding
from nnd_tasks.check.loading import Config
from nnd_tasks.check.task_checks import Documents, silent_log
from nnd_tasks.check.yamls import Yaml, alone
from nnd_tasks.errors import typed_reason_of
from nnd_tasks.models.byte_tokenizer import train_tokenizer
from nnd_tasks.wording import counted

#: Prompts that a task is run on.
PROMPTS = 4
_WINDOW = 8192  # tokens: more than any document of the paper's sets has
_VOCABULARY = 1000
_TEXTS = 300  # that the tokenizer is trained on
_END = "<|endoftext|>"


class TinyModel(LM):  # type: ignore[misc]
    """A model that gives each token a random log-probability, whatever stands before it.

    Args:
        texts: what its tokenizer, a byte-level BPE that can write any text, is trained on.
    """

    backend, max_length = "causal", _WINDOW

    def __init__(self, texts: Iterable[str]) -> None:
        super().__init__()
        self.tokenizer = train_tokenizer(texts, _VOCABULARY, [_END], bos_token=_END, eos_token=_END, unk_token=_END)
        logits = np.random.default_rng(0).normal(size=len(self.tokenizer))
        self._logprobs = logits - np.logaddexp.reduce(logits)

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Return (sum of log-probabilities in nats, False) of the candidate of each request."""
        candidates = [self.tokenizer.encode(request.args[1]) for request in requests]
        return [(float(self._logprobs[tokens].sum()), False) for tokens in candidates]

    generate_until = loglikelihood_rolling = loglikelihood  # no task of ours asks for either


def run(documents: Documents, tasks: Sequence[Yaml], tell: Callable[[str], object]) -> list[Finding]:
    """Run tasks on a `TinyModel`.

    Args:
        documents: of the set.
        tasks: those that are run.
        tell: is called with the name of each task before it is run.

    Returns:
        A finding for each task that fails or leaves tests unscored.
    """
    configs = documents.configs
    findings: list[Finding] = []
    if not tasks:
        return findings
    tell(tasks[0].name)
    with _silent():
        model = TinyModel(_sample(configs.values()))
    for task in tasks:
        tell(task.name)
        name = task.config or documents.loaded.default
        try:
            with _silent(), documents.served():
                findings += _unscored(task, name, _evaluate(task, configs[name], model))
        except (Exception, SystemExit) as error:  # whatever is raised, users of the set would run into it too
            why = typed_reason_of(error)
            message = f"{task.name} fails on a tiny model: {why}"
            findings.append(finding("run_failed", message, f"try: nnd run --tasks {task.name} …", config=name))
    return findings


def _sample(configs: Iterable[Config]) -> list[str]:
    """Return some texts of a set."""
    texts: dict[str, None] = {}
    for config in configs:
        for side in ("context", "high", "low"):
            texts |= dict.fromkeys(config.columns[side][:_TEXTS])
    return list(texts)[:_TEXTS]


def chosen(prompts: int) -> list[int]:
    """Return which documents are run: `PROMPTS` of them, evenly spread from the first to the last."""
    if prompts <= PROMPTS:
        return list(range(prompts))
    return [i * (prompts - 1) // (PROMPTS - 1) for i in range(PROMPTS)]


def _evaluate(task: Yaml, config: Config, model: LM) -> list[dict[str, Any]]:
    """Return the logged samples of a task, one for each document that was run."""
    from nnd_tasks.runner import patches
    from nnd_tasks.runner import run as harness

    with (
        # lm-eval gets only the copy of this YAML: it would look up the name in all YAMLs of its folders.
        alone(task) as folder,
        patch.object(harness, "include_paths", list),
        patches.quiet(),
    ):
        results = harness.evaluate(
            task.name,
            model,
            include_path=[folder],
            samples={task.name: chosen(len(set(config.columns["cluster_id"])))},
            log_samples=True,
        )
    return list(results["samples"][task.name])


def _unscored(task: Yaml, config: str, samples: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Report tests without a score, except those with an empty candidate, for which there is another finding."""
    missing = [
        test["test_id"]
        for sample in samples
        for test in sample["tests"]
        if test["passed"] is None and all(sample["doc"]["candidates"][test[side]].strip() for side in ("high", "low"))
    ]
    if missing:
        message = f"{task.name} leaves {counted(len(missing), 'test')} unscored on a tiny model, such as {missing[0]}"
        yield finding("run_unscored", message, "look at these candidates", count=len(missing), config=config)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep progress bars and log lines of other libraries off the terminal."""
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), silent_log():
        yield
