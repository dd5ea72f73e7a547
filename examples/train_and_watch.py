"""Train a language model on a text file, and watch its NND pass rates while it learns.

    python examples/train_and_watch.py --text corpus.txt --model MODEL --tasks nnd_quiz_design --limit 20
    nnd trend watched/nnd.jsonl

`NNDCallback` evaluates the model ten times during the training. The rates are written to ``nnd.jsonl`` in the output folder,
and to TensorBoard if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator

import nnd_tasks


def train_and_watch(
    text: Path,
    model: str,
    out: Path,
    *,
    tasks: str = "nnd_demo",
    steps: int = 100,
    limit: int | None = None,
    window: int = 256,
) -> Path:
    """Train a model on blocks of a text; return the file with its pass rates.

    Args:
        text: a text file in UTF-8.
        model: folder or name of a causal language model.
        out: folder into which ``nnd.jsonl`` and ``model`` are written.
        tasks: tasks with commas between them; their sets are built.
        steps: number of optimizer steps, each on 4 blocks.
        limit: number of prompts of each evaluation; None takes all.
        window: tokens of a block.
    """
    tokenizer = AutoTokenizer.from_pretrained(model)
    ids = torch.tensor(tokenizer(text.read_text("utf-8"))["input_ids"])
    blocks = ids[: len(ids) // window * window].view(-1, window)
    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=1e-4,
        warmup_steps=steps // 20,
        logging_steps=max(steps // 20, 1),
        save_strategy="no",
        report_to=["tensorboard"] if importlib.util.find_spec("tensorboard") else [],
    )
    trainer = Trainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        args=arguments,
        train_dataset=[{"input_ids": block, "labels": block} for block in blocks],
        data_collator=default_data_collator,
        processing_class=tokenizer,
        callbacks=[nnd_tasks.NNDCallback(tasks, every=max(steps // 10, 1), limit=limit)],
    )
    trainer.train()
    trainer.save_model(str(out / "model"))
    return out / "nnd.jsonl"


def main() -> None:
    """Read the command line, train, and print the next command."""
    parser = argparse.ArgumentParser(description="Train a model on a text file and watch its NND pass rates.")
    parser.add_argument("--text", type=Path, required=True, help="text to train on, in UTF-8")
    parser.add_argument("--model", required=True, help="folder or name of a causal language model")
    parser.add_argument("--out", type=Path, default=Path("watched"), help="output folder (default: watched)")
    parser.add_argument("--tasks", default="nnd_demo", help="tasks to watch (default: nnd_demo)")
    parser.add_argument("--steps", type=int, default=100, help="optimizer steps (default: 100)")
    parser.add_argument("--limit", type=int, help="prompts of each evaluation (default: all)")
    options = parser.parse_args()
    path = train_and_watch(
        options.text, options.model, options.out, tasks=options.tasks, steps=options.steps, limit=options.limit
    )
    print(f"the rates are in {path}. Draw them: nnd trend {path}")


if __name__ == "__main__":
    main()
