"""The order in which ``--sample`` takes prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from nnd_tasks.schema import short_hash


def sample_order(prompts: Sequence[str], categories: Sequence[Collection[str]]) -> Iterator[int]:
    """Yield the places of all prompts, spread over the categories; a sample of N is the first N of them.

    Turn by turn, the category with the fewest prompts in the sample gets the next of its own, in the order of hashes of their
    ids. So every category is there as soon as the sample has room, the same prompts come in every run, and a smaller sample
    is a part of every larger one.

    Args:
        prompts: the ``cluster_id`` of each.
        categories: of the tests of each prompt.
    """
    waiting: dict[str, list[int]] = {}
    for place in sorted(range(len(prompts)), key=lambda place: short_hash(str(prompts[place])), reverse=True):
        for category in categories[place]:
            waiting.setdefault(category, []).append(place)
    sizes = {category: len(places) for category, places in waiting.items()}
    taken: Counter[str] = Counter()
    chosen: set[int] = set()
    while waiting:
        category = min(waiting, key=lambda name: (taken[name], sizes[name], name))
        place = waiting[category].pop()
        if not waiting[category]:
            del waiting[category]
        if place not in chosen:
            chosen.add(place)
            taken.update(categories[place])
            yield place
