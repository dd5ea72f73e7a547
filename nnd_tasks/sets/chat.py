"""Chats as text: the messages that both sides of a preference pair begin with are the context, the rests the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: How a context of several messages ends; the candidates follow.
ANSWER = "\n\nAssistant:"
_KEYS = (("role", "content"), ("from", "value"))
_NAMES = {
    **dict.fromkeys(("user", "human", "prompter"), "User"),
    **dict.fromkeys(("assistant", "gpt"), "Assistant"),
    "system": "System",
}
Message = tuple[str, str]


def is_chat(value: Any) -> bool:
    """Tell whether a cell is a list of messages: objects with ``role`` and ``content``, or ``from`` and ``value``."""
    return isinstance(value, (list, tuple)) and bool(value) and all(_keys_of(item) for item in value)


def _keys_of(item: Any) -> tuple[str, str] | None:
    if not isinstance(item, Mapping):
        return None
    return next((keys for keys in _KEYS if isinstance(item.get(keys[0]), str) and keys[1] in item), None)


def _messages(chat: Sequence[Any]) -> list[Message]:
    messages = []
    for item in chat:
        role, content = _keys_of(item) or _KEYS[0]
        name, text = item[role].strip(), item[content]
        if isinstance(text, list):
            text = "\n".join(part.get("text", "") if isinstance(part, Mapping) else str(part) for part in text)
        if not isinstance(text, str):
            raise ValueError(f"a message of {name!r} has no text")
        messages.append((_NAMES.get(name.lower(), name), text))
    return messages


def _join(messages: Sequence[Message]) -> str:
    return messages[0][1] if len(messages) == 1 else "\n\n".join(f"{name}: {text}" for name, text in messages)


def render_chat(chat: Sequence[Any]) -> str:
    """Return messages as text: a single one as it is, several with the name of the speaker before each.

    Raises:
        ValueError: a message has no text.
    """
    return _join(_messages(chat))


def split_pair(chosen: Any, rejected: Any) -> tuple[str, Any, Any] | None:
    """Return the messages that both chats of a pair begin with, and the rest of each, as text.

    The common beginning is the longest one that leaves each side a message. Texts that are no chats have none.

    Returns:
        Context and rests; None where the two answer different prompts: they differ in a turn that is not the assistant's, or
        one is a chat and the other a text.

    Raises:
        ValueError: a message has no text, or a text is a whole dialogue.
    """
    if not (is_chat(chosen) and is_chat(rejected)):
        if ANSWER in str(chosen) and ANSWER in str(rejected):
            raise ValueError("a dialogue in one text; split it into messages in prepare.py")
        apart = chosen and rejected and (is_chat(chosen) or is_chat(rejected))
        return None if apart else ("", chosen, rejected)
    one, other = _messages(chosen), _messages(rejected)
    shared, most = 0, min(len(one), len(other)) - 1
    while shared < most and one[shared] == other[shared]:
        shared += 1
    if max(len(one), len(other)) > 1 and any(chat[shared][0] in ("User", "System") for chat in (one, other)):
        return None
    context = _join(one[:shared]) + (ANSWER if shared > 1 else "") if shared else ""
    return context, _join(one[shared:]), _join(other[shared:])
