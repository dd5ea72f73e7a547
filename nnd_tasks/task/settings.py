"""What a user may set in a task, by its YAML and by ``--metadata``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from nnd_tasks.errors import NNDError
from nnd_tasks.redact import without_secrets
from nnd_tasks.text import did_you_mean

#: Keys of a YAML that say who reads the candidates; see `Asked` and `AskedInWriting` of `nnd_tasks.asking`.
READER_KEYS = ("reader", "question", "questions", "answers", "tie", "scale", "ending", "repeats")
#: Begins a stop sequence that nobody writes, which tells several answers to one question apart.
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

    append_eos: bool = False
    append_bos: bool = False
    candidate_prefix: str = ""
    number_lines: bool = False
    ties: Literal["fail", "authors"] = "fail"
    overlong: Literal["shorten", "refuse", "leave_out", "whole"] = "shorten"
    categories: tuple[str, ...] | None = None
    context_reliance: bool = False
    tokens: bool = False
    split: Literal["train", "validation", "test"] | None = None
    trained_on: str = ""

    @field_validator("trained_on")
    @classmethod
    def _names_splits(cls, value: str) -> str:
        for name in filter(None, value.split(",")):
            if not re.fullmatch(r"(?!nnd_)\w[\w.-]*(:(train|validation|test))?", name):
                raise ValueError(f"{name!r} is no split of a set; write SET:train, SET:validation, SET:test or SET")
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
            name, expected = first_mistake(error)
            raise NNDError(f"metadata {name}={metadata[name]!r}: {expected}") from None


def first_mistake(error: ValidationError) -> tuple[str, str]:
    """Return the key of the first wrong value, and what was expected, in plain words."""
    mistake = error.errors()[0]
    plain = mistake["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    return str(mistake["loc"][0]), plain.replace("a valid tuple", "a list of names")


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what may be written into the results: no Python objects, such as models and tokenizers, and no secrets."""
    return dict(without_secrets({key: value for key, value in metadata.items() if _is_plain(value)}, None))


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


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
