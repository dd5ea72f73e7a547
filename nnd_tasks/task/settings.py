"""What a user may set: of a task, by its YAML and by ``--metadata``; and which prompts a run takes.

``--limit``, ``--sample`` and ``--samples`` are read and checked before the model is loaded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, StrictBool, ValidationError, field_validator

from nnd_tasks.errors import NNDError, list_mistakes
from nnd_tasks.files import parse_json, read_text
from nnd_tasks.redact import without_secrets
from nnd_tasks.schema import short_hash
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.store import built_sets
from nnd_tasks.text import did_you_mean, some_of

#: Keys of a YAML that say who reads the candidates; see `Asked` and `AskedInWriting` of `nnd_tasks.prompted`.
READER_KEYS = ("reader", "question", "questions", "answers", "frames", "tie", "scale", "ending", "repeats")
#: Begins a stop sequence that nobody writes, which distinguishes several answers to one question.
SAMPLE = "<|sample "
#: Arguments of models whose names are like those of settings.
MODEL_ARGUMENTS = {"token"}


def is_chat_api(model: Any) -> bool:
    """Tell whether what ``--model`` names is a client of a chat API, such as ``local-chat-completions``."""
    return isinstance(model, str) and "-chat" in model


class Settings(BaseModel):
    """What a YAML's ``metadata:`` and the command line's ``--metadata`` may set.

    Attributes:
        append_eos: score the end-of-sequence token after each candidate too, as the authors' code does.
        append_bos: put the beginning-of-sequence token between prompt and candidate, as the authors do for GPT-2.
        candidate_prefix: text before each candidate that is scored with it, such as Macaw's ``$answer$ = ``.
        number_lines: put its number before each line of a candidate that does not begin with it, for reasoning in steps.
        ties: ``fail``, or ``authors``: a tie goes to the candidate that comes second in the publisher's file.
        overlong: ``shorten``: a context that does not fit the model's window loses its end, and a candidate that does not
            fit even so is an error; ``leave_out``: the same, but tests of such a candidate count as unscored; ``whole``: no
            context is shortened, and tests of a candidate that does not fit beside it count as unscored; ``refuse``: a
            context that does not fit is an error.
        categories: exactly the categories that the data must have; None accepts any.
        context_reliance: score each candidate after the prompt without its context too, for ``pass_rate_pmi`` and ``survival``.
        tokens: keep the log-probability of every scored token, in a file beside the results.
        split: score only the tests whose source is in this split (`nnd_tasks.splits`).
        trained_on: splits that the model was trained on, such as ``quiz_design:train,summeval:train``; a set without a split
            stands for all of it.
    """

    model_config = ConfigDict(frozen=True)

    append_eos: StrictBool = False
    append_bos: StrictBool = False
    candidate_prefix: str = ""
    number_lines: StrictBool = False
    ties: Literal["fail", "authors"] = "fail"
    overlong: Literal["shorten", "refuse", "leave_out", "whole"] = "shorten"
    categories: tuple[str, ...] | None = None
    context_reliance: StrictBool = False
    tokens: StrictBool = False
    split: Literal["train", "validation", "test"] | None = None
    trained_on: str = ""

    @field_validator("trained_on")
    @classmethod
    def _names_splits(cls, value: str) -> str:
        for name in filter(None, value.split(",")):
            if not re.fullmatch(r"(?!nnd_)\w[\w.-]*(:(train|validation|test))?", name):
                raise ValueError(f"{name!r} is no split of a set; write SET:train, SET:validation, SET:test or SET")
            set_name = name.partition(":")[0]
            sets = {*list_recipes(), *built_sets()}
            hint = did_you_mean(set_name, sets - {set_name}, cutoff=0.8)
            if set_name not in sets and hint:  # a set of somebody else may have any other name
                raise ValueError(f"{name!r}: there is no such set here; {hint}")
        return value

    def scored(self, candidate: str) -> str:
        """Return the text of a candidate that a model scores; a blank one stays blank but for its prefix."""
        if self.number_lines and candidate.strip():
            lines = enumerate(candidate.split("\n"), start=1)
            candidate = "\n".join(
                line if re.match(rf"\s*{number}[.):]\s", line) else f"{number}. {line}" for number, line in lines
            )
        return self.candidate_prefix + candidate

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> Settings:
        """Read the settings out of a task's metadata.

        Raises:
            NNDError: a value that a setting cannot have, or a key that looks like a misspelled setting. Other keys are
                ignored, because the arguments of the model come in the same mapping.
        """
        names = [*cls.model_fields]
        for key in metadata.keys() - names - MODEL_ARGUMENTS:
            if meant := did_you_mean(str(key), names, cutoff=0.75):
                raise NNDError(f"metadata {key!r}: no such setting, {meant}")
        try:
            return cls.model_validate({name: metadata[name] for name in names if name in metadata})
        except ValidationError as error:
            key, expected = list_mistakes(error)[0]
            name = key.partition(".")[0]
            raise NNDError(f"metadata {name}={metadata[name]!r}: {expected}") from None


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what may be written into the results: no Python objects, such as models and tokenizers, and no secrets."""
    plain = {}
    for key, value in metadata.items():
        with suppress(TypeError, ValueError):
            json.dumps(value)
            plain[key] = value
    return dict(without_secrets(plain, None))


#: What a YAML must not set: candidates, exemplars and metrics are those of the set and of NND, and a prompt is text.
_OURS = (
    *("doc_to_choice", "doc_to_target", "metric_list", "process_results", "process_docs", "use_prompt"),
    *("doc_to_image", "doc_to_audio", "doc_to_decontamination_query"),
    *(
        "fewshot_config.samples",
        "fewshot_config.fewshot_indices",
        "fewshot_config.process_docs",
        "fewshot_config.sampler",
    ),
    *("fewshot_config.doc_to_choice", "fewshot_config.doc_to_target"),
)


def check_config(config: Mapping[str, Any], sampler: Any) -> None:
    """Check that the task uses everything that its YAML sets.

    Args:
        config: the settings of the YAML.
        sampler: our sampler of exemplars, as ``config`` names it.

    Raises:
        NNDError: the task would have to ignore one of them, or there is no prompt.
    """
    task, shots = f"task {config.get('task')}", config.get("fewshot_config") or {}
    if not isinstance(shots, Mapping):
        raise NNDError(f"{task}: its YAML sets fewshot_config to {shots!r}; expected a mapping")
    values = {**config, **{f"fewshot_config.{key}": value for key, value in shots.items() if value != sampler}}
    for key in _OURS:
        if values.get(key) is not None:
            raise NNDError(
                f"{task}: its YAML sets {key}; leave it out: candidates, exemplars and metrics are those of the set and of NND"
            )
    if values.get("output_type", "multiple_choice") != "multiple_choice":
        raise NNDError(f"{task}: output_type {values['output_type']!r}, an NND task needs multiple_choice")
    split = values.get("test_split")
    if not {values.get("fewshot_split"), values.get("fewshot_config.split")} <= {split, None}:
        raise NNDError(f"{task}: its YAML names another split for exemplars; a set has only {split}")
    if values.get("doc_to_text") is None:  # an empty one is a task without a context
        raise NNDError(f"{task}: its YAML has no doc_to_text, the template of the prompt")


# ---------------------------------------------------------------- which prompts a run takes


def check_selection(options: Mapping[str, Any]) -> None:
    """Check the options that select prompts: ``limit``, ``sample`` and ``samples`` (None takes all), and ``predict_only``.

    Raises:
        NNDError: a value selects no prompt or cannot be read, two of them are given, or no prompt is to be scored.
    """
    if options.get("predict_only"):
        raise NNDError(
            "predict_only: our tasks have scores and no predictions; leave it out, log_samples keeps all scores"
        )
    options_given = [name for name in ("sample", "samples", "limit") if options.get(name) is not None]
    for name in options_given:
        value = options[name]
        if name == "samples":
            read_samples(value)
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not ((value >= 1 and value % 1 == 0) or (name == "limit" and 0 < value < 1)):
            share = ", or a share below 1" * (name == "limit")
            raise NNDError(f"{name}={value!r:.80}: expected a whole number of prompts, 1 or more{share}")
    if len(options_given) > 1:
        raise NNDError(f"{options_given[0]} and {options_given[1]} both say which prompts are taken; leave one out")


def read_samples(samples: Any) -> Mapping[str, Sequence[Any]]:
    """Return the places of prompts that ``--samples`` names for each task; `check_places` checks them.

    Args:
        samples: a mapping, a JSON text, or the path of a JSON file.

    Raises:
        NNDError: it is none of these, or holds something else than lists of places.
    """
    expected = 'expected {"TASK": [0, 5]}, places of prompts by task, or a file that holds it'
    if isinstance(samples, (str, Path)):
        text, where = str(samples), "samples"
        if not text.lstrip().startswith(("{", "[")):
            where = f"samples={samples}"
            if not Path(text).exists():
                raise NNDError(f"{where}: there is no such file; {expected}")
            text = read_text(Path(text), limit=50_000_000)
        samples = parse_json(text, where, hint=f"; {expected}")
    lists = [*samples.values()] if isinstance(samples, Mapping) else []
    if not lists or not all(isinstance(places, (list, tuple)) and places for places in lists):
        raise NNDError(f"samples: {samples!r:.80} names no prompts; {expected}")
    return samples  # type: ignore[no-any-return]


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
                f"sample: {others[0]} is none of our tasks, so it has no categories; run it separately, with limit"
            )
        for task in ours:
            task.sample_size = sample
        return {name: sample_of(task.eval_docs, sample) for name, task in tasks.items()}
    if samples is None:
        return None
    chosen = {}
    for name, places in read_samples(samples).items():
        if name not in tasks:
            meant = did_you_mean(name, tasks) or f"there are: {some_of(list(tasks), 6, str)}"
            raise NNDError(f"samples: no task {name!r} is run; {meant}")
        chosen[name] = check_places(places, len(tasks[name].eval_docs), name)
    return chosen


def check_places(places: Sequence[Any], total: int, task: str) -> list[int]:
    """Return the places of prompts that ``--samples`` names for a task, each once, in the given order.

    Args:
        places: what ``--samples`` holds for the task.
        total: number of the task's prompts.
        task: its name.

    Raises:
        NNDError: there are none, or one is no place of a prompt.
    """
    wrong = [repr(place) for place in places if type(place) is not int or not 0 <= place < total]
    if wrong or not places:
        raise NNDError(
            f"samples: {task}: there is no prompt {', '.join(wrong)[:80]}; expected places from 0 to {total - 1}"
        )
    return list(dict.fromkeys(places))


def sample_of(documents: Any, count: int) -> list[int]:
    """Return the places of ``count`` prompts in ascending order, the first of `sample_order`; all if there are fewer."""
    categories = [{test["category"] for test in document["tests"]} for document in documents]
    return sorted(islice(sample_order([document["cluster_id"] for document in documents], categories), count))


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
