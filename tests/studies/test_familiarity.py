"""Against least squares with dummies, on planted effects, through the command line."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtr, stdtrit

from nnd_tasks.results.read_runs import read_results
from nnd_tasks.store import read_table
from nnd_tasks.studies.familiarity import Effects, report_familiarity
from tests.commands import refused
from tests.results.judged_runs import write_scores, write_set
from tests.sets.folders import to_table, write

# ---------------------------------------------------------------- least squares


def drawn(seed, prompts, systems):
    """Return prompt, stratum, shares and weight of made-up texts; some strata have one text, some texts two writers."""
    rng = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), rng.integers(2, 2 * systems, prompts))
    stratum = prompt * 3 + rng.integers(0, 3, len(prompt))
    shares = np.eye(systems)[rng.integers(0, systems, len(prompt))]
    shared = rng.random(len(prompt)) < 0.1
    shares[shared] = (shares[shared] + np.eye(systems)[rng.integers(0, systems, shared.sum())]) / 2
    return prompt, stratum, shares, rng.choice([1.0, 0.5, 0.25], len(prompt))


@pytest.mark.parametrize("seed", range(2))
def test_estimates_errors_and_degrees_are_those_of_dummies_and_whole_matrices(seed):
    prompt, stratum, shares, weights = drawn(seed, 8, 3)
    rng = np.random.default_rng(seed)
    more = [rng.random((len(prompt), 1))] * seed
    y = rng.normal(size=len(prompt))
    effects = Effects(prompt, stratum, shares, weights, more)
    contrast = effects.against_others([1])
    found = effects.estimate(pd.DataFrame(y), pd.DataFrame([contrast])).iloc[0]

    root = np.sqrt(weights)
    dummies = (stratum[:, None] == np.unique(stratum)).astype(float) * root[:, None]
    columns = np.hstack([shares, *more]) * root[:, None]
    design = np.hstack([columns, dummies])
    fitted = np.linalg.lstsq(design, y * root, rcond=None)[0]
    wanted = np.pad(contrast, (0, len(more)))
    value = wanted @ fitted[: len(wanted)]
    assert found["value"] == pytest.approx(value)

    x = columns - dummies @ np.linalg.pinv(dummies) @ columns
    rest = y * root - design @ fitted
    inverse = np.linalg.pinv(x.T @ x)
    hat = np.eye(len(y)) - x @ inverse @ x.T
    variance, gaps = 0.0, []
    for one in np.unique(prompt):
        mine = prompt == one
        values, vectors = np.linalg.eigh(hat[np.ix_(mine, mine)])
        half_power = (vectors * np.where(values > 1e-9, values, np.inf) ** -0.5) @ vectors.T
        loads = half_power @ x[mine] @ inverse @ wanted
        variance += float(loads @ rest[mine]) ** 2
        gaps.append(hat[:, mine] @ loads)
    gram = np.array(gaps) @ np.array(gaps).T
    degrees = np.trace(gram) ** 2 / (gram**2).sum()
    half = stdtrit(degrees, 0.975) * np.sqrt(variance)
    assert (found["low"], found["high"]) == pytest.approx((value - half, value + half))
    assert found["p"] == pytest.approx(2 * stdtr(degrees, -abs(value) / np.sqrt(variance)))


def test_a_planted_effect_is_within_its_interval_as_often_as_that_promises():
    runs, planted, systems, prompts = 500, 0.2, 4, 20
    prompt, stratum, shares, weights = drawn(0, prompts, systems)
    rng = np.random.default_rng(1)
    # What a prompt has against a system, and prompts that are noisier than others, are within prompts.
    liked = 0.2 * np.einsum("ts,tsr->tr", shares, rng.normal(size=(prompts, systems, runs))[prompt])
    noise = np.exp(rng.normal(size=prompts) / 2)[prompt, None] * rng.normal(size=(len(prompt), runs)) / 2
    levels = rng.normal(size=(stratum.max() + 1, runs))[stratum]
    effects = Effects(prompt, stratum, shares, weights)
    contrasts = pd.DataFrame([effects.against_others([i]) for i in range(systems)])
    found = effects.estimate(pd.DataFrame(levels + liked + noise + planted * shares[:, [0]]), contrasts)
    truth = np.tile(planted * contrasts[0], runs)
    assert found["value"][::systems].mean() == pytest.approx(planted, abs=0.02)
    assert found["low"].le(truth).mul(found["high"].ge(truth)).mean() == pytest.approx(0.95, abs=0.02)


def test_only_linked_systems_are_compared_and_only_what_texts_tell_is_estimated():
    prompt = [0, 0, 1, 1, 2, 2, 3, 3, 4]
    shares = np.eye(5)[[0, 1, 0, 1, 2, 3, 2, 3, 4]]
    effects = Effects(prompt, prompt, shares)
    assert effects.groups.tolist() == [0, 0, 1, 1, 2]
    assert effects.counted.tolist() == [True] * 8 + [False]
    assert effects.against_others([0, 2]).tolist() == [0.5, -0.5, 0.5, -0.5, 0]
    assert not effects.against_others([4]).any()
    contrasts = pd.DataFrame([effects.against_others([i]) for i in range(5)])
    scores = pd.DataFrame([1.0, 0, 3, 1, 0, 0, 2, 1, 9])
    values = effects.estimate(scores, contrasts)["value"]
    assert values.tolist() == pytest.approx([1.5, -1.5, 0.5, -0.5, np.nan], nan_ok=True)
    better = np.array([1.0, 0] * 4 + [1])[:, None]  # system 0 wrote better texts only
    assert Effects(prompt, prompt, shares, regressors=[better]).estimate(scores, contrasts)["value"].isna().all()


# ---------------------------------------------------------------- sets and runs


def found_on(tmp_path, own=(), **liked):
    runs = [write_scores(tmp_path, name, values, seed) for seed, (name, values) in enumerate(liked.items())]
    [found] = report_familiarity(read_results(runs), own)
    return found


def own_of(found, model):
    """Return the rows of a model's own texts, by quantity."""
    own = found.tables[1].data
    return own[own["model"] == model].set_index("quantity")


@pytest.mark.parametrize(
    ("kind", "basis"), [("score", "equal judgements"), ("label", "equal judgements"), ("pairs", "pairs")]
)
def test_what_a_model_likes_is_found_in_sets_of_every_kind(nnd_home, tmp_path, kind, basis):
    write_set(nnd_home, kind)
    found = found_on(tmp_path, m={"A": 0.4}, n={})
    assert (found.facts["basis"], found.facts["texts"], found.facts["prompts"]) == (basis, 240, 40)
    effects = found.tables[0].data.set_index(["model", "system"]).sort_index()
    first = effects.loc["m", "A"]
    assert first["value"] == pytest.approx(0.4, abs=0.1)
    assert first["p_holm"] < 0.001
    assert effects.loc["m", "B"]["value"] == pytest.approx(-0.2, abs=0.1)
    assert (effects.loc["n"]["p_holm"] > 0.05).all()
    assert effects.loc["m"]["texts"].tolist() == [80, 80 + 40, 80]


def test_pass_rates_are_split_by_whose_text_is_the_better_one(nnd_home, tmp_path):
    write_set(nnd_home, "label")
    found = found_on(tmp_path, ["A"], m={"A": 0.9}, n={"A": 0.4})
    own = own_of(found, "m")
    assert own["value"]["familiarity"] == pytest.approx(0.9, abs=0.1)
    beyond = own["value"]["beyond the others"]
    assert beyond == pytest.approx(0.5, abs=0.15)
    assert own_of(found, "n")["value"]["beyond the others"] == pytest.approx(-beyond)
    parts = own.dropna(subset="tests").drop(index="pass rate")
    better, worse, rest = parts["value"]
    assert better > rest > worse
    assert parts["tests"].sum() == 360
    assert (parts["tests"] * parts["value"]).sum() == pytest.approx(360 * own["value"]["pass rate"])


def test_systems_of_two_groups_are_not_compared(nnd_home, tmp_path):
    write_set(nnd_home, "label")
    table = read_table(nnd_home / "nnd" / "made_up").to_pandas()
    early = table["cluster_id"] < f"{20:04x}"
    for side in ("high_system", "low_system"):
        table.loc[early, side] = table[side].str.lower()
    write(nnd_home / "nnd" / "made_up", {"default": to_table(table.to_dict("records"))})
    found = found_on(tmp_path, m={"A": 0.5})
    assert "Groups: " in found.notes[0]
    assert found.tables[0].data.set_index("system")["value"]["A"] == pytest.approx(0.5, abs=0.2)


# ---------------------------------------------------------------- the command line


def test_the_command_prints_and_writes_the_tables(nnd, nnd_home, tmp_path):
    write_set(nnd_home, "score")
    runs = [write_scores(tmp_path, "m", {"A": 0.5}, 0), write_scores(tmp_path, "n", {}, 1)]
    done = nnd("familiarity", *runs, "--own", "m=A,B", "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert "Compared within equal judgements: 240 texts of 40 prompts." in done.out
    assert "m likes texts by A more: +0." in done.out
    assert "n likes" not in done.out
    assert "| m | A | 80 | 40 | +0." in done.out
    assert "| m | A, B | familiarity |" in done.out
    assert "| n | A, B |" not in done.out
    assert (tmp_path / "out" / "familiarity_nnd_made_up_own.csv").is_file()


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("score", ("--own", "A2"), "there is no 'A2', there are 'A', 'B', 'C'"),
        ("score", ("--own", "k=A"), "there is no 'k', there are 'm'"),
        ("nobody", (), "does not say who wrote its texts"),
        ("other data", (), "is not built here from the data of the runs (run: nnd build made_up)"),
    ],
)
def test_what_cannot_be_answered_is_one_line(nnd, nnd_home, tmp_path, kind, arguments, message):
    write_set(nnd_home, kind if kind == "nobody" else "score")
    other = {"data": "0123456789abcdef"} if kind == "other data" else {}
    assert message in refused(nnd("familiarity", write_scores(tmp_path, "m", {}, **other), *arguments))
