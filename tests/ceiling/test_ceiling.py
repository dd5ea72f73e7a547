"""What people pass is what plain loops over the publishers' files give, which share no code with the package."""

import json
import random
import re
from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from nnd_tasks.ceiling.ceiling import human_ceiling, ratio_interval, read_panels, spearman_brown
from nnd_tasks.ceiling.shares import find_shares
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.store import read_table
from tests.commands import refused
from tests.conftest import DATA, FOLDERS, SIDE_BY_SIDE, needs_data
from tests.results.runs import make_run
from tests.sets.oracles import json_lines, nfc
from tests.sets.tables import write_rows


def mean(numbers):
    return sum(numbers) / len(numbers)


def most_are_five(marks):
    """Decide as the NND paper does: more than half of all marks are 5."""
    return sum(mark == 5 for mark in marks) > len(marks) / 2


def votes_of(values):
    """Tell whether most say right: 1, 0, or None for a tie."""
    lead = sum(1 if value else -1 for value in values)
    return None if lead == 0 else int(lead > 0)


def ask_each(judged, decide, own=mean, gap=1e-9, named=None):
    """Count (rater, attribute, outcome) of every rater on every pair of texts that the others put in an order.

    Args:
        judged: (group, attribute, text, rater, value) of each judgement.
        decide: gives the quality of a text from the values of others, or None.
        own: what a rater's values of a text say.
        gap: smallest difference of two qualities.
        named: makes the one value of a person out of several; None lets all values count.
    """
    texts = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for group, attribute, text, rater, value in judged:
        texts[group, attribute][text][rater].append(value)
    counts = Counter()
    for (_, attribute), of_text in texts.items():
        for rater in {rater for raters in of_text.values() for rater in raters}:
            known = []
            for raters in of_text.values():
                others = [raters[name] for name in raters if name != rater]
                if named:
                    others = [[vote] for vote in map(named, others) if vote is not None]
                values = [value for several in others for value in several]
                said = own(raters[rater]) if rater in raters else None
                quality = decide(values) if values else None
                if said is not None and quality is not None:
                    known.append((quality, said))
            for one, other in combinations(known, 2):
                (better, first), (worse, second) = sorted([one, other], key=lambda pair: -pair[0])
                if better - worse >= gap - 1e-9:
                    counts[rater, attribute, 1.0 if first > second else 0.5 if first == second else 0.0] += 1
    return counts


def summeval(panel):
    rows = json_lines(DATA / "summeval" / "model_annotations.aligned.paired.jsonl")[1::2]
    judged = [
        (row["id"], name, nfc(row["decoded"]), f"place {place}", marks[name])
        for row in rows
        for place, marks in enumerate(row.get(panel) or (), 1)
        for name in ("coherence", "consistency", "fluency", "relevance")
    ]
    return ask_each(judged, most_are_five, gap=1)


def mtrag():
    path = DATA / FOLDERS["mtrag"] / "reference_subset_with_human_evaluations.json"
    names = ["faithfulness", "appropriateness", "naturalness", "completeness"]
    judged = [
        (answer["task_id"], name, nfc(answer["model_response"]), rater, float(given["value"]))
        for answer in json.loads(path.read_text("utf-8"))["evaluations"]
        for name in names
        for rater, given in answer["annotations"][name].items()
    ]
    return ask_each(judged, mean, gap=1, named=mean)


def mqm():
    header, *lines = (DATA / "mqm" / "mqm_ted_ende.tsv").read_text("utf-8").split("\n")
    names = header.split("\t")
    judged = []
    for line in filter(None, lines):
        row = dict(zip(names, line.split("\t"), strict=False))
        text = row["target"].replace("<v>", "").replace("</v>", "")
        group = row["doc_id"], row["seg_id"], row["source"]
        judged.append((group, "", nfc(text), row["rater"], row["category"].lower() == "no-error"))
    return ask_each(judged, votes_of, own=votes_of, gap=1, named=votes_of)


def count(tests, category=True):
    names = tests["category"] if category else [""] * len(tests)
    return Counter(zip(tests["rater"], names, tests["passed"], strict=True))


@needs_data
@pytest.mark.parametrize(
    ("name", "config", "panel", "slow"),
    [
        ("summeval", "authors", 0, lambda: summeval("expert_annotations")),
        ("summeval", "authors", 1, lambda: summeval("turker_annotations")),
        ("mtrag", "authors", 0, mtrag),
        ("mqm", "ted_ende", 0, mqm),
    ],
)
def test_each_rater_passes_what_plain_loops_over_the_raw_file_say(name, config, panel, slow, real_sets):
    found = count(human_ceiling(str(real_sets(name)), config).panels[panel].tests, category=name != "mqm")
    expected = slow()
    assert found == expected
    assert expected.total() > 190


@needs_data
def test_summeval_has_the_rates_of_the_prototype_with_both_panels_side_by_side(real_sets):
    rates = human_ceiling(str(real_sets("summeval"))).rates.set_index(["panel", "judged_by", "category"])["ceiling"]
    alone, crowd = rates["experts", "each of them, left out"], rates["experts", "crowd"]
    assert alone.round(3).to_dict() | {"all": 0} == {
        "all": 0, "coherence": 0.792, "consistency": 0.807, "fluency": 0.719, "relevance": 0.709,
    }  # fmt: skip
    # The prototype takes the first of equal texts: coherence 0.479, relevance 0.507.
    assert crowd.round(3).to_dict() | {"all": 0} == {
        "all": 0, "coherence": 0.483, "consistency": 0.515, "fluency": 0.513, "relevance": 0.508,
    }  # fmt: skip


@needs_data
def test_the_first_panel_is_that_of_the_config(real_sets):
    assert read_panels(real_sets("esa23"), "esa_240520")[0].name == "esa_240520"


@needs_data
def test_translations_are_right_by_the_majority_of_their_raters(real_sets):
    if not SIDE_BY_SIDE.is_file():
        pytest.skip(f"no {SIDE_BY_SIDE.name} in NND_TEST_DATA")
    assert read_table(real_sets("mqm"), "sxs2023_ende_majority").num_rows == 684


@needs_data
def test_a_set_that_one_person_judged_says_so(real_sets):
    with pytest.raises(NNDError, match=r"nobody can be left out; who judged: Ten teachers"):
        human_ceiling(str(real_sets("quiz_design")))


# ---------------------------------------------------------------- made-up sets


@pytest.fixture
def make_set(tmp_path, nnd_home):
    """A function that builds a set of rows with the keys of its recipe."""

    def make(name, rows, keys):
        recipe = nnd_home / "task_yamls" / name / "_recipe"
        recipe.parent.mkdir(parents=True)
        recipe.write_text(keys, encoding="utf-8")
        return build_set(find_recipe(name), write_rows(tmp_path / f"{name}.jsonl", rows)).folder

    return make


SCORES = "{context: c, candidate: t, score: s, min_gap: 1}"
#: Of each prompt, two raters and a third who is wrong on every second prompt.
ROWS = [{"c": f"Q{i}", "t": t, "s": s} for i in range(40) for t, s in (("a", [1, 1, 5 * (i % 2)]), ("b", [5, 5, 2]))]


def write_pair_set(make_set):
    rows = [{"a": "one", "b": "two", "w": w, "r": r} for w, r in zip(("b", "b", "tie", "a"), "wxyz", strict=True)]
    rows += [{"a": "same", "b": "same", "w": "a", "r": r} for r in "wx"]  # no test: equal texts are one candidate
    make_set("pairs", rows, "{pair: [a, b], winner: w, rater: r}")


def test_pairs_are_judged_by_the_majority_of_the_others_and_a_tie_is_half_a_pass(make_set, nnd):
    write_pair_set(make_set)
    # Without w, x and z balance, so that w is asked nothing; so with x.
    assert count(human_ceiling("pairs").panels[0].tests) == {("y", "preference", 0.5): 1, ("z", "preference", 0.0): 1}
    assert "2 of 4 judgements are in a test; not 2 on which the others tie" in nnd("ceiling", "pairs").out


def test_another_set_judges_the_same_texts_or_is_refused(make_set):
    make_set("rated", ROWS, SCORES)
    make_set("again", [{"c": row["c"], "t": row["t"], "s": row["s"][::-1]} for row in ROWS], SCORES)
    make_set("others", [{**row, "c": row["c"] + "?"} for row in ROWS], SCORES)
    rates = human_ceiling("rated", judged_by="again").rates.set_index(["panel", "judged_by", "category"])
    assert rates["ceiling"]["default", "again", "all"] == rates["ceiling"]["again", "default", "all"] == 1
    # Krippendorff's alpha of the same judgements stands beside what each of them passes.
    alone = "each of them, left out", "all"
    assert rates["alpha"].dropna().round(3).to_dict() == {("default", *alone): 0.246, ("again", *alone): 0.246}
    write_pair_set(make_set)
    for wrong, message in {
        "others": "others judged no two texts of a test",
        "rated": "these are the raters of rated",
        "pairs": "judged pairs",
        "rated:no": "it has no config 'no'",
        "nothing": "there is no set 'nothing'",
    }.items():
        with pytest.raises(NNDError, match=message):
            human_ceiling("rated", judged_by=wrong)
    with pytest.raises(NNDError, match="it has no config 'no'"):
        human_ceiling("rated", "no")


def test_people_who_never_disagree_give_no_ceiling(make_set):
    folder = make_set("rated", [{**row, "s": row["s"][1:2] * 3} for row in ROWS], SCORES)
    with pytest.raises(NNDError, match="all who judged a text say the same of it"):
        human_ceiling("rated")
    assert "What a person passes" not in (folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (
            lambda rows: rows[:0],
            r"no single judgements of several people on one text are known, .* who judged: the recipe does not say",
        ),
        (lambda rows: rows[rows["place"] == 1], "no rater judged two texts of a prompt that others judged"),
    ],
)
def test_judgements_of_nobody_or_of_one_rater_are_refused_in_one_line(make_set, nnd, keep, message):
    folder = make_set("rated", ROWS, SCORES)
    [path] = (folder / "judgements").rglob("*.parquet")
    keep(pd.read_parquet(path)).to_parquet(path)
    assert re.search(message, refused(nnd("ceiling", "rated")))


def test_a_lower_score_is_better_where_the_recipe_says_so(make_set):
    """Ranks turned round make the same tests, and the same ones are passed."""
    make_set("rated", ROWS, SCORES)
    make_set(
        "ranked", [{**row, "s": [6 - score for score in row["s"]]} for row in ROWS], SCORES[:-1] + ", best: lowest}"
    )
    columns = ["high", "low", "passed"]
    assert human_ceiling("ranked").panels[0].tests[columns].equals(human_ceiling("rated").panels[0].tests[columns])


@pytest.mark.parametrize("named", [False, True])
def test_the_share_is_that_of_the_same_tests_and_texts_without_a_score_are_left_out(make_set, named):
    folder = make_set(
        "rated",
        [{**row, "s": [*row["s"], row["s"][0]], "r": [*"wxyz"]} for row in ROWS],
        SCORES[:-1] + ", rater: r" * named + "}",
    )
    table = read_table(folder)
    protocol = {"set": str(folder), "config": "default", "data": fingerprint(table)}
    documents = [
        {"cluster_id": row["cluster_id"], "candidates": ["a", "b"], "no_context": None,
         "scores": [{"mean": -2.0}, {"mean": -1.0 - 2.0 * (i % 4 == 0)}] if i < 36 else [None, {"mean": 0.0}]}
        for i, row in enumerate(table.to_pylist())
    ]  # fmt: skip

    class OneRun:
        runs, models = [make_run("m", [], [], protocol=protocol, documents=documents)], ["m"]

    row = find_shares(OneRun).iloc[0]
    tests = human_ceiling("rated").panels[0].tests
    read = tests[tests["cluster_id"].isin([document["cluster_id"] for document in documents[:36]])]
    assert (row["tests"], row["left_out"]) == (len(read), len(tests) - len(read))
    people, model = read["passed"].mean(), row["same_rate"]
    assert row["share"] == pytest.approx((model - 0.5) / (people - 0.5))
    assert row["share_low"] < row["share"] < row["share_high"]
    assert (row["wide_low"] < row["share"] < row["wide_high"]) == named, "places are no persons"


@pytest.mark.parametrize("persons", [0, 6])
def test_the_interval_of_a_ratio_has_the_variance_of_prompts_or_of_prompts_and_persons(persons):
    rng = random.Random(0)
    rows = [
        (f"p{i}", f"r{j}", rng.choice([0, 1]), rng.choice([0.5, 1])) for i in range(30) for j in range(6) if (i + j) % 4
    ]

    centre = sum(row[2] for row in rows) / sum(row[3] for row in rows)

    def moved(rows):
        """How far each prompt moves the ratio away from that of all rows."""
        weight = sum(row[3] for row in rows)
        return [sum(v - centre * w for name, _, v, w in rows if name == f"p{i}") / weight for i in range(30)]

    whole, degrees = 30 / 29 * sum(value**2 for value in moved(rows)), 29
    if persons:
        without = [moved([row for row in rows if row[1] != f"r{j}"]) for j in range(6)]
        without = [[one[i] - mean([other[i] for other in without]) for i in range(30)] for one in without]
        by_prompt, by_rater = whole, 5 / 6 * sum(sum(one) ** 2 for one in without)
        by_both = 5 / 6 * sum(value**2 for one in without for value in one)
        whole = by_prompt + max(by_rater - by_both, 0)
        degrees = max(whole**2 / (by_prompt**2 / 29 + by_rater**2 / 5), 5)
    table = pd.DataFrame(rows, columns=["cluster_id", "rater", "value", "weight"])
    half = scipy.stats.t.ppf(0.975, degrees) * whole**0.5
    without = [table[table["rater"] != f"r{j}"] for j in range(persons)]
    ratio, *ends = ratio_interval(table, without)
    assert [ratio, *(ends[-2:] if persons else ends[:2])] == pytest.approx([centre, centre - half, centre + half])
    assert persons or np.isnan(ends[2:]).all()


@pytest.mark.parametrize(("ceiling", "others"), [(0.5, 2), (0.75, 2), (0.75, 4), (1.0, 3)])
def test_a_second_panel_passes_more_than_one_person(ceiling, others):
    assert ceiling <= spearman_brown(ceiling, others) <= 1
    assert (spearman_brown(ceiling, others) == pytest.approx(ceiling)) == (ceiling in (0.5, 1.0))
