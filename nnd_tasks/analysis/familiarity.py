"""Whose texts a model likes, among texts that people judged alike, and what that does to its pass rate.

Samples do not say who wrote a text: it is read, as is how people judged it, from the set that is built here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from nnd_tasks.analysis.compare import holm
from nnd_tasks.analysis.effects import Effects, Floats
from nnd_tasks.analysis.marks import FEW_PROMPTS
from nnd_tasks.analysis.power import LEVEL
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.set_tables import table_of
from nnd_tasks.analysis.side_by_side import Paired, pair
from nnd_tasks.baselines import writers_of
from nnd_tasks.errors import NNDError, noting
from nnd_tasks.harness.metrics import passes
from nnd_tasks.show.report import Cell, Report, Table, interval
from nnd_tasks.statistics import FEW, confidence_interval, pooled_rate
from nnd_tasks.wording import counted, did_you_mean, some_of

#: What texts are compared within: those of one prompt that people judged alike, or the better and the worse text of a test.
EQUAL, PAIRS = "equal judgements", "pairs"
#: Samples of prompts for the intervals of adjusted rates; they are always the same.
SAMPLES = 1000

_EFFECTS: Mapping[str, Cell] = {
    "model": "{model}",
    "system": "{system}",
    "texts": "{texts:,}",
    "prompts": "{prompts:,}{few:†}",
    "nats per token": "{value:+.3f}",
    "95% interval": lambda row: interval(row["low"], row["high"]),
    "p (Holm)": "{p_holm:p}",
}
_READING = (
    "Nats per token: mean log-likelihood per token of a system's texts less that of the other systems' texts, where people "
    "judged both alike. Intervals are clustered by prompt; p is corrected over all rows (Holm). This is what a model likes, not "
    "why: style, length and what the judgement does not see count too."
)
_OWN = {
    "model": "{model}",
    "own texts": "{systems}",
    "of own texts": "{quantity}",
    "tests": "{tests:,.0f}",
    "prompts": "{prompts:,.0f}{few:†}",
    "value": "{value:.3f}",
    "95% interval": "{low:.3f} to {high:.3f}",
}
_READING_OWN = (
    "Familiarity: nats per token, as above; beyond the others: what the model likes its own texts more than the other models of "
    "the table do. Pass rates by whose text is the better one; without: with the familiarity taken off the scores of own texts; "
    "gained: the rate less that."
)


@dataclass(frozen=True, eq=False)
class JudgedTexts:
    """What familiarity is estimated from.

    Attributes:
        paired: the runs, and their tests.
        systems: names of those who wrote the texts, sorted.
        prompts: number of the prompt of each test, shape (tests,).
        better: how much of the better text of each test is each system's, shape (tests, systems).
        worse: the same of the worse text.
        basis: `EQUAL`, or `PAIRS` where people only said which of two texts is better.
        effects: the least squares.
        rows: the texts that count, one row for each judgement: ``text``, ``prompt`` (numbers).
        shares: of the systems in them, shape (rows, systems).
        scores: their mean log-likelihood per token, in nats, shape (rows, models).
    """

    paired: Paired
    systems: list[str]
    prompts: NDArray[np.int64]
    better: Floats
    worse: Floats
    basis: str
    effects: Effects
    rows: pd.DataFrame
    shares: Floats
    scores: Floats


def report_familiarity(runs: Sequence[Run], own: Sequence[str] = (), allow: Sequence[str] = ()) -> list[Report]:
    """Return how much each model likes each system's texts, on every set whose systems are known.

    Args:
        runs: of any sets; sets without systems are passed over.
        own: ``SYSTEM,...`` (of every model) or ``MODEL=SYSTEM,...``: which systems a model, or its family, is.
        allow: parts of the protocol that may differ between the models of a table.

    Raises:
        NNDError: no set can be used (`judge_texts`), or ``own`` names no model or system.
    """
    found: list[JudgedTexts] = []
    passed_over: list[str] = []
    for paired in pair(runs, allow):
        with noting(passed_over):
            found.append(judge_texts(paired))
    passed_over = list(dict.fromkeys(passed_over))
    if not found:
        raise NNDError(f"no set with systems; {'; '.join(passed_over)}")
    models = list(dict.fromkeys(model for texts in found for model in texts.paired.models))
    chosen = _own_systems(own, models, sorted({name for texts in found for name in texts.systems}))
    return [_report(texts, chosen, [f"Passed over: {line}" for line in passed_over]) for texts in found]


def _own_systems(own: Sequence[str], models: Sequence[str], systems: Sequence[str]) -> dict[str, list[str]]:
    """Return model -> the systems that it, or its family, is."""
    chosen: dict[str, list[str]] = {}
    for word in own:
        model, _, names = word.rpartition("=")
        mine, parts = [model] if model else models, [part.strip() for part in names.split(",")]
        for what, wanted, known in (("run is of", mine, models), ("text is by", parts, systems)):
            for name in wanted:
                if name not in known:
                    meant = did_you_mean(name, known, end=" ")
                    raise NNDError(f"--own {word}: no {what} {name!r}; {meant}there are {some_of(known, 30)}")
        chosen |= dict.fromkeys(mine, parts)
    return chosen


def _report(texts: JudgedTexts, own: Mapping[str, Sequence[str]], notes: list[str]) -> Report:
    paired, effects = texts.paired, measure_effects(texts)
    parts = {}
    for column, model in enumerate(paired.models):
        if systems := [name for name in own.get(model, ()) if name in texts.systems]:
            parts[model, ", ".join(systems)] = measure_own(texts, column, systems)
    tables = [Table("effects", effects, _EFFECTS, _READING)]
    if parts:
        of_own = pd.concat(parts, names=["model", "systems"]).reset_index(["model", "systems"])
        tables.append(Table("own", of_own.assign(few=of_own["prompts"] < FEW), _OWN, _READING_OWN))
    groups = pd.Series(texts.systems).groupby(texts.effects.groups).agg(", ".join)
    if len(groups) > 1:
        linked = f"Systems that no prompt links are not compared with each other. Groups: {some_of(groups, 30, str)}."
        notes = [linked, *notes]
    counts = texts.rows.nunique()
    return Report(
        name=f"familiarity_{paired.title}",
        title=f"{paired.title}: familiarity",
        findings=[
            f"Compared within {texts.basis}: {counted(counts['text'], 'text')} of {counted(counts['prompt'], 'prompt')}.",
            *(
                f"{one.model} likes texts by {one.system} {'more' if one.value > 0 else 'less'}: {one.value:+.3f} nats per token."
                for one in effects[effects["p_holm"] < LEVEL].itertuples()
            ),
        ],
        tables=tables,
        notes=notes,
        legend=FEW_PROMPTS,
        brief=tables[1] if parts else None,
        facts={
            "set": paired.set,
            "task": paired.title,
            "basis": texts.basis,
            "texts": counts["text"],
            "prompts": counts["prompt"],
            "signatures": {run.model: run.line for run in paired.runs},
        },
    )


def measure_effects(texts: JudgedTexts) -> pd.DataFrame:
    """Return how much each model likes each system's texts, what it likes most first; p is corrected over all of them (Holm)."""
    contrasts = np.stack([texts.effects.against_others([i]) for i in range(len(texts.systems))])
    estimates = texts.effects.estimate(texts.scores, contrasts)
    low, high = estimates.interval()
    numbers = {"value": estimates.values, "low": low, "high": high, "p": estimates.p_values()}
    names = pd.MultiIndex.from_product([texts.paired.models, texts.systems], names=["model", "system"])
    effects = pd.DataFrame({name: part.T.ravel() for name, part in numbers.items()}, names).reset_index()
    sizes = pd.DataFrame([texts.rows[share > 0].nunique() for share in texts.shares.T], texts.systems)
    effects = effects.join(sizes.rename(columns={"text": "texts", "prompt": "prompts"}), on="system")
    known = effects["p"].notna()
    effects.loc[known, "p_holm"] = holm(effects.loc[known, "p"].tolist())
    effects["few"] = effects["prompts"] < FEW
    by_model = effects.groupby("model", sort=False)
    return pd.concat([part.sort_values("value", ascending=False, kind="stable") for _, part in by_model])


def measure_own(texts: JudgedTexts, column: int, systems: Sequence[str]) -> pd.DataFrame:
    """Return what the texts of some systems do to the pass rate of one run.

    The intervals of the rate without familiarity, and of what is gained by it, are those of samples of prompts, in each of which
    familiarity is estimated anew. Student's t, and a factor for samples that have as many prompts as the data, keep them wide
    enough for few prompts.

    Args:
        texts: of the set.
        column: of the run.
        systems: names of those that are the model's; at least one, all in the set.

    Returns:
        ``quantity``, ``value``, and ``low`` and ``high``, the ends of its 95% interval; of parts of the tests also the numbers of
        ``tests`` and ``prompts``.
    """
    places = [texts.systems.index(name) for name in systems]
    contrast = texts.effects.against_others(places)
    scores, others = texts.scores[:, column], np.delete(texts.scores, column, axis=1)
    given = [scores, *([scores - others.mean(axis=1)] if others.size else [])]
    estimates = texts.effects.estimate(np.stack(given, axis=1), contrast[None])
    ends = np.concatenate([estimates.values, *estimates.interval()]).T
    rows: list[tuple[Any, ...]] = [
        (name, *found) for name, found in zip(("familiarity", "beyond the others"), ends, strict=False)
    ]

    passed, prompts = texts.paired.passed[:, column], texts.prompts
    better, worse = (part[:, places].sum(axis=1) for part in (texts.better, texts.worse))
    for which, chosen in {
        "own text is better": (better > 0) & (worse == 0),
        "own text is worse": (worse > 0) & (better == 0),
        "neither or both": (better > 0) == (worse > 0),
    }.items():
        tests, won = (np.bincount(prompts, weights=some) for some in (chosen, chosen & passed))
        sizes = int(tests.sum()), np.count_nonzero(tests)
        rows.append((f"pass rate, {which}", pooled_rate(won, tests), *confidence_interval(won, tests), *sizes))
    rows.append(("pass rate", passed.mean()))

    tests = texts.paired.runs[column].tests.set_index("test_id").loc[texts.paired.tests["test_id"]]
    margins = tests["margin"].to_numpy(dtype=np.float64)

    def split(familiarity: float, weights: Floats | None = None) -> Floats:
        """Return the pass rate with the familiarity taken off the scores of own texts, and what the rate has beyond that."""
        outcomes = np.stack([passes(margins - familiarity * (better - worse)), passed])
        without, rate = np.average(outcomes, axis=1, weights=weights)
        return np.array([without, rate - without])

    if not math.isnan(ends[0, 0]):
        size = int(prompts.max()) + 1
        counts = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), SAMPLES).astype(np.float64)
        resampled = texts.effects.resampled(scores, contrast, counts[:, np.unique(texts.rows["prompt"])])
        drawn = [split(one, count[prompts]) for one, count in zip(resampled, counts, strict=True)]
        half = stdtrit(size - 1, 0.975) * np.std(drawn, axis=0) * math.sqrt(size / max(size - 1, 1))
        without, gained = (split(ends[0, 0]) + np.outer([0, -1, 1], half)).T
        rows += [("pass rate without", *without.clip(0, 1)), ("gained", *gained)]
    columns = "quantity", "value", "low", "high", "tests", "prompts"
    return pd.DataFrame([dict(zip(columns, row, strict=False)) for row in rows])


# ---------------------------------------------------------------- texts, who wrote them, and how people judged them


def judge_texts(paired: Paired) -> JudgedTexts:
    """Return the texts of a set; its tests are those that all models scored.

    Raises:
        NNDError: the set is not built here, does not say who wrote its texts, or lacks a test of the runs; no test was scored,
            or no two texts of different systems can be compared.
    """
    protocol = paired.runs[0].protocol
    built = table_of(protocol)
    if built is None:
        build = f"nnd build {str(protocol.get('set', 'SET')).removeprefix('nnd/')}"
        raise NNDError(f"{paired.set}: is not built here from the data of the runs (run: {build})")
    if not any(high or low for high, low in writers_of(built)):
        raise NNDError(f"{paired.set}: does not say who wrote its texts")
    if paired.tests.empty:
        raise NNDError(f"{paired.set}: no test was scored")
    table = built.to_pandas().set_index("test_id")
    unknown = set(paired.tests["test_id"]) - set(table.index)
    if unknown:
        raise NNDError(f"{paired.runs[0].path}: {paired.set} has no test {min(unknown)}; the file is damaged")
    sides = _sides(paired, table.loc[paired.tests["test_id"]])
    # A text that several systems wrote alike belongs to each of them by an equal part.
    wrote = sides.fillna({"system": ""}).groupby("text")["system"].agg("|".join).str.get_dummies()
    of_text = wrote.div(wrote.sum(axis=1).clip(lower=1), axis=0).to_numpy(dtype=np.float64)
    models = list(range(len(paired.runs)))
    written = sides[of_text[sides["text"]].any(axis=1) & sides[models].notna().all(axis=1)]

    def link(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[Effects(rows["prompt"], rows["stratum"], of_text[rows["text"]]).counted]

    basis, rows = EQUAL, link(written.drop_duplicates(["text", "stratum"]))
    if written["judgement"].isna().any() or rows["prompt"].nunique() < FEW:
        basis, rows = PAIRS, link(written.assign(stratum=written["test"]))
    if rows.empty:
        raise NNDError(f"{paired.set}: no two texts of different systems can be compared")
    # A text that was judged in several respects counts once; of a pair, being the better one is a regressor.
    weights = 1 / rows.groupby("text")["text"].transform("size").to_numpy() if basis == EQUAL else None
    more = rows[["better"]].to_numpy(dtype=np.float64) if basis == PAIRS else None
    better, worse = np.split(of_text[sides["text"]], 2)
    shares = of_text[rows["text"]]
    return JudgedTexts(
        paired=paired,
        systems=list(wrote.columns),
        prompts=sides["prompt"].to_numpy()[: len(better)],
        better=better,
        worse=worse,
        basis=basis,
        effects=Effects(rows["prompt"], rows["stratum"], shares, weights, more),
        rows=rows[["text", "prompt"]],
        shares=shares,
        scores=rows[models].to_numpy(dtype=np.float64),
    )


def _sides(paired: Paired, table: pd.DataFrame) -> pd.DataFrame:
    """Return two rows per test, of all better texts and then of all worse ones, in the order of the tests.

    Columns are ``test``, ``text``, ``prompt`` and ``stratum`` (numbers), ``system``, ``better``, ``judgement`` (missing where the
    set does not say how the text was judged) and the number of each run, with the score that it gave.
    """
    asked = paired.tests
    logged = [run.tests.set_index("test_id").loc[asked["test_id"]].reset_index() for run in paired.runs]
    parts = []
    for side in ("high", "low"):
        about = table.set_axis(table.columns.str.removeprefix(f"{side}_"), axis="columns").reset_index(drop=True)
        part = about.reindex(columns=["context_id", "category", "system", "score", "label"]).assign(
            test=asked.index,
            document=logged[0]["document"],
            candidate=logged[0][side],
            prompt=pd.factorize(asked["cluster_id"], sort=True)[0],
            # A test says of the worse text only how severe its error is.
            severity=asked["severity"] if side == "low" else "",
            better=side == "high",
        )
        for i, (run, tests) in enumerate(zip(paired.runs, logged, strict=True)):
            places = zip(tests["document"], tests[side], strict=True)
            part[i] = [run.documents[document]["scores"][candidate]["mean"] for document, candidate in places]
        parts.append(part)
    sides = pd.concat(parts, ignore_index=True)
    scores = sides["score"].astype(float).map("{:.9g}".format, na_action="ignore").astype(object)
    sides["judgement"] = scores.fillna(sides["label"].replace("", None))
    alike = ["prompt", "context_id", "category", "severity", "judgement"]
    return sides.assign(
        text=sides.groupby(["document", "candidate"], sort=False).ngroup(),
        stratum=sides.groupby(alike, sort=False, dropna=False).ngroup(),
    )
