"""Runs with token scores and marked errors, with made-up texts and scores."""

import re

import numpy as np

from tests.results import fake_runs
from tests.results.fake_runs import score

_WORDS = "the a river city over under stone quickly walked green house found small letters 城市 naïve Straße 🙂 of and"


def documents(count, *, each=3, words=30, context=60):
    """Return prompts with one good candidate and ``each`` worse ones, in which one word or two are others and marked."""
    rng = np.random.default_rng(0)
    made = []
    for i in range(count):
        good = rng.choice(_WORDS.split(), words).tolist()
        candidates, marks, tests = [" ".join(good)], [[]], []
        for j in range(each):
            at = int(rng.integers(1, words - 1))
            bad = [*good[:at], f"Wr0ng{j}", *good[at + 1 + j % 2 :]]
            start = len(" ".join(good[:at])) + 1
            kind = {"category": ("grammar", "meaning")[j % 2], "severity": "major"}
            candidates.append(" ".join(bad))
            marks.append([{"start": start, "end": start + 6, **kind}])
            tests.append({"test_id": f"{i:05x}-{j}", **kind, "subcategory": "", "high": 0, "low": j + 1})
        text = " ".join(rng.choice(_WORDS.split(), context).tolist())
        document = {"cluster_id": f"c{i:05x}", "context": f"Source {i}: {text}", "question": f"Which of {i}?"}
        made.append({**document, "candidates": candidates, "error_spans": marks, "tests": tests})
    return made


def write_run(folder, model, made, *, seed=0, without_context=False, **more):
    """Write the files of a run; a token is a word with the space before it, a wrong word is more surprising.

    Characters beyond ASCII are tokens of their own, twice, as bytes of one character are. There is an end-of-sequence token.
    With ``without_context`` the candidates have scores without the context too; ``more`` is for `fake_runs.write_run`.
    """
    rng = np.random.default_rng(seed)
    noise = np.random.default_rng([seed, 1])  # of its own, so that the other numbers are the same with it and without
    samples = []
    for document in made:
        tokens = []
        for text in document["candidates"]:
            spans = [match.span() for match in re.finditer(r" ?[\x21-\x7e]+| ?[^\x00-\x7f]", text)]
            spans = [span for span in spans for _ in range(1 + (not text[slice(*span)].isascii()))] + [(len(text),) * 2]
            logprobs = -rng.exponential(2, len(spans))
            logprobs -= [4.0 if "Wr0ng" in text[slice(*span)] else 0.0 for span in spans]
            ids = [int.from_bytes(text[slice(*span)].encode()[-4:], "little") % 500 for span in spans]
            tokens.append(
                [
                    (one, *span, logprob)
                    for one, span, logprob in zip(ids, spans, logprobs.astype(np.float32), strict=True)
                ]
            )
        sample = fake_runs.sample_of_tokens(document, tokens)
        if without_context:
            sample["no_context"] = [
                score(one["mean"] + float(noise.normal()) / 2, one["tokens"], one["bytes"])
                for one in sample["candidates"]
            ]
        samples.append(sample)
    return fake_runs.write_run(folder, model, samples=samples, **{"task": "nnd_marked", "spans": "s1", **more})
