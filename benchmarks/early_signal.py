"""Which measures decide early? Train small models on several mixtures of texts, and score ten checkpoints of each.

    NND_TEST_DATA=FOLDER python benchmarks/early_signal.py --out early --minutes 4   # again until it says that all is there
    nnd trend early/results --decide

Every piece of work, the training up to the next checkpoint or the scoring of one, is kept when it is finished, so the
program can be stopped at any time. Models are Llamas that are trained from nothing on the publishers' texts of other sets than
those that score them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import nnd_tasks
from benchmarks.workloads import DATA, train_tokenizer
from nnd_tasks.categories import ALL
from nnd_tasks.measures import MEASURES
from nnd_tasks.results.compare import category_measures, category_rates
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.run.run import run_and_save
from nnd_tasks.studies.stress.edits import Edit, load_parser
from nnd_tasks.studies.stress.error_types import ERRORS
from nnd_tasks.studies.stress.stress_set import build_stress_set

#: Name -> layers and width.
SIZES = {"small": (2, 96), "large": (3, 160)}
MIXTURES = ("both", "news", "errors")
SEEDS = (0, 1)
CHECKPOINTS = (25, 50, 75, 100, 150, 200, 275, 350, 425, 500)
#: Highest learning rate.
RATE = 8e-3
VOCABULARY, WINDOW, BATCH = 2048, 1024, 8
#: Tokens of a training text. The models read longer ones in the tests, with rotary positions that they have not seen.
BLOCK = 128
#: Error -> the amount of it that is put into a text of the mixture ``errors``: about 30% of what can be changed.
AMOUNTS = {
    "token_drop": 0.3,
    "local_swap": 0.3,
    "repeated_token": 0.3,
    "stop_word_removal": 0.6,
    "article_removal": 1.0,
    "preposition_removal": 1.0,
}

#: What scores the models, how many prompts of each at most, and which errors are put into how many texts.
TASKS, PROMPTS, TEXTS = "nnd_demo,nnd_quiz_design,nnd_early_wikitext", 40, 12
ERRORS_TESTED = (
    "token_drop,local_swap,repeated_token,article_removal,truncation,noised_punctuation,middle_swap,sentence_switching"
)


# ---------------------------------------------------------------- texts


def read_texts() -> dict[str, list[str]]:
    """Read what each mixture is trained on: news and encyclopedia, news alone, and the first with errors put in."""
    nnd_tasks.build_set("frank", DATA / "frank", progress=False)
    news = [*dict.fromkeys(nnd_tasks.load("frank")["context"])]
    encyclopedia = (DATA / "blindspot" / "wikitext_reference.txt").read_text("utf-8").splitlines()
    both = [text for text in (*news, *encyclopedia) if text.strip()]
    return {"both": both, "news": news, "errors": [*put_errors_into(both)]}


def put_errors_into(texts: list[str]) -> Iterator[str]:
    """Yield the texts, each with one error of `AMOUNTS`."""
    parser, rng = load_parser(), random.Random(0)
    for text in texts:
        name = rng.choice([*AMOUNTS])
        yield ERRORS[name].make(Edit(parser), text, AMOUNTS[name], rng)


def prepare(out: Path) -> None:
    """Write the tokenizer and the tokens of each mixture."""
    if (out / "tokens.pt").exists():
        return
    texts = read_texts()
    tokenizer = train_tokenizer(
        texts["both"], VOCABULARY, ["</s>"], eos_token="</s>", bos_token="</s>", pad_token="</s>"
    )
    tokenizer.model_max_length = WINDOW
    tokenizer.save_pretrained(out / "tokenizer")
    tokens = {}
    for mixture, chosen in texts.items():
        order = random.Random(1).sample(chosen, len(chosen))
        encoded = tokenizer([f"</s>{text}" for text in order], add_special_tokens=False)["input_ids"]
        tokens[mixture] = torch.tensor([token for ids in encoded for token in ids])
        print(f"{mixture}: {len(order):,} texts, {len(tokens[mixture]):,} tokens", flush=True)
    torch.save(tokens, out / "tokens.pt")


# ---------------------------------------------------------------- trainings


def train_to(out: Path, name: str, step: int) -> None:
    """Train one model up to a checkpoint, from the one before; its folder is written in the end."""
    size, mixture, seed = name.split("_")
    torch.manual_seed(int(seed))
    layers, width = SIZES[size]
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    state_file, first = out / "states" / f"{name}.pt", 0
    if state_file.exists():
        state = torch.load(state_file)
        first = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    tokens = torch.load(out / "tokens.pt")[mixture]
    last = CHECKPOINTS[-1]
    loss = torch.zeros(())
    for done in range(first, step):
        rate = RATE * min((done + 1) / 20, 1.0, (last - done) / (0.3 * last))  # rises, stays, falls to nothing
        for group in optimizer.param_groups:
            group["lr"] = rate
        draw = torch.Generator().manual_seed(1000 * int(seed) + done)
        starts = torch.randint(len(tokens) - BLOCK, (BATCH,), generator=draw)
        batch = torch.stack([tokens[start : start + BLOCK] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"{name} step {step}: loss {loss.item():.3f}", flush=True)
    folder = out / "models" / name / f"step-{step:04d}"
    PreTrainedTokenizerFast.from_pretrained(out / "tokenizer").save_pretrained(folder)
    model.save_pretrained(folder)
    state_file.parent.mkdir(exist_ok=True)
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, state_file)


# ---------------------------------------------------------------- scores


def build_sets() -> None:
    """Build what scores the models: the demo, Quiz Design, and synthetic errors in paragraphs of an encyclopedia."""
    nnd_tasks.build_set("demo", progress=False)
    nnd_tasks.build_set("quiz_design", DATA / "quiz_design", progress=False)
    build_stress_set("early_wikitext", "wikitext", folder=DATA / "blindspot", errors=ERRORS_TESTED, texts=TEXTS)


def score(out: Path, model: Path) -> None:
    """Score one checkpoint on all sets, and write its results."""
    arguments = {"pretrained": str(model), "dtype": "float32", "token_stats": True}
    run_and_save(TASKS.split(","), "hf", arguments, device="cpu", output_path=out / "results", sample=PROMPTS)


def compare_mixtures(results: Path) -> None:
    """Print how often each measure finds texts without errors better, of pairs of models of one size on ``both`` and ``errors``.

    Which mixture is better is known here. For a measure that has no better and worse end, less is taken to be better.
    """
    runs = read_results(results)
    print("| set | measure | " + " | ".join(map(str, CHECKPOINTS)) + " |\n|---|---|" + "---:|" * len(CHECKPOINTS))
    for paired in pair(runs):
        measured = category_measures(paired).merge(category_rates(paired)[["category", "model", "rate"]])
        overall = measured[measured["category"] == ALL].set_index("model")
        for measure in ("rate", *MEASURES):
            sign = 1 if measure in ("rate", "margin", "top1_high", "top1_low") else -1
            shares = []
            for step in CHECKPOINTS:
                values = {
                    (size, mixture, seed): sign * overall.at[f"{size}_{mixture}_{seed}/step-{step:04d}", measure]
                    for size, mixture, seed in product(SIZES, MIXTURES, SEEDS)
                }
                pairs = product(SIZES, SEEDS, SEEDS)
                better = [values[size, "both", a] > values[size, "errors", b] for size, a, b in pairs]
                shares.append(f"{sum(better)}/{len(better)}")
            print(f"| {paired.task} | {measure} | {' | '.join(shares)} |")


def main() -> None:
    """Read the command line, and do as much as the time allows."""
    parser = argparse.ArgumentParser(description="Train small models and score their checkpoints.")
    parser.add_argument("--out", type=Path, default=Path("early"), help="output folder (default: early)")
    parser.add_argument("--minutes", type=float, default=90, help="begin nothing new after this time (default: 90)")
    options = parser.parse_args()
    out: Path = options.out.absolute()
    end = time.monotonic() + 60 * options.minutes
    out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("NND_HOME", str(out / "home"))
    prepare(out)
    names = ["_".join(map(str, names)) for names in product(SIZES, MIXTURES, SEEDS)]
    models = {(name, step): out / "models" / name / f"step-{step:04d}" for name in names for step in CHECKPOINTS}
    pieces: list[tuple[str, Path, Callable[[], None]]] = []
    for (name, step), model in models.items():
        pieces.append(("training", model / "model.safetensors", partial(train_to, out, name, step)))
    pieces.append(("sets", out / "sets", build_sets))
    for model in models.values():
        results = out / "results" / str(model).replace("/", "__")
        pieces.append(("scores", results / "scored", partial(score, out, model)))
    for kind, finished, do in pieces:
        if finished.exists():
            continue
        if time.monotonic() > end:
            print("time is up; run it again to go on")
            return
        begun = time.monotonic()
        do()
        finished.parent.mkdir(parents=True, exist_ok=True)
        finished.touch()
        add_seconds(out, kind, time.monotonic() - begun)
    compare_mixtures(out / "results")
    print(f"next: nnd trend {out / 'results'} --decide")


def add_seconds(out: Path, kind: str, seconds: float) -> None:
    """Add the seconds that a piece took to those of its kind in ``seconds.json``."""
    file = out / "seconds.json"
    total: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**total, kind: total.get(kind, 0) + seconds}))


if __name__ == "__main__":
    main()
