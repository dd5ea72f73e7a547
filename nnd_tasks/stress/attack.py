"""Search for errors that a model prefers: the smallest change known to be bad that raises a text's likelihood.

The search is the greedy one of He et al. (ACL 2023, appendix J), with the mean log-likelihood per token in place of BERTScore:
each step tries every change of the text as it is, and ends as soon as one of them scores higher than the gold text; of those it
takes the smallest. Where none does, the best goes on to the next step. Two kinds of changes are searched:

- ``errors``: the error types of the stress sets, each by its smallest amount and at several places. Few of
  them leave a good text. A type is used once per text, so that no step undoes another. ``token_drop``, ``stop_word_removal`` and
  ``truncation`` have to be named: a text may do without one word.
- ``edits``: single words are deleted or replaced. The paper gives no promise that such a text is bad. Here, a text without a
  source loses function words or gets one that does not agree ("an" for "a", "were" for "was"), which breaks the grammar of most
  sentences; a text with a source also gets other numbers, pronouns, prepositions and content words, most of which contradict it.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np

from nnd_tasks.schema import short_hash
from nnd_tasks.stress.corpora import Gold
from nnd_tasks.stress.error_types import ErrorType
from nnd_tasks.stress.likelihood import Scorer
from nnd_tasks.stress.set_writing import compute_noise
from nnd_tasks.stress.text import Edit, Parser, is_spoken, like
from nnd_tasks.stress.words import ARTICLES, PREPOSITIONS

if TYPE_CHECKING:
    from spacy.tokens import Token

#: Nats per token by which a found text must score higher, so that rounding on another machine does not decide.
LEAST = 1e-4
#: How often an error type is tried on a text, each time with other random choices.
TRIES = 8
#: Error types of which one alone may leave a good text, such as one without "very".
_HARMLESS = frozenset({"token_drop", "stop_word_removal", "truncation"})
#: Words that replace a content word: those of the corpus whose input embeddings are nearest (appendix J.1: k2 = 8).
NEAREST = 8
#: Words of the corpus that may replace another, the most frequent first.
VOCABULARY = 5_000
#: An amount of which every type that counts in shares makes one error.
_ONE = 1e-9

#: Words of one class: each may stand where another does, with another meaning.
_CLASSES = (
    "he she it they we you I",
    "him her them us me",
    "his its their our my your",
    "this that these those",
    "in on at of to from by with for about after before over under between against",
    "can could will would may might must should",
    "one two three four five six seven eight nine ten",
    "first second third fourth fifth sixth seventh",
)
#: Words of which only one can be right where the other is.
_AGREE = ("a an", "is are am", "was were", "has have", "does do", "this these", "that those")


def _others(groups: Iterable[str]) -> dict[str, list[str]]:
    """Return word in lower case -> the other words of its groups."""
    others: dict[str, list[str]] = {}
    for words in map(str.split, groups):
        for word in words:
            others.setdefault(word.lower(), []).extend(other for other in words if other != word)
    return others


_BREAKS = _others(_AGREE)
_SWAPS = _others((*_CLASSES, *_AGREE))
#: Other prepositions may go unnoticed: "about noon", "went out", "on Monday".
_MISSED = "at by for from in into of to with"
#: Words whose loss breaks most sentences.
_NEEDED = frozenset({*ARTICLES, *_others(_AGREE[:-2]), *_MISSED.split()})
#: Words that neither are nor replace content words.
_FUNCTION = frozenset({*_NEEDED, *PREPOSITIONS, *_SWAPS})


#: ``(text, steps so far) -> changed text -> what was changed``.
Propose = Callable[[str, Sequence[str]], Mapping[str, str]]


def search(
    gold: Gold,
    context: str,
    propose: Propose,
    score: Callable[[Sequence[tuple[str, str]]], Sequence[float]],
    steps: int,
) -> dict[str, Any]:
    """Search for a change that raises the likelihood of a gold text; see the module.

    Args:
        gold: the text.
        context: what a model reads before it.
        propose: the changes to try.
        score: mean log-likelihood per token of (context, text) pairs, in nats; ``-inf`` where a text does not fit the window.
        steps: most changes, one after the other.

    Returns:
        ``too_long``; and if a change raises it in so many steps, the changed ``text``, what was changed (``steps``), the ``gain``
        in nats per token, and the ``noise`` (word-level Levenshtein distance over the words of the gold text).
    """
    [base] = score([(context, gold.text)])
    if base == -math.inf:
        return {"too_long": True}
    current, seen = gold.text, {gold.text}
    trail: tuple[str, ...] = ()
    for _ in range(steps):
        options = {text: what for text, what in propose(current, trail).items() if text not in seen and text.strip()}
        if not options:
            break
        seen |= options.keys()
        scores = dict(zip(options, score([(context, text) for text in options]), strict=True))
        noises = {text: compute_noise(gold.text, text) for text, value in scores.items() if value > base + LEAST}
        if noises:
            text = min(noises, key=lambda text: (noises[text], -scores[text], text))
            gain = scores[text] - base
            return {
                "too_long": False,
                "text": text,
                "steps": (*trail, options[text]),
                "gain": gain,
                "noise": noises[text],
            }
        current = max(scores, key=lambda text: (scores[text], text))
        trail = (*trail, options[current])
    return {"too_long": False}


# ---------------------------------------------------------------- error types


def keep_edits(errors: Iterable[ErrorType], *, named: bool) -> list[ErrorType]:
    """Return those of the error types that change a part of a text; targeted ones replace it or aim at a metric.

    Args:
        errors: the types.
        named: the user named them; else those are left out of which a single one may do no harm.
    """
    return [error for error in errors if error.kind != "targeted" and (named or error.name not in _HARMLESS)]


def propose_errors(errors: Sequence[ErrorType], draft: Edit) -> Propose:
    """Return what proposes each error type by its smallest amount, `TRIES` times; a used error is not proposed again.

    Args:
        errors: the types.
        draft: what they need, for the text at hand.
    """

    def propose(text: str, trail: Sequence[str]) -> dict[str, str]:
        options: dict[str, str] = {}
        for error, attempt in product(errors, range(TRIES)):
            if error.name not in trail:
                rng = random.Random(short_hash(text, error.name, str(attempt)))  # noqa: S311
                options.setdefault(error.make(draft, text, _ONE if error.counts_shares else 1, rng), error.name)
        return options

    return propose


# ---------------------------------------------------------------- single words


def propose_edits(parser: Parser, nearest: Mapping[str, Sequence[str]] | None) -> Propose:
    """Return what proposes to delete or replace each word.

    Args:
        parser: splits texts into words.
        nearest: word in lower case -> words that may replace it, of a text with a source; None for one without.
    """

    def propose(text: str, _: Sequence[str]) -> dict[str, str]:
        words = parser.parse(text)
        options: dict[str, str] = {}
        for i, word in enumerate(words):
            before, after = text[: word.idx], text[word.idx + len(word.text) :]
            # Within a sentence, the capital letter of "I" is no reason for another one.
            inside = i and (is_spoken(words[i - 1]) or words[i - 1].text == ",")
            model = "i" if word.text == "I" and inside else word.text
            for other in _replacements(word, nearest):
                options.setdefault(f"{before}{like(other, model)}{after}", f"{word.lower_} → {other.lower()}")
            if word.lower_ in _NEEDED:  # a capital letter at the beginning of a sentence goes on to the next word
                rest = after.removeprefix(word.whitespace_)
                rest = rest[:1].upper() + rest[1:] if word.text[:1].isupper() else rest
                options.setdefault((before + rest).rstrip(), f"{word.lower_} →")
        return options

    return propose


def _replacements(word: Token, nearest: Mapping[str, Sequence[str]] | None) -> Iterator[str]:
    """Yield the words that may replace a word and make the text worse."""
    text = word.lower_
    yield from (_BREAKS if nearest is None else _SWAPS).get(text, ())
    if nearest is None:
        return
    if re.fullmatch(r"[1-9][0-9]{0,3}", text):
        yield from (str(int(text) + 1), str(int(text) - 1))
    if text not in _SWAPS and is_spoken(word):
        yield from nearest.get(text, ())


def nearest_words(words: Iterable[str], corpus: Counter[str], scorer: Scorer) -> dict[str, list[str]]:
    """Return word -> the `NEAREST` words of a corpus by the cosine of their input embeddings (mean over their tokens).

    Forms of the same word (one begins with the other) are left out, as they may be right too.

    Args:
        words: in lower case.
        corpus: how often each word occurs in it; its `VOCABULARY` most frequent words of letters are taken.
        scorer: whose embeddings; it is loaded.
    """
    vocabulary = [word for word, _ in sorted(corpus.items(), key=lambda item: (-item[1], item[0])) if word.isalpha()]
    vocabulary = vocabulary[:VOCABULARY]
    wanted = sorted({word for word in words if word.isalpha() and word not in _FUNCTION})
    lm: Any = scorer.lm
    table = lm.model.get_input_embeddings().weight.detach().float().cpu().numpy()

    def embed(text: str) -> np.ndarray:
        vector = table[lm.tok_encode(f" {text}", add_special_tokens=False)].mean(axis=0)
        return np.asarray(vector / np.linalg.norm(vector))

    known = np.stack([embed(word) for word in vocabulary])
    near: dict[str, list[str]] = {}
    for word in wanted:
        order = np.argsort(-(known @ embed(word)), kind="stable")
        others = (vocabulary[i] for i in order if not _same(word, vocabulary[i]))
        near[word] = list(islice(others, NEAREST))
    return near


def _same(word: str, other: str) -> bool:
    """Tell whether two words may be forms of one, or the other is a function word."""
    short, long = sorted((word, other), key=len)
    return long.startswith(short[: max(len(short) - 1, 3)]) or other in _FUNCTION
