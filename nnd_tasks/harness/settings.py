"""What a user may set in a task, by its YAML and by ``--metadata``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.secrets import without_secrets
from nnd_tasks.wording import did_you_mean

#: Arguments of models whose names are like those of settings.
MODEL_ARGUMENTS = {"token"}


@dataclass(frozen=True)
class Settings:
    """What a YAML's ``metadata:`` and the command line's ``--metadata`` may set.

    Attributes:
        append_eos: score the end-of-sequence token after each candidate too, as the authors' code does.
        append_bos: put the beginning-of-sequence token between prompt and candidate, as the authors do for GPT-2.
        candidate_prefix: text before each candidate that is scored with it, such as Macaw's ``$answer$ = ``.
        number_lines: put its number before each line of a candidate that does not begin with it, for reasoning in steps.
        ties: ``fail`` or ``authors``; see `nnd_tasks.harness.metrics.decide`.
        overlong: ``shorten``: a context that does not fit the model's window loses its end; ``leave_out``: the same, and tests of
            a candidate that does not fit even so count as unscored; ``whole``: no context is shortened, and tests of a candidate
            that does not fit beside it count as unscored; ``refuse``: a context that does not fit is an error.
        categories: exactly the categories that the data must have; None accepts any.
        context_reliance: score each candidate after the prompt without its context too, for ``pass_rate_pmi`` and ``survival``.
        tokens: keep the log-probability of every scored token, in a file beside the results.
    """

    append_eos: bool = False
    append_bos: bool = False
    candidate_prefix: str = ""
    number_lines: bool = False
    ties: str = "fail"
    overlong: str = "shorten"
    categories: tuple[str, ...] | None = None
    context_reliance: bool = False
    tokens: bool = False

    def scored(self, candidate: str) -> str:
        """Return the text of a candidate that a model scores; a blank one stays blank but for its prefix."""
        if self.number_lines and candidate.strip():
            lines = enumerate(candidate.split("\n"), start=1)
            candidate = "\n".join(line if _begins(line, number) else f"{number}. {line}" for number, line in lines)
        return self.candidate_prefix + candidate

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the settings."""
        return [field.name for field in fields(cls)]

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> Settings:
        """Read the settings out of a task's metadata.

        Raises:
            NNDError: a value that a setting cannot have, or a key that looks like a misspelled setting. Other keys are
                ignored, because the arguments of the model come in the same mapping.
        """
        for key in set(metadata) - MODEL_ARGUMENTS:
            if key not in cls.names() and (meant := did_you_mean(str(key), cls.names(), cutoff=0.75)):
                raise NNDError(f"metadata {key!r}: no such setting, {meant}")
        prefix = metadata.get("candidate_prefix", "")
        if not isinstance(prefix, str):
            raise NNDError(f"metadata candidate_prefix={prefix!r}: expected text")
        categories = metadata.get("categories")
        if categories is not None and (
            isinstance(categories, str)
            or not isinstance(categories, Sequence)
            or not all(isinstance(c, str) for c in categories)
        ):
            raise NNDError(f"metadata categories={categories!r}: expected a list of names")
        return cls(
            append_eos=_flag(metadata, "append_eos"),
            append_bos=_flag(metadata, "append_bos"),
            candidate_prefix=prefix,
            number_lines=_flag(metadata, "number_lines"),
            ties=_choice(metadata, "ties", ("fail", "authors")),
            overlong=_choice(metadata, "overlong", ("shorten", "refuse", "leave_out", "whole")),
            categories=None if categories is None else tuple(categories),
            context_reliance=_flag(metadata, "context_reliance"),
            tokens=_flag(metadata, "tokens"),
        )


def settings_asked(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a task that differ from those of its YAML: what a command must give to ask the same.

    Args:
        metadata: of the task; lm-eval puts the path of the YAML there, as ``config_source``.
    """
    from nnd_tasks.harness.task_yaml import read_task_yaml  # imports this module

    source = Path(str(metadata.get("config_source", "")).removeprefix(","))  # 0.5 puts a comma there
    own = read_task_yaml(source)[0].get("metadata") if source.is_file() else None
    asked, written = Settings.read(metadata), Settings.read(own if isinstance(own, Mapping) else {})
    values = {name: getattr(asked, name) for name in Settings.names()}
    return {name: value for name, value in values.items() if value != getattr(written, name)}


def _begins(line: str, number: int) -> bool:
    """Tell whether a line begins with its number, such as ``2. `` or ``2) ``."""
    return re.match(rf"\s*{number}[.):]\s", line) is not None


def _choice(metadata: Mapping[str, Any], name: str, values: Sequence[str]) -> str:
    """Return a setting that has one of ``values``; the first is the default."""
    value = metadata.get(name, values[0])
    if value not in values:
        raise NNDError(f"metadata {name}={value!r}: expected {' or '.join(map(repr, values))}")
    return str(value)


def _flag(metadata: Mapping[str, Any], name: str) -> bool:
    value = metadata.get(name, False)
    if isinstance(value, str) and value.lower() in ("true", "false"):  # --metadata append_eos=true
        return value.lower() == "true"
    if value in (True, False):
        return bool(value)
    raise NNDError(f"metadata {name}={value!r}: expected true or false")


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be written into the results: no Python objects, such as models and tokenizers, and no secrets."""
    plain: dict[str, Any] = without_secrets({key: value for key, value in metadata.items() if _is_plain(value)}, None)
    return plain


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (str, int, float, bool))


#: What a YAML must not set, and why.
_OURS = {
    "doc_to_choice": "the candidates come from the data",
    "doc_to_target": "exemplars take a better candidate",
    "metric_list": "the metrics are those of NND",
    "process_results": "the metrics are those of NND",
    "process_docs": "a document is all tests of one prompt",
    "use_prompt": "the prompt is doc_to_text",
    "doc_to_image": "a prompt is text",
    "doc_to_audio": "a prompt is text",
    "doc_to_decontamination_query": "nothing is compared with training data",
}


def _is_ours(sampler: Any) -> bool:
    from nnd_tasks.harness.prompts import ClusterSampler  # imports lm-eval

    return isinstance(sampler, type) and issubclass(sampler, ClusterSampler)


def check_config(config: Mapping[str, Any]) -> None:
    """Raise NNDError for a YAML whose settings the task would have to ignore."""
    name = config.get("task")
    for key, why in _OURS.items():
        if config.get(key) is not None:
            raise NNDError(f"task {name}: its YAML sets {key}, which an NND task does not take: {why}")
    if config.get("output_type", "multiple_choice") != "multiple_choice":
        raise NNDError(f"task {name}: output_type {config['output_type']!r}, an NND task needs multiple_choice")
    given = config.get("fewshot_config") or {}
    for key in ("samples", "fewshot_indices", "doc_to_target", "doc_to_choice", "process_docs"):
        if isinstance(given, Mapping) and given.get(key) is not None:
            raise NNDError(
                f"task {name}: its YAML sets fewshot_config.{key}; remove it; exemplars always come from the set"
            )
    if isinstance(given, Mapping) and "sampler" in given and not _is_ours(given["sampler"]):
        raise NNDError(
            f"task {name}: its YAML sets fewshot_config.sampler; exemplars must not depend on --limit and --samples, so the "
            "sampler is ours"
        )
    splits = {config.get("fewshot_split"), given.get("split") if isinstance(given, Mapping) else None, None}
    if splits - {config.get("test_split"), None}:
        raise NNDError(
            f"task {name}: its YAML names another split for exemplars; a set has only {config.get('test_split')}"
        )
    if config.get("doc_to_text") is None:  # an empty one is a task without a context
        raise NNDError(f"task {name}: its YAML has no doc_to_text, the template of the prompt")


def check_categories(declared: Sequence[str] | None, present: set[str], task: str | None, where: str) -> None:
    """Raise NNDError if the data has other categories than the YAML declares.

    Args:
        declared: the setting ``categories``; None allows any.
        present: the categories of the data.
        task: name of the task.
        where: where the data comes from.
    """
    if declared is None:
        return
    faults = []
    if undeclared := sorted(present - set(declared)):
        faults.append(f"has the undeclared categories {undeclared}")
    if absent := sorted(set(declared) - present):
        faults.append(f"lacks the declared {absent}")
    if faults:
        raise NNDError(
            f"{where} {' and '.join(faults)}; task {task} is made for other data. Set `metadata: {{version: 1-A}}` in a YAML "
            "of your own to accept the categories of the data"
        )
