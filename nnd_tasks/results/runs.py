"""Runs of NND tasks, and as tables for pandas. `nnd_tasks.results.read_runs` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.measures import MARGIN, MEASURES, TOKEN_STATS
from nnd_tasks.task.signature import write_value

SIDES = ("high", "low")
#: The reader of a plain task, and what stands in its place in a run of another task of lm-eval.
WRITER, METRIC = "writer", "metric"
#: What is known of the score of a candidate.
QUANTITIES = ("sum", "mean", "tokens", "bytes", *TOKEN_STATS)
#: Columns of the tests of a run. ``high`` and ``low`` are places in the document's candidates, ``document`` is a place in
#: `Run.documents`. Log-likelihoods are in nats: ``high_sum``, and ``high_mean`` and ``high_no_context`` per token. Margins are
#: (better - worse): per token, summed, per UTF-8 byte, per token without the context; nan where a text has no finite score.
#: Then the other measures of `nnd_tasks.measures`, and what they rest on; those of `TOKEN_STATS` are nan without ``token_stats``.
COLUMNS = (
    *("test_id", "cluster_id", "category", "subcategory", "severity", "noise_ratio", "seed", "document", "high", "low"),
    *("margin", "margin_sum", "margin_bytes", "passed", "tie", "margin_no_context"),
    *(f"{side}_{quantity}" for side in SIDES for quantity in (*QUANTITIES, "no_context")),
    *(name for name in MEASURES if name != MARGIN),
)


class Words(NamedTuple):
    """How reports speak of the outcomes of a run.

    Attributes:
        test: what has an outcome.
        prompt: what is drawn at random, with all of its tests.
        wins: stands between the better model and the other.
        on: stands between the better model and categories.
        rate: how a rate is written.
        difference: how a difference is written.
        unit: stands behind a difference.
        aims: differences of which one, the first below the MDE, is what a comparison that shows none could aim for.
        lower: a lower rate is better.
    """

    test: str = "test"
    prompt: str = "prompt"
    wins: str = "passes more tests than"
    on: str = "passes more on"
    rate: str = "{value:points}%"
    difference: str = "{value:points}"
    unit: str = " points"
    aims: Sequence[float] = (0.05, 0.02, 0.01)
    lower: bool = False


OF_TESTS = Words()


@dataclass(eq=False)
class Run:
    """What one model gave on one task.

    Attributes:
        model: a short name, unique among the runs that were read together.
        task: name of the task.
        path: of the samples file.
        date: of the run, as in the name of its file.
        protocol: from the signature; two runs are comparable when it is equal.
        model_info: the model's part of the signature.
        environment: versions of packages, from the signature.
        line: the signature in one line, without secrets.
        short_line: the same for print, see `nnd_tasks.task.signature.short_signature`.
        version: of the task.
        command: arguments that lm-eval was given, for a report; ``sample``, and ``settings``: those of ``--metadata``.
        parameters: number of the model's parameters, where lm-eval knows it.
        truncated: number of prompts that lost their end to fit the model's window.
        documents: per prompt ``context`` and ``candidates``, what else the prompt used, ``scores`` of the candidates, and
            ``no_context``, their scores without the context, or None.
        tests: one row per test, columns `COLUMNS`; ``passed`` is missing where the test could not
            be scored.
        earlier: results files of equal runs before this one, which are not read.
        spans: digest of the set's error spans; None for a run without span metrics.
        reported: what lm-eval wrote of the task: metric -> value.
        prompts: their number, as lm-eval wrote it.
        answers: digest of the answers, by which its other files are known.
        file: its results file.
        tokens: the file of its token scores; None where it kept none.
        words: how reports speak of its outcomes.
        reader: who read the candidates: ``writer``, ``validator``, ``choice``, ``judge``, ``rating`` or
            ``reward``; ``metric`` where the tests are documents of another task of lm-eval.
        set: name of the set and its config.
        full_protocol: task, protocol, and the N of a version N-X (CONTRIBUTING.md).
        settings: `full_protocol` as people write it: ``yes``, ``no`` (also for None and ``""``), or the value itself.
        comparison_key: what must be equal in two runs: `full_protocol`, without the rule for texts that are too long where every
            prompt was whole and every test was scored, and with the ``window`` where a prompt was cut.
        prompt_ids: ``cluster_id`` of its prompts.
        prompts_in_set: how many prompts the set has, of which the run may have scored a sample.
        is_trial: it scored the first prompts of the set only (``--limit``).
        texts: ``high`` and ``low`` -> the better and the worse text of each test.
        trained_on: splits that the model was trained on, ``SET:SPLIT`` or ``SET``, as ``--metadata`` said.
        training_overlap: those of ``trained_on`` that the run's tests hold.
        training_note: a sentence on what the model was trained on, for a run with ``trained_on``.
    """

    model: str
    task: str
    path: Path
    date: str
    protocol: Mapping[str, Any]
    model_info: Mapping[str, Any]
    environment: Mapping[str, Any]
    line: str
    short_line: str
    version: Any
    command: Mapping[str, Any]
    parameters: int | None
    truncated: int = 0
    documents: list[dict[str, Any]] = field(default_factory=list, repr=False)
    tests: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(COLUMNS)), repr=False)
    earlier: tuple[Path, ...] = ()
    spans: str | None = None
    reported: Mapping[str, Any] = field(default_factory=dict, repr=False)
    prompts: int | None = None
    answers: str = ""
    file: Path = Path("results.json")
    tokens: Path | None = None
    words: Words = OF_TESTS

    def __post_init__(self) -> None:
        """Compute what the protocol and the samples say of the run."""
        self.reader = str(self.protocol.get("reader", WRITER))
        set_name = str(self.protocol.get("set", "?")).removeprefix("nnd/")
        self.set = f"{set_name} ({self.protocol.get('config', '?')})"
        self.full_protocol = {"task": self.task, **self.protocol, "version": str(self.version).partition("-")[0]}
        self.settings = {key: write_value(value) for key, value in self.full_protocol.items()}
        self.comparison_key = dict(self.full_protocol)
        if self.truncated:
            self.comparison_key["window"] = self.model_info.get("window")
        elif len(self.tests) > 0 and self.tests["passed"].notna().all():
            self.comparison_key.pop("overlong", None)
        self.prompt_ids = frozenset(document["cluster_id"] for document in self.documents)
        sample = re.match(r"\d+ of (\d+)", str(self.protocol.get("selection")))  # `nnd_tasks.task.signature.selection`
        self.prompts_in_set = int(sample[1]) if sample else len(self.documents)
        self.is_trial = self.command.get("limit") is not None and sample is not None
        self.texts = {side: take_values(self.documents, self.tests, side, "candidates") for side in SIDES}
        self._describe_training(set_name)

    def _describe_training(self, tested_set: str) -> None:
        self.trained_on = [split for split in str(self.model_info.get("trained_on") or "").split(",") if split]
        set_and_split = {named: named.partition(":")[::2] for named in self.trained_on}
        tested_split = self.protocol.get("split")
        self.training_overlap = [
            named
            for named, (name, split) in set_and_split.items()
            if name == tested_set and (tested_split is None or split in ("", tested_split))
        ]
        if self.training_overlap:
            tests = f"these tests hold {', '.join(self.training_overlap)}"
        elif tested_split is not None and not {"", tested_split} & {split for _, split in set_and_split.values()}:
            tests = "none of its texts is in these tests"
        else:
            tests = "these tests may share texts with it; another split does not"
        self.training_note = f"{self.model} was trained on {', '.join(self.trained_on)}; {tests}."


def take_values(documents: Sequence[Mapping[str, Any]], tests: pd.DataFrame, side: str, key: str) -> list[Any]:
    """Take what the documents hold under a key for the ``high`` or the ``low`` text of each test; None where it is None."""
    indices = zip(tests["document"], tests[side], strict=True)
    return [documents[document][key] and documents[document][key][candidate] for document, candidate in indices]


def check_writers(runs: Sequence[Run], purpose: str) -> None:
    """Raise NNDError if a run has answers about texts and not their likelihoods, which ``purpose`` needs."""
    for run in runs:
        if run.reader != WRITER:
            raise NNDError(
                f"{purpose} takes likelihoods of texts, and {run.task} of {run.model} has those of a {run.reader}; add --select "
                f"reader={WRITER}"
            )


class Runs(list[Run]):
    """Runs in the order in which they were found, with a table of all their tests and one of the runs."""

    @cached_property
    def tests(self) -> pd.DataFrame:
        """One row per run and test: ``run`` (its row in `runs`), ``model``, ``task``, ``set``, the texts, scores and outcome.

        The columns are those of `COLUMNS`, with texts for ``high`` and ``low``, and every text of the
        prompt, such as ``context``. Log-likelihoods are in nats.
        """
        return pd.concat([_with_texts(i, run) for i, run in enumerate(self)], ignore_index=True)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run: ``model``, ``task``, each part of the protocol, and what else is known of it."""
        names = ("model", "task", "set", "version", "date", "parameters", "truncated")
        rows = [
            {
                **{name: getattr(run, name) for name in names},
                **{**run.protocol, "set": run.set},
                "prompts": len(run.documents),
                "tests": len(run.tests),
                "signature": run.line,
                "short_signature": run.short_line,
                "file": str(run.file),
                "tokens": run.tokens and str(run.tokens),
            }
            for run in self
        ]
        return pd.DataFrame(rows).rename_axis("run")


def _with_texts(number: int, run: Run) -> pd.DataFrame:
    """The tests of a run with the texts of their prompts and candidates."""
    prompts = pd.DataFrame(
        [{key: text for key, text in document.items() if isinstance(text, str)} for document in run.documents]
    )
    names = {"run": number, "model": run.model, "task": run.task, "set": run.set}
    tests = pd.DataFrame({**names, **run.tests, **run.texts})
    prompt_fields = [name for name in prompts if name not in tests]
    return tests.join(prompts[prompt_fields], on="document").drop(columns="document")
