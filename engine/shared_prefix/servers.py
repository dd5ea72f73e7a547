"""lm-eval's clients of servers: every answer is checked as it comes, and a run ends with one line that says what to do.

Upstream, `TemplateAPI` (lm_eval/models/api_models.py) asks again after any error, throws ``usage`` away, logs whole answers,
and ends with the status alone; `LocalCompletionsAPI.parse_logprobs` (openai_completions.py, 0.4.13) cuts an answer by the number
of the prompt's tokens and checks nothing, so one that lacks an entry would be scored with those of other tokens. Here each
method gets a function around it, which takes the client and the method first.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial, partialmethod
from json import JSONDecodeError
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from lm_eval.api.model import hash_args
from numpy.typing import NDArray

from shared_prefix.model_error import ModelError

#: How many times as often a server is asked that says that it is busy.
_PATIENCE = 20
#: Seconds: a server that asks to wait for longer ends the run.
_LONGEST_PAUSE = 600
#: Seconds that an answer may take where a client names none.
_TIMEOUT = 300
#: What OpenAI's servers say with status 429 to somebody who has to pay first.
_UNPAID = "insufficient_quota"
#: Redirections that make another request of a POST, without its body.
_MOVED = (301, 302, 303)


@contextmanager
def checked_servers() -> Iterator[None]:
    """Check every answer of a server within this context."""
    from lm_eval.models import api_models
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from requests import Session

    if not hasattr(api_models, "retry"):  # the client's packages are not installed
        yield
        return
    client, log = api_models.TemplateAPI, api_models.eval_logger
    score, parse = LocalCompletionsAPI._loglikelihood_tokens, LocalCompletionsAPI.parse_logprobs
    log.addFilter(_says_no_bad_answer)
    try:
        with (
            patch.object(LocalCompletionsAPI, "_loglikelihood_tokens", partialmethod(_score, score, parse)),
            patch.object(client, "generate_until", partialmethod(_write, client.generate_until)),
            patch.object(client, "get_batched_requests", partialmethod(_ask_at_once, client.get_batched_requests)),
            patch.object(Session, "request", partialmethod(_request, Session.request)),
            patch.multiple(
                api_models,
                requests=SimpleNamespace(post=partial(api_models.requests.post, hooks={"response": _check_at_once})),
                ClientSession=partial(api_models.ClientSession, raise_for_status=_check_later),
                retry=partial(_retry, api_models.retry),
            ),
        ):
            yield
    finally:
        log.removeFilter(_says_no_bad_answer)


def _says_no_bad_answer(record: logging.LogRecord) -> bool:
    """Tell whether a line of the client's log is not about an error: it ends the run, or asking again mends it."""
    return not record.getMessage().startswith("Exception:")


# ---------------------------------------------------------------- statuses, and when a server is asked again


class RefusedError(ModelError):
    """The server refuses the request, and would refuse it again.

    Args:
        status: of HTTP.
        text: the server's answer.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"status {status}: {_read_message(text)}")
        self.status, self.text = status, text


class FilteredError(ModelError):
    """The server does not let the model answer this prompt; it may answer others."""


class BusyError(Exception):
    """The server may answer when it is asked again.

    Args:
        message: what it says.
        pause: seconds to wait, if the server tells.
        overloaded: it says that it is busy; other failures are given up sooner.
    """

    def __init__(self, message: str, pause: float | None = None, *, overloaded: bool = False) -> None:
        super().__init__(message)
        self.pause, self.overloaded = pause, overloaded


def check_status(status: int, headers: Mapping[str, str], text: str) -> None:
    """Raise an error for an answer that has no text of the model.

    Raises:
        FilteredError: the prompt is not let through.
        BusyError: the same request may be answered later.
        RefusedError: it will not be.
    """
    if status in _MOVED:
        place = headers.get("Location", "another address")
        raise RefusedError(status, f"it sends the request on to {place}; base_url in --model_args names that address")
    if status < 400:
        return
    if status == 400 and "content_filter" in text:
        raise FilteredError(_read_message(text))
    pause = _read_pause(str(headers.get("Retry-After") or ""))
    if (status >= 500 or status in (408, 429)) and _UNPAID not in text and (pause or 0) <= _LONGEST_PAUSE:
        # 529 is Anthropic's; OpenAI says "overloaded" with 503.
        overloaded = status in (429, 529) or "overloaded" in text or pause is not None
        raise BusyError(f"status {status}: {_read_message(text)}", pause, overloaded=overloaded)
    raise RefusedError(status, text)


def _read_pause(asked: str) -> float | None:
    """Read the seconds that ``Retry-After`` asks to wait for; it may be a date."""
    with suppress(ValueError):
        return max(float(asked), 0.0)
    with suppress(ValueError, TypeError):
        return max((parsedate_to_datetime(asked) - datetime.now(timezone.utc)).total_seconds(), 0.0)
    return None


def _request(session: Any, request: Any, *args: Any, timeout: Any = None, **options: Any) -> Any:
    """Send a request, and wait for its whole answer no longer than the time limit.

    Upstream, the time limit is for each piece of an answer, so that a server that sends a byte now and then is never given up;
    lm-eval's client `gguf` has none. The thread that waits for such a server ends with the process.

    Raises:
        requests.Timeout: the whole answer took longer.
    """
    from requests import Timeout

    limit = timeout if isinstance(timeout, (int, float)) else _TIMEOUT
    results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def send() -> None:
        try:
            results.put((request(session, *args, timeout=timeout or limit, **options), None))
        except BaseException as error:
            results.put((None, error))

    threading.Thread(target=send, daemon=True).start()
    try:
        response, error = results.get(timeout=limit)
    except Empty:
        raise Timeout(f"the answer is not complete after {limit:g} s") from None
    if error is not None:
        raise error
    return response


def _check_at_once(response: Any, **options: Any) -> None:
    check_status(response.status_code, response.headers, response.text)


async def _check_later(response: Any) -> None:
    if response.method != "POST":  # as what was posted was redirected
        check_status(302, {"Location": str(response.url)}, "")
    check_status(response.status, response.headers, await response.text())


def _retry(retry: Any, *, stop: Any, wait: Any, **options: Any) -> Any:
    """Wait as a server asks, and ask it more often while it says that it is busy."""
    from tenacity import retry_if_exception

    def is_over(state: Any) -> bool:
        patience = _PATIENCE if getattr(state.outcome.exception(), "overloaded", False) else 1
        return bool(state.attempt_number >= stop.max_attempt_number * patience)

    def choose_pause(state: Any) -> Any:
        pause = getattr(state.outcome.exception(), "pause", None)
        return wait(state) if pause is None else pause

    may_pass = retry_if_exception(lambda error: isinstance(error, Exception) and not isinstance(error, ValueError))
    return retry(stop=is_over, wait=choose_pause, retry=may_pass, **options)


async def _ask_at_once(client: Any, ask: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return await ask(client, *args, **kwargs)
    except Exception:  # is the first; asyncio would log those of the other requests
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        raise


@contextmanager
def _explaining_errors(client: Any, sent: Mapping[str, Any]) -> Iterator[None]:
    """End a run with one line that says what a server refused or how it failed, and what to do.

    Args:
        client: its cache keeps what was answered before.
        sent: the latest request.
    """
    from aiohttp import ClientError
    from requests import RequestException

    try:
        yield
    except RefusedError as error:
        raise ModelError(explain_refusal(error, sent)) from error
    except (JSONDecodeError, RecursionError) as error:  # of `requests`, it is a RequestException, too
        raise ModelError(f"the server's answer is no JSON ({error})") from error
    except (BusyError, ClientError, RequestException, asyncio.TimeoutError) as error:
        reason = str(error) or type(error).__name__
        fewer = "num_concurrent=1 asks for one answer at a time, " * getattr(error, "overloaded", False)
        raise ModelError(
            f"the server gives no answer ({reason}); with --use_cache FILE a run goes on where it broke off; in "
            f"--model_args, {fewer}max_retries=N and timeout=SECONDS wait for longer"
        ) from error
    finally:
        if client.cache_hook.dbdict is not None:  # it writes in another thread
            client.cache_hook.dbdict.commit()


# ---------------------------------------------------------------- refusals, in words

#: Status of a refusal that no parameter causes -> what to do.
_ADVICE = {
    **dict.fromkeys((401, 403), "lm-eval's clients read the key from OPENAI_API_KEY or ANTHROPIC_API_KEY"),
    **dict.fromkeys(
        (404, 405), "base_url in --model_args is the whole address, such as http://HOST/v1/chat/completions"
    ),
    429: "it asks to wait for longer than ten minutes",
}
#: Status -> what a server says where that is all that there is to say.
_SAYS_ALL = {404: "model", 429: _UNPAID}
#: What a request asks; all else in it is a parameter, which a server may refuse.
_ASKED = ("model", "messages", "prompt", "system")


def explain_refusal(error: RefusedError, sent: Mapping[str, Any]) -> str:
    """Say what a server refuses, and what to do.

    Args:
        error: with its answer.
        sent: the request.
    """
    message = _read_message(error.text)
    explained = f"the server refuses the request ({error.status}): {message}"
    if error.status in _ADVICE:
        says_all = _SAYS_ALL.get(error.status)
        return explained if says_all and says_all in error.text.lower() else f"{explained}; {_ADVICE[error.status]}"
    parameters = "|".join(name for name in sent if name not in _ASKED)
    # Some servers name the parameter apart from the message.
    named = re.search(rf"\b({parameters})\b", f"{message} {error.text}") if parameters else None
    if named is None:
        return explained
    if "max" in named[1] and "too large" in message:
        return f"{explained}; --gen_kwargs max_gen_toks=N asks for fewer"
    instead = f",max_completion_tokens={sent['max_tokens']}" if named[1] == "max_tokens" else ""
    return f"{explained}; --gen_kwargs {named[1]}=None{instead} leaves {named[1]} out"


def _read_message(text: str) -> str:
    """Read what a server says of an error, in JSON of several shapes or as text."""
    answer: Any = text
    with suppress(ValueError, RecursionError):
        answer = json.loads(text)
    for key in ("error", "detail", "message"):
        if isinstance(answer, Mapping) and answer.get(key):
            answer = answer[key]
    return _cut(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))


def _cut(text: str) -> str:
    """Write a text that a server sent on one line of at most 300 characters. No key is cut: half of one cannot be hidden."""
    line = " ".join(text[:100_000].split())
    return line if len(line) <= 300 else re.sub(r"[\w+/=.~-]*$", "", line[:299]) + "…"


# ---------------------------------------------------------------- likelihoods


def _score(client: Any, score: Any, parse: Any, requests: Any, **kwargs: Any) -> Any:
    """Check the likelihoods of a server, and once in a run that they are in the order of the prompts."""
    from lm_eval.models import api_models

    if client.parse_logprobs is not parse:  # a client of another protocol
        return score(client, requests, **kwargs)

    def ask(prompts: list[list[int]]) -> Any:
        wait = api_models.wait_exponential(multiplier=0.5, min=1, max=10)
        again = api_models.retry(stop=api_models.stop_after_attempt(client.max_retries), wait=wait, reraise=True)
        return read_answers(again(client.model_call)(prompts, generate=False), prompts, [1] * len(prompts))

    def survives(prompt: list[int]) -> bool:
        """Tell whether a prompt is the same tokens again where it is sent as text."""
        return bool(client.tokenized_requests or client.tok_encode(client.decode_batch([prompt])[0]) == prompt)

    with (
        _explaining_errors(client, {}),
        _cached_if_good(client.cache_hook),
        patch.object(client, "parse_logprobs", partial(_parse_logprobs, parse)),
    ):
        check_order([[*context, *text] for _, context, text in requests], survives, ask, client._batch_size)
        return score(client, requests, **kwargs)


def _parse_logprobs(parse: Any, outputs: Any, tokens: Any = None, ctxlens: Any = None, **kwargs: Any) -> Any:
    answers = read_answers(outputs, tokens, ctxlens)
    return parse({"choices": [answer.choice for answer in answers]}, tokens, ctxlens, **kwargs)


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
        except BadAnswerError:
            for key in added if hook.dbdict is not None else ():
                hook.dbdict.pop(key, None)
            raise


# ---------------------------------------------------------------- likelihoods: one answer

#: What rounding may make of the log-probability of a token that is certain, in nats.
_CERTAIN = 1e-6
#: More than any log-probability can be, in nats.
_MOST_NATS = 1e12
#: Tokens of a prompt of `check_order`, and most prompts that it asks.
_PROBE_TOKENS, _PROBES = 12, 8
#: Mean difference of two answers to one prompt, in nats per token. Other batches change an answer by some hundredths.
_OTHER_ANSWER = 1.0
#: Difference of two numbers that are to be one, in nats; half of all prompts must show it.
_OTHER_NUMBER = 0.5


class BadAnswerError(ModelError):
    """The answers of a server cannot be right, so that none of a run counts."""

    def __init__(self, answer: str) -> None:
        super().__init__(f"the server answers {answer}; nothing of this run is scored or cached (docs/backends.md)")


@dataclass(frozen=True)
class Answer:
    """What a server says to one prompt.

    Attributes:
        choice: as the server sent it, with exactly one entry after those of the prompt, as lm-eval cuts off one.
        logprobs: of the prompt's tokens but the first, in nats, shape (tokens - 1,).
        likeliest: log-probability of the likeliest token at each of these places, shape (tokens - 1,).
        generated: log-probability of the token that the server added; None if it added none.
    """

    choice: dict[str, Any]
    logprobs: NDArray[np.float64]
    likeliest: NDArray[np.float64]
    generated: float | None


def _short(value: Any) -> str:
    return _cut(repr(value))


def read_answers(outputs: Any, prompts: Sequence[Sequence[int]], starts: Sequence[int]) -> list[Answer]:
    """Check a server's answer to a batch, and split it by prompts.

    Args:
        outputs: the JSON, or a list of it alone.
        prompts: the token ids that were sent, also if they were sent as text.
        starts: place of the first scored token of each prompt.

    Raises:
        BadAnswerError: the answer is not one log-probability for each token that was sent and each that was generated, with
            nothing in place of the first token's.
    """
    if isinstance(outputs, list) and len(outputs) == 1:
        (outputs,) = outputs
    choices = outputs.get("choices") if isinstance(outputs, Mapping) else None
    if not isinstance(choices, list):
        message = outputs.get("error") if isinstance(outputs, Mapping) else None
        raise BadAnswerError(f"with an error: {_short(message)}" if message else f"without choices: {_short(outputs)}")
    if len(choices) != len(prompts):
        raise BadAnswerError(f"{len(prompts)} prompts with {len(choices)} choices; expected one for each prompt")
    indices = [choice.get("index") if isinstance(choice, Mapping) else None for choice in choices]
    if set(indices) != set(range(len(prompts))):
        raise BadAnswerError(
            f"with choices of the indices {_short(indices)}; expected each of 0 to {len(prompts) - 1} once"
        )
    in_order = sorted(choices, key=lambda choice: int(choice["index"]))
    lists = [_read_lists(choice) for choice in in_order]
    added = [len(values) - len(prompt) for (values, _), prompt in zip(lists, prompts, strict=True)]
    usage = outputs.get("usage")
    generated = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if {*added} != {1} and (min(added) < 0 or sum(added) != generated):
        wrong = next(number for number, count in enumerate(added) if count != 1)
        got, sent = len(lists[wrong][0]), len(prompts[wrong])
        raise BadAnswerError(
            f"a prompt of {sent} tokens with {got} log-probabilities; expected {sent + 1}, one for each token that was sent "
            "and one for the token that is generated. It does not echo the whole prompt, or has other tokens or a BOS token "
            "of its own (send token ids, which is the default, and name its tokenizer with tokenizer=...)"
        )
    return [
        _answer(choice, values, tops, len(prompt), start)
        for choice, (values, tops), prompt, start in zip(in_order, lists, prompts, starts, strict=True)
    ]


def _read_lists(choice: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Read ``token_logprobs`` and ``top_logprobs`` of a choice."""
    logprobs = choice.get("logprobs")
    lists = logprobs if isinstance(logprobs, Mapping) else {}
    values, tops = lists.get("token_logprobs"), lists.get("top_logprobs")
    if not isinstance(values, list) or not isinstance(tops, list):
        shape = " (the shape of chat completions)" if "content" in lists else ""
        raise BadAnswerError(f"with logprobs {_short(logprobs)}{shape}; it must heed echo=true and logprobs=1")
    if len(values) != len(tops):
        raise BadAnswerError(f"with {len(values)} token_logprobs and {len(tops)} top_logprobs")
    return values, tops


def _answer(choice: Mapping[str, Any], values: list[Any], tops: list[Any], sent: int, start: int) -> Answer:
    if values[0] is not None:
        raise BadAnswerError(
            f"{_short(values[0])} as log-probability of a prompt's first token, which has none: null was expected. Its "
            f"{len(values)} entries for {sent} tokens are shifted"
        )
    for number in range(1, sent):
        value, top = values[number], tops[number]
        if not _is_number(value) or value > _CERTAIN:
            raise BadAnswerError(
                f"{_short(value)} as log-probability of token {number + 1} of {sent}; expected a number that is not above 0"
            )
        if not isinstance(top, Mapping) or not top or not all(map(_is_number, top.values())):
            raise BadAnswerError(f"top_logprobs {_short(top)} for token {number + 1} of {sent}; expected likely tokens")
    logprobs, scored = values[1:sent], values[start:sent]
    if (len(logprobs) > 1 and len(set(logprobs)) == 1) or (len(scored) > 1 and not any(scored)):
        raise BadAnswerError(
            f"{scored[0]:g} as log-probability of each of {len(scored)} tokens of a candidate; it does not score prompts"
        )
    after = values[sent] if len(values) > sent and _is_number(values[sent]) else None
    cut = {"token_logprobs": [*values[:sent], None], "top_logprobs": [*tops[:sent], None]}
    likeliest = [max(top.values()) for top in tops[1:sent]]
    return Answer({**choice, "logprobs": cut}, np.asarray(logprobs, float), np.asarray(likeliest, float), after)


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return value == -math.inf or abs(value) < _MOST_NATS


# ---------------------------------------------------------------- likelihoods: the order of answers


def _choose_probes(requests: Sequence[list[int]], survives: Callable[[list[int]], bool]) -> list[list[int]]:
    """Choose the ends of some requests, of equal lengths, that differ before their last token."""
    step = max(len(requests) // _PROBES, 1)
    ends = [request[-_PROBE_TOKENS - 1 :] for request in requests if len(request) > _PROBE_TOKENS]
    probes = list({tuple(end[:-1]): end for end in [*ends[::step], *ends]}.values())[:_PROBES]
    return [probe for probe in probes if survives(probe) and survives(probe[:-1])]


def check_order(
    requests: Sequence[list[int]],
    survives: Callable[[list[int]], bool],
    ask: Callable[[list[list[int]]], list[Answer]],
    size: int,
) -> None:
    """Ask for prompts whose answers are known from others: each alone, and all without their last tokens in batches.

    The tokens before the last have the same numbers in both. The likeliest token after a prompt, which the server generates, has
    the number that is the highest at that place in the longer prompt. So answers in another order than the prompts show, and
    numbers that belong to the token before or after.

    Args:
        requests: the tokens of all requests; the ends of some are asked.
        survives: tells whether a prompt reaches the server as these tokens.
        ask: sends a batch of prompts.
        size: number of prompts in a batch.

    Raises:
        BadAnswerError: the answers contradict one another.
    """
    probes = _choose_probes(requests, survives)
    if len(probes) < 2:
        return
    alone = [ask([probe])[0] for probe in probes]
    heads = [probe[:-1] for probe in probes]
    together = [answer for start in range(0, len(heads), size) for answer in ask(heads[start : start + size])]
    # An impossible token may have minus infinity.
    expected = np.clip([answer.logprobs[:-1] for answer in alone], -1e4, 0)
    answered = np.clip([answer.logprobs for answer in together], -1e4, 0)
    # The last number is not compared here: a shifted one may belong to the token after it, which only one of both has.
    distances = np.abs(answered[:, None, :-1] - expected[None, :, :-1]).mean(axis=-1)
    differences = distances.diagonal()
    if (differences > np.minimum(4 * distances.min(axis=1) + _CERTAIN, _OTHER_ANSWER)).any():
        raise BadAnswerError(
            f"prompts in a batch of {min(size, len(probes))} with other numbers than alone ({differences.max():.2f} nats per "
            "token): its answers are not in the order of the prompts; try --batch_size 1"
        )
    moved = np.abs(answered[:, -1] - expected[:, -1]) > _OTHER_NUMBER
    generated = [math.nan if answer.generated is None else answer.generated for answer in together]
    likeliest = np.asarray([answer.likeliest[-1] for answer in alone])
    # Some servers give a token that greedy decoding generates the probability 1: that says nothing.
    informative = np.less(generated, -1e-3)
    strange = informative & (np.abs(generated - likeliest) > _OTHER_NUMBER)
    if moved.mean() > 0.5 or (informative.sum() > 1 and strange.sum() > informative.sum() / 2):
        raise BadAnswerError(
            "log-probabilities that belong to the token before or after (llama-cpp-python does so for models that add no "
            "BOS token)"
        )


# ---------------------------------------------------------------- what a model writes

#: Stands for the answer to a prompt that a server does not let through, in the forms of all clients.
_NO_ANSWER: dict[str, Any] = {
    "choices": [{"index": 0, "message": {"content": ""}, "text": "", "finish_reason": "content_filter"}],
    "content": [{"text": ""}],
}


class WrittenText(str):
    """What a model wrote; lm-eval's cache keeps its attributes, too.

    Attributes:
        usage: what the server tells of it: ``in`` and ``out``, numbers of tokens, and ``ended``, why the text ends.
    """

    usage: Mapping[str, Any]


def _write(client: Any, write: Any, requests: Any, **kwargs: Any) -> Any:
    """Send what the run asks for and no more, and keep what the server tells of each answer.

    Upstream, requests have an empty ``stop``, and parameters that ``--gen_kwargs`` sets to None.
    """
    sent: dict[str, Any] = {}
    create, call, call_later = client._create_payload, client.model_call, client.amodel_call
    read = partial(_read_texts, client.parse_generations, client._batch_size)

    def create_payload(*args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = create(*args, **kwargs).items()
        asked = {key: value for key, value in payload if value not in (None, []) and key != "max_gen_toks"}
        sent.update(asked)
        return asked

    def model_call(*args: Any, **kwargs: Any) -> Any:
        with suppress(FilteredError):
            return _join_blocks(call(*args, **kwargs))
        return _NO_ANSWER

    async def amodel_call(*args: Any, **kwargs: Any) -> Any:
        with suppress(FilteredError):
            return await call_later(*args, **kwargs)
        return read(_NO_ANSWER)

    with (
        patch.multiple(
            client,
            _create_payload=create_payload,
            parse_generations=read,
            model_call=model_call,
            amodel_call=amodel_call,
        ),
        _explaining_errors(client, sent),
    ):
        return write(client, requests, **kwargs)


def _read_texts(parse: Any, batch_size: int, outputs: Any, **kwargs: Any) -> list[str]:
    """Read the text of an answer; of several at once, upstream does it."""
    texts: list[str] = parse(_join_blocks(outputs), **kwargs)
    if batch_size > 1:
        return texts
    if len(texts) != 1:
        raise ModelError(f"the server gives {len(texts)} answers to a question, and one is read")
    return [_keep_usage(texts[0], outputs)]


def _join_blocks(answer: Any) -> Any:
    """Join the texts of an answer in blocks, as of thoughts and an answer, which lm-eval would take for several answers.

    Raises:
        BusyError: the answer is none, or an error with the status of a success.
    """
    choices = (answer.get("choices") or []) if isinstance(answer, Mapping) else [None]
    messages = [choice.get("message") or {} if isinstance(choice, Mapping) else None for choice in choices]
    are_messages = all(isinstance(message, Mapping) for message in messages)
    is_answer = messages or ("content" in answer and not answer.get("error"))
    if not (are_messages and is_answer):
        raise BusyError(_read_message(json.dumps(answer)))
    for message in (answer, *messages):
        if isinstance(message.get("content"), list):
            text = "".join(str(block.get("text") or "") for block in message["content"])
            message["content"] = text if message is not answer else [{"text": text}]  # as Anthropic's client reads it
    return answer


def _keep_usage(text: str | None, answer: Any) -> WrittenText:
    """Give the text of an answer, empty where it is null, with what the server tells of it."""
    written = WrittenText(text or "")
    usage, choices = answer.get("usage"), answer.get("choices") or [answer]
    usage = usage if isinstance(usage, Mapping) else {}
    facts = {
        "in": usage.get("prompt_tokens", usage.get("input_tokens")),
        "out": usage.get("completion_tokens", usage.get("output_tokens")),
        "ended": choices[0].get("finish_reason") or choices[0].get("stop_reason"),
    }
    written.usage = {key: value for key, value in facts.items() if value is not None}
    return written
