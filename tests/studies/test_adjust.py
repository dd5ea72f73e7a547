"""Adjusted rates: what is planted comes out, and what is only length goes."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.statistics import summarize_rate
from nnd_tasks.studies.adjust import ADJUSTED, Margins, adjust, curve, fit, influence, left_over, won
from tests.results.fake_runs import make_document, sample_of_tokens, write_run

PER_TOKEN, PER_NAT = -3.0, -0.35


def lengths(rng, prompts, longer=3.0):
    """Return prompt, category, and tokens of both texts of each test; the better ones are ``longer`` by so much on average."""
    prompt = np.repeat(np.arange(prompts), 6)
    size = len(prompt)
    base = np.repeat(rng.integers(1, 40, prompts), 6)
    high, low = (np.maximum(1, base + np.round(rng.normal(more, 6, size))) for more in (longer, 0))
    return prompt, rng.integers(0, 3, size), high, low


def planted(seed, prompts, knows, longer=3.0):
    """Return tests of a scorer with planted knowledge (nats), and the knowledge alone."""
    rng = np.random.default_rng(seed)
    prompt, category, high, low = lengths(rng, prompts, longer)
    high_rare, low_rare = (6 * n + 4 * np.sqrt(n) * rng.normal(size=len(n)) for n in (high, low))
    rarer = high_rare - low_rare
    knowledge = knows * (1 + category / 2) + np.sqrt(high + low) * rng.normal(size=len(prompt))
    summed = knowledge + PER_TOKEN * (high - low) + PER_NAT * rarer
    columns = np.column_stack([curve(high, low), rarer])
    return Margins(summed, columns, high + low, np.abs(summed) + 1, prompt, category), knowledge


def adjusted_rate(margins):
    return float(won(left_over(margins, fit(margins))).mean())


# ---------------------------------------------------------------- the fit


def test_the_fit_is_weighted_least_squares_with_a_constant_per_category_without_each_prompt():
    margins, _ = planted(0, 12, 4)
    categories = np.where(margins.prompts == 5, 3, margins.categories)  # a category of one prompt only
    margins = replace(margins, categories=categories)
    design = np.column_stack([margins.columns, np.eye(4)[categories]])

    def slow(chosen):
        root = 1 / np.sqrt(margins.sizes[chosen])
        fitted = np.linalg.lstsq(design[chosen] * root[:, None], margins.summed[chosen] * root, rcond=None)[0]
        return margins.columns @ fitted[:-4]  # of a curve, other coefficients may give the same

    link = fit(margins)
    assert margins.columns @ link.coefficients == pytest.approx(slow(np.full(len(categories), True)))
    expected = np.zeros(len(categories))
    for prompt in range(12):
        own = margins.prompts == prompt
        expected[own] = margins.summed[own] - slow(~own)[own]
    assert left_over(margins, link) == pytest.approx(expected)
    assert link.learnable.all()


SCORERS = {
    "every token costs the same": lambda n: -3.0 * n,
    "the mean grows with length": lambda n: n * n,
    "a bend": lambda n: -np.minimum(n, 20.0),
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_that_knows_only_length_passes_half_of_the_tests(name):
    rng, rates = np.random.default_rng(0), []
    for _ in range(10):
        prompt, category, high, low = lengths(rng, 200)
        better, worse = SCORERS[name](high), SCORERS[name](low)
        totals = np.abs(better) + np.abs(worse)
        margins = Margins(better - worse, curve(high, low), high + low, totals, prompt, category)
        rates.append(adjusted_rate(margins))
    assert np.mean(rates) == pytest.approx(0.5, abs=0.02)
    assert name != "every token costs the same" or set(rates) == {0.5}, "what is left is rounding, and a tie"


@pytest.mark.parametrize(("knows", "longer"), [(0, 3.0), (4, 0.0), (4, 6.0)])
def test_what_a_scorer_knows_is_left_whether_better_texts_are_longer_or_not(knows, longer):
    several = [planted(seed, 300, knows, longer) for seed in range(8)]
    kept = np.mean([won(knowledge).mean() for _, knowledge in several])
    assert (kept > 0.75) == (knows > 0)
    assert np.mean([adjusted_rate(margins) for margins, _ in several]) == pytest.approx(kept, abs=0.02)
    assert abs(np.mean([won(margins.summed).mean() for margins, _ in several]) - kept) > 0.1
    for margins, _ in several:
        assert fit(margins).coefficients[-1] == pytest.approx(PER_NAT, rel=0.05)


# ---------------------------------------------------------------- intervals


def test_the_error_is_the_spread_over_repeated_studies_with_the_noise_of_the_fit():
    """All better texts are much longer, so every error in the price of a token moves all margins to one side."""
    studies = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        prompt, _, _, low = lengths(rng, 30)
        longer = 12 + rng.integers(-3, 4, len(low))
        sizes = 2 * low + longer
        summed = PER_TOKEN * longer + 2 + np.sqrt(sizes) * rng.normal(size=len(low))
        margins = Margins(summed, longer[:, None], sizes, sizes, prompt, np.zeros_like(prompt))
        link = fit(margins)
        remainder = left_over(margins, link)
        counts = np.bincount(prompt, won(remainder)), np.bincount(prompt)
        rate = summarize_rate(*counts, influence=influence(margins, link, remainder, np.full(len(low), True)))
        studies.append((rate.mean, rate.standard_error, summarize_rate(*counts).standard_error))
    rates, errors, without_the_fit = np.array(studies).T
    assert errors.mean() == pytest.approx(rates.std(), rel=0.2)
    assert without_the_fit.mean() < 0.6 * rates.std()


# ---------------------------------------------------------------- runs


def scored_run(folder, texts, sums, **more):
    """Return a run whose first candidate of each prompt is better than the others.

    Args:
        folder: of the files.
        texts: token ids of each candidate of each prompt.
        sums: gives the sum of log-probabilities of a candidate, from its prompt, its place and its tokens.
        more: for `write_run`.
    """
    samples = []
    for p, candidates in enumerate(texts):
        document = make_document(f"p{p}", ["word " * len(ids) for ids in candidates], "aba"[: len(candidates) - 1])
        means = [sums(p, i, ids) / len(ids) for i, ids in enumerate(candidates)]
        tokens = [[(token, 0, 0, mean) for token in ids] for ids, mean in zip(candidates, means, strict=True)]
        samples.append(sample_of_tokens(document, tokens))
    [run] = read_results(write_run(folder, "m", samples=samples, **more))
    return run


def some_texts(rng, prompts=40):
    return [
        [rng.integers(0, 30, rng.integers(2, 20)).tolist() for _ in range(rng.integers(2, 5))] for _ in range(prompts)
    ]


def surprise_of(texts, prompt, ids):
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
    assert notes[0].startswith("1 test with an infinite log-probability")
    with pytest.raises(NNDError, match="no test has finite log-probabilities"):
        adjust(replace(run, tests=run.tests.assign(margin_sum=math.nan)))


def test_where_better_texts_are_longer_a_note_says_that_knowledge_may_be_taken_out(tmp_path):
    texts = [[[1] * 9, [1] * (3 + i % 4)] for i in range(20)]
    _, notes = adjust(scored_run(tmp_path, texts, lambda p, i, ids: -3.0 * len(ids), tokens=False))
    assert notes[1].startswith("a: in 100% of the tests that differ in length the better text is the longer one")


# ---------------------------------------------------------------- where users see it


def test_the_command_shows_them_where_they_are_asked_for(tmp_path, nnd):
    for seed, name in enumerate(("one", "two")):
        write_run(tmp_path / "results", name, seed=seed)
    done = nnd("compare", tmp_path / "results", "--adjust")
    assert "| category | model | by token | by sum | by byte | adjusted | adjusted - by token |" in done.out
    assert "one: length: in every category the better texts differ by equally much" in done.out  # all have ten tokens
    assert "two: the run kept no tokens" in done.out
    alone = ("compare", tmp_path / "results" / "one", "--adjust")
    assert "| nnd_made_up | all | one" in nnd(*alone, "--brief").out
    assert "nnd report shows one model" in nnd(*alone[:2]).err
