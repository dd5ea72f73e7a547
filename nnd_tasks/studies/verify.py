"""Does a score rank models, and the gaps between them, as people do? (Laban et al., EMNLP 2022, sections 2.3 and 4).

NND is held against people on Quiz Design, text metrics on SummEval, beside the paper's Table 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.download import open_source, sha256_of
from nnd_tasks.show.report import Report, Table
from nnd_tasks.studies.correlation import AVERAGE, RESAMPLES, mean_scores, verify_scores
from nnd_tasks.studies.experiments import load_experiments, pick
from nnd_tasks.studies.human_scores import ATTRIBUTES, ERRORS, add_up, read_quiz_design, read_summeval
from nnd_tasks.studies.text_metrics import FAITHFUL, Metric, load_metrics
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import read_yaml

#: Set -> what reads the publisher's file, and what people scored.
SETS: Mapping[str, tuple[Callable[[Path, Sequence[str]], pd.DataFrame], Sequence[str]]] = {
    "quiz_design": (read_quiz_design, ERRORS),
    "summeval": (read_summeval, ATTRIBUTES),
}
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
    for one in SETS if name == "all" else [name]:
        pick(one, SETS, "set to verify on")
        with open_source(find_recipe(one), source, progress=sys.stderr.isatty()) as files:
            [path] = files.files.values()
            scorers = load_metrics(metrics) if one == "summeval" else {}
            reports.append(verify_set(one, path, scorers))
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
    known = read_yaml(Path(__file__).with_name("verify.yaml"))[name]
    models = known["systems"]
    outputs = read(path, models)
    human = add_up(outputs, models, categories)
    if name == "quiz_design":
        rates = {run.name: run.rates for run in load_experiments()[name].models}
        scores = {"nnd": pd.DataFrame(rates)[models].loc[[*ERRORS]].to_numpy().T}
        heading = "{scorer} {category}"
    else:
        if FAITHFUL in metrics and not all(outputs["source"]):
            raise NNDError(f"metric {FAITHFUL} needs the articles, which this release of SummEval lacks")
        texts, sources, references = [*outputs["text"]], [*outputs["source"]], [[one] for one in outputs["reference"]]
        scored = outputs.assign(**{one: metric(texts, sources, references) for one, metric in metrics.items()})
        scores = {one: add_up(scored, models, [one]) for one in metrics}
        heading = "{scorer}"
    index = pd.MultiIndex.from_product([models, categories], names=["model", "category"])
    means = mean_scores(human)
    pairs, parts = {}, {}
    for scorer, one in scores.items():
        each = np.broadcast_to(mean_scores(one), means.shape)
        pairs[scorer] = pd.DataFrame({"score": each.ravel(), "human": means.ravel()}, index)
        parts[scorer] = verify_scores(models, categories, one, human)
    agreement = pd.concat(parts, names=["scorer"]).reset_index("scorer")
    printed = pd.DataFrame(known["paper"]).unstack().rename("paper")
    agreement = agreement.join(printed, on=["scorer", "statistic"])
    agreement["paper"] = agreement["paper"].where(agreement["category"] == AVERAGE)
    tables = [
        Table(
            "scores",
            pd.concat(pairs, names=["scorer"]).reset_index(),
            {"model": "{model}", "human {category}": "{human:.3f}", heading: "{score:.3f}"},
            f"Human score: {known['human']}; {len(human):,} {known['prompts']}, {counted(len(models), 'model')}.",
        ),
        Table(
            "agreement",
            agreement,
            {
                "score": "{scorer}",
                "category": "{category}",
                "{statistic}": "{value:.2f} [{low:.2f}, {high:.2f}]",
                "paper's {statistic}": "{paper:.2f}",
            },
            "tau: Kendall's tau-b over models. r: Pearson's r over the gaps of all pairs of models, each pair in both orders; "
            f"r_in_order: each pair once, in the order {', '.join(models)}. In brackets: 95% percentile bootstrap over prompts. "
            "A resample breaks near ties, so a value may lie close to one end. The paper's: of its Table 1, "
            f"{known['column']}, averages alone.",
        ),
    ]
    return Report(
        f"verify_{name}",
        f"{name}: do scores rank models, and the gaps between them, as people do?",
        _compare_with_paper(agreement.dropna(subset="paper")),
        tables,
        known["notes"],
        facts={"source_sha256": sha256_of(path), "prompts": len(human), "resamples": RESAMPLES},
    )


def _compare_with_paper(found: pd.DataFrame) -> list[str]:
    found = found.assign(difference=(found["value"] - found["paper"]).round(2))
    apart = found[found["difference"].abs() >= AGREES]
    said = [f"{row.scorer} {row.statistic} ({row.difference:+.2f})" for row in apart.itertuples()]
    agree = f"{len(found) - len(apart)} of {counted(len(found), 'cell')} of the paper's Table 1 agree to within 0.01."
    return [agree, *([f"Apart: {', '.join(said)}."] if said else [])]
