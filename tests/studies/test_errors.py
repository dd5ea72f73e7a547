"""Every error type keeps its promise, by its definition."""

import random
import re
from collections import Counter
from dataclasses import replace

import pytest
import spacy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nnd_tasks.studies.stress.edits import Edit, Parser, count_of, is_spoken, join
from nnd_tasks.studies.stress.error_types import ERRORS, SPAN
from nnd_tasks.studies.stress.stress_set import compute_noise, find_ngrams
from tests.studies.pipeline import ENTITIES, NOUNS, VERBS, is_within, split_into, tagged

PARSER = Parser(spacy.blank("en"))
TAGGED = Parser(tagged())
OTHERS = [("Rain fell all night.", "other"), ("Nobody came.", "other"), ("The end was near.", "third")]
DRAFT = Edit(
    parser=TAGGED,
    source="The source says it all. It says it twice.",
    sentences_of_others=OTHERS,
    vocabulary=["quark", "zebra", "violin"],
    ngrams={
        3: (("one", "of", "the"), ("as", "well", "as")),
        4: (("at", "the", "end", "of"), ("in", "the", "middle", "of")),
    },
    fill=lambda words, position: ["violet", "marble"],
)

WORDS = [
    *VERBS,
    *NOUNS,
    *ENTITIES,
    *["was", "can", "the", "a", "to", "in", "of", "she", "he", "and", "very", "slowly", "I"],
]


@st.composite
def texts(draw, least=1):
    """Texts of some sentences, of known words."""
    made = []
    for _ in range(draw(st.integers(least, 6))):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
        if len(words) > 3 and draw(st.booleans()):
            words[1] += ","
        made.append(" ".join(words).capitalize() + draw(st.sampled_from([".", "!", "?"])))
    return " ".join(made)


def make(name, text, amount, seed=0, **changes):
    return ERRORS[name].make(replace(DRAFT, **changes), text, amount, random.Random(seed))


def words_of(text):
    return [word.text for word in TAGGED.parse(text)]


def spaced(text):
    """Return a text with white space between all that spaCy takes for words."""
    return " ".join(words_of(text))


#: Enough for texts of so few words.
few = settings(max_examples=30)
shares = st.sampled_from([0.05, 0.3, 0.5, 1.0])
seeds = st.integers(0, 1000)


# ---------------------------------------------------------------- all of them


def test_every_error_of_the_paper_is_there():
    assert Counter(error.kind for error in ERRORS.values()) == {"fluency": 10, "consistency": 9, "targeted": 7}


#: Error, amount, text = the same with the error # why.
EXAMPLES = """
truncation 0.7: She went, and he, and they. = She went. # what is left ends in a comma
truncation 0.3: Why not? Because. = Why. # one more word than its share, as "Why not?" is no error
truncation 0.35: He said "no." Then left. = He said.
truncation 0.4: Dogs bark. Cats sing. Nobody knows. = Dogs bark. Cats.
truncation 0.45: It is here: in town. = It is here.
truncation 0.7: She said "no" and left. = She said. # behind a quote that opens
truncation 0.7: She said 'no' and left. = She said.
truncation 0.45: She left. "No." = She.
truncation 0.4: He sang " no " too loud. = He sang " no ". # some texts have a space before one that closes
article_removal 1: The dog flew to A Coruña. A song of The Hague, an AN-2. = dog flew to A Coruña. song of The Hague, AN-2.
middle_swap 2: It was late, and the dog slept. She left. = And the dog slept it was late,. Left she.
verb_lemmatization 1: Went she? He talked. = Go she? He talk.
generic_named_entity 1: Anna flew to Paris on Monday. Acme left. = A person flew to a place on some time. An organization left.
generic_named_entity 1: She left. = She left.
copy_source 1: x = The source says it all. It says it twice.
"""
NEGATED = """
She went to work. = She did not go to work.
Anna knows the song. = Anna does not know the song.
They sing. = They do not sing.
It was late. = It was not late.
She can sing. = She can not sing.
She can't sing. = She can sing.
It was not late. = It was late.
Paris in spring. = Paris in spring.
Not today. = today.
It was, of course, late. = It was not, of course, late.
I've seen it. = I've not seen it.
She'd gone. = She'd not gone.
She'd go. = She'd not go.
We'll see. = We'll not see.
You're late. = You're not late.
I'm late. = I'm not late.
It's late. = It's not late.
Mary'd gone. = Mary'd not gone.
She'd've gone. = She'd not have gone.
He can't sing. = He can sing.
We won't go. = We will go.
She ain't late. = She is late.
We wouldn't've gone. = We would've gone.
Anna's dog can wait. = Anna's dog can not wait.
Let's leave. = Let's leave.
"""


def split_example(line):
    """Return name, text, amount and the text with the error."""
    error, texts = line.partition(" # ")[0].split(": ", 1)
    name, amount = error.split()
    text, wrong = texts.split(" = ")
    return name, text, float(amount), wrong


NEGATIONS = [f"negation 1: {line}" for line in NEGATED.strip().splitlines()]
CURLY = [line.replace("'", "\u2019") for line in NEGATIONS]
CASES = {
    *map(split_example, [*EXAMPLES.strip().splitlines(), *NEGATIONS, *CURLY]),
    *((name, kind.example[0], kind.example[2], kind.example[1]) for name, kind in ERRORS.items() if kind.example),
}


@pytest.mark.parametrize(("name", "text", "amount", "wrong"), sorted(CASES))
def test_an_error_is_made_as_in_the_example(name, text, amount, wrong):
    assert make(name, text, amount) == wrong


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_empty_or_odd_text_is_no_reason_to_stop(name):
    amount = ERRORS[name].choose_levels("cnndm")[0]
    for text in ("x", ".", "...", "東京", "a b", "\n", "word " * 300):
        assert isinstance(make(name, text, amount), str)


# ---------------------------------------------------------------- words


@few
@given(texts(), shares)
def test_truncation_yields_a_prefix_that_ends_within_a_sentence(text, amount):
    assume(not re.search(r"\b\w\.", text))  # an initial ends no sentence
    words = list(TAGGED.parse(text))
    left = len(words) - count_of(amount, len(words))
    sentences = {"", *(text[: mark.start()] for mark in re.finditer("[.!?]", text))}
    cuts = [join(words[:n]).rstrip(",.!?") for n in range(left + 1)]
    within = [cut for cut in cuts if cut not in sentences]  # a text of whole sentences is only shorter, and as good
    assert make("truncation", text, amount) == (f"{within[-1]}." if within else "")


@few
@given(st.integers(1, 6), seeds)
def test_sentences_that_refer_to_nothing_may_stand_in_any_order(pairs, seed):
    """A list stays as it is; with a word that refers to the sentence before, a new order is an error."""
    parts = [f"{name} {verb} slowly." for name, verb in zip(ENTITIES, VERBS, strict=False)]
    assert make("sentence_switching", " ".join(parts), pairs, seed) == " ".join(parts)
    for back in ("Then", "But", "After this"):
        linked = " ".join([parts[0], *(f"{back} {part}" for part in parts[1:])])
        assert make("sentence_switching", linked, pairs, seed) != linked


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It was Lt. Col. Smith who left. She stayed.", 2),
        ("Wing No. 81 left. No. She stayed.", 3),
        ("Warner Bros. Records sang, of course. The Yahoo! songs rained. E.g. this.", 3),
        ("she left. it rained.", 2),  # a text without capital letters
        ('"Who left?" she knows. He left.', 2),
        ("", 0),
    ],
)
def test_no_sentence_ends_at_an_abbreviation_or_before_a_small_letter(text, sentences):
    found = PARSER.sentences(text)
    assert len(found) == sentences
    assert " ".join(map(join, found)) == text


@pytest.mark.parametrize(
    ("name", "eligible"),
    [
        ("stop_word_removal", lambda word: PARSER.parse(word)[0].is_stop),
        ("token_drop", lambda word: True),
    ],
)
@few
@given(text=texts(), amount=shares, seed=seeds)
def test_removal_takes_its_share_of_what_is_eligible_and_nothing_else(name, eligible, text, amount, seed):
    text = spaced(text)
    before, after = words_of(text), words_of(make(name, text, amount, seed))
    assert is_within(after, before)
    gone = Counter(before) - Counter(after)
    assert all(map(eligible, gone)), gone
    assert gone.total() == count_of(amount, sum(map(eligible, before)))


@pytest.mark.parametrize(
    "name",
    ["local_swap", "middle_swap", "sentence_switching", "verb_switching", "noun_switching", "sub_sentence_switching"],
)
@few
@given(text=texts(least=2), seed=seeds)
def test_switching_only_moves(name, text, seed):
    amount = 0.6 if name == "local_swap" else 3
    found = make(name, text, amount, seed)
    if name == "middle_swap":  # which adapts capital letters
        text, found = text.lower(), found.lower()
    assert Counter("".join(found.split())) == Counter("".join(text.split()))


@few
@given(text=texts(least=4), place=st.sampled_from([0.0, 0.5, 1.0]), seed=seeds)
def test_a_positioned_error_stays_within_ten_words(text, place, seed):
    text = spaced(text)
    words = text.split()
    start = int(place * max(len(words) - SPAN, 0))
    for kind, allowed in (("shuffle", words[start : start + SPAN]), ("random", DRAFT.vocabulary)):
        changed = make(f"positioned_error_{kind}", text, place, seed).split()
        span, changed[start : start + SPAN] = changed[start : start + SPAN], words[start : start + SPAN]
        assert changed == words, "the rest stays, and the length"
        assert set(span) <= set(allowed)
        assert kind == "random" or sorted(span) == sorted(allowed)


@pytest.mark.parametrize("size", [3, 4])
def test_frequent_ngrams_are_drawn_and_joined(size):
    name, known = f"frequent_{size}gram", DRAFT.ngrams[size]
    drawn = make(name, "x", 10, ngram_words=250).split()
    assert len(drawn) == 250
    assert {tuple(drawn[i : i + size]) for i in range(0, 250 - size, size)} == set(known)
    assert len(make(name, "one two three four five", 10).split()) == 5, "as long as the gold text"
    assert set(make(name, "x", 1, ngram_words=40).split()) == set(known[0])


def test_ngrams_are_counted_without_punctuation():
    ngrams = find_ngrams(["One of the best. One of the rest, one of us.", "At the end of it all."], PARSER)
    assert ngrams[3][:2] == [("one", "of", "the"), ("at", "the", "end")]
    assert all(word.isalpha() for gram in ngrams[3] + ngrams[4] for word in gram)


def test_texts_that_are_given_up_for_others():
    assert make("copy_source", "x", 1, source=" ") == "x"
    praises = {make("injection", "x", kind) for kind in range(1, 6)}
    assert len(praises) == 5
    assert any(text.endswith(tuple(sentence for sentence, _ in OTHERS)) for text in praises)


# ---------------------------------------------------------------- sentences and meaning


@few
@given(texts(least=2), st.integers(1, 6), seeds)
def test_the_last_sentence_may_stay(text, pairs, seed):
    sentences = [join(sentence) for sentence in TAGGED.sentences(text)]
    assert make("sentence_switching", text, pairs, seed, keep_last=True).endswith(sentences[-1])


@few
@given(texts(), st.integers(1, 6), seeds)
def test_sentences_are_replaced_by_those_of_others(text, count, seed):
    sentences = [join(sentence) for sentence in TAGGED.sentences(text)]
    donors = {sentence for sentence, _ in OTHERS}  # none of them is made of the words of texts
    pieces = split_into(make("sentence_replacement", text, count, seed), [*sentences, *donors])
    new = [piece for piece in pieces if piece in donors]
    assert len(set(new)) == len(new) == min(count, len(sentences), len(donors)), "no sentence is put in twice"
    assert all(piece in (sentence, *donors) for piece, sentence in zip(pieces, sentences, strict=True))
    own = [(sentence, text) for sentence, _ in OTHERS]
    assert make("sentence_replacement", text, count, seed, sentences_of_others=own) == " ".join(sentences)


@few
@given(texts(), shares, seeds)
def test_bert_diverge_replaces_its_share_of_words(text, amount, seed):
    before, after = TAGGED.parse(text), TAGGED.parse(make("bert_diverge", text, amount, seed))
    assert len(before) == len(after)
    changed = [b.text for a, b in zip(before, after, strict=True) if a.text != b.text]
    eligible = sum(map(is_spoken, before))
    assert len(changed) == count_of(amount, eligible)
    assert set(changed) <= {"violet", "marble"}


# ---------------------------------------------------------------- noise, amounts, levels


def test_the_noise_ratio_is_the_edit_distance_over_the_words():
    assert compute_noise("a b c d", "a  c b d e") == 0.75
    assert compute_noise("a b c d", "b a c d", switching=True) == 0.25


@given(st.floats(0.001, 1), st.integers(0, 500))
def test_a_share_is_rounded_and_never_nothing_of_something(amount, items):
    found = count_of(amount, items)
    assert 0 <= found <= items
    if items:
        assert found >= 1
        assert abs(found - amount * items) <= 0.5 + 1e-9 or found == 1


@pytest.mark.parametrize(
    ("corpus", "name", "few", "levels"),
    [
        ("wmt", "sentence_switching", False, []),
        ("ted", "token_drop", True, [0.05, 0.25, 0.55]),
        ("wikitext", "injection", True, [1, 2, 3, 4, 5]),  # kinds are no grades
        ("mine", "noun_switching", False, [2, 7]),  # as on CNN/DM
    ],
)
def test_levels_are_those_of_the_paper(corpus, name, few, levels):
    assert ERRORS[name].choose_levels(corpus, few=few) == levels
