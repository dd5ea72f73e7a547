"""Make a set from a multiple-choice task of lm-eval: its right choice is better than each wrong one."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nnd_tasks.contribute.new import Draft, draft_set
from nnd_tasks.contribute.template_process import TemplateProcess
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import write_texts
from nnd_tasks.run.adapter import task_manager, templates_filled_by
from nnd_tasks.schema import slug
from nnd_tasks.tables.cells import FILE
from nnd_tasks.task.task_files import read_task_yaml
from nnd_tasks.text import some_of

#: Category of the tests where no column of the documents is named.
WRONG_CHOICE = "wrong_choice"
#: Seed of ``lm_eval run`` for the examples of a task.
_SEED = 1234
#: Keys of a recipe that a user may set beside those of a task.
_FREE = ("category", "facts")


def draft_task(
    name: str,
    task: str,
    keys: Mapping[str, Any],
    *,
    include_path: str = "",
    trust: bool = False,
    replace: bool = False,
) -> Draft:
    """Make the tests of a set from the documents of a task, or of each task of a group, without writing anything.

    A document is a prompt: its context as lm-eval renders it, with the examples of the task. A group gives a config for each
    task.

    Args:
        name: of the set.
        task: a task, group or tag of lm-eval.
        keys: of the recipe: ``category``, a column of the documents, and ``facts``.
        include_path: a folder with further tasks.
        trust: run code that tasks from there name.
        replace: as for `draft_set`.

    Raises:
        NNDError: there is no such task, it cannot be loaded, it has no choices to compare, or the tasks of a group are not of
            one form.
    """
    if taken := [key for key in keys if key not in _FREE]:
        raise NNDError(f"--{taken[0].replace('_', '-')}: a task says itself what is better; leave it out")
    with ExitStack() as stack:
        if include_path and not trust:
            process = stack.enter_context(TemplateProcess())
            stack.enter_context(templates_filled_by(partial(process.fill, where=f"task {task}")))
        tasks = _load_tasks(task, include_path, trust=trust)
        rows = {loaded: [*_read_choices(loaded, keys.get("category"))] for loaded in tasks}
    files = {
        f"{slug(loaded.config.task)}.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows[loaded]) for loaded in tasks
    }
    forms = {(loaded.config.target_delimiter, any("context" in row for row in rows[loaded])) for loaded in tasks}
    if len(files) < len(tasks) or len(forms) > 1:
        names = some_of([loaded.config.task for loaded in tasks], 12, str)
        raise NNDError(
            f"task:{task}: its tasks differ in target_delimiter, some have no context, or two names differ only in signs; make a "
            f"set of each: {names}"
        )
    [(delimiter, has_context)] = forms
    keys_of_task = {
        **({"context": "context"} if has_context else {}),
        **({"config": FILE} if len(tasks) > 1 else {}),
        "chosen": "right",
        "rejected": "wrong",
        "category": "category",
        "field": {"doc_id": "doc_id"},
        "missing": [],  # a choice may be "None"
        "candidates": "choices",
        "prompt": ["{{context}}", delimiter],
        "facts": keys.get("facts", {}),
    }
    with tempfile.TemporaryDirectory(prefix="nnd-") as folder:
        write_texts({Path(folder) / file: text for file, text in files.items()})
        draft = draft_set(name, folder, keys_of_task, facts=_describe_tasks(task, tasks), replace=replace)
    draft.beside = files
    for loaded in tasks:
        draft.built_set.notes += _describe_unused(loaded.config.task, rows[loaded])
    return draft


def _describe_unused(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a note on the documents whose outcome is not that of the task, as a choice of them makes no test."""
    no_wrong = [row["doc_id"] for row in rows if row["wrong"] is None]
    blank = [
        row["doc_id"]
        for row in rows
        if "" in {row[side].strip() for side in ("right", "wrong") if row[side] is not None}
    ]
    for numbers, what in ((no_wrong, "without a wrong choice"), (blank, "with an empty choice")):
        if numbers:
            shown = some_of([*dict.fromkeys(numbers)], 12, str)
            yield f"task {name}, document {shown}: {what}, of which no test is made; the task's own accuracy counts it"


def _describe_tasks(name: str, tasks: Sequence[Any]) -> dict[str, Any]:
    """The facts of the card that the tasks and their documents tell."""
    sources = [*dict.fromkeys(task.config.dataset_path for task in tasks)]
    infos = [getattr(next(iter(task.dataset.values())), "info", None) for task in tasks]
    facts: dict[str, Any] = {
        "title": f"The task {name} of lm-eval",
        "summary": f"{some_of(sources, 12, str)}, as the task {name} of lm-eval {version('lm_eval')} shows it to a model.",
        "kind": "multiple choice",
        "task_category": "multiple-choice",
        "errors": "made",
        "judges": "nobody: the authors of the benchmark say which choice is right",
        "rule": "The right choice of a document is better than each wrong one.",
        "fields": {"doc_id": "number of the document in the task, from 0"},
    }
    if len(sources) == 1 and sources[0].count("/") == 1:
        facts["homepage"] = f"https://huggingface.co/datasets/{sources[0]}"
    for fact in ("homepage", "license", "citation"):
        told = {getattr(info, fact, "") for info in infos}
        if len(told) == 1 and any(told):
            facts[fact] = told.pop()
    return facts


# ---------------------------------------------------------------- tasks


def _load_tasks(name: str, include_path: str, *, trust: bool) -> list[Any]:
    """Load the task, or those of a group or tag."""
    manager = task_manager(include_path, [name])
    if not trust:
        for path in _list_yamls(manager, name):
            _, code = read_task_yaml(path)
            if code:
                raise NNDError(
                    f"{path}: names code ({some_of(code, 3, str)}), which would run with your rights; read it, then add --trust"
                )
    try:
        return [*manager.load([name])["tasks"].values()]
    except NNDError:
        raise
    except Exception as error:  # lm-eval, datasets and the hub raise many kinds
        raise NNDError(f"task:{name}: lm-eval cannot load it ({reason_of(error)})") from error


def _list_yamls(manager: Any, name: str) -> Iterator[Path]:
    """Yield the YAMLs that a task, group or tag is made of, but for those that come with lm-eval."""
    installed = Path(inspect.getfile(type(manager))).parent
    names, seen = [name], set[str]()
    while names:
        name = names.pop()
        if name in seen or name not in manager.task_index:
            continue
        seen.add(name)
        entry = manager.task_index[name]
        if entry.yaml_path is None:
            names += entry.tags
            continue
        names += _list_members(entry.cfg)
        if not entry.yaml_path.resolve().is_relative_to(installed):
            yield entry.yaml_path


def _list_members(value: Any) -> Iterator[str]:
    """Yield the names of tasks and groups in what a YAML says under ``task`` and ``group``."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _list_members(item)
    elif isinstance(value, dict):
        yield from _list_members([value.get("task"), value.get("group")])


# ---------------------------------------------------------------- documents


def _read_choices(task: Any, category: str | None) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair of a right and a wrong choice; one without a wrong choice, if a document has none.

    Raises:
        NNDError: the task has no single right choices, or a document none that is right.
    """
    name = task.config.task
    if task.OUTPUT_TYPE != "multiple_choice":
        raise NNDError(f"task {name}: is {task.OUTPUT_TYPE}, not multiple_choice, so that it has no choices to compare")
    if isinstance(task.doc_to_text(task.eval_docs[0]), int):
        raise NNDError(f"task {name}: its choices are in the context (several inputs), and a test has one context")
    if task.config.process_results is not None:
        raise NNDError(
            f"task {name}: counts answers by code of its own (process_results), so no choice is known to be right"
        )
    task.set_fewshot_seed(_SEED)
    task.build_all_requests()
    contexts = {request.doc_id: (request.doc, request.args[0]) for request in reversed(task.instances)}
    for number, (doc, context) in sorted(contexts.items()):
        if category is not None and category not in doc:
            raise NNDError(
                f"task {name}: its documents have no column {category!r}; there are: {some_of([*doc], 40, str)}"
            )
        choices, target = task.doc_to_choice(doc), task.doc_to_target(doc)
        right = {_find_choice(item, choices) for item in (target if isinstance(target, list) else [target])}
        if not right or None in right:
            raise NNDError(
                f"task {name}, document {number}: {target!r:.60} is none of its {len(choices)} choices; has its split answers?"
            )
        row = {"doc_id": str(number), "category": doc[category] if category else WRONG_CHOICE}
        row |= {"context": context} if context else {}  # an empty one is no context
        wrong = [choice for i, choice in enumerate(choices) if i not in right] or [None]
        for i, choice in enumerate(choices):
            yield from ({**row, "right": choice, "wrong": worse} for worse in wrong if i in right)


def _find_choice(target: Any, choices: list[str]) -> int | None:
    """The place of a right choice that a task gives as a number or as its text; None where it is none of them."""
    if isinstance(target, str):
        return choices.index(target) if target in choices else None
    return target if isinstance(target, int) and 0 <= target < len(choices) else None
