"""Does a score rank models, and the gaps between them, as people do? (Laban et al., EMNLP 2022, sections 2.3 and 4).

NND is held against people on Quiz Design, text metrics on SummEval, beside the paper's Table 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.download import open_source, sha256_of
from nnd_tasks.show.report import Report, Table, make_table
from nnd_tasks.studies.reproduce import load_experiments, pick
from nnd_tasks.studies.text_metrics import FAITHFUL, Metric, load_metrics
from nnd_tasks.tables.read import naming_place, read_records
from nnd_tasks.text import counted

#: The paper prints two digits: a value that rounds to its value, or to a neighbouring one, agrees. Differences have two, too.
AGREES = 0.015


def verify_sets(name: str, source: str | Path | None, metrics: str) -> list[Report]:
    """Verify on one of `SETS`, or ``all``.

    Args:
        name: name of the set, or ``all``.
        source: the publisher's file, or a folder that holds ``quiz_design/`` and ``summeval/`` or the files; None downloads.
        metrics: text metrics for SummEval, as `load_metrics` reads them.

    Raises:
        NNDError: a set or metric is unknown, or a file is missing or not in the publisher's format.
    """
    reports = []
    for set_name in SETS if name == "all" else [name]:
        pick(set_name, SETS, "set to verify on")
        with open_source(find_recipe(set_name), source, progress=sys.stderr.isatty()) as files:
            [path] = files.files.values()
            scorers = load_metrics(metrics) if set_name == "summeval" else {}
            reports.append(verify_set(set_name, path, scorers))
    return reports


def verify_set(name: str, path: Path, metrics: Mapping[str, Metric]) -> Report:
    """Compare scores with people's on one set.

    On Quiz Design these are the authors' published NND rates of seven systems and what teachers said of their questions; on
    SummEval, text metrics with one reference and the experts' mean ratings of the paper's five systems.

    Args:
        name: of `SETS`.
        path: the publisher's file.
        metrics: name -> text metric, for SummEval.

    Raises:
        NNDError: the file is not in the publisher's format or has nothing of a system, or a metric cannot run.
    """
    read, categories = SETS[name]
    published = read_yaml(Path(__file__).with_name("verify.yaml"))[name]
    models = published["systems"]
    outputs = read(path, models)
    human = add_up(outputs, models, categories)
    if name == "quiz_design":
        rates = {run.name: run.rates for run in load_experiments()[name].models}
        scores = {"nnd": pd.DataFrame(rates)[models].loc[[*ERRORS]].to_numpy().T}
        heading = "{scorer} {category}"
    else:
        if FAITHFUL in metrics and not all(outputs["source"]):
            raise NNDError(f"metric {FAITHFUL} needs the articles, which this release of SummEval lacks")
        texts, sources, references = [*outputs["text"]], [*outputs["source"]], [[text] for text in outputs["reference"]]
        scored = outputs.assign(**{scorer: metric(texts, sources, references) for scorer, metric in metrics.items()})
        scores = {scorer: add_up(scored, models, [scorer]) for scorer in metrics}
        heading = "{scorer}"
    index = pd.MultiIndex.from_product([models, categories], names=["model", "category"])
    means = mean_scores(human)
    pairs, agreements = {}, {}
    for scorer, scorer_sums in scores.items():
        scorer_means = np.broadcast_to(mean_scores(scorer_sums), means.shape)
        pairs[scorer] = pd.DataFrame({"score": scorer_means.ravel(), "human": means.ravel()}, index)
        agreements[scorer] = verify_scores(models, categories, scorer_sums, human)
    agreement = pd.concat(agreements, names=["scorer"]).reset_index("scorer")
    printed = pd.DataFrame(published["paper"]).unstack().rename("paper")
    agreement = agreement.join(printed, on=["scorer", "statistic"])
    agreement["paper"] = agreement["paper"].where(agreement["category"] == AVERAGE)
    tables = [
        Table(
            "scores",
            pd.concat(pairs, names=["scorer"]).reset_index(),
            {"model": "{model}", "human {category}": "{human:.3f}", heading: "{score:.3f}"},
            f"Human score: {published['human']}; {len(human):,} {published['prompts']}, {counted(len(models), 'model')}.",
        ),
        make_table("agreement", agreement, models=", ".join(models), column=published["column"]),
    ]
    return Report(
        f"verify_{name}",
        f"{name}: do scores rank models, and the gaps between them, as people do?",
        _compare_with_paper(agreement.dropna(subset="paper")),
        tables,
        published["notes"],
        facts={"source_sha256": sha256_of(path), "prompts": len(human), "resamples": RESAMPLES},
    )


def _compare_with_paper(agreement: pd.DataFrame) -> list[str]:
    agreement = agreement.assign(difference=(agreement["value"] - agreement["paper"]).round(2))
    differing = agreement[agreement["difference"].abs() >= AGREES]
    differences = [f"{row.scorer} {row.statistic} ({row.difference:+.2f})" for row in differing.itertuples()]
    agreeing = len(agreement) - len(differing)
    agree = f"{agreeing} of {counted(len(agreement), 'cell')} of the paper's Table 1 agree to within 0.01."
    return [agree, *([f"Different: {', '.join(differences)}."] if differences else [])]


# ---------------------------------------------------------------- what people said of each system's outputs

ERRORS = ("disfluent", "off_target", "wrong_context")
ATTRIBUTES = ("consistency", "coherence", "fluency", "relevance")


def read_quiz_design(path: Path, systems: Collection[str]) -> pd.DataFrame:
    """Return a row per system and question: prompt, model, and of each of `ERRORS` whether the question lacks it.

    A question that several systems wrote counts for each of them.

    Args:
        path: the publisher's file.
        systems: names of the systems.

    Raises:
        NNDError: the file is not in the publisher's format, or has no question of a system.
    """
    with naming_place(path):
        rows = [
            {
                "prompt": f"{group['context']}\n{group['answer_span']}",
                "model": model,
                **{error: question["reason"] != error for error in ERRORS},
            }
            for group in read_records(path)
            for question in group["questions"]
            for model in question["model_name"].split("|")
        ]
    return _select(pd.DataFrame(rows), systems, path)


def read_summeval(path: Path, systems: Collection[str]) -> pd.DataFrame:
    """Return a row per summary: prompt (the article's id), model, text, its source and first reference, mean expert ratings.

    Args:
        path: the publisher's file.
        systems: names of the systems.

    Returns:
        Ratings of `ATTRIBUTES`, 1 to 5; the source is "" where the file has none; the reference is CNN/DailyMail's own.

    Raises:
        NNDError: the file is not in the publisher's format, or has no summary of a system.
    """
    with naming_place(path):
        rows = [
            {
                "prompt": record["id"],
                "model": record["model_id"],
                "text": record["decoded"],
                "source": record.get("text", ""),
                "reference": record["references"][0],
                **{name: fmean(expert[name] for expert in record["expert_annotations"]) for name in ATTRIBUTES},
            }
            for record in read_records(path)
        ]
    return _select(pd.DataFrame(rows), systems, path)


def _select(outputs: pd.DataFrame, systems: Collection[str], path: Path) -> pd.DataFrame:
    if lacking := [name for name in systems if name not in set(outputs["model"])]:
        raise NNDError(f"{path}: nothing of {', '.join(lacking)} is in it; is it the publisher's whole file?")
    return outputs[outputs["model"].isin(systems)]


#: Set -> what reads the publisher's file, and what people scored.
SETS: Mapping[str, tuple[Callable[[Path, Sequence[str]], pd.DataFrame], Sequence[str]]] = {
    "quiz_design": (read_quiz_design, ERRORS),
    "summeval": (read_summeval, ATTRIBUTES),
}


def add_up(outputs: pd.DataFrame, models: Sequence[str], columns: Sequence[str]) -> NDArray[np.float64]:
    """Return sums of scores per prompt, so that prompts can be resampled without scoring again.

    Args:
        outputs: a row per output: prompt (what all models were given), model, and scores.
        models: names.
        columns: names of the scores.

    Returns:
        Shape (prompts, models, columns + 1), the last being the number of outputs; prompts in the order of their first output.
    """
    sums = outputs[[*columns]].astype(float).assign(outputs=1.0).groupby([outputs["prompt"], outputs["model"]]).sum()
    every = pd.MultiIndex.from_product([outputs["prompt"].unique(), models])
    return np.asarray(sums.reindex(every, fill_value=0.0)).reshape(-1, len(models), len(columns) + 1)


# ---------------------------------------------------------------- rank and gap correlation, with intervals

Array = NDArray[np.float64]
#: What `correlate` returns: Kendall's tau-b over models, and Pearson's r over gaps, of each pair in both orders and in one.
STATISTICS = ("tau", "r", "r_in_order")
#: Name of the row that averages the categories.
AVERAGE = "average"
RESAMPLES = 10_000
#: Ends of an interval of 95%.
ENDS = (0.025, 0.975)
#: Every correlation of two models is 1 or -1.
MIN_MODELS = 3
#: Relative: means that are equal on paper may differ in their last bits.
_ROUNDING = 1e-12


def gaps(scores: ArrayLike) -> Array:
    """The difference of every pair of models, first less second, the pairs in the order of the models.

    Args:
        scores: shape (..., models).

    Returns:
        Shape (..., models * (models - 1) / 2). A difference within rounding of the scores is exactly 0, a tie.
    """
    values = np.asarray(scores, dtype=np.float64)
    first, second = np.triu_indices(values.shape[-1], k=1)
    differences = values[..., first] - values[..., second]
    scale = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    return np.where(np.abs(differences) <= _ROUNDING * scale, 0.0, differences)


def correlate(x: ArrayLike, y: ArrayLike) -> Array:
    """The `STATISTICS` of two scorings of the same models, all of them functions of the gaps.

    - tau, Kendall's tau-b, which accounts for ties (Kendall, 1945), is the cosine of the signs of the gaps: concordant less
      discordant pairs, over the geometric mean of the numbers of pairs that are not tied in ``x`` and in ``y``.
    - r takes each pair of models in both orders. The gaps then have mean 0, so r is their cosine. It also equals Pearson's r
      between the scores themselves, since a sum of squared gaps is a multiple of the variance.
    - r_in_order, the paper's definition, takes each pair once, the earlier model less the later one.

    Args:
        x: scores, shape (..., models).
        y: scores of the same models, in the same order.

    Returns:
        Shape (..., 3); nan where one of them has all models tied.
    """
    a, b = (
        np.stack([np.sign(side), side, side - side.mean(axis=-1, keepdims=True)], axis=-2)
        for side in (gaps(x), gaps(y))
    )
    with np.errstate(invalid="ignore"):  # nan for a vector of zeros
        cosine = (a * b).sum(axis=-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))
    return np.asarray(np.clip(cosine, -1.0, 1.0))


def verify_rates(rates: Mapping[str, Mapping[str, float]], human: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Compare rates, such as NND pass rates that you measured, with human scores.

    Args:
        rates: model -> category -> rate. The order of models is that of r_in_order.
        human: model -> category -> human score, higher is better: 1 less the share of the model's outputs with that error.
            It may hold other models and categories too.

    Returns:
        As `verify_scores`, without intervals.

    Raises:
        NNDError: there are fewer than three models, or a model has no rate or human score for a category.
    """
    x = pd.DataFrame(rates, dtype=float).T
    y = pd.DataFrame(human, dtype=float).T.reindex_like(x)
    lacking = (x + y).isna().stack()
    if lacking.any():
        model, category = lacking.idxmax()
        raise NNDError(f"model {model!r} has no rate or no human score for category {category!r}")
    return verify_scores([*x.index], [*x.columns], x.to_numpy(), y.to_numpy())


def verify_scores(models: Sequence[str], categories: Sequence[str], scores: Array, human: Array) -> pd.DataFrame:
    """Compare a scoring with people's, with percentile bootstrap intervals over prompts (Deutsch et al., TACL 2021).

    Scores that are given per prompt are resampled, with the same draw for both sides; means are not. Resamples in which a
    correlation is undefined are left out.

    Args:
        models: names.
        categories: names, of the human scores.
        scores: means, shape (models, categories) or (models, 1), or per prompt, as `add_up` returns them.
        human: people's scores in the same form.

    Returns:
        A row per category, then `AVERAGE`, and statistic: value, and, where scores are per prompt, the ends of its interval,
        low and high; nan where it is undefined.

    Raises:
        NNDError: there are fewer than three models.
    """
    if len(models) < MIN_MODELS:
        raise NNDError(
            f"{counted(len(models), 'model')} ({', '.join(models)}): a correlation over models needs at least {MIN_MODELS}, "
            "of two it is 1 or -1"
        )
    index = pd.MultiIndex.from_product([[*categories, AVERAGE], STATISTICS], names=["category", "statistic"])
    table = pd.DataFrame({"value": _correlate(mean_scores(scores), mean_scores(human)).ravel()}, index)
    if prompts := {len(side) for side in (scores, human) if side.ndim == 3}:
        [n] = prompts
        rng = np.random.default_rng(0)
        weights = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
        drawn = _correlate(mean_scores(scores, weights), mean_scores(human, weights))
        resampled = pd.DataFrame(drawn.reshape(-1, len(table)), columns=index)
        table["low"], table["high"] = (resampled.quantile(end) for end in ENDS)
    return table.reset_index()


def mean_scores(scores: Array, weights: Array | None = None) -> Array:
    """Return the mean score of each model over its outputs.

    Args:
        scores: means, which are returned as they are, or per prompt, as `add_up` returns them.
        weights: how often each prompt counts, shape (resamples, prompts); None counts each once.

    Returns:
        Shape (models, categories), or (resamples, models, categories); nan for a model without outputs.
    """
    if scores.ndim == 2:
        return scores
    sums = np.tensordot(np.ones(len(scores)) if weights is None else weights, scores, axes=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums[..., :-1] / sums[..., -1:])


def _correlate(x: Array, y: Array) -> Array:
    """Return statistics, shape (..., categories + 1, 3), the last category being the mean over categories.

    Args:
        x: scores, shape (..., models, categories) or (..., models, 1).
        y: scores of the same models, shape (..., models, categories).
    """
    values = correlate(np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2))
    return np.concatenate([values, values.mean(axis=-2, keepdims=True)], axis=-2)
