"""Search for errors that a model prefers: the smallest change known to be bad that raises a text's likelihood.

The search is the greedy one of He et al. (ACL 2023, appendix J), with the mean log-likelihood per token in place of BERTScore:
each step tries every change of the text as it is, and ends as soon as one of them scores higher than the gold text; of those it
takes the smallest. Where none does, the best goes on to the next step. Two kinds of changes are searched:

- ``errors``: the error types of the stress sets, each by its smallest amount and at several places. Few of
  them leave a good text. A type is used once per text, so that no step undoes another. ``token_drop``, ``stop_word_removal`` and
  ``truncation`` have to be named: a text may do without one word.
- ``edits``: single words are deleted or replaced. A text without a
  source loses function words or gets one that does not agree ("an" for "a", "were" for "was"), which breaks the grammar of most
  sentences; a text with a source also gets other numbers, pronouns, prepositions and content words, most of which contradict it.

Known limits: no search proves that an edited text is bad; read some before you count them as errors.

`build_attack_set` makes a set of the errors that the search finds against some models.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.schema import short_hash
from nnd_tasks.show.report import make_table
from nnd_tasks.statistics import summarize_rate
from nnd_tasks.studies.stress.corpora import Gold, read_corpus
from nnd_tasks.studies.stress.edits import LISTS, WORDS, Edit, Parser, is_spoken, like, load_parser
from nnd_tasks.studies.stress.error_types import ErrorType, choose_errors
from nnd_tasks.studies.stress.scorers import Scorer, name_scorers
from nnd_tasks.studies.stress.stress_set import (
    PROMPT,
    NewSet,
    StressSet,
    compute_noise,
    make_row,
    prepare_draft,
)
from nnd_tasks.task.signature import weights_digest
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from spacy.tokens import Token


#: Nats per token by which a found text must score higher, so that rounding on another machine does not decide.
LEAST = 1e-4
#: Most changes of a text, one after the other.
STEPS = 3
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


def _others(groups: Iterable[str]) -> dict[str, list[str]]:
    """Return word in lower case -> the other words of its groups."""
    others: dict[str, list[str]] = {}
    for words in map(str.split, groups):
        for word in words:
            others.setdefault(word.lower(), []).extend(alternative for alternative in words if alternative != word)
    return others


_BREAKS, _SWAPS = _others(WORDS["agree"]), _others([*WORDS["classes"], *WORDS["agree"]])
#: Words whose loss breaks most sentences.
_NEEDED = LISTS["articles"] | LISTS["noticed"] | _others(WORDS["agree"][:-2]).keys()
#: Words that neither are nor replace content words.
_FUNCTION = _NEEDED | LISTS["prepositions"] | _SWAPS.keys()


#: ``(text, steps so far) -> changed text -> what was changed``.
Propose = Callable[[str, Sequence[str]], Mapping[str, str]]


def search(
    gold: Gold,
    context: str,
    propose: Propose,
    score: Callable[[Sequence[tuple[str, str]]], Sequence[float]],
) -> dict[str, Any]:
    """Search for a change that raises the likelihood of a gold text; see the module.

    Args:
        gold: the text.
        context: what a model reads before it.
        propose: the changes to try.
        score: mean log-likelihood per token of (context, text) pairs, in nats; ``-inf`` where a text does not fit the window.

    Returns:
        ``too_long``; and if a change raises it in `STEPS` steps at most, the changed ``text``, what was changed (``steps``), the
        ``gain`` in nats per token, and the ``noise`` (word-level Levenshtein distance over the words of the gold text).
    """
    [base] = score([(context, gold.text)])
    if base == -math.inf:
        return {"too_long": True}
    current, seen, trail = gold.text, {gold.text}, list[str]()
    for _ in range(STEPS):
        proposed = propose(current, trail)
        options = {text: change for text, change in proposed.items() if text not in seen and text.strip()}
        if not options:
            break
        seen |= options.keys()
        scores = dict(zip(options, score([(context, text) for text in options]), strict=True))
        noises = {text: compute_noise(gold.text, text) for text, value in scores.items() if value > base + LEAST}
        if noises:
            text = min(noises, key=lambda text: (noises[text], -scores[text], text))
            steps, gain = [*trail, options[text]], scores[text] - base
            return {"too_long": False, "text": text, "steps": steps, "gain": gain, "noise": noises[text]}
        current = max(scores, key=lambda text: (scores[text], text))
        trail.append(options[current])
    return {"too_long": False}


# ---------------------------------------------------------------- error types


def propose_errors(errors: Sequence[ErrorType], draft: Edit) -> Propose:
    """A function that proposes each error type by its smallest amount, `TRIES` times; a used error is not proposed again.

    Args:
        errors: the types.
        draft: what they need, for the text at hand.
    """

    def propose(text: str, trail: Sequence[str]) -> dict[str, str]:
        options: dict[str, str] = {}
        for error, attempt in product(errors, range(TRIES)):
            if error.name not in trail:
                rng = random.Random(short_hash(text, error.name, str(attempt)))  # noqa: S311
                options.setdefault(
                    error.make(draft, text, _ONE if error.unit.startswith("share") else 1, rng), error.name
                )
        return options

    return propose


# ---------------------------------------------------------------- single words


def propose_edits(parser: Parser, nearest: Mapping[str, Sequence[str]] | None) -> Propose:
    """A function that proposes to delete or replace each word.

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
            for replacement in _replacements(word, nearest):
                options.setdefault(
                    f"{before}{like(replacement, model)}{after}", f"{word.lower_} → {replacement.lower()}"
                )
            if word.lower_ in _NEEDED:  # a capital letter at the beginning of a sentence goes on to the next word
                remainder = after.removeprefix(word.whitespace_)
                remainder = remainder[:1].upper() + remainder[1:] if word.text[:1].isupper() else remainder
                options.setdefault((before + remainder).rstrip(), f"{word.lower_} →")
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


def nearest_words(
    parser: Parser, texts: Iterable[Gold], corpus: Iterable[Gold], scorer: Scorer
) -> dict[str, list[str]]:
    """Return word -> the `NEAREST` words of a corpus by the cosine of their input embeddings (mean over their tokens).

    Forms of the same word (one begins with the other) are left out, as they may be right too.

    Args:
        parser: splits texts into words.
        texts: whose words are to be replaced.
        corpus: gives the other words: its `VOCABULARY` most frequent ones of letters.
        scorer: whose embeddings; it is loaded.
    """
    words, counts = (
        Counter(word.lower_ for gold in golds for word in parser.parse(gold.text) if word.lower_.isalpha())
        for golds in (texts, corpus)
    )
    vocabulary = sorted(counts, key=lambda word: (-counts[word], word))[:VOCABULARY]
    lm = scorer.lm
    table = lm.model.get_input_embeddings().weight.detach().float().cpu().numpy()

    def embed(text: str) -> np.ndarray:
        vector = table[lm.tok_encode(f" {text}", add_special_tokens=False)].mean(axis=0)
        return np.asarray(vector / np.linalg.norm(vector))

    embeddings = np.stack([embed(word) for word in vocabulary])
    near = {}
    for word in words.keys() - _FUNCTION:
        order = np.argsort(-(embeddings @ embed(word)), kind="stable")
        near[word] = [vocabulary[i] for i in order if not _same(word, vocabulary[i])][:NEAREST]
    return near


def _same(word: str, candidate: str) -> bool:
    """Tell whether two words may be forms of one, or the other is a function word."""
    short, long = sorted((word, candidate), key=len)
    return long.startswith(short[: max(len(short) - 1, 3)]) or candidate in _FUNCTION


#: Changes that a report lists for each search, the most frequent first.
_LISTED = 8


def build_attack_set(
    name: str,
    models: Sequence[str],
    corpus: str,
    *,
    folder: str | Path | None = None,
    errors: str = "all",
    texts: int = 50,
    out: str | Path | None = None,
    replace: bool = False,
) -> StressSet:
    """Search for errors that models prefer, and build the set ``name`` of them and the task ``nnd_NAME``.

    Its categories are the attacked models, its subcategories the searches.

    Args:
        name: of the set; letters, digits and ``_``.
        models: folders or names of the models to attack.
        corpus: as for `nnd_tasks.studies.stress.stress_set.build_stress_set`.
        folder: holds the paper's corpora; None looks in ``$NND_HOME/blindspot``.
        errors: ``all``, or names of error types separated by commas, for the search of that name.
        texts: how many of the gold texts, drawn at random with a fixed seed; 0 takes all.
        out: the dataset folder; None takes ``$NND_HOME/nnd/NAME``.
        replace: overwrite a set of this name that was made in another way.

    Raises:
        NNDError: an argument is wrong, the corpus or a model cannot be read, nothing was found, or another process builds this
            set.
    """
    golds = read_corpus(corpus, folder)
    new = NewSet(name, golds, out, replace)
    scorers = name_scorers(models)
    parser = load_parser()
    chosen, _ = choose_errors(errors, golds, parser)
    # Targeted errors replace a text or aim at a metric.
    unwanted = _HARMLESS if errors == "all" else ()
    types = [error for error in chosen if error.kind != "targeted" and error.name not in unwanted]
    if not types:
        raise NNDError(f"--errors {errors}: none of them changes a part of a text")
    drawn = golds.draw(texts)
    weights = [weights_digest(str(expand(model))) for model in models]
    with new.making("attack", len(drawn), [error.name for error in types], [*models], weights, parser.name) as report:
        draft = prepare_draft(golds, parser, types)
        rows, tests = [], []
        for scorer in scorers:
            with scorer.loaded():
                # Content words are changed only where there is a source.
                near = nearest_words(parser, drawn, golds.texts, scorer) if drawn[0].source else None
                # Error types by their smallest amount, and single words.
                searches = {"errors": propose_errors(types, draft), "edits": propose_edits(parser, near)}
                tried = list(product(searches, drawn))
                for name_of_search, gold in tqdm(tried, desc=f"attacking {scorer.name}", unit="text", disable=None):
                    context = PROMPT.replace("{{context}}", gold.source) if gold.source else ""
                    attempt = search(gold, context, searches[name_of_search], scorer.score)
                    names = scorer.name, name_of_search
                    rows.append({"model": names[0], "search": names[1], "text": None, **attempt})
                    if "text" in attempt:
                        tests.append(make_row(gold, attempt["text"], *names, attempt["noise"], 0, "attack", *names))
        if not tests:
            raise NNDError(
                f"corpus {golds.name}: no change raises the likelihood of any text that fits a window; try more --texts"
            )
        attempts = pd.DataFrame(rows).groupby(["model", "search"], sort=False)
        attacks = pd.DataFrame({"model": model, "search": name, **_summarize(rows)} for (model, name), rows in attempts)
        report |= {"texts": len(drawn), "steps": STEPS, "attacks": attacks.to_dict("records"), "pipeline": parser.name}
        return new.write(
            pd.DataFrame(tests),
            report,
            make_table("attacks", attacks.assign(most_frequent=attacks["changes"].map(_list_changes))),
            f"{counted(len(tests), 'test')}: for each gold text the smallest change, in as few greedy steps as possible, that a "
            "model prefers to the text (He et al., ACL 2023, appendix J). `category` is the model that was attacked, which fails "
            "these tests by construction; `subcategory` is the search: `errors` combines the error types of the stress sets, "
            "`edits` deletes and replaces words.",
            "Gold texts and small changes that make them worse, found by a search against language models.",
        )


def _list_changes(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{change} ({count})" for change, count in counts.items())


def _summarize(attempts: pd.DataFrame) -> dict[str, Any]:
    """The successes of one search against one model; ``rate`` is of the texts that fit the window, with its 95% interval."""
    fitting = attempts[~attempts["too_long"]]
    successes = fitting[fitting["text"].notna()]
    changes = successes["steps"].explode().sort_values().value_counts()[:_LISTED].to_dict()
    low, high = summarize_rate(fitting["text"].notna(), [1] * len(fitting))[2:]
    return {
        "texts": len(fitting),
        "too_long": len(attempts) - len(fitting),
        "found": len(successes),
        "rate": fitting["text"].notna().mean(),
        "low": low,
        "high": high,
        "gain": successes["gain"].mean(),
        "noise": successes["noise"].mean(),
        "changes": changes,
    }
