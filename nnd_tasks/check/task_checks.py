"""Do the tasks of a set load in lm-eval, declare the categories that there are, and render a prompt for every context?"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from nnd_tasks.check.findings import EXAMPLES, Finding, Row, finding, shown
from nnd_tasks.check.loading import Config, Loaded
from nnd_tasks.check.yamls import Function, Yaml, alone
from nnd_tasks.datasets import how_to_build
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.tables import fingerprint
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    import datasets

    from nnd_tasks.harness.task import NNDTask

_CLASS = "nnd_tasks.harness.task.NNDTask"
_TEMPLATE = "doc_to_text: "  #: stands before the reason in errors of the task class
_CORRECT = "correct doc_to_text in the YAML, or fill the field for every test"
#: A task with one of these findings is not run.
_STOPS = {
    *("task_invalid", "task_code", "task_plain", "prompt_invalid"),
    *("categories_undeclared", "categories_absent"),
}


class Documents:
    """The documents of a set for the harness, made once per config however many tasks read it.

    Args:
        loaded: the set.
        configs: those whose columns are in order.
    """

    def __init__(self, loaded: Loaded, configs: Mapping[str, Config]) -> None:
        self.loaded, self.configs = loaded, configs
        self._made: dict[str, datasets.Dataset] = {}
        self._origin: dict[str, tuple[datasets.Dataset, dict[str, Any], str]] = {}

    def tests(self, path: str, name: str | None, split: str, kwargs: Mapping[str, Any]) -> Any:
        """Replace `nnd_tasks.harness.documents.load_tests`: return the set that is checked, wherever it lies."""
        import datasets

        name = name or self.loaded.default
        if name not in self._origin:
            table = self.configs[name].table
            origin = {"dataset": path, "config": name, "local": True, "fingerprint": fingerprint(table)}
            self._origin[name] = datasets.Dataset(table), origin, f"config {name}"
        return self._origin[name]

    def documents(self, tests: datasets.Dataset, where: str) -> datasets.Dataset:
        """Replace `nnd_tasks.harness.documents.cluster_documents`: make the documents of a config only once."""
        from nnd_tasks.harness.documents import cluster_documents

        if where not in self._made:
            self._made[where] = cluster_documents(tests, where)
        return self._made[where]

    @contextmanager
    def served(self) -> Iterator[None]:
        """Let tasks that are loaded in this block read these documents.

        They do not compare categories, which `check_tasks` does. Templates that lm-eval renders itself, such as a
        description, are rendered in a sandbox from which they cannot reach Python.
        """
        from nnd_tasks.harness import task
        from nnd_tasks.runner.patches import sandboxed

        with ExitStack() as stack:
            stack.enter_context(sandboxed())
            stack.enter_context(patch.object(task, "load_tests", self.tests))
            stack.enter_context(patch.object(task, "cluster_documents", self.documents))
            stack.enter_context(patch.object(task.NNDTask, "_check_categories", lambda *_: None))
            stack.enter_context(silent_log())
            yield


@contextmanager
def silent_log() -> Iterator[None]:
    """Silence the log of lm-eval, which is no part of the report."""
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def check_tasks(
    documents: Documents, yamls: Collection[Yaml], skip: Collection[str], tell: Callable[[str], object]
) -> tuple[list[Finding], list[Yaml]]:
    """Check the tasks that read a set.

    Args:
        documents: of the set.
        yamls: its tasks.
        skip: names of tasks that are left out.
        tell: is called with the name of each task before it is loaded.

    Returns:
        The findings, and the tasks that a model can run.
    """
    loaded, findings = documents.loaded, list[Finding]()
    if not yamls:
        message = f"no task reads nnd/{loaded.name}"
        findings.append(finding("task_missing", message, "write a YAML for it, or name its folder with --tasks"))
    used = {task.config or loaded.default for task in yamls}
    for name in loaded.configs:
        if yamls and name not in used:
            fix = "none, if it is meant for tasks of others"
            findings.append(finding("config_without_task", f"no task reads the config {name}", fix, config=name))
    runnable = []
    for task in yamls:
        if task.name in skip:
            continue
        tell(task.name)
        faults = list(_check(task, documents))
        findings += faults
        if not {one.code for one in faults} & _STOPS and (task.config or loaded.default) in documents.configs:
            runnable.append(task)
    return _together(findings), runnable


def _check(task: Yaml, documents: Documents) -> Iterator[Finding]:
    loaded, configs = documents.loaded, documents.configs
    name = task.config or loaded.default
    if name not in loaded.known:
        yield _no_config(task, name, loaded)
        return
    if task.foreign:
        message = f"{task.name} names {', '.join(task.foreign)}: loading it could run code that is not of this package"
        yield finding("task_code", message, "take it out; or read that code, then check the task with lm_eval validate")
        return
    kind = task.settings.get("class")
    if not isinstance(kind, Function) or kind != _CLASS:
        message = f"{task.name} is of another class than {_CLASS}: it was not checked"
        yield finding("task_plain", message, "include the _base of `nnd tasks-dir`, unless it is meant to be plain")
        return
    if name not in configs:
        return  # this config is not checked, or its columns are faulty
    yield from _categories(task, configs[name])
    try:
        made = load_task(task, documents)
    except Exception as error:  # lm-eval raises many kinds for a wrong YAML
        yield _unloadable(task.name, error, name)
        return
    with documents.served():
        yield from _others(task.name, made, name) or _prompts(task.name, made, configs[name])


def _no_config(task: Yaml, config: str, loaded: Loaded) -> Finding:
    """Return the finding for a task whose config is not there; some of ours are only built with an option."""
    from nnd_tasks.datasets import tasks_dir

    if tasks_dir() in task.path.parents:
        message = f"{task.name} reads the config {config}, which is not built here"
        return finding("config_not_built", message, f"none, or build it: {how_to_build(loaded.name, config)}")
    message = f"{task.name} reads the config {config}, which is not there (there are {', '.join(loaded.known)})"
    return finding("task_invalid", message, "name one of them as dataset_name")


def _unloadable(name: str, error: Exception, config: str) -> Finding:
    """Return the finding for a task that lm-eval cannot load; it renders the first prompt while it loads."""
    reason = _reason(error)
    wrong = isinstance(error, NNDError) and (_TEMPLATE in str(error) or "is unsafe" in str(error))
    if wrong or isinstance(error, MemoryError):
        return finding("prompt_invalid", f"{name} cannot render a prompt: {reason}", _CORRECT, config=config)
    return finding("task_invalid", f"{name} cannot be loaded: {reason}", "correct the YAML", config=config)


def load_task(task: Yaml, documents: Documents) -> NNDTask:
    """Return a task as lm-eval loads it, from a copy of its YAML: no other file of its folder is looked at.

    Raises:
        NNDError: its settings are wrong; lm-eval raises many other kinds.
    """
    from lm_eval.tasks import TaskManager

    with documents.served(), alone(task) as folder:
        manager = TaskManager(include_path=[folder], include_defaults=False)
        made: NNDTask = manager.load([task.name])["tasks"][task.name]
    return made


def _categories(task: Yaml, config: Config) -> Iterator[Finding]:
    metadata = task.settings.get("metadata")
    declared = metadata.get("categories") if isinstance(metadata, dict) else None
    if declared is not None and not (isinstance(declared, list) and all(isinstance(name, str) for name in declared)):
        return  # the task says so when it is loaded
    if declared is None:
        message = f"{task.name} declares no categories: it takes any data"
        fix = "list them under metadata: categories, so that other data are refused"
        yield finding("categories_open", message, fix, config=config.name)
        return
    categories = config.columns["category"]
    unknown = sorted(set(categories) - set(declared))
    if unknown:
        message = f"{task.name} does not declare {', '.join(unknown)}"
        rows = config.rows([i for i, name in enumerate(categories) if name in set(unknown)])
        fix = "add them to metadata: categories, or correct the data"
        yield finding("categories_undeclared", message, fix, rows=rows, config=config.name)
    absent = sorted(set(declared) - set(categories))
    if absent:
        message = f"{task.name} declares {', '.join(absent)}, of which there are no tests"
        fix = "take them out of metadata: categories, or correct the data"
        yield finding("categories_absent", message, fix, config=config.name)


def _others(name: str, task: NNDTask, config: str) -> list[Finding]:
    """Render the texts around prompts, and the prompt of a few-shot example, for the first document."""
    doc, shots = task.eval_docs[0], task.fewshot_cfg
    renderings: dict[str, Callable[[], Any]] = {
        "description": lambda: task.resolve_field(doc, task.config.description),
        "gen_prefix": lambda: task.resolve_field(doc, task.config.gen_prefix),
        "fewshot_config.gen_prefix": lambda: task.resolve_field(doc, shots.gen_prefix),
        "fewshot_config.doc_to_text": lambda: task.doc_to_text(doc, shots.doc_to_text),
    }
    for key, render in renderings.items():
        try:
            render()
        except Exception as error:  # a template may call anything
            message = f"{name} cannot render {key}: {_reason(error)}"
            return [finding("prompt_invalid", message, f"correct {key} in the YAML", config=config)]
    return []


def _prompts(name: str, task: NNDTask, config: Config) -> Iterator[Finding]:
    """Render the prompt of every document."""
    first: dict[str, int] = {}
    for i, cluster in enumerate(config.columns["cluster_id"]):
        first.setdefault(cluster, i)
    prompts: dict[str, list[int]] = defaultdict(list)
    empty, without, contexts = [], [], 0
    for doc in task.dataset[task.config.test_split].remove_columns(["candidates", "tests"]):
        row, context = first[doc["cluster_id"]], doc["context"].strip()
        try:
            prompt = task.doc_to_text(doc)
        except Exception as error:  # a template may call anything
            message = f"{name} cannot render a prompt: {_reason(error)}"
            yield finding("prompt_invalid", message, _CORRECT, rows=config.rows([row]), config=config.name)
            return
        if context:  # a set without contexts has one prompt for all
            prompts[prompt].append(row)
            contexts += 1
            if not prompt.strip():
                empty.append(row)
            elif context not in prompt:
                without.append(row)
    yield from _poor(name, config, empty, without, contexts)
    again = [row for prompt, rows in prompts.items() if prompt.strip() for row in rows[1:]]
    if again:
        message = f"{name} gives {counted(len(again), 'cluster_id')} the prompt of another one"
        fix = "let doc_to_text use every prompt field; standard errors take cluster_ids for independent prompts"
        yield finding("prompt_repeated", message, fix, rows=_shown(config, again), count=len(again), config=config.name)


def _poor(name: str, config: Config, empty: list[int], without: list[int], contexts: int) -> Iterator[Finding]:
    """Report empty prompts, and a template that leaves the context of every document out."""
    if empty:
        message = f"{name} gives an empty prompt for {counted(len(empty), 'context')}"
        rows = _shown(config, empty)
        yield finding("prompt_empty", message, "correct doc_to_text", rows=rows, count=len(empty), config=config.name)
    if without and len(without) + len(empty) == contexts:
        message = f"{name} leaves the context out of its prompts"
        fix = "use {{context}} in doc_to_text, unless that is meant"
        rows = _shown(config, without)
        yield finding("prompt_without_context", message, fix, rows=rows, count=len(without), config=config.name)


def _shown(config: Config, rows: list[int]) -> list[Row]:
    rows = rows[:EXAMPLES]
    return config.rows(rows, {i: shown(config.columns["context"][i]) for i in rows})


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it asks for too much memory"
    text = typed_reason_of(error)
    return text.partition(_TEMPLATE)[2] or text


def _together(findings: list[Finding]) -> list[Finding]:
    """Return findings with all notes of the code ``categories_open`` joined into one."""
    open_ = [one for one in findings if one.code == "categories_open"]
    if len(open_) < 2:
        return findings
    names = ", ".join(one.message.split(" ", 1)[0] for one in open_)
    one = finding("categories_open", f"{names} declare no categories: they take any data", open_[0].fix)
    return [*(other for other in findings if other.code != "categories_open"), one]


def task_folders(extra: Collection[Path]) -> list[Path]:
    """Return where tasks are looked for: ours, the user's, and ``extra``.

    Raises:
        NNDError: a folder of ``extra`` is not there.
    """
    from nnd_tasks.runner.register import include_paths

    for folder in extra:
        if not folder.is_dir():
            raise NNDError(f"--tasks {folder}: there is no such folder")
    return [*include_paths(), *extra]
