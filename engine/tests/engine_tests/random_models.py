"""Tiny models with random weights, built from configs, with tokenizers that are trained on given texts."""

from pathlib import Path

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
#: Model -> what its config says besides the size of the vocabulary.
CONFIGS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
WINDOW = CONFIGS["gpt2"]["n_positions"]
#: GPT-2 and Llama start with small weights, which give nearly flat distributions; larger ones make candidates differ.
FLAT = 3.0


#: What the tokenizers of this package's own tests are trained on.
TEXTS = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8").splitlines()


def byte_level(special, texts=TEXTS):
    """Train a byte-level BPE tokenizer with some special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    return tokenizer


def gpt2(folder, texts=TEXTS):
    """GPT-2: one special token that begins and ends a text, added by nobody."""
    end = "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level([end], texts), bos_token=end, eos_token=end, unk_token=end, model_max_length=WINDOW
    )
    torch.manual_seed(1)
    return save(GPT2LMHeadModel(GPT2Config(**CONFIGS["gpt2"], vocab_size=len(tokenizer))), tokenizer, folder, FLAT)


def llama(folder, texts=TEXTS):
    """Llama: the tokenizer puts BOS before every text, has a chat template, and another EOS."""
    inner = byte_level(["<s>", "</s>"], texts)
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", model_max_length=WINDOW, chat_template=CHAT_TEMPLATE
    )
    torch.manual_seed(2)
    return save(LlamaForCausalLM(LlamaConfig(**CONFIGS["llama"], vocab_size=len(tokenizer))), tokenizer, folder, FLAT)


def t5(folder, texts=TEXTS):
    """T5: unigram pieces, EOS after every text, decoding starts at the pad token."""
    inner = Tokenizer(models.Unigram())
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("\n", " ")])
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.train_from_iterator(
        texts,
        trainers.UnigramTrainer(
            vocab_size=2000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
        ),
    )
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=WINDOW
    )
    torch.manual_seed(3)
    return save(T5ForConditionalGeneration(T5Config(**CONFIGS["t5"], vocab_size=len(tokenizer))), tokenizer, folder)


def save(model, tokenizer, folder, scale=1.0):
    """Write a model, its weights multiplied with ``scale``, and its tokenizer; return the folder."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def bert(folder):
    """Write a tiny BERT with random weights and a word-piece tokenizer."""
    texts = [
        "One day the cat went to the house of the dog.",
        "It was late, and nobody knew the song.",
        "Paris Boston Monday",
    ]
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=[*special.values()], show_progress=False)
    inner.train_from_iterator(texts, trainer)
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, inner.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=512, **special)
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**CONFIGS["bert"], vocab_size=len(tokenizer)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8.0)
    return save(model, tokenizer, folder)


BUILDERS = {"gpt2": gpt2, "llama": llama, "t5": t5}
