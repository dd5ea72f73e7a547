"""Whose texts a model likes, among texts that people judged alike, and what that does to its pass rate.

Samples do not say who wrote a text: it is read, as is how people judged it, from the set that is built here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnd_tasks.analysis.compare import holm
from nnd_tasks.analysis.familiarity.judged_texts import JudgedTexts, judged_texts
from nnd_tasks.analysis.familiarity.own import Own, own_texts
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.set_tables import table_of
from nnd_tasks.analysis.side_by_side import Paired, pair
from nnd_tasks.baselines import writers_of
from nnd_tasks.errors import NNDError
from nnd_tasks.wording import did_you_mean, some_of


@dataclass(frozen=True, slots=True)
class Effect:
    """How much a model likes the texts of one system.

    Attributes:
        model: that scored the texts.
        system: that wrote them.
        texts: number of its texts that count.
        prompts: that have such texts.
        value: mean log-likelihood per token of its texts less that of the other systems' texts, in nats; nan where the texts do
            not tell.
        low: lower end of the 95% interval; nan where there is none.
        high: its upper end.
        p: of a value of 0.
        p_holm: p corrected over the systems and models of the table (Holm).
    """

    model: str
    system: str
    texts: int
    prompts: int
    value: float
    low: float
    high: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class Familiarity:
    """All models on one set.

    Attributes:
        paired: the runs.
        basis: what texts were compared within (`nnd_tasks.analysis.familiarity.judged_texts`).
        texts: number of texts that count.
        prompts: that have such texts.
        effects: per model and system.
        own: of the models whose texts are in the set.
        notes: what else to know.
    """

    paired: Paired
    basis: str
    texts: int
    prompts: int
    effects: list[Effect]
    own: list[Own]
    notes: list[str] = field(default_factory=list)


def find_familiarity(runs: Sequence[Run], own: Sequence[str] = (), allow: Sequence[str] = ()) -> list[Familiarity]:
    """Return how much each model likes each system's texts, on every set whose systems are known.

    Args:
        runs: of any sets; sets without systems are passed over.
        own: ``SYSTEM,...`` (of every model) or ``MODEL=SYSTEM,...``: which systems a model, or its family, is.
        allow: parts of the protocol that may differ between the models of a table.

    Raises:
        NNDError: no set has systems and is built here from the data of the runs; or ``own`` names no model or system.
    """
    found: list[JudgedTexts] = []
    passed_over: list[str] = []
    for paired in pair(runs, allow):
        protocol = paired.runs[0].protocol
        table = table_of(protocol)
        if table is None:
            build = f"nnd build {str(protocol.get('set', 'SET')).removeprefix('nnd/')}"
            passed_over.append(f"{paired.set}: is not built here from the data of the runs (run: {build})")
        elif not any(high or low for high, low in writers_of(table)):
            passed_over.append(f"{paired.set}: does not say who wrote its texts")
        elif paired.tests.empty:
            passed_over.append(f"{paired.set}: no test was scored")
        else:
            found.append(judged_texts(paired, table.to_pandas()))
    if not found:
        raise NNDError(f"no set with systems; {'; '.join(dict.fromkeys(passed_over))}")
    systems = {name for texts in found for name in texts.systems}
    chosen = _own_systems(own, [run.model for texts in found for run in texts.paired.runs], systems)
    notes = [f"passed over: {line}" for line in dict.fromkeys(passed_over)]
    return [_familiarity(texts, chosen, notes if texts is found[-1] else []) for texts in found]


def _own_systems(own: Sequence[str], models: Sequence[str], systems: set[str]) -> dict[str, tuple[str, ...]]:
    """Return model -> the systems that it, or its family, is.

    Raises:
        NNDError: there is no such model or system.
    """
    known = list(dict.fromkeys(models))
    chosen: dict[str, tuple[str, ...]] = {}
    for word in own:
        model, equals, names = ("", "", word) if word in systems else word.partition("=")
        if not equals:
            model, names = "", word
        if model and model not in known:
            meant = did_you_mean(model, known, end=" ")
            raise NNDError(f"--own {word}: there is no run of {model!r}; {meant}the models are {some_of(known)}")
        parts = tuple(part.strip() for part in names.split(",") if part.strip())
        for part in parts or ("",):
            if part not in systems:
                meant = did_you_mean(part, systems, end=" ")
                raise NNDError(
                    f"--own {word}: no text is by {part!r}; {meant}the systems are {some_of(sorted(systems), 30)}"
                )
        chosen |= dict.fromkeys([model] if model else known, parts)
    return chosen


def _familiarity(texts: JudgedTexts, own: dict[str, tuple[str, ...]], notes: list[str]) -> Familiarity:
    """Return the estimates on one set."""
    contrasts = np.stack([texts.effects.against_others([i]) for i in range(len(texts.systems))])
    estimates = texts.effects.estimate(texts.scores, contrasts)
    low, high = estimates.interval()
    p_values = estimates.p_values()
    tested = np.isfinite(p_values)
    corrected = np.full(p_values.shape, np.nan)
    corrected[tested] = holm(p_values[tested].tolist())
    effects = []
    for i, system in enumerate(texts.systems):
        its = texts.rows[texts.shares[:, i] > 0]
        sizes = its["text"].nunique(), its["prompt"].nunique()
        for j, run in enumerate(texts.paired.runs):
            numbers = (part[i, j] for part in (estimates.values, low, high, p_values, corrected))
            effects.append(Effect(run.model, system, *sizes, *map(float, numbers)))
    groups = [
        [name for name, its in zip(texts.systems, texts.effects.groups, strict=True) if its == g]
        for g in range(int(texts.effects.groups.max()) + 1)
    ]
    if len(groups) > 1:
        each = "; ".join(some_of(names, 30, str) for names in groups)
        notes = [f"systems that no prompt links are not compared with each other. Groups: {each}", *notes]
    mine = []
    for column, run in enumerate(texts.paired.runs):
        if here := [name for name in own.get(run.model, ()) if name in texts.systems]:
            mine.append(own_texts(texts, column, here))
    prompts = int(texts.rows["prompt"].nunique())
    return Familiarity(texts.paired, texts.basis, int(texts.rows["text"].nunique()), prompts, effects, mine, notes)
