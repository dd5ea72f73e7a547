"""Names, hashes and columns of the schema."""

import re

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import (
    OPTIONAL_COLUMNS,
    REQUIRED_COLUMNS,
    check_table,
    hash_rows,
    metric_slugs,
    short_hash,
    slug,
    to_nfc,
)
from nnd_tasks.sets.recipe import make_recipe
from nnd_tasks.sets.rows import hash_prompts
from nnd_tasks.store import is_name
from tests.sets.tables import LABELS

#: The schema as the documentation lists it, written out so that a renamed or moved column shows.
NAMES = """test_id context_id cluster_id context high low category high_first subcategory severity high_label low_label
    high_system low_system high_score low_score rater noise_ratio seed"""
COLUMNS = NAMES.split()


# ---------------------------------------------------------------- slugs


SLUGS = {
    "  Accuracy/Mis - translation! (2)": "accuracy_mis_translation_2",
    "誤り": "誤り",
    "Cafe\u0301 ERROR": "café_error",
    "ОШИБКА №1": "ошибка_1",
    "साफ़ गलती": "साफ़_गलती",
    "❤\ufe0f ok": "ok",
    "👎": "thumbs_down_sign",
    "--": "hyphen_minus_hyphen_minus",
    "\x07": "u7",
    " \n": "",
}


@pytest.mark.parametrize("name", SLUGS)
def test_a_slug_keeps_letters_with_their_marks_and_digits_of_any_script(name):
    assert slug(name) == to_nfc(SLUGS[name])


@settings(max_examples=60)
@given(st.text(max_size=20))
@example("İ")  # one letter whose lower case is two characters
def test_a_slug_can_be_a_part_of_a_metric_and_of_a_path(name):
    assert bool(slug(name)) == bool(name.split())
    assert is_name(f"a{slug(name)}")
    assert slug(slug(name)) == slug(name)


IN_USE = ["Sum", "Bytes", "all", "PMI", "pmi x", "STDERR!", "Severity/Major", "a stderr", "swapped", "no context x"]


@pytest.mark.parametrize(
    "names", [IN_USE, ["Not fluent", "not-fluent"], ["A", "a"], ["-1", "1", "+1"], ["é", "e\u0301"], ["C++", "C#", "c"]]
)
def test_categories_of_one_slug_or_one_in_use_are_told_apart(names):
    slugs = metric_slugs(["Fluency", *names])
    assert slugs.pop("Fluency") == "fluency"
    assert slugs == {name: f"{slug(name)}_{short_hash(name)[:8]}" for name in names}
    assert len({*slugs.values()}) == len(names)
    assert metric_slugs(IN_USE, of_severity=True)["Sum"] == "sum"


@pytest.mark.parametrize("name", ["", " "])
def test_a_category_of_white_space_is_refused(name):
    with pytest.raises(NNDError, match=repr(name)):
        metric_slugs(["Fluency", name])


# ---------------------------------------------------------------- field names


@pytest.mark.parametrize("name", [*COLUMNS, "", "two words", "2nd", "a-b", "{{x}}"])
def test_a_prompt_field_is_an_identifier_that_is_no_column(name):
    with pytest.raises(NNDError, match=f"prompt field {re.escape(repr(name))}"):
        make_recipe({**LABELS, "field": {name: "b"}}, "")


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
    assert hash_rows(["é"]) == ["1d9b2f68e31ef2b6"]


def test_prompts_with_other_fields_are_other_prompts():
    prompts = pd.DataFrame([{"b": "é", "context": "x", "a": "1"}, {"b": "", "context": "x", "a": "1é"}])
    assert hash_prompts(prompts) == [short_hash("x", "a", "1", "b", "é"), short_hash("x", "a", "1é", "b", "")]
    assert hash_prompts(prompts[["context"]]) == [short_hash("x")] * 2


# ---------------------------------------------------------------- error spans


def span(start, end, **more):
    return {"start": start, "end": end, "category": "", "severity": "", **more}


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ([], ""),
        (None, ""),
        ([span(0, 3)], ""),
        ([span(0, 1), span(2, 4)], "row 2: .* in a text of 3 characters"),
        ([span(2, 2)], "row 2"),
        ([span(-1, 2)], "row 2"),
        ([span(2, 1)], "row 2"),
        ([span(0, None)], "row 2"),
        ([span(0, 1, category=None)], "row 2"),
        (
            [{"begin": 0, "end": 1, "category": "", "severity": ""}],
            "its fields are begin, category, end, severity, not",
        ),
        ([{"offset": 0, "length": 1}], "its fields are length, offset, not"),
        ([span(0, 1, text="b")], "its fields are .*text"),
    ],
)
def test_spans_that_cannot_be_are_refused(spans, said):
    cells = {name: ["a", "b"] for name in REQUIRED_COLUMNS} | {"low": ["ab", "b🐈c"], "high_first": [True, False]}
    table = pa.table({**cells, "low_spans": pa.array([[], spans])})
    if said:
        with pytest.raises(NNDError, match=f"a set: (column type|spans outside) .*{said}"):
            check_table(table, "a set")
    else:
        assert check_table(table, "a set")["low_spans"].to_pylist() == [[], spans]
