"""A small reward model for `nnd_reward`: SmolLM2 as it is, and a head fitted to the training split of one set.

    nnd build quiz_design --preference
    python benchmarks/reward_probe.py --set quiz_design --pairs 600 --out reward
    nnd run --model nnd_reward --model_args pretrained=reward --tasks nnd_quiz_design_heldout --output_path results --log_samples

The head is a logistic regression on the difference of two texts' last hidden states (Bradley and Terry, 1952). Its strength of
regularization is that with the highest pass rate on the validation split. Texts are read one by one: 600 pairs take about ten
minutes on two cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import nnd_tasks
from nnd_tasks.page.smollm2 import SMOLLM2, resolve_model
from shared_prefix.text_models import encode_chat

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


class Reader:
    """Gives the last hidden state of a text after its prompt, and remembers it."""

    def __init__(self, name: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=1, dtype=torch.float32).eval()
        self._states: dict[tuple[str, str], np.ndarray] = {}

    @torch.inference_mode()
    def read(self, prompt: str, text: str) -> np.ndarray:
        """Return the state, shape (hidden,)."""
        if (prompt, text) not in self._states:
            ids = torch.tensor([encode_chat(self.tokenizer, prompt, text)])
            self._states[prompt, text] = self.model.model(ids).last_hidden_state[0, -1].numpy()
        return self._states[prompt, text]

    def differences(self, rows: list[dict[str, str]]) -> np.ndarray:
        """Return chosen less rejected of each row, shape (rows, hidden)."""
        pairs = [[self.read(row["prompt"], row[side]) for side in ("chosen", "rejected")] for row in tqdm(rows)]
        return np.array([chosen - rejected for chosen, rejected in pairs])


def main() -> None:
    """Fit the head and write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=SMOLLM2, help="as after pretrained= (smollm2)")
    parser.add_argument("--set", default="quiz_design", help="built with --preference")
    parser.add_argument(
        "--pairs", type=int, default=600, help="drawn from the training split; half as many for validation"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--out", type=Path, default=Path("reward"), help="folder of the reward model")
    options = parser.parse_args()
    splits = nnd_tasks.load(options.set, "preference")
    reader = Reader(resolve_model(options.model))
    found = {}
    for split, count in (("train", options.pairs), ("validation", options.pairs // 2)):
        rows = splits[split].shuffle(seed=options.seed)
        found[split] = reader.differences(rows.select(range(min(count, len(rows)))).to_list())
    train, scale = found["train"], found["train"].std(axis=0) + 1e-6
    rates = {}
    for strength in STRENGTHS:
        regression = LogisticRegression(C=strength, fit_intercept=False, max_iter=1000)
        regression.fit(np.vstack([train, -train]) / scale, [1] * len(train) + [0] * len(train))
        weights = regression.coef_[0] / scale
        rates[strength] = (float((found["validation"] @ weights > 0).mean()), weights)
        print(
            f"C={strength:g}: {np.mean(train @ weights > 0):.3f} of training pairs, {rates[strength][0]:.3f} of validation"
        )
    _, weights = max(rates.values(), key=lambda found: found[0])
    reader.model.score.weight.data = torch.tensor(weights, dtype=torch.float32)[None]
    reader.model.save_pretrained(options.out)
    reader.tokenizer.save_pretrained(options.out)
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
