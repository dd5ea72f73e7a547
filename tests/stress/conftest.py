"""A tiny masked language model, and the models of the harness's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from tests.harness.conftest import _one_thread, tiny_models  # noqa: F401 - fixtures


def build_masked_model(folder: Path) -> Path:
    """Write a tiny BERT with random weights and a word-piece tokenizer."""
    texts = [
        "One day the cat went to the house of the dog.",
        "It was late, and nobody knew the song.",
        "Paris Boston Monday",
    ]
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    inner.train_from_iterator(texts, trainer)
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", inner.token_to_id("[CLS]")), ("[SEP]", inner.token_to_id("[SEP]"))],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=512,
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=512,
    )
    model = BertForMaskedLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8.0)
    model.eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def masked_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny masked language model."""
    return build_masked_model(tmp_path_factory.mktemp("masked"))
