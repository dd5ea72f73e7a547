"""The whole chain in one command, offline: build the embedded set, make a tiny model, score it with stock lm_eval."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from nnd_tasks.build import build_set
from nnd_tasks.datasets import expand, load
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.register import tasks_dir

VOCABULARY = 1000
WINDOW = 512


def make_model(folder: Path, texts: Iterable[str], seed: int = 0) -> Path:
    """Write a tiny Llama-style model with random weights, and a byte-level BPE tokenizer trained on ``texts``.

    Args:
        folder: where `transformers` will find it.
        texts: what the tokenizer learns from.
        seed: of the weights.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bos, eos = "<|begin|>", "<|end|>"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[bos, eos],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=bos,
        eos_token=eos,
        model_max_length=WINDOW,
        clean_up_tokenization_spaces=False,
    )
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=WINDOW,
        bos_token_id=fast.bos_token_id,
        eos_token_id=fast.eos_token_id,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def run_demo(folder: Path) -> None:
    """Build, score and print lm-eval's table; everything is written below ``folder``.

    Raises:
        NNDError: ``folder`` cannot be written, or lm_eval failed.
    """
    console = Console(emoji=False, markup=False)
    folder = expand(folder).absolute()
    os.environ["NND_HOME"] = str(folder)
    console.rule("1. build the embedded set")
    result = build_set("demo", out=folder / "nnd" / "demo")
    summary = result.built[0]
    console.print(
        f"{summary.tests} tests over {summary.clusters} contexts in {result.folder}", highlight=False, soft_wrap=True
    )

    console.rule("2. make a tiny model")
    tests = load(str(result.folder))
    model = make_model(folder / "model", sorted({*tests["context"], *tests["high"], *tests["low"]}))
    console.print(f"random weights, in {model}", highlight=False, soft_wrap=True)

    console.rule("3. score it with stock lm_eval")
    command = [
        *("--model", "hf", "--model_args", f"pretrained={model}", "--device", "cpu", "--batch_size", "8"),
        *("--tasks", "nnd_demo", "--include_path", str(tasks_dir())),
        *("--output_path", str(folder / "results"), "--log_samples"),
    ]
    console.print("lm_eval " + " ".join(command), highlight=False, soft_wrap=True)
    # Offline for good: the demo must not depend on a network, nor wait for one.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-m", "lm_eval", *command], env=environment, check=False)  # noqa: S603
    if done.returncode:
        raise NNDError(f"lm_eval ended with status {done.returncode}; its own output above says why")
    console.print(
        "The model is untrained, so its rates lie near chance. Every test's outcome is in the samples_*.jsonl below "
        f"{folder / 'results'}; next: nnd build quiz_design",
        highlight=False,
        soft_wrap=True,
    )
