"""`adjust`, `fit`, `left_over`, `influence`: what is planted comes out, and what is only length goes.

Also covers summarize_rate.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Run
from nnd_tasks.statistics import summarize_rate
from nnd_tasks.studies.adjust import ADJUSTED, Floats, Margins, adjust, curve, fit, influence, left_over, won
from tests.results.fake_runs import sample_of_tokens, write_run

PER_TOKEN, PER_NAT = -3.0, -0.35
#: Token ids of each candidate of each prompt.
Texts = list[list[list[int]]]


def lengths(rng: np.random.Generator, prompts: int, per_prompt: int = 6, longer: float = 3.0) -> Any:
    """Return prompt, category, and tokens of both texts of each test; the better ones are ``longer`` by so much on average."""
    of = np.repeat(np.arange(prompts), per_prompt)
    size = len(of)
    base = np.repeat(rng.integers(1, 40, prompts), per_prompt)
    more = np.round(rng.normal(longer, 2, size)).astype(int)
    high = np.maximum(1, base + rng.integers(-10, 10, size) + more).astype(float)
    low = np.maximum(1, base + rng.integers(-10, 10, size)).astype(float)
    return of, rng.integers(0, 3, size), high, low


def margins_of(score: Callable[[Floats], Floats], of: Any, category: Any, high: Floats, low: Floats) -> Margins:
    """Return the margins of a scorer whose sums depend on length alone."""
    better, worse = score(high), score(low)
    return Margins(better - worse, curve(high, low), high + low, np.abs(better) + np.abs(worse), of, category)


def planted(
    rng: np.random.Generator, prompts: int, knows: float, longer: float = 3.0
) -> tuple[Margins, Margins, Floats]:
    """Return tests of a scorer with planted knowledge (nats), with straight and with curved columns, and the knowledge alone."""
    of, category, high, low = lengths(rng, prompts, longer=longer)
    rare = [6 * n + 4 * np.sqrt(n) * rng.normal(size=len(n)) for n in (high, low)]
    shared = np.repeat(rng.normal(size=prompts), len(of) // prompts)
    own = knows * (1 + category / 2) + 2 * shared + np.sqrt(high + low) * rng.normal(size=len(of))
    straight = np.column_stack([high - low, rare[0] - rare[1]])
    summed = own + straight @ [PER_TOKEN, PER_NAT]
    one = Margins(summed, straight, high + low, np.abs(straight[:, 0]) + 1, of, category)
    return one, replace(one, columns=np.column_stack([curve(high, low), straight[:, 1]])), own


def adjusted_rate(margins: Margins) -> float:
    return float(won(left_over(margins, fit(margins))).mean())


# ---------------------------------------------------------------- the fit


def test_the_fit_is_weighted_least_squares_with_a_constant_per_category_without_each_prompt():
    margins, _, _ = planted(np.random.default_rng(0), 12, 4)
    alone = np.where(margins.prompts == 5, 3, margins.categories)  # a category of one prompt only
    margins = replace(margins, categories=alone)

    def slow(chosen):
        root = 1 / np.sqrt(margins.sizes[chosen])
        dummies = (alone[chosen, None] == np.arange(4)).astype(float)
        design = np.column_stack([margins.columns[chosen], dummies])
        return np.linalg.lstsq(design * root[:, None], margins.summed[chosen] * root, rcond=None)[0][:2]

    link = fit(margins)
    assert link.coefficients == pytest.approx(slow(np.full(len(alone), True)), rel=1e-9)
    rest = left_over(margins, link)
    for prompt in range(12):
        others = slow(margins.prompts != prompt)
        assert link.without[prompt] == pytest.approx(others, rel=1e-9)
        own = margins.prompts == prompt
        assert rest[own] == pytest.approx(margins.summed[own] - margins.columns[own] @ others)
    assert link.learnable.all()


SCORERS: dict[str, Callable[[Floats], Floats]] = {
    "every token costs the same": lambda n: -3.0 * n,
    "the mean grows with length": lambda n: n * n,
    "first tokens cost more": lambda n: -2 * n - 6 * np.log(n + 0.5),
    "a bend": lambda n: -np.minimum(n, 20.0),
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_that_knows_only_length_passes_half_of_the_tests(name):
    rng = np.random.default_rng(0)
    several = [margins_of(SCORERS[name], *lengths(rng, 200)) for _ in range(10)]
    assert np.mean([adjusted_rate(margins) for margins in several]) == pytest.approx(0.5, abs=0.02)
    if name == "every token costs the same":
        assert abs(np.mean([won(margins.summed).mean() for margins in several]) - 0.5) > 0.1
        # What is left is rounding, and rounding is a tie.
        assert {adjusted_rate(margins) for margins in several} == {0.5}


@pytest.mark.parametrize(("knows", "longer"), [(0, 3.0), (4, 0.0), (4, 3.0), (4, 6.0)])
def test_what_a_scorer_knows_is_left_whether_better_texts_are_longer_or_not(knows, longer):
    several = [planted(np.random.default_rng(seed), 300, knows, longer) for seed in range(8)]
    kept = np.mean([won(own).mean() for _, _, own in several])
    assert (kept > 0.75) == (knows > 0)
    assert np.mean([adjusted_rate(curved) for _, curved, _ in several]) == pytest.approx(kept, abs=0.02)
    assert abs(np.mean([won(margins.summed).mean() for margins, _, _ in several]) - kept) > 0.1
    for margins, _, _ in several:
        assert fit(margins).coefficients == pytest.approx([PER_TOKEN, PER_NAT], rel=0.05)


# ---------------------------------------------------------------- intervals


def test_the_error_is_the_spread_over_repeated_studies_with_the_noise_of_the_fit():
    """All better texts are much longer, so every error in the price of a token moves all margins to one side."""
    studies = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        of, category, _, low = lengths(rng, 60, per_prompt=3)
        longer = 12 + rng.integers(-3, 4, len(of))
        high = low + longer
        summed = PER_TOKEN * longer + 2 + np.sqrt(high + low) * rng.normal(size=len(of))
        margins = Margins(summed, longer[:, None], high + low, high, of, np.zeros_like(category))
        link = fit(margins)
        rest = left_over(margins, link)
        passed, tests = np.bincount(of, won(rest)), np.bincount(of)
        found = summarize_rate(passed, tests, influence=influence(margins, link, rest, np.full(len(of), True)))
        studies.append((found.mean, found.standard_error, summarize_rate(passed, tests).standard_error))
    rates, errors, without_the_fit = np.array(studies).T
    assert errors.mean() == pytest.approx(rates.std(), rel=0.2)
    assert without_the_fit.mean() < 0.6 * rates.std()


# ---------------------------------------------------------------- runs


def scored_run(folder: Path, texts: Texts, sums: Callable[[int, int, list[int]], float], **more: Any) -> Run:
    """Return a run whose first candidate of each prompt is better than the others.

    Args:
        folder: of the files.
        texts: token ids of each candidate of each prompt.
        sums: gives the sum of log-probabilities of a candidate, from its prompt, its place and its tokens.
        more: for `write_run`.
    """
    samples = []
    for p, candidates in enumerate(texts):
        tests = [
            {"test_id": f"p{p}-{i}", "category": "ab"[i % 2], "high": 0, "low": i} for i in range(1, len(candidates))
        ]
        words = ["word " * len(ids) for ids in candidates]
        means = [sums(p, i, ids) / len(ids) for i, ids in enumerate(candidates)]
        tokens = [[(one, 0, 0, mean) for one in ids] for ids, mean in zip(candidates, means, strict=True)]
        samples.append(sample_of_tokens({"cluster_id": f"p{p}", "candidates": words, "tests": tests}, tokens))
    [run] = read_results(write_run(folder, "m", samples=samples, **more))
    return run


def some_texts(rng: np.random.Generator, prompts: int = 40) -> Texts:
    return [
        [rng.integers(0, 30, rng.integers(2, 20)).tolist() for _ in range(rng.integers(2, 5))] for _ in range(prompts)
    ]


def surprise_of(texts: Texts, prompt: int, ids: list[int]) -> float:
    """Count tokens in all prompts but one, slowly; every id up to the largest has one count more, and unknown ones one."""
    kinds = max(i for prompt_texts in texts for one in prompt_texts for i in one) + 2
    counts = Counter(i for p, several in enumerate(texts) if p != prompt for one in several for i in one)
    return sum(math.log((counts.total() + kinds) / (counts[i] + 1)) for i in ids)


def test_a_run_of_length_and_frequency_passes_half(tmp_path):
    texts = some_texts(np.random.default_rng(0))
    run = scored_run(tmp_path, texts, lambda p, i, ids: -2.5 * len(ids) - 0.8 * surprise_of(texts, p, ids))
    rates, notes = adjust(run)
    assert set(rates[ADJUSTED]) == {0.5}
    assert notes == []


def test_raw_rates_are_those_of_the_run_and_changes_are_to_the_rate_by_token(tmp_path):
    rng = np.random.default_rng(1)
    run = scored_run(tmp_path, some_texts(rng), lambda p, i, ids: float(-3 * len(ids) + 4 * (i == 0) + rng.normal()))
    rates, _ = adjust(run)
    for row in rates.to_dict("records"):
        tests = run.tests[run.tests["category"].eq(row["category"]) | (row["category"] == "all")]
        for name in ("", "_sum", "_bytes"):
            assert row[f"pass_rate{name}"] == (tests[f"margin{name}"] > 0).mean()
        assert row["change"] == pytest.approx(row[ADJUSTED] - row["pass_rate"])
    assert rates["category"].tolist() == ["all", "a", "b"]
    assert rates[ADJUSTED][0] > 0.95 > rates["pass_rate_sum"][0]


def test_too_few_prompts_have_no_adjusted_rate_and_a_note(tmp_path):
    rng = np.random.default_rng(3)
    rates, notes = adjust(scored_run(tmp_path, some_texts(rng, 9), lambda p, i, ids: float(rng.normal() * len(ids))))
    assert rates[ADJUSTED].isna().all()
    assert rates["pass_rate_sum"].notna().all()
    assert "fewer than 10 prompts" in notes[0]


def test_an_infinite_sum_is_left_out_with_a_note(tmp_path):
    texts = some_texts(np.random.default_rng(5), 30)
    run = scored_run(tmp_path, texts, lambda p, i, ids: -3.0 * len(ids), tokens=False)
    run.tests.loc[7, "margin_sum"] = math.nan
    rates, notes = adjust(run)
    assert rates[ADJUSTED][0] == 0.5
    assert rates["pass_rate_sum"][0] == (run.tests["margin_sum"].dropna() > 0).mean()
    assert notes[0].startswith("1 test with an infinite log-probability")
    with pytest.raises(NNDError, match="no test has finite log-probabilities"):
        adjust(replace(run, tests=run.tests.assign(margin_sum=math.nan)))


def test_where_better_texts_are_longer_a_note_says_that_knowledge_may_be_taken_out(tmp_path):
    texts = [[[1] * 9, [1] * (3 + i % 4)] for i in range(20)]
    _, notes = adjust(scored_run(tmp_path, texts, lambda p, i, ids: -3.0 * len(ids), tokens=False))
    assert notes[1].startswith("b: in 100% of the tests that differ in length the better text is the longer one")


# ---------------------------------------------------------------- where users see it


def test_the_command_shows_them_where_they_are_asked_for(tmp_path, nnd):
    for seed, name in enumerate(("one", "two")):
        write_run(tmp_path / "results", name, seed=seed)
    done = nnd("compare", tmp_path / "results", "--adjust")
    assert "| category | model | by token | by sum | by byte | adjusted | adjusted - by token |" in done.out
    assert "one: length: in every category the better texts differ by equally much" in done.out  # all have ten tokens
    assert "two: the run kept no tokens" in done.out
    alone = ("compare", tmp_path / "results" / "one", "--adjust")
    report = json.loads(nnd(*alone, "--format", "json").out)
    assert {row["model"] for row in report["tables"]["adjusted"]} == {"one"}
    assert report["findings"] == []
    assert "differences" not in report["tables"]
    assert "| nnd_made_up | all | one" in nnd(*alone, "--brief").out
    assert "nnd report shows one model" in nnd(*alone[:2]).err
