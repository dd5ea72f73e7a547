"""The paper's verification, as far as public data reaches: NND on Quiz Design, text metrics on SummEval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from nnd_tasks.analysis.verify.human_scores import Array, Summaries, read_quiz_design, read_summeval
from nnd_tasks.analysis.verify.verification import RESAMPLES, Verification, published, verify_scores
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.sets.fetch import open_source, sha256_of
from nnd_tasks.sets.shelf import find_recipe
from nnd_tasks.wording import did_you_mean

if TYPE_CHECKING:
    from nnd_tasks.analysis.verify.text_metrics import Metric

#: Set -> its columns in the paper's Table 1.
SETS: Mapping[str, str] = {"quiz_design": "QGen", "summeval": "Summ"}
#: Scorer -> its row in the paper's Table 1. The paper does not say which BARTScore it took.
CELLS: Mapping[str, str] = {
    "nnd": "NND",
    "bleu": "BLEU",
    "rouge1": "R-1",
    "rouge2": "R-2",
    "rougel": "R-L",
    "meteor": "METEOR",
    "bertscore": "BERT",
    **{f"bartscore_{variant}": "BARTScore" for variant in ("p", "r", "f", "faithful")},
}
#: What is in the paper's Table 1 and cannot be computed from public data: (column, rows, why).
UNREACHABLE: Sequence[tuple[str, str, str]] = (
    ("QGen", "all text metrics", "Quiz Design has no reference questions"),
    ("GenQA", "NND", "NND rates of the 11B answerers that people judged were not published"),
    ("GenQA", "all text metrics", "the Challenge 300 file has no reference answers"),
    ("Summ", "NND", "NND rates of the five summarizers were not published"),
    (
        "Summ",
        "QuestEval",
        "it brings question generation and answering models of its own, which this package does not run",
    ),
)
_PLAIN = ("bleu", "chrf", "rouge1", "rouge2", "rougel", "meteor")
_BART = ("bartscore_p", "bartscore_r", "bartscore_f", "bartscore_faithful")


@dataclass(frozen=True)
class SetReport:
    """Everything verified on one set.

    Attributes:
        name: name of the set.
        human: what the human score is, in words.
        contexts: number of prompts whose candidates people judged, and what the prompts are.
        verifications: one per scorer.
        acceptance: model -> share of outputs that people accepted, where the set has such a judgement.
        not_run: metric -> why it was not run.
        sha256: of the publisher's file.
        resamples: of the bootstrap.
        seed: of its draws.
    """

    name: str
    human: str
    contexts: tuple[int, str]
    verifications: list[Verification]
    acceptance: dict[str, float] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    sha256: str = ""
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Metrics:
    """Which text metrics to verify.

    Attributes:
        names: names of metrics; None takes those that can run here, and says why others cannot.
        model: folder or name of an encoder-decoder, for BARTScore.
        encoder: folder or name of an encoder, for BERTScore.
    """

    names: Sequence[str] | None = None
    model: str | None = None
    encoder: str | None = None


def verify_sets(
    name: str = "all",
    source: str | Path | None = None,
    metrics: Metrics | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: bool = False,
) -> list[SetReport]:
    """Verify one of `SETS`, or ``all``.

    Args:
        name: name of the set, or ``all``.
        source: the publisher's file, or a folder that holds ``quiz_design/`` and ``summeval/`` or the files; None downloads.
        metrics: text metrics, for SummEval.
        resamples: of the bootstrap.
        seed: of its draws.
        progress: show progress of downloads.

    Raises:
        NNDError: a set or metric is unknown, or a file is missing or not in the publisher's format.
    """
    if name not in (*SETS, "all"):
        meant = did_you_mean(name, SETS, end=" ")
        raise NNDError(f"there is nothing to verify {name!r} with; {meant}expected {', '.join(SETS)} or all")
    metrics = metrics or Metrics()
    if name == "quiz_design" and metrics != Metrics():
        raise NNDError("--metrics, --model and --encoder: Quiz Design has no references; text metrics go with summeval")
    place = None if source is None else expand(source)
    if name == "all" and place is not None and place.is_file():
        raise NNDError(f"{place}: is the file of one set; name the set ({' or '.join(SETS)}), or give a folder")
    wanted = tuple(SETS) if name == "all" else (name,)
    text_metrics = TextMetrics.choose(metrics) if "summeval" in wanted else TextMetrics({}, {}, False)
    reports = []
    with ExitStack() as stack:
        try:  # find all before reading any
            sources = {
                one: stack.enter_context(open_source(find_recipe(one), place, progress=progress)) for one in wanted
            }
        except NNDError as error:
            raise NNDError(str(error).replace("nnd build", "nnd verify")) from error
        for one, found in sources.items():
            path = next(iter(found.files.values()))
            if one == "quiz_design":
                reports.append(verify_quiz_design(path, resamples=resamples, seed=seed))
            else:
                reports.append(verify_summeval(path, text_metrics, resamples=resamples, seed=seed))
    return reports


# ---------------------------------------------------------------- sets


def verify_quiz_design(path: Path, *, resamples: int = RESAMPLES, seed: int = 0) -> SetReport:
    """Compare the authors' published NND rates of the seven systems with what teachers said of their questions.

    Outcomes per test were not published, so the intervals leave out the noise in the rates.

    Args:
        path: the publisher's file.
        resamples: of the bootstrap.
        seed: of its draws.

    Raises:
        NNDError: the file is not in the publisher's format, or has no question of a system.
    """
    known = published()["quiz_design"]["models"]
    models = [model["name"] for model in known]
    human, acceptance = read_quiz_design(path, models)
    rates = np.array([[model["pass_rates"][category] for category in human.categories] for model in known])
    verification = verify_scores("nnd", models, human.categories, rates, human, resamples=resamples, seed=seed)
    return SetReport(
        name="quiz_design",
        human="1 - share of the system's questions with that error",
        contexts=(human.prompts, "prompts (paragraph and answer)"),
        verifications=[verification],
        acceptance=acceptance,
        sha256=sha256_of(path),
        resamples=resamples,
        seed=seed,
    )


def verify_summeval(path: Path, metrics: TextMetrics, *, resamples: int = RESAMPLES, seed: int = 0) -> SetReport:
    """Compare text metrics with one reference with the experts' mean ratings of the paper's five systems.

    Args:
        path: the publisher's file, all rows of which are read.
        metrics: metrics to score with.
        resamples: of the bootstrap.
        seed: of its draws.

    Raises:
        NNDError: the file is not in the publisher's format or has no summary of a system, or a metric that the user named
            cannot run.
    """
    summaries = read_summeval(path, published()["summeval"]["models"])
    scores, not_run = metrics.score(summaries)
    return SetReport(
        name="summeval",
        human="mean of the experts' ratings, 1 to 5",
        contexts=(summaries.human.prompts, "articles"),
        verifications=[
            verify_scores(
                metric,
                summaries.systems,
                summaries.human.categories,
                summaries.judge({metric: values}),
                summaries.human,
                resamples=resamples,
                seed=seed,
            )
            for metric, values in scores.items()
        ],
        not_run=not_run,
        sha256=sha256_of(path),
        resamples=resamples,
        seed=seed,
    )


# ---------------------------------------------------------------- text metrics


@dataclass(frozen=True)
class TextMetrics:
    """Text metrics that can be run, and why others cannot.

    Attributes:
        adapters: name -> adapter.
        not_run: name -> why the metric is left out.
        strict: the user named the metrics, so one that cannot run is an error.
    """

    adapters: Mapping[str, Metric]
    not_run: Mapping[str, str]
    strict: bool

    @classmethod
    def choose(cls, metrics: Metrics) -> TextMetrics:
        """Return the adapters of the chosen metrics.

        Raises:
            NNDError: a metric is unknown or scores a set of texts as a whole, or a model cannot be loaded.
        """
        from nnd_tasks.analysis.verify.text_metrics import find_metric

        not_run: dict[str, str] = {}
        names = list(dict.fromkeys(metrics.names or ()))
        if metrics.names is None:
            names = [*_PLAIN, *(["bertscore"] if metrics.encoder else []), *(_BART if metrics.model else [])]
            if not metrics.encoder:
                not_run["bertscore"] = "it needs an encoder: --encoder FOLDER"
            if not metrics.model:
                not_run["bartscore"] = "it needs an encoder-decoder: --model FOLDER"
        elif not names:
            raise NNDError("--metrics: names no metric")
        if "mauve" in names:
            raise NNDError("metric mauve scores a set of texts as a whole; verification needs a score per text")
        adapters = {name: cast("Metric", find_metric(name, metrics.model, metrics.encoder)) for name in names}
        return cls(adapters, not_run, metrics.names is not None)

    def score(self, summaries: Summaries) -> tuple[dict[str, Array], dict[str, str]]:
        """Return metric -> a score per summary, and metric -> why it could not run.

        Raises:
            NNDError: a metric that the user named cannot run.
        """
        scores: dict[str, Array] = {}
        not_run = dict(self.not_run)
        for name, adapter in self.adapters.items():
            try:
                if name == "bartscore_faithful" and not all(summaries.sources):
                    raise NNDError(f"metric {name} needs the articles, which this release of SummEval lacks")
                scores[name] = summaries.score(adapter)
            except NNDError as error:
                if self.strict:
                    raise
                not_run[name] = str(error)
        return scores, not_run
