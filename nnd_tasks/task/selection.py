"""Which prompts a run takes: ``--limit``, ``--sample`` and ``--samples`` are read and checked before the model is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.files import parse_json, read_text
from nnd_tasks.schema import short_hash
from nnd_tasks.text import did_you_mean, some_of


def check_selection(options: Mapping[str, Any]) -> None:
    """Check the options that select prompts: ``limit``, ``sample`` and ``samples`` (None takes all), and ``predict_only``.

    Raises:
        NNDError: a value selects no prompt or cannot be read, two of them are given, or no prompt is to be scored.
    """
    if options.get("predict_only"):
        raise NNDError(
            "--predict_only: our tasks have scores and no predictions; leave it out, --log_samples keeps all scores"
        )
    options_given = [name for name in ("sample", "samples", "limit") if options.get(name) is not None]
    for name in options_given:
        if name == "samples":
            read_samples(options[name])
        else:
            check_limit(options[name], name)
    if len(options_given) > 1:
        raise NNDError(f"--{options_given[0]} and --{options_given[1]} both say which prompts are taken; leave one out")


def read_samples(samples: Any) -> dict[str, list[int]]:
    """Return the places of prompts that ``--samples`` names for each task.

    Args:
        samples: a mapping, a JSON text, or the path of a JSON file.

    Raises:
        NNDError: it is none of these, or holds something else than lists of places.
    """
    expected = 'expected {"TASK": [0, 5]}, places of prompts by task, or a file that holds it'
    where = "--samples"
    if isinstance(samples, (str, Path)):
        text = str(samples)
        if not text.lstrip().startswith(("{", "[")):
            where, text = f"--samples {samples}", _read_samples_file(str(samples), expected)
        samples = parse_json(text, where, hint=f"; {expected}")
    if not isinstance(samples, Mapping) or not samples:
        raise NNDError(f"{where}: {samples!r:.80} names no prompts; {expected}")
    return {str(task): check_places(indices, None, str(task)) for task, indices in samples.items()}


def _read_samples_file(path: str, expected: str) -> str:
    if not Path(path).exists():
        raise NNDError(f"--samples {path}: there is no such file; {expected}")
    return read_text(Path(path), limit=50_000_000)


def select_prompts(
    tasks: Mapping[str, Any], ours: Sequence[Any], samples: Any, sample: int | None
) -> dict[str, list[int]] | None:
    """Return task -> places of the prompts to take, as lm-eval's ``samples``; None takes those that ``limit`` says.

    Args:
        tasks: the loaded tasks of the run.
        ours: those of them that are `NNDTask`.
        samples: see `read_samples`.
        sample: number of prompts of each task.

    Raises:
        NNDError: ``samples`` names a task or a place that is not there, or ``sample`` is given for a task that is not ours.
    """
    if sample is not None:
        if others := [name for name, task in tasks.items() if task not in ours]:
            raise NNDError(
                f"--sample: {others[0]} is none of our tasks, so it has no categories; run it apart, with --limit"
            )
        places = {}
        for name, task in tasks.items():
            task.sample_size = sample
            places[name] = sample_of(task.eval_docs, sample)
    elif samples is None:
        return None
    else:
        places = read_samples(samples)
    for name in places:
        if name not in tasks:
            meant = did_you_mean(name, tasks) or f"there are: {some_of(list(tasks), 6, str)}"
            raise NNDError(f"--samples: no task {name!r} is run; {meant}")
        places[name] = check_places(places[name], len(tasks[name].eval_docs), name)
    return places


def check_places(places: Any, total: int | None, task: str) -> list[int]:
    """Return the places of prompts that ``--samples`` names for a task, each once, in the given order.

    Args:
        places: what ``--samples`` holds for the task.
        total: number of the task's prompts; None where it is not known yet.
        task: its name.

    Raises:
        NNDError: it is no list of whole numbers, is empty, or names a prompt that is not there.
    """
    last = "" if total is None else f" to {total - 1}"
    expected = f"expected a list of places from 0{last}"
    if not isinstance(places, (list, tuple)):
        raise NNDError(f"--samples: {task}: {places!r:.80} is no list; {expected}")
    if not places:
        raise NNDError(f"--samples: {task}: no prompt is left; {expected}, or leave the task out to take all")
    for index in places:
        if isinstance(index, bool) or not isinstance(index, int) or index < 0 or (total is not None and index >= total):
            raise NNDError(f"--samples: {task}: there is no prompt {index!r:.80}; {expected}")
    return list(dict.fromkeys(places))


def check_limit(limit: Any, option: str) -> None:
    """Check the value of ``--limit`` or ``--sample``.

    Args:
        limit: a number of prompts; for ``--limit`` also a share of them, below 1.
        option: its name.

    Raises:
        NNDError: it is not such a number.
    """
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not isfinite(limit):
        raise NNDError(f"--{option} {limit!r:.80}: expected a number of prompts")
    name = f"--{option} {limit:g}"
    if limit <= 0:
        raise NNDError(f"{name}: no prompt is left; take 1 or more, or leave it out")
    if limit != int(limit) and (limit > 1 or option == "sample"):
        raise NNDError(f"{name}: expected a whole number of prompts{', or a share below 1' * (option == 'limit')}")


def sample_of(documents: Any, count: int) -> list[int]:
    """Return the places of ``count`` prompts in ascending order, the first of `sample_order`; all if there are fewer."""
    categories = [{test["category"] for test in tests} for tests in documents["tests"]]
    return sorted(islice(sample_order(documents["cluster_id"], categories), count))


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
    for i in sorted(range(len(prompts)), key=lambda i: short_hash(str(prompts[i])), reverse=True):
        for category in categories[i]:
            waiting.setdefault(category, []).append(i)
    sizes = {category: len(indices) for category, indices in waiting.items()}
    taken: Counter[str] = Counter()
    chosen: set[int] = set()
    while waiting:
        category = min(waiting, key=lambda name: (taken[name], sizes[name], name))
        index = waiting[category].pop()
        if not waiting[category]:
            del waiting[category]
        if index not in chosen:
            chosen.add(index)
            taken.update(categories[index])
            yield index
