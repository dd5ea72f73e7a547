"""lm-eval's clients of servers: every answer is checked as it comes, and a run ends with one line that says what to do.

Upstream, `TemplateAPI` (lm_eval/models/api_models.py) asks again after any error, throws ``usage`` away, logs whole answers,
and ends with the status alone; `LocalCompletionsAPI.parse_logprobs` (openai_completions.py, 0.4.13) cuts an answer by the number
of the prompt's tokens and checks nothing, so one that lacks an entry would be scored with those of other tokens. Here each
method gets a function around it, which takes the client and the method first.

Known limits: what a server echoes is compared with what was sent only where the client has a tokenizer of transformers, and the
answer holds ``text`` or ``tokens``. A server whose numbers are those of another model cannot be told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial, partialmethod
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from lm_eval.api.model import hash_args
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from shared_prefix.model_error import ModelError

logger = logging.getLogger("lm_eval.nnd")

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
    """Check every answer of a server within this context, where the model that will run is a client of one."""
    if "lm_eval.models.api_models" not in sys.modules:  # slow to import
        yield
        return
    from lm_eval.models import api_models
    from lm_eval.models.gguf import GGUFLM
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from requests import Session

    if not hasattr(api_models, "retry"):  # the client's packages are not installed
        yield
        return
    client, log = api_models.TemplateAPI, api_models.eval_logger
    score, parse = LocalCompletionsAPI._loglikelihood_tokens, LocalCompletionsAPI.parse_logprobs
    again = AskedAgain()
    log.addFilter(_says_no_bad_answer)
    try:
        with (
            patch.object(LocalCompletionsAPI, "_loglikelihood_tokens", partialmethod(_score, score, parse, again)),
            patch.object(GGUFLM, "loglikelihood", partialmethod(_count_answers, GGUFLM.loglikelihood)),
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
        if again.pairs:
            logger.info(
                "%d of %d prompts were sent to the server again without their last tokens: it gives the same numbers",
                len(again.pairs),
                again.seen,
            )
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
    if response.status_code >= 300:
        check_status(response.status_code, response.headers, response.text)
    response.json = partial(parse_json, response.content)


async def _check_later(response: Any) -> None:
    if response.method != "POST":  # as what was posted was redirected
        check_status(302, {"Location": str(response.url)}, "")
    check_status(response.status, response.headers, await response.text(errors="replace"))
    content = await response.read()

    async def read() -> Any:
        return parse_json(content)

    response.json = read


def parse_json(content: bytes) -> Any:
    """Parse an answer.

    Raises:
        BadAnswerError: a key stands twice in an object.
        ModelError: it is no JSON.
    """

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            raise BadAnswerError(f"with an object that has the key {max(keys, key=keys.count)!r} twice")
        return found

    try:
        return json.loads(content, object_pairs_hook=take)
    except ModelError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the server's answer is no JSON ({error})") from error


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


def _score(client: Any, score: Any, parse: Any, again: AskedAgain, requests: Any, **kwargs: Any) -> Any:
    """Check the likelihoods of a server: at the start that they are in the order of the prompts, then a share of them again."""
    from lm_eval.models import api_models

    if client.parse_logprobs is not parse:  # a client of another protocol
        return score(client, requests, **kwargs)
    call_later = client.amodel_call
    echo = Echo(client.tokenizer) if client.tokenizer_backend == "huggingface" else None

    def ask(prompts: list[list[int]]) -> Any:
        wait = api_models.wait_exponential(multiplier=0.5, min=1, max=10)
        retry = api_models.retry(stop=api_models.stop_after_attempt(client.max_retries), wait=wait, reraise=True)
        return read_answers(retry(client.model_call)(prompts, generate=False), prompts, [1] * len(prompts), echo)

    def survives(prompt: list[int]) -> bool:
        """Tell whether a prompt is the same tokens again where it is sent as text."""
        return bool(client.tokenized_requests or client.tok_encode(client.decode_batch([prompt])[0]) == prompt)

    def parse_logprobs(outputs: Any, tokens: Any = None, ctxlens: Any = None, **kwargs: Any) -> Any:
        answers = read_answers(outputs, tokens, ctxlens, echo)
        again.take(tokens, answers, survives)
        if client._concurrent <= 1:
            for head in again.heads_of(tokens):
                again.take([head], ask([head]), survives)
        return parse({"choices": [answer.choice for answer in answers]}, tokens, ctxlens, **kwargs)

    async def amodel_call(*args: Any, messages: Any, **kwargs: Any) -> Any:
        scores = await call_later(*args, messages=messages, **kwargs)
        options = {**kwargs, "ctxlens": [1], "cache_keys": None}
        for head in again.heads_of(messages):
            await call_later(*args, messages=[head], **options)  # `take` gets the answer
        return scores

    with (
        _explaining_errors(client, {}),
        _cached_if_good(client.cache_hook),
        patch.multiple(client, parse_logprobs=parse_logprobs, amodel_call=amodel_call),
    ):
        check_order([[*context, *text] for _, context, text in requests], survives, ask, client._batch_size)
        return score(client, requests, **kwargs)


def _count_answers(client: Any, score: Any, requests: Any, **kwargs: Any) -> Any:
    """Raise ModelError for texts without a likelihood, whose answers lm-eval's client `gguf` leaves out with a warning."""
    answers = score(client, requests, **kwargs)
    if missing := len(requests) - len(answers):
        raise ModelError(
            f"the server gives no likelihood of {missing} of {len(requests)} texts, as llama.cpp's own; "
            "--model llamacpp with pretrained=FILE.gguf in --model_args reads its file"
        )
    return answers


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
        except BadAnswerError as error:
            for key in added if hook.dbdict is not None else ():
                hook.dbdict.pop(key, None)
            raise ModelError(f"{error}; nothing of this run is scored or cached (docs/backends.md)") from error


# ---------------------------------------------------------------- likelihoods: one answer

#: What rounding may make of the log-probability of a token that is certain, in nats.
_CERTAIN = 1e-6
#: More than a log-probability of a model can be, in nats. OpenAI gives -9999 to tokens that are not among the likeliest
#: (https://platform.openai.com/docs/api-reference/chat/object), vLLM in the place of minus infinity.
_MOST_NATS = 1000.0
#: Difference of two numbers of one answer that are to be one, in nats: some servers round to two digits.
_ROUNDED = 0.02
#: Tokens of a prompt of `check_order`, and most prompts that it asks.
_PROBE_TOKENS, _PROBES = 12, 8
#: Share of the prompts that are asked again, and how many at least.
_AGAIN, _LEAST_AGAIN = 0.02, 8
#: Mean difference of two answers to one prompt, in nats per token. Other batches change an answer by some hundredths.
_OTHER_ANSWER = 1.0
#: Difference of two numbers that are to be one, in nats; half of all prompts must show it.
_OTHER_NUMBER = 0.5


class BadAnswerError(ModelError):
    """The answers of a server cannot be right, so that none of a run counts."""

    def __init__(self, answer: str) -> None:
        super().__init__(f"the server answers {answer}")


class Logprobs(BaseModel):
    """What a server says of each token that was sent and of each that it generated: an entry of each list."""

    token_logprobs: list[Any]
    top_logprobs: list[Any]
    tokens: list[Any] | None = None


class Choice(BaseModel):
    """What a server says to one prompt."""

    index: int
    logprobs: Logprobs
    text: Any = None


class Completions(BaseModel):
    """What a server says to a batch of prompts."""

    choices: list[Choice]
    usage: Any = None


@dataclass(frozen=True)
class Answer:
    """What a server says to one prompt, checked.

    Attributes:
        choice: as lm-eval reads it, with exactly one entry after those of the prompt, which it cuts off.
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


def read_answers(
    outputs: Any, prompts: Sequence[Sequence[int]], starts: Sequence[int], echo: Echo | None = None
) -> list[Answer]:
    """Check a server's answer to a batch, and split it by prompts.

    Args:
        outputs: the JSON, or a list of it alone.
        prompts: the token ids that were sent, also if they were sent as text.
        starts: place of the first scored token of each prompt.
        echo: compares what comes back with what was sent; None where that cannot be known.

    Raises:
        BadAnswerError: the answer is not one log-probability for each token that was sent and each that was generated, with
            nothing in place of the first token's; or it contradicts itself, or what was sent.
    """
    if isinstance(outputs, list) and len(outputs) == 1:
        (outputs,) = outputs
    if isinstance(outputs, Mapping) and "choices" not in outputs and outputs.get("error"):
        raise BadAnswerError(f"with an error: {_short(outputs['error'])}")
    try:
        completions = Completions.model_validate(outputs, strict=True)
    except ValidationError as error:
        raise BadAnswerError(_describe_shape(error)) from error
    choices = sorted(completions.choices, key=lambda choice: choice.index)
    if len(choices) != len(prompts):
        raise BadAnswerError(f"{len(prompts)} prompts with {len(choices)} choices; expected one for each prompt")
    indices = [choice.index for choice in choices]
    if indices != [*range(len(prompts))]:
        raise BadAnswerError(
            f"with choices of the indices {_short(indices)}; expected each of 0 to {len(prompts) - 1} once"
        )
    added = [len(choice.logprobs.token_logprobs) - len(prompt) for choice, prompt in zip(choices, prompts, strict=True)]
    generated = completions.usage.get("completion_tokens") if isinstance(completions.usage, Mapping) else None
    if {*added} != {1} and (min(added) < 0 or sum(added) != generated):
        wrong = next(number for number, count in enumerate(added) if count != 1)
        sent = len(prompts[wrong])
        raise BadAnswerError(
            f"a prompt of {sent} tokens with {sent + added[wrong]} log-probabilities; expected {sent + 1}, one for each token "
            "that was sent and one for the token that is generated. It does not echo the whole prompt, or has other tokens or "
            "a BOS token of its own (send token ids, which is the default, and name its tokenizer with tokenizer=...)"
        )
    return [
        _check_answer(choice, prompt, start, echo)
        for choice, prompt, start in zip(choices, prompts, starts, strict=True)
    ]


def _describe_shape(error: ValidationError) -> str:
    """Say where an answer has another shape than expected."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "answer"
    chat = " (the shape of chat completions)" if "content" in str(first["input"]) else ""
    hint = "; it must heed echo=true and logprobs=1" if "logprobs" in first["loc"] else ""
    return f"with {place} {_short(first['input'])}{chat}: {first['msg']}{hint}"


def _check_answer(choice: Choice, prompt: Sequence[int], start: int, echo: Echo | None) -> Answer:
    values, tops, tokens = choice.logprobs.token_logprobs, choice.logprobs.top_logprobs, choice.logprobs.tokens
    sent = len(prompt)
    for name, entries in (("top_logprobs", tops), ("tokens", tokens)):
        if entries is not None and len(entries) != len(values):
            raise BadAnswerError(f"with {len(values)} token_logprobs and {len(entries)} {name}")
    if values[0] is not None:
        raise BadAnswerError(
            f"{_short(values[0])} as log-probability of a prompt's first token, which has none: null was expected. Its "
            f"{len(values)} entries for {sent} tokens are shifted"
        )
    if echo is not None:
        echo.check(prompt, choice.text, tokens or [])
    for number in range(1, sent):
        value, top, place = values[number], tops[number], f"token {number + 1} of {sent}"
        if not _is_number(value) or value > _CERTAIN:
            raise BadAnswerError(
                f"{_short(value)} as log-probability of {place}; expected a number that is not above 0, nor below "
                f"{-_MOST_NATS:g}, as are those that stand for unlikely tokens"
            )
        if not isinstance(top, Mapping) or not top or not all(map(_is_number, top.values())):
            raise BadAnswerError(f"top_logprobs {_short(top)} for {place}; expected likely tokens")
        if value > max(top.values()) + _ROUNDED:
            raise BadAnswerError(f"{value:g} for {place}, above the likeliest one, {max(top.values()):g}")
        own = top.get(str(tokens[number])) if tokens else None
        # Two tokens may have one text: then the likelier one may have taken the place of the token itself.
        if own is not None and (value > own + _ROUNDED or (len(top) == 2 and value < own - _ROUNDED)):
            raise BadAnswerError(f"{value:g} for {place}, and {own:g} for the same token in top_logprobs")
    logprobs, scored = values[1:sent], values[start:sent]
    if (len(logprobs) > 1 and len(set(logprobs)) == 1) or (len(scored) > 1 and not any(scored)):
        raise BadAnswerError(
            f"{scored[0]:g} as log-probability of each of {len(scored)} tokens of a candidate; it does not score prompts"
        )
    after = values[sent] if len(values) > sent and _is_number(values[sent]) else None
    cut = {"token_logprobs": [*values[:sent], None], "top_logprobs": [*tops[:sent], None]}
    likeliest = [max(top.values()) for top in tops[1:sent]]
    cut_choice = {"index": choice.index, "logprobs": cut}
    return Answer(cut_choice, np.asarray(logprobs, float), np.asarray(likeliest, float), after)


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return value == -math.inf or abs(value) < _MOST_NATS


class Echo:
    """Compares the text and the tokens that a server echoes with those that were sent.

    White space, special tokens and parts of characters are left out, as servers write them in several ways.

    Args:
        tokenizer: of transformers, with which prompts were made.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        special = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._left_out = re.compile(
            "|".join([r"\s", "\ufffd", *map(re.escape, sorted(special, key=len, reverse=True))])
        )
        self._forms: dict[int, set[str]] = {}

    def check(self, prompt: Sequence[int], text: Any, tokens: Sequence[Any]) -> None:
        """Raise BadAnswerError if a server's text or tokens begin with another prompt than the one that was sent."""
        for number, (token, piece) in enumerate(zip(prompt, tokens, strict=False), start=1):
            if isinstance(piece, str) and not self._is(token, piece):
                name = self._tokenizer.decode([token])
                raise BadAnswerError(
                    f"{_short(piece)} as token {number} of {len(prompt)}, and {_short(name)} was sent{_OTHER}"
                )
        told = self._squeeze(text) if isinstance(text, str) else ""
        sent = self._squeeze(self._tokenizer.decode(prompt))
        # Some servers give the text that they generated alone.
        if told and not told.startswith(sent) and told != self._squeeze("".join(map(str, tokens[len(prompt) :]))):
            raise BadAnswerError(
                f"with the text {_short(text)}, which does not begin with the prompt that was sent{_OTHER}"
            )

    def _squeeze(self, text: str) -> str:
        return self._left_out.sub("", text)

    def _is(self, token: int, piece: str) -> bool:
        """Tell whether a piece may be a token's text, its name in the vocabulary, or its number as vLLM writes it."""
        if token not in self._forms:
            decoded, name = self._tokenizer.decode([token]), self._tokenizer.convert_ids_to_tokens(token)
            known = {self._squeeze(decoded), self._squeeze(str(name)), f"token_id:{token}"}
            self._forms[token] = set() if "\ufffd" in decoded or "" in known else known
        forms = self._forms[token]
        squeezed = self._squeeze(piece)
        return not forms or not squeezed or "\ufffd" in piece or piece.startswith("bytes:") or squeezed in forms


#: What an echo of other tokens means.
_OTHER = ": it is the answer to another prompt, or the server has another tokenizer"


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
    # The last number is not compared here: a shifted one may belong to the token after it, which only one of both has.
    expected = _finite([answer.logprobs[:-2] for answer in alone])
    answered = _finite([answer.logprobs[:-1] for answer in together])
    distances = np.abs(answered[:, None] - expected[None]).mean(axis=-1)
    differences = distances.diagonal()
    if (differences > np.minimum(4 * distances.min(axis=1) + _CERTAIN, _OTHER_ANSWER)).any():
        raise BadAnswerError(
            f"prompts in a batch of {min(size, len(probes))} with other numbers than alone ({differences.max():.2f} nats per "
            "token): its answers are not in the order of the prompts; try --batch_size 1"
        )
    _check_ends(list(zip(alone, together, strict=True)))


def _check_ends(pairs: Sequence[tuple[Answer, Answer]]) -> None:
    """Raise BadAnswerError if numbers belong to other tokens.

    Args:
        pairs: answers to prompts, and to the same without their last tokens.
    """
    moved = np.asarray([abs(_finite(head.logprobs[-1]) - _finite(whole.logprobs[-2])) for whole, head in pairs])
    generated = np.asarray([math.nan if head.generated is None else head.generated for _, head in pairs])
    likeliest = np.asarray([whole.likeliest[-1] for whole, _ in pairs])
    # Some servers give a token that greedy decoding generates the probability 1: that says nothing.
    informative = np.less(generated, -1e-3)
    strange = informative & (np.abs(generated - likeliest) > _OTHER_NUMBER)
    if (moved > _OTHER_NUMBER).mean() > 0.5 or (informative.sum() > 1 and strange.sum() > informative.sum() / 2):
        raise BadAnswerError(
            "log-probabilities that belong to the token before or after (llama-cpp-python does so for models that add no "
            "BOS token)"
        )


def _finite(logprobs: Any) -> NDArray[np.float64]:
    """Put a number in the place of the minus infinity that an impossible token may have."""
    return np.asarray(np.clip(np.asarray(logprobs, float), -_MOST_NATS, 0))


class AskedAgain:
    """Prompts of a run that are asked again without their last tokens, which finds what only long prompts show.

    Attributes:
        seen: number of prompts that were answered.
        waiting: prompts that are to be asked -> answers to the same with one token more.
        pairs: answers to prompts, and to the same without their last tokens.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.waiting: dict[tuple[int, ...], Answer] = {}
        self.pairs: list[tuple[Answer, Answer]] = []

    def heads_of(self, prompts: Iterable[list[int]]) -> Iterator[list[int]]:
        """Yield those of some prompts that are to be asked again, without their last tokens."""
        yield from (prompt[:-1] for prompt in prompts if tuple(prompt[:-1]) in self.waiting)

    def take(
        self, prompts: Sequence[list[int]], answers: Sequence[Answer], survives: Callable[[list[int]], bool]
    ) -> None:
        """Take answers: choose those of which to ask again, and compare those to what was asked again.

        Args:
            prompts: that were sent.
            answers: to them.
            survives: tells whether a prompt reaches the server as these tokens.

        Raises:
            BadAnswerError: the answers contradict one another.
        """
        for prompt, answer in zip(prompts, answers, strict=True):
            if whole := self.waiting.pop(tuple(prompt), None):
                self.pairs.append((whole, answer))
                self._compare(whole, answer)
                continue
            self.seen += 1
            head = prompt[:-1]
            too_few = len(self.pairs) + len(self.waiting) < max(_LEAST_AGAIN, self.seen * _AGAIN)
            if too_few and len(head) > _PROBE_TOKENS and survives(head):
                self.waiting[tuple(head)] = answer

    def _compare(self, whole: Answer, head: Answer) -> None:
        expected, answered = _finite(whole.logprobs[:-2]), _finite(head.logprobs[:-1])
        difference, change = np.abs(answered - expected).mean(), np.abs(np.diff(expected)).mean()
        if difference > min(max(change / 4, _CERTAIN), _OTHER_ANSWER):
            raise BadAnswerError(
                f"a prompt of {len(whole.logprobs) + 1} tokens with other numbers than the same without its last token "
                f"({difference:.2f} nats per token)"
            )
        if len(self.pairs) >= _LEAST_AGAIN // 2:
            _check_ends(self.pairs)


# ---------------------------------------------------------------- what a model writes

#: What may stand in an answer without a text.
_INSTEAD = ("refusal", "tool_calls", "function_call", "reasoning_content", "reasoning")
#: Most tokens that a server can tell of: whole numbers up to it are floats, too.
_MOST_TOKENS = 2**53


class Block(BaseModel):
    """A part of an answer."""

    type: str = "text"
    text: str | None = None


class Message(BaseModel, extra="allow"):
    """What a model wrote, in one text or in blocks, as of thoughts and an answer.

    It is the ``message`` of a choice of OpenAI's API of chats, and the whole answer of Anthropic's.
    """

    content: str | list[Block] | None = None

    @property
    def text(self) -> str:
        """The text, empty where there is none. A lone half of a surrogate pair, which no file can hold, becomes U+FFFD."""
        parts = [self.content] if isinstance(self.content, str) else [block.text for block in self.content or ()]
        text = "".join(part or "" for part in parts)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    @property
    def instead(self) -> str | None:
        """What the answer holds in place of a text."""
        blocks = [] if isinstance(self.content, str) else [block.type for block in self.content or ()]
        found = [*(name for name in _INSTEAD if (self.model_extra or {}).get(name)), *blocks]
        return next((name for name in found if name != "text"), None)


class WrittenChoice(BaseModel):
    """One of the texts of an answer."""

    index: int = 0
    message: Message | None = None
    text: str | None = None
    delta: None = None  # of a stream, which is not read
    finish_reason: Any = None


class Written(BaseModel):
    """What a server says to a chat, or to prompts that are to be continued."""

    choices: list[WrittenChoice]
    usage: Any = None


#: Stands for the answer to a prompt that a server does not let through.
_FILTERED = {"choices": [{"text": "", "finish_reason": "content_filter"}]}


class WrittenText(str):
    """What a model wrote; lm-eval's cache keeps its attributes, too.

    Attributes:
        usage: what the server tells of it: ``in`` and ``out``, numbers of tokens; ``ended``, why the text ends; where there is
            no text, ``instead``, what the answer holds, such as ``tool_calls``.
    """

    usage: Mapping[str, Any]


def _write(client: Any, write: Any, requests: Any, **kwargs: Any) -> Any:
    """Send what the run asks for and no more, and keep what the server tells of each answer.

    Upstream, requests have an empty ``stop``, and parameters that ``--gen_kwargs`` sets to None.
    """
    sent: dict[str, Any] = {}
    create, call, call_later = client._create_payload, client.model_call, client.amodel_call
    parse = client.parse_generations

    def create_payload(*args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = create(*args, **kwargs).items()
        asked = {key: value for key, value in payload if value not in (None, []) and key != "max_gen_toks"}
        sent.update(asked)
        return asked

    def read(outputs: Any, **kwargs: Any) -> list[WrittenText]:
        if isinstance(outputs, _Texts):  # of `model_call`
            return outputs
        api = "content" if hasattr(client, "anthropic_version") else "message" if "messages" in sent else "text"
        return read_written(outputs, parse, api)

    def count(texts: Any, messages: Sequence[Any]) -> Any:
        if len(texts) != len(messages):
            raise ModelError(f"the server gives {len(texts)} answers to {len(messages)} questions")
        return texts

    def model_call(*args: Any, messages: Any, **kwargs: Any) -> Any:
        try:
            return count(read(call(*args, messages=messages, **kwargs)), messages)
        except FilteredError:
            return _Texts(read_written(_FILTERED, parse, "text") * len(messages))

    async def amodel_call(*args: Any, messages: Any, **kwargs: Any) -> Any:
        try:
            return count(await call_later(*args, messages=messages, **kwargs), messages)
        except FilteredError:
            return _Texts(read_written(_FILTERED, parse, "text") * len(messages))

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


class _Texts(list[WrittenText]):
    """The texts of an answer that was read."""


def read_written(answer: Any, parse: Callable[..., list[Any]], api: str) -> _Texts:
    """Read the texts of an answer.

    Args:
        answer: the JSON.
        parse: reads an answer with one text, of which a client may leave thoughts out.
        api: where the text is: ``message`` of a choice (chats), ``text`` of a choice (completions), ``content`` (Anthropic's
            messages).

    Raises:
        BusyError: the answer is an error with the status of a success.
        ModelError: it is in the shape of another API.
    """
    if not isinstance(answer, Mapping) or answer.get("error"):
        raise BusyError(_read_message(json.dumps(answer)))
    of_anthropic = {"choices": [{"message": answer, "finish_reason": answer.get("stop_reason")}]}
    texts = _Texts()
    try:
        written = Written.model_validate({**of_anthropic, "usage": answer.get("usage")} if api == "content" else answer)
        choices = sorted(written.choices, key=lambda choice: choice.index)
        if api == "content" and "content" not in answer:
            raise ValueError
        for index, choice in enumerate(choices):
            message = Message(content=choice.text) if api == "text" else choice.message
            if choice.index != index or (choice.text if api != "text" else choice.message) is not None:
                raise ValueError
            texts.append(_keep_usage(message or Message(), choice.finish_reason, written.usage, parse))
    except ValueError as error:  # pydantic's is one, too
        raise ModelError(
            f"the server answers {_short(answer)}, without {_PLACES[api]}: it has another API than --model; base_url in "
            "--model_args is the whole address, such as http://HOST/v1/chat/completions"
        ) from error
    return texts


#: Where the text is that a client reads.
_PLACES = {"message": "choices[].message.content", "text": "choices[].text", "content": "content[].text"}


def _keep_usage(message: Message, ended: Any, usage: Any, parse: Callable[..., list[Any]]) -> WrittenText:
    """Give the text of an answer with what the server tells of it."""
    parts = {"index": 0, "message": {"content": message.text}, "text": message.text}
    [text] = parse({"choices": [parts], "content": [{"text": message.text}]})
    written = WrittenText(text or "")
    usage = usage if isinstance(usage, Mapping) else {}
    facts = {
        "in": _read_count(usage.get("prompt_tokens", usage.get("input_tokens"))),
        "out": _read_count(usage.get("completion_tokens", usage.get("output_tokens"))),
        "ended": ended if isinstance(ended, str) and ended.isprintable() else None,
        "instead": None if written else message.instead,
    }
    written.usage = {key: value for key, value in facts.items() if value is not None}
    return written


def _read_count(value: Any) -> int | None:
    """Read a number of tokens; None where it is none."""
    return int(value) if isinstance(value, (int, float)) and 0 <= value < _MOST_TOKENS else None
