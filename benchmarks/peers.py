"""The table of docs/peers.md: sums, tokens and outcomes of ten made-up pairs, by packages that score the same texts.

    pip install uv
    python benchmarks/peers.py --work FOLDER --tool lm-eval --tool minicons  # all of them without --tool; minutes

Each package gets an environment of its own below ``--work``, with pinned versions, and computes in float32. It is asked twice: as
its documentation shows it, and as docs/peers.md says that it agrees. ``--model`` is a folder of transformers, and ``--gguf`` the
same weights for llama.cpp. vLLM needs an environment that you have made: ``--work`` with a folder ``vllm``. Results stay in
``--work``; the table is printed of all that are there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

#: Context, better and worse text. They differ in what packages treat differently: before the text stands a word, a line feed, a
#: space, nothing, or half a word; texts have other lengths, end in a line feed, or have many tokens for few characters.
PAIRS = [
    ("The cat sat on the", " mat.", " windowsill of the."),
    ("Good morning in French:", " Bonjour.", " Bonne nuit, madame."),
    ("Question: What is the capital of Italy?\n", "Rome", "The capital is Milan."),
    ("Name: ", "Anna Keller", "Keller Anna"),
    ("", "The report was finished on Monday.", "The report was finish on Monday."),
    ("She said that it was un", "likely.", "happy."),
    ("2 + 2 =", " 4", " 22"),
    ("I bought three things:", " apples, pears and bread.\n", " apples pears bread."),
    (
        "Anna lost her keys in the park on Sunday. A boy found them and took them to the police.\nSummary:",
        " A boy found Anna's keys.",
        " Anna found a boy's keys in the park on Sunday.",
    ),
    ("Good day in Russian:", " Добрый день", " До свидания"),
]
PACKAGES = {
    "transformers": ["transformers==5.23.0"],
    "lm-eval": ["transformers==5.23.0", "lm-eval[hf]==0.4.13"],
    "lighteval": ["transformers==5.23.0", "lighteval==0.13.0"],
    "minicons": ["transformers==5.23.0", "minicons==0.3.39"],
    "surprisal": ["transformers==5.23.0", "surprisal==0.1.7"],
    # It asks for vLLM, which it does not import: what it imports, and then itself.
    "ppllm": ["transformers==5.23.0", "accelerate", "datasets", "jsonargparse", "pandas", "--no-deps", "ppllm==0.2.3"],
    "ctranslate2": ["transformers==5.23.0", "ctranslate2==4.8.5"],
    "vllm": [],
    "llama.cpp": ["llama-cpp-python==0.3.36"],
}
Pairs = list[tuple[str, str]]
Scores = list[tuple[float, int | None, float]]
"""Of each text: the sum of its log-probabilities in nats, its tokens, and what the package itself would compare."""


def read(agree: bool) -> Pairs:
    """Return context and text of every text; to agree, with white space before the text, and BOS where there is no context."""
    pairs = [(context, text) for context, *both in PAIRS for text in both]
    if not agree:
        return pairs
    return [(context.rstrip() or "<|im_start|>", context[len(context.rstrip()) :] + text) for context, text in pairs]


def mean(each: list[float]) -> tuple[float, int, float]:
    """Return the sum, the number and the mean of log-probabilities by token."""
    return sum(each), len(each), sum(each) / len(each)


def score_transformers(model: str, pairs: Pairs, agree: bool) -> Scores:
    """As many people write it: cut off the context's tokens, divide by the rest. The first token of all has no number."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, network = (
        AutoTokenizer.from_pretrained(model),
        AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
    )
    scores = []
    for context, text in pairs:
        tokens, start = tokenizer(context + text).input_ids, len(tokenizer(context).input_ids)
        with torch.no_grad():
            steps = network(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        scores.append(mean(steps[range(len(tokens) - 1), tokens[1:]].tolist()[max(start - 1, 0) :]))
    return scores


def score_lm_eval(model: str, pairs: Pairs, agree: bool) -> Scores:
    """``acc_norm`` divides by characters; to agree, divide by the tokens that are scored."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    harness = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=1)
    answers = harness.loglikelihood([Instance("loglikelihood", {}, pair, 0) for pair in pairs], disable_tqdm=True)
    tokens = [len(harness._encode_pair(*pair)[1]) if agree else None for pair in pairs]
    return [(a[0], n, a[0] / (n or len(p[1]))) for a, n, p in zip(answers, tokens, pairs, strict=True)]


def score_lighteval(model: str, pairs: Pairs, agree: bool) -> Scores:
    """By tokens (``LogProbTokenNorm``); to agree, without the chat template, and a document for each text."""
    from lighteval.metrics.normalizations import LogProbTokenNorm, normalize_log_probs
    from lighteval.models.transformers.transformers_model import TransformersModel, TransformersModelConfig
    from lighteval.tasks.requests import Doc, SamplingMethod

    settings = {"override_chat_template": False} if agree else {}
    folder = f"cache-{agree}"
    config = TransformersModelConfig(
        model_name=model, dtype="float32", device="cpu", batch_size=1, cache_dir=folder, **settings
    )
    choices = [[text] for _, text in pairs] if agree else [[pairs[i][1], pairs[i + 1][1]] for i in range(0, 20, 2)]
    contexts = [context for context, _ in pairs][:: 1 if agree else 2]
    how: Any = {"task_name": "pairs|0", "sampling_methods": [SamplingMethod.LOGPROBS]}
    docs = [Doc(c, t, 0, id=str(i), **how) for i, (c, t) in enumerate(zip(contexts, choices, strict=True))]
    scores: Scores = []
    for doc, response in zip(docs, TransformersModel(config).loglikelihood(docs), strict=True):
        tokens = response.output_tokens
        values = normalize_log_probs(LogProbTokenNorm(), response.logprobs, None, doc.choices, tokens)
        scores += zip(response.logprobs, map(len, tokens), values, strict=True)
    return scores


def score_minicons(model: str, pairs: Pairs, agree: bool) -> Scores:
    """``conditional_score`` puts a space between context and text; to agree, ``separator=""``."""
    from minicons.scorer import IncrementalLMScorer

    scorer = IncrementalLMScorer(model, "cpu", dtype="float32")
    how = {"separator": ""} if agree else {}
    return [
        mean(scorer.conditional_score([context], [text], reduction=lambda steps: steps.tolist(), **how)[0])
        for context, text in pairs
    ]


def score_surprisal(model: str, pairs: Pairs, agree: bool) -> Scores:
    """The characters of the text, of a batch of a pair; to agree, without BOS, each text alone."""
    from surprisal import AutoHuggingFaceModel

    network = AutoHuggingFaceModel.from_pretrained(model, model_class="causal", precision="fp32")
    size, how = (1, {"use_bos_token": False}) if agree else (2, {})
    whole = [context + text for context, text in pairs]
    results = [r for i in range(0, 20, size) for r in network.surprise(whole[i : i + size], **how)]
    scores: Scores = []
    for (context, _), text, result in zip(pairs, whole, results, strict=True):
        total = -float(result[len(context) : len(text)])
        tokens = sum(end > len(context) for _, end in result._tokens.offsets)
        scores.append((total, tokens, total / tokens if agree else total))
    return scores


def score_ppllm(model: str, pairs: Pairs, agree: bool) -> Scores:
    """Perplexities of texts after contexts."""
    import torch
    from ppllm.ppl import LoaderKwargs, compute_ppl
    from ppllm.utils import fix_tokenizer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, network = (
        AutoTokenizer.from_pretrained(model),
        AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
    )
    fix_tokenizer(tokenizer)
    rows = [{"context": context, "text": context + text} for context, text in pairs]
    loader = LoaderKwargs(batch_size=1, num_workers=0)
    found = compute_ppl(rows, network, tokenizer, loader_kwargs=loader, input_key="text", context_key="context")
    return [
        (-float(s), int(n), -float(s / n)) for s, n in zip(found["total_losses"], found["total_tokens"], strict=True)
    ]


def score_ctranslate2(model: str, pairs: Pairs, agree: bool) -> Scores:
    """The tokens that follow the context's."""
    import ctranslate2
    from transformers import AutoTokenizer

    folder = ctranslate2.converters.TransformersConverter(model).convert(
        "converted", quantization="float32", force=True
    )
    generator, tokenizer = (
        ctranslate2.Generator(folder, device="cpu", compute_type="float32"),
        AutoTokenizer.from_pretrained(model),
    )
    batch = [tokenizer.tokenize(context + text) for context, text in pairs]
    found = generator.score_batch(batch, max_batch_size=1)
    starts = [max(len(tokenizer.tokenize(context)) - 1, 0) for context, _ in pairs]
    return [mean(result.log_probs[start:]) for result, start in zip(found, starts, strict=True)]


def score_vllm(model: str, pairs: Pairs, agree: bool) -> Scores:
    """``prompt_logprobs``, whose first entry is None."""
    from vllm import LLM, SamplingParams

    engine = LLM(model, dtype="float32", max_model_len=512, gpu_memory_utilization=0.1)
    tokenizer = engine.get_tokenizer()
    found = engine.generate(
        [context + text for context, text in pairs], SamplingParams(prompt_logprobs=0, max_tokens=1)
    )
    scores = []
    for (context, _), result in zip(pairs, found, strict=True):
        each = [
            step[token].logprob
            for step, token in zip(result.prompt_logprobs[1:], result.prompt_token_ids[1:], strict=True)
        ]
        scores.append(mean(each[max(len(tokenizer.encode(context)) - 1, 0) :]))
    return scores


def score_llama_cpp(model: str, pairs: Pairs, agree: bool) -> Scores:
    """``echo`` and ``logprobs`` of a completion; to agree, the logits of `eval`."""
    import llama_cpp
    import numpy

    engine = llama_cpp.Llama(model, n_ctx=512, logits_all=True, verbose=False)
    scores = []
    for context, text in pairs:
        tokens = engine.tokenize((context + text).encode(), add_bos=False, special=agree)
        start = len(engine.tokenize(context.encode(), add_bos=False, special=agree))
        if agree:
            engine.reset()
            engine.eval(tokens)
            logits = numpy.asarray(engine.scores[: len(tokens) - 1], dtype=numpy.float64)
            steps = logits - numpy.logaddexp.reduce(logits, axis=1, keepdims=True)
            each = steps[range(len(tokens) - 1), tokens[1:]].tolist()
        else:
            answer = engine.create_completion(context + text, max_tokens=1, echo=True, logprobs=1, temperature=0)
            each = answer["choices"][0]["logprobs"]["token_logprobs"][1 : len(tokens)]
        scores.append(mean(each[max(start - 1, 0) :]))
    return scores


def run(tool: str, work: Path, model: str) -> None:
    """Make the package's environment, and have it score the texts both ways, each in a process of its own."""
    python = work / tool / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "-q", "-p", "3.11", work / tool], check=True)
        first, _, alone = ((",".join(PACKAGES[tool])) + ",").partition("--no-deps,")
        for extra, names in ((["torch==2.13.0"], first), (["--no-deps"], alone)):
            if names.strip(","):
                wanted = [*extra, *names.strip(",").split(",")]
                subprocess.run(["uv", "pip", "install", "-q", "--python", python, *wanted], check=True)
    command = [python, Path(__file__).resolve(), "--work", work, "--model", model, "--score", tool]
    subprocess.run(list(map(str, command)), check=True, cwd=work)


def table(work: Path) -> str:
    """Write the table in Markdown: each package's sums, tokens and outcomes, beside those of lm-eval's sums by token."""
    found = {path.stem: json.loads(path.read_text()) for path in work.glob("*.json")}
    if (right := found.get("lm-eval agree")) is None:
        return "no table without --tool lm-eval"
    lines = ["| package | called | equal sums | tokens | outcomes |", "|---|---|---:|---:|---|"]
    for tool in PACKAGES:
        for way in ("usual", "agree"):
            if scores := found.get(f"{tool} {way}"):
                equal = sum(abs(mine[0] - other[0]) < 0.01 for mine, other in zip(scores, right, strict=True))
                tokens = [score[1] for score in scores]
                count = "-" if None in tokens else sum(tokens)
                wins = [scores[i][2] > scores[i + 1][2] for i in range(0, 20, 2)]
                passes = "".join("-+"[won] for won in wins)
                lines.append(f"| {tool} | {way} | {equal} | {count} | `{passes}` |")
    return "\n".join(lines)


def main() -> None:
    """Run the packages that are named, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", help="folder of a model with a BOS token <|im_start|>, such as SmolLM2's")
    parser.add_argument("--gguf", help="the same for llama.cpp")
    parser.add_argument("--tool", action="append", choices=list(PACKAGES))
    parser.add_argument("--score", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.score:
        score = globals()["score_" + args.score.replace("-", "_").replace(".", "_")]
        for way in ("usual", "agree"):
            scores = score(args.model, read(way == "agree"), way == "agree")
            (args.work / f"{args.score} {way}.json").write_text(
                json.dumps([[float(s), n, float(v)] for s, n, v in scores])
            )
        return
    for tool in args.tool or PACKAGES:
        run(tool, args.work.resolve(), args.gguf if tool == "llama.cpp" else args.model)
    print(table(args.work))


if __name__ == "__main__":
    main()
