"""Token scores: which characters a token stands for, against the bytes of the tokens; and what the table holds."""

import itertools
import unicodedata
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import transformers as tf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from transformers.convert_slow_tokenizer import bytes_to_unicode

from nnd_tasks.likelihood.scored_tokens import ScoredTokens, tokens_and_characters
from nnd_tasks.task.settings import Settings
from shared_prefix.lengths import TokenCounter

#: Five scripts, characters of one to four bytes, and joined ones.
TEXTS = (
    " The old harbour froze, and nobody 'd sail.",
    " Старая гавань замёрзла за ночь.",
    "老港在夜里结冰了，没有船。",  # noqa: RUF001
    " تجمد الميناء القديم ليلا",
    " पुराना बंदरगाह रात में जम गया 🧊👩‍🚀!",
)
BPE_BYTES = [f"<0x{value:02X}>" for value in range(256)]


def _bpe(alphabet, special, size=420):
    return trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=special, show_progress=False)


def _byte_level(*, trim):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.decoder, made.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=trim)
    made.train_from_iterator(TEXTS, _bpe(ByteLevel.alphabet(), ["</s>"]))
    return made


def _byte_fallback(*steps, before=None):
    """Fall back to bytes for what the first text lacks: spaces are replaced by a normalizer, or by a pre-tokenizer."""
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([*steps])
    if before is not None:
        made.pre_tokenizer = before
    made.train_from_iterator(TEXTS[:1], _bpe([], ["</s>", "<unk>", *BPE_BYTES], 380))
    return made


def _trained(model, normalizer, before, trainer, **options):
    made = Tokenizer(model)
    made.normalizer, made.pre_tokenizer = normalizer, before
    options = {"vocab_size": 300, "special_tokens": ["</s>", "<unk>"], "show_progress": False, **options}
    made.train_from_iterator(TEXTS, trainer(**options))
    return made


def _wordpiece():
    normalizer = normalizers.BertNormalizer(clean_text=False, lowercase=True, strip_accents=False)
    model = models.WordPiece(unk_token="<unk>")
    return _trained(model, normalizer, pre_tokenizers.BertPreTokenizer(), trainers.WordPieceTrainer)


def _unigram():
    options = {"vocab_size": 160, "unk_token": "<unk>"}
    before = Metaspace(prepend_scheme="always")
    return _trained(models.Unigram(), normalizers.NFKC(), before, trainers.UnigramTrainer, **options)


SPACES = normalizers.Replace(" ", "▁")
MAKE = {
    "GPT-2": lambda: _byte_level(trim=True),
    "GPT-NeoX": lambda: _byte_level(trim=False),
    "Llama 2": lambda: _byte_fallback(normalizers.Prepend("▁"), SPACES),
    "Gemma": lambda: _byte_fallback(SPACES),
    "Mistral": lambda: _byte_fallback(normalizers.NFKC(), before=Metaspace(prepend_scheme="first")),
    "T5": _unigram,
    "BERT": _wordpiece,
}
_BYTE_OF = {char: byte for byte, char in bytes_to_unicode().items()}


@cache
def counter_of(name):
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=MAKE[name](), eos_token="</s>", model_max_length=4096)
    return TokenCounter({"tokenizer": tokenizer, "backend": "causal", "max_length": 4096})


def _bytes_of(name, token):
    """Find the text that a token stands for, without its offsets."""
    if token == "</s>":
        return b"</s>"
    if name in ("GPT-2", "GPT-NeoX"):
        return bytes(_BYTE_OF[char] for char in token)
    if token in BPE_BYTES:
        return bytes([int(token[1:-1], 16)])
    return token.replace("▁", " ").removeprefix("##" if name == "BERT" else "\0").encode()


def brute_force(name, counter, text):
    """Lay the bytes of the tokens along those of the text, and count characters."""

    def normal(char):
        if name in ("Mistral", "T5"):  # a Chinese comma becomes that of ASCII
            char = unicodedata.normalize("NFKC", char)
        return (char.lower() if name == "BERT" else char).encode()

    whole = b"".join(map(normal, text))
    chars = [i for i, char in enumerate(text) for _ in normal(char)]  # byte -> character
    at, spans = 0, []
    for token in counter.tokenizer.convert_ids_to_tokens(counter.tok_encode(text, add_special_tokens=False)):
        content = _bytes_of(name, token)
        if not whole.startswith(content, at) and at == 0:
            content = content.removeprefix(b" ")  # a space that the tokenizer puts before every text
        end = at
        while not whole.startswith(content, end):
            assert whole[end : end + 1] == b" ", (name, token, whole[at:])  # spaces that no token stands for
            end += 1
        end += len(content)
        spans.append(
            (chars[at], chars[end - 1] + 1 if end else 1)
        )  # none: a space that the tokenizer puts before a text
        at = end
    return spans


@pytest.mark.parametrize("name", MAKE)
def test_characters_of_tokens_are_those_of_their_bytes(name):
    counter = counter_of(name)
    several = 0
    for context in ("", *TEXTS[:2]):
        for text in (*TEXTS, TEXTS[0] + TEXTS[4], TEXTS[3] + TEXTS[2] + "</s>"):
            ids, spans = tokens_and_characters(counter, context, text)
            expected = np.asarray(brute_force(name, counter, context + text))[-len(ids) :] - len(context)
            assert spans.tolist() == np.maximum(expected, 0).tolist()
            assert len(ids) == counter.lengths(context, text)[1]
            several += sum(start < end for (_, end), (start, _) in itertools.pairwise(spans))
            assert spans[-1, 1] == len(text)
    assert several or name in ("T5", "BERT"), "no character of several tokens was tried"


@pytest.mark.parametrize("text", ["First, cut it.\nThen sew.\n\n4. Done, 4.", "2\n2", "One line.", "1. One.\n\nTwo.\n"])
def test_numbers_that_are_put_before_lines_stand_for_no_character(text):
    continuation = " " + Settings(number_lines=True).scored(text) + "</s>"
    counter = counter_of("GPT-2")
    ids, _ = tokens_and_characters(counter, "How?", continuation)
    request = SimpleNamespace(doc={"candidates": [text]}, candidate=0, args=("How?", continuation))
    scored = ScoredTokens.of(request, SimpleNamespace(logprobs=[-1.0] * len(ids)), counter)
    assert scored is not None
    assert "".join(text[start:end] for start, end in scored.spans) == text
    numbers = [counter.tokenizer.decode([one]) for one, (a, b) in zip(ids, scored.spans, strict=True) if a == b]
    lines = enumerate(text.split("\n"), start=1)
    expected = "".join(f"{number}." for number, line in lines if not line.startswith(f"{number}."))
    assert "".join(numbers).replace(" ", "") == f"{expected}</s>"
