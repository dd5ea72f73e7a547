"""What the benchmarks score: real requests of our tasks, and models of known shapes with random weights."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

import nnd_tasks
from nnd_tasks.task.documents import cluster_documents

DATA = Path(os.environ.get("NND_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
VOCABULARY = 50257  # of the models with a large head
WINDOW = 8192
#: Set with long contexts -> its folder in `DATA`, and its prompt.
LONG = {
    "when2call": ("next/when2call/data/test", "Tools: {context}\n\nUser: {question}\n\nAssistant:"),
    "mtrag": ("next/mtrag/mtrag-human/evaluations", "{context}\n\nUser: {question}\n\nAgent:"),
    "d2t": ("next/d2t_spans", "Data: {context}\n\nText:"),
}


@dataclass
class Workload:
    """Requests of one set.

    Attributes:
        name: for the table.
        prompts: prompt -> its distinct candidates, as texts to be scored after it.
        pairs: (prompt, better, worse) of each test.
    """

    name: str
    prompts: dict[str, list[str]]
    pairs: list[tuple[str, str, str]]

    @property
    def distinct(self) -> list[tuple[str, str]]:
        """Return every distinct (prompt, candidate)."""
        return [(prompt, candidate) for prompt, candidates in self.prompts.items() for candidate in candidates]


def quiz_design(groups: int | None) -> Workload:
    """Return the first ``groups`` groups of Quiz Design, or all, in our default prompt."""
    rows = nnd_tasks.load("quiz_design")
    if groups is not None:
        wanted = list(dict.fromkeys(rows["context_id"]))[:groups]
        rows = rows.filter(lambda row: row["context_id"] in set(wanted))
    return _workload("Quiz Design", rows, "{context}\n\nAnswer: {answer}\nQuestion:")


def summeval(articles: int | None, config: str = "all_rows") -> Workload:
    """Return the first ``articles`` articles of SummEval with all their summaries, or all articles."""
    rows = nnd_tasks.load("summeval", config)
    if articles is not None:
        wanted = list(dict.fromkeys(rows["cluster_id"]))[:articles]
        rows = rows.filter(lambda row: row["cluster_id"] in set(wanted))
    return _workload("SummEval", rows, "{context}\n\nSummary:")


def long_contexts(characters: int) -> list[Workload]:
    """Return of each set with long contexts (tools, passages, data) the first prompts that have so many characters together."""
    works = []
    for name, (_, template) in LONG.items():
        rows = nnd_tasks.load(name)
        prompts = rows.to_pandas().drop_duplicates("cluster_id")
        wanted = set(prompts["cluster_id"][prompts["context"].str.len().cumsum() <= characters])
        works.append(_workload(name, rows.filter(lambda row, wanted=wanted: row["cluster_id"] in wanted), template))
    return works


def _workload(name: str, rows: Any, template: str) -> Workload:
    prompts: dict[str, list[str]] = {}
    pairs = []
    for document in cluster_documents(rows.with_format("arrow")[:], name):
        prompt = template.format(**document)
        texts = [f" {text}" for text in document["candidates"]]
        prompts[prompt] = [text for text in texts if text.strip()]
        pairs += [(prompt, texts[test["high"]], texts[test["low"]]) for test in document["tests"]]
    return Workload(name, prompts, pairs)


def build_sets(home: Path) -> None:
    """Build the sets below ``home`` and make it the home of this process."""
    os.environ["NND_HOME"] = str(home)
    folders = {name: name for name in ("quiz_design", "summeval")} | {
        name: folder for name, (folder, _) in LONG.items()
    }
    for name, folder in folders.items():
        nnd_tasks.build_set(name, DATA / folder, progress=False)


# ---------------------------------------------------------------- models


def train_tokenizer(
    texts: Iterable[str], vocabulary: int, special: Sequence[str], **settings: Any
) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer trained on ``texts``; it encodes any other text too.

    Args:
        texts: to train on.
        vocabulary: most tokens.
        special: tokens with the first ids, such as the one that ends a text.
        settings: of `transformers.PreTrainedTokenizerFast`, such as ``eos_token``.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)


def tokenizer(folder: Path, texts: Iterable[str], *, seq2seq: bool) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer of 16,000 pieces; of an encoder-decoder it ends every text with EOS."""
    settings = {"pad_token": "<pad>", "eos_token": "</s>", "model_max_length": WINDOW}
    fast = train_tokenizer(texts, 16000, ["<pad>", "</s>"], **settings)
    if seq2seq:
        ending = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
        fast.backend_tokenizer.post_processor = ending
    fast.save_pretrained(folder)
    return fast


_SPECIAL = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
_WIDE_512 = {
    "vocab_size": 32000,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": WINDOW,
    **_SPECIAL,
}
_WIDE_64 = {
    "vocab_size": 16000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
_WIDE_2048 = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "tie_word_embeddings": True,
}
_BART = {
    "vocab_size": 50265,
    "d_model": 768,
    **{f"{part}_layers": 6 for part in ("encoder", "decoder")},
    **{f"{part}_ffn_dim": 3072 for part in ("encoder", "decoder")},
    **{f"{part}_attention_heads": 12 for part in ("encoder", "decoder")},
    "max_position_embeddings": WINDOW,
    "decoder_start_token_id": 1,
    **_SPECIAL,
}
#: Name -> (type of transformers, its config). The last six are small models with the layers of well-known large ones.
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-2 small": ("gpt2", {"vocab_size": VOCABULARY, "n_positions": WINDOW, **_SPECIAL}),
    "Llama 8 x 512": ("llama", {**_WIDE_512, "num_hidden_layers": 8}),
    "Llama 1B": ("llama", {**_WIDE_512, **_WIDE_2048, "num_key_value_heads": 8}),
    "tiny Llama": ("llama", {**_WIDE_512, **_WIDE_64}),
    "T5 6 x 512": (
        "t5",
        {"vocab_size": 32128, "n_positions": WINDOW, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1},
    ),
    "BART 6 x 768": ("bart", _BART),
    # Attention by distance (ALiBi).
    "BLOOM 8 x 512": ("bloom", {"vocab_size": VOCABULARY, "hidden_size": 512, "n_layer": 8, "n_head": 8, **_SPECIAL}),
    # Five layers with a window to one without.
    "Gemma 3 6 x 512": ("gemma3_text", {**_WIDE_512, "num_hidden_layers": 6, "sliding_window": 256}),
    # Each token goes to 4 of 16 experts.
    "Qwen 3 MoE 6 x 512": (
        "qwen3_moe",
        {
            **_WIDE_512,
            "num_hidden_layers": 6,
            "num_experts": 16,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 352,
        },
    ),
    # Short convolutions, and attention in every third layer.
    "LFM2 6 x 512": (
        "lfm2",
        {**_WIDE_512, "num_hidden_layers": 6, "layer_types": ["conv", "conv", "full_attention"] * 2},
    ),
    # A gated delta rule, attention in every third layer, and experts.
    "Qwen3-Next 6 x 512": (
        "qwen3_next",
        {
            **_WIDE_512,
            "num_hidden_layers": 6,
            "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2,
            "linear_num_value_heads": 8,
            "linear_num_key_heads": 4,
            "linear_key_head_dim": 64,
            "linear_value_head_dim": 64,
            "num_experts": 16,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 352,
            "shared_expert_intermediate_size": 352,
        },
    ),
    # A state space of Mamba 2, and attention in every third layer.
    "Granite 4 hybrid 6 x 512": (
        "granitemoehybrid",
        {
            **_WIDE_512,
            "num_hidden_layers": 6,
            "layer_types": ["mamba", "mamba", "attention"] * 2,
            "mamba_n_heads": 16,
            "mamba_d_head": 64,
            "mamba_d_state": 128,
            "mamba_n_groups": 1,
            "num_local_experts": 0,
            "shared_intermediate_size": 1408,
        },
    ),
}


def make(shape: str, folder: Path) -> str:
    """Write a model with random weights into ``folder``; return ``causal`` or ``seq2seq``."""
    torch.manual_seed(0)
    model_type, settings = SHAPES[shape]
    config = AutoConfig.for_model(model_type, **settings)
    kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    kind.from_config(config).eval().save_pretrained(folder)
    return "seq2seq" if config.is_encoder_decoder else "causal"


def machine() -> str:
    """Return one line about this machine."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        name = names[0] if names else name
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{name}, {torch.get_num_threads()} threads, {gpu}; torch {torch.__version__}, Python {platform.python_version()}"
