"""The error types of ``errors.yaml``: a function for each, and at the end the table of them all.

Each function takes a draft and returns its text with the error, unchanged where the error cannot be made in it. The first line of
its docstring is what a card says of it.

They differ from those of He et al. (2023). Levels are nested: a higher level keeps the changes of the lower one. Frequent
n-grams have 256 words on WikiText, else as many as the gold text. Negation negates the first finite verb, or removes a "not"
(the paper: CheckList); ``--spacy en_core_web_trf`` tags as the authors do. Switches never undo an earlier one; parts of
sentences are switched 1, 3 and 6 times; a sentence that refers back ("He", "But") gets behind another one than before.
Truncated texts never end at the end of a sentence. A capital "The" within a sentence belongs to a name and stays.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml
from nnd_tasks.studies.stress.corpora import Corpus
from nnd_tasks.studies.stress.edits import (
    LISTS,
    WORDS,
    Edit,
    Parser,
    count_of,
    find_end,
    is_alone,
    is_spoken,
    join,
    like,
)

if TYPE_CHECKING:
    from spacy.tokens import Span, Token


# ---------------------------------------------------------------- words and spans (paper, Table 16 top)

#: Words of a positioned error.
SPAN = 10
_FINAL = (".", "!", "?")
_CLOSING = "\"')]\u2019\u201d"  # what may follow a final mark
_OPEN = ",;:-\u2013\u2014([\u2018\u201c \t"  # a full stop cannot follow these


def _remove(draft: Edit, eligible: Callable[[Token], bool]) -> str:
    """Return a text without a share of the eligible words."""
    gone = set(draft.draw_share([word for word in draft.doc if eligible(word)]))
    text = space = ""
    for word in draft.doc:
        if word not in gone:
            text += word.text + (space := word.whitespace_)
        elif text and not space:  # the space after a mark stays when the mark is removed
            text += (space := word.whitespace_)
    return text.rstrip()


def truncation(draft: Edit) -> str:
    """Words at the end are removed, one more where whole sentences would be left; a full stop ends what is left."""
    words = list(draft.doc)
    length = len(words) - count_of(draft.amount, len(words))
    while any(find_end(sentence) <= length <= sentence.end for sentence in draft.sentences):
        length -= 1
    shortened = _close(join(words[:length]))
    return shortened if not shortened or shortened.rstrip(_CLOSING).endswith(_FINAL) else f"{shortened}."


def _close(text: str) -> str:
    """Return ``text`` without commas, opening brackets and opening quotes at its end, which a full stop cannot follow."""
    while True:
        text, before = text.rstrip(_OPEN), text
        if _opens_quote(text):
            text = text[:-1]
        if text == before:
            return text


def _opens_quote(text: str) -> bool:
    """Tell whether a text ends in a straight quote that opens; the space before it does not decide, so quotes are counted."""
    if text[-2:-1].strip(_OPEN):
        return False
    if text.endswith('"'):
        return text.count('"') % 2 == 1
    return text.endswith("'") and not re.search(r"(?<!\S)'", text[:-1])


def article_removal(draft: Edit) -> str:
    """Random articles are removed, but not from names ("A Coruña")."""
    starts = {sentence.start for sentence in draft.sentences}
    return _remove(
        draft, lambda word: word.lower_ in LISTS["articles"] and (not word.text.istitle() or word.i in starts)
    )


def preposition_removal(draft: Edit) -> str:
    """Random prepositions are removed, by tag or, without a tagger, by list."""
    tags = draft.parser.tags
    return _remove(draft, lambda word: word.pos_ == "ADP" if tags else word.lower_ in LISTS["prepositions"])


def stop_word_removal(draft: Edit) -> str:
    """Random stop words are removed."""
    return _remove(draft, lambda word: word.is_stop)


def verb_lemmatization(draft: Edit) -> str:
    """Random verbs are put into their base form; parts of contractions (it's, won't) stay."""
    verbs = [w for w in draft.doc if w.pos_ in ("VERB", "AUX") and w.lemma_ and is_alone(draft.doc, w.i)]
    return draft.respell({verb.i: like(verb.lemma_, verb.text) for verb in draft.draw_share(verbs)})


def token_drop(draft: Edit) -> str:
    """Random words are removed."""
    return _remove(draft, lambda word: True)


def repeated_token(draft: Edit) -> str:
    """Random words are written twice."""
    twice = draft.draw_share(list(draft.doc))
    return draft.respell({word.i: f"{word.text} {word.text}" for word in twice})


def local_swap(draft: Edit) -> str:
    """Random words change places with the word to their right."""
    texts = [word.text for word in draft.doc]
    for i in draft.draw_share(range(max(len(texts) - 1, 0))):  # a higher level goes on where a lower one stops
        texts[i], texts[i + 1] = texts[i + 1], texts[i]
    return draft.respell(dict(enumerate(texts)))


def noised_punctuation(draft: Edit) -> str:
    """Random punctuation marks become others: comma and colon to full stop, the rest to comma."""
    replacements = WORDS["punctuation"]
    marks = draft.draw_share([word for word in draft.doc if word.text in replacements])
    return draft.respell({mark.i: replacements[mark.text] for mark in marks})


# ---------------------------------------------------------------- targeted errors


def _find_span(draft: Edit) -> list[Token]:
    """Return `SPAN` words at the start, in the middle or at the end."""
    start = int(draft.amount * max(len(draft.doc) - SPAN, 0))
    return list(draft.doc[start : start + SPAN])


def positioned_error_random(draft: Edit) -> str:
    """Ten words at the start, in the middle or at the end are replaced by random words of the corpus (section 5.1)."""
    if not draft.vocabulary:
        return draft.text
    span = _find_span(draft)
    return draft.respell({word.i: draft.rng.choice(draft.vocabulary) + " " * (not word.whitespace_) for word in span})


def positioned_error_shuffle(draft: Edit) -> str:
    """Ten words at the start, in the middle or at the end are shuffled (section 5.1)."""
    span = _find_span(draft)
    texts = [word.text for word in span]
    draft.rng.shuffle(texts)
    return draft.respell({word.i: text for word, text in zip(span, texts, strict=True)})


def repetition(draft: Edit) -> str:
    """The last four words are repeated, that many times (appendix E)."""
    return " ".join([draft.text.rstrip(), *draft.text.split()[-4:] * int(draft.amount)])


def _draw_ngrams(draft: Edit, size: int) -> str:
    """Return a random sequence of the most frequent n-grams of a size, or the text where there are none."""
    ngrams = draft.ngrams.get(size, ())[: int(draft.amount)]
    wanted = draft.ngram_words or len(draft.text.split())
    words: list[str] = []
    while ngrams and len(words) < wanted:
        words += draft.rng.choice(ngrams)
    return " ".join(words[:wanted]) or draft.text


def frequent_3gram(draft: Edit) -> str:
    """The text is replaced by a random sequence of a corpus's most frequent 3-grams (section 5.3)."""
    return _draw_ngrams(draft, 3)


def frequent_4gram(draft: Edit) -> str:
    """The text is replaced by a random sequence of a corpus's most frequent 4-grams (section 5.3)."""
    return _draw_ngrams(draft, 4)


def copy_source(draft: Edit) -> str:
    """The text is replaced by the source itself (appendix D)."""
    return draft.source.strip() or draft.text


def injection(draft: Edit) -> str:
    """The text is replaced by one that praises itself (section 5.2); the fifth kind adds a sentence of another text."""
    praises = WORDS["injections"]
    praise: str = praises[int(draft.amount) - 1]
    if praise != praises[-1]:
        return praise
    others = [sentence for sentence, owner in draft.sentences_of_others if owner != draft.text]
    return f"{praise} {draft.rng.choice(others)}" if others else draft.text


# ---------------------------------------------------------------- sentences, names and meaning (Table 16 bottom, and note 14)

_TRIES = 100
#: Words after which "'s" is "is" or "has", whatever tag it has.
_BEFORE_IS = LISTS["subjects"] | LISTS["asking"] | frozenset(["that", "there", "here"])
#: Marks that end a part of a sentence (note 14).
DELIMITERS = frozenset(",.?!")


def middle_swap(draft: Edit) -> str:
    """The halves of random sentences change places."""
    swapped: dict[Span, str] = {}
    long = [sentence for sentence in draft.sentences if find_end(sentence) - sentence.start >= 2]
    for sentence in draft.draw(long):
        start, end = sentence.start, find_end(sentence)
        middle = (start + end) // 2
        first, second = draft.doc[start:middle].text, draft.doc[middle:end].text
        if first[:1].isupper():
            second = second[:1].upper() + second[1:]
            if sentence[0].is_stop and sentence[0].text != "I":  # a name keeps its capital letter
                first = first[:1].lower() + first[1:]
        swapped[draft.doc[start:end]] = f"{second} {first}"
    return draft.replace(swapped)


def _count_movable(draft: Edit) -> int:
    """Return how many sentences, from the first, may be moved or replaced."""
    return max(len(draft.sentences) - draft.keep_last, 0)


def sentence_switching(draft: Edit) -> str:
    """Random pairs of sentences change places, first those that have not moved yet; a text like a list stays as it is.

    An order is wrong where a sentence that points back follows another one than before.
    """
    sentences = list(map(join, draft.sentences))
    switched = switch(sentences, _count_movable(draft), draft.amount, draft.rng)
    torn = set(pairwise(["", *switched])) - set(pairwise(["", *sentences]))
    return " ".join(switched) if any(_points_back(sentence) for _, sentence in torn) else draft.text


def _points_back(sentence: str) -> bool:
    """Tell whether a sentence has a word that refers to what was said before."""
    words = re.findall(r"\w+", sentence.lower())
    return not (LISTS["references"].isdisjoint(words[:3]) and LISTS["beginnings"].isdisjoint(words[:1]))


def switch(parts: Sequence[str], movable: int, amount: float, rng: random.Random) -> list[str]:
    """Switch pairs of the first ``movable`` parts; no switch brings a part back to its own place.

    Parts that have not moved are switched first, and where every further switch would bring a part back, switching ends. So
    more pairs never make less of an error.
    """
    home = list(range(movable))
    fresh = rng.sample(home, movable)
    for _ in range(int(amount)):
        if len(fresh) >= 2:
            i, j = fresh.pop(), fresh.pop()
        else:
            pairs = ((i, j) for i in rng.sample(range(movable), movable) for j in rng.sample(range(movable), movable))
            i, j = next(((i, j) for i, j in pairs if i != j and home[i] != j and home[j] != i), (0, 0))
            fresh = [k for k in fresh if k not in (i, j)]
        if i == j:
            break
        home[i], home[j] = home[j], home[i]
    return [*(parts[k] for k in home), *parts[movable:]]


def sentence_replacement(draft: Edit) -> str:
    """Random sentences are replaced by sentences of other texts of the corpus."""
    sentences = list(map(join, draft.sentences))
    taken = set(sentences)
    for i in draft.draw(range(_count_movable(draft))):
        for _ in range(_TRIES if draft.sentences_of_others else 0):  # enough, as few sentences are taken
            irrelevant, owner = draft.rng.choice(draft.sentences_of_others)
            if owner != draft.text and irrelevant not in taken:
                taken.add(irrelevant)
                sentences[i] = irrelevant
                break
    return " ".join(sentences) or draft.text


def negation(draft: Edit) -> str:
    """Random sentences are negated, or lose their "not"."""
    negated = {sentence: new for sentence in draft.sentences if (new := negate(sentence)) is not None}
    return draft.replace({sentence: negated[sentence] for sentence in draft.draw_share(list(negated))})


def negate(sentence: Span) -> str | None:
    """Return a sentence without its first "not" or, if it has none, with its first finite verb negated; None without either."""
    words = list(sentence)
    changed = _free(words) or next(filter(None, (_negate_at(words, i) for i in range(len(words)))), None)
    if changed is None:
        return None
    text = "".join(changed.get(i, word.text_with_ws) for i, word in enumerate(words))
    return text.removesuffix(words[-1].whitespace_)


def _free(words: Sequence[Token]) -> dict[int, str] | None:
    """Position -> replacement, of the words that take the first "not" of a sentence away; None where it has none."""
    for i, word in enumerate(words):
        attached = i > 0 and not words[i - 1].whitespace_
        if word.lower_ != "not" and not (attached and _plain(words, i) in ("n't", "nt")):
            continue
        if not i:
            return {0: ""}
        before = words[i - 1]
        base = "" if word.lower_ == "not" else WORDS["verb_stems"].get(_plain(words, i - 1))
        return {i - 1: (like(base, before.text) if base else before.text) + word.whitespace_, i: ""}
    return None


def _plain(words: Sequence[Token], i: int) -> str:
    """The word at ``i`` in lower case with straight apostrophes; ``""`` before the first and after the last word."""
    return words[i].lower_.replace("\u2019", "'") if 0 <= i < len(words) else ""


def _negate_at(words: Sequence[Token], i: int) -> dict[int, str] | None:
    """Position -> replacement, of the words that negate the verb at ``i``; None where there is no finite verb."""
    word = words[i]
    if _is_contracted(words, i):
        return _add_not(words, i)
    if word.tag_ != "MD" and not (word.tag_ in WORDS["do_by_tag"] and word.pos_ in ("VERB", "AUX")):
        return None
    if word.tag_ == "MD" or word.lemma_ == "be" or (word.lower_ in LISTS["auxiliaries"] and word.pos_ == "AUX"):
        return _add_not(words, i)
    if not is_alone(words, i) or "'" in _plain(words, i):  # it is a part of a word, such as the "got" of "gotta"
        return None
    return {i: f"{like(WORDS['do_by_tag'][word.tag_], word.text)} not {word.lemma_ or word.text}{word.whitespace_}"}


def _add_not(words: Sequence[Token], i: int) -> dict[int, str]:
    """Position -> replacement, of the words that put "not" after the one at ``i``."""
    word = words[i]
    if not word.whitespace_ and _plain(words, i + 1) in ("'ve", "ve"):  # "should've" becomes "should not have"
        return {i: f"{word.text} not ", i + 1: f"have{words[i + 1].whitespace_}"}
    return {i: f"{word.text} not{word.whitespace_}"}


def _is_contracted(words: Sequence[Token], i: int) -> bool:
    """Tell whether the word at ``i`` is or ends in a contracted verb: 'm, 're, 've, 'll, 'd or 's.

    It goes by spelling, as taggers miss many contractions, above all those with a curly apostrophe. A contracted verb keeps its
    form and gets a "not", so it does not matter whether "She'd" is "She had" or "She would".
    """
    word, plain = words[i], _plain(words, i)
    if not i or words[i - 1].whitespace_ or not words[i - 1].text.isalpha():
        match = re.fullmatch(r"([^\W\d_]+)'(re|ve|ll|d)", plain)  # in one token: "John'll", not "He OK'd it"
        return bool(match and not (match[2] == "d" and word.text[: len(match[1])].isupper()))
    before, ending = _plain(words, i - 1), plain.removeprefix("'")
    if ending == "s" and "'" in plain:
        verb = word.tag_ in ("VBZ", "VBP", "VBD") or before in _BEFORE_IS
        return verb and word.tag_ != "POS" and before != "let"
    return ending in ("m", "re", "ve", "ll", "d") and (ending, word.tag_) != ("ve", "VB")


def generic_named_entity(draft: Edit) -> str:
    """Random named entities are replaced by a general word for their kind."""
    starts = {sentence.start for sentence in draft.sentences}
    return draft.replace(
        {
            name: like(WORDS["generic"].get(name.label_, "something"), "A" if name.start in starts else "a")
            for name in draft.draw_share(draft.doc.ents)
        }
    )


def _switch_spans(draft: Edit, spans: Sequence[Span]) -> str:
    """Return a text in which random pairs of spans change places."""
    texts = switch([join(span) for span in spans], len(spans), draft.amount, draft.rng)
    return draft.replace(dict(zip(spans, texts, strict=True)))


def named_entity_switching(draft: Edit) -> str:
    """Random pairs of named entities change places."""
    return _switch_spans(draft, draft.doc.ents)


def _switch_words(draft: Edit, part_of_speech: str) -> str:
    """Return a text in which random pairs of words of a part of speech change places."""
    words = [word for word in draft.doc if word.pos_ == part_of_speech and is_alone(draft.doc, word.i)]
    return _switch_spans(draft, [draft.doc[word.i : word.i + 1] for word in words])


def verb_switching(draft: Edit) -> str:
    """Random pairs of verbs change places."""
    return _switch_words(draft, "VERB")


def noun_switching(draft: Edit) -> str:
    """Random pairs of nouns change places."""
    return _switch_words(draft, "NOUN")


def sub_sentence_switching(draft: Edit) -> str:
    """Random pairs of parts between punctuation marks change places (note 14); the marks stay."""
    runs = [list(run) for ends, run in groupby(draft.doc, lambda word: word.text in DELIMITERS) if not ends]
    return _switch_spans(draft, [draft.doc[run[0].i : run[-1].i + 1] for run in runs])


def bert_diverge(draft: Edit) -> str:
    """Random words are replaced, one after the other, by one of the ten words that a masked language model finds likeliest."""
    words = [word.text_with_ws for word in draft.doc]
    for word in draft.draw_share([word for word in draft.doc if is_spoken(word)]):
        if options := draft.fill(words, word.i):
            words[word.i] = draft.rng.choice(options) + word.whitespace_
    return "".join(words).rstrip()


# ---------------------------------------------------------------- the table of error types

#: The corpora of the paper.
PAPER = ("wikitext", "cnndm", "wmt", "ted")
#: What an error may need -> how the user can supply it.
NEEDS: Mapping[str, str] = {
    "tags": "a tagger: python -m spacy download en_core_web_sm, or --spacy PIPELINE",
    "entities": "an entity recognizer: python -m spacy download en_core_web_sm, or --spacy PIPELINE",
    "source": "a source for every text: a JSONL corpus with `source`",
    "reference corpus": "a reference corpus for n-grams: texts_reference.txt beside texts.txt",
    "masked model": "a masked language model: --mlm FOLDER",
}


@dataclass(frozen=True)
class ErrorType:
    """One kind of error; the attributes but the first two are the columns of ``errors.yaml``, which says what they mean."""

    name: str
    change: Callable[[Edit], str]
    kind: str
    unit: str
    levels: list[float] | Mapping[str, list[float]]
    names: Mapping[float, str] = field(default_factory=dict)
    switching: bool = False
    graded: bool = True
    needs: Sequence[str] = ()
    example: tuple[str, str, float] | None = None

    @property
    def definition(self) -> str:
        """What it does."""
        return (self.change.__doc__ or "").split("\n")[0]

    def make(self, draft: Edit, text: str, amount: float, rng: random.Random) -> str:
        """Return a text with the error, unchanged where it cannot be made; ``draft`` has what it may use."""
        return self.change(replace(draft, text=text, amount=amount, rng=rng))

    def choose_levels(self, corpus: str, *, few: bool = False) -> list[float]:
        """The paper's amounts for a corpus; one of the user's has those of CNN/DM, whose texts have a medium length.

        Args:
            corpus: its name.
            few: the lowest, the middle and the highest, of those that count.
        """
        levels = self.levels
        if isinstance(levels, Mapping):
            levels = levels.get(corpus if corpus in PAPER else "cnndm", [])
        if few and len(levels) > 3 and not self.names:
            return [levels[0], levels[(len(levels) - 1) // 2], levels[-1]]
        return levels

    def name_level(self, amount: float) -> str:
        """Return the name of a level: the subcategory of its tests."""
        return self.names.get(amount, f"{amount:g}")


#: Name -> error type, in the order of the paper.
ERRORS: dict[str, ErrorType] = {
    name: ErrorType(name, globals()[name], **row)
    for name, row in read_yaml(Path(__file__).with_name("errors.yaml")).items()
}


def choose_errors(
    wanted: str, corpus: Corpus, parser: Parser, mlm: str | None = None
) -> tuple[list[ErrorType], dict[str, str]]:
    """Return the error types to make, and error type -> what it lacks.

    Args:
        wanted: ``all``, or names separated by commas.
        corpus: the gold texts.
        parser: of these texts.
        mlm: a masked language model.

    Raises:
        NNDError: the user named an error type that is unknown or cannot be made.
    """
    have = set(compress(NEEDS, (parser.tags, parser.entities, corpus.texts[0].source, corpus.reference, mlm)))
    chosen, lacking = [], {}
    for name in ERRORS if wanted == "all" else dict.fromkeys(name.strip() for name in wanted.split(",")):
        if name not in ERRORS:
            raise NNDError(f"--errors: there is no error {name!r}; there are: {', '.join(ERRORS)}")
        error = ERRORS[name]
        missing = [NEEDS[need] for need in sorted(error.needs) if need not in have]
        if not error.choose_levels(corpus.name):
            missing.insert(0, f"another corpus: the paper does not make it on {corpus.name}")
        if not missing:
            chosen.append(error)
        elif wanted != "all":
            raise NNDError(f"--errors {name} needs {missing[0]}")
        else:
            lacking[name] = missing[0]
    return chosen, lacking
