"""Chats as text: what both answers of a preference pair share is the context, the rest are the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: How a turn begins in datasets that write chats as one text (such as Anthropic's HH-RLHF).
_ANSWER = "\n\nAssistant:"
_NAMES = {
    "user": "User",
    "human": "User",
    "prompter": "User",
    "assistant": "Assistant",
    "gpt": "Assistant",
    "system": "System",
}


def is_chat(value: Any) -> bool:
    """Tell whether a cell is a list of messages: objects with ``role`` and ``content``, or ``from`` and ``value``."""
    return isinstance(value, (list, tuple)) and bool(value) and all(_message(item) is not None for item in value)


def _message(item: Any) -> tuple[str, str] | None:
    """Return who speaks, and what, or None where ``item`` is no message."""
    if not isinstance(item, Mapping):
        return None
    for role, content in (("role", "content"), ("from", "value")):
        if isinstance(item.get(role), str) and isinstance(item.get(content), str):
            name = item[role].strip()
            return _NAMES.get(name.lower(), name), item[content]
    return None


def render_chat(messages: Sequence[Any]) -> str:
    """Return messages as text: one alone as it is, several with the name of each speaker before them."""
    found = [message for item in messages if (message := _message(item)) is not None]
    if len(found) == 1:
        return found[0][1]
    return "\n\n".join(f"{name}: {content}" for name, content in found)


def _as_context(messages: Sequence[Any]) -> str:
    text = render_chat(messages)
    return text if len(messages) < 2 else text + _ANSWER


def split_pair(chosen: Any, rejected: Any) -> tuple[str, Any, Any]:
    """Take from the two texts of a pair what they begin with alike.

    Args:
        chosen: messages or text.
        rejected: likewise.

    Returns:
        The common context, ``""`` where there is none, and the two candidates. Of messages the context is the longest common
        beginning that leaves each side a message; of texts it ends with the last ``Assistant:`` of a turn that both have.
    """
    if is_chat(chosen) and is_chat(rejected):
        shared = 0
        most = min(len(chosen), len(rejected)) - 1
        while shared < most and _message(chosen[shared]) == _message(rejected[shared]):
            shared += 1
        return _as_context(chosen[:shared]), render_chat(chosen[shared:]), render_chat(rejected[shared:])
    if isinstance(chosen, str) and isinstance(rejected, str):
        end = 0
        while (place := chosen.find(_ANSWER, end)) >= 0:
            stop = place + len(_ANSWER)
            if rejected[:stop] != chosen[:stop]:
                break
            end = stop
        return (
            chosen[:end].lstrip("\n"),
            chosen[end:].strip() if end else chosen,
            rejected[end:].strip() if end else rejected,
        )
    return "", chosen, rejected
