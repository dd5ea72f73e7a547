"""Whose texts a model likes, among texts that people judged alike, and how it does on tests of its own texts.

Samples do not say who wrote a text: it is read, as is how people judged it, from the set that is built here.

How many nats per token more the texts of one system get than texts of the others that were judged alike is estimated by least
squares. The mean log-likelihood per token of a text c of the prompt p, which people gave the judgement j, is taken to be

    score(p, c) = level(p, j) + effect(system of c) + rest

The levels take out what the prompt and the judgement explain. Prompts are the sample: errors are those of Bell and McCaffrey
("CR2"), with their degrees of freedom, which hold with few prompts too (Pustejovsky and Tipton, 2018, sections 2 and 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import stdtr, stdtrit

from nnd_tasks.errors import NNDError, noting
from nnd_tasks.results.paired import Paired, pair
from nnd_tasks.results.runs import Run, check_writers
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.significance import LEVEL, holm
from nnd_tasks.statistics import FEW, FEW_PROMPTS, summarize_rate
from nnd_tasks.store import find_table
from nnd_tasks.text import counted, some_of

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
#: What texts are compared within: those of one prompt that people judged alike, or the better and the worse text of a test.
EQUAL, PAIRS = "equal judgements", "pairs"


class JudgedTexts(NamedTuple):
    """What familiarity is estimated from.

    Attributes:
        paired: the runs, and their tests.
        shares: how much of all better texts, and then of all worse ones, is each system's, shape (texts, systems).
        basis: `EQUAL`, or `PAIRS` where people only said which of two texts is better.
        rows: the texts that count, as `_find_sides` returns them, one row for each judgement of a text.
        scores: their mean log-likelihood per token, in nats, shape (rows, models).
        effects: the least squares on them.
    """

    paired: Paired
    shares: pd.DataFrame
    basis: str
    rows: pd.DataFrame
    scores: pd.DataFrame
    effects: Effects


def report_familiarity(runs: Sequence[Run], own: Sequence[str] = ()) -> list[Report]:
    """Return how much each model likes each system's texts, on every set whose systems are known.

    Args:
        runs: of any sets; sets without systems are passed over.
        own: ``SYSTEM,...`` (of every model) or ``MODEL=SYSTEM,...``: which systems a model, or its family, is.

    Raises:
        NNDError: no set can be used (`judge_texts`), or ``own`` names no model or system.
    """
    judged: list[JudgedTexts] = []
    passed_over: list[str] = []
    for paired in pair(runs):
        with noting(passed_over):
            judged.append(judge_texts(paired))
    passed_over = list(dict.fromkeys(passed_over))
    if not judged:
        raise NNDError(f"no set with systems; {'; '.join(passed_over)}")
    models = {model: None for texts in judged for model in texts.paired.models}
    chosen = _own_systems(own, [*models], sorted({name for texts in judged for name in texts.shares}))
    return [_report(texts, chosen, [f"Passed over: {line}" for line in passed_over]) for texts in judged]


def _own_systems(own: Sequence[str], models: Sequence[str], systems: Sequence[str]) -> dict[str, list[str]]:
    """Return model -> the systems that it, or its family, is."""
    chosen: dict[str, list[str]] = {}
    for word in own:
        model, _, names = word.rpartition("=")
        chosen_models, chosen_systems = [model] if model else models, names.split(",")
        for wanted, available in ((chosen_models, models), (chosen_systems, systems)):
            if unknown := [name for name in wanted if name not in available]:
                raise NNDError(f"--own {word}: there is no {unknown[0]!r}, there are {some_of(available, 50)}")
        chosen |= dict.fromkeys(chosen_models, chosen_systems)
    return chosen


def _report(texts: JudgedTexts, own: Mapping[str, Sequence[str]], notes: list[str]) -> Report:
    paired, effects = texts.paired, _measure_effects(texts)
    quantities = {}
    for model in paired.models:
        systems = [name for name in own.get(model, ()) if name in texts.shares]
        if systems:
            quantities[model, ", ".join(systems)] = _measure_own(texts, model, systems)
    tables = [make_table("effects", effects)]
    if quantities:
        of_own = pd.concat(quantities, names=["model", "systems"]).reset_index(["model", "systems"])
        tables.append(make_table("own_texts", of_own.assign(few=of_own["prompts"] < FEW)))
    groups = texts.shares.columns.to_series().groupby(texts.effects.groups).agg(", ".join)
    if len(groups) > 1:
        linked = f"Systems that no prompt links are not compared with each other. Groups: {some_of(groups, 30, str)}."
        notes = [linked, *notes]
    counts = texts.rows[["text", "cluster_id"]].nunique()
    return Report(
        name=f"familiarity_{paired.title}",
        title=f"{paired.title}: familiarity",
        findings=[
            f"Compared within {texts.basis}: {counted(counts['text'], 'text')} of {counted(counts['cluster_id'], 'prompt')}.",
            *(
                f"{effect.model} likes texts by {effect.system} {'more' if effect.value > 0 else 'less'}: "
                f"{effect.value:+.3f} nats per token."
                for effect in effects[effects["p_holm"] < LEVEL].itertuples()
            ),
        ],
        tables=tables,
        notes=notes,
        legend=FEW_PROMPTS,
        facts={
            "set": paired.set,
            "task": paired.title,
            "basis": texts.basis,
            "texts": counts["text"],
            "prompts": counts["cluster_id"],
            "signatures": {run.model: run.line for run in paired.runs},
        },
    )


def _measure_effects(texts: JudgedTexts) -> pd.DataFrame:
    """How much each model likes each system's texts, what it likes most first; p is corrected over all of them (Holm)."""
    shares = texts.shares.loc[texts.rows.index]
    contrasts = [texts.effects.against_others([i]) for i in range(shares.shape[1])]
    effects = texts.effects.estimate(texts.scores, pd.DataFrame(contrasts, shares.columns))
    effects = effects.rename_axis(["model", "system"]).reset_index()
    sizes = {system: texts.rows.loc[share > 0, ["text", "cluster_id"]].nunique() for system, share in shares.items()}
    effects = effects.join(pd.DataFrame(sizes).T.set_axis(["texts", "prompts"], axis="columns"), on="system")
    effects = effects.assign(p_holm=holm(effects["p"]), few=effects["prompts"] < FEW)
    return effects.sort_values(["model", "value"], ascending=[True, False])


def _measure_own(texts: JudgedTexts, model: str, systems: Sequence[str]) -> pd.DataFrame:
    """How much a model likes the texts of some systems, and its pass rates by whose text is the better one.

    Returns:
        ``quantity``, ``value``, and ``low`` and ``high``, the ends of its 95% interval; ``p`` of familiarity; of pass rates also
        ``standard_error``, and the numbers of ``tests`` and ``prompts``.
    """
    others = texts.scores.drop(columns=model)
    contrasted = pd.DataFrame({"familiarity": texts.scores[model]})
    if len(others.columns):
        contrasted["beyond the others"] = texts.scores[model] - others.mean(axis=1)
    contrast = texts.effects.against_others([texts.shares.columns.get_loc(name) for name in systems])
    likes = texts.effects.estimate(contrasted, pd.DataFrame([contrast])).droplevel(1)
    better, worse = np.split(texts.shares[[*systems]].any(axis=1).to_numpy(), 2)
    tests = texts.paired.tests.assign(passed=texts.paired.passed[:, texts.paired.models.index(model)])
    rates = {}
    for name, chosen in {
        "pass rate, own text is better": better & ~worse,
        "pass rate, own text is worse": worse & ~better,
        "pass rate, neither or both": better == worse,
        "pass rate": np.ones_like(better),
    }.items():
        won = tests[chosen].groupby("cluster_id")["passed"].agg(["sum", "size"])
        rate = summarize_rate(won["sum"], won["size"])
        rates[name] = {**rate._asdict(), "tests": won["size"].sum(), "prompts": len(won)}
    rates_of_own = pd.DataFrame(rates).T.rename(columns={"mean": "value"})
    return pd.concat([likes, rates_of_own]).rename_axis("quantity").reset_index()


# ---------------------------------------------------------------- texts, who wrote them, and how people judged them


def judge_texts(paired: Paired) -> JudgedTexts:
    """Return the texts of a set; its tests are those that all models scored.

    Raises:
        NNDError: the set is not built here or does not say who wrote its texts; no test was scored, or no two texts of different
            systems can be compared.
    """
    check_writers(paired.runs, "familiarity")
    protocol = paired.runs[0].protocol
    with suppress(NNDError):  # results may name a set that there is not
        provide_set(str(protocol.get("set", "")))
    built = find_table(*(str(protocol.get(key, "")) for key in ("set", "config", "data")))
    if built is None:
        build = f"nnd build {str(protocol.get('set', 'SET')).removeprefix('nnd/')}"
        raise NNDError(f"{paired.set}: is not built here from the data of the runs (run: {build})")
    sides, scores = _find_sides(paired.tests, built.to_pandas()), pd.DataFrame()
    for run in paired.runs:
        means = paired.tests_of[run.model][["high_mean", "low_mean"]]
        scores[run.model] = means.to_numpy().T.ravel()
    # A text that several systems wrote alike belongs to each of them by an equal part.
    wrote = sides["system"].str.get_dummies().groupby(sides["text"]).transform("max")
    if wrote.empty:
        raise NNDError(f"{paired.set}: does not say who wrote its texts, or no test was scored")
    shares = wrote.div(wrote.sum(axis=1).clip(lower=1), axis=0)
    written = sides[shares.any(axis=1) & scores.notna().all(axis=1)]

    def link(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[Effects(rows["cluster_id"], rows["stratum"], shares.loc[rows.index].to_numpy()).counted]

    basis, rows = EQUAL, link(written.drop_duplicates(["text", "stratum"]))
    if written["judgement"].isna().any() or rows["cluster_id"].nunique() < FEW:
        basis, rows = PAIRS, link(written.assign(stratum=written["test"]))
    if rows.empty:
        raise NNDError(f"{paired.set}: no two texts of different systems can be compared")
    # A text that was judged in several respects counts once; of a pair, being the better one is a regressor.
    weights = 1 / rows.groupby("text")["text"].transform("size") if basis == EQUAL else 1
    regressors = [rows[["better"]].to_numpy(dtype=np.float64)] if basis == PAIRS else []
    effects = Effects(rows["cluster_id"], rows["stratum"], shares.loc[rows.index].to_numpy(), weights, regressors)
    return JudgedTexts(paired, shares, basis, rows, scores.loc[rows.index], effects)


def _find_sides(tests: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return two rows per test, of all better texts and then of all worse ones, in the order of the tests.

    Columns are those of the tests, ``test``, ``text`` and ``stratum`` (numbers), ``system``, ``better`` and ``judgement``
    (missing where the set does not say how the text was judged).
    """
    annotations = table.set_index("test_id").loc[tests["test_id"]].reset_index(drop=True)
    parts = [
        tests.assign(
            **{name: annotations.get(f"{side}_{name}") for name in ("system", "score", "label")},
            context=annotations["context_id"],
            # A test says of the worse text only how severe its error is.
            severity=tests["severity"] if side == "low" else "",
            text=annotations[side],
            test=tests.index,
            better=side == "high",
        )
        for side in ("high", "low")
    ]
    sides = pd.concat(parts, ignore_index=True)
    scores = sides["score"].astype(float).map("{:.9g}".format, na_action="ignore").astype(object)
    sides["judgement"] = scores.fillna(sides["label"].replace("", None))
    alike = ["cluster_id", "context", "category", "severity", "judgement"]
    return sides.assign(
        system=sides["system"].astype(object).fillna(""),
        text=sides.groupby(["cluster_id", "text"]).ngroup(),
        stratum=sides.groupby(alike, dropna=False).ngroup(),
    )


# ---------------------------------------------------------------- least squares, clustered by prompt

#: Below this a number that rounding alone keeps from 0 is taken for 0.
_ZERO = 1e-9


class Effects:
    """Least squares of scores on the systems that wrote the texts, with a level of its own for each stratum.

    Args:
        prompts: of each text, shape (texts,); whatever can be compared for equality.
        strata: texts of one stratum have one prompt and one judgement, shape (texts,).
        shares: how much of a text is each system's, shape (texts, systems); rows sum to 1. A text that two systems wrote alike
            counts half for each.
        weights: of each text, shape (texts,), or one of all.
        regressors: others, each of shape (texts, 1), such as whether the text is the better one of its pair.

    Attributes:
        counted: whether a text counts, as its stratum has texts of other systems, shape (texts,).
        groups: number of the group of each system, shape (systems,). Only systems of one group can be compared: strata link
            them, by way of others where need be.
    """

    def __init__(
        self,
        prompts: ArrayLike,
        strata: ArrayLike,
        shares: Floats,
        weights: ArrayLike = 1.0,
        regressors: Sequence[Floats] = (),
    ) -> None:
        self._strata, self._prompts, self._systems = _adder(strata), _adder(prompts), shares.shape[1]
        self._root = np.sqrt(np.broadcast_to(weights, len(shares)))[:, None]
        self._x = self._within(np.hstack([shares, *regressors]))
        self._inverse = np.linalg.pinv(self._x.T @ self._x, rcond=1e-10, hermitian=True)
        here = np.abs(self._x[:, : self._systems]) > _ZERO
        self.counted = here.any(axis=1)
        linked = (self._strata @ here > 0).astype(float)
        _, self.groups = connected_components(linked.T @ linked, directed=False)

    def _within(self, values: Floats) -> Floats:
        """Return values, shape (texts, columns), less the weighted mean of their stratum, times the root of the weight."""
        mean = (self._strata @ (values * self._root**2)) / (self._strata @ self._root**2)
        result: Floats = (values - self._strata.T @ mean) * self._root
        return result

    def against_others(self, systems: list[int]) -> Floats:
        """Return the contrast of the mean of some systems with the mean of the others, shape (systems,).

        Others are those of the same group. Systems without others do not count; where none has any, it is 0 everywhere.
        """
        others = self.groups[:, None] == self.groups
        others[:, systems] = False
        compared = [system for system in systems if others[system].any()]
        rows = np.eye(self._systems)[compared] - others[compared] / others[compared].sum(axis=1, keepdims=True)
        contrast: Floats = rows.sum(axis=0) / max(len(compared), 1)
        return contrast

    def estimate(self, scores: pd.DataFrame, contrasts: pd.DataFrame) -> pd.DataFrame:
        """Estimate contrasts between systems.

        Args:
            scores: mean log-likelihood per token, shape (texts, columns), a column for each model.
            contrasts: shape (contrasts, systems); each row sums to 0.

        Returns:
            A row per column of the scores and contrast, in nats per token: ``value``, nan where the texts do not tell, or the
            contrast is 0 everywhere; ``low`` and ``high``, the ends of Student's 95% interval; ``p``, two-sided, of a value of 0.
        """
        y = self._within(scores.to_numpy())
        padded = np.pad(contrasts, [(0, 0), (0, self._x.shape[1] - self._systems)])
        fitted = self._inverse @ (self._x.T @ y)
        loads = (self._adjusted @ (self._inverse @ padded.T)).T
        residuals = y - self._x @ fitted
        errors = np.sqrt([((self._prompts @ (load[:, None] * residuals)) ** 2).sum(axis=0) for load in loads])
        estimable = np.abs(padded @ self._inverse @ (self._x.T @ self._x) - padded).max(axis=1, keepdims=True) < 1e-6
        estimable &= padded.any(axis=1, keepdims=True)
        value = np.where(estimable, padded @ fitted, np.nan)
        errors = np.where(estimable & (errors > _ZERO), errors, np.nan)
        degrees = np.array([[self._degrees(load)] for load in loads])
        half = stdtrit(degrees, 0.975) * errors
        p = 2 * stdtr(degrees, -np.abs(value / errors))
        numbers = {"value": value, "low": value - half, "high": value + half, "p": p}
        rows = pd.MultiIndex.from_product([scores.columns, contrasts.index])
        return pd.DataFrame({name: number.T.ravel() for name, number in numbers.items()}, rows)

    @cached_property
    def _adjusted(self) -> Floats:
        """The regressors of each prompt i times (1 - H_ii)^(-1/2), where H is the projection on them: CR2's adjustment."""
        adjusted = np.empty_like(self._x)
        for texts in np.split(self._prompts.indices, self._prompts.indptr[1:-1]):
            regressors = self._x[texts]
            values, vectors = np.linalg.eigh(np.eye(len(regressors)) - regressors @ self._inverse @ regressors.T)
            scale = np.where(values > 1e-8, np.maximum(values, 1e-8) ** -0.5, 0.0)
            adjusted[texts] = vectors @ (scale[:, None] * (vectors.T @ regressors))
        return adjusted

    def _degrees(self, loads: Floats) -> float:
        """Return the degrees of freedom of a contrast's variance, trace(G)² / sum of squares of G (Satterthwaite).

        ``loads`` is how much the rest of each text moves the contrast, shape (texts,).
        G = diag(|a_i|²) - B M B', with a_i the loads of prompt i, b_i = X_i' a_i the rows of B and M = (X'X)⁻¹.
        """
        squares, b = self._prompts @ loads**2, self._prompts @ (loads[:, None] * self._x)
        inner = ((b @ self._inverse) * b).sum(axis=1)
        product = self._inverse @ (b.T @ b)
        total = (squares**2).sum() - 2 * (squares * inner).sum() + np.trace(product @ product)
        trace = squares.sum() - inner.sum()
        return float(max(1.0, trace**2 / total)) if total > _ZERO**2 else 1.0


def _adder(names: ArrayLike) -> csr_array:
    """A matrix that adds up numbers of texts by name, names in ascending order, shape (names, texts)."""
    _, name_index = np.unique(np.asarray(names), return_inverse=True)
    return csr_array((np.ones(len(name_index)), (name_index, np.arange(len(name_index)))))
