"""Chats as text: what both answers of a preference pair share is the context, the rest are the candidates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nnd_tasks.schema import fold

#: Who speaks, and what.
Message = tuple[str, str]
#: How a turn begins in datasets that write chats as one text (such as Anthropic's HH-RLHF).
_ANSWER, _QUESTION = "\n\nAssistant:", "\n\nHuman:"
#: Keys of a message for who speaks, and what.
_KEYS = (("role", "content"), ("from", "value"))
_NAMES = {
    "user": "User",
    "human": "User",
    "prompter": "User",
    "assistant": "Assistant",
    "gpt": "Assistant",
    "system": "System",
}
_ASKING = {"User", "System"}


def is_chat(value: Any) -> bool:
    """Tell whether a cell is a list of messages: objects with ``role`` and ``content``, or ``from`` and ``value``."""
    return isinstance(value, (list, tuple)) and bool(value) and all(_keys(item) is not None for item in value)


def _keys(item: Any) -> tuple[str, str] | None:
    """Return under which keys a message has who speaks and what, or None where ``item`` is no message."""
    if not isinstance(item, Mapping):
        return None
    return next((keys for keys in _KEYS if isinstance(item.get(keys[0]), str) and keys[1] in item), None)


def messages_of(chat: Sequence[Any]) -> list[Message]:
    """Return who speaks, and what, of each message of a chat.

    Raises:
        ValueError: a message without text.
    """
    found = []
    for number, item in enumerate(chat, start=1):
        role, content = _keys(item) or _KEYS[0]
        name = item[role].strip()
        text = _content(item[content])
        if text is None:
            raise ValueError(f"message {number} ({name}) has no text as its {content}")
        found.append((_NAMES.get(name.lower(), name), text))
    return found


def _content(value: Any) -> str | None:
    """Return what a message says: a text, or a list of parts that are texts, one per line; None for anything else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or not value:
        return None
    parts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(parts) else None


def render_chat(chat: Sequence[Any]) -> str:
    """Return messages as text: one alone as it is, several with the name of each speaker before them.

    Raises:
        ValueError: a message without text.
    """
    return _render(messages_of(chat))


def _render(messages: Sequence[Message]) -> str:
    if len(messages) == 1:
        return messages[0][1]
    return "\n\n".join(f"{name}: {content}" for name, content in messages)


class Split(NamedTuple):
    """A pair whose common beginning was taken off.

    Attributes:
        context: that beginning, ``""`` where there is none.
        turns: what is said in it, turn by turn.
        chosen: rest of the one text.
        rejected: rest of the other.
    """

    context: str
    turns: tuple[str, ...]
    chosen: Any
    rejected: Any


def split_pair(chosen: Any, rejected: Any) -> Split | None:
    """Take from the two texts of a pair what they begin with alike.

    Args:
        chosen: messages or text.
        rejected: likewise.

    Returns:
        The pair, or None where its texts answer different prompts: they part in what another than the assistant says, or one is a
        chat and the other a text. Of messages the context is the longest common beginning that leaves each side a message; of
        texts it ends with the last ``Assistant:`` of a turn that both have.

    Raises:
        ValueError: a message without text.
    """
    if isinstance(chosen, str) and isinstance(rejected, str) and _ANSWER not in chosen and _ANSWER not in rejected:
        return Split("", (), chosen, rejected)
    chats = is_chat(chosen), is_chat(rejected)
    if all(chats):
        return _split_chats(messages_of(chosen), messages_of(rejected))
    if _blank(chosen) or _blank(rejected):
        return Split("", (), chosen, rejected)  # is left out as such
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
    """Tell whether a context ends where the assistant's turn begins."""
    return context.endswith(_ANSWER)


def add_context(column: str, split: Split) -> str:
    """Return the context of a pair whose table has a column for it: no turn that both texts share is lost.

    The column is the context where it says what the shared turns say; the shared turns are where they say what the column
    says; otherwise both, the column first.
    """
    if not split.turns:
        return column
    place, folded = 0, fold(column)
    for turn in map(fold, split.turns):
        found = folded.find(turn, place)
        if found < 0:
            break
        place = found + len(turn)
    else:
        return column
    return split.context if folded in fold(split.context) else f"{column}\n\n{split.context}"
