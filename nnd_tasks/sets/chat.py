"""Chats as text: what both texts of a preference pair begin with is the context, the rests are the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: How a turn begins in datasets that write chats as one text, such as Anthropic's HH-RLHF.
ANSWER, QUESTION = "\n\nAssistant:", "\n\nHuman:"
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
    """Return the common beginning of the two texts of a pair, and their rests.

    Of two chats the context is the longest common beginning that leaves each side a message; of two dialogues in one text it
    ends with the last ``Assistant:`` that both have. Other texts have no common beginning.

    Returns:
        Context and rests; None where the texts answer different prompts: they differ in a turn that is not the assistant's, or
        one is a chat and the other a text.

    Raises:
        ValueError: a message has no text.
    """
    if is_chat(chosen) and is_chat(rejected):
        return _split_chats(_messages(chosen), _messages(rejected))
    if is_chat(chosen) or is_chat(rejected):
        return None if chosen and rejected else ("", chosen, rejected)
    if not (isinstance(chosen, str) and isinstance(rejected, str) and (ANSWER in chosen or ANSWER in rejected)):
        return "", chosen, rejected
    end = 0
    while (place := chosen.find(ANSWER, end)) >= 0 and rejected.startswith(chosen[: place + len(ANSWER)]):
        end = place + len(ANSWER)
    if not end:
        dialogues = [text.lstrip().startswith(QUESTION.lstrip()) for text in (chosen, rejected)]
        return None if any(dialogues) else ("", chosen, rejected)
    answer, asked, _ = chosen[end:].partition(QUESTION)
    if asked and rejected[end:].startswith(answer + asked):
        return None
    return chosen[:end].lstrip("\n"), chosen[end:].strip(), rejected[end:].strip()


def _split_chats(chosen: list[Message], rejected: list[Message]) -> tuple[str, Any, Any] | None:
    shared, most = 0, min(len(chosen), len(rejected)) - 1
    while shared < most and chosen[shared] == rejected[shared]:
        shared += 1
    rests = chosen[shared:], rejected[shared:]
    if max(len(chosen), len(rejected)) > 1 and any(rest[0][0] in ("User", "System") for rest in rests):
        return None
    context = _join(chosen[:shared]) + (ANSWER if shared > 1 else "") if shared else ""
    return context, _join(rests[0]), _join(rests[1])
