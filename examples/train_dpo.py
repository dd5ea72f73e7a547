"""Train a model on one category of errors after another, and run the held-out tests (TRL, LoRA).

    nnd build demo --preference
    python examples/train_dpo.py --set demo --category disfluent --category unfaithful --pairs 64 --out trained
    nnd compare trained/results

The loss takes mean log-likelihoods per token, as the tests do, less those of the untrained model (``sigmoid_norm``). A loss of
the better text alone (``sft``) keeps its likelihood from falling where both texts are nearly equal (Pal et al., 2024).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from datasets import Dataset, load_dataset_builder
from peft import LoraConfig
from transformers import AutoModelForCausalLM, set_seed
from trl import DPOConfig, DPOTrainer

import nnd_tasks
from nnd_tasks import cli
from nnd_tasks.page.smollm2 import SMOLLM2, resolve_model
from nnd_tasks.run.run import run_and_save
from nnd_tasks.store import dataset_folder


def draw_pairs(name: str, category: str, pairs: int | None, seed: int, *, accept_terms: bool) -> Dataset:
    """Return pairs of the training split of a set that was built with ``nnd build --preference``.

    Args:
        name: of the set.
        category: of its tests; empty for all.
        pairs: number to draw; None takes all.
        seed: of the draw.
        accept_terms: train although the publishers of the texts limit training or commercial use.

    Raises:
        NNDError: the set is not built, has no such category, or the terms are not accepted.
    """
    data = nnd_tasks.load(name, "preference")["train"]
    about = load_dataset_builder(str(dataset_folder(name)), "preference").config
    if about.description and not accept_terms:
        raise nnd_tasks.NNDError(f"{name}: {about.description} Add --accept-terms to train on it.")
    if category and category not in (known := sorted(set(data["category"]))):
        raise nnd_tasks.NNDError(f"{name}: there is no category {category}; there are: {', '.join(known)}")
    data = data.filter(lambda own: category in ("", own), input_columns="category").shuffle(seed=seed)
    return data.select(range(min(pairs or len(data), len(data)))).select_columns(["prompt", "chosen", "rejected"])


def train(model: str, data: Dataset, out: Path, seed: int, rate: float = 1e-3) -> None:
    """Write the trained model, with the adapter merged into it, to a folder."""
    set_seed(seed)
    source = resolve_model(model)
    steps = DPOConfig(
        output_dir=str(out),
        loss_type=["sigmoid_norm", "sft"],
        loss_weights=[1.0, 0.2],
        beta=2.0,  # larger than without normalization, as margins are those of means
        learning_rate=rate,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,  # a share of all steps
        num_train_epochs=1,
        per_device_train_batch_size=4,
        max_length=None,  # TRL would leave out long prompts
        seed=seed,
        bf16=True,
        gradient_checkpointing=False,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        report_to=[],
    )
    trainer = DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16),
        args=steps,
        train_dataset=data,
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.train()
    trainer.model.merge_and_unload().save_pretrained(out)
    trainer.processing_class.save_pretrained(out)


def evaluate(model: str, tasks: str, results: Path, trained_on: str = "") -> None:
    """Run tasks on a model; the results say what it was trained on."""
    arguments = {"pretrained": model, "dtype": "bfloat16", "softmax_dtype": "float32"}
    said = {"trained_on": trained_on} if trained_on else None
    run_and_save(tasks.split(","), "hf", arguments, metadata=said, batch_size=8, output_path=results)


def main() -> None:
    """Test the model as it is, then train and test a copy for each category."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=SMOLLM2, help="folder or name (smollm2)")
    parser.add_argument("--set", default="demo", help="built with nnd build --preference")
    parser.add_argument("--category", action="append", help="to train on; repeat for a model each (one of all)")
    parser.add_argument("--pairs", type=int, help="number to draw for each model (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw and of the training")
    parser.add_argument("--tasks", help="with commas between them (the held-out tests of the set)")
    parser.add_argument("--out", type=Path, default=Path("trained"), help="folder of models and results")
    parser.add_argument("--accept-terms", action="store_true", help="accept the terms that the set's card names")
    use = parser.parse_args()
    tasks, results = use.tasks or f"nnd_{use.set}_heldout", use.out / "results"
    names = use.category or [""]
    drawn = {name: draw_pairs(use.set, name, use.pairs, use.seed, accept_terms=use.accept_terms) for name in names}
    if not any(results.rglob("results_*.json")):
        evaluate(use.model, tasks, results)
    for name, data in drawn.items():
        folder = use.out / f"{use.set}-{name or 'all'}-{use.seed}"
        train(use.model, data, folder, use.seed)
        evaluate(str(folder), tasks, results, f"{use.set}:train")


if __name__ == "__main__":
    cli.main(main)
