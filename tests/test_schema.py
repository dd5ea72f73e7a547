"""Names, hashes and columns of the schema."""

import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    category_slugs,
    short_hash,
    slug,
    to_nfc,
)
from nnd_tasks.sets.recipe import make_recipe
from nnd_tasks.sets.rows import cluster_key
from tests.sets.tables import LABELS

quick = settings(max_examples=60)

#: The schema as the documentation lists it, written out so that a renamed or moved column shows.
NAMES = """test_id context_id cluster_id context high low category high_first subcategory severity high_label low_label
    high_system low_system high_score low_score rater noise_ratio seed"""
COLUMNS = NAMES.split()


# ---------------------------------------------------------------- slugs


def _slow_slug(name):
    words, word = [], ""
    for character in name.lower():
        if character in string.ascii_lowercase + string.digits:
            word += character
        else:
            words.append(word)
            word = ""
    return "_".join(word for word in [*words, word] if word)


@quick
@given(st.text(alphabet=st.one_of(st.sampled_from("aBz09_- ./é"), st.characters()), max_size=20))
@example("İ")  # one letter whose lower case is two characters
@example("  Accuracy/Mis - translation! (2)")
def test_slug_joins_the_runs_of_ascii_letters_and_digits(name):
    assert slug(name) == _slow_slug(name)


@pytest.mark.parametrize(
    "name", ["Sum", "Bytes", "all", "PMI", "pmi x", "STDERR!", "Severity/Major", "a stderr", "誤り", ""]
)
def test_a_category_that_would_take_a_name_in_use_is_refused_by_name(name):
    with pytest.raises(NNDError) as caught:
        category_slugs(["Fluency", name])
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("pair", [("Not fluent", "not-fluent"), ("A", "a"), ("a b", "a  b"), ("é1", "1")])
def test_two_categories_with_one_slug_are_refused_and_both_are_named(pair):
    with pytest.raises(NNDError) as caught:
        category_slugs(pair)
    assert repr(pair[0]) in str(caught.value)
    assert repr(pair[1]) in str(caught.value)


# ---------------------------------------------------------------- field names


@pytest.mark.parametrize("name", [*COLUMNS, "", "two words", "2nd", "a-b", "{{x}}"])
def test_a_prompt_field_is_an_identifier_that_is_no_column(name):
    with pytest.raises(NNDError, match=f"prompt field {re.escape(repr(name))}"):
        make_recipe({**LABELS, "field": {"answer": "a", name: "b"}}, "")


# ---------------------------------------------------------------- columns


def test_the_columns_are_those_of_published_sets_in_their_order():
    assert [*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS] == COLUMNS


# ---------------------------------------------------------------- text and hashes


def test_normalize_composes_and_trims_nothing():
    assert to_nfc("  e\u0301 \n\ufeff") == "  \xe9 \n\ufeff"


pieces = st.lists(st.text(alphabet="ab\0é", max_size=3), max_size=4)


@settings(max_examples=150)
@given(pieces, pieces)
@example(["ab", "c"], ["a", "bc"])
@example(["a", ""], ["a"])
@example(["\0"], ["", ""])
@example([], [""])
def test_hashes_are_equal_exactly_for_equal_parts(first, second):
    assert (short_hash(*first) == short_hash(*second)) == (first == second)


def test_hashes_are_16_hex_digits_and_stay_what_they_were_in_published_sets():
    assert short_hash("context", "high", "low", "E", "1") == "edc5af2581b970f3"
    assert short_hash("é") == "1d9b2f68e31ef2b6"


fields = st.dictionaries(st.sampled_from(["a", "ab", "b"]), st.text(alphabet="ab", max_size=2), max_size=2)
contexts = st.text(alphabet="ab", max_size=2)


@settings(max_examples=150)
@given(contexts, fields, contexts, fields)
@example("ab", {"a": "c"}, "a", {"a": "bc"})
@example("x", {"a": "bc"}, "x", {"ab": "c"})
@example("x", {"a": "b"}, "xa", {"b": ""})
@example("x", {"a": "1", "b": "2"}, "x", {"a": "2", "b": "1"})
def test_cluster_keys_are_equal_exactly_for_equal_prompts(context, given_fields, other, other_fields):
    same = context == other and given_fields == other_fields
    backwards = dict(reversed(given_fields.items()))
    assert (cluster_key(context, backwards) == cluster_key(other, other_fields)) == same
