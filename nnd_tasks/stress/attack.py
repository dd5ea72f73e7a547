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

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnd_tasks.schema import short_hash
from nnd_tasks.stress.corpora import Gold
from nnd_tasks.stress.likelihood import Likelihood
from nnd_tasks.stress.noise import noise_ratio
from nnd_tasks.stress.errors import ERRORS, ErrorType, Resources
from nnd_tasks.stress.text import Parser, Word, join
from nnd_tasks.stress.words import ARTICLES, PREPOSITIONS, like

#: Kinds of searches -> what they change.
SEARCHES: Mapping[str, str] = {"errors": "error types, by their smallest amount", "edits": "single words"}
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
_SWAPS: Mapping[str, tuple[str, ...]]
_BREAKS: Mapping[str, tuple[str, ...]]


def _others(groups: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return word in lower case -> the other words of its groups."""
    others: dict[str, dict[str, None]] = {}
    for group in groups:
        words = group.split()
        for word in words:
            others.setdefault(word.lower(), {}).update(dict.fromkeys(other for other in words if other != word))
    return {word: tuple(known) for word, known in others.items()}


_BREAKS = _others(_AGREE)
_SWAPS = _others((*_CLASSES, *_AGREE))
#: Other prepositions may go unnoticed: "about noon", "went out", "on Monday".
_MISSED = "at by for from in into of to with"
#: Words whose loss breaks most sentences.
_NEEDED = frozenset({*ARTICLES, *_others(_AGREE[:-2]), *_MISSED.split()})
#: Words that neither are nor replace content words.
_FUNCTION = frozenset({*_NEEDED, *PREPOSITIONS, *_SWAPS})


@dataclass(frozen=True, slots=True)
class Found:
    """A text that is worse than the gold text, and that a model prefers.

    Attributes:
        text: the changed text.
        steps: what was changed, in order.
        gain: its mean log-likelihood less that of the gold text, in nats per token.
        noise: word-level Levenshtein distance over the words of the gold text.
    """

    text: str
    steps: tuple[str, ...]
    gain: float
    noise: float


#: ``(text, steps so far) -> changed text -> what was changed``.
Propose = Callable[[str, Sequence[str]], Mapping[str, str]]


def search(
    gold: Gold,
    context: str,
    propose: Propose,
    score: Callable[[Sequence[tuple[str, str]]], Sequence[float]],
    steps: int,
) -> Found | None:
    """Search for a change that raises the likelihood of a gold text; see the module.

    Args:
        gold: the text.
        context: what a model reads before it.
        propose: the changes to try.
        score: mean log-likelihood per token of (context, text) pairs, in nats.
        steps: most changes, one after the other.

    Returns:
        What was found; None where no change raises it in so many steps.
    """
    [base] = score([(context, gold.text)])
    current, seen = gold.text, {gold.text}
    trail: tuple[str, ...] = ()
    for _ in range(steps):
        options = {text: what for text, what in propose(current, trail).items() if text not in seen and text.strip()}
        if not options:
            return None
        seen |= options.keys()
        scores = dict(zip(options, score([(context, text) for text in options]), strict=True))
        higher = [text for text, value in scores.items() if value > base + LEAST]
        if higher:
            text = min(higher, key=lambda text: (noise_ratio(gold.text, text), -scores[text], text))
            return Found(text, (*trail, options[text]), scores[text] - base, noise_ratio(gold.text, text))
        current = max(scores, key=lambda text: (scores[text], text))
        trail = (*trail, options[current])
    return None


# ---------------------------------------------------------------- error types


def edit_types(wanted: Iterable[str], *, named: bool) -> list[ErrorType]:
    """Return those of the error types that change a part of a text; targeted ones replace it or aim at a metric.

    Args:
        wanted: names of error types.
        named: the user named them; else those are left out of which a single one may do no harm.
    """
    return [ERRORS[name] for name in wanted if ERRORS[name].kind != "targeted" and (named or name not in _HARMLESS)]


def propose_errors(types: Sequence[ErrorType], resources: Resources) -> Propose:
    """Return what proposes each error type by its smallest amount, `TRIES` times.

    Args:
        types: the types; one that was used before is not proposed again.
        resources: what they need, for the text at hand.
    """

    def propose(text: str, trail: Sequence[str]) -> dict[str, str]:
        options: dict[str, str] = {}
        for kind in types:
            if kind.name in trail:
                continue
            amount = _ONE if kind.unit.startswith("share") else 1
            for attempt in range(TRIES):
                rng = random.Random(short_hash(text, kind.name, str(attempt)))  # noqa: S311
                options.setdefault(kind.make(text, amount, rng, resources), kind.name)
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
        words = parser.parse(text).words
        options: dict[str, str] = {}
        for i, word in enumerate(words):
            # Within a sentence, the capital letter of "I" is no reason for another one.
            inside = i and (words[i - 1].spoken or words[i - 1].text == ",")
            model = "i" if word.text == "I" and inside else word.text
            for other in _replacements(word, nearest):
                new = like(other, model)
                options.setdefault(
                    join([*words[:i], replace(word, text=new), *words[i + 1 :]]),
                    f"{word.text.lower()} → {other.lower()}",
                )
            if word.text.lower() in _NEEDED:
                options.setdefault(_without(words, i), f"{word.text.lower()} →")
        return options

    return propose


def _without(words: Sequence[Word], i: int) -> str:
    """Return a text without a word; a capital letter at the beginning of a sentence goes on to the next word."""
    kept = [*words[:i], *words[i + 1 :]]
    if words[i].text[:1].isupper() and i < len(kept):
        kept[i] = replace(kept[i], text=kept[i].text[:1].upper() + kept[i].text[1:])
    return join(kept)


def _replacements(word: Word, nearest: Mapping[str, Sequence[str]] | None) -> Iterator[str]:
    """Yield the words that may replace a word and make the text worse."""
    text = word.text.lower()
    yield from (_BREAKS if nearest is None else _SWAPS).get(text, ())
    if nearest is None:
        return
    if re.fullmatch(r"[1-9][0-9]{0,3}", text):
        yield from (str(int(text) + 1), str(int(text) - 1))
    if text not in _SWAPS and word.spoken:
        yield from nearest.get(text, ())


def nearest_words(words: Iterable[str], corpus: Counter[str], model: Likelihood) -> dict[str, list[str]]:
    """Return word -> the `NEAREST` words of a corpus by the cosine of their input embeddings (mean over their tokens).

    Forms of the same word (one begins with the other) are left out, as they may be right too.

    Args:
        words: in lower case.
        corpus: how often each word occurs in it; its `VOCABULARY` most frequent words of letters are taken.
        model: whose embeddings.
    """
    vocabulary = [word for word, _ in sorted(corpus.items(), key=lambda item: (-item[1], item[0])) if word.isalpha()]
    vocabulary = vocabulary[:VOCABULARY]
    wanted = sorted({word for word in words if word.isalpha() and word not in _FUNCTION})
    if not vocabulary or not wanted:
        return {}
    table = model.lm.model.get_input_embeddings().weight.detach().float().cpu().numpy()

    def embed(text: str) -> np.ndarray:
        vector = table[model.lm.tok_encode(f" {text}", add_special_tokens=False)].mean(axis=0)
        return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12))

    known = np.stack([embed(word) for word in vocabulary])
    near: dict[str, list[str]] = {}
    for word in wanted:
        order = np.argsort(-(known @ embed(word)), kind="stable")
        others = (vocabulary[i] for i in order if not _same(word, vocabulary[i]))
        near[word] = [other for other, _ in zip(others, range(NEAREST), strict=False)]
    return near


def _same(word: str, other: str) -> bool:
    """Tell whether two words may be forms of one, or the other is a function word."""
    short, long = sorted((word, other), key=len)
    return long.startswith(short[: max(len(short) - 1, 3)]) or other in _FUNCTION
