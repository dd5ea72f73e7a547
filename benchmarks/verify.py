"""Does a score rank models, and the gaps between them, as people do? (Laban et al., EMNLP 2022, sections 2.3 and 4).

    python benchmarks/verify.py quiz_design quiz_design_groups.jsonl
    python benchmarks/verify.py summeval model_annotations.aligned.paired.jsonl --metrics rouge2,bleu

On Quiz Design the authors' published NND rates are compared with people's errors, on SummEval text metrics (one reference) with
the experts' mean ratings; beside them stands what the paper's Table 1 prints (``verify.yaml``). The files are those that
``nnd build`` downloads. tau: Kendall's tau-b over models. r: Pearson's r over the gaps of all pairs of models, each pair in both
orders; r_in_order: each pair once. In brackets: 95% percentile bootstrap over prompts (Deutsch et al., TACL 2021), with the same
draw for both sides; resamples in which a correlation is undefined are left out.

Known limits: outcomes per test were not published, so intervals on Quiz Design leave out the noise of the NND rates.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sacrebleu
import yaml
from numpy.typing import ArrayLike, NDArray
from rouge_score.rouge_scorer import RougeScorer

PAPER, PUBLISHED = (
    yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8")) for name in ("verify.yaml", "published_runs.yaml")
)
ERRORS = ["disfluent", "off_target", "wrong_context"]
ATTRIBUTES = ["consistency", "coherence", "fluency", "relevance"]
STATISTICS = ["tau", "r", "r_in_order"]
RESAMPLES = 10_000


def read_quiz_design(path: Path) -> pd.DataFrame:
    """Return a row per system and question: prompt, model, and of each of `ERRORS` whether the question lacks it."""
    groups = pd.read_json(path, lines=True).to_dict("records")
    return pd.DataFrame(
        {"prompt": f"{group['context']}\n{group['answer_span']}", "model": model}
        | {error: question["reason"] != error for error in ERRORS}
        for group in groups
        for question in group["questions"]
        for model in question["model_name"].split("|")  # a question that several systems wrote counts for each
    )


def read_summeval(path: Path) -> pd.DataFrame:
    """Return a row per summary: prompt (the article's id), model, text, source, first reference, mean expert ratings."""
    rows = pd.read_json(path, lines=True).rename(columns={"id": "prompt", "model_id": "model", "text": "source"})
    rows = rows.rename(columns={"decoded": "text"}).assign(reference=rows["references"].str[0])
    ratings = [pd.DataFrame(experts)[ATTRIBUTES].mean() for experts in rows["expert_annotations"]]
    return rows.join(pd.DataFrame(ratings))


def add_up(outputs: pd.DataFrame, models: list[str], columns: list[str]) -> NDArray[np.float64]:
    """Return sums of scores per prompt and the number of outputs, shape (prompts, models, columns + 1)."""
    sums = outputs[columns].astype(float).assign(outputs=1.0).groupby([outputs["prompt"], outputs["model"]]).sum()
    every = pd.MultiIndex.from_product([outputs["prompt"].unique(), models])
    return np.asarray(sums.reindex(every, fill_value=0.0)).reshape(-1, len(models), len(columns) + 1)


def mean_scores(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return means over outputs of sums as in `add_up`, shape (..., models, columns); nan for a model without outputs."""
    with np.errstate(invalid="ignore"):
        return np.asarray(sums[..., :-1] / sums[..., -1:])


def correlate(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Return `STATISTICS` of two scorings, shape (..., models): of the gaps of all pairs, nan where all models are tied.

    tau is the cosine of the signs of the gaps; r that of the gaps, as in both orders their mean is 0. A gap within rounding of
    the scores is a tie.
    """
    sides = []
    for scores in (x, y):
        values = np.asarray(scores, dtype=float)
        first, second = np.triu_indices(values.shape[-1], k=1)
        gaps = values[..., first] - values[..., second]
        gaps = np.where(np.abs(gaps) <= 1e-12 * np.abs(values).max(axis=-1, keepdims=True, initial=0), 0.0, gaps)
        sides.append(np.stack([np.sign(gaps), gaps, gaps - gaps.mean(axis=-1, keepdims=True)], axis=-2))
    a, b = sides
    with np.errstate(invalid="ignore"):  # nan for a vector of zeros
        cosine = (a * b).sum(axis=-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))
    return np.asarray(np.clip(cosine, -1.0, 1.0))


def verify(human: NDArray[np.float64], scores: NDArray[np.float64], categories: list[str]) -> pd.DataFrame:
    """Return value and interval of each category, and of the average over categories, and statistic.

    Args:
        human: as `add_up` returns it.
        scores: likewise, or means of shape (models, categories), which are not resampled.
        categories: of the human scores.
    """
    draws = np.random.default_rng(0).multinomial(len(human), np.full(len(human), 1 / len(human)), size=RESAMPLES)
    found = []
    for weights in (np.ones((1, len(human))), draws.astype(float)):
        x, y = (
            side if side.ndim == 2 else mean_scores(np.tensordot(weights, side, axes=1)) for side in (scores, human)
        )
        values = correlate(np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2))
        found.append(np.concatenate([values, values.mean(axis=-2, keepdims=True)], axis=-2).reshape(len(weights), -1))
    index = pd.MultiIndex.from_product([[*categories, "average"], STATISTICS], names=["category", "statistic"])
    low, high = (pd.DataFrame(found[1]).quantile(end).to_numpy() for end in (0.025, 0.975))
    return pd.DataFrame({"value": found[0][0], "low": low, "high": high}, index)


def score_text(metric: str, text: str, reference: str) -> float:
    """Score a text: ``bleu`` and ``chrf`` of sacrebleu, 0 to 100; ``rouge1``, ``rouge2``, ``rougel`` of rouge-score, 0 to 1."""
    if metric.startswith("rouge"):
        rouge_type = metric.replace("l", "L")
        return float(RougeScorer([rouge_type]).score(reference, text)[rouge_type].fmeasure)
    return float({"bleu": sacrebleu.sentence_bleu, "chrf": sacrebleu.sentence_chrf}[metric](text, [reference]).score)


def verify_set(name: str, path: Path, metrics: str = "") -> pd.DataFrame:
    """Return the agreement of every score with people's on a set, a row per score, category and statistic."""
    models = PAPER[name]["systems"]
    outputs = read_quiz_design(path) if name == "quiz_design" else read_summeval(path)
    outputs = outputs[outputs["model"].isin(models)]
    categories = ERRORS if name == "quiz_design" else ATTRIBUTES
    scores: dict[str, Any] = {}
    if name == "quiz_design":
        rates = {run["name"]: run["rates"] for run in PUBLISHED[name]["models"]}
        scores["nnd"] = pd.DataFrame(rates)[models].loc[ERRORS].to_numpy().T
    else:
        for metric in metrics.split(","):
            pairs = zip(outputs["text"], outputs["reference"], strict=True)
            scored = outputs.assign(score=[score_text(metric, *pair) for pair in pairs])
            scores[metric] = add_up(scored, models, ["score"])
    human = add_up(outputs, models, categories)
    tables = {scorer: verify(human, values, categories) for scorer, values in scores.items()}
    table = pd.concat(tables, names=["scorer"])
    paper = pd.DataFrame(PAPER[name]["paper"]).unstack()
    averages = [(scorer, statistic) if category == "average" else None for scorer, category, statistic in table.index]
    return table.assign(paper=[paper.get(key) if key else None for key in averages])


def main() -> None:
    """Print the agreement on one set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=PAPER)
    parser.add_argument("file", type=Path, help="the publisher's file")
    parser.add_argument("--metrics", default="bleu,chrf,rouge1,rouge2,rougel", help="for SummEval")
    options = parser.parse_args()
    print(verify_set(options.set, options.file, options.metrics).round(2).to_string(na_rep="-"))
    print(*PAPER[options.set]["notes"], sep="\n")


if __name__ == "__main__":
    main()
