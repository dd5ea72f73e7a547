"""Krippendorff's alpha: the published example, what other packages fail on, and where it is said."""

import math

import pandas as pd
import pytest

from nnd_tasks.ceiling.agreement import measure_agreement
from nnd_tasks.cli.listing import report_set
from tests.contribute.test_new import new
from tests.sets.tables import write_rows

NO = math.nan
#: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011): four observers, twelve units.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NO, NO, NO],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NO, 3],
    [NO, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NO],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NO],
]


def judge(observers, kind):
    rows = [
        {"context_id": "", "candidate": str(unit), "rater": str(rater), "place": 0, kind.__name__: kind(value)}
        for rater, values in enumerate(observers)
        for unit, value in enumerate(values)
        if not math.isnan(value)
    ]
    return pd.DataFrame(rows).rename(columns={"str": "label", "float": "score"})


@pytest.mark.parametrize(("kind", "alpha"), [(str, 0.743), (float, 0.849)])
def test_the_published_example(kind, alpha):
    found = measure_agreement(judge(OBSERVERS, kind))
    assert found["alpha"] == pytest.approx(alpha, abs=5e-4)
    assert found["low"] < alpha < found["high"]
    assert (found["units"], found["raters"]) == (11, 4)


def test_all_agree_and_nobody_shares_a_unit():
    found = measure_agreement(judge([[2, 2, 2], [2, 2, NO]], str))
    assert (found["alpha"], found["low"], found["same"], found["units"]) == (1, 1, 1, 2)
    assert measure_agreement(judge([[1, NO], [NO, 2]], str)) == {}


def test_the_label_that_a_rater_gave_most_often_counts_and_of_several_the_first_in_the_alphabet():
    once = judge([[1, 1, 2], [1, 2, 2]], str)
    other = once.iloc[:1].assign(label="2.0")
    assert measure_agreement(pd.concat([once, other])) == measure_agreement(once)
    assert measure_agreement(pd.concat([once, other, other]))["same"] == 1 / 3


def test_it_is_on_the_card_and_in_nnd_show(tmp_path, nnd_home):
    rows = [
        {"q": "q", "a": text, "l": label, "rater": rater}
        for text, labels in (("aa", "ggb"), ("bb", "bbb"), ("cc", "gg"))
        for rater, label in zip("xyz", labels, strict=False)
    ]
    said = new(write_rows(tmp_path / "t.jsonl", rows), "--context q --candidate a --label l --better g")
    line = "3 raters, 3 judged by several: 71% of pairs of judgements are the same, Krippendorff's alpha 0."
    assert line in said
    assert line in (nnd_home / "nnd" / "mine" / "README.md").read_text("utf-8")
    [facts, *_] = report_set("mine").tables
    assert line in str(facts.data.to_dict("records"))
