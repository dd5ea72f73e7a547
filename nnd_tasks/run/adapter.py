"""Where a run meets lm-eval: what it calls, and every patch of it, each with what upstream does otherwise.

All patches are context managers, and outside of them lm-eval is unchanged. It works with the releases 0.4.13 and 0.5.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from importlib.metadata import entry_points
from json import JSONDecodeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from lm_eval.api.model import LM, hash_args
from lm_eval.utils import simple_parse_args_string

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.models.model_error import ModelError
from nnd_tasks.redact import Veiled
from nnd_tasks.run.chat_answers import (
    NO_ANSWER,
    BusyError,
    FilteredError,
    RefusedError,
    check_status,
    explain_refusal,
    join_blocks,
    keep_usage,
)
from nnd_tasks.run.outputs import are_saved, remove_results, write_tokens
from nnd_tasks.run.server_answers import check_order, choose_probes, read_answers
from nnd_tasks.task.sandbox import render
from nnd_tasks.task.settings import SAMPLE
from nnd_tasks.task.signature import digest
from nnd_tasks.task.task_files import is_registered, write_task_folder

__all__ = ["LM"]

#: How many times as often a server is asked that says when to ask again.
_PATIENCE = 20


def parse_model_args(model_args: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Read ``--model_args`` as lm-eval does."""
    return dict(simple_parse_args_string(model_args) if isinstance(model_args, str) else model_args or {})


def model_types() -> list[str]:
    """List the names that ``--model`` may have: models of lm-eval, and of packages that declare theirs, as ours does."""
    import lm_eval.models  # noqa: F401 - registers lm-eval's
    from lm_eval.api.registry import model_registry

    return sorted({*model_registry.keys(), *entry_points(group="lm_eval.models").names})


class Words(NamedTuple):
    """An option of a command line, and the words that are its values."""

    option: str
    values: list[str]


def words_by_option(arguments: Sequence[str]) -> list[Words]:
    """Return the words of lm-eval's command line by the options that they belong to.

    Args:
        arguments: as one would type them after ``lm_eval run``; options may be shortened as `argparse` allows it.

    Returns:
        One entry each time an option is given, with its long name.
    """
    from lm_eval._cli import HarnessCLI

    options = HarnessCLI()._subparsers.choices["run"]._option_string_actions
    given: list[Words] = []
    for word in arguments:
        name, equals, value = word.partition("=")
        matches = {options[option].dest for option in options if option == name}
        matches = matches or {
            options[option].dest for option in options if name[:2] == "--" and option.startswith(name)
        }
        if len(matches) == 1:
            given.append(Words(matches.pop(), [value] if equals else []))
        elif given:
            given[-1].values.append(word)
    return given


# ---------------------------------------------------------------- the command line


def run_command_line(arguments: list[str], evaluate: Callable[..., Any], begin: Callable[[Any], None]) -> None:
    """Let lm-eval's command line read ``arguments``, and call ``evaluate`` in place of its `simple_evaluate`.

    Upstream: `cli_evaluate` (lm_eval/__main__.py) reads ``sys.argv``, and imports the function by name (lm_eval/_cli/run.py).

    Args:
        arguments: the command, its verb and what follows.
        evaluate: takes the arguments of `simple_evaluate`.
        begin: of the verb ``run``, called with lm-eval's configuration when it is complete.
    """
    import lm_eval
    from lm_eval.__main__ import cli_evaluate

    # `patch.object` would ask for upstream's function, which takes seconds to import before a wrong option is noticed.
    with (
        patch.object(sys, "argv", arguments),
        patch.dict(vars(lm_eval), simple_evaluate=evaluate),
        _configured_by(begin),
    ):
        cli_evaluate()


@contextmanager
def _configured_by(begin: Callable[[Any], None]) -> Iterator[None]:
    """Call ``begin`` with lm-eval's configuration when it is complete, and keep it from showing the secrets in it.

    Upstream: `EvaluatorConfig._configure` (lm_eval/config/evaluate_config.py) prints the arguments, and those of a file. It
    runs before the evaluator is imported.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig

    configure = EvaluatorConfig._configure

    def configure_and_begin(self: Any) -> Any:
        configure(self)
        begin(self)
        for field in fields(self):
            if isinstance(given := getattr(self, field.name), dict):
                setattr(self, field.name, Veiled(given))
        return self

    with patch.object(EvaluatorConfig, "_configure", configure_and_begin):
        yield


# ---------------------------------------------------------------- tasks


def task_manager(include_path: Any, names: Sequence[str] = (), metadata: Any = None) -> Any:
    """Return a `TaskManager` that knows our tasks and those of ``include_path``.

    Args:
        include_path: further folders: one, several or None.
        names: of the tasks that will be asked for. Only if one of them is in none of the folders, lm-eval's own thousands of
            YAMLs are read, which takes 8 seconds.
        metadata: of all tasks.
    """
    from lm_eval.tasks import TaskManager

    settings = {"include_path": [write_task_folder(), *_as_list(include_path)], "metadata": metadata}
    manager = TaskManager(include_defaults=False, **settings)
    return manager if set(names) <= set(manager.all_tasks) else TaskManager(**settings)


@contextmanager
def our_tasks(check_name: Callable[[str, Any], None]) -> Iterator[None]:
    """Let every `TaskManager` of this process know our tasks. It reads lm-eval's own when it is asked for one of them.

    Upstream: `TaskManager.__init__` (lm_eval/tasks/manager.py) reads all YAMLs of lm-eval, and one ``--include_path``, which
    the user may need. `match_tasks` does not say which known name an unknown one resembles.

    Args:
        check_name: called with an unknown name and the manager; raises NNDError.
    """
    from lm_eval.tasks import TaskManager

    make, match = TaskManager.__init__, TaskManager.match_tasks
    folder = write_task_folder()

    def init(self: Any, *args: Any, include_path: Any = None, **kwargs: Any) -> None:
        theirs = _as_list(include_path)

        def read_all() -> None:
            ours = [] if is_registered() else [folder]  # registered tasks would only be reported as overridden
            make(self, *args, include_path=[*ours, *theirs], **kwargs)

        self.read_all = read_all
        make(self, *args, include_path=[folder, *theirs], **{**kwargs, "include_defaults": False})

    def match_tasks(self: Any, task_list: list[str]) -> list[str]:
        if not set(task_list) <= set(self.all_tasks):
            self.read_all()
        matches: list[str] = match(self, task_list)
        if not matches:
            for name in task_list:
                if not Path(name).exists():  # the user may also name a folder or a YAML file
                    check_name(name, self)
        return matches

    def list_all_tasks(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.read_all()
        return list_all(self, *args, **kwargs)

    list_all = TaskManager.list_all_tasks
    with patch.multiple(TaskManager, __init__=init, match_tasks=match_tasks, list_all_tasks=list_all_tasks):
        yield


def _as_list(include_path: Any) -> list[Any]:
    if not include_path:
        return []
    return [include_path] if isinstance(include_path, (str, Path)) else list(include_path)


@contextmanager
def sandboxed_templates(task: str) -> Iterator[None]:
    """Render the templates of lm-eval's tasks as those of ours; what is unsafe in ``task`` raises NNDError.

    Upstream: `apply_template` (lm_eval/utils.py) renders without a sandbox.
    """

    def apply_template(template: str, doc: Mapping[str, Any]) -> str:
        return str(render(template, doc, f"task {task}"))

    with patch("lm_eval.utils.apply_template", apply_template):
        yield


# ---------------------------------------------------------------- the run


def simple_evaluate(manager: Any, loaded: Any, **arguments: Any) -> Any:
    """Call lm-eval's own function, which takes seconds to import, for tasks that are loaded already.

    Upstream: `simple_evaluate` (lm_eval/evaluator.py) loads tasks after the model, so the user would wait for the model
    before hearing of a mistake in a task.

    Args:
        manager: lm-eval's `TaskManager`.
        loaded: what it loaded.
        **arguments: of lm-eval's function.
    """
    from lm_eval import evaluator

    with (
        patch.object(manager, "load", lambda task_list: loaded),
        _git_asked_quietly(),
        _checked_servers(),
        _seeded_samples(),
    ):
        return evaluator.simple_evaluate(task_manager=manager, **arguments)


@contextmanager
def _git_asked_quietly() -> Iterator[None]:
    """Look up the commit of the current folder only where that is in a git repository.

    Upstream: `get_git_commit_hash` (lm_eval/loggers/utils.py) lets git print "fatal: not a git repository".
    """
    from lm_eval import evaluator

    look_up = evaluator.get_git_commit_hash

    def look_up_in_repository() -> Any:
        git = shutil.which("git")
        asked = git and subprocess.run([git, "rev-parse"], capture_output=True, check=False)  # noqa: S603
        return None if asked and asked.returncode != 0 else look_up()

    with patch.object(evaluator, "get_git_commit_hash", look_up_in_repository):
        yield


@contextmanager
def without_look_ups() -> Iterator[None]:
    """Run without lm-eval's look-ups of git and of the machine, which take a second each time.

    Upstream: `simple_evaluate` (lm_eval/evaluator.py).
    """
    with (
        patch("lm_eval.evaluator.add_env_info"),
        patch("lm_eval.evaluator.get_git_commit_hash", return_value=None),
    ):
        yield


# ---------------------------------------------------------------- servers


@contextmanager
def _checked_servers() -> Iterator[None]:
    """Check every answer of a server, and once in a run that the likelihoods of texts are in the order of the prompts.

    Upstream: `LocalCompletionsAPI.parse_logprobs` (lm_eval/models/openai_completions.py) cuts answers unchecked.
    `TemplateAPI.amodel_call` (lm_eval/models/api_models.py) asks again after any error, and logs the whole answer.
    Here the run ends with a `ModelError`, and what it added to the cache of likelihoods is removed. Answers that a model wrote
    stay there.
    """
    from lm_eval.models import api_models
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    if not hasattr(api_models, "retry"):  # the client's packages are not installed
        yield
        return
    from tenacity import retry_if_exception

    client, retry = api_models.TemplateAPI, api_models.retry
    ask, write = client.get_batched_requests, client.generate_until
    parse, score = LocalCompletionsAPI.parse_logprobs, LocalCompletionsAPI._loglikelihood_tokens

    def checked(self: Any, outputs: Any, tokens: Any = None, ctxlens: Any = None, **kwargs: Any) -> Any:
        answers = read_answers(outputs, tokens, ctxlens)
        return parse({"choices": [answer.choice for answer in answers]}, tokens, ctxlens, **kwargs)

    def score_checked(self: Any, requests: Any, **kwargs: Any) -> Any:
        if type(self).parse_logprobs is not checked:  # a client of another protocol
            return score(self, requests, **kwargs)
        with _cached_if_good(self.cache_hook), _server_errors_explained(self, {}):
            check_order(_probes_for(self, requests), partial(_ask, self), self._batch_size)
            return score(self, requests, **kwargs)

    def write_checked(self: Any, requests: Any, **kwargs: Any) -> Any:
        with _written_answers_read(self):
            return write(self, requests, **kwargs)

    async def ask_all(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await ask(self, *args, **kwargs)
        except Exception:  # is the first; asyncio would log those of the other requests
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            raise

    def retry_patiently(*, stop: Any, wait: Any, **options: Any) -> Any:
        """Wait as a server asks, and ask it more often while it says that it is busy."""

        def may_pass(error: BaseException) -> bool:
            return isinstance(error, Exception) and not isinstance(error, ValueError)

        def pause_of(state: Any) -> Any:
            return getattr(state.outcome.exception(), "pause", None)

        def is_over(state: Any) -> Any:
            patience = 1 if pause_of(state) is None else _PATIENCE
            return state.attempt_number >= stop.max_attempt_number * patience

        def choose_pause(state: Any) -> Any:
            asked = pause_of(state)
            return wait(state) if asked is None else asked

        return retry(stop=is_over, wait=choose_pause, retry=retry_if_exception(may_pass), **options)

    def _ask(client: Any, prompts: list[list[int]]) -> Any:
        wait = api_models.wait_exponential(multiplier=0.5, min=1, max=10)
        again = retry_patiently(stop=api_models.stop_after_attempt(client.max_retries), wait=wait, reraise=True)
        return read_answers(again(client.model_call)(prompts, generate=False), prompts, [1] * len(prompts))

    log = api_models.eval_logger
    log.addFilter(_says_no_bad_answer)
    try:
        with (
            patch.object(LocalCompletionsAPI, "parse_logprobs", checked),
            patch.object(LocalCompletionsAPI, "_loglikelihood_tokens", score_checked),
            patch.multiple(client, get_batched_requests=ask_all, generate_until=write_checked),
            patch.object(api_models, "retry", retry_patiently),
            _statuses_checked(api_models),
        ):
            yield
    finally:
        log.removeFilter(_says_no_bad_answer)


def _says_no_bad_answer(record: logging.LogRecord) -> bool:
    """Tell whether a line of the client's log is not about an error: it ends the run, or asking again mends it."""
    return not record.getMessage().startswith("Exception:")


@contextmanager
def _statuses_checked(api_models: Any) -> Iterator[None]:
    """Check the status of every answer of a server (`check_status`), as soon as it comes."""

    async def check_response(response: Any) -> None:
        check_status(response.status, response.headers, await response.text())

    def check_at_once(response: Any, **options: Any) -> None:
        check_status(response.status_code, response.headers, response.text)

    post = partial(api_models.requests.post, hooks={"response": check_at_once})
    session = partial(api_models.ClientSession, raise_for_status=check_response)
    with patch.multiple(api_models, requests=SimpleNamespace(post=post), ClientSession=session):
        yield


@contextmanager
def _written_answers_read(client: Any) -> Iterator[None]:
    """Let a client send what the run asks for and no more, and keep what the server tells of each answer.

    Upstream: payloads have an empty ``stop``, and parameters that ``--gen_kwargs`` sets to None.
    """
    sent: dict[str, Any] = {}
    create, parse = client._create_payload, client.parse_generations
    call, call_later = client.model_call, client.amodel_call

    def create_payload(*args: Any, **kwargs: Any) -> dict[str, Any]:
        payload: dict[str, Any] = create(*args, **kwargs)
        for key in [key for key, value in payload.items() if value in (None, []) or key == "max_gen_toks"]:
            del payload[key]
        sent.update(payload)
        return payload

    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        texts: list[str] = parse(join_blocks(outputs), **kwargs)
        if client._batch_size > 1:
            return texts
        if len(texts) != 1:
            raise ModelError(f"the server gives {len(texts)} answers to a question, and one is read")
        return [keep_usage(texts[0], outputs)]

    def model_call(*args: Any, **kwargs: Any) -> Any:
        with suppress(FilteredError):
            return call(*args, **kwargs)
        return NO_ANSWER

    async def amodel_call(*args: Any, **kwargs: Any) -> Any:
        with suppress(FilteredError):
            return await call_later(*args, **kwargs)
        return parse_generations(NO_ANSWER)

    with (
        patch.multiple(
            client,
            _create_payload=create_payload,
            parse_generations=parse_generations,
            model_call=model_call,
            amodel_call=amodel_call,
        ),
        _server_errors_explained(client, sent),
    ):
        yield


@contextmanager
def _server_errors_explained(client: Any, sent: Mapping[str, Any]) -> Iterator[None]:
    """End a run with one line that says what a server refused or how it failed, and what to do."""
    from aiohttp import ClientError
    from requests import RequestException

    cache = client.cache_hook.dbdict
    try:
        yield
    except RefusedError as error:
        raise ModelError(explain_refusal(error, sent)) from error
    except (JSONDecodeError, RecursionError) as error:  # of `requests`, it is a RequestException, too
        raise ModelError(f"the server's answer is no JSON ({error})") from error
    except (BusyError, ClientError, RequestException, asyncio.TimeoutError) as error:
        raise ModelError(
            f"the server gives no answer ({reason_of(error)}); with --use_cache FILE a run goes on "
            "where it broke off; max_retries=N and timeout=SECONDS in --model_args wait for longer"
        ) from error
    finally:
        if cache is not None:  # it writes in another thread
            cache.commit()


def _probes_for(client: Any, requests: Sequence[Any]) -> list[list[int]]:
    """Return the prompts for `check_order`; of a client that sends text, those that are the same tokens again."""
    probes = choose_probes([[*context, *continuation] for _, context, continuation in requests])
    if client.tokenized_requests:
        return probes
    parts = [[probe, probe[:-1]] for probe in probes]
    same = [all(client.tok_encode(client.decode_batch([part])[0]) == part for part in both) for both in parts]
    return [probe for probe, stays in zip(probes, same, strict=True) if stays]


@contextmanager
def _cached_if_good(hook: Any) -> Iterator[None]:
    """Remove from lm-eval's cache what was added within this context if the server turns out to answer badly."""
    added: list[str] = []
    add = hook.add_partial

    def add_noted(method: str, request: Any, response: Any) -> None:
        added.append(hash_args(method, request))
        add(method, request, response)

    with patch.object(hook, "add_partial", add_noted):
        try:
            yield
        except ModelError:
            for key in added if hook.dbdict is not None else ():
                hook.dbdict.pop(key, None)
            raise


@contextmanager
def _seeded_samples() -> Iterator[None]:
    """Begin each of several answers to a question with a seed of its own.

    Upstream: `HFLM._model_generate` (lm_eval/models/huggingface.py) draws all from one stream of random numbers. A run that goes
    on would draw for the answers that are missing what the others were drawn from.
    """
    import torch
    from lm_eval.models.huggingface import HFLM

    generate = HFLM._model_generate

    def generate_seeded(self: Any, **arguments: Any) -> Any:
        if any(text.startswith(SAMPLE) for text in arguments["stop"]):
            torch.manual_seed(int(digest([arguments["context"].tolist(), arguments["stop"]]), 16))
        return generate(self, **arguments)

    with patch.object(HFLM, "_model_generate", generate_seeded):
        yield


# ---------------------------------------------------------------- results


@contextmanager
def fail_on_unsaved_results() -> Iterator[list[Any]]:
    """Raise when lm-eval could not save its files, and remove those that are cut off; else write the token scores.

    Yields the writers of results that have saved some.

    Upstream: `EvaluationTracker` (lm_eval/loggers/evaluation_tracker.py) catches every error while it writes, warns, and the
    run ends with status 0. A full disk leaves files that are cut off. Here the error is raised at the end of the context,
    after the table of results is printed.

    Raises:
        NNDError: results, samples or token scores could not be written.
    """
    from lm_eval.loggers import EvaluationTracker

    save, save_samples = EvaluationTracker.save_results_aggregated, EvaluationTracker.save_results_samples
    trackers: list[Any] = []
    counts: dict[str, int] = {}

    def save_noted(tracker: Any, **results: Any) -> None:
        trackers.append(tracker)
        save(tracker, **results)

    def save_samples_noted(tracker: Any, task_name: str, samples: Sequence[Any]) -> None:
        counts[task_name] = len(samples)
        save_samples(tracker, task_name=task_name, samples=samples)

    with (
        patch.object(EvaluationTracker, "save_results_aggregated", save_noted),
        patch.object(EvaluationTracker, "save_results_samples", save_samples_noted),
    ):
        yield trackers
    for tracker in trackers:
        if tracker.output_path and not are_saved(tracker, counts):
            remove_results(tracker)
            raise NNDError(
                f"--output_path {tracker.output_path}: the results could not be saved, as lm-eval says above; make room and "
                "run again (a run with --use_cache FILE keeps the model's answers)"
            )
        if getattr(tracker, "nnd_tokens", None):
            write_tokens(tracker)
        if getattr(tracker, "nnd_mark", None):
            tracker.nnd_mark.touch()
