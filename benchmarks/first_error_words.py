"""Is the first word of a marked error more surprising than other words of its text that are as frequent (small_model.md)?

    nnd run --model hf --model_args pretrained=smollm2 --tasks nnd_mqm_ende --metadata '{"tokens": true}' \
      --output_path results --log_samples
    python benchmarks/first_error_words.py results

For each error that begins a word: the surprise of its first token, less the mean of the three first tokens of unmarked words
whose frequency in the set is nearest to its own. The first word of a text never counts. Means in nats with 95% intervals,
clustered by prompt.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks import cli
from nnd_tasks.likelihood.scored_tokens import unigram_surprise
from nnd_tasks.likelihood.span_metrics import marked_tokens
from nnd_tasks.likelihood.token_scores import read_tokens
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Run
from nnd_tasks.statistics import clustered_mean

NEAREST = 3


def first_words(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a row for each error: ``prompt``, surprise of the ``first`` token, and ``above`` words as frequent."""
    scores = read_tokens(run)
    own = {key: tokens.starts < tokens.ends for key, tokens in scores.items()}
    frequency = unigram_surprise(tokens.ids[own[key]] for key, tokens in scores.items() if key[2])
    for document in run.documents:
        for place, errors in enumerate(document.get("error_spans") or []):
            key = (document["cluster_id"], place, True)
            if not errors or key not in scores:
                continue
            tokens, text = scores[key], document["candidates"][place]
            spans = np.stack([tokens.starts, tokens.ends], 1)[own[key]].astype(int)
            surprise, rarity = -tokens.logprobs[own[key]].astype(float), frequency(tokens.ids[own[key]])
            begins = np.array([text[at : at + 1].isspace() or text[at - 1 : at].isspace() for at, _ in spans])
            begins[0] = False
            others = np.flatnonzero(begins & ~marked_tokens(spans, errors))
            for start, end in dict.fromkeys((error["start"], error["end"]) for error in errors):
                marked = np.flatnonzero(marked_tokens(spans, [{"start": start, "end": end}]))
                if len(others) < 2 or not marked.size or not begins[marked[0]]:
                    continue
                first = marked[0]
                nearest = others[np.argsort(abs(rarity[others] - rarity[first]), kind="stable")[:NEAREST]]
                yield {
                    "prompt": document["cluster_id"],
                    "first": surprise[first],
                    "above": surprise[first] - surprise[nearest].mean(),
                }


def main() -> None:
    """Print a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "results", type=Path, nargs="+", help="folders of runs with token scores, on sets with marked errors"
    )
    print("| task | model | errors | first token | above words as frequent |\n|---|---|---:|---|---|")
    for run in read_results(parser.parse_args().results):
        rows = pd.DataFrame(first_words(run), columns=["prompt", "first", "above"])
        by_prompt = rows.groupby("prompt")
        found = [clustered_mean(by_prompt[name].sum(), by_prompt.size()) for name in ("first", "above")]
        cells = [f"{one.mean:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in found]
        print(f"| {run.task} | {run.model} | {len(rows):,} |", " | ".join(cells), "|")


if __name__ == "__main__":
    cli.main(main)
