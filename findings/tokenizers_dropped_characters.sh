#!/usr/bin/env bash
# tokenizers 0.23.3: a BPE model without an unknown token, such as what is trained from `BPE()`, drops characters outside of its
# vocabulary, and the offsets of all tokens behind one in the same word are too small by its length: they belong to other text. Offsets are
# sums of the lengths of the word's symbols (`get_offsets_iter` in `models/bpe/word.rs`), and a dropped character is no
# symbol. Without a pre-tokenizer the whole text is one word.
# Seen: in "the Cat sat" the token "at" has the offsets of "Ca"; without a pre-tokenizer also "sat" has those of " sa". With
# `unk_token` all are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet tokenizers==0.23.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from tokenizers import Tokenizer, models, pre_tokenizers

text = "the Cat sat"
merges = [("t", "h"), ("th", "e"), ("a", "t"), ("s", "at")]
tokens = [*"theas ", *("".join(pair) for pair in merges), "<unk>"]


def read(by_word, **settings):
    """Return the tokens of the text, by a model that knows no capital letters, each with the text at its offsets."""
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges, **settings))
    if by_word:
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    encoding = tokenizer.encode(text)
    found = [(token, text[start:end]) for token, (start, end) in zip(encoding.tokens, encoding.offsets)]
    print(settings, "by word:" if by_word else "whole text:", found)
    return found


assert read(True) == [("the", "the"), ("at", "Ca"), ("sat", "sat")]
assert read(False) == [("the", "the"), (" ", " "), ("at", "Ca"), (" ", "t"), ("sat", " sa")]
assert read(True, unk_token="<unk>") == [("the", "the"), ("<unk>", "C"), ("at", "at"), ("sat", "sat")]
PYTHON
