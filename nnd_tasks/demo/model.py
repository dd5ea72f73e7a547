"""The demo's tiny language model: made with random weights, trained, and kept for the next run."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnd_tasks.demo import training_text as text
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing
from nnd_tasks.folders import rewriting
from nnd_tasks.models import byte_tokenizer
from nnd_tasks.models.byte_tokenizer import train_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

BEGIN, END = "<|begin|>", "<|end|>"
#: File in a model's folder that records the settings which it was made with; it is written last.
RECORD = "training.json"

#: One document as tokens: ids, and the weight of each in the loss, both of shape (tokens,).
Encoded = tuple[list[int], list[float]]


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that the weights depend on, besides the text and the machine.

    Attributes:
        seed: of the weights, the documents and their order.
        steps: number of optimizer steps, and not of seconds, so that a busy machine gets the same weights.
        batch_tokens: most tokens of a step, padding included.
        learning_rate: at its peak; it rises over the first 5% of the steps and falls linearly over the last 60%.
        weight_decay: of the matrices between the embeddings.
        prompt_weight: weight of a prompt's token in the loss; tokens of questions, answers and summaries have 1.
        vocabulary: number of tokens.
        width: of the residual stream.
        layers: number of transformer layers.
        heads: attention heads of each layer.
        window: most tokens that the model can read.
    """

    seed: int = 0
    steps: int = 240
    batch_tokens: int = 1024
    learning_rate: float = 0.015
    weight_decay: float = 0.1
    prompt_weight: float = 0.5
    vocabulary: int = 3000
    width: int = 128
    layers: int = 2
    heads: int = 4
    window: int = 512

    def digest(self) -> str:
        """Return 16 hex digits that change with any setting, with the training text, and with the code that makes the model."""
        content = [json.dumps(asdict(self), sort_keys=True).encode()]
        code = [Path(file) for file in (text.__file__, byte_tokenizer.__file__, __file__)]
        content += [path.read_bytes() for path in (text.WORDS, text.FRAMES, *code)]
        return hashlib.sha256(b"\0".join(content)).hexdigest()[:16]


def training_documents(settings: TrainingSettings) -> list[text.Document]:
    """Return the documents that the model is trained on; it sees each at most once."""
    return list(text.make_documents(settings.steps * settings.batch_tokens // 70, settings.seed))


def make_tokenizer(texts: Iterable[str], settings: TrainingSettings) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer trained on ``texts``; any other text falls back to bytes."""
    return train_tokenizer(
        texts,
        settings.vocabulary,
        [BEGIN, END],
        bos_token=BEGIN,
        eos_token=END,
        model_max_length=settings.window,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: PreTrainedTokenizerFast, settings: TrainingSettings) -> LlamaForCausalLM:
    """Return a tiny Llama-style model with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(settings.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.width,
        intermediate_size=3 * settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        max_position_embeddings=settings.window,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


def encode(document: text.Document, tokenizer: PreTrainedTokenizerFast, settings: TrainingSettings) -> Encoded:
    """Return a document as tokens with their weights in the loss, cut at the model's window."""
    ids: list[int] = []
    weights: list[float] = []
    for part, weight in [
        pair for prompt, tail in document for pair in ((prompt, settings.prompt_weight), (tail, 1.0))
    ] + [(END, 1.0)]:
        tokens = tokenizer(part, add_special_tokens=False)["input_ids"]
        ids += tokens
        weights += [weight] * len(tokens)
    return ids[: settings.window], weights[: settings.window]


def batches(encoded: Sequence[Encoded], settings: TrainingSettings) -> Iterator[list[Encoded]]:
    """Yield documents of similar length together, as many as ``batch_tokens`` allows, in random order.

    Args:
        encoded: all documents.
        settings: the number of tokens, and the seed of the order.
    """
    rng = random.Random(settings.seed)  # noqa: S311 - nothing secret here
    chunk = 600  # documents that are sorted by length together
    for start in range(0, len(encoded), chunk):
        groups: list[list[Encoded]] = [[]]
        for item in sorted(encoded[start : start + chunk], key=lambda item: len(item[0])):
            if groups[-1] and (len(groups[-1]) + 1) * len(item[0]) > settings.batch_tokens:
                groups.append([])
            groups[-1].append(item)
        rng.shuffle(groups)
        yield from groups


def _loss(model: LlamaForCausalLM, batch: Sequence[Encoded]) -> torch.Tensor:
    """Return the weighted mean negative log-likelihood of the tokens of a batch, in nats."""
    import torch

    longest = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    weights = torch.zeros(len(batch), longest)
    for row, (tokens, weight) in enumerate(batch):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        weights[row, : len(tokens)] = torch.tensor(weight)
    # Padding comes last and has weight 0, so a causal model needs no mask for it.
    logits = model(input_ids=ids[:, :-1]).logits.flatten(0, 1)
    losses = torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten(), reduction="none")
    wanted = weights[:, 1:].flatten()
    return (losses * wanted).sum() / wanted.sum()


def train(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    documents: Sequence[text.Document],
    settings: TrainingSettings,
) -> float:
    """Train ``model`` in place, with a progress bar on a terminal; return a moving average of the loss at the end, in nats.

    Args:
        model: a model with random weights.
        tokenizer: its tokenizer.
        documents: each is seen at most once.
        settings: steps, learning rate and so on.

    Raises:
        NNDError: this PyTorch has no Muon.
    """
    import torch
    from tqdm import tqdm

    if not hasattr(torch.optim, "Muon"):
        raise NNDError(f"the demo trains with torch.optim.Muon, which PyTorch {torch.__version__} lacks; install 2.9")
    # Muon learns to copy names from a paragraph in a third of the steps that AdamW needs, but is for matrices only.
    matrices = [parameter for parameter in model.model.layers.parameters() if parameter.ndim == 2]
    taken = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    optimizers: list[Any] = [
        torch.optim.Muon(matrices, weight_decay=settings.weight_decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    encoded = [encode(document, tokenizer, settings) for document in documents]
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    model.train()
    average = 0.0
    bar = tqdm(range(settings.steps), desc="training", unit="step", disable=None, file=sys.stderr)
    for step, batch in zip(bar, batches(encoded, settings), strict=False):
        rise, fall = (step + 1) / (0.05 * settings.steps), (settings.steps - step) / (0.6 * settings.steps)
        loss = _loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * min(rise, fall, 1.0)
            optimizer.step()
            optimizer.zero_grad()
        average = loss.item() if not step else 0.95 * average + 0.05 * loss.item()
        bar.set_postfix(loss=f"{average:.2f}")
    model.eval()
    torch.use_deterministic_algorithms(before)
    return average


def _save(folder: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, record: dict[str, Any]) -> None:
    """Write a model's folder, whole or not at all."""
    with rewriting(folder) as new:
        model.save_pretrained(new)
        tokenizer.save_pretrained(new)
        (new / RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")


def _made_with(folder: Path) -> str | None:
    """Return the digest of the settings that a model's folder was made with; None where it is not complete."""
    try:
        digest = json.loads((folder / RECORD).read_text(encoding="utf-8"))["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(digest) if (folder / "model.safetensors").is_file() else None


def make_models(untrained: Path, trained: Path, settings: TrainingSettings) -> bool:
    """Write a model with random weights and the same model after training, unless both exist with these settings.

    Args:
        untrained: the folder of the first.
        trained: the folder of the second.
        settings: of the model, the text and the training.

    Returns:
        Whether they had to be made.

    Raises:
        NNDError: a folder cannot be written.
    """
    digest = settings.digest()
    if _made_with(untrained) == digest == _made_with(trained):
        return False
    documents = training_documents(settings)
    tokenizer = make_tokenizer(("".join(p + tail for p, tail in document) for document in documents[:4000]), settings)
    model = make_model(tokenizer, settings)
    with changing(f"the demo's models in {trained.parent}"):
        _save(untrained, model, tokenizer, {"settings": digest, **asdict(settings), "steps": 0})
        loss = train(model, tokenizer, documents, settings)
        _save(trained, model, tokenizer, {"settings": digest, **asdict(settings), "loss": loss})
    return True
