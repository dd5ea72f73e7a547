"""Score a file of requests with an engine that lm-eval does not know; here plain transformers takes its place.

nnd run --model nnd_file --model_args requests=requests.parquet --tasks nnd_demo
python examples/score_file.py MODEL requests.parquet scores.parquet
nnd run --model nnd_file --model_args scores=scores.parquet,tokenizer=MODEL --tasks nnd_demo --output_path results
"""

from __future__ import annotations

import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transformers
from tqdm import tqdm


def main(model_name: str, requests_file: str, scores_file: str) -> None:
    """Score every request of a file, and write the scores."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_name)
    model = transformers.AutoModelForCausalLM.from_pretrained(model_name, dtype=torch.float32).eval()
    rows = []
    for request in tqdm(pd.read_parquet(requests_file).itertuples(), desc="Scoring"):
        logprobs, greedy = score(model, tokenizer, request.context, request.continuation)
        rows.append((request.id, sum(logprobs), len(logprobs), logprobs, greedy))
    table = pa.Table.from_pandas(pd.DataFrame(rows, columns=["id", "sum", "tokens", "token_logprobs", "greedy"]))
    about = {"engine": f"transformers {transformers.__version__}", "model": model_name}
    pq.write_table(table.replace_schema_metadata(about), scores_file)


@torch.inference_mode()
def score(model: torch.nn.Module, tokenizer: object, context: str, continuation: str) -> tuple[list[float], bool]:
    """Score a continuation: the log-probability of each of its tokens, and whether each was the likeliest.

    As in lm-eval, white space at the end of a context counts as the continuation's, and an empty context is one token.
    """
    tokens = tokenizer.encode(context + continuation)
    start = len(tokenizer.encode(context.rstrip()))
    if start == 0:
        tokens, start = [tokenizer.bos_token_id or tokenizer.eos_token_id, *tokens], 1
    logits = model(torch.tensor([tokens])).logits[0, start - 1 : -1].float()
    targets = torch.tensor(tokens[start:])
    logprobs = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
    return logprobs.tolist(), bool((logits.argmax(-1) == targets).all())


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
