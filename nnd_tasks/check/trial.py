"""A run of a set's tasks on a tiny model with random weights, on a few prompts each: does the whole chain work?"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

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


def make_model(folder: Path, texts: Iterable[str]) -> None:
    """Write a GPT-2 of one tiny layer and a byte-level BPE tokenizer of the texts, which can write any text."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = train_tokenizer(
        texts, _VOCABULARY, [_END], bos_token=_END, eos_token=_END, unk_token=_END, model_max_length=_WINDOW
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=_WINDOW,
            n_embd=16,
            n_layer=1,
            n_head=1,
            bos_token_id=0,
            eos_token_id=0,
        )
        GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def run(documents: Documents, tasks: Sequence[Yaml], tell: Callable[[str], object]) -> list[Finding]:
    """Run tasks on a tiny model that is made in a temporary folder.

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
    with tempfile.TemporaryDirectory(prefix="nnd-check-") as place:
        tell(tasks[0].name)
        with _silent():
            make_model(Path(place), _sample(configs.values()))
        for task in tasks:
            tell(task.name)
            name = task.config or documents.loaded.default
            try:
                with _silent(), documents.served():
                    findings += _unscored(task, name, _evaluate(task, configs[name], Path(place)))
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


def _evaluate(task: Yaml, config: Config, model: Path) -> list[dict[str, Any]]:
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
            "hf",
            {"pretrained": str(model), "dtype": "float32"},
            include_path=[folder],
            shared_prefix=False,
            device="cpu",
            batch_size=4,
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
