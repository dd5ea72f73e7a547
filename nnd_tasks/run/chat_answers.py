"""What a server answers where a model writes: a text and its tokens, or why there is none.

lm-eval's clients (`TemplateAPI`, 0.4.13) ask again after any error, throw ``usage`` away, and end a run with the status alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from nnd_tasks.errors import cut_middle, one_line
from nnd_tasks.models.model_error import ModelError

#: Statuses below 500 of a server that may answer the same request later.
_LATER = (408, 429)
#: Seconds: a server that asks to wait for longer ends the run.
_LONGEST_PAUSE = 600
#: Status of a refusal that no parameter causes -> what to do.
_ADVICE = {
    **dict.fromkeys((401, 403), "lm-eval's clients read the key from OPENAI_API_KEY or ANTHROPIC_API_KEY"),
    **dict.fromkeys(
        (404, 405), "base_url in --model_args is the whole address, such as http://HOST/v1/chat/completions"
    ),
    429: "it asks to wait for longer than ten minutes",
}
#: What a request asks; all else in it is a parameter, which a server may refuse.
_ASKED = ("model", "messages", "prompt", "system")
#: Stands for the answer to a prompt that a server does not let through, in the forms of all clients.
NO_ANSWER: dict[str, Any] = {
    "choices": [{"index": 0, "message": {"content": ""}, "text": "", "finish_reason": "content_filter"}],
    "content": [{"text": ""}],
}


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
    """

    def __init__(self, message: str, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class WrittenText(str):
    """What a model wrote; lm-eval's cache keeps its attributes, too.

    Attributes:
        usage: what the server tells of it: ``in`` and ``out``, numbers of tokens, and ``ended``, why the text ends.
    """

    usage: Mapping[str, Any]


def check_status(status: int, headers: Mapping[str, str], text: str) -> None:
    """Raise an error for an answer that has no text of the model.

    Raises:
        FilteredError: the prompt is not let through.
        BusyError: the same request may be answered later.
        RefusedError: it will not be.
    """
    if status < 400:
        return
    if status == 400 and "content_filter" in text:
        raise FilteredError(_read_message(text))
    pause = None
    if asked := str(headers.get("Retry-After") or ""):
        pause = _read_pause(asked)
    if (status >= 500 or status in _LATER) and (pause or 0) <= _LONGEST_PAUSE:
        raise BusyError(f"status {status}: {_read_message(text)}", pause)
    raise RefusedError(status, text)


def _read_pause(asked: str) -> float | None:
    """Read the seconds that ``Retry-After`` asks to wait for; it may be a date."""
    with suppress(ValueError):
        return max(float(asked), 0.0)
    with suppress(ValueError, TypeError):
        return max((parsedate_to_datetime(asked) - datetime.now(timezone.utc)).total_seconds(), 0.0)
    return None


def explain_refusal(error: RefusedError, sent: Mapping[str, Any]) -> str:
    """Say what a server refuses, and what to do.

    Args:
        error: with its answer.
        sent: the request.
    """
    message = _read_message(error.text)
    said = f"the server refuses the request ({error.status}): {message}"
    if error.status in _ADVICE and not (error.status == 404 and "model" in message.lower()):
        return f"{said}; {_ADVICE[error.status]}"
    parameters = "|".join(name for name in sent if name not in _ASKED)
    # Some servers name the parameter apart from the message.
    named = re.search(rf"\b({parameters})\b", f"{message} {error.text}") if parameters else None
    if named is None:
        return said
    if "max" in named[1] and "too large" in message:
        return f"{said}; --gen_kwargs max_gen_toks=N asks for fewer"
    instead = f",max_completion_tokens={sent['max_tokens']}" if named[1] == "max_tokens" else ""
    return f"{said}; --gen_kwargs {named[1]}=None{instead} leaves {named[1]} out"


def _read_message(text: str) -> str:
    """Read what a server says of an error, in JSON of several shapes or as text."""
    answer: Any = text
    with suppress(ValueError, RecursionError):
        answer = json.loads(text)
    for key in ("error", "detail", "message"):
        if isinstance(answer, Mapping) and answer.get(key):
            answer = answer[key]
    return cut_middle(one_line(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)), 300)


def join_blocks(answer: Any) -> Any:
    """Join the texts of an answer in blocks, as of thoughts and an answer, which lm-eval would take for several answers.

    Raises:
        BusyError: the answer is none, or an error with the status of a success.
    """
    answers = isinstance(answer, Mapping) and answer.keys() & {"choices", "content"}
    if not answers or (answer.get("error") and not answer.get("choices")):
        raise BusyError(_read_message(json.dumps(answer)))
    messages: list[Any] = [answer, *(choice.get("message") or {} for choice in answer.get("choices") or ())]
    for message in messages:
        if isinstance(message.get("content"), list):
            text = "".join(str(block.get("text") or "") for block in message["content"])
            message["content"] = text if message is not answer else [{"text": text}]  # as Anthropic's client reads it
    return answer


def keep_usage(text: str | None, answer: Any) -> WrittenText:
    """Give the text of an answer, empty where it is null, with what the server tells of it."""
    written = WrittenText(text or "")
    usage, choices = answer.get("usage") or {}, answer.get("choices") or [answer]
    told = {
        "in": usage.get("prompt_tokens", usage.get("input_tokens")),
        "out": usage.get("completion_tokens", usage.get("output_tokens")),
        "ended": choices[0].get("finish_reason") or choices[0].get("stop_reason"),
    }
    written.usage = {key: value for key, value in told.items() if value is not None}
    return written
