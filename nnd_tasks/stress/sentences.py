"""Errors of sentences, names and meaning (paper, Table 16 bottom, and note 14)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from nnd_tasks.stress.registry import Resources, count_of, drawn, error
from nnd_tasks.stress.text import Parsed, Word, join
from nnd_tasks.stress.words import alone, like

#: Label of an entity (OntoNotes) -> the words that replace its name.
GENERIC = {
    "PERSON": "a person",
    "NORP": "a group",
    "ORG": "an organization",
    "FAC": "a place",
    "GPE": "a place",
    "LOC": "a place",
    "PRODUCT": "a product",
    "EVENT": "an event",
    "WORK_OF_ART": "a work",
    "LAW": "a law",
    "LANGUAGE": "a language",
    "DATE": "some time",
    "TIME": "some time",
}
_SOMETHING = "something"
_TRIES = 100
_AUXILIARY_WORDS = "am is are was were can could may might must shall should will would do does did has have had"
_AUXILIARIES = frozenset(_AUXILIARY_WORDS.split())
#: What is left of a verb without its "n't" -> the verb.
_BASES = {"ca": "can", "wo": "will", "sha": "shall"}
_SUBJECTS = frozenset(["i", "you", "he", "she", "it", "we", "they"])
_ASKING = frozenset(["how", "what", "when", "where", "who", "why"])
#: Words after which "'s" is "is" or "has", whatever tag it has.
_BEFORE_IS = _SUBJECTS | _ASKING | frozenset(["that", "there", "here"])
_DETERMINERS = frozenset(["a", "an", "the", "no", "my", "your", "his", "her", "its", "our", "their"])
#: Words that refer to what was said before where they begin a sentence.
_BEGINNINGS = "and because but here or so still that there yet"
_BACK_FIRST = frozenset(_BEGINNINGS.split())
#: Words that do so among its first three, as further on they mostly refer to the sentence itself ("He lost his dog").
_REFERENCES = (
    "afterwards also another example former hence her his he however instead it its latter others she such their them then "
    "therefore these they this those thus"
)
_BACK = frozenset(_REFERENCES.split())
#: Marks that end a part of a sentence (note 14).
DELIMITERS = frozenset(",.?!")


@error("fluency", "sentences", switching=True, example=("She went to the office.", "To the office she went.", 1))
def middle_swap(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """The halves of random sentences change places."""
    parsed = resources.parser.parse(text)
    words = list(parsed.words)
    long = [(start, end) for start, end in parsed.sentences if parsed.core(start, end) - start >= 2]
    for start, end in drawn(rng, long, int(amount)):
        stop = parsed.core(start, end)
        middle = (start + stop) // 2
        last = words[stop - 1].space
        moved = [*words[middle:stop], *words[start:middle]]
        first = stop - middle  # where the old beginning is now
        moved[first - 1] = replace(moved[first - 1], space=" ")
        moved[-1] = replace(moved[-1], space=last)
        if words[start].text[:1].isupper():
            moved[0] = replace(moved[0], text=moved[0].text[:1].upper() + moved[0].text[1:])
            if words[start].stop and words[start].text != "I":  # a name keeps its capital letter
                moved[first] = replace(moved[first], text=words[start].text[:1].lower() + words[start].text[1:])
        words[start:stop] = moved
    return join(words)


def _sentences(parsed: Parsed) -> list[str]:
    """Return the sentences of a text."""
    return [join(parsed.words[start:end]) for start, end in parsed.sentences]


def _movable(parsed: Parsed, resources: Resources) -> int:
    """Return how many sentences, from the first, may be moved or replaced."""
    return max(len(parsed.sentences) - bool(resources.keep_last), 0)


@error("consistency", "pairs of sentences", switching=True, example=("She left. It rained.", "It rained. She left.", 1))
def sentence_switching(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random pairs of sentences change places, first those that have not moved yet; a text like a list stays as it is.

    An order is wrong where a sentence that points back follows another one than before.
    """
    parsed = resources.parser.parse(text)
    sentences = _sentences(parsed)
    switched = _switched(sentences, _movable(parsed, resources), amount, rng)
    torn = set(pairwise(["", *switched])) - set(pairwise(["", *sentences]))
    return " ".join(switched) if any(_points_back(sentence) for _, sentence in torn) else text


def _points_back(sentence: str) -> bool:
    """Tell whether a sentence has a word that refers to what was said before."""
    words = re.findall(r"\w+", sentence.lower())
    return not (_BACK.isdisjoint(words[:3]) and _BACK_FIRST.isdisjoint(words[:1]))


def _switched(parts: list[str], movable: int, amount: float, rng: random.Random) -> list[str]:
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


@error("consistency", "sentences")
def sentence_replacement(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random sentences are replaced by sentences of other texts of the corpus."""
    parsed = resources.parser.parse(text)
    sentences = _sentences(parsed)
    movable = _movable(parsed, resources)
    places = drawn(rng, range(movable), int(amount))
    taken = set(sentences)
    for i in places:
        for _ in range(_TRIES):  # enough, as few sentences are taken
            other, owner = rng.choice(resources.sentences) if resources.sentences else (sentences[i], text)
            if owner != text and other not in taken:
                taken.add(other)
                sentences[i] = other
                break
    return " ".join(sentences) if sentences else text


@error(
    "consistency",
    "share of sentences",
    needs=["tags"],
    example=("She went to the office. It was late.", "She did not go to the office. It was not late.", 1),
)
def negation(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random sentences are negated, or lose their "not"."""
    parsed = resources.parser.parse(text)
    changed = {span: new for span in parsed.sentences if (new := _negated(parsed.words[slice(*span)])) is not None}
    chosen = set(drawn(rng, sorted(changed), count_of(amount, len(changed))))
    words: list[Word] = []
    for span in parsed.sentences:
        words += changed[span] if span in chosen else parsed.words[slice(*span)]
    return join(words)


def _negated(sentence: Sequence[Word]) -> list[Word] | None:
    """Return a sentence without its first "not" or, if it has none, with its first finite verb negated; None without either."""
    words = list(sentence)
    return _freed(words) or next((new for i in range(len(words)) if (new := _negated_at(words, i))), None)


def _freed(words: list[Word]) -> list[Word] | None:
    """Return a sentence without its first "not"; None where it has none."""
    for i, word in enumerate(words):
        attached = i > 0 and not words[i - 1].space
        if word.text.lower() != "not" and not (attached and _plain(word) in ("n't", "nt")):
            continue
        if i:
            before = words[i - 1]
            text = before.text
            if _plain(word) != "not" and (base := _BASES.get(_plain(before)) or _of_aint(words, i)):
                text = like(base, text)
            words[i - 1] = replace(before, text=text, space=word.space)
        return words[:i] + words[i + 1 :]
    return None


def _plain(word: Word) -> str:
    """Return a word in lower case with straight apostrophes."""
    return word.text.lower().replace("\u2019", "'")


def _of_aint(words: Sequence[Word], i: int) -> str | None:
    """Return the verb that "ain't" stands for, where the word before ``i`` is its "ai"; else None."""
    if _plain(words[i - 1]) != "ai":
        return None
    subject = _plain(words[i - 2]) if i > 1 else ""
    many = subject in ("you", "we", "they")
    if i + 1 < len(words) and _plain(words[i + 1]) in ("been", "got", "had", "seen"):
        return "have" if many or subject == "i" else "has"
    return "am" if subject == "i" else "are" if many else "is"


def _negated_at(words: Sequence[Word], i: int) -> list[Word] | None:
    """Return a sentence with the verb at ``i`` negated; None where there is no finite verb."""
    word = words[i]
    if kind := _contracted(words, i):
        if kind in ("ve", "d") and _has_something(words, i):  # "They'd the money", not a part of another verb
            support, words = {"ve": "do", "d": "did"}[kind], [*words]
            words[i - 1] = replace(words[i - 1], space=" ")
            return [*words[:i], Word(support, " "), Word("not", " "), replace(word, text="have"), *words[i + 1 :]]
        return _with_not(words, _after_subject(words, i))
    if word.tag not in ("VBD", "VBZ", "VBP", "MD") or not (word.pos in ("VERB", "AUX") or word.tag == "MD"):
        return None
    if word.tag == "MD" or word.lemma == "be" or (word.text.lower() in _AUXILIARIES and word.pos == "AUX"):
        return _with_not(words, i)
    if i and not words[i - 1].space and words[i - 1].spoken:  # it is a part of a word, such as the "got" of "gotta"
        return None
    if (i + 1 < len(words) and not word.space and words[i + 1].spoken) or "'" in _plain(word):
        return None
    support = {"VBD": "did", "VBZ": "does", "VBP": "do"}[word.tag]
    verb = replace(word, text=word.lemma or word.text)
    return [*words[:i], Word(like(support, word.text), " "), Word("not", " "), verb, *words[i + 1 :]]


def _with_not(words: Sequence[Word], i: int) -> list[Word]:
    """Return ``words`` with "not" after the one at ``i``."""
    rest = list(words[i + 1 :])
    space = words[i].space
    if rest and not space and _plain(rest[0]) in ("'ve", "ve"):  # "should've" becomes "should not have"
        rest[0], space = replace(rest[0], text="have"), " "
    return [*words[:i], replace(words[i], space=" "), Word("not", space), *rest]


def _contracted(words: Sequence[Word], i: int) -> str:
    """Return which contracted verb the word at ``i`` is or ends in: ``m``, ``re``, ``ve``, ``ll``, ``d`` or ``s``; else ``""``.

    It goes by spelling, as taggers miss many contractions, above all those with a curly apostrophe. A contracted verb keeps its
    form and gets a "not", so it does not matter whether "She'd" is "She had" or "She would".
    """
    word, plain = words[i], _plain(words[i])
    if not i or words[i - 1].space or not words[i - 1].text.isalpha():  # in one token: "John'll", but not "He OK'd it"
        match = re.fullmatch(r"([^\W\d_]+)'(re|ve|ll|d)", plain)
        past = match and match[2] == "d" and word.text[: len(match[1])].isupper()
        return match[2] if match and not past else ""
    before = _plain(words[i - 1])
    kind = plain.removeprefix("'")
    if kind == "s" and "'" in plain:
        verb = word.tag in ("VBZ", "VBP", "VBD") or before in _BEFORE_IS
        return "s" if verb and word.tag != "POS" and before != "let" else ""
    if kind not in ("m", "re", "ve", "ll", "d") or (kind == "ve" and word.tag == "VB"):
        return ""
    return kind


def _has_something(words: Sequence[Word], i: int) -> bool:
    """Tell whether a contracted "have" is the whole verb, with its object after it, as in "They'd the money"."""
    after = [_plain(word) for word in words[i + 1 : i + 3]]
    if not after or words[i].text[0] not in "'\u2019" or _plain(words[i - 1]) in _ASKING:
        return False
    return after[0] in _DETERMINERS and after[1:] not in (["sooner"], ["longer"], ["doubt"])


def _after_subject(words: Sequence[Word], i: int) -> int:
    """Return the position of the word after which the "not" of the contracted verb at ``i`` stands."""
    if i + 1 < len(words):
        after = _plain(words[i + 1])
        if after in _SUBJECTS and i and _plain(words[i - 1]) in _ASKING:  # "How'd you do that?"
            return i + 1
        if after in ("better", "rather", "sooner") and _contracted(words, i) == "d":  # "I'd better go"
            return i + 1
    return i


@error(
    "consistency",
    "share of named entities",
    needs=["entities"],
    example=("She went to the office in Boston.", "She went to the office in a place.", 1),
)
def generic_named_entity(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random named entities are replaced by a general word for their kind."""
    parsed = resources.parser.parse(text)
    chosen = set(drawn(rng, range(len(parsed.entities)), count_of(amount, len(parsed.entities))))
    return _with_entities(
        parsed,
        {
            (start, end): like(GENERIC.get(label, _SOMETHING), "A" if parsed.begins(start) else "a")
            for i, (start, end, label) in enumerate(parsed.entities)
            if i in chosen
        },
    )


def _with_entities(parsed: Parsed, new: dict[tuple[int, int], str]) -> str:
    """Return the text with spans of words replaced."""
    words: list[Word] = []
    i = 0
    spans = {start: (end, text) for (start, end), text in new.items()}
    while i < len(parsed.words):
        end, text = spans.get(i, (i + 1, parsed.words[i].text))
        words.append(Word(text, parsed.words[end - 1].space))
        i = end
    return join(words)


@error(
    "consistency",
    "pairs of named entities",
    switching=True,
    needs=["entities"],
    example=("She flew from Boston to Paris.", "She flew from Paris to Boston.", 1),
)
def named_entity_switching(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random pairs of named entities change places."""
    parsed = resources.parser.parse(text)
    spans = [(start, end) for start, end, _ in parsed.entities]
    names = [join(parsed.words[start:end]) for start, end in spans]
    return _with_entities(parsed, dict(zip(spans, _switched(names, len(names), amount, rng), strict=True)))


def _tagged_switching(pos: frozenset[str], text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Return a text in which random pairs of words of some parts of speech change places."""
    words = list(resources.parser.parse(text).words)
    places = [i for i, word in enumerate(words) if word.pos in pos and alone(words, i)]
    texts = _switched([words[i].text for i in places], len(places), amount, rng)
    for i, other in zip(places, texts, strict=True):
        words[i] = replace(words[i], text=other)
    return join(words)


@error(
    "consistency",
    "pairs of verbs",
    switching=True,
    needs=["tags"],
    example=("She went and he talked.", "She talked and he went.", 1),
)
def verb_switching(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random pairs of verbs change places."""
    return _tagged_switching(frozenset({"VERB"}), text, amount, rng, resources)


@error(
    "consistency",
    "pairs of nouns",
    switching=True,
    needs=["tags"],
    example=("the office of the staff", "the staff of the office", 1),
)
def noun_switching(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random pairs of nouns change places."""
    return _tagged_switching(frozenset({"NOUN"}), text, amount, rng, resources)


@error(
    "consistency",
    "pairs of parts of sentences",
    switching=True,
    example=("first this, then that.", "then that, first this.", 1),
)
def sub_sentence_switching(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random pairs of parts between punctuation marks change places (note 14); the marks stay."""
    words = list(resources.parser.parse(text).words)
    parts: list[list[Word]] = [[]]
    marks: list[Word | None] = []
    for word in words:
        if word.text in DELIMITERS:
            marks.append(word)
            parts.append([])
        else:
            parts[-1].append(word)
    marks.append(None)
    filled = [i for i, part in enumerate(parts) if part]
    texts = _switched([join(parts[i]) for i in filled], len(filled), amount, rng)
    moved = dict(zip(filled, texts, strict=True))
    result: list[Word] = []
    for i, mark in enumerate(marks):
        if i in moved:
            result.append(Word(moved[i], parts[i][-1].space))
        if mark is not None:
            result.append(mark)
    return join(result)


@error("consistency", "share of words", needs=["masked model"])
def bert_diverge(text: str, amount: float, rng: random.Random, resources: Resources) -> str:
    """Random words are replaced, one after the other, by one of the ten words that a masked language model finds likeliest."""
    words = list(resources.parser.parse(text).words)
    places = [i for i, word in enumerate(words) if word.spoken]
    if resources.fill is None or not places:
        return text
    for i in drawn(rng, places, count_of(amount, len(places))):
        options = resources.fill([word.text + word.space for word in words], i)
        if options:
            words[i] = replace(words[i], text=rng.choice(options))
    return join(words)
