"""Chats as text: what both texts of a preference pair begin with is the context, the rests are the candidates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nnd_tasks.schema import fold

#: A speaker, and what they say.
Message = tuple[str, str]
#: How a turn begins in datasets that write chats as one text (such as Anthropic's HH-RLHF).
_ANSWER, _QUESTION = "\n\nAssistant:", "\n\nHuman:"
#: Keys of a message for its speaker and its text.
_KEYS = (("role", "content"), ("from", "value"))
_NAMES = {
    **dict.fromkeys(("user", "human", "prompter"), "User"),
    **dict.fromkeys(("assistant", "gpt"), "Assistant"),
    "system": "System",
}
_ASKING = {"User", "System"}


def is_chat(value: Any) -> bool:
    """Tell whether a cell is a list of messages: objects with ``role`` and ``content``, or ``from`` and ``value``."""
    return isinstance(value, (list, tuple)) and bool(value) and all(_keys(item) is not None for item in value)


def _keys(item: Any) -> tuple[str, str] | None:
    """Return the keys of a message for its speaker and its text, or None where ``item`` is not a message."""
    if not isinstance(item, Mapping):
        return None
    return next((keys for keys in _KEYS if isinstance(item.get(keys[0]), str) and keys[1] in item), None)


def messages_of(chat: Sequence[Any]) -> list[Message]:
    """Return the messages of a chat.

    Raises:
        ValueError: a message without text.
    """
    messages = []
    for number, item in enumerate(chat, start=1):
        role, content = _keys(item) or _KEYS[0]
        name = item[role].strip()
        text = _content(item[content])
        if text is None:
            raise ValueError(f"message {number} ({name}) has no text as its {content}")
        messages.append((_NAMES.get(name.lower(), name), text))
    return messages


def _content(value: Any) -> str | None:
    """Return the text of a message: a text, or a list of texts as lines; None for anything else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or not value:
        return None
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(parts) else None


def render_chat(chat: Sequence[Any]) -> str:
    """Return messages as text: a single one as it is, several with the name of the speaker before each.

    Raises:
        ValueError: a message without text.
    """
    return _render(messages_of(chat))


def _render(messages: Sequence[Message]) -> str:
    if len(messages) == 1:
        return messages[0][1]
    return "\n\n".join(f"{name}: {content}" for name, content in messages)


class Split(NamedTuple):
    """A pair without the common beginning of its texts.

    Attributes:
        context: the common beginning, ``""`` where there is none.
        turns: the texts of its turns.
        chosen: the rest of the better text.
        rejected: the rest of the worse text.
    """

    context: str
    turns: tuple[str, ...]
    chosen: Any
    rejected: Any


def split_pair(chosen: Any, rejected: Any) -> Split | None:
    """Split off the common beginning of the two texts of a pair.

    Args:
        chosen: messages or text.
        rejected: likewise.

    Returns:
        The pair, or None where its texts answer different prompts: they differ in a turn that is not the assistant's, or one is
        a chat and the other a text. Of two chats the context is the longest common beginning that leaves each side a message;
        of two texts it ends with the last ``Assistant:`` that both have.

    Raises:
        ValueError: a message without text.
    """
    if isinstance(chosen, str) and isinstance(rejected, str) and _ANSWER not in chosen and _ANSWER not in rejected:
        return Split("", (), chosen, rejected)
    chats = is_chat(chosen), is_chat(rejected)
    if all(chats):
        return _split_chats(messages_of(chosen), messages_of(rejected))
    if _blank(chosen) or _blank(rejected):
        return Split("", (), chosen, rejected)  # left out later, as empty
    if any(chats):
        return None
    if isinstance(chosen, str) and isinstance(rejected, str):
        return _split_texts(chosen, rejected)
    return Split("", (), chosen, rejected)


def _blank(value: Any) -> bool:
    return value is None or not (value.strip() if isinstance(value, str) else value)


def _split_chats(chosen: list[Message], rejected: list[Message]) -> Split | None:
    shared, most = 0, min(len(chosen), len(rejected)) - 1
    while shared < most and chosen[shared] == rejected[shared]:
        shared += 1
    rests = chosen[shared:], rejected[shared:]
    if max(len(chosen), len(rejected)) > 1 and any(rest[0][0] in _ASKING for rest in rests):
        return None
    start = chosen[:shared]
    context = _render(start) + (_ANSWER if shared > 1 else "")
    return Split(context, tuple(content for _, content in start), _render(rests[0]), _render(rests[1]))


def _split_texts(chosen: str, rejected: str) -> Split | None:
    end = 0
    while (place := chosen.find(_ANSWER, end)) >= 0:
        stop = place + len(_ANSWER)
        if rejected[:stop] != chosen[:stop]:
            break
        end = stop
    if not end:
        return None if _is_dialogue(chosen) or _is_dialogue(rejected) else Split("", (), chosen, rejected)
    rests = chosen[end:], rejected[end:]
    answer, asked, _ = rests[0].partition(_QUESTION)
    if asked and rests[1].startswith(answer + asked):
        return None
    context = chosen[:end].lstrip("\n")
    turns = tuple(turn for turn in re.split(r"(?:^|\n\n)(?:Human|Assistant):", context) if turn.strip())
    return Split(context, turns, rests[0].strip(), rests[1].strip())


def _is_dialogue(text: str) -> bool:
    return text.lstrip().startswith(_QUESTION.lstrip()) and _ANSWER in text


def ends_open(context: str) -> bool:
    """Tell whether a context ends with ``Assistant:``, so that the assistant's turn follows."""
    return context.endswith(_ANSWER)


def add_context(column: str, split: Split) -> str:
    """Return the context of a pair whose table has a column for it, so that no shared turn is lost.

    If the column contains all shared turns, it is the context. If the shared turns contain the column, they are the context.
    Otherwise the context is the column and then the shared turns.
    """
    if not split.turns:
        return column
    place, folded = 0, fold(column)
    for turn in map(fold, split.turns):
        start = folded.find(turn, place)
        if start < 0:
            break
        place = start + len(turn)
    else:
        return column
    return split.context if folded in fold(split.context) else f"{column}\n\n{split.context}"
