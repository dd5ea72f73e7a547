"""What each set costs and can show: prompts, tokens to read, MDE and minutes; the numbers of docs/which_set.md.

    nnd build SET                                # each of them, once
    python benchmarks/set_costs.py               # all; a task of a set that is not built is left out
    python benchmarks/set_costs.py --tokenizer MODEL --tasks nnd_demo

No model is run. Tokens are counted with a tokenizer, each beginning that requests share once; "read" is how many times as many
`hf-shared-prefix` reads. Minutes are computed from the tokens and from ``SPEEDS``, which are stated and not measured. The MDE is
the one that `nnd_tasks.contribute.check.rules.planned` expects of two models on all tests of the set.
"""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd
from lm_eval.api.model import LM
from tqdm import tqdm

import nnd_tasks
from nnd_tasks.contribute.check.rules import planned
from nnd_tasks.errors import NNDError
from nnd_tasks.page.smollm2 import SMOLLM2, resolve_model
from nnd_tasks.store import dataset_folder, read_table
from shared_prefix.prefix_scoring import PrefixScoring
from shared_prefix.prefix_tree import PackLimits, make_packs

#: Parameters of a model -> tokens that it reads in a second: 135M on one CPU core; 7B on one GPU, 70B on four. The last two are
#: 2 FLOP per parameter and token, at 125 TFLOP/s a GPU (40% of an A100's peak in bfloat16).
SPEEDS = {"135M": 400, "7B": 8_900, "70B": 3_600}
#: Task -> its set and config.
TASKS = {
    "nnd_demo": ("demo", "authors"),
    **{f"nnd_{name}": (name, "authors") for name in ("quiz_design", "challenge300", "summeval", "frank")},
    "nnd_mqm_ende": ("mqm", "newstest2021_ende"),
    "nnd_mqm_sxs2023_ende": ("mqm", "sxs2023_ende"),
    **{f"nnd_bio_mqm_{pair}": ("bio_mqm", pair) for pair in ("en2de", "en2es", "en2ru", "en2zh", "zh2en")},
    **{f"nnd_news_gpt3_{name}": ("news_gpt3", name) for name in ("cnn", "bbc")},
    **{f"nnd_{name}": (name, "default") for name in ("webnlg", "hanna")},
    **{
        f"nnd_{name}": (name, "authors")
        for name in ("humanevalfix", "prmbench", "summedits", "llmbar", "lfqa", "bump", "lamp", "wqrm", "when2call")
    },
    **{f"nnd_{name}": (name, "authors") for name in ("bridge", "mtrag", "crscore", "d2t")},
    **{
        f"nnd_{name}": (name, config)
        for name, config in (
            ("mrbench", "v2"),
            ("medec", "notes"),
            ("mrben", "solution"),
            ("vtg", "authors"),
            ("tofueval", "test"),
            ("xsum_hallucination", "authors"),
            ("convarg", "authors"),
        )
    },
    "nnd_mrbench_bea": ("mrbench", "bea"),
    "nnd_medec_sentences": ("medec", "sentences"),
    "nnd_mrben_step": ("mrben", "step"),
    "nnd_esa23_mqm": ("esa23", "mqm_240315"),
    "nnd_esa23_esa": ("esa23", "esa_240315"),
    "nnd_basse_es": ("basse", "es"),
    "nnd_basse_eu": ("basse", "eu"),
    **{f"nnd_wmt_chat_{pair}": ("wmt_chat", pair) for pair in ("de_en", "en_de", "fr_en", "en_fr", "pt_en", "en_pt")},
}


class Collecting(LM):
    """A model without cost, which keeps the requests."""

    generate_until = loglikelihood_rolling = None

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Keep the texts of requests, each once."""
        self.texts = [*dict.fromkeys("".join(request.args) for request in requests)]
        return [(0.0, False)] * len(requests)


def read_requests(task: str, tokenizer: str) -> list[str]:
    """Return the texts of the requests of a task.

    Args:
        task: its name.
        tokenizer: folder or name.
    """
    lm = Collecting()
    nnd_tasks.evaluate(task, lm, metadata={"tokenizer": tokenizer}, bootstrap_iters=0)
    return lm.texts


def count_distinct_tokens(sequences: list[list[int]]) -> int:
    """Count the tokens of sequences, where a beginning that several share counts once."""
    total, previous = 0, []
    for sequence in sorted(sequences):
        shared = 0
        for one, other in zip(previous, sequence, strict=False):
            if one != other:
                break
            shared += 1
        total += len(sequence) - shared
        previous = sequence
    return total


def count_read_tokens(sequences: list[list[int]]) -> int:
    """Count the tokens that `hf-shared-prefix` reads on a CPU, which reads a beginning again where it is in several packs."""
    distinct = sorted({tuple(sequence) for sequence in sequences})
    limits = PackLimits(PrefixScoring.row_tokens, PrefixScoring.pack_tokens)
    total, stems = 0, {}
    for pack in make_packs(distinct, limits):
        total += len(pack.tokens) + sum(len(row.tokens) for row in pack.rows(distinct, limits.max_row))
        if pack.stem:
            stems[pack.owner] = pack.stem
    return total + sum(stems.values())


def main() -> None:
    """Read the command line, and print a row per task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", default=SMOLLM2, help="folder or name (smollm2)")
    parser.add_argument("--tasks", type=lambda names: names.split(","), default=TASKS, help="with commas between them")
    options = parser.parse_args()
    import transformers

    tokenizer_name = resolve_model(options.tokenizer)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_name)
    print("| task | tests | prompts | tokens | read | MDE |", *(f"{name} |" for name in SPEEDS))
    print("|---|---:|---:|---:|---:|---:|" + "---:|" * len(SPEEDS))
    for task in tqdm(options.tasks, unit="task"):
        name, config = TASKS[task]
        try:
            clusters = pd.Series(read_table(dataset_folder(name), config, ["cluster_id"])["cluster_id"].to_pylist())
        except NNDError:
            continue
        sequences = tokenizer(read_requests(task, tokenizer_name))["input_ids"]
        tokens = count_distinct_tokens(sequences)
        read = count_read_tokens(sequences) / tokens
        sizes = clusters.value_counts()
        minutes = [tokens / speed / 60 for speed in SPEEDS.values()]
        row = [f"`{task}`", f"{len(clusters):,}", f"{len(sizes):,}", f"{tokens:,}", f"{read:.3f}"]
        row.append(f"{100 * planned(sizes):.0f}")
        print("|", " | ".join([*row, *(f"{value:.0f}" if value >= 1 else "<1" for value in minutes)]), "|", flush=True)


if __name__ == "__main__":
    main()
