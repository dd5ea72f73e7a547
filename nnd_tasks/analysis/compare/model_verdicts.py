"""What a comparison says, in a sentence for each pair of models: which passes more tests, on which categories, and how sure."""

from __future__ import annotations

import math
from collections import defaultdict

from nnd_tasks.analysis.compare.paired import Comparison, Difference
from nnd_tasks.analysis.compare.power import LEVEL, needed
from nnd_tasks.formats import p_value
from nnd_tasks.wording import counted

#: Differences of which one, the first below the MDE, is what an undecided comparison could aim for.
_AIMS = (0.05, 0.02, 0.01)


def verdicts(comparison: Comparison) -> list[str]:
    """Return a sentence or two for each pair of models: which passes more tests, or what would be needed to tell.

    A difference counts where p (Holm) is below 0.05 and the interval agrees. An undecided pair gets the MDE
    (`nnd_tasks.analysis.compare.power.detectable`) and the prompts that a smaller difference would need.
    """
    overall, *categories = comparison.categories
    pairs = len(overall.differences)
    sentences = []
    for place, whole in enumerate(overall.differences):
        if _decided(whole):
            better, worse = (whole.first, whole.second) if whole.difference < 0 else (whole.second, whole.first)
            rates = (f"{100 * overall.rates[model].rate:.1f}%" for model in (better, worse))
            said = f"{better} passes more tests than {worse}: {' against '.join(rates)} ({_certainty(whole)})."
        else:
            said = _undecided(whole, overall.clusters, pairs, comparison.resamples)
        found: dict[str, list[str]] = defaultdict(list)
        for result in categories if len(categories) > 1 else ():
            one = result.differences[place]
            if _decided(one):
                found[one.second if one.difference > 0 else one.first].append(
                    f"{result.category} (by {_points(abs(one.difference))}, p {p_value(one.p_holm)})"
                )
        more = "; ".join(f"{model} passes more on {', '.join(names)}" for model, names in found.items())
        if more:
            said += f" By category, {more}."
        elif _decided(whole) and len(categories) > 1:
            said += " No category shows it alone."
        sentences.append(said)
    return sentences


def _decided(difference: Difference) -> bool:
    return difference.p_holm < LEVEL and not difference.disagrees and difference.difference != 0


def _points(share: float) -> str:
    """Return a share as percentage points."""
    points = f"{100 * share:.1f}".removesuffix(".0")
    return f"{points} point{'' if points == '1' else 's'}"


def _certainty(difference: Difference) -> str:
    """Return how large a difference is, and how sure."""
    low, high = sorted((abs(difference.low), abs(difference.high)))
    interval = "" if math.isnan(low) else f", 95% interval {_points(low).split()[0]} to {_points(high)}"
    return f"{_points(abs(difference.difference))}{interval}, p {p_value(difference.p_holm)}"


def _undecided(difference: Difference, prompts: int, hypotheses: int, resamples: int) -> str:
    """Return what so many prompts could have shown, and what a smaller difference would need."""
    said = f"Undecided between {difference.first} and {difference.second}: {counted(prompts, 'prompt')}"
    if math.isnan(difference.detectable):
        equal = difference.standard_error == 0
        return f"{said}, and they pass equally many tests of each." if equal else f"{said} shows no difference."
    aim = next((aim for aim in _AIMS if aim < difference.detectable), math.nan)
    wanted = needed(difference.standard_error, prompts, aim, hypotheses, resamples)
    more = f"; about {wanted:,.0f} would be needed for {_points(aim)}" if math.isfinite(wanted) else ""
    if math.isinf(difference.detectable):
        return f"{said} can show no difference{more}."
    return f"{said} show differences above {_points(difference.detectable)}{more}."
