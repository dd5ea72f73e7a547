"""Which model likes whose texts, and does each like its own best? `nnd_tasks.stress.self_texts` as a report."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from nnd_tasks.analysis.compare import holm
from nnd_tasks.analysis.effects import Effects, Floats
from nnd_tasks.errors import NNDError
from nnd_tasks.show.report import Report, Table
from nnd_tasks.statistics import confidence_interval
from nnd_tasks.stress.self_texts import SelfScores
from nnd_tasks.wording import counted

_READING = (
    "Scores: mean log-likelihood per token in nats, with 95% intervals over prompts; rows score, columns write. Own less others: "
    "what a model gives its own texts, less what it gives those of others after the same prompt; p is of this, corrected over "
    "the models (Holm). Beyond the others: that, less what the other scorers give; it is above 0 for any models that differ, so "
    "only its size says something. Prefers own: share of pairs (own text, other's text) in which the own one scores higher."
)
_GIVEN = {"scorer": "{scorer}", "{writer}": "{mean:.3f} [{low:.3f} to {high:.3f}]"}
_BIASES = {
    "model": "{model}",
    "tokens per text": "{tokens:.1f}",
    "rank of own": "{rank} of {writers}",
    "own less others": "{own:+.3f} [{own_low:+.3f} to {own_high:+.3f}]",
    "p (Holm)": "{p_holm:p}",
    "beyond the others": "{beyond:+.3f} [{beyond_low:+.3f} to {beyond_high:+.3f}]",
    "prefers own": "{prefers:.3f} [{prefers_low:.3f} to {prefers_high:.3f}]",
}


def report_own_texts(found: SelfScores) -> Report:
    """Return the report on prompts after which every model wrote something that all could score.

    Raises:
        NNDError: there are fewer than two such prompts.
    """
    whole = np.isfinite(found.scores).all(axis=(1, 2))
    scores = found.scores[whole]
    prompts = counted(len(scores), "prompt")
    writers = found.scorers[: scores.shape[2]]
    if len(scores) < 2:
        raise NNDError(f"only {prompts} after which every model wrote a text that all could score; take more --texts")
    mean = scores.mean(axis=0)
    half = stdtrit(len(scores) - 1, 0.975) * scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    given = pd.DataFrame(product(found.scorers, writers), columns=["scorer", "writer"])
    given = given.assign(mean=mean.ravel(), low=(mean - half).ravel(), high=(mean + half).ravel())
    biases = pd.DataFrame({"model": model, **_estimate_bias(scores, i)} for i, model in enumerate(writers))
    biases = biases.assign(p_holm=holm(biases["p_holm"].tolist()), tokens=found.tokens, writers=len(biases))
    left_out = counted(int((~whole).sum()), "prompt")
    lost = f"Left out: {left_out} after which a model wrote nothing, or a text could not be scored."
    tables = [Table("given", given, _GIVEN), Table("own", biases, _BIASES)]
    return Report(
        name="self",
        title=f"Self-evaluation: {prompts}",
        tables=tables,
        notes=[_READING, *([] if whole.all() else [lost])],
        brief=tables[1],
        facts={
            "prompts": len(scores),
            "left_out": int((~whole).sum()),
            "texts": found.texts,
            "scores": {scorer: found.scores[:, i].tolist() for i, scorer in enumerate(found.scorers)},
        },
    )


def _estimate_bias(scores: Floats, place: int) -> dict[str, Any]:
    """Return how a model scores its own texts, with p not yet corrected, and 95% intervals.

    ``rank`` is of its own texts among all writers, by its mean score, 1 the highest; ``own`` its score of its own texts less that
    of the others, in nats per token; ``beyond`` that, less what the other scorers give; ``prefers`` the share of pairs with its
    own text in which that scores higher; ``p_holm`` the p of ``own`` being 0.

    Args:
        scores: shape (prompts, scorers, writers).
        place: of the model among scorers and writers.
    """
    prompts, _, writers = scores.shape
    given = scores[:, place]
    columns = [given, given - np.delete(scores, place, axis=1).mean(axis=1)]
    prompt = np.repeat(np.arange(prompts), writers)
    effects = Effects(prompt, prompt, np.tile(np.eye(writers), (prompts, 1)))
    contrast = effects.against_others([place])[None]
    result = effects.estimate(np.stack([column.ravel() for column in columns], axis=1), contrast)
    wins = (given[:, [place]] > np.delete(given, place, axis=1)).sum(axis=1)
    compared = np.full(prompts, writers - 1)
    means = given.mean(axis=0)
    row = {"rank": 1 + (means > means[place]).sum(), "p_holm": result.p_values()[0, 0]}
    own, beyond = np.stack([result.values, *result.interval()])[:, 0].T
    prefers = wins.sum() / compared.sum(), *confidence_interval(wins, compared)
    for name, (value, low, high) in (("own", own), ("beyond", beyond), ("prefers", prefers)):
        row |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return row
