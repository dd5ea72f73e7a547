"""Rules against plain transformers' logits, and the choice among them, with planted outcomes."""

import doctest
import math

import numpy as np
import pandas as pd
import pytest
import torch

from engine_tests.comparing import pair_of, score_tokens
from engine_tests.families import VOCABULARY
from nnd_tasks.likelihood import likelihood_rules as rules
from nnd_tasks.likelihood.likelihood_rules import KNOTS, RULES, Text, adjust
from nnd_tasks.likelihood.rules_report import apply_rules, divide, judge, report_rules
from nnd_tasks.likelihood.scored_tokens import STATS
from nnd_tasks.likelihood.token_scores import CandidateTokens
from nnd_tasks.results.read_runs import read_results
from tests.commands import refused
from tests.results import fake_runs, token_runs


def test_the_worked_numbers_are_right():
    assert doctest.testmod(rules) == (0, len(set(RULES.values())) - 2)  # min_10, min_20 and min_40 have one example


def logits_of(name, requests):
    """Return plain transformers' logits of each continuation, in 64 bits."""
    model = pair_of(name)[0].model
    with torch.inference_mode():
        read = [model(torch.tensor([context + ids])).logits[0, -1 - len(ids) : -1] for _, context, ids in requests]
    return [logits.double() for logits in read]


def expect(name, logits, amateur, bare, ids):
    """Compute a rule by its definition."""
    place = torch.arange(len(ids))
    logp = logits.log_softmax(-1)
    p, own = logp.exp(), logp[place, ids]
    entropy = -(p * logp).sum(-1)
    match name.partition("_"):
        case ("sum", _, _):
            return own.sum()
        case ("byte", _, _):
            return own.sum() / 7
        case ("pmi", _, _):
            return (own - bare.log_softmax(-1)[place, ids]).mean()
        case ("z", _, _):
            return ((own + entropy) / ((p * logp**2).sum(-1) - entropy**2).sqrt()).mean()
        case ("entropy", _, _):
            return own.sum() / entropy.sum()
        case ("min", _, percent):
            return own.sort().values[: max(1, len(ids) * int(percent) // 100)].mean()
        case ("first", _, tokens):
            return own[: int(tokens)].mean()
        case ("from", _, _):
            return own[2:].mean()
        case ("after", _, _):
            return own[3:].mean()
        case ("endogenous", _, _):
            return (logits[place, ids][:-1] - logits.exp().sum(-1).log()[1:]).mean()
        case ("contrast", _, _):
            return (p[place, ids] - amateur.softmax(-1)[place, ids] / 2).abs().log().mean()
    return own.mean()


def test_every_rule_is_that_of_plain_logits_of_50_pairs():
    rng = np.random.default_rng(0)
    sizes = rng.integers([5, 4], [30, 25], (100, 2))
    requests = [(("", ""), *(rng.integers(2, VOCABULARY, size).tolist() for size in pair)) for pair in sizes]
    bare = [(text, [0], ids) for text, _, ids in requests]
    answers, alone, weaker = [], [], []
    for found, name, asked in ((answers, "llama", requests), (alone, "llama", bare), (weaker, "qwen2", requests)):
        lm = pair_of(name)[1]
        lm.token_scores = lm.token_stats = True
        found += score_tokens(lm, asked)
    plain = zip(
        *(logits_of(*asked) for asked in (("llama", requests), ("qwen2", requests), ("llama", bare))), strict=True
    )
    for answer, without, other, (_, _, ids), logits in zip(answers, alone, weaker, requests, plain, strict=True):
        text = Text(
            answer.logprobs,
            total=answer[0],
            size=7,
            bare=without[0] / len(ids),
            expected=dict(zip(STATS, answer.expected.T[1:], strict=True)),
            differs=2,
            goes_on=3,
            stretches=(answer.logprobs, other.logprobs),
        )
        p, q = np.exp(text.stretches)
        for name, rule in RULES.items():
            expected = float(expect(name, *logits, torch.tensor(ids)))
            # Where p is near q / 2, the logarithm of the difference has fewer digits than they.
            digits = 1e-5 * max(1, float((p / abs(p - q / 2)).max()) / 10 if name == "contrast" else 1)
            assert rule(text) == pytest.approx(expected, rel=1e-5, abs=digits), name


def test_stretches_end_with_a_token_of_both():
    def tokens(ends, logprobs):
        ends = np.array(ends)
        return CandidateTokens(np.arange(len(ends)), np.array([0, *ends[:-1]]), ends, np.array(logprobs))

    own, other = tokens([0, 3, 5, 9, 9], [-1, -2, -4, -8, -16]), tokens([4, 5, 9], [-1, -2, -4])
    assert np.array(divide(own, other)).tolist() == [[-7, -24], [-3, -4]]


# ---------------------------------------------------------------- length and frequency


def made_up_tests(seed, score, prompts=100):
    """Return tests whose better texts are longer by three tokens on average, and their rarity; nan where tokens cost alike."""
    rng = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), 6)
    base = np.repeat(rng.integers(1, 40, prompts), 6)
    high, low = (np.maximum(1, base + np.round(rng.normal(more, 6, len(prompt)))) for more in (3, 0))
    rarer = 6 * (high - low) + rng.normal(0, 9, len(prompt))
    sums = {"high_sum": score(high) - 0.3 * rarer, "low_sum": score(low)}
    tests = pd.DataFrame({"cluster_id": prompt, "category": rng.integers(0, 3, len(prompt)), **sums})
    return tests.assign(high_tokens=high, low_tokens=low, margin_sum=tests["high_sum"] - tests["low_sum"]), rarer


SCORERS = {"alike": lambda n: -3.0 * n, "squares": lambda n: n * n, "a bend": lambda n: -np.minimum(n, 20.0)}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_that_knows_only_length_and_frequency_passes_half_of_the_tests(name):
    several = [np.heaviside(adjust(*made_up_tests(seed, SCORERS[name])), 0.5).mean() for seed in range(8)]
    assert np.mean(several) == pytest.approx(0.5, abs=0.03)
    assert name != "alike" or set(several) == {0.5}, "what is left is rounding, and a tie"


def test_prices_are_weighted_least_squares_on_the_other_prompts_with_a_constant_per_category():
    tests, rarer = made_up_tests(0, lambda n: -3 * n + np.sin(n), 12)
    high, low = tests["high_tokens"], tests["low_tokens"]
    knots = np.quantile([*high, *low], np.linspace(0, 1, KNOTS))
    spline = rules.CubicSpline(knots, np.eye(KNOTS), bc_type="natural")
    design = np.column_stack([spline(high) - spline(low), rarer, np.eye(3)[tests["category"]]])
    root, left = 1 / np.sqrt(high + low), adjust(tests, rarer)
    for prompt in range(12):
        own = tests["cluster_id"] == prompt
        rows, margins = (
            numbers[~own] * weight
            for numbers, weight in ((design, root.to_numpy()[~own, None]), (tests["margin_sum"], root[~own]))
        )
        prices = np.linalg.lstsq(rows, margins, rcond=None)[0][:-3]
        assert left[own] == pytest.approx((tests["margin_sum"] - design[:, :-3] @ prices)[own], abs=1e-6)


# ---------------------------------------------------------------- what a run shows


def write_planted(folder, model="m", *, longer=(0, 1), **more):
    """Write a run in which the two lowest log-probabilities tell which text is better, and all others nothing.

    In so many prompts of two the better text is the longer one.
    """
    rng = np.random.default_rng(1)
    samples = []
    for number in range(60):
        tokens = []
        for lowest in (-5.0, -9.0):
            rest = (rng.uniform(-30, -26) - 2 * lowest) / 8
            values = [rest] * 8 + [lowest] * 2
            tokens.append([(i, 4 * i, 4 * i + 4, value) for i, value in enumerate(values)])
        texts = ["abc " * 10 + "x" * (number % 2 in longer), "abc " * 9 + "xyz " + "x" * (number % 2 not in longer)]
        samples.append(fake_runs.sample_of_tokens(fake_runs.make_document(f"p{number}", texts, ["a"]), tokens))
    return fake_runs.write_run(folder, model, samples=samples, **more)


@pytest.mark.parametrize(("longer", "mark"), [((0,), False), ((0, 1), True)])
def test_the_rule_that_tells_is_chosen_on_each_half_and_better_on_the_other(tmp_path, longer, mark):
    [run] = read_results(write_planted(tmp_path, longer=longer))
    report = report_rules(run)
    table = report.tables[0].data.set_index(["category", "rule"]).loc["all"]
    best, chosen = table.loc["min_10"], table.loc["chosen"]
    assert chosen["best"] == ": min_10 / min_10"
    assert "they pass 48.3 points more than the mean per token (p <0.001)" in report.findings[0]
    assert (best["rate"], best["verdict"], best["length"]) == (1, "better", mark)
    assert (chosen["difference"], chosen["p"]) == (best["difference"], best["p"])
    assert run.tests["passed"].mean() == pytest.approx(best["base"]) == pytest.approx(1 - best["difference"])
    assert table.loc["first_10", "verdict"] == "open", "all ten tokens: the mean; none of 60 prompts differs"
    same = table.loc[["first_10"]].assign(category="all", prompts=100, low=math.nan, high=math.nan)
    assert judge(same)["verdict"].item() == "refuted", "at most 3 in 100 can differ"
    assert best["p_holm"] == pytest.approx(best["p"] * len(table))
    assert {note.split()[0] for note in report.notes} == {
        "z",
        "entropy",
        "endogenous",
        "pmi",
        "contrast",
        "after_difference",
    }


def test_the_best_of_rules_that_know_nothing_is_not_better_on_the_other_half(tmp_path):
    rng = np.random.default_rng(0)
    gains = []
    for seed in range(20):
        made = [fake_runs.make_document(f"p{number}", ["one two", "two one"], ["a"]) for number in range(40)]
        tokens = [
            [[(i, 0, 7, value) for i, value in enumerate(-rng.exponential(3, 12))] for _ in range(2)] for _ in made
        ]
        samples = [*map(fake_runs.sample_of_tokens, made, tokens)]
        [run] = read_results(fake_runs.write_run(tmp_path / str(seed), "m", samples=samples))
        row = report_rules(run).tables[0].data.iloc[-1]
        gains.append(row["difference"])
    assert abs(np.mean(gains)) < 3 * np.std(gains) / math.sqrt(len(gains)) + 0.01
    assert np.mean(gains) < 0.04, "the best of twelve on one half gains some 10 points there"


def test_sums_and_bytes_and_pmi_pass_the_tests_that_the_run_reports(tmp_path):
    [run] = read_results(token_runs.write_run(tmp_path, "m", token_runs.documents(15), without_context=True))
    tests, outcomes = apply_rules(run)
    for name, margin in {"mean": "margin", "sum": "margin_sum", "byte": "margin_bytes"}.items():
        assert outcomes[name].tolist() == (tests[margin] > 0).tolist()
    assert outcomes["pmi"].tolist() == (tests["margin"] > tests["margin_no_context"]).tolist()


def test_an_amateur_adds_contrast(tmp_path, nnd):
    strong, weak = (write_planted(tmp_path / name, name) for name in ("strong", "weak"))
    shown = nnd("rules", strong, "--amateur", weak, "--rules", "contrast,sum")
    assert "| all | contrast | 60 |" in shown.out
    assert nnd("rules", strong, "--brief").out.count("| nnd_made_up | strong |") == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["bare"], "kept no token scores; run it again with --metadata '{\"tokens\": true}'"),
        (["strong", "--rules", "means"], "--rules means: no rule; did you mean 'mean'? they are mean, sum,"),
        (["strong", "--amateur", "other"], "--amateur: has 0 runs of nnd_made_up, which strong ran"),
        (
            ["strong", "--amateur", "data"],
            "--amateur: strong (nnd_made_up) and data (nnd_made_up) cannot be compared: data",
        ),
        (["strong", "--amateur", "bare"], "bare kept no token scores"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, nnd, asked, message):
    write_planted(tmp_path / "strong", "strong")
    write_planted(tmp_path / "bare", "bare", tokens=False)
    write_planted(tmp_path / "other", "other", task="nnd_other")
    write_planted(tmp_path / "data", "data", protocol={"data": "f" * 16})
    found = refused(nnd("rules", *(tmp_path / word if (tmp_path / word).is_dir() else word for word in asked)))
    assert message in found
