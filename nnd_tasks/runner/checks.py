"""All checks of a run before its model is loaded, in the order of their cost.

`check_words` reads the command line, `check_options` what it says: both need neither torch nor lm-eval's evaluator.
`check_model`, `check_selection` and `check_task_names` look at the arguments of a run from Python as well. With the tasks
loaded, `select_prompts`, `check_processes` and `check_output` follow, and `NNDTask.prepare` checks the tokenizer.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import nnd_home, task_yamls
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, expand, read_text
from nnd_tasks.harness.settings import Settings, check_limit, check_places
from nnd_tasks.runner.adapter import LM, Words, model_types, words_by_option
from nnd_tasks.runner.register import include_paths
from nnd_tasks.runner.saving import file_names, results_folder
from nnd_tasks.wording import did_you_mean, some_of
from nnd_tasks.yaml_json import parse_json

#: Models of transformers, as lm-eval and we name them; and all that fail without ``device`` where torch has no CUDA.
HF = ("hf", "hf-auto", "huggingface", "hf-shared-prefix")
ON_TORCH = (*HF, "nnd_mlm", "nnd_reward")
_VLLM = ("vllm", "vllm-shared-prefix")

# ---------------------------------------------------------------- the words of the command line

#: Options of ``KEY=VALUE`` words; all of them are merged.
_PAIRS = {"model_args", "metadata", "gen_kwargs"}
#: Further options that may be given several times; their values are put together.
_LISTS = {*_PAIRS, "tasks", "hf_hub_log_args", "wandb_args", "wandb_config_args", "trackio_args"}
_CLOSING = {"'": "'", '"': '"', "[": "]", "(": ")", "{": "}"}


def check_words(arguments: Sequence[str]) -> None:
    """Check the words of a command line, before lm-eval reads them.

    Raises:
        NNDError: an option of which only the last value would count is given twice, so is a key of ``--model_args``, or a
            quote or bracket there is not closed.
    """
    given: dict[str, list[Words]] = {}
    for words in words_by_option(arguments):
        given.setdefault(words.option, []).append(words)
    for option, times in given.items():
        if len(times) > 1 and option not in _LISTS and times[0].values:
            raise NNDError(f"--{option} is given {len(times)} times; give it once")
        if option in _PAIRS:
            values = [value for words in times for value in words.values if not value.lstrip().startswith("{")]
            for value in values:
                _check_closed(value, f"--{option}")
            _check_keys(values, f"--{option}")


def _check_closed(text: str, option: str) -> None:
    """Raise NNDError if a quote or bracket is open at the end; an apostrophe in the last of the values opens none."""
    waiting: list[tuple[str, int]] = []
    for place, letter in enumerate(text):
        if waiting and letter == _CLOSING[waiting[-1][0]]:
            waiting.pop()
        elif letter in _CLOSING and not (waiting and waiting[-1][0] in "'\""):
            waiting.append((letter, place))
    for letter, place in waiting:
        begins_value = place == 0 or text[place - 1] == "="
        if begins_value or "," in text[place:]:
            raise NNDError(
                f"{option}: {letter} is opened and not closed in {text[place:]!r:.80}; close it or leave it out"
            )


def _check_keys(values: Iterable[str], option: str) -> None:
    keys = [key for value in values for key in re.findall(r"(?:^|,)\s*(\w+)\s*=", value)]
    for key in keys:
        if keys.count(key) > 1:
            raise NNDError(f"{option}: {key} is given {keys.count(key)} times; give it once")


# ---------------------------------------------------------------- what the command line says


def check_options(options: Any) -> None:
    """Check lm-eval's configuration of a run (`EvaluatorConfig`), before its evaluator is imported.

    Raises:
        NNDError: an option has a value that cannot be taken.
    """
    nnd_home()  # raises where NND_HOME is no folder
    check_model_arguments(options.model, options.model_args, options.metadata)
    check_selection({name: getattr(options, name) for name in ("limit", "samples", "predict_only")})
    entries = [options.tasks] if isinstance(options.tasks, str) else options.tasks
    names = [name for entry in entries if isinstance(entry, str) for name in entry.split(",")]
    _check_our_names(names, options.include_path)
    if names and all(name.startswith("nnd_") for name in names):  # other tasks may take settings of the same names
        Settings.read(options.metadata)


def _check_our_names(names: Iterable[str], include_path: str | None) -> None:
    """Raise NNDError for a name that begins like ours and stands in no YAML, before lm-eval's thousands of them are read."""
    folders = [*include_paths(), *([Path(include_path)] if include_path else [])]
    paths = [path for folder in folders for path in task_yamls(folder)]
    known: set[str] = set()
    for path in paths:
        with suppress(OSError):
            known.update(re.findall(r"nnd_[\w-]+", path.read_text(encoding="utf-8", errors="replace")))
    for name in names:
        if name.startswith("nnd_") and name not in known and not _is_pattern(name) and not Path(name).exists():
            raise_no_task(name, [path.stem for path in paths])


def check_model_arguments(model: Any, arguments: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Check the arguments of a model, and what the metadata say of its tokenizer.

    Args:
        model: what ``--model`` names, or a ready-made model.
        arguments: the parsed ``--model_args``.
        metadata: the parsed ``--metadata``.

    Raises:
        NNDError: a folder is not there or holds no model, or there is no such type of numbers.
    """
    given = {**metadata, **arguments}
    for key in ("pretrained", "model", "tokenizer", "peft", "delta"):
        path = given.get(key)
        if isinstance(path, str) and path.startswith(("/", "./", "../", "~")) and not expand(path).exists():
            raise NNDError(f"{path}: there is no such model or tokenizer folder; --model_args names it")
    if model not in (*ON_TORCH, *_VLLM):
        return
    for key in ("dtype", "softmax_dtype", "mixed_precision_dtype"):
        _check_dtype(key, arguments.get(key))
    pretrained = arguments.get("pretrained")
    if isinstance(pretrained, str) and not {"subfolder", "gguf_file"} & arguments.keys():
        _check_holds_model(pretrained)


#: Types of torch that weights can have, as both names of each.
_DTYPES = ("auto", "float32", "float", "float64", "double", "float16", "half", "bfloat16")


def _check_dtype(key: str, dtype: Any) -> None:
    if not isinstance(dtype, str) or dtype in _DTYPES or dtype.startswith("float8_"):
        return
    hint = did_you_mean(dtype.removeprefix("torch."), _DTYPES, at_most=2) or f"there are: {', '.join(_DTYPES)}"
    raise NNDError(f"{key}={dtype}: no such type of numbers; {hint}")


def _check_holds_model(pretrained: str) -> None:
    """Raise NNDError for a folder of checkpoints that is no model itself."""
    folder = expand(pretrained)
    own = ("config.json", "adapter_config.json", "params.json")
    if not folder.is_dir() or any((folder / name).is_file() for name in own) or list(folder.glob("*.gguf")):
        return
    with suppress(OSError):
        below = {path.parent for name in own[:2] for path in folder.glob(f"*/{name}")}
        names = [str(path) for path in sorted(below, key=lambda path: (len(path.name), path.name))]
        if names:
            raise NNDError(
                f"pretrained={pretrained}: is a folder of models and none itself; name one: {some_of(names, 6, str)}"
            )


# ---------------------------------------------------------------- which prompts


def check_selection(options: Mapping[str, Any]) -> None:
    """Check the options that select prompts: ``limit``, ``sample`` and ``samples`` (None takes all), and ``predict_only``.

    Raises:
        NNDError: a value selects no prompt or cannot be read, two of them are given, or no prompt is to be scored.
    """
    if options.get("predict_only"):
        raise NNDError(
            "--predict_only: our tasks have scores and no predictions; leave it out, --log_samples keeps all scores"
        )
    given = [name for name in ("sample", "samples", "limit") if options.get(name) is not None]
    for name in given:
        if name == "samples":
            read_samples(options[name])
        else:
            check_limit(options[name], name)
    if len(given) > 1:
        raise NNDError(f"--{given[0]} and --{given[1]} both say which prompts are taken; leave one out")


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
    return {str(task): check_places(places, None, str(task)) for task, places in samples.items()}


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
        return {name: task.sample(sample) for name, task in tasks.items()}
    if samples is None:
        return None
    places = read_samples(samples)
    for name in places:
        if name not in tasks:
            meant = did_you_mean(name, tasks) or f"there are: {some_of(list(tasks), 6, str)}"
            raise NNDError(f"--samples: no task {name!r} is run; {meant}")
        places[name] = check_places(places[name], len(tasks[name].eval_docs), name)
    return places


# ---------------------------------------------------------------- the model and the tasks


def check_model(model: Any, arguments: Mapping[str, Any]) -> None:
    """Check that a model is named, and of a type that gives likelihoods.

    Args:
        model: what ``--model`` names, or a ready-made model.
        arguments: its arguments.

    Raises:
        NNDError: it is not.
    """
    if not isinstance(model, (str, LM)):
        raise NNDError(
            f"{type(model).__name__} is not a model of lm-eval; for a model of transformers pass model='hf', "
            "model_args={'pretrained': MODEL, 'tokenizer': TOKENIZER}"
        )
    if isinstance(model, LM):
        return
    if model not in (known := model_types()):
        hint = did_you_mean(model, known) or f"there are: {', '.join(known)}"
        raise NNDError(f"--model {model}: lm-eval has no such model type; {hint}")
    if "-chat" in model:
        raise NNDError(
            f"--model {model}: chat APIs give no likelihoods of a given text; take --model local-completions with a server's "
            "completions endpoint, or load the model with --model hf"
        )
    if model in ON_TORCH and arguments.get("pretrained", "") == "":
        raise NNDError(f"--model {model}: --model_args has no pretrained=NAME_OR_FOLDER; add it")


def check_task_name(name: str, manager: Any) -> None:
    """Raise NNDError if there is no task, group or tag ``name``; the error names those that are similar."""
    names = list(manager.all_tasks)
    if name not in names and not _is_pattern(name):
        raise_no_task(name, names)


def raise_no_task(name: str, names: Sequence[str]) -> None:
    """Raise NNDError for a name that no task has; ours are offered first: among lm-eval's thousands some are like anything."""
    ours = [task for task in names if task.startswith("nnd")]
    hint = did_you_mean(name, ours, at_most=3, cutoff=0.7) or did_you_mean(name, names, at_most=3, cutoff=0.8)
    raise NNDError(f"there is no task {name!r}; {hint or '`nnd run ls tasks` lists them'}")


def _is_pattern(name: str) -> bool:
    return any(mark in name for mark in "*?[")


def check_processes(model: Any, arguments: Mapping[str, Any], *, tokens: bool) -> None:
    """Raise NNDError if a launcher has started several processes among which lm-eval does not divide the documents rightly.

    Upstream: `HFLM` (lm_eval/models/huggingface.py:465) does so where it sees several GPUs, and numbers the processes within a
    machine.

    Args:
        model: what ``--model`` names, or a ready-made model, which is scored in the process that has it.
        arguments: its arguments.
        tokens: whether token scores are kept, which lm-eval does not gather.
    """
    count = os.environ.get("WORLD_SIZE", "1")
    if count == "1" or not isinstance(model, str):
        return
    if arguments.get("tp_plan") or arguments.get("distributed_executor_backend") == "external_launcher":
        return  # the processes hold parts of one model, and each sees every request
    import torch

    here = os.environ.get("LOCAL_WORLD_SIZE", count)
    if tokens or model not in HF or here != count or torch.accelerator.device_count() < 2:
        raise NNDError(
            f"{count} processes were started, and lm-eval divides documents among processes only for --model hf on several "
            "GPUs of one machine, without metadata tokens; start one process (on a CPU it uses all cores)"
        )


def check_output(output_path: str | None, folder: str | None, tasks: Iterable[str]) -> None:
    """Write and remove a file of each name that the run will write, as lm-eval would only log an error, after the run.

    Args:
        output_path: the option.
        folder: name of the model's folder, see `folder_name`.
        tasks: names of the tasks.

    Raises:
        NNDError: one cannot be written.
    """
    place = results_folder(output_path, folder)
    if output_path is None or place is None:
        return
    with changing(f"--output_path {output_path}"):
        missing = [path for path in (place, *place.parents) if not path.exists()]
        place.mkdir(parents=True, exist_ok=True)
        try:
            for name in file_names(output_path, tasks):
                with tempfile.TemporaryDirectory(dir=place) as beside:
                    Path(beside, name).touch()
        finally:
            for path in missing:  # a run that ends with an error leaves no empty folders
                with suppress(OSError):
                    path.rmdir()
