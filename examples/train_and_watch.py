"""Train a tiny language model for a few minutes, and watch its pass rates while it learns.

    python examples/train_and_watch.py --out watched            # two cores are enough; offline
    nnd trend watched/nnd.jsonl

The model starts from random weights. It is trained on the same kind of text as `nnd demo`; no sentence of that text is in the
set `demo`. `NNDCallback` evaluates the model on `nnd_demo` ten times during the training. The rates are written to
``nnd.jsonl`` in the output folder, and to TensorBoard if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from transformers import Trainer, TrainingArguments

import nnd_tasks
from nnd_tasks.demo.model import (
    Encoded,
    TrainingSettings,
    batches,
    encode,
    make_model,
    make_tokenizer,
    training_documents,
)


def tensors(batch: list[Encoded]) -> dict[str, torch.Tensor]:
    """Return a batch as the model's arguments: ``input_ids`` and ``labels``, both of shape (documents, tokens)."""
    ids = [torch.tensor(tokens) for tokens, _ in batch]
    return {
        "input_ids": torch.nn.utils.rnn.pad_sequence(ids, batch_first=True),
        "labels": torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=-100),
    }


def train_and_watch(out: Path, steps: int, limit: int | None, seed: int) -> Path:
    """Train a model of 0.9 million parameters; return the file with its pass rates.

    Args:
        out: folder into which ``nnd.jsonl``, ``model`` and the set are written.
        steps: number of optimizer steps, each on about 2,000 tokens.
        limit: number of prompts of each evaluation; None takes all 60.
        seed: seed of weights and text.
    """
    os.environ["NND_HOME"] = str(out.absolute())
    nnd_tasks.build_set("demo")
    settings = TrainingSettings(seed=seed, steps=steps)
    documents = training_documents(settings)
    tokenizer = make_tokenizer(("".join(p + tail for p, tail in document) for document in documents[:4000]), settings)
    data = [tensors(batch) for batch in batches([encode(text, tokenizer, settings) for text in documents], settings)]
    board = importlib.util.find_spec("tensorboard") is not None
    arguments: dict[str, Any] = {
        "output_dir": str(out),
        "max_steps": steps,
        "per_device_train_batch_size": 1,  # one of our batches
        "learning_rate": 5e-3,
        "lr_scheduler_type": "linear",
        "warmup_steps": steps // 20,
        "adam_beta2": 0.95,
        "weight_decay": 0.1,
        "logging_steps": max(steps // 40, 1),
        "save_strategy": "no",
        "report_to": ["tensorboard"] if board else [],
        "use_cpu": True,
        "seed": seed,
    }
    trainer = Trainer(
        model=make_model(tokenizer, settings),
        args=TrainingArguments(**arguments),
        train_dataset=data,
        data_collator=lambda items: items[0],
        processing_class=tokenizer,
        callbacks=[nnd_tasks.NNDCallback("nnd_demo", every=max(steps // 10, 1), limit=limit)],
    )
    trainer.train()
    trainer.save_model(str(out / "model"))
    return out / "nnd.jsonl"


def main() -> None:
    """Read the command line, train, and print the next command."""
    parser = argparse.ArgumentParser(description="Train a tiny model and watch its NND pass rates.")
    parser.add_argument("--out", type=Path, default=Path("watched"), help="output folder (default: watched)")
    parser.add_argument("--steps", type=int, default=300, help="optimizer steps (default: 300)")
    parser.add_argument("--limit", type=int, default=None, help="prompts of each evaluation (default: all 60)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.monotonic()
    path = train_and_watch(options.out, options.steps, options.limit, options.seed)
    print(f"{time.monotonic() - start:.0f} seconds; the rates are in {path}. Draw them: nnd trend {path}")


if __name__ == "__main__":
    main()
