"""Every error type keeps its promise, by its definition; the same seed gives the same text."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import spacy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nnd_tasks.stress.corpora import read_corpus
from nnd_tasks.stress.error_types import ERRORS, PAPER, choose_levels
from nnd_tasks.stress.sentences import switch
from nnd_tasks.stress.set_writing import compute_noise
from nnd_tasks.stress.stress_set import find_ngrams
from nnd_tasks.stress.text import Edit, Parser, count_of, is_spoken, join
from nnd_tasks.stress.words import ARTICLES, PREPOSITIONS, PUNCTUATION, SPAN
from tests.stress.pipeline import ENTITIES, NOUNS, VERBS, rough, tagged

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
    "was",
    "can",
    "the",
    "a",
    "to",
    "in",
    "of",
    "she",
    "he",
    "and",
    "very",
    "slowly",
    "I",
]


@st.composite
def texts(draw: Any, least: int = 1) -> str:
    """Texts of some sentences, of known words."""
    made = []
    for _ in range(draw(st.integers(least, 6))):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
        if len(words) > 3 and draw(st.booleans()):
            words[1] += ","
        made.append(" ".join(words).capitalize() + draw(st.sampled_from([".", "!", "?"])))
    return " ".join(made)


def make(name: str, text: str, amount: float, seed: int = 0, **changes: Any) -> str:
    return ERRORS[name].make(replace(DRAFT, **changes), text, amount, random.Random(seed))


def words_of(text: str) -> list[str]:
    return [word.text for word in TAGGED.parse(text)]


def is_subsequence(short: list[str], long: list[str]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


shares = st.sampled_from([0.05, 0.3, 0.5, 1.0])
seeds = st.integers(0, 1000)


# ---------------------------------------------------------------- all of them


def test_every_error_of_the_paper_is_there() -> None:
    fluency = {
        *(
            "truncation",
            "article_removal",
            "preposition_removal",
            "stop_word_removal",
            "verb_lemmatization",
            "token_drop",
        ),
        *("repeated_token", "local_swap", "middle_swap", "noised_punctuation"),
    }
    consistency = {
        *("sentence_switching", "sentence_replacement", "negation", "generic_named_entity", "named_entity_switching"),
        *("verb_switching", "noun_switching", "bert_diverge"),
    }
    assert len(fluency) == 10
    assert len(consistency) == 8
    assert fluency == {name for name, kind in ERRORS.items() if kind.kind == "fluency"}
    assert consistency | {"sub_sentence_switching"} == {
        name for name, kind in ERRORS.items() if kind.kind == "consistency"
    }
    assert all(any(map(kind.find_levels, PAPER)) for kind in ERRORS.values()), "each has levels"
    for kind in ERRORS.values():
        assert kind.definition.endswith((".", ")")), kind.name


@pytest.mark.parametrize("name", [name for name, kind in ERRORS.items() if kind.example])
def test_examples_are_what_comes_out(name: str) -> None:
    example = ERRORS[name].example
    assert example is not None
    text, expected, amount = example
    assert make(name, text, amount) == expected


@pytest.mark.parametrize("name", ERRORS)
@settings(max_examples=25, deadline=None)
@given(text=texts(), seed=seeds, data=st.data())
def test_the_same_seed_gives_the_same_text(name: str, text: str, seed: int, data: Any) -> None:
    amount = data.draw(
        st.sampled_from(sorted({level for corpus in PAPER for level in ERRORS[name].find_levels(corpus)}))
    )
    found = make(name, text, amount, seed)
    assert make(name, text, amount, seed) == found
    assert found == found.rstrip()


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_empty_or_odd_text_is_no_reason_to_stop(name: str) -> None:
    amount = ERRORS[name].find_levels("cnndm")[0]
    for text in ("x", ".", "...", "東京", "a b", "\n", "word " * 300):
        assert isinstance(make(name, text, amount), str)


# ---------------------------------------------------------------- words


@given(texts(), shares)
def test_truncation_yields_a_prefix_that_ends_within_a_sentence(text: str, amount: float) -> None:
    assume(not re.search(r"\b\w\.", text))  # an initial ends no sentence
    words = list(TAGGED.parse(text))
    left = len(words) - count_of(amount, len(words))
    sentences = {"", *(text[: mark.start()] for mark in re.finditer("[.!?]", text))}
    cuts = [join(words[:n]).rstrip(",.!?") for n in range(left + 1)]
    within = [cut for cut in cuts if cut not in sentences]  # a text of whole sentences is only shorter, and as good
    assert make("truncation", text, amount) == (f"{within[-1]}." if within else "")


@given(texts(least=2), st.integers(1, 6), seeds)
def test_sentences_that_refer_to_nothing_may_stand_in_any_order(text: str, pairs: int, seed: int) -> None:
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
def test_no_sentence_ends_at_an_abbreviation_or_before_a_small_letter(text: str, sentences: int) -> None:
    found = PARSER.sentences(text)
    assert len(found) == sentences
    assert " ".join(map(join, found)) == text


@pytest.mark.parametrize(
    ("text", "amount", "expected"),
    [
        ("She went, and he, and they.", 0.7, "She went."),  # what is left ends in a comma
        ("Why not? Because.", 0.3, "Why."),  # one more word than its share, as "Why not?" is no error
        ('He said "no." Then left.', 0.35, "He said."),
        ("Dogs bark. Cats sing. Nobody knows.", 0.4, "Dogs bark. Cats."),
        ("It is here: in town.", 0.45, "It is here."),
        ('She said "no" and left.', 0.7, "She said."),  # behind a quote that opens
        ("She said 'no' and left.", 0.7, "She said."),
        ('She left. "No."', 0.45, "She."),
        ('He sang " no " too loud.', 0.4, 'He sang " no ".'),  # some texts have a space before one that closes
    ],
)
def test_truncation_ends_in_one_final_mark(text: str, amount: float, expected: str) -> None:
    assert ERRORS["truncation"].make(Edit(PARSER), text, amount, random.Random(0)) == expected


@pytest.mark.parametrize(
    ("name", "eligible"),
    [
        ("article_removal", lambda word: word.lower() in ARTICLES),
        ("preposition_removal", lambda word: word.lower() in ("to", "in", "of")),
        ("token_drop", lambda word: True),
    ],
)
@given(text=texts(), amount=shares, seed=seeds)
def test_removal_takes_its_share_of_what_is_eligible_and_nothing_else(
    name: str, eligible: Any, text: str, amount: float, seed: int
) -> None:
    before, after = words_of(text), make(name, text, amount, seed)
    kept = after.split()
    gone = Counter(before) - Counter(words_of(after))
    assert all(eligible(word) for word in gone), gone
    wanted = count_of(amount, sum(map(eligible, before)))
    # Without white space between them two tokens may be read as one afterwards, so count characters.
    assert len("".join(before)) - len("".join(kept)) <= wanted * max(map(len, before), default=0)
    if name != "token_drop":
        assert sum(gone.values()) == wanted
    if amount == 1 and name != "token_drop":
        assert not [word for word in words_of(after) if eligible(word)]


def test_an_article_that_is_part_of_a_name_stays() -> None:
    text = "The dog flew to A Coruña. A song of The Hague, and an AN-2."
    assert make("article_removal", text, 1) == "dog flew to A Coruña. song of The Hague, and AN-2."


def test_prepositions_need_no_tagger() -> None:
    found = ERRORS["preposition_removal"].make(Edit(PARSER), "She went to work.", 1, random.Random(0))
    assert found == "She went work."
    assert len(PREPOSITIONS) > 50


@given(texts(), seeds)
def test_stop_words_go(text: str, seed: int) -> None:
    found = make("stop_word_removal", text, 1, seed)
    assert not [word for word in TAGGED.parse(found) if word.is_stop]


@given(texts(), shares, seeds)
def test_repetition_of_tokens_adds_each_chosen_one_once(text: str, amount: float, seed: int) -> None:
    before, found = words_of(text), make("repeated_token", text, amount, seed)
    after = words_of(found)
    assert is_subsequence(before, after)
    assert len(after) == len(before) + count_of(amount, len(before))
    assert set(after) == set(before)


@pytest.mark.parametrize(
    "name",
    ["local_swap", "middle_swap", "sentence_switching", "verb_switching", "noun_switching", "sub_sentence_switching"],
)
@given(text=texts(least=2), seed=seeds)
def test_switching_only_moves(name: str, text: str, seed: int) -> None:
    amount = 0.6 if name == "local_swap" else 3
    found = make(name, text, amount, seed)
    letters = lambda t: Counter("".join(t.split()).lower())  # noqa: E731
    assert letters(found) == letters(text)
    if name != "middle_swap":  # which adapts capital letters
        assert Counter("".join(found.split())) == Counter("".join(text.split()))


@given(texts(), st.sampled_from([0.5, 1.0]), seeds)
def test_punctuation_changes_where_it_stands(text: str, amount: float, seed: int) -> None:
    found = make("noised_punctuation", text, amount, seed)
    assert len(found) == len(text)
    changed = [(a, b) for a, b in zip(text, found, strict=True) if a != b]
    assert all(PUNCTUATION[a] == b for a, b in changed)
    marks = sum(word in PUNCTUATION for word in words_of(text))
    assert len(changed) == count_of(amount, marks)


@pytest.mark.parametrize("name", ["positioned_error_random", "positioned_error_shuffle"])
@given(text=texts(least=4), place=st.sampled_from([0.0, 0.5, 1.0]), seed=seeds)
def test_a_positioned_error_stays_within_ten_words(name: str, text: str, place: float, seed: int) -> None:
    parts = text.split()
    # One word per part: what spaCy splits is put apart first.
    text = " ".join(words_of(" ".join(parts)))
    before, after = text.split(), make(name, text, place, seed).split()
    assert len(before) == len(after)
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    if changed:
        assert changed[-1] - changed[0] < SPAN
        start = int(place * max(len(before) - SPAN, 0))
        assert start <= changed[0] <= changed[-1] < start + SPAN
    if name.endswith("shuffle"):
        assert Counter(before) == Counter(after)
    else:
        assert all(after[i] in DRAFT.vocabulary for i in changed)


@given(texts(), st.sampled_from([10, 20, 30]))
def test_repetition_appends_the_last_four_words(text: str, times: int) -> None:
    found = make("repetition", text, times)
    assert found.startswith(text)
    assert found[len(text) :].split() == text.split()[-4:] * times


@pytest.mark.parametrize(("name", "size"), [("frequent_3gram", 3), ("frequent_4gram", 4)])
def test_frequent_ngrams_are_drawn_and_joined(name: str, size: int) -> None:
    found = make(name, "x", 10, ngram_words=250).split()
    known = {" ".join(gram) for gram in DRAFT.ngrams[size]}
    grams = {" ".join(found[i : i + size]) for i in range(0, 250 - size, size)}
    assert len(found) == 250
    assert grams == known
    assert len(make(name, "one two three four five", 10).split()) == 5, "as long as the gold text"
    assert set(make(name, "x", 1, ngram_words=40).split()) == set(DRAFT.ngrams[size][0])


def test_ngrams_are_counted_without_punctuation() -> None:
    found = find_ngrams(["One of the best. One of the rest, one of us.", "At the end of it all."], PARSER)
    assert found[3][:2] == [("one", "of", "the"), ("at", "the", "end")]
    assert not [word for grams in found.values() for gram in grams for word in gram if not word.isalpha()]


def test_texts_that_are_given_up_for_others() -> None:
    assert make("copy_source", "x", 1) == DRAFT.source
    assert make("copy_source", "x", 1, source=" ") == "x"
    praises = {make("injection", "x", kind) for kind in range(1, 6)}
    assert len(praises) == 5
    assert any(text.endswith(tuple(sentence for sentence, _ in OTHERS)) for text in praises)
    for paper in ("this is a really", "And yes,it", "And yes, it is relevant", "coherent"):
        assert not any(paper in text for text in praises), "sentences of our own"


# ---------------------------------------------------------------- sentences and meaning


@given(texts(least=2), st.integers(1, 6), seeds)
def test_sentences_change_places_and_the_last_may_stay(text: str, pairs: int, seed: int) -> None:
    sentences = [join(sentence) for sentence in TAGGED.sentences(text)]
    found = make("sentence_switching", text, pairs, seed)
    fixed = make("sentence_switching", text, pairs, seed, keep_last=True)
    assert Counter(found) == Counter(" ".join(sentences))
    assert fixed.endswith(sentences[-1])
    if len(sentences) == 2:
        assert fixed == text


@given(st.integers(0, 12), st.integers(0, 20), st.integers(0, 3), seeds)
def test_more_switches_move_no_fewer_parts(movable: int, amount: int, fixed: int, seed: int) -> None:
    parts = [str(i) for i in range(movable + fixed)]
    moved = []
    for pairs in (amount, amount + 1):
        after = switch(list(parts), movable, pairs, random.Random(seed))
        assert sorted(after) == sorted(parts)
        assert after[movable:] == parts[movable:]
        moved.append(sum(a != b for a, b in zip(after, parts, strict=True)))
    assert moved[0] <= moved[1]
    assert moved[0] == 2 * amount if 2 * amount <= movable else moved[0] >= movable - 1 - (movable < 2)


@given(texts(), st.integers(1, 6), seeds)
def test_sentences_are_replaced_by_those_of_others(text: str, count: int, seed: int) -> None:
    sentences = [join(sentence) for sentence in TAGGED.sentences(text)]
    found = make("sentence_replacement", text, count, seed)
    others = {sentence for sentence, _ in OTHERS}
    pieces = _split(found, sentences, others)
    replaced = len(sentences) - sum((Counter(sentences) & Counter(pieces)).values())
    donors = others - set(sentences)
    assert replaced == min(count, len(sentences), len(donors))
    new = Counter(pieces) - Counter(sentences)
    assert set(new) <= donors
    assert max(new.values(), default=1) == 1, "no sentence is put in twice"
    own = [(sentence, text) for sentence, _ in OTHERS]
    assert make("sentence_replacement", text, count, seed, sentences_of_others=own) == " ".join(sentences)


def _split(text: str, *known: Any) -> list[str]:
    """Return the known sentences that a text is made of, the longest first at each place."""
    options = sorted({sentence for part in known for sentence in part}, key=len, reverse=True)
    found = []
    while text:
        sentence = next(option for option in options if text.startswith(option))
        found.append(sentence)
        text = text[len(sentence) :].strip()
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She went to work.", "She did not go to work."),
        ("Anna knows the song.", "Anna does not know the song."),
        ("They sing.", "They do not sing."),
        ("It was late.", "It was not late."),
        ("She can sing.", "She can not sing."),
        ("She can't sing.", "She can sing."),
        ("It was not late.", "It was late."),
        ("Paris in spring.", "Paris in spring."),
        ("It was, of course, late.", "It was not, of course, late."),
    ],
)
def test_negation(text: str, expected: str) -> None:
    assert make("negation", text, 1) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I've seen it.", "I've not seen it."),
        ("She'd gone.", "She'd not gone."),  # had
        ("She'd go.", "She'd not go."),  # would
        ("They'd the money.", "They did not have the money."),  # had, all of the verb
        ("I've a car.", "I do not have a car."),
        ("I'd better go.", "I'd better not go."),
        ("How'd you do that?", "How'd you not do that?"),
        ("We'll see.", "We'll not see."),
        ("You're late.", "You're not late."),
        ("I'm late.", "I'm not late."),
        ("It's late.", "It's not late."),
        ("Mary'd gone.", "Mary'd not gone."),
        ("She'd've gone.", "She'd not have gone."),
        ("He can't sing.", "He can sing."),
        ("We won't go.", "We will go."),
        ("I ain't late.", "I am late."),
        ("They ain't seen it.", "They have seen it."),
        ("We wouldn't've gone.", "We would've gone."),
        ("Anna's dog can wait.", "Anna's dog can not wait."),  # no verb
        ("Let's leave.", "Let's leave."),
    ],
)
@pytest.mark.parametrize("apostrophe", ["'", "\u2019"])
def test_contracted_verbs_are_negated(text: str, expected: str, apostrophe: str) -> None:
    found = make("negation", text.replace("'", apostrophe), 1)
    assert found == expected.replace("'", apostrophe)


def test_negation_glues_no_words_together(data: Path) -> None:
    """In talks, which are full of contractions, and beside a tagger that knows only some verbs."""
    known = {"not", "do", "does", "did", "have", "am", "is", "are", "has", "can", "will", "shall", "go"}
    parts = re.compile(r"[\w'\u2019]+").findall
    draft = replace(DRAFT, parser=Parser(rough()))
    contracted = 0
    for gold in read_corpus("ted", data / "blindspot").texts[:60]:
        found = ERRORS["negation"].make(draft, gold.text, 1, random.Random(0))
        freed = {word.lower().replace("n't", "") for word in parts(gold.text)}
        assert {word.lower() for word in parts(found)} - {word.lower() for word in parts(gold.text)} <= known | freed
        contracted += found.count("'ve not ") + found.count("'d not ")
    assert contracted > 5


def test_entities_become_general_words() -> None:
    text = "Anna flew from Boston to Paris on Monday. Acme left."
    assert make("generic_named_entity", text, 1) == (
        "A person flew from a place to a place on some time. An organization left."
    )
    half = make("generic_named_entity", text, 0.5)
    assert sum(name in half for name in ENTITIES) == 2
    assert make("generic_named_entity", "She left.", 1) == "She left."


def test_entities_change_places() -> None:
    text = "Anna flew from Boston to Paris."
    for seed in range(20):
        found = make("named_entity_switching", text, 1, seed)
        assert sum(a != b for a, b in zip(text.split(), found.split(), strict=True)) == 2


@given(texts(), shares, seeds)
def test_bert_diverge_replaces_its_share_of_words(text: str, amount: float, seed: int) -> None:
    before, after = TAGGED.parse(text), TAGGED.parse(make("bert_diverge", text, amount, seed))
    assert len(before) == len(after)
    changed = [b.text for a, b in zip(before, after, strict=True) if a.text != b.text]
    eligible = sum(map(is_spoken, before))
    assert len(changed) == count_of(amount, eligible)
    assert set(changed) <= {"violet", "marble"}


def test_halves_of_a_sentence_keep_the_space_between_words() -> None:
    text = "It was late, and the dog slept. She left."
    assert make("middle_swap", text, 2) in (
        "And the dog slept it was late,. Left she.",
        "The dog slept it was late, and. Left she.",
    )


def test_verbs_get_their_lemma_and_keep_their_capital_letter() -> None:
    assert make("verb_lemmatization", "Went she? He talked.", 1) == "Go she? He talk."


# ---------------------------------------------------------------- noise, amounts, levels


def slow_distance(one: list[str], two: list[str]) -> int:
    rows = [[i + j if i * j == 0 else 0 for j in range(len(two) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(two) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (one[i - 1] != two[j - 1]))
    return rows[-1][-1]


@given(texts(), texts(), st.booleans())
def test_the_noise_ratio_is_the_edit_distance_over_the_words(gold: str, other: str, switching: bool) -> None:
    expected = slow_distance(gold.split(), other.split()) / len(gold.split()) / (2 if switching else 1)
    assert compute_noise(gold, other, switching=switching) == pytest.approx(expected)


@given(st.floats(0.001, 1), st.integers(0, 500))
def test_a_share_is_rounded_and_never_nothing_of_something(amount: float, items: int) -> None:
    found = count_of(amount, items)
    assert 0 <= found <= items
    if items:
        assert found >= 1
        assert abs(found - amount * items) <= 0.5 + 1e-9 or found == 1


def test_levels_are_those_of_the_paper() -> None:
    def choose(corpus: str, name: str, levels: str) -> list[float]:
        return choose_levels(ERRORS[name], corpus, few=levels == "three")

    assert choose("wikitext", "sentence_switching", "paper") == [1, 2, 6]
    assert not choose("wmt", "sentence_switching", "paper")
    assert not choose("wikitext", "bert_diverge", "paper")
    assert choose("ted", "token_drop", "paper") == [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.55]
    assert choose("wikitext", "token_drop", "three") == [0.05, 0.25, 0.5]
    assert choose("wikitext", "injection", "three") == [1, 2, 3, 4, 5], "kinds are no grades"
    assert choose("mine", "noun_switching", "paper") == [2, 7], "as on CNN/DM"
