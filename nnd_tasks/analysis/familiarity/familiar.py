"""Whose texts a model likes, among texts that people judged alike, and what that does to its pass rate.

Samples do not say who wrote a text: this reads it, and how people judged the text, from the set that is built here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from nnd_tasks.analysis.compare.paired import holm
from nnd_tasks.analysis.compare.power import FEW
from nnd_tasks.analysis.familiarity.effects import Effects, Floats
from nnd_tasks.analysis.familiarity.own import Own, own_part
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.set_tables import table_of
from nnd_tasks.analysis.side_by_side import Paired, pair
from nnd_tasks.baselines import WRITERS, system_names
from nnd_tasks.errors import NNDError
from nnd_tasks.wording import counted, did_you_mean, some_of

#: What texts are compared within, and how a table says it.
EQUAL, PAIRS = "equal judgements", "pairs"


@dataclass(frozen=True, slots=True)
class Effect:
    """How much a model likes the texts of one system.

    Attributes:
        model: that scored the texts.
        system: that wrote them.
        texts: number of its texts that count.
        prompts: number of prompts that have such texts.
        value: its texts' mean log-likelihood per token less that of the other systems' texts, in nats; nan where the texts do
            not tell.
        low: lower end of the 95% interval; nan where there is none.
        high: its upper end.
        p: of a value of 0.
        p_holm: corrected over the systems and models of the table.
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
        basis: `EQUAL` or `PAIRS`: what texts were compared within.
        effects: per model and system.
        own: of the models whose own texts are in the set.
        notes: what else to know.
    """

    paired: Paired
    basis: str
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
        NNDError: no set has systems or is built here from the same data; or ``own`` names a model or system that is not there.
    """
    found: list[tuple[Paired, pd.DataFrame]] = []
    why: list[str] = []
    for paired in pair(runs, allow):
        table = table_of(paired.runs[0].protocol)
        name = str(paired.runs[0].protocol.get("set", "?")).removeprefix("nnd/")
        if table is None:
            why.append(f"{paired.set} is not built here from the data of the runs (run: nnd build {name})")
        elif not {*WRITERS} <= {*table.column_names} or not any(any(table.column(key).to_pylist()) for key in WRITERS):
            why.append(f"{paired.set} does not say which system wrote a text")
        else:
            found.append((paired, table.to_pandas().set_index("test_id")))
    if not found:
        raise NNDError(f"familiarity needs to know who wrote the texts: {'; '.join(dict.fromkeys(why))}")
    texts = [_Texts(paired, table) for paired, table in found]
    chosen = _own_systems(own, [run for paired, _ in found for run in paired.runs], {s for t in texts for s in t.systems})
    return [_familiarity(one, chosen, why if one is texts[0] else []) for one in texts]


def _own_systems(own: Sequence[str], runs: Sequence[Run], systems: set[str]) -> dict[str, tuple[str, ...]]:
    """Return model -> its own systems.

    Raises:
        NNDError: there is no such model or system.
    """
    models = list(dict.fromkeys(run.model for run in runs))
    chosen: dict[str, tuple[str, ...]] = {}
    for word in own:
        model, equals, names = word.partition("=")
        if not equals or (word in systems and model not in models):
            model, names = "", word
        if model and model not in models:
            meant = did_you_mean(model, models, end=" ")
            raise NNDError(f"--own {word}: no run of a model {model!r}; {meant}the models are {some_of(models)}")
        parts = (names,) if names in systems else tuple(part.strip() for part in names.split(",") if part.strip())
        if wrong := [part for part in parts if part not in systems] or ([names] if not parts else []):
            meant = did_you_mean(wrong[0], systems, end=" ")
            raise NNDError(
                f"--own {word}: no system {wrong[0]!r} wrote texts here; {meant}the systems are {some_of(sorted(systems), 30)}"
            )
        chosen |= dict.fromkeys([model] if model else models, parts)
    return chosen


class _Texts:
    """The texts of one set with scores, systems and judgements.

    Attributes:
        paired: the runs.
        systems: names of all systems, sorted.
        tests: row per test with ``prompt`` (a number), ``margin`` per model, and ``high``, ``low``: shares of the systems.
        basis: see `Familiarity`.
        effects: the least squares.
        rows: the texts that count: ``prompt`` and ``text`` (numbers); one row per text and stratum.
        shares: of the systems in them, shape (rows, systems).
        scores: mean log-likelihood per token, shape (rows, models).
    """

    def __init__(self, paired: Paired, table: pd.DataFrame) -> None:
        self.paired = paired
        ids = paired.tests["test_id"]
        about = table.loc[ids].reset_index()
        sides = pd.concat([self._side(which, ids, about) for which in ("high", "low")], ignore_index=True)
        names = [system_names(writer) for writer in sides["writer"]]
        by_text: dict[int, set[str]] = {}
        for text, several in zip(sides["text"], names, strict=True):
            by_text.setdefault(text, set()).update(several)
        self.systems = sorted(set().union(*by_text.values()))
        place = {name: i for i, name in enumerate(self.systems)}
        of_text = np.zeros((int(sides["text"].max()) + 1, len(self.systems)))
        for text, several in by_text.items():
            for name in several:
                of_text[text, place[name]] = 1 / len(several)
        half = len(ids)
        self.prompts = sides["prompt"].to_numpy()[:half]
        self.better, self.worse = of_text[sides["text"][:half]], of_text[sides["text"][half:]]
        written = sides[of_text[sides["text"]].any(axis=1)]
        self.basis, rows = EQUAL, written.drop_duplicates(["text", "stratum"])
        effects = Effects(rows["prompt"], rows["stratum"], of_text[rows["text"]])
        if not written["judged"].all() or rows["prompt"][effects.counted].nunique() < FEW:
            self.basis, rows = PAIRS, written.assign(stratum=written["test"])
            effects = Effects(rows["prompt"], rows["stratum"], of_text[rows["text"]])
        rows = rows[effects.counted]
        if rows.empty:
            raise NNDError(f"{paired.set}: in no pair are the texts of two systems; there is nothing to compare")
        weights = more = None
        if self.basis == EQUAL:  # a text that was judged in several ways counts once
            weights = 1 / rows.groupby("text")["stratum"].transform("size").to_numpy()
        else:
            more = (rows["side"] == "high").to_numpy(dtype=float)[:, None]
        self.rows, self.shares = rows, of_text[rows["text"]]
        self.effects = Effects(rows["prompt"], rows["stratum"], self.shares, weights, more)
        self.scores = rows[[f"score {i}" for i in range(len(paired.runs))]].to_numpy()

    def _side(self, which: str, ids: pd.Series[str], about: pd.DataFrame) -> pd.DataFrame:
        """Return a row per test about its better (``high``) or worse (``low``) text."""
        first = self.paired.runs[0].tests.set_index("test_id").loc[ids]
        judged = _judgements(about, which)
        # Only of the worse text a test says how severe its error is.
        severity = first["severity"].to_numpy() if which == "low" else ""
        prompt = pd.factorize(self.paired.tests["cluster_id"], sort=True)[0]
        place = first["document"].to_numpy() * 1_000_000 + first[which].to_numpy()
        side = pd.DataFrame(
            {
                "test": np.arange(len(ids)),
                "prompt": prompt,
                "place": place,
                "side": which,
                "writer": about[f"{which}_system"].fillna(""),
                "judged": judged.notna(),
                "stratum": pd.Series(
                    list(zip(prompt, about["context_id"], about["category"], first["severity"].where(which == "low", "").to_numpy(), judged.fillna(""), strict=True))
                ),
            }
        )
        for i, run in enumerate(self.paired.runs):
            tests = run.tests.set_index("test_id").loc[ids]
            side[f"score {i}"] = [
                run.documents[document]["scores"][candidate]["mean"]
                for document, candidate in zip(tests["document"], tests[which], strict=True)
            ]
        return side
