"""Tiny models with random weights, built from configs, and the runs that the tests share."""

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

import nnd_tasks
from tests.conftest import DEMO_ANNOTATIONS as DEMO_TEXT

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
#: Model -> what its config says besides the size of the vocabulary.
CONFIGS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
WINDOW = CONFIGS["gpt2"]["n_positions"]
#: GPT-2 and Llama start with small weights, which give nearly flat distributions; larger ones make candidates differ.
FLAT = 3.0


def texts():
    """List the texts that the tokenizers are trained on."""
    return DEMO_TEXT.read_text(encoding="utf-8").splitlines()


def _byte_level(special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts(),
        trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    return tokenizer


def gpt2(folder):
    """GPT-2: one special token that begins and ends a text, added by nobody."""
    end = "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_level([end]), bos_token=end, eos_token=end, unk_token=end, model_max_length=WINDOW
    )
    torch.manual_seed(1)
    return _save(GPT2LMHeadModel(GPT2Config(**CONFIGS["gpt2"], vocab_size=len(tokenizer))), tokenizer, folder, FLAT)


def llama(folder):
    """Llama: the tokenizer puts BOS before every text, has a chat template, and another EOS."""
    inner = _byte_level(["<s>", "</s>"])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", model_max_length=WINDOW, chat_template=CHAT_TEMPLATE
    )
    torch.manual_seed(2)
    return _save(LlamaForCausalLM(LlamaConfig(**CONFIGS["llama"], vocab_size=len(tokenizer))), tokenizer, folder, FLAT)


def t5(folder):
    """T5: unigram pieces, EOS after every text, decoding starts at the pad token."""
    inner = Tokenizer(models.Unigram())
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("\n", " ")])
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.train_from_iterator(
        texts(),
        trainers.UnigramTrainer(
            vocab_size=2000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
        ),
    )
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=WINDOW
    )
    torch.manual_seed(3)
    return _save(T5ForConditionalGeneration(T5Config(**CONFIGS["t5"], vocab_size=len(tokenizer))), tokenizer, folder)


def _save(model, tokenizer, folder, scale=1.0):
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
    return _save(model, tokenizer, folder)


BUILDERS = {"gpt2": gpt2, "llama": llama, "t5": t5}


def evaluate(model, tasks, *, model_args=None, kind="hf", **kwargs):
    """Evaluate a model folder in float32 on the CPU with `nnd_tasks.evaluate`; ``kind`` is what ``--model`` names."""
    arguments = {"pretrained": str(model), "dtype": "float32", **(model_args or {})}
    options = {"batch_size": 16, "bootstrap_iters": 0, "device": "cpu", **kwargs}
    return nnd_tasks.evaluate(tasks, kind, model_args=arguments, **options)
