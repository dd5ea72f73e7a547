#!/usr/bin/env bash
# transformers 5.23.0: `LlamaTokenizer.from_pretrained` of a folder with a sentencepiece model takes the pieces alone: a unigram model is
# merged as BPE, and normalization and `add_dummy_prefix=False` are left out, without a word. The slow tokenizer of version 4, which
# asked sentencepiece, is gone. `T5Tokenizer` takes unigram models with their normalization, but BPE models as unigram. Both accept
# `vocab_file=`, which version 4 read, and ignore it (the guide to version 5 says only that it cannot be used): no word is known.
# Seen: "the telephone rings" has 3 tokens by sentencepiece and T5Tokenizer, 20, the letters, by LlamaTokenizer. By BPE, "Ｔｈｅ cat" loses
# its first word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet transformers==5.23.0 sentencepiece==0.2.3 protobuf==7.36.2
cd "$folder"
HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import random
import shutil
from pathlib import Path

import sentencepiece
from transformers import LlamaTokenizer, T5Tokenizer

random.seed(0)
words = "the telephone rings and The cat runs home unhappily while an elephant concatenates numbers".split()
Path("text").write_text("\n".join(" ".join(random.choices(words, k=10)) for _ in range(2000)))


def train(kind, **settings):
    """Return the tokens of sentencepiece, and of both classes, as functions of a text."""
    folder = Path(f"{kind}{len(settings)}")
    folder.mkdir()
    path = folder / "tokenizer.model"
    sentencepiece.SentencePieceTrainer.train(
        input="text", model_prefix=str(path.with_suffix("")), vocab_size=120, model_type=kind, hard_vocab_limit=False,
        minloglevel=2, **settings,
    )
    shutil.copy(path, folder / "spiece.model")
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    functions = {"sentencepiece": lambda text: model.encode(text, out_type=str)}
    for kind in (LlamaTokenizer, T5Tokenizer):
        functions[kind.__name__] = kind.from_pretrained(folder).tokenize
        functions[f"{kind.__name__}(vocab_file=...)"] = kind(vocab_file=str(path)).tokenize
    return functions


def show(functions, text):
    found = {name: tokens(text) for name, tokens in functions.items()}
    print(repr(text), found)
    return found.values()


unigram, bpe, bare = train("unigram"), train("bpe"), train("bpe", add_dummy_prefix=False)
right, llama, llama_file, t5, t5_file = show(unigram, "the telephone rings")
assert right == t5 == ["▁the", "▁telephone", "▁rings"] and len(llama) > 3
assert llama_file == [] and t5_file == ["▁", "the", "▁", "telephone", "▁", "rings"]
right, llama, *_ = show(bpe, "the telephone rings")
assert right == llama
right, llama, *_ = show(bpe, "Ｔｈｅ cat")
assert right == ["▁The", "▁cat"] and "▁The" not in llama and "▁cat" in llama
right, llama, *_ = show(bare, "the cat")
assert right[0] == "the" and llama[0] == "▁the"
PYTHON
