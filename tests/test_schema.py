"""Names, hashes and columns of the schema."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    category_slugs,
    check_field_names,
    cluster_key,
    normalize,
    short_hash,
    slug,
)

quick = settings(max_examples=60, deadline=None)

#: The schema as the documentation lists it, written out so that a renamed or moved column shows.
REQUIRED = ["test_id", "context_id", "cluster_id", "context", "high", "low", "category", "high_first"]
OPTIONAL = [
    "subcategory",
    "severity",
    "high_label",
    "low_label",
    "high_system",
    "low_system",
    "high_score",
    "low_score",
]
COLUMNS = [*REQUIRED, *OPTIONAL, "rater", "noise_ratio", "seed"]

#: Rates that every task reports, whatever its categories.
FIXED_RATES = {"pass_rate", "pass_rate_sum", "pass_rate_bytes"}


# ---------------------------------------------------------------- slugs


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Common Sense", "common_sense"),
        ("Disfluent", "disfluent"),
        ("Accuracy/Mistranslation", "accuracy_mistranslation"),
        ("  off - target!  ", "off_target"),
        ("EntE", "ente"),
        ("Wrong Ctxt. (2)", "wrong_ctxt_2"),
        ("__a__b__", "a_b"),
        ("Größe", "gr_e"),
        ("誤り", ""),
        ("", ""),
    ],
)
def test_slug_of_known_names(name: str, expected: str) -> None:
    assert slug(name) == expected


def _slow_slug(name: str) -> str:
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
def test_slug_joins_the_runs_of_ascii_letters_and_digits(name: str) -> None:
    assert slug(name) == _slow_slug(name)


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "Sum",
        "Bytes",
        "stderr",
        "STDERR!",
        "severity minor",
        "Severity/Major",
        "a stderr",
        "severity stderr",
        "誤り",
        "---",
        "",
    ],
)
def test_a_category_that_would_take_a_name_in_use_is_refused_by_name(name: str) -> None:
    with pytest.raises(NNDError) as caught:
        category_slugs(["Fluency", name])
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("pair", [("Not fluent", "not-fluent"), ("A", "a"), ("a b", "a  b"), ("é1", "1")])
def test_two_categories_with_one_slug_are_refused_and_both_are_named(pair: tuple[str, str]) -> None:
    with pytest.raises(NNDError) as caught:
        category_slugs(pair)
    assert repr(pair[0]) in str(caught.value)
    assert repr(pair[1]) in str(caught.value)


words = st.sampled_from(["sum", "Sum", "bytes", "stderr", "severity", "minor", "fluency", "Off", "é"])
categories = st.lists(words, min_size=1, max_size=2).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(categories, max_size=5))
def test_accepted_categories_and_only_they_give_metric_names_that_nothing_else_has(names: list[str]) -> None:
    distinct = sorted(set(names))
    slugs = [_slow_slug(name) for name in distinct]
    claimed = [f"pass_rate_{name}" for name in slugs]
    fine = (
        all(slugs)
        and len(set(claimed)) == len(claimed)
        and not FIXED_RATES & set(claimed)
        # names that belong to rates by severity, and to standard errors
        and not any(name.startswith("pass_rate_severity_") or name.endswith("_stderr") for name in claimed)
    )
    if fine:
        assert category_slugs(names) == dict(zip(distinct, slugs, strict=True))
    else:
        with pytest.raises(NNDError):
            category_slugs(names)


# ---------------------------------------------------------------- field names


@pytest.mark.parametrize("name", COLUMNS)
def test_a_prompt_field_cannot_have_the_name_of_a_schema_column(name: str) -> None:
    with pytest.raises(NNDError, match=name):
        check_field_names(["answer", name])


@pytest.mark.parametrize("name", ["", "two words", "2nd", "a-b", "a.b", "{{x}}"])
def test_a_prompt_field_must_be_an_identifier(name: str) -> None:
    with pytest.raises(NNDError) as caught:
        check_field_names([name])
    assert repr(name) in str(caught.value)


# ---------------------------------------------------------------- columns


def test_the_columns_are_those_of_published_sets_in_their_order() -> None:
    assert [*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS] == COLUMNS


# ---------------------------------------------------------------- text and hashes


@quick
@given(st.text(alphabet=st.one_of(st.sampled_from("ae\u0301\u0308é \n\t\ufeff"), st.characters(codec="utf-8"))))
@example("  e\u0301 \n")
def test_normalize_keeps_the_text_up_to_canonical_equivalence_and_trims_nothing(text: str) -> None:
    result = normalize(text)
    assert unicodedata.is_normalized("NFC", result)
    assert unicodedata.normalize("NFD", result) == unicodedata.normalize("NFD", text)
    assert normalize(result) == result


pieces = st.lists(st.text(alphabet="ab\0é", max_size=3), max_size=4)


@settings(max_examples=150, deadline=None)
@given(pieces, pieces)
@example(["ab", "c"], ["a", "bc"])
@example(["a", ""], ["a"])
@example(["\0"], ["", ""])
@example([], [""])
def test_hashes_are_equal_exactly_for_equal_parts(first: list[str], second: list[str]) -> None:
    assert (short_hash(*first) == short_hash(*second)) == (first == second)


def test_hashes_are_16_hex_digits_and_stay_what_they_were_in_published_sets() -> None:
    assert short_hash("context", "high", "low", "E", "1") == "edc5af2581b970f3"
    assert short_hash("é") == "1d9b2f68e31ef2b6"


fields = st.dictionaries(st.sampled_from(["a", "ab", "b"]), st.text(alphabet="ab", max_size=2), max_size=2)
contexts = st.text(alphabet="ab", max_size=2)


@settings(max_examples=150, deadline=None)
@given(contexts, fields, contexts, fields)
@example("ab", {"a": "c"}, "a", {"a": "bc"})
@example("x", {"a": "bc"}, "x", {"ab": "c"})
@example("x", {"a": "b"}, "xa", {"b": ""})
@example("x", {"a": "1", "b": "2"}, "x", {"a": "2", "b": "1"})
def test_cluster_keys_are_equal_exactly_for_equal_prompts(
    context: str, given_fields: dict[str, str], other: str, other_fields: dict[str, str]
) -> None:
    same = context == other and given_fields == other_fields
    assert (cluster_key(context, given_fields) == cluster_key(other, other_fields)) == same


@quick
@given(contexts, fields)
def test_cluster_keys_do_not_depend_on_the_order_of_fields(context: str, given_fields: dict[str, str]) -> None:
    assume(len(given_fields) > 1)
    backwards = dict(reversed(given_fields.items()))
    assert list(backwards) != list(given_fields)
    assert cluster_key(context, backwards) == cluster_key(context, given_fields)
