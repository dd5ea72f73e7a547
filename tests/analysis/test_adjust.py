"""Length and word frequency taken out of rates: what is planted comes out, and what is only length goes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nnd_tasks.analysis.adjust import ADJUSTED, adjust
from nnd_tasks.analysis.compare import compare, report_comparison
from nnd_tasks.analysis.length_link import Floats, Margins, curve, fit, influence, left_over, won
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.samples import COLUMNS
from nnd_tasks.analysis.side_by_side import pair
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.token_table import SCHEMA
from nnd_tasks.show.forms import to_json, to_markdown
from nnd_tasks.statistics import clustered_standard_error, summarize_rate
from tests.analysis.fake_runs import write_run
from tests.analysis.runs import make_run
from tests.commands import Outcome

PER_TOKEN, PER_NAT = -3.0, -0.35


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


def test_the_fit_is_weighted_least_squares_with_a_constant_per_category_without_each_prompt() -> None:
    margins, _, _ = planted(np.random.default_rng(0), 12, 4)
    alone = np.where(margins.prompts == 5, 3, margins.categories)  # a category of one prompt only
    margins = replace(margins, categories=alone)

    def slow(chosen: Any) -> Any:
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
    assert link.known.all()


def test_planted_coefficients_are_recovered_although_better_texts_are_longer() -> None:
    found, blind = [], []
    for seed in range(5):
        margins, _, _ = planted(np.random.default_rng(seed), 300, 10, longer=6)
        found.append(fit(margins).coefficients)
        root = 1 / np.sqrt(margins.sizes)
        blind.append(np.linalg.lstsq(margins.columns * root[:, None], margins.summed * root, rcond=None)[0])
    for one in found:
        assert one == pytest.approx([PER_TOKEN, PER_NAT], rel=0.05)
    # Without the constants, what the model knows passes for a price of tokens.
    assert abs(np.mean(blind, axis=0)[0] / PER_TOKEN - 1) > 0.1


SCORERS: dict[str, Callable[[Floats], Floats]] = {
    "every token costs the same": lambda n: -3.0 * n,
    "and the first one more": lambda n: -5 - 2.0 * n,
    "the mean grows with length": lambda n: n * n,
    "the mean falls with length": lambda n: -n * n,
    "all sums are equal": lambda n: np.full_like(n, -7.0),
    "root": lambda n: -np.sqrt(n),
    "logarithm": lambda n: -np.log(n),
    "first tokens cost more": lambda n: -2 * n - 6 * np.log(n + 0.5),
    "a bend": lambda n: -np.minimum(n, 20.0),
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_that_knows_only_length_passes_half_of_the_tests(name: str) -> None:
    rng = np.random.default_rng(0)
    several = [margins_of(SCORERS[name], *lengths(rng, 200)) for _ in range(10)]
    assert np.mean([adjusted_rate(margins) for margins in several]) == pytest.approx(0.5, abs=0.02)
    if name in list(SCORERS)[:2]:
        assert abs(np.mean([won(margins.summed).mean() for margins in several]) - 0.5) > 0.1
        assert {adjusted_rate(margins) for margins in several} == {
            0.5
        }  # what is left is rounding, and rounding is a tie


def test_a_scorer_of_length_frequency_and_noise_passes_half_of_the_tests() -> None:
    several = [planted(np.random.default_rng(seed), 300, 0)[1] for seed in range(8)]
    assert np.mean([won(margins.summed).mean() for margins in several]) < 0.4
    assert np.mean([adjusted_rate(margins) for margins in several]) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("longer", [0.0, 3.0, 6.0])
def test_a_scorer_that_knows_something_keeps_it_whether_better_texts_are_longer_or_not(longer: float) -> None:
    several = [planted(np.random.default_rng(seed), 300, 4, longer) for seed in range(4)]
    kept = np.mean([won(own).mean() for _, _, own in several])
    assert kept > 0.75
    assert np.mean([adjusted_rate(curved) for _, curved, _ in several]) == pytest.approx(kept, abs=0.02)
    assert abs(np.mean([won(margins.summed).mean() for margins, _, _ in several]) - kept) > 0.1


@pytest.mark.parametrize("folds", [2, 5, 10])
def test_how_prompts_are_divided_hardly_matters(folds: int) -> None:
    rng = np.random.default_rng(1)
    _, margins, _ = planted(rng, 100, 2)
    divided = replace(margins, prompts=rng.permutation(np.arange(100) % folds)[margins.prompts])
    assert len(fit(divided).without) == folds
    assert adjusted_rate(divided) == pytest.approx(adjusted_rate(margins), abs=0.02)


# ---------------------------------------------------------------- intervals


def one_study(seed: int, prompts: int) -> tuple[float, float, float, tuple[float, float]]:
    """Return the rate, its error, the error without the noise of the fit, and the interval, where that noise is large.

    All better texts are much longer, so every error in the price of a token moves all margins to one side.
    """
    rng = np.random.default_rng(seed)
    of, category, high, low = lengths(rng, prompts, per_prompt=3)
    high = low + 12 + rng.integers(-3, 4, len(of))
    summed = PER_TOKEN * (high - low) + 2 + np.sqrt(high + low) * rng.normal(size=len(of))
    margins = Margins(summed, (high - low)[:, None], high + low, high, of, np.zeros_like(category))
    link = fit(margins)
    rest = left_over(margins, link)
    moved = influence(margins, link, rest, np.full(len(of), True))
    passed, tests = np.bincount(of, won(rest)), np.bincount(of)
    found = summarize_rate(passed, tests, influence=moved)
    return found.mean, found.standard_error, clustered_standard_error(passed, tests), (found.low, found.high)


def test_the_error_is_the_spread_over_repeated_studies_with_the_noise_of_the_fit() -> None:
    studies = [one_study(seed, 60) for seed in range(200)]
    spread = np.std([study[0] for study in studies])
    assert np.mean([study[1] for study in studies]) == pytest.approx(spread, rel=0.2)
    assert np.mean([study[2] for study in studies]) < 0.6 * spread


@pytest.mark.complete
@pytest.mark.parametrize("prompts", [20, 60, 200])
def test_the_interval_covers_the_true_rate(prompts: int) -> None:
    truth = np.mean([one_study(seed, 2000)[0] for seed in range(10_000, 10_040)])
    inside = [study[3][0] <= truth <= study[3][1] for study in (one_study(seed, prompts) for seed in range(1000))]
    assert 0.93 < np.mean(inside) < 0.985


def test_influence_is_the_slope_of_the_rate_times_the_move_of_the_coefficients() -> None:
    margins, _, _ = planted(np.random.default_rng(3), 40, 3)
    one_column = replace(margins, columns=margins.columns[:, :1])
    link = fit(one_column)
    rest = left_over(one_column, link)
    step = math.sqrt(link.covariance[0, 0])
    counts = [won(rest - side * step * one_column.columns[:, 0]).sum() for side in (1, -1)]
    slow = (counts[0] - counts[1]) / 2 / step * (link.coefficients - link.without)[:, 0]
    assert influence(one_column, link, rest, np.full(len(rest), True)) == pytest.approx(slow)


# ---------------------------------------------------------------- runs


def scored_run(folder: Path, texts: Sequence[Sequence[Sequence[int]]], sums: Any, *, tokens: bool = True) -> Run:
    """Return a run whose first candidate of each prompt is better than the others, with its file of tokens.

    Args:
        folder: of the files.
        texts: token ids of each candidate of each prompt.
        sums: gives the sum of log-probabilities of a candidate; None for an infinite one.
        tokens: whether to write the file.
    """
    documents, rows, lines = [], [], []
    for p, candidates in enumerate(texts):
        scores = []
        for i, ids in enumerate(candidates):
            total = sums(p, i, ids)
            mean = None if total is None else total / len(ids)
            scores.append({"sum": total, "mean": mean, "tokens": len(ids), "bytes": 2 * len(ids)})
            parts = [0.0 if total is None else mean] * len(ids)
            lines.append((f"p{p}", i, f"text {i}", "whole", ids, [0] * len(ids), [0] * len(ids), parts))
        documents.append(
            {"cluster_id": f"p{p}", "candidates": [f"text {i}" for i in range(len(candidates))], "scores": scores}
        )
        high = scores[0]
        for i, low in enumerate(scores[1:], start=1):
            margins = [
                math.nan if low[key] is None else high[key] - low[key]  # type: ignore[operator]
                for key in ("mean", "sum")
            ]
            margins.append(
                margins[1] if math.isnan(margins[1]) else high["sum"] / high["bytes"] - low["sum"] / low["bytes"]
            )  # type: ignore[operator]
            passed = math.isnan(margins[0]) or margins[0] > 0
            about = (f"p{p}-{i}", f"p{p}", "ab"[i % 2], "", "", None, None, p, 0, i)
            rows.append((*about, *margins, passed, margins[0] == 0))
    table = pd.DataFrame(rows, columns=list(COLUMNS[:15])).astype({"passed": "boolean", "seed": "Int64"})
    table = table.assign(margin_no_context=math.nan)
    if tokens:
        columns = [list(column) for column in zip(*lines, strict=True)]
        pq.write_table(
            pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA),
            folder / "tokens_nnd_demo_2026.parquet",
        )
    path = folder / "samples_nnd_demo_2026.jsonl"
    return replace(make_run("m", [True], ["p0"]), documents=documents, tests=table, path=path)


def some_texts(rng: np.random.Generator, prompts: int = 40) -> list[list[list[int]]]:
    return [
        [rng.integers(0, 30, rng.integers(2, 20)).tolist() for _ in range(rng.integers(2, 5))] for _ in range(prompts)
    ]


def surprise_of(texts: list[list[list[int]]], prompt: int, ids: list[int]) -> float:
    """Count tokens in all prompts but one, slowly; every id up to the largest has one count more, and unknown ones one."""
    kinds = max(i for prompt_texts in texts for one in prompt_texts for i in one) + 2
    counts = Counter(i for p, several in enumerate(texts) if p != prompt for one in several for i in one)
    return sum(math.log((counts.total() + kinds) / (counts[i] + 1)) for i in ids)


def rate_of(found: Any, name: str, category: str = "all") -> float:
    return float(found[0].set_index("category").loc[category, name])


def test_a_run_of_length_and_frequency_passes_half(tmp_path: Path) -> None:
    texts = some_texts(np.random.default_rng(0))
    run = scored_run(tmp_path, texts, lambda p, i, ids: -2.5 * len(ids) - 0.8 * surprise_of(texts, p, ids))
    rates, notes = adjust(run)
    assert set(rates[ADJUSTED]) == {0.5}
    assert notes == []


def test_raw_rates_are_those_of_the_run_and_changes_are_to_the_rate_by_token(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    run = scored_run(tmp_path, some_texts(rng), lambda p, i, ids: float(-3 * len(ids) + 4 * (i == 0) + rng.normal()))
    found = adjust(run)
    assert found[0]["category"].tolist() == ["all", "a", "b"]
    for rates in found[0].to_dict("records"):
        category = rates["category"]
        tests = run.tests if category == "all" else run.tests[run.tests["category"] == category]
        assert rates["pass_rate"] == pytest.approx(tests["passed"].mean())
        assert rates["pass_rate_sum"] == pytest.approx((tests["margin_sum"] > 0).mean())
        assert rates["pass_rate_bytes"] == pytest.approx((tests["margin_bytes"] > 0).mean())
        assert rates["change"] == pytest.approx(rates[ADJUSTED] - rates["pass_rate"])
        assert rates[f"{ADJUSTED}_low"] <= rates[ADJUSTED] <= rates[f"{ADJUSTED}_high"]
    assert rate_of(found, ADJUSTED) > 0.95 > rate_of(found, "pass_rate_sum")
    part = adjust(run, set(run.tests["test_id"][:50]))
    assert rate_of(part, "pass_rate") == pytest.approx(run.tests["passed"][:50].mean())


def test_without_tokens_only_length_is_taken_out_and_a_note_says_so(tmp_path: Path) -> None:
    run = scored_run(tmp_path, some_texts(np.random.default_rng(2)), lambda p, i, ids: -3.0 * len(ids), tokens=False)
    found = adjust(run)
    assert rate_of(found, ADJUSTED) == 0.5
    [note] = found[1]
    assert "kept no tokens" in note
    assert "--metadata" in note


def test_too_few_prompts_have_no_adjusted_rate_and_a_note(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    run = scored_run(tmp_path, some_texts(rng, 9), lambda p, i, ids: float(rng.normal() * len(ids)))
    found = adjust(run)
    assert math.isnan(rate_of(found, ADJUSTED))
    assert not math.isnan(rate_of(found, "pass_rate_sum"))
    assert "fewer than 10 prompts" in found[1][0]


def test_equal_lengths_have_nothing_to_take_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    texts = [[[1, 2, 3], [4, 5, 6]] for _ in range(20)]
    run = scored_run(tmp_path, texts, lambda p, i, ids: float(rng.normal()), tokens=False)
    found = adjust(run)
    assert rate_of(found, ADJUSTED) == rate_of(found, "pass_rate_sum")
    assert any(note.startswith("length: ") for note in found[1])


def test_an_infinite_sum_is_left_out_with_a_note(tmp_path: Path) -> None:
    texts = some_texts(np.random.default_rng(5), 30)
    run = scored_run(tmp_path, texts, lambda p, i, ids: None if (p, i) == (7, 1) else -3.0 * len(ids), tokens=False)
    found = adjust(run)
    assert rate_of(found, ADJUSTED) == 0.5
    assert rate_of(found, "pass_rate_sum") == (run.tests["margin_sum"].dropna() > 0).mean()
    assert found[1][0].startswith("1 test with an infinite log-probability")
    none = replace(run, tests=run.tests.assign(margin_sum=math.nan))
    with pytest.raises(NNDError, match="no test has finite log-probabilities"):
        adjust(none)


def test_tokens_that_lack_a_candidate_are_an_error(tmp_path: Path) -> None:
    run = scored_run(tmp_path, some_texts(np.random.default_rng(6), 12), lambda p, i, ids: -1.0 * len(ids))
    path = tmp_path / "tokens_nnd_demo_2026.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(NNDError, match=r"no tokens of candidate 0 of prompt p0"):
        adjust(run)


def test_knowledge_that_grows_with_length_is_taken_out_with_it_and_a_note_says_so(tmp_path: Path) -> None:
    """Words are left out of the worse text, and the model notices each by one nat; a token costs it three."""
    rng = np.random.default_rng(8)
    whole, left_out = rng.integers(20, 40, 1_500), rng.integers(1, 7, 1_500)
    texts = [[[1] * n, [1] * (n - k)] for n, k in zip(whole.tolist(), left_out.tolist(), strict=True)]
    noise = rng.normal(0, 5.6, len(texts))
    truth = float(np.mean(left_out + noise > 0))  # at equal prices
    run = scored_run(
        tmp_path, texts, lambda p, i, ids: -3.0 * len(ids) + (left_out[p] + noise[p]) * (i == 0) - 200, tokens=False
    )
    found = adjust(run)
    assert truth == pytest.approx(0.71, abs=0.03)
    assert rate_of(found, ADJUSTED) == pytest.approx(0.5, abs=0.03)
    [_, note] = found[1]
    assert note.startswith("b: in 100% of the tests that differ in length the better text is the longer one")
    shown = to_markdown(report_comparison(compare(pair([run, replace(run, model="n")])[0]), adjusted=True))
    assert shown.count("the better text is the longer one") == 2
    assert "taken out too as far as it grows with the difference in length" in shown


# ---------------------------------------------------------------- where users see it


def test_every_form_of_a_comparison_has_the_rates(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    texts = some_texts(rng, 20)
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made = scored_run(tmp_path / name, texts, lambda p, i, ids: float(-2 * len(ids) + rng.normal() * 3))
        runs.append(replace(made, model=name))
    [paired] = pair(runs)
    comparison = compare(paired)
    assert "adjusted" not in to_markdown(report_comparison(comparison))
    report = report_comparison(comparison, adjusted=True)
    shown = to_markdown(report)
    assert "| category | model | by token | by sum | by byte | adjusted | adjusted - by token |" in shown
    adjusted = json.loads(to_json(report))["tables"]["adjusted"]
    [row] = [row for row in adjusted if (row["category"], row["model"]) == ("a", "two")]
    rate, low, high = (row[f"{ADJUSTED}{end}"] for end in ("", "_low", "_high"))
    assert rate == rate_of(adjust(runs[1]), ADJUSTED, "a")
    assert f"{rate:.3f} [{low:.3f}, {high:.3f}]" in shown


def test_the_command_shows_them_where_they_are_asked_for(tmp_path: Path, nnd: Callable[..., Outcome]) -> None:
    for seed, name in enumerate(("one", "two")):
        write_run(tmp_path / "results", name, seed=seed)
    asked = ("compare", tmp_path / "results")
    assert "adjusted" not in nnd(*asked).out
    done = nnd(*asked, "--adjust")
    assert done.status == 0
    assert "| adjusted - by token |" in done.out
    assert "one: length: in every category the better texts differ by equally much" in done.out  # all have ten tokens
    assert "two: the run kept no tokens" in done.out
