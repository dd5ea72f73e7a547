r"""Error-span rates again, by a short program that shares no code with the package: is `span_excess` what it says?

    nnd build mqm --source FOLDER; python benchmarks/span_pilot.py MODEL SET_FOLDER CONFIG PROMPT

Prints, for all errors and for each category, the AUC of the model by token; by word, the AUC of the model, that of token
frequency, the excess and its standard error over prompts. A word is what the expression below finds in languages with spaces
between words; a token with characters of two words joins them. PROMPT is a template with ``{context}``, such as
$'English: {context}\\nGerman:'. Each text is scored alone.
"""

import collections
import math
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def share_of_pairs(values, marks):
    """Compare every marked token with every unmarked one."""
    inside = [v for v, m in zip(values, marks, strict=True) if m]
    outside = [v for v, m in zip(values, marks, strict=True) if not m]
    won = sum((a > b) + (a == b) / 2 for a in inside for b in outside)
    return won / (len(inside) * len(outside))


def main(model_name: str, folder: str, config: str, prompt: str) -> None:
    rows = pq.read_table(next(Path(folder).rglob(f"{config}/*.parquet"))).to_pylist()
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForCausalLM.from_pretrained(model_name, dtype=torch.float32).eval()
    texts, errors = {}, collections.defaultdict(list)
    for row in rows:
        for side in ("high", "low"):
            texts[row["cluster_id"], row[side]] = row["context"]
        for error in row["low_spans"] or []:
            error |= {"category": error["category"] or row["category"], "severity": ""}
            if error not in errors[row["cluster_id"], row["low"]]:
                errors[row["cluster_id"], row["low"]].append(error)
    counts = collections.Counter()
    for _, text in texts:
        counts.update(tokenizer(f" {text}", add_special_tokens=False)["input_ids"])
    total, most = counts.total(), max(counts)
    by_token = collections.defaultdict(list)  # category -> AUC of the model
    prompts = collections.defaultdict(lambda: collections.defaultdict(list))  # category -> prompt -> (model, frequency)
    for done, ((cluster, text), marked) in enumerate(errors.items()):
        if not marked:
            continue
        before = prompt.replace("{context}", texts[cluster, text])
        encoded = tokenizer(f"{before} {text}", add_special_tokens=False, return_offsets_mapping=True)
        ids, start = encoded["input_ids"], len(tokenizer(before, add_special_tokens=False)["input_ids"])
        with torch.inference_mode():
            logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        of_character = [n for n, word in enumerate(re.findall(r"\s*(?:\w+|[^\w\s])|\s+", text)) for _ in word]
        tokens, words = [], []
        for i in range(start, len(ids)):
            begin, end = (place - len(before) - 1 for place in encoded["offset_mapping"][i])
            if max(end, 0) > max(begin, 0):
                surprise = -float(logprobs[i - 1, ids[i]])
                common = math.log(
                    (total + most + 2) / (counts[ids[i]] + 1)
                )  # the counts of all ids from 0 to `most` plus one
                own = {j for j, e in enumerate(marked) if begin < e["end"] and end > e["start"]}
                tokens.append((surprise, own))
                here = set(of_character[max(begin, 0) : end])
                if words and words[-1][3] & here:
                    surprise, common = words[-1][0] + surprise, words[-1][1] + common
                    own, here = words[-1][2] | own, words.pop()[3] | here
                words.append((surprise, common, own, here))
        for category in {"all", *(e["category"] for e in marked)}:
            wanted = {j for j, e in enumerate(marked) if category in ("all", e["category"])}
            kept = [(s, bool(own & wanted)) for s, own in tokens if own & wanted or not own]
            if 0 < sum(m for _, m in kept) < len(kept):
                by_token[category].append(share_of_pairs(*zip(*kept, strict=True)))
            kept = [(s, c, bool(own & wanted)) for s, c, own, _ in words if own & wanted or not own]
            if 0 < sum(m for *_, m in kept) < len(kept):
                of_model, of_counts, marks = zip(*kept, strict=True)
                prompts[category][cluster].append((share_of_pairs(of_model, marks), share_of_pairs(of_counts, marks)))
        if done % 500 == 0:
            print(f"{done} of {len(errors)}", file=sys.stderr)
    for category, by_prompt in sorted(prompts.items()):
        pairs = [pair for found in by_prompt.values() for pair in found]
        own, common = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        excess = own - common
        off = [sum(a - b - excess for a, b in found) for found in by_prompt.values()]
        k = len(off)
        error = math.sqrt(k / (k - 1) * sum(o * o for o in off)) / len(pairs) if k > 1 else math.nan
        auc = sum(by_token[category]) / len(by_token[category])
        print(
            f"{category}: AUC {auc:.4f}, of words {own:.4f}, frequency {common:.4f}, excess {excess:+.4f} ({error:.4f}), "
            f"{len(pairs)} texts"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
