"""What a comparison says, in a sentence for each pair of models: which passes more tests, on which categories, and how sure."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from nnd_tasks.analysis.power import LEVEL, needed
from nnd_tasks.baselines import ALL
from nnd_tasks.show.report import write_cell
from nnd_tasks.statistics import FEW
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.analysis.compare import Comparison

#: Differences of which one, the first below the MDE, is what an undecided comparison could aim for.
_AIMS = (0.05, 0.02, 0.01)
#: Pairs of models above which the undecided ones are counted, not listed: those of more than five models.
_LISTED = 10


def give_verdicts(comparison: Comparison) -> list[str]:
    """Return a sentence or two for each pair of models: which passes more tests, or what would be needed to tell.

    A difference counts where p (Holm) is below 0.05 and the interval agrees. An undecided pair gets the MDE
    (`nnd_tasks.analysis.power.detectable`) and the prompts that a smaller difference would need; of many models they are counted.
    """
    sentences: list[str] = []
    if comparison.differences.empty:
        return sentences
    rates = comparison.rates.set_index(["category", "model"])["rate"][ALL]
    pairs = comparison.differences.groupby(["first", "second"], sort=False)
    undecided = 0
    for _, of_pair in pairs:
        whole, *categories = of_pair.itertuples()
        categories = categories if len(categories) > 1 else []
        if decided := _is_decided(whole):
            better, worse = (whole.first, whole.second) if whole.difference < 0 else (whole.second, whole.first)
            both = f"{100 * rates[better]:.1f}% against {100 * rates[worse]:.1f}%"
            said = f"{better} passes more tests than {worse}: {both} ({_certainty(whole)})."
        else:
            said = _undecided(whole, len(pairs))
        found: dict[str, list[str]] = defaultdict(list)
        for one in filter(_is_decided, categories):
            text = f"{one.category} (by {_points(one.difference)}, p {_p_value(one)})"
            found[one.second if one.difference > 0 else one.first].append(text)
        more = "; ".join(f"{model} passes more on {', '.join(names)}" for model, names in found.items())
        if more:
            said += f" By category, {more}."
        elif categories and decided:
            said += " No category shows it alone."
        elif not decided and len(pairs) > _LISTED:
            undecided += 1
            continue
        sentences.append(said)
    if undecided:
        sentences.append(f"Undecided: {undecided} of {len(pairs)} pairs of models; the table of differences has each.")
    return sentences


def _is_decided(difference: Any) -> bool:
    return difference.p_holm < LEVEL and not difference.disagrees and difference.difference != 0


def _p_value(difference: Any) -> str:
    return write_cell("{p:p}", {"p": difference.p_holm})


def _points(share: float) -> str:
    """Return the size of a share in percentage points."""
    points = f"{100 * abs(share):.1f}".removesuffix(".0")
    return f"{points} point{'' if points == '1' else 's'}"


def _certainty(difference: Any) -> str:
    """Return how large a difference is, and how sure."""
    low, high = sorted((difference.low, difference.high), key=abs)
    interval = "" if math.isnan(low) else f", 95% interval {_points(low).split()[0]} to {_points(high)}"
    return f"{_points(difference.difference)}{interval}, p {_p_value(difference)}"


def _undecided(difference: Any, hypotheses: int) -> str:
    """Return what so many prompts could have shown, and what a smaller difference would need."""
    said = f"Undecided between {difference.first} and {difference.second}: {counted(difference.prompts, 'prompt')}"
    if math.isnan(difference.mde):
        return f"{said}, without any spread between them."
    more = ""
    if difference.prompts >= FEW:  # a standard error of fewer prompts is too unsure to plan from
        aim = next((aim for aim in _AIMS if aim < difference.mde), math.nan)
        wanted = needed(difference.standard_error, difference.prompts, aim, hypotheses)
        more = f"; about {wanted:,.0f} would be needed for {_points(aim)}" if math.isfinite(wanted) else ""
    if math.isinf(difference.mde):
        return f"{said} can show no difference{more}."
    return f"{said} show differences above {_points(difference.mde)}{more}."
