"""Train a model on the preference data of a set: length-normalized DPO with a term for the chosen text (TRL, LoRA).

    nnd build quiz_design --preference
    python examples/train_dpo.py --set quiz_design --category disfluent --out trained
    nnd run --model hf --model_args pretrained=trained --tasks nnd_quiz_design_heldout,nnd_demo \
      --metadata '{"trained_on": "quiz_design:train"}' --output_path results --log_samples

The loss is that of `nnd_SET`: mean log-likelihoods per token of the better and the worse text (``sigmoid_norm``). A loss of
the better text alone (``sft``) keeps its likelihood from falling where both texts are nearly equal (Pal et al., 2024).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import datasets
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl import DPOConfig, DPOTrainer

import nnd_tasks
from nnd_tasks.datasets import dataset_folder
from nnd_tasks.runner.known_models import SMOLLM2, resolve_model


def train(
    model: str,
    name: str,
    out: Path,
    *,
    config: str = "preference",
    categories: list[str] | None = None,
    pairs: int | None = None,
    seed: int = 0,
    rate: float = 2e-4,
    accept_terms: bool = False,
) -> Path:
    """Train on pairs of a set's training split; return the folder of the model, with the adapter merged into it.

    Args:
        model: folder or name of a causal language model, or ``smollm2``.
        name: of a set that was built with ``nnd build --preference``.
        out: folder of the trained model.
        config: of preference data.
        categories: train on these only; None takes all.
        pairs: number of pairs to draw; None takes all.
        seed: of the draw, the adapter and the order of pairs.
        rate: learning rate.
        accept_terms: train although the publishers of the texts limit training or commercial use.

    Raises:
        SystemExit: the terms are not accepted, or the set has no such category.
    """
    builder = datasets.load_dataset_builder(str(dataset_folder(name)), config)
    if (terms := builder.config.description) and not accept_terms:
        sys.exit(f"{name}: {terms} Add --accept-terms to train on it.")
    splits = nnd_tasks.load(name, config)
    known = sorted(set(splits["train"]["category"]))
    if unknown := sorted(set(categories or ()) - set(known)):
        sys.exit(f"{name}: there is no category {unknown[0]}; there are: {', '.join(known)}")
    data = splits["train"].filter(lambda category: not categories or category in categories, input_columns="category")
    data = data.shuffle(seed=seed).select(range(min(pairs or len(data), len(data))))
    set_seed(seed)
    source = resolve_model(model)
    tokenizer = AutoTokenizer.from_pretrained(source)
    steps = DPOConfig(
        output_dir=str(out / "steps"),
        loss_type=["sigmoid_norm", "sft"],
        loss_weights=[1.0, 0.2],
        beta=2.0,  # larger than without normalization, as margins are those of means
        learning_rate=rate,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,  # a share of all steps
        num_train_epochs=1,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_length=1024,
        seed=seed,
        bf16=True,
        gradient_checkpointing=False,
        use_cpu=not torch.cuda.is_available(),
        logging_steps=5,
        save_strategy="no",
        report_to=[],
    )
    trainer = DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16),
        args=steps,
        train_dataset=data.select_columns(["prompt", "chosen", "rejected"]),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.train()
    trainer.model.merge_and_unload().save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def main() -> None:
    """Read the command line, train, and print where the model is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=SMOLLM2, help="folder or name (smollm2)")
    parser.add_argument("--set", default="quiz_design", help="built with nnd build --preference")
    parser.add_argument("--config", default="preference", help="of preference data")
    parser.add_argument(
        "--category", dest="categories", action="append", help="train on this one only; repeat for several"
    )
    parser.add_argument("--pairs", type=int, help="number of pairs to draw (all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="folder of the trained model")
    parser.add_argument("--accept-terms", action="store_true", help="accept the terms that the set's card names")
    options = vars(parser.parse_args())
    out = train(options.pop("model"), options.pop("set"), options.pop("out"), **options)
    print(f"written: {out}")


if __name__ == "__main__":
    main()
